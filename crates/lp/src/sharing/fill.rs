//! Water-filling over [`super::master`], bottleneck by bottleneck as in [`crate::maxmin::fill`].
//!
//! A level `t` needs `b_i(t) = β_i min(t, f_i)`, where `f_i` is the level of a user whose jobs are all alone on their best
//! resource, or the level it is frozen at. Duals of any program prove `Σ λ_i b_i(t) ≤ R`, hence
//!
//! ```text
//! t ≤ sup { t : Σ_i λ_i β_i min(t, f_i) ≤ R }
//! ```
//!
//! and `t` comes down from above until the program's optimum is `τ = 1`. A user freezes if its dual proves that it cannot
//! rise: `Σ λ β u` is short of `R` by some *room*, and `u_i` can grow by no more than `room/(λ_i β_i)`.

use super::bound::served;
use super::master::{Activity, Master, Solution};
use super::{Filling, Group, Share, Sharing, TOLERANCE};
use crate::maxmin::Bottleneck;
use crate::{Budget, Certificate, InputError};

/// `τ` this near to 1 is 1...
const REACHED: f64 = 2.0 * TOLERANCE;
/// ...and so near if no better is to be had.
const NEARLY: f64 = 1e-4;
/// A user that can rise by less than this, relatively, is frozen.
const FROZEN: f64 = 1e-5;
/// So is one whose dual is above this fraction of the mean: duals of an interior point are either clearly positive or vanish.
const CLEAR: f64 = 1e-2;
/// A rise below this, relatively, may be nothing but the gap of the solution, and is looked at exactly...
const DOUBTFUL: f64 = 5e-2;
/// ...where there are no more groups than this.
const MOST_EXACT: usize = 100;
/// Programs per bottleneck.
const MOST_STEPS: u32 = 60;

/// A filling in progress.
struct Fill<'a> {
    master: Master<'a>,
    limit: Vec<f64>,
    rising: Vec<bool>,
}

pub(super) fn run(problem: &Sharing<'_>, budget: Budget) -> Result<Filling, InputError> {
    let groups = problem.groups();
    let limit = groups.iter().map(|group| group.jobs * (problem.best(group.class) / group.beta)).collect();
    let rising = vec![true; groups.len()];
    let mut fill = Fill { master: Master::new(problem, &groups), limit, rising };
    let alone: Vec<f64> = groups.iter().map(|group| group.jobs * (problem.best(group.class) / group.beta)).collect();
    let mut filling = Filling::default();
    let (mut proofs, mut all_reached) = (Vec::new(), true);
    while fill.rising.contains(&true) {
        let (mut t, mut solution, reached) = fill.raise(budget)?;
        if reached
            && fill.in_doubt(t, &solution)
            && let Some(exact) = fill.master.exact_level(&fill.kept(t), budget)
        {
            (t, solution) = exact;
        }
        proofs.push(fill.proof(&solution));
        filling.bottlenecks.push(fill.settle(t, &solution, reached));
        // A level that was not reached has scaled everybody down: the solution before it is better, if there is one.
        if reached || filling.shares.is_empty() {
            fill.write(&solution, &mut filling);
        }
        all_reached = reached;
    }
    measure(&groups, &mut filling, &alone, &proofs, all_reached);
    (filling.iterations, filling.rounds) = (fill.master.iterations, fill.master.rounds);
    filling.groups = groups.iter().map(|group| group.members.clone()).collect();
    name_users(&groups, &mut filling);
    Ok(filling)
}

/// How tight a solution is.
struct Slack {
    /// What every group gets done.
    served: Vec<f64>,
    /// How much is missing from what the duals allow.
    room: f64,
    /// A dual above this freezes its user.
    clear: f64,
}

/// What the duals of a bottleneck prove: `Σ_i weight_i u_i ≤ R` for all feasible levels `u`.
struct Proof {
    weights: Vec<f64>,
    right: f64,
}

/// Reads the levels of the stages off the solution as it is in the end, what their duals prove of those, and the gap. A
/// stage's level is the least of all who froze in it or later; those who stopped before, or are full, keep what they
/// have. Only of the last stage may it be said that it was not reached: then its users are measured against what they
/// could do alone.
fn measure(groups: &[Group], filling: &mut Filling, alone: &[f64], proofs: &[Proof], reached: bool) {
    let levels: Vec<f64> = filling.levels.iter().zip(groups).map(|(served, group)| served / group.beta).collect();
    let count = filling.bottlenecks.len();
    let (mut kept, mut least) = (levels.clone(), f64::INFINITY);
    for (s, bottleneck) in filling.bottlenecks.iter_mut().enumerate().rev() {
        for &g in &bottleneck.frozen {
            least = least.min(levels[g]);
            kept[g] = f64::INFINITY;
        }
        if bottleneck.frozen.is_empty() {
            bottleneck.bound.lower = bottleneck.full.iter().map(|&g| levels[g]).fold(0.0, f64::max);
            bottleneck.bound.upper = bottleneck.full.iter().map(|&g| alone[g]).fold(0.0, f64::max);
        } else {
            bottleneck.bound = Certificate { lower: least, upper: highest(&proofs[s], &kept, f64::INFINITY) };
        }
        // What is had can be had: only rounding says otherwise.
        bottleneck.bound.upper = bottleneck.bound.upper.max(bottleneck.bound.lower);
        let stopped = if reached || s + 1 < count { &[][..] } else { &bottleneck.frozen };
        let users =
            bottleneck.full.iter().chain(stopped).map(|&g| Certificate { lower: levels[g], upper: alone[g] }.gap());
        filling.gap = users.fold(filling.gap.max(bottleneck.bound.gap()), f64::max);
    }
    filling.levels = levels;
}

/// `sup { t : Σ weight min(t, limit) ≤ R }`, at most `top`.
fn highest(proof: &Proof, limit: &[f64], top: f64) -> f64 {
    let mut order: Vec<usize> = (0..limit.len()).collect();
    order.sort_by(|&a, &b| limit[a].total_cmp(&limit[b]));
    let (mut left, mut slope) = (proof.right, proof.weights.iter().sum::<f64>());
    for (at, &g) in order.iter().enumerate() {
        if left <= slope * limit[g] {
            break;
        }
        left -= proof.weights[g] * limit[g];
        // Summed anew: what is left of a great slope is rounding.
        slope = order[at + 1..].iter().map(|&g| proof.weights[g]).sum();
    }
    let t = left / slope;
    if t > 0.0 && t < top { t } else { top }
}

/// Translates groups into users.
fn name_users(groups: &[Group], filling: &mut Filling) {
    let users = |list: &[usize]| {
        let mut users: Vec<usize> = list.iter().flat_map(|&g| groups[g].members.iter().copied()).collect();
        users.sort_unstable();
        users
    };
    for bottleneck in &mut filling.bottlenecks {
        bottleneck.frozen = users(&bottleneck.frozen);
        bottleneck.full = users(&bottleneck.full);
    }
    let mut levels = vec![0.0; groups.iter().map(|group| group.members.len()).sum()];
    for (group, level) in groups.iter().zip(&filling.levels) {
        group.members.iter().for_each(|&i| levels[i] = *level);
    }
    filling.levels = levels;
}

impl Fill<'_> {
    fn beta(&self, g: usize) -> f64 {
        self.master.groups[g].beta
    }

    /// The greatest common level, from above, with its solution, and whether it was reached.
    fn raise(&mut self, budget: Budget) -> Result<(f64, Solution, bool), InputError> {
        let n = self.limit.len();
        let mut t = (0..n).filter(|&g| self.rising[g]).map(|g| self.limit[g]).fold(0.0, f64::max);
        self.master.step_back();
        let mut steps = 0;
        loop {
            steps += 1;
            let b: Vec<f64> = (0..n).map(|g| self.beta(g) * t.min(self.limit[g])).collect();
            let solution = self.master.solve(&b, budget)?;
            let reached = solution.bound.lower >= 1.0 - REACHED;
            let lower = highest(&self.proof(&solution), &self.limit, t);
            // Where rounding allows no more, near is accepted; the bounds of the bottleneck say how near.
            let stuck = lower >= t * (1.0 - 1e-9) || steps == MOST_STEPS;
            if reached || stuck || self.master.iterations >= budget.iterations {
                let near = stuck && solution.bound.lower >= 1.0 - NEARLY;
                return Ok((t, solution, reached || near));
            }
            t = lower;
        }
    }

    fn proof(&self, solution: &Solution) -> Proof {
        let weights = (0..self.limit.len()).map(|g| solution.duals.lambda[g] * self.beta(g)).collect();
        Proof { weights, right: solution.duals.right }
    }

    /// Whether the group is as high as it can be by itself at level `t`.
    fn is_full(&self, g: usize, t: f64) -> bool {
        self.limit[g] <= t * (1.0 + REACHED)
    }

    /// The levels of those that `t` does not concern.
    fn kept(&self, t: f64) -> Vec<Option<f64>> {
        let concerned = |g: usize| self.rising[g] && !self.is_full(g, t);
        (0..self.limit.len()).map(|g| (!concerned(g)).then_some(self.limit[g])).collect()
    }

    /// Whether somebody could rise, but by so little that the gap of the solution may be all there is to it.
    fn in_doubt(&self, t: f64, solution: &Solution) -> bool {
        let n = self.limit.len();
        let Slack { room, clear, .. } = self.slack(t, solution);
        let weight = |g: usize| solution.duals.lambda[g] * self.beta(g);
        let doubtful = |g: usize| {
            let rise = room / (t * weight(g));
            self.rising[g] && !self.is_full(g, t) && weight(g) < clear && (FROZEN..DOUBTFUL).contains(&rise)
        };
        n <= MOST_EXACT && (0..n).any(doubtful)
    }

    fn slack(&self, t: f64, solution: &Solution) -> Slack {
        let n = self.limit.len();
        let served = served(self.master.groups, &solution.activities, &solution.x);
        let duals = &solution.duals;
        let weight = |g: usize| duals.lambda[g] * self.beta(g);
        let kept: f64 = (0..n).map(|g| duals.lambda[g] * served[g].min(self.beta(g) * t.min(self.limit[g]))).sum();
        let rising: f64 = (0..n).filter(|&g| self.rising[g] && self.limit[g] > t).map(weight).sum();
        Slack { served, room: (duals.right - kept).max(0.0), clear: CLEAR * rising / n as f64 }
    }

    /// Freezes the users that the duals freeze.
    fn settle(&mut self, t: f64, solution: &Solution, reached: bool) -> Bottleneck {
        let n = self.limit.len();
        let Slack { served: u, room, clear } = self.slack(t, solution);
        let duals = &solution.duals;
        let weight = |g: usize| duals.lambda[g] * self.beta(g);
        let mut bottleneck = Bottleneck {
            prices: duals.p.clone(),
            frozen: Vec::new(),
            full: Vec::new(),
            bound: Certificate { lower: t, upper: t },
        };
        for g in (0..n).filter(|&g| self.rising[g]) {
            if self.is_full(g, t) {
                bottleneck.full.push(g);
            } else if !reached || room <= FROZEN * t * weight(g) || weight(g) >= clear {
                bottleneck.frozen.push(g);
            }
        }
        if bottleneck.full.is_empty() && bottleneck.frozen.is_empty() {
            // Somebody's dual is the greatest, and the duals add up to one: the proof is as good as the gap.
            let rising = (0..n).filter(|&g| self.rising[g]);
            bottleneck.frozen.extend(rising.max_by(|&a, &b| weight(a).total_cmp(&weight(b))));
        }
        for &g in &bottleneck.frozen {
            // The level attained, not the one aimed at: it must be feasible in the next program.
            self.limit[g] = t.min(u[g] / self.beta(g));
        }
        for &g in bottleneck.frozen.iter().chain(&bottleneck.full) {
            self.rising[g] = false;
        }
        bottleneck
    }

    /// Copies the solution; levels are the groups' rates until they are measured.
    fn write(&self, solution: &Solution, filling: &mut Filling) {
        let (groups, activities) = (self.master.groups, &solution.activities);
        let used = activities.iter().zip(&solution.x).filter(|&(_, &x)| x > 0.0);
        let share = |(activity, &amount): (&Activity, &f64)| {
            let Activity { first, second, resource, .. } = *activity;
            Share { first, second, resource, amount }
        };
        filling.shares = used.map(share).collect();
        filling.levels = served(groups, activities, &solution.x);
        filling.columns = activities.len();
    }
}
