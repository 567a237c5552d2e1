//! What arles costs on a large Kubernetes cluster, beside the default scheduler on the same cluster in the same run: calls to the API server for each decision,
//! how long after a decision its pod is bound, how long a look at everything takes, and memory. Nodes and pods are objects; nothing runs on them.
//!
//!     cargo bench --bench kubernetes -- [NODES...]      10, 100 and 1000 if none is named; ten pods for each node
//!
//! Of all pods, 40 % are bound by the default scheduler first, then 40 % by arles, and 20 % wait for arles. Nodes have eight GPUs and pods ask for one. A decision of
//! arles' is an order to start one pod; which GPU it gets is the first that is free, so that only the engine is measured. The default scheduler's figures are its
//! own metrics: they begin when it takes a pod out of its queue.

#[path = "../tests/support/kubernetes.rs"]
mod support;

use arles_core::engine::{Engine, LiveJob, Mandate, OrderReply};
use arles_core::scheduler::{Fence, Order, Start};
use arles_core::{Cluster, GpuId, JobId, JobSpec, KindId, Library, Program, Spread, Time};
use arles_engine::{Kubernetes, Nominal};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{RealKubernetes, kubernetes_or_skip};

const GPUS: usize = 8;
const PODS_PER_NODE: usize = 10;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Run as a test, it has nothing to say.
    if words.iter().any(|word| word == "--test") || !kubernetes_or_skip("the cost of a large Kubernetes cluster") {
        return;
    }
    let sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    for nodes in if sizes.is_empty() { vec![10, 100, 1000] } else { sizes } {
        measure(nodes);
    }
}

fn now() -> Time {
    Time::from_seconds(1.0)
}

fn fill(kubernetes: &RealKubernetes, words: &[&str]) -> f64 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/kubernetes/fill");
    let output = Command::new(script).arg(&kubernetes.folder).args(words).output().expect("python3 is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("seconds")
}

fn until(what: &str, mut done: impl FnMut() -> bool) -> f64 {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(600), "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
    began.elapsed().as_secs_f64()
}

fn measure(nodes: usize) {
    let pods = nodes * PODS_PER_NODE;
    let (theirs, ours, waiting) = (pods * 4 / 10, pods * 4 / 10, pods * 2 / 10);
    let kubernetes = RealKubernetes::start(&["none".to_owned()]);
    fill(&kubernetes, &["nodes", &nodes.to_string(), &GPUS.to_string()]);
    ["others", "team"].iter().for_each(|name| kubernetes.namespace(name));
    let before = resident_mib();
    let mut engine = engine(&kubernetes, nodes);
    println!("{nodes} nodes, {pods} pods:");

    let began = Instant::now();
    let made = fill(&kubernetes, &["pods", &theirs.to_string(), "others", "default-scheduler"]);
    until("the default scheduler has bound its pods", || held(&mut engine).len() == theirs);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "  default scheduler: {theirs} pods made in {made:.1} s and bound after {seconds:.1} s; {}",
        its_own_words(&kubernetes)
    );

    let made = fill(&kubernetes, &["pods", &(ours + waiting).to_string(), "team", "arles"]);
    let seen = until("arles has seen its pods", || {
        engine.poll(now()).expect("it answers");
        engine.intake().seen().arrivals.len() == ours + waiting
    });
    println!("  arles: {} pods made in {made:.1} s, all seen {seen:.1} s later", ours + waiting);
    decide(&mut engine, ours);
    look(&mut engine);
    println!("  memory: {:.0} MiB resident with the engine, {before:.0} before", resident_mib());
}

fn engine(kubernetes: &RealKubernetes, nodes: usize) -> Kubernetes {
    let kind = Library::builtin().kind("a100").expect("in the library").clone();
    let nodes = (0..nodes).map(|number| (format!("n{number:04}"), KindId(0), GPUS as u32));
    let cluster = Cluster::new(vec![kind], nodes).expect("a cluster");
    let mut options = kubernetes.options("team");
    options.programs.namespace = "arles".into();
    options.programs.folder = None;
    // Nothing runs on these nodes, so no gang is ever whole.
    options.gang_timeout_seconds = 86_400.0;
    let mut engine = Kubernetes::new(cluster, options, Box::new(Nominal)).expect("it answers");
    engine.lead(&Mandate { journal: "bench".into(), ..Mandate::default() }).expect("it obeys");
    engine.sync_jobs(now(), &[]).expect("it answers");
    engine
}

/// GPUs that others hold.
fn held(engine: &mut Kubernetes) -> BTreeSet<GpuId> {
    let seen = engine.survey(now(), now()).expect("it answers").survey;
    seen.gangs.iter().flat_map(|gang| gang.gpus.clone()).collect()
}

/// Orders so many starts, one after the other, as a daemon does after a round.
fn decide(engine: &mut Kubernetes, count: usize) {
    let taken = held(engine);
    let free = (0..).map(GpuId).filter(|gpu| !taken.contains(gpu));
    let arrivals = engine.intake().seen().arrivals;
    let mut orders = Vec::new();
    for (number, (arrival, gpu)) in arrivals.iter().take(count).zip(free).enumerate() {
        let program = Program { external: Some(arrival.external.clone()), ..Program::default() };
        let id = JobId(number as u64 + 1);
        let spec = JobSpec { id, gang: 1, program: Some(Arc::new(program)), ..JobSpec::default() };
        engine.add_job(now(), &LiveJob { spec, steps_done: 0.0 }).expect("it answers");
        let (kind, spread) = (KindId(0), Spread::Packed);
        orders.push(Order::Start(Start {
            job: id,
            fence: Fence(id.0),
            kind,
            gpus: vec![gpu],
            spread,
            lease_seconds: 60.0,
        }));
    }
    let (calls, began) = (engine.calls(), Instant::now());
    let mut times = Vec::new();
    for order in &orders {
        let asked = Instant::now();
        assert_eq!(engine.apply(now(), order).expect("it answers"), OrderReply::Pending);
        times.push(asked.elapsed().as_secs_f64());
    }
    let seconds = began.elapsed().as_secs_f64();
    let each = (engine.calls() - calls) as f64 / orders.len() as f64;
    times.sort_by(f64::total_cmp);
    let at = |part: f64| 1000.0 * times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "  arles: {} decisions in {seconds:.1} s; decision to bound: median {:.1} ms, 99 % within {:.1} ms; {each:.2} calls for each",
        orders.len(),
        at(0.5),
        at(0.99)
    );
}

fn look(engine: &mut Kubernetes) {
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let asked = Instant::now();
            engine.survey(now(), now()).expect("it answers");
            1000.0 * asked.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let calls = engine.calls();
    std::thread::sleep(Duration::from_secs(10));
    engine.poll(now()).expect("it answers");
    println!("  arles: a survey takes {:.0} ms; {} calls in 10 s without decisions", times[4], engine.calls() - calls);
}

fn resident_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or(f64::NAN) / 1024.0
}

/// What the default scheduler says of its attempts that placed a pod: how long from the queue to the binding.
fn its_own_words(kubernetes: &RealKubernetes) -> String {
    let port: u32 =
        std::fs::read_to_string(kubernetes.folder.join("port")).expect("it has one").trim().parse().expect("a port");
    let url = format!("https://127.0.0.1:{}/metrics", port + 4);
    let text = Command::new("curl").args(["-sk", &url]).output().expect("curl is there").stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    // Since 1.21; before, every attempt that bound a pod.
    let names = ["scheduler_scheduling_attempt_duration_seconds", "scheduler_e2e_scheduling_duration_seconds"];
    let rows = |suffix: &str| -> Vec<(String, f64)> {
        let is_it = |line: &&str| {
            names.iter().any(|name| line.starts_with(&format!("{name}_{suffix}")))
                && (!line.contains("result=") || line.contains("result=\"scheduled\""))
        };
        let row =
            |line: &str| line.rsplit_once(' ').and_then(|(key, value)| Some((key.to_owned(), value.parse().ok()?)));
        text.lines().filter(is_it).filter_map(row).collect()
    };
    let (Some((_, sum)), Some((_, count))) = (rows("sum").pop(), rows("count").pop()) else {
        return "its metrics cannot be read".into();
    };
    let bound = |key: &str| key.rsplit("le=\"").next()?.split('"').next()?.parse::<f64>().ok();
    let within = |part: f64| {
        let first = rows("bucket").into_iter().find(|(_, below)| *below >= part * count);
        first
            .and_then(|(key, _)| bound(&key))
            .map_or_else(|| "?".into(), |seconds| format!("{:.0} ms", 1000.0 * seconds))
    };
    format!(
        "queue to bound: mean {:.1} ms, half within {}, 99 % within {}",
        1000.0 * sum / count,
        within(0.5),
        within(0.99)
    )
}
