//! Logs of the long-running commands: lines on stderr with a time and a level, as text or JSON.
//!
//! A log must never stop what it reports on. Where stderr is a full disk or a closed pipe, lines are lost and nothing else happens.

use std::io::{self, Write};
use tracing::level_filters::LevelFilter;

/// How log lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("unknown log format '{other}'; expected text or json")),
        }
    }
}

/// Reads the least level that is logged.
pub(crate) fn level(text: &str) -> Result<LevelFilter, String> {
    match text.trim() {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        other => Err(format!("unknown log level '{other}'; expected error, warn, info or debug")),
    }
}

/// Stderr, if it is still there.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs from now on. Called once, by the command that runs.
pub(crate) fn start(format: LogFormat, level: LevelFilter) {
    let lines = tracing_subscriber::fmt()
        .with_writer(|| Stderr)
        .with_max_level(level)
        .with_target(false)
        // The library would complain about a writer on stderr itself, and panic where there is none.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
