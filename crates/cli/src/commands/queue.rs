//! `arles queue`: jobs, and where they are or why they wait.

use crate::fault::remark;
use crate::jobs;
use crate::jobs::format::{self, LineFormat, SortKey};
use crate::output::{self, Format};
use crate::quantity;
use crate::server::{EXIT_CODES, LimitFlag, ReadFlags};
use anyhow::Result;
use arles_api::{Job, JobState};
use arles_core::Library;
use arles_daemon::desk::JobsQuery;
use clap::Args;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// List jobs with their location, or the reason they wait
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Queue {
    /// Only jobs of this tenant
    #[arg(short, long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only jobs of this workload
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Include finished jobs
    #[arg(short, long, conflicts_with = "state")]
    all: bool,
    /// Only jobs in these states: waiting, starting, running, stopping, completed, failed, cancelled
    #[arg(short, long, value_name = "STATES", value_delimiter = ',', value_parser = state)]
    state: Vec<JobState>,
    /// Only jobs on GPUs of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only jobs on this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only jobs whose name contains this text
    #[arg(short, long, value_name = "TEXT")]
    name: Option<String>,
    /// Sort by these fields, a - before one for the largest first: job, name, tenant, workload, gpus, state, time, done, left, ...
    #[arg(short = 'S', long, value_name = "FIELDS", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<SortKey>,
    /// A line a job in this format, as squeue has it: "%.8i %-12u %t %L %R"
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "output")]
    format: Option<LineFormat>,
    /// Show every reason whole, over as many lines as it takes
    #[arg(short, long)]
    long: bool,
    /// Show again every so often until interrupted
    #[arg(short, long, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s", value_parser = quantity::positive_seconds)]
    watch: Option<f64>,
    #[command(flatten)]
    limit: LimitFlag,
    #[command(flatten)]
    read: ReadFlags,
}

/// A state by its name or by Slurm's letters.
fn state(text: &str) -> Result<JobState, String> {
    let fits = |state: &JobState| state.name() == text || jobs::letters(*state).eq_ignore_ascii_case(text);
    JobState::ALL.into_iter().find(fits).ok_or_else(|| {
        let names: Vec<&str> = JobState::ALL.iter().map(|state| state.name()).collect();
        format!("'{text}' is not a job state; expected one of {}", names.join(", "))
    })
}

impl Queue {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let Some(every) = self.watch else { return self.show(out) };
        loop {
            // One write a frame, so that a terminal never shows half of one.
            let mut frame = Vec::new();
            if std::io::stdout().is_terminal() {
                frame.extend_from_slice(b"\x1b[H\x1b[2J");
            }
            self.show(&mut frame)?;
            out.write_all(&frame)?;
            out.flush()?;
            std::thread::sleep(Duration::from_secs_f64(every));
        }
    }

    fn show(&self, out: &mut dyn Write) -> Result<()> {
        let source = self.read.open()?;
        let states = match (self.all, self.state.as_slice()) {
            (true, _) => Vec::new(),
            (false, []) => JobState::ALL[..4].to_vec(),
            (false, some) => some.to_vec(),
        };
        let query = JobsQuery {
            states: states.clone(),
            tenant: self.tenant.clone(),
            workload: self.workload.clone(),
            ..JobsQuery::default()
        };
        let now = source.server()?.now;
        let (mut found, more) = source.all_jobs(query, self.limit.limit as usize)?;
        // The newest were asked for; like everything that scrolls, they come last.
        found.jobs.reverse();
        let fetched = found.jobs.len() as u64;
        found.jobs.retain(|job| self.keeps(job));
        format::sort(&mut found.jobs, &self.sort, now);
        if found.jobs.is_empty() && self.read.format() == Format::Table {
            remark(format_args!(
                "no jobs{}",
                if self.all { "" } else { " in these states; --all includes finished ones" }
            ));
            return Ok(());
        }
        match &self.format {
            Some(format) => {
                writeln!(out, "{}", format.head())?;
                found.jobs.iter().try_for_each(|job| writeln!(out, "{}", format.job(job, now)))?;
            }
            None => {
                let table = jobs::table(&found.jobs, now, self.long);
                output::print(out, self.read.format(), &table, &found.jobs)?;
            }
        }
        if more {
            let live: u64 = found.live.iter().filter(|count| states.contains(&count.state)).map(|c| c.jobs).sum();
            let known = self.tenant.is_none() && self.workload.is_none() && states.iter().all(|state| !state.over());
            let more = match known && !self.all && live > fetched {
                true => format!("{} older jobs are not shown; --limit {live} shows them all", live - fetched),
                false => "older jobs are not shown; a larger --limit shows more".into(),
            };
            remark(format_args!("{more}"));
        }
        Ok(())
    }

    /// Whether a job passes what only the client filters by.
    fn keeps(&self, job: &Job) -> bool {
        let place = job.place.as_ref();
        let kind = |wanted: &String| {
            let known = Library::builtin().kind(wanted).map_or(wanted.as_str(), |kind| kind.name.as_str());
            place.is_some_and(|place| place.kind == known)
        };
        let node = |wanted: &String| place.is_some_and(|place| place.nodes.contains(wanted));
        let name = |wanted: &String| job.name.as_ref().is_some_and(|name| name.contains(wanted.as_str()));
        self.kind.as_ref().is_none_or(kind)
            && self.node.as_ref().is_none_or(node)
            && self.name.as_ref().is_none_or(name)
    }
}
