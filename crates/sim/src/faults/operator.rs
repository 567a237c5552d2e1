//! The operator's part of a run: changes of the cluster, jobs that are held and released, GPUs that are lost.

use super::counts::Fault;
use super::driver::{Run, SimEvent};
use super::plan::{Operation, amounts};
use arles_core::{ClusterChange, GpuId, Input, JobId, Kind, Library, NodeId, NodeSpec, Time};

/// Nodes that always stay: a cluster without any is nobody's.
const FEWEST_NODES: usize = 2;
/// An operator hears of a lost GPU within this time, on average.
const HEARD_SECONDS: f64 = 60.0;

impl Run<'_> {
    /// Does what an operator does, or lets happen what happens to a GPU. Whoever finds the daemon away does not ask again.
    pub(super) fn operate(&mut self, operation: Operation) {
        if self.now < self.down_until {
            return;
        }
        match operation {
            Operation::LoseGpu => self.lose_gpu(),
            Operation::ReturnGpu => self.return_gpu(),
            Operation::Hold => self.hold(),
            Operation::Release => self.release(),
            Operation::Nonsense => self.nonsense(),
            Operation::Join => {
                let name = format!("m{}", self.change_rng.below(6));
                if self.world.cluster().find(&name).is_none() {
                    let spec = self.some_node(name);
                    self.ask(Fault::NodeJoined, ClusterChange::Join(spec));
                }
            }
            _ => {
                if let Some(node) = self.some_present() {
                    self.change_node(operation, node);
                }
            }
        }
    }

    /// What an operator may do to a node that has not left.
    fn change_node(&mut self, operation: Operation, id: NodeId) {
        let (node, kind) = {
            let node = self.world.cluster().node(id);
            (node.clone(), self.world.cluster().kind(node.kind).clone())
        };
        let why = "an operator wants it".to_owned();
        match operation {
            Operation::Replace => {
                let spec = self.some_node(node.name);
                if (&spec.kind.name, spec.gpus) != (&kind.name, node.gpus) {
                    self.ask(Fault::NodeReplaced, ClusterChange::Join(spec));
                }
            }
            Operation::Resize => {
                let [cpus, memory_gib] = amounts(node.gpus, &mut self.change_rng);
                let spec = NodeSpec { name: node.name, kind, gpus: node.gpus, cpus, memory_gib, rack: None };
                self.ask(Fault::NodeResized, ClusterChange::Join(spec));
            }
            Operation::Remove if self.world.cluster().present().count() > FEWEST_NODES => {
                let unreached = self.cut[id.index()];
                let fault = if unreached { Fault::NodeRemovedUnreached } else { Fault::NodeRemoved };
                self.ask(fault, ClusterChange::Remove { node: node.name, why });
            }
            Operation::Drain(seconds) => {
                let deadline: Option<Time> = seconds.map(|seconds| self.clock().after(seconds));
                let fault = if deadline.is_some() { Fault::NodeDrainedByDeadline } else { Fault::NodeDrained };
                self.ask(fault, ClusterChange::Drain { node: node.name, why, deadline });
            }
            Operation::Undrain => {
                let drained =
                    self.scheduler.node_statuses().nth(id.index()).is_some_and(|status| status.drain.is_some());
                if drained {
                    self.ask(Fault::NodeUndrained, ClusterChange::Undrain { node: node.name });
                }
            }
            Operation::Correct => {
                let kind = self.some_kind();
                self.ask(Fault::KindCorrected, ClusterChange::CorrectKind { node: node.name, kind });
            }
            _ => {}
        }
    }

    /// A GPU stops working. The operator hears of it later, or never, if the daemon is away then.
    fn lose_gpu(&mut self) {
        let Some(node) = self.some_present() else { return };
        let range = self.world.cluster().node(node).gpu_range();
        let gpu = GpuId(range.start + self.change_rng.below(u64::from(range.end - range.start)) as u32);
        if self.world.is_lost(gpu) {
            return;
        }
        self.counts.count(Fault::GpuLost);
        for report in self.world.lose_gpu(self.now, gpu) {
            self.report(report);
        }
        let (node, gpus) = self.by_name(gpu);
        self.heard(ClusterChange::GpusLost { node, gpus, why: "it fell off the bus".into() });
    }

    fn return_gpu(&mut self) {
        let cluster = self.world.cluster();
        let lost = (0..cluster.gpus() as u32).map(GpuId).filter(|&gpu| self.world.is_lost(gpu));
        let lost: Vec<GpuId> = lost.filter(|&gpu| !cluster.node(cluster.node_of(gpu)).removed).collect();
        let Some(&gpu) = lost.get(self.change_rng.below(lost.len() as u64) as usize) else { return };
        self.counts.count(Fault::GpuReturned);
        self.world.return_gpu(self.now, gpu);
        let (node, gpus) = self.by_name(gpu);
        self.heard(ClusterChange::GpusBack { node, gpus });
    }

    fn heard(&mut self, change: ClusterChange) {
        let later = self.now.after(self.change_rng.exponential(HEARD_SECONDS));
        self.at(later, SimEvent::Heard(change));
    }

    /// A GPU as operators name it.
    fn by_name(&self, gpu: GpuId) -> (String, Vec<u32>) {
        let cluster = self.world.cluster();
        let node = cluster.node(cluster.node_of(gpu));
        (node.name.clone(), vec![gpu.0 - node.first_gpu.0])
    }

    fn hold(&mut self) {
        let live: Vec<JobId> = self.checks.live().map(|spec| spec.id).collect();
        if let Some(&job) = live.get(self.change_rng.below(live.len() as u64) as usize) {
            self.counts.count(Fault::JobHeld);
            self.tell(Input::Hold(job));
        }
    }

    fn release(&mut self) {
        let held: Vec<JobId> = self.checks.held().collect();
        if let Some(&job) = held.get(self.change_rng.below(held.len() as u64) as usize) {
            self.counts.count(Fault::JobReleased);
            self.tell(Input::Release(job));
        }
    }

    fn nonsense(&mut self) {
        let (node, why) = ("nowhere".to_owned(), String::new());
        let change = match self.change_rng.below(4) {
            0 => ClusterChange::Remove { node, why },
            1 => ClusterChange::Undrain { node },
            2 => ClusterChange::GpusLost { node: self.world.cluster().nodes()[0].name.clone(), gpus: vec![99], why },
            _ => ClusterChange::Join(NodeSpec { gpus: 0, ..self.some_node("m9".into()) }),
        };
        self.ask(Fault::ChangeRefused, change);
    }

    fn ask(&mut self, fault: Fault, change: ClusterChange) {
        self.counts.count(fault);
        self.tell(Input::Cluster(change));
    }

    fn some_node(&mut self, name: String) -> NodeSpec {
        let kind = self.some_kind();
        let gpus = [1, 2, 4, 8][self.change_rng.below(4) as usize];
        let [cpus, memory_gib] = amounts(gpus, &mut self.change_rng);
        NodeSpec { name, kind, gpus, cpus, memory_gib, rack: None }
    }

    /// A kind that the cluster has, or any of the library's.
    fn some_kind(&mut self) -> Kind {
        let (known, library) = (self.world.cluster().kinds(), Library::builtin().kinds());
        let kinds = if self.change_rng.chance(0.7) { known } else { library };
        let kind = &kinds[self.change_rng.below(kinds.len() as u64) as usize];
        // A name means one thing: figures that differ would be a mistake of somebody's.
        known.iter().find(|there| there.name == kind.name).unwrap_or(kind).clone()
    }

    fn some_present(&mut self) -> Option<NodeId> {
        let mut present: Vec<NodeId> = self.world.cluster().present().map(|(id, _)| id).collect();
        // Nodes that cannot be reached are where changes go wrong.
        if self.change_rng.chance(0.3) && present.iter().any(|node| self.cut[node.index()]) {
            present.retain(|node| self.cut[node.index()]);
        }
        present.get(self.change_rng.below(present.len() as u64) as usize).copied()
    }
}
