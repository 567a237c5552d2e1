//! The live state: jobs that are not over, the classes they form, and who sits on which GPU.
//!
//! Nothing here decides. Jobs live in slots that are reused, so memory follows the number of live jobs.

use crate::allocate::{ClassId, Grouping};
use crate::scheduler::Fence;
use crate::shared_map::SharedMap;
use crate::{GpuId, JobId, JobSpec, KindId, Spread, TenantId, Time, Work, WorkloadId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

mod index;
mod lines;
mod roster;
mod shared_set;
mod shared_slots;
mod slot_set;

use index::{JobIndex, JobMut};
pub(crate) use lines::{LineId, Lines};
pub(crate) use roster::Roster;
use shared_slots::SharedSlots;

/// So many jobs of a class are looked at one by one.
const FEW: usize = 4;
/// The least that a job is taken to need of which nobody knows when it ends.
const UNKNOWN_LENGTH_SECONDS: f64 = 3600.0;

/// GPUs held, or about to be held, by one job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Gang {
    pub(crate) fence: Fence,
    pub(crate) kind: KindId,
    pub(crate) gpus: Vec<GpuId>,
    /// How far apart it is, beyond what it needs.
    pub(crate) spread: Spread,
    /// Its rate over the job's best.
    pub(crate) speed: f64,
    /// When it became known that it runs. Until then its start may still be on its way, whatever surveys show.
    pub(crate) confirmed_at: Option<Time>,
    /// Set while nobody has said that it is in the mode that it was told to go on in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retuned: Option<Pending>,
}

/// An order that awaits its confirmation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) ordered_at: Time,
    pub(crate) tries: u32,
}

/// What happens to a job once its gang is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AfterStop {
    Wait,
    /// It waits because of what became of its node, and the policy is asked anew.
    Replan,
    Leave,
    /// It has run for as long as it may.
    Expire,
}

/// Where a job stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    Waiting,
    Starting(Gang, Pending),
    Running(Gang),
    Stopping(Gang, Pending, AfterStop),
}

impl Phase {
    /// The gang it holds and will go on holding.
    pub(crate) fn held(&self) -> Option<&Gang> {
        match self {
            Self::Starting(gang, _) | Self::Running(gang) => Some(gang),
            Self::Waiting | Self::Stopping(..) => None,
        }
    }

    /// Whether its gang was known to run before `at`, so that whoever looked then must have seen it.
    pub(crate) fn ran_before(&self, at: Time) -> bool {
        self.occupied().and_then(|gang| gang.confirmed_at).is_some_and(|confirmed| confirmed < at)
    }

    /// The gang whose GPUs are not free because of it.
    pub(crate) fn occupied(&self) -> Option<&Gang> {
        match self {
            Self::Stopping(gang, ..) => Some(gang),
            other => other.held(),
        }
    }
}

/// A job that is not over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Shared with whoever else keeps it.
    pub(crate) spec: Arc<JobSpec>,
    /// Its submission's number: later ones are larger.
    pub(crate) joined: u64,
    pub(crate) class: ClassId,
    pub(crate) phase: Phase,
    /// GPUs that it is to hold, where the scheduler chose; what it holds now may still be another number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u32>,
    /// Seconds that its gangs have run, where gangs of several sizes have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ran_seconds: Option<f64>,
    /// The place the last plan gave it, if it still has to move there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<Box<Gang>>,
    /// Service received, in seconds on its fastest kind, counted from the class's level when it joined: alike
    /// jobs take turns by it.
    pub(crate) virtual_seconds: f64,
    /// Service received in seconds on its fastest kind, from its submission on.
    pub(crate) served_seconds: f64,
    pub(crate) attained_gpu_seconds: f64,
    /// Until when its service has been counted.
    pub(crate) credited: Time,
    /// Steps known to be safe.
    pub(crate) steps_done: f64,
    pub(crate) first_started: Option<Time>,
    /// Set while it waits for cheaper electricity: when it should start instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cheaper_at: Option<Time>,
    /// Failures in a row, for the pause before the next try.
    pub(crate) failures: u32,
    pub(crate) not_before: Time,
    /// Its line, where the policy serves whoever came first; 0 elsewhere. Follows from the policy and what was submitted.
    #[serde(skip)]
    pub(crate) line: LineId,
    /// Whether somebody holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) held: bool,
    /// Whether its array has as many tasks at work as it may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) waits_in_array: bool,
    /// Whether its tenant's quota keeps it from running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) waits_for_quota: bool,
    /// Live jobs that must end before it may start. Follows from all jobs together.
    #[serde(skip)]
    pub(crate) unmet: u32,
    /// What its program last ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
}

impl Job {
    /// Whether a plan may give it GPUs now: it waits and may be tried, or holds GPUs that can be reached.
    pub(crate) fn plannable(&self, now: Time, usable: &[bool]) -> bool {
        match &self.phase {
            Phase::Waiting => self.not_before <= now && self.may_run(),
            Phase::Starting(gang, _) | Phase::Running(gang) => gang.gpus.iter().all(|g| usable[g.index()]),
            Phase::Stopping(..) => false,
        }
    }

    /// Whether nothing but GPUs is missing: nobody holds it, it waits for no other job, and its array and its tenant's quota have room.
    pub(crate) fn may_run(&self) -> bool {
        self.may_run_but_for_quota() && !self.waits_for_quota
    }

    /// The same, whatever its tenant's quota says.
    pub(crate) fn may_run_but_for_quota(&self) -> bool {
        !self.held && self.unmet == 0 && !self.waits_in_array && self.cheaper_at.is_none()
    }

    /// Whether it waits for GPUs.
    pub(crate) fn queues(&self) -> bool {
        self.phase == Phase::Waiting && self.may_run()
    }

    /// GPUs that a plan gives it.
    pub(crate) fn gang(&self) -> u32 {
        self.size.unwrap_or(self.spec.gang)
    }

    /// The gang that it holds and that is as large as it is to be: one that can stay where it is.
    pub(crate) fn held_whole(&self) -> Option<&Gang> {
        self.phase.held().filter(|gang| gang.gpus.len() == self.gang() as usize)
    }

    /// Seconds that its gangs have run, as far as they were counted.
    pub(crate) fn run_seconds(&self) -> f64 {
        self.ran_seconds.unwrap_or_else(|| self.attained_gpu_seconds / f64::from(self.spec.gang.max(1)))
    }

    /// Whether it has run for as long as it may.
    pub(crate) fn is_overtime(&self) -> bool {
        self.spec.time_limit_seconds.is_some_and(|limit| self.run_seconds() >= limit)
    }

    /// Steps that it has done and has left: what is known to be safe, and what the time that it has run should have given if that is
    /// more. `best_rate` is its class's on its fastest kind.
    pub(crate) fn progress(&self, best_rate: f64) -> (f64, f64) {
        let all = match self.spec.work {
            Work::Steps(steps) => steps,
            Work::Period(seconds) => seconds * self.spec.floor.unwrap_or(best_rate),
            // Whoever has run for an hour without ending will, for all anybody knows, run for another.
            Work::Open(expected) => {
                let likely = expected.unwrap_or(0.0).max(2.0 * self.served_seconds).max(UNKNOWN_LENGTH_SECONDS);
                likely * best_rate
            }
        };
        let so_far = self.steps_done.max(self.served_seconds * best_rate).min(all);
        (so_far, all - so_far)
    }

    /// Takes in that so many steps are safe. They never become fewer, and what is no number says nothing.
    pub(crate) fn secure(&mut self, steps: f64) {
        if steps.is_finite() {
            self.steps_done = self.steps_done.max(steps);
        }
    }

    /// Counts the service received since it was last counted, and returns the GPU-seconds of it.
    #[must_use]
    pub(crate) fn credit(&mut self, now: Time) -> f64 {
        let Phase::Running(gang) = &self.phase else { return 0.0 };
        let seconds = now.since(self.credited);
        let gpu_seconds = seconds * gang.gpus.len() as f64;
        self.ran_seconds = self.ran_seconds.map(|ran| ran + seconds);
        self.virtual_seconds += seconds * gang.speed;
        self.served_seconds += seconds * gang.speed;
        self.attained_gpu_seconds += gpu_seconds;
        self.credited = now;
        gpu_seconds
    }
}

/// Slot of a live job.
pub(crate) type Slot = u32;

/// Live jobs by slot and by id. A copy shares the jobs until they change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Jobs {
    slots: SharedSlots<Job>,
    /// Reused from the end.
    free: Vec<Slot>,
    #[serde(skip)]
    by_id: SharedMap<Slot>,
    #[serde(skip)]
    index: JobIndex,
}

impl Jobs {
    pub(crate) fn insert(&mut self, job: Job) -> Slot {
        let id = job.spec.id;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as Slot - 1
        });
        self.index.enter(slot, &job);
        self.slots.replace(slot as usize, Some(job));
        self.by_id.insert(id, slot);
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Job {
        let job = self.slots.replace(slot as usize, None).expect("a live slot");
        self.index.leave(slot, &job);
        self.by_id.remove(&job.spec.id);
        self.free.push(slot);
        job
    }

    pub(crate) fn slot(&self, id: JobId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.by_id.ids()
    }

    pub(crate) fn get(&self, slot: Slot) -> &Job {
        self.slots.get(slot as usize).expect("a live slot")
    }

    pub(crate) fn try_get(&self, slot: Slot) -> Option<&Job> {
        self.slots.get(slot as usize)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> JobMut<'_> {
        let job = self.slots.get_mut(slot as usize).expect("a live slot");
        JobMut::new(slot, job, &mut self.index)
    }

    /// In order of slot, which the history of inputs decides: the same in every run. Behind a long queue this is many.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Job)> {
        self.slots.iter().enumerate().filter_map(|(i, job)| Some((i as Slot, job?)))
    }

    /// Changes jobs of which something is true, in order of slot. Those of which it is not stay shared with copies.
    pub(crate) fn change_where(&mut self, applies: impl Fn(&Job) -> bool, mut change: impl FnMut(&mut Job)) {
        let slots: Vec<Slot> = self.iter().filter(|(_, job)| applies(job)).map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| change(&mut self.get_mut(slot)));
    }

    fn at(&self, slot: Slot) -> (Slot, &Job) {
        (slot, self.get(slot))
    }

    /// Jobs because of which GPUs are not free; in order of slot, as the others below.
    pub(crate) fn holding(&self) -> impl Iterator<Item = (Slot, &Job)> {
        self.index.holding.iter().map(|slot| self.at(slot))
    }

    /// Jobs that hold GPUs, and those that have run for as long as they may.
    pub(crate) fn holding_or_overtime(&self) -> impl Iterator<Item = (Slot, &Job)> {
        self.index.holding.union(&self.index.overtime).map(|slot| self.at(slot))
    }

    /// Jobs to which the last plan gave a place that they do not have yet.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (Slot, &Job)> {
        self.index.placed.iter().map(|slot| self.at(slot))
    }

    /// Jobs that may wait for cheaper electricity.
    pub(crate) fn deferrable(&self) -> impl Iterator<Item = (Slot, &Job)> {
        self.index.deferrable.iter().map(|slot| self.at(slot))
    }

    /// Whether the size of any job is the scheduler's to choose.
    pub(crate) fn any_elastic(&self) -> bool {
        !self.index.elastic.is_empty()
    }

    /// Whether any job waits for GPUs.
    pub(crate) fn any_queues(&self) -> bool {
        self.index.any_queues()
    }

    /// How many jobs of a class wait for GPUs.
    pub(crate) fn queued(&self, class: ClassId) -> usize {
        self.index.queued(class)
    }

    /// Jobs of a class that wait for GPUs and may be given some at this time: whoever has received least service first, then the smaller slot.
    pub(crate) fn queue(&self, class: ClassId, now: Time) -> impl Iterator<Item = Slot> + Clone + '_ {
        self.index.queue(class).filter(move |&slot| self.get(slot).not_before <= now)
    }

    /// How many jobs of a class wait for GPUs and may be given some at this time, as a function of the class and its roster.
    pub(crate) fn ready(&self, now: Time) -> impl Fn(ClassId, &Roster) -> u32 + '_ {
        let mut pausing: BTreeMap<ClassId, usize> = BTreeMap::new();
        let pauses = self.index.pausing.iter().map(|slot| self.get(slot)).filter(|job| job.not_before > now);
        pauses.for_each(|job| *pausing.entry(job.class).or_default() += 1);
        move |class, roster| {
            // A few are looked at more quickly than they are found in an index.
            if roster.len() <= FEW {
                let ready = |slot: &Slot| self.get(*slot).queues() && self.get(*slot).not_before <= now;
                return roster.iter().filter(ready).count() as u32;
            }
            (self.index.queued(class) - pausing.get(&class).copied().unwrap_or(0)) as u32
        }
    }

    /// Slots in use and free: one more than the largest slot.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Live slots in the order of their jobs' submission.
    pub(crate) fn by_submission(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.iter().map(|(slot, _)| slot).collect();
        slots.sort_unstable_by_key(|&slot| self.get(slot).joined);
        slots
    }

    #[cfg(test)]
    pub(crate) fn places_are_right(&self) -> bool {
        self.index.says_the_same(&self.indexed_anew())
    }

    fn indexed_anew(&self) -> JobIndex {
        let mut index = JobIndex::default();
        self.iter().for_each(|(slot, job)| index.enter(slot, job));
        index
    }

    /// Jobs as they were read, to be found by id too.
    ///
    /// # Errors
    /// A sentence, when two jobs are one, or the list of free slots is not that of the slots that are free.
    pub(crate) fn indexed(mut self) -> Result<Self, String> {
        self.by_id = self.iter().map(|(slot, job)| (job.spec.id, slot)).collect();
        self.index = self.indexed_anew();
        let mut free = self.free.clone();
        free.sort_unstable();
        let unused = |(job, slot): (Option<&Job>, Slot)| job.is_none().then_some(slot);
        if !self.slots.iter().zip(0..).filter_map(unused).eq(free) {
            return Err("the snapshot's free slots are not those without a job".into());
        }
        if self.by_id.len() + self.free.len() != self.slots.len() {
            return Err("two jobs of the snapshot have one id".into());
        }
        Ok(self)
    }
}

/// What makes jobs alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ClassKey {
    tenant: TenantId,
    workload: WorkloadId,
    gang: u32,
    /// Fewest and most GPUs of elastic jobs.
    range: Option<(u32, u32)>,
    weight_bits: u64,
    floor_bits: u64,
    kinds: Vec<KindId>,
    needs_bits: [u64; 3],
    /// Set where every job is its own class.
    job: Option<JobId>,
}

impl ClassKey {
    /// Of jobs like `spec` that are to hold `gang` GPUs.
    pub(crate) fn of(spec: &JobSpec, gang: u32, grouping: Grouping) -> Self {
        Self {
            tenant: spec.tenant,
            workload: spec.workload,
            gang,
            range: spec.is_elastic().then(|| (spec.gang, spec.most_gpus())),
            weight_bits: spec.weight.to_bits(),
            floor_bits: spec.floor.map_or(u64::MAX, f64::to_bits),
            kinds: spec.kinds.clone(),
            needs_bits: spec.needs.bits(),
            job: (grouping == Grouping::Single).then_some(spec.id),
        }
    }
}

impl ClassKey {
    pub(crate) fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// What elastic jobs have in common that differ in their present size only; none for others.
    pub(crate) fn family(&self) -> Option<Self> {
        self.range.map(|(least, _)| Self { gang: least, ..self.clone() })
    }
}

/// Alike jobs.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) key: ClassKey,
    pub(crate) jobs: Roster,
    pub(crate) gang: u32,
    /// Rate of one gang alone on as few nodes as possible, by kind; 0 where it does not fit or may not go.
    pub(crate) rates: Vec<f64>,
    /// The same at every level of spread, the packed one included.
    pub(crate) spread_rates: Vec<[f64; Spread::ALL.len()]>,
    /// The rates as the placer may see them: all 1 for a policy that is blind to speed.
    pub(crate) seen_rates: Vec<f64>,
    /// Kinds in the order of these rates, fastest first.
    pub(crate) fastest_first: Vec<KindId>,
}

impl Class {
    /// Rate on a kind over the best rate.
    pub(crate) fn speed(&self, kind: KindId, spread: Spread) -> f64 {
        self.rate(kind, spread) / self.best_rate().max(f64::MIN_POSITIVE)
    }

    /// Rate of one gang alone on a kind.
    pub(crate) fn rate(&self, kind: KindId, spread: Spread) -> f64 {
        self.spread_rates[kind.index()][spread.index()]
    }

    /// GPUs of a gang and the kinds that it may run on; none where it may on none.
    pub(crate) fn shape(&self) -> Option<(u32, Vec<bool>)> {
        let kinds: Vec<bool> = self.rates.iter().map(|&rate| rate > 0.0).collect();
        kinds.contains(&true).then_some((self.gang, kinds))
    }

    pub(crate) fn best_rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}

/// All classes with jobs.
pub(crate) type Classes = BTreeMap<ClassId, Class>;

/// No job.
pub(crate) const NOBODY: Slot = Slot::MAX;

/// Who occupies each GPU: at most two jobs.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    by_gpu: Vec<[Slot; 2]>,
}

impl Seats {
    pub(crate) fn new(gpus: usize) -> Self {
        Self { by_gpu: vec![[NOBODY; 2]; gpus] }
    }

    /// Seats for as many GPUs as there are now.
    pub(crate) fn grow(&mut self, gpus: usize) {
        self.by_gpu.resize(gpus.max(self.by_gpu.len()), [NOBODY; 2]);
    }

    pub(crate) fn sit(&mut self, slot: Slot, gpus: &[GpuId]) {
        for gpu in gpus {
            let seats = &mut self.by_gpu[gpu.index()];
            let seat = seats.iter_mut().find(|s| **s == NOBODY).expect("a GPU seats two jobs at most");
            *seat = slot;
        }
    }

    pub(crate) fn leave(&mut self, slot: Slot, gpus: &[GpuId]) {
        for gpu in gpus {
            for seat in &mut self.by_gpu[gpu.index()] {
                if *seat == slot {
                    *seat = NOBODY;
                }
            }
        }
    }

    pub(crate) fn on(&self, gpu: GpuId) -> impl Iterator<Item = Slot> + '_ {
        self.by_gpu[gpu.index()].iter().copied().filter(|&s| s != NOBODY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million jobs are kept in memory: what one takes is looked at whenever it grows.
    #[test]
    fn a_live_job_is_small() {
        let (job, spec, gang) = (size_of::<Job>(), size_of::<JobSpec>(), size_of::<Gang>());
        println!("bytes: a job {job}, what was submitted {spec}, a gang {gang}");
        assert!(job <= 320 && spec <= 320, "{job} and {spec} bytes");
    }
}
