//! Where commands ask: a running daemon, or the journal that one writes.
//!
//! A flag wins over the environment, and that over the default. The token is read from a file or from `ARLES_TOKEN`, never from a
//! flag, since other users see the flags of a process; nothing here prints it. A refusal (4xx) is wrong input and ends in exit
//! code 2; a server that is away, busy or unwell is a failure and ends in 1.

use crate::fault::{Hinted, remark};
use crate::output::{Format, OutputFlag};
use anyhow::Result;
use arles_api as api;
use arles_api::client;
use arles_api::client::{Client, ClientError, encode};
use arles_daemon::Refusal;
use arles_daemon::access::Caller;
use arles_daemon::desk::{EnergyBy, JobsQuery, LogQuery, Page};
use arles_daemon::store::StoreError;
use arles_daemon::views::{Archive, View};
use clap::Args;
use std::env;
use std::path::{Path, PathBuf};

/// What `--help` says about exit codes where a server is asked.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure (server unreachable, job failed); 2 invalid usage or input, or refused by the server.";

const DEFAULT_URL: &str = "http://127.0.0.1:7117";
/// Where `arles serve` leaves the first token if nobody says otherwise.
const FIRST_TOKEN: &str = "arles-state/admin.token";
/// Most entries that the server gives at once.
const PAGE: u32 = 1000;

/// Which daemon, and who is asking.
#[derive(Args, Clone)]
pub(crate) struct ServerFlags {
    /// URL of the daemon, or of several that share a state folder, separated by commas [default: $ARLES_URL, or http://127.0.0.1:7117]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(crate) server: Option<String>,
    /// Token file [default: $ARLES_TOKEN, or the file $ARLES_TOKEN_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// CA certificate (PEM) for a server with TLS [default: $ARLES_CA]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,
}

/// The same, or a journal.
#[derive(Args, Clone)]
pub(crate) struct SourceFlags {
    #[command(flatten)]
    pub(crate) server: ServerFlags,
    /// Read a journal instead: a state directory, its journal.db, or a copy made by 'arles backup'
    #[arg(long, value_name = "PATH", help_heading = "Server", conflicts_with_all = ["server", "token_file", "ca"])]
    pub(crate) journal: Option<PathBuf>,
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.trim().is_empty())
}

impl ServerFlags {
    fn url(&self) -> String {
        self.server.clone().or_else(|| variable("ARLES_URL")).unwrap_or_else(|| DEFAULT_URL.into())
    }

    /// A way to the daemon; nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client> {
        let url = self.url();
        let ca = self.ca.clone().or_else(|| variable("ARLES_CA").map(PathBuf::from));
        if ca.is_none() && addresses(&url).any(|url| url.starts_with("https://")) {
            return Err(Hinted::new(
                format!("{url} uses TLS, so a CA file is needed"),
                "give the CA certificate (PEM) of the server with --ca FILE or ARLES_CA",
            )
            .into());
        }
        let token = self.token(&url)?;
        Client::new(&url, token, ca.as_deref()).map_err(fault)
    }

    fn token(&self, url: &str) -> Result<Option<String>> {
        if let Some(path) = &self.token_file {
            return token_in(path).map(Some);
        }
        if let Some(token) = variable("ARLES_TOKEN") {
            return Ok(Some(token));
        }
        if let Some(path) = variable("ARLES_TOKEN_FILE") {
            return token_in(Path::new(&path)).map(Some);
        }
        // A convenience for whoever started the daemon here; a stranger's server must not get its token.
        let first = Path::new(FIRST_TOKEN);
        Ok(if addresses(url).all(is_loopback) && first.is_file() { token_in(first).ok() } else { None })
    }
}

fn token_in(path: &Path) -> Result<String> {
    let text = crate::files::read(path, "a file with a token")?;
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(Hinted::new(
            format!("{} is not a token file; expected one line with the token", path.display()),
            "'arles token create NAME --scope SCOPE' creates one",
        )
        .into());
    }
    Ok(token.to_owned())
}

/// The addresses in a list of them.
fn addresses(url: &str) -> impl Iterator<Item = &str> {
    url.split(',').map(str::trim)
}

fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    matches!(host, "127.0.0.1" | "localhost" | "[::1]")
}

/// A server's or a client's error, as the command line tells it.
pub(crate) fn fault(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Setup(text) => match text.split_once("; ") {
            Some((sentence, hint)) => Hinted::new(sentence, hint).into(),
            None => anyhow::anyhow!(text),
        },
        ClientError::Refused { status, fault, retry_after_seconds } => {
            let again = retry_after_seconds.map_or(String::new(), |s| format!(" (retry in {s:.0} s)"));
            let hinted = Hinted::new(fault.message, format!("{}{again}", fault.hint));
            // Too fast and not now are the server's state, not a mistake in the request.
            if (400..500).contains(&status) && status != 429 { hinted.into() } else { hinted.failed().into() }
        }
        ClientError::Unreachable(text) | ClientError::Garbled(text) => {
            let (sentence, hint) = text.split_once("; ").unwrap_or((&text, "is 'arles serve' running there?"));
            let other = "another server: --server URL or ARLES_URL; without a daemon: --journal PATH, for commands that only read";
            Hinted::new(sentence, format!("{hint} ({other})")).failed().into()
        }
    }
}

fn refused(refusal: Refusal) -> anyhow::Error {
    Hinted::new(refusal.message, refusal.hint).into()
}

/// An error of the journal.
pub(crate) fn unreadable(error: &StoreError) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

/// What every command takes that only reads: where from, and how to print.
#[derive(Args, Clone)]
pub(crate) struct ReadFlags {
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    pub(crate) source: SourceFlags,
}

impl ReadFlags {
    pub(crate) fn format(&self) -> Format {
        self.output.output
    }

    pub(crate) fn open(&self) -> Result<Source> {
        self.source.open()
    }
}

/// One job of a daemon or of a journal.
#[derive(Args)]
pub(crate) struct JobFlags {
    /// Job ID
    #[arg(value_name = "JOB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) job: u64,
    #[command(flatten)]
    pub(crate) read: ReadFlags,
}

/// How much of a long list.
#[derive(Args)]
pub(crate) struct LimitFlag {
    /// Show at most N jobs, the newest
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: u32,
}

/// A daemon or a journal, open for questions.
pub(crate) enum Source {
    Server(Box<Client>),
    Journal(Box<Archive>, Caller),
}

impl SourceFlags {
    pub(crate) fn open(&self) -> Result<Source> {
        let Some(path) = &self.journal else { return Ok(Source::Server(Box::new(self.server.client()?))) };
        let archive = Archive::open(path, &mut |line| remark(format_args!("arles: {line}")));
        let archive = archive.map_err(|error| unreadable(&error))?;
        Ok(Source::Journal(Box::new(archive), Caller::loopback()))
    }
}

type Reading<'a, T> = &'a dyn Fn(&View<'_>) -> Result<T, Refusal>;

impl Source {
    fn ask<T: serde::de::DeserializeOwned>(&self, path: &str, view: Reading<'_, T>) -> Result<T> {
        match self {
            Self::Server(client) => client.get(path).map_err(fault),
            Self::Journal(archive, who) => view(&archive.view(who)).map_err(refused),
        }
    }

    /// The server, or as much of it as a journal tells.
    pub(crate) fn server(&self) -> Result<api::Server> {
        self.ask("/v1/server", &|view| Ok(view.server()))
    }

    /// One page of jobs.
    pub(crate) fn jobs(&self, query: &JobsQuery) -> Result<api::Jobs> {
        let states: Vec<&str> = query.states.iter().map(|state| state.name()).collect();
        let order = if query.oldest_first { "oldest" } else { "newest" };
        let mut path = format!("/v1/jobs?order={order}");
        if !states.is_empty() {
            path += &format!("&state={}", states.join(","));
        }
        let texts = [("tenant", &query.tenant), ("workload", &query.workload), ("cursor", &query.cursor)];
        for (name, value) in texts {
            path += &value.as_ref().map_or(String::new(), |value| format!("&{name}={}", encode(value)));
        }
        path += &query.limit.map_or(String::new(), |limit| format!("&limit={limit}"));
        self.ask(&path, &|view| view.jobs(query))
    }

    /// The first `most` jobs, page by page; the second says whether there are more.
    pub(crate) fn all_jobs(&self, mut query: JobsQuery, most: usize) -> Result<(api::Jobs, bool)> {
        query.limit = Some(PAGE.min(most as u32).max(1));
        let mut all = self.jobs(&query)?;
        while all.jobs.len() < most {
            let Some(next) = all.next.take() else { return Ok((all, false)) };
            query.cursor = Some(next);
            query.limit = Some(PAGE.min((most - all.jobs.len()) as u32));
            let page = self.jobs(&query)?;
            all.jobs.extend(page.jobs);
            all.next = page.next;
        }
        // A page that is just full has a cursor, and perhaps nothing behind it.
        query.cursor = all.next.clone();
        query.limit = Some(1);
        let more = all.next.is_some() && !self.jobs(&query)?.jobs.is_empty();
        Ok((all, more))
    }

    pub(crate) fn job(&self, id: u64) -> Result<api::Job> {
        self.ask(&format!("/v1/jobs/{id}"), &|view| view.job(id))
    }

    /// Why a job is where it is; a journal knows the reason, but not what the scheduler would say now.
    pub(crate) fn explain(&self, id: u64) -> Result<api::Explanation> {
        self.ask(&format!("/v1/jobs/{id}/explain"), &|view| {
            let job = view.job(id)?;
            let text = format!("{} as of the journal's last entry", job.state.name());
            let reason = job.reason.unwrap_or(api::Reason { code: job.state.name().into(), text, seconds: None });
            Ok(api::Explanation { id, state: job.state, reason, starts_at: None, standing: vec![], rates: vec![] })
        })
    }

    /// Jobs that wait, oldest first.
    pub(crate) fn queue(&self, page: &Page) -> Result<api::Queue> {
        self.ask(&paged("/v1/queue?", page), &|view| view.queue(page))
    }

    /// All hosts.
    pub(crate) fn nodes(&self) -> Result<api::Nodes> {
        let mut page = Page { cursor: None, limit: Some(PAGE) };
        let mut all = api::Nodes { nodes: Vec::new(), next: None };
        loop {
            let some: api::Nodes = self.ask(&paged("/v1/nodes?", &page), &|view| view.nodes(&page))?;
            all.nodes.extend(some.nodes);
            page.cursor = some.next;
            if page.cursor.is_none() {
                return Ok(all);
            }
        }
    }

    pub(crate) fn gpus(&self) -> Result<api::Gpus> {
        self.ask("/v1/gpus", &|view| Ok(view.gpus()))
    }

    pub(crate) fn tenants(&self) -> Result<api::Tenants> {
        self.ask("/v1/tenants", &|view| Ok(view.tenants()))
    }

    pub(crate) fn policies(&self) -> Result<api::Policies> {
        self.ask("/v1/policies", &|view| Ok(view.policies()))
    }

    pub(crate) fn allocation(&self) -> Result<api::Allocation> {
        self.ask("/v1/allocation", &|view| Ok(view.allocation()))
    }

    pub(crate) fn audit(&self, from: Option<f64>, to: Option<f64>) -> Result<api::Audit> {
        self.ask(&format!("/v1/audit?{}", window(from, to).trim_start_matches('&')), &|view| view.audit(from, to))
    }

    /// The cluster over a window.
    pub(crate) fn series(&self, from: f64, to: f64, points: u32) -> Result<api::Series> {
        self.ask(&format!("/v1/series?from={from}&to={to}&points={points}"), &|view| {
            view.series(Some(from), Some(to), Some(points))
        })
    }

    /// One page of the log of changes.
    pub(crate) fn log(&self, query: &LogQuery) -> Result<api::Log> {
        let mut path = format!("/v1/log?order={}", if query.oldest_first { "oldest" } else { "newest" });
        let texts = [("tenant", &query.tenant), ("by", &query.by), ("kind", &query.kind), ("cursor", &query.cursor)];
        for (name, value) in texts {
            path += &value.as_ref().map_or(String::new(), |value| format!("&{name}={}", encode(value)));
        }
        path += &query.job.map_or(String::new(), |job| format!("&job={job}"));
        path += &query.limit.map_or(String::new(), |limit| format!("&limit={limit}"));
        path += &window(query.from, query.to);
        self.ask(&path, &|view| view.log(query))
    }

    pub(crate) fn energy(
        &self,
        by: EnergyBy,
        from: Option<f64>,
        to: Option<f64>,
        page: &Page,
    ) -> Result<api::EnergyAccount> {
        let word = match by {
            EnergyBy::Job => "job",
            EnergyBy::Tenant => "tenant",
            EnergyBy::Kind => "kind",
        };
        let path = paged(&format!("/v1/energy?by={word}{}&", window(from, to)), page);
        self.ask(&path, &|view| view.energy(by, from, to, page))
    }
}

/// The parameters of a window, each with an ampersand before it.
fn window(from: Option<f64>, to: Option<f64>) -> String {
    let part = |name: &str, value: Option<f64>| value.map_or(String::new(), |value| format!("&{name}={value}"));
    part("from", from) + &part("to", to)
}

fn paged(path: &str, page: &Page) -> String {
    let limit = page.limit.unwrap_or(PAGE);
    let cursor = page.cursor.as_ref().map_or(String::new(), |cursor| format!("&cursor={}", client::encode(cursor)));
    format!("{path}limit={limit}{cursor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for url in ["http://127.0.0.1:7117", "https://localhost:1", "http://[::1]:7117/", "http://localhost"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["http://127.0.0.1.evil.example:1", "http://localhost.evil:1", "http://10.0.0.1:7117"] {
            assert!(!is_loopback(url), "{url}");
        }
    }

    #[test]
    fn a_refusal_is_wrong_input_and_silence_a_failure() {
        let body = api::FaultBody { code: "x".into(), message: "m".into(), hint: "h".into() };
        let refusal = |status| fault(ClientError::Refused { status, fault: body.clone(), retry_after_seconds: None });
        let failed = |error: &anyhow::Error| error.downcast_ref::<Hinted>().is_some_and(Hinted::is_failure);
        assert!(!failed(&refusal(422)) && !failed(&refusal(403)));
        assert!(failed(&refusal(503)) && failed(&refusal(429)));
        assert!(failed(&fault(ClientError::Unreachable("nobody answers; why?".into()))));
    }
}
