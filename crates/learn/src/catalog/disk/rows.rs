//! Cells and features as rows, and the hash of each.
//!
//! A row's hash runs over its fields, every text with its length before it and every number with all its bits, so that no
//! two rows are alike by accident of concatenation. The seal is the sum of all hashes modulo 2^64: it does not depend on
//! order, and one row's change is one subtraction and one addition.

use super::super::csv::FEATURES;
use super::super::labels::{MODES, PRECISIONS, SOURCES, from_label, label_of};
use super::super::{Catalog, Cell, Key, check};
use super::{check_features, extras};
use arles_core::{Time, Workload};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeMap;

/// Between aliases, which have no line breaks in them.
const SEPARATOR: char = '\n';

/// A sum of hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn add(&mut self, hash: u64) {
        self.0 = self.0.wrapping_add(hash);
    }

    pub(super) fn remove(&mut self, hash: u64) {
        self.0 = self.0.wrapping_sub(hash);
    }
}

/// Why rows could not be read.
pub(super) enum ReadError {
    Sql(rusqlite::Error),
    /// What was found.
    Invalid(String),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Everything that is in a file.
pub(super) struct Rows {
    pub(super) catalog: Catalog,
    pub(super) journals: BTreeMap<String, u64>,
    pub(super) digest: Digest,
}

/// Reads all rows and compares them with the seal. `whole` where there are journals and profiles.
pub(super) fn read(connection: &Connection, whole: bool) -> Result<Rows, ReadError> {
    let (mut catalog, mut digest) = (Catalog::default(), Digest::default());
    let mut statement = connection.prepare(
        "SELECT workload, partner, kind, gang, rate, watts, source, observations, at, doubt FROM cells ORDER BY workload, partner, kind, gang",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (key, cell) = cell(row)?;
        digest.add(cell_hash(&key, &cell));
        catalog.cells.insert(key, cell);
    }
    let mut statement = connection.prepare(&format!("SELECT {} FROM workloads ORDER BY name", FEATURES.join(", ")))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let workload = workload(row)?;
        digest.add(workload_hash(&workload));
        catalog.describe(workload);
    }
    let journals = if whole { extras::read(connection, &mut catalog, &mut digest)? } else { BTreeMap::new() };
    let count = super::row_count(&catalog, &journals) as i64;
    let pair = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (sealed, seal) = connection.query_row("SELECT rows, digest FROM seal", [], pair)?;
    if count != sealed {
        return Err(ReadError::Invalid(format!("it has {count} rows and was left with {sealed}")));
    }
    if digest != Digest(i64::cast_unsigned(seal)) {
        return Err(ReadError::Invalid(
            "its rows are not those it was left with: bytes were changed by something else than arles".into(),
        ));
    }
    Ok(Rows { catalog, journals, digest })
}

fn cell(row: &Row<'_>) -> Result<(Key, Cell), ReadError> {
    let partner: String = row.get(1)?;
    let key = Key {
        workload: row.get(0)?,
        partner: (!partner.is_empty()).then_some(partner),
        kind: row.get(2)?,
        gang: ranged(row, 3, "gang")?,
    };
    let cell = Cell {
        rate: row.get(4)?,
        watts: row.get(5)?,
        source: one_of(row, 6, "source", &SOURCES)?,
        observations: ranged(row, 7, "observations")?,
        at: Time(ranged(row, 8, "at")?),
        standard_error: row.get(9)?,
    };
    check(&key, cell.rate, cell.watts, cell.standard_error, cell.at).map_err(|error| ReadError::Invalid(error.0))?;
    Ok((key, cell))
}

fn workload(row: &Row<'_>) -> Result<Workload, ReadError> {
    let aliases: String = row.get(13)?;
    let workload = Workload {
        name: row.get(0)?,
        family: row.get(1)?,
        domain: row.get(2)?,
        mode: one_of(row, 3, "mode", &MODES)?,
        precision: one_of(row, 4, "precision", &PRECISIONS)?,
        batch: ranged(row, 5, "batch")?,
        params: row.get(6)?,
        flops_per_step: row.get(7)?,
        bytes_per_step: row.get(8)?,
        synced_bytes: row.get(9)?,
        kernels_per_step: row.get(10)?,
        memory_gib: row.get(11)?,
        host_seconds: row.get(12)?,
        aliases: aliases.split(SEPARATOR).filter(|alias| !alias.is_empty()).map(str::to_owned).collect(),
    };
    check_features(&workload).map_err(|error| ReadError::Invalid(error.0))?;
    Ok(workload)
}

/// A whole number that its field can hold.
pub(super) fn ranged<T: TryFrom<i64>>(row: &Row<'_>, column: usize, name: &str) -> Result<T, ReadError> {
    let number: i64 = row.get(column)?;
    T::try_from(number).map_err(|_| ReadError::Invalid(format!("a row of {} has {name} {number}", first(row))))
}

/// One of a few words.
pub(super) fn one_of<T: Copy>(row: &Row<'_>, column: usize, name: &str, words: &[(&str, T)]) -> Result<T, ReadError> {
    let found: String = row.get(column)?;
    let senseless = || ReadError::Invalid(format!("a row of {} has {name} {found:?}", first(row)));
    from_label(&found, words).ok_or_else(senseless)
}

/// Whose row this is.
fn first(row: &Row<'_>) -> String {
    row.get::<_, String>(0).unwrap_or_else(|_| "an unreadable workload".into())
}

pub(super) fn write_cell(connection: &Connection, key: &Key, cell: &Cell) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO cells VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    connection.execute(
        sql,
        params![
            key.workload,
            key.partner.as_deref().unwrap_or_default(),
            key.kind,
            key.gang,
            cell.rate,
            cell.watts,
            label_of(&cell.source, &SOURCES),
            cell.observations,
            u64::cast_signed(cell.at.0),
            cell.standard_error
        ],
    )?;
    Ok(())
}

pub(super) fn write_workload(connection: &Connection, w: &Workload) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO workloads VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    connection.execute(
        sql,
        params![
            w.name,
            w.family,
            w.domain,
            label_of(&w.mode, &MODES),
            label_of(&w.precision, &PRECISIONS),
            w.batch,
            w.params,
            w.flops_per_step,
            w.bytes_per_step,
            w.synced_bytes,
            w.kernels_per_step,
            w.memory_gib,
            w.host_seconds,
            w.aliases.join(&SEPARATOR.to_string())
        ],
    )?;
    Ok(())
}

pub(super) fn forget(connection: &Connection, workload: &str) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM cells WHERE workload = ?1 OR partner = ?1", [workload])?;
    connection.execute("DELETE FROM workloads WHERE name = ?1", [workload])?;
    connection.execute("DELETE FROM profiles WHERE name = ?1", [workload])?;
    Ok(())
}

pub(super) fn write_seal(connection: &Connection, rows: usize, digest: Digest) -> rusqlite::Result<()> {
    let sql = "UPDATE seal SET rows = ?1, digest = ?2 WHERE id = 1";
    match connection.execute(sql, params![rows as i64, u64::cast_signed(digest.0)])? {
        1 => Ok(()),
        changed => Err(rusqlite::Error::StatementChangedRows(changed)),
    }
}

/// The features that are numbers, by name.
pub(in crate::catalog) fn numbers(w: &Workload) -> [(&'static str, f64); 7] {
    [
        ("params", w.params),
        ("flops_per_step", w.flops_per_step),
        ("bytes_per_step", w.bytes_per_step),
        ("synced_bytes", w.synced_bytes),
        ("kernels_per_step", w.kernels_per_step),
        ("memory_gib", w.memory_gib),
        ("host_seconds", w.host_seconds),
    ]
}

/// No file keeps the sign of a zero, so memory does not either.
pub(super) fn without_signs_of_zero(w: Workload) -> Workload {
    Workload {
        params: w.params + 0.0,
        flops_per_step: w.flops_per_step + 0.0,
        bytes_per_step: w.bytes_per_step + 0.0,
        synced_bytes: w.synced_bytes + 0.0,
        kernels_per_step: w.kernels_per_step + 0.0,
        memory_gib: w.memory_gib + 0.0,
        host_seconds: w.host_seconds + 0.0,
        ..w
    }
}

pub(super) fn cell_hash(key: &Key, cell: &Cell) -> u64 {
    let mut hash = Hash::of("cell");
    hash.text(&key.workload);
    hash.text(key.partner.as_deref().unwrap_or_default());
    hash.text(&key.kind);
    hash.number(u64::from(key.gang));
    hash.number(cell.rate.to_bits());
    // No number of watts is 0.
    hash.number(cell.watts.map_or(0, f64::to_bits));
    hash.text(label_of(&cell.source, &SOURCES));
    hash.number(u64::from(cell.observations));
    hash.number(cell.at.0);
    hash.number(cell.standard_error.to_bits());
    hash.end()
}

pub(super) fn workload_hash(w: &Workload) -> u64 {
    let mut hash = Hash::of("workload");
    for text in [&w.name, &w.family, &w.domain] {
        hash.text(text);
    }
    hash.text(label_of(&w.mode, &MODES));
    hash.text(label_of(&w.precision, &PRECISIONS));
    hash.number(u64::from(w.batch));
    for (_, number) in numbers(w) {
        hash.number(number.to_bits());
    }
    hash.number(w.aliases.len() as u64);
    for alias in &w.aliases {
        hash.text(alias);
    }
    hash.end()
}

/// FNV-1a over 64 bits with a finisher that spreads every bit; written here because the hash of a file must not change with a library.
pub(super) struct Hash(u64);

impl Hash {
    pub(super) fn of(what: &str) -> Self {
        let mut hash = Self(0xcbf2_9ce4_8422_2325);
        hash.text(what);
        hash
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    pub(super) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    pub(super) fn end(self) -> u64 {
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
