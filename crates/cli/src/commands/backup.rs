//! `arles backup`: a copy of the journal that is whole, while the daemon goes on writing.

use crate::fault::{Failed, Hinted, remark};
use crate::files::Unfinished;
use crate::server::{EXIT_CODES, unreadable};
use anyhow::Result;
use arles_daemon::access::Caller;
use arles_daemon::store::{Store, note_backup};
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
    /// State directory of the daemon, on this machine [default: arles-state]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
}

impl Backup {
    /// The folder that is meant. A backup is a copy of files, so a daemon elsewhere cannot be asked for one; whoever works with one and
    /// names no folder would get a copy of something else.
    fn folder(&self) -> Result<PathBuf> {
        let asked = std::env::var("ARLES_URL").ok().filter(|url| !url.trim().is_empty());
        match (&self.state, asked) {
            (Some(folder), _) => Ok(folder.clone()),
            (None, None) => Ok(PathBuf::from("arles-state")),
            (None, Some(url)) => Err(Hinted::new(
                format!("a backup copies a state folder and cannot be made through ARLES_URL ({url})"),
                "run it on the daemon's machine, with --state FOLDER",
            )
            .into()),
        }
    }

    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let folder = self.folder()?;
        let store = Store::read(&folder).map_err(|error| unreadable(&error))?;
        let unfinished = (!self.file.exists()).then(|| Unfinished::new(&self.file));
        store.back_up(&self.file).map_err(|error| Failed(error.to_string()))?;
        // A copy that nobody can read is none: it is recovered as a daemon would recover it.
        let copy = Archive::open(&self.file, &mut |line| remark(format_args!("arles: {line}")));
        let copy = copy.map_err(|error| Failed(format!("the copy cannot be read back: {error}")))?;
        drop(unfinished);
        note_backup(&folder, &self.file);
        let server = copy.view(&Caller::loopback()).server();
        let bytes = std::fs::metadata(&self.file).map_or(0, |meta| meta.len());
        let size = if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
        let (file, jobs, gpus) = (self.file.display(), server.live_jobs, server.gpus);
        Ok(writeln!(out, "{file}: {size}, round {}, {jobs} live jobs on {gpus} GPUs; verified", server.round)?)
    }
}
