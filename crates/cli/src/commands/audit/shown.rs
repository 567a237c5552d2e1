//! An audit as it is printed and written.

use crate::files::Draft;
use crate::jobs::shortened;
use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::{percent, shown};
use anyhow::Result;
use arles_report::audit::AuditRecord;
use arles_report::{self as report, ReportHead};
use std::io::Write;

/// Parties whose envy of one another fits a terminal.
const MOST_COLUMNS: usize = 12;

/// Prints an audit.
pub(super) fn print(out: &mut dyn Write, format: Format, record: &AuditRecord) -> Result<()> {
    output::print(out, format, &table(record), record)?;
    if format == Format::Table {
        envy(out, record)?;
        verdicts(out, record)?;
    }
    Ok(())
}

/// The verdict, property by property.
pub(super) fn verdicts(out: &mut dyn Write, record: &AuditRecord) -> Result<()> {
    writeln!(out)?;
    let mut table =
        Table::new(vec![Column::left("property", "property"), Column::left("", "holds"), Column::prose("", "words")]);
    for verdict in &record.verdicts {
        let word = match verdict.holds {
            Some(true) => "holds",
            Some(false) => "FAILS",
            None => "-",
        };
        table.row(vec![verdict.property.into(), word.into(), verdict.words.as_str().into()]);
    }
    write!(out, "{}", table.text(output::terminal_width()))?;
    output::paragraph(out, &record.verdict)
}

fn table(record: &AuditRecord) -> Table {
    let known = |of: fn(&report::audit::PartyRecord) -> Option<f64>| record.parties.iter().any(|p| of(p).is_some());
    let column = |shown: bool, title, name| if shown { Column::right(title, name) } else { Column::hidden(name) };
    let mut table = Table::new(vec![
        Column::left("who", "name"),
        Column::right("claim\n%", "entitlement_ratio"),
        Column::right("GPUs\n", "gpus"),
        Column::right("sharing\nratio", "sharing_ratio"),
        Column::right("worst\nenvy", "worst_envy"),
        column(known(|p| p.finish_time_ratio), "finish\ntime", "finish_time_ratio"),
        column(known(|p| p.worst_finish_time_ratio), "worst\njob", "worst_finish_time_ratio"),
        column(known(|p| p.beside_policy_ratio), "beside\npolicy", "beside_policy_ratio"),
        column(known(|p| p.best_lie.as_ref().map(|lie| lie.gain)), "best\nlie", "best_lie_gain"),
        Column::left("by\n", "best_lie_slant"),
        Column::hidden("envied"),
    ]);
    for party in &record.parties {
        let number = |value: Option<f64>| match value {
            Some(value) if value == f64::INFINITY => Cell::named("∞", ""),
            Some(value) => Cell::number(shown(value, 3), value),
            None => Cell::named("-", ""),
        };
        let gpus: f64 = party.gpus.iter().sum();
        let slant =
            party.best_lie.as_ref().map_or("", |lie| if lie.factors.is_empty() { "" } else { lie.slant.as_str() });
        table.row(vec![
            Cell::named(&shortened(&party.name, 20), &party.name),
            Cell::number(percent(party.entitlement_ratio), party.entitlement_ratio),
            Cell::number(shown(gpus, 3), gpus),
            number(party.sharing_ratio),
            number(party.worst_envy),
            number(party.finish_time_ratio),
            number(party.worst_finish_time_ratio),
            number(party.beside_policy_ratio),
            number(party.best_lie.as_ref().map(|lie| lie.gain)),
            slant.into(),
            party.envied.as_deref().unwrap_or("").into(),
        ]);
    }
    table
}

/// Who would rather have whose share: above 1 the row envies the column. As many columns as the terminal has room for.
fn envy(out: &mut dyn Write, record: &AuditRecord) -> Result<()> {
    let n = record.envy.len();
    if n < 2 {
        return Ok(());
    }
    let name = |i: usize| shortened(&record.parties[i].name, 10);
    let wide = (0..n).map(|i| name(i).chars().count()).max().unwrap_or(0).max(6);
    if n > MOST_COLUMNS || (wide + 2) * (n + 1) > output::terminal_width() {
        return output::paragraph(out, "The matrix of envy does not fit here; -o json has it, and --report draws it.");
    }
    writeln!(out, "\nenvy: value of the column's GPUs to the row, over the value of its own")?;
    let heads: Vec<String> = (0..n).map(|i| format!("{:>wide$}", name(i))).collect();
    writeln!(out, "{:<wide$}  {}", "", heads.join("  "))?;
    for (i, row) in record.envy.iter().enumerate() {
        let cell = |ratio: &Option<f64>| match ratio {
            Some(ratio) if ratio.is_infinite() => "∞".to_owned(),
            Some(ratio) => shown(*ratio, 3),
            None => "-".to_owned(),
        };
        let cells: Vec<String> = row.iter().map(|ratio| format!("{:>wide$}", cell(ratio))).collect();
        writeln!(out, "{:<wide$}  {}", name(i), cells.join("  "))?;
    }
    Ok(())
}

/// Files begun before the work, so that one that cannot be written is known at once.
pub(super) struct Drafts {
    pub(super) report: Option<Draft>,
    pub(super) svg: Option<Draft>,
}

impl Drafts {
    /// Writes the page and the map of envy, if they were asked for.
    pub(super) fn write(self, record: &AuditRecord, cluster: &str, seed: u64) -> Result<()> {
        if let Some(mut draft) = self.report {
            let head = ReportHead {
                title: format!("Audit of {}", record.subject),
                cluster: cluster.to_owned(),
                trace: String::new(),
                command: crate::commands::simulate::command_line(),
                seed,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            };
            draft.out().write_all(report::audit_html(&head, record).as_bytes())?;
            draft.keep()?;
        }
        if let Some(mut draft) = self.svg {
            let Some(svg) = report::envy_svg(record) else {
                let hint = "audit at least two users or tenants";
                return Err(crate::fault::Hinted::new(
                    "--svg draws who envies whom, and there is no matrix of envy",
                    hint,
                )
                .into());
            };
            draft.out().write_all(svg.as_bytes())?;
            draft.keep()?;
        }
        Ok(())
    }
}
