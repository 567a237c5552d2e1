//! Measured energy of pods: the API server is real, and what answers in the place of a Prometheus that scrapes dcgm-exporter is a server of this test, in its format.

use super::support::{RealKubernetes, kubernetes_or_skip};
use super::{arrivals, cluster, job, nodes, now, pod_spec, taken, told, until};
use arles_core::engine::{Engine, Mandate};
use arles_core::scheduler::GangEvent;
use arles_core::{JobId, Time};
use arles_engine::contract::start;
use arles_engine::{EnergySource, Kubernetes, MetricsMeter};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Answers every connection with what is on the board.
fn prometheus(board: &Arc<Mutex<Vec<Value>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let board = Arc::clone(board);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let series = board.lock().expect("nobody panicked").clone();
            let body = json!({"status": "success", "data": {"resultType": "vector", "result": series}});
            let _ =
                stream.write_all(format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}").as_bytes());
        }
    });
    address
}

/// What dcgm-exporter says of a card, after a Prometheus has scraped it.
fn card(node: &str, gpu: u32, watts: f64, pod: Option<&str>) -> Value {
    let own = json!({"__name__": "DCGM_FI_DEV_POWER_USAGE", "Hostname": node, "gpu": gpu.to_string(), "instance": "10.0.0.7:9400",
        "namespace": "gpu-operator", "pod": "dcgm-exporter-x", "exported_namespace": pod.map_or("", |_| "team"), "exported_pod": pod.unwrap_or("")});
    json!({"metric": own, "value": [1, watts.to_string()]})
}

#[test]
fn a_job_is_charged_with_what_its_own_cards_drew() {
    if !kubernetes_or_skip("measured energy of pods") {
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes(""));
    kubernetes.namespace("team");
    for name in ["hot", "cool"] {
        kubernetes.create(&job(name, 1, &pod_spec(1, "sleep 300", "arles"), &json!({})));
    }
    let board = Arc::new(Mutex::new(Vec::new()));
    let meter = MetricsMeter::start(EnergySource::Prometheus(prometheus(&board)));
    let mut engine = Kubernetes::new(cluster(""), kubernetes.options("programs"), Box::new(meter)).expect("it answers");
    engine.lead(&Mandate { journal: "energy".into(), ..Mandate::default() }).expect("it obeys");
    engine.sync_jobs(now(), &[]).expect("it answers");
    let found = arrivals(&mut engine, 2);
    for (id, name, gpu) in [(1, "hot", 0), (2, "cool", 1)] {
        let arrival = found.iter().find(|arrival| arrival.name == name).expect("it arrived");
        engine.add_job(now(), &taken(arrival, id)).expect("it answers");
        engine.apply(now(), &start(id, id, &[gpu], 60.0)).expect("it answers");
        assert_eq!(told(&mut engine, id), GangEvent::Started);
    }
    // The device plugin gave them the cards 3 and 2 of n0, whatever their numbers are in arles.
    let pod = |name: &str| {
        let label = format!("job-name={name}");
        let words = ["-n", "team", "get", "pods", "-l", &label, "-o", "jsonpath={.items[0].metadata.name}"];
        kubernetes.kubectl(&words, "").expect("it answers")
    };
    let nominal = engine.survey(now(), now()).expect("it answers").meters.gpu_watts;
    assert_eq!(nominal[0], nominal[1], "the published power, until metrics are there");
    let (hot, cool) = (pod("hot"), pod("cool"));
    let n0 = [
        card("n0", 0, 50.0, None),
        card("n0", 1, 51.0, None),
        card("n0", 2, 120.0, Some(&cool)),
        card("n0", 3, 333.0, Some(&hot)),
    ];
    *board.lock().expect("nobody panicked") = n0.to_vec();
    until(&mut engine, "its own card's power is shown", |engine| {
        let watts = engine.survey(now(), now()).expect("it answers").meters.gpu_watts;
        (watts[..2] == [333.0, 120.0]).then(|| assert_eq!(watts[2..4], [50.0, 51.0], "the free ones"))
    });
    let joules = |engine: &mut Kubernetes, at: f64| {
        let at = Time::from_seconds(at);
        let jobs = engine.survey(at, at).expect("it answers").meters.jobs;
        [1, 2].map(|id| jobs.iter().find(|meter| meter.job == JobId(id)).expect("it runs").charge.total())
    };
    let (before, after) = (joules(&mut engine, 200.0), joules(&mut engine, 210.0));
    let drawn = [after[0] - before[0], after[1] - before[1]];
    assert!((drawn[0] - 3330.0).abs() < 1.0 && (drawn[1] - 1200.0).abs() < 1.0, "ten seconds: {drawn:?}");
}
