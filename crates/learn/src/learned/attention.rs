//! P1: what the like ones do. For newcomer i, partner j, kind a and role r, with z = ln T − v·ln T_model over known k:
//!
//! ```text
//! w_k   = exp(−Σ_d θ_rd (Ψ_i − Ψ_k)_d² + φ_r·[same family])
//! m     = mean of z_k,     att = Σ w_k (z_k − m) / (λ_r + Σ w_k)
//! slope = trend of z over ln batch among the same family, followed from its mean to i (at most 1.5)
//! ln T̂  = m + s_ar·att + t_ar·slope + v_ar·ln T_model(a,i,j)
//! ```
//!
//! Where nothing is alike this is the partner's mean; who lacks the cell drops out.

use super::numbers::{Numbers, Plain};
use crate::features::Psi;

/// What one known workload says about a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Voice {
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
pub(super) fn likeness(numbers: &Numbers, role: usize, one: &Psi, two: &Psi, related: bool) -> f64 {
    let family = if related { numbers.get(role, Plain::Family) } else { 0.0 };
    let gaps = one.iter().zip(two).enumerate();
    family - gaps.map(|(d, (a, b))| numbers.get(role, Plain::Theta(d)).exp() * (a - b) * (a - b)).sum::<f64>()
}

/// The trend among the family, followed to the newcomer.
pub(super) fn slope(voices: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let weight = |x: f64| 1.0 / (0.3 + x * x);
    let (mut sum, mut xs, mut zs) = (0.0, 0.0, 0.0);
    for (x, z) in voices.clone() {
        sum += weight(x);
        xs += weight(x) * x;
        zs += weight(x) * z;
    }
    if sum == 0.0 {
        return 0.0;
    }
    let (x0, z0) = (xs / sum, zs / sum);
    let (mut up, mut down) = (0.0, RIDGE);
    for (x, z) in voices {
        up += weight(x) * (x - x0) * (z - z0);
        down += weight(x) * (x - x0) * (x - x0);
    }
    up / down * (-x0).clamp(-FARTHEST, FARTHEST)
}

/// What all say together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub(super) att: f64,
    pub(super) slope: f64,
    /// Σ w.
    pub(super) likeness: f64,
}

/// att, slope and Σ w, given the mean.
pub(super) fn listen(voices: impl Iterator<Item = Voice> + Clone, mean: f64, need: f64) -> Said {
    let (mut sum, mut likeness) = (0.0, 0.0);
    for v in voices.clone() {
        sum += v.weight * (v.value - mean);
        likeness += v.weight;
    }
    let family = voices.filter_map(|v| Some((v.step?, v.value)));
    Said { att: sum / (need + likeness), slope: slope(family), likeness }
}
