//! Matrix completion, Gavel's way: a few profiled pairs are a fingerprint, and low rank fills in the rest.
//!
//! Rows are workloads, columns (role, kind, partner); an entry is ln of the relative rate. With column means b_c,
//!
//! ```text
//! entry(x, c) = b_c + u_x·v_c,      u, v of rank 3, the first entry of v fixed at 1 (a row's own level)
//! ```
//!
//! fitted by alternating ridge regressions over what was measured. A newcomer's u is the ridge fit to its own measured pairs; with
//! none it is 0, which is the partner's mean. Features play no part. Rates alone are completed at rank 0: the mean profile,
//! shifted (see [`mean`]).

use crate::evidence::{CellIndex, Evidence};
use crate::mean;
use crate::method::{Method, MethodEstimator, Prediction};
use crate::residual::{self, Role, UNKNOWN_RELATIVE_RATE};
use crate::table::{EstimatorError, Setting};
use arles_core::estimate::Estimator;
use std::sync::Arc;

/// Factors of a row: its level and RANK more.
const RANK: usize = 3;
const WIDTH: usize = RANK + 1;
/// Ridge of every regression, in squared ln.
const RIDGE: f64 = 0.3;
const ROUNDS: usize = 12;
const STANDARD_ERROR: f64 = 0.25;

type Factors = [f64; WIDTH];

/// Makes the estimator for a setting.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    let evidence = Evidence::new(setting);
    let method = Completion::new(&evidence, setting.seed);
    Ok(Box::new(MethodEstimator::new(evidence, method)))
}

#[derive(Clone)]
struct Completion {
    /// (b_c, v_c) by (partner, role, kind); NaN where nobody was measured when it was made.
    columns: Arc<Vec<(f64, Factors)>>,
    /// u by workload.
    rows: Vec<Factors>,
}

impl Completion {
    fn new(evidence: &Evidence, seed: u64) -> Self {
        let (n, kinds) = (evidence.workloads().len(), evidence.kinds().len());
        let mut random = crate::rng::Rng::new(seed, "completion");
        let mut columns = vec![UNSEEN; 2 * kinds * n];
        let places = BOTH.iter().flat_map(|&role| (0..kinds).flat_map(move |a| (0..n).map(move |j| (role, a, j))));
        for (role, a, j) in places.clone() {
            let mean = residual::moments(residual::of_partner(evidence, role, j, a).map(|(_, ln)| ln));
            let v = std::array::from_fn(|f| if f == 0 { 1.0 } else { random.uniform() - 0.5 });
            columns[column(kinds, role, a, j)] = (mean.map_or(f64::NAN, |(mean, _)| mean), v);
        }
        let mut rows = vec![[0.0; WIDTH]; n];
        for _ in 0..ROUNDS {
            for (x, row) in rows.iter_mut().enumerate() {
                *row = fit_row(evidence, &columns, x);
            }
            for (role, a, j) in places.clone() {
                let c = column(kinds, role, a, j);
                let b = columns[c].0;
                let known = residual::of_partner(evidence, role, j, a).filter_map(|(k, ln)| {
                    let rest = ln - b - rows[k][0];
                    let mut u = rows[k];
                    u[0] = 0.0;
                    rest.is_finite().then_some((u, rest))
                });
                let mut v = ridge(known);
                v[0] = 1.0;
                columns[c].1 = v;
            }
        }
        Self { columns: Arc::new(columns), rows }
    }
}

const BOTH: [Role; 2] = [Role::Own, Role::Partner];
/// A column in which nobody was measured.
const UNSEEN: (f64, Factors) = (f64::NAN, [1.0, 0.0, 0.0, 0.0]);

/// Where a column is. Partners come first, so that there can be more of them later.
fn column(kinds: usize, role: Role, kind: usize, partner: usize) -> usize {
    (partner * 2 + role.index()) * kinds + kind
}

fn fit_row(evidence: &Evidence, columns: &[(f64, Factors)], workload: usize) -> Factors {
    let kinds = evidence.kinds().len();
    if evidence.measured_pairs(workload) == 0 {
        return [0.0; WIDTH];
    }
    let places = BOTH.iter().flat_map(|&role| (0..kinds).map(move |a| (role, a)));
    ridge(places.flat_map(|(role, a)| {
        residual::of_newcomer(evidence, role, workload, a).filter_map(move |(j, ln)| {
            let (b, v) = columns[column(kinds, role, a, j)];
            let rest = ln - b;
            rest.is_finite().then_some((v, rest))
        })
    }))
}

/// The ridge regression of y on x.
fn ridge(known: impl Iterator<Item = (Factors, f64)>) -> Factors {
    let mut left = [[0.0; WIDTH]; WIDTH];
    let mut right = [0.0; WIDTH];
    for (f, row) in left.iter_mut().enumerate() {
        row[f] = RIDGE;
    }
    for (x, y) in known {
        for f in 0..WIDTH {
            right[f] += x[f] * y;
            for g in 0..WIDTH {
                left[f][g] += x[f] * x[g];
            }
        }
    }
    // Positive definite by its ridge, so no pivoting.
    for f in 0..WIDTH {
        for g in f + 1..WIDTH {
            let factor = left[g][f] / left[f][f];
            for h in f..WIDTH {
                left[g][h] -= factor * left[f][h];
            }
            right[g] -= factor * right[f];
        }
    }
    for f in (0..WIDTH).rev() {
        let rest: f64 = (f + 1..WIDTH).map(|g| left[f][g] * right[g]).sum();
        right[f] = (right[f] - rest) / left[f][f];
    }
    right
}

impl Method for Completion {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        mean::alone(evidence, workload, kind)
    }

    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction {
        let (role, newcomer, partner) = residual::roles(evidence, workload, other);
        let (b, v) = self.columns[column(evidence.kinds().len(), role, kind, partner)];
        let inner: f64 = self.rows[newcomer].iter().zip(&v).map(|(u, v)| u * v).sum();
        let ln = if b.is_finite() { b + inner } else { UNKNOWN_RELATIVE_RATE.ln() };
        Prediction::new(ln, STANDARD_ERROR, evidence.measured_pairs(newcomer) > 0)
    }

    fn learn(&mut self, evidence: &Evidence, seen: &CellIndex) {
        for workload in std::iter::once(seen.workload).chain(seen.partner) {
            self.rows[workload] = fit_row(evidence, &self.columns, workload);
        }
    }

    fn add_kind(&mut self, evidence: &Evidence, _: bool) {
        let (n, kinds) = (evidence.workloads().len(), evidence.kinds().len());
        let mut wider = vec![UNSEEN; 2 * kinds * n];
        for (at, known) in self.columns.iter().enumerate() {
            wider[at / (kinds - 1) * kinds + at % (kinds - 1)] = *known;
        }
        self.columns = Arc::new(wider);
    }

    fn add_workload(&mut self, evidence: &Evidence, workload: usize, new: bool) {
        if new {
            let columns = Arc::make_mut(&mut self.columns);
            columns.extend(std::iter::repeat_n(UNSEEN, 2 * evidence.kinds().len()));
            self.rows.push(fit_row(evidence, columns, workload));
        }
    }
}
