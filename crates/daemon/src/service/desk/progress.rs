//! Progress reports of jobs' own code.

use super::{Desk, job_over, no_job};
use crate::Refusal;
use crate::access::Caller;
use crate::service::Message;
use crate::store::entry::ProgressReport;
use arles_api::{self as api, JobState};
use arles_core::JobId;

impl Desk {
    /// Takes a progress report of a job's own code; returns what the code should do next. It is answered at once and journalled within
    /// about a second, with others. Code of a job that was cancelled, or that failed, is told to stop: nobody wants what it computes.
    ///
    /// # Errors
    /// When the caller sees no such job, or it has completed.
    pub fn progress(&self, who: &Caller, job: u64, progress: api::Progress) -> Result<api::Instruction, Refusal> {
        if who.job.is_some_and(|own| own != job) {
            return Err(no_job(job));
        }
        let state = self.state_of(who, job)?;
        match state {
            JobState::Completed => return Err(job_over(job)),
            JobState::Cancelled | JobState::Failed => {}
            _ => self.gather(job, progress),
        }
        let stop = matches!(state, JobState::Stopping | JobState::Cancelled | JobState::Failed);
        Ok(api::Instruction {
            action: if stop { api::Action::CheckpointAndStop } else { api::Action::Continue },
            grace_seconds: stop.then_some(self.shared.options.grace_seconds),
        })
    }

    /// The state of a job, without making a whole view of it where it is live.
    fn state_of(&self, who: &Caller, job: u64) -> Result<JobState, Refusal> {
        let live = {
            let book = self.shared.book();
            let record = book.jobs.get(&JobId(job));
            record.map(|record| (record.state, who.sees(&book.tenants[record.spec.tenant.index()].name)))
        };
        match live {
            Some((state, true)) => Ok(state),
            Some((_, false)) => Err(no_job(job)),
            None => Ok(self.view(who).job(job)?.state),
        }
    }

    fn gather(&self, job: u64, progress: api::Progress) {
        let clock = &self.shared.clock;
        let report = ProgressReport {
            job: JobId(job),
            at: clock.now(),
            steps: progress.steps,
            rate: progress.rate,
            speed: clock.speed(),
            safe_steps: progress.checkpointed.then_some(progress.steps),
        };
        self.shared.gauges.progress_reports.add(1);
        if self.shared.progress.put(report) {
            // Only a loop that has ended does not hear this, and then there is nobody to take it.
            let _ = self.shared.send(Message::ProgressGathered);
        }
    }
}
