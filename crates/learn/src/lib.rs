//! The part of arles that learns: what was measured, and what that says about everything that was not.
//!
//! The [`catalog`] holds measurements. An estimator of the [table](ESTIMATORS) turns them, and the features of workloads and
//! kinds, into an [`Estimate`](arles_core::estimate::Estimate) of any cell, and gets better with every observation. Nothing here
//! decides what runs, and nothing here knows whether the cluster is real.

pub mod catalog;
mod completion;
mod draw;
pub mod evaluate;
mod features;
mod ground;
pub mod learned;
mod mean;
mod method;
mod modelled;
mod nearest;
pub mod prior;
mod published;
mod shift;
// A part of it serves the networks alone, which are a feature.
#[allow(dead_code)]
pub(crate) mod solo;
mod stated;
mod table;
mod watts;
mod words;

pub use catalog::{Catalog, Cell, Key, Measurement};
pub use table::{ESTIMATORS, EstimatorEntry, Setting, Subject, Unfit, find_estimator};
pub use words::whence;
