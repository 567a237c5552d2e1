//! Certifies a filling from the problem as given; the bounds hold for any shares, prices and duals. For all `λ, p ≥ 0` and
//! every feasible point,
//!
//! ```text
//! Σ_l λ_l β_l u_l ≤ R,      R = m·p + Σ_l d_l max(0, max_j (λ_l w_lj − p_j))
//! ```
//!
//! (the λ of a user without a cap is lowered to `min_j p_j/w_lj`, so that its maximum is 0). Hence, if those below a level
//! `t` keep what they have and the others are to be equal, the common level is at most
//!
//! ```text
//! ( R − Σ_{u_l < t} λ_l β_l u_l ) / Σ_{u_l ≥ t} λ_l β_l
//! ```
//!
//! and one user of a level `u_i ≥ t` cannot exceed `u_i + (R − Σ_l λ_l β_l min(u_l, t) − λ_i β_i (u_i − t))/(λ_i β_i)` unless
//! somebody below `t` loses, or somebody above falls below it.
//!
//! The prices of a late bottleneck alone prove nothing: they are zero on resources exhausted earlier. So every bottleneck
//! is proved with its prices plus a multiple of those that proved the one before, large enough that using exhausted
//! resources does not pay.

use super::FillWorkspace;
use crate::Certificate;
use crate::maxmin::{Filling, MaxMin};

/// Multiples of the earlier prices, tried in this order until one is good enough.
const MULTIPLES: [f64; 8] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 0.0];
/// The gap at which no other multiple is tried.
const GOOD: f64 = 1e-8;
/// Slopes are read this much above a level, past the breakpoint that the level may be on.
const ABOVE: f64 = 1e-9;

/// The bounds of one choice of prices and duals.
#[derive(Clone, Debug)]
struct Proof {
    upper: f64,
    /// `R − Σ λ β min(u, t)`
    room: f64,
    prices: Vec<f64>,
    lambda: Vec<f64>,
}

impl FillWorkspace {
    /// Computes the bounds of the bottlenecks, the ceilings of the users and the gap, given shares, levels and prices. If
    /// the last bottleneck was not `reached`, its frozen users may not be at their optimal level.
    pub(super) fn prove(&mut self, problem: &MaxMin<'_>, filling: &mut Filling, reached: bool) {
        let k = problem.capacity.len();
        // Alone: all of its cap on its best resource, or all capacity.
        let alone = |(l, w): (usize, &[f64])| {
            let rates = || w.iter().zip(problem.capacity).filter(|&(_, &m)| m > 0.0);
            let best = rates().map(|(&w, _)| w).fold(0.0, f64::max);
            let all: f64 = rates().map(|(w, m)| w * m).sum();
            (problem.caps[l] * (best / problem.beta[l])).min(all / problem.beta[l])
        };
        filling.ceilings = problem.w.chunks_exact(k).enumerate().map(alone).collect();
        self.open_all(problem);
        let mut earlier: Option<Vec<f64>> = None;
        for s in 0..filling.bottlenecks.len() {
            let bottleneck = &filling.bottlenecks[s];
            let of = |users: &[usize]| users.iter().map(|&l| filling.levels[l]).fold(f64::INFINITY, f64::min);
            let t = if bottleneck.frozen.is_empty() { of(&bottleneck.full) } else { of(&bottleneck.frozen) };
            let proof = self.best_proof(problem, &filling.levels, t, &bottleneck.prices, earlier.as_deref());
            filling.bottlenecks[s].bound = Certificate::of_maximum(t, proof.upper);
            self.ceilings(problem, filling, t, s, &proof);
            earlier = Some(proof.prices);
        }
        let count = filling.bottlenecks.len();
        filling.gap = 0.0;
        for (s, bottleneck) in filling.bottlenecks.iter_mut().enumerate() {
            let highest = |users: &[usize]| users.iter().map(|&l| filling.ceilings[l]).fold(0.0, f64::max);
            if bottleneck.frozen.is_empty() {
                bottleneck.bound.upper = highest(&bottleneck.full);
                bottleneck.bound.lower = bottleneck.full.iter().map(|&l| filling.levels[l]).fold(0.0, f64::max);
            }
            filling.gap = filling.gap.max(bottleneck.bound.gap());
            let stopped = if reached || s + 1 < count { &[][..] } else { &bottleneck.frozen };
            for &l in bottleneck.full.iter().chain(stopped) {
                filling.gap =
                    filling.gap.max(Certificate { lower: filling.levels[l], upper: filling.ceilings[l] }.gap());
            }
        }
    }

    /// The proof of one bottleneck, with the best multiple of `earlier`. Leaves the cost curves at its prices.
    fn best_proof(
        &mut self,
        problem: &MaxMin<'_>,
        levels: &[f64],
        t: f64,
        p: &[f64],
        earlier: Option<&[f64]>,
    ) -> Proof {
        let Some(earlier) = earlier else { return self.proof(problem, levels, t, p.to_vec()) };
        let with = |multiple: f64| p.iter().zip(earlier).map(|(p, e)| p + multiple * e).collect();
        let mut best = self.proof(problem, levels, t, with(MULTIPLES[0]));
        let mut drawn = true;
        for multiple in MULTIPLES.into_iter().skip(1) {
            if best.upper <= t * (1.0 + GOOD) {
                break;
            }
            let proof = self.proof(problem, levels, t, with(multiple));
            drawn = proof.upper < best.upper;
            if drawn {
                best = proof;
            }
        }
        if !drawn {
            self.curves.draw(problem, &self.order, &self.open, &best.prices);
        }
        best
    }

    /// Reads duals off the cost curves and computes their bound.
    fn proof(&mut self, problem: &MaxMin<'_>, levels: &[f64], t: f64, prices: Vec<f64>) -> Proof {
        let k = problem.capacity.len();
        self.curves.draw(problem, &self.order, &self.open, &prices);
        let (mut right, mut fixed, mut rising, mut kept) = (0.0, 0.0, 0.0, 0.0);
        right += prices.iter().zip(problem.capacity).map(|(p, m)| p * m).sum::<f64>();
        let mut lambda = Vec::with_capacity(levels.len());
        for (l, &u) in levels.iter().enumerate() {
            let slope = self.curves.cost(l, problem.caps[l], problem.beta[l] * u.min(t) * (1.0 + ABOVE)).1;
            let (dual, profit) = profit(problem, l, k, slope, &prices);
            right += profit;
            lambda.push(dual);
            *(if u < t { &mut fixed } else { &mut rising }) += dual * problem.beta[l] * if u < t { u } else { 1.0 };
            kept += dual * problem.beta[l] * u.min(t);
        }
        Proof { upper: (right - fixed) / rising, room: (right - kept).max(0.0), prices, lambda }
    }

    /// Opens all resources again: proofs are about the problem as given.
    fn open_all(&mut self, problem: &MaxMin<'_>) {
        let k = problem.capacity.len();
        for (open, w) in self.open.iter_mut().zip(problem.w.chunks_exact(k)) {
            *open = (0..k).filter(|&j| w[j] > 0.0 && problem.capacity[j] > 0.0).fold(0, |set, j| set | 1 << j);
        }
    }

    /// Lowers the ceilings of the users that bottleneck `s` stopped, or limits later.
    fn ceilings(&self, problem: &MaxMin<'_>, filling: &mut Filling, t: f64, s: usize, proof: &Proof) {
        let k = problem.capacity.len();
        for later in s..filling.bottlenecks.len() {
            let Filling { bottlenecks, ceilings, levels, .. } = filling;
            for &l in bottlenecks[later].frozen.iter().filter(|_| later == s).chain(&bottlenecks[later].full) {
                let (u, beta) = (levels[l], problem.beta[l]);
                // Only this user's dual is read at its own level; its share of the slack changes with it.
                let slope = self.curves.cost(l, problem.caps[l], beta * u * (1.0 + ABOVE)).1;
                let (dual, gain) = profit(problem, l, k, slope, &proof.prices);
                let (_, old) = profit(problem, l, k, proof.lambda[l], &proof.prices);
                let room = proof.room + gain - old - dual * beta * u + proof.lambda[l] * beta * u.min(t);
                let ceiling = u + room.max(0.0) / (dual * beta);
                ceilings[l] = if ceiling < ceilings[l] { ceiling } else { ceilings[l] };
            }
        }
    }
}

/// A feasible dual of the user, and the profit of its cap at it.
fn profit(problem: &MaxMin<'_>, l: usize, k: usize, lambda: f64, p: &[f64]) -> (f64, f64) {
    let rates = || (0..k).filter(|&j| problem.capacity[j] > 0.0).map(|j| (problem.w[l * k + j], p[j]));
    if problem.caps[l].is_finite() {
        let profit = rates().map(|(w, p)| lambda * w - p).fold(0.0, f64::max);
        return (lambda, problem.caps[l] * profit);
    }
    let most = rates().filter(|&(w, _)| w > 0.0).map(|(w, p)| p / w).fold(f64::INFINITY, f64::min);
    (lambda.min(most), 0.0)
}
