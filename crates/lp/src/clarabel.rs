//! The general solver: Clarabel's interior point behind [`Solver`].
//!
//! Clarabel solves `minimise q·x subject to F x + s = b, s in a cone`. Every finite bound of the model becomes one conic
//! row of `F`: equalities first (the zero cone), then the inequalities `a·x ≤ upper` and `−a·x ≤ −lower` (the non-negative
//! cone). The dual `v` of a conic row satisfies `q + Fᵀv = 0` with `v ≥ 0` on inequalities, so the dual of the model's row
//! behind it is `−v` from an upper bound and `+v` from a lower one.

use crate::{Budget, ColumnId, Model, Outcome, Sense, Solver, Status};
use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};

/// Clarabel, quiet and deterministic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clarabel;

impl Solver for Clarabel {
    fn solve(&self, model: &Model, budget: Budget) -> Outcome {
        if let Some(status) = obvious(model) {
            return blank(model, status, 0);
        }
        let sign = match model.sense() {
            Sense::Minimise => 1.0,
            Sense::Maximise => -1.0,
        };
        let conic = ConicRows::of(model);
        let q: Vec<f64> = model.columns().iter().map(|column| sign * column.objective).collect();
        let matrix = conic.matrix(model);
        let settings = DefaultSettings {
            max_iter: budget.iterations,
            verbose: false,
            presolve_enable: false,
            max_threads: 1,
            direct_solve_method: "qdldl".into(),
            ..DefaultSettings::default()
        };
        let quadratic = CscMatrix::zeros((q.len(), q.len()));
        let Ok(mut solver) = DefaultSolver::new(&quadratic, &q, &matrix, &conic.rights, &conic.cones(), settings)
        else {
            return blank(model, Status::Trouble, 0);
        };
        solver.solve();
        let solution = &solver.solution;
        let (row_duals, reduced_costs) = conic.duals(model, &solution.z, sign);
        Outcome {
            status: status(solution.status),
            objective: model.objective(&solution.x),
            x: solution.x.clone(),
            row_duals,
            reduced_costs,
            iterations: solution.iterations,
        }
    }
}

fn status(status: SolverStatus) -> Status {
    match status {
        SolverStatus::Solved => Status::Optimal,
        SolverStatus::PrimalInfeasible | SolverStatus::AlmostPrimalInfeasible => Status::Infeasible,
        SolverStatus::DualInfeasible | SolverStatus::AlmostDualInfeasible => Status::Unbounded,
        SolverStatus::MaxIterations => Status::BudgetSpent,
        _ => Status::Trouble,
    }
}

/// The status of models that need no solver: crossed bounds, and models without a single bound, which Clarabel's
/// matrices cannot express.
fn obvious(model: &Model) -> Option<Status> {
    let crossed = model.rows().any(|row| row.lower > row.upper)
        || model.columns().iter().any(|column| column.lower > column.upper);
    if crossed {
        return Some(Status::Infeasible);
    }
    let bounded = |lower: f64, upper: f64| lower.is_finite() || upper.is_finite();
    let free = !model.rows().any(|row| bounded(row.lower, row.upper))
        && !model.columns().iter().any(|column| bounded(column.lower, column.upper));
    if model.columns().is_empty() {
        let zero_fits = model.rows().all(|row| row.lower <= 0.0 && row.upper >= 0.0);
        return Some(if zero_fits { Status::Optimal } else { Status::Infeasible });
    }
    free.then(|| {
        let flat = model.columns().iter().all(|column| column.objective == 0.0);
        if flat { Status::Optimal } else { Status::Unbounded }
    })
}

/// The origin, with duals of zero.
fn blank(model: &Model, status: Status, iterations: u32) -> Outcome {
    let n = model.columns().len();
    Outcome {
        status,
        x: vec![0.0; n],
        row_duals: vec![0.0; model.rows().len()],
        reduced_costs: vec![0.0; n],
        objective: 0.0,
        iterations,
    }
}

/// What a row of `F` came from.
#[derive(Clone, Copy)]
enum Source {
    Row(usize),
    Column(usize),
}

/// The rows of `F`: where each came from, the sign of its coefficients, and the right-hand sides.
struct ConicRows {
    sources: Vec<(Source, f64)>,
    rights: Vec<f64>,
    equalities: usize,
}

impl ConicRows {
    fn of(model: &Model) -> Self {
        let bounds: Vec<(Source, f64, f64)> = (model.rows().enumerate())
            .map(|(i, row)| (Source::Row(i), row.lower, row.upper))
            .chain(model.columns().iter().enumerate().map(|(j, c)| (Source::Column(j), c.lower, c.upper)))
            .collect();
        let mut conic = Self { sources: Vec::new(), rights: Vec::new(), equalities: 0 };
        for &(source, lower, upper) in &bounds {
            if lower == upper {
                conic.push(source, 1.0, upper);
            }
        }
        conic.equalities = conic.rights.len();
        for &(source, lower, upper) in bounds.iter().filter(|(_, lower, upper)| lower != upper) {
            if upper.is_finite() {
                conic.push(source, 1.0, upper);
            }
            if lower.is_finite() {
                conic.push(source, -1.0, -lower);
            }
        }
        conic
    }

    fn push(&mut self, source: Source, sign: f64, right: f64) {
        self.sources.push((source, sign));
        self.rights.push(right);
    }

    fn cones(&self) -> Vec<SupportedConeT<f64>> {
        let inequalities = self.rights.len() - self.equalities;
        let cones = [SupportedConeT::ZeroConeT(self.equalities), SupportedConeT::NonnegativeConeT(inequalities)];
        cones.into_iter().zip([self.equalities, inequalities]).filter(|&(_, size)| size > 0).map(|(c, _)| c).collect()
    }

    /// `F`. Repeated terms are summed by Clarabel.
    fn matrix(&self, model: &Model) -> CscMatrix<f64> {
        let rows: Vec<&[(ColumnId, f64)]> = model.rows().map(|row| row.terms).collect();
        let (mut at_row, mut at_column, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut push = |row: usize, column: usize, value: f64| {
            at_row.push(row);
            at_column.push(column);
            values.push(value);
        };
        for (row, &(source, sign)) in self.sources.iter().enumerate() {
            match source {
                Source::Row(i) => rows[i].iter().for_each(|&(column, a)| push(row, column.index(), sign * a)),
                Source::Column(j) => push(row, j, sign),
            }
        }
        CscMatrix::new_from_triplets(self.rights.len(), model.columns().len(), at_row, at_column, values)
    }

    /// Row duals and reduced costs in the model's own sense, from the duals `v` of the conic rows.
    fn duals(&self, model: &Model, v: &[f64], sense: f64) -> (Vec<f64>, Vec<f64>) {
        let mut row_duals = vec![0.0; model.rows().len()];
        let mut reduced_costs = vec![0.0; model.columns().len()];
        for (&(source, sign), v) in self.sources.iter().zip(v) {
            let dual = -sign * v * sense;
            match source {
                Source::Row(i) => row_duals[i] += dual,
                Source::Column(j) => reduced_costs[j] += dual,
            }
        }
        (row_duals, reduced_costs)
    }
}
