//! One stage as the solvers see it: scaled, identical users merged, users who are filled and have no choice taken out.
//!
//! Unknown is `z̃_lj = z_lj Π/m_j` (1 is an equal share; `Π` the sum of weights), so with `π̃ = π/Π` and
//! `w̃_lj = w_lj m_j / V`, where `V` is the value of an equal split,
//!
//! ```text
//! maximise Σ π̃_l w̃_l·z̃_l   s.t.   Σ_l π̃_l z̃_lj ≤ room_j          1, less what filled users hold
//!                                  w̃_l·z̃_l ≥ w̃_l·z̃_i              unless l is content
//!                                  w̃_l·z̃_l ≥ φ_l                  what l would envy a filled user, or its ceiling
//!                                  Σ_j u_j z̃_lj ≤ c_l              u_j = m_j/Π
//! ```

/// A stage's programme.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) k: usize,
    /// `w̃`, users × resources.
    pub(super) w: Vec<f64>,
    /// `π̃`.
    pub(super) weight: Vec<f64>,
    /// `c`; infinite for none.
    pub(super) cap: Vec<f64>,
    /// `φ`; 0 for none.
    pub(super) floor: Vec<f64>,
    /// Users who envy nobody.
    pub(super) content: Vec<bool>,
    pub(super) room: Vec<f64>,
    /// `u`.
    pub(super) unit: Vec<f64>,
    /// The largest rate of each user: what its rows are measured in.
    pub(super) top: Vec<f64>,
}

impl Stage {
    pub(super) fn users(&self) -> usize {
        self.weight.len()
    }

    pub(super) fn rates(&self, l: usize) -> &[f64] {
        &self.w[l * self.k..][..self.k]
    }

    /// What `l` thinks of a bundle.
    pub(super) fn worth(&self, l: usize, bundle: &[f64]) -> f64 {
        dot(self.rates(l), bundle)
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Duals of a stage: prices, and who holds back for whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Duals {
    /// Per resource.
    pub(super) prices: Vec<f64>,
    /// `(l, i, y)`: the row "l does not envy i".
    pub(super) envy: Vec<(u32, u32, f64)>,
    /// `(l, y)`: the row "l has its floor".
    pub(super) floor: Vec<(u32, f64)>,
}

/// Users who hold the same bundle, and that bundle.
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
