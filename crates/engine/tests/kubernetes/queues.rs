//! Kueue's queues at a real API server: custom resources with the fields of Kueue's that arles reads and writes. The test plays Kueue's controller.

use super::support::{RealKubernetes, kubernetes_or_skip};
use super::{arrivals, cluster, job, nodes, now, pod_spec, taken, told, until};
use arles_core::JobId;
use arles_core::engine::{Engine, Mandate, OrderReply};
use arles_core::scheduler::GangEvent;
use arles_engine::contract::{start, stop};
use arles_engine::intake::Entitlement;
use arles_engine::kubernetes::{Mode, tools};
use arles_engine::{Kubernetes, Nominal};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A custom resource whose fields are kept as they are written, with a status of its own.
fn definition(kind: &str, plural: &str, scope: &str) -> Value {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": free, "status": free}});
    let version = json!({"name": "v1beta2", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase()});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.kueue.x-k8s.io"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test's"},
        },
        "spec": {"group": "kueue.x-k8s.io", "scope": scope, "names": names, "versions": [version]},
    })
}

const KINDS: [(&str, &str, &str); 4] = [
    ("ClusterQueue", "clusterqueues", "Cluster"),
    ("LocalQueue", "localqueues", "Namespaced"),
    ("ResourceFlavor", "resourceflavors", "Cluster"),
    ("Workload", "workloads", "Namespaced"),
];

fn install_queues(kubernetes: &RealKubernetes) {
    for (kind, plural, scope) in KINDS {
        kubernetes.create(&definition(kind, plural, scope));
        let name = format!("crd/{plural}.kueue.x-k8s.io");
        kubernetes.kubectl(&["wait", "--for=condition=Established", &name, "--timeout=60s"], "").expect("it is there");
    }
}

fn of_kueue(kind: &str, namespace: Option<&str>, name: &str, spec: &Value) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec})
}

/// Six GPUs of one kind and two of another, and CPUs in a group of their own; a weight, if one is given.
fn cluster_queue(name: &str, cohort: Option<&str>, weight: Option<&str>) -> Value {
    let gpus = |flavor: &str, count: &str| json!({"name": flavor, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": count}]});
    let cpus = json!({"name": "any", "resources": [{"name": "cpu", "nominalQuota": 64}]});
    let mut spec = json!({"resourceGroups": [
        {"coveredResources": ["nvidia.com/gpu"], "flavors": [gpus("ampere", "6"), gpus("volta", "2")]},
        {"coveredResources": ["cpu"], "flavors": [cpus]},
    ]});
    if let Some(cohort) = cohort {
        spec["cohortName"] = cohort.into();
    }
    if let Some(weight) = weight {
        spec["fairSharing"] = json!({"weight": weight});
    }
    of_kueue("ClusterQueue", None, name, &spec)
}

fn engine(kubernetes: &RealKubernetes, mode: Mode) -> Kubernetes {
    let mut options = kubernetes.options("programs");
    options.mode = mode;
    let mut engine = Kubernetes::new(cluster(""), options, Box::new(Nominal)).expect("it answers");
    engine.lead(&Mandate { journal: "queues".into(), ..Mandate::default() }).expect("it obeys");
    engine
}

fn owed(kubernetes: &mut Kubernetes, expected: &[(&str, f64, Option<u32>)]) {
    let expected: BTreeMap<String, Entitlement> =
        expected.iter().map(|&(name, weight, gpus)| (name.to_owned(), Entitlement { weight, gpus })).collect();
    until(kubernetes, "what the queues are owed", |engine| {
        engine.poll(now()).expect("it answers");
        (engine.intake().seen().entitlements == expected).then_some(())
    });
}

#[test]
fn tenants_are_owed_what_their_queues_are_and_advice_is_all_that_is_written() {
    if !kubernetes_or_skip("Kueue's queues") {
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes(""));
    ["team", "programs"].iter().for_each(|name| kubernetes.namespace(name));
    let mut options = kubernetes.options("programs");
    options.mode = Mode::Advise;
    let refused = Kubernetes::new(cluster(""), options, Box::new(Nominal)).err().expect("there is no Kueue");
    assert!(refused.to_string().contains("has no Kueue"), "{refused}");
    let mut without = engine(&kubernetes, Mode::Place);
    without.sync_jobs(now(), &[]).expect("a cluster without Kueue is no trouble");
    drop(without);

    install_queues(&kubernetes);
    for (flavor, product) in [("ampere", "NVIDIA-A100-SXM4-40GB"), ("volta", "Tesla-V100-SXM2-16GB")] {
        let spec = json!({"nodeLabels": {"nvidia.com/gpu.product": product}});
        kubernetes.create(&of_kueue("ResourceFlavor", None, flavor, &spec));
    }
    kubernetes.create(&of_kueue("ResourceFlavor", None, "any", &json!({})));
    kubernetes.create(&cluster_queue("research", None, None));
    kubernetes.create(&cluster_queue("vision", Some("all"), None));
    kubernetes.create(&of_kueue("LocalQueue", Some("team"), "main", &json!({"clusterQueue": "research"})));
    placing(&kubernetes);
    advising(&kubernetes);
}

/// Who is owed what, and whose a job is, while arles places pods.
fn placing(kubernetes: &RealKubernetes) {
    kubernetes.create(&job("train", 1, &pod_spec(1, "sleep 300", "arles"), &json!({})));
    let mut engine = engine(kubernetes, Mode::Place);
    engine.sync_jobs(now(), &[]).expect("it answers");
    assert_eq!(arrivals(&mut engine, 1)[0].tenant, "research");
    owed(&mut engine, &[("research", 8.0, Some(8)), ("vision", 8.0, None)]);
    let patch = json!({"spec": {"fairSharing": {"weight": "2500m"}}}).to_string();
    kubernetes.kubectl(&["patch", "clusterqueue", "vision", "--type=merge", "-p", &patch], "").expect("it is accepted");
    owed(&mut engine, &[("research", 1.0, Some(8)), ("vision", 2.5, None)]);
    let words = ["-n", "team", "label", "job", "train", "kueue.x-k8s.io/queue-name=side"];
    kubernetes.kubectl(&words, "").expect("it is accepted");
    kubernetes.create(&of_kueue("LocalQueue", Some("team"), "side", &json!({"clusterQueue": "vision"})));
    until(&mut engine, "its label counts", |engine| {
        engine.poll(now()).expect("it answers");
        (engine.intake().seen().arrivals[0].tenant == "vision").then_some(())
    });
}

/// A Workload as Kueue makes it for a Job: it belongs to the Job.
fn workload(kubernetes: &RealKubernetes) {
    let mut owner = job("advised", 2, &pod_spec(1, "true", "default-scheduler"), &json!({}));
    owner["spec"]["parallelism"] = json!(0);
    owner["spec"]["completions"] = Value::Null;
    kubernetes.create(&owner);
    let uid = kubernetes.kubectl(&["-n", "team", "get", "job", "advised", "-o", "jsonpath={.metadata.uid}"], "");
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "advised", "uid": uid.expect("it answers"), "controller": true});
    let template =
        json!({"metadata": {"annotations": {"arles/steps": "5"}}, "spec": pod_spec(1, "true", "default-scheduler")});
    let spec =
        json!({"queueName": "main", "active": true, "podSets": [{"name": "main", "count": 2, "template": template}]});
    let mut waiting = of_kueue("Workload", Some("team"), "job-advised", &spec);
    waiting["metadata"]["ownerReferences"] = json!([owner]);
    kubernetes.create(&waiting);
}

/// Says what Kueue would: that a condition is so, or is not; admitted to the older kind.
fn conclude(kubernetes: &RealKubernetes, kind: &str, status: &str) {
    let given = json!({"clusterQueue": "research", "podSetAssignments": [{"name": "main", "flavors": {"nvidia.com/gpu": "volta"}}]});
    let condition = json!({"type": kind, "status": status, "reason": "Succeeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let admission = if status == "True" { given } else { Value::Null };
    let patch = json!({"status": {"conditions": [condition], "admission": admission}}).to_string();
    let words =
        ["-n", "team", "patch", "workload", "job-advised", "--type=merge", "--subresource=status", "-p", &patch];
    kubernetes.kubectl(&words, "").expect("it is accepted");
}

/// What is written on the Workload: its boost, its flavours, and whether arles' mark is on it.
fn written(kubernetes: &RealKubernetes) -> (String, String, bool) {
    let read = |key: &str| {
        let path = format!("jsonpath={{.metadata.annotations.{}}}", key.replace('.', "\\."));
        kubernetes.kubectl(&["-n", "team", "get", "workload", "job-advised", "-o", &path], "").expect("it answers")
    };
    let boost = read("kueue.x-k8s.io/priority-boost");
    (boost, read("kueue.x-k8s.io/workload-allowed-resource-flavors"), !read("arles/mark").is_empty())
}

fn nothing() -> (String, String, bool) {
    (String::new(), String::new(), false)
}

/// Every decision becomes two annotations, which go when it is taken back.
fn advising(kubernetes: &RealKubernetes) {
    workload(kubernetes);
    let mut adviser = engine(kubernetes, Mode::Advise);
    adviser.sync_jobs(now(), &[]).expect("it answers");
    // The pod that names arles as its scheduler is not among them: nothing is placed.
    let arrival = arrivals(&mut adviser, 1).remove(0);
    assert_eq!((arrival.shown.as_str(), arrival.tenant.as_str(), arrival.gang), ("team/advised", "research", 2));
    assert_eq!((arrival.wishes.steps, arrival.kinds.len()), (Some(5.0), 2));
    let live = taken(&arrival, 1);
    adviser.add_job(now(), &live).expect("it answers");
    assert_eq!(written(kubernetes), nothing());
    assert_eq!(adviser.apply(now(), &start(1, 5, &[6, 7], 60.0)).expect("it answers"), OrderReply::Pending);
    assert_eq!(written(kubernetes), ("1000".into(), "any,volta".into(), true));
    conclude(kubernetes, "Admitted", "True");
    assert_eq!(told(&mut adviser, 1), GangEvent::Started);
    let mut other = engine(kubernetes, Mode::Advise);
    other.sync_jobs(now(), &[]).expect("it answers");
    assert_eq!(arrivals(&mut other, 1)[0].kinds, ["Tesla-V100-SXM2-16GB"], "it runs, so it is planned where it is");
    drop(other);

    // It is killed, and the next one goes on.
    drop(adviser);
    let mut adviser = engine(kubernetes, Mode::Advise);
    adviser.sync_jobs(now(), std::slice::from_ref(&live)).expect("it answers");
    let gangs = adviser.survey(now(), now()).expect("it answers").survey.gangs;
    assert_eq!(gangs.iter().map(|gang| (gang.job, gang.fence.0)).collect::<Vec<_>>(), [(JobId(1), 5)]);

    // Nobody is told to go: the boost is gone, and Kueue does as it likes.
    let reply = adviser.apply(now(), &stop(1, 5)).expect("it answers");
    assert!(
        matches!(&reply, OrderReply::Reported(report) if matches!(report.event, GangEvent::Stopped(_))),
        "{reply:?}"
    );
    assert_eq!(written(kubernetes), nothing());
    adviser.apply(now(), &start(1, 6, &[0, 1], 60.0)).expect("it answers");
    assert_eq!(written(kubernetes), ("1000".into(), "ampere,any".into(), true));
    assert_eq!(told(&mut adviser, 1), GangEvent::Started, "Kueue runs it, wherever that is");
    conclude(kubernetes, "Admitted", "False");
    assert!(matches!(told(&mut adviser, 1), GangEvent::Stopped(_)));
    until(&mut adviser, "its boost is taken back", |engine| {
        engine.poll(now()).expect("it answers");
        (written(kubernetes) == nothing()).then_some(())
    });

    // The way back, and an end without arles.
    adviser.apply(now(), &start(1, 7, &[0, 1], 60.0)).expect("it answers");
    let there = tools::Cluster::open(Some(&kubernetes.kubeconfig())).expect("it answers");
    let done = there.release("nobody", false).expect("it answers");
    assert_eq!((done.waiting, done.failed), (vec!["team/job-advised".to_owned()], Vec::new()));
    assert_eq!(written(kubernetes), nothing());
    until(&mut adviser, "it is let go", |engine| {
        engine.poll(now()).expect("it answers");
        engine.intake().seen().over.get(&JobId(1)).filter(|why| why.contains("given back")).map(drop)
    });
    assert_eq!(written(kubernetes), nothing(), "it is not advised again");
    let places = kubernetes.pods("team", "{.metadata.labels.job-name}={.spec.nodeName}");
    assert_eq!(places, ["train="], "no pod was touched");
}
