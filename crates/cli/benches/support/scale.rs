//! Very many live jobs on very many GPUs, at the pace of a real cluster: rounds of a minute, at 1×. Arrays fill the queue; then submits and reads go on at a steady
//! pace for some rounds, and at the end the daemon is killed and started again.

use super::client::{self, Line, tell};
use super::plain::{self, Daemon, Folder, memory_mib, processor_seconds};
use super::{What, ask};
use std::net::SocketAddr;
use std::time::Instant;

/// Tasks of one array: about as many as one commit takes in.
const TASKS: u64 = 500;
const SUBMITS_PER_SECOND: f64 = 200.0;
const READS_PER_SECOND: f64 = 1000.0;

fn fill(to: SocketAddr, jobs: u64) {
    let arrays = jobs.div_ceil(TASKS);
    let submit = |line: &mut Line, n: u64| {
        let tenant = ["research", "vision", "language"][(n % 3) as usize];
        let workload = ["resnet50-b64", "resnet18-b64", "transformer-b64", "lm-b20"][(n % 4) as usize];
        // Hours of work: few end while this goes on.
        let steps = 400_000 + (n * 7919) % 1_000_000;
        let body = format!(
            r#"{{"workload":"{workload}","tenant":"{tenant}","gang":1,"steps":{steps},"array":{{"from":1,"to":{TASKS}}}}}"#
        );
        assert_eq!(line.ask("POST", "/v1/jobs", &body), 201, "{}", String::from_utf8_lossy(&line.body));
    };
    let mut line = Line::open(to);
    (0..arrays).for_each(|n| submit(&mut line, n));
}

/// What a daemon has used so far.
fn used(daemon: &Daemon) -> String {
    let id = daemon.id();
    format!("{:.1} s of processor, {:.0} MiB", processor_seconds(id), memory_mib(id))
}

/// `scale [JOBS [GPUS [SECONDS]]]`.
pub(crate) fn run() {
    let mut numbers = std::env::args().filter_map(|text| text.parse::<f64>().ok());
    let jobs = numbers.next().unwrap_or(900_000.0) as u64;
    let gpus = numbers.next().unwrap_or(100_000.0) as u64;
    let seconds = numbers.next().unwrap_or(180.0);
    let folder = Folder::new("scale");
    let cluster = format!("v100:{},p100:{},k80:{}", gpus * 2 / 5, gpus * 3 / 10, gpus * 3 / 10);
    let flags: Vec<String> =
        ["--round", "60s", "--policy", "max-min-fairness", "--log-level", "debug"].map(str::to_owned).into();
    let mut daemon = Daemon::start_with(&folder.0, &cluster, 1, &flags);
    let to = daemon.address();
    println!("{gpus} GPUs ({cluster}), {jobs} jobs, rounds of 60 s at 1×");
    let began = Instant::now();
    fill(to, jobs);
    println!("filled in {:.0} s; {}", began.elapsed().as_secs_f64(), used(&daemon));
    let submits = std::thread::spawn(move || {
        client::drive(to, |line, n| ask(line, What::Submit, n), 16, SUBMITS_PER_SECOND, seconds)
    });
    let (took, elapsed) = client::drive(to, |line, n| ask(line, What::Read, n), 16, READS_PER_SECOND, seconds);
    tell("1,000 reads/s, and beside them", &took, elapsed);
    let (took, elapsed) = submits.join().expect("submits");
    tell("200 submits/s", &took, elapsed);
    let (_, server) = plain::patiently(|| plain::call(to, "GET", "/v1/jobs?limit=1", None, None));
    println!("live jobs by state: {}", server.split_once("\"live\":").map_or("", |(_, live)| live));
    println!("the daemon: {}", used(&daemon));
    super::hostile::tell_long_passes(&folder.0);
    daemon.kill();
    let began = Instant::now();
    daemon = Daemon::start_with(&folder.0, &cluster, 1, &flags);
    daemon.address();
    println!("killed, and ready again in {:.1} s; {}", began.elapsed().as_secs_f64(), used(&daemon));
    let began = Instant::now();
    daemon.stop();
    let stopped = began.elapsed().as_secs_f64();
    let began = Instant::now();
    daemon = Daemon::start_with(&folder.0, &cluster, 1, &flags);
    daemon.address();
    println!("stopped in {stopped:.1} s, and ready again in {:.1} s; {}", began.elapsed().as_secs_f64(), used(&daemon));
    let log = std::fs::read_to_string(folder.0.join("daemon.log")).unwrap_or_default();
    log.lines().filter(|line| line.contains("entries replayed")).for_each(|line| println!("  {line}"));
}
