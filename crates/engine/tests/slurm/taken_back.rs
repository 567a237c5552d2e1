//! Starts that come to nothing, and jobs that start although nobody ordered it: their jobs wait for the next decision, and nothing counts as a failure.

use super::support::{RealSlurm, slurm_or_skip};
use super::{NODES, field, led, now, sbatch, taken, told, until};
use arles_core::JobId;
use arles_core::engine::{Engine, LiveJob, OrderReply};
use arles_core::scheduler::GangEvent;
use arles_engine::Slurm;
use arles_engine::contract::start;

const OFFERED: [&str; 4] = ["--hold", "--gres=gpu:1", "--comment", "arles"];

fn offered(engine: &mut Slurm, id: u64) -> LiveJob {
    engine.sync_jobs(now(), &[]).expect("it answers");
    taken(&engine.intake().seen().arrivals[0], id)
}

/// `scontrol requeuehold` leaves the reason that a user's own hold leaves. A job that arles has requeued so must not wait for its user.
#[test]
fn a_job_that_its_user_releases_waits_its_turn_again() {
    if !slurm_or_skip("a user's scontrol release") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let marked = sbatch(&slurm, &OFFERED);
    let mut engine = led(&slurm);
    let job = offered(&mut engine, 1);
    engine.add_job(now(), &job).expect("it answers");
    slurm.text(&["scontrol", "release", &marked]);
    until(&mut engine, "Slurm starts it", |_| (field(&slurm, &marked, "JobState") == "RUNNING").then_some(()));
    until(&mut engine, "it is back in the queue", |engine| {
        engine.poll(now()).expect("it answers");
        (field(&slurm, &marked, "JobState") == "PENDING").then_some(())
    });
    for _ in 0..3 {
        engine.survey(now(), now()).expect("it answers");
        assert!(!engine.intake().seen().held.contains(&JobId(1)), "nobody wants it held");
    }
    engine.apply(now(), &start(1, 1, &[0], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);
}

/// An engine that is killed after it pinned a job and before it released it leaves a mark of a gang that never was. The driver orders the same start again.
#[test]
fn a_start_that_was_interrupted_is_no_failure() {
    if !slurm_or_skip("a start that was interrupted") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let marked = sbatch(&slurm, &OFFERED);
    let job = offered(&mut led(&slurm), 1);
    let mark = "AdminComment=arles job=1 of=native fence=5 gpus=0 restarts=0";
    slurm.text(&["scontrol", "update", &format!("jobid={marked}"), "ReqNodeList=n0", mark]);
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[job]).expect("it answers");
    for _ in 0..2 {
        let reply = engine.apply(now(), &start(1, 5, &[0], 60.0)).expect("it answers");
        assert!(!matches!(reply, OrderReply::Refused(_)), "{reply:?}");
    }
    engine.apply(now(), &start(1, 6, &[4], 60.0)).expect("it answers");
    until(&mut engine, "the next one runs", |engine| {
        let news = engine.poll(now()).expect("it answers");
        news.iter().any(|report| report.fence.0 == 6 && report.event == GangEvent::Started).then_some(())
    });
    assert_eq!(field(&slurm, &marked, "NodeList"), "n1");
}

/// What has a GPU may be something that the driver could not know of. Its order is put off, and the job waits.
#[test]
fn a_start_that_others_are_in_the_way_of_is_no_failure() {
    if !slurm_or_skip("a start onto a GPU that is taken") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let jobs = [1, 2].map(|_| sbatch(&slurm, &["--hold", "--gres=gpu:2", "--comment", "arles"]));
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    for arrival in engine.intake().seen().arrivals {
        let id = 1 + jobs.iter().position(|job| *job == arrival.shown).expect("one of ours") as u64;
        engine.add_job(now(), &taken(&arrival, id)).expect("it answers");
    }
    engine.apply(now(), &start(1, 1, &[0, 1], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);
    for _ in 0..2 {
        let reply = engine.apply(now(), &start(2, 2, &[1, 2], 60.0)).expect("it answers");
        let OrderReply::Reported(report) = reply else { panic!("{reply:?}") };
        assert_eq!((report.fence.0, report.event), (2, GangEvent::Stopped(0.0)));
    }
    engine.apply(now(), &start(2, 3, &[2, 3], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 2), GangEvent::Started);
}
