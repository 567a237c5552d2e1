//! Giving pods their places and taking them back: everything that this engine changes in Kubernetes.

use super::Kubernetes;
use super::client::{ApiError, Call};
use super::fit::{Room, forbidden, unbindable};
use super::gang::Phase;
use super::group::Group;
use super::mark::{GATE, Hold, Mark};
use super::object::{Node, Pod};
use super::program::{Rank, manifest};
use crate::slurm::program::folder;
use arles_core::engine::EngineError;
use arles_core::{GpuId, JobId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// What a Job's controller has on each of its pods until it has counted how that one ended, since 1.26.
const TRACKED: &str = "batch.kubernetes.io/job-tracking";

/// A pod and the node that it gets.
type Place = (Arc<Pod>, Arc<Node>);

/// Why pods do not get their places.
enum Obstacle {
    /// What they need may be free soon: pods that were told to go are still there, or some of the gang's have not been made yet.
    NotYet,
    /// They cannot be there.
    Never(String),
}

impl Kubernetes {
    /// Gives those pods of a gang their places that have none: all of them, or none.
    pub(super) fn place(&mut self, id: JobId, group: &Group) -> Result<(), EngineError> {
        if !self.jobs[&id].is_native() {
            return self.make_pods(id, group);
        }
        if let Some(job) = group.job.as_ref().filter(|job| job.waits_as_a_whole()) {
            return self.resume(id, job);
        }
        let places = match self.places(id, group) {
            Ok(places) => places,
            Err(Obstacle::NotYet) => return Ok(()),
            Err(Obstacle::Never(why)) => return self.put_off(id, why),
        };
        if places.is_empty() {
            return Ok(());
        }
        let mark = self.mark(id);
        let calls = places.iter().map(|(pod, node)| self.admission(pod, node, &mark)).collect();
        let answers = self.act(calls)?;
        let (mut refusal, mut lost) = (None, None);
        for ((pod, node), answer) in places.iter().zip(answers) {
            match answer {
                Ok(_) => self.has_place(id, pod, node),
                Err(ApiError::Unreachable(why)) => lost = Some(why),
                // It was done before, or it is gone: the next look shows.
                Err(error) if error.is(409) || error.is(404) => {}
                Err(ApiError::Refused { message, .. }) => refusal = Some(message),
            }
        }
        let gang = self.jobs.get_mut(&id).and_then(|entry| entry.gang.as_mut()).expect("it is being placed");
        if gang.phase == Phase::Wanted {
            gang.phase = Phase::Placed;
        }
        match (lost, refusal) {
            (Some(why), _) => Err(EngineError(why)),
            (None, Some(why)) => {
                // Whatever of it got a place is taken back.
                gang.phase = Phase::Stopping;
                self.put_off(id, why)
            }
            (None, None) => Ok(()),
        }
    }

    fn has_place(&mut self, id: JobId, pod: &Arc<Pod>, node: &Arc<Node>) {
        let gang = self.jobs.get_mut(&id).and_then(|entry| entry.gang.as_mut()).expect("it is being placed");
        gang.placed.insert(pod.metadata.uid.clone());
        // What is left on the node counts from now on, and not from when the watch says so.
        let mut placed = Pod::clone(pod);
        placed.spec.node_name = Some(node.metadata.name.clone());
        self.show_pod(&placed);
        self.mirrors.pods.amend(placed);
    }

    /// What was just done is in the view, however long ago that was made.
    fn show_pod(&mut self, pod: &Pod) {
        self.view.amend(Arc::new(pod.clone()), &self.options.scheduler_name, &self.options.programs.namespace);
    }

    pub(super) fn mark(&self, id: JobId) -> Mark {
        let gang = self.jobs[&id].gang.as_ref().expect("a gang has marks");
        Mark { job: id, journal: self.journal.clone(), fence: gang.fence, gpus: gang.gpus.clone() }
    }

    /// Names of nodes with how many of these GPUs each has.
    pub(super) fn shares_by_node(&self, gpus: &[GpuId]) -> Vec<(String, u32)> {
        let mut shares: BTreeMap<_, u32> = BTreeMap::new();
        gpus.iter().for_each(|&gpu| *shares.entry(self.cluster.node_of(gpu)).or_default() += 1);
        shares.into_iter().map(|(node, count)| (self.cluster.node(node).name.clone(), count)).collect()
    }

    /// Which pod goes where.
    fn places(&self, id: JobId, group: &Group) -> Result<Vec<Place>, Obstacle> {
        let gang = self.jobs[&id].gang.as_ref().expect("a gang is placed");
        let scheduler = &self.options.scheduler_name;
        let waiting = group.waiting(scheduler).filter(|pod| !gang.placed.contains(&pod.metadata.uid));
        let mut waiting: Vec<Arc<Pod>> = waiting.cloned().collect();
        if gang.phase == Phase::Wanted && waiting.len() < group.size() as usize {
            return Err(Obstacle::NotYet);
        }
        let mut shares = self.shares_by_node(&gang.gpus);
        for pod in &group.pods {
            let Some(taken) = pod.taken_node(scheduler) else { continue };
            let share = shares.iter_mut().find(|(node, _)| node == taken);
            if let Some((_, share)) = share {
                *share = share.saturating_sub(Room::of_pod(pod).gpus as u32);
            }
        }
        let gpus_of = |pod: &Arc<Pod>| Room::of_pod(pod).gpus as u32;
        waiting.sort_by_key(|pod| (std::cmp::Reverse(gpus_of(pod)), pod.metadata.name.clone()));
        let assigned = assign(&waiting.iter().map(gpus_of).collect::<Vec<_>>(), &shares).ok_or_else(|| {
            // A gang that runs has no room for more pods than it had.
            let free: Vec<String> = shares.iter().map(|(node, count)| format!("{count} on {node}")).collect();
            Obstacle::Never(format!("its {} pods do not go into the GPUs it got: {}", waiting.len(), free.join(", ")))
        })?;
        let mut left: BTreeMap<&str, Room> = BTreeMap::new();
        let mut places = Vec::new();
        for (pod, &share) in waiting.iter().zip(&assigned) {
            let name = shares[share].0.as_str();
            let node =
                self.view.nodes.get(name).ok_or_else(|| Obstacle::Never(format!("{name} is not there any more")))?;
            let is_ours = pod.hold(scheduler) == Some(Hold::Scheduler);
            let why = if is_ours { unbindable(pod, node) } else { None };
            if let Some(why) = why.or_else(|| forbidden(pod, node)) {
                return Err(Obstacle::Never(format!("pod {} cannot go to {name}: {why}", pod.shown())));
            }
            let asked = Room::of_pod(pod);
            let room = left.entry(name).or_insert_with(|| self.view.left(name));
            if room.lacks(asked).is_some() {
                return Err(self.lacks_room(pod, node, asked));
            }
            *room = room.minus(asked);
            places.push((Arc::clone(pod), Arc::clone(node)));
        }
        Ok(places)
    }

    /// Too little is left: soon there may be more, if pods are on their way out.
    fn lacks_room(&self, pod: &Pod, node: &Node, asked: Room) -> Obstacle {
        let name = node.metadata.name.as_str();
        let on_it = |other: &&Arc<Pod>| other.node() == Some(name) && other.holds() && other.is_leaving();
        // A claim outlives its pod by a moment.
        let is_claimed = self.view.loose_claims.iter().any(|claim| claim.node == name);
        if is_claimed || self.view.pods.iter().any(|other| on_it(&other)) {
            return Obstacle::NotYet;
        }
        let why = self.view.left(name).lacks(asked).unwrap_or_else(|| "other pods of its gang need the rest".into());
        Obstacle::Never(format!("pod {} does not fit on {name}: {why}", pod.shown()))
    }

    /// The call that lets a pod start on its node, and marks it at once.
    fn admission(&self, pod: &Pod, node: &Node, mark: &Mark) -> Call {
        let (meta, name) = (&pod.metadata, &node.metadata.name);
        match pod.hold(&self.options.scheduler_name) {
            Some(Hold::Gate) => {
                // The affinity of a gated pod may be added to. The default scheduler binds it there, or says why not.
                let required = json!({"nodeSelectorTerms": pod.pinned_terms(name)});
                let pin = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
                let body = json!({
                    "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": mark.annotations()},
                    "spec": {
                        "affinity": pin,
                        "schedulingGates": [{"$patch": "delete", "name": GATE}],
                    }
                });
                Call::patch(pod.path(), body)
            }
            _ => {
                let body = json!({
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "annotations": mark.annotations()},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": name},
                });
                Call::post(format!("{}/binding", pod.path()), body)
            }
        }
    }

    /// Makes those pods of a program that are not there.
    fn make_pods(&mut self, id: JobId, group: &Group) -> Result<(), EngineError> {
        let gang = self.jobs[&id].gang.as_ref().expect("a gang is placed");
        if gang.phase == Phase::Running {
            // Somebody deleted them: what is left goes too, and the job waits for the next decision.
            return self.put_off(id, "a pod of it was deleted".into());
        }
        let shares = self.shares_by_node(&gang.gpus);
        let mark = self.mark(id);
        let mut calls = Vec::new();
        for (number, (name, gpus)) in shares.iter().enumerate() {
            let pod = super::program::pod_name(&mark, number);
            if group.pods.iter().any(|known| known.metadata.name == pod) {
                continue;
            }
            let Some(node) = self.view.nodes.get(name) else {
                return self.put_off(id, format!("{name} is not there any more"));
            };
            if node.devices.is_some() {
                let why = format!(
                    "GPUs of {name} are handed out by claims, and pods of 'arles submit' have none; submit a Job behind the gate"
                );
                return self.put_off(id, why);
            }
            // Pods with a name of a node are not scheduled, and a kubelet without room fails them.
            if self.view.left(name).gpus < f64::from(*gpus) {
                return match self.lacks_room(&Pod::default(), node, Room { gpus: f64::from(*gpus), ..Room::default() })
                {
                    Obstacle::NotYet => Ok(()),
                    Obstacle::Never(_) => self.put_off(id, format!("others hold the GPUs of {name}")),
                };
            }
            let rank = Rank { number, of: shares.len(), node, gpus: *gpus };
            let entry = &self.jobs[&id];
            let kind = self.cluster.kind(gang.kind).name.clone();
            let body = manifest(&self.options.programs, &entry.live, &mark, &rank, entry.steps, &kind);
            calls.push(Call::post(format!("/api/v1/namespaces/{}/pods", self.options.programs.namespace), body));
        }
        if let Some(shared) = &self.options.programs.folder {
            let _ = std::fs::create_dir_all(folder(&shared.path, id));
        }
        self.made(id, calls)
    }

    fn made(&mut self, id: JobId, calls: Vec<Call>) -> Result<(), EngineError> {
        let mut refusal = None;
        for answer in self.act(calls)? {
            match answer {
                Ok(made) => {
                    let gang =
                        self.jobs.get_mut(&id).and_then(|entry| entry.gang.as_mut()).expect("it is being placed");
                    let made: Pod = serde_json::from_value(made)
                        .map_err(|error| EngineError(format!("the API server's answer makes no sense: {error}")))?;
                    gang.placed.insert(made.metadata.uid.clone());
                    self.show_pod(&made);
                    self.mirrors.pods.take(made);
                }
                Err(error) if error.is(409) => {}
                Err(ApiError::Unreachable(why)) => return Err(EngineError(why)),
                Err(ApiError::Refused { message, .. }) => refusal = Some(message),
            }
        }
        let gang = self.jobs.get_mut(&id).and_then(|entry| entry.gang.as_mut()).expect("it is being placed");
        gang.phase = Phase::Placed;
        match refusal {
            Some(why) => self.put_off(id, why),
            None => Ok(()),
        }
    }

    /// Tells pods to go, with their own grace: those of users by eviction, so that budgets of disruption are kept.
    pub(super) fn evict(&mut self, id: JobId, pods: &[Arc<Pod>], why: &str) -> Result<(), EngineError> {
        if !self.jobs.get_mut(&id).is_none_or(super::entry::Entry::may_send) {
            return Ok(());
        }
        let scheduler = &self.options.scheduler_name;
        let there = pods.iter().filter(|pod| pod.is_placed(scheduler) && !pod.is_leaving());
        let there: Vec<Arc<Pod>> = there.cloned().collect();
        let (own, users): (Vec<_>, Vec<_>) =
            there.into_iter().partition(|pod| pod.metadata.namespace == self.options.programs.namespace);
        self.delete(&own)?;
        self.tell_users(&users, "Preempted", why)?;
        let calls = users.iter().map(|pod| self.eviction(pod)).collect();
        let mut gone = Vec::new();
        for (pod, answer) in users.iter().zip(self.act(calls)?) {
            match answer {
                Ok(_) => gone.push(Arc::clone(pod)),
                Err(ApiError::Unreachable(why)) => return Err(EngineError(why)),
                Err(ApiError::Refused { status: 429, message }) => {
                    if let Some(entry) = self.jobs.get_mut(&id) {
                        entry.put_off = Some(format!("pod {} may not be evicted now: {message}", pod.shown()));
                    }
                }
                // It is gone, or another one has its name.
                Err(ApiError::Refused { .. }) => {}
            }
        }
        self.excuse(&gone)
    }

    /// Keeps evictions from counting as failures of their Jobs. A Job's controller waits 10 s before it makes a new pod, and twice as long for each further
    /// pod that it counts as failed, up to ten minutes: a gang of seven that makes room once would be back after that. It does not count pods
    /// without its finalizer, and takes it off itself before it deletes pods of a Job that is suspended. Whoever is too late here waits.
    fn excuse(&self, pods: &[Arc<Pod>]) -> Result<(), EngineError> {
        let tracked = pods.iter().filter(|pod| pod.metadata.finalizers.iter().any(|name| name == TRACKED));
        let body = |pod: &Pod| json!({"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [TRACKED]}});
        self.tolerate(tracked.map(|pod| Call::patch(pod.path(), body(pod))).collect())
    }

    fn eviction(&self, pod: &Pod) -> Call {
        let meta = &pod.metadata;
        let body = json!({
            "apiVersion": self.eviction_version,
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": {"uid": meta.uid}},
        });
        Call::post(format!("{}/eviction", pod.path()), body)
    }

    /// Deletes pods that arles made.
    pub(super) fn delete(&self, pods: &[Arc<Pod>]) -> Result<(), EngineError> {
        let options = |pod: &Pod| json!({"preconditions": {"uid": pod.metadata.uid}});
        let calls = pods.iter().map(|pod| Call::delete(pod.path(), options(pod))).collect();
        self.tolerate(calls)
    }

    pub(super) fn annotate(&self, pods: &[Arc<Pod>], key: &str, value: &str) -> Result<(), EngineError> {
        let body = |pod: &Pod| json!({"metadata": {"uid": pod.metadata.uid, "annotations": {key: value}}});
        self.tolerate(pods.iter().map(|pod| Call::patch(pod.path(), body(pod))).collect())
    }

    /// An Event for each pod: what `kubectl describe` shows its user.
    pub(super) fn tell_users(&self, pods: &[Arc<Pod>], reason: &str, message: &str) -> Result<(), EngineError> {
        self.tolerate(pods.iter().map(|pod| event(pod, reason, message)).collect())
    }

    /// Calls whose refusal means that things have changed since the last look: the next one shows how.
    pub(super) fn tolerate(&self, calls: Vec<Call>) -> Result<(), EngineError> {
        for answer in self.act(calls)? {
            if let Err(ApiError::Unreachable(why)) = answer {
                return Err(EngineError(why));
            }
        }
        Ok(())
    }
}

fn event(pod: &Pod, reason: &str, message: &str) -> Call {
    let meta = &pod.metadata;
    let at = timestamp(SystemTime::now());
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "arles-", "namespace": meta.namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
        "reason": reason,
        "message": message.chars().take(900).collect::<String>(),
        "type": if reason == "Refused" { "Warning" } else { "Normal" },
        "source": {"component": "arles"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    });
    Call::post(format!("/api/v1/namespaces/{}/events", meta.namespace), body)
}

/// RFC 3339, to the second.
fn timestamp(at: SystemTime) -> Value {
    let at = time::OffsetDateTime::from(at);
    let (date, time) = (at.date(), at.time());
    let (month, day) = (u8::from(date.month()), date.day());
    json!(format!(
        "{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        date.year(),
        time.hour(),
        time.minute(),
        time.second()
    ))
}

/// For each of the pods (GPUs, largest first) the share that it goes into; every share is filled to its last GPU or not at all needed. First fit:
/// exact for pods of one size, and for sizes that divide each other.
fn assign(pods: &[u32], shares: &[(String, u32)]) -> Option<Vec<usize>> {
    let mut left: Vec<u32> = shares.iter().map(|(_, gpus)| *gpus).collect();
    pods.iter()
        .map(|&gpus| {
            let share = left.iter().position(|free| *free >= gpus)?;
            left[share] -= gpus;
            Some(share)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_go_where_their_gang_has_gpus() {
        let shares = |gpus: &[u32]| gpus.iter().map(|&gpus| (String::new(), gpus)).collect::<Vec<_>>();
        assert_eq!(assign(&[2, 2], &shares(&[2, 2])), Some(vec![0, 1]));
        assert_eq!(assign(&[4, 2, 1, 1], &shares(&[4, 4])), Some(vec![0, 1, 1, 1]));
        assert_eq!(assign(&[1, 0], &shares(&[1])), Some(vec![0, 0]));
        assert_eq!(assign(&[2], &shares(&[1, 1])), None);
    }

    #[test]
    fn moments_are_written_as_kubernetes_reads_them() {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        assert_eq!(timestamp(at), json!("2023-11-14T22:13:20Z"));
    }
}
