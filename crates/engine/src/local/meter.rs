//! What GPUs draw: read from the devices where they have meters, or taken from the kind's published figures where they were only declared.
//!
//! An engine asks for one reading at a time and never averages: the energy between two readings is the difference of counters where the
//! device has one, else the power at the later reading times the seconds between.

use arles_core::Kind;

/// One GPU at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GpuReading {
    /// Present draw.
    pub watts: f64,
    /// Energy since some moment that stays the same, where the device counts it.
    pub joules: Option<f64>,
    /// Part of the last second in which the GPU had something to do, where the device says.
    pub utilisation: Option<f64>,
    /// Device memory in use, where the device says.
    pub memory_gib: Option<f64>,
}

/// Meters of this machine's GPUs.
pub trait GpuMeter: Send {
    /// Reads GPU number `device` of this machine. `busy` is whether a job holds it.
    ///
    /// # Errors
    /// A sentence, when the device cannot be read; what runs on it goes on.
    fn read(&mut self, device: u32, kind: &Kind, busy: bool) -> Result<GpuReading, String>;

    /// Whether figures are measured; otherwise they are nominal, and everything that shows them says so.
    fn measures(&self) -> bool;
}

/// GPUs that were declared and are not there: idle at the kind's idle power, busy at its limit.
pub struct Nominal;

impl GpuMeter for Nominal {
    fn read(&mut self, _: u32, kind: &Kind, busy: bool) -> Result<GpuReading, String> {
        Ok(GpuReading { watts: if busy { kind.max_watts } else { kind.idle_watts }, ..GpuReading::default() })
    }

    fn measures(&self) -> bool {
        false
    }
}
