//! Water-filling over [`super::master`], stage by stage as in [`crate::maxmin::fill`].
//!
//! A level `t` asks for `b_i(t) = β_i min(t, f_i)`, where `f_i` is what a user's jobs can do alone at their best, or the level
//! it is frozen at. Duals of any program prove `Σ λ_i b_i(t) ≤ R`, hence
//!
//! ```text
//! t ≤ sup { t : Σ_i λ_i β_i min(t, f_i) ≤ R }
//! ```
//!
//! and `t` comes down from above until the program says `τ = 1`. A user freezes if its dual proves that it can have no more:
//! with what is had, `Σ λ β u` is short of `R` by some *room*, and `u_i` can grow by no more than `room/(λ_i β_i)`.

use super::bound::served;
use super::master::{Answer, Master, Way};
use super::{Group, Refusal, Share, Shared, Sharing, Stage, TOLERANCE};
use crate::Budget;
use crate::maxmin::Bound;

/// `τ` this near to 1 is 1...
const REACHED: f64 = 2.0 * TOLERANCE;
/// ...and so near if no better is to be had.
const NEARLY: f64 = 1e-4;
/// A user that can gain less than this, relatively, is frozen.
const FROZEN: f64 = 1e-5;
/// So is one whose dual is this part of the mean: the duals of an interior point are either clear or vanish.
const CLEAR: f64 = 1e-2;
/// Programs per stage.
const MOST_STEPS: u32 = 60;

/// A filling in progress.
struct Tide<'a> {
    master: Master<'a>,
    limit: Vec<f64>,
    rising: Vec<bool>,
}

pub(super) fn run(problem: &Sharing<'_>, budget: Budget) -> Result<Shared, Refusal> {
    let groups = problem.groups();
    let limit = groups.iter().map(|group| group.jobs * (problem.best(group.class) / group.beta)).collect();
    let rising = vec![true; groups.len()];
    let mut tide = Tide { master: Master::new(problem, &groups), limit, rising };
    let alone: Vec<f64> = groups.iter().map(|group| group.jobs * (problem.best(group.class) / group.beta)).collect();
    let mut shared = Shared::default();
    let (mut proofs, mut all_reached) = (Vec::new(), true);
    while tide.rising.contains(&true) {
        let (t, answer, reached) = tide.stage(budget)?;
        proofs.push(tide.proof(&answer));
        shared.stages.push(tide.settle(t, &answer, reached));
        // A stage that was not reached has scaled everybody down: what was there before is better, if there was anything.
        if reached || shared.shares.is_empty() {
            tide.write(&answer, &mut shared);
        }
        all_reached = reached;
    }
    measure(&groups, &mut shared, &alone, &proofs, all_reached);
    (shared.iterations, shared.rounds) = (tide.master.iterations, tide.master.rounds);
    shared.groups = groups.iter().map(|group| group.members.clone()).collect();
    name_users(&groups, &mut shared);
    Ok(shared)
}

/// What the duals of a stage proved: `Σ_i weight_i u_i ≤ R` of all levels `u` that can be had at once.
struct Proof {
    weights: Vec<f64>,
    right: f64,
}

/// Reads the levels of the stages off the answer as it is in the end, what their duals prove of those, and the gap. A
/// stage's level is the least of all who froze in it or later; those who stopped before, or are full, keep what they
/// have. Only of the last stage may it be said that it was not reached: then its users are measured against what they
/// could do alone.
fn measure(groups: &[Group], shared: &mut Shared, alone: &[f64], proofs: &[Proof], reached: bool) {
    let levels: Vec<f64> = shared.levels.iter().zip(groups).map(|(served, group)| served / group.beta).collect();
    let count = shared.stages.len();
    let (mut kept, mut least) = (levels.clone(), f64::INFINITY);
    for (s, stage) in shared.stages.iter_mut().enumerate().rev() {
        for &g in &stage.frozen {
            least = least.min(levels[g]);
            kept[g] = f64::INFINITY;
        }
        if stage.frozen.is_empty() {
            stage.bound.lower = stage.full.iter().map(|&g| levels[g]).fold(0.0, f64::max);
            stage.bound.upper = stage.full.iter().map(|&g| alone[g]).fold(0.0, f64::max);
        } else {
            stage.bound = Bound { lower: least, upper: highest(&proofs[s], &kept, f64::INFINITY) };
        }
        // What is had can be had: only rounding says otherwise.
        stage.bound.upper = stage.bound.upper.max(stage.bound.lower);
        let stopped = if reached || s + 1 < count { &[][..] } else { &stage.frozen };
        let users = stage.full.iter().chain(stopped).map(|&g| Bound { lower: levels[g], upper: alone[g] }.gap());
        shared.gap = users.fold(shared.gap.max(stage.bound.gap()), f64::max);
    }
    shared.levels = levels;
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

/// Turns groups into their users where the answer speaks of users.
fn name_users(groups: &[Group], shared: &mut Shared) {
    let users = |list: &[usize]| {
        let mut users: Vec<usize> = list.iter().flat_map(|&g| groups[g].members.iter().copied()).collect();
        users.sort_unstable();
        users
    };
    for stage in &mut shared.stages {
        stage.frozen = users(&stage.frozen);
        stage.full = users(&stage.full);
    }
    let mut levels = vec![0.0; groups.iter().map(|group| group.members.len()).sum()];
    for (group, level) in groups.iter().zip(&shared.levels) {
        group.members.iter().for_each(|&i| levels[i] = *level);
    }
    shared.levels = levels;
}

impl Tide<'_> {
    fn beta(&self, g: usize) -> f64 {
        self.master.groups[g].beta
    }

    /// The greatest level, from above: returns it with the answer that has it, or with what there is.
    fn stage(&mut self, budget: Budget) -> Result<(f64, Answer, bool), Refusal> {
        let n = self.limit.len();
        let mut t = (0..n).filter(|&g| self.rising[g]).map(|g| self.limit[g]).fold(0.0, f64::max);
        self.master.step_back();
        let mut steps = 0;
        loop {
            steps += 1;
            let b: Vec<f64> = (0..n).map(|g| self.beta(g) * t.min(self.limit[g])).collect();
            let answer = self.master.solve(&b, budget)?;
            let reached = answer.bound.lower >= 1.0 - REACHED;
            let lower = highest(&self.proof(&answer), &self.limit, t);
            // Where the numbers allow no more, near is as good as there; the bound of the stage says how near.
            let stuck = lower >= t * (1.0 - 1e-9) || steps == MOST_STEPS;
            if reached || stuck || self.master.iterations >= budget.iterations {
                let near = stuck && answer.bound.lower >= 1.0 - NEARLY;
                return Ok((t, answer, reached || near));
            }
            t = lower;
        }
    }

    fn proof(&self, answer: &Answer) -> Proof {
        let weights = (0..self.limit.len()).map(|g| answer.duals.lambda[g] * self.beta(g)).collect();
        Proof { weights, right: answer.duals.right }
    }

    /// Freezes whom the duals freeze.
    fn settle(&mut self, t: f64, answer: &Answer, reached: bool) -> Stage {
        let n = self.limit.len();
        let u = served(self.master.groups, &answer.ways, &answer.x);
        let duals = &answer.duals;
        let weight = |g: usize| duals.lambda[g] * self.beta(g);
        let kept: f64 = (0..n).map(|g| duals.lambda[g] * u[g].min(self.beta(g) * t.min(self.limit[g]))).sum();
        let room = (duals.right - kept).max(0.0);
        let rising: f64 = (0..n).filter(|&g| self.rising[g] && self.limit[g] > t).map(weight).sum();
        let clear = CLEAR * rising / n as f64;
        let mut stage = Stage {
            prices: duals.p.clone(),
            frozen: Vec::new(),
            full: Vec::new(),
            bound: Bound { lower: t, upper: t },
        };
        for g in (0..n).filter(|&g| self.rising[g]) {
            if self.limit[g] <= t * (1.0 + REACHED) {
                stage.full.push(g);
            } else if !reached || room <= FROZEN * t * weight(g) || weight(g) >= clear {
                stage.frozen.push(g);
            }
        }
        if stage.full.is_empty() && stage.frozen.is_empty() {
            // Somebody's dual is the greatest, and the duals add up to one: the proof is as good as the gap.
            let rising = (0..n).filter(|&g| self.rising[g]);
            stage.frozen.extend(rising.max_by(|&a, &b| weight(a).total_cmp(&weight(b))));
        }
        for &g in &stage.frozen {
            // What it has, not what was aimed at: the next stage must find that it can be had.
            self.limit[g] = t.min(u[g] / self.beta(g));
        }
        for &g in stage.frozen.iter().chain(&stage.full) {
            self.rising[g] = false;
        }
        stage
    }

    /// Writes the answer down; levels are what the groups get done until they are measured.
    fn write(&self, answer: &Answer, shared: &mut Shared) {
        let (groups, ways) = (self.master.groups, &answer.ways);
        let used = ways.iter().zip(&answer.x).filter(|&(_, &x)| x > 0.0);
        let share = |(way, &amount): (&Way, &f64)| {
            let Way { first, second, resource, .. } = *way;
            Share { first, second, resource, amount }
        };
        shared.shares = used.map(share).collect();
        shared.levels = served(groups, ways, &answer.x);
        shared.columns = ways.len();
    }
}
