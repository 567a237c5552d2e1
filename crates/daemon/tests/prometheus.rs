//! A real Prometheus reads a whole daemon: the scrape is clean, the numbers are plausible, and every expression of the Grafana
//! dashboard finds data.

mod common;

use arles_daemon::access::Scope;
use common::live::Live;
use common::{cluster, header, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const BLESS: &str = "write it anew with: ARLES_BLESS=1 cargo test --release -p arles-daemon --test prometheus";
const BEGIN: &str = "<!-- metrics: begin -->\n";
const END: &str = "<!-- metrics: end -->";

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// A busy cluster of two tenants.
fn busy() -> Live {
    let header = header(cluster(&[("v100", 4), ("k80", 4)]), &["vision", "speech"], "max-min-fairness");
    let live = Live::start(&header, 1200.0);
    for i in 0..20 {
        let tenant = ["vision", "speech"][i % 2];
        let steps = if i < 4 { 1000.0 } else { 1e9 };
        live.submit(&json!({"tenant": tenant, "workload": "resnet50-b64", "gang": 1 + i / 2 % 2, "steps": steps}));
    }
    wait_until("some completed, some measured", || {
        let text = metrics(&live);
        value(&text, "arles_jobs_ended_total{tenant=\"vision\",state=\"completed\"}") > 0.0
            && value(&text, "arles_measurements_total") > 0.0
            && value(&text, "arles_queue_jobs") > 0.0
    });
    live
}

fn metrics(live: &Live) -> String {
    live.ask("GET", "/metrics", &live.admin, "").body
}

/// The value of the first line that begins so; 0 if there is none.
fn value(text: &str, start: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(start));
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or(0.0)
}

/// Ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Prometheus {
    at: SocketAddr,
    _child: Running,
}

impl Prometheus {
    fn start(program: &Path, live: &Live) -> Self {
        let secret = live.token("prometheus", Scope::Read, None);
        let config = format!(
            "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n- job_name: arles\n  authorization:\n    \
             credentials: {secret}\n  static_configs:\n  - targets: ['{}']\n",
            live.at
        );
        std::fs::write(live.path("prometheus.yml"), config).expect("a config");
        // Free now, and hardly taken by another in the next moment.
        let at = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let child = Command::new(program)
            .arg(format!("--config.file={}", live.path("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", live.path("tsdb").display()))
            .arg(format!("--web.listen-address={at}"))
            .arg("--log.level=error")
            .stdout(Stdio::null())
            .spawn()
            .expect("prometheus starts");
        let prometheus = Self { at, _child: Running(child) };
        wait_until("prometheus answers", || prometheus.ask("/api/v1/status/buildinfo").is_some());
        prometheus
    }

    /// Asks the API. HTTP/1.0, so that the answer comes in one piece.
    fn ask(&self, target: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.at).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        write!(stream, "GET {target} HTTP/1.0\r\nHost: prometheus\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }

    /// The series that an expression gives.
    fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.ask(&format!("/api/v1/query?query={encoded}")).ok_or("no answer")?;
        let series = answer["data"]["result"].as_array().cloned();
        series.ok_or_else(|| format!("{expression}: {}", answer["error"]))
    }

    /// The one number that an expression gives.
    fn number(&self, expression: &str) -> f64 {
        let series = self.query(expression).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(series.len(), 1, "{expression}: {series:?}");
        series[0]["value"][1].as_str().and_then(|text| text.parse().ok()).expect("a number")
    }
}

/// Every expression of the dashboard, with what Grafana puts in for variables.
fn expressions() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(docs("grafana.json")).expect("docs/grafana.json is there");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    assert!(variables.iter().any(|variable| variable["type"] == "datasource"), "no variable for the data source");
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        for target in panel["targets"].as_array().expect("targets") {
            let mut expression = target["expr"].as_str().expect("an expression").to_owned();
            for (name, value) in
                [("$__rate_interval", "10s"), ("$__range", "60s"), ("$instance", ".*"), ("$tenant", ".*")]
            {
                expression = expression.replace(name, value);
            }
            assert!(!expression.contains('$'), "a variable that nobody sets: {expression}");
            all.push((panel["title"].as_str().unwrap_or_default().to_owned(), expression));
        }
    }
    assert!(all.len() > 20, "a dashboard of {} expressions", all.len());
    all
}

#[test]
fn prometheus_reads_it_and_the_dashboard_finds_data() {
    let install = "install it, e.g. 'apt-get install prometheus'";
    let Some(program) = arles_testing::program("ARLES_PROMETHEUS", &["prometheus"], install) else { return };
    let live = busy();
    let prometheus = Prometheus::start(&program, &live);
    wait_until("five scrapes", || prometheus.query("count_over_time(up[1m]) >= 5").is_ok_and(|all| !all.is_empty()));
    let targets = prometheus.ask("/api/v1/targets").expect("targets");
    let target = &targets["data"]["activeTargets"][0];
    assert_eq!((target["health"].as_str(), target["lastError"].as_str()), (Some("up"), Some("")), "{target}");
    assert_eq!(prometheus.number("min_over_time(up[1m])"), 1.0, "a scrape failed");
    assert_eq!(prometheus.number("sum(arles_gpus)"), 8.0);
    assert!((prometheus.number("sum(arles_tenant_entitlement_ratio)") - 1.0).abs() < 1e-9);
    let drawn = prometheus.number("sum(arles_power_watts)");
    assert!((8.0 * 10.0..8.0 * 400.0).contains(&drawn), "8 GPUs draw {drawn} W");
    assert_eq!(prometheus.number("arles_ready * arles_engine_up"), 1.0);
    assert_eq!(prometheus.number("arles_jobs_submitted_total"), 20.0);
    let (live_jobs, ended) = (prometheus.number("sum(arles_jobs)"), prometheus.number("sum(arles_jobs_ended_total)"));
    assert_eq!(live_jobs + ended, 20.0, "{live_jobs} live and {ended} ended of 20");
    assert!(prometheus.number("sum(arles_http_responses_total{code=\"2xx\"})") > 20.0);
    assert_eq!(prometheus.number("sum(arles_http_responses_total{code=\"5xx\"})"), 0.0);
    // The meters' total agrees with the API's, as far as two moments can.
    let joules = prometheus.number("sum(arles_energy_joules_total)");
    let now = live.get("/v1/energy?by=kind")["total_joules"].as_f64().expect("joules");
    // Prometheus adds the kinds up in another order, which the last digit may show.
    assert!(joules > 0.0 && joules <= now * (1.0 + 1e-12), "{joules} J to Prometheus, {now} J to the API");
    let mut empty = Vec::new();
    for (panel, expression) in expressions() {
        match prometheus.query(&expression) {
            Ok(series) if series.is_empty() => empty.push(format!("{panel}: {expression}: no data")),
            Ok(_) => {}
            Err(error) => empty.push(format!("{panel}: {error}")),
        }
    }
    assert!(empty.is_empty(), "{}", empty.join("\n"));
}

#[test]
fn promtool_has_no_complaints() {
    let install = "install it, e.g. 'apt-get install prometheus'";
    let Some(program) = arles_testing::program("ARLES_PROMTOOL", &["promtool"], install) else { return };
    let live = busy();
    let mut child = Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let text = metrics(&live);
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
    let said = child.wait_with_output().expect("it ends");
    let words = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && words.trim().is_empty(), "{words}");
}

/// Names of metrics in the expressions of the alerts.
fn alarmed() -> Vec<String> {
    let text = std::fs::read_to_string(docs("alerts.yml")).expect("docs/alerts.yml is there");
    let expressions = text.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let words = expressions.flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    let mut names: Vec<String> = words.filter(|word| word.starts_with("arles_")).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn alerts_fire_when_they_should_and_know_what_there_is() {
    let install = "install it, e.g. 'apt-get install prometheus'";
    let Some(program) = arles_testing::program("ARLES_PROMTOOL", &["promtool"], install) else { return };
    for (verb, file) in [("check", "alerts.yml"), ("test", "alerts-test.yml")] {
        let said = Command::new(&program).args([verb, "rules"]).arg(docs(file)).output().expect("promtool starts");
        let words = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.status.success(), "{words}");
    }
    let there = metrics(&busy());
    for name in alarmed() {
        let bare = name.strip_suffix("_bucket").unwrap_or(&name);
        assert!(there.contains(&format!("# TYPE {bare} ")), "docs/alerts.yml watches {name}, which no daemon says");
    }
}

#[test]
fn the_machine_below_is_measured() {
    let live = busy();
    let text = metrics(&live);
    let (free, all) = (value(&text, "arles_state_free_bytes"), value(&text, "arles_state_disk_bytes"));
    assert!(0.0 < free && free <= all, "{free} of {all} bytes are free");
    assert!(value(&text, "arles_queue_oldest_seconds") > 0.0, "jobs wait");
    assert_eq!(value(&text, "arles_clock_ahead_seconds "), 0.0, "a clock at another speed is not ahead");
    assert!(value(&text, "arles_event_loop_age_seconds") < 60.0, "the loop moves");
    assert_eq!(value(&text, "arles_last_backup_timestamp_seconds"), 0.0);
    arles_daemon::store::note_backup(&live.path("."), Path::new("copy.db"));
    assert!(value(&metrics(&live), "arles_last_backup_timestamp_seconds") > 1.7e9);
}

/// Unit of a metric, by the last words of its name.
fn unit(name: &str) -> &'static str {
    let bare = name.strip_suffix("_total").unwrap_or(name);
    let units = [("_seconds", "s"), ("_joules", "J"), ("_watts", "W"), ("_bytes", "B"), ("_ratio", "ratio")];
    units.iter().find(|(end, _)| bare.ends_with(end)).map_or("count", |(_, unit)| unit)
}

/// The table of `docs/metrics.md` as the text of a daemon says it.
fn table(text: &str) -> String {
    let mut labels: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let inner = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(inner, _)| inner);
        let keys = inner.split(',').filter_map(|pair| pair.split_once('=')).map(|(key, _)| key);
        let known = labels.entry(name).or_default();
        for key in keys.filter(|key| *key != "le") {
            if !known.contains(&key) {
                known.push(key);
            }
        }
    }
    let mut out = String::from("| name | type | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n");
    let kinds: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut seen = Vec::new();
    for line in text.lines() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else { continue };
        assert!(!seen.contains(&name), "{name} has two heads");
        seen.push(name);
        let labels: Vec<String> = labels.get(name).into_iter().flatten().map(|label| format!("`{label}`")).collect();
        let help = help.replace('|', "\\|");
        out += &format!("| `{name}` | {} | {} | {} | {help} |\n", kinds[name], unit(name), labels.join(", "));
    }
    out
}

#[test]
fn the_guide_lists_what_there_is() {
    let there = std::fs::read_to_string(docs("metrics.md")).expect("docs/metrics.md is there");
    let (before, rest) = there.split_once(BEGIN).expect("docs/metrics.md has the line that begins the table");
    let (_, after) = rest.split_once(END).expect("docs/metrics.md has the line that ends the table");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", table(&metrics(&busy())));
    if there != wanted && std::env::var_os("ARLES_BLESS").is_some() {
        std::fs::write(docs("metrics.md"), &wanted).expect("the file can be written");
    } else {
        let line = there.lines().zip(wanted.lines()).position(|(there, wanted)| there != wanted);
        assert!(there == wanted, "docs/metrics.md differs from /metrics from line {line:?} on; {BLESS}");
    }
}
