//! `cargo xtask kill`: kills the daemon at random points, and makes the leader of two suffer, as often as you like; with `--local`, a daemon
//! that runs real processes.

use crate::cargo::{cargo, ends_well, number};

/// For the list of tasks.
pub(super) const USAGE: &str = "cargo xtask kill [--local] --times N [--seed SEED]";

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (mut times, mut seed, mut test) = (200, 1, "kill");
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--local" => test = "kill_local",
            "--times" => times = number(arg, args.next(), USAGE)?,
            "--seed" => seed = number(arg, args.next(), USAGE)?,
            other => return Err(format!("'{other}' is not an option; usage: {USAGE}")),
        }
    }
    // --workspace: the features of `cargo xtask test`, so that nothing is compiled again.
    let mut command = cargo(&["test", "--release", "--workspace", "--test", test, "--", "--nocapture"]);
    command
        .env("ARLES_KILLS", times.to_string())
        .env("ARLES_TAKEOVERS", times.to_string())
        .env("ARLES_LOCAL_KILLS", times.to_string())
        .env("ARLES_KILL_SEED", seed.to_string());
    let local = if test == "kill_local" { "--local " } else { "" };
    ends_well(&mut command, &format!("cargo xtask kill {local}--times {times} --seed {seed}"))
}
