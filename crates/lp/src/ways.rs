//! Resources that can be used in several ways, and one more good that every way draws on.
//!
//! A *way* takes one unit of its resource; user `l` gets the rate `w_la` out of it and draws `p_la` while it lasts. The ways of a resource share
//! its capacity, and what is drawn may be limited, over all resources or over some of them. With `j(a)` the resource of way `a`:
//!
//! ```text
//! u_l = Σ_a w_la x_la        Σ_{l, j(a)=j} x_la ≤ m_j        Σ_a x_la ≤ d_l        Σ_{l, j(a)∈t} p_la x_la ≤ B_t        x ≥ 0
//! ```
//!
//! | function | program |
//! | --- | --- |
//! | [`equal_incomes`] | largest `Σ π_l log u_l`: the market in which everybody has `π_l` to spend on units and on draw |
//! | [`least_draw`] | least `Σ p x` with `u_l ≥ f_l` for everybody |
//! | [`thrift`] | the same for each user alone, within units that it was given: no solver |
//! | [`least_draw_without_envy`] | least draw with floors, and nobody would rather have another's units |
//! | [`nearly_least_draw_without_envy`] | near that, with a bound, for more users |
//!
//! **Why envy counts units only.** "`l` would rather have what `i` has" can be read as `i`'s units in the ways in which `i` uses them. Then a program
//! that saves draw uses them in ways that `l` has no use for, and calls that fair. Here `l` values another's units in its own best ways:
//! `a_lj = max_{j(a)=j} w_la`. With limits on the draw a bundle is units *and* draw, and rows against envy are no longer convex; the
//! market of [`equal_incomes`] is, and at its prices nobody envies anybody, nobody is below an equal division of units and draw, and nothing is
//! wasted.
//!
//! The first two programs have as many prices as goods, so an interior point with one small system per iteration solves them
//! (`ways/interior.rs`); `ways/bound.rs` proves how good an answer is from its prices alone.

mod bound;
mod envy;
mod interior;
mod near;
mod normal;
mod solve;
mod thrift;

pub use envy::{Envious, Shared, Together, least_draw_without_envy};
pub use near::{Near, NearWorkspace, Nearly, TURNS, nearly_least_draw_without_envy};
pub use solve::{Floors, Incomes, Workspace, equal_incomes, least_draw};
pub use thrift::{most_efficient, thrift};

use crate::InputError;
use crate::input::{Domain, check_count, check_known, check_numbers, check_servable, check_shape, check_some};

/// The most goods that a problem may have: resources with capacity, and limits.
pub const MOST_GOODS: usize = 256;

/// A problem. See the module for the notation.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a> {
    /// Rates, users × ways, row by row; 0 means "cannot use".
    pub w: &'a [f64],
    /// What a unit draws, users × ways.
    pub draw: &'a [f64],
    /// The resource of each way.
    pub resource: &'a [usize],
    /// π: the weight of each user; positive.
    pub weight: &'a [f64],
    /// d: the most units each user can use in all; positive, infinite for no cap.
    pub caps: &'a [f64],
    /// m: the capacity of each resource; a resource of capacity 0 is ignored.
    pub capacity: &'a [f64],
}

/// A limit on what is drawn on some resources.
#[derive(Clone, PartialEq, Debug)]
pub struct Limit {
    /// B: the most that may be drawn; positive.
    pub most: f64,
    /// Whose draw counts.
    pub resources: Vec<usize>,
}

impl Ways<'_> {
    /// How many ways there are.
    #[must_use]
    pub fn ways(&self) -> usize {
        self.resource.len()
    }

    /// How many users there are.
    #[must_use]
    pub fn users(&self) -> usize {
        self.weight.len()
    }

    /// The ways of a user that give it anything: `(way, resource, rate, draw)`.
    pub fn useful(&self, l: usize) -> impl Iterator<Item = (usize, usize, f64, f64)> + Clone {
        let from = l * self.ways();
        let all = self.resource.iter().enumerate().map(move |(a, &j)| (a, j, self.w[from + a], self.draw[from + a]));
        all.filter(|&(_, j, w, _)| w > 0.0 && self.capacity[j] > 0.0)
    }

    /// `a_l`: what a unit of each resource is worth to a user in its best way.
    #[must_use]
    pub fn best_rates(&self, l: usize) -> Vec<f64> {
        let mut best = vec![0.0; self.capacity.len()];
        self.useful(l).for_each(|(_, j, w, _)| best[j] = f64::max(best[j], w));
        best
    }

    fn check(&self, limits: &[Limit]) -> Result<(), InputError> {
        let (n, ways, k) = (self.users(), self.ways(), self.capacity.len());
        check_some(n, ways.min(k))?;
        check_shape("w", self.w.len(), n.saturating_mul(ways))?;
        check_shape("draw", self.draw.len(), n.saturating_mul(ways))?;
        check_shape("caps", self.caps.len(), n)?;
        check_count("resources and limits", (k + limits.len()) as u64, MOST_GOODS as u64)?;
        check_numbers("w", self.w.iter().copied(), Domain::ModerateOrZero)?;
        check_numbers("draw", self.draw.iter().copied(), Domain::ModerateOrZero)?;
        check_numbers("weight", self.weight.iter().copied(), Domain::Moderate)?;
        check_numbers("caps", self.caps.iter().copied(), Domain::ModerateLimit)?;
        check_numbers("capacity", self.capacity.iter().copied(), Domain::ModerateOrZero)?;
        check_numbers("limit", limits.iter().map(|limit| limit.most), Domain::Moderate)?;
        for (a, &j) in self.resource.iter().enumerate() {
            check_known("way", a, j, k)?;
        }
        for (t, limit) in limits.iter().enumerate() {
            limit.resources.iter().try_for_each(|&j| check_known("limit", t, j, k))?;
        }
        let capacity: Vec<f64> = self.resource.iter().map(|&j| self.capacity[j]).collect();
        check_servable(self.w, &capacity)
    }
}
