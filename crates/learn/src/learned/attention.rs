//! P1: attention over similar workloads. For newcomer i, partner j, kind a and role r, with z = ln T − v·ln T_model over known k:
//!
//! ```text
//! w_k   = exp(−Σ_d θ_rd (Ψ_i − Ψ_k)_d² + φ_r·[same family])
//! m     = mean of z_k,     att = Σ w_k (z_k − m) / (λ_r + Σ w_k)
//! slope = trend of z over ln batch among the same family, followed from its mean to i (at most 1.5)
//! ln T̂  = m + s_ar·att + t_ar·slope + v_ar·ln T_model(a,i,j)
//! ```
//!
//! Without similar workloads this is the partner's mean; workloads without the cell are skipped.

use super::parameters::{Parameters, PerRole};
use crate::features::Psi;

/// What one known workload says about a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightedValue {
    /// w_k.
    pub(super) weight: f64,
    /// z_k.
    pub(super) value: f64,
    /// ln batch of k less that of the newcomer, if they are of one family.
    pub(super) step: Option<f64>,
}

/// How far a trend is followed.
const FARTHEST: f64 = 1.5;
/// Ridge of the trend, in squared ln batch.
const RIDGE: f64 = 0.3;

/// ln w.
pub(super) fn likeness(params: &Parameters, role: usize, one: &Psi, two: &Psi, related: bool) -> f64 {
    let family = if related { params.get(role, PerRole::Family) } else { 0.0 };
    let gaps = one.iter().zip(two).enumerate();
    family - gaps.map(|(d, (a, b))| params.get(role, PerRole::Theta(d)).exp() * (a - b) * (a - b)).sum::<f64>()
}

/// The trend among the family, followed to the newcomer.
pub(super) fn slope(weighted: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let weight = |x: f64| 1.0 / (0.3 + x * x);
    let (mut sum, mut xs, mut zs) = (0.0, 0.0, 0.0);
    for (x, z) in weighted.clone() {
        sum += weight(x);
        xs += weight(x) * x;
        zs += weight(x) * z;
    }
    if sum == 0.0 {
        return 0.0;
    }
    let (x0, z0) = (xs / sum, zs / sum);
    let (mut up, mut down) = (0.0, RIDGE);
    for (x, z) in weighted {
        up += weight(x) * (x - x0) * (z - z0);
        down += weight(x) * (x - x0) * (x - x0);
    }
    up / down * (-x0).clamp(-FARTHEST, FARTHEST)
}

/// What all say together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AttentionOutput {
    pub(super) att: f64,
    pub(super) slope: f64,
    /// Σ w.
    pub(super) likeness: f64,
}

/// att, slope and Σ w, given the mean.
pub(super) fn attend(weighted: impl Iterator<Item = WeightedValue> + Clone, mean: f64, need: f64) -> AttentionOutput {
    let (mut sum, mut likeness) = (0.0, 0.0);
    for v in weighted.clone() {
        sum += v.weight * (v.value - mean);
        likeness += v.weight;
    }
    let family = weighted.filter_map(|v| Some((v.step?, v.value)));
    AttentionOutput { att: sum / (need + likeness), slope: slope(family), likeness }
}
