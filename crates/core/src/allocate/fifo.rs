//! First come, first served.
//!
//! Jobs that hold GPUs keep them, or move up: whoever came first has the first choice, so a job that runs on a slow kind takes GPUs of a
//! faster one that became free before a later job does, where that saves it a good part of what it has left to do. The
//! others, in order of arrival, each take the kind on which they are fastest among those with enough GPUs left; a job that does not fit
//! now is passed over, not waited for.
//!
//! Jobs come in the order of their arrival, or nearly, and nobody looks at the queue behind the last free GPU.
//!
//! With packing, a single-GPU job that found nothing joins a single-GPU job that is alone on its GPU, where
//! the two together do more than one at a time would:  r_a/alone_a + r_b/alone_b > 1.

use super::queue::serve_on;
use super::{AllocateError, Allocation, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal, kind_id};
use crate::KindId;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fifo",
    summary: "first come, first served: each job on the fastest free kind that fits; never preempts",
    promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::NonPreemptive, Promise::Whole],
    first_come: true,
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

/// A job moves up for a rate that is higher by this part at least...
const FASTER: f64 = 0.1;
/// ...and where it is done so much earlier: a restart costs less than that.
const SAVED_SECONDS: f64 = 300.0;

impl Policy for Fifo {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let holds = |u: &u32| problem.users[*u as usize].held.is_some();
        let (mut order, mut waiting): (Vec<u32>, Vec<u32>) = problem.user_indices().partition(holds);
        let by_arrival = |u: &u32| {
            let user = &problem.users[*u as usize];
            (user.arrived, user.job, user.class)
        };
        // Either is in order already, as a rule, which costs one look at each.
        order.sort_by_key(by_arrival);
        waiting.sort_by_key(by_arrival);
        let kinds = move_up(problem, &order);
        order.append(&mut waiting);
        let (mut grants, left_over) = serve_on(problem, &order, |u| kinds[u as usize]);
        if self.packing {
            pack(problem, &mut grants, &left_over);
        }
        Allocation::check(problem, Proposal { grants, ..Proposal::default() })
    }
}

/// The kinds that those who hold GPUs shall hold, by user: theirs, or a faster one that is free. Where one moves up, its place is free for
/// the next.
fn move_up(problem: &Problem, holders: &[u32]) -> Vec<Option<KindId>> {
    let mut kinds: Vec<Option<KindId>> = problem.users.iter().map(|user| user.held).collect();
    let mut free = problem.capacity.clone();
    for &u in holders {
        if let Some(kind) = kinds[u as usize] {
            free[kind.index()] -= problem.most_gpus(u as usize);
        }
    }
    for _ in 0..problem.kinds() {
        let mut moved = false;
        for &u in holders {
            if free.iter().all(|&gpus| gpus < 1.0) {
                return kinds;
            }
            let Some(kind) = kinds[u as usize] else { continue };
            if let Some(better) = faster(problem, u as usize, kind, &free) {
                free[kind.index()] += problem.most_gpus(u as usize);
                free[better.index()] -= problem.most_gpus(u as usize);
                kinds[u as usize] = Some(better);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    kinds
}

/// The fastest kind with room that is worth a move from `kind`.
fn faster(problem: &Problem, u: usize, kind: KindId, free: &[f64]) -> Option<KindId> {
    let (rates, left) = (problem.rates(u), problem.users[u].steps_left);
    let now = rates[kind.index()];
    let worth_it = |j: &usize| {
        let saved = left / now - left / rates[*j];
        rates[*j] > now * (1.0 + FASTER) && saved > SAVED_SECONDS && free[*j] >= problem.most_gpus(u)
    };
    let fastest = (0..rates.len()).filter(worth_it).max_by(|&a, &b| rates[a].total_cmp(&rates[b]).then(b.cmp(&a)));
    fastest.map(kind_id)
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
