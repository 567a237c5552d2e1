//! Tenants beside each other: quotas that bind and say so, keys and streams that are a tenant's own, tenants that leave, and what one is told
//! of another's runs.

mod common;

use arles_api::{JobState, Quota};
use arles_core::Tenant;
use arles_daemon::access::{Caller, Scope};
use arles_daemon::desk::{ConfiguredSharing, JobsQuery, Page};
use arles_daemon::http;
use arles_daemon::service::{Options, SharedEstimates};
use common::live::Live;
use common::{Folder, admin, block, cluster, fast, header, of, request, start, wait_until};
use serde_json::json;
use std::io::{Read, Write};

#[test]
fn a_new_token_of_an_old_name_does_not_find_the_old_ones_jobs() {
    let live = Live::start(&header(cluster(&[("v100", 2)]), &["a"], "fifo"), 60.0);
    let job = json!({"tenant": "a", "workload": "resnet50-b64", "gang": 1, "steps": 1e9}).to_string();
    let submit = |secret: &str| {
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {secret}\r\n\
             Idempotency-Key: nightly\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{job}",
            live.at,
            job.len()
        );
        let answer = live.raw(head.as_bytes());
        (answer.status, answer.json()["id"].as_u64().expect("a number"))
    };
    let first = live.token("ci", Scope::Tenant, Some("a"));
    assert_eq!(submit(&first), (201, 1));
    assert_eq!(submit(&first), (200, 1), "the same key of the same token is the same job");
    assert_eq!(live.ask("DELETE", "/v1/tokens/ci", &live.admin, "").status, 200);
    let second = live.token("ci", Scope::Tenant, Some("a"));
    assert_eq!(submit(&second), (201, 2), "the name means another token now");
}

#[test]
fn quotas_bind_and_say_so_also_after_a_restart() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 4)]), &["a", "b"], "max-min-fairness");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    let quota = Quota { gpus: Some(1), jobs: Some(3), ..Quota::default() };
    let set = block(desk.set_quota(&admin(), "a", quota)).expect("set");
    assert_eq!(set.quota, quota);
    for _ in 0..3 {
        block(desk.submit(&of("a"), None, request("a", "resnet50-b64", 1, 1e10))).expect("taken in");
    }
    let refused = block(desk.submit(&of("a"), None, request("a", "resnet50-b64", 1, 1e10))).expect_err("a fourth");
    assert_eq!((refused.status, refused.code), (409, "quota-jobs"));
    assert_eq!(refused.message, "tenant a has 3 of its 3 live jobs");
    block(desk.submit(&of("b"), None, request("b", "resnet50-b64", 1, 1e10))).expect("others are not held up");
    let running = |desk: &arles_daemon::desk::Desk| {
        let query = JobsQuery { states: vec![JobState::Running], ..JobsQuery::default() };
        desk.view(&admin()).jobs(&query).expect("jobs").jobs.iter().map(|job| job.tenant.clone()).collect::<Vec<_>>()
    };
    wait_until("one of each runs", || running(&desk).len() == 2);
    wait_until("the others say why not", || {
        let said = block(desk.explain(&of("a"), 3)).expect("explained").reason.text;
        said.contains("tenant a holds 1 of its 1 GPU; this job needs 1")
    });
    service.stop().expect("a clean end");

    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    let tenants = desk.view(&admin()).tenants().tenants;
    assert_eq!(tenants[0].quota, quota, "it is in the journal");
    wait_until("one of each runs again", || running(&desk).len() == 2);
    let said = block(desk.submit(&of("a"), None, request("a", "resnet50-b64", 1, 1e10))).expect_err("still");
    assert_eq!(said.code, "quota-jobs");
    block(desk.set_quota(&admin(), "a", Quota::default())).expect("lifted");
    wait_until("all run", || running(&desk).len() == 4);
    assert_eq!(block(desk.set_quota(&admin(), "nobody", quota)).expect_err("unknown").status, 404);
    let wrong = Quota { kwh: Some(f64::NAN), ..Quota::default() };
    assert_eq!(block(desk.set_quota(&admin(), "a", wrong)).expect_err("no number").status, 422);
    service.stop().expect("a clean end");
}

#[test]
fn a_months_budget_of_energy_stops_what_runs() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a", "b"], "max-min-fairness");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    block(desk.set_quota(&admin(), "a", Quota { kwh: Some(0.2), ..Quota::default() })).expect("set");
    for tenant in ["a", "b"] {
        block(desk.submit(&of(tenant), None, request(tenant, "resnet50-b64", 1, 1e10))).expect("taken in");
    }
    wait_until("the budget is used up, and says so", || {
        let said = block(desk.explain(&of("a"), 1)).expect("explained").reason.text;
        said.contains("of 0.2 kWh this month; resets on 1 ")
    });
    assert!(desk.view(&of("a")).tenants().tenants[0].month.kwh >= 0.2);
    let other = desk.view(&admin()).job(2).expect("there");
    assert_eq!(other.state, JobState::Running, "others go on");
    service.stop().expect("a clean end");
}

#[test]
fn submissions_are_refused_beyond_their_rate() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a", "b"], "fifo");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    let slow = Quota { submits_per_second: Some(0.001), ..Quota::default() };
    block(desk.set_quota(&admin(), "a", slow)).expect("set");
    for _ in 0..10 {
        block(desk.submit(&of("a"), None, request("a", "resnet50-b64", 1, 1e10))).expect("a burst");
    }
    let refused = block(desk.submit(&of("a"), None, request("a", "resnet50-b64", 1, 1e10))).expect_err("too fast");
    assert_eq!((refused.status, refused.code), (429, "quota-submits"));
    assert!(refused.retry_after_seconds.is_some_and(|seconds| seconds > 100.0));
    block(desk.submit(&of("b"), None, request("b", "resnet50-b64", 1, 1e10))).expect("others are not held up");
    service.stop().expect("a clean end");
}

#[test]
fn a_tenant_is_removed_and_its_history_stays() {
    let live = Live::start(&header(cluster(&[("v100", 2)]), &["a", "b"], "fifo"), 600.0);
    let secret = live.token("of-a", Scope::Tenant, Some("a"));
    let job = live.submit(&json!({"tenant": "a", "workload": "resnet50-b64", "gang": 1, "steps": 1e10}));
    let refused = live.ask("DELETE", "/v1/tenants/a", &live.admin, "");
    assert_eq!((refused.status, refused.code().as_str()), (409, "tenant-has-jobs"));
    assert_eq!(refused.message(), "tenant 'a' has 1 live job");
    assert_eq!(live.ask("DELETE", "/v1/tenants/nobody", &live.admin, "").status, 404);
    assert_eq!(live.ask("GET", "/v1/server", &secret, "").status, 200);
    let removed = live.ask("DELETE", "/v1/tenants/a?cancel=true", &live.admin, "");
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(live.ask("GET", "/v1/server", &secret, "").status, 401, "its tokens are revoked");
    let names: Vec<String> = live.get("/v1/tenants")["tenants"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|tenant| format!("{} {}", tenant["name"].as_str().unwrap_or(""), tenant["entitlement_ratio"]))
        .collect();
    assert_eq!(names, ["b 1.0"], "the others share what it had");
    wait_until("its job is cancelled", || live.get(&format!("/v1/jobs/{job}"))["state"] == "cancelled");
    assert_eq!(live.get(&format!("/v1/jobs/{job}"))["tenant"], "a", "its history stays");
    let body = json!({"tenant": "a", "workload": "resnet50-b64", "gang": 1, "steps": 1e9}).to_string();
    assert_eq!(live.ask("POST", "/v1/jobs", &live.admin, &body).code(), "no-such-tenant");
    assert_eq!(live.ask("PUT", "/v1/tenants/a", &live.admin, r#"{"weight": 3}"#).status, 200, "it may come back");
    assert_eq!(live.ask("POST", "/v1/jobs", &live.admin, &body).status, 201);
    assert_eq!(live.ask("GET", "/v1/server", &secret, "").status, 401, "but not those who had its tokens");
}

#[test]
fn what_a_start_finds_otherwise_is_said() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a", "b", "gone"], "fifo");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    block(desk.remove_tenant(&admin(), "gone", false)).expect("removed");
    let tenant = |name: &str, weight: f64| Tenant { name: name.into(), weight };
    let eight = Quota { gpus: Some(8), ..Quota::default() };
    let mut wanted = ConfiguredSharing {
        policy: Some("oef-coop".into()),
        tenants: Some(vec![tenant("a", 2.0), tenant("new", 1.0), tenant("gone", 1.0)]),
        quotas: vec![("a".into(), eight), ("whom".into(), eight)],
    };
    let followed = block(desk.follow_sharing(&wanted)).expect("followed");
    assert_eq!(followed.done, ["tenant new joins with weight 1", "tenant a may use 8 GPUs at once"]);
    assert_eq!(
        followed.differs,
        [
            "the policy stays fifo; the configuration's oef-coop is for new journals ('arles policy oef-coop' switches)",
            "tenant a keeps its weight 1; the configuration says 2 ('arles tenants set a 2' changes it)",
            "tenant gone of the configuration was removed and stays so ('arles tenants set gone 1' brings it back)",
            "tenant b is not in the configuration and stays ('arles tenants remove b' removes it)",
            "the configuration has a quota of tenant whom, whom nobody knows ('arles tenants set whom 1' adds it)",
        ]
    );
    block(desk.set_quota(&admin(), "a", Quota { gpus: Some(4), ..Quota::default() })).expect("by an operator");
    wanted = ConfiguredSharing { quotas: vec![("a".into(), eight)], ..ConfiguredSharing::default() };
    let followed = block(desk.follow_sharing(&wanted)).expect("followed");
    let kept = "tenant a keeps its quota (4 GPUs at once); the configuration says 8 GPUs at once ('arles tenants quota a' changes it)";
    assert_eq!((followed.done.len(), followed.differs), (0, vec![kept.to_owned()]));
    wanted.quotas.clear();
    let followed = block(desk.follow_sharing(&wanted)).expect("followed");
    assert_eq!(followed.done, ["tenant a may use no quota"], "taken out of the configuration");
    let followed = block(desk.follow_sharing(&wanted)).expect("followed");
    assert_eq!(followed, Default::default(), "what nobody wrote down is not compared");
    service.stop().expect("a clean end");
}

/// Two tenants that run the same, of whom only the first is let run; returns what each is told was measured, and how sure that is.
fn measurements(estimates: SharedEstimates) -> [(u64, bool); 3] {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 1)]), &["a", "b"], "fifo");
    let service = start(&folder.0, &header, Options { estimates, ..fast() });
    let desk = service.desk();
    for tenant in ["a", "b"] {
        block(desk.submit(&of(tenant), None, request(tenant, "resnet50-b64", 1, 1e10))).expect("taken in");
    }
    let told = |who: &Caller| {
        let cells = desk.view(who).estimates(None, &Page::default()).expect("estimates").estimates;
        let cell = cells.into_iter().find(|cell| cell.workload == "resnet50-b64" && cell.partner.is_none());
        cell.map_or((0, false), |cell| {
            assert_eq!(cell.measured_rate.is_some(), cell.measurements > 0);
            (cell.measurements, cell.standard_error.is_some())
        })
    };
    wait_until("something was measured", || told(&admin()).0 > 2);
    let all = [told(&admin()), told(&of("a")), told(&of("b"))];
    let rates = block(desk.explain(&of("b"), 2)).expect("explained").rates;
    assert!(rates.iter().all(|rate| rate.rate > 0.0 && rate.standard_error.is_some() == all[2].1), "{rates:?}");
    service.stop().expect("a clean end");
    all
}

#[test]
fn a_tenant_is_told_of_its_own_measurements_unless_they_are_shared() {
    let [all, own, other] = measurements(SharedEstimates::Own);
    assert!(all.0 > 0 && own.0 > 0 && own.1, "{all:?} {own:?}");
    assert_eq!(other, (0, false), "how often others ran it is theirs to know");
    let [all, own, other] = measurements(SharedEstimates::Shared);
    assert!(own.0 >= all.0 && other.0 >= all.0 && other.1, "{all:?} {own:?} {other:?}");
}

#[test]
fn a_tenants_event_streams_leave_seats_for_others() {
    let options = http::Options { listeners: 16, requests_per_second: f64::INFINITY, ..http::Options::default() };
    let live = Live::start_with(&header(cluster(&[("v100", 1)]), &["a", "b"], "fifo"), 60.0, options);
    let listen = |secret: &str| {
        let mut stream = live.connect();
        let head = format!("GET /v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {secret}\r\n\r\n", live.at);
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        (String::from_utf8_lossy(&answer[9..]).into_owned(), stream)
    };
    let [one, two, three] = ["one", "two", "three"].map(|name| live.token(name, Scope::Tenant, Some("a")));
    let other = live.token("other", Scope::Tenant, Some("b"));
    let open = [listen(&one), listen(&two)];
    assert!(open.iter().all(|(status, _)| status == "200"), "{open:?}");
    assert_eq!(listen(&one).0, "429", "a token has one of 16");
    assert_eq!(listen(&three).0, "429", "and a tenant two");
    assert_eq!(listen(&other).0, "200", "others have theirs");
    assert_eq!(listen(&live.admin).0, "200");
}
