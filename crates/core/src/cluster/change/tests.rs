//! Numbers for ever, whatever changes.

use super::*;
use crate::{Library, Time};
use proptest::prelude::*;

fn kind(name: &str) -> Kind {
    Library::builtin().kind(name).expect("in the library").clone()
}

fn spec(name: &str, of: &str, gpus: u32) -> NodeSpec {
    NodeSpec { name: name.into(), kind: kind(of), gpus, cpus: None, memory_gib: None, rack: None }
}

fn cluster() -> Cluster {
    Cluster::new(vec![kind("v100")], [("a".into(), KindId(0), 4), ("b".into(), KindId(0), 2)]).expect("two nodes")
}

fn refused(change: &ClusterChange, sentence: &str) {
    let mut changed = cluster();
    let error = changed.apply(change).expect_err("it makes no sense");
    assert_eq!(error.to_string(), sentence);
    assert_eq!(changed, cluster(), "nothing was changed");
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    use ClusterChange::{CorrectKind, Drain, GpusLost, Join, Remove};
    let lost = |gpus| GpusLost { node: "b".into(), gpus, why: "fell off the bus".into() };
    refused(
        &Remove { node: "c".into(), why: String::new() },
        "there is no node 'c'; see 'arles nodes' for those that there are",
    );
    refused(
        &Drain { node: String::new(), why: String::new(), deadline: None },
        "there is no node ''; see 'arles nodes' for those that there are",
    );
    refused(&lost(vec![0, 2]), "node 'b' has no GPU 2; its 2 GPUs are counted from 0");
    refused(&lost(Vec::new()), "no GPU of node 'b' is named; name at least one, counted from 0");
    refused(&Join(spec("c", "v100", 0)), "node 'c' has 0 GPUs; give it 1 to 1024");
    refused(&Join(spec("c", "v100", 1025)), "node 'c' has 1025 GPUs; give it 1 to 1024");
    refused(
        &Join(spec("a b", "v100", 1)),
        "'a b' is no name for a node, a rack or a kind; use 1 to 253 characters without blanks",
    );
    refused(
        &Join(NodeSpec { cpus: Some(f64::NAN), ..spec("c", "v100", 1) }),
        "node 'c' has NaN CPUs; give a number of 0 or more, or none if nobody counts it",
    );
    refused(
        &Join(NodeSpec { memory_gib: Some(-1.0), ..spec("a", "v100", 4) }),
        "node 'a' has -1 GiB of memory; give a number of 0 or more, or none if nobody counts it",
    );
    let odd = Kind { name: "odd".into(), hourly_usd: 0.0, ..kind("v100") };
    refused(
        &CorrectKind { node: "a".into(), kind: odd },
        "kind 'odd' has hourly_usd = 0; see 'arles check-config' for what a kind must say",
    );
}

#[test]
fn nodes_join_change_and_leave() {
    let mut cluster = cluster();
    let new = cluster.apply(&ClusterChange::Join(spec("c", "a100-40gb", 8))).expect("a new node");
    assert_eq!((new.node, new.joined, new.new_kind, new.changed), (NodeId(2), true, true, true));
    assert_eq!((cluster.counts(), cluster.node(NodeId(2)).first_gpu), (vec![6, 8], GpuId(6)));
    let more = NodeSpec { cpus: Some(64.0), memory_gib: Some(512.0), ..spec("c", "a100-40gb", 8) };
    let same = cluster.apply(&ClusterChange::Join(more.clone())).expect("the same GPUs");
    assert_eq!((same.node, same.joined, same.changed), (NodeId(2), false, true));
    assert_eq!(cluster.node(NodeId(2)).cpus, Some(64.0));
    assert!(!cluster.apply(&ClusterChange::Join(more)).expect("once more").changed);
    let other = cluster.apply(&ClusterChange::Join(spec("a", "a100-40gb", 4))).expect("other GPUs");
    assert_eq!((other.node, other.replaced), (NodeId(3), Some(NodeId(0))));
    assert_eq!((cluster.find("a"), cluster.node(NodeId(0)).removed), (Some(NodeId(3)), true));
    cluster.apply(&ClusterChange::Remove { node: "b".into(), why: "sold".into() }).expect("it is there");
    assert_eq!((cluster.counts(), cluster.present_gpus(), cluster.gpus()), (vec![0, 12], 12, 18));
    let corrected = ClusterChange::CorrectKind { node: "c".into(), kind: kind("v100") };
    assert!(cluster.apply(&corrected).expect("it is there").changed);
    assert!(!cluster.apply(&corrected).expect("once more").changed);
    assert_eq!((cluster.counts(), cluster.kind_of(GpuId(6))), (vec![8, 4], KindId(0)));
    cluster.check().expect("a cluster");
}

#[test]
fn what_a_disk_has_changed_is_not_believed() {
    let mut good = cluster();
    good.apply(&ClusterChange::Join(spec("a", "v100", 1))).expect("other GPUs");
    good.check().expect("a name twice, but only once present");
    let damaged = |damage: fn(&mut Cluster)| {
        let mut cluster = good.clone();
        damage(&mut cluster);
        cluster.check().expect_err("damaged")
    };
    assert_eq!(damaged(|c| c.nodes[0].removed = false), ClusterError::DuplicateNode("a".into()));
    assert_eq!(damaged(|c| c.nodes[1].first_gpu = GpuId(0)), ClusterError::Misnumbered("b".into()));
    assert_eq!(damaged(|c| c.gpu_node[5] = NodeId(2)), ClusterError::Misnumbered("b".into()));
    assert_eq!(damaged(|c| c.gpu_node.push(NodeId(2))), ClusterError::Misnumbered("a".into()));
    assert_eq!(damaged(|c| c.nodes[1].gpus = u32::MAX), ClusterError::Misnumbered("b".into()));
    assert_eq!(damaged(|c| c.nodes[1].kind = KindId(7)), ClusterError::UnknownKind("b".into()));
    assert!(matches!(damaged(|c| c.nodes[1].cpus = Some(-1.0)), ClusterError::BadAmount(..)));
}

fn any_change() -> impl Strategy<Value = ClusterChange> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(String::from);
    let kinds = || prop::sample::select(vec!["v100", "a100-40gb", "t4"]).prop_map(kind);
    let amount = || prop::option::of(0.0..100.0);
    prop_oneof![
        4 => (name(), kinds(), 0..6u32, amount(), amount()).prop_map(|(name, kind, gpus, cpus, memory_gib)| {
            ClusterChange::Join(NodeSpec { name, kind, gpus, cpus, memory_gib, rack: None })
        }),
        2 => name().prop_map(|node| ClusterChange::Remove { node, why: "old".into() }),
        1 => name().prop_map(|node| ClusterChange::Drain { node, why: "old".into(), deadline: Some(Time(7)) }),
        1 => (name(), kinds()).prop_map(|(node, kind)| ClusterChange::CorrectKind { node, kind }),
        1 => (name(), 0..6u32).prop_map(|(node, gpu)| ClusterChange::GpusBack { node, gpus: vec![gpu] }),
    ]
}

proptest! {
    /// A GPU belongs to one node for ever, counts are those of the nodes present, and old numbers still mean the old node.
    #[test]
    fn numbers_are_given_out_once(changes in prop::collection::vec(any_change(), 1..40)) {
        let mut cluster = cluster();
        for change in &changes {
            let before = cluster.clone();
            let Ok(applied) = cluster.apply(change) else {
                prop_assert_eq!(&cluster, &before);
                continue;
            };
            prop_assert_eq!(applied.changed, cluster != before);
            prop_assert!(cluster.check().is_ok());
            prop_assert!(cluster.kinds().starts_with(before.kinds()));
            for (node, id) in before.nodes().iter().zip(0..) {
                let now = cluster.node(NodeId(id));
                prop_assert_eq!((&now.name, now.gpu_range()), (&node.name, node.gpu_range()));
                prop_assert!(now.removed || !node.removed, "nobody returns from the dead");
            }
            for gpu in (0..before.gpus() as u32).map(GpuId) {
                prop_assert_eq!(cluster.node_of(gpu), before.node_of(gpu));
            }
            let mut counts = vec![0; cluster.kinds().len()];
            for node in cluster.nodes().iter().filter(|node| !node.removed) {
                counts[node.kind.index()] += node.gpus;
                prop_assert_eq!(cluster.find(&node.name).map(|id| cluster.node(id)), Some(node));
            }
            prop_assert_eq!(cluster.counts(), counts.clone());
            prop_assert_eq!(cluster.present_gpus(), counts.iter().sum::<u32>() as usize);
        }
    }
}

#[test]
fn a_mode_takes_the_gpus_of_its_kind() {
    let limited = kind("v100").limited_to(150.0).expect("between its idle draw and its limit");
    assert_eq!((limited.name.as_str(), limited.sold_as(), limited.limit_watts()), ("v100@150W", "v100", 150.0));
    let mut modes = cluster();
    let applied = modes.apply(&ClusterChange::AddMode { node: "a".into(), mode: limited.clone() }).expect("a v100");
    assert!(applied.new_kind && applied.changed);
    assert_eq!(modes.counts(), [6, 0]);
    assert_eq!((modes.sold_as(KindId(1)), modes.sold_as(KindId(0))), (KindId(0), KindId(0)));
    modes.check().expect("it can be read again");
    let again = modes.apply(&ClusterChange::AddMode { node: "b".into(), mode: limited.clone() }).expect("known");
    assert!(!again.changed, "twice is once");
    let node = ClusterChange::Join(NodeSpec { kind: limited.clone(), ..spec("c", "v100", 1) });
    refused(&node, "node 'c' is of a kind with a power limit; name its kind as sold, and the limit as a mode");
    let p100 = kind("p100").limited_to(150.0).expect("a limit");
    refused(
        &ClusterChange::AddMode { node: "a".into(), mode: p100 },
        "'p100@150W' is a power limit of a kind that the cluster does not have; name one that it has",
    );
    let low = kind("v100").limited_to(1.0).expect_err("less than it draws unused").to_string();
    assert!(low.starts_with("v100 cannot be run under a limit of 1 W; give more than "), "{low}");
}
