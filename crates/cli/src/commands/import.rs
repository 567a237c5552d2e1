//! `arles import`: a published trace, turned into ours.

use crate::fault::{EXIT_CODES, remark};
use crate::files::Draft;
use crate::settings::Settings;
use anyhow::Result;
use arles_sim::trace::csv;
use arles_sim::trace::import::{self, ImportOptions};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Turn a published trace into our CSV
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Import {
    /// The trace, plain or gzip
    file: PathBuf,
    /// Its format: arles, gavel, philly or openb [default: the first line decides]
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Deal the jobs out to tenants: round-robin:N or seeded:N
    #[arg(long, value_name = "SPLIT")]
    tenants: Option<String>,
    /// What jobs run where the trace does not say: NAME:WEIGHT,...
    #[arg(long, value_name = "MIX")]
    workloads: Option<String>,
    /// What the trace's names of kinds mean: G2=a100,G3=a10
    #[arg(long, value_name = "NAMES")]
    kind_names: Option<String>,
    /// Decides every random choice
    #[arg(long, value_name = "N")]
    seed: Option<String>,
    /// Where to write; nothing is there before all of it is [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Import {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut settings = Settings::builtin()?;
        let flags = [
            ("--format", "trace.format", &self.format),
            ("--tenants", "trace.tenants", &self.tenants),
            ("--workloads", "trace.workloads", &self.workloads),
            ("--kind-names", "trace.kind-names", &self.kind_names),
            ("--seed", "simulation.seed", &self.seed),
        ];
        for (flag, key, value) in flags {
            if let Some(value) = value {
                settings.put(key, value, flag)?;
            }
        }
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
