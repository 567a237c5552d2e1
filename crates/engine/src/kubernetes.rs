//! A cluster that Kubernetes runs: arles decides, Kubernetes runs.
//!
//! Users give pods to arles in one of two ways, and both may be used side by side. *Behind the gate* (Kubernetes 1.27 and later): pods carry the scheduling gate
//! `arles/admission`; arles pins them to their nodes and takes the gate away, and the default scheduler binds them. *By the scheduler's name* (any version):
//! pods say `schedulerName: arles`, and arles binds them itself, after it has checked what it must (`kubernetes/fit.rs`). Programs that were submitted to
//! arles become pods of its own (`kubernetes/program.rs`). Suspended Jobs are let go on as a whole, and then their pods are behind the gate (`kubernetes/suspended.rs`).
//!
//! - **The API server is the truth.** Everything that must be known after a crash is on the pods: a mark that is written by the very call that gives a
//!   pod its place says whose it is, which gang it is of, and on which GPUs. What a look shows decides the next step (`kubernetes/gang.rs`).
//! - **A gang is all or none.** It is placed when all its pods wait and fit. What is not whole after a time-out is given back.
//! - **Preemption is eviction**, with the pod's own grace and its owner's disruption budget; its controller makes another pod, which waits for arles.
//! - **GPUs are counted, not named.** The device plugin picks the devices of a node. The numbers in orders and surveys say how many are taken.
//! - **Others' pods are never touched.** Their GPUs are shown as taken, by gangs that cannot be stopped.
//! - **Nothing is polled.** Pods, nodes, Jobs and namespaces are followed by watches (`kubernetes/mirror.rs`); a pod costs a call when something happens to it.
//!
//! Must never: change a pod that is neither marked nor made by arles, place a gang while its last one has a place, or call a gang gone whose pods could still start.

mod access;
mod advice;
mod claims;
mod client;
mod devices;
mod entry;
mod fit;
mod gang;
mod group;
mod kueue;
mod lease;
mod look;
mod mark;
mod mirror;
mod object;
mod place;
mod program;
mod selector;
mod show;
mod suspended;
pub mod tools;
mod view;
mod watch;
mod webhook;

pub use advice::Mode;
pub use client::ApiError;
pub use mark::GATE;
pub use program::{ProgramOptions, SharedFolder};
pub use watch::Watch;
pub use webhook::{GivenBy, Webhook};

use crate::intake::Intake;
use crate::local::GpuMeter;
use crate::order;
use crate::slurm::account::Account;
use access::Access;
use arles_core::engine::{
    Abilities, Engine, EngineError, EngineReport, JobMeter, LiveJob, Mandate, Meters, OrderReply,
};
use arles_core::scheduler::{Fence, GangEvent, GangReport, Order, Start, Survey};
use arles_core::{Cluster, GpuId, JobId, Kind, Time};
use client::Client;
use entry::Entry;
use gang::{Gang, Phase};
use lease::Tenure;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use view::{Mirrors, View};

/// Jobs that are over and still remembered, so that what is asked twice is answered twice.
const REMEMBERED: usize = 16_384;
/// Numbers from here on are those of pods that are not arles', with 48 bits of their uid added.
const FOREIGN: u64 = 1 << 52;

/// How a kind is found by the product label of a node.
pub type KindOf = Box<dyn Fn(&str) -> Option<Kind> + Send>;

/// How this engine reaches Kubernetes and what it does there.
pub struct KubernetesOptions {
    /// A kubeconfig; without, that of the environment or the service account of this pod.
    pub kubeconfig: Option<PathBuf>,
    /// Whether pods are placed, or Kueue is advised.
    pub mode: Mode,
    /// Pods that name this scheduler are bound by arles.
    pub scheduler_name: String,
    /// Namespaces whose pods are taken; empty for all.
    pub namespaces: Vec<String>,
    /// A gang that is not whole after so long is given back.
    pub gang_timeout_seconds: f64,
    /// Pods of programs that were submitted through arles.
    pub programs: ProgramOptions,
    /// Finds kinds for nodes that Kubernetes has; without, nodes are those that the engine is told of.
    pub kind_of: Option<KindOf>,
    /// How long a daemon that is not heard is believed to lead, by the Lease in the programs' namespace; 0 for no Lease.
    pub lease_seconds: f64,
    /// Another number whenever counters begin anew.
    pub boot: u64,
}

/// Kubernetes as an engine.
pub struct Kubernetes {
    options: KubernetesOptions,
    client: Client,
    mirrors: Mirrors,
    view: View,
    /// The mirrors' changes that the view shows.
    seen_changes: u64,
    looked: Option<Instant>,
    /// When the view was made, and how long that took.
    viewed: Option<(Instant, Duration)>,
    eviction_version: &'static str,
    /// Whether scheduling gates are kept; older servers drop them without a word.
    has_gates: bool,
    journal: String,
    /// Its part in the election of who acts.
    tenure: Option<Tenure>,
    cluster: Cluster,
    account: Account,
    /// Which device of its node each GPU is, as far as that is known.
    devices: Vec<Option<u32>>,
    jobs: BTreeMap<JobId, Entry>,
    /// Jobs that are over.
    past: BTreeMap<JobId, Entry>,
    /// Jobs that were never made known and got orders nevertheless.
    barred: BTreeMap<JobId, Fence>,
    intake: Intake,
    news: Vec<GangReport>,
    /// Jobs that held GPUs since the last look.
    shown: BTreeSet<JobId>,
    /// Whether the driver has said which jobs there are.
    synced: bool,
}

impl Kubernetes {
    /// An engine that has begun to follow the cluster.
    ///
    /// # Errors
    /// When no cluster is configured, or its API server does not answer.
    pub fn new(cluster: Cluster, options: KubernetesOptions, meter: Box<dyn GpuMeter>) -> Result<Self, EngineError> {
        let client = Client::new(Access::find(options.kubeconfig.as_deref())?)?;
        let version = tools::version(&client)?;
        if options.mode == Mode::Advise {
            advice::check_kueue(&client)?;
        }
        // Since 1.22; the older one was removed in 1.25.
        let eviction_version = if version >= (1, 22) { "policy/v1" } else { "policy/v1beta1" };
        let has_lease = options.lease_seconds > 0.0;
        let tenure = has_lease.then(|| Tenure::new(&options.programs.namespace, options.lease_seconds));
        Ok(Self {
            tenure,
            mirrors: Mirrors::follow(&client, options.mode == Mode::Advise),
            client,
            view: View::default(),
            seen_changes: 0,
            looked: None,
            viewed: None,
            eviction_version,
            has_gates: version >= (1, 27),
            journal: "none".into(),
            account: Account::new(meter, &cluster),
            devices: Vec::new(),
            cluster,
            jobs: BTreeMap::new(),
            past: BTreeMap::new(),
            barred: BTreeMap::new(),
            intake: Intake::new("Kubernetes"),
            news: Vec::new(),
            shown: BTreeSet::new(),
            synced: false,
            options,
        })
    }

    /// What users and operators of the cluster want of arles.
    #[must_use]
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// Calls to the API server so far, watches included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.client.calls()
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

    /// Why a gang cannot be started, whatever Kubernetes says.
    fn why_not(&self, start: &Start) -> Option<String> {
        let (job, live) = (start.job.0, &self.jobs[&start.job].live);
        if self.options.mode == Mode::Advise && !self.jobs[&start.job].is_native() {
            let why = "arles advises Kueue here and runs nothing; submit it as a Job with a queue of Kueue's";
            return Some(format!("job {job} was submitted to arles: {why}"));
        }
        let submit = "submit one with 'kubectl' or 'arles submit -- COMMAND'";
        order::elastic(live).or_else(|| order::nonsense(start, live, &self.cluster, submit))
    }

    /// Why a gang cannot be started now: somebody else is on its GPUs.
    fn why_not_now(&self, start: &Start) -> Option<String> {
        start.gpus.iter().find_map(|&gpu| {
            let other = self.holder(gpu).filter(|other| *other != start.job)?;
            Some(format!("{gpu} was ordered for job {}, and job {} has it", start.job.0, other.0))
        })
    }

    /// A start that others are in the way of. Who they are the driver could not know, as its last word of them was lost: so it is nobody's failure.
    fn decline(&mut self, start: &Start, why: String) -> GangReport {
        let entry = self.jobs.get_mut(&start.job).expect("looked at before");
        let event = GangEvent::Stopped(entry.steps);
        entry.outcome = Some((start.fence, event.clone(), None));
        entry.given_up = Some(start.fence);
        entry.put_off = Some(why);
        GangReport::new(start.job, start.fence, event)
    }

    fn holder(&self, gpu: GpuId) -> Option<JobId> {
        let holds = |entry: &Entry| entry.gang.as_ref().is_some_and(|gang| gang.holds() && gang.gpus.contains(&gpu));
        self.jobs.iter().find(|(_, entry)| holds(entry)).map(|(&id, _)| id)
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
        let is_advised = advice::is_advice(entry.gang.as_ref(), entry.group.as_ref().map(|(key, _)| key));
        if let Some(gang) = entry.gang.as_mut().filter(|gang| gang.holds()) {
            // Whoever drives has given that one up: it goes first. Where Kueue admits, it goes when Kueue says so.
            if gang.phase != Phase::Stopping && !is_advised {
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
        let gang = Gang {
            fence: start.fence,
            kind: start.kind,
            gpus: start.gpus.clone(),
            spread: start.spread,
            phase: Phase::Wanted,
            placed: BTreeSet::new(),
            broken_since: Instant::now(),
            counted: None,
            running_since: None,
        };
        let entry = self.jobs.get_mut(&start.job).expect("looked at before");
        (entry.rate, entry.gang, entry.why_stopped) = (0.0, Some(gang), None);
        entry.sent_shows();
        self.follow(start.job)?;
        Ok(OrderReply::Pending)
    }

    fn stop(&mut self, id: JobId, fence: Fence) -> Result<Option<GangReport>, EngineError> {
        if id.0 >= FOREIGN {
            // It is not ours to stop, and its GPUs are not free: the next survey shows what became of it.
            return Ok(None);
        }
        let Some(entry) = self.jobs.get_mut(&id) else { return self.stop_stray(id, fence) };
        entry.fence = entry.fence.max(fence);
        entry.given_up = None;
        let key = entry.group.as_ref().map(|(key, _)| key);
        let is_advised = advice::is_advice(entry.gang.as_ref(), key);
        let group = key.filter(|_| is_advised).and_then(|key| self.view.group(key));
        match entry.gang.as_mut().filter(|gang| gang.fence == fence) {
            Some(gang) if matches!(gang.phase, Phase::Over(..) | Phase::Wanted) => entry.gang = None,
            Some(_) if is_advised => {
                if let Some(group) = group {
                    self.withdraw(id, &group)?;
                }
            }
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
        let is_it = |pod: &&Arc<object::Pod>| {
            let mark = self.own_mark(pod).filter(|mark| (mark.job, mark.fence) == (id, fence));
            mark.is_some() && pod.is_placed(&self.options.scheduler_name) && !pod.is_leaving()
        };
        let pods: Vec<_> = self.view.pods.iter().filter(is_it).cloned().collect();
        if !pods.is_empty() {
            self.evict(id, &pods, "arles does not know its job any more")?;
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

    /// Ends what a job still is in Kubernetes and puts it into the past.
    fn forget(&mut self, id: JobId) -> Result<Option<JobMeter>, EngineError> {
        self.end_remains(id)?;
        let Some(mut entry) = self.jobs.remove(&id) else { return Ok(None) };
        entry.gang = None;
        let meter = entry.meter();
        self.past.insert(id, entry);
        if self.past.len() > REMEMBERED {
            self.past.pop_first();
        }
        Ok(Some(meter))
    }

    /// A job is over for arles: pods that arles made for it are deleted, those of its user's that have their place by arles' mark are told to go.
    /// One that was given back is left alone.
    fn end_remains(&mut self, id: JobId) -> Result<(), EngineError> {
        let made = self.view.programs.get(&id).cloned().unwrap_or_default();
        let made: Vec<_> = made.into_iter().filter(|pod| self.own_mark(pod).is_some()).collect();
        self.delete(&made)?;
        let Some(entry) = self.jobs.get_mut(&id) else { return Ok(()) };
        entry.sent_shows();
        let Some((key, _)) = entry.group.clone() else { return Ok(()) };
        let Some(group) = self.view.group(&key).filter(|group| !group.is_released()) else { return Ok(()) };
        self.withdraw(id, &group)?;
        let ours: Vec<_> =
            group.pods.into_iter().filter(|pod| self.own_mark(pod).is_some_and(|mark| mark.job == id)).collect();
        self.evict(id, &ours, "its job was cancelled in arles")
    }
}

impl Engine for Kubernetes {
    fn lead(&mut self, mandate: &Mandate) -> Result<(), EngineError> {
        if !mandate.journal.is_empty() {
            self.journal = mandate.journal.split_whitespace().collect();
        }
        if let Some(tenure) = &self.tenure {
            tenure.set_mandate(&Mandate { journal: self.journal.clone(), ..mandate.clone() });
        }
        self.obey()
    }

    fn deposed(&self) -> bool {
        self.tenure.as_ref().is_some_and(Tenure::is_lost)
    }

    fn abilities(&self) -> Abilities {
        Abilities { resizes_gangs: false, tells_users: true }
    }

    fn explain_stop(&mut self, job: JobId, why: &str) {
        if let Some(entry) = self.jobs.get_mut(&job) {
            entry.why_stopped = Some(why.to_owned());
        }
    }

    fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<(), EngineError> {
        self.count(now);
        self.cluster = cluster.clone();
        self.account.resize(cluster);
        self.devices.clear();
        let left = |gpu: &GpuId| self.cluster.node(self.cluster.node_of(*gpu)).removed;
        for entry in self.jobs.values_mut() {
            let Some(gang) = entry.gang.take_if(|gang| gang.holds() && gang.gpus.iter().any(left)) else { continue };
            // Its pods are told to go at the next look: it has no gang any more.
            entry.outcome = Some((gang.fence, GangEvent::Stopped(entry.steps), None));
            entry.sent_shows();
        }
        Ok(())
    }

    fn sync_jobs(&mut self, now: Time, live: &[LiveJob]) -> Result<Vec<JobMeter>, EngineError> {
        self.look_anew(now)?;
        live.iter().for_each(|job| self.admit(job));
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
        self.look(now)?;
        self.admit(job);
        self.follow(job.spec.id)
    }

    fn remove_job(&mut self, now: Time, job: JobId) -> Result<Option<JobMeter>, EngineError> {
        self.look(now)?;
        let before =
            self.past.get(&job).filter(|past| past.gpu_seconds > 0.0 || past.outcome.is_some()).map(Entry::meter);
        Ok(self.forget(job)?.or(before))
    }

    fn apply(&mut self, now: Time, order: &Order) -> Result<OrderReply, EngineError> {
        self.look(now)?;
        match order {
            Order::Start(start) => self.start(start),
            Order::Stop { job, fence } => {
                Ok(self.stop(*job, *fence)?.map_or(OrderReply::Pending, OrderReply::Reported))
            }
        }
    }

    fn poll(&mut self, now: Time) -> Result<Vec<GangReport>, EngineError> {
        if self.is_due() {
            self.look(now)?;
            self.follow_all(now)?;
        }
        self.count(now);
        Ok(std::mem::take(&mut self.news))
    }

    fn survey(&mut self, now: Time, asked_at: Time) -> Result<EngineReport, EngineError> {
        self.look_anew(now)?;
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
