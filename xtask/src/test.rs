//! `cargo xtask test`: everything that must hold before a change lands, each step a plain command.

use crate::cargo::{cargo, ends_well, root};
use crate::skips::{Skips, is_ci};
use std::process::Command;
use std::time::Instant;

pub(crate) const USAGE: &str = "cargo xtask test";

/// Steps of cargo, in order; everything in one profile, so that nothing is compiled twice.
const STEPS: &[(&str, &[&str])] = &[
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    // The lean build, without the tensor library. Clippy again, over the whole workspace and all targets, because then most
    // dependencies have the features of the step before and their check is at hand: about 30 of 230 units are checked
    // anew, our own crates among them, and nothing is compiled that the tests do not need.
    ("lean", &["clippy", "--release", "--workspace", "--all-targets", "--no-default-features", "--", "-D", "warnings"]),
    ("tests", &["test", "--release", "--workspace"]),
    ("docs", &["doc", "--release", "--workspace", "--no-deps"]),
];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("'test' takes no arguments, but was given '{unknown}'"));
    }
    let mut skips = Skips::new()?;
    eprintln!("== tidy: cargo xtask tidy");
    crate::tidy::run(&[])?;
    for (what, command) in STEPS {
        let line = format!("cargo {}", command.join(" "));
        // Property tests draw the same cases every time, unless told otherwise: what passes here passes elsewhere.
        let seed = std::env::var("PROPTEST_RNG_SEED").unwrap_or_else(|_| "1".into());
        let mut command = cargo(command);
        command.env("PROPTEST_RNG_SEED", seed).env("RUSTDOCFLAGS", "-D warnings").env("ARLES_SKIPS", skips.file());
        step(what, &mut command, &line)?;
    }
    python(&mut skips)?;
    licences()?;
    skips.conclude(is_ci())?;
    eprintln!("== all is well");
    Ok(())
}

/// Runs a step, and says how long it took.
fn step(what: &str, command: &mut Command, line: &str) -> Result<(), String> {
    eprintln!("== {what}: {line}");
    let began = Instant::now();
    ends_well(command, line)?;
    eprintln!("   {what}: {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Whether a program is there and answers.
fn answers(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

fn python(skips: &mut Skips) -> Result<(), String> {
    if !answers("python3", "--version") {
        eprintln!("== python");
        skips.add("python", "there is no python3, so the tests of python/ did not run");
        return Ok(());
    }
    let mut command = Command::new("python3");
    command
        .arg("python/tests")
        .env("ARLES_SKIPS", skips.file())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(root());
    step("python", &mut command, "python3 python/tests")
}

/// Licences, advisories, duplicates. cargo-deny needs the advisory database from the network, and what it finds changes without
/// any change of ours, so it is no test: where it is missing nothing is skipped, where it is at hand what it finds must be mended.
fn licences() -> Result<(), String> {
    if !answers("cargo-deny", "--version") {
        eprintln!("== licences: cargo-deny is not installed; deny.toml is not checked");
        return Ok(());
    }
    let checks = ["deny", "--offline", "check", "bans", "licenses", "sources"];
    step("licences", &mut cargo(&checks), &format!("cargo {}", checks.join(" ")))
}
