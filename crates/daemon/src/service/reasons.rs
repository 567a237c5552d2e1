//! Why jobs wait: computed beside the loop, from a copy of the scheduler that shares its jobs with the original. The loop shows readers what came out, a few
//! thousand jobs between two batches. It is work that nobody waits for, and steps back behind everybody else's.

use super::threads::{self, Thread};
use super::{Message, Shared, aside};
use arles_core::JobId;
use arles_core::scheduler::{Reason, Scheduler, Verdict};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

/// Everybody who waits, and why.
pub(crate) fn of_all(scheduler: &Scheduler) -> Vec<(JobId, Reason)> {
    let waits = |(job, verdict)| match verdict {
        Verdict::Waits(reason) => Some((job, reason)),
        _ => None,
    };
    scheduler.explain_all().filter_map(waits).collect()
}

/// Explains each copy that it is sent.
pub(super) fn start(shared: Arc<Shared>) -> Sender<Box<Scheduler>> {
    let (sender, inbox) = mpsc::channel::<Box<Scheduler>>();
    let watched = Arc::clone(&shared);
    let run = move || {
        aside::step_back();
        while let Ok(scheduler) = inbox.recv() {
            let began = Instant::now();
            let reasons = of_all(&scheduler);
            drop(scheduler);
            if shared.send(Message::Reasons(reasons, began.elapsed())).is_err() {
                return;
            }
        }
    };
    threads::spawn(&watched, Thread::Reasons, run);
    sender
}
