//! Equal incomes over GPUs and watts: a power budget is one more good, and tenants buy both on one market.
//!
//! With w_lc the speed-up of user l on a GPU in mode c, p_lc what it draws there, and B the budget:
//!
//!   maximise   Σ_l π_l log u_l,   u_l = Σ_c w_lc x_lc
//!   s.t.       Σ_lc x_lc ≤ m_j     every kind j, its modes together          price r_j
//!              Σ_lc p_lc x_lc ≤ B                                            price ρ of a watt
//!              Σ_c x_lc ≤ d_l,   x ≥ 0
//!
//! Without caps d everybody spends its income π_l on GPUs and watts, at prices at which nobody wants more than there is. Whoever looks at another's
//! GPUs *and watts* could have bought them, so nobody envies anybody; a share π_l/Σπ of all GPUs and all watts costs exactly π_l, so nobody has less than
//! what it could do with that; and nothing is left that somebody could use. This is promised of equal division *under the budget*: at full
//! power everybody had more. Rows against envy, with watts in a bundle, would not be convex; this program is.
//!
//! Without a budget it is `ceei`. Unused GPUs that stay on draw their idle power out of the budget first.

use super::modal::Modal;
use super::{AllocateError, Allocation, Certificate, Policy, PolicyEntry, Problem, Promise, Proposal, program};
use arles_lp::Budget;
use arles_lp::ways::{Incomes, Workspace};
use std::sync::{Mutex, PoisonError};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fair-power",
    summary: "equal incomes over GPUs and watts: divides a power budget fairly, with a price for a watt; without a budget, as ceei",
    energy_aware: true,
    modes: true,
    promises: &[
        Promise::ScaleFree,
        Promise::SharingIncentive,
        Promise::EnvyFree,
        Promise::ParetoEfficient,
        Promise::Optimal,
    ],
    make: || Box::<FairPower>::default(),
    ..PolicyEntry::DIVIDES_BY_TENANT
};

/// What it remembers are the prices of the last answer, which say where to look first for the next.
#[derive(Default)]
pub(super) struct FairPower {
    memory: Mutex<Workspace>,
}

impl Policy for FairPower {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let modal = Modal::new(problem);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((incomes, limited)) = divide(&modal, &mut memory)? else {
            return Allocation::check(problem, Proposal::default());
        };
        let welfare = incomes.welfare;
        // As in `ceei.rs`: prices are of Σ π log u, the objective is the mean of the utilities.
        let unit = welfare.lower.exp() / modal.weight.iter().sum::<f64>();
        let proposal = Proposal {
            grants: program::grants(problem, &modal.users, &incomes.x),
            objective: Some(welfare.lower.exp()),
            certificate: Some(Certificate { lower: welfare.lower.exp(), upper: welfare.upper.exp() }),
            prices: incomes.prices.iter().map(|price| price * unit).collect(),
            watt_price: limited.then(|| incomes.draw_prices[0] * unit),
            packings: Vec::new(),
        };
        Allocation::check(problem, proposal)
    }
}

/// The market's answer, and whether watts were sold on it; `None` where there is nobody, or not a watt beyond what unused GPUs draw.
pub(super) fn divide(modal: &Modal<'_>, memory: &mut Workspace) -> Result<Option<(Incomes, bool)>, AllocateError> {
    if modal.users.is_empty() {
        return Ok(None);
    }
    let limits = match modal.budget() {
        Some(watts) if watts <= 0.0 => return Ok(None),
        Some(watts) => modal.limit(watts),
        None => Vec::new(),
    };
    let incomes = memory.equal_incomes(&modal.ways(), &limits, Budget::default())?;
    Ok(Some((incomes, !limits.is_empty())))
}
