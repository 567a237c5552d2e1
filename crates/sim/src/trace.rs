//! Traces: the jobs that arrive at a virtual cluster.
//!
//! A trace names its tenants, workloads and kinds once and refers to them by index, so that a million jobs
//! stay small. It comes from our own CSV ([`csv`]), from a published trace ([`import`]) or from a seed
//! ([`generate`]); all three hand over the whole of it, checked, or an error that says where the file is wrong.

pub mod csv;
mod draft;
mod fields;
pub mod generate;
pub mod import;
mod mix;

pub use mix::{Mix, OptionError};

use arles_core::Tenant;
use std::fmt;

/// How long a job is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Length {
    /// A number of steps.
    Steps(f64),
    /// As many steps as the job does in this many seconds alone on the reference kind.
    Duration(f64),
    /// A span of service in seconds, counted from the first start.
    Period(f64),
}

/// The rate a job was promised.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Floor {
    /// Steps per second of the whole gang.
    Rate(f64),
    /// A fraction of the gang's rate alone on the reference kind.
    Fraction(f64),
}

/// A submission at its time, before it is known how fast it runs.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceJob {
    /// Unique in the trace.
    pub id: u64,
    /// Index into [`Trace::tenants`].
    pub tenant: u32,
    /// Index into [`Trace::workloads`].
    pub workload: u32,
    /// GPUs held at once; of an elastic job, the fewest.
    pub gang: u32,
    /// The most GPUs that an elastic job can use.
    pub largest_gang: Option<u32>,
    /// When it is submitted; never before the job above it.
    pub arrival_seconds: f64,
    /// Work until it completes.
    pub length: Length,
    /// What it was promised, if anything.
    pub floor: Option<Floor>,
    /// Importance relative to its tenant's other jobs.
    pub weight: f64,
    /// Seconds lost at every start after the first; `None` leaves it to the simulation's default.
    pub restart_seconds: Option<f64>,
    /// When it must have ended; until then it may wait for cheaper electricity.
    pub before_seconds: Option<f64>,
    /// Indices into [`Trace::kinds`] it may run on; empty means any.
    pub kinds: Vec<u16>,
}

/// A checked list of jobs in order of arrival.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trace {
    /// Tenants with their weights.
    pub tenants: Vec<Tenant>,
    /// Names of workloads, resolved against a library or a rate table when the trace is run.
    pub workloads: Vec<String>,
    /// Names of kinds that some job is restricted to.
    pub kinds: Vec<String>,
    /// The jobs, in order of arrival.
    pub jobs: Vec<TraceJob>,
}

/// Why a trace was refused: a sentence, and where in the file it went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The file, as the user named it.
    pub origin: String,
    /// Line, from 1; 0 when the fault is the file's as a whole.
    pub line: usize,
    /// Column in characters, from 1; 0 when the fault is the file's as a whole.
    pub column: usize,
    /// What is wrong, what was expected and what to do.
    pub message: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.origin, self.message),
            line => write!(f, "{}:{line}:{}: {}", self.origin, self.column, self.message),
        }
    }
}

impl std::error::Error for TraceError {}
