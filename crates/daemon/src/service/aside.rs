//! Work that takes long and that nobody else should wait for: dry runs, long lists. Each has a thread that runs only where a processor is idle, and leaves it
//! the moment that anybody else wants it.
//!
//! A lower priority is not enough: Linux lets a thread finish its slice of milliseconds whatever its priority, and a request wants microseconds. Only
//! threads of the idle policy give way at once. They compete within the daemon's own control group, so that jobs beside it do not starve them.

use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, unix};
use tokio::sync::oneshot;

/// Does the work on a thread of its own; `None` if it panicked, or there is no thread to be had.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, answer) = oneshot::channel();
    let thread = std::thread::Builder::new().name("aside".into()).spawn(move || {
        step_back();
        let _ = done.send(work());
    });
    thread.ok()?;
    answer.await.ok()
}

/// From now on this thread runs where nobody else wants to. Where it is not allowed the work is done all the same. A thread that steps back must hold no
/// lock that others wait for. The allocator and the process's memory may be such locks: when snapshots were serialised so, on a machine whose processors others
/// kept busy, the event loop once stood still for 2.9 s, and did not when they were not (the cause was not proved).
pub(super) fn step_back() {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let _ = unix::set_thread_priority_and_policy(unix::thread_native_id(), ThreadPriority::Min, idle);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_aside_has_the_idle_policy() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let policy = runtime.block_on(run(|| unix::thread_schedule_policy().expect("a policy")));
        assert_eq!(policy, Some(ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle)));
        let own = unix::thread_schedule_policy().expect("a policy");
        assert_eq!(own, ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other), "nobody else steps back");
    }
}
