//! A GPU kind: a model with its specification.

use serde::{Deserialize, Serialize};

/// A GPU model, by the figures its maker publishes. One *device* as the operating system sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kind {
    /// The short name used everywhere in arles, for instance `v100`.
    pub name: String,
    /// The product as its maker writes it.
    pub product: String,
    /// Year of introduction.
    pub year: u16,
    /// Device memory.
    pub memory_gib: f64,
    /// Peak memory bandwidth, in GB/s.
    pub bandwidth_gbps: f64,
    /// Peak dense rate in 32-bit floating point, in TFLOP/s.
    pub fp32_tflops: f64,
    /// Peak dense rate of 32-bit matrix work with reduced mantissa (TF32 and its like); equals `fp32_tflops` where absent.
    pub tf32_tflops: f64,
    /// Peak dense rate in 16-bit floating point, matrix units included, in TFLOP/s.
    pub fp16_tflops: f64,
    /// Peak dense rate in 8 bits (FP8 or INT8), in TFLOP/s (TOP/s); 0 where there is none.
    pub int8_tops: f64,
    /// Peak bandwidth to another GPU of the same node, per direction, in GB/s: NVLink and its like, or PCIe.
    pub link_gbps: f64,
    /// Power drawn when on and unused.
    pub idle_watts: f64,
    /// Power limit as sold.
    pub max_watts: f64,
    /// What an hour of one GPU costs on demand, in US dollars; positive.
    pub hourly_usd: f64,
    /// Most jobs that may share one GPU of this kind.
    pub max_jobs: u8,
    /// Other names of the same thing: Slurm GRES types, `nvidia.com/gpu.product` strings, NVML names.
    pub aliases: Vec<String>,
}
