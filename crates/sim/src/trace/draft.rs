//! A trace while it is being put together: names become indices, tenants keep one weight.

use super::{Trace, TraceJob};
use arles_core::Tenant;
use std::collections::HashMap;

/// Names by number, in order of first use.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    index: HashMap<String, u32>,
}

impl Names {
    fn intern(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let index = self.list.len() as u32;
        self.list.push(name.to_owned());
        self.index.insert(name.to_owned(), index);
        index
    }
}

/// Collects jobs into a [`Trace`].
#[derive(Default)]
pub(super) struct Draft {
    tenants: Names,
    weights: Vec<f64>,
    workloads: Names,
    kinds: Names,
    jobs: Vec<TraceJob>,
}

impl Draft {
    /// The index of a tenant. No weight means as before, 1 at first; `Err` with the weight it was first given,
    /// if another one follows.
    pub(super) fn tenant(&mut self, name: &str, weight: Option<f64>) -> Result<u32, f64> {
        let index = self.tenants.intern(name);
        match (self.weights.get(index as usize), weight) {
            (None, weight) => self.weights.push(weight.unwrap_or(1.0)),
            (Some(&first), Some(weight)) if first != weight => return Err(first),
            (Some(_), _) => {}
        }
        Ok(index)
    }

    pub(super) fn workload(&mut self, name: &str) -> u32 {
        self.workloads.intern(name)
    }

    /// The index of a kind; `None` once there are more than fit an index.
    pub(super) fn kind(&mut self, name: &str) -> Option<u16> {
        u16::try_from(self.kinds.intern(name)).ok()
    }

    pub(super) fn push(&mut self, job: TraceJob) {
        self.jobs.push(job);
    }

    pub(super) fn last(&self) -> Option<&TraceJob> {
        self.jobs.last()
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Moves all arrivals so that the first is at 0.
    pub(super) fn start_at_zero(&mut self) {
        let first = self.jobs.iter().map(|job| job.arrival_seconds).fold(f64::INFINITY, f64::min);
        for job in &mut self.jobs {
            job.arrival_seconds -= first;
        }
    }

    /// The trace, in order of arrival; jobs that arrive together keep their order.
    pub(super) fn finish(mut self) -> Trace {
        self.jobs.sort_by(|a, b| a.arrival_seconds.total_cmp(&b.arrival_seconds));
        let tenants = self.tenants.list.into_iter().zip(self.weights);
        Trace {
            tenants: tenants.map(|(name, weight)| Tenant { name, weight }).collect(),
            workloads: self.workloads.list,
            kinds: self.kinds.list,
            jobs: self.jobs,
        }
    }
}
