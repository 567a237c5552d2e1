//! Looking at Slurm's queue, and doing what follows for each job.

use super::arrival::{among, arrival, parse_external};
use super::controller::CommandError;
use super::dependency::{Dependency, dependency};
use super::entry::{Entry, unix_seconds};
use super::gang::{Gang, Phase, Step, next_step};
use super::mark::{self, Claim, Mark, MarkedGang};
use super::record::{JobRecord, NodeRecord, Stage};
use super::shard::{self, Berth};
use super::{Slurm, program, suit};
use crate::intake::{Arrival, Seen};
use arles_core::engine::EngineError;
use arles_core::scheduler::{Fence, GangEvent, GangReport, GangState};
use arles_core::{JobId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Shortest pause between two looks while something is under way.
const HURRY: Duration = Duration::from_millis(250);
/// A look may take this part of the time at most: a long queue is looked at less often.
const LOAD: u32 = 8;
/// Clocks of this machine and the controller's may differ by this much before changes are seen late. A survey looks at everything anyway.
pub(super) const SKEW_SECONDS: u64 = 3;
/// A job that is missing from this many looks at the whole queue is gone.
const MISSES: u32 = 2;

/// The queue at the last look.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) records: Vec<JobRecord>,
    /// Places in the list by name; tasks of an array that have no record of their own are at that of the array.
    by_name: BTreeMap<String, usize>,
    asked_at: Option<u64>,
    pub(super) looks: u64,
}

impl Queue {
    fn take(&mut self, records: Vec<JobRecord>) {
        self.by_name.clear();
        for (at, record) in records.iter().enumerate() {
            for name in record.tasks().0 {
                self.by_name.insert(name, at);
            }
        }
        self.records = records;
    }

    pub(super) fn find(&self, name: &str) -> Option<&JobRecord> {
        self.by_name.get(name).map(|&at| &self.records[at])
    }
}

impl Slurm {
    /// Whether it is time for another look.
    pub(super) fn is_due(&self) -> bool {
        let Some(looked) = self.looked else { return true };
        let hurry = self.jobs.values().any(Entry::is_changing);
        let usual = Duration::from_secs_f64(self.options.poll_seconds);
        let pause = if hurry { HURRY.min(usual) } else { usual };
        looked.elapsed() >= pause.max(self.controller.look_took * LOAD)
    }

    /// Looks at the queue: at all of it, or only if something has changed.
    pub(super) fn look(&mut self, now: Time, everything: bool) -> Result<(), EngineError> {
        self.count(now);
        let since = self.queue.asked_at.filter(|_| !everything).map(|at| at.saturating_sub(SKEW_SECONDS));
        let asked_at = unix_seconds();
        let answer = self.controller.jobs(since);
        self.looked = Some(Instant::now());
        if let Some(records) = answer? {
            self.queue.take(records);
            self.notice_terms();
        }
        // For whoever must find out from outside whether this engine still reaches Slurm.
        let _ = std::fs::create_dir_all(&self.options.folder);
        let _ = std::fs::write(self.options.folder.join("last-look"), asked_at.to_string());
        self.queue.looks += u64::from(everything);
        self.queue.asked_at = Some(asked_at);
        if everything {
            self.note_missing();
        }
        self.obey()
    }

    fn note_missing(&mut self) {
        let is_missing = |entry: &Entry| entry.slurm.is_some() && self.record(entry).is_none();
        let missing: BTreeSet<JobId> =
            self.jobs.iter().filter(|(_, entry)| is_missing(entry)).map(|(&id, _)| id).collect();
        for (id, entry) in &mut self.jobs {
            entry.missing = if missing.contains(id) { entry.missing + 1 } else { 0 };
        }
    }

    /// The record of a job, if Slurm has it.
    pub(super) fn record(&self, entry: &Entry) -> Option<&JobRecord> {
        let record = self.queue.find(entry.slurm.as_deref()?)?;
        entry.is_of(record, &self.journal, self.own_user).then_some(record)
    }

    /// What is written into a job's admin comment.
    fn mark(&self, job: JobId, gang: Option<MarkedGang>) -> Mark {
        Mark { job, journal: self.journal.clone(), term: self.term, gang }
    }

    /// Finds what an earlier engine did with a job.
    pub(super) fn adopt(&self, entry: &mut Entry) {
        let id = entry.live.spec.id;
        let marked = |record: &&JobRecord| {
            let mark = Mark::read(&record.admin_comment).or_else(|| Mark::read(&record.comment));
            mark.is_some_and(|mark| mark.job == id) && entry.is_of(record, &self.journal, self.own_user)
        };
        if entry.slurm.is_none() {
            let live =
                |record: &&JobRecord| !matches!(record.stage(), Stage::Cancelled | Stage::Failed | Stage::Completed);
            let mut found: Vec<&JobRecord> = self.queue.records.iter().filter(marked).collect();
            found.sort_by_key(|record| (live(record), record.job_id));
            entry.slurm = found.last().map(|record| record.slurm_name());
        }
        let Some(record) = self.record(entry) else { return };
        let Some(MarkedGang { fence, gpus, .. }) = Mark::read(&record.admin_comment).and_then(|mark| mark.gang) else {
            return;
        };
        let here = |gpu: &arles_core::GpuId| gpu.index() < self.cluster.gpus();
        if fence <= entry.fence || gpus.is_empty() || !gpus.iter().all(here) {
            return;
        }
        let (phase, running_since) = match record.stage() {
            Stage::Queued => (Phase::Released, None),
            Stage::Held => (Phase::Stopping, None),
            _ => (Phase::Running, Some(Time::ZERO)),
        };
        let kind = self.cluster.kind_of(gpus[0]);
        entry.fence = fence;
        // The one before was killed between pinning the job and releasing it, or somebody took the job back.
        entry.given_up = (phase == Phase::Stopping).then_some(fence);
        let (shards, told) = (record.shards(), phase != Phase::Released);
        entry.gang = Some(Gang { phase, running_since, shards, told, ..Gang::new(fence, kind, gpus) });
    }

    /// Does what follows from the last look, for all jobs, and says what Slurm's users want.
    pub(super) fn follow_all(&mut self, now: Time) -> Result<(), EngineError> {
        if !self.synced && self.jobs.is_empty() {
            return Ok(());
        }
        for (external, why) in self.intake.refused() {
            let Some((slurm, _)) = parse_external(&external) else { continue };
            let comment = format!("AdminComment={}", mark::refused(&why));
            self.tolerate(|controller| controller.update(slurm, &[comment]))?;
        }
        self.give_back_excluded()?;
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for &id in &ids {
            self.follow(id)?;
        }
        for entry in self.jobs.values_mut() {
            if let Some(gang) = entry.gang.as_mut().filter(|gang| gang.phase == Phase::Running) {
                gang.running_since.get_or_insert(now);
            }
        }
        self.find_devices();
        let seen = self.seen();
        self.intake.show(seen);
        Ok(())
    }

    /// Jobs that were marked and are not for this engine to take must not wait for it.
    fn give_back_excluded(&mut self) -> Result<(), EngineError> {
        let excluded = |record: &&JobRecord| {
            let offered = mark::claim(&record.comment, &record.admin_comment) == Claim::Offered;
            let not_ours = !self.options.canary.takes(record)
                || suit::why_left_to_slurm(record).is_some()
                || self.dependency(record) == Dependency::Never;
            offered && record.stage() == Stage::Held && not_ours
        };
        let records: Vec<JobRecord> = self.queue.records.iter().filter(excluded).cloned().collect();
        for record in records.iter().filter(|record| Mark::read(&record.comment).is_none()) {
            let (name, comment) = (record.slurm_name(), format!("AdminComment={}", mark::released()));
            self.tolerate(|controller| controller.update(&name, &[comment]))?;
            // What its user wanted held stays held.
            if !mark::read_wishes(&record.comment, &record.admin_comment).held {
                self.tolerate(|controller| controller.release(&name))?;
            }
        }
        Ok(())
    }

    /// Whether a job that waits can never start, by what Slurm says of it or will say when it looks.
    fn never_begins(&self, record: &JobRecord) -> bool {
        match record.stage() {
            Stage::Held => self.dependency(record) == Dependency::Never,
            Stage::Queued => record.state_reason == "DependencyNeverSatisfied",
            _ => false,
        }
    }

    /// Gives one job back: Slurm says what is wrong with it, and nobody keeps GPUs free for it.
    fn give_back(&mut self, id: JobId, record: &JobRecord) -> Result<(), EngineError> {
        let (name, comment) = (record.slurm_name(), format!("AdminComment={}", mark::released()));
        self.tolerate(|controller| controller.update(&name, &["ReqNodeList=".into(), comment]))?;
        if record.stage() == Stage::Held {
            self.tolerate(|controller| controller.release(&name))?;
        }
        self.let_go(id);
        Ok(())
    }

    /// Does what follows from the last look for one job.
    pub(super) fn follow(&mut self, id: JobId) -> Result<(), EngineError> {
        let Some(entry) = self.jobs.get(&id) else { return Ok(()) };
        let record = self.record(entry).cloned();
        if let Some(record) = &record
            && mark::claim(&record.comment, &record.admin_comment) == Claim::Released
        {
            self.let_go(id);
            return Ok(());
        }
        if let Some(record) = record.as_ref().filter(|record| entry.is_native() && self.never_begins(record)) {
            return self.give_back(id, record);
        }
        if entry.gang.is_none() {
            return match record {
                Some(record) => self.tend_waiting(id, &record),
                None => Ok(()),
            };
        }
        self.read_steps(id);
        if let Some(record) = &record {
            self.restart_without_devices(id, record);
        }
        let entry = &self.jobs[&id];
        let Some(gang) = &entry.gang else { return Ok(()) };
        let step = next_step(&gang.phase, record.as_ref().map(JobRecord::stage));
        self.take_step(id, step, record.as_ref())
    }

    fn take_step(&mut self, id: JobId, step: Step, record: Option<&JobRecord>) -> Result<(), EngineError> {
        let name = self.jobs[&id].slurm.clone().unwrap_or_default();
        let ending = || record.map_or(("it is not in Slurm's queue any more".to_owned(), None), JobRecord::ending);
        match step {
            Step::Wait | Step::Cancelled => Ok(()),
            Step::Release => {
                self.note_reseated(id);
                self.release(id, record)
            }
            Step::Resubmit => self.submit_again(id),
            Step::Hold => {
                self.tolerate(|controller| controller.hold(&name))?;
                if self.jobs[&id].gang.as_ref().is_some_and(|gang| gang.phase == Phase::Running) {
                    self.lose_nodes(id);
                    self.end(id, GangEvent::Stopped(self.jobs[&id].steps), None);
                }
                Ok(())
            }
            Step::Requeue if self.jobs.get_mut(&id).is_some_and(Entry::may_send) => {
                self.tolerate(|controller| controller.requeue_held(&name))?;
                self.jobs.get_mut(&id).into_iter().for_each(Entry::was_requeued);
                Ok(())
            }
            Step::Requeue => Ok(()),
            Step::Started => {
                let entry = self.jobs.get_mut(&id).expect("it has a gang");
                entry.lost_nodes.clear();
                entry.put_off = None;
                let gang = entry.gang.as_mut().expect("it has one");
                gang.phase = Phase::Running;
                if !std::mem::replace(&mut gang.told, true) {
                    self.news.push(GangReport::new(id, gang.fence, GangEvent::Started));
                }
                self.shown.insert(id);
                self.check_berth(id);
                Ok(())
            }
            Step::Stopped => self.has_stopped(id, record),
            Step::Finished => {
                self.end(id, GangEvent::Finished, Some(0));
                Ok(())
            }
            Step::Failed => {
                let (why, code) = ending();
                self.end(id, GangEvent::Failed(self.jobs[&id].steps, why), code);
                Ok(())
            }
            Step::Vanished if self.jobs[&id].missing >= MISSES => {
                self.end(id, GangEvent::Failed(self.jobs[&id].steps, ending().0), None);
                Ok(())
            }
            Step::Vanished => Ok(()),
        }
    }

    /// A gang has gone, and its job waits.
    fn has_stopped(&mut self, id: JobId, record: Option<&JobRecord>) -> Result<(), EngineError> {
        let nodes = self.nodes_of(id);
        self.end(id, GangEvent::Stopped(self.jobs[&id].steps), None);
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.has_vacated(nodes);
            entry.sent_shows();
        }
        match record {
            Some(record) => self.tend_waiting(id, record),
            None => Ok(()),
        }
    }

    /// A gang is over; says so once.
    fn end(&mut self, id: JobId, event: GangEvent, code: Option<i32>) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let Some(gang) = entry.gang.as_mut() else { return };
        let fence = gang.fence;
        entry.outcome = Some((fence, event.clone(), code));
        match &event {
            GangEvent::Finished => gang.phase = Phase::Over(GangState::Finished, code),
            GangEvent::Failed(_, why) => gang.phase = Phase::Over(GangState::Failed(why.clone()), code),
            GangEvent::Stopped(_) | GangEvent::Started => {
                if gang.phase != Phase::Stopping {
                    entry.given_up = Some(fence);
                }
                entry.gang = None;
            }
        }
        self.news.push(GangReport { exit_code: code, ..GangReport::new(id, fence, event) });
    }

    /// Names of the nodes of a job's gang.
    fn nodes_of(&self, id: JobId) -> Vec<String> {
        let gpus = self.jobs[&id].gang.as_ref().map_or(&[][..], |gang| &gang.gpus);
        self.shares_by_node(gpus).into_iter().map(|(node, _)| node).collect()
    }

    /// A job that is to start again where it was has left its node by now.
    fn note_reseated(&mut self, id: JobId) {
        let nodes = self.nodes_of(id);
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if entry.gang.as_ref().is_some_and(|gang| gang.phase == Phase::Reseating) && entry.vacated.is_none() {
            entry.has_vacated(nodes);
        }
    }

    fn lose_nodes(&mut self, id: JobId) {
        let nodes = self.nodes_of(id);
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.lost_nodes = nodes;
        }
    }

    /// A job without a gang must wait, held. One that has never run is left as it is, so that a long queue costs nothing.
    fn tend_waiting(&mut self, id: JobId, record: &JobRecord) -> Result<(), EngineError> {
        let name = self.jobs[&id].slurm.clone().unwrap_or_default();
        let mark = Mark::read(&record.admin_comment);
        let ours = format!("AdminComment={}", self.mark(id, None).write());
        match record.stage() {
            // It ran. First the operator's hold, then the mark: with a mark without a gang, a user's hold is a user's hold.
            // The same for one that somebody had started behind arles' back, and that was requeued for it.
            Stage::Held
                if record.is_requeued_held() || mark.is_some_and(|mark| mark.gang.is_some() || mark.job != id) =>
            {
                if !self.jobs.get_mut(&id).is_some_and(Entry::may_send) {
                    return Ok(());
                }
                self.tolerate(|controller| controller.hold(&name))?;
                self.tolerate(|controller| controller.update(&name, &[ours]))?;
                // The next order may come before the next look.
                if let Some(entry) = self.jobs.get_mut(&id) {
                    entry.sent_shows();
                }
                Ok(())
            }
            // Somebody released it. It is marked first: requeued, it has another time of submission.
            Stage::Queued => {
                self.tolerate(|controller| controller.hold(&name))?;
                self.tolerate(|controller| controller.update(&name, &[ours]))
            }
            Stage::Running if self.jobs.get_mut(&id).is_some_and(Entry::may_send) => {
                self.tolerate(|controller| controller.update(&name, &[ours]))?;
                self.tolerate(|controller| controller.requeue_held(&name))
            }
            _ => Ok(()),
        }
    }

    /// Pins a job to its nodes and releases it.
    fn release(&mut self, id: JobId, record: Option<&JobRecord>) -> Result<(), EngineError> {
        if !self.have_registered(&self.nodes_of(id))? {
            return Ok(());
        }
        let berth = match self.berth(id) {
            Ok(Berth::NotYet) => return Ok(()),
            Ok(berth) => berth,
            Err(why) => return self.put_off(id, why),
        };
        let entry = &self.jobs[&id];
        let Some(gang) = &entry.gang else { return Ok(()) };
        let name = entry.slurm.clone().unwrap_or_default();
        let asked = record.and_then(JobRecord::wanted).map(|wish| wish.sharded);
        if asked.is_some_and(|sharded| !entry.is_native() && sharded != matches!(berth, Berth::Shards(_))) {
            return self.submit_otherwise(id, &name);
        }
        let shares = self.shares_by_node(&gang.gpus);
        let changes = match self.changes(entry, gang, (&shares, berth), record) {
            Ok(changes) => changes,
            Err(why) => return self.put_off(id, why),
        };
        if !entry.is_native() {
            let common = self.options.environment.clone().into_iter();
            let written = program::write_environment(&self.options.folder, entry, gang, &self.cluster, common);
            if let Err(error) = written {
                return self.put_off(id, format!("its folder cannot be written: {error}"));
            }
        }
        let done = self.controller.update(&name, &changes).and_then(|()| self.controller.release(&name));
        match done {
            Ok(()) => {
                let gang = self.jobs.get_mut(&id).and_then(|entry| entry.gang.as_mut()).expect("it was there");
                gang.phase = Phase::Released;
                gang.shards = if let Berth::Shards(count) = berth { count } else { 0 };
                Ok(())
            }
            Err(CommandError::Unreachable(why)) => Err(EngineError(why)),
            Err(CommandError::Refused(why)) => {
                // It may have been pinned, and must not start.
                self.tolerate(|controller| controller.hold(&name))?;
                self.put_off(id, why)
            }
        }
    }

    /// What must be changed of a job before it is released. An error is why it cannot go there.
    fn changes(
        &self,
        entry: &Entry,
        gang: &Gang,
        (shares, berth): (&[(String, u32)], Berth),
        record: Option<&JobRecord>,
    ) -> Result<Vec<String>, String> {
        let names: Vec<&str> = shares.iter().map(|(node, _)| node.as_str()).collect();
        let (nodes, per_node) = (shares.len() as u32, shares[0].1);
        if shares.iter().any(|(_, count)| *count != per_node) {
            return Err("it was given different numbers of GPUs on its nodes, and Slurm takes equal ones".into());
        }
        let unsuited = |name: &&&str| {
            let node = self.nodes.iter().find(|node| node.name == **name);
            record.zip(node).is_some_and(|(record, node)| entry.is_native() && !suit::suits(record, node))
        };
        if let Some(name) = names.iter().find(unsuited) {
            return Err(format!(
                "{name} is not in its partition, lacks the features it asks for, or is excluded by it"
            ));
        }
        let restarts = record.map_or(0, |record| record.restart_cnt);
        let marked = MarkedGang { fence: gang.fence, gpus: gang.gpus.clone(), restarts };
        let mark = self.mark(entry.live.spec.id, Some(marked));
        let mut changes = vec![format!("ReqNodeList={}", names.join(",")), format!("AdminComment={}", mark.write())];
        if let Some(wish) = record.and_then(JobRecord::wanted) {
            let same = (wish.nodes, wish.per_node) == (nodes, per_node);
            if entry.is_native() && !same {
                let (wanted, each) = (wish.nodes, wish.per_node);
                return Err(format!(
                    "it asks for {each} GPUs on each of {wanted} nodes, and got {per_node} on each of {nodes}"
                ));
            }
            if wish.nodes != nodes {
                changes.push(format!("NumNodes={nodes}-{nodes}"));
            }
            match berth {
                Berth::Shards(count) if record.is_some_and(|record| record.shards() != count) => {
                    changes.push(format!("Gres={}", shard::request(wish.kind.as_deref(), count)));
                }
                Berth::Gpus if wish.per_node != per_node => changes.push(format!("Gres=gpu:{per_node}")),
                _ => {}
            }
        }
        if restarts > 0 && !names.iter().any(|name| entry.lost_nodes.iter().any(|lost| lost == name)) {
            // A job that was requeued would wait for two minutes (cred_expire).
            changes.push(match entry.revoked_seconds(&names) {
                0 => "StartTime=now".into(),
                seconds => format!("StartTime=now+{seconds}"),
            });
        }
        Ok(changes)
    }

    /// A start that Slurm does not want now. It is nobody's failure: the job waits for the next decision.
    fn put_off(&mut self, id: JobId, why: String) -> Result<(), EngineError> {
        self.end(id, GangEvent::Stopped(self.jobs[&id].steps), None);
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.put_off = Some(why);
        }
        Ok(())
    }

    /// Submits a program, first or again. A job that came from Slurm is over when Slurm says so.
    fn submit_again(&mut self, id: JobId) -> Result<(), EngineError> {
        let entry = &self.jobs[&id];
        if entry.is_native() {
            // If it is, whoever takes requests hears of it. It is no failure of the job's.
            return self.put_off(id, "Slurm says that its job is over, or does not know it".into());
        }
        let berth = match self.berth(id) {
            Ok(Berth::NotYet) => return Ok(()),
            Ok(berth) => berth,
            Err(why) => return self.put_off(id, why),
        };
        let entry = &self.jobs[&id];
        let gpus = entry.gang.as_ref().map_or(&[][..], |gang| &gang.gpus);
        let shares = self.shares_by_node(gpus);
        let gres = match berth {
            Berth::Shards(count) => shard::request(None, count),
            _ => format!("gpu:{}", shares.first().map_or(1, |(_, count)| *count)),
        };
        let shape = (shares.len() as u32, gres.as_str());
        let batch = program::batch(&self.options.folder, &self.options.logs, entry, &self.journal, shape);
        let (options, script) = match batch {
            Ok(batch) => batch,
            Err(error) => {
                let folder = self.options.folder.display();
                self.end(
                    id,
                    GangEvent::Failed(entry.steps, format!("the folder {folder} cannot be used: {error}")),
                    None,
                );
                return Ok(());
            }
        };
        match self.controller.submit(&options, &script) {
            Ok(name) => {
                self.jobs.get_mut(&id).expect("it has a gang").slurm = Some(name);
                self.release(id, None)
            }
            Err(CommandError::Unreachable(why)) => Err(EngineError(why)),
            Err(CommandError::Refused(why)) => {
                self.end(id, GangEvent::Failed(self.jobs[&id].steps, why), None);
                Ok(())
            }
        }
    }

    /// A program that waits as a job for GPUs and must ask for shards, or the other way round: Slurm cannot turn one into the other.
    fn submit_otherwise(&mut self, id: JobId, name: &str) -> Result<(), EngineError> {
        self.tolerate(|controller| controller.cancel(name))?;
        self.cancelled.insert(name.to_owned());
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.slurm = None;
        }
        self.submit_again(id)
    }

    /// A job was given back to Slurm: whatever it does from here on is not arles' business.
    fn let_go(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.let_go = true;
        if entry.gang.as_ref().is_some_and(Gang::holds) {
            self.end(id, GangEvent::Stopped(self.jobs[&id].steps), None);
        }
    }

    fn read_steps(&mut self, id: JobId) {
        let Some((steps, at)) = program::steps(&self.options.folder, id) else { return };
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.steps = entry.steps.max(steps);
        if let Some(gang) = entry.gang.as_mut().filter(|gang| gang.phase == Phase::Running) {
            gang.counted.get_or_insert((steps, at));
        }
    }

    /// A command whose refusal means that things have changed since the last look: the next one shows how.
    pub(super) fn tolerate(
        &mut self,
        command: impl FnOnce(&mut super::Controller) -> Result<(), CommandError>,
    ) -> Result<(), EngineError> {
        match command(&mut self.controller) {
            Err(CommandError::Unreachable(why)) => Err(EngineError(why)),
            Ok(()) | Err(CommandError::Refused(_)) => Ok(()),
        }
    }

    /// The name of a job that is to be cancelled with its entry.
    pub(super) fn cancellable(&self, entry: &Entry) -> Option<String> {
        if entry.let_go {
            return None;
        }
        let over = |record: &JobRecord| matches!(record.stage(), Stage::Completed | Stage::Cancelled | Stage::Failed);
        // One that was submitted since the last look is not in the list.
        let record = self.record(entry);
        let fresh = entry.slurm.as_deref().is_some_and(|name| self.queue.find(name).is_none()) && !entry.is_native();
        entry.slurm.clone().filter(|_| record.is_some_and(|record| !over(record)) || fresh)
    }

    /// Cancels what Slurm has of a job that ended while this engine did not know it.
    pub(super) fn cancel_remains(&mut self, id: JobId) -> Result<(), EngineError> {
        let ours = |record: &&JobRecord| {
            let mark = Mark::read(&record.admin_comment);
            mark.is_some_and(|mark| mark.job == id && mark.journal == self.journal)
        };
        let over = |record: &JobRecord| matches!(record.stage(), Stage::Completed | Stage::Cancelled | Stage::Failed);
        let found = self.queue.records.iter().find(ours).filter(|record| !over(record)).map(JobRecord::slurm_name);
        let Some(name) = found else { return Ok(()) };
        self.tolerate(|controller| controller.cancel(&name))?;
        self.cancelled.insert(name);
        Ok(())
    }

    /// The job in Slurm that runs a gang of a job which is not known here.
    pub(super) fn stray(&self, id: JobId, fence: Fence) -> Option<String> {
        let runs = |record: &&JobRecord| matches!(record.stage(), Stage::Running);
        let is_it = |record: &&JobRecord| {
            let mark = Mark::read(&record.admin_comment).filter(|mark| mark.journal == self.journal && mark.job == id);
            mark.and_then(|mark| mark.gang).is_some_and(|gang| gang.fence == fence)
        };
        let found = self.queue.records.iter().filter(runs).find(is_it)?;
        Some(found.slurm_name()).filter(|name| !self.cancelled.contains(name))
    }

    /// What Slurm's users and operators want of arles.
    fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        let mut bound: BTreeSet<&str> = BTreeSet::new();
        for (&id, entry) in &self.jobs {
            bound.extend(entry.slurm.as_deref());
            seen.put_off.extend(entry.put_off.clone().map(|why| (id, why)));
            if let Some(why) = self.why_over(entry) {
                seen.over.insert(id, why);
            } else if let Some(record) = self.record(entry) {
                let idle = entry.gang.is_none() && record.stage() == Stage::Held && entry.is_native();
                let marked = Mark::read(&record.admin_comment).is_some_and(|mark| mark.gang.is_none());
                let held = marked && record.is_held_by_its_user();
                // Not the begin time: Slurm gives one to every job that is requeued.
                if idle && (held || self.dependency(record) == Dependency::Open) {
                    seen.held.push(id);
                }
            }
        }
        seen.arrivals = self.arrivals(&bound);
        let drained = |node: &NodeRecord| Some((node.name.clone(), node.drained()?));
        seen.drained = self.nodes.iter().filter_map(drained).collect();
        seen
    }

    /// Why a job is over for arles, other than by its own gang.
    fn why_over(&self, entry: &Entry) -> Option<String> {
        if entry.let_go {
            return Some("it was given back to Slurm".into());
        }
        let told = matches!(&entry.outcome, Some((_, GangEvent::Finished | GangEvent::Failed(..), _)));
        match self.record(entry) {
            Some(record) => match record.stage() {
                Stage::Cancelled => Some("it was cancelled in Slurm".into()),
                Stage::Completed | Stage::Failed if entry.is_native() && entry.gang.is_none() && !told => {
                    Some(format!("it ended in Slurm without arles: {}", record.ending().0))
                }
                _ => None,
            },
            None if entry.is_native() && entry.missing >= MISSES && !told => {
                Some("Slurm does not know it any more".into())
            }
            None => None,
        }
    }

    fn arrivals(&self, bound: &BTreeSet<&str>) -> Vec<Arrival> {
        if !self.synced {
            return Vec::new();
        }
        let (now, shared) = (unix_seconds(), self.shared_types());
        let mut found = Vec::new();
        for record in &self.queue.records {
            let offered = match mark::claim(&record.comment, &record.admin_comment) {
                // Arles' own programs carry their number in the comment.
                Claim::Offered => Mark::read(&record.comment).is_none(),
                // Taken by another journal, or by one that was put back to an earlier day.
                Claim::Taken => Mark::read(&record.admin_comment)
                    .is_some_and(|mark| mark.journal != self.journal || !self.jobs.contains_key(&mark.job)),
                Claim::None | Claim::Released | Claim::Refused => false,
            };
            let begins = record.eligible_time <= now && self.dependency(record) == Dependency::Met;
            let ready = record.stage() == Stage::Held && begins;
            // What an earlier daemon took it has also pinned.
            let left = mark::claim(&record.comment, &record.admin_comment) == Claim::Offered
                && suit::why_left_to_slurm(record).is_some();
            if !offered || !ready || left || !self.options.canary.takes(record) {
                continue;
            }
            let (names, at_most) = record.tasks();
            let names =
                names.into_iter().filter(|name| !bound.contains(name.as_str()) && !self.cancelled.contains(name));
            let room = match at_most {
                0 => usize::MAX,
                most => most.saturating_sub(self.live_tasks(record.array_job_id)),
            };
            let arrivals = names.take(room).filter_map(|name| arrival(&name, record));
            found.extend(arrivals.map(|found| among(found, record, &self.nodes, &shared)));
        }
        found
    }

    /// Tasks of an array that arles has: Slurm lets only so many run at once.
    fn live_tasks(&self, array: u64) -> usize {
        let prefix = format!("{array}_");
        self.jobs.values().filter(|entry| entry.slurm.as_ref().is_some_and(|name| name.starts_with(&prefix))).count()
    }

    /// How a job stands with those it depends on.
    fn dependency(&self, record: &JobRecord) -> Dependency {
        dependency(record, &self.queue.records, unix_seconds())
    }
}
