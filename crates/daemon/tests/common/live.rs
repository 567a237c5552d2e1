//! A whole daemon in the process of the test: a virtual cluster, the service, and its HTTP server on a free port of this machine.

pub use super::wire::{self, Answer};
use super::{Folder, wait_until};
use arles_api::TokenRequest;
use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Kind, KindId, Profile};
use arles_daemon::access::Scope;
use arles_daemon::desk::Desk;
use arles_daemon::entry::JournalHeader;
use arles_daemon::http::{self, serve};
use arles_daemon::service::{Options, Service};
use arles_sim::truth::Oracle;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// An estimator that is up to a third off until a cell is measured, so that estimates and measurements differ as they do in life.
struct Doubtful {
    oracle: Oracle,
    measured: BTreeMap<(RateQuery, KindId), (f64, f64)>,
}

impl Doubtful {
    /// A factor from 0.7 to 1.3 that depends on the cell alone.
    fn factor(ask: &RateQuery, kind: usize) -> f64 {
        let partner = ask.partner.map_or(0, |partner| u64::from(partner.0) + 1);
        let mut x = u64::from(ask.workload.0) << 40 | u64::from(ask.gang) << 24 | partner << 8 | kind as u64;
        x = (x ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
        0.7 + 0.6 * ((x >> 40) as f64 / (1_u64 << 24) as f64)
    }
}

impl Estimator for Doubtful {
    fn estimate(&self, ask: &RateQuery) -> RateRow {
        let mut row = self.oracle.estimate(ask);
        for (j, cell) in row.cells.iter_mut().enumerate() {
            let Some(cell) = cell else { continue };
            *cell = match self.measured.get(&(*ask, KindId(j as u16))) {
                Some(&(rate, watts)) => {
                    Estimate { rate, spread_rate: rate.min(cell.spread_rate), watts, standard_error: 0.03, ..*cell }
                }
                None => {
                    let off = Self::factor(ask, j);
                    let (rate, spread_rate) = (cell.rate * off, cell.spread_rate * off);
                    Estimate { rate, spread_rate, standard_error: 0.2, source: Source::Initial, ..*cell }
                }
            };
        }
        row
    }

    fn observe(&mut self, seen: &Observation) -> Vec<RateQuery> {
        if seen.spread.apart() {
            return Vec::new();
        }
        // It believes a measurement in part, so that its errors become less and not nothing.
        let row = self.estimate(&seen.ask);
        let Some(known) = row.cells.get(seen.kind.index()).copied().flatten() else { return Vec::new() };
        let rate = known.rate + 0.7 * (seen.rate - known.rate);
        self.measured.insert((seen.ask, seen.kind), (rate, seen.watts));
        vec![seen.ask]
    }

    fn add_kind(&mut self, kind: &Kind) {
        self.oracle.add_kind(kind);
    }

    fn add_workload(&mut self, name: &str, profile: &Profile) {
        self.oracle.add_workload(name, profile);
    }

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(Self { oracle: Oracle(Arc::clone(&self.oracle.0)), measured: self.measured.clone() })
    }
}

/// A daemon; it ends with the value.
pub struct Live {
    pub at: SocketAddr,
    pub desk: Desk,
    /// Secret of a token of scope admin.
    pub admin: String,
    service: Option<Service>,
    stop: watch::Sender<bool>,
    runtime: Option<tokio::runtime::Runtime>,
    folder: Folder,
}

impl Live {
    /// Starts one on a virtual cluster, `speed` times as fast as the wall's clock, with tokens and without a limit of requests.
    pub fn start(header: &JournalHeader, speed: f64) -> Self {
        let options = http::Options { requests_per_second: f64::INFINITY, ..http::Options::default() };
        Self::start_with(header, speed, options)
    }

    pub fn start_with(header: &JournalHeader, speed: f64, options: http::Options) -> Self {
        let folder = Folder::new();
        let doubtful =
            |truth| -> Box<dyn Estimator> { Box::new(Doubtful { oracle: Oracle(truth), measured: BTreeMap::new() }) };
        let service = Options { speed, ..Options::default() };
        let service = super::start_with(&folder.0, header, service, "doubtful", doubtful);
        Self::serve(folder, service, options)
    }

    /// The HTTP server for a service whose journal is in this folder.
    pub fn serve(folder: Folder, service: Service, options: http::Options) -> Self {
        let desk = service.desk();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let at = listener.local_addr().expect("an address");
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(serve(desk.clone(), options, listener, stopped));
        let mut live =
            Self { at, desk, admin: String::new(), service: Some(service), stop, runtime: Some(runtime), folder };
        wait_until("the daemon is ready", || live.desk.ready().ok);
        live.admin = live.token("the-admin", Scope::Admin, None);
        live
    }

    /// Makes a token and tells its secret.
    pub fn token(&self, name: &str, scope: Scope, tenant: Option<&str>) -> String {
        let (name, tenant) = (name.to_owned(), tenant.map(str::to_owned));
        let request = TokenRequest { name, scope, tenant, expires_seconds: None };
        let made = self.desk.make_token(request).expect("a token");
        made.secret.expect("a secret")
    }

    pub fn connect(&self) -> TcpStream {
        wire::connect(self.at)
    }

    /// Sends bytes and reads until the server closes.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        wire::raw(self.at, bytes)
    }

    /// One request with a secret, or with none where it is empty.
    pub fn ask(&self, method: &str, target: &str, secret: &str, body: &str) -> Answer {
        let token = if secret.is_empty() { String::new() } else { format!("Authorization: Bearer {secret}\r\n") };
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
        };
        let at = self.at;
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{token}{length}\r\n");
        self.raw(&[head.as_bytes(), body.as_bytes()].concat())
    }

    /// What is there, for the admin.
    pub fn get(&self, target: &str) -> Value {
        let answer = self.ask("GET", target, &self.admin, "");
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        answer.json()
    }

    /// Submits a job for the admin and tells its number.
    pub fn submit(&self, job: &Value) -> u64 {
        let answer = self.ask("POST", "/v1/jobs", &self.admin, &job.to_string());
        assert_eq!(answer.status, 201, "{job}: {}", answer.body);
        answer.json()["id"].as_u64().expect("a number")
    }

    /// The server is gone, as after a crash of the machine: nobody listens any more, and open connections end.
    pub fn hang_up(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }

    /// A path inside the folder of this daemon, for whatever a test needs to write.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        if let Some(Err(error)) = self.service.take().map(Service::stop)
            && !std::thread::panicking()
        {
            panic!("the daemon did not end well: {error}");
        }
    }
}
