//! The Slurm engine against a real Slurm: slurmctld and six slurmd of three kinds, from `e2e/slurm/cluster`.

#[path = "support/slurm.rs"]
mod support;

use arles_core::engine::{Engine, LiveJob, Mandate};
use arles_core::{Cluster, JobId, JobSpec, Library, Program, Script, Time, Work};
use arles_engine::contract::{self, Testbed};
use std::sync::Arc;
use std::sync::Mutex;
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
const UNIT_SECONDS: f64 = 0.25;
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
    let cases = Mutex::new(contract::CASES.iter().filter(chosen));
    std::thread::scope(|scope| {
        for _ in 0..CLUSTERS {
            scope.spawn(|| {
                let slurm = RealSlurm::start(&NODES);
                loop {
                    let Some(case) = cases.lock().map_or(None, |mut cases| cases.next()) else { break };
                    let began = Instant::now();
                    case.run(&mut Bed { slurm: &slurm, began });
                    println!("{} took {:.1} s", case.name, began.elapsed().as_secs_f64());
                    slurm.cancel_everything();
                }
            });
        }
    });
}
