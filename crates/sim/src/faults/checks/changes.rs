//! What must hold in a cluster that changes, and of jobs that may not run whenever there is room.
//!
//! Kept from inputs that were not refused and from orders as they leave the scheduler: what was ordered before an input may still arrive
//! after it, and that is nobody's fault. The rules:
//!
//! - numbers of kinds, nodes and GPUs mean the same thing for ever;
//! - no gang is ordered, or ordered again, onto a node that is drained or has left, or onto a GPU that is lost;
//! - at a round at or after a drain's deadline every gang that is still there has been ordered to stop; so have those on nodes that
//!   have left, and those of held jobs;
//! - no gang of a held job is ordered, nor of one whose dependencies have not ended as it asked;
//! - no more tasks of an array run than its limit.

use super::Step;
use crate::world::{Incident, World};
use arles_core::job::{Dependency, Outcome};
use arles_core::scheduler::{Event, Fence, Order, Start};
use arles_core::{ArrayTask, Cluster, ClusterChange, GpuId, Input, JobId, NodeId, Output, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The books of these rules.
pub(super) struct Changes {
    cluster: Cluster,
    /// Drained nodes, and by when they must be empty in the scheduler's own time.
    drained: BTreeMap<NodeId, Option<Time>>,
    lost: BTreeSet<GpuId>,
    held: BTreeSet<JobId>,
    /// Dependencies on jobs that were live when the job was taken in.
    after: BTreeMap<JobId, Vec<Dependency>>,
    arrays: BTreeMap<JobId, ArrayTask>,
    /// Steps until now; when each gang was ordered, and when each node was last resized.
    steps: u64,
    ordered: BTreeMap<Fence, u64>,
    resized: BTreeMap<NodeId, u64>,
    stopped: BTreeSet<Fence>,
}

impl Changes {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            cluster: cluster.clone(),
            drained: BTreeMap::new(),
            lost: BTreeSet::new(),
            held: BTreeSet::new(),
            after: BTreeMap::new(),
            arrays: BTreeMap::new(),
            steps: 0,
            ordered: BTreeMap::new(),
            resized: BTreeMap::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// Takes an input in, before what it says about jobs is; `live` is whether a job was taken in and is not over.
    pub(super) fn before(&mut self, step: &Step<'_>, rejected: bool, live: impl Fn(JobId) -> bool) {
        match step.input {
            Input::Submit(spec) if !rejected => {
                let open = spec.after.iter().copied().filter(|dependency| live(dependency.job));
                self.after.insert(spec.id, open.collect());
                self.arrays.extend(spec.array.map(|task| (spec.id, task)));
                if spec.held {
                    self.held.insert(spec.id);
                }
            }
            Input::Hold(job) if live(*job) => {
                self.held.insert(*job);
            }
            Input::Release(job) => {
                self.held.remove(job);
            }
            _ => {}
        }
    }

    /// Takes in what came of an input and looks at it; `completed` is whether a job that is over completed.
    pub(super) fn after(
        &mut self,
        step: &Step<'_>,
        completed: impl Fn(&JobId) -> Option<bool>,
        world: &World,
    ) -> Option<String> {
        self.steps += 1;
        let refused = step.outputs.iter().any(|output| matches!(output, Output::Note(Event::Refused { .. })));
        let mut wrong = None;
        for output in step.outputs {
            if let Output::Cluster(cluster) = output {
                wrong = wrong.or(renumbered(&self.cluster, cluster));
                self.cluster = (**cluster).clone();
            }
        }
        if let Input::Cluster(change) = step.input
            && !refused
        {
            self.change(change, step);
        }
        for output in step.outputs {
            match output {
                Output::Order(Order::Start(start)) => wrong = wrong.or_else(|| self.must_not_start(start, &completed)),
                Output::Order(Order::Stop { fence, .. }) => {
                    self.stopped.insert(*fence);
                }
                _ => {}
            }
            if let Output::Order(Order::Start(start)) = output {
                self.ordered.entry(start.fence).or_insert(self.steps);
            }
        }
        if *step.input == Input::Tick {
            wrong = wrong.or_else(|| self.must_not_stay(step.own_time, world));
        }
        wrong
    }

    fn change(&mut self, change: &ClusterChange, step: &Step<'_>) {
        let (ClusterChange::Drain { node, .. }
        | ClusterChange::Undrain { node }
        | ClusterChange::Remove { node, .. }
        | ClusterChange::GpusLost { node, .. }
        | ClusterChange::GpusBack { node, .. }
        | ClusterChange::CorrectKind { node, .. }
        | ClusterChange::AddMode { node, .. }) = change
        else {
            if let ClusterChange::Join(spec) = change
                && let Some(node) = self.cluster.find(&spec.name)
            {
                self.resized.insert(node, self.steps);
            }
            return;
        };
        let Some(id) = self.cluster.find(node) else { return };
        let first = self.cluster.node(id).first_gpu.0;
        match change {
            ClusterChange::Drain { deadline, .. } => {
                let due = deadline.map(|deadline| step.own_time.after(deadline.since(step.clock)));
                self.drained.insert(id, due);
            }
            ClusterChange::Undrain { .. } => {
                self.drained.remove(&id);
            }
            ClusterChange::GpusLost { gpus, .. } => self.lost.extend(gpus.iter().map(|g| GpuId(first + g))),
            ClusterChange::GpusBack { gpus, .. } => {
                gpus.iter().for_each(|g| {
                    self.lost.remove(&GpuId(first + g));
                });
            }
            ClusterChange::CorrectKind { .. } => {
                self.resized.insert(id, self.steps);
            }
            ClusterChange::Join(_) | ClusterChange::Remove { .. } | ClusterChange::AddMode { .. } => {}
        }
    }

    /// The rule that an order to start breaks, if it breaks one.
    fn must_not_start(&self, start: &Start, completed: &impl Fn(&JobId) -> Option<bool>) -> Option<String> {
        let (job, fence) = (start.job, start.fence.0);
        for &gpu in &start.gpus {
            let node = self.cluster.node_of(gpu);
            let name = &self.cluster.node(node).name;
            if self.cluster.node(node).removed {
                return Some(format!("gang {fence} of {job} was ordered onto {gpu}, whose node '{name}' has left"));
            }
            if self.drained.contains_key(&node) {
                return Some(format!("gang {fence} of {job} was ordered onto {gpu}, whose node '{name}' is drained"));
            }
            if self.lost.contains(&gpu) {
                return Some(format!("gang {fence} of {job} was ordered onto {gpu}, which is lost"));
            }
            if self.cluster.kind_of(gpu) != start.kind {
                return Some(format!("gang {fence} of {job} was ordered onto {gpu}, which is not of {}", start.kind));
            }
        }
        if self.held.contains(&job) {
            return Some(format!("gang {fence} of {job} was ordered while the job is held"));
        }
        let unmet = |dependency: &&Dependency| match (completed(&dependency.job), dependency.outcome) {
            (None, _) => true,
            (Some(completed), Outcome::Ok) => !completed,
            (Some(completed), Outcome::NotOk) => completed,
            (Some(_), Outcome::Any) => false,
        };
        let open = self.after.get(&job).into_iter().flatten().find(unmet)?;
        Some(format!("gang {fence} of {job} was ordered before {} has ended as it must", open.job))
    }

    /// A gang that should have been ordered to stop by now.
    fn must_not_stay(&self, own_time: Time, world: &World) -> Option<String> {
        let due = |node: NodeId| match self.drained.get(&node) {
            Some(Some(due)) => *due <= own_time,
            _ => self.cluster.node(node).removed,
        };
        for job in world.holders() {
            let (fence, gpus) = world.held(job).expect("a holder holds something");
            if self.stopped.contains(&fence) {
                continue;
            }
            if let Some(gpu) = gpus.iter().find(|&&gpu| due(self.cluster.node_of(gpu))) {
                return Some(format!("gang {} of {job} stays on {gpu}, whose node must be empty", fence.0));
            }
            if self.held.contains(&job) {
                return Some(format!("gang {} of {job} stays although the job is held", fence.0));
            }
        }
        None
    }

    /// Whether an order that found no room was given before the node was changed.
    pub(super) fn excuses(&self, incident: Incident) -> bool {
        let Incident::NoRoom { node, ordered, .. } = incident else { return false };
        let at = self.ordered.get(&ordered).copied().unwrap_or(u64::MAX);
        self.resized.get(&node).is_some_and(|&resized| resized >= at)
    }

    /// Looks at the world: no more tasks of an array than its limit.
    pub(super) fn look(&self, world: &World) -> Option<String> {
        if self.arrays.is_empty() {
            return None;
        }
        let mut running: BTreeMap<JobId, u32> = BTreeMap::new();
        for task in world.holders().filter_map(|job| self.arrays.get(&job)).filter(|task| task.at_most > 0) {
            let tasks = running.entry(task.array).or_default();
            *tasks += 1;
            if *tasks > task.at_most {
                return Some(format!("{tasks} tasks of array {} run, of at most {}", task.array.0, task.at_most));
            }
        }
        None
    }

    pub(super) fn held(&self) -> impl Iterator<Item = JobId> + '_ {
        self.held.iter().copied()
    }

    /// Jobs that were live when this one was taken in, and that it is to start after.
    pub(super) fn dependencies(&self, job: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.after.get(&job).into_iter().flatten().map(|dependency| dependency.job)
    }

    /// Everything that keeps GPUs and jobs from being used, undone.
    pub(super) fn undoing(&self) -> Vec<Input> {
        let there = |node: &NodeId| !self.cluster.node(*node).removed;
        let name = |node: NodeId| self.cluster.node(node).name.clone();
        let drains = self.drained.keys().copied().filter(there);
        let drains = drains.map(|node| Input::Cluster(ClusterChange::Undrain { node: name(node) }));
        let lost = self.lost.iter().filter(|gpu| there(&self.cluster.node_of(**gpu))).map(|&gpu| {
            let node = self.cluster.node_of(gpu);
            let gpus = vec![gpu.0 - self.cluster.node(node).first_gpu.0];
            Input::Cluster(ClusterChange::GpusBack { node: name(node), gpus })
        });
        drains.chain(lost).chain(self.held.iter().map(|&job| Input::Release(job))).collect()
    }
}

/// A number that means another thing than before, if one does.
fn renumbered(old: &Cluster, new: &Cluster) -> Option<String> {
    let kinds = old.kinds().iter().zip(new.kinds()).all(|(a, b)| a.name == b.name);
    if !kinds || old.kinds().len() > new.kinds().len() || old.nodes().len() > new.nodes().len() {
        return Some("a kind or a node has another number than before".into());
    }
    let mut first = 0;
    let mut names = BTreeSet::new();
    for (n, node) in new.nodes().iter().enumerate() {
        let before = old.nodes().get(n);
        let same = before.is_none_or(|b| (&b.name, b.gpus) == (&node.name, node.gpus) && b.removed <= node.removed);
        let own = node.gpu_range().all(|g| new.node_of(GpuId(g)).index() == n);
        if !same || node.first_gpu.0 != first || !own {
            return Some(format!("node {n} ('{}') is another than before, or its GPUs are", node.name));
        }
        first += node.gpus;
        if !node.removed && !names.insert(&node.name) {
            return Some(format!("two nodes that are there are called '{}'", node.name));
        }
    }
    (new.gpus() as u32 != first).then(|| "there are more GPUs than the nodes have".into())
}
