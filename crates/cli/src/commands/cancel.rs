//! `arles cancel`: jobs that nobody wants any more.

use crate::fault::{Failed, Hinted, remark};
use crate::output::{self, Format, OutputFlag};
use crate::server::{self, EXIT_CODES, ServerFlags, Source};
use anyhow::Result;
use arles_api::client::{Client, ClientError};
use arles_api::{self as api, JobState};
use arles_daemon::desk::JobsQuery;
use clap::Args;
use std::io::{self, BufRead, IsTerminal, Write};

/// Cancel jobs
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Cancel {
    /// Job IDs
    #[arg(value_name = "JOB", required_unless_present = "all_of", value_parser = crate::jobs::number)]
    jobs: Vec<u64>,
    /// All live jobs of this tenant
    #[arg(long, value_name = "TENANT", conflicts_with = "jobs")]
    all_of: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Cancel {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let client = self.server.client()?;
        let Some(tenant) = &self.all_of else { return self.cancel(&client, &self.jobs, out) };
        let source = Source::Server(Box::new(client));
        let query =
            JobsQuery { states: JobState::ALL[..4].to_vec(), tenant: Some(tenant.clone()), ..JobsQuery::default() };
        let (found, _) = source.all_jobs(query, 1 << 24)?;
        let jobs: Vec<u64> = found.jobs.iter().map(|job| job.id).collect();
        if jobs.is_empty() {
            remark(format_args!("no live jobs of '{}'; 'arles tenants' lists the tenants", tenant.escape_debug()));
            return Ok(());
        }
        if !self.yes && !confirmed(&format!("cancel {} jobs of {tenant}?", jobs.len()))? {
            remark(format_args!("nothing was cancelled"));
            return Ok(());
        }
        let Source::Server(client) = source else { return Ok(()) };
        self.cancel(&client, &jobs, out)
    }

    /// Cancels one after another; what was refused is told, and does not keep the others.
    fn cancel(&self, client: &Client, jobs: &[u64], out: &mut dyn Write) -> Result<()> {
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        for id in jobs {
            match client.delete::<api::Job>(&format!("/v1/jobs/{id}")) {
                Ok(job) => done.push(job),
                // With one job, the refusal is the whole answer.
                Err(error @ ClientError::Refused { .. }) if jobs.len() > 1 => {
                    remark(format_args!("job {id}: {error}"));
                    refused.push(*id);
                }
                Err(error) => return Err(server::fault(error)),
            }
        }
        match self.output.output {
            Format::Json => output::json(out, &done)?,
            Format::Csv => {
                let now = client.get::<api::Server>("/v1/server").map_err(server::fault)?.now;
                write!(out, "{}", crate::jobs::table(&done, now, true).csv())?;
            }
            Format::Table if done.len() > 20 => writeln!(out, "{} jobs cancelled", done.len())?,
            Format::Table => {
                for job in &done {
                    let how = if job.state.over() { "cancelled" } else { "is being stopped" };
                    writeln!(out, "job {} {how}", job.id)?;
                }
            }
        }
        match refused.len() {
            0 => Ok(()),
            n => Err(Hinted::new(
                format!("{n} of {} jobs could not be cancelled", jobs.len()),
                "see above for the reasons; the others are cancelled",
            )
            .into()),
        }
    }
}

/// Asks on the terminal; where there is none, nobody can say yes.
pub(crate) fn confirmed(question: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Hinted::new(format!("{question} stdin is not a terminal"), "confirm with --yes").into());
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|e| Failed(format!("cannot read the answer: {e}")))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
