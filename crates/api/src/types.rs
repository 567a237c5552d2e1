//! Requests and responses under `/v1`, as JSON.
//!
//! Times are seconds since 1970 on the scheduler's clock, durations are seconds, energy is in joules, power in watts, rates in steps
//! per second. A field is `null` where nothing is known. What a caller may not see is left out of the response.

mod cluster;
mod energy;
mod errors;
mod events;
mod fairness;
mod forecast;
mod jobs;
mod log;
mod logs;
mod nodes;
mod policy;
mod power;
mod programs;
mod series;
mod service;
mod tenants;
mod whole;

pub use cluster::*;
pub use energy::*;
pub use errors::*;
pub use events::*;
pub use fairness::*;
pub use forecast::*;
pub use jobs::*;
pub use log::*;
pub use logs::*;
pub use nodes::*;
pub use policy::*;
pub use power::*;
pub use programs::*;
pub use series::*;
pub use service::*;
pub use tenants::*;
