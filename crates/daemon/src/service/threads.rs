//! The threads of the service, watched: one that has died is known at once.
//!
//! Each is started by [`spawn`], which leaves a guard on its stack. A thread that panics takes its guard along, and the guard says so to everybody: to
//! `/healthz` and `/readyz`, to the metrics, and to whoever runs the service and ends the process. Nobody starts a thread again inside the
//! process: what it held when it died is not to be trusted, and a restart from the journal is.

use super::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;

/// A thread of the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Thread {
    EventLoop,
    Engine,
    Solver,
    Estimator,
    Snapshotter,
    Reasons,
}

impl Thread {
    pub(crate) const ALL: [Self; 6] =
        [Self::EventLoop, Self::Engine, Self::Solver, Self::Estimator, Self::Snapshotter, Self::Reasons];

    /// As the operating system, the metrics and the log know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::EventLoop => "event_loop",
            Self::Engine => "engine",
            Self::Solver => "solver",
            Self::Estimator => "estimator",
            Self::Snapshotter => "snapshotter",
            Self::Reasons => "reasons",
        }
    }
}

const RUNNING: u8 = 1;
const ENDED: u8 = 2;
const DIED: u8 = 3;

/// Which of them run, ended when they were told to, or panicked; written by their guards, read by anybody.
#[derive(Default)]
pub(crate) struct Threads([AtomicU8; Thread::ALL.len()]);

impl Threads {
    fn set(&self, thread: Thread, state: u8) {
        self.0[thread as usize].store(state, Ordering::Release);
    }

    /// Whether a thread runs.
    pub(crate) fn is_up(&self, thread: Thread) -> bool {
        self.0[thread as usize].load(Ordering::Acquire) == RUNNING
    }

    /// Threads that have panicked.
    pub(crate) fn dead(&self) -> impl Iterator<Item = Thread> {
        Thread::ALL.into_iter().filter(|thread| self.0[*thread as usize].load(Ordering::Acquire) == DIED)
    }

    /// What health checks say about them.
    pub(crate) fn trouble(&self) -> impl Iterator<Item = String> {
        self.dead().map(|thread| format!("the thread '{}' has died; the daemon must be restarted", thread.name()))
    }
}

/// Starts a thread and watches it.
pub(super) fn spawn<T: Send + 'static>(
    shared: &Arc<Shared>,
    thread: Thread,
    run: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    shared.threads.set(thread, RUNNING);
    let guard = Guard { shared: Arc::clone(shared), thread };
    let run = move || {
        let _guard = guard;
        run()
    };
    std::thread::Builder::new().name(thread.name().into()).spawn(run).expect("a thread can be started")
}

struct Guard {
    shared: Arc<Shared>,
    thread: Thread,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let died = std::thread::panicking();
        self.shared.threads.set(self.thread, if died { DIED } else { ENDED });
        if died {
            tracing::error!(thread = self.thread.name(), "a thread of the daemon has died; the daemon exits");
        }
    }
}
