//! `arles submit`: a job for the daemon.
//!
//! Every submission carries an idempotency key, given or made up, so a request whose answer was lost can be sent again and the job is
//! there once.

use crate::fault::{Failed, Hinted, remark};
use crate::output::{self, Format};
use crate::quantity::{self, shown, span};
use crate::server::{self, EXIT_CODES, ServerFlags};
use anyhow::Result;
use arles_api as api;
use arles_api::client::{Client, ClientError, News};
use arles_core::job::{MAX_WEIGHT, MIN_WEIGHT};
use clap::{ArgGroup, Args};
use std::io::Write;
use std::time::Duration;

/// Submit a job to the daemon
#[derive(Args)]
#[command(after_help = EXIT_CODES, group = ArgGroup::new("work").required(true))]
pub(crate) struct Submit {
    /// Workload; 'arles workloads' lists them
    workload: String,
    /// Tenant; not needed with a tenant's own token
    #[arg(short, long, value_name = "NAME")]
    tenant: Option<String>,
    /// GPUs of the gang: 2, v100:2 or Slurm's gpu:v100:2
    #[arg(short, long, value_name = "GPUS", default_value = "1", value_parser = Gang::read)]
    gpus: Gang,
    /// Allowed GPU kinds, separated by commas [default: any]
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Training steps
    #[arg(short, long, value_name = "N", group = "work", value_parser = |text: &str| quantity::number(text, 0.001, 1e15))]
    steps: Option<f64>,
    /// Duration of an inference job, such as 2h
    #[arg(long, value_name = "TIME", group = "work", value_parser = quantity::seconds)]
    period: Option<f64>,
    /// Minimum rate of the whole gang, in steps per second
    #[arg(long, value_name = "RATE", value_parser = |text: &str| quantity::number(text, 1e-9, 1e12))]
    floor: Option<f64>,
    /// Job name
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// Weight relative to the tenant's other jobs
    #[arg(long, value_name = "WEIGHT", default_value = "1", value_parser = |text: &str| quantity::number(text, MIN_WEIGHT, MAX_WEIGHT))]
    weight: f64,
    /// Time lost at every restart [default: the server's]
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds)]
    restart: Option<f64>,
    /// Submit N copies
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
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

/// How many GPUs, and of which kind if that is said with it.
#[derive(Clone, PartialEq, Debug)]
struct Gang {
    gpus: u32,
    kind: Option<String>,
}

impl Gang {
    fn read(text: &str) -> Result<Self, String> {
        let bare = text.trim();
        let bare = bare.strip_prefix("gpu:").unwrap_or(bare);
        let (kind, count) = bare.rsplit_once(':').map_or((None, bare), |(kind, count)| (Some(kind), count));
        match count.trim().parse::<u32>() {
            Ok(gpus) if gpus > 0 && kind.is_none_or(|kind| !kind.trim().is_empty()) => {
                Ok(Self { gpus, kind: kind.map(|kind| kind.trim().to_owned()) })
            }
            _ => {
                Err(format!("'{text}' is not a number of GPUs; expected a number such as 2, or v100:2, or gpu:v100:2"))
            }
        }
    }
}

impl Submit {
    fn request(&self) -> Result<api::JobRequest> {
        let kinds = match (&self.gpus.kind, self.kinds.as_slice()) {
            (None, kinds) => kinds.to_vec(),
            (Some(kind), []) => vec![kind.clone()],
            (Some(kind), _) => {
                return Err(Hinted::new(
                    format!("--gpus names the kind {kind}, and --kinds names kinds too"),
                    "give a plain number with --gpus, or leave --kinds out",
                )
                .into());
            }
        };
        Ok(api::JobRequest {
            name: self.name.clone(),
            tenant: self.tenant.clone(),
            workload: Some(self.workload.clone()),
            gang: self.gpus.gpus,
            steps: self.steps,
            period_seconds: self.period,
            floor: self.floor,
            weight: self.weight,
            restart_seconds: self.restart,
            kinds,
            ..api::JobRequest::default()
        })
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
        if self.wait { wait(&client, &jobs, before.last_event, self.quiet) } else { Ok(()) }
    }

    fn print(&self, jobs: &[api::Job], out: &mut dyn Write) -> Result<()> {
        match (self.output, jobs) {
            (Format::Json, [job]) if self.count == 1 => output::json(out, job)?,
            (Format::Json, jobs) => output::json(out, &jobs)?,
            (Format::Csv, jobs) => {
                let now = jobs.first().map_or(0.0, |job| job.submitted_at);
                write!(out, "{}", crate::jobs::table(jobs, now).csv())?;
            }
            (Format::Table, jobs) if self.quiet => {
                for job in jobs {
                    writeln!(out, "{}", job.id)?;
                }
            }
            (Format::Table, []) => {}
            (Format::Table, [job]) => writeln!(out, "job {} submitted", job.id)?,
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
        output::prose(out, &sentence(&forecast, self.gpus.gpus, now))
    }
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
fn wait(client: &Client, jobs: &[api::Job], from: u64, quiet: bool) -> Result<()> {
    let mut open: Vec<u64> = jobs.iter().map(|job| job.id).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gangs_are_read_in_three_forms() {
        let gang = |gpus, kind: Option<&str>| Ok(Gang { gpus, kind: kind.map(str::to_owned) });
        assert_eq!(Gang::read("2"), gang(2, None));
        assert_eq!(Gang::read("v100:2"), gang(2, Some("v100")));
        assert_eq!(Gang::read("gpu:v100:2"), gang(2, Some("v100")));
        assert_eq!(Gang::read("gpu:2"), gang(2, None));
        for wrong in ["", "0", "v100", "v100:", ":2", "gpu:v100:x", "-1"] {
            assert!(Gang::read(wrong).unwrap_err().contains("expected a number such as 2"), "{wrong}");
        }
    }
}
