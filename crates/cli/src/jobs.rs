//! Jobs as the command line shows them.

pub(crate) mod format;

use crate::output::{Cell, Column, Table, terminal_width};
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

/// The GPUs of its gang; of an elastic job also the fewest and the most that it can use.
pub(crate) fn gpus_of(job: &Job) -> String {
    match (job.smallest_gang, job.largest_gang) {
        (Some(least), Some(most)) => format!("{} ({least}-{most})", job.gang),
        _ => job.gang.to_string(),
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

/// Seconds until it is done, as the daemon estimates it, where that can be said.
pub(crate) fn remaining(job: &Job, now: f64) -> Option<f64> {
    job.eta.filter(|_| !job.state.over()).map(|eta| (eta - now).max(0.0))
}

/// Reads a job's number.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(number @ 1..) => Ok(number),
        _ => {
            Err(format!("'{text}' is not a job number; expected a whole number from 1 on, as 'arles queue' shows them"))
        }
    }
}

/// A text in at most so many characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A name of somebody's making, without what would move a terminal's cursor or turn its text around.
pub(crate) fn harmless(text: &str) -> String {
    arles_core::name::harmless(text).into_owned()
}

/// The table of `arles queue`: a line a job, cut at the edge of the terminal, or with every reason whole.
pub(crate) fn table(jobs: &[Job], now: f64, whole: bool) -> Table {
    let place = if whole { Column::prose } else { Column::cut };
    let named = jobs.iter().any(|job| job.name.is_some());
    // Where there is no room for both, a job is called by its name, or else by what it runs.
    let narrow = terminal_width() < 110;
    let name = if named && !narrow { Column::left("name", "name") } else { Column::hidden("name") };
    let mut table = Table::new(vec![
        Column::right("job", "job"),
        name,
        Column::left("tenant", "tenant"),
        Column::left(if named && narrow { "name" } else { "workload" }, "workload"),
        Column::right("gpus", "gpus"),
        Column::left("st", "state"),
        Column::right("time", "seconds"),
        Column::right("done", "done_ratio"),
        Column::right("left", "seconds_left"),
        Column::hidden("submitted_at"),
        Column::hidden("started_at"),
        Column::hidden("ended_at"),
        place("location / reason", "where"),
    ]);
    let moment = |at: Option<f64>| Cell::number(String::new(), at.unwrap_or(f64::NAN));
    for job in jobs {
        let name = harmless(job.name.as_deref().unwrap_or_default());
        let (tenant, age, left) = (harmless(&job.tenant), age(job, now), remaining(job, now));
        let called = if narrow && job.name.is_some() { name.as_str() } else { job.workload.as_str() };
        table.row(vec![
            job.id.into(),
            Cell::named(&shortened(&name, 12), &name),
            Cell::named(&shortened(&tenant, 12), &tenant),
            Cell::named(&shortened(called, if narrow { 12 } else { 16 }), &job.workload),
            Cell::number(gpus_of(job), f64::from(job.gang)),
            Cell::named(letters(job.state), job.state.name()),
            Cell::number(span(age), age),
            Cell::number(
                job.done_ratio.map_or("-".into(), |ratio| format!("{:.0}%", 100.0 * ratio)),
                job.done_ratio.unwrap_or(f64::NAN),
            ),
            Cell::number(left.map_or("-".into(), span), left.unwrap_or(f64::NAN)),
            moment(Some(job.submitted_at)),
            moment(job.started_at),
            moment(job.ended_at),
            harmless(&standing(job)).into(),
        ]);
    }
    table
}
