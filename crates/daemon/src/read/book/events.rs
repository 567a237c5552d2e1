//! Events: what listeners are told, numbered one after another.

use super::Book;
use arles_api as api;
use arles_core::{JobId, Time};

/// Events that a listener who was away can still catch up on.
const REMEMBERED: usize = 20_000;

impl Book {
    /// Tells everybody.
    pub(super) fn push_event(&mut self, at: Time, what: &str, job: Option<JobId>, text: String) {
        self.last_event += 1;
        let tenant = job.and_then(|job| self.jobs.get(&job)).map(|r| self.tenants[r.spec.tenant.index()].name.clone());
        let event = api::Event {
            id: self.last_event,
            at: at.seconds(),
            what: what.into(),
            job: job.map(|j| j.0),
            tenant,
            text,
        };
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Events after number `after`; `None` if some of them are forgotten.
    pub(crate) fn events_after(&self, after: u64) -> Option<impl Iterator<Item = &api::Event>> {
        let first = self.events.front().map_or(self.last_event + 1, |event| event.id);
        let skip = (after + 1).checked_sub(first)?;
        (after <= self.last_event).then(|| self.events.iter().skip(skip as usize))
    }
}
