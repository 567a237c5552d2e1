//! Kueue's objects, where a cluster has them: whose a job is, what is promised to whom, and what waits there.
//!
//! Kueue (`kueue.x-k8s.io`) divides a cluster's quota among ClusterQueues; a namespace's LocalQueues lead to them. arles reads who is promised how much
//! from there, so that it is written down once. Nothing here changes anything; `kubernetes/advice.rs` does.
//!
//! A nominal quota is a promise in Kueue, and a limit only where nothing can be borrowed. arles promises by weights and limits by quotas, so both
//! are read from the same figures ([`Queues::entitlements`]).

use super::fit::{Room, quantity};
use super::object::{Condition, Meta, Node, Object, Pod, PodSpec, Words, is_gpu, or_default};
use crate::intake::Entitlement;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Kueue's group at the API server.
pub(super) const GROUP: &str = "kueue.x-k8s.io";
/// The label of a Job that names its LocalQueue.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
/// The LocalQueue of Jobs that name none.
const USUAL_QUEUE: &str = "default";

/// A quantity, which may be written as a number: custom resources keep what their author wrote.
fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(from)?;
    Ok(value.and_then(|value| value.as_f64().or_else(|| quantity(value.as_str()?))))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClusterQueue {
    pub(super) metadata: Meta,
    spec: ClusterQueueSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterQueueSpec {
    #[serde(deserialize_with = "or_default")]
    resource_groups: Vec<ResourceGroup>,
    /// `cohort` up to v1beta1.
    #[serde(alias = "cohort")]
    cohort_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    fair_sharing: FairSharing,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct FairSharing {
    #[serde(deserialize_with = "amount")]
    weight: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceGroup {
    #[serde(deserialize_with = "or_default")]
    flavors: Vec<FlavorQuotas>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct FlavorQuotas {
    name: String,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<ResourceQuota>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceQuota {
    name: String,
    #[serde(deserialize_with = "amount")]
    nominal_quota: Option<f64>,
    #[serde(deserialize_with = "amount")]
    borrowing_limit: Option<f64>,
}

impl Object for ClusterQueue {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl ClusterQueue {
    /// Its quotas of GPUs, of all flavours.
    fn gpu_quotas(&self) -> impl Iterator<Item = &ResourceQuota> {
        let flavors = self.spec.resource_groups.iter().flat_map(|group| &group.flavors);
        flavors.flat_map(|flavor| &flavor.resources).filter(|quota| is_gpu(&quota.name))
    }

    /// GPUs that are promised to it; nothing where it has none to give.
    fn nominal(&self) -> Option<f64> {
        let mut quotas = self.gpu_quotas().peekable();
        quotas.peek()?;
        Some(quotas.filter_map(|quota| quota.nominal_quota).sum())
    }

    /// The most GPUs that it may have at once; nothing where it may borrow whatever others leave.
    fn limit(&self) -> Option<f64> {
        let in_cohort = self.spec.cohort_name.as_ref().is_some_and(|name| !name.is_empty());
        let borrowed: Option<f64> = self.gpu_quotas().map(|quota| quota.borrowing_limit).sum();
        Some(self.nominal()? + if in_cohort { borrowed? } else { 0.0 })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LocalQueue {
    metadata: Meta,
    spec: LocalQueueSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LocalQueueSpec {
    cluster_queue: String,
}

impl Object for LocalQueue {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Which nodes a quota is of, by their labels.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceFlavor {
    metadata: Meta,
    spec: ResourceFlavorSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceFlavorSpec {
    #[serde(deserialize_with = "or_default")]
    node_labels: Words,
}

impl Object for ResourceFlavor {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// What Kueue admits as a whole, on behalf of a Job, a JobSet, a pod or whatever else it knows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Workload {
    /// Group and version that it was read as.
    pub(super) api_version: String,
    pub(super) metadata: Meta,
    pub(super) spec: WorkloadSpec,
    status: WorkloadStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WorkloadSpec {
    queue_name: String,
    #[serde(deserialize_with = "or_default")]
    pod_sets: Vec<PodSet>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodSet {
    count: u32,
    template: PodSetTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodSetTemplate {
    #[serde(deserialize_with = "or_default")]
    metadata: Meta,
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WorkloadStatus {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    admission: Admission,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Admission {
    #[serde(deserialize_with = "or_default")]
    pod_set_assignments: Vec<PodSetAssignment>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodSetAssignment {
    /// Flavours by resource.
    #[serde(deserialize_with = "or_default")]
    flavors: Words,
}

impl Object for Workload {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Workload {
    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
    }

    /// Whether Kueue lets it run.
    pub(super) fn is_admitted(&self) -> bool {
        self.condition("Admitted").is_some()
    }

    /// The flavours that Kueue has given it.
    pub(super) fn given_flavors(&self) -> BTreeSet<&str> {
        let assigned = self.status.admission.pod_set_assignments.iter();
        assigned.flat_map(|set| set.flavors.values()).map(String::as_str).collect()
    }

    /// How it ended, by Kueue's word: nothing while it has not, then why it failed if it did.
    pub(super) fn ended(&self) -> Option<Result<(), String>> {
        let finished = self.condition("Finished")?;
        // "JobFinished" is what Kueue 0.8 and earlier said in both cases.
        let is_failure = finished.reason == "Failed" || finished.message.starts_with("Job failed");
        Some(if is_failure { Err(finished.message.clone()) } else { Ok(()) })
    }

    /// Its pods as their templates would make them.
    pub(super) fn samples(&self) -> Vec<Arc<Pod>> {
        let all = self.spec.pod_sets.iter().flat_map(|set| {
            let metadata = Meta { namespace: self.metadata.namespace.clone(), ..set.template.metadata.clone() };
            let pod = Arc::new(Pod { metadata, spec: set.template.spec.clone(), ..Pod::default() });
            std::iter::repeat_n(pod, set.count as usize)
        });
        all.filter(|pod| Room::of_pod(pod).gpus >= 1.0).collect()
    }

    /// Who made it: the Job, the JobSet or the pods on whose behalf it waits.
    pub(super) fn makers(&self) -> impl Iterator<Item = &str> {
        self.metadata.owner_references.iter().map(|owner| owner.uid.as_str())
    }
}

/// What Kueue says of a cluster. Empty where there is no Kueue.
#[derive(Default)]
pub(super) struct Queues {
    cluster_queues: BTreeMap<String, Arc<ClusterQueue>>,
    /// ClusterQueues by namespace and LocalQueue.
    led_to: BTreeMap<String, BTreeMap<String, String>>,
    flavors: BTreeMap<String, Arc<ResourceFlavor>>,
}

impl Queues {
    pub(super) fn new(
        cluster_queues: Vec<Arc<ClusterQueue>>,
        local_queues: &[Arc<LocalQueue>],
        flavors: Vec<Arc<ResourceFlavor>>,
    ) -> Self {
        let mut led_to: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for queue in local_queues {
            let Meta { namespace, name, .. } = &queue.metadata;
            led_to.entry(namespace.clone()).or_default().insert(name.clone(), queue.spec.cluster_queue.clone());
        }
        Self {
            cluster_queues: cluster_queues.into_iter().map(|queue| (queue.metadata.name.clone(), queue)).collect(),
            led_to,
            flavors: flavors.into_iter().map(|flavor| (flavor.metadata.name.clone(), flavor)).collect(),
        }
    }

    /// The ClusterQueue that is meant in a namespace: the one that the label leads to, or else that of the namespace's only queue, or of the one that is called "default".
    pub(super) fn of(&self, namespace: &str, labels: &Words) -> Option<&str> {
        self.named(namespace, labels.get(QUEUE_LABEL).map(String::as_str))
    }

    /// The ClusterQueue of a Workload.
    pub(super) fn of_workload(&self, workload: &Workload) -> Option<&str> {
        self.named(&workload.metadata.namespace, Some(&workload.spec.queue_name))
    }

    fn named(&self, namespace: &str, queue: Option<&str>) -> Option<&str> {
        let there = self.led_to.get(namespace)?;
        let only = || there.values().next().filter(|_| there.len() == 1);
        let found = match queue {
            Some(name) => there.get(name),
            None => only().or_else(|| there.get(USUAL_QUEUE)),
        };
        found.map(String::as_str).filter(|name| self.cluster_queues.contains_key(*name))
    }

    /// What each ClusterQueue with GPUs is owed and may have. Its weight for fair sharing, 1 if it has none, where any of them has one; otherwise GPUs are
    /// owed as they are promised, by the nominal quotas.
    pub(super) fn entitlements(&self) -> BTreeMap<String, Entitlement> {
        let with_gpus = || self.cluster_queues.iter().filter_map(|(name, queue)| Some((name, queue, queue.nominal()?)));
        let is_weighted = with_gpus().any(|(_, queue, _)| queue.spec.fair_sharing.weight.is_some());
        let entitlement = |queue: &ClusterQueue, nominal: f64| Entitlement {
            weight: if is_weighted { queue.spec.fair_sharing.weight.unwrap_or(1.0) } else { nominal },
            gpus: queue.limit().map(|limit| limit.max(0.0) as u32),
        };
        with_gpus().map(|(name, queue, nominal)| (name.clone(), entitlement(queue, nominal))).collect()
    }

    /// Products of the nodes that a flavour is of.
    fn products(&self, flavor: &str, nodes: &BTreeMap<String, Arc<Node>>) -> BTreeSet<String> {
        let Some(flavor) = self.flavors.get(flavor) else { return BTreeSet::new() };
        let wanted = &flavor.spec.node_labels;
        let is_of = |node: &&Arc<Node>| wanted.iter().all(|(key, value)| node.metadata.labels.get(key) == Some(value));
        nodes.values().filter(is_of).filter_map(|node| node.product()).collect()
    }

    /// Flavours of GPUs in a ClusterQueue, each with the products of its nodes.
    pub(super) fn gpu_flavors(
        &self,
        queue: &str,
        nodes: &BTreeMap<String, Arc<Node>>,
    ) -> BTreeMap<String, BTreeSet<String>> {
        let groups = self.cluster_queues.get(queue).map_or(&[][..], |queue| &queue.spec.resource_groups);
        let of_gpus = |flavor: &&FlavorQuotas| flavor.resources.iter().any(|quota| is_gpu(&quota.name));
        let flavors = groups.iter().flat_map(|group| &group.flavors).filter(of_gpus);
        flavors.map(|flavor| (flavor.name.clone(), self.products(&flavor.name, nodes))).collect()
    }

    /// Flavours of a ClusterQueue that are not of GPUs: what a job gets besides them.
    pub(super) fn other_flavors(&self, queue: &str) -> BTreeSet<String> {
        let groups = self.cluster_queues.get(queue).map_or(&[][..], |queue| &queue.spec.resource_groups);
        let of_gpus = |flavor: &FlavorQuotas| flavor.resources.iter().any(|quota| is_gpu(&quota.name));
        let flavors = groups.iter().flat_map(|group| &group.flavors).filter(|flavor| !of_gpus(flavor));
        flavors.map(|flavor| flavor.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn cluster_queue(name: &str, spec: &Value) -> Arc<ClusterQueue> {
        Arc::new(from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a ClusterQueue"))
    }

    fn quotas(flavors: &[(&str, &str, Value, Value)]) -> Value {
        let flavor = |(name, resource, nominal, borrowed): &(&str, &str, Value, Value)| json!({"name": name, "resources": [{"name": resource, "nominalQuota": nominal, "borrowingLimit": borrowed}]});
        json!([{"flavors": flavors.iter().map(flavor).collect::<Vec<_>>()}])
    }

    fn queues(all: Vec<Arc<ClusterQueue>>, led_to: &[(&str, &str, &str)]) -> Queues {
        let local = |(namespace, name, queue): &(&str, &str, &str)| {
            let value = json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"clusterQueue": queue}});
            Arc::new(from_value(value).expect("a LocalQueue"))
        };
        Queues::new(all, &led_to.iter().map(local).collect::<Vec<_>>(), Vec::new())
    }

    #[test]
    fn whose_a_job_is_follows_from_its_queue() {
        let named = |name: &str| cluster_queue(name, &json!({}));
        let led_to = [
            ("a", "x", "cq1"),
            ("b", "x", "cq1"),
            ("b", "y", "cq2"),
            ("c", "default", "cq2"),
            ("c", "z", "cq1"),
            ("d", "x", "gone"),
        ];
        let found = queues(vec![named("cq1"), named("cq2")], &led_to);
        let label = |queue: &str| Words::from([(QUEUE_LABEL.to_owned(), queue.to_owned())]);
        for (namespace, labels, expected) in [
            ("a", Words::new(), Some("cq1")),
            ("a", label("nope"), None),
            ("b", Words::new(), None),
            ("b", label("y"), Some("cq2")),
            ("c", Words::new(), Some("cq2")),
            ("c", label("z"), Some("cq1")),
            ("d", Words::new(), None),
            ("e", label("x"), None),
        ] {
            assert_eq!(found.of(namespace, &labels), expected, "{namespace} {labels:?}");
        }
    }

    #[test]
    fn a_nominal_quota_is_owed_and_limits_only_where_nothing_can_be_borrowed() {
        let two = |cohort: Value, limits: [Value; 2]| {
            let [a, b] = limits;
            let gpus = quotas(&[("v100", "nvidia.com/gpu", json!("6"), a), ("a100", "nvidia.com/gpu", json!(2), b)]);
            json!({"resourceGroups": gpus, "cohort": cohort})
        };
        let none = || [Value::Null, Value::Null];
        for (spec, weight, gpus) in [
            (two(Value::Null, none()), 8.0, Some(8)),
            (two(json!("all"), none()), 8.0, None),
            (two(json!("all"), [json!("2"), json!("1")]), 8.0, Some(11)),
            (two(json!("all"), [json!("2"), Value::Null]), 8.0, None),
        ] {
            let found = queues(vec![cluster_queue("cq", &spec)], &[]).entitlements();
            assert_eq!(found["cq"], Entitlement { weight, gpus }, "{spec}");
        }
        let mut weighted = two(Value::Null, none());
        weighted["fairSharing"] = json!({"weight": "1500m"});
        let cpus = json!({"resourceGroups": quotas(&[("any", "cpu", json!("64"), Value::Null)])});
        let all = vec![
            cluster_queue("plain", &two(Value::Null, none())),
            cluster_queue("weighted", &weighted),
            cluster_queue("cpus", &cpus),
        ];
        let found = queues(all, &[]).entitlements();
        let weights: Vec<(&str, f64)> = found.iter().map(|(name, owed)| (name.as_str(), owed.weight)).collect();
        assert_eq!(weights, [("plain", 1.0), ("weighted", 1.5)], "weights count for all as soon as one has one");
    }
}
