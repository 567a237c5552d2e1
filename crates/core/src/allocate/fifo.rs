//! First come, first served.
//!
//! Jobs that hold GPUs keep them. The others, in order of arrival, each take the kind on which they are
//! fastest among those with enough GPUs left; a job that does not fit now is passed over, not waited for. (The
//! placer moves a job up when a faster kind would stay free and the gain pays for its restart.)
//! With packing, a single-GPU job that found nothing joins a single-GPU job that is alone on its GPU, where
//! the two together do more than one at a time would:  r_a/alone_a + r_b/alone_b > 1.

use super::{
    AllocateError, Allocation, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal, serve_in_order,
};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fifo",
    summary: "first come, first served: each job on the fastest free kind that fits; never preempts",
    promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::NonPreemptive, Promise::Whole],
    make: || Box::new(Fifo { packing: false }),
    ..PolicyEntry::ORDERS_JOBS
};

pub(super) const PACKED: PolicyEntry = PolicyEntry {
    name: "fifo-packed",
    summary: "fifo that also places a waiting single-GPU job beside a running one where the two together do more than in turns",
    pairs: true,
    promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::NonPreemptive, Promise::Whole],
    make: || Box::new(Fifo { packing: true }),
    ..PolicyEntry::ORDERS_JOBS
};

pub(super) struct Fifo {
    pub(super) packing: bool,
}

impl Policy for Fifo {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let mut order: Vec<u32> = problem.user_indices().collect();
        order.sort_by_key(|&u| {
            let user = &problem.users[u as usize];
            (user.held.is_none(), user.arrived, user.job, user.class)
        });
        let (mut grants, left_over) = serve_in_order(problem, &order);
        if self.packing {
            pack(problem, &mut grants, &left_over);
        }
        Allocation::check(problem, Proposal { grants, ..Proposal::default() })
    }
}

/// Puts users of `left_over` beside users that hold a whole GPU alone, each beside the best gain.
fn pack(problem: &Problem, grants: &mut [Grant], left_over: &[u32]) {
    for &u in left_over {
        let user = &problem.users[u as usize];
        if user.gang != 1 || user.jobs != 1 {
            continue;
        }
        let gain = |grant: &Grant| -> Option<f64> {
            let Members::One(v) = grant.members else { return None };
            let host = &problem.users[v as usize];
            if host.gang != 1 || grant.gangs != 1.0 {
                return None;
            }
            let j = grant.kind.index();
            let (own, other) = problem.together(user.workload, host.workload, grant.kind)?;
            let alone = problem.rates(u as usize)[j];
            (alone > 0.0).then(|| own / alone + other / problem.rates(v as usize)[j])
        };
        let best = grants.iter().enumerate().filter_map(|(i, g)| Some((i, gain(g)?)));
        let best = best.filter(|&(_, gain)| gain > 1.0).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        if let Some((i, _)) = best
            && let Members::One(v) = grants[i].members
        {
            grants[i].members = Members::Two(u.min(v), u.max(v));
        }
    }
}
