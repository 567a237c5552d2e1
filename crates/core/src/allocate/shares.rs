//! A problem as a program sees it, and the program's answer as grants.
//!
//! Programs over shares know users l with speed-ups w_lj, weights π_l and caps d_l, and answer with x_lj, GPUs of kind j
//! that l holds. Users who can use nothing that is there are left out: no program needs to hear of them.

use super::{Entitlement, Grant, Members, Problem};
use crate::KindId;

/// The users that take part, row by row.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Shares {
    /// Index of each in the problem.
    pub(super) users: Vec<u32>,
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
                shares.users.push(u as u32);
                shares.w.extend_from_slice(row);
                shares.weight.push(weights[u]);
                shares.caps.push(problem.most_gpus(u));
            }
        }
        shares
    }

    /// Whether nobody holds more than it can, but for rounding.
    pub(super) fn within_caps(&self, x: &[f64]) -> bool {
        let k = self.w.len() / self.caps.len().max(1);
        let held = x.chunks_exact(k.max(1)).map(|row| row.iter().sum::<f64>());
        held.zip(&self.caps).all(|(held, cap)| held <= cap * (1.0 + 1e-9))
    }

    /// The grants that give everybody its row of x.
    pub(super) fn grants(&self, problem: &Problem, x: &[f64]) -> Vec<Grant> {
        let mut grants = Vec::with_capacity(2 * self.users.len());
        for (&u, row) in self.users.iter().zip(x.chunks_exact(problem.kinds().max(1))) {
            let gang = f64::from(problem.users[u as usize].gang);
            let held = row.iter().enumerate().filter(|&(_, &gpus)| gpus > 0.0);
            grants.extend(held.map(|(j, gpus)| Grant {
                kind: KindId(j as u16),
                members: Members::One(u),
                gangs: gpus / gang,
            }));
        }
        grants
    }
}
