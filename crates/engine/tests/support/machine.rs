//! This machine as an engine, for tests: declared GPUs, real processes.
// Every test binary compiles all of it and uses a part.
#![allow(dead_code, reason = "each test file uses what it needs")]

use arles_core::engine::{Engine, LiveJob};
use arles_core::scheduler::GangReport;
use arles_core::{Cluster, JobId, JobSpec, Library, Program, Script, Time};
use arles_engine::{Local, LocalOptions, Nominal, OutputLimits, Sharing, contract};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("arles-local-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(name)
}

pub(crate) fn cluster() -> Cluster {
    let kinds = ["a100", "v100"].map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let nodes = contract::GPUS.iter().zip(0..).map(|(&(gpus, kind), n)| (format!("n{n}"), kind, gpus));
    Cluster::new(kinds.to_vec(), nodes).expect("a cluster")
}

pub(crate) fn options(folder: &Path) -> LocalOptions {
    LocalOptions {
        state: folder.join("gangs"),
        logs: folder.join("logs"),
        output: OutputLimits::default(),
        shim: vec![env!("CARGO_BIN_EXE_arles-shim").to_owned()],
        control_groups: true,
        sharing: Sharing::TimeSlicing,
        grace_seconds: 5.0,
        devices: BTreeMap::new(),
        environment: BTreeMap::new(),
        boot: 1,
    }
}

pub(crate) fn open(folder: &Path) -> Local {
    Local::open(cluster(), options(folder), Box::new(Nominal)).expect("the folder can be used")
}

pub(crate) fn job_of(id: u64, gang: u32, program: Program) -> LiveJob {
    let spec = JobSpec { id: JobId(id), gang, program: Some(Arc::new(program)), ..JobSpec::default() };
    LiveJob { spec, steps_done: 0.0 }
}

pub(crate) fn shell(text: &str) -> Program {
    Program { script: Some(Script { name: "job.sh".into(), text: text.into() }), ..Program::default() }
}

/// Waits until the engine tells how gangs of these jobs ended.
pub(crate) fn told<const N: usize>(engine: &mut Local, jobs: [u64; N]) -> [GangReport; N] {
    let (began, mut heard) = (Instant::now(), Vec::<GangReport>::new());
    while began.elapsed() < Duration::from_secs(60) {
        let now = Time::from_seconds(began.elapsed().as_secs_f64() + 10.0);
        heard.extend(engine.poll(now).expect("it answers"));
        let of = |job: u64| heard.iter().find(|report| report.job == JobId(job)).cloned();
        if jobs.iter().all(|&job| of(job).is_some()) {
            return jobs.map(|job| of(job).expect("just seen"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing was heard of some of {jobs:?}, but of {heard:?}");
}
