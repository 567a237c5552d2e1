//! How long jobs of a workload ran that had no number of steps: what the next one is expected to take.
//!
//! Of each workload and gang size the last [`KEPT`] completed runs are kept, in seconds of the kind that is fastest for them by the
//! estimates of that time; what is expected of the next is their median. A guess to plan with, never a promise.

use super::Book;
use crate::read::book::Record;
use arles_core::estimate::RateQuery;
use arles_core::{KindId, WorkloadId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Runs that are kept of one workload and gang size.
const KEPT: usize = 16;

/// Seconds of completed runs, by workload and gang size.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Runs(#[serde(with = "super::pairs")] BTreeMap<(u32, u32), VecDeque<f64>>);

impl Runs {
    pub(super) fn add(&mut self, workload: WorkloadId, gang: u32, seconds: f64) {
        let runs = self.0.entry((workload.0, gang)).or_default();
        if runs.len() == KEPT {
            runs.pop_front();
        }
        runs.push_back(seconds);
    }

    /// The median of the last runs, and of how many.
    pub(crate) fn expected(&self, workload: WorkloadId, gang: u32) -> Option<(f64, usize)> {
        let mut runs: Vec<f64> = self.0.get(&(workload.0, gang))?.iter().copied().collect();
        runs.sort_by(f64::total_cmp);
        let n = runs.len();
        (n > 0).then(|| ((runs[(n - 1) / 2] + runs[n / 2]) / 2.0, n))
    }
}

impl Book {
    /// Speed of a workload on a kind as a part of its speed on its fastest one, by the estimates; 1 where nothing is known.
    pub(crate) fn relative_speed(&self, ask: &RateQuery, kind: KindId) -> f64 {
        let Some(row) = self.estimates.get(ask) else { return 1.0 };
        let fastest = row.cells.iter().flatten().map(|cell| cell.rate).fold(0.0, f64::max);
        let own = row.cells.get(kind.index()).copied().flatten().map_or(0.0, |cell| cell.rate);
        if own > 0.0 && fastest > 0.0 { own / fastest } else { 1.0 }
    }

    /// Seconds of its fastest kind that a job has run, as far as the meters tell.
    pub(crate) fn served_seconds(&self, record: &Record) -> f64 {
        let seconds = record.gpu_seconds / f64::from(record.gang().max(1));
        let ask = RateQuery { workload: record.spec.workload, gang: record.gang(), partner: None };
        record.last_kind.map_or(seconds, |kind| seconds * self.relative_speed(&ask, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_the_median_of_the_last_runs() {
        let mut runs = Runs::default();
        let (workload, gang) = (WorkloadId(3), 2);
        assert_eq!(runs.expected(workload, gang), None);
        runs.add(workload, gang, 100.0);
        assert_eq!(runs.expected(workload, gang), Some((100.0, 1)));
        runs.add(workload, gang, 300.0);
        assert_eq!(runs.expected(workload, gang), Some((200.0, 2)));
        assert_eq!(runs.expected(workload, 1), None, "another gang is another matter");
        (0..KEPT).for_each(|_| runs.add(workload, gang, 50.0));
        assert_eq!(runs.expected(workload, gang), Some((50.0, KEPT)), "old runs are forgotten");
        let text = serde_json::to_string(&runs).expect("plain data");
        assert_eq!(serde_json::from_str::<Runs>(&text).expect("the same"), runs);
    }
}
