//! Who may run at all: held jobs, dependencies, arrays, limits.

use super::*;
use crate::{ArrayTask, Dependency, Outcome};
use proptest::prelude::*;

impl Bench {
    pub(super) fn take(&mut self, spec: JobSpec) -> Vec<Output> {
        let out = self.tell(Input::Submit(spec)).to_vec();
        self.answer(&out);
        out
    }

    /// Answers whatever was asked about speeds.
    fn answer(&mut self, out: &[Output]) {
        for output in out {
            if let Output::Estimate(ask) = output {
                let rate = f64::from(ask.gang);
                let cell = Estimate {
                    rate,
                    spread_rate: rate,
                    racks_rate: 0.0,
                    partner_rate: 0.0,
                    watts: 100.0,
                    standard_error: 0.0,
                    source: Source::Measured,
                };
                self.tell(Input::Estimated(vec![RateRow { ask: *ask, cells: vec![Some(cell)] }]));
            }
        }
    }

    /// A round in which everything that is ordered happens at once.
    pub(super) fn obedient_round(&mut self) -> Vec<Start> {
        let started = self.round();
        self.obey();
        let all: Vec<u32> = (0..self.scheduler.cluster().nodes().len() as u32).collect();
        let gangs = self.held().into_iter().map(|(job, fence, gpus)| ObservedGang {
            job,
            fence,
            gpus,
            steps_done: 0.0,
            state: GangState::Running,
        });
        let gangs = gangs.collect();
        self.wait(1.0);
        self.survey(&all, gangs);
        started
    }

    /// Confirms every order that is open.
    pub(super) fn obey(&mut self) {
        loop {
            let open = self.scheduler.again();
            let mut did = false;
            for output in &open {
                let Output::Order(order) = output else { continue };
                did = true;
                let (job, fence, event) = match order {
                    Order::Start(start) => (start.job, start.fence, GangEvent::Started),
                    Order::Stop { job, fence } => (*job, *fence, GangEvent::Stopped(0.0)),
                };
                self.tell(Input::Reported(GangReport::new(job, fence, event)));
            }
            if !did {
                return;
            }
        }
    }

    pub(super) fn held(&self) -> Vec<(JobId, Fence, Vec<GpuId>)> {
        let status =
            |id| self.scheduler.job_status(id).expect("it is live").gang.map(|g| (id, g.fence, g.gpus.to_vec()));
        self.scheduler.live().filter_map(status).collect()
    }

    fn reason(&self, job: u64) -> String {
        self.scheduler.explain(JobId(job)).to_string()
    }
}

fn gave_up(outputs: &[Output]) -> Vec<(u64, String)> {
    let end = |o: &Output| match o {
        Output::Note(Event::GaveUp { job, why }) => Some((job.0, why.clone())),
        _ => None,
    };
    outputs.iter().filter_map(end).collect()
}

fn after(id: u64, on: u64, outcome: Outcome) -> JobSpec {
    JobSpec { after: vec![Dependency { job: JobId(on), outcome }], ..job(id, 1) }
}

fn task(id: u64, index: u32, at_most: u32) -> JobSpec {
    JobSpec { array: Some(ArrayTask { array: JobId(1), index, at_most }), ..job(id, 1) }
}

#[test]
fn a_held_job_waits_until_it_is_released() {
    let mut bench = Bench::new(&[2]);
    bench.take(JobSpec { held: true, ..job(1, 1) });
    let two = bench.running(2, 1);
    assert_eq!(bench.reason(1), "waits: held; starts after it is released");
    let out = bench.tell(Input::Hold(JobId(2))).to_vec();
    let stop = Output::Order(Order::Stop { job: JobId(2), fence: two.fence });
    assert_eq!(out, [Output::Note(Event::Held { job: JobId(2) }), stop]);
    assert!(bench.tell(Input::Hold(JobId(2))).is_empty(), "twice is once");
    bench.report(2, two.fence, GangEvent::Stopped(30.0));
    let status = bench.scheduler.job_status(JobId(2)).expect("it is live");
    assert_eq!((status.held, status.steps_done), (true, 30.0));
    assert!(bench.obedient_round().is_empty());
    assert_eq!(bench.tell(Input::Release(JobId(2))), [Output::Note(Event::Released { job: JobId(2) })]);
    bench.tell(Input::Release(JobId(1)));
    assert_eq!(bench.obedient_round().len(), 2);
}

#[test]
fn jobs_start_after_what_they_wait_for() {
    let mut bench = Bench::new(&[4]);
    let one = bench.running(1, 1);
    let two = bench.running(2, 1);
    bench.take(after(3, 1, Outcome::Ok));
    bench.take(after(4, 2, Outcome::Ok));
    bench.take(after(5, 4, Outcome::NotOk));
    bench.take(after(6, 4, Outcome::Ok));
    bench.take(after(7, 99, Outcome::Ok));
    assert_eq!(bench.reason(3), "waits: starts after job 1");
    bench.wait(1.0);
    bench.survey(&[0], vec![seen(&one), seen(&two)]);
    assert_eq!(
        bench.obedient_round().iter().map(|s| s.job.0).collect::<Vec<_>>(),
        [7],
        "what is not live counts as met"
    );
    bench.report(1, one.fence, GangEvent::Finished);
    bench.tell(Input::Cancel(JobId(2)));
    let out = bench.report(2, two.fence, GangEvent::Stopped(1.0)).to_vec();
    let why = |id: u64| format!("it was to start after job {id} completed, and that failed or was cancelled");
    assert_eq!(gave_up(&out), [(4, why(2)), (6, why(4))]);
    let started: BTreeSet<u64> = bench.round().iter().map(|s| s.job.0).collect();
    assert_eq!(started, BTreeSet::from([3, 5]));
    // A job of an id that was waited for once is another job.
    bench.take(job(1, 1));
    let text = serde_json::to_string(&bench.scheduler).expect("a snapshot");
    let again: Scheduler = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again.jobs.get(again.jobs.slot(JobId(3)).expect("it is live")).unmet, 0);
}

#[test]
fn a_time_limit_ends_a_job_with_a_sentence() {
    let mut bench = Bench::new(&[1]);
    bench.take(JobSpec { time_limit_seconds: Some(2.5 * ROUND), ..job(1, 1) });
    bench.take(after(2, 1, Outcome::NotOk));
    let mut rounds = 0;
    while bench.scheduler.job_status(JobId(1)).is_some() {
        bench.obedient_round();
        rounds += 1;
        assert!(rounds < 9, "it never ends");
    }
    assert!((4..=5).contains(&rounds), "it ran for {rounds} rounds");
    assert_eq!(bench.obedient_round().len(), 1, "the next may start");
}

#[test]
fn exit_codes_and_a_retry_limit_of_its_own() {
    let mut bench = Bench::new(&[1]);
    bench.take(JobSpec { most_failures: Some(2), ..job(1, 1) });
    let mut words = Vec::new();
    for code in [3, 137] {
        bench.wait(10.0 * ROUND);
        bench.survey(&[0], Vec::new());
        let start = bench.round().pop().expect("there is room");
        bench.report(1, start.fence, GangEvent::Started);
        let failed = GangEvent::Failed(0.0, "train.py ended".into());
        let report = GangReport { exit_code: Some(code), ..GangReport::new(JobId(1), start.fence, failed) };
        for output in bench.tell(Input::Reported(report)) {
            if let Output::Note(Event::Requeued { why, .. } | Event::GaveUp { why, .. }) = output {
                words.push(why.clone());
            }
        }
        if let Some(status) = bench.scheduler.job_status(JobId(1)) {
            assert_eq!(status.exit_code, Some(3));
            assert!(bench.reason(1).starts_with("waits: failed 1 of 2 times in a row"), "{}", bench.reason(1));
        }
    }
    assert_eq!(words, ["exit code 3: train.py ended", "failed 2 times in a row, last: exit code 137: train.py ended"]);
}

#[test]
fn limits_that_cannot_be_meant_are_refused() {
    let mut bench = Bench::new(&[1]);
    let needs = crate::Needs { cpus_per_gpu: -1.0, ..crate::Needs::default() };
    for (spec, sentence) in [
        (JobSpec { needs, ..job(1, 1) }, "job 1 needs -1 CPUs per GPU; expected 0 or more"),
        (
            JobSpec { time_limit_seconds: Some(f64::NAN), ..job(1, 1) },
            "job 1 may run for NaN seconds; expected more than 0, or no limit",
        ),
        (JobSpec { most_failures: Some(0), ..job(1, 1) }, "job 1 is given up after 0 failures; expected at least 1"),
        (after(1, 1, Outcome::Any), "job 1 is to start after itself; name another job"),
    ] {
        let out = bench.take(spec);
        assert_eq!(out, [Output::Note(Event::Rejected { job: JobId(1), why: sentence.into() })]);
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Round,
    Finish(usize),
    Fail(usize),
    Cancel(u64),
    Hold(u64),
    Release(u64),
    Submit(Option<u64>),
}

fn deed() -> impl Strategy<Value = Deed> {
    let id = || 1u64..20;
    prop_oneof![
        4 => Just(Deed::Round),
        2 => (0usize..4).prop_map(Deed::Finish),
        1 => (0usize..4).prop_map(Deed::Fail),
        1 => id().prop_map(Deed::Cancel),
        2 => id().prop_map(Deed::Hold),
        2 => id().prop_map(Deed::Release),
        4 => prop::option::of(id()).prop_map(Deed::Submit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// No array ever holds GPUs for more tasks than it may; no job runs before what it waits for has ended, or while it is held; and when
    /// everything is released and ends, everything has run.
    #[test]
    fn nobody_runs_who_may_not(deeds in prop::collection::vec(deed(), 1..80)) {
        let mut bench = Bench::new(&[4, 4]);
        let (mut next, mut over) = (1, BTreeSet::new());
        let mut waits_for: BTreeMap<u64, u64> = BTreeMap::new();
        let finish = |bench: &mut Bench, which: usize, event: GangEvent| {
            let held = bench.held();
            if let Some((job, fence, _)) = held.get(which).cloned() {
                bench.tell(Input::Reported(GangReport::new(job, fence, event)));
            }
        };
        for deed in deeds {
            match deed {
                Deed::Round => drop(bench.obedient_round()),
                Deed::Finish(which) => finish(&mut bench, which, GangEvent::Finished),
                Deed::Fail(which) => finish(&mut bench, which, GangEvent::Failed(0.0, "broke".into())),
                Deed::Cancel(id) => drop(bench.tell(Input::Cancel(JobId(id))).to_vec()),
                Deed::Hold(id) => drop(bench.tell(Input::Hold(JobId(id))).to_vec()),
                Deed::Release(id) => drop(bench.tell(Input::Release(JobId(id))).to_vec()),
                Deed::Submit(on) => {
                    let mut spec = if next % 4 == 0 { job(next, 1) } else { task(next, next as u32, 2) };
                    if let Some(on) = on.filter(|on| bench.scheduler.job_status(JobId(*on)).is_some()) {
                        spec.after.push(Dependency { job: JobId(on), outcome: Outcome::Any });
                        waits_for.insert(next, on);
                    }
                    bench.take(spec);
                    next += 1;
                }
            }
            over.extend((1..next).filter(|&id| bench.scheduler.job_status(JobId(id)).is_none()));
            let text = serde_json::to_string(&bench.scheduler).expect("a snapshot");
            let again: Scheduler = serde_json::from_str(&text).expect("what was written can be read");
            prop_assert_eq!(format!("{:?}", again.arrays), format!("{:?}", bench.scheduler.arrays));
            prop_assert_eq!(&again.dependents, &bench.scheduler.dependents);
            let tasks = bench.held().iter().filter(|(id, ..)| id.0 % 4 != 0).count();
            prop_assert!(tasks <= 2, "{} tasks hold GPUs", tasks);
            for (id, ..) in bench.held() {
                let status = bench.scheduler.job_status(id).expect("it is live");
                prop_assert!(!status.held || status.phase == JobPhase::Stopping, "{} is held", id);
                prop_assert!(waits_for.get(&id.0).is_none_or(|on| over.contains(on)), "{} runs too early", id);
            }
        }
        for _ in 0..200 {
            (1..next).for_each(|id| drop(bench.tell(Input::Release(JobId(id))).to_vec()));
            bench.obedient_round();
            while let Some((job, fence, _)) = bench.held().pop() {
                bench.tell(Input::Reported(GangReport::new(job, fence, GangEvent::Finished)));
                bench.obey();
            }
        }
        prop_assert_eq!(bench.scheduler.live_jobs(), 0);
        prop_assert!(bench.scheduler.arrays.is_empty() && bench.scheduler.dependents.is_empty());
    }
}
