//! A cluster that changes under load, and jobs that need CPUs and memory, seen from outside: this engine keeps its own account of who is
//! where, and checks every start against it.

use arles_core::allocate::find_policy;
use arles_core::drive::Solver;
use arles_core::estimate::{Estimate, RateQuery, RateRow, Source};
use arles_core::scheduler::{
    Event, Fence, GangEvent, GangReport, GangState, ObservedGang, ObservedNode, Order, Settings, Start, Survey,
};
use arles_core::{
    Cluster, ClusterChange, GpuId, Input, JobId, JobSpec, Kind, Library, Needs, NodeSpec, Output, Scheduler, Tenant,
    Time, Work, WorkloadId,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const POLICIES: [&str; 7] = ["fifo", "max-min-fairness", "oef-coop", "fair-energy", "max-min-packed", "gogh", "las"];
const KINDS: [&str; 3] = ["v100", "p100", "t4"];
const ROUND: f64 = 60.0;

fn kind(name: &str) -> Kind {
    Library::builtin().kind(name).expect("in the library").clone()
}

fn job(id: u64, workload: u32, gang: u32) -> JobSpec {
    let (id, workload, arrived) = (JobId(id), WorkloadId(workload), Time(id));
    JobSpec { id, workload, gang, arrived, work: Work::Steps(1e12), ..JobSpec::default() }
}

/// What happens next; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Deed {
    Submit {
        gang: u32,
        cpus: u32,
        memory: u32,
    },
    Round,
    /// Stops are answered only now, the oldest first.
    AnswerStops(usize),
    Finish(usize),
    Cancel(u64),
    Join {
        name: u32,
        kind: usize,
        gpus: u32,
        cpus: Option<u32>,
        memory: Option<u32>,
    },
    Other {
        name: u32,
        what: u32,
        number: u32,
    },
}

fn deed() -> impl Strategy<Value = Deed> {
    let amount = || prop::option::of(0u32..40);
    prop_oneof![
        5 => (1u32..5, 0u32..9, 0u32..9).prop_map(|(gang, cpus, memory)| Deed::Submit { gang, cpus, memory }),
        8 => Just(Deed::Round),
        6 => (0usize..4).prop_map(Deed::AnswerStops),
        2 => (0usize..6).prop_map(Deed::Finish),
        1 => (1u64..30).prop_map(Deed::Cancel),
        2 => (0u32..5, 0usize..3, 1u32..5, amount(), amount())
            .prop_map(|(name, kind, gpus, cpus, memory)| Deed::Join { name, kind, gpus, cpus, memory }),
        3 => (0u32..5, 0u32..7, 0u32..4).prop_map(|(name, what, number)| Deed::Other { name, what, number }),
    ]
}

struct World {
    scheduler: Scheduler,
    solver: Solver,
    clock: Time,
    cluster: Cluster,
    submitted: u64,
    needs: BTreeMap<JobId, Needs>,
    /// GPUs that jobs can use.
    ranges: BTreeMap<JobId, std::ops::RangeInclusive<u32>>,
    running: BTreeMap<(JobId, Fence), Vec<GpuId>>,
    stops: VecDeque<(JobId, Fence)>,
    /// GPUs that must not be given out.
    drained: BTreeSet<String>,
    lost: BTreeSet<GpuId>,
}

impl World {
    fn new(policy: usize) -> Self {
        let kinds = KINDS[..2].iter().map(|name| kind(name)).collect();
        let cluster = Cluster::uniform(kinds, &[6, 4], 2).expect("a cluster");
        let tenants = vec![Tenant { name: "default".into(), weight: 1.0 }];
        let entry = find_policy(POLICIES[policy]).expect("in the table");
        Self {
            scheduler: Scheduler::new(cluster.clone(), tenants, entry, Settings::with_round(ROUND)),
            solver: Solver::default(),
            clock: Time::from_seconds(1000.0),
            cluster,
            submitted: 0,
            needs: BTreeMap::new(),
            ranges: BTreeMap::new(),
            running: BTreeMap::new(),
            stops: VecDeque::new(),
            drained: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    fn tell(&mut self, input: Input) -> Result<(), TestCaseError> {
        let mut queue = VecDeque::from([input]);
        while let Some(input) = queue.pop_front() {
            for output in self.scheduler.step(self.clock, &input) {
                match output {
                    Output::Solve(problem) => {
                        let answer = self.solver.solve(&problem, self.scheduler.policy());
                        queue.push_back(Input::Allocated(problem.round, answer));
                    }
                    Output::Estimate(ask) => queue.push_back(Input::Estimated(vec![self.row(ask)])),
                    Output::Order(Order::Start(start)) => {
                        self.start(&start)?;
                        queue.push_back(Input::Reported(GangReport::new(start.job, start.fence, GangEvent::Started)));
                    }
                    Output::Order(Order::Stop { job, fence }) => self.stops.push_back((job, fence)),
                    Output::Cluster(cluster) => prop_assert_eq!(&*cluster, self.scheduler.cluster()),
                    Output::Note(Event::BadPlan { why, .. }) => prop_assert!(false, "{}", why),
                    Output::Note(_) => {}
                }
            }
        }
        Ok(())
    }

    fn row(&self, ask: RateQuery) -> RateRow {
        let cell = |j: usize| {
            let rate = f64::from(ask.gang) * (1.0 + j as f64 / 2.0);
            let partner_rate = if ask.partner.is_some() { 0.7 } else { 0.0 };
            let (spread_rate, watts, standard_error, source) = (0.8 * rate, 200.0, 0.0, Source::Measured);
            Some(Estimate { rate, spread_rate, racks_rate: 0.0, partner_rate, watts, standard_error, source })
        };
        RateRow { ask, cells: (0..self.scheduler.cluster().kinds().len()).map(cell).collect() }
    }

    /// Checks a start against this engine's own account, and does it.
    fn start(&mut self, start: &Start) -> Result<(), TestCaseError> {
        let asked = self.ranges.get(&start.job).is_none_or(|range| range.contains(&(start.gpus.len() as u32)));
        prop_assert!(asked, "{:?} is not of a size that was asked for", start);
        for gpu in &start.gpus {
            let node = self.cluster.node(self.cluster.node_of(*gpu));
            prop_assert!(!node.removed, "{} was sent to '{}', which has left", start.job, node.name);
            prop_assert!(!self.drained.contains(&node.name), "{} was sent to '{}', which drains", start.job, node.name);
            prop_assert!(!self.lost.contains(gpu), "{} was sent to {}, which is lost", start.job, gpu);
            prop_assert_eq!(self.cluster.kind_of(*gpu), start.kind);
        }
        if self.running.insert((start.job, start.fence), start.gpus.clone()).is_some() {
            return Ok(());
        }
        prop_assert_eq!(
            self.running.keys().filter(|(job, _)| *job == start.job).count(),
            1,
            "{} runs twice",
            start.job
        );
        let own = self.needs[&start.job];
        for gpu in &start.gpus {
            let id = self.cluster.node_of(*gpu);
            let node = self.cluster.node(id);
            let (mut cpus, mut memory) = (0.0, 0.0);
            for ((job, _), gpus) in &self.running {
                let there = gpus.iter().filter(|gpu| self.cluster.node_of(**gpu) == id).count() as f64;
                cpus += there * self.needs[job].cpus_per_gpu;
                memory += there * self.needs[job].memory_gib_per_gpu;
            }
            let fits = |has: Option<f64>, used: f64, need: f64| need <= 0.0 || has.is_none_or(|has| used <= has + 1e-3);
            prop_assert!(fits(node.cpus, cpus, own.cpus_per_gpu), "{} CPUs of {:?} are used", cpus, node);
            prop_assert!(
                fits(node.memory_gib, memory, own.memory_gib_per_gpu),
                "{} GiB of {:?} are used",
                memory,
                node
            );
        }
        Ok(())
    }

    fn answer_stop(&mut self) -> Result<(), TestCaseError> {
        let Some((job, fence)) = self.stops.pop_front() else { return Ok(()) };
        self.running.remove(&(job, fence));
        self.tell(Input::Reported(GangReport::new(job, fence, GangEvent::Stopped(1.0))))
    }

    fn round(&mut self) -> Result<(), TestCaseError> {
        self.clock = self.clock.after(1.0);
        let nodes = self.cluster.present().map(|(node, _)| ObservedNode { node, up: true }).collect();
        let seen = |(&(job, fence), gpus): (&(JobId, Fence), &Vec<GpuId>)| ObservedGang {
            job,
            fence,
            gpus: gpus.clone(),
            steps_done: 0.0,
            state: GangState::Running,
        };
        let gangs = self.running.iter().map(seen).collect();
        let at = self.scheduler.now().max(self.clock);
        self.tell(Input::Surveyed(Survey { at, nodes, gangs }))?;
        self.clock = self.clock.after(ROUND - 1.0);
        self.tell(Input::Tick)
    }

    fn change(&mut self, change: ClusterChange) -> Result<(), TestCaseError> {
        if self.cluster.apply(&change).is_ok() {
            let node = |name: &str| self.cluster.node(self.cluster.find(name).expect("it is there"));
            match &change {
                ClusterChange::Drain { node, .. } => drop(self.drained.insert(node.clone())),
                ClusterChange::Undrain { node } | ClusterChange::Remove { node, .. } => drop(self.drained.remove(node)),
                ClusterChange::GpusLost { node: name, gpus, .. } => {
                    let first = node(name).first_gpu.0;
                    self.lost.extend(gpus.iter().map(|gpu| GpuId(first + gpu)));
                }
                ClusterChange::GpusBack { node: name, gpus } => {
                    let first = node(name).first_gpu.0;
                    self.lost.retain(|gpu| !gpus.iter().any(|lost| gpu.0 == first + lost));
                }
                // A node with other GPUs is another node.
                ClusterChange::Join(spec) => {
                    let id = self.cluster.find(&spec.name).expect("it is there");
                    if id.index() + 1 == self.cluster.nodes().len()
                        && self.scheduler.cluster().nodes().len() <= id.index()
                    {
                        self.drained.remove(&spec.name);
                    }
                }
                ClusterChange::CorrectKind { .. } | ClusterChange::AddMode { .. } => {}
            }
        }
        // A node that has left is not asked any more, so its lease ends what runs there.
        let cluster = &self.cluster;
        self.running.retain(|_, gpus| gpus.iter().all(|gpu| !cluster.node(cluster.node_of(*gpu)).removed));
        self.tell(Input::Cluster(change))?;
        prop_assert_eq!(&self.cluster, self.scheduler.cluster());
        Ok(())
    }

    fn name(&self, which: u32) -> String {
        let present: Vec<&str> = self.cluster.present().map(|(_, node)| node.name.as_str()).collect();
        present.get(which as usize).map_or_else(|| format!("new-{which}"), |name| (*name).to_owned())
    }

    fn finish(&mut self, which: usize) -> Result<(), TestCaseError> {
        let Some(&(job, fence)) = self.running.keys().nth(which) else { return Ok(()) };
        self.running.remove(&(job, fence));
        self.tell(Input::Reported(GangReport::new(job, fence, GangEvent::Finished)))
    }

    fn take(&mut self, deed: &Deed) -> Result<(), TestCaseError> {
        match *deed {
            Deed::Submit { gang, cpus, memory } => {
                self.submitted += 1;
                let (cpus_per_gpu, memory_gib_per_gpu) = (f64::from(cpus) * 0.7, f64::from(memory) * 1.1);
                let needs = Needs { cpus_per_gpu, memory_gib_per_gpu, gpu_memory_gib: 0.0 };
                let largest_gang = self.submitted.is_multiple_of(3).then_some(gang + 2);
                let spec = JobSpec { needs, largest_gang, ..job(self.submitted, gang, gang) };
                self.needs.insert(spec.id, needs);
                self.ranges.insert(spec.id, spec.gang..=spec.most_gpus());
                self.tell(Input::Submit(spec))
            }
            Deed::Round => self.round(),
            Deed::AnswerStops(most) => (0..most).try_for_each(|_| self.answer_stop()),
            Deed::Finish(which) => self.finish(which),
            Deed::Cancel(id) => self.tell(Input::Cancel(JobId(id))),
            Deed::Join { name, kind: of, gpus, cpus, memory } => {
                let (cpus, memory_gib) = (cpus.map(f64::from), memory.map(f64::from));
                let name = self.name(name);
                self.change(ClusterChange::Join(NodeSpec {
                    name,
                    kind: kind(KINDS[of]),
                    gpus,
                    cpus,
                    memory_gib,
                    rack: None,
                }))
            }
            Deed::Other { name, what, number } => {
                let (node, why) = (self.name(name), "why not".to_owned());
                self.change(match what {
                    0 => ClusterChange::Remove { node, why },
                    1 => ClusterChange::Drain { node, why, deadline: None },
                    2 => ClusterChange::Drain { node, why, deadline: Some(self.clock.after(200.0)) },
                    3 => ClusterChange::Undrain { node },
                    4 => ClusterChange::GpusLost { node, gpus: vec![number], why },
                    5 => ClusterChange::GpusBack { node, gpus: vec![number] },
                    _ => ClusterChange::CorrectKind { node, kind: kind(KINDS[number as usize % 3]) },
                })
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever changes: no start on what is drained, lost or gone, no job twice, no node beyond its CPUs and memory while stops take
    /// their time, no plan that breaks a rule. And once there is room for everybody, everybody runs.
    #[test]
    fn nothing_starts_where_it_must_not(
        policy in 0usize..POLICIES.len(),
        deeds in prop::collection::vec(deed(), 10..120),
    ) {
        let mut world = World::new(policy);
        world.round()?;
        for deed in &deeds {
            world.take(deed)?;
        }
        let last = NodeSpec { name: "last".into(), kind: kind("v100"), gpus: 8, cpus: Some(400.0), memory_gib: Some(400.0), rack: None };
        world.change(ClusterChange::Join(last))?;
        for _ in 0..100 {
            while !world.stops.is_empty() {
                world.answer_stop()?;
            }
            world.round()?;
            while !world.running.is_empty() {
                world.finish(0)?;
            }
        }
        let waiting: Vec<String> =
            world.scheduler.live().map(|id| format!("{id} {}", world.scheduler.explain(id))).collect();
        prop_assert!(waiting.is_empty(), "{waiting:?}");
    }
}

#[test]
fn a_job_waits_for_cpus_and_says_so() {
    let mut world = World::new(0);
    for name in ["v100-000", "v100-001", "v100-002", "p100-000", "p100-001"] {
        let of = &name[..4];
        let spec =
            NodeSpec { name: name.into(), kind: kind(of), gpus: 2, cpus: Some(8.0), memory_gib: None, rack: None };
        world.change(ClusterChange::Join(spec)).expect("safe");
    }
    let submit = |world: &mut World, id: u64, gang: u32, cpus_per_gpu: f64| {
        let needs = Needs { cpus_per_gpu, ..Needs::default() };
        world.needs.insert(JobId(id), needs);
        world.tell(Input::Submit(JobSpec { needs, ..job(id, 0, gang) })).expect("safe");
    };
    // One of these fits on a node, whatever its GPUs: five nodes, five jobs.
    (1..=6).for_each(|id| submit(&mut world, id, 1, 6.0));
    submit(&mut world, 7, 1, 9.0);
    submit(&mut world, 8, 6, 6.0);
    submit(&mut world, 9, 1, 2.0);
    world.round().expect("safe");
    world.round().expect("safe");
    let explain = |id: u64| world.scheduler.explain(JobId(id)).to_string();
    assert_eq!(world.running.len(), 6, "five that share no node, and the small one beside them: {}", explain(9));
    let waiting: Vec<u64> = (1..=6).filter(|&id| explain(id).starts_with("waits")).collect();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    let full = "waits: needs 1 GPU with 6 CPUs for each; GPUs are free, but on nodes without that";
    assert_eq!(explain(waiting[0]), full);
    let too_much = "waits: needs 9 CPUs for each GPU, which no node with v100, p100 has; \
                    ask for less or allow other GPU kinds";
    assert_eq!(explain(7), too_much);
    assert_eq!(
        explain(8),
        "waits: needs 6 CPUs for each GPU, which no node with v100, p100 has; ask for less or allow other GPU kinds"
    );
}

#[test]
fn kinds_with_too_little_memory_are_not_for_a_job() {
    let mut world = World::new(1);
    let mut spec = job(1, 0, 1);
    spec.needs.gpu_memory_gib = kind("v100").memory_gib + 1.0;
    world.needs.insert(JobId(1), spec.needs);
    world.tell(Input::Submit(spec)).expect("safe");
    world.round().expect("safe");
    world.round().expect("safe");
    assert!(world.running.is_empty());
    let a100 =
        NodeSpec { name: "big".into(), kind: kind("a100-80gb"), gpus: 1, cpus: None, memory_gib: None, rack: None };
    world.change(ClusterChange::Join(a100)).expect("safe");
    world.round().expect("safe");
    world.round().expect("safe");
    assert_eq!(world.running.values().next().expect("it runs"), &[GpuId(10)]);
}
