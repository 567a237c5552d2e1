//! slurmctld starts again while jobs run.

use super::support::{RealSlurm, slurm_or_skip};
use super::{NODES, field, led, now, sbatch, taken, until};
use arles_core::engine::Engine;
use arles_engine::contract::start;

/// The devices that a job has, as Slurm writes them: `0`, or nothing.
fn devices(slurm: &RealSlurm, job: &str) -> Option<String> {
    let output = slurm.run(&["scontrol", "show", "job", "-d", job]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split("(IDX:").nth(1)?.split(')').next()?.to_owned()).filter(|list| !list.is_empty())
}

/// Until its nodes have registered, Slurm 22.05 starts jobs there without any device. Two kinds of jobs meet that: one that arles had released before,
/// which starts again, and one that is ordered in that moment, which waits.
#[test]
fn no_job_stays_without_gpus_after_a_restart_of_the_controller() {
    if !slurm_or_skip("a restart of slurmctld under load") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let stranger = sbatch(&slurm, &["--gres=gpu:2", "-w", "n2"]);
    let marked =
        ["first", "second"].map(|name| sbatch(&slurm, &["-J", name, "--hold", "--gres=gpu:1", "--comment", "arles"]));
    let mut engine = led(&slurm);
    until(&mut engine, "the stranger runs", |_| (field(&slurm, &stranger, "JobState") == "RUNNING").then_some(()));
    engine.sync_jobs(now(), &[]).expect("it answers");
    for (id, job) in (1..).zip(&marked) {
        let arrivals = engine.intake().seen().arrivals;
        let arrival = arrivals.iter().find(|arrival| arrival.shown == *job).expect("it is offered");
        engine.add_job(now(), &taken(arrival, id)).expect("it answers");
    }
    engine.apply(now(), &start(1, 1, &[6], 60.0)).expect("it answers");
    until(&mut engine, "the first is released", |engine| {
        engine.poll(now()).expect("it answers");
        (field(&slurm, &marked[0], "Priority") != "0").then_some(())
    });

    slurm.act("kill-controller", &["TERM"]);
    std::thread::scope(|scope| {
        scope.spawn(|| slurm.act("start", &[]));
        // As soon as the controller is back the stranger makes room, long before its node has registered.
        until(&mut engine, "slurmctld answers", |_| slurm.run(&["scancel", &stranger]).status.success().then_some(()));
        until(&mut engine, "the order is taken", |engine| engine.apply(now(), &start(2, 2, &[7], 60.0)).ok());
        let both = until(&mut engine, "both have a GPU", |engine| {
            let _ = engine.poll(now());
            devices(&slurm, &marked[0]).zip(devices(&slurm, &marked[1]))
        });
        assert_ne!(both.0, both.1);
    });
    assert_eq!(field(&slurm, &marked[1], "Restarts"), "0", "it was started before its node had registered");
}
