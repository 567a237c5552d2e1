//! `arles import`: a published trace, turned into ours.

use crate::fault::{EXIT_CODES, remark};
use crate::files::Draft;
use crate::settings::{IMPORT, SettingFlags};
use anyhow::Result;
use arles_sim::trace::csv;
use arles_sim::trace::import::{self, ImportOptions};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Convert a published trace to arles' CSV
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Import {
    /// The trace, plain or gzip
    file: PathBuf,
    #[command(flatten)]
    flags: SettingFlags<IMPORT>,
    /// Output file, written whole or not at all [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Import {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let settings = self.flags.settings()?;
        let options = ImportOptions { seed: settings.seed, ..settings.import };
        let imported = import::from_file(&self.file, settings.format.as_deref(), &options)?;
        match &self.output {
            None => csv::write(&imported.trace, out)?,
            Some(path) => {
                let mut draft = Draft::create(path)?;
                csv::write(&imported.trace, draft.out())?;
                draft.keep()?;
            }
        }
        remark(format_args!("{}", imported.report));
        Ok(())
    }
}
