//! The program over some of the columns, and the search for those it lacks.
//!
//! With duals `λ` (rates), `μ` (jobs) and `p` (units) of the restricted program, a column is wanted by
//!
//! ```text
//! alone   λ_i r_ij − μ_i − need_i p_j              pair   λ_i a + λ_h b − μ_i − μ_h − p_j
//! ```
//!
//! All columns of single users are always in. Of the pairs those come in that are wanted most by one of the two on
//! that resource; those that are far from wanted leave. What is solved is `maximise τ : rates ≥ b τ`, the same scaled
//! program as in [`crate::maxmin::fill`].

use super::bound::{self, Duals};
use super::{Group, Pair, Refusal, Sharing, TOLERANCE};
use crate::maxmin::Bound;
use crate::{Budget, Clarabel, ColumnId, Model, ModelError, Outcome, Solver};

/// Rounds of column generation per program.
const MOST_ROUNDS: u32 = 40;
/// The pairs of greatest worth that are looked at, per group, in one round...
const MANY: usize = 40;
/// ...and those that may come in for one group.
const EACH: u32 = 8;
/// With more columns than this per group, those that are not wanted leave.
const PLENTY: usize = 10;

/// A column: one group, or two.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Way {
    pub(super) first: usize,
    pub(super) second: Option<usize>,
    pub(super) resource: usize,
    pub(super) rates: (f64, f64),
}

/// A pair that is worth having.
#[derive(Clone, Copy, Debug)]
struct Offer {
    pair: Pair,
    /// What it gains over the two taking turns.
    synergy: f64,
}

/// The program and what is known about it.
pub(super) struct Master<'a> {
    problem: &'a Sharing<'a>,
    pub(super) groups: &'a [Group],
    /// Groups of each class whose jobs take one unit.
    of_class: Vec<Vec<usize>>,
    offers: Vec<Offer>,
    pub(super) ways: Vec<Way>,
    pub(super) iterations: u32,
    pub(super) rounds: u32,
}

/// An answer of the program: shares for `ways`, the level, duals that prove it.
pub(super) struct Answer {
    pub(super) x: Vec<f64>,
    pub(super) bound: Bound,
    pub(super) duals: Duals,
}

impl<'a> Master<'a> {
    /// Writes the columns to begin with.
    pub(super) fn new(problem: &'a Sharing<'a>, groups: &'a [Group]) -> Self {
        let k = problem.capacity.len();
        let mut of_class = vec![Vec::new(); problem.rates.len() / k];
        for (g, group) in groups.iter().enumerate().filter(|(_, group)| group.need == 1.0) {
            of_class[group.class].push(g);
        }
        let used = |class: usize| !of_class[class].is_empty();
        let offers = (problem.pairs.iter())
            .filter(|pair| used(pair.first) && used(pair.second) && problem.capacity[pair.resource] > 0.0)
            .map(|&pair| Offer { pair, synergy: synergy(problem, &pair) })
            .filter(|offer| offer.synergy > 1e-12)
            .collect();
        let mut master = Self { problem, groups, of_class, offers, ways: Vec::new(), iterations: 0, rounds: 0 };
        for (g, group) in groups.iter().enumerate() {
            for j in (0..k).filter(|&j| problem.capacity[j] > 0.0) {
                let rate = problem.rates[group.class * k + j];
                if rate > 0.0 {
                    master.ways.push(Way { first: g, second: None, resource: j, rates: (rate, 0.0) });
                }
            }
        }
        let found = master.search(|offer, _, _| offer.synergy, 0.0);
        master.ways.extend(found);
        master
    }

    /// Pairs of great `worth`, above `least`, such that no group is in many of them: were everybody to bring its own
    /// favourite, all would bring the same few, who have no jobs for all of them.
    fn search(&self, worth: impl Fn(&Offer, usize, usize) -> f64, least: f64) -> Vec<Way> {
        let mut found: Vec<(f64, Way)> = Vec::new();
        for offer in &self.offers {
            let Pair { first, second, resource, rates } = offer.pair;
            for &g in &self.of_class[first] {
                for &h in &self.of_class[second] {
                    // One job cannot be beside itself, and {g, h} of one class is {h, g}.
                    if (g == h && self.groups[g].jobs < 2.0) || (first == second && h < g) {
                        continue;
                    }
                    let worth = worth(offer, g, h);
                    if worth > least {
                        found.push((worth, Way { first: g, second: Some(h), resource, rates }));
                    }
                }
            }
        }
        let key = |way: &Way| (way.first, way.second, way.resource);
        let order = |a: &(f64, Way), b: &(f64, Way)| b.0.total_cmp(&a.0).then_with(|| key(&a.1).cmp(&key(&b.1)));
        let n = self.groups.len();
        if found.len() > MANY * n {
            found.select_nth_unstable_by(MANY * n, order);
            found.truncate(MANY * n);
        }
        found.sort_unstable_by(order);
        let mut taken = vec![0; n];
        found.retain(|(_, way)| {
            let sides = [way.first, way.second.unwrap_or(way.first)];
            let free = sides.iter().all(|&side| taken[side] < EACH);
            if free {
                sides.iter().for_each(|&side| taken[side] += 1);
            }
            free
        });
        found.into_iter().map(|(_, way)| way).collect()
    }

    /// `maximise τ : rates ≥ b τ` over all columns, to [`TOLERANCE`] or as near as the budget allows.
    pub(super) fn solve(&mut self, b: &[f64], budget: Budget) -> Result<Answer, Refusal> {
        let mut best: Option<Answer> = None;
        for _ in 0..MOST_ROUNDS {
            let outcome = self.restricted(b, budget).map_err(Refusal::Scale)?;
            self.rounds += 1;
            let (mut answer, duals) = self.read(b, &outcome);
            if let Some(best) = best.take().filter(|best: &Answer| best.bound.upper < answer.bound.upper) {
                // Later duals may prove less.
                answer.bound.upper = best.bound.upper;
                answer.duals = best.duals;
            }
            let done = answer.bound.gap() <= TOLERANCE || self.iterations >= budget.iterations;
            let wanted = if done { Vec::new() } else { self.wanted(&duals) };
            let last = done || wanted.is_empty();
            if !last {
                self.replace(&answer.x, &duals, wanted);
            }
            best = Some(answer);
            if last {
                break;
            }
        }
        best.ok_or(Refusal::Empty)
    }

    /// The pairs that come in.
    fn wanted(&self, duals: &Duals) -> Vec<Way> {
        let Duals { lambda, mu, p, .. } = duals;
        let scale: f64 = p.iter().zip(self.problem.capacity).map(|(p, m)| p * m).sum();
        let least = 1e-9 * scale.max(1e-3) / self.problem.capacity.iter().sum::<f64>();
        let worth = |offer: &Offer, g: usize, h: usize| {
            let (a, b) = offer.pair.rates;
            lambda[g] * a + lambda[h] * b - mu[g] - mu[h] - p[offer.pair.resource]
        };
        let key = |way: &Way| (way.first, way.second, way.resource);
        let mut have: Vec<_> = self.ways.iter().filter(|way| way.second.is_some()).map(key).collect();
        have.sort_unstable();
        let mut found = self.search(worth, least);
        found.retain(|way| have.binary_search(&key(way)).is_err());
        found
    }

    /// Lets the wanted in, and lets those that nobody uses leave where there are many.
    fn replace(&mut self, x: &[f64], duals: &Duals, wanted: Vec<Way>) {
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
        self.ways.extend(wanted);
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

    /// Reads an answer, in the problem's own units, with what it proves; and the duals of the program itself.
    fn read(&self, b: &[f64], outcome: &Outcome) -> (Answer, Duals) {
        let (n, k) = (self.groups.len(), self.problem.capacity.len());
        let sane = |value: f64| if value.is_finite() { value.abs() } else { 0.0 };
        let dual = |row: usize, unit: f64| sane(outcome.row_duals[row]) / unit;
        let mut duals = Duals {
            lambda: (0..n).map(|g| dual(g, self.unit(g))).collect(),
            mu: (0..n).map(|g| dual(n + g, self.groups[g].jobs)).collect(),
            p: (0..k)
                .map(|j| if self.problem.capacity[j] > 0.0 { dual(2 * n + j, self.problem.capacity[j]) } else { 0.0 })
                .collect(),
            right: 0.0,
        };
        let mut x: Vec<f64> = outcome.x[1..].iter().map(|&x| if x > 0.0 && x.is_finite() { x } else { 0.0 }).collect();
        let lower = bound::attain(self.problem, self.groups, &self.ways, &mut x, b);
        let own = duals.clone();
        bound::repair(self.problem, self.groups, &mut duals);
        let weight: f64 = duals.lambda.iter().zip(b).map(|(lambda, b)| lambda * b).sum();
        let upper = duals.right / weight;
        let upper = if upper.is_finite() { upper } else { f64::INFINITY };
        (Answer { x, bound: Bound { lower, upper }, duals }, own)
    }
}

/// What a pair gains over its two jobs taking turns on the unit: `a/r_ij + b/r_hj − 1`.
fn synergy(problem: &Sharing<'_>, pair: &Pair) -> f64 {
    let k = problem.capacity.len();
    let part = |class: usize, rate: f64| {
        let alone = problem.rates[class * k + pair.resource];
        if rate > 0.0 { (rate / alone).min(1e9) } else { 0.0 }
    };
    part(pair.first, pair.rates.0) + part(pair.second, pair.rates.1) - 1.0
}
