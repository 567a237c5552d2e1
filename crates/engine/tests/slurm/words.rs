//! What Slurm's own words mean under arles: arrays, dependencies, time limits, holds, drained and reserved nodes, `job_submit.lua`.

use super::support::{RealSlurm, slurm_or_skip};
use super::{NODES, field, led, now, sbatch, taken, told, until};
use arles_core::JobId;
use arles_core::engine::Engine;
use arles_core::scheduler::GangEvent;
use arles_engine::Slurm;
use arles_engine::contract::{start, stop};

const OFFERED: [&str; 4] = ["--hold", "--gres=gpu:1", "--comment", "arles"];

/// What is offered by the next look at everything.
fn offered(engine: &mut Slurm) -> Vec<String> {
    engine.survey(now(), now()).expect("it answers");
    engine.intake().seen().arrivals.into_iter().map(|arrival| arrival.shown).collect()
}

/// Takes a job that is offered under a number.
fn take(engine: &mut Slurm, slurm: &str, id: u64) {
    let arrivals = engine.intake().seen().arrivals;
    let arrival = arrivals.iter().find(|arrival| arrival.shown == slurm).expect("it is offered");
    engine.add_job(now(), &taken(arrival, id)).expect("it answers");
}

fn is_held(engine: &mut Slurm, id: u64) -> bool {
    engine.survey(now(), now()).expect("it answers");
    engine.intake().seen().held.contains(&JobId(id))
}

#[test]
fn tasks_of_an_array_are_jobs_and_no_more_run_than_it_allows() {
    if !slurm_or_skip("arrays of sbatch") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let array = sbatch(&slurm, &[&OFFERED[..], &["--array=0-3%2"]].concat());
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let task = |n: u32| format!("{array}_{n}");
    assert_eq!(offered(&mut engine), [task(0), task(1)]);
    take(&mut engine, &task(0), 1);
    take(&mut engine, &task(1), 2);
    assert_eq!(offered(&mut engine), Vec::<String>::new(), "as many as run at once");
    engine.apply(now(), &start(2, 1, &[0], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 2), GangEvent::Started);
    assert_eq!(field(&slurm, &task(1), "JobState"), "RUNNING");
    assert_eq!(field(&slurm, &task(1), "NodeList"), "n0");
    // One that is moved is the same task still.
    engine.apply(now(), &stop(2, 1)).expect("it answers");
    assert!(matches!(told(&mut engine, 2), GangEvent::Stopped(_)));
    engine.apply(now(), &start(2, 2, &[4], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 2), GangEvent::Started);
    assert_eq!(field(&slurm, &task(1), "NodeList"), "n1");
    slurm.text(&["scancel", &task(1)]);
    until(&mut engine, "its end is noticed", |engine| {
        engine.poll(now()).expect("it answers");
        engine.intake().seen().over.contains_key(&JobId(2)).then_some(())
    });
    engine.remove_job(now(), JobId(2)).expect("it answers");
    assert_eq!(offered(&mut engine), [task(2)]);
}

#[test]
fn dependencies_and_begin_times_are_waited_for() {
    if !slurm_or_skip("dependencies of sbatch") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let ending = |code: u32| {
        let script = format!("sleep 1; exit {code}");
        slurm.text(&["sbatch", "--parsable", "-o", "/dev/null", "--wrap", &script])
    };
    let (good, bad) = (ending(0), ending(3));
    let lasting = sbatch(&slurm, &["--gres=gpu:1"]);
    let after = |what: String| sbatch(&slurm, &[&OFFERED[..], &["-d", &what]].concat());
    let once_good = after(format!("afterok:{good}"));
    let once_bad = after(format!("afterok:{bad}"));
    let either = after(format!("afterok:{bad}?afterany:{good}"));
    let still = after(format!("afterany:{lasting}"));
    sbatch(&slurm, &[&OFFERED[..], &["--begin=now+1hour"]].concat());
    let alike = [0, 1].map(|_| sbatch(&slurm, &[&OFFERED[..], &["-J", "alike", "-d", "singleton"]].concat()));
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    until(&mut engine, "those whose turn it is are offered", |engine| {
        (offered(engine) == [once_good.clone(), either.clone(), alike[0].clone()]).then_some(())
    });
    until(&mut engine, "one that can never start is Slurm's again, which says so", |engine| {
        engine.poll(now()).expect("it answers");
        (field(&slurm, &once_bad, "Reason") == "DependencyNeverSatisfied").then_some(())
    });
    take(&mut engine, &once_good, 1);
    engine.apply(now(), &start(1, 1, &[0], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);

    // A dependency that its user adds to a job that arles has.
    take(&mut engine, &either, 2);
    assert!(!is_held(&mut engine, 2));
    slurm.text(&["scontrol", "update", &format!("jobid={either}"), &format!("Dependency=afterany:{lasting}")]);
    assert!(is_held(&mut engine, 2));
    slurm.text(&["scancel", &lasting]);
    until(&mut engine, "it waits for nobody", |engine| (!is_held(engine, 2)).then_some(()));
    assert!(offered(&mut engine).contains(&still));
}

#[test]
fn time_limits_holds_and_nodes_out_of_service_are_slurms() {
    if !slurm_or_skip("time limits, holds and drained nodes") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let held = sbatch(&slurm, &OFFERED);
    let limited = sbatch(&slurm, &OFFERED);
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    take(&mut engine, &held, 1);
    take(&mut engine, &limited, 2);
    for (id, gpu) in [(1, 0), (2, 1)] {
        engine.apply(now(), &start(id, id, &[gpu], 60.0)).expect("it answers");
        assert_eq!(told(&mut engine, id), GangEvent::Started);
    }
    // An operator holds a job that has run and waits, and releases it again.
    engine.apply(now(), &stop(1, 1)).expect("it answers");
    assert!(matches!(told(&mut engine, 1), GangEvent::Stopped(_)));
    until(&mut engine, "it waits, and its mark says so", |engine| {
        engine.poll(now()).expect("it answers");
        (!slurm.text(&["scontrol", "show", "job", &held]).contains("fence=")).then_some(())
    });
    assert!(!is_held(&mut engine, 1), "it is held in Slurm, and nobody wants it held");
    slurm.text(&["scontrol", "release", &held]);
    slurm.text(&["scontrol", "uhold", &held]);
    until(&mut engine, "it is held", |engine| is_held(engine, 1).then_some(()));

    // A time limit ends a job as it does without arles. Slurm counts in minutes, so this one is moved back.
    slurm.text(&["scontrol", "update", &format!("jobid={limited}"), "EndTime=now+2"]);
    let GangEvent::Failed(_, why) = told(&mut engine, 2) else { panic!("its time is over") };
    assert!(why.contains("timeout"), "{why}");

    slurm.text(&["scontrol", "update", "nodename=n2", "state=drain", "reason=fan"]);
    let reserve = "scontrol create reservation reservationname=now starttime=now duration=10 users=root nodes=n3";
    slurm.text(&reserve.split(' ').collect::<Vec<_>>());
    until(&mut engine, "both are out of service", |engine| {
        engine.survey(now(), now()).expect("it answers");
        let drained = engine.intake().seen().drained;
        (drained.get("n2")?.contains("fan") && drained.get("n3")?.contains("reserved")).then_some(())
    });
    slurm.text(&["scontrol", "update", "nodename=n2", "state=resume"]);
    slurm.text(&["scontrol", "delete", "reservationname=now"]);
    until(&mut engine, "both are back", |engine| {
        engine.survey(now(), now()).expect("it answers");
        engine.intake().seen().drained.is_empty().then_some(())
    });
}

#[test]
fn the_lua_file_marks_what_scripts_say() {
    if !slurm_or_skip("job_submit.lua") {
        return;
    }
    let lua = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/slurm/job_submit.lua");
    let slurm = RealSlurm::start_with(&NODES, &[("ARLES_SLURM_LUA", lua)]);
    let script = slurm.folder.join("train.sh");
    let lines = "#ARLES workload=resnet50-b64 steps=20000\n#ARLES floor=2.5 kinds=v100 restart=30\n#ARLES $(id)=x `id`\nsleep 300\n";
    std::fs::write(&script, format!("#!/bin/sh\n{lines}")).expect("the folder is ours");
    let path = script.display().to_string();
    let submit = |words: &[&str]| slurm.text(&[&["sbatch", "--parsable", "-o", "/dev/null"], words, &[&path]].concat());
    let marked = submit(&["--gres=gpu:2", "-A", "vision"]);
    let of_job = submit(&["--gpus=1"]);
    let wants_none = submit(&["-c", "1"]);
    let opted_out = submit(&["--gres=gpu:1", "--comment", "debug noarles"]);
    let named = submit(&["--gres=gpu:1", "-w", "n1"]);
    let held = submit(&["--hold", "--gres=gpu:1"]);
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let arrivals = engine.intake().seen().arrivals;
    let names: Vec<&str> = arrivals.iter().map(|arrival| arrival.shown.as_str()).collect();
    assert_eq!(names, [marked.as_str(), &of_job, &held]);
    let wishes = &arrivals[0].wishes;
    assert_eq!((arrivals[0].tenant.as_str(), arrivals[0].gang), ("vision", 2));
    assert_eq!(
        (wishes.workload.as_deref(), wishes.steps, wishes.floor),
        (Some("resnet50-b64"), Some(20_000.0), Some(2.5))
    );
    assert_eq!((&wishes.kinds[..], wishes.restart_seconds, wishes.held), (&["v100".to_owned()][..], Some(30.0), false));
    assert!(wishes.wrong.is_empty(), "{:?}", wishes.wrong);
    assert!(arrivals[2].wishes.held, "its user wants it held");
    until(&mut engine, "Slurm starts what is not arles'", |_| {
        let runs = |job: &String| field(&slurm, job, "JobState") == "RUNNING";
        [&wants_none, &opted_out, &named].into_iter().all(runs).then_some(())
    });
}
