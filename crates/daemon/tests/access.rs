//! Every route × every scope on a whole daemon: who is let in, and that a tenant's token tells and changes nothing of another's.

mod common;

use arles_api::{RotateRequest, TokenRequest};
use arles_daemon::access::{Caller, Need, Scope};
use arles_daemon::http::{ROUTES, Route, Verb};
use common::live::Live;
use common::{cluster, header, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const OWN: &str = "alfa-qqAqq";
const OTHER: &str = "bravo-zzBzz";
const THIRD: &str = "charlie-zzCzz";
/// Run by nobody but [`OTHER`].
const FOREIGN: [&str; 2] = ["transformer", "cyclegan"];

/// A daemon with three tenants that have jobs in every state, and tokens.
struct Stage {
    live: Live,
    own: Vec<u64>,
    others: BTreeSet<u64>,
    secrets: Vec<(Option<Scope>, String)>,
}

/// A workload of the library by its model.
fn workload(model: &str) -> String {
    let all = arles_core::Library::builtin().workloads();
    let named = all.iter().map(|workload| &workload.name).find(|name| name.starts_with(&format!("{model}-b")));
    named.unwrap_or_else(|| panic!("no workload of {model}")).clone()
}

impl Stage {
    fn set() -> Self {
        let header = header(cluster(&[("v100", 4), ("k80", 4)]), &[OWN, OTHER, THIRD], "max-min-fairness");
        let live = Live::start(&header, 1200.0);
        let (mut own, mut others) = (Vec::new(), BTreeSet::new());
        for i in 0..36 {
            let tenant = [OWN, OTHER, THIRD][i % 3];
            let what = if tenant == OTHER { FOREIGN[i / 3 % 2] } else { "resnet18" };
            let steps = if i < 9 { 500.0 } else { 1e9 };
            let id = live.submit(&json!({
                "name": format!("job-{tenant}-{i}"), "tenant": tenant, "workload": workload(what),
                "gang": 1 + i % 2, "steps": steps,
            }));
            if tenant == OWN {
                own.push(id);
            } else {
                others.insert(id);
            }
        }
        let mut secrets = vec![(None, String::new()), (None, "arles_0000".to_owned())];
        let tokens = [
            (Scope::Tenant, Some(OWN)),
            (Scope::Tenant, Some(OTHER)),
            (Scope::Read, None),
            (Scope::Operator, None),
            (Scope::Admin, None),
        ];
        for (scope, tenant) in tokens {
            let name = format!("token-{scope}-{}", tenant.unwrap_or("zzBzz"));
            secrets.push((Some(scope), live.token(&name, scope, tenant)));
        }
        let stage = Self { live, own, others, secrets };
        // Some are over, some run, some wait; and the history has seen a few rounds and a cancelled job.
        wait_until("jobs are over, run and wait", || {
            let count = |state: &str| stage.live.get(&format!("/v1/jobs?state={state}&tenant={OTHER}"))["jobs"].clone();
            ["completed", "running", "waiting"]
                .iter()
                .all(|state| count(state).as_array().is_some_and(|j| !j.is_empty()))
        });
        let cancelled = stage.others.last().expect("one");
        assert_eq!(stage.live.ask("DELETE", &format!("/v1/jobs/{cancelled}"), &stage.live.admin, "").status, 200);
        let began = stage.live.get("/v1/server")["round"].as_u64();
        wait_until("a few rounds", || stage.live.get("/v1/server")["round"].as_u64() > began.map(|round| round + 5));
        stage
    }

    fn secret(&self, at: usize) -> &str {
        &self.secrets[at].1
    }

    fn tenant(&self) -> &str {
        self.secret(2)
    }
}

/// A path of a route for something.
fn path(route: &Route, job: u64, name: &str) -> String {
    route.path.replace("{id}", &job.to_string()).replace("{name}", name).replace("{file}", "index.html")
}

#[test]
fn every_route_is_open_to_the_scopes_that_it_names_and_to_no_others() {
    let stage = Stage::set();
    for route in ROUTES.iter().filter(|route| route.id != "listen") {
        // A body that breaks the schema: whoever is let in is refused for that and changes nothing.
        let body = if route.body.is_some() { r#"{"nonsense": true}"# } else { "" };
        for (scope, secret) in &stage.secrets {
            if scope.is_none() && route.need != Need::Nobody {
                // Failed attempts are counted: ten a second.
                std::thread::sleep(Duration::from_millis(110));
            }
            let answer = stage.live.ask(route.verb.name(), &path(route, 9_999_999, "nobody"), secret, body);
            let text = format!("{} with {scope:?}: {} {}", route.id, answer.status, answer.body);
            match scope {
                _ if route.need == Need::Nobody => assert!(answer.status < 300, "{text}"),
                None => assert_eq!(answer.status, 401, "{text}"),
                Some(scope) if !route.need.met_by(*scope) => assert_eq!(answer.status, 403, "{text}"),
                // The thing is not there, or the body is wrong; or there is nothing to be wrong.
                Some(_) if route.body.is_some() => assert_eq!(answer.status, 400, "{text}"),
                Some(_) if route.path.contains('{') => assert_eq!(answer.status, 404, "{text}"),
                Some(_) => assert_eq!(answer.status, 200, "{text}"),
            }
            assert!(route.id == "getOpenApi" || !answer.body.contains("\"secret\":"), "{text}");
        }
    }
}

/// Every number that stands where a job's number stands, and every number after the word job.
fn jobs_named(value: &Value, named: &mut BTreeSet<u64>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                if matches!(key.as_str(), "job" | "partner") || key == "id" && fields.contains_key("state") {
                    named.extend(inner.as_u64());
                    named.extend(inner.as_array().into_iter().flatten().filter_map(Value::as_u64));
                }
                jobs_named(inner, named);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| jobs_named(item, named)),
        Value::String(text) => {
            let after = text.split("job ").skip(1);
            named
                .extend(after.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()));
        }
        _ => {}
    }
}

impl Stage {
    /// Fails if an answer to [`OWN`] has anything of another tenant in it.
    fn check(&self, target: &str, body: &str) {
        for mark in ["zzBzz", "zzCzz", "bravo", "charlie"] {
            assert!(!body.contains(mark), "{target} tells {OWN} of {mark}: {body}");
        }
        // The list of what can be submitted is everybody's; what somebody runs is not.
        if !target.starts_with("/v1/workloads") && !target.starts_with("/openapi") && !target.starts_with("/dashboard")
        {
            for model in FOREIGN {
                let name = workload(model);
                assert!(!body.contains(&name), "{target} tells {OWN} that somebody runs {name}: {body}");
            }
        }
        // A refusal repeats the number that it was asked about; that it says no more is checked by the number of a job that never was.
        if body.starts_with("{\"error\"") {
            return;
        }
        let mut named = BTreeSet::new();
        for line in body.lines() {
            let line = line.strip_prefix("data: ").unwrap_or(line);
            jobs_named(&serde_json::from_str(line).unwrap_or(Value::Null), &mut named);
        }
        let foreign: Vec<_> = named.intersection(&self.others).collect();
        assert!(foreign.is_empty(), "{target} tells {OWN} of jobs {foreign:?}: {body}");
    }

    /// Reads the stream of events from the beginning for a while.
    fn stream(&self, headers: &str, target: &str) -> String {
        let mut stream = self.live.connect();
        stream.set_read_timeout(Some(Duration::from_millis(700))).expect("a time limit");
        let at = self.live.at;
        let head =
            format!("GET {target} HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {}\r\n{headers}\r\n", self.tenant());
        stream.write_all(head.as_bytes()).expect("sent");
        let (mut all, mut piece, began) = (Vec::new(), [0; 4096], Instant::now());
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            all.extend_from_slice(&piece[..n]);
            if began.elapsed() > Duration::from_secs(2) {
                break;
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }
}

impl Stage {
    /// Looks at an answer and at the pages that follow it.
    fn check_pages(&self, mut target: String) {
        for _ in 0..=50 {
            let answer = self.live.ask("GET", &target, self.tenant(), "");
            assert!(answer.status < 500, "{target}: {}", answer.body);
            // A refusal may repeat the words of the request, and does not repeat anything else.
            if answer.status == 200 || !target.contains(OTHER) {
                self.check(&target, &answer.body);
            }
            let body = serde_json::from_str::<Value>(&answer.body).ok();
            let Some(next) = body.and_then(|v| v["next"].as_str().map(str::to_owned)) else { break };
            let cursor = format!("cursor={next}");
            let parts: Vec<&str> = target.split(['?', '&']).filter(|part| !part.starts_with("cursor=")).collect();
            let query: Vec<&str> = parts[1..].iter().copied().chain([cursor.as_str()]).collect();
            target = format!("{}?{}", parts[0], query.join("&"));
        }
    }
}

#[test]
fn a_tenant_reads_nothing_of_another() {
    let stage = Stage::set();
    let other = *stage.others.first().expect("one");
    for route in ROUTES.iter().filter(|route| route.verb == Verb::Get && route.id != "listen") {
        let mut targets = vec![path(route, stage.own[3], "x"), path(route, other, OTHER)];
        let also: &[&str] = match route.id {
            "listJobs" => &[
                "?state=running",
                "?state=completed,cancelled",
                "?tenant=bravo-zzBzz",
                "?order=oldest&limit=1000",
                "?workload=transformer-b64&order=oldest",
                "?cursor=9&limit=3",
            ],
            "getQueue" | "listNodes" => &["?limit=1", "?limit=1000", "?cursor=1"],
            "listEstimates" => &["?limit=1000", "?workload=resnet18-b64", "?cursor=0"],
            "getAudit" => &["?from=1", "?from=1&to=99999999999"],
            "getEnergy" => &["?by=job&limit=1000", "?by=tenant", "?by=kind", "?by=tenant&from=1"],
            _ => &[],
        };
        targets.extend(also.iter().map(|query| format!("{}{query}", route.path)));
        targets.into_iter().for_each(|target| stage.check_pages(target));
    }
    for id in &stage.others {
        for tail in ["", "/explain"] {
            let ask = |id: u64| stage.live.ask("GET", &format!("/v1/jobs/{id}{tail}"), stage.tenant(), "");
            let (there, never) = (ask(*id), ask(9_999_999));
            assert_eq!((there.status, never.status), (404, 404));
            let same = there.body.replace(&format!("job {id} "), "job 9999999 ");
            assert_eq!(same, never.body, "whether a job of another is there is not told");
        }
    }
    for id in &stage.own {
        for tail in ["", "/explain"] {
            let answer = stage.live.ask("GET", &format!("/v1/jobs/{id}{tail}"), stage.tenant(), "");
            assert_eq!(answer.status, 200);
            stage.check("its own job", &answer.body);
        }
    }
    let energy = stage.live.ask("GET", "/v1/energy?by=job&limit=1000", stage.tenant(), "").json();
    let names: Vec<u64> = energy["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["name"].as_str().unwrap_or_default().parse().unwrap_or(0))
        .collect();
    assert!(!names.is_empty() && names.iter().all(|id| stage.own.contains(id)), "{names:?}");
    let streams = [stage.stream("", "/v1/events?after=0"), stage.stream("Last-Event-ID: 0\r\n", "/v1/events")];
    for stream in streams {
        assert!(stream.contains("event: submitted") && stream.contains("event: started"), "{stream}");
        stage.check("/v1/events", &stream);
    }
}

impl Stage {
    /// What an admin sees, less what moves by itself.
    fn facts(&self) -> Value {
        let jobs = self.live.get("/v1/jobs?order=oldest&limit=1000");
        let jobs = jobs["jobs"].as_array().expect("jobs").iter();
        let fixed = ["id", "name", "tenant", "workload", "gang", "steps", "weight", "reported"];
        let jobs: Vec<Value> =
            jobs.map(|job| json!([fixed.map(|key| job[key].clone()), job["state"] == "cancelled"])).collect();
        let tenants: Vec<Value> = self.live.get("/v1/tenants")["tenants"]
            .as_array()
            .expect("tenants")
            .iter()
            .map(|tenant| json!([tenant["name"], tenant["weight"]]))
            .collect();
        // Only their use may differ.
        let mut tokens = self.live.get("/v1/tokens")["tokens"].clone();
        for token in tokens.as_array_mut().into_iter().flatten() {
            token["last_used_at"] = Value::Null;
        }
        json!({"jobs": jobs, "tenants": tenants, "tokens": tokens, "policy": self.live.get("/v1/server")["policy"]})
    }
}

#[test]
fn a_tenant_changes_nothing_of_another() {
    let stage = Stage::set();
    let before = stage.facts();
    let job = |tenant: &str| json!({"tenant": tenant, "workload": workload("resnet18"), "steps": 10}).to_string();
    let refused = |method: &str, target: &str, body: &str| {
        let answer = stage.live.ask(method, target, stage.tenant(), body);
        assert!(matches!(answer.status, 403 | 404), "{method} {target}: {} {}", answer.status, answer.body);
        answer
    };
    for id in &stage.others {
        let progress = json!({"steps": 1e6, "rate": 1e3, "checkpointed": true}).to_string();
        stage.check("cancel", &refused("DELETE", &format!("/v1/jobs/{id}"), "").body);
        stage.check("progress", &refused("POST", &format!("/v1/jobs/{id}/progress"), &progress).body);
    }
    for tenant in [OTHER, THIRD, "nobody"] {
        refused("POST", "/v1/jobs", &job(tenant));
        refused("POST", "/v1/dry-run/job", &job(tenant));
        refused("PUT", &format!("/v1/tenants/{tenant}"), r#"{"weight": 100}"#);
    }
    refused("PUT", &format!("/v1/tenants/{OWN}"), r#"{"weight": 100}"#);
    refused("PUT", "/v1/policy", r#"{"policy": "fifo"}"#);
    refused("POST", "/v1/dry-run/policy", r#"{"policy": "fifo"}"#);
    refused("POST", "/v1/tokens", r#"{"name": "mine", "scope": "admin"}"#);
    refused("DELETE", "/v1/tokens/the-admin", "");
    refused("DELETE", &format!("/v1/tokens/token-tenant-{OTHER}"), "");
    assert_eq!(stage.facts(), before);

    // The same key in two hands is two keys: neither learns of the other's job.
    let keyed = |secret: &str| {
        let body = json!({"workload": workload("resnet18"), "steps": 10}).to_string();
        let at = stage.live.at;
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nAuthorization: Bearer {secret}\r\n\
             Idempotency-Key: same\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = stage.live.raw(head.as_bytes());
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["tenant"].as_str().expect("a tenant").to_owned()
    };
    assert_eq!(keyed(stage.secret(3)), OTHER);
    assert_eq!(keyed(stage.tenant()), OWN);

    // Whoever only reads changes nothing either, and a token that is dropped opens nothing.
    let reader = stage.secret(4).to_owned();
    for route in ROUTES.iter().filter(|route| route.verb != Verb::Get && route.need != Need::Read) {
        let body = route.body.map_or("", |body| body.example);
        let answer = stage.live.ask(route.verb.name(), &path(route, stage.own[0], OWN), &reader, body);
        let harmless = route.need == Need::Anybody;
        assert!(answer.status == 403 || harmless && answer.status != 401, "{}: {}", route.id, answer.body);
    }
    let dropped = stage.live.ask("DELETE", "/v1/tokens/token-read-zzBzz", &stage.live.admin, "");
    assert_eq!(dropped.status, 200);
    assert_eq!(stage.live.ask("GET", "/v1/server", &reader, "").status, 401);
}

#[test]
fn a_stream_ends_with_its_token() {
    let live = Live::start(&header(cluster(&[("v100", 2)]), &[OWN], "fifo"), 60.0);
    let listen = |secret: &str| {
        let mut stream = live.connect();
        let head = format!("GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&all).contains("retry: 2000") {
            let n = stream.read(&mut piece).expect("a stream");
            assert!(n > 0, "{}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&piece[..n]);
        }
        stream
    };
    // A stream that goes on is never at its end: reading it would last until the time limit of the connection.
    let ends = |mut stream: std::net::TcpStream| {
        let mut piece = [0; 4096];
        let mut tail = Vec::new();
        loop {
            match stream.read(&mut piece).expect("the stream ends before the time limit") {
                0 => return,
                n => tail.extend_from_slice(&piece[..n]),
            }
            // The connection may go on; the stream is over.
            if tail.ends_with(b"0\r\n\r\n") {
                return;
            }
        }
    };
    let revoked = live.token("revoked", Scope::Read, None);
    let rotated = live.token("rotated", Scope::Read, None);
    let expiring =
        TokenRequest { name: "expiring".into(), scope: Scope::Read, tenant: None, expires_seconds: Some(3.0) };
    let expiring = live.desk.make_token(expiring).expect("a token").secret.expect("a secret");
    let streams = [listen(&revoked), listen(&rotated), listen(&expiring)];
    live.desk.drop_token(&Caller::loopback(), "revoked").expect("revoked");
    let request = RotateRequest { overlap_seconds: 0.0, expires_seconds: None };
    live.desk.rotate_token(&Caller::loopback(), "rotated", &request).expect("rotated");
    streams.into_iter().for_each(ends);
    let again = live.ask("GET", "/v1/events", &expiring, "");
    assert_eq!((again.status, again.code().as_str()), (401, "token-expired"));
    let again = live.ask("GET", "/v1/events", &rotated, "");
    assert_eq!((again.status, again.code().as_str()), (401, "token-rotated"));
    drop(listen(&live.admin));
}

/// Names are refused where they come in, by one rule; what is refused changes nothing.
#[test]
fn a_name_holds_nothing_that_cannot_be_seen() {
    let header = header(cluster(&[("v100", 2)]), &[OWN], "fifo");
    let live = Live::start(&header, 60.0);
    let encoded = |name: &str| name.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    for hidden in ["a\u{1b}[2J", "a\u{202e}b", "a\u{2066}b", "a\u{200b}b", "a\nb", "a\u{9b}b", "\u{feff}a"] {
        let program = json!({"command": ["true"]});
        let cases = [
            (
                "POST",
                "/v1/jobs".to_owned(),
                json!({"name": hidden, "tenant": OWN, "workload": workload("resnet18"), "steps": 1.0}),
            ),
            ("POST", "/v1/jobs".to_owned(), json!({"tenant": OWN, "workload": hidden, "program": program})),
            ("PUT", format!("/v1/tenants/{}", encoded(hidden)), json!({"weight": 1.0})),
            ("POST", "/v1/tokens".to_owned(), json!({"name": hidden, "scope": "read"})),
            ("POST", "/v1/nodes".to_owned(), json!({"name": hidden, "kind": "v100", "gpus": 1})),
            ("POST", "/v1/nodes/v100-000/drain".to_owned(), json!({"why": hidden})),
        ];
        for (method, target, body) in cases {
            let answer = live.ask(method, &target, &live.admin, &body.to_string());
            assert_eq!(answer.status, 422, "{method} {target} {body}: {}", answer.body);
            assert!(!answer.body.contains(hidden), "the refusal repeats it: {}", answer.body);
        }
    }
    assert_eq!(live.get("/v1/jobs")["jobs"], json!([]));
    assert_eq!(live.get("/v1/tenants")["tenants"].as_array().map(Vec::len), Some(1));
    // Letters of any script are names, and a job is found by its own.
    let job = json!({"name": "nächtlich 夜", "tenant": OWN, "workload": workload("resnet18"), "steps": 1e9});
    let id = live.submit(&job);
    let found = live.get(&format!("/v1/jobs?name={}", encoded("nächtlich 夜")));
    assert_eq!(found["jobs"][0]["id"], id);
    assert_eq!(live.get("/v1/jobs?name=another")["jobs"], json!([]));
}
