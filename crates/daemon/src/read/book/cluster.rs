//! The cluster as readers see it: which nodes there are, which of them are drained, which GPUs are lost.
//!
//! It follows what the scheduler says ([`Output::Cluster`](arles_core::Output)) and the changes that the scheduler did not refuse. Numbers of
//! nodes, GPUs and kinds never change their meaning, so everything that is kept by number only grows.

use super::Book;
use arles_core::engine::KindMeter;
use arles_core::scheduler::Event;
use arles_core::{Cluster, ClusterChange, GpuId, JobId, KindId, NodeId, Output, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why a node gets no new gangs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct NodeDrain {
    pub(crate) why: String,
    pub(crate) since: Time,
    pub(crate) deadline: Option<Time>,
}

/// What operators and engines said of nodes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NodeNotes {
    pub(crate) drains: BTreeMap<u32, NodeDrain>,
    /// GPUs that cannot be used, by their number in the cluster.
    pub(crate) lost: BTreeSet<u32>,
}

/// The node of this name that is there now.
pub(crate) fn node_named(cluster: &Cluster, name: &str) -> Option<NodeId> {
    let at = cluster.nodes().iter().rposition(|node| !node.removed && node.name == name);
    at.map(|at| NodeId(at as u32))
}

impl Book {
    /// The cluster as it is now.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        self.cluster.as_ref().expect("set when it was made or restored")
    }

    /// Follows the scheduler's cluster.
    pub(super) fn cluster_changed(&mut self, at: Time, cluster: &Arc<Cluster>) {
        let before = self.cluster.replace(Arc::clone(cluster));
        self.seats.resize(cluster.gpus(), [0; 2]);
        self.watts.resize(cluster.gpus(), 0.0);
        self.totals.kinds.resize(cluster.kinds().len(), KindMeter::default());
        for (before, now) in before.iter().flat_map(|before| before.nodes().iter().zip(cluster.nodes())) {
            if before.kind != now.kind {
                self.recount_holdings(at, now.gpu_range(), before.kind, now.kind);
            }
        }
    }

    /// GPUs that jobs hold turned out to be of another kind.
    fn recount_holdings(&mut self, at: Time, gpus: std::ops::Range<u32>, was: KindId, is: KindId) {
        for gpu in gpus {
            let tenant = |job: u64| self.jobs.get(&JobId(job)).map(|record| record.spec.tenant.index());
            let holders: Vec<usize> = self.seats[gpu as usize].into_iter().filter_map(tenant).collect();
            let part = 1.0 / holders.len().max(1) as f64;
            for tenant in holders {
                self.hold(at, tenant, was, -part);
                self.hold(at, tenant, is, part);
            }
        }
    }

    /// Takes in a change, unless the scheduler refused it.
    pub(super) fn note_change(&mut self, at: Time, change: &ClusterChange, outputs: &[Output]) {
        if outputs.iter().any(|output| matches!(output, Output::Note(Event::Refused { .. }))) {
            return;
        }
        let named = |name: &str| node_named(self.cluster(), name);
        let range = |node: &str| named(node).map(|id| self.cluster().node(id).gpu_range());
        match change {
            ClusterChange::Drain { node, why, deadline } => {
                if let Some(id) = named(node) {
                    let since = self.node_notes.drains.get(&id.0).map_or(at, |drain| drain.since);
                    let drain = NodeDrain { why: why.clone(), since, deadline: *deadline };
                    self.node_notes.drains.insert(id.0, drain);
                }
            }
            ClusterChange::Undrain { node } => {
                if let Some(id) = named(node) {
                    self.node_notes.drains.remove(&id.0);
                }
            }
            ClusterChange::GpusLost { node, gpus, .. } => {
                if let Some(range) = range(node) {
                    let numbers = gpus.iter().map(|gpu| range.start + gpu).filter(|gpu| range.contains(gpu));
                    self.node_notes.lost.extend(numbers);
                }
            }
            ClusterChange::GpusBack { node, gpus } => {
                if let Some(range) = range(node) {
                    self.node_notes.lost.retain(|gpu| !(range.contains(gpu) && gpus.contains(&(gpu - range.start))));
                }
            }
            ClusterChange::Join(_) | ClusterChange::Remove { .. } | ClusterChange::CorrectKind { .. } => {}
        }
        // Whatever was said of a node goes with it.
        let cluster = Arc::clone(self.cluster());
        let gone = |node: u32| cluster.nodes().get(node as usize).is_none_or(|node| node.removed);
        self.node_notes.drains.retain(|node, _| !gone(*node));
        self.node_notes.lost.retain(|gpu| (*gpu as usize) < cluster.gpus() && !gone(cluster.node_of(GpuId(*gpu)).0));
    }
}
