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
