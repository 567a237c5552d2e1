//! Memory over a long time: `cargo bench -p arles --bench hour [-- SECONDS [SPEED]]`.
//!
//! A daemon lives for an hour of accelerated time under a steady stream of jobs that come, run and end; its memory, its journal and
//! what it has done are told ten times on the way. Memory that follows live jobs, and not past ones, is flat.

#[path = "../tests/plain/mod.rs"]
mod plain;

use plain::{Daemon, Folder, call, memory_mib, patiently};
use std::time::{Duration, Instant};

fn live(to: std::net::SocketAddr) -> u64 {
    let (_, server) = patiently(|| call(to, "GET", "/v1/server", None, None));
    serde_json::from_str::<serde_json::Value>(&server).ok().and_then(|value| value["live_jobs"].as_u64()).unwrap_or(0)
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<f64>().ok());
    let (seconds, speed) = (numbers.next().unwrap_or(60.0), numbers.next().unwrap_or(60.0) as u32);
    let folder = Folder::new("hour");
    let flags: Vec<String> = ["--policy", "max-min-fairness"].map(str::to_owned).into();
    let mut daemon = Daemon::start_with(&folder.0, "v100:400,k80:400", speed, &flags);
    let to = daemon.address();
    println!(
        "{:>8} {:>12} {:>10} {:>8} {:>12} {:>12}",
        "wall s", "virtual min", "jobs", "live", "memory MiB", "journal MiB"
    );
    let (began, mut jobs, mut told) = (Instant::now(), 0_u64, 0);
    while began.elapsed().as_secs_f64() < seconds {
        let steps = 300 + jobs * 7919 % 3000;
        let tenant = ["research", "vision", "language"][(jobs % 3) as usize];
        let body = format!(r#"{{"workload":"resnet50-b64","tenant":"{tenant}","steps":{steps}}}"#);
        let (status, answer) = patiently(|| call(to, "POST", "/v1/jobs", None, Some(&body)));
        assert_eq!(status, 201, "{answer}");
        jobs += 1;
        std::thread::sleep(Duration::from_millis(6));
        let elapsed = began.elapsed().as_secs_f64();
        if elapsed >= seconds * f64::from(told + 1) / 10.0 {
            told += 1;
            let journal = std::fs::metadata(folder.0.join("state/journal.db")).map_or(0, |file| file.len());
            let minutes = elapsed * f64::from(speed) / 60.0;
            let memory = memory_mib(daemon.id());
            println!(
                "{elapsed:>8.0} {minutes:>12.0} {jobs:>10} {:>8} {memory:>12.1} {:>12.1}",
                live(to),
                journal as f64 / 1048576.0
            );
        }
    }
}
