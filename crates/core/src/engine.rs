//! Engines: clusters that obey orders and can be looked at.
//!
//! An engine is dumb and level-triggered. It does what it is ordered, says what is there, and remembers nothing that
//! could not be surveyed again. Calls block; whoever drives an engine gives it a thread of its own, and brings the time: an
//! engine on real machines has no use for it, a virtual one has no other clock.
//!
//! What an engine owes the scheduler is said at each message ([`Order`], [`Survey`], [`GangReport`]). What it owes the
//! ledger: counters only grow, and when they begin anew (the engine lost its memory) [`Meters::boot`] is another number.

mod mend;
mod parts;

use crate::estimate::Observation;
use crate::meter::{Charge, Draw};
use crate::scheduler::{GangReport, Order, Survey};
use crate::{Cluster, GpuId, JobId, JobSpec, NodeSpec, Time};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A job that is not over, as an engine must know it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LiveJob {
    /// As submitted.
    pub spec: JobSpec,
    /// Steps known to be safe: where a gang goes on if the engine itself does not know better.
    pub steps_done: f64,
}

/// An engine's answer to an order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderReply {
    /// Nothing is known yet; a report or a survey will say.
    Pending,
    /// It is done, and this came of it.
    Reported(GangReport),
    /// It cannot be done, and never will be.
    Refused(String),
}

/// What came of an order that was tried: an event at once, nothing yet, or why it cannot be done.
impl From<Result<Option<GangReport>, String>> for OrderReply {
    fn from(tried: Result<Option<GangReport>, String>) -> Self {
        match tried {
            Ok(Some(report)) => Self::Reported(report),
            Ok(None) => Self::Pending,
            Err(why) => Self::Refused(why),
        }
    }
}

/// How an engine differs from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Gangs may have any size that their job allows. Where somebody else's queue says how large a job is, they cannot.
    pub resizes_gangs: bool,
    /// Users of the cluster hear from it why their gang had to go.
    pub tells_users: bool,
}

impl Default for Abilities {
    fn default() -> Self {
        Self { resizes_gangs: true, tells_users: false }
    }
}

/// Counters of one job since [`Meters::boot`].
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobMeter {
    /// The job that is charged.
    pub job: JobId,
    /// Energy.
    pub charge: Charge,
    /// GPU seconds held.
    pub gpu_seconds: f64,
    /// All steps of the job that are done, safe or not.
    pub steps: f64,
    /// Steps per second now; 0 while it does not run.
    pub rate: f64,
}

/// Counters of all GPUs of one kind since [`Meters::boot`].
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct KindMeter {
    /// Energy of GPUs while jobs held them: what the charges of all jobs add up to.
    pub used: Draw,
    /// Energy of GPUs that nobody held.
    pub unused_joules: f64,
    /// Seconds that GPUs were held.
    pub busy_gpu_seconds: f64,
}

impl KindMeter {
    /// Counts what one GPU drew in so many seconds, held by somebody or by nobody.
    pub fn count(&mut self, held: bool, draw: Draw, seconds: f64) {
        if held {
            self.used.idle_joules += draw.idle_joules;
            self.used.active_joules += draw.active_joules;
            self.busy_gpu_seconds += seconds;
        } else {
            self.unused_joules += draw.idle_joules + draw.active_joules;
        }
    }
}

/// What the meters show at one moment. The default is no reading at all.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Meters {
    /// Another number whenever the counters began anew.
    pub boot: u64,
    /// Jobs that hold GPUs, or did since the last look.
    pub jobs: Vec<JobMeter>,
    /// By kind.
    pub kinds: Vec<KindMeter>,
    /// Present draw of every GPU.
    pub gpu_watts: Vec<f32>,
}

/// Everything that one look at a cluster shows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EngineReport {
    /// Nodes and gangs, for the scheduler.
    pub survey: Survey,
    /// What it has drawn.
    pub meters: Meters,
    /// What ran undisturbed since the last look, measured.
    pub observations: Vec<Observation>,
    /// The nodes that there are, for an engine that finds them itself; `None` for one that has those it was told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Vec<NodeSpec>>,
    /// All GPUs of the cluster that cannot be used now, for an engine that looks at each; `None` for one that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_gpus: Option<Vec<LostGpu>>,
}

/// A GPU that the cluster has and nobody can use: it fell off the bus, say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostGpu {
    /// Counted through the whole cluster.
    pub gpu: GpuId,
    /// A sentence for operators.
    pub why: String,
}

/// One of the two things that a program prints to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OutputStream {
    /// Standard output, and standard error with it unless that has a file of its own.
    #[default]
    Stdout,
    /// Standard error, where it has a file of its own.
    Stderr,
}

/// A stretch of what a job printed. Bytes are counted from the first that the job ever printed, those that are no longer kept included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutputChunk {
    /// The first byte that is still kept.
    pub oldest: u64,
    /// Where `bytes` begins: where the question asked, or later if that is not kept.
    pub from: u64,
    /// What was printed from there on.
    pub bytes: Vec<u8>,
    /// How much was printed in all, so far.
    pub end: u64,
}

/// What programs printed, for an engine that keeps it. Asked from many threads at once, and never waits for the engine.
pub trait JobOutput: Send + Sync {
    /// At most so many bytes of what a job printed, from this byte on; nothing of a job that has not printed yet.
    ///
    /// # Errors
    /// A sentence, when the output cannot be read.
    fn read(&self, job: JobId, stream: OutputStream, from: u64, most: usize) -> Result<OutputChunk, String>;
}

/// An engine that cannot be talked to now. Nothing is known about what it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineError(pub String);

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EngineError {}

/// On whose behalf an engine is driven.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mandate {
    /// The journal's id; empty for a driver that has none, such as a test.
    pub journal: String,
    /// Names of the kinds of GPUs in the journal's cluster.
    pub kinds: Vec<String>,
    /// Number of the leader's term: whoever leads later has a higher one. 0 where one daemon has its state folder to itself.
    pub term: u64,
}

/// A cluster that obeys.
pub trait Engine: Send {
    /// Says on whose behalf all further calls are made; called before any other. An engine that several drivers can reach obeys one at a time:
    /// a later term of the same journal at once, and everybody else only when the one before has gone.
    ///
    /// # Errors
    /// When the engine cannot be talked to, or obeys another.
    fn lead(&mut self, _mandate: &Mandate) -> Result<(), EngineError> {
        Ok(())
    }

    /// Whether the engine has said that it obeys a later term: it will never again do what this driver orders.
    fn deposed(&self) -> bool {
        false
    }

    /// Says what the cluster is: the numbers of nodes and GPUs that orders and surveys use. Called at the beginning and after every
    /// change, before any order that follows from it. Twice is once.
    ///
    /// # Errors
    /// When the engine cannot be talked to.
    fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<(), EngineError>;

    /// Says which jobs are not over, all of them: jobs that the engine knows and that are not among them are
    /// forgotten, and their last meters come back. Called at the beginning, and whenever the driver is in doubt.
    ///
    /// # Errors
    /// When the engine cannot be talked to.
    fn sync_jobs(&mut self, now: Time, live: &[LiveJob]) -> Result<Vec<JobMeter>, EngineError>;

    /// Makes a new job known, before any order about it. Twice is once.
    ///
    /// # Errors
    /// When the engine cannot be talked to.
    fn add_job(&mut self, now: Time, job: &LiveJob) -> Result<(), EngineError>;

    /// Forgets a job that is over; its last meters come back, if it is known.
    ///
    /// # Errors
    /// When the engine cannot be talked to.
    fn remove_job(&mut self, now: Time, job: JobId) -> Result<Option<JobMeter>, EngineError>;

    /// Does what is ordered. Doing it twice is the same as doing it once.
    ///
    /// # Errors
    /// When the engine cannot be talked to; the order may have been done.
    fn apply(&mut self, now: Time, order: &Order) -> Result<OrderReply, EngineError>;

    /// What happened by itself since the last call. Hints: a survey shows the same, later.
    ///
    /// # Errors
    /// When the engine cannot be talked to.
    fn poll(&mut self, now: Time) -> Result<Vec<GangReport>, EngineError>;

    /// When something will next happen by itself, as far as the engine can know.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Looks at everything. `asked_at` is [`Scheduler::now`](crate::Scheduler::now) as of the question.
    ///
    /// # Errors
    /// When the engine cannot be talked to.
    fn survey(&mut self, now: Time, asked_at: Time) -> Result<EngineReport, EngineError>;

    /// What this engine can do besides what every engine can, and what it cannot. It never changes.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Says in a sentence why the gang of a job is about to be told to go. Called before that order, and only where [`Abilities::tells_users`] says so.
    fn explain_stop(&mut self, _job: JobId, _why: &str) {}

    /// What programs print; `None` from an engine that does not keep it.
    fn output(&self) -> Option<Arc<dyn JobOutput>> {
        None
    }
}
