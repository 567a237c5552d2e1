//! Host times without information from published rates.

use arles_core::{Library, Workload};

/// Used where the library has no other row of the domain.
const DEFAULT_SECONDS: f64 = 0.02;

/// The workload with a host time guessed without its measurements: the median of its domain and mode among those rows of the
/// library that are no published measurement (those have the names of their publication as aliases).
#[must_use]
pub fn without_host_time(workload: &Workload, library: &Library) -> Workload {
    let strangers = library.workloads().iter().filter(|w| w.aliases.is_empty());
    let alike = strangers.filter(|w| w.domain == workload.domain && w.mode == workload.mode);
    let mut times: Vec<f64> = alike.map(|w| w.host_seconds).collect();
    times.sort_by(f64::total_cmp);
    let host_seconds = times.get(times.len() / 2).copied().unwrap_or(DEFAULT_SECONDS);
    Workload { host_seconds, ..workload.clone() }
}
