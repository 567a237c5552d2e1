//! What `arles top` shows, and the thread that asks for it.

use super::super::explain;
use crate::server::{Source, SourceFlags, fault};
use anyhow::{Result, anyhow};
use arles_api as api;
use arles_daemon::desk::{JobsQuery, Page};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Jobs of each list that are asked for; what is beyond is counted.
const SOME: u32 = 200;
/// With more tenants than this their envy of one another is too much to ask for every second.
const MANY_TENANTS: usize = 200;

/// Everything on the screen, as of one moment.
pub(super) struct Scene {
    pub(super) server: api::Server,
    pub(super) gpus: api::Gpus,
    pub(super) tenants: Vec<api::Tenant>,
    /// Jobs that hold GPUs, newest first; then those that wait, oldest first.
    pub(super) jobs: Vec<api::Job>,
    pub(super) live: Vec<api::StateCount>,
    pub(super) reasons: Vec<api::ReasonCount>,
    /// When the next decision is due, on the scheduler's clock.
    pub(super) next_round: Option<f64>,
    /// The last hours; `None` from a server that does not keep them.
    pub(super) past: Option<api::Series>,
}

/// How far the strip of the past looks back.
pub(super) const PAST_SECONDS: f64 = 6.0 * 3600.0;

impl Scene {
    pub(super) fn ask(source: &Source) -> Result<Self> {
        use api::JobState::{Running, Starting, Stopping};
        let states = vec![Starting, Running, Stopping];
        let held = source.jobs(&JobsQuery { states, limit: Some(SOME), ..JobsQuery::default() })?;
        let queue = source.queue(&Page { cursor: None, limit: Some(SOME) })?;
        let tenants = source.tenants()?.tenants;
        let server = source.server()?;
        let decided = if tenants.len() > MANY_TENANTS { None } else { source.allocation()?.decided_at };
        // Rounds follow one another even where nobody decides anew; the next one is the first that is still to come.
        let next_round = decided.map(|at| {
            let rounds = ((server.now - at) / server.round_seconds).floor().max(0.0);
            at + (rounds + 1.0) * server.round_seconds
        });
        Ok(Self {
            gpus: source.gpus()?,
            tenants,
            jobs: held.jobs.into_iter().chain(queue.jobs).collect(),
            live: held.live,
            reasons: queue.reasons,
            next_round,
            past: source.series((server.now - PAST_SECONDS).max(0.0), server.now + 1.0, 400).ok(),
            server,
        })
    }

    pub(super) fn count(&self, states: &[api::JobState]) -> u64 {
        self.live.iter().filter(|count| states.contains(&count.state)).map(|count| count.jobs).sum()
    }
}

/// What the screen wants to know or to be done.
pub(super) enum Request {
    Explain(u64),
    Cancel(u64),
    Policies,
    Policy(String),
}

/// What there is to show.
pub(super) enum Update {
    Scene(Box<Scene>),
    /// No answer, and why.
    Away(String),
    /// An answer to a request: title and text.
    Reply(String, String),
    Policies(Vec<api::Policy>),
}

/// Starts the thread that asks: every second, or more seldom where an answer takes long.
pub(super) fn ask_apart(flags: SourceFlags) -> (Sender<Request>, Receiver<Update>) {
    let (requests, requested) = mpsc::channel();
    let (tell, news) = mpsc::channel();
    thread::spawn(move || {
        let mut source = flags.open();
        loop {
            let began = Instant::now();
            let scene = source.as_ref().map_err(|e| anyhow!("{e:#}")).and_then(Scene::ask);
            let seen = match scene {
                Ok(scene) => Update::Scene(Box::new(scene)),
                Err(error) => Update::Away(format!("{error:#}")),
            };
            if tell.send(seen).is_err() {
                return;
            }
            let mut pause = Duration::from_secs(1).max(10 * began.elapsed());
            if flags.journal.is_some() {
                pause = pause.max(Duration::from_secs(2));
            }
            match requested.recv_timeout(pause) {
                Ok(request) => {
                    let answer =
                        source.as_ref().map_err(|e| anyhow!("{e:#}")).and_then(|source| handle(source, request));
                    let answer = answer.unwrap_or_else(|error| Update::Reply("error".into(), format!("{error:#}")));
                    drop(tell.send(answer));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // A journal is read as of one moment.
            if flags.journal.is_some() || source.is_err() {
                source = flags.open();
            }
        }
    });
    (requests, news)
}

fn handle(source: &Source, request: Request) -> Result<Update> {
    let server = || match source {
        Source::Server(client) => Ok(client),
        Source::Journal(..) => Err(anyhow!("a journal is read-only; use the daemon")),
    };
    Ok(match request {
        Request::Explain(id) => {
            let told = source.explain(id)?;
            let mut text = explain::sentence(&told, source.server()?.now);
            for rate in told.rates.iter().take(8) {
                text += &format!("\n{:<12} {:>9} steps/s", rate.kind, crate::quantity::shown(rate.rate, 3));
            }
            Update::Reply(format!("job {id}"), text)
        }
        Request::Cancel(id) => {
            let job: api::Job = server()?.delete(&format!("/v1/jobs/{id}")).map_err(fault)?;
            Update::Reply(format!("job {id}"), format!("Job {id} is {}.", job.state.name()))
        }
        Request::Policies => Update::Policies(source.policies()?.policies),
        Request::Policy(policy) => {
            let request = api::PolicyRequest { policy };
            let policy: api::Policy = server()?.put("/v1/policy", &request).map_err(fault)?;
            Update::Reply("policy".into(), format!("Switched to {} from the next round on.", policy.name))
        }
    })
}
