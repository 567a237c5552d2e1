//! `arles queue`: jobs, and where they are or why they wait.

use crate::fault::remark;
use crate::jobs;
use crate::output::{self, Format};
use crate::server::{EXIT_CODES, LimitFlag, ReadFlags};
use anyhow::Result;
use arles_api::JobState;
use arles_daemon::desk::JobsQuery;
use clap::Args;
use std::io::Write;

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
        let table = jobs::table(&found.jobs, now);
        if found.jobs.is_empty() && self.read.format() == Format::Table {
            remark(format_args!(
                "no jobs{}",
                if self.all { "" } else { " in these states; --all includes finished ones" }
            ));
            return Ok(());
        }
        output::print(out, self.read.format(), &table, &found.jobs)?;
        if more {
            let live: u64 = found.live.iter().filter(|count| states.contains(&count.state)).map(|c| c.jobs).sum();
            let known = self.tenant.is_none() && self.workload.is_none() && states.iter().all(|state| !state.over());
            let shown = found.jobs.len() as u64;
            let more = match known && !self.all && live > shown {
                true => format!("{} older jobs are not shown; --limit {live} shows them all", live - shown),
                false => "older jobs are not shown; a larger --limit shows more".into(),
            };
            remark(format_args!("{more}"));
        }
        Ok(())
    }
}
