//! The sentences that waiting jobs get. Each says why, until about when, and with which numbers.

mod common;

use arles_core::{Input, JobId};
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
    check(&engine, 1, "waits: the next decision is in 60 s");
    engine.round();
    check(&engine, 1, "runs on 1 × a100-40gb on 1 node");
    check(&engine, 2, "no such job is live: it is over, or never was");
}

#[test]
fn what_can_never_run() {
    let mut engine = fifo(4, vec![vec![1.0], vec![0.0]]);
    engine.tell(Input::Submit(job(1, 0, 64)));
    engine.tell(Input::Submit(job(2, 1, 1)));
    engine.round();
    let too_large = "waits: a gang of 64 is more than the 4 GPUs of a100-40gb, the most there are of a kind that fits; \
                     a gang of 4 could run";
    check(&engine, 1, too_large);
    check(&engine, 2, "waits: a gang of 1 fits none of a100-40gb; allow other kinds or use a smaller batch");
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
    let first =
        "waits: 0 jobs came earlier; its gang needs 1 GPU and 0 that fit are free; enough jobs end in about 1.5 h";
    let second =
        "waits: 1 job came earlier; its gang needs 1 GPU and 0 that fit are free; enough jobs end in about 2.5 h";
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
    check(
        &engine,
        waiting[0].0,
        "waits: 8 jobs like it share 4.00 gangs at a time, 0 before it; its turn is in about 60 s",
    );
    check(
        &engine,
        waiting[3].0,
        "waits: 8 jobs like it share 4.00 gangs at a time, 3 before it; its turn is in about 4 min",
    );
}
