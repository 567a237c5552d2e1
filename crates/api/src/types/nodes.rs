//! Changes of the cluster: nodes that are drained, removed and added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a node gets no new jobs, and by when it must be empty.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Reason, for whoever asks later.
    #[schemars(length(min = 1, max = 500))]
    pub why: String,
    /// Seconds from now by which the node must be empty; without it, jobs there may run to their end.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub deadline_seconds: Option<f64>,
}

/// Why and since when a node is drained.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Drain {
    /// Reason.
    pub why: String,
    /// When the drain began, in seconds since 1970.
    pub since: f64,
    /// By when it must be empty, if there is a deadline.
    pub deadline: Option<f64>,
}

/// A node that joins the cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeRequest {
    /// Node name, unique in the cluster.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// Kind of its GPUs, by any name that `arles kinds` knows; with `specification`, the name of a new kind.
    #[schemars(length(min = 1, max = 100))]
    pub kind: String,
    /// Figures of a kind that the library lacks.
    #[serde(default)]
    pub specification: Option<KindSpec>,
    /// Number of GPUs.
    #[serde(deserialize_with = "super::whole::gpus")]
    #[schemars(range(min = 1, max = 100_000))]
    pub gpus: u32,
    /// CPUs for jobs; not counted if left out.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e6))]
    pub cpus: Option<f64>,
    /// Host memory for jobs in GiB; not counted if left out.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub memory_gib: Option<f64>,
    /// Rack it stands in, or switch or NVLink domain: gangs are kept within one where they can be.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub rack: Option<String>,
}

/// The kind that a node's GPUs really are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindCorrection {
    /// Kind, by any name that `arles kinds` knows; with `specification`, the name of a new kind.
    #[schemars(length(min = 1, max = 100))]
    pub kind: String,
    /// Figures of a kind that the library lacks.
    #[serde(default)]
    pub specification: Option<KindSpec>,
}

/// Figures of a GPU kind, as its maker publishes them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindSpec {
    /// The product as its maker writes it; the kind's name if left out.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub product: Option<String>,
    /// Year of introduction.
    #[serde(default)]
    #[schemars(range(min = 1990, max = 2100))]
    pub year: Option<u16>,
    /// Device memory in GiB.
    #[schemars(range(min = 0.1, max = 100_000.0))]
    pub memory_gib: f64,
    /// Peak memory bandwidth in GB/s.
    #[schemars(range(min = 1.0, max = 1e7))]
    pub bandwidth_gbps: f64,
    /// Peak dense rate in 32-bit floating point, in TFLOP/s.
    #[schemars(range(min = 0.01, max = 1e6))]
    pub fp32_tflops: f64,
    /// The same with reduced mantissa (TF32); as `fp32_tflops` if left out.
    #[serde(default)]
    #[schemars(range(min = 0.01, max = 1e6))]
    pub tf32_tflops: Option<f64>,
    /// Peak dense rate in 16-bit floating point, in TFLOP/s; as `fp32_tflops` if left out.
    #[serde(default)]
    #[schemars(range(min = 0.01, max = 1e6))]
    pub fp16_tflops: Option<f64>,
    /// Peak dense rate in 8 bits, in TOP/s; none if left out.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e6))]
    pub int8_tops: Option<f64>,
    /// Peak bandwidth to another GPU of the same node in GB/s; 16 (PCIe) if left out.
    #[serde(default)]
    #[schemars(range(min = 0.1, max = 1e6))]
    pub link_gbps: Option<f64>,
    /// Idle power in watts.
    #[schemars(range(min = 0.0, max = 1e5))]
    pub idle_watts: f64,
    /// Power limit in watts.
    #[schemars(range(min = 1.0, max = 1e5))]
    pub max_watts: f64,
    /// Price of an hour of one GPU in US dollars; 1 if left out.
    #[serde(default)]
    #[schemars(range(min = 0.000_001, max = 1e6))]
    pub hourly_usd: Option<f64>,
    /// Most jobs that may share one GPU; 2 if left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2))]
    pub max_jobs: Option<u8>,
    /// Other names of the same kind.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub aliases: Vec<String>,
}
