//! Water-filling: max-min, and then the same again for everybody who can still rise.
//!
//! Write `u_l = w_l·x_l/β_l`. The answer maximises the least `u`; whoever cannot have more without lowering somebody
//! who has no more is frozen, and the rest go on: the vector of levels is the leximin one.
//!
//! # One stage ([`stage`])
//!
//! A user that rises alone stops at its limit `f_l = d_l max_j w_lj/β_l` whatever the others do. Stopping there one by
//! one would take a stage each, so limits are part of the question: find the greatest `t` at which all of
//!
//! ```text
//! b_l(t) = β_l min(t, f_l)
//! ```
//!
//! can be had at once. With `C_l(b, p)` the least that `b` costs at prices `p` ([`super::curve`]), weak duality says
//!
//! ```text
//! t ≤ t(p) = sup { t : Σ_l C_l(b_l(t), p) ≤ m·p }        for every p ≥ 0
//! ```
//!
//! so `t` is found from above: at the present `t` solve plain max-min with `b(t)` in place of β, which answers `τ`. If
//! `τ = 1` then `t` can be had and is proved; else its prices give a lower `t(p)`. As this is the same program again,
//! scaled by `τ`, every stage has an interior: `τ` below 1 leaves room even where every resource is spoken for.
//!
//! # Between stages ([`settle`])
//!
//! A resource with a price is exhausted. Users whose cost rises at `t` freeze. Nobody else pays anything at `t`, so
//! by complementary slackness nobody else uses an exhausted resource in any optimum: they lose it, and `f_l` is taken
//! over what they still have. Hence at most one stage per resource, and a last one in which all reach their limits. A
//! price that rounding hides costs a stage more, at the same level, and nothing else.
//!
//! What a frozen user holds is settled too, unless prices leave it a choice: two equations (its level, its cap) fix
//! two shares, so only users with three ways or more (idling is one) stay in the program, on those ways alone. The
//! rest are subtracted from the capacities. That keeps later stages small and their prices their own.

mod proof;
mod settle;
mod stage;

use super::curve::{self, Curves};
use super::{Bound, Budget, MOST_RESOURCES, MaxMin, Refusal, Workspace, bound};

/// One level at which users stopped.
#[derive(Clone, PartialEq, Debug)]
pub struct Stage {
    /// What each resource costs at this level, scaled to `m·p = 1`; all zero if everybody who rose reached its limit.
    pub prices: Vec<f64>,
    /// The users that froze here, because others need what they want (or, in the last stage, because the budget was
    /// spent: see `bound` and the ceilings).
    pub frozen: Vec<usize>,
    /// The users that stopped at their own limit, no higher than this stage.
    pub full: Vec<usize>,
    /// The level, and what the prices prove that it cannot exceed while everybody below it keeps its own.
    pub bound: Bound,
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Filled {
    /// Shares, users × resources, row by row.
    pub x: Vec<f64>,
    /// Each user's `w·x/β`.
    pub levels: Vec<f64>,
    /// What each user provably cannot exceed unless somebody who has no more than it has loses.
    pub ceilings: Vec<f64>,
    /// From the lowest level to the highest.
    pub stages: Vec<Stage>,
    /// The worst relative distance between a stage's level and what was proved of it; for users that are full, or whom a
    /// spent budget stopped, between them and their ceiling.
    pub gap: f64,
    /// Iterations spent.
    pub iterations: u32,
}

/// Whether a user can still rise, and whether what it holds can still change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// Goes on.
    Rising,
    /// Has its level, and several ways to it.
    Tied,
    /// Has its shares.
    Settled,
}

/// The top of a stage: its level and prices, and whether the level could be had.
struct Crest {
    t: f64,
    p: Vec<f64>,
    reached: bool,
}

/// Memory to fill in.
#[derive(Clone, Debug, Default)]
pub struct Reservoir {
    solver: Workspace,
    curves: Curves,
    /// Each user's resources from slow to fast.
    order: Vec<u8>,
    /// The resources open to each user, a bit each.
    open: Vec<u32>,
    life: Vec<Life>,
    /// f: the level a user cannot exceed, or has.
    limit: Vec<f64>,
    /// d, infinite for users that are at their limit and tied.
    caps: Vec<f64>,
    /// What settled users have left of each resource.
    left: Vec<f64>,
    /// Resources that had a price.
    exhausted: u32,
    /// The scaled question: who takes part, w, b, caps, capacities.
    members: Vec<usize>,
    w: Vec<f64>,
    b: Vec<f64>,
    d: Vec<f64>,
    spare: Vec<f64>,
    x: Vec<f64>,
}

impl Reservoir {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Fills.
    pub fn fill(&mut self, problem: &MaxMin<'_>, budget: Budget) -> Result<Filled, Refusal> {
        problem.check()?;
        self.prepare(problem)?;
        let mut filled = Filled::default();
        let mut left = budget.iterations;
        let mut all_reached = true;
        while self.life.contains(&Life::Rising) {
            let Crest { t, p, reached } = self.stage(problem, &mut left)?;
            let stage = if reached { self.settle(problem, t, p) } else { None };
            all_reached = stage.is_some();
            let stage = stage.unwrap_or_else(|| self.stop(problem));
            filled.stages.push(stage);
        }
        filled.x.clone_from(&self.x);
        bound::attain(problem, &mut filled.x, &mut self.spare);
        self.hand_out(problem, &mut filled.x);
        filled.levels.extend(levels(problem, &filled.x));
        self.prove(problem, &mut filled, all_reached);
        filled.iterations = budget.iterations - left;
        Ok(filled)
    }

    fn prepare(&mut self, problem: &MaxMin<'_>) -> Result<(), Refusal> {
        let (n, k) = (problem.beta.len(), problem.capacity.len());
        if k > MOST_RESOURCES {
            return Err(Refusal::TooWide { resources: k });
        }
        curve::order(problem, &mut self.order);
        self.open.clear();
        self.limit.clear();
        for (l, w) in problem.w.chunks_exact(k).enumerate() {
            let open = (0..k).filter(|&j| w[j] > 0.0 && problem.capacity[j] > 0.0).fold(0, |open, j| open | 1 << j);
            if open == 0 {
                return Err(Refusal::Unservable { user: l });
            }
            self.open.push(open);
            self.limit.push(limit(problem, l, open));
        }
        self.life.clear();
        self.life.resize(n, Life::Rising);
        self.caps.clear();
        self.caps.extend_from_slice(problem.caps);
        self.left.clear();
        self.left.extend_from_slice(problem.capacity);
        self.exhausted = 0;
        self.x.clear();
        self.x.resize(n * k, 0.0);
        Ok(())
    }

    /// Hands out what is left to whoever has least and room for it. After a full filling these are crumbs of rounding;
    /// after a budget that ended early it is all that nobody was given yet.
    fn hand_out(&mut self, problem: &MaxMin<'_>, x: &mut [f64]) {
        let k = problem.capacity.len();
        let mut left = problem.capacity.to_vec();
        for x in x.chunks_exact(k) {
            left.iter_mut().zip(x).for_each(|(left, x)| *left -= x);
        }
        let levels: Vec<f64> = levels(problem, x).collect();
        let mut users: Vec<usize> = (0..levels.len()).collect();
        users.sort_by(|&a, &b| levels[a].total_cmp(&levels[b]).then(a.cmp(&b)));
        for l in users {
            let x = &mut x[l * k..][..k];
            let mut room = problem.caps[l] - x.iter().sum::<f64>();
            for &j in self.order[l * k..][..k].iter().rev() {
                let j = usize::from(j);
                if problem.w[l * k + j] > 0.0 && left[j] > 0.0 && room > 0.0 {
                    let more = left[j].min(room);
                    x[j] += more;
                    left[j] -= more;
                    room -= more;
                }
            }
        }
    }
}

/// Everybody's `w·x/β`.
fn levels<'a>(problem: &'a MaxMin<'_>, x: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    let k = problem.capacity.len();
    let rows = problem.w.chunks_exact(k).zip(x.chunks_exact(k)).zip(problem.beta);
    rows.map(|((w, x), beta)| w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() / beta)
}

/// The resources of a set of bits.
fn resources(set: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |j| set & (1 << j) != 0)
}

/// The fastest rate of a user among some resources.
fn fastest(problem: &MaxMin<'_>, l: usize, open: u32) -> f64 {
    let k = problem.capacity.len();
    resources(open).map(|j| problem.w[l * k + j]).fold(0.0, f64::max)
}

/// Those of the resources that are as fast as the fastest.
fn fastest_ones(problem: &MaxMin<'_>, l: usize, open: u32) -> u32 {
    let k = problem.capacity.len();
    let least = fastest(problem, l, open) * (1.0 - SAME);
    resources(open).filter(|j| problem.w[l * k + j] >= least).fold(0, |set, j| set | 1 << j)
}

/// `f_l` over the open resources.
fn limit(problem: &MaxMin<'_>, l: usize, open: u32) -> f64 {
    problem.caps[l] * (fastest(problem, l, open) / problem.beta[l])
}

/// Numbers this close, relatively, are the same.
const SAME: f64 = 1e-12;

/// Fills once.
pub fn fill(problem: &MaxMin<'_>, budget: Budget) -> Result<Filled, Refusal> {
    Reservoir::new().fill(problem, budget)
}
