//! When a job will end, as far as that can be said, and what cannot be promised about it.
//!
//! With its work W, what is done of it D and its rate r:
//!
//!   steps   now + (W − D) / r        measured rate, else estimated
//!   period  now + W − seconds run
//!   open    now + (E − S) / v        E: median of earlier runs, S: seconds served, both on the fastest kind; v: speed relative to it
//!
//! All of them hold only as long as the job keeps the GPUs that it holds.

use crate::read::book::{Book, Record};
use arles_api::JobState;
use arles_core::estimate::RateQuery;
use arles_core::{Time, Work};

/// Longer than this is nothing that anybody can estimate.
const MOST_SECONDS: f64 = 1e9;

/// The estimated end, and a sentence about what it rests on, or why there is none.
pub(super) fn of(book: &Book, record: &Record, now: Time) -> (Option<f64>, Option<String>) {
    if record.state.over() {
        return (None, None);
    }
    let run_seconds = record.gpu_seconds / f64::from(record.gang().max(1));
    // A task of an array is submitted before the first of them has ended, and learns from it all the same.
    let earlier = book.runs.expected(record.spec.workload, record.gang()).map(|(seconds, _)| seconds);
    let (left, mut promise) = match (record.state, record.spec.work) {
        (JobState::Running, Work::Steps(steps)) => by_steps(book, record, steps),
        (JobState::Running, Work::Period(seconds)) => {
            (Some((seconds - run_seconds).max(0.0)), "if it keeps its GPUs".to_owned())
        }
        (JobState::Running, Work::Open(expected)) => by_earlier_runs(book, record, earlier.or(expected)),
        (_, Work::Open(None)) if earlier.is_none() => {
            (None, "no steps given and no earlier run: end unknown".to_owned())
        }
        _ => (None, "not running: end unknown".to_owned()),
    };
    let mut left = left.filter(|left| left.is_finite() && *left < MOST_SECONDS);
    if let Some(limit) = record.spec.time_limit_seconds {
        let rest = (limit - run_seconds).max(0.0);
        promise += &format!("; stopped after {} in all", span(limit));
        if record.state == JobState::Running && left.is_some_and(|left| left > rest) {
            left = Some(rest);
        }
    }
    (left.map(|left| now.seconds() + left), Some(promise))
}

fn by_steps(book: &Book, record: &Record, steps: f64) -> (Option<f64>, String) {
    let left = (steps - record.steps).max(0.0);
    match (record.rate, book.expected_rate(record)) {
        (Some(rate), _) if rate > 0.0 => (Some(left / rate), "at its measured rate, if it keeps its GPUs".into()),
        (_, Some(rate)) if rate > 0.0 => (Some(left / rate), "at its estimated rate, if it keeps its GPUs".into()),
        _ => (None, "its rate is not known: end unknown".into()),
    }
}

fn by_earlier_runs(book: &Book, record: &Record, expected: Option<f64>) -> (Option<f64>, String) {
    let silent = if record.said.is_none() { "no progress reported" } else { "no number of steps given" };
    let Some(expected) = expected else { return (None, format!("{silent} and no earlier run: end unknown")) };
    let served = book.served_seconds(record);
    if served > expected {
        return (None, format!("{silent}; has run longer than earlier runs ({}): end unknown", span(expected)));
    }
    let ask = RateQuery { workload: record.spec.workload, gang: record.gang(), partner: None };
    let speed = record.last_kind.map_or(1.0, |kind| book.relative_speed(&ask, kind));
    let known = book.runs.expected(record.spec.workload, record.gang()).map_or(0, |(_, runs)| runs);
    let runs = if known == 1 { "one earlier run".to_owned() } else { format!("{known} earlier runs") };
    (Some((expected - served) / speed), format!("{silent}; as long as {runs} of this workload took, not promised"))
}

/// A span of time for people.
fn span(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 => format!("{seconds:.0} s"),
        1..=119 => format!("{minutes} min"),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}
