//! CPUs and memory of hosts: what is left of them beside the GPUs, and for how many GPUs of a job that is enough.
//!
//! Nodes may count their CPUs, their memory, both or neither; what is not counted is never short. Amounts are sums of what jobs ask for
//! and are compared with a tolerance far below any real CPU, so that taking and giving back many times cannot lose one.

use crate::live::{Jobs, Seats};
use crate::{Cluster, GpuId, KindId, Needs, Node, NodeId};

/// Amounts that are this much apart, relative to what there is, are the same.
const TOLERANCE: f64 = 1e-6;

/// CPUs and memory.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Amounts {
    cpus: f64,
    memory_gib: f64,
}

impl Amounts {
    fn of(node: &Node) -> Self {
        let amount = |counted: Option<f64>| counted.map_or(f64::INFINITY, |x| x + TOLERANCE * (1.0 + x));
        Self { cpus: amount(node.cpus), memory_gib: amount(node.memory_gib) }
    }

    /// GPUs of a job that this is enough for.
    fn gpus(self, needs: &Needs) -> u32 {
        // A cast to an integer takes what is below zero as zero and what is too large as the largest.
        let times = |left: f64, need: f64| if need > 0.0 { (left / need).floor() as u32 } else { u32::MAX };
        times(self.cpus, needs.cpus_per_gpu).min(times(self.memory_gib, needs.memory_gib_per_gpu))
    }

    fn take(&mut self, needs: &Needs, gpus: f64) {
        self.cpus -= gpus * needs.cpus_per_gpu;
        self.memory_gib -= gpus * needs.memory_gib_per_gpu;
    }
}

/// What is left on every node. Costs nothing, and is never short of anything, where nobody counts.
#[derive(Clone, Default, Debug)]
pub(crate) struct HostRoom {
    /// By node; empty where nobody counts.
    left: Vec<Amounts>,
}

impl HostRoom {
    /// Everything that nodes have.
    pub(crate) fn reset(&mut self, cluster: &Cluster) {
        self.left.clear();
        if Self::counted(cluster) {
            self.left.extend(cluster.nodes().iter().map(Amounts::of));
        }
    }

    /// What is left beside everybody who is on a GPU now.
    pub(crate) fn beside_all(cluster: &Cluster, seats: &Seats, jobs: &Jobs) -> Self {
        let mut room = Self::default();
        room.reset(cluster);
        if room.counts() {
            for gpu in (0..cluster.gpus() as u32).map(GpuId) {
                let node = cluster.node_of(gpu);
                seats.on(gpu).for_each(|slot| room.take(node, &jobs.get(slot).spec.needs, 1));
            }
        }
        room
    }

    /// Whether any node of a cluster counts CPUs or memory.
    pub(crate) fn counted(cluster: &Cluster) -> bool {
        cluster.present().any(|(_, node)| node.cpus.is_some() || node.memory_gib.is_some())
    }

    /// Whether anybody counts.
    pub(crate) fn counts(&self) -> bool {
        !self.left.is_empty()
    }

    /// GPUs of a job that a node has enough for.
    pub(crate) fn gpus(&self, node: NodeId, needs: &Needs) -> u32 {
        self.left.get(node.index()).map_or(u32::MAX, |left| left.gpus(needs))
    }

    /// The same once others have left the node: their needs and GPUs.
    pub(crate) fn gpus_without<'n>(
        &self,
        node: NodeId,
        needs: &Needs,
        leaving: impl Iterator<Item = (&'n Needs, u32)>,
    ) -> u32 {
        let Some(mut left) = self.left.get(node.index()).copied() else { return u32::MAX };
        leaving.for_each(|(needs, gpus)| left.take(needs, -f64::from(gpus)));
        left.gpus(needs)
    }

    pub(crate) fn take(&mut self, node: NodeId, needs: &Needs, gpus: u32) {
        if let Some(left) = self.left.get_mut(node.index()) {
            left.take(needs, f64::from(gpus));
        }
    }

    fn give_back(&mut self, node: NodeId, needs: &Needs, gpus: u32) {
        if let Some(left) = self.left.get_mut(node.index()) {
            left.take(needs, -f64::from(gpus));
        }
    }

    /// Takes what a gang needs on all its nodes, or nothing if one of them has not enough (which is returned).
    pub(crate) fn take_gang(&mut self, cluster: &Cluster, needs: &Needs, gpus: &[GpuId]) -> Result<(), NodeId> {
        if !self.counts() || needs.only_gpus() {
            return Ok(());
        }
        for (at, &gpu) in gpus.iter().enumerate() {
            let node = cluster.node_of(gpu);
            if self.gpus(node, needs) == 0 {
                self.give_gang_back(cluster, needs, &gpus[..at]);
                return Err(node);
            }
            self.take(node, needs, 1);
        }
        Ok(())
    }

    pub(crate) fn give_gang_back(&mut self, cluster: &Cluster, needs: &Needs, gpus: &[GpuId]) {
        if self.counts() {
            gpus.iter().for_each(|&gpu| self.give_back(cluster.node_of(gpu), needs, 1));
        }
    }
}

/// Nodes that are alike, counted: what a gang could have if it were alone.
#[derive(Clone, Default, Debug)]
pub(crate) struct Shapes {
    /// (kind, GPUs, amounts, nodes of this shape); empty where nobody counts.
    shapes: Vec<(KindId, u32, Amounts, u32)>,
}

impl Shapes {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let mut shapes: Vec<(KindId, u32, Amounts, u32)> = Vec::new();
        if HostRoom::counted(cluster) {
            for (_, node) in cluster.present() {
                let (kind, gpus, amounts) = (node.kind, node.gpus, Amounts::of(node));
                match shapes.iter_mut().find(|shape| (shape.0, shape.1, shape.2) == (kind, gpus, amounts)) {
                    Some(shape) => shape.3 += 1,
                    None => shapes.push((kind, gpus, amounts, 1)),
                }
            }
        }
        Self { shapes }
    }

    /// Whether the nodes of a kind, all free, have enough CPUs and memory for a gang, or for as much
    /// of it as they have GPUs for.
    pub(crate) fn enough(&self, kind: KindId, gang: u32, needs: &Needs) -> bool {
        if self.shapes.is_empty() || needs.only_gpus() {
            return true;
        }
        let (mut all, mut room) = (0, 0);
        for &(_, gpus, amounts, nodes) in self.shapes.iter().filter(|shape| shape.0 == kind) {
            all += u64::from(nodes) * u64::from(gpus);
            room += u64::from(nodes) * u64::from(gpus.min(amounts.gpus(needs)));
        }
        room >= u64::from(gang).min(all)
    }
}
