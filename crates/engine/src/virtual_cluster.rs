//! The virtual cluster as an engine: what a daemon drives when there are no machines, or none yet.
//!
//! [`Virtual`] is a [`World`] behind the trait of real engines, in this process; [`serve`] puts it into another and [`Remote`] is the
//! way there. Time is what it is told and never goes back:
//! whatever is due happens first, at its own moment, and then what was asked for. It never looks at a clock.
//!
//! What it keeps so that a driver may be killed anywhere and ask again:
//!
//! - A job that was forgotten stays in `past` for a long while. Being dismissed twice is being dismissed once (the second answer
//!   is the first), and a job that comes back goes on where it was: its counters only grow, its old fences stay closed.
//! - So do the fences of jobs that were never enrolled and got orders nevertheless: what was refused or stopped stays so.
//! - How a gang ended is told again to whoever orders it to stop again: the first answer may have died with the driver, and one
//!   that hears "stopped" of a finished gang would run the job a second time.
//!
//! Programs are played by a workload ([`arles_sim::world`] says which); their exit codes are in the reports.
//!
//! The books are closed before every look, so that at each sighting, over all jobs ever (those forgotten with their last meters),
//!
//! Σ charges = Σ over kinds of used energy, to rounding.

use crate::log::{LogEvent, LogLine};
use arles_core::engine::{Engine, EngineError, EngineReport, JobMeter, LiveJob, Meters, OrderReply};
use arles_core::scheduler::{Fence, GangEvent, GangReport, Order, Survey};
use arles_core::{Cluster, JobId, NodeId, Time};
use arles_sim::measure::{Noise, Sampler};
use arles_sim::truth::Truth;
use arles_sim::world::{SimJob, World, WorldOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Forgotten jobs that are remembered; those with the smallest numbers are the first to be lost.
const REMEMBERED: usize = 16_384;

/// What is still known of a job that is not enrolled.
struct Past {
    /// No gang up to this one may start.
    fence: Fence,
    /// What it was, if it ever was.
    life: Option<SimJob>,
}

/// A virtual cluster that obeys.
pub struct Virtual {
    world: World,
    sampler: Sampler,
    boot: u64,
    /// The latest time it was told, once it was told any.
    now: Option<Time>,
    /// What happened by itself and nobody has asked about yet.
    news: Vec<GangReport>,
    /// Jobs that held GPUs at the last look, or got some since.
    held: BTreeSet<JobId>,
    last_look: Time,
    past: BTreeMap<JobId, Past>,
    /// What was done, for whoever keeps a log; nothing is kept for nobody.
    pub(crate) deeds: Option<Vec<LogLine>>,
}

impl Virtual {
    /// An empty cluster with all nodes up. Its time begins with the first call. `boot` must be another number than that of
    /// any world whose counters somebody may remember.
    #[must_use]
    pub fn new(cluster: Cluster, truth: Arc<Truth>, world_options: WorldOptions, noise: Noise, boot: u64) -> Self {
        Self {
            world: World::new(cluster, truth, world_options),
            sampler: Sampler::new(noise),
            boot,
            now: None,
            news: Vec::new(),
            held: BTreeSet::new(),
            last_look: Time::ZERO,
            past: BTreeMap::new(),
            deeds: None,
        }
    }

    /// The world itself, to look at.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// A node goes down: its gangs are gone, with what they had not saved. Nobody reports it; a survey shows it.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn fail_node(&mut self, now: Time, node: NodeId) -> Result<(), EngineError> {
        let now = self.pass(now);
        self.check_node(node)?;
        let held = self.gangs();
        self.world.fail_node(now, node);
        self.log_gone(now, held, &format!("{node} went down"));
        Ok(())
    }

    /// Gangs that run.
    fn gangs(&self) -> Vec<(JobId, Fence)> {
        let gang = |job| self.world.held(job).map(|(fence, _)| (job, fence));
        self.world.holders().filter_map(gang).collect()
    }

    /// Logs which of `held` no longer run.
    fn log_gone(&mut self, now: Time, held: Vec<(JobId, Fence)>, why: &str) {
        for (job, fence) in held {
            let runs = self.world.held(job).is_some_and(|(of, _)| of == fence);
            if let Some(life) = self.world.life(job).filter(|_| !runs) {
                let event = GangEvent::Failed(life.steps, why.to_owned());
                self.deed(now, || LogEvent::Ended(GangReport::new(job, fence, event)));
            }
        }
    }

    /// A node comes back, empty.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn restore_node(&mut self, now: Time, node: NodeId) -> Result<(), EngineError> {
        let now = self.pass(now);
        self.check_node(node)?;
        self.world.restore_node(now, node);
        Ok(())
    }

    fn check_node(&self, node: NodeId) -> Result<(), EngineError> {
        let nodes = self.world.cluster().nodes().len();
        if node.index() < nodes {
            return Ok(());
        }
        Err(EngineError(format!("there is no {node} here; the last of this cluster's {nodes} nodes is {}", nodes - 1)))
    }

    /// Lets happen what is due; returns the time it is.
    pub(crate) fn pass(&mut self, now: Time) -> Time {
        let Some(before) = self.now else {
            self.world.begin(now);
            self.last_look = now;
            self.now = Some(now);
            return now;
        };
        let now = now.max(before);
        self.now = Some(now);
        while let Some(due) = self.world.next_event().filter(|&due| due <= now) {
            // One moment at a time, so that what happened is told with its own.
            while let Some(report) = self.world.advance(due) {
                self.deed(due, || LogEvent::Ended(report.clone()));
                self.news.push(report);
            }
        }
        now
    }

    fn deed(&mut self, at: Time, what: impl FnOnce() -> LogEvent) {
        if let Some(deeds) = &mut self.deeds {
            deeds.push(LogLine { at, deed: what() });
        }
    }

    /// Puts a job into the past; `now` is the time it is.
    fn forget(&mut self, now: Time, job: JobId) -> Option<JobMeter> {
        let ends = self.world.held(job).map(|(fence, _)| fence);
        let life = self.world.forget(now, job)?;
        if let Some(fence) = ends {
            let event = GangEvent::Stopped(life.steps);
            self.deed(now, || LogEvent::Ended(GangReport::new(job, fence, event)));
        }
        let meter = life.meter(now);
        self.remember(job, Past { fence: life.fence(), life: Some(life) });
        Some(meter)
    }

    fn remember(&mut self, job: JobId, past: Past) {
        self.past.insert(job, past);
        if self.past.len() > REMEMBERED {
            self.past.pop_first();
        }
    }

    fn admit(&mut self, job: &LiveJob) {
        let id = job.spec.id;
        if self.world.life(id).is_some() {
            return;
        }
        match self.past.remove(&id) {
            Some(Past { life: Some(life), .. }) => self.world.readmit(life),
            Some(Past { fence, life: None }) => self.world.admit_with(job.spec.clone(), job.steps_done, fence),
            None => self.world.admit_with(job.spec.clone(), job.steps_done, Fence(0)),
        }
    }

    /// An order about a job that is not enrolled: it cannot be done, and must not be done when the job comes after all.
    fn stranger(&mut self, order: &Order) -> OrderReply {
        let (job, fence) = match order {
            Order::Start(start) => (start.job, start.fence),
            Order::Stop { job, fence } => (*job, *fence),
        };
        let past = self.past.remove(&job).unwrap_or(Past { fence, life: None });
        let steps = past.life.as_ref().map_or(0.0, |life| life.steps);
        let outcome = past.life.as_ref().and_then(|life| life.outcome_of(fence));
        let barred = past.fence.max(fence);
        let life = past.life.map(|life| life.barred_to(barred));
        self.remember(job, Past { fence: barred, life });
        match order {
            Order::Start(_) => {
                OrderReply::Refused(format!("job {} is not enrolled here; enrol it before its orders", job.0))
            }
            Order::Stop { .. } => {
                let stopped = || GangReport::new(job, fence, GangEvent::Stopped(steps));
                OrderReply::Reported(outcome.unwrap_or_else(stopped))
            }
        }
    }
}

impl Engine for Virtual {
    fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<(), EngineError> {
        let now = self.pass(now);
        if self.world.cluster() == cluster {
            return Ok(());
        }
        let mut held = self.gangs();
        let told = self.world.set_cluster(now, cluster).map_err(EngineError)?;
        held.retain(|(_, fence)| told.iter().all(|report| report.fence != *fence));
        for report in told {
            self.deed(now, || LogEvent::Ended(report.clone()));
            self.news.push(report);
        }
        self.log_gone(now, held, "its node has left, or its nodes are of different kinds");
        Ok(())
    }

    fn sync_jobs(&mut self, now: Time, live: &[LiveJob]) -> Result<Vec<JobMeter>, EngineError> {
        let now = self.pass(now);
        let named: BTreeSet<JobId> = live.iter().map(|job| job.spec.id).collect();
        let over: Vec<JobId> = self.world.lives().map(|life| life.spec.id).filter(|id| !named.contains(id)).collect();
        let meters = over.into_iter().filter_map(|job| self.forget(now, job)).collect();
        live.iter().for_each(|job| self.admit(job));
        // Whoever is in doubt may have missed a look: the next one shows everybody who ever held something.
        self.held.extend(self.world.lives().filter(|life| life.gpu_seconds > 0.0).map(|life| life.spec.id));
        Ok(meters)
    }

    fn add_job(&mut self, now: Time, job: &LiveJob) -> Result<(), EngineError> {
        self.pass(now);
        self.admit(job);
        Ok(())
    }

    fn remove_job(&mut self, now: Time, job: JobId) -> Result<Option<JobMeter>, EngineError> {
        let now = self.pass(now);
        let before = |engine: &Self| engine.past.get(&job)?.life.as_ref().map(|life| life.meter(now));
        Ok(self.forget(now, job).or_else(|| before(self)))
    }

    fn apply(&mut self, now: Time, order: &Order) -> Result<OrderReply, EngineError> {
        let now = self.pass(now);
        let (Order::Start(arles_core::scheduler::Start { job, .. }) | Order::Stop { job, .. }) = order;
        let (job, before) = (*job, self.world.held(*job).map(|(fence, _)| fence));
        let told = match self.world.life(job) {
            None => self.stranger(order),
            Some(_) => match self.world.apply(now, order) {
                Ok(Some(report)) => OrderReply::Reported(report),
                Ok(None) => OrderReply::Pending,
                Err(why) => OrderReply::Refused(why),
            },
        };
        if matches!(order, Order::Start(_)) && self.world.held(job).is_some() {
            self.held.insert(job);
        }
        self.deed(now, || match &told {
            OrderReply::Refused(why) => LogEvent::Refused(order.clone(), why.clone()),
            _ => LogEvent::Done(order.clone()),
        });
        if let (OrderReply::Reported(report), Some(_), None) = (&told, before, self.world.held(job)) {
            self.deed(now, || LogEvent::Ended(report.clone()));
        }
        Ok(told)
    }

    fn poll(&mut self, now: Time) -> Result<Vec<GangReport>, EngineError> {
        self.pass(now);
        Ok(std::mem::take(&mut self.news))
    }

    fn next_event(&self) -> Option<Time> {
        self.world.next_event()
    }

    fn survey(&mut self, now: Time, asked_at: Time) -> Result<EngineReport, EngineError> {
        let now = self.pass(now);
        self.world.close_books(now);
        let survey = Survey { at: asked_at, ..self.world.survey(now, |_| true) };
        let holders: BTreeSet<JobId> = self.world.holders().collect();
        let shown = std::mem::replace(&mut self.held, holders);
        let jobs = shown.union(&self.held).filter_map(|&job| self.world.job_meter(now, job)).collect();
        let kinds = self.world.kind_meters().collect();
        let meters = Meters { boot: self.boot, jobs, kinds, gpu_watts: self.world.gpu_watts(now) };
        let half = Time(self.last_look.0 + (now.0 - self.last_look.0) / 2);
        // Two looks at one moment have nothing between them to measure.
        let observations = if now > self.last_look { self.sampler.look(now, half, &self.world) } else { Vec::new() };
        self.last_look = now;
        Ok(EngineReport { survey, meters, observations, inventory: None, lost_gpus: None })
    }
}
