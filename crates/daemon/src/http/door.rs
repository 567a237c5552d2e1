//! The door: listeners that are open, and the connections that come in through them.
//!
//! Making a [`Door`] checks everything that can be wrong with it, so that whoever has one may say that the server is ready.

use super::local::LocalSocket;
use super::remote::Remote;
use super::seats::{Seats, Ticket};
use super::server::Server;
use super::tls::Certificate;
use super::{Backend, Options, ServeError};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// How long requests in flight may take once the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Request line and headers together.
const HEAD_LIMIT: usize = 32 * 1024;
/// Connections through the socket in the state folder.
const LOCAL_CONNECTIONS: usize = 256;

/// Open listeners, checked options and a certificate that fits its key.
pub struct Door {
    options: Options,
    network: TcpListener,
    address: SocketAddr,
    local: Option<LocalSocket>,
    certificate: Option<Arc<Certificate>>,
}

impl Door {
    /// Checks options and certificate for listeners that are open.
    ///
    /// # Errors
    /// If the options do not go together, or certificate and key are of no use.
    pub fn new(options: Options, network: TcpListener, local: Option<LocalSocket>) -> Result<Self, ServeError> {
        let address = network.local_addr().unwrap_or(options.listen);
        options.check(address)?;
        let certificate = options.tls.as_ref().map(Certificate::load).transpose()?.map(Arc::new);
        Ok(Self { options, network, address, local, certificate })
    }

    /// Where it is, for clients on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The certificate, to be read anew.
    #[must_use]
    pub fn certificate(&self) -> Option<Arc<Certificate>> {
        self.certificate.clone()
    }

    /// Serves a backend until told to stop; then requests in flight have 5 seconds to finish, and event streams end.
    pub async fn serve<B: Backend>(self, backend: B, stop: watch::Receiver<bool>) {
        let Self { options, network, local, certificate, .. } = self;
        let server = Arc::new(Server::new(backend, &options, stop.clone()));
        let seats = Seats::new(options.connections, options.connections_per_address);
        let local_seats = Seats::new(LOCAL_CONNECTIONS, LOCAL_CONNECTIONS);
        loop {
            let (remote, stream) = tokio::select! {
                accepted = network.accept() => match accepted {
                    Ok((stream, from)) => (Remote::Network(from), Accepted::Network(stream)),
                    // Out of file descriptors, or the peer is gone already: neither is a reason to end.
                    Err(_) => { tokio::time::sleep(ACCEPT_PAUSE).await; continue }
                },
                accepted = accept_local(local.as_ref()) => match accepted {
                    Ok((stream, uid, owner)) => (Remote::Local { uid, owner }, Accepted::Local(stream)),
                    Err(_) => { tokio::time::sleep(ACCEPT_PAUSE).await; continue }
                },
                () = stopped(stop.clone()) => break,
            };
            let seats = if matches!(remote, Remote::Local { .. }) { &local_seats } else { &seats };
            let ticket = Arc::new(seats.take(remote.address()));
            let first_request = Instant::now() + options.first_request;
            let connection =
                Connection { server: Arc::clone(&server), remote, first_request, idle: options.idle, ticket };
            let stop = stop.clone();
            match stream {
                Accepted::Network(stream) => {
                    let _ = stream.set_nodelay(true);
                    let acceptor = certificate.as_ref().map(|certificate| certificate.acceptor());
                    tokio::spawn(connection.run(stream, acceptor, stop));
                }
                Accepted::Local(stream) => drop(tokio::spawn(connection.exchange(stream, stop))),
            }
        }
        drop((network, local));
        // Every connection ends by itself within the grace.
        let all = async { tokio::join!(seats.emptied(), local_seats.emptied()) };
        let _ = tokio::time::timeout(GRACE + Duration::from_secs(1), all).await;
    }
}

/// The next connection through the socket; never, where there is none.
async fn accept_local(local: Option<&LocalSocket>) -> io::Result<(UnixStream, Option<u32>, bool)> {
    match local {
        Some(local) => local.accept().await,
        None => std::future::pending().await,
    }
}

enum Accepted {
    Network(TcpStream),
    Local(UnixStream),
}

/// Comes back when the server is to stop, also when whoever could say so is gone.
pub(super) async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

struct Connection<B> {
    server: Arc<Server<B>>,
    remote: Remote,
    /// When the head of the first request must be there, TLS included.
    first_request: Instant,
    /// Longest silence between two requests.
    idle: Duration,
    ticket: Arc<Ticket>,
}

impl<B: Backend> Connection<B> {
    async fn run(self, stream: TcpStream, acceptor: Option<TlsAcceptor>, stop: watch::Receiver<bool>) {
        let Some(acceptor) = acceptor else { return self.exchange(stream, stop).await };
        let ticket = Arc::clone(&self.ticket);
        let handshake = tokio::select! {
            handshake = tokio::time::timeout_at(self.first_request, acceptor.accept(stream)) => handshake,
            () = stopped(stop.clone()) => return,
            () = ticket.asked_to_leave() => return,
        };
        // A peer that cannot finish its handshake hears so from TLS; there is nobody else to tell.
        if let Ok(Ok(stream)) = handshake {
            self.exchange(stream, stop).await;
        }
    }

    async fn exchange(self, stream: impl AsyncRead + AsyncWrite + Unpin, stop: watch::Receiver<bool>) {
        let Self { server, remote, first_request, idle, ticket } = self;
        let service = service_fn(|request| {
            let (server, ticket) = (Arc::clone(&server), Arc::clone(&ticket));
            async move { Ok::<_, Infallible>(server.serve(request, remote, &ticket).await) }
        });
        let mut http = http1::Builder::new();
        // Without `pipeline_flush`: it keeps an answer back while bytes of a next request are there, and with a broken request they
        // always are, so that its sender would be left without a word.
        http.timer(TokioTimer::new()).header_read_timeout(idle).max_buf_size(HEAD_LIMIT);
        http.keep_alive(!ticket.is_spare());
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = connection.as_mut() => {}
            () = silence(&ticket, first_request) => {}
            () = ticket.asked_to_leave() => {}
            () = stopped(stop) => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(GRACE, connection).await;
            }
        }
    }
}

/// Comes back if nothing was asked in time, and never otherwise.
async fn silence(ticket: &Ticket, limit: Instant) {
    tokio::time::sleep_until(limit).await;
    if ticket.has_asked() {
        std::future::pending::<()>().await;
    }
}
