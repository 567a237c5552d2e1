//! Which jobs may run at all: held ones may not, nor those that wait for others to end, nor more tasks of an array than it allows, nor
//! one that has run for as long as it may.
//!
//! A job that may not run is invisible to policies and to the placer; it only waits. The rules:
//!
//!   - *held*: until it is released. A gang that runs is stopped with a checkpoint;
//!   - *after*: every dependency is on a job that was submitted earlier. While that lives the dependency is open; its end meets it or breaks it, and
//!     a job with a broken dependency is given up, which is an end like any other for those that wait for it. One that was not
//!     live at the submission counts as met for ever;
//!   - *array*: at most `at_most` tasks are admitted, lowest ids first; a task stays admitted until it ends, or is held and its gang is gone. So no
//!     more than that many can ever hold GPUs, and none is sent back because a lower one returns;
//!   - *a cheaper hour*: a job with a deadline may wait for one (`deferral.rs`);
//!   - *quota*: what its tenant may use (`tenancy.rs`);
//!   - *time limit*: looked at once a round, so a job may run for up to a round longer.

use super::*;
use crate::job::Outcome;
use std::collections::VecDeque;

/// Tasks of an array with a limit that live. Follows from the jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Array {
    admitted: u32,
    /// Tasks that could be admitted.
    eligible: BTreeSet<JobId>,
}

/// What limits cannot be meant, in a sentence.
pub(super) fn senseless_limits(spec: &JobSpec) -> Option<String> {
    let id = spec.id.0;
    let needs = [
        ("CPUs per GPU", spec.needs.cpus_per_gpu),
        ("GiB of memory per GPU", spec.needs.memory_gib_per_gpu),
        ("GiB of GPU memory", spec.needs.gpu_memory_gib),
    ];
    if let Some((what, amount)) = needs.iter().find(|(_, amount)| !(amount.is_finite() && *amount >= 0.0)) {
        return Some(format!("job {id} needs {amount} {what}; expected 0 or more"));
    }
    if let Some(limit) = spec.time_limit_seconds.filter(|limit| !(limit.is_finite() && *limit > 0.0)) {
        return Some(format!("job {id} may run for {limit} seconds; expected more than 0, or no limit"));
    }
    if spec.most_failures == Some(0) {
        return Some(format!("job {id} is given up after 0 failures; expected at least 1"));
    }
    match spec.after.iter().any(|dependency| dependency.job == spec.id) {
        true => Some(format!("job {id} is to start after itself; name another job")),
        false => None,
    }
}

impl Scheduler {
    pub(super) fn hold(&mut self, id: JobId, out: &mut Vec<Output>) {
        let Some(slot) = self.jobs.slot(id).filter(|&slot| !self.jobs.get(slot).held) else { return };
        self.jobs.get_mut(slot).held = true;
        self.changed = true;
        out.push(Output::Note(Event::Held { job: id }));
        self.drop_target(slot);
        match self.jobs.get(slot).phase {
            Phase::Waiting => self.leave_array(slot),
            Phase::Starting(..) | Phase::Running(_) => self.stop(slot, AfterStop::Wait, out),
            Phase::Stopping(..) => {}
        }
    }

    pub(super) fn release(&mut self, id: JobId, out: &mut Vec<Output>) {
        let Some(slot) = self.jobs.slot(id).filter(|&slot| self.jobs.get(slot).held) else { return };
        self.jobs.get_mut(slot).held = false;
        self.changed = true;
        out.push(Output::Note(Event::Released { job: id }));
        self.enter_array(slot);
        self.admit_tasks(slot);
    }

    /// Takes in steps that jobs say are safe.
    pub(super) fn checkpointed(&mut self, jobs: &[(JobId, f64)]) {
        for &(job, steps) in jobs {
            if let Some(slot) = self.jobs.slot(job) {
                let mut job = self.jobs.get_mut(slot);
                // Progress since the last failure shows that the job can work: count anew.
                if steps.is_finite() && steps > job.steps_done {
                    job.failures = 0;
                }
                job.secure(steps);
            }
        }
    }

    /// Counts what a job waits for, and its place in its array. All jobs must be there.
    pub(super) fn enlist(&mut self, slot: Slot) {
        let (id, open) = (self.jobs.get(slot).spec.id, self.open_dependencies(self.jobs.get(slot)));
        self.jobs.get_mut(slot).unmet = open.len() as u32;
        for earlier in open {
            self.dependents.entry(earlier).or_default().insert(id);
        }
        let job = self.jobs.get(slot);
        if let Some(task) = job.spec.array.filter(|task| task.at_most > 0) {
            let admitted = u32::from(!job.waits_in_array);
            self.arrays.entry(task.array).or_default().admitted += admitted;
        }
        self.enter_array(slot);
    }

    /// Live jobs that must end before this one may start. A later job of the same id as one that is over is another.
    fn open_dependencies(&self, job: &Job) -> BTreeSet<JobId> {
        let earlier = |id: &JobId| self.jobs.slot(*id).is_some_and(|slot| self.jobs.get(slot).joined < job.joined);
        job.spec.after.iter().map(|dependency| dependency.job).filter(earlier).collect()
    }

    /// Makes a task one that its array may admit, if nothing else is in its way.
    fn enter_array(&mut self, slot: Slot) {
        let job = self.jobs.get(slot);
        if let Some(task) = job.spec.array
            && job.waits_in_array
            && !job.held
            && job.unmet == 0
        {
            self.arrays.entry(task.array).or_default().eligible.insert(job.spec.id);
        }
    }

    /// A held task without a gang leaves its place to another.
    pub(super) fn leave_array(&mut self, slot: Slot) {
        let job = self.jobs.get(slot);
        let Some(task) = job.spec.array.filter(|task| task.at_most > 0) else { return };
        let (id, admitted) = (job.spec.id, !job.waits_in_array);
        self.jobs.get_mut(slot).waits_in_array = true;
        if let Some(array) = self.arrays.get_mut(&task.array) {
            array.eligible.remove(&id);
            array.admitted -= u32::from(admitted);
        }
        self.admit_tasks(slot);
    }

    /// Admits tasks of a job's array while it has room.
    pub(super) fn admit_tasks(&mut self, slot: Slot) {
        if let Some(task) = self.jobs.get(slot).spec.array {
            self.admit_tasks_of(task.array);
        }
    }

    fn admit_tasks_of(&mut self, array: JobId) {
        let Some(tasks) = self.arrays.get_mut(&array) else { return };
        while let Some(&next) = tasks.eligible.first() {
            let slot = self.jobs.slot(next).expect("only live tasks are eligible");
            let mut job = self.jobs.get_mut(slot);
            if tasks.admitted >= job.spec.array.map_or(0, |task| task.at_most) {
                break;
            }
            job.waits_in_array = false;
            tasks.admitted += 1;
            tasks.eligible.pop_first();
            self.changed = true;
        }
    }

    /// A job is over: takes it out of everything that follows from it.
    pub(super) fn strike_off(&mut self, job: &Job) {
        for dependency in &job.spec.after {
            if let Some(waiting) = self.dependents.get_mut(&dependency.job) {
                waiting.remove(&job.spec.id);
                if waiting.is_empty() {
                    self.dependents.remove(&dependency.job);
                }
            }
        }
        let Some(task) = job.spec.array.filter(|task| task.at_most > 0) else { return };
        if let Some(array) = self.arrays.get_mut(&task.array) {
            array.eligible.remove(&job.spec.id);
            array.admitted -= u32::from(!job.waits_in_array);
            self.admit_tasks_of(task.array);
        }
        let of_array = |job: &Job| job.spec.array.is_some_and(|other| other.array == task.array);
        let idle = self.arrays.get(&task.array).is_some_and(|array| array.admitted == 0 && array.eligible.is_empty());
        if idle && !self.jobs.iter().any(|(_, job)| of_array(job)) {
            self.arrays.remove(&task.array);
        }
    }

    /// A job has ended: those that waited for it may start, or never can.
    pub(super) fn ended(&mut self, id: JobId, completed: bool, out: &mut Vec<Output>) {
        let mut over = VecDeque::from([(id, completed)]);
        while let Some((id, completed)) = over.pop_front() {
            for waiting in self.dependents.remove(&id).unwrap_or_default() {
                let Some(slot) = self.jobs.slot(waiting) else { continue };
                let job = self.jobs.get(slot);
                let broken = job.spec.after.iter().any(|d| d.job == id && !d.outcome.met_by(completed));
                if broken && job.phase == Phase::Waiting {
                    let asked = if completed { Outcome::NotOk } else { Outcome::Ok };
                    self.bury(slot);
                    out.push(Output::Note(Event::GaveUp { job: waiting, why: broken_words(id, asked) }));
                    over.push_back((waiting, false));
                } else {
                    let unmet = job.unmet.saturating_sub(1);
                    self.jobs.get_mut(slot).unmet = unmet;
                    self.changed = true;
                    self.enter_array(slot);
                    self.admit_tasks(slot);
                }
            }
        }
    }

    /// Gives a job up that holds nothing any longer.
    pub(super) fn give_up(&mut self, slot: Slot, why: String, out: &mut Vec<Output>) {
        let id = self.bury(slot).spec.id;
        out.push(Output::Note(Event::GaveUp { job: id, why }));
        self.ended(id, false, out);
    }

    pub(super) fn expire(&mut self, slot: Slot, out: &mut Vec<Output>) {
        let limit = self.jobs.get(slot).spec.time_limit_seconds.unwrap_or(0.0);
        self.give_up(slot, format!("time limit of {} reached", explain::span(limit)), out);
    }

    /// Stops jobs that have run for as long as they may, and gives them up.
    pub(super) fn end_overtime(&mut self, slots: &[Slot], out: &mut Vec<Output>) {
        for &slot in slots {
            // One given up before may have taken it along.
            let Some(job) = self.jobs.try_get(slot).filter(|job| job.is_overtime()) else { continue };
            match job.phase {
                Phase::Waiting => self.expire(slot, out),
                Phase::Starting(..) | Phase::Running(_) => self.stop(slot, AfterStop::Expire, out),
                Phase::Stopping(..) => self.drop_target(slot),
            }
            if let Some(job) = self.jobs.try_get(slot)
                && let Phase::Stopping(.., AfterStop::Wait | AfterStop::Replan) = job.phase
            {
                self.then(slot, AfterStop::Expire);
            }
        }
    }

    /// Failures in a row after which a job is given up.
    pub(super) fn most_failures(&self, slot: Slot) -> u32 {
        self.jobs.get(slot).spec.most_failures.unwrap_or(self.settings.most_failures)
    }

    /// Why a job that waits may not run, if it may not.
    pub(super) fn not_admitted(&self, job: &Job) -> Option<Reason> {
        if job.held {
            return Some(Reason::Held);
        }
        if job.unmet > 0 {
            return Some(Reason::After { jobs: self.open_dependencies(job).into_iter().collect() });
        }
        let at_most = job.spec.array.map_or(0, |task| task.at_most);
        match job.waits_in_array {
            true => Some(Reason::ArrayLimit { at_most }),
            false => self.deferral_reason(job).or_else(|| self.quota_reason(job)),
        }
    }
}

fn broken_words(job: JobId, asked: Outcome) -> String {
    match asked {
        Outcome::NotOk => format!("it was to start if job {} failed, and that completed", job.0),
        _ => format!("it was to start after job {} completed, and that failed or was cancelled", job.0),
    }
}
