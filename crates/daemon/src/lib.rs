//! The long-running service, in four rooms:
//!
//! - [`service`]: the loop. One thread owns the scheduler; requests, answers of the solver and the estimator, and reports of the
//!   engine all go through it. The [`desk`] is the only way in for requests.
//! - [`store`]: the journal. Whatever comes in is written and synced before anything that follows from it is done, so a daemon that
//!   is killed at any point comes back as it was.
//! - `read`: the book that readers see, brought up to date after every sync, and the [`views`] of it. Readers never wait for the loop.
//! - [`http`]: the API and the dashboard over HTTP.
//!
//! Where several daemons share a state folder, [`lease`] says which of them leads.
//!
//! Nothing here knows whether the cluster is real, and nothing here decides what runs.

pub mod access;
pub mod http;
pub mod lease;
mod read;
mod refusal;
pub mod service;
pub mod store;

pub use read::views;
pub use refusal::Refusal;
pub use service::{clock, desk};
pub use store::entry;
