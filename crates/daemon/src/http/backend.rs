//! What is behind the door: questions with everything read and checked, and the desk's answers to them.
//!
//! The door knows its other side by [`Backend`] only, so it is tested without a service.

use crate::Refusal;
use crate::access::Caller;
use crate::desk::{Desk, EnergyBy, JobsQuery, Page};
use arles_api as api;
use bytes::Bytes;
use serde::Serialize;
use std::future::Future;
use std::time::Duration;

/// What somebody wants of the desk.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Question {
    Server,
    Jobs(JobsQuery),
    Submit(Option<String>, api::JobRequest),
    Job(u64),
    Cancel(u64),
    Explain(u64),
    Progress(u64, api::Progress),
    Queue(Page),
    Nodes(Page),
    Gpus,
    Kinds,
    Workloads,
    Tenants,
    SetTenant(String, api::TenantRequest),
    Policies,
    SetPolicy(api::PolicyRequest),
    Estimates(Option<String>, Page),
    Allocation,
    Audit(Option<f64>, Option<f64>),
    Energy(EnergyBy, Option<f64>, Option<f64>, Page),
    ForecastJob(api::JobRequest),
    ForecastPolicy(api::PolicyRequest),
    Tokens,
    MakeToken(api::TokenRequest),
    DropToken(String),
}

/// JSON, ready to be sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The JSON.
    pub body: Bytes,
    /// Where what was made can be read.
    pub location: Option<String>,
}

impl Reply {
    /// An answer as JSON.
    ///
    /// # Errors
    /// If it cannot be written as JSON, which is nobody's fault but ours.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, Refusal> {
        let body = serde_json::to_vec(value).map_err(|error| super::internal(&error.to_string()))?;
        Ok(Self { status: 200, body: body.into(), location: None })
    }

    /// The same with another status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

/// The other side of the door.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Who a secret belongs to.
    fn caller(&self, secret: &str) -> Option<Caller>;
    /// Answers a question of somebody whose scope is enough for its route.
    fn answer(&self, who: Caller, question: Question) -> impl Future<Output = Result<Reply, Refusal>> + Send;
    /// Whether the process is alive.
    fn health(&self) -> api::Health;
    /// Whether it takes requests.
    fn ready(&self) -> api::Health;
    /// Prometheus text.
    fn metrics(&self) -> impl Future<Output = String> + Send;
    /// As [`Desk::events`].
    fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)>;
    /// Number of the newest event.
    fn last_event(&self, who: &Caller) -> u64;
    /// Waits until there is an event with a number above `after`.
    fn wait_for_event(&self, after: u64) -> impl Future<Output = ()> + Send;
    /// Is told of every response: its status, and how long it took to make.
    fn answered(&self, _status: u16, _took: Duration) {}
    /// Is told how many listen to events, whenever that changes.
    fn listeners(&self, _listeners: u64) {}
}

impl Backend for Desk {
    fn caller(&self, secret: &str) -> Option<Caller> {
        Self::caller(self, secret)
    }

    async fn answer(&self, who: Caller, question: Question) -> Result<Reply, Refusal> {
        let who = &who;
        match question {
            Question::Submit(key, job) => {
                let (job, new) = self.submit(who, key, job).await?;
                let location = Some(format!("/v1/jobs/{}", job.id));
                Ok(Reply { location, ..Reply::json(&job)?.status(if new { 201 } else { 200 }) })
            }
            Question::Cancel(job) => Reply::json(&self.cancel(who, job).await?),
            Question::Explain(job) => Reply::json(&self.explain(who, job).await?),
            Question::Progress(job, said) => Reply::json(&self.progress(who, job, said).await?),
            Question::SetTenant(name, request) => Reply::json(&self.set_tenant(who, &name, request).await?),
            Question::SetPolicy(request) => Reply::json(&self.set_policy(who, request).await?),
            Question::ForecastJob(job) => Reply::json(&self.forecast_job(who, job).await?),
            Question::ForecastPolicy(request) => Reply::json(&self.forecast_policy(who, request).await?),
            Question::MakeToken(request) => Ok(Reply::json(&self.make_token(who, request).await?)?.status(201)),
            Question::DropToken(name) => Reply::json(&self.drop_token(who, &name).await?),
            Question::Job(job) => Reply::json(&self.job(who, job)?),
            Question::Server => Reply::json(&self.server(who)),
            Question::Kinds => Reply::json(&self.kinds(who)?),
            Question::Tenants => Reply::json(&self.tenants(who)?),
            Question::Policies => Reply::json(&self.policies(who)?),
            Question::Tokens => Reply::json(&self.tokens(who)?),
            long => {
                let (desk, who) = (self.clone(), who.clone());
                aside(move || desk.answer_long(&who, long)).await
            }
        }
    }

    fn health(&self) -> api::Health {
        Self::health(self)
    }

    fn ready(&self) -> api::Health {
        Self::ready(self)
    }

    async fn metrics(&self) -> String {
        let desk = self.clone();
        aside(move || Self::metrics(&desk)).await
    }

    fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)> {
        Self::events(self, who, after, most)
    }

    fn last_event(&self, who: &Caller) -> u64 {
        self.server(who).last_event
    }

    async fn wait_for_event(&self, after: u64) {
        Self::wait_for_event(self, after).await;
    }

    fn answered(&self, status: u16, took: Duration) {
        let gauges = self.gauges();
        gauges.request.add(took);
        if let Some(class) = gauges.answers.get(usize::from(status / 100).saturating_sub(1)) {
            class.add(1);
        }
    }

    fn listeners(&self, listeners: u64) {
        self.gauges().listeners.set(listeners);
    }
}

impl Desk {
    /// Reads that go to the disk or are long to write down.
    fn answer_long(&self, who: &Caller, question: Question) -> Result<Reply, Refusal> {
        match question {
            Question::Jobs(query) => Reply::json(&self.jobs(who, &query)?),
            Question::Queue(page) => Reply::json(&self.queue(who, &page)?),
            Question::Nodes(page) => Reply::json(&self.nodes(who, &page)?),
            Question::Gpus => Reply::json(&self.gpus(who)?),
            Question::Workloads => Reply::json(&self.workloads(who)?),
            Question::Estimates(workload, page) => Reply::json(&self.estimates(who, workload.as_deref(), &page)?),
            Question::Allocation => Reply::json(&self.allocation(who)?),
            Question::Audit(from, to) => Reply::json(&self.audit(who, from, to)?),
            Question::Energy(by, from, to, page) => Reply::json(&self.energy(who, by, from, to, &page)?),
            other => Err(super::internal(&format!("nobody answers {other:?}"))),
        }
    }
}

/// Runs what takes long beside the threads that serve connections. A panic there goes on here.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    }
}
