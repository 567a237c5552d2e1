//! What GPUs draw: read from the devices where they have meters, or taken from the kind's published figures where they were only declared.
//!
//! An engine asks for one reading at a time and never averages: the energy between two readings is the difference of counters where the
//! device has one, else the power at the later reading times the seconds between.

use arles_core::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One GPU at one moment. What a device does not say is `None`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuReading {
    /// Present draw.
    pub watts: f64,
    /// Energy since some moment that stays the same, where the device counts it.
    pub joules: Option<f64>,
    /// Part of the last second in which the GPU had something to do.
    pub utilisation: Option<f64>,
    /// Part of the last second in which device memory was read or written.
    pub memory_utilisation: Option<f64>,
    /// Device memory in use.
    pub memory_gib: Option<f64>,
    /// Temperature of the chip.
    pub celsius: Option<f64>,
    /// Clock of the multiprocessors.
    pub clock_mhz: Option<f64>,
    /// The power limit in force.
    pub limit_watts: Option<f64>,
    /// Whether the limit holds the clock back now.
    pub power_capped: bool,
    /// Whether heat or the power supply holds the clock back now: the card is slower than its kind.
    pub slowed_down: bool,
    /// Memory errors since the driver was loaded that could not be corrected.
    pub ecc_errors: Option<u64>,
    /// Critical errors that the driver told of since the meter was opened.
    pub xid_errors: Option<u64>,
    /// The driver's number (Xid) of the last of them.
    pub last_xid: Option<u64>,
}

/// Why a GPU says nothing, in a sentence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuTrouble {
    /// It is gone, or must be reset: whatever runs on it cannot go on.
    Lost(String),
    /// It cannot be read now; what runs on it goes on.
    Unreadable(String),
}

impl fmt::Display for GpuTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Lost(sentence) | Self::Unreadable(sentence)) = self;
        f.write_str(sentence)
    }
}

/// Meters of this machine's GPUs.
pub trait GpuMeter: Send {
    /// Reads a GPU by its name as `CUDA_VISIBLE_DEVICES` takes it. `busy` is whether a job holds it.
    ///
    /// # Errors
    /// When the device cannot be read, or is gone.
    fn read(&mut self, device: &str, kind: &Kind, busy: bool) -> Result<GpuReading, GpuTrouble>;

    /// Whether figures are measured; otherwise they are nominal, and everything that shows them says so.
    fn measures(&self) -> bool;

    /// Which pods have which devices, where what shows the figures says that as well.
    fn device_users(&self) -> Vec<DeviceUser> {
        Vec::new()
    }
}

/// A device of a node that a pod of Kubernetes has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceUser {
    /// The node's name, without a domain.
    pub node: String,
    /// The device's number there.
    pub device: u32,
    /// Namespace and name of the pod, with a slash between.
    pub pod: String,
}

/// GPUs that were declared and are not there: idle at the kind's idle power, busy at its limit.
pub struct Nominal;

impl GpuMeter for Nominal {
    fn read(&mut self, _: &str, kind: &Kind, busy: bool) -> Result<GpuReading, GpuTrouble> {
        Ok(GpuReading { watts: if busy { kind.max_watts } else { kind.idle_watts }, ..GpuReading::default() })
    }

    fn measures(&self) -> bool {
        false
    }
}

/// A line of a recorded session: what one GPU said at one reading, or why it said nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecordedReading {
    /// Name of the GPU.
    pub gpu: String,
    /// Its answer, or why there is none.
    pub said: Result<GpuReading, GpuTrouble>,
}

/// Readings that a real machine gave earlier, one after another for each GPU: for tests where there is no GPU. The last one is said for ever.
pub struct Recorded {
    readings: BTreeMap<String, Vec<Result<GpuReading, GpuTrouble>>>,
    at: BTreeMap<String, usize>,
}

impl Recorded {
    /// A session, a JSON object to a line, as `arles agent --record` writes it.
    ///
    /// # Errors
    /// A sentence about the first line that is none.
    pub fn read_lines(text: &str) -> Result<Self, String> {
        let mut readings: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let RecordedReading { gpu, said } = serde_json::from_str(line)
                .map_err(|error| format!("line {}: this is no reading of a GPU: {error}", number + 1))?;
            readings.entry(gpu).or_default().push(said);
        }
        Ok(Self { readings, at: BTreeMap::new() })
    }
}

impl GpuMeter for Recorded {
    fn read(&mut self, device: &str, _: &Kind, _: bool) -> Result<GpuReading, GpuTrouble> {
        let unknown = || GpuTrouble::Unreadable(format!("nothing was recorded of GPU {device}"));
        let readings = self.readings.get(device).ok_or_else(unknown)?;
        let at = self.at.entry(device.to_owned()).or_insert(0);
        let said = readings[(*at).min(readings.len() - 1)].clone();
        *at += 1;
        said
    }

    fn measures(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Library;

    #[test]
    fn a_session_is_read_back() {
        let reading = GpuReading { watts: 76.5, joules: Some(12.25), utilisation: Some(0.5), ..GpuReading::default() };
        let lines: String = [Ok(reading), Err(GpuTrouble::Lost("GPU 0 has fallen off the bus".into()))]
            .map(|said| {
                serde_json::to_string(&RecordedReading { gpu: "GPU-a".into(), said }).expect("plain data") + "\n"
            })
            .concat();
        let mut session = Recorded::read_lines(&lines).expect("a session");
        let kind = Library::builtin().kind("h200").expect("in the library");
        assert_eq!(session.read("GPU-a", kind, true), Ok(reading));
        assert!(
            session.read("GPU-a", kind, true).is_err() && session.read("GPU-a", kind, true).is_err(),
            "the last for ever"
        );
        assert!(session.read("GPU-b", kind, true).is_err_and(|said| said.to_string().contains("GPU-b")));
        let wrong = Recorded::read_lines("{\"gpu\": \"GPU-a\"}").err().expect("no reading");
        assert!(wrong.starts_with("line 1"), "{wrong}");
    }
}
