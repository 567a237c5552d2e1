//! Reading: what is known, as callers may see it.
//!
//! The [`book`] is kept up to date by the loop after every commit; the [`views`] show it to one caller in the types of the API;
//! the [`forecast`] runs a copy of the scheduler ahead, and the [`metrics`] are the book and the gauges as Prometheus text. Nothing
//! here changes the scheduler, the journal or the cluster.

pub(crate) mod book;
pub(crate) mod forecast;
pub(crate) mod metrics;
pub mod views;
