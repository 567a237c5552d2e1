//! Jobs and the tenants they belong to.

use crate::program::Program;
use crate::{JobId, KindId, TenantId, Time, WorkloadId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// Until it ends by itself. The number is how many seconds that takes on its fastest kind, where earlier runs of the same
    /// program say so: a guess to plan with, never a promise.
    Open(Option<f64>),
}

/// What a job needs of every node it is on, besides GPUs.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// CPUs for each of its GPUs; 0 for whatever is left.
    pub cpus_per_gpu: f64,
    /// Host memory for each of its GPUs; 0 for whatever is left.
    pub memory_gib_per_gpu: f64,
    /// Device memory on each of its GPUs; kinds with less are not for it.
    pub gpu_memory_gib: f64,
}

impl Needs {
    /// Whether it asks for nothing in particular.
    #[must_use]
    pub fn none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it asks for nothing that a node has to give besides GPUs.
    #[must_use]
    pub fn only_gpus(&self) -> bool {
        self.cpus_per_gpu <= 0.0 && self.memory_gib_per_gpu <= 0.0
    }

    /// To compare and to order by.
    pub(crate) fn bits(&self) -> [u64; 3] {
        [self.cpus_per_gpu, self.memory_gib_per_gpu, self.gpu_memory_gib].map(f64::to_bits)
    }
}

/// How an earlier job must have ended before a later one may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It completed.
    Ok,
    /// It failed or was cancelled.
    NotOk,
    /// It is over, however.
    Any,
}

impl Outcome {
    /// Whether the end of a job that completed, or did not, is what was waited for.
    #[must_use]
    pub fn met_by(self, completed: bool) -> bool {
        match self {
            Self::Ok => completed,
            Self::NotOk => !completed,
            Self::Any => true,
        }
    }
}

/// A job that must be over before another may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Dependency {
    /// The earlier job. One that is not live counts as met: whoever submits looks at what is over.
    pub job: JobId,
    /// How it must end.
    pub outcome: Outcome,
}

/// One task of an array of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ArrayTask {
    /// The array, by its first job.
    pub array: JobId,
    /// The task's own number, as its program is told.
    pub index: u32,
    /// Tasks of the array that may run at once; 0 for all.
    pub at_most: u32,
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
    /// GPUs held at once; all or nothing. Of an elastic job, the fewest that it can use.
    pub gang: u32,
    /// The most GPUs that it can use, where the scheduler may choose between `gang` and this; none where `gang` is what it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_gang: Option<u32>,
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
    /// What it needs besides GPUs.
    #[serde(default, skip_serializing_if = "Needs::none")]
    pub needs: Needs,
    /// Seconds that it may run in all, restarts included; then it is stopped and given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_seconds: Option<f64>,
    /// Failures in a row after which it is given up, where that is not the scheduler's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_failures: Option<u32>,
    /// Whether it waits until somebody releases it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Jobs that must be over before it may start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Dependency>,
    /// When it must have ended; until then it may wait for cheaper electricity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Time>,
    /// The array that it is a task of, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayTask>,
    /// What runs, for the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Arc<Program>>,
}

/// Up to so many sizes of an elastic job are all considered; of a longer range, doublings.
const MOST_SIZES: u32 = 8;

impl JobSpec {
    /// The most GPUs that it can hold at once.
    #[must_use]
    pub fn most_gpus(&self) -> u32 {
        self.largest_gang.unwrap_or(self.gang).max(self.gang)
    }

    /// Whether the scheduler chooses how many GPUs it holds.
    #[must_use]
    pub fn is_elastic(&self) -> bool {
        self.most_gpus() > self.gang
    }

    /// Whether a gang of so many GPUs is one that it asked for.
    #[must_use]
    pub fn takes(&self, gpus: usize) -> bool {
        (self.gang as usize..=self.most_gpus() as usize).contains(&gpus)
    }

    /// The sizes that it may have, smallest first: all of a short range; of a long one, doublings and the largest.
    #[must_use]
    pub fn sizes(&self) -> Vec<u32> {
        let (least, most) = (self.gang.max(1), self.most_gpus());
        if most.saturating_sub(least) < MOST_SIZES {
            return (least..=most.max(least)).collect();
        }
        let doublings = std::iter::successors(Some(least), |n| n.checked_mul(2)).take_while(|n| *n < most);
        doublings.chain([most]).collect()
    }

    /// The GPUs that it asks for, in words: `4`, or `1-4` where the scheduler chooses.
    #[must_use]
    pub fn gpus_in_words(&self) -> String {
        match self.is_elastic() {
            true => format!("{}-{}", self.gang, self.most_gpus()),
            false => self.gang.to_string(),
        }
    }
}

/// One GPU until it ends, of average importance: for `..JobSpec::default()`.
impl Default for JobSpec {
    fn default() -> Self {
        Self {
            id: JobId(0),
            tenant: TenantId(0),
            workload: WorkloadId(0),
            gang: 1,
            largest_gang: None,
            work: Work::Open(None),
            floor: None,
            weight: 1.0,
            restart_seconds: 0.0,
            kinds: Vec::new(),
            arrived: Time::ZERO,
            needs: Needs::default(),
            time_limit_seconds: None,
            most_failures: None,
            held: false,
            after: Vec::new(),
            before: None,
            array: None,
            program: None,
        }
    }
}
