//! What is shipped, at a real API server: the manifests are accepted, their rights are enough and no others are there, and of two daemons one acts.

use super::support::{RealKubernetes, kubernetes_or_skip};
use super::{arrivals, cluster, job, nodes, now, pod_spec, taken, told};
use arles_core::engine::{Engine, Mandate, OrderReply};
use arles_core::scheduler::GangEvent;
use arles_engine::contract::{start, stop};
use arles_engine::kubernetes::{Mode, tools};
use arles_engine::{Kubernetes, Nominal};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// All that the service account may do, by the server's own word: resources, the names that it is limited to, verbs.
const EVERYWHERE: [(&str, &str, &str); 12] = [
    ("pods", "[]", "list patch watch"),
    ("nodes", "[]", "list watch"),
    ("namespaces", "[]", "list watch"),
    ("jobs.batch", "[]", "list patch watch"),
    ("clusterqueues.kueue.x-k8s.io", "[]", "list watch"),
    ("localqueues.kueue.x-k8s.io", "[]", "list watch"),
    ("resourceslices.resource.k8s.io", "[]", "list watch"),
    ("deviceclasses.resource.k8s.io", "[]", "list watch"),
    ("resourceclaims.resource.k8s.io", "[]", "list watch"),
    ("resourceclaimtemplates.resource.k8s.io", "[]", "list watch"),
    ("pods/binding", "[]", "create"),
    ("pods/eviction", "[]", "create"),
];
const EVENTS: (&str, &str, &str) = ("events", "[]", "create");
/// What it may do in its own namespace on top of that.
const AT_HOME: [(&str, &str, &str); 3] = [
    ("pods", "[]", "create delete"),
    ("leases.coordination.k8s.io", "[]", "create"),
    ("leases.coordination.k8s.io", "[arles]", "get update"),
];
/// Calls that are tried nevertheless.
const REFUSED: [&str; 4] =
    ["get secrets -n kube-system", "delete pods -n default x", "cordon n0", "get pods -n arles x"];

type Rights = BTreeMap<(String, String), BTreeSet<String>>;

fn rights(of: impl IntoIterator<Item = (String, String, String)>) -> Rights {
    let mut found = Rights::new();
    for (resource, names, verbs) in of {
        found.entry((resource, names)).or_default().extend(verbs.split_whitespace().map(str::to_owned));
    }
    found
}

/// What `kubectl auth can-i --list` says, without what every account may do.
fn listed(text: &str) -> Rights {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [resource, _, names, verbs] = cells[..] else { return None };
        let usual = resource.starts_with("self") || resource == "Resources" || resource.starts_with('[');
        let verbs = verbs.trim_matches(['[', ']']).to_owned();
        (!usual).then(|| (resource.to_owned(), names.to_owned(), verbs))
    };
    rights(text.lines().filter_map(row))
}

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

/// An engine with the rights of the shipped service account.
fn engine(kubernetes: &RealKubernetes, lease_seconds: f64) -> Kubernetes {
    let mut options = kubernetes.options("arles");
    options.kubeconfig = Some(kubernetes.folder.join("arles.kubeconfig"));
    options.lease_seconds = lease_seconds;
    Kubernetes::new(cluster(""), options, Box::new(Nominal)).expect("it answers")
}

fn mandate(journal: &str, term: u64) -> Mandate {
    Mandate { journal: journal.into(), term, ..Mandate::default() }
}

#[test]
fn the_shipped_rights_are_enough_and_of_two_daemons_one_acts() {
    if !kubernetes_or_skip("what is shipped for Kubernetes") {
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes(""));
    let folder = packaging("kubernetes");
    let folder = folder.to_str().expect("a path");
    // A namespace that is made by a dry run is not there for the next object, so the first two are applied.
    for file in ["namespace.yaml", "rbac.yaml"] {
        kubernetes.kubectl(&["apply", "-f", &format!("{folder}/{file}")], "").expect("it is accepted");
    }
    kubernetes.kubectl(&["label", "namespace", "arles", "standin=true"], "").expect("it is accepted");
    let said = kubernetes.kubectl(&["apply", "--dry-run=server", "-k", folder], "").expect("all of it is accepted");
    assert_eq!(said.lines().filter(|line| line.contains("(server dry run)")).count(), said.lines().count(), "{said}");
    for kustomization in [format!("{folder}/webhook"), format!("{folder}-advise")] {
        kubernetes.kubectl(&["apply", "--dry-run=server", "-k", &kustomization], "").expect("it is accepted");
    }
    if kubernetes.minor() >= 36 {
        let gates = format!("{folder}/gates");
        kubernetes.kubectl(&["apply", "--dry-run=server", "-k", &gates], "").expect("it is accepted");
    }
    kubernetes.act("account", &["arles", "arles"]);
    let who = kubernetes.folder.join("arles.kubeconfig");
    let there = tools::Cluster::open(Some(&who)).expect("it answers");
    assert_eq!(there.missing_rights("arles", Mode::Place).expect("it answers"), Vec::<String>::new());
    let who = who.to_str().expect("a path");
    let owned = |(resource, names, verbs): &(&str, &str, &str)| {
        ((*resource).to_owned(), (*names).to_owned(), (*verbs).to_owned())
    };
    let elsewhere: Vec<_> = EVERYWHERE.iter().chain([&EVENTS]).map(owned).collect();
    let at_home: Vec<_> = elsewhere.iter().cloned().chain(AT_HOME.iter().map(owned)).collect();
    for (namespace, expected) in [("default", elsewhere), ("arles", at_home)] {
        let words = ["--kubeconfig", who, "auth", "can-i", "--list", "-n", namespace];
        let said = kubernetes.kubectl(&words, "").expect("it answers");
        assert_eq!(listed(&said), rights(expected), "{said}");
    }
    for refused in REFUSED {
        let words: Vec<&str> = ["--kubeconfig", who].into_iter().chain(refused.split(' ')).collect();
        let said = kubernetes.kubectl(&words, "");
        assert!(said.as_ref().is_err_and(|why| why.contains("orbidden")), "{refused}: {said:?}");
    }
    one_of_two_acts(&kubernetes);
}

/// With those rights alone: users' pods are bound, evicted and refused, and whoever was followed does nothing any more.
fn one_of_two_acts(kubernetes: &RealKubernetes) {
    kubernetes.namespace("team");
    kubernetes.create(&job("train", 2, &pod_spec(1, "sleep 300", "arles"), &json!({})));
    kubernetes.create(&job("odd", 1, &pod_spec(1, "true", "arles"), &json!({"arles/steps": "many"})));
    let mut first = engine(kubernetes, 3.0);
    first.lead(&mandate("one", 1)).expect("nobody else is there");
    first.sync_jobs(now(), &[]).expect("it answers");
    let found = arrivals(&mut first, 2);
    let odd = found.iter().find(|arrival| arrival.name == "odd").expect("it arrived");
    first.intake().refuse(odd, &odd.wishes.wrong[0]);
    let live = taken(found.iter().find(|arrival| arrival.name == "train").expect("it arrived"), 1);
    first.add_job(now(), &live).expect("it answers");
    first.apply(now(), &start(1, 1, &[0, 4], 60.0)).expect("it answers");
    assert_eq!(told(&mut first, 1), GangEvent::Started);
    first.apply(now(), &stop(1, 1)).expect("it answers");
    assert!(matches!(told(&mut first, 1), GangEvent::Stopped(_)));
    let events = kubernetes.kubectl(&["-n", "team", "get", "events", "-o", "jsonpath={.items[*].reason}"], "");
    let events = events.expect("it answers");
    assert!(events.contains("Preempted") && events.contains("Refused"), "{events}");

    // Somebody with another journal waits; the next leader of the same journal does not.
    let mut stranger = engine(kubernetes, 3.0);
    assert!(stranger.lead(&mandate("two", 9)).is_err(), "the first one leads");
    assert!(stranger.sync_jobs(now(), &[]).is_err());
    let mut second = engine(kubernetes, 3.0);
    second.lead(&mandate("one", 2)).expect("it is the next one");
    second.sync_jobs(now(), std::slice::from_ref(&live)).expect("it answers");
    assert!(first.apply(now(), &start(1, 2, &[0, 1], 60.0)).is_err(), "it was followed");
    assert!(first.deposed() && !second.deposed());
    assert!(first.lead(&mandate("one", 1)).is_err(), "for good");
    let places = kubernetes.pods("team", "{.metadata.labels.job-name}={.spec.nodeName}");
    assert_eq!(places, ["odd=", "train=", "train="]);
    assert_eq!(second.apply(now(), &start(1, 3, &[4, 5], 60.0)).expect("it answers"), OrderReply::Pending);
    assert_eq!(told(&mut second, 1), GangEvent::Started);

    // Its Lease runs out when it is gone.
    drop(second);
    let began = Instant::now();
    while stranger.sync_jobs(now(), &[]).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "it may lead now");
        std::thread::sleep(Duration::from_millis(200));
    }
    let gangs = stranger.survey(now(), now()).expect("it answers").survey.gangs;
    assert!(!gangs.is_empty(), "the other journal's gang is a stranger that holds its GPUs");
}

/// The chart is for the same daemon: what it grants is what the manifests grant.
#[test]
fn the_chart_grants_what_the_manifests_grant() {
    let read = |path: &str| std::fs::read_to_string(packaging(path)).expect("it is shipped");
    let chart = read("helm/arles/templates/rbac.yaml").replace("{{ .Release.Namespace }}", "arles");
    assert_eq!(chart, read("kubernetes/rbac.yaml"));
    let advice = read("helm/arles/templates/advise.yaml").replace("{{ .Release.Namespace }}", "arles");
    assert!(advice.contains(&read("kubernetes-advise/rbac.yaml")), "the rights of an adviser differ");
    let policy = read("kubernetes/gates/policy.yaml");
    let gates = read("helm/arles/templates/gates.yaml").replace("{{ $version }}", "admissionregistration.k8s.io/v1");
    assert!(gates.contains(&policy), "the policies differ");
    let after = |text: &str| text.split_once("failurePolicy: Ignore\n").map(|(_, rules)| rules.to_owned());
    let chart = read("helm/arles/templates/webhook.yaml").replace("{{- end }}\n", "");
    assert_eq!(after(&chart), after(&read("kubernetes/webhook/webhook.yaml")), "the webhooks' rules differ");
}
