//! Errors on their way to the terminal, and the exit codes they end in.
//!
//! 0: done. 1: the work failed (a file could not be written, a replay differs). 2: wrong usage or wrong input.
//! Wherever input is read, what is wrong with it becomes a sentence; so an [`io::Error`] that is still in an error's
//! chain is one of writing, and that is how the two codes are told apart.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use thiserror::Error;

/// What `--help` says about exit codes.
pub(crate) const EXIT_CODES: &str =
    "Exit codes: 0 success; 1 failure (cannot write a file, a replay differs); 2 invalid usage or input.";

const FAILED: u8 = 1;
const WRONG: u8 = 2;

/// A sentence, and one that says what to do about it.
#[derive(Debug, Error)]
#[error("{sentence}")]
pub(crate) struct Hinted {
    sentence: String,
    hint: String,
    failed: bool,
}

impl Hinted {
    pub(crate) fn new(sentence: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), hint: hint.into(), failed: false }
    }

    /// The same, where input and usage were right and still the work could not be done.
    pub(crate) fn failed(self) -> Self {
        Self { failed: true, ..self }
    }

    pub(crate) fn is_failure(&self) -> bool {
        self.failed
    }
}

/// Input and usage were right, and still the work could not be done.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Failed(pub(crate) String);

/// Another program's exit code, passed on; there is nothing to say about it.
#[derive(Debug, Error)]
#[error("ended with exit code {0}")]
pub(crate) struct Ended(pub(crate) u8);

/// Prints an error and says how the program ends.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let written = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    if written.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    if let Some(Ended(code)) = error.downcast_ref::<Ended>() {
        return ExitCode::from(*code);
    }
    remark(format_args!("error: {error:#}"));
    let hinted = error.chain().find_map(|cause| cause.downcast_ref::<Hinted>());
    if let Some(hinted) = hinted {
        remark(format_args!("hint: {}", hinted.hint));
    }
    let failed = written.is_some()
        || hinted.is_some_and(Hinted::is_failure)
        || error.chain().any(<dyn std::error::Error>::is::<Failed>);
    ExitCode::from(if failed { FAILED } else { WRONG })
}

/// A line on stderr; where there is none to write to, nobody wanted to read it.
pub(crate) fn remark(line: fmt::Arguments<'_>) {
    // Names of others' making may stand in it; line breaks are ours.
    let line = line.to_string();
    let lines: Vec<_> = line.split('\n').map(arles_core::name::harmless).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}
