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
//! envy-freeness contains the sharing incentive. A user can hold d_l GPUs at most; one that has them all on its fastest
//! kind is *filled*, lacks nothing and envies nobody. [`arles_lp::envy`] has the method and says who is filled how.
//! The solver's answer is feasible and envy-free whenever it stops; its certificate says how far the sum may be from
//! the largest. Rounds differ little, so it begins with the bundles of the last one.

use super::shares::Shares;
use super::{AllocateError, Allocation, Certificate, Entitlement, Policy, Problem, Proposal};
use arles_lp::envy::{self, Division, EnvyFree};
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(super) struct Cooperative {
    last: Mutex<Option<Division>>,
}

/// A kind on which a user does less than this part of what it does on its fastest counts as one that it does not fit on:
/// in a sum of speed-ups such a user would drown all others.
const WORTH_HAVING: f64 = 1e-4;

impl Policy for Cooperative {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let mut shares = Shares::new(problem, Entitlement::Tenants);
        shares.drop_slower_than(WORTH_HAVING);
        if shares.users.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let Shares { w, weight, caps, .. } = &shares;
        let asked = EnvyFree { w, weight, caps, capacity: &problem.capacity };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let division = match &*last {
            Some(last) => envy::solve_again(&asked, last, envy::PIVOTS),
            None => envy::solve(&asked, envy::PIVOTS),
        };
        let division = division.map_err(|refusal| AllocateError::NoAnswer { status: refusal.to_string() })?;
        let bound = division.bound;
        let proposal = Proposal {
            grants: shares.grants(problem, &division.x(&asked)),
            objective: Some(division.objective),
            certificate: Some(Certificate { lower: bound.lower, upper: bound.upper }),
            prices: division.prices.clone(),
        };
        *last = Some(division);
        Allocation::check(problem, proposal)
    }
}
