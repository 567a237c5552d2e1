//! Work that takes long and that nobody else should wait for: dry runs, long lists. Each has a thread that steps back behind those that serve requests: one
//! that computes for milliseconds would otherwise keep its core for as long as its turn lasts, whoever else wants only microseconds of it.

use tokio::sync::oneshot;

/// How much less it counts than a request to whoever hands out processors, as `nice` counts it.
const NICE: i32 = 10;

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

/// To Linux a thread is a process of its own here; elsewhere all of the daemon would step back. Where it is not allowed the work is done all the same.
fn step_back() {
    if cfg!(target_os = "linux")
        && let Ok(own) = rustix::process::getpriority_process(None)
    {
        let _ = rustix::process::setpriority_process(None, (own + NICE).min(19));
    }
}
