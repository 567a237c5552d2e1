//! The hands: the thread that owns the engine.
//!
//! Deeds are done in the order they were sent. An engine that cannot be talked to costs nothing but time: what it was told is told
//! again when it is back, and what became of orders shows in the next survey.

use super::{Message, Shared};
use arles_core::engine::{Engine, EngineError, Enrolled, JobMeter, Told};
use arles_core::scheduler::Order;
use arles_core::{Input, JobId, Time};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// What the hands do.
pub(crate) enum Deed {
    /// Say who lives.
    RollCall(Vec<Enrolled>),
    /// Make a job known.
    Enrol(Enrolled),
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

pub(super) fn start(engine: Box<dyn Engine>, shared: Arc<Shared>) -> Sender<Deed> {
    let (sender, inbox) = mpsc::channel();
    let mut hands = Hands { engine, shared, inputs: Vec::new(), dismissed: Vec::new(), lost: false };
    let run = move || hands.run(&inbox);
    std::thread::Builder::new().name("hands".into()).spawn(run).expect("a thread can be started");
    sender
}

struct Hands {
    engine: Box<dyn Engine>,
    shared: Arc<Shared>,
    /// What has come of deeds and is not yet told.
    inputs: Vec<Input>,
    dismissed: Vec<(JobId, Option<JobMeter>)>,
    /// Whether the engine must be told everything anew.
    lost: bool,
}

impl Hands {
    fn run(&mut self, inbox: &Receiver<Deed>) {
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
                    (self.shared.log)(&format!("the engine cannot be talked to: {error}; trying again"));
                }
                None
            }
        }
    }

    fn do_it(&mut self, deed: Deed) {
        match deed {
            Deed::RollCall(live) => {
                if let Some(meters) = self.call(|engine, now| engine.roll_call(now, &live)) {
                    self.lost = false;
                    let _ = self.shared.send(Message::RolledCall(meters));
                }
            }
            // Whatever is not done now is part of the next roll call.
            _ if self.lost => {}
            Deed::Enrol(job) => {
                self.call(|engine, now| engine.enrol(now, &job));
            }
            Deed::Dismiss(job) => {
                if let Some(meter) = self.call(|engine, now| engine.dismiss(now, job)) {
                    self.dismissed.push((job, meter));
                }
            }
            Deed::Order(order) => match self.call(|engine, now| engine.apply(now, &order)) {
                Some(Told::Reported(report)) => self.inputs.push(Input::Reported(report)),
                Some(Told::Refused(why)) => self.inputs.push(Input::Refused(order, why)),
                Some(Told::Later) | None => {}
            },
            Deed::Survey(asked_at) => {
                if let Some(sighting) = self.call(|engine, now| engine.survey(now, asked_at)) {
                    let _ = self.shared.send(Message::Sighted(Box::new(sighting)));
                }
            }
        }
    }

    fn listen(&mut self) {
        let was_lost = self.lost;
        let Some(reports) = self.call(|engine, now| engine.news(now)) else { return };
        self.inputs.extend(reports.into_iter().map(Input::Reported));
        if was_lost {
            (self.shared.log)("the engine is back; it is told everything anew");
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
