//! The service: threads and what they share.
//!
//! - the event loop (`event_loop.rs`) owns scheduler and journal; everything goes through it;
//! - the engine worker (`engine_worker.rs`) owns the engine: orders go out, reports and surveys come in;
//! - the workers (`workers.rs`): the solver runs the policy, the estimator estimates rates and keeps the catalog (`catalog.rs`);
//! - the snapshotter (`snapshotter.rs`) serialises snapshots.
//!
//! They communicate through channels and share nothing but the book, the clock and the gauges. `threads.rs` starts them and notices when one dies.

mod admit;
pub(crate) mod aside;
pub mod catalog;
pub mod clock;
mod credentials;
mod deed;
pub mod desk;
mod engine_worker;
mod event_loop;
pub mod gauges;
mod job_tokens;
mod keys;
mod lanes;
mod laps;
mod look;
mod pace;
mod progress;
pub(crate) mod reasons;
pub(crate) mod seats;
mod snapshotter;
pub(crate) mod state_machine;
pub(crate) mod threads;
pub mod verify;
mod workers;

use crate::Refusal;
use crate::access::{BadToken, Caller};
use crate::lease::Term;
use crate::read::book::{Book, Record, Told};
use crate::store::entry::{Actor, Entry, JournalHeader, Resumed};
use crate::store::{MaintenanceStep, Retention, Store, StoreError};
use arles_core::engine::{Abilities, Engine, JobMeter, JobOutput, Mandate};
use arles_core::estimate::{Estimator, RateQuery, RateRow};
use arles_core::{Input, JobId, Scheduler, Time};
use arles_learn::Catalog;
use catalog::{CatalogKeeper, SharedCatalog};
use clock::{Clock, Resumption};
use credentials::Credentials;
use desk::Desk;
use gauges::Gauges;
use job_tokens::JobTokens;
use lanes::{Lanes, Unqueued};
use look::Look;
use pace::Pace;
use seats::{SeatLimits, Seats};
use state_machine::{Recovered, StateMachine};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use threads::Threads;

pub(crate) use event_loop::{Change, NewJob, Reply};

/// Dry runs at a time: each copies the scheduler and keeps a core busy. One of them is for operators alone, and a tenant has one.
const FORECASTS: SeatLimits = SeatLimits { all: 3, tenants: 2, tenant: 1, token: 1, other_token: 3 };

/// What the service is made of.
pub struct Components {
    /// Execution backend.
    pub engine: Box<dyn Engine>,
    /// Name of the backend, as the API reports it.
    pub engine_name: String,
    /// Makes the throughput estimator from what was measured before.
    pub estimator: MakeEstimator,
    /// Name of the estimator, as the API reports it.
    pub estimator_name: String,
    /// The file of the catalog; it is made where there is none.
    pub catalog: PathBuf,
}

/// Makes an estimator from a catalog, or says in a sentence why it cannot.
pub type MakeEstimator = Box<dyn FnOnce(&Catalog) -> Result<Box<dyn Estimator>, String> + Send>;

/// How the service is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Speed of the scheduler's clock relative to wall-clock time.
    pub speed: f64,
    /// Keep every entry for ever, for `arles replay` and tests.
    pub keep_journal: bool,
    /// Entries after which a snapshot is due; also after some time of replaying, whichever is first.
    pub snapshot_entries: u64,
    /// Seconds that a job is given to save its state, as training code is told.
    pub grace_seconds: f64,
    /// How long history is kept.
    pub retention: Retention,
    /// Take the machine's clock for right, however far it is from the journal's last entry.
    pub accept_clock: bool,
    /// What a tenant sees of measurements.
    pub estimates: SharedEstimates,
    /// Where the engine's figures of energy come from, in words.
    pub energy_source: String,
    /// The term that this daemon leads in, where others stand by.
    pub term: Option<Arc<Term>>,
}

/// What a tenant sees of what was measured on runs of other tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SharedEstimates {
    /// How often something was measured, and how sure an estimate is, by its own runs alone.
    #[default]
    Own,
    /// Everything that was measured of workloads that it runs too.
    Shared,
}

impl ServiceState {
    /// Why requests are not accepted in this state.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Starting => "the service is starting",
            Self::Ready => "the service is ready",
            Self::Stopping => "the service is shutting down",
            Self::Broken => "the journal cannot be written",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::Broken => "journal",
        }
    }

    /// A refusal of requests in this state.
    fn refusal(self) -> Refusal {
        unavailable(self.code(), self.message())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            speed: 1.0,
            keep_journal: false,
            snapshot_entries: 20_000,
            grace_seconds: 30.0,
            retention: Retention::default(),
            accept_clock: false,
            estimates: SharedEstimates::default(),
            energy_source: String::new(),
            term: None,
        }
    }
}

/// Whether requests are taken, and if not, why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ServiceState {
    Starting,
    Ready,
    Stopping,
    /// The journal cannot be written: nothing is acknowledged any more.
    Broken,
}

/// What comes into the loop.
pub(crate) enum Message {
    /// Requests wait in the lanes.
    Requests,
    /// Inputs for the scheduler.
    Inputs(Vec<Input>),
    /// What the engine saw of its cluster.
    Looked(Box<Look>),
    /// A whole entry of progress reports has gathered.
    ProgressGathered,
    /// The engine removed jobs that are over; their last meters.
    JobsRemoved(Vec<(JobId, Option<JobMeter>)>),
    /// The engine has the list of live jobs; last meters of others.
    JobsSynced(Vec<JobMeter>),
    /// The engine is reachable again and must be sent all jobs and orders.
    Reconnected,
    /// A serialised snapshot, cut into pieces, and how long that took.
    Maintenance(VecDeque<MaintenanceStep>, Duration),
    /// Why everybody waits who does, the copy of the scheduler that said so, and how long it took.
    Reasons(Arc<Told>, Box<Scheduler>, Duration),
    /// The snapshot of an entry was read back from the file, or could not be.
    SnapshotReadBack(u64, bool),
    /// End.
    Stop,
}

/// What callers want of the loop.
pub(crate) enum LoopRequest {
    /// A change requested by a caller.
    Change(Change, Actor, Reply),
    /// Reads the state machine between two batches.
    Inspect(Box<dyn FnOnce(&StateMachine) + Send>),
    /// Asks for a copy of the scheduler, which takes as long as many changes.
    Copy(event_loop::AskForCopy),
}

/// What all threads see.
pub(crate) struct Shared {
    book: RwLock<Book>,
    pub(crate) header: Arc<JournalHeader>,
    pub(crate) clock: Clock,
    pub(crate) gauges: Gauges,
    /// Progress reports that are not yet journalled.
    pub(crate) progress: progress::Gatherer,
    pub(crate) options: Options,
    pub(crate) engine_name: String,
    pub(crate) abilities: Abilities,
    /// What jobs print, where the engine keeps it.
    pub(crate) output: Option<Arc<dyn JobOutput>>,
    pub(crate) estimator_name: String,
    inbox: Sender<Message>,
    /// Requests that wait for the loop, by tenant.
    pub(crate) lanes: Lanes,
    state: AtomicU8,
    /// Number of the last event; event streams wait on it.
    pub(crate) last_event: tokio::sync::watch::Sender<u64>,
    /// Room for dry runs, and the time that those of a tenant may take.
    pub(crate) forecasts: Arc<Seats>,
    pub(crate) forecast_pace: Pace,
    /// Submissions of tenants with a quota on them.
    pub(crate) submit_pace: Pace,
    /// Connections for reading history, as many as were ever needed at once.
    readers: Mutex<Vec<Store>>,
    /// The connection that keeps tokens; readers are opened from it.
    pub(crate) tokens: Mutex<Store>,
    /// What was measured.
    pub(crate) catalog: Arc<SharedCatalog>,
    /// Callers by the hash of their secret.
    pub(crate) credentials: Credentials,
    /// Tokens of jobs' own code.
    pub(crate) job_tokens: JobTokens,
    /// Which threads run, and which have died.
    pub(crate) threads: Threads,
    /// Sender to the estimator, for dry runs.
    estimator: Mutex<Option<Sender<workers::EstimatorTask>>>,
}

impl Shared {
    pub(crate) fn book(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn book_mut(&self) -> RwLockWriteGuard<'_, Book> {
        self.book.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> ServiceState {
        match self.state.load(Ordering::Acquire) {
            0 => ServiceState::Starting,
            1 => ServiceState::Ready,
            2 => ServiceState::Stopping,
            _ => ServiceState::Broken,
        }
    }

    pub(crate) fn set_state(&self, state: ServiceState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Whether what was written before this call may be acknowledged.
    pub(crate) fn leads(&self) -> Result<(), Refusal> {
        let check = self.options.term.as_ref().map_or(Ok(()), |term| term.check());
        check.map_err(|error| unavailable("standby", &error.to_string()))
    }

    /// Sends something to the loop.
    pub(crate) fn send(&self, message: Message) -> Result<(), Refusal> {
        self.inbox.send(message).map_err(|_| ServiceState::Stopping.refusal())
    }

    /// Queues a caller's request for the loop.
    pub(crate) fn request(&self, lane: &str, request: LoopRequest) -> Result<(), Refusal> {
        if self.options.term.as_ref().is_some_and(|term| term.is_lost()) {
            return Err(unavailable("standby", "another daemon leads"));
        }
        let state = self.state();
        if state != ServiceState::Ready {
            return Err(state.refusal());
        }
        // Counted first: the loop counts it out, perhaps at once.
        self.gauges.inbox.add(1);
        match self.lanes.push(lane, request) {
            Ok(false) => Ok(()),
            Ok(true) => self.send(Message::Requests),
            Err(full) => {
                self.gauges.inbox.subtract(1);
                Err(match full {
                    Unqueued::Closed => ServiceState::Stopping.refusal(),
                    Unqueued::Full => unavailable("busy", "too many requests are queued"),
                })
            }
        }
    }

    /// Reads history on a connection of its own.
    pub(crate) fn history<T>(&self, read: impl FnOnce(&Store) -> Result<T, StoreError>) -> Result<T, Refusal> {
        let broken = |error: StoreError| {
            crate::store::log_error(&error);
            Refusal::unavailable("history", "the history cannot be read", "see the server's log")
        };
        let spare = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let store = match spare {
            Some(store) => store,
            None => self.tokens.lock().unwrap_or_else(PoisonError::into_inner).reader().map_err(broken)?,
        };
        let answer = read(&store);
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(store);
        answer.map_err(broken)
    }

    /// An estimate for a dry run, which the scheduler does not see; without cells if the estimator does not answer in time.
    pub(crate) fn estimate_now(&self, ask: RateQuery, kinds: usize) -> RateRow {
        let (reply, answer) = mpsc::channel();
        let estimator = self.estimator.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = estimator.is_some_and(|sender| sender.send(workers::EstimatorTask::Preview(ask, reply)).is_ok());
        sent.then(|| answer.recv_timeout(std::time::Duration::from_secs(5)).ok())
            .flatten()
            .unwrap_or_else(|| RateRow { ask, cells: vec![None; kinds] })
    }

    pub(crate) fn caller(&self, secret: &str) -> Result<Caller, BadToken> {
        match self.job_tokens.job_of(secret) {
            Some(job) => self.caller_of_job(job).ok_or(BadToken::Unknown),
            None => self.credentials.caller(secret),
        }
    }

    /// A job's own code. It may still run when its job is over, and is told so.
    fn caller_of_job(&self, job: JobId) -> Option<Caller> {
        let live = self.book().jobs.get(&job).map(|record| record.spec.tenant);
        let past =
            || self.history(|store| store.past_job(job.0)).ok().flatten().map(|record: Record| record.spec.tenant);
        let tenant = live.or_else(past)?;
        Some(JobTokens::caller(job, self.book().tenants[tenant.index()].name.clone()))
    }

    /// Reads all tokens anew.
    pub(crate) fn load_tokens(&self) -> Result<(), StoreError> {
        self.credentials.load(&self.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The clock, and the entries that a start begins with: that the clock was set, and that the journal had lost its end.
fn first_entries(
    store: &mut Store,
    machine: &StateMachine,
    last: Option<Time>,
    options: &Options,
) -> Result<(Clock, Vec<Entry>), StoreError> {
    let mut entries = Vec::new();
    let clock = match Clock::resume(last, options.speed, options.accept_clock).map_err(StoreError::Refused)? {
        Resumption::Goes(clock, remark) => {
            remark.iter().for_each(|remark| tracing::warn!("{remark}"));
            clock
        }
        Resumption::Set(clock) => {
            entries.push(Entry::Input(Input::ClockSet));
            clock
        }
    };
    let shortfall = store.shortfall();
    let next_job = shortfall.next_job.max(machine.next_job);
    if shortfall.missing.is_some() || next_job > machine.next_job {
        let lost = shortfall.missing.as_ref().map(|lost| (*lost.start(), *lost.end()));
        tracing::warn!("jobs are numbered from {next_job} on: lesser numbers may have been given out already");
        entries.push(Entry::Resumed(Resumed { next_job, lost }));
    }
    store.expect_jobs_from(next_job);
    Ok((clock, entries))
}

/// Tokens of jobs, with the key beside the journal.
fn job_tokens(store: &Store) -> Result<JobTokens, StoreError> {
    let folder = store.path().parent().unwrap_or(std::path::Path::new("."));
    JobTokens::open(folder).map_err(|error| {
        StoreError::Refused(format!("the key of jobs' tokens in {} cannot be read: {error}", folder.display()))
    })
}

fn unavailable(code: &'static str, message: &str) -> Refusal {
    Refusal::unavailable(code, message, "try again in a second").retry_after(1.0)
}

/// A running service. Dropping it without [`Service::stop`] leaves the threads to the end of the process.
pub struct Service {
    shared: Arc<Shared>,
    event_loop: JoinHandle<Result<(), StoreError>>,
    /// Entries that were replayed at the start.
    pub replayed: u64,
}

impl Service {
    /// Brings the state back and starts all threads. The journal must have begun ([`Store::set_header`]).
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn start(mut store: Store, mut parts: Components, options: Options) -> Result<Self, StoreError> {
        let header = store.header()?.map(Arc::new).ok_or_else(|| {
            StoreError::Refused("the journal has no header; the program that opened it must write one first".into())
        })?;
        let recovered = StateMachine::recover(&store, &header, &mut |remark| tracing::warn!("{remark}"))?;
        let Recovered { machine, book, seq, replayed, differing } = recovered;
        if differing > 0 {
            tracing::warn!(
                "{differing} of {replayed} replayed entries led to other decisions than when they were written, by another version of arles; the next survey corrects what differs"
            );
        }
        let catalog = CatalogKeeper::open(&parts.catalog, &mut store, &book, seq - replayed..=seq)?;
        let estimator = (parts.estimator)(&catalog.shared().read()).map_err(StoreError::Refused)?;
        let kinds = book.cluster().kinds().iter().map(|kind| kind.name.clone()).collect();
        let term = options.term.as_ref().map_or(0, |term| term.number());
        if let Err(error) = parts.engine.lead(&Mandate { journal: store.journal_id()?, kinds, term }) {
            tracing::warn!(%error, "the engine obeys another daemon; trying again");
        }
        let last = (seq > 0).then_some(book.now.max(machine.scheduler.now()));
        let (clock, first_entries) = first_entries(&mut store, &machine, last, &options)?;
        let (inbox, messages) = mpsc::channel();
        let (last_event, _) = tokio::sync::watch::channel(book.last_event);
        let shared = Arc::new(Shared {
            book: RwLock::new(book),
            header,
            clock,
            gauges: Gauges::default(),
            progress: progress::Gatherer::default(),
            options,
            engine_name: parts.engine_name,
            abilities: parts.engine.abilities(),
            output: parts.engine.output(),
            estimator_name: parts.estimator_name,
            inbox,
            state: AtomicU8::new(ServiceState::Starting as u8),
            last_event,
            lanes: Lanes::default(),
            forecasts: Seats::new(FORECASTS),
            forecast_pace: Pace::default(),
            submit_pace: Pace::default(),
            readers: Mutex::new(Vec::new()),
            tokens: Mutex::new(store.side_writer()?),
            catalog: Arc::clone(catalog.shared()),
            credentials: Credentials::default(),
            job_tokens: job_tokens(&store)?,
            threads: Threads::default(),
            estimator: Mutex::new(None),
        });
        shared.gauges.differing.set(differing);
        shared.load_tokens()?;
        let engine = engine_worker::start(parts.engine, Arc::clone(&shared));
        let solver = workers::start_solver(Arc::clone(&shared));
        let estimator = workers::start_estimator(estimator, catalog, Arc::clone(&shared));
        *shared.estimator.lock().unwrap_or_else(PoisonError::into_inner) = Some(estimator.clone());
        let snapshotter = snapshotter::start(store.side_writer()?, Arc::clone(&shared));
        let reasons = reasons::start(Arc::clone(&shared));
        let event_loop = event_loop::EventLoop::new(Arc::clone(&shared), store, machine, seq, first_entries);
        let event_loop =
            event_loop.start(messages, event_loop::Workers { engine, solver, estimator, snapshotter, reasons });
        Ok(Self { shared, event_loop, replayed })
    }

    /// A way in.
    #[must_use]
    pub fn desk(&self) -> Desk {
        Desk::new(Arc::clone(&self.shared))
    }

    /// Whether the loop has ended by itself, which it does only when the journal cannot be written.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.event_loop.is_finished()
    }

    /// A thread that has panicked, if one has: the service is to be stopped then, and the process to end.
    #[must_use]
    pub fn dead_thread(&self) -> Option<&'static str> {
        self.shared.threads.dead().next().map(threads::Thread::name)
    }

    /// How long ago the event loop began its last pass. It passes at least every second or so, unless a step takes longer.
    #[must_use]
    pub fn since_last_pass(&self) -> std::time::Duration {
        self.shared.gauges.last_pass.age()
    }

    /// Current time on the scheduler's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// Finishes what is under way, writes a snapshot, and ends.
    ///
    /// # Errors
    /// When the journal could not be written.
    pub fn stop(self) -> Result<(), StoreError> {
        self.shared.set_state(ServiceState::Stopping);
        // Before the loop closes the journal: nothing may be written after that.
        let mut store = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.shared.credentials.write_last_use(&mut store) {
            crate::store::log_error(&error);
        }
        drop(store);
        let _ = self.shared.inbox.send(Message::Stop);
        self.event_loop
            .join()
            .unwrap_or_else(|_| Err(StoreError::Refused("the event loop panicked; see the log".into())))
    }
}
