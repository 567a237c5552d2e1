//! The latest meter of every job ever, as a ledger keeps them; checks that counters only grow and that energy adds up.

use arles_core::JobId;
use arles_core::engine::{JobMeter, Meters};
use std::collections::BTreeMap;

/// Takes meters in and checks them against those it has.
#[derive(Default)]
pub struct Ledger {
    /// The latest meter of every job.
    pub jobs: BTreeMap<JobId, JobMeter>,
    kinds: Option<Meters>,
}

impl Ledger {
    /// Takes one job's meter in.
    ///
    /// # Panics
    /// If a counter went back.
    pub fn take(&mut self, meter: &JobMeter) {
        if let Some(old) = self.jobs.insert(meter.job, *meter) {
            let grows = |a: f64, b: f64| assert!(a <= b, "a counter went back: {old:?} {meter:?}");
            grows(old.charge.active_joules, meter.charge.active_joules);
            grows(old.charge.idle_joules, meter.charge.idle_joules);
            grows(old.charge.restart_joules, meter.charge.restart_joules);
            grows(old.gpu_seconds, meter.gpu_seconds);
        }
    }

    /// Takes a report's meters in.
    ///
    /// # Panics
    /// If a counter went back, or the jobs' charges do not add up to what the kinds' meters show.
    pub fn look(&mut self, meters: &Meters) {
        meters.jobs.iter().for_each(|meter| self.take(meter));
        if let Some(old) = &self.kinds {
            assert_eq!(old.boot, meters.boot);
            for (old, new) in old.kinds.iter().zip(&meters.kinds) {
                assert!(
                    old.used.idle_joules <= new.used.idle_joules && old.used.active_joules <= new.used.active_joules
                );
                assert!(old.unused_joules <= new.unused_joules && old.busy_gpu_seconds <= new.busy_gpu_seconds);
            }
        }
        let charged: f64 = self.jobs.values().map(|meter| meter.charge.total()).sum();
        let used: f64 = meters.kinds.iter().map(|k| k.used.idle_joules + k.used.active_joules).sum();
        assert!((charged - used).abs() <= 1e-9 * used, "jobs were charged {charged} J of {used} J");
        self.kinds = Some(meters.clone());
    }
}
