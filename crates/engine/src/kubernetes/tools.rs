//! What is done with a cluster outside of an engine: finding its nodes, giving pods back, looking at what it is and what arles may do there.

use super::access::Access;
use super::claims;
use super::client::{ApiError, Call, Client};
use super::fit::{Room, forbidden, unbindable};
use super::kueue::{self, Workload};
use super::mark::{GATE, Hold, RELEASED};
use super::mirror::Mirror;
use super::object::Node;
use super::view::{Mirrors, View};
use super::{KindOf, Mode};
use arles_core::NodeSpec;
use arles_core::engine::EngineError;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(15);

/// A node as arles counts it; nothing for one without GPUs of a known kind.
pub(super) fn node_spec(node: &Node, kind_of: &KindOf) -> Option<NodeSpec> {
    let room = Room::of_node(node);
    let gpus = (room.gpus >= 1.0).then_some(room.gpus as u32)?;
    let kind = kind_of(&node.product()?)?;
    let memory_gib = (room.memory_bytes > 0.0).then(|| room.memory_bytes / (1u64 << 30) as f64);
    let cpus = (room.cpus > 0.0).then_some(room.cpus);
    let rack = node.metadata.labels.get("topology.kubernetes.io/rack").cloned();
    Some(NodeSpec { name: node.metadata.name.clone(), kind, gpus, cpus, memory_gib, rack })
}

/// The nodes with GPUs that a cluster has, and those whose kind is not known.
pub struct FoundNodes {
    /// Nodes that can be scheduled.
    pub nodes: Vec<NodeSpec>,
    /// Nodes whose GPUs have no product label, or one that is not known, with that label.
    pub unknown: Vec<(String, String)>,
}

/// A cluster, looked at once.
pub struct Cluster {
    client: Client,
    mirrors: Mirrors,
}

impl Cluster {
    /// Looks at the cluster of a kubeconfig, or of the environment.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn open(kubeconfig: Option<&Path>) -> Result<Self, EngineError> {
        let client = Client::new(Access::find(kubeconfig)?)?;
        let mirrors = Mirrors::follow(&client, false);
        Ok(Self { client, mirrors })
    }

    /// The server's version, as major and minor number.
    ///
    /// # Errors
    /// When it does not say.
    pub fn version(&self) -> Result<(u32, u32), EngineError> {
        version(&self.client)
    }

    /// Its nodes with GPUs.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn nodes(&self, kind_of: &KindOf) -> Result<FoundNodes, EngineError> {
        let mut found = FoundNodes { nodes: Vec::new(), unknown: Vec::new() };
        for node in self.view("")?.nodes.values().filter(|node| Room::of_node(node).gpus >= 1.0) {
            match node_spec(node, kind_of) {
                Some(spec) => found.nodes.push(spec),
                None => {
                    let sorts =
                        || if node.gpu_resource().is_some() { "no product label" } else { "GPUs of several sorts" };
                    let product = node.product().unwrap_or_else(|| sorts().to_owned());
                    found.unknown.push((node.metadata.name.clone(), product));
                }
            }
        }
        Ok(found)
    }

    pub(super) fn view(&self, scheduler_name: &str) -> Result<View, EngineError> {
        self.mirrors.check(PATIENCE)?;
        Ok(View::new(&self.mirrors, scheduler_name, ""))
    }

    /// What arles needs to be allowed and is not, of the verbs it uses.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn missing_rights(&self, own_namespace: &str, mode: Mode) -> Result<Vec<String>, EngineError> {
        let mut missing = Vec::new();
        let advising = if mode == Mode::Advise { &ADVISING[..] } else { &[] };
        for (group, resource, subresource, verbs) in NEEDED.iter().chain(advising).copied() {
            for verb in verbs.split(' ') {
                let own_pod = verb == "create" && resource == "pods" && subresource.is_empty();
                let own = own_pod || verb == "delete" || resource == "leases";
                let namespace = if own { own_namespace } else { "" };
                let attributes = json!({"group": group, "resource": resource, "subresource": subresource, "verb": verb, "namespace": namespace, "name": name_of(resource, verb)});
                let body = json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": attributes},
                });
                let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
                let answer = self.client.send(&Call::post(path, body))?;
                if answer["status"]["allowed"].as_bool() != Some(true) {
                    let name =
                        if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
                    missing.push(format!("{verb} {name}"));
                }
            }
        }
        Ok(missing)
    }

    /// ClusterQueues and Workloads of Kueue's with GPUs.
    ///
    /// # Errors
    /// When there is no Kueue, or it cannot be asked.
    pub fn kueue(&self) -> Result<(usize, usize), EngineError> {
        super::advice::check_kueue(&self.client)?;
        let workloads: Mirror<Workload> = Mirror::follow_if_there(&self.client, kueue::GROUP, "workloads");
        workloads.check(PATIENCE)?;
        let planned = workloads.objects().iter().filter(|workload| workload.is_planned()).count();
        Ok((self.view("")?.queues.entitlements().len(), planned))
    }

    /// GPUs that are handed out by claims; nothing where there are none.
    #[must_use]
    pub fn claimed_gpus(&self) -> Option<ClaimedGpus> {
        self.mirrors.check(PATIENCE).ok()?;
        self.mirrors.claimed_gpus()
    }

    /// Gives all waiting pods of arles' back: gates are taken away, and pods that wait for arles by their scheduler's name are bound where they
    /// fit first. Pods that run go on. A daemon that still runs never touches any of them again. With `dry_run`, says only which they are.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub fn release(&self, scheduler_name: &str, dry_run: bool) -> Result<Released, EngineError> {
        let view = self.view(scheduler_name)?;
        let mut left: BTreeMap<String, Room> = view.nodes.keys().map(|name| (name.clone(), view.left(name))).collect();
        let mut done = Released::default();
        self.release_jobs(&view, dry_run, &mut done)?;
        self.release_advice(dry_run, &mut done)?;
        let pods = view.groups.values().flat_map(|group| &group.pods).filter(|pod| !pod.is_over() && !pod.is_leaving());
        for pod in pods {
            let annotations = json!({RELEASED: "true"});
            let note =
                Call::patch(pod.path(), json!({"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}));
            let hold = pod.hold(scheduler_name).filter(|_| pod.waits());
            let asked = Room::of_pod(pod);
            let calls = match hold {
                None => vec![note],
                Some(Hold::Gate) => {
                    let gates = json!([{"$patch": "delete", "name": GATE}]);
                    let body = json!({"metadata": {"uid": pod.metadata.uid, "annotations": annotations}, "spec": {"schedulingGates": gates}});
                    vec![Call::patch(pod.path(), body)]
                }
                Some(Hold::Scheduler) => {
                    let fits = |node: &&std::sync::Arc<Node>| {
                        let barrier = unbindable(pod, node).or_else(|| forbidden(pod, node));
                        barrier.is_none() && left[&node.metadata.name].lacks(asked).is_none()
                    };
                    let Some(node) = view.nodes.values().find(fits) else {
                        let why = format!(
                            "no node has room for it now; run this again, or set schedulerName in its template to another than {scheduler_name}"
                        );
                        done.failed.push((pod.shown(), why));
                        continue;
                    };
                    let name = node.metadata.name.clone();
                    let target = json!({"apiVersion": "v1", "kind": "Node", "name": name});
                    let meta = json!({"name": pod.metadata.name, "uid": pod.metadata.uid, "annotations": annotations});
                    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target});
                    left.entry(name).and_modify(|room| *room = room.minus(asked));
                    vec![Call::post(format!("{}/binding", pod.path()), body)]
                }
            };
            let answers = if dry_run { Vec::new() } else { self.client.send_all(calls) };
            match answers.into_iter().find_map(Result::err) {
                Some(ApiError::Unreachable(why)) => return Err(EngineError(why)),
                Some(error) => done.failed.push((pod.shown(), error.to_string())),
                None if hold.is_none() => done.running.push(pod.shown()),
                None => done.waiting.push(pod.shown()),
            }
        }
        Ok(done)
    }
}

impl Cluster {
    /// Suspended Jobs that wait as a whole: they go on, and their pods are not gated any more.
    fn release_jobs(&self, view: &View, dry_run: bool, done: &mut Released) -> Result<(), EngineError> {
        let jobs = view.groups.values().filter_map(|group| group.job.as_ref()).filter(|job| job.waits_as_a_whole());
        for job in jobs {
            let calls = if dry_run { Vec::new() } else { job.release() };
            // One after the other: the second needs what the first did.
            match calls.iter().find_map(|call| self.client.send(call).err()) {
                Some(ApiError::Unreachable(why)) => return Err(EngineError(why)),
                Some(error) => done.failed.push((job.metadata.key(), error.to_string())),
                None => done.waiting.push(job.metadata.key()),
            }
        }
        Ok(())
    }
}

impl Cluster {
    /// Workloads of Kueue's that arles advised on: what it wrote is taken away, and they go on as Kueue likes.
    fn release_advice(&self, dry_run: bool, done: &mut Released) -> Result<(), EngineError> {
        let workloads: Mirror<Workload> = Mirror::follow_if_there(&self.client, kueue::GROUP, "workloads");
        workloads.check(PATIENCE)?;
        for workload in workloads.objects() {
            let Some(call) = workload.release() else { continue };
            let refused = if dry_run { None } else { self.client.send(&call).err() };
            match refused {
                Some(ApiError::Unreachable(why)) => return Err(EngineError(why)),
                Some(error) => done.failed.push((workload.metadata.key(), error.to_string())),
                None if workload.is_admitted() => done.running.push(workload.metadata.key()),
                None => done.waiting.push(workload.metadata.key()),
            }
        }
        Ok(())
    }
}

/// Everything that arles does at the API server: group, resource, subresource, verbs. The manifests grant exactly this.
pub const NEEDED: [(&str, &str, &str, &str); 14] = [
    ("", "pods", "", "list watch patch create delete"),
    ("", "pods", "binding", "create"),
    ("", "pods", "eviction", "create"),
    ("", "nodes", "", "list watch"),
    ("", "namespaces", "", "list watch"),
    ("", "events", "", "create"),
    ("batch", "jobs", "", "list watch patch"),
    ("coordination.k8s.io", "leases", "", "get create update"),
    (kueue::GROUP, "clusterqueues", "", "list watch"),
    (kueue::GROUP, "localqueues", "", "list watch"),
    (claims::GROUP, claims::RESOURCES[0], "", "list watch"),
    (claims::GROUP, claims::RESOURCES[1], "", "list watch"),
    (claims::GROUP, claims::RESOURCES[2], "", "list watch"),
    (claims::GROUP, claims::RESOURCES[3], "", "list watch"),
];

/// What an adviser does besides.
pub const ADVISING: [(&str, &str, &str, &str); 2] =
    [(kueue::GROUP, "workloads", "", "list watch patch"), (kueue::GROUP, "resourceflavors", "", "list watch")];

/// GPUs that are handed out by claims.
pub struct ClaimedGpus {
    /// How many.
    pub gpus: u32,
    /// On how many nodes.
    pub nodes: usize,
    /// DeviceClasses that pick them.
    pub classes: Vec<String>,
}

/// The one Lease that arles may read and change; whoever creates has no name to be allowed by.
fn name_of(resource: &str, verb: &str) -> &'static str {
    if resource == "leases" && verb != "create" { "arles" } else { "" }
}

/// What giving pods back came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Released {
    /// Pods that waited for arles and do not any more.
    pub waiting: Vec<String>,
    /// Pods that have a place and keep it.
    pub running: Vec<String>,
    /// Pods that still wait, and why.
    pub failed: Vec<(String, String)>,
}

/// Major and minor number. Some clouds write `31+`.
pub(super) fn version(client: &Client) -> Result<(u32, u32), EngineError> {
    let answer = client.send(&Call::get("/version"))?;
    let number = |name: &str| answer[name].as_str().and_then(|text| text.trim_end_matches('+').parse().ok());
    number("major").zip(number("minor")).ok_or_else(|| EngineError("the API server does not say its version".into()))
}
