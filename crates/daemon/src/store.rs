//! The journal on disk: one SQLite file with everything that must survive.
//!
//! Write-ahead log, synced at every commit. One connection writes, owned by the loop; any number read beside it. What is in it:
//!
//! - `journal`: entries since the last snapshots, each with a digest of what followed from it;
//! - `snapshot`, `snapshot_part`: the whole state as of an entry, written in pieces so that no commit waits long, valid once complete
//!   and only if its checksum is right. The two newest are kept, and the entries since the older of them: should the newest be
//!   damaged, the older still leads to the same state;
//! - `past`, `sample`, `audit`: jobs that are over, energy accounts and fairness over time: read page by page, never held in memory;
//! - `token`: hashes of secrets.
//!
//! A file of a newer version is refused; an older one is brought up to date in one transaction. A lock file keeps a second daemon out.

mod configured;
pub mod entry;
mod history;
mod schema;
mod snapshots;
mod tokens;

use arles_core::Time;
use arles_core::estimate::Observation;
use entry::{Entry, JournalHeader};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use history::{HistoryRow, PastFilter};
pub use snapshots::MaintenanceStep;
pub(crate) use snapshots::pieces;
pub use tokens::StoredToken;

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
}

/// The journal, open for reading or for both.
pub struct Store {
    connection: Connection,
    path: PathBuf,
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
        std::fs::create_dir_all(folder).map_err(|e| cannot("create the folder", &e))?;
        let lock = File::create(folder.join("lock")).map_err(|e| cannot("write to", &e))?;
        lock.try_lock().map_err(|_| {
            StoreError::Refused(format!(
                "another daemon is using {}; stop it first, or use another folder with --state",
                folder.display()
            ))
        })?;
        let path = folder.join(FILE);
        let connection = Connection::open(&path).map_err(StoreError::sqlite("opening the file"))?;
        restrict(&path);
        let mut store = Self { connection, path, _lock: Some(lock) };
        store.set_up()?;
        Ok(store)
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
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // Reading beside a writer needs the shared index of the log, which a read-only file system cannot give.
        let connection = Connection::open_with_flags(&path, flags)
            .or_else(|_| Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY))
            .map_err(StoreError::sqlite("opening the file"))?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(StoreError::sqlite("opening the file"))?;
        schema::check(&connection, &path)?;
        connection.pragma_update(None, "query_only", true).map_err(StoreError::sqlite("opening the file"))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Self { connection, path, _lock: None })
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
        let mut store = Self { connection, path: self.path.clone(), _lock: None };
        store.set_up()?;
        Ok(store)
    }

    /// Folds the log into the file as far as nobody is in the way. Commits go on meanwhile.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn fold(&self) -> Done<()> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(StoreError::sqlite("checkpointing its write-ahead log"))
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the journal begins with; `None` if it has not begun.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn header(&self) -> Done<Option<JournalHeader>> {
        let doing = StoreError::sqlite("reading its header");
        let text: Option<String> = self
            .connection
            .query_row("SELECT value FROM meta WHERE key = 'ground'", [], |row| row.get(0))
            .optional()
            .map_err(doing)?;
        text.map(|text| parsed(&text, "the header")).transpose()
    }

    /// Begins the journal, or lets its list of workloads grow.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_header(&mut self, header: &JournalHeader) -> Done<()> {
        let text = serde_json::to_string(header).expect("plain data");
        self.connection
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('ground', ?1)", [text])
            .map_err(StoreError::sqlite("writing its header"))?;
        self.journal_id()?;
        Ok(())
    }

    /// What tells this journal from every other: made when it began, or by the first daemon that asks.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn journal_id(&mut self) -> Done<String> {
        let doing = StoreError::sqlite("reading its id");
        let sql = "SELECT value FROM meta WHERE key = 'journal-id'";
        let known: Option<String> = self.connection.query_row(sql, [], |row| row.get(0)).optional().map_err(doing)?;
        match known {
            Some(id) => Ok(id),
            None => self.renew_journal_id(),
        }
    }

    /// Gives the journal another id: entries that follow are not those that somebody saw under the old one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn renew_journal_id(&mut self) -> Done<String> {
        let id = crate::access::random_hex(16);
        self.connection
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('journal-id', ?1)", [&id])
            .map_err(StoreError::sqlite("writing its id"))?;
        Ok(id)
    }

    /// Number of the last entry of measurements that was dropped; 0 if none was.
    pub(crate) fn measured_dropped(&self) -> Done<u64> {
        let sql = "SELECT value FROM meta WHERE key = 'measured-dropped'";
        let text: Option<String> = self
            .connection
            .query_row(sql, [], |row| row.get(0))
            .optional()
            .map_err(StoreError::sqlite("reading what was dropped"))?;
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
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

    /// Writes entries, rows of history that earlier ones led to, and a maintenance step, in one commit that is on disk when this returns.
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
        let transaction = self.connection.transaction().map_err(&doing)?;
        {
            let sql = "INSERT INTO journal (seq, at, entry, digest) VALUES (?1, ?2, ?3, ?4)";
            let mut insert = transaction.prepare_cached(sql).map_err(&doing)?;
            for record in records {
                let entry = serde_json::to_string(&record.entry).expect("plain data");
                insert
                    .execute(params![record.seq as i64, record.at.0 as i64, entry, record.digest as i64])
                    .map_err(&doing)?;
            }
        }
        history::write(&transaction, rows).map_err(&doing)?;
        if let Some(step) = step {
            snapshots::write(&transaction, step).map_err(&doing)?;
        }
        transaction.commit().map_err(doing)
    }

    /// Entries after number `after`, in order; `each` may end it with an error of its own.
    ///
    /// # Errors
    /// When an entry cannot be read, and what `each` says.
    pub fn entries(&self, after: u64, mut each: impl FnMut(JournalRecord) -> Done<()>) -> Done<()> {
        let doing = StoreError::sqlite("reading entries");
        let sql = "SELECT seq, at, entry, digest FROM journal WHERE seq > ?1 ORDER BY seq";
        let mut select = self.connection.prepare(sql).map_err(&doing)?;
        let mut rows = select.query([after as i64]).map_err(&doing)?;
        while let Some(row) = rows.next().map_err(&doing)? {
            let (seq, at, digest): (i64, i64, i64) =
                (row.get(0).map_err(&doing)?, row.get(1).map_err(&doing)?, row.get(3).map_err(&doing)?);
            let text = row.get_ref(2).and_then(|value| Ok(value.as_str()?)).map_err(&doing)?;
            let entry = parsed(text, &format!("entry {seq}"))?;
            each(JournalRecord { seq: seq as u64, at: Time(at as u64), entry, digest: digest as u64 })?;
        }
        Ok(())
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

    /// Writes a copy that is consistent, while the daemon goes on writing.
    ///
    /// # Errors
    /// When the copy exists already or cannot be written.
    pub fn back_up(&self, copy: &Path) -> Done<()> {
        if copy.exists() {
            return Err(StoreError::Refused(format!(
                "{} already exists; use another name for the copy, or remove it",
                copy.display()
            )));
        }
        let name = copy.to_string_lossy().into_owned();
        // The reader's own rule against writing would forbid writing the copy.
        self.connection.pragma_update(None, "query_only", false).map_err(StoreError::sqlite("copying the file"))?;
        let done = self.connection.execute("VACUUM INTO ?1", [name]).map_err(StoreError::sqlite("copying the file"));
        if done.is_err() {
            // Half a copy is worse than none.
            let _ = std::fs::remove_file(copy);
        }
        done?;
        restrict(copy);
        File::open(copy).and_then(|file| file.sync_all()).map_err(|e| {
            StoreError::Refused(format!("the copy {} cannot be synced: {e}; check the disk", copy.display()))
        })
    }
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
