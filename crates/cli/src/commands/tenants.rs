//! `arles tenants`: who is owed what, and holds what.

use crate::fault::Hinted;
use crate::jobs::{harmless, shortened};
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::{self, kwh, percent, shown};
use crate::server::{self, EXIT_CODES, ReadFlags, ServerFlags};
use crate::settings::frequency;
use anyhow::Result;
use arles_api::client::encode;
use arles_api::{Quota, Tenant, TenantRequest};
use arles_core::job::{MAX_WEIGHT, MIN_WEIGHT};
use arles_core::library::suggestion;
use clap::{Args, Subcommand};
use std::io::Write;

/// List tenants with their usage; set weights and quotas; remove some
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
    Quota(SetQuota),
    Remove(Remove),
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

/// Show what a tenant may use, or change it
///
/// A limit that is not named stays as it is; 'none' lifts it. Submissions beyond --jobs and --submits are refused. Jobs beyond --gpus wait; when a
/// monthly budget is used up, all jobs of the tenant wait for the next month, and those that run are stopped with a checkpoint.
#[derive(Args)]
#[command(name = "quota")]
struct SetQuota {
    /// Tenant
    name: String,
    /// Live jobs
    #[arg(long, value_name = "N", value_parser = limit_of(whole))]
    jobs: Option<Limit<u32>>,
    /// GPUs at once
    #[arg(long, value_name = "N", value_parser = limit_of(whole))]
    gpus: Option<Limit<u32>>,
    /// GPU-hours in a calendar month (UTC)
    #[arg(long, value_name = "HOURS", value_parser = limit_of(amount))]
    gpu_hours: Option<Limit<f64>>,
    /// Energy in a calendar month (UTC)
    #[arg(long, value_name = "KWH", value_parser = limit_of(amount))]
    kwh: Option<Limit<f64>>,
    /// Submissions, such as 10/s, 600/min or 1000/h
    #[arg(long, value_name = "RATE", value_parser = limit_of(frequency))]
    submits: Option<Limit<f64>>,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Remove a tenant: its tokens are revoked, its history stays
#[derive(Args)]
struct Remove {
    /// Tenant
    name: String,
    /// Cancel its live jobs; without it, a tenant with live jobs is not removed
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// A new limit; `None` lifts it.
#[derive(Clone, Copy)]
struct Limit<T>(Option<T>);

/// Reads a limit, or 'none'.
fn limit_of<T>(read: fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<Limit<T>, String> + Clone {
    move |text| if text == "none" { Ok(Limit(None)) } else { read(text).map(|value| Limit(Some(value))) }
}

fn whole(text: &str) -> Result<u32, String> {
    quantity::whole(text, 0).map_err(|sentence| format!("{sentence}; or none, to lift the limit"))
}

fn amount(text: &str) -> Result<f64, String> {
    quantity::number(text, 0.0, 1e12).map_err(|sentence| format!("{sentence}; or none, to lift the limit"))
}

impl Tenants {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.action {
            Some(Action::Set(set)) => return set.run(out),
            Some(Action::Quota(quota)) => return quota.run(out),
            Some(Action::Remove(remove)) => return remove.run(out),
            None => {}
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

impl SetQuota {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let client = self.server.client()?;
        let mut all: arles_api::Tenants = client.get("/v1/tenants").map_err(server::fault)?;
        let Some(at) = all.tenants.iter().position(|tenant| tenant.name == self.name) else {
            let near = suggestion(&self.name, all.tenants.iter().map(|tenant| tenant.name.as_str()));
            let hint = "'arles tenants' lists them; 'arles tenants set NAME WEIGHT' adds one";
            return Err(Hinted::new(format!("there is no tenant '{}'{near}", self.name.escape_debug()), hint).into());
        };
        let mut tenant = all.tenants.swap_remove(at);
        let changed = Quota {
            gpus: self.gpus.map_or(tenant.quota.gpus, |limit| limit.0),
            jobs: self.jobs.map_or(tenant.quota.jobs, |limit| limit.0),
            gpu_hours: self.gpu_hours.map_or(tenant.quota.gpu_hours, |limit| limit.0),
            kwh: self.kwh.map_or(tenant.quota.kwh, |limit| limit.0),
            submits_per_second: self.submits.map_or(tenant.quota.submits_per_second, |limit| limit.0),
        };
        if changed != tenant.quota {
            let path = format!("/v1/tenants/{}/quota", encode(&self.name));
            tenant = client.put(&path, &changed).map_err(server::fault)?;
        }
        output::print(out, self.output.output, &quota_table(&tenant), &tenant)
    }
}

impl Remove {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let client = self.server.client()?;
        let path = format!("/v1/tenants/{}?cancel={}", encode(&self.name), self.cancel);
        let tenant: Tenant = client.delete(&path).map_err(server::fault)?;
        if self.output.output == Format::Table {
            let name = harmless(&tenant.name);
            return Ok(writeln!(out, "{name}: removed; its tokens are revoked, and its history stays")?);
        }
        output::print(out, self.output.output, &table(std::slice::from_ref(&tenant)), &tenant)
    }
}

/// A line for each thing that can be limited.
fn quota_table(tenant: &Tenant) -> Table {
    let mut table = Table::new(vec![
        Column::left("limit", "limit"),
        Column::right("used", "used"),
        Column::right("quota", "quota"),
    ]);
    let (quota, month) = (&tenant.quota, &tenant.month);
    let lines = [
        ("live jobs", Some((tenant.running + tenant.waiting) as f64), quota.jobs.map(f64::from)),
        ("GPUs at once", Some(tenant.gpus), quota.gpus.map(f64::from)),
        ("GPU-hours this month", Some(month.gpu_hours), quota.gpu_hours),
        ("kWh this month", Some(month.kwh), quota.kwh),
        ("submissions per second", None, quota.submits_per_second),
    ];
    let number = |value: Option<f64>, missing: &str| match value {
        // A limit of 8 GPUs is 8, not 8.000.
        Some(value) if value.fract() == 0.0 => Cell::number(format!("{value}"), value),
        Some(value) => Cell::number(shown((value * 1000.0).round() / 1000.0, 4), value),
        None => Cell::number(missing.to_owned(), f64::NAN),
    };
    for (name, used, most) in lines {
        table.row(vec![name.into(), number(used, "-"), number(most, "none")]);
    }
    table
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
        let joules = energy.joules();
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
