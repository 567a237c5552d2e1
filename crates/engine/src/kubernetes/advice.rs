//! Advice to Kueue: where Kueue admits, arles only says whom it would let run now, and on which kind.
//!
//! Every decision of the scheduler becomes two annotations on a Workload, which Kueue offers for that: `kueue.x-k8s.io/priority-boost` (since 0.17, feature gate `PriorityBoost`)
//! puts those whom arles would let run before those whom it would not, and `kueue.x-k8s.io/workload-allowed-resource-flavors` (since 0.18, feature gate
//! `ConcurrentAdmission`) names the flavours of the kind that arles would take. A Kueue that knows neither goes on as if nothing were written.
//!
//! - **Kueue admits.** A gang has started when Kueue has admitted its Workload, wherever that is. What is not admitted in time is decided anew.
//! - **Kueue moves nobody.** What it admitted before arles had a say is planned on the kind that it got, and anew with all kinds when it waits again.
//! - **Nobody is told to go.** A gang that must stop loses its boost and is over for the scheduler at once. Otherwise whoever should follow would never be
//!   boosted, and Kueue preempts only for somebody who waits with a higher priority.
//! - **Pods and Jobs are never touched**, and what was written on a Workload by somebody else stays until arles has an advice for it.

use super::Kubernetes;
use super::client::{ApiError, Call};
use super::entry::Entry;
use super::gang::{Gang, Phase};
use super::group::{Group, GroupKey, Sort};
use super::kueue::{GROUP, Workload};
use super::mark::Mark;
use super::object::{Meta, Pod};
use super::view::View;
use arles_core::engine::EngineError;
use arles_core::{JobId, KindId};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What is added to a Workload's priority.
const BOOST: &str = "kueue.x-k8s.io/priority-boost";
/// How much: Workloads of the same priority class are ordered by it, and those of classes that are further apart are not.
const BOOSTED: &str = "1000";
/// Flavours that a Workload may get.
const FLAVORS: &str = "kueue.x-k8s.io/workload-allowed-resource-flavors";

/// Whether arles gives pods their places, or only advises who does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Pods that are given to arles are placed by it.
    #[default]
    Place,
    /// Kueue admits, and arles places nothing.
    Advise,
}

/// A cluster without Kueue has nobody to advise.
pub(super) fn check_kueue(client: &super::client::Client) -> Result<(), EngineError> {
    match client.send(&Call::get(format!("/apis/{GROUP}"))) {
        Ok(_) => Ok(()),
        Err(error) if error.is(404) => Err(EngineError(format!(
            "the mode is 'advise', and this cluster has no Kueue ({GROUP}); install Kueue, or use the mode 'place'"
        ))),
        Err(error) => Err(error.into()),
    }
}

impl Workload {
    fn path(&self) -> String {
        let Meta { namespace, name, .. } = &self.metadata;
        format!("/apis/{}/namespaces/{namespace}/workloads/{name}", self.api_version)
    }

    /// The group that it is: what made it stays when Kueue makes another Workload for it.
    pub(super) fn key(&self) -> GroupKey {
        let Meta { namespace, name, uid, owner_references, .. } = &self.metadata;
        let (name, uid) = owner_references.first().map_or((name, uid), |owner| (&owner.name, &owner.uid));
        GroupKey { sort: Sort::Workload, namespace: namespace.clone(), name: name.clone(), uid: uid.clone() }
    }

    /// Whether arles plans with it: it asks for GPUs, and is no variant that Kueue made of another Workload.
    pub(super) fn is_planned(&self) -> bool {
        let is_variant = self.metadata.owner_references.iter().any(|owner| owner.kind == "Workload");
        !is_variant && self.metadata.deletion_timestamp.is_none() && !self.samples().is_empty()
    }

    /// The call after which exactly this is written on it; none where it is. Advice that is taken back leaves nothing of arles', and what others wrote alone.
    fn amendment(&self, advice: Option<&Advice>) -> Option<Call> {
        let written = &self.metadata.annotations;
        let mark = advice.map(|advice| advice.mark.annotations());
        let mut wished = mark.unwrap_or_else(Mark::no_annotations);
        let wished = wished.as_object_mut()?;
        if advice.is_some() || Mark::read(&self.metadata).is_some() {
            let some = |text: &str| Value::from(text);
            wished.insert(BOOST.into(), advice.map_or(Value::Null, |_| some(BOOSTED)));
            let flavors = advice.and_then(|advice| advice.flavors.as_deref());
            wished.insert(FLAVORS.into(), flavors.map_or(Value::Null, some));
        }
        wished.retain(|key, value| written.get(key).map(String::as_str) != value.as_str());
        (!wished.is_empty()).then(|| self.annotation(&wished.clone()))
    }

    fn annotation(&self, annotations: &Map<String, Value>) -> Call {
        Call::merge(self.path(), json!({"metadata": {"uid": self.metadata.uid, "annotations": annotations}}))
    }

    /// Writes why it is not planned with.
    pub(super) fn refusal(&self, why: &str) -> Call {
        self.annotation(&Map::from_iter([(super::mark::REFUSED.to_owned(), why.into())]))
    }

    /// The call that takes all advice back for good; none where there is none.
    pub(super) fn release(&self) -> Option<Call> {
        Mark::read(&self.metadata)?;
        let mut annotations = Mark::no_annotations();
        let annotations = annotations.as_object_mut()?;
        for key in [BOOST, FLAVORS] {
            annotations.insert(key.to_owned(), Value::Null);
        }
        annotations.insert(super::mark::RELEASED.to_owned(), "true".into());
        Some(self.annotation(annotations))
    }
}

/// What is said of a Workload that should run now.
struct Advice {
    mark: Mark,
    /// Flavours of the kind that it should run on; none where Kueue has no word for it.
    flavors: Option<String>,
}

impl View {
    /// Puts Workloads and their pods together. A pod is of the Workload that was made for it, for its controller, or for what made its Job.
    pub(super) fn add_workloads(&mut self, workloads: Vec<std::sync::Arc<Workload>>) {
        let mut makers = std::collections::BTreeMap::new();
        for workload in workloads.into_iter().filter(|workload| workload.is_planned()) {
            let key = workload.key();
            makers.extend(workload.makers().map(|uid| (uid.to_owned(), key.clone())));
            self.groups.insert(key.clone(), Group { key, workload: Some(workload), ..Group::default() });
        }
        for pod in self.pods.clone() {
            let key = self.makers_of(&pod).into_iter().find_map(|uid| makers.get(&uid).cloned());
            if let Some(group) = key.and_then(|key| self.groups.get_mut(&key)) {
                group.pods.push(pod);
            }
        }
    }

    fn makers_of(&self, pod: &Pod) -> Vec<String> {
        let mut found = vec![pod.metadata.uid.clone()];
        let controller = pod.metadata.controller().map(|owner| owner.uid.clone());
        let above =
            controller.as_ref().and_then(|uid| self.job_of(uid)?.metadata.controller().map(|owner| owner.uid.clone()));
        found.extend(controller.into_iter().chain(above));
        found
    }
}

impl Kubernetes {
    /// Writes on a job's Workload what follows from its gang, if it is not written there yet.
    pub(super) fn advise(&mut self, id: JobId, group: &Group) -> Result<(), EngineError> {
        let Some(workload) = &group.workload else { return Ok(()) };
        let gang = self.jobs[&id].gang.as_ref().filter(|gang| gang.holds());
        let advice = gang.map(|gang| Advice { mark: self.mark(id), flavors: self.flavors(workload, gang.kind) });
        let is_ours = Mark::read(&workload.metadata).is_some_and(|mark| mark.journal == self.journal);
        if advice.is_none() && !is_ours {
            return Ok(());
        }
        if let Some(gang) = self.jobs.get_mut(&id).and_then(|entry| entry.gang.as_mut())
            && gang.phase == Phase::Wanted
        {
            gang.phase = Phase::Placed;
        }
        let Some(call) = workload.amendment(advice.as_ref()) else { return Ok(()) };
        if !self.jobs.get_mut(&id).is_some_and(Entry::may_send) {
            return Ok(());
        }
        match self.act(vec![call])?.remove(0) {
            Ok(answer) => {
                if let Ok(written) = serde_json::from_value(answer) {
                    self.mirrors.take_workload(written);
                }
                Ok(())
            }
            Err(ApiError::Unreachable(why)) => Err(EngineError(why)),
            // It is gone, or another one has its name: the next look shows.
            Err(error) if error.is(404) || error.is(409) => Ok(()),
            Err(error) => self.put_off(id, format!("its Workload does not take advice: {error}")),
        }
    }

    /// A job that arles plans with no longer: what was written on its Workload goes.
    pub(super) fn withdraw(&mut self, id: JobId, group: &Group) -> Result<(), EngineError> {
        let Some(entry) = self.jobs.get_mut(&id).filter(|_| group.workload.is_some()) else { return Ok(()) };
        entry.sent_shows();
        entry.gang = None;
        self.advise(id, group)
    }

    /// Kueue has not admitted what it was advised to, or has taken its word back.
    pub(super) fn not_admitted(&mut self, id: JobId) -> Result<(), EngineError> {
        let seconds = self.options.gang_timeout_seconds;
        let gang = self.jobs[&id].gang.as_ref();
        let why = match gang.map(|gang| (&gang.phase, gang.broken_since.elapsed().as_secs_f64() >= seconds)) {
            Some((Phase::Running, _)) => "Kueue has evicted it".to_owned(),
            Some((_, true)) => format!("Kueue has not admitted it within {seconds} s"),
            _ => return Ok(()),
        };
        self.put_off(id, why)
    }

    /// The flavours of a Workload's queue whose nodes have this kind, with those that are not of GPUs: the annotation is for all that it gets.
    fn flavors(&self, workload: &Workload, kind: KindId) -> Option<String> {
        let queue = self.view.queues.of_workload(workload)?;
        let name = &self.cluster.kind(kind).name;
        let is_it = |product: &String| self.kind_named(product).as_ref() == Some(name);
        let of_gpus = self.view.queues.gpu_flavors(queue, &self.view.nodes);
        let mut found: BTreeSet<String> =
            of_gpus.into_iter().filter(|(_, products)| products.iter().any(is_it)).map(|(name, _)| name).collect();
        if found.is_empty() {
            return None;
        }
        found.extend(self.view.queues.other_flavors(queue));
        Some(found.into_iter().collect::<Vec<_>>().join(","))
    }

    /// Products that a Workload can get through its queue; of one that Kueue has admitted, those that it has got: Kueue moves nobody.
    pub(super) fn queue_products(&self, workload: &Workload) -> Vec<String> {
        let Some(queue) = self.view.queues.of_workload(workload) else { return Vec::new() };
        let mut flavors = self.view.queues.gpu_flavors(queue, &self.view.nodes);
        if workload.is_admitted() {
            let given = workload.given_flavors();
            flavors.retain(|name, _| given.contains(name.as_str()));
        }
        flavors.into_values().flatten().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether a job waits that was taken while Kueue ran it on one kind, and could run on others now.
    pub(super) fn is_narrowed(&self, entry: &Entry, group: &Group) -> bool {
        let waits = group.workload.as_ref().is_some_and(|workload| !workload.is_admitted()) && entry.gang.is_none();
        let known = &entry.live.spec.kinds;
        if !waits || known.is_empty() {
            return false;
        }
        let Some(mut arrival) = group.arrival("", &self.options.scheduler_name) else { return false };
        self.narrow(group, &mut arrival);
        let names: BTreeSet<&str> = known.iter().map(|kind| self.cluster.kind(*kind).name.as_str()).collect();
        let is_new = |product: &String| self.kind_named(product).is_some_and(|name| !names.contains(name.as_str()));
        arrival.wishes.kinds.is_empty() && arrival.kinds.iter().any(is_new)
    }

    /// The kind that a product is.
    fn kind_named(&self, product: &str) -> Option<String> {
        match &self.options.kind_of {
            Some(kind_of) => kind_of(product).map(|kind| kind.name),
            None => arles_core::Library::builtin().any_kind(product).ok().map(|kind| kind.name),
        }
    }

    /// Pods of Workloads that arles plans with, by uid.
    pub(super) fn advised_pods(&self) -> BTreeSet<&str> {
        let known = self.jobs.values().filter_map(|entry| self.view.groups.get(&entry.group.as_ref()?.0));
        let advised = known.filter(|group| group.workload.is_some());
        advised.flat_map(|group| &group.pods).map(|pod| pod.metadata.uid.as_str()).collect()
    }
}

/// Whether a gang's orders are advice only.
pub(super) fn is_advice(gang: Option<&Gang>, key: Option<&GroupKey>) -> bool {
    gang.is_some() && key.is_some_and(|key| key.sort == Sort::Workload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::GpuId;
    use arles_core::scheduler::Fence;
    use serde_json::from_value;

    fn workload(annotations: &Value) -> Workload {
        let owner = json!({"kind": "Job", "name": "train", "uid": "j1"});
        let meta = json!({"name": "job-train-x", "namespace": "team", "uid": "w1", "annotations": annotations, "ownerReferences": [owner]});
        let container = json!({"resources": {"limits": {"nvidia.com/gpu": "2"}}});
        let set = json!({"count": 3, "template": {"spec": {"containers": [container]}}});
        from_value(json!({"metadata": meta, "spec": {"queueName": "q", "podSets": [set]}})).expect("a Workload")
    }

    fn advice() -> Advice {
        let mark = Mark { job: JobId(1), journal: "j".into(), fence: Fence(2), gpus: vec![GpuId(0)] };
        Advice { mark, flavors: Some("a100".into()) }
    }

    /// What is written on a Workload after a call, as the server would have it.
    fn after(before: &Workload, advice: Option<&Advice>) -> Workload {
        let mut written = json!(before.metadata.annotations);
        if let Some(call) = before.amendment(advice) {
            let body = call.body().expect("it says what");
            for (key, value) in body["metadata"]["annotations"].as_object().expect("annotations") {
                match value.is_null() {
                    true => drop(written.as_object_mut().expect("a map").remove(key)),
                    false => written[key] = value.clone(),
                }
            }
        }
        workload(&written)
    }

    #[test]
    fn advice_is_written_once_and_leaves_nothing_behind() {
        let fresh = workload(&json!({"other": "stays"}));
        assert!(fresh.amendment(None).is_none(), "there is nothing to take back");
        let advised = after(&fresh, Some(&advice()));
        let read = |key: &str| advised.metadata.annotations.get(key).cloned();
        assert_eq!((read(BOOST).as_deref(), read(FLAVORS).as_deref()), (Some("1000"), Some("a100")));
        assert!(advised.amendment(Some(&advice())).is_none(), "it is there");
        let elsewhere = Advice { flavors: None, ..advice() };
        assert_eq!(after(&advised, Some(&elsewhere)).metadata.annotations.get(FLAVORS), None);
        assert_eq!(after(&advised, None).metadata.annotations, fresh.metadata.annotations);
        let others = workload(&json!({BOOST: "7"}));
        assert!(others.amendment(None).is_none(), "somebody else's boost is none of ours");
    }

    #[test]
    fn a_workload_is_planned_as_a_whole() {
        let waiting = workload(&json!({"arles/steps": "5"}));
        let group = Group { key: waiting.key(), workload: Some(std::sync::Arc::new(waiting)), ..Group::default() };
        let arrival = group.arrival("vision", "arles").expect("it waits");
        assert_eq!((arrival.gang, arrival.external.as_str()), (6, "kubernetes:workload/team/train@j1#6"));
        assert_eq!(arrival.shown, "team/train");
        let mut variant = workload(&json!({}));
        variant.metadata.owner_references[0].kind = "Workload".into();
        assert!(!variant.is_planned());
    }
}
