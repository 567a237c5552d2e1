//! A job as the engine knows it.

use super::arrival::parse_external;
use super::gang::{Gang, Phase};
use super::mark::Mark;
use super::record::JobRecord;
use arles_core::engine::{JobMeter, LiveJob};
use arles_core::meter::Charge;
use arles_core::scheduler::{Fence, GangEvent, GangReport};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A command that takes effect slowly is not repeated before this.
const REPEAT: Duration = Duration::from_secs(10);

/// A node refuses what was issued up to the second in which slurmctld told it to end a job's last run ("Job credential revoked"), and the job would fail:
/// so it starts a second later. This machine's clock may be another second behind slurmctld's.
const REVOKED_SECONDS: u64 = 2;

/// A job that takes longer than this to end may have been told a second time, just before.
const TOLD_ONCE: Duration = Duration::from_secs(3);

/// A job, live or remembered.
pub(super) struct Entry {
    pub(super) live: LiveJob,
    /// What it is called in Slurm, once it is there.
    pub(super) slurm: Option<String>,
    pub(super) gang: Option<Gang>,
    /// No gang up to this one may start.
    pub(super) fence: Fence,
    pub(super) outcome: Option<(Fence, GangEvent, Option<i32>)>,
    /// The last gang that was given up without an order to stop it. A driver that was killed has perhaps not heard of it and orders its start again: a
    /// refusal would count as a failure of the job.
    pub(super) given_up: Option<Fence>,
    pub(super) charge: Charge,
    pub(super) gpu_seconds: f64,
    pub(super) steps: f64,
    pub(super) rate: f64,
    /// Looks at the whole queue in which it was missing.
    pub(super) missing: u32,
    /// Whether it was given back to Slurm: then nothing is done to it any more.
    pub(super) let_go: bool,
    /// Nodes that failed under its last gang: a late word about that one could end the next one there.
    pub(super) lost_nodes: Vec<String>,
    /// When the nodes of its last gang were told to end it, in Unix seconds, and which those are; known once it has left them.
    pub(super) vacated: Option<(u64, Vec<String>)>,
    requeued: Option<(Instant, u64)>,
    /// Why it was not started where it was last ordered.
    pub(super) put_off: Option<String>,
    last_sent: Option<Instant>,
}

impl Entry {
    pub(super) fn new(live: LiveJob) -> Self {
        let slurm = native(&live).map(|(name, _)| name.to_owned());
        Self {
            slurm,
            gang: None,
            fence: Fence(0),
            outcome: None,
            given_up: None,
            charge: Charge::default(),
            gpu_seconds: 0.0,
            steps: live.steps_done.max(0.0),
            rate: 0.0,
            missing: 0,
            let_go: false,
            lost_nodes: Vec::new(),
            vacated: None,
            requeued: None,
            put_off: None,
            last_sent: None,
            live,
        }
    }

    /// Whether its user submitted it to Slurm; otherwise arles did.
    pub(super) fn is_native(&self) -> bool {
        native(&self.live).is_some()
    }

    /// Whether a record of that name is this very job. Numbers are used again after a crash of the controller, and the time of submission
    /// changes when a job is requeued: so it is the mark that counts, and the time only as long as there is none, or that of an earlier life in arles.
    pub(super) fn is_of(&self, record: &JobRecord, journal: &str, own_user: f64) -> bool {
        let id = self.live.spec.id;
        let mark = Mark::read(&record.admin_comment);
        if mark.as_ref().is_some_and(|mark| mark.job == id && mark.journal == journal) {
            return true;
        }
        match native(&self.live) {
            // A number that was given out again is a job that has never been requeued.
            Some((_, submitted)) => {
                let requeued = mark.is_none() && record.restart_cnt > 0 && record.submit_time > submitted;
                record.submit_time == submitted || requeued
            }
            None => {
                let mark = Mark::read(&record.comment);
                record.user_id == Some(own_user) && mark.is_some_and(|mark| mark.job == id && mark.journal == journal)
            }
        }
    }

    /// Whether a command may be sent now; not again before it had time to show.
    pub(super) fn may_send(&mut self) -> bool {
        let may = self.last_sent.is_none_or(|sent| sent.elapsed() >= REPEAT);
        if may {
            self.last_sent = Some(Instant::now());
        }
        may
    }

    /// What was sent has shown.
    pub(super) fn sent_shows(&mut self) {
        self.last_sent = None;
    }

    /// Slurm was told to requeue it.
    pub(super) fn was_requeued(&mut self) {
        self.requeued = Some((Instant::now(), unix_seconds()));
    }

    /// It has left these nodes.
    pub(super) fn has_vacated(&mut self, nodes: Vec<String>) {
        let told = self.requeued.take().filter(|(at, _)| at.elapsed() <= TOLD_ONCE);
        self.vacated = Some((told.map_or_else(unix_seconds, |(_, second)| second), nodes));
    }

    /// Seconds, whole ones, that a requeued job must not be started for on these nodes.
    pub(super) fn revoked_seconds(&self, nodes: &[&str]) -> u64 {
        let now = unix_seconds();
        let told = match &self.vacated {
            Some((_, before)) if !nodes.iter().any(|node| before.iter().any(|name| name == node)) => return 0,
            Some((told, _)) => *told,
            // An earlier daemon ended its last run, perhaps a moment ago.
            None => now,
        };
        (told + REVOKED_SECONDS).saturating_sub(now).min(REVOKED_SECONDS)
    }

    pub(super) fn running(&self) -> Option<&Gang> {
        self.gang.as_ref().filter(|gang| gang.runs())
    }

    /// What a gang came to, as it was told the first time.
    pub(super) fn outcome_of(&self, fence: Fence) -> GangReport {
        let known = self.outcome.as_ref().filter(|(of, ..)| *of == fence);
        let (event, exit_code) =
            known.map_or((GangEvent::Stopped(self.steps), None), |(_, event, code)| (event.clone(), *code));
        GangReport { exit_code, ..GangReport::new(self.live.spec.id, fence, event) }
    }

    pub(super) fn meter(&self) -> JobMeter {
        JobMeter {
            job: self.live.spec.id,
            charge: self.charge,
            gpu_seconds: self.gpu_seconds,
            steps: self.steps,
            rate: if self.running().is_some() { self.rate } else { 0.0 },
        }
    }

    /// Whether something of it is under way, so that Slurm should be looked at soon.
    pub(super) fn is_changing(&self) -> bool {
        let phase = self.gang.as_ref().map(|gang| &gang.phase);
        matches!(phase, Some(Phase::Wanted | Phase::Released | Phase::Reseating | Phase::Stopping))
    }
}

/// The clock of this machine.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Number in Slurm and time of submission, of a job that came from there.
fn native(live: &LiveJob) -> Option<(&str, u64)> {
    parse_external(live.spec.program.as_ref()?.external.as_deref()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::JobSpec;

    #[test]
    fn only_nodes_that_were_just_told_to_end_a_job_must_wait() {
        let mut entry = Entry::new(LiveJob { spec: JobSpec::default(), steps_done: 0.0 });
        assert_eq!(entry.revoked_seconds(&["a"]), 2, "nobody knows who ended it");
        entry.was_requeued();
        entry.has_vacated(vec!["a".into(), "b".into()]);
        assert!((1..=2).contains(&entry.revoked_seconds(&["b", "c"])));
        assert_eq!(entry.revoked_seconds(&["c"]), 0);
        // It took a second to save: that second counts.
        entry.vacated = Some((unix_seconds() - 1, vec!["a".into()]));
        assert!(entry.revoked_seconds(&["a"]) <= 1);
        entry.vacated = Some((unix_seconds() - 2, vec!["a".into()]));
        assert_eq!(entry.revoked_seconds(&["a"]), 0);
        // A clock that was put back makes nobody wait for long.
        entry.vacated = Some((unix_seconds() + 1000, vec!["a".into()]));
        assert_eq!(entry.revoked_seconds(&["a"]), 2);
    }
}
