//! What the nodes' GPUs draw, by metrics that are collected already: dcgm-exporter's or `arles agent`'s, from a Prometheus or from each node.
//!
//! A thread asks every few seconds, so that no decision waits for it. A GPU is found by its node's name and its number there. Where a card
//! counts energy, its power is the difference of two counts over the time between them, so that sums are the counter's; else it is the power that the card
//! shows. A GPU of which nothing was heard for a minute is counted with the published power of its kind, and [`GpuMeter::measures`] says so.
//!
//! On Kubernetes, dcgm-exporter says of each card which pod has it, by the labels `namespace` and `pod`. A Prometheus that scrapes it keeps these names for the exporter's own pod and
//! calls them `exported_namespace` and `exported_pod`, unless it is told to honor labels. Both are read ([`GpuMeter::device_users`]).

use crate::local::{DeviceUser, GpuMeter, GpuReading, GpuTrouble, Nominal};
use arles_core::Kind;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Between two questions. Exporters look at their cards about as often.
const EVERY: Duration = Duration::from_secs(10);
/// A reading that is older says nothing about now.
const STALE: Duration = Duration::from_secs(60);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer that is read.
const MOST_BYTES: u64 = 64 << 20;

/// Metrics that are understood: name, whether it counts energy, and what one of its units is in watts or joules.
const METRICS: [(&str, bool, f64); 4] = [
    ("DCGM_FI_DEV_POWER_USAGE", false, 1.0),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", true, 1e-3),
    ("arles_gpu_power_watts", false, 1.0),
    ("arles_gpu_energy_joules_total", true, 1.0),
];

/// Where the figures come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnergySource {
    /// A Prometheus, by host and port.
    Prometheus(String),
    /// An exporter on each node: host and port, with `{node}` for the node's name, and a path.
    Exporter(String, String),
}

impl EnergySource {
    /// Reads `prometheus:http://HOST:PORT` or `exporter:http://{node}:9400/metrics`.
    ///
    /// # Errors
    /// A sentence about what it is not.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected prometheus:http://HOST:PORT or exporter:http://{node}:9400/metrics";
        let wrong = |why: &str| format!("'{}' is no source of energy figures: {why}; {expected}", text.escape_debug());
        let (sort, url) = text.split_once(':').ok_or_else(|| wrong("it has no colon"))?;
        let rest = url.strip_prefix("http://").ok_or_else(|| wrong("only http:// is spoken"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok()) {
            return Err(wrong("it names no host and port"));
        }
        match sort {
            "prometheus" => Ok(Self::Prometheus(host.to_owned())),
            "exporter" if host.contains("{node}") => Ok(Self::Exporter(host.to_owned(), format!("/{path}"))),
            "exporter" => Err(wrong("{node} is not in it")),
            _ => Err(wrong("it begins with neither")),
        }
    }
}

impl fmt::Display for EnergySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prometheus(host) => {
                write!(f, "metrics of the GPUs (DCGM or arles agent) in the Prometheus at {host}")
            }
            Self::Exporter(host, path) => write!(f, "metrics of the GPUs (DCGM or arles agent) at http://{host}{path}"),
        }
    }
}

/// A GPU's node and its number there.
type Device = (String, u32);

/// The last that was heard of a GPU.
#[derive(Clone, Copy)]
struct Heard {
    watts: f64,
    counted: Option<(f64, Instant)>,
    at: Instant,
}

#[derive(Default)]
struct Board {
    heard: BTreeMap<Device, Heard>,
    /// Pods that have a device, and when that was last heard.
    users: BTreeMap<Device, (String, Instant)>,
    nodes: BTreeSet<String>,
    trouble: Option<String>,
}

/// Readings from collected metrics, as a meter of the nodes' GPUs.
pub struct MetricsMeter {
    board: Arc<Mutex<Board>>,
    /// GPUs that were last counted without a reading.
    silent: BTreeSet<String>,
    asked: bool,
}

impl MetricsMeter {
    /// Begins to ask.
    #[must_use]
    pub fn start(source: EnergySource) -> Self {
        let board = Arc::new(Mutex::new(Board::default()));
        let shared = Arc::downgrade(&board);
        std::thread::spawn(move || while listen(&source, &shared) {});
        Self { board, silent: BTreeSet::new(), asked: false }
    }
}

impl GpuMeter for MetricsMeter {
    fn read(&mut self, device: &str, kind: &Kind, busy: bool) -> Result<GpuReading, GpuTrouble> {
        self.asked = true;
        let (node, number) = device.rsplit_once(':').unwrap_or((device, "0"));
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        if !board.nodes.contains(node) {
            board.nodes.insert(node.to_owned());
        }
        let heard = number.parse().ok().and_then(|number| board.heard.get(&(short(node), number)).copied());
        match heard.filter(|heard| heard.at.elapsed() < STALE) {
            Some(heard) => {
                self.silent.remove(device);
                Ok(GpuReading { watts: heard.watts, ..GpuReading::default() })
            }
            None => {
                self.silent.insert(device.to_owned());
                Nominal.read(device, kind, busy)
            }
        }
    }

    fn measures(&self) -> bool {
        self.asked && self.silent.is_empty()
    }

    fn device_users(&self) -> Vec<DeviceUser> {
        let board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = board.users.iter().filter(|(_, (_, at))| at.elapsed() < STALE);
        let user = |((node, device), (pod, _)): (&Device, &(String, Instant))| DeviceUser {
            node: node.clone(),
            device: *device,
            pod: pod.clone(),
        };
        fresh.map(user).collect()
    }
}

/// Asks once and waits for the next time; whether anybody still wants to know.
fn listen(source: &EnergySource, board: &Weak<Mutex<Board>>) -> bool {
    let Some(shared) = board.upgrade() else { return false };
    let lock = |shared: &Arc<Mutex<Board>>| shared.lock().unwrap_or_else(PoisonError::into_inner).nodes.clone();
    let nodes = lock(&shared);
    drop(shared);
    let answer = match source {
        EnergySource::Prometheus(host) => prometheus(host),
        EnergySource::Exporter(host, path) => exporters(host, path, &nodes),
    };
    let Some(shared) = board.upgrade() else { return false };
    let mut board = shared.lock().unwrap_or_else(PoisonError::into_inner);
    match answer {
        Ok(samples) => board.take(&samples, Instant::now()),
        Err(why) if board.trouble.as_ref() != Some(&why) => {
            tracing::warn!("the GPUs' power cannot be read: {why}; it is estimated meanwhile");
            board.trouble = Some(why);
        }
        Err(_) => {}
    }
    // The first question comes before anybody has said which nodes there are.
    let pause = if nodes.is_empty() { Duration::from_secs(1) } else { EVERY };
    drop(board);
    drop(shared);
    std::thread::sleep(pause);
    true
}

/// A value of a metric of a GPU.
#[derive(Clone, PartialEq, Debug)]
struct Sample {
    device: Device,
    counts: bool,
    value: f64,
    /// The pod that has the device, where the metric says so.
    pod: Option<String>,
}

impl Board {
    fn take(&mut self, samples: &[Sample], now: Instant) {
        self.trouble = None;
        for sample in samples {
            match &sample.pod {
                Some(pod) => drop(self.users.insert(sample.device.clone(), (pod.clone(), now))),
                None => drop(self.users.remove(&sample.device)),
            }
        }
        for sample in samples.iter().filter(|sample| !sample.counts) {
            let counted = self.heard.get(&sample.device).and_then(|heard| heard.counted);
            self.heard.insert(sample.device.clone(), Heard { watts: sample.value, counted, at: now });
        }
        for Sample { device, value: joules, .. } in samples.iter().filter(|sample| sample.counts) {
            let before = self.heard.get(device).copied();
            let since = before.and_then(|heard| heard.counted).filter(|(earlier, _)| earlier <= joules);
            let shown = before.map(|heard| heard.watts);
            let watts = match since {
                // A count that has not moved yet says nothing: exporters look less often than they are asked.
                Some((earlier, _)) if earlier == *joules => shown,
                Some((earlier, at)) => Some((joules - earlier) / now.duration_since(at).as_secs_f64().max(0.1)),
                None => shown,
            };
            let counted = match since {
                Some((earlier, at)) if earlier == *joules => Some((earlier, at)),
                _ => Some((*joules, now)),
            };
            let heard = Heard { watts: watts.unwrap_or(0.0), counted, at: now };
            match watts {
                Some(_) => drop(self.heard.insert(device.clone(), heard)),
                // The first count of a card that does not show its power: there is nothing to say until the second.
                None => drop(
                    self.heard.insert(device.clone(), Heard { at: now.checked_sub(STALE).unwrap_or(now), ..heard }),
                ),
            }
        }
    }
}

#[derive(Deserialize)]
struct PrometheusAnswer {
    data: PrometheusVector,
}

#[derive(Deserialize)]
struct PrometheusVector {
    result: Vec<PrometheusSeries>,
}

#[derive(Deserialize)]
struct PrometheusSeries {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

fn prometheus(host: &str) -> Result<Vec<Sample>, String> {
    let names: Vec<&str> = METRICS.iter().map(|(name, ..)| *name).collect();
    // {__name__=~"A|B"}, as a query must be written.
    let query = format!("%7B__name__%3D~%22{}%22%7D", names.join("%7C"));
    let text = get(host, &format!("/api/v1/query?query={query}"))?;
    let answer: PrometheusAnswer =
        serde_json::from_str(&text).map_err(|error| format!("{host} does not answer as a Prometheus does: {error}"))?;
    let sample = |series: &PrometheusSeries| {
        sample(series.metric.get("__name__")?, &series.metric, None, series.value.1.parse().ok()?)
    };
    Ok(answer.data.result.iter().filter_map(sample).collect())
}

fn exporters(host: &str, path: &str, nodes: &BTreeSet<String>) -> Result<Vec<Sample>, String> {
    let (mut found, mut trouble) = (Vec::new(), None);
    for node in nodes {
        match get(&host.replace("{node}", node), path) {
            Ok(text) => found.extend(text.lines().filter_map(|line| exposed(line, node))),
            Err(why) => trouble = Some(why),
        }
    }
    match trouble {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    }
}

/// A line such as `NAME{label="value"} 12.5` of a node's exporter.
fn exposed(line: &str, node: &str) -> Option<Sample> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = head.split_once('{')?;
    let mut found = BTreeMap::new();
    for part in labels.trim_end_matches('}').split("\",") {
        if let Some((key, value)) = part.split_once("=\"") {
            found.insert(key.trim().to_owned(), value.trim_end_matches('"').to_owned());
        }
    }
    sample(name.trim(), &found, Some(node), value.trim().parse().ok()?)
}

/// A metric that is understood, of a GPU that can be told.
fn sample(name: &str, labels: &BTreeMap<String, String>, node: Option<&str>, value: f64) -> Option<Sample> {
    let (_, counts, unit) = METRICS.into_iter().find(|(known, ..)| *known == name)?;
    let label = |key: &str| labels.get(key).map(String::as_str);
    let host = || {
        let instance = label("instance")?;
        Some(instance.rsplit_once(':').map_or(instance, |(host, _)| host))
    };
    let node = node.or_else(|| label("node")).or_else(|| label("Hostname")).or_else(host)?;
    let number = label("gpu").or_else(|| label("index"))?.parse().ok()?;
    // A slice has no meter of its own: what is shown for it is the whole card's.
    if label("GPU_I_ID").is_some_and(|slice| !slice.is_empty()) {
        return None;
    }
    let own = || label("exported_namespace").zip(label("exported_pod"));
    let pod = own().or_else(|| label("namespace").zip(label("pod"))).filter(|(_, pod)| !pod.is_empty());
    let pod = pod.map(|(namespace, pod)| format!("{namespace}/{pod}"));
    // DCGM writes 9223372036854775794 for what a card does not have.
    (0.0..1e15).contains(&value).then(|| Sample { device: (short(node), number), counts, value: value * unit, pod })
}

/// A host's name without its domain: Slurm's nodes have none, and exporters leave it out or not.
pub(crate) fn short(name: &str) -> String {
    let is_address = name.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_address { name.to_owned() } else { name.split('.').next().unwrap_or(name).to_owned() }
}

/// The body of an answer. HTTP/1.0, so that it ends with the connection.
fn get(host: &str, path: &str) -> Result<String, String> {
    let lost = |error: std::io::Error| format!("{host} does not answer: {error}");
    let mut stream = TcpStream::connect(host).map_err(lost)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(lost)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: */*\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(lost)?;
    let mut bytes = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut bytes).map_err(lost)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("{host} does not speak HTTP"))?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_owned()),
        status => Err(format!("{host} answers {path} with HTTP status {}", status.unwrap_or("none"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Library;
    use std::net::TcpListener;

    #[test]
    fn sources_are_read_and_wrong_ones_are_told_so() {
        let prometheus = EnergySource::parse("prometheus:http://metrics:9090").unwrap();
        assert_eq!(prometheus, EnergySource::Prometheus("metrics:9090".into()));
        let exporter = EnergySource::parse("exporter:http://{node}:9400/metrics").unwrap();
        assert_eq!(exporter, EnergySource::Exporter("{node}:9400".into(), "/metrics".into()));
        for (text, why) in [
            ("metrics", "no colon"),
            ("prometheus:https://metrics:9090", "only http"),
            ("prometheus:http://metrics", "host and port"),
            ("exporter:http://metrics:9400/metrics", "{node} is not in it"),
            ("graphite:http://metrics:9400", "neither"),
        ] {
            let sentence = EnergySource::parse(text).unwrap_err();
            assert!(sentence.contains(why) && sentence.contains("expected prometheus:"), "{sentence}");
        }
    }

    #[test]
    fn lines_of_exporters_are_read() {
        let dcgm = r#"DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-5",device="nvidia1",modelName="V100",Hostname="n0.example.org"} 212.5"#;
        let read = exposed(dcgm, "n0").expect("a sample");
        assert_eq!(read, Sample { device: ("n0".into(), 1), counts: false, value: 212.5, pod: None });
        let counter = r#"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",Hostname="n0"} 5000"#;
        assert_eq!(exposed(counter, "n0").expect("a sample").value, 5.0);
        let own = r#"arles_gpu_energy_joules_total{gpu="2",uuid="GPU-1",kind="h200"} 12"#;
        assert_eq!(exposed(own, "n3").expect("a sample").device, ("n3".into(), 2));
        for other in [
            "# HELP x",
            "up 1",
            r#"DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40"#,
            r#"DCGM_FI_DEV_POWER_USAGE{gpu="0"} NaN"#,
            r#"DCGM_FI_DEV_POWER_USAGE{gpu="0"} 9223372036854775794"#,
        ] {
            assert_eq!(exposed(other, "n0"), None, "{other}");
        }
    }

    #[test]
    fn pods_are_read_where_the_exporter_maps_them() {
        let line = |labels: &str| exposed(&format!("DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\",{labels}}} 99"), "n0");
        let scraped = r#"exported_namespace="team",exported_pod="train-x",namespace="gpu-operator",pod="dcgm-7""#;
        for (labels, pod) in [
            (r#"namespace="team",pod="train-x""#, Some("team/train-x")),
            (scraped, Some("team/train-x")),
            (r#"namespace="",pod="",container="",device="nvidia0""#, None),
            (r#"Hostname="n0""#, None),
        ] {
            assert_eq!(line(labels).expect("a sample").pod.as_deref(), pod, "{labels}");
        }
        let slice = r#"GPU_I_ID="3",GPU_I_PROFILE="3g.71gb",namespace="team",pod="x""#;
        assert_eq!(line(slice), None, "a slice has no meter");
    }

    #[test]
    fn power_is_the_difference_of_counts_where_there_are_counts() {
        let (mut board, began, device) = (Board::default(), Instant::now(), ("n0".to_owned(), 0));
        let count = |value| Sample { device: ("n0".into(), 0), counts: true, value, pod: None };
        let shown = Sample { device: ("n0".into(), 0), counts: false, value: 300.0, pod: None };
        board.take(&[shown.clone(), count(1000.0)], began);
        assert_eq!(board.heard[&device].watts, 300.0);
        board.take(&[shown.clone(), count(1000.0)], began + Duration::from_secs(5));
        board.take(&[shown.clone(), count(3000.0)], began + Duration::from_secs(10));
        assert_eq!(board.heard[&device].watts, 200.0);
        // The driver was loaded again, and the count began anew.
        board.take(&[shown, count(10.0)], began + Duration::from_secs(20));
        assert_eq!(board.heard[&device].watts, 300.0);
    }

    /// Answers every connection with the same text.
    fn server(body: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let _ = stream.read(&mut [0; 2048]);
                let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\n{body}").as_bytes());
            }
        });
        address
    }

    #[test]
    fn a_prometheus_is_asked_and_what_it_does_not_know_is_estimated() {
        let body = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"DCGM_FI_DEV_POWER_USAGE","Hostname":"n0","gpu":"0","instance":"10.0.0.1:9400"},"value":[1,"150"]},
            {"metric":{"__name__":"arles_gpu_power_watts","gpu":"1","instance":"n1.cluster:9117"},"value":[1,"75"]}]}}"#;
        let mut meter = MetricsMeter::start(EnergySource::Prometheus(server(body.into())));
        let kind = Library::builtin().kind("v100").expect("in the library");
        let mut watts = |device: &str| meter.read(device, kind, true).expect("it always says something").watts;
        let began = Instant::now();
        while watts("n0:0") != 150.0 {
            assert!(began.elapsed() < Duration::from_secs(30), "it is never heard");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(watts("n1:1"), 75.0);
        assert!(meter.measures());
        assert_eq!(meter.read("n2:0", kind, true).expect("nominal").watts, kind.max_watts);
        assert!(!meter.measures(), "one of three is an estimate");
    }
}
