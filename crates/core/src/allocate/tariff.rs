//! What the energy-aware policies have in common: what a bundle costs, and how much of its promises it keeps.
//!
//! **Cost.** A gang of g GPUs that draw P each costs g·P while it runs. (Where unused GPUs stay on, their idle power is spent
//! anyway and g·(P − idle) is what the gang adds.) A job that ends when its steps are done is there for a shorter time when it
//! runs faster, so watts alone would praise whatever is slow. Its watts are therefore counted at the pace ρ it was promised
//! (its best pace where nothing was promised): g·P·ρ/r, which is its energy for the work of one second at that pace. A service ends by
//! the clock and is counted as it is. Of two jobs on one GPU each stands for half of the GPU's draw:
//!
//! ```text
//! c(l on a)      = g·P_la · ρ_l/r_la
//! c({l,m} on a)  = P_a,lm/2 · ρ_l/r_l + P_a,lm/2 · ρ_m/r_m
//! ```
//!
//! **Promise.** A bundle keeps the part min(1, r / (f·(1 + headroom))) of a floor f; the headroom pays for the time until a decision
//! and for restarts. A service is owed its rate at every moment, so rates that are only estimated count for one standard
//! error less; a training job is owed it on average and makes up for a slow round, once it is measured, in the next. Who was
//! promised nothing counts as promised half of its best rate, at a lower price: least energy alone would run it on whatever is slowest.
//!
//! **Moving** costs the energy of a restart; spread over the time that the gang will stay (an hour, or until its end) that is a
//! power too, and whoever stays saves it. A gain of less than a hundredth is no reason to move: measurements are no better than that.

use super::{PairPower, Power, Problem, kind_id, user_index};
use std::borrow::Cow;

/// Pace above the promised one that is aimed at.
const HEADROOM: f64 = 0.05;
/// A job that was promised nothing should still have this part of its best rate.
const UNPROMISED: f64 = 0.5;
/// Longest time that a decision is taken to last.
const HORIZON_SECONDS: f64 = 3600.0;
/// Shortest.
const LEAST_SECONDS: f64 = 60.0;
/// Part of a gang's power that it draws while it restarts.
const RESTART_ACTIVITY: f64 = 0.5;
/// Part of its cost that a gang must gain before it moves, beyond the restart.
const INERTIA: f64 = 0.01;
/// A bundle costs at least this part of its draw, so that nothing is free.
const LEAST_COST: f64 = 1e-3;

/// Prices for one problem.
pub(super) struct Tariff<'p> {
    problem: &'p Problem,
    power: Cow<'p, Power>,
    /// ρ by user; 0 where nothing fits.
    pace: Vec<f64>,
}

/// A bundle's price: watts at the promised pace, and the part of each promise that it keeps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Offer<const MEMBERS: usize> {
    pub(super) cost: f64,
    pub(super) kept: [f64; MEMBERS],
}

impl<'p> Tariff<'p> {
    pub(super) fn new(problem: &'p Problem) -> Self {
        let power = match &problem.power {
            Some(power) => Cow::Borrowed(power),
            None => Cow::Owned(Power::uniform(problem)),
        };
        let pace = |u: usize| {
            let best = best_rate(problem, u);
            problem.users[u].floor.filter(|floor| *floor > 0.0 && best > 0.0).unwrap_or(best)
        };
        Self { pace: (0..problem.users.len()).map(pace).collect(), problem, power }
    }

    /// One gang of user `u` alone on kind `j`.
    pub(super) fn alone(&self, u: usize, j: usize) -> Option<Offer<1>> {
        let rate = self.problem.rates(u)[j];
        let gang = f64::from(self.problem.users[u].gang);
        if rate <= 0.0 || self.problem.capacity[j] < gang {
            return None;
        }
        let standard_error = self.power.users[u].standard_errors[j];
        let cost = gang * self.draw(self.power.users[u].watts[j], j) * self.stretch(u, rate);
        Some(Offer { cost, kept: [self.kept(u, rate, standard_error)] })
    }

    /// Single-GPU jobs of users `u` and `v` on one GPU of kind `j`, where that can pay: it costs less than a GPU for each, or the two
    /// together do more than by taking turns.
    pub(super) fn together(&self, u: usize, v: usize, j: usize) -> Option<Offer<2>> {
        let (x, y) = (self.problem.users[u].workload, self.problem.users[v].workload);
        let key = (x.min(y), x.max(y), kind_id(j));
        let pair = self.problem.pairs.binary_search_by_key(&key, |p| (p.a, p.b, p.kind)).ok()?;
        let rates = &self.problem.pairs[pair];
        let (first, second) = if x == rates.a { (rates.rate_a, rates.rate_b) } else { (rates.rate_b, rates.rate_a) };
        if first <= 0.0 || second <= 0.0 || self.problem.users[u].gang != 1 || self.problem.users[v].gang != 1 {
            return None;
        }
        let (apart_u, apart_v) = (self.alone(u, j)?, self.alone(v, j)?);
        let PairPower { watts, standard_error } = self.power.pairs[pair];
        let half = self.draw(watts, j) / 2.0;
        let cost = half * self.stretch(u, first) + half * self.stretch(v, second);
        let gains = first / self.problem.rates(u)[j] + second / self.problem.rates(v)[j] > 1.0;
        if !gains && cost >= apart_u.cost + apart_v.cost {
            return None;
        }
        // Who shares a GPU already saves the restart of the one who would have to come.
        let settled =
            self.power.sharing_now.binary_search(&(user_index(u.min(v)), user_index(u.max(v)), rates.kind)).is_ok();
        let saved = if settled { self.saving(u, j).min(self.saving(v, j)) } else { 0.0 };
        let kept = [self.kept(u, first, standard_error), self.kept(v, second, standard_error)];
        Some(Offer { cost: (cost - saved).max(LEAST_COST * cost), kept })
    }

    /// What a gang of user `u` saves by staying on kind `j`.
    pub(super) fn saving(&self, u: usize, j: usize) -> f64 {
        let user = &self.power.users[u];
        let rate = self.problem.rates(u)[j];
        if rate <= 0.0 {
            return 0.0;
        }
        let draw = f64::from(self.problem.users[u].gang) * user.watts[j].max(self.power.idle_watts[j]);
        let joules = user.restart_seconds * draw * RESTART_ACTIVITY;
        joules / self.lasts_seconds(u, rate) + INERTIA * self.alone(u, j).map_or(0.0, |offer| offer.cost)
    }

    /// For how long a gang that runs at `rate` will be there, as far as a decision cares.
    pub(super) fn lasts_seconds(&self, u: usize, rate: f64) -> f64 {
        let user = &self.problem.users[u];
        let left = user.steps_left / f64::from(user.jobs.max(1)) / rate;
        left.clamp(LEAST_SECONDS, HORIZON_SECONDS)
    }

    /// Gangs of user `u` on each kind now.
    pub(super) fn held(&self, u: usize) -> &[u32] {
        &self.power.users[u].held
    }

    /// Relative standard error of user `u`'s rate on kind `j`.
    pub(super) fn standard_error(&self, u: usize, j: usize) -> f64 {
        self.power.users[u].standard_errors[j]
    }

    /// The largest draw of any bundle: the unit in which prices of broken promises are set.
    pub(super) fn largest_cost(&self) -> f64 {
        let users = 0..self.problem.users.len();
        let all = users.flat_map(|u| (0..self.problem.kinds()).filter_map(move |j| self.alone(u, j)));
        all.map(|offer| offer.cost).fold(1.0, f64::max)
    }

    /// What a GPU that draws `watts` adds to the bill.
    fn draw(&self, watts: f64, j: usize) -> f64 {
        let spent_anyway = if self.power.unused_off { 0.0 } else { self.power.idle_watts[j] };
        (watts - spent_anyway).max(LEAST_COST * watts)
    }

    /// ρ/r, or 1 for whoever ends by the clock.
    fn stretch(&self, u: usize, rate: f64) -> f64 {
        if self.power.users[u].by_the_clock { 1.0 } else { self.pace[u] / rate }
    }

    fn kept(&self, u: usize, rate: f64, standard_error: f64) -> f64 {
        match self.problem.users[u].floor {
            Some(floor) if floor > 0.0 => {
                let caution = if self.power.users[u].by_the_clock { standard_error } else { 0.0 };
                (rate * (-caution).exp() / (floor * (1.0 + HEADROOM))).min(1.0)
            }
            _ => (rate / (UNPROMISED * self.pace[u])).min(1.0),
        }
    }
}

/// The rate of a gang on its fastest kind that has room for one.
fn best_rate(problem: &Problem, u: usize) -> f64 {
    let gang = f64::from(problem.users[u].gang);
    let room = problem.rates(u).iter().zip(&problem.capacity).filter(|(_, gpus)| **gpus >= gang);
    room.map(|(rate, _)| *rate).fold(0.0, f64::max)
}
