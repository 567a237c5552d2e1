//! A cluster that Slurm runs: arles decides, Slurm runs.
//!
//! Jobs wait in Slurm's queue, held. Arles pins the next one to its nodes and releases it; to make room, it requeues a job held, with the grace that Slurm
//! gives every job (SIGTERM, then SIGKILL after KillWait). Two sorts of jobs are treated alike: those that users submitted with `sbatch`
//! (`slurm/arrival.rs`), and those that were submitted to arles, which this engine submits to Slurm (`slurm/program.rs`).
//!
//! - **The queue is the truth.** Everything that must be known after a crash is in Slurm's own records: a job's mark says whose it is, which gang
//!   it was released for, and on which GPUs. What a look shows decides the next step, however it came about.
//! - **GPUs are counted, not named.** Slurm picks the devices of a node. The numbers in orders and surveys say how many are taken on a node.
//! - **A GPU is one job's**, or two's where Slurm has cut it into shards (`slurm/shard.rs`).
//! - **Others' jobs are never touched.** Their GPUs are shown as taken, by gangs that cannot be stopped.
//! - **A look is for everybody.** No call is made for each job in the queue; a job costs calls when something happens to it.
//!
//! Must never: change a job that is not arles' by its mark, release a job that still has GPUs, or call a gang gone whose job could still start.

pub(crate) mod account;
mod arrival;
mod controller;
mod dependency;
mod devices;
mod entry;
mod gang;
mod look;
mod mark;
pub(crate) mod program;
mod record;
mod rest;
mod shard;
mod shares;
mod show;
mod suit;
mod term;
pub mod tools;
mod unregistered;
mod watch;

pub use crate::metrics::{EnergySource, MetricsMeter};
pub use controller::Calls;
pub use shares::share_weights;
pub use watch::{Watch, WatchedJob, WatchedRun};

use crate::intake::Intake;
use crate::local::GpuMeter;
use crate::order;
use account::Account;
use arles_core::engine::{
    Abilities, Engine, EngineError, EngineReport, JobMeter, LiveJob, Mandate, Meters, OrderReply,
};
use arles_core::scheduler::{Fence, GangEvent, GangReport, Order, Start, Survey};
use arles_core::{Cluster, GpuId, JobId, Kind, Time};
use controller::Controller;
use entry::Entry;
use gang::{Gang, Phase};
use look::Queue;
use rest::Rest;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

/// Jobs that are over and still remembered, so that what is asked twice is answered twice.
const REMEMBERED: usize = 16_384;
/// Numbers from here on are those of jobs that are not arles', with Slurm's own number added.
const FOREIGN: u64 = 1 << 52;

/// How a kind is found by the type in a node's GRES.
pub type KindOf = Box<dyn Fn(&str) -> Option<Kind> + Send>;

/// Which of the jobs that are offered arles takes: for trying it on a part of a cluster. What is empty excludes nobody; jobs
/// that are excluded are given back to Slurm.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Canary {
    /// Partitions whose jobs are taken.
    pub partitions: Vec<String>,
    /// Accounts whose jobs are taken.
    pub accounts: Vec<String>,
    /// How many of a hundred jobs are taken, by their numbers; 100 for all.
    pub percent: f64,
}

impl Canary {
    fn takes(&self, record: &record::JobRecord) -> bool {
        let among = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        // Successive numbers are spread over the hundred, so that a burst of jobs is divided as the day is.
        let place = (record.job_id.wrapping_mul(2_654_435_761) >> 7) % 10_000;
        among(&self.partitions, &record.partition)
            && among(&self.accounts, &record.account)
            && (place as f64) < 100.0 * self.percent
    }
}

/// How this engine reaches Slurm and what it keeps.
pub struct SlurmOptions {
    /// Slurm's configuration, where it is not in its usual place.
    pub conf: Option<PathBuf>,
    /// slurmrestd: `unix:PATH`, or `HOST:PORT`; without, Slurm's commands are asked.
    pub rest: Option<String>,
    /// A JSON web token for slurmrestd over TCP, with the user that it is for.
    pub token: Option<(String, String)>,
    /// Folder for the scripts of programs that were submitted through arles; the nodes must see it.
    pub folder: PathBuf,
    /// Folder for their output.
    pub logs: PathBuf,
    /// Told to these programs on top of their own environment.
    pub environment: BTreeMap<String, String>,
    /// Folder in which dcgm-exporter finds which job has which GPU: a folder for each node in it.
    pub job_mapping: Option<PathBuf>,
    /// Seconds between two looks at the queue while nothing is under way.
    pub poll_seconds: f64,
    /// Which jobs are taken.
    pub canary: Canary,
    /// Finds kinds for nodes that Slurm has; without, nodes are those that the engine is told of.
    pub kind_of: Option<KindOf>,
    /// Another number whenever counters begin anew.
    pub boot: u64,
}

/// Slurm as an engine.
pub struct Slurm {
    options: SlurmOptions,
    controller: Controller,
    journal: String,
    /// The term that its driver leads in.
    term: u64,
    /// A later one that was seen: then nothing is done any more.
    later_term: Option<u64>,
    cluster: Cluster,
    account: Account,
    jobs: BTreeMap<JobId, Entry>,
    /// Jobs that are over.
    past: BTreeMap<JobId, Entry>,
    /// Jobs that were never made known and got orders nevertheless.
    barred: BTreeMap<JobId, Fence>,
    queue: Queue,
    nodes: Vec<record::NodeRecord>,
    nodes_looked: Option<Instant>,
    intake: Intake,
    news: Vec<GangReport>,
    /// Jobs that held GPUs since the last look.
    shown: BTreeSet<JobId>,
    /// Jobs that arles cancelled, by their names in Slurm: what is left of them is not shown.
    cancelled: BTreeSet<String>,
    looked: Option<Instant>,
    /// Numbers of devices on their nodes, by GPU.
    devices: Vec<Option<u32>>,
    /// What was last written for dcgm-exporter.
    mapped: devices::DeviceUsers,
    own_user: f64,
    /// Whether the driver has said which jobs there are.
    synced: bool,
}

impl Slurm {
    /// An engine that has not asked Slurm for anything yet.
    ///
    /// # Errors
    /// When slurmrestd's address is none.
    pub fn new(cluster: Cluster, options: SlurmOptions, meter: Box<dyn GpuMeter>) -> Result<Self, EngineError> {
        let (user, token) = options.token.clone().unzip();
        let rest = options.rest.as_deref().map(|address| Rest::new(address, user, token)).transpose()?;
        let own_user = f64::from(rustix::process::getuid().as_raw());
        options.job_mapping.as_deref().inspect(|folder| devices::clear_mapping(folder));
        Ok(Self {
            controller: Controller::new(rest, options.conf.clone()),
            journal: "none".into(),
            term: 0,
            later_term: None,
            account: Account::new(meter, &cluster),
            cluster,
            jobs: BTreeMap::new(),
            past: BTreeMap::new(),
            barred: BTreeMap::new(),
            queue: Queue::default(),
            nodes: Vec::new(),
            nodes_looked: None,
            intake: Intake::new("Slurm"),
            news: Vec::new(),
            shown: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            looked: None,
            devices: Vec::new(),
            mapped: devices::DeviceUsers::new(),
            own_user,
            synced: false,
            options,
        })
    }

    /// What users and operators of Slurm want of arles.
    #[must_use]
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// Whether energy is measured, or nominal.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.account.measures()
    }

    /// What has been asked of Slurm so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.controller.calls
    }

    /// Counts energy and GPU time until now.
    fn count(&mut self, now: Time) -> Time {
        let mut holders: Vec<Vec<JobId>> = vec![Vec::new(); self.cluster.gpus()];
        for (&id, entry) in &self.jobs {
            for gpu in entry.running().map_or(&[][..], |gang| &gang.gpus) {
                holders[gpu.index()].push(id);
            }
        }
        let jobs = &mut self.jobs;
        self.account.count(now, &self.cluster, &self.devices, &holders, |job, charge, seconds| {
            if let Some(entry) = jobs.get_mut(&job) {
                entry.charge.add(&charge);
                entry.gpu_seconds += seconds;
            }
        })
    }

    /// Why a gang cannot be started, whatever Slurm says.
    fn why_not(&self, start: &Start) -> Option<String> {
        let live = &self.jobs[&start.job].live;
        let submit = "submit one with 'sbatch' or 'arles submit -- COMMAND'";
        order::elastic(live).or_else(|| order::nonsense(start, live, &self.cluster, submit))
    }

    /// Why a gang cannot be started now: somebody else is on its GPUs.
    fn why_not_now(&self, start: &Start) -> Option<String> {
        let (job, live) = (start.job.0, &self.jobs[&start.job].live);
        let kind = self.cluster.kind(start.kind);
        for &gpu in &start.gpus {
            let others: Vec<JobId> = self.holders(gpu).filter(|other| *other != start.job).collect();
            let [other] = others[..] else {
                let Some(other) = others.first() else { continue };
                return Some(format!("{gpu} was ordered for job {job}, and job {} has it with another", other.0));
            };
            let partner = &self.jobs[&other].live.spec;
            if (live.spec.gang, partner.gang) != (1, 1) || kind.max_jobs < 2 {
                return Some(format!("{gpu} was ordered for job {job}, and job {} has it", other.0));
            }
            let needed = live.spec.needs.gpu_memory_gib + partner.needs.gpu_memory_gib;
            if needed > kind.memory_gib {
                let (other, memory) = (other.0, kind.memory_gib);
                return Some(format!(
                    "job {job} and job {other} need {needed} GiB of device memory together, and {gpu} has {memory} GiB"
                ));
            }
        }
        None
    }

    fn holders(&self, gpu: GpuId) -> impl Iterator<Item = JobId> + '_ {
        let holds =
            move |entry: &Entry| entry.gang.as_ref().is_some_and(|gang| gang.holds() && gang.gpus.contains(&gpu));
        self.jobs.iter().filter(move |(_, entry)| holds(entry)).map(|(&id, _)| id)
    }

    /// Names of nodes with how many of these GPUs each has.
    fn shares_by_node(&self, gpus: &[GpuId]) -> Vec<(String, u32)> {
        let mut shares: BTreeMap<_, u32> = BTreeMap::new();
        gpus.iter().for_each(|&gpu| *shares.entry(self.cluster.node_of(gpu)).or_default() += 1);
        shares.into_iter().map(|(node, count)| (self.cluster.node(node).name.clone(), count)).collect()
    }

    fn start(&mut self, start: &Start) -> Result<OrderReply, EngineError> {
        let refused = |why: String| Ok(OrderReply::Refused(why));
        let Some(entry) = self.jobs.get_mut(&start.job) else {
            let fence = self.barred.entry(start.job).or_insert(start.fence);
            *fence = (*fence).max(start.fence);
            return refused(format!("job {} is not known here; make it known before its orders", start.job.0));
        };
        if let Some(gang) = entry.gang.as_ref().filter(|gang| gang.fence == start.fence && gang.holds()) {
            let started = GangReport::new(start.job, start.fence, GangEvent::Started);
            return Ok(match gang.phase {
                Phase::Running => OrderReply::Reported(started),
                _ => OrderReply::Pending,
            });
        }
        // It ran and has ended, perhaps before anybody was told that it began. Whoever heard a refusal would start it a second time.
        if entry.gang.as_ref().is_some_and(|gang| gang.fence == start.fence) || entry.given_up == Some(start.fence) {
            return Ok(OrderReply::Reported(entry.outcome_of(start.fence)));
        }
        if start.fence <= entry.fence {
            return refused(format!("gang {} of job {} was stopped, refused or followed", start.fence.0, start.job.0));
        }
        // Whatever is said from here on is final: a copy of this order that comes later must not be done.
        entry.fence = start.fence;
        if let Some(gang) = entry.gang.as_mut().filter(|gang| gang.holds()) {
            // Whoever drives has given that one up: it goes first. That it is still there is no failure of the job's, which waits for the next decision.
            if gang.phase != Phase::Stopping {
                gang.phase = Phase::Stopping;
                entry.sent_shows();
            }
            let report = self.decline(start, "its last gang has not left yet".into());
            self.follow(start.job)?;
            return Ok(OrderReply::Reported(report));
        }
        entry.gang = None;
        if let Some(why) = self.why_not(start) {
            return refused(why);
        }
        if let Some(why) = self.why_not_now(start) {
            return Ok(OrderReply::Reported(self.decline(start, why)));
        }
        let Start { fence, kind, spread, .. } = *start;
        let gpus = start.gpus.clone();
        if self.nodes.is_empty() {
            self.look_at_nodes()?;
        }
        let gang = Gang { spread, ..Gang::new(fence, kind, gpus) };
        // One that comes with a partner is seated with it: orders of one decision arrive together, and the next look is near.
        let alone = !self.may_be_joined(&gang);
        let entry = self.jobs.get_mut(&start.job).expect("looked at before");
        (entry.rate, entry.gang) = (0.0, Some(gang));
        entry.sent_shows();
        if alone {
            self.follow(start.job)?;
        }
        Ok(OrderReply::Pending)
    }

    /// A start that others are in the way of. Who they are the driver could not know: its last word of them was lost, or Slurm went back to an earlier state. So
    /// it is nobody's failure.
    fn decline(&mut self, start: &Start, why: String) -> GangReport {
        let entry = self.jobs.get_mut(&start.job).expect("looked at before");
        let event = GangEvent::Stopped(entry.steps);
        entry.outcome = Some((start.fence, event.clone(), None));
        entry.given_up = Some(start.fence);
        entry.put_off = Some(why);
        GangReport::new(start.job, start.fence, event)
    }

    fn stop(&mut self, id: JobId, fence: Fence) -> Result<Option<GangReport>, EngineError> {
        if id.0 >= FOREIGN {
            // It is not ours to stop, and its GPUs are not free: the next survey shows what became of it.
            return Ok(None);
        }
        let Some(entry) = self.jobs.get_mut(&id) else { return self.stop_stray(id, fence) };
        entry.fence = entry.fence.max(fence);
        entry.given_up = None;
        match entry.gang.as_mut().filter(|gang| gang.fence == fence) {
            Some(gang) if matches!(gang.phase, Phase::Over(..) | Phase::Wanted) => entry.gang = None,
            Some(gang) => {
                if gang.phase != Phase::Stopping {
                    gang.phase = Phase::Stopping;
                    entry.sent_shows();
                }
                self.follow(id)?;
                let entry = &self.jobs[&id];
                return Ok(entry.gang.is_none().then(|| entry.outcome_of(fence)));
            }
            None => {}
        }
        // What was told of it before is not told a second time.
        self.news.retain(|report| (report.job, report.fence) != (id, fence));
        Ok(Some(self.jobs[&id].outcome_of(fence)))
    }

    /// A gang of a job that the driver has not made known: perhaps one that an earlier engine started.
    fn stop_stray(&mut self, id: JobId, fence: Fence) -> Result<Option<GangReport>, EngineError> {
        let barred = self.barred.entry(id).or_insert(fence);
        *barred = (*barred).max(fence);
        if let Some(name) = self.stray(id, fence) {
            self.tolerate(|controller| controller.requeue_held(&name))?;
            return Ok(None);
        }
        let known = self.past.get(&id).map(|entry| entry.outcome_of(fence));
        Ok(Some(known.unwrap_or_else(|| GangReport::new(id, fence, GangEvent::Stopped(0.0)))))
    }

    fn admit(&mut self, live: &LiveJob) {
        let id = live.spec.id;
        if self.jobs.contains_key(&id) {
            return;
        }
        let mut entry = self.past.remove(&id).unwrap_or_else(|| Entry::new(live.clone()));
        entry.steps = entry.steps.max(live.steps_done);
        entry.live = live.clone();
        entry.fence = entry.fence.max(self.barred.remove(&id).unwrap_or(Fence(0)));
        self.adopt(&mut entry);
        self.jobs.insert(id, entry);
    }

    /// Ends what a job still is in Slurm and puts it into the past.
    fn forget(&mut self, id: JobId) -> Result<Option<JobMeter>, EngineError> {
        if let Some(name) = self.jobs.get(&id).and_then(|entry| self.cancellable(entry)) {
            match self.controller.cancel(&name) {
                Err(controller::CommandError::Unreachable(text)) => return Err(EngineError(text)),
                // It ended in the meantime.
                Ok(()) | Err(controller::CommandError::Refused(_)) => self.cancelled.insert(name),
            };
        }
        let Some(mut entry) = self.jobs.remove(&id) else { return Ok(None) };
        (entry.gang, entry.slurm) = (None, None);
        let meter = entry.meter();
        self.past.insert(id, entry);
        if self.past.len() > REMEMBERED {
            self.past.pop_first();
        }
        Ok(Some(meter))
    }
}

impl Engine for Slurm {
    fn lead(&mut self, mandate: &Mandate) -> Result<(), EngineError> {
        if !mandate.journal.is_empty() {
            self.journal = mandate.journal.split_whitespace().collect();
        }
        self.term = mandate.term;
        self.later_term = self.later_term.filter(|later| *later > self.term);
        self.obey()
    }

    fn deposed(&self) -> bool {
        self.later_term.is_some()
    }

    fn abilities(&self) -> Abilities {
        Abilities { resizes_gangs: false, ..Abilities::default() }
    }

    fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<(), EngineError> {
        self.count(now);
        self.cluster = cluster.clone();
        self.account.resize(cluster);
        let left = |gpu: &GpuId| self.cluster.node(self.cluster.node_of(*gpu)).removed;
        for entry in self.jobs.values_mut() {
            let Some(gang) = entry.gang.take_if(|gang| gang.holds() && gang.gpus.iter().any(left)) else { continue };
            // Its job is taken back at the next look: it has no gang any more.
            entry.outcome = Some((gang.fence, GangEvent::Stopped(entry.steps), None));
        }
        Ok(())
    }

    fn sync_jobs(&mut self, now: Time, live: &[LiveJob]) -> Result<Vec<JobMeter>, EngineError> {
        self.look(now, true)?;
        if self.nodes.is_empty() {
            self.look_at_nodes()?;
        }
        live.iter().for_each(|job| self.admit(job));
        self.take_over()?;
        let named: BTreeSet<JobId> = live.iter().map(|job| job.spec.id).collect();
        let over: Vec<JobId> = self.jobs.keys().copied().filter(|job| !named.contains(job)).collect();
        self.count(now);
        let mut meters = Vec::new();
        for job in over {
            meters.extend(self.forget(job)?);
        }
        self.synced = true;
        self.follow_all(now)?;
        self.shown.extend(self.jobs.iter().filter(|(_, entry)| entry.gpu_seconds > 0.0).map(|(&id, _)| id));
        Ok(meters)
    }

    fn add_job(&mut self, now: Time, job: &LiveJob) -> Result<(), EngineError> {
        self.obey()?;
        self.count(now);
        self.admit(job);
        self.follow(job.spec.id)
    }

    fn remove_job(&mut self, now: Time, job: JobId) -> Result<Option<JobMeter>, EngineError> {
        self.obey()?;
        self.count(now);
        let before =
            self.past.get(&job).filter(|past| past.gpu_seconds > 0.0 || past.outcome.is_some()).map(Entry::meter);
        if !self.jobs.contains_key(&job) {
            self.cancel_remains(job)?;
        }
        Ok(self.forget(job)?.or(before))
    }

    fn apply(&mut self, now: Time, order: &Order) -> Result<OrderReply, EngineError> {
        self.obey()?;
        self.count(now);
        match order {
            Order::Start(start) => self.start(start),
            Order::Stop { job, fence } => {
                Ok(self.stop(*job, *fence)?.map_or(OrderReply::Pending, OrderReply::Reported))
            }
        }
    }

    fn poll(&mut self, now: Time) -> Result<Vec<GangReport>, EngineError> {
        self.obey()?;
        if self.is_due() {
            self.look(now, false)?;
            self.follow_all(now)?;
        }
        self.count(now);
        Ok(std::mem::take(&mut self.news))
    }

    fn survey(&mut self, now: Time, asked_at: Time) -> Result<EngineReport, EngineError> {
        self.look(now, true)?;
        self.look_at_nodes()?;
        self.follow_all(now)?;
        let now = self.count(now);
        let survey = Survey { at: asked_at, nodes: self.observed_nodes(), gangs: self.observed_gangs() };
        let observations = self.observe(now);
        let holders = self.jobs.iter().filter(|(_, entry)| entry.running().is_some()).map(|(&id, _)| id).collect();
        let before = std::mem::replace(&mut self.shown, holders);
        let jobs = before.union(&self.shown).filter_map(|id| self.jobs.get(id)).map(Entry::meter).collect();
        let (kinds, gpu_watts) = (self.account.kinds.clone(), self.account.watts.clone());
        let meters = Meters { boot: self.options.boot, jobs, kinds, gpu_watts };
        Ok(EngineReport { survey, meters, observations, inventory: self.inventory(), lost_gpus: None })
    }
}
