//! OEF for tenants who cooperate: as much speed in all as there is, while nobody would rather have another's GPUs.
//!
//! With w_l the speed-ups of user l over its slowest kind, π_l its weight and x_lj the GPUs of kind j that it holds:
//!
//!   maximise   Σ_l w_l·x_l
//!   s.t.       Σ_l x_lj ≤ m_j                        every kind j
//!              w_l·x_l / π_l ≥ w_l·x_i / π_i         all users l, i
//!              x ≥ 0
//!
//! Averaged over i the rows say that everybody has at least what an equal division of the GPUs in use would give it:
//! envy-freeness contains the sharing incentive. [`arles_lp::envy`] has the method. Its answer is feasible and envy-free
//! whenever it stops, and its certificate says how far the sum may be from the largest.
//!
//! A user can hold d_l GPUs at most, all its gangs at once. Where that keeps nobody from its bundle, the above is the answer.
//! Where it does, taking the rows literally would waste: l's row counts GPUs of i that l could not use, and one tenant
//! with one small job would hold everybody down. What is then asked for is that nobody would rather have another's GPUs
//! *as far as it could use them*, and everybody gets what it can best buy with an income of π_l within its cap, at prices
//! that clear the market ([`arles_lp::nash`], equal incomes): envy-free in this sense and no worse than an equal division,
//! with a sum that is near the largest without caps, and is not proved to be with them. The certificate then is a
//! bound on any division at all, fair or not.
//!
//! Rounds differ little: both start from the last one.

use super::shares::Shares;
use super::{AllocateError, Allocation, Certificate, Entitlement, Policy, PolicyEntry, Problem, Promise, Proposal};
use crate::allocate::ClassId;
use arles_lp::envy::{self, EnvyFree};
use arles_lp::{Budget, nash};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "oef-coop",
    summary: "OEF for cooperative tenants (truthful speed-ups): the largest total speed-up among envy-free allocations",
    promises: &[Promise::ScaleFree, Promise::SharingIncentive, Promise::EnvyFree, Promise::Optimal],
    make: || Box::<Cooperative>::default(),
    ..PolicyEntry::DIVIDES_BY_TENANT
};

#[derive(Default)]
pub(super) struct Cooperative {
    memory: Mutex<Memory>,
}

/// The last answers, to start from.
#[derive(Default)]
struct Memory {
    nash: nash::Workspace,
    /// What every class had to be given to spend its income under its cap.
    money: BTreeMap<ClassId, f64>,
    envy: Option<envy::Solution>,
}

/// What was found.
struct Found {
    x: Vec<f64>,
    prices: Vec<f64>,
    certificate: Certificate,
}

/// A kind on which a user does less than this part of what it does on its fastest counts as one that it does not fit on:
/// in a sum of speed-ups such a user would drown all others.
const WORTH_HAVING: f64 = 1e-4;
/// Programs solved for equal incomes after the first round: prices follow over the rounds.
const TURNS_LATER: u32 = 3;
/// Pivots in one answer: enough for a thousand users, and an end for more.
const PIVOTS: Budget = Budget::iterations(100_000);

impl Policy for Cooperative {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let mut shares = Shares::new(problem, Entitlement::Tenants);
        shares.drop_slower_than(WORTH_HAVING);
        if shares.users.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let incomes = memory.equal_incomes(problem, &shares)?;
        let found = if incomes.capped { None } else { memory.envy_free(problem, &shares)? };
        let Found { x, prices, certificate } = found.unwrap_or_else(|| {
            let lower = shares.w.iter().zip(&incomes.x).map(|(w, x)| w * x).sum();
            let upper = most(problem, &shares, &incomes.prices).max(lower);
            // The market's prices are not what a GPU is worth to the sum.
            Found { x: incomes.x, prices: Vec::new(), certificate: Certificate { lower, upper } }
        });
        let grants = shares.grants(problem, &x);
        let (objective, certificate) = (Some(certificate.lower), Some(certificate));
        Allocation::check(problem, Proposal { grants, objective, certificate, prices, ..Proposal::default() })
    }
}

impl Memory {
    fn equal_incomes(&mut self, problem: &Problem, shares: &Shares) -> Result<nash::Incomes, AllocateError> {
        let Shares { w, weight, caps, users } = shares;
        let asked = nash::Nash { w, weight, caps, capacity: &problem.capacity };
        let class = |u: &usize| problem.users[*u].class;
        let start = |(u, weight): (&usize, &f64)| self.money.get(&class(u)).copied().unwrap_or(*weight);
        let start: Vec<f64> = users.iter().zip(weight).map(start).collect();
        let turns = if self.money.is_empty() { nash::TURNS } else { TURNS_LATER };
        let incomes = self.nash.equal_incomes(&asked, Some(&start), turns, Budget::default())?;
        self.money = users.iter().map(class).zip(incomes.money.iter().copied()).collect();
        Ok(incomes)
    }

    /// The envy-free optimum without caps; `None` if somebody's would be broken.
    fn envy_free(&mut self, problem: &Problem, shares: &Shares) -> Result<Option<Found>, AllocateError> {
        // Only kinds that are there: those that are away have no place in bundles.
        let here: Vec<usize> = (0..problem.kinds()).filter(|&j| problem.capacity[j] > 0.0).collect();
        let w: Vec<f64> = shares.w.chunks_exact(problem.kinds()).flat_map(|row| here.iter().map(|&j| row[j])).collect();
        let capacity: Vec<f64> = here.iter().map(|&j| problem.capacity[j]).collect();
        let asked = EnvyFree { w: &w, weight: &shares.weight, capacity: &capacity };
        let solution = match &self.envy {
            Some(last) => envy::solve_again(&asked, last, PIVOTS)?,
            None => envy::solve(&asked, PIVOTS)?,
        };
        let spread = |row: &[f64]| {
            let mut wide = vec![0.0; problem.kinds()];
            here.iter().zip(row).for_each(|(&j, &value)| wide[j] = value);
            wide
        };
        let x: Vec<f64> = solution.x(&asked).chunks_exact(here.len()).flat_map(spread).collect();
        let (certificate, prices) = (solution.bound, spread(&solution.prices));
        self.envy = Some(solution);
        Ok(shares.within_caps(&x).then_some(Found { x, prices, certificate }))
    }
}

/// No division whatever has a larger sum: for any p ≥ 0 it is at most m·p + Σ_l d_l max(0, max_j w_lj − p_j). The market's
/// prices, in the unit that makes this least.
fn most(problem: &Problem, shares: &Shares, prices: &[f64]) -> f64 {
    let k = problem.kinds();
    let all: f64 = problem.capacity.iter().sum();
    let bound = |unit: f64| {
        let sold: f64 = prices.iter().zip(&problem.capacity).map(|(p, m)| unit * p * m).sum();
        let gain = |row: &[f64]| row.iter().zip(prices).map(|(w, p)| w - unit * p).fold(0.0, f64::max);
        let rents = shares.w.chunks_exact(k).zip(&shares.caps).map(|(row, cap)| cap.min(all) * gain(row));
        sold + rents.sum::<f64>()
    };
    // Convex in the unit: the doubling scale finds its valley well enough.
    let value: f64 = shares.w.iter().copied().fold(0.0, f64::max);
    let dearest = prices.iter().copied().fold(0.0, f64::max);
    let units = (0..60).map(|i| 0.5f64.powi(i) * 4.0).map(|part| part * value / dearest.max(f64::MIN_POSITIVE));
    units.map(bound).fold(bound(0.0), f64::min)
}
