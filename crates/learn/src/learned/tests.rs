//! `learned` on small catalogs: better with every measurement, and as sure as it says.

use super::*;
use crate::catalog::Catalog;
use crate::evaluate::{tests_small, without_host_time};
use crate::table::Subject;
use arles_core::estimate::{Observation, RateQuery, RateRow};
use arles_core::{Kind, KindId, Spread, Time, WorkloadId, model};

const NEWCOMER: &str = "lm-b80";
const PARTNERS: [&str; 3] = ["resnet18-b32", "lm-b10", "transformer-b64"];

/// The newcomer first, then its partners.
fn subjects() -> Vec<Subject> {
    let library = Library::builtin();
    let of = |name: &&str| {
        let features = without_host_time(library.workload(name).unwrap(), library);
        Subject { name: (*name).into(), features: Some(features) }
    };
    [NEWCOMER].iter().chain(&PARTNERS).map(of).collect()
}

fn setting<'a>(catalog: &'a Catalog, kinds: &'a [Kind], workloads: &'a [Subject]) -> Setting<'a> {
    Setting { kinds, workloads, catalog, seed: 5, progress: &|_| {} }
}

fn ask(workload: usize, partner: Option<usize>) -> RateQuery {
    RateQuery { workload: WorkloadId(workload as u32), gang: 1, partner: partner.map(|p| WorkloadId(p as u32)) }
}

fn all_rows(estimator: &dyn Estimator) -> Vec<RateRow> {
    let partners = || std::iter::once(None).chain((0..=PARTNERS.len()).map(Some));
    (0..=PARTNERS.len()).flat_map(|w| partners().map(move |p| ask(w, p))).map(|ask| estimator.estimate(&ask)).collect()
}

/// What the model's world would show of the newcomer: alone, and beside two partners, a tenth slower than the model.
fn observations() -> Vec<Observation> {
    let library = Library::builtin();
    let w = |name: &str| library.workload(name).unwrap();
    let v100 = library.kind("v100").unwrap();
    let see = |ask: RateQuery, rate: f64, second: f64| Observation {
        ask,
        kind: KindId(2),
        spread: Spread::Packed,
        rate,
        watts: 150.0,
        at: Time::from_seconds(second),
        job: None,
    };
    let mut seen = vec![see(ask(0, None), model::alone(w(NEWCOMER), v100, 1, Spread::Packed).unwrap().rate, 1.0)];
    for p in 0..2 {
        let pair = model::beside(w(NEWCOMER), w(PARTNERS[p]), v100).unwrap();
        seen.push(see(ask(0, Some(p + 1)), 0.9 * pair.own, 2.0));
        seen.push(see(ask(p + 1, Some(0)), 0.9 * pair.partner, 2.0));
    }
    seen
}

#[test]
fn the_same_seed_is_the_same_to_the_bit() {
    let (catalog, kinds) = tests_small();
    let workloads = subjects();
    let rows = || all_rows(make(&setting(&catalog, &kinds, &workloads)).unwrap().as_ref());
    assert_eq!(rows(), rows());
}

#[test]
fn nobody_gains_by_company_and_both_sides_agree() {
    let (catalog, kinds) = tests_small();
    let workloads = subjects();
    let made = make(&setting(&catalog, &kinds, &workloads)).unwrap();
    for (one, two) in (0..4).flat_map(|one| (0..4).map(move |two| (one, two))) {
        let (alone, pair) = (made.estimate(&ask(one, None)), made.estimate(&ask(one, Some(two))));
        let mirror = made.estimate(&ask(two, Some(one)));
        for ((alone, pair), mirror) in alone.cells.iter().zip(&pair.cells).zip(&mirror.cells) {
            let (alone, pair, mirror) = (alone.unwrap(), pair.unwrap(), mirror.unwrap());
            assert!(pair.rate > 0.0 && pair.rate <= alone.rate * 1.1, "{pair:?} {alone:?}");
            assert!(pair.source == Source::Measured || pair.rate <= alone.rate * (1.0 + 1e-12));
            assert_eq!(pair.partner_rate, mirror.rate);
            assert!(pair.standard_error.is_finite() && pair.standard_error > 0.0 && pair.watts > 0.0);
        }
    }
}

#[test]
fn order_does_not_matter_and_observing_nothing_changes_nothing() {
    let (catalog, kinds) = tests_small();
    let workloads = subjects();
    let made = make(&setting(&catalog, &kinds, &workloads)).unwrap();
    let before = all_rows(made.as_ref());
    assert_eq!(all_rows(made.fork().as_ref()), before);
    let after = |order: &[usize]| {
        let (mut fork, seen) = (made.fork(), observations());
        for &o in order {
            assert!(!fork.observe(&seen[o]).is_empty());
        }
        all_rows(fork.as_ref())
    };
    let (one, two) = (after(&[0, 1, 2, 3, 4]), after(&[4, 2, 0, 3, 1]));
    assert_ne!(one, before);
    for (a, b) in one.iter().zip(&two).flat_map(|(a, b)| a.cells.iter().zip(&b.cells)) {
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!((a.rate / b.rate - 1.0).abs() < 1e-6, "{a:?} {b:?}");
        assert!((a.standard_error / b.standard_error - 1.0).abs() < 0.05, "{a:?} {b:?}");
    }
    // The parent did not hear of it.
    assert_eq!(all_rows(made.as_ref()), before);
}

#[test]
fn a_measured_cell_stands_and_others_of_it_are_refined() {
    let (catalog, kinds) = tests_small();
    let workloads = subjects();
    let mut made = make(&setting(&catalog, &kinds, &workloads)).unwrap();
    let before = made.estimate(&ask(0, Some(3))).cells[2].unwrap();
    assert_eq!(before.source, Source::Initial);
    for o in observations() {
        let changed = made.observe(&o);
        assert!(changed.contains(&ask(0, Some(3))), "{changed:?}");
    }
    let measured = made.estimate(&ask(0, Some(1))).cells[2].unwrap();
    assert_eq!((measured.source, measured.rate), (Source::Measured, observations()[1].rate));
    let after = made.estimate(&ask(0, Some(3))).cells[2].unwrap();
    assert_eq!(after.source, Source::Refined);
    assert!(after.standard_error < before.standard_error);
}

#[test]
fn where_nothing_is_alike_the_mean_is_left() {
    let far = |value: f64| WeightedValue { weight: 0.0, value, step: None };
    let said = attend([far(-0.1), far(-0.9)].into_iter(), -0.5, 0.2);
    assert_eq!((said.att, said.slope, said.likeness), (0.0, 0.0, 0.0));
}

#[test]
fn an_empty_catalog_is_the_model_and_nothing_known_is_still_a_number() {
    let kinds = vec![Library::builtin().kind("v100").unwrap().clone()];
    let mut workloads = subjects();
    workloads.push(Subject { name: "mystery".into(), features: None });
    let catalog = Catalog::default();
    let made = make(&setting(&catalog, &kinds, &workloads)).unwrap();
    let features = workloads[0].features.as_ref().unwrap();
    let row = made.estimate(&ask(0, None)).cells[0].unwrap();
    assert!((row.rate / model::alone(features, &kinds[0], 1, Spread::Packed).unwrap().rate - 1.0).abs() < 1e-9);
    let pair = made.estimate(&ask(0, Some(1))).cells[0].unwrap();
    let modelled = model::beside(features, workloads[1].features.as_ref().unwrap(), &kinds[0]).unwrap();
    assert!((pair.rate / modelled.own - 1.0).abs() < 1e-9, "{pair:?} {modelled:?}");
    for partner in [None, Some(0), Some(4)] {
        let cell = made.estimate(&ask(4, partner)).cells[0].unwrap();
        assert!(
            cell.rate.is_finite() && cell.rate > 0.0 && cell.standard_error.is_finite() && cell.watts > 0.0,
            "{cell:?}"
        );
    }
}

#[test]
fn a_kind_that_nobody_measured_is_doubted_more() {
    let (catalog, mut kinds) = tests_small();
    kinds.push(Library::builtin().kind("a100").unwrap().clone());
    let workloads = subjects();
    let made = make(&setting(&catalog, &kinds, &workloads)).unwrap();
    let cells = made.estimate(&ask(0, Some(1))).cells;
    let standard_errors: Vec<f64> = cells.iter().map(|c| c.unwrap().standard_error).collect();
    assert!(standard_errors[..3].iter().all(|d| *d < standard_errors[3]), "{standard_errors:?}");
    assert!(cells[3].unwrap().rate > 0.0);
}

#[test]
fn a_pair_tells_about_the_rate_alone_where_that_was_not_measured() {
    let (catalog, kinds) = tests_small();
    let library = Library::builtin();
    // Of a family that is not in the catalog, and five times as slow as the model says.
    let mut stranger = library.workload("bert-base-b16").unwrap().clone();
    stranger.host_seconds *= 2.0;
    let mut workloads = subjects();
    workloads.push(Subject { name: stranger.name.clone(), features: Some(stranger.clone()) });
    let mut made = make(&setting(&catalog, &kinds, &workloads)).unwrap();
    let pair = model::beside(&stranger, workloads[1].features.as_ref().unwrap(), &kinds[2]).unwrap();
    let before = made.estimate(&ask(4, None)).cells[2].unwrap();
    let (kind, at) = (KindId(2), Time::ZERO);
    made.observe(&Observation {
        ask: ask(4, Some(1)),
        kind,
        spread: Spread::Packed,
        rate: pair.own / 5.0,
        watts: 0.0,
        at,
        job: None,
    });
    let after = made.estimate(&ask(4, None)).cells[2].unwrap();
    assert!(after.rate < before.rate / 2.0 && after.standard_error < before.standard_error, "{before:?} {after:?}");
    assert!(after.standard_error > 0.1, "what a partner leaves is known to a third: {after:?}");
}
