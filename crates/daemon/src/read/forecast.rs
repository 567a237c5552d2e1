//! Dry runs: a copy of the scheduler is played ahead, round by round, as if everything went as estimated.
//!
//! In the copy orders are obeyed at once, jobs advance at their estimated rates alone (a partner slows nobody down), nobody new comes
//! and nothing breaks. So what is foretold is what this scheduler would do if it were right about everything; it is a forecast and says so.
//! The copy never touches the original, the journal or the engine.

use crate::read::book::{TenantShare, shares};
use arles_api as api;
use arles_core::allocate::{PolicyEntry, Problem};
use arles_core::drive::{self, Site, Solution, Solver};
use arles_core::engine::OrderReply;
use arles_core::estimate::{RateQuery, RateRow};
use arles_core::scheduler::{
    Fence, GangEvent, GangReport, GangState, JobPhase, ObservedGang, ObservedNode, Order, Start, Survey, Verdict,
};
use arles_core::{Cluster, GpuId, Input, JobId, JobSpec, KindId, NodeId, Scheduler, Time, Work};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds that are played ahead for a job at most.
const ROUNDS: u32 = 1000;
/// Time that this may take.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Rounds that a policy gets to show what it would change: the first asks, the second places, the third settles.
const SETTLING: u32 = 3;
/// Changes that are told.
const CHANGES: usize = 1000;

/// Who estimates rows that the scheduler has not met.
pub(crate) type Peek<'a> = &'a dyn Fn(RateQuery) -> RateRow;

/// A gang in the copy.
#[derive(Clone, Debug)]
struct Gang {
    fence: Fence,
    kind: KindId,
    gpus: Vec<GpuId>,
    /// Steps at `since`, and how fast they grow.
    steps: f64,
    since: Time,
    rate: f64,
    /// When its work is done, if ever.
    ends: Option<Time>,
}

struct Lookahead<'a> {
    scheduler: Scheduler,
    solver: Solver,
    peek: Peek<'a>,
    now: Time,
    gangs: BTreeMap<JobId, Gang>,
    shares: Option<Vec<TenantShare>>,
}

impl<'a> Lookahead<'a> {
    fn new(scheduler: Scheduler, peek: Peek<'a>) -> Self {
        let now = scheduler.now();
        let mut gangs = BTreeMap::new();
        for job in scheduler.live() {
            let Some(status) = scheduler.job_status(job) else { continue };
            if let (Some(held), JobPhase::Running) = (status.gang, status.phase) {
                let mut gang = Gang {
                    fence: held.fence,
                    kind: held.kind,
                    gpus: held.gpus.to_vec(),
                    steps: status.steps_done,
                    since: now,
                    rate: status.rate,
                    ends: None,
                };
                gang.ends = gang.end(status.spec);
                gangs.insert(job, gang);
            }
        }
        let mut ahead = Self { scheduler, solver: Solver::default(), peek, now, gangs, shares: None };
        let (open, mut answers) = (ahead.scheduler.again(), VecDeque::new());
        drive::act(&open, ahead.scheduler.policy(), &mut ahead, &mut answers);
        ahead.settle(&mut answers);
        ahead
    }

    /// Gives the copy an input and does everything that follows from it.
    fn input(&mut self, input: Input) {
        let mut answers = VecDeque::from([input]);
        self.settle(&mut answers);
    }

    fn settle(&mut self, inputs: &mut VecDeque<Input>) {
        while let Some(input) = inputs.pop_front() {
            let outputs = self.scheduler.step(self.now, &input);
            drive::act(&outputs, self.scheduler.policy(), self, inputs);
            if let Input::Reported(GangReport { job, event: GangEvent::Started, .. }) = input {
                self.set_pace(job);
            }
        }
    }

    /// The scheduler knows a gang's rate once it knows that it runs.
    fn set_pace(&mut self, job: JobId) {
        if let (Some(status), Some(gang)) = (self.scheduler.job_status(job), self.gangs.get_mut(&job)) {
            gang.rate = status.rate;
            gang.ends = gang.end(status.spec);
        }
    }

    fn start(&mut self, start: &Start) -> GangEvent {
        // A gang that goes on in another mode loses nothing.
        let same = self.gangs.get(&start.job).filter(|gang| gang.fence == start.fence);
        let going_on = same.map(|gang| gang.steps_at(self.now));
        if let Some(status) = self.scheduler.job_status(start.job) {
            let gang = Gang {
                fence: start.fence,
                kind: start.kind,
                gpus: start.gpus.clone(),
                steps: going_on.unwrap_or(status.steps_done),
                since: self.now,
                rate: 0.0,
                ends: None,
            };
            self.gangs.insert(start.job, gang);
        }
        GangEvent::Started
    }

    fn stop(&mut self, job: JobId, fence: Fence) -> GangEvent {
        let steps = match self.gangs.get(&job) {
            Some(gang) if gang.fence == fence => {
                let steps = gang.steps_at(self.now);
                self.gangs.remove(&job);
                steps
            }
            _ => self.scheduler.job_status(job).map_or(0.0, |status| status.steps_done),
        };
        GangEvent::Stopped(steps)
    }

    /// Plays one round: what ends in it ends, then the next begins.
    fn round(&mut self) {
        let tick = self.now.after(self.scheduler.settings().round_seconds);
        let due =
            |(job, gang): (&JobId, &Gang)| gang.ends.filter(|ends| *ends <= tick).map(|ends| (ends, *job, gang.fence));
        let mut ends: Vec<(Time, JobId, Fence)> = self.gangs.iter().filter_map(due).collect();
        ends.sort_unstable();
        for (at, job, fence) in ends {
            self.now = self.now.max(at);
            self.gangs.remove(&job);
            self.input(Input::Reported(GangReport::new(job, fence, GangEvent::Finished)));
        }
        self.now = tick;
        self.survey();
        self.input(Input::Tick);
    }

    /// Nodes stay as they are, and gangs are where they were put.
    fn survey(&mut self) {
        let sights = self.scheduler.node_statuses().zip(0..);
        let nodes = sights
            .filter(|(sight, _)| sight.reachable)
            .map(|(sight, n)| ObservedNode { node: NodeId(n), up: sight.up });
        let seen = |(job, gang): (&JobId, &Gang)| ObservedGang {
            job: *job,
            fence: gang.fence,
            gpus: gang.gpus.clone(),
            steps_done: gang.steps_at(self.now),
            state: GangState::Running,
        };
        let survey =
            Survey { at: self.scheduler.now(), nodes: nodes.collect(), gangs: self.gangs.iter().map(seen).collect() };
        self.input(Input::Surveyed(survey));
    }

    fn in_words(&self, gang: &Gang) -> String {
        format!("{} × {}", gang.gpus.len(), self.scheduler.cluster().kind(gang.kind).name)
    }
}

/// Everything is done at once and as estimated.
impl Site for Lookahead<'_> {
    fn solve(&mut self, problem: &Arc<Problem>, policy: &'static PolicyEntry) -> Option<Solution> {
        let solution = self.solver.solve(problem, policy);
        if let Ok(allocation) = &solution {
            self.shares = Some(shares(problem, allocation, policy.entitlement));
        }
        Some(solution)
    }

    fn estimate(&mut self, query: &RateQuery) -> Option<RateRow> {
        Some((self.peek)(*query))
    }

    fn apply(&mut self, order: &Order) -> OrderReply {
        let event = match order {
            Order::Start(start) => self.start(start),
            Order::Stop { job, fence } => self.stop(*job, *fence),
        };
        OrderReply::Reported(GangReport::new(order.job(), order.fence(), event))
    }

    fn cluster_changed(&mut self, _: &Arc<Cluster>) {}

    fn job_over(&mut self, _: JobId, _: bool) {}
}

impl Gang {
    fn steps_at(&self, now: Time) -> f64 {
        self.steps + self.rate * now.since(self.since)
    }

    fn end(&self, spec: &JobSpec) -> Option<Time> {
        let seconds = match spec.work {
            Work::Steps(steps) if self.rate > 0.0 => (steps - self.steps).max(0.0) / self.rate,
            Work::Steps(_) => return None,
            Work::Period(seconds) => seconds,
            Work::Open(Some(seconds)) => seconds,
            Work::Open(None) => return None,
        };
        (seconds < 1e9).then(|| self.since.after(seconds))
    }
}

/// When and where a job would run.
pub(crate) fn job(scheduler: Scheduler, id: JobId, mut spec: JobSpec, peek: Peek<'_>) -> api::Forecast {
    let mut ahead = Lookahead::new(scheduler, peek);
    (spec.id, spec.arrived) = (id, ahead.now);
    ahead.input(Input::Submit(spec.clone()));
    let mut forecast = api::Forecast {
        refusal: None,
        starts_at: None,
        kind: None,
        nodes: None,
        shared: None,
        rate: None,
        ends_at: None,
        reason: None,
        rounds: 0,
    };
    if ahead.scheduler.job_status(id).is_none() {
        forecast.refusal = Some("the scheduler would not take it in".into());
        return forecast;
    }
    let began = Instant::now();
    while !ahead.gangs.contains_key(&id) && forecast.rounds < ROUNDS && began.elapsed() < PATIENCE {
        ahead.round();
        forecast.rounds += 1;
        if forecast.rounds == 1
            && let Verdict::Waits(reason) = ahead.scheduler.explain(id)
        {
            let (code, seconds) = (reason.code().into(), reason.seconds());
            forecast.reason = Some(api::Reason { code, text: reason.to_string(), seconds });
        }
    }
    let Some(gang) = ahead.gangs.get(&id) else { return forecast };
    let cluster = ahead.scheduler.cluster();
    let mut nodes: Vec<NodeId> = gang.gpus.iter().map(|&gpu| cluster.node_of(gpu)).collect();
    nodes.dedup();
    let beside = |other: &Gang| other.gpus.iter().any(|gpu| gang.gpus.contains(gpu));
    forecast.starts_at = Some(gang.since.seconds());
    forecast.kind = Some(cluster.kind(gang.kind).name.clone());
    forecast.nodes = Some(nodes.len() as u32);
    forecast.shared = Some(ahead.gangs.iter().any(|(job, other)| *job != id && beside(other)));
    forecast.rate = Some(gang.rate);
    forecast.ends_at = gang.ends.map(Time::seconds);
    forecast
}

/// What another policy would change.
pub(crate) fn policy(
    scheduler: &Scheduler,
    to: &'static PolicyEntry,
    estimates: &BTreeMap<RateQuery, RateRow>,
    peek: Peek<'_>,
) -> api::PolicyForecast {
    let mut stays = Lookahead::new(scheduler.clone(), peek);
    let mut switched = Lookahead::new(scheduler.clone(), peek);
    let from = scheduler.policy().name.to_owned();
    switched.input(Input::Policy(to.name.to_owned()));
    for _ in 0..SETTLING {
        stays.round();
        switched.round();
    }
    let (changes, changed) = differences(&stays, &switched);
    let cluster = scheduler.cluster();
    api::PolicyForecast {
        from,
        to: to.name.to_owned(),
        kinds: cluster.kinds().iter().map(|kind| kind.name.clone()).collect(),
        shares: share_changes(&stays, &switched),
        changes,
        changed,
        watts_before: watts(&stays, estimates),
        watts_after: watts(&switched, estimates),
    }
}

fn differences(stays: &Lookahead<'_>, switched: &Lookahead<'_>) -> (Vec<api::Change>, u64) {
    let (mut changes, mut changed) = (Vec::new(), 0);
    for job in stays.scheduler.live() {
        let (before, after) = (stays.gangs.get(&job), switched.gangs.get(&job));
        let what = match (before, after) {
            (Some(a), Some(b)) if a.kind == b.kind => continue,
            (None, None) => continue,
            (Some(_), Some(_)) => "move",
            (Some(_), None) => "stop",
            (None, Some(_)) => "start",
        };
        changed += 1;
        if changes.len() < CHANGES
            && let Some(status) = stays.scheduler.job_status(job)
        {
            changes.push(api::Change {
                job: job.0,
                tenant: stays.scheduler.tenants()[status.spec.tenant.index()].name.clone(),
                what: what.into(),
                from: before.map(|gang| stays.in_words(gang)),
                to: after.map(|gang| switched.in_words(gang)),
            });
        }
    }
    (changes, changed)
}

fn share_changes(stays: &Lookahead<'_>, switched: &Lookahead<'_>) -> Vec<api::ShareChange> {
    let kinds = stays.scheduler.cluster().kinds().len();
    // Held GPUs, where nothing was divided anew.
    let by_tenant = |ahead: &Lookahead<'_>| {
        let mut gpus = vec![vec![0.0; kinds]; ahead.scheduler.tenants().len()];
        match &ahead.shares {
            Some(shares) => shares.iter().for_each(|share| gpus[share.tenant.index()].clone_from(&share.gpus)),
            None => {
                for (job, gang) in &ahead.gangs {
                    if let Some(status) = ahead.scheduler.job_status(*job) {
                        gpus[status.spec.tenant.index()][gang.kind.index()] += gang.gpus.len() as f64;
                    }
                }
            }
        }
        gpus
    };
    let (before, after) = (by_tenant(stays), by_tenant(switched));
    let change = |((tenant, before), after): ((&arles_core::Tenant, Vec<f64>), Vec<f64>)| api::ShareChange {
        tenant: tenant.name.clone(),
        before,
        after,
    };
    stays.scheduler.tenants().iter().zip(before).zip(after).map(change).collect()
}

/// Estimated draw of everything, unused GPUs included.
fn watts(ahead: &Lookahead<'_>, estimates: &BTreeMap<RateQuery, RateRow>) -> Option<f64> {
    let cluster = ahead.scheduler.cluster();
    let idle = |gpu: GpuId| match cluster.node(cluster.node_of(gpu)) {
        node if node.removed => 0.0,
        node => cluster.kind(node.kind).idle_watts,
    };
    let mut draw: Vec<f64> = (0..cluster.gpus() as u32).map(|gpu| idle(GpuId(gpu))).collect();
    for (job, gang) in &ahead.gangs {
        let status = ahead.scheduler.job_status(*job)?;
        let ask = RateQuery { workload: status.spec.workload, gang: gang.gpus.len() as u32, partner: None };
        let cell = estimates.get(&ask).and_then(|row| *row.cells.get(gang.kind.index())?);
        let active = cell.map_or(0.0, |cell| (cell.watts - cluster.kind(gang.kind).idle_watts).max(0.0));
        gang.gpus.iter().for_each(|gpu| draw[gpu.index()] += active);
    }
    Some(draw.iter().sum())
}
