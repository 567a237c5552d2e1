//! `arles submit`: a job for the daemon.
//!
//! Every submission carries an idempotency key, given or made up, so a request whose answer was lost can be sent again and the job is
//! there once.

mod flags;
mod parse;
mod script;

use crate::fault::{Failed, Hinted, remark};
use crate::output::{self, Format};
use crate::quantity::{shown, span};
use crate::server::{self, EXIT_CODES, ServerFlags};
use anyhow::Result;
use arles_api as api;
use arles_api::client::{Client, ClientError, News};
use arles_core::Library;
use clap::Args;
use flags::JobFlags;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Submit a job to the daemon: a command, a script or a known workload
#[derive(Args)]
#[command(after_help = EXIT_CODES, override_usage = USAGE)]
pub(crate) struct Submit {
    /// Script (a file), or workload; 'arles workloads' lists the known ones
    #[arg(value_name = "SCRIPT|WORKLOAD", required_unless_present = "command")]
    what: Option<String>,
    /// Command with its arguments; after a script, the script's arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    job: Box<JobFlags>,
    /// Submit N copies
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "array", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Show when and where it would run, without submitting
    #[arg(long)]
    dry_run: bool,
    /// Wait until it ends; exit code 1 if it did not complete
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Idempotency key: repeated submissions with the same key create one job
    #[arg(long, value_name = "KEY", conflicts_with = "dry_run")]
    key: Option<String>,
    /// Print only the job ID
    #[arg(short, long)]
    quiet: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    server: ServerFlags,
}

const USAGE: &str = "arles submit [OPTIONS] -- COMMAND...
       arles submit [OPTIONS] SCRIPT [-- ARGUMENTS...]
       arles submit [OPTIONS] WORKLOAD --steps N";

impl Submit {
    /// What is asked for: a command, a script with what it says of itself, or a workload by its name.
    fn request(&self) -> Result<api::JobRequest> {
        let Some(what) = &self.what else {
            let program = api::Program { command: self.command.clone(), ..api::Program::default() };
            return self.job.request(None, Some(program));
        };
        let path = Path::new(what);
        // A file that happens to be called like a workload is meant by its path.
        if path.is_file() && (what.contains('/') || Library::builtin().workload(what).is_err()) {
            let (program, said) = script::read(path, &self.command)?;
            return JobFlags::clone(&self.job).over(said).request(None, Some(program));
        }
        let like_a_file =
            what.contains('/') || path.extension().is_some_and(|e| e.eq_ignore_ascii_case("sh") || e == "py");
        if like_a_file {
            let hint = "check the name; to run a command: 'arles submit -- COMMAND'";
            return Err(Hinted::new(format!("there is no file '{what}'"), hint).into());
        }
        if !self.command.is_empty() {
            let hint = "for a command with a workload's name: 'arles submit --workload NAME -- COMMAND'";
            return Err(Hinted::new(format!("there is no script '{what}' for the arguments after --"), hint).into());
        }
        self.job.request(Some(what), None)
    }

    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let request = self.request()?;
        let client = self.server.client()?;
        if self.dry_run {
            return self.forecast(&client, &request, out);
        }
        let before: api::Server = client.get("/v1/server").map_err(server::fault)?;
        let made_up = format!("cli-{}-{}", std::process::id(), arles_daemon::clock::wall().0);
        let key = self.key.as_deref().unwrap_or(&made_up);
        let mut jobs = Vec::new();
        for n in 0..self.count {
            let key = if self.count == 1 { key.to_owned() } else { format!("{key}-{n}") };
            match submitted(&client, &request, &key) {
                Ok(job) => jobs.push(job),
                Err(error) => {
                    self.print(&jobs, out)?;
                    return Err(server::fault(error));
                }
            }
        }
        self.print(&jobs, out)?;
        out.flush()?;
        if self.wait { wait(&client, numbers(&jobs), before.last_event, self.quiet) } else { Ok(()) }
    }

    fn print(&self, jobs: &[api::Job], out: &mut dyn Write) -> Result<()> {
        match (self.output, jobs) {
            (Format::Json, [job]) if self.count == 1 => output::json(out, job)?,
            (Format::Json, jobs) => output::json(out, &jobs)?,
            (Format::Csv, jobs) => {
                let now = jobs.first().map_or(0.0, |job| job.submitted_at);
                write!(out, "{}", crate::jobs::table(jobs, now, true).csv())?;
            }
            (Format::Table, jobs) if self.quiet => {
                for id in numbers(jobs) {
                    writeln!(out, "{id}")?;
                }
            }
            (Format::Table, []) => {}
            (Format::Table, [job]) => match &job.array {
                Some(array) if array.tasks > 1 => {
                    let last = job.id + u64::from(array.tasks) - 1;
                    writeln!(out, "array of {} jobs submitted, {} to {last}", array.tasks, job.id)?;
                }
                _ => writeln!(out, "job {} submitted", job.id)?,
            },
            (Format::Table, [first, .., last]) => {
                writeln!(out, "{} jobs submitted, {} to {}", jobs.len(), first.id, last.id)?;
            }
        }
        Ok(())
    }

    fn forecast(&self, client: &Client, request: &api::JobRequest, out: &mut dyn Write) -> Result<()> {
        let now = client.get::<api::Server>("/v1/server").map_err(server::fault)?.now;
        let forecast: api::Forecast = client.post("/v1/dry-run/job", request, None).map_err(server::fault)?;
        if self.output == Format::Json {
            return output::json(out, &forecast);
        }
        output::prose(out, &sentence(&forecast, request.gang, now))
    }
}

/// Numbers of all jobs; those of an array follow its first.
fn numbers(jobs: &[api::Job]) -> Vec<u64> {
    let tasks = |job: &api::Job| job.array.map_or(1, |array| u64::from(array.tasks.max(1)));
    jobs.iter().flat_map(|job| job.id..job.id + tasks(job)).collect()
}

/// Submits; too fast is no reason to give up, and what may have arrived is sent again with its key.
fn submitted(client: &Client, request: &api::JobRequest, key: &str) -> Result<api::Job, ClientError> {
    let mut tries = 0;
    loop {
        match client.post("/v1/jobs", request, Some(key)) {
            Err(ClientError::Refused { status: 429 | 503, retry_after_seconds: Some(seconds), .. }) if tries < 20 => {
                tries += 1;
                std::thread::sleep(Duration::from_secs_f64(seconds.clamp(0.05, 5.0)));
            }
            answer => return answer,
        }
    }
}

/// What would happen, in a sentence or two.
fn sentence(forecast: &api::Forecast, gang: u32, now: f64) -> String {
    if let Some(refusal) = &forecast.refusal {
        return format!("Would be refused: {refusal}.");
    }
    let why = forecast.reason.as_ref().map_or(String::new(), |reason| format!(": {}", reason.text));
    let (Some(starts), Some(kind)) = (forecast.starts_at, &forecast.kind) else {
        return format!("Would wait: not started after {} rounds{why}.", forecast.rounds);
    };
    let when = if starts - now < 1.0 { "immediately".into() } else { format!("in {}", span(starts - now)) };
    let nodes = match forecast.nodes {
        Some(1) => " on one node".into(),
        Some(n) => format!(" on {n} nodes"),
        None => String::new(),
    };
    let shared = if forecast.shared == Some(true) { ", sharing its GPU" } else { "" };
    let rate = forecast.rate.filter(|rate| *rate > 0.0);
    let rate = rate.map_or(String::new(), |rate| format!(", at ~{} steps/s", shown(rate, 3)));
    let end =
        forecast.ends_at.map_or(String::new(), |end| format!("; done in {} if it keeps these GPUs", span(end - now)));
    format!("Would start {when} on {gang} × {kind}{nodes}{shared}{rate}{end}.")
}

/// Follows events until all of these are over.
fn wait(client: &Client, mut open: Vec<u64>, from: u64, quiet: bool) -> Result<()> {
    let mut bad = Vec::new();
    let (mut after, mut silent) = (Some(from), false);
    while !open.is_empty() {
        match follow(client, &mut open, &mut bad, &mut after, quiet) {
            Ok(()) => silent = false,
            Err(error @ ClientError::Refused { .. }) => return Err(server::fault(error)),
            Err(error) => {
                if !silent {
                    remark(format_args!("arles: {error}; reconnecting"));
                }
                silent = true;
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
    match bad.as_slice() {
        [] => Ok(()),
        some => Err(Failed(format!("not completed: {}", some.join(", "))).into()),
    }
}

fn follow(
    client: &Client,
    open: &mut Vec<u64>,
    bad: &mut Vec<String>,
    after: &mut Option<u64>,
    quiet: bool,
) -> Result<(), ClientError> {
    let mut note = |open: &mut Vec<u64>, id: u64, state: &str| {
        open.retain(|job| *job != id);
        if state != "completed" {
            bad.push(format!("job {id} ({state})"));
        }
    };
    // A server that lost its events, or began anew, is asked for the state itself.
    if after.is_none() {
        for id in open.clone() {
            let job: api::Job = client.get(&format!("/v1/jobs/{id}"))?;
            if job.state.over() {
                note(open, id, job.state.name());
            }
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    for news in client.events(after.take())? {
        match news? {
            News::Reset(_) => return Ok(()),
            News::Event(event) => {
                *after = Some(event.id);
                let Some(id) = event.job.filter(|id| open.contains(id)) else { continue };
                if !quiet {
                    remark(format_args!("job {id} {}", event.text.trim_start_matches(&format!("job {id} "))));
                }
                if matches!(event.what.as_str(), "completed" | "failed" | "cancelled") {
                    note(open, id, &event.what);
                }
                if open.is_empty() {
                    return Ok(());
                }
            }
        }
    }
    *after = None;
    Ok(())
}
