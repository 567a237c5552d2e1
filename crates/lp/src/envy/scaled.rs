//! The program as the solvers see it, in units in which everything is about 1.
//!
//! The unknown is `z̃_lj = z_lj Π/m_j` (1 is an equal share; `Π` the sum of weights), so with `π̃ = π/Π` and
//! `w̃_lj = w_lj m_j / V`, where `V` is the value of an equal split,
//!
//! ```text
//! maximise Σ π̃_l w̃_l·z̃_l   s.t.   Σ_l π̃_l z̃_lj ≤ 1,   w̃_l·z̃_l ≥ w̃_l·z̃_i,   z̃ ≥ 0
//! ```

use super::bound::Allocation;
use super::{EnvyFree, Relay};

/// The scaled program.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    pub(super) k: usize,
    /// `w̃`, users × resources.
    pub(super) w: Vec<f64>,
    /// `π̃`.
    pub(super) weight: Vec<f64>,
    /// The largest rate of each user: the unit of its rows.
    pub(super) top: Vec<f64>,
    /// `m_j/Π`: the unit of `z̃_lj`.
    unit: Vec<f64>,
    /// `Π`.
    total: f64,
    /// `V`.
    value: f64,
}

impl Scaled {
    pub(super) fn new(problem: &EnvyFree<'_>) -> Self {
        let EnvyFree { w, weight, capacity } = *problem;
        let k = capacity.len();
        let total: f64 = weight.iter().sum();
        let mut value = 0.0;
        for (l, weight) in weight.iter().enumerate() {
            value += weight / total * dot(&w[l * k..][..k], capacity);
        }
        let w: Vec<f64> = w.iter().enumerate().map(|(at, w)| w * capacity[at % k] / value).collect();
        Self {
            k,
            weight: weight.iter().map(|weight| weight / total).collect(),
            top: w.chunks_exact(k).map(|rates| rates.iter().copied().fold(0.0, f64::max)).collect(),
            w,
            unit: capacity.iter().map(|m| m / total).collect(),
            total,
            value,
        }
    }

    pub(super) fn users(&self) -> usize {
        self.weight.len()
    }

    pub(super) fn rates(&self, l: usize) -> &[f64] {
        &self.w[l * self.k..][..self.k]
    }

    /// The utility of a bundle to `l`.
    pub(super) fn worth(&self, l: usize, bundle: &[f64]) -> f64 {
        dot(self.rates(l), bundle)
    }

    /// A menu in the problem's own units.
    pub(super) fn allocation(&self, menu: &Menu) -> Allocation {
        let bundles = menu.bundles.iter().enumerate().map(|(at, z)| z * self.unit[at % self.k]).collect();
        let mut holds = vec![0; self.users()];
        for (g, group) in menu.groups.iter().enumerate() {
            group.iter().for_each(|&l| holds[l as usize] = g as u32);
        }
        Allocation { bundles, holds }
    }

    /// The bundles of an allocation in these units.
    pub(super) fn bundles_of(&self, allocation: &Allocation) -> Vec<f64> {
        allocation.bundles.iter().enumerate().map(|(at, z)| z / self.unit[at % self.k]).collect()
    }

    /// Duals in the problem's own units.
    pub(super) fn unscaled(&self, duals: &Duals, capacity: &[f64]) -> Duals {
        Duals {
            prices: duals.prices.iter().zip(capacity).map(|(p, m)| p * self.value / m).collect(),
            envy: duals.envy.iter().map(|&(l, i, y)| (l, i, y * self.total)).collect(),
            through: duals.through.iter().map(|relay| relay.scaled(self.total)).collect(),
        }
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Duals of the program.
#[derive(Clone, Debug, Default)]
pub(super) struct Duals {
    /// Per resource.
    pub(super) prices: Vec<f64>,
    /// `(l, i, y)`: the row "l does not envy i".
    pub(super) envy: Vec<(u32, u32, f64)>,
    /// More of them, as products.
    pub(super) through: Vec<Relay>,
}

/// A partition of the users by the bundle that they hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Menu {
    pub(super) groups: Vec<Vec<u32>>,
    /// Groups × resources.
    pub(super) bundles: Vec<f64>,
}

impl Menu {
    pub(super) fn bundle(&self, k: usize, g: usize) -> &[f64] {
        &self.bundles[g * k..][..k]
    }
}
