//! Snapshots, piece by piece.

use super::chain::{self, Hash};
use super::retention::{self, Bounds};
use super::{Done, Store, StoreError, meta};
use arles_core::Fingerprint;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::Write;

/// Bytes of a snapshot in one commit: so many are written in about a millisecond.
const PART_BYTES: usize = 1 << 17;
/// Entries that are dropped in one commit.
const DROPPED: u32 = 500;
/// Bytes that are reserved for a snapshot at most before any of it is read: its row may be damaged.
const MOST_RESERVED: usize = 1 << 31;
/// Commits that drop entries after every snapshot: more than enough for all that came before it.
const DROPS: usize = 200;

/// A little work that rides along with a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MaintenanceStep {
    /// A piece of a snapshot as of entry `seq`.
    Part {
        /// Entry that the snapshot is as of.
        seq: u64,
        /// Index of the piece.
        part: usize,
        /// Bytes of the piece.
        body: Vec<u8>,
    },
    /// All pieces are there: the snapshot counts from now on, and those before the last one go.
    Finish {
        /// Entry that the snapshot is as of.
        seq: u64,
        /// Length of the whole snapshot.
        bytes: usize,
        /// Checksum of the whole snapshot.
        checksum: i64,
    },
    /// Some of the entries go that the two newest snapshots make needless, none of them after `up_to`.
    Drop {
        /// The last entry that nobody else needs.
        up_to: u64,
    },
    /// A snapshot that could not be read back goes.
    Discard {
        /// Entry that the snapshot is as of.
        seq: u64,
    },
    /// Some of the history goes that is older than it is kept.
    Prune(Bounds),
}

/// A snapshot that is being written: bytes become pieces as they come, so that a large state is never there twice.
pub(crate) struct Pieces {
    seq: u64,
    steps: VecDeque<MaintenanceStep>,
    body: Vec<u8>,
    bytes: usize,
    checksum: Fingerprint,
}

impl Pieces {
    pub(crate) fn new(seq: u64) -> Self {
        let (steps, body) = (VecDeque::new(), Vec::with_capacity(PART_BYTES));
        Self { seq, steps, body, bytes: 0, checksum: Fingerprint::default() }
    }

    fn cut(&mut self) {
        let body = std::mem::replace(&mut self.body, Vec::with_capacity(PART_BYTES));
        self.steps.push_back(MaintenanceStep::Part { seq: self.seq, part: self.steps.len(), body });
    }

    /// The steps that the snapshot is made of.
    pub(crate) fn finish(mut self, keep_entries: bool) -> VecDeque<MaintenanceStep> {
        if !self.body.is_empty() {
            self.cut();
        }
        let (seq, bytes, checksum) = (self.seq, self.bytes, self.checksum.value() as i64);
        self.steps.push_back(MaintenanceStep::Finish { seq, bytes, checksum });
        if !keep_entries {
            self.steps.extend(std::iter::repeat_n(MaintenanceStep::Drop { up_to: u64::MAX }, DROPS));
        }
        self.steps
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.body.len());
        self.body.extend_from_slice(&bytes[..taken]);
        self.checksum.write_all(&bytes[..taken])?;
        self.bytes += taken;
        if self.body.len() == PART_BYTES {
            self.cut();
        }
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The seal of a snapshot's row.
fn seal(seq: i64, bytes: i64, checksum: i64, chain: Option<&Hash>) -> Hash {
    let numbers = [seq.to_be_bytes(), bytes.to_be_bytes(), checksum.to_be_bytes()].concat();
    chain::seal(&[b"snapshot", &numbers, chain.map_or(&[], |chain| chain.as_slice())])
}

/// Does a step; returns how many rows of history it removed.
pub(super) fn write(transaction: &Transaction<'_>, step: &MaintenanceStep) -> rusqlite::Result<usize> {
    match step {
        MaintenanceStep::Part { seq, part, body } => {
            let sql = "INSERT OR REPLACE INTO snapshot_part (seq, part, body) VALUES (?1, ?2, ?3)";
            transaction.prepare_cached(sql)?.execute(params![*seq as i64, *part as i64, body])?;
        }
        MaintenanceStep::Finish { seq, bytes, checksum } => {
            let sql = "SELECT chain FROM journal WHERE seq = ?1";
            let chain =
                transaction.query_row(sql, [*seq as i64], |row| Ok(chain::read(row.get_ref(0)?.as_blob_or_null()?)));
            let chain = chain.optional()?.flatten();
            let seal = seal(*seq as i64, *bytes as i64, *checksum, chain.as_ref());
            let sql = "INSERT OR REPLACE INTO snapshot (seq, bytes, checksum, chain, seal) VALUES (?1, ?2, ?3, ?4, ?5)";
            transaction.execute(sql, params![*seq as i64, *bytes as i64, checksum, chain, seal])?;
            if let Some(older) = older(transaction)? {
                transaction.execute("DELETE FROM snapshot WHERE seq < ?1", [older])?;
                transaction.execute("DELETE FROM snapshot_part WHERE seq < ?1", [older])?;
            }
        }
        MaintenanceStep::Drop { up_to } => {
            if let Some(older) = older(transaction)? {
                let older = older.min(i64::try_from(*up_to).unwrap_or(i64::MAX));
                // Whoever keeps what was measured can tell by this whether something is missing.
                let sql = "SELECT max(seq) FROM (SELECT seq, entry FROM journal WHERE seq <= ?1 ORDER BY seq LIMIT ?2) \
                           WHERE substr(entry, 1, 12) = '{\"measured\":'";
                let measured: Option<i64> =
                    transaction.prepare_cached(sql)?.query_row(params![older, DROPPED], |row| row.get(0))?;
                if let Some(seq) = measured {
                    meta::put(transaction, "measured-dropped", &seq.to_string())?;
                }
                let sql =
                    "DELETE FROM journal WHERE seq IN (SELECT seq FROM journal WHERE seq <= ?1 ORDER BY seq LIMIT ?2)";
                transaction.prepare_cached(sql)?.execute(params![older, DROPPED])?;
            }
        }
        MaintenanceStep::Discard { seq } => {
            transaction.execute("DELETE FROM snapshot WHERE seq = ?1", [*seq as i64])?;
            transaction.execute("DELETE FROM snapshot_part WHERE seq = ?1", [*seq as i64])?;
        }
        MaintenanceStep::Prune(bounds) => return retention::prune(transaction, *bounds),
    }
    Ok(0)
}

/// The entry of the second newest snapshot, if there are two.
fn older(transaction: &Transaction<'_>) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT seq FROM snapshot ORDER BY seq DESC LIMIT 1 OFFSET 1";
    transaction.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()
}

fn checksum(bytes: &[u8]) -> i64 {
    Fingerprint::of(bytes) as i64
}

/// A snapshot's row, and whether its seal fits; older ones have none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotRow {
    pub(crate) seq: u64,
    bytes: i64,
    checksum: i64,
    pub(crate) chain: Option<Hash>,
    sound: bool,
}

/// A snapshot as it was read from the file.
pub(crate) struct SnapshotBody {
    row: SnapshotRow,
    body: Vec<u8>,
}

impl SnapshotBody {
    /// What it holds, or a sentence about what is wrong with it. Of a large one this takes seconds.
    pub(crate) fn state<T: DeserializeOwned>(&self) -> Result<T, String> {
        let SnapshotRow { seq, bytes, checksum: sum, sound, .. } = self.row;
        if !sound || self.body.len() as i64 != bytes || checksum(&self.body) != sum {
            return Err(format!("the snapshot of entry {seq} is damaged"));
        }
        serde_json::from_slice(&self.body).map_err(|e| format!("the snapshot of entry {seq} cannot be parsed ({e})"))
    }
}

impl Store {
    /// The snapshots there are, newest first.
    pub(crate) fn snapshots(&self) -> Done<Vec<SnapshotRow>> {
        let doing = StoreError::sqlite("reading a snapshot");
        let sql = "SELECT seq, bytes, checksum, chain, seal FROM snapshot ORDER BY seq DESC";
        let mut select = self.connection.prepare(sql).map_err(&doing)?;
        let rows = select.query_map([], |row| {
            let (seq, bytes, checksum): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let chain = chain::read(row.get_ref(3)?.as_blob_or_null()?);
            let own = row.get_ref(4)?.as_blob_or_null()?;
            let sound = own.is_none() || chain::read(own) == Some(seal(seq, bytes, checksum, chain.as_ref()));
            Ok(SnapshotRow { seq: seq as u64, bytes, checksum, chain, sound })
        });
        rows.and_then(Iterator::collect).map_err(doing)
    }

    /// The hash of the entry that a sound snapshot is as of.
    pub(super) fn snapshot_chain(&self, seq: u64) -> Done<Option<Hash>> {
        let found = self.snapshots()?.into_iter().find(|row| row.seq == seq && row.sound);
        Ok(found.and_then(|row| row.chain))
    }

    /// What a snapshot holds, or a sentence about what is wrong with it.
    pub(crate) fn snapshot_state<T: DeserializeOwned>(&self, row: &SnapshotRow) -> Done<Result<T, String>> {
        Ok(self.snapshot_body(row)?.state())
    }

    /// The bytes of a snapshot, not looked at yet.
    pub(crate) fn snapshot_body(&self, row: &SnapshotRow) -> Done<SnapshotBody> {
        let doing = StoreError::sqlite("reading a snapshot");
        let mut body = Vec::with_capacity(usize::try_from(row.bytes).unwrap_or(0).min(MOST_RESERVED));
        let sql = "SELECT body FROM snapshot_part WHERE seq = ?1 ORDER BY part";
        let mut parts = self.connection.prepare_cached(sql).map_err(&doing)?;
        let mut rows = parts.query([row.seq as i64]).map_err(&doing)?;
        while let Some(row) = rows.next().map_err(&doing)? {
            let piece = row.get_ref(0).and_then(|value| Ok(value.as_blob()?)).map_err(&doing)?;
            body.extend_from_slice(piece);
        }
        Ok(SnapshotBody { row: *row, body })
    }

    /// The newest snapshot that is whole, and the entry it stands for. Damaged ones are reported to `remark`.
    ///
    /// # Errors
    /// When there are snapshots and none can be read, although entries before them are gone.
    pub(crate) fn snapshot<T: DeserializeOwned>(&self, remark: &mut dyn FnMut(String)) -> Done<Option<(u64, T)>> {
        let found = self.snapshots()?;
        for row in &found {
            match self.snapshot_state(row)? {
                Ok(state) => return Ok(Some((row.seq, state))),
                Err(why) => remark(format!("{why}; trying an older one")),
            }
        }
        match self.first_entry()? {
            Some(1) | None if found.is_empty() => Ok(None),
            Some(1) => Ok(None),
            _ => Err(StoreError::Refused(format!(
                "no snapshot in {} can be read, and the entries before them were dropped; restore a copy made by 'arles backup'",
                self.path.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the bytes come, the pieces are they, in order, and the checksum is theirs.
        #[test]
        fn pieces_are_what_was_written(writes in prop::collection::vec((any::<u8>(), 0usize..PART_BYTES), 0..8)) {
            let (mut pieces, mut all) = (Pieces::new(7), Vec::new());
            for (byte, length) in writes {
                let bytes = vec![byte; length];
                pieces.write_all(&bytes).expect("into memory");
                all.extend(bytes);
            }
            let mut steps = pieces.finish(true);
            let finish = MaintenanceStep::Finish { seq: 7, bytes: all.len(), checksum: checksum(&all) };
            prop_assert_eq!(steps.pop_back(), Some(finish));
            let mut written = Vec::new();
            for (n, step) in steps.into_iter().enumerate() {
                let MaintenanceStep::Part { seq: 7, part, body } = step else { panic!("a piece of entry 7") };
                prop_assert!(part == n && !body.is_empty() && body.len() <= PART_BYTES);
                written.extend(body);
            }
            prop_assert!(written == all);
        }
    }
}
