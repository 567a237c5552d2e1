//! The restricted master program and its pricing.
//!
//! With duals `λ` (rates), `μ` (jobs) and `p` (units) of the restricted program, the reduced cost of a column is
//!
//! ```text
//! alone   λ_i r_ij − μ_i − need_i p_j              pair   λ_i a + λ_h b − μ_i − μ_h − p_j
//! ```
//!
//! All columns of single users are always in. Of the pairs, those with the largest reduced costs enter, few for any one
//! group; those with very negative ones leave. The program is `maximise τ : rates ≥ b τ`, scaled as in
//! [`crate::maxmin::fill`].
//!
//! It is not solved again whenever columns enter: one interior point ([`super::interior`]) goes on while columns enter and
//! leave. On the central path a column with reduced cost `−c` has the value `σ/c`: those that would have a noticeable part
//! of a job enter, those that have next to nothing leave, and as `σ` falls the two sets shrink to the support of the
//! solution. While prices are still inaccurate every iteration prices another eighth of the pairs, or all groups would
//! choose the same few partners. Nor is it solved to the end when its targets are proved too high: lower targets continue
//! from the same iterate.
//!
//! Where the interior point stalls, or there are too many groups for it, the general solver solves the restricted programs
//! one by one; the better of the solutions is kept.

mod exact;

use super::bound::{self, Duals};
use super::interior::{Column, Interior};
use super::normal::Normal;
use super::{Group, Pair, Sharing, TOLERANCE};
use crate::certificate::usable;
use crate::{Budget, Certificate, Clarabel, ColumnId, InputError, Model, ModelError, Outcome, Solver};

/// Rounds of column generation per program.
const MOST_ROUNDS: u32 = 40;
/// The pairs of largest reduced cost that are considered, per group, in one round of the general solver...
const MANY: usize = 8;
/// ...and those that may enter for one group.
const EACH: u32 = 8;
/// With more columns than this per group, unused ones leave.
const PLENTY: usize = 10;

/// With more groups than this the dense storage of the interior point is too large, and the general solver is used.
const MOST_GROUPS: usize = 3_000;
/// Iterations of the interior point for one program.
const MOST_ITERATIONS: u32 = 80;
/// The next bottleneck starts from the last iterate with a gap above this.
const WARM: f64 = 1e-2;
/// Below this gap columns no longer leave: removing them would spoil the iterate.
const SETTLED: f64 = 1e-4;
/// The solve ends once it is proved that the targets are too high by this many gaps.
const PROVED: f64 = 5.0;
/// Starting pairs per group.
const SEEDS: u32 = 3;
/// The gap from which the iterate is certified.
const NEAR: f64 = 1e-6;
/// A pair may enter if it would get this part of a job on the central path...
const NOTICED: f64 = 0.5;
/// ...starts with this part of that...
const MODEST: f64 = 0.2;
/// ...and leaves when it has less than this.
const FORGOTTEN: f64 = 0.01;
/// Pairs that may enter for one group between two iterations.
const FEW: u32 = 3;
/// The same at first, while the relative gap is above [`EARLY`].
const MORE: u32 = 4;
/// Relative gap down to which [`MORE`] pairs may enter.
const EARLY: f64 = 0.05;

/// A column: one group alone, or two together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Activity {
    pub(super) first: usize,
    pub(super) second: Option<usize>,
    pub(super) resource: usize,
    pub(super) rates: (f64, f64),
    /// Position among the candidates, for a pair.
    candidate: Option<usize>,
}

/// A pair of groups that is better than time-sharing.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    first: u32,
    second: u32,
    resource: u32,
    rates: (f64, f64),
}

/// The candidates of largest reduced cost for one group, in ascending order.
#[derive(Clone)]
struct Top {
    worth: [f64; MANY],
    at: [u32; MANY],
}

impl Top {
    fn insert(&mut self, worth: f64, at: usize) {
        if worth <= self.worth[0] {
            return;
        }
        let mut place = 0;
        while place + 1 < MANY && self.worth[place + 1] < worth {
            (self.worth[place], self.at[place]) = (self.worth[place + 1], self.at[place + 1]);
            place += 1;
        }
        (self.worth[place], self.at[place]) = (worth, at as u32);
    }
}

/// The restricted program.
pub(super) struct Master<'a> {
    problem: &'a Sharing<'a>,
    pub(super) groups: &'a [Group],
    candidates: Vec<Candidate>,
    pub(super) activities: Vec<Activity>,
    /// Which candidates are among the activities.
    has: Vec<bool>,
    /// Where the interior point began to converge last time, with its columns.
    warm: Option<(Interior, Vec<Activity>)>,
    /// The current iterate.
    now: Option<(Interior, Vec<Activity>)>,
    normal: Normal,
    pub(super) iterations: u32,
    pub(super) rounds: u32,
}

/// A solution of the program: activities and their values, the bounds of `τ`, and the duals that prove it.
pub(super) struct Solution {
    pub(super) activities: Vec<Activity>,
    pub(super) x: Vec<f64>,
    pub(super) bound: Certificate,
    pub(super) duals: Duals,
}

impl<'a> Master<'a> {
    /// The starting columns.
    pub(super) fn new(problem: &'a Sharing<'a>, groups: &'a [Group]) -> Self {
        let k = problem.capacity.len();
        let candidates = candidates(problem, groups);
        let has = vec![false; candidates.len()];
        let normal = Normal::default();
        let (activities, iterations, rounds) = (Vec::new(), 0, 0);
        let mut master =
            Self { problem, groups, candidates, activities, has, warm: None, now: None, normal, iterations, rounds };
        for (g, group) in groups.iter().enumerate() {
            for j in (0..k).filter(|&j| problem.capacity[j] > 0.0) {
                let rate = problem.rates[group.class * k + j];
                if rate > 0.0 {
                    master.activities.push(Activity {
                        first: g,
                        second: None,
                        resource: j,
                        rates: (rate, 0.0),
                        candidate: None,
                    });
                }
            }
        }
        let gain = |pair: &Candidate, g: usize, h: usize| synergy(problem, groups, (g, h), pair);
        let found = master.search(gain, 0.0, SEEDS, Some(0));
        master.admit(&found);
        master
    }

    /// Pairs of large `worth`, above `least`, such that no group is in many of them: if every group entered with its
    /// best partner, all would choose the same few, who do not have enough jobs.
    fn search(
        &self,
        worth: impl Fn(&Candidate, usize, usize) -> f64,
        least: f64,
        each: u32,
        draw: Option<u32>,
    ) -> Vec<usize> {
        let n = self.groups.len();
        let mut tops = vec![Top { worth: [least; MANY], at: [u32::MAX; MANY] }; n];
        for (at, candidate) in self.candidates.iter().enumerate() {
            let (g, h) = (candidate.first as usize, candidate.second as usize);
            if draw.is_some_and(|draw| hidden(at, draw)) {
                continue;
            }
            let worth = worth(candidate, g, h);
            if (worth > tops[g].worth[0] || worth > tops[h].worth[0]) && !self.has[at] {
                tops[g].insert(worth, at);
                if h != g {
                    tops[h].insert(worth, at);
                }
            }
        }
        let mut found: Vec<(f64, u32)> =
            (tops.iter()).flat_map(|top| top.worth.into_iter().zip(top.at)).filter(|&(_, at)| at != u32::MAX).collect();
        found.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found.dedup();
        let mut taken = vec![0; n];
        found.retain(|&(_, at)| {
            let candidate = &self.candidates[at as usize];
            let sides = [candidate.first as usize, candidate.second as usize];
            let free = sides.iter().all(|&side| taken[side] < each);
            if free {
                sides.iter().for_each(|&side| taken[side] += 1);
            }
            free
        });
        found.into_iter().map(|(_, at)| at as usize).collect()
    }

    /// Updates `has`.
    fn mark(&mut self) {
        self.has.fill(false);
        for activity in &self.activities {
            if let Some(at) = activity.candidate {
                self.has[at] = true;
            }
        }
    }

    fn admit(&mut self, found: &[usize]) {
        let activities: Vec<Activity> = found.iter().map(|&at| self.activity(at)).collect();
        self.activities.extend(activities);
        self.mark();
    }

    fn activity(&self, at: usize) -> Activity {
        let Candidate { first, second, resource, rates, .. } = self.candidates[at];
        Activity {
            first: first as usize,
            second: Some(second as usize),
            resource: resource as usize,
            rates,
            candidate: Some(at),
        }
    }

    /// `maximise τ : rates ≥ b τ` over all columns, to [`TOLERANCE`] or as near as the budget allows.
    pub(super) fn solve(&mut self, b: &[f64], budget: Budget) -> Result<Solution, InputError> {
        let mut best: Option<Solution> = None;
        if self.groups.len() <= MOST_GROUPS {
            for warm in [true, false] {
                let start = if warm { self.now.take() } else { Some(self.cold(b)) };
                if let Some((start, activities)) = start {
                    let (solution, enough) = self.inside(start, activities, b, budget);
                    if enough || self.iterations >= budget.iterations {
                        return Ok(solution);
                    }
                    best = Some(best.into_iter().fold(solution, better));
                }
            }
        }
        let solution = self.generate(b, budget)?;
        Ok(best.into_iter().fold(solution, better))
    }

    fn cold(&self, b: &[f64]) -> (Interior, Vec<Activity>) {
        let (n, k) = (self.groups.len(), self.problem.capacity.len());
        let columns = self.activities.iter().map(|activity| self.column(activity)).collect();
        (Interior::new(n, k, columns, &self.scaled(b)), self.activities.clone())
    }

    fn scaled(&self, b: &[f64]) -> Vec<f64> {
        b.iter().enumerate().map(|(g, b)| b / self.unit(g)).collect()
    }

    /// The interior point, with columns that enter and leave between iterations.
    fn inside(&mut self, mut at: Interior, activities: Vec<Activity>, b: &[f64], budget: Budget) -> (Solution, bool) {
        at.stale = true;
        self.activities = activities;
        self.mark();
        at.aim(&self.scaled(b));
        self.rounds += 1;
        let (mut best, mut enough) = (self.read(b, &at.x, &at.y), false);
        for iteration in 1..=MOST_ITERATIONS {
            if self.iterations >= budget.iterations {
                break;
            }
            self.exchange(&mut at);
            self.iterations += 1;
            let moved = at.step(&mut self.normal);
            let gap = at.gap();
            if gap > WARM || self.warm.is_none() {
                self.warm = Some((at.clone(), self.activities.clone()));
            }
            let over = gap < 1.0 && at.tau * (1.0 + PROVED * gap) < 1.0;
            let last = !moved || self.iterations >= budget.iterations || iteration == MOST_ITERATIONS;
            if last || over || gap <= NEAR {
                best = better(best, self.read(b, &at.x, &at.y));
                if over && best.bound.upper < 1.0 - gap {
                    enough = true;
                    break;
                }
                let gap = best.bound.gap();
                enough = gap <= TOLERANCE;
                if last || gap <= TOLERANCE {
                    break;
                }
            }
        }
        if enough {
            self.now = Some((at, self.activities.clone()));
        }
        (best, enough)
    }

    /// Prepares for the next bottleneck.
    pub(super) fn step_back(&mut self) {
        self.now = self.warm.take();
    }

    /// Pairs that the iterate would use enter, and those that it does not use leave.
    fn exchange(&mut self, at: &mut Interior) {
        let sigma = at.complementarity();
        let duals = self.duals(&at.y);
        let Duals { lambda, mu, p, .. } = &duals;
        let worth = |pair: &Candidate, g: usize, h: usize| {
            let (a, b) = pair.rates;
            lambda[g] * a + lambda[h] * b - mu[g] - mu[h] - p[pair.resource as usize]
        };
        let (each, draw) = if at.gap() > EARLY { (MORE, Some(self.iterations + 1)) } else { (FEW, None) };
        let found = self.search(worth, -sigma / NOTICED, each, draw);
        let keep: Vec<bool> = (self.activities.iter().zip(&at.x))
            .map(|(activity, &x)| {
                activity
                    .second
                    .is_none_or(|h| x > FORGOTTEN * self.groups[activity.first].jobs.min(self.groups[h].jobs))
            })
            .collect();
        let gone = keep.iter().filter(|keep| !**keep).count();
        if gone > self.activities.len() / 8 && at.gap() > SETTLED {
            at.retain(&keep);
            let mut keep = keep.iter();
            self.activities.retain(|_| *keep.next().unwrap_or(&true));
        }
        for activity in found.iter().map(|&at| self.activity(at)) {
            let jobs =
                self.groups[activity.first].jobs.min(self.groups[activity.second.unwrap_or(activity.first)].jobs);
            at.enter(self.column(&activity), sigma, MODEST * NOTICED * jobs);
        }
        self.admit(&found);
    }

    /// An activity as a column of the scaled program.
    fn column(&self, activity: &Activity) -> Column {
        let (n, g) = (self.groups.len(), activity.first);
        let job = |g: usize| 1.0 / self.groups[g].jobs;
        let need = if activity.second.is_none() { self.groups[g].need } else { 1.0 };
        let units = (2 * n + activity.resource, need / self.problem.capacity[activity.resource]);
        match activity.second {
            Some(h) if h != g => Column::new(
                [g, h],
                &[
                    (g, -activity.rates.0 / self.unit(g)),
                    (n + g, job(g)),
                    (h, -activity.rates.1 / self.unit(h)),
                    (n + h, job(h)),
                    units,
                ],
            ),
            Some(_) => Column::new(
                [g, g],
                &[(g, -(activity.rates.0 + activity.rates.1) / self.unit(g)), (n + g, 2.0 * job(g)), units],
            ),
            None => Column::new([g, g], &[(g, -activity.rates.0 / self.unit(g)), (n + g, job(g)), units]),
        }
    }

    /// The same by the general solver, program by program.
    fn generate(&mut self, b: &[f64], budget: Budget) -> Result<Solution, InputError> {
        self.mark();
        let mut best: Option<Solution> = None;
        for _ in 0..MOST_ROUNDS {
            let outcome = self.restricted(b, budget).map_err(InputError::Scale)?;
            self.rounds += 1;
            let duals = self.duals(&outcome.row_duals);
            let mut solution = self.read(b, &outcome.x[1..], &outcome.row_duals);
            if let Some(best) = best.take() {
                solution = better(best, solution);
            }
            let done = solution.bound.gap() <= TOLERANCE || self.iterations >= budget.iterations;
            let wanted = if done { Vec::new() } else { self.wanted(&duals) };
            let last = done || wanted.is_empty();
            if !last {
                self.replace(&solution.x, &duals, &wanted);
            }
            best = Some(solution);
            if last {
                break;
            }
        }
        best.ok_or(InputError::Empty)
    }

    /// The pairs that enter.
    fn wanted(&self, duals: &Duals) -> Vec<usize> {
        let Duals { lambda, mu, p, .. } = duals;
        let scale: f64 = p.iter().zip(self.problem.capacity).map(|(p, m)| p * m).sum();
        let least = 1e-9 * scale.max(1e-3) / self.problem.capacity.iter().sum::<f64>();
        let worth = |pair: &Candidate, g: usize, h: usize| {
            let (a, b) = pair.rates;
            lambda[g] * a + lambda[h] * b - mu[g] - mu[h] - p[pair.resource as usize]
        };
        self.search(worth, least, EACH, None)
    }

    /// The wanted pairs enter; unused ones leave where there are many.
    fn replace(&mut self, x: &[f64], duals: &Duals, wanted: &[usize]) {
        if self.activities.len() + wanted.len() > PLENTY * self.groups.len() {
            let Duals { lambda, mu, p, .. } = duals;
            let mut at = 0;
            self.activities.retain(|activity| {
                let cost = mu[activity.first] + activity.second.map_or(0.0, |h| mu[h]) + p[activity.resource];
                let gain = lambda[activity.first] * activity.rates.0
                    + activity.second.map_or(0.0, |h| lambda[h] * activity.rates.1);
                at += 1;
                activity.second.is_none() || x[at - 1] > 1e-7 || gain > 0.95 * cost
            });
        }
        self.admit(wanted);
    }

    /// Solves the program over `activities`; its columns are τ and the activities, its rows rates, jobs, units.
    fn restricted(&mut self, b: &[f64], budget: Budget) -> Result<Outcome, ModelError> {
        let (n, k) = (self.groups.len(), self.problem.capacity.len());
        let mut model = Model::maximise();
        let tau = model.add_column(f64::NEG_INFINITY, f64::INFINITY, 1.0)?;
        let mut rates: Vec<Vec<(ColumnId, f64)>> = (0..n).map(|g| vec![(tau, -b[g] / self.unit(g))]).collect();
        let (mut jobs, mut units) = (vec![Vec::new(); n], vec![Vec::new(); k]);
        for activity in &self.activities {
            let x = model.add_column(0.0, f64::INFINITY, 0.0)?;
            let mut add = |g: usize, rate: f64| {
                rates[g].push((x, rate / self.problem.best(self.groups[g].class) / self.groups[g].jobs));
                jobs[g].push((x, 1.0 / self.groups[g].jobs));
            };
            add(activity.first, activity.rates.0);
            if let Some(second) = activity.second {
                add(second, activity.rates.1);
            }
            let need = if activity.second.is_none() { self.groups[activity.first].need } else { 1.0 };
            units[activity.resource].push((x, need / self.problem.capacity[activity.resource]));
        }
        for terms in &rates {
            model.add_row(0.0, f64::INFINITY, terms)?;
        }
        for terms in &jobs {
            model.add_row(f64::NEG_INFINITY, 1.0, terms)?;
        }
        for terms in &units {
            model.add_row(f64::NEG_INFINITY, 1.0, terms)?;
        }
        let left = budget.iterations.saturating_sub(self.iterations);
        let outcome = Clarabel.solve(&model, Budget::iterations(left));
        self.iterations += outcome.iterations;
        Ok(outcome)
    }

    /// The unit of a group's rate: all of its jobs alone on their best resource.
    fn unit(&self, g: usize) -> f64 {
        self.problem.best(self.groups[g].class) * self.groups[g].jobs
    }

    /// Duals of the rows in the problem's own units.
    fn duals(&self, rows: &[f64]) -> Duals {
        let (n, k) = (self.groups.len(), self.problem.capacity.len());
        let sane = |value: f64| if value.is_finite() { value.abs() } else { 0.0 };
        let dual = |row: usize, unit: f64| sane(rows[row]) / unit;
        Duals {
            lambda: (0..n).map(|g| dual(g, self.unit(g))).collect(),
            mu: (0..n).map(|g| dual(n + g, self.groups[g].jobs)).collect(),
            p: (0..k)
                .map(|j| if self.problem.capacity[j] > 0.0 { dual(2 * n + j, self.problem.capacity[j]) } else { 0.0 })
                .collect(),
            right: 0.0,
        }
    }

    /// Reads a point, in the problem's units, and certifies it.
    fn read(&self, b: &[f64], x: &[f64], rows: &[f64]) -> Solution {
        let mut duals = self.duals(rows);
        let mut x: Vec<f64> = x.iter().map(|&x| usable(x)).collect();
        let lower = bound::attain(self.problem, self.groups, &self.activities, &mut x, b);
        bound::repair(self.problem, self.groups, &mut duals);
        let weight: f64 = duals.lambda.iter().zip(b).map(|(lambda, b)| lambda * b).sum();
        let bound = Certificate::of_maximum(lower, duals.right / weight);
        Solution { activities: self.activities.clone(), x, bound, duals }
    }
}

/// The better shares and the better duals of two solutions.
fn better(one: Solution, other: Solution) -> Solution {
    let (had, proved) = if one.bound.lower > other.bound.lower { (one, other) } else { (other, one) };
    if proved.bound.upper < had.bound.upper {
        return Solution { bound: Certificate { upper: proved.bound.upper, ..had.bound }, duals: proved.duals, ..had };
    }
    had
}

/// Whether a candidate is left out of a sample: seven of eight are.
fn hidden(at: usize, draw: u32) -> bool {
    (at as u32).wrapping_mul(0x9E37_79B1).wrapping_add(draw.wrapping_mul(0x85EB_CA6B)) >> 29 != 0
}

/// All pairs of groups that are better than time-sharing.
fn candidates(problem: &Sharing<'_>, groups: &[Group]) -> Vec<Candidate> {
    let k = problem.capacity.len();
    let mut of_class = vec![Vec::new(); problem.rates.len() / k];
    for (g, group) in groups.iter().enumerate().filter(|(_, group)| group.need == 1.0) {
        of_class[group.class].push(g);
    }
    let mut candidates = Vec::new();
    for &Pair { first, second, resource, rates } in problem.pairs {
        for &g in &of_class[first] {
            for &h in &of_class[second] {
                // One job cannot be beside itself, and {g, h} of one class is {h, g}.
                if (g == h && groups[g].jobs < 2.0) || (first == second && h < g) || problem.capacity[resource] == 0.0 {
                    continue;
                }
                let candidate = Candidate { first: g as u32, second: h as u32, resource: resource as u32, rates };
                if synergy(problem, groups, (g, h), &candidate) > 1e-12 {
                    candidates.push(candidate);
                }
            }
        }
    }
    candidates
}

/// The gain of a pair over time-sharing the unit: `a/r_ij + b/r_hj − 1`.
fn synergy(problem: &Sharing<'_>, groups: &[Group], (g, h): (usize, usize), pair: &Candidate) -> f64 {
    let part = |group: &Group, rate: f64| {
        let alone = problem.rates[group.class * problem.capacity.len() + pair.resource as usize];
        if rate > 0.0 { (rate / alone).min(1e9) } else { 0.0 }
    };
    part(&groups[g], pair.rates.0) + part(&groups[h], pair.rates.1) - 1.0
}
