//! `arles restore`: a copy becomes the journal of a state folder.

use crate::fault::{EXIT_CODES, Failed};
use crate::server::unreadable;
use anyhow::Result;
use arles_daemon::clock;
use arles_daemon::service::verify;
use arles_daemon::store::copies::{self, Restored};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Restore a copy made by 'arles backup' into a state directory
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Restore {
    /// The copy
    backup: PathBuf,
    /// State directory to restore into; no daemon may be using it
    #[arg(long, value_name = "FOLDER", default_value = "arles-state")]
    state: PathBuf,
    /// Move a journal that is there into a folder beside it, instead of refusing
    #[arg(long)]
    replace: bool,
}

impl Restore {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        verify::check_copy(&self.backup).map_err(|error| unreadable(&error))?;
        let now = clock::wall().0 / 1_000_000;
        let restored = copies::restore(&self.backup, &self.state, self.replace, now);
        let restored = restored.map_err(|error| Failed(error.to_string()))?;
        let found = verify::check_copy(&self.state).map_err(|error| Failed(error.to_string()))?;
        let Restored { moved, last, replaced_last, next_job } = restored;
        if let Some(moved) = moved {
            writeln!(out, "the journal that was there is now in {}", moved.display())?;
        }
        if let Some(lost) = replaced_last.filter(|replaced| *replaced > last) {
            writeln!(out, "entries {} to {lost} of that journal are not in the copy", last + 1)?;
        }
        if next_job > 0 {
            writeln!(out, "jobs are numbered from {next_job} on, so that no number is given out twice")?;
        }
        let (state, jobs) = (self.state.display(), found.live_jobs);
        Ok(writeln!(
            out,
            "{state}: restored up to entry {last}, {jobs} live jobs; start it with 'arles serve --state {state}'"
        )?)
    }
}
