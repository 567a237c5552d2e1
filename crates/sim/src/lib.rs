//! Virtual clusters: a clock, a world, faults, traces, checkers and reports.
//!
//! The simulator drives the very [`Scheduler`](arles_core) that a real cluster would, by its inputs and
//! outputs; nothing in `core` knows that the cluster is virtual.

pub mod faults;
pub mod journal;
pub mod measure;
pub mod rates;
mod recorder;
pub mod rng;
pub mod scenario;
pub mod trace;
pub mod truth;
pub mod world;
