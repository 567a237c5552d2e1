//! The engine worker: the thread that owns the engine.
//!
//! Deeds are done in the order they were sent. An engine that cannot be talked to costs nothing but time: what it was told is told
//! again when it is back, and what became of orders shows in the next survey.

use super::{Message, Shared};
use arles_core::engine::{Engine, EngineError, JobMeter, LiveJob, OrderReply};
use arles_core::scheduler::Order;
use arles_core::{Input, JobId, Time};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// What the engine worker does.
pub(crate) enum EngineTask {
    /// Say who lives.
    RollCall(Vec<LiveJob>),
    /// Make a job known.
    Enrol(LiveJob),
    /// Forget one.
    Dismiss(JobId),
    /// Do as ordered.
    Order(Order),
    /// Look at everything; the time is the scheduler's, as of the question.
    Survey(Time),
}

/// Longest pause between two questions for news.
const LISTEN: Duration = Duration::from_millis(50);
/// Shortest.
const BREATH: Duration = Duration::from_millis(1);
/// Pause after the engine could not be talked to.
const RETRY: Duration = Duration::from_millis(500);

pub(super) fn start(engine: Box<dyn Engine>, shared: Arc<Shared>) -> Sender<EngineTask> {
    let (sender, inbox) = mpsc::channel();
    let mut worker = EngineWorker { engine, shared, inputs: Vec::new(), dismissed: Vec::new(), lost: false };
    let run = move || worker.run(&inbox);
    std::thread::Builder::new().name("engine".into()).spawn(run).expect("a thread can be started");
    sender
}

struct EngineWorker {
    engine: Box<dyn Engine>,
    shared: Arc<Shared>,
    /// What has come of deeds and is not yet told.
    inputs: Vec<Input>,
    dismissed: Vec<(JobId, Option<JobMeter>)>,
    /// Whether the engine must be told everything anew.
    lost: bool,
}

impl EngineWorker {
    fn run(&mut self, inbox: &Receiver<EngineTask>) {
        loop {
            let pause = self.pause();
            match inbox.recv_timeout(pause) {
                Ok(deed) => {
                    let more = std::iter::from_fn(|| inbox.try_recv().ok());
                    std::iter::once(deed).chain(more).for_each(|deed| self.do_it(deed));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.listen();
            if self.tell().is_err() {
                return;
            }
        }
    }

    fn pause(&self) -> Duration {
        if self.lost {
            return RETRY;
        }
        let next = self.engine.next_event().map_or(LISTEN, |next| self.shared.clock.until(next));
        next.clamp(BREATH, LISTEN)
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
                if !std::mem::replace(&mut self.lost, true) {
                    tracing::warn!(%error, "the engine does not respond; retrying");
                }
                None
            }
        }
    }

    fn do_it(&mut self, deed: EngineTask) {
        match deed {
            EngineTask::RollCall(live) => {
                if let Some(meters) = self.call(|engine, now| engine.sync_jobs(now, &live)) {
                    self.lost = false;
                    let _ = self.shared.send(Message::RolledCall(meters));
                }
            }
            // Whatever is not done now is part of the next roll call.
            _ if self.lost => {}
            EngineTask::Enrol(job) => {
                self.call(|engine, now| engine.add_job(now, &job));
            }
            EngineTask::Dismiss(job) => {
                if let Some(meter) = self.call(|engine, now| engine.remove_job(now, job)) {
                    self.dismissed.push((job, meter));
                }
            }
            EngineTask::Order(order) => match self.call(|engine, now| engine.apply(now, &order)) {
                Some(OrderReply::Reported(report)) => self.inputs.push(Input::Reported(report)),
                Some(OrderReply::Refused(why)) => self.inputs.push(Input::Refused(order, why)),
                Some(OrderReply::Pending) | None => {}
            },
            EngineTask::Survey(asked_at) => {
                if let Some(report) = self.call(|engine, now| engine.survey(now, asked_at)) {
                    // Replies to orders that were done before the look come before it.
                    let _ = self.tell();
                    let _ = self.shared.send(Message::Sighted(Box::new(report)));
                }
            }
        }
    }

    fn listen(&mut self) {
        let was_lost = self.lost;
        let Some(reports) = self.call(|engine, now| engine.poll(now)) else { return };
        self.inputs.extend(reports.into_iter().map(Input::Reported));
        if was_lost {
            tracing::info!("the engine responds again; sending it all live jobs and open orders");
            let _ = self.shared.send(Message::Reconnected);
        }
    }

    fn tell(&mut self) -> Result<(), crate::Refusal> {
        if !self.inputs.is_empty() {
            self.shared.send(Message::Inputs(std::mem::take(&mut self.inputs)))?;
        }
        if !self.dismissed.is_empty() {
            self.shared.send(Message::Dismissed(std::mem::take(&mut self.dismissed)))?;
        }
        Ok(())
    }
}
