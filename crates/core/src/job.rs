//! Jobs and the tenants they belong to.

use crate::{JobId, KindId, TenantId, Time, WorkloadId};
use serde::{Deserialize, Serialize};

/// Least weight that a request or a setting may give a tenant or a job.
pub const MIN_WEIGHT: f64 = 1e-6;
/// Largest weight that a request or a setting may give a tenant or a job: between the two, sums of weights keep their digits.
pub const MAX_WEIGHT: f64 = 1e6;

/// Checks a weight that somebody gave a tenant or a job.
///
/// # Errors
/// A sentence with the value and what was expected.
pub fn check_weight(weight: f64) -> Result<f64, String> {
    if (MIN_WEIGHT..=MAX_WEIGHT).contains(&weight) {
        return Ok(weight);
    }
    Err(format!("weight is {weight}; expected a number from {MIN_WEIGHT} to {MAX_WEIGHT}"))
}

/// Who is owed a share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tenant {
    /// Unique name.
    pub name: String,
    /// Entitlement relative to the other tenants; positive.
    pub weight: f64,
}

/// How much a job has to do.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// A number of steps, however long they take.
    Steps(f64),
    /// This many seconds of service, at the rate that [`JobSpec::floor`] asks for.
    Period(f64),
}

/// One submission of a workload by a tenant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// Unique.
    pub id: JobId,
    /// Who pays.
    pub tenant: TenantId,
    /// What runs.
    pub workload: WorkloadId,
    /// GPUs held at once; all or nothing.
    pub gang: u32,
    /// How much there is to do.
    pub work: Work,
    /// Promised rate in steps per second of the whole gang (the SLA), if any.
    pub floor: Option<f64>,
    /// Importance relative to the tenant's other jobs; positive.
    pub weight: f64,
    /// Seconds lost at every start after the first: load, restore, warm up.
    pub restart_seconds: f64,
    /// Kinds it may run on; empty means any.
    pub kinds: Vec<KindId>,
    /// When it was submitted.
    pub arrived: Time,
}
