//! Tenants' quotas, their use, and tenants that leave.
//!
//! GPUs at once and monthly budgets are kept by admission: a job that its tenant's quota leaves no room for is invisible to policies and
//! placer. Once a round, for every tenant with such a quota:
//!
//!   - if a budget of this month is used up, none of its jobs may run. Those that do are stopped with a checkpoint, as if they were held. Use is
//!     counted when a round begins, so a budget may be exceeded by what a round takes (and energy by what was not metered yet);
//!   - else its jobs are admitted while their gangs together fit under its limit: first those that hold GPUs, then those that wait, in the order of
//!     their submission. The first that does not fit ends it, so a large gang is never passed over for ever by small ones. A gang
//!     larger than the limit, and a job that could not start now anyway, is left out and blocks nobody.
//!
//! The limit itself is kept where gangs are started (`try_start`): whatever was planned, no start takes a tenant beyond it, and gangs that were
//! told to stop count until they are gone. Where the limit is lowered below what a tenant holds, it holds more until those are gone, and starts nothing.

use super::*;

const JOULES_PER_KWH: f64 = 3.6e6;

/// What a tenant may use and has used.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct TenantState {
    #[serde(default)]
    pub(super) quota: Quota,
    /// Whether it has left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) removed: bool,
    /// GPU-seconds in this month.
    #[serde(default)]
    pub(super) month_gpu_seconds: f64,
    /// By the meters: since ever, and when this month began.
    #[serde(default)]
    joules: f64,
    #[serde(default)]
    joules_before: f64,
    /// What it was owed and did not use, in GPU-seconds; less than 0 if it used more. See [`crate::hierarchy`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) account_gpu_seconds: f64,
    /// GPU-seconds since accounts were last settled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) window_gpu_seconds: f64,
    /// What its account makes of its weight: a factor less 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) history: f64,
    /// Live jobs, and GPUs that are not free because of them. Both follow from the jobs.
    #[serde(skip)]
    pub(super) live: u32,
    #[serde(skip)]
    pub(super) gpus: u32,
}

/// What nobody has is not written down.
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl TenantState {
    /// What cannot be, in a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        self.quota.check().map_err(|why| format!("the snapshot's quotas: {why}"))?;
        let amounts = [self.month_gpu_seconds, self.joules, self.joules_before, self.window_gpu_seconds];
        if !(self.account_gpu_seconds.is_finite() && self.history.is_finite() && self.history > -1.0) {
            let (account, history) = (self.account_gpu_seconds, self.history);
            return Err(format!("a tenant of the snapshot has an account of {account} and a history of {history}"));
        }
        match amounts.iter().find(|amount| !(amount.is_finite() && **amount >= 0.0)) {
            Some(amount) => Err(format!("a tenant of the snapshot has used {amount}; expected 0 or more")),
            None => Ok(()),
        }
    }

    /// Takes down that so much was used.
    pub(super) fn used(&mut self, gpu_seconds: f64) {
        self.month_gpu_seconds += gpu_seconds;
        self.window_gpu_seconds += gpu_seconds;
    }

    fn gpu_hours(&self) -> f64 {
        self.month_gpu_seconds / 3600.0
    }

    fn kwh(&self) -> f64 {
        (self.joules - self.joules_before).max(0.0) / JOULES_PER_KWH
    }

    /// The budget that is used up, if one is: what is counted, how much was used and how much may be.
    fn spent(&self) -> Option<(&'static str, f64, f64)> {
        let budgets = [("GPU-hours", self.gpu_hours(), self.quota.gpu_hours), ("kWh", self.kwh(), self.quota.kwh)];
        budgets
            .into_iter()
            .find_map(|(unit, used, most)| most.filter(|most| used >= *most).map(|most| (unit, used, most)))
    }
}

/// What a tenant may use, and uses.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TenantUse {
    /// Its limits.
    pub quota: Quota,
    /// Whether it has left.
    pub removed: bool,
    /// Its jobs that are not over.
    pub live_jobs: u32,
    /// GPUs that are not free because of them; one that two of its jobs share counts twice.
    pub gpus: u32,
    /// In this month, as of the last round.
    pub gpu_hours: f64,
    /// In this month, as of the last meters.
    pub kwh: f64,
}

impl Scheduler {
    /// What a tenant may use, and uses.
    #[must_use]
    pub fn tenant_use(&self, tenant: TenantId) -> Option<TenantUse> {
        let state = self.tenant_states.get(tenant.index())?;
        Some(TenantUse {
            quota: state.quota,
            removed: state.removed,
            live_jobs: state.live,
            gpus: state.gpus,
            gpu_hours: state.gpu_hours(),
            kwh: state.kwh(),
        })
    }

    /// The month that budgets are counted in.
    #[must_use]
    pub fn month(&self) -> Month {
        self.month
    }

    pub(super) fn tenant_state(&mut self, slot: Slot) -> &mut TenantState {
        &mut self.tenant_states[self.jobs.get(slot).spec.tenant.index()]
    }

    /// Counts a job's service until now, for itself and for its tenant.
    pub(super) fn credit(&mut self, slot: Slot) {
        let gpu_seconds = self.jobs.get_mut(slot).credit(self.now);
        self.tenant_state(slot).used(gpu_seconds);
    }

    fn tenant_named(&self, name: &str, out: &mut Vec<Output>) -> Option<usize> {
        let found =
            self.tenants.iter().zip(&self.tenant_states).position(|(t, state)| t.name == name && !state.removed);
        if found.is_none() {
            let why = format!("there is no tenant '{name}'; 'arles tenants' lists them");
            out.push(Output::Note(Event::Refused { why }));
        }
        found
    }

    pub(super) fn set_quota(&mut self, name: &str, quota: Quota, out: &mut Vec<Output>) {
        let Some(tenant) = self.tenant_named(name, out) else { return };
        let quota = match quota.check() {
            Ok(quota) => quota,
            Err(why) => return out.push(Output::Note(Event::Refused { why })),
        };
        self.tenant_states[tenant].quota = quota;
        out.push(Output::Note(Event::QuotaSet { name: name.to_owned(), quota }));
        self.changed = true;
        if !quota.binds_scheduling() {
            let own = |job: &Job| job.waits_for_quota && job.spec.tenant.index() == tenant;
            self.jobs.change_where(own, |job| job.waits_for_quota = false);
        }
    }

    pub(super) fn remove_tenant(&mut self, name: &str, cancel: bool, out: &mut Vec<Output>) {
        let Some(tenant) = self.tenant_named(name, out) else { return };
        let live = self.tenant_states[tenant].live;
        if live > 0 && !cancel {
            let jobs = if live == 1 { "1 live job".to_owned() } else { format!("{live} live jobs") };
            let why = format!("tenant '{name}' has {jobs}; wait for their end, or cancel them with --cancel");
            return out.push(Output::Note(Event::Refused { why }));
        }
        let own = |(_, job): &(Slot, &Job)| job.spec.tenant.index() == tenant;
        let jobs: Vec<JobId> = self.jobs.iter().filter(own).map(|(_, job)| job.spec.id).collect();
        jobs.into_iter().for_each(|job| self.cancel(job, out));
        let state = &mut self.tenant_states[tenant];
        state.removed = true;
        state.quota = Quota::default();
        out.push(Output::Note(Event::TenantRemoved { name: name.to_owned() }));
    }

    /// Takes in what the meters show. They only count up; what is no number says nothing.
    pub(super) fn metered(&mut self, joules: &[(TenantId, f64)]) {
        for &(tenant, joules) in joules {
            if let Some(state) = self.tenant_states.get_mut(tenant.index())
                && joules.is_finite()
            {
                state.joules = state.joules.max(joules);
            }
        }
    }

    /// Budgets begin anew with every month.
    pub(super) fn turn_month(&mut self) {
        let month = Month::of(self.now);
        if month > self.month {
            self.month = month;
            for state in &mut self.tenant_states {
                state.month_gpu_seconds = 0.0;
                state.joules_before = state.joules;
            }
        }
    }

    /// Whether a start keeps to the quota of the job's tenant.
    pub(super) fn quota_has_room(&self, job: &Job) -> bool {
        let state = &self.tenant_states[job.spec.tenant.index()];
        let fits = state.quota.gpus.is_none_or(|most| u64::from(state.gpus) + u64::from(job.gang()) <= u64::from(most));
        fits && state.spent().is_none()
    }

    /// A tenant with a limit holds fewer GPUs than before: its jobs that have a place may start now.
    pub(super) fn start_waiters_of(&mut self, tenant: TenantId, out: &mut Vec<Output>) {
        if self.tenant_states[tenant.index()].quota.gpus.is_none() {
            return;
        }
        let own = |slot: &Slot| self.jobs.get(*slot).spec.tenant == tenant;
        let waiters: BTreeSet<Slot> = self.awaiting.iter().flatten().copied().filter(own).collect();
        waiters.into_iter().for_each(|slot| self.try_start(slot, out));
    }

    /// Decides which jobs of tenants with quotas may run in this round.
    pub(super) fn keep_quotas(&mut self, out: &mut Vec<Output>) {
        if !self.tenant_states.iter().any(|state| state.quota.binds_scheduling()) {
            return;
        }
        let usable = self.usable_by_kind();
        let mut by_tenant: BTreeMap<TenantId, Vec<(bool, u64, Slot)>> = BTreeMap::new();
        for (slot, job) in self.jobs.iter() {
            if self.tenant_states[job.spec.tenant.index()].quota.binds_scheduling() {
                // Those that hold GPUs first.
                let line = (job.phase.held().is_none(), job.joined, slot);
                by_tenant.entry(job.spec.tenant).or_default().push(line);
            }
        }
        for (tenant, mut jobs) in by_tenant {
            let state = &self.tenant_states[tenant.index()];
            let spent = state.spent().is_some();
            let most = state.quota.gpus.unwrap_or(u32::MAX);
            let mut left = most;
            let mut closed = false;
            jobs.sort_unstable();
            for (_, _, slot) in jobs {
                let job = self.jobs.get(slot);
                if !job.may_run_but_for_quota() {
                    continue;
                }
                // Whoever waits can be made as small as it may be.
                let gang = job.phase.held().map_or(job.spec.gang, |held| held.gpus.len() as u32);
                let waits = if spent || gang > most {
                    true
                } else if job.phase.held().is_none() && !self.could_start(job, &usable) {
                    false
                } else {
                    closed |= gang > left;
                    left -= if closed { 0 } else { gang };
                    closed
                };
                self.set_waits_for_quota(slot, waits, out);
            }
        }
    }

    fn set_waits_for_quota(&mut self, slot: Slot, waits: bool, out: &mut Vec<Output>) {
        if self.jobs.get(slot).waits_for_quota != waits {
            self.changed = true;
            self.jobs.get_mut(slot).waits_for_quota = waits;
        }
        if waits {
            self.drop_target(slot);
            // Does nothing for one that holds nothing.
            self.stop(slot, AfterStop::Wait, out);
        }
    }

    fn usable_by_kind(&self) -> Vec<u32> {
        let usable = self.usable();
        let mut counts = vec![0; self.cluster.kinds().len()];
        for (gpu, _) in usable.iter().enumerate().filter(|(_, usable)| **usable) {
            counts[self.cluster.kind_of(GpuId(gpu as u32)).index()] += 1;
        }
        counts
    }

    /// Whether a job that waits could be given GPUs in this round, if it were its turn.
    fn could_start(&self, job: &Job, usable: &[u32]) -> bool {
        let rates = &self.classes[&job.class].rates;
        job.not_before <= self.now && rates.iter().zip(usable).any(|(rate, gpus)| *rate > 0.0 && *gpus >= job.gang())
    }

    /// Why its tenant's quota keeps a job from running, if it does. One that came after the last round has not been looked at yet.
    pub(super) fn quota_reason(&self, job: &Job) -> Option<Reason> {
        let (state, tenant) =
            (&self.tenant_states[job.spec.tenant.index()], &self.tenants[job.spec.tenant.index()].name);
        let (tenant, gang) = (tenant.clone(), job.spec.gang);
        if !job.waits_for_quota {
            return None;
        }
        if let Some((unit, used, most)) = state.spent() {
            let next = self.month.next();
            let (resets, seconds) = (next.first_in_words(), next.begins().since(self.now));
            return Some(Reason::TenantBudget { tenant, unit, used, most, resets, seconds });
        }
        let most = state.quota.gpus?;
        if gang > most {
            return Some(Reason::TenantGang { tenant, gang, most });
        }
        let held = state.gpus;
        (job.spec.arrived <= self.last_tick || held + gang > most).then_some(Reason::TenantGpus {
            tenant,
            held,
            most,
            gang,
        })
    }
}
