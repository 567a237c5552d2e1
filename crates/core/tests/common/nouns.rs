//! Clusters and jobs for tests.

use arles_core::{Cluster, JobId, JobSpec, Library, TenantId, Time, Work, WorkloadId};

pub(crate) fn cluster(counts: &[u32], per_node: u32) -> Cluster {
    let names = ["a100", "v100", "p100", "t4", "k80"];
    let kinds = names[..counts.len()].iter().map(|n| Library::builtin().kind(n).expect("in the library").clone());
    Cluster::uniform(kinds.collect(), counts, per_node).expect("a cluster")
}

pub(crate) fn job(id: u64, workload: u32, gang: u32) -> JobSpec {
    JobSpec {
        id: JobId(id),
        tenant: TenantId(0),
        workload: WorkloadId(workload),
        gang,
        work: Work::Steps(1e12),
        floor: None,
        weight: 1.0,
        restart_seconds: 0.0,
        kinds: Vec::new(),
        arrived: Time(id),
        ..JobSpec::default()
    }
}
