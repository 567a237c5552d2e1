//! Linear and integer programs. This crate has never heard of a GPU: it knows columns, rows, prices and certificates.
//!
//! Two ways in:
//!
//! * [`Model`] is any sparse linear program; a [`Solver`] solves it ([`Clarabel`], or [`Vertex`] where it is small). The [`Outcome`]'s
//!   status is data, and [`certificate::check`] computes its [`Residuals`] with code that shares nothing with the solver.
//! * A module per structured program, each with a solver of its own that is orders of magnitude faster than a general one
//!   and returns a [`Certificate`]: [`maxmin`] (raise the worst-off user, then the next), [`market`] (equal levels, and
//!   the equilibrium of a market), [`nash`] (that equilibrium with caps), [`envy`] (the largest sum without envy, by the
//!   dual [`simplex`] with lazy rows), [`sharing`] (max-min with two jobs on a unit), [`cover`] (whole units at least
//!   cost), [`ways`] (units that can be used in several ways, which draw on one more good).
//!
//! A problem that makes no sense is an [`InputError`]; nothing else is an error.
//!
//! What must never happen here: reading a clock (budgets count iterations), randomness, threads, or a solver
//! library's type in a public signature.

pub mod certificate;
mod cholesky;
mod clarabel;
pub mod cover;
mod distinct;
pub mod envy;
pub mod families;
mod input;
pub mod market;
pub mod maxmin;
mod model;
pub mod nash;
pub mod sharing;
pub mod simplex;
mod solver;
mod vertex;
pub mod ways;

pub use crate::certificate::{Certificate, Residuals};
pub use crate::clarabel::Clarabel;
pub use crate::input::{Domain, InputError};
pub use crate::model::{Column, ColumnId, Model, ModelError, Row, RowId, Sense};
pub use crate::solver::{Budget, Outcome, Solver, Status};
pub use crate::vertex::Vertex;
