//! What can be said about a journal's file without replaying it: is it sound as a database, do its hashes and seals fit.

use super::chain::{self, Hash};
use super::{Done, Store, StoreError};

/// Sentences that SQLite has about a damaged file, at most.
const MOST_SENTENCES: usize = 20;

/// What was found, and how much was looked at.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Inspection {
    /// One sentence for everything that is wrong.
    pub(crate) findings: Vec<String>,
    /// Entries that are there, and those of them that have a hash.
    pub(crate) entries: u64,
    pub(crate) chained: u64,
    /// Last entry.
    pub(crate) last: u64,
}

impl Store {
    /// Looks at everything. Reads one state of the file even while a daemon writes it.
    pub(crate) fn inspect(&self) -> Done<Inspection> {
        let mut found = Inspection { last: self.last, ..Inspection::default() };
        found.findings.extend(self.shortfall.remarks.iter().cloned());
        for line in self.sqlite_findings()? {
            found.findings.push(format!("{}: SQLite says: {line}", self.path.display()));
        }
        found.findings.extend(self.damaged_meta()?);
        found.findings.extend(self.damaged_tokens()?);
        self.inspect_entries(&mut found)?;
        Ok(found)
    }

    /// What SQLite says of the whole file: pages, trees, indices.
    fn sqlite_findings(&self) -> Done<Vec<String>> {
        let doing = StoreError::sqlite("checking the file");
        let sql = format!("PRAGMA integrity_check({MOST_SENTENCES})");
        let mut check = self.connection.prepare(&sql).map_err(&doing)?;
        let lines = check.query_map([], |row| row.get::<_, String>(0));
        let lines = lines.and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(doing)?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }

    /// Follows the chain from the first entry that is there, across damage, so that everything that is damaged is told.
    fn inspect_entries(&self, found: &mut Inspection) -> Done<()> {
        let doing = StoreError::sqlite("reading entries");
        let first = self.first_entry()?.unwrap_or(0);
        let mut before: Option<Hash> = if first == 0 { None } else { self.hash_before(first - 1)? };
        let mut expected = first;
        let snapshots = self.snapshots()?;
        let sql = "SELECT seq, at, entry, digest, by, chain FROM journal ORDER BY seq";
        let mut select = self.connection.prepare(sql).map_err(&doing)?;
        let mut rows = select.query([]).map_err(&doing)?;
        while let Some(row) = rows.next().map_err(&doing)? {
            let read = || -> rusqlite::Result<_> {
                let numbers =
                    (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64, row.get::<_, i64>(3)? as u64);
                let texts = (row.get_ref(2)?.as_str()?, row.get_ref(4)?.as_str_or_null()?);
                Ok((numbers, texts, chain::read(row.get_ref(5)?.as_blob_or_null()?)))
            };
            let ((seq, at, digest), (entry, by), own) = read().map_err(&doing)?;
            found.entries += 1;
            found.chained += u64::from(own.is_some());
            if seq != expected {
                found.findings.push(format!("entries {expected} to {} are missing", seq.saturating_sub(1)));
                before = None;
            }
            expected = seq + 1;
            match (before, own) {
                (None | Some(chain::START), None) => continue,
                (Some(known), Some(own)) if chain::link(&known, seq, at, digest, entry, by) != own => {
                    found.findings.push(format!("entry {seq} is damaged: its hash does not fit"));
                }
                (Some(_), None) => {
                    found.findings.push(format!("entry {seq} has no hash, and the entries before it have"));
                }
                _ => {}
            }
            before = own;
            let snapshot = snapshots.iter().find(|snapshot| snapshot.seq == seq);
            if let Some(stated) = snapshot.and_then(|snapshot| snapshot.chain)
                && Some(stated) != own
            {
                found
                    .findings
                    .push(format!("the snapshot of entry {seq} follows another entry {seq}: their hashes differ"));
            }
        }
        Ok(())
    }
}
