//! The Slurm engine against a real Slurm: slurmctld and six slurmd of three kinds, from `e2e/slurm/cluster`.

#[path = "slurm/controller_restart.rs"]
mod controller_restart;
#[path = "support/slurm.rs"]
mod support;
#[path = "slurm/taken_back.rs"]
mod taken_back;
#[path = "slurm/words.rs"]
mod words;

use arles_core::engine::{Engine, LiveJob, Mandate, OrderReply};
use arles_core::scheduler::{GangEvent, GangState};
use arles_core::{Cluster, GpuId, JobId, JobSpec, Library, Program, Script, Time, Work};
use arles_engine::contract::{self, Testbed, start, stop};
use arles_engine::intake::Arrival;
use arles_engine::slurm::{Canary, Watch, share_weights, tools};
use arles_engine::{Nominal, Slurm, SlurmOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{RealSlurm, database_or_skip, slurm_or_skip};

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
/// Clusters that cases are run on at once: they mostly sleep. One of them has its GPUs cut into shards.
const CLUSTERS: usize = 4;
/// Shards of a GPU where there are any.
const SHARDS: (&str, &str) = ("ARLES_SLURM_SHARDS", "4");
/// Cases in which two jobs are put on one GPU.
const SHARING: [&str; 2] = ["energy_adds_up_and_counters_only_grow", "two_jobs_share_a_gpu_and_no_third_does"];

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
    shards: bool,
}

impl Testbed for Bed<'_> {
    fn has_another_queue(&self) -> bool {
        true
    }

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
        contract::ending_with(self.job(id, gang, seconds), exit_code)
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
        self.shards
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
    let (sharing, mut others): (Vec<_>, Vec<_>) =
        contract::CASES.iter().filter(chosen).partition(|case| SHARING.contains(&case.name));
    // The longest one first: whoever has it last keeps everybody waiting.
    others.sort_by_key(|case| case.name != "time_never_goes_back");
    let (next_sharing, next_other) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let run = |cases: &[&contract::Case], next: &AtomicUsize, shards: bool| {
        let slurm = RealSlurm::start_with(&NODES, if shards { &[SHARDS] } else { &[] });
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            case.run(&mut Bed { slurm: &slurm, began, shards });
            println!("{} took {:.1} s", case.name, began.elapsed().as_secs_f64());
            slurm.cancel_everything();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(&sharing, &next_sharing, true));
        for _ in 1..CLUSTERS {
            scope.spawn(|| run(&others, &next_other, false));
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
    let program = Program { external: Some(arrival.external.clone()), ..Program::default() };
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
    let names: Vec<&str> = arrivals.iter().map(|arrival| arrival.shown.as_str()).collect();
    assert_eq!(names, [marked.as_str(), &typed]);
    assert_eq!((arrivals[0].tenant.as_str(), arrivals[0].gang, arrivals[0].wishes.steps), ("vision", 2, Some(5.0)));
    assert_eq!(arrivals[1].kinds, ["v100"]);

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

/// A leader whose place was taken finds that out from Slurm's own records, whatever else it can see.
#[test]
fn a_later_term_displaces_an_earlier_one_for_good() {
    if !slurm_or_skip("two leaders of one Slurm") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let marked = sbatch(&slurm, &["--hold", "--gres=gpu:2", "--comment", "arles"]);
    let leader = |term| {
        let mut engine = slurm.engine(cluster());
        engine.lead(&Mandate { journal: "two".into(), term, ..Mandate::default() }).expect("it obeys");
        engine
    };
    let mut first = leader(1);
    first.sync_jobs(now(), &[]).expect("it answers");
    let job = taken(&first.intake().seen().arrivals[0], 1);
    first.add_job(now(), &job).expect("it answers");
    first.apply(now(), &start(1, 5, &[0, 1], 60.0)).expect("it answers");
    assert_eq!(told(&mut first, 1), GangEvent::Started);

    let mut second = leader(2);
    second.sync_jobs(now(), std::slice::from_ref(&job)).expect("it answers");
    let seen = second.survey(now(), now()).expect("it answers").survey;
    assert!(seen.gangs.iter().any(|gang| gang.job == JobId(1) && gang.fence.0 == 5), "it is adopted: {seen:?}");
    let error = first.survey(now(), now()).expect_err("it was displaced").to_string();
    assert!(first.deposed() && error.contains("term 2 leads"), "{error}");
    assert!(first.apply(now(), &stop(1, 5)).is_err() && first.poll(now()).is_err());
    assert_eq!(field(&slurm, &marked, "JobState"), "RUNNING", "what it orders is not done");
    assert!(!second.deposed());
    assert_eq!(second.apply(now(), &stop(1, 5)).expect("it answers"), OrderReply::Pending);
    assert!(matches!(told(&mut second, 1), GangEvent::Stopped(_)));
}

/// Features, nodes that are named, and reservations.
#[test]
fn what_jobs_ask_of_nodes_means_what_slurm_says() {
    if !slurm_or_skip("constraints and reservations") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let offer = |words: &[&str]| sbatch(&slurm, &[&["--hold", "--gres=gpu:1", "--comment", "arles"], words].concat());
    let reserve =
        "scontrol create reservation reservationname=soon starttime=now+1hour duration=10 users=root nodes=n3";
    slurm.text(&reserve.split(' ').collect::<Vec<_>>());
    let featured = offer(&["--constraint=v100|p100"]);
    let none_has_it = offer(&["--exclude=n0,n1,n2,n3,contract-joined,other"]);
    let named = offer(&["-w", "n1"]);
    let reserved = offer(&["--reservation=soon"]);
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let arrivals = engine.intake().seen().arrivals;
    assert_eq!(arrivals.iter().map(|job| job.shown.clone()).collect::<Vec<_>>(), [featured.clone(), none_has_it]);
    assert_eq!(arrivals[0].kinds, ["p100", "v100"]);
    assert!(arrivals[1].wishes.wrong[0].contains("no node with GPUs suits it"), "{:?}", arrivals[1].wishes);
    until(&mut engine, "what is not arles' to place is Slurm's", |_| {
        let reason = field(&slurm, &reserved, "Reason");
        (field(&slurm, &named, "JobState") == "RUNNING" && !reason.contains("Held")).then_some(())
    });
    assert_eq!(field(&slurm, &named, "NodeList"), "n1");

    // A node that lacks what it asks for is no place for it.
    engine.survey(now(), now()).expect("it answers");
    engine.add_job(now(), &taken(&arrivals[0], 1)).expect("it answers");
    engine.apply(now(), &start(1, 5, &[0], 60.0)).expect("it answers");
    assert!(matches!(told(&mut engine, 1), GangEvent::Stopped(_)));
    engine.apply(now(), &start(1, 6, &[6], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);
    assert_eq!(field(&slurm, &featured, "NodeList"), "n2");
}

/// Everything that Slurm says of its jobs, without what the clock changes.
fn everything(slurm: &RealSlurm) -> String {
    let text = slurm.text(&["scontrol", "-o", "show", "job"]);
    let still = |word: &&str| !["RunTime=", "LastSchedEval=", "Scheduler="].iter().any(|name| word.starts_with(name));
    text.split_whitespace().filter(still).collect::<Vec<_>>().join(" ")
}

/// Requests that change something, by the controller's own count.
fn changes(slurm: &RealSlurm) -> Vec<String> {
    let words =
        ["UPDATE", "REQUEUE", "CANCEL", "KILL", "SUSPEND", "SUBMIT", "SIGNAL", "RECONFIGURE", "CREATE", "DELETE"];
    let text = slurm.text(&["sdiag"]);
    let counted = text.lines().filter(|line| line.contains("REQUEST_") && line.contains("count:"));
    let changing = counted.filter(|line| words.iter().any(|word| line.contains(word)));
    changing.map(|line| line.split("ave_time").next().unwrap_or(line).trim().to_owned()).collect()
}

#[test]
fn a_watch_sees_every_job_and_touches_none() {
    if !slurm_or_skip("watching a Slurm") {
        return;
    }
    let slurm = RealSlurm::start(&NODES);
    let plain = sbatch(&slurm, &["--gres=gpu:2", "-w", "n2"]);
    let held = sbatch(&slurm, &["--hold", "--gres=gpu:1"]);
    let marked = sbatch(&slurm, &["--hold", "--gres=gpu:a100:1", "-A", "vision", "--comment", "arles steps=5"]);
    let short =
        slurm.text(&["sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:1", "-w", "n0", "--wrap", "sleep 2"]);
    let without = slurm.text(&["sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 300"]);
    let mut watch = Watch::new(&slurm.options()).expect("an address");
    let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let began = Instant::now();
    let is_over = |watch: &Watch| watch.jobs().iter().any(|job| job.slurm == short && job.over);
    while !is_over(&watch) || field(&slurm, &plain, "JobState") != "RUNNING" {
        assert!(began.elapsed() < Duration::from_secs(60), "it never ends");
        watch.look(clock()).expect("it answers");
        std::thread::sleep(Duration::from_millis(200));
    }
    let (before, changed) = (everything(&slurm), changes(&slurm));
    for _ in 0..10 {
        watch.look(clock()).expect("it answers");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!((everything(&slurm), changes(&slurm)), (before, changed));
    assert_eq!(watch.calls().commands, 0);
    let jobs = watch.jobs();
    let names: Vec<&str> = jobs.iter().map(|job| job.slurm.as_str()).collect();
    assert_eq!(names, [&plain, &held, &marked, &short], "and not {without}, which has no GPUs");
    assert_eq!((jobs[0].runs[0].nodes.clone(), jobs[0].runs[0].ended), (vec!["n2".to_owned()], None));
    let [run] = jobs[3].runs.as_slice() else { panic!("it ran once: {:?}", jobs[3]) };
    assert!((2..20).contains(&(run.ended.expect("it is over") - run.started)), "{run:?}");
    assert!(jobs[1].runs.is_empty() && jobs[2].account == "vision");
}

/// A tree of accounts in a real slurmdbd, on a MariaDB of its own.
#[test]
fn weights_of_accounts_come_from_slurms_database() {
    if !database_or_skip("fair shares in Slurm's database") {
        return;
    }
    let slurm = RealSlurm::start_with(&["n0:a100:2"], &[("ARLES_SLURM_DATABASE", "1")]);
    let weights = || share_weights(Some(slurm.conf())).expect("it answers");
    assert!(weights().is_empty(), "nobody has an account yet");
    for words in
        ["science fairshare=3", "control fairshare=1", "vision parent=science fairshare=2", "language parent=science"]
    {
        let words: Vec<&str> = ["sacctmgr", "-i", "add", "account"].into_iter().chain(words.split(' ')).collect();
        slurm.text(&words);
    }
    slurm.text(&["sacctmgr", "-i", "add", "user", "root", "account=vision"]);
    let expected = [("control", 0.75), ("language", 0.75), ("science", 2.25), ("vision", 1.5)];
    let named =
        |expected: &[(&str, f64)]| expected.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
    assert_eq!(weights(), named(&expected));
    slurm.text(&["sacctmgr", "-i", "modify", "account", "vision", "set", "fairshare=1"]);
    let expected = [("control", 0.75), ("language", 1.125), ("science", 2.25), ("vision", 1.125)];
    assert_eq!(weights(), named(&expected), "an operator changed a share");

    // The account is the tenant.
    sbatch(&slurm, &["--hold", "--gres=gpu:1", "-A", "vision", "--comment", "arles"]);
    let nodes = [("n0".to_owned(), arles_core::KindId(0), 2)];
    let kinds = vec![Library::builtin().kind("a100").expect("in the library").clone()];
    let mut engine = slurm.engine(Cluster::new(kinds, nodes).expect("a cluster"));
    engine.lead(&Mandate { journal: "shares".into(), ..Mandate::default() }).expect("it obeys");
    engine.sync_jobs(now(), &[]).expect("it answers");
    assert_eq!(engine.intake().seen().arrivals[0].tenant, "vision");
}

/// Shards that jobs have, by device of a node.
fn shards_of(slurm: &RealSlurm, job: &str) -> Option<(u32, u32)> {
    let text = slurm.text(&["scontrol", "show", "job", "-d", job]);
    let running = text.contains("JobState=RUNNING");
    let (shards, rest) = text.split("GRES=shard:").last().filter(|_| running)?.split_once("(IDX:")?;
    Some((rest.split(')').next()?.parse().ok()?, shards.parse().ok()?))
}

/// Two on one GPU, one with a GPU of its own, and one whose partner has left: nobody gets more than there is, and nobody another's place.
#[test]
fn jobs_of_sbatch_share_gpus_through_shards() {
    if !slurm_or_skip("two jobs on one GPU of a real Slurm") {
        return;
    }
    let slurm = RealSlurm::start_with(&NODES, &[SHARDS]);
    let foreign = [0, 1].map(|_| sbatch(&slurm, &["--gres=shard:1", "-w", "n1"]));
    let names: Vec<String> =
        (0..5).map(|_| sbatch(&slurm, &["--hold", "--gres=shard:1", "--comment", "arles"])).collect();
    let whole = sbatch(&slurm, &["--hold", "--gres=gpu:1", "--comment", "arles"]);
    let mut engine = led(&slurm);
    engine.sync_jobs(now(), &[]).expect("it answers");
    let arrivals = engine.intake().seen().arrivals;
    assert_eq!(arrivals.iter().map(|job| job.gang).collect::<Vec<_>>(), [1; 6]);
    assert!(arrivals[..5].iter().all(|job| job.wishes.wrong.is_empty()));
    assert_eq!(arrivals[5].kinds, ["p100"], "a kind that arles does not share, for job {whole}");
    for (arrival, id) in arrivals[..5].iter().zip(1..) {
        engine.add_job(now(), &taken(arrival, id)).expect("it answers");
    }
    let places = |engine: &mut Slurm, what: &str, expected: &[(usize, u32)]| {
        until(engine, what, |engine| {
            engine.poll(now()).expect("it answers");
            let found: Vec<_> = expected.iter().map(|(at, _)| shards_of(&slurm, &names[*at])).collect();
            let found: Vec<(u32, u32)> = found.into_iter().collect::<Option<_>>()?;
            expected.iter().zip(&found).all(|((_, shards), seen)| *shards == seen.1).then_some(found)
        })
    };
    // Alone it has all shards of a device; then another joins it, and both have half.
    engine.apply(now(), &start(1, 1, &[0], 60.0)).expect("it answers");
    places(&mut engine, "it has a GPU", &[(0, 4)]);
    engine.apply(now(), &start(2, 2, &[0], 60.0)).expect("it answers");
    engine.apply(now(), &start(3, 3, &[1], 60.0)).expect("it answers");
    let found = places(&mut engine, "two share, and one is alone", &[(0, 2), (1, 2), (2, 4)]);
    assert_eq!(found[0].0, found[1].0);
    assert_ne!(found[0].0, found[2].0);
    let seen = engine.survey(now(), now()).expect("it answers").survey;
    let on = |gpu: u32| seen.gangs.iter().filter(|gang| gang.gpus.contains(&GpuId(gpu))).count();
    assert_eq!((on(0), on(1), on(2), on(4) + on(5)), (2, 1, 0, 1), "two strangers on one GPU take one: {seen:?}");

    // One leaves, and two others are put together on the same node: they must not land beside the one that is left.
    engine.apply(now(), &stop(2, 2)).expect("it answers");
    assert!(matches!(
        until(&mut engine, "it stops", |engine| {
            let news = engine.poll(now()).expect("it answers");
            news.into_iter().find(|report| report.job == JobId(2) && report.event != GangEvent::Started)
        })
        .event,
        GangEvent::Stopped(_)
    ));
    engine.apply(now(), &start(4, 4, &[2], 60.0)).expect("it answers");
    engine.apply(now(), &start(5, 5, &[2], 60.0)).expect("it answers");
    let found = places(&mut engine, "two more share", &[(0, 4), (2, 4), (3, 2), (4, 2)]);
    assert_eq!(found[2].0, found[3].0);
    assert_eq!(found.iter().map(|place| place.0).collect::<std::collections::BTreeSet<_>>().len(), 3);
    assert_eq!(field(&slurm, &names[2], "Restarts"), "0", "it was never in anybody's way");
    assert_eq!((field(&slurm, &names[3], "Restarts"), field(&slurm, &names[4], "Restarts")), ("0".into(), "0".into()));
    assert!(foreign.iter().all(|job| field(&slurm, job, "JobState") == "RUNNING"));
}
