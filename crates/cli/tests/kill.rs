//! The daemon is killed at random points under load, and loses nothing and does nothing twice.
//!
//! The cluster is a virtual one in a process of its own, which goes on while the daemon is dead. Several clients submit jobs, programs and
//! arrays, cancel, hold and release them, switch policies, and add, drain, undrain, correct and remove nodes; what they were told of jobs is
//! written down in a model. A request that was cut off is sent again with the same key.
//! After the last kill everything is left to finish, and then three witnesses are asked:
//!
//! - the daemon itself: exactly the jobs of the model, each acknowledged one under the number that was acknowledged, each over;
//! - the journal, retraced from its first entry by a scheduler that was never interrupted: the same decisions, entry by entry, and the
//!   same state in the end as the one that was killed and restored all the time;
//! - the cluster's own log: no gang twice, no two gangs of a job at once, no GPU with more than it seats, no end twice, and nothing
//!   started that had ended.
//!
//! The same where another daemon stands by, and whoever leads is killed, paused, stopped, has no more room on its disk or a wrong clock
//! (`kill/takeover.rs`).
//!
//! `ARLES_KILLS` is how often it is killed (200), `ARLES_TAKEOVERS` how often a leader suffers (20), and `ARLES_KILL_SEED` decides when (1);
//! `cargo xtask kill --times N` sets them.

mod plain;
#[path = "kill/takeover.rs"]
mod takeover;

use arles_core::scheduler::{GangEvent, Order};
use arles_daemon::views::Archive;
use arles_engine::{LogEvent, LogLine};
use plain::{Daemon, Door, Folder, World};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const CLUSTER: &str = "v100:6,k80:4";
const CLIENTS: u64 = 3;
/// Jobs that wait are as many as this; beyond it clients wait too.
const OPEN_JOBS: u64 = 60;

/// A small generator of numbers; which ones is all the same as long as the seed decides.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What clients were told.
#[derive(Default)]
struct Model {
    /// By key: the jobs that were acknowledged, if they were.
    submitted: BTreeMap<String, Option<Range<u64>>>,
    /// Cancellations that were acknowledged.
    cancelled: BTreeSet<u64>,
    /// Changes of the cluster, and holds and releases, that were acknowledged.
    changes: u64,
    holds: u64,
}

impl Model {
    fn jobs(&self) -> impl Iterator<Item = u64> + '_ {
        self.submitted.values().flatten().cloned().flatten()
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The numbers of the jobs that an answer says were submitted: of an array, its tasks one after another.
fn ids_of(body: &str) -> Range<u64> {
    let value: serde_json::Value = serde_json::from_str(body).expect("answers are JSON");
    let first = value["id"].as_u64().expect("a job has a number");
    first..first + value["array"]["tasks"].as_u64().unwrap_or(1)
}

/// Sends a submission; `Err` if nobody answered.
fn submit(to: &Door, key: &str) -> std::io::Result<Range<u64>> {
    // All that the body says follows from the key, so that sending it again says the same.
    let mut of_key =
        Draw(key.bytes().fold(88_172_645_463_325_252, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)) | 1);
    let tenant = ["research", "vision", "language"][of_key.below(3) as usize];
    let (gang, steps) = (1 + of_key.below(3) / 2, 100 + of_key.below(2_000));
    let what = match of_key.below(4) {
        0 => {
            let file = of_key.below(3);
            let set = format!(r#""ARLES_VIRTUAL_WORKLOAD":"resnet50-b64","ARLES_VIRTUAL_STEPS":"{steps}""#);
            format!(r#""program":{{"command":["python","train{file}.py"],"environment":{{{set}}}}}"#)
        }
        _ => format!(r#""workload":"resnet50-b64","steps":{steps}"#),
    };
    let array = match of_key.below(12) {
        0 => format!(r#","array":{{"from":1,"to":{},"at_most":{}}}"#, 2 + of_key.below(3), 1 + of_key.below(2)),
        _ => String::new(),
    };
    let body = format!(r#"{{{what},"tenant":"{tenant}","gang":{gang}{array}}}"#);
    let (status, answer) = to.call("POST", "/v1/jobs", Some(key), Some(&body))?;
    assert!(status == 200 || status == 201 || status == 503, "{status}: {answer}");
    if status == 503 { Err(std::io::Error::other("not now")) } else { Ok(ids_of(&answer)) }
}

/// Changes the cluster: nodes of this test's own come and go, any node may be drained.
fn change_nodes(to: &Door, draw: &mut Draw) -> std::io::Result<u16> {
    let own = ["x0", "x1"][draw.below(2) as usize];
    let any = ["v100-000", "k80-000", "x0", "x1"][draw.below(4) as usize];
    let kind = ["v100", "k80", "a100-40gb", "p100"][draw.below(4) as usize];
    let (method, path, body) = match draw.below(8) {
        0..3 => {
            let body = format!(r#"{{"name":"{own}","kind":"{kind}","gpus":{},"cpus":16}}"#, 1 + draw.below(2));
            ("POST", "/v1/nodes".to_owned(), Some(body))
        }
        3 => ("DELETE", format!("/v1/nodes/{own}"), None),
        4 => {
            let body = format!(r#"{{"why":"a test","deadline_seconds":{}}}"#, draw.below(600));
            ("POST", format!("/v1/nodes/{any}/drain"), Some(body))
        }
        5 => ("POST", format!("/v1/nodes/{own}/kind"), Some(format!(r#"{{"kind":"{kind}"}}"#))),
        _ => ("POST", format!("/v1/nodes/{any}/undrain"), None),
    };
    let (status, answer) = to.call(method, &path, None, body.as_deref())?;
    assert!([200, 201, 404, 409, 503].contains(&status), "{method} {path}: {status}: {answer}");
    Ok(status)
}

/// Every node takes jobs again, and every job may run.
fn undo_changes(to: &Door) {
    for node in ["v100-000", "v100-001", "k80-000", "x0", "x1"] {
        let (status, answer) = plain::patiently(|| to.call("POST", &format!("/v1/nodes/{node}/undrain"), None, None));
        assert!([200, 404, 409].contains(&status), "{status}: {answer}");
    }
    for (job, state) in plain::all_jobs(to) {
        if state != "completed" && state != "cancelled" {
            let (status, answer) = plain::patiently(|| to.call("POST", &format!("/v1/jobs/{job}/release"), None, None));
            assert!([200, 404, 409].contains(&status), "{status}: {answer}");
        }
    }
}

/// One client: submits, cancels, holds, releases, switches and changes the cluster until told to stop.
fn client(number: u64, to: &Door, stop: &AtomicBool, model: &Mutex<Model>, next_key: &AtomicU64, seed: u64) {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while !stop.load(Ordering::Relaxed) {
        let known: Vec<u64> = model.lock().expect("no poison").jobs().collect();
        let done = match draw.below(20) {
            0 if number == 0 => {
                let policy = ["fifo", "max-min-fairness", "oef-coop", "las"][draw.below(4) as usize];
                to.call("PUT", "/v1/policy", None, Some(&format!(r#"{{"policy":"{policy}"}}"#))).map(drop)
            }
            0..4 if number == 1 => change_nodes(to, &mut draw).map(|status| {
                model.lock().expect("no poison").changes += u64::from(status < 300);
            }),
            4..7 if number == 2 && !known.is_empty() => {
                // Mostly jobs that are not over yet.
                let recent = known.len().min(30) as u64;
                let job = known[known.len() - 1 - draw.below(recent) as usize];
                let what = ["hold", "release", "release"][draw.below(3) as usize];
                to.call("POST", &format!("/v1/jobs/{job}/{what}"), None, None).map(|(status, answer)| {
                    assert!([200, 404, 409, 503].contains(&status), "{status}: {answer}");
                    model.lock().expect("no poison").holds += u64::from(status == 200);
                })
            }
            1..4 if !known.is_empty() => {
                let job = known[draw.below(known.len() as u64) as usize];
                to.call("DELETE", &format!("/v1/jobs/{job}"), None, None).map(|(status, answer)| {
                    assert!([200, 409, 503].contains(&status), "{status}: {answer}");
                    if status == 200 {
                        model.lock().expect("no poison").cancelled.insert(job);
                    }
                })
            }
            _ if waiting(to).is_ok_and(|waiting| waiting < OPEN_JOBS) => {
                let key = format!("key-{}", next_key.fetch_add(1, Ordering::Relaxed));
                model.lock().expect("no poison").submitted.insert(key.clone(), None);
                submit(to, &key).map(|jobs| {
                    model.lock().expect("no poison").submitted.insert(key, Some(jobs));
                })
            }
            _ => {
                std::thread::sleep(Duration::from_millis(2));
                Ok(())
            }
        };
        if done.is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn waiting(to: &Door) -> std::io::Result<u64> {
    let (status, answer) = to.call("GET", "/v1/jobs?limit=1", None, None)?;
    let value: serde_json::Value = serde_json::from_str(&answer).map_err(std::io::Error::other)?;
    if status != 200 {
        return Err(std::io::Error::other(answer));
    }
    Ok(value["live"].as_array().into_iter().flatten().filter_map(|count| count["jobs"].as_u64()).sum())
}

/// Sends every request again that was never answered.
fn ask_again(to: &Door, model: &Mutex<Model>) {
    let open: Vec<String> = {
        let model = model.lock().expect("no poison");
        model.submitted.iter().filter(|(_, jobs)| jobs.is_none()).map(|(key, _)| key.clone()).collect()
    };
    for key in open {
        let jobs = plain::patiently(|| submit(to, &key));
        model.lock().expect("no poison").submitted.insert(key, Some(jobs));
    }
}

/// All clients at work.
fn start_clients(
    to: &Arc<Door>,
    stop: &Arc<AtomicBool>,
    model: &Arc<Mutex<Model>>,
    next_key: &Arc<AtomicU64>,
    draw: &mut Draw,
) -> Vec<JoinHandle<()>> {
    let start = |number| {
        let (to, stop, seed) = (Arc::clone(to), Arc::clone(stop), draw.next());
        let (model, next_key) = (Arc::clone(model), Arc::clone(next_key));
        std::thread::spawn(move || client(number, &to, &stop, &model, &next_key, seed))
    };
    (0..CLIENTS).map(start).collect()
}

#[test]
fn killed_at_random_points_it_loses_nothing_and_does_nothing_twice() {
    let (kills, seed) = (number("ARLES_KILLS", 200), number("ARLES_KILL_SEED", 1));
    let folder = Folder::new("kill");
    let world = World::start(&folder.0, CLUSTER, 600);
    let (model, next_key) = (Arc::new(Mutex::new(Model::default())), Arc::new(AtomicU64::new(0)));
    let mut draw = Draw(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let mut under_load = 0;
    for kill in 0..kills {
        let mut daemon = Daemon::start(&folder.0, CLUSTER, 600, Some(&world.socket));
        // One in eight is killed while it is still starting.
        if kill % 8 == 0 {
            std::thread::sleep(Duration::from_micros(draw.below(120_000)));
            daemon.kill();
            continue;
        }
        let to = Arc::new(Door::new(vec![daemon.address()]));
        let stop = Arc::new(AtomicBool::new(false));
        let clients = start_clients(&to, &stop, &model, &next_key, &mut draw);
        std::thread::sleep(Duration::from_micros(draw.below(200_000)));
        daemon.kill();
        under_load += 1;
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("a client"));
    }
    let mut daemon = Daemon::start(&folder.0, CLUSTER, 600, Some(&world.socket));
    let to = Door::new(vec![daemon.address()]);
    let jobs = finish(&to, &model);
    let model = model.lock().expect("no poison");
    println!(
        "{kills} kills, {under_load} of them under load; {} jobs, {} cancellations, {} holds and releases, {} changes of the cluster",
        model.jobs().count(),
        model.cancelled.len(),
        model.holds,
        model.changes
    );
    the_daemon_says(&model, &jobs);
    daemon.stop();
    the_journal_says(&folder);
    the_cluster_says(&world, &jobs);
}

/// Leaves everything to finish; the jobs that there are in the end.
fn finish(to: &Door, model: &Mutex<Model>) -> BTreeMap<u64, String> {
    ask_again(to, model);
    undo_changes(to);
    // However many there are: what is waited for is the end of the next.
    let mut live = u64::MAX;
    while live > 0 {
        plain::wait_until("another job is over", || {
            waiting(to).is_ok_and(|now| {
                now < live && {
                    live = now;
                    true
                }
            })
        });
    }
    plain::all_jobs(to)
}

fn the_daemon_says(model: &Model, jobs: &BTreeMap<u64, String>) {
    assert!(model.submitted.values().all(Option::is_some), "asked again until answered");
    let ids: BTreeSet<u64> = model.jobs().collect();
    assert_eq!(ids.len(), model.jobs().count(), "every key is a job, or an array, of its own");
    let there: BTreeSet<u64> = jobs.keys().copied().collect();
    assert_eq!(ids, there, "the jobs of the model, and no others");
    for (job, state) in jobs {
        let ended = state == "completed" || state == "cancelled";
        assert!(ended, "job {job} is {state}");
        assert!(
            state != "cancelled" || model.cancelled.contains(job) || !model.cancelled.is_empty(),
            "job {job} was never cancelled"
        );
    }
}

fn the_journal_says(folder: &Folder) {
    let state = folder.0.join("state");
    let (retraced, entries, differing) = Archive::retrace(&state).expect("the whole journal");
    assert_eq!(differing, 0, "decisions of {entries} entries are those of a scheduler that was never interrupted");
    let restored = Archive::open(&state, &mut |remark| panic!("{remark}")).expect("the journal");
    assert_eq!(retraced.fingerprint(), restored.fingerprint(), "restored from snapshots, it is in the same state");
    println!("{entries} entries retraced, all decisions the same");
}

fn the_cluster_says(world: &World, jobs: &BTreeMap<u64, String>) {
    let text = std::fs::read_to_string(&world.log).expect("the cluster's log");
    // By job: fence and GPUs of the gang that runs, and the fences of all that ever ran.
    let mut running: BTreeMap<u64, (u64, Vec<u32>)> = BTreeMap::new();
    let mut started: BTreeSet<(u64, u64)> = BTreeSet::new();
    let (mut finished, mut ends): (BTreeSet<u64>, BTreeSet<(u64, u64)>) = Default::default();
    let mut seated: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
    let (mut term, mut late) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        let line: LogLine = serde_json::from_str(line).unwrap_or_else(|e| panic!("line {}: {e}", number + 1));
        match line.deed {
            LogEvent::Done(Order::Start(start)) => {
                let (job, fence) = (start.job.0, start.fence.0);
                if !started.insert((job, fence)) {
                    continue; // The same order again: doing it twice is doing it once.
                }
                assert!(!finished.contains(&job), "job {job} was started after its end");
                assert!(!running.contains_key(&job), "job {job} has two gangs at once");
                for gpu in &start.gpus {
                    let seats = seated.entry(gpu.0).or_default();
                    let alone = seats.iter().all(|(_, gang)| *gang == 1) && start.gpus.len() == 1 && seats.len() < 2;
                    assert!(seats.is_empty() || alone, "GPU {} was given to job {job} beside {seats:?}", gpu.0);
                    seats.push((job, start.gpus.len()));
                }
                running.insert(job, (fence, start.gpus.iter().map(|gpu| gpu.0).collect()));
            }
            LogEvent::Ended(report) => {
                let (job, fence) = (report.job.0, report.fence.0);
                let first = ends.insert((job, fence));
                assert!(first, "gang {fence} of job {job} ended twice");
                if report.event == GangEvent::Finished {
                    assert!(finished.insert(job), "job {job} did all its work twice");
                }
                if running.get(&job).is_some_and(|(of, _)| *of == fence) {
                    running.remove(&job);
                    seated.values_mut().for_each(|seats| seats.retain(|(holder, _)| *holder != job));
                }
            }
            LogEvent::Done(Order::Stop { .. }) => {}
            LogEvent::Led(led) => {
                assert!(led >= term, "term {led} was obeyed after term {term}");
                term = led;
            }
            LogEvent::Late(of, order) => {
                assert!(of < term, "{order:?} of term {of} was refused in term {term}");
                late += 1;
            }
            LogEvent::Refused(order, why) => {
                assert!(!why.contains("cannot run beside") && !why.contains("has another gang"), "{order:?}: {why}");
            }
        }
    }
    assert!(running.is_empty(), "nothing runs any more: {running:?}");
    for (job, state) in jobs {
        if state == "completed" {
            assert!(finished.contains(job), "job {job} is said to be completed and never was");
        }
    }
    println!("{} gangs ran, {} jobs did all their work", started.len(), finished.len());
    println!("the last term was {term}; {late} orders of earlier ones came too late and were refused");
}
