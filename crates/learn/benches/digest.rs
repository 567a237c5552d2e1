//! How long `learned` takes to digest one observation and to answer a full row, beside simpler estimators.
//!
//! A catalog of n workloads on six kinds, each measured alone everywhere and beside 30 others; a row is one workload beside 200
//! partners on all kinds, both sides. `cargo bench -p arles-learn --bench digest`. Budgets at 1,000 workloads: 10 ms an
//! observation, 5 ms a row.

use arles_core::estimate::{Estimator, Observation, RateQuery, Source};
use arles_core::{Kind, KindId, Library, Time, Workload, WorkloadId, model};
use arles_learn::catalog::{Cell, MEASUREMENT_ERROR};
use arles_learn::{Catalog, Key, Setting, Subject, find_estimator, learned};
use std::time::Instant;

const KINDS: [&str; 6] = ["k80", "p100", "v100", "t4", "a100", "h100"];
const PARTNERS: usize = 30;
const ROW: usize = 200;
const REPEATS: usize = 50;

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
        for name in ["nearest", "completion", "learned"] {
            let before = Instant::now();
            // The numbers are trained once, elsewhere: on the prior world, which does not depend on n.
            let mut made = if name == "learned" {
                let (numbers, _) = learned::train(&Setting { catalog: &Catalog::default(), workloads: &[], ..setting });
                learned::with(&setting, numbers)
            } else {
                (find_estimator(name).expect("it is in the table").make)(&setting).expect("it can be made")
            };
            let make = before.elapsed().as_secs_f64() * 1e3;
            let (observe, row) = measure(made.as_mut(), n);
            println!("{n:>9} {name:>10} {make:>12.1} {observe:>14.3} {row:>10.3}");
        }
    }
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
                spread: false,
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
            if let Some(alone) = model::alone(w, kind, 1, false) {
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
