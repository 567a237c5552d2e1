//! Least attained service first (the rule of Tiresias).
//!
//! Whoever has held the fewest GPU seconds per weight goes first. Taken literally this swaps jobs every
//! round; so attained service is looked at in doubling classes, and inside a class the job that came first
//! goes first:  class = ⌊log₂(1 + attained / (weight · 1 GPU hour))⌋.

use super::{AllocateError, Allocation, Policy, Problem, Proposal, User, fifo};

pub(super) struct LeastAttained;

/// Attained service up to which all jobs are alike.
const QUANTUM_GPU_SECONDS: f64 = 3600.0;

impl Policy for LeastAttained {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let mut order: Vec<u32> = (0..problem.users.len() as u32).collect();
        order.sort_by_cached_key(|&u| {
            let user = &problem.users[u as usize];
            (service_class(user), user.arrived, user.job, user.class)
        });
        let (grants, _) = fifo::serve(problem, &order);
        Allocation::check(problem, Proposal { grants, ..Proposal::default() })
    }
}

fn service_class(user: &User) -> u32 {
    let weight = user.tenant_weight * user.job_weight * f64::from(user.jobs);
    (1.0 + user.attained_gpu_seconds / (weight * QUANTUM_GPU_SECONDS)).log2().floor() as u32
}
