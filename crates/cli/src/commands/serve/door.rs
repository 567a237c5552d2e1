//! The daemon's door: opened and checked before anything else begins, announced when it is open, and served until there is a reason to end.

use crate::fault::Failed;
use crate::notify::Notifier;
use crate::settings::ServeSettings;
use anyhow::{Context, Result};
use arles_api::socket;
use arles_daemon::http::{self, Certificate, Door, LocalSocket, Tls};
use arles_daemon::lease::Term;
use arles_daemon::service::Service;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the threads of the service are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What the settings say about the server, checked as far as it can be before anything is opened: a certificate that does not fit its key, or an address
/// that would let everybody in.
pub(super) fn options(settings: &ServeSettings) -> Result<http::Options> {
    let options = http::Options {
        listen: settings.listen,
        tls: match (&settings.tls_certificate, &settings.tls_key) {
            (Some(cert), Some(key)) => Some(Tls { cert: cert.clone(), key: key.clone() }),
            _ => None,
        },
        open_loopback: settings.open_loopback,
        requests_per_second: settings.requests_per_second,
        burst: settings.burst,
        body_limit: settings.body_limit,
        connections: settings.connections,
        connections_per_address: settings.connections_per_address.min(settings.connections),
        log_requests: settings.log_requests,
        ..http::Options::default()
    };
    options.check(settings.listen)?;
    options.tls.as_ref().map(Certificate::load).transpose()?;
    Ok(options)
}

/// Opens the door, on a listener that is open already or a new one. The lock of the state folder must be held or the lead taken, since its
/// socket is replaced.
pub(super) fn open(
    runtime: &Runtime,
    settings: &ServeSettings,
    options: http::Options,
    listener: Option<std::net::TcpListener>,
) -> Result<Door> {
    restrict_folder(settings);
    runtime.block_on(async {
        let listener = match listener {
            Some(listener) => TcpListener::from_std(listener)?,
            None => TcpListener::bind(settings.listen).await.map_err(|e| cannot_listen(settings, &e))?,
        };
        let local = LocalSocket::bind(&settings.state.join(socket::FILE)).map_err(|e| Failed(e.to_string()))?;
        Ok(Door::new(options, listener, Some(local))?)
    })
}

pub(super) fn cannot_listen(settings: &ServeSettings, e: &std::io::Error) -> Failed {
    Failed(format!("cannot listen on {}: {e}; give another address with --listen", settings.listen))
}

/// What is in the state folder is nobody's business but its owner's.
fn restrict_folder(settings: &ServeSettings) {
    use std::os::unix::fs::PermissionsExt;
    let owner_only = std::fs::Permissions::from_mode(0o700);
    if let Err(error) = std::fs::set_permissions(&settings.state, owner_only) {
        let folder = settings.state.display();
        tracing::warn!("cannot keep other users out of {folder} ({error}); 'chmod 700 {folder}' does");
    }
}

/// Why the daemon ends, and whether that is a failure.
pub(super) struct Ending {
    pub(super) why: String,
    pub(super) failed: bool,
}

impl Ending {
    fn asked(why: &str) -> Self {
        Self { why: why.to_owned(), failed: false }
    }

    fn failed(why: impl Into<String>) -> Self {
        Self { why: why.into(), failed: true }
    }
}

/// The signals that a daemon knows.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on they are ours. Must be called inside a runtime.
    pub(super) fn take() -> Result<Self> {
        let take = |kind| signal(kind).context("cannot install signal handlers");
        Ok(Self {
            terminate: take(SignalKind::terminate())?,
            interrupt: take(SignalKind::interrupt())?,
            hang_up: take(SignalKind::hangup())?,
        })
    }
}

/// The parts of a running daemon that are looked after.
pub(super) struct Watched<'d> {
    pub(super) service: &'d Service,
    pub(super) certificate: Option<&'d Arc<Certificate>>,
    pub(super) server: &'d mut tokio::task::JoinHandle<()>,
    /// The term that this daemon leads in, where others stand by.
    pub(super) term: Option<&'d Term>,
}

/// Waits for a signal, or for a part of the daemon to fail. SIGHUP reads the certificate anew. The service manager is told meanwhile that
/// all is well, if it is.
pub(super) async fn until_stopped(mut signals: Signals, parts: Watched<'_>, notifier: &mut Notifier) -> Ending {
    let Watched { service, certificate, server, term } = parts;
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return Ending::asked("SIGTERM received; shutting down"),
            _ = signals.interrupt.recv() => return Ending::asked("SIGINT received; shutting down"),
            _ = signals.hang_up.recv() => reload(certificate),
            _ = &mut *server => return Ending::failed("the HTTP server ended by itself; shutting down"),
            () = tokio::time::sleep(LOOK_EVERY) => {
                if term.is_some_and(Term::is_lost) {
                    return Ending::asked("another daemon leads; starting again as a standby");
                }
                if let Some(thread) = service.dead_thread() {
                    return Ending::failed(format!("the thread '{thread}' has died; shutting down"));
                }
                if service.ended() {
                    return Ending::failed("the journal cannot be written; shutting down");
                }
                notifier.alive(service.since_last_pass());
            }
        }
    }
}

/// Reads the certificate anew; one that is of no use changes nothing.
fn reload(certificate: Option<&Arc<Certificate>>) {
    let Some(certificate) = certificate else {
        tracing::info!("SIGHUP received; nothing to read anew, since TLS is not used");
        return;
    };
    let path = certificate.files().cert.display();
    match certificate.reload() {
        Ok(()) => tracing::info!("SIGHUP received; new connections use the certificate that is in {path} now"),
        Err(error) => tracing::error!("SIGHUP received; {error}; the certificate that was read before stays in use"),
    }
}
