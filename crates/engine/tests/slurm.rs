//! The Slurm engine against a real Slurm: slurmctld and six slurmd of three kinds, from `e2e/slurm/cluster`.

#[path = "support/slurm.rs"]
mod support;

use arles_core::engine::{Engine, LiveJob, Mandate, OrderReply};
use arles_core::scheduler::{GangEvent, GangState};
use arles_core::{Cluster, GpuId, JobId, JobSpec, Library, Program, Script, Time, Work};
use arles_engine::contract::{self, Testbed, start, stop};
use arles_engine::slurm::{Arrival, Canary, tools};
use arles_engine::{Nominal, Slurm, SlurmOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{RealSlurm, slurm_or_skip};

/// A step a unit, by the clock: counts on from where it was, and writes down how far it is.
const TRAINING: &str = r#"#!/bin/sh
total=$1 unit=$2 before=${ARLES_STEPS_DONE%.*} done=${ARLES_STEPS_DONE%.*}
now() { date +%s%N; }
unit_ns=$(echo "$unit" | awk '{printf "%d", 1e9 * $1}')
[ "$before" = 0 ] || sleep "$(echo "$unit" | awk '{print 3 * $1}')"
began=$(now)
while [ "$done" -lt "$total" ]; do
  sleep "$unit"
  done=$((before + ($(now) - began) / unit_ns))
  [ "$done" -le "$total" ] || done=$total
  echo "$done" >"$ARLES_STEPS_FILE.new" && mv "$ARLES_STEPS_FILE.new" "$ARLES_STEPS_FILE"
done
exit "${3:-0}"
"#;

/// How long a unit of the contract is. Slurm takes up to two seconds to start a job and as long to stop one.
const UNIT_SECONDS: f64 = 0.35;
/// Clusters that cases are run on at once: they mostly sleep.
const CLUSTERS: usize = 4;

fn cluster() -> Cluster {
    let kinds = ["a100", "v100"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let nodes = contract::GPUS.iter().zip(0..).map(|(&(gpus, kind), n)| (format!("n{n}"), kind, gpus));
    Cluster::new(kinds.to_vec(), nodes).expect("a cluster")
}

/// The nodes of the contract, the one that joins, and one of a third kind that the engine is never told of.
const NODES: [&str; 6] = ["n0:a100:4", "n1:a100:2", "n2:v100:2", "n3:v100:2", "contract-joined:a100:2", "other:p100:2"];

struct Bed<'s> {
    slurm: &'s RealSlurm,
    began: Instant,
}

impl Testbed for Bed<'_> {
    fn engine(&mut self) -> Box<dyn Engine> {
        // Jobs of an earlier case have the same numbers, and another journal.
        let mut engine = self.slurm.engine(cluster());
        engine.lead(&Mandate { journal: format!("case{:?}", self.began), ..Mandate::default() }).expect("it obeys");
        Box::new(engine)
    }

    fn job(&self, id: u64, gang: u32, seconds: f64) -> LiveJob {
        let steps = (seconds / UNIT_SECONDS).round();
        let command = vec![steps.to_string(), UNIT_SECONDS.to_string()];
        let script = Some(Script { name: "train.sh".into(), text: TRAINING.into() });
        let program = Program { command, script, ..Program::default() };
        let spec = JobSpec {
            id: JobId(id),
            gang,
            work: Work::Steps(steps),
            restart_seconds: 3.0 * UNIT_SECONDS,
            program: Some(Arc::new(program)),
            ..JobSpec::default()
        };
        LiveJob { spec, steps_done: 0.0 }
    }

    fn cluster(&self) -> Cluster {
        cluster()
    }

    fn program(&self, id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob {
        let mut job = self.job(id, gang, seconds);
        let mut program = (**job.spec.program.as_ref().expect("it is one")).clone();
        program.command.push(exit_code.to_string());
        job.spec.program = Some(Arc::new(program));
        job
    }

    fn now(&self) -> Time {
        Time::from_seconds(1.0 + self.began.elapsed().as_secs_f64())
    }

    fn wait(&mut self, seconds: f64) {
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }

    fn unit_seconds(&self) -> f64 {
        UNIT_SECONDS
    }

    /// A GPU is one job's in Slurm unless its operator set up shards.
    fn shares_gpus(&self) -> bool {
        false
    }

    fn exact(&self) -> bool {
        false
    }
}

#[test]
fn the_contract_is_kept_with_a_real_slurm() {
    if !slurm_or_skip("the contract of engines against a real Slurm") {
        return;
    }
    let only = std::env::var("ARLES_CASE").ok();
    let chosen = |case: &&contract::Case| only.as_deref().is_none_or(|name| case.name == name);
    let cases: Vec<_> = contract::CASES.iter().filter(chosen).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLUSTERS {
            scope.spawn(|| {
                let slurm = RealSlurm::start(&NODES);
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = Instant::now();
                    case.run(&mut Bed { slurm: &slurm, began });
                    println!("{} took {:.1} s", case.name, began.elapsed().as_secs_f64());
                    slurm.cancel_everything();
                }
            });
        }
    });
}

fn led(slurm: &RealSlurm) -> Slurm {
    let mut engine = slurm.engine(cluster());
    engine.lead(&Mandate { journal: "native".into(), ..Mandate::default() }).expect("it obeys");
    engine
}

/// Polls until something is so.
fn until<T>(engine: &mut Slurm, what: &str, mut look: impl FnMut(&mut Slurm) -> Option<T>) -> T {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        if let Some(found) = look(engine) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it never came to this: {what}")
}

fn now() -> Time {
    Time::from_seconds(100.0)
}

/// What is reported of a job's gang.
fn told(engine: &mut Slurm, job: u64) -> GangEvent {
    until(engine, "a report", |engine| {
        let news = engine.poll(now()).expect("it answers");
        news.into_iter().find(|report| report.job == JobId(job)).map(|report| report.event)
    })
}

fn taken(arrival: &Arrival, id: u64) -> LiveJob {
    let program = Program { external: Some(arrival.external()), ..Program::default() };
    let spec = JobSpec { id: JobId(id), gang: arrival.gang, program: Some(Arc::new(program)), ..JobSpec::default() };
    LiveJob { spec, steps_done: 0.0 }
}

fn sbatch(slurm: &RealSlurm, words: &[&str]) -> String {
    let fixed = ["sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 300"];
    slurm.text(&[&fixed[..], words].concat())
}

fn field(slurm: &RealSlurm, job: &str, name: &str) -> String {
    let text = slurm.text(&["scontrol", "show", "job", job]);
    let found = text.split_whitespace().find_map(|word| word.strip_prefix(&format!("{name}=")));
    found.unwrap_or_default().to_owned()
}

#[test]
fn marked_jobs_are_offered_and_others_are_never_touched() {
    if !slurm_or_skip("jobs of sbatch that arles is offered") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let foreign = sbatch(&slurm, &["--gres=gpu:2", "-w", "n2"]);
    let held_by_its_user = sbatch(&slurm, &["--hold", "--gres=gpu:1"]);
    let wishes = ["--comment", "arles workload=lm-b20 steps=5"];
    let marked = sbatch(&slurm, &[&["--hold", "--gres=gpu:a100:2", "-A", "vision"], &wishes[..]].concat());
    let typed = sbatch(&slurm, &["--hold", "--gres=gpu:v100:1", "--comment", "arles"]);

    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let arrivals = engine.intake().seen().arrivals;
    let names: Vec<&str> = arrivals.iter().map(|arrival| arrival.slurm.as_str()).collect();
    assert_eq!(names, [marked.as_str(), &typed]);
    assert_eq!((arrivals[0].account.as_str(), arrivals[0].gang, arrivals[0].wishes.steps), ("vision", 2, Some(5.0)));
    assert_eq!(arrivals[1].kind.as_deref(), Some("v100"));

    let others = until(&mut engine, "the other job's GPUs are taken", |engine| {
        let seen = engine.survey(now(), now()).expect("it answers").survey;
        seen.gangs.into_iter().next()
    });
    assert_eq!(others.gpus, [GpuId(7), GpuId(6)]);
    let reply = engine.apply(now(), &stop(others.job.0, 0)).expect("it answers");
    assert_eq!(reply, OrderReply::Pending, "it is not ours to stop");

    // The way back: everything that is marked goes on without arles.
    engine.add_job(now(), &taken(&arrivals[1], 2)).expect("it answers");
    let done = tools::release_all(Some(slurm.conf()), false).expect("it answers");
    assert_eq!((done.waiting, done.failed), (vec![marked, typed.clone()], vec![]));
    until(&mut engine, "it is let go", |engine| {
        engine.poll(now()).expect("it answers");
        engine.intake().seen().over.contains_key(&JobId(2)).then_some(())
    });
    engine.remove_job(now(), JobId(2)).expect("it answers");
    until(&mut engine, "Slurm starts it", |_| (field(&slurm, &typed, "JobState") == "RUNNING").then_some(()));
    assert_eq!(field(&slurm, &foreign, "JobState"), "RUNNING");
    assert_eq!(field(&slurm, &held_by_its_user, "Reason"), "JobHeldUser");
}

#[test]
fn jobs_of_sbatch_are_pinned_adopted_preempted_and_moved() {
    if !slurm_or_skip("jobs of sbatch under arles") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let marked = sbatch(&slurm, &["--hold", "--gres=gpu:2", "--comment", "arles"]);
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let job = taken(&engine.intake().seen().arrivals[0], 1);
    engine.add_job(now(), &job).expect("it answers");
    assert_eq!(engine.apply(now(), &start(1, 5, &[0, 1], 60.0)).expect("it answers"), OrderReply::Pending);
    assert_eq!(told(&mut engine, 1), GangEvent::Started);
    let place = |slurm: &RealSlurm| (field(slurm, &marked, "JobState"), field(slurm, &marked, "NodeList"));
    assert_eq!(place(&slurm), ("RUNNING".into(), "n0".into()));

    // It is killed, and the next one goes on.
    drop(engine);
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[job]).expect("it answers");
    assert_eq!(engine.intake().seen().arrivals, []);
    let seen = engine.survey(now(), now()).expect("it answers").survey;
    let gang = seen.gangs.iter().find(|gang| gang.job == JobId(1)).expect("it is adopted");
    assert_eq!((gang.fence.0, gang.gpus.clone(), &gang.state), (5, vec![GpuId(0), GpuId(1)], &GangState::Running));
    assert_eq!(engine.apply(now(), &stop(1, 5)).expect("it answers"), OrderReply::Pending);
    assert!(matches!(told(&mut engine, 1), GangEvent::Stopped(_)));
    until(&mut engine, "its mark says that it waits", |engine| {
        engine.poll(now()).expect("it answers");
        let text = slurm.text(&["scontrol", "show", "job", &marked]);
        (text.contains("AdminComment=arles job=1 of=native") && !text.contains("fence=")).then_some(())
    });

    // A move to another node; then its user cancels it.
    engine.apply(now(), &start(1, 6, &[4, 5], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);
    assert_eq!(place(&slurm), ("RUNNING".into(), "n1".into()));
    slurm.text(&["scancel", &marked]);
    until(&mut engine, "its end is noticed", |engine| {
        engine.poll(now()).expect("it answers");
        engine.intake().seen().over.contains_key(&JobId(1)).then_some(())
    });
}

/// Of ten marked jobs a part is taken, and the rest goes on without arles.
#[test]
fn what_a_canary_does_not_take_is_given_back() {
    if !slurm_or_skip("a canary by percentage") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    for _ in 0..10 {
        sbatch(&slurm, &["--hold", "--gres=gpu:1", "--comment", "arles"]);
    }
    let canary = Canary { percent: 50.0, ..Canary::default() };
    let mut engine =
        Slurm::new(cluster(), SlurmOptions { canary, ..slurm.options() }, Box::new(Nominal)).expect("ours");
    engine.sync_jobs(now(), &[]).expect("it answers");
    let offered = engine.intake().seen().arrivals.len();
    assert!((1..10).contains(&offered), "{offered}");
    let held = slurm.text(&["squeue", "-h", "-t", "PD", "-o", "%r"]);
    assert_eq!(held.lines().filter(|reason| *reason == "JobHeldUser").count(), offered);
}
