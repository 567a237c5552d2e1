//! A look at a cluster in parts, so that whoever takes it in can do something else in between.
//!
//! The parts of a survey lead to what the whole leads to, because each gang is shown with the last of its nodes: when that
//! part comes, everything that the survey has to say about the gang is known. Of meters all parts but the last have jobs
//! alone; the last has the kinds too, and completes the reading.

use super::Meters;
use crate::scheduler::{ObservedGang, Survey};
use crate::{Cluster, GpuId};

impl Survey {
    /// The same as several surveys of the same moment, each of nodes with about `gpus` GPUs; to be taken in one after the other.
    #[must_use]
    pub fn in_parts(self, cluster: &Cluster, gpus: usize) -> Vec<Self> {
        let Self { at, nodes, gangs } = self;
        let part = || Self { at, nodes: Vec::new(), gangs: Vec::new() };
        let (mut parts, mut counted) = (vec![part()], 0);
        let mut part_of = vec![None; cluster.nodes().len()];
        for seen in nodes {
            if counted >= gpus.max(1) {
                parts.push(part());
                counted = 0;
            }
            if let Some(node) = cluster.nodes().get(seen.node.index()) {
                part_of[seen.node.index()] = Some(parts.len() - 1);
                counted += node.gpu_range().len();
            }
            parts.last_mut().expect("there is one").nodes.push(seen);
        }
        let last = parts.len() - 1;
        let known = |gpu: &GpuId| (gpu.index() < cluster.gpus()).then(|| cluster.node_of(*gpu));
        let part_with = |gang: &ObservedGang| {
            let nodes = gang.gpus.iter().filter_map(known);
            // Of a gang on no node that answered nothing more is to come: it may be the last word as well as any.
            nodes.filter_map(|node| part_of[node.index()]).max().unwrap_or(last)
        };
        for gang in gangs {
            parts[part_with(&gang)].gangs.push(gang);
        }
        parts
    }
}

impl Meters {
    /// The same reading in parts with so many jobs each, the last of which [completes](Self::completes) it.
    #[must_use]
    pub fn in_parts(self, jobs: usize) -> Vec<Self> {
        let mut parts: Vec<Self> = self
            .jobs
            .chunks(jobs.max(1))
            .map(|jobs| Self { boot: self.boot, jobs: jobs.to_vec(), ..Self::default() })
            .collect();
        if parts.is_empty() {
            parts.push(Self { boot: self.boot, ..Self::default() });
        }
        let last = parts.last_mut().expect("there is one");
        (last.kinds, last.gpu_watts) = (self.kinds, self.gpu_watts);
        parts
    }

    /// Whether nothing more of the same reading follows.
    #[must_use]
    pub fn completes(&self) -> bool {
        !self.kinds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{JobMeter, KindMeter};
    use crate::meter::Charge;
    use crate::scheduler::{Fence, GangState, ObservedNode};
    use crate::{JobId, Library, NodeId, Time};

    fn gang(job: u64, gpus: &[u32]) -> ObservedGang {
        let gpus = gpus.iter().copied().map(GpuId).collect();
        ObservedGang { job: JobId(job), fence: Fence(job), gpus, steps_done: 0.0, state: GangState::Running }
    }

    #[test]
    fn a_gang_comes_with_the_last_of_its_nodes() {
        let kind = Library::builtin().kind("v100").unwrap().clone();
        let cluster = Cluster::uniform(vec![kind], &[12], 2).unwrap();
        // Node 4 does not answer, and node 5 answers first.
        let nodes = [5, 0, 1, 2, 3].map(|node| ObservedNode { node: NodeId(node), up: true }).to_vec();
        let gangs = vec![gang(1, &[0, 7]), gang(2, &[1]), gang(3, &[8, 10]), gang(4, &[99]), gang(5, &[3, 11])];
        let whole = Survey { at: Time(7), nodes: nodes.clone(), gangs };
        let parts = whole.clone().in_parts(&cluster, 4);
        let shown: Vec<(Vec<u32>, Vec<u64>)> = parts
            .iter()
            .map(|part| {
                (
                    part.nodes.iter().map(|seen| seen.node.0).collect(),
                    part.gangs.iter().map(|gang| gang.job.0).collect(),
                )
            })
            .collect();
        assert_eq!(shown, [(vec![5, 0], vec![2, 3]), (vec![1, 2], vec![5]), (vec![3], vec![1, 4])]);
        assert!(parts.iter().all(|part| part.at == Time(7)));
        assert_eq!(whole.clone().in_parts(&cluster, 1000), [whole]);
        let nobody = Survey { at: Time(7), nodes: Vec::new(), gangs: Vec::new() };
        assert_eq!(nobody.clone().in_parts(&cluster, 4), [nobody]);
    }

    #[test]
    fn the_last_part_of_a_reading_completes_it() {
        let meter =
            |job| JobMeter { job: JobId(job), charge: Charge::default(), gpu_seconds: 1.0, steps: 1.0, rate: 1.0 };
        let jobs: Vec<JobMeter> = (1..=5).map(meter).collect();
        let whole = Meters { boot: 3, jobs: jobs.clone(), kinds: vec![KindMeter::default()], gpu_watts: vec![7.0] };
        let parts = whole.clone().in_parts(2);
        assert_eq!(parts.iter().map(Meters::completes).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(parts.iter().flat_map(|part| part.jobs.clone()).collect::<Vec<_>>(), jobs);
        assert!(parts.iter().all(|part| part.boot == 3));
        let without_jobs = Meters { jobs: Vec::new(), ..whole };
        assert_eq!(without_jobs.clone().in_parts(2), [without_jobs]);
    }
}
