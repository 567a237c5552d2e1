//! A cluster that changes: what operators ask for, what everybody sees of it, and that a restart sees the same.

mod common;

use arles_api as api;
use arles_daemon::access::Caller;
use arles_daemon::desk::Page;
use arles_daemon::service::Options;
use arles_daemon::views::Archive;
use common::live::Live;
use common::{Folder, block, cluster, header, request, start, wait_until};
use serde_json::{Value, json};

fn node(live: &Live, name: &str) -> Value {
    let nodes = live.get("/v1/nodes")["nodes"].clone();
    nodes.as_array().expect("nodes").iter().find(|node| node["name"] == name).cloned().unwrap_or(Value::Null)
}

fn post(live: &Live, target: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer = live.ask("POST", target, &live.admin, &text);
    (answer.status, answer.json())
}

#[test]
fn nodes_are_drained_removed_added_and_corrected() {
    let header = header(cluster(&[("v100", 8), ("k80", 4)]), &["a"], "max-min-fairness");
    let live = Live::start(&header, 600.0);
    let id =
        live.submit(&json!({"tenant": "a", "workload": "resnet50-b64", "gang": 4, "steps": 1e9, "kinds": ["v100"]}));
    let place = || live.get(&format!("/v1/jobs/{id}"))["place"]["nodes"][0].as_str().unwrap_or_default().to_owned();
    wait_until("it runs", || live.get(&format!("/v1/jobs/{id}"))["state"] == "running");
    let first = place();

    let (status, drained) =
        post(&live, &format!("/v1/nodes/{first}/drain"), &json!({"why": "a fan", "deadline_seconds": 600}));
    assert_eq!(
        (status, drained["state"].as_str(), drained["drain"]["why"].as_str()),
        (200, Some("draining"), Some("a fan"))
    );
    wait_until("its job has moved", || {
        let now = place();
        !now.is_empty() && now != first
    });
    wait_until("it is empty", || node(&live, &first)["state"] == "drained");
    let kinds = live.get("/v1/kinds")["kinds"].clone();
    assert_eq!((kinds[0]["gpus"].as_u64(), kinds[0]["away"].as_u64()), (Some(8), Some(4)));
    assert!(live.ask("GET", "/metrics", &live.admin, "").body.contains("arles_gpus{kind=\"v100\",state=\"away\"} 4"));
    assert_eq!(post(&live, &format!("/v1/nodes/{first}/undrain"), &Value::Null).1["drain"], Value::Null);
    assert_eq!(post(&live, &format!("/v1/nodes/{first}/undrain"), &Value::Null).0, 409);
    wait_until("it is up again", || node(&live, &first)["state"] == "up");

    let described =
        json!({"memory_gib": 96, "bandwidth_gbps": 1800, "fp32_tflops": 120, "idle_watts": 30, "max_watts": 600});
    let (status, added) = post(
        &live,
        "/v1/nodes",
        &json!({"name": "new-0", "kind": "rtx6000x", "specification": described, "gpus": 2, "cpus": 16, "memory_gib": 64}),
    );
    assert_eq!(
        (status, added["kind"].as_str(), added["cpus"].as_f64()),
        (201, Some("rtx6000x"), Some(16.0)),
        "{added}"
    );
    assert_eq!(post(&live, "/v1/nodes", &json!({"name": "new-1", "kind": "Tesla-T4", "gpus": 1})).1["kind"], "t4");
    assert_eq!(live.get("/v1/kinds")["kinds"].as_array().map(Vec::len), Some(4));
    assert_eq!(live.get("/v1/server")["gpus"], 15);
    assert_eq!(live.get("/v1/allocation")["kinds"].as_array().map(Vec::len), Some(4));
    wait_until("the new node is up", || node(&live, "new-0")["state"] == "up");
    let here = live.submit(&json!({"tenant": "a", "workload": "resnet50-b64", "steps": 1e9, "kinds": ["rtx6000x"], "needs": {"cpus_per_gpu": 8}}));
    wait_until("a job runs there", || live.get(&format!("/v1/jobs/{here}"))["place"]["nodes"] == json!(["new-0"]));
    assert_eq!(node(&live, "new-0")["busy_cpus"], 8.0);
    assert_eq!(post(&live, "/v1/nodes/new-1/kind", &json!({"kind": "k80"})).1["kind"], "k80");

    assert_eq!(live.ask("DELETE", "/v1/nodes/new-0", &live.admin, "").json()["name"], "new-0");
    assert_eq!(node(&live, "new-0"), Value::Null);
    assert_eq!(live.get("/v1/server")["gpus"], 13);
    wait_until("its job waits", || live.get(&format!("/v1/jobs/{here}"))["state"] == "waiting");
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    let header = header(cluster(&[("v100", 4), ("k80", 4)]), &["a"], "fifo");
    let live = Live::start(&header, 600.0);
    for (target, body, expected) in [
        ("/v1/nodes/new-0/drain", json!({"why": "x"}), 404),
        ("/v1/nodes/k80-000/drain", json!({"why": " "}), 422),
        ("/v1/nodes/k80-000/kind", json!({"kind": "v101"}), 422),
        ("/v1/nodes", json!({"name": "n", "kind": "v100", "gpus": 0}), 422),
        (
            "/v1/nodes",
            json!({"name": "n", "kind": "v100", "gpus": 1, "specification": {
            "memory_gib": 96, "bandwidth_gbps": 1800, "fp32_tflops": 120, "idle_watts": 30, "max_watts": 600}}),
            422,
        ),
    ] {
        let (status, answer) = post(&live, target, &body);
        assert_eq!(status, expected, "{target} {body}: {answer}");
    }
    let (status, answer) = post(&live, "/v1/nodes/v100-00O/drain", &json!({"why": "x"}));
    assert_eq!(status, 404);
    assert!(answer["error"]["message"].as_str().unwrap_or_default().contains("did you mean v100-000?"), "{answer}");
}

#[test]
fn a_restart_sees_the_same_cluster() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 4), ("k80", 4)]), &["a"], "fifo");
    let options = || Options { speed: 60.0, keep_journal: true, snapshot_entries: 4, ..Options::default() };
    let who = Caller::loopback();
    let service = start(&folder.0, &header, options());
    let desk = service.desk();
    block(desk.submit(&who, None, request("a", "resnet50-b64", 4, 1e9))).expect("taken in");
    block(desk.drain(&who, "k80-000", api::DrainRequest { why: "old".into(), deadline_seconds: None }))
        .expect("drained");
    let t4 = api::NodeRequest {
        name: "t4-0".into(),
        kind: "t4".into(),
        specification: None,
        gpus: 2,
        cpus: None,
        memory_gib: None,
        rack: None,
    };
    block(desk.add_node(&who, t4.clone())).expect("added");
    block(desk.add_node(&who, api::NodeRequest { gpus: 3, ..t4 })).expect("changed");
    let seen = |nodes: api::Nodes| -> Vec<(String, u32, u32, bool)> {
        nodes.nodes.into_iter().map(|node| (node.name, node.first_gpu, node.gpus, node.drain.is_some())).collect()
    };
    let before = seen(desk.view(&who).nodes(&Page::default()).expect("nodes"));
    let expected = [("v100-000", 0, 4, false), ("k80-000", 4, 4, true), ("t4-0", 10, 3, false)];
    assert_eq!(before, expected.map(|(name, first, gpus, drained)| (name.to_owned(), first, gpus, drained)));
    service.stop().expect("a clean end");

    let (whole, _, differing) = Archive::retrace(&folder.0).expect("all entries");
    let recovered = Archive::open(&folder.0, &mut |remark| panic!("{remark}")).expect("a journal");
    assert_eq!((whole.fingerprint(), differing), (recovered.fingerprint(), 0));
    for archive in [whole, recovered] {
        assert_eq!(seen(archive.view(&who).nodes(&Page::default()).expect("nodes")), before);
    }
    let service = start(&folder.0, &header, options());
    let desk = service.desk();
    assert_eq!(seen(desk.view(&who).nodes(&Page::default()).expect("nodes")), before);
    wait_until("the engine knows the new node", || {
        let nodes = desk.view(&who).nodes(&Page::default()).expect("nodes").nodes;
        nodes.iter().any(|node| node.name == "t4-0" && node.state == "up")
    });
    service.stop().expect("a clean end");
}

/// What operators did stays; what the configuration says anew is done.
#[test]
fn a_changed_configuration_changes_only_what_it_says() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 4), ("k80", 4)]), &["a"], "fifo");
    let who = Caller::loopback();
    let names = |desk: &arles_daemon::desk::Desk| -> Vec<String> {
        desk.cluster().present().map(|(_, node)| node.name.clone()).collect()
    };
    let service = start(&folder.0, &header, Options::default());
    let desk = service.desk();
    assert!(block(desk.follow_configuration(&header.cluster)).expect("nothing to do").is_empty());
    let node = api::NodeRequest {
        name: "mine".into(),
        kind: "t4".into(),
        specification: None,
        gpus: 1,
        cpus: None,
        memory_gib: None,
        rack: None,
    };
    block(desk.add_node(&who, node)).expect("added");
    let done = block(desk.follow_configuration(&cluster(&[("v100", 8)]))).expect("followed");
    assert_eq!(done, ["v100-001 joins with 4 × v100", "k80-000 leaves"]);
    assert_eq!(names(&desk), ["v100-000", "mine", "v100-001"]);
    service.stop().expect("a clean end");
    let service = start(&folder.0, &header, Options::default());
    let desk = service.desk();
    assert!(block(desk.follow_configuration(&cluster(&[("v100", 8)]))).expect("nothing new").is_empty());
    assert_eq!(names(&desk), ["v100-000", "mine", "v100-001"]);
    service.stop().expect("a clean end");
}

#[test]
fn racks_have_budgets_of_their_own() {
    let header = header(cluster(&[("v100", 4)]), &["a"], "max-min-fairness");
    let live = Live::start(&header, 600.0);
    let put = |body: Value| {
        let answer = live.ask("PUT", "/v1/power-budget", &live.admin, &body.to_string());
        (answer.status, answer.json())
    };
    let (status, refused) = put(json!({"watts": 500, "rack": "row-1"}));
    assert_eq!(status, 409, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap_or_default().contains("row-1"), "{refused}");
    let added = json!({"name": "new-0", "kind": "v100", "gpus": 2, "rack": "row-1/rack-3"});
    assert_eq!(post(&live, "/v1/nodes", &added).0, 201);
    put(json!({"watts": 9000}));
    let (status, set) = put(json!({"watts": 500, "rack": "row-1"}));
    assert_eq!((status, &set), (200, &json!({"watts": 9000.0, "racks": [{"rack": "row-1", "watts": 500.0}]})));
    assert_eq!(live.get("/v1/power-budget"), set);
    assert_eq!(put(json!({"watts": null, "rack": "row-1"})).1, json!({"watts": 9000.0, "racks": []}));
    assert_eq!(put(json!({"watts": -1, "rack": "row-1"})).0, 422);
}

/// Prices of electricity by the API: all or nothing, told back, and refused in a sentence.
#[test]
fn prices_of_electricity() {
    let header = header(cluster(&[("v100", 4)]), &["a"], "max-min-fairness");
    let live = Live::start(&header, 600.0);
    let put = |body: Value| {
        let answer = live.ask("PUT", "/v1/prices", &live.admin, &body.to_string());
        (answer.status, answer.json())
    };
    assert_eq!(live.get("/v1/prices"), json!({"prices": []}));
    let (status, set) =
        put(json!({"prices": [{"from": 0, "per_kwh": 0.3, "kg_per_kwh": 0.4}, {"from": 3600, "per_kwh": -0.1}]}));
    let known = json!({"prices": [
        {"from": 0.0, "per_kwh": 0.3, "kg_per_kwh": 0.4}, {"from": 3600.0, "per_kwh": -0.1, "kg_per_kwh": 0.0}
    ]});
    assert_eq!((status, &set), (200, &known));
    for (wrong, says) in [
        (json!([{"from": 60, "per_kwh": 1}, {"from": 60, "per_kwh": 2}]), "order of time"),
        (json!([{"from": -1, "per_kwh": 1}]), "from is -1"),
        (json!([{"from": 1e300, "per_kwh": 1}]), "from is"),
        (json!([{"from": 0, "per_kwh": 1, "kg_per_kwh": -2}]), "kg_per_kwh is -2"),
    ] {
        let (status, refused) = put(json!({ "prices": wrong }));
        assert_eq!(status, 422, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap_or_default().contains(says), "{refused}");
    }
    for (wrong, says) in [
        (json!([{"from": 0, "per_kwh": "cheap"}]), "prices[0].per_kwh is \"cheap\"; expected a number (line 1 column"),
        (json!([{"from": "2026-01-01", "per_kwh": 1}]), "prices[0].from is \"2026-01-01\"; expected a number"),
        (json!({"from": 0}), "prices is {\"from\":0}; expected a list"),
    ] {
        let (status, refused) = put(json!({ "prices": wrong }));
        assert_eq!(status, 400, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap_or_default().starts_with(says), "{refused}");
    }
    assert_eq!(live.get("/v1/prices"), known);
    assert_eq!(put(json!({"prices": []})).0, 200);
    assert_eq!(live.get("/v1/prices"), json!({"prices": []}));
}

/// A budget that falls by two fifths while all GPUs are at work, cannot be kept when it falls further, and is lifted: the daemon is below it at once and loses no
/// work, says what is too much and why, and runs everybody again.
#[test]
fn a_budget_falls_in_the_middle_of_a_run_and_returns() {
    let live = Live::start(&header(cluster(&[("v100", 8)]), &["a"], "max-min-fairness"), 600.0);
    let job = json!({"tenant": "a", "workload": "resnet50-b64", "gang": 1, "steps": 1e9});
    let jobs: Vec<u64> = (0..8).map(|_| live.submit(&job)).collect();
    let of = |id: u64, field: &str| live.get(&format!("/v1/jobs/{id}"))[field].clone();
    let running = || jobs.iter().filter(|id| of(**id, "state") == "running").count();
    let server = |field: &str| live.get("/v1/server")[field].as_f64().expect("a number");
    let put = |watts: Value| {
        let answer = live.ask("PUT", "/v1/power-budget", &live.admin, &json!({ "watts": watts }).to_string());
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    let done = || -> Vec<f64> { jobs.iter().map(|id| of(*id, "steps_done").as_f64().expect("steps")).collect() };
    wait_until("all are at work", || running() == 8 && done().iter().all(|steps| *steps > 0.0));
    let (full, before, first) = (server("watts"), done(), server("last_event") as u64);
    let budget = 0.6 * full;

    put(json!(budget));
    wait_until("the cluster is below its budget", || server("watts") <= budget * (1.0 + 1e-9));
    let events = |what: &str| -> Vec<(f64, String)> {
        let (events, _) = live.desk.events(&Caller::loopback(), first, 10_000).expect("they are kept");
        events.into_iter().filter(|event| event.what == what).map(|event| (event.at, event.text)).collect()
    };
    let set = events("power-budget")[0].0;
    let stopped = events("stopped");
    let round = server("round_seconds");
    assert!(stopped.first().is_some_and(|(at, _)| at - set <= round), "{stopped:?} after {set}");
    assert!((1..8).contains(&running()), "some go on");

    put(json!(1.0));
    wait_until("nobody is at work", || running() == 0);
    wait_until("what is too much is said", || {
        events("trouble").iter().any(|(_, text)| text.contains("may draw 1 W") && text.contains("with nothing on them"))
    });

    put(Value::Null);
    wait_until("all are at work again", || running() == 8);
    let after = done();
    assert!(before.iter().zip(&after).all(|(before, after)| after >= before), "{before:?} {after:?}");
}
