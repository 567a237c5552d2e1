//! Why jobs wait, as readers are told: one table of everybody, made beside the event loop from a copy of the scheduler, and put in the place of the last one
//! at once. So neither the loop nor whoever reads ever goes through the queue for it.
//!
//! A job that began to wait after the last table is told that it waits for the next round, and so is one that is not in it. What is counted by reason is counted
//! where the table is made; here only those jobs are counted again that came, went or changed while it was being made.

use super::{Book, NEXT_ROUND, Reasons, Record, uncount};
use arles_api::JobState;
use arles_core::scheduler::{Reason, Scheduler, Verdict};
use arles_core::{JobId, TenantId};
use std::sync::Arc;

/// Why everybody waits, as of one moment.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// In order of jobs.
    lines: Vec<(JobId, TenantId, Reason)>,
    counts: Reasons,
}

impl Told {
    /// What a scheduler says of everybody who waits.
    pub(crate) fn by(scheduler: &Scheduler) -> Self {
        let line = |(job, verdict)| match verdict {
            Verdict::Waits(reason) => Some((job, scheduler.job_status(job)?.spec.tenant, reason)),
            _ => None,
        };
        let mut lines: Vec<(JobId, TenantId, Reason)> = scheduler.explain_all().filter_map(line).collect();
        lines.sort_unstable_by_key(|line| line.0);
        let mut counts = Reasons::new();
        for (_, tenant, reason) in &lines {
            *counts.entry((tenant.0, reason.code())).or_default() += 1;
        }
        Self { lines, counts }
    }

    fn get(&self, job: JobId) -> Option<&(JobId, TenantId, Reason)> {
        self.lines.binary_search_by_key(&job, |line| line.0).ok().map(|at| &self.lines[at])
    }
}

/// What was last told, and what has changed since the next table was begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telling {
    told: Arc<Told>,
    /// How many tables there were.
    tables: u32,
    /// Jobs that began or ceased to wait since the next table was begun.
    turned: Option<Vec<JobId>>,
}

impl Telling {
    /// How many tables there were: a job that begins to wait now is told something by the next.
    pub(super) fn tables(&self) -> u32 {
        self.tables
    }

    /// A job began or ceased to wait.
    pub(super) fn note(&mut self, job: JobId) {
        if let Some(turned) = &mut self.turned {
            turned.push(job);
        }
    }
}

impl Book {
    /// Why a job waits, if it does and somebody has said so.
    pub(crate) fn reason_of(&self, record: &Record) -> Option<&Reason> {
        let told = record.state == JobState::Waiting && record.waits_since < self.telling.tables;
        self.telling.told.get(record.spec.id).filter(|_| told).map(|line| &line.2)
    }

    /// The same for programs.
    pub(super) fn reason_code_of(&self, record: &Record) -> &'static str {
        self.reason_of(record).map_or(NEXT_ROUND, Reason::code)
    }

    /// A table is begun: what the book knows now is what it is made from.
    pub(crate) fn begin_telling(&mut self) {
        self.telling.turned = Some(Vec::new());
    }

    /// How many of each tenant wait for which reason once this table is told.
    pub(crate) fn counted(&self, told: &Told) -> Reasons {
        let mut counts = told.counts.clone();
        let mut turned = self.telling.turned.clone().unwrap_or_default();
        turned.sort_unstable();
        turned.dedup();
        for job in turned {
            let line = told.get(job);
            if let Some((_, tenant, reason)) = line {
                uncount(&mut counts, tenant.0, reason.code());
            }
            if let Some(record) = self.jobs.get(&job).filter(|record| record.state == JobState::Waiting) {
                let code = line.map_or(NEXT_ROUND, |line| line.2.code());
                *counts.entry((record.spec.tenant.0, code)).or_default() += 1;
            }
        }
        counts
    }

    /// Tells everybody; returns what was told before, which takes a while to be dropped.
    pub(crate) fn tell(&mut self, told: Arc<Told>, counts: Reasons) -> Arc<Told> {
        self.reasons = counts;
        self.telling.tables = self.telling.tables.saturating_add(1);
        self.telling.turned = None;
        std::mem::replace(&mut self.telling.told, told)
    }
}

#[cfg(test)]
mod tests;
