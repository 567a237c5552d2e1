//! `arles energy`: who used how much, and for what.

use super::audit::Window;
use crate::fault::remark;
use crate::jobs::{harmless, shortened};
use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::{self, kwh, span};
use crate::server::{EXIT_CODES, LimitFlag, ReadFlags};
use anyhow::Result;
use arles_api::EnergyAccount;
use arles_daemon::desk::{EnergyBy, Page};
use clap::{Args, ValueEnum};
use std::io::Write;

/// Show energy by tenant, kind or job
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Energy {
    /// Group by
    #[arg(long, value_enum, value_name = "WHAT", default_value = "tenant")]
    by: By,
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    limit: LimitFlag,
    #[command(flatten)]
    read: ReadFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Tenant,
    Kind,
    Job,
}

impl Energy {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let source = self.read.open()?;
        let (from, to) = self.window.ends(&source)?;
        let by = match self.by {
            By::Tenant => EnergyBy::Tenant,
            By::Kind => EnergyBy::Kind,
            By::Job => EnergyBy::Job,
        };
        let mut page = Page { cursor: None, limit: Some(self.limit.limit.min(1000)) };
        let mut account = source.energy(by, from, to, &page)?;
        while let Some(next) = account.next.take() {
            let left = (self.limit.limit as usize).saturating_sub(account.rows.len());
            if left == 0 {
                remark(format_args!("older jobs are not shown; a larger --limit shows more"));
                break;
            }
            page = Page { cursor: Some(next), limit: Some((left as u32).min(1000)) };
            let more = source.energy(by, from, to, &page)?;
            account.rows.extend(more.rows);
            account.next = more.next;
        }
        output::print(out, self.read.format(), &table(&account, self.by), &account)?;
        if self.read.format() == Format::Table {
            let text = match self.by {
                By::Job => "Totals of each job since its submission.".into(),
                By::Tenant | By::Kind => {
                    let window = span(account.to - account.from);
                    format!("Total over {window}: {} kWh, unused GPUs included.", kwh(account.total_joules))
                }
            };
            let source =
                if account.source.is_empty() { String::new() } else { format!(" Energy is {}.", account.source) };
            output::paragraph(out, &format!("{text}{source}"))?;
        }
        Ok(())
    }
}

fn table(account: &EnergyAccount, by: By) -> Table {
    let title = match by {
        By::Tenant => "tenant",
        By::Kind => "kind",
        By::Job => "job",
    };
    let name = if by == By::Job { Column::right(title, "name") } else { Column::left(title, "name") };
    // What nobody could know has no column; in a CSV it is empty.
    let (restarts, unused) = match by {
        By::Kind => (Column::hidden("restart_joules"), Column::right("unused\nkWh", "unused_joules")),
        By::Tenant | By::Job => (Column::right("restarts\nkWh", "restart_joules"), Column::hidden("unused_joules")),
    };
    let known = account.rows.iter().any(|row| row.cost.is_some());
    let priced = |title, name| if known { Column::right(title, name) } else { Column::hidden(name) };
    let mut table = Table::new(vec![
        name,
        Column::right("GPU\nhours", "gpu_seconds"),
        Column::right("active\nkWh", "active_joules"),
        Column::right("idle\nkWh", "idle_joules"),
        restarts,
        unused,
        priced("cost\n", "cost"),
        priced("CO2\nkg", "carbon_kg"),
    ]);
    for row in &account.rows {
        let name = harmless(&row.name);
        let joules = |joules: f64| Cell::number(kwh(joules), joules);
        table.row(vec![
            Cell::named(&shortened(&name, 24), &name),
            Cell::number(quantity::hours(row.gpu_seconds), row.gpu_seconds),
            joules(row.energy.active_joules),
            joules(row.energy.idle_joules),
            row.energy.restart_joules.map_or(unknown(), joules),
            row.unused_joules.map_or(unknown(), joules),
            row.cost.map_or(unknown(), amount),
            row.carbon_kg.map_or(unknown(), amount),
        ]);
    }
    table
}

fn amount(amount: f64) -> Cell {
    Cell::number(quantity::shown(amount, 3), amount)
}

fn unknown() -> Cell {
    Cell::named("-", "")
}
