//! Which nodes Slurm would let a job run on: its partition, `--constraint`, `--exclude` and shards.
//!
//! A job is pinned to nodes by arles, and Slurm still holds it to what it asked for: pinned to a node without the features that it wants it would wait for
//! ever. So kinds and nodes are looked at before. What arles has no say in is left to Slurm altogether: jobs that name their nodes or a reservation, and
//! constraints that count nodes (`[rack1*2&rack2*1]`).

use super::record::{JobRecord, NodeRecord, hosts};
use std::collections::BTreeSet;

/// Why a job that was given to arles is better left to Slurm.
pub(super) fn why_left_to_slurm(record: &JobRecord) -> Option<&'static str> {
    if !record.resv_name.is_empty() {
        return Some("it runs in a reservation");
    }
    if !record.required_nodes.is_empty() {
        return Some("it names its nodes");
    }
    record.features.contains('*').then_some("its constraint counts nodes")
}

/// Whether Slurm lets a job run on a node, if the node is up and free.
pub(super) fn suits(record: &JobRecord, node: &NodeRecord) -> bool {
    let listed = |list: &str| list.split(',').any(|name| node.partitions.iter().any(|own| own == name));
    let partition = record.partition.is_empty() || node.partitions.is_empty() || listed(&record.partition);
    let shards = record.shards() == 0 || node.shards_per_gpu() > 0;
    partition && shards && matches(&record.features, node) && !hosts(&record.excluded_nodes).contains(&node.name)
}

/// Types of the GPUs on which a job may run; nothing if that is all of them. A type is among them if all of its nodes suit; those of which only
/// some do are taken where there is no other, since what is placed there may have to be placed again.
///
/// # Errors
/// When no node with GPUs suits.
pub(super) fn types(record: &JobRecord, nodes: &[NodeRecord]) -> Result<Vec<String>, String> {
    let (mut whole, mut part, mut all) = (BTreeSet::new(), BTreeSet::new(), true);
    let with_gpus = |node: &&NodeRecord| node.gpus().is_some_and(|(kind, _)| kind.is_some());
    for node in nodes.iter().filter(with_gpus) {
        let Some((Some(kind), _)) = node.gpus() else { continue };
        if suits(record, node) {
            part.insert(kind);
        } else {
            all = false;
        }
    }
    if all {
        return Ok(Vec::new());
    }
    for node in nodes.iter().filter(with_gpus) {
        let Some((Some(kind), _)) = node.gpus() else { continue };
        let whole_kind = |other: &&NodeRecord| other.gpus().is_some_and(|(own, _)| own.as_deref() == Some(&kind));
        if part.contains(&kind) && nodes.iter().filter(whole_kind).all(|other| suits(record, other)) {
            whole.insert(kind);
        }
    }
    let chosen = if whole.is_empty() { part } else { whole };
    if chosen.is_empty() {
        let constraint =
            if record.features.is_empty() { String::new() } else { format!(", --constraint={}", record.features) };
        return Err(format!(
            "no node with GPUs suits it (partition {}{constraint}); 'sinfo -o \"%n %P %f\"' shows what nodes have",
            record.partition
        ));
    }
    Ok(chosen.into_iter().collect())
}

/// Whether a node has the features of a constraint: names with `&` and `|`, from left to right as Slurm takes them, and brackets.
fn matches(constraint: &str, node: &NodeRecord) -> bool {
    let mut rest = constraint.trim();
    rest.is_empty() || expression(&mut rest, node)
}

fn expression(rest: &mut &str, node: &NodeRecord) -> bool {
    let mut holds = operand(rest, node);
    loop {
        *rest = rest.trim_start();
        let Some(sign) = rest.chars().next().filter(|sign| "&|,".contains(*sign)) else { return holds };
        *rest = &rest[1..];
        let other = operand(rest, node);
        holds = if sign == '|' { holds || other } else { holds && other };
    }
}

fn operand(rest: &mut &str, node: &NodeRecord) -> bool {
    *rest = rest.trim_start();
    if rest.starts_with(['(', '[']) {
        *rest = &rest[1..];
        let holds = expression(rest, node);
        *rest = rest.trim_start().trim_start_matches([')', ']']);
        return holds;
    }
    let end = rest.find(['&', '|', ',', '(', ')', '[', ']']).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    *rest = after;
    node.active_features.split(',').any(|feature| feature == name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kind: &str, features: &str) -> NodeRecord {
        NodeRecord {
            name: name.into(),
            gres: format!("gpu:{kind}:2"),
            active_features: features.into(),
            partitions: vec!["gpu".into()],
            ..NodeRecord::default()
        }
    }

    fn job(features: &str) -> JobRecord {
        JobRecord { partition: "gpu".into(), features: features.into(), ..JobRecord::default() }
    }

    #[test]
    fn constraints_mean_what_slurm_says() {
        let node = node("a", "v100", "v100,nvlink,rack1");
        for (constraint, expected) in [
            ("", true),
            ("v100", true),
            ("v10", false),
            ("v100&nvlink", true),
            ("v100&ib", false),
            ("k80|nvlink", true),
            ("[rack1|rack2]", true),
            ("(k80|v100)&rack1", true),
            ("(k80|p100)&rack1", false),
            // From left to right: (ib or v100) and rack2.
            ("ib|v100&rack2", false),
            ("rack2&ib|v100", true),
        ] {
            assert_eq!(suits(&job(constraint), &node), expected, "{constraint}");
        }
    }

    #[test]
    fn kinds_follow_from_the_nodes_that_suit() {
        let nodes = [node("a", "v100", "fast"), node("b", "v100", "fast,new"), node("c", "k80", "")];
        let kinds = |features: &str| types(&job(features), &nodes);
        assert_eq!(kinds(""), Ok(vec![]));
        assert_eq!(kinds("fast"), Ok(vec!["v100".into()]));
        assert_eq!(kinds("new"), Ok(vec!["v100".into()]), "some of its nodes do");
        assert!(kinds("gold").unwrap_err().contains("--constraint=gold"));
        let elsewhere = JobRecord { partition: "other".into(), ..JobRecord::default() };
        assert!(types(&elsewhere, &nodes).is_err());
        let excluded = JobRecord { excluded_nodes: "c".into(), ..job("") };
        assert_eq!(types(&excluded, &nodes), Ok(vec!["v100".into()]));
    }

    #[test]
    fn what_arles_has_no_say_in_is_left_to_slurm() {
        assert_eq!(why_left_to_slurm(&job("v100")), None);
        assert!(why_left_to_slurm(&job("[rack1*2&rack2*1]")).is_some());
        assert!(why_left_to_slurm(&JobRecord { resv_name: "maint".into(), ..job("") }).is_some());
        assert!(why_left_to_slurm(&JobRecord { required_nodes: "a".into(), ..job("") }).is_some());
    }
}
