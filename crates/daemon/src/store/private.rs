//! Files and folders for their owner alone, whatever the umask is.
//!
//! The mode is given when a file is made, so that there is no moment at which others could open it. SQLite gives the files beside a
//! database (`-wal`, `-shm`) the mode of the database.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes a folder that only its owner may enter. One that is there is closed to others if it is empty or holds `marker`: a folder with
/// other things in it is not ours to close.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn folder(path: &Path, marker: &str) -> io::Result<()> {
    if path.is_dir() {
        let ours = path.join(marker).exists() || path.read_dir()?.next().is_none();
        let mode = path.metadata()?.mode();
        if ours && mode & 0o077 != 0 && std::fs::set_permissions(path, Permissions::from_mode(0o700)).is_err() {
            tracing::warn!("{}: other users may read this folder; close it with 'chmod 700'", path.display());
        }
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    DirBuilder::new().mode(0o700).create(path)
}

/// Opens a file for reading and writing, and makes it where there is none; what it holds stays.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    close(path);
    Ok(file)
}

/// Makes a file that is not there yet.
///
/// # Errors
/// When there is one, or it cannot be made.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Prepares the file of a database before SQLite opens it, with what SQLite keeps beside it.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn database(path: &Path) -> io::Result<()> {
    file(path)?;
    for end in ["-wal", "-shm"] {
        close(&beside(path, end));
    }
    Ok(())
}

/// A file beside a database: `journal.db-wal` of `journal.db`.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Takes away what an older version left open to others.
fn close(path: &Path) {
    if path.metadata().is_ok_and(|meta| meta.mode() & 0o077 != 0) {
        let _ = std::fs::set_permissions(path, Permissions::from_mode(0o600));
    }
}
