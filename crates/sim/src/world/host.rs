//! CPUs and memory of hosts: what gangs take of them besides GPUs.
//!
//! The world keeps no accounts of them. It adds up what the gangs on a node were promised whenever one more is to start, from the seats:
//! a scheduler that counts differently is found out.

use super::*;
use arles_core::Needs;

/// Rounding of sums.
const SLACK: f64 = 1e-6;

impl World {
    /// Refuses a gang that a node has no room for.
    ///
    /// # Errors
    /// A sentence, and an incident.
    pub(super) fn check_room(&mut self, start: &Start) -> Result<(), String> {
        let needs = self.jobs[&start.job].spec.needs;
        if needs.none() {
            return Ok(());
        }
        let mut nodes: Vec<NodeId> = start.gpus.iter().map(|&gpu| self.cluster.node_of(gpu)).collect();
        nodes.sort_unstable();
        for gpus_here in nodes.chunk_by(|a, b| a == b) {
            let node = gpus_here[0];
            if let Some(what) = self.lacks(node, &needs, gpus_here.len() as f64) {
                self.incidents.push(Incident::NoRoom { node, newcomer: start.job, ordered: start.fence });
                let name = &self.cluster.node(node).name;
                return Err(format!("node '{name}' has too {what} for job {}", start.job.0));
            }
        }
        Ok(())
    }

    fn lacks(&self, node: NodeId, needs: &Needs, gpus: f64) -> Option<&'static str> {
        let host = self.cluster.node(node);
        let [cpus, memory_gib] = self.promised(node);
        let exceeds = |most: Option<f64>, sum: f64| most.is_some_and(|most| sum > most * (1.0 + SLACK) + SLACK);
        if self.cluster.kind(host.kind).memory_gib < needs.gpu_memory_gib {
            return Some("little memory on its GPUs");
        }
        if needs.cpus_per_gpu > 0.0 && exceeds(host.cpus, cpus + gpus * needs.cpus_per_gpu) {
            return Some("few CPUs");
        }
        let short =
            needs.memory_gib_per_gpu > 0.0 && exceeds(host.memory_gib, memory_gib + gpus * needs.memory_gib_per_gpu);
        short.then_some("little memory")
    }

    /// CPUs and GiB of memory that the gangs on a node were promised.
    #[must_use]
    pub fn promised(&self, node: NodeId) -> [f64; 2] {
        let mut sum = [0.0; 2];
        for job in self.cluster.node(node).gpu_range().flat_map(|g| self.on_gpu[g as usize]).flatten() {
            let needs = &self.jobs[&job].spec.needs;
            sum[0] += needs.cpus_per_gpu;
            sum[1] += needs.memory_gib_per_gpu;
        }
        sum
    }
}
