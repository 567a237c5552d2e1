//! Seeded fault simulation: the production scheduler in a world in which nothing can be relied upon.
//!
//! One number decides everything: cluster, jobs, policy, and every fault. Messages are lost, late, doubled and out
//! of order; nodes die, return and are cut off; jobs crash and slow down; the daemon is killed and comes back from
//! its journal; its clock jumps; solver and estimator err. Then faults stop. Two questions are asked of every seed:
//!
//! - *safety*, at every moment: no GPU oversold, no job twice, no job lost, no safe step lost, no joule
//!   unaccounted for, nobody waiting without a reason ([`Violation`]);
//! - *liveness*: within a bound after faults have stopped, whoever can run is done, and the GPUs are empty.
//!
//! Every seed is run twice and must give the same log to the byte; its journal must replay to the same outputs.

use crate::journal;
use driver::Run;
use plan::Plan;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

mod advisers;
mod checks;
mod counts;
mod driver;
mod link;
mod operator;
mod plan;

pub use checks::Violation;
pub use counts::{Fault, FaultCounts};

/// How a seed went.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// `cargo xtask chaos --from SEED --seeds 1` repeats it.
    pub seed: u64,
    /// The policy at the start; faults may switch it.
    pub policy: &'static str,
    /// The first rule that was broken, if any.
    pub violation: Option<Violation>,
    /// Faults that happened.
    pub counts: FaultCounts,
    /// Jobs that completed, were given up and were cancelled.
    pub ends: [u64; 3],
    /// Virtual time until all was done.
    pub seconds: f64,
    /// Fingerprint of everything that happened.
    pub hash: u64,
    /// Everything that happened, line by line, if asked for.
    pub log: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.violation {
            None => write!(f, "seed {} passed ({})", self.seed, self.policy),
            Some(Violation { at, what }) => write!(
                f,
                "seed {} ({}) failed at {at}: {what}; reproduce: cargo xtask chaos --from {} --seeds 1 --verbose",
                self.seed, self.policy, self.seed
            ),
        }
    }
}

/// Runs a seed twice and compares, and replays its journal.
#[must_use]
pub fn check(seed: u64, verbose: bool) -> Outcome {
    let (mut first, text) = run(seed, verbose);
    if first.violation.is_some() {
        return first;
    }
    let at = arles_core::Time::from_seconds(first.seconds);
    let (second, _) = run(seed, false);
    if second.hash != first.hash {
        let what = "a second run went another way".to_owned();
        first.violation = Some(Violation { at, what });
        return first;
    }
    let what = match journal::replay(text.as_slice(), None, |_, _, _| {}).map(|(replay, _)| replay) {
        Ok(replay) => replay.first_difference.map(|line| format!("the journal's line {line} replays to other outputs")),
        Err(error) => Some(format!("the journal cannot be read: {error}")),
    };
    first.violation = what.map(|what| Violation { at, what });
    first
}

/// One run and its journal.
fn run(seed: u64, verbose: bool) -> (Outcome, Vec<u8>) {
    let plan = Plan::draw(seed);
    let mut text = Vec::new();
    let mut run = Run::new(&plan, seed, verbose, &mut text);
    // A panic is a violation like others: what happened before it is worth reading.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run.complete())) {
        let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        run.checks.violated(run.now, format!("panic: {}", words.unwrap_or("without words")));
    }
    let outcome = Outcome {
        seed,
        policy: plan.policy.name,
        violation: run.checks.found.clone(),
        counts: run.counts.clone(),
        ends: run.checks.ends(),
        seconds: run.now.seconds(),
        hash: run.log.hash.value(),
        log: run.log.lines.take().unwrap_or_default(),
    };
    drop(run);
    (outcome, text)
}

/// Runs seeds on two threads; outcomes in order of seed.
///
/// # Panics
/// If a checker panics, which is a bug of the checkers.
#[must_use]
pub fn check_all(seeds: Range<u64>, verbose: bool) -> Vec<Outcome> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let draw = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end);
        std::iter::from_fn(draw).map(|seed| check(seed, verbose)).collect::<Vec<_>>()
    };
    let mut outcomes = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(work));
        threads.into_iter().flat_map(|thread| thread.join().expect("checkers do not panic")).collect::<Vec<_>>()
    });
    outcomes.sort_by_key(|outcome| outcome.seed);
    outcomes
}

/// One line about many seeds.
pub struct Summary<'a>(pub &'a [Outcome]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.0.iter().filter(|outcome| outcome.violation.is_none()).count();
        let ends = |i: usize| self.0.iter().map(|outcome| outcome.ends[i]).sum::<u64>();
        let faults: u64 = self.0.iter().flat_map(|o| Fault::ALL.iter().map(|&fault| o.counts.of(fault))).sum();
        let hours = self.0.iter().map(|outcome| outcome.seconds).sum::<f64>() / 3600.0;
        write!(
            f,
            "{passed} of {} seeds passed: {faults} faults in {hours:.0} virtual hours; {} jobs completed, {} given up, {} cancelled",
            self.0.len(),
            ends(0),
            ends(1),
            ends(2)
        )
    }
}
