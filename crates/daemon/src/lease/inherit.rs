//! What a term takes over from the one before: a copy of its files as they would be after a power cut.
//!
//! Whoever led before may still be writing when the copying begins. Its seal ends that at its next commit, and until then a copy may be of two moments.
//! So everything is read twice: files that are the same both times were all as copied at the moment between, which is an image that
//! SQLite recovers from as from a crash.

use super::{Stage, Term, beat_of, cannot, folder_of, seal};
use crate::store::StoreError;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often files that change are read again, and the pause between.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);
const CHUNK: usize = 1 << 18;

/// Seals all terms back to the last that led, and copies what that has left.
pub(super) fn inherit(state: &Path, term: &Term, found: &[u64]) -> Result<(), StoreError> {
    let before: Vec<u64> = found.iter().copied().filter(|&k| k < term.number()).collect();
    for &earlier in before.iter().rev() {
        let folder = folder_of(state, earlier);
        seal(&folder, term.number())?;
        if has_led(&folder) {
            return copy(&folder, term.folder());
        }
    }
    // No term has led yet, or the ones that have are gone: then this is a candidate of long ago.
    if term.number() > 1 && before.first() != Some(&1) {
        return Err(StoreError::Refused(format!(
            "none of the terms in {} has led; stop all daemons, and put a backup into an empty folder as journal.db",
            state.display()
        )));
    }
    let lock = File::create(state.join("lock")).map_err(|e| cannot("write to", state, &e))?;
    if lock.try_lock().is_err() {
        // Terms that never led would keep that daemon from starting again.
        term.lose();
        found.iter().for_each(|&never| drop(fs::remove_dir_all(folder_of(state, never))));
        return Err(StoreError::Refused(format!(
            "a daemon without --standby is using {}; stop it first, then start this one again",
            state.display()
        )));
    }
    copy(state, term.folder())
}

/// Whether a term that has been sealed has ever led. A beat that was being written is read again.
fn has_led(folder: &Path) -> bool {
    for _ in 0..ATTEMPTS {
        match beat_of(folder) {
            (_, Some(beat)) => return beat.stage != Stage::Preparing,
            (bytes, None) if bytes.is_empty() => return false,
            _ => std::thread::sleep(PAUSE),
        }
    }
    false
}

/// Files that belong to a journal: all but locks and the index that SQLite makes anew.
fn belongs(name: &str) -> bool {
    (name.starts_with("journal") || name.starts_with("catalog"))
        && !["-shm", ".part", ".lock"].iter().any(|end| name.ends_with(end))
}

fn files(folder: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().filter(|name| belongs(name))
            && entry.file_type()?.is_file()
        {
            found.insert(name.to_owned(), entry.path());
        }
    }
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match copy_once(from, to) {
            Ok(true) => {
                let synced = File::open(to).and_then(|folder| folder.sync_all());
                return synced.map_err(|e| cannot("sync", to, &e));
            }
            Ok(false) => {}
            // A file that was there a moment ago is gone: whoever led is still at it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => last = Some(e),
            Err(e) => return Err(cannot("take over the journal of", from, &e)),
        }
        std::thread::sleep(PAUSE);
    }
    let changing = io::Error::other("its files keep changing: the daemon that wrote them does not stop");
    Err(cannot("take over the journal of", from, &last.unwrap_or(changing)))
}

/// Copies everything, and says whether it was the same when it was read again.
fn copy_once(from: &Path, to: &Path) -> io::Result<bool> {
    let names = files(from)?;
    for old in files(to)?.into_values() {
        fs::remove_file(old)?;
    }
    for (name, path) in &names {
        let mut source = File::open(path)?;
        let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to.join(name))?;
        io::copy(&mut source, &mut copy)?;
        copy.sync_all()?;
    }
    for (name, path) in &names {
        if !same(File::open(path)?, File::open(to.join(name))?)? {
            return Ok(false);
        }
    }
    Ok(files(from)? == names)
}

fn same(mut one: File, mut other: File) -> io::Result<bool> {
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut here, mut there) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let read = one.read(&mut here)?;
        if read == 0 {
            return Ok(other.read(&mut there[..1])? == 0);
        }
        match other.read_exact(&mut there[..read]) {
            Ok(()) if here[..read] == there[..read] => {}
            Ok(()) => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}
