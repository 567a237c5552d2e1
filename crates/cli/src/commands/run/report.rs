//! Reports of what was found, from a thread of their own.
//!
//! The first comes with the first count, then one every `every` seconds whether there is news or not: its answer is how the job hears that
//! it should make room. The rate is that between the lines of two reports; where they are too close to tell it is what the
//! command says itself, or null. After the
//! k-th failure in a row the next report waits max(every, min(5 · 2^(k−1), 300)) seconds. Each kind of failure is told once.

use super::child::Running;
use super::find::{Finder, Found};
use super::note;
use arles_api::client::{Client, ClientError};
use arles_api::{Action, Instruction, Job, JobState, Progress};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at what there is to do.
const LOOK: Duration = Duration::from_millis(50);
/// How long the end may wait for the last report.
const LAST: Duration = Duration::from_secs(2);
/// How long there is to stop if the server does not say.
const GRACE_SECONDS: f64 = 30.0;

/// What the command has said so far.
pub(super) struct Said {
    finder: Finder,
    found: Option<(Found, Instant)>,
}

impl Said {
    pub(super) fn new(finder: Finder) -> Self {
        Self { finder, found: None }
    }

    pub(super) fn hear(&mut self, line: &[u8]) {
        if let Some(found) = self.finder.find(line) {
            self.found = Some((found, Instant::now()));
        }
    }
}

/// The thread that reports.
pub(super) struct Reporter {
    thread: thread::JoinHandle<()>,
    ending: Arc<AtomicBool>,
    preempted: Arc<AtomicBool>,
}

/// What the thread knows.
struct ReportLoop {
    client: Client,
    job: u64,
    every: Duration,
    said: Arc<Mutex<Said>>,
    /// The last count that got through, and when its line came.
    delivered: Option<(f64, Instant)>,
    failures: u32,
    told: BTreeSet<&'static str>,
    /// The job is over, or nobody wants to hear of it: nothing more is reported.
    over: bool,
}

impl Reporter {
    pub(super) fn start(
        client: Client,
        job: u64,
        every_seconds: f64,
        said: &Arc<Mutex<Said>>,
        child: &Arc<Running>,
    ) -> Self {
        let (ending, preempted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut reports = ReportLoop {
            client,
            job,
            every: Duration::from_secs_f64(every_seconds),
            said: Arc::clone(said),
            delivered: None,
            failures: 0,
            told: BTreeSet::new(),
            over: false,
        };
        let (end, made_room, child) = (Arc::clone(&ending), Arc::clone(&preempted), Arc::clone(child));
        let thread = thread::spawn(move || {
            let mut next = Instant::now();
            let mut deadline: Option<Instant> = None;
            while !end.load(Ordering::Relaxed) {
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    note("grace period over; sending SIGKILL");
                    child.signal("KILL");
                    deadline = None;
                }
                if Instant::now() >= next && !reports.over {
                    let grace = reports.turn().filter(|_| !made_room.load(Ordering::Relaxed));
                    if let Some(grace) = grace.filter(|_| !child.is_over()) {
                        note(&format!("preempted; sending SIGTERM, {grace:.0} s to checkpoint and stop"));
                        made_room.store(true, Ordering::Relaxed);
                        deadline = Some(Instant::now() + Duration::from_secs_f64(grace));
                        child.signal("TERM");
                    }
                    next = Instant::now() + reports.pause();
                }
                thread::sleep(LOOK);
            }
            reports.last();
        });
        Self { thread, ending, preempted }
    }

    /// The last report, waited for a little; whether the command was asked to make room.
    pub(super) fn finish(self) -> bool {
        self.ending.store(true, Ordering::Relaxed);
        let since = Instant::now();
        while !self.thread.is_finished() && since.elapsed() < LAST {
            thread::sleep(Duration::from_millis(5));
        }
        self.preempted.load(Ordering::Relaxed)
    }
}

impl ReportLoop {
    fn found(&self) -> Option<(Found, Instant)> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).found
    }

    /// Until the next report.
    fn pause(&self) -> Duration {
        match self.failures {
            // Until there is a first count, look often enough not to miss it by much.
            0 if self.delivered.is_none() => self.every.min(Duration::from_secs(1)),
            0 => self.every,
            k => self.every.max(Duration::from_secs(5 << (k - 1).min(6)).min(Duration::from_secs(300))),
        }
    }

    /// Reports, or asks; if the job should make room, how many seconds there are for it.
    fn turn(&mut self) -> Option<f64> {
        let answer = match self.found() {
            Some((found, at)) => self.report(found, at).map(|told| {
                (told.action == Action::CheckpointAndStop).then(|| told.grace_seconds.unwrap_or(GRACE_SECONDS))
            }),
            // Nothing to tell yet, and yet there may be something to hear.
            None => {
                let job = self.client.get::<Job>(&format!("/v1/jobs/{}", self.job));
                let unwanted = [JobState::Stopping, JobState::Cancelled, JobState::Failed];
                job.map(|job| unwanted.contains(&job.state).then_some(GRACE_SECONDS))
            }
        };
        match answer {
            Ok(grace) => {
                self.failures = 0;
                grace.map(|seconds| seconds.clamp(0.0, 86_400.0))
            }
            Err(error) => {
                self.failures += 1;
                self.complain(&error);
                None
            }
        }
    }

    fn report(&mut self, found: Found, at: Instant) -> Result<Instruction, ClientError> {
        let between = self.delivered.and_then(|(steps, then)| {
            let seconds = at.saturating_duration_since(then).as_secs_f64();
            (seconds >= self.every.as_secs_f64() / 2.0 && found.steps > steps).then(|| (found.steps - steps) / seconds)
        });
        let body = Progress { steps: found.steps, rate: between.or(found.rate), checkpointed: false };
        let told = self.client.post(&format!("/v1/jobs/{}/progress", self.job), &body, None)?;
        self.delivered = Some((found.steps, at));
        Ok(told)
    }

    /// One more report, if there is news.
    fn last(&mut self) {
        if let Some((found, at)) = self.found()
            && !self.over
            && self.delivered.is_none_or(|(steps, _)| steps != found.steps)
            && let Err(error) = self.report(found, at)
        {
            self.complain(&error);
        }
    }

    fn complain(&mut self, error: &ClientError) {
        let (kind, rest) = match error {
            ClientError::Refused { status: 404 | 409, .. } => {
                self.over = true;
                ("over", "no further reports")
            }
            ClientError::Refused { .. } => ("refused", "the command continues"),
            ClientError::Unreachable(_) => ("away", "the command continues; reports resume when the server is back"),
            ClientError::Setup(_) | ClientError::Garbled(_) => ("garbled", "the command continues"),
        };
        if self.told.insert(kind) {
            note(&format!("{error} ({rest})"));
        }
    }
}
