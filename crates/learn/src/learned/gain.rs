//! P2: what was measured of a newcomer corrects what was not. For observations o = (a1, p) with residuals ρ in both roles:
//!
//! ```text
//! g_o = κ_r[a1,a2]·exp(−Σ_d η_rd (Ψ_p − Ψ_j)_d²) + κ0_r[a1,a2]
//! correction = Σ g_o (ρ_o^r + c_r·ρ_o^other) / (1 + Σ g_o)
//! κ[a1,a2] = exp(α − [a1≠a2]·(γ + h·|spec_a1 − spec_a2|²)),     κ0 likewise
//! ```
//!
//! Any number of observations in any order; none leaves P1 as it is; and since it is an average it cannot run away.

use super::numbers::{Numbers, Plain};
use crate::features::{PSI, Psi, Spec};

/// κ or κ0 and its derivatives with respect to α, γ and ln h.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) value: f64,
    pub(super) slopes: [f64; 3],
}

/// An observation, seen from one cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// g_o.
    pub(super) gain: f64,
    /// ρ^r + c·ρ^other.
    pub(super) residual: f64,
}

/// κ and κ0 between two kinds.
pub(super) fn transfers(numbers: &Numbers, role: usize, from: &Spec, to: &Spec, same: bool) -> [Transfer; 2] {
    let apart: f64 = from.iter().zip(to).map(|(a, b)| (a - b) * (a - b)).sum();
    let of = |alpha: Plain, gamma: Plain, h: Plain| {
        let h = numbers.get(role, h).exp();
        let loss = if same { 0.0 } else { numbers.get(role, gamma) + h * apart };
        let value = (numbers.get(role, alpha) - loss).exp();
        let slopes = if same { [value, 0.0, 0.0] } else { [value, -value, -value * h * apart] };
        Transfer { value, slopes }
    };
    [of(Plain::Gain, Plain::Elsewhere, Plain::Apart), of(Plain::Shared, Plain::SharedElsewhere, Plain::SharedApart)]
}

/// exp(−Σ η (Ψ_p − Ψ_j)²), η given.
pub(super) fn nearness(eta: &[f64; PSI], one: &Psi, two: &Psi) -> f64 {
    let gaps = one.iter().zip(two).zip(eta);
    (-gaps.map(|((a, b), eta)| eta * (a - b) * (a - b)).sum::<f64>()).exp()
}

/// η of a role.
pub(super) fn etas(numbers: &Numbers, role: usize) -> [f64; PSI] {
    std::array::from_fn(|d| numbers.get(role, Plain::Eta(d)).exp())
}

/// The correction and Σ g.
pub(super) fn correction(heard: impl Iterator<Item = Heard>) -> (f64, f64) {
    let (sum, gains) = heard.fold((0.0, 0.0), |(s, g), h| (s + h.gain * h.residual, g + h.gain));
    (sum / (1.0 + gains), gains)
}
