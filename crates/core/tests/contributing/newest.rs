//! Newest first: whoever came last goes first.

use super::{AllocateError, Allocation, Policy, PolicyEntry, Problem, Promise, Proposal, serve_in_order};
use std::cmp::Reverse;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "newest",
    summary: "last come, first served; preemptive",
    promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
    make: || Box::new(Newest),
    ..PolicyEntry::ORDERS_JOBS // every job its own user, never two on one GPU; DIVIDES for programs over classes
};

struct Newest;

impl Policy for Newest {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let mut order: Vec<u32> = problem.user_indices().collect();
        order.sort_by_key(|&u| {
            let user = &problem.users[u as usize];
            (Reverse(user.arrived), user.job)
        });
        let (grants, _) = serve_in_order(problem, &order);
        Allocation::check(problem, Proposal { grants, ..Proposal::default() })
    }
}
