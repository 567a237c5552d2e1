//! Jobs as the command line shows them.

use crate::output::{Cell, Column, Table};
use crate::quantity::span;
use arles_api::{Job, JobState, Place};

/// Slurm's letters for a state: who has read `squeue` can read this.
pub(crate) fn letters(state: JobState) -> &'static str {
    match state {
        JobState::Waiting => "PD",
        JobState::Starting => "CF",
        JobState::Running => "R",
        JobState::Stopping => "CG",
        JobState::Completed => "CD",
        JobState::Failed => "F",
        JobState::Cancelled => "CA",
    }
}

/// "4 × v100 on v100-003", and whom it shares a GPU with.
pub(crate) fn place(place: &Place) -> String {
    let nodes = match place.nodes.as_slice() {
        [one] => one.clone(),
        [first, second] => format!("{first}, {second}"),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        [] => "?".into(),
    };
    let beside = match place.partner {
        Some(partner) => format!(", shared with job {partner}"),
        None if place.shared => ", shared with another tenant's job".into(),
        None => String::new(),
    };
    format!("{} × {} on {nodes}{beside}", place.gpus.len(), place.kind)
}

/// Where a job is, or why it is nowhere.
pub(crate) fn standing(job: &Job) -> String {
    match (&job.place, &job.reason) {
        (Some(held), _) => place(held),
        (None, Some(reason)) => reason.text.clone(),
        (None, None) => match job.state {
            JobState::Waiting => "waiting for the next scheduling round".into(),
            state => state.name().into(),
        },
    }
}

/// How long it has been where it is: since its first start if it holds GPUs, else since it came; of one that is over, all of it.
pub(crate) fn age(job: &Job, now: f64) -> f64 {
    match job.ended_at {
        Some(ended) => ended - job.submitted_at,
        None if job.state == JobState::Waiting => now - job.submitted_at,
        None => now - job.started_at.unwrap_or(job.submitted_at),
    }
}

/// A text in at most so many characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A name of somebody's making, without what would move a terminal's cursor.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The table of `arles queue`.
pub(crate) fn table(jobs: &[Job], now: f64) -> Table {
    let named = jobs.iter().any(|job| job.name.is_some());
    let name = if named { Column::left("name", "name") } else { Column::hidden("name") };
    let mut table = Table::new(vec![
        Column::right("job", "job"),
        name,
        Column::left("tenant", "tenant"),
        Column::left("workload", "workload"),
        Column::right("gpus", "gpus"),
        Column::left("st", "state"),
        Column::right("time", "seconds"),
        Column::hidden("submitted_at"),
        Column::hidden("started_at"),
        Column::hidden("ended_at"),
        Column::hidden("done_ratio"),
        Column::prose("location / reason", "where"),
    ]);
    let moment = |at: Option<f64>| Cell::number(String::new(), at.unwrap_or(f64::NAN));
    for job in jobs {
        let name = harmless(job.name.as_deref().unwrap_or_default());
        let (tenant, age) = (harmless(&job.tenant), age(job, now));
        table.row(vec![
            job.id.into(),
            Cell::named(&shortened(&name, 12), &name),
            Cell::named(&shortened(&tenant, 12), &tenant),
            Cell::named(&shortened(&job.workload, 16), &job.workload),
            job.gang.into(),
            Cell::named(letters(job.state), job.state.name()),
            Cell::number(span(age), age),
            moment(Some(job.submitted_at)),
            moment(job.started_at),
            moment(job.ended_at),
            moment(job.done_ratio),
            harmless(&standing(job)).into(),
        ]);
    }
    table
}
