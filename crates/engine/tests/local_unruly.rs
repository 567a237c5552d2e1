//! Programs that do not behave, on a machine that does not either: the local engine with real processes.

#[path = "support/machine.rs"]
mod machine;

use arles_core::engine::{Engine, OrderReply, OutputStream};
use arles_core::scheduler::GangEvent;
use arles_core::{GpuId, JobId, Time};
use arles_engine::contract::{start, stop};
use arles_engine::{Local, LocalOptions, Nominal, OutputLimits, Recorded};
use machine::{cluster, folder, job_of, open, options, shell, told};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const NOW: Time = Time(1_000_000);

/// Whether any process was started with these words.
fn runs(words: &str) -> bool {
    let found = Command::new("pgrep").args(["-f", words]).output().expect("pgrep is there");
    !found.stdout.is_empty()
}

fn wait_until(what: &str, mut true_now: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if true_now() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to be that {what}");
}

fn begin(engine: &mut Local, id: u64, text: &str) {
    engine.add_job(NOW, &job_of(id, 1, shell(text))).expect("it answers");
    let reply = engine.apply(NOW, &start(id, id, &[id as u32 % 4], 60.0)).expect("it answers");
    assert!(matches!(reply, OrderReply::Reported(_)), "{reply:?}");
}

fn printed(engine: &Local, id: u64) -> String {
    let output = engine.output().expect("it keeps output");
    let chunk = output.read(JobId(id), OutputStream::Stdout, 0, usize::MAX).expect("it can be read");
    String::from_utf8(chunk.bytes).expect("text")
}

/// Forks twice, into a session of its own, with another name and none of our variables: nothing but its descent tells whose it is.
const FORKS_AWAY: &str = "setsid sh -c 'env -i sh -c \"trap \\\"\\\" TERM HUP; sleep WORD & wait; sleep WORD\" &' </dev/null >/dev/null 2>&1\n";

fn forks_away(word: &str) -> String {
    FORKS_AWAY.replace("WORD", word)
}

#[test]
fn who_forks_away_is_ended_with_its_job() {
    for control_groups in [false, true] {
        let folder = folder();
        let quick = LocalOptions { grace_seconds: 0.3, control_groups, ..options(&folder) };
        let mut engine = Local::open(cluster(), quick, Box::new(Nominal)).expect("ours");
        // One is told to stop; one ends, and leaves something behind.
        let [stays, leaves] = ["701.5", "702.5"].map(|word| format!("{word}{}", u8::from(control_groups)));
        begin(&mut engine, 1, &format!("{}sleep 600", forks_away(&stays)));
        begin(&mut engine, 2, &format!("{}sleep 0.5; exit 7", forks_away(&leaves)));
        wait_until("both have forked", || runs(&format!("sleep {stays}")) && runs(&format!("sleep {leaves}")));
        engine.apply(NOW, &stop(1, 1)).expect("it answers");
        let ends = told(&mut engine, [1, 2]);
        assert!(matches!(ends[0].event, GangEvent::Stopped(_)), "{:?}", ends[0]);
        assert_eq!(ends[1].exit_code, Some(7));
        assert!(!runs(&format!("sleep {stays}")), "it was told to stop, control groups: {control_groups}");
        assert!(!runs(&format!("sleep {leaves}")), "its job is over, control groups: {control_groups}");
        std::fs::remove_dir_all(folder).expect("ours");
    }
}

#[test]
fn a_shim_that_somebody_kills_leaves_nothing_running() {
    for control_groups in [false, true] {
        let folder = folder();
        let mut engine = Local::open(cluster(), LocalOptions { control_groups, ..options(&folder) }, Box::new(Nominal))
            .expect("ours");
        let word = format!("703.5{}", u8::from(control_groups));
        begin(&mut engine, 1, &format!("sleep {word} & sleep {word}"));
        wait_until("it runs", || runs(&format!("sleep {word}")));
        let record = std::fs::read_to_string(folder.join("gangs/1-1/record.json")).expect("a record");
        let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
        let shim = record["process"]["pid"].to_string();
        assert!(Command::new("kill").args(["-9", &shim]).status().expect("kill").success());
        let end = &told(&mut engine, [1])[0];
        assert_eq!(end.event, GangEvent::Failed(0.0, "it ended without leaving an exit code".into()));
        assert!(!runs(&format!("sleep {word}")));
        std::fs::remove_dir_all(folder).expect("ours");
    }
}

#[test]
fn who_fills_its_log_keeps_the_end_of_it() {
    let folder = folder();
    let limits = OutputLimits { file_bytes: 1 << 20, files: 3, all_bytes: 1 << 30 };
    let mut engine =
        Local::open(cluster(), LocalOptions { output: limits, ..options(&folder) }, Box::new(Nominal)).expect("ours");
    begin(&mut engine, 1, "seq 1 4000000; echo the end");
    assert_eq!(told(&mut engine, [1])[0].event, GangEvent::Finished);
    let files = || std::fs::read_dir(folder.join("logs")).expect("a folder").flatten();
    let bytes: u64 = files().map(|entry| entry.metadata().expect("a file").len()).sum();
    assert!(bytes < (3 << 20) + 4096, "{bytes} bytes are kept");
    let text = printed(&engine, 1);
    assert!(text.ends_with("3999999\n4000000\nthe end\n") && text.len() > 2 << 20, "{} bytes", text.len());
    let first: u64 = text.lines().next().and_then(|line| line.parse().ok()).expect("a whole line");
    assert!(text.lines().zip(first..).take(1000).all(|(line, number)| line == number.to_string()));
    let end = engine.output().expect("kept").read(JobId(1), OutputStream::Stdout, u64::MAX, 10).expect("readable").end;
    assert_eq!(end, 30_888_896 + 8, "bytes are counted although the first are gone");
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn output_goes_where_the_program_says_and_on_over_restarts() {
    let folder = folder();
    std::fs::create_dir_all(folder.join("work")).expect("ours");
    let mut engine = open(&folder);
    let mut program = shell("echo out $ARLES_STEPS_DONE; echo err >&2; exit 85");
    program.directory = Some(folder.join("work").to_string_lossy().into_owned());
    program.stdout = Some("run-%j.out".into());
    program.stderr = Some("run-%j.err".into());
    engine.add_job(NOW, &job_of(9, 1, program)).expect("it answers");
    for fence in [1, 2] {
        engine.apply(NOW, &start(9, fence, &[0], 60.0)).expect("it answers");
        assert_eq!(told(&mut engine, [9])[0].event, GangEvent::Stopped(0.0));
    }
    let text = |name: &str| std::fs::read_to_string(folder.join("work").join(name)).expect("it printed");
    assert_eq!((text("run-9.out").as_str(), text("run-9.err").as_str()), ("out 0\nout 0\n", "err\nerr\n"));
    let output = engine.output().expect("kept");
    let of = |stream| output.read(JobId(9), stream, 4, 4).expect("readable").bytes;
    assert_eq!((of(OutputStream::Stdout), of(OutputStream::Stderr)), (b"0\nou".to_vec(), b"err\n".to_vec()));
    assert_eq!(output.read(JobId(10), OutputStream::Stdout, 0, 10).expect("nothing yet").bytes, b"");
    std::fs::remove_dir_all(folder).expect("ours");
}

/// A small disk, gone with it.
struct SmallDisk<'p>(&'p Path);

impl<'p> SmallDisk<'p> {
    fn mount(at: &'p Path) -> Option<Self> {
        std::fs::create_dir_all(at).expect("ours");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "arles-test"]).arg(at).output();
        if !mounted.is_ok_and(|done| done.status.success()) {
            arles_testing::skip("a small disk takes the right to mount a tmpfs; run this test as root");
            return None;
        }
        Some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_costs_output_and_nothing_else() {
    let folder = folder();
    let Some(disk) = SmallDisk::mount(&folder) else { return };
    let mut engine = open(&folder);
    // It prints more than there is room for, and ends with a code of its own.
    begin(&mut engine, 2, "sleep 1; exit 0");
    begin(&mut engine, 1, "seq 1 200000; exit 6");
    let ends = told(&mut engine, [1, 2]);
    assert_eq!((ends[0].exit_code, ends[1].exit_code), (Some(6), Some(0)), "no code is lost");
    // Nothing new can be started, in a sentence; nothing of it is left, and later it can.
    std::fs::write(folder.join("ballast"), vec![0; 1 << 20]).expect_err("the disk is full");
    engine.add_job(NOW, &job_of(3, 1, shell("echo back"))).expect("it answers");
    let refused = engine.apply(NOW, &start(3, 3, &[3], 60.0)).expect("it answers");
    let OrderReply::Refused(why) = refused else { panic!("{refused:?}") };
    assert!(why.starts_with("job 3 cannot be started: ") && why.contains("space"), "{why}");
    assert!(!folder.join("gangs/3-3").exists());
    std::fs::remove_file(folder.join("ballast")).expect("ours");
    std::fs::remove_file(folder.join("logs/job-1.log")).expect("ours");
    engine.apply(NOW, &start(3, 4, &[3], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, [3])[0].event, GangEvent::Finished);
    assert_eq!(printed(&engine, 3), "back\n");
    engine.sync_jobs(NOW, &[]).expect("it ends what it started");
    drop(disk);
    std::fs::remove_dir_all(folder).expect("ours");
}

/// A card that computed for a few readings and then answered no more. The first readings are an H200's; that it is lost was written by hand, as the
/// driver says it: nobody pulls a card out for a test.
#[test]
fn a_card_that_falls_off_the_bus_is_lost_and_comes_back() {
    let folder = folder();
    let kind = arles_core::Library::builtin().kind("h200").expect("in the library").clone();
    let cluster = arles_core::Cluster::uniform(vec![kind], &[2], 8).expect("a cluster");
    let devices = [(cluster.nodes()[0].name.clone(), vec!["GPU-0".to_owned(), "GPU-1".to_owned()])].into();
    let meter = Recorded::read_lines(include_str!("recorded/lost.jsonl")).expect("a session");
    let mut engine = Local::open(cluster, LocalOptions { devices, ..options(&folder) }, Box::new(meter)).expect("ours");
    let mut lost = Vec::new();
    let mut drawn = Vec::new();
    for second in 1..=8 {
        let now = Time::from_seconds(f64::from(second));
        let report = engine.survey(now, now).expect("it answers");
        lost.push(report.lost_gpus.expect("it looks at each").iter().map(|lost| lost.gpu).collect::<Vec<_>>());
        let kind = &report.meters.kinds[0];
        drawn.push(kind.used.idle_joules + kind.used.active_joules + kind.unused_joules);
        assert!(drawn.windows(2).all(|pair| pair[0] <= pair[1]) && drawn.iter().all(|joules| joules.is_finite()));
    }
    let gone = vec![GpuId(0)];
    assert_eq!(lost[..3], [vec![], vec![], vec![]]);
    assert_eq!(lost[3..6], [gone.clone(), gone.clone(), gone], "an answer that fails for once is no loss");
    assert_eq!(lost[6..], [vec![], vec![]], "it is back");
    let counts: Vec<f64> = include_str!("recorded/lost.jsonl")
        .lines()
        .filter(|line| line.contains("GPU-1"))
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()?["said"]["Ok"]["joules"].as_f64())
        .collect();
    // Eight looks, of which one was answered by nobody; both cards were the same.
    let counted = 2.0 * (counts[6] - counts[0]);
    assert!((drawn[7] - counted).abs() < 1e-6 * counted, "{} of {counted} J", drawn[7]);
    std::fs::remove_dir_all(folder).expect("ours");
}

/// Two jobs on one card: what each draws alone is known, and the session is an H200's.
#[test]
fn the_energy_of_a_shared_card_is_divided_by_what_each_draws_alone() {
    let folder = folder();
    let kind = arles_core::Library::builtin().kind("h200").expect("in the library").clone();
    let cluster = arles_core::Cluster::uniform(vec![kind], &[1], 8).expect("a cluster");
    let devices = [(cluster.nodes()[0].name.clone(), vec!["GPU-0".to_owned()])].into();
    let session = include_str!("recorded/h200.jsonl");
    std::fs::create_dir_all(folder.join("gangs")).expect("ours");
    let mean = |workload: u32, watts: f64| {
        format!(r#"{{"workload":{workload},"kind":0,"watts":{watts},"variance":1.0,"readings":9.0}}"#)
    };
    let means = format!(r#"{{"means":[{},{}]}}"#, mean(1, 120.0), mean(2, 20.0));
    std::fs::write(folder.join("gangs/alone.json"), means).expect("ours");
    let meter = Recorded::read_lines(session).expect("a session");
    let mut engine = Local::open(cluster, LocalOptions { devices, ..options(&folder) }, Box::new(meter)).expect("ours");
    let at = |second: usize| Time::from_seconds(second as f64);
    engine.poll(at(0)).expect("it answers");
    for id in [1, 2] {
        let mut job = job_of(id, 1, shell("sleep 100"));
        job.spec.workload = arles_core::WorkloadId(id as u32);
        engine.add_job(at(0), &job).expect("it answers");
        let reply = engine.apply(at(0), &start(id, id, &[0], 60.0)).expect("it answers");
        assert!(matches!(reply, OrderReply::Reported(_)), "{reply:?}");
    }
    let seconds = session.lines().count();
    (1..seconds).for_each(|second| drop(engine.poll(at(second)).expect("it answers")));
    let report = engine.survey(at(seconds), at(seconds)).expect("it answers");
    let used = report.meters.kinds[0].used;
    let [a, b] = [0, 1].map(|job: usize| report.meters.jobs[job].charge);
    assert!((a.total() + b.total() - used.idle_joules - used.active_joules).abs() < 1e-6 * a.total());
    assert!((a.idle_joules - b.idle_joules).abs() < 1e-6 * a.idle_joules, "they were there equally long");
    // While it computed, 100 W apart; while it did not, whatever there was is the greater one's.
    assert!(a.active_joules > b.active_joules + 500.0, "{a:?} {b:?}");
    engine.sync_jobs(at(seconds + 1), &[]).expect("it ends what it started");
    std::fs::remove_dir_all(folder).expect("ours");
}
