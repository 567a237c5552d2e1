//! The long-running service: the scheduler with a memory, a door and a window.
//!
//! One thread, the [loop](service), owns the scheduler. Whatever comes in (requests, answers of the solver and the estimator, news of
//! the engine) is written to the [journal](store) and synced before anything that follows from it is done, so a daemon that is killed
//! at any point comes back as it was. Readers never wait for the loop: they read the *book*, which the loop brings up to
//! date after every sync. The [desk] is the only way in for requests.
//!
//! Nothing here knows whether the cluster is real, and nothing here decides what runs.

pub mod access;
mod book;
pub mod clock;
pub mod desk;
pub mod entry;
mod forecast;
pub mod gauges;
pub mod http;
mod metrics;
mod refusal;
pub mod service;
mod state_machine;
pub mod store;
pub mod views;

pub use refusal::Refusal;
