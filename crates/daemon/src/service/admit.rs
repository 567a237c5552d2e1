//! Changes on their way into the journal: the last check of a request, in the loop, which alone knows what came just before it.

use super::event_loop::EventLoop;
use crate::Refusal;
use crate::store::entry::{Entry, Key, Submission};
use arles_core::{Input, JobId, JobSpec, Tenant, TenantId, Time};

/// Live jobs that one daemon takes; what a job needs is memory.
const MOST_LIVE: usize = 1_000_000;

/// A requested change, with names already resolved.
pub(crate) enum Change {
    /// A new job; id and arrival are set here.
    Submit { spec: JobSpec, name: Option<String>, key: Option<Key> },
    /// Cancel a job, if it belongs to this tenant.
    Cancel { job: JobId, of: Option<TenantId> },
    /// Switch the policy.
    Policy(String),
    /// Add a tenant, or change its weight.
    Tenant(Tenant),
}

impl EventLoop {
    /// The entry that a change becomes, the job it is about, and whether it changes anything; no entry if it does not.
    pub(super) fn admit(&mut self, now: Time, change: Change) -> Result<(Option<Entry>, JobId, bool), Refusal> {
        match change {
            Change::Submit { spec, name, key } => self.admit_job(now, spec, name, key),
            Change::Cancel { job, of } => {
                let job_status = self.machine().scheduler.job_status(job);
                match job_status.filter(|job_status| of.is_none_or(|tenant| job_status.spec.tenant == tenant)) {
                    Some(_) => Ok((Some(Entry::Input(Input::Cancel(job))), job, true)),
                    None => Err(crate::service::desk::job_over(job.0)),
                }
            }
            Change::Policy(name) => {
                let same = self.machine().scheduler.policy().name == name;
                Ok(((!same).then_some(Entry::Input(Input::Policy(name))), JobId(0), !same))
            }
            Change::Tenant(tenant) => Ok((Some(Entry::Input(Input::Tenant(tenant))), JobId(0), true)),
        }
    }

    fn admit_job(
        &mut self,
        now: Time,
        mut spec: JobSpec,
        name: Option<String>,
        key: Option<Key>,
    ) -> Result<(Option<Entry>, JobId, bool), Refusal> {
        let machine = self.machine();
        if let Some(key) = &key
            && let Some((request, job)) = machine.keys.find(&key.owner, &key.word)
        {
            if request == key.request {
                return Ok((None, job, false));
            }
            return Err(Refusal::conflict(
                "key-reused",
                format!("idempotency key '{}' was already used for a different request (job {})", key.word, job.0),
                "use a new key for a new job",
            ));
        }
        if machine.scheduler.live_jobs() >= MOST_LIVE {
            return Err(Refusal::unavailable(
                "full",
                format!("the limit of {MOST_LIVE} live jobs is reached"),
                "wait until some have ended",
            ));
        }
        spec.id = JobId(machine.next_job);
        spec.arrived = now;
        let job = spec.id;
        Ok((Some(Entry::Submit(Submission { spec, name, key })), job, true))
    }
}
