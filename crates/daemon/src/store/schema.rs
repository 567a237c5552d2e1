//! Tables and their versions.

use super::{Done, StoreError};
use rusqlite::Connection;
use std::path::Path;

/// Marks a file as a journal of arles.
const APPLICATION: i32 = 0x6172_6c6a;

/// One step for every version: the n-th brings version n to n + 1.
const STEPS: &[&str] = &["
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE journal (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, entry TEXT NOT NULL, digest INTEGER NOT NULL) STRICT;
    CREATE TABLE snapshot (seq INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;
    CREATE TABLE snapshot_part (seq INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (seq, part)) STRICT;
    CREATE TABLE past (
        id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, workload TEXT NOT NULL, state TEXT NOT NULL, ended INTEGER NOT NULL,
        record TEXT NOT NULL) STRICT;
    CREATE INDEX past_of_tenant ON past (tenant, id);
    CREATE INDEX past_in_state ON past (state, id);
    CREATE TABLE sample (at INTEGER PRIMARY KEY, totals TEXT NOT NULL) STRICT;
    CREATE TABLE audit (at INTEGER PRIMARY KEY, until INTEGER NOT NULL, facts TEXT NOT NULL) STRICT;
    CREATE TABLE token (
        name TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, scope TEXT NOT NULL, tenant TEXT, created INTEGER NOT NULL) STRICT;
",
    "
    CREATE TABLE point (
        resolution INTEGER NOT NULL, at INTEGER NOT NULL, facts TEXT NOT NULL, PRIMARY KEY (resolution, at)) STRICT, WITHOUT ROWID;
",
    "
    ALTER TABLE journal ADD COLUMN by TEXT;
    ALTER TABLE journal ADD COLUMN chain BLOB;
    ALTER TABLE snapshot ADD COLUMN chain BLOB;
    ALTER TABLE snapshot ADD COLUMN seal BLOB;
    ALTER TABLE meta ADD COLUMN seal BLOB;
    ALTER TABLE token ADD COLUMN seal BLOB;
    CREATE TABLE deed (
        id INTEGER PRIMARY KEY, seq INTEGER, at INTEGER NOT NULL, name TEXT NOT NULL, address TEXT, kind TEXT NOT NULL, tenant TEXT,
        job INTEGER, text TEXT NOT NULL) STRICT;
    CREATE INDEX deed_of_tenant ON deed (tenant, id);
    CREATE INDEX deed_of_job ON deed (job, id);
    CREATE INDEX deed_at ON deed (at);
    CREATE INDEX past_ended ON past (ended);
    ALTER TABLE token ADD COLUMN expires INTEGER;
    ALTER TABLE token ADD COLUMN used INTEGER;
    ALTER TABLE token ADD COLUMN rotated INTEGER;
    ALTER TABLE token ADD COLUMN id TEXT;
    UPDATE token SET id = substr(hash, 1, 16);
    CREATE TABLE old_secret (hash TEXT PRIMARY KEY, name TEXT NOT NULL, until INTEGER NOT NULL) STRICT;
"];

/// Refuses files that are something else, or newer than this program.
pub(super) fn check(connection: &Connection, path: &Path) -> Done<()> {
    let refuse = |sentence: String| Err(StoreError::Refused(sentence));
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = match (number("application_id"), number("user_version")) {
        (Ok(application), Ok(version)) => (application, version),
        (Err(e), _) | (_, Err(e)) => {
            return refuse(format!(
                "{} is not a journal of arles ({e}); use the folder of a journal, or a new one, with --state",
                path.display()
            ));
        }
    };
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
        .map_err(StoreError::sqlite("reading its tables"))?;
    if application != APPLICATION && (application != 0 || version != 0 || tables != 0) {
        return refuse(format!(
            "{} is a database, but not a journal of arles; use the folder of a journal, or a new one, with --state",
            path.display()
        ));
    }
    if version < 0 || (version == 0 && application == APPLICATION) {
        return refuse(format!(
            "{} has format version {version}, which no arles ever wrote (expected 1 to {}); the file is damaged: 'arles restore' \
             brings a backup back",
            path.display(),
            STEPS.len()
        ));
    }
    if version > STEPS.len() as i32 {
        return refuse(format!(
            "{} has format version {version}, and this arles reads up to version {}; use the version of arles that wrote it, or a newer one",
            path.display(),
            STEPS.len()
        ));
    }
    Ok(())
}

/// Whether a file that passed [`check`] must be brought up to date before it can be read.
pub(super) fn is_older(connection: &Connection) -> Done<bool> {
    let version: i32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(StoreError::sqlite("reading its version"))?;
    Ok(usize::try_from(version).is_ok_and(|version| version < STEPS.len()))
}

/// Brings the tables to this program's version, all steps or none.
pub(super) fn migrate(connection: &mut Connection) -> Done<()> {
    let doing = StoreError::sqlite("migrating its tables");
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(&doing)?;
    // Checked before; still, a number from a file does not index anything unseen.
    let done = usize::try_from(version).unwrap_or(0).min(STEPS.len());
    if done == STEPS.len() {
        return Ok(());
    }
    let transaction = connection.transaction().map_err(&doing)?;
    for step in &STEPS[done..] {
        transaction.execute_batch(step).map_err(&doing)?;
    }
    super::meta::seal_all(&transaction).map_err(&doing)?;
    super::tokens::seal_all(&transaction).map_err(&doing)?;
    transaction.pragma_update(None, "application_id", APPLICATION).map_err(&doing)?;
    transaction.pragma_update(None, "user_version", STEPS.len() as i32).map_err(&doing)?;
    transaction.commit().map_err(doing)
}
