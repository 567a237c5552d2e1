//! `cargo xtask chaos`: runs seeds of the fault simulation and says how to reproduce those that fail.

use arles_sim::faults::{self, Outcome, Summary, Tally};

/// For the list of tasks.
pub(super) const USAGE: &str = "cargo xtask chaos --seeds N [--from SEED] [--verbose]";

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (mut seeds, mut from, mut verbose) = (200, 0, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().map_or("", String::as_str);
            text.parse().map_err(|_| format!("{arg} needs a whole number, not '{text}'; usage: {USAGE}"))
        };
        match arg.as_str() {
            "--seeds" => seeds = number()?,
            "--from" => from = number()?,
            "--verbose" => verbose = true,
            other => return Err(format!("'{other}' is not an option; usage: {USAGE}")),
        }
    }
    let outcomes = faults::check_all(from..from.saturating_add(seeds), verbose);
    let mut tally = Tally::default();
    for outcome in &outcomes {
        outcome.log.iter().for_each(|line| println!("{line}"));
        tally.add(&outcome.tally);
    }
    print!("{tally}");
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.violation.is_some()).collect();
    failed.iter().for_each(|outcome| println!("{outcome}"));
    println!("{}", Summary(&outcomes));
    if failed.is_empty() { Ok(()) } else { Err(format!("{} of {seeds} seeds failed", failed.len())) }
}
