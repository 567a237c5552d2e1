//! `arles hold` and `arles release`: jobs that must not run for now.

use crate::fault::{Hinted, remark};
use crate::output::{self, Format, OutputFlag};
use crate::server::{self, EXIT_CODES, ServerFlags};
use anyhow::Result;
use arles_api as api;
use arles_api::client::ClientError;
use clap::Args;
use std::io::Write;

/// Hold jobs: they do not run until they are released
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Hold {
    #[command(flatten)]
    flags: HoldFlags,
}

/// Release jobs that are held
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Release {
    #[command(flatten)]
    flags: HoldFlags,
}

#[derive(Args)]
struct HoldFlags {
    /// Job IDs
    #[arg(value_name = "JOB", required = true, value_parser = crate::jobs::number)]
    jobs: Vec<u64>,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Hold {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        self.flags.change("hold", "held", out)
    }
}

impl Release {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        self.flags.change("release", "released", out)
    }
}

impl HoldFlags {
    /// One after another; what was refused is told, and does not keep the others.
    fn change(&self, verb: &str, word: &str, out: &mut dyn Write) -> Result<()> {
        let client = self.server.client()?;
        let (mut done, mut refused) = (Vec::new(), 0);
        for id in &self.jobs {
            match client.post::<_, api::Job>(&format!("/v1/jobs/{id}/{verb}"), &(), None) {
                Ok(job) => done.push(job),
                Err(error @ ClientError::Refused { .. }) if self.jobs.len() > 1 => {
                    remark(format_args!("job {id}: {error}"));
                    refused += 1;
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
            Format::Table => {
                for job in &done {
                    writeln!(out, "job {} {word}", job.id)?;
                }
            }
        }
        if refused == 0 {
            return Ok(());
        }
        let sentence = format!("{refused} of {} jobs could not be {word}", self.jobs.len());
        Err(Hinted::new(sentence, format!("see above for the reasons; the others are {word}")).into())
    }
}
