//! Looking at the cluster, and doing what follows for each job.

use super::Kubernetes;
use super::client::Call;
use super::entry::Entry;
use super::gang::{Gang, Phase, Step, next_step};
use super::group::{Group, GroupKey, Sort, Stage};
use super::mark::{self, Mark};
use super::object::{Pod, product_as};
use super::view::View;
use crate::intake::{Arrival, Seen};
use crate::slurm::program::steps;
use arles_core::engine::EngineError;
use arles_core::scheduler::{GangEvent, GangReport, GangState};
use arles_core::{JobId, Spread, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The API server may be away this long before the engine says so.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks while something is under way and nothing has changed.
const HURRY: Duration = Duration::from_millis(250);
/// The same while nothing is.
const USUAL: Duration = Duration::from_secs(2);
/// After a look that took some time, this many times as long passes before the next one.
const REST: u32 = 4;
/// The exit code of a program that saved itself and made room.
const PREEMPTED: i32 = 85;
/// A job of which there is nothing for this long is gone: its controller would have made new pods.
const ABSENCE: Duration = Duration::from_secs(15);

impl Kubernetes {
    /// Whether it is time for another look.
    pub(super) fn is_due(&self) -> bool {
        let Some(looked) = self.looked else { return true };
        let pause = if self.jobs.values().any(Entry::is_changing) { HURRY } else { USUAL };
        let has_changed = self.seen_changes != self.mirrors.changes();
        (has_changed && self.may_view()) || looked.elapsed() >= pause
    }

    /// Looks at everything, or is content with the last look if that was a moment ago: on a large cluster with much going on every order would look anew.
    pub(super) fn look(&mut self, now: Time) -> Result<(), EngineError> {
        self.look_if(now, self.may_view())
    }

    /// Looks at everything.
    pub(super) fn look_anew(&mut self, now: Time) -> Result<(), EngineError> {
        self.look_if(now, true)
    }

    /// Whether the last look is old enough for another one to be worth its time. Watches are late by a few milliseconds anyway.
    fn may_view(&self) -> bool {
        self.viewed.is_none_or(|(at, took)| at.elapsed() >= REST * took)
    }

    fn look_if(&mut self, now: Time, may_view: bool) -> Result<(), EngineError> {
        self.count(now);
        self.obey()?;
        self.mirrors.check(PATIENCE)?;
        let changes = self.mirrors.changes();
        if (may_view && self.seen_changes != changes) || self.viewed.is_none() {
            let began = Instant::now();
            self.view = View::new(&self.mirrors, &self.options.scheduler_name, &self.options.programs.namespace);
            self.seen_changes = changes;
            self.viewed = Some((Instant::now(), began.elapsed()));
        }
        self.looked = Some(Instant::now());
        Ok(())
    }

    /// The pods that a job is in Kubernetes.
    pub(super) fn group(&self, entry: &Entry) -> Option<Group> {
        if let Some((key, _)) = &entry.group {
            return self.view.group(key);
        }
        let fence = entry.gang.as_ref().map_or(entry.fence, |gang| gang.fence);
        let of_gang = |pod: &&Arc<Pod>| self.own_mark(pod).is_some_and(|mark| mark.fence == fence);
        let pods: Vec<Arc<Pod>> =
            self.view.programs.get(&entry.live.spec.id)?.iter().filter(of_gang).cloned().collect();
        (!pods.is_empty()).then(|| Group { pods, ..Group::default() })
    }

    /// A pod's mark, if this journal's daemon wrote it.
    pub(super) fn own_mark(&self, pod: &Pod) -> Option<Mark> {
        Mark::read(&pod.metadata).filter(|mark| mark.journal == self.journal)
    }

    /// What a job's pods come to. Pods of a program are whole when there is one on each node of the gang.
    fn stage(&self, entry: &Entry, group: Option<&Group>) -> Stage {
        let Some(group) = group else { return Stage::Absent };
        let stage = group.stage(&self.options.scheduler_name, |pod| self.view.is_lost(pod));
        if entry.is_native() {
            return stage;
        }
        let nodes = entry.gang.as_ref().map_or(1, |gang| self.shares_by_node(&gang.gpus).len());
        match stage {
            Stage::Running | Stage::Completed if group.pods.len() < nodes => Stage::Starting,
            Stage::Running if group.pods.iter().filter(|pod| pod.runs()).count() < nodes => Stage::Starting,
            other => other,
        }
    }

    /// Finds what an earlier engine did with a job.
    pub(super) fn adopt(&self, entry: &mut Entry) {
        let id = entry.live.spec.id;
        let made = || Group { pods: self.view.programs.get(&id).cloned().unwrap_or_default(), ..Group::default() };
        let found = match &entry.group {
            Some((key, _)) => self.view.group(key).unwrap_or_default(),
            None => made(),
        };
        let here = |mark: &Mark| mark.gpus.iter().all(|gpu| gpu.index() < self.cluster.gpus());
        let marks = found.marks(&self.options.scheduler_name);
        let marks = marks.filter(|mark| mark.job == id && mark.journal == self.journal && here(mark));
        let Some(Mark { fence, gpus, .. }) =
            marks.max_by_key(|mark| mark.fence).filter(|mark| mark.fence > entry.fence)
        else {
            return;
        };
        let placed = found.pods.iter().filter(|pod| pod.is_placed(&self.options.scheduler_name));
        let placed = placed.map(|pod| pod.metadata.uid.clone()).collect();
        let kind = self.cluster.kind_of(gpus[0]);
        entry.fence = fence;
        entry.gang = Some(Gang {
            fence,
            kind,
            gpus,
            spread: Spread::Packed,
            phase: Phase::Placed,
            placed,
            broken_since: Instant::now(),
            counted: None,
            running_since: None,
        });
        if self.stage(entry, self.group(entry).as_ref()) == Stage::Running
            && let Some(gang) = &mut entry.gang
        {
            (gang.phase, gang.running_since) = (Phase::Running, Some(Time::ZERO));
        }
    }

    /// Does what follows from the last look, for all jobs, and says what users want.
    pub(super) fn follow_all(&mut self, now: Time) -> Result<(), EngineError> {
        if !self.synced && self.jobs.is_empty() {
            return Ok(());
        }
        self.say_refusals()?;
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

    /// Does what follows from the last look for one job.
    pub(super) fn follow(&mut self, id: JobId) -> Result<(), EngineError> {
        let Some(entry) = self.jobs.get(&id) else { return Ok(()) };
        let group = self.group(entry);
        let is_gone = entry.is_native() && group.is_none();
        let stage = self.stage(entry, group.as_ref());
        let is_released = group.as_ref().is_some_and(Group::is_released);
        let entry = self.jobs.get_mut(&id).expect("looked at before");
        entry.absent_since = is_gone.then(|| entry.absent_since.unwrap_or_else(Instant::now));
        if is_released {
            self.let_go(id);
            return Ok(());
        }
        self.read_steps(id);
        if let Some(group) = &group {
            self.advise(id, group)?;
        }
        let Some(gang) = &self.jobs[&id].gang else { return self.tend_waiting(id, group.as_ref()) };
        let step = next_step(&gang.phase, stage);
        self.take_step(id, step, &group.unwrap_or_default())
    }

    fn take_step(&mut self, id: JobId, step: Step, group: &Group) -> Result<(), EngineError> {
        let timeout = Duration::from_secs_f64(self.options.gang_timeout_seconds);
        let entry = self.jobs.get_mut(&id).expect("it has a gang");
        let steps = entry.steps;
        let gang = entry.gang.as_mut().expect("it has one");
        let late = gang.broken_since.elapsed() >= timeout;
        match step {
            Step::Wait => {
                // What is whole is not broken; what leaves by itself is.
                if gang.phase == Phase::Running && group.pods.iter().all(|pod| !pod.is_leaving()) {
                    gang.broken_since = Instant::now();
                }
            }
            Step::Place if group.workload.is_some() => return self.not_admitted(id),
            Step::Place if late => return self.give_back(id, group),
            Step::Place => return self.place(id, group),
            Step::Evict => {
                let usual = "arles needs its GPUs; the job is back in arles' queue";
                let why = entry.why_stopped.clone().unwrap_or_else(|| usual.to_owned());
                return self.evict(id, &group.pods, &why);
            }
            Step::Started => {
                gang.phase = Phase::Running;
                gang.broken_since = Instant::now();
                entry.put_off = None;
                self.news.push(GangReport::new(id, gang.fence, GangEvent::Started));
                self.shown.insert(id);
            }
            Step::Stopped => {
                entry.sent_shows();
                self.end(id, GangEvent::Stopped(steps), None);
            }
            Step::Finished => self.end(id, GangEvent::Finished, Some(0)),
            // A program that made room by itself.
            Step::Failed(_, Some(PREEMPTED)) if !entry.is_native() => self.end(id, GangEvent::Stopped(steps), None),
            Step::Failed(why, code) => self.end(id, GangEvent::Failed(steps, why), code),
        }
        Ok(())
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

    /// A gang is not whole and will not be: what was taken is given back, and the job waits for the next decision.
    fn give_back(&mut self, id: JobId, group: &Group) -> Result<(), EngineError> {
        if let Some(Stage::Failed(why, code)) = group.failure().filter(|_| group.job.is_none()) {
            let steps = self.jobs[&id].steps;
            self.end(id, GangEvent::Failed(steps, why), code);
            return Ok(());
        }
        let seconds = self.options.gang_timeout_seconds;
        let running = group.pods.iter().filter(|pod| pod.runs()).count();
        let why =
            format!("{running} of its {} pods ran after {seconds} s, so their places were given back", group.size());
        self.put_off(id, why)
    }

    /// A start that came to nothing. It is nobody's failure.
    pub(super) fn put_off(&mut self, id: JobId, why: String) -> Result<(), EngineError> {
        let Some(entry) = self.jobs.get_mut(&id) else { return Ok(()) };
        entry.put_off = Some(why);
        entry.sent_shows();
        let steps = entry.steps;
        match entry.gang.as_mut() {
            // Nothing has a place yet.
            Some(gang) if gang.placed.is_empty() => self.end(id, GangEvent::Stopped(steps), None),
            Some(gang) => gang.phase = Phase::Stopping,
            None => {}
        }
        Ok(())
    }

    /// A job without a gang must wait. Pods that have a place by arles' own mark are told to go.
    fn tend_waiting(&mut self, id: JobId, group: Option<&Group>) -> Result<(), EngineError> {
        let Some(group) = group.filter(|_| self.jobs[&id].is_native()) else { return Ok(()) };
        let ours = |pod: &&Arc<Pod>| {
            pod.is_placed(&self.options.scheduler_name) && self.own_mark(pod).is_some_and(|mark| mark.job == id)
        };
        let left: Vec<Arc<Pod>> = group.pods.iter().filter(ours).cloned().collect();
        if self.jobs[&id].has_ended() {
            return Ok(());
        }
        if left.is_empty() {
            return self.suspend(id, group);
        }
        self.evict(id, &left, "arles took its place back; the job is in arles' queue")
    }

    /// A job was given back to Kubernetes: whatever it does from here on is not arles' business.
    fn let_go(&mut self, id: JobId) {
        let steps = self.jobs[&id].steps;
        if self.jobs[&id].gang.as_ref().is_some_and(Gang::holds) {
            self.end(id, GangEvent::Stopped(steps), None);
        }
    }

    fn read_steps(&mut self, id: JobId) {
        let Some(shared) = &self.options.programs.folder else { return };
        let Some((steps, at)) = steps(&shared.path, id) else { return };
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.steps = entry.steps.max(steps);
        if let Some(gang) = entry.gang.as_mut().filter(|gang| gang.phase == Phase::Running) {
            gang.counted.get_or_insert((steps, at));
        }
    }

    /// What users and operators of the cluster want of arles.
    fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        let mut bound: BTreeSet<&GroupKey> = BTreeSet::new();
        for (&id, entry) in &self.jobs {
            bound.extend(entry.group.as_ref().map(|(key, _)| key));
            seen.put_off.extend(entry.put_off.clone().map(|why| (id, why)));
            seen.over.extend(self.why_over(entry).map(|why| (id, why)));
        }
        seen.arrivals = self.arrivals(&bound);
        let drained = self.view.nodes.iter().filter_map(|(name, node)| Some((name.clone(), node.drained()?)));
        seen.drained = drained.collect();
        seen.entitlements = self.view.queues.entitlements();
        seen
    }

    /// Why a job is over for arles, other than by its own gang.
    fn why_over(&self, entry: &Entry) -> Option<String> {
        let (_, asked) = entry.group.as_ref()?;
        if entry.has_ended() {
            return None;
        }
        let Some(group) = self.group(entry) else {
            let long = entry.absent_since.is_some_and(|since| since.elapsed() >= ABSENCE);
            return long.then(|| "it was deleted in Kubernetes".to_owned());
        };
        if group.is_released() {
            return Some("it was given back to Kubernetes".into());
        }
        if self.is_narrowed(entry, &group) {
            return Some("Kueue has taken its place back, and it may run on other kinds again".into());
        }
        // Pods whose Job was deleted are on their way out, and nobody says any more how many they should be.
        let is_orphaned = group.key.sort == Sort::Job && group.job.is_none();
        if let Some(now) = group.gpus().filter(|now| now != asked && !is_orphaned) {
            return Some(format!("it asked for {asked} GPUs and asks for {now} now"));
        }
        match group.stage(&self.options.scheduler_name, |_| false) {
            Stage::Completed if entry.gang.is_none() => Some("it ended in Kubernetes without arles".into()),
            Stage::Failed(why, _) if entry.gang.is_none() => {
                Some(format!("it ended in Kubernetes without arles: {why}"))
            }
            _ => None,
        }
    }

    fn arrivals(&self, bound: &BTreeSet<&GroupKey>) -> Vec<Arrival> {
        if !self.synced {
            return Vec::new();
        }
        let taken = &self.options.namespaces;
        let free = self.view.groups.values().filter(|group| !bound.contains(&group.key));
        let ours = free.filter(|group| taken.is_empty() || taken.contains(&group.key.namespace));
        let scheduler = &self.options.scheduler_name;
        let whole = |group: &Group| {
            let mut arrival = group.arrival(self.view.tenant(group), scheduler)?;
            if !self.has_gates && group.pods.is_empty() {
                let why = "it is suspended, and this Kubernetes has no scheduling gates, which came with 1.27; use schedulerName";
                arrival.wishes.wrong.push(why.into());
            }
            self.narrow(group, &mut arrival);
            Some(arrival)
        };
        ours.filter_map(whole).collect()
    }

    /// Where nodes have GPUs of several sorts (NVIDIA's, AMD's, slices), a job goes to those of the sort that it asks for.
    pub(super) fn narrow(&self, group: &Group, arrival: &mut Arrival) {
        let asked: BTreeSet<String> = group.gpu_resources();
        let products = |resource: &str| -> BTreeSet<String> {
            let nodes = self.view.nodes.values().filter(|node| node.gpu_resource() == Some(resource));
            nodes.filter_map(|node| node.product()).collect()
        };
        let there: BTreeSet<&str> = self.view.nodes.values().filter_map(|node| node.gpu_resource()).collect();
        if let Some(workload) = group.workload.as_ref().filter(|_| arrival.kinds.is_empty()) {
            arrival.kinds = self.queue_products(workload);
        }
        let mut asked_for = asked.iter();
        let (Some(resource), None) = (asked_for.next(), asked_for.next()) else {
            if asked.len() > 1 {
                let sorts: Vec<String> = asked.into_iter().collect();
                arrival
                    .wishes
                    .wrong
                    .push(format!("it asks for {}, and arles gives a job one sort", sorts.join(" and ")));
            }
            return;
        };
        if !there.is_empty() && !there.contains(resource.as_str()) {
            arrival.wishes.wrong.push(format!("it asks for {resource}, and no node has that"));
        } else if !arrival.kinds.is_empty() {
            arrival.kinds.iter_mut().for_each(|kind| *kind = product_as(kind, resource));
        } else if there.len() > 1 {
            arrival.kinds = products(resource).into_iter().collect();
        }
        // Slices have names of their own, which only whoever knows the kinds can tell.
        if let Some(kind_of) = self.options.kind_of.as_ref().filter(|_| resource.contains("/mig-")) {
            arrival.kinds =
                arrival.kinds.iter().map(|name| kind_of(name).map_or(name.clone(), |kind| kind.name)).collect();
        }
    }

    /// Writes on the pods of jobs that cannot be taken why not.
    fn say_refusals(&mut self) -> Result<(), EngineError> {
        let refused: BTreeMap<GroupKey, String> = self
            .intake
            .refused()
            .into_iter()
            .filter_map(|(external, why)| Some((GroupKey::parse_external(&external)?.0, why)))
            .collect();
        for (key, why) in refused {
            let Some(group) = self.view.group(&key) else { continue };
            if let Some(workload) = &group.workload {
                self.tolerate(vec![workload.refusal(&why)])?;
                continue;
            }
            self.annotate(&group.pods, mark::REFUSED, &why)?;
            if let Some(job) = group.job.as_ref().filter(|job| job.waits_as_a_whole()) {
                let meta = serde_json::json!({"uid": job.metadata.uid, "annotations": {mark::REFUSED: why}});
                self.tolerate(vec![Call::patch(job.path(), serde_json::json!({"metadata": meta}))])?;
            }
            self.tell_users(&group.pods, "Refused", &format!("arles does not take it: {why}"))?;
        }
        Ok(())
    }
}
