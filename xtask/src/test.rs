//! `cargo xtask test`: everything that must hold before a change lands, each step a plain cargo command.

use std::process::Command;

pub(crate) const USAGE: &str = "test      format, lints, all tests, docs without warnings";

/// What is run, in order; everything in one profile, so that nothing is compiled twice.
const STEPS: &[(&str, &[&str])] = &[
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("tests", &["test", "--release", "--workspace"]),
    ("docs", &["doc", "--release", "--workspace", "--no-deps"]),
];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("'test' takes no arguments, but was given '{unknown}'"));
    }
    for (what, command) in STEPS {
        let line = format!("cargo {}", command.join(" "));
        eprintln!("== {what}: {line}");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        // Property tests draw the same cases every time, unless told otherwise: what passes here passes elsewhere.
        let seed = std::env::var("PROPTEST_RNG_SEED").unwrap_or_else(|_| "1".into());
        let status = Command::new(cargo)
            .env("PROPTEST_RNG_SEED", seed)
            .args(*command)
            .env("RUSTDOCFLAGS", "-D warnings")
            .status()
            .map_err(|e| format!("{line} could not be run: {e}"))?;
        if !status.success() {
            return Err(format!("{what} failed; the command was: {line}"));
        }
    }
    eprintln!("== all is well");
    Ok(())
}
