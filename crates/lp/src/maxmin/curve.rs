//! What a level costs a user at given prices, for all users at once.
//!
//! A user with rates `w`, cap `d` and prices `p` that is owed `b` pays
//!
//! ```text
//! C(b) = min { p·x : w·x = b, Σ x ≤ d } = d · hull(b/d)
//! ```
//!
//! where `hull` is the lower convex hull of the origin (idling) and the points `(w_j, p_j)`: the cheapest way to an
//! average rate is to idle and use one resource, to use one, or to mix two. Without a cap only the first edge is
//! left, `b · min_j p_j/w_j`. `C` is convex and rises; past `b = d · max w` nothing can be bought.

use super::MaxMin;

/// A corner of a hull and the slope of the edge that leads to it.
#[derive(Clone, Copy, Debug)]
struct Corner {
    rate: f64,
    cost: f64,
    slope: f64,
}

/// The hulls of all users.
#[derive(Clone, Debug, Default)]
pub(super) struct Curves {
    corners: Vec<Corner>,
    /// Where each user's corners end.
    ends: Vec<usize>,
}

/// The resources of every user from slow to fast. Depends on rates only, so it is sorted once per problem.
pub(super) fn order(problem: &MaxMin<'_>, into: &mut Vec<u8>) {
    let k = problem.capacity.len();
    into.clear();
    for w in problem.w.chunks_exact(k) {
        let start = into.len();
        into.extend(0..k as u8);
        into[start..].sort_unstable_by(|&a, &b| w[usize::from(a)].total_cmp(&w[usize::from(b)]));
    }
}

impl Curves {
    /// Draws the hull of every user over the resources `open` to it (a bit each).
    pub(super) fn draw(&mut self, problem: &MaxMin<'_>, order: &[u8], open: &[u32], prices: &[f64]) {
        let k = prices.len();
        self.corners.clear();
        self.ends.clear();
        for (l, w) in problem.w.chunks_exact(k).enumerate() {
            let start = self.corners.len();
            let capped = problem.caps[l].is_finite();
            for &j in &order[l * k..][..k] {
                let j = usize::from(j);
                if open[l] & (1 << j) != 0 {
                    self.extend(start, capped, w[j], prices[j]);
                }
            }
            self.ends.push(self.corners.len());
        }
    }

    /// Adds the point `(rate, cost)`, no slower than all before it, to the hull that begins at `start`.
    fn extend(&mut self, start: usize, capped: bool, rate: f64, cost: f64) {
        loop {
            let last = self.corners.len();
            let (from, slope) = match last > start {
                true => (self.corners[last - 1], self.corners[last - 1].slope),
                false => (Corner { rate: 0.0, cost: 0.0, slope: 0.0 }, f64::NEG_INFINITY),
            };
            // Of two that are equally fast the cheaper stays.
            let edge = match rate > from.rate {
                true => (cost - from.cost) / (rate - from.rate),
                false if cost < from.cost => f64::NEG_INFINITY,
                false => return,
            };
            if edge > slope {
                // A user without a cap never has to pay for more than its cheapest rate.
                if capped || last == start {
                    self.corners.push(Corner { rate, cost, slope: edge });
                }
                return;
            }
            self.corners.pop();
        }
    }

    /// What user `l` pays for `b`, and what a little more costs: `(C, dC/db)`. At the limit of its cap the slope is
    /// that of the last edge.
    #[inline]
    pub(super) fn cost(&self, l: usize, cap: f64, b: f64) -> (f64, f64) {
        let corners = self.corners(l);
        if cap.is_infinite() {
            return corners.first().map_or((0.0, 0.0), |corner| (corner.slope * b, corner.slope));
        }
        let rate = b / cap;
        let mut from = Corner { rate: 0.0, cost: 0.0, slope: 0.0 };
        for &corner in corners {
            if rate < corner.rate {
                return ((from.cost + corner.slope * (rate - from.rate)) * cap, corner.slope);
            }
            from = corner;
        }
        (from.cost * cap, from.slope)
    }

    /// The line through the edge of user `l` at rate `rate`: `(λ, μ)` such that resource `j` lies on it if
    /// `p_j + μ = λ w_j`, and idling does if `μ = 0`.
    pub(super) fn segment(&self, l: usize, rate: f64) -> (f64, f64) {
        let corners = self.corners(l);
        match corners.iter().find(|corner| rate < corner.rate).or(corners.last()) {
            Some(corner) => (corner.slope, corner.slope * corner.rate - corner.cost),
            None => (0.0, 0.0),
        }
    }

    fn corners(&self, l: usize) -> &[Corner] {
        let start = if l == 0 { 0 } else { self.ends[l - 1] };
        &self.corners[start..self.ends[l]]
    }
}
