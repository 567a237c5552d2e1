//! What frugality saves, and what it costs in completion times, through placer and simulator: beside `oef-coop`, in the built-in world, on Gavel's rates (with modelled
//! watts) and on Zeus' measurements of power limits. And how much of it is lost when shares become whole gangs.
//!
//! `ARLES_SEEDS=5 cargo test --release -p arles-sim --test frugal_worlds -- --nocapture --test-threads 1` prints the tables of docs/fair-energy.md; a measured world is
//! skipped, and says so, where its data is not beside the checkout. Without `ARLES_SEEDS` only two sacrifices, five seeds and the middle load are run.

#[path = "support/full_power.rs"]
mod full_power;
#[path = "support/promise.rs"]
mod promise;
#[path = "support/zeus.rs"]
mod zeus;

use arles_core::allocate::{FreeGpus, PolicyEntry, find_policy};
use arles_core::{Cluster, Kind, KindId, Library};
use arles_report::MeanInterval;
use arles_report::record::Summary;
use arles_sim::rates::RateTable;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::Mix;
use arles_sim::trace::generate::{Arrivals, GenerateOptions, Generator, Submitter};
use arles_sim::world::WorldOptions;
use promise::Promise;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const JOBS: u64 = 400;

struct World {
    name: &'static str,
    cluster: Cluster,
    table: Option<RateTable>,
    workloads: Option<Mix<String>>,
    gangs: Mix<u32>,
    /// Light, middle and heavy load.
    jobs_per_hour: [f64; 3],
}

/// Nodes of each kind, GPUs of a node, and the limits that its GPUs may be run under.
type Machines<'a> = (&'a str, u32, u32, &'a [f64]);

fn cluster(machines: &[Machines<'_>]) -> Cluster {
    let kind = |name: &str| Library::builtin().kind(name).expect("built in").clone();
    let kinds: Vec<Kind> = machines.iter().map(|(name, ..)| kind(name)).collect();
    let nodes = machines.iter().zip(0..).flat_map(|((name, nodes, gpus, _), j)| {
        (0..*nodes).map(move |n| (format!("{name}-{n}"), KindId(j), *gpus)).collect::<Vec<_>>()
    });
    let limited = |(&(.., limits), kind): (&Machines<'_>, &Kind)| -> Vec<Kind> {
        limits.iter().map(|watts| kind.limited_to(*watts).expect("a sound limit")).collect()
    };
    let modes: Vec<Kind> = machines.iter().zip(&kinds).flat_map(limited).collect();
    Cluster::new(kinds.clone(), nodes).expect("a sound cluster").with_modes(&modes).expect("sound modes")
}

fn built_in() -> World {
    World {
        name: "Built-in world",
        cluster: cluster(&[("v100", 2, 4, &[200.0, 150.0]), ("p100", 2, 4, &[180.0]), ("k80", 2, 4, &[])]),
        table: None,
        workloads: None,
        gangs: GenerateOptions::default().gangs,
        jobs_per_hour: [4.0, 6.0, 8.0],
    }
}

/// Limits at 3/4, 3/5 and 9/20 of full power, as in `watts.rs`.
fn gavel(file: &Path) -> World {
    let machines: [Machines<'_>; 3] = [
        ("v100", 2, 4, &[225.0, 180.0, 135.0]),
        ("p100", 2, 4, &[187.0, 150.0, 112.0]),
        ("k80", 2, 4, &[112.0, 90.0, 67.0]),
    ];
    World {
        name: "Gavel's rates, modelled watts",
        cluster: cluster(&machines),
        table: Some(RateTable::from_file(file).expect("a table")),
        workloads: None,
        gangs: Mix::new([(1, 70.0), (2, 15.0), (4, 15.0)]).expect("sound weights"),
        jobs_per_hour: [5.0, 8.0, 11.0],
    }
}

/// Rates and watts as they were measured, of everything that was run on all kinds; nobody measured gangs.
fn zeus(folder: &Path) -> World {
    let variants = zeus::variants(folder);
    let limits = zeus::limits(&variants);
    let mut table = BTreeMap::new();
    for (j, kind) in zeus::KINDS.iter().enumerate() {
        for limit in &limits[j] {
            let sold = limits[j].last() == Some(limit);
            let row = |(name, cells): (&String, &Vec<zeus::Cells>)| {
                let (rate, watts) = cells[j][limit];
                (format!("('{name}', 1)"), BTreeMap::from([("null", rate), ("watts", watts)]))
            };
            let rows: BTreeMap<_, _> = variants.iter().map(row).collect();
            table.insert(if sold { (*kind).to_owned() } else { format!("{kind}@{limit}W") }, rows);
        }
    }
    let text = serde_json::to_string(&table).expect("JSON");
    let lower = |limits: &Vec<u32>| limits[..limits.len() - 1].iter().copied().map(f64::from).collect();
    let lower: Vec<Vec<f64>> = limits.iter().map(lower).collect();
    let machines: Vec<Machines<'_>> =
        zeus::KINDS.iter().zip(&lower).map(|(kind, lower)| (*kind, 1, 5, &lower[..])).collect();
    World {
        name: "Zeus' measurements",
        cluster: cluster(&machines),
        table: Some(RateTable::from_json(&text, "zeus").expect("a table")),
        workloads: Some(Mix::new(variants.keys().map(|name| (name.clone(), 1.0))).expect("sound weights")),
        gangs: Mix::only(1),
        jobs_per_hour: [6.0, 9.0, 12.0],
    }
}

/// A policy as it is run.
#[derive(Clone, Copy)]
struct Run {
    entry: &'static PolicyEntry,
    epsilon: f64,
}

fn entry(name: &str) -> &'static PolicyEntry {
    find_policy(name).expect("in the table")
}

/// `fair-energy` with or without two jobs on one GPU, and with another use of the GPUs that it leaves free.
fn fair_energy(epsilon: f64, pairs: bool, free_gpus: FreeGpus) -> Run {
    let entry = Box::leak(Box::new(PolicyEntry { pairs, free_gpus, ..*entry("fair-energy") }));
    Run { entry, epsilon }
}

/// How a run ended, and what its shares promised to save.
struct Ended {
    summary: Summary,
    promised: Option<f64>,
}

fn run(world: &World, run: Run, jobs_per_hour: f64, seed: u64) -> Ended {
    let tenant = |(name, weight): (&str, f64)| Submitter { name: name.into(), weight, demand: 1.0 };
    let mut options = GenerateOptions {
        jobs: JOBS,
        seed,
        arrivals: Arrivals::Poisson { per_hour: jobs_per_hour },
        durations: "cap=86400".parse().expect("sound durations"),
        gangs: world.gangs.clone(),
        tenants: [("vision", 1.0), ("search", 1.0), ("speech", 2.0)].map(tenant).to_vec(),
        ..GenerateOptions::default()
    };
    if let Some(workloads) = &world.workloads {
        options.workloads = workloads.clone();
    }
    let trace = Generator::new(options).expect("sound options").into_trace();
    let options = Options {
        round_seconds: 360.0,
        restart_seconds: 30.0,
        world_options: WorldOptions { unused_off: true, ..WorldOptions::default() },
        epsilon: run.epsilon,
        drop_unfit: true,
        keep_details: false,
        ..Options::default()
    };
    let scenario =
        Scenario::new(world.cluster.clone(), Arc::new(trace), world.table.clone(), options).expect("it fits");
    let mut promise = run.entry.energy_aware.then(Promise::default);
    let observer = promise.as_mut().map(|promise| promise as _);
    let hooks = RunHooks { observer, ..RunHooks::default() };
    let summary = scenario.run(run.entry, hooks, &mut |_| {}).expect("no journal").summary;
    let promised = promise.map(|promise| promise.saved(summary.makespan_seconds));
    Ended { summary, promised }
}

/// Changes beside `oef-coop`, in per cent, seed by seed.
struct Beside {
    jct: MeanInterval,
    energy: MeanInterval,
    promised: f64,
}

fn beside(world: &World, asked: Run, jobs_per_hour: f64, plain: &[Ended]) -> Beside {
    let seeds = 1..=plain.len() as u64;
    let runs: Vec<Ended> = seeds.map(|seed| run(world, asked, jobs_per_hour, seed)).collect();
    let change = |of: fn(&Summary) -> f64| {
        let change = |(own, plain): (&Ended, &Ended)| 100.0 * (of(&own.summary) / of(&plain.summary) - 1.0);
        MeanInterval::of(&runs.iter().zip(plain).map(change).collect::<Vec<_>>())
    };
    for (own, plain) in runs.iter().zip(plain) {
        assert_eq!(own.summary.jobs_completed, plain.summary.jobs_completed, "everybody ends");
    }
    let promised = runs.iter().filter_map(|run| run.promised).sum::<f64>() / plain.len() as f64;
    Beside { jct: change(|s| s.mean_jct_seconds), energy: change(|s| s.energy_kwh), promised: -100.0 * promised }
}

/// How many seeds, and whether all is run that the tables of the docs have.
fn seeds() -> (u64, bool) {
    let asked = std::env::var("ARLES_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    (asked.unwrap_or(5), asked.is_some())
}

/// A table with the runs as rows and the loads as columns; what it says is returned by run and load.
fn table(world: &World, runs: &[(String, Run)]) -> Vec<Vec<Beside>> {
    let (seeds, all) = seeds();
    let loads = if all { &world.jobs_per_hour[..] } else { &world.jobs_per_hour[1..2] };
    println!(
        "\n{}: change of mean JCT and energy beside oef-coop, % (promised by shares), {seeds} seeds\n",
        world.name
    );
    let plain = |jobs_per_hour: &f64| -> Vec<Ended> {
        let asked = Run { entry: entry("oef-coop"), epsilon: 0.0 };
        (1..=seeds).map(|seed| run(world, asked, *jobs_per_hour, seed)).collect()
    };
    let plain: Vec<Vec<Ended>> = loads.iter().map(plain).collect();
    let mean = |runs: &[Ended], of: fn(&Summary) -> f64| {
        runs.iter().map(|run| of(&run.summary)).sum::<f64>() / runs.len() as f64
    };
    let head = loads.iter().zip(&plain).map(|(jobs_per_hour, plain)| {
        let used = mean(plain, |s| s.utilisation_ratio) * 100.0;
        let (jct, energy) = (mean(plain, |s| s.mean_jct_seconds / 3600.0), mean(plain, |s| s.energy_kwh));
        format!(" {jobs_per_hour} jobs an hour ({used:.0} % used, {jct:.1} h, {energy:.0} kWh) |")
    });
    println!("| |{}", head.collect::<String>());
    println!("| --- |{}", " --- |".repeat(loads.len()));
    let mut rows = Vec::new();
    for (name, asked) in runs {
        let cell = |(jobs_per_hour, plain): (&f64, &Vec<Ended>)| beside(world, *asked, *jobs_per_hour, plain);
        let cells: Vec<Beside> = loads.iter().zip(&plain).map(cell).collect();
        let shown = cells.iter().map(|cell| {
            let spread =
                |change: &MeanInterval| format!("{:+.1} ± {:.1}", change.mean, change.half_width.unwrap_or(0.0));
            let promised =
                if asked.entry.name == "fair-energy" { format!(" ({:+.1})", cell.promised) } else { String::new() };
            format!(" {}, {}{promised} |", spread(&cell.jct), spread(&cell.energy))
        });
        println!("| {name} |{}", shown.collect::<String>());
        rows.push(cells);
    }
    rows
}

/// At least half of what the shares promise arrives, for at most twice ε in completion times; and nothing happens where nothing is given up.
fn is_worth_it(world: &World, pairs: bool) {
    let (_, all) = seeds();
    let epsilons: &[f64] = if all { &[0.0, 0.01, 0.02, 0.05, 0.1, 0.2] } else { &[0.0, 0.05] };
    let ask = |&epsilon: &f64, pairs| {
        let with = if pairs { ", pairs" } else { "" };
        (format!("ε = {:.0} %{with}", 100.0 * epsilon), fair_energy(epsilon, pairs, FreeGpus::KeptOnAverage))
    };
    let mut runs: Vec<(String, Run)> = epsilons.iter().map(|epsilon| ask(epsilon, false)).collect();
    if all {
        runs.extend(epsilons.iter().filter(|_| pairs).map(|epsilon| ask(epsilon, true)));
        runs.push(("fair-power".to_owned(), Run { entry: entry("fair-power"), epsilon: 0.0 }));
    }
    for ((name, asked), cells) in runs.iter().zip(table(world, &runs)) {
        if asked.entry.name == "fair-energy" {
            assert!(cells.iter().all(|cell| cell.energy.mean <= 2.0), "{name}: frugality saves energy or costs none");
        }
        for Beside { jct, energy, promised } in cells.iter().filter(|_| !asked.entry.pairs) {
            if asked.epsilon == 0.0 {
                assert!(jct.mean <= 1.0 && energy.mean <= 1.0, "{name}: {:+.1}, {:+.1}", jct.mean, energy.mean);
            }
            if asked.epsilon == 0.05 {
                assert!(energy.mean <= 0.5 * promised, "{name}: {:+.1} of {promised:+.1}", energy.mean);
                assert!(jct.mean <= 10.0, "{name}: {:+.1}", jct.mean);
            }
        }
    }
}

#[test]
fn frugal_in_the_built_in_world() {
    is_worth_it(&built_in(), true);
}

#[test]
fn frugal_on_gavels_rates() {
    let Some(file) = arles_testing::shared("data/gavel/simulation_throughputs.json") else { return };
    is_worth_it(&gavel(&file), true);
}

#[test]
fn frugal_on_zeus_measurements() {
    let Some(folder) = arles_testing::shared("data/zeus") else { return };
    is_worth_it(&zeus(&folder), false);
}

/// What becomes of GPUs that the policy leaves free: given away, kept on average, or all kept.
#[test]
fn what_is_given_up_is_not_handed_back() {
    let ways = [
        ("given away", FreeGpus::GivenAway),
        ("kept on average", FreeGpus::KeptOnAverage),
        ("all kept", FreeGpus::Kept),
    ];
    let runs: Vec<(String, Run)> = [0.0, 0.05]
        .into_iter()
        .flat_map(|epsilon| {
            let name = |way| format!("ε = {:.0} %, {way}", 100.0 * epsilon);
            ways.map(|(way, free_gpus)| (name(way), fair_energy(epsilon, false, free_gpus)))
        })
        .collect();
    let cells = table(&built_in(), &runs);
    for ((given, kept), all) in cells[3].iter().zip(&cells[4]).zip(&cells[5]) {
        assert!(kept.energy.mean < given.energy.mean - 1.0, "what is given away is not saved");
        assert!(kept.jct.mean < all.jct.mean - 1.0, "what is kept by rounding costs time and saves nothing");
    }
}
