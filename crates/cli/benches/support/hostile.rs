//! The load of others beside a tenant that takes whatever it can get: submits as fast as it goes, each under a key of its own, event streams, dry runs and
//! large lists. Latencies of the others without and with it, in the same run, for three sizes of cluster.
//!
//! Attacker and clients have machines of their own; here they share the daemon's processors. So the attacker is a process that takes what nobody else wants
//! (`chrt --idle`), and the others are one that never waits for a processor (`chrt --fifo`, where that is allowed; they sleep nearly all the time): what is measured is how long the
//! daemon takes, not when its clients are woken. What the daemon does for either is not held back.

use super::client::{self, Line};
use super::plain::{self, Daemon, Folder};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// GPUs of the clusters.
const SIZES: [u64; 3] = [100, 1000, 10_000];
/// What the others ask for, together.
const SUBMITS_PER_SECOND: f64 = 100.0;
const READS_PER_SECOND: f64 = 400.0;
/// How fast the cluster is filled: below what a token may ask for.
const FILLED_PER_SECOND: f64 = 800.0;
/// Connections of the hostile tenant, by what they do.
const SUBMITTERS: u64 = 48;
const DRY_RUNNERS: u64 = 8;
const LISTERS: u64 = 8;
const STREAMS: u64 = 40;

/// What a hostile tenant got done.
#[derive(Default)]
struct Spoils {
    submitted: AtomicU64,
    refused: AtomicU64,
    dry_runs: AtomicU64,
    lists: AtomicU64,
    streams: AtomicU64,
}

/// Secrets of the tenants, each with one token.
fn tokens(to: SocketAddr) -> [String; 3] {
    ["research", "vision", "language"].map(|tenant| {
        let body = format!(r#"{{"name":"{tenant}-token","scope":"tenant","tenant":"{tenant}"}}"#);
        let (status, body) = plain::patiently(|| plain::call(to, "POST", "/v1/tokens", None, Some(&body)));
        assert_eq!(status, 201, "{body}");
        let made: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        made["secret"].as_str().expect("a secret").to_owned()
    })
}

fn job(n: u64) -> String {
    let workload = ["resnet50-b64", "resnet18-b64", "transformer-b64", "lm-b20"][(n % 4) as usize];
    format!(r#"{{"workload":"{workload}","gang":1,"steps":{}}}"#, 20_000 + (n * 7919) % 100_000)
}

/// The others, in a process of their own: sorted latencies of submits and of reads.
fn others(to: SocketAddr, secrets: &[String; 3], seconds: f64) -> [Vec<f64>; 2] {
    let itself = std::env::current_exe().expect("a path");
    // Not every machine lets root have the real-time policy; with many cores nobody waits for one anyway.
    let at_once = Command::new("chrt").args(["--fifo", "1", "true"]).output().expect("chrt, of util-linux");
    let mut others = if at_once.status.success() {
        let mut others = Command::new("chrt");
        others.args(["--fifo", "1"]).arg(itself);
        others
    } else {
        Command::new(itself)
    };
    let secrets = [secrets[1].as_str(), &secrets[2]];
    let asked = others.args(["others", &to.to_string()]).args(secrets).arg(seconds.to_string()).output();
    let asked = asked.expect("this very program");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    serde_json::from_slice(&asked.stdout).expect("two lists of latencies")
}

/// That process: `others ADDRESS SECRET SECRET SECONDS`; submits and reads of two tenants, at a steady pace.
pub(crate) fn ask_for_others() {
    let words: Vec<String> = std::env::args().skip_while(|word| word != "others").collect();
    let (to, seconds) = (words[1].parse().expect("an address"), words[4].parse().expect("seconds"));
    let heads: [&'static str; 2] = [2, 3].map(|i: usize| &*format!("Authorization: Bearer {}\r\n", words[i]).leak());
    let good = |line: &Line, status: u16| assert!(status < 300, "{status}: {}", String::from_utf8_lossy(&line.body));
    let submits = std::thread::spawn(move || {
        let ask = move |line: &mut Line, n: u64| {
            let status = line.ask_as(heads[(n % 2) as usize], "POST", "/v1/jobs", &job(n));
            good(line, status);
        };
        client::drive(to, ask, 8, SUBMITS_PER_SECOND, seconds).0
    });
    let ask = move |line: &mut Line, n: u64| {
        let path = ["/v1/tenants", "/v1/queue?limit=10", "/v1/server"][(n % 3) as usize];
        let status = line.ask_as(heads[(n % 2) as usize], "GET", path, "");
        good(line, status);
    };
    let reads = client::drive(to, ask, 16, READS_PER_SECOND, seconds).0;
    println!("{}", serde_json::json!([submits.join().expect("submits"), reads]));
}

/// Begins the attack; it ends when the flag is set.
fn attack(
    to: SocketAddr,
    secret: &str,
    over: &Arc<AtomicBool>,
    spoils: &Arc<Spoils>,
) -> Vec<std::thread::JoinHandle<()>> {
    let head: &'static str = format!("Authorization: Bearer {secret}\r\n").leak();
    let spawn = |act: fn(&mut Line, &'static str, u64, &Spoils)| {
        let (over, spoils) = (Arc::clone(over), Arc::clone(spoils));
        std::thread::spawn(move || {
            let mut line = Line::open(to);
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                act(&mut line, head, n, &spoils);
            }
        })
    };
    let mut threads = Vec::new();
    for _ in 0..SUBMITTERS {
        threads.push(spawn(|line, head, n, spoils| {
            let key = format!("{head}Idempotency-Key: {:?}-{n}\r\n", std::thread::current().id());
            let status = line.ask_as(&key, "POST", "/v1/jobs", &job(n));
            let count = if status == 201 { &spoils.submitted } else { &spoils.refused };
            count.fetch_add(1, Ordering::Relaxed);
        }));
    }
    for _ in 0..DRY_RUNNERS {
        threads.push(spawn(|line, head, n, spoils| {
            let status = line.ask_as(head, "POST", "/v1/dry-run/job", &job(n));
            let count = if status == 200 { &spoils.dry_runs } else { &spoils.refused };
            count.fetch_add(1, Ordering::Relaxed);
        }));
    }
    for _ in 0..LISTERS {
        threads.push(spawn(|line, head, _, spoils| {
            let status = line.ask_as(head, "GET", "/v1/jobs?limit=1000", "");
            let count = if status == 200 { &spoils.lists } else { &spoils.refused };
            count.fetch_add(1, Ordering::Relaxed);
        }));
    }
    for _ in 0..STREAMS {
        let (over, spoils) = (Arc::clone(over), Arc::clone(spoils));
        threads.push(std::thread::spawn(move || {
            listen(to, head, &over, &spoils);
        }));
    }
    threads
}

/// Opens a stream again and again, and reads it slowly.
fn listen(to: SocketAddr, head: &str, over: &AtomicBool, spoils: &Spoils) {
    while !over.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(to) else { continue };
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        let asked = format!("GET /v1/events?after=0 HTTP/1.1\r\nHost: {to}\r\n{head}\r\n");
        let mut bytes = [0; 4096];
        let open = stream.write_all(asked.as_bytes()).is_ok() && stream.read(&mut bytes).is_ok_and(|n| n > 12);
        if !open || &bytes[9..12] != b"200" {
            spoils.refused.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
            continue;
        }
        spoils.streams.fetch_add(1, Ordering::Relaxed);
        while !over.load(Ordering::Relaxed) && !matches!(stream.read(&mut bytes), Ok(0)) {}
    }
}

fn p99(took: &[f64]) -> f64 {
    took[((took.len() - 1) as f64 * 0.99) as usize] * 1e3
}

/// One size: the others alone, then beside the attack.
fn measure(gpus: u64, seconds: f64) {
    let folder = Folder::new("hostile");
    let cluster = format!("v100:{},p100:{},k80:{}", gpus * 2 / 5, gpus * 3 / 10, gpus * 3 / 10);
    // As an operator has it: the limits of requests are the defaults.
    let flags: Vec<String> =
        ["--round", "60s", "--policy", "max-min-fairness", "--requests-per-second", "1000", "--log-level", "debug"]
            .map(str::to_owned)
            .into();
    let mut daemon = Daemon::start_with(&folder.0, &cluster, 60, &flags);
    let to = daemon.address();
    let secrets = tokens(to);
    // Fills the cluster, and a queue as long as it behind it, as the load bench does.
    let fill = |line: &mut Line, n: u64| {
        let tenant = ["research", "vision", "language"][(n % 3) as usize];
        let job = job(n).replacen('{', &format!(r#"{{"tenant":"{tenant}","#), 1);
        assert_eq!(line.ask("POST", "/v1/jobs", &job), 201, "{}", String::from_utf8_lossy(&line.body));
    };
    client::drive(to, fill, 16, FILLED_PER_SECOND, 2.0 * gpus as f64 / FILLED_PER_SECOND);
    std::thread::sleep(Duration::from_secs(3));
    others(to, &secrets, 2.0);
    let alone = others(to, &secrets, seconds);
    let itself = std::env::current_exe().expect("a path");
    let mut attacker = Command::new("chrt")
        .args(["--idle", "0"])
        .arg(itself)
        .args(["attack", &to.to_string(), &secrets[0]])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("chrt, of util-linux");
    std::thread::sleep(Duration::from_secs(1));
    let beside = others(to, &secrets, seconds);
    drop(attacker.stdin.take());
    let spoils = attacker.wait_with_output().expect("the attacker").stdout;
    for (what, alone, beside) in [("submit", &alone[0], &beside[0]), ("read", &alone[1], &beside[1])] {
        let (a, b) = (p99(alone), p99(beside));
        println!("{gpus:>6} GPUs  {what:<7} p99 alone {a:>7.2} ms   beside {b:>7.2} ms   ratio {:>5.2}", b / a);
    }
    println!(
        "             hostile: {}; {:.0} MiB",
        String::from_utf8_lossy(&spoils).trim(),
        plain::memory_mib(daemon.id())
    );
    tell_long_passes(&folder.0);
}

/// The longest passes of the daemon's loop, as its log tells them: whoever waited longest waited for one of these, or for a processor.
pub(crate) fn tell_long_passes(folder: &std::path::Path) {
    let log = std::fs::read_to_string(folder.join("daemon.log")).unwrap_or_default();
    let length = |line: &&str| line.split(" ms").next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let mut passes: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once("event loop took ")?.1)).collect();
    passes.sort_by(|one, other| length(other).total_cmp(&length(one)));
    println!("             {} passes of 20 ms or more; the longest:", passes.len());
    passes.iter().take(4).for_each(|pass| println!("               {pass}"));
}

/// The hostile process: `attack ADDRESS SECRET`, until its standard input ends; then it says what it got done.
pub(crate) fn attacker() {
    let words: Vec<String> = std::env::args().skip_while(|word| word != "attack").collect();
    let (to, secret) = (words[1].parse().expect("an address"), &words[2]);
    let (over, spoils) = (Arc::new(AtomicBool::new(false)), Arc::new(Spoils::default()));
    let threads = attack(to, secret, &over, &spoils);
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{} submitted, {} dry runs, {} lists, {} streams, {} refused",
        of(&spoils.submitted),
        of(&spoils.dry_runs),
        of(&spoils.lists),
        of(&spoils.streams),
        of(&spoils.refused)
    );
}

pub(crate) fn run() {
    let mut numbers = std::env::args().filter_map(|text| text.parse::<f64>().ok());
    let seconds = numbers.next().unwrap_or(10.0);
    let sizes: Vec<u64> = numbers.map(|gpus| gpus as u64).collect();
    println!(
        "others: {SUBMITS_PER_SECOND} submits and {READS_PER_SECOND} reads a second of two tenants; {seconds} s each"
    );
    for &gpus in if sizes.is_empty() { &SIZES[..] } else { &sizes } {
        measure(gpus, seconds);
    }
}
