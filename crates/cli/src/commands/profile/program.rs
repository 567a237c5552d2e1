//! A program under measurement: started once, let run and held still as the scenes need it.

use super::super::run::find::{Finder, Lines};
use crate::fault::Failed;
use anyhow::Result;
use arles_engine::THREADS_VARIABLE;
use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines of output that are kept to be shown if the program ends.
const LAST_LINES: usize = 5;
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A workload by name, and the command that runs it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) command: Vec<String>,
}

/// What a program has said.
struct Heard {
    finder: Finder,
    /// Counts of steps, each with the moment its line came.
    counts: Vec<(Instant, f64)>,
    last_lines: VecDeque<String>,
}

pub(super) struct Program {
    pub(super) name: String,
    child: Child,
    heard: Arc<Mutex<Heard>>,
}

impl Program {
    /// Starts it, in a process group of its own, with one GPU to see, and as many threads as the local engine would give it.
    pub(super) fn start(workload: &Workload, pattern: Option<&str>, gpu: Option<&str>, threads: usize) -> Result<Self> {
        let mut command = Command::new(&workload.command[0]);
        command.args(&workload.command[1..]).process_group(0).stdin(Stdio::null());
        // Python keeps what it prints to a pipe until there are 8 KiB of it; counts would come late.
        command.env("PYTHONUNBUFFERED", "1");
        if std::env::var_os(THREADS_VARIABLE).is_none() {
            command.env(THREADS_VARIABLE, threads.to_string());
        }
        if let Some(gpu) = gpu {
            command.env("CUDA_VISIBLE_DEVICES", gpu);
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child
            .map_err(|error| Failed(format!("{}: cannot start '{}': {error}", workload.name, workload.command[0])))?;
        let finder = Finder::new(pattern)?;
        let heard = Arc::new(Mutex::new(Heard { finder, counts: Vec::new(), last_lines: VecDeque::new() }));
        child.stdout.take().into_iter().for_each(|from| listen(from, &heard));
        child.stderr.take().into_iter().for_each(|from| listen(from, &heard));
        Ok(Self { name: workload.name.clone(), child, heard })
    }

    /// Lets it run, or holds it still.
    pub(super) fn run(&self, runs: bool) {
        self.signal(if runs { "CONT" } else { "STOP" });
    }

    /// Counts that came since a moment.
    pub(super) fn counts_since(&self, since: Instant) -> Vec<(Instant, f64)> {
        let heard = self.heard();
        let begin = heard.counts.partition_point(|(at, _)| *at < since);
        heard.counts[begin..].to_vec()
    }

    /// An error if it is no longer there: nothing that is measured should end by itself.
    pub(super) fn must_run(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        // What it said last may still be on its way.
        std::thread::sleep(LAST_WORDS);
        let heard = self.heard();
        let lines: Vec<&str> = heard.last_lines.iter().map(String::as_str).collect();
        let said =
            if lines.is_empty() { "it printed nothing".into() } else { format!("it said: {}", lines.join(" | ")) };
        Err(Failed(format!("{} ended ({status}) before it was measured; {said}", self.name)).into())
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To everything that it started.
    fn signal(&self, name: &str) {
        let group = format!("-{}", self.child.id());
        let mut kill = Command::new("kill");
        let _ = kill.args(["-s", name, "--", &group]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SIGKILL reaches those that are held still, too.
        self.signal("KILL");
        let _ = self.child.wait();
    }
}

fn listen(mut from: impl Read + Send + 'static, heard: &Arc<Mutex<Heard>>) {
    let heard = Arc::clone(heard);
    std::thread::spawn(move || {
        let (mut lines, mut buffer) = (Lines::default(), vec![0; 64 << 10]);
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            let now = Instant::now();
            lines.feed(&buffer[..n], |line| {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(found) = heard.finder.find(line) {
                    heard.counts.push((now, found.steps));
                }
                if heard.last_lines.len() == LAST_LINES {
                    heard.last_lines.pop_front();
                }
                heard.last_lines.push_back(String::from_utf8_lossy(line).chars().take(200).collect());
            });
        }
    });
}
