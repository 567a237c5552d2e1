//! Pods that are one job: those of one Job, those with one gang's label, or one by itself.

use super::fit::Room;
use super::kueue::Workload;
use super::mark::{self, GANG, Mark, PODS};
use super::object::{Job, Meta, Pod, Words};
use crate::intake::Arrival;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// What a group is called for as long as it exists. Pods come and go in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct GroupKey {
    pub(super) sort: Sort,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Of the Job, of a single pod's controller or the pod; empty for a label.
    pub(super) uid: String,
}

/// What makes pods one job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Sort {
    /// A Job of `batch/v1`: all its pods.
    Job,
    /// The label `arles/gang`: whoever made them.
    Gang,
    /// A pod by itself; its controller, if it has one, makes another of the same name.
    Pod,
    /// A Workload of Kueue's, whoever it was made for; arles gives advice about it.
    Workload,
}

impl Sort {
    const ALL: [(Self, &str); 4] =
        [(Self::Job, "job"), (Self::Gang, "gang"), (Self::Pod, "pod"), (Self::Workload, "workload")];
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sort = Sort::ALL.iter().find(|(sort, _)| *sort == self.sort).map_or("", |(_, word)| word);
        write!(f, "{sort}/{}/{}@{}", self.namespace, self.name, self.uid)
    }
}

impl GroupKey {
    /// The group that a pod is of.
    pub(super) fn of(pod: &Pod) -> Self {
        let Meta { namespace, name, uid, labels, .. } = &pod.metadata;
        let key = |sort, name: &str, uid: &str| Self {
            sort,
            namespace: namespace.clone(),
            name: name.into(),
            uid: uid.into(),
        };
        if let Some(gang) = labels.get(GANG) {
            return key(Sort::Gang, gang, "");
        }
        match pod.metadata.controller() {
            Some(owner) if owner.kind == "Job" => key(Sort::Job, &owner.name, &owner.uid),
            Some(owner) => key(Sort::Pod, name, &owner.uid),
            None => key(Sort::Pod, name, uid),
        }
    }

    /// The group of all pods of a Job.
    pub(super) fn of_job(job: &Job) -> Self {
        let Meta { namespace, name, uid, .. } = &job.metadata;
        Self { sort: Sort::Job, namespace: namespace.clone(), name: name.clone(), uid: uid.clone() }
    }

    /// Its name with the number of GPUs that it asked for: a group that asks for another number is another job.
    pub(super) fn external(&self, gpus: u32) -> String {
        format!("kubernetes:{self}#{gpus}")
    }

    /// Reads what [`GroupKey::external`] wrote, with or without the number of a life after the first.
    pub(super) fn parse_external(name: &str) -> Option<(Self, u32)> {
        let (name, gpus) = name.strip_prefix("kubernetes:")?.rsplit_once('#')?;
        let gpus = gpus.split_once('~').map_or(gpus, |(gpus, _)| gpus);
        let (name, uid) = name.rsplit_once('@')?;
        let mut words = name.splitn(3, '/');
        let (word, namespace, name) = (words.next()?, words.next()?, words.next()?);
        let sort = Sort::ALL.iter().find(|(_, sort)| *sort == word)?.0;
        Some((Self { sort, namespace: namespace.into(), name: name.into(), uid: uid.into() }, gpus.parse().ok()?))
    }
}

/// What a group's pods come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// There is nothing of it.
    Absent,
    /// No pod has a place.
    Waiting,
    /// Some pods have one, and not all run.
    Starting,
    /// All pods run.
    Running,
    /// All pods that are there have been told to go.
    Leaving,
    /// It ended with success.
    Completed,
    /// It failed, why, and with which code.
    Failed(String, Option<i32>),
}

/// A group and its pods as of the last look.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) key: GroupKey,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) job: Option<Arc<Job>>,
    /// What Kueue admits, where that is what makes it one job.
    pub(super) workload: Option<Arc<Workload>>,
}

impl Group {
    /// Pods that it has when it is whole.
    pub(super) fn size(&self) -> u32 {
        if self.workload.is_some() {
            return self.unmade().len() as u32;
        }
        let said = self.pods.iter().find_map(|pod| pod.metadata.annotations.get(PODS)?.trim().parse().ok());
        said.or_else(|| self.job.as_ref().map(|job| job.size())).unwrap_or(1)
    }

    /// Pods that should run at once now.
    fn wanted_now(&self) -> u32 {
        self.job.as_ref().map_or(self.size(), |job| job.wanted_now())
    }

    /// Pods that wait for arles.
    pub(super) fn waiting<'g>(&'g self, scheduler_name: &'g str) -> impl Iterator<Item = &'g Arc<Pod>> {
        self.pods.iter().filter(|pod| pod.waits() && pod.hold(scheduler_name).is_some())
    }

    /// GPUs of all its pods, if it is whole. Pods of one Job are alike.
    pub(super) fn gpus(&self) -> Option<u32> {
        if self.workload.is_some() {
            return Some(self.unmade().iter().map(|pod| Room::of_pod(pod).gpus).sum::<f64>() as u32);
        }
        let unmade = self.unmade();
        let live: Vec<&Arc<Pod>> = self.pods.iter().filter(|pod| !pod.is_over()).chain(&unmade).collect();
        if live.iter().any(|pod| pod.spec.claimed.is_unknown) {
            return None;
        }
        let each: Vec<f64> = live.iter().map(|pod| Room::of_pod(pod).gpus).collect();
        let size = self.size() as usize;
        let total = match (each.len(), self.key.sort) {
            (0, _) => return None,
            (_, Sort::Job) => each[0] * size as f64,
            (there, _) if there < size => return None,
            _ => each.iter().sum(),
        };
        Some(total as u32)
    }

    /// What its user wrote on it to say whose it is.
    pub(super) fn labels(&self) -> Option<&Words> {
        let job = self.job.as_ref().map(|job| &job.metadata.labels);
        job.or_else(|| self.pods.first().map(|pod| &pod.metadata.labels))
    }

    /// The pods that a suspended Job would have, or a Workload.
    fn unmade(&self) -> Vec<Arc<Pod>> {
        if let Some(workload) = &self.workload {
            return workload.samples();
        }
        let job = self.job.as_ref().filter(|job| self.pods.is_empty() && job.waits_as_a_whole());
        job.map_or_else(Vec::new, |job| std::iter::repeat_n(Arc::new(job.sample()), job.size() as usize).collect())
    }

    /// The resources that its pods ask GPUs as.
    pub(super) fn gpu_resources(&self) -> BTreeSet<String> {
        let unmade = self.unmade();
        let pods = self.pods.iter().chain(&unmade);
        pods.flat_map(|pod| pod.gpu_resources().into_iter().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// What its pods come to. `is_lost` says whose node is lost: a pod that was told to go there is gone, as far as anybody can know.
    pub(super) fn stage(&self, scheduler_name: &str, is_lost: impl Fn(&Pod) -> bool) -> Stage {
        if let Some(workload) = &self.workload {
            return match workload.ended() {
                Some(Ok(())) => Stage::Completed,
                Some(Err(why)) => Stage::Failed(why, None),
                None if workload.is_admitted() => Stage::Running,
                None => Stage::Waiting,
            };
        }
        let placed: Vec<&Arc<Pod>> = self.pods.iter().filter(|pod| pod.is_placed(scheduler_name)).collect();
        let placed: Vec<_> = placed.into_iter().filter(|pod| !(pod.is_leaving() && is_lost(pod))).collect();
        // Whoever was told to go ends as it must, and that is nobody's failure.
        let failed = self.pods.iter().find(|pod| pod.status.phase == "Failed" && !pod.is_leaving());
        if placed.is_empty() {
            if let Some(condition) = self.job.as_ref().and_then(|job| job.condition("Failed")) {
                let code = failed.and_then(|pod| pod.exit_code());
                let said = code.map_or_else(String::new, |code| format!(" with exit code {code}"));
                let why = format!("its Job failed{said}: {} {}", condition.reason, condition.message);
                return Stage::Failed(why, code);
            }
            if self.job.as_ref().is_some_and(|job| job.condition("Complete").is_some()) {
                return Stage::Completed;
            }
            if let Some(ended) = self.ended(failed) {
                return ended;
            }
            let there = self.job.is_some() || self.pods.iter().any(|pod| pod.waits());
            return if there { Stage::Waiting } else { Stage::Absent };
        }
        if placed.iter().all(|pod| pod.is_leaving()) {
            return Stage::Leaving;
        }
        let running = placed.iter().filter(|pod| pod.runs()).count();
        if running > 0 && running >= self.wanted_now() as usize { Stage::Running } else { Stage::Starting }
    }

    /// How pods have ended where no Job counts them. One that failed may be replaced, if it has a controller.
    fn ended(&self, failed: Option<&Arc<Pod>>) -> Option<Stage> {
        if self.job.is_some() {
            return None;
        }
        if let Some(pod) = failed.filter(|pod| pod.metadata.controller().is_none()) {
            return Some(failure(pod));
        }
        let done = self.pods.iter().filter(|pod| pod.status.phase == "Succeeded").count();
        (done > 0 && done >= self.size() as usize).then_some(Stage::Completed)
    }

    /// A pod that failed and that nobody replaces, as its group's failure.
    pub(super) fn failure(&self) -> Option<Stage> {
        let failed = self.pods.iter().find(|pod| pod.status.phase == "Failed" && !pod.is_leaving());
        failed.filter(|_| !self.pods.iter().any(|pod| pod.waits())).map(|pod| failure(pod))
    }

    /// The marks of pods that have a place.
    pub(super) fn marks(&self, scheduler_name: &str) -> impl Iterator<Item = Mark> {
        let placed = self.pods.iter().filter(move |pod| pod.is_placed(scheduler_name) || pod.is_over());
        let advised = self.workload.iter().filter_map(|workload| Mark::read(&workload.metadata));
        placed.filter_map(|pod| Mark::read(&pod.metadata)).chain(advised)
    }

    /// The job that it is, if it is whole and waits to be taken.
    pub(super) fn arrival(&self, tenant: &str, scheduler_name: &str) -> Option<Arrival> {
        let unmade = self.unmade();
        let is_advised = self.workload.is_some();
        let waiting: Vec<&Arc<Pod>> = self.waiting(scheduler_name).filter(|_| !is_advised).chain(&unmade).collect();
        let size = self.size();
        let is_settled =
            |meta: &Meta| [mark::REFUSED, mark::RELEASED].iter().any(|key| meta.annotations.contains_key(*key));
        let settled = |pod: &&Arc<Pod>| is_settled(&pod.metadata);
        let is_over = |job: &Job| ["Complete", "Failed"].iter().any(|kind| job.condition(kind).is_some());
        let is_job_settled = self.job.as_ref().is_some_and(|job| is_settled(&job.metadata) || is_over(job));
        let is_workload_settled =
            |workload: &Arc<Workload>| is_settled(&workload.metadata) || workload.ended().is_some();
        if self.workload.as_ref().is_some_and(is_workload_settled) {
            return None;
        }
        if waiting.len() < size.max(1) as usize || is_job_settled || waiting.iter().any(settled) {
            return None;
        }
        if !is_advised && self.pods.iter().any(|pod| pod.is_placed(scheduler_name)) {
            return None;
        }
        let room = waiting.iter().map(|pod| Room::of_pod(pod)).fold(Room::default(), Room::plus);
        let wrong = Self::wrong_claims(&waiting, scheduler_name);
        let asked = self.gpus();
        let gang = asked.or((!wrong.is_empty()).then_some(0))?;
        let mut wishes = waiting[0].wishes();
        match wrong.is_empty() {
            true => wishes.wrong.extend(self.wrong(gang)),
            false => wishes.wrong.extend(wrong),
        }
        let kinds: BTreeSet<String> = waiting.iter().flat_map(|pod| pod.products()).collect();
        let each = f64::from(gang.max(1));
        Some(Arrival {
            external: self.key.external(gang),
            shown: format!("{}/{}", self.key.namespace, self.key.name),
            command: "kubectl",
            name: self.key.name.clone(),
            tenant: tenant.to_owned(),
            gang,
            kinds: kinds.into_iter().collect(),
            cpus_per_gpu: room.cpus / each,
            memory_gib_per_gpu: room.memory_bytes / (1u64 << 30) as f64 / each,
            wishes,
        })
    }

    fn wrong(&self, gang: u32) -> Option<String> {
        if gang == 0 {
            return Some(format!(
                "it asks for no GPU, and arles places pods with GPUs; leave {} and the scheduler's name out",
                mark::GATE
            ));
        }
        let said = self.pods.iter().find_map(|pod| pod.metadata.annotations.get(PODS));
        match said {
            Some(text) if !text.trim().parse::<u32>().is_ok_and(|pods| pods > 0) => {
                Some(format!("{PODS} is '{text}'; expected the number of the gang's pods, such as 4"))
            }
            None if self.key.sort == Sort::Gang => Some(format!(
                "pods with the label {GANG} say with the annotation {PODS} how many they are; it is missing"
            )),
            _ => None,
        }
    }

    /// What it says of itself: for pods that were taken before.
    pub(super) fn is_released(&self) -> bool {
        let metas = self.pods.iter().map(|pod| &pod.metadata).chain(self.job.iter().map(|job| &job.metadata));
        let metas = metas.chain(self.workload.iter().map(|workload| &workload.metadata));
        metas.into_iter().any(|meta| meta.annotations.contains_key(mark::RELEASED))
    }
}

fn failure(pod: &Pod) -> Stage {
    let (code, status) = (pod.exit_code(), &pod.status);
    let why = match code {
        Some(code) => format!("its pod {} ended with exit code {code}", pod.shown()),
        None => format!("its pod {} failed: {}", pod.shown(), format!("{} {}", status.reason, status.message).trim()),
    };
    Stage::Failed(why, code)
}

impl Default for Group {
    fn default() -> Self {
        let key = GroupKey { sort: Sort::Pod, namespace: String::new(), name: String::new(), uid: String::new() };
        Self { key, pods: Vec::new(), job: None, workload: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn group(pods: &[Value], job: Option<Value>) -> Group {
        let pods: Vec<Arc<Pod>> = pods.iter().map(|pod| Arc::new(from_value(pod.clone()).expect("a pod"))).collect();
        let job = job.map(|job| Arc::new(from_value(job).expect("a job")));
        Group { key: GroupKey::of(&pods[0]), pods, job, workload: None }
    }

    fn pod(node: Option<&str>, phase: &str) -> Value {
        let owner = json!({"kind": "Job", "name": "train", "uid": "u1", "controller": true});
        let containers = json!([{"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "4", "memory": "8Gi"}}}]);
        json!({
            "metadata": {"namespace": "team", "name": "train-x", "ownerReferences": [owner]},
            "spec": {"schedulerName": "arles", "nodeName": node, "containers": containers},
            "status": {"phase": phase}
        })
    }

    fn stage(group: &Group) -> Stage {
        group.stage("arles", |_| false)
    }

    #[test]
    fn a_group_is_found_again_by_its_name() {
        let found = group(&[pod(None, "Pending")], None).key;
        assert_eq!(found.external(4), "kubernetes:job/team/train@u1#4");
        for name in ["kubernetes:job/team/train@u1#4", "kubernetes:job/team/train@u1#4~2"] {
            assert_eq!(GroupKey::parse_external(name), Some((found.clone(), 4)));
        }
        for wrong in ["slurm:6@7", "kubernetes:job/team@u#1", "kubernetes:deployment/a/b@c#1", "kubernetes:job/a/b@c#x"]
        {
            assert_eq!(GroupKey::parse_external(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_job_is_offered_when_all_its_pods_wait() {
        let two = || Some(json!({"spec": {"parallelism": 2, "completions": 8}}));
        assert!(group(&[pod(None, "Pending")], two()).arrival("team", "arles").is_none(), "one pod is missing");
        let whole = group(&[pod(None, "Pending"), pod(None, "Pending")], two());
        let arrival = whole.arrival("vision", "arles").expect("it is whole");
        assert_eq!((arrival.gang, arrival.cpus_per_gpu, arrival.memory_gib_per_gpu), (4, 2.0, 4.0));
        assert_eq!((arrival.shown.as_str(), arrival.tenant.as_str()), ("team/train", "vision"));
        let half = group(&[pod(None, "Pending"), pod(None, "Pending"), pod(Some("n0"), "Running")], two());
        assert!(half.arrival("team", "arles").is_none(), "it runs somewhere");
    }

    #[test]
    fn a_gang_runs_when_all_its_pods_run() {
        let job = || Some(json!({"spec": {"parallelism": 2}}));
        assert_eq!(stage(&group(&[pod(None, "Pending"), pod(None, "Pending")], job())), Stage::Waiting);
        assert_eq!(stage(&group(&[pod(Some("n0"), "Running"), pod(None, "Pending")], job())), Stage::Starting);
        assert_eq!(stage(&group(&[pod(Some("n0"), "Running"), pod(Some("n0"), "Running")], job())), Stage::Running);
        let complete = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(stage(&group(&[pod(Some("n0"), "Succeeded")], Some(complete))), Stage::Completed);
    }

    #[test]
    fn a_pod_that_ends_because_it_was_told_to_go_has_not_failed() {
        let mut alone = pod(Some("n0"), "Failed");
        alone["metadata"]["ownerReferences"] = json!([]);
        assert!(matches!(stage(&group(&[alone.clone()], None)), Stage::Failed(..)));
        alone["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        assert_eq!(stage(&group(&[alone], None)), Stage::Absent);
    }

    #[test]
    fn a_pod_that_was_told_to_go_on_a_lost_node_is_gone() {
        let mut leaving = pod(Some("n0"), "Running");
        leaving["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        let group = group(&[leaving, pod(None, "Pending")], Some(json!({})));
        assert_eq!(stage(&group), Stage::Leaving);
        assert_eq!(group.stage("arles", |_| true), Stage::Waiting);
    }
}
