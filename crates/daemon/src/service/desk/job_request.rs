//! From a job request to a job: every name is looked up and every number checked.

use super::{Desk, unknown, weight};
use crate::Refusal;
use crate::access::Caller;
use arles_api as api;
use arles_core::{JobId, JobSpec, KindId, Library, TenantId, Time, Work, WorkloadId};

impl Desk {
    pub(super) fn job_spec(&self, who: &Caller, job: &api::JobRequest) -> Result<JobSpec, Refusal> {
        let header = &self.shared.header;
        Ok(JobSpec {
            id: JobId(0),
            tenant: self.tenant_of(who, job)?,
            workload: self.workload(&job.workload)?,
            gang: gang(job.gang, &header.cluster.counts())?,
            work: work(job)?,
            floor: job.floor.map(|floor| number("floor", floor, 1e-9, 1e12)).transpose()?,
            weight: weight(job.weight)?,
            restart_seconds: match job.restart_seconds {
                Some(seconds) => number("restart_seconds", seconds, 0.0, 1e6)?,
                None => header.restart_seconds,
            },
            kinds: self.kinds_named(&job.kinds)?,
            arrived: Time::ZERO,
            ..JobSpec::default()
        })
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

    fn workload(&self, name: &str) -> Result<WorkloadId, Refusal> {
        let workloads = &self.shared.header.workloads;
        let known = Library::builtin().workload(name).map_or(name, |workload| workload.name.as_str());
        let at = workloads.iter().position(|workload| workload == known);
        at.map(|i| WorkloadId(i as u32)).ok_or_else(|| {
            let message = unknown("workload", name, workloads.iter().map(String::as_str));
            Refusal::unprocessable("no-such-workload", message, "'arles workloads' lists them")
        })
    }

    fn kinds_named(&self, names: &[String]) -> Result<Vec<KindId>, Refusal> {
        let kinds = self.shared.header.cluster.kinds();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let known = Library::builtin().kind(name).map_or(name.as_str(), |kind| kind.name.as_str());
            let Some(at) = kinds.iter().position(|kind| kind.name == known) else {
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

fn work(job: &api::JobRequest) -> Result<Work, Refusal> {
    match (job.steps, job.period_seconds) {
        (Some(steps), None) => Ok(Work::Steps(number("steps", steps, 0.001, 1e15)?)),
        (None, Some(seconds)) => Ok(Work::Period(number("period_seconds", seconds, 0.001, 1e9)?)),
        (steps, _) => Err(Refusal::unprocessable(
            "work",
            if steps.is_some() {
                "both steps and period_seconds are given"
            } else {
                "neither steps nor period_seconds is given"
            },
            "give one of them: steps for training, period_seconds for serving",
        )),
    }
}
