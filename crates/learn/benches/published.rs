//! What the published networks cost: training, one row of estimates, one observation; beside copying the nearest workload.
//!
//! `cargo bench -p arles-learn --bench published [-- WORKLOADS]` (default 26,100). Rates are the performance model's.

use arles_core::estimate::{Observation, RateQuery, Source};
use arles_core::{Kind, KindId, Library, Spread, Time, Workload, WorkloadId, model};
use arles_learn::{Catalog, Cell, Key, Setting, Subject, find_estimator};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let sizes = args.first().map_or("26,100", String::as_str);
    let kinds: Vec<Kind> =
        ["k80", "p100", "v100"].iter().map(|k| Library::builtin().kind(k).expect("in the library").clone()).collect();
    println!(
        "{:<16} {:>9} {:>12} {:>18} {:>18}",
        "estimator", "workloads", "training s", "us per pair row", "us per observation"
    );
    for size in sizes.split(',') {
        let workloads: Vec<Workload> =
            Library::builtin().workloads().iter().take(size.parse().expect("a number of workloads")).cloned().collect();
        for name in ["nearest", "learned-ff-ff", "learned-rnn-ff"] {
            measure(name, &kinds, &workloads);
        }
    }
}

/// Trains on all but the first workload, then asks and tells about it.
fn measure(name: &str, kinds: &[Kind], workloads: &[Workload]) {
    let catalog = measured(kinds, &workloads[1..]);
    let subjects: Vec<Subject> =
        workloads.iter().map(|w| Subject { name: w.name.clone(), features: Some(w.clone()) }).collect();
    let setting = Setting { kinds, workloads: &subjects, catalog: &catalog, seed: 1, progress: &|_| {} };
    let begin = Instant::now();
    let made = (find_estimator(name).expect("in the table").make)(&setting);
    let mut estimator = made.unwrap_or_else(|why| panic!("{why}"));
    let training = begin.elapsed().as_secs_f64();
    let new =
        |partner: usize| RateQuery { workload: WorkloadId(0), gang: 1, partner: Some(WorkloadId(partner as u32)) };
    let begin = Instant::now();
    let last = kinds.len() - 1;
    let seen = 1 + workloads.len() / 4;
    for partner in 1..seen {
        let Some(pair) = model::beside(&workloads[0], &workloads[partner], &kinds[last]) else { continue };
        estimator.observe(&Observation {
            ask: new(partner),
            kind: KindId(last as u16),
            spread: Spread::Packed,
            rate: pair.own,
            watts: 0.0,
            at: Time::ZERO,
            job: None,
        });
    }
    let observing = begin.elapsed().as_secs_f64() / (seen - 1).max(1) as f64;
    let begin = Instant::now();
    for partner in seen..workloads.len() {
        std::hint::black_box(estimator.estimate(&new(partner)));
    }
    let asking = begin.elapsed().as_secs_f64() / (workloads.len() - seen).max(1) as f64;
    println!("{name:<16} {:>9} {training:>12.3} {:>18.1} {:>18.1}", workloads.len(), asking * 1e6, observing * 1e6);
}

fn measured(kinds: &[Kind], workloads: &[Workload]) -> Catalog {
    let mut catalog = Catalog::default();
    for k in kinds {
        for w in workloads {
            catalog.describe(w.clone());
            let mut put = |partner: Option<&Workload>, rate: f64| {
                let (workload, partner) = (w.name.clone(), partner.map(|p| p.name.clone()));
                let source = Source::Measured;
                let cell = Cell { rate, watts: None, source, observations: 1, at: Time::ZERO, standard_error: 0.03 };
                let key = Key { workload, partner, kind: k.name.clone(), gang: 1 };
                catalog.put(key, cell).expect("the model's rates are numbers");
            };
            put(None, model::alone(w, k, 1, Spread::Packed).map_or(0.0, |p| p.rate));
            for p in workloads {
                put(Some(p), model::beside(w, p, k).map_or(0.0, |t| t.own));
            }
        }
    }
    catalog
}
