//! What workloads draw when they have a GPU to themselves: what the energy of a shared one is divided by (`core/src/meter.rs`).
//!
//! Measured here, on this machine's own cards, whenever somebody holds one alone; kept in a file beside the gangs, so that a restart forgets none.

use arles_core::{KindId, WorkloadId};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Readings before a mean is believed.
const ENOUGH: f64 = 5.0;
/// Readings that a mean remembers: what a workload draws may change, with its input say.
const REMEMBERED: f64 = 600.0;

/// Power above idle of one workload on one kind.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Mean {
    workload: WorkloadId,
    kind: KindId,
    watts: f64,
    /// Of one reading.
    variance: f64,
    readings: f64,
}

/// All that were seen.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Alone {
    means: Vec<Mean>,
    #[serde(skip)]
    unsaved: bool,
}

impl Alone {
    /// What an earlier engine has seen; nothing where the file is not there or is none.
    pub(super) fn load(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Keeps what was seen. A file that cannot be written costs measurements, and is written the next time.
    pub(super) fn save(&mut self, path: &Path) {
        if !std::mem::take(&mut self.unsaved) {
            return;
        }
        let new = path.with_extension("new");
        let text = serde_json::to_string(self).unwrap_or_default();
        self.unsaved = std::fs::write(&new, text).and_then(|()| std::fs::rename(new, path)).is_err();
    }

    /// A reading of somebody who had a GPU alone: power above idle.
    pub(super) fn see(&mut self, workload: WorkloadId, kind: KindId, watts: f64) {
        if !(watts.is_finite() && watts >= 0.0) {
            return;
        }
        self.unsaved = true;
        match self.means.iter_mut().find(|mean| (mean.workload, mean.kind) == (workload, kind)) {
            None => self.means.push(Mean { workload, kind, watts, variance: 0.0, readings: 1.0 }),
            Some(mean) => {
                mean.readings = (mean.readings + 1.0).min(REMEMBERED);
                let gain = 1.0 / mean.readings;
                let apart = watts - mean.watts;
                mean.watts += gain * apart;
                mean.variance = (1.0 - gain) * (mean.variance + gain * apart * apart);
            }
        }
    }

    /// Mean power above idle and its standard error, once it was read often enough.
    pub(super) fn watts(&self, workload: WorkloadId, kind: KindId) -> Option<(f64, f64)> {
        let mean = self.means.iter().find(|mean| (mean.workload, mean.kind) == (workload, kind))?;
        (mean.readings >= ENOUGH).then(|| (mean.watts, (mean.variance / mean.readings).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_believed_after_some_readings_and_outlives_the_process() {
        let (workload, kind) = (WorkloadId(3), KindId(1));
        let mut alone = Alone::default();
        for watts in [300.0, 310.0, 290.0, 300.0, f64::NAN, -1.0] {
            alone.see(workload, kind, watts);
        }
        assert_eq!(alone.watts(workload, kind), None, "four are too few");
        alone.see(workload, kind, 300.0);
        let (watts, error) = alone.watts(workload, kind).expect("five");
        assert!((watts - 300.0).abs() < 1e-9 && (2.0..4.0).contains(&error), "{watts} {error}");
        assert_eq!(alone.watts(workload, KindId(0)), None);
        let path = std::env::temp_dir().join(format!("arles-alone-{}.json", std::process::id()));
        alone.save(&path);
        assert_eq!(Alone::load(&path).watts(workload, kind), Some((watts, error)));
        std::fs::remove_file(path).expect("written");
    }
}
