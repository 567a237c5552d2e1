//! `arles catalog show`: one workload, alone on every kind and beside every partner.

use super::list::named;
use super::moment_or_now;
use super::place::Place;
use super::rows::{CellRow, quality, rate};
use crate::fault::EXIT_CODES;
use crate::output::{self, Column, Format, OutputFlag, Table, terminal_width};
use crate::quantity::{percent, shown};
use anyhow::Result;
use arles_core::{Library, Time, Workload};
use arles_learn::catalog::csv::{self, Names};
use arles_learn::{Catalog, Cell, Key};
use clap::Args;
use serde::Serialize;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  arles catalog show lm-b5
  arles catalog show 'LM (batch size 5)' -o json";

/// Show one workload: alone on every kind, and beside every partner
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Show {
    /// Any name of the workload
    workload: String,
    /// Date for ages and standard errors, such as 2026-11-15 [default: now]
    #[arg(long, value_name = "MOMENT")]
    as_of: Option<String>,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct WorkloadDocument<'c> {
    workload: &'c str,
    features: Option<&'c Workload>,
    alone: Vec<CellRow<'c>>,
    pairs: Vec<CellRow<'c>>,
}

impl Show {
    pub(super) fn run(&self, place: &Place, out: &mut dyn Write) -> Result<()> {
        let now = moment_or_now("--as-of", self.as_of.as_deref())?;
        let catalog = place.read()?;
        let name = named(&catalog, &self.workload)?;
        let features = Names::new(Library::builtin(), catalog.described()).known(&name);
        let of_it = || catalog.cells().filter(|(key, _)| key.workload == name);
        let mut alone: Vec<(&Key, &Cell)> = of_it().filter(|(key, _)| key.partner.is_none()).collect();
        let mut pairs: Vec<(&Key, &Cell)> = of_it().filter(|(key, _)| key.partner.is_some()).collect();
        alone.sort_by_key(|(key, _)| (&key.kind, key.gang));
        pairs.sort_by_key(|(key, _)| (&key.kind, &key.partner));
        match self.output.output {
            Format::Csv => csv::write(out, of_it())?,
            Format::Json => {
                let shown = WorkloadDocument {
                    workload: &name,
                    features,
                    alone: alone.into_iter().map(CellRow::of).collect(),
                    pairs: pairs.into_iter().map(CellRow::of).collect(),
                };
                output::json(out, &shown)?;
            }
            Format::Table => {
                writeln!(out, "{}", title(&name, features))?;
                if !alone.is_empty() {
                    write!(out, "\n{}", alone_table(&alone, now).text(terminal_width()))?;
                }
                if !pairs.is_empty() {
                    write!(out, "\n{}", pair_table(&catalog, &pairs, now).text(terminal_width()))?;
                }
            }
        }
        Ok(())
    }
}

fn title(name: &str, features: Option<&Workload>) -> String {
    match features {
        Some(w) => format!("{name}: {} of {}, {} GiB", w.family, w.domain, shown(w.memory_gib, 3)),
        None => format!("{name}: without features"),
    }
}

const QUALITY: [(&str, &str); 5] = [
    ("watts", "watts"),
    ("source", "source"),
    ("obs", "observations"),
    ("age", "age_seconds"),
    ("std\nerr %", "standard_error"),
];

fn with_quality(mut columns: Vec<Column>) -> Table {
    columns.extend(QUALITY.map(|(title, name)| match title {
        "source" => Column::left(title, name),
        _ => Column::right(title, name),
    }));
    Table::new(columns)
}

fn alone_table(cells: &[(&Key, &Cell)], now: Time) -> Table {
    let mut table = with_quality(vec![
        Column::left("kind", "kind"),
        Column::right("gang", "gang"),
        Column::right("rate\n1/s", "rate_steps_per_second"),
    ]);
    for (key, cell) in cells {
        let mut row: Vec<output::Cell> = vec![key.kind.as_str().into(), key.gang.into(), rate(cell)];
        row.extend(quality(cell, now));
        table.row(row);
    }
    table
}

/// Rates beside partners, in per cent of alone as well, and what the partner has left.
fn pair_table(catalog: &Catalog, cells: &[(&Key, &Cell)], now: Time) -> Table {
    let mut table = with_quality(vec![
        Column::left("kind", "kind"),
        Column::left("partner", "partner"),
        Column::right("rate\n1/s", "rate_steps_per_second"),
        Column::right("alone\n%", "of_alone"),
        Column::right("other\n%", "partner_of_alone"),
    ]);
    let share = |key: &Key, cell: Option<&Cell>| {
        let alone =
            catalog.get(&Key { partner: None, ..key.clone() }).map(|alone| alone.rate).filter(|rate| *rate > 0.0);
        let share = alone.zip(cell).map_or(f64::NAN, |(alone, cell)| cell.rate / alone);
        output::Cell::number(percent(share), share)
    };
    for (key, cell) in cells {
        let partner = key.partner.clone().unwrap_or_default();
        let other = Key { workload: partner.clone(), partner: Some(key.workload.clone()), ..(*key).clone() };
        let mut row: Vec<output::Cell> = vec![key.kind.as_str().into(), partner.into(), rate(cell)];
        row.push(share(key, Some(cell)));
        row.push(share(&other, catalog.get(&other)));
        row.extend(quality(cell, now));
        table.row(row);
    }
    table
}
