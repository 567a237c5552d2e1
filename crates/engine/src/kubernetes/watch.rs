//! Watching a Kubernetes cluster without touching it: which pods with GPUs came, where they ran, and when they ended.
//!
//! All of them are watched, given to arles or not, and put together to jobs as arles would: this is how an operator finds out what arles would do before anything is
//! given to it. What was seen has the same form as with Slurm, and the same replay follows.
//!
//! Must never: send a call that changes something. It lists and watches, and nothing else is here.

use super::fit::Room;
use super::group::{Group, GroupKey, Sort};
use super::object::{Job, Pod};
use super::tools::Cluster;
use crate::slurm::{WatchedJob, WatchedRun};
use arles_core::engine::EngineError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was seen of a cluster so far.
pub struct Watch {
    there: Cluster,
    namespaces: Vec<String>,
    jobs: BTreeMap<GroupKey, WatchedJob>,
}

impl Watch {
    /// Looks at nothing yet. No namespaces are all of them.
    #[must_use]
    pub fn new(there: Cluster, namespaces: Vec<String>) -> Self {
        Self { there, namespaces, jobs: BTreeMap::new() }
    }

    /// Looks at all pods once; `now` in Unix seconds.
    ///
    /// # Errors
    /// When the cluster cannot be followed.
    pub fn look(&mut self, now: u64) -> Result<(), EngineError> {
        let view = self.there.view("")?;
        let mut groups: BTreeMap<GroupKey, Group> = BTreeMap::new();
        for pod in view.pods.iter().filter(|pod| Room::of_pod(pod).gpus >= 1.0) {
            let namespace = &pod.metadata.namespace;
            if !self.namespaces.is_empty() && !self.namespaces.contains(namespace) {
                continue;
            }
            let key = GroupKey::of(pod);
            let group = groups.entry(key.clone());
            let empty = || Group { key: key.clone(), pods: Vec::new(), job: view.job(&key), workload: None };
            group.or_insert_with(empty).pods.push(Arc::clone(pod));
        }
        for group in groups.values() {
            note(&mut self.jobs, group, view.tenant(group), now);
        }
        for (key, job) in self.jobs.iter_mut().filter(|(key, job)| !job.over && !groups.contains_key(*key)) {
            end(job, now);
            // A Job between two pods of its own makes another one.
            job.over = view.job(key).is_none_or(|job| is_over(&job));
        }
        Ok(())
    }

    /// Jobs that were seen, in the order of their submission.
    #[must_use]
    pub fn jobs(&self) -> Vec<&WatchedJob> {
        let mut jobs: Vec<&WatchedJob> = self.jobs.values().collect();
        jobs.sort_by_key(|job| (job.submitted, &job.slurm));
        jobs
    }
}

fn is_over(job: &Job) -> bool {
    ["Complete", "Failed"].iter().any(|kind| job.condition(kind).is_some())
}

/// Takes down what a group is by now.
fn note(jobs: &mut BTreeMap<GroupKey, WatchedJob>, group: &Group, tenant: &str, now: u64) {
    let live = |pod: &&Arc<Pod>| !pod.is_over();
    let Some(first) = group.pods.iter().find(live).or(group.pods.first()) else { return };
    let each = Room::of_pod(first).gpus;
    let count = group.pods.iter().filter(live).count().max(1);
    let pods = if group.key.sort == Sort::Job { group.size() as usize } else { count };
    let known = jobs.entry(group.key.clone()).or_insert_with(|| {
        let made = group.pods.iter().filter_map(|pod| unix_seconds(pod.metadata.creation_timestamp.as_deref()?));
        WatchedJob {
            slurm: format!("{}/{}", group.key.namespace, group.key.name),
            submitted: made.min().unwrap_or(now),
            name: group.key.name.clone(),
            account: tenant.to_owned(),
            gang: (each as usize * pods) as u32,
            kinds: first.products(),
            wishes: first.wishes(),
            runs: Vec::new(),
            over: false,
        }
    });
    let running: Vec<&Arc<Pod>> = group.pods.iter().filter(|pod| pod.runs()).collect();
    if running.is_empty() {
        end(known, now);
    } else if known.runs.last().is_none_or(|run| run.ended.is_some()) {
        let started = running.iter().filter_map(|pod| unix_seconds(pod.status.start_time.as_deref()?)).max();
        let nodes: BTreeSet<String> = running.iter().filter_map(|pod| pod.node().map(str::to_owned)).collect();
        let started = started.unwrap_or(now).min(now);
        known.runs.push(WatchedRun { started, ended: None, nodes: nodes.into_iter().collect() });
    }
    let ended = group.job.as_ref().map_or_else(|| group.pods.iter().all(|pod| pod.is_over()), |job| is_over(job));
    if ended {
        end(known, now);
        known.over = true;
    }
}

fn end(job: &mut WatchedJob, at: u64) {
    if let Some(run) = job.runs.last_mut().filter(|run| run.ended.is_none()) {
        run.ended = Some(at.max(run.started));
    }
}

/// A moment as Kubernetes writes it, `2023-11-14T22:13:20Z`.
fn unix_seconds(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok();
    let month = time::Month::try_from(u8::try_from(number(5, 7)?).ok()?).ok()?;
    let date = time::Date::from_calendar_date(number(0, 4)? as i32, month, number(8, 10)? as u8).ok()?;
    let clock = time::Time::from_hms(number(11, 13)? as u8, number(14, 16)? as u8, number(17, 19)? as u8).ok()?;
    u64::try_from(date.with_time(clock).assume_utc().unix_timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn group(phase: &str, conditions: &Value) -> Group {
        let owner = json!({"kind": "Job", "name": "train", "uid": "u", "controller": true});
        let pod: Pod = from_value(json!({
            "metadata": {"namespace": "team", "name": "train-x", "ownerReferences": [owner], "creationTimestamp": "1970-01-01T00:01:40Z",
                "annotations": {"arles/workload": "lm-b20"}},
            "spec": {"nodeName": "n0", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
            "status": {"phase": phase, "startTime": "1970-01-01T00:01:50Z"}
        }))
        .expect("a pod");
        let job: Job =
            from_value(json!({"spec": {"parallelism": 3}, "status": {"conditions": conditions}})).expect("a Job");
        Group { key: GroupKey::of(&pod), pods: vec![Arc::new(pod)], job: Some(Arc::new(job)), workload: None }
    }

    #[test]
    fn a_job_is_watched_from_its_first_pod_to_its_end() {
        let mut jobs = BTreeMap::new();
        let looks = [("Pending", json!([]), 105), ("Running", json!([]), 112), ("Running", json!([]), 130)];
        for (phase, conditions, at) in looks {
            note(&mut jobs, &group(phase, &conditions), "vision", at);
        }
        note(&mut jobs, &group("Succeeded", &json!([{"type": "Complete", "status": "True"}])), "vision", 140);
        let job = jobs.values().next().expect("one job");
        assert_eq!((job.slurm.as_str(), job.account.as_str(), job.gang), ("team/train", "vision", 6));
        assert_eq!((job.submitted, job.over, job.wishes.workload.as_deref()), (100, true, Some("lm-b20")));
        assert_eq!(job.runs, [WatchedRun { started: 110, ended: Some(140), nodes: vec!["n0".into()] }]);
    }

    #[test]
    fn moments_are_read() {
        assert_eq!(unix_seconds("2023-11-14T22:13:20Z"), Some(1_700_000_000));
        for wrong in ["", "yesterday", "2023-13-14T22:13:20Z", "2023-11-14T25:13:20Z"] {
            assert_eq!(unix_seconds(wrong), None, "{wrong}");
        }
    }
}
