//! A cluster that changes: nodes join, leave, drain and return; GPUs are lost and found; a kind is corrected.
//!
//! Every change is one input, checked as a whole and refused as a whole. GPUs that are drained, lost or on a node that has left get no
//! gang: no plan uses them, no start is ordered there, none is ordered again. What happens to the gangs that are there:
//!
//!   - a *drained* node's gangs go on. If there is a deadline, they are stopped at the last round that leaves them one whole round to
//!     save their checkpoints;
//!   - a node that has *left*, and a GPU that is *lost*, has its gangs stopped at once. A stop that is never answered is waited for
//!     until the node's lease is over, as on any silent node: until then the job could still be running there;
//!   - a *corrected* kind changes nothing for a gang wholly on that node. One that spans several nodes would be on two kinds: it is stopped.
//!
//! Jobs that were stopped keep their work and wait for a new place; nothing of this counts as a failure of theirs.

use super::*;
use crate::{Applied, ClusterChange};

/// What is known of a node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct NodeState {
    pub(super) up: bool,
    /// When the last survey that saw it was asked for.
    pub(super) seen_at: Option<Time>,
    /// [`Scheduler::patience`] at that moment.
    pub(super) seen_patience: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) drain: Option<Drain>,
    /// Counted from 0 on the node.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) lost_gpus: BTreeSet<u32>,
}

/// Why a node gets no new gangs, and until when those that are there may stay. Times are the scheduler's own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Drain {
    /// As the operator said it.
    pub why: String,
    /// By when it must be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Since when it is drained.
    pub since: Time,
}

impl Scheduler {
    pub(super) fn change_cluster(&mut self, change: &ClusterChange, out: &mut Vec<Output>) {
        let before = self.describe(change);
        let applied = match self.checked(change) {
            Ok(applied) => applied,
            Err(why) => return out.push(Output::Note(Event::Refused { why })),
        };
        if applied.changed {
            out.push(Output::Cluster(Arc::new(self.cluster.clone())));
        }
        self.grow(applied.new_kind, out);
        let what = self.take_in(change, &applied, &before);
        if let Some(what) = what {
            let node = self.cluster.node(applied.node).name.clone();
            out.push(Output::Note(Event::ClusterChanged { node, what }));
            self.changed = true;
            self.shapes = Shapes::of(&self.cluster);
            // Which nodes have room for what jobs ask for may be another matter now.
            self.fill_all_rates();
        }
        self.leave_barred(change, &applied, out);
        self.meet_deadlines(out);
    }

    /// Applies a change to the cluster, or says why it makes no sense.
    fn checked(&mut self, change: &ClusterChange) -> Result<Applied, String> {
        if let ClusterChange::Undrain { node } = change
            && let Some(id) = self.cluster.find(node)
            && self.nodes[id.index()].drain.is_none()
        {
            return Err(format!("node '{node}' is not drained; there is nothing to undo"));
        }
        self.cluster.apply(change).map_err(|error| error.to_string())
    }

    /// Room for nodes, GPUs and kinds that are new.
    fn grow(&mut self, new_kind: bool, out: &mut Vec<Output>) {
        let (gpus, kinds) = (self.cluster.gpus(), self.cluster.kinds().len());
        self.seats.grow(gpus);
        self.awaiting.resize(gpus, Vec::new());
        self.nodes.resize(self.cluster.nodes().len(), NodeState::default());
        if !new_kind {
            return;
        }
        for class in self.classes.values_mut() {
            class.rates.resize(kinds, 0.0);
            class.spread_rates.resize(kinds, [0.0; Spread::ALL.len()]);
            class.seen_rates.resize(kinds, 0.0);
            class.fastest_first.extend((class.fastest_first.len()..kinds).map(|j| KindId(j as u16)));
        }
        // Until they are answered anew, rows say of the new kind that nothing fits there.
        let known: BTreeSet<RateQuery> = self.estimates.asks().chain(self.asked.keys().copied()).collect();
        for ask in known {
            self.asked.insert(ask, self.round);
            out.push(Output::Estimate(ask));
        }
    }

    /// Changes what is known of nodes; returns what happened in words, if anything did.
    fn take_in(&mut self, change: &ClusterChange, applied: &Applied, before: &str) -> Option<String> {
        let node = self.cluster.node(applied.node);
        let state = &mut self.nodes[applied.node.index()];
        match change {
            ClusterChange::Join(_) if !applied.changed => None,
            ClusterChange::Join(_) if !applied.joined => Some(format!("has {}", amounts(node.cpus, node.memory_gib))),
            ClusterChange::Join(spec) => Some(match applied.replaced {
                None => format!("joined with {} × {}", spec.gpus, spec.kind.name),
                Some(_) => format!("joined with {} × {}; it had {before}", spec.gpus, spec.kind.name),
            }),
            ClusterChange::Remove { why, .. } => Some(with_reason("was removed", why)),
            ClusterChange::Drain { why, deadline, .. } => {
                let since = state.drain.as_ref().map_or(self.now, |drain| drain.since);
                let deadline = deadline.map(|at| Time(at.0.saturating_add(self.set_back_micros)));
                state.drain = Some(Drain { why: why.clone(), deadline, since });
                let by = deadline.map(|at| format!("drains, to be empty in {}", explain::span(at.since(self.now))));
                Some(with_reason(by.as_deref().unwrap_or("drains"), why))
            }
            ClusterChange::Undrain { .. } => {
                state.drain = None;
                Some("takes jobs again".into())
            }
            ClusterChange::GpusLost { gpus, why, .. } => {
                let fresh: Vec<u32> = gpus.iter().copied().filter(|&gpu| state.lost_gpus.insert(gpu)).collect();
                (!fresh.is_empty()).then(|| with_reason(&format!("lost {}", gpu_list(&fresh)), why))
            }
            ClusterChange::GpusBack { gpus, .. } => {
                let back: Vec<u32> = gpus.iter().copied().filter(|gpu| state.lost_gpus.remove(gpu)).collect();
                (!back.is_empty()).then(|| format!("has {} back", gpu_list(&back)))
            }
            ClusterChange::CorrectKind { kind, .. } => {
                applied.changed.then(|| format!("has {} GPUs, not {before}", kind.name))
            }
            ClusterChange::AddMode { mode, .. } => applied.changed.then(|| format!("may be run as {}", mode.name)),
        }
    }

    /// GPUs that a node has before a change, for the record.
    fn describe(&self, change: &ClusterChange) -> String {
        let kind = |node: &str| {
            self.cluster.find(node).map(|id| {
                let node = self.cluster.node(id);
                (node.gpus, self.cluster.kind(node.kind).name.as_str())
            })
        };
        match change {
            ClusterChange::Join(spec) => kind(&spec.name).map_or_else(String::new, |(n, kind)| format!("{n} × {kind}")),
            ClusterChange::CorrectKind { node, .. } => kind(node).map_or_else(String::new, |(_, kind)| kind.into()),
            _ => String::new(),
        }
    }

    /// Takes jobs off GPUs that they cannot have any longer.
    fn leave_barred(&mut self, change: &ClusterChange, applied: &Applied, out: &mut Vec<Output>) {
        let Applied { node, replaced, .. } = *applied;
        match change {
            ClusterChange::Join(_) => {
                if let Some(old) = replaced {
                    self.leave_node(old, out);
                }
            }
            ClusterChange::Remove { .. } => self.leave_node(node, out),
            ClusterChange::GpusLost { .. } => {
                self.drop_barred_targets();
                let slots = self.holders(Self::lost);
                slots.into_iter().for_each(|slot| self.stop(slot, AfterStop::Replan, out));
            }
            ClusterChange::Drain { .. } => {
                self.drop_barred_targets();
                // Gangs that nobody has seen run have nothing to lose.
                for slot in self.on_nodes(&[node]) {
                    if matches!(self.jobs.get(slot).phase, Phase::Starting(..)) {
                        self.stop(slot, AfterStop::Replan, out);
                    }
                }
            }
            ClusterChange::CorrectKind { .. } if applied.changed => self.correct_gangs(node, out),
            _ => {}
        }
    }

    /// A node has left: its gangs are stopped, and nobody waits for its GPUs.
    fn leave_node(&mut self, node: NodeId, out: &mut Vec<Output>) {
        let cluster = &self.cluster;
        self.nodes[node.index()].drain = None;
        self.strangers.retain(|_, gpus| {
            let empty = gpus.is_empty();
            gpus.retain(|&gpu| cluster.node_of(gpu) != node);
            empty || !gpus.is_empty()
        });
        self.drop_barred_targets();
        for slot in self.on_nodes(&[node]) {
            self.stop(slot, AfterStop::Replan, out);
        }
    }

    /// Gangs on a node whose GPUs are of another kind than was thought.
    fn correct_gangs(&mut self, node: NodeId, out: &mut Vec<Output>) {
        let kind = self.cluster.node(node).kind;
        let touches = |gang: &Gang| gang.gpus.iter().any(|&gpu| self.cluster.node_of(gpu) == node);
        let targets: Vec<Slot> = self
            .jobs
            .placed()
            .filter(|(_, job)| job.target.as_deref().is_some_and(touches))
            .map(|(slot, _)| slot)
            .collect();
        targets.into_iter().for_each(|slot| self.drop_target(slot));
        for slot in self.on_nodes(&[node]) {
            let job = self.jobs.get(slot);
            let gang = job.phase.occupied().expect("it is on the node");
            if !gang.gpus.iter().all(|&gpu| self.cluster.node_of(gpu) == node) {
                self.stop(slot, AfterStop::Replan, out);
                continue;
            }
            let speed = self.classes[&job.class].speed(kind, gang.spread);
            self.credit(slot);
            let mut job = self.jobs.get_mut(slot);
            if let Phase::Starting(gang, _) | Phase::Running(gang) | Phase::Stopping(gang, ..) = &mut job.phase {
                gang.kind = kind;
                // Nobody knows yet how fast it is there: as fast as was thought, then.
                gang.speed = if speed > 0.0 { speed } else { gang.speed };
            }
        }
    }

    /// Stops gangs on drained nodes whose deadline the next round would be too late for.
    pub(super) fn meet_deadlines(&mut self, out: &mut Vec<Output>) {
        let next_too_late = self.now.after(2.0 * self.settings.round_seconds);
        let due = |state: &NodeState| state.drain.as_ref().and_then(|drain| drain.deadline) < Some(next_too_late);
        let has_deadline = |state: &NodeState| state.drain.as_ref().is_some_and(|drain| drain.deadline.is_some());
        let nodes = self.nodes.iter().zip(0..).filter(|(state, _)| has_deadline(state) && due(state));
        let nodes: Vec<NodeId> = nodes.map(|(_, n)| NodeId(n)).collect();
        for slot in self.on_nodes(&nodes) {
            self.stop(slot, AfterStop::Replan, out);
        }
    }

    /// Jobs that hold a GPU of which this is true.
    fn holders(&self, of: impl Fn(&Self, GpuId) -> bool) -> Vec<Slot> {
        let holds = |job: &Job| job.phase.held().is_some_and(|gang| gang.gpus.iter().any(|&gpu| of(self, gpu)));
        self.jobs.holding().filter(|(_, job)| holds(job)).map(|(slot, _)| slot).collect()
    }

    /// Nobody waits any longer for GPUs that get no gangs.
    fn drop_barred_targets(&mut self) {
        let barred = |job: &Job| job.target.iter().flat_map(|gang| &gang.gpus).any(|&gpu| self.barred(gpu));
        let slots: Vec<Slot> = self.jobs.placed().filter(|(_, job)| barred(job)).map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.drop_target(slot));
    }

    fn lost(&self, gpu: GpuId) -> bool {
        let node = self.cluster.node_of(gpu);
        let lost = &self.nodes[node.index()].lost_gpus;
        !lost.is_empty() && lost.contains(&(gpu.0 - self.cluster.node(node).first_gpu.0))
    }

    /// Whether a GPU gets no gangs because of a change of the cluster.
    fn barred(&self, gpu: GpuId) -> bool {
        let node = self.cluster.node_of(gpu);
        self.cluster.node(node).removed || self.nodes[node.index()].drain.is_some() || self.lost(gpu)
    }

    /// Whether gangs may be sent to a GPU now.
    pub(super) fn takes_gangs(&self, gpu: GpuId) -> bool {
        self.within_reach(self.cluster.node_of(gpu)) && !self.barred(gpu)
    }

    /// Why a job lost its place, for the record.
    pub(super) fn why_moved(&self, slot: Slot) -> String {
        let gpus = self.jobs.get(slot).phase.occupied().map_or(&[][..], |gang| &gang.gpus);
        let Some(&gpu) = gpus.iter().find(|&&gpu| self.barred(gpu)) else {
            let mut kinds = gpus.iter().map(|&gpu| self.cluster.kind_of(gpu));
            let first = kinds.next();
            let mixed = kinds.any(|kind| Some(kind) != first);
            let why = if mixed { "the GPUs of its nodes are of different kinds" } else { "it had to leave its node" };
            return why.into();
        };
        let node = self.cluster.node_of(gpu);
        let name = &self.cluster.node(node).name;
        match &self.nodes[node.index()].drain {
            _ if self.cluster.node(node).removed => format!("its node '{name}' was removed"),
            _ if self.lost(gpu) => format!("a GPU of its node '{name}' was lost"),
            Some(drain) => with_reason(&format!("its node '{name}' drains"), &drain.why),
            None => format!("its node '{name}' takes no jobs"),
        }
    }

    /// The drain that ends a gang's stay, if one does: its node, and the time left where there is a deadline.
    pub(super) fn drain_of(&self, gang: &Gang) -> Option<(NodeId, &Drain)> {
        let nodes = gang.gpus.iter().map(|&gpu| self.cluster.node_of(gpu));
        let drains = nodes.filter_map(|node| Some((node, self.nodes[node.index()].drain.as_ref()?)));
        drains.min_by_key(|(_, drain)| drain.deadline.unwrap_or(Time(u64::MAX)))
    }
}

fn with_reason(what: &str, why: &str) -> String {
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}

fn amounts(cpus: Option<f64>, memory_gib: Option<f64>) -> String {
    let amount = |x: Option<f64>, what: &str| x.map_or(format!("{what} not counted"), |x| format!("{x} {what}"));
    format!("{}, {}", amount(cpus, "CPUs"), amount(memory_gib, "GiB of memory"))
}

fn gpu_list(gpus: &[u32]) -> String {
    let list: Vec<String> = gpus.iter().map(u32::to_string).collect();
    format!("GPU{} {}", if gpus.len() == 1 { "" } else { "s" }, list.join(", "))
}
