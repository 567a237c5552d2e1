//! Serving users one after another: what policies that order jobs have in common. The order is theirs.

use super::{Grant, Members, Problem, kind_id};
use crate::KindId;

/// Serves users in `order`, whole gangs on the kind they hold, else on the fastest with room. Returns the grants and who has
/// jobs left without one.
#[must_use]
pub fn serve_in_order(problem: &Problem, order: &[u32]) -> (Vec<Grant>, Vec<u32>) {
    serve_on(problem, order, |u| problem.users[u as usize].held)
}

/// The same where `held` says on which kind a user should stay, if on any.
pub(super) fn serve_on(
    problem: &Problem,
    order: &[u32],
    held: impl Fn(u32) -> Option<KindId>,
) -> (Vec<Grant>, Vec<u32>) {
    let mut free = problem.capacity.clone();
    let (mut grants, mut left_over) = (Vec::new(), Vec::new());
    for (at, &u) in order.iter().enumerate() {
        if free.iter().all(|&gpus| gpus < 1.0) {
            left_over.extend_from_slice(&order[at..]);
            break;
        }
        let user = &problem.users[u as usize];
        let rates = problem.rates(u as usize);
        let gang = f64::from(user.gang);
        let mut unserved = user.jobs;
        while unserved > 0 {
            let Some(kind) = choose(rates, &free, gang, held(u)) else { break };
            let gangs = (free[kind.index()] / gang).floor().min(f64::from(unserved));
            free[kind.index()] -= gangs * gang;
            unserved -= gangs as u32;
            grants.push(Grant { kind, members: Members::One(u), gangs });
        }
        if unserved > 0 {
            left_over.push(u);
        }
    }
    (grants, left_over)
}

/// The kind it holds if there is room, else the fastest with room.
fn choose(rates: &[f64], free: &[f64], gang: f64, held: Option<KindId>) -> Option<KindId> {
    let room = |j: usize| rates[j] > 0.0 && free[j] >= gang;
    if let Some(kind) = held
        && room(kind.index())
    {
        return Some(kind);
    }
    let fastest = (0..rates.len()).filter(|&j| room(j)).max_by(|&a, &b| rates[a].total_cmp(&rates[b]).then(b.cmp(&a)));
    fastest.map(kind_id)
}
