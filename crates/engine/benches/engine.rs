//! What calls of the virtual engine cost on a full cluster, by jobs enrolled: a look must follow GPUs and gangs, not jobs.
//!
//! `cargo bench -p arles-sim --bench engine [-- SIZES]`, sizes as `enrolled:gpus` (default
//! 10000:1000,10000:10000,100000:10000,1000000:10000). Every GPU runs a job. The last columns are the same look through a socket.

use arles_core::engine::{Engine, LiveJob};
use arles_core::scheduler::{Fence, Order, Start};
use arles_core::{Cluster, GpuId, JobId, JobSpec, Library, Spread, TenantId, Time, Work, WorkloadId};
use arles_engine::{Remote, Virtual, serve};
use arles_sim::measure::Noise;
use arles_sim::truth::Truth;
use arles_sim::world::WorldOptions;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOOKS: u64 = 15;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let sizes = args.first().map_or("10000:1000,10000:10000,100000:10000,1000000:10000", String::as_str);
    println!(
        "{:>9} {:>7} {:>14} {:>12} {:>12} {:>12} {:>15}",
        "enrolled", "gpus", "roll call ms", "us a start", "look ms", "news us", "remote look ms"
    );
    for size in sizes.split(',') {
        let (enrolled, gpus) = size.split_once(':').expect("sizes are enrolled:gpus");
        let (enrolled, gpus): (u64, u32) = (enrolled.parse().expect("jobs"), gpus.parse().expect("GPUs"));
        measure(enrolled, gpus);
    }
}

fn measure(enrolled: u64, gpus: u32) {
    let kinds = ["a100", "v100", "p100", "t4"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let cluster = Cluster::uniform(kinds.to_vec(), &[gpus / 4; 4], 4).expect("a cluster");
    let names: Vec<String> = Library::builtin().workloads().iter().take(8).map(|w| w.name.clone()).collect();
    let truth = Arc::new(Truth::new(cluster.kinds(), &names, None).expect("workloads of the library"));
    let mut engine = Virtual::new(cluster.clone(), truth, WorldOptions::default(), Noise::default(), 1);
    let jobs: Vec<LiveJob> = (0..enrolled).map(job).collect();
    let sync_jobs = timed(|| drop(engine.sync_jobs(Time::ZERO, &jobs)));
    // Runners lie scattered among those who wait.
    let (stride, count) = (enrolled / u64::from(gpus).min(enrolled), u64::from(gpus).min(enrolled));
    let starts = timed(|| {
        for g in 0..count {
            let gpu = GpuId(g as u32);
            let (job, fence, kind) = (JobId(g * stride), Fence(g + 1), cluster.kind_of(gpu));
            let start = Start { job, fence, kind, gpus: vec![gpu], spread: Spread::Packed, lease_seconds: 240.0 };
            engine.apply(Time::ZERO, &Order::Start(start)).expect("in this process");
        }
    });
    let at = |i: u64| Time::from_seconds(60.0 * i as f64);
    let look = median((1..=LOOKS).map(|i| timed(|| drop(engine.survey(at(i), at(i))))));
    let news = median((1..=LOOKS).map(|i| timed(|| drop(engine.poll(at(LOOKS + i))))));
    let path = std::env::temp_dir().join(format!("arles-bench-{}-{enrolled}-{gpus}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a socket");
    std::thread::spawn(move || serve(listener, engine, 0.0, std::io::sink()));
    let mut remote = Remote::connect(&path);
    let far = median((1..=LOOKS).map(|i| timed(|| drop(remote.survey(at(2 * LOOKS + i), at(i))))));
    std::fs::remove_file(path).expect("made above");
    println!(
        "{enrolled:>9} {gpus:>7} {:>14.1} {:>12.2} {:>12.2} {:>12.1} {:>15.1}",
        sync_jobs.as_secs_f64() * 1e3,
        starts.as_secs_f64() * 1e6 / count as f64,
        look.as_secs_f64() * 1e3,
        news.as_secs_f64() * 1e6,
        far.as_secs_f64() * 1e3,
    );
}

fn job(id: u64) -> LiveJob {
    let spec = JobSpec {
        id: JobId(id),
        tenant: TenantId(0),
        workload: WorkloadId(id as u32 % 8),
        gang: 1,
        work: Work::Steps(1e12),
        floor: None,
        weight: 1.0,
        restart_seconds: 30.0,
        kinds: Vec::new(),
        arrived: Time::ZERO,
        ..JobSpec::default()
    };
    LiveJob { spec, steps_done: 0.0 }
}

fn timed(mut work: impl FnMut()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}
