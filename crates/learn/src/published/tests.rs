//! The published pair of networks on small catalogs.

use super::{forward, recurrent};
use crate::catalog::{Catalog, Cell, Key};
use crate::table::{EstimatorError, Setting, Subject};
use arles_core::estimate::{Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Kind, KindId, Library, Spread, Time, Workload, WorkloadId, model};

type Make = fn(&Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError>;
const BOTH: [Make; 2] = [recurrent, forward];

fn kinds() -> Vec<Kind> {
    ["p100", "v100"].iter().map(|k| Library::builtin().kind(k).unwrap().clone()).collect()
}

fn workloads() -> Vec<Workload> {
    let names = ["resnet18-b16", "resnet18-b64", "resnet18-b256", "lm-b5", "lm-b20", "lm-b80", "recommendation-b512"];
    let more = ["recommendation-b2048", "transformer-b16", "transformer-b64", "a3c-b4"];
    names.iter().chain(&more).map(|w| Library::builtin().workload(w).unwrap().clone()).collect()
}

fn subjects() -> Vec<Subject> {
    workloads().iter().map(|w| Subject { name: w.name.clone(), features: Some(w.clone()) }).collect()
}

fn put(catalog: &mut Catalog, w: &Workload, partner: Option<&Workload>, k: &Kind, rate: f64) {
    let (workload, partner) = (w.name.clone(), partner.map(|p| p.name.clone()));
    let cell =
        Cell { rate, watts: None, source: Source::Measured, observations: 1, at: Time::ZERO, standard_error: 0.03 };
    catalog.put(Key { workload, partner, kind: k.name.clone(), gang: 1 }, cell).unwrap();
}

/// What the performance model says of some workloads, as if it had been measured.
fn catalog(of: &[Workload]) -> Catalog {
    let mut catalog = Catalog::default();
    for k in &kinds() {
        for w in of {
            catalog.describe(w.clone());
            put(&mut catalog, w, None, k, model::alone(w, k, 1, Spread::Packed).map_or(0.0, |p| p.rate));
            for p in of {
                put(&mut catalog, w, Some(p), k, model::beside(w, p, k).map_or(0.0, |t| t.own));
            }
        }
    }
    catalog
}

fn made(make: Make, catalog: &Catalog, seed: u64) -> Box<dyn Estimator> {
    let (kinds, workloads) = (kinds(), subjects());
    let setting = Setting { kinds: &kinds, workloads: &workloads, catalog, seed, progress: &|_| {} };
    make(&setting).unwrap()
}

fn ask(w: usize, partner: Option<usize>) -> RateQuery {
    RateQuery { workload: WorkloadId(w as u32), gang: 1, partner: partner.map(|p| WorkloadId(p as u32)) }
}

fn rows(estimator: &dyn Estimator) -> Vec<RateRow> {
    let n = workloads().len();
    let pairs = (0..n).flat_map(|w| (0..n).map(move |p| ask(w, Some(p))));
    (0..n).map(|w| ask(w, None)).chain(pairs).map(|ask| estimator.estimate(&ask)).collect()
}

fn assert_sane(rows: &[RateRow]) {
    for row in rows {
        for e in row.cells.iter().flatten() {
            let numbers = [e.rate, e.spread_rate, e.watts, e.standard_error];
            assert!(numbers.iter().all(|x| x.is_finite() && *x > 0.0), "{row:?}");
            assert!(e.partner_rate.is_finite() && (e.partner_rate > 0.0) == row.ask.partner.is_some(), "{row:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_estimates_to_the_bit() {
    let known: Vec<Workload> = workloads().into_iter().skip(1).collect();
    let catalog = catalog(&known);
    for make in BOTH {
        let one = rows(made(make, &catalog, 1).as_ref());
        assert_sane(&one);
        assert_eq!(one, rows(made(make, &catalog, 1).as_ref()));
        assert_ne!(one, rows(made(make, &catalog, 2).as_ref()));
    }
}

#[test]
fn a_newcomer_is_about_what_its_family_says_and_a_measured_pair_moves_the_others() {
    let all = workloads();
    let known: Vec<Workload> = all.iter().filter(|w| w.name != "lm-b20").cloned().collect();
    let catalog = catalog(&known);
    let new = all.iter().position(|w| w.name == "lm-b20").unwrap();
    let kind = &kinds()[1];
    for make in BOTH {
        let before = made(make, &catalog, 7);
        for partner in [0, 9] {
            let truth = model::beside(&all[new], &all[partner], kind).unwrap();
            let (pair, alone) = (before.estimate(&ask(new, Some(partner))), before.estimate(&ask(new, None)));
            let (pair, alone) = (pair.cells[1].unwrap(), alone.cells[1].unwrap());
            let relative = truth.own / model::alone(&all[new], kind, 1, Spread::Packed).unwrap().rate;
            let off = (pair.rate / alone.rate / relative).ln().abs();
            assert!(off < 0.25, "{off}");
            assert!((pair.partner_rate / truth.partner).ln().abs() < 0.25);
            assert_eq!(pair.source, Source::Initial);
        }
        let mut after = before.fork();
        let alone = model::alone(&all[new], kind, 1, Spread::Packed).unwrap().rate;
        let seen = |partner, rate| Observation {
            ask: ask(new, partner),
            kind: KindId(1),
            spread: Spread::Packed,
            rate,
            watts: 0.0,
            at: Time::ZERO,
            job: None,
        };
        after.observe(&seen(None, alone));
        let changed = after.observe(&seen(Some(0), 0.3 * alone));
        assert!(changed.contains(&ask(0, Some(new))) || changed.contains(&ask(new, Some(0))), "{changed:?}");
        let measured = after.estimate(&ask(new, Some(0))).cells[1].unwrap();
        assert_eq!((measured.rate, measured.source), (0.3 * alone, Source::Measured));
        let refined = after.estimate(&ask(new, Some(1))).cells[1].unwrap();
        assert_eq!(refined.source, Source::Refined);
        assert_eq!(rows(before.as_ref()), rows(before.fork().as_ref()));
        assert_sane(&rows(after.as_ref()));
    }
}

#[test]
fn with_nothing_known_the_performance_model_speaks_and_is_doubted() {
    let all = workloads();
    for make in BOTH {
        let estimator = made(make, &Catalog::default(), 1);
        let rows = rows(estimator.as_ref());
        assert_sane(&rows);
        assert!(rows.iter().flat_map(|r| r.cells.iter().flatten()).all(|e| e.standard_error >= 0.5));
        let pair = estimator.estimate(&ask(0, Some(3))).cells[1].unwrap();
        let truth = model::beside(&all[0], &all[3], &kinds()[1]).unwrap();
        assert!((pair.rate / truth.own).ln().abs() < 1e-9);
    }
}

#[test]
fn odd_catalogs_give_numbers_too() {
    let all = workloads();
    let (one, two) = (catalog(&all[..1]), catalog(&all[2..4]));
    let mut zeros = Catalog::default();
    let mut wild = Catalog::default();
    for (n, w) in all.iter().enumerate() {
        for k in &kinds() {
            let rate = [1e-9, 1e9, 1.0][n % 3];
            put(&mut wild, w, None, k, rate);
            put(&mut zeros, w, None, k, if n % 2 == 0 { 0.0 } else { 1.0 });
            for p in &all {
                put(&mut zeros, w, Some(p), k, 0.0);
                put(&mut wild, w, Some(p), k, 1.0 / rate);
            }
        }
    }
    // Nobody said what these are made of.
    let mut strangers = Catalog::default();
    for (key, cell) in catalog(&all[..4]).cells() {
        let rename = |name: &str| format!("our-{name}");
        let key = Key { workload: rename(&key.workload), partner: key.partner.as_deref().map(rename), ..key.clone() };
        strangers.put(key, *cell).unwrap();
    }
    for make in BOTH {
        for catalog in [&one, &two, &zeros, &wild, &strangers] {
            assert_sane(&rows(made(make, catalog, 3).as_ref()));
        }
    }
}
