//! Making, recognising and reading the file.

use super::super::Catalog;
use super::error::{self, DiskError, damaged, not_ours, sql, unopened};
use super::rows::{self, Digest};
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How every SQLite file begins.
pub(super) const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// "ARLS": whose SQLite file this is.
const APPLICATION: i64 = 0x4152_4c53;
/// Of the tables below; a change that an older arles would misread counts it up. 1 had no journals and no profiles.
pub(super) const VERSION: i64 = 2;
/// The oldest version that is still read, and brought up to date when it is opened to be written.
const FIRST_VERSION: i64 = 1;
/// What came with version 2, by name.
const SINCE_2: [&str; 2] = ["journals", "profiles"];

/// The tables, by name. What SQLite keeps of them is compared with this to the letter.
const TABLES: [(&str, &str); 5] = [
    (
        "cells",
        "CREATE TABLE cells (workload TEXT NOT NULL, partner TEXT NOT NULL, kind TEXT NOT NULL, gang INTEGER NOT NULL, \
         rate REAL NOT NULL, watts REAL, source TEXT NOT NULL, observations INTEGER NOT NULL, at INTEGER NOT NULL, \
         doubt REAL NOT NULL, PRIMARY KEY (workload, partner, kind, gang)) STRICT, WITHOUT ROWID",
    ),
    ("journals", "CREATE TABLE journals (id TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID"),
    (
        "profiles",
        "CREATE TABLE profiles (name TEXT NOT NULL PRIMARY KEY, alike TEXT, domain TEXT, mode TEXT, precision TEXT, \
         batch INTEGER, params REAL, memory_gib REAL, gpu_utilisation REAL, bandwidth_utilisation REAL) STRICT, WITHOUT ROWID",
    ),
    (
        "seal",
        "CREATE TABLE seal (id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1), rows INTEGER NOT NULL, \
         digest INTEGER NOT NULL) STRICT",
    ),
    (
        "workloads",
        "CREATE TABLE workloads (name TEXT NOT NULL PRIMARY KEY, family TEXT NOT NULL, domain TEXT NOT NULL, \
         mode TEXT NOT NULL, precision TEXT NOT NULL, batch INTEGER NOT NULL, params REAL NOT NULL, \
         flops_per_step REAL NOT NULL, bytes_per_step REAL NOT NULL, synced_bytes REAL NOT NULL, \
         kernels_per_step REAL NOT NULL, memory_gib REAL NOT NULL, host_seconds REAL NOT NULL, \
         aliases TEXT NOT NULL) STRICT, WITHOUT ROWID",
    ),
];

/// How it is written; the head of the module above argues it.
const PRAGMAS: &str = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; PRAGMA fullfsync = ON; \
                      PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;";

/// Everything in a file.
pub(super) struct Read {
    pub(super) version: i64,
    pub(super) catalog: Catalog,
    pub(super) journals: BTreeMap<String, u64>,
    pub(super) digest: Digest,
    pub(super) seen: i64,
}

/// Makes an empty catalog where there is nothing: whole under another name, then linked, which never replaces a file.
pub(super) fn make_if_missing(path: &Path) -> Result<(), DiskError> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .ok_or_else(|| not_ours(path, "no file name"))?;
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_file_name(format!(".{name}.{}-{number}.part", std::process::id()));
    let unmade = |why: String| {
        DiskError::Failed(format!(
            "{}: cannot make this catalog ({why}); give a path in a folder that you can write",
            path.display()
        ))
    };
    let _ = fs::remove_file(&draft);
    let made = write_empty(&draft).map_err(|error| unmade(error.to_string()));
    let linked = made.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        // Some file systems have no links. What another process makes in between is a catalog as empty as ours.
        Err(_) => fs::rename(&draft, path).map_err(|error| unmade(error.to_string())),
        Ok(()) => Ok(()),
    });
    let _ = fs::remove_file(&draft);
    linked?;
    // So that the name outlives a power cut as well. Where folders cannot be opened, their systems see to it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn write_empty(path: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let tables = TABLES.map(|(_, table)| table).join("; ");
    connection.execute_batch(PRAGMAS)?;
    connection.execute_batch(&format!(
        "BEGIN; {tables}; INSERT INTO seal VALUES (1, 0, 0); PRAGMA application_id = {APPLICATION}; \
         PRAGMA user_version = {VERSION}; COMMIT"
    ))?;
    connection.close().map_err(|(_, error)| error)
}

/// Opens a file.
///
/// It is SQLite that looks inside, and not we: on POSIX systems, whoever opens and closes a file drops all locks that his process
/// has on it, those of another connection included.
pub(super) fn connect(path: &Path, patience: Duration) -> Result<Connection, DiskError> {
    let metadata = fs::metadata(path).map_err(|error| unopened(path, &error))?;
    if metadata.is_dir() {
        return Err(not_ours(path, "a folder"));
    }
    if !metadata.is_file() {
        return Err(not_ours(path, "no plain file"));
    }
    if metadata.len() == 0 {
        return Err(not_ours(path, "an empty file, which arles never leaves behind"));
    }
    // Where writing is not permitted, SQLite opens it for reading.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags);
    let connection = opened.map_err(|error| match File::open(path) {
        Err(reason) => unopened(path, &reason),
        Ok(_) => error::of(path, &error),
    })?;
    connection.busy_timeout(patience).map_err(sql(path))?;
    Ok(connection)
}

/// Refuses a file that can only be read, and sets how it is written.
pub(super) fn prepare_to_write(path: &Path, connection: &Connection) -> Result<(), DiskError> {
    if connection.is_readonly("main").map_err(sql(path))? {
        return Err(DiskError::Failed(format!(
            "{}: there is no permission to write this catalog; give yourself one, or give another file",
            path.display()
        )));
    }
    connection.execute_batch(PRAGMAS).map_err(sql(path))
}

/// Brings a file of an older version up to date: all of it or nothing, whoever else tries the same.
pub(super) fn bring_up_to_date(path: &Path, connection: &Connection) -> Result<(), DiskError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(sql(path))?;
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    let done = version.and_then(|version| {
        if version != FIRST_VERSION {
            return connection.execute_batch("ROLLBACK");
        }
        let tables = TABLES.iter().filter(|(name, _)| SINCE_2.contains(name));
        let tables: Vec<&str> = tables.map(|(_, table)| *table).collect();
        connection.execute_batch(&format!("{}; PRAGMA user_version = {VERSION}; COMMIT", tables.join("; ")))
    });
    done.map_err(|error| {
        // It may have ended by itself; then there is nothing to roll back.
        let _ = connection.execute_batch("ROLLBACK");
        error::of(path, &error)
    })
}

/// Reads and checks everything in one transaction; `None` where the version is not ours.
pub(super) fn read(path: &Path, connection: &Connection) -> Result<Option<Read>, DiskError> {
    connection.execute_batch("BEGIN").map_err(sql(path))?;
    let read = read_within(path, connection, true);
    // It only read; there is nothing to lose by ending it this way.
    let ended = connection.execute_batch("ROLLBACK").map_err(sql(path));
    let read = read?;
    ended?;
    Ok(read)
}

/// The same inside a transaction that is open. `deeply` also asks SQLite whether its trees are sound.
pub(super) fn read_within(path: &Path, connection: &Connection, deeply: bool) -> Result<Option<Read>, DiskError> {
    let number =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(sql(path));
    if number("application_id")? != APPLICATION {
        return Err(not_ours(path, "an SQLite file of another program"));
    }
    let version = number("user_version")?;
    if !(FIRST_VERSION..=VERSION).contains(&version) {
        return Ok(None);
    }
    check_tables(path, connection, version)?;
    if deeply {
        let found =
            connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0)).map_err(sql(path))?;
        if found != "ok" {
            return Err(damaged(path, &found.replace('\n', ", ")));
        }
    }
    let rows::Rows { catalog, journals, digest } =
        rows::read(connection, version >= VERSION).map_err(|error| match error {
            rows::ReadError::Sql(error) => error::of(path, &error),
            rows::ReadError::Invalid(what) => damaged(path, &what),
        })?;
    let seen = commits_of_others(connection).map_err(sql(path))?;
    Ok(Some(Read { version, catalog, journals, digest, seen }))
}

/// A number that changes when another connection commits.
pub(super) fn commits_of_others(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}

fn check_tables(path: &Path, connection: &Connection, version: i64) -> Result<(), DiskError> {
    let read = || {
        let mut statement =
            connection.prepare("SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    let found = read().map_err(sql(path))?;
    let expected = TABLES.into_iter().filter(|(name, _)| version >= VERSION || !SINCE_2.contains(name));
    if found.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).eq(expected) {
        return Ok(());
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    Err(damaged(
        path,
        &format!("its tables are {}, and not as a catalog of version {version} has them", names.join(", ")),
    ))
}
