//! `arles policy`: the policy in force, another one, or what another would change.

use crate::jobs::harmless;
use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::{shown, watts};
use crate::server::{self, EXIT_CODES, ReadFlags};
use anyhow::Result;
use arles_api::{Policy as Entry, PolicyForecast, PolicyRequest};
use clap::Args;
use std::io::Write;

/// Show the current policy, or switch to another
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Policy {
    /// Policy to switch to; 'arles policies' lists them
    #[arg(value_name = "NAME", conflicts_with = "journal")]
    name: Option<String>,
    /// Show what it would change, without switching
    #[arg(long, requires = "name")]
    dry_run: bool,
    #[command(flatten)]
    read: ReadFlags,
}

impl Policy {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let Some(name) = &self.name else {
            let policies = self.read.open()?.policies()?.policies;
            return self.print(out, policies.iter().find(|policy| policy.current));
        };
        let client = self.read.source.server.client()?;
        let request = PolicyRequest { policy: name.clone() };
        if self.dry_run {
            let forecast: PolicyForecast = client.post("/v1/dry-run/policy", &request, None).map_err(server::fault)?;
            return self.forecast(out, &forecast);
        }
        let policy: Entry = client.put("/v1/policy", &request).map_err(server::fault)?;
        if self.read.format() == Format::Table {
            return Ok(writeln!(out, "switched to {} from the next round on", policy.name)?);
        }
        self.print(out, Some(&policy))
    }

    fn print(&self, out: &mut dyn Write, policy: Option<&Entry>) -> Result<()> {
        let mut table = Table::new(vec![
            Column::left("policy", "policy"),
            Column::words("guarantees", "promises", 20),
            Column::prose("summary", "summary"),
        ]);
        if let Some(policy) = policy {
            let promises = policy.promises.join(" ");
            table.row(vec![policy.name.as_str().into(), promises.into(), policy.summary.as_str().into()]);
        }
        output::print(out, self.read.format(), &table, &policy)
    }

    fn forecast(&self, out: &mut dyn Write, forecast: &PolicyForecast) -> Result<()> {
        let mut table = Table::new(vec![
            Column::left("tenant", "tenant"),
            Column::left("kind", "kind"),
            Column::right("gpus\nbefore", "before"),
            Column::right("gpus\nafter", "after"),
            Column::right("change", "change"),
        ]);
        for share in &forecast.shares {
            table.gap();
            let total = |gpus: &[f64]| gpus.iter().sum::<f64>();
            let kinds = forecast.kinds.iter().map(String::as_str).zip(share.before.iter().zip(&share.after));
            let kinds = kinds.filter(|(_, (before, after))| **before != 0.0 || **after != 0.0);
            let lines = kinds.map(|(kind, (before, after))| (kind, *before, *after));
            let all = [("all", total(&share.before), total(&share.after))];
            for (i, (kind, before, after)) in all.into_iter().chain(lines).enumerate() {
                let tenant = harmless(&share.tenant);
                let change = after - before;
                let sign = if change > 0.0 { "+" } else { "" };
                table.row(vec![
                    Cell::named(if i == 0 { &tenant } else { "" }, &tenant),
                    kind.into(),
                    Cell::number(shown(before, 3), before),
                    Cell::number(shown(after, 3), after),
                    Cell::number(format!("{sign}{}", shown(change, 3)), change),
                ]);
            }
        }
        output::print(out, self.read.format(), &table, forecast)?;
        if self.read.format() == Format::Table {
            let draw = match (forecast.watts_before, forecast.watts_after) {
                (Some(before), Some(after)) => {
                    format!(" Estimated draw: {} before, {} after.", watts(before), watts(after))
                }
                _ => String::new(),
            };
            let jobs = if forecast.changed == 1 { "job" } else { "jobs" };
            let text = format!(
                "From {} to {}: {} {jobs} would start, stop or move.{draw} Nothing has changed.",
                forecast.from, forecast.to, forecast.changed
            );
            output::paragraph(out, &text)?;
        }
        Ok(())
    }
}
