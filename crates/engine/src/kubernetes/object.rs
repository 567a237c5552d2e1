//! The few kinds of objects that arles reads, and the few fields of each.

use super::claims::{Claimed, DRIVER, NodeDevices, PodClaim, PodClaimStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// By whom a GPU is made, as pods ask for it.
pub(super) const GPU_RESOURCES: [&str; 2] = ["nvidia.com/gpu", "amd.com/gpu"];
/// Slices of NVIDIA's cards, with their profile after it.
const SLICES: &str = "nvidia.com/mig-";

/// Whether a resource is one that arles gives out: GPUs, or slices of them.
pub(super) fn is_gpu(resource: &str) -> bool {
    GPU_RESOURCES.contains(&resource) || resource.starts_with(SLICES) || resource == DRIVER
}

/// What GPUs with this label are called when they are asked for as this resource: slices have their profile in their name.
pub(super) fn product_as(product: &str, resource: &str) -> String {
    match resource.strip_prefix(SLICES) {
        Some(profile) if !product.ends_with(profile) => format!("{product}-MIG-{profile}"),
        _ => product.to_owned(),
    }
}
/// Labels of nodes that name the model of their GPUs, by who makes them.
pub(super) const PRODUCT_LABELS: [&str; 2] = ["nvidia.com/gpu.product", "amd.com/gpu.product-name"];

/// Something with a name at the API server.
pub(super) trait Object: DeserializeOwned + Send + Sync + 'static {
    fn meta(&self) -> &Meta;
}

/// Null is what an empty list or map is in some answers.
pub(super) fn or_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

pub(super) type Words = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: Words,
    #[serde(deserialize_with = "or_default")]
    pub(super) annotations: Words,
    #[serde(deserialize_with = "or_default")]
    pub(super) owner_references: Vec<Owner>,
    #[serde(deserialize_with = "or_default")]
    pub(super) finalizers: Vec<String>,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) creation_timestamp: Option<String>,
    /// Where a list goes on.
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

impl Meta {
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Larger is later. What is no number is as old as can be.
    pub(super) fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }

    /// Who makes another one when this one is gone.
    pub(super) fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) controller: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: Meta,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_name: Option<String>,
    pub(super) scheduler_name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) scheduling_gates: Vec<Named>,
    #[serde(deserialize_with = "or_default")]
    pub(super) containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub(super) init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub(super) node_selector: Words,
    #[serde(deserialize_with = "or_default")]
    pub(super) affinity: Affinity,
    #[serde(deserialize_with = "or_default")]
    pub(super) tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "or_default")]
    pub(super) overhead: Words,
    #[serde(deserialize_with = "or_default")]
    pub(super) resource_claims: Vec<PodClaim>,
    /// What these claims come to, once they were looked up.
    #[serde(skip)]
    pub(super) claimed: Claimed,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Container {
    pub(super) resources: Resources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    #[serde(deserialize_with = "or_default")]
    pub(super) requests: Words,
    #[serde(deserialize_with = "or_default")]
    pub(super) limits: Words,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    #[serde(deserialize_with = "or_default")]
    pub(super) node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelector {
    #[serde(deserialize_with = "or_default")]
    pub(super) node_selector_terms: Vec<Term>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Term {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(super) match_expressions: Vec<Requirement>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(super) match_fields: Vec<Requirement>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<String>,
}

/// The field by which a node is meant and no other, whatever its labels say.
pub(super) const NODE_FIELD: &str = "metadata.name";

impl Requirement {
    fn node(name: &str) -> Self {
        Self { key: NODE_FIELD.into(), operator: "In".into(), values: vec![name.to_owned()] }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Toleration {
    pub(super) key: String,
    pub(super) operator: String,
    pub(super) value: String,
    pub(super) effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) start_time: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub(super) resource_claim_statuses: Vec<PodClaimStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    pub(super) state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terminated {
    pub(super) exit_code: i32,
}

impl Object for Pod {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Pod {
    pub(super) fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.metadata.namespace, self.metadata.name)
    }

    /// As people know it.
    pub(super) fn shown(&self) -> String {
        self.metadata.key()
    }

    pub(super) fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The node that it is on, or the one that it is pinned to.
    pub(super) fn seat(&self) -> Option<&str> {
        let terms =
            || Some(&self.spec.affinity.node_affinity.required.as_ref()?.node_selector_terms.first()?.match_fields);
        let pinned = || terms()?.iter().rev().find(|wish| wish.key == NODE_FIELD && wish.operator == "In");
        self.node().or_else(|| pinned()?.values.first().map(String::as_str))
    }

    /// Its required terms with the wish for one node in each. They can be added to while a pod waits behind a gate, and nothing else of them can be
    /// changed. A term that is empty matches nothing and stays so.
    pub(super) fn pinned_terms(&self, node: &str) -> Vec<Term> {
        let required = self.spec.affinity.node_affinity.required.as_ref();
        let mut terms = required.map_or_else(Vec::new, |required| required.node_selector_terms.clone());
        if terms.is_empty() {
            return vec![Term { match_fields: vec![Requirement::node(node)], ..Term::default() }];
        }
        for term in terms.iter_mut().filter(|term| **term != Term::default()) {
            term.match_fields.push(Requirement::node(node));
        }
        terms
    }

    /// The resources that it asks GPUs as.
    pub(super) fn gpu_resources(&self) -> BTreeSet<&str> {
        let all = self.spec.init_containers.iter().chain(&self.spec.containers).map(|container| &container.resources);
        let names = all.flat_map(|resources| resources.limits.keys().chain(resources.requests.keys()));
        let names = names.chain(self.spec.claimed.gpus.keys());
        names.map(String::as_str).filter(|name| is_gpu(name)).collect()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it has ended by itself.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub(super) fn runs(&self) -> bool {
        self.status.phase == "Running" && !self.is_leaving()
    }

    /// Whether it holds what it asks for on its node.
    pub(super) fn holds(&self) -> bool {
        self.node().is_some() && !self.is_over()
    }

    /// Whether somebody may still give it a place.
    pub(super) fn waits(&self) -> bool {
        self.node().is_none() && !self.is_over() && !self.is_leaving()
    }

    /// The exit code of the container that failed, or of the first.
    pub(super) fn exit_code(&self) -> Option<i32> {
        let codes =
            self.status.container_statuses.iter().filter_map(|c| c.state.terminated.as_ref().map(|t| t.exit_code));
        let codes: Vec<i32> = codes.collect();
        codes.iter().copied().find(|code| *code != 0).or(codes.first().copied())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) metadata: Meta,
    pub(super) spec: NodeDetails,
    pub(super) status: NodeStatus,
    /// Its GPUs, where they are handed out by claims.
    #[serde(skip)]
    pub(super) devices: Option<NodeDevices>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeDetails {
    pub(super) unschedulable: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Taint {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    pub(super) allocatable: Words,
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Object for Node {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Node {
    /// Whether its kubelet is heard.
    pub(super) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True")
    }

    /// The resource that its GPUs are asked for as; none where there are no GPUs, or several sorts of them: arles counts one on each node.
    pub(super) fn gpu_resource(&self) -> Option<&str> {
        let some = |text: &str| super::fit::quantity(text).is_some_and(|count| count >= 1.0);
        let mut found = self.status.allocatable.iter().filter(|(name, count)| is_gpu(name) && some(count));
        let (name, _) = found.next()?;
        found.next().is_none().then_some(name)
    }

    /// What its GPUs are called.
    pub(super) fn product(&self) -> Option<String> {
        let resource = self.gpu_resource()?;
        if let Some(devices) = &self.devices {
            return devices.product();
        }
        let product = PRODUCT_LABELS.iter().find_map(|label| self.metadata.labels.get(*label))?;
        Some(product_as(product, resource))
    }

    /// Why its operator wants nothing new there. Taints that only keep pods without GPUs away are none of that, and those of a node that is lost
    /// say what its readiness says.
    pub(super) fn drained(&self) -> Option<String> {
        if self.spec.unschedulable {
            return Some("Kubernetes says: the node is cordoned".into());
        }
        let usual = |taint: &&Taint| {
            !GPU_RESOURCES.contains(&taint.key.as_str())
                && !taint.key.starts_with("node.kubernetes.io/")
                && matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
        };
        let taint = self.spec.taints.iter().find(usual)?;
        Some(format!("Kubernetes says: the node has the taint {}", taint.key))
    }
}

/// A Job of `batch/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Job {
    pub(super) metadata: Meta,
    pub(super) spec: JobDetails,
    pub(super) status: JobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobDetails {
    pub(super) parallelism: Option<u32>,
    pub(super) completions: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    pub(super) suspend: bool,
    pub(super) template: Template,
}

/// What a Job's pods are made from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Template {
    pub(super) metadata: Meta,
    pub(super) spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobStatus {
    pub(super) succeeded: u32,
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: Vec<Condition>,
}

impl Object for Job {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Job {
    /// Pods that run at once when none has ended yet.
    pub(super) fn size(&self) -> u32 {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        self.spec.completions.map_or(parallelism, |completions| completions.min(parallelism))
    }

    /// Pods that should run at once now.
    pub(super) fn wanted_now(&self) -> u32 {
        let left = self.spec.completions.map(|completions| completions.saturating_sub(self.status.succeeded));
        self.size().min(left.unwrap_or(u32::MAX))
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
    }

    pub(super) fn path(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs/{}", self.metadata.namespace, self.metadata.name)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Namespace {
    pub(super) metadata: Meta,
}

impl Object for Namespace {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}
