//! Behind a long queue that is served in order of arrival only the fronts of its lines are looked at, and nothing else comes of it.

use super::*;
use crate::allocate::PolicyEntry;
use proptest::prelude::*;

const KINDS: [&str; 3] = ["v100", "p100", "t4"];
/// More than are looked at as a whole, at all times.
const JOBS: u64 = LONG_QUEUE as u64 + 300;

/// What happens before a round.
#[derive(Clone, Copy, Debug)]
enum Deed {
    End(usize),
    Fail(usize),
    Hold(u64),
    Release(u64),
    Submit(u8),
    Drain(u8),
    Restore,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => any::<usize>().prop_map(Deed::End),
        2 => any::<usize>().prop_map(Deed::Fail),
        1 => (0..JOBS).prop_map(Deed::Hold),
        1 => (0..JOBS).prop_map(Deed::Release),
        1 => any::<u8>().prop_map(Deed::Submit),
        1 => (0u8..6).prop_map(Deed::Drain),
        1 => Just(Deed::Restore),
    ]
}

/// A scheduler whose orders are carried out at once.
struct Played {
    scheduler: Scheduler,
    clock: Time,
    running: Vec<(JobId, Fence)>,
    users: usize,
}

impl Played {
    fn new(policy: &'static PolicyEntry) -> Self {
        let kinds = KINDS.map(|kind| Library::builtin().kind(kind).unwrap().clone()).to_vec();
        let nodes = (0..6u16).map(|n| (format!("n{n}"), KindId(n % 3), 4));
        let cluster = Cluster::new(kinds, nodes).unwrap();
        let tenants = ["a", "b"].map(|name| Tenant { name: name.into(), weight: 1.0 }).to_vec();
        let settings = Settings { lease_seconds: 1e9, survey_seconds: 1e9, ..Settings::with_round(ROUND) };
        let mut scheduler = Scheduler::new(cluster, tenants, policy, settings);
        let nodes = (0..6).map(|n| ObservedNode { node: NodeId(n), up: true }).collect();
        scheduler.step(Time::ZERO, Input::Surveyed(Survey { at: Time::ZERO, nodes, gangs: Vec::new() }));
        Self { scheduler, clock: Time::ZERO, running: Vec::new(), users: 0 }
    }

    /// Jobs of four sizes and six workloads; some may not use every kind, and they do not come in the order of their numbers.
    fn submit(&mut self, id: u64, shape: u8) {
        let shape = u32::from(shape);
        let spec = JobSpec {
            tenant: TenantId(shape % 2),
            workload: WorkloadId(shape % 6),
            kinds: if shape % 5 == 0 { vec![KindId(2)] } else { Vec::new() },
            arrived: Time(1000 + id - id % 7),
            restart_seconds: 30.0,
            ..job(id, [1, 2, 4, 1][(shape / 8 % 4) as usize])
        };
        let ask = RateQuery { workload: spec.workload, gang: spec.gang, partner: None };
        self.tell(Input::Submit(spec));
        let rate = |j: u32| f64::from(1 + (ask.workload.0 + j * 2) % 5);
        let cell = |j| {
            let rate = rate(j);
            let [spread_rate, racks_rate, watts] = [rate * 0.8, rate * 0.5, 100.0];
            let source = Source::Measured;
            Some(Estimate { rate, spread_rate, racks_rate, partner_rate: 0.0, watts, standard_error: 0.0, source })
        };
        self.tell(Input::Estimated(vec![RateRow { ask, cells: (0..3).map(cell).collect() }]));
    }

    /// Everything that follows from an input, as text.
    fn tell(&mut self, input: Input) -> String {
        let mut open = self.scheduler.step(self.clock, input);
        let mut said = String::new();
        while !open.is_empty() {
            let mut next = Vec::new();
            for output in open {
                let input = match output {
                    Output::Solve(problem) => {
                        self.users = problem.users.len();
                        let answer = (self.scheduler.policy.make)().allocate(&problem);
                        Input::Allocated(problem.round, answer)
                    }
                    Output::Order(order) => {
                        said += &format!("{order:?}\n");
                        let (job, fence, event) = match order {
                            Order::Start(start) => (start.job, start.fence, GangEvent::Started),
                            Order::Stop { job, fence } => (job, fence, GangEvent::Stopped(0.0)),
                        };
                        self.running.retain(|gang| gang.0 != job);
                        if event == GangEvent::Started {
                            self.running.push((job, fence));
                        }
                        Input::Reported(GangReport::new(job, fence, event))
                    }
                    _ => continue,
                };
                next.extend(self.scheduler.step(self.clock, input));
                assert!(self.scheduler.jobs.places_are_right(), "what is kept of jobs beside them follows from them");
            }
            open = next;
        }
        said
    }

    fn act(&mut self, deed: Deed, id: u64) -> String {
        let mut take = |at: usize| match self.running.len() {
            0 => None,
            n => Some(self.running.remove(at % n)),
        };
        match deed {
            Deed::End(at) => {
                let Some((job, fence)) = take(at) else { return String::new() };
                self.tell(Input::Reported(GangReport::new(job, fence, GangEvent::Finished)))
            }
            Deed::Fail(at) => {
                let Some((job, fence)) = take(at) else { return String::new() };
                self.tell(Input::Reported(GangReport::new(job, fence, GangEvent::Failed(0.0, "broken".into()))))
            }
            Deed::Hold(job) => self.tell(Input::Hold(JobId(job))),
            Deed::Release(job) => self.tell(Input::Release(JobId(job))),
            Deed::Submit(shape) => {
                self.submit(id, shape);
                String::new()
            }
            Deed::Drain(node) => {
                let drained = self.scheduler.nodes[usize::from(node)].drain.is_some();
                let node = format!("n{node}");
                let why = "fan".into();
                self.tell(Input::Cluster(match drained {
                    true => ClusterChange::Undrain { node },
                    false => ClusterChange::Drain { node, why, deadline: None },
                }))
            }
            Deed::Restore => {
                let policy = self.scheduler.policy;
                let text = serde_json::to_string(&self.scheduler).unwrap();
                self.scheduler = serde_json::from_str(&text).unwrap();
                // Read, it has the policy of that name.
                self.scheduler.policy = policy;
                self.scheduler.line_up();
                String::new()
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The same orders, in the same order, come of looking at everybody.
    #[test]
    fn fronts_are_enough(
        shapes in prop::collection::vec(any::<u8>(), JOBS as usize),
        rounds in prop::collection::vec(prop::collection::vec(deed(), 0..12), 20),
    ) {
        let fifo = find_policy("fifo").unwrap();
        let everybody: &'static PolicyEntry = Box::leak(Box::new(PolicyEntry { first_come: false, ..*fifo }));
        let (mut fronts, mut all) = (Played::new(fifo), Played::new(everybody));
        for played in [&mut fronts, &mut all] {
            shapes.iter().zip(0..).for_each(|(&shape, id)| played.submit(id, shape));
        }
        let mut id = JOBS;
        for deeds in rounds {
            for deed in deeds {
                id += 1;
                prop_assert_eq!(fronts.act(deed, id), all.act(deed, id));
            }
            for played in [&mut fronts, &mut all] {
                played.clock = played.clock.after(ROUND);
                played.users = 0;
            }
            prop_assert_eq!(fronts.tell(Input::Tick), all.tell(Input::Tick));
            // 24 GPUs, and not more lines than there are shapes of jobs.
            let most = 24 + 3 * 24 + 6 * 4 * 2 * 2;
            prop_assert!(fronts.users <= most, "{} of {} users", fronts.users, all.users);
        }
    }
}
