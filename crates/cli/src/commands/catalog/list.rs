//! `arles catalog list`: the cells, all or some.

use super::moment_or_now;
use super::place::Place;
use super::rows::{CellRow, quality, rate};
use crate::fault::{EXIT_CODES, remark};
use crate::output::{self, Column, Format, OutputFlag, Table};
use anyhow::{Result, anyhow};
use arles_core::estimate::Source;
use arles_core::library::suggestion;
use arles_core::{Library, Time};
use arles_learn::catalog::csv::{self, Names};
use arles_learn::catalog::labels;
use arles_learn::{Catalog, Cell, Key};
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  arles catalog list
  arles catalog list --workload 'LM (batch size 5)' --kind v100
  arles catalog list --source measured -o csv > measured.csv";

/// List all cells: every workload on every kind
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct List {
    /// Only this workload, by any of its names
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Only this kind, by any of its names
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only cells from this source
    #[arg(long, value_name = "SOURCE", value_parser = PossibleValuesParser::new(labels::SOURCES.map(|(word, _)| word)))]
    source: Option<String>,
    /// Date for ages and standard errors, such as 2026-11-15 [default: now]
    #[arg(long, value_name = "MOMENT")]
    as_of: Option<String>,
    #[command(flatten)]
    output: OutputFlag,
}

impl List {
    pub(super) fn run(&self, place: &Place, out: &mut dyn Write) -> Result<()> {
        let now = moment_or_now("--as-of", self.as_of.as_deref())?;
        let kind = self
            .kind
            .as_deref()
            .map(|name| Library::builtin().any_kind(name))
            .transpose()
            .map_err(|sentence| anyhow!(sentence))?;
        let source = self.source.as_deref().and_then(|word| labels::from_label(word, &labels::SOURCES));
        let catalog = place.read()?;
        let workload = self.workload.as_deref().map(|name| named(&catalog, name)).transpose()?;
        let fits = |(key, cell): &(&Key, &Cell)| {
            kind.as_ref().is_none_or(|kind| kind.name == key.kind)
                && workload.as_ref().is_none_or(|name| *name == key.workload)
                && source.is_none_or(|source: Source| source == cell.source)
        };
        let cells: Vec<(&Key, &Cell)> = catalog.cells().filter(fits).collect();
        if cells.is_empty() {
            remark(format_args!("none of {} cells match", catalog.len()));
        }
        match self.output.output {
            Format::Csv => Ok(csv::write(out, cells)?),
            format => {
                let rows: Vec<CellRow<'_>> = cells.iter().map(|cell| CellRow::of(*cell)).collect();
                output::print(out, format, &table(&cells, now), &rows)
            }
        }
    }
}

/// The workload that the catalog has under a name.
pub(super) fn named(catalog: &Catalog, name: &str) -> Result<String> {
    let one = Names::new(Library::builtin(), catalog.described()).workload(name);
    if catalog.cells().any(|(key, _)| key.workload == one) {
        return Ok(one);
    }
    let near = suggestion(name, catalog.cells().map(|(key, _)| key.workload.as_str()));
    Err(anyhow!("the catalog has no workload '{name}'{near}; 'arles catalog list' shows all"))
}

fn table(cells: &[(&Key, &Cell)], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::left("workload", "workload"),
        Column::left("kind", "kind"),
        Column::right("gang", "gang"),
        Column::left("partner", "partner"),
        Column::right("rate\n1/s", "rate_steps_per_second"),
        Column::right("watts", "watts"),
        Column::left("source", "source"),
        Column::right("obs", "observations"),
        Column::right("age", "age_seconds"),
        Column::right("std\nerr %", "standard_error"),
    ]);
    for (key, cell) in cells {
        let mut row: Vec<output::Cell> = vec![key.workload.as_str().into(), key.kind.as_str().into(), key.gang.into()];
        row.push(key.partner.as_deref().unwrap_or("-").into());
        row.push(rate(cell));
        row.extend(quality(cell, now));
        table.row(row);
    }
    table
}
