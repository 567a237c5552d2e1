//! The catalog in production: the one home of what was measured.
//!
//! It is a file ([`Disk`]) beside the journal, or wherever the settings say, and the same in memory for readers. Measurements are in the journal
//! before they are here. They are taken into memory as they are committed, and written about once a second: cells, and the number of
//! the last entry in them, in one transaction. So whatever moment a daemon is killed at, the file says up to which entry of which
//! journal it knows everything, and the next start takes in what the journal has beyond: once, and in the same order, which leads to the
//! same cells to the bit. Until then the journal keeps those entries.
//!
//! What is written are observations, weighed against the cell as the file has it, so that several daemons may share a catalog. Only when so many
//! wait that memory is at stake are the cells written as they are.
//!
//! A file that cannot be written costs nothing but a remark and a longer journal.

use crate::read::book::Book;
use crate::store::{self, Store, StoreError};
use arles_core::Profile;
use arles_core::estimate::{Observation, Source};
use arles_learn::catalog::MEASUREMENT_ERROR;
use arles_learn::catalog::disk::{Disk, DiskError};
use arles_learn::{Catalog, Cell, Key};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// Name of the catalog in the state folder.
pub const CATALOG_FILE: &str = "catalog.db";

/// Between two writes.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Observations that wait to be written, at most.
const MOST_PENDING: usize = 100_000;

/// What was measured, for readers.
#[derive(Default)]
pub(crate) struct SharedCatalog {
    catalog: RwLock<Catalog>,
    /// Number of the last entry that is in the file.
    written: AtomicU64,
}

impl SharedCatalog {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the last entry of measurements that is in the file.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }
}

/// A measurement and its cell.
pub(crate) type CellObservation = (Key, Observation);

/// Keeps file and memory; owned by one thread.
pub(crate) struct CatalogKeeper {
    disk: Disk,
    shared: Arc<SharedCatalog>,
    journal: String,
    /// Number of the last entry that is in memory.
    seq: u64,
    /// In memory and not in the file.
    pending: Vec<CellObservation>,
    /// Cells to be written as they are, because too many observations wait.
    overflow: BTreeSet<Key>,
    /// What is newly known of workloads, not yet in the file.
    profiles: BTreeMap<String, Profile>,
    next_write: Instant,
    failing: bool,
}

impl CatalogKeeper {
    /// Opens a catalog, or makes one, and takes in what the journal has measured since. `entries` are the last that is in the snapshot, and
    /// the last of all.
    ///
    /// # Errors
    /// When either of the files cannot be used.
    pub(crate) fn open(
        path: &Path,
        store: &mut Store,
        book: &Book,
        entries: RangeInclusive<u64>,
    ) -> Result<Self, StoreError> {
        let last = *entries.end();
        let fresh = !path.exists();
        let mut disk = Disk::open(path).map_err(|error| refused(&error))?;
        if fresh {
            store::restrict(path);
        }
        let mut journal = store.journal_id()?;
        let mut applied = disk.applied(&journal);
        if let (0, Some(former)) = (applied, store.former_journal_id()?) {
            // A journal that was restored has another id, and its measurements are here under the old one.
            applied = disk.applied(&former).min(last);
        }
        if applied > last {
            tracing::warn!(
                "the journal ends at entry {last}, and the catalog has entry {applied} of it: an older copy of the journal was restored, and goes on under a new id"
            );
            (journal, applied) = (store.renew_journal_id()?, last);
        }
        if applied == 0 && !book.old_measured.is_empty() {
            applied = *entries.start();
            take_in_old(&mut disk, book, &journal, applied).map_err(|error| refused(&error))?;
        }
        let dropped = store.measured_dropped()?;
        if applied < dropped {
            tracing::warn!(
                "{}: the catalog has what this journal measured up to entry {applied}, and the journal no longer has its entries up to {dropped}: what was measured in between is lost",
                path.display()
            );
        }
        let shared =
            Arc::new(SharedCatalog { catalog: RwLock::new(disk.catalog().clone()), written: AtomicU64::new(applied) });
        let (pending, overflow) = (Vec::new(), BTreeSet::new());
        let mut keeper = Self {
            disk,
            shared,
            journal,
            seq: applied,
            pending,
            overflow,
            profiles: BTreeMap::new(),
            next_write: Instant::now(),
            failing: false,
        };
        store.measurements(applied, |seq, seen| {
            keeper.observe(seq, seen.iter().filter_map(|seen| Some((book.catalog_key(seen)?, *seen))).collect());
        })?;
        book.workloads.added().for_each(|workload| keeper.describe(&workload.name, &workload.profile));
        keeper.write().map_err(|error| refused(&error))?;
        Ok(keeper)
    }

    pub(crate) fn shared(&self) -> &Arc<SharedCatalog> {
        &self.shared
    }

    /// Takes the measurements of an entry in.
    pub(crate) fn observe(&mut self, seq: u64, seen: Vec<CellObservation>) {
        let mut catalog = self.shared.catalog.write().unwrap_or_else(PoisonError::into_inner);
        for (key, observation) in &seen {
            catalog.observe(key.clone(), observation);
        }
        drop(catalog);
        self.seq = self.seq.max(seq);
        self.pending.extend(seen);
        if self.pending.len() > MOST_PENDING || !self.overflow.is_empty() {
            self.overflow.extend(self.pending.drain(..).map(|(key, _)| key));
        }
    }

    /// Takes in what was said of a workload. Whoever comes later does not change what is known.
    pub(crate) fn describe(&mut self, workload: &str, profile: &Profile) {
        let known = self.shared.read().profile(workload).is_some();
        if !known && *profile != Profile::default() {
            let mut catalog = self.shared.catalog.write().unwrap_or_else(PoisonError::into_inner);
            catalog.set_profile(workload, profile.clone());
            self.profiles.insert(workload.to_owned(), profile.clone());
        }
    }

    /// How long until there is something to write.
    pub(crate) fn pause(&self) -> Duration {
        match self.seq == self.shared.written() && self.profiles.is_empty() {
            true => Duration::from_secs(3600),
            false => self.next_write.saturating_duration_since(Instant::now()),
        }
    }

    /// Writes what waits, if it is time.
    pub(crate) fn write_if_due(&mut self) {
        if self.pause().is_zero() {
            self.write_or_remark();
        }
    }

    /// Writes what waits. A failure is told once, and tried again.
    pub(crate) fn write_or_remark(&mut self) {
        self.next_write = Instant::now() + WRITE_EVERY;
        match self.write() {
            Ok(()) => self.failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!("{error}; trying again, and the journal keeps what was measured until then");
                }
            }
        }
    }

    fn write(&mut self) -> Result<(), DiskError> {
        let known = self.seq == self.shared.written() && self.disk.applied(&self.journal) == self.seq;
        if known && self.profiles.is_empty() {
            return Ok(());
        }
        let mut batch = self.disk.begin()?;
        for (key, seen) in &self.pending {
            let mut cell = Catalog::default();
            if let Some(known) = batch.catalog().get(key) {
                cell.put(key.clone(), *known)?;
            }
            if let Some(moved) = cell.observe(key.clone(), seen) {
                batch.replace(key.clone(), moved)?;
            }
        }
        for key in &self.overflow {
            if let Some(cell) = self.shared.read().get(key) {
                batch.replace(key.clone(), *cell)?;
            }
        }
        for (name, profile) in &self.profiles {
            batch.profile(name, profile)?;
        }
        batch.applied(&self.journal, self.seq)?;
        batch.commit()?;
        self.profiles.clear();
        self.pending.clear();
        self.overflow.clear();
        self.shared.written.store(self.seq, Ordering::Release);
        // Another daemon may have written in between; what it measured counts here too.
        if *self.shared.read() != *self.disk.catalog() {
            *self.shared.catalog.write().unwrap_or_else(PoisonError::into_inner) = self.disk.catalog().clone();
        }
        Ok(())
    }
}

/// Takes in what a book of an older arles knew: means of so many measurements, as if each had the usual error.
fn take_in_old(disk: &mut Disk, book: &Book, journal: &str, seq: u64) -> Result<(), DiskError> {
    let mut batch = disk.begin()?;
    for ((ask, kind, spread), old) in &book.old_measured {
        let key = book.cell_key(ask, *kind).filter(|_| !(spread.apart() && ask.gang > 1));
        let Some(key) = key.filter(|key| batch.catalog().get(key).is_none_or(|known| known.source < Source::Measured))
        else {
            continue;
        };
        let cell = Cell {
            rate: old.mean_rate,
            watts: Some(old.mean_watts).filter(|watts| *watts > 0.0),
            source: Source::Measured,
            observations: old.times,
            at: old.at,
            standard_error: MEASUREMENT_ERROR / f64::from(old.times.max(1)).sqrt(),
        };
        if old.mean_rate > 0.0 {
            batch.put(key, cell)?;
        }
    }
    batch.applied(journal, seq)?;
    batch.commit()
}

fn refused(error: &DiskError) -> StoreError {
    StoreError::Refused(error.to_string())
}
