//! The catalog on disk: one SQLite file that outlives whoever writes it.
//!
//! **Durable when it returns.** [`Disk::measure`], [`put`](Disk::put), [`describe`](Disk::describe) and [`forget`](Disk::forget) are
//! each a transaction of their own; [`Disk::begin`] makes one of many, all or nothing. After a `kill -9` or a power cut the file
//! holds what was last committed. The journal is SQLite's rollback journal with `synchronous = EXTRA`, and not a write-ahead log:
//!
//! - with EXTRA, a commit returns when the removal of the journal is on disk too; with FULL, a power cut could bring
//!   the journal back and undo a commit that was acknowledged;
//! - a log commits sooner (2 to 4 ms against 16 on the disk where this was tried), but a catalog changes a few times a minute, and
//!   then it is *three* files: whoever copies the one with the name loses what is in the log. And a log's index is shared
//!   memory, which no network file system shares, and home directories of clusters are on one.
//!
//! **Never silently wrong.** A file is only ever read whole and checked: that it is ours (`application_id`), of a version that we
//! know (`user_version`), of exactly our tables, sound as SQLite sees it, full of values that make sense, and that the sum over all
//! rows of a hash of each is the one in its seal. SQLite has no checksums: without the seal, a bit that flips in a rate would
//! be another rate. What does not pass is refused with a sentence, and the file is left as it is. A new file is made
//! under another name and then linked to its own, so an empty file is never ours, and none is ever overwritten.
//!
//! **One home of what was measured.** A daemon that keeps a journal writes cells together with how far the journal is applied
//! ([`Disk::write`]), in one transaction: after a crash it takes in again what the journal has beyond [`Disk::applied`], once. What
//! little is known of users' own workloads, their [profiles](arles_core::Profile), is kept here too, so that a new journal knows them.
//!
//! **Older files** (version 1 had neither journals nor profiles) are read as they are, and brought up to date when they are opened to be written.
//!
//! **Several processes** may have a catalog open. A writer locks it, and if somebody else wrote in the meantime reads it anew
//! before it changes anything, so no measurement is lost; who waits longer than the patience gives up with a sentence.
//!
//! Times are microseconds since the Unix epoch; there is no clock here, whoever calls says when.

mod error;
mod extras;
mod open;
mod rows;

pub use error::DiskError;

use super::{Catalog, CatalogError, Cell, Key, Measurement, check_name};
use arles_core::{Profile, Workload};
use error::sql;
use rows::Digest;
pub(super) use rows::numbers;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long [`Disk::open`] and every write wait for another process.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A catalog in a file, and the same in memory.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    connection: Connection,
    catalog: Catalog,
    /// The last entry of each journal that is in the cells.
    journals: BTreeMap<String, u64>,
    /// Sum of the hashes of all rows, modulo 2^64.
    digest: Digest,
    /// SQLite's count of what other connections committed, when `catalog` was read.
    seen: i64,
    /// Whether `catalog` may differ from the file whatever `seen` says: a commit failed, and nobody knows how far it came.
    stale: bool,
}

/// Changes that become durable together, or not at all: dropped before [`Batch::commit`], none of them was made.
#[derive(Debug)]
pub struct Batch<'d> {
    disk: &'d mut Disk,
    before: Vec<Before>,
    /// Whether the file refused one of the changes.
    failed: bool,
    committed: bool,
}

/// What was there before a change.
#[derive(Debug)]
enum Before {
    Cell(Key, Option<Cell>),
    Workload(String, Option<Workload>),
    Profile(String, Option<Profile>),
    Journal(String, Option<u64>),
}

/// Rows of all tables that the seal counts.
fn row_count(catalog: &Catalog, journals: &BTreeMap<String, u64>) -> usize {
    catalog.cells.len() + catalog.features.len() + catalog.profiles.len() + journals.len()
}

impl Disk {
    /// Opens a catalog to read and write it; makes an empty one where there is no file.
    ///
    /// # Errors
    /// When the file is no catalog, or damaged, or cannot be written, or somebody keeps it locked for longer than [`PATIENCE`].
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        Self::open_within(path, PATIENCE)
    }

    /// The same with another patience.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub fn open_within(path: &Path, patience: Duration) -> Result<Self, DiskError> {
        open::make_if_missing(path)?;
        let connection = open::connect(path, patience)?;
        let read = open::read(path, &connection)?;
        let Some(open::Read { version, catalog, journals, digest, seen }) = read else {
            return Err(error::odd_version(path, &connection));
        };
        open::prepare_to_write(path, &connection)?;
        if version < open::VERSION {
            open::bring_up_to_date(path, &connection)?;
        }
        Ok(Self { path: path.to_owned(), connection, catalog, journals, digest, seen, stale: false })
    }

    /// Reads a catalog. The file is not made where there is none, and not changed.
    ///
    /// # Errors
    /// When there is no file, and as [`Disk::open`].
    pub fn read(path: &Path) -> Result<Catalog, DiskError> {
        let connection = open::connect(path, PATIENCE)?;
        match open::read(path, &connection)? {
            Some(read) => Ok(read.catalog),
            None => Err(error::odd_version(path, &connection)),
        }
    }

    /// What is known, as of the last change here or [`refresh`](Disk::refresh).
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last entry of a journal that is in the cells; 0 where none is.
    #[must_use]
    pub fn applied(&self, journal: &str) -> u64 {
        self.journals.get(journal).copied().unwrap_or(0)
    }

    /// Writes cells as they are, profiles, and that a journal is applied up to entry `seq`: all of it or nothing. A journal is never
    /// set back.
    ///
    /// # Errors
    /// As [`Disk::measure`].
    pub fn write<'a>(
        &mut self,
        cells: impl IntoIterator<Item = (&'a Key, &'a Cell)>,
        profiles: impl IntoIterator<Item = (&'a str, &'a Profile)>,
        journal: &str,
        seq: u64,
    ) -> Result<(), DiskError> {
        let mut batch = self.begin()?;
        for (key, cell) in cells {
            batch.replace(key.clone(), *cell)?;
        }
        for (name, profile) in profiles {
            batch.profile(name, profile)?;
        }
        batch.applied(journal, seq)?;
        batch.commit()
    }

    /// Takes in what other processes wrote.
    ///
    /// # Errors
    /// When the file cannot be read any more.
    pub fn refresh(&mut self) -> Result<&Catalog, DiskError> {
        drop(self.begin_with("BEGIN")?);
        Ok(&self.catalog)
    }

    /// Takes a measurement in and returns the cell as it is now; see [`Catalog::measure`].
    ///
    /// # Errors
    /// When a number makes no sense, or the file cannot be written; then nothing has changed.
    pub fn measure(&mut self, key: Key, m: &Measurement) -> Result<Cell, DiskError> {
        let mut batch = self.begin()?;
        let cell = batch.measure(key, m)?;
        batch.commit()?;
        Ok(cell)
    }

    /// Writes a cell as it is, unless something of a better source is there; see [`Catalog::put`].
    ///
    /// # Errors
    /// As [`Disk::measure`].
    pub fn put(&mut self, key: Key, cell: Cell) -> Result<bool, DiskError> {
        let mut batch = self.begin()?;
        let written = batch.put(key, cell)?;
        batch.commit()?;
        Ok(written)
    }

    /// Says what a workload is made of.
    ///
    /// # Errors
    /// As [`Disk::measure`].
    pub fn describe(&mut self, workload: Workload) -> Result<(), DiskError> {
        let mut batch = self.begin()?;
        batch.describe(workload)?;
        batch.commit()
    }

    /// Forgets every cell that names a workload, on either side, and what it is made of; says how many cells that were.
    ///
    /// # Errors
    /// When the file cannot be written; then nothing has changed.
    pub fn forget(&mut self, workload: &str) -> Result<usize, DiskError> {
        let mut batch = self.begin()?;
        let forgotten = batch.forget(workload)?;
        batch.commit()?;
        Ok(forgotten)
    }

    /// Begins a batch. Nobody else can write until it is committed or dropped.
    ///
    /// # Errors
    /// When somebody else is writing for longer than the patience, or the file cannot be read any more.
    pub fn begin(&mut self) -> Result<Batch<'_>, DiskError> {
        self.begin_with("BEGIN IMMEDIATE")
    }

    fn begin_with(&mut self, begin: &str) -> Result<Batch<'_>, DiskError> {
        let path = self.path.clone();
        self.connection.execute_batch(begin).map_err(sql(&path))?;
        let batch = Batch { disk: self, before: Vec::new(), failed: false, committed: false };
        // Only from the first read on does the transaction see one state of the file.
        let seen = open::commits_of_others(&batch.disk.connection).map_err(sql(&path))?;
        if batch.disk.stale || seen != batch.disk.seen {
            let read = open::read_within(&path, &batch.disk.connection, false)?;
            let Some(read) = read else { return Err(error::odd_version(&path, &batch.disk.connection)) };
            (batch.disk.catalog, batch.disk.digest, batch.disk.seen) = (read.catalog, read.digest, read.seen);
            batch.disk.journals = read.journals;
            batch.disk.stale = false;
        }
        Ok(batch)
    }

    /// Sets or removes a cell in memory.
    fn set_cell(&mut self, key: &Key, cell: Option<Cell>) {
        let old = match cell {
            Some(cell) => {
                self.digest.add(rows::cell_hash(key, &cell));
                self.catalog.cells.insert(key.clone(), cell)
            }
            None => self.catalog.cells.remove(key),
        };
        if let Some(old) = old {
            self.digest.remove(rows::cell_hash(key, &old));
        }
    }

    /// Sets or removes features in memory.
    fn set_workload(&mut self, name: &str, workload: Option<Workload>) {
        let old = match workload {
            Some(workload) => {
                self.digest.add(rows::workload_hash(&workload));
                self.catalog.features.insert(name.to_owned(), workload)
            }
            None => self.catalog.features.remove(name),
        };
        if let Some(old) = old {
            self.digest.remove(rows::workload_hash(&old));
        }
    }
}

impl Disk {
    /// Sets or removes a profile in memory.
    fn set_profile(&mut self, name: &str, profile: Option<Profile>) {
        let old = match profile {
            Some(profile) => {
                self.digest.add(extras::profile_hash(name, &profile));
                self.catalog.profiles.insert(name.to_owned(), profile)
            }
            None => self.catalog.profiles.remove(name),
        };
        if let Some(old) = old {
            self.digest.remove(extras::profile_hash(name, &old));
        }
    }

    /// Sets or removes how far a journal is applied in memory.
    fn set_journal(&mut self, id: &str, seq: Option<u64>) {
        let old = match seq {
            Some(seq) => {
                self.digest.add(extras::journal_hash(id, seq));
                self.journals.insert(id.to_owned(), seq)
            }
            None => self.journals.remove(id),
        };
        if let Some(old) = old {
            self.digest.remove(extras::journal_hash(id, old));
        }
    }
}

impl Batch<'_> {
    /// What is known, changes of this batch included.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.disk.catalog
    }

    /// As [`Disk::measure`], durable when the batch is.
    ///
    /// # Errors
    /// When a number makes no sense, which changes nothing, or the file cannot be written, which spoils the batch.
    pub fn measure(&mut self, key: Key, m: &Measurement) -> Result<Cell, DiskError> {
        let mut one = self.only(&key);
        let cell = one.measure(key.clone(), m)?;
        self.write_cell(key, cell)?;
        Ok(cell)
    }

    /// As [`Disk::put`], durable when the batch is.
    ///
    /// # Errors
    /// As [`Batch::measure`].
    pub fn put(&mut self, key: Key, cell: Cell) -> Result<bool, DiskError> {
        let mut one = self.only(&key);
        if !one.put(key.clone(), cell)? {
            return Ok(false);
        }
        let cell = one.get(&key).copied().unwrap_or(cell);
        self.write_cell(key, cell)?;
        Ok(true)
    }

    /// Writes a cell as it is, whatever is there.
    ///
    /// # Errors
    /// As [`Batch::measure`].
    pub fn replace(&mut self, key: Key, cell: Cell) -> Result<(), DiskError> {
        let mut one = Catalog::default();
        one.put(key.clone(), cell)?;
        let cell = one.get(&key).copied().unwrap_or(cell);
        self.write_cell(key, cell)
    }

    /// Says what little is known of a workload; whatever was said before is replaced.
    ///
    /// # Errors
    /// As [`Batch::measure`].
    pub fn profile(&mut self, name: &str, profile: &Profile) -> Result<(), DiskError> {
        extras::check_profile(name, profile)?;
        let profile = extras::without_signs_of_zero(profile);
        let written = extras::write_profile(&self.disk.connection, name, &profile);
        self.done(written)?;
        self.before.push(Before::Profile(name.to_owned(), self.disk.catalog.profiles.get(name).cloned()));
        self.disk.set_profile(name, Some(profile));
        Ok(())
    }

    /// Says that everything of a journal up to entry `seq` is in the cells. A journal is never set back.
    ///
    /// # Errors
    /// As [`Batch::measure`].
    pub fn applied(&mut self, journal: &str, seq: u64) -> Result<(), DiskError> {
        check_name(journal)?;
        if i64::try_from(seq).is_err() {
            return Err(
                CatalogError(format!("{journal}: entry {seq} of a journal; expected at most {}", i64::MAX)).into()
            );
        }
        let before = self.disk.journals.get(journal).copied();
        if before.is_some_and(|before| before >= seq) {
            return Ok(());
        }
        let written = extras::write_journal(&self.disk.connection, journal, seq);
        self.done(written)?;
        self.before.push(Before::Journal(journal.to_owned(), before));
        self.disk.set_journal(journal, Some(seq));
        Ok(())
    }

    /// As [`Disk::describe`], durable when the batch is.
    ///
    /// # Errors
    /// As [`Batch::measure`].
    pub fn describe(&mut self, workload: Workload) -> Result<(), DiskError> {
        check_features(&workload)?;
        let workload = rows::without_signs_of_zero(workload);
        let name = workload.name.clone();
        let written = rows::write_workload(&self.disk.connection, &workload);
        self.done(written)?;
        self.before.push(Before::Workload(name.clone(), self.disk.catalog.features.get(&name).cloned()));
        self.disk.set_workload(&name, Some(workload));
        Ok(())
    }

    /// As [`Disk::forget`], durable when the batch is.
    ///
    /// # Errors
    /// When the file cannot be written, which spoils the batch.
    pub fn forget(&mut self, workload: &str) -> Result<usize, DiskError> {
        let names = |key: &Key| key.workload == workload || key.partner.as_deref() == Some(workload);
        let keys: Vec<Key> = self.disk.catalog.cells.keys().filter(|key| names(key)).cloned().collect();
        let forgotten = rows::forget(&self.disk.connection, workload);
        self.done(forgotten)?;
        for key in &keys {
            self.before.push(Before::Cell(key.clone(), self.disk.catalog.cells.get(key).copied()));
            self.disk.set_cell(key, None);
        }
        self.before.push(Before::Workload(workload.to_owned(), self.disk.catalog.features.get(workload).cloned()));
        self.disk.set_workload(workload, None);
        self.before.push(Before::Profile(workload.to_owned(), self.disk.catalog.profiles.get(workload).cloned()));
        self.disk.set_profile(workload, None);
        Ok(keys.len())
    }

    /// Makes the changes durable.
    ///
    /// # Errors
    /// When the file cannot be written; then none of them was made.
    pub fn commit(mut self) -> Result<(), DiskError> {
        if self.failed {
            return Err(DiskError::Failed(format!(
                "{}: a change of this batch could not be written, so none was made; begin it again",
                self.disk.path.display()
            )));
        }
        if !self.before.is_empty() {
            let rows = row_count(&self.disk.catalog, &self.disk.journals);
            let sealed = rows::write_seal(&self.disk.connection, rows, self.disk.digest);
            self.done(sealed)?;
        }
        if let Err(error) = self.disk.connection.execute_batch("COMMIT") {
            self.disk.stale = true;
            return Err(error::of(&self.disk.path, &error));
        }
        self.committed = true;
        Ok(())
    }

    /// A catalog of this cell alone, to change it by the catalog's own rules before anything is written.
    fn only(&self, key: &Key) -> Catalog {
        let mut one = Catalog::default();
        if let Some(cell) = self.disk.catalog.get(key) {
            one.cells.insert(key.clone(), *cell);
        }
        one
    }

    fn write_cell(&mut self, key: Key, cell: Cell) -> Result<(), DiskError> {
        let written = rows::write_cell(&self.disk.connection, &key, &cell);
        self.done(written)?;
        let before = self.disk.catalog.get(&key).copied();
        self.disk.set_cell(&key, Some(cell));
        self.before.push(Before::Cell(key, before));
        Ok(())
    }

    /// Remembers that the file refused something.
    fn done(&mut self, written: rusqlite::Result<()>) -> Result<(), DiskError> {
        self.failed |= written.is_err();
        written.map_err(sql(&self.disk.path))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        for before in std::mem::take(&mut self.before).into_iter().rev() {
            match before {
                Before::Cell(key, cell) => self.disk.set_cell(&key, cell),
                Before::Workload(name, workload) => self.disk.set_workload(&name, workload),
                Before::Profile(name, profile) => self.disk.set_profile(&name, profile),
                Before::Journal(id, seq) => self.disk.set_journal(&id, seq),
            }
        }
        // SQLite ends some transactions by itself when something goes wrong; there is then nothing to roll back.
        if !self.disk.connection.is_autocommit() && self.disk.connection.execute_batch("ROLLBACK").is_err() {
            self.disk.stale = true;
        }
    }
}

/// Refuses features that make no sense.
pub(super) fn check_features(w: &Workload) -> Result<(), CatalogError> {
    for name in [&w.name, &w.family, &w.domain].into_iter().chain(&w.aliases) {
        check_name(name)?;
    }
    for (what, value) in numbers(w) {
        if !(value.is_finite() && value >= 0.0) {
            return Err(CatalogError(format!("{}: {what} is {value}; expected a number, 0 or more", w.name)));
        }
    }
    Ok(())
}
