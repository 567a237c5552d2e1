//! Which jobs may run at all: held ones may not, nor those that wait for others to end, nor more tasks of an array than it allows.

use super::*;

impl Scheduler {
    pub(super) fn hold(&mut self, _job: JobId, _out: &mut Vec<Output>) {}

    pub(super) fn release(&mut self, _job: JobId, _out: &mut Vec<Output>) {}

    /// Takes in steps that jobs say are safe.
    pub(super) fn checkpointed(&mut self, jobs: &[(JobId, f64)]) {
        for &(job, steps) in jobs {
            if let Some(slot) = self.jobs.slot(job) {
                self.jobs.get_mut(slot).secure(steps);
            }
        }
    }
}
