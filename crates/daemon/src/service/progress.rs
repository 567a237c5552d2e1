//! Progress reports on their way into the journal.
//!
//! Training code reports every few seconds, and there may be ten thousand of it: a commit for each would be two thousand syncs a second.
//! So a report is put down here and answered at once, and about once a second the loop takes what has gathered, the newest of each job,
//! as one entry in a batch of its own.
//!
//! What is held is bounded by the number of live jobs. Nobody here waits for the journal: the lock is held for one look-up at a time,
//! or for handing the whole map over. Reports that were gathered and not yet journalled when a daemon is killed are lost; the next ones
//! say the same and more.

use crate::store::entry::ProgressReport;
use arles_core::JobId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wall-clock time between two entries of reports.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Reports in one entry at most; so many are taken at once, whatever the time.
pub(crate) const PROGRESS_MOST: usize = 4096;

/// The newest report of each job that is not yet in the journal.
#[derive(Default)]
pub(crate) struct Gatherer {
    reports: Mutex<BTreeMap<JobId, ProgressReport>>,
}

impl Gatherer {
    fn reports(&self) -> MutexGuard<'_, BTreeMap<JobId, ProgressReport>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a report down; `true` if there is now a whole entry of them.
    pub(crate) fn put(&self, mut report: ProgressReport) -> bool {
        let mut reports = self.reports();
        if let Some(older) = reports.get(&report.job) {
            // What was saved stays saved, whichever report said so.
            report.safe_steps = match (older.safe_steps, report.safe_steps) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
        }
        reports.insert(report.job, report).is_none() && reports.len() == PROGRESS_MOST
    }

    /// The newest report of a job, if it is not yet taken.
    pub(crate) fn get(&self, job: JobId) -> Option<ProgressReport> {
        self.reports().get(&job).copied()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.reports().len() >= PROGRESS_MOST
    }

    /// Takes what has gathered, one entry of it at most, in order of jobs.
    pub(crate) fn take(&self) -> Vec<ProgressReport> {
        let mut reports = self.reports();
        let rest = match reports.keys().nth(PROGRESS_MOST).copied() {
            Some(first) => reports.split_off(&first),
            None => BTreeMap::new(),
        };
        let taken = std::mem::replace(&mut *reports, rest);
        drop(reports);
        taken.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Time;

    fn report(job: u64, steps: f64, safe_steps: Option<f64>) -> ProgressReport {
        ProgressReport { job: JobId(job), at: Time::ZERO, steps, rate: None, speed: 1.0, safe_steps }
    }

    #[test]
    fn the_newest_of_each_job_is_kept_and_what_was_saved_with_it() {
        let gatherer = Gatherer::default();
        gatherer.put(report(2, 10.0, Some(10.0)));
        gatherer.put(report(1, 5.0, None));
        gatherer.put(report(2, 12.0, None));
        assert_eq!(gatherer.get(JobId(2)).map(|r| r.steps), Some(12.0));
        let taken = gatherer.take();
        assert_eq!(taken, [report(1, 5.0, None), report(2, 12.0, Some(10.0))]);
        assert!(gatherer.take().is_empty());
    }

    #[test]
    fn an_entry_is_no_longer_than_it_may_be() {
        let gatherer = Gatherer::default();
        let full = (0..PROGRESS_MOST as u64 + 3).filter(|&job| gatherer.put(report(job, 1.0, None))).count();
        assert_eq!(full, 1, "the loop is woken once");
        assert!(gatherer.is_full());
        assert_eq!(gatherer.take().len(), PROGRESS_MOST);
        assert_eq!(gatherer.take().len(), 3);
    }
}
