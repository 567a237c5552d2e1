//! The webhook that gives pods to arles without their users' doing, for versions whose API server cannot do it itself (MutatingAdmissionPolicy).
//!
//! Which namespaces it is asked about, the MutatingWebhookConfiguration says, by a label. It adds the gate to pods that ask for GPUs, or, for versions without
//! gates, names arles as their scheduler.
//!
//! It fails open, on both sides: the configuration has `failurePolicy: Ignore`, and whatever makes no sense here is answered with "allowed, unchanged". A pod that is
//! not given to arles is scheduled as if arles were not there. It asks nobody and keeps nothing, so any number of them may run.
//!
//! Must never: refuse a pod, or change anything of it but the gate or the scheduler's name.

use super::access::{certificates, read};
use super::mark::GATE;
use super::object::is_gpu;
use arles_core::engine::EngineError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

/// A pod has at most 1.5 MB, and a review has it once.
const MOST_BYTES: usize = 1 << 23;
/// The API server gives a webhook ten seconds unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at once; the API server keeps a few and reuses them.
const AT_ONCE: usize = 256;
/// Files of a certificate that is renewed are read again after this long.
const CERTIFICATE_AGE: Duration = Duration::from_secs(60);
const USUAL_SCHEDULER: &str = "default-scheduler";

/// How pods are given to arles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GivenBy {
    /// By the gate, which Kubernetes 1.27 and later keep.
    Gate,
    /// By this scheduler's name.
    SchedulerName(String),
}

/// The webhook, ready to serve.
pub struct Webhook {
    files: (PathBuf, PathBuf),
    acceptor: Mutex<(Instant, TlsAcceptor)>,
    given_by: GivenBy,
}

impl Webhook {
    /// Reads certificate and key, both as PEM.
    ///
    /// # Errors
    /// When one of them cannot be read, or they do not belong together.
    pub fn new(certificate: &Path, key: &Path, given_by: GivenBy) -> Result<Self, EngineError> {
        let acceptor = Mutex::new((Instant::now(), acceptor(certificate, key)?));
        Ok(Self { files: (certificate.to_owned(), key.to_owned()), acceptor, given_by })
    }

    /// Answers the API server, for good.
    ///
    /// # Errors
    /// When the socket cannot be listened on.
    pub fn serve(self, listener: TcpListener) -> Result<Infallible, EngineError> {
        let wrong = |error: std::io::Error| EngineError(format!("the webhook cannot listen: {error}"));
        listener.set_nonblocking(true).map_err(wrong)?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(wrong)?;
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(wrong)?;
            let (webhook, turns) = (Arc::new(self), Arc::new(Semaphore::new(AT_ONCE)));
            loop {
                let turn = Arc::clone(&turns).acquire_owned().await;
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let webhook = Arc::clone(&webhook);
                        tokio::spawn(async move {
                            webhook.talk(stream).await;
                            drop(turn);
                        });
                    }
                    // Out of descriptors, perhaps: whoever is there will be done.
                    Err(error) => {
                        tracing::warn!("a connection was not accepted: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        })
    }

    /// What accepts TLS, with a certificate that is not older than its files by more than a minute.
    fn current(&self) -> TlsAcceptor {
        let mut kept = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0.elapsed() >= CERTIFICATE_AGE {
            kept.0 = Instant::now();
            match acceptor(&self.files.0, &self.files.1) {
                Ok(fresh) => kept.1 = fresh,
                Err(error) => tracing::warn!("the certificate from before is kept: {error}"),
            }
        }
        kept.1.clone()
    }

    async fn talk(&self, stream: TcpStream) {
        let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, self.current().accept(stream)).await else { return };
        let service = service_fn(|request| async { Ok::<_, Infallible>(self.answer(request).await) });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(90));
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/healthz") => response(StatusCode::OK, "text/plain", "ok\n".into()),
            (&Method::POST, "/mutate") => {
                let body =
                    tokio::time::timeout(PATIENCE, Limited::new(request.into_body(), MOST_BYTES).collect()).await;
                let Ok(Ok(body)) = body else {
                    let why = format!("expected a review of at most {MOST_BYTES} bytes within 10 s\n");
                    return response(StatusCode::BAD_REQUEST, "text/plain", why);
                };
                let asked = serde_json::from_slice(&body.to_bytes()).unwrap_or(Value::Null);
                response(StatusCode::OK, "application/json", self.given_by.review(&asked).to_string())
            }
            _ => response(StatusCode::NOT_FOUND, "text/plain", "expected POST /mutate or GET /healthz\n".into()),
        }
    }
}

fn response(status: StatusCode, form: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(form));
    response
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, EngineError> {
    let chain = certificates(&read(certificate)?, &certificate.display().to_string())?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| {
        EngineError(format!(
            "{} has no private key in it ({error}); expected '-----BEGIN PRIVATE KEY-----'",
            key.display()
        ))
    })?;
    let wrong = |error: &dyn std::fmt::Display| {
        EngineError(format!("{} and {} cannot be used together: {error}", certificate.display(), key.display()))
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| wrong(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl GivenBy {
    /// The answer to an AdmissionReview: always allowed, with a patch if the pod is to be given to arles.
    fn review(&self, asked: &Value) -> Value {
        let mut said = json!({"uid": asked["request"]["uid"], "allowed": true});
        if let Some(patch) = self.patch(&asked["request"]["object"]) {
            said["patchType"] = json!("JSONPatch");
            said["patch"] = json!(base64(json!([patch]).to_string().as_bytes()));
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said})
    }

    /// What gives a pod to arles; nothing for pods without GPUs, with a place, or given already.
    fn patch(&self, pod: &Value) -> Option<Value> {
        let spec = pod["spec"].as_object()?;
        let asks = |container: &Value| {
            container["resources"]["limits"].as_object().is_some_and(|limits| limits.keys().any(|name| is_gpu(name)))
        };
        let has_gpus = spec.get("containers")?.as_array()?.iter().any(asks);
        let has_place = spec.get("nodeName").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
        if !has_gpus || has_place {
            return None;
        }
        match self {
            Self::Gate => {
                let gate = json!({"name": GATE});
                let gates = spec.get("schedulingGates").and_then(Value::as_array).filter(|gates| !gates.is_empty());
                match gates {
                    Some(gates) if gates.contains(&gate) => None,
                    Some(_) => Some(json!({"op": "add", "path": "/spec/schedulingGates/-", "value": gate})),
                    None => Some(json!({"op": "add", "path": "/spec/schedulingGates", "value": [gate]})),
                }
            }
            Self::SchedulerName(name) => {
                // Whoever named another scheduler meant it.
                let named = spec.get("schedulerName").and_then(Value::as_str).unwrap_or(USUAL_SCHEDULER);
                let is_usual = [USUAL_SCHEDULER, ""].contains(&named);
                is_usual.then(|| json!({"op": "add", "path": "/spec/schedulerName", "value": name}))
            }
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().enumerate().fold(0u32, |bits, (n, byte)| bits | u32::from(*byte) << (16 - 8 * n));
        for n in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * n) & 63) as usize];
            text.push(if n <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resource: &str, more: &Value) -> Value {
        let mut spec = json!({"containers": [{"name": "side"}, {"resources": {"limits": {resource: "1"}}}]});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"spec": spec})
    }

    #[test]
    fn pods_with_gpus_are_given_to_arles() {
        let gate = |path: &str, value: Value| Some(json!({"op": "add", "path": path, "value": value}));
        let (ours, first) = (json!({"name": GATE}), gate("/spec/schedulingGates", json!([{"name": GATE}])));
        for (pod, expected) in [
            (pod("nvidia.com/gpu", &json!({})), first.clone()),
            (pod("amd.com/gpu", &json!({"schedulingGates": []})), first.clone()),
            (pod("nvidia.com/mig-3g.71gb", &json!({"nodeName": ""})), first),
            (
                pod("nvidia.com/gpu", &json!({"schedulingGates": [{"name": "other"}]})),
                gate("/spec/schedulingGates/-", ours.clone()),
            ),
            (pod("nvidia.com/gpu", &json!({"schedulingGates": [{"name": "other"}, ours]})), None),
            (pod("nvidia.com/gpu", &json!({"nodeName": "n0"})), None),
            (pod("cpu", &json!({})), None),
            (json!({"spec": {"containers": "none"}}), None),
            (Value::Null, None),
        ] {
            assert_eq!(GivenBy::Gate.patch(&pod), expected, "{pod}");
        }
        let by_name = GivenBy::SchedulerName("arles".into());
        for (scheduler, expected) in [("default-scheduler", true), ("arles", false), ("volcano", false)] {
            let found = by_name.patch(&pod("nvidia.com/gpu", &json!({"schedulerName": scheduler})));
            assert_eq!(found.is_some(), expected, "{scheduler}");
        }
    }

    #[test]
    fn whatever_is_asked_is_allowed() {
        let asked = json!({"request": {"uid": "u1", "object": pod("nvidia.com/gpu", &json!({}))}});
        let said = GivenBy::Gate.review(&asked);
        assert_eq!((&said["response"]["uid"], &said["response"]["allowed"]), (&json!("u1"), &json!(true)));
        assert_eq!(said["response"]["patchType"], "JSONPatch");
        for odd in [Value::Null, json!([]), json!({"request": {"uid": 7, "object": {"spec": {"containers": [null]}}}})]
        {
            let said = GivenBy::Gate.review(&odd);
            assert_eq!(said["response"]["allowed"], true, "{odd}");
            assert_eq!(said["response"]["patch"], Value::Null, "{odd}");
        }
    }

    #[test]
    fn base64_is_written_as_everybody_reads_it() {
        for (bytes, text) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("abcd>?", "YWJjZD4/")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
