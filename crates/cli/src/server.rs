//! Where commands ask: a running daemon, or the journal that one writes.
//!
//! A flag wins over the environment, and that over the default. The token is read from a file or from `ARLES_TOKEN`, never from a
//! flag, since other users see the flags of a process; nothing here prints it. A refusal (4xx) is wrong input and ends in exit
//! code 2; a server that is away, busy or unwell is a failure and ends in 1.
//!
//! Nothing secret goes where nobody meant it to go. A daemon of this machine is reached through the socket in its state folder, where the kernel vouches
//! for either end and no token is needed. A token that nobody named is taken only from the file that is named for the very address that is asked:
//! whoever happens to have bound a port gets none.

use crate::fault::{Hinted, remark};
use crate::jobs;
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
/// Where `arles serve` keeps its state if nobody says otherwise.
const STATE: &str = "arles-state";
/// Most entries that the server gives at once.
const PAGE: u32 = 1000;

/// Jobs of one name that are listed where a name is not enough.
const MOST_NAMESAKES: u32 = 5;

/// Which daemon, and who is asking.
#[derive(Args, Clone)]
pub(crate) struct ServerFlags {
    /// URL of the daemon, or unix:SOCKET; of several that share a state folder, separated by commas [default: $ARLES_URL,
    /// else the socket in ./arles-state, else http://127.0.0.1:7117]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(crate) server: Option<String>,
    /// Token file [default: $ARLES_TOKEN, the file $ARLES_TOKEN_FILE, or the file for that URL in
    /// ~/.config/arles/tokens]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// CA certificate (PEM) for a server with TLS [default: $ARLES_CA, or what this system trusts]
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
        let given = self.server.clone().or_else(|| variable("ARLES_URL"));
        given.unwrap_or_else(|| match own_socket(Path::new(STATE)) {
            Some(socket) => format!("unix:{}", socket.display()),
            None => DEFAULT_URL.into(),
        })
    }

    /// A way to the daemon; nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client> {
        let url = self.url();
        let ca = self.ca.clone().or_else(|| variable("ARLES_CA").map(PathBuf::from));
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
        // Daemons that share a state folder share their tokens; one that has none written for it gets none.
        let files: Option<Vec<PathBuf>> =
            url.split(',').map(|url| token_file(url.trim()).filter(|path| path.is_file())).collect();
        let tokens = files.unwrap_or_default().iter().map(|path| token_in(path)).collect::<Result<Vec<_>>>()?;
        let same = tokens.windows(2).all(|pair| pair[0] == pair[1]);
        Ok(tokens.into_iter().next().filter(|_| same))
    }
}

/// The socket of a daemon whose state is in this folder, if it is this user's or root's: anybody may put a folder of that name somewhere.
fn own_socket(state: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let path = state.join(arles_api::socket::FILE);
    let file = std::fs::symlink_metadata(&path).ok()?;
    // The owner of what the kernel shows of this process is its user.
    let user = std::fs::metadata("/proc/self").ok()?.uid();
    (file.file_type().is_socket() && (file.uid() == user || file.uid() == 0)).then_some(path)
}

/// Where the token for an address is kept, unless somebody says otherwise. The scheme is part of the name: what was meant for TLS never
/// crosses the network in the clear.
fn token_file(url: &str) -> Option<PathBuf> {
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")))?;
    Some(folder.join("arles/tokens").join(token_file_name(url)?))
}

/// `https_arles.example_7117` for `https://arles.example:7117/`.
fn token_file_name(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let rest = rest.trim_end_matches('/');
    let port = match scheme {
        "http" => "80",
        "https" => "443",
        _ => return None,
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, digits)) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => (host, digits),
        _ => (rest, port),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    let sound = !host.is_empty() && host.chars().all(plain);
    sound.then(|| format!("{scheme}_{}_{port}", host.to_ascii_lowercase()))
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
    /// Job number, or its name
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    pub(crate) read: ReadFlags,
}

impl JobFlags {
    /// Where to ask, and for which job.
    pub(crate) fn open(&self) -> Result<(Source, u64)> {
        let source = self.read.open()?;
        let job = match self.job.trim() {
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                jobs::number(number).map_err(anyhow::Error::msg)?
            }
            name => source.job_named(name)?,
        };
        Ok((source, job))
    }
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

    /// What only a daemon can answer.
    pub(crate) fn of_daemon<T: serde::de::DeserializeOwned>(&self, path: &str, without: &str) -> Result<T> {
        match self {
            Self::Server(client) => client.get(path).map_err(fault),
            Self::Journal(..) => Err(Hinted::new(without, "ask the daemon: leave --journal out").into()),
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
        let texts = [
            ("tenant", &query.tenant),
            ("workload", &query.workload),
            ("name", &query.name),
            ("cursor", &query.cursor),
        ];
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

    /// The number of the job that goes by this name: the one that lives, or else the newest that is over.
    fn job_named(&self, name: &str) -> Result<u64> {
        let query = JobsQuery { name: Some(name.to_owned()), limit: Some(MOST_NAMESAKES), ..JobsQuery::default() };
        let live = self.jobs(&JobsQuery { states: api::JobState::ALL[..4].to_vec(), ..query.clone() })?.jobs;
        let found = if live.is_empty() { self.jobs(&query)?.jobs } else { live };
        let numbers: Vec<String> = found.iter().map(|job| job.id.to_string()).collect();
        match found.as_slice() {
            [one] => Ok(one.id),
            [newest, ..] if newest.state.over() => {
                remark(format_args!(
                    "arles: several jobs were named '{name}'; this is the newest, job {} (others: {})",
                    newest.id,
                    numbers[1..].join(", ")
                ));
                Ok(newest.id)
            }
            [_, ..] => Err(Hinted::new(
                format!("several live jobs are named '{name}': {}", numbers.join(", ")),
                "give the number of one of them",
            )
            .into()),
            [] => Err(Hinted::new(
                format!("'{name}' is neither a job number nor the name of a job that you may see"),
                "expected a whole number from 1 on, or a name; 'arles queue --all' lists both",
            )
            .into()),
        }
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
    fn a_token_file_is_of_one_address() {
        let check = |url: &str, name: &str| assert_eq!(token_file_name(url).as_deref(), Some(name), "{url}");
        check("http://127.0.0.1:7117", "http_127.0.0.1_7117");
        check("https://Arles.example:7117/", "https_arles.example_7117");
        check("https://arles.example", "https_arles.example_443");
        check("http://[::1]:7117", "http_[::1]_7117");
        for url in ["unix:/run/arles.sock", "http://", "http://a/b", "http://../x", "ftp://x", "arles", "http://user@x"]
        {
            assert_eq!(token_file_name(url), None, "{url}");
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
