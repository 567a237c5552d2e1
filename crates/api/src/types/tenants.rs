//! Tenants and their weights.

use super::Energy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Least weight of a tenant or a job. The range is `arles_core::job`'s, which this crate does not link; the daemon does not compile
/// if the two differ.
pub const WEIGHT_MIN: f64 = 1e-6;
/// Largest weight of a tenant or a job.
pub const WEIGHT_MAX: f64 = 1e6;

/// A tenant and what it uses now.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tenant {
    /// Tenant name.
    pub name: String,
    /// Fair-share weight relative to the other tenants.
    pub weight: f64,
    /// Fair share as a fraction of the cluster, 0 to 1.
    pub entitlement_ratio: f64,
    /// Fraction of the busy GPUs that it holds now.
    pub held_ratio: f64,
    /// GPUs that it holds now; half of one that is shared.
    pub gpus: f64,
    /// Waiting jobs.
    pub waiting: u64,
    /// Jobs that hold GPUs.
    pub running: u64,
    /// Completed jobs.
    pub completed: u64,
    /// GPU seconds held so far.
    pub gpu_seconds: f64,
    /// Energy used so far.
    pub energy: Energy,
    /// What it may use; what is not there is not limited.
    #[serde(default)]
    pub quota: Quota,
    /// What it has used of its monthly budgets.
    #[serde(default)]
    pub month: MonthlyUse,
}

/// What a tenant may use. Whatever is left out is not limited.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// GPUs that its jobs hold at once; one that two of its jobs share counts for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Live jobs. Submissions beyond are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// GPU-hours in a calendar month (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e12))]
    pub gpu_hours: Option<f64>,
    /// Energy in a calendar month (UTC), in kWh.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e12))]
    pub kwh: Option<f64>,
    /// Submissions per second in the long run; ten, or as many as in a second, may come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e6))]
    pub submits_per_second: Option<f64>,
}

/// Use of the current calendar month (UTC).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct MonthlyUse {
    /// GPU-hours, as of the last round. A GPU that two jobs share counts for each.
    pub gpu_hours: f64,
    /// Energy in kWh, as of the last meters.
    pub kwh: f64,
    /// When the next month begins, in seconds since 1970 on the scheduler's clock.
    pub resets_at: f64,
}

/// The tenants that the caller may see.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tenants {
    /// Tenants in the order in which they were added.
    pub tenants: Vec<Tenant>,
}

/// A tenant's new weight.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantRequest {
    /// Fair-share weight relative to the other tenants.
    #[schemars(range(min = WEIGHT_MIN, max = WEIGHT_MAX))]
    pub weight: f64,
}
