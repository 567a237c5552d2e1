//! What follows from what a gang should be and what Slurm says that its job is.

use super::record::Stage;
use arles_core::scheduler::{Fence, GangState};
use arles_core::{GpuId, JobId, KindId, Spread, Time};
use std::time::SystemTime;

/// A gang that was ordered.
pub(super) struct Gang {
    pub(super) fence: Fence,
    pub(super) kind: KindId,
    pub(super) gpus: Vec<GpuId>,
    pub(super) spread: Spread,
    pub(super) phase: Phase,
    /// The count that the next rate is measured from, and when the program wrote it.
    pub(super) counted: Option<(f64, SystemTime)>,
    /// Since when it has run.
    pub(super) running_since: Option<Time>,
    /// Shards that its job was released with; 0 for whole GPUs.
    pub(super) shards: u32,
    /// The other job on its GPU while the next rate is measured.
    pub(super) beside: Option<JobId>,
    /// Whether its start was reported.
    pub(super) told: bool,
    /// How often it had to be put together with its partner again.
    pub(super) reseatings: u8,
}

impl Gang {
    /// One that was just ordered.
    pub(super) fn new(fence: Fence, kind: KindId, gpus: Vec<GpuId>) -> Self {
        let (spread, phase) = (Spread::Packed, Phase::Wanted);
        let (counted, running_since, beside) = (None, None, None);
        Self { fence, kind, gpus, spread, phase, counted, running_since, shards: 0, beside, told: false, reseatings: 0 }
    }

    /// Whether it is on its GPUs, as far as is known.
    pub(super) fn runs(&self) -> bool {
        self.running_since.is_some() && !matches!(self.phase, Phase::Over(..))
    }

    /// Whether its GPUs are nobody else's.
    pub(super) fn holds(&self) -> bool {
        !matches!(self.phase, Phase::Over(..))
    }
}

/// How far a gang is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Phase {
    /// Its job must be given its place and be released.
    Wanted,
    /// Its job was released, and Slurm will start it.
    Released,
    /// It runs.
    Running,
    /// It runs or has just left, and starts again where it is: with another part of its GPU (`shard.rs`), or with the devices that it lacks
    /// (`unregistered.rs`).
    Reseating,
    /// It must go: its job is to be back in the queue, held.
    Stopping,
    /// It ended by itself. Kept until it is ordered to stop.
    Over(GangState, Option<i32>),
}

/// What is to be done about a gang.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Wait,
    /// Give the job its place and release it.
    Release,
    /// Its job is over, or not there: submit it again, if arles submitted it.
    Resubmit,
    /// Take the job back before it starts.
    Hold,
    /// Have the job checkpoint, and take it back.
    Requeue,
    /// It runs now.
    Started,
    /// It is gone, and its job is back in the queue.
    Stopped,
    /// Its job ended by itself with code 0.
    Finished,
    /// Its job failed.
    Failed,
    /// Somebody cancelled its job. Whoever takes requests hears of it, and orders the gang to stop.
    Cancelled,
    /// Slurm does not know its job any more.
    Vanished,
}

/// The next step. `None` for a job that Slurm does not know.
pub(super) fn next_step(phase: &Phase, stage: Option<Stage>) -> Step {
    use Stage::{Cancelled, Completed, Completing, Failed, Held, Queued, Running};
    match (phase, stage) {
        (Phase::Over(..), _) => Step::Wait,
        (Phase::Wanted | Phase::Reseating, Some(Held | Queued)) => Step::Release,
        // It runs by somebody else's word, or its last gang is not gone yet.
        (Phase::Wanted | Phase::Reseating, Some(Running)) => Step::Requeue,
        (Phase::Wanted, None | Some(Cancelled | Completed | Failed)) => Step::Resubmit,
        (Phase::Released, Some(Running)) => Step::Started,
        (Phase::Released, Some(Queued)) => Step::Wait,
        // Its user or an operator holds it, or a crash of the controller took the release back.
        (Phase::Released | Phase::Running, Some(Held)) => Step::Stopped,
        (Phase::Running, Some(Running)) => Step::Wait,
        // Its node was lost, or somebody requeued it. It must not start again by itself: its place may be another's.
        (Phase::Running, Some(Queued)) => Step::Hold,
        (Phase::Stopping, Some(Running)) => Step::Requeue,
        (Phase::Stopping, Some(Queued)) => Step::Hold,
        (Phase::Stopping, Some(Held) | None) => Step::Stopped,
        (_, Some(Completing)) => Step::Wait,
        (_, Some(Completed)) => Step::Finished,
        (Phase::Stopping, Some(Cancelled)) => Step::Stopped,
        (_, Some(Failed)) => Step::Failed,
        (_, Some(Cancelled)) => Step::Cancelled,
        (_, None) => Step::Vanished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gang_is_released_while_its_job_has_gpus() {
        for phase in [Phase::Wanted, Phase::Reseating] {
            for stage in [Stage::Running, Stage::Completing] {
                assert_ne!(next_step(&phase, Some(stage)), Step::Release);
            }
        }
    }

    #[test]
    fn a_gang_that_must_go_is_gone_only_when_its_job_cannot_start() {
        for stage in [Stage::Running, Stage::Completing, Stage::Queued] {
            assert_ne!(next_step(&Phase::Stopping, Some(stage)), Step::Stopped, "{stage:?}");
        }
        assert_eq!(next_step(&Phase::Stopping, Some(Stage::Held)), Step::Stopped);
    }

    #[test]
    fn what_finished_is_never_told_as_stopped() {
        for phase in [Phase::Released, Phase::Running, Phase::Reseating, Phase::Stopping] {
            assert_eq!(next_step(&phase, Some(Stage::Completed)), Step::Finished);
        }
    }
}
