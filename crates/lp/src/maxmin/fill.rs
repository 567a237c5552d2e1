//! Water-filling: max-min, and then the same again for everybody who can still rise.
//!
//! Write `u_l = w_l·x_l/β_l`. The solution maximises the least `u`; users who cannot have more without lowering somebody
//! who has no more are frozen, and the rest go on: the vector of levels is the leximin optimum.
//!
//! # One bottleneck ([`raise`])
//!
//! A user stops at its limit `f_l = d_l max_j w_lj/β_l` whatever the others do. Stopping there one by one would take a
//! round each, so limits are part of the program: find the greatest `t` at which all of
//!
//! ```text
//! b_l(t) = β_l min(t, f_l)
//! ```
//!
//! are feasible at once. With `C_l(b, p)` the least cost of `b` at prices `p` ([`super::curve`]), weak duality says
//!
//! ```text
//! t ≤ t(p) = sup { t : Σ_l C_l(b_l(t), p) ≤ m·p }        for every p ≥ 0
//! ```
//!
//! so `t` is found from above: at the current `t` solve plain max-min with `b(t)` in place of β, with optimum `τ`. If
//! `τ = 1` then `t` is feasible and proved; else the prices give a lower `t(p)`. As this is the same program again,
//! scaled by `τ`, it always has an interior: `τ` below 1 leaves slack even where every resource is used up.
//!
//! # Between bottlenecks ([`settle`])
//!
//! A resource with a positive price is exhausted. Users whose cost rises at `t` freeze. The others have zero cost at
//! `t`, so by complementary slackness they use no exhausted resource in any optimum: they lose it, and `f_l` is taken over
//! the resources they still have. Hence at most one bottleneck per resource, and a last one in which all reach their
//! limits. A price that is lost in rounding costs one more round at the same level, and nothing else.
//!
//! The shares of a frozen user are settled too, unless prices leave it a choice: two equations (its level, its cap) fix
//! two shares, so only users with three options or more (idling is one) stay in the program, on those options alone. The
//! rest are subtracted from the capacities. That keeps later programs small and their prices their own.

mod proof;
mod raise;
mod settle;

use super::curve::{self, Curves};
use super::{MOST_RESOURCES, MaxMin, Workspace, bound};
use crate::input::{check_count, check_servable};
use crate::{Budget, Certificate, InputError};

/// One level at which users stopped.
#[derive(Clone, PartialEq, Debug)]
pub struct Bottleneck {
    /// What each resource costs at this level, scaled to `m·p = 1`; all zero if everybody who rose reached its limit.
    pub prices: Vec<f64>,
    /// The users that froze here: none of them can rise unless somebody who has no more falls (or, in the last
    /// bottleneck, the budget was spent: see `bound` and the ceilings).
    pub frozen: Vec<usize>,
    /// The users that stopped at their own limit, no higher than this.
    pub full: Vec<usize>,
    /// The level, and the upper bound that prices prove for it while everybody below keeps its own level.
    pub bound: Certificate,
}

/// A leximin solution.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Filling {
    /// Shares, users × resources, row by row.
    pub x: Vec<f64>,
    /// Each user's `w·x/β`.
    pub levels: Vec<f64>,
    /// Per user, a proven upper bound of its level unless somebody who has no more falls.
    pub ceilings: Vec<f64>,
    /// From the lowest level to the highest.
    pub bottlenecks: Vec<Bottleneck>,
    /// The largest relative gap of a bottleneck; for users that are full, or whom a spent budget stopped, between their
    /// level and their ceiling.
    pub gap: f64,
    /// Iterations spent.
    pub iterations: u32,
}

/// Whether a user can still rise, and whether its shares can still change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UserState {
    /// Goes on.
    Rising,
    /// Has its level, and several ways to reach it.
    Tied,
    /// Has its shares.
    Settled,
}

/// The greatest common level, its prices, and whether it is attained.
struct Raised {
    t: f64,
    p: Vec<f64>,
    reached: bool,
}

/// Memory to fill in. It keeps the prices of the last solution, bottleneck by bottleneck, and the next problem with as many
/// resources starts from them: one that has changed little takes a quarter fewer iterations. (Starting from the
/// iterates themselves, with new users inserted, was tried and took more.) Warm and cold solutions agree to the
/// tolerance, not to the bit.
#[derive(Clone, Debug, Default)]
pub struct FillWorkspace {
    solver: Workspace,
    curves: Curves,
    /// Each user's resources from slow to fast.
    order: Vec<u8>,
    /// The resources open to each user, a bit each.
    open: Vec<u32>,
    state: Vec<UserState>,
    /// f: the limit of a user's level, or its level.
    limit: Vec<f64>,
    /// d, infinite for users that are at their limit and tied.
    caps: Vec<f64>,
    /// What settled users leave of each resource.
    left: Vec<f64>,
    /// Resources that had a price.
    exhausted: u32,
    /// The scaled program: its users, w, b, caps, capacities.
    members: Vec<usize>,
    w: Vec<f64>,
    b: Vec<f64>,
    d: Vec<f64>,
    spare: Vec<f64>,
    x: Vec<f64>,
    /// The users of the program before.
    before: Vec<usize>,
    /// The prices of each bottleneck of the last problem.
    memory: Vec<Vec<f64>>,
}

impl FillWorkspace {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Solves.
    pub fn fill(&mut self, problem: &MaxMin<'_>, budget: Budget) -> Result<Filling, InputError> {
        let (mut filling, all_reached) = self.rise(problem, budget)?;
        filling.levels.extend(levels(problem, &filling.x));
        self.prove(problem, &mut filling, all_reached);
        Ok(filling)
    }

    /// The shares of [`Self::fill`] alone, to the bit, without the bounds that prove them: for whoever has another proof of what matters to it.
    pub fn shares(&mut self, problem: &MaxMin<'_>, budget: Budget) -> Result<Vec<f64>, InputError> {
        Ok(self.rise(problem, budget)?.0.x)
    }

    /// Bottlenecks and shares; whether all bottlenecks were reached.
    fn rise(&mut self, problem: &MaxMin<'_>, budget: Budget) -> Result<(Filling, bool), InputError> {
        problem.check()?;
        self.prepare(problem)?;
        let mut filling = Filling::default();
        let mut left = budget.iterations;
        let mut all_reached = true;
        while self.state.contains(&UserState::Rising) {
            let number = filling.bottlenecks.len();
            let Raised { t, p, reached } = self.raise(problem, number, &mut left)?;
            let bottleneck = if reached { self.settle(problem, t, p) } else { None };
            all_reached = bottleneck.is_some();
            filling.bottlenecks.push(bottleneck.unwrap_or_else(|| self.stop(problem)));
        }
        self.memory.truncate(filling.bottlenecks.len());
        filling.x.clone_from(&self.x);
        bound::attain(problem, &mut filling.x, &mut self.spare);
        self.hand_out(problem, &mut filling.x);
        filling.iterations = budget.iterations - left;
        Ok((filling, all_reached))
    }

    fn prepare(&mut self, problem: &MaxMin<'_>) -> Result<(), InputError> {
        let (n, k) = (problem.beta.len(), problem.capacity.len());
        check_count("resources", k as u64, MOST_RESOURCES as u64)?;
        check_servable(problem.w, problem.capacity)?;
        curve::order(problem, &mut self.order);
        self.open.clear();
        self.limit.clear();
        for (l, w) in problem.w.chunks_exact(k).enumerate() {
            let open = (0..k).filter(|&j| w[j] > 0.0 && problem.capacity[j] > 0.0).fold(0, |open, j| open | 1 << j);
            self.open.push(open);
            self.limit.push(limit(problem, l, open));
        }
        self.state.clear();
        self.state.resize(n, UserState::Rising);
        self.caps.clear();
        self.caps.extend_from_slice(problem.caps);
        self.left.clear();
        self.left.extend_from_slice(problem.capacity);
        self.exhausted = 0;
        self.solver.keeps_middle = true;
        self.x.clear();
        self.x.resize(n * k, 0.0);
        Ok(())
    }

    /// Gives what is left to the users with the lowest levels that can use it. After a complete filling this is rounding;
    /// after a spent budget it is all that is not allocated yet.
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

/// Every user's `w·x/β`.
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

/// Solves once.
pub fn fill(problem: &MaxMin<'_>, budget: Budget) -> Result<Filling, InputError> {
    FillWorkspace::new().fill(problem, budget)
}
