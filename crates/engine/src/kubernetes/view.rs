//! The cluster as of the last look: pods by job, what is left on each node, whose each namespace is.

use super::claims::{ClaimMirrors, Claims, LooseClaim};
use super::client::{ApiError, Client};
use super::fit::Room;
use super::group::{Group, GroupKey, Sort};
use super::kueue::{self, ClusterQueue, LocalQueue, Queues, ResourceFlavor, Workload};
use super::mark::{JOB, TENANT};
use super::mirror::Mirror;
use super::object::{Job, Namespace, Node, Pod, Words};
use super::tools::ClaimedGpus;
use arles_core::JobId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Everything that is followed.
pub(super) struct Mirrors {
    pub(super) pods: Mirror<Pod>,
    nodes: Mirror<Node>,
    jobs: Mirror<Job>,
    namespaces: Mirror<Namespace>,
    cluster_queues: Mirror<ClusterQueue>,
    local_queues: Mirror<LocalQueue>,
    claims: ClaimMirrors,
    /// For advice alone.
    advised: Option<(Mirror<ResourceFlavor>, Mirror<Workload>)>,
}

impl Mirrors {
    /// Begins to follow; `with_workloads` what Kueue admits as well.
    pub(super) fn follow(client: &Client, with_workloads: bool) -> Self {
        let workloads = || {
            let flavors = Mirror::follow_if_there(client, kueue::GROUP, "resourceflavors");
            (flavors, Mirror::follow_if_there(client, kueue::GROUP, "workloads"))
        };
        Self {
            cluster_queues: Mirror::follow_if_there(client, kueue::GROUP, "clusterqueues"),
            local_queues: Mirror::follow_if_there(client, kueue::GROUP, "localqueues"),
            claims: ClaimMirrors::follow(client),
            advised: with_workloads.then(workloads),
            pods: Mirror::follow(client, "/api/v1/pods"),
            nodes: Mirror::follow(client, "/api/v1/nodes"),
            jobs: Mirror::follow(client, "/apis/batch/v1/jobs"),
            namespaces: Mirror::follow(client, "/api/v1/namespaces"),
        }
    }

    /// Another number means that something may have changed.
    pub(super) fn changes(&self) -> u64 {
        let advised = self.advised.as_ref().map_or(0, |(flavors, workloads)| flavors.changes() + workloads.changes());
        let queues = self.cluster_queues.changes() + self.local_queues.changes() + self.claims.changes();
        self.pods.changes() + self.nodes.changes() + self.jobs.changes() + self.namespaces.changes() + queues + advised
    }

    /// Whether all of it is known and none of it is stale.
    ///
    /// # Errors
    /// When the API server has not been heard for longer than `patience`.
    pub(super) fn check(&self, patience: Duration) -> Result<(), ApiError> {
        self.pods.check(patience)?;
        self.nodes.check(patience)?;
        self.jobs.check(patience)?;
        self.namespaces.check(patience)?;
        self.cluster_queues.check(patience)?;
        self.local_queues.check(patience)?;
        self.claims.check(patience)?;
        if let Some((flavors, workloads)) = &self.advised {
            flavors.check(patience)?;
            workloads.check(patience)?;
        }
        Ok(())
    }

    fn queues(&self) -> Queues {
        let flavors = self.advised.as_ref().map_or_else(Vec::new, |(flavors, _)| flavors.objects());
        Queues::new(self.cluster_queues.objects(), &self.local_queues.objects(), flavors)
    }

    /// GPUs that are handed out by claims.
    pub(super) fn claimed_gpus(&self) -> Option<ClaimedGpus> {
        self.claims.claims().totals()
    }

    /// What Kueue admits, where that is followed.
    fn workloads(&self) -> Option<Vec<Arc<Workload>>> {
        self.advised.as_ref().map(|(_, workloads)| workloads.objects())
    }

    /// Takes a Workload as the server just answered it.
    pub(super) fn take_workload(&self, workload: Workload) {
        if let Some((_, workloads)) = &self.advised {
            workloads.take(workload);
        }
    }
}

/// What the mirrors hold, put in order.
#[derive(Default)]
pub(super) struct View {
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) nodes: BTreeMap<String, Arc<Node>>,
    /// Pods that users gave to arles, by what makes them one job.
    pub(super) groups: BTreeMap<GroupKey, Group>,
    /// Pods that arles made for programs that were submitted to it.
    pub(super) programs: BTreeMap<JobId, Vec<Arc<Pod>>>,
    /// What pods hold, by node.
    used: BTreeMap<String, Room>,
    jobs: BTreeMap<String, Arc<Job>>,
    /// Tenants of namespaces that name theirs.
    tenants: BTreeMap<String, String>,
    pub(super) queues: Queues,
    /// Claims with GPUs that none of the pods with a place accounts for.
    pub(super) loose_claims: Vec<LooseClaim>,
    /// Whether Kueue admits, so that no pod is arles' to place.
    is_advised: bool,
}

impl View {
    pub(super) fn new(mirrors: &Mirrors, scheduler_name: &str, own_namespace: &str) -> Self {
        let tenant = |namespace: &Arc<Namespace>| {
            let meta = &namespace.metadata;
            Some((meta.name.clone(), meta.labels.get(TENANT)?.clone()))
        };
        let claims = mirrors.claims.claims();
        let nodes = mirrors.nodes.objects().into_iter().map(|node| claims.node(node));
        let jobs = mirrors.jobs.objects().into_iter().map(|job| claims.job(job));
        let mut view = Self {
            nodes: nodes.map(|node| (node.metadata.name.clone(), node)).collect(),
            jobs: jobs.map(|job| (job.metadata.uid.clone(), job)).collect(),
            tenants: mirrors.namespaces.objects().iter().filter_map(tenant).collect(),
            queues: mirrors.queues(),
            is_advised: mirrors.advised.is_some(),
            ..Self::default()
        };
        for pod in mirrors.pods.objects() {
            view.add(claims.pod(pod), scheduler_name, own_namespace);
        }
        view.add_loose_claims(&claims, scheduler_name);
        if let Some(workloads) = mirrors.workloads() {
            view.add_workloads(workloads);
            return view;
        }
        for job in view.jobs.values().filter(|job| job.waits_as_a_whole()) {
            let key = GroupKey::of_job(job);
            let group = || Group { key: key.clone(), pods: Vec::new(), job: Some(Arc::clone(job)), workload: None };
            view.groups.entry(key.clone()).or_insert_with(group);
        }
        view
    }

    fn add_loose_claims(&mut self, claims: &Claims, scheduler_name: &str) {
        let placed = self.pods.iter().filter(|pod| pod.taken_node(scheduler_name).is_some());
        let counted = placed.map(|pod| pod.metadata.uid.clone()).collect();
        self.loose_claims = claims.loose(&counted).collect();
        for claim in &self.loose_claims {
            self.used.entry(claim.node.clone()).or_default().gpus += f64::from(claim.gpus);
        }
    }

    fn add(&mut self, pod: Arc<Pod>, scheduler_name: &str, own_namespace: &str) {
        if let Some(node) = pod.taken_node(scheduler_name) {
            let used = self.used.entry(node.to_owned()).or_default();
            *used = used.plus(Room::of_pod(&pod));
        }
        let meta = &pod.metadata;
        if self.is_advised {
            self.pods.push(pod);
            return;
        }
        if let Some(job) = meta.labels.get(JOB).filter(|_| meta.namespace == own_namespace) {
            if let Ok(job) = job.parse() {
                self.programs.entry(JobId(job)).or_default().push(Arc::clone(&pod));
            }
        } else if pod.is_claimed(scheduler_name) {
            let key = GroupKey::of(&pod);
            let job = self.jobs.get(&key.uid).filter(|_| key.sort == Sort::Job).cloned();
            let group =
                self.groups.entry(key.clone()).or_insert_with(|| Group { key, pods: Vec::new(), job, workload: None });
            group.pods.push(Arc::clone(&pod));
        }
        self.pods.push(pod);
    }

    /// Shows a pod as this engine has just made it or placed it, before the next look.
    pub(super) fn amend(&mut self, pod: Arc<Pod>, scheduler_name: &str, own_namespace: &str) {
        let is_it = |known: &Arc<Pod>| known.metadata.uid == pod.metadata.uid;
        if let Some(at) = self.pods.iter().position(is_it) {
            let before = self.pods.swap_remove(at);
            if let Some(used) = before.taken_node(scheduler_name).and_then(|node| self.used.get_mut(node)) {
                *used = used.minus(Room::of_pod(&before));
            }
            if let Some(group) = self.groups.get_mut(&GroupKey::of(&before)) {
                group.pods.retain(|known| !is_it(known));
            }
            let job = before.metadata.labels.get(JOB).and_then(|job| job.parse().ok()).map(JobId);
            if let Some(pods) = job.and_then(|job| self.programs.get_mut(&job)) {
                pods.retain(|known| !is_it(known));
            }
        }
        self.add(pod, scheduler_name, own_namespace);
    }

    /// A group, with or without pods; nothing if neither is there.
    pub(super) fn group(&self, key: &GroupKey) -> Option<Group> {
        if let Some(group) = self.groups.get(key) {
            return Some(group.clone());
        }
        Some(Group { key: key.clone(), pods: Vec::new(), job: Some(self.job(key)?), workload: None })
    }

    /// The Job that a group's pods are of.
    pub(super) fn job(&self, key: &GroupKey) -> Option<Arc<Job>> {
        self.jobs.get(&key.uid).filter(|_| key.sort == Sort::Job).cloned()
    }

    /// A Job by its uid.
    pub(super) fn job_of(&self, uid: &str) -> Option<&Arc<Job>> {
        self.jobs.get(uid)
    }

    /// Whose a group is: of the tenant that its namespace names, or of the ClusterQueue that its queue leads to, or of its namespace.
    pub(super) fn tenant<'v>(&'v self, group: &'v Group) -> &'v str {
        let namespace = &group.key.namespace;
        let queue = || match &group.workload {
            Some(workload) => self.queues.of_workload(workload),
            None => self.queues.of(namespace, group.labels().unwrap_or(&Words::new())),
        };
        self.tenants.get(namespace).map(String::as_str).or_else(queue).unwrap_or(namespace)
    }

    /// What is left on a node.
    pub(super) fn left(&self, node: &str) -> Room {
        let all = self.nodes.get(node).map_or_else(Room::default, |node| Room::of_node(node));
        all.minus(self.used.get(node).copied().unwrap_or_default())
    }

    /// Whether a pod's node is not heard any more, or gone.
    pub(super) fn is_lost(&self, pod: &Pod) -> bool {
        pod.node().is_some_and(|node| self.nodes.get(node).is_none_or(|node| !node.is_ready()))
    }
}
