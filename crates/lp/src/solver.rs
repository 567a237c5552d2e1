//! The interface of a general solver: budget, status and outcome.

use crate::Model;

/// How much work a solver may spend, in its own iterations: never seconds, so that the same problem has the same
/// solution on a slow machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Iterations after which the solver stops and returns its last point.
    pub iterations: u32,
}

impl Budget {
    /// Exactly this many iterations.
    #[must_use]
    pub const fn iterations(iterations: u32) -> Self {
        Self { iterations }
    }
}

impl Default for Budget {
    /// Two hundred: an interior point that needs more is not going to arrive.
    fn default() -> Self {
        Self::iterations(200)
    }
}

/// How a solve ended. Every variant is an expected outcome; none is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The solver believes that its point is optimal. Ask [`crate::certificate::check`] whether it is.
    Optimal,
    /// No point satisfies all rows and bounds.
    Infeasible,
    /// The objective improves without end.
    Unbounded,
    /// The iterations ran out; the point is the last one seen.
    BudgetSpent,
    /// Numerical trouble; the point is the last one seen.
    Trouble,
}

/// A solver's result. Duals follow one sign rule for both senses: with objective `c`, rows `A`, row duals `y`
/// and reduced costs `z`, the identity `c = Aᵀy + z` holds, so `y[i]` is the change of the optimal objective per
/// unit of row `i`'s active bound.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// One value per column.
    pub x: Vec<f64>,
    /// One value per row.
    pub row_duals: Vec<f64>,
    /// One value per column.
    pub reduced_costs: Vec<f64>,
    /// The objective at `x`, in the model's own sense.
    pub objective: f64,
    /// Iterations spent.
    pub iterations: u32,
}

/// Something that solves linear programs.
pub trait Solver {
    /// Solves `model` within `budget`, deterministically.
    fn solve(&self, model: &Model, budget: Budget) -> Outcome;
}
