//! The HTTP server alone: what it accepts, what it refuses and how, with a fake backend.

#[path = "common/fake.rs"]
mod fake;

use arles_daemon::access::{Need, Scope};
use arles_daemon::http::{Options, ROUTES, Verb, serve};
use fake::{Fake, Server};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const ADMIN: &str = "Authorization: Bearer admin\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

fn target(path: &str) -> String {
    path.replace("{id}", "17").replace("{name}", "vision%2Fa").replace("{file}", "index.html")
}

#[test]
fn every_route_lets_in_the_scopes_that_it_names_and_no_others() {
    let server = Server::start(Server::unlimited());
    for route in ROUTES.iter().filter(|route| route.path != "/v1/events") {
        let ask = |who: &str| {
            let example = route.body.map_or("", |body| body.example);
            server.ask(route.verb.name(), &target(route.path), &format!("{who}{JSON}"), example)
        };
        for scope in Scope::ALL {
            let answer = ask(&format!("Authorization: Bearer {scope}\r\n"));
            let refused = answer.status == 403;
            assert_eq!(refused, !route.need.met_by(scope), "{scope} at {}: {answer:?}", route.path);
            if refused {
                assert_eq!(answer.code(), "scope-too-small");
            }
        }
        for who in ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic admin\r\n"] {
            let answer = ask(who);
            if route.need == Need::Nobody {
                assert_ne!(answer.status, 401, "{}", route.path);
            } else {
                assert_eq!((answer.status, answer.code().as_str()), (401, "no-token"), "{}", route.path);
                assert_eq!(answer.header("www-authenticate"), Some("bearer"));
            }
        }
    }
}

#[test]
fn questions_arrive_as_they_were_asked() {
    let server = Server::start(Server::unlimited());
    let asked = |target: &str| server.get(target).json()["asked"].as_str().unwrap_or_default().to_owned();
    assert_eq!(asked("/v1/jobs/17"), "getJob 17");
    assert_eq!(
        asked("/v1/jobs?state=running,waiting&tenant=a+b%C3%A4&order=oldest&limit=5&cursor=x"),
        "listJobs JobsQuery { states: [Waiting, Running], tenant: Some(\"a bä\"), workload: None, name: None, \
         oldest_first: true, cursor: Some(\"x\"), limit: Some(5) }"
    );
    assert_eq!(
        asked("/v1/energy?by=kind&from=1.5e3"),
        "getEnergy (Kind, (Some(1500.0), None), Page { cursor: None, limit: None })"
    );
    let put = server.ask("PUT", "/v1/tenants/a%2Fb", &format!("{ADMIN}{JSON}"), r#"{"weight": 2}"#);
    assert_eq!(put.json()["asked"], "setTenant (\"a/b\", TenantRequest { weight: 2.0 })");
    let headers = format!("{ADMIN}{JSON}Idempotency-Key: k-1\r\n");
    let new = server.ask("POST", "/v1/jobs", &headers, r#"{"workload": "resnet50", "steps": 9}"#);
    assert_eq!((new.status, new.header("location")), (201, Some("/v1/jobs/1")));
    assert!(new.json()["asked"].as_str().unwrap().starts_with("submitJob (Some(\"k-1\"), JobRequest { name: None"));
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let server = Server::start(Server::unlimited());
    for (target, status, code, says) in [
        ("/v1/job", 404, "no-such-path", "'/v1/job'"),
        ("/v1/jobs/", 404, "no-such-path", ""),
        ("/dashboard/../secret", 404, "no-such-path", ""),
        ("/dashboard/nothing.js", 404, "no-such-path", "nothing.js"),
        ("/v1/jobs/seventeen", 400, "bad-parameter", "id is 'seventeen'; expected a whole number from 1"),
        ("/v1/jobs/0", 400, "bad-parameter", ""),
        ("/v1/jobs/99999999999999999999999", 400, "bad-parameter", ""),
        ("/v1/jobs?limt=5", 400, "unknown-parameter", "did you mean limit?"),
        ("/v1/server?x", 400, "unknown-parameter", ""),
        ("/v1/jobs?limit=0", 400, "bad-parameter", "limit is '0'"),
        ("/v1/jobs?limit=", 400, "bad-parameter", ""),
        ("/v1/jobs?limit=1&limit=2", 400, "repeated-parameter", "twice"),
        ("/v1/jobs?state=running,dead", 400, "bad-parameter", "expected one or more of waiting, starting"),
        ("/v1/jobs?tenant=%ff", 400, "bad-encoding", "UTF-8"),
        ("/v1/jobs?tenant=%4", 400, "bad-encoding", ""),
        ("/v1/jobs/%zz", 400, "bad-encoding", ""),
        ("/v1/audit?from=nan", 400, "bad-parameter", ""),
        ("/v1/audit?from=inf", 400, "bad-parameter", ""),
        ("/v1/audit?from=-1", 400, "bad-parameter", ""),
    ] {
        let answer = server.get(target);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{target}");
        assert!(answer.message().contains(says), "{target}: {answer:?}");
    }
    let long = format!("{ADMIN}{JSON}Idempotency-Key: {}\r\n", "k".repeat(201));
    let answer = server.ask("POST", "/v1/jobs", &long, r#"{"workload": "resnet50"}"#);
    assert_eq!((answer.status, answer.code().as_str()), (400, "bad-parameter"));
}

#[test]
fn bodies_are_json_of_the_schema() {
    let server = Server::start(Server::unlimited());
    for (body, status, code, says) in [
        ("", 400, "bad-json", "line 1 column 0"),
        ("{", 400, "bad-json", "line 1 column 1"),
        ("{\"workload\":\n 5}", 400, "bad-json", "workload is 5; expected a string or null (line 2 column 2)"),
        (r#"{"program": {"script": {"text": "x"}}}"#, 400, "bad-json", "name"),
        (r#"{"program": {"environment": {"A": 1}}}"#, 400, "bad-json", "expected a string"),
        (r#"{"workload": "x", "colour": 1}"#, 400, "bad-json", "colour"),
        (r#"{"workload": "x", "workload": "y"}"#, 400, "bad-json", "duplicate"),
        (r#"{"workload": "x", "steps": NaN}"#, 400, "bad-json", ""),
        (r#"{"workload": "x", "steps": 1e999}"#, 400, "bad-json", "out of range"),
        (r#"{"workload": "x", "steps": -1}"#, 422, "out-of-range", "steps is -1; expected a number from 0.001"),
        (r#"{"workload": "x", "gang": 0}"#, 422, "out-of-range", "gang is 0"),
        (r#"{"workload": "x", "gang": -1}"#, 400, "bad-json", "-1"),
        (r#"{"workload": "x", "gang": 5000000000}"#, 400, "bad-json", ""),
        (r#"{"workload": "x", "weight": 0}"#, 422, "out-of-range", "weight is 0"),
        (r#"{"workload": ""}"#, 422, "out-of-range", "workload has 0 characters; expected 1 to 200"),
        (r#"{"workload": "x"} trailing"#, 400, "bad-json", "trailing"),
        ("[]", 422, "out-of-range", "expected an object"),
    ] {
        let answer = server.post("/v1/jobs", body);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}: {answer:?}");
        assert!(answer.message().contains(says), "{body}: {answer:?}");
    }
    let whole = server.post("/v1/jobs", r#"{"workload": "x", "gang": 4.0, "steps": 5e3}"#);
    assert!(whole.json()["asked"].as_str().unwrap().contains("gang: 4,"), "{whole:?}");
    assert_eq!(server.post("/v1/jobs", r#"{"workload": "x", "gang": 4.5}"#).code(), "bad-json");
    let bad = b"PUT /v1/policy HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer admin\r\n\
        Content-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"policy\":\"\xff\"}";
    assert_eq!(server.raw(bad).code(), "bad-json");
    for (headers, status) in
        [("", 415), ("Content-Type: text/plain\r\n", 415), ("Content-Type: application/json; charset=utf-8\r\n", 201)]
    {
        let answer = server.ask("POST", "/v1/jobs", &format!("{ADMIN}{headers}"), r#"{"workload": "x"}"#);
        assert_eq!(answer.status, status, "{headers}");
    }
}

#[test]
fn bodies_are_bounded_in_size() {
    let server = Server::start(Options { body_limit: 1000, ..Server::unlimited() });
    let large = format!(r#"{{"workload": "{}"}}"#, "x".repeat(2000));
    for size in [2000, 500_000] {
        let answer = server.post("/v1/jobs", &format!(r#"{{"workload": "{}"}}"#, "x".repeat(size)));
        assert_eq!((answer.status, answer.code().as_str()), (413, "too-large"));
    }
    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{ADMIN}{JSON}\r\n"
    );
    assert_eq!(server.raw(format!("{head}{chunk}").as_bytes()).code(), "too-large");
    // Whoever does not frame as HTTP says may be hung up on.
    let broken = server.raw(format!("{head}zz\r\n").as_bytes());
    assert!(broken.status == 0 || broken.code() == "broken-body", "{broken:?}");
    let small = r#"{"workload": "x"}"#;
    assert_eq!(server.raw(format!("{head}{:x}\r\n{small}\r\n0\r\n\r\n", small.len()).as_bytes()).status, 201);
}

#[test]
fn a_slow_body_is_not_waited_for() {
    let server = Server::start(Server::unlimited());
    let head =
        format!("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 20\r\n{ADMIN}{JSON}\r\n{{");
    let answer = server.raw(head.as_bytes());
    assert_eq!((answer.status, answer.code().as_str()), (408, "slow-body"));
}

#[test]
fn methods_are_those_of_the_table() {
    let server = Server::start(Server::unlimited());
    for (method, target, allow) in [
        ("PATCH", "/v1/jobs", "get, head, post"),
        ("OPTIONS", "/v1/jobs/1", "get, head, delete"),
        ("GET", "/v1/policy", "put"),
        ("TRACE", "/", "get, head"),
        ("BREW", "/healthz", "get, head"),
    ] {
        let answer = server.ask(method, target, "", "");
        assert_eq!((answer.status, answer.code().as_str()), (405, "wrong-method"));
        assert_eq!(answer.header("allow"), Some(allow));
    }
    let (get, head) = (server.get("/v1/jobs/17"), server.ask("HEAD", "/v1/jobs/17", ADMIN, ""));
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), get.header("content-length"));
}

#[test]
fn health_pages_and_metrics() {
    let server = Server::start(Server::unlimited());
    let plain = |target: &str| server.ask("GET", target, "", "");
    assert_eq!(plain("/healthz").status, 200);
    let ready = plain("/readyz");
    assert_eq!((ready.status, ready.json()["trouble"][0].as_str()), (503, Some("the disk is full")));
    let page = plain("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'self'"));
    assert!(page.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(plain("/dashboard/index.html").body, page.body);
    assert_eq!(plain("/openapi.json").json()["openapi"], "3.1.0");
    let metrics = server.get("/metrics");
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(metrics.body, "arles_jobs 1\n");
}

#[test]
fn a_panic_is_one_requests_trouble() {
    let server = Server::start(Server::unlimited());
    let answer = server.get("/v1/kinds");
    assert_eq!((answer.status, answer.code().as_str()), (500, "internal"));
    assert!(!answer.body.contains("on purpose"));
    // Also on the same connection.
    let twice = format!(
        "GET /v1/kinds HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\nGET /v1/jobs/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{ADMIN}\r\n"
    );
    assert!(server.raw(twice.as_bytes()).body.contains("getJob 1\""));
    let busy = server.get("/v1/tenants");
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("3")));
}

#[test]
fn whoever_asks_too_often_waits() {
    let server = Server::start(Options { requests_per_second: 0.5, burst: 3.0, ..Options::default() });
    let statuses: Vec<u16> = (0..5).map(|_| server.get("/v1/server").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    let slow = server.get("/v1/server");
    assert_eq!((slow.code().as_str(), slow.header("retry-after")), ("too-fast", Some("2")));
    assert_eq!(server.ask("GET", "/v1/server", "Authorization: Bearer read\r\n", "").status, 200, "others may");
    assert_eq!(server.ask("GET", "/healthz", "", "").status, 200, "so may those without a token");
}

#[test]
fn guesses_are_limited_harder_and_lock_nobody_out() {
    let server = Server::start(Options { failures_per_second: 10.0, ..Server::unlimited() });
    let statuses: Vec<u16> =
        (0..60).map(|_| server.ask("GET", "/v1/server", "Authorization: Bearer x\r\n", "").status).collect();
    assert!(statuses.contains(&401) && statuses.contains(&429), "{statuses:?}");
    assert_eq!(server.get("/v1/server").status, 200);
}

#[test]
fn an_open_door_on_this_machine_is_not_open_to_web_pages() {
    let server = Server::start(Options { open_loopback: true, ..Server::unlimited() });
    let asks = |method: &str, host: &str, origin: &str| {
        let body = if method == "PUT" { r#"{"policy": "fifo"}"# } else { "" };
        let target = if method == "PUT" { "/v1/policy" } else { "/v1/server" };
        let origin = if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
        let text = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{JSON}{origin}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        server.raw(text.as_bytes()).status
    };
    assert_eq!(asks("GET", "localhost:7117", ""), 200);
    assert_eq!(asks("PUT", "127.0.0.1:7117", ""), 200);
    assert_eq!(asks("PUT", "127.0.0.1:7117", "http://127.0.0.1:7117"), 200);
    assert_eq!(asks("GET", "evil.example", ""), 403);
    assert_eq!(asks("PUT", "evil.example", "http://evil.example"), 403);
    assert_eq!(asks("PUT", "127.0.0.1:7117", "http://evil.example"), 403);
    assert_eq!(asks("PUT", "127.0.0.1:7117", "http://127.0.0.1:9999"), 403);
    assert_eq!(asks("PUT", "127.0.0.1:7117", "null"), 403);
}

#[test]
fn options_that_cannot_be_are_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = |bind: &str, options: Options| {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind(bind).await.unwrap();
            let (_keep, stop) = tokio::sync::watch::channel(false);
            let served = tokio::time::timeout(Duration::from_secs(1), serve(Fake::default(), options, listener, stop));
            served.await.expect("it does not serve").unwrap_err().to_string()
        })
    };
    let base = Options::default;
    assert!(
        refused("0.0.0.0:0", Options { open_loopback: true, ..base() }).contains("listen on 127.0.0.1, or use tokens")
    );
    assert!(refused("127.0.0.1:0", Options { burst: f64::NAN, ..base() }).contains("burst is NaN"));
    assert!(
        refused("127.0.0.1:0", Options { requests_per_second: 0.0, ..base() }).contains("is 0; expected more than 0")
    );
    assert!(refused("127.0.0.1:0", Options { connections: 0, ..base() }).contains("connections is 0"));
}

#[test]
fn silent_connections_shut_nobody_out() {
    let server = Server::start(Options { connections: 8, connections_per_address: 8, ..Server::unlimited() });
    let mut held: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for _ in 0..5 {
        assert_eq!(server.ask("GET", "/healthz", "", "").status, 200);
        assert_eq!(server.get("/v1/server").status, 200);
        held.push(server.connect());
    }
    // Half a request is as silent as none.
    for mut stream in (0..20).map(|_| server.connect()) {
        stream.write_all(b"GET /v1/server HTTP/1.1\r\nHost: x\r\n").unwrap();
        held.push(stream);
    }
    assert_eq!(server.get("/v1/server").status, 200);
}

#[test]
fn whoever_waits_between_two_requests_gives_way_and_whoever_listens_does_not() {
    let server = Server::start(Options { connections: 2, connections_per_address: 2, ..Server::unlimited() });
    let mut listener = listen(&server, "", "read");
    let mut idle = server.connect();
    idle.write_all(format!("GET /v1/jobs/1 HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n").as_bytes()).unwrap();
    read_until(&mut idle, "getJob 1");
    assert_eq!(server.get("/v1/server").status, 200, "a connection between two requests may be closed");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
    server.fake.happen("still", None);
    read_until(&mut listener, "event: still");
}

#[test]
fn where_everybody_is_busy_newcomers_hear_so_and_health_is_answered() {
    let server = Server::start(Options { connections: 2, connections_per_address: 2, ..Server::unlimited() });
    let held = [listen(&server, "", "read"), listen(&server, "", "admin")];
    for _ in 0..3 {
        let answer = server.get("/v1/server");
        assert_eq!((answer.status, answer.code().as_str()), (503, "too-many-connections"));
        assert_eq!(server.ask("GET", "/healthz", "", "").status, 200);
        assert_eq!(server.ask("GET", "/readyz", "", "").status, 503);
    }
    drop(held);
    for _ in 0..200 {
        if server.get("/v1/server").status == 200 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("seats of those who left are free again");
}

#[test]
fn a_connection_has_little_time_for_its_first_request() {
    let server = Server::start(Options { first_request: Duration::from_millis(200), ..Server::unlimited() });
    let mut rest = Vec::new();
    server.connect().read_to_end(&mut rest).expect("it is closed");
    let mut half = server.connect();
    half.write_all(b"GET /v1/server HTTP/1.1\r\nHost:").unwrap();
    half.read_to_end(&mut rest).expect("it is closed");
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    // Whoever has asked once has the usual time for more.
    let mut stream = server.connect();
    for id in 1..3 {
        stream.write_all(format!("GET /v1/jobs/{id} HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n").as_bytes()).unwrap();
        read_until(&mut stream, &format!("getJob {id}\""));
        std::thread::sleep(Duration::from_millis(600));
    }
}

#[test]
fn health_is_outside_the_limit_of_requests() {
    let server = Server::start(Options { requests_per_second: 0.1, burst: 1.0, ..Options::default() });
    let plain = |target: &str| server.ask("GET", target, "", "").status;
    assert_eq!((plain("/"), plain("/")), (200, 429));
    for _ in 0..10 {
        assert_eq!((plain("/healthz"), plain("/readyz")), (200, 503));
    }
}

#[test]
fn a_token_that_has_expired_is_told_so() {
    let server = Server::start(Server::unlimited());
    let answer = server.ask("GET", "/v1/server", "Authorization: Bearer stale\r\n", "");
    assert_eq!((answer.status, answer.code().as_str()), (401, "token-expired"));
    assert_eq!(answer.message(), "token 'ci' expired 2 h ago");
    assert!(answer.header("x-request-id").is_some_and(|id| id.parse::<u64>().is_ok()), "{answer:?}");
}

#[test]
fn an_idle_connection_is_closed() {
    let server = Server::start(Options { idle: Duration::from_millis(200), ..Server::unlimited() });
    let mut stream = server.connect();
    stream.write_all(format!("GET /v1/jobs/1 HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n").as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(all.contains("getJob 1\""));
}

#[test]
fn stopping_lets_requests_finish_and_ends_streams() {
    let server = Server::start(Server::unlimited());
    let mut listener = listen(&server, "", "admin");
    let mut busy = server.connect();
    busy.write_all(format!("GET /v1/workloads HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n").as_bytes()).unwrap();
    let idle = server.connect();
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    server.begin_stop();
    let mut all = String::new();
    busy.read_to_string(&mut all).unwrap();
    assert!(all.starts_with("HTTP/1.1 200 OK") && all.contains("Workloads"), "{all}");
    let mut rest = Vec::new();
    listener.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "the stream ends as HTTP says");
    drop(idle);
    server.wait();
    assert!(began.elapsed() < Duration::from_secs(5));
}

fn listen(server: &Server, query: &str, scope: &str) -> std::net::TcpStream {
    let mut stream = server.connect();
    let head = format!("GET /v1/events{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {scope}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    read_until(&mut stream, "retry: 2000\n\n");
    stream
}

fn read_until(stream: &mut std::net::TcpStream, mark: &str) -> String {
    let mut all = Vec::new();
    let mut buffer = [0_u8; 4096];
    while !String::from_utf8_lossy(&all).contains(mark) {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "the stream ended before '{mark}': {}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8(all).unwrap()
}

#[test]
fn events_come_as_they_happen_to_whoever_may_see_them() {
    let server = Server::start(Server::unlimited());
    server.fake.happen("before", None);
    let mut admin = listen(&server, "", "admin");
    let mut tenant = listen(&server, "?after=0", "tenant");
    server.fake.happen("submitted", Some("language"));
    server.fake.happen("started", Some("vision"));
    let told = read_until(&mut admin, "id: 3\nevent: started\n");
    assert!(told.contains("id: 2\nevent: submitted\ndata: {\"id\":2,") && !told.contains("before"), "{told}");
    let told = read_until(&mut tenant, "id: 3\nevent: started\n");
    assert!(told.contains("it happened\\nindeed") && !told.contains("submitted"), "{told}");
}

#[test]
fn a_listener_goes_on_where_it_was_or_hears_that_it_cannot() {
    let server = Server::start(Server::unlimited());
    (0..600).for_each(|_| server.fake.happen("round", None));
    let mut stream = server.connect();
    let head = format!("GET /v1/events?after=1 HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 20\r\n{ADMIN}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let told = read_until(&mut stream, "id: 600\n");
    assert!(told.contains("id: 21\n") && !told.contains("id: 20\n") && !told.contains("reset"));
    for after in [3, 9000] {
        let mut stream = server.connect();
        stream
            .write_all(format!("GET /v1/events?after={after} HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n").as_bytes())
            .unwrap();
        read_until(&mut stream, "id: 600\nevent: reset\ndata: {}\n\n");
        server.fake.happen("later", None);
        read_until(&mut stream, "event: later");
        server.fake.events.lock().unwrap().pop();
    }
}

#[test]
fn listeners_are_bounded_and_leave() {
    let server = Server::start(Options { listeners: 1, ..Server::unlimited() });
    let first = listen(&server, "", "read");
    let second = server.get("/v1/events");
    assert_eq!((second.status, second.code().as_str()), (503, "too-many-listeners"));
    drop(first);
    std::thread::sleep(Duration::from_millis(200));
    drop(listen(&server, "", "read"));
}

#[test]
fn the_table_has_no_get_that_changes_anything() {
    for route in ROUTES.iter().filter(|route| route.verb == Verb::Get) {
        // The log of changes is for those who make them; what jobs print may hold secrets, and is for those who submit them.
        let of_changes = matches!(route.path, "/v1/log" | "/v1/jobs/{id}/logs") && route.need == Need::Submit;
        let reads = matches!(route.need, Need::Nobody | Need::Anybody | Need::Read | Need::Administer);
        assert!(reads || of_changes, "{}", route.path);
        assert!(route.body.is_none());
    }
}
