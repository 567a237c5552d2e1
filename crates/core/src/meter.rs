//! The energy meter: every joule of every GPU belongs to exactly one job or to *idle*.
//!
//! Over a window a device's energy is an idle part (what it would have drawn unused) and an active part. The
//! idle part is divided evenly over the jobs on the device, or goes to *idle* if there is none; the active
//! part in proportion to each job's activity (its rate over its rate alone). The last job takes what is left
//! after the others, so that the parts add up to the device's energy exactly.

use crate::JobId;
use serde::{Deserialize, Serialize};

/// Energy charged to one job.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Charge {
    /// For computing.
    pub active_joules: f64,
    /// Its part of the idle power of the GPUs it held.
    pub idle_joules: f64,
    /// For restarting; in neither of the above.
    pub restart_joules: f64,
}

impl Charge {
    /// Active, idle and lost to restarts together, in joules.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.active_joules + self.idle_joules + self.restart_joules
    }

    /// Adds another charge.
    pub fn add(&mut self, other: &Charge) {
        self.active_joules += other.active_joules;
        self.idle_joules += other.idle_joules;
        self.restart_joules += other.restart_joules;
    }
}

/// A job on a device during a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Resident {
    /// Whose share of the energy this is.
    pub job: JobId,
    /// Its rate over its rate alone, or any other measure of how busy it kept the device.
    pub activity: f64,
    /// Whether it was loading and restoring rather than computing.
    pub restarting: bool,
}

/// What a device drew during a window.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Draw {
    /// What it would have drawn unused.
    pub idle_joules: f64,
    /// The rest.
    pub active_joules: f64,
}

/// Divides a device's draw among the jobs on it: `charge` is called once for each. Returns what nobody is
/// charged for: all of it if the device was empty, nothing otherwise.
pub fn divide(draw: Draw, residents: &[Resident], mut charge: impl FnMut(JobId, Charge)) -> f64 {
    let Some((last, others)) = residents.split_last() else { return draw.idle_joules + draw.active_joules };
    let activity = |r: &Resident| if r.activity.is_finite() { r.activity.max(0.0) } else { 0.0 };
    let total: f64 = residents.iter().map(activity).sum();
    let even = 1.0 / residents.len() as f64;
    let (mut idle_left, mut active_left) = (draw.idle_joules, draw.active_joules);
    for resident in others {
        let part = if total > 0.0 { activity(resident) / total } else { even };
        let (idle, active) = (draw.idle_joules * even, draw.active_joules * part);
        idle_left -= idle;
        active_left -= active;
        charge(resident.job, split(resident, idle, active));
    }
    charge(last.job, split(last, idle_left, active_left));
    0.0
}

fn split(resident: &Resident, idle_joules: f64, active_joules: f64) -> Charge {
    if resident.restarting {
        Charge { idle_joules, restart_joules: active_joules, active_joules: 0.0 }
    } else {
        Charge { idle_joules, active_joules, restart_joules: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_joule_belongs_to_somebody(
            idle in 0.0..1e9f64,
            active in 0.0..1e9f64,
            activities in prop::collection::vec((0.0..2.0f64, any::<bool>()), 0..3),
        ) {
            let residents: Vec<Resident> = activities
                .iter()
                .enumerate()
                .map(|(i, &(activity, restarting))| Resident { job: JobId(i as u64), activity, restarting })
                .collect();
            let mut charged = 0.0;
            let rest = divide(Draw { idle_joules: idle, active_joules: active }, &residents, |_, c| charged += c.total());
            prop_assert!((charged + rest - idle - active).abs() <= 1e-6 * (idle + active).max(1.0));
            prop_assert!(residents.is_empty() || rest == 0.0);
        }
    }

    #[test]
    fn idle_power_is_shared_evenly_and_active_power_by_activity() {
        let residents = [
            Resident { job: JobId(1), activity: 0.9, restarting: false },
            Resident { job: JobId(2), activity: 0.3, restarting: false },
        ];
        let mut charges = Vec::new();
        divide(Draw { idle_joules: 100.0, active_joules: 400.0 }, &residents, |job, c| charges.push((job, c)));
        assert_eq!(charges[0].1.idle_joules, 50.0);
        assert!((charges[0].1.active_joules - 300.0).abs() < 1e-9);
        assert!((charges[1].1.active_joules - 100.0).abs() < 1e-9);
    }
}
