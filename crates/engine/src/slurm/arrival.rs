//! Jobs of `sbatch` that wait to be taken, and the names by which they are found again.

use super::mark::read_wishes;
use super::record::{JobRecord, NodeRecord};
use super::suit;
use crate::intake::Arrival;
use std::collections::BTreeSet;

/// A job of this name, if it asks for GPUs.
pub(super) fn arrival(slurm: &str, record: &JobRecord) -> Option<Arrival> {
    let wish = record.wanted()?;
    let gang = wish.per_node.checked_mul(wish.nodes).filter(|gang| *gang > 0)?;
    let mib = record.memory_per_node.map(|mib| mib * f64::from(wish.nodes));
    let mib = mib.or_else(|| record.memory_per_cpu.map(|mib| mib * record.cpus as f64)).unwrap_or(0.0);
    let account = if record.account.is_empty() { &record.user_name } else { &record.account };
    Some(Arrival {
        // A number alone may come to mean another job.
        external: format!("slurm:{slurm}@{}", record.submit_time),
        shown: slurm.to_owned(),
        command: "sbatch",
        name: record.name.clone(),
        tenant: account.clone(),
        gang,
        kinds: wish.kind.into_iter().collect(),
        cpus_per_gpu: record.cpus as f64 / f64::from(gang),
        memory_gib_per_gpu: mib / 1024.0 / f64::from(gang),
        wishes: read_wishes(&record.comment, &record.admin_comment),
    })
}

/// The same, held to the nodes that suit it. A job that none suits says so. `shared`: types of GPUs that arles puts two jobs on.
pub(super) fn among(
    mut arrival: Arrival,
    record: &JobRecord,
    nodes: &[NodeRecord],
    shared: &BTreeSet<String>,
) -> Arrival {
    match suit::types(record, nodes) {
        Ok(types) if !types.is_empty() && arrival.kinds.is_empty() => arrival.kinds = types,
        Ok(types) if !types.is_empty() && !arrival.kinds.iter().any(|kind| types.contains(kind)) => {
            let (asked, found) = (arrival.kinds.join(", "), types.join(", "));
            arrival.wishes.wrong.push(format!("it asks for gpu:{asked}, and only nodes with {found} suit it"));
        }
        Ok(_) => {}
        Err(why) => arrival.wishes.wrong.push(why),
    }
    if arrival.gang == 1 && record.shards() == 0 && !shared.is_empty() {
        keep_unshared(&mut arrival, nodes, shared);
    }
    arrival
}

/// A single job that asks for a GPU cannot be one of two, and nobody who divides GPUs knows that: it is for kinds that are not shared.
fn keep_unshared(arrival: &mut Arrival, nodes: &[NodeRecord], shared: &BTreeSet<String>) {
    if arrival.kinds.is_empty() {
        let types: BTreeSet<String> = nodes.iter().filter_map(|node| node.gpus()?.0).collect();
        arrival.kinds = types.into_iter().collect();
    }
    arrival.kinds.retain(|kind| !shared.contains(kind));
    if arrival.kinds.is_empty() {
        let shards = nodes.iter().map(NodeRecord::shards_per_gpu).max().unwrap_or(2);
        arrival.wishes.wrong.push(format!(
            "arles shares the GPUs of this cluster, and a job that asks for gpu:1 cannot share one; submit it with --gres=shard:{shards}"
        ));
    }
}

/// The number in Slurm and the time of submission in a job's external name.
pub(super) fn parse_external(name: &str) -> Option<(&str, u64)> {
    let (slurm, submitted) = name.strip_prefix("slurm:")?.split_once('@')?;
    Some((slurm, submitted.parse().ok()?))
}
