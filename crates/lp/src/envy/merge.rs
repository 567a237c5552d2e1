//! Users with the same rates and the same cap per weight are one user with the sum of their weights. This is exact:
//! none of them may envy another, so all are worth the same to each other, and giving each the average of their
//! bundles (per weight) changes no utility and breaks no row.

use super::EnvyFree;
use std::collections::HashMap;

/// A question over distinct users.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub(super) w: Vec<f64>,
    pub(super) weight: Vec<f64>,
    pub(super) caps: Vec<f64>,
    pub(super) capacity: Vec<f64>,
    /// The merged user of every user.
    pub(super) of: Vec<u32>,
    /// The first user of every merged user.
    pub(super) first: Vec<u32>,
}

impl Merged {
    pub(super) fn new(asked: &EnvyFree<'_>) -> Self {
        let (n, k) = (asked.weight.len(), asked.capacity.len());
        let total: f64 = asked.capacity.iter().sum();
        let mut merged = Self {
            w: Vec::new(),
            weight: Vec::new(),
            caps: Vec::new(),
            capacity: asked.capacity.to_vec(),
            of: Vec::with_capacity(n),
            first: Vec::new(),
        };
        // Per hash, the last merged user that has it; `before` chains the others.
        let mut last: HashMap<u64, u32> = HashMap::new();
        let mut before: Vec<u32> = Vec::new();
        let mut limits: Vec<f64> = Vec::new();
        for l in 0..n {
            let rates = &asked.w[l * k..][..k];
            // A cap that holds everything there is caps nothing.
            let cap = if asked.caps[l] >= total { f64::INFINITY } else { asked.caps[l] };
            let limit = cap / asked.weight[l];
            let hash = hash(rates, limit);
            let mut at = last.get(&hash).copied().unwrap_or(u32::MAX);
            while at != u32::MAX && !(merged.w[at as usize * k..][..k] == *rates && limits[at as usize] == limit) {
                at = before[at as usize];
            }
            if at == u32::MAX {
                at = merged.weight.len() as u32;
                before.push(last.insert(hash, at).unwrap_or(u32::MAX));
                merged.w.extend_from_slice(rates);
                merged.weight.push(0.0);
                merged.caps.push(0.0);
                merged.first.push(l as u32);
                limits.push(limit);
            }
            merged.weight[at as usize] += asked.weight[l];
            merged.caps[at as usize] += cap;
            merged.of.push(at);
        }
        merged
    }

    pub(super) fn question(&self) -> EnvyFree<'_> {
        EnvyFree { w: &self.w, weight: &self.weight, caps: &self.caps, capacity: &self.capacity }
    }
}

fn hash(rates: &[f64], limit: f64) -> u64 {
    let mut h = limit.to_bits();
    for rate in rates {
        h = (h ^ rate.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        h ^= h >> 29;
    }
    h
}
