//! Certifies a solution from the problem as given. Shares no code with the interior point; the bounds hold for any `x`
//! and any duals.
//!
//! *Lower bound.* `x` is scaled into the capacities, then into the caps: the least `w·x/β` of a feasible point.
//!
//! *Upper bound.* For any `λ, p ≥ 0`, a user's best use of its cap is worth `d_l max(0, max_j(λ_l w_lj − p_j))`, so
//!
//! ```text
//! t ≤ ( m·p + Σ_l d_l max(0, max_j (λ_l w_lj − p_j)) ) / Σ_l β_l λ_l
//! ```
//!
//! The λ of a user without a cap is lowered to `min_j p_j/w_lj`, so that its maximum is 0. A resource of capacity 0 adds
//! nothing, and is priced so that no user has a positive reduced profit there.

use super::{MaxMin, Solution};
use crate::Certificate;
use crate::certificate::{fit, usable};

/// Makes `solution` feasible, and its duals prove `solution.bound`. `scratch` saves an allocation.
pub(super) fn certify(problem: &MaxMin<'_>, solution: &mut Solution, scratch: &mut Vec<f64>) {
    solution.t = attain(problem, &mut solution.x, scratch);
    let upper = prove(problem, &mut solution.prices, &mut solution.duals);
    solution.bound = Certificate::of_maximum(solution.t, upper);
}

/// Scales `x` into capacities and caps; returns the level it attains.
pub(crate) fn attain(problem: &MaxMin<'_>, x: &mut [f64], used: &mut Vec<f64>) -> f64 {
    let k = problem.capacity.len();
    used.clear();
    used.resize(k, 0.0);
    for (x, w) in x.chunks_exact_mut(k).zip(problem.w.chunks_exact(k)) {
        for j in 0..k {
            x[j] = if w[j] > 0.0 { usable(x[j]) } else { 0.0 };
            used[j] += x[j];
        }
    }
    for (used, m) in used.iter_mut().zip(problem.capacity) {
        *used = fit(*used, *m);
    }
    let resource_fit = used;
    let mut lower = f64::INFINITY;
    for (l, x) in x.chunks_exact_mut(k).enumerate() {
        let mut sum = 0.0;
        for j in 0..k {
            x[j] *= resource_fit[j];
            sum += x[j];
        }
        let cap_fit = fit(sum, problem.caps[l]);
        let mut served = 0.0;
        for (x, w) in x.iter_mut().zip(&problem.w[l * k..][..k]) {
            *x *= cap_fit;
            served += w * *x;
        }
        lower = f64::min(lower, served / problem.beta[l]);
    }
    lower
}

/// Repairs the duals, scales them to `Σ β λ = 1` and returns their upper bound.
fn prove(problem: &MaxMin<'_>, prices: &mut [f64], duals: &mut [f64]) -> f64 {
    let k = problem.capacity.len();
    prices.iter_mut().for_each(|p| *p = usable(*p));
    let (mut cost, mut weight) = (0.0, 0.0);
    for (l, w) in problem.w.chunks_exact(k).enumerate() {
        let mut lambda = usable(duals[l]);
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
    cost * unit
}

#[cfg(test)]
mod tests {
    use super::{Solution, certify};
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
            let mut level = Solution { x: take(users * resources), prices: take(resources), duals: take(users), ..Solution::default() };
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
