//! Snapshots, piece by piece.

use super::chain::{self, Hash};
use super::retention::{self, Bounds};
use super::{Done, Store, StoreError, meta};
use arles_core::Fingerprint;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;

/// Bytes of a snapshot in one commit: so many are written in about a millisecond.
const PART_BYTES: usize = 1 << 17;
/// Entries that are dropped in one commit.
const DROPPED: u32 = 500;
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

/// The steps that a snapshot is made of.
pub(crate) fn pieces(seq: u64, bytes: Vec<u8>, keep_entries: bool) -> VecDeque<MaintenanceStep> {
    let part = |(part, body): (usize, &[u8])| MaintenanceStep::Part { seq, part, body: body.to_vec() };
    let mut steps: VecDeque<MaintenanceStep> = bytes.chunks(PART_BYTES).enumerate().map(part).collect();
    steps.push_back(MaintenanceStep::Finish { seq, bytes: bytes.len(), checksum: checksum(&bytes) });
    drop(bytes);
    if !keep_entries {
        steps.extend(std::iter::repeat_n(MaintenanceStep::Drop { up_to: u64::MAX }, DROPS));
    }
    steps
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
        let (doing, seq) = (StoreError::sqlite("reading a snapshot"), row.seq);
        let damaged = format!("the snapshot of entry {seq} is damaged");
        if !row.sound {
            return Ok(Err(damaged));
        }
        let mut body = Vec::new();
        let sql = "SELECT body FROM snapshot_part WHERE seq = ?1 ORDER BY part";
        let mut parts = self.connection.prepare_cached(sql).map_err(&doing)?;
        let mut rows = parts.query([seq as i64]).map_err(&doing)?;
        while let Some(row) = rows.next().map_err(&doing)? {
            let piece = row.get_ref(0).and_then(|value| Ok(value.as_blob()?)).map_err(&doing)?;
            body.extend_from_slice(piece);
        }
        if body.len() as i64 != row.bytes || checksum(&body) != row.checksum {
            return Ok(Err(damaged));
        }
        Ok(serde_json::from_slice(&body).map_err(|e| format!("the snapshot of entry {seq} cannot be parsed ({e})")))
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
