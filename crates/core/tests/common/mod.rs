//! A perfect engine for tests: it does at once what it is ordered, and keeps its own account of who holds what.

use arles_core::allocate::{EPSILON, PolicyEntry, Problem, find_policy};
use arles_core::drive::{self, Site, Solution, Solver};
use arles_core::engine::OrderReply;
use arles_core::estimate::{Estimate, RateQuery, RateRow, Source};
use arles_core::scheduler::{Event, GangEvent, GangReport, ObservedNode, Order, Settings, Survey};
use arles_core::{Cluster, GpuId, Input, JobId, KindId, NodeId, Scheduler, Tenant, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

mod nouns;

pub(crate) use nouns::{cluster, job};

/// Rates of one workload on each kind, for a gang of one; a gang of g has g times as much.
pub(crate) type Rates = Vec<f64>;

pub(crate) struct Perfect {
    pub(crate) scheduler: Scheduler,
    solver: Solver,
    entry: &'static PolicyEntry,
    rates: Vec<Rates>,
    pub(crate) now: Time,
    pub(crate) held: BTreeMap<JobId, Vec<GpuId>>,
    /// Rounds each job has held each kind.
    pub(crate) rounds_held: BTreeMap<(JobId, KindId), u64>,
    pub(crate) starts: u64,
    pub(crate) notes: Vec<Event>,
    round_seconds: f64,
}

impl Perfect {
    #[allow(dead_code, reason = "one file of tests says what may be given up")]
    pub(crate) fn new(cluster: Cluster, policy: &str, rates: Vec<Rates>) -> Self {
        Self::with_epsilon(cluster, policy, rates, EPSILON)
    }

    /// Everybody may be asked for this part of its speed.
    pub(crate) fn with_epsilon(cluster: Cluster, policy: &str, rates: Vec<Rates>, epsilon: f64) -> Self {
        let entry = find_policy(policy).expect("in the table");
        let tenants = vec![Tenant { name: "default".into(), weight: 1.0 }];
        // Nobody looks again, so that nobody must be missed.
        let settings = Settings { survey_seconds: 1e9, lease_seconds: 1e9, epsilon, ..Settings::with_round(60.0) };
        let mut engine = Self {
            scheduler: Scheduler::new(cluster, tenants, entry, settings),
            solver: Solver::default(),
            entry,
            rates,
            now: Time::ZERO,
            held: BTreeMap::new(),
            rounds_held: BTreeMap::new(),
            starts: 0,
            notes: Vec::new(),
            round_seconds: settings.round_seconds,
        };
        engine.survey();
        engine
    }

    /// A look at all nodes. Gangs are not listed, so it can only be taken while there are none.
    pub(crate) fn survey(&mut self) {
        assert!(self.held.is_empty(), "a survey without gangs would make the scheduler miss them");
        let nodes =
            (0..self.scheduler.cluster().nodes().len() as u32).map(|n| ObservedNode { node: NodeId(n), up: true });
        self.tell(Input::Surveyed(Survey { at: self.now, nodes: nodes.collect(), gangs: Vec::new() }));
    }

    /// One round passes.
    pub(crate) fn round(&mut self) {
        self.tell(Input::Tick);
        for (&job, gpus) in &self.held {
            let kind = self.scheduler.cluster().kind_of(gpus[0]);
            *self.rounds_held.entry((job, kind)).or_default() += 1;
        }
        self.now = self.now.after(self.round_seconds);
    }

    pub(crate) fn tell(&mut self, input: Input) {
        let mut queue = VecDeque::from([input]);
        while let Some(input) = queue.pop_front() {
            let outputs = self.scheduler.step(self.now, &input);
            drive::act(&outputs, self.scheduler.policy(), self, &mut queue);
        }
    }

    fn row(&self, ask: &RateQuery) -> RateRow {
        let own = &self.rates[ask.workload.index()];
        let cell = |j: usize| {
            let rate = own[j] * f64::from(ask.gang);
            let factor = if ask.partner.is_some() { 0.7 } else { 1.0 };
            (rate > 0.0).then(|| Estimate {
                rate: rate * factor,
                spread_rate: rate * factor * 0.8,
                racks_rate: 0.0,
                partner_rate: ask.partner.map_or(0.0, |p| self.rates[p.index()][j] * factor),
                watts: 200.0,
                standard_error: 0.0,
                source: Source::Measured,
            })
        };
        RateRow { ask: *ask, cells: (0..own.len()).map(cell).collect() }
    }
}

impl Site for Perfect {
    fn solve(&mut self, problem: &Arc<Problem>, policy: &'static PolicyEntry) -> Option<Solution> {
        Some(self.solver.solve(problem, policy))
    }

    fn estimate(&mut self, query: &RateQuery) -> Option<RateRow> {
        Some(self.row(query))
    }

    fn cluster_changed(&mut self, _: &Arc<Cluster>) {}

    fn job_over(&mut self, _: JobId, _: bool) {}

    fn note(&mut self, event: &Event) {
        self.notes.push(event.clone());
    }

    fn apply(&mut self, order: &Order) -> OrderReply {
        match order {
            Order::Start(start) => {
                self.starts += 1;
                let most = if self.entry.pairs { 2 } else { 1 };
                for gpu in &start.gpus {
                    let there = self.held.values().filter(|gpus| gpus.contains(gpu)).count();
                    assert!(there < most, "{gpu} was oversold to {}", start.job);
                    assert_eq!(self.scheduler.cluster().kind_of(*gpu), start.kind, "{} is on mixed kinds", start.job);
                }
                assert!(self.held.insert(start.job, start.gpus.clone()).is_none(), "{} runs twice", start.job);
                OrderReply::Reported(GangReport::new(start.job, start.fence, GangEvent::Started))
            }
            Order::Stop { job, fence } => match self.held.remove(job) {
                Some(_) => OrderReply::Reported(GangReport::new(*job, *fence, GangEvent::Stopped(0.0))),
                None => OrderReply::Pending,
            },
        }
    }
}
