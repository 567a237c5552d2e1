//! A blocking client of the API, for the command line.
//!
//! One connection is kept and used again. A request that can be repeated without harm is sent once more over a new connection if the
//! kept one turns out to be broken; any other only if it was never sent. With several addresses, those of daemons of which one leads, whoever
//! stands by or is away is passed over, until the leader is found or the time for it is over. The token is never printed, not even by `Debug`.

mod error;
mod events;
mod remote;

pub use error::ClientError;
pub use events::{Events, News};

use crate::Fault;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use remote::Remote;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a leader is looked for among several addresses, and the pause after all of them were tried.
const SEARCH: Duration = Duration::from_secs(40);
/// How long each of several servers may take for a request that can be repeated: one that is paused accepts it and says nothing.
const ATTEMPT: Duration = Duration::from_secs(6);
const SEARCH_PAUSE: Duration = Duration::from_millis(250);
/// Largest response: all GPUs of a very large cluster fit.
const RESPONSE_LIMIT: usize = 256 << 20;

type Sender = SendRequest<Full<Bytes>>;

/// A connection to a server.
pub struct Client {
    runtime: Runtime,
    /// At least one.
    remotes: Vec<Remote>,
    /// Number of the one that answered last.
    current: AtomicUsize,
    token: Option<HeaderValue>,
    kept: Mutex<Option<Sender>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("Client").field("remote", &self.remote().url()).field("token", &token).finish_non_exhaustive()
    }
}

/// A request before it is sent; it may have to be sent twice.
struct Draft<'a> {
    method: Method,
    path: &'a str,
    body: Option<Bytes>,
    key: Option<&'a str>,
    accept: &'static str,
}

impl Draft<'_> {
    /// Whether doing it twice is doing it once.
    fn repeatable(&self) -> bool {
        self.method != Method::POST || self.key.is_some()
    }
}

impl Client {
    /// A client of the server at `http://…`, `https://…` or `unix:PATH`; nothing is sent yet. A server with TLS is trusted if its certificate is
    /// signed by one in the file `ca`, or without that file by one that this system trusts. Several addresses, separated by commas, are of
    /// daemons that share a state folder.
    ///
    /// # Errors
    /// If the address, the token or the file cannot be used.
    pub fn new(url: &str, token: Option<String>, ca: Option<&Path>) -> Result<Self, ClientError> {
        let remotes: Vec<Remote> = url.split(',').map(|url| Remote::new(url.trim(), ca)).collect::<Result<_, _>>()?;
        let token = token.map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|_| ClientError::Setup("the token contains invalid characters; copy it again".into()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ClientError::Setup(format!("cannot start an event loop: {error}")))?;
        Ok(Self { runtime, remotes, current: AtomicUsize::new(0), token: token.transpose()?, kept: Mutex::new(None) })
    }

    /// The server that answered last, or the first.
    fn remote(&self) -> &Remote {
        &self.remotes[self.current.load(Ordering::Relaxed) % self.remotes.len()]
    }

    /// Tries one server after the other, until one does not stand by and is there. `sent` says whether a failed attempt may have had an effect.
    fn search<T>(
        &self,
        mut attempt: impl FnMut(&Remote, &mut bool) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let (began, mut tried) = (Instant::now(), 0);
        loop {
            let mut sent = false;
            let error = match attempt(self.remote(), &mut sent) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let elsewhere = match &error {
                ClientError::Refused { status: 503, fault, .. } => fault.code == "standby",
                ClientError::Unreachable(_) => !sent,
                _ => false,
            };
            if self.remotes.len() == 1 || !elsewhere || began.elapsed() > SEARCH {
                return Err(error);
            }
            self.current.fetch_add(1, Ordering::Relaxed);
            tried += 1;
            if tried % self.remotes.len() == 0 {
                std::thread::sleep(SEARCH_PAUSE);
            }
        }
    }

    /// GET: reads a resource.
    ///
    /// # Errors
    /// What the server refused, or why it was not reached.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(&Draft { method: Method::GET, path, body: None, key: None, accept: "application/json" })
    }

    /// Reads text: `/metrics`, `/openapi.json`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn text(&self, path: &str) -> Result<String, ClientError> {
        let (status, body) =
            self.exchange(&Draft { method: Method::GET, path, body: None, key: None, accept: "*/*" })?;
        if !status.is_success() {
            return Err(self.remote().unexpected(status));
        }
        String::from_utf8(body.into()).map_err(|_| self.remote().garbled("text that is not UTF-8"))
    }

    /// POST: creates a resource, or asks with a body. With an idempotency key it may be sent twice and is processed once.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        key: Option<&str>,
    ) -> Result<T, ClientError> {
        self.json(&Draft { method: Method::POST, path, body: Some(written(body)?), key, accept: "application/json" })
    }

    /// PUT: sets a resource.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn put<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, ClientError> {
        let body = Some(written(body)?);
        self.json(&Draft { method: Method::PUT, path, body, key: None, accept: "application/json" })
    }

    /// DELETE: removes a resource.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(&Draft { method: Method::DELETE, path, body: None, key: None, accept: "application/json" })
    }

    /// Listens to events after this number, or from now on, over a connection of its own.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn events(&self, after: Option<u64>) -> Result<Events<'_>, ClientError> {
        let path = after.map_or_else(|| "/v1/events".to_owned(), |after| format!("/v1/events?after={after}"));
        let draft = Draft { method: Method::GET, path: &path, body: None, key: None, accept: "text/event-stream" };
        let (sender, body) = self.search(|remote, _| {
            self.wait(self.limit(&draft), async {
                let mut sender = remote.connect().await?;
                let answer = sender.send_request(self.request(remote, &draft)?).await;
                let answer = answer.map_err(|error| remote.broken(&error))?;
                if answer.status().is_success() {
                    return Ok((sender, answer.into_body()));
                }
                let (status, retry, body) = self.collect(answer).await?;
                Err(self.refused(status, retry, &body))
            })
        })?;
        Ok(Events::new(self, sender, body))
    }

    fn json<T: DeserializeOwned>(&self, draft: &Draft<'_>) -> Result<T, ClientError> {
        let (_, body) = self.exchange(draft)?;
        serde_json::from_slice(&body).map_err(|error| self.remote().garbled(&format!("unexpected JSON ({error})")))
    }

    /// Sends and waits. Refusals are errors; health is told in the same words whatever the status.
    fn exchange(&self, draft: &Draft<'_>) -> Result<(StatusCode, Bytes), ClientError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.search(|remote, sent| {
            let old = kept.take().filter(|sender| !sender.is_closed());
            let (sender, (status, retry, body)) = self.wait(self.limit(draft), self.send(remote, old, draft, sent))?;
            if status.is_success() || matches!(draft.path, "/healthz" | "/readyz") && is_health(&body) {
                *kept = Some(sender);
                return Ok((status, body));
            }
            let refused = self.refused(status, retry, &body);
            // Whoever stands by is not asked again; everybody else may be.
            if self.remotes.len() == 1 || status != StatusCode::SERVICE_UNAVAILABLE {
                *kept = Some(sender);
            }
            Err(refused)
        })
    }

    async fn send(
        &self,
        remote: &Remote,
        old: Option<Sender>,
        draft: &Draft<'_>,
        sent: &mut bool,
    ) -> Result<(Sender, Collected), ClientError> {
        if let Some(mut sender) = old
            && sender.ready().await.is_ok()
        {
            *sent = !draft.repeatable();
            match sender.send_request(self.request(remote, draft)?).await {
                Ok(answer) => return Ok((sender, self.collect(answer).await?)),
                Err(error) if error.is_canceled() || draft.repeatable() => *sent = false,
                Err(error) => return Err(remote.broken(&error)),
            }
        }
        let mut sender = remote.connect().await?;
        *sent = !draft.repeatable();
        let answer = sender.send_request(self.request(remote, draft)?).await;
        let answer = answer.map_err(|error| remote.broken(&error))?;
        Ok((sender, self.collect(answer).await?))
    }

    async fn collect(&self, answer: Response<Incoming>) -> Result<Collected, ClientError> {
        let (head, body) = answer.into_parts();
        let retry = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(body, RESPONSE_LIMIT).collect().await;
        let body = body.map_err(|error| self.remote().garbled(&format!("an incomplete response ({error})")))?;
        Ok((head.status, retry, body.to_bytes()))
    }

    fn request(&self, remote: &Remote, draft: &Draft<'_>) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut builder = Request::builder()
            .method(&draft.method)
            .uri(draft.path)
            .header(HOST, remote.authority())
            .header(ACCEPT, draft.accept);
        if let Some(token) = &self.token {
            builder = builder.header(AUTHORIZATION, token);
        }
        if let Some(key) = draft.key {
            builder = builder.header("Idempotency-Key", key);
        }
        if draft.body.is_some() {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(draft.body.clone().unwrap_or_default());
        builder.body(body).map_err(|error| {
            ClientError::Setup(format!("'{}' is not a valid path ({error}); percent-encode names in it", draft.path))
        })
    }

    /// How long one server may take.
    fn limit(&self, draft: &Draft<'_>) -> Duration {
        if self.remotes.len() > 1 && draft.repeatable() { ATTEMPT } else { TIMEOUT }
    }

    fn wait<T>(&self, limit: Duration, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let timed = async { tokio::time::timeout(limit, work).await };
        self.runtime.block_on(timed).unwrap_or_else(|_| Err(self.remote().slow(limit)))
    }

    fn refused(&self, status: StatusCode, retry_after_seconds: Option<f64>, body: &[u8]) -> ClientError {
        match serde_json::from_slice::<Fault>(body) {
            Ok(Fault { error }) => ClientError::Refused { status: status.as_u16(), fault: error, retry_after_seconds },
            Err(_) => self.remote().unexpected(status),
        }
    }
}

type Collected = (StatusCode, Option<f64>, Bytes);

fn is_health(body: &[u8]) -> bool {
    serde_json::from_slice::<crate::Health>(body).is_ok()
}

fn written<B: Serialize>(body: &B) -> Result<Bytes, ClientError> {
    let text = serde_json::to_vec(body);
    text.map(Bytes::from)
        .map_err(|error| ClientError::Setup(format!("the request cannot be serialised as JSON: {error}")))
}

/// All but the characters that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A name as a segment of a path, or as a value in a query.
#[must_use]
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_printed() {
        let client = Client::new("http://127.0.0.1:1", Some("arles_secret".into()), None).unwrap();
        assert_eq!(format!("{client:?}"), r#"Client { remote: "http://127.0.0.1:1", token: Some("…"), .. }"#);
        let error = Client::new("http://127.0.0.1:1", Some("arles_\nsecret".into()), None).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn names_become_segments() {
        assert_eq!(encode("a b/ä?"), "a%20b%2F%C3%A4%3F");
    }
}
