//! The sentences that waiting jobs get. Each says why, until about when, and with which numbers.

mod common;

use arles_core::scheduler::{JobPhase, NodeStatus, Verdict};
use arles_core::{Input, JobId, KindId, Spread};
use common::{Perfect, cluster, job};

fn check(engine: &Perfect, id: u64, expect: &str) {
    assert_eq!(engine.scheduler.explain(JobId(id)).to_string(), expect);
}

fn fifo(gpus: u32, rates: Vec<Vec<f64>>) -> Perfect {
    Perfect::new(cluster(&[gpus], 4), "fifo", rates)
}

#[test]
fn before_the_first_decision() {
    let mut engine = fifo(4, vec![vec![1.0]]);
    engine.tell(Input::Submit(job(1, 0, 1)));
    check(&engine, 1, "waits: waiting for the next scheduling round, in 60 s");
    engine.round();
    check(&engine, 1, "runs on 1 × a100-40gb on 1 node");
    check(&engine, 2, "not a live job: it has ended or was never submitted");
}

#[test]
fn what_can_never_run() {
    let mut engine = fifo(4, vec![vec![1.0], vec![0.0]]);
    engine.tell(Input::Submit(job(1, 0, 64)));
    engine.tell(Input::Submit(job(2, 1, 1)));
    engine.round();
    let too_large = "waits: needs 64 GPUs of one kind, and the cluster has at most 4 that fit (a100-40gb); \
                     resubmit with a gang of 4 or fewer";
    check(&engine, 1, too_large);
    check(&engine, 2, "waits: a gang of 1 does not fit on a100-40gb; allow other GPU kinds or use a smaller batch");
}

#[test]
fn a_queue_with_its_forecast() {
    let mut engine = fifo(4, vec![vec![1.0]]);
    for id in 0..6 {
        let mut spec = job(id, 0, 1);
        // The first to end has an hour and a half of work.
        spec.work = arles_core::Work::Steps(5400.0 + 3600.0 * id as f64);
        engine.tell(Input::Submit(spec));
    }
    engine.round();
    let first = "waits: next in the queue; needs 1 GPU, 0 free; starts in ~1.5 h";
    let second = "waits: 1 job ahead in the queue; needs 1 GPU, 0 free; starts in ~2.5 h";
    check(&engine, 4, first);
    check(&engine, 5, second);
}

#[test]
fn alike_jobs_take_turns() {
    let mut engine = Perfect::new(cluster(&[4], 4), "max-min-fairness", vec![vec![1.0]]);
    for id in 0..8 {
        engine.tell(Input::Submit(job(id, 0, 1)));
    }
    engine.round();
    let waiting: Vec<JobId> = engine.scheduler.waiting().collect();
    assert_eq!(waiting.len(), 4);
    check(&engine, waiting[0].0, "waits: time-sharing a100-40gb with 7 similar jobs; next in line, starts in ~60 s");
    check(&engine, waiting[3].0, "waits: time-sharing a100-40gb with 7 similar jobs; 3 ahead, starts in ~4 min");
}

/// One kind does twice as much at the same draw: what is given up is some of the time on the other.
#[test]
fn gpus_that_are_kept_free() {
    let mut engine = Perfect::with_epsilon(cluster(&[4, 4], 4), "fair-energy", vec![vec![2.0, 1.0]], 0.2);
    for id in 0..40 {
        engine.tell(Input::Submit(job(id, 0, 1)));
    }
    engine.round();
    let free = 8 - engine.held.values().flatten().collect::<std::collections::BTreeSet<_>>().len();
    let waiting = engine.scheduler.waiting().next().expect("there are more jobs than GPUs");
    assert!(free > 0, "some GPUs are kept free");
    let said = engine.scheduler.explain(waiting).to_string();
    let expected = format!("waits: needs 1 GPU; {free} free, kept so to save power (epsilon); starts in ~");
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn a_glance_at_jobs_and_nodes() {
    let mut engine = fifo(4, vec![vec![2.5]]);
    engine.tell(Input::Submit(job(1, 0, 3)));
    engine.tell(Input::Submit(job(2, 0, 2)));
    engine.round();
    let one = engine.scheduler.job_status(JobId(1)).expect("it is live");
    let held = one.gang.expect("it runs");
    assert_eq!((one.phase, held.kind, held.gpus.len(), held.spread), (JobPhase::Running, KindId(0), 3, Spread::Packed));
    assert_eq!((one.rate, one.failures, one.spec.id), (7.5, 0, JobId(1)));
    assert!(one.first_started.is_some());
    let two = engine.scheduler.job_status(JobId(2)).expect("it is live");
    assert_eq!((two.phase, two.gang, two.rate, two.first_started), (JobPhase::Waiting, None, 0.0, None));
    assert!(engine.scheduler.job_status(JobId(3)).is_none());
    assert_eq!(
        engine.scheduler.node_statuses().collect::<Vec<_>>(),
        [NodeStatus { up: true, reachable: true, ..NodeStatus::default() }]
    );
}

#[test]
fn all_that_wait_are_explained_at_once_with_codes() {
    let mut engine = fifo(4, vec![vec![1.0], vec![0.0]]);
    for (id, workload, gang) in [(2, 1, 1), (3, 0, 4), (4, 0, 1), (5, 0, 64)] {
        engine.tell(Input::Submit(job(id, workload, gang)));
    }
    engine.round();
    let codes: Vec<(u64, &str, bool)> = engine
        .scheduler
        .explain_all()
        .filter_map(|(id, verdict)| match verdict {
            Verdict::Waits(reason) => Some((id.0, reason.code(), reason.seconds().is_some())),
            _ => None,
        })
        .collect();
    assert_eq!(codes, [(2, "fits-no-kind", false), (4, "queued", true), (5, "gang-too-large", false)]);
}
