//! One job's record in the book.

use super::{Book, Looks, NEXT_ROUND, Said, edit};
use crate::service::state_machine::JobUpdate;
use crate::store::HistoryRow;
use crate::store::entry::Submission;
use arles_api::JobState;
use arles_core::engine::JobMeter;
use arles_core::meter::Charge;
use arles_core::{JobId, JobSpec, KindId, Spread, Time, Work};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// GPUs that a job holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct HeldGpus {
    pub(crate) kind: KindId,
    pub(crate) gpus: Vec<u32>,
    pub(crate) spread: Spread,
}

/// A job. Serialised in snapshots, and in the history when it is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Shared with the scheduler while the job is live.
    pub(crate) spec: Arc<JobSpec>,
    /// GPUs that an elastic job is to hold, once the scheduler has chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) state: JobState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<HeldGpus>,
    /// How many times readers had been told why jobs wait when it began to: what was told before says nothing of it.
    #[serde(skip)]
    pub(crate) waits_since: u32,
    /// Why it failed; `None` while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    pub(crate) started: Option<Time>,
    pub(crate) ended: Option<Time>,
    pub(crate) steps: f64,
    pub(crate) rate: Option<f64>,
    pub(crate) estimated_rate: Option<f64>,
    pub(crate) starts: u32,
    pub(crate) failures: u32,
    pub(crate) gpu_seconds: f64,
    pub(crate) charge: Charge,
    pub(crate) last_fence: u64,
    pub(crate) last_stop: u64,
    /// The last reading of its meter, and of which boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reading: Option<Box<(u64, JobMeter)>>,
    /// Whether its last meter is read.
    pub(crate) metered: bool,
    /// What its own code said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) said: Option<Said>,
    /// When its gang, its state or its partner's last changed.
    #[serde(default)]
    pub(crate) steady_since: Time,
    /// When the power of one of its GPUs was last measured, and what it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watts: Option<(Time, f64)>,
    /// How often this run told something of its card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) looks: Option<Looks>,
    /// Whether it waits until somebody releases it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) on_hold: bool,
    /// What its program last ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    /// Jobs of its array; 0 if it is of none.
    #[serde(default)]
    pub(crate) tasks: u32,
    /// The kind that it last ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_kind: Option<KindId>,
}

impl Record {
    /// GPUs that it holds, or is to hold.
    pub(crate) fn gang(&self) -> u32 {
        self.size.unwrap_or(self.spec.gang)
    }

    fn new(submission: &Submission, spec: Arc<JobSpec>) -> Self {
        Self {
            size: None,
            spec,
            name: submission.name.clone(),
            state: JobState::Waiting,
            held: None,
            waits_since: 0,
            why: None,
            started: None,
            ended: None,
            steps: 0.0,
            rate: None,
            estimated_rate: None,
            starts: 0,
            failures: 0,
            gpu_seconds: 0.0,
            charge: Charge::default(),
            last_fence: 0,
            last_stop: 0,
            reading: None,
            metered: false,
            said: None,
            steady_since: Time::ZERO,
            watts: None,
            looks: None,
            on_hold: submission.spec.held,
            exit_code: None,
            tasks: submission.tasks,
            last_kind: None,
        }
    }

    /// Part of its work that is done, if it is a matter of steps.
    pub(crate) fn done_ratio(&self) -> Option<f64> {
        match self.spec.work {
            Work::Steps(steps) if steps > 0.0 => Some((self.steps / steps).clamp(0.0, 1.0)),
            _ => None,
        }
    }

    /// Follows the scheduler.
    pub(super) fn follow(&mut self, at: Time, update: &JobUpdate) {
        self.state = update.state;
        self.held.clone_from(&update.held);
        self.last_kind = update.held.as_ref().map(|held| held.kind).or(self.last_kind);
        self.failures = update.failures;
        self.steps = self.steps.max(update.steps_done);
        self.estimated_rate = update.estimated_rate;
        if self.state == JobState::Running {
            self.started.get_or_insert(update.first_started.unwrap_or(at));
        }
        if self.state == JobState::Waiting {
            self.rate = None;
        }
    }
}

impl Book {
    pub(super) fn add_job(&mut self, at: Time, submission: &Submission, spec: Option<&Arc<JobSpec>>) {
        let shared = spec.cloned().unwrap_or_else(|| Arc::new(submission.spec.clone()));
        let (id, tenant) = (submission.spec.id, submission.spec.tenant.index());
        self.counts.submitted += 1;
        let record = Record { waits_since: self.telling.tables(), ..Record::new(submission, shared) };
        self.jobs.insert(id, Arc::new(record));
        self.waits(id, submission.spec.tenant.0);
        self.telling.note(id);
        *self.reasons.entry((submission.spec.tenant.0, NEXT_ROUND)).or_default() += 1;
        self.tenants[tenant].live[JobState::Waiting as usize] += 1;
        let spec = &submission.spec;
        if !self.workloads.knows_user(spec.workload, spec.tenant) {
            Arc::make_mut(&mut self.workloads).used(spec.workload, spec.tenant);
        }
        let workload = self.workloads.name(spec.workload);
        let text = format!(
            "job {} of {}: {workload} on {} GPU(s)",
            id.0,
            self.tenants[tenant].name,
            submission.spec.gpus_in_words()
        );
        self.push_event(at, "submitted", Some(id), text);
    }

    pub(super) fn end_job(&mut self, at: Time, job: JobId, state: JobState, why: Option<String>) {
        let reason = self.jobs.get(&job).map_or(NEXT_ROUND, |record| self.reason_code_of(record));
        let Some(record) = edit(&mut self.jobs, &job) else { return };
        let (was, tenant) = (record.state, record.spec.tenant.index());
        if was.over() {
            return;
        }
        let held = record.held.take();
        record.state = state;
        record.why.clone_from(&why);
        record.ended = Some(at);
        record.rate = None;
        if let (JobState::Completed, Work::Steps(steps)) = (state, record.spec.work) {
            record.steps = steps;
        }
        if let Some(held) = held {
            self.vacate(at, job, tenant, &held.gpus);
        }
        self.recount(job, tenant, was, state, reason);
        let line = &mut self.tenants[tenant];
        let (count, text) = match state {
            JobState::Completed => (&mut line.completed, format!("job {} completed", job.0)),
            JobState::Cancelled => (&mut line.cancelled, format!("job {} was cancelled", job.0)),
            _ => (&mut line.failed, format!("job {} failed: {}", job.0, why.unwrap_or_default())),
        };
        *count += 1;
        self.push_event(at, state.name(), Some(job), text);
        self.closing.insert(job);
        self.put_into_history(job);
    }

    /// Queues a job's row of history to be written, or written again.
    pub(super) fn put_into_history(&mut self, job: JobId) {
        let Some(record) = self.jobs.get(&job) else { return };
        let row = HistoryRow::Past {
            id: job,
            tenant: self.tenants[record.spec.tenant.index()].name.clone(),
            workload: self.workloads.name(record.spec.workload).to_owned(),
            state: record.state.name().into(),
            ended: record.ended.unwrap_or_default(),
            record: serde_json::to_string(record).expect("plain data"),
        };
        self.rows.push(row);
    }

    /// No meter of this job will be read any more: closes its record.
    pub(super) fn close_record(&mut self, job: JobId) {
        if let Some(record) = edit(&mut self.jobs, &job)
            && record.state.over()
        {
            record.metered = true;
            self.put_into_history(job);
            self.count_run(job);
        }
    }

    /// Learns from a completed job without a number of steps how long the next is to take.
    fn count_run(&mut self, job: JobId) {
        let Some(record) = self.jobs.get(&job) else { return };
        if record.state == JobState::Completed && matches!(record.spec.work, Work::Open(_)) {
            let seconds = self.served_seconds(record);
            let (workload, gang) = (record.spec.workload, record.gang());
            if seconds > 0.0 {
                self.runs.add(workload, gang, seconds);
            }
        }
    }

    /// An elastic job is to hold another number of GPUs.
    pub(super) fn note_size(&mut self, at: Time, job: JobId, from: u32, to: u32) {
        if let Some(record) = edit(&mut self.jobs, &job) {
            record.size = Some(to);
        }
        self.push_event(at, "resized", Some(job), format!("job {} is to hold {to} GPUs, not {from}", job.0));
    }

    /// A job is held, or released.
    pub(super) fn note_hold(&mut self, at: Time, job: JobId, held: bool) {
        if let Some(record) = edit(&mut self.jobs, &job) {
            record.on_hold = held;
        }
        let word = if held { "held" } else { "released" };
        self.push_event(at, word, Some(job), format!("job {} is {word}", job.0));
    }
}
