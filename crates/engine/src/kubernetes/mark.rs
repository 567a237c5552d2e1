//! How pods say that they are arles' and what they are, and how arles writes down what it did with them.
//!
//! A pod is given to arles by its scheduling gate, or by its scheduler's name. What it is, its user says in annotations (`arles/workload: resnet50-64`).
//! Where arles puts it, the annotation `arles/mark` says: it is written by the very call that binds the pod or takes its gate away. So whatever must be
//! known of a gang can be read again from its pods alone, by a daemon that was killed a moment ago.
//!
//! Users can write annotations too. So a mark is believed only of the job whose pods these are by their owner.

use super::object::{Meta, PRODUCT_LABELS, Pod};
use crate::intake::Wishes;
use arles_core::scheduler::Fence;
use arles_core::{GpuId, JobId};
use serde_json::{Value, json};

/// The gate behind which a pod waits for arles.
pub const GATE: &str = "arles/admission";
/// What all keys of arles' begin with.
const PREFIX: &str = "arles/";
/// Where a gang's pods are and whose they are.
const MARK: &str = "arles/mark";
/// The job's number alone: what training code is told by the downward API.
pub(super) const JOB: &str = "arles/job";
/// Why arles does not take a pod.
pub(super) const REFUSED: &str = "arles/refused";
/// Says that arles does not touch a pod any more.
pub(super) const RELEASED: &str = "arles/released";
/// How many pods a gang has.
pub(super) const PODS: &str = "arles/pods";
/// The label of pods that are one gang.
pub(super) const GANG: &str = "arles/gang";
/// The label of a namespace that names its tenant.
pub(super) const TENANT: &str = "arles/tenant";

/// What arles wrote on a pod when it got its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) job: JobId,
    /// The journal that the job's number is of.
    pub(super) journal: String,
    pub(super) fence: Fence,
    /// All GPUs of the gang, on all its nodes.
    pub(super) gpus: Vec<GpuId>,
}

impl Mark {
    /// The annotations of a pod that has its place.
    pub(super) fn annotations(&self) -> Value {
        let gpus: Vec<String> = self.gpus.iter().map(|gpu| gpu.0.to_string()).collect();
        let mark = format!("job={} of={} fence={} gpus={}", self.job.0, self.journal, self.fence.0, gpus.join("+"));
        json!({MARK: mark, JOB: self.job.0.to_string()})
    }

    /// What takes them away.
    pub(super) fn no_annotations() -> Value {
        json!({MARK: Value::Null, JOB: Value::Null})
    }

    pub(super) fn read(meta: &Meta) -> Option<Self> {
        let text = meta.annotations.get(MARK)?;
        let word = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let gpus: Result<Vec<GpuId>, _> = word("gpus")?.split('+').map(|gpu| gpu.parse().map(GpuId)).collect();
        Some(Self {
            job: JobId(word("job")?.parse().ok()?),
            journal: word("of")?.to_owned(),
            fence: Fence(word("fence")?.parse().ok()?),
            gpus: gpus.ok().filter(|gpus| !gpus.is_empty())?,
        })
    }
}

/// How a pod waits for arles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    /// Behind the gate: the default scheduler binds it when the gate is gone.
    Gate,
    /// By its scheduler's name: arles binds it.
    Scheduler,
}

impl Pod {
    /// Whether and how it is arles' to place.
    pub(super) fn hold(&self, scheduler_name: &str) -> Option<Hold> {
        if self.spec.scheduling_gates.iter().any(|gate| gate.name == GATE) {
            return Some(Hold::Gate);
        }
        (self.spec.scheduler_name == scheduler_name).then_some(Hold::Scheduler)
    }

    /// Whether it was arles' to place before it got its place.
    pub(super) fn is_claimed(&self, scheduler_name: &str) -> bool {
        self.hold(scheduler_name).is_some() || Mark::read(&self.metadata).is_some()
    }

    /// Whether it has a place, or the default scheduler may give it one at any moment.
    pub(super) fn is_placed(&self, scheduler_name: &str) -> bool {
        !self.is_over() && (self.node().is_some() || self.hold(scheduler_name).is_none())
    }

    /// The node on which what it asks for is taken: its own, or the one that arles pinned it to and where the default scheduler may bind it at any moment.
    pub(super) fn taken_node(&self, scheduler_name: &str) -> Option<&str> {
        if self.node().is_some() {
            return self.node().filter(|_| self.holds());
        }
        let may_be_bound = self.waits() && self.is_placed(scheduler_name) && Mark::read(&self.metadata).is_some();
        self.seat().filter(|_| may_be_bound)
    }

    /// What it says of itself.
    pub(super) fn wishes(&self) -> Wishes {
        let mut wishes = Wishes::default();
        let own = [MARK, JOB, REFUSED, RELEASED, PODS];
        for (key, value) in self.metadata.annotations.iter().filter(|(key, _)| !own.contains(&key.as_str())) {
            let Some(word) = key.strip_prefix(PREFIX) else { continue };
            if !wishes.take(word, value.trim()) {
                wishes.wrong.push(format!("the annotation {key} is not one of arles'; expected {}", Wishes::KEYS));
            }
        }
        wishes
    }

    /// Products that its node selector or its affinity insist on.
    pub(super) fn products(&self) -> Vec<String> {
        let selected = PRODUCT_LABELS.iter().filter_map(|label| self.spec.node_selector.get(*label)).cloned();
        let terms = self.spec.affinity.node_affinity.required.iter().flat_map(|required| &required.node_selector_terms);
        let wanted = terms.flat_map(|term| &term.match_expressions);
        let wanted = wanted.filter(|wish| wish.operator == "In" && PRODUCT_LABELS.contains(&wish.key.as_str()));
        let claimed = self.spec.claimed.products.iter().cloned();
        let mut found: Vec<String> =
            selected.chain(wanted.flat_map(|wish| wish.values.clone())).chain(claimed).collect();
        found.sort();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    fn pod(value: Value) -> Pod {
        from_value(value).expect("a pod")
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let gpus = vec![GpuId(3), GpuId(4)];
        let mark = Mark { job: JobId(12), journal: "ab12".into(), fence: Fence(9), gpus };
        let marked = pod(json!({"metadata": {"annotations": mark.annotations()}}));
        assert_eq!(Mark::read(&marked.metadata), Some(mark));
        assert!(marked.wishes().wrong.is_empty(), "what arles wrote is no user's wish");
        for text in ["", "job=1 of=a", "job=x of=a fence=1 gpus=1", "job=1 of=a fence=1 gpus="] {
            let odd = pod(json!({"metadata": {"annotations": {MARK: text}}}));
            assert_eq!(Mark::read(&odd.metadata), None, "{text}");
        }
    }

    #[test]
    fn whose_a_pod_is_follows_from_its_gate_or_its_scheduler() {
        for (spec, hold, placed) in [
            (json!({}), None, true),
            (json!({"schedulerName": "default-scheduler"}), None, true),
            (json!({"schedulerName": "arles"}), Some(Hold::Scheduler), false),
            (json!({"schedulerName": "arles", "nodeName": "n0"}), Some(Hold::Scheduler), true),
            (json!({"schedulingGates": [{"name": "other"}]}), None, true),
            (json!({"schedulingGates": [{"name": "other"}, {"name": GATE}]}), Some(Hold::Gate), false),
        ] {
            let pod = pod(json!({"spec": spec}));
            assert_eq!((pod.hold("arles"), pod.is_placed("arles")), (hold, placed), "{spec}");
        }
    }

    #[test]
    fn a_pod_that_was_let_go_is_on_its_node_before_it_is_bound() {
        let mark = Mark { job: JobId(1), journal: "j".into(), fence: Fence(1), gpus: vec![GpuId(0)] };
        let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
        let pinned = |terms: Value| {
            let first = pod(json!({"spec": {"affinity": {"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}}));
            first.pinned_terms("n3")
        };
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["n3"]}]);
        for (terms, expected) in [
            (json!([]), json!([{"matchFields": fields}])),
            (json!([{"matchExpressions": [zone]}]), json!([{"matchExpressions": [zone], "matchFields": fields}])),
            (
                json!([{}, {"matchExpressions": [zone]}]),
                json!([{}, {"matchExpressions": [zone], "matchFields": fields}]),
            ),
        ] {
            assert_eq!(json!(pinned(terms)), expected);
        }
        let required = json!({"nodeSelectorTerms": pinned(json!([]))});
        let mut free = pod(json!({"metadata": {"annotations": mark.annotations()},
            "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}}));
        assert_eq!(free.taken_node("arles"), Some("n3"));
        free.metadata.annotations.clear();
        assert_eq!(free.taken_node("arles"), None, "a pod of a DaemonSet is nobody's until it is bound");
    }

    #[test]
    fn wishes_are_read_and_what_is_wrong_is_said() {
        let annotations = json!({"arles/steps": "2e4", "arles/kinds": "v100,p100", "arles/pods": "2", "team": "x"});
        let wishes = pod(json!({"metadata": {"annotations": annotations}})).wishes();
        assert_eq!((wishes.steps, wishes.kinds.len(), wishes.wrong.len()), (Some(2e4), 2, 0));
        let annotations = json!({"arles/steps": "many", "arles/colour": "red"});
        let wrong = pod(json!({"metadata": {"annotations": annotations}})).wishes().wrong;
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
