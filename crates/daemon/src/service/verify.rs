//! Is a journal what it should be? Everything that can be said without a daemon, one sentence for every finding.
//!
//! The file is looked at as it is (pages, hashes, seals, the mark beside it), then replayed: as a daemon would recover it, and from the older
//! snapshot, which must lead to the newest.

use super::state_machine::{Recovered, StateMachine};
use crate::store::entry::{JournalHeader, fingerprint};
use crate::store::{Store, StoreError};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// What was found.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Verified {
    /// One sentence for everything that is wrong; none if all is well.
    pub findings: Vec<String>,
    /// What is worth knowing, and nothing wrong with the file.
    pub notes: Vec<String>,
    /// Entries in the file, and those of them that carry a hash.
    pub entries: u64,
    /// Entries with a hash.
    pub hashed_entries: u64,
    /// Number of the last entry.
    pub last_entry: u64,
    /// Snapshots in the file.
    pub snapshots: usize,
    /// Entries that were replayed.
    pub replayed: u64,
    /// Jobs that are not over.
    pub live_jobs: usize,
}

/// Looks at a journal: a state folder, its database, or a copy. A daemon may be writing it.
///
/// # Errors
/// When there is no journal to look at.
pub fn verify(path: &Path) -> Result<Verified, StoreError> {
    let mut store = Store::read(path)?;
    store.freeze()?;
    let inspected = store.inspect()?;
    let mut found = Verified {
        findings: inspected.findings,
        entries: inspected.entries,
        hashed_entries: inspected.chained,
        last_entry: inspected.last,
        ..Verified::default()
    };
    if let Err(error) = replay(&store, &mut found) {
        let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
        let text = format!("{error}{cause}");
        if !found.findings.contains(&text) {
            found.findings.push(text);
        }
    }
    Ok(found)
}

/// The same for a copy that must be whole.
///
/// # Errors
/// The first finding.
pub fn check_copy(path: &Path) -> Result<Verified, StoreError> {
    let found = verify(path)?;
    match found.findings.first() {
        None => Ok(found),
        Some(first) => Err(StoreError::Refused(format!("the copy {} is not whole: {first}", path.display()))),
    }
}

fn replay(store: &Store, found: &mut Verified) -> Result<(), StoreError> {
    let header = store.header()?.map(Arc::new).ok_or_else(|| {
        StoreError::Refused(format!("the journal {} is empty: no daemon has used it yet", store.path().display()))
    })?;
    let rows = store.snapshots()?;
    found.snapshots = rows.len();
    let mut remarks = Vec::new();
    let recovered = StateMachine::recover(store, &header, &mut |remark| remarks.push(remark));
    // What the mark says is among the findings already.
    found.findings.extend(remarks.into_iter().filter(|remark| !store.shortfall().remarks.contains(remark)));
    let recovered = recovered?;
    (found.replayed, found.live_jobs) = (recovered.replayed, recovered.machine.scheduler.live_jobs());
    if recovered.differing > 0 {
        found.notes.push(format!(
            "{} of {} replayed entries lead to other decisions than were recorded: another version of arles wrote them",
            recovered.differing, recovered.replayed
        ));
    }
    compare_snapshots(store, &header, found)
}

/// The older snapshot and the entries since must lead to the newest.
fn compare_snapshots(store: &Store, header: &Arc<JournalHeader>, found: &mut Verified) -> Result<(), StoreError> {
    let damaged = found.findings.iter().any(|finding| finding.starts_with("the snapshot of entry"));
    if damaged {
        return Ok(());
    }
    let Some((newest, retraced)) = StateMachine::recover_twice(store, header)? else { return Ok(()) };
    found.replayed += retraced.replayed;
    let (seq, differing) = (newest.seq, retraced.differing);
    if differing == 0 && state(newest) != state(retraced) {
        found.findings.push(format!(
            "the snapshot of entry {seq} is not what the snapshot before it and the entries between lead to; restore a backup, or use the version of arles that wrote it"
        ));
    }
    Ok(())
}

/// A fingerprint of everything, as it is once all history is written.
fn state(recovered: Recovered) -> (u64, u64) {
    let Recovered { machine, mut book, .. } = recovered;
    let rows = book.rows_to_write();
    book.rows_written(&rows);
    (fingerprint(&machine), fingerprint(&book))
}
