//! The command while it runs: waiting for it and signalling it, never after it is gone.
//!
//! Waiting and signalling take turns on one lock, so a signal cannot reach a stranger that was given the same number.

use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Code(i32),
    Signal(i32),
}

/// See the module's head.
pub(super) struct Running {
    child: Mutex<(Child, Option<End>)>,
}

impl Running {
    pub(super) fn new(child: Child) -> Self {
        Self { child: Mutex::new((child, None)) }
    }

    /// How it ended, if it has.
    fn ended(&self) -> Option<End> {
        let mut held = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if held.1.is_none()
            && let Ok(Some(status)) = held.0.try_wait()
        {
            held.1 = Some(status.code().map_or_else(|| End::Signal(status.signal().unwrap_or(9)), End::Code));
        }
        held.1
    }

    /// Waits until it is over.
    pub(super) fn wait(&self) -> End {
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(end) = self.ended() {
                return end;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ended().is_some()
    }

    /// Sends a signal by name, unless it is over.
    pub(super) fn signal(&self, name: &str) {
        let held = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if held.1.is_none() {
            let number = held.0.id().to_string();
            let mut kill = Command::new("kill");
            let sent = kill.args(["-s", name, &number]).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if !sent.is_ok_and(|status| status.success()) {
                super::note(&format!("SIG{name} could not be sent to process {number}"));
            }
        }
    }
}

/// Signals of ours that wait for the command.
pub(super) struct CaughtSignals(Receiver<&'static str>);

/// Catches SIGTERM, SIGINT and SIGHUP from now on. From a terminal the whole group has SIGINT already, and a second one would cut short
/// what the first began. (Handlers are not inherited: the command begins with the default actions.)
pub(super) fn catch_signals() -> CaughtSignals {
    use tokio::signal::unix::{SignalKind, signal};
    let (caught, signals) = mpsc::channel();
    let (ready, waits) = mpsc::channel();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let kinds =
                [(SignalKind::terminate(), "TERM"), (SignalKind::interrupt(), "INT"), (SignalKind::hangup(), "HUP")];
            let mut last = None;
            for (kind, name) in kinds {
                let Ok(mut heard) = signal(kind) else { continue };
                let caught = caught.clone();
                last = Some(tokio::spawn(async move {
                    while heard.recv().await.is_some() {
                        if name == "TERM" || !std::io::stdin().is_terminal() {
                            let _ = caught.send(name);
                        }
                    }
                }));
            }
            let _ = ready.send(());
            if let Some(last) = last {
                let _ = last.await;
            }
        });
    });
    // A signal between here and the handlers would end us and leave the command alone.
    let _ = waits.recv_timeout(Duration::from_secs(1));
    CaughtSignals(signals)
}

impl CaughtSignals {
    /// Passes on what was caught and what will be.
    pub(super) fn forward_to(self, child: &Arc<Running>) {
        let child = Arc::clone(child);
        std::thread::spawn(move || self.0.iter().for_each(|name| child.signal(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    /// The test process must not be signalled while other tests run in it, so the test runs itself once more, alone, in a process.
    const ALONE: &str = "ARLES_TEST_SIGNAL_ALONE";

    #[test]
    fn a_signal_before_the_command_exists_reaches_it() {
        if std::env::var_os(ALONE).is_none() {
            let mut alone = Command::new(std::env::current_exe().expect("this test"));
            let name = "commands::run::child::tests::a_signal_before_the_command_exists_reaches_it";
            let ended = alone.args(["--exact", name]).env(ALONE, "1").process_group(0).output().expect("it runs");
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && said.contains("1 passed"), "{said}{:?}", ended.status);
            return;
        }
        let signals = catch_signals();
        let own = std::process::id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &own]).status().expect("kill").success());
        let child = Command::new("sleep").arg("600").spawn().expect("a command");
        let child = Arc::new(Running::new(child));
        signals.forward_to(&child);
        assert_eq!(child.wait(), End::Signal(15));
    }
}
