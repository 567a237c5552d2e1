//! The driver: carries out what a scheduler asks for, without any IO of its own.
//!
//! A scheduler is driven by a simulation, by the simulation of faults, by the daemon, by a dry run and by tests. What each output asks for and which
//! input answers it is the same for all of them, and is said here once. What differs is the [`Site`]: where problems are solved, orders
//! carried out and inputs journalled.
//!
//! A site may answer at once (a simulation) or later (the daemon, whose solver, estimator and engine have threads of their own): `None` and
//! [`OrderReply::Pending`] mean that the answer will come as an input. Either way every input is stepped in the order in which the outputs
//! before it asked for it, so the same site gives the same run.

use crate::allocate::{AllocateError, Allocation, Policy, PolicyEntry, Problem, WholeGangs};
use crate::engine::{LostGpu, OrderReply};
use crate::estimate::{Estimator, Observation, RateQuery, RateRow};
use crate::scheduler::{Event, Input, Order, Output, Scheduler};
use crate::{Cluster, ClusterChange, JobId, Kind, NodeSpec, Profile, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A policy's answer to a problem.
pub type Solution = Result<Allocation, AllocateError>;

/// What surrounds a scheduler: whoever solves, estimates and carries out orders.
pub trait Site {
    /// Solves a problem with the policy in force, or has it solved.
    fn solve(&mut self, problem: &Arc<Problem>, policy: &'static PolicyEntry) -> Option<Solution>;

    /// Estimates a row, or has it estimated.
    fn estimate(&mut self, query: &RateQuery) -> Option<RateRow>;

    /// Carries out an order, or has it carried out.
    fn apply(&mut self, order: &Order) -> OrderReply;

    /// The cluster is another from now on: engine and estimator are told before anything that follows.
    fn cluster_changed(&mut self, cluster: &Arc<Cluster>);

    /// A job has left the scheduler: it completed, was cancelled, was given up or was never accepted.
    fn job_over(&mut self, job: JobId, completed: bool);

    /// Takes note of an event.
    fn note(&mut self, _event: &Event) {}
}

/// A site that keeps a record of every step before anything is done about it.
pub trait RecordingSite: Site {
    /// Why a run must end.
    type Error;

    /// Called after every step and before anything that follows from it is done: the place to journal.
    ///
    /// # Errors
    /// If nothing that follows may be done.
    fn record(&mut self, input: &Input, outputs: &[Output]) -> Result<(), Self::Error>;
}

/// Gives a scheduler an input and does everything that follows from it, until nothing more does.
///
/// # Errors
/// Whatever the site's [`RecordingSite::record`] returns; what follows from that input has then not been done.
pub fn run<S: RecordingSite>(scheduler: &mut Scheduler, now: Time, input: Input, site: &mut S) -> Result<(), S::Error> {
    let (mut input, mut queue) = (input, VecDeque::new());
    loop {
        let outputs = scheduler.step(now, &input);
        site.record(&input, &outputs)?;
        queue.reserve(outputs.len());
        act(&outputs, scheduler.policy(), site, &mut queue);
        let Some(next) = queue.pop_front() else { return Ok(()) };
        input = next;
    }
}

/// Does what outputs ask for. Answers that are there at once go to the end of `answers`.
pub fn act<S: Site>(outputs: &[Output], policy: &'static PolicyEntry, site: &mut S, answers: &mut VecDeque<Input>) {
    for output in outputs {
        match output {
            Output::Solve(problem) => {
                let solution = site.solve(problem, policy);
                answers.extend(solution.map(|solution| Input::Allocated(problem.round, solution)));
            }
            Output::Estimate(query) => answers.extend(site.estimate(query).map(|row| Input::Estimated(vec![row]))),
            Output::Order(order) => match site.apply(order) {
                OrderReply::Pending => {}
                OrderReply::Reported(report) => answers.push_back(Input::Reported(report)),
                OrderReply::Refused(why) => answers.push_back(Input::Refused(order.clone(), why)),
            },
            Output::Cluster(cluster) => site.cluster_changed(cluster),
            Output::Note(event) => {
                if let Some(job) = event.ends() {
                    site.job_over(job, matches!(event, Event::Completed { .. }));
                }
                site.note(event);
            }
        }
    }
}

/// What an engine that finds its nodes itself means for the cluster: nodes that are new, have other GPUs, CPUs or memory, or are no longer
/// there. Changes are in the order of names, removals first, so the same inventory gives the same changes; applying them leaves none.
/// Where an inventory names a node twice, the first one counts.
///
/// An engine must only list its inventory when it knows all of it: whatever is missing leaves for good.
#[must_use]
pub fn reconcile(cluster: &Cluster, inventory: &[NodeSpec]) -> Vec<ClusterChange> {
    let there: BTreeMap<&str, _> = cluster.present().map(|(_, node)| (node.name.as_str(), node)).collect();
    let mut found: BTreeMap<&str, &NodeSpec> = BTreeMap::new();
    for spec in inventory {
        found.entry(&spec.name).or_insert(spec);
    }
    let gone = there.keys().filter(|name| !found.contains_key(*name));
    let remove =
        |name: &&str| ClusterChange::Remove { node: (*name).into(), why: "the engine no longer has it".into() };
    let differs = |spec: &NodeSpec| {
        there.get(spec.name.as_str()).is_none_or(|node| {
            let kind = &cluster.kind(node.kind).name;
            let rack = node.rack.map(|rack| &cluster.racks()[rack.index()]);
            (kind, node.gpus, node.cpus, node.memory_gib, rack)
                != (&spec.kind.name, spec.gpus, spec.cpus, spec.memory_gib, spec.rack.as_ref())
        })
    };
    let joins = found.values().filter(|spec| differs(spec)).map(|&spec| ClusterChange::Join(spec.clone()));
    gone.map(remove).chain(joins).collect()
}

/// What it means for the cluster that an engine cannot use these GPUs and can use all others: those that are newly lost, and those that are back.
/// In the order of nodes; applying the changes leaves none.
#[must_use]
pub fn reconcile_gpus(scheduler: &Scheduler, lost: &[LostGpu]) -> Vec<ClusterChange> {
    let cluster = scheduler.cluster();
    let mut changes = Vec::new();
    for (node, known) in cluster.nodes().iter().zip(scheduler.node_statuses()).filter(|(node, _)| !node.removed) {
        let why_lost: BTreeMap<u32, &str> = lost
            .iter()
            .filter(|lost| node.gpu_range().contains(&lost.gpu.0))
            .map(|lost| (lost.gpu.0 - node.first_gpu.0, lost.why.as_str()))
            .collect();
        let back: Vec<u32> = known.lost_gpus.iter().copied().filter(|gpu| !why_lost.contains_key(gpu)).collect();
        if !back.is_empty() {
            changes.push(ClusterChange::GpusBack { node: node.name.clone(), gpus: back });
        }
        for (gpu, why) in why_lost.into_iter().filter(|(gpu, _)| !known.lost_gpus.contains(gpu)) {
            changes.push(ClusterChange::GpusLost { node: node.name.clone(), gpus: vec![gpu], why: why.to_owned() });
        }
    }
    changes
}

/// Solves with whichever policy is in force. A policy may keep its last answer to start the next one from, so it is made anew only
/// when another takes over.
#[derive(Default)]
pub struct Solver {
    current: Option<(&'static str, Box<dyn Policy>)>,
    whole_gangs: WholeGangs,
}

impl Solver {
    /// The policy's answer, on other kinds where whole gangs could not have it on those.
    ///
    /// # Errors
    /// As [`Policy::allocate`].
    pub fn solve(&mut self, problem: &Problem, policy: &'static PolicyEntry) -> Solution {
        if self.current.as_ref().is_none_or(|(name, _)| *name != policy.name) {
            self.current = None;
            self.whole_gangs = WholeGangs::default();
        }
        let answer = self.current.get_or_insert_with(|| (policy.name, (policy.make)())).1.allocate(problem)?;
        Ok(self.whole_gangs.attainable(problem, answer, policy))
    }
}

/// An estimator at work: remembers what the scheduler was told, and finds out what a measurement changes of it.
pub struct Refiner {
    estimator: Box<dyn Estimator>,
    told: BTreeMap<RateQuery, RateRow>,
    /// Rows that measurements may have changed since they were told.
    stale: BTreeSet<RateQuery>,
}

impl Refiner {
    /// An estimator whose scheduler was told nothing yet.
    #[must_use]
    pub fn new(estimator: Box<dyn Estimator>) -> Self {
        Self::resume(estimator, BTreeMap::new())
    }

    /// An estimator whose scheduler was told these rows before.
    #[must_use]
    pub fn resume(estimator: Box<dyn Estimator>, told: BTreeMap<RateQuery, RateRow>) -> Self {
        Self { estimator, told, stale: BTreeSet::new() }
    }

    /// The row for the scheduler.
    pub fn answer(&mut self, query: &RateQuery) -> RateRow {
        let row = self.estimator.estimate(query);
        self.stale.remove(query);
        self.told.insert(*query, row.clone());
        row
    }

    /// The row for anybody else.
    #[must_use]
    pub fn peek(&self, query: &RateQuery) -> RateRow {
        self.estimator.estimate(query)
    }

    /// Takes in a kind that the cluster has from now on. Every row that was told has a cell more: [`refresh`](Self::refresh) tells them anew.
    pub fn add_kind(&mut self, kind: &Kind) {
        self.estimator.add_kind(kind);
        self.stale.extend(self.told.keys().copied());
    }

    /// Takes in a workload that there is from now on.
    pub fn add_workload(&mut self, name: &str, profile: &Profile) {
        self.estimator.add_workload(name, profile);
    }

    /// Learns from a measurement.
    pub fn observe(&mut self, observation: &Observation) {
        let changed = self.estimator.observe(observation);
        // What was never told need not be remembered: it is worked out when it is asked for.
        self.stale.extend(changed.into_iter().filter(|query| self.told.contains_key(query)));
    }

    /// These rows may not be what the scheduler was told: an estimator that was made anew may know more.
    pub fn mark_stale(&mut self, queries: impl IntoIterator<Item = RateQuery>) {
        self.stale.extend(queries);
    }

    /// Whether [`Refiner::refresh`] has anything to look at.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Rows that the scheduler was told and that are different now; it is told them anew.
    pub fn refresh(&mut self) -> Vec<RateRow> {
        let mut rows = Vec::new();
        for query in std::mem::take(&mut self.stale) {
            if let Some(known) = self.told.get_mut(&query) {
                let row = self.estimator.estimate(&query);
                if *known != row {
                    known.clone_from(&row);
                    rows.push(row);
                }
            }
        }
        rows
    }

    /// What the scheduler was told, as it stands.
    #[must_use]
    pub fn told(&self) -> &BTreeMap<RateQuery, RateRow> {
        &self.told
    }
}

#[cfg(test)]
mod tests;
