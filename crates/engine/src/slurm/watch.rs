//! Watching a Slurm cluster without touching it: which jobs with GPUs came, where they ran, and when they ended.
//!
//! All jobs are watched, marked for arles or not: this is how an operator finds out what arles would do before anything is given to it.
//!
//! Must never: send Slurm a command. It asks for the queue and for nothing else, and [`Watch::calls`] shows that.

use super::arrival::arrival;
use super::controller::{Calls, Controller};
use super::record::{JobRecord, Stage, hosts};
use super::rest::Rest;
use super::{Canary, SlurmOptions};
use crate::intake::Wishes;
use arles_core::engine::EngineError;
use std::collections::BTreeMap;

/// A stretch in which a job had its GPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchedRun {
    /// In Unix seconds.
    pub started: u64,
    /// In Unix seconds; nothing while it goes on.
    pub ended: Option<u64>,
    /// Names of its nodes.
    pub nodes: Vec<String>,
}

/// A job with GPUs, as far as it was seen.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchedJob {
    /// Its number in Slurm, or array and task as `6_1`.
    pub slurm: String,
    /// When it was first submitted, in Unix seconds.
    pub submitted: u64,
    /// The job's name.
    pub name: String,
    /// Its account, or its user where Slurm has no accounts.
    pub account: String,
    /// GPUs in all.
    pub gang: u32,
    /// Types of GPUs that it insists on; nothing for all.
    pub kinds: Vec<String>,
    /// What it says of itself.
    pub wishes: Wishes,
    /// Stretches in which it ran, the first first.
    pub runs: Vec<WatchedRun>,
    /// Whether it is over.
    pub over: bool,
}

/// What was seen of a cluster so far.
pub struct Watch {
    controller: Controller,
    canary: Canary,
    /// By name in Slurm; the job that has the name now comes last.
    jobs: BTreeMap<String, Vec<WatchedJob>>,
    asked_at: Option<u64>,
}

impl Watch {
    /// Looks at nothing yet.
    ///
    /// # Errors
    /// When slurmrestd's address is none.
    pub fn new(options: &SlurmOptions) -> Result<Self, EngineError> {
        let (user, token) = options.token.clone().unzip();
        let rest = options.rest.as_deref().map(|address| Rest::new(address, user, token)).transpose()?;
        let controller = Controller::new(rest, options.conf.clone());
        Ok(Self { controller, canary: options.canary.clone(), jobs: BTreeMap::new(), asked_at: None })
    }

    /// Looks at the queue once; `now` in Unix seconds.
    ///
    /// # Errors
    /// When Slurm cannot be asked.
    pub fn look(&mut self, now: u64) -> Result<(), EngineError> {
        // A job that began in the very second of the last look must not be missed.
        let since = self.asked_at.map(|at| at.saturating_sub(super::look::SKEW_SECONDS));
        if let Some(records) = self.controller.jobs(since)? {
            for record in records.iter().filter(|record| self.canary.takes(record)) {
                note(&mut self.jobs, record, now);
            }
        }
        self.asked_at = Some(now);
        Ok(())
    }

    /// Jobs that were seen, in the order of their submission.
    #[must_use]
    pub fn jobs(&self) -> Vec<&WatchedJob> {
        let mut jobs: Vec<&WatchedJob> = self.jobs.values().flatten().collect();
        jobs.sort_by_key(|job| (job.submitted, job.slurm.parse::<u64>().unwrap_or(u64::MAX), &job.slurm));
        jobs
    }

    /// What has been asked of Slurm so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.controller.calls
    }
}

/// Takes down what a record says of its jobs.
fn note(jobs: &mut BTreeMap<String, Vec<WatchedJob>>, record: &JobRecord, now: u64) {
    for name in record.tasks().0 {
        let Some(seen) = arrival(&name, record) else { return };
        let of_name = jobs.entry(name).or_default();
        // Requeued, a job has another time of submission; a number that was given out again is a job that never was.
        let is_it = |job: &WatchedJob| job.submitted == record.submit_time || (record.restart_cnt > 0 && !job.over);
        if !of_name.last().is_some_and(is_it) {
            of_name.push(WatchedJob {
                slurm: seen.shown,
                submitted: record.submit_time,
                name: seen.name,
                account: seen.tenant,
                gang: seen.gang,
                kinds: seen.kinds,
                wishes: seen.wishes,
                runs: Vec::new(),
                over: false,
            });
        }
        let job = of_name.last_mut().expect("one was put there");
        follow(job, record, now);
    }
}

/// Takes down where a job is by now.
fn follow(job: &mut WatchedJob, record: &JobRecord, now: u64) {
    let stage = record.stage();
    let has_run = !record.nodes.is_empty() && record.start_time > 0;
    match stage {
        // It waits: again, if it has run before.
        Stage::Held | Stage::Queued => end(job, now),
        Stage::Running if has_run => begin(job, record, now),
        Stage::Running => {}
        Stage::Completing | Stage::Completed | Stage::Cancelled | Stage::Failed => {
            if has_run && record.end_time > record.start_time {
                begin(job, record, now);
                end(job, record.end_time);
            }
            job.over = stage != Stage::Completing;
        }
    }
}

fn begin(job: &mut WatchedJob, record: &JobRecord, now: u64) {
    if job.runs.last().is_some_and(|run| run.started == record.start_time) {
        return;
    }
    end(job, record.start_time.min(now));
    job.runs.push(WatchedRun { started: record.start_time, ended: None, nodes: hosts(&record.nodes) });
}

fn end(job: &mut WatchedJob, at: u64) {
    if let Some(run) = job.runs.last_mut().filter(|run| run.ended.is_none()) {
        run.ended = Some(at.max(run.started));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: &str, submit: u64, start: u64, end: u64, restarts: u64) -> JobRecord {
        JobRecord {
            job_id: 7,
            job_state: vec![state.to_owned()],
            priority: Some(1.0),
            account: "vision".into(),
            submit_time: submit,
            start_time: start,
            end_time: end,
            restart_cnt: restarts,
            node_count: 1,
            nodes: if start > 0 { "n[0-1]".into() } else { String::new() },
            tres_per_node: "gres:gpu:2".into(),
            ..JobRecord::default()
        }
    }

    fn seen(records: &[(JobRecord, u64)]) -> Vec<WatchedJob> {
        let mut jobs = BTreeMap::new();
        records.iter().for_each(|(record, now)| note(&mut jobs, record, *now));
        jobs.into_values().flatten().collect()
    }

    #[test]
    fn a_job_is_followed_through_a_requeue_to_its_end() {
        let jobs = seen(&[
            (record("PENDING", 10, 0, 0, 0), 11),
            (record("RUNNING", 10, 20, 9999, 0), 21),
            (record("PENDING", 40, 0, 0, 1), 41),
            (record("RUNNING", 40, 50, 9999, 1), 52),
            (record("COMPLETED", 40, 50, 70, 1), 75),
        ]);
        assert_eq!(jobs.len(), 1);
        assert_eq!((jobs[0].submitted, jobs[0].over, jobs[0].gang), (10, true, 2));
        let spans: Vec<_> = jobs[0].runs.iter().map(|run| (run.started, run.ended)).collect();
        assert_eq!(spans, [(20, Some(41)), (50, Some(70))]);
        assert_eq!(jobs[0].runs[0].nodes, ["n0", "n1"]);
    }

    #[test]
    fn a_number_that_is_given_out_again_is_another_job() {
        let jobs = seen(&[(record("COMPLETED", 10, 20, 30, 0), 31), (record("PENDING", 90, 0, 0, 0), 91)]);
        assert_eq!(jobs.iter().map(|job| (job.submitted, job.over)).collect::<Vec<_>>(), [(10, true), (90, false)]);
    }

    #[test]
    fn one_that_ran_between_two_looks_is_not_missed() {
        let jobs = seen(&[(record("PENDING", 10, 0, 0, 0), 11), (record("FAILED", 10, 12, 14, 0), 20)]);
        assert_eq!(jobs[0].runs, [WatchedRun { started: 12, ended: Some(14), nodes: vec!["n0".into(), "n1".into()] }]);
    }
}
