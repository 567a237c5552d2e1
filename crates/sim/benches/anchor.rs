//! Speed beside a peer: whole runs of the anchor traces, from reading the files to the numbers, against the CPU time that
//! was recorded for Gavel's own simulator on two shared cores. The peer is not run here: read the ratio as ±30 %.
//!
//! `cargo bench -p arles-sim --bench anchor [-- TEXT]`, for all rows or those with TEXT in trace or policy; the bench `gavel` runs the peer beside it. Mean CPU time of this thread over 25 runs, and the least wall time of one.

#[path = "../tests/support/gavel.rs"]
mod gavel;

use std::time::Instant;

const RUNS: usize = 25;

fn main() {
    let Some(folder) = gavel::folder() else { return };
    println!(
        "{:<11} {:<20} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "trace", "policy", "JCT", "Gavel", "differ", "least", "CPU", "Gavel", "ratio", "us/round"
    );
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let picked = |peer: &&gavel::Peer| only.iter().all(|text| peer.trace.contains(text) || peer.policy.contains(text));
    for peer in gavel::PEERS.iter().filter(picked) {
        let mut least = f64::INFINITY;
        let begin = gavel::cpu_seconds_so_far();
        let mut summary = None;
        for _ in 0..RUNS {
            let begin = Instant::now();
            summary = Some(peer.run(&folder, 360.0));
            least = least.min(begin.elapsed().as_secs_f64());
        }
        let ours = (gavel::cpu_seconds_so_far() - begin) / RUNS as f64;
        let summary = summary.expect("at least one run");
        println!(
            "{:<11} {:<20} {:>8.0}s {:>8.0}s {:>+6.1}% {:>7.1}ms {:>7.1}ms {:>8.2}s {:>6.0}x {:>9.1}",
            peer.trace,
            peer.policy,
            summary.mean_jct_seconds,
            peer.mean_jct_seconds,
            100.0 * (summary.mean_jct_seconds / peer.mean_jct_seconds - 1.0),
            least * 1e3,
            ours * 1e3,
            peer.cpu_seconds,
            peer.cpu_seconds / ours,
            ours * 1e6 / summary.rounds as f64,
        );
    }
}
