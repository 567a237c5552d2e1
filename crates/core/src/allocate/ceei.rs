//! Competitive equilibrium from equal incomes: GPUs are sold on a market in which user l has π_l to spend.
//!
//! Prices p_j clear the market: everybody buys what gives it most speed for its money, and everything that anybody can use
//! is sold. Such x are the solutions of Eisenberg and Gale's program, the largest Nash welfare:
//!
//!   maximise   Σ_l π_l log(w_l·x_l)
//!   s.t.       Σ_l x_lj ≤ m_j                        every kind j
//!              Σ_j x_lj ≤ d_l                        a user's own cap: all its gangs at once
//!              x ≥ 0
//!
//! Everybody could have bought what another bought per unit of money, and an equal share of everything: without caps
//! nobody envies anybody and nobody is below an equal division, and nothing is wasted. With caps it is the program that
//! counts: money that a capped user has no use for buys nothing. The objective that is reported is the weighted geometric
//! mean of the utilities, exp(Σ π log u / Σ π), so that a gap means the same as elsewhere.

use super::shares::Shares;
use super::{AllocateError, Allocation, Certificate, Entitlement, Policy, PolicyEntry, Problem, Promise, Proposal};
use arles_lp::{Budget, nash};
use std::sync::{Mutex, PoisonError};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "ceei",
    summary: "competitive equilibrium from equal incomes (maximum Nash welfare): envy-free, Pareto-efficient, nobody below an equal share",
    promises: &[
        Promise::ScaleFree,
        Promise::SharingIncentive,
        Promise::EnvyFree,
        Promise::ParetoEfficient,
        Promise::Optimal,
    ],
    make: || Box::<Ceei>::default(),
    ..PolicyEntry::DIVIDES_BY_TENANT
};

#[derive(Default)]
pub(super) struct Ceei {
    /// Memory of the solver; the answer does not depend on what was solved in it before.
    workspace: Mutex<nash::Workspace>,
}

impl Policy for Ceei {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let shares = Shares::new(problem, Entitlement::Tenants);
        if shares.users.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let Shares { w, weight, caps, .. } = &shares;
        let asked = nash::Nash { w, weight, caps, capacity: &problem.capacity };
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let solution = workspace.solve(&asked, Budget::default())?;
        let welfare = solution.welfare;
        // The market's prices are of Σ π log u; one more GPU raises the mean by as much of itself as it raises that over Σ π.
        let unit = welfare.lower.exp() / weight.iter().sum::<f64>();
        let proposal = Proposal {
            grants: shares.grants(problem, &solution.x),
            objective: Some(welfare.lower.exp()),
            certificate: Some(Certificate { lower: welfare.lower.exp(), upper: welfare.upper.exp() }),
            prices: solution.prices.iter().map(|price| price * unit).collect(),
            ..Proposal::default()
        };
        Allocation::check(problem, proposal)
    }
}
