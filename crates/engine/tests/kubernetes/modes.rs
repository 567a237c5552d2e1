//! The ways in which users give pods to arles, on a server that has them all: the scheduler's name, the gate, Jobs that are suspended.

use super::support::{RealKubernetes, kubernetes_or_skip};
use super::{
    Bed, TRAINING, UNIT_SECONDS, arrivals, cluster, job, keep_contract, led, nodes, nodes_of_beds, now, pod_spec,
};
use super::{taken, told, until, within};
use arles_core::engine::{Engine, LiveJob, Mandate, OrderReply};
use arles_core::scheduler::GangEvent;
use arles_core::{Cluster, JobId, JobSpec, Program, Time, Work};
use arles_engine::contract::{Testbed, start, stop};
use arles_engine::kubernetes::{GATE, SharedFolder, tools};
use arles_engine::{Kubernetes, Nominal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What this case is about is between arles and its own pods: a Job of a user's goes on where it left off by itself.
const ABOUT_PROGRAMS: [&str; 1] = ["a_job_goes_on_where_its_driver_says"];

#[derive(Clone, Copy, Debug)]
enum Mode {
    SchedulerName,
    Gate,
    Suspended,
}

/// A bed whose jobs are Jobs of Kubernetes, one pod for each GPU.
struct NativeBed<'k> {
    inner: Bed<'k>,
    mode: Mode,
    case: String,
    made: Mutex<BTreeMap<(u64, u32, u64, i32), LiveJob>>,
}

impl NativeBed<'_> {
    fn folder(&self) -> PathBuf {
        self.inner.kubernetes.folder.join(format!("steps-{}", self.case))
    }

    fn live(&self, id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = (seconds / UNIT_SECONDS).round();
        let make = || self.create(id, gang, steps, exit_code);
        made.entry((id, gang, steps as u64, exit_code)).or_insert_with(make).clone()
    }

    fn create(&self, id: u64, gang: u32, steps: f64, exit_code: i32) -> LiveJob {
        let namespace = format!("programs-{}", self.inner.name);
        let name = format!("j{id}-{steps}-{exit_code}");
        let mut spec = pod_spec(1, TRAINING, "default-scheduler");
        let words = [TRAINING, "train", &steps.to_string(), &UNIT_SECONDS.to_string(), &exit_code.to_string()];
        let words: Vec<String> = words.iter().map(|word| word.replace('$', "$$")).collect();
        spec["containers"][0]["command"] = json!(["/bin/sh", "-c", words[0], words[1], words[2], words[3], words[4]]);
        let file = self.folder().join(format!("job-{id}/steps"));
        spec["containers"][0]["env"] = json!([{"name": "ARLES_STEPS_FILE", "value": file}]);
        let mut record = job(&name, gang, &spec, &json!({}));
        record["metadata"]["namespace"] = json!(namespace);
        record["spec"]["backoffLimit"] = json!(0);
        // Pods that make room are no failures.
        let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        record["spec"]["podFailurePolicy"] = json!({"rules": [rule]});
        give(self.mode, &mut record);
        let words = ["create", "-f", "-", "-o", "jsonpath={.metadata.uid}"];
        let uid = self.inner.kubernetes.kubectl(&words, &record.to_string()).expect("it is accepted");
        let external = Some(format!("kubernetes:job/{namespace}/{name}@{uid}#{gang}"));
        let program = Program { external, ..Program::default() };
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
}

/// Gives a Job to arles.
fn give(mode: Mode, record: &mut Value) {
    let spec = &mut record["spec"];
    match mode {
        Mode::SchedulerName => spec["template"]["spec"]["schedulerName"] = json!("arles"),
        Mode::Gate => spec["template"]["spec"]["schedulingGates"] = json!([{"name": GATE}]),
        Mode::Suspended => {
            spec["suspend"] = json!(true);
            record["metadata"]["labels"] = json!({GATE: "true"});
        }
    }
}

impl Testbed for NativeBed<'_> {
    fn has_another_queue(&self) -> bool {
        true
    }

    fn engine(&mut self) -> Box<dyn Engine> {
        let Bed { kubernetes, name, began } = &self.inner;
        let mut options = kubernetes.options("programs");
        options.programs.folder = Some(SharedFolder { path: self.folder(), claim: None });
        let mut engine = Kubernetes::new(cluster(name), options, Box::new(Nominal)).expect("it answers");
        engine.lead(&Mandate { journal: format!("case{began:?}"), ..Mandate::default() }).expect("it obeys");
        Box::new(engine)
    }

    fn job(&self, id: u64, gang: u32, seconds: f64) -> LiveJob {
        self.live(id, gang, seconds, 0)
    }

    fn program(&self, id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob {
        self.live(id, gang, seconds, exit_code)
    }

    fn cluster(&self) -> Cluster {
        self.inner.cluster()
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn wait(&mut self, seconds: f64) {
        self.inner.wait(seconds);
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
fn the_contract_is_kept_in_every_mode() {
    let what = "the contract with Jobs of users, in every mode";
    if !kubernetes_or_skip(what) {
        return;
    }
    if std::env::var_os("ARLES_TEST_KUBECONFIG").is_none() && std::env::var_os("ARLES_KUBERNETES").is_none() {
        arles_testing::skip_known(format_args!("{what}: no recent Kubernetes is named by ARLES_TEST_KUBECONFIG"));
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes_of_beds());
    if !kubernetes.has_gates_or_skip(what) {
        return;
    }
    let only = std::env::var("ARLES_MODE").ok();
    for mode in [Mode::SchedulerName, Mode::Gate, Mode::Suspended] {
        if only.as_deref().is_some_and(|only| only != format!("{mode:?}")) {
            continue;
        }
        println!("{mode:?}:");
        keep_contract(&kubernetes, &ABOUT_PROGRAMS, |case, name| {
            let inner = Bed { kubernetes: &kubernetes, name: name.to_owned(), began: Instant::now() };
            let case_name = format!("{mode:?}-{}", case.name);
            case.run(&mut NativeBed { inner, mode, case: case_name, made: Mutex::default() });
        });
    }
}

/// A gated Job with wishes of its own, and a suspended one.
fn create_one_of_each(kubernetes: &RealKubernetes) {
    let mut picky = pod_spec(1, "sleep 300", "default-scheduler");
    let wish = json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]});
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": [wish]}]});
    picky["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    let mut gated = job("gated", 2, &picky, &json!({}));
    give(Mode::Gate, &mut gated);
    let mut whole = job("whole", 2, &pod_spec(1, "sleep 300", "default-scheduler"), &json!({}));
    give(Mode::Suspended, &mut whole);
    whole["metadata"]["annotations"] = json!({"arles/steps": "7"});
    kubernetes.create(&gated);
    kubernetes.create(&whole);
}

#[test]
fn gated_pods_and_suspended_jobs_are_pinned_moved_and_given_back() {
    let what = "gates and suspended Jobs";
    if !kubernetes_or_skip(what) {
        return;
    }
    if std::env::var_os("ARLES_TEST_KUBECONFIG").is_none() && std::env::var_os("ARLES_KUBERNETES").is_none() {
        arles_testing::skip_known(format_args!("{what}: no recent Kubernetes is named by ARLES_TEST_KUBECONFIG"));
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes(""));
    if !kubernetes.has_gates_or_skip(what) {
        return;
    }
    kubernetes.namespace("team");
    create_one_of_each(&kubernetes);
    let mut engine = led(&kubernetes);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let found = arrivals(&mut engine, 2);
    let named = |name: &str| found.iter().find(|arrival| arrival.name == name).expect("it arrived").clone();
    assert_eq!((named("whole").gang, named("whole").wishes.steps), (2, Some(7.0)));
    let places = || kubernetes.pods("team", "{.metadata.labels.job-name}{.spec.nodeName}");
    assert_eq!(places(), ["gated", "gated"], "a suspended Job has no pods");

    for (id, name, gpus) in [(1, "gated", [0, 4]), (2, "whole", [1, 5])] {
        engine.add_job(now(), &taken(&named(name), id)).expect("it answers");
        assert_eq!(engine.apply(now(), &start(id, id, &gpus, 60.0)).expect("it answers"), OrderReply::Pending);
        assert_eq!(told(&mut engine, id), GangEvent::Started);
    }
    let sorted = || {
        let mut places = places();
        places.sort();
        places
    };
    assert_eq!(sorted(), ["gatedn0", "gatedn1", "wholen0", "wholen1"]);

    // Both make room. The gated pods' successors wait, and the other Job is suspended again.
    for (id, gpus) in [(1, [2, 3]), (2, [6, 7])] {
        engine.apply(now(), &stop(id, id)).expect("it answers");
        assert!(matches!(told(&mut engine, id), GangEvent::Stopped(_)));
        if id == 2 {
            until(&mut engine, "it is suspended without pods", |engine| {
                engine.poll(now()).expect("it answers");
                (places().iter().filter(|place| place.starts_with("whole")).count() == 0).then_some(())
            });
        }
        engine.apply(now(), &start(id, 10 + id, &gpus, 60.0)).expect("it answers");
        assert_eq!(told(&mut engine, id), GangEvent::Started);
    }
    assert_eq!(sorted(), ["gatedn0", "gatedn0", "wholen2", "wholen2"]);

    // The way back, for a Job that has run and is suspended, and for pods behind the gate.
    for id in [1, 2] {
        engine.apply(now(), &stop(id, 10 + id)).expect("it answers");
        assert!(matches!(told(&mut engine, id), GangEvent::Stopped(_)));
    }
    // The Job's controller waits before it makes new pods: 10 s after the first time, and twice as long after each further one.
    within(180, &mut engine, "nothing has a place", |engine| {
        engine.poll(now()).expect("it answers");
        (sorted() == ["gated", "gated"]).then_some(())
    });
    drop(engine);
    give_all_back(&kubernetes);
    policy_adds_the_gate(&kubernetes);
}

fn give_all_back(kubernetes: &RealKubernetes) {
    let there = tools::Cluster::open(Some(&kubernetes.kubeconfig())).expect("it answers");
    let done = there.release("arles", false).expect("it answers");
    assert_eq!((done.waiting.len(), done.failed.len()), (3, 0), "{done:?}");
    let began = Instant::now();
    while kubernetes.pods("team", "{.status.phase}") != ["Running"; 4] {
        assert!(began.elapsed().as_secs() < 60, "{:?}", kubernetes.pods("team", "{.metadata.name} {.status.phase}"));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// With the shipped policy, GPU pods of a labelled namespace wait for arles without their users' doing; pods without GPUs do not.
fn policy_adds_the_gate(kubernetes: &RealKubernetes) {
    if kubernetes.minor() < 36 {
        arles_testing::skip_known(format_args!(
            "the policy that adds the gate: it is there by itself since Kubernetes 1.36"
        ));
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/gates");
    kubernetes.kubectl(&["apply", "-k", folder.to_str().expect("a path")], "").expect("it is accepted");
    kubernetes.namespace("labelled");
    kubernetes.kubectl(&["label", "namespace", "labelled", "arles/gate=true"], "").expect("it is accepted");
    let pod = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "labelled"}, "spec": spec});
    // Policies take effect a moment after they were accepted.
    let gates = || kubernetes.pods("labelled", "{.metadata.name}:{.spec.schedulingGates[*].name}");
    let began = Instant::now();
    loop {
        kubernetes.create(&pod("gpu", pod_spec(1, "sleep 300", "default-scheduler")));
        if gates() == [format!("gpu:{GATE}")] {
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "{:?}", gates());
        kubernetes.kubectl(&["-n", "labelled", "delete", "pod", "gpu", "--now"], "").expect("it is accepted");
    }
    let mut plain = pod_spec(1, "sleep 300", "default-scheduler");
    plain["containers"][0]["resources"] = json!({});
    kubernetes.create(&pod("plain", plain));
    assert_eq!(gates(), [format!("gpu:{GATE}"), "plain:".into()]);
    kubernetes.kubectl(&["delete", "-k", folder.to_str().expect("a path")], "").expect("it is accepted");
}
