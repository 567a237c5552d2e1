//! `arles replay`: feeds a journal to a fresh scheduler and compares every decision.

use crate::fault::{EXIT_CODES, Failed};
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity;
use anyhow::{Result, anyhow};
use arles_core::scheduler::{Event, Order, Verdict};
use arles_core::{Output, Scheduler, Spread, Time};
use arles_daemon::views::Archive;
use arles_sim::journal;
use clap::Args;
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;

/// Replay a journal and compare every decision
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Replay {
    /// Journal: a file of 'arles simulate --journal', or the state directory of 'arles serve --keep-journal'
    file: PathBuf,
    /// Print every order and event
    #[arg(long)]
    events: bool,
    /// Print the queue at this time of the journal, with reasons
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds, conflicts_with = "events")]
    queue_at: Option<f64>,
    #[command(flatten)]
    output: OutputFlag,
}

/// An order or event, for people.
#[derive(Serialize)]
struct EventRow {
    at_seconds: f64,
    what: &'static str,
    who: String,
    detail: String,
}

/// A live job at one moment.
#[derive(Serialize)]
struct QueuedJob {
    job: u64,
    state: &'static str,
    reason: String,
    verdict: Verdict,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    replay: journal::Replay,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<EventRow>>,
}

impl Replay {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let path = self.file.display();
        if self.file.is_dir() {
            return self.retrace(out);
        }
        let file = File::open(&self.file)
            .map_err(|error| anyhow!("{path}: cannot read this file ({error}); give the path of a journal"))?;
        let mut events = self.events.then(Vec::new);
        let watch = |at: Time, _: &_, outputs: &[Output]| {
            if let Some(events) = &mut events {
                events.extend(outputs.iter().filter_map(|output| line(at, output)));
            }
        };
        let until = self.queue_at.map(Time::from_seconds);
        let (replay, scheduler) =
            journal::replay(BufReader::new(file), until, watch).map_err(|error| anyhow!("{path}: {error}"))?;
        if self.queue_at.is_some() {
            let queue = queue(&scheduler);
            return output::print(out, self.output.output, &queue_table(&queue), &queue);
        }
        let difference = replay.first_difference;
        let document = Document { replay, events };
        if let Some(events) = &document.events
            && self.output.output != Format::Json
        {
            output::print(out, self.output.output, &listed(events), &())?;
            writeln!(out)?;
        }
        output::print(out, self.output.output, &counts(&document.replay), &document)?;
        match difference {
            None => Ok(()),
            Some(line) => {
                let sentence = format!("{path}: the decision at line {line} differs from the journal");
                Err(Failed(sentence).into())
            }
        }
    }
}

/// What a daemon's journal shows when a scheduler that was never interrupted goes through it.
#[derive(Serialize)]
struct Retraced {
    entries: u64,
    differing: u64,
}

impl Replay {
    fn retrace(&self, out: &mut dyn Write) -> Result<()> {
        if self.events || self.queue_at.is_some() {
            return Err(anyhow!(
                "--events and --queue-at need a simulation's journal; 'arles queue --journal {}' shows a daemon's queue",
                self.file.display()
            ));
        }
        let (_, entries, differing) = Archive::retrace(&self.file)?;
        let mut table = Table::new(vec![Column::right("entries", "entries"), Column::right("differing", "differing")]);
        table.row(vec![entries.into(), differing.into()]);
        output::print(out, self.output.output, &table, &Retraced { entries, differing })?;
        match differing {
            0 => Ok(()),
            n => Err(Failed(format!("{n} of {entries} decisions differ from the journal")).into()),
        }
    }
}

/// Every live job, those that wait first.
fn queue(scheduler: &Scheduler) -> Vec<QueuedJob> {
    let mut queue: Vec<QueuedJob> = Vec::new();
    for job in scheduler.live() {
        let verdict = scheduler.explain(job);
        let (state, reason) = match &verdict {
            Verdict::Unknown => continue,
            Verdict::Runs { .. } => ("runs", verdict.to_string().trim_start_matches("runs on ").to_owned()),
            Verdict::Starts => ("starts", String::new()),
            Verdict::Stops => ("stops", String::new()),
            Verdict::Waits(reason) => ("waits", reason.to_string()),
        };
        queue.push(QueuedJob { job: job.0, state, reason, verdict });
    }
    queue.sort_by_key(|q| (q.state != "waits", q.job));
    queue
}

fn queue_table(queue: &[QueuedJob]) -> Table {
    let mut table = Table::new(vec![
        Column::right("job", "job"),
        Column::left("state", "state"),
        Column::prose("reason", "reason"),
    ]);
    for q in queue {
        table.row(vec![q.job.into(), q.state.into(), q.reason.as_str().into()]);
    }
    table
}

fn counts(replay: &journal::Replay) -> Table {
    let columns = ["policy", "inputs", "rounds", "starts", "stops", "completed", "same"];
    let mut table = Table::new(
        columns.map(|name| if name == "policy" { Column::left(name, name) } else { Column::right(name, name) }).into(),
    );
    let same = if replay.first_difference.is_none() { "yes" } else { "no" };
    let numbers = [replay.inputs, replay.rounds, replay.starts, replay.stops, replay.completed];
    let cells = numbers.into_iter().map(Cell::from);
    table.row(std::iter::once(replay.policy.as_str().into()).chain(cells).chain([same.into()]).collect());
    table
}

fn listed(events: &[EventRow]) -> Table {
    let mut table = Table::new(vec![
        Column::right("at s", "at_seconds"),
        Column::left("what", "what"),
        Column::left("who", "who"),
        Column::prose("detail", "detail"),
    ]);
    for event in events {
        let at = Cell::number(format!("{:.0}", event.at_seconds), event.at_seconds);
        table.row(vec![at, event.what.into(), event.who.as_str().into(), event.detail.as_str().into()]);
    }
    table
}

/// What an output says; questions to policy and estimator are no decisions.
fn line(at: Time, output: &Output) -> Option<EventRow> {
    let (what, who, detail) = match output {
        Output::Solve(_) | Output::Estimate(_) | Output::Cluster(_) => return None,
        Output::Order(Order::Start(start)) => {
            let gpus: Vec<String> = start.gpus.iter().map(|gpu| gpu.0.to_string()).collect();
            let spread = match start.spread {
                Spread::Packed => "",
                Spread::Nodes => ", spread",
                Spread::Racks => ", over racks",
            };
            ("start", start.job.to_string(), format!("GPU {}{spread}", gpus.join(" ")))
        }
        Output::Order(Order::Stop { job, .. }) => ("stop", job.to_string(), String::new()),
        Output::Note(event) => match event {
            Event::Rejected { job, why } => ("rejected", job.to_string(), why.clone()),
            Event::Completed { job } => ("completed", job.to_string(), String::new()),
            Event::GaveUp { job, why } => ("gave up", job.to_string(), why.clone()),
            Event::Cancelled { job } => ("cancelled", job.to_string(), String::new()),
            Event::Requeued { job, why } => ("requeued", job.to_string(), why.clone()),
            Event::NodeLost { node } => ("node lost", node.to_string(), String::new()),
            Event::NoAllocation { round, why } => ("no answer", round.to_string(), why.clone()),
            Event::BadPlan { round, why } => ("bad plan", round.to_string(), why.clone()),
            Event::PolicySwitched { from, to } => ("policy", to.clone(), format!("instead of {from}")),
            Event::QuotaSet { name, quota } => ("quota", name.clone(), quota.words()),
            Event::TenantRemoved { name } => ("tenant", name.clone(), "removed".to_owned()),
            Event::TenantSet { name, weight } => ("tenant", name.clone(), format!("weight {weight}")),
            Event::PricesSet { bands } => ("prices", bands.to_string(), "of electricity".to_owned()),
            Event::PowerBudgetSet { watts, rack } => {
                let place = rack.as_ref().map_or(String::new(), |rack| format!("of {rack}"));
                ("power budget", watts.map_or("none".to_owned(), |watts| format!("{watts} W")), place)
            }
            Event::OverBudget { watts, budget, why } => {
                ("over budget", format!("{watts:.0} W"), format!("of {budget:.0} W: {why}"))
            }
            Event::ClusterChanged { node, what } => ("node", node.clone(), what.clone()),
            Event::Resized { job, from, to } => ("resized", job.to_string(), format!("{to} GPUs instead of {from}")),
            Event::Held { job } => ("held", job.to_string(), String::new()),
            Event::Released { job } => ("released", job.to_string(), String::new()),
            Event::Refused { why } => ("refused", String::new(), why.clone()),
        },
    };
    Some(EventRow { at_seconds: at.seconds(), what, who, detail })
}
