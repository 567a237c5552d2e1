//! The program over some of the columns, and the search for those it lacks.
//!
//! With duals `λ` (rates), `μ` (jobs) and `p` (units) of the restricted program, a column is wanted by
//!
//! ```text
//! alone   λ_i r_ij − μ_i − need_i p_j              pair   λ_i a + λ_h b − μ_i − μ_h − p_j
//! ```
//!
//! All columns of single users are always in. Of the pairs those come in that are wanted most, few for any one group;
//! those that are far from wanted leave. What is solved is `maximise τ : rates ≥ b τ`, the same scaled program as in
//! [`crate::maxmin::fill`].
//!
//! It is not solved again whenever columns come in: one interior point ([`super::interior`]) goes on while they come and
//! go. On the central path a column with reduced cost `c` has `σ/c`: those that would have a noticeable part of a job
//! come in, those that have next to nothing leave, and as `σ` falls the two sets shrink to what the answer uses. While
//! prices are still vague every iteration sees another eighth of the pairs, or all would choose the same few partners.
//! Nor is it solved to the end when its targets prove too high: lower ones go on from the same iterate.
//!
//! Where the interior point gets stuck, or there are too many groups for it, the general solver is asked, program by
//! program; the better of the answers counts.

use super::bound::{self, Duals};
use super::interior::{Column, Interior};
use super::normal::Normal;
use super::{Group, Pair, Refusal, Sharing, TOLERANCE};
use crate::maxmin::Bound;
use crate::{Budget, Clarabel, ColumnId, Model, ModelError, Outcome, Solver};

/// Rounds of column generation per program.
const MOST_ROUNDS: u32 = 40;
/// The pairs of greatest worth that are looked at, per group, in one round of the general solver...
const MANY: usize = 8;
/// ...and those that may come in for one group.
const EACH: u32 = 8;
/// With more columns than this per group, those that are not wanted leave.
const PLENTY: usize = 10;

/// With more groups than this the dense storage of the interior point is too much, and the general solver is asked.
const MOST_GROUPS: usize = 3_000;
/// Iterations of the interior point for one program.
const MOST_ITERATIONS: u32 = 80;
/// The next stage begins from the last iterate with a gap above this.
const WARM: f64 = 1e-2;
/// Below this gap columns do not go any more: what they had would be missed.
const SETTLED: f64 = 1e-4;
/// Once it is proved that the targets are too high by this many gaps, that is enough.
const PROVED: f64 = 5.0;
/// Pairs to begin with, per group.
const SEEDS: u32 = 3;
/// The gap from which the interior point is measured.
const NEAR: f64 = 1e-6;
/// A pair may come in if it would get this part of a job on the central path...
const NOTICED: f64 = 0.5;
/// ...of which it begins with this part...
const MODEST: f64 = 0.2;
/// ...and leaves when it has less than this.
const FORGOTTEN: f64 = 0.01;
/// Pairs that may come in for one group between two iterations.
const FEW: u32 = 3;
/// More of them at first, while the gap is above...
const MORE: u32 = 4;
/// ...this.
const EARLY: f64 = 0.05;

/// A column: one group, or two.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Way {
    pub(super) first: usize,
    pub(super) second: Option<usize>,
    pub(super) resource: usize,
    pub(super) rates: (f64, f64),
    /// Which pair of groups it is.
    candidate: Option<usize>,
}

/// A pair of groups that is better than taking turns.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    first: u32,
    second: u32,
    resource: u32,
    rates: (f64, f64),
}

/// The candidates of greatest worth for one group, the least of them first.
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

/// The program and what is known about it.
pub(super) struct Master<'a> {
    problem: &'a Sharing<'a>,
    pub(super) groups: &'a [Group],
    candidates: Vec<Candidate>,
    pub(super) ways: Vec<Way>,
    /// Which candidates are among them.
    has: Vec<bool>,
    /// Where the interior point began to converge last time, with its columns.
    warm: Option<(Interior, Vec<Way>)>,
    /// Where it stands.
    now: Option<(Interior, Vec<Way>)>,
    normal: Normal,
    pub(super) iterations: u32,
    pub(super) rounds: u32,
}

/// An answer of the program: ways and shares of them, the level, duals that prove it.
pub(super) struct Answer {
    pub(super) ways: Vec<Way>,
    pub(super) x: Vec<f64>,
    pub(super) bound: Bound,
    pub(super) duals: Duals,
}

impl<'a> Master<'a> {
    /// Writes the columns to begin with.
    pub(super) fn new(problem: &'a Sharing<'a>, groups: &'a [Group]) -> Self {
        let k = problem.capacity.len();
        let candidates = candidates(problem, groups);
        let has = vec![false; candidates.len()];
        let normal = Normal::default();
        let (ways, iterations, rounds) = (Vec::new(), 0, 0);
        let mut master =
            Self { problem, groups, candidates, ways, has, warm: None, now: None, normal, iterations, rounds };
        for (g, group) in groups.iter().enumerate() {
            for j in (0..k).filter(|&j| problem.capacity[j] > 0.0) {
                let rate = problem.rates[group.class * k + j];
                if rate > 0.0 {
                    master.ways.push(Way { first: g, second: None, resource: j, rates: (rate, 0.0), candidate: None });
                }
            }
        }
        let gain = |pair: &Candidate, g: usize, h: usize| synergy(problem, groups, (g, h), pair);
        let found = master.search(gain, 0.0, SEEDS, Some(0));
        master.admit(&found);
        master
    }

    /// Pairs of great `worth`, above `least`, such that no group is in many of them: were everybody to bring its own
    /// favourite, all would bring the same few, who have no jobs for all of them.
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

    /// Notes which pairs are in.
    fn mark(&mut self) {
        self.has.fill(false);
        for way in &self.ways {
            if let Some(at) = way.candidate {
                self.has[at] = true;
            }
        }
    }

    fn admit(&mut self, found: &[usize]) {
        let ways: Vec<Way> = found.iter().map(|&at| self.way(at)).collect();
        self.ways.extend(ways);
        self.mark();
    }

    fn way(&self, at: usize) -> Way {
        let Candidate { first, second, resource, rates, .. } = self.candidates[at];
        Way {
            first: first as usize,
            second: Some(second as usize),
            resource: resource as usize,
            rates,
            candidate: Some(at),
        }
    }

    /// `maximise τ : rates ≥ b τ` over all columns, to [`TOLERANCE`] or as near as the budget allows.
    pub(super) fn solve(&mut self, b: &[f64], budget: Budget) -> Result<Answer, Refusal> {
        let mut best: Option<Answer> = None;
        if self.groups.len() <= MOST_GROUPS {
            for warm in [true, false] {
                let start = if warm { self.now.take() } else { Some(self.cold(b)) };
                if let Some((start, ways)) = start {
                    let (answer, enough) = self.inside(start, ways, b, budget);
                    if enough || self.iterations >= budget.iterations {
                        return Ok(answer);
                    }
                    best = Some(best.into_iter().fold(answer, better));
                }
            }
        }
        let answer = self.generate(b, budget)?;
        Ok(best.into_iter().fold(answer, better))
    }

    fn cold(&self, b: &[f64]) -> (Interior, Vec<Way>) {
        let (n, k) = (self.groups.len(), self.problem.capacity.len());
        let columns = self.ways.iter().map(|way| self.column(way)).collect();
        (Interior::new(n, k, columns, &self.scaled(b)), self.ways.clone())
    }

    fn scaled(&self, b: &[f64]) -> Vec<f64> {
        b.iter().enumerate().map(|(g, b)| b / self.unit(g)).collect()
    }

    /// The interior point, with columns that come and go as it goes on.
    fn inside(&mut self, mut at: Interior, ways: Vec<Way>, b: &[f64], budget: Budget) -> (Answer, bool) {
        at.stale = true;
        self.ways = ways;
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
                self.warm = Some((at.clone(), self.ways.clone()));
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
            self.now = Some((at, self.ways.clone()));
        }
        (best, enough)
    }

    /// Another stage begins.
    pub(super) fn step_back(&mut self) {
        self.now = self.warm.take();
    }

    /// Lets pairs in that the iterate would use, and those go that it does not.
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
        let keep: Vec<bool> = (self.ways.iter().zip(&at.x))
            .map(|(way, &x)| {
                way.second.is_none_or(|h| x > FORGOTTEN * self.groups[way.first].jobs.min(self.groups[h].jobs))
            })
            .collect();
        let gone = keep.iter().filter(|keep| !**keep).count();
        if gone > self.ways.len() / 8 && at.gap() > SETTLED {
            at.retain(&keep);
            let mut keep = keep.iter();
            self.ways.retain(|_| *keep.next().unwrap_or(&true));
        }
        for way in found.iter().map(|&at| self.way(at)) {
            let jobs = self.groups[way.first].jobs.min(self.groups[way.second.unwrap_or(way.first)].jobs);
            at.enter(self.column(&way), sigma, MODEST * NOTICED * jobs);
        }
        self.admit(&found);
    }

    /// A way as a column of the scaled program.
    fn column(&self, way: &Way) -> Column {
        let (n, g) = (self.groups.len(), way.first);
        let job = |g: usize| 1.0 / self.groups[g].jobs;
        let need = if way.second.is_none() { self.groups[g].need } else { 1.0 };
        let units = (2 * n + way.resource, need / self.problem.capacity[way.resource]);
        match way.second {
            Some(h) if h != g => Column::new(
                [g, h],
                &[
                    (g, -way.rates.0 / self.unit(g)),
                    (n + g, job(g)),
                    (h, -way.rates.1 / self.unit(h)),
                    (n + h, job(h)),
                    units,
                ],
            ),
            Some(_) => {
                Column::new([g, g], &[(g, -(way.rates.0 + way.rates.1) / self.unit(g)), (n + g, 2.0 * job(g)), units])
            }
            None => Column::new([g, g], &[(g, -way.rates.0 / self.unit(g)), (n + g, job(g)), units]),
        }
    }

    /// The same by the general solver, program by program.
    fn generate(&mut self, b: &[f64], budget: Budget) -> Result<Answer, Refusal> {
        self.mark();
        let mut best: Option<Answer> = None;
        for _ in 0..MOST_ROUNDS {
            let outcome = self.restricted(b, budget).map_err(Refusal::Scale)?;
            self.rounds += 1;
            let duals = self.duals(&outcome.row_duals);
            let mut answer = self.read(b, &outcome.x[1..], &outcome.row_duals);
            if let Some(best) = best.take() {
                answer = better(best, answer);
            }
            let done = answer.bound.gap() <= TOLERANCE || self.iterations >= budget.iterations;
            let wanted = if done { Vec::new() } else { self.wanted(&duals) };
            let last = done || wanted.is_empty();
            if !last {
                self.replace(&answer.x, &duals, &wanted);
            }
            best = Some(answer);
            if last {
                break;
            }
        }
        best.ok_or(Refusal::Empty)
    }

    /// The pairs that come in.
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

    /// Lets the wanted in, and lets those that nobody uses leave where there are many.
    fn replace(&mut self, x: &[f64], duals: &Duals, wanted: &[usize]) {
        if self.ways.len() + wanted.len() > PLENTY * self.groups.len() {
            let Duals { lambda, mu, p, .. } = duals;
            let mut at = 0;
            self.ways.retain(|way| {
                let cost = mu[way.first] + way.second.map_or(0.0, |h| mu[h]) + p[way.resource];
                let gain = lambda[way.first] * way.rates.0 + way.second.map_or(0.0, |h| lambda[h] * way.rates.1);
                at += 1;
                way.second.is_none() || x[at - 1] > 1e-7 || gain > 0.95 * cost
            });
        }
        self.admit(wanted);
    }

    /// Solves the program over `ways`; its columns are τ and the ways, its rows rates, jobs, units.
    fn restricted(&mut self, b: &[f64], budget: Budget) -> Result<Outcome, ModelError> {
        let (n, k) = (self.groups.len(), self.problem.capacity.len());
        let mut model = Model::maximise();
        let tau = model.add_column(f64::NEG_INFINITY, f64::INFINITY, 1.0)?;
        let mut rates: Vec<Vec<(ColumnId, f64)>> = (0..n).map(|g| vec![(tau, -b[g] / self.unit(g))]).collect();
        let (mut jobs, mut units) = (vec![Vec::new(); n], vec![Vec::new(); k]);
        for way in &self.ways {
            let x = model.add_column(0.0, f64::INFINITY, 0.0)?;
            let mut add = |g: usize, rate: f64| {
                rates[g].push((x, rate / self.problem.best(self.groups[g].class) / self.groups[g].jobs));
                jobs[g].push((x, 1.0 / self.groups[g].jobs));
            };
            add(way.first, way.rates.0);
            if let Some(second) = way.second {
                add(second, way.rates.1);
            }
            let need = if way.second.is_none() { self.groups[way.first].need } else { 1.0 };
            units[way.resource].push((x, need / self.problem.capacity[way.resource]));
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

    /// What a group's rate is counted in: all of its jobs at their best.
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

    /// Reads an answer, in the problem's own units, with what it proves.
    fn read(&self, b: &[f64], x: &[f64], rows: &[f64]) -> Answer {
        let mut duals = self.duals(rows);
        let mut x: Vec<f64> = x.iter().map(|&x| if x > 0.0 && x.is_finite() { x } else { 0.0 }).collect();
        let lower = bound::attain(self.problem, self.groups, &self.ways, &mut x, b);
        bound::repair(self.problem, self.groups, &mut duals);
        let weight: f64 = duals.lambda.iter().zip(b).map(|(lambda, b)| lambda * b).sum();
        let upper = duals.right / weight;
        let upper = if upper.is_finite() { upper } else { f64::INFINITY };
        Answer { ways: self.ways.clone(), x, bound: Bound { lower, upper }, duals }
    }
}

/// The better shares and the better duals of two answers.
fn better(one: Answer, other: Answer) -> Answer {
    let (had, proved) = if one.bound.lower > other.bound.lower { (one, other) } else { (other, one) };
    if proved.bound.upper < had.bound.upper {
        return Answer { bound: Bound { upper: proved.bound.upper, ..had.bound }, duals: proved.duals, ..had };
    }
    had
}

/// Whether a candidate is left out of a draw: seven of eight are. At first all would choose the same few partners.
fn hidden(at: usize, draw: u32) -> bool {
    (at as u32).wrapping_mul(0x9E37_79B1).wrapping_add(draw.wrapping_mul(0x85EB_CA6B)) >> 29 != 0
}

/// All pairs of groups that are better than taking turns.
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

/// What a pair gains over its two jobs taking turns on the unit: `a/r_ij + b/r_hj − 1`.
fn synergy(problem: &Sharing<'_>, groups: &[Group], (g, h): (usize, usize), pair: &Candidate) -> f64 {
    let part = |group: &Group, rate: f64| {
        let alone = problem.rates[group.class * problem.capacity.len() + pair.resource as usize];
        if rate > 0.0 { (rate / alone).min(1e9) } else { 0.0 }
    };
    part(&groups[g], pair.rates.0) + part(&groups[h], pair.rates.1) - 1.0
}
