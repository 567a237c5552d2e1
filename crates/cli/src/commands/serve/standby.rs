//! `arles serve --standby`: waits until nobody leads, then leads.
//!
//! A leader that is deposed never becomes a standby within its process: the process begins again, so that no thread of the old term is left to act.

use super::door::cannot_listen;
use super::{door, runtime, serve, start};
use crate::fault::Failed;
use crate::settings::{ServeSettings, Settings};
use crate::setup::Setup;
use anyhow::{Context, Result};
use arles_daemon::http::{self, Standby};
use arles_daemon::lease::{Candidate, Outlook, Term};
use arles_daemon::store::Store;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Stands by, leads, and ends when it is told to.
pub(super) fn run(settings: &Settings, setup: Setup<'_>, http: http::Options) -> Result<()> {
    let options = &settings.serve;
    let listener = TcpListener::bind(options.listen).map_err(|e| cannot_listen(options, &e))?;
    listener.set_nonblocking(true)?;
    let url = advertised(options, listener.local_addr()?);
    let mut candidate = Candidate::new(&options.state, &url, Duration::from_secs_f64(options.lease_seconds))?;
    let waiting = Waiting::open(options, http.clone(), &listener, &url)?;
    let Some(term) = waiting.wait(&mut candidate)? else {
        tracing::info!("shutdown complete");
        return Ok(());
    };
    let began = Instant::now();
    tracing::info!("nobody leads; this daemon does from now on, in term {}", term.number());
    let store = Store::open(term.folder())?;
    let started = start(settings, setup, store, Some(Arc::clone(&term)))?;
    if waiting.told_to_stop.load(Ordering::Acquire) {
        started.service.stop()?;
        term.release();
        return Ok(());
    }
    waiting.close();
    let runtime = runtime()?;
    let door = door::open(&runtime, options, http, Some(listener))?;
    serve(runtime, started, door, Some(&term), options, began)
}

/// Where clients reach this daemon: as the settings say, or where it listens; a name where it listens everywhere.
fn advertised(settings: &ServeSettings, address: SocketAddr) -> String {
    let url = url_of(settings, address);
    match &settings.advertise {
        Some(url) => url.clone(),
        None if address.ip().is_unspecified() => {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let scheme = url.split("://").next().unwrap_or("http");
            format!("{scheme}://{}:{}", host.trim(), address.port())
        }
        None => url,
    }
}

/// The server of a daemon that stands by.
struct Waiting {
    runtime: Runtime,
    standby: Standby,
    told_to_stop: Arc<AtomicBool>,
    /// Dropped, it would end the server.
    _stop: tokio::sync::watch::Sender<bool>,
}

impl Waiting {
    fn open(settings: &ServeSettings, options: http::Options, listener: &TcpListener, url: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (standby, told_to_stop) = (Standby::default(), Arc::new(AtomicBool::new(false)));
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let listener = listener.try_clone().context("the listening socket")?;
        let (backend, told) = (standby.clone(), Arc::clone(&told_to_stop));
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            options.check(listener.local_addr()?)?;
            tokio::spawn(async move {
                if let Err(error) = http::serve(backend, options, listener, stopping).await {
                    tracing::error!("{error}");
                }
            });
            use tokio::signal::unix::{SignalKind, signal};
            for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
                let (mut signals, told) = (signal(kind)?, Arc::clone(&told));
                tokio::spawn(async move {
                    signals.recv().await;
                    told.store(true, Ordering::Release);
                });
            }
            anyhow::Ok(())
        })?;
        tracing::info!("standing by at {url}; the state folder is {}", settings.state.display());
        Ok(Self { runtime, standby, told_to_stop, _stop: stop })
    }

    /// Waits for the lead; `None` when told to stop before.
    fn wait(&self, candidate: &mut Candidate) -> Result<Option<Arc<Term>>> {
        let mut known = None;
        while !self.told_to_stop.load(Ordering::Acquire) {
            let outlook = candidate.look().unwrap_or_else(|error| {
                // A file server may be away for a while; nobody is judged by that.
                tracing::warn!("{error}; looking again");
                Outlook::Wait(known.clone())
            });
            match outlook {
                Outlook::Vacant => {
                    self.standby.set_leader(None);
                    if let Some(term) = candidate.take()? {
                        return Ok(Some(term));
                    }
                }
                Outlook::Wait(leader) => {
                    if leader.is_some() && leader != known {
                        tracing::info!("the leader is {}", leader.as_deref().unwrap_or_default());
                        known.clone_from(&leader);
                    }
                    self.standby.set_leader(leader);
                }
            }
            std::thread::sleep(candidate.pause());
        }
        Ok(None)
    }

    /// Leaves the listening socket to the service.
    fn close(self) {
        self.runtime.shutdown_background();
    }
}

fn url_of(settings: &ServeSettings, address: SocketAddr) -> String {
    let scheme = if settings.tls_certificate.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// Starts this program again, in this process; comes back only if that fails.
pub(super) fn begin_again() -> anyhow::Error {
    let mut arguments = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).exec();
    Failed(format!("cannot start again as a standby: {error}; start the daemon again")).into()
}
