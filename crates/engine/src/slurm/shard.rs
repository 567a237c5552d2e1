//! Two jobs on one GPU, through Slurm's shards.
//!
//! Where the operator has cut GPUs into shards (`gres/shard`) and said so to arles, a single job asks Slurm for shards instead of for a GPU: all those of
//! one GPU while it is alone, and a part each while it is one of two. What Slurm (22.05) allows decides the rest:
//!
//! - A request for GPUs cannot be turned into one for shards, whether the job waits or not. So jobs must come with shards (`job_submit.lua` sees to
//!   that), and one that asks for `gpu:1` is never one of two.
//! - How many shards a job has cannot be changed while it runs. So one that is alone has all of them, and is *reseated* when another is to join it: it
//!   checkpoints, waits for a moment, and both start. Its gang stays what it is; only time is lost, as at a restart.
//! - Slurm picks the device: the first of the node with enough shards left. What is left of other devices decides where a part lands, so that is worked
//!   out from the last look before anything is released ([`Usage::landing`]). A job that is alone with part of a GPU, since its partner has left, is
//!   reseated with all of it before the next two are put together on that node; and of two that came to be on different devices, both are.
//!
//! Slurm counts shards, so no GPU is ever oversold, whatever is worked out here.

use super::Slurm;
use super::entry::Entry;
use super::gang::{Gang, Phase};
use super::record::{JobRecord, NodeRecord, Stage, gres, hosts, indices};
use arles_core::{GpuId, JobId, WorkloadId};
use std::collections::{BTreeMap, BTreeSet};

/// How often two jobs that Slurm put on different devices are put together again before the second one is given up for now.
const RESEATINGS: u8 = 2;

/// What a job must ask Slurm for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Berth {
    /// What it asks for already, as many on each node as its gang has there.
    Gpus,
    /// This many shards on each node.
    Shards(u32),
    /// Nothing yet: others have to make room first.
    NotYet,
}

/// What is taken of one device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct DeviceUse {
    shards: u32,
    /// Whether somebody has all of it as a GPU.
    whole: bool,
    jobs: BTreeSet<String>,
}

/// What is taken of a node's devices.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Usage {
    per_gpu: u32,
    devices: Vec<DeviceUse>,
}

impl Usage {
    fn of(node: &NodeRecord, records: &[JobRecord]) -> Self {
        let gpus = node.gpus().map_or(0, |(_, count)| count as usize);
        let mut usage = Self { per_gpu: node.shards_per_gpu(), devices: vec![DeviceUse::default(); gpus] };
        for record in records.iter().filter(|record| matches!(record.stage(), Stage::Running | Stage::Completing)) {
            let at = hosts(&record.nodes).into_iter().position(|name| name == node.name);
            let Some(detail) = at.and_then(|at| record.gres_detail.get(at)) else { continue };
            let shards = gres(detail, "shard").map_or(0, |(_, count)| count);
            for number in indices(detail) {
                let Some(device) = usage.devices.get_mut(number as usize) else { continue };
                device.shards += shards;
                device.whole |= shards == 0;
                device.jobs.insert(record.slurm_name());
            }
        }
        usage
    }

    /// The device that Slurm would give so many shards of: the first that has them.
    fn landing(&self, shards: u32) -> Option<u32> {
        let fits = |device: &DeviceUse| !device.whole && device.shards + shards <= self.per_gpu;
        self.devices.iter().position(fits).map(|at| at as u32)
    }
}

impl Slurm {
    /// Whether arles puts two jobs on GPUs of a node.
    fn shares(&self, node: &NodeRecord) -> bool {
        let kind = self.cluster.present().find(|(_, own)| own.name == node.name).map(|(_, own)| own.kind);
        node.shards_per_gpu() >= 2 && kind.is_some_and(|kind| self.cluster.kind(kind).max_jobs >= 2)
    }

    fn node_of(&self, gpu: GpuId) -> Option<&NodeRecord> {
        let name = &self.cluster.node(self.cluster.node_of(gpu)).name;
        self.nodes.iter().find(|node| node.name == *name)
    }

    /// Whether a job asks for shards. One that arles submits does so where it may have a partner.
    pub(super) fn is_sharded(&self, entry: &Entry) -> bool {
        if entry.is_native() {
            return self.record(entry).and_then(JobRecord::wanted).is_some_and(|wish| wish.sharded);
        }
        let gpus = entry.gang.as_ref().map_or(&[][..], |gang| &gang.gpus);
        entry.live.spec.gang == 1 && gpus.iter().all(|gpu| self.node_of(*gpu).is_some_and(|node| self.shares(node)))
    }

    /// Whether a gang may be given a partner later on, so that it is worth while to wait for one that comes at the same moment.
    pub(super) fn may_be_joined(&self, gang: &Gang) -> bool {
        matches!(gang.gpus[..], [gpu] if self.node_of(gpu).is_some_and(|node| self.shares(node)))
    }

    /// The other job on a single job's GPU.
    pub(super) fn partner(&self, id: JobId) -> Option<JobId> {
        let held = |entry: &Entry| match entry.gang.as_ref().filter(|gang| gang.holds())?.gpus[..] {
            [gpu] => Some(gpu),
            _ => None,
        };
        let gpu = held(self.jobs.get(&id)?)?;
        self.jobs.iter().find(|(other, entry)| **other != id && held(entry) == Some(gpu)).map(|(&other, _)| other)
    }

    /// Jobs that share a GPU, each with its partner and what that runs: for whoever measures rates.
    pub(super) fn partners(&self) -> BTreeMap<JobId, (JobId, WorkloadId)> {
        let singles = self.jobs.iter().filter(|(_, entry)| entry.running().is_some_and(|gang| gang.gpus.len() == 1));
        let with = singles.filter_map(|(&id, _)| Some((id, self.partner(id)?)));
        with.map(|(id, other)| (id, (other, self.jobs[&other].live.spec.workload))).collect()
    }

    /// What a job must ask for so that it gets its place. An error is why it cannot have it.
    pub(super) fn berth(&mut self, id: JobId) -> Result<Berth, String> {
        let entry = &self.jobs[&id];
        let Some(gang) = &entry.gang else { return Ok(Berth::NotYet) };
        if !self.is_sharded(entry) {
            return match self.partner(id) {
                Some(other) => Err(format!("it asks Slurm for a GPU and not for shards, and job {} is there", other.0)),
                None => Ok(Berth::Gpus),
            };
        }
        let counts: BTreeSet<u32> =
            gang.gpus.iter().map(|gpu| self.node_of(*gpu).map_or(0, NodeRecord::shards_per_gpu)).collect();
        let per_gpu = match counts.first() {
            Some(&count) if counts.len() == 1 && count > 0 => count,
            _ => return Err("it asks for shards, and its nodes have none, or different numbers to a GPU".into()),
        };
        match self.partner(id) {
            Some(other) => self.berth_beside(id, other, per_gpu),
            None => Ok(Berth::Shards(per_gpu)),
        }
    }

    /// The same for one of two. Which of them was there first does not matter.
    fn berth_beside(&mut self, id: JobId, other: JobId, per_gpu: u32) -> Result<Berth, String> {
        let partner = &self.jobs[&other];
        let (Some(gang), Some(node)) = (&partner.gang, self.gpu_of(id).and_then(|gpu| self.node_of(gpu))) else {
            return Ok(Berth::NotYet);
        };
        if !self.is_sharded(partner) || per_gpu < 2 {
            return Err(format!("job {} asked Slurm for a GPU and not for shards: nothing can run beside it", other.0));
        }
        let usage = Usage::of(node, &self.queue.records);
        let small = per_gpu / 2;
        match gang.phase {
            Phase::Running => {
                let left = per_gpu.saturating_sub(gang.shards);
                let device = self.device_of(partner);
                if left > 0 && device.is_some() && usage.landing(left) == device {
                    return Ok(Berth::Shards(left));
                }
                self.reseat_beside(other);
                Ok(Berth::NotYet)
            }
            Phase::Released if gang.shards < per_gpu => Ok(Berth::Shards(per_gpu - gang.shards)),
            Phase::Wanted | Phase::Reseating if self.has_left(partner) => {
                let share = if id < other { small } else { per_gpu - small };
                self.first_of_two(id, other, &usage)
                    .map(|ready| if ready { Berth::Shards(share) } else { Berth::NotYet })
            }
            _ => Ok(Berth::NotYet),
        }
    }

    /// Whether two jobs, released now, land on one device: on one that is free altogether.
    fn first_of_two(&mut self, id: JobId, other: JobId, usage: &Usage) -> Result<bool, String> {
        let node = |id: JobId| self.gpu_of(id).map(|gpu| self.cluster.node_of(gpu));
        let (here, part) = (node(id), usage.per_gpu / 2);
        let under_way = |(at, entry): (&JobId, &Entry)| {
            let gang = entry.gang.as_ref().filter(|gang| gang.phase == Phase::Released);
            *at != other && node(*at) == here && gang.is_some_and(|gang| (1..usage.per_gpu).contains(&gang.shards))
        };
        if self.jobs.iter().any(under_way) {
            return Ok(false);
        }
        let Some(device) = usage.landing(part) else { return Ok(false) };
        let found = &usage.devices[device as usize];
        if found.shards == 0 {
            return Ok(true);
        }
        // Somebody is there with part of a device, and this one would join it.
        let is_there = |entry: &Entry| entry.slurm.as_ref().is_some_and(|name| found.jobs.contains(name));
        let ours: Vec<JobId> = self.jobs.iter().filter(|(_, entry)| is_there(entry)).map(|(&at, _)| at).collect();
        if ours.is_empty() {
            return Err(format!(
                "shards of GPU {device} of its node are somebody else's, and Slurm would put it there"
            ));
        }
        let alone = |at: &JobId| self.partner(*at).is_none();
        let runs = |at: &JobId| self.jobs[at].gang.as_ref().is_some_and(|gang| gang.phase == Phase::Running);
        let moved: Vec<JobId> = ours.into_iter().filter(|at| alone(at) && runs(at)).collect();
        moved.into_iter().for_each(|at| self.reseat_beside(at));
        Ok(false)
    }

    fn gpu_of(&self, id: JobId) -> Option<GpuId> {
        self.jobs.get(&id)?.gang.as_ref()?.gpus.first().copied()
    }

    /// The device of a single job that runs.
    fn device_of(&self, entry: &Entry) -> Option<u32> {
        let record = self.record(entry).filter(|record| record.stage() == Stage::Running)?;
        indices(record.gres_detail.first()?).first().copied()
    }

    /// Whether a job has no GPU any more, or none yet.
    fn has_left(&self, entry: &Entry) -> bool {
        !self.record(entry).is_some_and(|record| matches!(record.stage(), Stage::Running | Stage::Completing))
    }

    fn reseat_beside(&mut self, id: JobId) {
        tracing::info!("job {} restarts, to share its GPU or to have all of it again", id.0);
        self.reseat(id);
    }

    /// Has a job that runs take its place anew. The next step is that it checkpoints.
    pub(super) fn reseat(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let Some(gang) = entry.gang.as_mut().filter(|gang| gang.phase == Phase::Running) else { return };
        (gang.phase, gang.running_since, gang.counted) = (Phase::Reseating, None, None);
        entry.vacated = None;
        entry.sent_shows();
    }

    /// Looks where Slurm put a job that has just started as one of two.
    pub(super) fn check_berth(&mut self, id: JobId) {
        let Some(other) = self.partner(id) else { return };
        let (own, theirs) = (self.device_of(&self.jobs[&id]), self.device_of(&self.jobs[&other]));
        let both_run =
            [id, other].iter().all(|at| self.jobs[at].running().is_some_and(|gang| gang.phase == Phase::Running));
        if own.is_none() || theirs.is_none() || own == theirs || !both_run {
            return;
        }
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let Some(gang) = entry.gang.as_mut() else { return };
        gang.reseatings += 1;
        if gang.reseatings <= RESEATINGS {
            self.reseat_beside(id);
            return self.reseat_beside(other);
        }
        gang.phase = Phase::Stopping;
        entry.put_off = Some(format!("Slurm put it on another GPU than job {}, again and again", other.0));
        entry.sent_shows();
    }

    /// Types of GPUs that arles puts two jobs on.
    pub(super) fn shared_types(&self) -> BTreeSet<String> {
        let shared = self.nodes.iter().filter(|node| self.shares(node));
        shared.filter_map(|node| node.gpus()?.0).collect()
    }
}

/// A request for shards, of the type that the job has named.
pub(super) fn request(kind: Option<&str>, shards: u32) -> String {
    kind.map_or_else(|| format!("shard:{shards}"), |kind| format!("shard:{kind}:{shards}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(job_id: u64, detail: &str) -> JobRecord {
        JobRecord {
            job_id,
            job_state: vec!["RUNNING".into()],
            nodes: "n".into(),
            gres_detail: vec![detail.into()],
            ..JobRecord::default()
        }
    }

    #[test]
    fn where_shards_land_is_worked_out_as_slurm_does() {
        let node = NodeRecord { name: "n".into(), gres: "gpu:a100:4,shard:a100:16".into(), ..NodeRecord::default() };
        let usage = |records: &[JobRecord]| Usage::of(&node, records);
        assert_eq!(usage(&[]).landing(4), Some(0));
        // As seen on Slurm 22.05: a part goes to the first device with room, and never to one that somebody has as a GPU.
        let four = running(1, "shard:4(IDX:0)");
        let gpu = running(2, "gpu:a100:1(IDX:1)");
        let half = running(3, "shard:2(IDX:2)");
        let found = usage(&[four, gpu, half.clone()]);
        assert_eq!((found.landing(2), found.landing(1), found.landing(4)), (Some(2), Some(2), Some(3)));
        let elsewhere = JobRecord { nodes: "m".into(), ..half.clone() };
        assert_eq!(usage(&[elsewhere]).landing(4), Some(0));
        let ended = JobRecord { job_state: vec!["COMPLETED".into()], ..half };
        assert_eq!(usage(&[ended]).landing(4), Some(0));
        let full: Vec<JobRecord> = (0..4).map(|at| running(at, &format!("shard:3(IDX:{at})"))).collect();
        assert_eq!((usage(&full).landing(2), usage(&full).landing(1)), (None, Some(0)));
    }

    #[test]
    fn a_request_names_the_type_that_the_job_named() {
        assert_eq!((request(None, 4), request(Some("a100"), 2)), ("shard:4".into(), "shard:a100:2".into()));
    }
}
