//! `arles backup`: copies of the journal that are whole, while the daemon goes on writing; once, or on a schedule.

use crate::fault::{Failed, Hinted, remark};
use crate::quantity::{self, span};
use crate::server::{EXIT_CODES, unreadable};
use anyhow::Result;
use arles_daemon::access::Caller;
use arles_daemon::clock;
use arles_daemon::service::verify;
use arles_daemon::store::copies::{self, Rotated};
use arles_daemon::store::{Store, StoreError};
use arles_daemon::views::Archive;
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Back up the journal, even while the daemon runs, and verify the copy
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Backup {
    /// File to write; it must not exist yet
    #[arg(required_unless_present = "to", conflicts_with = "to")]
    file: Option<PathBuf>,
    /// State directory of the daemon
    #[arg(long, value_name = "FOLDER", default_value = "arles-state")]
    state: PathBuf,
    /// Write into this folder instead, named by the time, and remove older copies
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Copies that stay in the folder, the newest
    #[arg(long, value_name = "N", default_value = "14", requires = "to", value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Go on until interrupted, with a copy every so often
    #[arg(long, value_name = "TIME", requires = "to", value_parser = quantity::positive_seconds)]
    every: Option<f64>,
}

/// A copy in a folder of copies, verified before older ones go.
pub(crate) fn rotate(state: &Path, folder: &Path, keep: u32) -> Result<Rotated, StoreError> {
    let now = clock::wall().0 / 1_000_000;
    copies::rotate(state, folder, keep as usize, now, &mut |copy| verify::check_copy(copy).map(|_| ()))
}

impl Backup {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        match (&self.file, &self.to) {
            (Some(file), _) => self.once(file, out),
            (None, Some(folder)) => self.scheduled(folder, out),
            (None, None) => Err(Hinted::new("nothing to write", "give a file, or a folder with --to").into()),
        }
    }

    fn once(&self, file: &Path, out: &mut dyn Write) -> Result<()> {
        // A journal that is not there is a wrong flag, and not a failure.
        drop(Store::read(&self.state).map_err(|error| unreadable(&error))?);
        // A copy that nobody can read is none: it is recovered as a daemon would recover it.
        let copied = copies::copy_checked(&self.state, file, &mut |copy| verify::check_copy(copy).map(|_| ()));
        copied.map_err(|error| Failed(error.to_string()))?;
        let copy = Archive::open(file, &mut |line| remark(format_args!("arles: {line}")));
        let copy = copy.map_err(|error| Failed(format!("the copy cannot be read back: {error}")))?;
        let server = copy.view(&Caller::loopback()).server();
        let (jobs, gpus) = (server.live_jobs, server.gpus);
        let (size, file) = (size(file), file.display());
        Ok(writeln!(out, "{file}: {size}, round {}, {jobs} live jobs on {gpus} GPUs; verified", server.round)?)
    }

    fn scheduled(&self, folder: &Path, out: &mut dyn Write) -> Result<()> {
        drop(Store::read(&self.state).map_err(|error| unreadable(&error))?);
        loop {
            match (rotate(&self.state, folder, self.keep), self.every) {
                (Ok(Rotated { file, removed }), _) => {
                    let gone = if removed.is_empty() { String::new() } else { format!("; {} removed", removed.len()) };
                    writeln!(out, "{}: {}; verified{gone}", file.display(), size(&file))?;
                    out.flush()?;
                }
                (Err(error), None) => return Err(Failed(error.to_string()).into()),
                (Err(error), Some(every)) => remark(format_args!("arles: {error}; trying again in {}", span(every))),
            }
            match self.every {
                Some(every) => std::thread::sleep(Duration::from_secs_f64(every)),
                None => return Ok(()),
            }
        }
    }
}

fn size(file: &Path) -> String {
    let bytes = std::fs::metadata(file).map_or(0, |meta| meta.len());
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}
