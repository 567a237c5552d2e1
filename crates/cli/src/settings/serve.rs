//! Settings of the daemon.

use crate::estimation::Estimation;
use crate::logging::LogFormat;
use arles_core::Tenant;
use arles_core::allocate::{POLICIES, PolicyEntry};
use arles_core::job::check_weight;
use std::net::SocketAddr;
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;

/// What a daemon is made from, beside the cluster.
#[derive(Clone)]
pub(crate) struct ServeSettings {
    pub(crate) state: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) engine: &'static str,
    pub(crate) speed: f64,
    pub(crate) world: Option<PathBuf>,
    pub(crate) policy: &'static PolicyEntry,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) round_seconds: f64,
    pub(crate) survey_seconds: f64,
    pub(crate) restart_seconds: f64,
    pub(crate) grace_seconds: f64,
    pub(crate) estimator: Estimation,
    pub(crate) open_loopback: bool,
    pub(crate) tls_certificate: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) requests_per_second: f64,
    pub(crate) burst: f64,
    pub(crate) body_limit: usize,
    pub(crate) connections: usize,
    pub(crate) log_requests: bool,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: LevelFilter,
    pub(crate) snapshot_entries: u64,
    pub(crate) keep_journal: bool,
}

impl ServeSettings {
    /// Before the built-in file is read.
    pub(super) fn blank() -> Self {
        Self {
            state: PathBuf::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            engine: "virtual",
            speed: 1.0,
            world: None,
            policy: &POLICIES[0],
            tenants: Vec::new(),
            round_seconds: 0.0,
            survey_seconds: 0.0,
            restart_seconds: 0.0,
            grace_seconds: 0.0,
            estimator: Estimation::Oracle,
            open_loopback: false,
            tls_certificate: None,
            tls_key: None,
            requests_per_second: 0.0,
            burst: 0.0,
            body_limit: 0,
            connections: 0,
            log_requests: false,
            log_format: LogFormat::Text,
            log_level: LevelFilter::INFO,
            snapshot_entries: 0,
            keep_journal: false,
        }
    }
}

/// Reads `127.0.0.1:7117`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim().replace("localhost", "127.0.0.1");
    text.parse()
        .map_err(|_| format!("'{text}' is no address; expected ADDRESS:PORT such as 127.0.0.1:7117 or [::1]:7117"))
}

/// Reads the name of an engine.
pub(super) fn engine(text: &str) -> Result<&'static str, String> {
    match text.trim() {
        "virtual" => Ok("virtual"),
        other => Err(format!("there is no engine '{other}'; expected virtual")),
    }
}

/// Reads `research:2,vision`.
pub(super) fn tenants(text: &str) -> Result<Vec<Tenant>, String> {
    let mut tenants: Vec<Tenant> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (name, weight) = part.rsplit_once(':').map_or((part, "1"), |(name, weight)| (name.trim(), weight.trim()));
        if name.is_empty() || name.len() > 200 {
            return Err(format!("'{part}' names no tenant; expected NAME or NAME:WEIGHT, such as research:2,vision"));
        }
        let weight = match weight.parse().ok().and_then(|weight| check_weight(weight).ok()) {
            Some(weight) => weight,
            None => {
                return Err(format!(
                    "'{weight}' in '{part}' is no weight; expected a positive number such as {name}:2"
                ));
            }
        };
        if tenants.iter().any(|tenant| tenant.name == name) {
            return Err(format!("tenant '{name}' is listed twice in '{text}'"));
        }
        tenants.push(Tenant { name: name.to_owned(), weight });
    }
    Ok(tenants)
}
