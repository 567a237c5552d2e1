//! Signals that end a command: noted instead of obeyed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Set when SIGINT, SIGTERM or SIGHUP comes, for commands that have something to put in order first.
pub(crate) fn catch_interrupts() -> Arc<AtomicBool> {
    use tokio::signal::unix::{SignalKind, signal};
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let (ready, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else { return };
            let _ = ready.send(());
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            set.store(true, Ordering::Relaxed);
        });
    });
    // A signal between here and the handlers would end us, and nothing would be put in order.
    let _ = waits.recv_timeout(Duration::from_secs(1));
    flag
}
