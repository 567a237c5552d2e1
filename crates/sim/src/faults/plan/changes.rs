//! What people do to the cluster and ask of jobs: nodes come and go, GPUs are lost, jobs are held, wait for each other and form arrays.
//!
//! Drawn from streams of its own, and not in every seed: a seed without changes is the same as it was before there were any.

use super::{PlannedFault, Size};
use crate::rng::Rng;
use arles_core::{
    ArrayTask, Cluster, ClusterChange, Dependency, JobId, JobSpec, Needs, NodeSpec, Outcome, Program, Time, Work,
};
use std::sync::Arc;

/// How likely a seed has changes.
const CHANGING: f64 = 0.8;

/// Something that an operator does, or that happens to a GPU. Which node or job it concerns is decided when it happens: by then the
/// cluster is another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in super::super) enum Operation {
    /// A new node.
    Join,
    /// A node leaves and comes back under its name with other GPUs, by one input.
    Replace,
    /// A node has other CPUs and memory.
    Resize,
    Remove,
    /// To be empty after so many seconds, if that is said.
    Drain(Option<f64>),
    Undrain,
    LoseGpu,
    ReturnGpu,
    Correct,
    /// A change that makes no sense.
    Nonsense,
    Hold,
    Release,
}

/// Whether the seed's cluster changes.
pub(super) fn are_drawn(root: &Rng) -> bool {
    root.fork("changes").chance(CHANGING)
}

/// Further nodes of the kinds that there are.
pub(super) fn add_nodes(cluster: &mut Cluster, nodes: u64, rng: &mut Rng) {
    for n in 0..nodes {
        let kind = cluster.kinds()[rng.below(cluster.kinds().len() as u64) as usize].clone();
        let spec = NodeSpec { name: format!("k{n}"), kind, gpus: 4, cpus: None, memory_gib: None, rack: None };
        cluster.apply(&ClusterChange::Join(spec)).expect("a new node of a kind that is there");
    }
}

/// CPUs and memory for some of the nodes.
pub(super) fn size_hosts(cluster: &mut Cluster, rng: &mut Rng) {
    let specs: Vec<NodeSpec> = cluster.present().map(|(_, node)| host(cluster, node, rng)).collect();
    for spec in specs {
        cluster.apply(&ClusterChange::Join(spec)).expect("the same node with CPUs and memory");
    }
}

fn host(cluster: &Cluster, node: &arles_core::Node, rng: &mut Rng) -> NodeSpec {
    let [cpus, memory_gib] = amounts(node.gpus, rng);
    NodeSpec {
        name: node.name.clone(),
        kind: cluster.kind(node.kind).clone(),
        gpus: node.gpus,
        cpus,
        memory_gib,
        rack: None,
    }
}

/// CPUs and memory of a node with so many GPUs, where somebody counts them.
pub(in super::super) fn amounts(gpus: u32, rng: &mut Rng) -> [Option<f64>; 2] {
    let mut amount =
        |each: [f64; 3]| rng.chance(0.6).then(|| f64::from(gpus) * each[rng.below(each.len() as u64) as usize]);
    [amount([2.0, 6.0, 12.0]), amount([16.0, 48.0, 96.0])]
}

pub(super) fn draw_operations(quiet_seconds: f64, size: &Size, rng: &mut Rng) -> Vec<(Time, PlannedFault)> {
    let mut planned = Vec::new();
    let mut add = |most: f64, draw: &dyn Fn(&mut Rng) -> Operation, rng: &mut Rng| {
        let expected = size.expected(rng.chance(0.25), most, rng);
        let mut at = 0.0;
        loop {
            at += rng.exponential(quiet_seconds / expected);
            if at >= quiet_seconds || expected == 0.0 {
                break;
            }
            planned.push((Time::from_seconds(at), PlannedFault::Operate(draw(rng))));
        }
    };
    let often: [(f64, Operation); 10] = [
        (5.0, Operation::Join),
        (3.0, Operation::Replace),
        (3.0, Operation::Resize),
        (4.0, Operation::Remove),
        (7.0, Operation::Undrain),
        (6.0, Operation::LoseGpu),
        (6.0, Operation::ReturnGpu),
        (3.0, Operation::Correct),
        (2.0, Operation::Nonsense),
        (8.0, Operation::Hold),
    ];
    for (most, operation) in often {
        add(most, &|_| operation, rng);
    }
    add(8.0, &|_| Operation::Release, rng);
    let drain = |rng: &mut Rng| Operation::Drain(rng.chance(0.6).then(|| rng.uniform_in(0.0, 1500.0)));
    add(8.0, &drain, rng);
    planned
}

/// Gives some jobs programs, needs, limits and other jobs to wait for, and adds arrays.
pub(super) fn vary_jobs(jobs: &mut Vec<JobSpec>, rng: &mut Rng) {
    for i in 0..jobs.len() {
        let earlier: Vec<JobId> = jobs[..i].iter().map(|job| job.id).collect();
        let job = &mut jobs[i];
        if rng.chance(0.12) {
            job.work = Work::Open(rng.chance(0.5).then(|| rng.uniform_in(10.0, 10_000.0)));
        }
        if rng.chance(0.2) {
            job.program = Some(Arc::new(program(rng)));
        }
        if rng.chance(0.2) {
            job.needs = needs(rng);
        }
        if rng.chance(0.1) {
            job.time_limit_seconds = Some(rng.uniform_in(200.0, 4000.0));
        }
        if rng.chance(0.1) {
            job.most_failures = Some(1 + rng.below(3) as u32);
        }
        job.held = rng.chance(0.05);
        if rng.chance(0.12) && !earlier.is_empty() {
            let one = |_| {
                let job = earlier[rng.below(earlier.len() as u64) as usize];
                Dependency { job, outcome: [Outcome::Ok, Outcome::NotOk, Outcome::Any][rng.below(3) as usize] }
            };
            job.after = (0..1 + earlier.len().min(2)).map(one).collect();
        }
    }
    for _ in 0..rng.below(3) {
        add_array(jobs, rng);
    }
}

/// Tasks are alike, so that either all of them can run or none.
fn add_array(jobs: &mut Vec<JobSpec>, rng: &mut Rng) {
    let like = jobs[rng.below(jobs.len() as u64) as usize].clone();
    let (first, at_most) = (jobs.len() as u64 + 1, 1 + rng.below(4) as u32);
    for index in 0..3 + rng.below(8) {
        let id = JobId(first + index);
        let array = Some(ArrayTask { array: JobId(first), index: index as u32, at_most });
        jobs.push(JobSpec { id, array, held: rng.chance(0.05), ..like.clone() });
    }
}

fn program(rng: &mut Rng) -> Program {
    let mut environment = std::collections::BTreeMap::new();
    if rng.chance(0.2) {
        environment.insert("ARLES_VIRTUAL_EXIT".to_owned(), (1 + rng.below(5)).to_string());
    }
    let command = vec!["python".to_owned(), format!("train{}.py", rng.below(5))];
    Program { command, environment, ..Program::default() }
}

fn needs(rng: &mut Rng) -> Needs {
    Needs {
        cpus_per_gpu: [0.0, 1.0, 4.0, 8.0][rng.below(4) as usize],
        memory_gib_per_gpu: [0.0, 10.0, 40.0][rng.below(3) as usize],
        gpu_memory_gib: [0.0, 0.0, 12.0, 30.0][rng.below(4) as usize],
    }
}
