//! The journal on disk: one SQLite file with everything that must survive.
//!
//! Write-ahead log, synced at every commit. One connection writes, owned by the loop; any number read beside it. What is in it:
//!
//! - `journal`: entries since the last snapshots, each with who asked for it, a digest of what followed from it, and a hash of it and of all
//!   before it (`chain.rs`);
//! - `snapshot`, `snapshot_part`: the whole state as of an entry, written in pieces so that no commit waits long, valid once complete
//!   and only if its checksum is right. The two newest are kept, and the entries since the older of them: should the newest be
//!   damaged, the older still leads to the same state;
//! - `past`, `sample`, `audit`: jobs that are over, energy accounts and fairness over time: read page by page, never held in memory;
//! - `deed`: who changed what, from where; it outlives the entries;
//! - `token`, `old_secret`: hashes of secrets, and of those that were replaced; `meta`: what there is once. Their rows carry seals.
//!
//! Beside the file lies the `mark.rs`, which knows how far the journal goes. Folder and files are their owner's alone (`private.rs`).
//!
//! A file of a newer version is refused; an older one is brought up to date in one transaction. A lock file keeps a second daemon out.

pub(crate) mod chain;
mod configured;
pub mod copies;
mod deeds;
pub mod entry;
mod history;
pub(crate) mod inspect;
pub(crate) mod mark;
mod meta;
pub(crate) mod private;
mod retention;
mod schema;
mod snapshots;
mod tokens;

use arles_core::Time;
use arles_core::estimate::Observation;
use chain::Hash;
use entry::{Actor, Entry};
use mark::{FoundMark, MARK_FILE, MarkFile};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use deeds::{Deed, DeedFilter};
pub use history::{HistoryRow, PastFilter};
pub(crate) use retention::PRUNED_AT_ONCE;
pub use retention::Retention;
pub use snapshots::MaintenanceStep;
pub(crate) use snapshots::Pieces;
pub use tokens::{OldSecret, StoredToken};

/// Name of the database in the state folder.
pub const FILE: &str = "journal.db";

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite failed.
    #[error("the journal failed while {doing}")]
    Sqlite {
        /// What was being done.
        doing: &'static str,
        /// SQLite's own error.
        source: rusqlite::Error,
    },
    /// The file or folder cannot be used; a whole sentence says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// Another daemon leads, so that nothing may follow from what was written.
    #[error("{0}")]
    Deposed(String),
}

/// Logs an error with its cause, for callers that are told only that something failed.
pub(crate) fn log_error(error: &StoreError) {
    match std::error::Error::source(error) {
        Some(cause) => tracing::error!(%cause, "{error}"),
        None => tracing::error!("{error}"),
    }
}

impl StoreError {
    fn sqlite(doing: &'static str) -> impl Fn(rusqlite::Error) -> Self {
        move |source| Self::Sqlite { doing, source }
    }
}

type Done<T> = Result<T, StoreError>;

/// An entry as it stands in the journal.
#[derive(Clone, PartialEq, Debug)]
pub struct JournalRecord {
    /// Sequence number, from 1.
    pub seq: u64,
    /// The scheduler's time at which it came in.
    pub at: Time,
    /// What came in.
    pub entry: Entry,
    /// Fingerprint of the orders and notes that followed from it.
    pub digest: u64,
    /// Who asked for it; `None` for what the daemon and its cluster did by themselves.
    pub by: Option<Actor>,
}

/// What the mark beside a journal knows that the journal does not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shortfall {
    /// Entries that were there and are not any more.
    pub(crate) missing: Option<RangeInclusive<u64>>,
    /// The least number that the next job may get.
    pub(crate) next_job: u64,
    /// Sentences about it.
    pub(crate) remarks: Vec<String>,
}

/// The journal, open for reading or for both.
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Hash of the last entry, its number, and the id of the journal: what the mark is told.
    chain: Hash,
    last: u64,
    id: String,
    mark: Option<MarkFile>,
    /// The mark's file, for whoever syncs it beside the one who writes.
    mark_handle: Option<File>,
    shortfall: Shortfall,
    /// Rows that the last maintenance step removed.
    pruned: usize,
    /// Held as long as this daemon lives; `None` for readers.
    _lock: Option<File>,
}

impl Store {
    /// Opens the journal in a folder, or begins one; nobody else may have it open for writing.
    ///
    /// # Errors
    /// When the folder cannot be used, another daemon has it, or the file is not ours or too new.
    pub fn open(folder: &Path) -> Done<Self> {
        let cannot = |what: &str, e: &dyn fmt::Display| {
            StoreError::Refused(format!("cannot {what} {}: {e}; use another folder with --state", folder.display()))
        };
        private::folder(folder, FILE).map_err(|e| cannot("create the folder", &e))?;
        let lock = locked(folder)?;
        let path = folder.join(FILE);
        private::database(&path).map_err(|e| cannot("write to", &e))?;
        let connection = Connection::open(&path).map_err(StoreError::sqlite("opening the file"))?;
        let mut store = Self::of(connection, path, Some(lock));
        store.set_up()?;
        let (mark, found) = MarkFile::open(&folder.join(MARK_FILE)).map_err(|e| cannot("write to", &e))?;
        store.find_end()?;
        store.compare(&found)?;
        store.mark_handle = mark.handle();
        store.mark = Some(mark);
        Ok(store)
    }

    fn of(connection: Connection, path: PathBuf, lock: Option<File>) -> Self {
        Self {
            connection,
            path,
            chain: chain::START,
            last: 0,
            id: String::new(),
            mark: None,
            mark_handle: None,
            shortfall: Shortfall::default(),
            pruned: 0,
            _lock: lock,
        }
    }

    fn set_up(&mut self) -> Done<()> {
        let doing = StoreError::sqlite("configuring the database");
        self.connection.busy_timeout(Duration::from_secs(10)).map_err(&doing)?;
        schema::check(&self.connection, &self.path)?;
        self.connection.pragma_update(None, "journal_mode", "WAL").map_err(&doing)?;
        // FULL syncs the log at every commit: what was acknowledged survives a power cut.
        self.connection.pragma_update(None, "synchronous", "FULL").map_err(&doing)?;
        // The log is folded into the file by somebody who has time for it, not by whoever happens to commit.
        self.connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(&doing)?;
        self.connection.set_prepared_statement_cache_capacity(64);
        schema::migrate(&mut self.connection)
    }

    /// Opens a journal beside whoever writes it.
    ///
    /// # Errors
    /// When there is none at this path (a folder or the file itself), or it is not ours or too new.
    pub fn read(path: &Path) -> Done<Self> {
        let path = if path.is_dir() { crate::lease::newest_journal(path).join(FILE) } else { path.to_owned() };
        if !path.is_file() {
            return Err(StoreError::Refused(format!(
                "no journal at {}; expected the folder given to 'arles serve --state', or its {FILE}",
                path.display()
            )));
        }
        // Before the journal, which is never behind the mark while somebody writes both.
        let found = match path.file_name().is_some_and(|name| name == FILE) {
            true => FoundMark::read(&path.with_file_name(MARK_FILE)),
            false => FoundMark::default(),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // Reading beside a writer needs the shared index of the log, which a read-only file system cannot give.
        let connection = Connection::open_with_flags(&path, flags)
            .or_else(|_| Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY))
            .map_err(StoreError::sqlite("opening the file"))?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(StoreError::sqlite("opening the file"))?;
        schema::check(&connection, &path)?;
        let connection = if schema::is_older(&connection)? { copies::up_to_date(&connection)? } else { connection };
        connection.pragma_update(None, "query_only", true).map_err(StoreError::sqlite("opening the file"))?;
        connection.set_prepared_statement_cache_capacity(64);
        let mut store = Self::of(connection, path, None);
        store.find_end()?;
        store.compare(&found)?;
        Ok(store)
    }

    /// Another reader of the same file.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn reader(&self) -> Done<Self> {
        Self::read(&self.path)
    }

    /// A second writer of the same file, for snapshots and tokens; commits of the two take turns.
    pub(crate) fn side_writer(&self) -> Done<Self> {
        let connection = Connection::open(&self.path).map_err(StoreError::sqlite("opening the file"))?;
        let mut store = Self::of(connection, self.path.clone(), None);
        store.set_up()?;
        store.mark_handle = self.mark.as_ref().and_then(MarkFile::handle);
        Ok(store)
    }

    /// Finds the last entry and its hash.
    fn find_end(&mut self) -> Done<()> {
        let doing = StoreError::sqlite("reading its last entry");
        let sql = "SELECT seq, chain FROM journal UNION ALL SELECT seq, chain FROM snapshot ORDER BY seq DESC LIMIT 1";
        let end = self
            .connection
            .query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, chain::read(row.get_ref(1)?.as_blob_or_null()?))));
        if let Some((seq, chain)) = end.optional().map_err(doing)? {
            (self.last, self.chain) = (seq as u64, chain.unwrap_or(chain::START));
        }
        self.id = self.meta("journal-id")?.unwrap_or_default();
        Ok(())
    }

    /// Compares the journal with what the mark beside it says.
    fn compare(&mut self, found: &FoundMark) -> Done<()> {
        let (path, last) = (self.path.display().to_string(), self.last);
        let mut shortfall = Shortfall::default();
        if found.damaged {
            let text = format!("{MARK_FILE} beside {path} is damaged in part; it is written anew");
            shortfall.remarks.push(text);
        }
        if let Some(mark) = &found.mark {
            if self.id.is_empty() && self.last == 0 && mark.seq > 0 {
                return Err(StoreError::Refused(format!(
                    "{path} is empty, and {MARK_FILE} beside it knows {} entries: the journal is lost, with its jobs; 'arles restore' brings a backup \
                     back. To begin a new journal, remove {MARK_FILE}",
                    mark.seq
                )));
            }
            if mark.journal != self.id {
                shortfall.remarks.push(format!("{MARK_FILE} beside {path} belongs to another journal and is ignored"));
            } else {
                shortfall.next_job = found.next_job();
                if mark.seq > last {
                    let (from, to) = (last + 1, mark.seq);
                    shortfall.missing = Some(from..=to);
                    shortfall.remarks.push(format!(
                        "{path} ends at entry {last}, and {MARK_FILE} knows entry {to}: entries {from} to {to} are lost, and tokens that \
                         were created or revoked since; an older copy took its place, or its write-ahead log is damaged or was left behind. 'arles verify' says more, and 'arles restore' brings a backup back"
                    ));
                } else if self.chain_at(mark.seq)?.is_some_and(|chain| mark::hex(&chain) != mark.chain) {
                    shortfall.next_job = shortfall.next_job.max(mark.reserved);
                    shortfall.remarks.push(format!(
                        "entry {} of {path} is not the one that {MARK_FILE} knows: the journal was changed or replaced; 'arles verify' says more",
                        mark.seq
                    ));
                }
            }
        }
        self.shortfall = shortfall;
        Ok(())
    }

    /// What the mark beside the journal knew, when it was opened, that the journal does not.
    pub(crate) fn shortfall(&self) -> &Shortfall {
        &self.shortfall
    }

    /// The hash of an entry, if it is still there and has one.
    fn chain_at(&self, seq: u64) -> Done<Option<Hash>> {
        let sql = "SELECT chain FROM journal WHERE seq = ?1";
        let found =
            self.connection.query_row(sql, [seq as i64], |row| Ok(chain::read(row.get_ref(0)?.as_blob_or_null()?)));
        Ok(found.optional().map_err(StoreError::sqlite("reading entries"))?.flatten())
    }

    /// From now on reads one state of the file, whoever writes meanwhile.
    pub(crate) fn freeze(&mut self) -> Done<()> {
        self.connection.execute_batch("BEGIN").map_err(StoreError::sqlite("opening the file"))
    }

    /// Says which number the next job gets, so that none is given out again even if the journal loses its end.
    pub(crate) fn expect_jobs_from(&mut self, next_job: u64) {
        if let Some(mark) = &mut self.mark {
            mark.start(&self.id, self.last, &self.chain, next_job);
        }
    }

    /// Ends the writing: everything goes into the one file, so that a copy of it is whole, and the mark says so.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn close(&mut self) -> Done<()> {
        let doing = StoreError::sqlite("folding its write-ahead log into the file");
        let busy: i64 =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(doing)?;
        if busy != 0 {
            let name = self.path.display();
            tracing::warn!("somebody reads {name}: its newest entries stay in {name}-wal; copy it with 'arles backup'");
        }
        if let Some(mark) = &mut self.mark {
            mark.finish();
        }
        Ok(())
    }

    /// Folds the log into the file as far as nobody is in the way. Commits go on meanwhile.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn fold(&self) -> Done<()> {
        if let Some(mark) = &self.mark_handle {
            // What it says is in the journal too; a failure here shows with the next write.
            let _ = mark.sync_data();
        }
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(StoreError::sqlite("checkpointing its write-ahead log"))
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Entries of measurements after number `after`, in order.
    pub(crate) fn measurements(&self, after: u64, mut each: impl FnMut(u64, &[Observation])) -> Done<()> {
        let doing = StoreError::sqlite("reading entries");
        // Only these entries begin so; the others need not be parsed.
        let sql =
            "SELECT seq, entry FROM journal WHERE seq > ?1 AND substr(entry, 1, 12) = '{\"measured\":' ORDER BY seq";
        let mut select = self.connection.prepare(sql).map_err(&doing)?;
        let mut rows = select.query([after as i64]).map_err(&doing)?;
        while let Some(row) = rows.next().map_err(&doing)? {
            let seq: i64 = row.get(0).map_err(&doing)?;
            let text = row.get_ref(1).and_then(|value| Ok(value.as_str()?)).map_err(&doing)?;
            if let Entry::Measured(seen) = parsed(text, &format!("entry {seq}"))? {
                each(seq as u64, &seen);
            }
        }
        Ok(())
    }

    /// Writes entries, rows of history, and a maintenance step, in one commit that is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written; then none of it is.
    pub fn append(
        &mut self,
        records: &[JournalRecord],
        rows: &[HistoryRow],
        step: Option<&MaintenanceStep>,
    ) -> Done<()> {
        let doing = StoreError::sqlite("writing an entry");
        let next_job = records.iter().filter_map(|record| record.entry.next_job()).max();
        if let (Some(mark), Some(next_job)) = (&mut self.mark, next_job) {
            mark.reserve(next_job);
        }
        let (mut chain, mut last) = (self.chain, self.last);
        let transaction = self.connection.transaction().map_err(&doing)?;
        {
            let sql = "INSERT INTO journal (seq, at, entry, digest, by, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let mut insert = transaction.prepare_cached(sql).map_err(&doing)?;
            for JournalRecord { seq, at, entry, digest, by } in records {
                let entry = serde_json::to_string(entry).expect("plain data");
                let by = by.as_ref().map(|by| serde_json::to_string(by).expect("plain data"));
                chain = chain::link(&chain, *seq, at.0, *digest, &entry, by.as_deref());
                last = *seq;
                let values = params![*seq as i64, at.0 as i64, entry, *digest as i64, by, chain];
                insert.execute(values).map_err(&doing)?;
            }
        }
        history::write(&transaction, rows).map_err(&doing)?;
        self.pruned = match step {
            Some(step) => snapshots::write(&transaction, step).map_err(&doing)?,
            None => 0,
        };
        transaction.commit().map_err(doing)?;
        (self.chain, self.last) = (chain, last);
        if let (Some(mark), false) = (&mut self.mark, records.is_empty()) {
            mark.advance(&self.id, last, &chain, next_job.unwrap_or(0));
        }
        Ok(())
    }

    /// Rows that the maintenance step of the last commit removed.
    pub(crate) fn pruned(&self) -> usize {
        self.pruned
    }

    /// Entries after number `after`, in order; `each` may end it with an error of its own. Every entry is checked against its hash before it is
    /// told.
    ///
    /// # Errors
    /// When an entry is damaged or cannot be read, and what `each` says.
    pub fn entries(&self, after: u64, mut each: impl FnMut(JournalRecord) -> Done<()>) -> Done<()> {
        let doing = StoreError::sqlite("reading entries");
        let mut before = self.hash_before(after)?;
        let sql = "SELECT seq, at, entry, digest, by, chain FROM journal WHERE seq > ?1 ORDER BY seq";
        let mut select = self.connection.prepare(sql).map_err(&doing)?;
        let mut rows = select.query([after as i64]).map_err(&doing)?;
        while let Some(row) = rows.next().map_err(&doing)? {
            let (seq, at, digest): (i64, i64, i64) =
                (row.get(0).map_err(&doing)?, row.get(1).map_err(&doing)?, row.get(3).map_err(&doing)?);
            let text = row.get_ref(2).and_then(|value| Ok(value.as_str()?)).map_err(&doing)?;
            let by = row.get_ref(4).and_then(|value| Ok(value.as_str_or_null()?)).map_err(&doing)?;
            let chain = row.get_ref(5).and_then(|value| Ok(value.as_blob_or_null()?)).map_err(&doing)?;
            let link = |before: &Hash| chain::link(before, seq as u64, at as u64, digest as u64, text, by);
            match (before, chain::read(chain)) {
                // Entries of an older arles have no hash; the first that has one begins the chain.
                (None | Some(chain::START), None) => {}
                (None, Some(own)) => before = Some(own),
                (Some(known), Some(own)) if link(&known) == own => before = Some(own),
                (Some(_), _) => return Err(self.damaged_entry(seq)),
            }
            let by = by.map(|by| parsed(by, &format!("who is behind entry {seq}"))).transpose()?;
            let entry = parsed(text, &format!("entry {seq}"))?;
            each(JournalRecord { seq: seq as u64, at: Time(at as u64), entry, digest: digest as u64, by })?;
        }
        Ok(())
    }

    fn damaged_entry(&self, seq: i64) -> StoreError {
        StoreError::Refused(format!(
            "entry {seq} of {} is damaged: its hash does not fit; 'arles verify' says what else is, and 'arles restore' brings a backup back",
            self.path.display()
        ))
    }

    /// The hash that the entry after `after` was linked to; `None` where nobody knows any more.
    fn hash_before(&self, after: u64) -> Done<Option<Hash>> {
        if after == 0 {
            return Ok(Some(chain::START));
        }
        match self.snapshot_chain(after)? {
            Some(chain) => Ok(Some(chain)),
            None => self.chain_at(after),
        }
    }

    /// Number of the first entry that is still there, if any is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn first_entry(&self) -> Done<Option<u64>> {
        let first: Option<i64> = self
            .connection
            .query_row("SELECT min(seq) FROM journal", [], |row| row.get(0))
            .map_err(StoreError::sqlite("reading entries"))?;
        Ok(first.map(|seq| seq as u64))
    }
}

/// The lock of a state folder. The folder is closed to others, so only its owner can hold it.
pub(crate) fn locked(folder: &Path) -> Done<File> {
    let lock = private::file(&folder.join("lock")).map_err(|e| {
        StoreError::Refused(format!("cannot write to {}: {e}; use another folder with --state", folder.display()))
    })?;
    lock.try_lock().map_err(|_| {
        StoreError::Refused(format!(
            "another daemon is using {}; stop it first, or use another folder with --state",
            folder.display()
        ))
    })?;
    Ok(lock)
}

/// Name of the file in the state folder whose age is that of the last verified backup.
const BACKUP_MARK: &str = "last-backup";

/// Notes that a verified backup of the journal in this folder was made just now, for whoever watches. A folder that cannot be written
/// has no mark, and whoever watches is alarmed, which is right.
pub fn note_backup(folder: &Path, copy: &Path) {
    let folder = if folder.is_dir() { folder } else { folder.parent().unwrap_or(folder) };
    let mark = folder.join(BACKUP_MARK);
    if std::fs::write(&mark, format!("{}\n", copy.display())).is_ok() {
        restrict(&mark);
    }
}

/// When the last verified backup was made, in seconds since 1970.
pub(crate) fn last_backup(folder: &Path) -> Option<f64> {
    let modified = std::fs::metadata(folder.join(BACKUP_MARK)).and_then(|mark| mark.modified()).ok()?;
    Some(modified.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64())
}

/// Only the owner may read what is in the file: names of jobs and workloads are nobody else's business.
pub(crate) fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
}

fn parsed<T: DeserializeOwned>(text: &str, what: &str) -> Done<T> {
    serde_json::from_str(text).map_err(|e| {
        StoreError::Refused(format!(
            "{what} in the journal cannot be parsed ({e}); it is damaged or was written by another version: use that version of arles, or a backup"
        ))
    })
}
