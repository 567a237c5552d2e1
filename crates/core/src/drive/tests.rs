//! What an inventory means for a cluster.

use super::*;
use crate::{KindId, Library};

fn spec(name: &str, of: &str, gpus: u32) -> NodeSpec {
    let kind = Library::builtin().kind(of).expect("in the library").clone();
    NodeSpec { name: name.into(), kind, gpus, cpus: Some(64.0), memory_gib: None }
}

fn said(changes: &[ClusterChange]) -> Vec<String> {
    let say = |change: &ClusterChange| match change {
        ClusterChange::Join(spec) => format!("+{} {}x{}", spec.name, spec.gpus, spec.kind.name),
        ClusterChange::Remove { node, .. } => format!("-{node}"),
        other => format!("{other:?}"),
    };
    changes.iter().map(say).collect()
}

#[test]
fn an_inventory_becomes_changes_and_then_none() {
    let v100 = Library::builtin().kind("v100").expect("in the library").clone();
    let nodes = [("a", 4), ("b", 2), ("c", 2)].map(|(name, gpus)| (name.to_owned(), KindId(0), gpus));
    let mut cluster = Cluster::new(vec![v100], nodes).expect("three nodes");
    let inventory = [spec("d", "p100", 1), spec("c", "p100", 2), spec("a", "v100", 4), spec("a", "v100", 9)];
    let changes = reconcile(&cluster, &inventory);
    assert_eq!(said(&changes), ["-b", "+a 4xv100", "+c 2xp100", "+d 1xp100"]);
    for change in &changes {
        cluster.apply(change).expect("it makes sense");
    }
    assert_eq!(reconcile(&cluster, &inventory), []);
    assert_eq!(cluster.counts(), [4, 3]);
    assert_eq!(said(&reconcile(&cluster, &[])), ["-a", "-c", "-d"]);
}
