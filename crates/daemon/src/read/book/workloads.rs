//! The workloads that jobs may name: those of the journal's header, and whatever was submitted since.
//!
//! A workload's number never changes and is never given to another: the header's list comes first, then new names in the order of their
//! entries. Names are everybody's, so that one tenant's run helps the next tenant's estimate; which names there are is not: a tenant is
//! shown the header's and those that it used itself.

use crate::store::entry::{JournalHeader, NewWorkload};
use arles_core::{TenantId, WorkloadId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A workload that was submitted under a name of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct AddedWorkload {
    #[serde(flatten)]
    pub(crate) entry: NewWorkload,
    /// Tenants that ever submitted it.
    pub(crate) tenants: BTreeSet<u32>,
}

/// Names and numbers of workloads. What is written of it is what the header does not have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Workloads {
    added: Vec<AddedWorkload>,
    /// The header's names.
    #[serde(skip)]
    first: Vec<String>,
    #[serde(skip)]
    numbers: BTreeMap<String, u32>,
    /// How many each tenant was the first to name.
    #[serde(skip)]
    introduced: BTreeMap<u32, u32>,
}

impl Workloads {
    /// The header's list, followed by what a snapshot brought.
    pub(crate) fn attach(&mut self, header: &JournalHeader) {
        self.first.clone_from(&header.workloads);
        self.numbers = self.first.iter().cloned().zip(0..).collect();
        self.introduced.clear();
        for (added, number) in self.added.iter().zip(self.first.len() as u32..) {
            self.numbers.insert(added.entry.name.clone(), number);
            *self.introduced.entry(added.entry.tenant.0).or_default() += 1;
        }
    }

    /// Takes in a new name. One that is there already stays what it is.
    pub(crate) fn add(&mut self, entry: &NewWorkload) {
        if self.numbers.contains_key(&entry.name) {
            return;
        }
        self.numbers.insert(entry.name.clone(), self.len() as u32);
        *self.introduced.entry(entry.tenant.0).or_default() += 1;
        self.added.push(AddedWorkload { entry: entry.clone(), tenants: BTreeSet::from([entry.tenant.0]) });
    }

    /// A tenant submitted a job of this workload.
    pub(crate) fn used(&mut self, workload: WorkloadId, tenant: TenantId) {
        if let Some(added) = workload.index().checked_sub(self.first.len()).and_then(|at| self.added.get_mut(at)) {
            added.tenants.insert(tenant.0);
        }
    }

    /// Whether [`Workloads::used`] would change anything.
    pub(crate) fn knows_user(&self, workload: WorkloadId, tenant: TenantId) -> bool {
        let added = workload.index().checked_sub(self.first.len()).and_then(|at| self.added.get(at));
        added.is_none_or(|added| added.tenants.contains(&tenant.0))
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.added.len()
    }

    /// Names that are not the header's.
    pub(crate) fn added(&self) -> impl ExactSizeIterator<Item = &NewWorkload> {
        self.added.iter().map(|added| &added.entry)
    }

    /// How many names a tenant was the first to use.
    pub(crate) fn introduced_by(&self, tenant: TenantId) -> u32 {
        self.introduced.get(&tenant.0).copied().unwrap_or(0)
    }

    pub(crate) fn find(&self, name: &str) -> Option<WorkloadId> {
        self.numbers.get(name).copied().map(WorkloadId)
    }

    /// The name of a workload; the number must be of this list.
    pub(crate) fn name(&self, workload: WorkloadId) -> &str {
        match workload.index().checked_sub(self.first.len()) {
            None => &self.first[workload.index()],
            Some(at) => self.added.get(at).map_or("unknown", |added| &added.entry.name),
        }
    }

    /// The names that a tenant may see; all of them for whoever is of no tenant.
    pub(crate) fn visible(&self, tenant: Option<TenantId>) -> impl Iterator<Item = &str> {
        let seen = move |added: &&AddedWorkload| tenant.is_none_or(|tenant| added.tenants.contains(&tenant.0));
        let added = self.added.iter().filter(seen).map(|added| added.entry.name.as_str());
        self.first.iter().map(String::as_str).chain(added)
    }

    /// Whether a tenant may know that there is such a name.
    pub(crate) fn is_visible(&self, workload: WorkloadId, tenant: Option<TenantId>) -> bool {
        let added = workload.index().checked_sub(self.first.len()).and_then(|at| self.added.get(at));
        added.is_none_or(|added| tenant.is_none_or(|tenant| added.tenants.contains(&tenant.0)))
    }
}
