//! GPUs that are handed out by claims: dynamic resource allocation (DRA, `resource.k8s.io`), where a cluster has it.
//!
//! A driver lists the devices of a node in ResourceSlices. Pods name ResourceClaims, or templates of them, which ask for so many devices of a DeviceClass. The
//! default scheduler picks the devices and writes them into the claim. Here it is found out how many GPUs a node has and how many a pod asks for, and both are put where
//! the rest of this engine looks anyway: on the node as an allocatable resource, on the pod as one more thing that it asks for.
//!
//! - **arles allocates nothing.** Whoever binds a pod with claims must allocate them first. So such pods wait behind the gate or in a suspended Job, and those
//!   with arles' `schedulerName` are refused.
//! - **One device is one GPU**, of the kind that its `productName` says. Slices of cards are left out.
//! - **A claim is counted once**: with the pod that it is reserved for, or else by itself, on the node of its devices. It outlives its pod by a moment, and until it is
//!   gone nobody can have its devices.
//! - **Selectors are read, not evaluated.** They are programs in CEL. Those that pick whole GPUs or products are understood, and pods with others are refused: a
//!   guess would send them to nodes where the default scheduler could never bind them.
//!
//! Both shapes are read, that of `v1` (and `v1beta2`) and that of `v1beta1`. Nothing here changes anything.

use super::client::Client;
use super::fit::Room;
use super::group::Group;
use super::mark::Hold;
use super::mirror::Mirror;
use super::object::{Job, Meta, Node, Object, Pod, PodSpec, Words, or_default};
use super::selector::Selector;
use super::tools::ClaimedGpus;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Its group at the API server.
pub(super) const GROUP: &str = "resource.k8s.io";
/// What is followed of it.
pub(super) const RESOURCES: [&str; 4] = ["resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates"];
/// The driver whose devices are GPUs. Pods ask for them as this resource, as far as the rest of the engine knows.
pub(super) const DRIVER: &str = "gpu.nvidia.com";
/// The attribute `type` of a whole one.
pub(super) const WHOLE: &str = "gpu";

/// A pod's name for a claim, and where that comes from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodClaim {
    name: String,
    resource_claim_name: Option<String>,
    resource_claim_template_name: Option<String>,
}

/// The claim that was made for a pod from a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodClaimStatus {
    name: String,
    resource_claim_name: Option<String>,
}

/// What a pod asks for by its claims.
#[derive(Clone, Debug, Default)]
pub(super) struct Claimed {
    /// Resource and number.
    pub(super) gpus: Words,
    /// Products that it insists on.
    pub(super) products: Vec<String>,
    /// A claim of GPUs that it names itself, so that others can name it too.
    named: Option<String>,
    /// Why arles cannot place it.
    wrong: Vec<String>,
    /// A claim, a template or a class is not there yet: nobody knows what it asks for.
    pub(super) is_unknown: bool,
}

/// What a node has by ResourceSlices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NodeDevices {
    count: u32,
    products: BTreeSet<String>,
}

impl NodeDevices {
    /// What its GPUs are called; nothing where they differ.
    pub(super) fn product(&self) -> Option<String> {
        self.products.first().filter(|_| self.products.len() == 1).cloned()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceSlice {
    metadata: Meta,
    spec: SliceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SliceSpec {
    driver: String,
    pool: Pool,
    #[serde(deserialize_with = "or_default")]
    node_name: String,
    #[serde(deserialize_with = "or_default")]
    devices: Vec<Device>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Pool {
    name: String,
    generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Device {
    name: String,
    #[serde(flatten)]
    details: DeviceDetails,
    /// Where `v1beta1` has the same.
    basic: Option<DeviceDetails>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeviceDetails {
    #[serde(deserialize_with = "or_default")]
    attributes: BTreeMap<String, Attribute>,
    node_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    taints: Vec<super::object::Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Attribute {
    string: Option<String>,
}

impl Device {
    fn details(&self) -> &DeviceDetails {
        self.basic.as_ref().unwrap_or(&self.details)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let all = &self.details().attributes;
        all.get(name).or_else(|| all.get(&format!("{DRIVER}/{name}")))?.string.as_deref()
    }

    fn is_whole(&self) -> bool {
        self.attribute("type") == Some(WHOLE)
    }

    /// Whether new claims may have it.
    fn is_usable(&self) -> bool {
        !self.details().taints.iter().any(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceClass {
    metadata: Meta,
    spec: ClassSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClassSpec {
    #[serde(deserialize_with = "or_default")]
    selectors: Vec<Cel>,
    extended_resource_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Cel {
    cel: Expression,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    expression: String,
}

fn read(selectors: &[Cel]) -> Selector {
    Selector::read(selectors.iter().map(|selector| selector.cel.expression.as_str()))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceClaim {
    metadata: Meta,
    spec: ClaimSpec,
    #[serde(deserialize_with = "or_default")]
    status: ClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceClaimTemplate {
    metadata: Meta,
    spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateSpec {
    spec: ClaimSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimSpec {
    #[serde(deserialize_with = "or_default")]
    devices: ClaimDevices,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimDevices {
    #[serde(deserialize_with = "or_default")]
    requests: Vec<Request>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    exactly: Option<Exactly>,
    #[serde(deserialize_with = "or_default")]
    first_available: Vec<Exactly>,
    /// Where `v1beta1` has what is in `exactly` otherwise.
    #[serde(flatten)]
    flat: Exactly,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exactly {
    device_class_name: String,
    #[serde(deserialize_with = "or_default")]
    selectors: Vec<Cel>,
    allocation_mode: String,
    count: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    admin_access: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus {
    #[serde(deserialize_with = "or_default")]
    allocation: Allocation,
    #[serde(deserialize_with = "or_default")]
    reserved_for: Vec<Consumer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Allocation {
    #[serde(deserialize_with = "or_default")]
    devices: AllocatedDevices,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AllocatedDevices {
    #[serde(deserialize_with = "or_default")]
    results: Vec<AllocatedDevice>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllocatedDevice {
    driver: String,
    pool: String,
    device: String,
    #[serde(deserialize_with = "or_default")]
    admin_access: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Consumer {
    uid: String,
}

impl ResourceClaim {
    fn is_allocated(&self) -> bool {
        !self.status.allocation.devices.results.is_empty()
    }
}

macro_rules! objects {
    ($($kind:ty),*) => {$(
        impl Object for $kind {
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        }
    )*};
}
objects!(ResourceSlice, DeviceClass, ResourceClaim, ResourceClaimTemplate);

/// What is followed of claims.
pub(super) struct ClaimMirrors {
    slices: Mirror<ResourceSlice>,
    classes: Mirror<DeviceClass>,
    claims: Mirror<ResourceClaim>,
    templates: Mirror<ResourceClaimTemplate>,
}

impl ClaimMirrors {
    pub(super) fn follow(client: &Client) -> Self {
        let [slices, classes, claims, templates] = RESOURCES;
        Self {
            slices: Mirror::follow_if_there(client, GROUP, slices),
            classes: Mirror::follow_if_there(client, GROUP, classes),
            claims: Mirror::follow_if_there(client, GROUP, claims),
            templates: Mirror::follow_if_there(client, GROUP, templates),
        }
    }

    pub(super) fn changes(&self) -> u64 {
        self.slices.changes() + self.classes.changes() + self.claims.changes() + self.templates.changes()
    }

    pub(super) fn check(&self, patience: std::time::Duration) -> Result<(), super::client::ApiError> {
        self.slices.check(patience)?;
        self.classes.check(patience)?;
        self.claims.check(patience)?;
        self.templates.check(patience)
    }

    pub(super) fn claims(&self) -> Claims {
        Claims::new(&self.slices.objects(), &self.classes.objects(), self.claims.objects(), self.templates.objects())
    }
}

/// What was asked by one request.
struct Asked {
    gpus: u32,
    products: Vec<String>,
    wrong: Option<String>,
}

/// GPUs of a claim that no pod with a place accounts for.
pub(super) struct LooseClaim {
    pub(super) node: String,
    pub(super) uid: String,
    pub(super) gpus: u32,
    /// It was made for a pod and goes with it.
    pub(super) is_leaving: bool,
}

/// What a cluster says of GPUs by claims. Empty where there are none.
#[derive(Default)]
pub(super) struct Claims {
    nodes: BTreeMap<String, NodeDevices>,
    /// Nodes of whole GPUs by pool and name.
    homes: BTreeMap<(String, String), String>,
    classes: BTreeMap<String, Selector>,
    /// What pods may ask for instead of a claim, if a class says so; otherwise the driver's name.
    resource: String,
    claims: BTreeMap<String, Arc<ResourceClaim>>,
    templates: BTreeMap<String, Arc<ResourceClaimTemplate>>,
}

impl Claims {
    fn new(
        slices: &[Arc<ResourceSlice>],
        classes: &[Arc<DeviceClass>],
        claims: Vec<Arc<ResourceClaim>>,
        templates: Vec<Arc<ResourceClaimTemplate>>,
    ) -> Self {
        let selectors = classes.iter().map(|class| (class.metadata.name.clone(), read(&class.spec.selectors)));
        let gpus = classes.iter().filter(|class| read(&class.spec.selectors).is_plain());
        let offered = gpus.filter_map(|class| class.spec.extended_resource_name.clone());
        let resource = offered.into_iter().find(|name| super::object::is_gpu(name));
        let mut found = Self {
            classes: selectors.collect(),
            resource: resource.unwrap_or_else(|| DRIVER.to_owned()),
            claims: claims.into_iter().map(|claim| (claim.metadata.key(), claim)).collect(),
            templates: templates.into_iter().map(|template| (template.metadata.key(), template)).collect(),
            ..Self::default()
        };
        let mut newest: BTreeMap<&str, i64> = BTreeMap::new();
        let ours = || slices.iter().map(|slice| &slice.spec).filter(|spec| spec.driver == DRIVER);
        for Pool { name, generation } in ours().map(|spec| &spec.pool) {
            let known = newest.entry(name).or_insert(*generation);
            *known = (*known).max(*generation);
        }
        // Slices of an older generation are about to be deleted.
        for spec in ours().filter(|spec| newest[spec.pool.name.as_str()] == spec.pool.generation) {
            found.add(spec);
        }
        found
    }

    fn add(&mut self, slice: &SliceSpec) {
        for device in slice.devices.iter().filter(|device| device.is_whole()) {
            let node = device.details().node_name.as_ref().unwrap_or(&slice.node_name);
            if node.is_empty() {
                continue;
            }
            self.homes.insert((slice.pool.name.clone(), device.name.clone()), node.clone());
            if device.is_usable() {
                let there = self.nodes.entry(node.clone()).or_default();
                there.count += 1;
                there.products.insert(device.attribute("productName").unwrap_or_default().to_owned());
            }
        }
    }

    /// All of them, and what picks them.
    pub(super) fn totals(&self) -> Option<ClaimedGpus> {
        let gpus: u32 = self.nodes.values().map(|devices| devices.count).sum();
        let classes = self.classes.iter().filter(|(_, class)| class.is_of_gpus).map(|(name, _)| name.clone()).collect();
        (gpus > 0).then_some(ClaimedGpus { gpus, nodes: self.nodes.len(), classes })
    }

    /// A node with what its slices say.
    pub(super) fn node(&self, node: Arc<Node>) -> Arc<Node> {
        let Some(devices) = self.nodes.get(&node.metadata.name) else { return node };
        let mut found = Node::clone(&node);
        // The same cards by a device plugin as well: two names for them, so that neither is counted.
        let has_plugin = Room::of_node(&node).gpus >= 1.0;
        let resource = if has_plugin { DRIVER } else { &self.resource };
        found.status.allocatable.insert(resource.to_owned(), devices.count.to_string());
        found.devices = Some(devices.clone());
        Arc::new(found)
    }

    /// A pod with what its claims ask for.
    pub(super) fn pod(&self, pod: Arc<Pod>) -> Arc<Pod> {
        if pod.spec.resource_claims.is_empty() {
            return pod;
        }
        let mut found = Pod::clone(&pod);
        found.spec.claimed = self.claimed(&pod.spec, &pod.metadata, &pod.status.resource_claim_statuses);
        Arc::new(found)
    }

    /// A Job whose template says what the claims of its pods will ask for.
    pub(super) fn job(&self, job: Arc<Job>) -> Arc<Job> {
        let template = &job.spec.template.spec;
        if template.resource_claims.is_empty() {
            return job;
        }
        let of = Meta { namespace: job.metadata.namespace.clone(), ..Meta::default() };
        let claimed = self.claimed(template, &of, &[]);
        let mut found = Job::clone(&job);
        found.spec.template.spec.claimed = claimed;
        Arc::new(found)
    }

    fn claimed(&self, spec: &PodSpec, meta: &Meta, made: &[PodClaimStatus]) -> Claimed {
        let mut claimed = Claimed::default();
        let mut gpus = 0;
        for wish in &spec.resource_claims {
            let key = |name: &str| format!("{}/{name}", meta.namespace);
            let generated = made.iter().find(|made| made.name == wish.name);
            let name = wish.resource_claim_name.as_ref().or_else(|| generated?.resource_claim_name.as_ref());
            let claim = name.and_then(|name| self.claims.get(&key(name)));
            let template = wish.resource_claim_template_name.as_ref().and_then(|name| self.templates.get(&key(name)));
            let asked = match (claim, template) {
                (Some(claim), _) => self.asked(&claim.spec),
                (None, Some(template)) => self.asked(&template.spec.spec),
                (None, None) => None,
            };
            let Some(asked) = asked else {
                claimed.is_unknown = true;
                continue;
            };
            let allocated = claim.filter(|claim| claim.is_allocated()).map(|claim| self.allocated(claim).len() as u32);
            let count = allocated.unwrap_or(asked.gpus);
            if wish.resource_claim_name.is_some() && (count > 0 || asked.wrong.is_some()) {
                claimed.named.clone_from(&wish.resource_claim_name);
            }
            // Of several pods with one claim, the first that it was reserved for has its devices.
            let holder = claim.and_then(|claim| claim.status.reserved_for.first());
            if holder.is_none_or(|holder| holder.uid == meta.uid) {
                gpus += count;
            }
            claimed.products.extend(asked.products);
            claimed.wrong.extend(asked.wrong);
        }
        if gpus > 0 {
            claimed.gpus.insert(self.resource.clone(), gpus.to_string());
        }
        claimed
    }

    /// What a claim asks for; nothing where a class of it is not there.
    fn asked(&self, spec: &ClaimSpec) -> Option<Asked> {
        let mut all = Asked { gpus: 0, products: Vec::new(), wrong: None };
        for request in &spec.devices.requests {
            if let Some(first) = request.first_available.first() {
                let class = self.classes.get(&first.device_class_name)?;
                if class.is_of_gpus {
                    all.wrong = Some("its claim has alternatives (firstAvailable), and arles counts GPUs of one request; ask for them with 'exactly'".into());
                }
                continue;
            }
            let exactly = request.exactly.as_ref().unwrap_or(&request.flat);
            let class = self.classes.get(&exactly.device_class_name)?;
            if !class.is_of_gpus || exactly.admin_access {
                continue;
            }
            let both = class.clone().and(read(&exactly.selectors));
            all.gpus += exactly.count.unwrap_or(1);
            if exactly.allocation_mode == "All" {
                all.wrong = Some(
                    "its claim asks for all GPUs of a node (allocationMode: All); say how many with 'count'".into(),
                );
            } else if let Some(odd) = &both.odd {
                let class = &exactly.device_class_name;
                all.wrong = Some(format!(
                    "its claim for {class} selects devices by '{odd}', which arles does not evaluate; leave that out and name the kinds in the annotation arles/kinds"
                ));
            }
            all.products.extend(both.products.unwrap_or_default());
        }
        Some(all)
    }

    /// The whole GPUs that a claim has, by their nodes.
    fn allocated<'c>(&'c self, claim: &'c ResourceClaim) -> Vec<&'c String> {
        let ours = |device: &&AllocatedDevice| device.driver == DRIVER && !device.admin_access;
        let devices = claim.status.allocation.devices.results.iter().filter(ours);
        devices.filter_map(|device| self.homes.get(&(device.pool.clone(), device.device.clone()))).collect()
    }

    /// Claims with GPUs that are reserved for none of these pods.
    pub(super) fn loose<'c>(&'c self, counted: &'c BTreeSet<String>) -> impl Iterator<Item = LooseClaim> + 'c {
        let is_counted =
            |claim: &ResourceClaim| claim.status.reserved_for.iter().any(|consumer| counted.contains(&consumer.uid));
        self.claims.values().filter(move |claim| !is_counted(claim)).filter_map(|claim| {
            let nodes = self.allocated(claim);
            let is_leaving = claim.metadata.controller().is_some_and(|owner| owner.kind == "Pod");
            let node = (*nodes.first()?).clone();
            Some(LooseClaim { node, uid: claim.metadata.uid.clone(), gpus: nodes.len() as u32, is_leaving })
        })
    }
}

impl Group {
    /// Why arles cannot place it, by the claims of its waiting pods.
    pub(super) fn wrong_claims(waiting: &[&Arc<Pod>], scheduler_name: &str) -> Vec<String> {
        let is_bound_by_us = |pod: &&&Arc<Pod>| {
            !pod.spec.resource_claims.is_empty() && pod.hold(scheduler_name) == Some(Hold::Scheduler)
        };
        if waiting.iter().any(|pod| is_bound_by_us(&pod)) {
            return vec![format!(
                "it has resource claims, which the default scheduler allocates, and schedulerName is {scheduler_name}; leave schedulerName out and use the gate {} or a suspended Job",
                super::mark::GATE
            )];
        }
        let shared = waiting.iter().find_map(|pod| pod.spec.claimed.named.as_ref());
        if let Some(name) = shared.filter(|_| waiting.len() > 1) {
            return vec![format!(
                "its pods share the claim {name}, and arles gives every pod GPUs of its own; use a ResourceClaimTemplate"
            )];
        }
        waiting.iter().flat_map(|pod| pod.spec.claimed.wrong.clone()).take(1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fit::forbidden;
    use super::super::mark::GATE;
    use super::*;
    use serde_json::{Value, from_value, json};

    fn objects<T: Object>(values: &[Value]) -> Vec<Arc<T>> {
        values.iter().map(|value| Arc::new(from_value(value.clone()).expect("an object"))).collect()
    }

    fn device(name: &str, product: &str, sort: &str) -> Value {
        json!({"name": name, "attributes": {"type": {"string": sort}, "productName": {"string": product}, "minor": {"int": 0}}})
    }

    fn slice(node: &str, generation: u32, devices: &[Value]) -> Value {
        let pool = json!({"name": node, "generation": generation, "resourceSliceCount": 1});
        json!({"metadata": {"name": node}, "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}})
    }

    fn class(name: &str, expression: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}})
    }

    fn gpu_class() -> Value {
        class(DRIVER, "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'")
    }

    fn template(name: &str, requests: &Value) -> Value {
        let meta = json!({"namespace": "team", "name": name});
        json!({"metadata": meta, "spec": {"spec": {"devices": {"requests": requests}}}})
    }

    fn exactly(count: u32) -> Value {
        json!([{"name": "gpus", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count}}])
    }

    fn pod(claims: &Value) -> Pod {
        let meta = json!({"namespace": "team", "name": "p", "uid": "u1"});
        let spec = json!({"resourceClaims": claims, "schedulingGates": [{"name": GATE}]});
        from_value(json!({"metadata": meta, "spec": spec})).expect("a pod")
    }

    fn by_template(name: &str) -> Value {
        json!([{"name": "c", "resourceClaimTemplateName": name}])
    }

    /// Two nodes of four GPUs, one class, and these templates and claims.
    fn world(templates: &[Value], claims: &[Value]) -> Claims {
        let four = |node: &str, product: &str| {
            slice(node, 2, &(0..4).map(|n| device(&format!("gpu-{n}"), product, WHOLE)).collect::<Vec<_>>())
        };
        let slices = [four("n0", "NVIDIA A100-SXM4-40GB"), four("n1", "Tesla V100-SXM2-16GB")];
        let classes = [gpu_class(), class("dra.example.org", "device.driver == 'dra.example.org'")];
        Claims::new(&objects(&slices), &objects(&classes), objects(claims), objects(templates))
    }

    fn node(name: &str, allocatable: &Value) -> Arc<Node> {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"allocatable": allocatable, "conditions": ready});
        let labels = json!({"nvidia.com/gpu.product": "Quadro"});
        Arc::new(from_value(json!({"metadata": {"name": name, "labels": labels}, "status": status})).expect("a node"))
    }

    #[test]
    fn a_node_has_the_devices_of_its_newest_slices() {
        let v1beta1 = |name: &str| {
            let attributes = json!({"type": {"string": "gpu"}, "productName": {"string": "Tesla V100-SXM2-16GB"}});
            json!({"name": name, "basic": {"attributes": attributes}})
        };
        let mut tainted = device("gpu-2", "A", WHOLE);
        tainted["taints"] = json!([{"key": "gpu.nvidia.com/xid", "effect": "NoExecute"}]);
        let slices = [
            slice("n0", 1, &[device("gpu-0", "old", WHOLE)]),
            slice(
                "n0",
                2,
                &[device("gpu-0", "A", WHOLE), device("gpu-1", "A", WHOLE), tainted, device("mig", "A", "mig")],
            ),
            slice("n1", 1, &[v1beta1("gpu-0")]),
            slice("n2", 1, &[device("gpu-0", "A", WHOLE), device("gpu-1", "B", WHOLE)]),
        ];
        let found = Claims::new(&objects(&slices), &objects(&[gpu_class()]), Vec::new(), Vec::new());
        let shown = |name: &str, allocatable: &Value| {
            let node = found.node(node(name, allocatable));
            (Room::of_node(&node).gpus, node.product(), node.gpu_resource().map(str::to_owned))
        };
        let driver = Some(DRIVER.to_owned());
        assert_eq!(shown("n0", &json!({})), (2.0, Some("A".into()), driver.clone()));
        assert_eq!(
            shown("n1", &json!({"nvidia.com/gpu": "0"})),
            (1.0, Some("Tesla V100-SXM2-16GB".into()), driver.clone())
        );
        assert_eq!(shown("n2", &json!({})), (2.0, None, driver), "two products on one node");
        assert_eq!(shown("n0", &json!({"nvidia.com/gpu": "2"})).2, None, "the same cards by a device plugin as well");
        assert_eq!(shown("n9", &json!({"nvidia.com/gpu": "1"})).1, Some("Quadro".into()));
        assert_eq!(found.totals().map(|all| (all.gpus, all.nodes, all.classes)), Some((5, 3, vec![DRIVER.to_owned()])));
    }

    #[test]
    fn a_pod_asks_for_what_its_claims_ask_for() {
        let flat = json!([{"name": "g", "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 3}]);
        let other = json!([{"name": "nic", "exactly": {"deviceClassName": "dra.example.org", "count": 2}}]);
        let admin = json!([{"name": "g", "exactly": {"deviceClassName": DRIVER, "adminAccess": true}}]);
        let templates =
            [template("two", &exactly(2)), template("flat", &flat), template("nic", &other), template("admin", &admin)];
        let world = world(&templates, &[]);
        for (name, gpus) in [("two", 2.0), ("flat", 3.0), ("nic", 0.0), ("admin", 0.0)] {
            let pod = world.pod(Arc::new(pod(&by_template(name))));
            assert_eq!((Room::of_pod(&pod).gpus, pod.spec.claimed.is_unknown), (gpus, false), "{name}");
        }
        let pod = world.pod(Arc::new(pod(&by_template("two"))));
        let (by_claim, by_plugin) = (world.node(node("n0", &json!({}))), node("n9", &json!({"nvidia.com/gpu": "8"})));
        assert_eq!(forbidden(&pod, &by_claim), None);
        assert!(forbidden(&pod, &by_plugin).is_some_and(|why| why.contains(DRIVER)));
        assert!(super::super::fit::unbindable(&pod, &by_claim).is_some(), "arles allocates nothing");
    }

    #[test]
    fn what_cannot_be_placed_is_refused_with_a_remedy() {
        let all = json!([{"name": "g", "exactly": {"deviceClassName": DRIVER, "allocationMode": "All"}}]);
        let first = json!([{"name": "g", "firstAvailable": [{"name": "a", "deviceClassName": DRIVER}]}]);
        let odd = json!([{"name": "g", "exactly": {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].architecture == 'Hopper'"}}]}}]);
        let world = world(
            &[template("two", &exactly(2)), template("all", &all), template("first", &first), template("odd", &odd)],
            &[
                json!({"metadata": {"namespace": "team", "name": "mine"}, "spec": {"devices": {"requests": exactly(1)}}}),
            ],
        );
        let why = |pods: &[Pod]| {
            let pods: Vec<Arc<Pod>> = pods.iter().map(|pod| world.pod(Arc::new(pod.clone()))).collect();
            Group::wrong_claims(&pods.iter().collect::<Vec<_>>(), "arles").join(" ")
        };
        let named = json!([{"name": "c", "resourceClaimName": "mine"}]);
        let mut bound_by_us = pod(&by_template("two"));
        bound_by_us.spec.scheduling_gates.clear();
        bound_by_us.spec.scheduler_name = "arles".into();
        for (pods, expected) in [
            (vec![pod(&by_template("two"))], ""),
            (vec![pod(&by_template("all"))], "say how many with 'count'"),
            (vec![pod(&by_template("first"))], "'exactly'"),
            (vec![pod(&by_template("odd"))], "arles/kinds"),
            (vec![pod(&named)], ""),
            (vec![pod(&named), pod(&named)], "ResourceClaimTemplate"),
            (vec![bound_by_us], "use the gate"),
        ] {
            let said = why(&pods);
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{expected}: {said}");
        }
        let unknown = world.pod(Arc::new(pod(&by_template("later"))));
        let group = Group { pods: vec![unknown], ..Group::default() };
        assert!(group.arrival("team", "arles").is_none(), "its template is not there yet");
    }

    #[test]
    fn devices_of_a_claim_count_once_and_until_it_is_gone() {
        let claim = |name: &str, reserved: &Value, owner: &Value| {
            let results: Vec<Value> = ["gpu-1", "gpu-2"]
                .iter()
                .map(|device| json!({"request": "g", "driver": DRIVER, "pool": "n1", "device": device}))
                .collect();
            let status = json!({"allocation": {"devices": {"results": results}}, "reservedFor": reserved});
            let meta = json!({"namespace": "team", "name": name, "uid": name, "ownerReferences": owner});
            json!({"metadata": meta, "spec": {"devices": {"requests": exactly(2)}}, "status": status})
        };
        let of_pod = json!([{"kind": "Pod", "name": "p", "uid": "u1", "controller": true}]);
        let reserved =
            json!([{"resource": "pods", "name": "p", "uid": "u1"}, {"resource": "pods", "name": "q", "uid": "u2"}]);
        let claims = [claim("shared", &reserved, &json!([])), claim("made", &json!([]), &of_pod)];
        let world = world(&[], &claims);
        let named = json!([{"name": "c", "resourceClaimName": "shared"}]);
        let gpus = |uid: &str| {
            let mut pod = pod(&named);
            pod.metadata.uid = uid.into();
            Room::of_pod(&world.pod(Arc::new(pod))).gpus
        };
        assert_eq!((gpus("u1"), gpus("u2")), (2.0, 0.0), "both share the same two");
        let loose = |counted: &[&str]| {
            let counted = counted.iter().map(|&uid| uid.to_owned()).collect();
            world.loose(&counted).map(|claim| (claim.uid, claim.node, claim.gpus, claim.is_leaving)).collect::<Vec<_>>()
        };
        let made = ("made".to_owned(), "n1".to_owned(), 2, true);
        assert_eq!(loose(&["u1"]), std::slice::from_ref(&made));
        assert_eq!(loose(&[]), [made, ("shared".into(), "n1".into(), 2, false)]);
    }

    #[test]
    fn a_class_can_offer_its_gpus_as_a_resource() {
        let mut offering = gpu_class();
        offering["spec"]["extendedResourceName"] = json!("nvidia.com/gpu");
        let slices = [slice("n0", 1, &[device("gpu-0", "A", WHOLE)])];
        let templates = [template("one", &exactly(1))];
        let found = Claims::new(&objects(&slices), &objects(&[offering]), Vec::new(), objects(&templates));
        let there = found.node(node("n0", &json!({})));
        assert_eq!(there.gpu_resource(), Some("nvidia.com/gpu"));
        let asks = pod(&json!([]));
        let asks: Pod = Pod {
            spec: PodSpec {
                containers: from_value(json!([{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]))
                    .expect("containers"),
                ..asks.spec
            },
            ..asks
        };
        let claims = found.pod(Arc::new(pod(&by_template("one"))));
        assert_eq!((forbidden(&asks, &there), forbidden(&claims, &there)), (None, None));
        let by_plugin = node("n9", &json!({"nvidia.com/gpu": "8"}));
        assert_eq!(forbidden(&asks, &by_plugin), None);
        assert!(forbidden(&claims, &by_plugin).is_some_and(|why| why.contains("device plugin")));
    }
}
