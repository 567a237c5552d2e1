//! Estimators for simulations: looked up by name, trained once for a scenario, then one copy for each run.
//!
//! What `learned` learns from an empty catalog follows from the kinds, the seed and this build of arles alone, so it is
//! kept under the user's cache folder and not learned again. A cache that is missing, damaged or cannot be written costs
//! the training and nothing else.

use crate::files::Draft;
use crate::progress::Progress;
use crate::settings;
use anyhow::{Result, anyhow};
use arles_core::estimate::Estimator;
use arles_core::{Fingerprint, Kind, Library};
use arles_learn::learned::{self, Parameters};
use arles_learn::{Catalog, ESTIMATORS, EstimatorEntry, EstimatorError, Setting, Subject};
use arles_sim::measure::{EstimatorSetup, Noise};
use arles_sim::scenario::Scenario;
use arles_sim::truth::{Oracle, Truth};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the estimator that is always right.
pub(crate) const ORACLE: &str = "oracle";

/// Where rates and watts come from.
#[derive(Clone, Copy)]
pub(crate) enum Estimation {
    /// The virtual world itself.
    Oracle,
    /// One of the table.
    Learned(&'static EstimatorEntry),
}

/// A trained estimator, to be copied for every run.
pub(crate) struct Tutor {
    name: &'static str,
    estimator: std::sync::Mutex<Box<dyn Estimator>>,
    noise: Noise,
}

impl Estimation {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let name = name.trim();
        let table = std::iter::once(None).chain(ESTIMATORS.iter().map(Some));
        let entry = settings::find("estimator", name, table, |entry| entry.map_or(ORACLE, |entry| entry.name))?;
        Ok(entry.map_or(Self::Oracle, Self::Learned))
    }

    /// As it is given to `--estimator`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oracle => ORACLE,
            Self::Learned(entry) => entry.name,
        }
    }

    /// One for a daemon: it knows the features of these workloads and what the catalog has of them and others, and `truth` stands in for
    /// the oracle.
    pub(crate) fn for_workloads(
        self,
        kinds: &[Kind],
        workloads: &[String],
        catalog: &Catalog,
        truth: &Arc<Truth>,
    ) -> Result<Box<dyn Estimator>> {
        let Self::Learned(entry) = self else { return Ok(Box::new(Oracle(Arc::clone(truth)))) };
        let subject =
            |name: &String| Subject { name: name.clone(), features: Library::builtin().workload(name).ok().cloned() };
        let workloads: Vec<Subject> = workloads.iter().map(subject).collect();
        let progress = Progress::parts(&format!("training {}", entry.name));
        let setting =
            Setting { kinds, workloads: &workloads, catalog, seed: 1, progress: &|part| progress.at_part(part) };
        made(entry, &setting).map_err(|unfit| anyhow!("--estimator {}: {unfit}", entry.name))
    }

    /// Trains one for a scenario. It knows the features of the trace's workloads and nothing else about them.
    pub(crate) fn tutor(self, scenario: &Scenario, noise: Noise) -> Result<Option<Tutor>> {
        let Self::Learned(entry) = self else { return Ok(None) };
        let subject = |(name, features): (&str, Option<&arles_core::Workload>)| Subject {
            name: name.to_owned(),
            features: features.cloned(),
        };
        let workloads: Vec<Subject> = scenario.workloads().map(subject).collect();
        let progress = Progress::parts(&format!("training {}", entry.name));
        let setting = Setting {
            kinds: scenario.cluster().kinds(),
            workloads: &workloads,
            catalog: &Catalog::default(),
            seed: noise.seed,
            progress: &|part| progress.at_part(part),
        };
        let estimator = made(entry, &setting).map_err(|unfit| anyhow!("--estimator {}: {unfit}", entry.name))?;
        Ok(Some(Tutor { name: entry.name, estimator: std::sync::Mutex::new(estimator), noise }))
    }
}

/// The estimator of an entry for a setting. What `learned` was trained on is the empty catalog, whatever the setting's holds: training
/// again at every start would take its time, and lead to other estimates each time that something was measured.
fn made(entry: &EstimatorEntry, setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    let described = setting.workloads.iter().all(|subject| subject.features.is_some());
    let cache = cache_file(setting).filter(|_| entry.name == "learned" && described);
    let Some(path) = cache else { return (entry.make)(setting) };
    let kept = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Parameters>(&text).ok());
    // A file that somebody cut is as good as none.
    let kept = kept.filter(Parameters::is_sound);
    let numbers = kept.unwrap_or_else(|| {
        let (numbers, _) = learned::train(&Setting { catalog: &Catalog::default(), ..*setting });
        let _ = keep(&path, &numbers);
        numbers
    });
    Ok(learned::with(setting, numbers))
}

fn keep(path: &Path, numbers: &Parameters) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut draft = Draft::create(path)?;
    serde_json::to_writer(draft.out(), numbers)?;
    draft.keep()
}

/// Where the numbers for a setting are kept: named by all that they depend on.
fn cache_file(setting: &Setting<'_>) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    // The program itself is part of it: another build may learn otherwise.
    let program = std::fs::metadata(std::env::current_exe().ok()?).ok()?;
    let built = program.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos();
    let text = serde_json::to_string(&(program.len(), built, setting.seed, setting.kinds)).ok()?;
    let hash = Fingerprint::of(text.as_bytes());
    Some(cache.join("arles").join(format!("learned-{hash:016x}.json")))
}

impl Tutor {
    /// A copy for one run.
    pub(crate) fn guess(&self) -> EstimatorSetup {
        let estimator = self.estimator.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fork();
        EstimatorSetup { name: self.name.to_owned(), estimator, noise: self.noise }
    }
}
