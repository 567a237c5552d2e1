//! An HTTP server with a fake backend, and a client that sends raw bytes.

#![allow(dead_code, unreachable_pub)] // Each test file uses its own part of it.

#[path = "wire.rs"]
pub mod wire;

use arles_api as api;
use arles_api::{Event, Health};
use arles_daemon::Refusal;
use arles_daemon::access::{BadToken, Caller, Scope};
use arles_daemon::http::{ApiCall, ApiReply, Backend, Options, Route, serve};
use serde_json::json;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};
pub use wire::Answer;

/// Answers every question by repeating it.
#[derive(Clone, Default)]
pub struct Fake {
    pub events: Arc<Mutex<Vec<Event>>>,
    pub news: Arc<Notify>,
}

impl Fake {
    pub fn happen(&self, what: &str, tenant: Option<&str>) {
        let mut events = self.events.lock().unwrap();
        let id = events.len() as u64 + 1;
        let (what, tenant) = (what.to_owned(), tenant.map(str::to_owned));
        events.push(Event { id, at: 0.0, what, job: None, tenant, text: "it happened\nindeed".into() });
        self.news.notify_waiters();
    }
}

impl Backend for Fake {
    /// Secrets are the names of scopes.
    fn caller(&self, secret: &str) -> Result<Caller, BadToken> {
        if secret == "stale" {
            return Err(BadToken::Expired { name: "ci".into(), seconds: 7200 });
        }
        let scope = Scope::named(secret).ok_or(BadToken::Unknown)?;
        let tenant = (scope == Scope::Tenant).then(|| "vision".to_owned());
        Ok(Caller {
            name: format!("a-{scope}-token"),
            id: format!("a-{scope}-token"),
            scope,
            tenant,
            address: None,
            job: None,
        })
    }

    async fn answer(&self, who: Caller, route: &'static Route, call: ApiCall) -> Result<ApiReply, Refusal> {
        let asked = format!("{} {call:?}", route.id);
        match route.id {
            "listKinds" => panic!("on purpose"),
            "listWorkloads" => tokio::time::sleep(Duration::from_millis(300)).await,
            "listTenants" => return Err(Refusal::unavailable("busy", "busy", "wait").retry_after(2.5)),
            "submitJob" => {
                let reply = ApiReply::json(&json!({"asked": asked}))?.status(201);
                return Ok(ApiReply { location: Some("/v1/jobs/1".into()), ..reply });
            }
            _ => {}
        }
        ApiReply::json(&json!({"who": who.name, "asked": asked}))
    }

    fn health(&self) -> Health {
        Health { ok: true, trouble: vec![] }
    }

    fn ready(&self) -> Health {
        Health { ok: false, trouble: vec!["the disk is full".into()] }
    }

    async fn metrics(&self) -> String {
        "arles_jobs 1\n".into()
    }

    fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)> {
        let events = self.events.lock().unwrap();
        let newest = events.len() as u64;
        // The first ten are forgotten once there are a hundred.
        if after < 10 && newest >= 100 {
            return None;
        }
        let seen = events.iter().filter(|event| event.id > after);
        let seen = seen.filter(|event| event.tenant.as_deref().is_none_or(|tenant| who.sees(tenant)));
        Some((seen.take(most).cloned().collect(), newest))
    }

    fn last_event(&self, _: &Caller) -> u64 {
        self.events.lock().unwrap().len() as u64
    }

    async fn wait_for_event(&self, after: u64) {
        loop {
            let news = self.news.notified();
            if self.events.lock().unwrap().len() as u64 > after {
                return;
            }
            news.await;
        }
    }
}

/// A server in its own runtime.
pub struct Server {
    pub at: SocketAddr,
    pub fake: Fake,
    stop: watch::Sender<bool>,
    runtime: Option<tokio::runtime::Runtime>,
    task: Option<tokio::task::JoinHandle<Result<(), arles_daemon::http::ServeError>>>,
}

impl Server {
    pub fn start(options: Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let at = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let fake = Fake::default();
        let task = runtime.spawn(serve(fake.clone(), options, listener, stopped));
        Self { at, fake, stop, runtime: Some(runtime), task: Some(task) }
    }

    pub fn unlimited() -> Options {
        Options { requests_per_second: f64::INFINITY, failures_per_second: f64::INFINITY, ..Options::default() }
    }

    /// Tells it to stop, and does not wait.
    pub fn begin_stop(&self) {
        self.stop.send(true).unwrap();
    }

    /// Waits until it has stopped.
    pub fn wait(mut self) {
        let (runtime, task) = (self.runtime.take().unwrap(), self.task.take().unwrap());
        runtime.block_on(task).unwrap().unwrap();
    }

    pub fn connect(&self) -> TcpStream {
        wire::connect(self.at)
    }

    /// Sends bytes and reads until the server closes.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        wire::raw(self.at, bytes)
    }

    /// A request with these headers, each a line.
    pub fn ask(&self, method: &str, target: &str, headers: &str, body: &str) -> Answer {
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{length}{headers}\r\n", self.at);
        self.raw(&[head.as_bytes(), body.as_bytes()].concat())
    }

    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, "Authorization: Bearer admin\r\n", "")
    }

    pub fn post(&self, target: &str, body: &str) -> Answer {
        self.ask("POST", target, "Authorization: Bearer admin\r\nContent-Type: application/json\r\n", body)
    }
}
