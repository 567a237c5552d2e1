//! How long `learned`, `process` and `stacked` take to digest one observation and to answer a full row, beside simpler estimators.
//!
//! A catalog of n workloads on six kinds, each measured alone everywhere and beside 30 others; a row is one workload beside 200
//! partners on all kinds, both sides. `cargo bench -p arles-learn --bench digest`. Budgets at 1,000 workloads: 10 ms an
//! observation, 5 ms a row.
//!
//! The second table: an estimator of the library's workloads, all measured, to which 10,000 workloads are added, first with nothing known
//! of them, then like one of the library; the first thousand are measured once, the cluster gets another kind, the whole is forked.

use arles_core::estimate::{Estimator, Observation, RateQuery, Source};
use arles_core::{Kind, KindId, Library, Profile, Spread, Time, Workload, WorkloadId, model};
use arles_learn::catalog::{Cell, MEASUREMENT_ERROR};
use arles_learn::{Catalog, Key, Setting, Subject, find_estimator, learned, stacked};
use std::time::Instant;

const KINDS: [&str; 6] = ["k80", "p100", "v100", "t4", "a100", "h100"];
const PARTNERS: usize = 30;
const ROW: usize = 200;
const REPEATS: usize = 50;
const ADDED: usize = 10_000;
const MEASURED: usize = 1_000;

fn main() {
    let library = Library::builtin();
    let kinds: Vec<Kind> = KINDS.iter().map(|k| library.kind(k).expect("a kind of the library").clone()).collect();
    println!("{:>9} {:>10} {:>12} {:>14} {:>10}", "workloads", "estimator", "make ms", "observe ms", "row ms");
    for n in [100, 300, 1000] {
        let workloads = workloads(library, n);
        let catalog = catalog(&kinds, &workloads);
        let subjects: Vec<Subject> =
            workloads.iter().map(|w| Subject { name: w.name.clone(), features: Some(w.clone()) }).collect();
        let setting = Setting { kinds: &kinds, workloads: &subjects, catalog: &catalog, seed: 1, progress: &|_| {} };
        for name in ["nearest", "completion", "learned", "process", "stacked"] {
            let before = Instant::now();
            // The numbers are trained once, elsewhere: on the prior world, which does not depend on n.
            let numbers = || learned::train(&Setting { catalog: &Catalog::default(), workloads: &[], ..setting }).0;
            let mut made = match name {
                "learned" => learned::with(&setting, numbers()),
                "stacked" => stacked::with(&setting, numbers()),
                _ => (find_estimator(name).expect("it is in the table").make)(&setting).expect("it can be made"),
            };
            let make = before.elapsed().as_secs_f64() * 1e3;
            let (observe, row) = measure(made.as_mut(), n);
            println!("{n:>9} {name:>10} {make:>12.1} {observe:>14.3} {row:>10.3}");
        }
    }
    additions(library, &kinds);
}

/// What additions cost.
fn additions(library: &Library, kinds: &[Kind]) {
    println!(
        "\n{:>10} {:>8} {:>10} {:>14} {:>12} {:>10} {:>10}",
        "estimator", "profile", "add us", "observe ms", "solo row us", "kind ms", "fork us"
    );
    let workloads = workloads(library, library.workloads().len());
    let catalog = catalog(kinds, &workloads);
    let subjects: Vec<Subject> =
        workloads.iter().map(|w| Subject { name: w.name.clone(), features: Some(w.clone()) }).collect();
    let setting = Setting { kinds, workloads: &subjects, catalog: &catalog, seed: 1, progress: &|_| {} };
    let (numbers, _) = learned::train(&Setting { catalog: &Catalog::default(), workloads: &[], ..setting });
    for name in ["nearest", "completion", "learned"] {
        for like in [None, Some("resnet50-b32")] {
            let mut made = if name == "learned" {
                learned::with(&setting, numbers.clone())
            } else {
                (find_estimator(name).expect("it is in the table").make)(&setting).expect("it can be made")
            };
            let known = workloads.len();
            let profile = |i: usize| Profile {
                like: like.map(str::to_owned),
                batch: Some(1 + i as u32 % 500),
                ..Profile::default()
            };
            let add = timed(ADDED, |i| made.add_workload(&format!("own-{i}"), &profile(i)));
            let ask = |i: usize| RateQuery { workload: WorkloadId((known + i) as u32), gang: 1, partner: None };
            let observe = timed(MEASURED, |i| {
                let kind = KindId((i % KINDS.len()) as u16);
                let (rate, at) = (1.0 + i as f64, Time::from_seconds(i as f64));
                made.observe(&Observation {
                    ask: ask(i),
                    kind,
                    spread: Spread::Packed,
                    rate,
                    watts: 0.0,
                    at,
                    job: None,
                });
            });
            let row = timed(ADDED, |i| assert!(made.estimate(&ask(i)).cells.iter().all(Option::is_some)));
            let kind = timed(1, |_| made.add_kind(library.kind("a40").expect("a kind of the library")));
            let fork = timed(100, |_| drop(made.fork()));
            println!(
                "{name:>10} {:>8} {:>10.2} {:>14.3} {:>12.2} {:>10.1} {:>10.1}",
                if like.is_some() { "like" } else { "nothing" },
                add * 1e6,
                observe * 1e3,
                row * 1e6,
                kind * 1e3,
                fork * 1e6
            );
        }
    }
}

/// Mean seconds of so many turns.
fn timed(turns: usize, mut turn: impl FnMut(usize)) -> f64 {
    let before = Instant::now();
    (0..turns).for_each(&mut turn);
    before.elapsed().as_secs_f64() / turns as f64
}

/// Median ms of an observation, and the least of several rows: others use this machine too.
fn measure(made: &mut dyn Estimator, n: usize) -> (f64, f64) {
    let id = |i: usize| WorkloadId((i % n) as u32);
    let mut observations: Vec<f64> = (0..REPEATS)
        .map(|i| {
            let partner = (i % 2 == 0).then(|| id(i * 7 + 31));
            let before = Instant::now();
            made.observe(&Observation {
                ask: RateQuery { workload: id(i * 13), gang: 1, partner },
                kind: KindId((i % KINDS.len()) as u16),
                spread: Spread::Packed,
                rate: 5.0,
                watts: 150.0,
                at: Time::from_seconds(i as f64),
                job: None,
            });
            before.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    observations.sort_by(f64::total_cmp);
    let row = || {
        let before = Instant::now();
        let ask = |j: usize| RateQuery { workload: id(17), gang: 1, partner: Some(id(j * 5 + 1)) };
        let rows = (0..ROW).map(|j| made.estimate(&ask(j)));
        let sum: f64 = rows.flat_map(|row| row.cells).flatten().map(|e| e.rate).sum();
        assert!(sum.is_finite());
        before.elapsed().as_secs_f64() * 1e3
    };
    (observations[REPEATS / 2], (0..10).map(|_| row()).fold(f64::INFINITY, f64::min))
}

/// The library's workloads, again and again, each time a little larger.
fn workloads(library: &Library, n: usize) -> Vec<Workload> {
    let fits: Vec<&Workload> = library.workloads().iter().filter(|w| w.memory_gib < 5.0).collect();
    let make = |i: usize| {
        let (w, copy) = (fits[i % fits.len()], i / fits.len());
        let scale = 1.0 + 0.2 * copy as f64;
        Workload {
            name: format!("{}-{copy}", w.name),
            family: format!("{}-{copy}", w.family),
            flops_per_step: w.flops_per_step * scale,
            bytes_per_step: w.bytes_per_step * scale,
            params: w.params * scale,
            aliases: Vec::new(),
            ..w.clone()
        }
    };
    (0..n).map(make).collect()
}

fn catalog(kinds: &[Kind], workloads: &[Workload]) -> Catalog {
    let mut catalog = Catalog::default();
    let mut put = |workload: &Workload, partner: Option<&Workload>, kind: &Kind, rate: f64| {
        let partner = partner.map(|p| p.name.clone());
        let key = Key { workload: workload.name.clone(), partner, kind: kind.name.clone(), gang: 1 };
        let (source, standard_error) = (Source::Measured, MEASUREMENT_ERROR);
        let cell = Cell { rate, watts: None, source, observations: 1, at: Time::ZERO, standard_error };
        catalog.put(key, cell).expect("a rate of the model makes sense");
    };
    for kind in kinds {
        for (i, w) in workloads.iter().enumerate() {
            if let Some(alone) = model::alone(w, kind, 1, Spread::Packed) {
                put(w, None, kind, alone.rate);
            }
            for p in 1..=PARTNERS / 2 {
                let other = &workloads[(i + p * 37) % workloads.len()];
                if let Some(pair) = model::beside(w, other, kind) {
                    put(w, Some(other), kind, pair.own);
                    put(other, Some(w), kind, pair.partner);
                }
            }
        }
    }
    catalog
}
