//! Users with the same rates and the same cap per weight are one user with the sum of their weights. This is exact:
//! none of them may envy another, so all are worth the same to each other, and giving each the average of their
//! bundles (per weight) changes no utility and breaks no row.
//!
//! Resources that there is nothing of, or that nobody has a use for, are left out: every solver would have to know that
//! its bundles hold none of them, and shares of nothing cannot be measured.

use super::EnvyFree;

/// A question over distinct users.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub(super) w: Vec<f64>,
    pub(super) weight: Vec<f64>,
    pub(super) caps: Vec<f64>,
    pub(super) capacity: Vec<f64>,
    /// The resources that are in it.
    pub(super) kept: Vec<usize>,
    /// The merged user of every user.
    pub(super) of: Vec<u32>,
    /// The first user of every merged user.
    pub(super) first: Vec<u32>,
}

impl Merged {
    pub(super) fn new(asked: &EnvyFree<'_>) -> Self {
        let n = asked.weight.len();
        let kept = kept(asked);
        let k = kept.len();
        let capacity: Vec<f64> = kept.iter().map(|&j| asked.capacity[j]).collect();
        let total: f64 = capacity.iter().sum();
        let mut merged = Self {
            w: Vec::new(),
            weight: Vec::new(),
            caps: Vec::new(),
            capacity,
            kept,
            of: Vec::with_capacity(n),
            first: Vec::new(),
        };
        let mut table = Table::new(n);
        let mut limits: Vec<f64> = Vec::new();
        let mut rates = vec![0.0; k];
        for l in 0..n {
            let all = &asked.w[l * asked.capacity.len()..];
            rates.iter_mut().zip(&merged.kept).for_each(|(rate, &j)| *rate = all[j]);
            // A cap that holds everything there is caps nothing.
            let cap = if asked.caps[l] >= total { f64::INFINITY } else { asked.caps[l] };
            let limit = cap / asked.weight[l];
            let same = |at: u32| {
                let at = at as usize;
                limits[at] == limit && merged.w[at * k..][..k] == rates
            };
            let slot = table.find(hash(&rates, limit), same);
            let mut at = table.slots[slot];
            if at == NOBODY {
                at = merged.weight.len() as u32;
                table.slots[slot] = at;
                merged.w.extend_from_slice(&rates);
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

    /// Rows over all resources, without those that are left out.
    pub(super) fn compress(&self, rows: &[f64], resources: usize) -> Vec<f64> {
        rows.chunks_exact(resources).flat_map(|row| self.kept.iter().map(|&j| row[j])).collect()
    }

    /// The reverse: 0 for what was left out.
    pub(super) fn expand(&self, rows: &[f64], resources: usize) -> Vec<f64> {
        let mut expanded = vec![0.0; rows.len() / self.kept.len() * resources];
        for (row, to) in rows.chunks_exact(self.kept.len()).zip(expanded.chunks_exact_mut(resources)) {
            self.kept.iter().zip(row).for_each(|(&j, &value)| to[j] = value);
        }
        expanded
    }
}

const NOBODY: u32 = u32::MAX;

/// Merged users by hash: where one's slot is taken by another, it is in the next that is free.
struct Table {
    slots: Vec<u32>,
}

impl Table {
    /// For up to `n` users; half of the slots stay free.
    fn new(n: usize) -> Self {
        Self { slots: vec![NOBODY; (2 * n).next_power_of_two()] }
    }

    /// The slot of the user that is the same, or the free one where it belongs.
    fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != NOBODY && !same(self.slots[slot]) {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

/// Resources that there is something of and that somebody has a use for.
fn kept(asked: &EnvyFree<'_>) -> Vec<usize> {
    let resources = asked.capacity.len();
    let wanted = |j: usize| asked.w.iter().skip(j).step_by(resources).any(|&w| w > 0.0);
    (0..resources).filter(|&j| asked.capacity[j] > 0.0 && wanted(j)).collect()
}

fn hash(rates: &[f64], limit: f64) -> u64 {
    let mut h = limit.to_bits();
    for rate in rates {
        h = (h ^ rate.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        h ^= h >> 29;
    }
    h
}
