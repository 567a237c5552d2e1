//! Snapshots, piece by piece.

use super::{Done, Store, StoreError};
use arles_core::Fingerprint;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::Write;

/// Bytes of a snapshot in one commit: so many are written in a few milliseconds.
const PART_BYTES: usize = 1 << 19;
/// Entries that are dropped in one commit.
const DROPPED: u32 = 2000;
/// Commits that drop entries after every snapshot: more than enough for all that came before it.
const DROPS: usize = 50;

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

pub(super) fn write(transaction: &Transaction<'_>, step: &MaintenanceStep) -> rusqlite::Result<()> {
    match step {
        MaintenanceStep::Part { seq, part, body } => {
            let sql = "INSERT OR REPLACE INTO snapshot_part (seq, part, body) VALUES (?1, ?2, ?3)";
            transaction.prepare_cached(sql)?.execute(params![*seq as i64, *part as i64, body])?;
        }
        MaintenanceStep::Finish { seq, bytes, checksum } => {
            let sql = "INSERT OR REPLACE INTO snapshot (seq, bytes, checksum) VALUES (?1, ?2, ?3)";
            transaction.execute(sql, params![*seq as i64, *bytes as i64, checksum])?;
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
                    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('measured-dropped', ?1)";
                    transaction.prepare_cached(sql)?.execute([seq.to_string()])?;
                }
                let sql =
                    "DELETE FROM journal WHERE seq IN (SELECT seq FROM journal WHERE seq <= ?1 ORDER BY seq LIMIT ?2)";
                transaction.prepare_cached(sql)?.execute(params![older, DROPPED])?;
            }
        }
    }
    Ok(())
}

/// The entry of the second newest snapshot, if there are two.
fn older(transaction: &Transaction<'_>) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT seq FROM snapshot ORDER BY seq DESC LIMIT 1 OFFSET 1";
    transaction.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()
}

fn checksum(bytes: &[u8]) -> i64 {
    Fingerprint::of(bytes) as i64
}

impl Store {
    /// The newest snapshot that is whole, and the entry it stands for. Damaged ones are reported to `remark`.
    ///
    /// # Errors
    /// When there are snapshots and none can be read, although entries before them are gone.
    pub(crate) fn snapshot<T: DeserializeOwned>(&self, remark: &mut dyn FnMut(String)) -> Done<Option<(u64, T)>> {
        let doing = StoreError::sqlite("reading a snapshot");
        let mut select =
            self.connection.prepare("SELECT seq, bytes, checksum FROM snapshot ORDER BY seq DESC").map_err(&doing)?;
        let found = select
            .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(&doing)?;
        for &(seq, bytes, sum) in &found {
            let mut body = Vec::with_capacity(bytes as usize);
            let mut parts = self
                .connection
                .prepare_cached("SELECT body FROM snapshot_part WHERE seq = ?1 ORDER BY part")
                .map_err(&doing)?;
            let mut rows = parts.query([seq]).map_err(&doing)?;
            while let Some(row) = rows.next().map_err(&doing)? {
                let piece = row.get_ref(0).and_then(|value| Ok(value.as_blob()?)).map_err(&doing)?;
                body.write_all(piece).expect("memory");
            }
            if body.len() as i64 == bytes && checksum(&body) == sum {
                match serde_json::from_slice(&body) {
                    Ok(state) => return Ok(Some((seq as u64, state))),
                    Err(e) => {
                        remark(format!("the snapshot of entry {seq} cannot be parsed ({e}); trying an older one"));
                    }
                }
            } else {
                remark(format!("the snapshot of entry {seq} is damaged; trying an older one"));
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
