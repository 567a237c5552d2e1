//! Kinds and workloads that come while an estimator is at work, and workloads of which little or nothing is known.

use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Kind, KindId, Library, Profile, Spread, Time, Workload, WorkloadId, model};
use arles_learn::catalog::MEASUREMENT_ERROR;
use arles_learn::{Catalog, Cell, Key, Setting, Subject, find_estimator, learned};
use proptest::prelude::*;
use std::sync::LazyLock;

const KINDS: [&str; 3] = ["k80", "p100", "v100"];
/// Measured alone and beside each other.
const MEASURED: [&str; 8] =
    ["lm-b5", "lm-b10", "lm-b20", "resnet18-b16", "resnet18-b32", "resnet50-b16", "transformer-b16", "transformer-b32"];
/// Those of the table that are made in no time.
const QUICK: [&str; 6] = ["stated", "mean", "nearest", "completion", "model", "learned"];

fn library_kind(name: &str) -> Kind {
    Library::builtin().kind(name).unwrap().clone()
}

fn kinds() -> Vec<Kind> {
    KINDS.iter().map(|name| library_kind(name)).collect()
}

fn workload(name: &str) -> &'static Workload {
    Library::builtin().workload(name).unwrap()
}

fn put(catalog: &mut Catalog, own: &str, partner: Option<&str>, kind: &str, rate: f64) {
    let key = Key { workload: own.into(), partner: partner.map(Into::into), kind: kind.into(), gang: 1 };
    let (source, standard_error) = (Source::Measured, MEASUREMENT_ERROR);
    catalog.put(key, Cell { rate, watts: None, source, observations: 1, at: Time::ZERO, standard_error }).unwrap();
}

/// The model's world, a fifth slower.
fn catalog(names: &[&str]) -> Catalog {
    let mut catalog = Catalog::default();
    for kind in kinds() {
        for one in names {
            put(
                &mut catalog,
                one,
                None,
                &kind.name,
                0.8 * model::alone(workload(one), &kind, 1, Spread::Packed).unwrap().rate,
            );
            for two in names {
                if let Some(pair) = model::beside(workload(one), workload(two), &kind) {
                    put(&mut catalog, one, Some(two), &kind.name, 0.75 * pair.own);
                }
            }
        }
    }
    catalog
}

fn subjects(names: &[&str]) -> Vec<Subject> {
    let subject =
        |name: &&str| Subject { name: (*name).into(), features: Library::builtin().workload(name).ok().cloned() };
    names.iter().map(subject).collect()
}

static NUMBERS: LazyLock<learned::Parameters> = LazyLock::new(|| {
    let (kinds, catalog) = (kinds(), Catalog::default());
    learned::train(&Setting { kinds: &kinds, workloads: &[], catalog: &catalog, seed: 1, progress: &|_| {} }).0
});

fn make(name: &str, kinds: &[Kind], workloads: &[&str], catalog: &Catalog) -> Box<dyn Estimator> {
    let workloads = subjects(workloads);
    let setting = Setting { kinds, workloads: &workloads, catalog, seed: 1, progress: &|_| {} };
    if name == "learned" {
        return learned::with(&setting, NUMBERS.clone());
    }
    (find_estimator(name).unwrap().make)(&setting).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn ask(workload: usize, gang: u32, partner: Option<usize>) -> RateQuery {
    RateQuery { workload: WorkloadId(workload as u32), gang, partner: partner.map(|p| WorkloadId(p as u32)) }
}

fn rows(estimator: &dyn Estimator, workloads: usize) -> Vec<RateRow> {
    let partners = || std::iter::once(None).chain((0..workloads).map(Some));
    let asks = (0..workloads).flat_map(|w| partners().map(move |p| ask(w, 1, p)).chain([ask(w, 4, None)]));
    asks.map(|ask| estimator.estimate(&ask)).collect()
}

fn seen(workload: usize, gang: u32, partner: Option<usize>, kind: usize, rate: f64, second: u32) -> Observation {
    Observation {
        ask: ask(workload, gang, partner),
        kind: KindId(kind as u16),
        spread: Spread::Packed,
        rate,
        watts: 0.0,
        at: Time::from_seconds(f64::from(second)),
        job: None,
    }
}

fn cell(estimator: &dyn Estimator, workload: usize, kind: usize) -> Estimate {
    estimator.estimate(&ask(workload, 1, None)).cells[kind].unwrap()
}

fn sane(row: &RateRow) {
    for cell in row.cells.iter().flatten() {
        let numbers = [cell.rate, cell.spread_rate, cell.watts, cell.standard_error];
        assert!(numbers.iter().all(|x| x.is_finite() && *x > 0.0), "{row:?}");
    }
}

fn described(domain: &str) -> Profile {
    Profile { domain: Some(domain.into()), params: Some(4e7), batch: Some(32), ..Profile::default() }
}

fn everything_stays(name: &str) {
    let catalog = catalog(&MEASURED);
    let mut estimator = make(name, &kinds(), &MEASURED[..4], &catalog);
    estimator.observe(&seen(1, 1, None, 0, 9.0, 10));
    let before = rows(estimator.as_ref(), 4);
    let parent = estimator.fork();
    let like = Profile { like: Some("resnet50-b32".into()), ..Profile::default() };
    let profiles = [Profile::default(), like, described("vision"), described("language")];
    for (i, profile) in profiles.iter().enumerate() {
        estimator.add_workload(&format!("own-{i}"), profile);
        assert_eq!(rows(estimator.as_ref(), 4), before, "{name}: {profile:?} moved others");
    }
    rows(estimator.as_ref(), 8).iter().for_each(sane);
    // A kind that nobody measured: one more cell, the others as they were.
    let before = rows(estimator.as_ref(), 8);
    estimator.add_kind(&library_kind("a100"));
    for (old, new) in before.iter().zip(rows(estimator.as_ref(), 8)) {
        assert_eq!((&old.cells[..], new.cells.len()), (&new.cells[..3], 4), "{name}");
        assert_eq!(new.cells[3].is_some(), name != "stated" || new.ask.partner.is_none(), "{name}: {new:?}");
        sane(&new);
    }
    // Measurements arrive for all of it.
    assert!(estimator.observe(&seen(5, 1, None, 3, 5.0, 20)).contains(&ask(5, 1, None)), "{name}");
    assert!(!estimator.observe(&seen(4, 1, Some(0), 3, 2.0, 20)).is_empty(), "{name}");
    assert_eq!(cell(estimator.as_ref(), 5, 3).source, Source::Measured);
    assert_eq!(cell(estimator.as_ref(), 5, 3).rate, 5.0);
    rows(estimator.as_ref(), 8).iter().for_each(sane);
    // Who was never added is unknown, and the fork heard of nothing.
    assert!(estimator.estimate(&ask(8, 1, None)).cells.iter().all(Option::is_none));
    assert!(parent.estimate(&ask(4, 1, None)).cells == [None; 3]);
    assert!(estimator.observe(&seen(9, 1, None, 0, 5.0, 30)).is_empty());
}

#[test]
fn what_is_added_and_not_measured_changes_nobody_else_to_the_bit() {
    QUICK.iter().for_each(|name| everything_stays(name));
}

#[cfg(feature = "networks")]
#[test]
fn the_same_of_the_published_networks() {
    arles_learn::ESTIMATORS.iter().filter(|e| !QUICK.contains(&e.name)).for_each(|e| everything_stays(e.name));
}

#[test]
fn a_name_that_the_catalog_knows_is_known_by_it_at_once() {
    let catalog = catalog(&MEASURED);
    for name in QUICK {
        let whole = make(name, &kinds(), &MEASURED, &catalog);
        let mut later = make(name, &kinds(), &MEASURED[..5], &catalog);
        for added in &MEASURED[5..] {
            later.add_workload(added, &Profile::default());
        }
        for (a, b) in rows(whole.as_ref(), 8).iter().zip(rows(later.as_ref(), 8)) {
            for (a, b) in a.cells.iter().zip(&b.cells) {
                let (Some(a), Some(b)) = (a, b) else {
                    assert_eq!(a, b, "{name}");
                    continue;
                };
                assert_eq!(a.source, b.source, "{name}");
                assert!((a.rate / b.rate - 1.0).abs() < 1e-9, "{name}: {a:?} {b:?}");
            }
        }
        assert_eq!(cell(later.as_ref(), 7, 2).source, Source::Measured, "{name}");
    }
}

#[test]
fn a_kind_that_the_catalog_knows_is_known_by_it_at_once() {
    let catalog = catalog(&MEASURED);
    for name in QUICK {
        let mut later = make(name, &kinds()[..2], &MEASURED, &catalog);
        later.add_kind(&library_kind("v100"));
        let whole = make(name, &kinds(), &MEASURED, &catalog);
        for t in 0..MEASURED.len() {
            assert_eq!(cell(later.as_ref(), t, 2), cell(whole.as_ref(), t, 2), "{name}");
        }
        if name != "stated" {
            let pair = |e: &dyn Estimator| e.estimate(&ask(0, 1, Some(3))).cells[2].unwrap();
            assert_eq!(pair(later.as_ref()), pair(whole.as_ref()), "{name}");
        }
    }
}

#[test]
fn cells_beside_a_partner_without_rates_of_its_own_count_once_it_is_there() {
    let mut catalog = catalog(&MEASURED);
    put(&mut catalog, "lm-b5", Some("own"), "v100", 1.5);
    for name in QUICK.iter().filter(|name| **name != "stated") {
        let mut estimator = make(name, &kinds(), &MEASURED, &catalog);
        estimator.add_workload("own", &described("language"));
        let pair = estimator.estimate(&ask(0, 1, Some(8))).cells[2].unwrap();
        assert_eq!((pair.rate, pair.source), (1.5, Source::Measured), "{name}");
        rows(estimator.as_ref(), 9).iter().for_each(sane);
    }
}

#[test]
fn with_nothing_known_a_job_gets_a_guess_and_every_measurement_makes_it_surer() {
    let kinds: Vec<Kind> = ["k80", "p100", "v100", "t4", "a100", "h100"].map(library_kind).to_vec();
    for full in [false, true] {
        let catalog = if full { catalog(&MEASURED) } else { Catalog::default() };
        for name in QUICK.iter().filter(|name| **name != "stated") {
            let mut estimator = make(name, &kinds, &[], &catalog);
            estimator.add_workload("train-3fa9c1", &Profile::default());
            let before: Vec<Estimate> = (0..6).map(|kind| cell(estimator.as_ref(), 0, kind)).collect();
            assert!(before.iter().all(|c| c.standard_error > 0.5 && c.source == Source::Initial), "{name}: {before:?}");
            assert!(before[5].rate > 1.5 * before[0].rate, "{name}: an H100 is no K80: {before:?}");
            estimator.observe(&seen(0, 1, None, 0, 0.02, 10));
            let one: Vec<Estimate> = (0..6).map(|kind| cell(estimator.as_ref(), 0, kind)).collect();
            assert_eq!((one[0].rate, one[0].source), (0.02, Source::Measured), "{name}");
            for kind in 1..6 {
                assert_eq!(one[kind].source, Source::Refined, "{name}");
                assert!(one[kind].standard_error < before[kind].standard_error, "{name}");
                let (moved, expected) = (one[kind].rate / before[kind].rate, one[0].rate / before[0].rate);
                assert!((moved / expected - 1.0).abs() < 1e-9, "{name}: {moved} {expected}");
            }
            for (kind, second) in [(1, 20), (2, 30), (3, 40)] {
                estimator.observe(&seen(0, 1, None, kind, one[kind].rate, second));
            }
            let four = cell(estimator.as_ref(), 0, 5);
            assert!(four.standard_error < one[5].standard_error, "{name}: {four:?} {:?}", one[5]);
            assert!((four.rate / one[5].rate - 1.0).abs() < 0.2, "{name}");
        }
    }
}

#[test]
fn four_runs_on_one_kind_make_the_others_surer_too() {
    let mut estimator = make("learned", &kinds(), &[], &Catalog::default());
    estimator.add_workload("train-3fa9c1", &Profile::default());
    let mut errors = vec![cell(estimator.as_ref(), 0, 2).standard_error];
    for run in 0..4 {
        estimator.observe(&seen(0, 1, None, 0, 3.0, run));
        errors.push(cell(estimator.as_ref(), 0, 2).standard_error);
    }
    assert!(errors.windows(2).all(|w| w[1] < w[0]), "{errors:?}");
}

#[test]
fn a_gang_tells_about_gangs_on_other_kinds() {
    for name in QUICK.iter().filter(|name| **name != "stated") {
        let mut estimator = make(name, &kinds(), &[], &Catalog::default());
        estimator.add_workload("train-3fa9c1", &Profile::default());
        let gang = |e: &dyn Estimator| e.estimate(&ask(0, 4, None)).cells[2].unwrap();
        let before = gang(estimator.as_ref());
        let own = estimator.estimate(&ask(0, 4, None)).cells[0].unwrap();
        assert!(estimator.observe(&seen(0, 4, None, 0, 5.0 * own.rate, 10)).contains(&ask(0, 4, None)));
        let after = gang(estimator.as_ref());
        assert!((after.rate / before.rate / 5.0 - 1.0).abs() < 1e-6, "{name}: {before:?} {after:?}");
        assert!(after.standard_error < before.standard_error && after.source == Source::Refined, "{name}");
    }
}

#[test]
fn what_is_stated_is_used_and_doubted() {
    let catalog = catalog(&MEASURED);
    let mut estimator = make("learned", &kinds(), &["resnet50-b32"], &catalog);
    estimator.add_workload("own", &Profile { like: Some("resnet50-b32".into()), ..Profile::default() });
    estimator.add_workload("other", &described("vision"));
    estimator.add_workload("large", &Profile { memory_gib: Some(14.0), ..Profile::default() });
    for kind in 0..3 {
        let [known, like, stated] = [0, 1, 2].map(|t| cell(estimator.as_ref(), t, kind));
        assert!((like.rate / known.rate - 1.0).abs() < 0.1, "{known:?} {like:?}");
        assert!(known.standard_error < like.standard_error && like.standard_error < stated.standard_error);
    }
    // 12 GiB, 16 and 16.
    let large = estimator.estimate(&ask(3, 1, None)).cells;
    assert!(large[0].is_none() && large[1].is_some() && large[2].is_some(), "{large:?}");
}

#[test]
fn profiles_of_the_catalog_are_remembered() {
    let mut catalog = catalog(&MEASURED);
    catalog.set_profile("own", Profile { like: Some("resnet50-b32".into()), ..Profile::default() });
    let estimate = |profile: &Profile| {
        let mut estimator = make("nearest", &kinds(), &[], &catalog);
        estimator.add_workload("own", profile);
        cell(estimator.as_ref(), 0, 2)
    };
    let remembered = estimate(&Profile::default());
    assert_eq!(estimate(&Profile { like: Some("resnet50-b32".into()), ..Profile::default() }), remembered);
    assert_ne!(estimate(&Profile { like: Some("lm-b80".into()), ..Profile::default() }), remembered);
}

/// What somebody submits: everything that matters here is whether there are features.
fn any_profile() -> impl Strategy<Value = Profile> {
    prop_oneof![
        Just(Profile::default()),
        Just(described("speech")),
        Just(Profile { like: Some("lm-b40".into()), ..Profile::default() }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Names, then what is measured of them, in two different orders of addition, and known from the beginning.
    #[test]
    fn the_order_of_additions_does_not_matter(
        order in Just((0..6usize).collect::<Vec<_>>()).prop_shuffle(),
        measured in prop::collection::vec((0..6usize, 0..3usize, 1.0f64..50.0), 0..12),
        profile in any_profile(),
        name in prop::sample::select(&["mean", "nearest", "completion", "model", "stated"][..]),
    ) {
        let catalog = catalog(&MEASURED);
        let grown = |order: &[usize]| {
            let mut estimator = make(name, &kinds(), &["lm-b5"], &catalog);
            for at in order {
                // Two that are exactly alike are told apart by who came first.
                let profile = Profile { batch: Some(8 + 5 * *at as u32), ..profile.clone() };
                estimator.add_workload(&format!("own-{at}"), &profile);
            }
            let id = |at: usize| 1 + order.iter().position(|o| *o == at).unwrap();
            for (second, (at, kind, rate)) in measured.iter().enumerate() {
                estimator.observe(&seen(id(*at), 1, None, *kind, *rate, second as u32));
            }
            let solo: Vec<RateRow> = (0..6).map(|at| estimator.estimate(&ask(id(at), 1, None))).collect();
            (solo, estimator.estimate(&ask(0, 1, None)))
        };
        let (one, first) = grown(&order);
        let (two, second) = grown(&[0, 1, 2, 3, 4, 5]);
        prop_assert_eq!(first.cells, second.cells);
        for (a, b) in one.iter().zip(&two) {
            sane(a);
            for (a, b) in a.cells.iter().zip(&b.cells) {
                let (a, b) = (a.unwrap(), b.unwrap());
                prop_assert_eq!(a.source, b.source);
                prop_assert!((a.rate / b.rate - 1.0).abs() < 1e-9, "{:?} {:?}", a, b);
                prop_assert!((a.standard_error - b.standard_error).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn a_pair_that_was_measured_is_known_under_other_power_limits() {
    let v100 = library_kind("v100");
    let limited = v100.limited_to(200.0).unwrap();
    let (one, two) = ("resnet50-b16", "lm-b5");
    let mut catalog = catalog(&MEASURED);
    // Nobody would expect that the one is left a twentieth of its speed.
    let alone = catalog.get(&Key { workload: two.into(), partner: None, kind: "v100".into(), gang: 1 }).unwrap().rate;
    put(&mut catalog, two, Some(one), "v100", 0.05 * alone);
    for name in QUICK {
        let estimator = make(name, &[v100.clone(), limited.clone()], &[one, two], &catalog);
        let row = estimator.estimate(&ask(0, 1, Some(1)));
        let [Some(sold), Some(under)] = row.cells[..] else { continue };
        let part = under.partner_rate / sold.partner_rate;
        assert!((0.3..=1.0).contains(&part), "{name}: {part} of what is left without the limit");
        assert!(under.rate <= sold.rate * 1.0001, "{name}");
    }
}
