//! `cargo xtask kill`: kills the daemon at random points, as often as you like.

use std::process::Command;

/// For the list of tasks.
pub(super) const USAGE: &str = "cargo xtask kill --times N [--seed SEED]";

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (mut times, mut seed) = ("200".to_owned(), "1".to_owned());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().map_or("", String::as_str);
            let whole = text.parse::<u64>().map(|_| text.to_owned());
            whole.map_err(|_| format!("{arg} needs a whole number, not '{text}'; usage: {USAGE}"))
        };
        match arg.as_str() {
            "--times" => times = number()?,
            "--seed" => seed = number()?,
            other => return Err(format!("'{other}' is not an option; usage: {USAGE}")),
        }
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["test", "--release", "-p", "arles", "--test", "kill", "--", "--nocapture"])
        .env("ARLES_KILLS", &times)
        .env("ARLES_KILL_SEED", &seed)
        .status()
        .map_err(|e| format!("cargo could not be run: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("it failed; the same again: cargo xtask kill --times {times} --seed {seed}")),
    }
}
