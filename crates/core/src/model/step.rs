//! One step on one GPU, taken apart into what it waits for.

use crate::{Kind, Precision, Workload};

/// η_c: share of peak that matrix work in 32 bits reaches.
const VECTOR_EFFICIENCY: f64 = 0.62;
/// η_c: the same on matrix units, which are harder to keep fed.
const MATRIX_EFFICIENCY: f64 = 0.45;
/// η_b: share of peak bandwidth.
const BANDWIDTH_EFFICIENCY: f64 = 0.75;
/// y: what is left of these on a kind of 2014, which cuDNN never served well; 1 from 2016 on.
const EARLY_MATURITY: f64 = 0.68;
/// λ: least time of one kernel on a kind of 2016.
const KERNEL_SECONDS: f64 = 10.5e-6;
/// What becomes of λ from one year to the next.
const KERNEL_YEARLY: f64 = 0.88;
/// Power of the time between kernels, relative to that of work.
const GAP_POWER: f64 = 0.13;

/// The parts of a step, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Arithmetic.
    compute: f64,
    /// Traffic to and from device memory.
    memory: f64,
    /// The least time of all kernels.
    launch: f64,
    /// What happens off the GPU.
    pub(super) host: f64,
    /// Number of kernels.
    kernels: f64,
}

impl Step {
    /// The step of `w` on `k`, whether it fits or not.
    pub(super) fn of(w: &Workload, k: &Kind) -> Self {
        let maturity = maturity(k.year);
        let efficiency = match w.precision {
            Precision::Fp32 => VECTOR_EFFICIENCY,
            Precision::Tf32 | Precision::Fp16 | Precision::Int8 => MATRIX_EFFICIENCY,
        };
        let bandwidth = BANDWIDTH_EFFICIENCY * maturity.sqrt() * k.bandwidth_gbps * 1e9;
        let least = KERNEL_SECONDS / maturity.powi(2) * KERNEL_YEARLY.powi(i32::from(k.year) - 2016);
        let kernels = w.kernels_per_step.max(1.0);
        Self {
            compute: w.flops_per_step / (efficiency * maturity * peak_flops(w.precision, k)),
            memory: w.bytes_per_step / bandwidth,
            launch: kernels * least,
            host: w.host_seconds,
            kernels,
        }
    }

    /// Time that the GPU needs.
    pub(super) fn gpu(&self) -> f64 {
        self.compute + self.memory + self.launch
    }

    /// Length of the step with nobody else on the GPU.
    pub(super) fn seconds(&self) -> f64 {
        self.gpu().hypot(self.host)
    }

    /// Share of the step in which the GPU has something to do.
    pub(super) fn busy(&self) -> f64 {
        self.gpu() / self.seconds()
    }

    /// Time at full work that would draw the same power.
    pub(super) fn active_seconds(&self) -> f64 {
        self.compute + self.memory + GAP_POWER * self.launch
    }

    /// Mean length of a kernel.
    pub(super) fn kernel_seconds(&self) -> f64 {
        self.gpu() / self.kernels
    }
}

/// Peak FLOP/s in a precision, or in the next wider one where the kind lacks it.
pub(super) fn peak_flops(precision: Precision, k: &Kind) -> f64 {
    let tflops = match precision {
        Precision::Fp32 => k.fp32_tflops,
        Precision::Tf32 => k.tf32_tflops,
        Precision::Fp16 => k.fp16_tflops,
        Precision::Int8 => k.int8_tops.max(k.fp16_tflops),
    };
    tflops * 1e12
}

/// y: rises from 2014 to 2016, then stays.
fn maturity(year: u16) -> f64 {
    let years = (f64::from(year) - 2014.0).clamp(0.0, 2.0);
    EARLY_MATURITY + (1.0 - EARLY_MATURITY) * years / 2.0
}
