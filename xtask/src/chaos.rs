//! `cargo xtask chaos`: seeds of the fault simulation, and the property tests on cases nobody has drawn before.
//!
//! CI keeps the fixed seeds, so that what passes here passes there; this is where new ones are looked for. Whatever fails
//! prints the line that repeats it.

use crate::cargo::{cargo, ends_well, number, root};
use std::collections::BTreeSet;
use std::path::Path;

/// For the list of tasks.
pub(super) const USAGE: &str = "cargo xtask chaos [--seeds N] [--from SEED] [--verbose] [--seed PROPERTY-SEED]";

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (mut seeds, mut from, mut verbose, mut property) = (250, None, false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seeds" => seeds = number(arg, args.next(), USAGE)?,
            "--from" => from = Some(number(arg, args.next(), USAGE)?),
            "--seed" => property = Some(number(arg, args.next(), USAGE)?),
            "--verbose" => verbose = true,
            other => return Err(format!("'{other}' is not an option; usage: {USAGE}")),
        }
    }
    // `--from` repeats seeds of the fault simulation, `--seed` a draw of the property tests: only that is wanted then.
    if property.is_none() || from.is_some() {
        faults(seeds, from.unwrap_or(0), verbose)?;
    }
    if property.is_some() || from.is_none() {
        properties(property.unwrap_or_else(fresh))?;
    }
    Ok(())
}

fn faults(seeds: u64, from: u64, verbose: bool) -> Result<(), String> {
    let mut command = cargo(&["test", "--release", "--workspace", "--test", "chaos", "--", "--nocapture"]);
    command.env("ARLES_CHAOS_SEEDS", seeds.to_string()).env("ARLES_CHAOS_FROM", from.to_string());
    if verbose {
        command.env("ARLES_CHAOS_VERBOSE", "1");
    }
    ends_well(&mut command, &format!("cargo xtask chaos --seeds {seeds} --from {from}"))
}

fn properties(seed: u64) -> Result<(), String> {
    let targets = targets(&root().join("crates"))?;
    let repeat = format!("cargo xtask chaos --seed {seed}");
    eprintln!("== property tests, seed {seed}; the same again: {repeat}");
    let arguments: Vec<&str> = ["test", "--release", "--workspace", "--no-fail-fast"]
        .into_iter()
        .chain(targets.iter().map(String::as_str))
        .collect();
    ends_well(cargo(&arguments).env("PROPTEST_RNG_SEED", seed.to_string()), &repeat)
}

/// A seed that differs from run to run.
fn fresh() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 % 1_000_000_000
}

/// Cargo's names of the targets that have property tests: `--lib` where a crate's own sources have some, `--test NAME` for
/// every file (or folder beside one) of a crate's `tests/`.
fn targets(crates: &Path) -> Result<Vec<String>, String> {
    let mut found = BTreeSet::new();
    for file in crate::tidy::rust_files(crates)? {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        if !text.contains("proptest!") {
            continue;
        }
        let parts: Vec<&str> =
            file.strip_prefix(crates).iter().flat_map(|p| p.iter()).filter_map(|p| p.to_str()).collect();
        match parts.as_slice() {
            [_, "src", ..] => found.insert("--lib".to_owned()),
            [_, "tests", name, ..] => found.insert(format!("--test={}", name.trim_end_matches(".rs"))),
            _ => false,
        };
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn property_tests_are_found() {
        let targets = super::targets(&crate::cargo::root().join("crates")).unwrap();
        assert!(targets.iter().any(|target| target == "--lib"), "{targets:?}");
        assert!(targets.iter().filter(|target| target.starts_with("--test=")).count() > 5, "{targets:?}");
    }
}
