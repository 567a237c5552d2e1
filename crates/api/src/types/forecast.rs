//! Dry runs: what would happen.

use super::{Change, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When and where a job would run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Why the job would be rejected, if it would.
    pub refusal: Option<String>,
    /// Estimated start, if it lies within the simulated rounds.
    pub starts_at: Option<f64>,
    /// GPU kind that it would run on.
    pub kind: Option<String>,
    /// Number of nodes that it would run on.
    pub nodes: Option<u32>,
    /// Whether it would share its GPU.
    pub shared: Option<bool>,
    /// Estimated rate in steps per second.
    pub rate: Option<f64>,
    /// Estimated end if it is not preempted.
    pub ends_at: Option<f64>,
    /// Why it would wait, if it would.
    pub reason: Option<Reason>,
    /// Number of simulated rounds.
    pub rounds: u32,
}

/// What a policy switch would change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyForecast {
    /// The current policy.
    pub from: String,
    /// The other policy.
    pub to: String,
    /// GPU kinds; `shares` index them.
    pub kinds: Vec<String>,
    /// GPUs by tenant and kind under both policies.
    pub shares: Vec<ShareChange>,
    /// Jobs that would start, stop or move within the simulated rounds; at most the first thousand.
    pub changes: Vec<Change>,
    /// Number of jobs that would start, stop or move.
    pub changed: u64,
    /// Estimated power draw of the cluster under the current policy, in watts.
    pub watts_before: Option<f64>,
    /// Estimated power draw of the cluster under the other policy, in watts.
    pub watts_after: Option<f64>,
}

/// A tenant's GPUs under two policies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShareChange {
    /// Name of the tenant.
    pub tenant: String,
    /// GPUs by kind under the current policy.
    pub before: Vec<f64>,
    /// GPUs by kind under the other policy.
    pub after: Vec<f64>,
}
