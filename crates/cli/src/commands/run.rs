//! `arles run`: reports for a command that knows nothing of arles.
//!
//! The command's output goes through byte for byte; a copy is searched for progress. A thread reports what was found, hears whether
//! the job should make room, and if so sends SIGTERM and, when grace period over, SIGKILL.
//!
//! Must never: change what the command prints or how it ends, wait for the server, or end the command because of an error of its own.

mod child;
pub(super) mod find;
mod report;

use crate::fault::{Ended, Failed, Hinted, remark};
use crate::quantity;
use crate::server::ServerFlags;
use anyhow::Result;
use child::Running;
use clap::Args;
use find::Finder;
use report::{Reporter, Said};
use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What a job that made room ends with.
const PREEMPTED: u8 = 85;
/// How long output may still come from what the command left running.
const SILENCE: Duration = Duration::from_secs(2);

const AFTER: &str = "Exit codes: that of the command; 128 + N if signal N ended it; 85 if it was preempted and stopped in time. \
1: the command could not be started; 2: invalid usage.";

/// Run a command and report the progress found in its output
#[derive(Args)]
#[command(after_help = AFTER)]
pub(crate) struct Run {
    /// Regular expression for progress lines, with a group 'step' and optionally 'rate'
    #[arg(long, value_name = "REGEX")]
    pattern: Option<String>,
    /// Shortest time between two reports
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = quantity::positive_seconds)]
    every: f64,
    /// Job ID [default: $ARLES_JOB]
    #[arg(long, value_name = "ID", value_parser = crate::jobs::number)]
    job: Option<u64>,
    #[command(flatten)]
    server: ServerFlags,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(&self, _: &mut dyn Write) -> Result<()> {
        let finder = Finder::new(self.pattern.as_deref())?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        let Some(job) = self.job()? else {
            // Nobody to report to: become the command.
            return Err(self.not_started(&command.exec()));
        };
        let client = self.server.client()?;
        // Python keeps what it prints to a pipe until there are 8 KiB of it; progress would come late.
        if env::var_os("PYTHONUNBUFFERED").is_none() {
            command.env("PYTHONUNBUFFERED", "1");
        }
        // Handlers first: a signal that comes before the command exists is passed on once it does.
        let signals = child::catch_signals();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| self.not_started(&error))?;
        let said = Arc::new(Mutex::new(Said::new(finder)));
        let heard = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let pumps = [
            child.stdout.take().map(|from| pump(from, io::stdout(), &said, &heard, began)),
            child.stderr.take().map(|from| pump(from, io::stderr(), &said, &heard, began)),
        ];
        let child = Arc::new(Running::new(child));
        signals.forward_to(&child);
        let reporter = Reporter::start(client, job, self.every, &said, &child);
        let ended = child.wait();
        drain(&pumps.into_iter().flatten().collect::<Vec<_>>(), &heard, began);
        let preempted = reporter.finish();
        Err(Ended(code(ended, preempted)).into())
    }

    /// The job to report for. Without a server named, or without a job, the command was not started by arles.
    fn job(&self) -> Result<Option<u64>> {
        if self.job.is_some() {
            return Ok(self.job);
        }
        let set = |name: &str| env::var(name).ok().filter(|text| !text.trim().is_empty());
        let (Some(text), true) = (set("ARLES_JOB"), set("ARLES_URL").is_some() || self.server.server.is_some()) else {
            return Ok(None);
        };
        let job = text.trim().parse().map_err(|_| {
            Hinted::new(
                format!("ARLES_JOB is '{}', which is not a job ID", text.escape_debug()),
                "unset it, or name the job with --job",
            )
        })?;
        Ok(Some(job))
    }

    fn not_started(&self, error: &io::Error) -> anyhow::Error {
        Failed(format!(
            "cannot start '{}': {error}; does it exist, and is it executable?",
            self.command[0].to_string_lossy()
        ))
        .into()
    }
}

/// How to end: as the command did, but making room has a code of its own.
fn code(ended: child::End, preempted: bool) -> u8 {
    const TERM: i32 = 15;
    match ended {
        // A shell says 128 + 15 for a child of its own that SIGTERM ended.
        child::End::Code(0 | 143) | child::End::Signal(TERM) if preempted => PREEMPTED,
        child::End::Code(code) => code as u8,
        child::End::Signal(signal) => (128 + signal) as u8,
    }
}

/// Passes everything on as it comes, and shows it to the finder.
fn pump(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    said: &Arc<Mutex<Said>>,
    heard: &Arc<AtomicU64>,
    began: Instant,
) -> thread::JoinHandle<()> {
    let (said, heard) = (Arc::clone(said), Arc::clone(heard));
    thread::spawn(move || {
        let mut lines = find::Lines::default();
        let mut buffer = vec![0; 64 << 10];
        let mut open = true;
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            // Where nobody reads any more, the command should notice as it would without us: its next write fails.
            open = open && to.write_all(&buffer[..n]).and_then(|()| to.flush()).is_ok();
            if !open {
                break;
            }
            heard.store(began.elapsed().as_millis() as u64, Ordering::Relaxed);
            lines.feed(&buffer[..n], |line| {
                said.lock().unwrap_or_else(PoisonError::into_inner).hear(line);
            });
        }
        lines.end(|line| said.lock().unwrap_or_else(PoisonError::into_inner).hear(line));
    })
}

/// Waits for the end of the output, or until what the command left running has been silent for a while.
fn drain(pumps: &[thread::JoinHandle<()>], heard: &AtomicU64, began: Instant) {
    let since = Instant::now();
    while !pumps.iter().all(thread::JoinHandle::is_finished) {
        let last = began + Duration::from_millis(heard.load(Ordering::Relaxed));
        if last.max(since).elapsed() > SILENCE {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A line on stderr that says who speaks.
fn note(line: &str) {
    remark(format_args!("arles run: {line}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use child::End;

    #[test]
    fn the_end_is_the_commands_own() {
        assert_eq!(code(End::Code(3), false), 3);
        assert_eq!(code(End::Signal(15), false), 143);
        assert_eq!(code(End::Signal(15), true), 85);
        assert_eq!(code(End::Code(0), true), 85);
        assert_eq!(code(End::Code(85), true), 85);
        assert_eq!(code(End::Code(1), true), 1);
        assert_eq!(code(End::Signal(9), true), 137);
    }
}
