//! Evaluation on a catalog in which the model is the truth: nothing held out is ever seen.

use super::*;
use crate::catalog::{Cell, MEASUREMENT_ERROR};
use crate::table::{ESTIMATORS, Setting, find_estimator};
use arles_core::estimate::RateQuery;
use arles_core::{Spread, Time, WorkloadId, model};

const WORKLOADS: [&str; 7] =
    ["lm-b10", "lm-b20", "lm-b40", "resnet18-b32", "resnet18-b64", "transformer-b32", "transformer-b64"];

/// A catalog in which the model is the truth.
pub(crate) fn small() -> (Catalog, Vec<Kind>) {
    let library = Library::builtin();
    let kinds: Vec<Kind> = ["k80", "p100", "v100"].iter().map(|k| library.kind(k).unwrap().clone()).collect();
    let workloads: Vec<&Workload> = WORKLOADS.iter().map(|w| library.workload(w).unwrap()).collect();
    let mut catalog = Catalog::default();
    let mut put = |workload: &str, partner: Option<&str>, kind: &str, rate: f64| {
        let key = Key { workload: workload.into(), partner: partner.map(Into::into), kind: kind.into(), gang: 1 };
        let source = Source::Measured;
        let cell =
            Cell { rate, watts: None, source, observations: 1, at: Time::ZERO, standard_error: MEASUREMENT_ERROR };
        catalog.put(key, cell).unwrap();
    };
    for kind in &kinds {
        for w in &workloads {
            put(&w.name, None, &kind.name, model::alone(w, kind, 1, Spread::Packed).unwrap().rate);
            for p in &workloads {
                put(&w.name, Some(&p.name), &kind.name, model::beside(w, p, kind).map_or(0.0, |t| t.own));
            }
        }
    }
    for w in workloads {
        catalog.describe(w.clone());
    }
    (catalog, kinds)
}

fn options<'a>(
    catalog: &'a Catalog,
    kinds: &'a [Kind],
    estimators: &'a [&'static EstimatorEntry],
    threads: usize,
) -> EvaluationOptions<'a> {
    let library = Library::builtin();
    EvaluationOptions {
        catalog,
        kinds,
        library,
        estimators,
        splits: &Split::OF_WORKLOADS,
        plans: OBSERVATION_PLANS,
        seed: 7,
        threads,
        most_folds: 32,
        withheld: 0.0,
    }
}

/// Those that can be made: without their library the networks have only a sentence to say.
fn built() -> impl Iterator<Item = &'static EstimatorEntry> {
    ESTIMATORS.iter().filter(|e| cfg!(feature = "networks") || !e.name.ends_with("-ff"))
}

#[test]
fn every_estimator_is_scored_and_threads_do_not_change_a_bit() {
    let (catalog, kinds) = small();
    let all: Vec<&EstimatorEntry> = built().collect();
    let one = evaluate(&options(&catalog, &kinds, &all, 1), &|_| {}).unwrap();
    let two = evaluate(&options(&catalog, &kinds, &all, 2), &|_| {}).unwrap();
    assert_eq!(format!("{one:?}"), format!("{two:?}"));
    // Rates alone, pairs and speed-ups.
    assert_eq!(one.len(), all.len() * 2 * OBSERVATION_PLANS.len() * 3);
    for score in one.iter().filter(|s| s.estimator != "stated" || s.cells != "pair") {
        assert!(score.mape_percent.is_finite(), "{score:?}");
    }
}

#[test]
fn what_is_held_out_is_nowhere_to_be_seen() {
    let (catalog, kinds) = small();
    let mut poisoned = catalog.clone();
    let held = "lm-b20";
    let cells: Vec<(Key, Cell)> = catalog.cells().map(|(k, c)| (k.clone(), *c)).collect();
    for (key, cell) in cells.into_iter().filter(|(k, _)| k.workload == held || k.partner.as_deref() == Some(held)) {
        poisoned.put(key, Cell { rate: 12345.678, ..cell }).unwrap();
    }
    for entry in built() {
        let estimates = |catalog: &Catalog| {
            let chosen = [entry];
            let options = options(catalog, &kinds, &chosen, 1);
            let evaluation = Evaluation::new(&options).unwrap();
            let index = evaluation.subjects.iter().position(|s| s.name == held).unwrap();
            let left = evaluation.without(&FoldTask {
                estimator: 0,
                split: Split::LeaveWorkloadOut,
                held: vec![index],
                kind: None,
            });
            let (workloads, progress) = (&evaluation.subjects, &|_| {});
            let setting = Setting { kinds: &kinds, workloads, catalog: &left, seed: 7, progress };
            let made = (entry.make)(&setting).unwrap();
            let partners = [None].into_iter().chain((0..workloads.len() as u32).map(|p| Some(WorkloadId(p))));
            let ask = |partner| RateQuery { workload: WorkloadId(index as u32), gang: 1, partner };
            partners.map(|partner| made.estimate(&ask(partner))).collect::<Vec<_>>()
        };
        assert_eq!(estimates(&catalog), estimates(&poisoned), "{}", entry.name);
    }
}

#[test]
fn features_that_are_withheld_do_not_come_back_by_a_name_that_the_library_knows() {
    let (catalog, kinds) = small();
    let all: Vec<&EstimatorEntry> = ["process", "stacked"].iter().map(|name| find_estimator(name).unwrap()).collect();
    let mut options = options(&catalog, &kinds, &all, 1);
    options.withheld = 1.0;
    let evaluation = Evaluation::new(&options).unwrap();
    let (workloads, progress) = (&evaluation.subjects, &|_| {});
    let setting = Setting { kinds: &kinds, workloads, catalog: &evaluation.catalog, seed: 7, progress };
    let evidence = crate::evidence::Evidence::new(&setting);
    assert!(evidence.workloads().iter().all(|w| w.features.is_none() && w.point.iter().all(|x| x.is_nan())));
    // Nobody is refused for that.
    let scores = evaluate(&options, &|_| {}).unwrap();
    assert!(scores.iter().all(|s| s.refused == 0 && s.mape_percent.is_finite()), "{scores:?}");
}

#[test]
fn host_times_are_a_strangers_guess() {
    let library = Library::builtin();
    let w = without_host_time(library.workload("a3c-b4").unwrap(), library);
    let mut peeked = library.workload("a3c-b4").unwrap().clone();
    assert!(w.host_seconds != peeked.host_seconds);
    peeked.host_seconds = 9.0;
    assert_eq!(without_host_time(&peeked, library), w);
}

#[test]
fn too_few_workloads_get_a_sentence() {
    let model = [find_estimator("model").unwrap()];
    let refused = evaluate(&options(&Catalog::default(), &[], &model, 1), &|_| {}).unwrap_err();
    assert!(refused.0.starts_with("there are 0 workloads with a measured rate"), "{refused}");
}

#[test]
fn a_policy_chooses_and_all_estimators_are_asked_about_the_same_cells() {
    let (catalog, kinds) = small();
    let all: Vec<&EstimatorEntry> =
        crate::table::REFERENCES.iter().filter(|e| ["learned-p1", "by-flops"].contains(&e.name)).collect();
    let gogh = arles_core::allocate::find_policy("gogh").unwrap();
    let mut options = options(&catalog, &kinds, &all, 1);
    options.splits = &Split::OF_WORKLOADS[..1];
    let scores = evaluate_chosen(&options, gogh, &|_| {}).unwrap();
    assert_eq!(scores.len(), all.len());
    for pair in scores.chunks(2) {
        assert_eq!(pair[0].open_count, pair[1].open_count);
        assert!(pair.iter().all(|s| s.open_count > 0 && s.chosen_count > 0 && s.pairs_measured > 0.0), "{pair:?}");
        assert!(pair.iter().all(|s| s.gpus_percent.is_finite() && s.open_mape_percent.iter().all(|e| e.is_finite())));
    }
}

#[test]
fn rules_of_thumb_carry_a_measured_rate_to_another_kind() {
    let (catalog, kinds) = small();
    let references = crate::table::REFERENCES.iter().filter(|e| !e.name.starts_with("learned"));
    for entry in references {
        let chosen = [entry];
        let mut options = options(&catalog, &kinds, &chosen, 1);
        options.plans = &OBSERVATION_PLANS[..2];
        let scores = evaluate(&options, &|_| {}).unwrap();
        let speedups = scores.iter().filter(|s| s.cells == "speedup");
        assert!(speedups.clone().count() > 0 && speedups.clone().all(|s| s.mape_percent < 500.0), "{}", entry.name);
    }
}
