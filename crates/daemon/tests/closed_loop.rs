//! The loop closed: what training code reports is measured, kept, and changes the next decision. The code is the hook in a Python
//! process of its own; where there is no Python, tests say so and are skipped.

mod common;

use arles_api::{JobState, Progress};
use arles_core::estimate::Source;
use arles_core::{JobId, Library};
use arles_daemon::access::Caller;
use arles_daemon::desk::JobsQuery;
use arles_daemon::entry::{Entry, JournalHeader};
use arles_daemon::http;
use arles_daemon::service::Options;
use arles_daemon::store::Store;
use arles_learn::catalog::disk::Disk;
use arles_learn::{Catalog, Key, Setting, Subject, find_estimator};
use arles_sim::truth::Oracle;
use common::live::Live;
use common::{Folder, block, cluster, header, request, start, start_from, start_with, wait_until};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn admin() -> Caller {
    Caller::loopback()
}

fn has_python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        arles_testing::skip("there is no python3");
    }
    there
}

/// The example of the hook as a process: a training loop that reports, checkpoints and stops. Killed with the value.
struct Training(Child);

impl Training {
    fn start(live: &Live, job: u64, checkpoint: &Path, step_seconds: f64) -> Self {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
        let mut command = Command::new("python3");
        command.arg(python.join("examples/no_framework.py")).arg("--checkpoint").arg(checkpoint);
        command.args(["--steps", "1000000", "--every", "0.2", "--step-seconds", &step_seconds.to_string()]);
        command.env("PYTHONPATH", python.join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("ARLES_URL", format!("http://{}", live.at)).env("ARLES_JOB", job.to_string());
        command.env("ARLES_TOKEN", &live.admin).env_remove("ARLES_TOKEN_FILE").env_remove("ARLES_CA");
        Self(command.stdout(Stdio::null()).spawn().expect("python3 is there"))
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn live_jobs(live: &Live, state: JobState) -> usize {
    let query = JobsQuery { states: vec![state], ..JobsQuery::default() };
    live.desk.view(&admin()).jobs(&query).expect("jobs").jobs.len()
}

const UNKNOWN: &str = "train-7f3a90";

/// The journal's beginning with a workload that no library knows, and what the virtual engine plays it as.
fn with_unknown(mut header: JournalHeader) -> (JournalHeader, Vec<String>) {
    let mut played = header.workloads.clone();
    header.workloads.push(UNKNOWN.to_owned());
    played.push("resnet50-b64".to_owned());
    // The engine's own measurements would be of what it plays.
    (header.settings.survey_seconds, header.settings.lease_seconds) = (1e7, 4e7);
    (header, played)
}

fn model_estimator(
    header: &JournalHeader,
) -> impl FnOnce(std::sync::Arc<arles_sim::truth::Truth>, &Catalog) -> Box<dyn arles_core::estimate::Estimator> + Send + use<>
{
    let kinds = header.cluster.kinds().to_vec();
    let features = |name: &String| Library::builtin().workload(name).ok().cloned();
    let workloads: Vec<Subject> =
        header.workloads.iter().map(|name| Subject { name: name.clone(), features: features(name) }).collect();
    move |_, catalog| {
        let setting = Setting { kinds: &kinds, workloads: &workloads, catalog, seed: 1, progress: &|_| {} };
        (find_estimator("model").expect("it is in the table").make)(&setting).expect("an estimator")
    }
}

/// GPUs that the policy grants a tenant, by kind.
fn granted(live: &Live, tenant: &str) -> Vec<f64> {
    let whole = live.desk.view(&admin()).allocation();
    let share = whole.shares.iter().find(|share| share.tenant == tenant);
    share.map(|share| share.gpus.clone()).unwrap_or_default()
}

#[test]
fn what_code_reports_changes_the_next_decision() {
    if !has_python() {
        return;
    }
    let (header, played) = with_unknown(header(cluster(&[("v100", 2), ("k80", 2)]), &["a", "b"], "oef-coop"));
    let folder = Folder::new();
    let file = folder.0.join("catalog.db");
    let options = Options { speed: 60.0, ..Options::default() };
    let service = start_from(&folder.0, &header, options, &played, file.clone(), "model", model_estimator(&header));
    let live =
        Live::serve(folder, service, http::Options { requests_per_second: f64::INFINITY, ..http::Options::default() });
    let submit = |tenant: &str, workload: &str| {
        let job = block(live.desk.submit(&admin(), None, request(tenant, workload, 1, 1e12))).expect("taken in").0;
        job.id
    };
    // Before: nothing is known of the workload; how the GPUs are divided follows from the population.
    let own: Vec<u64> = (0..4).map(|_| submit("a", UNKNOWN)).collect();
    let others: Vec<u64> = (0..4).map(|_| submit("b", "resnet50-b64")).collect();
    let divided = |tenant: &str| granted(&live, tenant).iter().sum::<f64>();
    wait_until("both tenants are granted GPUs", || divided("a") > 1.0 && divided("b") > 1.0);
    let before = granted(&live, "a");
    // Gone and come again, the others lead to the same decision: only reports make it another.
    let go = |jobs: Vec<u64>| {
        for job in jobs {
            block(live.desk.cancel(&admin(), job)).expect("cancelled");
        }
        wait_until("the others are gone", || divided("b") == 0.0);
    };
    go(others);
    let others: Vec<u64> = (0..4).map(|_| submit("b", "resnet50-b64")).collect();
    wait_until("both tenants are granted GPUs", || divided("a") > 1.0 && divided("b") > 1.0);
    let again = granted(&live, "a");
    assert!(before.iter().zip(&again).all(|(a, b)| (a - b).abs() < 0.05), "{before:?}, {again:?}");
    // Alone, it runs on both kinds, and its code says that it is as fast on one as on the other.
    go(others);
    wait_until("all four run", || live_jobs(&live, JobState::Running) == 4);
    let trainings: Vec<Training> =
        own.iter().map(|job| Training::start(&live, *job, &live.path(&format!("{job}.json")), 0.02)).collect();
    let cell = |catalog: &Catalog, kind: &str| {
        let key = Key { workload: UNKNOWN.into(), partner: None, kind: kind.into(), gang: 1 };
        catalog.get(&key).copied().filter(|cell| cell.source == Source::Measured)
    };
    wait_until("its rate is known on both kinds", || {
        let catalog = Disk::read(&file).expect("a catalog");
        ["v100", "k80"].iter().all(|kind| cell(&catalog, kind).is_some_and(|cell| cell.observations >= 2))
    });
    let catalog = Disk::read(&file).expect("a catalog");
    let rates = ["v100", "k80"].map(|kind| cell(&catalog, kind).expect("measured").rate);
    // Steps of 20 ms and a little: 50 a second of the wall, on a clock that goes sixty times as fast.
    for rate in rates {
        assert!(rate > 0.3 * 50.0 / 60.0 && rate < 50.0 / 60.0, "{rates:?}");
    }
    // After: the same jobs of the other tenant again.
    for _ in 0..4 {
        submit("b", "resnet50-b64");
    }
    wait_until("both tenants are granted GPUs again", || divided("b") > 1.0);
    wait_until("the decision is another", || {
        let after = granted(&live, "a");
        after.len() == 2 && after[0] < before[0] - 0.2
    });
    let after = granted(&live, "a");
    assert!(
        after[1] > before[1] - 1e-6,
        "what it loses of the fast kind it is given of the slow one: {before:?}, {after:?}"
    );
    drop(trainings);
}

#[test]
fn a_card_whose_jobs_are_slower_is_named() {
    if !has_python() {
        return;
    }
    const SLOW: u64 = 1;
    let (header, played) = with_unknown(header(cluster(&[("v100", 3)]), &["a"], "fifo"));
    let folder = Folder::new();
    let file = folder.0.join("catalog.db");
    let options = Options { speed: 60.0, ..Options::default() };
    let service = start_from(&folder.0, &header, options, &played, file, "model", model_estimator(&header));
    let live =
        Live::serve(folder, service, http::Options { requests_per_second: f64::INFINITY, ..http::Options::default() });
    let slow_gpus = || {
        let nodes = live.desk.view(&admin()).nodes(&arles_daemon::views::Page::default()).expect("nodes").nodes;
        nodes.into_iter().flat_map(|node| node.slow_gpus.into_iter().map(move |slow| (node.first_gpu + slow.gpu, slow)))
    };
    for run in 0..8 {
        let submit =
            |_| block(live.desk.submit(&admin(), None, request("a", UNKNOWN, 1, 1e12))).expect("taken in").0.id;
        let jobs: Vec<u64> = (0..3).map(submit).collect();
        wait_until("all three run", || live_jobs(&live, JobState::Running) == 3);
        let gpus = live.desk.view(&admin()).gpus().job;
        let trainings: Vec<Training> = gpus
            .iter()
            .enumerate()
            .map(|(gpu, job)| {
                let step = if gpu as u64 == SLOW { 0.06 } else { 0.03 };
                Training::start(&live, *job, &live.path(&format!("{run}-{job}.json")), step)
            })
            .collect();
        // Half a minute of the daemon's clock lies between two looks.
        let reported = |job: &u64| {
            live.desk.view(&admin()).job(*job).expect("a job").reported.is_some_and(|said| said.steps > 100.0)
        };
        wait_until("all have reported for a while", || jobs.iter().all(reported));
        drop(trainings);
        for job in jobs {
            block(live.desk.cancel(&admin(), job)).expect("cancelled");
        }
        wait_until("all are gone", || live.desk.view(&admin()).gpus().job.iter().all(|job| *job == 0));
        if slow_gpus().next().is_some() {
            break;
        }
    }
    let slow: Vec<_> = slow_gpus().collect();
    assert_eq!(slow.iter().map(|(gpu, _)| u64::from(*gpu)).collect::<Vec<_>>(), [SLOW], "{slow:?}");
    assert!(slow[0].1.speed_ratio < 0.9 && slow[0].1.runs >= 2, "{slow:?}");
}

#[test]
fn code_of_a_cancelled_job_saves_and_stops() {
    if !has_python() {
        return;
    }
    let live = Live::start(&header(cluster(&[("v100", 1)]), &["a"], "fifo"), 1.0);
    let job = block(live.desk.submit(&admin(), None, request("a", "resnet50-b64", 1, 1e12))).expect("taken in").0.id;
    let checkpoint = live.path("state.json");
    let mut training = Training::start(&live, job, &checkpoint, 0.005);
    let reported = || live.desk.view(&admin()).job(job).expect("a job").reported;
    wait_until("it reports", || reported().is_some_and(|said| said.steps > 0.0));
    block(live.desk.cancel(&admin(), job)).expect("cancelled");
    wait_until("it has ended", || training.0.try_wait().expect("a child").is_some());
    assert_eq!(training.0.wait().expect("it ended").code(), Some(85));
    assert!(checkpoint.exists(), "it saved");
    wait_until("the job is cancelled", || {
        live.desk.view(&admin()).job(job).expect("a job").state == JobState::Cancelled
    });
    let said = Progress { steps: 7.0, rate: None, checkpointed: false };
    let told = live.desk.progress(&admin(), job, said).expect("code that goes on is told again");
    assert_eq!(told.action, arles_api::Action::CheckpointAndStop);
}

const KILLED: &str = "ARLES_TEST_KILLED";

fn busy() -> JournalHeader {
    header(cluster(&[("v100", 4), ("k80", 4)]), &["a", "b"], "max-min-fairness")
}

/// A daemon that measures and hears of progress until it is killed.
fn be_killed(folder: &Path) -> ! {
    let options = Options { speed: 3600.0, keep_journal: true, snapshot_entries: 50, ..Options::default() };
    let service = start(folder, &busy(), options);
    let desk = service.desk();
    let workloads = ["resnet50-b64", "resnet18-b64", "lm-b20", "transformer-b64"];
    for i in 0..16 {
        let tenant = if i % 2 == 0 { "a" } else { "b" };
        block(desk.submit(&admin(), None, request(tenant, workloads[i % 4], 1, 1e9))).expect("taken in");
    }
    for n in 1.. {
        for job in 1..=16 {
            let said = Progress { steps: f64::from(n * 10), rate: Some(100.0 + job as f64), checkpointed: n % 3 == 0 };
            desk.progress(&admin(), job, said).expect("heard");
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    unreachable!("somebody kills it")
}

/// What all measurements in a journal come to.
fn retraced(folder: &Path) -> (Catalog, u64) {
    let (store, header) = (Store::read(folder).expect("a journal"), busy());
    let (mut catalog, mut seen) = (Catalog::default(), 0);
    store
        .entries(0, |record| {
            if let Entry::Measured(observations) = record.entry {
                for observation in observations.iter().filter(|observation| observation.rate > 0.0) {
                    let name = |id: arles_core::WorkloadId| Some(header.workloads[id.index()].as_str());
                    let kind = |id: arles_core::KindId| Some(header.cluster.kind(id).name.as_str());
                    if let Some(key) = Key::of(observation, name, kind) {
                        catalog.observe(key, observation);
                        seen += 1;
                    }
                }
            }
            Ok(())
        })
        .expect("readable");
    (catalog, seen)
}

/// Cells, counts and standard errors, to the bit.
fn bits(catalog: &Catalog) -> Vec<(Key, [u64; 5])> {
    let cell = |(key, cell): (&Key, &arles_learn::Cell)| {
        let watts = cell.watts.map_or(0, f64::to_bits);
        let numbers =
            [cell.rate.to_bits(), cell.standard_error.to_bits(), u64::from(cell.observations), cell.at.0, watts];
        (key.clone(), numbers)
    };
    catalog.cells().map(cell).collect()
}

#[test]
fn killed_it_knows_what_it_knew() {
    if let Some(folder) = std::env::var_os(KILLED) {
        be_killed(&PathBuf::from(folder));
    }
    let folder = Folder::new();
    let file = folder.0.join("catalog.db");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "killed_it_knows_what_it_knew", "--nocapture"])
        .env(KILLED, &folder.0)
        .stdout(Stdio::null())
        .spawn()
        .expect("a process");
    // Several kills, each in the middle of writing.
    let mut last = 0;
    for kill in 0..3 {
        if kill > 0 {
            child = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "killed_it_knows_what_it_knew", "--nocapture"])
                .env(KILLED, &folder.0)
                .stdout(Stdio::null())
                .spawn()
                .expect("a process");
        }
        let known =
            || Disk::read(&file).map_or(0, |c| c.cells().map(|(_, cell)| u64::from(cell.observations)).sum::<u64>());
        wait_until("something more is measured", || file.exists() && known() >= last + 8);
        child.kill().expect("killed");
        child.wait().expect("gone");
        last = retraced(&folder.0).1;
    }
    let (expected, seen) = retraced(&folder.0);
    assert!(seen > 20, "{seen} measurements");
    // Time stands still, so that nothing is added.
    let still = Options { speed: 1e-9, keep_journal: true, ..Options::default() };
    let service = start(&folder.0, &busy(), still.clone());
    let reported = service.desk().view(&admin()).job(1).expect("a job").reported;
    service.stop().expect("a clean end");
    let after = Disk::read(&file).expect("a catalog");
    assert_eq!(bits(&after), bits(&expected));
    assert_eq!(reported.map(|said| said.steps), last_report(&folder.0), "what code said survives too");

    // A new journal with the same catalog: nothing is lost, and nothing is taken in twice.
    let other = Folder::new();
    let truth = busy().workloads;
    let again = |folder: &Folder| {
        let service =
            start_from(&folder.0, &busy(), still.clone(), &truth, file.clone(), "oracle", |truth, catalog| {
                assert!(catalog.cells().count() > 0, "an estimator is made from what is known");
                Box::new(Oracle(truth))
            });
        service.stop().expect("a clean end");
    };
    again(&other);
    again(&folder);
    again(&other);
    assert_eq!(bits(&Disk::read(&file).expect("a catalog")), bits(&expected));
}

/// Steps that the last journalled report of job 1 says.
fn last_report(folder: &Path) -> Option<f64> {
    let mut last = None;
    let store = Store::read(folder).expect("a journal");
    store
        .entries(0, |record| {
            if let Entry::Progress(reports) = record.entry {
                last = reports.iter().find(|report| report.job == JobId(1)).map(|report| report.steps).or(last);
            }
            Ok(())
        })
        .expect("readable");
    last
}

#[test]
fn a_journal_that_was_set_back_goes_on_under_another_id() {
    let folder = Folder::new();
    let oracle = |truth| -> Box<dyn arles_core::estimate::Estimator> { Box::new(Oracle(truth)) };
    let fast = Options { speed: 3600.0, keep_journal: true, ..Options::default() };
    let service = start_with(&folder.0, &busy(), fast.clone(), "oracle", oracle);
    let desk = service.desk();
    for _ in 0..4 {
        block(desk.submit(&admin(), None, request("a", "resnet50-b64", 1, 1e9))).expect("taken in");
    }
    let copy = folder.0.join("copy.db");
    Store::read(&folder.0).expect("a journal").back_up(&copy).expect("a copy");
    let file = folder.0.join("catalog.db");
    wait_until("something is measured", || Disk::read(&file).is_ok_and(|catalog| catalog.cells().count() > 0));
    service.stop().expect("a clean end");
    let before = Disk::read(&file).expect("a catalog");
    let id = |folder: &Folder| Store::open(&folder.0).expect("a journal").journal_id().expect("an id");
    let first = id(&folder);
    for name in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        let _ = std::fs::remove_file(folder.0.join(name));
    }
    std::fs::rename(&copy, folder.0.join("journal.db")).expect("restored");
    start_with(&folder.0, &busy(), Options { speed: 1e-9, ..fast.clone() }, "oracle", oracle)
        .stop()
        .expect("a clean end");
    assert_eq!(Disk::read(&file).expect("a catalog"), before, "nothing is taken in twice");
    assert_ne!(id(&folder), first);
    let service = start_with(&folder.0, &busy(), fast, "oracle", oracle);
    let count = |catalog: &Catalog| catalog.cells().map(|(_, cell)| cell.observations).sum::<u32>();
    wait_until("more is measured", || Disk::read(&file).is_ok_and(|catalog| count(&catalog) > count(&before)));
    service.stop().expect("a clean end");
}
