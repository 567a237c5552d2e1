//! Presolve: users with the same rates become one user with the sum of their weights, and resources without capacity
//! or without a user are dropped.
//!
//! Merging is exact: none of the merged users may envy another, so they value their bundles (per weight) equally, and
//! giving each of them the average bundle changes no utility and violates no row.

use super::EnvyFree;

/// A problem over distinct users.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub(super) w: Vec<f64>,
    pub(super) weight: Vec<f64>,
    pub(super) capacity: Vec<f64>,
    /// The resources that are left.
    pub(super) kept: Vec<usize>,
    /// The merged user of every user.
    pub(super) of: Vec<u32>,
    /// The first of the users behind every merged user.
    pub(super) first: Vec<u32>,
}

impl Merged {
    pub(super) fn new(problem: &EnvyFree<'_>) -> Self {
        let n = problem.weight.len();
        let kept = kept(problem);
        let k = kept.len();
        let capacity: Vec<f64> = kept.iter().map(|&j| problem.capacity[j]).collect();
        let mut merged =
            Self { w: Vec::new(), weight: Vec::new(), capacity, kept, of: Vec::with_capacity(n), first: Vec::new() };
        let mut table = Table::new(n);
        let mut rates = vec![0.0; k];
        for l in 0..n {
            let all = &problem.w[l * problem.capacity.len()..];
            rates.iter_mut().zip(&merged.kept).for_each(|(rate, &j)| *rate = all[j]);
            let same = |at: u32| merged.w[at as usize * k..][..k] == rates;
            let slot = table.find(hash(&rates), same);
            let mut at = table.slots[slot];
            if at == NOBODY {
                at = merged.weight.len() as u32;
                table.slots[slot] = at;
                merged.w.extend_from_slice(&rates);
                merged.weight.push(0.0);
                merged.first.push(l as u32);
            }
            merged.weight[at as usize] += problem.weight[l];
            merged.of.push(at);
        }
        merged
    }

    pub(super) fn problem(&self) -> EnvyFree<'_> {
        EnvyFree { w: &self.w, weight: &self.weight, capacity: &self.capacity }
    }

    /// Rows over all resources, restricted to those that are left.
    pub(super) fn compress(&self, rows: &[f64], resources: usize) -> Vec<f64> {
        rows.chunks_exact(resources).flat_map(|row| self.kept.iter().map(|&j| row[j])).collect()
    }

    /// The reverse: 0 for resources that were dropped.
    pub(super) fn expand(&self, rows: &[f64], resources: usize) -> Vec<f64> {
        let mut expanded = vec![0.0; rows.len() / self.kept.len() * resources];
        for (row, to) in rows.chunks_exact(self.kept.len()).zip(expanded.chunks_exact_mut(resources)) {
            self.kept.iter().zip(row).for_each(|(&j, &value)| to[j] = value);
        }
        expanded
    }
}

const NOBODY: u32 = u32::MAX;

/// An open-addressing hash table of merged users, with linear probing.
struct Table {
    slots: Vec<u32>,
}

impl Table {
    /// For up to `n` users; half of the slots stay free.
    fn new(n: usize) -> Self {
        Self { slots: vec![NOBODY; (2 * n).next_power_of_two()] }
    }

    /// The slot of an equal user, or the free slot for a new one.
    fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != NOBODY && !same(self.slots[slot]) {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

/// Resources with capacity and a user.
fn kept(problem: &EnvyFree<'_>) -> Vec<usize> {
    let resources = problem.capacity.len();
    let wanted = |j: usize| problem.w.iter().skip(j).step_by(resources).any(|&w| w > 0.0);
    (0..resources).filter(|&j| problem.capacity[j] > 0.0 && wanted(j)).collect()
}

fn hash(rates: &[f64]) -> u64 {
    let mut h = 0u64;
    for rate in rates {
        h = (h ^ rate.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        h ^= h >> 29;
    }
    h
}
