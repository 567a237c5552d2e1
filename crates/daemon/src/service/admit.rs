//! Changes on their way into the journal: the last check of a request, in the loop, which alone knows what came just before it.

use super::event_loop::EventLoop;
use super::keys::MOST_OF_TENANT as MOST_KEYS;
use crate::Refusal;
use crate::store::entry::{Entry, Key, NewWorkload, Submission};
use arles_core::library::suggestion;
use arles_core::{
    ArrayTask, ClusterChange, Input, JobId, JobSpec, Prices, Quota, Tenant, TenantId, Time, Work, WorkloadId,
};

/// Live jobs that one daemon takes; what a job needs is memory.
const MOST_LIVE: usize = 1_000_000;
/// Workloads that one daemon keeps, and that one tenant may be the first to name.
const MOST_WORKLOADS: usize = 100_000;
const MOST_WORKLOADS_OF_TENANT: u32 = 10_000;

/// Code of the refusal of a job whose dependency ended a moment ago: whoever looks again knows how.
pub(super) const AFTER_ENDED: &str = "after-ended";

/// A job to be submitted, or an array of them, with names already resolved.
pub(crate) struct NewJob {
    /// Id, arrival, workload and array task are set here.
    pub(crate) spec: JobSpec,
    /// What runs, by name; a name that nobody used before becomes a workload.
    pub(crate) workload: NewWorkload,
    pub(crate) name: Option<String>,
    pub(crate) key: Option<Key>,
    /// Indices of an array, and how many tasks may run at once.
    pub(crate) array: Option<(Vec<u32>, u32)>,
}

/// A requested change, with names already resolved.
pub(crate) enum Change {
    /// A new job, or an array of them.
    Submit(Box<NewJob>),
    /// Cancel a job, if it belongs to this tenant.
    Cancel { job: JobId, of: Option<TenantId> },
    /// Hold a job, if it belongs to this tenant.
    Hold { job: JobId, of: Option<TenantId> },
    /// Release a held job, if it belongs to this tenant.
    Release { job: JobId, of: Option<TenantId> },
    /// Switch the policy.
    Policy(String),
    /// Add a tenant, or change its weight.
    Tenant(Tenant),
    /// Set what a tenant may use.
    Quota(String, Quota),
    /// Remove a tenant, and cancel its live jobs if so asked.
    RemoveTenant { name: String, cancel: bool },
    /// Set what all GPUs together may draw, or those of a rack.
    PowerBudget { rack: Option<String>, watts: Option<f64> },
    /// Set what electricity costs.
    Prices(Box<Prices>),
    /// Change the cluster.
    Cluster(Box<ClusterChange>),
}

/// The entries that a change becomes, the job it is about, and whether it changes anything; no entries if it does not.
type Admitted = Result<(Vec<Entry>, JobId, bool), Refusal>;

impl EventLoop {
    pub(super) fn admit(&mut self, now: Time, change: Change) -> Admitted {
        match change {
            Change::Submit(job) => self.admit_job(now, *job),
            Change::Cancel { job, of } => self.admit_for_job(job, of, Input::Cancel(job)),
            Change::Hold { job, of } => self.admit_for_job(job, of, Input::Hold(job)),
            Change::Release { job, of } => self.admit_for_job(job, of, Input::Release(job)),
            Change::Policy(name) => {
                let same = self.machine().scheduler.policy().name == name;
                let entries = if same { Vec::new() } else { vec![Entry::Input(Input::Policy(name))] };
                Ok((entries, JobId(0), !same))
            }
            Change::Tenant(tenant) => Ok((vec![Entry::Input(Input::Tenant(tenant))], JobId(0), true)),
            Change::Quota(name, quota) => Ok((vec![Entry::Input(Input::Quota(name, quota))], JobId(0), true)),
            Change::PowerBudget { rack, watts } => {
                let scheduler = &self.machine().scheduler;
                let before = match &rack {
                    Some(rack) => scheduler.rack_budgets().get(rack).copied(),
                    None => scheduler.power_budget(),
                };
                let input = match rack {
                    Some(rack) => Input::RackBudget { rack, watts },
                    None => Input::PowerBudget(watts),
                };
                let entries = if before == watts { Vec::new() } else { vec![Entry::Input(input)] };
                Ok((entries, JobId(0), before != watts))
            }
            Change::Prices(prices) => {
                let same = *self.machine().scheduler.prices() == *prices;
                let entries = if same { Vec::new() } else { vec![Entry::Input(Input::Prices(*prices))] };
                Ok((entries, JobId(0), !same))
            }
            Change::RemoveTenant { name, cancel } => self.admit_removal(name, cancel),
            Change::Cluster(change) => Ok((vec![Entry::Input(Input::Cluster(*change))], JobId(0), true)),
        }
    }

    /// An input about a job that must be live, and of this tenant.
    fn admit_for_job(&mut self, job: JobId, of: Option<TenantId>, input: Input) -> Admitted {
        let job_status = self.machine().scheduler.job_status(job);
        match job_status.filter(|job_status| of.is_none_or(|tenant| job_status.spec.tenant == tenant)) {
            Some(_) => Ok((vec![Entry::Input(input)], job, true)),
            None => Err(crate::service::desk::job_over(job.0)),
        }
    }

    /// A removal that the scheduler would refuse is not journalled.
    fn admit_removal(&mut self, name: String, cancel: bool) -> Admitted {
        let scheduler = &self.machine().scheduler;
        let number = scheduler.tenants().iter().position(|tenant| tenant.name == name);
        let used = number.and_then(|number| scheduler.tenant_use(TenantId(number as u32)));
        let Some(used) = used.filter(|used| !used.removed) else {
            let near = suggestion(&name, scheduler.tenants().iter().map(|tenant| tenant.name.as_str()));
            let message = format!("there is no tenant '{}'{near}", name.escape_debug());
            return Err(Refusal::not_found("no-such-tenant", message, "'arles tenants' lists them"));
        };
        if used.live_jobs > 0 && !cancel {
            let jobs = if used.live_jobs == 1 { "1 live job".into() } else { format!("{} live jobs", used.live_jobs) };
            let message = format!("tenant '{}' has {jobs}", name.escape_debug());
            let hint = "wait until its jobs have ended, or cancel them with 'arles tenants remove NAME --cancel'";
            return Err(Refusal::conflict("tenant-has-jobs", message, hint));
        }
        Ok((vec![Entry::Input(Input::RemoveTenant { name, cancel })], JobId(0), true))
    }

    /// What the quota of a job's tenant says to so many more jobs.
    fn check_quota(&mut self, spec: &JobSpec, tasks: usize, keyed: bool, now: Time) -> Result<(), Refusal> {
        let machine = self.machine();
        let name = machine.scheduler.tenants().get(spec.tenant.index()).map_or("", |tenant| tenant.name.as_str());
        let Some(used) = machine.scheduler.tenant_use(spec.tenant) else { return Ok(()) };
        if used.removed {
            let message = format!("tenant '{}' was removed", name.escape_debug());
            return Err(Refusal::conflict("no-such-tenant", message, "'arles tenants' lists them"));
        }
        if let Some(most) = used.quota.jobs
            && used.live_jobs as usize + tasks > most as usize
        {
            let more = if tasks == 1 { String::new() } else { format!(", and this array has {tasks}") };
            return Err(Refusal::conflict(
                "quota-jobs",
                format!("tenant {name} has {} of its {most} live jobs{more}", used.live_jobs),
                "wait until some have ended, or have an admin raise the quota with 'arles tenants quota'",
            ));
        }
        match machine.keys.full(spec.tenant, now).filter(|_| keyed) {
            None => Ok(()),
            Some(seconds) => Err(Refusal::too_many(
                "too-many-keys",
                format!("tenant {name} has used {MOST_KEYS} idempotency keys within minutes"),
                "submit more slowly, or arrays instead of single jobs",
            )
            .retry_after(seconds)),
        }
    }

    fn admit_job(&mut self, now: Time, job: NewJob) -> Admitted {
        let NewJob { mut spec, workload, name, key, array } = job;
        if let Some(key) = &key
            && let Some((request, job)) = self.machine().keys.find(key)
        {
            if request == key.request {
                return Ok((Vec::new(), job, false));
            }
            return Err(Refusal::conflict(
                "key-reused",
                format!("idempotency key '{}' was already used for a different request (job {})", key.word, job.0),
                "use a new key for a new job",
            ));
        }
        let tasks = array.as_ref().map_or(1, |(indices, _)| indices.len());
        if self.machine().scheduler.live_jobs() + tasks > MOST_LIVE {
            return Err(Refusal::unavailable(
                "full",
                format!("the limit of {MOST_LIVE} live jobs is reached"),
                "wait until some have ended",
            ));
        }
        self.check_quota(&spec, tasks, key.is_some(), now)?;
        self.check_dependencies(&spec)?;
        let mut entries = Vec::with_capacity(tasks + 1);
        spec.workload = self.workload_number(workload, &mut entries)?;
        if spec.work == Work::Open(None) {
            let expected = self.expected_seconds(&spec);
            spec.work = Work::Open(expected);
        }
        spec.arrived = now;
        let first = JobId(self.machine().next_job);
        match array {
            None => {
                spec.id = first;
                entries.push(Entry::Submit(Submission { spec, name, key, tasks: 0 }));
            }
            Some((indices, at_most)) => {
                let mut key = key;
                for (id, index) in (first.0..).zip(indices) {
                    let array = Some(ArrayTask { array: first, index, at_most });
                    let spec = JobSpec { id: JobId(id), array, ..spec.clone() };
                    // One key for all of them: it leads to the first.
                    let submission = Submission { spec, name: name.clone(), key: key.take(), tasks: tasks as u32 };
                    entries.push(Entry::Submit(submission));
                }
            }
        }
        Ok((entries, first, true))
    }

    /// A dependency that was live when the request was looked at may be over by now; what is not live counts as met.
    fn check_dependencies(&mut self, spec: &JobSpec) -> Result<(), Refusal> {
        let scheduler = &self.machine().scheduler;
        match spec.after.iter().find(|dependency| scheduler.job_status(dependency.job).is_none()) {
            None => Ok(()),
            Some(dependency) => Err(Refusal::conflict(
                AFTER_ENDED,
                format!("job {} ended just now", dependency.job.0),
                "submit again: the dependency is then met, or cannot be",
            )),
        }
    }

    /// The number of a workload; a new one gets an entry before the job that needs it.
    fn workload_number(&mut self, workload: NewWorkload, entries: &mut Vec<Entry>) -> Result<WorkloadId, Refusal> {
        let known = &self.machine().workloads;
        if let Some(number) = known.find(&workload.name) {
            return Ok(number);
        }
        let hint = "use a workload name that is known already, with --workload NAME";
        if known.added().len() >= MOST_WORKLOADS {
            let message = format!("the limit of {MOST_WORKLOADS} workloads is reached");
            return Err(Refusal::conflict("workloads", message, hint));
        }
        if known.introduced_by(workload.tenant) >= MOST_WORKLOADS_OF_TENANT {
            let message = format!("the limit of {MOST_WORKLOADS_OF_TENANT} new workloads of one tenant is reached");
            return Err(Refusal::conflict("workloads", message, hint));
        }
        let number = WorkloadId(known.len() as u32);
        entries.push(Entry::Workload(workload));
        Ok(number)
    }

    /// How long earlier runs of the same workload took, by the entries that are on disk.
    fn expected_seconds(&self, spec: &JobSpec) -> Option<f64> {
        self.shared().book().runs.expected(spec.workload, spec.gang).map(|(seconds, _)| seconds)
    }
}
