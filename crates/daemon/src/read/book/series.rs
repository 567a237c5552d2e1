//! Looking back: what the cluster did, kept at decreasing resolution.
//!
//! At every round the present values are counted for the time since the last one, into one open bucket of each resolution. A bucket that is
//! over becomes a row of history, and rows that are older than their resolution is kept for are dropped with it:
//!
//!   a minute   for six hours
//!   ten min    for a week
//!   an hour    for a year
//!
//! Sums are times seconds, so that two buckets add up to one and means are exact for values that change at rounds only.

use super::{Book, TenantTotals};
use crate::store::HistoryRow;
use arles_api::JobState;
use arles_core::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A bucket's length and how long such buckets are kept, in seconds, finest first.
pub(crate) const RESOLUTIONS: [(u64, u64); 3] = [(60, 6 * 3600), (600, 7 * 86_400), (3600, 366 * 86_400)];

/// Tenants of a bucket that are told apart; the rest of a very large number is left out.
const MOST_TENANTS: usize = 256;

/// What happened in a stretch of time: everything but `seconds` is multiplied by seconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Bucket {
    /// Start of the stretch.
    pub(crate) from: Time,
    /// Seconds that were counted.
    pub(crate) seconds: f64,
    /// GPUs in use, by kind.
    pub(crate) busy: Vec<f64>,
    /// GPUs that could be used, by kind.
    pub(crate) usable: Vec<f64>,
    /// Draw of all GPUs.
    pub(crate) watts: f64,
    /// Jobs that waited.
    pub(crate) waiting: f64,
    /// Jobs that held GPUs.
    pub(crate) running: f64,
    /// GPUs held, by tenant.
    pub(crate) tenants: BTreeMap<u32, f64>,
    /// Strongest envy and lowest sharing ratio of the decision in force, and the seconds in which there was one.
    pub(crate) envy: f64,
    pub(crate) sharing: f64,
    pub(crate) judged: f64,
}

impl Bucket {
    /// Counts another in.
    pub(crate) fn add(&mut self, other: &Self) {
        let sum = |own: &mut Vec<f64>, more: &[f64]| {
            own.resize(own.len().max(more.len()), 0.0);
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        };
        self.seconds += other.seconds;
        sum(&mut self.busy, &other.busy);
        sum(&mut self.usable, &other.usable);
        self.watts += other.watts;
        self.waiting += other.waiting;
        self.running += other.running;
        self.envy += other.envy;
        self.sharing += other.sharing;
        self.judged += other.judged;
        for (&tenant, gpus) in &other.tenants {
            *self.tenants.entry(tenant).or_default() += gpus;
        }
    }
}

/// The buckets that are still open.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Series {
    /// Until when everything is counted.
    pub(crate) until: Option<Time>,
    /// In the order of [`RESOLUTIONS`].
    pub(crate) open: [Bucket; 3],
}

impl Book {
    /// Counts the time since the last call at the values of now.
    pub(super) fn sample(&mut self, at: Time) {
        let Some(from) = self.series.until.replace(at) else {
            for (bucket, (length, _)) in self.series.open.iter_mut().zip(RESOLUTIONS) {
                bucket.from = start_of(at, length);
            }
            return;
        };
        let seconds = at.since(from);
        if seconds <= 0.0 {
            return;
        }
        let now = self.present(seconds);
        for (bucket, (length, keep)) in self.series.open.iter_mut().zip(RESOLUTIONS) {
            let start = start_of(at, length);
            if start > bucket.from {
                if bucket.seconds > 0.0 {
                    let facts = serde_json::to_string(bucket).expect("plain data");
                    let at = bucket.from;
                    self.rows.push(HistoryRow::Point { resolution: length, at, keep, facts });
                }
                *bucket = Bucket { from: start, ..Bucket::default() };
            }
            bucket.add(&now);
        }
    }

    /// The values of now, for so many seconds.
    fn present(&self, seconds: f64) -> Bucket {
        let kinds = self.totals.kinds.len();
        let mut now = Bucket { seconds, busy: vec![0.0; kinds], usable: vec![0.0; kinds], ..Bucket::default() };
        for holding in &self.holding {
            for (sum, gpus) in now.busy.iter_mut().zip(&holding.gpus) {
                *sum += gpus * seconds;
            }
        }
        for (node, status) in self.cluster().nodes().iter().zip(&self.nodes) {
            if status.reachable && !node.removed && status.drain.is_none() {
                let gpus = f64::from(node.gpus) - status.lost_gpus.len() as f64;
                now.usable[node.kind.index()] += gpus * seconds;
            }
        }
        now.watts = self.all_watts * seconds;
        let live = |line: &TenantTotals, waiting: bool| {
            let waits = line.live[JobState::Waiting as usize];
            if waiting { waits } else { line.live.iter().sum::<u64>() - waits }
        };
        now.waiting = self.tenants.iter().map(|line| live(line, true)).sum::<u64>() as f64 * seconds;
        now.running = self.tenants.iter().map(|line| live(line, false)).sum::<u64>() as f64 * seconds;
        for (tenant, line) in self.tenants.iter().enumerate().take(MOST_TENANTS).filter(|(_, line)| line.gpus > 0.0) {
            now.tenants.insert(tenant as u32, line.gpus * seconds);
        }
        if let Some(decision) = self.decision.as_ref().filter(|decision| !decision.shares.is_empty()) {
            let envies = decision.shares.iter().flat_map(|share| share.envy.iter().copied());
            now.envy = envies.fold(1.0, f64::max) * seconds;
            now.sharing = decision.shares.iter().map(|share| share.sharing).fold(f64::MAX, f64::min) * seconds;
            now.judged = seconds;
        }
        now
    }
}

/// The start of the stretch of this length that a moment is in.
fn start_of(at: Time, length_seconds: u64) -> Time {
    let length = length_seconds * 1_000_000;
    Time(at.0 / length * length)
}
