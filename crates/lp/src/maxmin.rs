//! Max-min with capacities and caps: raise the worst-off user as far as possible.
//!
//! ```text
//! maximise t    subject to   Σ_j w_lj x_lj ≥ β_l t      every user l
//!                            Σ_j x_lj ≤ d_l             a user's own cap (may be infinite)
//!                            Σ_l x_lj ≤ m_j             every resource j
//!                            x ≥ 0,  x_lj = 0 where w_lj = 0
//! ```
//!
//! Users beyond the bottleneck may have more than `β_l t`: the interior point ends near the analytic centre of the
//! optimal face, so what is left over is spread, not withheld.
//!
//! The solver is written for this program alone (`maxmin/interior.rs` has the mathematics) and is meant to be called
//! thousands of times from one [`Workspace`], which then allocates nothing. Every solution carries a [`Certificate`] that
//! other code proved from the problem as given; a solution whose gap is larger than the tolerance is still feasible and
//! its bounds still hold, and [`solve_or_general`] tries the general solver as well.

mod bound;
mod curve;
mod fill;
mod general;
mod interior;
mod lanes;
mod pair;
mod schur;
mod start;

pub(crate) use bound::attain;
pub use fill::{Bottleneck, FillWorkspace, Filling, fill};
pub use general::General;

use crate::input::{Domain, check_numbers, check_shape, check_some};
use crate::{Budget, Certificate, Clarabel, InputError};
use interior::{Iterate, Stop};
use lanes::LANES;
use start::Scaling;

/// The relative gap at which [`solve`] stops.
pub const TOLERANCE: f64 = 1e-7;

/// The most resources that the structured solver takes; [`solve_or_general`] takes any number.
pub const MOST_RESOURCES: usize = 32;

/// A problem. See the module for the notation.
#[derive(Clone, Copy, Debug)]
pub struct MaxMin<'a> {
    /// Rates, users × resources, row by row; 0 means "cannot use".
    pub w: &'a [f64],
    /// β: the target of each user; positive.
    pub beta: &'a [f64],
    /// d: the most each user can use in all; positive, infinite for no cap.
    pub caps: &'a [f64],
    /// m: the capacity of each resource; a resource of capacity 0 is ignored.
    pub capacity: &'a [f64],
}

impl MaxMin<'_> {
    fn check(&self) -> Result<(), InputError> {
        let (n, k) = (self.beta.len(), self.capacity.len());
        check_some(n, k)?;
        check_shape("w", self.w.len(), n.saturating_mul(k))?;
        check_shape("caps", self.caps.len(), n)?;
        check_numbers("w", self.w.iter().copied(), Domain::NonNegative)?;
        check_numbers("beta", self.beta.iter().copied(), Domain::Positive)?;
        check_numbers("caps", self.caps.iter().copied(), Domain::Limit)?;
        check_numbers("capacity", self.capacity.iter().copied(), Domain::NonNegative)
    }
}

/// A division with a proven bound on the least level.
#[derive(Clone, PartialEq, Debug)]
pub struct Solution {
    /// Shares, users × resources, row by row. Feasible to rounding.
    pub x: Vec<f64>,
    /// The level that `x` attains.
    pub t: f64,
    /// Per resource: how much `t` would rise with one more of it.
    pub prices: Vec<f64>,
    /// Per user: how much `t` would fall if `beta · t` were one unit more; `Σ beta · duals = 1`.
    pub duals: Vec<f64>,
    /// Bounds of the optimal `t`.
    pub bound: Certificate,
    /// Iterations spent.
    pub iterations: u32,
}

impl Default for Solution {
    fn default() -> Self {
        Self { x: Vec::new(), t: 0.0, prices: Vec::new(), duals: Vec::new(), bound: Certificate::NONE, iterations: 0 }
    }
}

/// Memory to solve in. Reused, it allocates only for a problem larger than all before it.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    scaling: Scaling,
    iterate: Iterate,
    solution: Solution,
    /// Scratch of the certificate, a number per resource.
    used: Vec<f64>,
    /// The iterate half-way through the last solve, where it is wanted.
    keeps_middle: bool,
    middle: Iterate,
}

/// Where a solve starts.
#[derive(Clone, Copy)]
enum From {
    Scratch,
    Middle,
    Last,
}

impl Workspace {
    /// An empty workspace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Solves to a relative gap of `tolerance`, or as near as it gets: the certificate says.
    pub fn solve(&mut self, problem: &MaxMin<'_>, budget: Budget, tolerance: f64) -> Result<&Solution, InputError> {
        problem.check()?;
        self.scaling.measure(problem)?;
        let stop = Stop { iterations: budget.iterations, tolerance };
        self.dispatch(problem, stop, From::Scratch)?;
        Ok(&self.solution)
    }

    /// Continues the last solve to a smaller gap.
    fn resume(&mut self, problem: &MaxMin<'_>, budget: Budget, tolerance: f64) -> Result<&Solution, InputError> {
        let stop = Stop { iterations: budget.iterations, tolerance };
        self.dispatch(problem, stop, From::Last)?;
        Ok(&self.solution)
    }

    /// As [`Self::solve`], for the users of the last problem with other targets or capacities: starts from the middle of
    /// the last solve, and from scratch if that does not lead to `tolerance`.
    fn solve_near(&mut self, problem: &MaxMin<'_>, budget: Budget, tolerance: f64) -> Result<&Solution, InputError> {
        problem.check()?;
        let (unit, resources) = (self.scaling.level, std::mem::take(&mut self.scaling.resources));
        self.scaling.measure(problem)?;
        if resources != self.scaling.resources || self.middle.users.len() != problem.beta.len().div_ceil(LANES) {
            return self.solve(problem, budget, tolerance);
        }
        self.scaling.level = unit;
        let stop = Stop { iterations: budget.iterations, tolerance };
        self.dispatch(problem, stop, From::Middle)?;
        let spent = self.solution.iterations;
        if self.solution.bound.gap() > 2.0 * tolerance && spent < budget.iterations {
            self.solve(problem, Budget::iterations(budget.iterations - spent), tolerance)?;
            self.solution.iterations += spent;
        }
        Ok(&self.solution)
    }

    fn dispatch(&mut self, problem: &MaxMin<'_>, stop: Stop, from: From) -> Result<(), InputError> {
        match self.scaling.resources.len() {
            1 => self.run::<1>(problem, stop, from),
            2 => self.run::<2>(problem, stop, from),
            3 => self.run::<3>(problem, stop, from),
            4 => self.run::<4>(problem, stop, from),
            5 => self.run::<5>(problem, stop, from),
            6 => self.run::<6>(problem, stop, from),
            7..=8 => self.run::<8>(problem, stop, from),
            9..=10 => self.run::<10>(problem, stop, from),
            11..=16 => self.run::<16>(problem, stop, from),
            17..=MOST_RESOURCES => self.run::<MOST_RESOURCES>(problem, stop, from),
            resources => {
                return Err(InputError::TooMany {
                    what: "resources",
                    count: resources as u64,
                    most: MOST_RESOURCES as u64,
                });
            }
        }
        bound::certify(problem, &mut self.solution, &mut self.used);
        Ok(())
    }

    /// Solves with room for `K` resources.
    fn run<const K: usize>(&mut self, problem: &MaxMin<'_>, stop: Stop, from: From) {
        match from {
            From::Scratch => {
                // The middle of the last solve belongs to other users.
                self.middle.users.clear();
                self.scaling.start::<K>(problem, &mut self.iterate);
            }
            From::Middle => {
                self.iterate.clone_from(&self.middle);
                self.scaling.restart::<K>(problem, &mut self.iterate);
            }
            From::Last => {}
        }
        let keep = if self.keeps_middle { Some(&mut self.middle) } else { None };
        self.solution.iterations = interior::run::<K>(&mut self.iterate, stop, keep);
        self.read::<K>(problem);
    }

    /// Copies the iterate out, in the problem's units.
    fn read<const K: usize>(&mut self, problem: &MaxMin<'_>) {
        let (n, k) = (problem.beta.len(), problem.capacity.len());
        let Self { scaling, iterate, solution, .. } = self;
        solution.x.clear();
        solution.x.resize(n * k, 0.0);
        solution.prices.clear();
        solution.prices.resize(k, 0.0);
        solution.duals.clear();
        let columns = iterate.columns.as_chunks::<K>().0;
        for l in 0..n {
            let (block, q) = (l / LANES, l % LANES);
            solution.duals.push(iterate.users[block].surplus.dual.0[q] / scaling.rate[l]);
            let x = &mut solution.x[l * k..][..k];
            for (column, &resource) in columns[block].iter().zip(&scaling.resources) {
                x[resource] = if column.w.0[q] > 0.0 { column.share.primal.0[q] } else { 0.0 };
            }
        }
        for (j, &resource) in scaling.resources.iter().enumerate() {
            solution.prices[resource] = iterate.resources[j / LANES].slack.dual.0[j % LANES];
        }
    }
}

/// Solves once, to a relative gap of [`TOLERANCE`] if possible.
pub fn solve(problem: &MaxMin<'_>, budget: Budget) -> Result<Solution, InputError> {
    let mut workspace = Workspace::new();
    workspace.solve(problem, budget, TOLERANCE)?;
    Ok(workspace.solution)
}

/// As [`solve`]; where the structured method stalls short of [`TOLERANCE`] or has too many resources, the general solver
/// tries too, and the solution with the smaller gap is returned.
pub fn solve_or_general(problem: &MaxMin<'_>, budget: Budget) -> Result<Solution, InputError> {
    let structured = match solve(problem, budget) {
        Ok(solution) if solution.bound.gap() <= TOLERANCE => return Ok(solution),
        Ok(solution) => Some(solution),
        Err(InputError::TooMany { .. }) => None,
        Err(error) => return Err(error),
    };
    let general = General::new(problem)?.solve(problem, &Clarabel, budget);
    Ok(match structured {
        Some(solution) if solution.bound.gap() <= general.bound.gap() => solution,
        _ => general,
    })
}
