//! What follows from what a gang should be and what its pods are.

use super::group::Stage;
use arles_core::scheduler::{Fence, GangState};
use arles_core::{GpuId, KindId, Spread, Time};
use std::collections::BTreeSet;
use std::time::{Instant, SystemTime};

/// A gang that was ordered.
pub(super) struct Gang {
    pub(super) fence: Fence,
    pub(super) kind: KindId,
    pub(super) gpus: Vec<GpuId>,
    pub(super) spread: Spread,
    pub(super) phase: Phase,
    /// Pods that were given their places, by uid: what was done may not show yet, and is not done twice.
    pub(super) placed: BTreeSet<String>,
    /// Since when it has not been whole.
    pub(super) broken_since: Instant,
    /// The count that the next rate is measured from, and when the program wrote it.
    pub(super) counted: Option<(f64, SystemTime)>,
    /// Since when it has run.
    pub(super) running_since: Option<Time>,
}

impl Gang {
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
    /// Its pods must be given their places, all or none.
    Wanted,
    /// They were, and do not all run yet.
    Placed,
    /// It runs.
    Running,
    /// It must go: none of its pods may have a place.
    Stopping,
    /// It ended by itself. Kept until it is ordered to stop.
    Over(GangState, Option<i32>),
}

/// What is to be done about a gang.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    Wait,
    /// Give the pods that have no place theirs; when that takes too long, give back what was taken.
    Place,
    /// Tell its pods to go.
    Evict,
    /// All of it runs now.
    Started,
    /// It is gone.
    Stopped,
    /// It ended by itself with success.
    Finished,
    /// It failed, why, and with which code.
    Failed(String, Option<i32>),
}

/// What is done about a gang in this phase whose pods come to this.
pub(super) fn next_step(phase: &Phase, stage: Stage) -> Step {
    match (phase, stage) {
        (Phase::Over(..), _) => Step::Wait,
        (_, Stage::Completed) => Step::Finished,
        (_, Stage::Failed(why, code)) => Step::Failed(why, code),
        (Phase::Stopping, Stage::Waiting | Stage::Absent) => Step::Stopped,
        (Phase::Stopping, Stage::Starting | Stage::Running) => Step::Evict,
        // It runs by somebody else's word, or its last gang is not gone yet.
        (Phase::Wanted, Stage::Starting | Stage::Running) => Step::Evict,
        (Phase::Wanted, Stage::Waiting | Stage::Absent) => Step::Place,
        (Phase::Placed, Stage::Running) => Step::Started,
        (Phase::Running, Stage::Running) => Step::Wait,
        // A pod failed, or was deleted, and its controller made another: it goes where that one was.
        (Phase::Placed | Phase::Running, Stage::Starting | Stage::Waiting | Stage::Absent) => Step::Place,
        (_, Stage::Leaving) => Step::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [Stage; 5] = [Stage::Absent, Stage::Waiting, Stage::Starting, Stage::Running, Stage::Leaving];

    #[test]
    fn no_pod_is_placed_for_a_new_gang_while_the_last_one_has_a_place() {
        for stage in [Stage::Starting, Stage::Running, Stage::Leaving] {
            assert_ne!(next_step(&Phase::Wanted, stage.clone()), Step::Place, "{stage:?}");
        }
    }

    #[test]
    fn a_gang_that_must_go_is_gone_only_when_no_pod_has_a_place() {
        for stage in [Stage::Starting, Stage::Running, Stage::Leaving] {
            assert_ne!(next_step(&Phase::Stopping, stage.clone()), Step::Stopped, "{stage:?}");
        }
        for stage in STAGES {
            assert_ne!(next_step(&Phase::Stopping, stage.clone()), Step::Place, "{stage:?}");
        }
    }

    #[test]
    fn what_finished_is_never_told_as_stopped() {
        for phase in [Phase::Wanted, Phase::Placed, Phase::Running, Phase::Stopping] {
            assert_eq!(next_step(&phase, Stage::Completed), Step::Finished);
        }
    }

    #[test]
    fn nothing_is_done_about_what_is_over() {
        for stage in STAGES {
            assert_eq!(next_step(&Phase::Over(GangState::Finished, Some(0)), stage), Step::Wait);
        }
    }
}
