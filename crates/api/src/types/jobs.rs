//! Jobs: submission, state, queue, explanation, progress.

use super::Energy;
use super::programs::{ArrayRequest, Dependency, JobArray, JobProgram, Needs, Profile, Program};
use super::tenants::{WEIGHT_MAX, WEIGHT_MIN};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A job submission. What is not given is not written, so that a request reads the same whichever version made it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// Job name, for display only.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub name: Option<String>,
    /// Tenant that the job is submitted for. Optional with a tenant's own token.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub tenant: Option<String>,
    /// What runs: any name that `arles workloads` lists. With a program it may be any name, and runs of one name are estimated together; if
    /// left out, it follows from the program's image, script and entry point.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub workload: Option<String>,
    /// Program to run; without one the workload must be known, and is played by the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// What is known of a workload that the library lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// GPUs of the gang; all of them are allocated at once or none. With `largest_gang`, the fewest that the job can use.
    #[serde(default = "one", deserialize_with = "super::whole::gpus")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub gang: u32,
    /// The most GPUs that the job can use, if it is elastic: the scheduler then chooses how many it holds, and restarts it to change that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub largest_gang: Option<u32>,
    /// Training steps to run. Give either this or `period_seconds`; a program with neither runs until it ends.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 1e15))]
    pub steps: Option<f64>,
    /// Seconds of service, for a job that serves at a rate instead of running a number of steps.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 1e9))]
    pub period_seconds: Option<f64>,
    /// Guaranteed rate of the whole gang (SLA), in steps per second.
    #[serde(default)]
    #[schemars(range(min = 1e-9, max = 1e12))]
    pub floor: Option<f64>,
    /// Priority weight among the tenant's own jobs.
    #[serde(default = "unit")]
    #[schemars(range(min = WEIGHT_MIN, max = WEIGHT_MAX))]
    pub weight: f64,
    /// Seconds lost at every start after the first; the server's default if not given.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e6))]
    pub restart_seconds: Option<f64>,
    /// GPU kinds that the job may run on, by any of their names; empty means any.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub kinds: Vec<String>,
    /// CPUs, host memory and device memory that it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// Seconds that it may run in all, restarts included; then it is stopped and fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0, max = 1e9))]
    pub time_limit_seconds: Option<f64>,
    /// How often it is tried again after a failure; the server's default if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub retries: Option<u32>,
    /// Whether it waits until it is released.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Jobs that must be over before it may start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub after: Vec<Dependency>,
    /// Unix time by which it must have ended; until then it may wait for cheaper electricity, as far as its tenant's share allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e11))]
    pub before: Option<f64>,
    /// Submits one job for every index of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayRequest>,
}

/// One GPU of any kind for nobody in particular: for `..JobRequest::default()`.
impl Default for JobRequest {
    fn default() -> Self {
        Self {
            name: None,
            tenant: None,
            workload: None,
            program: None,
            profile: None,
            gang: one(),
            largest_gang: None,
            steps: None,
            period_seconds: None,
            floor: None,
            weight: unit(),
            restart_seconds: None,
            kinds: Vec::new(),
            needs: None,
            time_limit_seconds: None,
            retries: None,
            held: false,
            after: Vec::new(),
            before: None,
            array: None,
        }
    }
}

fn one() -> u32 {
    1
}

fn unit() -> f64 {
    1.0
}

/// Where a job stands; the last three are final.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// In the queue; holds no GPUs.
    Waiting,
    /// GPUs are allocated and the gang is being started.
    Starting,
    /// The gang runs.
    Running,
    /// The gang is being stopped.
    Stopping,
    /// All work is done.
    Completed,
    /// Failed, and not retried any more.
    Failed,
    /// Cancelled by a user.
    Cancelled,
}

impl JobState {
    /// All states, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Waiting, Self::Starting, Self::Running, Self::Stopping, Self::Completed, Self::Failed, Self::Cancelled];

    /// Whether the state is terminal.
    #[must_use]
    pub fn over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// As the API writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why a job is in its state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Machine-readable code; stable across versions.
    pub code: String,
    /// Human-readable text.
    pub text: String,
    /// Estimated seconds until it changes, if known.
    pub seconds: Option<f64>,
}

/// GPUs that a job holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// GPU kind.
    pub kind: String,
    /// GPU numbers.
    pub gpus: Vec<u32>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Whether the gang spans more nodes than necessary.
    pub spread: bool,
    /// Whether another job shares the GPU.
    pub shared: bool,
    /// The job that shares the GPU, if the caller may see it.
    pub partner: Option<u64>,
}

/// A job, live or past, as its tenant may see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Job number.
    pub id: u64,
    /// Job name, for display only.
    pub name: Option<String>,
    /// Tenant that the job belongs to.
    pub tenant: String,
    /// Workload that it runs.
    pub workload: String,
    /// GPUs of the gang; of an elastic job, as many as it is to hold now.
    pub gang: u32,
    /// The fewest GPUs that an elastic job can use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_gang: Option<u32>,
    /// The most GPUs that an elastic job can use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_gang: Option<u32>,
    /// Training steps to run, for a job with a number of steps.
    pub steps: Option<f64>,
    /// Seconds of service, for a job that serves for a period.
    pub period_seconds: Option<f64>,
    /// Guaranteed rate in steps per second, if any.
    pub floor: Option<f64>,
    /// Priority weight among the tenant's own jobs.
    pub weight: f64,
    /// Seconds lost at every start after the first.
    pub restart_seconds: f64,
    /// GPU kinds that the job may run on; empty means any.
    pub kinds: Vec<String>,
    /// Current state.
    pub state: JobState,
    /// Why the job waits, or why it failed.
    pub reason: Option<Reason>,
    /// GPUs that it holds; `null` if none.
    pub place: Option<Place>,
    /// Time of submission.
    pub submitted_at: f64,
    /// Time of the first start.
    pub started_at: Option<f64>,
    /// Time at which it was completed, failed or cancelled.
    pub ended_at: Option<f64>,
    /// Steps done as of the last survey, checkpointed or not.
    pub steps_done: f64,
    /// Fraction of the work that is done, 0 to 1.
    pub done_ratio: Option<f64>,
    /// Measured rate in steps per second.
    pub rate: Option<f64>,
    /// Estimated rate on the GPUs that it holds, in steps per second.
    pub estimated_rate: Option<f64>,
    /// Starts after the first.
    pub restarts: u32,
    /// Consecutive failures.
    pub failures: u32,
    /// GPU seconds held so far.
    pub gpu_seconds: f64,
    /// Energy used so far.
    pub energy: Energy,
    /// Last progress report of the job's own code, if it sends any.
    pub reported: Option<Progress>,
    /// Program that it runs, if it is one.
    #[serde(default)]
    pub program: Option<JobProgram>,
    /// Whether it runs until it ends by itself: it has neither steps nor a period.
    #[serde(default)]
    pub open: bool,
    /// Seconds that an open job is expected to run on its fastest kind, from earlier runs of its workload.
    #[serde(default)]
    pub expected_seconds: Option<f64>,
    /// Estimated time of its end, if it keeps the GPUs that it holds; `null` where nothing can be said.
    #[serde(default)]
    pub eta: Option<f64>,
    /// What the estimated end rests on, or why there is none.
    #[serde(default)]
    pub promise: Option<String>,
    /// Exit code of its program, once it has ended by itself.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Whether it waits until it is released.
    #[serde(default)]
    pub held: bool,
    /// Jobs that had to be over before it might start, as of its submission.
    #[serde(default)]
    pub after: Vec<Dependency>,
    /// The array that it is a task of, if any.
    #[serde(default)]
    pub array: Option<JobArray>,
    /// Seconds that it may run in all, if limited.
    #[serde(default)]
    pub time_limit_seconds: Option<f64>,
    /// How often it is tried again after a failure, if it says so itself.
    #[serde(default)]
    pub retries: Option<u32>,
    /// CPUs, host memory and device memory that it needs.
    #[serde(default)]
    pub needs: Needs,
}

/// A page of jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// Jobs in the requested order.
    pub jobs: Vec<Job>,
    /// `cursor` of the next page; `null` on the last one.
    pub next: Option<String>,
    /// Live jobs by state, of the tenants that the caller may see.
    pub live: Vec<StateCount>,
}

/// Number of jobs in a state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StateCount {
    /// Where the job stands.
    pub state: JobState,
    /// Number of jobs in it.
    pub jobs: u64,
}

/// A page of waiting jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Waiting jobs, oldest first.
    pub jobs: Vec<Job>,
    /// `cursor` of the next page; `null` on the last one.
    pub next: Option<String>,
    /// Waiting jobs by reason, of the tenants that the caller may see.
    pub reasons: Vec<ReasonCount>,
}

/// Number of jobs that wait for a reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReasonCount {
    /// Code of the reason.
    pub code: String,
    /// Number of jobs.
    pub jobs: u64,
}

/// Why a job waits or runs where it does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Job number.
    pub id: u64,
    /// Current state.
    pub state: JobState,
    /// The scheduler's reason, as of now.
    pub reason: Reason,
    /// Estimated start of a waiting job, if known.
    pub starts_at: Option<f64>,
    /// What the policy granted the job's class on each kind, if anything.
    pub standing: Vec<Standing>,
    /// Estimated rate on each kind, fastest first.
    pub rates: Vec<KindRate>,
}

/// What a class of jobs was granted on a GPU kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// GPU kind.
    pub kind: String,
    /// Gangs at a time, on average.
    pub gangs: f64,
    /// Rounds times gangs that the class is behind its share; negative if ahead.
    pub owed: f64,
}

/// Estimated rate of a job on a GPU kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KindRate {
    /// GPU kind.
    pub kind: String,
    /// Steps per second of the whole gang.
    pub rate: f64,
    /// Power draw of one GPU in watts.
    pub watts: f64,
    /// Relative standard error of the rate; 0 if exact. `null` where it would tell of other tenants' runs.
    pub standard_error: Option<f64>,
    /// Source of the estimate: `stated`, `initial`, `refined` or `measured`.
    pub source: String,
}

/// Progress report of a job's own code.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Steps done since the job began.
    #[schemars(range(min = 0.0, max = 1e15))]
    pub steps: f64,
    /// Steps per second since the last report.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e12))]
    pub rate: Option<f64>,
    /// Whether a checkpoint contains all of these steps.
    #[serde(default)]
    pub checkpointed: bool,
}

/// What a job's own code should do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Keep running.
    Continue,
    /// Write a checkpoint and exit.
    CheckpointAndStop,
}

/// Reply to a progress report.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Instruction {
    /// What to do next.
    pub action: Action,
    /// Seconds until the gang is killed, if it should stop.
    pub grace_seconds: Option<f64>,
}
