//! Least makespan (Gavel's, OSDI '20): everybody is done as early as can be.
//!
//! Job m has left_m steps to go. With X_mj its share of time on kind j and r_mj its rate there:
//!
//!   minimise  T    s.t.   Σ_j r_mj X_mj ≥ left_m / T,   Σ_j X_mj ≤ 1,   Σ_m g_m X_mj ≤ m_j,   X ≥ 0
//!
//! With t = 1/T this is the largest t with thr_m ≥ t · left_m: a max-min level whose needs are the steps left. That t, in
//! makespans a second, is the objective. Whoever is done before T anyway shares what is left over.

use super::program::Served;
use super::{AllocateError, Allocation, Policy, PolicyEntry, Problem, Promise, Proposal};
use arles_lp::maxmin;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "min-makespan",
    summary: "Gavel's: minimises the time until the last of the current jobs finishes",
    every_round: true,
    objective_degree: Some(0),
    promises: &[Promise::Optimal],
    make: || Box::new(MinMakespan),
    ..PolicyEntry::ORDERS_JOBS
};

pub(super) struct MinMakespan;

impl Policy for MinMakespan {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let served = Served::new(problem);
        if served.users.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let left: Vec<f64> = (0..served.users.len()).map(|i| served.steps_left(problem, i)).collect();
        let maxmin::Solution { mut x, t, bound, prices, .. } =
            served.level(problem, &left, &mut maxmin::Workspace::new())?;
        served.top_up(problem, &mut x);
        let proposal = Proposal {
            grants: served.grants(problem, &x),
            objective: Some(t),
            certificate: Some(bound),
            prices,
            ..Proposal::default()
        };
        Allocation::check(problem, proposal)
    }
}
