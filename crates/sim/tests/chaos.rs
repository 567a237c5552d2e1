//! Seeds of the fault simulation: every one must keep every rule, and every fault must have struck.
//!
//! `cargo xtask chaos` runs more of them: `ARLES_CHAOS_SEEDS` seeds from `ARLES_CHAOS_FROM` on, with the log of each where
//! `ARLES_CHAOS_VERBOSE` is set.

use arles_sim::faults::{self, Fault, FaultCounts, Summary};

/// Four in five change the cluster as well.
const SEEDS: u64 = 250;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a whole number"))
}

#[test]
fn rules_hold_whatever_goes_wrong() {
    let (seeds, from) = (number("ARLES_CHAOS_SEEDS").unwrap_or(SEEDS), number("ARLES_CHAOS_FROM").unwrap_or(0));
    let verbose = std::env::var_os("ARLES_CHAOS_VERBOSE").is_some();
    let outcomes = faults::check_all(from..from.saturating_add(seeds), verbose);
    let mut counts = FaultCounts::default();
    for outcome in &outcomes {
        outcome.log.iter().for_each(|line| println!("{line}"));
        counts.add(&outcome.counts);
    }
    print!("{counts}");
    let failed: Vec<String> =
        outcomes.iter().filter(|outcome| outcome.violation.is_some()).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{} of {seeds} seeds failed\n{}", failed.len(), failed.join("\n"));
    println!("{}", Summary(&outcomes));
    // A few seeds cannot have every fault.
    if seeds >= SEEDS {
        let missing: Vec<&str> = Fault::ALL.iter().filter(|&&f| counts.of(f) == 0).map(|f| f.name()).collect();
        assert!(missing.is_empty(), "faults that never struck: {}", missing.join(", "));
    }
}
