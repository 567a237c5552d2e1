//! What can go wrong with a file, in sentences: which file, what was found, what to do.

use super::super::CatalogError;
use super::open::{MAGIC, VERSION};
use rusqlite::{Connection, ErrorCode};
use std::io::Read;
use std::path::Path;

/// Why a catalog on disk did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiskError {
    /// The file is no catalog that can be used; it was left as it is.
    #[error("{0}")]
    Refused(String),
    /// All was right, and still it could not be done: no permission, no space, somebody else is writing.
    #[error("{0}")]
    Failed(String),
    /// A value that no catalog takes in.
    #[error(transparent)]
    Value(#[from] CatalogError),
}

/// SQLite's errors about a file, for `map_err`.
pub(super) fn sql(path: &Path) -> impl Fn(rusqlite::Error) -> DiskError {
    move |error| of(path, &error)
}

/// SQLite's error in a sentence.
pub(super) fn of(path: &Path, error: &rusqlite::Error) -> DiskError {
    let failed = |what: &str| DiskError::Failed(format!("{}: {what}", path.display()));
    let Some(code) = error.sqlite_error_code() else { return damaged(path, &error.to_string()) };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            failed("another process is writing to this catalog and did not end in time; try again when it has")
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            failed("this catalog cannot be written; give yourself permission, or give another file")
        }
        ErrorCode::CannotOpen => failed(
            "cannot open this catalog, or write a journal beside it; give a file in a folder that you can read and write",
        ),
        ErrorCode::DiskFull => failed("there is no space left where this catalog is; nothing was changed: make some"),
        ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory => {
            failed(&format!("the system failed ({error}); nothing that was acknowledged is lost: try again"))
        }
        ErrorCode::NotADatabase => match head::<16>(path) {
            Some(head) if head == *MAGIC => damaged(path, &error.to_string()),
            Some(head) => not_ours(path, &format!("a file that begins with '{}'", head.escape_ascii())),
            None => not_ours(path, "a file of a few bytes"),
        },
        _ => damaged(path, &error.to_string()),
    }
}

/// The sentence about a file that was a catalog once.
pub(super) fn damaged(path: &Path, what: &str) -> DiskError {
    let short = cut_short(path).unwrap_or_default();
    DiskError::Refused(format!(
        "{}: this catalog is damaged ({what}{short}); it was left as it is: restore it from a copy, or move it away and import anew",
        path.display()
    ))
}

/// Whether a file is shorter than its own head says.
fn cut_short(path: &Path) -> Option<String> {
    let head = head::<32>(path)?;
    let page = match u16::from_be_bytes([head[16], head[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let said = page * u64::from(u32::from_be_bytes([head[28], head[29], head[30], head[31]]));
    let length = std::fs::metadata(path).ok()?.len();
    (length < said && head.starts_with(MAGIC))
        .then(|| format!("; it ends after {length} of {said} bytes, so something has cut it short"))
}

/// How a file begins. Only where SQLite gave it up: reading it here drops this process's locks on it.
fn head<const N: usize>(path: &Path) -> Option<[u8; N]> {
    let mut head = [0; N];
    std::fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
    Some(head)
}

/// The sentence about a file of a version that is not ours.
pub(super) fn odd_version(path: &Path, connection: &Connection) -> DiskError {
    match connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)) {
        Ok(version) if version > VERSION => DiskError::Refused(format!(
            "{}: this catalog is of version {version}, and this arles knows versions up to {VERSION}; use a newer arles, or another file",
            path.display()
        )),
        Ok(version) => damaged(path, &format!("it is of version {version}, which never was")),
        Err(error) => of(path, &error),
    }
}

/// A file that cannot be opened at all.
pub(super) fn unopened(path: &Path, error: &std::io::Error) -> DiskError {
    let path = path.display();
    match error.kind() {
        std::io::ErrorKind::NotFound => DiskError::Refused(format!(
            "{path}: there is no such file; import measurements into it first, or give the path of a catalog"
        )),
        std::io::ErrorKind::PermissionDenied => DiskError::Failed(format!(
            "{path}: there is no permission to read this file; give yourself one, or give another file"
        )),
        _ => DiskError::Refused(format!("{path}: cannot read this file ({error}); give the path of a catalog")),
    }
}

/// A file that is something else; `what` says what.
pub(super) fn not_ours(path: &Path, what: &str) -> DiskError {
    DiskError::Refused(format!(
        "{}: this is no catalog but {what}; it was left as it is: give another path",
        path.display()
    ))
}
