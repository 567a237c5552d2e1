//! A virtual cluster in another process: the same answers, whatever its clients suffer, and a log that tells all.

#[path = "support/engine.rs"]
mod support;

use arles_core::engine::{Engine, Mandate, OrderReply};
use arles_core::scheduler::{GangEvent, Order};
use arles_core::{NodeId, Time};
use arles_engine::{LogEvent, LogLine, Remote};
use arles_sim::world::WorldOptions;
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{BOOT, Ledger, at, calls, job, remote, renew, served, socket, start, stop, world, world_options};

/// A log that the test can read while it is written.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> Vec<LogLine> {
        let text = self.0.lock().unwrap().clone();
        text.lines().map(|line| serde_json::from_str(&line.unwrap()).expect("a line of the log")).collect()
    }
}

const HELLO: &str = r#"{"protocol":2,"session":"s","mandate":{"journal":"","kinds":[],"term":0}}"#;

fn mandate(journal: &str, term: u64) -> Mandate {
    Mandate { journal: journal.into(), kinds: vec!["v100".into(), "h100".into()], term }
}

fn leading(path: &std::path::Path, journal: &str, term: u64) -> Remote {
    let mut remote = Remote::connect(path);
    remote.lead(&mandate(journal, term)).unwrap();
    remote
}

#[test]
fn one_driver_is_obeyed_and_a_later_term_at_once() {
    let log = Log::default();
    let path = served(world(WorldOptions::default()), 0.0, log.clone());
    let mut first = leading(&path, "j", 3);
    first.add_job(at(0.0), &job(1, 1, 500.0)).unwrap();
    for (journal, term, says) in [("other", 9, "belongs to the journal 'j'"), ("j", 3, "another daemon drives")] {
        let mut refused = leading(&path, journal, term);
        let why = refused.apply(at(1.0), &start(1, 1, &[0])).unwrap_err();
        assert!(why.0.contains(says) && !refused.deposed(), "{why}");
    }
    let mut later = leading(&path, "j", 4);
    assert!(matches!(later.apply(at(1.0), &start(1, 1, &[0])), Ok(OrderReply::Reported(_))));
    assert!(!first.deposed());
    let why = first.apply(at(2.0), &start(1, 2, &[1])).unwrap_err();
    assert!(why.0.contains("term 4 is obeyed here, and this daemon's is 3") && first.deposed(), "{why}");
    let mut anew = leading(&path, "j", 3);
    assert!(anew.poll(at(2.0)).is_err() && anew.deposed());
    assert_eq!(later.survey(at(3.0), at(3.0)).unwrap().survey.gangs.len(), 1);
    let terms: Vec<LogEvent> = log.lines().into_iter().map(|line| line.deed).collect();
    assert!(
        matches!(terms[..], [LogEvent::Led(3), LogEvent::Led(4), LogEvent::Done(_), LogEvent::Late(3, _)]),
        "{terms:?}"
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn whoever_is_of_another_version_or_another_cluster_is_told_so() {
    let path = served(world(WorldOptions::default()), 0.0, std::io::sink());
    let mut strange = Remote::connect(&path);
    strange.lead(&Mandate { kinds: vec!["k80".into()], ..mandate("j", 1) }).unwrap();
    let why = strange.poll(at(0.0)).unwrap_err();
    assert!(why.0.contains("has a100-40gb, v100") || why.0.contains("k80"), "{why}");
    for (line, says) in [
        (HELLO.replace("\"protocol\":2", "\"protocol\":1"), "version 1 of the protocol"),
        ("{\"now\":0,\"call\":\"news\"}".to_owned(), "the greeting is not one of this engine's"),
    ] {
        let mut stream = UnixStream::connect(&path).unwrap();
        writeln!(stream, "{line}").unwrap();
        let answer = BufReader::new(stream).lines().next().unwrap().unwrap();
        assert!(answer.contains(says), "{answer}");
    }
    std::fs::remove_file(path).unwrap();
}

/// A disk that is full.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("no space left"))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_same_calls_have_the_same_answers(world_options in world_options(), calls in calls()) {
        let (mut here, mut there) = (world(world_options), remote(world_options));
        here.poll(Time::ZERO).unwrap();
        let (mut first, mut second) = (Ledger::default(), Ledger::default());
        let mut seconds = 0.0;
        for (i, (pause, mut call, node)) in calls.into_iter().enumerate() {
            seconds = f64::max(seconds + pause, 0.0);
            let now = at(seconds);
            renew(&mut call, i);
            prop_assert_eq!(call.ask(&mut here, now, &mut first), call.ask(&mut there, now, &mut second));
            if let Some(node) = node.map(NodeId) {
                match here.world().is_up(node) {
                    true => prop_assert_eq!(here.fail_node(now, node), there.fail_node(now, node)),
                    false => prop_assert_eq!(here.restore_node(now, node), there.restore_node(now, node)),
                }
            }
        }
    }
}

#[test]
fn a_client_that_dies_in_the_middle_of_a_line_hurts_nobody() {
    let path = served(world(WorldOptions::default()), 0.0, std::io::sink());
    let mut first = Remote::connect(&path);
    first.add_job(at(0.0), &job(1, 1, 500.0)).unwrap();
    let mut cut = UnixStream::connect(&path).unwrap();
    cut.write_all(b"{\"now\":1000000000,\"call\":{\"dismiss\":1").unwrap();
    // One that hangs with half a line, and one that is gone.
    let mut gone = UnixStream::connect(&path).unwrap();
    gone.write_all(b"{\"now\":1000000000,\"call\":\"ne").unwrap();
    drop(gone);
    assert!(matches!(first.apply(at(1.0), &start(1, 1, &[0])), Ok(OrderReply::Reported(_))));
    let seen = first.survey(at(2.0), at(2.0)).unwrap();
    assert_eq!((seen.survey.gangs.len(), seen.meters.boot), (1, BOOT), "the half lines were not acted upon");
    drop(cut);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn nonsense_is_answered_with_a_sentence() {
    let path = served(world(WorldOptions::default()), 0.0, std::io::sink());
    let mut stream = UnixStream::connect(&path).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    writeln!(stream, "{HELLO}").unwrap();
    assert_eq!(answers.next().unwrap().unwrap(), "{\"Ok\":null}");
    for line in ["", "{", "[]", "{\"now\":-1,\"call\":\"news\"}", "\u{fffd}", "{\"now\":0,\"call\":\"sing\"}"] {
        writeln!(stream, "{line}").unwrap();
        let answer = answers.next().unwrap().unwrap();
        assert!(answer.contains("not one of this engine's"), "{line} -> {answer}");
    }
    // The one before has hung up, which the cluster notices in its own time.
    drop((stream, answers));
    let mut why = Remote::connect(&path).fail_node(at(0.0), NodeId(9)).unwrap_err();
    while why.0.contains("another daemon drives") {
        std::thread::sleep(Duration::from_millis(5));
        why = Remote::connect(&path).fail_node(at(0.0), NodeId(9)).unwrap_err();
    }
    assert!(why.0.contains("node-9"), "{why}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn whoever_is_not_there_is_asked_again_at_the_next_call() {
    let path = socket();
    let mut engine = Remote::connect(&path).with_patience(Duration::from_millis(200));
    let why = engine.poll(at(0.0)).unwrap_err();
    assert!(why.0.contains("nobody listens"), "{why}");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let why = engine.poll(at(0.0)).unwrap_err();
    assert!(why.0.contains("has not answered"), "{why}");
    std::thread::spawn(move || arles_engine::serve(listener, world(WorldOptions::default()), 0.0, std::io::sink()));
    assert_eq!(engine.poll(at(0.0)), Ok(Vec::new()));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_log_tells_every_order_and_every_end() {
    let log = Log::default();
    let path = served(world(WorldOptions::default()), 0.0, log.clone());
    let mut engine = Remote::connect(&path);
    for id in 1..=4 {
        engine.add_job(at(0.0), &job(id, 1, 100.0)).unwrap();
    }
    for (id, gpu) in [(1, 0), (2, 1), (3, 2), (4, 4), (9, 5)] {
        engine.apply(at(1.0), &start(id, id, &[gpu])).unwrap();
    }
    engine.apply(at(10.0), &stop(2, 2)).unwrap();
    engine.fail_node(at(20.0), NodeId(1)).unwrap();
    engine.remove_job(at(30.0), arles_core::JobId(3)).unwrap();
    engine.poll(at(500.0)).unwrap();
    let lines = log.lines();
    let count = |wanted: fn(&LogEvent) -> bool| lines.iter().filter(|line| wanted(&line.deed)).count();
    assert_eq!(count(|deed| matches!(deed, LogEvent::Done(Order::Start(_)))), 4);
    assert_eq!(count(|deed| matches!(deed, LogEvent::Done(Order::Stop { .. }))), 1);
    assert_eq!(count(|deed| matches!(deed, LogEvent::Refused(Order::Start(_), _))), 1);
    let ends: Vec<(u64, f64)> = lines
        .iter()
        .filter_map(|line| match &line.deed {
            LogEvent::Ended(report) => Some((report.job.0, line.at.seconds().round())),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [(2, 10.0), (4, 20.0), (3, 30.0), (1, 101.0)], "each at its own moment");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_log_that_cannot_be_written_stops_everything() {
    let path = served(world(WorldOptions::default()), 0.0, Full);
    let mut engine = Remote::connect(&path);
    // That somebody drives it is the first thing to be written.
    assert!(engine.add_job(at(0.0), &job(1, 1, 100.0)).is_err());
    for seconds in [1.0, 2.0] {
        let why = engine.apply(at(seconds), &start(1, 1, &[0])).unwrap_err();
        assert!(why.0.contains("no space left"), "{why}");
    }
    assert!(engine.poll(at(3.0)).is_err());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn time_runs_on_while_nobody_asks() {
    let log = Log::default();
    let path = served(world(WorldOptions::default()), 1e5, log.clone());
    let mut engine = Remote::connect(&path);
    engine.add_job(at(0.0), &job(1, 1, 100.0)).unwrap();
    engine.apply(at(0.0), &start(1, 1, &[0])).unwrap();
    drop(engine);
    let finished =
        |line: &LogLine| matches!(&line.deed, LogEvent::Ended(report) if report.event == GangEvent::Finished);
    for _ in 0..400 {
        if log.lines().iter().any(finished) {
            std::fs::remove_file(&path).unwrap();
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("it has not finished: {:?}", log.lines());
}
