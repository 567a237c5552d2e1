//! What an engine owes a driver whose cluster changes.

use super::{Trial, gang, places};
use arles_core::engine::OrderReply;
use arles_core::scheduler::{GangEvent, Order};
use arles_core::{ClusterChange, GpuId, JobId, NodeId, NodeSpec};

/// A further node of the bed's first kind, with two GPUs.
fn joins(t: &Trial<'_>) -> ClusterChange {
    let kind = t.bed.cluster().kinds()[0].clone();
    ClusterChange::Join(NodeSpec {
        name: "contract-joined".into(),
        kind,
        gpus: 2,
        cpus: None,
        memory_gib: None,
        rack: None,
    })
}

pub(super) fn told_twice_what_the_cluster_is_it_is_told_once(t: &mut Trial<'_>) {
    let mut cluster = t.bed.cluster();
    t.set_cluster(&cluster);
    t.add_new(1, 2, 500.0);
    assert!(t.starts(1, 1, &[0, 1]));
    t.wait(10.0);
    let before = t.survey();
    t.set_cluster(&cluster);
    let again = t.survey();
    assert_eq!(places(&again), places(&before), "what runs goes on");
    assert!(!t.bed.exact() || again.survey == before.survey, "time stood still");
    let change = joins(t);
    t.change(&mut cluster, &change);
    t.set_cluster(&cluster);
    let after = t.survey();
    assert_eq!(after.survey.nodes.len(), before.survey.nodes.len() + 1);
    assert_eq!(places(&after), places(&before));
    assert_eq!(after.meters.gpu_watts.len(), cluster.gpus());
    assert_eq!(after.meters.kinds.len(), cluster.kinds().len());
}

pub(super) fn orders_on_a_node_that_joined_are_done(t: &mut Trial<'_>) {
    let mut cluster = t.bed.cluster();
    let first = cluster.gpus() as u32;
    t.add_new(1, 2, 30.0);
    t.add_new(2, 2, 30.0);
    t.wait(1.0);
    assert!(refuses_there(t, 1, 1, first), "it is not there yet");
    let change = joins(t);
    t.change(&mut cluster, &change);
    assert!(refuses_there(t, 1, 1, first), "it is there now, and that order was refused for good");
    let order = start_there(t, 2, 2, first);
    assert!(matches!(t.apply(&order), OrderReply::Reported(_) | OrderReply::Pending));
    t.wait(5.0);
    let seen = t.survey_with(2);
    assert_eq!(gang(&seen, 2).expect("it runs").gpus, [GpuId(first), GpuId(first + 1)]);
    while t.answer(2, 2) != GangEvent::Finished {}
    assert_eq!(t.stop(2, 2), GangEvent::Finished);
}

fn start_there(t: &Trial<'_>, job: u64, fence: u64, first: u32) -> Order {
    let mut order = t.order_start(job, fence, &[first, first + 1]);
    if let Order::Start(start) = &mut order {
        start.kind = super::GPUS[0].1;
    }
    order
}

fn refuses_there(t: &mut Trial<'_>, job: u64, fence: u64, first: u32) -> bool {
    let order = start_there(t, job, fence, first);
    matches!(t.apply(&order), OrderReply::Refused(why) if !why.is_empty())
}

pub(super) fn gangs_of_a_removed_node_are_gone(t: &mut Trial<'_>) {
    let mut cluster = t.bed.cluster();
    for (id, gang) in [(1, 1), (2, 2), (3, 1)] {
        t.add_new(id, gang, 500.0);
    }
    assert!(t.starts(1, 1, &[0]));
    assert!(t.starts(2, 2, &[3, 4]), "on two nodes");
    assert!(t.starts(3, 3, &[5]));
    t.wait(10.0);
    let GangEvent::Stopped(safe) = t.stop(3, 3) else { panic!("it ran") };
    assert!(t.starts(3, 4, &[5]));
    t.wait(10.0);
    let node = cluster.node(NodeId(1)).name.clone();
    t.change(&mut cluster, &ClusterChange::Remove { node, why: "the contract says so".into() });
    t.wait(1.0);
    let seen = t.survey();
    assert!(gang(&seen, 1).is_some() && gang(&seen, 2).is_none() && gang(&seen, 3).is_none());
    assert!(seen.survey.nodes.iter().all(|seen| seen.node != NodeId(1)), "it does not answer");
    assert!(seen.meters.gpu_watts[4..6].iter().all(|&watts| watts == 0.0), "and draws nothing");
    assert!(matches!(t.stop(2, 2), GangEvent::Stopped(_)), "a stop is always answered");
    assert!(matches!(t.stop(3, 4), GangEvent::Stopped(steps) if steps >= safe), "what was saved is safe");
    assert!(t.refuses(3, 5, &[5]), "nobody starts there any more");
    assert!(t.starts(3, 6, &[1]));
    let meter = t.engine.remove_job(t.bed.now(), JobId(2)).expect("the engine answers").expect("it is known");
    assert!(meter.charge.total() > 0.0, "what it drew is not forgotten");
}
