//! A gang that had to start apart comes together as soon as there is room, whatever the number of nodes it needs.

use arles_core::allocate::find_policy;
use arles_core::{Cluster, Library, Tenant};
use arles_sim::rates::RateTable;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::{Length, Trace, TraceJob};
use std::sync::Arc;

/// `wide` does a tenth of its steps when it is on more nodes than it needs.
const RATES: &str = r#"{
  "v100": {"('narrow', 2)": {"null": 8.0}, "('wide', 8)": {"null": 600.0}},
  "v100_unconsolidated": {"('narrow', 2)": {"null": 7.0}, "('wide', 8)": {"null": 60.0}}
}"#;
const HOUR: f64 = 3600.0;
const WIDE: u64 = 8;

/// Gangs of two, short and long by turns, fill four nodes of four GPUs; the short ones leave two free GPUs on each node to a gang of eight.
fn trace() -> Trace {
    let job = |id: u64, workload: u32, gang: u32, arrival_seconds: f64, steps: f64| TraceJob {
        id,
        tenant: 0,
        workload,
        gang,
        arrival_seconds,
        length: Length::Steps(steps),
        floor: None,
        weight: 1.0,
        restart_seconds: None,
        before_seconds: None,
        largest_gang: None,
        kinds: Vec::new(),
    };
    let narrow = |id: u64| job(id, 0, 2, 0.0, 8.0 * HOUR * if id.is_multiple_of(2) { 0.3 } else { 2.0 });
    let mut jobs: Vec<TraceJob> = (0..WIDE).map(narrow).collect();
    jobs.push(job(WIDE, 1, 8, 0.4 * HOUR, 600.0 * 4.0 * HOUR));
    let tenants = vec![Tenant { name: "default".into(), weight: 1.0 }];
    Trace { tenants, workloads: vec!["narrow".into(), "wide".into()], kinds: Vec::new(), jobs }
}

/// Hours from its submission to its end that the gang of eight takes when a restart costs `restart_seconds`.
fn hours(restart_seconds: f64) -> f64 {
    let kind = Library::builtin().kind("v100").expect("in the library").clone();
    let cluster = Cluster::uniform(vec![kind], &[16], 4).expect("a cluster");
    let rates = RateTable::from_json(RATES, "rates.json").expect("a rate table");
    let options = Options { restart_seconds, ..Options::default() };
    let scenario = Scenario::new(cluster, Arc::new(trace()), Some(rates), options).expect("a scenario");
    let policy = find_policy("fifo").expect("in the table");
    let run = scenario.run(policy, RunHooks::default(), &mut |_| {}).expect("no journal, no error");
    assert_eq!(run.summary.jobs_completed, WIDE + 1);
    let wide = run.jobs.iter().find(|job| job.id == WIDE).expect("a record of every job");
    (wide.end_seconds.expect("it completed") - wide.arrival_seconds) / HOUR
}

#[test]
fn a_gang_of_two_nodes_comes_together() {
    for restart_seconds in [0.0, 60.0] {
        let hours = hours(restart_seconds);
        assert!((4.0..4.2).contains(&hours), "it needs 4 h on two nodes, and took {hours} h");
    }
}
