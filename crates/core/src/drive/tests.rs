//! What an inventory means for a cluster, and what another kind means for the rows that were told.

use super::*;
use crate::{KindId, Library, WorkloadId};

fn spec(name: &str, of: &str, gpus: u32) -> NodeSpec {
    let kind = Library::builtin().kind(of).expect("in the library").clone();
    NodeSpec { name: name.into(), kind, gpus, cpus: Some(64.0), memory_gib: None, rack: None }
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

#[test]
fn gpus_that_an_engine_loses_become_changes_and_then_none() {
    let v100 = Library::builtin().kind("v100").expect("in the library").clone();
    let nodes = [("a", 2), ("b", 2)].map(|(name, gpus)| (name.to_owned(), KindId(0), gpus));
    let cluster = Cluster::new(vec![v100], nodes).expect("two nodes");
    let policy = crate::allocate::find_policy("fifo").expect("a policy");
    let mut scheduler = Scheduler::new(cluster, vec![], policy, crate::scheduler::Settings::default());
    let lost = |gpus: &[u32]| -> Vec<LostGpu> {
        gpus.iter().map(|&gpu| LostGpu { gpu: crate::GpuId(gpu), why: format!("GPU {gpu} is gone") }).collect()
    };
    let mut told = |gpus: &[u32]| {
        let changes = reconcile_gpus(&scheduler, &lost(gpus));
        for change in &changes {
            scheduler.step(Time::ZERO, Input::Cluster(change.clone()));
        }
        assert_eq!(reconcile_gpus(&scheduler, &lost(gpus)), [], "once is enough");
        changes
    };
    let gone =
        |node: &str, gpu, why: &str| ClusterChange::GpusLost { node: node.into(), gpus: vec![gpu], why: why.into() };
    assert_eq!(told(&[]), []);
    assert_eq!(told(&[1, 2]), [gone("a", 1, "GPU 1 is gone"), gone("b", 0, "GPU 2 is gone")]);
    assert_eq!(told(&[2]), [ClusterChange::GpusBack { node: "a".into(), gpus: vec![1] }]);
    assert_eq!(told(&[]), [ClusterChange::GpusBack { node: "b".into(), gpus: vec![0] }]);
}

/// Knows nothing but how many kinds there are.
#[derive(Clone)]
struct Blank(usize);

impl Estimator for Blank {
    fn estimate(&self, ask: &RateQuery) -> RateRow {
        RateRow { ask: *ask, cells: vec![None; self.0] }
    }

    fn observe(&mut self, _: &Observation) -> Vec<RateQuery> {
        Vec::new()
    }

    fn add_kind(&mut self, _: &Kind) {
        self.0 += 1;
    }

    fn add_workload(&mut self, _: &str, _: &Profile) {}

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(self.clone())
    }
}

#[test]
fn another_kind_is_another_cell_in_every_row_that_was_told() {
    let mut refiner = Refiner::new(Box::new(Blank(1)));
    let query = |workload: u32| RateQuery { workload: WorkloadId(workload), gang: 1, partner: None };
    assert_eq!(refiner.answer(&query(3)).cells.len(), 1);
    assert!(refiner.refresh().is_empty());
    refiner.add_kind(&Library::builtin().kinds()[0]);
    let told = refiner.refresh();
    assert_eq!(told, [RateRow { ask: query(3), cells: vec![None; 2] }]);
    assert!(refiner.refresh().is_empty());
}
