//! Checkers: what must hold whatever goes wrong.
//!
//! They keep books of their own from what goes over the link and from looking at the world, and ask the scheduler
//! only what a user may ask it ([`Scheduler::explain`] and [`Scheduler::waiting`]). They share no code with `core`
//! or the world's own accounts, so that one mistake cannot hide another. The first violation is kept.

use super::plan::Plan;
use crate::world::{Incident, Length, SimJob, World};
use arles_core::scheduler::{Event, GangEvent, GangReport, Order, Survey, Verdict};
use arles_core::{GpuId, Input, JobId, JobSpec, Output, Scheduler, Time};
use changes::Changes;
use ledger::Ledger;
use std::collections::{BTreeMap, BTreeSet};

mod changes;
mod ledger;

/// Rounding of sums of steps and seconds.
const TOLERANCE: f64 = 1e-6;

/// A rule that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When, in the world's time.
    pub at: Time,
    /// The rule that was broken, and by whom.
    pub what: String,
}

/// An input and what the scheduler made of it.
pub(super) struct Step<'a> {
    pub(super) input: &'a Input,
    pub(super) outputs: &'a [Output],
    /// What the daemon's clock shows.
    pub(super) clock: Time,
    /// The scheduler's own time, after it.
    pub(super) own_time: Time,
}

/// How a job was told to have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Completed,
    GivenUp,
    Cancelled,
}

/// The books of all checkers.
pub(super) struct Checks<'p> {
    /// Whether some policy so far may have put two jobs on one GPU.
    pairs: bool,
    pub(super) found: Option<Violation>,
    ledger: Ledger<'p>,
    changes: Changes,
    /// Jobs taken in by the scheduler.
    submitted: BTreeMap<JobId, JobSpec>,
    over: BTreeMap<JobId, End>,
    cancels: BTreeSet<JobId>,
    /// Steps that the world has said to be safe.
    safe_steps: BTreeMap<JobId, f64>,
}

impl<'p> Checks<'p> {
    pub(super) fn new(plan: &'p Plan) -> Self {
        Self {
            pairs: plan.policy.pairs,
            found: None,
            ledger: Ledger::new(plan),
            changes: Changes::new(&plan.cluster),
            submitted: BTreeMap::new(),
            over: BTreeMap::new(),
            cancels: BTreeSet::new(),
            safe_steps: BTreeMap::new(),
        }
    }

    /// Records a violation, if it is the first.
    pub(super) fn violated(&mut self, at: Time, what: String) {
        self.found.get_or_insert(Violation { at, what });
    }

    /// Another policy decides. What an earlier one put on one GPU may stay there for a while.
    pub(super) fn may_pair(&mut self, pairs: bool) {
        self.pairs |= pairs;
    }

    /// Whether a job has ended.
    pub(super) fn is_over(&self, job: JobId) -> bool {
        self.over.contains_key(&job)
    }

    /// Jobs that were taken in and have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = &JobSpec> {
        self.submitted.values().filter(|spec| !self.is_over(spec.id))
    }

    /// How many jobs completed, were given up and were cancelled.
    pub(super) fn ends(&self) -> [u64; 3] {
        [End::Completed, End::GivenUp, End::Cancelled]
            .map(|end| self.over.values().filter(|&&e| e == end).count() as u64)
    }

    /// Time passes until `to`, while nothing in the world changes.
    pub(super) fn pass(&mut self, to: Time, world: &World) {
        self.ledger.pass(to, world);
    }

    /// An order is carried out (or refused) by the world.
    pub(super) fn carried(&mut self, order: &Order) {
        if let Order::Start(start) = order {
            self.ledger.ordered(start);
        }
    }

    /// A gang has begun to save its state.
    pub(super) fn saves(&mut self, job: JobId) {
        self.ledger.saves(job);
    }

    /// The world says what became of a gang.
    pub(super) fn reported(&mut self, report: &GangReport) {
        if let GangEvent::Stopped(steps) | GangEvent::Failed(steps, _) = report.event {
            self.saved(report.job, steps);
        }
    }

    /// The world says what is there.
    pub(super) fn surveyed(&mut self, survey: &Survey) {
        for gang in &survey.gangs {
            self.saved(gang.job, gang.steps_done);
        }
    }

    fn saved(&mut self, job: JobId, steps: f64) {
        let safe = self.safe_steps.entry(job).or_default();
        *safe = safe.max(steps);
    }

    /// The world has changed: looks at everything in it.
    pub(super) fn look(&mut self, now: Time, world: &mut World) {
        for incident in world.take_incidents() {
            if !self.changes.excuses(incident) {
                self.violated(now, describe(incident));
            }
        }
        self.ledger.look(now, world);
        self.look_at_seats(now, world);
        self.look_at_steps(now, world);
        if let Some(what) = self.changes.look(world) {
            self.violated(now, what);
        }
    }

    /// No GPU oversold: two jobs only where both are single and policy and kind allow it, none on a node that is down.
    fn look_at_seats(&mut self, now: Time, world: &World) {
        let cluster = world.cluster();
        let mut seated: Vec<Vec<JobId>> = vec![Vec::new(); cluster.gpus()];
        for job in world.holders() {
            let (_, gpus) = world.held(job).expect("a holder holds something");
            gpus.iter().for_each(|gpu| seated[gpu.index()].push(job));
            if let Some(gpu) = gpus.iter().find(|&&g| !world.is_up(cluster.node_of(g))) {
                return self.violated(now, format!("{job} runs on {gpu}, whose node is down"));
            }
            if let Some(gpu) = gpus.iter().find(|&&g| world.is_lost(g)) {
                return self.violated(now, format!("{job} runs on {gpu}, which is lost"));
            }
        }
        let gang = |job: &JobId| world.held(*job).map_or(0, |(_, gpus)| gpus.len());
        for (g, jobs) in seated.iter().enumerate().filter(|(_, jobs)| jobs.len() > 1) {
            let kind = cluster.kind(cluster.kind_of(GpuId(g as u32)));
            let most = if self.pairs { kind.max_jobs.min(2) } else { 1 };
            if jobs.len() > usize::from(most) || jobs.iter().any(|job| gang(job) != 1) {
                return self.violated(now, format!("gpu-{g} is oversold to {jobs:?}"));
            }
        }
    }

    /// No step beyond the last, none lost that was safe.
    fn look_at_steps(&mut self, now: Time, world: &World) {
        // Both are in the order of ids: one pass over both, since a week has many jobs and many moments.
        let mut safe_steps = self.safe_steps.iter().peekable();
        for sim_job in world.lives() {
            while safe_steps.next_if(|(job, _)| **job < sim_job.spec.id).is_some() {}
            let safe = safe_steps.next_if(|(job, _)| **job == sim_job.spec.id).map_or(0.0, |(_, steps)| *steps);
            let total = if let Length::Steps(total) = sim_job.length() { total } else { f64::INFINITY };
            if sim_job.steps > total * (1.0 + TOLERANCE) {
                return self.violated(now, format!("{} did {} of its {total} steps", sim_job.spec.id, sim_job.steps));
            }
            if sim_job.steps < safe * (1.0 - TOLERANCE) {
                let what = format!("{} fell back to {} steps, {safe} were safe", sim_job.spec.id, sim_job.steps);
                return self.violated(now, what);
            }
        }
    }

    /// The scheduler took an input in.
    pub(super) fn stepped(&mut self, now: Time, step: &Step<'_>, world: &World) {
        let Step { input, outputs, .. } = *step;
        if let Input::Cancel(job) = input {
            self.cancels.insert(*job);
        }
        let known = |job: JobId| self.submitted.contains_key(&job) && !self.over.contains_key(&job);
        self.changes.before(step, rejects(outputs), known);
        let mut rejected = false;
        for output in outputs {
            let Output::Note(event) = output else { continue };
            rejected |= matches!(event, Event::Rejected { .. });
            self.noted(now, event, world);
        }
        if let Input::Submit(spec) = input
            && !rejected
            && self.submitted.insert(spec.id, spec.clone()).is_some()
        {
            self.violated(now, format!("{} was taken in twice", spec.id));
        }
        let completed = |job: &JobId| self.over.get(job).map(|end| *end == End::Completed);
        if let Some(what) = self.changes.after(step, completed, world) {
            self.violated(now, what);
        }
    }

    fn noted(&mut self, now: Time, event: &Event, world: &World) {
        match event {
            Event::BadPlan { why, .. } => self.violated(now, format!("bad plan: {why}")),
            Event::Rejected { job, .. } if !self.submitted.contains_key(job) => {
                self.violated(now, format!("{job} was rejected: {event:?}"));
            }
            Event::Completed { job } => {
                if !world.life(*job).is_some_and(did_all) {
                    self.violated(now, format!("{job} was told to be complete before its work was done"));
                }
                self.ended(now, *job, End::Completed);
            }
            Event::GaveUp { job, why } => {
                if why.is_empty() {
                    self.violated(now, format!("{job} was given up without a reason"));
                }
                let unlimited = self.submitted.get(job).is_some_and(|spec| spec.time_limit_seconds.is_none());
                if unlimited && why.contains("time limit") {
                    self.violated(now, format!("{job} has no time limit, and was given up: {why}"));
                }
                self.ended(now, *job, End::GivenUp);
            }
            Event::Cancelled { job } => {
                if !self.cancels.contains(job) {
                    self.violated(now, format!("{job} was cancelled, but nobody asked for it"));
                }
                self.ended(now, *job, End::Cancelled);
            }
            _ => {}
        }
    }

    fn ended(&mut self, now: Time, job: JobId, end: End) {
        if !self.submitted.contains_key(&job) {
            self.violated(now, format!("{job} ended ({end:?}) but was never taken in"));
        }
        if let Some(before) = self.over.insert(job, end) {
            self.violated(now, format!("{job} ended twice ({before:?}, {end:?})"));
        }
    }

    /// Jobs that were taken in and must not run until they are released.
    pub(super) fn held(&self) -> impl Iterator<Item = JobId> {
        self.changes.held().filter(|job| !self.is_over(*job))
    }

    /// Live jobs that a job waits for.
    pub(super) fn open_dependencies(&self, job: JobId) -> impl Iterator<Item = &JobSpec> {
        self.changes.dependencies(job).filter(|job| !self.is_over(*job)).filter_map(|job| self.submitted.get(&job))
    }

    /// Inputs after which every node, GPU and job can be used again.
    pub(super) fn undoing(&self) -> Vec<Input> {
        self.changes.undoing()
    }

    /// Nobody is lost, and whoever waits is told why.
    pub(super) fn ask(&mut self, now: Time, scheduler: &Scheduler) {
        let waiting: BTreeSet<JobId> = scheduler.waiting().collect();
        let mut wrong = None;
        let (mut over, forgotten) = (self.over.keys().peekable(), Verdict::Unknown.to_string());
        for &job in self.submitted.keys() {
            let verdict = scheduler.explain(job);
            while over.next_if(|ended| **ended < job).is_some() {}
            let live = over.next_if(|ended| **ended == job).is_none();
            if !live && verdict == Verdict::Unknown && !forgotten.trim().is_empty() {
                continue;
            }
            let sentence = verdict.to_string();
            wrong = match &verdict {
                Verdict::Unknown if live => Some(format!("{job} is lost: nobody knows it, and it has not ended")),
                Verdict::Waits(_) if !waiting.contains(&job) => Some(format!("{job} waits, but is not listed")),
                verdict if !live && *verdict != Verdict::Unknown => Some(format!("{job} is over, but {sentence}")),
                _ if sentence.trim().is_empty() => Some(format!("{job} has an empty verdict")),
                _ if has_no_number(&sentence) => Some(format!("{job} has a verdict without sense: {sentence}")),
                _ => wrong,
            };
        }
        if let Some(what) = wrong {
            self.violated(now, what);
        }
        if let Some(job) = waiting.iter().find(|job| !matches!(scheduler.explain(**job), Verdict::Waits(_))) {
            self.violated(now, format!("{job} is listed as waiting, but has no reason to"));
        }
    }

    /// Every joule the devices drew is in somebody's account.
    pub(super) fn audit(&mut self, now: Time, world: &mut World) {
        world.close_books(now);
        let charged: f64 = world.lives().map(|sim_job| sim_job.charge.total()).sum();
        let unused: f64 = world.unused_joules().iter().sum();
        let drawn = self.ledger.joules();
        if (charged + unused - drawn).abs() > TOLERANCE * drawn.max(1.0) {
            let what = format!("the devices drew {drawn} J, but {charged} J are charged and {unused} J unused");
            self.violated(now, what);
        }
    }
}

/// Whether a sentence holds something that should have been a number.
fn has_no_number(sentence: &str) -> bool {
    sentence.split_whitespace().any(|word| word.starts_with("NaN") || word.trim_start_matches('-').starts_with("inf"))
}

fn did_all(job: &SimJob) -> bool {
    match job.length() {
        Length::Steps(total) => job.steps >= total * (1.0 - TOLERANCE),
        Length::Seconds(seconds) => job.served_seconds >= seconds * (1.0 - TOLERANCE) - TOLERANCE,
    }
}

fn rejects(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Note(Event::Rejected { .. })))
}

fn describe(incident: Incident) -> String {
    match incident {
        Incident::Taken { gpu, holder, newcomer } => {
            format!("{gpu} is oversold: {newcomer} was to start where {holder} still runs")
        }
        Incident::Twice { job, running, ordered } => {
            format!("{job} runs twice: gang {} was to start while gang {} still runs", ordered.0, running.0)
        }
        Incident::NoRoom { node, newcomer, ordered } => {
            format!("gang {} of {newcomer} was to start on {node}, which has no room for it", ordered.0)
        }
    }
}
