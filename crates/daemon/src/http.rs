//! The HTTP server: the desk over HTTP/1.1, with or without TLS.
//!
//! [`ROUTES`] says what there is; `server.rs` turns a request into a response; `authorize.rs` decides who may; `door.rs` accepts connections, from the
//! network and from the socket in the state folder, and `seats.rs` decides which of them stay.
//! Nothing here decides or remembers anything of the cluster. Nothing secret is ever written to a log.
//!
//! Everything that comes from outside is bounded: connections, headers, bodies, requests per second, listeners, and the time each may
//! take.

mod assets;
mod authorize;
mod backend;
mod call;
mod door;
mod local;
mod openapi;
mod parameter;
mod params;
mod rate_limit;
mod remote;
mod routes;
mod schema_check;
mod seats;
mod server;
mod standby;
mod stream;
mod tls;
mod turns;

pub use backend::{Backend, Ending};
pub use call::{ApiCall, ApiReply};
pub use door::Door;
pub use local::LocalSocket;
pub use openapi::{markdown, text as openapi};
pub use parameter::ParameterType;
pub use params::Params;
pub use routes::{Body, Content, Parameter, Place, ROUTES, Route, SchemaOf, Target, Verb};
pub use standby::Standby;
pub use tls::{Certificate, Tls};

use crate::Refusal;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

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
    /// Most of them from one address.
    pub connections_per_address: usize,
    /// Most listeners to events at once.
    pub listeners: usize,
    /// How long a connection may take until it has sent its first request line and headers.
    pub first_request: Duration,
    /// How long a connection may be idle after that, or take for the headers of a next request.
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
            connections_per_address: 512,
            listeners: 256,
            first_request: Duration::from_secs(10),
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
    /// There is nowhere to listen.
    #[error("{0}")]
    Listen(String),
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
        let counts = [
            ("connections", self.connections),
            ("connections_per_address", self.connections_per_address),
            ("listeners", self.listeners),
        ];
        for (name, value) in counts {
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

/// Serves the desk, or another backend, through one listener until told to stop: a [`Door`] opened and served.
///
/// # Errors
/// If the options do not go together or the certificate and key are of no use; nothing was served then.
pub async fn serve<B: Backend>(
    backend: B,
    options: Options,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    Door::new(options, listener, None)?.serve(backend, stop).await;
    Ok(())
}
