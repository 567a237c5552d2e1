//! What nobody should send: schemathesis on the served OpenAPI file, and broken requests by the thousand. Nothing makes the daemon
//! fail, and what it refuses changes nothing.

mod common;

use arles_daemon::http::{ROUTES, Route, Verb};
use common::live::Live;
use common::{cluster, header};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// So slow that nothing moves by itself.
const STILL: f64 = 1e-6;
const SEED: u64 = 20_240_607;

fn daemon(speed: f64) -> Live {
    let header = header(cluster(&[("v100", 4), ("k80", 4)]), &["vision", "speech"], "max-min-fairness");
    let live = Live::start(&header, speed);
    for i in 0..6 {
        let tenant = ["vision", "speech"][i % 2];
        live.submit(&json!({"name": "kept", "tenant": tenant, "workload": "resnet50-b64", "gang": 1, "steps": 1e9}));
    }
    live
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn schemathesis_finds_nothing() {
    let install =
        "make a virtual environment and 'pip install schemathesis', then set ARLES_SCHEMATHESIS to its program";
    let Some(program) = arles_testing::program("ARLES_SCHEMATHESIS", &["schemathesis"], install) else { return };
    let live = daemon(600.0);
    // A body may be of the schema and name a workload, a tenant or a window that there is none of: that is what 422 is for.
    let config = "[checks.positive_data_acceptance]\nexpected-statuses = ['2xx', '403', '404', '409', '422']\n";
    std::fs::write(live.path("schemathesis.toml"), config).expect("a config");
    let said = Command::new(program)
        .args(["--config-file", &live.path("schemathesis.toml").display().to_string()])
        .arg("run")
        .arg(format!("http://{}/openapi.json", live.at))
        .args(["--header", &format!("Authorization: Bearer {}", live.admin)])
        // The stream of events never ends; it has tests of its own.
        .args(["--exclude-path", "/v1/events"])
        // A job that is cancelled stays to be read: there is no use after free.
        // Failed attempts to come in are limited, so two checks would hear 429; tests/access.rs asks every route without a token.
        .args(["--exclude-checks", "ignored_auth,missing_required_header,use_after_free"])
        .args(["--max-examples", &number("ARLES_FUZZ_EXAMPLES", 25).to_string()])
        .args(["--seed", &SEED.to_string(), "--generation-database", "none"])
        .args(["--request-timeout", "20", "--warnings", "off", "--no-color"])
        .args(["--output-truncate", "true", "--continue-on-failure"])
        .current_dir(live.path("."))
        .output()
        .expect("schemathesis runs");
    let words = String::from_utf8_lossy(&said.stdout);
    println!("{words}");
    assert!(said.status.success(), "{words}\n{}", String::from_utf8_lossy(&said.stderr));
}

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.roll() >> 33) as usize % n.max(1)
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Values that have broken parsers before.
const ODD: &[&str] = &[
    "null",
    "true",
    "0",
    "-0",
    "-1",
    "1.5",
    "1e308",
    "1e309",
    "-1e309",
    "1e-400",
    "18446744073709551616",
    "NaN",
    "Infinity",
    "\"\"",
    "\"NaN\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\u{202e}\"",
    "[]",
    "{}",
    "[[[[[]]]]]",
    "{\"a\":{\"b\":{}}}",
    "\"../../etc/passwd\"",
    "\"' OR 1=1 --\"",
    "01",
    "0x10",
    "1_000",
    "\"x\" : 1",
    "",
    "\u{feff}1",
];

/// A body that was valid once.
fn body(dice: &mut Dice, route: &Route) -> Vec<u8> {
    let example = route.body.map_or("{}", |body| body.example);
    let valid: Value = serde_json::from_str(example).expect("an example");
    let fields = valid.as_object().expect("an object");
    let keys: Vec<&str> = fields.keys().map(String::as_str).collect();
    let written = |skip: &str, more: &str| {
        let kept = fields.iter().filter(|(key, _)| *key != skip).map(|(key, value)| format!("{key:?}:{value}"));
        let all: Vec<String> = kept.chain((!more.is_empty()).then(|| more.to_owned())).collect();
        format!("{{{}}}", all.join(","))
    };
    let key = if keys.is_empty() { "x" } else { dice.pick(&keys) };
    let text = match dice.below(10) {
        0 => written("", &format!("{key:?}:{}", dice.pick(ODD))), // the same key twice
        1 => written(key, ""),
        2 => written("", "\"surprise\":1"),
        3 => "[".repeat(1 + dice.below(20_000)),
        4 => format!("{{\"workload\":{}1{}}}", "{\"a\":".repeat(200), "}".repeat(200)),
        5 => example[..dice.below(example.len())].to_owned(), // examples are ASCII
        6 => written(key, &format!("{key:?}:\"{}\"", "x".repeat(201 + dice.below(2000)))),
        7 => {
            let mut bytes = example.as_bytes().to_vec();
            let at = dice.below(bytes.len());
            bytes[at] = dice.roll() as u8;
            return bytes;
        }
        8 => dice.pick(ODD).to_owned(),
        _ => written(key, &format!("{key:?}:{}", dice.pick(ODD))),
    };
    text.into_bytes()
}

/// Headers that a server must survive, or none.
fn extra_headers(dice: &mut Dice) -> String {
    match dice.below(20) {
        0 => format!("X-Long: {}\r\n", "x".repeat(40_000)),
        1 => "Transfer-Encoding: chunked\r\n".to_owned(),
        2 => format!("Idempotency-Key: {}\r\n", "k".repeat(300)),
        3 => "Idempotency-Key: \u{1}\r\n".to_owned(),
        4 => "Content-Length: 3\r\n".to_owned(),
        5 => "X: y\r\n".repeat(200),
        6 => "Last-Event-ID: -1\r\n".to_owned(),
        _ => String::new(),
    }
}

/// A whole request, wrong somewhere; where the luck of the dice makes it right, the one who reads the answer says so.
fn request(dice: &mut Dice, live: &Live) -> Vec<u8> {
    let changing: Vec<&Route> =
        ROUTES.iter().filter(|route| route.verb != Verb::Get || dice.0.is_multiple_of(3)).collect();
    let route = changing[dice.below(changing.len())];
    let id =
        dice.pick(&["1", "6", "0", "-1", "999999", "1e3", "%31", "18446744073709551616", "1%00", "..", "%2e%2e", "☃"]);
    let name = dice.pick(&["vision", "the-admin-not", "%00", "%ff", "a%2Fb", "%", "..", "%0d%0aX:%20y", "nobody"]);
    let mut target = route.path.replace("{id}", id).replace("{name}", name).replace("{file}", "app.js");
    if dice.below(4) == 0 {
        target += dice.pick(&[
            "?",
            "?limit=0",
            "?limit=1e9",
            "?cursor=%00",
            "?from=NaN",
            "?x=1",
            "?limit=1&limit=1",
            "/",
            "//",
            "?state=dead",
            "#x",
        ]);
    }
    let method = match dice.below(8) {
        0 => dice.pick(&["PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "POST", "PUT", "DELETE", "\u{0}", "BREW"]),
        _ => route.verb.name(),
    };
    let body = if route.body.is_some() || dice.below(10) == 0 { body(dice, route) } else { Vec::new() };
    let media = dice.pick(&[
        "application/json",
        "application/json",
        "application/json",
        "application/json",
        "text/plain",
        "multipart/form-data",
        "application/json; charset=utf-16",
        "",
    ]);
    let length = match dice.below(20) {
        0 => body.len() + 10,
        1 => body.len().saturating_sub(1),
        2 => 70_000,
        _ => body.len(),
    };
    let extra = extra_headers(dice);
    let token = match dice.below(12) {
        0 => "Bearer wrong".to_owned(),
        1 => live.admin.clone(),
        _ => format!("Bearer {}", live.admin),
    };
    let version =
        if dice.below(30) == 0 { dice.pick(&["HTTP/0.9", "HTTP/2.0", "HTTP/1.0", "HTTX"]) } else { "HTTP/1.1" };
    let head = format!(
        "{method} {target} {version}\r\nHost: {}\r\nConnection: close\r\nAuthorization: {token}\r\nContent-Type: {media}\r\n\
         Content-Length: {length}\r\n{extra}\r\n",
        live.at
    );
    let mut bytes = [head.as_bytes(), &body].concat();
    if dice.below(15) == 0 {
        bytes.truncate(dice.below(bytes.len()));
    }
    bytes
}

/// All that a request could have changed. At this speed nothing moves by itself.
fn fingerprint(live: &Live) -> Value {
    let without = |mut value: Value, keys: &[&str]| {
        for key in keys {
            value.as_object_mut().map(|fields| fields.remove(*key));
        }
        value
    };
    // That a token was used is not a change.
    let tokens = live.get("/v1/tokens")["tokens"].as_array().cloned().unwrap_or_default();
    let tokens: Vec<Value> = tokens.into_iter().map(|token| without(token, &["last_used_at"])).collect();
    json!({
        "jobs": live.get("/v1/jobs?limit=1000"),
        "tenants": live.get("/v1/tenants"),
        "tokens": tokens,
        "policies": live.get("/v1/policies"),
        "server": without(live.get("/v1/server"), &["now", "watts"]),
    })
}

/// Sends and does not wait for more than is there: whoever sends half a request gets no answer until it hangs up.
fn send(live: &Live, bytes: &[u8]) -> u16 {
    use std::io::{Read, Write};
    let mut stream = live.connect();
    let _ = stream.write_all(bytes);
    let (mut head, mut got) = ([0; 12], 0);
    // To hang up at once would be to leave before the answer, and what was asked for would be done unheard.
    for patience in [Duration::from_millis(60), Duration::from_secs(2)] {
        let _ = stream.set_read_timeout(Some(patience));
        while let Ok(n @ 1..) = stream.read(&mut head[got..]) {
            got += n;
        }
        if got == head.len() {
            break;
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    std::str::from_utf8(&head).ok().and_then(|text| text.get(9..12)?.parse().ok()).unwrap_or(0)
}

#[test]
fn what_is_refused_changes_nothing() {
    let live = daemon(STILL);
    let mut dice = Dice(SEED);
    let mut known = fingerprint(&live);
    let mut counts = std::collections::BTreeMap::<u16, u32>::new();
    for _ in 0..number("ARLES_FUZZ_REQUESTS", 2000) {
        let bytes = request(&mut dice, &live);
        let status = send(&live, &bytes);
        *counts.entry(status).or_default() += 1;
        let text = String::from_utf8_lossy(&bytes);
        assert!(status < 500, "{status} to {text}");
        let now = fingerprint(&live);
        // Whoever is not answered has left too early to know.
        if status >= 400 {
            assert!(now == known, "this was refused with {status} and changed something: {text}\n{known}\n{now}");
        }
        known = now;
    }
    println!("answers by status (0 is a closed connection): {counts:?}");
    let refused: u32 = counts.iter().filter(|(status, _)| **status >= 400).map(|(_, n)| n).sum();
    assert!(refused > 1000, "too few refusals to mean anything: {counts:?}");
}

#[test]
fn what_is_no_http_is_told_so() {
    let live = daemon(STILL);
    for (request, status) in [
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nX: \u{1}\r\nConnection: close\r\n\r\n".to_owned(), 400),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(), 400),
        ("\u{0} / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400),
        (format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(200)), 431),
        // What comes after the end of a request is nothing to it.
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nand more".to_owned(), 200),
    ] {
        let answer = live.raw(request.as_bytes());
        assert_eq!(answer.status, status, "{}", request.chars().take(80).collect::<String>());
    }
}
