//! Cells of the catalog go by names, everything else by numbers: how one becomes the other is said here and nowhere else.

use super::Book;
use arles_core::estimate::{Observation, RateQuery};
use arles_core::{KindId, WorkloadId};
use arles_learn::Key;
use std::collections::BTreeMap;

impl Book {
    fn workload_name(&self, id: WorkloadId) -> Option<&str> {
        (id.index() < self.workloads.len()).then(|| self.workloads.name(id))
    }

    fn kind_name(&self, id: KindId) -> Option<&str> {
        self.cluster().kinds().get(id.index()).map(|kind| kind.name.as_str())
    }

    /// The cell of the catalog that an observation is about; `None` if it has none, or its rate was not measured.
    pub(crate) fn catalog_key(&self, seen: &Observation) -> Option<Key> {
        let known = Key::of(seen, |id| self.workload_name(id), |id| self.kind_name(id));
        known.filter(|_| seen.rate > 0.0)
    }

    /// The cell of the catalog that a question on one kind is about.
    pub(crate) fn cell_key(&self, ask: &RateQuery, kind: KindId) -> Option<Key> {
        let name = |id: WorkloadId| self.workload_name(id).map(str::to_owned);
        let partner = match ask.partner {
            Some(partner) => Some(name(partner)?),
            None => None,
        };
        Some(Key { workload: name(ask.workload)?, partner, kind: self.kind_name(kind)?.to_owned(), gang: ask.gang })
    }

    /// The number of every workload, by name.
    pub(crate) fn workload_numbers(&self) -> BTreeMap<&str, WorkloadId> {
        (0..self.workloads.len() as u32).map(|id| (self.workloads.name(WorkloadId(id)), WorkloadId(id))).collect()
    }

    /// The number of every kind, by name.
    pub(crate) fn kind_numbers(&self) -> BTreeMap<&str, KindId> {
        self.cluster().kinds().iter().zip(0..).map(|(kind, id)| (kind.name.as_str(), KindId(id))).collect()
    }
}
