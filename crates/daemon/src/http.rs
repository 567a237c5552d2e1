//! The HTTP server: the desk over HTTP/1.1, with or without TLS.
//!
//! [`ROUTES`] says what there is; `server.rs` turns a request into a response; `authorize.rs` decides who may; this file accepts connections.
//! Nothing here decides or remembers anything of the cluster. Nothing secret is ever written to a log.
//!
//! Everything that comes from outside is bounded: connections, headers, bodies, requests per second, listeners, and the time each may
//! take.

mod assets;
mod authorize;
mod backend;
mod call;
mod openapi;
mod parameter;
mod params;
mod rate_limit;
mod routes;
mod schema_check;
mod server;
mod standby;
mod stream;
mod tls;

pub use backend::Backend;
pub use call::{ApiCall, ApiReply};
pub use openapi::{markdown, text as openapi};
pub use parameter::ParameterType;
pub use params::Params;
pub use routes::{Body, Content, Parameter, Place, ROUTES, Route, SchemaOf, Target, Verb};
pub use standby::Standby;
pub use tls::Tls;

use crate::Refusal;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use server::Server;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// How long requests in flight may take once the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// How long a handshake of TLS may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Request line and headers together.
const HEAD_LIMIT: usize = 32 * 1024;

/// Settings of the server.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Certificate and key, for TLS.
    pub tls: Option<Tls>,
    /// Requests from this machine need no token and have admin rights. Only with a loopback address in `listen`.
    pub open_loopback: bool,
    /// Requests of one token, or of one address without a token, in the long run; infinite for no limit.
    pub requests_per_second: f64,
    /// Requests of one token at once.
    pub burst: f64,
    /// Requests of one address without a good token, twice as many at once. They never hold up a good token.
    pub failures_per_second: f64,
    /// Largest body, in bytes.
    pub body_limit: usize,
    /// Most connections at once.
    pub connections: usize,
    /// Most listeners to events at once.
    pub listeners: usize,
    /// How long a connection may be idle, or take for its headers.
    pub idle: Duration,
    /// Log every request.
    pub log_requests: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7117)),
            tls: None,
            open_loopback: false,
            requests_per_second: 1000.0,
            burst: 2000.0,
            failures_per_second: 10.0,
            // A script of a megabyte, with room for what is escaped in it.
            body_limit: 4 << 20,
            connections: 1024,
            listeners: 256,
            idle: Duration::from_secs(60),
            log_requests: false,
        }
    }
}

/// Why the server does not start.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ServeError {
    /// The options contradict each other, or are out of range.
    #[error("{0}")]
    Options(String),
    /// Certificate or key cannot be used.
    #[error("{0}")]
    Tls(String),
}

impl Options {
    /// Checks the options.
    ///
    /// # Errors
    /// If the options do not go together.
    pub fn check(&self, local: SocketAddr) -> Result<(), ServeError> {
        let refuse = |text: String| Err(ServeError::Options(text));
        if self.open_loopback && !local.ip().is_loopback() {
            return refuse(format!(
                "open_loopback would give everybody who reaches {local} admin rights; listen on 127.0.0.1, or use tokens"
            ));
        }
        let rates =
            [("requests_per_second", self.requests_per_second), ("failures_per_second", self.failures_per_second)];
        if let Some((name, rate)) = rates.into_iter().find(|(_, rate)| rate.is_nan() || *rate <= 0.0) {
            return refuse(format!("{name} is {rate}; expected more than 0"));
        }
        if self.burst.is_nan() || self.burst < 1.0 {
            return refuse(format!("burst is {}; expected at least 1", self.burst));
        }
        let most = Semaphore::MAX_PERMITS;
        for (name, value) in [("connections", self.connections), ("listeners", self.listeners)] {
            if value == 0 || value > most {
                return refuse(format!("{name} is {value}; expected a number from 1 to {most}"));
            }
        }
        if self.body_limit == 0 {
            return refuse("body_limit is 0 bytes; expected at least 1".into());
        }
        Ok(())
    }
}

/// A bug of ours. The details go to the log, not to the caller.
fn internal(what: &str) -> Refusal {
    tracing::error!("internal error: {what}");
    Refusal {
        status: 500,
        code: "internal",
        message: "internal server error".into(),
        hint: "see the server's log; other requests are not affected".into(),
        retry_after_seconds: None,
    }
}

/// Serves the desk, or another backend, until told to stop; then requests in flight have 5 seconds to finish, and event streams end.
///
/// # Errors
/// If the options do not go together or the certificate and key are of no use; nothing was served then.
#[allow(clippy::needless_pass_by_value)]
pub async fn serve<B: Backend>(
    backend: B,
    options: Options,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let local = listener.local_addr().unwrap_or(options.listen);
    options.check(local)?;
    let acceptor = options.tls.as_ref().map(tls::acceptor).transpose()?;
    let server = Arc::new(Server::new(backend, &options, stop.clone()));
    let permits = Arc::new(Semaphore::new(options.connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(stop.clone()) => break,
        };
        // Out of file descriptors, or the peer is gone already: neither is a reason to end.
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => {
                let connection =
                    Connection { server: Arc::clone(&server), from: from.ip(), idle: options.idle, permit };
                tokio::spawn(connection.run(stream, acceptor.clone(), stop.clone()));
            }
            Err(_) if acceptor.is_none() => drop(tokio::spawn(reject_connection(stream))),
            Err(_) => {}
        }
    }
    drop(listener);
    // Every connection ends by itself within the grace; all permits are free when all have ended.
    let all = permits.acquire_many(u32::try_from(options.connections).unwrap_or(u32::MAX));
    let _ = tokio::time::timeout(GRACE + Duration::from_secs(1), all).await;
    Ok(())
}

/// Comes back when the server is to stop, also when whoever could say so is gone.
async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

struct Connection<B> {
    server: Arc<Server<B>>,
    from: IpAddr,
    idle: Duration,
    permit: OwnedSemaphorePermit,
}

impl<B: Backend> Connection<B> {
    async fn run(self, stream: TcpStream, acceptor: Option<TlsAcceptor>, stop: watch::Receiver<bool>) {
        let Some(acceptor) = acceptor else { return self.exchange(stream, stop).await };
        let handshake = tokio::select! {
            handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)) => handshake,
            () = stopped(stop.clone()) => return,
        };
        // A peer that cannot finish its handshake hears so from TLS; there is nobody else to tell.
        if let Ok(Ok(stream)) = handshake {
            self.exchange(stream, stop).await;
        }
    }

    async fn exchange(self, stream: impl AsyncRead + AsyncWrite + Unpin, stop: watch::Receiver<bool>) {
        let Self { server, from, idle, permit } = self;
        let service = service_fn(|request| {
            let server = Arc::clone(&server);
            async move { Ok::<_, Infallible>(server.serve(request, from).await) }
        });
        let mut http = http1::Builder::new();
        // Without `pipeline_flush`: it keeps an answer back while bytes of a next request are there, and with a broken request they
        // always are, so that its sender would be left without a word.
        http.timer(TokioTimer::new()).header_read_timeout(idle).max_buf_size(HEAD_LIMIT);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = connection.as_mut() => {}
            () = stopped(stop) => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(GRACE, connection).await;
            }
        }
        drop(permit);
    }
}

/// Responds to a connection beyond the limit, and closes it.
async fn reject_connection(mut stream: TcpStream) {
    let body = r#"{"error":{"code":"too-many-connections","message":"the limit of open connections is reached","hint":"try again in a second, and reuse connections"}}"#;
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\nRetry-After: 1\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = tokio::time::timeout(Duration::from_secs(1), async {
        let _ = stream.write_all(text.as_bytes()).await;
        let _ = stream.shutdown().await;
    })
    .await;
}
