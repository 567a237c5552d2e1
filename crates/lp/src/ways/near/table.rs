//! Numbers of everybody, resource by resource, so that what all of them see in somebody's units is a few long sums.

/// `n` numbers for each resource.
#[derive(Clone, Debug)]
pub(super) struct Table {
    n: usize,
    by_resource: Vec<f64>,
}

impl Table {
    /// Of rows by user.
    pub(super) fn new(rows: &[f64], k: usize) -> Self {
        let n = rows.len() / k.max(1);
        let mut by_resource = vec![0.0; rows.len()];
        for (i, row) in rows.chunks_exact(k.max(1)).enumerate() {
            row.iter().enumerate().for_each(|(j, x)| by_resource[j * n + i] = *x);
        }
        Self { n, by_resource }
    }

    /// `factor Σ_j a_j t_ji` of every user `i`.
    pub(super) fn worth(&self, a: &[f64], factor: f64, out: &mut [f64]) {
        let mut first = true;
        for (a, row) in a.iter().zip(self.by_resource.chunks_exact(self.n)).filter(|(a, _)| **a != 0.0) {
            let a = a * factor;
            let all = out.iter_mut().zip(row);
            if first {
                all.for_each(|(out, t)| *out = a * t);
            } else {
                all.for_each(|(out, t)| *out += a * t);
            }
            first = false;
        }
        if first {
            out.fill(0.0);
        }
    }
}
