//! A daemon on a small virtual cluster, for tests.
// Every test binary compiles all of it and uses a part.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod chromium;
pub mod live;
pub mod wire;

use arles_api::JobRequest;
use arles_core::engine::Engine;
use arles_core::estimate::Estimator;
use arles_core::scheduler::Settings;
use arles_core::{Cluster, Library, Tenant, Time};
use arles_daemon::access::{Caller, Scope};
use arles_daemon::entry::JournalHeader;
use arles_daemon::service::{Components, Options, Service};
use arles_daemon::store::{Store, StoreError};
use arles_engine::Virtual;
use arles_learn::Catalog;
use arles_sim::measure::Noise;
use arles_sim::truth::{Oracle, Truth};
use arles_sim::world::WorldOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of its own, gone with it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("arles-test-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An hour in a second.
pub fn fast() -> Options {
    Options { speed: 3600.0, ..Options::default() }
}

pub fn admin() -> Caller {
    Caller::loopback()
}

/// A caller with a token of this tenant.
pub fn of(tenant: &str) -> Caller {
    Caller {
        name: tenant.to_owned(),
        id: tenant.to_owned(),
        scope: Scope::Tenant,
        tenant: Some(tenant.to_owned()),
        address: None,
        job: None,
    }
}

/// GPUs by kind.
pub fn cluster(gpus: &[(&str, u32)]) -> Cluster {
    let kinds = gpus.iter().map(|(name, _)| Library::builtin().kind(name).expect("a known kind").clone()).collect();
    let counts: Vec<u32> = gpus.iter().map(|(_, count)| *count).collect();
    Cluster::uniform(kinds, &counts, 4).expect("a cluster")
}

pub fn header(cluster: Cluster, tenants: &[&str], policy: &str) -> JournalHeader {
    let mut settings = Settings::with_round(60.0);
    settings.survey_seconds = 120.0;
    settings.lease_seconds = 480.0;
    JournalHeader {
        cluster,
        settings,
        tenants: tenants.iter().map(|name| Tenant { name: (*name).to_owned(), weight: 1.0 }).collect(),
        policy: policy.to_owned(),
        workloads: Library::builtin().workloads().iter().map(|w| w.name.clone()).collect(),
        restart_seconds: 10.0,
        begun: Time::from_seconds(1_700_000_000.0),
    }
}

/// Starts a daemon on a folder, with a virtual engine in this process and exact estimates.
pub fn start(folder: &Path, header: &JournalHeader, options: Options) -> Service {
    start_with(folder, header, options, "oracle", |truth| Box::new(Oracle(truth)))
}

/// The same with another estimator.
pub fn start_with(
    folder: &Path,
    header: &JournalHeader,
    options: Options,
    estimator_name: &str,
    estimator: impl FnOnce(Arc<Truth>) -> Box<dyn Estimator> + Send + 'static,
) -> Service {
    let catalog = folder.join("catalog.db");
    start_from(folder, header, options, &header.workloads, catalog, estimator_name, |truth, _| estimator(truth))
}

/// The same with another catalog, an estimator that is made from it, and a virtual engine that plays workloads as these.
pub fn start_from(
    folder: &Path,
    header: &JournalHeader,
    options: Options,
    played: &[String],
    catalog: PathBuf,
    estimator_name: &str,
    estimator: impl FnOnce(Arc<Truth>, &Catalog) -> Box<dyn Estimator> + Send + 'static,
) -> Service {
    let store = Store::open(folder).expect("a journal");
    let made = start_on(store, header, options, played, catalog, estimator_name, estimator, |engine| Box::new(engine));
    made.expect("a service")
}

/// Starts a daemon with exact estimates, or says why it does not start; `engine` may be wrapped.
pub fn try_start(
    folder: &Path,
    header: &JournalHeader,
    options: Options,
    engine: impl FnOnce(Virtual) -> Box<dyn Engine>,
) -> Result<Service, StoreError> {
    let store = Store::open(folder)?;
    let (played, catalog) = (header.workloads.clone(), folder.join("catalog.db"));
    let oracle = |truth, _: &Catalog| -> Box<dyn Estimator> { Box::new(Oracle(truth)) };
    start_on(store, header, options, &played, catalog, "oracle", oracle, engine)
}

#[allow(clippy::too_many_arguments, reason = "the other starts fill them in")]
fn start_on(
    mut store: Store,
    header: &JournalHeader,
    options: Options,
    played: &[String],
    catalog: PathBuf,
    estimator_name: &str,
    estimator: impl FnOnce(Arc<Truth>, &Catalog) -> Box<dyn Estimator> + Send + 'static,
    engine_of: impl FnOnce(Virtual) -> Box<dyn Engine>,
) -> Result<Service, StoreError> {
    if store.header()?.is_none() {
        store.set_header(header)?;
    }
    let truth = Arc::new(Truth::new(header.cluster.kinds(), played, None).expect("a truth"));
    let boot = Time::from_seconds(arles_daemon::clock::wall().seconds()).0;
    let engine =
        Virtual::new(header.cluster.clone(), Arc::clone(&truth), WorldOptions::default(), Noise::default(), boot);
    let parts = Components {
        engine: engine_of(engine),
        engine_name: "virtual".into(),
        estimator: Box::new(move |catalog| Ok(estimator(truth, catalog))),
        estimator_name: estimator_name.into(),
        catalog,
    };
    Service::start(store, parts, options)
}

pub fn request(tenant: &str, workload: &str, gang: u32, steps: f64) -> JobRequest {
    JobRequest {
        tenant: Some(tenant.to_owned()),
        workload: Some(workload.to_owned()),
        gang,
        steps: Some(steps),
        ..JobRequest::default()
    }
}

/// Waits until something holds, for at most a minute.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("waited a minute in vain: {what}");
}

pub fn block<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}
