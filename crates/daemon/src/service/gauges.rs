//! What is measured of the daemon itself: how long things take, and how often they happen.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Upper bounds of the buckets of a histogram, in seconds.
pub(crate) const CLASSES: [f64; 14] =
    [0.0001, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// A histogram of durations.
#[derive(Default)]
pub struct Histogram {
    inner: Mutex<Classes>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Classes {
    pub(crate) counts: [u64; CLASSES.len()],
    pub(crate) count: u64,
    pub(crate) sum: f64,
}

impl Histogram {
    /// Adds one duration.
    pub fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(class) = CLASSES.iter().position(|&end| seconds <= end) {
            inner.counts[class] += 1;
        }
        inner.count += 1;
        inner.sum += seconds;
    }

    pub(crate) fn read(&self) -> Classes {
        *self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A number that only grows, or the last of its kind.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Takes away from it what was added before.
    pub fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    /// Replaces the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Log lines that could not be written, or that nobody read in time. A process has one log, whatever else it has several of.
pub static LOST_LOG_LINES: Count = Count::new();
/// When something last happened, by a clock that never jumps.
pub struct Moment {
    origin: Instant,
    micros: AtomicU64,
}

impl Default for Moment {
    fn default() -> Self {
        Self { origin: Instant::now(), micros: AtomicU64::new(0) }
    }
}

impl Moment {
    /// It happens now.
    pub fn mark(&self) {
        self.micros.store(self.origin.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// How long ago it happened, or that this began if it never did.
    pub fn age(&self) -> Duration {
        self.origin.elapsed().saturating_sub(Duration::from_micros(self.micros.load(Ordering::Relaxed)))
    }
}

/// Everything that the daemon measures of itself; `read/metrics.rs` prints it.
#[derive(Default)]
pub struct Gauges {
    /// Run time of the policy's solver.
    pub solve: Histogram,
    /// One step of the scheduler.
    pub step: Histogram,
    /// One pass of the event loop, from the first thing that it took up.
    pub pass: Histogram,
    /// One commit of the journal, sync included.
    pub commit: Histogram,
    /// From a request's arrival in the loop's inbox to its acknowledgement.
    pub acknowledge: Histogram,
    /// One call of the engine.
    pub engine: Histogram,
    /// One HTTP request.
    pub request: Histogram,
    /// HTTP responses by status class: 1xx to 5xx.
    pub answers: [Count; 5],
    /// Progress reports of jobs' own code.
    pub progress_reports: Count,
    /// Entries written since the start.
    pub entries: Count,
    /// Entries since the last snapshot.
    pub entries_since_snapshot: Count,
    /// Bytes of the last snapshot.
    pub snapshot_bytes: Count,
    /// Snapshots written.
    pub snapshots: Count,
    /// Failed engine calls.
    pub engine_errors: Count,
    /// Things that the engine said and that cannot be.
    pub engine_nonsense: Count,
    /// 1 while the engine responds, 0 otherwise.
    pub engine_up: Count,
    /// The event loop's last pass.
    pub last_pass: Moment,
    /// Requests queued for the event loop.
    pub inbox: Count,
    /// Open event streams.
    pub listeners: Count,
    /// Microseconds that the policy's solver last took.
    pub last_solve_micros: Count,
    /// Entries whose digest differed when they were replayed.
    pub differing: Count,
}
