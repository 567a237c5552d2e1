//! Estimators made once for a ground, and copied for every run.

use super::known::Known;
use crate::progress::Progress;
use anyhow::{Result, anyhow};
use arles_core::estimate::Estimator;
use arles_learn::{EstimatorEntry, Setting, find_estimator};
use arles_study::gogh::{ESTIMATORS, LEARNED, Unrefined};
use std::sync::{Mutex, PoisonError};

/// Makes a copy of a trained estimator.
type Copies = Box<dyn Fn() -> Box<dyn Estimator> + Sync>;

/// A trained estimator.
pub(super) struct Tutor {
    pub(super) name: &'static str,
    pub(super) fresh: Copies,
}

/// The estimator under test without corrections.
const FIRST_ONLY: &str = "learned P1";

/// All estimators that the policy under test is tried with, or `only` one; the names that are not there are added to `absent`.
pub(super) fn all(
    only: Option<&'static EstimatorEntry>,
    known: &Known,
    seed: u64,
    mut absent: Vec<&'static str>,
) -> Result<(Vec<Tutor>, Vec<&'static str>)> {
    let entries: Vec<&'static EstimatorEntry> = match only {
        Some(entry) => vec![entry],
        None => {
            absent.extend(ESTIMATORS.iter().filter(|name| find_estimator(name).is_none()));
            ESTIMATORS.iter().filter_map(|name| find_estimator(name)).collect()
        }
    };
    let mut tutors = Vec::new();
    for entry in entries {
        let trained = train(entry, known, seed)?;
        let first = (entry.name == LEARNED).then(|| trained.fork());
        tutors.push(Tutor { name: entry.name, fresh: copies(trained, |copy| copy) });
        tutors.extend(
            first.map(|first| Tutor { name: FIRST_ONLY, fresh: copies(first, |copy| Box::new(Unrefined::new(copy))) }),
        );
    }
    Ok((tutors, absent))
}

fn copies(trained: Box<dyn Estimator>, dress: fn(Box<dyn Estimator>) -> Box<dyn Estimator>) -> Copies {
    let trained = Mutex::new(trained);
    Box::new(move || dress(trained.lock().unwrap_or_else(PoisonError::into_inner).fork()))
}

fn train(entry: &'static EstimatorEntry, known: &Known, seed: u64) -> Result<Box<dyn Estimator>> {
    let bar = Progress::parts(&format!("training {}", entry.name));
    let setting = Setting {
        kinds: &known.kinds,
        workloads: &known.subjects,
        catalog: &known.catalog,
        seed,
        progress: &|part| bar.at_part(part),
    };
    (entry.make)(&setting).map_err(|unfit| anyhow!("{}: {unfit}", entry.name))
}
