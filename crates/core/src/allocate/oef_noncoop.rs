//! OEF for tenants who do not cooperate: everybody gets the same speed per weight, as much of it as there is.
//!
//! With w_l the speed-ups of user l over its slowest kind, π_l its weight and x_lj the GPUs of kind j that it holds:
//!
//!   maximise   Σ_l w_l·x_l
//!   s.t.       Σ_l x_lj ≤ m_j                        every kind j
//!              w_l·x_l / π_l = w_i·x_i / π_i         all users l, i
//!              x ≥ 0
//!
//! A tenant that overstates its speed-ups is given fewer of the GPUs that it calls fast, and so never gains.
//! (Understating can pay; arles therefore divides by measured rates, not by stated ones.) The sum is Σπ times the common
//! level t, so the program is
//!
//!   maximise t   s.t.   w_l·x_l ≥ π_l t,   Σ_l x_lj ≤ m_j,   x ≥ 0
//!
//! which the price tree solves exactly ([`arles_lp::market`]). Taken literally, equality wastes: a user that can hold
//! d_l GPUs only, or that fits on one kind only, would keep everybody down at its own level. So caps Σ_j x_lj ≤ d_l come
//! in, and whoever can rise beyond the common level without lowering anybody does: the levels are then the
//! lexicographically largest ([`arles_lp::maxmin::fill`]). Where nobody is capped and everybody fits everywhere this is
//! the program above, and there the promise about overstating is made.

use super::max_min::{Climb, climb};
use super::shares::Shares;
use super::{AllocateError, Allocation, Certificate, Entitlement, Policy, PolicyEntry, Problem, Promise, Proposal};
use arles_lp::market;
use arles_lp::maxmin::{FillWorkspace, MaxMin};
use std::sync::{Mutex, PoisonError};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "oef-noncoop",
    summary: "OEF for non-cooperative tenants: the same speed-up per weight for everyone, as high as possible; overstating speed-ups never pays",
    promises: &[Promise::ScaleFree, Promise::MaxMin, Promise::ParetoEfficient, Promise::InflationProof],
    make: || Box::<NonCooperative>::default(),
    ..PolicyEntry::DIVIDES_BY_TENANT
};

/// Memory of the solvers, and the last prices to start from.
#[derive(Default)]
struct Memory {
    market: market::Workspace,
    fill: FillWorkspace,
    prices: Vec<f64>,
}

#[derive(Default)]
pub(super) struct NonCooperative {
    memory: Mutex<Memory>,
}

/// Relative gap up to which the price tree's answer is taken.
const GAP: f64 = 1e-9;

impl Policy for NonCooperative {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let shares = Shares::new(problem, Entitlement::Tenants);
        if shares.users.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match memory.uncapped(problem, &shares) {
            Some(answer) => answer,
            None => memory.capped(problem, &shares)?,
        };
        let Level { x, t, certificate, prices } = answer;
        let grants = shares.grants(problem, &x);
        Allocation::check(
            problem,
            Proposal { grants, objective: Some(t), certificate: Some(certificate), prices, ..Proposal::default() },
        )
    }
}

/// The common level, and how to reach it.
struct Level {
    x: Vec<f64>,
    t: f64,
    certificate: Certificate,
    prices: Vec<f64>,
}

impl Memory {
    /// The answer without caps, if nobody's would be broken.
    fn uncapped(&mut self, problem: &Problem, shares: &Shares) -> Option<Level> {
        let Shares { w, weight, .. } = shares;
        let asked = market::Market { w, weight, capacity: &problem.capacity };
        let start = Some(&self.prices[..]).filter(|prices| prices.len() == problem.kinds());
        let level = self.market.equal_level(&asked, start, market::STEPS).ok()?;
        self.prices.clone_from(&level.prices);
        if level.bound.gap() > GAP {
            return None;
        }
        let x = level.x(&asked);
        shares.within_caps(&x).then(|| Level { x, t: level.t, certificate: level.bound, prices: level.prices.clone() })
    }

    fn capped(&mut self, problem: &Problem, shares: &Shares) -> Result<Level, AllocateError> {
        let Shares { w, weight, caps, .. } = shares;
        let asked = MaxMin { w, beta: weight, caps, capacity: &problem.capacity };
        let Climb { x, certificate, prices } = climb(&mut self.fill, &asked)?;
        Ok(Level { x, t: certificate.lower, certificate, prices })
    }
}
