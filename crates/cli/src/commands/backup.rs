//! `arles backup`: a copy of the journal that is whole, while the daemon goes on writing.

use crate::fault::{Failed, remark};
use crate::server::{EXIT_CODES, unreadable};
use anyhow::Result;
use arles_daemon::access::Caller;
use arles_daemon::store::Store;
use arles_daemon::views::Archive;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Back up the journal, even while the daemon runs, and verify the copy
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Backup {
    /// File to write; it must not exist yet
    file: PathBuf,
    /// State directory of the daemon
    #[arg(long, value_name = "FOLDER", default_value = "arles-state")]
    state: PathBuf,
}

impl Backup {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let store = Store::read(&self.state).map_err(|error| unreadable(&error))?;
        store.back_up(&self.file).map_err(|error| Failed(error.to_string()))?;
        // A copy that nobody can read is none: it is recovered as a daemon would recover it.
        let copy = Archive::open(&self.file, &mut |line| remark(format_args!("arles: {line}")));
        let copy = copy.map_err(|error| Failed(format!("the copy cannot be read back: {error}")))?;
        let server = copy.view(&Caller::loopback()).server();
        let bytes = std::fs::metadata(&self.file).map_or(0, |meta| meta.len());
        let size = if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
        let (file, jobs, gpus) = (self.file.display(), server.live_jobs, server.gpus);
        Ok(writeln!(out, "{file}: {size}, round {}, {jobs} live jobs on {gpus} GPUs; verified", server.round)?)
    }
}
