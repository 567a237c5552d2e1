//! Judges a solver's answer from the model alone. Shares no code with any solver, and believes nothing but `x`,
//! `row_duals` and `reduced_costs`: the objective and the status are the solver's claims.
//!
//! In the sense of minimisation (a maximisation is judged with signs turned), weak duality says that for any
//! duals with `c = Aᵀy + z`
//!
//! ```text
//! c·x ≥ Σ_i max(y_i, 0) lower_i − max(−y_i, 0) upper_i   + the same over columns with z
//! ```
//!
//! so a feasible `x` whose objective meets the right-hand side is optimal. A dual that leans on an infinite bound
//! has no finite right-hand side; its size is dual infeasibility instead.

use crate::{Model, Outcome, Sense, Status};

/// How far an answer is from being provably optimal. All three are relative; zero is perfect.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Certificate {
    /// The worst violation of a row or a bound, over one plus the size of that bound.
    pub primal_infeasibility: f64,
    /// The worst violation of `c = Aᵀy + z` or of a dual's sign, over one plus the size of the objective's coefficient.
    pub dual_infeasibility: f64,
    /// Distance between the primal and the dual objective, over one plus the size of the primal one.
    pub gap: f64,
}

impl Certificate {
    /// The certificate of an answer that does not even claim to be a solution.
    const NONE: Self =
        Self { primal_infeasibility: f64::INFINITY, dual_infeasibility: f64::INFINITY, gap: f64::INFINITY };

    /// Is the answer optimal and feasible to this relative tolerance? Never true of NaN.
    #[must_use]
    pub fn is_good(&self, tolerance: f64) -> bool {
        [self.primal_infeasibility, self.dual_infeasibility, self.gap].iter().all(|&error| error <= tolerance)
    }
}

/// Judges `outcome` as an answer to `model`. An answer of the wrong shape, or one that claims infeasibility or
/// unboundedness, proves nothing here and gets infinite errors.
#[must_use]
pub fn check(model: &Model, outcome: &Outcome) -> Certificate {
    let columns = model.columns();
    let shaped = outcome.x.len() == columns.len()
        && outcome.reduced_costs.len() == columns.len()
        && outcome.row_duals.len() == model.rows().len();
    if !shaped || matches!(outcome.status, Status::Infeasible | Status::Unbounded) {
        return Certificate::NONE;
    }
    let sign = match model.sense() {
        Sense::Minimise => 1.0,
        Sense::Maximise => -1.0,
    };
    let mut tally = Tally::default();
    let mut stationarity: Vec<f64> = columns.iter().map(|column| column.objective).collect();
    for (row, &dual) in model.rows().zip(&outcome.row_duals) {
        tally.value(row.value(&outcome.x), row.lower, row.upper);
        tally.dual(sign * dual, row.lower, row.upper, 0.0);
        for &(column, a) in row.terms {
            stationarity[column.index()] -= a * dual;
        }
    }
    for (j, column) in columns.iter().enumerate() {
        let reduced = outcome.reduced_costs[j];
        tally.value(outcome.x[j], column.lower, column.upper);
        tally.dual(sign * reduced, column.lower, column.upper, column.objective);
        tally.stationary(stationarity[j] - reduced, column.objective);
    }
    let primal = sign * model.objective(&outcome.x);
    Certificate {
        primal_infeasibility: tally.primal,
        dual_infeasibility: tally.dual,
        gap: (primal - tally.dual_objective).abs() / (1.0 + primal.abs()),
    }
}

/// Worst errors so far, and the dual objective.
#[derive(Default)]
struct Tally {
    primal: f64,
    dual: f64,
    dual_objective: f64,
}

impl Tally {
    fn value(&mut self, value: f64, lower: f64, upper: f64) {
        if lower.is_finite() {
            raise(&mut self.primal, (lower - value) / (1.0 + lower.abs()));
        }
        if upper.is_finite() {
            raise(&mut self.primal, (value - upper) / (1.0 + upper.abs()));
        }
        if !value.is_finite() {
            self.primal = f64::INFINITY;
        }
    }

    fn dual(&mut self, dual: f64, lower: f64, upper: f64, objective: f64) {
        let bound = if dual > 0.0 { lower } else { upper };
        if bound.is_finite() {
            self.dual_objective += dual * bound;
        } else {
            raise(&mut self.dual, dual.abs() / (1.0 + objective.abs()));
        }
    }

    fn stationary(&mut self, residual: f64, objective: f64) {
        raise(&mut self.dual, residual.abs() / (1.0 + objective.abs()));
    }
}

/// Keeps the worse error; NaN is the worst.
fn raise(worst: &mut f64, error: f64) {
    *worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
}
