//! The engine worker: the thread that owns the engine.
//!
//! Tasks are done in the order they were sent. An engine that cannot be reached costs nothing but time: what it was sent is sent
//! again when it is back, and what became of orders shows in the next survey.

use super::look::Look;
use super::threads::{self, Thread};
use super::{Message, Shared};
use arles_core::engine::{Engine, EngineError, JobMeter, LiveJob, OrderReply};
use arles_core::scheduler::{GangReport, Order};
use arles_core::{Cluster, Input, JobId, Time};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// What the engine worker does.
pub(crate) enum EngineTask {
    /// Say what the cluster is, before anything that follows from it.
    SetCluster(Arc<Cluster>),
    /// Send the list of live jobs.
    SyncJobs(Vec<LiveJob>),
    /// Make a new job known, before its first order.
    AddJob(LiveJob),
    /// Remove a job that is over.
    RemoveJob(JobId),
    /// Say why a job's gang is about to be told to go.
    ExplainStop(JobId, String),
    /// Apply an order.
    Order(Order),
    /// Survey the cluster; the time is the scheduler's, as of the request.
    Survey(Time),
}

/// Longest pause between two polls.
const POLL_MAX: Duration = Duration::from_millis(50);
/// Shortest.
const POLL_MIN: Duration = Duration::from_millis(1);
/// Pause after the engine could not be reached.
const RETRY: Duration = Duration::from_millis(500);

pub(super) fn start(engine: Box<dyn Engine>, shared: Arc<Shared>) -> Sender<EngineTask> {
    let (sender, inbox) = mpsc::channel();
    let (inputs, removed) = (Vec::new(), Vec::new());
    let watched = Arc::clone(&shared);
    let mut worker = EngineWorker { engine, shared, cluster: None, inputs, removed, disconnected: false };
    threads::spawn(&watched, Thread::Engine, move || worker.run(&inbox));
    sender
}

struct EngineWorker {
    engine: Box<dyn Engine>,
    shared: Arc<Shared>,
    /// The cluster that the engine has not heard of yet.
    cluster: Option<Arc<Cluster>>,
    /// Replies to orders that are not yet sent to the loop.
    inputs: Vec<Input>,
    removed: Vec<(JobId, Option<JobMeter>)>,
    /// Whether the engine must be sent all jobs and orders again.
    disconnected: bool,
}

impl EngineWorker {
    fn run(&mut self, inbox: &Receiver<EngineTask>) {
        loop {
            let pause = self.pause();
            match inbox.recv_timeout(pause) {
                Ok(task) => {
                    let more = std::iter::from_fn(|| inbox.try_recv().ok());
                    std::iter::once(task).chain(more).for_each(|task| self.perform(task));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.poll();
            if self.send_replies().is_err() {
                return;
            }
        }
    }

    fn pause(&self) -> Duration {
        if self.disconnected {
            return RETRY;
        }
        let next = self.engine.next_event().map_or(POLL_MAX, |next| self.shared.clock.until(next));
        next.clamp(POLL_MIN, POLL_MAX)
    }

    /// One call of the engine, timed; whatever goes wrong with it is noted.
    fn call<T>(&mut self, call: impl FnOnce(&mut dyn Engine, Time) -> Result<T, EngineError>) -> Option<T> {
        let (now, began) = (self.shared.clock.now(), Instant::now());
        let answer = call(&mut *self.engine, now);
        let gauges = &self.shared.gauges;
        gauges.engine.add(began.elapsed());
        match answer {
            Ok(answer) => {
                gauges.engine_up.set(1);
                Some(answer)
            }
            Err(error) => {
                gauges.engine_up.set(0);
                gauges.engine_errors.add(1);
                if let Some(term) = self.shared.options.term.as_ref().filter(|_| self.engine.deposed()) {
                    term.lose();
                }
                if !std::mem::replace(&mut self.disconnected, true) {
                    tracing::warn!(%error, "the engine does not respond; retrying");
                }
                None
            }
        }
    }

    fn perform(&mut self, task: EngineTask) {
        match task {
            EngineTask::SetCluster(cluster) => {
                self.cluster = Some(cluster);
                // An engine that is away hears of it with the next sync of jobs.
                if !self.disconnected {
                    self.set_cluster();
                }
            }
            EngineTask::SyncJobs(live) => {
                if !self.set_cluster() {
                    return;
                }
                let live: Vec<LiveJob> = live.into_iter().map(|job| self.shared.job_tokens.given(job)).collect();
                if let Some(mut meters) = self.call(|engine, now| engine.sync_jobs(now, &live)) {
                    self.disconnected = false;
                    meters.retain(|meter| self.is_sound(meter));
                    let _ = self.shared.send(Message::JobsSynced(meters));
                }
            }
            // Whatever is not done now is part of the next sync of jobs.
            _ if self.disconnected => {}
            EngineTask::AddJob(job) => {
                let job = self.shared.job_tokens.given(job);
                self.call(|engine, now| engine.add_job(now, &job));
            }
            EngineTask::RemoveJob(job) => {
                if let Some(meter) = self.call(|engine, now| engine.remove_job(now, job)) {
                    let meter = meter.filter(|meter| self.is_sound(meter));
                    self.removed.push((job, meter));
                }
            }
            EngineTask::ExplainStop(job, why) => self.engine.explain_stop(job, &why),
            EngineTask::Order(order) => match self.call(|engine, now| engine.apply(now, &order)) {
                Some(OrderReply::Reported(report)) => self.take_report(report),
                Some(OrderReply::Refused(why)) => self.inputs.push(Input::Refused(order, why)),
                Some(OrderReply::Pending) | None => {}
            },
            EngineTask::Survey(asked_at) => {
                if let Some(report) = self.call(|engine, now| engine.survey(now, asked_at)) {
                    let cluster = Arc::clone(self.shared.book().cluster());
                    let (report, said) = report.mended(&cluster);
                    self.complain(&said);
                    // Replies to orders that were done before the look come before it.
                    let _ = self.send_replies();
                    let look = Look::new(report, &cluster, &self.shared.book());
                    let _ = self.shared.send(Message::Looked(Box::new(look)));
                }
            }
        }
    }

    /// Tells the engine of the cluster, if it does not know; whether it does now.
    fn set_cluster(&mut self) -> bool {
        let Some(cluster) = self.cluster.take() else { return true };
        let told = self.call(|engine, now| engine.set_cluster(now, &cluster)).is_some();
        if !told {
            self.cluster = Some(cluster);
        }
        told
    }

    fn poll(&mut self) {
        let was_disconnected = self.disconnected;
        let Some(reports) = self.call(|engine, now| engine.poll(now)) else { return };
        reports.into_iter().for_each(|report| self.take_report(report));
        if was_disconnected {
            tracing::info!("the engine responds again; sending it all live jobs and open orders");
            let _ = self.shared.send(Message::Reconnected);
        }
    }

    /// Takes in what happened to a gang.
    fn take_report(&mut self, report: GangReport) {
        let (report, said) = report.mended();
        self.complain(said.as_slice());
        self.inputs.push(Input::Reported(report));
    }

    fn is_sound(&self, meter: &JobMeter) -> bool {
        let sound = meter.is_sound();
        if !sound {
            self.complain(&[format!(
                "the last meter of {} shows {meter:?}; expected amounts: it is left out",
                meter.job
            )]);
        }
        sound
    }

    /// Logs what the engine said that cannot be: the first of one answer, and how many more.
    fn complain(&self, said: &[String]) {
        let Some(first) = said.first() else { return };
        self.shared.gauges.engine_nonsense.add(said.len() as u64);
        match said.len() - 1 {
            0 => tracing::warn!("{first}"),
            more => tracing::warn!("{first} (and {more} more like it)"),
        }
    }

    fn send_replies(&mut self) -> Result<(), crate::Refusal> {
        if !self.inputs.is_empty() {
            self.shared.send(Message::Inputs(std::mem::take(&mut self.inputs)))?;
        }
        if !self.removed.is_empty() {
            self.shared.send(Message::JobsRemoved(std::mem::take(&mut self.removed)))?;
        }
        Ok(())
    }
}
