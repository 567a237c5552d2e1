//! Placement: shares become whole GPUs for one round.
//!
//! The `Placer` sees the live state and an allocation and names, for every job that is to run this round, the GPUs it
//! runs on. What it drafts is a `Plan`; a `Placement` exists only through `Placement::check`: every gang whole and on
//! one kind, no GPU oversold, nobody on a node that is not usable, and CPUs and memory for everybody where they are counted.
//!
//! Nothing here gives orders or changes a job: the scheduler carries a placement out.

use crate::allocate::FreeGpus;
use crate::host::HostRoom;
use crate::live::{Classes, Jobs, Seats, Slot};
use crate::{Cluster, GpuId, KindId, Spread, Time};
use std::fmt;

mod kept;
mod matching;
mod packings;
mod quota;
mod rounding;
mod seating;
mod thrift;

pub(crate) use rounding::Placer;

/// The live state, as the placer may see it.
pub(crate) struct View<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) now: Time,
    pub(crate) round_seconds: f64,
    /// Whether the policy may put two jobs on one GPU.
    pub(crate) pairs: bool,
    /// What becomes of GPUs that the policy left free.
    pub(crate) free_gpus: FreeGpus,
    /// Whether the policy grants whole gangs, never shares of time.
    pub(crate) whole: bool,
    /// Whether of those who wait only the fronts of their lines are looked at.
    pub(crate) fronts_only: bool,
    /// Rounds since the last plan in which it simply went on.
    pub(crate) skipped_rounds: u32,
    pub(crate) jobs: &'a Jobs,
    pub(crate) classes: &'a Classes,
    pub(crate) seats: &'a Seats,
    /// GPUs that may be used this round, by GPU: node up, no stranger, nobody on the way out.
    pub(crate) usable: &'a [bool],
}

impl View<'_> {
    pub(crate) fn plannable(&self, slot: Slot) -> bool {
        self.jobs.get(slot).plannable(self.now, self.usable)
    }

    /// The kind whose GPUs each kind takes.
    fn sold_as(&self) -> Vec<usize> {
        let kinds = self.cluster.kinds().len() as u16;
        (0..kinds).map(|j| self.cluster.sold_as(KindId(j)).index()).collect()
    }

    /// CPUs and memory that a plan may hand out: those of gangs that no plan moves are taken.
    fn host_room(&self, room: &mut HostRoom) {
        room.reset(self.cluster);
        if !room.counts() {
            return;
        }
        for (slot, job) in self.jobs.holding() {
            if let Some(gang) = job.phase.occupied().filter(|_| !self.plannable(slot)) {
                gang.gpus.iter().for_each(|&gpu| room.take(self.cluster.node_of(gpu), &job.spec.needs, 1));
            }
        }
    }

    fn turn_seconds(&self, restart_seconds: f64) -> f64 {
        turn_seconds(restart_seconds, self.round_seconds)
    }
}

/// How long a job should run before another takes its place: long enough that restarts cost a small part of the time, and
/// never less than a few rounds.
pub(crate) fn turn_seconds(restart_seconds: f64, round_seconds: f64) -> f64 {
    (restart_seconds / MAX_RESTART_OVERHEAD).max(MIN_TURN_ROUNDS * round_seconds)
}

/// Largest part of the time that taking turns may cost in restarts.
const MAX_RESTART_OVERHEAD: f64 = 0.05;
/// Shortest turn, in rounds.
const MIN_TURN_ROUNDS: f64 = 4.0;
/// A placement that nothing has disturbed stands for this many rounds before the next is made: half a turn.
pub(crate) const ROUNDS_PER_PLAN: u32 = 2;

/// The GPUs of one gang.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seat {
    pub(crate) job: Slot,
    pub(crate) kind: KindId,
    pub(crate) gpus: Vec<GpuId>,
    pub(crate) spread: Spread,
}

/// Where every job of a round is to run, not yet checked: jobs that stay where they are, and jobs that move or start.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) keep: Vec<Slot>,
    pub(crate) seats: Vec<Seat>,
}

/// A plan that keeps the rules.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Placement(Plan);

/// A rule that a plan breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PlaceError {
    /// A GPU was given to more jobs than its kind allows.
    Oversold(GpuId),
    /// A gang has not as many GPUs as the job holds.
    NotWhole(u64),
    /// A gang spans two kinds.
    Mixed(u64),
    /// A GPU that may not be used now.
    Unusable(GpuId),
    /// A job was placed twice.
    Twice(u64),
    /// A job was placed on a node without the CPUs or the memory for it.
    NoHostRoom(u64, String),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversold(gpu) => write!(f, "{gpu} was given to more jobs than may share it"),
            Self::NotWhole(job) => write!(f, "job {job} was not given its whole gang"),
            Self::Mixed(job) => write!(f, "job {job} was placed on more than one kind"),
            Self::Unusable(gpu) => write!(f, "{gpu} was given out while it cannot be used"),
            Self::Twice(job) => write!(f, "job {job} was placed twice"),
            Self::NoHostRoom(job, node) => {
                write!(f, "job {job} was placed on node '{node}', which lacks the CPUs or the memory for it")
            }
        }
    }
}

impl Placement {
    /// Accepts a plan that keeps the rules.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub(crate) fn check(plan: Plan, view: &View<'_>) -> Result<Self, PlaceError> {
        let mut load = vec![0u8; view.cluster.gpus()];
        let mut placed = vec![false; view.jobs.slots()];
        let mut room = HostRoom::default();
        view.host_room(&mut room);
        let kept = plan.keep.iter().map(|&slot| {
            let gang = view.jobs.get(slot).phase.held().expect("only a held gang can be kept");
            (slot, gang.kind, gang.gpus.as_slice())
        });
        for (slot, kind, gpus) in kept.chain(plan.seats.iter().map(|s| (s.job, s.kind, s.gpus.as_slice()))) {
            let spec = &view.jobs.get(slot).spec;
            if std::mem::replace(&mut placed[slot as usize], true) {
                return Err(PlaceError::Twice(spec.id.0));
            }
            let (kept, gang) =
                (view.jobs.get(slot).phase.held().is_some_and(|held| held.gpus == gpus), view.jobs.get(slot).gang());
            // One that goes on may be of the size that it had until now.
            if gpus.len() != gang as usize && !(kept && spec.takes(gpus.len())) {
                return Err(PlaceError::NotWhole(spec.id.0));
            }
            let most = if gpus.len() == 1 && view.pairs { view.cluster.kind(kind).max_jobs.min(2) } else { 1 };
            for &gpu in gpus {
                if view.cluster.kind_of(gpu) != view.cluster.sold_as(kind) {
                    return Err(PlaceError::Mixed(spec.id.0));
                }
                if !view.usable[gpu.index()] {
                    return Err(PlaceError::Unusable(gpu));
                }
                load[gpu.index()] += if most == 1 { 2 } else { 1 };
                if load[gpu.index()] > 2 {
                    return Err(PlaceError::Oversold(gpu));
                }
            }
            if let Err(node) = room.take_gang(view.cluster, &spec.needs, gpus) {
                return Err(PlaceError::NoHostRoom(spec.id.0, view.cluster.node(node).name.clone()));
            }
        }
        Ok(Self(plan))
    }

    /// The plan, to be carried out.
    pub(crate) fn into_plan(self) -> Plan {
        self.0
    }
}

/// What a class is owed on one kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Standing {
    /// The kind that the class was granted.
    pub kind: KindId,
    /// Gangs at once, on average.
    pub gangs: f64,
    /// Gang rounds owed (or, below zero, had too much).
    pub credit: f64,
}
