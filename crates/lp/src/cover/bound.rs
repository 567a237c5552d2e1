//! What prices prove. Shares nothing with the solver: prices come in, the problem is read as it was asked.
//!
//! Let a unit of `j` cost `λ_j ≥ 0` on top, and let each slot of a stay save `ζ ∈ [0, saving]` without limit. Let the sides of
//! every column pay for it between them: one that is alone pays `V = c + λ_j u − ζ`, the first of a pair any `V_a`, the second
//! what remains, `V_b = c + λ_j − ζ_a − ζ_b − V_a`. Adding up what everybody pays, any solution costs
//!
//! ```text
//!   Σ_demands (Σ_{s∈P} V_s + h(P))  −  Σ_j λ_j (units used of j)  −  Σ (saving·min(held, slots) − ζ·slots)
//! ≥ Σ_a n_a S_a  −  Σ_j λ_j m_j  −  Σ (saving − ζ) held          S_a = min over patterns P of at most D_a slots: Σ V_s + h(P)
//! ```
//!
//! whatever the prices. `S_a` is computed over whole patterns, which is what makes this more than the bound of a program
//! over slots.

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
        total += f64::from(class.count) * cheapest(cover, a, std::mem::take(&mut slots[a]));
    }
    total
}

/// The slots that cover more than all that cost less.
fn frontier(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_unstable_by(|x, y| y.1.total_cmp(&x.1).then(x.0.total_cmp(&y.0)));
    let mut least = f64::INFINITY;
    points.retain(|&(price, _)| {
        let better = price < least;
        least = least.min(price);
        better
    });
    points
}

/// S: the least price of a whole pattern, over slots of `(price, part)`.
///
/// Patterns of `i` slots are made from those of `i − 1`; of these only the ones remain that no other beats in both price
/// and sum, and that could still become cheaper than the cheapest.
fn cheapest(cover: &Cover, a: usize, points: Vec<(f64, f64)>) -> f64 {
    let most = cover.classes[a].most;
    let points = frontier(points);
    let falls = points.iter().fold(0.0, |least: f64, point| least.min(point.0));
    let mut best = cover.shortage(a, 0.0, 0);
    let mut layer = vec![(0.0, 0.0)];
    for slots in 1..=most {
        let mut next: Vec<(f64, f64)> = Vec::with_capacity(layer.len() * points.len());
        for &(price, sum) in &layer {
            next.extend(points.iter().map(|&(more, part)| (price + more, f64::min(sum + part, 1.0))));
        }
        best = next.iter().fold(best, |best, &(price, sum)| best.min(price + cover.shortage(a, sum, slots as usize)));
        let to_come = falls * f64::from(most - slots);
        next.retain(|&(price, _)| price + to_come < best);
        if slots == most || next.is_empty() {
            break;
        }
        layer = frontier(next);
    }
    best
}
