//! Four cards of a kind, one of which is slow.

use super::super::*;
use super::*;
use crate::service::state_machine::{Effects, JobUpdate};
use crate::store::entry::{ProgressReport, Submission};
use arles_core::scheduler::{Fence, Settings, Start};
use arles_core::{JobSpec, Library, TenantId, Work, WorkloadId};

fn book() -> Book {
    let kind = Library::builtin().kind("v100").expect("a known kind").clone();
    let workloads = Library::builtin().workloads().iter().take(2).map(|w| w.name.clone()).collect();
    Book::new(&Arc::new(JournalHeader {
        cluster: Cluster::uniform(vec![kind], &[4], 4).expect("a cluster"),
        settings: Settings::with_round(60.0),
        tenants: vec![Tenant { name: "a".into(), weight: 1.0 }],
        policy: "fifo".into(),
        workloads,
        restart_seconds: 0.0,
        begun: Time::ZERO,
    }))
}

/// A job runs on a GPU for three minutes at this rate and reports it; what of it counts as measured.
fn run(book: &mut Book, job: u64, gpu: u32, rate: f64) -> Vec<Observation> {
    let (workload, begin) = (WorkloadId(job as u32 / 4 % 2), 200.0 * job as f64);
    let at = |seconds: f64| Time::from_seconds(begin + seconds);
    let spec = JobSpec {
        id: JobId(job),
        tenant: TenantId(0),
        workload,
        gang: 1,
        work: Work::Steps(1e9),
        weight: 1.0,
        ..JobSpec::default()
    };
    book.record(at(0.0), &Entry::Submit(Submission { spec, name: None, key: None, tasks: 0 }), &Effects::default());
    let start = Start {
        job: JobId(job),
        fence: Fence(job),
        kind: KindId(0),
        gpus: vec![GpuId(gpu)],
        spread: Spread::Packed,
        lease_seconds: 60.0,
    };
    let follow = |job, state, held| JobUpdate {
        job: JobId(job),
        state,
        held,
        steps_done: 0.0,
        first_started: None,
        failures: 0,
        estimated_rate: Some(10.0),
    };
    let held = HeldGpus { kind: KindId(0), gpus: vec![gpu], spread: Spread::Packed };
    // Whoever was there before has left.
    let before = book.seats[gpu as usize].into_iter().filter(|&job| job != 0);
    let left = before.map(|job| follow(job, JobState::Waiting, None));
    let effects = Effects {
        outputs: vec![Output::Order(Order::Start(start))],
        changed_jobs: left.chain([follow(job, JobState::Running, Some(held))]).collect(),
        ..Effects::default()
    };
    book.record(at(1.0), &Entry::Input(Input::Checkpointed(Vec::new())), &effects);
    let mut measured = Vec::new();
    for n in 1..36 {
        let now = 5.0 * f64::from(n);
        let said = (n > 1).then_some(rate);
        let report = ProgressReport {
            job: JobId(job),
            at: at(now),
            steps: rate * now,
            rate: said,
            speed: 1.0,
            safe_steps: None,
        };
        let seen = book.observations(&[report]);
        book.record(at(now), &Entry::Progress(vec![report]), &Effects::default());
        book.record(at(now), &Entry::Measured(seen.clone()), &Effects::default());
        measured.extend(seen);
    }
    measured
}

#[test]
fn a_slow_card_is_named_and_does_not_speak_for_its_kind() {
    let mut book = book();
    let speed = |gpu: u32| if gpu == 2 { 0.7 } else { 1.0 };
    for job in 1..=24 {
        let gpu = (job % 4) as u32;
        run(&mut book, job, gpu, 10.0 * speed(gpu));
    }
    let slow: Vec<GpuId> = book.slow_cards().collect();
    assert_eq!(slow, [GpuId(2)]);
    let speed_of_2 = book.slow_card(GpuId(2)).expect("slow");
    assert!((speed_of_2.ratio - 0.7).abs() < 0.05 && speed_of_2.runs == 6, "{speed_of_2:?}");
    let told: Vec<&str> = book.events.iter().filter(|e| e.what == "slow-gpu").map(|e| e.text.as_str()).collect();
    assert!(told.len() == 1 && told[0].starts_with("GPU 2 of ") && told[0].contains("of other v100"), "{told:?}");

    // What it measures is put right before it counts, and what is expected of a job there is less.
    let measured = run(&mut book, 26, 2, 7.0);
    assert!(!measured.is_empty() && measured.iter().all(|seen| (seen.rate - 10.0).abs() < 0.7), "{measured:?}");
    let expected = book.expected_rate(&book.jobs[&JobId(26)]).expect("estimated");
    assert!((expected - 7.0).abs() < 0.5, "{expected}");
    let measured = run(&mut book, 29, 1, 10.0);
    assert!(measured.iter().all(|seen| seen.rate == 10.0), "{measured:?}");

    // It is part of snapshots.
    let text = serde_json::to_string(&book).expect("written");
    let again: Book = serde_json::from_str(&text).expect("read");
    assert_eq!(again.cards, book.cards);
}

#[test]
fn gangs_and_repeated_looks_at_one_run_do_not_convict() {
    let mut book = book();
    run(&mut book, 1, 0, 10.0);
    run(&mut book, 2, 1, 5.0);
    assert_eq!(book.slow_cards().count(), 0, "one run may be slow for a reason of its own");
    assert_eq!(book.jobs[&JobId(2)].looks.map(|looks| looks.count), Some(LOOKS_PER_RUN));
}
