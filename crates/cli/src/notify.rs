//! What the service manager is told: ready, stopping, still alive (`sd_notify`, a datagram of lines to the socket `NOTIFY_SOCKET`).
//!
//! Without the variable nothing is said. A manager that cannot be reached is no reason to stop scheduling, so errors are ignored:
//! whoever watches a daemon that does not speak restarts it. The sign of life depends on the event loop: a process that is there
//! and schedules nothing is worth a restart.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// A way to the service manager, if there is one.
pub(crate) struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How long the manager waits for a sign of life; `None` if it does not.
    patience: Option<Duration>,
    last: Option<Instant>,
}

/// The address that `NOTIFY_SOCKET` names: a path, or after an `@` a name in the abstract namespace.
fn address(name: &str) -> Option<SocketAddr> {
    match name.strip_prefix('@') {
        Some(hidden) => SocketAddr::from_abstract_name(hidden).ok(),
        None if name.starts_with('/') => SocketAddr::from_pathname(name).ok(),
        None => None,
    }
}

/// The patience that `WATCHDOG_USEC` states, unless it is meant for another process.
fn patience(micros: Option<&str>, process: Option<&str>) -> Option<Duration> {
    let own = process.is_none_or(|text| text.parse() == Ok(std::process::id()));
    let micros = micros.and_then(|text| text.parse().ok()).filter(|micros| own && *micros > 0);
    micros.map(Duration::from_micros)
}

impl Notifier {
    /// The service manager that started this process.
    pub(crate) fn from_environment() -> Self {
        let text = |name: &str| env::var(name).ok();
        let to = text("NOTIFY_SOCKET").and_then(|name| address(&name));
        let patience = patience(text("WATCHDOG_USEC").as_deref(), text("WATCHDOG_PID").as_deref());
        Self::new(to, patience)
    }

    fn new(to: Option<SocketAddr>, patience: Option<Duration>) -> Self {
        Self { socket: to.and_then(|to| Some((UnixDatagram::unbound().ok()?, to))), patience, last: None }
    }

    fn say(&self, lines: &str) {
        if let Some((socket, to)) = &self.socket {
            let _ = socket.send_to_addr(lines.as_bytes(), to);
        }
    }

    /// A line for `systemctl status`.
    pub(crate) fn status(&self, text: &str) {
        self.say(&format!("STATUS={}\n", text.replace('\n', " ")));
    }

    /// Requests are taken from now on.
    pub(crate) fn ready(&self, text: &str) {
        self.say(&format!("READY=1\nMAINPID={}\nSTATUS={}\n", std::process::id(), text.replace('\n', " ")));
    }

    /// The end begins.
    pub(crate) fn stopping(&self, why: &str) {
        self.say(&format!("STOPPING=1\nSTATUS={}\n", why.replace('\n', " ")));
    }

    /// A sign of life, three times as often as the manager asks for one, and only if the loop made progress within its patience.
    pub(crate) fn alive(&mut self, since_progress: Duration) {
        let Some(patience) = self.patience else { return };
        let due = self.last.is_none_or(|last| last.elapsed() >= patience / 3);
        if due && since_progress < patience {
            self.last = Some(Instant::now());
            self.say("WATCHDOG=1\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_end_when_nothing_moves() {
        let name = format!("arles-notify-test-{}", std::process::id());
        let to = address(&format!("@{name}")).expect("an abstract address");
        let manager = UnixDatagram::bind_addr(&to).expect("a socket");
        manager.set_nonblocking(true).expect("a socket that does not wait");
        let heard = || {
            let mut bytes = [0; 512];
            manager.recv(&mut bytes).ok().map(|n| String::from_utf8_lossy(&bytes[..n]).into_owned())
        };
        let mut notifier = Notifier::new(Some(to), Some(Duration::from_nanos(3)));
        notifier.alive(Duration::from_secs(1));
        assert_eq!(heard(), None, "the loop is stuck");
        notifier.alive(Duration::ZERO);
        assert_eq!(heard().as_deref(), Some("WATCHDOG=1\n"));
        notifier.ready("two\nlines");
        let ready = heard().expect("a message");
        assert!(ready.starts_with("READY=1\nMAINPID=") && ready.ends_with("\nSTATUS=two lines\n"), "{ready}");
        let mut unwatched = Notifier::new(address(&format!("@{name}")), None);
        unwatched.alive(Duration::ZERO);
        assert_eq!(heard(), None, "nobody asked for signs of life");
    }

    #[test]
    fn the_manager_is_found_by_its_variables() {
        assert!(address("/run/systemd/notify").is_some() && address("@x").is_some());
        assert!(address("").is_none() && address("notify").is_none());
        let own = std::process::id().to_string();
        assert_eq!(patience(Some("2000000"), None), Some(Duration::from_secs(2)));
        assert_eq!(patience(Some("2000000"), Some(&own)), Some(Duration::from_secs(2)));
        assert_eq!(patience(Some("2000000"), Some("1")), None);
        assert_eq!(patience(Some("0"), None), None);
        assert_eq!(patience(Some("soon"), None), None);
    }
}
