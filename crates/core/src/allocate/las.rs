//! Least attained service first (the rule of Tiresias).
//!
//! Whoever has held the fewest GPU seconds per weight goes first. Taken literally this swaps jobs every
//! round; so attained service is looked at in doubling classes, and inside a class the job that came first
//! goes first:  class = ⌊log₂(1 + attained / (weight · 1 GPU hour))⌋.

use super::{AllocateError, Allocation, Policy, PolicyEntry, Problem, Promise, Proposal, User, serve_in_order};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "las",
    summary: "least attained service first (Tiresias), in doubling classes of GPU time; preemptive",
    every_round: true,
    promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
    make: || Box::new(LeastAttained),
    ..PolicyEntry::ORDERS_JOBS
};

pub(super) struct LeastAttained;

/// Attained service up to which all jobs are alike.
const QUANTUM_GPU_SECONDS: f64 = 3600.0;

impl Policy for LeastAttained {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let mut order: Vec<u32> = problem.user_indices().collect();
        order.sort_by_cached_key(|&u| {
            let user = &problem.users[u as usize];
            (service_class(user), user.arrived, user.job, user.class)
        });
        let (grants, _) = serve_in_order(problem, &order);
        Allocation::check(problem, Proposal { grants, ..Proposal::default() })
    }
}

fn service_class(user: &User) -> u32 {
    let weight = user.tenant_weight * user.job_weight * f64::from(user.jobs);
    (1.0 + user.attained_gpu_seconds / (weight * QUANTUM_GPU_SECONDS)).log2().floor() as u32
}
