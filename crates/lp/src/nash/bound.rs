//! Certifies a solution from the problem as given. Shares no code with the interior point; the bounds hold for any `x` and
//! any prices.
//!
//! *Lower bound.* `x` is scaled into the capacities, then into the caps; the logarithms of the utilities are added up.
//!
//! *Upper bound.* For any `p ≥ 0`,
//!
//! ```text
//! Σ π_l log(w_l·x_l) ≤ m·p + Σ_l max { π_l log(w_l·x) − p·x :  x ≥ 0, 1·x ≤ d_l }
//! ```
//!
//! A utility of `y` per unit of the cap costs what the lower convex hull of (0, 0) and the points `(w_j, p_j)` says:
//! idle, one resource, or a mix of two. So the inner maximum is that of `π log(d y) − d·hull(y)`, concave in one
//! variable, on a chain of at most `k` segments: it lies where `π/y = d·slope`, or at a corner. Exact, no iteration.

use super::{Nash, Solution};
use crate::Certificate;
use crate::certificate::usable;
use crate::maxmin::{MaxMin, attain};

/// Makes `solution` feasible, and sets its certificate and the rents of the caps at its prices.
pub(super) fn certify(problem: &Nash<'_>, solution: &mut Solution) {
    let k = problem.capacity.len();
    let Nash { w, weight, caps, capacity } = *problem;
    attain(&MaxMin { w, beta: weight, caps, capacity }, &mut solution.x, &mut Vec::new());
    let Solution { x, prices, rents, .. } = solution;
    for (p, &m) in prices.iter_mut().zip(problem.capacity) {
        *p = if m > 0.0 { usable(*p) } else { 0.0 };
    }
    rents.clear();
    let (mut total, mut welfare) = (0.0, 0.0);
    let mut excess: f64 = prices.iter().zip(problem.capacity).map(|(p, m)| p * m).sum();
    for (l, (x, w)) in x.chunks_exact(k).zip(problem.w.chunks_exact(k)).enumerate() {
        let (weight, cap) = (problem.weight[l], problem.caps[l]);
        let utility: f64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
        let best = best(&offers(problem, w, prices), weight, cap);
        total += weight;
        welfare += weight * utility.ln();
        excess += weight * (best.utility / utility).ln() - best.cost;
        rents.push(best.rent);
    }
    let (lower, gap) = (welfare / total, excess / total);
    solution.welfare = Certificate::of_maximum(lower, lower + gap);
    price_out(problem, &solution.rents, &mut solution.prices);
}

/// A user's optimum at given prices.
pub(crate) struct Best {
    pub(crate) utility: f64,
    pub(crate) cost: f64,
    /// What one more unit of cap would be worth to it.
    pub(crate) rent: f64,
}

/// What a user can use: the rate of a unit, and its price.
fn offers<'a>(problem: &'a Nash<'_>, w: &'a [f64], prices: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + Clone + 'a {
    (0..w.len()).filter(|&j| w[j] > 0.0 && problem.capacity[j] > 0.0).map(|j| (w[j], prices[j]))
}

/// `max { π log(w·x) − p·x :  x ≥ 0, 1·x ≤ d }` over units that are offered at `(rate, price)`; every rate is positive.
pub(crate) fn best(offers: &(impl Iterator<Item = (f64, f64)> + Clone), weight: f64, cap: f64) -> Best {
    // (y, cost) of the corner reached so far, per unit of cap.
    let (mut y, mut cost) = (0.0, 0.0);
    loop {
        let mut next: Option<(f64, f64, f64)> = None;
        for (rate, price) in offers.clone().filter(|offer| offer.0 > y) {
            let slope = f64::max((price - cost) / (rate - y), 0.0);
            if next.is_none_or(|(least, far, _)| slope < least || (slope == least && rate > far)) {
                next = Some((slope, rate, price));
            }
        }
        // π/(d y) = slope, that is y = π/(d slope), is within this segment, before it, or beyond.
        let at = next.map_or(0.0, |(slope, ..)| weight / (cap * slope));
        match next {
            Some((slope, ..)) if cap.is_infinite() => {
                return Best { utility: weight / slope, cost: weight, rent: 0.0 };
            }
            Some((_, far, price)) if at > far => (y, cost) = (far, price),
            Some((slope, ..)) if at > y => {
                // By the segment, not by `at · slope`: the hull need not pass through the origin.
                let paid = cost + (at - y) * slope;
                return Best { utility: cap * at, cost: cap * paid, rent: weight / cap - paid };
            }
            _ => return Best { utility: cap * y, cost: cap * cost, rent: f64::max(weight / cap - cost, 0.0) },
        }
    }
}

/// A resource of capacity 0 costs so much that no user profits from it.
fn price_out(problem: &Nash<'_>, rents: &[f64], prices: &mut [f64]) {
    let k = problem.capacity.len();
    if problem.capacity.iter().all(|&m| m > 0.0) {
        return;
    }
    for ((w, rent), (&weight, &cap)) in
        problem.w.chunks_exact(k).zip(rents).zip(problem.weight.iter().zip(problem.caps))
    {
        let lambda = weight / best(&offers(problem, w, prices), weight, cap).utility;
        for j in (0..k).filter(|&j| problem.capacity[j] == 0.0) {
            prices[j] = f64::max(prices[j], lambda * w[j] - rent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::certify;
    use crate::Budget;
    use crate::families::{Family, Instance, Recipe};
    use crate::nash::{self, Nash, Solution};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The bounds of an answer that nobody solved for still enclose the optimum.
        #[test]
        fn bounds_are_true_of_any_answer(
            (users, resources, seed, family) in (1..12usize, 1..5usize, any::<u64>(), 0..6usize),
            numbers in prop::collection::vec(prop_oneof![9 => 0.0..3.0, 1 => Just(f64::NAN), 1 => Just(-1.0)], 128),
        ) {
            let family = Family::ALL[family];
            let recipe = Recipe { family, users, resources, load: 1.0, uncapped: 0.3, spread: 0.0, seed };
            let Instance { w, beta, caps, capacity } = Instance::new(&recipe);
            let problem = Nash { w: &w, weight: &beta, caps: &caps, capacity: &capacity };
            let mut number = numbers.into_iter().cycle();
            let mut take = |count: usize| number.by_ref().take(count).collect::<Vec<f64>>();
            let mut solution = Solution { x: take(users * resources), prices: take(resources), ..Solution::default() };
            certify(&problem, &mut solution);
            let best = nash::solve(&problem, Budget::default()).unwrap().welfare;
            prop_assert!(solution.welfare.lower <= best.upper + 1e-12);
            prop_assert!(best.lower <= solution.welfare.upper + 1e-12);
        }
    }
}
