//! Why jobs wait: computed beside the loop, from a copy of the scheduler that shares its jobs with the original; the loop has readers told what came out
//! at once (`read/book/told.rs`). It is work that nobody waits for, and steps back behind everybody else's.

use super::threads::{self, Thread};
use super::{Message, Shared, aside};
use crate::read::book::Told;
use arles_core::scheduler::Scheduler;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

/// What the thread is sent.
pub(crate) enum ReasonsTask {
    /// Say why everybody waits.
    Explain(Box<Scheduler>),
    /// This is not told any more: the last one to know of it has time to forget it.
    Forget(Arc<Told>),
}

/// Explains each copy that it is sent.
pub(super) fn start(shared: Arc<Shared>) -> Sender<ReasonsTask> {
    let (sender, inbox) = mpsc::channel::<ReasonsTask>();
    let watched = Arc::clone(&shared);
    let run = move || {
        aside::step_back();
        while let Ok(task) = inbox.recv() {
            let scheduler = match task {
                ReasonsTask::Explain(scheduler) => scheduler,
                ReasonsTask::Forget(told) => {
                    drop(told);
                    continue;
                }
            };
            let began = Instant::now();
            let told = Arc::new(Told::by(&scheduler));
            if shared.send(Message::Reasons(told, scheduler, began.elapsed())).is_err() {
                return;
            }
        }
    };
    threads::spawn(&watched, Thread::Reasons, run);
    sender
}
