//! The desk: the only way in for requests, whatever transport carries them.
//!
//! Reads go to the [views](crate::views), which show the book. Changes go through the loop and are acknowledged when they are on
//! disk. What a caller may see or do is decided here and in the views, so that HTTP and the command line obey the same rules.

mod configured;
mod job_request;
mod logs;
mod nodes;
mod program;
mod progress;
mod tenants;
mod tokens;
pub(crate) mod workload_name;

use crate::Refusal;
use crate::access::{BadToken, Caller};
use crate::read::views::View;
use crate::read::{forecast, metrics};
use crate::service::admit::AFTER_ENDED;
use crate::service::aside;
use crate::service::state_machine::StateMachine;
use crate::service::{Change, LoopRequest, NewJob, ServiceState, Shared};
use crate::store::entry::{Key, fingerprint};
use arles_api as api;
use arles_core::allocate::{POLICIES, PolicyEntry, find_policy};
use arles_core::job::{self, check_weight};
use arles_core::library::suggestion;
use arles_core::{JobId, PriceBand, Prices, Scheduler, TenantId, Time};
use std::sync::Arc;
use tokio::sync::oneshot;

pub use crate::read::views::{EnergyBy, JobsQuery, LogQuery, Page};
pub use configured::{ConfiguredSharing, Followed};
pub use logs::LogsQuery;
pub use nodes::described_kind;
pub use tokens::fresh_token;

/// With more live jobs than this, the reason of one is read from the book instead of computed anew.
const EXPLAINED_AT_ONCE: usize = 5000;

// The API says the range again, since its clients do not link the scheduler.
const _: () = assert!(api::WEIGHT_MIN == job::MIN_WEIGHT && api::WEIGHT_MAX == job::MAX_WEIGHT);

/// The year 10000, in seconds since 1970.
const LATEST_SECONDS: f64 = 253_402_300_800.0;

/// How often a submission looks again at dependencies that end at that moment, and after which pause.
const AFTER_TRIES: u32 = 5;
const AFTER_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

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
        self.shared.request(who.lane(), LoopRequest::Change(change, who.actor(), reply))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Reads the scheduler itself, between two batches of the loop.
    async fn inspect<T: Send + 'static>(
        &self,
        who: &Caller,
        read: impl FnOnce(&StateMachine) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let ask = Box::new(move |machine: &StateMachine| {
            let _ = reply.send(read(machine));
        });
        self.shared.request(who.lane(), LoopRequest::Inspect(ask))?;
        answer.await.map_err(|_| gone())
    }

    /// A copy of the scheduler as it is or was a moment ago, for a dry run, and the number that the next job gets.
    async fn copy(&self, who: &Caller) -> Result<Arc<(Scheduler, JobId)>, Refusal> {
        let (reply, answer) = oneshot::channel();
        let ask = Box::new(move |copy| {
            let _ = reply.send(copy);
        });
        self.shared.request(who.lane(), LoopRequest::Copy(ask))?;
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
        self.submit_from(who, key, job, None).await
    }

    /// Takes a job over that waits in another system's queue under this name; the flag is false if it was taken before.
    ///
    /// # Errors
    /// When the job cannot be what it says it is, or the service cannot take it now.
    pub async fn adopt(
        &self,
        who: &Caller,
        external: String,
        job: api::JobRequest,
    ) -> Result<(api::Job, bool), Refusal> {
        self.submit_from(who, Some(external.clone()), job, Some(external)).await
    }

    async fn submit_from(
        &self,
        who: &Caller,
        key: Option<String>,
        job: api::JobRequest,
        external: Option<String>,
    ) -> Result<(api::Job, bool), Refusal> {
        self.keep_pace(who, &job)?;
        let request = fingerprint(&job);
        let key = key.map(|word| Key { owner: who.name.clone(), token: Some(who.id.clone()), word, request });
        let mut tries = 0;
        let (id, created) = loop {
            let new_job = match self.new_job(who, &job) {
                Ok(new_job) => NewJob { key: key.clone(), ..new_job }.queued_as(external.clone()),
                // What was submitted under this key before may no longer be possible, and is there nevertheless.
                Err(refusal) => match self.submitted_before(who, key.as_ref()).await? {
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
    async fn submitted_before(&self, who: &Caller, key: Option<&Key>) -> Result<Option<JobId>, Refusal> {
        let Some(key) = key.cloned() else { return Ok(None) };
        let request = key.request;
        let found = self.inspect(who, move |machine| machine.keys.find(&key)).await?;
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

    /// What GPUs may draw: all together, and those of racks.
    ///
    /// # Errors
    /// When the service cannot take the request now.
    pub async fn power_budget(&self, who: &Caller) -> Result<api::PowerBudget, Refusal> {
        let ask = |machine: &StateMachine| {
            let racks = machine.scheduler.rack_budgets().iter();
            let racks = racks.map(|(rack, &watts)| api::RackBudget { rack: rack.clone(), watts }).collect();
            api::PowerBudget { watts: machine.scheduler.power_budget(), racks }
        };
        self.inspect(who, ask).await
    }

    /// Sets what all GPUs together may draw, or those of a rack.
    ///
    /// # Errors
    /// When that is no amount, there is no such rack, or the service cannot take the request now.
    pub async fn set_power_budget(
        &self,
        who: &Caller,
        request: api::PowerBudgetRequest,
    ) -> Result<api::PowerBudget, Refusal> {
        if let Some(watts) = request.watts.filter(|watts| !(watts.is_finite() && *watts >= 0.0)) {
            let message = format!("a power budget of {watts} W makes no sense");
            return Err(Refusal::unprocessable("power-budget", message, "give 0 or more watts, or null for no limit"));
        }
        self.change(who, Change::PowerBudget { rack: request.rack, watts: request.watts }).await?;
        self.power_budget(who).await
    }

    /// What electricity costs from when on, as far as anybody said.
    ///
    /// # Errors
    /// When the service cannot take the request now.
    pub async fn electricity_prices(&self, who: &Caller) -> Result<api::ElectricityPrices, Refusal> {
        let price = |band: &PriceBand| api::ElectricityPrice {
            from: band.from.seconds(),
            per_kwh: band.per_kwh,
            kg_per_kwh: band.kg_per_kwh,
        };
        let ask = move |machine: &StateMachine| api::ElectricityPrices {
            prices: machine.scheduler.prices().bands().iter().map(price).collect(),
        };
        self.inspect(who, ask).await
    }

    /// Sets what electricity costs, as the API says it.
    ///
    /// # Errors
    /// When a price makes no sense, they are out of order, or the service cannot take the request now.
    pub async fn put_prices(
        &self,
        who: &Caller,
        request: api::ElectricityPrices,
    ) -> Result<api::ElectricityPrices, Refusal> {
        let refused = |message: String| {
            Refusal::unprocessable(
                "prices",
                message,
                "give prices in order of time, each with 'from' in seconds since 1970",
            )
        };
        let moment = |from: f64| (0.0..LATEST_SECONDS).contains(&from);
        if let Some((i, price)) = request.prices.iter().enumerate().find(|(_, price)| !moment(price.from)) {
            return Err(refused(format!(
                "price {} begins at {}, which is no moment before the year 10000",
                i + 1,
                price.from
            )));
        }
        let band = |price: &api::ElectricityPrice| PriceBand {
            from: Time::from_seconds(price.from),
            per_kwh: price.per_kwh,
            kg_per_kwh: price.kg_per_kwh,
        };
        let prices = Prices::new(request.prices.iter().map(band).collect()).map_err(refused)?;
        self.set_prices(who, prices).await?;
        self.electricity_prices(who).await
    }

    /// Sets what electricity costs from when on, by the scheduler's clock.
    ///
    /// # Errors
    /// When the service cannot take the request now.
    pub async fn set_prices(&self, who: &Caller, prices: Prices) -> Result<(), Refusal> {
        self.change(who, Change::Prices(Box::new(prices))).await.map(|_| ())
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
        let (verdict, standing, now) = self.inspect(who, ask).await?;
        self.view(who).explain(job, verdict.as_ref(), &standing, now)
    }

    /// When and where a job would run if it were submitted now. Nothing changes.
    ///
    /// # Errors
    /// When the request is invalid.
    pub async fn forecast_job(&self, who: &Caller, job: api::JobRequest) -> Result<api::Forecast, Refusal> {
        let spec = self.job_spec(who, &job)?;
        let dry_run = self.begin_dry_run(who)?;
        let copy = self.copy(who).await?;
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            let (_until_done, kinds) = (dry_run, copy.0.cluster().kinds().len());
            forecast::job(copy.0.clone(), copy.1, spec, &|ask| shared.estimate_now(ask, kinds))
        })
        .await
    }

    /// What another policy would change. Nothing changes.
    ///
    /// # Errors
    /// When there is no such policy.
    pub async fn forecast_policy(
        &self,
        who: &Caller,
        request: api::PolicyRequest,
    ) -> Result<api::PolicyForecast, Refusal> {
        let entry = policy(&request.policy)?;
        let dry_run = self.begin_dry_run(who)?;
        let copy = self.copy(who).await?;
        let shared = Arc::clone(&self.shared);
        let estimates = self.shared.book().estimates.clone();
        blocking(move || {
            let (_until_done, kinds) = (dry_run, copy.0.cluster().kinds().len());
            forecast::policy(&copy.0, entry, &estimates, &|ask| shared.estimate_now(ask, kinds))
        })
        .await
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

    /// Whether the process is alive, with all its threads.
    #[must_use]
    pub fn health(&self) -> api::Health {
        let mut trouble: Vec<String> = self.shared.threads.trouble().collect();
        if self.shared.state() == ServiceState::Broken {
            trouble.push(ServiceState::Broken.message().to_owned());
        }
        api::Health { ok: trouble.is_empty(), trouble }
    }

    /// Whether requests are accepted, all threads run and the engine responds.
    #[must_use]
    pub fn ready(&self) -> api::Health {
        let state = self.shared.state();
        let mut trouble: Vec<String> = self.shared.threads.trouble().collect();
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
    ///
    /// # Errors
    /// Why the secret is of no use.
    pub fn caller(&self, secret: &str) -> Result<Caller, BadToken> {
        self.shared.caller(secret)
    }

    /// Comes back when a secret is no longer good: revoked, expired or replaced.
    pub fn token_ended(&self, secret: &str) -> impl Future<Output = ()> + Send + use<> {
        let (shared, hash) = (Arc::clone(&self.shared), crate::access::hash(secret));
        async move { shared.credentials.ended(&hash).await }
    }

    fn tenant(&self, name: &str) -> Result<TenantId, Refusal> {
        let book = self.shared.book();
        let at = book.present_tenants().find(|(_, line)| line.name == name);
        at.map(|(i, _)| TenantId(i as u32)).ok_or_else(|| {
            let names = book.present_tenants().map(|(_, line)| line.name.as_str());
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
/// A name or a line of text that somebody wrote, by the one rule for them ([`arles_core::name`]).
fn name(code: &'static str, what: &str, name: &str, most: usize) -> Result<String, Refusal> {
    arles_core::name::check(name, most).map(str::to_owned).map_err(|wrong| {
        let shown: String = name.chars().take(60).collect();
        let (problem, hint) = wrong.split_once("; ").unwrap_or((&wrong, "use printable characters"));
        Refusal::unprocessable(code, format!("the {what} '{}' {problem}", shown.escape_debug()), hint)
    })
}

fn weight(weight: f64) -> Result<f64, Refusal> {
    check_weight(weight).map_err(|text| Refusal::unprocessable("weight", text, "use 1 for an ordinary weight"))
}

/// Work that takes longer than a request's thread should.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    aside::run(work).await.ok_or_else(gone)
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
