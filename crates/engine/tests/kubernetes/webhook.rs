//! The webhook, asked by a real API server by the configuration that is shipped.

use super::pod_spec;
use super::support::{RealKubernetes, kubernetes_or_skip, owned_or_skip};
use arles_engine::kubernetes::{GATE, GivenBy, Webhook};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

fn certify(folder: &Path) {
    let file = |name: &str| folder.join(name).to_str().expect("a path").to_owned();
    let (key, certificate) = (file("webhook.key"), file("webhook.crt"));
    let words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"];
    let names =
        ["-subj", "/CN=webhook", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", &key, "-out", &certificate];
    let output = Command::new("openssl").args(words).args(names).output().expect("openssl is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The shipped configuration, with another address of the webhook and nothing else changed.
fn configuration(kubernetes: &RealKubernetes, port: u16) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/webhook/webhook.yaml");
    let text = std::fs::read_to_string(path).expect("it is shipped");
    let (_, last) = text.rsplit_once("---\n").expect("it has several objects");
    let service = "service: {name: arles-webhook, namespace: arles, path: /mutate, port: 443}";
    assert!(last.contains(service), "{last}");
    let certificate = kubernetes.folder.join("webhook.crt");
    let bundle = Command::new("openssl").args(["enc", "-A", "-base64", "-in"]).arg(certificate).output();
    let bundle = String::from_utf8(bundle.expect("openssl is there").stdout).expect("letters");
    last.replace(service, &format!("url: https://127.0.0.1:{port}/mutate\n    caBundle: {}", bundle.trim()))
}

fn pod(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

/// GPU pods of labelled namespaces are given to arles; no other pod is touched; and without the webhook pods are made as they are.
#[test]
fn a_webhook_gives_pods_to_arles_and_fails_open() {
    let what = "the webhook that gives pods to arles";
    if !kubernetes_or_skip(what) || !owned_or_skip(what) {
        return;
    }
    let kubernetes = RealKubernetes::start(&["none".to_owned()]);
    certify(&kubernetes.folder);
    // Versions without gates drop them.
    let has_gates = kubernetes.minor() >= 27;
    let given_by = if has_gates { GivenBy::Gate } else { GivenBy::SchedulerName("arles".into()) };
    let file = |name: &str| kubernetes.folder.join(name);
    let webhook = Webhook::new(&file("webhook.crt"), &file("webhook.key"), given_by).expect("it has a certificate");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has one").port();
    std::thread::spawn(move || webhook.serve(listener).map(|never| match never {}));
    ["labelled", "plain"].iter().for_each(|name| kubernetes.namespace(name));
    kubernetes.kubectl(&["label", "namespace", "labelled", "arles/gate=true"], "").expect("it is accepted");
    kubernetes.kubectl(&["apply", "-f", "-"], &configuration(&kubernetes, port)).expect("it is accepted");

    let gpus = pod_spec(1, "true", "default-scheduler");
    let mut none = gpus.clone();
    none["containers"][0]["resources"] = json!({});
    let given = |namespace: &str| {
        let field = if has_gates { "{.spec.schedulingGates[*].name}" } else { "{.spec.schedulerName}" };
        kubernetes.pods(namespace, &format!("{{.metadata.name}}:{field}"))
    };
    let (yes, no) = if has_gates { (GATE, "") } else { ("arles", "default-scheduler") };
    // A configuration takes effect a moment after it was accepted.
    let began = Instant::now();
    loop {
        kubernetes.create(&pod("labelled", "gpu", &gpus));
        if given("labelled") == [format!("gpu:{yes}")] {
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "{:?}", given("labelled"));
        let words = ["-n", "labelled", "delete", "pod", "gpu", "--grace-period=0", "--force"];
        kubernetes.kubectl(&words, "").expect("it is accepted");
    }
    kubernetes.create(&pod("labelled", "no-gpu", &none));
    assert_eq!(given("labelled"), [format!("gpu:{yes}"), format!("no-gpu:{no}")]);
    kubernetes.create(&pod("plain", "gpu", &gpus));
    assert_eq!(given("plain"), [format!("gpu:{no}")]);

    // Nobody answers any more.
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port is free").port();
    kubernetes.kubectl(&["apply", "-f", "-"], &configuration(&kubernetes, closed)).expect("it is accepted");
    let began = Instant::now();
    loop {
        let name = format!("late{}", began.elapsed().as_millis());
        kubernetes.create(&pod("labelled", &name, &gpus));
        if given("labelled").contains(&format!("{name}:{no}")) {
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "{:?}", given("labelled"));
    }
}
