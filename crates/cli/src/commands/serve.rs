//! `arles serve`: the scheduler as a service.

use crate::engines::{self, EngineSetup};
use crate::fault::{EXIT_CODES, Failed, Hinted};
use crate::settings::{SERVE, ServeSettings, SettingFlags, Settings};
use crate::setup::Setup;
use crate::{cluster, files, logging};
use anyhow::{Context, Result, anyhow};
use arles_api as api;
use arles_core::scheduler::Settings as Pace;
use arles_core::{Cluster, Library};
use arles_daemon::access::Scope;
use arles_daemon::clock;
use arles_daemon::desk::fresh_token;
use arles_daemon::entry::JournalHeader;
use arles_daemon::http::{self, Tls};
use arles_daemon::service::catalog::CATALOG_FILE;
use arles_daemon::service::{Components, Options, Service};
use arles_daemon::store::Store;
use arles_learn::Catalog;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Run the scheduler as a service, with an API and a dashboard
#[derive(Args)]
#[command(after_help = format!("{}\n\n{EXIT_CODES}", engines::help()))]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: SettingFlags<SERVE>,
}

impl Serve {
    fn settings(&self) -> Result<Settings> {
        let mut settings = self.flags.settings()?;
        // Whoever allows more in the long run allows it at once too.
        settings.serve.burst = settings.serve.burst.max(settings.serve.requests_per_second);
        if settings.serve.tls_certificate.is_some() != settings.serve.tls_key.is_some() {
            let hint = "give both --tls-certificate FILE and --tls-key FILE, or neither";
            return Err(Hinted::new("TLS needs a certificate and its key, and only one of them is set", hint).into());
        }
        Ok(settings)
    }

    pub(crate) fn run(&self, _: &mut dyn Write) -> Result<()> {
        let began = Instant::now();
        let settings = self.settings()?;
        logging::start(settings.serve.log_format, settings.serve.log_level);
        let mut setup = Setup::new(&settings)?;
        if settings.serve.engine.name == "local" {
            setup.cluster = this_machine(&settings)?;
        }
        let mut store = Store::open(&settings.serve.state)?;
        let header = founded(&mut store, &setup.cluster, &settings.serve)?;
        let token = first_token(&mut store, &settings.serve)?;
        // Engine and estimator begin with the journal's first cluster and are told what became of it.
        let configured = std::mem::replace(&mut setup.cluster, header.cluster.clone());
        let truth = Arc::new(setup.truth(&header.workloads)?);
        let (estimation, kinds) = (settings.serve.estimator, header.cluster.kinds().to_vec());
        let (workloads, oracle) = (header.workloads.clone(), Arc::clone(&truth));
        let estimator = move |catalog: &Catalog| {
            estimation.for_workloads(&kinds, &workloads, catalog, &oracle).map_err(|error| format!("{error:#}"))
        };
        let parts = Components {
            engine: (settings.serve.engine.make)(&EngineSetup { settings: &settings, setup: &setup, truth: &truth })?,
            engine_name: settings.serve.engine.name.to_owned(),
            estimator: Box::new(estimator),
            estimator_name: estimation.name().to_owned(),
            catalog: settings.serve.catalog.clone().unwrap_or_else(|| settings.serve.state.join(CATALOG_FILE)),
        };
        let options = Options {
            speed: settings.serve.speed,
            keep_journal: settings.serve.keep_journal,
            snapshot_entries: settings.serve.snapshot_entries,
            grace_seconds: settings.serve.grace_seconds,
        };
        let service = Service::start(store, parts, options)?;
        serve(service, &settings.serve, &configured, token.as_deref(), began)
    }
}

/// The GPUs of this machine, found or declared, a node for each kind.
fn this_machine(settings: &Settings) -> Result<Cluster> {
    let counts = match &settings.serve.declare {
        Some(counts) => counts.clone(),
        None => engines::found_gpus()?.kinds.iter().map(|(kind, cards)| (kind.clone(), cards.len() as u32)).collect(),
    };
    cluster::build(&counts, u32::MAX, &settings.kinds).map_err(|e| anyhow!("--declare: {e}"))
}

/// The journal's beginning; of a new journal it is what the settings say.
fn founded(store: &mut Store, cluster: &Cluster, settings: &ServeSettings) -> Result<JournalHeader> {
    let names: Vec<String> = Library::builtin().workloads().iter().map(|workload| workload.name.clone()).collect();
    let Some(header) = store.header()? else {
        let mut pace = Pace::with_round(settings.round_seconds);
        pace.survey_seconds = settings.survey_seconds;
        pace.lease_seconds = 4.0 * settings.survey_seconds;
        let header = JournalHeader {
            cluster: cluster.clone(),
            settings: pace,
            tenants: settings.tenants.clone(),
            policy: settings.policy.name.to_owned(),
            workloads: names,
            restart_seconds: settings.restart_seconds,
            begun: clock::wall(),
        };
        store.set_header(&header)?;
        return Ok(header);
    };
    if header.settings.round_seconds != settings.round_seconds {
        tracing::warn!("rounds stay {} s long, as this journal was created with", header.settings.round_seconds);
    }
    Ok(header)
}

/// Makes a token for whoever comes first, unless none is needed or there is one; returns where it is kept.
fn first_token(store: &mut Store, settings: &ServeSettings) -> Result<Option<PathBuf>> {
    let path = settings.state.join("admin.token");
    if !store.tokens()?.is_empty() {
        return Ok(path.is_file().then_some(path));
    }
    let (token, secret) = fresh_token("admin", Scope::Admin, None);
    files::write_private(&path, &format!("{secret}\n"))?;
    store.put_token(&token)?;
    Ok(Some(path))
}

fn serve(
    service: Service,
    settings: &ServeSettings,
    configured: &Cluster,
    token: Option<&std::path::Path>,
    began: Instant,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
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
        log_requests: settings.log_requests,
        ..http::Options::default()
    };
    let desk = service.desk();
    let stopped = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(settings.listen).await.map_err(|e| {
            Failed(format!("cannot listen on {}: {e}; give another address with --listen", settings.listen))
        })?;
        let address = listener.local_addr()?;
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}");
        std::fs::write(settings.state.join("address"), &url).context("cannot write to the state directory")?;
        add_tenants(&desk, settings).await?;
        for change in desk.follow_configuration(configured).await.map_err(|e| anyhow!("the configured cluster: {e}"))? {
            tracing::info!("the configuration has changed: {change}");
        }
        report_start(&service, settings, &url, token, began);
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let server = tokio::spawn(http::serve(desk, options, listener, stopping));
        let why = until_stopped(&service).await;
        tracing::info!("{why}");
        let _ = stop.send(true);
        server.await.context("the HTTP server failed")??;
        anyhow::Ok(())
    });
    let closed = service.stop();
    runtime.shutdown_timeout(Duration::from_secs(1));
    stopped?;
    closed?;
    tracing::info!("shutdown complete");
    Ok(())
}

/// Tenants of the settings that the journal does not know yet.
async fn add_tenants(desk: &arles_daemon::desk::Desk, settings: &ServeSettings) -> Result<()> {
    let who = arles_daemon::access::Caller::loopback();
    let known = desk.view(&who).tenants().tenants;
    for tenant in &settings.tenants {
        if known.iter().all(|known| known.name != tenant.name) {
            let request = api::TenantRequest { weight: tenant.weight };
            desk.set_tenant(&who, &tenant.name, request).await.map_err(|e| anyhow!("{e}"))?;
        }
    }
    Ok(())
}

fn report_start(
    service: &Service,
    settings: &ServeSettings,
    url: &str,
    token: Option<&std::path::Path>,
    began: Instant,
) {
    let desk = service.desk();
    let who = arles_daemon::access::Caller::loopback();
    let server = desk.view(&who).server();
    tracing::info!(
        "{}; policy {}, engine {} at {}× speed, estimator {}",
        cluster::in_words(&desk.cluster()),
        server.policy,
        server.engine,
        server.speed,
        server.estimator
    );
    tracing::info!(
        "{} live jobs; journal in {}, {} entries replayed; started in {:.2} s",
        server.live_jobs,
        settings.state.display(),
        service.replayed,
        began.elapsed().as_secs_f64()
    );
    match (settings.open_loopback, token) {
        (true, _) => tracing::info!("requests from this machine need no token"),
        (false, Some(path)) => tracing::info!("the admin token is in {}", path.display()),
        (false, None) => {}
    }
    tracing::info!("ready: dashboard and API at {url}");
}

/// Waits for a signal, or for the loop to fail; returns why.
async fn until_stopped(service: &Service) -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let kinds = [
        (SignalKind::terminate(), "SIGTERM received; shutting down"),
        (SignalKind::interrupt(), "SIGINT received; shutting down"),
    ];
    for (kind, why) in kinds {
        let Ok(mut signals) = signal(kind) else { return "cannot install signal handlers; shutting down" };
        let told = told.clone();
        tokio::spawn(async move {
            signals.recv().await;
            let _ = told.send(why).await;
        });
    }
    loop {
        match tokio::time::timeout(Duration::from_millis(200), heard.recv()).await {
            Ok(why) => return why.unwrap_or("shutting down"),
            Err(_) if service.ended() => return "the journal cannot be written; shutting down",
            Err(_) => {}
        }
    }
}
