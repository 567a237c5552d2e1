//! Proves how good a division is, from the market as it was asked. Shares nothing with the price tree: any bundles,
//! levels and prices may come in, and what comes out is true of them.
//!
//! *Attained.* What the division hands out is added up per resource, and what exceeds a capacity is scaled back.
//!
//! *Equal level.* `Σ_l p·x_l ≤ m·p`, and a user at level t spends at least `π_l t λ_l`, `λ_l = min_j p_j/w_lj`. So any
//! `p ≥ 0` proves `t ≤ m·p / Σ_l π_l λ_l`. On a later rung the sum is over its users and the minimum over the resources
//! that earlier rungs have left: those that they take, they need in full.
//!
//! *Equilibrium.* For any `p > 0` a user's best spending of any sum is on one resource, which gives
//!
//! ```text
//! Σ π_l log(w_l·x_l) ≤ m·p − Σ π_l + Σ π_l log(π_l max_j w_lj/p_j)
//! ```
//!
//! The difference of the two sides is added up user by user, from the logarithm of a quotient near 1, so that it is
//! not the difference of two large sums.

use super::{EqualLevel, Equilibrium, Market};
use crate::maxmin::Bound;

/// The mean log-utility `Σ π log(w·x) / Σ π`, between two numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Welfare {
    /// Attained by the answer itself.
    pub lower: f64,
    /// Proved by the answer's prices.
    pub upper: f64,
}

impl Welfare {
    /// Distance of the two; infinite when nothing was proved. `g` here is a factor of `1 + g` in everybody's utility.
    #[must_use]
    pub fn gap(&self) -> f64 {
        let gap = self.upper - self.lower;
        if gap.is_finite() { gap.max(0.0) } else { f64::INFINITY }
    }
}

/// How much of `used` can be kept.
fn fit(used: &[f64], capacity: &[f64], fit: &mut Vec<f64>) {
    fit.clear();
    fit.extend(used.iter().zip(capacity).map(|(&used, &m)| if used > m { m / used } else { 1.0 }));
}

/// Sets what fits, every rung's level and bound, and prices that prove it.
pub(super) fn certify_level(market: &Market<'_>, answer: &mut EqualLevel) {
    let k = market.capacity.len();
    let mut used = vec![0.0; k];
    for (l, (w, weight)) in market.w.chunks_exact(k).zip(market.weight).enumerate() {
        let owed = weight * answer.nominal[answer.rung[l] as usize];
        answer.division.each(l, |j, fraction| used[j] += fraction * owed / w[j]);
    }
    fit(&used, market.capacity, &mut answer.division.fit);
    attain_levels(answer);
    prove_levels(market, answer);
    // A spent budget may leave a later rung below the first: what everybody attains is the lowest.
    answer.t = answer.rungs.iter().map(|rung| rung.t).fold(f64::INFINITY, f64::min);
    answer.bound = Bound { lower: answer.t, upper: answer.rungs[0].bound.upper };
    answer.prices.clone_from(&answer.rungs[0].prices);
    price_out(market, answer.rungs.len() == 1, &mut answer.prices);
}

/// A user's level is its rung's nominal one, less what was scaled back of what its bundle is made of.
fn attain_levels(answer: &mut EqualLevel) {
    let EqualLevel { division, rung, rungs, nominal, .. } = answer;
    let bundles = division.resources + division.mixes.len() / division.resources;
    let mut taken = vec![false; rungs.len() * bundles];
    for (&bundle, &rung) in division.bundle.iter().zip(&*rung) {
        taken[rung as usize * bundles + bundle as usize] = true;
    }
    for (r, rung) in rungs.iter_mut().enumerate() {
        let kept = (0..bundles).filter(|b| taken[r * bundles + b]).map(|b| division.kept(b));
        rung.bound.lower = nominal[r] * kept.fold(f64::INFINITY, f64::min);
        rung.t = rung.bound.lower;
    }
}

/// Scales every rung's prices to `Σ π λ = 1`; their `m·p` is then its upper bound.
fn prove_levels(market: &Market<'_>, answer: &mut EqualLevel) {
    let k = market.capacity.len();
    let mut spent = vec![0.0; answer.rungs.len()];
    // 1/p: infinite for what is free, 0 for what an earlier rung takes in full and what there is none of.
    let mut inverse = vec![0.0; answer.rungs.len() * k];
    let mut left: Vec<bool> = market.capacity.iter().map(|&m| m > 0.0).collect();
    for (rung, inverse) in answer.rungs.iter_mut().zip(inverse.chunks_exact_mut(k)) {
        for j in 0..k {
            let p = &mut rung.prices[j];
            *p = if left[j] && *p > 0.0 && p.is_finite() { *p } else { 0.0 };
            inverse[j] = if left[j] { 1.0 / *p } else { 0.0 };
            left[j] &= *p == 0.0;
        }
    }
    for ((w, weight), &rung) in market.w.chunks_exact(k).zip(market.weight).zip(&answer.rung) {
        let mut worth = 0.0;
        for (&w, &inverse) in w.iter().zip(&inverse[rung as usize * k..][..k]) {
            // 0 · ∞ is not a number, and not greater than anything either.
            worth = if w * inverse > worth { w * inverse } else { worth };
        }
        spent[rung as usize] += if worth > 0.0 { weight / worth } else { 0.0 };
    }
    for (rung, spent) in answer.rungs.iter_mut().zip(spent) {
        rung.prices.iter_mut().for_each(|p| *p /= spent);
        let upper: f64 = rung.prices.iter().zip(market.capacity).map(|(p, m)| p * m).sum();
        rung.bound = Bound { lower: rung.bound.lower, upper: if upper.is_finite() { upper } else { f64::INFINITY } };
    }
}

/// A resource of nothing costs as much as keeps everybody from wanting it.
fn price_out(market: &Market<'_>, needed: bool, prices: &mut [f64]) {
    let k = market.capacity.len();
    if !needed || market.capacity.iter().all(|&m| m > 0.0) {
        return;
    }
    for w in market.w.chunks_exact(k) {
        let real = (0..k).filter(|&j| market.capacity[j] > 0.0 && w[j] > 0.0);
        let lambda = real.map(|j| prices[j] / w[j]).fold(f64::INFINITY, f64::min);
        for j in (0..k).filter(|&j| market.capacity[j] == 0.0) {
            prices[j] = f64::max(prices[j], lambda * w[j]);
        }
    }
}

/// Sets what fits, the welfare and its bound.
pub(super) fn certify_equilibrium(market: &Market<'_>, answer: &mut Equilibrium) {
    let k = market.capacity.len();
    let Equilibrium { prices, division, .. } = answer;
    let mut used = vec![0.0; k];
    for (l, weight) in market.weight.iter().enumerate() {
        division.each(l, |j, fraction| used[j] += fraction * weight / prices[j]);
    }
    fit(&used, market.capacity, &mut division.fit);
    let inverse: Vec<f64> =
        prices.iter().zip(market.capacity).map(|(p, &m)| if m > 0.0 { 1.0 / p } else { 0.0 }).collect();
    let (mut money, mut welfare, mut excess) = (0.0, 0.0, 0.0);
    for (l, (w, &weight)) in market.w.chunks_exact(k).zip(market.weight).enumerate() {
        let mut best = 0.0;
        for (&w, &inverse) in w.iter().zip(&inverse) {
            best = if w * inverse > best { w * inverse } else { best };
        }
        let mut utility = 0.0;
        let fit = &division.fit;
        division.each(l, |j, fraction| utility += w[j] * (fraction * inverse[j] * fit[j]));
        money += weight;
        welfare += weight * (weight * utility).ln();
        excess += weight * log_near_one(best / utility);
    }
    let supply: f64 = prices.iter().zip(market.capacity).map(|(p, &m)| if m > 0.0 { p * m } else { 0.0 }).sum();
    let lower = welfare / money;
    let gap = (supply - money + excess) / money;
    answer.welfare = Welfare { lower, upper: if gap.is_finite() { lower + gap } else { f64::INFINITY } };
    price_out(market, true, prices);
}

/// log x, by its series where that is shorter.
fn log_near_one(x: f64) -> f64 {
    let d = x - 1.0;
    if d.abs() < 1e-6 { d - d * d * (0.5 - d / 3.0) } else { x.ln() }
}

#[cfg(test)]
mod tests {
    use super::{certify_equilibrium, certify_level};
    use crate::families::{Family, Instance, Recipe};
    use crate::market::{self, Division, EqualLevel, Equilibrium, Market, Rung, STEPS};
    use crate::maxmin::Bound;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The bounds of an answer that nobody solved for still enclose the optimum.
        #[test]
        fn bounds_are_true_of_any_answer(
            (users, resources, seed, family) in (1..12usize, 1..5usize, any::<u64>(), 0..6usize),
            picks in prop::collection::vec(0..4usize, 12),
            prices in prop::collection::vec(prop_oneof![9 => 0.01..3.0, 1 => Just(0.0)], 5),
            nominal in 0.01..100.0,
        ) {
            let family = Family::ALL[family];
            let recipe = Recipe { family, users, resources, load: 0.3, uncapped: 0.0, spread: 0.0, seed };
            let Instance { w, caps, capacity, .. } = Instance::new(&recipe);
            let market = Market { w: &w, weight: &caps, capacity: &capacity };
            // Anything that the user can use at all.
            let bundle = |l: usize| {
                let usable = (0..resources).filter(|&j| w[l * resources + j] > 0.0);
                usable.cycle().nth(picks[l]).unwrap() as u8
            };
            let bundle = (0..users).map(bundle).collect();
            let division = Division { resources, bundle, mixes: Vec::new(), fit: Vec::new() };
            let prices = prices[..resources].to_vec();
            let rung = Rung { t: 0.0, prices: prices.clone(), bound: Bound { lower: 0.0, upper: 0.0 } };
            let mut level = EqualLevel {
                rungs: vec![rung],
                rung: vec![0; users],
                division: division.clone(),
                nominal: vec![nominal],
                ..EqualLevel::default()
            };
            certify_level(&market, &mut level);
            let best = market::equal_level(&market, None, STEPS).unwrap().bound;
            prop_assert!(level.bound.lower <= best.upper * (1.0 + 1e-12));
            prop_assert!(best.lower <= level.bound.upper * (1.0 + 1e-12));
            let mut equilibrium = Equilibrium { prices, division, ..Equilibrium::default() };
            certify_equilibrium(&market, &mut equilibrium);
            let best = market::equilibrium(&market, None, STEPS).unwrap().welfare;
            // Prices of 0 prove nothing, and leave nothing that could be bought.
            prop_assert!(equilibrium.welfare.lower <= best.upper + 1e-12 || equilibrium.welfare.lower.is_nan());
            prop_assert!(best.lower <= equilibrium.welfare.upper + 1e-12);
        }
    }
}
