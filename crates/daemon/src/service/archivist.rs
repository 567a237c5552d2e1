//! Snapshots: the whole state now and then, so that a restart need not do everything again.

use super::Shared;
use crate::book::Book;
use crate::machine::{Machine, SavedRef};
use crate::store::{Store, StoreError};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

/// A copy of everything as of an entry.
pub(crate) struct Work {
    pub(crate) machine: Machine,
    pub(crate) book: Book,
    pub(crate) seq: u64,
}

pub(super) fn start(mut store: Store, shared: Arc<Shared>) -> Sender<Work> {
    let (sender, inbox) = mpsc::channel::<Work>();
    let run = move || {
        while let Ok(mut work) = inbox.recv() {
            // Should one have come while the last was written, only the newest is worth writing.
            while let Ok(newer) = inbox.try_recv() {
                work = newer;
            }
            if let Err(error) = keep(&mut store, &work, &shared) {
                let cause = std::error::Error::source(&error).map(|e| format!(": {e}")).unwrap_or_default();
                (shared.log)(&format!("{error}{cause}; the journal is still whole, a restart will take longer"));
            }
        }
    };
    std::thread::Builder::new().name("archivist".into()).spawn(run).expect("a thread can be started");
    sender
}

pub(super) fn keep(store: &mut Store, work: &Work, shared: &Shared) -> Result<(), StoreError> {
    let saved = SavedRef { machine: &work.machine, book: &work.book };
    let bytes = store.keep_snapshot(work.seq, &saved, shared.options.keep_journal)?;
    shared.gauges.snapshot_bytes.set(bytes);
    shared.gauges.snapshots.add(1);
    Ok(())
}
