//! What the book must not depend on.

use super::*;
use crate::service::state_machine::StateMachine;
use crate::store::entry::{Submission, fingerprint};
use arles_core::allocate::AllocateError;
use arles_core::engine::{JobMeter, KindMeter, Meters};
use arles_core::meter::Charge;
use arles_core::scheduler::{Fence, Settings};
use arles_core::{Cluster, JobSpec, Library, TenantId, Work, WorkloadId};

const JOB: JobId = JobId(1);

pub(super) fn header() -> Arc<JournalHeader> {
    let kind = Library::builtin().kind("v100").expect("a known kind").clone();
    Arc::new(JournalHeader {
        cluster: Cluster::uniform(vec![kind], &[1], 1).expect("a cluster"),
        settings: Settings::with_round(60.0),
        tenants: vec![Tenant { name: "a".into(), weight: 1.0 }],
        policy: "fifo".into(),
        workloads: vec![Library::builtin().workloads()[0].name.clone()],
        restart_seconds: 0.0,
        begun: Time::ZERO,
    })
}

/// A book in which a job was submitted and completed.
fn completed() -> Book {
    let mut book = Book::new(&header());
    let spec = JobSpec {
        id: JOB,
        tenant: TenantId(0),
        workload: WorkloadId(0),
        gang: 1,
        work: Work::Steps(10.0),
        floor: None,
        weight: 1.0,
        restart_seconds: 0.0,
        kinds: Vec::new(),
        arrived: Time::ZERO,
        ..JobSpec::default()
    };
    book.record(Time(1), &Entry::Submit(Submission { spec, name: None, key: None, tasks: 0 }), &Effects::default());
    let completed = Output::Note(Event::Completed { job: JOB });
    let effects = Effects { outputs: vec![completed], ..Effects::default() };
    book.record(Time(2), &Entry::Input(Input::Tick), &effects);
    book
}

/// The same, and the job was dismissed.
fn closed() -> Book {
    let mut book = completed();
    book.record(Time(3), &Entry::Dismissed(JOB, None), &Effects::default());
    book
}

/// An answer that the scheduler no longer waits for was counted as a decision, unless a restart had come between.
#[test]
fn a_late_answer_to_a_dropped_question_is_no_decision() {
    let mut machine = StateMachine::new(&header()).expect("a known policy");
    let spec = JobSpec { id: JOB, work: Work::Steps(10.0), ..JobSpec::default() };
    machine.step(Time(1), &Entry::Submit(Submission { spec, name: None, key: None, tasks: 0 }));
    machine.step(Time(2), &Entry::Input(Input::Tick));
    let round = machine.scheduler.open_problem().expect("a question").round;
    let answer = Entry::Input(Input::Allocated(
        round,
        Err(AllocateError::OverCapacity { kind: KindId(0), granted: 2.0, capacity: 1.0 }),
    ));
    machine.step(Time(3), &Entry::Input(Input::Policy("las".into())));
    assert_eq!(machine.step(Time(4), &answer).answered, None, "another policy was asked meanwhile");
}

fn meter() -> JobMeter {
    let charge = Charge { active_joules: 5.0, ..Charge::default() };
    JobMeter { job: JOB, charge, gpu_seconds: 3.0, steps: 10.0, rate: 0.0 }
}

fn write_rows(book: &mut Book) {
    let rows = book.rows_to_write();
    book.rows_written(&rows);
}

/// Whatever still comes of a dismissed job: a daemon that has written the job's row ignores it, and one that replays the journal must
/// not count it either.
#[test]
fn what_comes_after_a_job_is_closed_counts_the_same_before_and_after_its_row_is_written() {
    let (mut early, mut late) = (closed(), closed());
    write_rows(&mut early);
    assert!(early.jobs.is_empty() && !late.jobs.is_empty());
    let stop = Output::Order(Order::Stop { job: JOB, fence: Fence(7) });
    let meters = Meters { boot: 1, jobs: vec![meter()], kinds: vec![KindMeter::default()], gpu_watts: vec![0.0] };
    for book in [&mut early, &mut late] {
        let effects = Effects { outputs: vec![stop.clone()], ..Effects::default() };
        book.record(Time(4), &Entry::Input(Input::Tick), &effects);
        book.record(Time(5), &Entry::Meters(meters.clone()), &Effects::default());
        write_rows(book);
    }
    assert_eq!(fingerprint(&early), fingerprint(&late));
    assert_eq!((early.counts.stops, early.changes.len()), (0, 0));
}

/// The parts of a reading (they are journalled one by one) lead to the same accounts as the whole, of an engine that began anew too.
#[test]
fn a_reading_in_parts_is_booked_as_the_whole() {
    let reading = |boot, joules: f64| {
        let charge = Charge { active_joules: joules, ..Charge::default() };
        let jobs = [JOB, JobId(2)].map(|job| JobMeter { job, charge, gpu_seconds: 3.0, steps: 10.0, rate: 2.0 });
        let kind = KindMeter { unused_joules: joules, ..KindMeter::default() };
        Meters { boot, jobs: jobs.to_vec(), kinds: vec![kind], gpu_watts: vec![9.0] }
    };
    let (mut whole, mut in_parts) = (completed(), completed());
    for (at, boot, joules) in [(5, 1, 40.0), (6, 1, 90.0), (7, 2, 30.0), (8, 2, 50.0)] {
        whole.record(Time(at), &Entry::Meters(reading(boot, joules)), &Effects::default());
        for part in reading(boot, joules).in_parts(1) {
            in_parts.record(Time(at), &Entry::Meters(part), &Effects::default());
        }
        assert_eq!(fingerprint(&whole), fingerprint(&in_parts));
    }
    assert_eq!((whole.totals.tenants[0].0.active_joules, whole.totals.kinds[0].unused_joules), (140.0, 140.0));
}

/// A daemon that restarts sends the engine the list of live jobs. A job that ends before the reply is metered once more when it is
/// dismissed. The reply used to close its record, and then the last meter counted or not, depending on when the row was written.
#[test]
fn a_job_that_ends_while_the_list_of_live_jobs_is_on_its_way_keeps_its_last_meter() {
    let mut book = completed();
    book.record(Time(3), &Entry::RollCall(Vec::new()), &Effects::default());
    write_rows(&mut book);
    book.record(Time(4), &Entry::Dismissed(JOB, Some(meter())), &Effects::default());
    assert_eq!(book.totals.tenants, [(meter().charge, 3.0)]);
    write_rows(&mut book);
    assert!(book.jobs.is_empty() && book.closing.is_empty());
}

#[test]
fn a_snapshot_from_before_the_catalog_still_says_what_was_measured() {
    let mut old = serde_json::to_value(completed()).expect("plain data");
    let cell = r#"[[[{"workload":0,"gang":1,"partner":null},0,false],{"rate":9.0,"watts":80.0,"mean_rate":10.0,"mean_watts":90.0,"times":4,"at":7,"first_estimate":12.0}]]"#;
    old["measured"] = serde_json::from_str(cell).expect("a cell");
    old.as_object_mut().expect("fields").remove("sightings");
    let mut book: Book = serde_json::from_value(old).expect("a book");
    book.keep_old_sightings();
    let key = (RateQuery { workload: WorkloadId(0), gang: 1, partner: None }, KindId(0), Spread::Packed);
    assert_eq!(book.sightings[&key], Sighting { first_estimate: Some(12.0), at: Time(7) });
    assert_eq!((book.old_measured[&key].mean_rate, book.old_measured[&key].times), (10.0, 4));
    assert!(serde_json::to_value(&book).expect("plain data").get("measured").is_none());
}

/// A million jobs are kept in memory: what one takes is looked at whenever it grows.
#[test]
fn a_record_is_small() {
    let (record, line) = (size_of::<Record>(), size_of::<(JobId, TenantId, arles_core::scheduler::Reason)>());
    println!("bytes: a record {record}, a line of what is told {line}");
    assert!(record <= 560 && line <= 128, "{record} and {line} bytes");
}
