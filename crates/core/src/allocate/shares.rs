//! A problem as a program sees it, and the program's answer as grants.
//!
//! Programs over shares know users l with speed-ups w_lj, weights π_l and caps d_l, and answer with x_lj, GPUs of kind j
//! that l holds. Users who can use nothing that is there are left out: no program needs to hear of them.

use super::{Entitlement, Grant, Problem, program};

/// The users that take part, row by row.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Shares {
    /// Index of each in the problem.
    pub(super) users: Vec<usize>,
    /// Speed-ups, users × kinds.
    pub(super) w: Vec<f64>,
    /// Entitlements.
    pub(super) weight: Vec<f64>,
    /// Most GPUs that each can hold.
    pub(super) caps: Vec<f64>,
}

impl Shares {
    pub(super) fn new(problem: &Problem, entitlement: Entitlement) -> Self {
        let mut shares = Self::default();
        let (w, weights, k) = (problem.speedups(), entitlement.weights(problem), problem.kinds());
        for (u, user) in problem.users.iter().enumerate() {
            let row = &w[u * k..(u + 1) * k];
            if user.jobs > 0 && row.iter().any(|&w| w > 0.0) {
                shares.users.push(u);
                shares.w.extend_from_slice(row);
                shares.weight.push(weights[u]);
                shares.caps.push(problem.most_gpus(u));
            }
        }
        shares
    }

    /// Takes kinds from users that do less than `part` of their best there, and counts speed-ups from the slowest that is
    /// left.
    pub(super) fn drop_slower_than(&mut self, part: f64) {
        let k = self.w.len() / self.users.len().max(1);
        for row in self.w.chunks_exact_mut(k.max(1)) {
            let best = row.iter().copied().fold(0.0, f64::max);
            if row.iter().all(|&w| w == 0.0 || w >= part * best) {
                continue;
            }
            row.iter_mut().filter(|w| **w < part * best).for_each(|w| *w = 0.0);
            let slowest = row.iter().copied().filter(|&w| w > 0.0).fold(f64::INFINITY, f64::min);
            row.iter_mut().for_each(|w| *w /= slowest);
        }
    }

    /// Whether nobody holds more than it can, but for rounding.
    pub(super) fn within_caps(&self, x: &[f64]) -> bool {
        let k = self.w.len() / self.caps.len().max(1);
        let held = x.chunks_exact(k.max(1)).map(|row| row.iter().sum::<f64>());
        held.zip(&self.caps).all(|(held, cap)| held <= cap * (1.0 + 1e-9))
    }

    /// The grants that give everybody its row of x.
    pub(super) fn grants(&self, problem: &Problem, x: &[f64]) -> Vec<Grant> {
        program::grants(problem, &self.users, x)
    }
}
