//! What is counted by reason is what a count of all who wait would find, whatever happens while a table is made.

use super::*;
use crate::read::book::tests::header;
use crate::service::state_machine::{Effects, JobUpdate};
use crate::store::entry::{Entry, Submission};
use arles_core::scheduler::Event;
use arles_core::{Input, JobSpec, Output, Time, Work, WorkloadId};
use proptest::prelude::*;

fn submitted(id: u64) -> Entry {
    let spec = JobSpec { id: JobId(id), workload: WorkloadId(0), work: Work::Steps(10.0), ..JobSpec::default() };
    Entry::Submit(Submission { spec, name: None, key: None, tasks: 0 })
}

/// A job is in this state from now on.
fn turned(id: u64, state: JobState) -> Effects {
    let update = JobUpdate {
        job: JobId(id),
        state,
        held: None,
        steps_done: 0.0,
        first_started: None,
        failures: 0,
        estimated_rate: None,
    };
    Effects { changed_jobs: vec![update], ..Effects::default() }
}

/// A table of everybody who waits now; reasons by chance.
fn table(book: &Book, chance: u64) -> Told {
    let reason = |id: JobId| match (id.0 + chance) % 3 {
        0 => Reason::Held,
        1 => Reason::NoEstimate,
        _ => Reason::ArrayLimit { at_most: 1 },
    };
    let lines: Vec<_> = book.waiting.ids().map(|id| (id, TenantId(0), reason(id))).collect();
    let mut counts = Reasons::new();
    lines.iter().for_each(|(_, tenant, reason)| *counts.entry((tenant.0, reason.code())).or_default() += 1);
    Told { lines, counts }
}

proptest! {
    #[test]
    fn counts_are_those_of_a_count(deeds in prop::collection::vec((0u8..7, 1u64..12), 1..120)) {
        let (mut book, mut begun) = (Book::new(&header()), None);
        let (mut last, tick) = (0, Entry::Input(Input::Tick));
        for (n, (deed, id)) in deeds.into_iter().enumerate() {
            let at = Time(n as u64 + 1);
            match deed {
                0 | 1 => {
                    last += 1;
                    book.record(at, &submitted(last), &Effects::default());
                }
                2 => book.record(at, &tick, &turned(id, JobState::Running)),
                3 => book.record(at, &tick, &turned(id, JobState::Waiting)),
                4 => {
                    let over = Output::Note(Event::Cancelled { job: JobId(id) });
                    book.record(at, &tick, &Effects { outputs: vec![over], ..Effects::default() });
                }
                5 if begun.is_none() => {
                    book.begin_telling();
                    begun = Some(Arc::new(table(&book, id)));
                }
                _ => {
                    if let Some(told) = begun.take() {
                        let counts = book.counted(&told);
                        drop(book.tell(told, counts));
                    }
                }
            }
            let mut again = book.clone();
            again.count_reasons();
            prop_assert_eq!(&again.reasons, &book.reasons);
        }
    }
}

#[test]
fn whoever_begins_to_wait_after_a_table_waits_for_the_next_round() {
    let mut book = Book::new(&header());
    book.record(Time(1), &submitted(1), &Effects::default());
    book.begin_telling();
    let told = Arc::new(table(&book, 2));
    book.record(Time(2), &submitted(2), &Effects::default());
    let counts = book.counted(&told);
    drop(book.tell(told, counts));
    let said = |book: &Book, id: u64| book.reason_of(&book.jobs[&JobId(id)]).map(Reason::code);
    assert_eq!((said(&book, 1), said(&book, 2)), (Some("held"), None));
    let tick = Entry::Input(Input::Tick);
    book.record(Time(3), &tick, &turned(1, JobState::Running));
    assert_eq!(said(&book, 1), None, "it runs");
    book.record(Time(4), &tick, &turned(1, JobState::Waiting));
    assert_eq!(said(&book, 1), None, "what was told before it ran says nothing of it");
}
