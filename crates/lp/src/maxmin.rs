//! Max-min with capacities and caps: raise the worst-off user as far as it goes.
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
//! thousands of times from one [`Workspace`], which then allocates nothing. Every answer carries a [`Bound`] that
//! other code proved from the problem as asked; an answer whose gap is larger than the tolerance is still feasible
//! and still has an honest bound, and [`solve_or_general`] asks the general solver as well.

mod bound;
mod curve;
mod fill;
mod general;
mod interior;
mod lanes;
mod pair;
mod schur;
mod start;

pub use bound::Bound;
pub use fill::{Filled, Reservoir, Stage, fill};
pub use general::General;

use crate::{Budget, Clarabel, ModelError};
use interior::{Iterate, Stop};
use lanes::LANES;
use start::Scaling;
use std::fmt;

/// The relative gap at which [`solve`] is content.
pub const TOLERANCE: f64 = 1e-7;

/// The most resources that the structured solver takes; [`solve_or_general`] takes any number.
pub const MOST_RESOURCES: usize = 32;

/// A question. See the module for what the letters mean.
#[derive(Clone, Copy, Debug)]
pub struct MaxMin<'a> {
    /// Rates, users × resources, row by row; 0 means "cannot use".
    pub w: &'a [f64],
    /// What each user is measured against; positive.
    pub beta: &'a [f64],
    /// The most each user can use in all; positive, infinite for no cap.
    pub caps: &'a [f64],
    /// How much there is of each resource; a resource of 0 is as good as absent.
    pub capacity: &'a [f64],
}

/// Why a question has no answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Refusal {
    /// There are no users or no resources.
    Empty,
    /// The slices do not fit together.
    Shape {
        /// Which slice.
        what: &'static str,
        /// Its length.
        length: usize,
        /// The length that fits `beta` and `capacity`.
        expected: usize,
    },
    /// A number that makes no sense where it is.
    Number {
        /// Which slice.
        what: &'static str,
        /// Where in it.
        index: usize,
        /// The number.
        value: f64,
    },
    /// A user who cannot use any resource that has capacity: `t` would be 0 for everybody.
    Unservable {
        /// Which user.
        user: usize,
    },
    /// More resources than [`MOST_RESOURCES`].
    TooWide {
        /// How many take part.
        resources: usize,
    },
    /// The numbers are so far apart that scaling them overflows.
    Scale(ModelError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no users or no resources; ask only when there is something to divide"),
            Self::Shape { what, length, expected } => {
                write!(f, "{what} has {length} numbers where {expected} were expected; give one per user or resource")
            }
            Self::Number { what, index, value } => {
                write!(
                    f,
                    "{what}[{index}] is {value}; rates and capacities must be finite and at least 0, beta finite and above 0, caps above 0"
                )
            }
            Self::Unservable { user } => {
                write!(f, "user {user} has no positive rate on any resource with capacity; leave such users out")
            }
            Self::TooWide { resources } => {
                write!(f, "{resources} resources are more than {MOST_RESOURCES}; use solve_or_general")
            }
            Self::Scale(_) => {
                write!(f, "rates, targets and capacities are too far apart to be scaled; use closer units")
            }
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Scale(source) => Some(source),
            _ => None,
        }
    }
}

impl MaxMin<'_> {
    fn check(&self) -> Result<(), Refusal> {
        let (n, k) = (self.beta.len(), self.capacity.len());
        if n == 0 || k == 0 {
            return Err(Refusal::Empty);
        }
        for (what, length, expected) in [("w", self.w.len(), n * k), ("caps", self.caps.len(), n)] {
            if length != expected {
                return Err(Refusal::Shape { what, length, expected });
            }
        }
        check_numbers("w", self.w, |v| v.is_finite() && v >= 0.0)?;
        check_numbers("beta", self.beta, |v| v.is_finite() && v > 0.0)?;
        check_numbers("caps", self.caps, |v| v > 0.0)?;
        check_numbers("capacity", self.capacity, |v| v.is_finite() && v >= 0.0)
    }
}

fn check_numbers(what: &'static str, values: &[f64], good: impl Fn(f64) -> bool) -> Result<(), Refusal> {
    match values.iter().position(|&value| !good(value)) {
        Some(index) => Err(Refusal::Number { what, index, value: values[index] }),
        None => Ok(()),
    }
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Level {
    /// Shares, users × resources, row by row. Feasible to rounding.
    pub x: Vec<f64>,
    /// The level that `x` attains.
    pub t: f64,
    /// Per resource: how much `t` would rise with one more of it.
    pub prices: Vec<f64>,
    /// Per user: how much `t` would fall if the user were owed one unit more; `Σ beta · duals = 1`.
    pub duals: Vec<f64>,
    /// Between which numbers the optimum lies.
    pub bound: Bound,
    /// Iterations spent.
    pub iterations: u32,
}

impl Default for Level {
    fn default() -> Self {
        Self {
            x: Vec::new(),
            t: 0.0,
            prices: Vec::new(),
            duals: Vec::new(),
            bound: Bound { lower: 0.0, upper: f64::INFINITY },
            iterations: 0,
        }
    }
}

/// Memory to solve in. Reused, it allocates only when a question is larger than all before it.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    scaling: Scaling,
    iterate: Iterate,
    level: Level,
    /// Scratch of the certificate, a number per resource.
    used: Vec<f64>,
}

impl Workspace {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Solves to a relative gap of `tolerance`, or as near as it gets: the answer's bound says.
    pub fn solve(&mut self, problem: &MaxMin<'_>, budget: Budget, tolerance: f64) -> Result<&Level, Refusal> {
        problem.check()?;
        self.scaling.measure(problem)?;
        let stop = Stop { iterations: budget.iterations, tolerance };
        match self.scaling.resources.len() {
            1 => self.run::<1>(problem, stop),
            2 => self.run::<2>(problem, stop),
            3 => self.run::<3>(problem, stop),
            4 => self.run::<4>(problem, stop),
            5 => self.run::<5>(problem, stop),
            6 => self.run::<6>(problem, stop),
            7..=8 => self.run::<8>(problem, stop),
            9..=10 => self.run::<10>(problem, stop),
            11..=16 => self.run::<16>(problem, stop),
            17..=MOST_RESOURCES => self.run::<MOST_RESOURCES>(problem, stop),
            resources => return Err(Refusal::TooWide { resources }),
        }
        bound::certify(problem, &mut self.level, &mut self.used);
        Ok(&self.level)
    }

    /// Solves with room for `K` resources.
    fn run<const K: usize>(&mut self, problem: &MaxMin<'_>, stop: Stop) {
        self.scaling.start::<K>(problem, &mut self.iterate);
        self.level.iterations = interior::run::<K>(&mut self.iterate, stop);
        self.read::<K>(problem);
    }

    /// Copies the iterate out, in the problem's own units.
    fn read<const K: usize>(&mut self, problem: &MaxMin<'_>) {
        let (n, k) = (problem.beta.len(), problem.capacity.len());
        let Self { scaling, iterate, level, .. } = self;
        level.x.clear();
        level.x.resize(n * k, 0.0);
        level.prices.clear();
        level.prices.resize(k, 0.0);
        level.duals.clear();
        let columns = iterate.columns.as_chunks::<K>().0;
        for l in 0..n {
            let (block, q) = (l / LANES, l % LANES);
            level.duals.push(iterate.users[block].surplus.dual.0[q] / scaling.rate[l]);
            let x = &mut level.x[l * k..][..k];
            for (column, &resource) in columns[block].iter().zip(&scaling.resources) {
                x[resource] = if column.w.0[q] > 0.0 { column.share.primal.0[q] } else { 0.0 };
            }
        }
        for (j, &resource) in scaling.resources.iter().enumerate() {
            level.prices[resource] = iterate.resources[j / LANES].slack.dual.0[j % LANES];
        }
    }
}

/// Solves once, to a relative gap of [`TOLERANCE`] where that can be had.
pub fn solve(problem: &MaxMin<'_>, budget: Budget) -> Result<Level, Refusal> {
    let mut workspace = Workspace::new();
    workspace.solve(problem, budget, TOLERANCE)?;
    Ok(workspace.level)
}

/// As [`solve`]; where the structured method stalls short of [`TOLERANCE`] or does not take the question, the
/// general solver tries too, and the answer with the smaller gap is returned.
pub fn solve_or_general(problem: &MaxMin<'_>, budget: Budget) -> Result<Level, Refusal> {
    let structured = match solve(problem, budget) {
        Ok(level) if level.bound.gap() <= TOLERANCE => return Ok(level),
        Ok(level) => Some(level),
        Err(Refusal::TooWide { .. }) => None,
        Err(refusal) => return Err(refusal),
    };
    let general = General::new(problem)?.solve(problem, &Clarabel, budget);
    Ok(match structured {
        Some(level) if level.bound.gap() <= general.bound.gap() => level,
        _ => general,
    })
}
