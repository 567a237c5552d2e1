//! `arles show`: all that is known of a job.

use crate::jobs::{self, harmless};
use crate::output::{self, Format, Table};
use crate::quantity::{kwh, percent, shown, span};
use crate::server::{EXIT_CODES, JobFlags};
use anyhow::Result;
use arles_api::Job;
use clap::Args;
use std::io::Write;

/// Show everything about a job
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Show {
    #[command(flatten)]
    flags: JobFlags,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let source = self.flags.read.open()?;
        let job = source.job(self.flags.job)?;
        let now = source.server()?.now;
        match self.flags.read.format() {
            Format::Json => output::json(out, &job),
            Format::Csv => Ok(write!(out, "{}", jobs::table(std::slice::from_ref(&job), now, true).csv())?),
            Format::Table => {
                // The columns have no titles.
                Ok(write!(out, "{}", sheet(&job, now).text(output::terminal_width()).trim_start_matches('\n'))?)
            }
        }
    }
}

/// What a job is and where it stands, a line for each thing that there is to say.
fn sheet(job: &Job, now: f64) -> Table {
    let mut table = Table::of_fields("", "");
    let mut line = |field: &str, value: String| table.field(field, harmless(&value));
    line("job", job.id.to_string());
    if let Some(name) = &job.name {
        line("name", name.clone());
    }
    line("tenant", job.tenant.clone());
    let kinds = if job.kinds.is_empty() { String::new() } else { format!(", only on {}", job.kinds.join(", ")) };
    let gpus = if job.gang == 1 { "GPU" } else { "GPUs" };
    line("workload", format!("{} on {} {gpus}{kinds}", job.workload, job.gang));
    line("state", job.state.name().into());
    line(if job.place.is_some() { "location" } else { "reason" }, jobs::standing(job));
    let todo = match (job.steps, job.period_seconds) {
        (Some(steps), _) => format!("{} of {} steps", shown(job.steps_done, 4), shown(steps, 4)),
        (None, Some(seconds)) => format!("{} steps; runs for {}", shown(job.steps_done, 4), span(seconds)),
        (None, None) => format!("{} steps", shown(job.steps_done, 4)),
    };
    line("progress", job.done_ratio.map_or(todo.clone(), |ratio| format!("{todo} ({} %)", percent(ratio))));
    if let Some(rate) = job.rate {
        let expected = job.estimated_rate.map_or(String::new(), |rate| format!(", estimated {}", shown(rate, 3)));
        line("rate", format!("{} steps/s measured{expected}", shown(rate, 3)));
    } else if let Some(rate) = job.estimated_rate {
        line("rate", format!("{} steps/s estimated, not measured yet", shown(rate, 3)));
    }
    if let Some(left) = jobs::remaining(job, now) {
        line("ends", format!("in ~{} if it keeps its GPUs", span(left)));
    }
    if let Some(floor) = job.floor {
        line("floor", format!("{} steps/s", shown(floor, 3)));
    }
    if let Some(said) = &job.reported {
        let saved = if said.checkpointed { ", checkpointed" } else { "" };
        line("reported", format!("{} steps by the training code{saved}", shown(said.steps, 4)));
    }
    line("submitted", format!("{} ago", span(now - job.submitted_at)));
    if let Some(started) = job.started_at {
        line("started", format!("{} ago, waited {}", span(now - started), span(started - job.submitted_at)));
    }
    if let Some(ended) = job.ended_at {
        line("ended", format!("{} ago, after {}", span(now - ended), span(ended - job.submitted_at)));
    }
    line("restarts", format!("{} ({} each)", job.restarts, span(job.restart_seconds)));
    if job.failures > 0 {
        line("failures", format!("{} in a row", job.failures));
    }
    if job.weight != 1.0 {
        line("weight", shown(job.weight, 3));
    }
    line("usage", format!("{} GPU hours", shown(job.gpu_seconds / 3600.0, 3)));
    let energy = &job.energy;
    let total = energy.active_joules + energy.idle_joules + energy.restart_joules;
    line("energy", format!("{} kWh, {} of it active", kwh(total), kwh(energy.active_joules)));
    table
}
