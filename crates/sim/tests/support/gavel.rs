//! What Gavel's own simulator made of the anchor traces, and the same scenario here: for the test of fidelity and the bench
//! of speed. The figures and how they were got are in shared/data/gavel/anchor/ORIGIN.md, beside the checkout.

use arles_core::allocate::find_policy;
use arles_core::{Cluster, Library};
use arles_report::record::Summary;
use arles_sim::rates::RateTable;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::import::{self, ImportOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One run of Gavel's simulator.
pub(crate) struct Peer {
    pub(crate) trace: &'static str,
    /// Our name of the policy.
    pub(crate) policy: &'static str,
    pub(crate) mean_jct_seconds: f64,
    /// Used by the bench alone.
    #[allow(dead_code)]
    pub(crate) cpu_seconds: f64,
}

const fn peer(trace: &'static str, policy: &'static str, mean_jct_seconds: f64, cpu_seconds: f64) -> Peer {
    Peer { trace, policy, mean_jct_seconds, cpu_seconds }
}

pub(crate) const PEERS: [Peer; 6] = [
    peer("single-400", "fifo", 75_638.6, 8.93),
    peer("single-400", "max-min-agnostic", 103_077.1, 13.27),
    peer("single-400", "max-min-fairness", 74_144.9, 11.03),
    peer("multi-300", "fifo", 47_459.6, 5.28),
    peer("multi-300", "max-min-agnostic", 70_585.0, 9.43),
    peer("multi-300", "max-min-fairness", 49_135.6, 6.49),
];

/// The folder of measured data, if it lies beside the checkout; says so if it does not.
pub(crate) fn folder() -> Option<PathBuf> {
    arles_testing::shared("data/gavel")
}

/// Everything a command would do: read the rates and the trace, build the cluster, simulate.
pub(crate) fn run(folder: &Path, peer: &Peer, round_seconds: f64) -> Summary {
    let rates = RateTable::from_file(&folder.join("simulation_throughputs.json")).expect("a rate table");
    let trace = folder.join(format!("anchor/{}.trace", peer.trace));
    let trace = import::from_file(&trace, None, &ImportOptions::default()).expect("a trace").trace;
    let jobs = trace.jobs.len() as u64;
    let kinds = ["v100", "p100", "k80"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let cluster = Cluster::uniform(kinds.to_vec(), &[36; 3], 4).expect("a cluster");
    let options = Options { round_seconds, keep_details: false, ..Options::default() };
    let scenario = Scenario::new(cluster, Arc::new(trace), Some(rates), options).expect("a scenario");
    let policy = find_policy(peer.policy).expect("in the table");
    let summary = scenario.run(policy, RunHooks::default(), &mut |_| {}).expect("no journal, no error").summary;
    assert_eq!(summary.jobs_completed, jobs, "every job of the trace counts");
    summary
}
