//! Proves how good an answer is, from the problem as it was asked. Shares nothing with the interior point: any `x`
//! and any duals may come in, and what comes out is true of them.
//!
//! *Lower bound.* `x` is scaled into the capacities, then into the caps; what is left is feasible, so the least
//! `w·x/β` can be had.
//!
//! *Upper bound.* For any `λ, p ≥ 0`, a user's best use of its cap is worth `d_l max(0, max_j(λ_l w_lj − p_j))`, so
//!
//! ```text
//! t ≤ ( m·p + Σ_l d_l max(0, max_j (λ_l w_lj − p_j)) ) / Σ_l β_l λ_l
//! ```
//!
//! A user without a cap must not find anything worth having: its λ is lowered to `min_j p_j/w_lj`. A resource of
//! capacity 0 costs nothing, and is priced so that nobody wants it.

use super::{Level, MaxMin};

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

/// Makes `level` a feasible answer with duals that prove `level.bound`. `scratch` saves an allocation.
pub(super) fn certify(problem: &MaxMin<'_>, level: &mut Level, scratch: &mut Vec<f64>) {
    let lower = attain(problem, &mut level.x, scratch);
    let upper = prove(problem, &mut level.prices, &mut level.duals);
    level.t = lower;
    level.bound = Bound { lower, upper };
}

/// Scales `x` into capacities and caps; returns the level it attains.
pub(super) fn attain(problem: &MaxMin<'_>, x: &mut [f64], used: &mut Vec<f64>) -> f64 {
    let k = problem.capacity.len();
    let sanitised = |x: f64| if x > 0.0 && x.is_finite() { x } else { 0.0 };
    used.clear();
    used.resize(k, 0.0);
    for (x, w) in x.chunks_exact_mut(k).zip(problem.w.chunks_exact(k)) {
        for j in 0..k {
            x[j] = if w[j] > 0.0 { sanitised(x[j]) } else { 0.0 };
            used[j] += x[j];
        }
    }
    for (used, m) in used.iter_mut().zip(problem.capacity) {
        *used = if *used > *m { m / *used } else { 1.0 };
    }
    let fit = used;
    let mut lower = f64::INFINITY;
    for (l, x) in x.chunks_exact_mut(k).enumerate() {
        let mut sum = 0.0;
        for j in 0..k {
            x[j] *= fit[j];
            sum += x[j];
        }
        let fit = if sum > problem.caps[l] { problem.caps[l] / sum } else { 1.0 };
        let mut served = 0.0;
        for (x, w) in x.iter_mut().zip(&problem.w[l * k..][..k]) {
            *x *= fit;
            served += w * *x;
        }
        lower = f64::min(lower, served / problem.beta[l]);
    }
    lower
}

/// Repairs the duals, scales them to `Σ β λ = 1` and returns the level that they exclude exceeding.
fn prove(problem: &MaxMin<'_>, prices: &mut [f64], duals: &mut [f64]) -> f64 {
    let k = problem.capacity.len();
    let sanitised = |dual: f64| if dual > 0.0 && dual.is_finite() { dual } else { 0.0 };
    prices.iter_mut().for_each(|p| *p = sanitised(*p));
    let (mut cost, mut weight) = (0.0, 0.0);
    for (l, w) in problem.w.chunks_exact(k).enumerate() {
        let mut lambda = sanitised(duals[l]);
        if problem.caps[l].is_finite() {
            let mut profit = 0.0;
            for j in 0..k {
                let worth = if problem.capacity[j] > 0.0 { lambda * w[j] - prices[j] } else { 0.0 };
                profit = if worth > profit { worth } else { profit };
            }
            cost += problem.caps[l] * profit;
        } else {
            for j in 0..k {
                if w[j] > 0.0 && problem.capacity[j] > 0.0 {
                    lambda = f64::min(lambda, prices[j] / w[j]);
                }
            }
        }
        weight += problem.beta[l] * lambda;
        duals[l] = lambda;
    }
    let unit = 1.0 / weight;
    duals.iter_mut().for_each(|lambda| *lambda *= unit);
    for j in 0..k {
        cost += problem.capacity[j] * prices[j];
        prices[j] *= unit;
        if problem.capacity[j] == 0.0 {
            let wanted = duals.iter().enumerate().map(|(l, lambda)| lambda * problem.w[l * k + j]);
            prices[j] = wanted.fold(0.0, f64::max);
        }
    }
    let upper = cost * unit;
    if upper.is_finite() { upper } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::{Level, certify};
    use crate::families::{Family, Instance, Recipe};
    use crate::maxmin::{self, General};
    use crate::{Budget, Clarabel};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The bounds of an answer that nobody solved for still enclose the optimum.
        #[test]
        fn bounds_are_true_of_any_answer(
            (users, resources, seed, family) in (1..12usize, 1..5usize, any::<u64>(), 0..4usize),
            numbers in prop::collection::vec(prop_oneof![9 => 0.0..3.0, 1 => Just(f64::NAN), 1 => Just(-1.0)], 128),
        ) {
            let family = Family::ALL[family];
            let instance = Instance::new(&Recipe { family, users, resources, load: 0.3, uncapped: 0.3, spread: 1.0, seed });
            let problem = instance.problem();
            let mut number = numbers.into_iter().cycle();
            let mut take = |count: usize| number.by_ref().take(count).collect::<Vec<f64>>();
            let mut level = Level { x: take(users * resources), prices: take(resources), duals: take(users), ..Level::default() };
            certify(&problem, &mut level, &mut Vec::new());
            let optimum = General::new(&problem).unwrap().solve(&problem, &Clarabel, Budget::default()).bound;
            prop_assert!(level.bound.lower <= optimum.upper * (1.0 + 1e-12));
            prop_assert!(level.bound.upper >= optimum.lower * (1.0 - 1e-12));
        }
    }

    #[test]
    fn a_wrong_answer_has_a_wide_gap() {
        let recipe =
            Recipe { family: Family::Rand, users: 9, resources: 3, load: 0.2, uncapped: 0.0, spread: 0.0, seed: 4 };
        let instance = Instance::new(&recipe);
        let right = maxmin::solve(&instance.problem(), Budget::default()).unwrap();
        let mut wrong = right.clone();
        wrong.x[0] *= 0.5;
        wrong.x[1] *= 0.5;
        wrong.x[2] *= 0.5;
        certify(&instance.problem(), &mut wrong, &mut Vec::new());
        assert!(wrong.bound.lower < 0.6 * right.t && wrong.bound.gap() > 0.4);
        let mut wrong = right.clone();
        wrong.prices.reverse();
        certify(&instance.problem(), &mut wrong, &mut Vec::new());
        assert!(wrong.bound.gap() > 1e-3);
    }
}
