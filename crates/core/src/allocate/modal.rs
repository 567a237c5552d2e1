//! A problem whose GPUs can be run in several modes, as the programs over [`ways`](arles_lp::ways) see it: kinds are ways, and the kinds as sold are the
//! resources whose GPUs they take. Rates are speed-ups over the slowest kind at its best, watts are what a GPU in use adds to the bill.

use super::shares::Shares;
use super::{Entitlement, Power, Problem};
use arles_lp::ways::{Limit, Ways};
use std::borrow::Cow;

/// Watts that running adds are at least this part of what is drawn, so that nothing is free.
const LEAST_COST: f64 = 1e-3;
/// As in `oef_coop.rs`: a kind on which a user does less than this part of its best counts as one that it does not fit on.
const WORTH_HAVING: f64 = 1e-4;

/// The users that take part, row by row.
pub(super) struct Modal<'p> {
    pub(super) problem: &'p Problem,
    pub(super) power: Cow<'p, Power>,
    /// Index of each in the problem.
    pub(super) users: Vec<usize>,
    /// Users × kinds: speed-ups, and watts that a GPU in use adds.
    pub(super) w: Vec<f64>,
    pub(super) draw: Vec<f64>,
    resource: Vec<usize>,
    pub(super) weight: Vec<f64>,
    /// The most GPUs that each can hold; infinite where there are no more.
    pub(super) caps: Vec<f64>,
}

impl<'p> Modal<'p> {
    pub(super) fn new(problem: &'p Problem) -> Self {
        let power = match &problem.power {
            Some(power) => Cow::Borrowed(power),
            None => Cow::Owned(Power::uniform(problem)),
        };
        let k = problem.kinds();
        let mut shares = Shares::new(problem, Entitlement::Tenants);
        shares.drop_slower_than(WORTH_HAVING);
        let speedups = problem.mode_speedups();
        let (mut w, mut draw) = (Vec::with_capacity(shares.w.len()), Vec::with_capacity(shares.w.len()));
        for (&u, kept) in shares.users.iter().zip(shares.w.chunks_exact(k.max(1))) {
            let row = &speedups[u * k..(u + 1) * k];
            let best = problem.best_by_kind(row);
            for j in 0..k {
                let base = problem.sold_as(j);
                // A kind that was dropped is dropped in all its modes; where the unit changed, theirs does.
                let unit = if best[base] > 0.0 { kept[base] / best[base] } else { 0.0 };
                w.push(row[j] * unit);
                draw.push(added_watts(&power, u, j));
            }
        }
        let resource = (0..k).map(|j| problem.sold_as(j)).collect();
        let Shares { users, weight, mut caps, .. } = shares;
        // Who has a job for every place there is, two on a GPU where they may share, is not capped: programs without caps are quicker.
        let places = if problem.pairs.is_empty() { 1.0 } else { 2.0 };
        let all = places * problem.capacity.iter().sum::<f64>();
        caps.iter_mut().filter(|cap| **cap >= all).for_each(|cap| *cap = f64::INFINITY);
        Self { problem, power, users, w, draw, resource, weight, caps }
    }

    pub(super) fn ways(&self) -> Ways<'_> {
        let Self { w, draw, resource, weight, caps, .. } = self;
        Ways { w, draw, resource, weight, caps, capacity: &self.problem.capacity }
    }

    /// What a user's utility of 1 is, in steps per second of one gang over its GPUs.
    pub(super) fn promised(&self, l: usize) -> f64 {
        let u = self.users[l];
        let user = &self.problem.users[u];
        let floor = user.floor.filter(|floor| *floor > 0.0).unwrap_or(0.0);
        let k = self.problem.kinds();
        // In the unit that `w` is in, which dropping slow kinds may have changed.
        let rates = self.problem.gpu_rates(u).zip(&self.w[l * k..]).find(|(rate, w)| *rate > 0.0 && **w > 0.0);
        rates.map_or(0.0, |(rate, w)| floor * f64::from(user.jobs) * w / rate)
    }

    /// The budget of the site as a limit on what is added, beyond what unused GPUs draw anyway; `None` without one. Not positive where those alone draw as much.
    pub(super) fn budget(&self) -> Option<f64> {
        let idle: f64 = self.power.idle_watts.iter().zip(&self.problem.capacity).map(|(idle, m)| idle * m).sum();
        self.power.budget_watts.map(|watts| if self.power.unused_off { watts } else { watts - idle })
    }

    /// A limit on everything.
    pub(super) fn limit(&self, most: f64) -> Vec<Limit> {
        vec![Limit { most, resources: (0..self.problem.kinds()).collect() }]
    }

    /// What a use adds to the bill.
    pub(super) fn drawn(&self, x: &[f64]) -> f64 {
        self.draw.iter().zip(x).map(|(p, x)| p * x).sum()
    }
}

/// What one GPU of a user on a kind adds to the bill.
fn added_watts(power: &Power, u: usize, j: usize) -> f64 {
    beyond_idle(power, power.users[u].watts[j], j)
}

/// What a GPU that draws `watts` adds to the bill.
pub(super) fn beyond_idle(power: &Power, watts: f64, j: usize) -> f64 {
    let spent_anyway = if power.unused_off { 0.0 } else { power.idle_watts[j] };
    (watts - spent_anyway).max(LEAST_COST * watts)
}
