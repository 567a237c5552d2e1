//! `arles verify`: is a journal what it should be?

use crate::fault::{EXIT_CODES, Failed};
use crate::output::{self, Format, OutputFlag};
use crate::server::unreadable;
use anyhow::Result;
use arles_daemon::service::verify::{self, Verified};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Verify a journal: hashes, seals, snapshots, the database itself, and a replay
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Verify {
    /// State directory, its journal.db, or a copy made by 'arles backup'; a daemon may be using it
    #[arg(default_value = "arles-state")]
    path: PathBuf,
    #[command(flatten)]
    output: OutputFlag,
}

impl Verify {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let found = verify::verify(&self.path).map_err(|error| unreadable(&error))?;
        match self.output.output {
            Format::Json => output::json(out, &found)?,
            _ => self.print(out, &found)?,
        }
        match found.findings.len() {
            0 => Ok(()),
            1 => Err(Failed(format!("{}: 1 finding", self.path.display())).into()),
            n => Err(Failed(format!("{}: {n} findings", self.path.display())).into()),
        }
    }

    fn print(&self, out: &mut dyn Write, found: &Verified) -> Result<()> {
        for finding in &found.findings {
            writeln!(out, "{finding}")?;
        }
        for note in &found.notes {
            writeln!(out, "note: {note}")?;
        }
        if found.findings.is_empty() {
            let Verified { entries, hashed_entries, last_entry, snapshots, replayed, live_jobs, .. } = found;
            let path = self.path.display();
            writeln!(
                out,
                "{path}: sound. {entries} entries up to {last_entry}, {hashed_entries} with a hash; snapshots: {snapshots}; {replayed} entries \
                 replayed; {live_jobs} live jobs"
            )?;
        }
        Ok(())
    }
}
