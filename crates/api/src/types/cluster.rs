//! The cluster: nodes, GPUs, kinds, and how fast workloads are on them.

use super::Drain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A host with GPUs of one kind, as of the last survey.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Node name.
    pub name: String,
    /// Kind of its GPUs.
    pub kind: String,
    /// Number of its first GPU.
    pub first_gpu: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// GPUs held by jobs.
    pub busy: u32,
    /// `up`, `down`, `silent` if it did not answer the last surveys, `draining` while jobs still run there, or `drained`.
    pub state: String,
    /// Power draw of its GPUs in watts.
    pub watts: f64,
    /// CPUs for jobs, if they are counted.
    #[serde(default)]
    pub cpus: Option<f64>,
    /// CPUs that jobs there asked for.
    #[serde(default)]
    pub busy_cpus: f64,
    /// Host memory for jobs in GiB, if it is counted.
    #[serde(default)]
    pub memory_gib: Option<f64>,
    /// Host memory in GiB that jobs there asked for.
    #[serde(default)]
    pub busy_memory_gib: f64,
    /// Rack it stands in, if that is known.
    #[serde(default)]
    pub rack: Option<String>,
    /// Why the node is drained, if it is.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// GPUs that cannot be used, counted from 0 on the node.
    #[serde(default)]
    pub lost_gpus: Vec<u32>,
    /// GPUs that jobs found to be slower than others of their kind.
    #[serde(default)]
    pub slow_gpus: Vec<SlowGpu>,
}

/// A GPU that is slower than others of its kind, by the rates that jobs of one GPU reported.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SlowGpu {
    /// Its number on the node, from 0.
    pub gpu: u32,
    /// Its speed over that of most others of its kind.
    pub speed_ratio: f64,
    /// Relative standard error of that.
    pub standard_error: f64,
    /// Runs of jobs that it is known from.
    pub runs: u32,
}

/// A page of nodes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Nodes {
    /// Nodes by the number of their first GPU.
    pub nodes: Vec<Node>,
    /// `cursor` of the next page; `null` on the last one.
    pub next: Option<String>,
}

/// All GPUs, in columns: entry n of each column is GPU n.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gpus {
    /// Kind names; `kind` indexes them.
    pub kinds: Vec<String>,
    /// Tenant names; `tenant` indexes them. A tenant's token sees only its own.
    pub tenants: Vec<String>,
    /// Kind of each GPU.
    pub kind: Vec<u16>,
    /// State of each GPU: 0 free, 1 busy, 2 shared by two jobs, 3 unavailable (lost, or its node is down, silent, drained or removed).
    pub state: Vec<u8>,
    /// Job on each GPU, if the caller may see it; 0 otherwise.
    pub job: Vec<u64>,
    /// Second job on a shared GPU, like `job`.
    pub partner: Vec<u64>,
    /// Tenant of the job; −1 if there is none that the caller may see.
    pub tenant: Vec<i32>,
    /// Power draw in watts.
    pub watts: Vec<f32>,
}

/// A GPU kind (model).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kind {
    /// Name of the kind.
    pub name: String,
    /// GPUs of this kind.
    pub gpus: u32,
    /// GPUs held by jobs.
    pub busy: u32,
    /// GPUs shared by two jobs.
    pub shared: u32,
    /// GPUs that are lost, or on nodes that are down, silent or drained.
    pub away: u32,
    /// Device memory in GiB.
    pub memory_gib: f64,
    /// Idle power of one GPU in watts.
    pub idle_watts: f64,
    /// Maximum power of one GPU in watts.
    pub peak_watts: f64,
    /// Current power draw of all GPUs of this kind in watts.
    pub watts: f64,
}

/// The GPU kinds of the cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kinds {
    /// Kinds in the order of the cluster's configuration.
    pub kinds: Vec<Kind>,
}

/// Workloads that jobs can run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Workloads {
    /// Workload names.
    pub workloads: Vec<String>,
}

/// Estimated and measured rate of a workload on a GPU kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EstimateCell {
    /// Name in the library of workloads.
    pub workload: String,
    /// GPUs of the gang.
    pub gang: u32,
    /// Workload that shares the GPU, if any.
    pub partner: Option<String>,
    /// GPU kind.
    pub kind: String,
    /// Estimated rate in steps per second, as used for scheduling.
    pub rate: f64,
    /// Estimated power draw of one GPU in watts.
    pub watts: f64,
    /// Relative standard error of the rate; 0 if exact. `null` where it would tell of other tenants' runs.
    pub standard_error: Option<f64>,
    /// Source of the estimate: `stated`, `initial`, `refined` or `measured`.
    pub source: String,
    /// Estimated rate before the first measurement.
    pub first_rate: Option<f64>,
    /// Last measured rate in steps per second.
    pub measured_rate: Option<f64>,
    /// Last measured power draw in watts.
    pub measured_watts: Option<f64>,
    /// Number of measurements. A tenant is told those of its own runs, unless the server shares all.
    pub measurements: u64,
}

/// A page of estimates.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Estimates {
    /// Estimates by workload, gang, partner and kind.
    pub estimates: Vec<EstimateCell>,
    /// `cursor` of the next page; `null` on the last one.
    pub next: Option<String>,
}
