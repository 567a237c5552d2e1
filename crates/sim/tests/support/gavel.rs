//! What Gavel's own simulator made of the anchor traces, and the same scenario here: for the test of fidelity and the bench
//! of speed. The figures and how they were got are in shared/data/gavel/anchor/ORIGIN.md, beside the checkout.

#![allow(dead_code, reason = "the test and each bench use what they need")]

use arles_core::allocate::find_policy;
use arles_core::{Cluster, Library};
use arles_report::record::Summary;
use arles_sim::rates::RateTable;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::import::{self, ImportOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One run of Gavel's simulator. Not everybody who includes this file uses all of it.
pub(crate) struct Peer {
    pub(crate) trace: &'static str,
    /// Our name of the policy.
    pub(crate) policy: &'static str,
    pub(crate) mean_jct_seconds: f64,
    pub(crate) cpu_seconds: f64,
}

const fn peer(trace: &'static str, policy: &'static str, mean_jct_seconds: f64, cpu_seconds: f64) -> Peer {
    Peer { trace, policy, mean_jct_seconds, cpu_seconds }
}

// The bench that runs Gavel itself needs none of the recorded figures.
pub(crate) const PEERS: [Peer; 10] = [
    peer("single-400", "fifo", 75_638.6, 8.93),
    peer("single-400", "max-min-agnostic", 103_077.1, 13.27),
    peer("single-400", "max-min-fairness", 74_144.9, 11.03),
    peer("multi-300", "fifo", 47_459.6, 5.28),
    peer("multi-300", "max-min-agnostic", 70_585.0, 9.43),
    peer("multi-300", "max-min-fairness", 49_135.6, 6.49),
    peer("gangs-500", "fifo", 120_739.0, 14.9),
    // With deficits paid, as arles pays them; as it is, gangs of four get 0.82 of their grants there, and the mean is 115,875 s.
    peer("gangs-500", "max-min-agnostic", 130_294.0, 18.9),
    peer("gangs-500", "max-min-fairness", 96_906.0, 15.4),
    peer("gangs-500", "finish-time-fairness", 98_511.0, 80.6),
];

/// The folder of measured data, if it lies beside the checkout; says so if it does not.
pub(crate) fn folder() -> Option<PathBuf> {
    arles_testing::shared("data/gavel")
}

/// One run of ours.
pub(crate) struct Setting<'a> {
    /// The folder of measured data.
    pub(crate) folder: &'a Path,
    pub(crate) trace: &'a Path,
    /// GPUs: V100, P100, K80.
    pub(crate) counts: [u32; 3],
    pub(crate) policy: &'a str,
    pub(crate) round_seconds: f64,
}

/// Everything a command would do: read the rates and the trace, build the cluster, simulate.
pub(crate) fn run(setting: &Setting<'_>) -> Summary {
    let rates = RateTable::from_file(&setting.folder.join("simulation_throughputs.json")).expect("a rate table");
    let trace = import::from_file(setting.trace, None, &ImportOptions::default()).expect("a trace").trace;
    let jobs = trace.jobs.len() as u64;
    let kinds = ["v100", "p100", "k80"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let cluster = Cluster::uniform(kinds.to_vec(), &setting.counts, 4).expect("a cluster");
    let options = Options { round_seconds: setting.round_seconds, keep_details: false, ..Options::default() };
    let scenario = Scenario::new(cluster, Arc::new(trace), Some(rates), options).expect("a scenario");
    let policy = find_policy(setting.policy).expect("in the table");
    let summary = scenario.run(policy, RunHooks::default(), &mut |_| {}).expect("no journal, no error").summary;
    assert_eq!(summary.jobs_completed, jobs, "every job of the trace counts");
    summary
}

impl Peer {
    /// The same here. (Not used by the bench that runs Gavel itself.)
    pub(crate) fn run(&self, folder: &Path, round_seconds: f64) -> Summary {
        let trace = folder.join(format!("anchor/{}.trace", self.trace));
        run(&Setting { folder, trace: &trace, counts: [36; 3], policy: self.policy, round_seconds })
    }
}

/// CPU time of this thread, from the Linux scheduler. (Used by the benches.)
pub(crate) fn cpu_seconds_so_far() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux's schedstat");
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}
