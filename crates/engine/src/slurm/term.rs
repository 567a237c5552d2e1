//! Who leads, by Slurm's own records.
//!
//! Where several daemons stand by, one whose place was taken may not know it yet: it was paused, or cannot see the state folder. Every leader writes
//! the number of its term into the mark of each job that it starts, and into those of all gangs that are there when it takes over. Every look
//! reads the marks, so a leader that sees a later term than its own does nothing any more, for good.
//!
//! Slurm has no way to change something only if it is as expected. So one command that was decided before the takeover may still be carried out after
//! it. It can release a job or requeue it, and neither gives a GPU to two: that is Slurm's own count. The new leader's next look shows what came
//! of it, as it shows what users do.

use super::Slurm;
use super::mark::Mark;
use arles_core::JobId;
use arles_core::engine::EngineError;

impl Slurm {
    /// Whether this engine's driver still leads, as far as the last look showed.
    ///
    /// # Errors
    /// When another has taken over.
    pub(super) fn obey(&self) -> Result<(), EngineError> {
        match self.later_term {
            Some(term) => Err(EngineError(format!(
                "a daemon of term {term} leads this Slurm cluster, by the marks of its jobs; this one is of term {} and does nothing",
                self.term
            ))),
            None => Ok(()),
        }
    }

    /// Reads the terms in the marks of the last look.
    pub(super) fn notice_terms(&mut self) {
        let marks = self.queue.records.iter().filter_map(|record| Mark::read(&record.admin_comment));
        let latest = marks.filter(|mark| mark.journal == self.journal).map(|mark| mark.term).max();
        self.later_term = latest.filter(|latest| *latest > self.term).or(self.later_term);
    }

    /// Writes this term into the marks of gangs that earlier leaders started: one command for each gang that is there.
    pub(super) fn take_over(&mut self) -> Result<(), EngineError> {
        if self.term == 0 {
            return Ok(());
        }
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            let entry = &self.jobs[&id];
            let Some((name, record)) = entry.slurm.clone().zip(self.record(entry)) else { continue };
            let mark = Mark::read(&record.admin_comment).filter(|mark| mark.gang.is_some() && mark.term < self.term);
            let Some(mark) = mark.filter(|mark| mark.journal == self.journal) else { continue };
            let comment = format!("AdminComment={}", Mark { term: self.term, ..mark }.write());
            self.tolerate(|controller| controller.update(&name, &[comment]))?;
        }
        Ok(())
    }
}
