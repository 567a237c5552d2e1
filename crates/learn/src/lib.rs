//! The part of arles that learns: what was measured, and what that says about everything that was not.
//!
//! The [`catalog`] holds measurements. An estimator of the [table](ESTIMATORS) turns them, and the features of workloads and
//! kinds, into an [`Estimate`](arles_core::estimate::Estimate) of any cell, and gets better with every observation. Nothing here
//! decides what runs, and nothing here knows whether the cluster is real.

pub mod card;
pub mod catalog;
pub mod cells;
mod completion;
mod contention;
pub mod evaluate;
mod evidence;
mod features;
mod gang;
pub mod learned;
mod mean;
mod method;
mod nearest;
mod perf_model;
mod power_limit;
mod process;
mod profile;
mod provenance;
mod published;
mod residual;
mod rng;
mod scaled;
#[allow(dead_code, reason = "a part of it is for the published networks alone, which a feature brings")]
pub(crate) mod solo;
pub mod stacked;
mod stated;
pub mod synthetic;
mod table;
mod traits;
mod watts;

pub use catalog::{Catalog, Cell, Key, Measurement};
pub use provenance::explain_source;
pub use table::{ESTIMATORS, EstimatorEntry, EstimatorError, REFERENCES, Setting, Subject, find_estimator};
pub use traits::Traits;
