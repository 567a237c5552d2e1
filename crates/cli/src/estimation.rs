//! Estimators for simulations: looked up by name, trained once for a scenario, then one copy for each run.

use crate::progress::Progress;
use anyhow::{Result, anyhow};
use arles_core::estimate::Estimator;
use arles_core::library::nearest;
use arles_learn::{Catalog, ESTIMATORS, EstimatorEntry, Setting, Subject, find_estimator};
use arles_sim::drive::Scenario;
use arles_sim::measure::{Guess, Noise};

/// The name of the estimator that is always right.
pub(crate) const ORACLE: &str = "oracle";

/// Who says how fast everything is.
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
        if name == ORACLE {
            return Ok(Self::Oracle);
        }
        find_estimator(name).map(Self::Learned).ok_or_else(|| {
            let names = || std::iter::once(ORACLE).chain(ESTIMATORS.iter().map(|entry| entry.name));
            let near = nearest(name, names()).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            let all: Vec<&str> = names().collect();
            format!("there is no estimator '{name}'{near}; expected one of {}", all.join(", "))
        })
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
        let estimator = (entry.make)(&setting).map_err(|unfit| anyhow!("--estimator {}: {unfit}", entry.name))?;
        Ok(Some(Tutor { name: entry.name, estimator: std::sync::Mutex::new(estimator), noise }))
    }
}

impl Tutor {
    /// A copy for one run.
    pub(crate) fn guess(&self) -> Guess {
        let estimator = self.estimator.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fork();
        Guess { name: self.name.to_owned(), estimator, noise: self.noise }
    }
}
