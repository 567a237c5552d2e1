//! Copies of the journal: made while the daemon writes, kept in a folder, and put back.
//!
//! A copy gets its name only when it is whole, on disk and was read back; until then it ends in `.part`. Copies of a schedule are called
//! `journal-20261116T125800Z.db`, so that their names sort by time, and only files of such names are ever removed.

use super::chain::Hash;
use super::mark::{self, FoundMark, MARK_FILE};
use super::{Done, FILE, Store, StoreError, locked, private, schema};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// What is moved aside with a journal that is replaced.
const BESIDE: [&str; 4] = [FILE, "journal.db-wal", "journal.db-shm", MARK_FILE];

fn refused(what: &str, path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Refused(format!("cannot {what} {}: {error}; check the disk and who may write there", path.display()))
}

/// A private copy of a file of an older version, brought up to date; the file itself stays as it is.
pub(super) fn up_to_date(old: &Connection) -> Done<Connection> {
    let doing = StoreError::sqlite("copying a file of an older version");
    let name = format!("arles-{}-{}.db", std::process::id(), crate::access::random_hex(8));
    let path = std::env::temp_dir().join(name);
    let made = private::new_file(&path).map_err(|error| refused("write", &path, &error));
    let copied = made.and_then(|_| {
        old.execute("VACUUM INTO ?1", [path.to_string_lossy()]).map_err(&doing)?;
        let mut copy = Connection::open(&path).map_err(&doing)?;
        copy.pragma_update(None, "journal_mode", "MEMORY").map_err(&doing)?;
        schema::migrate(&mut copy)?;
        Ok(copy)
    });
    // It is open, and gone with whoever has it open.
    let _ = std::fs::remove_file(&path);
    copied
}

impl Store {
    /// Writes a copy that is consistent, while the daemon goes on writing. Nobody else may read it, from its first byte on.
    ///
    /// # Errors
    /// When the copy exists already or cannot be written.
    pub fn back_up(&self, copy: &Path) -> Done<()> {
        if copy.exists() {
            return Err(StoreError::Refused(format!(
                "{} already exists; use another name for the copy, or remove it",
                copy.display()
            )));
        }
        // SQLite writes into an empty file, and leaves its mode as it is.
        let file = private::new_file(copy).map_err(|error| refused("write", copy, &error))?;
        let name = copy.to_string_lossy().into_owned();
        // The reader's own rule against writing would forbid writing the copy.
        self.connection.pragma_update(None, "query_only", false).map_err(StoreError::sqlite("copying the file"))?;
        let done = self.connection.execute("VACUUM INTO ?1", [name]).map_err(StoreError::sqlite("copying the file"));
        let done = done.and_then(|_| file.sync_all().map_err(|error| refused("sync the copy", copy, &error)));
        if done.is_err() {
            // Half a copy is worse than none.
            let _ = std::fs::remove_file(copy);
        }
        done
    }
}

/// A copy that is not yet named: removed unless it is kept.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(private::beside(&self.0, end));
        }
    }
}

/// Copies the journal of `state` to `target`; the copy gets its name once `check` has nothing against it.
///
/// # Errors
/// When it cannot be written, and what `check` says.
pub fn copy_checked(state: &Path, target: &Path, check: &mut dyn FnMut(&Path) -> Done<()>) -> Done<()> {
    if target.exists() {
        return Err(StoreError::Refused(format!(
            "{} already exists; use another name for the copy, or remove it",
            target.display()
        )));
    }
    let draft = Draft(private::beside(target, ".part"));
    let _ = std::fs::remove_file(&draft.0);
    Store::read(state)?.back_up(&draft.0)?;
    check(&draft.0)?;
    std::fs::rename(&draft.0, target).map_err(|error| refused("name the copy", target, &error))?;
    sync_folder(target);
    Ok(())
}

fn sync_folder(of: &Path) {
    let folder = of.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
}

/// What a scheduled copy did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rotated {
    /// The copy.
    pub file: PathBuf,
    /// Older copies that went.
    pub removed: Vec<PathBuf>,
}

/// Makes a copy in a folder, named by the time, and removes all but the newest `keep`; nothing goes before the new one is checked.
///
/// # Errors
/// When the copy cannot be made; then nothing is removed.
pub fn rotate(
    state: &Path,
    folder: &Path,
    keep: usize,
    unix_seconds: u64,
    check: &mut dyn FnMut(&Path) -> Done<()>,
) -> Done<Rotated> {
    private::folder(folder, "journal-").map_err(|error| refused("create the folder", folder, &error))?;
    for name in names(folder, ".db.part") {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let file = folder.join(format!("journal-{}.db", stamp(unix_seconds)));
    copy_checked(state, &file, check)?;
    let mut names = names(folder, ".db");
    names.sort_unstable();
    let old = names.len().saturating_sub(keep.max(1));
    let mut removed = Vec::new();
    for name in names.into_iter().take(old) {
        let path = folder.join(name);
        if path != file && std::fs::remove_file(&path).is_ok() {
            removed.push(path);
        }
    }
    Ok(Rotated { file, removed })
}

/// Files of a schedule in a folder.
fn names(folder: &Path, end: &str) -> Vec<String> {
    let ours = |name: &String| {
        let stamp = name.strip_prefix("journal-").and_then(|rest| rest.strip_suffix(end));
        stamp.is_some_and(|stamp| stamp.len() == 16 && stamp.ends_with('Z') && stamp.as_bytes()[8] == b'T')
    };
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(ours).collect()
}

/// `20261116T125800Z`.
pub(crate) fn stamp(unix_seconds: u64) -> String {
    let (year, month, day) = date(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// `2026-11-16 12:58`, for sentences.
#[must_use]
pub fn moment(unix_seconds: u64) -> String {
    let (year, month, day) = date(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second / 60 % 60)
}

/// Year, month and day of a day since 1970, counted in eras of 400 years that begin with March, so that leap days come last.
fn date(days: u64) -> (u64, u64, u64) {
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// What a restore did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// Where the journal that was there is now.
    pub moved: Option<PathBuf>,
    /// Last entry of the copy.
    pub last: u64,
    /// Last entry of the journal that was replaced, as far as is known.
    pub replaced_last: Option<u64>,
    /// The least number that the next job gets.
    pub next_job: u64,
}

/// Puts a copy into a state folder. A journal that is there is moved aside if `replace` says so, and refused otherwise. Numbers of jobs that
/// it gave out are not given out again. `check` looks at the copy first.
///
/// # Errors
/// When a daemon uses the folder, it has a journal, or something cannot be written.
pub fn restore(copy: &Path, folder: &Path, replace: bool, unix_seconds: u64) -> Done<Restored> {
    private::folder(folder, FILE).map_err(|error| refused("create the folder", folder, &error))?;
    let lock = locked(folder)?;
    let there = folder.join(FILE).exists();
    if there && !replace {
        return Err(StoreError::Refused(format!(
            "{} has a journal already; give another folder with --state, or --replace, which moves that journal aside",
            folder.display()
        )));
    }
    let known = FoundMark::read(&folder.join(MARK_FILE));
    let draft = Draft(folder.join(format!("{FILE}.part")));
    let _ = std::fs::remove_file(&draft.0);
    Store::read(copy)?.back_up(&draft.0)?;
    let moved = if there { Some(move_aside(folder, unix_seconds)?) } else { None };
    let path = folder.join(FILE);
    std::fs::rename(&draft.0, &path).map_err(|error| refused("name", &path, &error))?;
    sync_folder(&path);
    drop(lock);
    let mut store = Store::open(folder)?;
    let before = store.journal_id()?;
    store.renew_journal_id()?;
    let same = known.mark.as_ref().is_some_and(|mark| mark.journal == before);
    let (last, chain): (u64, Hash) = (store.last, store.chain);
    let next_job = if same { known.next_job() } else { 0 };
    let id = store.journal_id()?;
    store.close()?;
    drop(store);
    let mark = folder.join(MARK_FILE);
    let _ = std::fs::remove_file(&mark);
    mark::begin(&mark, &id, last, &chain, next_job).map_err(|error| refused("write", &mark, &error))?;
    let replaced_last = known.mark.filter(|_| same).map(|mark| mark.seq);
    Ok(Restored { moved, last, replaced_last, next_job })
}

/// Moves a journal and what belongs to it into a folder of its own.
fn move_aside(folder: &Path, unix_seconds: u64) -> Done<PathBuf> {
    let aside = folder.join(format!("replaced-{}", stamp(unix_seconds)));
    private::folder(&aside, FILE).map_err(|error| refused("create the folder", &aside, &error))?;
    if aside.join(FILE).exists() {
        return Err(StoreError::Refused(format!("{} holds a journal already; try again in a second", aside.display())));
    }
    for name in BESIDE {
        let from = folder.join(name);
        if from.exists() {
            std::fs::rename(&from, aside.join(name)).map_err(|error| refused("move aside", &from, &error))?;
        }
    }
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_782_400), "20000229T000000Z");
        assert_eq!(stamp(1_794_833_880), "20261116T125800Z");
        assert_eq!(moment(4_107_542_399), "2100-02-28 23:59 UTC");
    }
}
