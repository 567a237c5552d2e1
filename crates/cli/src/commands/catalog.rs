//! `arles catalog`: what was measured, in a file that outlives jobs and restarts.

mod export;
mod gavel;
mod import;
mod list;
mod place;
mod rows;
mod show;

use crate::fault::EXIT_CODES;
use anyhow::{Result, anyhow};
use arles_core::Time;
use arles_learn::catalog::timestamp;
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  arles catalog import simulation_throughputs.json   Gavel's measurements
  arles catalog import ours.csv                      your own
  arles catalog list --kind v100 --source measured   measurements on one kind
  arles catalog show lm-b5                           one workload
  arles catalog export -o backup.csv                 everything";

/// List, show, import and export measurements
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Catalog {
    #[command(subcommand)]
    command: Command,
    /// Catalog file [default: $ARLES_CATALOG, or arles/catalog.sqlite in the user's data directory]
    #[arg(long, global = true, value_name = "FILE")]
    catalog: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Import(import::Import),
    Export(export::Export),
}

impl Catalog {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let place = place::find(self.catalog.as_deref())?;
        match &self.command {
            Command::List(command) => command.run(&place, out),
            Command::Show(command) => command.run(&place, out),
            Command::Import(command) => command.run(&place),
            Command::Export(command) => command.run(&place, out),
        }
    }
}

/// The moment that a flag names, or the present one.
fn moment_or_now(flag: &str, text: Option<&str>) -> Result<Time> {
    match text {
        Some(text) => timestamp::parse(text).map_err(|sentence| anyhow!("{flag}: {sentence}")),
        // A clock before 1970 is set wrongly, but that is no reason to fail.
        None => Ok(Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64))),
    }
}
