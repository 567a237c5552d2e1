//! The table of estimators: `--estimator`, `arles estimators` and the evaluation all come from here.

use crate::{Catalog, completion, learned, mean, nearest, perf_model, process, published, scaled, stacked, stated};
use arles_core::estimate::Estimator;
use arles_core::{Kind, Workload};

/// A workload that estimates are wanted of.
#[derive(Clone, PartialEq, Debug)]
pub struct Subject {
    /// As the catalog knows it.
    pub name: String,
    /// What it is made of; `None` where nobody said.
    pub features: Option<Workload>,
}

/// What an estimator is made for. Ids in questions are indices into these lists.
pub struct Setting<'a> {
    /// By [`KindId`](arles_core::KindId).
    pub kinds: &'a [Kind],
    /// By [`WorkloadId`](arles_core::WorkloadId).
    pub workloads: &'a [Subject],
    /// What is known. Cells of workloads that are not among `workloads` count as well: others are like them.
    pub catalog: &'a Catalog,
    /// The same seed, the same estimates to the bit.
    pub seed: u64,
    /// Told now and then which part of the training is done, 0 to 1.
    pub progress: &'a dyn Fn(f64),
}

/// Why an estimator cannot be made for a setting: a whole sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct EstimatorError(pub String);

/// One line of the table.
pub struct EstimatorEntry {
    /// As given to `--estimator`.
    pub name: &'static str,
    /// One line for `arles estimators`.
    pub summary: &'static str,
    /// Makes one, trained on what the catalog holds.
    pub make: fn(&Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError>,
}

/// What `--estimator` takes: one line each, one file each.
pub static ESTIMATORS: &[EstimatorEntry] = &[
    EstimatorEntry {
        name: "stated",
        summary: "rates as stated by submitters; kinds count as equal where nothing is stated; no pairs",
        make: stated::make,
    },
    EstimatorEntry {
        name: "mean",
        summary: "mean of all measured workloads, shifted by the measurements of this one",
        make: mean::make,
    },
    EstimatorEntry {
        name: "nearest",
        summary: "copy of the most similar measured workload, shifted by the measurements of this one",
        make: nearest::make,
    },
    EstimatorEntry {
        name: "completion",
        summary: "low-rank completion of the matrix of measured pairs, as in Gavel; ignores features",
        make: completion::make,
    },
    EstimatorEntry {
        name: "model",
        summary: "the performance model: rates from features; does not learn",
        make: perf_model::make,
    },
    EstimatorEntry {
        name: "learned-rnn-ff",
        summary: "the published pair of networks: recurrent initial estimate, feed-forward correction",
        make: published::recurrent,
    },
    EstimatorEntry {
        name: "learned-ff-ff",
        summary: "the same with a feed-forward initial estimate",
        make: published::forward,
    },
    EstimatorEntry {
        name: "process",
        summary: "Gaussian process over all measured cells, the model as its prior mean; any feature may be missing",
        make: process::make,
    },
    EstimatorEntry {
        name: "stacked",
        summary: "Gaussian processes over what attention leaves of pairs, and over rates alone; any feature may be missing",
        make: stacked::make,
    },
    EstimatorEntry {
        name: "learned",
        summary: "attention over the catalog, bounded correction by measurements, calibrated standard error; recommended",
        make: learned::make,
    },
];

/// What `arles learn eval` knows beside [`ESTIMATORS`]: rules of thumb to compare with, and `learned` with one thing done otherwise.
pub static REFERENCES: &[EstimatorEntry] = &[
    EstimatorEntry { name: "by-flops", summary: "rates in proportion to peak arithmetic", make: scaled::by_flops },
    EstimatorEntry {
        name: "by-bandwidth",
        summary: "rates in proportion to memory bandwidth",
        make: scaled::by_bandwidth,
    },
    EstimatorEntry { name: "roofline", summary: "the slower of arithmetic and memory traffic", make: scaled::roofline },
    EstimatorEntry {
        name: "constant-ratio",
        summary: "mean ratio between kinds of all measured workloads",
        make: scaled::constant_ratio,
    },
    EstimatorEntry { name: "learned-p1", summary: "learned without corrections", make: learned::uncorrected },
    EstimatorEntry {
        name: "learned-few",
        summary: "learned, corrected by the four measurements that say most",
        make: learned::few,
    },
    EstimatorEntry {
        name: "learned-frozen",
        summary: "learned, its first estimate from the catalog alone",
        make: learned::frozen,
    },
    EstimatorEntry {
        name: "learned-kinds",
        summary: "learned, always corrected by other kinds too",
        make: learned::all_kinds,
    },
];

/// Looks an estimator up by name.
#[must_use]
pub fn find_estimator(name: &str) -> Option<&'static EstimatorEntry> {
    ESTIMATORS.iter().find(|e| e.name == name)
}
