//! The cluster as readers see it.
//!
//! It follows what the scheduler says ([`Output::Cluster`](arles_core::Output)). Numbers of nodes, GPUs and kinds never change their meaning, so
//! everything that is kept by number only grows. Which nodes are drained and which GPUs are lost is in the nodes' statuses.

use super::Book;
use arles_core::engine::KindMeter;
use arles_core::{Cluster, GpuId, JobId, KindId, NodeId, Time};
use std::sync::Arc;

impl Book {
    /// The cluster as it is now.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        self.cluster.as_ref().expect("set when it was made or restored")
    }

    /// Whether a GPU cannot be used although its node can.
    pub(crate) fn is_lost(&self, gpu: GpuId) -> bool {
        let node = self.cluster().node_of(gpu);
        let on_node = gpu.0 - self.cluster().node(node).first_gpu.0;
        self.nodes.get(node.index()).is_some_and(|status| status.lost_gpus.contains(&on_node))
    }

    /// Whether a node gets no new gangs because somebody said so.
    pub(crate) fn is_drained(&self, node: NodeId) -> bool {
        self.nodes.get(node.index()).is_some_and(|status| status.drain.is_some())
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
}
