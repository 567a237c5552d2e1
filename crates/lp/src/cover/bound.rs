//! What prices prove. Shares nothing with the solver: prices come in, the question is read as it was asked.
//!
//! Let units of `j` be paid `λ_j ≥ 0`, let demands of class `a` pay `V_a(p)` for a slot that covers the part `p`, and let
//! each slot of a stay save `ζ ∈ [0, saving]` without limit. Adding up what everybody pays, any answer costs
//!
//! ```text
//!   Σ_e x_e red_e  +  Σ_demands (Σ_{s∈P} V_a(p_s) + h_a(P))  −  Σ_j λ_j (units used)  −  Σ (saving − ζ) min(held, slots)  + …
//! ≥ Σ_j m_j min(0, min_e red_e / u_e)  +  Σ_a n_a S_a  −  Σ_j λ_j m_j  −  Σ (saving − ζ) held
//!
//!   red_e = c_e + λ_j u_e − Σ_sides (V_a(p) + ζ_aj)         S_a = min over patterns P of at most D_a slots: Σ V_a(p_s) + h_a(P)
//! ```
//!
//! whatever the prices. `S_a` is computed over whole patterns, which is what makes this more than the bound of a program
//! over slots. `V_a` is a function of the part only, in steps: a demand does not care which column covers it.

use super::Cover;

/// A function of parts in steps: up to and including the first end the first value, and so on; beyond the last end the
/// last value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Steps {
    /// Ascending.
    pub ends: Vec<f64>,
    /// One for each end.
    pub values: Vec<f64>,
}

impl Steps {
    /// Which step a part is on.
    #[must_use]
    pub fn step(&self, part: f64) -> usize {
        self.ends.partition_point(|&end| end < part).min(self.ends.len().saturating_sub(1))
    }

    /// The value at a part; 0 without steps.
    #[must_use]
    pub fn at(&self, part: f64) -> f64 {
        self.values.get(self.step(part)).copied().unwrap_or(0.0)
    }
}

/// Prices, as the module has them; what is missing is 0.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Prices {
    /// λ: of a unit of each resource.
    pub units: Vec<f64>,
    /// V: of a slot, per class.
    pub slots: Vec<Steps>,
    /// ζ: per stay of the question.
    pub stays: Vec<f64>,
}

/// What the prices prove that every answer costs at least.
#[must_use]
pub fn bound(cover: &Cover, prices: &Prices) -> f64 {
    let (n, k) = (cover.classes.len(), cover.capacity.len());
    let lambda: Vec<f64> = (0..k).map(|j| prices.units.get(j).map_or(0.0, |price| price.max(0.0))).collect();
    let nothing = Steps::default();
    let slots: Vec<&Steps> = (0..n).map(|a| prices.slots.get(a).unwrap_or(&nothing)).collect();
    let mut zeta = vec![0.0; n * k];
    let mut total = 0.0;
    for (at, stay) in cover.stays.iter().enumerate() {
        let price = prices.stays.get(at).map_or(0.0, |price| price.clamp(0.0, stay.saving));
        zeta[stay.class * k + stay.resource] = price;
        total -= (stay.saving - price) * f64::from(stay.held);
    }
    let mut least = vec![0.0f64; k];
    // Of the parts on one step only the largest matters: it costs the same.
    let mut largest: Vec<Vec<f64>> = slots.iter().map(|steps| vec![0.0; steps.ends.len().max(1)]).collect();
    let mut look = |j: usize, units: u32, cost: f64, sides: &[(usize, f64)]| {
        let mut reduced = cost + lambda[j] * f64::from(units);
        for &(a, part) in sides {
            let step = slots[a].step(part);
            reduced -= slots[a].values.get(step).copied().unwrap_or(0.0) + zeta[a * k + j];
            let largest = &mut largest[a][step];
            *largest = part.max(*largest);
        }
        least[j] = least[j].min(reduced / f64::from(units));
    };
    for (at, slot) in cover.alone.iter().enumerate() {
        let class = &cover.classes[at / k];
        if let Some(slot) = slot
            && class.count > 0
            && class.size <= cover.capacity[at % k]
        {
            look(at % k, class.size, slot.cost, &[(at / k, slot.part)]);
        }
    }
    for couple in &cover.couples {
        let others = if couple.a == couple.b { 2 } else { 1 };
        let there = cover.classes[couple.a].count.min(cover.classes[couple.b].count) >= others;
        if there && cover.capacity[couple.resource] > 0 {
            look(couple.resource, 1, couple.cost, &[(couple.a, couple.part_a), (couple.b, couple.part_b)]);
        }
    }
    for (j, &units) in cover.capacity.iter().enumerate() {
        total += f64::from(units) * (least[j] - lambda[j]);
    }
    for (a, class) in cover.classes.iter().enumerate().filter(|(_, class)| class.count > 0) {
        let points: Vec<(f64, f64)> = (largest[a].iter().enumerate())
            .filter(|&(_, &part)| part > 0.0)
            .map(|(step, &part)| (slots[a].values.get(step).copied().unwrap_or(0.0), part))
            .collect();
        total += f64::from(class.count) * cheapest(cover, a, &points);
    }
    total
}

/// S: the least price of a whole pattern, over slots of `(price, part)`.
///
/// Patterns of `i` slots are made from those of `i − 1`; of these only the ones remain that no other beats in both price
/// and sum, and that could still become cheaper than the cheapest.
pub(super) fn cheapest(cover: &Cover, a: usize, points: &[(f64, f64)]) -> f64 {
    let most = cover.classes[a].most;
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
        next.sort_unstable_by(|x, y| y.1.total_cmp(&x.1).then(x.0.total_cmp(&y.0)));
        let mut cheapest = f64::INFINITY;
        next.retain(|&(price, _)| {
            let better = price < cheapest;
            cheapest = cheapest.min(price);
            better
        });
        layer = next;
    }
    best
}
