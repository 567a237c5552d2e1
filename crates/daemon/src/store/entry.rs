//! Entries of the journal: everything that comes in, in order.
//!
//! Inputs of the scheduler are there, and what only the book needs: names, meters, measurements. Together with
//! the [header](JournalHeader) they rebuild both to the bit.

use arles_core::engine::{JobMeter, Meters};
use arles_core::estimate::Observation;
use arles_core::scheduler::Settings;
use arles_core::{Cluster, Fingerprint, Input, JobId, JobSpec, Output, Profile, Tenant, TenantId, Time};
use serde::{Deserialize, Serialize};

/// What a journal begins with and what never changes in it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JournalHeader {
    /// Nodes, GPUs and kinds at the beginning; what became of them is in the entries.
    pub cluster: Cluster,
    /// Rounds, leases and retries.
    pub settings: Settings,
    /// Tenants at the beginning; more may come.
    pub tenants: Vec<Tenant>,
    /// Policy at the beginning.
    pub policy: String,
    /// Names that a [`WorkloadId`](arles_core::WorkloadId) counts into; those of [`Entry::Workload`] follow. It never grows: a name that the
    /// library learns later comes in like any other.
    pub workloads: Vec<String>,
    /// Restart cost of jobs that do not state their own.
    pub restart_seconds: f64,
    /// When the journal began.
    pub begun: Time,
}

/// A job as it was submitted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// The job as the scheduler knows it.
    pub spec: JobSpec,
    /// Job name, for display only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Idempotency key, so that a request that is sent twice is processed once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Jobs of the array that it is a task of; 0 if it is of none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tasks: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A workload that no job named before.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NewWorkload {
    /// The name: chosen by somebody, or made of a program.
    pub name: String,
    /// What its first submitter said of it.
    #[serde(default)]
    pub profile: Profile,
    /// Who submitted it first.
    #[serde(default)]
    pub tenant: TenantId,
}

/// An idempotency key.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Key {
    /// Name of the token that used it: other tokens may use the same key.
    pub owner: String,
    /// The key, as the client chose it.
    pub word: String,
    /// Fingerprint of the request: another request under the same key is a mistake.
    pub request: u64,
}

/// A progress report of a job's own code.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProgressReport {
    /// Whose code reports.
    pub job: JobId,
    /// When it arrived.
    pub at: Time,
    /// Steps done since the job began.
    pub steps: f64,
    /// Steps per second, where the code measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Seconds of the scheduler's clock in one of the code's, which is the wall's.
    #[serde(default = "unaccelerated", skip_serializing_if = "is_unaccelerated")]
    pub speed: f64,
    /// Steps that a checkpoint contains, if there was one since the last entry.
    #[serde(default, rename = "safe", skip_serializing_if = "Option::is_none")]
    pub safe_steps: Option<f64>,
}

fn unaccelerated() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_unaccelerated(speed: &f64) -> bool {
    *speed == 1.0
}

/// Who asked for a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Actor {
    /// Name of the token; `loopback` where none was asked for.
    pub name: String,
    /// Address of the other end of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// What the mark beside the journal knew at a start, and the journal did not.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Resumed {
    /// No job gets a lesser number from now on.
    pub next_job: u64,
    /// The first and the last of the entries that were lost, if any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<(u64, u64)>,
}

/// One thing that came in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// A submitted job.
    Submit(Submission),
    /// A name that the jobs after it use; its number is the next.
    Workload(NewWorkload),
    /// Anything else for the scheduler.
    Input(Input),
    /// What the meters showed.
    Meters(Meters),
    /// A job that is over was dismissed; its last meter, if the engine still had one.
    Dismissed(JobId, Option<JobMeter>),
    /// The engine was sent the list of live jobs; these are the last meters of others. It closes no record: a job that ended while
    /// the list was on its way is metered once more, when it is dismissed.
    RollCall(Vec<JobMeter>),
    /// Rates and powers that were measured. A rate of 0 was not measured; then it is about the power alone.
    Measured(Vec<Observation>),
    /// What jobs' own code said of its progress, the newest of each job, in order of jobs.
    Progress(Vec<ProgressReport>),
    /// A start found that the journal had lost its end, or cannot tell: numbers of jobs go on above those that were given out.
    Resumed(Resumed),
}

impl Entry {
    /// The number that a job may get after this entry, where it says something of that.
    pub(crate) fn next_job(&self) -> Option<u64> {
        match self {
            Self::Submit(submission) => Some(submission.spec.id.0.saturating_add(1)),
            Self::Resumed(resumed) => Some(resumed.next_job),
            _ => None,
        }
    }
}

/// The fingerprint of anything that is written as JSON.
pub(crate) fn fingerprint(value: &impl Serialize) -> u64 {
    let mut print = Fingerprint::default();
    serde_json::to_writer(&mut print, value).expect("plain data");
    print.value()
}

/// A fingerprint of what followed from an entry: orders and notes. (Questions are left out: they follow from the same state, and a
/// problem is large.)
pub(crate) fn digest(outputs: &[Output]) -> u64 {
    let acts = outputs.iter().filter(|output| matches!(output, Output::Order(_) | Output::Note(_)));
    let mut print = Fingerprint::default();
    for output in acts {
        serde_json::to_writer(&mut print, output).expect("plain data");
    }
    print.value()
}
