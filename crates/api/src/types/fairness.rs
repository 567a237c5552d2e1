//! Allocations and how fair they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tenant's part of an allocation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Name of the tenant.
    pub tenant: String,
    /// Fair share as a fraction of the cluster, 0 to 1.
    pub entitlement_ratio: f64,
    /// GPUs granted, by kind.
    pub gpus: Vec<f64>,
    /// Fraction of the usable GPUs that was granted.
    pub granted_ratio: f64,
    /// GPUs held, by kind: now, or on average over the time in which it had demand. Whole gangs take turns, so it differs from what was granted from round to round.
    pub received: Vec<f64>,
    /// Utility relative to an equal split of the cluster, of the tenant's worst-off job class, by the policy's entitlements and the
    /// estimates of its round; below 1 it would be better off with its own part. `null` if it had no demand.
    pub sharing_ratio: Option<f64>,
    /// Envy towards each tenant in the order of `tenants`, judged in the same way; above 1 it would prefer the other's GPUs. `null` if unknown.
    pub envy: Vec<Option<f64>>,
    /// Where these figures come from if they are not 1: policy, estimates or rounding to whole gangs.
    pub notes: Vec<String>,
}

/// A start, stop or move of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Job number.
    pub job: u64,
    /// Tenant that the job belongs to.
    pub tenant: String,
    /// `start`, `stop` or `move`.
    pub what: String,
    /// Previous place: number of GPUs and kind.
    pub from: Option<String>,
    /// New place: number of GPUs and kind.
    pub to: Option<String>,
}

/// The current allocation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Allocation {
    /// Round in which the allocation was made.
    pub round: u64,
    /// Number of the current scheduling round.
    pub current_round: u64,
    /// Time at which the allocation was made.
    pub decided_at: Option<f64>,
    /// Policy that made it.
    pub policy: String,
    /// GPU kinds; `capacity` and `shares` index them.
    pub kinds: Vec<String>,
    /// Tenants; `envy` indexes them.
    pub tenants: Vec<String>,
    /// Usable GPUs, by kind.
    pub capacity: Vec<f64>,
    /// Shares by tenant.
    pub shares: Vec<Share>,
    /// Run time of the policy's solver.
    pub solve_seconds: Option<f64>,
    /// Why the policy returned no usable allocation last time, if so.
    pub failure: Option<String>,
    /// Starts, stops and moves of recent rounds, newest first.
    pub changes: Vec<Change>,
}

/// Allocations and fairness over a time window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Start of the recorded part of the window.
    pub from: f64,
    /// End of the recorded part of the window.
    pub to: f64,
    /// Seconds of the window in which an allocation was in force.
    pub seconds: f64,
    /// GPU kinds; `shares` index them.
    pub kinds: Vec<String>,
    /// Tenants; `envy` indexes them.
    pub tenants: Vec<String>,
    /// Shares by tenant, averaged over the time in which it had demand.
    pub shares: Vec<Share>,
    /// Strongest envy among tenants; at most 1 is envy-free.
    pub worst_envy: Option<f64>,
    /// Lowest sharing ratio among tenants; at least 1 means sharing incentive.
    pub least_sharing: Option<f64>,
    /// Policies that were in force.
    pub policies: Vec<String>,
}
