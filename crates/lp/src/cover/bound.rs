//! What prices prove. Shares nothing with the solver: prices come in, the problem is read as it was asked.
//!
//! Let a unit of `j` cost `λ_j ≥ 0` on top, and let each slot of a stay save `ζ ∈ [0, saving]` without limit. Let the sides of
//! every column pay for it between them: one that is alone pays `V = c + λ_j u − ζ`, the first of a pair any `V_a`, the second
//! what remains, `V_b = c + λ_j − ζ_a − ζ_b − V_a`. Adding up what everybody pays, any solution costs
//!
//! ```text
//!   Σ_demands (V + h)  −  Σ_j λ_j (units used of j)  −  Σ (saving·min(held, slots) − ζ·slots)
//! ≥ Σ_a n_a S_a  −  Σ_j λ_j m_j  −  Σ (saving − ζ) held          S_a = min( h(∅), min_s V_s + h(s) )
//! ```
//!
//! whatever the prices.

use super::Cover;

/// Prices, as the module has them; what is missing is 0, or half of what a pair costs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Prices {
    /// λ: of a unit of each resource.
    pub units: Vec<f64>,
    /// V of the first side, per pair of the problem.
    pub firsts: Vec<f64>,
    /// ζ: per stay of the problem.
    pub stays: Vec<f64>,
}

/// What the prices prove that every solution costs at least.
#[must_use]
pub fn bound(cover: &Cover, prices: &Prices) -> f64 {
    let (n, k) = (cover.classes.len(), cover.capacity.len());
    let lambda: Vec<f64> = (0..k).map(|j| prices.units.get(j).map_or(0.0, |price| price.max(0.0))).collect();
    let mut zeta = vec![0.0; n * k];
    let mut total: f64 = lambda.iter().zip(&cover.capacity).map(|(price, &units)| -price * f64::from(units)).sum();
    for (at, stay) in cover.stays.iter().enumerate() {
        let price = prices.stays.get(at).map_or(0.0, |price| price.clamp(0.0, stay.saving));
        zeta[stay.class * k + stay.resource] = price;
        total -= (stay.saving - price) * f64::from(stay.held);
    }
    // Per class, what slots cost and cover.
    let mut slots: Vec<Vec<(f64, f64)>> = vec![Vec::new(); n];
    for (at, slot) in cover.alone.iter().enumerate() {
        let (class, j) = (&cover.classes[at / k], at % k);
        if let Some(slot) = slot
            && class.count > 0
            && class.size <= cover.capacity[j]
        {
            slots[at / k].push((slot.cost + lambda[j] * f64::from(class.size) - zeta[at], slot.part));
        }
    }
    for (at, pair) in cover.pairs.iter().enumerate() {
        let (a, b, j) = (pair.a, pair.b, pair.resource);
        let others = if a == b { 2 } else { 1 };
        let there = cover.classes[a].count.min(cover.classes[b].count) >= others;
        if there && cover.capacity[j] > 0 {
            let all = pair.cost + lambda[j] - zeta[a * k + j] - zeta[b * k + j];
            let first = prices.firsts.get(at).copied().filter(|first| first.is_finite()).unwrap_or(0.5 * all);
            slots[a].push((first, pair.part_a));
            slots[b].push((all - first, pair.part_b));
        }
    }
    for (a, class) in cover.classes.iter().enumerate().filter(|(_, class)| class.count > 0) {
        let costs = slots[a].iter().map(|&(price, part)| price + cover.shortage(a, part, 1));
        total += f64::from(class.count) * costs.fold(cover.shortage(a, 0.0, 0), f64::min);
    }
    total
}
