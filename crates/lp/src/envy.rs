//! The largest sum of utilities among allocations in which nobody envies anybody.
//!
//! ```text
//! maximise Σ_l w_l·x_l    subject to   Σ_l x_lj ≤ m_j                          every resource j
//!                                      w_l·x_l/π_l ≥ w_l·x_i/π_i               every pair of users l, i
//!                                      Σ_j x_lj ≤ d_l                          a user's own cap (may be infinite)
//!                                      x ≥ 0,  x_lj = 0 where w_lj = 0
//! ```
//!
//! Below, `z_l = x_l/π_l`: what a user holds per unit of its weight. Nobody envies anybody exactly if everybody holds
//! its favourite among the bundles `z` that are held at all, the *menu*; there are only about `2k` to `10k` of them.
//!
//! # Caps
//!
//! Taken literally, one user with one small job would hold everybody down: others may hold nothing that it values
//! above the little it can use. So: a user is *filled* when `w_l·x_l = d_l·max_j w_lj` over the resources there are.
//! A filled user lacks nothing, and envies nobody. Everybody else satisfies the rows above, valuing the other's whole
//! bundle. Who is filled is found in stages: solve with everybody's rows; whoever is filled loses its own envy rows and
//! is owed its ceiling instead; solve again. The last answer stays feasible, so the sum never falls; it ends when
//! nobody joins. The bound of an answer is that of the last stage's programme.
//!
//! # Method
//!
//! Identical users are merged (`envy/merge.rs`). The users are partitioned, at first by what they would buy in a market
//! with equal money (`envy/start.rs`). Then, in turns: the best bundles for the partition (`envy/grouped.rs`), and for
//! every crowd of users who hold the same bundle, whether it would pay to tell them apart (`envy/crowd.rs` has the
//! mathematics, `envy/ask.rs` the order of questions). When it pays nowhere, the duals of all these programmes together
//! prove the answer optimal; `envy/bound.rs` checks that from the problem as asked, with code of its own. Without caps,
//! one resource and two need no search (`envy/two.rs`), and with two the prices alone are the proof.
//!
//! Nothing here may depend on time or chance: the budget counts pivots, and when it ends, the answer is the best so
//! far, feasible and envy-free, with an honest gap.

mod ask;
mod bound;
mod crowd;
mod grouped;
mod merge;
mod solve;
mod stage;
mod start;
mod two;

pub use bound::Bound;

use crate::Budget;
use std::fmt;

/// A question. See the module for what the letters mean.
#[derive(Clone, Copy, Debug)]
pub struct EnvyFree<'a> {
    /// Rates, users × resources, row by row; 0 means "no use".
    pub w: &'a [f64],
    /// `π`: how much each user is owed relative to the others; positive.
    pub weight: &'a [f64],
    /// `d`: the most each user can use in all; positive, infinite for no cap.
    pub caps: &'a [f64],
    /// `m`: how much there is of each resource; a resource of 0 is as good as absent.
    pub capacity: &'a [f64],
}

/// Why a question has no answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Refusal {
    /// There are no users or no resources.
    Empty,
    /// The slices do not fit together.
    Shape {
        /// Which slice.
        what: &'static str,
        /// Its length.
        length: usize,
        /// The length that fits `weight` and `capacity`.
        expected: usize,
    },
    /// A number that makes no sense where it is.
    Number {
        /// Which slice.
        what: &'static str,
        /// Where in it.
        index: usize,
        /// The number.
        value: f64,
    },
    /// A user who has no use for any resource that has capacity.
    Unservable {
        /// Which user.
        user: usize,
    },
    /// Numbers further apart than [`WIDEST`].
    Spread {
        /// Which slice.
        what: &'static str,
        /// The least positive number in it.
        least: f64,
        /// The greatest.
        greatest: f64,
    },
}

/// The largest ratio of two rates, weights or capacities in one question: beyond it sums lose the small ones.
pub const WIDEST: f64 = 1e10;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no users or no resources; ask only when there is something to divide"),
            Self::Shape { what, length, expected } => {
                write!(f, "{what} has {length} numbers where {expected} were expected; give one per user or resource")
            }
            Self::Number { what, index, value } => {
                write!(
                    f,
                    "{what}[{index}] is {value}; rates and capacities must be finite and at least 0, weights finite and above 0, caps above 0"
                )
            }
            Self::Unservable { user } => {
                write!(f, "user {user} has no positive rate on any resource with capacity; leave such users out")
            }
            Self::Spread { what, least, greatest } => {
                write!(
                    f,
                    "{what} runs from {least:e} to {greatest:e}; the sum is lost in rounding beyond a ratio of {WIDEST:e}, so give speed-ups instead of raw rates"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl EnvyFree<'_> {
    fn check(&self) -> Result<(), Refusal> {
        let (n, k) = (self.weight.len(), self.capacity.len());
        if n == 0 || k == 0 {
            return Err(Refusal::Empty);
        }
        for (what, length, expected) in [("w", self.w.len(), n * k), ("caps", self.caps.len(), n)] {
            if length != expected {
                return Err(Refusal::Shape { what, length, expected });
            }
        }
        check_numbers("w", self.w, |v| v.is_finite() && v >= 0.0)?;
        check_numbers("weight", self.weight, |v| v.is_finite() && v > 0.0)?;
        check_numbers("caps", self.caps, |v| v > 0.0)?;
        check_numbers("capacity", self.capacity, |v| v.is_finite() && v >= 0.0)?;
        let useful = |rates: &[f64]| rates.iter().zip(self.capacity).any(|(w, m)| *w > 0.0 && *m > 0.0);
        if let Some(user) = self.w.chunks_exact(k).position(|rates| !useful(rates)) {
            return Err(Refusal::Unservable { user });
        }
        for (what, values) in [("w", self.w), ("weight", self.weight), ("capacity", self.capacity)] {
            let positive = || values.iter().copied().filter(|&v| v > 0.0);
            let (least, greatest) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
            if greatest > WIDEST * least {
                return Err(Refusal::Spread { what, least, greatest });
            }
        }
        Ok(())
    }
}

fn check_numbers(what: &'static str, values: &[f64], good: impl Fn(f64) -> bool) -> Result<(), Refusal> {
    match values.iter().position(|&value| !good(value)) {
        Some(index) => Err(Refusal::Number { what, index, value: values[index] }),
        None => Ok(()),
    }
}

/// The dual of a row "`user` does not envy `other`", in units of `z`. Identical users share their rows: the first of
/// them is named, and the dual is that of all of them together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EnvyDual {
    /// Who would envy.
    pub user: u32,
    /// Whom.
    pub other: u32,
    /// How much the sum would rise per unit of envy allowed.
    pub dual: f64,
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Division {
    /// The menu, bundles × resources, row by row: amounts per unit of weight.
    pub bundles: Vec<f64>,
    /// Which bundle each user holds.
    pub holds: Vec<u32>,
    /// `Σ w·x`.
    pub objective: f64,
    /// Per resource: how much the sum would rise with one more of it.
    pub prices: Vec<f64>,
    /// The duals that are not 0; none where prices alone prove the bound, as with two resources and no caps.
    pub envy: Vec<EnvyDual>,
    /// Between which numbers the optimum of the last stage lies.
    pub bound: Bound,
    /// The largest relative envy: how much more than its own a user that is not filled thinks another's bundle worth.
    pub largest_envy: f64,
    /// Who is filled.
    pub filled: Vec<bool>,
    /// Stages: 1 without caps.
    pub stages: u32,
    /// Pivots spent.
    pub iterations: u32,
    /// Per user, the cluster it was last asked in: where to begin next time.
    labels: Vec<u32>,
}

impl Division {
    /// Resources in a bundle.
    fn resources(&self) -> usize {
        self.prices.len()
    }

    /// What user `l` gets.
    pub fn share(&self, asked: &EnvyFree<'_>, l: usize) -> impl Iterator<Item = f64> {
        let k = self.resources();
        let weight = asked.weight[l];
        self.bundles[self.holds[l] as usize * k..][..k].iter().map(move |z| weight * z)
    }

    /// What everybody gets, users × resources, row by row.
    #[must_use]
    pub fn x(&self, asked: &EnvyFree<'_>) -> Vec<f64> {
        (0..self.holds.len()).flat_map(|l| self.share(asked, l)).collect()
    }
}

/// The gap at which [`solve`] is content.
pub const TOLERANCE: f64 = 1e-9;

/// Enough pivots for a thousand users.
pub const PIVOTS: Budget = Budget::iterations(2_000_000);

/// Solves within `budget` pivots.
pub fn solve(asked: &EnvyFree<'_>, budget: Budget) -> Result<Division, Refusal> {
    asked.check()?;
    Ok(solve::solve(asked, None, budget.iterations))
}

/// As [`solve`], beginning with the menu of an answer to a question that was much the same. Any answer will do: it
/// decides how long this takes, never what is optimal.
pub fn solve_again(asked: &EnvyFree<'_>, last: &Division, budget: Budget) -> Result<Division, Refusal> {
    asked.check()?;
    Ok(solve::solve(asked, Some(last), budget.iterations))
}
