//! `arles serve`: the scheduler as a service.

mod door;
mod intake;
mod schedule;
mod standby;

use crate::engines::{self, EngineSetup};
use crate::fault::{EXIT_CODES, Failed, Hinted};
use crate::notify::Notifier;
use crate::settings::{self, SERVE, ServeSettings, SettingFlags, Settings};
use crate::setup::Setup;
use crate::{cluster, files, logging};
use anyhow::{Context, Result, anyhow};
use arles_core::scheduler::Settings as Pace;
use arles_core::{Cluster, Library};
use arles_daemon::access::Scope;
use arles_daemon::clock;
use arles_daemon::desk::{ConfiguredSharing, Desk, fresh_token};
use arles_daemon::entry::JournalHeader;
use arles_daemon::http::Door;
use arles_daemon::lease::{self, Term};
use arles_daemon::service::catalog::CATALOG_FILE;
use arles_daemon::service::{Components, Options, Service};
use arles_daemon::store::{Retention, Store};
use arles_engine::intake::Intake;
use arles_engine::{Slices, unmake_left_over};
use arles_learn::Catalog;
use clap::Args;
use schedule::Schedule;
use std::cell::OnceCell;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The policy of a new journal where power limits are offered and nobody named a policy.
const FRUGAL: &str = "fair-energy";

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
        // Whoever offers power limits wants them chosen, and the general default knows none.
        if !settings.names("serve.policy") && !settings.power_limits.is_empty() {
            settings.serve.policy = settings::policy(FRUGAL).map_err(|e| anyhow!("{e}"))?;
        }
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
        files::signals_are_handled();
        let _log = logging::start(settings.serve.log_format, settings.serve.log_level);
        let door = door::options(&settings.serve)?;
        let mut setup = Setup::new(&settings)?;
        // Cards are whole again when the daemon has ended.
        let _slices = mig_slices(&settings.serve)?;
        if settings.serve.engine.name == "local" {
            setup.cluster = this_machine(&settings)?;
        }
        if settings.serve.engine.name == "slurm" {
            setup.cluster = engines::slurm_cluster(&settings)?;
        }
        if settings.serve.engine.name == "kubernetes" {
            setup.cluster = engines::kubernetes_cluster(&settings)?;
        }
        if settings.serve.standby {
            return standby::run(&settings, setup, door);
        }
        let store = Store::open(&settings.serve.state)?;
        lease::refuse_shared(&settings.serve.state)?;
        let runtime = runtime()?;
        let door = door::open(&runtime, &settings.serve, door, None)?;
        let started = start(&settings, setup, store, None)?;
        serve(runtime, started, door, None, &settings.serve, began)
    }
}

/// Requests are served by a quarter of the processors: one that is kept busy for a moment then keeps few others waiting.
fn runtime() -> Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = (processors / 4).clamp(2, 8);
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?)
}

/// A service that runs.
struct Started {
    service: Service,
    /// What the settings say the cluster is.
    configured: Cluster,
    /// Where the first token is kept.
    token: Option<PathBuf>,
    /// Jobs that the engine finds itself.
    intake: Option<Intake>,
    /// Prices and budgets by the calendar.
    schedule: Schedule,
}

/// Brings the journal's state back and starts the service.
fn start(settings: &Settings, mut setup: Setup<'_>, mut store: Store, term: Option<Arc<Term>>) -> Result<Started> {
    let schedule = Schedule::open(settings)?;
    let folder = store.path().parent().unwrap_or(&settings.serve.state).to_owned();
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
    let engine_setup = EngineSetup { settings, setup: &setup, truth: &truth, intake: OnceCell::new() };
    let parts = Components {
        engine: (settings.serve.engine.make)(&engine_setup)?,
        engine_name: settings.serve.engine.name.to_owned(),
        estimator: Box::new(estimator),
        estimator_name: estimation.name().to_owned(),
        catalog: settings.serve.catalog.clone().unwrap_or_else(|| folder.join(CATALOG_FILE)),
    };
    let options = Options {
        speed: settings.serve.speed,
        keep_journal: settings.serve.keep_journal,
        snapshot_entries: settings.serve.snapshot_entries,
        grace_seconds: settings.serve.grace_seconds,
        retention: Retention {
            jobs_seconds: settings.serve.retention_jobs_seconds,
            samples_seconds: settings.serve.retention_samples_seconds,
            log_seconds: settings.serve.retention_log_seconds,
        },
        accept_clock: settings.serve.accept_clock,
        estimates: settings.serve.estimates,
        energy_source: engines::energy_source(settings),
        term,
    };
    Notifier::from_environment().status("reading the journal");
    let service = Service::start(store, parts, options)?;
    back_up_on_schedule(&settings.serve, &folder);
    Ok(Started { service, configured, token, intake: engine_setup.intake.into_inner(), schedule })
}

/// Divides cards as the settings say; what an earlier daemon left divided is made whole otherwise, where nobody is on it.
fn mig_slices(settings: &ServeSettings) -> Result<Option<Slices>> {
    match &settings.mig_layout {
        Some(layout) if settings.engine.name == "local" && settings.declare.is_none() => {
            let slices = Slices::make(layout).map_err(|sentence| anyhow!("--mig-layout: {sentence}"))?;
            tracing::info!("cards of kind {} are divided into {}", layout.kind, layout.slices.join(" + "));
            Ok(Some(slices))
        }
        Some(_) => {
            let hint = "use it with --engine local and without --declare: it divides the NVIDIA cards of this machine";
            Err(Hinted::new("--mig-layout has no cards to divide", hint).into())
        }
        None => {
            unmake_left_over().iter().for_each(|sentence| tracing::warn!("{sentence}"));
            Ok(None)
        }
    }
}

/// The GPUs of this machine, found or declared, a node for each kind.
fn this_machine(settings: &Settings) -> Result<Cluster> {
    let counts = match &settings.serve.declare {
        Some(counts) => counts.clone(),
        None => engines::found_gpus()?.kinds.iter().map(|(kind, cards)| (kind.clone(), cards.len() as u32)).collect(),
    };
    let cluster = cluster::build(&counts, u32::MAX, &settings.kinds).map_err(|e| anyhow!("--declare: {e}"))?;
    cluster::limited(cluster, &settings.power_limits).map_err(|e| anyhow!("--power-limits: {e}"))
}

/// The journal's beginning; of a new journal it is what the settings say.
fn founded(store: &mut Store, cluster: &Cluster, settings: &ServeSettings) -> Result<JournalHeader> {
    let names: Vec<String> = Library::builtin().workloads().iter().map(|workload| workload.name.clone()).collect();
    let Some(header) = store.header()? else {
        let mut pace = Pace::with_round(settings.round_seconds);
        pace.survey_seconds = settings.survey_seconds;
        pace.epsilon = settings.epsilon;
        pace.half_life_seconds = settings.half_life_seconds;
        pace.refill = settings.refill;
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

/// What is said when everything runs.
struct Announcement<'s> {
    settings: &'s ServeSettings,
    token: Option<&'s std::path::Path>,
    began: Instant,
}

fn serve(
    runtime: Runtime,
    started: Started,
    door: Door,
    term: Option<&Term>,
    settings: &ServeSettings,
    began: Instant,
) -> Result<()> {
    let Started { service, configured, token, intake, schedule } = started;
    let announced = Announcement { settings, token: token.as_deref(), began };
    let desk = service.desk();
    let stopped = runtime.block_on(async {
        let signals = door::Signals::take()?;
        follow_sharing(&desk, settings).await?;
        for change in
            desk.follow_configuration(&configured).await.map_err(|e| anyhow!("the configured cluster: {e}"))?
        {
            tracing::info!("the configuration has changed: {change}");
        }
        let (url, certificate) = (door.url(), door.certificate());
        let (stop, stopping) = tokio::sync::watch::channel(false);
        if let Some(intake) = intake {
            let owed_by = match settings.engine.name {
                "slurm" if settings.slurm_shares => intake::OwedBy::Slurm,
                "kubernetes" if settings.kubernetes_queues => intake::OwedBy::Queues,
                _ => intake::OwedBy::Nobody,
            };
            tokio::spawn(intake::follow(desk.clone(), intake, owed_by));
        }
        tokio::spawn(schedule.follow(desk.clone()));
        let mut server = tokio::spawn(door.serve(desk, stopping));
        std::fs::write(settings.state.join("address"), &url).context("cannot write to the state directory")?;
        announced.report(&service, &url);
        let mut notifier = Notifier::from_environment();
        notifier.ready(&format!("dashboard and API at {url}"));
        let parts = door::Watched { service: &service, certificate: certificate.as_ref(), server: &mut server, term };
        let ending = door::until_stopped(signals, parts, &mut notifier).await;
        tracing::info!("{}", ending.why);
        // Another leads: nothing is finished here, and nothing of this process may go on.
        if term.is_some_and(Term::is_lost) {
            return Err(standby::begin_again());
        }
        notifier.stopping(&ending.why);
        let _ = stop.send(true);
        if !server.is_finished() {
            server.await.context("the HTTP server failed")?;
        }
        anyhow::Ok(ending)
    });
    let closed = service.stop();
    runtime.shutdown_timeout(Duration::from_secs(1));
    let ending = stopped?;
    closed.map_err(|error| Failed(format!("{error}; the log says more, and a restart is back at the last sync")))?;
    if ending.failed {
        let rest = "the log says more; the journal is closed, and a restart goes on from it";
        return Err(Failed(format!("{}; {rest}", ending.why)).into());
    }
    if let Some(term) = term {
        term.release();
    }
    tracing::info!("shutdown complete");
    Ok(())
}

/// Copies the journal every so often, on a thread that ends with the process: a copy that is not finished has no name yet.
fn back_up_on_schedule(settings: &ServeSettings, state: &std::path::Path) {
    let Some(folder) = settings.backup_to.clone() else { return };
    let (state, keep, every) = (state.to_owned(), settings.backup_keep, settings.backup_every_seconds);
    let run = move || {
        loop {
            match super::backup::rotate(&state, &folder, keep) {
                Ok(done) => tracing::info!("backup {} is written and verified", done.file.display()),
                Err(error) => tracing::error!("no backup was made: {error}"),
            }
            std::thread::sleep(Duration::from_secs_f64(every));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("backup".into()).spawn(run) {
        tracing::error!("no backups are made: a thread for them cannot be started ({error})");
    }
}

/// Says what of policy, tenants and quotas is otherwise in the journal than in the settings; new tenants and quotas are taken over. What nobody
/// wrote down is not compared: defaults are for new journals.
async fn follow_sharing(desk: &Desk, settings: &ServeSettings) -> Result<()> {
    let wanted = ConfiguredSharing {
        policy: settings.names("serve.policy").then(|| settings.policy.name.to_owned()),
        tenants: settings.names("serve.tenants").then(|| settings.tenants.clone()),
        quotas: settings.quotas.clone(),
    };
    let followed = desk.follow_sharing(&wanted).await.map_err(|e| anyhow!("{e}"))?;
    followed.done.iter().for_each(|text| tracing::info!("the configuration has changed: {text}"));
    followed.differs.iter().for_each(|text| tracing::warn!("{text}"));
    Ok(())
}

impl Announcement<'_> {
    fn report(&self, service: &Service, url: &str) {
        let Self { settings, token, began } = self;
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: Serve,
    }

    #[test]
    fn who_offers_power_limits_has_a_policy_that_chooses_them() {
        let policy = |flags: &[&str]| {
            let line = Line::try_parse_from(std::iter::once(&"serve").chain(flags)).expect("sound flags");
            line.serve.settings().expect("sound settings").serve.policy.name
        };
        assert_eq!(policy(&[]), "oef-coop");
        assert_eq!(policy(&["--power-limits", "v100@200W"]), "fair-energy");
        assert_eq!(policy(&["--power-limits", "v100@200W", "--policy", "oef-coop"]), "oef-coop", "unless it is named");
    }
}
