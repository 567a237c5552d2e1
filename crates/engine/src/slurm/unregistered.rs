//! Nodes that slurmctld has not heard of since it started.
//!
//! A controller that starts again knows its jobs at once and the devices of a node only when the node registers, some seconds later. In between it starts
//! jobs on nodes where it knows others to run, and these get no device at all (22.05: `gpu:v100:0(IDX:)`, no CUDA_VISIBLE_DEVICES): they fail, or use GPUs
//! that are somebody else's. So nothing is released to such a node, and a job that came to be there nevertheless, in the moment between the look at the
//! nodes and its release, starts again.

use super::Slurm;
use super::gang::Phase;
use super::record::{JobRecord, NodeRecord, Stage};
use arles_core::JobId;
use arles_core::engine::EngineError;
use std::time::{Duration, Instant};

/// Nodes are looked at again before a release if the last look is older than this: one call for all starts of a decision.
const FRESH: Duration = Duration::from_secs(1);

impl Slurm {
    /// Asks Slurm for its nodes, and notes when: one look serves all starts of a second.
    pub(super) fn look_at_nodes(&mut self) -> Result<(), EngineError> {
        self.nodes = self.controller.nodes()?;
        self.nodes_looked = Some(Instant::now());
        Ok(())
    }

    /// Whether slurmctld knows the devices of all these nodes.
    pub(super) fn have_registered(&mut self, names: &[String]) -> Result<bool, EngineError> {
        if self.nodes_looked.is_none_or(|looked| looked.elapsed() > FRESH) {
            self.look_at_nodes()?;
        }
        let waits = |node: &NodeRecord| names.contains(&node.name) && !node.has_registered();
        Ok(!self.nodes.iter().any(waits))
    }

    /// Has a job that runs without its devices start again where it is.
    pub(super) fn restart_without_devices(&mut self, id: JobId, record: &JobRecord) {
        let Some(gang) = self.jobs.get_mut(&id).and_then(|entry| entry.gang.as_mut()) else { return };
        let runs = matches!(gang.phase, Phase::Released | Phase::Running) && record.stage() == Stage::Running;
        if runs && record.lacks_devices() {
            tracing::warn!(
                "Slurm started job {} without its GPUs, as it does just after slurmctld has started: it starts again",
                id.0
            );
            gang.phase = Phase::Running;
            self.reseat(id);
        }
    }
}
