//! The clock is set, or a start found something missing: what the book makes of it.

use super::{AuditPeriod, Book, Series};
use crate::store::entry::Resumed;
use arles_core::Time;
use std::sync::Arc;

impl Book {
    /// It is another time, and none has passed: what is under way moves along; what is over stays where it was recorded.
    pub(super) fn set_clock(&mut self, at: Time) {
        let was = self.now;
        self.close_period(was, true);
        let moved = |time: &mut Time| {
            *time = match at >= was {
                true => Time(time.0.saturating_add(at.0 - was.0)),
                false => Time(time.0.saturating_sub(was.0 - at.0)),
            };
        };
        for record in self.jobs.values_mut().map(Arc::make_mut).filter(|record| !record.state.over()) {
            moved(&mut Arc::make_mut(&mut record.spec).arrived);
            record.started.iter_mut().for_each(moved);
            moved(&mut record.steady_since);
            record.watts.iter_mut().for_each(|(time, _)| moved(time));
            record.looks.iter_mut().for_each(|looks| moved(looks.time()));
            if let Some(said) = &mut record.said {
                said.times().for_each(moved);
            }
        }
        self.holding.iter_mut().for_each(|holding| holding.since = at);
        self.sightings.values_mut().for_each(|sighting| sighting.at = sighting.at.min(at));
        if let Some(decision) = &mut self.decision {
            decision.at = at;
        }
        self.period = AuditPeriod { from: Some(at), until: at, ..AuditPeriod::default() };
        self.series = Series::default();
        (self.totals.at, self.totals.sampled) = (at, None);
        self.now = at;
        let (was, is) = (was.seconds() as u64, at.seconds() as u64);
        let text = format!("the clock was set from {} to {}", moment(was), moment(is));
        self.push_event(at, "trouble", None, text);
    }

    /// A start found that the journal had lost its end, or cannot tell.
    pub(super) fn note_resumed(&mut self, at: Time, resumed: &Resumed) {
        if let Some((from, to)) = resumed.lost {
            let next = resumed.next_job;
            let text = format!("entries {from} to {to} of the journal were lost; jobs are numbered from {next} on");
            self.push_event(at, "trouble", None, text);
        }
    }
}

fn moment(unix_seconds: u64) -> String {
    crate::store::copies::moment(unix_seconds)
}
