//! Seeds of the fault simulation: every one must keep every rule, and every fault must have struck.

use arles_sim::faults::{self, Fault, Summary, Tally};

const SEEDS: u64 = 200;

#[test]
fn rules_hold_whatever_goes_wrong() {
    let outcomes = faults::check_all(0..SEEDS, false);
    let mut tally = Tally::default();
    outcomes.iter().for_each(|outcome| tally.add(&outcome.tally));
    print!("{tally}");
    let failed: Vec<String> =
        outcomes.iter().filter(|outcome| outcome.violation.is_some()).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    println!("{}", Summary(&outcomes));
    let missing: Vec<&str> = Fault::ALL.iter().filter(|&&f| tally.of(f) == 0).map(|f| f.name()).collect();
    assert!(missing.is_empty(), "faults that never struck: {}", missing.join(", "));
}
