//! What arles adds to Slurm: how long a start and a move take beside what `sbatch` and `scontrol requeue` alone take on the same cluster, and what a look at
//! a long queue costs.
//!
//!     cargo bench --bench slurm -- [PENDING...]      numbers of waiting jobs, 1000 if none is named

#[path = "../tests/support/slurm.rs"]
mod support;

use arles_core::engine::{Engine, LiveJob, Mandate};
use arles_core::scheduler::GangEvent;
use arles_core::{Cluster, JobId, JobSpec, KindId, Library, Program, Time};
use arles_engine::Slurm;
use arles_engine::contract::{start, stop};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{RealSlurm, slurm_or_skip};

const TRIES: u64 = 10;
const NODES: [&str; 6] = ["n0:v100:4", "n1:v100:4", "n2:p100:2", "n3:p100:2", "n4:k80:2", "n5:k80:2"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Run as a test, it has nothing to say.
    if words.iter().any(|word| word == "--test") || !slurm_or_skip("the cost of a real Slurm") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let kind = Library::builtin().kind("v100").expect("in the library").clone();
    let nodes = [("n0".to_owned(), KindId(0), 4), ("n1".to_owned(), KindId(0), 4)];
    let mut engine = slurm.engine(Cluster::new(vec![kind], nodes).expect("a cluster"));
    engine.lead(&Mandate { journal: "bench".into(), ..Mandate::default() }).expect("it obeys");
    engine.sync_jobs(now(), &[]).expect("it answers");
    std::thread::sleep(Duration::from_secs(4));

    show("sbatch to running", (0..TRIES).map(|_| submit_alone(&slurm)));
    show("scontrol requeue to running again", (0..TRIES).map(|_| requeue_alone(&slurm)));
    let times: Vec<(f64, f64)> = (1..=TRIES).map(|id| start_and_move(&slurm, &mut engine, id)).collect();
    show("order to running, under arles", times.iter().map(|(start, _)| *start));
    show("preempt and move to running, under arles", times.iter().map(|(_, moved)| *moved));

    let sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let mut waiting = 0;
    for size in if sizes.is_empty() { vec![1000] } else { sizes } {
        (waiting..size).for_each(|_| submit_held(&slurm));
        waiting = waiting.max(size);
        look_at(&mut engine, size);
    }
}

fn now() -> Time {
    Time::from_seconds(1.0)
}

fn show(what: &str, seconds: impl Iterator<Item = f64>) {
    let mut sorted: Vec<f64> = seconds.collect();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    println!("{what:44} median {:.2} s, {least:.2} to {most:.2} s, {} tries", sorted[sorted.len() / 2], sorted.len());
}

fn until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(120), "it takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const BATCH: [&str; 8] =
    ["sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:1", "--requeue", "--wrap", "sleep 600"];

fn runs(slurm: &RealSlurm, job: &str) -> bool {
    slurm.text(&["squeue", "-h", "-j", job, "-o", "%T"]) == "RUNNING"
}

fn submit_alone(slurm: &RealSlurm) -> f64 {
    let began = Instant::now();
    let job = slurm.text(&BATCH);
    until(|| runs(slurm, &job));
    let seconds = began.elapsed().as_secs_f64();
    slurm.cancel_everything();
    seconds
}

/// With the wait after a requeue (cred_expire) skipped, as arles skips it. A job that comes back to its node within the same second is refused there and
/// fails: then there is nothing to measure, and another one is tried.
fn requeue_alone(slurm: &RealSlurm) -> f64 {
    loop {
        if let Some(seconds) = try_requeue(slurm) {
            return seconds;
        }
    }
}

fn try_requeue(slurm: &RealSlurm) -> Option<f64> {
    let job = slurm.text(&BATCH);
    until(|| runs(slurm, &job));
    let began = Instant::now();
    slurm.text(&["scontrol", "requeue", &job]);
    until(|| slurm.text(&["squeue", "-h", "-j", &job, "-o", "%T"]) == "PENDING");
    slurm.text(&["scontrol", "update", &format!("jobid={job}"), "StartTime=now"]);
    let state = || slurm.text(&["squeue", "-h", "-t", "all", "-j", &job, "-o", "%T"]);
    until(|| !["PENDING", "CONFIGURING", "COMPLETING"].contains(&state().as_str()));
    let (seconds, done) = (began.elapsed().as_secs_f64(), runs(slurm, &job));
    slurm.cancel_everything();
    done.then_some(seconds)
}

/// A job of sbatch is started, stopped and started elsewhere.
fn start_and_move(slurm: &RealSlurm, engine: &mut Slurm, id: u64) -> (f64, f64) {
    slurm.text(&[&BATCH[..], &["--hold", "--comment", "arles"]].concat());
    engine.survey(now(), now()).expect("it answers");
    let arrival = engine.intake().seen().arrivals.pop().expect("it waits");
    let program = Program { external: Some(arrival.external.clone()), ..Program::default() };
    let spec = JobSpec { id: JobId(id), program: Some(Arc::new(program)), ..JobSpec::default() };
    engine.add_job(now(), &LiveJob { spec, steps_done: 0.0 }).expect("it answers");
    let heard = |engine: &mut Slurm, wanted: fn(&GangEvent) -> bool| {
        until(|| {
            engine
                .poll(now())
                .expect("it answers")
                .iter()
                .any(|report| report.job == JobId(id) && wanted(&report.event))
        });
    };
    let began = Instant::now();
    engine.apply(now(), &start(id, 2 * id, &[0], 600.0)).expect("it answers");
    heard(engine, |event| *event == GangEvent::Started);
    let started = began.elapsed().as_secs_f64();
    let began = Instant::now();
    engine.apply(now(), &stop(id, 2 * id)).expect("it answers");
    heard(engine, |event| matches!(event, GangEvent::Stopped(_)));
    engine.apply(now(), &start(id, 2 * id + 1, &[4], 600.0)).expect("it answers");
    heard(engine, |event| *event == GangEvent::Started);
    let moved = began.elapsed().as_secs_f64();
    engine.remove_job(now(), JobId(id)).expect("it answers");
    slurm.cancel_everything();
    (started, moved)
}

/// Through slurmrestd, since sbatch would take minutes for thousands.
fn submit_held(slurm: &RealSlurm) {
    let job = r##"{"script":"#!/bin/sh\nsleep 60","job":{"name":"waits","current_working_directory":"/tmp","environment":{"PATH":"/bin"},"standard_output":"/dev/null","gres":"gpu:1","hold":true,"comment":"arles"}}"##;
    let mut stream = UnixStream::connect(slurm.folder.join("run/slurmrestd.sock")).expect("it listens");
    let head = format!(
        "POST /slurm/v0.0.38/job/submit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        job.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(job.as_bytes())).expect("it reads");
    let mut answer = [0; 64];
    let _ = stream.read(&mut answer);
}

/// Ten seconds of a driver that polls all the time and surveys twice.
fn look_at(engine: &mut Slurm, size: usize) {
    let before = engine.calls();
    let began = Instant::now();
    let mut surveys = Vec::new();
    while began.elapsed() < Duration::from_secs(10) {
        engine.poll(now()).expect("it answers");
        if surveys.len() < 2 {
            let asked = Instant::now();
            engine.survey(now(), now()).expect("it answers");
            surveys.push(asked.elapsed().as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = engine.calls();
    let (looks, unchanged) = (after.looks - before.looks, after.unchanged - before.unchanged);
    let offered = engine.intake().seen().arrivals.len();
    println!(
        "{size} jobs wait, {offered} of them offered: a survey takes {:.2} s; in 10 s {looks} looks, {unchanged} of them unchanged, {} commands",
        surveys.iter().sum::<f64>() / surveys.len() as f64,
        after.commands - before.commands
    );
}
