//! GPUs that are handed out by claims (DRA), on a server that has them: the default scheduler and the claims' controller are real, and ResourceSlices are written by the test in
//! the place of a driver.

use super::support::{RealKubernetes, kubernetes_or_skip};
use super::{arrivals, job, now, pod_spec, taken, told, until};
use arles_core::engine::{Engine, Mandate, OrderReply};
use arles_core::scheduler::GangEvent;
use arles_core::{Cluster, GpuId, Kind, KindId, Library};
use arles_engine::contract::{start, stop};
use arles_engine::kubernetes::{GATE, Mode, tools};
use arles_engine::{Kubernetes, Nominal};
use serde_json::{Value, json};

const DRIVER: &str = "gpu.nvidia.com";

fn v100() -> Kind {
    Library::builtin().kind("v100").expect("in the library").clone()
}

/// Two nodes with four GPUs each by slices, a class that picks them, and templates of claims.
fn hand_out_by_claims(kubernetes: &RealKubernetes) {
    for node in ["d0", "d1"] {
        let device = |n: u32| {
            let attributes = json!({"type": {"string": "gpu"}, "productName": {"string": "Tesla V100-SXM2-16GB"}, "uuid": {"string": format!("GPU-{node}-{n}")}});
            json!({"name": format!("gpu-{n}"), "attributes": attributes, "capacity": {"memory": {"value": "16Gi"}}})
        };
        let devices: Vec<Value> = (0..4).map(device).collect();
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices});
        kubernetes.create(&json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-gpus")}, "spec": spec}));
    }
    let expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    let spec = json!({"selectors": [{"cel": {"expression": expression}}]});
    kubernetes.create(
        &json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": spec}),
    );
    for count in [1, 2] {
        let requests = json!([{"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": count}}]);
        let meta = json!({"name": format!("gpus-{count}"), "namespace": "team"});
        let spec = json!({"spec": {"devices": {"requests": requests}}});
        kubernetes.create(&json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec}));
    }
}

/// A pod whose GPUs come by a claim.
fn claiming(count: u32, scheduler: &str) -> Value {
    let mut spec = pod_spec(0, "sleep 300", scheduler);
    spec["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "gpus"}]});
    spec["resourceClaims"] = json!([{"name": "gpus", "resourceClaimTemplateName": format!("gpus-{count}")}]);
    spec
}

fn engine(kubernetes: &RealKubernetes) -> Kubernetes {
    let cluster =
        Cluster::new(vec![v100()], ["d0", "d1"].map(|name| (name.to_owned(), KindId(0), 4))).expect("a cluster");
    let mut options = kubernetes.options("programs");
    options.kind_of = Some(Box::new(|name| Library::builtin().any_kind(name).ok()));
    let mut engine = Kubernetes::new(cluster, options, Box::new(Nominal)).expect("it answers");
    engine.lead(&Mandate { journal: "claims".into(), ..Mandate::default() }).expect("it obeys");
    engine.sync_jobs(now(), &[]).expect("it answers");
    engine
}

#[test]
fn gpus_by_claims_are_counted_placed_taken_and_given_back() {
    let what = "GPUs by claims (DRA)";
    if !kubernetes_or_skip(what) {
        return;
    }
    if std::env::var_os("ARLES_TEST_KUBECONFIG").is_none() && std::env::var_os("ARLES_KUBERNETES").is_none() {
        arles_testing::skip_known(format_args!("{what}: no recent Kubernetes is named by ARLES_TEST_KUBECONFIG"));
        return;
    }
    // The nodes' device plugin has nothing.
    let nodes: Vec<String> = ["d0", "d1"].iter().map(|node| format!("{node}:none:0")).collect();
    let kubernetes = RealKubernetes::start(&nodes);
    if kubernetes.minor() < 34 {
        arles_testing::skip_known(format_args!("{what}: resource.k8s.io/v1 came with Kubernetes 1.34"));
        return;
    }
    kubernetes.namespace("team");
    hand_out_by_claims(&kubernetes);
    // One that is nobody's but the default scheduler's, with two GPUs of d0.
    let mut foreign = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign", "namespace": "team"}});
    foreign["spec"] = claiming(2, "default-scheduler");
    foreign["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "d0"});
    kubernetes.create(&foreign);
    let mut gated = claiming(2, "default-scheduler");
    gated["schedulingGates"] = json!([{"name": GATE}]);
    kubernetes.create(&job("gated", 2, &gated, &json!({})));
    let mut whole = job("whole", 2, &claiming(1, "default-scheduler"), &json!({}));
    whole["spec"]["suspend"] = json!(true);
    whole["metadata"]["labels"] = json!({GATE: "true"});
    kubernetes.create(&whole);
    kubernetes.create(&job("named", 1, &claiming(1, "arles"), &json!({})));

    let mut engine = engine(&kubernetes);
    let found = arrivals(&mut engine, 3);
    let named = |name: &str| found.iter().find(|arrival| arrival.name == name).expect("it arrived").clone();
    assert_eq!((named("gated").gang, named("whole").gang), (4, 2));
    assert!(named("named").wishes.wrong[0].contains("use the gate"), "{:?}", named("named").wishes.wrong);
    engine.intake().refuse(&named("named"), &named("named").wishes.wrong[0]);
    let seen = until(&mut engine, "the other pod's GPUs are taken", |engine| {
        let report = engine.survey(now(), now()).expect("it answers");
        (!report.survey.gangs.is_empty()).then_some(report)
    });
    assert_eq!(seen.survey.gangs[0].gpus, [GpuId(3), GpuId(2)]);
    let inventory = seen.inventory.expect("it finds nodes itself");
    let shown: Vec<(&str, &str, u32)> =
        inventory.iter().map(|node| (node.name.as_str(), node.kind.name.as_str(), node.gpus)).collect();
    assert_eq!(shown, [("d0", "v100", 4), ("d1", "v100", 4)]);
    place_move_and_release(&kubernetes, &mut engine, &named("gated"), &named("whole"));
    let there = tools::Cluster::open(Some(&kubernetes.kubeconfig())).expect("it answers");
    assert_eq!(there.missing_rights("arles", Mode::Place).expect("it answers"), Vec::<String>::new());
    let claimed = there.claimed_gpus().expect("there are slices");
    assert_eq!((claimed.gpus, claimed.nodes, claimed.classes), (8, 2, vec![DRIVER.to_owned()]));
}

fn place_move_and_release(
    kubernetes: &RealKubernetes,
    engine: &mut Kubernetes,
    gated: &arles_engine::intake::Arrival,
    whole: &arles_engine::intake::Arrival,
) {
    let devices = |name: &str| {
        let path = "jsonpath={range .items[*]}{.metadata.annotations.resource\\.kubernetes\\.io/pod-claim-name}{range .status.allocation.devices.results[*]} {.pool}{end} {.status.reservedFor[0].name}{'\\n'}{end}";
        let said = kubernetes.kubectl(&["-n", "team", "get", "resourceclaims", "-o", path], "").expect("it answers");
        let mine = said.lines().filter(|line| line.contains(&format!(" {name}-")));
        let mut pools: Vec<String> = mine
            .flat_map(|line| {
                line.split_whitespace().filter(|word| word.starts_with('d')).map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        pools.sort();
        pools
    };
    for (id, arrival, gpus) in [(1, gated, vec![4, 5, 6, 7]), (2, whole, vec![0, 1])] {
        engine.add_job(now(), &taken(arrival, id)).expect("it answers");
        assert_eq!(engine.apply(now(), &start(id, id, &gpus, 60.0)).expect("it answers"), OrderReply::Pending);
        assert_eq!(told(engine, id), GangEvent::Started);
    }
    assert_eq!((devices("gated"), devices("whole")), (vec!["d1".to_owned(); 4], vec!["d0".to_owned(); 2]));
    // All eight are taken now: nothing more goes there, and the one that makes room is followed as soon as its claims are gone.
    engine.explain_stop(arles_core::JobId(2), "preempted for job-1 by oef-coop; back in about 22 min");
    for (id, gpus) in [(1, vec![0, 1]), (2, vec![4, 5])] {
        engine.apply(now(), &stop(id, id)).expect("it answers");
        assert!(matches!(told(engine, id), GangEvent::Stopped(_)));
        if id == 2 {
            engine.apply(now(), &start(2, 12, &gpus, 60.0)).expect("it answers");
            assert_eq!(told(engine, 2), GangEvent::Started);
        }
    }
    assert_eq!(devices("whole"), ["d1", "d1"]);
    let events = kubernetes
        .kubectl(&["-n", "team", "get", "events", "-o", "jsonpath={.items[*].message}"], "")
        .expect("it answers");
    assert!(events.contains("preempted for job-1 by oef-coop; back in about 22 min"), "{events}");
    let onto_the_other = engine.apply(now(), &start(1, 13, &[6, 7, 4, 5], 60.0)).expect("it answers");
    assert!(matches!(onto_the_other, OrderReply::Refused(_)), "{onto_the_other:?}");
    assert_eq!(devices("gated"), Vec::<String>::new());
    engine.apply(now(), &start(1, 14, &[0, 1, 6, 7], 60.0)).expect("it answers");
    assert_eq!(told(engine, 1), GangEvent::Started);
    assert_eq!(devices("gated"), ["d0", "d0", "d1", "d1"]);
}
