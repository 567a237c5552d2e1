//! Speed beside a peer: whole runs of the anchor traces, from reading the files to the numbers, against the CPU time that
//! was recorded for Gavel's own simulator on two shared cores. The peer is not run here: read the ratio as ±30 %.
//!
//! `cargo bench -p arles-sim --bench anchor`. Mean CPU time of this thread over 25 runs, and the least wall time of one.

#[path = "../tests/support/gavel.rs"]
mod gavel;

use std::time::Instant;

const RUNS: usize = 25;

fn main() {
    let Some(folder) = gavel::folder() else { return };
    println!(
        "{:<11} {:<17} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "trace", "policy", "JCT", "Gavel", "differ", "least", "CPU", "Gavel", "ratio", "us/round"
    );
    for peer in &gavel::PEERS {
        let mut least = f64::INFINITY;
        let begin = cpu_seconds_so_far();
        let mut summary = None;
        for _ in 0..RUNS {
            let begin = Instant::now();
            summary = Some(gavel::run(&folder, peer, 360.0));
            least = least.min(begin.elapsed().as_secs_f64());
        }
        let ours = (cpu_seconds_so_far() - begin) / RUNS as f64;
        let summary = summary.expect("at least one run");
        println!(
            "{:<11} {:<17} {:>8.0}s {:>8.0}s {:>+6.1}% {:>7.1}ms {:>7.1}ms {:>8.2}s {:>6.0}x {:>9.1}",
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

/// CPU time of this thread, from the Linux scheduler.
fn cpu_seconds_so_far() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux's schedstat");
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}
