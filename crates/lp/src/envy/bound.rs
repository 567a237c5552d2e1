//! Judges an answer, from the problem as asked; shares nothing with the solvers. Any bundles and any duals may come in,
//! and what comes out is true of them.
//!
//! *Lower bound.* Whoever prefers another bundle of the menu takes it, then all bundles shrink by one factor until
//! capacities hold. Envy is a matter of ratios, so both steps leave an envy-free allocation, and its value can be had.
//!
//! *Upper bound.* For any prices `p ≥ 0` and any `y_li ≥ 0` on the rows "l does not envy i" (`z = x/π`),
//!
//! ```text
//! Σ_l π_l w_l·z_l ≤ Σ_j m_j p_j + Σ_l g_l·z_l      g_l = (π_l + Y_l) w_l − π_l p − Σ_i y_il w_i,   Y_l = Σ_i y_li
//! ```
//!
//! A user without a cap must find nothing worth having (`g_l ≤ 0` wherever it has a use): prices are raised until that
//! holds. A capped one gets at most `c_l max_j g_lj` out of it (`c_l = d_l/π_l`). A filled user has no envy rows, and
//! its bundle is `c_l` units of resources that are best for it, so it gets `c_l max_{j best} g_lj`, also if that is
//! negative.
//!
//! Identical users are judged as one user with the sum of their weights: `y` spread over them in proportion to weight
//! gives every one of them the same `g_l/π_l`.

use super::EnvyFree;

/// Two numbers with the optimum between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bound {
    /// Attained by the answer itself.
    pub lower: f64,
    /// Proved by the answer's duals.
    pub upper: f64,
}

impl Bound {
    /// Distance of the two, relative to the upper one; infinite when nothing was proved.
    #[must_use]
    pub fn gap(&self) -> f64 {
        let gap = (self.upper - self.lower) / self.upper;
        if gap.is_finite() { gap.max(0.0) } else { f64::INFINITY }
    }
}

/// Raises `prices` until they and `envy` prove something; returns what. `filled` says who envies nobody by rule.
pub(super) fn prove(asked: &EnvyFree<'_>, filled: &[bool], prices: &mut [f64], envy: &[(u32, u32, f64)]) -> f64 {
    let k = asked.capacity.len();
    let mut worth: Vec<f64> = asked.w.iter().enumerate().map(|(at, w)| asked.weight[at / k] * w).collect();
    for &(l, i, y) in envy {
        let (l, i) = (l as usize, i as usize);
        if l == i || filled[l] || !(y > 0.0 && y.is_finite()) {
            continue;
        }
        for j in 0..k {
            let paid = y * asked.w[l * k + j];
            worth[l * k + j] += paid;
            worth[i * k + j] -= paid;
        }
    }
    let users = || worth.chunks_exact(k).enumerate();
    let useful = |l: usize, j: usize| asked.w[l * k + j] > 0.0 && asked.capacity[j] > 0.0;
    for (j, p) in prices.iter_mut().enumerate() {
        *p = if *p > 0.0 && p.is_finite() { *p } else { 0.0 };
        for (l, worth) in users().filter(|&(l, _)| asked.caps[l] == f64::INFINITY && useful(l, j)) {
            *p = f64::max(*p, worth[j] / asked.weight[l]);
        }
    }
    let mut upper: f64 = prices.iter().zip(asked.capacity).map(|(p, m)| p * m).sum();
    for (l, worth) in users().filter(|&(l, _)| asked.caps[l] < f64::INFINITY) {
        let weight = asked.weight[l];
        let best = (0..k).filter(|&j| useful(l, j)).map(|j| asked.w[l * k + j]).fold(0.0, f64::max);
        let choice = (0..k).filter(|&j| useful(l, j) && (!filled[l] || asked.w[l * k + j] == best));
        let profit = choice.map(|j| worth[j] - weight * prices[j]).fold(f64::NEG_INFINITY, f64::max);
        upper += asked.caps[l] / weight * if filled[l] { profit } else { profit.max(0.0) };
    }
    upper
}

/// An allocation as a menu of bundles per unit of weight, and who holds which.
#[derive(Clone, Debug, Default)]
pub(super) struct Holding {
    pub(super) bundles: Vec<f64>,
    pub(super) holds: Vec<u32>,
}

/// How much more than its own a user must like another bundle before it takes it.
const SWITCH: f64 = 1e-9;
/// A user this near its ceiling is filled.
pub(super) const FILLED: f64 = 1e-7;

impl Holding {
    fn bundle(&self, k: usize, b: u32) -> &[f64] {
        &self.bundles[b as usize * k..][..k]
    }

    /// Makes the allocation envy-free and feasible; returns its value.
    pub(super) fn settle(&mut self, asked: &EnvyFree<'_>, filled: &[bool]) -> f64 {
        let k = asked.capacity.len();
        self.bundles.iter_mut().for_each(|b| *b = if *b > 0.0 && b.is_finite() { *b } else { 0.0 });
        for l in 0..self.holds.len() {
            let rates = &asked.w[l * k..][..k];
            if !filled[l] {
                self.switch(l as u32, rates, asked.caps[l] / asked.weight[l]);
            }
            self.strip(l, rates);
        }
        let mut used = vec![0.0; k];
        let mut shrink = 1.0f64;
        for (l, &b) in self.holds.iter().enumerate() {
            let bundle = self.bundle(k, b);
            used.iter_mut().zip(bundle).for_each(|(u, z)| *u += asked.weight[l] * z);
            let cap = asked.caps[l] / asked.weight[l];
            shrink = shrink.min(cap / bundle.iter().sum::<f64>().max(1e-300));
        }
        for (used, m) in used.iter().zip(asked.capacity) {
            shrink = shrink.min(m / used.max(1e-300));
        }
        self.bundles.iter_mut().for_each(|b| *b *= shrink);
        let value = |l: usize| asked.weight[l] * worth(&asked.w[l * k..][..k], self.bundle(k, self.holds[l]));
        (0..self.holds.len()).map(value).sum()
    }

    /// The user takes the bundle it likes best among those that its cap admits.
    fn switch(&mut self, l: u32, rates: &[f64], cap: f64) {
        let k = rates.len();
        let mut best = worth(rates, self.bundle(k, self.holds[l as usize])) * (1.0 + SWITCH);
        for b in 0..(self.bundles.len() / k) as u32 {
            let bundle = self.bundle(k, b);
            let value = worth(rates, bundle);
            if value > best && bundle.iter().sum::<f64>() <= cap {
                best = value;
                self.holds[l as usize] = b;
            }
        }
    }

    /// Nobody is given what it has no use for.
    fn strip(&mut self, l: usize, rates: &[f64]) {
        let k = rates.len();
        let bundle = self.bundle(k, self.holds[l]);
        if bundle.iter().zip(rates).all(|(z, w)| *z == 0.0 || *w > 0.0) {
            return;
        }
        let kept: Vec<f64> = bundle.iter().zip(rates).map(|(z, w)| if *w > 0.0 { *z } else { 0.0 }).collect();
        let known = self.bundles.chunks_exact(k).position(|b| b == kept);
        self.holds[l] = known.unwrap_or(self.bundles.len() / k) as u32;
        if known.is_none() {
            self.bundles.extend_from_slice(&kept);
        }
    }

    /// The largest relative envy, `w_l·z_b / w_l·z_l − 1` over users who are not filled and bundles that are held.
    pub(super) fn envy(&self, asked: &EnvyFree<'_>) -> f64 {
        let k = asked.capacity.len();
        let mut held = vec![false; self.bundles.len() / k];
        self.holds.iter().for_each(|&b| held[b as usize] = true);
        let mut largest = 0.0f64;
        for (l, &b) in self.holds.iter().enumerate() {
            let rates = &asked.w[l * k..][..k];
            let own = worth(rates, self.bundle(k, b));
            if own >= ceiling(asked, l) / asked.weight[l] * (1.0 - FILLED) {
                continue;
            }
            for (bundle, _) in self.bundles.chunks_exact(k).zip(&held).filter(|t| *t.1) {
                let other = worth(rates, bundle);
                if other > own {
                    largest = largest.max(other / own - 1.0);
                }
            }
        }
        largest
    }
}

/// What a filled user has: its cap, all of it on what is best for it.
pub(super) fn ceiling(asked: &EnvyFree<'_>, l: usize) -> f64 {
    let k = asked.capacity.len();
    let rates = asked.w[l * k..][..k].iter().zip(asked.capacity);
    asked.caps[l] * rates.filter(|t| *t.1 > 0.0).fold(0.0, |a: f64, t| a.max(*t.0))
}

fn worth(rates: &[f64], bundle: &[f64]) -> f64 {
    rates.iter().zip(bundle).map(|(w, z)| w * z).sum()
}
