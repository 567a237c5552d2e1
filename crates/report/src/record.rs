//! What a simulated run leaves behind: the numbers that are printed, plotted and written as CSV.

use serde::Serialize;

/// What became of one job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobRecord {
    /// Its number in the trace.
    pub id: u64,
    /// Index into [`Summary::tenants`].
    pub tenant: u32,
    /// Index into [`RunRecord::workloads`].
    pub workload: u32,
    /// GPUs held at once.
    pub gang: u32,
    /// When it was submitted.
    pub arrival_seconds: f64,
    /// First start; `None` if it never ran.
    pub start_seconds: Option<f64>,
    /// End; `None` if it was still there when the run stopped.
    pub end_seconds: Option<f64>,
    /// Whether it did all its work.
    pub completed: bool,
    /// Starts after the first.
    pub restarts: u32,
    /// GPU time held, in GPU seconds.
    pub gpu_seconds: f64,
    /// Seconds between first start and end (or deadline) during which its promise was due.
    pub due_seconds: f64,
    /// Of these, seconds spent below the promised rate.
    pub violated_seconds: f64,
    /// Energy charged to it for computing.
    pub active_joules: f64,
    /// Energy charged to it as its part of the idle power of the GPUs it held.
    pub idle_joules: f64,
    /// Energy spent on restarting it (contained in neither of the above).
    pub restart_joules: f64,
}

/// A kind of the cluster.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KindRecord {
    /// Short name such as v100.
    pub name: String,
    /// How many the cluster has.
    pub gpus: u32,
    /// Busy GPU seconds over available GPU seconds.
    pub utilisation_ratio: f64,
    /// Energy of its GPUs while they had a job.
    pub active_kwh: f64,
    /// Energy of its GPUs' idle power, shared or unused.
    pub idle_kwh: f64,
}

/// What one tenant got.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TenantRecord {
    /// Name of the tenant.
    pub name: String,
    /// Weight of the tenant.
    pub weight: f64,
    /// Weight over the sum of the weights.
    pub entitlement_ratio: f64,
    /// Its GPU time over all tenants' GPU time.
    pub share_ratio: f64,
    /// GPU seconds it held.
    pub gpu_seconds: f64,
    /// GPU seconds that the policy granted it: the integral of its allocations over time.
    pub granted_gpu_seconds: f64,
    /// Without those that were cancelled or given up.
    pub jobs_completed: u64,
    /// Mean completion time of these.
    pub mean_jct_seconds: f64,
    /// Energy charged to its jobs.
    pub energy_kwh: f64,
}

/// The state of the cluster at one moment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sample {
    /// Time of the sample.
    pub at_seconds: f64,
    /// GPUs in use, by kind.
    pub busy: Vec<u32>,
    /// Jobs without a GPU.
    pub waiting: u32,
    /// Jobs that hold GPUs.
    pub running: u32,
    /// Power of the whole cluster.
    pub watts: f64,
    /// Energy of the whole cluster until then.
    pub energy_kwh: f64,
}

/// How much an estimator knows at one moment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LearningSample {
    /// Time of the sample.
    pub at_seconds: f64,
    /// Measurements until then.
    pub observations: u64,
    /// Mean |estimate/truth − 1| of rates alone, over all that the scheduler was told; `None` while it was told nothing.
    pub solo_error_ratio: Option<f64>,
    /// The same of rates beside a partner, both sides.
    pub pair_error_ratio: Option<f64>,
}

/// A stretch of one GPU's time, for the Gantt chart.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GanttSpan {
    /// GPU number.
    pub gpu: u32,
    /// Job that held it.
    pub job: u64,
    /// The job's tenant.
    pub tenant: u32,
    /// Start of the span.
    pub from_seconds: f64,
    /// End of the span.
    pub until_seconds: f64,
    /// Whether another job shared the GPU.
    pub shared: bool,
}

/// The numbers of a run, as `-o json` prints them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Name of the policy.
    pub policy: String,
    /// Who told it how fast everything is; `oracle` is always right.
    pub estimator: String,
    /// Mean completion time (end minus arrival) of completed jobs.
    pub mean_jct_seconds: f64,
    /// Median of the same.
    pub p50_jct_seconds: f64,
    /// 99th percentile of the same.
    pub p99_jct_seconds: f64,
    /// Time of the last completion.
    pub makespan_seconds: f64,
    /// Busy GPU time over GPU time until the last end.
    pub utilisation_ratio: f64,
    /// The same by kind, in the cluster's order.
    pub utilisation_by_kind: std::collections::BTreeMap<String, f64>,
    /// Energy of all GPUs until the last end.
    pub energy_kwh: f64,
    /// Of this, spent on computing.
    pub energy_active_kwh: f64,
    /// Of this, the idle power of every GPU, used or not.
    pub energy_idle_kwh: f64,
    /// Of the idle part, drawn by GPUs that nobody used.
    pub energy_unused_kwh: f64,
    /// Of the active part, lost to restarts.
    pub energy_restart_kwh: f64,
    /// What the energy cost, in the money of the prices; missing without prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Kilograms of CO₂ that it emitted, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carbon_kg: Option<f64>,
    /// Jobs that ended after their deadline, of those that had one; missing without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines_missed_ratio: Option<f64>,
    /// Time below a promised rate over time a promise was due.
    pub sla_violation_ratio: f64,
    /// Jobs that did all their work.
    pub jobs_completed: u64,
    /// Scheduling rounds.
    pub rounds: u64,
    /// Most jobs that were there at once.
    pub peak_live_jobs: u64,
    /// Starts of a job on other GPUs than it last had.
    pub migrations: u64,
    /// Gangs that were placed on more than one kind.
    pub mixed_gangs: u64,
    /// Decisions for which the policy had no usable answer, so that the last one stayed in force.
    pub rounds_unanswered: u64,
    /// Measurements that the estimator was given.
    pub observations: u64,
    /// One record per tenant.
    pub tenants: Vec<TenantRecord>,
    /// CPU-bound time of the simulation itself. The one number that differs between runs.
    pub wall_seconds: f64,
}

/// Everything about one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunRecord {
    /// The printed numbers.
    pub summary: Summary,
    /// By kind, in the cluster's order.
    pub kinds: Vec<KindRecord>,
    /// Names of workloads that jobs refer to.
    pub workloads: Vec<String>,
    /// Every job of the trace, in order of arrival.
    pub jobs: Vec<JobRecord>,
    /// The cluster over time, in order; thinned on long runs.
    pub timeline: Vec<Sample>,
    /// What the estimator knew over time; empty where it is always right.
    pub learning: Vec<LearningSample>,
    /// Nodes of the cluster.
    pub nodes: u32,
    /// Who held which GPU, for the GPUs in `gantt_labels`.
    pub gantt: Vec<GanttSpan>,
    /// The GPUs recorded in `gantt`, each with its node's name: all of a small cluster, a sample spread over every kind of a large one.
    pub gantt_labels: Vec<(u32, String)>,
    /// When recording of `gantt` stopped because it had grown too long; `None` if it covers the whole run.
    pub gantt_until_seconds: Option<f64>,
}
