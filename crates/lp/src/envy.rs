//! The largest sum of utilities among allocations in which nobody envies anybody.
//!
//! ```text
//! maximise Σ_l w_l·x_l    subject to   Σ_l x_lj ≤ m_j                          every resource j
//!                                      w_l·x_l/π_l ≥ w_l·x_i/π_i               every pair of users l, i
//!                                      x ≥ 0,  x_lj = 0 where w_lj = 0
//! ```
//!
//! Below, `z_l = x_l/π_l`: what a user holds per unit of its weight. An allocation is envy-free exactly if every user
//! holds its favourite among the bundles `z` that are held at all, the *menu*; an optimum has about `2k` to `10k` of them.
//!
//! # Method
//!
//! Identical users are merged (`envy/merge.rs`) and the program is scaled (`envy/scaled.rs`). The users are partitioned, at
//! first by what they buy in a market with equal incomes (`envy/start.rs`). Then, in turns (`envy/solve.rs`): the best
//! bundles for the partition (`envy/restricted.rs`), and for every block of users who hold the same bundle, whether
//! splitting it would raise the sum (`envy/block.rs` has the mathematics, `envy/pricing.rs` the recursion, `envy/home.rs` those who
//! need not be asked one by one). When no split
//! pays, the duals of all these programs together prove the solution optimal; `envy/bound.rs` checks that from the problem
//! as given. One resource and two have closed forms (`envy/two.rs`), and with two the prices alone are the proof.
//!
//! Users have no caps here: envy rows that count what a capped user could not use would hold everybody down to its level.
//! A market with caps is [`crate::nash`].
//!
//! Where that proof was not reached (the budget ended, or there are thousands of distinct users), a relaxation with few rows
//! per user bounds the optimum instead (`envy/relay.rs`).
//!
//! Nothing here may depend on time or chance: the budget counts pivots, and when it ends, the solution is the best so
//! far, feasible and envy-free, with a certificate that says how far it may be from the optimum.

mod block;
mod bound;
mod home;
mod merge;
mod pricing;
mod relay;
mod restricted;
mod scaled;
mod solve;
mod start;
mod two;

use crate::input::{Domain, check_numbers, check_servable, check_shape, check_some};
use crate::{Budget, Certificate, InputError};

/// A problem. See the module for the notation.
#[derive(Clone, Copy, Debug)]
pub struct EnvyFree<'a> {
    /// Rates, users × resources, row by row; 0 means "no use".
    pub w: &'a [f64],
    /// `π`: the weight of each user; positive.
    pub weight: &'a [f64],
    /// `m`: the capacity of each resource; a resource of capacity 0 is ignored.
    pub capacity: &'a [f64],
}

/// The largest ratio of two rates, weights or capacities in one problem: beyond it sums lose the small ones.
pub const WIDEST: f64 = 1e10;

impl EnvyFree<'_> {
    fn check(&self) -> Result<(), InputError> {
        let (n, k) = (self.weight.len(), self.capacity.len());
        check_some(n, k)?;
        check_shape("w", self.w.len(), n.saturating_mul(k))?;
        check_numbers("w", self.w.iter().copied(), Domain::NonNegative)?;
        check_numbers("weight", self.weight.iter().copied(), Domain::Positive)?;
        check_numbers("capacity", self.capacity.iter().copied(), Domain::NonNegative)?;
        check_servable(self.w, self.capacity)?;
        for (what, values) in [("w", self.w), ("weight", self.weight), ("capacity", self.capacity)] {
            let positive = || values.iter().copied().filter(|&v| v > 0.0);
            let (least, greatest) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
            if greatest > WIDEST * least {
                return Err(InputError::Spread { what, least, greatest, widest: WIDEST });
            }
        }
        Ok(())
    }
}

/// The dual of a row "`user` does not envy `other`", in units of `z`. Identical users share their rows: the first of them
/// is named, and the dual is the sum over all of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EnvyDual {
    /// Who would envy.
    pub user: u32,
    /// Whom.
    pub other: u32,
    /// How much the sum would rise per unit of envy allowed.
    pub dual: f64,
}

/// The duals of rows between all who pay into a relay and all who are paid from it: that of "l does not envy i" is what `l`
/// pays times the share of `i`. In units of `z`.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Relay {
    /// `(user, dual)`.
    pub paid: Vec<(u32, f64)>,
    /// `(user, share)`; shares sum to 1.
    pub share: Vec<(u32, f64)>,
}

impl Relay {
    fn scaled(&self, factor: f64) -> Self {
        Self { paid: self.paid.iter().map(|&(l, y)| (l, y * factor)).collect(), share: self.share.clone() }
    }

    fn renamed(self, name: impl Fn(u32) -> u32) -> Self {
        let rename = |list: Vec<(u32, f64)>| list.into_iter().map(|(l, value)| (name(l), value)).collect();
        Self { paid: rename(self.paid), share: rename(self.share) }
    }
}

/// Who holds what, with a proof of how good that is.
#[derive(Clone, PartialEq, Debug)]
pub struct Solution {
    /// The menu, bundles × resources, row by row: amounts per unit of weight.
    pub bundles: Vec<f64>,
    /// Which bundle each user holds.
    pub holds: Vec<u32>,
    /// `Σ w·x`.
    pub objective: f64,
    /// Per resource: how much the sum would rise with one more of it.
    pub prices: Vec<f64>,
    /// The duals that are not 0; none where prices alone prove the bound, as with two resources.
    pub envy: Vec<EnvyDual>,
    /// More duals, where those of pairs are products: they need not be written down one by one.
    pub through: Vec<Relay>,
    /// Bounds of the optimal sum.
    pub bound: Certificate,
    /// The largest relative envy: by how much a user values another's bundle above its own.
    pub largest_envy: f64,
    /// Pivots spent.
    pub iterations: u32,
    /// Per user, its last cluster: for a warm start.
    labels: Vec<u32>,
}

impl Solution {
    /// Resources in a bundle.
    fn resources(&self) -> usize {
        self.prices.len()
    }

    /// What user `l` gets.
    pub fn share(&self, problem: &EnvyFree<'_>, l: usize) -> impl Iterator<Item = f64> {
        let k = self.resources();
        let weight = problem.weight[l];
        self.bundles[self.holds[l] as usize * k..][..k].iter().map(move |z| weight * z)
    }

    /// What everybody gets, users × resources, row by row.
    #[must_use]
    pub fn x(&self, problem: &EnvyFree<'_>) -> Vec<f64> {
        (0..self.holds.len()).flat_map(|l| self.share(problem, l)).collect()
    }
}

/// The relative gap at which [`solve`] stops.
pub const TOLERANCE: f64 = 1e-9;

/// Enough pivots for a thousand users.
pub const PIVOTS: Budget = Budget::iterations(2_000_000);

/// Solves within `budget` pivots.
pub fn solve(problem: &EnvyFree<'_>, budget: Budget) -> Result<Solution, InputError> {
    problem.check()?;
    Ok(solve::solve(problem, None, budget.iterations))
}

/// As [`solve`], starting from the menu of the solution of a similar problem. Any solution will do: it decides how long
/// this takes, never what is optimal.
pub fn solve_again(problem: &EnvyFree<'_>, last: &Solution, budget: Budget) -> Result<Solution, InputError> {
    problem.check()?;
    Ok(solve::solve(problem, Some(last), budget.iterations))
}
