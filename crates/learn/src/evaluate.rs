//! Errors of estimators on workloads they have never seen, queried through the trait used in production.
//!
//! **A fold** holds one workload out (*leave-workload-out*) or all batch sizes of a model (*leave-family-out*): every cell that
//! names one of them, on either side and on every kind, leaves the catalog. An estimator is made from what is left; then each
//! held-out workload in turn is observed a little (a [`ObservationPlan`]) by a fork of it, and every cell that was not observed is asked
//! for and compared:
//!
//! - *solo*: steps/s on one GPU;
//! - *pair*: the rate beside a partner over the rate alone on the same kind, of the newcomer (over the estimator's own figure
//!   alone) and of its partner (over the partner's measured one). Partners are workloads that the catalog still has.
//!
//! An error is |estimate/truth − 1|. Cells that do not fit (rate 0) count for nothing; nor do those that an estimator refuses
//! because the features say they do not fit: they are counted as `refused`.
//!
//! **Withheld**: the library's `host_seconds` of published workloads were set with their published rates in mind. In an
//! evaluation every workload has instead the median of its domain and mode among the library's other rows, for all
//! estimators.
//!
//! Observations are drawn from the seed, the workload and the number of the draw alone, so all estimators see the same; folds
//! run on several threads and are put together in order, so the bytes do not depend on how many.

mod fold;
mod host_time;
mod score;

use crate::catalog::{Catalog, Key};
use crate::table::{EstimatorEntry, EstimatorError, Subject};
use arles_core::estimate::Source;
use arles_core::{Kind, Library, Workload};
pub use host_time::without_host_time;
pub use score::Score;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a fold holds out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// One workload: a new batch size of a model that may be known.
    LeaveWorkloadOut,
    /// All batch sizes of a model.
    LeaveFamilyOut,
}

impl Split {
    /// Both splits.
    pub const ALL: [Split; 2] = [Split::LeaveWorkloadOut, Split::LeaveFamilyOut];

    /// As given to `--split`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Split::LeaveWorkloadOut => "leave-workload-out",
            Split::LeaveFamilyOut => "leave-family-out",
        }
    }
}

/// What is observed of a newcomer before it is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObservationPlan {
    /// As given to `--observe`.
    pub name: &'static str,
    /// On so many random kinds: its rate alone, ...
    kinds: usize,
    /// ... and beside so many random partners on each.
    pairs: usize,
}

/// What `--observe` can name.
pub static OBSERVATION_PLANS: &[ObservationPlan] = &[
    ObservationPlan { name: "0", kinds: 0, pairs: 0 },
    ObservationPlan { name: "1", kinds: 1, pairs: 0 },
    ObservationPlan { name: "2", kinds: 1, pairs: 1 },
    ObservationPlan { name: "4", kinds: 2, pairs: 1 },
    ObservationPlan { name: "4s", kinds: 1, pairs: 3 },
    ObservationPlan { name: "8", kinds: 2, pairs: 3 },
];

/// Random draws of observations for each workload.
const DRAWS: u64 = 4;

/// What to evaluate.
pub struct EvaluationOptions<'a> {
    /// What was measured, all of it.
    pub catalog: &'a Catalog,
    /// The kinds it was measured on.
    pub kinds: &'a [Kind],
    /// Where default host times come from.
    pub library: &'a Library,
    /// Whom to evaluate.
    pub estimators: &'a [&'static EstimatorEntry],
    /// What is held out.
    pub splits: &'a [Split],
    /// What is observed.
    pub plans: &'a [ObservationPlan],
    /// Decides every draw.
    pub seed: u64,
    /// Folds at a time.
    pub threads: usize,
}

/// The workloads under evaluation and the truth about them.
pub(crate) struct Evaluation<'a> {
    options: &'a EvaluationOptions<'a>,
    /// With host times withheld.
    subjects: Vec<Subject>,
    /// The catalog with host times withheld.
    catalog: Catalog,
}

/// One fold of one estimator.
struct FoldTask {
    estimator: usize,
    split: Split,
    held: Vec<usize>,
}

/// The errors of a fold, or why there are none.
type FoldResult = Result<Vec<score::Sample>, EstimatorError>;

/// Evaluates; `progress` is told which part is done, 0 to 1.
///
/// # Errors
/// When the catalog holds fewer than three workloads with features and a measured rate, or an estimator cannot be made.
pub fn evaluate(
    options: &EvaluationOptions<'_>,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<Score>, EstimatorError> {
    let evaluation = Evaluation::new(options)?;
    let mut tasks = Vec::new();
    for &split in options.splits {
        for held in evaluation.folds(split) {
            tasks.extend((0..options.estimators.len()).map(|estimator| FoldTask {
                estimator,
                split,
                held: held.clone(),
            }));
        }
    }
    let slots: Vec<Mutex<Option<FoldResult>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(at) else { break };
            let samples = evaluation.fold(task);
            *slots[at].lock().expect("nobody panics with it") = Some(samples);
            progress((done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / tasks.len() as f64);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.max(1) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut samples = Vec::with_capacity(tasks.len());
    for slot in slots {
        samples.push(slot.into_inner().expect("nobody panics with it").expect("every fold was done")?);
    }
    Ok(score::scores(&evaluation, &tasks, &samples))
}

impl<'a> Evaluation<'a> {
    fn new(options: &'a EvaluationOptions<'a>) -> Result<Self, EstimatorError> {
        let mut catalog = options.catalog.clone();
        let described: Vec<Workload> = catalog.described().cloned().collect();
        for workload in described {
            catalog.describe(without_host_time(&workload, options.library));
        }
        let alone: BTreeSet<&str> = options
            .catalog
            .cells()
            .filter(|(key, cell)| key.partner.is_none() && key.gang == 1 && cell.source == Source::Measured)
            .filter(|(_, cell)| cell.rate > 0.0)
            .map(|(key, _)| key.workload.as_str())
            .collect();
        let named =
            |name: &&str| Some(Subject { name: (*name).into(), features: Some(catalog.features(name)?.clone()) });
        let subjects: Vec<Subject> = alone.iter().filter_map(named).collect();
        if subjects.len() < 3 {
            return Err(EstimatorError(format!(
                "there are {} workloads with features and a measured rate alone; an evaluation that holds one out needs 3 or more",
                subjects.len()
            )));
        }
        Ok(Self { options, subjects, catalog })
    }

    fn features(&self, subject: usize) -> &Workload {
        self.subjects[subject].features.as_ref().expect("only such became subjects")
    }

    fn family(&self, subject: usize) -> &str {
        &self.features(subject).family
    }

    fn folds(&self, split: Split) -> Vec<Vec<usize>> {
        let all = 0..self.subjects.len();
        match split {
            Split::LeaveWorkloadOut => all.map(|i| vec![i]).collect(),
            Split::LeaveFamilyOut => {
                let families: BTreeSet<&str> = all.clone().map(|i| self.family(i)).collect();
                families.iter().map(|f| all.clone().filter(|&i| self.family(i) == *f).collect()).collect()
            }
        }
    }

    /// The measured rate, if it is there and fits.
    fn truth(&self, subject: usize, partner: Option<usize>, kind: usize) -> Option<f64> {
        let key = Key {
            workload: self.subjects[subject].name.clone(),
            partner: partner.map(|p| self.subjects[p].name.clone()),
            kind: self.options.kinds[kind].name.clone(),
            gang: 1,
        };
        self.catalog.get(&key).map(|cell| cell.rate).filter(|rate| *rate > 0.0)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::small as tests_small;
