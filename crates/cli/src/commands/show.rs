//! `arles show`: all that is known of a job.

use crate::jobs::{self, gpus_of, harmless};
use crate::output::{self, Format, Table};
use crate::quantity::{kwh, percent, shown, span};
use crate::server::{EXIT_CODES, JobFlags};
use anyhow::Result;
use arles_api::{Dependency, Job, JobProgram};
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
        let (source, number) = self.flags.open()?;
        let job = source.job(number)?;
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
    line("workload", format!("{} on {} {gpus}{kinds}", job.workload, gpus_of(job)));
    if let Some(program) = &job.program {
        line("program", program.line.clone());
        program_lines(program, &mut line);
    }
    if let Some(array) = &job.array {
        let most = if array.at_most > 0 { format!(", {} at once", array.at_most) } else { String::new() };
        let (tasks, first) = (array.tasks, array.first_job);
        line("array", format!("index {} of {tasks} jobs from job {first} on{most}", array.index));
    }
    line("state", if job.held { format!("{}, held", job.state.name()) } else { job.state.name().into() });
    line(if job.place.is_some() { "location" } else { "reason" }, jobs::standing(job));
    let todo = match (job.steps, job.period_seconds) {
        (Some(steps), _) => format!("{} of {} steps", shown(job.steps_done, 4), shown(steps, 4)),
        (None, Some(seconds)) => format!("{} steps; runs for {}", shown(job.steps_done, 4), span(seconds)),
        (None, None) => {
            let expected = job.expected_seconds.map(|seconds| format!(", {} in earlier runs", span(seconds)));
            format!("{} steps; runs until it ends{}", shown(job.steps_done, 4), expected.unwrap_or_default())
        }
    };
    line("progress", job.done_ratio.map_or(todo.clone(), |ratio| format!("{todo} ({} %)", percent(ratio))));
    if let Some(rate) = job.rate {
        let expected = job.estimated_rate.map_or(String::new(), |rate| format!(", estimated {}", shown(rate, 3)));
        line("rate", format!("{} steps/s measured{expected}", shown(rate, 3)));
    } else if let Some(rate) = job.estimated_rate.filter(|_| !job.state.over()) {
        line("rate", format!("{} steps/s estimated, not measured yet", shown(rate, 3)));
    }
    if !job.state.over() {
        let rests = job.promise.clone().unwrap_or_default();
        line("end", job.eta.map_or(rests.clone(), |eta| format!("in ~{}, {rests}", span(eta - now))));
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
    condition_lines(job, &mut line);
    line("restarts", format!("{} ({} each)", job.restarts, span(job.restart_seconds)));
    if job.failures > 0 {
        line("failures", format!("{} in a row", job.failures));
    }
    if job.weight != 1.0 {
        line("weight", shown(job.weight, 3));
    }
    line("usage", format!("{} GPU hours", shown(job.gpu_seconds / 3600.0, 3)));
    let energy = &job.energy;
    let total = energy.joules();
    line("energy", format!("{} kWh, {} of it active", kwh(total), kwh(energy.active_joules)));
    table
}

/// All of a program but its script's text, which may be long.
fn program_lines(program: &JobProgram, line: &mut impl FnMut(&str, String)) {
    let Some(full) = &program.full else { return };
    for (field, value) in
        [("directory", &full.directory), ("image", &full.image), ("stdout", &full.stdout), ("stderr", &full.stderr)]
    {
        if let Some(value) = value {
            line(field, value.clone());
        }
    }
    if !full.environment.is_empty() {
        let each = |(name, value): (&String, &String)| format!("{name}={value}");
        line("environment", full.environment.iter().map(each).collect::<Vec<_>>().join(" "));
    }
}

/// What a job asked for besides GPUs, and how its program ended.
fn condition_lines(job: &Job, line: &mut impl FnMut(&str, String)) {
    if let Some(code) = job.exit_code {
        line("exit code", code.to_string());
    }
    if !job.after.is_empty() {
        let each = |after: &Dependency| format!("{}:{}", after.outcome.name(), after.job);
        line("after", job.after.iter().map(each).collect::<Vec<_>>().join(", "));
    }
    if let Some(seconds) = job.time_limit_seconds {
        line("time limit", span(seconds));
    }
    if let Some(retries) = job.retries {
        line("retries", retries.to_string());
    }
    let needs = &job.needs;
    let parts = [
        (needs.cpus_per_gpu, "CPUs"),
        (needs.memory_gib_per_gpu, "GiB of memory"),
        (needs.gpu_memory_gib, "GiB of device memory"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0.0).map(|(n, what)| format!("{} {what}", shown(*n, 4))).collect();
    if !parts.is_empty() {
        line("needs", format!("{} for each GPU", parts.join(", ")));
    }
}
