//! A small cluster, jobs on it, and calls that mean something or nothing: for tests of engines.
#![allow(dead_code, reason = "each test file uses what it needs")]

use arles_core::engine::{Engine, LiveJob};
use arles_core::scheduler::Order;
use arles_core::{Cluster, JobId, JobSpec, Library, Program, TenantId, Time, Work, WorkloadId};
pub(crate) use arles_engine::contract::{Ledger, stop};
use arles_engine::{Remote, Virtual, contract, serve};
use arles_sim::measure::Noise;
use arles_sim::truth::Truth;
use arles_sim::world::WorldOptions;
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const BOOT: u64 = 7;
const WORKLOADS: u32 = 3;

/// Two kinds, in the shape that the contract asks for.
pub(crate) fn cluster() -> Cluster {
    let kinds = ["a100", "v100"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let nodes = contract::GPUS.iter().zip(0..).map(|(&(gpus, kind), n)| (format!("n{n}"), kind, gpus));
    Cluster::new(kinds.to_vec(), nodes).expect("a cluster")
}

pub(crate) fn truth() -> Arc<Truth> {
    let names: Vec<String> =
        Library::builtin().workloads().iter().take(WORKLOADS as usize).map(|w| w.name.clone()).collect();
    Arc::new(Truth::new(cluster().kinds(), &names, None).expect("workloads of the library"))
}

pub(crate) fn world(world_options: WorldOptions) -> Virtual {
    Virtual::new(cluster(), truth(), world_options, Noise::default(), BOOT)
}

/// A path for a socket that nobody else uses.
pub(crate) fn socket() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("arles-engine-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(name)
}

/// Serves a world in a thread of its own, which lives as long as the test.
pub(crate) fn served(world: Virtual, speed: f64, log: impl Write + Send + 'static) -> PathBuf {
    let path = socket();
    let listener = UnixListener::bind(&path).expect("a path of our own");
    std::thread::spawn(move || serve(listener, world, speed, log));
    path
}

/// A served world whose time is what it is told. The name of the socket is taken back once it is connected.
pub(crate) fn remote(world_options: WorldOptions) -> Remote {
    let path = served(world(world_options), 0.0, std::io::sink());
    let mut remote = Remote::connect(&path);
    remote.poll(Time::ZERO).expect("it listens");
    std::fs::remove_file(path).expect("it was made above");
    remote
}

/// A job that takes so many seconds on the fastest kind.
pub(crate) fn job(id: u64, gang: u32, seconds: f64) -> LiveJob {
    let workload = WorkloadId(id as u32 % WORKLOADS);
    let rate = truth().reference_rate(workload, gang, None).expect("it fits somewhere");
    let spec = JobSpec {
        id: JobId(id),
        tenant: TenantId(0),
        workload,
        gang,
        work: Work::Steps(seconds * rate),
        floor: None,
        weight: 1.0,
        restart_seconds: 3.0,
        kinds: Vec::new(),
        arrived: Time::ZERO,
        ..JobSpec::default()
    };
    LiveJob { spec, steps_done: 0.0 }
}

/// The same, as a program that nobody knows.
pub(crate) fn program(id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob {
    let mut job = job(id, gang, seconds);
    let workload = Library::builtin().workloads()[id as usize % WORKLOADS as usize].name.clone();
    let Work::Steps(steps) = job.spec.work else { unreachable!("it has steps") };
    let environment = [
        ("ARLES_VIRTUAL_WORKLOAD", workload),
        ("ARLES_VIRTUAL_STEPS", steps.to_string()),
        ("ARLES_VIRTUAL_EXIT", exit_code.to_string()),
    ];
    let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let command = vec!["python".to_owned(), "train.py".to_owned()];
    job.spec.program = Some(Arc::new(Program { command, environment, ..Program::default() }));
    job.spec.workload = WorkloadId(1000 + id as u32);
    job.spec.work = Work::Open(None);
    job
}

pub(crate) fn start(job: u64, fence: u64, gpus: &[u32]) -> Order {
    contract::start(job, fence, gpus, 240.0)
}

pub(crate) fn at(seconds: f64) -> Time {
    Time::from_seconds(seconds)
}

/// Something that a driver may ask of an engine, sensible or not.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Enrol(LiveJob),
    Roll(Vec<LiveJob>),
    Dismiss(u64),
    Apply(Order),
    News,
    Survey,
}

impl Call {
    /// Asks; everything that came back as text, what concerns meters into the ledger.
    pub(crate) fn ask(&self, engine: &mut dyn Engine, now: Time, ledger: &mut Ledger) -> String {
        let told = match self {
            Call::Enrol(job) => format!("{:?}", engine.add_job(now, job)),
            Call::Roll(live) => {
                let told = engine.sync_jobs(now, live);
                told.iter().flatten().for_each(|meter| ledger.take(meter));
                format!("{told:?}")
            }
            Call::Dismiss(job) => {
                let told = engine.remove_job(now, JobId(*job));
                told.iter().flatten().for_each(|meter| ledger.take(meter));
                format!("{told:?}")
            }
            Call::Apply(order) => format!("{:?}", engine.apply(now, order)),
            Call::News => format!("{:?}", engine.poll(now)),
            Call::Survey => {
                let told = engine.survey(now, Time(now.0 / 2));
                told.iter().for_each(|report| ledger.look(&report.meters));
                format!("{told:?}")
            }
        };
        format!("{told} next {:?}", engine.next_event())
    }
}

fn call() -> impl Strategy<Value = Call> {
    let id = 0..8u64;
    let gang = |id: u64| if id < 5 { 1 } else { 2 };
    let enrolled = move |id: u64, seconds: f64| job(id, gang(id), seconds);
    prop_oneof![
        2 => (id.clone(), 1.0..300.0).prop_map(move |(id, s)| Call::Enrol(enrolled(id, s))),
        1 => vec((id.clone(), 1.0..300.0), 0..8)
            .prop_map(move |jobs| Call::Roll(jobs.into_iter().map(|(id, s)| enrolled(id, s)).collect())),
        1 => id.clone().prop_map(Call::Dismiss),
        9 => (id.clone(), 0..40u64, 0..11u32).prop_map(move |(id, fence, gpu)| {
            let gpus: Vec<u32> = (gpu..gpu + gang(id)).collect();
            Call::Apply(start(id, fence, &gpus))
        }),
        3 => (id, 0..40u64).prop_map(|(id, fence)| Call::Apply(stop(id, fence))),
        1 => Just(Call::News),
        3 => Just(Call::Survey),
    ]
}

pub(crate) fn world_options() -> impl Strategy<Value = WorldOptions> {
    let seconds = prop_oneof![Just(0.0), 1.0..20.0];
    (seconds, 10.0..100.0, any::<bool>()).prop_map(|(checkpoint_seconds, every, unused_off)| WorldOptions {
        checkpoint_seconds,
        checkpoint_every_seconds: every,
        unused_off,
        ..WorldOptions::default()
    })
}

/// Calls with the seconds before them, some negative; and now and then a node that falls or returns.
pub(crate) fn calls() -> impl Strategy<Value = Vec<(f64, Call, Option<u32>)>> {
    vec((-5.0..30.0, call(), proptest::option::weighted(0.1, 0..4u32)), 1..120)
}

/// Fences that grow are the rule; the ones drawn are as often as not old.
pub(crate) fn renew(call: &mut Call, i: usize) {
    if let Call::Apply(Order::Start(start)) = call
        && start.fence.0 % 4 != 0
    {
        start.fence.0 = 40 + i as u64;
    }
}
