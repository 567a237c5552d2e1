//! Running other programs from the repository's root.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the repository is.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// The cargo that runs this task, in the repository's root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command to its end; `line` is what a person would type.
pub(crate) fn ends_well(command: &mut Command, line: &str) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{line} could not be run: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: {line}")) }
}

/// The value after a flag, as a whole number.
pub(crate) fn number(flag: &str, value: Option<&String>, usage: &str) -> Result<u64, String> {
    let text = value.map_or("", String::as_str);
    text.parse().map_err(|_| format!("{flag} needs a whole number, not '{text}'; usage: {usage}"))
}
