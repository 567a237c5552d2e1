//! The loop. Everything goes through it, one batch after another:
//!
//!   handle messages → step the scheduler → **sync the journal** → publish → act, and acknowledge
//!
//! A slow entry (an allocation, a survey of the whole cluster) is a batch of its own, so that nobody's request waits for two of them, and of the thousands
//! of reports that a round may bring a pass takes a few milliseconds' worth;
//! maintenance (pieces of a snapshot, entries that are no longer needed) rides along with commits, a little with each; and whatever needs the whole
//! state (snapshots, dry runs, the reasons that readers are shown) is done elsewhere with a copy, which shares all jobs with the original until they change.
//!
//! A batch is whatever has gathered while the last one was synced, so one sync serves many requests when there are many and one
//! when there is one. Where other daemons stand by, the sync is followed by a look whether this one still leads ([`crate::lease`]). If the journal cannot be written the loop ends: nothing that followed is done, nobody is told that it was, and a
//! restart is back at the last sync.

use super::laps::Laps;
use super::progress::PROGRESS_EVERY;
use super::reasons::ReasonsTask;
use super::threads::{self, Thread};
use super::{LoopRequest, Message, ServiceState, Shared, deed, engine_worker, snapshotter, workers};
use crate::Refusal;
use crate::read::book::Told;
use crate::service::state_machine::{Effects, StateMachine};
use crate::store::entry::{self, Actor, Entry};
use crate::store::{HistoryRow, JournalRecord, MaintenanceStep, PRUNED_AT_ONCE, Store, StoreError};
use arles_core::allocate::{PolicyEntry, Problem};
use arles_core::drive::{self, Site, Solution};
use arles_core::engine::{LiveJob, OrderReply};
use arles_core::estimate::{Observation, RateQuery, RateRow};
use arles_core::scheduler::{Event, Order, Scheduler};
use arles_core::{Cluster, Input, JobId, Month, Output, TenantId, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use super::admit::{Change, NewJob};

/// How long the book is held while it is brought up to date, and how long readers are let in between two holds.
const LONGEST_HOLD: Duration = Duration::from_micros(500);
const LET_READERS_IN: Duration = Duration::from_micros(20);
/// Most messages in one batch.
const BATCH: usize = 1024;
/// How long a pass steps what the other threads brought before it turns to requests: as long as the last commit took, within these bounds. Thousands of gangs
/// start and end at once where a round begins, and what is stepped in one go is also written and shown in one go; but with a slow disk it is commits that take time.
const LEAST_STEPPED: Duration = Duration::from_millis(2);
const MOST_STEPPED: Duration = Duration::from_millis(5);
/// Computing why jobs wait may take a twentieth of a processor's time, and copying the state for a snapshot or a dry run a four-hundredth each of the
/// loop's: a hundredth of all requests may meet the one or the other.
const REASONS_TIME_RATIO: u32 = 20;
const SNAPSHOT_TIME_RATIO: u32 = 400;
const COPY_TIME_RATIO: u32 = 400;
/// A copy costs little, but what is made of it is written beside the entries, and read back: a large state is not written again and again.
const SERIALISE_TIME_RATIO: u32 = 50;
/// A copy that took less is made anew for every dry run.
const LONG_COPY: Duration = Duration::from_millis(1);
/// Pause before the next maintenance step when the loop is idle.
const MAINTENANCE_PAUSE: Duration = Duration::from_millis(8);
/// Between two looks for history that is older than it is kept.
const PRUNE_EVERY: Duration = Duration::from_secs(600);
/// How long the end waits for the catalog to be written.
const CATALOG_PATIENCE: Duration = Duration::from_secs(5);
/// Stepping time after which a snapshot is due: about as long a restart takes to do it again.
const SNAPSHOT_COST: Duration = Duration::from_millis(300);

/// Told when the change is safe on disk and in the book, or why it is not made.
pub(crate) type Reply = Box<dyn FnOnce(Result<(JobId, bool), Refusal>) + Send>;

/// Reads the scheduler, and tells whoever asked.
type Inspection = Box<dyn FnOnce(&StateMachine) + Send>;

/// Takes a copy of the scheduler, and the number that the next job gets.
pub(crate) type AskForCopy = Box<dyn FnOnce(Arc<(Scheduler, JobId)>) + Send>;

/// A copy of the scheduler that was made for a dry run.
struct SchedulerCopy {
    copy: Arc<(Scheduler, JobId)>,
    /// Until when it is new enough.
    good_until: Instant,
}

/// The other threads.
pub(crate) struct Workers {
    pub(crate) engine: Sender<engine_worker::EngineTask>,
    pub(crate) solver: Sender<workers::SolveRequest>,
    pub(crate) estimator: Sender<workers::EstimatorTask>,
    pub(crate) snapshotter: Sender<snapshotter::SnapshotTask>,
    pub(crate) reasons: Sender<ReasonsTask>,
}

/// What has been stepped and is not yet safe.
#[derive(Default)]
struct Batch {
    records: Vec<JournalRecord>,
    /// Who changed what by them.
    deeds: Vec<HistoryRow>,
    effects: Vec<Effects>,
    replies: Vec<(Reply, JobId, bool, Instant)>,
    /// Asked beside the changes of this batch, and answered after them: an answer tells of them.
    inspections: Vec<Inspection>,
    copies: Vec<AskForCopy>,
    stop: bool,
}

pub(crate) struct EventLoop {
    shared: Arc<Shared>,
    store: Store,
    machine: StateMachine,
    seq: u64,
    /// Number of the last entry of measurements.
    last_measured: u64,
    next_tick: Time,
    next_survey: Time,
    /// Whether the engine was asked for a survey and has not answered. One that is away is asked again when it is back.
    looking: bool,
    /// Since the last snapshot.
    cost: Duration,
    entries: u64,
    /// Not before then: the next snapshot, and the next refresh of reasons; `None` while one is under way.
    next_snapshot: Instant,
    next_reasons: Option<Instant>,
    /// Whether a round has begun since then.
    reasons_are_due: bool,
    /// When progress reports are journalled next, by the wall's clock.
    next_progress: Instant,
    maintenance: VecDeque<MaintenanceStep>,
    /// The snapshot that nothing is dropped for until it is read back.
    unread_snapshot: Option<u64>,
    /// When to look for history that is too old, by the wall's clock.
    next_prune: Instant,
    last_copy: Option<SchedulerCopy>,
    /// What the other threads brought, in order. A pass of the loop steps as many as it has time for and one that takes long, in a batch of its own, so that
    /// requests come in between.
    brought: VecDeque<Entry>,
    last_commit: Duration,
    laps: Laps,
}

impl EventLoop {
    /// `first` are entries that the start itself brings.
    pub(crate) fn new(shared: Arc<Shared>, store: Store, machine: StateMachine, seq: u64, first: Vec<Entry>) -> Self {
        let (now, last_measured) = (shared.clock.now(), shared.catalog.written());
        Self {
            shared,
            store,
            machine,
            seq,
            last_measured,
            next_tick: now,
            next_survey: now,
            looking: false,
            cost: Duration::ZERO,
            entries: 0,
            next_snapshot: Instant::now(),
            next_reasons: Some(Instant::now()),
            reasons_are_due: false,
            next_progress: Instant::now(),
            maintenance: VecDeque::new(),
            unread_snapshot: None,
            next_prune: Instant::now(),
            last_copy: None,
            brought: first.into(),
            last_commit: Duration::ZERO,
            laps: Laps::new(),
        }
    }

    pub(crate) fn start(mut self, inbox: Receiver<Message>, workers: Workers) -> JoinHandle<Result<(), StoreError>> {
        // Whoever asks from now on is heard as soon as the loop runs.
        self.shared.set_state(ServiceState::Ready);
        let watched = Arc::clone(&self.shared);
        let run = move || {
            let done = self.run(&inbox, &workers);
            self.shared.lanes.close();
            if let Err(error @ StoreError::Deposed(_)) = &done {
                self.shared.set_state(ServiceState::Stopping);
                tracing::warn!("{error}");
            } else if let Err(error) = &done {
                self.shared.set_state(ServiceState::Broken);
                if let Some(term) = &self.shared.options.term {
                    term.fall_silent();
                }
                crate::store::log_error(error);
                tracing::error!(
                    "the journal cannot be written: no request is acknowledged any more, and the daemon exits"
                );
            }
            done
        };
        threads::spawn(&watched, Thread::EventLoop, run)
    }

    fn run(&mut self, inbox: &Receiver<Message>, workers: &Workers) -> Result<(), StoreError> {
        self.check_term()?;
        // What the start brings comes before anything else: it says what time it is.
        self.commit_brought(self.shared.clock.now(), workers)?;
        self.resync_workers(self.shared.clock.now(), workers);
        let mut more_requests = false;
        loop {
            let mut pause = self.shared.clock.until(self.next_tick.min(self.next_survey)).min(self.until_progress());
            if !self.maintenance.is_empty() && self.unread_snapshot.is_none() {
                pause = pause.min(MAINTENANCE_PAUSE);
            }
            if !self.brought.is_empty() || more_requests {
                pause = Duration::ZERO;
            }
            let first = match inbox.recv_timeout(pause) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            self.shared.gauges.last_pass.mark();
            self.laps.begin();
            let now = self.shared.clock.now();
            let mut batch = Batch::default();
            let more = std::iter::from_fn(|| inbox.try_recv().ok()).take(BATCH);
            for message in first.into_iter().chain(more) {
                self.handle(message, &mut batch, workers);
            }
            self.laps.part("messages");
            self.step_brought(now, &mut batch, Some(self.last_commit.clamp(LEAST_STEPPED, MOST_STEPPED)));
            self.laps.part("reports");
            let stop = batch.stop;
            let requests = if stop { (self.shared.lanes.take_all(), false) } else { self.shared.lanes.take() };
            more_requests = requests.1;
            requests.0.into_iter().for_each(|request| self.serve(now, request, &mut batch));
            self.laps.part("requests");
            self.commit(batch, workers)?;
            if stop {
                self.commit_brought(now, workers)?;
                while self.commit_progress(now, workers)? {}
                return self.close(workers);
            }
            self.commit_slow_entry(now, workers)?;
            if self.until_progress().is_zero() || self.shared.progress.is_full() {
                self.next_progress = Instant::now() + PROGRESS_EVERY;
                self.commit_progress(now, workers)?;
            }
            if now >= self.next_tick {
                self.tick(now, workers)?;
            }
            self.survey_if_due(now, workers);
            if !self.machine.awaits_answer() {
                self.refresh_reasons(workers);
            }
            self.snapshot_if_due(workers);
            self.laps.part("copies");
            self.shared.gauges.pass.add(self.laps.end());
        }
    }

    /// Steps what the other threads brought, up to the next entry that takes long, for as long as a pass may take.
    fn step_brought(&mut self, now: Time, batch: &mut Batch, at_most: Option<Duration>) {
        let began = Instant::now();
        while self.brought.front().is_some_and(|entry| slow_name(entry).is_none())
            && at_most.is_none_or(|most| began.elapsed() < most)
        {
            let entry = self.brought.pop_front().expect("looked at");
            self.step(now, entry, None, batch);
        }
    }

    /// Steps and commits all that the other threads brought.
    fn commit_brought(&mut self, now: Time, workers: &Workers) -> Result<(), StoreError> {
        while !self.brought.is_empty() {
            let mut batch = Batch::default();
            self.step_brought(now, &mut batch, None);
            self.commit(batch, workers)?;
            self.commit_slow_entry(now, workers)?;
        }
        Ok(())
    }

    /// Steps and commits the next entry, if it is one that takes long.
    fn commit_slow_entry(&mut self, now: Time, workers: &Workers) -> Result<(), StoreError> {
        let Some(name) = self.brought.front().and_then(slow_name) else { return Ok(()) };
        let entry = self.brought.pop_front().expect("looked at");
        let mut batch = Batch::default();
        self.step(now, entry, None, &mut batch);
        self.laps.part(name);
        self.commit(batch, workers)
    }

    fn until_progress(&self) -> Duration {
        self.next_progress.saturating_duration_since(Instant::now())
    }

    /// Journals the progress reports that have gathered, and what they measure, in a batch of their own; `false` if there were none.
    fn commit_progress(&mut self, now: Time, workers: &Workers) -> Result<bool, StoreError> {
        let mut reports = self.shared.progress.take();
        reports.retain(|report| self.machine.scheduler.job_status(report.job).is_some());
        if reports.is_empty() {
            return Ok(false);
        }
        // The book is as of the last commit, and nothing comes between: published, these reports lead to the same.
        let measured = self.shared.book().observations(&reports);
        let mut batch = Batch::default();
        self.step(now, Entry::Progress(reports), None, &mut batch);
        if !measured.is_empty() {
            self.step(now, Entry::Measured(measured), None, &mut batch);
        }
        self.commit(batch, workers)?;
        Ok(true)
    }

    /// Sends live jobs, removals and open orders again, after a start or when the engine is back.
    fn resync_workers(&mut self, now: Time, workers: &Workers) {
        let live_job = |job: JobId| {
            let job_status = self.machine.scheduler.job_status(job)?;
            Some(LiveJob { spec: job_status.spec.clone(), steps_done: job_status.steps_done })
        };
        let live = self.machine.scheduler.live().filter_map(live_job).collect();
        let cluster = Arc::clone(self.shared.book().cluster());
        let _ = workers.engine.send(engine_worker::EngineTask::SetCluster(cluster));
        let _ = workers.engine.send(engine_worker::EngineTask::SyncJobs(live));
        // Jobs that ended and whose removal is not in the journal; removing twice is removing once.
        for job in self.shared.book().not_removed() {
            let _ = workers.engine.send(engine_worker::EngineTask::RemoveJob(job));
        }
        self.survey(now, workers);
        self.act(&self.machine.scheduler.again(), workers);
    }

    /// Does what a caller asks for.
    fn serve(&mut self, now: Time, request: LoopRequest, batch: &mut Batch) {
        self.shared.gauges.inbox.subtract(1);
        match request {
            LoopRequest::Change(change, by, reply) => self.change(now, change, &by, reply, batch),
            LoopRequest::Inspect(ask) => batch.inspections.push(ask),
            LoopRequest::Copy(ask) => batch.copies.push(ask),
        }
    }

    fn handle(&mut self, message: Message, batch: &mut Batch, workers: &Workers) {
        match message {
            Message::Inputs(inputs) => {
                let entries = inputs.into_iter().map(Entry::Input);
                let readable: Vec<Entry> = entries.filter(|entry| self.is_readable(entry)).collect();
                self.brought.extend(readable);
            }
            Message::Looked(look) => {
                self.looking = false;
                self.brought.extend(look.entries);
                // Last: what the survey shows has the numbers of the cluster as it was.
                let scheduler = &self.machine.scheduler;
                let nodes = look.inventory.map(|inventory| drive::reconcile(scheduler.cluster(), &inventory));
                let gpus = look.lost_gpus.map(|lost| drive::reconcile_gpus(scheduler, &lost));
                for changes in [nodes, gpus].into_iter().flatten() {
                    let entries = changes.into_iter().map(|change| Entry::Input(Input::Cluster(change)));
                    let fresh = |entry: &Entry| !self.brought.contains(entry) && self.is_readable(entry);
                    let fresh: Vec<Entry> = entries.filter(fresh).collect();
                    self.brought.extend(fresh);
                }
            }
            Message::JobsRemoved(jobs) => {
                self.brought.extend(jobs.into_iter().map(|(job, meter)| Entry::Dismissed(job, meter)));
            }
            Message::JobsSynced(meters) => self.brought.push_back(Entry::RollCall(meters)),
            Message::Reconnected => self.resync_workers(self.shared.clock.now(), workers),
            // They only wake the loop.
            Message::ProgressGathered | Message::Requests => {}
            Message::Stop => batch.stop = true,
            Message::Maintenance(steps, took) => {
                self.maintenance = steps;
                self.next_snapshot = self.next_snapshot.max(Instant::now() + took * SERIALISE_TIME_RATIO);
            }
            Message::Reasons(told, copy, took) => {
                // Freed by somebody who does not step back behind others: most of it was allocated here.
                let _ = workers.snapshotter.send(snapshotter::SnapshotTask::Drop(copy));
                self.tell_reasons(told, workers);
                self.next_reasons = Some(Instant::now() + took * REASONS_TIME_RATIO);
            }
            Message::SnapshotReadBack(seq, readable) if self.unread_snapshot == Some(seq) => {
                self.unread_snapshot = None;
                if !readable {
                    self.maintenance = VecDeque::from([MaintenanceStep::Discard { seq }]);
                }
            }
            Message::SnapshotReadBack(..) => {}
        }
    }

    /// A change that somebody asked for.
    fn change(&mut self, now: Time, change: Change, by: &Actor, reply: Reply, batch: &mut Batch) {
        match self.admit(now, change) {
            Ok((entries, job, created)) => {
                let first = batch.effects.len();
                let deeds = batch.deeds.len();
                entries.into_iter().for_each(|entry| self.step(now, entry, Some(by), batch));
                match refusal_in(&batch.effects[first..]) {
                    Some(refusal) => {
                        for row in &mut batch.deeds[deeds..] {
                            if let HistoryRow::Deed(deed) = row {
                                deed.text = format!("refused: {} ({})", deed.text, refusal.message);
                            }
                        }
                        reply(Err(refusal));
                    }
                    None => batch.replies.push((reply, job, created, Instant::now())),
                }
            }
            Err(refusal) => reply(Err(refusal)),
        }
    }

    /// Whether an entry that no request brought can be read back from a journal: a number that is none could not be, and the whole journal
    /// with it.
    fn is_readable(&self, entry: &Entry) -> bool {
        // Whatever is in an allocation was checked when it was made, and it is the longest entry of all. Reports of gangs, which come by the thousand,
        // were looked at when the engine made them (`core/src/engine/mend.rs`).
        if matches!(entry, Entry::Input(Input::Allocated(_, Ok(_)) | Input::Reported(_))) {
            return true;
        }
        let read = serde_json::to_string(entry).and_then(|text| serde_json::from_str::<Entry>(&text));
        if let Err(error) = &read {
            self.shared.gauges.engine_nonsense.add(1);
            tracing::warn!("something came in that no journal can hold ({error}) and is left out: {entry:?}");
        }
        read.is_ok()
    }

    fn tick(&mut self, now: Time, workers: &Workers) -> Result<(), StoreError> {
        let settings = self.machine.scheduler.settings();
        let mut batch = Batch::default();
        let metered = self.metered(now);
        if !metered.is_empty() {
            self.step(now, Entry::Input(Input::Energy(metered)), None, &mut batch);
        }
        self.step(now, Entry::Input(Input::Tick), None, &mut batch);
        self.prune_if_due(now);
        self.laps.part("tick");
        self.commit(batch, workers)?;
        // Those of the last round, if its question was never answered.
        self.refresh_reasons(workers);
        self.reasons_are_due = true;
        let round = Time::from_seconds(settings.round_seconds).0.max(1);
        // Rounds that were missed are not made up for.
        self.next_tick = Time((self.next_tick.0 + round).max(now.0 + 1));
        Ok(())
    }

    /// Has the engine look at its cluster, in the middle of a round too: a node that was not heard of for a while gets no gangs.
    fn survey_if_due(&mut self, now: Time, workers: &Workers) {
        if now >= self.next_survey {
            self.next_survey =
                Time(now.0 + Time::from_seconds(self.machine.scheduler.settings().survey_seconds).0.max(1));
            // One that takes longer than the time between two is not asked for again meanwhile.
            if !self.looking {
                self.survey(now, workers);
            }
        }
    }

    fn survey(&mut self, now: Time, workers: &Workers) {
        self.looking = true;
        let _ = workers.engine.send(engine_worker::EngineTask::Survey(self.machine.scheduler.time_at(now)));
    }

    /// Puts a step in line that removes some of what is older than it is kept.
    fn prune_if_due(&mut self, now: Time) {
        if self.maintenance.is_empty() && Instant::now() >= self.next_prune {
            self.next_prune = Instant::now() + PRUNE_EVERY;
            self.maintenance.push_back(MaintenanceStep::Prune(self.shared.options.retention.bounds(now)));
        }
    }

    /// What the meters show of tenants with a budget of energy; of all of them when a month begins, from which on it is counted.
    fn metered(&self, now: Time) -> Vec<(TenantId, f64)> {
        let new_month = Month::of(now) > self.machine.scheduler.month();
        let book = self.shared.book();
        let joules = |i: usize| book.totals.tenants.get(i).map_or(0.0, |(charge, _)| charge.total());
        let counts = |tenant: &TenantId| {
            let limited = self.machine.scheduler.tenant_use(*tenant).is_some_and(|used| used.quota.kwh.is_some());
            (limited || new_month) && joules(tenant.index()) > 0.0
        };
        let tenants = (0..book.tenants.len() as u32).map(TenantId).filter(counts);
        tenants.map(|tenant| (tenant, joules(tenant.index()))).collect()
    }

    fn step(&mut self, now: Time, entry: Entry, by: Option<&Actor>, batch: &mut Batch) {
        let began = Instant::now();
        if let Some(deed) = by.and_then(|by| deed::describe(&self.machine, now, self.seq + 1, &entry, by)) {
            batch.deeds.push(HistoryRow::Deed(deed));
        }
        let effects = self.machine.step(now, &entry);
        let took = began.elapsed();
        self.shared.gauges.step.add(took);
        self.cost += took;
        self.entries += 1;
        self.seq += 1;
        if matches!(entry, Entry::Measured(_)) {
            self.last_measured = self.seq;
        }
        let digest = entry::digest(&effects.outputs);
        batch.records.push(JournalRecord { seq: self.seq, at: now, entry, digest, by: by.cloned() });
        batch.effects.push(effects);
    }

    fn commit(&mut self, mut batch: Batch, workers: &Workers) -> Result<(), StoreError> {
        let mut rows = if batch.records.is_empty() { Vec::new() } else { self.shared.book_mut().rows_to_write() };
        rows.append(&mut batch.deeds);
        let maintenance = self.next_maintenance();
        if !batch.records.is_empty() || !rows.is_empty() || maintenance.is_some() {
            let began = Instant::now();
            let synced = self.store.append(&batch.records, &rows, maintenance.as_ref());
            if let Err(error) = synced.and_then(|()| self.check_term()) {
                let refusal = match &error {
                    StoreError::Deposed(why) => super::unavailable("standby", why),
                    _ => super::unavailable("journal", "the journal cannot be written"),
                };
                batch.replies.into_iter().for_each(|(reply, ..)| reply(Err(refusal.clone())));
                return Err(error);
            }
            self.last_commit = began.elapsed();
            self.shared.gauges.commit.add(self.last_commit);
            self.shared.gauges.entries.add(batch.records.len() as u64);
            self.shared.gauges.entries_since_snapshot.set(self.entries);
        }
        self.laps.part("journal");
        self.follow_up(maintenance.as_ref(), workers);
        self.publish(&batch, &rows);
        self.laps.part("publish");
        for (record, effects) in batch.records.iter().zip(&batch.effects) {
            self.forward(record, workers);
            self.act(&effects.outputs, workers);
        }
        for (reply, job, created, came) in batch.replies {
            self.shared.gauges.acknowledge.add(came.elapsed());
            reply(Ok((job, created)));
        }
        self.laps.part("act");
        batch.inspections.into_iter().for_each(|ask| ask(&self.machine));
        batch.copies.into_iter().for_each(|ask| ask(self.scheduler_copy()));
        self.laps.part("copies");
        Ok(())
    }

    /// A copy for a dry run. One that took long to make serves others that come soon after: what they ask is what would be, and nobody should
    /// wait while the same is copied again and again.
    fn scheduler_copy(&mut self) -> Arc<(Scheduler, JobId)> {
        let began = Instant::now();
        if let Some(last) = self.last_copy.as_ref().filter(|last| began < last.good_until) {
            return Arc::clone(&last.copy);
        }
        let copy = Arc::new((self.machine.scheduler.clone(), JobId(self.machine.next_job)));
        let took = began.elapsed();
        // What took no time is not kept either.
        self.last_copy = (took >= LONG_COPY)
            .then(|| SchedulerCopy { copy: Arc::clone(&copy), good_until: began + took * COPY_TIME_RATIO });
        copy
    }

    /// Whether anything may follow from what is synced.
    fn check_term(&self) -> Result<(), StoreError> {
        self.shared.options.term.as_ref().map_or(Ok(()), |term| term.check())
    }

    /// What follows from a maintenance step that is done.
    fn follow_up(&mut self, done: Option<&MaintenanceStep>, workers: &Workers) {
        match done {
            Some(MaintenanceStep::Finish { bytes, seq, .. }) => {
                self.shared.gauges.snapshot_bytes.set(*bytes as u64);
                self.shared.gauges.snapshots.add(1);
                self.unread_snapshot = Some(*seq);
                let _ = workers.snapshotter.send(snapshotter::SnapshotTask::ReadBack(*seq));
            }
            Some(step @ MaintenanceStep::Prune(_)) if self.store.pruned() >= PRUNED_AT_ONCE => {
                self.maintenance.push_back(step.clone());
            }
            _ => {}
        }
    }

    /// The next maintenance step. Entries go only when the snapshot that replaces them was read back, and the catalog has what was
    /// measured in them.
    fn next_maintenance(&mut self) -> Option<MaintenanceStep> {
        if self.unread_snapshot.is_some() {
            return None;
        }
        let mut step = self.maintenance.pop_front();
        if let Some(MaintenanceStep::Drop { up_to }) = &mut step {
            let written = self.shared.catalog.written();
            *up_to = if written >= self.last_measured { u64::MAX } else { written };
        }
        step
    }

    fn publish(&self, batch: &Batch, rows: &[HistoryRow]) {
        if batch.records.is_empty() && rows.is_empty() {
            return;
        }
        let (mut book, mut held) = (self.shared.book_mut(), Instant::now());
        for (record, effects) in batch.records.iter().zip(&batch.effects) {
            for part in 0.. {
                let more = book.record_part(record.at, &record.entry, effects, part);
                if held.elapsed() >= LONGEST_HOLD {
                    drop(book);
                    // Whoever waits is woken; who takes the lock again at once would be quicker.
                    std::thread::sleep(LET_READERS_IN);
                    (book, held) = (self.shared.book_mut(), Instant::now());
                }
                if !more {
                    break;
                }
            }
        }
        book.rows_written(rows);
        let last = book.last_event;
        drop(book);
        self.shared.last_event.send_if_modified(|known| std::mem::replace(known, last) != last);
    }

    /// Passes on what an entry brings to the engine or the estimator.
    fn forward(&self, record: &JournalRecord, workers: &Workers) {
        match &record.entry {
            Entry::Submit(submission) => {
                let live_job = LiveJob { spec: submission.spec.clone(), steps_done: 0.0 };
                let _ = workers.engine.send(engine_worker::EngineTask::AddJob(live_job));
            }
            Entry::Workload(workload) => {
                let _ = workers.estimator.send(workers::EstimatorTask::Workload(workload.clone()));
            }
            Entry::Measured(observations) => {
                let book = self.shared.book();
                let cell = |seen: &Observation| Some((book.catalog_key(seen)?, *seen));
                let cells = observations.iter().filter_map(cell).collect();
                let (seq, seen) = (record.seq, observations.clone());
                let _ = workers.estimator.send(workers::EstimatorTask::Observe { seq, seen, cells });
            }
            _ => {}
        }
    }

    /// Hands the scheduler's outputs to the workers, who answer by a message.
    fn act(&self, outputs: &[Output], workers: &Workers) {
        self.explain_stops(outputs, workers);
        let mut site = WorkerSite { workers, queries: Vec::new() };
        drive::act(outputs, self.machine.scheduler.policy(), &mut site, &mut VecDeque::new());
        if !site.queries.is_empty() {
            let _ = workers.estimator.send(workers::EstimatorTask::Estimate(site.queries));
        }
    }

    /// Says to an engine whose users want to know it for whom gangs are about to be told to go, and about when they are back.
    fn explain_stops(&self, outputs: &[Output], workers: &Workers) {
        let stops = outputs.iter().filter_map(|output| match output {
            Output::Order(Order::Stop { job, .. }) => Some(*job),
            _ => None,
        });
        for job in stops.filter(|_| self.shared.abilities.tells_users) {
            if let Some(why) = self.machine.scheduler.displacement(job) {
                let _ = workers.engine.send(engine_worker::EngineTask::ExplainStop(job, why.to_string()));
            }
        }
    }

    /// Has it computed anew why jobs wait, once a round and unless that was just done. After the round's answer, so that what is shown is what came
    /// of it, and the answer need not part jobs from the copy.
    fn refresh_reasons(&mut self, workers: &Workers) {
        let ready = self.next_reasons.is_some_and(|next| Instant::now() >= next);
        if self.reasons_are_due && ready {
            self.reasons_are_due = false;
            self.shared.book_mut().begin_telling();
            let sent = workers.reasons.send(ReasonsTask::Explain(Box::new(self.machine.scheduler.clone())));
            self.next_reasons = sent.is_err().then(Instant::now);
        }
    }

    /// Has readers told the newest reasons. Who changed meanwhile is counted while others may read: nobody else writes.
    fn tell_reasons(&mut self, told: Arc<Told>, workers: &Workers) {
        let counts = self.shared.book().counted(&told);
        let before = self.shared.book_mut().tell(told, counts);
        let _ = workers.reasons.send(ReasonsTask::Forget(before));
    }

    fn snapshot_if_due(&mut self, workers: &Workers) {
        let due = self.cost >= SNAPSHOT_COST || self.entries >= self.shared.options.snapshot_entries;
        let began = Instant::now();
        if !due || !self.maintenance.is_empty() || began < self.next_snapshot {
            return;
        }
        let (machine, book, seq) = (self.machine.copy(), self.shared.book_mut().copy(), self.seq);
        let request = Box::new(snapshotter::SnapshotRequest { machine, book, seq });
        if workers.snapshotter.send(snapshotter::SnapshotTask::Serialise(request)).is_ok() {
            (self.cost, self.entries) = (Duration::ZERO, 0);
            self.next_snapshot = Instant::now() + began.elapsed() * SNAPSHOT_TIME_RATIO;
        }
    }

    /// Writes everything that is not yet written.
    fn close(&mut self, workers: &Workers) -> Result<(), StoreError> {
        let (reply, written) = std::sync::mpsc::channel();
        let asked = workers.estimator.send(workers::EstimatorTask::WriteCatalog(reply)).is_ok();
        let rows = self.shared.book_mut().rows_to_write();
        self.store.append(&[], &rows, None)?;
        self.shared.book_mut().rows_written(&rows);
        let pieces = snapshotter::serialise(&self.machine, &self.shared.book(), self.seq);
        self.maintenance = pieces.finish(self.shared.options.keep_journal);
        self.unread_snapshot = None;
        while let Some(step) = self.next_maintenance() {
            self.store.append(&[], &[], Some(&step))?;
            if matches!(step, MaintenanceStep::Finish { .. }) && !snapshotter::is_readable(&self.store, self.seq) {
                self.maintenance = VecDeque::from([MaintenanceStep::Discard { seq: self.seq }]);
            }
        }
        if asked {
            // A catalog that is not written in time is brought up to date by the next start.
            let _ = written.recv_timeout(CATALOG_PATIENCE);
        }
        self.store.close()
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn machine(&mut self) -> &mut StateMachine {
        &mut self.machine
    }
}

/// What an entry that takes long is called where it is told how long it took; nothing for the others.
fn slow_name(entry: &Entry) -> Option<&'static str> {
    match entry {
        Entry::Input(Input::Allocated(..)) => Some("allocation"),
        Entry::Input(Input::Surveyed(_)) => Some("survey"),
        Entry::Input(Input::Cluster(_)) => Some("cluster"),
        Entry::Meters(_) => Some("meters"),
        Entry::Measured(_) => Some("measurements"),
        _ => None,
    }
}

/// Why the scheduler changed nothing, where it refused what was asked for.
fn refusal_in(effects: &[Effects]) -> Option<Refusal> {
    let notes = effects.iter().flat_map(|effects| &effects.outputs);
    notes.into_iter().find_map(|output| match output {
        Output::Note(Event::Refused { why }) => {
            let (message, hint) = why.split_once("; ").unwrap_or((why, "'arles nodes' lists the nodes"));
            Some(Refusal::conflict("refused", message, hint))
        }
        _ => None,
    })
}

/// The threads around the loop, as the driver sees them.
struct WorkerSite<'a> {
    workers: &'a Workers,
    /// Rows to be estimated, gathered into one message.
    queries: Vec<RateQuery>,
}

impl Site for WorkerSite<'_> {
    fn solve(&mut self, problem: &Arc<Problem>, policy: &'static PolicyEntry) -> Option<Solution> {
        let _ = self.workers.solver.send(workers::SolveRequest { problem: Arc::clone(problem), policy });
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

    fn cluster_changed(&mut self, cluster: &Arc<Cluster>) {
        let _ = self.workers.engine.send(engine_worker::EngineTask::SetCluster(Arc::clone(cluster)));
        let _ = self.workers.estimator.send(workers::EstimatorTask::Cluster(Arc::clone(cluster)));
    }

    fn job_over(&mut self, job: JobId, _completed: bool) {
        let _ = self.workers.engine.send(engine_worker::EngineTask::RemoveJob(job));
    }
}
