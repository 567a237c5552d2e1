//! The clock is set: what was believed to be ten years ahead is put right, without ten years having passed.

use super::*;

impl Scheduler {
    /// Moves everything in time, so that it is `now` and nothing has aged: no lease, no time limit, no pause, no deadline. The order in
    /// which jobs arrived stays.
    pub(super) fn set_clock(&mut self, now: Time) {
        let was = self.now;
        let moved = |time: &mut Time| {
            *time = match now >= was {
                true => Time(time.0.saturating_add(now.0 - was.0)),
                false => Time(time.0.saturating_sub(was.0 - now.0)),
            };
        };
        let move_job = |job: &mut Job| {
            moved(&mut Arc::make_mut(&mut job.spec).arrived);
            moved(&mut job.credited);
            job.first_started.iter_mut().for_each(moved);
            if job.not_before > Time::ZERO {
                moved(&mut job.not_before);
            }
            match &mut job.phase {
                Phase::Waiting => {}
                Phase::Running(gang) => {
                    gang.confirmed_at.iter_mut().for_each(moved);
                    gang.retuned.iter_mut().for_each(|pending| moved(&mut pending.ordered_at));
                }
                Phase::Starting(gang, pending) | Phase::Stopping(gang, pending, _) => {
                    gang.confirmed_at.iter_mut().for_each(moved);
                    moved(&mut pending.ordered_at);
                }
            }
        };
        self.jobs.change_where(|_| true, move_job);
        for node in &mut self.nodes {
            node.seen_at.iter_mut().for_each(moved);
            if let Some(drain) = &mut node.drain {
                moved(&mut drain.since);
                drain.deadline.iter_mut().for_each(moved);
            }
        }
        moved(&mut self.last_tick);
        (self.now, self.driver_clock, self.set_back_micros) = (now, now, 0);
    }
}
