//! How the cost of a simulated run grows: jobs, GPUs, rounds, time per round, peak memory.
//!
//! `cargo bench -p arles-sim --bench scale [-- SIZES [POLICIES]]`, sizes as `jobs:gpus` (default
//! 1000:100,10000:1000,100000:10000). A million jobs: `-- 1000000:10000 max-min-fairness`.

use arles_core::allocate::find_policy;
use arles_core::{Cluster, Library};
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::generate::{GenerateOptions, Generator};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let sizes = args.first().map_or("1000:100,10000:1000,100000:10000", String::as_str);
    let policies = args.get(1).map_or("fifo,las,max-min-fairness", String::as_str);
    println!(
        "{:<18} {:>8} {:>6} {:>7} {:>9} {:>10} {:>12} {:>10} {:>9} {:>9}",
        "policy",
        "jobs",
        "gpus",
        "rounds",
        "peak live",
        "seconds",
        "us per round",
        "us per job",
        "mean JCT",
        "peak MiB"
    );
    for size in sizes.split(',') {
        let (jobs, gpus) = size.split_once(':').expect("sizes are jobs:gpus");
        let (jobs, gpus): (u64, u32) =
            (jobs.parse().expect("a number of jobs"), gpus.parse().expect("a number of GPUs"));
        let scenario = scenario(jobs, gpus);
        for name in policies.split(',') {
            let policy = find_policy(name).expect("a policy's name");
            let begin = Instant::now();
            let run = scenario.run(policy, RunHooks::default(), &mut |_| {}).expect("no journal, no error");
            let seconds = begin.elapsed().as_secs_f64();
            let s = &run.summary;
            println!(
                "{name:<18} {jobs:>8} {gpus:>6} {:>7} {:>9} {seconds:>10.3} {:>12.1} {:>10.1} {:>8.2}h {:>9.0}",
                s.rounds,
                s.peak_live_jobs,
                seconds * 1e6 / s.rounds as f64,
                seconds * 1e6 / jobs as f64,
                s.mean_jct_seconds / 3600.0,
                peak_mib(),
            );
        }
    }
}

/// Four kinds in equal parts, 360 s rounds, a load of 0.8 of the GPUs.
fn scenario(jobs: u64, gpus: u32) -> Scenario {
    let kinds = ["a100", "v100", "p100", "t4"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let cluster = Cluster::uniform(kinds.to_vec(), &[gpus / 4; 4], 4).expect("a cluster");
    let options = GenerateOptions { jobs, seed: 0, ..GenerateOptions::default() }.with_load(gpus, 0.8);
    let trace = Generator::new(options).expect("sound options").into_trace();
    let options = Options {
        round_seconds: 360.0,
        restart_seconds: 30.0,
        keep_details: false,
        drop_unfit: true,
        ..Options::default()
    };
    Scenario::new(cluster, Arc::new(trace), None, options).expect("a scenario")
}

/// Largest resident memory of the process so far, where the system tells.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
