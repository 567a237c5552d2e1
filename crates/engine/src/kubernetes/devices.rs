//! Which card of a node each GPU of the cluster is, where metrics say which pod has which card.
//!
//! Orders name GPUs by number, and the device plugin or the default scheduler picks the cards. For placing it is enough that as many are taken; meters are of cards. A
//! job is charged with what was measured only on cards that are known to be its own. Where that is not known, the published power of the kind counts, and
//! nothing is learnt from it.

use super::Kubernetes;
use crate::metrics::short;
use arles_core::JobId;
use std::collections::{BTreeMap, BTreeSet};

/// The GPUs of one node, by who holds each.
struct NodeGpus<'n> {
    holders: &'n [Option<JobId>],
    /// Cards that are known to be of a job.
    known: BTreeMap<JobId, Vec<u32>>,
    /// Cards that some pod has.
    taken: BTreeSet<u32>,
}

impl NodeGpus<'_> {
    /// The card of each GPU, where it is known.
    fn cards(&self) -> Vec<Option<u32>> {
        let mut cards: Vec<Option<u32>> = vec![None; self.holders.len()];
        for (job, numbers) in &self.known {
            let own: Vec<usize> = (0..cards.len()).filter(|&at| self.holders[at] == Some(*job)).collect();
            own.into_iter().zip(numbers).for_each(|(at, &number)| cards[at] = Some(number));
        }
        // Those that are left may be told apart only if it does not matter which is which: all free, or all of one job.
        let left: Vec<usize> = (0..cards.len()).filter(|&at| cards[at].is_none()).collect();
        let holders: BTreeSet<Option<JobId>> = left.iter().map(|&at| self.holders[at]).collect();
        let ours = |number: &u32| self.known.values().flatten().any(|known| known == number);
        let free = (0..cards.len() as u32).filter(|number| !self.taken.contains(number));
        // GPUs that no job of arles' holds are free, or others'.
        let others = self.taken.iter().copied().filter(|number| !ours(number) && holders.contains(&None));
        if holders.len() == 1 {
            left.into_iter().zip(free.chain(others)).for_each(|(at, number)| cards[at] = Some(number));
        }
        cards
    }
}

impl Kubernetes {
    /// Finds out again which card each GPU of the cluster is.
    pub(super) fn find_devices(&mut self) {
        let mut holders: Vec<Option<JobId>> = vec![None; self.cluster.gpus()];
        let mut pods: BTreeMap<String, JobId> = BTreeMap::new();
        let users = self.account.device_users();
        for (&id, entry) in &self.jobs {
            let Some(gang) = entry.running() else { continue };
            gang.gpus.iter().for_each(|gpu| holders[gpu.index()] = Some(id));
            let group = if users.is_empty() { None } else { self.group(entry) };
            pods.extend(group.unwrap_or_default().pods.iter().map(|pod| (pod.shown(), id)));
        }
        let mut by_node: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
        for user in users {
            by_node.entry(user.node).or_default().push((user.device, user.pod));
        }
        let mut devices: Vec<Option<u32>> = vec![None; self.cluster.gpus()];
        for (_, node) in self.cluster.present() {
            let users = by_node.remove(&short(&node.name)).unwrap_or_default();
            let mut known: BTreeMap<JobId, Vec<u32>> = BTreeMap::new();
            for (device, pod) in &users {
                if let Some(job) = pods.get(pod) {
                    known.entry(*job).or_default().push(*device);
                }
            }
            let range = node.gpu_range().start as usize..node.gpu_range().end as usize;
            let taken = users.iter().map(|(device, _)| *device).collect();
            let cards = NodeGpus { holders: &holders[range.clone()], known, taken }.cards();
            devices[range].copy_from_slice(&cards);
        }
        self.devices = devices;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_those_of_a_jobs_pods_and_nobody_guesses() {
        let (a, b) = (Some(JobId(1)), Some(JobId(2)));
        let cards = |holders: &[Option<JobId>], known: &[(u64, &[u32])], others: &[u32]| {
            let known: BTreeMap<JobId, Vec<u32>> =
                known.iter().map(|(job, cards)| (JobId(*job), cards.to_vec())).collect();
            let taken = known.values().flatten().chain(others).copied().collect();
            NodeGpus { holders, known, taken }.cards()
        };
        let some = |numbers: &[u32]| numbers.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(cards(&[None; 4], &[], &[]), some(&[0, 1, 2, 3]), "nobody is there");
        assert_eq!(cards(&[a, a, b, None], &[(1, &[2, 3]), (2, &[0])], &[]), some(&[2, 3, 0, 1]));
        assert_eq!(cards(&[a, a], &[], &[]), some(&[0, 1]), "all of one job: which is which does not matter");
        assert_eq!(cards(&[a, a, b, None], &[], &[]), [None; 4], "no pod is named");
        assert_eq!(cards(&[a, a, b, b], &[(1, &[1, 2])], &[]), some(&[1, 2, 0, 3]), "the rest is of one job");
        assert_eq!(cards(&[a, None, None, None], &[(1, &[3])], &[0]), some(&[3, 1, 2, 0]), "a stranger has one");
        assert_eq!(cards(&[a, a], &[], &[0]), [Some(1), None], "somebody else is said to have the other");
    }
}
