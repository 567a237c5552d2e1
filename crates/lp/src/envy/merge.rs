//! Presolve: users with the same rates become one user with the sum of their weights, and resources without capacity
//! or without a user are dropped.
//!
//! Merging is exact: none of the merged users may envy another, so they value their bundles (per weight) equally, and
//! giving each of them the average bundle changes no utility and violates no row.

use super::EnvyFree;
use crate::distinct::DistinctRows;

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
        let mut table = DistinctRows::default();
        table.reset(n);
        let mut rates = vec![0.0; k];
        for l in 0..n {
            let all = &problem.w[l * problem.capacity.len()..];
            rates.iter_mut().zip(&merged.kept).for_each(|(rate, &j)| *rate = all[j]);
            let (at, new) = table.insert(&mut merged.w, &rates);
            if new {
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

/// Resources with capacity and a user.
fn kept(problem: &EnvyFree<'_>) -> Vec<usize> {
    let resources = problem.capacity.len();
    let wanted = |j: usize| problem.w.iter().skip(j).step_by(resources).any(|&w| w > 0.0);
    (0..resources).filter(|&j| problem.capacity[j] > 0.0 && wanted(j)).collect()
}
