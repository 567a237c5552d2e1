//! What a survey shows.

use super::gang::Phase;
use super::look::Queue;
use super::mark::Mark;
use super::record::{HeldGpus, JobRecord, Stage, indices};
use super::{FOREIGN, Slurm, program};
use arles_core::estimate::{Observation, RateQuery};
use arles_core::scheduler::{Fence, GangState, ObservedGang, ObservedNode};
use arles_core::{GpuId, JobId, NodeSpec, Time};
use std::collections::BTreeSet;

impl Slurm {
    /// Nodes of the cluster that Slurm has, and whether they can run anything.
    pub(super) fn observed_nodes(&self) -> Vec<ObservedNode> {
        let up = |name: &str| self.nodes.iter().find(|node| node.name == name).map(super::record::NodeRecord::up);
        self.cluster.present().filter_map(|(node, spec)| Some(ObservedNode { node, up: up(&spec.name)? })).collect()
    }

    /// Gangs of arles' jobs, gangs that an earlier daemon started and this one does not know, and everybody else's.
    pub(super) fn observed_gangs(&self) -> Vec<ObservedGang> {
        let mut gangs: Vec<ObservedGang> = Vec::new();
        for (&job, entry) in &self.jobs {
            let Some(gang) = &entry.gang else { continue };
            let state = match &gang.phase {
                Phase::Over(state, _) => state.clone(),
                Phase::Wanted | Phase::Released if !gang.told => continue,
                _ => GangState::Running,
            };
            let (fence, gpus) = (gang.fence, gang.gpus.clone());
            gangs.push(ObservedGang { job, fence, gpus, steps_done: entry.steps, state });
        }
        let mut taken: BTreeSet<GpuId> = self.taken();
        let mut devices: BTreeSet<(String, u32)> = self.own_devices();
        let bound: BTreeSet<&str> = self.jobs.values().filter_map(|entry| entry.slurm.as_deref()).collect();
        for record in &self.queue.records {
            if !matches!(record.stage(), Stage::Running | Stage::Completing)
                || bound.contains(record.slurm_name().as_str())
            {
                continue;
            }
            gangs.extend(self.stranger(record, &mut taken, &mut devices));
        }
        gangs
    }

    fn taken(&self) -> BTreeSet<GpuId> {
        let gangs = self.jobs.values().filter_map(|entry| entry.gang.as_ref()).filter(|gang| gang.holds());
        gangs.flat_map(|gang| gang.gpus.iter().copied()).collect()
    }

    /// Devices of which arles' jobs have shards: others may have the rest of them.
    fn own_devices(&self) -> BTreeSet<(String, u32)> {
        let records = self.jobs.values().filter_map(|entry| self.record(entry)).filter(|record| record.shards() > 0);
        let running = records.filter(|record| matches!(record.stage(), Stage::Running | Stage::Completing));
        let first = |record: &JobRecord| Some((record.nodes.clone(), *indices(record.gres_detail.first()?).first()?));
        running.filter_map(first).collect()
    }

    /// A job with GPUs that is not among arles' live ones. Of several that have shards of one device, the first stands for all.
    fn stranger(
        &self,
        record: &JobRecord,
        taken: &mut BTreeSet<GpuId>,
        devices: &mut BTreeSet<(String, u32)>,
    ) -> Option<ObservedGang> {
        let running = |job, fence, gpus| ObservedGang { job, fence, gpus, steps_done: 0.0, state: GangState::Running };
        if let Some(mark) = Mark::read(&record.admin_comment).filter(|mark| mark.journal == self.journal) {
            let gang = mark.gang.filter(|_| !self.cancelled.contains(&record.slurm_name()))?;
            return (record.stage() == Stage::Running).then(|| running(mark.job, gang.fence, gang.gpus));
        }
        let mut gpus = Vec::new();
        for (name, held) in record.held_gpus() {
            let count = match held {
                HeldGpus::Whole(count) => count,
                HeldGpus::Shards(device) => u32::from(devices.insert((name.clone(), device))),
            };
            let Some((_, node)) = self.cluster.present().find(|(_, node)| node.name == name) else { continue };
            // Which ones does not matter, as long as they are not those of arles' own gangs.
            let free: Vec<GpuId> =
                node.gpu_range().rev().map(GpuId).filter(|gpu| !taken.contains(gpu)).take(count as usize).collect();
            taken.extend(&free);
            gpus.extend(free);
        }
        (!gpus.is_empty()).then(|| running(JobId(FOREIGN + record.job_id), Fence(0), gpus))
    }

    /// The nodes that Slurm has, where this engine finds them itself.
    pub(super) fn inventory(&self) -> Option<Vec<NodeSpec>> {
        let kind_of = self.options.kind_of.as_ref()?;
        Some(super::tools::node_specs(&self.nodes, kind_of))
    }

    /// Rates of programs whose count moved since the last look, between the moments at which they wrote it.
    pub(super) fn observe(&mut self, now: Time) -> Vec<Observation> {
        let (folder, watts) = (&self.options.folder, &self.account.watts);
        let measures = self.account.measures();
        let (partners, mut found) = (self.partners(), Vec::new());
        for (&id, entry) in &mut self.jobs {
            let Some(gang) = entry.gang.as_mut().filter(|gang| gang.phase == Phase::Running) else { continue };
            let partner = partners.get(&id).copied();
            if std::mem::replace(&mut gang.beside, partner.map(|(job, _)| job)) != gang.beside {
                // A rate is of one company: the next count begins another.
                gang.counted = None;
            }
            let (Some((steps, at)), Some((reached, later))) = (gang.counted, program::steps(folder, id)) else {
                continue;
            };
            let seconds = later.duration_since(at).map_or(0.0, |span| span.as_secs_f64());
            if reached <= steps || seconds <= 0.0 {
                continue;
            }
            gang.counted = Some((reached, later));
            entry.rate = (reached - steps) / seconds;
            let spec = &entry.live.spec;
            let drawn = gang.gpus.iter().map(|gpu| f64::from(watts[gpu.index()])).sum::<f64>() / gang.gpus.len() as f64;
            found.push(Observation {
                ask: RateQuery {
                    workload: spec.workload,
                    gang: spec.gang,
                    partner: partner.map(|(_, workload)| workload),
                },
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

    /// Looks at the whole queue since the start: for tests that wait for one.
    #[must_use]
    pub fn looks(&self) -> u64 {
        let Queue { looks, .. } = &self.queue;
        *looks
    }
}
