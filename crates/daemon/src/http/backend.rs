//! What the server asks of its backend: requests with everything parsed and checked, and the replies to them.
//!
//! The server knows the desk by [`Backend`] only, so it is tested without a service.

use crate::Refusal;
use crate::access::Caller;
use crate::service::desk::{Desk, EnergyBy, JobsQuery, Page};
use arles_api as api;
use bytes::Bytes;
use serde::Serialize;
use std::future::Future;
use std::time::Duration;

/// A parsed request of the API.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the table of routes says what each one is")]
pub enum ApiRequest {
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

/// A JSON response, ready to be sent.
#[derive(Clone, PartialEq, Debug)]
pub struct ApiReply {
    /// HTTP status.
    pub status: u16,
    /// The JSON document.
    pub body: Bytes,
    /// URL of the created resource.
    pub location: Option<String>,
}

impl ApiReply {
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

/// What answers the server's requests: the desk, or a fake in tests.
pub trait Backend: Clone + Send + Sync + 'static {
    /// The caller that a secret belongs to.
    fn caller(&self, secret: &str) -> Option<Caller>;
    /// Answers a request of a caller whose scope the route accepts.
    fn answer(&self, who: Caller, request: ApiRequest) -> impl Future<Output = Result<ApiReply, Refusal>> + Send;
    /// Whether the process is alive.
    fn health(&self) -> api::Health;
    /// Whether it accepts requests.
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

    async fn answer(&self, who: Caller, request: ApiRequest) -> Result<ApiReply, Refusal> {
        let who = &who;
        match request {
            ApiRequest::Submit(key, job) => {
                let (job, new) = self.submit(who, key, job).await?;
                let location = Some(format!("/v1/jobs/{}", job.id));
                Ok(ApiReply { location, ..ApiReply::json(&job)?.status(if new { 201 } else { 200 }) })
            }
            ApiRequest::Cancel(job) => ApiReply::json(&self.cancel(who, job).await?),
            ApiRequest::Explain(job) => ApiReply::json(&self.explain(who, job).await?),
            ApiRequest::Progress(job, said) => ApiReply::json(&self.progress(who, job, said)?),
            ApiRequest::SetTenant(name, request) => ApiReply::json(&self.set_tenant(who, &name, request).await?),
            ApiRequest::SetPolicy(request) => ApiReply::json(&self.set_policy(who, request).await?),
            ApiRequest::ForecastJob(job) => ApiReply::json(&self.forecast_job(who, job).await?),
            ApiRequest::ForecastPolicy(request) => ApiReply::json(&self.forecast_policy(request).await?),
            ApiRequest::MakeToken(request) => Ok(ApiReply::json(&self.make_token(request)?)?.status(201)),
            ApiRequest::DropToken(name) => ApiReply::json(&self.drop_token(who, &name)?),
            ApiRequest::Job(job) => ApiReply::json(&self.view(who).job(job)?),
            ApiRequest::Server => ApiReply::json(&self.view(who).server()),
            ApiRequest::Kinds => ApiReply::json(&self.view(who).kinds()),
            ApiRequest::Tenants => ApiReply::json(&self.view(who).tenants()),
            ApiRequest::Policies => ApiReply::json(&self.view(who).policies()),
            ApiRequest::Tokens => ApiReply::json(&self.tokens()?),
            slow => {
                let (desk, who) = (self.clone(), who.clone());
                blocking(move || desk.answer_blocking(&who, slow)).await
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
        blocking(move || Self::metrics(&desk)).await
    }

    fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)> {
        Self::events(self, who, after, most)
    }

    fn last_event(&self, who: &Caller) -> u64 {
        self.view(who).server().last_event
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
    /// Reads that go to the disk, or take long to serialise.
    fn answer_blocking(&self, who: &Caller, request: ApiRequest) -> Result<ApiReply, Refusal> {
        match request {
            ApiRequest::Jobs(query) => ApiReply::json(&self.view(who).jobs(&query)?),
            ApiRequest::Queue(page) => ApiReply::json(&self.view(who).queue(&page)?),
            ApiRequest::Nodes(page) => ApiReply::json(&self.view(who).nodes(&page)?),
            ApiRequest::Gpus => ApiReply::json(&self.view(who).gpus()),
            ApiRequest::Workloads => ApiReply::json(&self.view(who).workloads()),
            ApiRequest::Estimates(workload, page) => {
                ApiReply::json(&self.view(who).estimates(workload.as_deref(), &page)?)
            }
            ApiRequest::Allocation => ApiReply::json(&self.view(who).allocation()),
            ApiRequest::Audit(from, to) => ApiReply::json(&self.view(who).audit(from, to)?),
            ApiRequest::Energy(by, from, to, page) => ApiReply::json(&self.view(who).energy(by, from, to, &page)?),
            other => Err(super::internal(&format!("no backend method answers {other:?}"))),
        }
    }
}

/// Runs what takes long beside the threads that serve connections. A panic there goes on here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    }
}
