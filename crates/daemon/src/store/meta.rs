//! What there is once: the header, the journal's id, notes for the next start. Every row carries a seal.

use super::chain::{self, Hash};
use super::entry::JournalHeader;
use super::{Done, Store, StoreError, parsed};
use rusqlite::{Connection, OptionalExtension, params};

fn seal(key: &str, value: &str) -> Hash {
    chain::seal(&[b"meta", key.as_bytes(), value.as_bytes()])
}

/// Writes a row.
pub(super) fn put(connection: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO meta (key, value, seal) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![key, value, seal(key, value)])?;
    Ok(())
}

/// All rows, each with whether its seal fits.
fn rows(connection: &Connection) -> rusqlite::Result<Vec<(String, String, bool)>> {
    let mut select = connection.prepare("SELECT key, value, seal FROM meta ORDER BY key")?;
    let rows = select.query_map([], |row| {
        let (key, value): (String, String) = (row.get(0)?, row.get(1)?);
        let fits = chain::read(row.get_ref(2)?.as_blob_or_null()?) == Some(seal(&key, &value));
        Ok((key, value, fits))
    })?;
    rows.collect()
}

/// Seals rows of a version that had no seals.
pub(super) fn seal_all(connection: &Connection) -> rusqlite::Result<()> {
    for (key, value, _) in rows(connection)? {
        let sql = "UPDATE meta SET seal = ?1 WHERE key = ?2 AND seal IS NULL";
        connection.execute(sql, params![seal(&key, &value), key])?;
    }
    Ok(())
}

impl Store {
    /// A row; `None` if there is none.
    pub(super) fn meta(&self, key: &str) -> Done<Option<String>> {
        let sql = "SELECT value, seal FROM meta WHERE key = ?1";
        let found = self
            .connection
            .query_row(sql, [key], |row| {
                let value: String = row.get(0)?;
                let fits = chain::read(row.get_ref(1)?.as_blob_or_null()?) == Some(seal(key, &value));
                Ok((value, fits))
            })
            .optional()
            .map_err(StoreError::sqlite("reading its header"))?;
        match found {
            Some((_, false)) => Err(StoreError::Refused(damaged(&self.path.display().to_string(), key))),
            found => Ok(found.map(|(value, _)| value)),
        }
    }

    pub(super) fn set_meta(&mut self, key: &str, value: &str) -> Done<()> {
        put(&self.connection, key, value).map_err(StoreError::sqlite("writing its header"))
    }

    /// Sentences about rows that are damaged.
    pub(super) fn damaged_meta(&self) -> Done<Vec<String>> {
        let all = rows(&self.connection).map_err(StoreError::sqlite("reading its header"))?;
        let path = self.path.display().to_string();
        Ok(all.into_iter().filter(|(.., fits)| !fits).map(|(key, ..)| damaged(&path, &key)).collect())
    }

    /// What the journal begins with; `None` if it has not begun.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn header(&self) -> Done<Option<JournalHeader>> {
        self.meta("ground")?.map(|text| parsed(&text, "the header")).transpose()
    }

    /// Begins the journal, or lets its list of workloads grow.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_header(&mut self, header: &JournalHeader) -> Done<()> {
        self.set_meta("ground", &serde_json::to_string(header).expect("plain data"))?;
        self.journal_id()?;
        Ok(())
    }

    /// What tells this journal from every other: made when it began, or by the first daemon that asks.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn journal_id(&mut self) -> Done<String> {
        match self.meta("journal-id")? {
            Some(id) => Ok(id),
            None => self.renew_journal_id(),
        }
    }

    /// Gives the journal another id: entries that follow are not those that somebody saw under the old one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn renew_journal_id(&mut self) -> Done<String> {
        if let Some(old) = self.meta("journal-id")? {
            self.set_meta("journal-id-before", &old)?;
        }
        let id = crate::access::random_hex(16);
        self.set_meta("journal-id", &id)?;
        self.id.clone_from(&id);
        Ok(id)
    }

    /// The id that the journal had before its present one.
    pub(crate) fn former_journal_id(&self) -> Done<Option<String>> {
        self.meta("journal-id-before")
    }

    /// Number of the last entry of measurements that was dropped; 0 if none was.
    pub(crate) fn measured_dropped(&self) -> Done<u64> {
        Ok(self.meta("measured-dropped")?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }
}

fn damaged(path: &str, key: &str) -> String {
    let key = key.escape_debug();
    format!(
        "the row '{key}' of the table meta in {path} is damaged: its seal does not fit; 'arles restore' brings a backup back"
    )
}
