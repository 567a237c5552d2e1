//! What a pod asks of its node and what a node has left: the part of the default scheduler's checks that whoever binds pods by itself owes.
//!
//! Checked are GPUs, CPUs, memory, the number of pods, taints, node selectors and required node affinity. Not checked are volumes, host ports, and affinity
//! between pods: pods with such wishes belong to the gate, behind which the default scheduler checks everything.

use super::object::{Container, NODE_FIELD, Node, Pod, Requirement, Taint, Term, Toleration, is_gpu};
use std::collections::BTreeMap;

/// Resources, counted.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Room {
    pub(super) gpus: f64,
    pub(super) cpus: f64,
    pub(super) memory_bytes: f64,
    pub(super) pods: f64,
}

impl Room {
    fn each(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            gpus: f(self.gpus, other.gpus),
            cpus: f(self.cpus, other.cpus),
            memory_bytes: f(self.memory_bytes, other.memory_bytes),
            pods: f(self.pods, other.pods),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.each(other, |a, b| a - b)
    }

    fn of_words(words: &BTreeMap<String, String>) -> Self {
        let number = |name: &str| words.get(name).and_then(|text| quantity(text)).unwrap_or(0.0);
        Self {
            gpus: words.keys().filter(|name| is_gpu(name)).map(|name| number(name)).sum(),
            cpus: number("cpu"),
            memory_bytes: number("memory"),
            pods: number("pods"),
        }
    }

    fn of_container(container: &Container) -> Self {
        // A limit without a request is a request.
        let mut words = container.resources.limits.clone();
        words.extend(container.resources.requests.clone());
        Self::of_words(&words)
    }

    /// What a pod takes on its node.
    pub(super) fn of_pod(pod: &Pod) -> Self {
        let sum =
            |containers: &[Container]| containers.iter().map(Self::of_container).fold(Self::default(), Self::plus);
        let first = pod.spec.init_containers.iter().map(Self::of_container);
        let first = first.fold(Self::default(), |most, one| most.each(one, f64::max));
        let most = sum(&pod.spec.containers).each(first, f64::max);
        let claimed = Self::of_words(&pod.spec.claimed.gpus);
        Self { pods: 1.0, ..most.plus(Self::of_words(&pod.spec.overhead)).plus(claimed) }
    }

    /// What a node has for pods.
    pub(super) fn of_node(node: &Node) -> Self {
        Self::of_words(&node.status.allocatable)
    }

    /// What is lacking for `asked`, in words.
    pub(super) fn lacks(self, asked: Self) -> Option<String> {
        // Sums of quantities such as 0.1 CPUs are not exact.
        let short = |left: f64, asked: f64| asked > left + 1e-6 * asked.abs().max(1e-3);
        let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
        if short(self.gpus, asked.gpus) {
            return Some(format!("{} GPUs are left and it asks for {}", self.gpus, asked.gpus));
        }
        if short(self.cpus, asked.cpus) {
            return Some(format!("{:.1} CPUs are left and it asks for {:.1}", self.cpus, asked.cpus));
        }
        if short(self.memory_bytes, asked.memory_bytes) {
            let (left, asked) = (gib(self.memory_bytes), gib(asked.memory_bytes));
            return Some(format!("{left:.1} GiB of memory are left and it asks for {asked:.1}"));
        }
        short(self.pods, asked.pods).then(|| "no further pod may run there".into())
    }
}

/// A number as Kubernetes writes it: `100m`, `4`, `2.5`, `32Gi`, `1e3`, `5M`.
pub(super) fn quantity(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 14] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let text = text.trim();
    let suffix = SUFFIXES.iter().find_map(|(suffix, times)| Some((text.strip_suffix(suffix)?, *times)));
    let (number, times) = suffix.unwrap_or((text, 1.0));
    number.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number * times)
}

/// Why a pod may never be on a node, whatever is free there.
pub(super) fn forbidden(pod: &Pod, node: &Node) -> Option<String> {
    let name = &node.metadata.name;
    if node.spec.unschedulable {
        return Some(format!("{name} is cordoned"));
    }
    if !node.is_ready() {
        return Some(format!("{name} is not ready"));
    }
    if let Some(other) = pod.gpu_resources().into_iter().find(|asked| node.gpu_resource() != Some(*asked)) {
        return Some(format!(
            "it asks for {other}, and {name} has {}",
            node.gpu_resource().unwrap_or("none of one sort")
        ));
    }
    if !pod.spec.claimed.gpus.is_empty() && node.devices.is_none() {
        return Some(format!("it asks for GPUs by a claim, and those of {name} are handed out by a device plugin"));
    }
    let hard = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let refusing = |taint: &&Taint| !pod.spec.tolerations.iter().any(|toleration| tolerates(toleration, taint));
    if let Some(taint) = node.spec.taints.iter().filter(hard).find(refusing) {
        return Some(format!("{name} has the taint {}, which it does not tolerate", taint.key));
    }
    let labels = &node.metadata.labels;
    if let Some((key, value)) = pod.spec.node_selector.iter().find(|(key, value)| labels.get(*key) != Some(value)) {
        return Some(format!("its node selector wants {key}={value}, and {name} is not such a node"));
    }
    let required = pod.spec.affinity.node_affinity.required.as_ref()?;
    let fits = required.node_selector_terms.iter().any(|term| matches_term(term, node));
    (!fits).then(|| format!("its node affinity does not allow {name}"))
}

/// Why arles cannot bind a pod to a node by itself. Behind the gate the default scheduler allocates claims before it binds.
pub(super) fn unbindable(pod: &Pod, node: &Node) -> Option<String> {
    let name = &node.metadata.name;
    if node.devices.is_some() && Room::of_pod(pod).gpus > 0.0 {
        return Some(format!(
            "GPUs of {name} are handed out by claims, which the default scheduler allocates; use the gate"
        ));
    }
    (!pod.spec.resource_claims.is_empty())
        .then(|| "it has resource claims, which the default scheduler allocates; use the gate".into())
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key == taint.key || (toleration.key.is_empty() && toleration.operator == "Exists");
    effect && key && (toleration.operator == "Exists" || toleration.value == taint.value)
}

fn matches_term(term: &Term, node: &Node) -> bool {
    let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    let name = |requirement: &Requirement| {
        requirement.key == NODE_FIELD && matches_value(requirement, Some(&node.metadata.name))
    };
    let label = |requirement: &Requirement| matches_value(requirement, node.metadata.labels.get(&requirement.key));
    !empty && term.match_expressions.iter().all(label) && term.match_fields.iter().all(name)
}

fn matches_value(requirement: &Requirement, value: Option<&String>) -> bool {
    let among = value.is_some_and(|value| requirement.values.contains(value));
    let compared = |is_right: fn(i64, i64) -> bool| {
        let bound = requirement.values.first().and_then(|bound| bound.parse().ok());
        value.and_then(|value| value.parse().ok()).zip(bound).is_some_and(|(value, bound)| is_right(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => among,
        "NotIn" => !among,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, bound| value > bound),
        "Lt" => compared(|value, bound| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("4", Some(4.0)),
            ("100m", Some(0.1)),
            ("2.5", Some(2.5)),
            ("32Gi", Some(32.0 * 1_073_741_824.0)),
            ("1e3", Some(1000.0)),
            ("5M", Some(5e6)),
            ("1Ki", Some(1024.0)),
            ("", None),
            ("many", None),
        ] {
            assert_eq!(quantity(text), expected, "{text}");
        }
    }

    fn node(spec: &Value) -> Node {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let labels = json!({"nvidia.com/gpu.product": "A", "zone": "7"});
        from_value(json!({"metadata": {"name": "n0", "labels": labels}, "spec": spec, "status": ready}))
            .expect("a node")
    }

    fn pod(spec: &Value) -> Pod {
        from_value(json!({"spec": spec})).expect("a pod")
    }

    fn affinity(expression: &Value) -> Value {
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    }

    #[test]
    fn selectors_and_affinity_are_kept() {
        let expression = |key: &str, operator: &str, values: &[&str]| {
            affinity(&json!({"key": key, "operator": operator, "values": values}))
        };
        for (spec, allowed) in [
            (json!({}), true),
            (json!({"nodeSelector": {"nvidia.com/gpu.product": "A"}}), true),
            (json!({"nodeSelector": {"nvidia.com/gpu.product": "B"}}), false),
            (expression("zone", "In", &["6", "7"]), true),
            (expression("zone", "NotIn", &["7"]), false),
            (expression("zone", "Gt", &["6"]), true),
            (expression("zone", "Lt", &["6"]), false),
            (expression("other", "Exists", &[]), false),
            (expression("other", "DoesNotExist", &[]), true),
            (expression("other", "Odd", &[]), false),
        ] {
            assert_eq!(forbidden(&pod(&spec), &node(&json!({}))).is_none(), allowed, "{spec}");
        }
    }

    #[test]
    fn slices_are_not_whole_gpus() {
        let with = |resource: &str| {
            let mut node = node(&json!({}));
            node.status.allocatable.insert(resource.to_owned(), "2".to_owned());
            node
        };
        let asks = |resource: &str| pod(&json!({"containers": [{"resources": {"limits": {resource: "1"}}}]}));
        let sorts = ["nvidia.com/gpu", "nvidia.com/mig-3g.71gb", "nvidia.com/mig-1g.18gb", "amd.com/gpu"];
        for asked in sorts {
            assert_eq!(Room::of_pod(&asks(asked)).gpus, 1.0, "{asked}");
            for there in sorts {
                assert_eq!(forbidden(&asks(asked), &with(there)).is_none(), asked == there, "{asked} on {there}");
            }
        }
        let mut cut = with("nvidia.com/mig-3g.71gb");
        assert_eq!(cut.product().as_deref(), Some("A-MIG-3g.71gb"));
        cut.status.allocatable.insert("nvidia.com/mig-1g.18gb".into(), "1".into());
        assert_eq!(cut.product(), None, "slices of several sorts on one node are not taken");
    }

    #[test]
    fn taints_are_kept_unless_tolerated() {
        let tainted = node(&json!({"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]}));
        for (tolerations, allowed) in [
            (json!([]), false),
            (json!([{"operator": "Exists"}]), true),
            (json!([{"key": "gpu", "operator": "Exists"}]), true),
            (json!([{"key": "gpu", "operator": "Equal", "value": "only"}]), true),
            (json!([{"key": "gpu", "operator": "Equal", "value": "other"}]), false),
            (json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]), false),
        ] {
            let pod = pod(&json!({"tolerations": tolerations}));
            assert_eq!(forbidden(&pod, &tainted).is_none(), allowed, "{tolerations}");
        }
        assert!(forbidden(&pod(&json!({})), &node(&json!({"unschedulable": true}))).is_some());
    }

    #[test]
    fn a_pod_takes_the_larger_of_its_first_and_its_other_containers() {
        let pod = pod(&json!({
            "initContainers": [{"resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}],
            "containers": [
                {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "8", "nvidia.com/gpu": "2"}}},
                {"resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}
            ],
            "overhead": {"cpu": "250m"}
        }));
        let room = Room::of_pod(&pod);
        assert_eq!((room.gpus, room.cpus, room.pods), (2.0, 4.25, 1.0));
        assert_eq!(room.memory_bytes, 2.0 * 1_073_741_824.0);
        let left = Room { gpus: 1.0, cpus: 8.0, memory_bytes: 1e12, pods: 10.0 };
        assert_eq!(left.lacks(room).as_deref(), Some("1 GPUs are left and it asks for 2"));
        assert_eq!(Room { gpus: 2.0, ..left }.lacks(room), None);
    }
}
