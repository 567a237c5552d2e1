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
//! **Promise.** A training job is owed its floor f on average from arrival to end. What it still needs is therefore no constant: with D steps done and L left
//! after a time E it is n = L / ((D + L)/f − E), more than f for whoever waited or was slow, and less for whoever is ahead. A bundle keeps the part
//!
//! ```text
//! p = min(1, r / (max(n, (1 − slack)·f)·(1 + headroom)))
//! ```
//!
//! the headroom being for the time until a decision and for restarts. A broken promise outweighs any energy: with f in place of n a rate that was measured
//! a thousandth too low would keep a job off its frugal kind for life, at twice the energy. With n it does so until the job is a little ahead. (The slack is
//! small: whoever had used up all that it was ahead by would have to be fast when everybody else is, and promises were broken for 3 instead of 0.4 % of the time.) A service is owed its rate at every
//! moment and makes up for nothing: p = min(1, r/f), and a rate that is only estimated counts for one standard error less. Who was promised nothing counts as promised half of its best
//! rate, at a lower price: least energy alone would run it on whatever is slowest.
//!
//! **While jobs wait** for a GPU its time is worth something: whoever is done sooner lets the next one in. There every second of a GPU
//! counts with what the GPU draws in it and its idle power on top, P + idle in place of P − idle, whether unused GPUs stay on or not.
//! Two that share a GPU already, with work L left at speeds s, are billed for what lies before them: they go on until one is done, and the other
//! has the GPU alone,
//!
//! ```text
//! T = min(L_l/s_l, L_m/s_m)      c(l)/c({l}) = c(m)/c({m}) = (T·P_a,lm + Σ (L − s·T)·c({·})) / Σ L·c({·})
//! ```
//!
//! where that is less than by halves, and slowness is in that bill, where nothing was promised. By halves a partner that is slowed to a twentieth would count as
//! if it stayed for twenty times its work, and the other, which loses nothing and is done soon, would be stopped for it. Where it is more, halves are right: whoever
//! is left alone gets the next partner. A pair that is dearer to keep than to bring together would be parted for another one, and that for the first, and so on.
//!
//! **Moving** costs the energy of a restart; spread over the time that the gang will stay (an hour, or until its end) that is a
//! power too, and whoever stays saves it. A gain of less than a hundredth is no reason to move: measurements are no better than that.

use super::{PairPower, Power, Problem, kind_id, user_index};
use std::borrow::Cow;

/// Pace above the needed one that is aimed at.
const HEADROOM: f64 = 0.05;
/// Part of its promised rate that a job may be slower by while it is ahead.
const SLACK: f64 = 0.08;
/// A job that was promised nothing should still have this part of its best rate.
const UNPROMISED: f64 = 0.5;
/// Longest time that a decision is taken to last.
const HORIZON_SECONDS: f64 = 3600.0;
/// Shortest.
const LEAST_SECONDS: f64 = 60.0;
/// Most work of a job that a plan reckons with: it is made anew long before.
const MOST_WORK_SECONDS: f64 = 7.0 * 86_400.0;
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
    /// Whether jobs wait for GPUs.
    queue: bool,
}

/// A bundle's price: watts at the promised pace, and the part of each promise that it keeps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Offer<const MEMBERS: usize> {
    /// What each member's work costs.
    pub(super) costs: [f64; MEMBERS],
    pub(super) kept: [f64; MEMBERS],
}

impl<const MEMBERS: usize> Offer<MEMBERS> {
    pub(super) fn cost(&self) -> f64 {
        self.costs.iter().sum()
    }
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
        Self { pace: (0..problem.users.len()).map(pace).collect(), problem, power, queue: false }
    }

    /// The same while jobs wait for GPUs.
    pub(super) fn with_queue(self) -> Self {
        Self { queue: true, ..self }
    }

    /// One gang of user `u` alone on kind `j`.
    pub(super) fn alone(&self, u: usize, j: usize) -> Option<Offer<1>> {
        let rate = self.problem.rates(u)[j];
        let gang = f64::from(self.problem.users[u].gang);
        if rate <= 0.0 || self.problem.gpus_of(j) < gang {
            return None;
        }
        let standard_error = self.power.users[u].standard_errors[j];
        let cost = gang * self.draw(self.power.users[u].watts[j], j) * self.stretch(u, rate);
        Some(Offer { costs: [cost], kept: [self.kept(u, rate, standard_error)] })
    }

    /// Single-GPU jobs of users `u` and `v` on one GPU of kind `j`, where that can pay: it costs less than a GPU for each, or the two
    /// together do more than by taking turns; and where neither is slowed below a promise that would be kept alone.
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
        let draw = self.draw(watts, j);
        let stretches = [self.stretch(u, first), self.stretch(v, second)];
        let halves = stretches.map(|stretch| draw / 2.0 * stretch);
        // Nobody is billed more for being here than for coming: whoever is left alone gets the next partner as newcomers do.
        let here = self
            .bill_of_those_here([u, v], j, draw, stretches)
            .filter(|bill| bill[0] + bill[1] < halves[0] + halves[1]);
        let costs = here.unwrap_or(halves);
        let cost = costs[0] + costs[1];
        let gains = first / self.problem.rates(u)[j] + second / self.problem.rates(v)[j] > 1.0;
        if !gains && cost >= apart_u.cost() + apart_v.cost() {
            return None;
        }
        let kept = [(u, first), (v, second)].map(|(user, rate)| {
            let slow_is_billed = here.is_some() && !self.promised(user);
            if slow_is_billed { 1.0 } else { self.kept(user, rate, standard_error) }
        });
        if self.breaks_promise(u, j, kept[0]) || self.breaks_promise(v, j, kept[1]) {
            return None;
        }
        // Who shares a GPU already saves the restart of the one who would have to come.
        let saved = if self.share_now(u, v, j) { self.saving(u, j).min(self.saving(v, j)) } else { 0.0 };
        let less = ((cost - saved) / cost).max(LEAST_COST);
        Some(Offer { costs: costs.map(|cost| cost * less), kept })
    }

    /// Whether a job of user `u` that has only this part of its promise beside a partner would have all of it alone on that GPU. A job that ends when
    /// its steps are done is better off waiting for its turn; a service has nothing while it waits.
    fn breaks_promise(&self, u: usize, j: usize, kept: f64) -> bool {
        let alone = || self.alone(u, self.problem.sold_as(j)).is_some_and(|offer| offer.kept[0] >= 1.0);
        self.promised(u) && kept < 1.0 && !self.power.users[u].by_the_clock && alone()
    }

    fn promised(&self, u: usize) -> bool {
        self.problem.users[u].floor.is_some_and(|floor| floor > 0.0)
    }

    /// What each of two costs that share a GPU of kind `j` already, while jobs wait: they go on until one is done, and the other then has the GPU alone.
    fn bill_of_those_here(&self, pair: [usize; 2], j: usize, draw: f64, stretches: [f64; 2]) -> Option<[f64; 2]> {
        let ends =
            |user: usize| !self.power.users[user].by_the_clock && self.problem.users[user].steps_left.is_finite();
        if !self.queue || !self.share_now(pair[0], pair[1], j) || !pair.into_iter().all(ends) {
            return None;
        }
        let apart = [self.alone(pair[0], j)?.cost(), self.alone(pair[1], j)?.cost()];
        let work = pair.map(|user| self.work_seconds(user));
        let together = (work[0] * stretches[0]).min(work[1] * stretches[1]);
        let after = |member: usize| (work[member] - together / stretches[member]) * apart[member];
        let part = (together * draw + after(0) + after(1)) / (work[0] * apart[0] + work[1] * apart[1]);
        Some(apart.map(|cost| cost * part))
    }

    /// Whether jobs of users `u` and `v` share a GPU that kind `j` takes.
    fn share_now(&self, u: usize, v: usize, j: usize) -> bool {
        let here = (user_index(u.min(v)), user_index(u.max(v)), kind_id(self.problem.sold_as(j)));
        self.power.sharing_now.binary_search(&here).is_ok()
    }

    /// What parting users `u` and `v` costs, where they share a GPU that kind `j` takes: another has to come for the one who goes. Spread over
    /// the time that they would share it, however short, as power.
    pub(super) fn parting(&self, u: usize, v: usize, j: usize) -> f64 {
        if self.share_now(u, v, j) { self.coming_back(u, j).max(self.coming_back(v, j)) } else { 0.0 }
    }

    /// What it costs a gang of user `u` to leave GPUs that kind `j` takes and come back, spread over what is left of it, as power.
    pub(super) fn coming_back(&self, u: usize, j: usize) -> f64 {
        let (user, base) = (&self.power.users[u], self.problem.sold_as(j));
        user.restart_seconds * self.draw(user.watts[base], base) / self.work_seconds(u)
    }

    /// Whether stopping a gang of user `u` would take longer than what is left of it: whoever comes in its place has to start, and so has it when it is back.
    pub(super) fn is_nearly_done(&self, u: usize) -> bool {
        !self.power.users[u].by_the_clock && self.work_seconds(u) <= 2.0 * self.power.users[u].restart_seconds
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
        joules / self.lasts_seconds(u, rate) + INERTIA * self.alone(u, j).map_or(0.0, |offer| offer.cost())
    }

    /// For how long a gang that runs at `rate` will be there, as far as a decision cares.
    pub(super) fn lasts_seconds(&self, u: usize, rate: f64) -> f64 {
        let user = &self.problem.users[u];
        let left = user.steps_left / f64::from(user.jobs.max(1)) / rate;
        left.clamp(LEAST_SECONDS, HORIZON_SECONDS)
    }

    /// Work that is left for each gang of user `u`, in seconds at its pace.
    pub(super) fn work_seconds(&self, u: usize) -> f64 {
        let user = &self.problem.users[u];
        let left = user.steps_left / f64::from(user.jobs.max(1)) / self.pace[u];
        if left.is_finite() { left.clamp(1.0, MOST_WORK_SECONDS) } else { MOST_WORK_SECONDS }
    }

    /// Gangs of user `u` that are now on GPUs that kind `j` takes, in whatever mode: they need not move to be in another.
    pub(super) fn held(&self, u: usize, j: usize) -> u32 {
        let base = self.problem.sold_as(j);
        let held = self.power.users[u].held.iter().enumerate();
        held.filter(|(i, _)| self.problem.sold_as(*i) == base).map(|(_, gangs)| gangs).sum()
    }

    /// Relative standard error of user `u`'s rate on kind `j`.
    pub(super) fn standard_error(&self, u: usize, j: usize) -> f64 {
        self.power.users[u].standard_errors[j]
    }

    /// The largest draw of any bundle: the unit in which prices of broken promises are set.
    pub(super) fn largest_cost(&self) -> f64 {
        let users = 0..self.problem.users.len();
        let all = users.flat_map(|u| (0..self.problem.kinds()).filter_map(move |j| self.alone(u, j)));
        all.map(|offer| offer.cost()).fold(1.0, f64::max)
    }

    /// What a GPU that draws `watts` adds to the bill.
    fn draw(&self, watts: f64, j: usize) -> f64 {
        let spent_anyway = match (self.queue, self.power.unused_off) {
            (true, _) => -self.power.idle_watts[j],
            (false, true) => 0.0,
            (false, false) => self.power.idle_watts[j],
        };
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
                (rate * (-caution).exp() / self.needed(u, floor)).min(1.0)
            }
            _ => (rate / (UNPROMISED * self.pace[u])).min(1.0),
        }
    }

    /// The rate with which user `u`, promised `floor`, has all of its promise.
    fn needed(&self, u: usize, floor: f64) -> f64 {
        let user = &self.power.users[u];
        match user.by_the_clock {
            true => floor,
            false => user.needed.unwrap_or(floor).max((1.0 - SLACK) * floor) * (1.0 + HEADROOM),
        }
    }

    /// How likely kind `j`, of which too little is known to say so, keeps a promise of user `u`; none where all of it is kept as far as anybody can say, or nothing was promised.
    pub(super) fn likely_kept(&self, u: usize, j: usize) -> Option<f64> {
        let floor = self.problem.users[u].floor.filter(|floor| *floor > 0.0)?;
        let (rate, standard_error) = (self.problem.rates(u)[j], self.standard_error(u, j));
        if rate <= 0.0 || self.kept(u, rate, standard_error) >= 1.0 {
            return None;
        }
        Some(normal_cdf((rate / self.needed(u, floor)).ln() / standard_error))
    }
}

/// Φ, by the logistic curve that stays within a hundredth of it.
pub(super) fn normal_cdf(x: f64) -> f64 {
    1.0 / (1.0 + (-1.5976 * x - 0.07056 * x * x * x).exp())
}

/// The rate of a gang on its fastest kind that has room for one.
fn best_rate(problem: &Problem, u: usize) -> f64 {
    let gang = f64::from(problem.users[u].gang);
    let room = problem.rates(u).iter().enumerate().filter(|(j, _)| problem.gpus_of(*j) >= gang);
    room.map(|(_, rate)| *rate).fold(0.0, f64::max)
}
