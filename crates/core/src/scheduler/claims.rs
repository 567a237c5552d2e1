//! What tenants are owed relative to each other, from their places in the hierarchy and from their past use: weights of a problem's users. The mathematics is in
//! [`crate::hierarchy`]; policies and placer know of neither.

use super::*;
use crate::allocate::Problem;
use crate::hierarchy::{Claim, effective_weights, parents, settled, standing_shares, with_history};

/// Accounts are paid back over about this part of the half-life: three days of a week.
const PAYBACK: f64 = 3.0 / 7.0;
/// A weight that has moved by less than this part is not worth another answer.
const WORTH_ASKING: f64 = 0.01;

impl Scheduler {
    /// Gives the users of a problem their tenants' weights among all that want something.
    pub(super) fn entitle(&self, problem: &mut Problem) {
        let mut wanted = vec![0.0; self.tenants.len()];
        for user in &problem.users {
            wanted[user.tenant.index()] += f64::from(user.jobs) * f64::from(user.gang);
        }
        let weights = self.weights(&wanted);
        for user in &mut problem.users {
            let tenant = user.tenant.index();
            let history = 1.0 + self.tenant_states[tenant].history;
            user.tenant_weight = weights[tenant] * history;
        }
    }

    /// Weights of all tenants, given the GPUs that each could use.
    pub(super) fn weights(&self, wanted_gpus: &[f64]) -> Vec<f64> {
        let gpus = self.usable().iter().filter(|usable| **usable).count();
        effective_weights(&self.claims(wanted_gpus), gpus as f64)
    }

    fn claims(&self, wanted_gpus: &[f64]) -> Vec<Claim<'_>> {
        let states = self.tenants.iter().zip(&self.tenant_states).zip(wanted_gpus);
        states
            .map(|((tenant, state), wanted)| Claim {
                name: &tenant.name,
                // A tenant that has left may still be the parent of others.
                weight: if state.removed { 1.0 } else { tenant.weight },
                demand_gpus: *wanted,
            })
            .collect()
    }

    /// Puts what was used since the last round on the accounts.
    pub(super) fn settle_accounts(&mut self) {
        let Some(half_life) = self.settings.half_life_seconds else {
            return self.tenant_states.iter_mut().for_each(|state| state.window_gpu_seconds = 0.0);
        };
        let seconds = self.now.since(self.last_tick);
        let parents = parents(self.tenants.iter().map(|tenant| tenant.name.as_str()));
        // Who has jobs, or an account, is owed something; who never had any may stand for its parts only.
        let stands = |(state, parent): (&TenantState, &bool)| {
            let alive = state.live > 0 || state.window_gpu_seconds > 0.0 || state.account_gpu_seconds != 0.0;
            if !state.removed && (alive || !parent) { 1.0 } else { 0.0 }
        };
        let standing: Vec<f64> = self.tenant_states.iter().zip(&parents).map(stands).collect();
        let shares = standing_shares(&self.claims(&standing));
        let all: f64 = self.tenant_states.iter().map(|state| state.window_gpu_seconds).sum();
        for (state, share) in self.tenant_states.iter_mut().zip(shares) {
            let used = std::mem::take(&mut state.window_gpu_seconds);
            state.account_gpu_seconds = settled(state.account_gpu_seconds, share * all, used, seconds, half_life);
        }
    }

    /// Brings what accounts make of weights up to date, where that is worth another answer of the policy.
    pub(super) fn weigh_history(&mut self) {
        let Some(half_life) = self.settings.half_life_seconds else { return };
        let mut wanted = vec![0.0; self.tenants.len()];
        for (_, job) in self.jobs.holding().filter(|(_, job)| job.may_run()) {
            wanted[job.spec.tenant.index()] += f64::from(job.gang());
        }
        for (&id, class) in &self.classes {
            wanted[class.key.tenant().index()] += self.jobs.queued(id) as f64 * f64::from(class.gang);
        }
        let weights = self.weights(&wanted);
        let gpus = self.usable().iter().filter(|usable| **usable).count() as f64;
        let all: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| if all > 0.0 { gpus * weight / all } else { 0.0 }).collect();
        let accounts: Vec<f64> = self.tenant_states.iter().map(|state| state.account_gpu_seconds).collect();
        let factors = with_history(&shares, &accounts, PAYBACK * half_life);
        let moved = |(state, factor): (&TenantState, &f64)| {
            let in_force = 1.0 + state.history;
            (factor - in_force).abs() > WORTH_ASKING * in_force
        };
        if self.tenant_states.iter().zip(&factors).any(moved) {
            self.changed = true;
            self.tenant_states.iter_mut().zip(factors).for_each(|(state, factor)| state.history = factor - 1.0);
        }
    }
}
