//! A power budget that falls by forty per cent in the middle of a run and returns: the cluster is below it, whatever the policy, and all work is done.

use arles_core::allocate::find_policy;
use arles_core::{Cluster, KindId, Library, Time};
use arles_sim::scenario::{BudgetEvent, Options, RunHooks, RunObserver, Scenario};
use arles_sim::trace::generate::{Arrivals, GenerateOptions, Generator};
use arles_sim::world::{World, WorldOptions};
use std::sync::Arc;

const FALLS_AT_SECONDS: f64 = 4.0 * 3600.0;
const RETURNS_AT_SECONDS: f64 = 8.0 * 3600.0;

/// Eight V100 and eight P100, with or without power limits to run them under.
fn cluster(limits: bool) -> Cluster {
    let kinds = ["v100", "p100"].map(|name| Library::builtin().kind(name).expect("built in").clone());
    let nodes = (0..4u32).map(|n| (format!("n{n}"), KindId((n / 2) as u16), 4));
    let modes = [kinds[0].limited_to(150.0), kinds[0].limited_to(200.0), kinds[1].limited_to(150.0)];
    let cluster = Cluster::new(kinds.to_vec(), nodes).expect("a sound cluster");
    let modes: Vec<_> = modes.into_iter().map(|mode| mode.expect("a sound limit")).collect();
    if limits { cluster.with_modes(&modes).expect("sound modes") } else { cluster }
}

fn scenario(limits: bool, unused_off: bool, power_budget: Vec<BudgetEvent>) -> Scenario {
    let options = GenerateOptions {
        jobs: 60,
        seed: 5,
        arrivals: Arrivals::Poisson { per_hour: 12.0 },
        ..GenerateOptions::default()
    };
    let trace = Generator::new(options).expect("sound options").into_trace();
    let world_options = WorldOptions { unused_off, ..WorldOptions::default() };
    let options = Options { round_seconds: 360.0, world_options, power_budget, drop_unfit: true, ..Options::default() };
    Scenario::new(cluster(limits), Arc::new(trace), None, options).expect("it fits")
}

/// What was drawn after every round, while the budget was low and otherwise.
#[derive(Default)]
struct Meter {
    low: f64,
    high: f64,
}

impl RunObserver for Meter {
    fn decided(&mut self, now: Time, world: &World) -> bool {
        let low = (FALLS_AT_SECONDS..RETURNS_AT_SECONDS).contains(&now.seconds());
        let most = if low { &mut self.low } else { &mut self.high };
        *most = most.max(world.watts());
        true
    }
}

fn run(policy: &str, scenario: &Scenario) -> (Meter, u64, f64) {
    let mut meter = Meter::default();
    let hooks = RunHooks { observer: Some(&mut meter), ..RunHooks::default() };
    let record = scenario.run(find_policy(policy).expect("in the table"), hooks, &mut |_| {}).expect("no journal");
    (meter, record.summary.jobs_completed, record.summary.makespan_seconds)
}

#[test]
fn a_budget_that_falls_and_returns_is_kept() {
    for (limits, unused_off) in [(true, true), (true, false), (false, true)] {
        for policy in ["fair-energy", "fair-power", "oef-coop", "energy-greedy", "fifo", "max-min-packed"] {
            let (free, all, before) = run(policy, &scenario(limits, unused_off, Vec::new()));
            let budget = 0.6 * free.high.max(free.low);
            let events = vec![
                BudgetEvent { at_seconds: FALLS_AT_SECONDS, watts: Some(budget) },
                BudgetEvent { at_seconds: RETURNS_AT_SECONDS, watts: None },
            ];
            let (kept, done, after) = run(policy, &scenario(limits, unused_off, events));
            println!(
                "{policy:<15} limits {limits:<5} off {unused_off:<5}: {:.0} W before, budget {budget:.0} W, {:.0} W under it; \
                 all done after {:.1} h, {:.1} h without",
                free.high.max(free.low),
                kept.low,
                after / 3600.0,
                before / 3600.0
            );
            assert!(kept.low <= budget * (1.0 + 1e-9), "{policy}: {} W of {budget} W", kept.low);
            assert_eq!(done, all, "{policy}: everybody ends");
        }
    }
}
