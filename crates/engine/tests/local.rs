//! The local engine: the contract with real processes in real time, and what is its own.

#[path = "support/machine.rs"]
mod machine;

use arles_core::engine::{Engine, JobMeter, LiveJob, OrderReply};
use arles_core::scheduler::{GangEvent, GangState, Order};
use arles_core::{Cluster, KindId, Library, Program, Time, Work};
use arles_engine::contract::{self, Testbed, start, stop};
use arles_engine::{Local, LocalOptions, Nominal, PowerLimiter, Recorded};
use machine::{cluster, folder, job_of, open, options, shell, told};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A step a unit, by the clock, so that a busy machine does not make it slower: counts on from where it was, and writes down how far it is.
const TRAINING: &str = r#"#!/bin/sh
total=$1 unit=$2 before=$ARLES_STEPS_DONE done=$ARLES_STEPS_DONE
now() { date +%s%N; }
say() { echo "$done" >"$ARLES_STEPS_FILE.new" && mv "$ARLES_STEPS_FILE.new" "$ARLES_STEPS_FILE"; }
unit_ns=$(echo "$unit" | awk '{printf "%d", 1e9 * $1}')
[ "$before" = 0 ] || sleep "$(echo "$unit" | awk '{print 3 * $1}')"
began=$(now)
while [ "$done" -lt "$total" ]; do
  sleep "$unit"
  done=$((before + ($(now) - began) / unit_ns))
  [ "$done" -le "$total" ] || done=$total
  say
done
exit "${3:-0}"
"#;

/// Processes of this machine, with units of 40 ms.
struct RealTime {
    began: Instant,
    folders: Vec<PathBuf>,
}

impl RealTime {
    fn new() -> Self {
        Self { began: Instant::now(), folders: Vec::new() }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        for folder in &self.folders {
            let mut left = open(folder);
            let _ = left.sync_jobs(Time::ZERO, &[]);
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Testbed for RealTime {
    fn engine(&mut self) -> Box<dyn Engine> {
        let folder = folder();
        self.folders.push(folder.clone());
        Box::new(open(&folder))
    }

    fn job(&self, id: u64, gang: u32, seconds: f64) -> LiveJob {
        let steps = (seconds / self.unit_seconds()).round();
        let command = vec![steps.to_string(), self.unit_seconds().to_string()];
        let program = Program { command, ..shell(TRAINING) };
        let mut job = job_of(id, gang, program);
        job.spec.work = Work::Steps(steps);
        job.spec.restart_seconds = 3.0 * self.unit_seconds();
        job
    }

    fn cluster(&self) -> Cluster {
        cluster()
    }

    fn program(&self, id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob {
        contract::ending_with(self.job(id, gang, seconds), exit_code)
    }

    fn now(&self) -> Time {
        Time::from_seconds(1.0 + self.began.elapsed().as_secs_f64())
    }

    fn wait(&mut self, seconds: f64) {
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }

    fn unit_seconds(&self) -> f64 {
        0.04
    }

    fn exact(&self) -> bool {
        false
    }
}

#[test]
fn the_contract_is_kept_with_real_processes() {
    std::thread::scope(|scope| {
        for case in contract::CASES {
            scope.spawn(move || case.run(&mut RealTime::new()));
        }
    });
}

#[test]
fn exit_codes_and_output_are_kept() {
    let folder = folder();
    let mut engine = open(&folder);
    let now = Time::from_seconds(1.0);
    for (id, text) in
        [(1, "echo fine; exit 0"), (2, "echo bad >&2; exit 3"), (3, "kill -9 $$"), (4, "exec no-such-command")]
    {
        engine.add_job(now, &job_of(id, 1, shell(text))).expect("it answers");
        let reply = engine.apply(now, &start(id, id, &[id as u32], 60.0)).expect("it answers");
        assert!(matches!(reply, OrderReply::Reported(_)), "{reply:?}");
    }
    let ends = told(&mut engine, [1, 2, 3, 4]);
    assert_eq!((ends[0].event.clone(), ends[0].exit_code), (GangEvent::Finished, Some(0)));
    assert_eq!((ends[1].event.clone(), ends[1].exit_code), (GangEvent::Failed(0.0, "exit code 3".into()), Some(3)));
    assert_eq!(ends[2].event, GangEvent::Failed(0.0, "exit code 137: ended by signal 9".into()));
    assert_eq!(ends[3].event, GangEvent::Failed(0.0, "exit code 127: command not found".into()));
    let log = |id: u64| std::fs::read_to_string(folder.join(format!("logs/job-{id}.log"))).expect("it printed");
    assert_eq!((log(1).as_str(), log(2).as_str()), ("fine\n", "bad\n"));
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_program_sees_its_gpus_and_its_job() {
    let folder = folder();
    let mut engine = Local::open(
        cluster(),
        LocalOptions {
            devices: BTreeMap::from([(cluster().nodes()[0].name.clone(), vec!["GPU-aaa".into(), "GPU-bbb".into()])]),
            ..options(&folder)
        },
        Box::new(Nominal),
    )
    .expect("the folder can be used");
    let now = Time::from_seconds(1.0);
    let text = r#"echo "$CUDA_VISIBLE_DEVICES $ARLES_JOB $ARLES_GPUS $ARLES_KIND $GREETING $1""#;
    let environment = BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]);
    let program = Program { environment, command: vec!["first".into()], ..shell(text) };
    engine.add_job(now, &job_of(7, 2, program)).expect("it answers");
    engine.apply(now, &start(7, 1, &[1, 2], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, [7])[0].event, GangEvent::Finished);
    let log = std::fs::read_to_string(folder.join("logs/job-7.log")).expect("it printed");
    assert_eq!(log, "GPU-bbb,2 7 2 a100-40gb hello first\n");
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_program_is_told_its_part_of_the_processors() {
    if std::env::var_os("OMP_NUM_THREADS").is_some() {
        return println!("not checked: OMP_NUM_THREADS is set here, and programs keep that");
    }
    let folder = folder();
    let mut engine = open(&folder);
    let now = Time::from_seconds(1.0);
    let told_threads = || shell("echo $OMP_NUM_THREADS");
    let said = Program { environment: BTreeMap::from([("OMP_NUM_THREADS".into(), "5".into())]), ..told_threads() };
    let mut asked = job_of(2, 1, told_threads());
    asked.spec.needs.cpus_per_gpu = 1.5;
    for job in [job_of(1, 1, told_threads()), asked, job_of(3, 1, said)] {
        let id = job.spec.id.0;
        engine.add_job(now, &job).expect("it answers");
        engine.apply(now, &start(id, 1, &[0], 60.0)).expect("it answers");
        assert_eq!(told(&mut engine, [id])[0].event, GangEvent::Finished);
    }
    let log = |id: u64| std::fs::read_to_string(folder.join(format!("logs/job-{id}.log"))).expect("it printed");
    let part = arles_engine::threads_each(1, cluster().gpus(), 2);
    assert_eq!([log(1), log(2), log(3)], [format!("{part}\n"), "2\n".into(), "5\n".into()]);
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_program_may_run_in_any_folder() {
    let relative = PathBuf::from(format!("../../target/tmp/arles-local-{}", std::process::id()));
    let mut engine = open(&relative);
    let now = Time::from_seconds(1.0);
    let program = Program { directory: Some("/".into()), ..shell("pwd; exit 5") };
    engine.add_job(now, &job_of(1, 1, program)).expect("it answers");
    engine.apply(now, &start(1, 1, &[0], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, [1])[0].exit_code, Some(5));
    assert_eq!(std::fs::read_to_string(relative.join("logs/job-1.log")).expect("it printed"), "/\n");
    std::fs::remove_dir_all(relative).expect("ours");
}

/// Says which jobs there are to an engine that follows another. A program that some other test is just starting has a copy of the folder's lock until
/// it begins, so this is tried again for a while.
fn synced(engine: &mut Local, now: Time, jobs: &[LiveJob]) -> Vec<JobMeter> {
    let began = Instant::now();
    loop {
        match engine.sync_jobs(now, jobs) {
            Ok(meters) => return meters,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(30), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_killed_engine_left_running_is_adopted() {
    let folder = folder();
    let now = Time::from_seconds(1.0);
    let jobs =
        [job_of(1, 1, shell("sleep 4; exit 4")), job_of(2, 1, shell("sleep 60")), job_of(3, 1, shell("sleep 60"))];
    {
        let mut engine = open(&folder);
        for (job, id) in jobs.iter().zip(1..) {
            engine.add_job(now, job).expect("it answers");
            engine.apply(now, &start(id, id, &[id as u32], 60.0)).expect("it answers");
        }
        // It is gone without a word, as one that was killed.
    }
    let mut engine = open(&folder);
    let meters = synced(&mut engine, now, &jobs[..2]);
    assert!(meters.is_empty(), "job 3 was never known to this engine");
    let seen = engine.survey(now, now).expect("it answers").survey;
    let places: Vec<_> = seen.gangs.iter().map(|gang| (gang.job.0, gang.gpus[0].0, gang.state.clone())).collect();
    assert_eq!(places, [(1, 1, GangState::Running), (2, 2, GangState::Running)]);
    assert_eq!(told(&mut engine, [1])[0].exit_code, Some(4), "the code that nobody waited for");
    // A daemon that was killed before it heard of the start orders it again.
    let again = engine.apply(now, &start(1, 1, &[1], 60.0)).expect("it answers");
    assert!(matches!(&again, OrderReply::Reported(report) if report.exit_code == Some(4)), "{again:?}");
    assert!(matches!(engine.apply(now, &stop(2, 2)).expect("it answers"), OrderReply::Pending));
    assert_eq!(told(&mut engine, [2])[0].event, GangEvent::Stopped(0.0));
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn who_does_not_stop_is_killed_with_everything_it_started() {
    let folder = folder();
    let mut engine = Local::open(cluster(), LocalOptions { grace_seconds: 0.2, ..options(&folder) }, Box::new(Nominal))
        .expect("ours");
    let text = "trap '' TERM\n(trap '' TERM; sleep 77.123) &\nsleep 77.123";
    let now = Time::from_seconds(1.0);
    engine.add_job(now, &job_of(1, 1, shell(text))).expect("it answers");
    engine.apply(now, &start(1, 1, &[0], 60.0)).expect("it answers");
    std::thread::sleep(Duration::from_millis(200));
    assert!(matches!(engine.apply(now, &stop(1, 1)).expect("it answers"), OrderReply::Pending));
    assert!(matches!(told(&mut engine, [1])[0].event, GangEvent::Stopped(_)));
    let left = std::process::Command::new("pgrep").args(["-f", "sleep 77.123"]).output().expect("pgrep is there");
    assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
    std::fs::remove_dir_all(folder).expect("ours");
}

/// What an H200 said while nothing ran on it, then large products of matrices, then nothing again: a reading a second, as
/// `arles agent --record` wrote it down.
#[test]
fn all_that_a_card_counted_is_charged_to_somebody() {
    let session = include_str!("recorded/h200.jsonl");
    let counts: Vec<f64> = session
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a reading"))
        .map(|line| line["said"]["Ok"]["joules"].as_f64().expect("this card counts"))
        .collect();
    let counted = counts[counts.len() - 1] - counts[0];
    let folder = folder();
    let kind = arles_core::Library::builtin().kind("h200").expect("in the library").clone();
    let cluster = arles_core::Cluster::uniform(vec![kind], &[1], 8).expect("a cluster");
    let devices = BTreeMap::from([(cluster.nodes()[0].name.clone(), vec!["GPU-0".to_owned()])]);
    let meter = Recorded::read_lines(session).expect("a session");
    let mut engine = Local::open(cluster, LocalOptions { devices, ..options(&folder) }, Box::new(meter))
        .expect("the folder can be used");
    assert!(engine.measures());
    let at = |second: usize| Time::from_seconds(second as f64);
    engine.add_job(at(0), &job_of(1, 1, shell("sleep 100"))).expect("it answers");
    engine.apply(at(1), &start(1, 1, &[0], 60.0)).expect("it answers");
    (2..counts.len()).for_each(|second| drop(engine.poll(at(second)).expect("it answers")));
    let report = engine.survey(at(counts.len()), at(counts.len())).expect("it answers");
    let kind = &report.meters.kinds[0];
    let used = kind.used.idle_joules + kind.used.active_joules;
    let charged = report.meters.jobs[0].charge.total();
    assert!(
        (used + kind.unused_joules - counted).abs() < 1e-6 * counted,
        "{used} + {} of {counted}",
        kind.unused_joules
    );
    assert!((charged - used).abs() < 1e-6 * counted, "{charged} J are the job's, {used} J were used");
    assert!(charged > 3000.0, "it computed: {charged} J");
    engine.sync_jobs(at(counts.len() + 1), &[]).expect("it ends what it started");
    std::fs::remove_dir_all(folder).expect("ours");
}

/// Remembers what limits it was told, in place of a card; refuses the second GPU.
#[derive(Clone, Default)]
struct Limits(Arc<Mutex<BTreeMap<String, f64>>>);

impl PowerLimiter for Limits {
    fn limit(&mut self, device: &str, watts: Option<f64>) -> Result<(), String> {
        let mut limits = self.0.lock().expect("nobody panics");
        match watts {
            Some(_) if device == "1" => return Err("this card takes no limit".into()),
            Some(watts) => limits.insert(device.to_owned(), watts),
            None => limits.remove(device),
        };
        Ok(())
    }
}

impl Limits {
    fn of(&self, device: &str) -> Option<f64> {
        self.0.lock().expect("nobody panics").get(device).copied()
    }
}

const A100_250W: KindId = KindId(2);
const A100_200W: KindId = KindId(3);

fn limited_cluster() -> Cluster {
    let modes = ["a100@250W", "a100@200W"].map(|mode| Library::builtin().any_kind(mode).expect("a limit"));
    cluster().with_modes(&modes).expect("it has a100s")
}

fn start_as(mode: KindId, job: u64, gpu: u32) -> Order {
    match start(job, job, &[gpu], 60.0) {
        Order::Start(start) => Order::Start(arles_core::scheduler::Start { kind: mode, ..start }),
        stop @ Order::Stop { .. } => stop,
    }
}

/// Looks until a gang was measured, in the mode that it then was in.
fn observed(engine: &mut Local, from: f64, job: u64) -> KindId {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        let now = Time::from_seconds(from + began.elapsed().as_secs_f64());
        let seen = engine.survey(now, now).expect("it answers").observations;
        if let Some(seen) = seen.iter().find(|seen| seen.job == Some(arles_core::JobId(job))) {
            return seen.kind;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("job {job} was never measured");
}

#[test]
fn a_gang_runs_under_the_limit_of_its_mode_and_goes_on_under_another() {
    let (folder, limits) = (folder(), Limits::default());
    let counting = "i=0; while :; do i=$((i+1)); echo $i >\"$ARLES_STEPS_FILE\"; sleep 0.05; done";
    let job = job_of(1, 1, shell(counting));
    let now = Time::from_seconds(1.0);
    let open = || {
        let engine = Local::open(limited_cluster(), options(&folder), Box::new(Nominal)).expect("ours");
        engine.with_limiter(Box::new(limits.clone()))
    };
    let mut engine = open();
    engine.add_job(now, &job).expect("it answers");
    engine.apply(now, &start_as(A100_250W, 1, 0)).expect("it answers");
    assert_eq!(limits.of("0"), Some(250.0));
    assert_eq!(observed(&mut engine, 1.0, 1), A100_250W);
    let places = engine.survey(now, now).expect("it answers").survey.gangs;

    let told_again = engine.apply(now, &start_as(A100_200W, 1, 0)).expect("it answers");
    assert!(
        matches!(&told_again, OrderReply::Reported(report) if report.event == GangEvent::Started),
        "{told_again:?}"
    );
    assert_eq!(limits.of("0"), Some(200.0));
    let after = engine.survey(now, now).expect("it answers").survey.gangs;
    assert_eq!((places.len(), after.len(), after[0].fence), (1, 1, places[0].fence), "the same gang");

    // Killed, with the limit put back: who adopts the gang puts its GPU under it again.
    drop(engine);
    limits.0.lock().expect("nobody panics").clear();
    let mut engine = open();
    synced(&mut engine, now, std::slice::from_ref(&job));
    assert_eq!(limits.of("0"), Some(200.0));
    assert_eq!(observed(&mut engine, 100.0, 1), A100_200W);

    engine.apply(now, &stop(1, 1)).expect("it answers");
    told(&mut engine, [1]);
    engine.poll(Time::from_seconds(900.0)).expect("it answers");
    assert_eq!(limits.of("0"), None, "a card that nobody holds is as sold");
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn what_is_measured_on_a_card_that_takes_no_limit_counts_as_measured_without_one() {
    let (folder, limits) = (folder(), Limits::default());
    let counting = "i=0; while :; do i=$((i+1)); echo $i >\"$ARLES_STEPS_FILE\"; sleep 0.05; done";
    let now = Time::from_seconds(1.0);
    let mut engine = Local::open(limited_cluster(), options(&folder), Box::new(Nominal))
        .expect("ours")
        .with_limiter(Box::new(limits.clone()));
    engine.add_job(now, &job_of(1, 1, shell(counting))).expect("it answers");
    let told = engine.apply(now, &start_as(A100_250W, 1, 1)).expect("it answers");
    assert!(matches!(&told, OrderReply::Reported(report) if report.event == GangEvent::Started), "{told:?}");
    assert_eq!(limits.of("1"), None);
    assert_eq!(observed(&mut engine, 1.0, 1), KindId(0));
    engine.remove_job(Time::from_seconds(900.0), arles_core::JobId(1)).expect("it answers");
    std::fs::remove_dir_all(folder).expect("ours");
}
