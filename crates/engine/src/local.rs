//! One machine and its GPUs: gangs are processes here.
//!
//! A small lab's box with mixed cards and no Slurm, or a laptop whose GPUs are only declared. The scheduler's cluster is this machine: each of
//! its nodes is a kind of GPU in it, and GPU number i of a node is the i-th device of that node in the list of devices.
//!
//! - A program is started with the GPUs it may use in `CUDA_VISIBLE_DEVICES`, under a shim that keeps its output and writes down how it ended
//!   ([`process`], [`shim`]), in a control group where this process may make one ([`cgroup`]).
//! - A stop is SIGTERM to everything that it started, and SIGKILL when the grace period is over. A program that is stopped this way has not
//!   finished, whatever code it ends with: it may have saved its state and left with 0.
//! - Steps come from the file that the program may write; what its code reports to the daemon goes another way.
//! - One engine at a time has the folder, by a lock that ends with its process. Another on the same folder waits, and looks at what is there once it has it.
//! - What was started is on disk before anybody is told, so an engine that is opened on the same folder goes on where the last one was.
//!
//! Must never: signal a process that it did not start, start two programs of one job, or give a GPU to two jobs that may not share it.

mod account;
mod alone;
mod cgroup;
mod launch;
mod meter;
mod mig;
mod mps;
mod nvidia;
mod output;
mod power_limit;
mod process;
mod processors;
mod shim;
mod tree;
mod tuning;

pub use meter::{DeviceUser, GpuMeter, GpuReading, GpuTrouble, Nominal, Recorded, RecordedReading};
pub use mig::{MigLayout, Slices, unmake_left_over};
pub use mps::Sharing;
pub use nvidia::{Card, CardUser, Inventory, Nvidia, PartOf};
pub use output::OutputLimits;
pub use power_limit::{PowerLimit, put_back_left_over};
pub use processors::{THREADS_VARIABLE, threads_each};
pub use shim::{SHIM_VARIABLE, shim};
pub use tuning::{CardLimits, PowerLimiter};

use crate::order;
use alone::Alone;
use arles_core::engine::{
    Engine, EngineError, EngineReport, JobMeter, JobOutput, KindMeter, LiveJob, LostGpu, Mandate, Meters, OrderReply,
};
use arles_core::estimate::{Observation, RateQuery};
use arles_core::meter::Charge;
use arles_core::scheduler::{
    Fence, GangEvent, GangReport, GangState, ObservedGang, ObservedNode, Order, Start, Survey,
};
use arles_core::{Cluster, GpuId, JobId, Time};
use cgroup::Cgroups;
use mps::Mps;
use output::KeptOutput;
use process::{End, Process, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use tuning::Tuning;

/// Exit code of a program that was asked to make room and did.
const PREEMPTED: i32 = 85;
/// Jobs that are over and still remembered, so that what is asked twice is answered twice.
const REMEMBERED: usize = 16_384;
/// What workloads draw by themselves, in the folder for records.
const ALONE_FILE: &str = "alone.json";
/// Time between two looks at how much output is kept.
const PRUNE_SECONDS: f64 = 60.0;
/// Least time between two readings of all meters, unless a gang comes or goes: a card's counter takes 4 ms to answer, and misses nothing.
const COUNT_SECONDS: f64 = 1.0;

/// Where a local engine keeps things, and how patient it is.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Folder for records of what was started.
    pub state: PathBuf,
    /// Folder for the output of programs that do not name their own files.
    pub logs: PathBuf,
    /// How much of their output is kept.
    pub output: OutputLimits,
    /// The words that run [`shim`] in a process of its own.
    pub shim: Vec<String>,
    /// How two programs share a GPU.
    pub sharing: Sharing,
    /// Whether control groups are used where they can be.
    pub control_groups: bool,
    /// Seconds between SIGTERM and SIGKILL.
    pub grace_seconds: f64,
    /// Names of a node's devices, by its name, as `CUDA_VISIBLE_DEVICES` takes them; others are numbered.
    pub devices: BTreeMap<String, Vec<String>>,
    /// Told to every program on top of its own environment: where the daemon listens, say.
    pub environment: BTreeMap<String, String>,
    /// Another number whenever counters begin anew.
    pub boot: u64,
}

/// A gang whose program was started.
struct Gang {
    process: Process,
    /// When it is killed, once it was told to stop.
    kill_at: Option<Time>,
    ended: Option<(GangState, Option<i32>)>,
    /// The count that the next rate is measured from, when the program wrote it, and when it was read.
    counted: Option<(f64, SystemTime, Time)>,
    /// Since when neither it nor a partner has come or gone.
    undisturbed: Time,
}

/// A job, live or remembered.
struct LocalJob {
    live: LiveJob,
    gang: Option<Gang>,
    /// No gang up to this one may start.
    fence: Fence,
    outcome: Option<(Fence, GangEvent, Option<i32>)>,
    charge: Charge,
    gpu_seconds: f64,
    steps: f64,
    rate: f64,
}

impl LocalJob {
    fn new(live: LiveJob) -> Self {
        let steps = live.steps_done.max(0.0);
        Self {
            live,
            gang: None,
            fence: Fence(0),
            outcome: None,
            charge: Charge::default(),
            gpu_seconds: 0.0,
            steps,
            rate: 0.0,
        }
    }

    fn running(&self) -> Option<&Gang> {
        self.gang.as_ref().filter(|gang| gang.ended.is_none())
    }

    /// What a gang came to, as it was told the first time.
    fn outcome_of(&self, fence: Fence) -> GangReport {
        let known = self.outcome.as_ref().filter(|(of, ..)| *of == fence);
        let (event, exit_code) =
            known.map_or((GangEvent::Stopped(self.steps), None), |(_, event, code)| (event.clone(), *code));
        GangReport { exit_code, ..GangReport::new(self.live.spec.id, fence, event) }
    }

    fn meter(&self) -> JobMeter {
        JobMeter {
            job: self.live.spec.id,
            charge: self.charge,
            gpu_seconds: self.gpu_seconds,
            steps: self.steps,
            rate: if self.running().is_some() { self.rate } else { 0.0 },
        }
    }
}

/// This machine as an engine.
pub struct Local {
    options: LocalOptions,
    /// Held as long as this engine may act.
    lock: Option<File>,
    cluster: Cluster,
    cgroups: Cgroups,
    /// Names of devices by GPU number.
    devices: Vec<String>,
    /// Why a GPU cannot be used, by number.
    lost: BTreeMap<u32, String>,
    /// What workloads draw by themselves.
    alone: Alone,
    /// When old output was last looked for.
    pruned: Time,
    meter: Box<dyn GpuMeter>,
    tuning: Tuning,
    jobs: BTreeMap<JobId, LocalJob>,
    /// Jobs that are over, and jobs that were never made known and got orders nevertheless.
    past: BTreeMap<JobId, LocalJob>,
    barred: BTreeMap<JobId, Fence>,
    kinds: Vec<KindMeter>,
    watts: Vec<f32>,
    counters: Vec<Option<f64>>,
    /// Until when energy and service are counted.
    settled: Option<Time>,
    /// The latest time that was told.
    seen: Time,
    news: Vec<GangReport>,
    /// Jobs that held GPUs since the last look.
    shown: BTreeSet<JobId>,
}

impl Local {
    /// Takes hold of this machine, and of what an earlier engine with the same folder left running.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open(cluster: Cluster, mut options: LocalOptions, meter: Box<dyn GpuMeter>) -> Result<Self, EngineError> {
        let folder = options.state.display().to_string();
        let cannot =
            |error: std::io::Error| EngineError(format!("cannot use the folder {folder}: {error}; choose another"));
        std::fs::create_dir_all(&options.state).map_err(cannot)?;
        // Programs run in folders of their own, where a relative path would mean something else.
        options.state = std::path::absolute(&options.state).map_err(cannot)?;
        options.logs = std::path::absolute(&options.logs).map_err(cannot)?;
        let mut local = Self {
            kinds: vec![KindMeter::default(); cluster.kinds().len()],
            watts: vec![0.0; cluster.gpus()],
            counters: vec![None; cluster.gpus()],
            devices: devices(&cluster, &options),
            cgroups: match options.control_groups {
                true => Cgroups::find(),
                false => Cgroups::None("the configuration says so".into()),
            },
            lost: BTreeMap::new(),
            alone: Alone::default(),
            pruned: Time::ZERO,
            cluster,
            meter,
            tuning: Tuning::new(None),
            jobs: BTreeMap::new(),
            past: BTreeMap::new(),
            barred: BTreeMap::new(),
            settled: None,
            seen: Time::ZERO,
            news: Vec::new(),
            shown: BTreeSet::new(),
            options,
            lock: None,
        };
        // Whoever does not have the folder yet is told so at every call.
        let _ = local.hold();
        Ok(local)
    }

    /// The same with GPUs whose power limits can be set: gangs run in modes.
    #[must_use]
    pub fn with_limiter(mut self, limiter: Box<dyn PowerLimiter>) -> Self {
        self.tuning = Tuning::new(Some(limiter));
        self
    }

    /// Takes the folder, if it is free, and what an earlier engine left there.
    fn hold(&mut self) -> Result<(), EngineError> {
        if self.lock.is_some() {
            return Ok(());
        }
        let folder = self.options.state.display().to_string();
        let cannot =
            |error: std::io::Error| EngineError(format!("cannot use the folder {folder}: {error}; choose another"));
        let lock = File::create(self.options.state.join("lock")).map_err(cannot)?;
        lock.try_lock().map_err(|_| {
            EngineError(format!("another daemon runs programs from {folder}; stop it, or wait until it has ended"))
        })?;
        self.adopt().map_err(cannot)?;
        self.alone = Alone::load(&self.options.state.join(ALONE_FILE));
        self.lock = Some(lock);
        Ok(())
    }

    /// Whether energy is measured, or nominal because no device has a meter.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.meter.measures()
    }

    /// How far jobs are kept apart from each other, for the log.
    #[must_use]
    pub fn isolation(&self) -> String {
        self.cgroups.remark()
    }

    /// Finds what was started earlier. Its jobs are made known again by the driver; until then they are remembered.
    fn adopt(&mut self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.options.state)?.flatten() {
            let Some(process) = Process::adopt(entry.path()) else { continue };
            let Record { job, fence, started, .. } = process.record;
            let spec = arles_core::JobSpec { id: job, ..arles_core::JobSpec::default() };
            let known = self.past.entry(job).or_insert_with(|| LocalJob::new(LiveJob { spec, steps_done: 0.0 }));
            if known.fence < fence {
                known.fence = fence;
                known.steps = process.steps().map_or(known.steps, |(steps, _)| steps);
                known.gang = Some(Gang { process, kill_at: None, ended: None, counted: None, undisturbed: started });
            }
        }
        self.sweep_groups();
        Ok(())
    }

    /// Counts energy and service now and then, and notices what has ended.
    fn pass(&mut self, now: Time) -> Time {
        let now = self.seen.max(now);
        self.seen = now;
        if self.settled.is_none_or(|settled| now.since(settled) >= COUNT_SECONDS) {
            self.count(now);
        }
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.look_after(now, job);
        }
        self.tune();
        now
    }

    /// Reads a job's steps, kills what was told to stop and did not, and notices an end.
    fn look_after(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(gang) = job.gang.as_mut().filter(|gang| gang.ended.is_none()) else { return };
        // Its end first: what it said last may have come between two looks.
        let end = gang.process.end();
        if let Some((steps, at)) = gang.process.steps() {
            job.steps = job.steps.max(steps);
            gang.counted.get_or_insert((steps, at, now));
        }
        let Some(end) = end else {
            if gang.kill_at.is_some_and(|at| now >= at) {
                gang.process.kill();
            }
            return;
        };
        // What it held until now is its own.
        self.count(now);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(gang) = job.gang.as_mut() else { return };
        let stopping = gang.kill_at.is_some();
        let (state, code) = match end {
            End::Code(0) if !stopping => (GangState::Finished, Some(0)),
            End::Code(code) => (GangState::Failed(in_words(code)), Some(code)),
            End::OutOfMemory => (GangState::Failed("out of memory: it used more than it asked for".into()), Some(137)),
            End::Vanished => (GangState::Failed("it ended without leaving an exit code".into()), None),
            End::Interrupted => (GangState::Failed("it was interrupted".into()), None),
        };
        let fence = gang.process.record.fence;
        let event = match &state {
            // Whoever was told to stop has stopped, with whatever code.
            _ if stopping || end == End::Interrupted => GangEvent::Stopped(job.steps),
            GangState::Finished => GangEvent::Finished,
            // It made room by itself: nothing of it has failed.
            GangState::Failed(_) if code == Some(PREEMPTED) => GangEvent::Stopped(job.steps),
            GangState::Failed(why) => GangEvent::Failed(job.steps, why.clone()),
            GangState::Running => return,
        };
        // Whoever was told to stop did not end by itself: its code says nothing.
        let code = code.filter(|_| !stopping);
        job.outcome = Some((fence, event.clone(), code));
        if matches!(event, GangEvent::Stopped(_)) {
            gang.process.forget();
            job.gang = None;
        } else {
            gang.ended = Some((state, code));
        }
        self.news.push(GangReport { exit_code: code, ..GangReport::new(id, fence, event) });
    }

    /// Why a gang cannot be started.
    fn why_not(&self, start: &Start) -> Option<String> {
        let (job, live) = (start.job.0, &self.jobs[&start.job].live);
        let submit = "this engine runs programs: submit one with 'arles submit -- COMMAND'";
        if let Some(why) = order::nonsense(start, live, &self.cluster, submit) {
            return Some(why);
        }
        for &gpu in &start.gpus {
            let mut others = self.holders(gpu).filter(|other| *other != start.job);
            let Some(other) = others.next() else { continue };
            let alone = others.next().is_none();
            let both_single = start.gpus.len() == 1 && self.gpus_of(other) == 1;
            if !(alone && both_single && self.cluster.kind(start.kind).max_jobs >= 2) {
                return Some(format!("job {job} cannot run beside job {} on {gpu}", other.0));
            }
            let (needed, memory) = (
                live.spec.needs.gpu_memory_gib + self.jobs[&other].live.spec.needs.gpu_memory_gib,
                self.cluster.kind(start.kind).memory_gib,
            );
            if needed > memory {
                let other = other.0;
                return Some(format!(
                    "job {job} and job {other} need {needed} GiB of device memory together, and {gpu} has {memory} GiB"
                ));
            }
        }
        None
    }

    /// GPUs that a job's gang holds now.
    fn gpus_of(&self, job: JobId) -> usize {
        self.jobs[&job].running().map_or(0, |gang| gang.process.record.gpus.len())
    }

    fn holders(&self, gpu: GpuId) -> impl Iterator<Item = JobId> + '_ {
        let holds = move |job: &LocalJob| job.running().is_some_and(|gang| gang.process.record.gpus.contains(&gpu));
        self.jobs.iter().filter(move |(_, job)| holds(job)).map(|(&id, _)| id)
    }

    fn start(&mut self, now: Time, start: &Start) -> Result<Option<GangReport>, String> {
        let Some(job) = self.jobs.get_mut(&start.job) else {
            let fence = self.barred.entry(start.job).or_insert(start.fence);
            *fence = (*fence).max(start.fence);
            return Err(format!("job {} is not known here; make it known before its orders", start.job.0));
        };
        if job.running().is_some_and(|gang| gang.process.record.fence == start.fence) {
            self.retune(now, start);
            return Ok(Some(GangReport::new(start.job, start.fence, GangEvent::Started)));
        }
        // It ran and has ended, perhaps before anybody was told that it began. Whoever heard a refusal would start it a second time.
        if job.gang.as_ref().is_some_and(|gang| gang.ended.is_some() && gang.process.record.fence == start.fence) {
            return Ok(Some(job.outcome_of(start.fence)));
        }
        if start.fence <= job.fence {
            return Err(format!("gang {} of job {} was stopped, refused or followed", start.fence.0, start.job.0));
        }
        // Whatever is said from here on is final: a copy of this order that comes later must not be done.
        job.fence = start.fence;
        if job.running().is_some() {
            return Err(format!("job {} has another gang here", start.job.0));
        }
        if let Some(gang) = job.gang.take() {
            gang.process.forget();
        }
        if let Some(why) = self.why_not(start) {
            return Err(why);
        }
        self.count(now);
        let process = self.launch(now, start)?;
        self.disturb(now, &start.gpus);
        let job = self.jobs.get_mut(&start.job).expect("looked at before");
        job.rate = 0.0;
        job.gang = Some(Gang { process, kill_at: None, ended: None, counted: None, undisturbed: now });
        self.shown.insert(start.job);
        self.tune();
        Ok(Some(GangReport::new(start.job, start.fence, GangEvent::Started)))
    }

    /// A gang that runs goes on in another mode of its kind.
    fn retune(&mut self, now: Time, start: &Start) {
        let Some(gang) = self.jobs.get_mut(&start.job).and_then(|job| job.gang.as_mut()) else { return };
        let record = &gang.process.record;
        let mode = start.kind.index() < self.cluster.kinds().len()
            && self.cluster.sold_as(start.kind) == self.cluster.sold_as(record.kind);
        // Where it cannot be noted it stays in the mode that it is in: the next engine would not know.
        if !mode || record.kind == start.kind || gang.process.runs_as(start.kind).is_err() {
            return;
        }
        self.count(now);
        self.disturb(now, &start.gpus);
        self.tune();
    }

    /// Whoever runs on these GPUs is measured anew from here on.
    fn disturb(&mut self, now: Time, gpus: &[GpuId]) {
        for &gpu in gpus {
            let holders: Vec<JobId> = self.holders(gpu).collect();
            for holder in holders {
                if let Some(gang) = self.jobs.get_mut(&holder).and_then(|job| job.gang.as_mut()) {
                    gang.undisturbed = now;
                }
            }
        }
    }

    fn stop(&mut self, now: Time, id: JobId, fence: Fence) -> Option<GangReport> {
        let (grace, past) = (self.options.grace_seconds, &self.past);
        let Some(job) = self.jobs.get_mut(&id) else {
            let barred = self.barred.entry(id).or_insert(fence);
            *barred = (*barred).max(fence);
            let known = past.get(&id);
            return Some(
                known.map_or_else(|| GangReport::new(id, fence, GangEvent::Stopped(0.0)), |job| job.outcome_of(fence)),
            );
        };
        job.fence = job.fence.max(fence);
        match job.gang.as_mut().filter(|gang| gang.process.record.fence == fence) {
            Some(gang) if gang.ended.is_some() => {
                gang.process.forget();
                job.gang = None;
            }
            Some(gang) => {
                if gang.kill_at.is_none() {
                    gang.kill_at = Some(now.after(grace));
                    gang.process.terminate();
                }
                return None;
            }
            None => {}
        }
        Some(job.outcome_of(fence))
    }

    /// Ends a gang at once: its node has left.
    fn cut_off(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(gang) = job.gang.take() else { return };
        gang.process.kill();
        gang.process.forget();
        job.outcome = Some((gang.process.record.fence, GangEvent::Stopped(job.steps), None));
    }

    fn admit(&mut self, live: &LiveJob) {
        let id = live.spec.id;
        if self.jobs.contains_key(&id) {
            return;
        }
        let mut job = self.past.remove(&id).unwrap_or_else(|| LocalJob::new(live.clone()));
        job.steps = job.steps.max(live.steps_done);
        job.live = live.clone();
        job.fence = job.fence.max(self.barred.remove(&id).unwrap_or(Fence(0)));
        self.jobs.insert(id, job);
    }

    /// Ends what a job still runs and puts it into the past.
    fn forget(&mut self, id: JobId) -> Option<JobMeter> {
        let mut job = self.jobs.remove(&id)?;
        if let Some(gang) = job.gang.take() {
            gang.process.kill();
            gang.process.forget();
        }
        let meter = job.meter();
        self.past.insert(id, job);
        if self.past.len() > REMEMBERED {
            self.past.pop_first();
        }
        Some(meter)
    }

    /// Control groups of gangs that were killed and forgotten at once: they could not be removed while something in them was still ending.
    fn sweep_groups(&self) {
        let gangs = self.jobs.values().chain(self.past.values()).filter_map(|job| job.gang.as_ref());
        let records = gangs.map(|gang| &gang.process.record);
        let owned = records.map(|record| self.group_name(record.job, record.fence)).collect();
        self.cgroups.sweep(&self.group_prefix(), &owned);
    }

    /// Makes room for new output, and removes groups that nobody needs, now and then.
    fn prune_output(&mut self, now: Time) {
        if self.pruned == Time::ZERO || now.since(self.pruned) >= PRUNE_SECONDS {
            self.pruned = now;
            self.sweep_groups();
            output::prune(&self.options.logs, self.options.output.all_bytes, |job| self.jobs.contains_key(&job));
        }
    }

    /// Rates of programs whose count moved since the last look, between the moments at which they wrote it.
    fn observe(&mut self, now: Time) -> Vec<Observation> {
        let mut found = Vec::new();
        let partners: BTreeMap<JobId, Option<JobId>> = self
            .jobs
            .iter()
            .filter_map(|(&id, job)| Some((id, job.running()?.process.record.gpus.first().copied()?)))
            .map(|(id, gpu)| (id, self.holders(gpu).find(|other| *other != id)))
            .collect();
        let modes: BTreeMap<JobId, _> = self
            .jobs
            .iter()
            .filter_map(|(&id, job)| Some((id, &job.running()?.process.record)))
            .filter_map(|(id, record)| Some((id, self.mode_in_force(record.kind, &record.gpus)?)))
            .collect();
        let workloads: BTreeMap<JobId, _> = self.jobs.iter().map(|(&id, job)| (id, job.live.spec.workload)).collect();
        for (&id, job) in &mut self.jobs {
            let Some(gang) = job.gang.as_mut().filter(|gang| gang.ended.is_none() && gang.kill_at.is_none()) else {
                continue;
            };
            let (Some((steps, at, read)), Some((reached, later))) = (gang.counted, gang.process.steps()) else {
                continue;
            };
            let seconds = later.duration_since(at).map_or(0.0, |span| span.as_secs_f64());
            if reached <= steps || seconds <= 0.0 {
                continue;
            }
            gang.counted = Some((reached, later, now));
            job.rate = (reached - steps) / seconds;
            let Some(&kind) = modes.get(&id).filter(|_| gang.undisturbed <= read) else { continue };
            let record = &gang.process.record;
            let partner = partners.get(&id).copied().flatten().and_then(|other| workloads.get(&other).copied());
            let ask = RateQuery { workload: job.live.spec.workload, gang: record.gpus.len() as u32, partner };
            let watts = record.gpus.iter().map(|gpu| f64::from(self.watts[gpu.index()])).sum::<f64>();
            found.push(Observation {
                ask,
                kind,
                spread: record.spread,
                rate: job.rate,
                watts: if self.meter.measures() { watts / record.gpus.len() as f64 } else { 0.0 },
                at: now,
                job: Some(id),
            });
        }
        found
    }
}

/// Names of devices by GPU number: those of nodes that were named, and numbers of the others.
fn devices(cluster: &Cluster, options: &LocalOptions) -> Vec<String> {
    let name = |(node, gpu): (&arles_core::Node, u32)| {
        let named = options.devices.get(&node.name).and_then(|devices| devices.get((gpu - node.first_gpu.0) as usize));
        named.cloned().unwrap_or_else(|| gpu.to_string())
    };
    cluster.nodes().iter().flat_map(|node| node.gpu_range().map(move |gpu| (node, gpu))).map(name).collect()
}

/// An exit code in words.
fn in_words(code: i32) -> String {
    match code {
        129..=159 => format!("exit code {code}: ended by signal {}", code - 128),
        127 => "exit code 127: command not found".into(),
        126 => "exit code 126: not executable".into(),
        code => format!("exit code {code}"),
    }
}

impl Drop for Local {
    /// What serves programs goes when none is left to be served; otherwise the next engine finds it.
    fn drop(&mut self) {
        let busy = |gpu: &GpuId| self.holders(*gpu).next().is_some();
        if self.options.sharing == Sharing::Mps && self.lock.is_some() {
            let idle = (0..self.cluster.gpus() as u32).map(GpuId).filter(|gpu| !busy(gpu)).map(|gpu| gpu.0);
            Mps::new(&self.group_prefix()).end(idle);
        }
    }
}

impl Engine for Local {
    fn lead(&mut self, _: &Mandate) -> Result<(), EngineError> {
        self.hold()
    }

    fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<(), EngineError> {
        self.hold()?;
        let now = self.pass(now);
        self.count(now);
        self.kinds.resize(cluster.kinds().len(), KindMeter::default());
        self.watts.resize(cluster.gpus(), 0.0);
        self.counters.resize(cluster.gpus(), None);
        self.devices = devices(cluster, &self.options);
        self.cluster = cluster.clone();
        let left = |gpu: &GpuId| self.cluster.node(self.cluster.node_of(*gpu)).removed;
        let gone = |job: &LocalJob| job.running().is_some_and(|gang| gang.process.record.gpus.iter().any(left));
        let gone: Vec<JobId> = self.jobs.iter().filter(|(_, job)| gone(job)).map(|(&id, _)| id).collect();
        gone.into_iter().for_each(|job| self.cut_off(job));
        for node in self.cluster.nodes().iter().filter(|node| node.removed) {
            node.gpu_range().for_each(|gpu| self.watts[gpu as usize] = 0.0);
        }
        Ok(())
    }

    fn sync_jobs(&mut self, now: Time, live: &[LiveJob]) -> Result<Vec<JobMeter>, EngineError> {
        self.hold()?;
        live.iter().for_each(|job| self.admit(job));
        let now = self.pass(now);
        self.count(now);
        let named: BTreeSet<JobId> = live.iter().map(|job| job.spec.id).collect();
        let over: Vec<JobId> = self.jobs.keys().copied().filter(|job| !named.contains(job)).collect();
        self.prune_output(now);
        let meters = over.into_iter().filter_map(|job| self.forget(job)).collect();
        // What an earlier engine left running of jobs that nobody knows any more.
        for job in self.past.values_mut() {
            if let Some(gang) = job.gang.take() {
                gang.process.kill();
                gang.process.forget();
            }
        }
        self.shown.extend(self.jobs.iter().filter(|(_, job)| job.gpu_seconds > 0.0).map(|(&id, _)| id));
        Ok(meters)
    }

    fn add_job(&mut self, now: Time, job: &LiveJob) -> Result<(), EngineError> {
        self.hold()?;
        self.pass(now);
        self.admit(job);
        Ok(())
    }

    fn remove_job(&mut self, now: Time, job: JobId) -> Result<Option<JobMeter>, EngineError> {
        self.hold()?;
        let now = self.pass(now);
        self.count(now);
        self.prune_output(now);
        let before =
            self.past.get(&job).filter(|past| past.gpu_seconds > 0.0 || past.outcome.is_some()).map(LocalJob::meter);
        Ok(self.forget(job).or(before))
    }

    fn apply(&mut self, now: Time, order: &Order) -> Result<OrderReply, EngineError> {
        self.hold()?;
        let now = self.pass(now);
        Ok(match order {
            Order::Start(start) => self.start(now, start).into(),
            Order::Stop { job, fence } => {
                self.stop(now, *job, *fence).map_or(OrderReply::Pending, OrderReply::Reported)
            }
        })
    }

    fn poll(&mut self, now: Time) -> Result<Vec<GangReport>, EngineError> {
        self.hold()?;
        self.pass(now);
        Ok(std::mem::take(&mut self.news))
    }

    fn survey(&mut self, now: Time, asked_at: Time) -> Result<EngineReport, EngineError> {
        self.hold()?;
        let now = self.pass(now);
        self.count(now);
        let nodes = self.cluster.present().map(|(node, _)| ObservedNode { node, up: true }).collect::<Vec<_>>();
        let gang = |(&job, known): (&JobId, &LocalJob)| {
            let gang = known.gang.as_ref()?;
            let record = &gang.process.record;
            Some(ObservedGang {
                job,
                fence: record.fence,
                gpus: record.gpus.clone(),
                steps_done: known.steps,
                state: gang.ended.as_ref().map_or(GangState::Running, |(state, _)| state.clone()),
            })
        };
        let gangs = self.jobs.iter().filter_map(gang).collect();
        let observations = self.observe(now);
        self.alone.save(&self.options.state.join(ALONE_FILE));
        let holders: BTreeSet<JobId> =
            self.jobs.iter().filter(|(_, job)| job.running().is_some()).map(|(&id, _)| id).collect();
        let before = std::mem::replace(&mut self.shown, holders);
        let meter = |id: &JobId| self.jobs.get(id).map(LocalJob::meter);
        let jobs = before.union(&self.shown).filter_map(meter).collect();
        let meters = Meters { boot: self.options.boot, jobs, kinds: self.kinds.clone(), gpu_watts: self.watts.clone() };
        let survey = Survey { at: asked_at, nodes, gangs };
        let lost = |(&gpu, why): (&u32, &String)| LostGpu { gpu: GpuId(gpu), why: why.clone() };
        let lost_gpus = Some(self.lost.iter().map(lost).collect());
        Ok(EngineReport { survey, meters, observations, inventory: None, lost_gpus })
    }

    fn output(&self) -> Option<Arc<dyn JobOutput>> {
        Some(Arc::new(KeptOutput { logs: self.options.logs.clone() }))
    }
}
