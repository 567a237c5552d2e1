//! What a seed stands for: a small cluster, its jobs, and the faults planned for it.

use crate::rng::Rng;
use crate::truth::Truth;
use crate::world::{World, WorldOptions};
use arles_core::allocate::{POLICIES, PolicyEntry};
use arles_core::scheduler::Settings;
use arles_core::{
    Cluster, JobId, JobSpec, Kind, KindId, Library, Node, NodeId, Tenant, TenantId, Time, Work, WorkloadId,
};
use std::sync::Arc;

mod changes;

pub(super) use changes::{Operation, amounts};

/// Time between two decisions.
pub(super) const ROUND_SECONDS: f64 = 60.0;

/// Most that saving, and restarting, may take. A policy that divides time moves gangs every round, and a gang that
/// spends the whole of it on moving never ends.
const MOST_LOST_SECONDS: f64 = 15.0;

/// Something bad that happens at a moment, whatever the scheduler does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum PlannedFault {
    Die(NodeId),
    Return(NodeId),
    CutOff(NodeId),
    Reach(NodeId),
    /// Some running gang slows down to this part of its speed.
    Slow(f64),
    /// Some running gang breaks.
    Crash,
    /// Somebody cancels a job: the one with this number, if there is one.
    Cancel(u64),
    /// Somebody wants the policy at this place in the table.
    Switch(usize),
    /// The daemon's clock jumps by so many seconds.
    Jump(f64),
    /// Somebody changes the cluster, or what a job may do.
    Operate(Operation),
    /// No faults from here on.
    Quiet,
}

/// Everything about a run that is decided before it begins.
pub(super) struct Plan {
    pub(super) cluster: Cluster,
    pub(super) truth: Arc<Truth>,
    pub(super) tenants: Vec<Tenant>,
    pub(super) policy: &'static PolicyEntry,
    pub(super) settings: Settings,
    pub(super) world_options: WorldOptions,
    /// Jobs, by arrival.
    pub(super) jobs: Vec<JobSpec>,
    pub(super) bursts: u64,
    pub(super) planned_faults: Vec<(Time, PlannedFault)>,
    pub(super) quiet_at: Time,
    /// How likely the daemon is killed at an input.
    pub(super) kill: f64,
    /// Whether a killed daemon reads its journal as text.
    pub(super) json: bool,
    /// How likely messages are lost, late or repeated, compared with an hour's run.
    pub(super) link_faults: f64,
    /// Rounds between two times that every job is asked after.
    pub(super) ask_rounds: u64,
    /// Whether a killed daemon reads its journal from the beginning.
    pub(super) replays: bool,
    /// How likely the daemon is killed between the journal and what follows from a change of the cluster or of what a job may do.
    pub(super) kill_in_change: f64,
}

/// How much happens in a run.
struct Size {
    /// Until faults stop; drawn if not said.
    seconds: Option<f64>,
    /// Nodes besides those that are drawn.
    more_nodes: u64,
    /// Number of jobs; drawn if not said.
    jobs: Option<u64>,
    /// Jobs are so many times as long as in an hour's run.
    longer: f64,
    /// So many times as many faults as in an hour's run.
    faults: f64,
    /// Whether there is none of a fault in some runs, so that faults also come one kind at a time.
    some_never: bool,
}

impl Size {
    /// How many of a fault are to be expected, where `never` was drawn or not.
    fn expected(&self, never: bool, most: f64, rng: &mut Rng) -> f64 {
        match (self.some_never, never) {
            (true, true) => 0.0,
            (true, false) => self.faults * most * rng.uniform(),
            (false, _) => self.faults * most * rng.uniform_in(0.5, 1.0),
        }
    }
}

impl Plan {
    /// An hour or two: what most seeds are.
    pub(super) fn draw(seed: u64) -> Self {
        let size = Size { seconds: None, more_nodes: 0, jobs: None, longer: 1.0, faults: 1.0, some_never: true };
        Self::draw_sized(seed, &size, changes::are_drawn(&Rng::new(seed)))
    }

    /// A week of a cluster under load.
    pub(super) fn week(seed: u64) -> Self {
        let size = Size {
            seconds: Some(7.0 * 86_400.0),
            more_nodes: 8,
            jobs: Some(1500),
            longer: 8.0,
            faults: 8.0,
            some_never: false,
        };
        // Every kill reads the whole journal elsewhere; here one reads it in the end.
        let plan = Self::draw_sized(seed, &size, true);
        Self { kill: 0.0, replays: false, kill_in_change: 0.1, link_faults: 0.1, ask_rounds: 20, ..plan }
    }

    fn draw_sized(seed: u64, size: &Size, changes: bool) -> Self {
        let root = Rng::new(seed);
        let mut rng = root.fork("plan");
        let quiet_seconds = size.seconds.unwrap_or(rng.uniform_in(2400.0, 9000.0));
        let mut cluster = draw_cluster(&mut root.fork("cluster"));
        changes::add_nodes(&mut cluster, size.more_nodes, &mut root.fork("more nodes"));
        let (truth, workloads) = draw_truth(cluster.kinds(), &mut root.fork("workloads"));
        let tenants = (0..1 + rng.below(3))
            .map(|i| Tenant { name: format!("tenant{i}"), weight: if rng.chance(0.5) { 1.0 } else { 2.5 } })
            .collect::<Vec<_>>();
        let mut jobs_rng = root.fork("jobs");
        let (mut jobs, bursts) =
            draw_jobs(&cluster, &truth, [workloads, tenants.len() as u64], quiet_seconds, size, &mut jobs_rng);
        let world_options = WorldOptions {
            checkpoint_seconds: if rng.chance(0.5) { 0.0 } else { rng.uniform_in(1.0, MOST_LOST_SECONDS) },
            checkpoint_every_seconds: rng.uniform_in(60.0, 900.0),
            ..WorldOptions::default()
        };
        let mut planned_faults =
            draw_planned_faults(&cluster, jobs.len() as u64, quiet_seconds, size, &mut root.fork("troubles"));
        planned_faults.extend(draw_switches(quiet_seconds, &mut root.fork("switches")));
        if changes {
            let mut rng = root.fork("operations");
            planned_faults.extend(changes::draw_operations(quiet_seconds, size, &mut rng));
            changes::vary_jobs(&mut jobs, &mut root.fork("varied jobs"));
            changes::size_hosts(&mut cluster, &mut root.fork("hosts"));
        }
        planned_faults.sort_by_key(|(at, _)| *at);
        Self {
            planned_faults,
            policy: &POLICIES[rng.below(POLICIES.len() as u64) as usize],
            settings: Settings::with_round(ROUND_SECONDS),
            quiet_at: Time::from_seconds(quiet_seconds),
            kill: if rng.chance(0.4) { 0.0 } else { 0.004 * rng.uniform() },
            json: rng.chance(0.3),
            link_faults: 1.0,
            ask_rounds: 1,
            replays: true,
            kill_in_change: if changes { 0.3 * root.fork("kills in changes").uniform() } else { 0.0 },
            truth: Arc::new(truth),
            cluster,
            tenants,
            world_options,
            jobs,
            bursts,
        }
    }
}

/// Kinds of a world on which a job can really run.
pub(super) fn feasible(job: &JobSpec, world: &World) -> Vec<KindId> {
    let (row, cluster) = (world.truth().alone(job.workload, job.gang), world.cluster());
    let may = |k: &KindId| job.kinds.is_empty() || job.kinds.contains(k);
    let memory = |k: &KindId| cluster.kind(*k).memory_gib >= job.needs.gpu_memory_gib;
    let room =
        |k: &KindId| cluster.present().filter(|(_, node)| node.kind == *k).map(|(_, node)| seats(node, job)).sum();
    let fits = |k: &KindId| row[k.index()].is_some() && memory(k) && Some(job.gang) <= Some(room(k));
    (0..cluster.kinds().len() as u16).map(KindId).filter(may).filter(fits).collect()
}

/// GPUs of an empty node that a job could have.
fn seats(node: &Node, job: &JobSpec) -> u32 {
    let room = |most: Option<f64>, each: f64| match most {
        Some(most) if each > 0.0 => (most / each * (1.0 + 1e-9)).floor() as u32,
        _ => u32::MAX,
    };
    let cpus = room(node.cpus, job.needs.cpus_per_gpu);
    node.gpus.min(cpus).min(room(node.memory_gib, job.needs.memory_gib_per_gpu))
}

fn draw_cluster(rng: &mut Rng) -> Cluster {
    let library = Library::builtin().kinds();
    let mut kinds: Vec<Kind> = Vec::new();
    let wanted = 2 + rng.below(3) as usize;
    while kinds.len() < wanted {
        let mut kind = library[rng.below(library.len() as u64) as usize].clone();
        if rng.chance(0.2) {
            kind.max_jobs = 1;
        }
        if kinds.iter().all(|k| k.name != kind.name) {
            kinds.push(kind);
        }
    }
    let nodes = wanted as u64 + rng.below(13 - wanted as u64);
    let nodes = (0..nodes).map(|n| {
        let kind = if (n as usize) < wanted { n } else { rng.below(wanted as u64) };
        let gpus = [1, 2, 4, 4, 8][rng.below(5) as usize];
        (format!("n{n}"), KindId(kind as u16), gpus)
    });
    Cluster::new(kinds, nodes.collect::<Vec<_>>()).expect("names are unique and kinds are known")
}

fn draw_truth(kinds: &[Kind], rng: &mut Rng) -> (Truth, u64) {
    let library = Library::builtin().workloads();
    let count = 3 + rng.below(5);
    let names: Vec<String> =
        (0..count).map(|_| library[rng.below(library.len() as u64) as usize].name.clone()).collect();
    (Truth::new(kinds, &names, None).expect("names are the library's own"), count)
}

fn draw_jobs(
    cluster: &Cluster,
    truth: &Truth,
    [workloads, tenants]: [u64; 2],
    quiet_seconds: f64,
    size: &Size,
    rng: &mut Rng,
) -> (Vec<JobSpec>, u64) {
    let count = size.jobs.unwrap_or_else(|| 10 + rng.below(71));
    let (mut bursts, mut burst_left) = (0, 0);
    let mut at = 0.0;
    let mut jobs = Vec::new();
    for id in 1..=count {
        if burst_left > 0 {
            burst_left -= 1;
        } else if rng.chance(0.05) {
            bursts += 1;
            burst_left = 3 + rng.below(12);
        } else {
            at += rng.exponential(0.7 * quiet_seconds / count as f64);
        }
        let workload = WorkloadId(rng.below(workloads) as u32);
        let gang = [1, 1, 1, 1, 1, 2, 2, 4, 8, 16][rng.below(10) as usize];
        let rate = truth.reference_rate(workload, gang, None).unwrap_or(1.0);
        let seconds = size.longer * (300.0 * rng.log_normal(0.0, 1.0)).clamp(20.0, 3000.0);
        let some_kind = KindId(rng.below(cluster.kinds().len() as u64) as u16);
        jobs.push(JobSpec {
            id: JobId(id),
            tenant: TenantId(rng.below(tenants) as u32),
            workload,
            gang,
            work: if rng.chance(0.1) { Work::Period(seconds) } else { Work::Steps(seconds * rate) },
            floor: rng.chance(0.2).then_some(0.3 * rate),
            weight: if rng.chance(0.8) { 1.0 } else { 3.0 },
            restart_seconds: if rng.chance(0.3) { 0.0 } else { rng.uniform_in(1.0, MOST_LOST_SECONDS) },
            kinds: if rng.chance(0.1) { vec![some_kind] } else { Vec::new() },
            arrived: Time::from_seconds(at),
            largest_gang: id.is_multiple_of(5).then_some(2 * gang),
            ..JobSpec::default()
        });
    }
    (jobs, bursts)
}

/// Changes of the policy: none in half of the runs.
fn draw_switches(quiet_seconds: f64, rng: &mut Rng) -> Vec<(Time, PlannedFault)> {
    let switches = if rng.chance(0.5) { 0 } else { 1 + rng.below(4) };
    let switch = |_| {
        let at = Time::from_seconds(rng.uniform_in(0.0, quiet_seconds));
        (at, PlannedFault::Switch(rng.below(POLICIES.len() as u64) as usize))
    };
    (0..switches).map(switch).collect()
}

fn draw_planned_faults(
    cluster: &Cluster,
    jobs: u64,
    quiet_seconds: f64,
    size: &Size,
    rng: &mut Rng,
) -> Vec<(Time, PlannedFault)> {
    let mut planned_faults = vec![(Time::from_seconds(quiet_seconds), PlannedFault::Quiet)];
    let end = quiet_seconds;
    // How many of each are expected; often none at all, so that faults also come one kind at a time.
    let times = |most: f64, rng: &mut Rng| {
        let expected = size.expected(rng.chance(0.3), most, rng);
        let mut at = 0.0;
        std::iter::from_fn(|| {
            at += rng.exponential(end / expected);
            (at < end).then_some(at)
        })
        .collect::<Vec<f64>>()
    };
    let nodes = cluster.nodes().len() as u64;
    let mut away = |begin: fn(NodeId) -> PlannedFault, finish: fn(NodeId) -> PlannedFault, rng: &mut Rng| {
        for at in times(6.0, rng) {
            let node = NodeId(rng.below(nodes) as u32);
            let back = at + rng.exponential(400.0);
            planned_faults.push((Time::from_seconds(at), begin(node)));
            planned_faults.push((Time::from_seconds(back.min(end)), finish(node)));
        }
    };
    away(PlannedFault::Die, PlannedFault::Return, rng);
    away(PlannedFault::CutOff, PlannedFault::Reach, rng);
    let soon = |at: f64, planned: PlannedFault| (Time::from_seconds(at), planned);
    for at in times(8.0, rng) {
        planned_faults.push(soon(at, PlannedFault::Slow(rng.uniform_in(0.1, 0.8))));
    }
    planned_faults.extend(times(12.0, rng).into_iter().map(|at| soon(at, PlannedFault::Crash)));
    for at in times(10.0, rng) {
        planned_faults.push(soon(at, PlannedFault::Cancel(1 + rng.below(jobs + jobs / 5 + 1))));
    }
    let mut last = f64::NEG_INFINITY;
    for at in times(4.0, rng) {
        // A clock that is set more often than once in a lease is no clock.
        if at - last > 600.0 {
            let size = 2000.0 * rng.uniform().powi(2);
            planned_faults.push(soon(at, PlannedFault::Jump(if rng.chance(0.5) { size } else { -size })));
            last = at;
        }
    }
    planned_faults.sort_by_key(|(at, _)| *at);
    planned_faults
}
