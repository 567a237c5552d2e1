//! Processes of this machine: who they are, who started them, and signals that reach the one that was meant and no other.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A process that cannot be mistaken for another: numbers are used again, but not within one tick of the kernel's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// Ticks since the machine was booted.
    pub(super) start_ticks: u64,
}

impl Identity {
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, start_ticks: Stat::of(pid)?.start_ticks })
    }

    /// Whether this very process is there and has not ended.
    pub(super) fn alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start_ticks == self.start_ticks && stat.runs())
    }

    /// Sends it a signal, unless it is gone. The kernel's handle is taken first and the process looked at again, so that no other process which was
    /// given its number meanwhile gets the signal.
    pub(super) fn signal(self, signal: Signal) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.alive() {
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

/// What the kernel says of a process.
struct Stat {
    state: char,
    parent: u32,
    start_ticks: u64,
}

impl Stat {
    /// From `/proc/PID/stat`: what follows its name, which may contain anything.
    fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        Some(Self { state, parent, start_ticks: fields.nth(17)?.parse().ok()? })
    }

    fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Everything that a process started, and what that started, however far: all that run.
pub(super) fn descendants(root: u32) -> Vec<Identity> {
    let mut children: BTreeMap<u32, Vec<(u32, Stat)>> = BTreeMap::new();
    for pid in pids() {
        if let Some(stat) = Stat::of(pid) {
            children.entry(stat.parent).or_default().push((pid, stat));
        }
    }
    let (mut found, mut seen, mut todo) = (Vec::new(), BTreeSet::from([root]), vec![root]);
    while let Some(parent) = todo.pop() {
        for (pid, stat) in children.get(&parent).into_iter().flatten() {
            if seen.insert(*pid) {
                todo.push(*pid);
                if stat.runs() {
                    found.push(Identity { pid: *pid, start_ticks: stat.start_ticks });
                }
            }
        }
    }
    found
}

/// All that run with this variable in the environment that they were started with.
pub(super) fn with_variable(name: &str, value: &str) -> Vec<Identity> {
    let wanted = format!("{name}={value}");
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    pids().filter(has).filter_map(Identity::of).filter(|process| process.alive()).collect()
}

/// Another text after every boot of this machine; empty where the kernel does not say.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_started_is_found_and_signalled() {
        let mut shell = std::process::Command::new("/bin/sh")
            .args(["-c", "sleep 60 & sleep 60 & wait"])
            .env("ARLES_TREE_TEST", "here")
            .spawn()
            .expect("a shell");
        let mut found = Vec::new();
        for _ in 0..500 {
            found = descendants(shell.id());
            if found.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(found.len(), 2);
        let other = Identity { start_ticks: found[0].start_ticks + 1, ..found[0] };
        other.signal(Signal::KILL);
        assert!(found[0].alive(), "another process of the same number was meant");
        assert!(with_variable("ARLES_TREE_TEST", "here").len() >= 3);
        assert_eq!(with_variable("ARLES_TREE_TEST", "he"), []);
        found.iter().for_each(|process| process.signal(Signal::KILL));
        shell.wait().expect("it ends when they do");
        assert!(!found[0].alive() && !found[1].alive());
    }
}
