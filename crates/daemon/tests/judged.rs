//! Fairness as the daemon shows it, judged as the policy decided, and the cluster over time.

mod common;

use common::live::Live;
use common::{cluster, header, wait_until};
use serde_json::{Value, json};

/// Three tenants with unlike jobs, one with two classes and a gang.
fn shared() -> Live {
    let cluster = cluster(&[("v100", 8), ("p100", 8), ("k80", 8)]);
    let live = Live::start(&header(cluster, &["a", "b", "c"], "oef-coop"), 600.0);
    let jobs = [
        ("a", "resnet50-b64", 1, 20),
        ("b", "lm-b20", 1, 12),
        ("c", "transformer-b64", 1, 10),
        ("c", "resnet18-b64", 2, 3),
    ];
    for (tenant, workload, gang, count) in jobs {
        for _ in 0..count {
            live.submit(&json!({"tenant": tenant, "workload": workload, "gang": gang, "steps": 1e9}));
        }
    }
    live
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().filter_map(Value::as_f64).collect()
}

#[test]
fn an_envy_free_policy_is_shown_as_envy_free() {
    let live = shared();
    let all =
        |found: &Value| found["shares"].as_array().expect("shares").iter().all(|s| s["sharing_ratio"].is_number());
    // Estimates of this daemon are corrected as it runs, so several decisions are looked at.
    let mut rounds = Vec::new();
    wait_until("ten decisions with everybody in them", || {
        let found = live.get("/v1/allocation");
        if all(&found) && rounds.last() != Some(&found["round"]) {
            for share in found["shares"].as_array().expect("shares") {
                let worst = numbers(&share["envy"]).into_iter().fold(0.0, f64::max);
                assert!(worst <= 1.0 + 1e-4, "envy {worst} in a decision of oef-coop: {share}");
                assert!(share["sharing_ratio"].as_f64() >= Some(1.0 - 1e-4), "{share}");
            }
            rounds.push(found["round"].clone());
        }
        rounds.len() >= 10
    });
    let audit = live.get("/v1/audit");
    // Each is averaged over the time in which that tenant wanted anything, so they need not add up to the cluster.
    for share in audit["shares"].as_array().expect("shares") {
        let received: f64 = numbers(&share["received"]).into_iter().sum();
        assert!(received > 0.0 && received <= 24.0 + 1e-6, "of 24 GPUs {received} were received: {share}");
    }
}

#[test]
fn the_cluster_over_time_adds_up() {
    let live = shared();
    let points = || live.get("/v1/series?points=2000")["points"].as_array().expect("points").clone();
    let busy = |point: &Value| numbers(&point["busy"]).into_iter().sum::<f64>();
    wait_until("a stretch in which everything was in use", || points().iter().any(|point| busy(point) > 23.0));
    for point in points() {
        let usable: f64 = numbers(&point["usable"]).into_iter().sum();
        let held: f64 = numbers(&point["tenants"]).into_iter().sum();
        assert!((busy(&point) - held).abs() < 1e-6, "what tenants hold is what is busy: {point}");
        assert!(busy(&point) <= usable + 1e-6 && usable <= 24.0 + 1e-6, "{point}");
        assert!(point["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{point}");
    }
    let refused = live.ask("GET", "/v1/series?points=1", &live.admin, "");
    assert_eq!(refused.status, 400, "{}", refused.body);
}
