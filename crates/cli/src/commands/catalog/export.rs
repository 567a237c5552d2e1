//! `arles catalog export`: the whole catalog, for other programs and other machines.

use super::place::Place;
use super::rows::CellRow;
use crate::fault::{EXIT_CODES, remark};
use crate::files::Draft;
use crate::output;
use anyhow::Result;
use arles_core::Workload;
use arles_learn::Catalog;
use arles_learn::catalog::csv;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  arles catalog export > cells.csv
  arles catalog export -o cells.csv --features workloads.csv
  arles catalog export --format json | jq '.cells[] | select(.standard_error > 0.1)'";

/// Export the catalog as CSV, which 'import' reads back exactly, or as JSON
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Export {
    /// Write CSV or JSON
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "csv")]
    format: As,
    /// Output file, written whole or not at all [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the features of workloads, to this CSV file
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum As {
    Csv,
    Json,
}

/// The document of `--format json`.
#[derive(Serialize)]
struct CatalogDocument<'c> {
    cells: Vec<CellRow<'c>>,
    workloads: Vec<&'c Workload>,
}

impl Export {
    pub(super) fn run(&self, place: &Place, out: &mut dyn Write) -> Result<()> {
        let catalog = place.read()?;
        let mut cells = self.output.as_deref().map(Draft::create).transpose()?;
        let mut features = self.features.as_deref().map(Draft::create).transpose()?;
        match &mut cells {
            Some(draft) => self.write(&catalog, draft.out())?,
            None => self.write(&catalog, out)?,
        }
        if let Some(draft) = &mut features {
            csv::write_features(draft.out(), catalog.described())?;
        }
        for draft in [cells, features].into_iter().flatten() {
            draft.keep()?;
        }
        remark(format_args!("{} cells, {} workloads with features", catalog.len(), catalog.described().count()));
        Ok(())
    }

    fn write(&self, catalog: &Catalog, out: &mut dyn Write) -> Result<()> {
        match self.format {
            As::Csv => Ok(csv::write(out, catalog.cells())?),
            As::Json => {
                let (cells, workloads) = (catalog.cells().map(CellRow::of).collect(), catalog.described().collect());
                output::json(out, &CatalogDocument { cells, workloads })
            }
        }
    }
}
