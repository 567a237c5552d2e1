//! The API server: requests, and lists that are kept up to date.
//!
//! A small client of our own instead of `kube`: that one brings 60 packages along which nothing else here needs (k8s-openapi alone is half a minute
//! of compiling), and arles reads four kinds of objects and a few fields of each. hyper and rustls are in the daemon anyway.
//!
//! Calls block, as an engine's do. Connections, lists and watches live on a runtime of one thread.

use super::access::Access;
use arles_core::engine::EngineError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

const CONNECT: Duration = Duration::from_secs(5);
/// A list of ten thousand pods comes in pieces, each well below this.
const ANSWER: Duration = Duration::from_secs(30);
/// Requests of one batch that are under way at once.
const AT_ONCE: usize = 16;
/// A token is looked up anew after this long.
const TOKEN_AGE: Duration = Duration::from_secs(60);
/// Longest answer that is read.
const MOST_BYTES: usize = 1 << 28;

/// Why a call came to nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApiError {
    /// Nobody answered; it may have been done.
    Unreachable(String),
    /// The server said no.
    Refused {
        /// HTTP's status.
        status: u16,
        /// The server's sentence.
        message: String,
    },
}

impl ApiError {
    /// Whether it was refused with this status.
    pub(super) fn is(&self, code: u16) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == code)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => f.write_str(why),
            Self::Refused { status, message } => write!(f, "{message} ({status})"),
        }
    }
}

impl From<ApiError> for EngineError {
    fn from(error: ApiError) -> Self {
        Self(format!("the API server says: {error}"))
    }
}

/// What is asked of the API server.
#[derive(Clone, Debug)]
pub(super) struct Call {
    method: Method,
    path: String,
    form: &'static str,
    body: Option<Value>,
}

impl Call {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), form: "application/json", body: None }
    }

    pub(super) fn post(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, path: path.into(), form: "application/json", body: Some(body) }
    }

    pub(super) fn put(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::PUT, path: path.into(), form: "application/json", body: Some(body) }
    }

    pub(super) fn delete(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::DELETE, path: path.into(), form: "application/json", body: Some(body) }
    }

    /// A strategic merge: lists with names are merged by them.
    pub(super) fn patch(path: impl Into<String>, body: Value) -> Self {
        let form = "application/strategic-merge-patch+json";
        Self { method: Method::PATCH, path: path.into(), form, body: Some(body) }
    }
}

impl Call {
    /// Fields are replaced, and those that are null are removed: what custom resources take.
    pub(super) fn merge(path: impl Into<String>, body: Value) -> Self {
        let form = "application/merge-patch+json";
        Self { method: Method::PATCH, path: path.into(), form, body: Some(body) }
    }

    #[cfg(test)]
    pub(super) fn body(&self) -> Option<&Value> {
        self.body.as_ref()
    }
}

type Sender = SendRequest<Full<Bytes>>;

/// Where connections are made, shared by everybody on the runtime.
pub(super) struct Server {
    access: Access,
    idle: Mutex<Vec<Sender>>,
    token: Mutex<Option<(Instant, Option<String>)>>,
    calls: AtomicU64,
}

/// A client, cheap to clone.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) server: Arc<Server>,
    pub(super) runtime: Arc<Runtime>,
}

impl Client {
    pub(super) fn new(access: Access) -> Result<Self, EngineError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kubernetes")
            .enable_all()
            .build()
            .map_err(|error| EngineError(format!("no thread for the API server: {error}")))?;
        let (idle, token) = (Mutex::new(Vec::new()), Mutex::new(None));
        let server = Server { access, idle, token, calls: AtomicU64::new(0) };
        Ok(Self { server: Arc::new(server), runtime: Arc::new(runtime) })
    }

    /// Calls made so far.
    pub(super) fn calls(&self) -> u64 {
        self.server.calls.load(Ordering::Relaxed)
    }

    pub(super) fn send(&self, call: &Call) -> Result<Value, ApiError> {
        self.runtime.block_on(self.server.ask(call))
    }

    /// Makes many calls, several at once; answers in their order.
    pub(super) fn send_all(&self, calls: Vec<Call>) -> Vec<Result<Value, ApiError>> {
        if calls.len() == 1 {
            return calls.iter().map(|call| self.send(call)).collect();
        }
        self.runtime.block_on(async {
            let turns = Arc::new(Semaphore::new(AT_ONCE));
            let started: Vec<_> = calls
                .into_iter()
                .map(|call| {
                    let (server, turns) = (Arc::clone(&self.server), Arc::clone(&turns));
                    tokio::spawn(async move {
                        let _turn = turns.acquire().await;
                        server.ask(&call).await
                    })
                })
                .collect();
            let mut answers = Vec::new();
            for task in started {
                answers.push(task.await.unwrap_or_else(|error| Err(ApiError::Unreachable(error.to_string()))));
            }
            answers
        })
    }
}

impl Server {
    pub(super) async fn ask(&self, call: &Call) -> Result<Value, ApiError> {
        let response = tokio::time::timeout(ANSWER, self.open(call)).await;
        let response = response.map_err(|_| unreachable(&"no answer within 30 s"))??;
        let (status, sender, body) = response;
        let bytes = tokio::time::timeout(ANSWER, whole(body)).await;
        let bytes = bytes.map_err(|_| unreachable(&"no answer within 30 s"))??;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        match status {
            200..300 => Ok(answer),
            status => Err(refused(status, &answer, &bytes)),
        }
    }

    /// Sends a call and waits for the answer's first line.
    pub(super) async fn open(&self, call: &Call) -> Result<(u16, Sender, Incoming), ApiError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        loop {
            let waiting = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let reused = waiting.is_some();
            let mut sender = match waiting {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            // A connection that the server closed meanwhile is noticed before anything is sent, and another one is taken.
            if sender.ready().await.is_err() && reused {
                continue;
            }
            let response: Response<Incoming> = match sender.send_request(self.request(call)?).await {
                Ok(response) => response,
                Err(error) if reused && error.is_canceled() => continue,
                Err(error) => return Err(unreachable(&error)),
            };
            return Ok((response.status().as_u16(), sender, response.into_body()));
        }
    }

    fn request(&self, call: &Call) -> Result<hyper::Request<Full<Bytes>>, ApiError> {
        let Access { host, port, prefix, .. } = &self.access;
        let mut request = hyper::Request::builder()
            .method(call.method.clone())
            .uri(format!("{prefix}{}", call.path))
            .header(HOST, format!("{host}:{port}"))
            .header(USER_AGENT, concat!("arles/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json");
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, call.form);
        }
        if let Some(token) = self.token()? {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = call.body.as_ref().map_or_else(Vec::new, |body| body.to_string().into_bytes());
        request.body(Full::new(Bytes::from(body))).map_err(|error| unreachable(&error))
    }

    fn token(&self) -> Result<Option<String>, ApiError> {
        let mut kept = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, token)) = kept.as_ref().filter(|(at, _)| at.elapsed() < TOKEN_AGE) {
            return Ok(token.clone());
        }
        let token = self.access.token().map_err(|error| ApiError::Unreachable(error.0))?;
        *kept = Some((Instant::now(), token.clone()));
        Ok(token)
    }

    async fn connect(&self) -> Result<Sender, ApiError> {
        let Access { host, port, tls, .. } = &self.access;
        let late = |_| unreachable(&format_args!("{host}:{port} does not answer"));
        let stream = tokio::time::timeout(CONNECT, TcpStream::connect((host.as_str(), *port))).await.map_err(late)?;
        let stream = stream.map_err(|error| unreachable(&format_args!("{host}:{port} cannot be reached: {error}")))?;
        let _ = stream.set_nodelay(true);
        let Some((connector, name)) = tls else { return shake(stream).await };
        let secured = tokio::time::timeout(CONNECT, connector.connect(name.clone(), stream)).await.map_err(late)?;
        shake(secured.map_err(|error| unreachable(&format_args!("TLS with {host}:{port} failed: {error}")))?).await
    }
}

async fn shake<S>(stream: S) -> Result<Sender, ApiError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
    // Errors of the connection come back with the request that they end.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn unreachable(why: &dyn fmt::Display) -> ApiError {
    ApiError::Unreachable(format!("the API server cannot be asked: {why}"))
}

/// The server's own sentence, where it gave one.
pub(super) fn refused(status: u16, answer: &Value, bytes: &[u8]) -> ApiError {
    let text = || String::from_utf8_lossy(bytes).chars().take(200).collect();
    ApiError::Refused { status, message: answer["message"].as_str().map_or_else(text, str::to_owned) }
}

async fn whole(mut body: Incoming) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(|error| unreachable(&error))?.into_data() {
            bytes.extend_from_slice(&piece);
        }
        if bytes.len() > MOST_BYTES {
            return Err(unreachable(&"its answer has no end"));
        }
    }
    Ok(bytes)
}
