//! From a job request to a job: every name is looked up and every number checked.

use super::{Desk, no_job, program, unknown, weight, workload_name};
use crate::Refusal;
use crate::access::Caller;
use crate::service::NewJob;
use crate::store::entry::NewWorkload;
use arles_api::{self as api, JobState};
use arles_core::{
    Dependency, JobId, JobSpec, KindId, Library, Needs, Outcome, Profile, Program, TenantId, Time, Work, WorkloadId,
};
use std::sync::Arc;

impl NewJob {
    /// The same, called so in another system's queue.
    pub(super) fn queued_as(mut self, external: Option<String>) -> Self {
        if external.is_some() {
            let program = self.spec.program.as_deref().cloned().unwrap_or_default();
            self.spec.program = Some(Arc::new(Program { external, ..program }));
        }
        self
    }
}

impl Desk {
    /// The job that a request asks for. Its workload's number is set by the loop, which alone knows what came just before it.
    pub(super) fn new_job(&self, who: &Caller, job: &api::JobRequest) -> Result<NewJob, Refusal> {
        let tenant = self.tenant_of(who, job)?;
        let program = job.program.as_ref().map(program::program).transpose()?;
        let workload = self.workload_of(who, tenant, job, program.as_ref())?;
        let cluster = Arc::clone(self.shared.book().cluster());
        let gang = gang(job.gang, &cluster.counts())?;
        let needs = job.needs.as_ref().map(|needs| program::needs(needs, gang, &cluster)).transpose()?;
        let array = job.array.as_ref().map(|array| program::array(array, program.as_ref())).transpose()?;
        let spec = JobSpec {
            id: JobId(0),
            tenant,
            workload: WorkloadId(0),
            gang,
            largest_gang: self.largest_gang(job, gang)?,
            work: work(job)?,
            floor: job.floor.map(|floor| number("floor", floor, 1e-9, 1e12)).transpose()?,
            weight: weight(job.weight)?,
            restart_seconds: match job.restart_seconds {
                Some(seconds) => number("restart_seconds", seconds, 0.0, 1e6)?,
                None => self.shared.header.restart_seconds,
            },
            kinds: self.kinds_named(&job.kinds)?,
            arrived: Time::ZERO,
            needs: needs.unwrap_or(Needs::default()),
            time_limit_seconds: job
                .time_limit_seconds
                .map(|seconds| number("time_limit_seconds", seconds, 1.0, 1e9))
                .transpose()?,
            most_failures: job.retries.map(|retries| retries.min(1000) + 1),
            held: job.held,
            after: self.dependencies(who, &job.after)?,
            before: job.before.map(|at| number("before", at, 0.0, 1e11)).transpose()?.map(Time::from_seconds),
            array: None,
            program: program.map(Arc::new),
        };
        Ok(NewJob { spec, workload, name: job_name(job.name.as_deref())?, key: None, array })
    }

    /// The job of a dry run: its workload must be one that something is known of.
    pub(super) fn job_spec(&self, who: &Caller, job: &api::JobRequest) -> Result<JobSpec, Refusal> {
        let NewJob { mut spec, workload, .. } = self.new_job(who, job)?;
        let book = self.shared.book();
        let like = || workload.profile.like.as_deref().and_then(|name| book.workloads.find(name));
        spec.workload = book.workloads.find(&workload.name).or_else(like).ok_or_else(|| {
            Refusal::unprocessable(
                "unknown-program",
                "nothing is known of this program yet, so when it would run cannot be said",
                "submit it, or name a workload that it is like with --profile like=NAME",
            )
        })?;
        if spec.work == Work::Open(None) {
            spec.work = Work::Open(book.runs.expected(spec.workload, spec.gang).map(|(seconds, _)| seconds));
        }
        Ok(spec)
    }

    fn tenant_of(&self, who: &Caller, job: &api::JobRequest) -> Result<TenantId, Refusal> {
        match (&who.tenant, &job.tenant) {
            (Some(own), Some(other)) if own != other => Err(Refusal::forbidden(
                "other-tenant",
                format!("this token may submit for tenant {own}, not for '{}'", other.escape_debug()),
                "leave the tenant out, or use a token of that tenant",
            )),
            (Some(name), _) | (None, Some(name)) => self.tenant(name),
            (None, None) => Err(Refusal::unprocessable(
                "no-tenant",
                "the request names no tenant",
                "set \"tenant\" to the tenant that the job belongs to",
            )),
        }
    }

    /// The workload's name, and what is known of it should it be new.
    fn workload_of(
        &self,
        who: &Caller,
        tenant: TenantId,
        job: &api::JobRequest,
        program: Option<&Program>,
    ) -> Result<NewWorkload, Refusal> {
        let profile = job.profile.as_ref().map(program::profile).transpose()?.unwrap_or_default();
        let library = job.workload.as_deref().and_then(|name| Library::builtin().workload(name).ok());
        let name = match (&job.workload, library, program) {
            // The library may know more than it did when the journal began.
            (Some(_), Some(known), _) => {
                let profile = Profile { like: profile.like.or(Some(known.name.clone())), ..profile };
                return Ok(NewWorkload { name: known.name.clone(), profile, tenant });
            }
            (Some(name), None, Some(_)) => checked_name(name)?,
            (None, _, Some(program)) => workload_name::of(program),
            (Some(name), None, None) => self.used_before(who, name)?,
            (None, _, None) => {
                return Err(Refusal::unprocessable(
                    "workload",
                    "the request has neither a workload nor a program",
                    "set \"program\" to what should run, or \"workload\" to a name that 'arles workloads' lists",
                ));
            }
        };
        Ok(NewWorkload { name, profile, tenant })
    }

    /// A name without a program: it must be one that the caller may know of.
    fn used_before(&self, who: &Caller, name: &str) -> Result<String, Refusal> {
        let own = self.own_tenant(who)?;
        let book = self.shared.book();
        if book.workloads.find(name).is_some_and(|number| book.workloads.is_visible(number, own)) {
            return Ok(name.to_owned());
        }
        let message = unknown("workload", name, book.workloads.visible(own));
        Err(Refusal::unprocessable(
            "no-such-workload",
            message,
            "'arles workloads' lists them; to run a program: 'arles submit -- COMMAND'",
        ))
    }

    fn kinds_named(&self, names: &[String]) -> Result<Vec<KindId>, Refusal> {
        let cluster = Arc::clone(self.shared.book().cluster());
        let kinds = cluster.kinds();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let Some(at) = super::nodes::kind_at(kinds, name) else {
                let all: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
                return Err(Refusal::unprocessable(
                    "no-such-kind",
                    format!("this cluster has no GPUs of kind '{}'", name.escape_debug()),
                    format!("expected one or more of {}", all.join(", ")),
                ));
            };
            found.push(KindId(at as u16));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Dependencies on jobs that are still live. One that is met already is dropped; one that cannot be met is refused.
    fn dependencies(&self, who: &Caller, after: &[api::Dependency]) -> Result<Vec<Dependency>, Refusal> {
        let mut open = Vec::new();
        for &api::Dependency { job, outcome } in after {
            let state = self.view(who).job(job).map_err(|_| Refusal { status: 422, ..no_job(job) })?.state;
            let met = match outcome {
                api::Outcome::Ok => state == JobState::Completed,
                api::Outcome::NotOk => matches!(state, JobState::Failed | JobState::Cancelled),
                api::Outcome::Any => true,
            };
            if state.over() && !met {
                return Err(Refusal::unprocessable(
                    "after",
                    format!("job {job} has already ended ({}), so '{}' can never be met", state.name(), outcome.name()),
                    "leave the dependency out, or use another outcome",
                ));
            }
            let outcome = match outcome {
                api::Outcome::Ok => Outcome::Ok,
                api::Outcome::NotOk => Outcome::NotOk,
                api::Outcome::Any => Outcome::Any,
            };
            let dependency = Dependency { job: JobId(job), outcome };
            if !state.over() && !open.contains(&dependency) {
                open.push(dependency);
            }
        }
        Ok(open)
    }
}

/// A name that somebody chose for a job.
fn job_name(name: Option<&str>) -> Result<Option<String>, Refusal> {
    name.filter(|name| !name.trim().is_empty()).map(|name| super::name("job-name", "job name", name, 200)).transpose()
}

/// A name that somebody chose for a workload.
fn checked_name(name: &str) -> Result<String, Refusal> {
    super::name("workload", "workload name", name, 200)
}

fn number(name: &'static str, value: f64, least: f64, most: f64) -> Result<f64, Refusal> {
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(Refusal::unprocessable(name, format!("{name} is {value}"), format!("expected a number from {least} to {most}")))
}

fn gang(gang: u32, counts: &[u32]) -> Result<u32, Refusal> {
    let most = counts.iter().copied().max().unwrap_or(0);
    if (1..=most).contains(&gang) {
        return Ok(gang);
    }
    Err(Refusal::unprocessable(
        "gang",
        format!("a gang of {gang} GPUs does not fit this cluster"),
        format!("expected 1 to {most}: all GPUs of a gang are of one kind, and no kind has more"),
    ))
}

impl Desk {
    /// The most GPUs of an elastic job. More than any kind has is no mistake: nodes may join.
    fn largest_gang(&self, job: &api::JobRequest, least: u32) -> Result<Option<u32>, Refusal> {
        match job.largest_gang {
            Some(most) if !(least..=MOST_GANG).contains(&most) => Err(Refusal::unprocessable(
                "largest-gang",
                format!("a gang of {least} to {most} GPUs makes no sense"),
                format!("expected {least} to {MOST_GANG} for the larger number, such as --gpus 1-4"),
            )),
            Some(most) if most > least && !self.shared.abilities.resizes_gangs => Err(Refusal::unprocessable(
                "largest-gang",
                format!("a gang of {least} to {most} GPUs cannot change its size on {}", self.shared.engine_name),
                "submit it with one number, such as --gpus 2",
            )),
            most => Ok(most.filter(|most| *most > least)),
        }
    }
}

/// No job uses more GPUs.
const MOST_GANG: u32 = 1_000_000;

fn work(job: &api::JobRequest) -> Result<Work, Refusal> {
    match (job.steps, job.period_seconds) {
        (Some(steps), None) => Ok(Work::Steps(number("steps", steps, 0.001, 1e15)?)),
        (None, Some(seconds)) => Ok(Work::Period(number("period_seconds", seconds, 0.001, 1e9)?)),
        (None, None) if job.program.is_some() => Ok(Work::Open(None)),
        (steps, _) => Err(Refusal::unprocessable(
            "work",
            if steps.is_some() {
                "both steps and period_seconds are given"
            } else {
                "neither steps nor period_seconds is given"
            },
            "give one of them: steps for training, period_seconds for serving; only a program may run until it ends",
        )),
    }
}
