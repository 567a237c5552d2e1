//! The numbers of runs: as a table, as JSON, and every job as CSV.

use crate::estimation::ORACLE;
use crate::output::{Cell, Column, Table};
use crate::quantity::{hours, percent, shown};
use arles_report::record::{RunRecord, Summary};
use serde::Serialize;
use std::io::{self, Write};

/// The document of `-o json`.
#[derive(Serialize)]
pub(crate) struct Document<'r> {
    pub(crate) runs: Vec<&'r Summary>,
}

impl<'r> Document<'r> {
    pub(crate) fn of(runs: &'r [RunRecord]) -> Self {
        Self { runs: runs.iter().map(|run| &run.summary).collect() }
    }
}

/// One line per run, in 80 columns.
pub(crate) fn table(runs: &[RunRecord]) -> Table {
    let any = runs.iter().any(|run| run.summary.cost.is_some());
    let priced = |title, name| if any { Column::right(title, name) } else { Column::hidden(name) };
    let known =
        |amount: Option<f64>| amount.map_or(Cell::named("-", ""), |amount| Cell::number(shown(amount, 3), amount));
    let mut table = Table::new(vec![
        Column::left("policy", "policy"),
        Column::right("mean\nJCT h", "mean_jct_seconds"),
        Column::right("p50\nJCT h", "p50_jct_seconds"),
        Column::right("p99\nJCT h", "p99_jct_seconds"),
        Column::right("span\nh", "makespan_seconds"),
        Column::right("util\n%", "utilisation_ratio"),
        Column::right("active\nkWh", "energy_active_kwh"),
        Column::right("idle\nkWh", "energy_idle_kwh"),
        Column::right("late\n%", "sla_violation_ratio"),
        Column::right("moves", "migrations"),
        priced("cost\n", "cost"),
        priced("CO2\nkg", "carbon_kg"),
        Column::hidden("energy_kwh"),
        Column::hidden("energy_unused_kwh"),
        Column::hidden("energy_restart_kwh"),
        Column::hidden("jobs_completed"),
        Column::hidden("rounds"),
        Column::hidden("mixed_gangs"),
        Column::hidden("estimator"),
        Column::hidden("observations"),
    ]);
    for run in runs {
        let s = &run.summary;
        let time = |seconds: f64| Cell::number(hours(seconds), seconds);
        let energy = |kwh: f64| Cell::number(shown(kwh, 3), kwh);
        let ratio = |ratio: f64| Cell::number(percent(ratio), ratio);
        table.row(vec![
            s.policy.as_str().into(),
            time(s.mean_jct_seconds),
            time(s.p50_jct_seconds),
            time(s.p99_jct_seconds),
            time(s.makespan_seconds),
            ratio(s.utilisation_ratio),
            energy(s.energy_active_kwh),
            energy(s.energy_idle_kwh),
            ratio(s.sla_violation_ratio),
            s.migrations.into(),
            known(s.cost),
            known(s.carbon_kg),
            energy(s.energy_kwh),
            energy(s.energy_unused_kwh),
            energy(s.energy_restart_kwh),
            s.jobs_completed.into(),
            s.rounds.into(),
            s.mixed_gangs.into(),
            s.estimator.as_str().into(),
            s.observations.into(),
        ]);
    }
    table
}

/// What the columns of [`table`] mean.
const LEGEND: &str = "JCT: job completion time, from submission to end. span: makespan. util: GPU utilisation. \
    active, idle: energy of computation, and of idle power. late: share of time below a promised rate. moves: migrations to other GPUs.";

/// The legend, and who estimated where it was no oracle.
pub(crate) fn legend(runs: &[RunRecord]) -> String {
    let learned = runs.iter().map(|run| &run.summary).filter(|s| s.estimator != ORACLE);
    let Some((least, most)) =
        learned.clone().map(|s| s.observations).min().zip(learned.clone().map(|s| s.observations).max())
    else {
        return LEGEND.to_owned();
    };
    let name = learned.clone().next().map_or("", |s| &s.estimator);
    let count = if least == most { most.to_string() } else { format!("{least} to {most}") };
    format!("{LEGEND} Rates and power were estimated by {name}, from {count} measurements taken during the run.")
}

/// Every job of every run, under one header.
pub(crate) fn write_jobs(runs: &[RunRecord], out: &mut dyn Write) -> io::Result<()> {
    for (i, run) in runs.iter().enumerate() {
        let text = arles_report::jobs_csv(run);
        let header = if i == 0 { 0 } else { text.find('\n').map_or(text.len(), |end| end + 1) };
        out.write_all(&text.as_bytes()[header..])?;
    }
    Ok(())
}
