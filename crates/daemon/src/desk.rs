//! The desk: the only way in for requests, whoever carries them.
//!
//! Reads are answered from the book; whatever changes anything goes through the loop and is answered when it is safe on disk. What a
//! caller may see is decided here and in [`views`](crate::views), so every door (HTTP, a journal file read by the command line) has
//! the same rules.

use crate::access::{self, Caller, Scope};
use crate::entry::{Key, fingerprint};
use crate::service::{Change, Message, ServiceState, Shared};
use crate::state_machine::StateMachine;
use crate::store::StoredToken;
use crate::views::View;
use crate::{Refusal, forecast, metrics};
use arles_api::{self as api, JobState};
use arles_core::allocate::{POLICIES, find_policy};
use arles_core::library::nearest;
use arles_core::{JobId, JobSpec, KindId, Library, Tenant, TenantId, Time, Work, WorkloadId};
use std::sync::{Arc, PoisonError};
use tokio::sync::oneshot;

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
    shared: Arc<Shared>,
}

type Answer<T> = Result<T, Refusal>;

/// With more live jobs than this, why one waits is told as of the last look at everybody.
const EXPLAINED_AT_ONCE: usize = 5000;

/// A job that nothing more can happen to, or that is not there.
pub(crate) fn over(job: u64) -> Refusal {
    Refusal::conflict(
        "job-over",
        format!("job {job} is over"),
        "there is nothing left to cancel; 'arles show' tells how it ended",
    )
}

pub(crate) fn no_job(job: u64) -> Refusal {
    Refusal::not_found(
        "no-such-job",
        format!("there is no job {job}, or none that you may see"),
        "'arles queue' lists your jobs",
    )
}

impl Desk {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// What is measured of the service itself; doors add to it.
    #[must_use]
    pub fn gauges(&self) -> &crate::gauges::Gauges {
        &self.shared.gauges
    }

    /// Writes a line to the service's log.
    pub fn log(&self, line: &str) {
        (self.shared.log)(line);
    }

    async fn change(&self, change: Change) -> Answer<(JobId, bool)> {
        let (reply, answer) = oneshot::channel();
        let reply = Box::new(move |done| {
            let _ = reply.send(done);
        });
        self.shared.send(Message::Change(change, reply))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Asks the loop itself.
    async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&StateMachine) -> T + Send + 'static) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        self.shared.send(Message::Question(Box::new(move |machine| {
            let _ = reply.send(question(machine));
        })))?;
        answer.await.map_err(|_| gone())
    }

    fn view<'a>(&'a self, who: &'a Caller) -> View<'a> {
        View::new(&self.shared, who)
    }

    /// Submits a job; the flag says whether it is new, or the one of an earlier request with the same key.
    ///
    /// # Errors
    /// When the request asks for something impossible, or the service cannot take it now.
    pub async fn submit(&self, who: &Caller, key: Option<String>, job: api::JobRequest) -> Answer<(api::Job, bool)> {
        let request = fingerprint(&job);
        let spec = self.spec(who, &job)?;
        let key = key.map(|word| Key { owner: who.name.clone(), word, request });
        let (id, fresh) = self.change(Change::Submit { spec, name: job.name, key }).await?;
        Ok((self.view(who).job(id.0)?, fresh))
    }

    /// Cancels a job.
    ///
    /// # Errors
    /// When there is none to see, it is over, or the service cannot take it now.
    pub async fn cancel(&self, who: &Caller, job: u64) -> Answer<api::Job> {
        if self.view(who).job(job)?.state.over() {
            return Err(over(job));
        }
        let of = self.own_tenant(who)?;
        self.change(Change::Cancel { job: JobId(job), of }).await?;
        self.view(who).job(job)
    }

    /// Takes in what training code says of itself, and says what it should do.
    ///
    /// # Errors
    /// When there is no such job to see, or it is over.
    #[allow(clippy::unused_async)]
    pub async fn progress(&self, who: &Caller, job: u64, said: api::Progress) -> Answer<api::Instruction> {
        let state = self.view(who).job(job)?.state;
        if state.over() {
            return Err(over(job));
        }
        if let Some(record) = crate::book::edit(&mut self.shared.book_mut().jobs, &JobId(job)) {
            record.said = Some(said);
        }
        let stop = state == JobState::Stopping;
        Ok(api::Instruction {
            action: if stop { api::Action::CheckpointAndStop } else { api::Action::Continue },
            grace_seconds: stop.then_some(self.shared.options.grace_seconds),
        })
    }

    /// Switches the policy.
    ///
    /// # Errors
    /// When there is none of that name, or the service cannot take it now.
    pub async fn set_policy(&self, who: &Caller, request: api::PolicyRequest) -> Answer<api::Policy> {
        let entry = policy(&request.policy)?;
        self.change(Change::Policy(entry.name.to_owned())).await?;
        let all = self.policies(who)?.policies;
        all.into_iter().find(|policy| policy.name == entry.name).ok_or_else(gone)
    }

    /// Adds a tenant, or changes its weight.
    ///
    /// # Errors
    /// When name or weight make no sense, or the service cannot take it now.
    pub async fn set_tenant(&self, who: &Caller, name: &str, request: api::TenantRequest) -> Answer<api::Tenant> {
        if !(1e-6..=1e6).contains(&request.weight) {
            return Err(Refusal::unprocessable(
                "weight",
                format!("weight {} is none", request.weight),
                "give a positive number, 0.000001 to 1000000",
            ));
        }
        if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
            return Err(Refusal::unprocessable(
                "tenant-name",
                format!("'{}' is no name for a tenant", name.escape_debug()),
                "use 1 to 200 printable characters",
            ));
        }
        let known = self.shared.book().tenants.len();
        if known >= 10_000 && self.tenant(name).is_err() {
            return Err(Refusal::conflict("tenants", "there are 10000 tenants already", "reuse one of them"));
        }
        self.change(Change::Tenant(Tenant { name: name.to_owned(), weight: request.weight })).await?;
        let found = self.tenants(who)?.tenants.into_iter().find(|tenant| tenant.name == name);
        found.ok_or_else(gone)
    }

    /// Makes a token; the answer is the only place where its secret is told.
    ///
    /// # Errors
    /// When the name is taken or the tenant is not known.
    #[allow(clippy::unused_async)]
    pub async fn make_token(&self, _who: &Caller, request: api::TokenRequest) -> Answer<api::Token> {
        let printable =
            !request.name.is_empty() && request.name.len() <= 100 && !request.name.chars().any(char::is_control);
        if !printable {
            return Err(Refusal::unprocessable(
                "token-name",
                format!("'{}' is no name for a token", request.name.escape_debug()),
                "use 1 to 100 printable characters",
            ));
        }
        match (&request.tenant, request.scope) {
            (Some(tenant), Scope::Tenant) => drop(self.tenant(tenant)?),
            (None, Scope::Tenant) => {
                return Err(Refusal::unprocessable(
                    "tenant",
                    "a token of scope tenant belongs to one",
                    "name the tenant",
                ));
            }
            (Some(_), scope) => {
                return Err(Refusal::unprocessable(
                    "tenant",
                    format!("a token of scope {scope} belongs to no tenant"),
                    "leave the tenant out, or make it a token of scope tenant",
                ));
            }
            (None, _) => {}
        }
        let (token, secret) = fresh_token(&request.name, request.scope, request.tenant);
        let kept = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner).put_token(&token);
        if !kept.map_err(|e| self.broken(&e))? {
            return Err(Refusal::conflict(
                "token-exists",
                format!("there is a token '{}' already", token.name),
                "give the new one another name, or drop the old one first",
            ));
        }
        self.shared.load_tokens().map_err(|e| self.broken(&e))?;
        Ok(api::Token { secret: Some(secret), ..shown(token) })
    }

    /// Forgets a token: whoever holds it is a stranger from now on.
    ///
    /// # Errors
    /// When there is none of that name, or it is the caller's own.
    #[allow(clippy::unused_async)]
    pub async fn drop_token(&self, who: &Caller, name: &str) -> Answer<api::Token> {
        if who.name == name && *who != Caller::loopback() {
            return Err(Refusal::conflict(
                "own-token",
                format!("'{}' is the token that you came with", name.escape_debug()),
                "make another and end this one with that, so that nobody is locked out",
            ));
        }
        let mut store = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let all = store.tokens().map_err(|e| self.broken(&e))?;
        let Some(token) = all.into_iter().find(|token| token.name == name) else {
            return Err(Refusal::not_found(
                "no-such-token",
                format!("there is no token '{}'", name.escape_debug()),
                "GET /v1/tokens lists them",
            ));
        };
        store.drop_token(name).map_err(|e| self.broken(&e))?;
        drop(store);
        self.shared.load_tokens().map_err(|e| self.broken(&e))?;
        Ok(shown(token))
    }

    fn broken(&self, error: &crate::store::StoreError) -> Refusal {
        self.log(&error.to_string());
        Refusal::unavailable("journal", "the journal cannot be written", "see the server's log")
    }

    /// Why a job is where it is, as of now.
    ///
    /// # Errors
    /// When there is no such job to see.
    pub async fn explain(&self, who: &Caller, job: u64) -> Answer<api::Explanation> {
        let known = self.view(who).job(job)?;
        if known.state.over() {
            return Ok(self.view(who).explain_past(&known));
        }
        let ask = move |machine: &StateMachine| {
            let (job, scheduler) = (JobId(job), &machine.scheduler);
            // To explain one job is to look at all; with many, what was last found out about everybody will do.
            let verdict = (scheduler.live_jobs() <= EXPLAINED_AT_ONCE).then(|| scheduler.explain(job));
            (verdict, scheduler.standing(job), scheduler.now())
        };
        let (verdict, standing, now) = self.ask(ask).await?;
        self.view(who).explain(job, verdict.as_ref(), &standing, now)
    }

    /// When and where a job would run if it were submitted now. Nothing changes.
    ///
    /// # Errors
    /// When the request asks for something impossible.
    pub async fn forecast_job(&self, who: &Caller, job: api::JobRequest) -> Answer<api::Forecast> {
        let spec = self.spec(who, &job)?;
        let _room = self.shared.forecasts.try_acquire().map_err(|_| crowded())?;
        let machine = self.ask(StateMachine::clone).await?;
        let shared = Arc::clone(&self.shared);
        self.apart(move || forecast::job(machine, spec, &|ask| shared.wonder(ask))).await
    }

    /// What another policy would change. Nothing changes.
    ///
    /// # Errors
    /// When there is no such policy.
    pub async fn forecast_policy(&self, _who: &Caller, request: api::PolicyRequest) -> Answer<api::PolicyForecast> {
        let entry = policy(&request.policy)?;
        let _room = self.shared.forecasts.try_acquire().map_err(|_| crowded())?;
        let machine = self.ask(StateMachine::clone).await?;
        let shared = Arc::clone(&self.shared);
        let estimates = self.shared.book().estimates.clone();
        self.apart(move || forecast::policy(&machine, entry, &estimates, &|ask| shared.wonder(ask))).await
    }

    /// Work that takes longer than a request's thread should.
    async fn apart<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        tokio::task::spawn_blocking(work).await.map_err(|_| gone())
    }

    /// The server, and who is asking.
    #[must_use]
    pub fn server(&self, who: &Caller) -> api::Server {
        self.view(who).server()
    }

    /// Jobs, live and past.
    ///
    /// # Errors
    /// When the query makes no sense.
    pub fn jobs(&self, who: &Caller, query: &JobsQuery) -> Answer<api::Jobs> {
        self.view(who).jobs(query)
    }

    /// One job.
    ///
    /// # Errors
    /// When there is none to see.
    pub fn job(&self, who: &Caller, job: u64) -> Answer<api::Job> {
        self.view(who).job(job)
    }

    /// Jobs that wait.
    ///
    /// # Errors
    /// When the query makes no sense.
    pub fn queue(&self, who: &Caller, page: &Page) -> Answer<api::Queue> {
        self.view(who).queue(page)
    }

    /// Hosts.
    ///
    /// # Errors
    /// When the query makes no sense.
    pub fn nodes(&self, who: &Caller, page: &Page) -> Answer<api::Nodes> {
        self.view(who).nodes(page)
    }

    /// All GPUs.
    ///
    /// # Errors
    /// Never yet.
    pub fn gpus(&self, who: &Caller) -> Answer<api::Gpus> {
        Ok(self.view(who).gpus())
    }

    /// Kinds of GPU.
    ///
    /// # Errors
    /// Never yet.
    pub fn kinds(&self, who: &Caller) -> Answer<api::Kinds> {
        Ok(self.view(who).kinds())
    }

    /// What can be submitted.
    ///
    /// # Errors
    /// Never yet.
    pub fn workloads(&self, _who: &Caller) -> Answer<api::Workloads> {
        Ok(api::Workloads { workloads: self.shared.header.workloads.clone() })
    }

    /// Tenants.
    ///
    /// # Errors
    /// Never yet.
    pub fn tenants(&self, who: &Caller) -> Answer<api::Tenants> {
        Ok(self.view(who).tenants())
    }

    /// Policies.
    ///
    /// # Errors
    /// Never yet.
    pub fn policies(&self, who: &Caller) -> Answer<api::Policies> {
        Ok(self.view(who).policies())
    }

    /// Estimated and measured rates.
    ///
    /// # Errors
    /// When the query makes no sense.
    pub fn estimates(&self, who: &Caller, workload: Option<&str>, page: &Page) -> Answer<api::Estimates> {
        self.view(who).estimates(workload, page)
    }

    /// The decision in force.
    ///
    /// # Errors
    /// Never yet.
    pub fn allocation(&self, who: &Caller) -> Answer<api::Allocation> {
        Ok(self.view(who).allocation())
    }

    /// Fairness over a window.
    ///
    /// # Errors
    /// When the window makes no sense.
    pub fn audit(&self, who: &Caller, from: Option<f64>, to: Option<f64>) -> Answer<api::Audit> {
        self.view(who).audit(from, to)
    }

    /// Energy accounts.
    ///
    /// # Errors
    /// When the window or the cursor makes no sense.
    pub fn energy(
        &self,
        who: &Caller,
        by: EnergyBy,
        from: Option<f64>,
        to: Option<f64>,
        page: &Page,
    ) -> Answer<api::EnergyAccount> {
        self.view(who).energy(by, from, to, page)
    }

    /// Tokens, without their secrets.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn tokens(&self, _who: &Caller) -> Answer<api::Tokens> {
        let tokens = self.shared.history(crate::store::Store::tokens)?;
        Ok(api::Tokens { tokens: tokens.into_iter().map(shown).collect() })
    }

    /// Events after number `after` that the caller may see, oldest first, at most `most`; and the number up to which they
    /// go. `None`: so old that some are forgotten; the listener should read everything anew.
    #[must_use]
    pub fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)> {
        self.view(who).events(after, most)
    }

    /// Waits until there is an event with a number above `after`.
    pub async fn wait_for_event(&self, after: u64) {
        let mut news = self.shared.news.subscribe();
        let _ = news.wait_for(|last| *last > after).await;
    }

    /// Whether the process is alive.
    #[must_use]
    pub fn health(&self) -> api::Health {
        let broken = self.shared.condition() == ServiceState::Broken;
        api::Health {
            ok: !broken,
            trouble: broken.then(|| "the journal cannot be written".into()).into_iter().collect(),
        }
    }

    /// Whether requests can be taken, and the engine answers.
    #[must_use]
    pub fn ready(&self) -> api::Health {
        let mut trouble = Vec::new();
        match self.shared.condition() {
            ServiceState::Ready => {}
            ServiceState::Starting => trouble.push("the service is starting".to_owned()),
            ServiceState::Stopping => trouble.push("the service is stopping".to_owned()),
            ServiceState::Broken => trouble.push("the journal cannot be written".to_owned()),
        }
        if self.shared.gauges.engine_up.get() == 0 {
            trouble.push("the engine does not answer".to_owned());
        }
        api::Health { ok: trouble.is_empty(), trouble }
    }

    /// Prometheus text.
    #[must_use]
    pub fn metrics(&self) -> String {
        metrics::text(&self.shared)
    }

    /// Who a secret belongs to.
    #[must_use]
    pub fn caller(&self, secret: &str) -> Option<Caller> {
        self.shared.caller(secret)
    }

    fn tenant(&self, name: &str) -> Answer<TenantId> {
        let book = self.shared.book();
        let at = book.tenants.iter().position(|line| line.name == name);
        at.map(|i| TenantId(i as u32)).ok_or_else(|| {
            let names = book.tenants.iter().map(|line| line.name.as_str());
            let near = nearest(name, names).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            Refusal::unprocessable(
                "no-such-tenant",
                format!("there is no tenant '{}'{near}", name.escape_debug()),
                "'arles tenants' lists them; an admin adds one with PUT /v1/tenants/NAME",
            )
        })
    }

    fn own_tenant(&self, who: &Caller) -> Answer<Option<TenantId>> {
        who.tenant.as_deref().map(|name| self.tenant(name)).transpose()
    }

    /// Looks up every name of a request, and checks every number.
    fn spec(&self, who: &Caller, job: &api::JobRequest) -> Answer<JobSpec> {
        let tenant = match (&who.tenant, &job.tenant) {
            (Some(own), Some(other)) if own != other => {
                return Err(Refusal::forbidden(
                    "other-tenant",
                    format!("this token submits for {own}, not for '{}'", other.escape_debug()),
                    "leave the tenant out, or use a token of that tenant",
                ));
            }
            (Some(own), _) => self.tenant(own)?,
            (None, Some(name)) => self.tenant(name)?,
            (None, None) => {
                return Err(Refusal::unprocessable(
                    "no-tenant",
                    "the request names no tenant",
                    "say whose job it is: \"tenant\"",
                ));
            }
        };
        let header = &self.shared.header;
        Ok(JobSpec {
            id: JobId(0),
            tenant,
            workload: self.workload(&job.workload)?,
            gang: gang(job.gang, &header.cluster.counts())?,
            work: work(job)?,
            floor: job.floor.map(|floor| number("floor", floor, 1e-9, 1e12)).transpose()?,
            weight: number("weight", job.weight, 1e-6, 1e6)?,
            restart_seconds: match job.restart_seconds {
                Some(seconds) => number("restart_seconds", seconds, 0.0, 1e6)?,
                None => header.restart_seconds,
            },
            kinds: self.kinds_named(&job.kinds)?,
            arrived: Time::ZERO,
        })
    }

    fn workload(&self, name: &str) -> Answer<WorkloadId> {
        let workloads = &self.shared.header.workloads;
        let known = Library::builtin().workload(name).map_or(name, |workload| workload.name.as_str());
        let at = workloads.iter().position(|workload| workload == known);
        at.map(|i| WorkloadId(i as u32)).ok_or_else(|| {
            let near = nearest(name, workloads.iter().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            Refusal::unprocessable(
                "no-such-workload",
                format!("there is no workload '{}'{near}", name.escape_debug()),
                "'arles workloads' lists them",
            )
        })
    }

    fn kinds_named(&self, names: &[String]) -> Answer<Vec<KindId>> {
        let kinds = self.shared.header.cluster.kinds();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let known = Library::builtin().kind(name).map_or(name.as_str(), |kind| kind.name.as_str());
            let Some(at) = kinds.iter().position(|kind| kind.name == known) else {
                let all: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
                return Err(Refusal::unprocessable(
                    "no-such-kind",
                    format!("there is no GPU of kind '{}' in this cluster", name.escape_debug()),
                    format!("use some of {}", all.join(", ")),
                ));
            };
            found.push(KindId(at as u16));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

fn crowded() -> Refusal {
    Refusal::too_many(
        "dry-runs",
        "other dry runs are under way, as many as may be at a time",
        "try again in a second or two",
    )
    .retry_after(2.0)
}

fn gone() -> Refusal {
    Refusal::unavailable(
        "stopping",
        "the service stopped before it could answer",
        "try again; with an idempotency key nothing is done twice",
    )
    .retry_after(1.0)
}

fn policy(name: &str) -> Answer<&'static arles_core::allocate::PolicyEntry> {
    find_policy(name).ok_or_else(|| {
        let near = nearest(name, POLICIES.iter().map(|entry| entry.name));
        let near = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        Refusal::unprocessable(
            "no-such-policy",
            format!("there is no policy '{}'{near}", name.escape_debug()),
            "'arles policies' lists them",
        )
    })
}

fn number(name: &'static str, value: f64, least: f64, most: f64) -> Answer<f64> {
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(Refusal::unprocessable(name, format!("{name} is {value}"), format!("expected a number from {least} to {most}")))
}

fn gang(gang: u32, counts: &[u32]) -> Answer<u32> {
    let most = counts.iter().copied().max().unwrap_or(0);
    if (1..=most).contains(&gang) {
        return Ok(gang);
    }
    Err(Refusal::unprocessable(
        "gang",
        format!("a gang of {gang} GPUs cannot run here"),
        format!("ask for 1 to {most}: a gang is of one kind, and that is the most there are of any"),
    ))
}

fn work(job: &api::JobRequest) -> Answer<Work> {
    match (job.steps, job.period_seconds) {
        (Some(steps), None) => Ok(Work::Steps(number("steps", steps, 0.001, 1e15)?)),
        (None, Some(seconds)) => Ok(Work::Period(number("period_seconds", seconds, 0.001, 1e9)?)),
        (params, _) => Err(Refusal::unprocessable(
            "work",
            if params.is_some() {
                "both steps and period_seconds are given"
            } else {
                "neither steps nor period_seconds is given"
            },
            "give one of them: steps for training, period_seconds for serving",
        )),
    }
}

/// A token and its secret.
#[must_use]
pub fn fresh_token(name: &str, scope: Scope, tenant: Option<String>) -> (StoredToken, String) {
    let secret = access::new_secret();
    let created = (crate::clock::wall().0 / 1_000_000) as i64;
    let token = StoredToken {
        name: name.to_owned(),
        hash: access::hash(&secret),
        scope: scope.name().to_owned(),
        tenant,
        created,
    };
    (token, secret)
}

fn shown(token: StoredToken) -> api::Token {
    let StoredToken { name, scope, tenant, created, .. } = token;
    api::Token { name, scope, tenant, created_at: created as f64, secret: None }
}
