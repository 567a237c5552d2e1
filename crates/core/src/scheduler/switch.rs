//! What an operator may change while everything runs: the policy, and the tenants with their weights.
//!
//! Changing the policy never stops a gang by itself. The old shares say nothing to the new policy, and its own are not known
//! yet, so until its first answer what runs goes on running and nothing new is placed.

use super::*;
use crate::allocate::{POLICIES, find_policy};

impl Scheduler {
    pub(super) fn switch_policy(&mut self, name: &str, out: &mut Vec<Output>) {
        let Some(policy) = find_policy(name) else {
            let known: Vec<&str> = POLICIES.iter().map(|p| p.name).collect();
            let why = format!("policy '{name}' is not known; choose one of {}", known.join(", "));
            return out.push(Output::Note(Event::Refused { why }));
        };
        let from = std::mem::replace(&mut self.policy, policy);
        out.push(Output::Note(Event::PolicySwitched { from: from.name.into(), to: policy.name.into() }));
        if from.name == policy.name {
            return;
        }
        // The question was put to the old policy: its answer finds nothing open and is dropped.
        self.outstanding = None;
        self.placer = Placer::default();
        self.unanswered = true;
        self.skipped_rounds = 0;
        self.changed = true;
        if from.grouping != policy.grouping {
            self.regroup();
        } else if from.ignores_speeds != policy.ignores_speeds || from.modes != policy.modes {
            self.fill_all_rates();
        }
        if from.first_come != policy.first_come {
            self.line_up();
        }
        if policy.pairs {
            self.ask_pairs(out);
        }
    }

    /// Puts all live jobs into the classes of the present policy, in the order of their submission. Jobs that were not alike
    /// before cannot be compared by the turns they had, so turns begin anew.
    fn regroup(&mut self) {
        self.classes.clear();
        self.class_ids.clear();
        for slot in self.jobs.by_submission() {
            let (spec, gang) = (self.jobs.get(slot).spec.clone(), self.jobs.get(slot).gang());
            let class = self.class_for(&spec, gang);
            let mut job = self.jobs.get_mut(slot);
            job.class = class;
            job.virtual_seconds = 0.0;
            let joined = job.joined;
            drop(job);
            self.classes.get_mut(&class).expect("just made").jobs.join(joined, slot, &self.jobs);
        }
    }

    /// Asks for what two live jobs would do on one GPU, wherever nobody has said yet.
    fn ask_pairs(&mut self, out: &mut Vec<Output>) {
        let single = |job: &Job| (job.spec.gang == 1).then_some(job.spec.workload);
        let workloads: BTreeSet<WorkloadId> = self.jobs.iter().filter_map(|(_, job)| single(job)).collect();
        for &a in &workloads {
            for &b in workloads.range(a..) {
                self.ask(RateQuery { workload: a, gang: 1, partner: Some(b) }, out);
            }
        }
    }

    pub(super) fn set_tenant(&mut self, tenant: &Tenant, out: &mut Vec<Output>) {
        let Tenant { name, weight } = tenant.clone();
        let refusal = if name.is_empty() {
            Some("a tenant has no name; give it one".to_owned())
        } else if !(weight.is_finite() && weight > 0.0) {
            Some(format!("tenant '{name}' is given weight {weight}; a weight is a positive number"))
        } else {
            None
        };
        if let Some(why) = refusal {
            return out.push(Output::Note(Event::Refused { why }));
        }
        out.push(Output::Note(Event::TenantSet { name: name.clone(), weight }));
        match self.tenants.iter().position(|known| known.name == name) {
            Some(known) => {
                self.changed |= self.tenants[known].weight != weight;
                self.tenants[known].weight = weight;
                // A tenant that was removed and comes back is the one that it was: its number never comes to mean another.
                self.tenant_states[known].removed = false;
            }
            None => {
                self.tenants.push(Tenant { name, weight });
                self.tenant_states.push(TenantState::default());
            }
        }
    }
}
