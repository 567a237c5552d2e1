//! Speed beside a peer: whole runs of the anchor traces, from reading the files to the numbers, against the CPU time that
//! Gavel's own simulator took for them (recorded in shared/data/gavel/anchor/ORIGIN.md on two shared cores).
//!
//! `cargo bench -p arles-sim --bench anchor`. Mean CPU time of this thread over 25 runs, and the least wall time of one.

use arles_core::allocate::find_policy;
use arles_core::{Cluster, Library};
use arles_sim::drive::{Options, Scenario};
use arles_sim::rates::RateTable;
use arles_sim::record::Summary;
use arles_sim::trace::import::{self, ImportOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Trace, policy, Gavel's mean completion time and CPU seconds.
const GAVEL: [(&str, &str, f64, f64); 6] = [
    ("single-400", "fifo", 75_638.6, 8.93),
    ("single-400", "max-min-agnostic", 103_077.1, 13.27),
    ("single-400", "max-min-fairness", 74_144.9, 11.03),
    ("multi-300", "fifo", 47_459.6, 5.28),
    ("multi-300", "max-min-agnostic", 70_585.0, 9.43),
    ("multi-300", "max-min-fairness", 49_135.6, 6.49),
];

const RUNS: usize = 25;

fn main() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gavel"));
    if !folder.exists() {
        println!("skipped: no measured data beside the checkout");
        return;
    }
    println!(
        "{:<11} {:<17} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "trace", "policy", "JCT", "Gavel", "differ", "least", "CPU", "Gavel", "ratio", "us/round"
    );
    for (trace, policy, jct, theirs) in GAVEL {
        let mut least = f64::INFINITY;
        let begin = cpu_seconds_so_far();
        let mut summary = None;
        for _ in 0..RUNS {
            let begin = Instant::now();
            summary = Some(run(folder, trace, policy));
            least = least.min(begin.elapsed().as_secs_f64());
        }
        let ours = (cpu_seconds_so_far() - begin) / RUNS as f64;
        let summary = summary.expect("at least one run");
        println!(
            "{trace:<11} {policy:<17} {:>8.0}s {jct:>8.0}s {:>+6.1}% {:>7.1}ms {:>7.1}ms {theirs:>8.2}s {:>6.0}x {:>9.1}",
            summary.mean_jct_seconds,
            100.0 * (summary.mean_jct_seconds / jct - 1.0),
            least * 1e3,
            ours * 1e3,
            theirs / ours,
            ours * 1e6 / summary.rounds as f64,
        );
    }
}

/// Everything a command would do: read the rates and the trace, build the cluster, simulate.
fn run(folder: &Path, trace: &str, policy: &str) -> Summary {
    let rates = RateTable::from_file(&folder.join("simulation_throughputs.json")).expect("a rate table");
    let trace = folder.join(format!("anchor/{trace}.trace"));
    let trace = import::from_file(&trace, None, &ImportOptions::default()).expect("a trace").trace;
    let kinds = ["v100", "p100", "k80"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let cluster = Cluster::uniform(kinds.to_vec(), &[36; 3], 4).expect("a cluster");
    let options = Options { round_seconds: 360.0, keep_details: false, ..Options::default() };
    let scenario = Scenario::new(cluster, Arc::new(trace), Some(rates), options).expect("a scenario");
    scenario.run(find_policy(policy).expect("in the table"), None, &mut |_| {}).expect("no journal").summary
}

/// CPU time of this thread, from the Linux scheduler.
fn cpu_seconds_so_far() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux's schedstat");
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}
