//! Errors of estimators on workloads they have never seen, queried through the trait used in production.
//!
//! **A fold** holds one workload out under all its software (*leave-workload-out*), all of a family (*leave-family-out*), or a kind
//! (*leave-kind-out*): every cell that names one of them, on either side and on every kind, leaves the catalog. An estimator is made from what is left;
//! then each held-out workload in turn is observed a little (a [`ObservationPlan`]) by a fork of it, and every cell that was not observed is asked
//! for and compared (of a held-out kind: a few other workloads are observed on it, and workloads known elsewhere are asked for):
//!
//! - *solo*: steps/s on one GPU;
//! - *pair*: the rate beside a partner over the rate alone on the same kind, of the newcomer (over the estimator's own figure
//!   alone) and of its partner (over the partner's measured one). Partners are workloads that the catalog still has;
//! - *speedup*: the rate on a kind over that on the workload's first kind, both as estimated (its interval is not stated by anybody, so none is scored);
//! - *gang*: steps/s of more GPUs; *watts*: of one GPU, alone.
//!
//! Where there are more workloads, or families, than folds they are held out in groups, drawn by the seed; of a large group [`MOST_ASKED`] are asked for.
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

mod chosen;
mod fold;
mod host_time;
mod score;

use crate::catalog::{Catalog, Key};
use crate::rng::Rng;
use crate::table::{EstimatorEntry, EstimatorError, Subject};
use crate::traits::Traits;
use arles_core::allocate::PolicyEntry;
use arles_core::estimate::Source;
use arles_core::{Kind, Library, Workload};
pub use chosen::{ChosenScore, LOOPS};
pub use host_time::without_host_time;
pub use score::{CELLS, Score};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
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
    /// A kind: what is known elsewhere, there.
    LeaveKindOut,
}

impl Split {
    /// All splits.
    pub const ALL: [Split; 3] = [Split::LeaveWorkloadOut, Split::LeaveFamilyOut, Split::LeaveKindOut];
    /// Those of new workloads.
    pub const OF_WORKLOADS: [Split; 2] = [Split::LeaveWorkloadOut, Split::LeaveFamilyOut];

    /// As given to `--split`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Split::LeaveWorkloadOut => "leave-workload-out",
            Split::LeaveFamilyOut => "leave-family-out",
            Split::LeaveKindOut => "leave-kind-out",
        }
    }
}

/// What is observed of a newcomer before it is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObservationPlan {
    /// As given to `--observe`.
    pub name: &'static str,
    /// On so many random kinds: its rate alone, ... (Of a held-out kind: so many workloads, and twice as many for each pair.)
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

/// Held-out workloads of a fold that are asked for at most.
pub const MOST_ASKED: usize = 160;

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
    /// Folds of a split at most.
    pub most_folds: usize,
    /// Part of all features that is withheld, each drawn by the seed; 1 withholds families too.
    pub withheld: f64,
}

/// The workloads under evaluation and the truth about them.
pub(crate) struct Evaluation<'a> {
    options: &'a EvaluationOptions<'a>,
    /// With host times withheld.
    subjects: Vec<Subject>,
    families: Vec<String>,
    /// Who was measured beside a subject, on any kind.
    partners: Vec<Vec<usize>>,
    /// (kind, gang) of more than one GPU that were measured.
    gangs: Vec<Vec<(usize, u32)>>,
    /// The catalog with host times withheld.
    catalog: Catalog,
}

/// One fold of one estimator.
struct FoldTask {
    estimator: usize,
    split: Split,
    held: Vec<usize>,
    /// Of a split by kinds.
    kind: Option<usize>,
}

/// The errors of a fold, or why there are none.
type FoldResult = Result<Vec<score::Sample>, EstimatorError>;

/// Evaluates; `progress` is told which part is done, 0 to 1.
///
/// # Errors
/// When the catalog holds fewer than three workloads with a measured rate, or an estimator cannot be made.
pub fn evaluate(
    options: &EvaluationOptions<'_>,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<Score>, EstimatorError> {
    let evaluation = Evaluation::new(options)?;
    let mut tasks = Vec::new();
    for &split in options.splits {
        for (held, kind) in evaluation.folds(split) {
            tasks.extend((0..options.estimators.len()).map(|estimator| FoldTask {
                estimator,
                split,
                held: held.clone(),
                kind,
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

/// Evaluates in a loop in which a policy chooses what is measured (`evaluate/chosen.rs`); `progress` is told which part is done, 0 to 1.
///
/// # Errors
/// As [`evaluate`], and where the policy gives no allocation.
pub fn evaluate_chosen(
    options: &EvaluationOptions<'_>,
    policy: &'static PolicyEntry,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<ChosenScore>, EstimatorError> {
    chosen::chosen(&Evaluation::new(options)?, policy, progress)
}

impl<'a> Evaluation<'a> {
    fn new(options: &'a EvaluationOptions<'a>) -> Result<Self, EstimatorError> {
        let mut catalog = options.catalog.clone();
        let described: Vec<Workload> = catalog.described().cloned().collect();
        for workload in described {
            catalog.describe(without_host_time(&workload, options.library));
        }
        withhold(&mut catalog, options);
        let measured = |(key, cell): &(&Key, &crate::catalog::Cell)| {
            key.partner.is_none() && cell.source == Source::Measured && cell.rate > 0.0
        };
        let alone: BTreeSet<&str> =
            options.catalog.cells().filter(measured).map(|(key, _)| key.workload.as_str()).collect();
        let subject = |name: &&str| Subject { name: (*name).into(), features: catalog.features(name).cloned() };
        let subjects: Vec<Subject> = alone.iter().map(subject).collect();
        if subjects.len() < 3 {
            return Err(EstimatorError(format!(
                "there are {} workloads with a measured rate alone; an evaluation that holds one out needs 3 or more",
                subjects.len()
            )));
        }
        let family = |s: &Subject| {
            let traits = options.catalog.traits(&s.name).and_then(|t| t.family.clone());
            traits.or_else(|| Some(options.catalog.features(&s.name)?.family.clone())).unwrap_or_else(|| s.name.clone())
        };
        let families = subjects.iter().map(family).collect();
        let number: BTreeMap<&str, usize> = subjects.iter().enumerate().map(|(i, s)| (s.name.as_str(), i)).collect();
        let mut partners = vec![BTreeSet::new(); subjects.len()];
        for (key, _) in options.catalog.cells() {
            let other = key.partner.as_deref().and_then(|p| number.get(p));
            if let (Some(&one), Some(&two)) = (number.get(key.workload.as_str()), other) {
                partners[one].insert(two);
            }
        }
        let partners = partners.into_iter().map(|p| p.into_iter().collect()).collect();
        let mut gangs = vec![Vec::new(); subjects.len()];
        for (key, _) in options.catalog.cells().filter(|(key, cell)| key.gang > 1 && cell.rate > 0.0) {
            let kind = options.kinds.iter().position(|kind| kind.name == key.kind);
            if let (Some(&subject), Some(kind)) = (number.get(key.workload.as_str()), kind) {
                gangs[subject].push((kind, key.gang));
            }
        }
        Ok(Self { options, subjects, families, partners, gangs, catalog })
    }

    fn family(&self, subject: usize) -> &str {
        &self.families[subject]
    }

    /// The same work under whatever software.
    fn model(&self, subject: usize) -> &str {
        let name = &self.subjects[subject].name;
        self.options.catalog.traits(name).and_then(|t| t.model.as_deref()).unwrap_or(name)
    }

    /// Who is held out together, and the kind that is.
    fn folds(&self, split: Split) -> Vec<(Vec<usize>, Option<usize>)> {
        let all = 0..self.subjects.len();
        let by = |name: &dyn Fn(usize) -> String| {
            let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for i in all.clone() {
                groups.entry(name(i)).or_default().push(i);
            }
            let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
            let most = self.options.most_folds.max(2);
            if groups.len() > most {
                Rng::new(self.options.seed, "folds").shuffle(&mut groups);
                let mut folds = vec![Vec::new(); most];
                for (at, group) in groups.into_iter().enumerate() {
                    folds[at % most].extend(group);
                }
                groups = folds;
            }
            groups.into_iter().map(|held| (held, None)).collect()
        };
        match split {
            Split::LeaveWorkloadOut => by(&|i| self.model(i).to_owned()),
            Split::LeaveFamilyOut => by(&|i| self.family(i).to_owned()),
            Split::LeaveKindOut => {
                let known = |i: usize, a: usize| self.truth(i, None, a).is_some();
                let kinds = 0..self.options.kinds.len();
                let held = |a: usize| {
                    let elsewhere = |i: &usize| known(*i, a) && kinds.clone().any(|b| b != a && known(*i, b));
                    all.clone().filter(elsewhere).collect::<Vec<usize>>()
                };
                kinds.clone().map(|a| (held(a), Some(a))).filter(|(held, _)| !held.is_empty()).collect()
            }
        }
    }

    /// The measured rate, if it is there and fits.
    fn truth(&self, subject: usize, partner: Option<usize>, kind: usize) -> Option<f64> {
        let key = self.key(subject, partner, kind, 1);
        self.catalog.get(&key).map(|cell| cell.rate).filter(|rate| *rate > 0.0)
    }

    fn key(&self, subject: usize, partner: Option<usize>, kind: usize, gang: u32) -> Key {
        Key {
            workload: self.subjects[subject].name.clone(),
            partner: partner.map(|p| self.subjects[p].name.clone()),
            kind: self.options.kinds[kind].name.clone(),
            gang,
        }
    }
}

/// Takes features away at random, from all workloads alike.
fn withhold(catalog: &mut Catalog, options: &EvaluationOptions<'_>) {
    if options.withheld <= 0.0 {
        return;
    }
    let mut names: Vec<String> = catalog.cells().map(|(key, _)| key.workload.clone()).collect();
    names.dedup();
    for name in names {
        let described = catalog.features(&name).map(Traits::of_workload).unwrap_or_default();
        let mut traits = catalog.traits(&name).cloned().unwrap_or_default().or(described);
        let mut random = Rng::new(options.seed, &format!("withheld from {name}"));
        let mut gone = || random.uniform() < options.withheld;
        macro_rules! withhold {
            ($($field:ident),*) => { $(if gone() { traits.$field = None; })* };
        }
        withhold!(domain, mode, precision, batch, params, flops_per_step, bytes_per_step, kernels_per_step);
        withhold!(memory_gib, gpu_utilisation, bandwidth_utilisation, power_ratio, stack, model);
        if options.withheld >= 1.0 {
            traits.family = None;
        }
        catalog.withhold_features(&name);
        catalog.set_traits(&name, traits);
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::small as tests_small;
