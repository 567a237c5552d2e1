//! A GPU kind: a model with its specification.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A GPU model, by the figures its maker publishes. One *device* as the operating system sees it.
///
/// A GPU can be told to draw less. A kind under a power limit is a *mode* of it and a kind of its own, `h200@400W`, wherever something is
/// known by kind (rates, watts, what was measured): only its GPUs are those of the kind as sold.
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
    /// The limit that it is run under, of a mode; `None` for the kind as sold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_limit: Option<f64>,
    /// What an hour of one GPU costs on demand, in US dollars; positive.
    pub hourly_usd: f64,
    /// Most jobs that may share one GPU of this kind.
    pub max_jobs: u8,
    /// Other names of the same thing: Slurm GRES types, `nvidia.com/gpu.product` strings, NVML names.
    pub aliases: Vec<String>,
}

/// Parts that MIG divides a GPU's arithmetic into, and its memory.
const MIG_COMPUTE_PARTS: u8 = 7;
const MIG_MEMORY_PARTS: f64 = 8.0;
/// Gigabytes to a GiB.
const GIB_IN_GB: f64 = 1.073_741_824;

/// Why a kind cannot be run under a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct BadLimit {
    name: String,
    watts: f64,
    least: f64,
    most: f64,
}

impl fmt::Display for BadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, watts, least, most } = self;
        write!(
            f,
            "{name} cannot be run under a limit of {watts} W; give more than {least} W, which it draws unused, "
        )?;
        write!(f, "and less than {most} W, its limit as sold")
    }
}

impl std::error::Error for BadLimit {}

impl Kind {
    /// The same GPUs under a power limit.
    ///
    /// # Errors
    /// When the limit is not between what it draws unused and its limit as sold.
    pub fn limited_to(&self, watts: f64) -> Result<Self, BadLimit> {
        let (least, most) = (self.idle_watts, self.max_watts);
        if !(watts > least && watts < most) {
            return Err(BadLimit { name: self.name.clone(), watts, least, most });
        }
        let name = format!("{}@{watts}W", self.sold_as());
        Ok(Self { name, power_limit: Some(watts), aliases: Vec::new(), ..self.clone() })
    }

    /// A slice of such a GPU (NVIDIA's MIG) by its profile, `3g.71gb`: three of seven parts of its arithmetic and a share of its memory. It is a kind
    /// of its own, `h200-3g.71gb`, for one job at a time. `None` where that is no profile of this kind.
    #[must_use]
    pub fn slice(&self, profile: &str) -> Option<Self> {
        let (parts, gigabytes) = profile.strip_suffix("gb")?.split_once("g.")?;
        let (parts, gigabytes) = (parts.parse::<u8>().ok()?, gigabytes.parse::<f64>().ok()?);
        // A profile is named by memory in round gigabytes; what it has is eighths of the whole.
        let eighths = (MIG_MEMORY_PARTS * gigabytes / (self.memory_gib * GIB_IN_GB)).round();
        if !(1..=MIG_COMPUTE_PARTS).contains(&parts) || !(1.0..=MIG_MEMORY_PARTS).contains(&eighths) || self.is_mode() {
            return None;
        }
        let (compute, memory) = (f64::from(parts) / f64::from(MIG_COMPUTE_PARTS), eighths / MIG_MEMORY_PARTS);
        Some(Self {
            name: format!("{}-{profile}", self.name),
            product: format!("{} MIG {profile}", self.product),
            memory_gib: memory * self.memory_gib,
            bandwidth_gbps: memory * self.bandwidth_gbps,
            fp32_tflops: compute * self.fp32_tflops,
            tf32_tflops: compute * self.tf32_tflops,
            fp16_tflops: compute * self.fp16_tflops,
            int8_tops: compute * self.int8_tops,
            idle_watts: compute * self.idle_watts,
            max_watts: compute * self.max_watts,
            hourly_usd: compute * self.hourly_usd,
            max_jobs: 1,
            aliases: Vec::new(),
            ..self.clone()
        })
    }

    /// Whether it is a kind under a power limit.
    #[must_use]
    pub fn is_mode(&self) -> bool {
        self.power_limit.is_some()
    }

    /// Name of the kind whose GPUs it takes: its own, unless it is a mode.
    #[must_use]
    pub fn sold_as(&self) -> &str {
        match (self.power_limit, self.name.rsplit_once('@')) {
            (Some(_), Some((kind, _))) => kind,
            _ => &self.name,
        }
    }

    /// The most that it draws.
    #[must_use]
    pub fn limit_watts(&self) -> f64 {
        self.power_limit.unwrap_or(self.max_watts)
    }
}
