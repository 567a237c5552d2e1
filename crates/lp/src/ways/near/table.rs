//! Units of everybody, resource by resource, so that what all of them are worth to somebody is a few long sums.

/// `n` numbers for each resource.
#[derive(Clone, Debug)]
pub(super) struct Table {
    n: usize,
    by_resource: Vec<f64>,
}

impl Table {
    /// Of rows by user, each times its user's factor.
    pub(super) fn new(rows: &[f64], k: usize, factor: impl Fn(usize) -> f64) -> Self {
        let n = rows.len() / k.max(1);
        let mut table = Self { n, by_resource: vec![0.0; rows.len()] };
        rows.chunks_exact(k.max(1)).enumerate().for_each(|(i, row)| table.set(i, row, factor(i)));
        table
    }

    /// Changes a user's row.
    pub(super) fn set(&mut self, i: usize, row: &[f64], factor: f64) {
        row.iter().enumerate().for_each(|(j, x)| self.by_resource[j * self.n + i] = factor * x);
    }

    /// `Σ_j a_j t_ji` of every user `i`.
    pub(super) fn worth(&self, a: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (a, row) in a.iter().zip(self.by_resource.chunks_exact(self.n)).filter(|(a, _)| **a != 0.0) {
            out.iter_mut().zip(row).for_each(|(out, t)| *out += a * t);
        }
    }
}
