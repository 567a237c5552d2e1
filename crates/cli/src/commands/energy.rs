//! `arles energy`: who used how much, and for what.

use super::audit::Window;
use crate::fault::remark;
use crate::jobs::{harmless, shortened};
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::{self, kwh, span};
use crate::server::{EXIT_CODES, SourceFlags};
use anyhow::Result;
use arles_api::EnergyAccount;
use arles_daemon::desk::{EnergyBy, Page};
use clap::{Args, ValueEnum};
use std::io::Write;

/// Show energy by tenant, kind or job
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Energy {
    /// What to add up
    #[arg(long, value_enum, value_name = "WHAT", default_value = "tenant")]
    by: By,
    #[command(flatten)]
    window: Window,
    /// At most so many jobs, the newest
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    source: SourceFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Tenant,
    Kind,
    Job,
}

impl Energy {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let source = self.source.open()?;
        let (from, to) = self.window.ends(&source)?;
        let by = match self.by {
            By::Tenant => EnergyBy::Tenant,
            By::Kind => EnergyBy::Kind,
            By::Job => EnergyBy::Job,
        };
        let mut page = Page { cursor: None, limit: Some(self.limit.min(1000)) };
        let mut account = source.energy(by, from, to, &page)?;
        while let Some(next) = account.next.take() {
            let left = (self.limit as usize).saturating_sub(account.rows.len());
            if left == 0 {
                remark(format_args!("older jobs are not shown; a larger --limit shows more"));
                break;
            }
            page = Page { cursor: Some(next), limit: Some((left as u32).min(1000)) };
            let more = source.energy(by, from, to, &page)?;
            account.rows.extend(more.rows);
            account.next = more.next;
        }
        output::print(out, self.output.output, &table(&account, self.by), &account)?;
        if self.output.output == Format::Table {
            let when = if self.by == By::Job { "whenever that was".into() } else { span(account.to - account.from) };
            let text = match self.by {
                By::Job => format!("Of jobs it is all they have used, {when}."),
                By::Tenant | By::Kind => {
                    format!("All that was drawn in {when}: {} kWh, unused GPUs included.", kwh(account.total_joules))
                }
            };
            output::paragraph(out, &text)?;
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
    let unused = match by {
        By::Kind => Column::right("unused\nkWh", "unused_joules"),
        By::Tenant | By::Job => Column::hidden("unused_joules"),
    };
    let mut table = Table::new(vec![
        name,
        Column::right("GPU\nhours", "gpu_seconds"),
        Column::right("active\nkWh", "active_joules"),
        Column::right("idle\nkWh", "idle_joules"),
        Column::right("restarts\nkWh", "restart_joules"),
        unused,
    ]);
    for row in &account.rows {
        let name = harmless(&row.name);
        let joules = |joules: f64| Cell::number(kwh(joules), joules);
        table.row(vec![
            Cell::named(&shortened(&name, 24), &name),
            Cell::number(quantity::hours(row.gpu_seconds), row.gpu_seconds),
            joules(row.energy.active_joules),
            joules(row.energy.idle_joules),
            joules(row.energy.restart_joules),
            joules(row.unused_joules),
        ]);
    }
    table
}
