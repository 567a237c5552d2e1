//! The desk: the only way in for requests, whatever transport carries them.
//!
//! Reads go to the [views](crate::views), which show the book. Changes go through the loop and are acknowledged when they are on
//! disk. What a caller may see or do is decided here and in the views, so that HTTP and the command line obey the same rules.

mod job_request;
mod nodes;
mod program;
mod progress;
mod tokens;
pub(crate) mod workload_name;

use crate::Refusal;
use crate::access::Caller;
use crate::read::views::View;
use crate::read::{forecast, metrics};
use crate::service::admit::AFTER_ENDED;
use crate::service::state_machine::StateMachine;
use crate::service::{Change, Message, NewJob, ServiceState, Shared};
use crate::store::entry::{Key, fingerprint};
use arles_api as api;
use arles_core::allocate::{POLICIES, PolicyEntry, find_policy};
use arles_core::job::{self, check_weight};
use arles_core::library::suggestion;
use arles_core::{JobId, Tenant, TenantId};
use std::sync::Arc;
use tokio::sync::oneshot;

pub use crate::read::views::{EnergyBy, JobsQuery, LogQuery, Page};
pub use nodes::described_kind;
pub use tokens::fresh_token;

/// With more live jobs than this, the reason of one is read from the book instead of computed anew.
const EXPLAINED_AT_ONCE: usize = 5000;

// The API says the range again, since its clients do not link the scheduler.
const _: () = assert!(api::WEIGHT_MIN == job::MIN_WEIGHT && api::WEIGHT_MAX == job::MAX_WEIGHT);

/// How often a submission looks again at dependencies that end at that moment, and after which pause.
const AFTER_TRIES: u32 = 5;
const AFTER_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Tenants that one daemon keeps.
const MOST_TENANTS: usize = 10_000;

/// A handle to the running service. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    shared: Arc<Shared>,
}

pub(crate) fn job_over(job: u64) -> Refusal {
    Refusal::conflict("job-over", format!("job {job} has already ended"), "'arles show' tells how it ended")
}

pub(crate) fn no_job(job: u64) -> Refusal {
    Refusal::not_found(
        "no-such-job",
        format!("job {job} does not exist, or belongs to another tenant"),
        "'arles queue' lists your jobs",
    )
}

impl Desk {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Measurements of the service itself; transports add theirs.
    #[must_use]
    pub fn gauges(&self) -> &crate::service::gauges::Gauges {
        &self.shared.gauges
    }

    /// What a caller may see.
    #[must_use]
    pub fn view<'a>(&'a self, who: &'a Caller) -> View<'a> {
        View::new(&self.shared, who)
    }

    async fn change(&self, who: &Caller, change: Change) -> Result<(JobId, bool), Refusal> {
        let (reply, answer) = oneshot::channel();
        let reply = Box::new(move |done| {
            let _ = reply.send(done);
        });
        self.shared.send(Message::Change(change, who.actor(), reply))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Reads the scheduler itself, between two batches of the loop.
    async fn inspect<T: Send + 'static>(
        &self,
        read: impl FnOnce(&StateMachine) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.shared.send(Message::Inspect(Box::new(move |machine| {
            let _ = reply.send(read(machine));
        })))?;
        answer.await.map_err(|_| gone())
    }

    /// Submits a job; the flag is false if an earlier request with the same idempotency key submitted it.
    ///
    /// # Errors
    /// When the request is invalid, or the service cannot take it now.
    pub async fn submit(
        &self,
        who: &Caller,
        key: Option<String>,
        job: api::JobRequest,
    ) -> Result<(api::Job, bool), Refusal> {
        let request = fingerprint(&job);
        let key = key.map(|word| Key { owner: who.name.clone(), word, request });
        let mut tries = 0;
        let (id, created) = loop {
            let new_job = match self.new_job(who, &job) {
                Ok(new_job) => NewJob { key: key.clone(), ..new_job },
                // What was submitted under this key before may no longer be possible, and is there nevertheless.
                Err(refusal) => match self.submitted_before(key.as_ref()).await? {
                    Some(id) => break (id, false),
                    None => return Err(refusal),
                },
            };
            match self.change(who, Change::Submit(Box::new(new_job))).await {
                // A dependency ended between the look and the change: the next look knows how.
                Err(refusal) if refusal.code == AFTER_ENDED && tries < AFTER_TRIES => {
                    tries += 1;
                    tokio::time::sleep(AFTER_PAUSE).await;
                }
                done => break done?,
            }
        };
        Ok((self.view(who).job(id.0)?, created))
    }

    /// The job that the very same request under the same key submitted.
    async fn submitted_before(&self, key: Option<&Key>) -> Result<Option<JobId>, Refusal> {
        let Some(Key { owner, word, request }) = key.cloned() else { return Ok(None) };
        let found = self.inspect(move |machine| machine.keys.find(&owner, &word)).await?;
        Ok(found.filter(|(known, _)| *known == request).map(|(_, job)| job))
    }

    /// Holds a job: it does not run until it is released.
    ///
    /// # Errors
    /// When the caller sees no such job, it has ended, or the service cannot take the request now.
    pub async fn hold(&self, who: &Caller, job: u64) -> Result<api::Job, Refusal> {
        let known = self.view(who).job(job)?;
        if known.state.over() {
            return Err(job_over(job));
        }
        if !known.held {
            let of = self.own_tenant(who)?;
            self.change(who, Change::Hold { job: JobId(job), of }).await?;
        }
        self.view(who).job(job)
    }

    /// Releases a job that is held.
    ///
    /// # Errors
    /// When the caller sees no such job, it has ended or is not held, or the service cannot take the request now.
    pub async fn release(&self, who: &Caller, job: u64) -> Result<api::Job, Refusal> {
        let known = self.view(who).job(job)?;
        if known.state.over() {
            return Err(job_over(job));
        }
        if !known.held {
            let message = format!("job {job} is not held");
            return Err(Refusal::conflict("not-held", message, "'arles explain' says what it waits for"));
        }
        let of = self.own_tenant(who)?;
        self.change(who, Change::Release { job: JobId(job), of }).await?;
        self.view(who).job(job)
    }

    /// Cancels a job.
    ///
    /// # Errors
    /// When the caller sees no such job, it has ended, or the service cannot take the request now.
    pub async fn cancel(&self, who: &Caller, job: u64) -> Result<api::Job, Refusal> {
        if self.view(who).job(job)?.state.over() {
            return Err(job_over(job));
        }
        let of = self.own_tenant(who)?;
        self.change(who, Change::Cancel { job: JobId(job), of }).await?;
        self.view(who).job(job)
    }

    /// Switches the policy.
    ///
    /// # Errors
    /// When there is no policy of that name, or the service cannot take the request now.
    pub async fn set_policy(&self, who: &Caller, request: api::PolicyRequest) -> Result<api::Policy, Refusal> {
        let entry = policy(&request.policy)?;
        self.change(who, Change::Policy(entry.name.to_owned())).await?;
        let all = self.view(who).policies().policies;
        all.into_iter().find(|policy| policy.name == entry.name).ok_or_else(gone)
    }

    /// Adds a tenant, or changes its weight.
    ///
    /// # Errors
    /// When name or weight are invalid, or the service cannot take the request now.
    pub async fn set_tenant(
        &self,
        who: &Caller,
        name: &str,
        request: api::TenantRequest,
    ) -> Result<api::Tenant, Refusal> {
        let weight = weight(request.weight)?;
        if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
            return Err(Refusal::unprocessable(
                "tenant-name",
                format!("'{}' is not a valid tenant name", name.escape_debug()),
                "use 1 to 200 printable characters",
            ));
        }
        let known = self.shared.book().tenants.len();
        if known >= MOST_TENANTS && self.tenant(name).is_err() {
            let message = format!("the limit of {MOST_TENANTS} tenants is reached");
            return Err(Refusal::conflict("tenants", message, "reuse an existing tenant"));
        }
        self.change(who, Change::Tenant(Tenant { name: name.to_owned(), weight })).await?;
        let found = self.view(who).tenants().tenants.into_iter().find(|tenant| tenant.name == name);
        found.ok_or_else(gone)
    }

    /// Why a job is in its state, as of now.
    ///
    /// # Errors
    /// When the caller sees no such job.
    pub async fn explain(&self, who: &Caller, job: u64) -> Result<api::Explanation, Refusal> {
        let known = self.view(who).job(job)?;
        if known.state.over() {
            return Ok(self.view(who).explain_past(&known));
        }
        let ask = move |machine: &StateMachine| {
            let (job, scheduler) = (JobId(job), &machine.scheduler);
            // Explaining one job means looking at all; with many, the reason found by the last look at all will do.
            let verdict = (scheduler.live_jobs() <= EXPLAINED_AT_ONCE).then(|| scheduler.explain(job));
            (verdict, scheduler.standing(job), scheduler.now())
        };
        let (verdict, standing, now) = self.inspect(ask).await?;
        self.view(who).explain(job, verdict.as_ref(), &standing, now)
    }

    /// When and where a job would run if it were submitted now. Nothing changes.
    ///
    /// # Errors
    /// When the request is invalid.
    pub async fn forecast_job(&self, who: &Caller, job: api::JobRequest) -> Result<api::Forecast, Refusal> {
        let spec = self.job_spec(who, &job)?;
        let _permit = self.shared.forecasts.try_acquire().map_err(|_| too_many_dry_runs())?;
        let machine = self.inspect(StateMachine::clone).await?;
        let shared = Arc::clone(&self.shared);
        blocking(move || forecast::job(machine, spec, &|ask| shared.estimate_now(ask))).await
    }

    /// What another policy would change. Nothing changes.
    ///
    /// # Errors
    /// When there is no such policy.
    pub async fn forecast_policy(&self, request: api::PolicyRequest) -> Result<api::PolicyForecast, Refusal> {
        let entry = policy(&request.policy)?;
        let _permit = self.shared.forecasts.try_acquire().map_err(|_| too_many_dry_runs())?;
        let machine = self.inspect(StateMachine::clone).await?;
        let shared = Arc::clone(&self.shared);
        let estimates = self.shared.book().estimates.clone();
        blocking(move || forecast::policy(&machine, entry, &estimates, &|ask| shared.estimate_now(ask))).await
    }

    /// Events after number `after` that the caller may see, oldest first, at most `most`, and the number up to which they
    /// go. `None` if some of them are no longer kept; then the listener should read everything again.
    #[must_use]
    pub fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)> {
        self.view(who).events(after, most)
    }

    /// Waits until there is an event with a number above `after`.
    pub async fn wait_for_event(&self, after: u64) {
        let mut last_event = self.shared.last_event.subscribe();
        let _ = last_event.wait_for(|last| *last > after).await;
    }

    /// Whether the process is alive.
    #[must_use]
    pub fn health(&self) -> api::Health {
        let broken = self.shared.state() == ServiceState::Broken;
        let trouble = broken.then(|| ServiceState::Broken.message().to_owned()).into_iter().collect();
        api::Health { ok: !broken, trouble }
    }

    /// Whether requests are accepted and the engine responds.
    #[must_use]
    pub fn ready(&self) -> api::Health {
        let state = self.shared.state();
        let mut trouble = Vec::new();
        if state != ServiceState::Ready {
            trouble.push(state.message().to_owned());
        }
        // A leader that was held up finds out here at the latest.
        if let Err(refusal) = self.shared.leads() {
            trouble.push(refusal.message);
        }
        if self.shared.gauges.engine_up.get() == 0 {
            trouble.push("the engine does not respond".to_owned());
        }
        api::Health { ok: trouble.is_empty(), trouble }
    }

    /// Prometheus text.
    #[must_use]
    pub fn metrics(&self) -> String {
        metrics::text(&self.shared)
    }

    /// The caller that a token's secret belongs to.
    #[must_use]
    pub fn caller(&self, secret: &str) -> Option<Caller> {
        self.shared.caller(secret)
    }

    fn tenant(&self, name: &str) -> Result<TenantId, Refusal> {
        let book = self.shared.book();
        let at = book.tenants.iter().position(|line| line.name == name);
        at.map(|i| TenantId(i as u32)).ok_or_else(|| {
            let names = book.tenants.iter().map(|line| line.name.as_str());
            Refusal::unprocessable(
                "no-such-tenant",
                unknown("tenant", name, names),
                "'arles tenants' lists them; an admin adds one with PUT /v1/tenants/NAME",
            )
        })
    }

    fn own_tenant(&self, who: &Caller) -> Result<Option<TenantId>, Refusal> {
        who.tenant.as_deref().map(|name| self.tenant(name)).transpose()
    }
}

/// "unknown tenant 'visoin' (did you mean vision?)".
fn unknown<'n>(what: &str, name: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    format!("unknown {what} '{}'{}", name.escape_debug(), suggestion(name, names))
}

/// Checks a weight of a tenant or a job.
fn weight(weight: f64) -> Result<f64, Refusal> {
    check_weight(weight).map_err(|text| Refusal::unprocessable("weight", text, "use 1 for an ordinary weight"))
}

/// Work that takes longer than a request's thread should.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| gone())
}

fn too_many_dry_runs() -> Refusal {
    Refusal::too_many("dry-runs", "too many dry runs at once", "try again in a second or two").retry_after(2.0)
}

fn gone() -> Refusal {
    Refusal::unavailable(
        "stopping",
        "the service shut down before the request was processed",
        "try again; with an idempotency key the request is processed only once",
    )
    .retry_after(1.0)
}

fn policy(name: &str) -> Result<&'static PolicyEntry, Refusal> {
    find_policy(name).ok_or_else(|| {
        let message = unknown("policy", name, POLICIES.iter().map(|entry| entry.name));
        Refusal::unprocessable("no-such-policy", message, "'arles policies' lists them")
    })
}
