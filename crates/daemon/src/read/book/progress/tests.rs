//! Which reports count as measurements.

use super::super::*;
use super::*;
use crate::service::state_machine::{Effects, JobUpdate};
use crate::store::entry::Submission;
use arles_core::scheduler::Settings;
use arles_core::{Cluster, JobSpec, Library, TenantId, Work, WorkloadId};

fn seconds(s: f64) -> Time {
    Time::from_seconds(s)
}

/// One GPU, and a job of each of two workloads.
fn book() -> Book {
    let kind = Library::builtin().kind("v100").expect("a known kind").clone();
    let workloads: Vec<String> = Library::builtin().workloads().iter().take(2).map(|w| w.name.clone()).collect();
    let mut book = Book::new(&Arc::new(JournalHeader {
        cluster: Cluster::uniform(vec![kind], &[1], 1).expect("a cluster"),
        settings: Settings::with_round(60.0),
        tenants: vec![Tenant { name: "a".into(), weight: 1.0 }],
        policy: "fifo".into(),
        workloads,
        restart_seconds: 0.0,
        begun: Time::ZERO,
    }));
    for job in 1..=2 {
        let spec = JobSpec {
            id: JobId(job),
            tenant: TenantId(0),
            workload: WorkloadId(job as u32 - 1),
            gang: 1,
            work: Work::Steps(1e9),
            weight: 1.0,
            ..JobSpec::default()
        };
        book.record(Time(1), &Entry::Submit(Submission { spec, name: None, key: None, tasks: 0 }), &Effects::default());
    }
    book
}

fn set(book: &mut Book, at: f64, job: u64, state: JobState) {
    let held =
        (state != JobState::Waiting).then(|| HeldGpus { kind: KindId(0), gpus: vec![0], spread: Spread::Packed });
    let update = JobUpdate {
        job: JobId(job),
        state,
        held,
        steps_done: 0.0,
        first_started: None,
        failures: 0,
        estimated_rate: None,
    };
    let effects = Effects { changed_jobs: vec![update], ..Effects::default() };
    book.record(seconds(at), &Entry::Input(Input::Checkpointed(Vec::new())), &effects);
}

/// A report of job 1 every five seconds, and what counts.
fn report(book: &mut Book, at: f64, steps: f64, rate: Option<f64>) -> Option<Observation> {
    let report = ProgressReport { job: JobId(1), at: seconds(at), steps, rate, speed: 1.0, safe_steps: None };
    let seen = book.observations(&[report]);
    book.record(seconds(at + 0.5), &Entry::Progress(vec![report]), &Effects::default());
    assert!(seen.len() <= 1);
    seen.first().copied()
}

#[test]
fn a_rate_counts_when_nothing_changed_since_its_stretch_began() {
    let mut book = book();
    set(&mut book, 0.0, 1, JobState::Running);
    assert_eq!(report(&mut book, 5.0, 10.0, None), None);
    assert_eq!(report(&mut book, 10.0, 20.0, Some(2.0)), None, "its stretch may have begun before the first report");
    let seen = report(&mut book, 15.0, 30.0, Some(2.0)).expect("undisturbed");
    assert_eq!((seen.rate, seen.ask.partner, seen.at, seen.job), (2.0, None, seconds(15.0), Some(JobId(1))));
    for at in [20.0, 25.0, 30.0, 35.0, 40.0] {
        assert_eq!(report(&mut book, at, 2.0 * at, Some(2.0)), None, "one in half a minute is enough");
    }
    assert!(report(&mut book, 45.0, 90.0, Some(2.0)).is_some());
}

#[test]
fn a_partner_that_comes_or_goes_disturbs_and_then_is_part_of_it() {
    let mut book = book();
    set(&mut book, 0.0, 1, JobState::Running);
    report(&mut book, 5.0, 10.0, None);
    report(&mut book, 10.0, 20.0, Some(2.0));
    set(&mut book, 12.0, 2, JobState::Starting);
    assert_eq!(report(&mut book, 15.0, 28.0, Some(1.8)), None);
    assert_eq!(report(&mut book, 20.0, 33.0, Some(1.1)), None, "it began before the partner was there");
    set(&mut book, 21.0, 2, JobState::Running);
    assert_eq!(report(&mut book, 25.0, 38.0, Some(1.0)), None);
    assert_eq!(report(&mut book, 30.0, 43.0, Some(1.0)), None);
    let seen = report(&mut book, 35.0, 48.0, Some(1.0)).expect("both have run since");
    assert_eq!(seen.ask.partner, Some(WorkloadId(1)));
    set(&mut book, 66.0, 2, JobState::Waiting);
    assert_eq!(report(&mut book, 70.0, 60.0, Some(1.5)), None);
}

#[test]
fn a_count_that_stands_still_keeps_the_beginning_of_the_stretch() {
    let mut book = book();
    set(&mut book, 0.0, 1, JobState::Running);
    report(&mut book, 5.0, 1.0, None);
    report(&mut book, 10.0, 2.0, None);
    // A long step: the rate that comes at last was measured from before the partner.
    set(&mut book, 12.0, 2, JobState::Running);
    report(&mut book, 15.0, 2.0, None);
    report(&mut book, 20.0, 2.0, None);
    assert_eq!(report(&mut book, 25.0, 3.0, Some(0.07)), None);
    report(&mut book, 30.0, 3.0, None);
    assert_eq!(report(&mut book, 35.0, 4.0, Some(0.07)).map(|seen| seen.rate), Some(0.07));
}

#[test]
fn a_restart_and_a_count_that_has_not_moved_say_nothing() {
    let mut book = book();
    set(&mut book, 0.0, 1, JobState::Running);
    report(&mut book, 5.0, 10.0, None);
    report(&mut book, 10.0, 20.0, Some(2.0));
    assert_eq!(report(&mut book, 15.0, 20.0, Some(2.0)), None, "no step was done");
    set(&mut book, 16.0, 1, JobState::Starting);
    assert_eq!(report(&mut book, 20.0, 30.0, Some(2.0)), None, "it does not run");
    set(&mut book, 21.0, 1, JobState::Running);
    assert_eq!(report(&mut book, 25.0, 40.0, Some(2.0)), None);
    for rate in [0.0, f64::NAN, f64::INFINITY, -1.0] {
        assert_eq!(report(&mut book, 60.0, 50.0, Some(rate)), None);
    }
}

#[test]
fn an_engine_is_heard_for_the_power_of_a_job_that_measures_itself() {
    let mut book = book();
    set(&mut book, 0.0, 1, JobState::Running);
    let ask = RateQuery { workload: WorkloadId(0), gang: 1, partner: None };
    let engine = |at: f64| Observation {
        ask,
        kind: KindId(0),
        spread: Spread::Packed,
        rate: 7.0,
        watts: 200.0,
        at: seconds(at),
        job: Some(JobId(1)),
    };
    assert_eq!(book.heard_from_engine(vec![engine(1.0)])[0].rate, 7.0, "nobody knows better");
    report(&mut book, 5.0, 10.0, None);
    report(&mut book, 10.0, 20.0, Some(2.0));
    let heard = book.heard_from_engine(vec![engine(12.0)]);
    assert_eq!((heard[0].rate, heard[0].watts), (0.0, 200.0));
    book.record(seconds(12.0), &Entry::Measured(heard), &Effects::default());
    assert_eq!(book.counts.measurements, 0);
    let seen = report(&mut book, 15.0, 30.0, Some(2.0)).expect("undisturbed");
    assert_eq!((seen.rate, seen.watts), (2.0, 200.0));
}
