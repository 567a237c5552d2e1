//! Linear programs. This crate has never heard of a GPU: it knows columns, rows, prices and certificates.
//!
//! Four ways in:
//!
//! * [`Model`] is any sparse linear program; a [`Solver`] answers it ([`Clarabel`] is the one here). What came
//!   out is an [`Outcome`], whose status is data, and [`certificate::check`] judges it with code that shares
//!   nothing with the solver.
//! * [`maxmin`] is one program that is solved thousands of times in a row (raise the worst-off user under
//!   shared capacities and private caps), and therefore has a solver of its own, orders of magnitude faster.
//! * [`market`] is the same without caps, and the equilibrium of a market with money: problems in the prices of a few
//!   resources, solved exactly for a million users; [`nash`] is that equilibrium's welfare where users have caps.
//! * [`envy`] is the largest sum of utilities among allocations without envy, optimal with proof for a thousand users;
//!   [`simplex`] is the dual simplex with rows on demand that it rests on.
//!
//! What must never happen here: reading a clock (budgets count iterations), randomness, threads, or a solver
//! library's type in a public signature.

pub mod certificate;
mod clarabel;
pub mod cover;
pub mod envy;
pub mod families;
pub mod market;
pub mod maxmin;
mod model;
pub mod nash;
pub mod sharing;
pub mod simplex;
mod solver;

pub use crate::certificate::Certificate;
pub use crate::clarabel::Clarabel;
pub use crate::model::{Column, ColumnId, Model, ModelError, Row, RowId, Sense};
pub use crate::solver::{Budget, Outcome, Solver, Status};
