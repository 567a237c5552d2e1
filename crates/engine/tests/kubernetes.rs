//! The Kubernetes engine against a real control plane, from `e2e/kubernetes/cluster`: only the kubelets are a stand-in.

#[path = "kubernetes/claims.rs"]
mod claims;
#[path = "kubernetes/energy.rs"]
mod energy;
#[path = "kubernetes/modes.rs"]
mod modes;
#[path = "kubernetes/queues.rs"]
mod queues;
#[path = "kubernetes/shipped.rs"]
mod shipped;
#[path = "kubernetes/stale.rs"]
mod stale;
#[path = "support/kubernetes.rs"]
mod support;
#[path = "kubernetes/webhook.rs"]
mod webhook;

use arles_core::engine::{Engine, LiveJob, Mandate, OrderReply};
use arles_core::scheduler::{GangEvent, GangState};
use arles_core::{Cluster, GpuId, JobId, JobSpec, Library, Program, Script, Time, Work};
use arles_engine::Kubernetes;
use arles_engine::contract::{self, Testbed, start, stop};
use arles_engine::intake::Arrival;
use arles_engine::kubernetes::tools;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use support::{RealKubernetes, kubernetes_or_skip, owned_or_skip};

/// A step a unit, by the clock: counts on from where it was, and writes down how far it is. A Job of Kubernetes' own is told nothing by arles.
const TRAINING: &str = r#"#!/bin/sh
mkdir -p "${ARLES_STEPS_FILE%/*}"
before=${ARLES_STEPS_DONE-$(cat "$ARLES_STEPS_FILE" 2>/dev/null || echo 0)} before=${before%.*}
total=$1 unit=$2 done=$before
now() { date +%s%N; }
unit_ns=$(echo "$unit" | awk '{printf "%d", 1e9 * $1}')
[ "$before" = 0 ] || sleep "$(echo "$unit" | awk '{print 3 * $1}')"
began=$(now)
while [ "$done" -lt "$total" ]; do
  sleep "$unit"
  done=$((before + ($(now) - began) / unit_ns))
  [ "$done" -le "$total" ] || done=$total
  echo "$done" >"$ARLES_STEPS_FILE.$$" && mv "$ARLES_STEPS_FILE.$$" "$ARLES_STEPS_FILE"
done
exit "${3:-0}"
"#;

/// How long a unit of the contract is. A pod takes a fraction of a second to start or stop here.
const UNIT_SECONDS: f64 = 0.25;
/// Cases that run at once on one control plane, each with nodes of its own: they mostly sleep.
const BEDS: usize = 4;
/// Cases in which the contract's further node joins.
const ON_THE_JOINED_NODE: [&str; 3] = [
    "told_twice_what_the_cluster_is_it_is_told_once",
    "orders_on_a_node_that_joined_are_done",
    "gangs_of_a_removed_node_are_gone",
];

fn node_name(of: &str, number: usize) -> String {
    if of.is_empty() { format!("n{number}") } else { format!("{of}-n{number}") }
}

/// The nodes of the contract with a name before theirs.
fn cluster(of: &str) -> Cluster {
    let kinds = ["a100", "v100"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let nodes = contract::GPUS.iter().enumerate().map(|(n, &(gpus, kind))| (node_name(of, n), kind, gpus));
    Cluster::new(kinds.to_vec(), nodes).expect("a cluster")
}

/// The same as the stand-in's words, with the node that joins. Its name is the contract's, and GPUs of all beds are enough.
fn nodes(of: &str) -> Vec<String> {
    let products = ["NVIDIA-A100-SXM4-40GB", "Tesla-V100-SXM2-16GB"];
    let node = |(n, &(gpus, kind)): (usize, &(u32, arles_core::KindId))| {
        format!("{}:{}:{gpus}", node_name(of, n), products[kind.index()])
    };
    contract::GPUS.iter().enumerate().map(node).collect()
}

/// Runs all cases of the contract on one control plane, several at a time.
fn keep_contract(kubernetes: &RealKubernetes, left_out: &[&str], run: impl Fn(&contract::Case, &str) + Sync) {
    let only = std::env::var("ARLES_CASE").ok();
    let chosen =
        |case: &&contract::Case| only.as_deref().is_none_or(|name| case.name == name) && !left_out.contains(&case.name);
    let cases: Vec<_> = contract::CASES.iter().filter(chosen).collect();
    let (next, cases, joined, run) = (&AtomicUsize::new(0), &cases, &Mutex::new(()), &run);
    std::thread::scope(|scope| {
        for name in beds() {
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let namespace = format!("programs-{name}");
                    kubernetes.namespace(&namespace);
                    // There is one node that joins, and a gang of another bed on it would be a stranger.
                    let _alone = ON_THE_JOINED_NODE
                        .contains(&case.name)
                        .then(|| joined.lock().unwrap_or_else(PoisonError::into_inner));
                    let began = Instant::now();
                    run(case, &name);
                    println!("{} took {:.1} s", case.name, began.elapsed().as_secs_f64());
                    for what in ["jobs", "pods"] {
                        let words = ["-n", &namespace, "delete", what, "--all", "--now"];
                        kubernetes.kubectl(&words, "").expect("it answers");
                    }
                }
            });
        }
    });
}

fn beds() -> Vec<String> {
    (0..BEDS).map(|bed| format!("bed{bed}")).collect()
}

/// The nodes of all beds, and the one that joins.
fn nodes_of_beds() -> Vec<String> {
    let mut all: Vec<String> = beds().iter().flat_map(|bed| nodes(bed)).collect();
    all.push("contract-joined:NVIDIA-A100-SXM4-40GB:2".into());
    all
}

struct Bed<'k> {
    kubernetes: &'k RealKubernetes,
    name: String,
    began: Instant,
}

impl Testbed for Bed<'_> {
    fn has_another_queue(&self) -> bool {
        true
    }

    fn engine(&mut self) -> Box<dyn Engine> {
        let mut engine = self.kubernetes.engine(cluster(&self.name), &format!("programs-{}", self.name));
        engine.lead(&Mandate { journal: format!("case{:?}", self.began), ..Mandate::default() }).expect("it obeys");
        Box::new(engine)
    }

    fn job(&self, id: u64, gang: u32, seconds: f64) -> LiveJob {
        let steps = (seconds / UNIT_SECONDS).round();
        let command = vec![steps.to_string(), UNIT_SECONDS.to_string()];
        let script = Some(Script { name: "train.sh".into(), text: TRAINING.into() });
        let program = Program { command, script, ..Program::default() };
        let spec = JobSpec {
            id: JobId(id),
            gang,
            work: Work::Steps(steps),
            restart_seconds: 3.0 * UNIT_SECONDS,
            program: Some(Arc::new(program)),
            ..JobSpec::default()
        };
        LiveJob { spec, steps_done: 0.0 }
    }

    fn cluster(&self) -> Cluster {
        cluster(&self.name)
    }

    fn program(&self, id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob {
        contract::ending_with(self.job(id, gang, seconds), exit_code)
    }

    fn now(&self) -> Time {
        Time::from_seconds(1.0 + self.began.elapsed().as_secs_f64())
    }

    fn wait(&mut self, seconds: f64) {
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }

    fn unit_seconds(&self) -> f64 {
        UNIT_SECONDS
    }

    fn shares_gpus(&self) -> bool {
        false
    }

    fn exact(&self) -> bool {
        false
    }
}

#[test]
fn the_contract_is_kept_with_a_real_api_server() {
    if !kubernetes_or_skip("the contract of engines against a real API server") {
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes_of_beds());
    keep_contract(&kubernetes, &[], |case, name| {
        case.run(&mut Bed { kubernetes: &kubernetes, name: name.to_owned(), began: Instant::now() });
    });
}

fn led(kubernetes: &RealKubernetes) -> Kubernetes {
    let mut engine = kubernetes.engine(cluster(""), "programs");
    engine.lead(&Mandate { journal: "native".into(), ..Mandate::default() }).expect("it obeys");
    engine
}

fn now() -> Time {
    Time::from_seconds(100.0)
}

/// Polls until something is so.
fn until<T>(engine: &mut Kubernetes, what: &str, look: impl FnMut(&mut Kubernetes) -> Option<T>) -> T {
    within(60, engine, what, look)
}

/// The same, for what others take their time with.
fn within<T>(
    seconds: u64,
    engine: &mut Kubernetes,
    what: &str,
    mut look: impl FnMut(&mut Kubernetes) -> Option<T>,
) -> T {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        if let Some(found) = look(engine) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it never came to this: {what}")
}

/// What is reported of a job's gang.
fn told(engine: &mut Kubernetes, job: u64) -> GangEvent {
    until(engine, "a report", |engine| {
        let news = engine.poll(now()).expect("it answers");
        news.into_iter().find(|report| report.job == JobId(job)).map(|report| report.event)
    })
}

fn arrivals(engine: &mut Kubernetes, count: usize) -> Vec<Arrival> {
    until(engine, "jobs arrive", |engine| {
        // A server that is away is asked again.
        engine.poll(now()).ok()?;
        Some(engine.intake().seen().arrivals).filter(|found| found.len() == count)
    })
}

fn taken(arrival: &Arrival, id: u64) -> LiveJob {
    let program = Program { external: Some(arrival.external.clone()), ..Program::default() };
    let spec = JobSpec { id: JobId(id), gang: arrival.gang, program: Some(Arc::new(program)), ..JobSpec::default() };
    LiveJob { spec, steps_done: 0.0 }
}

fn pod_spec(gpus: u32, command: &str, scheduler: &str) -> Value {
    let limits = json!({"nvidia.com/gpu": gpus.to_string(), "cpu": "2", "memory": "1Gi"});
    let container =
        json!({"name": "w", "image": "none", "command": ["/bin/sh", "-c", command], "resources": {"limits": limits}});
    json!({"schedulerName": scheduler, "restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container]})
}

fn job(name: &str, pods: u32, spec: &Value, annotations: &Value) -> Value {
    let template = json!({"metadata": {"annotations": annotations}, "spec": spec});
    let details = json!({"parallelism": pods, "completions": pods, "backoffLimit": 20, "template": template});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "team"}, "spec": details})
}

#[test]
fn jobs_are_gangs_that_are_bound_adopted_evicted_and_moved() {
    if !kubernetes_or_skip("Jobs of Kubernetes under arles") {
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes(""));
    for name in ["team", "programs"] {
        kubernetes.namespace(name);
    }
    kubernetes.kubectl(&["label", "namespace", "team", "arles/tenant=vision"], "").expect("it is accepted");
    // One that is nobody's but the default scheduler's, and one of two pods that is arles'.
    let mut foreign = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign", "namespace": "team"}});
    foreign["spec"] = pod_spec(2, "sleep 300", "default-scheduler");
    foreign["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n2"});
    kubernetes.create(&foreign);
    let wishes = json!({"arles/workload": "lm-b20", "arles/steps": "5"});
    kubernetes.create(&job("train", 2, &pod_spec(1, "sleep 300", "arles"), &wishes));

    let mut engine = led(&kubernetes);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let arrival = arrivals(&mut engine, 1).remove(0);
    assert_eq!((arrival.shown.as_str(), arrival.tenant.as_str(), arrival.gang), ("team/train", "vision", 2));
    assert_eq!((arrival.wishes.steps, arrival.wishes.workload.as_deref()), (Some(5.0), Some("lm-b20")));
    assert_eq!(arrival.cpus_per_gpu, 2.0);
    let others = until(&mut engine, "the other pod's GPUs are taken", |engine| {
        engine.survey(now(), now()).expect("it answers").survey.gangs.into_iter().next()
    });
    assert_eq!(others.gpus, [GpuId(7), GpuId(6)]);
    let reply = engine.apply(now(), &stop(others.job.0, 0)).expect("it answers");
    assert_eq!(reply, OrderReply::Pending, "it is not ours to stop");

    let live = taken(&arrival, 1);
    engine.add_job(now(), &live).expect("it answers");
    assert_eq!(engine.apply(now(), &start(1, 5, &[0, 1], 60.0)).expect("it answers"), OrderReply::Pending);
    assert_eq!(told(&mut engine, 1), GangEvent::Started);
    let places = || kubernetes.pods("team", "{.metadata.labels.job-name}{.spec.nodeName}");
    assert_eq!(places(), ["n2", "trainn0", "trainn0"]);
    assert_eq!(kubernetes.pods("team", "{.metadata.annotations.arles/job}"), ["", "1", "1"], "for the training hook");

    // It is killed, and the next one goes on.
    drop(engine);
    let mut engine = led(&kubernetes);
    engine.sync_jobs(now(), &[live]).expect("it answers");
    assert_eq!(engine.intake().seen().arrivals, []);
    let seen = engine.survey(now(), now()).expect("it answers").survey;
    let gang = seen.gangs.iter().find(|gang| gang.job == JobId(1)).expect("it is adopted");
    assert_eq!((gang.fence.0, gang.gpus.clone(), &gang.state), (5, vec![GpuId(0), GpuId(1)], &GangState::Running));

    // It makes room: its Job makes new pods, which wait, and are placed elsewhere.
    assert_eq!(engine.apply(now(), &stop(1, 5)).expect("it answers"), OrderReply::Pending);
    assert!(matches!(told(&mut engine, 1), GangEvent::Stopped(_)));
    let events = kubernetes.kubectl(&["-n", "team", "get", "events", "-o", "jsonpath={.items[*].reason}"], "");
    assert!(events.expect("it answers").contains("Preempted"));
    engine.apply(now(), &start(1, 6, &[4, 5], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);
    assert_eq!(places(), ["n2", "trainn1", "trainn1"]);

    // Its user deletes it.
    kubernetes.kubectl(&["-n", "team", "delete", "job", "train", "--wait=false"], "").expect("it is accepted");
    until(&mut engine, "its end is noticed", |engine| {
        engine.poll(now()).expect("it answers");
        engine.intake().seen().over.contains_key(&JobId(1)).then_some(())
    });
    until(&mut engine, "its pods are gone, and nobody else's", |_| {
        (kubernetes.pods("team", "{.metadata.name}{.status.phase}") == ["foreignRunning"]).then_some(())
    });
}

#[test]
fn what_does_not_fit_is_put_off_and_what_is_not_whole_is_given_back() {
    if !kubernetes_or_skip("gangs that cannot start") {
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes(""));
    kubernetes.namespace("team");
    let mut picky = pod_spec(1, "sleep 300", "arles");
    picky["nodeSelector"] = json!({"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB"});
    kubernetes.create(&job("picky", 1, &picky, &json!({})));
    kubernetes.create(&job("odd", 1, &pod_spec(1, "true", "arles"), &json!({"arles/steps": "many"})));
    kubernetes.create(&job("quick", 2, &pod_spec(1, "exit 0", "arles"), &json!({})));
    kubernetes.kubectl(&["cordon", "n1"], "").expect("it is accepted");

    let mut engine = led(&kubernetes);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let found = arrivals(&mut engine, 3);
    let named = |name: &str| found.iter().find(|arrival| arrival.name == name).expect("it arrived").clone();
    assert_eq!(named("picky").kinds, ["Tesla-V100-SXM2-16GB"]);
    assert!(engine.intake().seen().drained["n1"].starts_with("Kubernetes says"));

    // A wish that makes no sense is said where its user looks.
    let odd = named("odd");
    engine.intake().refuse(&odd, &odd.wishes.wrong[0]);
    until(&mut engine, "the refusal is on the pod", |engine| {
        engine.poll(now()).expect("it answers");
        let said = kubernetes.pods("team", "{.metadata.annotations.arles/refused}");
        said.iter().any(|text| text.contains("many")).then_some(())
    });

    engine.add_job(now(), &taken(&named("picky"), 1)).expect("it answers");
    engine.apply(now(), &start(1, 1, &[0], 60.0)).expect("it answers");
    assert!(matches!(told(&mut engine, 1), GangEvent::Stopped(_)), "an A100 is not what it asks for");
    engine.poll(now()).expect("it answers");
    engine.survey(now(), now()).expect("it answers");
    assert!(
        engine.intake().seen().put_off[&JobId(1)].contains("node selector"),
        "{:?}",
        engine.intake().seen().put_off
    );
    engine.apply(now(), &start(1, 2, &[6], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);

    // All or none: half of the gang may not be on a cordoned node, so none of it is anywhere.
    engine.add_job(now(), &taken(&named("quick"), 2)).expect("it answers");
    engine.apply(now(), &start(2, 3, &[3, 4], 60.0)).expect("it answers");
    assert!(matches!(told(&mut engine, 2), GangEvent::Stopped(_)));
    let places = kubernetes.pods("team", "{.metadata.labels.job-name}{.spec.nodeName}");
    assert_eq!(places.iter().filter(|place| *place == "quick").count(), 2, "{places:?}");
    engine.apply(now(), &start(2, 4, &[0, 1], 60.0)).expect("it answers");
    while told(&mut engine, 2) != GangEvent::Finished {}

    // The way back: what waits is placed without arles, and nobody takes it again.
    kubernetes.create(&job("later", 1, &pod_spec(1, "sleep 300", "arles"), &json!({})));
    arrivals(&mut engine, 1);
    let there = tools::Cluster::open(Some(&kubernetes.kubeconfig())).expect("it answers");
    assert!(there.version().expect("it says so") >= (1, 20));
    let done = there.release("arles", false).expect("it answers");
    assert_eq!((done.waiting.len(), done.running.len(), done.failed.len()), (2, 1, 0), "{done:?}");
    until(&mut engine, "it is let go", |engine| {
        engine.poll(now()).expect("it answers");
        engine.intake().seen().over.contains_key(&JobId(1)).then_some(())
    });
    assert_eq!(arrivals(&mut engine, 0), []);
}

/// Orders a start until it comes to something: on a loaded machine the other nodes' heartbeats may be late too, and then it is put off, as it should be.
fn starts_at_last(engine: &mut Kubernetes, job: u64, first_fence: u64, gpus: &[u32]) {
    for fence in first_fence..first_fence + 30 {
        engine.apply(now(), &start(job, fence, gpus, 60.0)).expect("it answers");
        match told(engine, job) {
            GangEvent::Started => return,
            GangEvent::Stopped(_) => println!("put off: {:?}", engine.intake().seen().put_off.get(&JobId(job))),
            other => panic!("{other:?}"),
        }
        std::thread::sleep(Duration::from_secs(2));
    }
    panic!("it never started")
}

/// Watches break, the server forgets the past and comes back, a node dies: what is seen afterwards is what is there.
#[test]
fn nothing_is_lost_when_the_server_or_a_node_is() {
    if !kubernetes_or_skip("an API server that is killed") || !owned_or_skip("an API server that is killed") {
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes(""));
    kubernetes.namespace("team");
    let mut engine = led(&kubernetes);
    engine.sync_jobs(now(), &[]).expect("it answers");
    kubernetes.create(&job("train", 1, &pod_spec(1, "sleep 300", "arles"), &json!({})));
    let live = taken(&arrivals(&mut engine, 1)[0], 1);
    engine.add_job(now(), &live).expect("it answers");
    engine.apply(now(), &start(1, 1, &[4], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);

    kubernetes.act("kill", &["apiserver"]);
    kubernetes.act("start", &[]);
    kubernetes.act("compact", &[]);
    kubernetes.create(&job("second", 1, &pod_spec(1, "sleep 300", "arles"), &json!({})));
    arrivals(&mut engine, 1);
    let seen = engine.survey(now(), now()).expect("it answers").survey;
    assert_eq!(seen.gangs.len(), 1, "{:?}", seen.gangs);

    kubernetes.act("kill-node", &["n1"]);
    until(&mut engine, "the node is down", |engine| {
        let nodes = engine.survey(now(), now()).ok()?.survey.nodes;
        nodes.iter().any(|node| !node.up).then_some(())
    });
    engine.apply(now(), &stop(1, 1)).expect("it answers");
    assert!(matches!(told(&mut engine, 1), GangEvent::Stopped(_)), "its Job has another pod by now");
    starts_at_last(&mut engine, 1, 2, &[0]);
    kubernetes.act("start-node", &["n1"]);
    until(&mut engine, "the node is up, and what was left on it is gone", |engine| {
        let seen = engine.survey(now(), now()).expect("it answers").survey;
        (seen.nodes.iter().all(|node| node.up) && seen.gangs.len() == 1).then_some(())
    });
}
