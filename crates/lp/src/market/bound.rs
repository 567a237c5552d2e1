//! Certifies a solution from the market as given. Shares no code with the price tree; the bounds hold for any assignment,
//! levels and prices.
//!
//! *Lower bound.* The assignment's use of each resource is added up, and scaled back where it exceeds the capacity.
//!
//! *Equal level.* `Σ_l p·x_l ≤ m·p`, and a user at level t spends at least `π_l t λ_l`, `λ_l = min_j p_j/w_lj`. So any
//! `p ≥ 0` proves `t ≤ m·p / Σ_l π_l λ_l`. For a later level the sum is over its users and the minimum over the resources
//! that earlier levels leave: those that they use, they use in full.
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
use crate::Certificate;
use crate::certificate::{fit, usable};

/// Scales the assignment into capacity, and sets every level's value, bounds and prices that prove them.
pub(super) fn certify_level(market: &Market<'_>, answer: &mut EqualLevel) {
    let k = market.capacity.len();
    let mut used = vec![0.0; k];
    for (l, (w, weight)) in market.w.chunks_exact(k).zip(market.weight).enumerate() {
        let owed = weight * answer.nominal[answer.level_of[l] as usize];
        answer.assignment.each(l, |j, fraction| used[j] += fraction * owed / w[j]);
    }
    answer.assignment.fit = fits(&used, market.capacity);
    attain_levels(answer);
    prove_levels(market, answer);
    // A spent budget may leave a later level below the first: everybody attains the lowest.
    answer.t = answer.levels.iter().map(|level| level.t).fold(f64::INFINITY, f64::min);
    answer.bound = Certificate { lower: answer.t, upper: answer.levels[0].bound.upper };
    answer.prices.clone_from(&answer.levels[0].prices);
    price_out(market, answer.levels.len() == 1, &mut answer.prices);
}

/// A user's level is the nominal one, times the fraction of its bundle that is left after scaling.
fn attain_levels(answer: &mut EqualLevel) {
    let EqualLevel { assignment, level_of, levels, nominal, .. } = answer;
    let bundles = assignment.resources + assignment.mixes();
    let mut taken = vec![false; levels.len() * bundles];
    for (&bundle, &level) in assignment.bundle.iter().zip(&*level_of) {
        taken[level as usize * bundles + bundle as usize] = true;
    }
    for (r, level) in levels.iter_mut().enumerate() {
        let kept = (0..bundles).filter(|b| taken[r * bundles + b]).map(|b| assignment.kept(b));
        level.bound.lower = nominal[r] * kept.fold(f64::INFINITY, f64::min);
        level.t = level.bound.lower;
    }
}

/// Scales every level's prices to `Σ π λ = 1`; their `m·p` is then its upper bound.
fn prove_levels(market: &Market<'_>, answer: &mut EqualLevel) {
    let k = market.capacity.len();
    let mut spent = vec![0.0; answer.levels.len()];
    // 1/p: infinite where the price is 0; 0 for resources of an earlier level and of no capacity.
    let mut inverse = vec![0.0; answer.levels.len() * k];
    let mut left: Vec<bool> = market.capacity.iter().map(|&m| m > 0.0).collect();
    for (level, inverse) in answer.levels.iter_mut().zip(inverse.chunks_exact_mut(k)) {
        for j in 0..k {
            let p = &mut level.prices[j];
            *p = if left[j] { usable(*p) } else { 0.0 };
            inverse[j] = if left[j] { 1.0 / *p } else { 0.0 };
            left[j] &= *p == 0.0;
        }
    }
    for ((w, weight), &level) in market.w.chunks_exact(k).zip(market.weight).zip(&answer.level_of) {
        let mut worth = 0.0;
        for (&w, &inverse) in w.iter().zip(&inverse[level as usize * k..][..k]) {
            // 0 · ∞ is not a number, and not greater than anything either.
            worth = if w * inverse > worth { w * inverse } else { worth };
        }
        spent[level as usize] += if worth > 0.0 { weight / worth } else { 0.0 };
    }
    for (level, spent) in answer.levels.iter_mut().zip(spent) {
        level.prices.iter_mut().for_each(|p| *p /= spent);
        let upper: f64 = level.prices.iter().zip(market.capacity).map(|(p, m)| p * m).sum();
        level.bound = Certificate::of_maximum(level.t, upper);
    }
}

/// A resource of capacity 0 costs so much that no user profits from it.
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

/// The factors that scale every resource into its capacity.
fn fits(used: &[f64], capacity: &[f64]) -> Vec<f64> {
    used.iter().zip(capacity).map(|(&used, &m)| fit(used, m)).collect()
}

/// Scales the assignment into capacity, and sets the welfare's bounds.
pub(super) fn certify_equilibrium(market: &Market<'_>, answer: &mut Equilibrium) {
    let k = market.capacity.len();
    let Equilibrium { prices, assignment, .. } = answer;
    let mut used = vec![0.0; k];
    for (l, weight) in market.weight.iter().enumerate() {
        assignment.each(l, |j, fraction| used[j] += fraction * weight / prices[j]);
    }
    assignment.fit = fits(&used, market.capacity);
    let inverse: Vec<f64> =
        prices.iter().zip(market.capacity).map(|(p, &m)| if m > 0.0 { 1.0 / p } else { 0.0 }).collect();
    let (mut money, mut welfare, mut excess) = (0.0, 0.0, 0.0);
    for (l, (w, &weight)) in market.w.chunks_exact(k).zip(market.weight).enumerate() {
        let mut best = 0.0;
        for (&w, &inverse) in w.iter().zip(&inverse) {
            best = if w * inverse > best { w * inverse } else { best };
        }
        let mut utility = 0.0;
        let fit = &assignment.fit;
        assignment.each(l, |j, fraction| utility += w[j] * (fraction * inverse[j] * fit[j]));
        money += weight;
        welfare += weight * (weight * utility).ln();
        excess += weight * log_near_one(best / utility);
    }
    let supply: f64 = prices.iter().zip(market.capacity).map(|(p, &m)| if m > 0.0 { p * m } else { 0.0 }).sum();
    let lower = welfare / money;
    let gap = (supply - money + excess) / money;
    answer.welfare = Certificate::of_maximum(lower, lower + gap);
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
    use crate::Certificate;
    use crate::families::{Family, Instance, Recipe};
    use crate::market::{self, Assignment, EqualLevel, Equilibrium, Level, Market, STEPS};
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
            let assignment = Assignment { resources, bundle, mixes: Vec::new(), fit: Vec::new() };
            let prices = prices[..resources].to_vec();
            let first = Level { t: 0.0, prices: prices.clone(), bound: Certificate::NONE };
            let mut level = EqualLevel {
                levels: vec![first],
                level_of: vec![0; users],
                assignment: assignment.clone(),
                nominal: vec![nominal],
                ..EqualLevel::default()
            };
            certify_level(&market, &mut level);
            let best = market::equal_level(&market, None, STEPS).unwrap().bound;
            prop_assert!(level.bound.lower <= best.upper * (1.0 + 1e-12));
            prop_assert!(best.lower <= level.bound.upper * (1.0 + 1e-12));
            let mut equilibrium = Equilibrium { prices, assignment, ..Equilibrium::default() };
            certify_equilibrium(&market, &mut equilibrium);
            let best = market::equilibrium(&market, None, STEPS).unwrap().welfare;
            // Prices of 0 prove nothing, and leave nothing that could be bought.
            prop_assert!(equilibrium.welfare.lower <= best.upper + 1e-12 || equilibrium.welfare.lower.is_nan());
            prop_assert!(best.lower <= equilibrium.welfare.upper + 1e-12);
        }
    }
}
