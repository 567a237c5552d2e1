//! `arles explain`: why a job is where it is.

use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::{percent, shown, span};
use crate::server::{EXIT_CODES, JobFlags};
use anyhow::Result;
use arles_api::Explanation;
use clap::Args;
use std::io::Write;

/// Explain why a job waits or runs where it does, and until when
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Explain {
    #[command(flatten)]
    flags: JobFlags,
}

impl Explain {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let (source, number) = self.flags.open()?;
        let told = source.explain(number)?;
        match self.flags.read.format() {
            Format::Json => output::json(out, &told),
            Format::Csv => Ok(write!(out, "{}", rates(&told).csv())?),
            Format::Table => {
                let now = source.server()?.now;
                output::prose(out, &sentence(&told, now))?;
                if !told.rates.is_empty() {
                    writeln!(out)?;
                    write!(out, "{}", rates(&told).text(output::terminal_width()))?;
                }
                Ok(())
            }
        }
    }
}

/// The verdict, with a name and a time.
pub(crate) fn sentence(told: &Explanation, now: f64) -> String {
    let text = told.reason.text.trim_end_matches('.');
    let verb = match (told.reason.code.as_str(), told.state.over()) {
        ("runs" | "starts" | "stops", _) => format!("Job {} {text}.", told.id),
        (_, true) if text.starts_with("job ") => format!("J{}.", &text[1..]),
        (_, true) => format!("Job {} {}: {text}.", told.id, told.state.name()),
        _ => format!("Job {} is {}: {text}.", told.id, told.state.name()),
    };
    // Most reasons say when themselves.
    let silent = ![" in ~", "round, in ", "retry in "].iter().any(|when| text.contains(when));
    let starts = told.starts_at.map(|at| at - now).filter(|seconds| *seconds > 0.0 && silent);
    starts.map_or(verb.clone(), |seconds| format!("{verb} Expected start in ~{}.", span(seconds)))
}

/// Speed by kind, and what its class is owed there.
fn rates(told: &Explanation) -> Table {
    let owing = !told.standing.is_empty();
    let column = |title, name| if owing { Column::right(title, name) } else { Column::hidden(name) };
    let mut table = Table::new(vec![
        Column::left("kind", "kind"),
        Column::right("rate\nsteps/s", "rate"),
        Column::right("std\nerr %", "standard_error"),
        Column::right("watts\nper GPU", "watts"),
        column("gangs\ngranted", "gangs"),
        column("owed\nrounds", "owed"),
        Column::left("source", "source"),
    ]);
    for rate in &told.rates {
        let standing = told.standing.iter().find(|standing| standing.kind == rate.kind);
        let part = |value: Option<f64>| {
            let value = value.unwrap_or(f64::NAN);
            Cell::number(shown(value, 3), value)
        };
        let error = rate.standard_error.unwrap_or(f64::NAN);
        table.row(vec![
            rate.kind.as_str().into(),
            Cell::number(shown(rate.rate, 3), rate.rate),
            Cell::number(if error.is_nan() { "-".into() } else { percent(error) }, error),
            Cell::number(format!("{:.0}", rate.watts), rate.watts),
            part(standing.map(|standing| standing.gangs)),
            part(standing.map(|standing| standing.owed)),
            rate.source.as_str().into(),
        ]);
    }
    table
}
