//! The energy meter: every joule of every GPU belongs to exactly one job or to *idle*.
//!
//! Over a window a device's energy is an idle part (what it would have drawn unused) and an active part. The
//! idle part is divided evenly over the jobs on the device, or goes to *idle* if there is none. The active part of two
//! jobs whose power alone is known is divided by the Shapley value: what a job adds to the device's draw, averaged over who of the two came first,
//!
//!   φ_A = ½ [(P_A − P_0) + (P_AB − P_B)],   φ_A + φ_B = P_AB − P_0,
//!
//! within what was drawn; otherwise in proportion to each job's activity (its rate over its rate alone). The last job takes what is left
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
    /// The active energy that it would have drawn in this window without a partner, (P_A − P_0) times the time; `None` where its power alone is
    /// not known.
    pub alone_joules: Option<f64>,
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
    let first = first_by_shapley(draw.active_joules, residents);
    let (mut idle_left, mut active_left) = (draw.idle_joules, draw.active_joules);
    for resident in others {
        let part = if total > 0.0 { activity(resident) / total } else { even };
        let (idle, active) = (draw.idle_joules * even, first.unwrap_or(draw.active_joules * part));
        idle_left -= idle;
        active_left -= active;
        charge(resident.job, split(resident, idle, active));
    }
    charge(last.job, split(last, idle_left, active_left));
    0.0
}

/// The first one's part of two that share a device, by the Shapley value.
fn first_by_shapley(active_joules: f64, residents: &[Resident]) -> Option<f64> {
    let [a, b] = residents else { return None };
    let known = |r: &Resident| r.alone_joules.filter(|joules| joules.is_finite() && *joules >= 0.0);
    let (alone_a, alone_b) = (known(a)?, known(b)?);
    Some((0.5 * (alone_a + active_joules - alone_b)).clamp(0.0, active_joules.max(0.0)))
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
            activities in prop::collection::vec((0.0..2.0f64, any::<bool>(), prop::option::of(-1e8..2e9f64)), 0..3),
        ) {
            let residents: Vec<Resident> = activities
                .iter()
                .enumerate()
                .map(|(i, &(activity, restarting, alone_joules))| Resident { job: JobId(i as u64), activity, restarting, alone_joules })
                .collect();
            let (mut charged, mut negative) = (0.0, false);
            let rest = divide(Draw { idle_joules: idle, active_joules: active }, &residents, |_, c| {
                charged += c.total();
                negative |= c.active_joules < 0.0 || c.idle_joules < 0.0 || c.restart_joules < 0.0;
            });
            prop_assert!(!negative, "nobody is paid for running");
            prop_assert!((charged + rest - idle - active).abs() <= 1e-6 * (idle + active).max(1.0));
            prop_assert!(residents.is_empty() || rest == 0.0);
        }
    }

    #[test]
    fn idle_power_is_shared_evenly_and_active_power_by_activity() {
        let residents = [
            Resident { job: JobId(1), activity: 0.9, restarting: false, alone_joules: None },
            Resident { job: JobId(2), activity: 0.3, restarting: false, alone_joules: None },
        ];
        let mut charges = Vec::new();
        divide(Draw { idle_joules: 100.0, active_joules: 400.0 }, &residents, |job, c| charges.push((job, c)));
        assert_eq!(charges[0].1.idle_joules, 50.0);
        assert!((charges[0].1.active_joules - 300.0).abs() < 1e-9);
        assert!((charges[1].1.active_joules - 100.0).abs() < 1e-9);
    }
    /// A draws 300 W alone, B 100 W, both together 340 W, above what is idle: the 60 W that they save are divided evenly.
    #[test]
    fn two_whose_power_alone_is_known_pay_what_they_add() {
        let resident = |job, alone| Resident { job: JobId(job), activity: 1.0, restarting: false, alone_joules: alone };
        let charged = |residents: &[Resident]| {
            let mut charges = Vec::new();
            divide(Draw { idle_joules: 80.0, active_joules: 340.0 }, residents, |_, c| charges.push(c.active_joules));
            charges
        };
        assert_eq!(charged(&[resident(1, Some(300.0)), resident(2, Some(100.0))]), [270.0, 70.0]);
        assert_eq!(charged(&[resident(1, Some(300.0)), resident(2, None)]), [170.0, 170.0], "one alone is not enough");
        assert_eq!(
            charged(&[resident(1, Some(900.0)), resident(2, Some(10.0))]),
            [340.0, 0.0],
            "never less than nothing"
        );
        assert_eq!(charged(&[resident(1, Some(300.0))]), [340.0]);
    }
}
