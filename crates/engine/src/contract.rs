//! The contract of engines: what every engine owes its driver, as cases that any engine can be put through.
//!
//! A [`Testbed`] makes fresh engines and says how time passes: on a virtual clock, where waiting costs nothing and numbers are exact, or on a
//! real one, where it takes as long as it takes and everything runs on while the case looks. The cases never assume which. Spans in them
//! are counted in units of [`Testbed::unit_seconds`], so that an engine on a real clock can be tested with short units.
//!
//! The bed's cluster must have [`GPUS`]: four GPUs on one node and two on another, of one kind, then two nodes with two GPUs each of a
//! second kind, numbered in this order.
//!
//! A further engine is a further bed: `for case in contract::CASES { case.run(&mut bed) }`.

mod ledger;
mod nodes;
mod programs;
mod sharing;

use arles_core::engine::{Engine, EngineReport, LiveJob, OrderReply};
use arles_core::scheduler::{Fence, GangEvent, GangReport, GangState, ObservedGang, Order, Start};
use arles_core::{Cluster, ClusterChange, GpuId, JobId, KindId, Spread, Time, Work, WorkloadId};
pub use ledger::Ledger;
use nodes::{
    gangs_of_a_removed_node_are_gone, orders_on_a_node_that_joined_are_done,
    told_twice_what_the_cluster_is_it_is_told_once,
};
use programs::{
    a_program_that_fails_says_its_exit_code, a_start_that_is_ordered_again_after_its_end_is_not_done_again,
    a_stopped_program_goes_on_from_its_safe_steps,
};
use sharing::two_jobs_share_a_gpu_and_no_third_does;
use std::sync::Arc;

/// GPUs by node and the node's kind: the shape of a bed's cluster.
pub const GPUS: [(u32, KindId); 4] = [(4, KindId(0)), (2, KindId(0)), (2, KindId(1)), (2, KindId(1))];

/// Where engines are tried.
pub trait Testbed {
    /// A fresh engine on the bed's cluster, all nodes up, nothing running, its time not yet begun.
    fn engine(&mut self) -> Box<dyn Engine>;

    /// A job with work for about so many seconds on the first kind, and a restart of three units.
    fn job(&self, id: u64, gang: u32, seconds: f64) -> LiveJob;

    /// The time to be passed to the engine.
    fn now(&self) -> Time;

    /// Lets time pass.
    fn wait(&mut self, seconds: f64);

    /// The cluster that its engines begin with.
    fn cluster(&self) -> Cluster;

    /// The same job as a program, which ends with this exit code.
    fn program(&self, id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob;

    /// How long one unit of the cases is.
    fn unit_seconds(&self) -> f64 {
        1.0
    }

    /// Whether another system's queue uses the same GPUs. Then a start onto one that is taken may be put off, since the driver could not know.
    fn has_another_queue(&self) -> bool {
        false
    }

    /// Whether a second job may be started on a GPU while the first one runs.
    fn shares_gpus(&self) -> bool {
        true
    }

    /// Whether time passes only while the case waits, so that numbers can be compared exactly.
    fn exact(&self) -> bool;
}

/// A job whose program takes its exit code as its last word.
///
/// # Panics
/// If it has no program.
#[must_use]
pub fn ending_with(mut job: LiveJob, exit_code: i32) -> LiveJob {
    let program = job.spec.program.as_mut().expect("a job that is a program");
    Arc::make_mut(program).command.push(exit_code.to_string());
    job
}

/// One thing that an engine owes its driver.
pub struct Case {
    /// What it is, in words.
    pub name: &'static str,
    check: fn(&mut Trial<'_>),
}

impl Case {
    /// Puts a fresh engine through the case.
    ///
    /// # Panics
    /// If the engine breaks the contract.
    pub fn run(&self, bed: &mut dyn Testbed) {
        let engine = bed.engine();
        (self.check)(&mut Trial { bed, engine });
    }
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// Everything that an engine owes its driver; one test for each.
        pub const CASES: &[Case] = &[$(Case { name: stringify!($name), check: $name }),*];
    };
}

cases![
    an_order_done_twice_is_done_once,
    a_stop_is_final_and_always_answered,
    a_gang_that_finished_is_told_as_finished_however_often_it_is_stopped,
    a_refused_start_is_final,
    what_makes_no_sense_is_refused,
    old_fences_touch_nothing_newer,
    a_survey_shows_what_runs_and_what_has_ended,
    syncing_jobs_forgets_and_returns_meters,
    a_job_goes_on_where_its_driver_says,
    energy_adds_up_and_counters_only_grow,
    two_jobs_share_a_gpu_and_no_third_does,
    time_never_goes_back,
    told_twice_what_the_cluster_is_it_is_told_once,
    orders_on_a_node_that_joined_are_done,
    gangs_of_a_removed_node_are_gone,
    a_program_that_fails_says_its_exit_code,
    a_start_that_is_ordered_again_after_its_end_is_not_done_again,
    a_stopped_program_goes_on_from_its_safe_steps,
];

/// An engine under test.
struct Trial<'a> {
    bed: &'a mut dyn Testbed,
    engine: Box<dyn Engine>,
}

impl Trial<'_> {
    fn wait(&mut self, units: f64) {
        let seconds = units * self.bed.unit_seconds();
        self.bed.wait(seconds);
    }

    /// A job with work for so many units on the first kind.
    fn job(&self, id: u64, gang: u32, units: f64) -> LiveJob {
        self.bed.job(id, gang, units * self.bed.unit_seconds())
    }

    fn add(&mut self, job: &LiveJob) {
        self.engine.add_job(self.bed.now(), job).expect("the engine answers");
    }

    /// Makes a job known with work for so many units.
    fn add_new(&mut self, id: u64, gang: u32, units: f64) {
        let job = self.job(id, gang, units);
        self.add(&job);
    }

    fn apply(&mut self, order: &Order) -> OrderReply {
        self.engine.apply(self.bed.now(), order).expect("the engine answers")
    }

    fn order_start(&self, job: u64, fence: u64, gpus: &[u32]) -> Order {
        start(job, fence, gpus, 240.0 * self.bed.unit_seconds())
    }

    /// Whether a start is done, at once or soon.
    fn starts(&mut self, job: u64, fence: u64, gpus: &[u32]) -> bool {
        let order = self.order_start(job, fence, gpus);
        match self.apply(&order) {
            OrderReply::Reported(report) => report.event == GangEvent::Started,
            OrderReply::Refused(_) => false,
            OrderReply::Pending => self.answer(job, fence) == GangEvent::Started,
        }
    }

    /// Whether a start is refused, with a reason.
    fn refuses(&mut self, job: u64, fence: u64, gpus: &[u32]) -> bool {
        let order = self.order_start(job, fence, gpus);
        matches!(self.apply(&order), OrderReply::Refused(why) if !why.is_empty())
    }

    /// Whether a start is not done because of who else is there. An engine that knows everybody on its GPUs refuses it: its driver has made a mistake. One
    /// that shares them with another system's queue may have been overtaken by it, and says that the gang has stopped: the job is not to blame.
    fn declines(&mut self, job: u64, fence: u64, gpus: &[u32]) -> bool {
        let order = self.order_start(job, fence, gpus);
        match self.apply(&order) {
            OrderReply::Refused(why) => !why.is_empty(),
            OrderReply::Reported(report) => {
                self.bed.has_another_queue() && matches!(report.event, GangEvent::Stopped(_))
            }
            OrderReply::Pending => false,
        }
    }

    /// What a stop comes to, at once or within a minute.
    fn stop(&mut self, job: u64, fence: u64) -> GangEvent {
        self.stop_report(job, fence).event
    }

    fn stop_report(&mut self, job: u64, fence: u64) -> GangReport {
        match self.apply(&stop(job, fence)) {
            OrderReply::Reported(report) => {
                assert_eq!((report.job, report.fence), (JobId(job), Fence(fence)));
                report
            }
            OrderReply::Refused(why) => panic!("a stop is never refused: {why}"),
            OrderReply::Pending => self.report(job, fence),
        }
    }

    /// What is reported of a gang within 60 units.
    fn answer(&mut self, job: u64, fence: u64) -> GangEvent {
        self.report(job, fence).event
    }

    fn report(&mut self, job: u64, fence: u64) -> GangReport {
        for _ in 0..60 {
            self.wait(1.0);
            let reports = self.engine.poll(self.bed.now()).expect("the engine answers");
            if let Some(report) = reports.into_iter().find(|r| r.job == JobId(job) && r.fence == Fence(fence)) {
                return report;
            }
        }
        panic!("an order is always answered, and nothing was heard of gang {fence} of job {job}")
    }

    /// Tells the engine that the cluster has changed so.
    fn change(&mut self, cluster: &mut Cluster, change: &ClusterChange) {
        cluster.apply(change).expect("a change that makes sense");
        self.set_cluster(cluster);
    }

    fn set_cluster(&mut self, cluster: &Cluster) {
        self.engine.set_cluster(self.bed.now(), cluster).expect("the engine answers");
    }

    fn survey(&mut self) -> EngineReport {
        let now = self.bed.now();
        self.engine.survey(now, now).expect("the engine answers")
    }

    /// A survey with a gang of a job that was ordered to start: an order that is pending may take some time.
    fn survey_with(&mut self, job: u64) -> EngineReport {
        self.survey_until(&format!("a gang of job {job} was ordered, and is there"), |seen| gang(seen, job).is_some())
    }

    /// A survey without any gang of a job that was forgotten: what is told to end on a real cluster is seen there until it has heard of it.
    fn survey_without(&mut self, job: u64) -> EngineReport {
        self.survey_until(&format!("job {job} was forgotten, and its gang is gone"), |seen| gang(seen, job).is_none())
    }

    /// Looks again for up to 60 units.
    fn survey_until(&mut self, what: &str, is_so: impl Fn(&EngineReport) -> bool) -> EngineReport {
        for _ in 0..60 {
            let seen = self.survey();
            if is_so(&seen) {
                return seen;
            }
            self.wait(1.0);
        }
        panic!("60 units were not enough until {what}")
    }

    /// Asserts a span that was waited for, in units: to a millionth on a virtual clock, and at least as long on a real one.
    fn assert_span(&self, seconds: f64, units: f64) {
        let found = seconds / self.bed.unit_seconds();
        let right = if self.bed.exact() { (found - units).abs() < 1e-6 } else { found >= 0.9 * units };
        assert!(right, "{found} units instead of {units}");
    }
}

/// An order to start a gang on GPUs of one kind.
#[must_use]
pub fn start(job: u64, fence: u64, gpus: &[u32], lease_seconds: f64) -> Order {
    let gpus: Vec<GpuId> = gpus.iter().map(|&g| GpuId(g)).collect();
    let first_kind = GPUS[0].0 + GPUS[1].0;
    let kind = KindId(u16::from(gpus.first().is_some_and(|g| g.0 >= first_kind)));
    Order::Start(Start { job: JobId(job), fence: Fence(fence), kind, gpus, spread: Spread::Packed, lease_seconds })
}

/// An order to stop a gang.
#[must_use]
pub fn stop(job: u64, fence: u64) -> Order {
    Order::Stop { job: JobId(job), fence: Fence(fence) }
}

fn gang(report: &EngineReport, id: u64) -> Option<&ObservedGang> {
    report.survey.gangs.iter().find(|gang| gang.job == JobId(id))
}

/// Who runs where: what two looks agree on even if time has passed between them.
fn places(report: &EngineReport) -> Vec<(JobId, Fence, Vec<GpuId>, GangState)> {
    report.survey.gangs.iter().map(|g| (g.job, g.fence, g.gpus.clone(), g.state.clone())).collect()
}

fn an_order_done_twice_is_done_once(t: &mut Trial<'_>) {
    let job = t.job(1, 2, 500.0);
    t.add(&job);
    t.add(&job);
    t.wait(1.0);
    assert!(t.starts(1, 1, &[0, 1]));
    t.wait(49.0);
    let before = t.survey();
    assert!(t.starts(1, 1, &[0, 1]));
    let same = |t: &mut Trial<'_>| {
        let again = t.survey();
        assert_eq!(places(&again), places(&before));
        assert!(!t.bed.exact() || again.survey == before.survey, "time stood still");
    };
    same(t);
    t.add(&job);
    same(t);
    t.wait(10.0);
    let first = t.stop(1, 1);
    t.wait(10.0);
    assert_eq!(t.stop(1, 1), first);
    t.wait(10.0);
    assert!(t.survey().survey.gangs.is_empty());
}

fn a_stop_is_final_and_always_answered(t: &mut Trial<'_>) {
    t.add_new(1, 1, 500.0);
    assert_eq!(t.stop(1, 3), GangEvent::Stopped(0.0), "a gang that is not there");
    t.wait(1.0);
    assert!(t.refuses(1, 3, &[0]), "its start was overtaken");
    t.wait(1.0);
    assert!(t.starts(1, 4, &[0]));
    t.wait(98.0);
    let GangEvent::Stopped(steps) = t.stop(1, 4) else { panic!("it ran") };
    assert!(steps > 0.0);
    t.wait(10.0);
    assert!(t.refuses(1, 4, &[0]));
    t.wait(1.0);
    assert!(t.survey().survey.gangs.is_empty());
    assert_eq!(t.stop(9, 5), GangEvent::Stopped(0.0), "a job that the engine was never told of");
    t.add_new(9, 1, 500.0);
    assert!(t.refuses(9, 5, &[0]), "and it holds when the job comes");
    assert!(t.starts(9, 6, &[0]));
}

/// The answer to a stop may be lost with the driver that asked, and the next one asks again.
fn a_gang_that_finished_is_told_as_finished_however_often_it_is_stopped(t: &mut Trial<'_>) {
    let job = t.job(1, 1, 20.0);
    t.add(&job);
    assert!(t.starts(1, 1, &[0]));
    assert_eq!(t.answer(1, 1), GangEvent::Finished);
    assert_eq!(gang(&t.survey(), 1).expect("its record stays").state, GangState::Finished);
    for _ in 0..2 {
        assert_eq!(t.stop(1, 1), GangEvent::Finished);
        t.wait(1.0);
    }
    t.engine.sync_jobs(t.bed.now(), &[job]).expect("the engine answers");
    t.wait(1.0);
    assert_eq!(t.stop(1, 1), GangEvent::Finished);
}

fn a_refused_start_is_final(t: &mut Trial<'_>) {
    t.add_new(1, 4, 500.0);
    t.add_new(2, 2, 500.0);
    t.wait(1.0);
    assert!(t.starts(1, 1, &[0, 1, 2, 3]));
    t.wait(1.0);
    assert!(t.declines(2, 2, &[3, 4]), "a GPU is taken");
    t.wait(1.0);
    t.stop(1, 1);
    t.wait(10.0);
    assert!(t.declines(2, 2, &[3, 4]), "free now, and too late");
    assert!(t.starts(2, 3, &[3, 4]));
    assert!(t.refuses(8, 4, &[0]), "a job that the engine was never told of");
    t.add_new(8, 1, 500.0);
    assert!(t.refuses(8, 4, &[0]), "known now, and too late");
}

fn what_makes_no_sense_is_refused(t: &mut Trial<'_>) {
    t.add_new(1, 2, 500.0);
    let mut odd = t.job(2, 1, 500.0);
    odd.spec.workload = WorkloadId(999);
    odd.steps_done = -1.0;
    t.add(&odd);
    t.wait(1.0);
    let mut absurd = t.order_start(1, 1, &[0, 1]);
    if let Order::Start(start) = &mut absurd {
        start.kind.0 = 77;
    }
    assert!(matches!(t.apply(&absurd), OrderReply::Refused(_)), "a kind that is not there");
    let lists: [&[u32]; 6] = [&[], &[0], &[0, 0], &[0, 6], &[0, 4_000_000], &[0, 1, 2]];
    for (gpus, fence) in lists.iter().zip(2..) {
        assert!(t.refuses(1, fence, gpus), "{gpus:?}");
    }
    assert!(t.refuses(2, 20, &[0]), "a workload that is not known");
    t.wait(1.0);
    assert!(t.survey().survey.gangs.is_empty());
}

fn old_fences_touch_nothing_newer(t: &mut Trial<'_>) {
    t.add_new(1, 1, 500.0);
    assert!(t.starts(1, 1, &[0]));
    t.wait(10.0);
    t.stop(1, 1);
    t.wait(10.0);
    assert!(t.starts(1, 2, &[4]));
    t.wait(1.0);
    t.stop(1, 1);
    t.wait(1.0);
    assert!(t.refuses(1, 1, &[0]));
    t.wait(8.0);
    let seen = t.survey();
    let gang = gang(&seen, 1).expect("the newer one runs");
    assert_eq!((gang.fence.0, gang.state.clone()), (2, GangState::Running));
    assert_eq!(gang.gpus, [GpuId(4)]);
}

fn a_survey_shows_what_runs_and_what_has_ended(t: &mut Trial<'_>) {
    t.add_new(1, 1, 50.0);
    t.add_new(2, 2, 500.0);
    t.add_new(3, 2, 500.0);
    assert!(t.survey().survey.gangs.is_empty());
    assert!(t.starts(1, 1, &[0]));
    assert!(t.starts(2, 2, &[1, 2]));
    // A driver asks for news all the time, and rates are measured between two looks.
    t.wait(10.0);
    t.engine.poll(t.bed.now()).expect("the engine answers");
    t.wait(10.0);
    let (now, asked) = (t.bed.now(), Time(t.bed.now().0 - 3));
    let seen = t.engine.survey(now, asked).expect("the engine answers");
    assert_eq!(seen.survey.at, asked, "as of the question");
    assert_eq!(seen.survey.nodes.len(), GPUS.len());
    assert!(seen.survey.nodes.iter().all(|node| node.up));
    assert_eq!(seen.survey.gangs.len(), 2);
    assert!(!seen.observations.is_empty(), "both ran undisturbed");
    let watts = &seen.meters.gpu_watts;
    assert!(watts[0] > watts[3] && watts[1] > watts[3] && watts[3] > 0.0, "{watts:?}");
    assert!(seen.meters.jobs.iter().all(|meter| meter.rate > 0.0 && meter.steps > 0.0));
    assert_eq!(t.answer(1, 1), GangEvent::Finished);
    assert!(t.engine.poll(t.bed.now()).expect("the engine answers").is_empty(), "told once");
    let seen = t.survey();
    assert_eq!(gang(&seen, 1).expect("its record stays").state, GangState::Finished);
    let meter = seen.meters.jobs.iter().find(|meter| meter.job == JobId(1)).expect("it ran since the last look");
    assert_eq!(Work::Steps(meter.steps), t.job(1, 1, 50.0).spec.work);
    assert_eq!(t.stop(1, 1), GangEvent::Finished);
    let seen = t.survey();
    assert!(gang(&seen, 1).is_none(), "until it is ordered to stop");
    assert!(seen.meters.jobs.iter().all(|meter| meter.job == JobId(2)));
}

fn syncing_jobs_forgets_and_returns_meters(t: &mut Trial<'_>) {
    let jobs = [1, 2, 3].map(|id| t.job(id, 1, 500.0));
    assert!(t.engine.sync_jobs(t.bed.now(), &jobs).expect("the engine answers").is_empty());
    assert!(t.starts(1, 1, &[0]));
    assert!(t.starts(2, 2, &[1]));
    t.wait(30.0);
    let meters = t.engine.sync_jobs(t.bed.now(), &jobs[1..]).expect("the engine answers");
    assert_eq!(meters.iter().map(|meter| meter.job).collect::<Vec<_>>(), [JobId(1)]);
    t.assert_span(meters[0].gpu_seconds, 30.0);
    assert!(meters[0].charge.total() > 0.0);
    let seen = t.survey_without(1);
    assert!(gang(&seen, 2).is_some());
    t.wait(1.0);
    assert!(t.engine.sync_jobs(t.bed.now(), &jobs[1..]).expect("the engine answers").is_empty());
    t.wait(9.0);
    let last = t.engine.remove_job(t.bed.now(), JobId(2)).expect("the engine answers").expect("it was known");
    t.assert_span(last.gpu_seconds, 40.0);
    assert!(t.survey_without(2).survey.gangs.is_empty());
    assert_eq!(t.engine.remove_job(t.bed.now(), JobId(77)).expect("the engine answers"), None);
    assert!(t.starts(3, 3, &[0]), "its GPU is free");
    assert!(t.refuses(2, 4, &[1]));
}

fn a_job_goes_on_where_its_driver_says(t: &mut Trial<'_>) {
    let mut half = t.job(1, 1, 100.0);
    let Work::Steps(total) = half.spec.work else { panic!("it has steps") };
    half.steps_done = total / 2.0;
    t.add(&half);
    let began = t.bed.now();
    assert!(t.starts(1, 1, &[0]));
    if t.bed.exact() {
        let end = t.engine.next_event().expect("it ends").since(began);
        assert!((end / t.bed.unit_seconds() - 53.0).abs() < 1e-3, "half of it, and the restart: {end}");
    } else {
        assert_eq!(t.answer(1, 1), GangEvent::Finished, "half of it, and the restart, in less than 60 units");
    }
}

fn energy_adds_up_and_counters_only_grow(t: &mut Trial<'_>) {
    let mut ledger = Ledger::default();
    for id in 1..=4 {
        t.add_new(id, 1, 100.0);
    }
    t.wait(1.0);
    // Two on one GPU, where that can be, and one that comes back to it.
    t.starts(1, 1, &[0]);
    t.wait(4.0);
    let beside = if t.bed.shares_gpus() { 0 } else { 2 };
    t.starts(2, 2, &[beside]);
    t.starts(3, 3, &[7]);
    for units in [1.0, 0.0, 14.0] {
        t.wait(units);
        ledger.look(&t.survey().meters);
    }
    t.stop(1, 1);
    t.wait(10.0);
    t.starts(1, 4, &[0]);
    t.wait(1.0);
    t.starts(4, 5, &[1]);
    t.wait(1.0);
    ledger.look(&t.survey().meters);
    t.wait(3.0);
    let last = t.engine.remove_job(t.bed.now(), JobId(1)).expect("the engine answers").expect("it is known");
    ledger.take(&last);
    t.wait(205.0);
    let seen = t.survey();
    ledger.look(&seen.meters);
    assert_eq!(ledger.jobs.len(), 4);
    assert!(ledger.jobs.values().all(|meter| meter.charge.total() > 0.0));
    assert!(seen.meters.kinds.iter().all(|kind| kind.unused_joules > 0.0));
    // A job that was forgotten and comes back brings its counters along.
    t.add_new(1, 1, 100.0);
    t.wait(1.0);
    t.starts(1, 9, &[0]);
    t.wait(8.0);
    ledger.look(&t.survey().meters);
}

fn time_never_goes_back(t: &mut Trial<'_>) {
    t.wait(100.0);
    t.add_new(1, 1, 500.0);
    assert!(t.starts(1, 1, &[0]));
    t.wait(100.0);
    let (now, late) = (t.bed.now(), t.survey());
    let back = Time(now.0 - Time::from_seconds(90.0 * t.bed.unit_seconds()).0);
    let early = t.engine.survey(back, now).expect("the engine answers");
    assert_eq!(places(&early), places(&late));
    assert!(early.survey.gangs.iter().zip(&late.survey.gangs).all(|(a, b)| a.steps_done >= b.steps_done));
    let busy = |report: &EngineReport| report.meters.kinds.iter().map(|kind| kind.busy_gpu_seconds).sum::<f64>();
    assert!(busy(&early) >= busy(&late));
    if t.bed.exact() {
        assert_eq!(early.survey, late.survey);
        assert_eq!(early.meters.kinds, late.meters.kinds);
        let still = t.engine.survey(Time::ZERO, Time::ZERO).expect("the engine answers");
        assert!(still.observations.is_empty(), "no time has passed");
    }
}
