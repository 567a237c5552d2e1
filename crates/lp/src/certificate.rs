//! How good a solution is, established without the solver's word.
//!
//! A [`Certificate`] is a proven interval around an optimum. Every structured solver of this crate returns one, computed
//! from the problem as given by code that shares nothing with the solver: any point and any duals may be put in, and the
//! interval holds for them.
//!
//! [`Residuals`] are the errors of a general solver's point as a solution of its [`Model`]: [`check`] computes them from
//! `x`, `row_duals` and `reduced_costs` alone; the objective and the status are the solver's claims. For minimisation (a
//! maximisation has its signs turned), weak duality says that for any duals with `c = Aᵀy + z`
//!
//! ```text
//! c·x ≥ Σ_i max(y_i, 0) lower_i − max(−y_i, 0) upper_i   + the same over columns with z
//! ```
//!
//! so a feasible `x` whose objective meets the right-hand side is optimal. A dual that leans on an infinite bound
//! has no finite right-hand side; its size is dual infeasibility instead.

use crate::{Model, Outcome, Sense, Status};
use serde::{Deserialize, Serialize};

/// Two numbers with the optimum between them. One is attained by the solution that comes with it (`lower` where the
/// objective is maximised, `upper` where it is minimised), the other is proved by its duals.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Certificate {
    /// The optimum is not below this.
    pub lower: f64,
    /// The optimum is not above this.
    pub upper: f64,
}

impl Certificate {
    /// Nothing is proved.
    pub const NONE: Self = Self { lower: f64::NEG_INFINITY, upper: f64::INFINITY };

    /// What was attained, and what was proved; a bound that came out as NaN proves nothing.
    pub(crate) fn of_maximum(attained: f64, proved: f64) -> Self {
        Self { lower: attained, upper: if proved.is_finite() { proved } else { f64::INFINITY } }
    }

    /// What two certificates of one optimum prove together.
    #[must_use]
    pub fn tightened(self, other: Self) -> Self {
        let lower = self.lower.max(other.lower);
        Self { lower, upper: self.upper.min(other.upper).max(lower) }
    }

    /// The relative distance of the two; infinite if nothing is proved.
    #[must_use]
    pub fn gap(&self) -> f64 {
        let size = self.upper.abs().max(self.lower.abs()).max(f64::MIN_POSITIVE);
        finite_or_infinite((self.upper - self.lower) / size)
    }

    /// The absolute distance of the two; infinite if nothing is proved. For a mean logarithm this is the relative
    /// distance of what it is the logarithm of.
    #[must_use]
    pub fn width(&self) -> f64 {
        finite_or_infinite(self.upper - self.lower)
    }
}

fn finite_or_infinite(distance: f64) -> f64 {
    if distance.is_finite() { distance.max(0.0) } else { f64::INFINITY }
}

/// A share, price or dual that may be used in a proof: 0 unless it is positive and finite.
#[inline]
pub(crate) fn usable(value: f64) -> f64 {
    if value > 0.0 && value.is_finite() { value } else { 0.0 }
}

/// The factor that brings `used` down to `limit`.
#[inline]
pub(crate) fn fit(used: f64, limit: f64) -> f64 {
    if used > limit { limit / used } else { 1.0 }
}

/// How far a point is from being feasible and provably optimal. All three are relative; zero is perfect.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Residuals {
    /// The worst violation of a row or a bound, over one plus the size of that bound.
    pub primal_infeasibility: f64,
    /// The worst violation of `c = Aᵀy + z` or of a dual's sign, over one plus the size of the objective's coefficient.
    pub dual_infeasibility: f64,
    /// Distance between the primal and the dual objective, over one plus the size of the primal one.
    pub gap: f64,
}

impl Residuals {
    /// Of a point that does not even claim to be a solution.
    const NONE: Self =
        Self { primal_infeasibility: f64::INFINITY, dual_infeasibility: f64::INFINITY, gap: f64::INFINITY };

    /// Is the point optimal and feasible to this relative tolerance? Never true of NaN.
    #[must_use]
    pub fn is_good(&self, tolerance: f64) -> bool {
        [self.primal_infeasibility, self.dual_infeasibility, self.gap].iter().all(|&error| error <= tolerance)
    }
}

/// The residuals of `outcome` as a solution of `model`. A point of the wrong shape, or one that claims infeasibility or
/// unboundedness, has infinite residuals.
#[must_use]
pub fn check(model: &Model, outcome: &Outcome) -> Residuals {
    let columns = model.columns();
    let shaped = outcome.x.len() == columns.len()
        && outcome.reduced_costs.len() == columns.len()
        && outcome.row_duals.len() == model.rows().len();
    if !shaped || matches!(outcome.status, Status::Infeasible | Status::Unbounded) {
        return Residuals::NONE;
    }
    let sign = match model.sense() {
        Sense::Minimise => 1.0,
        Sense::Maximise => -1.0,
    };
    let mut worst = Worst::default();
    let mut stationarity: Vec<f64> = columns.iter().map(|column| column.objective).collect();
    for (row, &dual) in model.rows().zip(&outcome.row_duals) {
        worst.value(row.value(&outcome.x), row.lower, row.upper);
        worst.dual(sign * dual, row.lower, row.upper, 0.0);
        for &(column, a) in row.terms {
            stationarity[column.index()] -= a * dual;
        }
    }
    for (j, column) in columns.iter().enumerate() {
        let reduced = outcome.reduced_costs[j];
        worst.value(outcome.x[j], column.lower, column.upper);
        worst.dual(sign * reduced, column.lower, column.upper, column.objective);
        worst.stationary(stationarity[j] - reduced, column.objective);
    }
    let primal = sign * model.objective(&outcome.x);
    Residuals {
        primal_infeasibility: worst.primal,
        dual_infeasibility: worst.dual,
        gap: (primal - worst.dual_objective).abs() / (1.0 + primal.abs()),
    }
}

/// Worst errors so far, and the dual objective.
#[derive(Default)]
struct Worst {
    primal: f64,
    dual: f64,
    dual_objective: f64,
}

impl Worst {
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
