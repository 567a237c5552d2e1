//! `arles check-config`: is this configuration file right, and what could be in one?

use crate::fault::EXIT_CODES;
use crate::output::{self, Column, OutputFlag, Table};
use crate::settings::{Settings, default_file};
use crate::setup::Setup;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Check a configuration file, or print the defaults
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CheckConfig {
    /// Configuration file; the files it names are read too
    #[arg(default_value = "arles.toml")]
    file: PathBuf,
    /// Print a commented file with every default
    #[arg(long, conflicts_with = "file")]
    default: bool,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct GivenSetting {
    key: String,
    value: String,
}

impl CheckConfig {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        if self.default {
            return Ok(out.write_all(default_file().as_bytes())?);
        }
        let mut settings = Settings::builtin()?;
        let given = settings.put_file(&self.file)?;
        let setup = Setup::new(&settings)?;
        setup.scenario(setup.trace(settings.seed)?.trace.into(), false)?;
        let mut table = Table::new(vec![Column::left("setting", "key"), Column::prose("value", "value")]);
        let rows: Vec<GivenSetting> = given.into_iter().map(|(key, value)| GivenSetting { key, value }).collect();
        for row in &rows {
            table.row(vec![row.key.as_str().into(), row.value.as_str().into()]);
        }
        output::print(out, self.output.output, &table, &rows)?;
        crate::fault::remark(format_args!("{}: valid; all other settings have their defaults", self.file.display()));
        Ok(())
    }
}
