//! The virtual cluster: it does what it is ordered, takes its time, and draws power.
//!
//! Exact between changes: a gang's progress and energy are settled whenever something about it changes (it
//! starts, stops, ends, or its partner comes or goes), never in small steps. Obeys orders as a real engine
//! should: doing one twice is doing it once, and an order with an old fence touches nothing newer.

use crate::truth::{PaceRow, Truth};
use arles_core::meter::{self, Charge, Draw, Resident};
use arles_core::scheduler::{
    Fence, GangEvent, GangReport, GangState, ObservedGang, ObservedNode, Order, Start, Survey,
};
use arles_core::{Cluster, GpuId, JobId, JobSpec, KindId, NodeId, Spread, Time, WorkloadId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

mod change;
mod host;
mod observe;
mod program;
mod roster;
#[cfg(test)]
mod tests;

use program::Part;

pub use observe::SteadyGang;
pub use program::Length;

/// Costs of stopping and starting that are not a number of the job.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WorldOptions {
    /// Seconds between the order to start a gang and the moment at which it runs; it has its GPUs from the order on.
    pub start_seconds: f64,
    /// Seconds that a stopping gang goes on holding its GPUs to save its state.
    pub checkpoint_seconds: f64,
    /// A gang that is cut off loses what it did since the last multiple of this.
    pub checkpoint_every_seconds: f64,
    /// Part of a job's active power that it draws while it restarts.
    pub restart_activity: f64,
    /// Whether GPUs that nobody uses are switched off and draw nothing.
    pub unused_off: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            start_seconds: 0.0,
            checkpoint_seconds: 0.0,
            checkpoint_every_seconds: 1800.0,
            restart_activity: 0.3,
            unused_off: false,
        }
    }
}

/// Everything the world remembers of a job.
#[derive(Clone, Debug)]
pub struct SimJob {
    /// The job as submitted.
    pub spec: JobSpec,
    /// Steps done, all of them, safe or not.
    pub steps: f64,
    /// Seconds in service.
    pub served_seconds: f64,
    /// When its first gang started.
    pub started: Option<Time>,
    /// Starts after the first.
    pub restarts: u32,
    /// Starts on other GPUs than the time before.
    pub migrations: u32,
    /// GPU seconds held.
    pub gpu_seconds: f64,
    /// Seconds running at or above its floor.
    pub kept_seconds: f64,
    /// Energy charged to it so far.
    pub charge: Charge,
    /// What it runs like, and what it really has to do; why it cannot be played, if it cannot.
    part: Result<Part, String>,
    paces: PaceRow,
    last_gpus: Vec<GpuId>,
    /// Few jobs of a long queue have one.
    gang: Option<Box<Running>>,
    /// The latest gang that was started, stopped or refused: none up to it can be started any more.
    fence: Fence,
    /// How the last gang that ended by itself ended, once a stop has taken its record away: the answer to that stop may have been
    /// lost with whoever asked, and who asks again must hear the same.
    outcome: Option<GangReport>,
}

#[derive(Clone, Debug)]
struct Running {
    fence: Fence,
    kind: KindId,
    gpus: Vec<GpuId>,
    spread: Spread,
    partner: Option<JobId>,
    /// When loading and restoring is over.
    productive_from: Time,
    settled: Time,
    /// Steps that would survive a cut-off.
    safe_steps: f64,
    safe_at: Time,
    rate: f64,
    watts: f64,
    /// Since when rate and watts are what they are.
    paced: Time,
    /// Slow-down by a fault; 1 is healthy.
    health: f64,
    /// Tells this finish time from earlier ones.
    version: u64,
    /// Set while it saves its state before it stops.
    stopping: bool,
    ended: Option<GangState>,
    /// What its program ended with, once it has ended.
    exit_code: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    Saved,
    Finish,
}

/// The agenda may hold as many entries for each gang, and as many besides, before it is looked through.
const AGENDA_PER_GANG: usize = 3;
const LEAST_AGENDA: usize = 64;

/// Whether an entry of the agenda is about the gang that a job has, as it runs now.
fn is_current(jobs: &BTreeMap<JobId, Box<SimJob>>, job: JobId, version: u64) -> bool {
    jobs.get(&job).and_then(|sim_job| sim_job.gang.as_ref()).is_some_and(|gang| gang.version == version)
}

/// An order that must never come. It is refused, since one book holds all gangs here; nodes that cannot ask each other
/// would have done it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incident {
    /// A gang was ordered onto a GPU that others still hold.
    Taken {
        /// The GPU that was oversold.
        gpu: GpuId,
        /// The job that holds it.
        holder: JobId,
        /// Who was to start there.
        newcomer: JobId,
    },
    /// A gang was ordered while an earlier one of the same job still runs.
    Twice {
        /// The job that has two gangs.
        job: JobId,
        /// The gang that runs.
        running: Fence,
        /// The gang that was ordered.
        ordered: Fence,
    },
    /// A gang was ordered onto a node whose CPUs or memory do not suffice, or onto GPUs with too little memory for it.
    NoRoom {
        /// The node that is too small.
        node: NodeId,
        /// Who was to start there.
        newcomer: JobId,
        /// The gang that was ordered.
        ordered: Fence,
    },
}

/// The virtual cluster.
pub struct World {
    cluster: Cluster,
    truth: Arc<Truth>,
    world_options: WorldOptions,
    /// Each for itself: nodes of a tree that is filled in order stay half empty.
    jobs: BTreeMap<JobId, Box<SimJob>>,
    /// Jobs with a gang, or with the record of one that ended: few, where `jobs` may be very many.
    seated: BTreeSet<JobId>,
    /// Up to two jobs on each GPU.
    on_gpu: Vec<[Option<JobId>; 2]>,
    idle_since: Vec<Time>,
    /// Nodes that are there and run.
    up: Vec<bool>,
    /// GPUs that do not work although their node runs.
    lost: Vec<bool>,
    agenda: BinaryHeap<Reverse<(Time, u64, Due, JobId)>>,
    next_version: u64,
    /// GPUs in use, by kind.
    busy: Vec<u32>,
    /// Idle energy that no job is charged for, by kind.
    unused_joules: Vec<f64>,
    /// Active and idle energy of used GPUs, by kind.
    used_joules: Vec<Draw>,
    busy_gpu_seconds: Vec<f64>,
    /// Jobs that hold something.
    running: u32,
    /// Active power of all gangs and idle power of all GPUs that are up.
    watts: f64,
    incidents: Vec<Incident>,
}

impl World {
    /// An empty cluster with all its nodes up at time 0.
    #[must_use]
    pub fn new(cluster: Cluster, truth: Arc<Truth>, world_options: WorldOptions) -> Self {
        let kinds = cluster.kinds().len();
        let idle = |kind: KindId| if world_options.unused_off { 0.0 } else { cluster.kind(kind).idle_watts };
        let watts = cluster.present().map(|(_, n)| f64::from(n.gpus) * idle(n.kind)).sum();
        Self {
            on_gpu: vec![[None; 2]; cluster.gpus()],
            idle_since: vec![Time::ZERO; cluster.gpus()],
            up: cluster.nodes().iter().map(|node| !node.removed).collect(),
            lost: vec![false; cluster.gpus()],
            jobs: BTreeMap::new(),
            seated: BTreeSet::new(),
            agenda: BinaryHeap::new(),
            next_version: 0,
            busy: vec![0; kinds],
            unused_joules: vec![0.0; kinds],
            used_joules: vec![Draw::default(); kinds],
            busy_gpu_seconds: vec![0.0; kinds],
            running: 0,
            watts,
            incidents: Vec::new(),
            cluster,
            truth,
            world_options,
        }
    }

    /// Draw of a GPU that nobody uses.
    fn unused_watts(&self, kind: KindId) -> f64 {
        if self.world_options.unused_off { 0.0 } else { self.cluster.kind(kind).idle_watts }
    }

    /// When something happens next by itself.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((time, ..))| *time)
    }

    /// Lets happen what is due at `now`; returns what can be told of it, one thing at a time.
    pub fn advance(&mut self, now: Time) -> Option<GangReport> {
        while let Some(&Reverse((time, version, due, job))) = self.agenda.peek() {
            if time > now {
                return None;
            }
            self.agenda.pop();
            if !is_current(&self.jobs, job, version) {
                continue;
            }
            let fence = self.jobs[&job].gang.as_ref().expect("current").fence;
            match due {
                Due::Saved => {
                    let steps = self.release(time, job);
                    return Some(GangReport::new(job, fence, GangEvent::Stopped(steps)));
                }
                Due::Finish => return Some(self.end_by_itself(time, job, fence)),
            }
        }
        None
    }

    /// A gang has done all its work: it has finished, or its program fails at its end.
    fn end_by_itself(&mut self, now: Time, job: JobId, fence: Fence) -> GangReport {
        let exit_code = self.jobs[&job].part.as_ref().ok().and_then(|part| part.exit_code);
        if let Some(code) = exit_code.filter(|&code| code != 0) {
            return self.fail(now, job, &format!("exit code {code}"), Some(code)).expect("it runs");
        }
        self.end(now, job, GangState::Finished, exit_code);
        GangReport { exit_code, ..GangReport::new(job, fence, GangEvent::Finished) }
    }

    /// Does what it is ordered; what can be told at once comes back.
    ///
    /// # Errors
    /// A sentence when the order cannot be done.
    pub fn apply(&mut self, now: Time, order: &Order) -> Result<Option<GangReport>, String> {
        match order {
            Order::Start(start) => self.start(now, start),
            Order::Stop { job, fence } => Ok(self.stop(now, *job, *fence)),
        }
    }

    fn start(&mut self, now: Time, start: &Start) -> Result<Option<GangReport>, String> {
        let told = GangReport::new(start.job, start.fence, GangEvent::Started);
        let Some(sim_job) = self.jobs.get_mut(&start.job) else {
            return Err(format!("job {} is not known here", start.job.0));
        };
        if let Some(gang) = sim_job.gang.as_ref().filter(|gang| gang.fence == start.fence) {
            if gang.kind != start.kind && gang.gpus == start.gpus && gang.ended.is_none() {
                self.retune(now, start);
            }
            return Ok(Some(told));
        }
        if start.fence <= sim_job.fence {
            return Err(format!("gang {} of job {} was stopped, refused or followed", start.fence.0, start.job.0));
        }
        // Whatever is said from here on is final: a copy of this order that comes later must not be done.
        sim_job.fence = start.fence;
        if let Some(gang) = sim_job.gang.take_if(|gang| gang.ended.is_none()) {
            let (job, running, ordered) = (start.job, gang.fence, start.fence);
            sim_job.gang = Some(gang);
            self.incidents.push(Incident::Twice { job, running, ordered });
            return Err(format!("job {} has another gang here", start.job.0));
        }
        sim_job.gang = None;
        self.seated.remove(&start.job);
        if let Some(why) = self.why_not(start) {
            return Err(why);
        }
        self.check_room(start)?;
        let partner = self.partner_for(start)?;
        if let Some(host) = partner {
            self.settle(now, host);
        }
        self.seat(now, start, partner);
        Ok(Some(told))
    }

    /// A gang that is there goes on in another mode of its kind.
    fn retune(&mut self, now: Time, start: &Start) {
        let known = start.kind.index() < self.cluster.kinds().len();
        let fits = known && self.jobs[&start.job].paces[start.kind.index()].is_some();
        if !fits || self.cluster.sold_as(start.kind) != self.cluster.kind_of(start.gpus[0]) {
            return;
        }
        self.settle(now, start.job);
        if let Some(gang) = self.jobs.get_mut(&start.job).and_then(|job| job.gang.as_mut()) {
            gang.kind = start.kind;
        }
        self.set_pace(now, start.job);
    }

    /// Why a gang cannot be where it is ordered, whoever else is there.
    fn why_not(&self, start: &Start) -> Option<String> {
        let (job, kinds, gpus) = (start.job.0, self.cluster.kinds().len(), self.cluster.gpus());
        let sim_job = &self.jobs[&start.job];
        if start.kind.index() >= kinds {
            return Some(format!("job {job} was ordered onto {}, and there are {kinds} kinds here", start.kind));
        }
        if start.gpus.is_empty() || !sim_job.spec.takes(start.gpus.len()) {
            let (gang, ordered) = (sim_job.spec.gpus_in_words(), start.gpus.len());
            return Some(format!("job {job} needs a gang of {gang} and was ordered onto {ordered} GPUs"));
        }
        for (i, &gpu) in start.gpus.iter().enumerate() {
            if gpu.index() >= gpus {
                return Some(format!("{gpu} was ordered for job {job}, and there are {gpus} GPUs here"));
            }
            if self.cluster.kind_of(gpu) != self.cluster.sold_as(start.kind) || start.gpus[..i].contains(&gpu) {
                return Some(format!(
                    "{gpu} was ordered for job {job} twice, or is of another kind than {}",
                    start.kind
                ));
            }
            let node = self.cluster.node_of(gpu);
            if self.cluster.node(node).removed {
                return Some(format!("{gpu} is on a node that has left"));
            }
            if !self.up[node.index()] {
                return Some(format!("{gpu} is on a node that is down"));
            }
            if self.lost[gpu.index()] {
                return Some(format!("{gpu} of job {job} does not work"));
            }
        }
        if let Err(why) = &sim_job.part {
            return Some(why.clone());
        }
        let fits = self.paces_of(start)[start.kind.index()].is_some();
        (!fits).then(|| format!("job {job} does not fit in the memory of {}", self.cluster.kind(start.kind).name))
    }

    /// How a gang of the ordered size would run, on all kinds.
    fn paces_of(&self, start: &Start) -> PaceRow {
        let sim_job = &self.jobs[&start.job];
        if !sim_job.spec.is_elastic() {
            return Arc::clone(&sim_job.paces);
        }
        let gang = start.gpus.len() as u32;
        sim_job.part.as_ref().map_or_else(|_| Arc::from([]), |part| self.truth.alone(part.plays, gang))
    }

    /// Who the newcomer would share its GPU with, if anybody.
    fn partner_for(&mut self, start: &Start) -> Result<Option<JobId>, String> {
        let there = |gpu: GpuId| self.on_gpu[gpu.index()].iter().flatten().map(move |&holder| (gpu, holder));
        let mut holders = start.gpus.iter().copied().flat_map(there);
        let Some((gpu, holder)) = holders.next() else { return Ok(None) };
        let (own, other) = (&self.jobs[&start.job], &self.jobs[&holder]);
        let alone_together = holders.next().is_none() && start.gpus.len() == 1;
        let alone_together = alone_together && other.gang.as_ref().is_some_and(|gang| gang.gpus.len() == 1);
        let may = alone_together && self.cluster.kind(start.kind).max_jobs >= 2;
        if may && self.truth.together(own.plays(), other.plays(), start.kind).is_some() {
            return Ok(Some(holder));
        }
        self.incidents.push(Incident::Taken { gpu, holder, newcomer: start.job });
        Err(format!("job {} cannot run beside job {} on {gpu}", start.job.0, holder.0))
    }

    fn seat(&mut self, now: Time, start: &Start, partner: Option<JobId>) {
        let kind = self.cluster.sold_as(start.kind).index();
        for &gpu in &start.gpus {
            if self.on_gpu[gpu.index()].iter().all(Option::is_none) {
                let (idle, unused) = (self.cluster.kind(start.kind).idle_watts, self.unused_watts(start.kind));
                self.unused_joules[kind] += now.since(self.idle_since[gpu.index()]) * unused;
                self.watts += idle - unused;
                self.busy[kind] += 1;
            }
            let seats = &mut self.on_gpu[gpu.index()];
            *seats.iter_mut().find(|s| s.is_none()).expect("looked at before") = Some(start.job);
        }
        let paces = self.paces_of(start);
        let sim_job = self.jobs.get_mut(&start.job).expect("looked at before");
        sim_job.paces = paces;
        // Whoever comes with steps has state to restore.
        let again = sim_job.started.is_some() || sim_job.steps > 0.0;
        sim_job.started.get_or_insert(now);
        sim_job.restarts += u32::from(again);
        sim_job.migrations += u32::from(again && sim_job.last_gpus != start.gpus);
        let restart_seconds = if again { sim_job.spec.restart_seconds } else { 0.0 };
        let productive_from = now.after(self.world_options.start_seconds + restart_seconds);
        sim_job.gang = Some(Box::new(Running {
            fence: start.fence,
            kind: start.kind,
            gpus: start.gpus.clone(),
            spread: start.spread,
            partner,
            productive_from,
            settled: now,
            safe_steps: sim_job.steps,
            safe_at: now,
            rate: 0.0,
            watts: 0.0,
            paced: now,
            health: 1.0,
            version: 0,
            stopping: false,
            ended: None,
            exit_code: None,
        }));
        self.running += 1;
        self.seated.insert(start.job);
        if let Some(host) = partner {
            self.jobs.get_mut(&host).and_then(|l| l.gang.as_mut()).expect("it sits there").partner = Some(start.job);
            self.set_pace(now, host);
        }
        self.set_pace(now, start.job);
    }

    /// Sets a gang's rate and power by what it runs beside, and plans its end.
    fn set_pace(&mut self, now: Time, job: JobId) {
        let sim_job = &self.jobs[&job];
        let gang = sim_job.gang.as_ref().expect("only gangs have a pace");
        let idle = self.cluster.kind(gang.kind).idle_watts;
        let pair = gang.partner.and_then(|p| {
            let partner = self.jobs.get(&p)?;
            self.truth.together(sim_job.plays(), partner.plays(), gang.kind)
        });
        let (rate, active_watts) = match pair {
            // Each of the two stands for its part of the GPU's active power.
            Some(pair) => (pair.first_rate, (pair.watts - idle).max(0.0) / 2.0),
            None => {
                let pace = sim_job.paces[gang.kind.index()].expect("it fits")[gang.spread.index()];
                (pace.rate, (pace.watts - idle).max(0.0) * gang.gpus.len() as f64)
            }
        };
        let rate = rate * gang.health;
        let left = match sim_job.length() {
            Length::Steps(steps) => (steps - sim_job.steps).max(0.0) / rate,
            Length::Seconds(seconds) => (seconds - sim_job.served_seconds).max(0.0),
        };
        let from = now.max(gang.productive_from);
        let sim_job = self.jobs.get_mut(&job).expect("looked at above");
        let gang = sim_job.gang.as_mut().expect("looked at above");
        self.watts += active_watts - gang.watts;
        gang.rate = rate;
        gang.watts = active_watts;
        gang.paced = from;
        // Whoever is on the way out keeps its appointment.
        if gang.ended.is_none() && !gang.stopping && left.is_finite() {
            self.next_version += 1;
            gang.version = self.next_version;
            // Rounded up to the clock's grain, so that the work is done when the moment comes.
            let end = Time(from.0.saturating_add((left * 1e6).ceil() as u64));
            self.agenda.push(Reverse((end, self.next_version, Due::Finish, job)));
            self.drop_cancelled();
        }
    }

    /// Drops what is not going to happen any more, once it is most of the agenda: gangs that take turns are stopped long before their ends.
    fn drop_cancelled(&mut self) {
        if self.agenda.len() > AGENDA_PER_GANG * self.seated.len() + LEAST_AGENDA {
            let jobs = &self.jobs;
            self.agenda.retain(|&Reverse((_, version, _, job))| is_current(jobs, job, version));
        }
    }

    fn stop(&mut self, now: Time, job: JobId, fence: Fence) -> Option<GangReport> {
        let told = |event| GangReport::new(job, fence, event);
        let sim_job = self.jobs.get_mut(&job)?;
        sim_job.fence = sim_job.fence.max(fence);
        let safe_steps = sim_job.gang.as_ref().map_or(sim_job.steps, |gang| gang.safe_steps);
        let Some(gang) = sim_job.gang.as_mut().filter(|g| g.fence == fence) else {
            // Not here, and from now on never: that is worth telling, since its start may still be on its way.
            return Some(sim_job.outcome_of(fence).unwrap_or_else(|| told(GangEvent::Stopped(safe_steps))));
        };
        if let Some(state) = gang.ended.take() {
            let fate = match state {
                GangState::Finished => GangEvent::Finished,
                GangState::Failed(why) => GangEvent::Failed(safe_steps, why),
                GangState::Running => GangEvent::Stopped(safe_steps),
            };
            let report = GangReport { exit_code: gang.exit_code, ..told(fate) };
            sim_job.gang = None;
            sim_job.outcome = Some(report.clone());
            self.seated.remove(&job);
            return Some(report);
        }
        if gang.stopping {
            return None;
        }
        if self.world_options.checkpoint_seconds > 0.0 {
            self.settle(now, job);
            let gang = self.jobs.get_mut(&job).and_then(|l| l.gang.as_mut()).expect("looked at above");
            self.next_version += 1;
            gang.stopping = true;
            gang.version = self.next_version;
            let saved = now.after(self.world_options.checkpoint_seconds);
            self.agenda.push(Reverse((saved, self.next_version, Due::Saved, job)));
            return None;
        }
        Some(told(GangEvent::Stopped(self.release(now, job))))
    }

    /// Brings a gang's progress and energy up to date, its partner's with it. The end of a restart divides the time, so
    /// that every stretch is wholly one thing or the other.
    fn settle(&mut self, now: Time, job: JobId) {
        let gang = |id: JobId| self.jobs.get(&id).and_then(|l| l.gang.as_ref());
        let Some(own) = gang(job) else { return };
        let partner = own.partner.and_then(gang);
        let mut cuts = [own.productive_from, partner.map_or(own.productive_from, |p| p.productive_from)];
        cuts.sort_unstable();
        let from = own.settled;
        for cut in cuts {
            if from < cut && cut < now {
                self.settle_stretch(cut, job);
            }
        }
        self.settle_stretch(now, job);
    }

    fn settle_stretch(&mut self, now: Time, job: JobId) {
        let Some(sim_job) = self.jobs.get_mut(&job) else { return };
        let Some(gang) = sim_job.gang.as_ref().filter(|gang| gang.ended.is_none()) else { return };
        let (partner, kind, gpus, from) = (gang.partner, gang.kind, gang.gpus.len() as f64, gang.settled);
        let seconds = now.since(from);
        let mut draw = Draw { idle_joules: self.cluster.kind(kind).idle_watts * seconds * gpus, active_joules: 0.0 };
        let (resident, active) = sim_job.progress(now, &self.world_options);
        draw.active_joules += active;
        match partner {
            None => {
                meter::divide(draw, &[resident], |_, charge| sim_job.charge.add(&charge));
            }
            Some(id) => {
                let other = self.jobs.get_mut(&id).expect("a resident lives");
                let (beside, active) = other.progress(now, &self.world_options);
                draw.active_joules += active;
                let jobs = &mut self.jobs;
                meter::divide(draw, &[resident, beside], |id, charge| {
                    if let Some(sim_job) = jobs.get_mut(&id) {
                        sim_job.charge.add(&charge);
                    }
                });
            }
        }
        assert!(draw.active_joules >= 0.0 && draw.idle_joules >= 0.0, "{job:?} drew {draw:?}");
        let kind = self.cluster.sold_as(kind).index();
        self.used_joules[kind].idle_joules += draw.idle_joules;
        self.used_joules[kind].active_joules += draw.active_joules;
        self.busy_gpu_seconds[kind] += seconds * gpus;
    }

    /// Takes a gang off its GPUs; returns the job's steps.
    fn release(&mut self, now: Time, job: JobId) -> f64 {
        self.settle(now, job);
        let sim_job = self.jobs.get_mut(&job).expect("it holds something");
        let steps = sim_job.steps;
        let gang = sim_job.gang.take().expect("it holds something");
        self.seated.remove(&job);
        if gang.ended.is_none() {
            self.unseat(now, job, &gang);
        }
        self.jobs.get_mut(&job).expect("it held something").last_gpus = gang.gpus;
        steps
    }

    fn unseat(&mut self, now: Time, job: JobId, gang: &Running) {
        self.watts -= gang.watts;
        self.running -= 1;
        for &gpu in &gang.gpus {
            let seats = &mut self.on_gpu[gpu.index()];
            let seat = seats.iter_mut().find(|s| **s == Some(job)).expect("a gang has a seat on each of its GPUs");
            *seat = None;
            if seats.iter().all(Option::is_none) {
                self.idle_since[gpu.index()] = now;
                self.busy[self.cluster.sold_as(gang.kind).index()] -= 1;
                self.watts -= self.cluster.kind(gang.kind).idle_watts - self.unused_watts(gang.kind);
            }
        }
        if let Some(partner) = gang.partner
            && let Some(other) = self.jobs.get_mut(&partner).and_then(|l| l.gang.as_mut())
        {
            other.partner = None;
            self.set_pace(now, partner);
        }
    }

    /// A gang ends by itself: its GPUs are free, its record stays until somebody orders it to stop.
    fn end(&mut self, now: Time, job: JobId, state: GangState, exit_code: Option<i32>) {
        self.settle(now, job);
        let sim_job = self.jobs.get_mut(&job).expect("it holds something");
        if let (GangState::Finished, Length::Steps(total)) = (&state, sim_job.length()) {
            sim_job.steps = total;
        }
        let gang = sim_job.gang.as_mut().expect("it holds something");
        gang.ended = Some(state);
        gang.exit_code = exit_code;
        gang.version = 0;
        let gang = gang.clone();
        self.unseat(now, job, &gang);
    }
}

impl SimJob {
    /// Its gang's steps until `now`; returns how busy it was and its active energy.
    fn progress(&mut self, now: Time, options: &WorldOptions) -> (Resident, f64) {
        let length = self.length();
        let gang = self.gang.as_mut().expect("a resident has a gang");
        let seconds = now.since(gang.settled);
        // Loading, restoring or saving: it holds its GPUs and makes no steps.
        let moving = gang.stopping || now <= gang.productive_from;
        let productive = if moving { 0.0 } else { seconds };
        self.steps += gang.rate * productive;
        if let Length::Steps(total) = length {
            self.steps = self.steps.min(total);
        }
        self.served_seconds += productive;
        self.gpu_seconds += seconds * gang.gpus.len() as f64;
        // A tolerance, since the promise may be exactly the rate it has.
        if self.spec.floor.is_none_or(|floor| gang.rate >= floor * (1.0 - 1e-9)) {
            self.kept_seconds += productive;
        }
        let every = options.checkpoint_every_seconds;
        let since_safe = now.since(gang.safe_at);
        if every > 0.0 && since_safe >= every {
            let unsafe_seconds = since_safe % every;
            gang.safe_steps = (self.steps - gang.rate * unsafe_seconds).max(gang.safe_steps);
            gang.safe_at = Time(now.0 - Time::from_seconds(unsafe_seconds).0.min(now.0));
        }
        gang.settled = now;
        let alone = self.paces[gang.kind.index()].map_or(1.0, |p| p[0].rate);
        let (active, activity) = match moving {
            true => (gang.watts * options.restart_activity * seconds, options.restart_activity),
            false => (gang.watts * seconds, gang.rate / alone),
        };
        (Resident { job: self.spec.id, activity, restarting: moving, alone_joules: None }, active)
    }
}
