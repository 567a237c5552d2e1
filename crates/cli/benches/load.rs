//! Load on loopback: `cargo bench -p arles --bench load [-- SECONDS [GPUS]]`; beside a hostile tenant: `... -- hostile [SECONDS [GPUS ...]]`; with a million
//! live jobs: `... -- scale [JOBS [GPUS [SECONDS]]]`.
//!
//! The daemon is a process of its own with 10,000 virtual GPUs that are kept busy; this process is the clients. Both kinds of
//! request together at a steady pace (2,000 submits and 10,000 reads a second), with latencies counted from when a request was due, so
//! that a server that falls behind cannot hide it; then each alone, as fast as it goes; then both again, behind the long queue that this has made. The figures to stand beside: Slurm on
//! one machine takes about 50 `sbatch` a second, and slurmrestd lists 1,000 jobs in 0.17 s.

#[path = "support/client.rs"]
mod client;
#[path = "support/hostile.rs"]
mod hostile;
#[path = "../tests/plain/mod.rs"]
mod plain;
#[path = "support/scale.rs"]
mod scale;

use client::{Line, tell};
use plain::{Daemon, Folder, memory_mib};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq)]
enum What {
    Submit,
    Read,
}

/// Asks the n-th thing.
fn ask(line: &mut Line, what: What, n: u64) {
    let status = match what {
        What::Submit => {
            let tenant = ["research", "vision", "language"][(n % 3) as usize];
            let workload = ["resnet50-b64", "resnet18-b64", "transformer-b64", "lm-b20"][(n % 4) as usize];
            let steps = 20_000 + (n * 7919) % 100_000;
            let body = format!(r#"{{"workload":"{workload}","tenant":"{tenant}","gang":1,"steps":{steps}}}"#);
            line.ask("POST", "/v1/jobs", &body)
        }
        What::Read => {
            let path = match n % 4 {
                0 => format!("/v1/jobs/{}", 1 + (n * 31) % 1000),
                1 => "/v1/tenants".to_owned(),
                2 => "/v1/queue?limit=10".to_owned(),
                _ => "/v1/server".to_owned(),
            };
            line.ask("GET", &path, "")
        }
    };
    assert!(status == 200 || status == 201, "{status}: {}", String::from_utf8_lossy(&line.body));
}

fn drive(to: SocketAddr, what: What, connections: u64, per_second: f64, seconds: f64) -> (Vec<f64>, f64) {
    client::drive(to, move |line, n| ask(line, what, n), connections, per_second, seconds)
}

/// Reads and submits beside each other, at a steady pace.
fn both(to: SocketAddr, seconds: f64) {
    let submits = std::thread::spawn(move || drive(to, What::Submit, 32, 2000.0, seconds));
    let (took, elapsed) = drive(to, What::Read, 64, 10_000.0, seconds);
    tell("10,000 reads/s, and beside them", &took, elapsed);
    let (took, elapsed) = submits.join().expect("submits");
    tell("2,000 submits/s", &took, elapsed);
    let (_, server) = plain::patiently(|| plain::call(to, "GET", "/v1/jobs?limit=1", None, None));
    println!("live jobs by state: {}", server.split_once("\"live\":").map_or("", |(_, live)| live));
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("hostile") => return hostile::run(),
        Some("attack") => return hostile::attacker(),
        Some("others") => return hostile::ask_for_others(),
        Some("scale") => return scale::run(),
        _ => {}
    }
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<f64>().ok());
    let (seconds, gpus) = (numbers.next().unwrap_or(10.0), numbers.next().unwrap_or(10_000.0) as u64);
    let folder = Folder::new("load");
    let cluster = format!("v100:{},p100:{},k80:{}", gpus * 2 / 5, gpus * 3 / 10, gpus * 3 / 10);
    let flags: Vec<String> =
        ["--round", "60s", "--policy", "max-min-fairness", "--log-level", "debug"].map(str::to_owned).into();
    let mut daemon = Daemon::start_with(&folder.0, &cluster, 60, &flags);
    let to = daemon.address();
    println!("{gpus} GPUs ({cluster}), rounds of 60 s at 60×: one decision a second; {seconds} s each");
    // Fills the cluster, and a queue as long as it behind it.
    let fill = 2.0 * gpus as f64;
    drive(to, What::Submit, 64, fill, 1.0);
    std::thread::sleep(Duration::from_secs(3));
    both(to, seconds);
    let (took, elapsed) = drive(to, What::Submit, 64, 0.0, seconds);
    tell("submits alone, 64 connections", &took, elapsed);
    let (took, elapsed) = drive(to, What::Read, 64, 0.0, seconds);
    tell("reads alone, 64 connections", &took, elapsed);
    println!("and behind the queue that this has made:");
    both(to, seconds);
    let mut line = Line::open(to);
    let began = Instant::now();
    let listed = line.ask("GET", "/v1/jobs?limit=1000", "");
    println!(
        "a list of 1,000 jobs: {:.1} ms ({listed}, {} kB)",
        began.elapsed().as_secs_f64() * 1e3,
        line.body.len() / 1000
    );
    line.ask("GET", "/v1/server", "");
    println!("{}", String::from_utf8_lossy(&line.body));
    println!("memory of the daemon: {:.0} MiB", memory_mib(daemon.id()));
    hostile::tell_long_passes(&folder.0);
}
