//! Jobs that are programs: what is taken in, shown to whom, refused with which words, and kept across restarts.

mod common;

use arles_api::{self as api, JobRequest, JobState};
use arles_daemon::access::{Caller, Scope};
use arles_daemon::desk::{Desk, JobsQuery};
use arles_daemon::service::Options;
use arles_daemon::views::Archive;
use common::live::Live;
use common::{Folder, block, cluster, header, start, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn daemon(speed: f64) -> Live {
    Live::start(&header(cluster(&[("v100", 4), ("k80", 4)]), &["a", "b"], "max-min-fairness"), speed)
}

fn admin() -> Caller {
    Caller::loopback()
}

/// A program that the virtual cluster plays for so many steps.
fn program(line: &str, steps: f64) -> api::Program {
    let environment = BTreeMap::from([
        ("ARLES_VIRTUAL_WORKLOAD".to_owned(), "resnet50-b64".to_owned()),
        ("ARLES_VIRTUAL_STEPS".to_owned(), steps.to_string()),
    ]);
    let command = line.split_whitespace().map(str::to_owned).collect();
    api::Program { command, environment, directory: Some("/work".into()), ..api::Program::default() }
}

fn request(tenant: &str, line: &str, steps: f64) -> JobRequest {
    JobRequest { tenant: Some(tenant.into()), program: Some(program(line, steps)), ..JobRequest::default() }
}

fn submit(desk: &Desk, request: JobRequest) -> api::Job {
    block(desk.submit(&admin(), None, request)).expect("taken in").0
}

fn post(live: &Live, secret: &str, body: &Value) -> (u16, Value) {
    let answer = live.ask("POST", "/v1/jobs", secret, &body.to_string());
    (answer.status, answer.json())
}

#[test]
fn a_program_is_shown_to_those_who_may_see_it() {
    let live = daemon(1e-6);
    let own = live.token("own", Scope::Tenant, Some("a"));
    let other = live.token("other", Scope::Tenant, Some("b"));
    let reader = live.token("reader", Scope::Read, None);
    let job = |rate: &str| {
        json!({"program": {"command": ["python", "train.py", "--lr", rate], "environment": {"KEY": "s3cret"}, "directory": "/p"},
               "held": true, "needs": {"gpu_memory_gib": 10}, "time_limit_seconds": 60, "retries": 2})
    };
    let (status, first) = post(&live, &own, &job("3e-4"));
    assert_eq!(status, 201, "{first}");
    let (_, second) = post(&live, &own, &job("1e-3"));
    assert_eq!(first["workload"], second["workload"], "arguments do not make another workload");
    let name = first["workload"].as_str().expect("a name").to_owned();
    assert!(name.starts_with("train.py-"), "{name}");
    assert_eq!(first["open"], true);
    assert_eq!(first["retries"], 2);
    assert_eq!(first["held"], true);
    assert_eq!(first["program"]["line"], "python train.py --lr 3e-4");
    assert_eq!(first["program"]["full"]["environment"]["KEY"], "s3cret");
    let get = |secret: &str, target: &str| live.ask("GET", target, secret, "");
    let path = format!("/v1/jobs/{}", first["id"]);
    assert_eq!(get(&other, &path).status, 404);
    let read = get(&reader, &path).json();
    assert_eq!(read["program"]["full"]["environment"], json!({}), "who only reads sees no environment");
    assert!(!get(&own, "/v1/jobs").body.contains("s3cret"), "lists show a line of each program");
    let knows = |secret: &str| get(secret, "/v1/workloads").body.contains(&name);
    assert!(knows(&own) && knows(&reader) && !knows(&other), "a name of one tenant is not told to another");
    // Without a program a name must be one that the caller knows; which others there are is not told.
    let bare = json!({"workload": name, "steps": 10});
    assert_eq!(post(&live, &own, &bare).0, 201);
    let (status, refused) = post(&live, &other, &bare);
    assert_eq!((status, refused["error"]["code"].as_str()), (422, Some("no-such-workload")));
}

#[test]
fn an_array_is_one_request_and_one_key() {
    let live = daemon(1e-6);
    let body = json!({"tenant": "a", "held": true, "program": {"command": ["sh", "x.sh"]}, "array": {"from": 2, "to": 10, "step": 2, "at_most": 2}});
    let ask = || {
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nIdempotency-Key: once\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            live.at,
            live.admin,
            body.to_string().len()
        );
        live.raw(head.as_bytes())
    };
    let (first, again) = (ask(), ask());
    assert_eq!((first.status, again.status), (201, 200), "{}", first.body);
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!(first.json()["array"], json!({"first_job": 1, "tasks": 5, "index": 2, "at_most": 2}));
    let jobs = live.get("/v1/jobs?order=oldest")["jobs"].clone();
    let indices: Vec<u64> =
        jobs.as_array().expect("jobs").iter().filter_map(|j| j["array"]["index"].as_u64()).collect();
    assert_eq!(indices, [2, 4, 6, 8, 10]);
}

#[test]
fn dependencies_are_resolved_when_a_job_is_submitted() {
    let live = daemon(1e-6);
    let own = live.token("own", Scope::Tenant, Some("a"));
    let job = |after: Value| json!({"tenant": "a", "program": {"command": ["true"]}, "held": true, "after": after});
    let first = live.submit(&job(json!([])));
    let foreign = live.submit(&json!({"tenant": "b", "program": {"command": ["true"]}, "held": true}));
    let after =
        |secret: &str, id: u64, outcome: &str| post(&live, secret, &job(json!([{"job": id, "outcome": outcome}])));
    let (status, kept) = after(&own, first, "ok");
    assert_eq!((status, kept["after"].clone()), (201, json!([{"job": first, "outcome": "ok"}])));
    let (never, theirs) = (after(&own, 999, "ok"), after(&own, foreign, "any"));
    assert_eq!((never.0, theirs.0), (422, 422));
    let same = theirs.1.to_string().replace(&format!("job {foreign} "), "job 999 ");
    assert_eq!(same, never.1.to_string(), "whether another's job is there is not told");
    assert_eq!(live.ask("DELETE", &format!("/v1/jobs/{first}"), &own, "").status, 200);
    wait_until("it is cancelled", || live.get(&format!("/v1/jobs/{first}"))["state"] == "cancelled");
    let (status, refused) = after(&own, first, "ok");
    assert_eq!(status, 422, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap_or_default().contains("has already ended (cancelled)"));
    for outcome in ["not-ok", "any"] {
        let (status, met) = after(&own, first, outcome);
        assert_eq!((status, met["after"].clone()), (201, json!([])), "what is met is dropped");
    }
}

#[test]
fn held_jobs_wait_until_they_are_released() {
    let live = daemon(600.0);
    let own = live.token("own", Scope::Tenant, Some("a"));
    let other = live.token("other", Scope::Tenant, Some("b"));
    let id = live.submit(&json!({"tenant": "a", "workload": "resnet50-b64", "steps": 1e9, "held": true}));
    let ask = |secret: &str, verb: &str| live.ask("POST", &format!("/v1/jobs/{id}/{verb}"), secret, "");
    wait_until("a round has seen it", || live.get(&format!("/v1/jobs/{id}"))["reason"]["code"] == "held");
    assert_eq!((ask(&other, "release").status, ask(&other, "hold").status), (404, 404));
    assert_eq!(ask(&own, "release").json()["held"], false);
    assert_eq!(ask(&own, "release").status, 409);
    let state = || live.get(&format!("/v1/jobs/{id}"))["state"].clone();
    wait_until("it runs", || state() == "running");
    assert_eq!(ask(&own, "hold").json()["held"], true);
    wait_until("it waits again", || state() == "waiting");
    assert_eq!(live.ask("DELETE", &format!("/v1/jobs/{id}"), &own, "").status, 200);
    wait_until("it is over", || state() == "cancelled");
    assert_eq!(ask(&own, "hold").status, 409);
}

#[test]
fn what_cannot_be_meant_is_refused_with_words() {
    let live = daemon(1e-6);
    let base = json!({"tenant": "a", "program": {"command": ["python", "train.py"]}});
    for (patch, words) in [
        (json!({"program": null}), "has neither a workload nor a program"),
        (json!({"program": {}}), "neither a command nor a script"),
        (
            json!({"program": {"script": {"name": "x.sh", "text": "echo"}}}),
            "does not begin with a line such as #!/bin/bash",
        ),
        (json!({"program": {"command": ["x"], "environment": {"A B": "c"}}}), "'A B' is not an environment variable"),
        (json!({"steps": 1, "period_seconds": 1}), "both steps and period_seconds are given"),
        (json!({"program": null, "workload": "resnet50-b64"}), "neither steps nor period_seconds is given"),
        (json!({"program": null, "workload": "resnet5", "steps": 1}), "unknown workload 'resnet5'"),
        (json!({"profile": {"like": "resnet51-b64"}}), "no workload is called 'resnet51-b64'"),
        (json!({"profile": {"domain": "visoin"}}), "did you mean vision?"),
        (json!({"needs": {"gpu_memory_gib": 4000}}), "no nodes of this cluster have 1 GPUs of one kind"),
        (json!({"array": {}}), "needs either 'from' and 'to', or 'indices'"),
        (json!({"array": {"from": 1, "to": 100_000}}), "the array has 100000 tasks"),
        (json!({"gang": 5}), "a gang of 5 GPUs does not fit this cluster"),
    ] {
        let mut body = base.clone();
        body.as_object_mut().expect("an object").extend(patch.as_object().expect("an object").clone());
        let (status, answer) = post(&live, &live.admin, &body);
        assert_eq!(status, 422, "{patch}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{patch}: {message}");
    }
    assert_eq!(live.get("/v1/jobs")["jobs"], json!([]));
}

/// The second run of a program profits from the first: its length is expected, and its end estimated.
#[test]
fn the_second_run_is_expected_to_take_as_long_as_the_first() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    let service = start(&folder.0, &header, Options { speed: 3600.0, ..Options::default() });
    let desk = service.desk();
    let first = submit(&desk, request("a", "python train.py --lr 1", 20_000.0));
    assert_eq!(first.expected_seconds, None);
    assert!(first.promise.is_some_and(|text| text.ends_with("end unknown")));
    let over = |id: u64| desk.view(&admin()).job(id).expect("a job").state.over();
    wait_until("it is over", || over(first.id));
    let done = desk.view(&admin()).job(first.id).expect("a job");
    assert_eq!((done.state, done.exit_code), (JobState::Completed, Some(0)));
    let mut expected = None;
    wait_until("its last meter is read", || {
        let next = submit(&desk, JobRequest { held: true, ..request("a", "python train.py --lr 2", 20_000.0) });
        expected = next.expected_seconds;
        expected.is_some()
    });
    let ran = done.ended_at.expect("an end") - done.started_at.expect("a start");
    let expected = expected.expect("known");
    assert!(expected > 0.3 * ran && expected < 1.5 * ran + 60.0, "ran {ran} s, expected {expected} s");
    service.stop().expect("a clean end");
}

#[test]
fn a_restart_knows_the_same_programs_and_workloads() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2), ("k80", 2)]), &["a", "b"], "fifo");
    let options = || Options { speed: 60.0, keep_journal: true, snapshot_entries: 5, ..Options::default() };
    let names = |desk: &Desk| desk.view(&admin()).workloads().workloads;
    let mut known = Vec::new();
    for (round, program) in ["python one.py", "python two.py", "python one.py", "python three.py"].iter().enumerate() {
        let service = start(&folder.0, &header, options());
        let desk = service.desk();
        assert_eq!(names(&desk).len(), header.workloads.len() + known.len(), "round {round}");
        let array = Some(api::ArrayRequest { from: Some(1), to: Some(3), at_most: 1, ..api::ArrayRequest::default() });
        let job = submit(&desk, JobRequest { array, ..request("a", program, 1e9) });
        if !known.contains(&job.workload) {
            known.push(job.workload.clone());
        }
        assert_eq!(names(&desk)[header.workloads.len()..], known[..], "numbers follow the order of names");
        let shown = desk.view(&admin()).job(job.id).expect("a job");
        assert_eq!(shown.program.and_then(|program| program.full).map(|full| full.command.len()), Some(2));
        wait_until("it is planned", || {
            desk.view(&admin()).job(job.id).is_ok_and(|job| job.reason.is_none() || round > 0)
        });
        service.stop().expect("a clean end");
        let (whole, _, differing) = Archive::retrace(&folder.0).expect("all entries");
        let recovered = Archive::open(&folder.0, &mut |remark| panic!("{remark}")).expect("a journal");
        assert_eq!((whole.fingerprint(), differing), (recovered.fingerprint(), 0));
    }
    assert_eq!(known.len(), 3);
    let archive = Archive::open(&folder.0, &mut |remark| panic!("{remark}")).expect("a journal");
    let who = admin();
    let jobs = archive.view(&who).jobs(&JobsQuery::default()).expect("jobs").jobs;
    assert_eq!(jobs.len(), 12);
    assert!(jobs.iter().all(|job| known.contains(&job.workload) && job.array.is_some_and(|array| array.tasks == 3)));
}
