//! A workload: what a job runs, by the features that decide how fast it is.

use serde::{Deserialize, Serialize};

/// Whether a workload has an end (steps) or serves requests at a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Runs a number of steps.
    Training,
    /// Serves at a rate.
    Inference,
}

/// The arithmetic that most of the work is done in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floating point.
    Fp32,
    /// 32-bit storage, reduced-mantissa matrix units where the kind has them.
    Tf32,
    /// 16-bit floating point on matrix units.
    Fp16,
    /// 8-bit arithmetic.
    Int8,
}

/// A model at one batch size: what the catalog knows about. A *step* is one batch (training: forward,
/// backward and update; inference: forward).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// The name used everywhere in arles, for instance `resnet50-b64`.
    pub name: String,
    /// The model, without its batch size.
    pub family: String,
    /// `vision`, `language`, `speech`, `recommendation`, `diffusion`, `reinforcement`.
    pub domain: String,
    /// Training or inference.
    pub mode: Mode,
    /// Arithmetic of the matrix work.
    pub precision: Precision,
    /// Samples per step on one GPU.
    pub batch: u32,
    /// Parameters.
    pub params: f64,
    /// Floating-point operations of one step on one GPU.
    pub flops_per_step: f64,
    /// Bytes moved to and from device memory in one step on one GPU.
    pub bytes_per_step: f64,
    /// Bytes of gradients that every GPU of a gang exchanges with the others in one step; 0 where none.
    pub synced_bytes: f64,
    /// Kernels launched on one GPU in one step.
    pub kernels_per_step: f64,
    /// Device memory needed on one GPU at this batch size.
    pub memory_gib: f64,
    /// Time of one step that no GPU shortens: input pipeline, launches, Python.
    pub host_seconds: f64,
    /// Other names of the same thing, for instance those of published traces.
    pub aliases: Vec<String>,
}

/// What is known of a workload that is not in the library. Every part is optional: most programs come with nothing at all.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// A workload of the library that it is, or is much like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// As [`Workload::domain`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Training or inference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Arithmetic of the matrix work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Samples per step on one GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<f64>,
    /// Device memory needed on one GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<f64>,
    /// Share of the time in which the GPU had something to do, 0 to 1, as seen in a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_utilisation: Option<f64>,
    /// Share of peak memory bandwidth, 0 to 1, as seen in a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_utilisation: Option<f64>,
}
