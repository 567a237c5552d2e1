//! A job as the engine knows it.

use super::gang::{Gang, Phase};
use super::group::GroupKey;
use arles_core::engine::{JobMeter, LiveJob};
use arles_core::meter::Charge;
use arles_core::scheduler::{Fence, GangEvent, GangReport};
use std::time::{Duration, Instant};

/// A call that takes effect slowly is not repeated before this.
const REPEAT: Duration = Duration::from_secs(5);

/// A job, live or remembered.
pub(super) struct Entry {
    pub(super) live: LiveJob,
    /// The group that it is in Kubernetes with the GPUs that it asked for, if its user made it there; otherwise arles makes its pods.
    pub(super) group: Option<(GroupKey, u32)>,
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
    /// Since when there has been nothing of it in Kubernetes.
    pub(super) absent_since: Option<Instant>,
    /// Why it was not started where it was last ordered, or is not stopped yet.
    pub(super) put_off: Option<String>,
    /// Why its gang is told to go, for its users.
    pub(super) why_stopped: Option<String>,
    last_sent: Option<Instant>,
}

impl Entry {
    pub(super) fn new(live: LiveJob) -> Self {
        let external = live.spec.program.as_ref().and_then(|program| program.external.as_deref());
        Self {
            group: external.and_then(GroupKey::parse_external),
            gang: None,
            fence: Fence(0),
            outcome: None,
            given_up: None,
            charge: Charge::default(),
            gpu_seconds: 0.0,
            steps: live.steps_done.max(0.0),
            rate: 0.0,
            absent_since: None,
            put_off: None,
            why_stopped: None,
            last_sent: None,
            live,
        }
    }

    /// Whether its user made it in Kubernetes.
    pub(super) fn is_native(&self) -> bool {
        self.group.is_some()
    }

    /// Whether a call may be sent now; not again before it had time to show.
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

    /// Whether it ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&self.outcome, Some((_, GangEvent::Finished | GangEvent::Failed(..), _)))
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

    /// Whether something of it is under way, so that it is looked at even if nothing has changed.
    pub(super) fn is_changing(&self) -> bool {
        let phase = self.gang.as_ref().map(|gang| &gang.phase);
        matches!(phase, Some(Phase::Wanted | Phase::Placed | Phase::Stopping))
    }
}
