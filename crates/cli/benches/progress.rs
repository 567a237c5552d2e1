//! Progress reports beside submits: `cargo bench -p arles --bench progress [-- SECONDS [JOBS]]`.
//!
//! The daemon is a process of its own with as many virtual GPUs as jobs, so that all jobs run; this process is the clients. First
//! submits at a steady pace alone, then the same with every job reporting every 5 s (10,000 jobs: 2,000 reports a second) over HTTP, then
//! alone again behind the jobs that this has made, and so on: rounds take turns, so that whatever else the machine does hits both. Reports carry a
//! rate and count as measurements where the daemon finds that nothing disturbed them.

#[path = "support/client.rs"]
mod client;
#[path = "../tests/plain/mod.rs"]
mod plain;

use client::{Line, drive, tell};
use plain::{Daemon, Folder, memory_mib};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Seconds between two reports of a job.
const EVERY: f64 = 5.0;
/// Submits a second.
const PACE: f64 = 500.0;
const ROUNDS: usize = 3;

fn submit(line: &mut Line, n: u64) {
    let tenant = ["research", "vision", "language"][(n % 3) as usize];
    let workload = ["resnet50-b64", "resnet18-b64", "transformer-b64", "lm-b20"][(n % 4) as usize];
    let body = format!(r#"{{"workload":"{workload}","tenant":"{tenant}","gang":1,"steps":1e12}}"#);
    let status = line.ask("POST", "/v1/jobs", &body);
    assert!(status == 201, "{status}: {}", String::from_utf8_lossy(&line.body));
}

/// Everybody reports in turn; the n-th report of all is the (n / jobs)-th of its job.
fn report(line: &mut Line, n: u64, jobs: u64, rounds_before: u64) {
    let (job, steps) = (1 + n % jobs, (1 + rounds_before + n / jobs) * 50);
    let body = format!(r#"{{"steps":{steps},"rate":10.0,"checkpointed":false}}"#);
    let status = line.ask("POST", &format!("/v1/jobs/{job}/progress"), &body);
    assert!(status == 200, "{status}: {}", String::from_utf8_lossy(&line.body));
}

fn metric(to: SocketAddr, name: &str) -> f64 {
    let (_, page) = plain::patiently(|| plain::call(to, "GET", "/metrics", None, None));
    let line = page.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(f64::NAN)
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<f64>().ok());
    let (seconds, jobs) = (numbers.next().unwrap_or(15.0), numbers.next().unwrap_or(10_000.0) as u64);
    let folder = Folder::new("progress");
    let cluster = format!("v100:{},p100:{},k80:{}", jobs * 2 / 5, jobs * 3 / 10, jobs * 3 / 10);
    let flags: Vec<String> = ["--round", "20s", "--policy", "max-min-fairness"].map(str::to_owned).into();
    let mut daemon = Daemon::start_with(&folder.0, &cluster, 1, &flags);
    let to = daemon.address();
    println!(
        "{jobs} jobs on as many GPUs ({cluster}); {PACE:.0} submits/s, reports every {EVERY} s of each job; {seconds} s each"
    );
    drive(to, submit, 64, jobs as f64, 1.0);
    // Only what runs undisturbed is measured.
    plain::wait_until("all jobs run", || {
        metric(to, "arles_gpus{kind=\"k80\",state=\"busy\"}") >= 0.9 * (jobs * 3 / 10) as f64
    });
    std::thread::sleep(Duration::from_secs(2));
    let pace = jobs as f64 / EVERY;
    let (mut alone, mut beside, mut reports): (Vec<f64>, Vec<f64>, Vec<f64>) = Default::default();
    let mut spent = [0.0; 3];
    for round in 0..ROUNDS {
        let (took, elapsed) = drive(to, submit, 32, PACE, seconds);
        tell("submits alone", &took, elapsed);
        alone.extend(took);
        spent[0] += elapsed;
        let before = round as u64 * (1 + (seconds / EVERY) as u64);
        let reporting =
            std::thread::spawn(move || drive(to, move |line, n| report(line, n, jobs, before), 64, pace, seconds));
        let (took, elapsed) = drive(to, submit, 32, PACE, seconds);
        tell("submits beside reports", &took, elapsed);
        beside.extend(took);
        spent[1] += elapsed;
        let (took, elapsed) = reporting.join().expect("reports");
        tell("reports", &took, elapsed);
        reports.extend(took);
        spent[2] += elapsed;
    }
    println!("all rounds together:");
    for (name, took, elapsed) in [
        ("submits alone", &mut alone, spent[0]),
        ("submits beside reports", &mut beside, spent[1]),
        ("reports", &mut reports, spent[2]),
    ] {
        took.sort_by(f64::total_cmp);
        tell(name, took, elapsed);
    }
    // As fast as they go.
    let began = Instant::now();
    let (took, elapsed) = drive(to, move |line, n| report(line, n, jobs, 1000), 64, 0.0, 5.0);
    tell("reports alone, 64 connections", &took, elapsed);
    println!(
        "{} reports heard, {} measurements, {} entries; {:.0} MiB; {:.1} s for the last",
        metric(to, "arles_progress_reports_total"),
        metric(to, "arles_measurements_total"),
        metric(to, "arles_journal_entries_total"),
        memory_mib(daemon.id()),
        began.elapsed().as_secs_f64()
    );
}
