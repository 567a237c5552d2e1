//! The loop. Everything goes through it, one batch after another:
//!
//!   take what has come → step the scheduler → **sync the journal** → publish → act, and acknowledge
//!
//! What is heavy (a round, a look at the whole cluster) is a batch of its own, so that nobody's request waits for it twice; chores
//! (pieces of a snapshot, entries that are no longer needed) ride along with commits, a little with each; and what only makes reading
//! nicer is done less often the longer it takes.
//!
//! A batch is whatever has gathered while the last one was synced, so one sync serves many requests when there are many and one
//! when there is one. If the journal cannot be written the loop ends: nothing that followed is done, nobody is told that it was, and a
//! restart is back at the last sync.

use super::{Message, ServiceState, Shared, engine_worker, snapshotter, workers};
use crate::Refusal;
use crate::read::book::Reasons;
use crate::service::state_machine::{Effects, StateMachine};
use crate::store::entry::{self, Entry};
use crate::store::{HistoryRow, JournalRecord, MaintenanceStep, Store, StoreError, pieces};
use arles_core::allocate::{PolicyEntry, Problem};
use arles_core::drive::{self, Site, Solution};
use arles_core::engine::{LiveJob, OrderReply};
use arles_core::estimate::{RateQuery, RateRow};
use arles_core::scheduler::{Order, Verdict};
use arles_core::{Cluster, Input, JobId, Output, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use super::admit::Change;

/// Jobs whose reasons are set while readers wait.
const REASONS_AT_ONCE: usize = 2048;
/// Most messages in one batch.
const BATCH: usize = 1024;
/// Saying why everybody waits may take a fiftieth of the loop's time, and copying the state for a snapshot a hundredth.
const REASONS_PART: u32 = 50;
const SNAPSHOT_PART: u32 = 100;
/// Pause before the next chore when nothing else is to be done.
const CHORE_PAUSE: Duration = Duration::from_millis(2);
/// Stepping time after which a snapshot is due: about as long a restart takes to do it again.
const SNAPSHOT_COST: Duration = Duration::from_millis(300);

/// Told when the change is safe on disk and in the book, or why it is not made.
pub(crate) type Reply = Box<dyn FnOnce(Result<(JobId, bool), Refusal>) + Send>;

/// The other threads.
pub(crate) struct Workers {
    pub(crate) engine: Sender<engine_worker::EngineTask>,
    pub(crate) solver: Sender<workers::Question>,
    pub(crate) estimator: Sender<workers::EstimatorTask>,
    pub(crate) snapshotter: Sender<snapshotter::Work>,
}

/// What has been stepped and is not yet safe.
#[derive(Default)]
struct Batch {
    lines: Vec<JournalRecord>,
    effects: Vec<Effects>,
    replies: Vec<(Reply, JobId, bool, Instant)>,
    stop: bool,
}

pub(crate) struct EventLoop {
    shared: Arc<Shared>,
    store: Store,
    machine: StateMachine,
    seq: u64,
    next_tick: Time,
    next_survey: Time,
    /// Since the last snapshot.
    cost: Duration,
    entries: u64,
    /// Not before then: the next snapshot, and the next look at why everybody waits.
    next_snapshot: Instant,
    next_reasons: Instant,
    chores: VecDeque<MaintenanceStep>,
    /// What takes long and waits for a batch of its own: one to a turn, so that requests get theirs in between.
    heavy: VecDeque<Entry>,
}

impl EventLoop {
    pub(crate) fn new(shared: Arc<Shared>, store: Store, machine: StateMachine, seq: u64) -> Self {
        let now = shared.clock.now();
        Self {
            shared,
            store,
            machine,
            seq,
            next_tick: now,
            next_survey: now,
            cost: Duration::ZERO,
            entries: 0,
            next_snapshot: Instant::now(),
            next_reasons: Instant::now(),
            chores: VecDeque::new(),
            heavy: VecDeque::new(),
        }
    }

    pub(crate) fn start(mut self, inbox: Receiver<Message>, workers: Workers) -> JoinHandle<Result<(), StoreError>> {
        // Whoever asks from now on is heard as soon as the loop runs.
        self.shared.set_condition(ServiceState::Ready);
        let run = move || {
            let done = self.run(&inbox, &workers);
            if let Err(error) = &done {
                self.shared.set_condition(ServiceState::Broken);
                crate::store::log_error(error);
                tracing::error!(
                    "the journal cannot be written: no request is acknowledged any more, and the daemon exits"
                );
            }
            done
        };
        std::thread::Builder::new().name("event_loop".into()).spawn(run).expect("a thread can be started")
    }

    fn run(&mut self, inbox: &Receiver<Message>, workers: &Workers) -> Result<(), StoreError> {
        self.greet(workers);
        loop {
            let mut pause = self.shared.clock.until(self.next_tick);
            if !self.chores.is_empty() {
                pause = pause.min(CHORE_PAUSE);
            }
            if !self.heavy.is_empty() {
                pause = Duration::ZERO;
            }
            let first = match inbox.recv_timeout(pause) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let now = self.shared.clock.now();
            let mut batch = Batch::default();
            let more = std::iter::from_fn(|| inbox.try_recv().ok()).take(BATCH);
            for message in first.into_iter().chain(more) {
                self.take(now, message, &mut batch, workers);
            }
            let stop = batch.stop;
            self.commit(batch, workers)?;
            if stop {
                while !self.heavy.is_empty() {
                    self.lift(now, workers)?;
                }
                return self.close();
            }
            self.lift(now, workers)?;
            if now >= self.next_tick {
                self.tick(now, workers)?;
            }
            self.consider_snapshot(workers);
        }
    }

    /// Does one heavy thing, if there is any, as a batch of its own.
    fn lift(&mut self, now: Time, workers: &Workers) -> Result<(), StoreError> {
        let Some(entry) = self.heavy.pop_front() else { return Ok(()) };
        let mut batch = Batch::default();
        self.step(now, entry, &mut batch);
        self.commit(batch, workers)
    }

    /// Tells engine and advisers where things stand, after a start or when the engine is back.
    fn greet(&self, workers: &Workers) {
        let enrolled = |job: JobId| {
            let job_status = self.machine.scheduler.job_status(job)?;
            Some(LiveJob { spec: job_status.spec.clone(), steps_done: job_status.steps_done })
        };
        let live = self.machine.scheduler.live().filter_map(enrolled).collect();
        let _ = workers.engine.send(engine_worker::EngineTask::RollCall(live));
        // Jobs that ended and whose dismissal is not in the journal; twice is once.
        for job in self.shared.book().not_dismissed() {
            let _ = workers.engine.send(engine_worker::EngineTask::Dismiss(job));
        }
        let _ = workers.engine.send(engine_worker::EngineTask::Survey(self.machine.scheduler.now()));
        self.act(&self.machine.scheduler.again(), workers);
    }

    fn take(&mut self, now: Time, message: Message, batch: &mut Batch, workers: &Workers) {
        match message {
            Message::Change(change, reply) => {
                self.shared.gauges.inbox.subtract(1);
                match self.admit(now, change) {
                    Ok((entry, job, fresh)) => {
                        if let Some(entry) = entry {
                            self.step(now, entry, batch);
                        }
                        batch.replies.push((reply, job, fresh, Instant::now()));
                    }
                    Err(refusal) => reply(Err(refusal)),
                }
            }
            Message::Question(ask) => {
                self.shared.gauges.inbox.subtract(1);
                ask(&self.machine);
            }
            Message::Inputs(inputs) => {
                for input in inputs {
                    match input {
                        Input::Allocated(..) => self.heavy.push_back(Entry::Input(input)),
                        _ => self.step(now, Entry::Input(input), batch),
                    }
                }
            }
            Message::Sighted(report) => {
                self.heavy.push_back(Entry::Input(Input::Surveyed(report.survey)));
                self.heavy.push_back(Entry::Meters(report.meters));
                if !report.observations.is_empty() {
                    self.heavy.push_back(Entry::Measured(report.observations));
                }
            }
            Message::Dismissed(jobs) => {
                for (job, meter) in jobs {
                    self.in_turn(now, Entry::Dismissed(job, meter), batch);
                }
            }
            Message::RolledCall(meters) => self.in_turn(now, Entry::RollCall(meters), batch),
            Message::Reconnected => self.greet(workers),
            Message::Stop => batch.stop = true,
            Message::Chores(chores) => self.chores = chores,
        }
    }

    /// A reading that must not overtake an earlier one: counters would seem to run backwards.
    fn in_turn(&mut self, now: Time, entry: Entry, batch: &mut Batch) {
        if self.heavy.is_empty() {
            self.step(now, entry, batch);
        } else {
            self.heavy.push_back(entry);
        }
    }

    fn tick(&mut self, now: Time, workers: &Workers) -> Result<(), StoreError> {
        let settings = self.machine.scheduler.settings();
        let mut batch = Batch::default();
        self.step(now, Entry::Input(Input::Tick), &mut batch);
        self.commit(batch, workers)?;
        self.consider_reasons();
        let round = Time::from_seconds(settings.round_seconds).0.max(1);
        // Rounds that were missed are not made up for.
        self.next_tick = Time((self.next_tick.0 + round).max(now.0 + 1));
        if now >= self.next_survey {
            self.next_survey = Time(now.0 + Time::from_seconds(settings.survey_seconds).0);
            let _ = workers.engine.send(engine_worker::EngineTask::Survey(self.machine.scheduler.now()));
        }
        Ok(())
    }

    fn step(&mut self, now: Time, entry: Entry, batch: &mut Batch) {
        let began = Instant::now();
        let effects = self.machine.step(now, &entry);
        let took = began.elapsed();
        self.shared.gauges.step.add(took);
        self.cost += took;
        self.entries += 1;
        self.seq += 1;
        let digest = entry::digest(&effects.outputs);
        batch.lines.push(JournalRecord { seq: self.seq, at: now, entry, digest });
        batch.effects.push(effects);
    }

    fn commit(&mut self, batch: Batch, workers: &Workers) -> Result<(), StoreError> {
        let rows = if batch.lines.is_empty() { Vec::new() } else { self.shared.book_mut().rows_to_write() };
        let chore = self.chores.pop_front();
        if !batch.lines.is_empty() || !rows.is_empty() || chore.is_some() {
            let began = Instant::now();
            if let Err(error) = self.store.append(&batch.lines, &rows, chore.as_ref()) {
                let refusal = super::unavailable("journal", "the journal cannot be written");
                batch.replies.into_iter().for_each(|(reply, ..)| reply(Err(refusal.clone())));
                return Err(error);
            }
            self.shared.gauges.commit.add(began.elapsed());
            self.shared.gauges.entries.add(batch.lines.len() as u64);
            self.shared.gauges.entries_since_snapshot.set(self.entries);
        }
        if let Some(MaintenanceStep::Finish { bytes, .. }) = chore {
            self.shared.gauges.snapshot_bytes.set(bytes as u64);
            self.shared.gauges.snapshots.add(1);
        }
        self.publish(&batch, &rows);
        for (line, effects) in batch.lines.iter().zip(&batch.effects) {
            self.enact(line, workers);
            self.act(&effects.outputs, workers);
        }
        for (reply, job, fresh, came) in batch.replies {
            self.shared.gauges.acknowledge.add(came.elapsed());
            reply(Ok((job, fresh)));
        }
        Ok(())
    }

    fn publish(&self, batch: &Batch, rows: &[HistoryRow]) {
        if batch.lines.is_empty() && rows.is_empty() {
            return;
        }
        let mut book = self.shared.book_mut();
        for (line, effects) in batch.lines.iter().zip(&batch.effects) {
            book.record(line.at, &line.entry, effects);
        }
        book.rows_written(rows);
        let last = book.last_event;
        drop(book);
        self.shared.news.send_if_modified(|known| std::mem::replace(known, last) != last);
    }

    /// What an entry itself asks of others.
    fn enact(&self, line: &JournalRecord, workers: &Workers) {
        match &line.entry {
            Entry::Submit(submission) => {
                let enrolled = LiveJob { spec: submission.spec.clone(), steps_done: 0.0 };
                let _ = workers.engine.send(engine_worker::EngineTask::Enrol(enrolled));
            }
            Entry::Measured(observations) => {
                let _ = workers.estimator.send(workers::EstimatorTask::Seen(observations.clone()));
            }
            _ => {}
        }
    }

    /// Has done what the scheduler asks for. Everybody answers later, by a message.
    fn act(&self, outputs: &[Output], workers: &Workers) {
        let mut site = WorkerSite { workers, queries: Vec::new() };
        drive::act(outputs, self.machine.scheduler.policy(), &mut site, &mut VecDeque::new());
        if !site.queries.is_empty() {
            let _ = workers.estimator.send(workers::EstimatorTask::Asked(site.queries));
        }
    }

    /// Says anew why everybody waits, unless that was just done.
    fn consider_reasons(&mut self) {
        let began = Instant::now();
        if began < self.next_reasons {
            return;
        }
        let waits = |(job, verdict)| match verdict {
            Verdict::Waits(reason) => Some((job, reason)),
            _ => None,
        };
        let reasons: Vec<_> = self.machine.scheduler.explain_all().filter_map(waits).collect();
        let mut counts = Reasons::new();
        for some in reasons.chunks(REASONS_AT_ONCE) {
            self.shared.book_mut().set_reasons(some, &mut counts);
        }
        self.shared.book_mut().reasons = counts;
        self.next_reasons = Instant::now() + began.elapsed() * REASONS_PART;
    }

    fn consider_snapshot(&mut self, workers: &Workers) {
        let due = self.cost >= SNAPSHOT_COST || self.entries >= self.shared.options.snapshot_entries;
        let began = Instant::now();
        if !due || !self.chores.is_empty() || began < self.next_snapshot {
            return;
        }
        let (machine, book, seq) = (self.machine.clone(), self.shared.book_mut().copy(), self.seq);
        if workers.snapshotter.send(snapshotter::Work { machine, book, seq }).is_ok() {
            (self.cost, self.entries) = (Duration::ZERO, 0);
            self.next_snapshot = Instant::now() + began.elapsed() * SNAPSHOT_PART;
        }
    }

    /// Writes everything that is not yet written.
    fn close(&mut self) -> Result<(), StoreError> {
        let rows = self.shared.book_mut().rows_to_write();
        self.store.append(&[], &rows, None)?;
        self.shared.book_mut().rows_written(&rows);
        let bytes = snapshotter::written(&self.machine, &self.shared.book());
        for chore in pieces(self.seq, bytes, self.shared.options.keep_journal) {
            self.store.append(&[], &[], Some(&chore))?;
        }
        Ok(())
    }

    pub(super) fn machine(&mut self) -> &mut StateMachine {
        &mut self.machine
    }
}

/// The threads around the loop, as the driver sees them.
struct WorkerSite<'a> {
    workers: &'a Workers,
    /// Rows to be estimated, gathered into one message.
    queries: Vec<RateQuery>,
}

impl Site for WorkerSite<'_> {
    fn solve(&mut self, problem: &Arc<Problem>, policy: &'static PolicyEntry) -> Option<Solution> {
        let _ = self.workers.solver.send(workers::Question { problem: Arc::clone(problem), policy });
        None
    }

    fn estimate(&mut self, query: &RateQuery) -> Option<RateRow> {
        self.queries.push(*query);
        None
    }

    fn apply(&mut self, order: &Order) -> OrderReply {
        let _ = self.workers.engine.send(engine_worker::EngineTask::Order(order.clone()));
        OrderReply::Pending
    }

    fn cluster_changed(&mut self, _: &Arc<Cluster>) {}

    fn job_over(&mut self, job: JobId, _completed: bool) {
        let _ = self.workers.engine.send(engine_worker::EngineTask::Dismiss(job));
    }
}
