//! Snapshots: the whole state now and then, so that a restart need not do everything again.
//!
//! Here the state is serialised; the loop puts it into the journal piece by piece ([`MaintenanceStep`](crate::store::MaintenanceStep)), so that nobody
//! competes with it for the file. In between, the write-ahead log is folded into the file, and once a minute the last use of tokens is noted.

use super::threads::{self, Thread};
use super::{Message, Shared};
use crate::read::book::Book;
use crate::service::state_machine::{Readable, SavedRef, StateMachine};
use crate::store::{Pieces, Store};
use arles_core::Scheduler;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Between two times that the log is folded into the file.
const FOLD_EVERY: Duration = Duration::from_secs(1);
/// Between two times that the last use of tokens is written.
const NOTE_USE_EVERY: Duration = Duration::from_secs(60);

/// What the snapshotter does.
pub(crate) enum SnapshotTask {
    /// Serialise a copy of everything as of an entry.
    Serialise(Box<SnapshotRequest>),
    /// Read the snapshot of this entry back, before anything is dropped for it.
    ReadBack(u64),
    /// Drop a copy that somebody else is done with.
    Drop(Box<Scheduler>),
}

/// A copy of everything as of an entry.
pub(crate) struct SnapshotRequest {
    pub(crate) machine: StateMachine,
    pub(crate) book: Book,
    pub(crate) seq: u64,
}

/// Whether the snapshot of an entry can be read back from the file.
pub(super) fn is_readable(store: &Store, seq: u64) -> bool {
    let found = store.snapshots().map(|rows| rows.into_iter().find(|row| row.seq == seq));
    let why = match found {
        Ok(Some(row)) => match store.snapshot_body(&row) {
            Ok(body) => match body.state::<Readable>() {
                Ok(_) => return true,
                Err(why) => why,
            },
            Err(error) => error.to_string(),
        },
        Ok(None) => format!("the snapshot of entry {seq} is not there"),
        Err(error) => error.to_string(),
    };
    tracing::error!(
        "a snapshot was written and cannot be read back: {why}; it is discarded, and the entries before it stay"
    );
    false
}

pub(super) fn start(mut store: Store, shared: Arc<Shared>) -> Sender<SnapshotTask> {
    let (sender, inbox) = mpsc::channel::<SnapshotTask>();
    let watched = Arc::clone(&shared);
    let run = move || {
        let mut noted = Instant::now();
        loop {
            match inbox.recv_timeout(FOLD_EVERY) {
                Ok(SnapshotTask::Drop(copy)) => drop(copy),
                Ok(SnapshotTask::ReadBack(seq)) => {
                    let readable = is_readable(&store, seq);
                    if shared.send(Message::SnapshotReadBack(seq, readable)).is_err() {
                        return;
                    }
                }
                Ok(SnapshotTask::Serialise(request)) => {
                    let began = Instant::now();
                    let steps = serialise(&request.machine, &request.book, request.seq);
                    drop(request);
                    let steps = steps.finish(shared.options.keep_journal);
                    if shared.send(Message::Maintenance(steps, began.elapsed())).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Err(error) = store.fold() {
                tracing::warn!("{error}; the write-ahead log grows until this succeeds");
            }
            if noted.elapsed() >= NOTE_USE_EVERY {
                noted = Instant::now();
                if let Err(error) = shared.credentials.write_last_use(&mut store) {
                    tracing::warn!("{error}; trying again in a minute");
                }
            }
        }
    };
    threads::spawn(&watched, Thread::Snapshotter, run);
    sender
}

/// The state as of an entry, as JSON in pieces.
pub(super) fn serialise(machine: &StateMachine, book: &Book, seq: u64) -> Pieces {
    let mut pieces = Pieces::new(seq);
    serde_json::to_writer(&mut pieces, &SavedRef { machine, book }).expect("plain data, into memory");
    pieces
}
