//! Least power that keeps the promise, one job after another.
//!
//! Jobs that hold GPUs come first, then the others by arrival. Each takes the bundle that adds least to the bill (`tariff.rs`) among those
//! that keep its promise: a GPU of some kind, or a place beside a single-GPU job that has one to itself and keeps its own promise
//! in company. Where nothing keeps the promise it takes whatever keeps most of it. Nobody looks ahead: that is what the
//! program of [`gogh`](super::gogh) is measured against.

use super::tariff::Tariff;
use super::{
    AllocateError, Allocation, FreeGpus, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal, kind_id,
    user_index,
};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "energy-greedy",
    summary: "baseline for gogh: one job after another, each where it adds the least power among the places that best meet its floor",
    pairs: true,
    energy_aware: true,
    free_gpus: FreeGpus::Kept,
    modes: true,
    promises: &[Promise::Whole],
    make: || Box::new(EnergyGreedy),
    ..PolicyEntry::ORDERS_JOBS
};

pub(super) struct EnergyGreedy;

/// Where a job could go.
#[derive(Clone, Copy)]
struct Choice {
    kept: f64,
    cost: f64,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    /// GPUs of its own of this kind.
    Kind(usize),
    /// Beside the only member of this grant.
    Beside(usize),
}

impl Policy for EnergyGreedy {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let tariff = Tariff::new(problem);
        let mut order: Vec<usize> = (0..problem.users.len()).collect();
        order.sort_by_key(|&u| {
            let user = &problem.users[u];
            ((0..problem.kinds()).all(|j| tariff.held(u, j) == 0), user.arrived, user.job, user.class)
        });
        let mut free = problem.capacity.clone();
        let mut grants: Vec<Grant> = Vec::with_capacity(order.len());
        for u in order {
            for _ in 0..problem.users[u].jobs {
                let Some(best) = choose(problem, &tariff, u, &free, &grants) else { break };
                match best.place {
                    Place::Kind(j) => {
                        free[problem.sold_as(j)] -= f64::from(problem.users[u].gang);
                        grants.push(Grant { kind: kind_id(j), members: Members::One(user_index(u)), gangs: 1.0 });
                    }
                    Place::Beside(at) => {
                        let Members::One(v) = grants[at].members else { unreachable!("chosen among those alone") };
                        grants[at].members = Members::Two(v.min(user_index(u)), v.max(user_index(u)));
                    }
                }
            }
        }
        Allocation::check(problem, Proposal { grants, ..Proposal::default() })
    }
}

/// The cheapest place that keeps the promise, else the one that keeps most.
fn choose(problem: &Problem, tariff: &Tariff<'_>, u: usize, free: &[f64], grants: &[Grant]) -> Option<Choice> {
    let gang = f64::from(problem.users[u].gang);
    let own = (0..problem.kinds()).filter(|&j| free[problem.sold_as(j)] >= gang).filter_map(|j| {
        let offer = tariff.alone(u, j)?;
        let stays = if tariff.held(u, j) > 0 { tariff.saving(u, j) } else { 0.0 };
        Some(Choice { kept: offer.kept[0], cost: offer.cost() - stays, place: Place::Kind(j) })
    });
    let beside = grants.iter().enumerate().filter_map(|(at, grant)| {
        let Members::One(v) = grant.members else { return None };
        let (v, j) = (v as usize, grant.kind.index());
        let offer = tariff.together(v, u, j)?;
        let before = tariff.alone(v, j)?;
        // A guest must not break what the host has.
        (offer.kept[0] >= before.kept[0]).then_some(Choice {
            kept: offer.kept[1],
            cost: offer.cost() - before.cost(),
            place: Place::Beside(at),
        })
    });
    own.chain(beside).min_by(|a, b| b.kept.total_cmp(&a.kept).then(a.cost.total_cmp(&b.cost)))
}
