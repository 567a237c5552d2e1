//! What a survey shows.

use super::fit::Room;
use super::gang::Phase;
use super::group::GroupKey;
use super::object::{Node, Pod};
use super::{FOREIGN, Kubernetes, tools};
use crate::slurm::program::steps;
use arles_core::estimate::{Observation, RateQuery};
use arles_core::scheduler::{Fence, GangState, ObservedGang, ObservedNode};
use arles_core::{GpuId, JobId, NodeSpec, Time};
use std::collections::{BTreeMap, BTreeSet};

impl Kubernetes {
    /// Nodes of the cluster that Kubernetes has, and whether they can run anything.
    pub(super) fn observed_nodes(&self) -> Vec<ObservedNode> {
        let up = |name: &str| self.view.nodes.get(name).map(|node| Node::is_ready(node));
        self.cluster.present().filter_map(|(node, spec)| Some(ObservedNode { node, up: up(&spec.name)? })).collect()
    }

    /// Gangs of arles' jobs, gangs that an earlier daemon started and this one does not know, and everybody else's pods with GPUs.
    pub(super) fn observed_gangs(&self) -> Vec<ObservedGang> {
        let mut gangs: Vec<ObservedGang> = Vec::new();
        let mut taken: BTreeSet<GpuId> = BTreeSet::new();
        for (&job, entry) in &self.jobs {
            let Some(gang) = &entry.gang else { continue };
            if gang.holds() {
                taken.extend(&gang.gpus);
            }
            let state = match &gang.phase {
                Phase::Over(state, _) => state.clone(),
                Phase::Wanted | Phase::Placed => continue,
                Phase::Running | Phase::Stopping => GangState::Running,
            };
            gangs.push(ObservedGang {
                job,
                fence: gang.fence,
                gpus: gang.gpus.clone(),
                steps_done: entry.steps,
                state,
            });
        }
        let mut strays: BTreeMap<(JobId, Fence), Vec<GpuId>> = BTreeMap::new();
        let mut others: Vec<&Pod> = Vec::new();
        let advised = self.advised_pods();
        let is_known = |pod: &Pod| self.is_of_gang(pod) || advised.contains(pod.metadata.uid.as_str());
        for pod in self.view.pods.iter().filter(|pod| pod.holds() && !is_known(pod)) {
            match self.own_mark(pod) {
                // It is on its way out, and whoever is next on its GPUs waits until it is gone.
                Some(_) if pod.is_leaving() => {}
                Some(mark) if !self.jobs.contains_key(&mark.job) => {
                    strays.insert((mark.job, mark.fence), mark.gpus);
                }
                _ => others.push(pod),
            }
        }
        for ((job, fence), gpus) in strays {
            taken.extend(&gpus);
            gangs.push(ObservedGang { job, fence, gpus, steps_done: 0.0, state: GangState::Running });
        }
        let pods = others.into_iter().map(|pod| (pod.node(), Room::of_pod(pod).gpus, &pod.metadata.uid));
        let loose = self.view.loose_claims.iter().filter(|claim| !claim.is_leaving);
        let loose = loose.map(|claim| (Some(claim.node.as_str()), f64::from(claim.gpus), &claim.uid));
        gangs.extend(pods.chain(loose).filter_map(|(node, gpus, uid)| self.stranger(node, gpus, uid, &mut taken)));
        gangs
    }

    /// Whether a pod is part of a gang that arles knows.
    fn is_of_gang(&self, pod: &Pod) -> bool {
        let Some(mark) = self.own_mark(pod) else { return false };
        let Some(entry) = self.jobs.get(&mark.job) else { return false };
        // Anybody can write a mark on a pod of theirs.
        let owned = match &entry.group {
            Some((key, _)) => *key == GroupKey::of(pod),
            None => pod.metadata.namespace == self.options.programs.namespace,
        };
        owned && entry.gang.as_ref().is_some_and(|gang| gang.holds() && gang.fence == mark.fence)
    }

    /// A pod, or a claim without one, with GPUs that are none of arles'. Which GPUs it has does not matter, as long as they are not those of arles' own gangs.
    fn stranger(&self, node: Option<&str>, gpus: f64, uid: &str, taken: &mut BTreeSet<GpuId>) -> Option<ObservedGang> {
        let (_, node) = self.cluster.present().find(|(_, there)| Some(there.name.as_str()) == node)?;
        let free = node.gpu_range().rev().map(GpuId).filter(|gpu| !taken.contains(gpu));
        let gpus: Vec<GpuId> = free.take(gpus as usize).collect();
        taken.extend(&gpus);
        let job = JobId(FOREIGN + number(uid));
        if gpus.is_empty() {
            return None;
        }
        Some(ObservedGang { job, fence: Fence(0), gpus, steps_done: 0.0, state: GangState::Running })
    }

    /// The nodes that Kubernetes has, where this engine finds them itself.
    pub(super) fn inventory(&self) -> Option<Vec<NodeSpec>> {
        let kind_of = self.options.kind_of.as_ref()?;
        Some(self.view.nodes.values().filter_map(|node| tools::node_spec(node, kind_of)).collect())
    }

    /// Rates of programs whose count moved since the last look, between the moments at which they wrote it.
    pub(super) fn observe(&mut self, now: Time) -> Vec<Observation> {
        let (measures, watts) = (self.account.measures(), &self.account.watts);
        let Some(shared) = &self.options.programs.folder else { return Vec::new() };
        let mut found = Vec::new();
        for (&id, entry) in &mut self.jobs {
            let Some(gang) = entry.gang.as_mut().filter(|gang| gang.phase == Phase::Running) else { continue };
            let (Some((before, at)), Some((reached, later))) = (gang.counted, steps(&shared.path, id)) else {
                continue;
            };
            let seconds = later.duration_since(at).map_or(0.0, |span| span.as_secs_f64());
            if reached <= before || seconds <= 0.0 {
                continue;
            }
            gang.counted = Some((reached, later));
            entry.rate = (reached - before) / seconds;
            let spec = &entry.live.spec;
            let drawn = gang.gpus.iter().map(|gpu| f64::from(watts[gpu.index()])).sum::<f64>() / gang.gpus.len() as f64;
            found.push(Observation {
                ask: RateQuery { workload: spec.workload, gang: spec.gang, partner: None },
                kind: gang.kind,
                spread: gang.spread,
                rate: entry.rate,
                watts: if measures { drawn } else { 0.0 },
                at: now,
                job: Some(id),
            });
        }
        found
    }
}

/// A number for a uid: its first 48 bits, which are random.
fn number(uid: &str) -> u64 {
    let digits: String = uid.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}
