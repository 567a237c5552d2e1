//! P2: measurements of a newcomer correct its other predictions. For observations o = (a1, p) with residuals ρ in both roles:
//!
//! ```text
//! g_o = κ_r[a1,a2]·exp(−Σ_d η_rd (Ψ_p − Ψ_j)_d²) + κ0_r[a1,a2]
//! correction = Σ g_o (ρ_o^r + c_r·ρ_o^other) / (1 + Σ g_o)
//! κ[a1,a2] = exp(α − [a1≠a2]·(γ + h·|spec_a1 − spec_a2|²)),     κ0 likewise
//! ```
//!
//! Any number of observations in any order; without observations P1 is unchanged; the correction is a weighted average and therefore bounded.

use super::parameters::{Parameters, PerRole};
use crate::features::{PSI, Psi, Spec};

/// κ or κ0 and its derivatives with respect to α, γ and ln h.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) value: f64,
    pub(super) slopes: [f64; 3],
}

/// An observation, seen from one cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservedResidual {
    /// g_o.
    pub(super) gain: f64,
    /// ρ^r + c·ρ^other.
    pub(super) residual: f64,
}

/// κ and κ0 between two kinds.
pub(super) fn transfers(params: &Parameters, role: usize, from: &Spec, to: &Spec, same: bool) -> [Transfer; 2] {
    let apart: f64 = from.iter().zip(to).map(|(a, b)| (a - b) * (a - b)).sum();
    let of = |alpha: PerRole, gamma: PerRole, h: PerRole| {
        let h = params.get(role, h).exp();
        let loss = if same { 0.0 } else { params.get(role, gamma) + h * apart };
        let value = (params.get(role, alpha) - loss).exp();
        let slopes = if same { [value, 0.0, 0.0] } else { [value, -value, -value * h * apart] };
        Transfer { value, slopes }
    };
    [
        of(PerRole::Gain, PerRole::Elsewhere, PerRole::Apart),
        of(PerRole::Shared, PerRole::SharedElsewhere, PerRole::SharedApart),
    ]
}

/// exp(−Σ η (Ψ_p − Ψ_j)²), η given.
pub(super) fn nearness(eta: &[f64; PSI], one: &Psi, two: &Psi) -> f64 {
    let gaps = one.iter().zip(two).zip(eta);
    (-gaps.map(|((a, b), eta)| eta * (a - b) * (a - b)).sum::<f64>()).exp()
}

/// η of a role.
pub(super) fn etas(params: &Parameters, role: usize) -> [f64; PSI] {
    std::array::from_fn(|d| params.get(role, PerRole::Eta(d)).exp())
}

/// The correction and Σ g.
pub(super) fn correction(observed: impl Iterator<Item = ObservedResidual>) -> (f64, f64) {
    let (sum, gains) = observed.fold((0.0, 0.0), |(s, g), h| (s + h.gain * h.residual, g + h.gain));
    (sum / (1.0 + gains), gains)
}
