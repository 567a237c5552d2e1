//! A progress bar on stderr, for people: none where stderr is not a terminal.
//!
//! Whoever has news draws, at most ten times a second; there is no thread behind it.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(100);
const WIDTH: u64 = 30;
/// Grain of a bar that counts nothing.
const PARTS: u64 = 10_000;

/// How far a number of runs have come.
pub(crate) struct Progress {
    label: String,
    /// What is counted; nothing is said of the number where this is empty.
    unit: &'static str,
    done: Vec<AtomicU64>,
    /// Jobs of all runs together.
    all: u64,
    /// When it was last drawn; `None` if it is not to be.
    drawn: Option<Mutex<Instant>>,
}

impl Progress {
    /// A bar over runs of so many jobs each.
    pub(crate) fn new(label: &str, jobs: &[u64]) -> Self {
        Self::over(label, jobs, "jobs")
    }

    /// A bar over one piece of work of which only the part done is known.
    pub(crate) fn parts(label: &str) -> Self {
        Self::over(label, &[PARTS], "")
    }

    fn over(label: &str, jobs: &[u64], unit: &'static str) -> Self {
        Self {
            label: label.to_owned(),
            unit,
            done: jobs.iter().map(|_| AtomicU64::new(0)).collect(),
            all: jobs.iter().sum::<u64>().max(1),
            drawn: io::stderr().is_terminal().then(|| Mutex::new(Instant::now())),
        }
    }

    /// A run has come to `jobs`.
    pub(crate) fn at(&self, run: usize, jobs: u64) {
        self.done[run].store(jobs, Ordering::Relaxed);
        let Some(drawn) = &self.drawn else { return };
        // Somebody else is drawing: that is good enough.
        let Ok(mut last) = drawn.try_lock() else { return };
        if last.elapsed() >= PAUSE {
            *last = Instant::now();
            let done: u64 = self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
            let _ = write!(io::stderr(), "\r{}", self.line(done));
        }
    }

    /// The one piece of work has come to this part of it, 0 to 1.
    pub(crate) fn at_part(&self, part: f64) {
        self.at(0, (part * PARTS as f64) as u64);
    }

    fn line(&self, done: u64) -> String {
        let done = done.min(self.all);
        let filled = (done * WIDTH / self.all) as usize;
        let bar = "█".repeat(filled) + &"░".repeat(WIDTH as usize - filled);
        let count =
            if self.unit.is_empty() { String::new() } else { format!("  {done} of {} {}", self.all, self.unit) };
        format!("{} {bar} {:3}%{count}", self.label, done * 100 / self.all)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_bar_and_numbers() {
        let progress = Progress::new("2 runs", &[50, 50]);
        assert_eq!(progress.line(50), format!("2 runs {}{}  50%  50 of 100 jobs", "█".repeat(15), "░".repeat(15)));
        assert!(progress.line(1000).contains("100%"));
    }
}
