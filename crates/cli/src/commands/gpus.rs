//! `arles gpus`: the GPUs of this machine, as their driver shows them.

use crate::fault::{EXIT_CODES, Failed};
use crate::output::{self, Cell, Column, OutputFlag, Table};
use crate::quantity::{shown, watts};
use anyhow::Result;
use arles_engine::{Card, CardUser, GpuReading, Nvidia};
use clap::Args;
use serde::Serialize;
use std::io::Write;

/// List the GPUs of this machine: kind, use, power, and the job that holds each
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Gpus {
    #[command(flatten)]
    output: OutputFlag,
}

/// A card, what it says, and who is on it.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    card: Card,
    reading: Option<GpuReading>,
    /// Why there is no reading.
    trouble: Option<String>,
    processes: Vec<CardUser>,
}

impl Gpus {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let nvidia = Nvidia::open().map_err(|sentence| {
            Failed(format!("{sentence}; 'arles serve --engine local --declare v100:2' runs programs on declared GPUs"))
        })?;
        let line = |card: &Card| {
            let (reading, trouble) = match nvidia.look(&card.uuid) {
                Ok(reading) => (Some(reading), None),
                Err(trouble) => (None, Some(trouble.to_string())),
            };
            Line { card: card.clone(), reading, trouble, processes: nvidia.users(&card.uuid) }
        };
        let lines: Vec<Line> = nvidia.cards().iter().map(line).collect();
        output::print(out, self.output.output, &table(&lines), &lines)
    }
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(vec![
        Column::right("gpu", "index"),
        Column::left("kind", "kind"),
        Column::left("driver's name", "name"),
        Column::right("busy\n%", "utilisation"),
        Column::right("memory\nGiB", "memory_used_gib"),
        Column::right("of", "memory_gib"),
        Column::right("power", "watts"),
        Column::right("limit", "limit_watts"),
        Column::right("°C", "celsius"),
        Column::left("held by", "jobs"),
        Column::prose("state", "state"),
        Column::hidden("uuid"),
        Column::hidden("joules"),
    ]);
    for Line { card, reading, trouble, processes } in lines {
        let number = |value: Option<f64>, scale: f64, digits: usize| match value {
            Some(value) => Cell::number(shown(value * scale, digits), value),
            None => Cell::number("-".into(), f64::NAN),
        };
        let power = |value: Option<f64>| match value {
            Some(value) => Cell::number(watts(value), value),
            None => Cell::number("-".into(), f64::NAN),
        };
        let of = |field: fn(&GpuReading) -> Option<f64>| reading.as_ref().and_then(field);
        table.row(vec![
            card.index.into(),
            card.kind.as_deref().unwrap_or("unknown").into(),
            card.name.as_str().into(),
            number(of(|reading| reading.utilisation), 100.0, 3),
            number(of(|reading| reading.memory_gib), 1.0, 3),
            Cell::number(shown(card.memory_gib, 3), card.memory_gib),
            power(of(|reading| Some(reading.watts))),
            power(of(|reading| reading.limit_watts)),
            number(of(|reading| reading.celsius), 1.0, 3),
            holders(processes).into(),
            state(reading.as_ref(), trouble.as_deref()).into(),
            card.uuid.as_str().into(),
            number(of(|reading| reading.joules), 1.0, 12),
        ]);
    }
    table
}

/// "job 17", "job 17, job 18", or processes that belong to no job.
fn holders(processes: &[CardUser]) -> String {
    let name = |user: &CardUser| user.job.map_or_else(|| format!("pid {}", user.pid), |job| format!("job {job}"));
    let mut names: Vec<String> = processes.iter().map(name).collect();
    names.sort();
    names.dedup();
    if names.is_empty() { "-".into() } else { names.join(", ") }
}

fn state(reading: Option<&GpuReading>, trouble: Option<&str>) -> String {
    let Some(reading) = reading else { return trouble.unwrap_or("cannot be read").to_owned() };
    let errors = reading.ecc_errors.filter(|errors| *errors > 0).map(|errors| format!("{errors} memory errors"));
    let slow = reading.slowed_down.then(|| "slowed down by heat or power supply".to_owned());
    let capped = reading.power_capped.then(|| "at its power limit".to_owned());
    let xid = reading.last_xid.map(|number| format!("critical error Xid {number}"));
    let said: Vec<String> = [xid, slow, capped, errors].into_iter().flatten().collect();
    if said.is_empty() { "ok".into() } else { said.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(kind: Option<&str>) -> Card {
        Card {
            index: 0,
            uuid: "GPU-1".into(),
            name: "NVIDIA H200".into(),
            kind: kind.map(str::to_owned),
            memory_gib: 139.8,
            counts_energy: true,
            limit_watts: Some(700.0),
            limits_watts: Some((200.0, 700.0)),
            part_of: None,
        }
    }

    #[test]
    fn a_card_says_who_holds_it_and_what_is_wrong_with_it() {
        let reading = GpuReading {
            watts: 692.4,
            utilisation: Some(0.99),
            power_capped: true,
            ecc_errors: Some(0),
            ..GpuReading::default()
        };
        let processes = vec![
            CardUser { pid: 11, job: Some(7) },
            CardUser { pid: 12, job: Some(7) },
            CardUser { pid: 13, job: None },
        ];
        let lines = [
            Line { card: card(Some("h200")), reading: Some(reading), trouble: None, processes },
            Line { card: card(None), reading: None, trouble: Some("GPU 1 is lost".into()), processes: Vec::new() },
        ];
        let text = table(&lines).text(120);
        assert!(text.contains("job 7, pid 13") && text.contains("at its power limit"), "{text}");
        assert!(text.contains("unknown") && text.contains("GPU 1 is lost"), "{text}");
    }
}
