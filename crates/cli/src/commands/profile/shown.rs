//! What was measured, as a table, as JSON, and as cells of a catalog.

use super::figures::{Counters, Figure};
use super::scene::Measured;
use crate::fault::{Failed, remark};
use crate::output::{Cell, Column, Table};
use crate::quantity::{self, shown};
use anyhow::Result;
use arles_core::{Library, Profile, Time};
use arles_learn::catalog::disk::Disk;
use arles_learn::catalog::{Key, Measurement};
use serde::Serialize;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Doubt of a figure whose blocks were too few to tell.
const UNKNOWN_ERROR: f64 = 0.03;
/// No measurement of seconds is surer than that of the run as a whole.
const LEAST_ERROR: f64 = 0.005;

/// One program in one scene.
#[derive(Serialize)]
struct Line<'a> {
    workload: Option<&'a str>,
    partner: Option<&'a str>,
    limit_watts: Option<f64>,
    steps_per_second: Option<Figure>,
    /// The rate by that alone at the card's own limit.
    of_alone: Option<f64>,
    /// Of the whole GPU.
    watts: Option<Figure>,
    counters: Counters,
}

/// Everything, for JSON.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    kind: Option<String>,
    measured: Vec<Line<'a>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(kind: Option<String>, measured: &'a [Measured]) -> Self {
        Self { kind, measured: lines(measured) }
    }
}

fn lines(measured: &[Measured]) -> Vec<Line<'_>> {
    let alone = |name: &str| {
        let scene = measured.iter().find(|m| m.limit.is_none() && m.rates.len() == 1 && m.rates[0].0 == name);
        scene.map(|scene| scene.rates[0].1.mean)
    };
    let mut lines = Vec::new();
    for scene in measured {
        let line = |own: Option<&'_ (String, Figure)>, partner| Line {
            workload: None,
            partner,
            limit_watts: scene.limit,
            steps_per_second: own.map(|own| own.1),
            of_alone: own.and_then(|(name, rate)| Some(rate.mean / alone(name)?)),
            watts: scene.watts,
            counters: scene.counters,
        };
        if scene.rates.is_empty() {
            lines.push(line(None, None));
        }
        for (i, own) in scene.rates.iter().enumerate() {
            let partner = scene.rates.iter().enumerate().find(|(j, _)| *j != i).map(|(_, other)| other.0.as_str());
            lines.push(Line { workload: Some(&own.0), ..line(Some(own), partner) });
        }
    }
    lines
}

pub(super) fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(vec![
        Column::left("workload", "workload"),
        Column::left("beside", "partner"),
        Column::right("limit", "limit_watts"),
        Column::right("rate\n1/s", "steps_per_second"),
        Column::right("std\nerr %", "rate_standard_error"),
        Column::right("of\nalone %", "of_alone"),
        Column::right("power", "watts"),
        Column::hidden("watts_standard_error"),
        Column::right("J/step", "joules_per_step"),
        Column::right("busy\n%", "utilisation"),
        Column::right("mem\n%", "memory_utilisation"),
        Column::right("memory\nGiB", "memory_gib"),
        Column::hidden("clock_mhz"),
        Column::hidden("power_capped"),
    ]);
    let number = |value: Option<f64>, scale: f64, digits: usize| match value {
        Some(value) => Cell::number(shown(value * scale, digits), value),
        None => Cell::number("-".into(), f64::NAN),
    };
    let watts = |value: Option<f64>| match value {
        Some(value) => Cell::number(quantity::watts(value), value),
        None => Cell::number("-".into(), f64::NAN),
    };
    for line in lines(measured) {
        let (rate, power) = (line.steps_per_second, line.watts.map(|figure| figure.mean));
        // Shared energy is nobody's alone; an honest split takes the solo powers, too.
        let per_step = power.zip(rate).filter(|_| line.partner.is_none()).map(|(watts, rate)| watts / rate.mean);
        table.row(vec![
            line.workload.unwrap_or("(idle)").into(),
            line.partner.unwrap_or("-").into(),
            watts(line.limit_watts),
            number(rate.map(|figure| figure.mean), 1.0, 4),
            number(rate.and_then(|figure| figure.standard_error), 100.0, 2),
            number(line.of_alone, 100.0, 3),
            watts(power),
            number(line.watts.and_then(|figure| figure.standard_error), 1.0, 2),
            number(per_step, 1.0, 3),
            number(line.counters.utilisation, 100.0, 3),
            number(line.counters.memory_utilisation, 100.0, 3),
            number(line.counters.memory_gib, 1.0, 3),
            number(line.counters.clock_mhz, 1.0, 4),
            number(line.counters.power_capped, 1.0, 2),
        ]);
    }
    table
}

/// A scene in one line, for whoever waits.
pub(super) fn line(measured: &Measured) -> String {
    let rate = |(name, rate): &(String, Figure)| format!("{name} {}/s", shown(rate.mean, 4));
    let rates: Vec<String> = measured.rates.iter().map(rate).collect();
    let who = if rates.is_empty() { "idle".to_owned() } else { rates.join(" beside ") };
    let limit = measured.limit.map_or_else(String::new, |watts| format!(", limited to {}", quantity::watts(watts)));
    let power = measured.watts.map_or_else(String::new, |figure| format!(", {}", quantity::watts(figure.mean)));
    format!("{who}{limit}{power}")
}

/// Name of the kind, or of its mode under a limit; none for a limit that is the kind's own: that was measured without one.
fn mode(kind: &str, limit: Option<f64>) -> Option<String> {
    match limit {
        None => Some(kind.to_owned()),
        Some(watts) => Library::builtin().kind(kind).ok()?.limited_to(watts).ok().map(|mode| mode.name),
    }
}

/// Puts what was measured into a catalog: cells, those under a limit as cells of that mode, and of each workload what its solo run showed.
pub(super) fn keep(path: &Path, kind: &str, measured: &[Measured]) -> Result<()> {
    let told = |error: &dyn std::fmt::Display| Failed(format!("{}: {error}", path.display()));
    let at = Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64));
    let mut disk = Disk::open(path).map_err(|error| told(&error))?;
    let mut batch = disk.begin().map_err(|error| told(&error))?;
    let mut cells = 0;
    for line in &lines(measured) {
        let Some(mode) = mode(kind, line.limit_watts) else { continue };
        let (Some(workload), Some(rate)) = (line.workload, line.steps_per_second) else { continue };
        let partner = line.partner.map(str::to_owned);
        let key = Key { workload: workload.to_owned(), partner, kind: mode, gang: 1 };
        let error = rate.standard_error.map_or(UNKNOWN_ERROR, |error| error.max(LEAST_ERROR));
        let watts = line.watts.map(|figure| figure.mean);
        batch.measure(key, &Measurement { rate: rate.mean, watts, at, error }).map_err(|error| told(&error))?;
        cells += 1;
        if line.partner.is_none() && line.limit_watts.is_none() {
            let Counters { utilisation, memory_utilisation, memory_gib, .. } = line.counters;
            let known = batch.catalog().profile(workload).cloned().unwrap_or_default();
            let profile = Profile {
                gpu_utilisation: utilisation,
                bandwidth_utilisation: memory_utilisation,
                memory_gib: memory_gib.or(known.memory_gib),
                ..known
            };
            batch.profile(workload, &profile).map_err(|error| told(&error))?;
        }
    }
    batch.commit().map_err(|error| told(&error))?;
    remark(format_args!("{}: {cells} cells on {kind}", path.display()));
    Ok(())
}
