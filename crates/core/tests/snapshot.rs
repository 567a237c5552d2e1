//! A scheduler written down and read back goes on as if nothing had happened, and one that takes in surveys in parts as one that takes them in whole.

#[path = "common/nouns.rs"]
mod nouns;

use arles_core::allocate::{POLICIES, Problem, find_policy};
use arles_core::estimate::{Estimate, RateQuery, RateRow, Source};
use arles_core::scheduler::{
    GangEvent, GangReport, GangState, ObservedGang, ObservedNode, Order, Settings, Start, Survey, Verdict,
};
use arles_core::{
    ArrayTask, ClusterChange, Dependency, Input, JobId, JobSpec, KindId, Library, Needs, NodeId, NodeSpec, Outcome,
    Output, Scheduler, Tenant, TenantId, Time, Work,
};
use nouns::{cluster, job};
use proptest::prelude::*;
use std::sync::Arc;

const NAMES: [&str; 6] = ["oef-coop", "fair-energy", "gogh", "max-min-packed", "fifo", "las"];

/// What happens next; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Deed {
    Submit { workload: u32, gang: u32, tenant: u32, floor: bool, period: bool, pinned: bool },
    Cancel(u64),
    Tick { seconds: f64 },
    AnswerSolver { late: bool },
    AnswerEstimator { most: usize },
    Report { which: usize, event: u8 },
    Refuse { which: usize },
    Survey { without: u32, lost: usize },
    Policy(usize),
    Tenant { which: u32, weight: f64 },
    Cluster { which: u32, name: u32, number: u32 },
    Hold(u64),
    Release(u64),
    Checkpointed(u64, f64),
    WriteDown,
}

fn deed() -> impl Strategy<Value = Deed> {
    let submit = (0u32..4, prop::sample::select(&[1u32, 1, 1, 2, 4][..]), 0u32..3, any::<[bool; 3]>()).prop_map(
        |(workload, gang, tenant, [floor, period, pinned])| Deed::Submit {
            workload,
            gang,
            tenant,
            floor,
            period,
            pinned,
        },
    );
    prop_oneof![
        8 => submit,
        2 => (0u64..40).prop_map(Deed::Cancel),
        8 => (1.0..90.0f64).prop_map(|seconds| Deed::Tick { seconds }),
        8 => any::<bool>().prop_map(|late| Deed::AnswerSolver { late }),
        4 => (1usize..6).prop_map(|most| Deed::AnswerEstimator { most }),
        8 => (0usize..50, 0u8..8).prop_map(|(which, event)| Deed::Report { which, event }),
        1 => (0usize..50).prop_map(|which| Deed::Refuse { which }),
        3 => (0u32..6, 0usize..20).prop_map(|(without, lost)| Deed::Survey { without, lost }),
        1 => (0usize..NAMES.len()).prop_map(Deed::Policy),
        1 => (0u32..4, 0.1..5.0f64).prop_map(|(which, weight)| Deed::Tenant { which, weight }),
        4 => (0u32..9, 0u32..6, 0u32..4).prop_map(|(which, name, number)| Deed::Cluster { which, name, number }),
        1 => (0u64..40).prop_map(Deed::Hold),
        2 => (0u64..40).prop_map(Deed::Release),
        1 => (0u64..40, 0.0..100.0f64).prop_map(|(id, steps)| Deed::Checkpointed(id, steps)),
        5 => Just(Deed::WriteDown),
    ]
}

/// One scheduler that is left alone and one that is written down now and then and sees surveys in parts, told the same.
struct Twins {
    left_alone: Scheduler,
    restored: Scheduler,
    clock: Time,
    surveyed: Option<Time>,
    submitted: u64,
    problems: Vec<Arc<Problem>>,
    asks: Vec<RateQuery>,
    gangs: Vec<Start>,
    stops: Vec<Order>,
}

impl Twins {
    fn new(policy: usize) -> Self {
        let tenants = vec![Tenant { name: "a".into(), weight: 1.0 }, Tenant { name: "b".into(), weight: 2.0 }];
        let entry = find_policy(NAMES[policy]).expect("in the table");
        let scheduler = Scheduler::new(cluster(&[6, 4], 2), tenants, entry, Settings::with_round(60.0));
        let (problems, asks, gangs, stops) = Default::default();
        let clock = Time::from_seconds(100.0);
        let mut twins = Self {
            left_alone: scheduler.clone(),
            restored: scheduler,
            clock,
            surveyed: None,
            submitted: 0,
            problems,
            asks,
            gangs,
            stops,
        };
        twins.tell(&twins.survey(99, 99)).expect("nothing can differ yet");
        twins
    }

    fn tell(&mut self, input: &Input) -> Result<(), TestCaseError> {
        let outputs = self.left_alone.step(self.clock, input.clone());
        if let Input::Surveyed(survey) = input
            && self.tells_as_much_in_parts(survey)
        {
            let parts = survey.clone().in_parts(self.left_alone.cluster(), 3);
            let told: Vec<Output> =
                parts.into_iter().flat_map(|part| self.restored.step(self.clock, Input::Surveyed(part))).collect();
            // Gangs come in the order of their nodes, and each is heard of once.
            prop_assert_eq!(in_any_order(&outputs), in_any_order(&told), "after {:?}", input);
        } else {
            prop_assert_eq!(&outputs, &self.restored.step(self.clock, input.clone()), "after {:?}", input);
        }
        for output in outputs {
            match output {
                Output::Solve(problem) => self.problems.push(problem),
                Output::Estimate(ask) => self.asks.push(ask),
                Output::Order(Order::Start(start)) => self.gangs.push(start),
                Output::Order(stop) => self.stops.push(stop),
                Output::Cluster(_) | Output::Note(_) => {}
            }
        }
        Ok(())
    }

    /// Of a second survey of the same moment only new nodes are news, and a part without one is not read at all; and no
    /// gang is sent to a node that comes back in a later part.
    fn tells_as_much_in_parts(&mut self, survey: &Survey) -> bool {
        let anew = self.surveyed.replace(survey.at) != Some(survey.at);
        let reachable: Vec<bool> = self.left_alone.node_statuses().map(|node| node.reachable).collect();
        anew && survey.nodes.iter().all(|seen| !seen.up || reachable[seen.node.index()])
    }

    fn write_down(&mut self) -> Result<(), TestCaseError> {
        let text = serde_json::to_string(&self.restored).expect("a snapshot");
        self.restored = serde_json::from_str(&text).expect("what was written can be read");
        prop_assert_eq!(&text, &serde_json::to_string(&self.restored).expect("a snapshot"));
        prop_assert_eq!(&text, &serde_json::to_string(&self.left_alone).expect("a snapshot"));
        prop_assert_eq!(self.restored.again(), self.left_alone.again());
        for id in self.left_alone.live() {
            prop_assert_eq!(self.restored.explain(id), self.left_alone.explain(id));
            prop_assert_eq!(self.restored.job_status(id), self.left_alone.job_status(id));
        }
        prop_assert!(self.restored.node_statuses().eq(self.left_alone.node_statuses()));
        Ok(())
    }

    /// All at once or one by one, jobs that wait are told the same.
    fn explain(&self) -> Result<(), TestCaseError> {
        let all: Vec<(JobId, Verdict)> = self.restored.explain_all().collect();
        let each = self.restored.waiting().map(|id| (id, self.restored.explain(id)));
        prop_assert_eq!(all, each.collect::<Vec<_>>());
        Ok(())
    }

    /// All nodes but one, and all gangs that were ever ordered but one.
    fn survey(&self, without: u32, lost: usize) -> Input {
        let there = 0..self.left_alone.cluster().nodes().len() as u32;
        let nodes = there.filter(|&n| n != without).map(|n| ObservedNode { node: NodeId(n), up: n != without / 2 });
        let seen = |(i, start): (usize, &Start)| {
            (i % 20 != lost).then(|| ObservedGang {
                job: start.job,
                fence: start.fence,
                gpus: start.gpus.clone(),
                steps_done: 10.0 * i as f64,
                state: GangState::Running,
            })
        };
        let gangs = self.gangs.iter().enumerate().rev().take(12).filter_map(seen).collect();
        Input::Surveyed(Survey { at: self.left_alone.now(), nodes: nodes.collect(), gangs })
    }

    fn report(&mut self, which: usize, event: u8) -> Option<Input> {
        if event < 3
            && let Some(Order::Stop { job, fence }) = self.stops.pop()
        {
            return Some(Input::Reported(GangReport::new(job, fence, GangEvent::Stopped(7.5))));
        }
        let start = self.gangs.get(self.gangs.len().checked_sub(1 + which % 8)?)?;
        let event = match event {
            0..=5 => GangEvent::Started,
            6 => GangEvent::Finished,
            _ => GangEvent::Failed(f64::from(event), "broke".into()),
        };
        Some(Input::Reported(GangReport::new(start.job, start.fence, event)))
    }

    fn answer(&mut self, late: bool) -> Option<Input> {
        let problem = if late { self.problems.first().cloned() } else { self.problems.pop() }?;
        Some(Input::Allocated(problem.round, (self.left_alone.policy().make)().allocate(&problem)))
    }

    fn dependencies(&self, workload: u32) -> Vec<Dependency> {
        let outcome = [Outcome::Ok, Outcome::NotOk, Outcome::Any][self.submitted as usize % 3];
        let earlier = self.submitted.saturating_sub(3);
        if workload == 1 { vec![Dependency { job: JobId(earlier), outcome }] } else { Vec::new() }
    }

    fn needs(&self) -> Needs {
        Needs { cpus_per_gpu: (self.submitted % 4) as f64, memory_gib_per_gpu: 1.5, gpu_memory_gib: 14.0 }
    }

    /// A change of the cluster; some make no sense.
    fn change(&self, which: u32, name: u32, number: u32) -> ClusterChange {
        let nodes = self.left_alone.cluster().nodes();
        let node = nodes.get(name as usize).map_or_else(|| format!("new-{name}"), |node| node.name.clone());
        let kind = Library::builtin().kind(["v100", "t4", "p100", "k80"][number as usize]).expect("in the library");
        let (kind, why) = (kind.clone(), "why not".to_owned());
        match which {
            0 | 1 => ClusterChange::Join(NodeSpec {
                name: node,
                kind,
                gpus: 2,
                cpus: Some(4.0),
                memory_gib: Some(3.0),
                rack: None,
            }),
            2 => ClusterChange::Remove { node, why },
            3 => ClusterChange::Drain { node, why, deadline: None },
            4 => ClusterChange::Drain { node, why, deadline: Some(self.clock.after(150.0)) },
            5 => ClusterChange::Undrain { node },
            6 => ClusterChange::GpusLost { node, gpus: vec![number], why },
            7 => ClusterChange::GpusBack { node, gpus: vec![number] },
            _ => ClusterChange::CorrectKind { node, kind },
        }
    }

    fn input(&mut self, deed: &Deed) -> Option<Input> {
        match *deed {
            Deed::Submit { workload, gang, tenant, floor, period, pinned } => {
                self.submitted += 1;
                Some(Input::Submit(JobSpec {
                    tenant: TenantId(tenant),
                    work: if period { Work::Period(500.0 / 3.0) } else { Work::Steps(1e5 / 7.0) },
                    floor: floor.then_some(0.3),
                    restart_seconds: f64::from(workload) * 10.1,
                    kinds: if pinned { vec![KindId(1)] } else { Vec::new() },
                    time_limit_seconds: self.submitted.is_multiple_of(5).then_some(200.0),
                    most_failures: self.submitted.is_multiple_of(7).then_some(1),
                    held: self.submitted.is_multiple_of(11),
                    after: self.dependencies(workload),
                    array: (workload == 2).then_some(ArrayTask { array: JobId(1), index: gang, at_most: 2 }),
                    needs: if tenant == 1 { self.needs() } else { Needs::default() },
                    largest_gang: self.submitted.is_multiple_of(3).then_some(gang + 2),
                    ..job(self.submitted, workload, gang)
                }))
            }
            Deed::Cancel(id) => Some(Input::Cancel(JobId(id))),
            Deed::Tick { seconds } => {
                self.clock = self.clock.after(seconds);
                Some(Input::Tick)
            }
            Deed::AnswerSolver { late } => self.answer(late),
            Deed::AnswerEstimator { most } => {
                let kinds = self.left_alone.cluster().kinds().len() as u32;
                let asks = self.asks.drain(..self.asks.len().min(most));
                Some(Input::Estimated(asks.map(|ask| row(&ask, kinds)).collect()))
            }
            Deed::Report { which, event } => self.report(which, event),
            Deed::Refuse { which } => {
                let start = self.gangs.get(self.gangs.len().checked_sub(1 + which % 8)?)?;
                Some(Input::Refused(Order::Start(start.clone()), "no room".into()))
            }
            Deed::Survey { without, lost } => Some(self.survey(without, lost)),
            Deed::Policy(which) => Some(Input::Policy(NAMES[which].into())),
            Deed::Tenant { which, weight } => {
                Some(Input::Tenant(Tenant { name: ["a", "b", "c", ""][which as usize].into(), weight }))
            }
            Deed::Cluster { which, name, number } => Some(Input::Cluster(self.change(which, name, number))),
            Deed::Hold(id) => Some(Input::Hold(JobId(id))),
            Deed::Release(id) => Some(Input::Release(JobId(id))),
            Deed::Checkpointed(id, steps) => Some(Input::Checkpointed(vec![(JobId(id), steps)])),
            Deed::WriteDown => None,
        }
    }
}

fn in_any_order(outputs: &[Output]) -> Vec<String> {
    let mut lines: Vec<String> = outputs.iter().map(|output| format!("{output:?}")).collect();
    lines.sort_unstable();
    lines
}

fn row(ask: &RateQuery, kinds: u32) -> RateRow {
    let cell = |j: u32| {
        let rate = f64::from((ask.workload.0 * 7 + j * 3) % 5 + 1) / 3.0 * f64::from(ask.gang);
        Some(Estimate {
            rate,
            spread_rate: rate * 0.8,
            racks_rate: 0.0,
            partner_rate: ask.partner.map_or(0.0, |p| f64::from(p.0 + 1) / 3.0),
            watts: 100.1 + 50.0 * f64::from(j),
            // What is no number must not break a snapshot.
            standard_error: if ask.workload.0 == 3 { f64::INFINITY } else { 0.1 },
            source: Source::Initial,
        })
    };
    RateRow { ask: *ask, cells: (0..kinds).map(cell).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_scheduler_answers_as_the_first_would_have(
        policy in 0usize..NAMES.len(),
        deeds in prop::collection::vec(deed(), 20..160),
    ) {
        let mut twins = Twins::new(policy);
        for deed in &deeds {
            if let Deed::WriteDown = deed {
                twins.write_down()?;
            } else if let Some(input) = twins.input(deed) {
                twins.tell(&input)?;
                twins.explain()?;
            }
        }
        twins.write_down()?;
    }
}

#[test]
fn every_policy_can_be_written_down() {
    for entry in POLICIES {
        let tenants = vec![Tenant { name: "a".into(), weight: 1.0 }];
        // Patience without end is finite once it is written down.
        let settings = Settings { lease_seconds: f64::INFINITY, ..Settings::with_round(60.0) };
        let scheduler = Scheduler::new(cluster(&[4], 4), tenants, entry, settings);
        let text = serde_json::to_string(&scheduler).expect("a snapshot");
        let again: Scheduler = serde_json::from_str(&text).expect("what was written can be read");
        assert_eq!(again.policy().name, entry.name);
        assert_eq!(again.settings(), scheduler.settings());
    }
}

#[test]
fn numbers_that_are_none_are_not_taken_in() {
    let tenants = vec![Tenant { name: "a".into(), weight: 1.0 }];
    let entry = find_policy("fifo").expect("in the table");
    let mut scheduler = Scheduler::new(cluster(&[4], 4), tenants, entry, Settings::default());
    let specs = [
        JobSpec { work: Work::Steps(f64::INFINITY), ..job(1, 0, 1) },
        JobSpec { floor: Some(f64::NAN), ..job(2, 0, 1) },
        JobSpec { restart_seconds: f64::INFINITY, ..job(3, 0, 1) },
    ];
    for spec in specs {
        let out = scheduler.step(Time::ZERO, Input::Submit(spec));
        assert!(matches!(out[..], [Output::Note(_)]), "{out:?}");
    }
    assert_eq!(scheduler.live_jobs(), 0);
}

#[test]
fn what_is_new_is_written_only_where_it_is_used_and_checked_when_it_is_read() {
    let tenants = vec![Tenant { name: "a".into(), weight: 1.0 }];
    let entry = find_policy("fifo").expect("in the table");
    let mut scheduler = Scheduler::new(cluster(&[4], 2), tenants, entry, Settings::default());
    scheduler.step(Time::ZERO, Input::Submit(job(1, 0, 1)));
    let keys = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let old = serde_json::to_value(&scheduler).expect("a snapshot");
    assert_eq!(keys(&old["nodes"][0]), ["seen_at", "seen_patience", "up"], "older snapshots are read");
    assert!(!keys(&old["jobs"]["slots"][0]).iter().any(|key| key == "held" || key == "waits_in_array"));
    let node = scheduler.cluster().nodes()[0].name.clone();
    let why = "maintenance".to_owned();
    scheduler.step(Time::ZERO, Input::Cluster(ClusterChange::Drain { node: node.clone(), why, deadline: None }));
    let lost = ClusterChange::GpusLost { node, gpus: vec![1], why: String::new() };
    scheduler.step(Time::ZERO, Input::Cluster(lost));
    let mut damaged = serde_json::to_value(&scheduler).expect("a snapshot");
    serde_json::from_value::<Scheduler>(damaged.clone()).expect("it can be read");
    damaged["nodes"][0]["lost_gpus"] = serde_json::json!([7]);
    let error = serde_json::from_value::<Scheduler>(damaged).err().expect("the node has 2 GPUs").to_string();
    assert!(error.contains("lost GPU 7; it has 2"), "{error}");
}
