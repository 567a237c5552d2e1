//! `arles tenants`: who is owed what, and holds what.

use crate::jobs::{harmless, shortened};
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::{self, kwh, percent, shown};
use crate::server::{self, EXIT_CODES, ReadFlags, ServerFlags};
use anyhow::Result;
use arles_api::client::encode;
use arles_api::{Tenant, TenantRequest};
use arles_core::job::{MAX_WEIGHT, MIN_WEIGHT};
use clap::{Args, Subcommand};
use std::io::Write;

/// List tenants with their entitlements and usage, or set a weight
#[derive(Args)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub(crate) struct Tenants {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    read: ReadFlags,
}

#[derive(Subcommand)]
enum Action {
    Set(Set),
}

/// Add a tenant, or change its weight
#[derive(Args)]
struct Set {
    /// Tenant
    name: String,
    /// Entitlement relative to the other tenants
    #[arg(value_parser = |text: &str| quantity::number(text, MIN_WEIGHT, MAX_WEIGHT))]
    weight: f64,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Tenants {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        if let Some(Action::Set(set)) = &self.action {
            return set.run(out);
        }
        let tenants = self.read.open()?.tenants()?.tenants;
        output::print(out, self.read.format(), &table(&tenants), &tenants)
    }
}

impl Set {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let client = self.server.client()?;
        let request = TenantRequest { weight: self.weight };
        let path = format!("/v1/tenants/{}", encode(&self.name));
        let tenant: Tenant = client.put(&path, &request).map_err(server::fault)?;
        if self.output.output == Format::Table {
            let (weight, part) = (shown(tenant.weight, 3), percent(tenant.entitlement_ratio));
            return Ok(writeln!(out, "{}: weight {weight}, {part} % of the cluster", harmless(&tenant.name))?);
        }
        output::print(out, self.output.output, &table(std::slice::from_ref(&tenant)), &tenant)
    }
}

fn table(tenants: &[Tenant]) -> Table {
    let mut table = Table::new(vec![
        Column::left("tenant", "tenant"),
        Column::right("weight", "weight"),
        Column::right("share\n%", "entitlement_ratio"),
        Column::right("used\n%", "held_ratio"),
        Column::right("gpus", "gpus"),
        Column::right("running", "running"),
        Column::right("waiting", "waiting"),
        Column::right("completed", "completed"),
        Column::right("GPU\nhours", "gpu_seconds"),
        Column::right("energy\nkWh", "joules"),
    ]);
    for tenant in tenants {
        let name = harmless(&tenant.name);
        let energy = &tenant.energy;
        let joules = energy.active_joules + energy.idle_joules + energy.restart_joules;
        table.row(vec![
            Cell::named(&shortened(&name, 20), &name),
            Cell::number(shown(tenant.weight, 3), tenant.weight),
            Cell::number(percent(tenant.entitlement_ratio), tenant.entitlement_ratio),
            Cell::number(percent(tenant.held_ratio), tenant.held_ratio),
            Cell::number(format!("{}", (tenant.gpus * 10.0).round() / 10.0), tenant.gpus),
            tenant.running.into(),
            tenant.waiting.into(),
            tenant.completed.into(),
            Cell::number(quantity::hours(tenant.gpu_seconds), tenant.gpu_seconds),
            Cell::number(kwh(joules), joules),
        ]);
    }
    table
}
