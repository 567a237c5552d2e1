//! The desk: the only way in for requests, whoever carries them.
//!
//! Reads are answered from the book; whatever changes anything goes through the loop and is answered when it is safe on disk. What a
//! caller may see is decided here, so every door (HTTP, a journal file read by the command line) has the same rules.

use crate::access::{Caller, Scope};
use crate::api;
use crate::{Refusal, api::JobState};
use std::sync::Arc;

/// Which jobs are wanted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobsQuery {
    /// In these states; all if empty.
    pub states: Vec<JobState>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Running this workload.
    pub workload: Option<String>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
    /// Where to go on.
    pub cursor: Option<String>,
    /// At most so many (1 to 1000; 100 if not given).
    pub limit: Option<u32>,
}

/// A piece of a long list.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// Where to go on.
    pub cursor: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// What energy is added up by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnergyBy {
    /// Jobs.
    Job,
    /// Tenants.
    Tenant,
    /// Kinds of GPU.
    Kind,
}

/// A way to the running service. Cheap to copy.
#[derive(Clone)]
pub struct Desk {
    _inner: Arc<()>,
}

type Answer<T> = Result<T, Refusal>;

#[allow(clippy::unused_async, unused_variables, missing_docs, clippy::missing_errors_doc)]
impl Desk {
    // Changes: answered when they are safe on disk.
    pub async fn submit(&self, who: &Caller, key: Option<String>, job: api::JobRequest) -> Answer<(api::Job, bool)> {
        unready()
    }
    pub async fn cancel(&self, who: &Caller, job: u64) -> Answer<api::Job> {
        unready()
    }
    pub async fn progress(&self, who: &Caller, job: u64, said: api::Progress) -> Answer<api::Instruction> {
        unready()
    }
    pub async fn set_policy(&self, who: &Caller, request: api::PolicyRequest) -> Answer<api::Policy> {
        unready()
    }
    pub async fn set_tenant(&self, who: &Caller, name: &str, request: api::TenantRequest) -> Answer<api::Tenant> {
        unready()
    }
    pub async fn make_token(&self, who: &Caller, request: api::TokenRequest) -> Answer<api::Token> {
        unready()
    }
    pub async fn drop_token(&self, who: &Caller, name: &str) -> Answer<api::Token> {
        unready()
    }
    // Questions that the loop itself must answer.
    pub async fn explain(&self, who: &Caller, job: u64) -> Answer<api::Explanation> {
        unready()
    }
    pub async fn forecast_job(&self, who: &Caller, job: api::JobRequest) -> Answer<api::Forecast> {
        unready()
    }
    pub async fn forecast_policy(&self, who: &Caller, request: api::PolicyRequest) -> Answer<api::PolicyForecast> {
        unready()
    }
    // Reads: quick, never wait for the loop. (Lists of past jobs read SQLite: a millisecond.)
    pub fn server(&self, who: &Caller) -> api::Server {
        unimplemented!()
    }
    pub fn jobs(&self, who: &Caller, query: &JobsQuery) -> Answer<api::Jobs> {
        unready()
    }
    pub fn job(&self, who: &Caller, job: u64) -> Answer<api::Job> {
        unready()
    }
    pub fn queue(&self, who: &Caller, page: &Page) -> Answer<api::Queue> {
        unready()
    }
    pub fn nodes(&self, who: &Caller, page: &Page) -> Answer<api::Nodes> {
        unready()
    }
    pub fn gpus(&self, who: &Caller) -> Answer<api::Gpus> {
        unready()
    }
    pub fn kinds(&self, who: &Caller) -> Answer<api::Kinds> {
        unready()
    }
    pub fn workloads(&self, who: &Caller) -> Answer<api::Workloads> {
        unready()
    }
    pub fn tenants(&self, who: &Caller) -> Answer<api::Tenants> {
        unready()
    }
    pub fn policies(&self, who: &Caller) -> Answer<api::Policies> {
        unready()
    }
    pub fn estimates(&self, who: &Caller, workload: Option<&str>, page: &Page) -> Answer<api::Estimates> {
        unready()
    }
    pub fn allocation(&self, who: &Caller) -> Answer<api::Allocation> {
        unready()
    }
    pub fn audit(&self, who: &Caller, from: Option<f64>, to: Option<f64>) -> Answer<api::Audit> {
        unready()
    }
    pub fn energy(
        &self,
        who: &Caller,
        by: EnergyBy,
        from: Option<f64>,
        to: Option<f64>,
        page: &Page,
    ) -> Answer<api::EnergyAccount> {
        unready()
    }
    pub fn tokens(&self, who: &Caller) -> Answer<api::Tokens> {
        unready()
    }
    /// Events after number `after` that the caller may see, oldest first, at most `most`; and the number of the newest event of all.
    /// `None`: so old that some are forgotten; the listener should read everything anew.
    pub fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)> {
        None
    }
    /// Waits until there is an event with a number above `after`.
    pub async fn wait_for_event(&self, after: u64) {}
    /// Whether the process is alive (`healthz`) and whether it can take requests (`readyz`).
    pub fn health(&self) -> api::Health {
        unimplemented!()
    }
    pub fn ready(&self) -> api::Health {
        unimplemented!()
    }
    /// Prometheus text.
    pub fn metrics(&self) -> String {
        String::new()
    }
    /// Who a secret belongs to.
    pub fn caller(&self, secret: &str) -> Option<Caller> {
        let _ = Scope::Admin;
        None
    }
}

fn unready<T>() -> Answer<T> {
    Err(Refusal::unavailable("starting", "the service is starting", "try again in a second").retry_after(1.0))
}
