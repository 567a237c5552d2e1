//! What faults once broke, each as small as it can be told. The seeds that found them are in the history.

use super::*;
use crate::allocate::find_policy;
use crate::estimate::{Estimate, Source};
use crate::place::{Placement, Plan, Seat};
use crate::{ClusterChange, Library, TenantId, Work};

mod admission;
mod claims;
mod displacement;
mod lines;
mod modes;
mod needed;
mod nodes;
mod power;
mod quotas;
mod refill;
mod sharing;
mod switching;

const ROUND: f64 = 60.0;

/// A scheduler on nodes of one kind, and a clock.
struct Bench {
    scheduler: Scheduler,
    clock: Time,
    out: Vec<Output>,
}

impl Bench {
    /// Nodes of `gpus` GPUs each, all seen.
    fn new(gpus: &[u32]) -> Self {
        let kind = Library::builtin().kind("v100").unwrap().clone();
        let nodes = gpus.iter().enumerate().map(|(n, &gpus)| (format!("n{n}"), KindId(0), gpus));
        let cluster = Cluster::new(vec![kind], nodes).unwrap();
        let tenants = vec![Tenant { name: "t".into(), weight: 1.0 }];
        let settings = Settings::with_round(ROUND);
        let scheduler = Scheduler::new(cluster, tenants, find_policy("fifo").unwrap(), settings);
        let mut bench = Self { scheduler, clock: Time::from_seconds(10_000.0), out: Vec::new() };
        let all: Vec<u32> = (0..gpus.len() as u32).collect();
        bench.survey(&all, Vec::new());
        bench
    }

    fn tell(&mut self, input: Input) -> &[Output] {
        self.out = self.scheduler.step(self.clock, input);
        assert!(self.scheduler.jobs.places_are_right(), "what is kept of jobs beside them follows from them");
        &self.out
    }

    fn wait(&mut self, seconds: f64) {
        self.clock = self.clock.after(seconds);
    }

    /// Takes a job of `gang` GPUs in and says how fast it is.
    fn submit(&mut self, id: u64, gang: u32) {
        self.tell(Input::Submit(job(id, gang)));
        let cell = Estimate {
            rate: 1.0,
            spread_rate: 1.0,
            racks_rate: 0.0,
            partner_rate: 0.0,
            watts: 100.0,
            standard_error: 0.0,
            source: Source::Measured,
        };
        let ask = RateQuery { workload: WorkloadId(0), gang, partner: None };
        self.tell(Input::Estimated(vec![RateRow { ask, cells: vec![Some(cell)] }]));
    }

    /// A round: everything is asked and answered at once; returns the starts.
    fn round(&mut self) -> Vec<Start> {
        self.wait(ROUND);
        self.tell(Input::Tick);
        let mut orders = self.out.clone();
        if let Some(problem) =
            self.out.iter().find_map(|o| if let Output::Solve(p) = o { Some(Arc::clone(p)) } else { None })
        {
            let answer = (self.scheduler.policy.make)().allocate(&problem);
            orders.extend_from_slice(self.tell(Input::Allocated(problem.round, answer)));
        }
        starts(&orders)
    }

    fn report(&mut self, job: u64, fence: Fence, event: GangEvent) -> &[Output] {
        self.tell(Input::Reported(GangReport::new(JobId(job), fence, event)))
    }

    /// A survey asked for and answered now.
    fn survey(&mut self, nodes: &[u32], gangs: Vec<ObservedGang>) -> Vec<Output> {
        let at = self.scheduler.now().max(self.clock);
        self.survey_of(at, nodes, gangs)
    }

    fn survey_of(&mut self, at: Time, nodes: &[u32], gangs: Vec<ObservedGang>) -> Vec<Output> {
        let nodes = nodes.iter().map(|&n| ObservedNode { node: NodeId(n), up: true }).collect();
        self.tell(Input::Surveyed(Survey { at, nodes, gangs })).to_vec()
    }

    /// Submits one job and has it running.
    fn running(&mut self, id: u64, gang: u32) -> Start {
        self.submit(id, gang);
        let start = self.round().pop().expect("there is room");
        self.report(id, start.fence, GangEvent::Started);
        start
    }

    fn waits(&self, job: u64) -> bool {
        self.scheduler.waiting().any(|waiting| waiting == JobId(job))
    }
}

fn job(id: u64, gang: u32) -> JobSpec {
    JobSpec {
        id: JobId(id),
        tenant: TenantId(0),
        workload: WorkloadId(0),
        gang,
        work: Work::Steps(1e6),
        floor: None,
        weight: 1.0,
        restart_seconds: 0.0,
        kinds: Vec::new(),
        arrived: Time(id),
        ..JobSpec::default()
    }
}

#[test]
fn a_scheduler_can_be_cloned_and_handed_to_threads() {
    fn needs<T: Clone + Send + Sync>() {}
    needs::<Scheduler>();
}

fn starts(outputs: &[Output]) -> Vec<Start> {
    let start = |o: &Output| if let Output::Order(Order::Start(start)) = o { Some(start.clone()) } else { None };
    outputs.iter().filter_map(start).collect()
}

fn seen(start: &Start) -> ObservedGang {
    let (job, fence, gpus) = (start.job, start.fence, start.gpus.clone());
    ObservedGang { job, fence, gpus, steps_done: 0.0, state: GangState::Running }
}

#[test]
fn a_job_that_ends_while_it_moves_is_not_waited_for() {
    let mut bench = Bench::new(&[2]);
    let (one, two) = (bench.running(1, 1), bench.running(2, 1));
    let seat = |job: Slot, gpus: &[GpuId]| Seat { job, kind: KindId(0), gpus: gpus.to_vec(), spread: Spread::Packed };
    let swap = Plan { keep: Vec::new(), seats: vec![seat(0, &two.gpus), seat(1, &one.gpus)] };
    let swap = Placement::check(swap, &bench.scheduler.view(&[true, true])).expect("two whole gangs");
    let mut out = Vec::new();
    bench.scheduler.carry_out(swap, &[true, true], &mut out);
    bench.report(1, one.fence, GangEvent::Finished);
    let followed = starts(bench.report(2, two.fence, GangEvent::Stopped(1.0)));
    assert_eq!(followed.len(), 1, "the other moves to the vacated GPU");
    assert_eq!(followed[0].gpus, one.gpus);
}

#[test]
fn an_allocation_made_for_another_round_is_not_adopted() {
    let mut bench = Bench::new(&[2]);
    bench.submit(1, 1);
    let old = Problem { round: Round(77), capacity: vec![2.0], ..Problem::default() };
    let old = Allocation::check(&old, crate::allocate::Proposal::default());
    bench.wait(ROUND);
    bench.tell(Input::Tick);
    let round = bench.scheduler.round();
    let out = bench.tell(Input::Allocated(round, old));
    assert!(matches!(out[0], Output::Note(Event::NoAllocation { .. })), "{out:?}");
}

#[test]
fn questions_without_an_answer_are_asked_again() {
    let mut bench = Bench::new(&[1]);
    bench.submit(1, 1);
    bench.tell(Input::Submit(job(2, 2)));
    let (mut estimates, mut solves) = (0, 0);
    for _ in 0..2 * ROUNDS_UNTIL_ASKED_AGAIN {
        bench.wait(ROUND);
        for output in bench.tell(Input::Tick) {
            estimates += u32::from(matches!(output, Output::Estimate(_)));
            solves += u32::from(matches!(output, Output::Solve(_)));
        }
    }
    assert!(estimates >= 1 && solves >= 2, "{estimates} {solves}");
}

#[test]
fn the_rest_of_a_gang_that_is_out_of_reach_is_not_free() {
    let mut bench = Bench::new(&[1, 1]);
    let wide = bench.running(1, 2);
    bench.submit(2, 1);
    for _ in 0..4 {
        bench.wait(ROUND - 1.0);
        bench.survey(&[0], vec![seen(&wide)]);
        assert!(bench.round().is_empty(), "node 1 is silent, but its gang still holds the GPU of node 0");
    }
}

#[test]
fn a_start_on_its_way_is_not_gone_because_a_survey_misses_it() {
    let mut bench = Bench::new(&[1]);
    bench.submit(1, 1);
    let start = bench.round().pop().unwrap();
    bench.tell(Input::Cancel(JobId(1)));
    bench.wait(1.0);
    let out = bench.survey(&[0], Vec::new());
    assert!(out.is_empty(), "its start may still arrive: {out:?}");
    let out = bench.report(1, start.fence, GangEvent::Stopped(0.0));
    assert_eq!(out, [Output::Note(Event::Cancelled { job: JobId(1) })]);
}

/// A gang may finish just before it is ordered to stop. The stop takes its record away, the survey after that shows nothing,
/// and came in before the answer to the stop: the job used to be run a second time.
#[test]
fn a_gang_that_is_being_stopped_is_not_gone_because_a_survey_misses_it() {
    let mut bench = Bench::new(&[1]);
    let start = bench.running(1, 1);
    bench.wait(1.0);
    let mut out = Vec::new();
    let nothing = Plan { keep: Vec::new(), seats: Vec::new() };
    let nothing = Placement::check(nothing, &bench.scheduler.view(&[true])).expect("nobody runs");
    bench.scheduler.carry_out(nothing, &[true], &mut out);
    assert_eq!(out, [Output::Order(Order::Stop { job: JobId(1), fence: start.fence })]);
    bench.wait(1.0);
    let out = bench.survey(&[0], Vec::new());
    assert!(out.is_empty() && !bench.waits(1), "only the answer to the stop says how it ended: {out:?}");
    let out = bench.report(1, start.fence, GangEvent::Finished);
    assert!(out.contains(&Output::Note(Event::Completed { job: JobId(1) })), "{out:?}");
}

/// A daemon that was killed again and again before it could look at the cluster gave up a gang that had done its work meanwhile, and ran the job a
/// second time.
#[test]
fn a_gang_that_was_given_up_and_had_finished_is_not_run_again() {
    let mut bench = Bench::new(&[1]);
    let start = bench.running(1, 1);
    for _ in 0..100 {
        bench.wait(ROUND);
        bench.tell(Input::Tick);
    }
    assert!(bench.waits(1), "its node was silent for longer than its lease");
    let out = bench.survey(&[0], vec![ObservedGang { state: GangState::Finished, ..seen(&start) }]);
    assert!(out.contains(&Output::Note(Event::Completed { job: JobId(1) })), "{out:?}");
    assert!(bench.scheduler.live_jobs() == 0 && starts(bench.tell(Input::Tick)).is_empty());
}

#[test]
fn a_late_survey_says_nothing_about_newer_gangs() {
    let mut bench = Bench::new(&[1]);
    let asked = bench.clock.after(1.0);
    let start = bench.running(1, 1);
    let out = bench.survey_of(asked, &[0], Vec::new());
    assert!(out.is_empty() && !bench.waits(1), "{start:?} began later: {out:?}");
}

#[test]
fn a_gang_that_vanished_is_missed_though_surveys_take_longer_than_a_round() {
    let mut bench = Bench::new(&[1]);
    bench.running(1, 1);
    bench.wait(1.0);
    let asked = bench.clock;
    bench.round();
    bench.round();
    bench.survey_of(asked, &[0], Vec::new());
    assert!(bench.waits(1));
}

#[test]
fn a_repeated_survey_brings_no_lost_node_back() {
    let mut bench = Bench::new(&[1]);
    let asked = bench.clock;
    bench.submit(1, 1);
    for _ in 0..8 {
        bench.wait(ROUND);
        bench.tell(Input::Tick);
    }
    bench.survey_of(asked, &[0], Vec::new());
    assert!(bench.round().is_empty(), "the node has not been seen since");
}

#[test]
fn a_clock_that_is_set_back_makes_no_survey_seem_newer() {
    let mut bench = Bench::new(&[1]);
    bench.wait(30.0);
    let asked = bench.scheduler.now();
    bench.clock = Time::from_seconds(5_000.0);
    bench.running(1, 1);
    bench.survey_of(asked, &[0], Vec::new());
    assert!(!bench.waits(1), "the gang began after the survey was asked for");
    bench.wait(1.0);
    let now = bench.scheduler.now();
    bench.survey_of(now.after(1.0), &[0], Vec::new());
    assert!(bench.waits(1), "and newer surveys are read at once");
}

#[test]
fn a_clock_that_is_set_takes_no_time_from_anybody() {
    for years in [10.0, -10.0] {
        let mut bench = Bench::new(&[1, 1]);
        bench.clock = Time::from_seconds(1e9);
        bench.survey(&[0, 1], Vec::new());
        let limited = JobSpec { time_limit_seconds: Some(3600.0), ..job(1, 1) };
        bench.submit(7, 1);
        bench.tell(Input::Cancel(JobId(7)));
        bench.tell(Input::Submit(limited));
        let start = bench.round().pop().expect("there is room");
        bench.report(1, start.fence, GangEvent::Started);
        let drain =
            ClusterChange::Drain { node: "n1".into(), why: "fan".into(), deadline: Some(bench.clock.after(7200.0)) };
        bench.tell(Input::Cluster(drain));
        bench.wait(600.0);
        bench.tell(Input::Tick);
        let before = bench.scheduler.job_status(JobId(1)).expect("it runs").run_seconds;
        bench.clock = Time::from_seconds(bench.clock.seconds() + years * 365.0 * 86_400.0);
        assert_eq!(bench.tell(Input::ClockSet), []);
        assert_eq!(bench.scheduler.now(), bench.clock, "it is the time that it is");
        let out = bench.tell(Input::Tick).to_vec();
        assert!(!out.iter().any(|output| matches!(output, Output::Order(Order::Stop { .. }))), "{out:?}");
        assert_eq!(bench.scheduler.job_status(JobId(1)).expect("it runs").run_seconds, before);
        let drain = bench.scheduler.nodes[1].drain.clone().expect("still drained");
        assert!((drain.deadline.expect("a deadline").since(bench.clock) - 6600.0).abs() < 1.0, "{drain:?}");
        bench.survey(&[0, 1], vec![seen(&start)]);
        bench.wait(3600.0);
        let out = bench.tell(Input::Tick).to_vec();
        assert!(
            out.iter().any(|output| matches!(output, Output::Order(Order::Stop { .. }))),
            "its hour is over: {out:?}"
        );
    }
}

#[test]
fn no_start_is_sent_to_a_silent_node() {
    let mut bench = Bench::new(&[1]);
    bench.submit(1, 1);
    let mut sent = bench.round();
    for _ in 0..6 {
        sent.extend(bench.round());
    }
    assert_eq!(sent.len(), 2, "at first, once again, and not when the node has been silent for two rounds and a half");
}

#[test]
fn nothing_starts_beside_a_stranger_that_came_after_the_plan() {
    let mut bench = Bench::new(&[1]);
    let one = bench.running(1, 1);
    bench.submit(2, 1);
    let seat = Seat { job: 1, kind: KindId(0), gpus: one.gpus.clone(), spread: Spread::Packed };
    let mut out = Vec::new();
    let plan = Plan { keep: Vec::new(), seats: vec![seat] };
    let placement = Placement::check(plan, &bench.scheduler.view(&[true])).expect("a whole gang");
    bench.scheduler.carry_out(placement, &[true], &mut out);
    bench.wait(1.0);
    let stranger = ObservedGang { job: JobId(9), fence: Fence(0), ..seen(&one) };
    bench.survey(&[0], vec![seen(&one), stranger]);
    let out = bench.report(1, one.fence, GangEvent::Stopped(0.0)).to_vec();
    assert!(starts(&out).is_empty(), "{out:?}");
}
