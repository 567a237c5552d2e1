//! What frugality costs in completion times, through placer and simulator: `fair-energy` and `fair-power` beside `oef-coop`, and what it would cost if the placer left
//! free what they leave free.
//!
//! `cargo test --release -p arles-sim --test frugal_jct -- --nocapture` prints the table of docs/fair-energy.md.

use arles_core::allocate::{PolicyEntry, find_policy};
use arles_core::{Cluster, KindId, Library};
use arles_report::record::Summary;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::generate::{Arrivals, GenerateOptions, Generator};
use arles_sim::world::WorldOptions;
use std::sync::Arc;

/// Eight GPUs of each of three kinds, two of which can be run under limits.
fn cluster() -> Cluster {
    let kinds = ["v100", "p100", "k80"].map(|name| Library::builtin().kind(name).expect("built in").clone());
    let nodes = (0..6u32).map(|n| (format!("n{n}"), KindId((n / 2) as u16), 4));
    let modes = [kinds[0].limited_to(200.0), kinds[0].limited_to(150.0), kinds[1].limited_to(180.0)];
    let modes: Vec<_> = modes.into_iter().map(|mode| mode.expect("a sound limit")).collect();
    Cluster::new(kinds.to_vec(), nodes).expect("a sound cluster").with_modes(&modes).expect("sound modes")
}

fn run(policy: &'static PolicyEntry, seed: u64, per_hour: f64, epsilon: f64) -> Summary {
    let options =
        GenerateOptions { jobs: 100, seed, arrivals: Arrivals::Poisson { per_hour }, ..GenerateOptions::default() };
    let trace = Generator::new(options).expect("sound options").into_trace();
    let world_options = WorldOptions { unused_off: true, ..WorldOptions::default() };
    let options = Options {
        round_seconds: 360.0,
        restart_seconds: 30.0,
        world_options,
        epsilon,
        drop_unfit: true,
        ..Options::default()
    };
    let scenario = Scenario::new(cluster(), Arc::new(trace), None, options).expect("it fits");
    scenario.run(policy, RunHooks::default(), &mut |_| {}).expect("no journal").summary
}

/// The same policy, whose free GPUs stay free.
fn frugal(entry: &'static PolicyEntry) -> &'static PolicyEntry {
    Box::leak(Box::new(PolicyEntry { leaves_free: true, ..*entry }))
}

#[test]
fn a_part_of_everybodys_speed_is_not_many_times_as_much_of_its_time() {
    println!("seed  jobs/h  policy                      mean JCT   energy     beside oef-coop");
    for (seed, per_hour) in [(1, 10.0)] {
        let plain = run(find_policy("oef-coop").expect("in the table"), seed, per_hour, 0.05);
        let beside = |name: &str, summary: &Summary| {
            let (jct, energy) =
                (summary.mean_jct_seconds / plain.mean_jct_seconds, summary.energy_kwh / plain.energy_kwh);
            println!(
                "{seed:>4}  {per_hour:>6}  {name:<26}  {:>6.2} h  {:>5.0} kWh  JCT {:>+5.1} %, energy {:>+5.1} %",
                summary.mean_jct_seconds / 3600.0,
                summary.energy_kwh,
                100.0 * (jct - 1.0),
                100.0 * (energy - 1.0)
            );
            assert_eq!(summary.jobs_completed, plain.jobs_completed, "{name}: everybody ends");
            (jct, energy)
        };
        beside("oef-coop", &plain);
        for epsilon in [0.0, 0.05] {
            let entry = find_policy("fair-energy").expect("in the table");
            beside(&format!("fair-energy {epsilon}, frugal"), &run(frugal(entry), seed, per_hour, epsilon));
            let (_, energy) = beside(&format!("fair-energy {epsilon}"), &run(entry, seed, per_hour, epsilon));
            assert!(energy <= 1.02, "frugality saves energy or costs none");
        }
        let entry = find_policy("fair-power").expect("in the table");
        beside("fair-power, frugal", &run(frugal(entry), seed, per_hour, 0.05));
        beside("fair-power", &run(entry, seed, per_hour, 0.05));
    }
}

/// The table of docs/fair-energy.md: means over seeds, at three loads. `ARLES_SEEDS` says how many; two by default, so that the test is short: of one seed
/// alone a per cent is chance.
#[test]
fn what_is_saved_at_three_loads() {
    let seeds = std::env::var("ARLES_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(2u64);
    println!("jobs/h  policy               mean JCT   energy   (beside oef-coop, {seeds} seeds)");
    for per_hour in [5.0, 10.0, 20.0] {
        let entry = |name: &str| find_policy(name).expect("in the table");
        let plain: Vec<Summary> = (1..=seeds).map(|seed| run(entry("oef-coop"), seed, per_hour, 0.05)).collect();
        let beside = |name: &str, entry: &'static PolicyEntry, epsilon: f64| {
            let (mut jct, mut energy) = (0.0, 0.0);
            for (seed, plain) in (1..=seeds).zip(&plain) {
                let summary = run(entry, seed, per_hour, epsilon);
                assert_eq!(summary.jobs_completed, plain.jobs_completed, "{name}: everybody ends");
                jct += (summary.mean_jct_seconds / plain.mean_jct_seconds - 1.0) / seeds as f64;
                energy += (summary.energy_kwh / plain.energy_kwh - 1.0) / seeds as f64;
            }
            println!("{per_hour:>6}  {name:<19}  {:>+6.1} %  {:>+6.1} %", 100.0 * jct, 100.0 * energy);
            energy
        };
        for epsilon in [0.0, 0.01, 0.02, 0.05, 0.1, 0.2] {
            let energy = beside(&format!("fair-energy {epsilon}"), entry("fair-energy"), epsilon);
            assert!(energy <= 0.02, "frugality saves energy or costs none");
        }
        beside("fair-power", entry("fair-power"), 0.05);
        beside("gogh", entry("gogh"), 0.05);
    }
}
