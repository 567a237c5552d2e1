//! The mark: a small file beside the journal that says how far the journal goes.
//!
//! A database that has lost its end (its write-ahead log is damaged or was left behind, or an older copy took its place) is a
//! perfectly good database that ends earlier. What is missing shows only by something outside of it. So after every commit, and before anybody is told
//! of it, the number and the hash of the last entry and the next number of a job are written here. That write is not synced: a daemon that is killed
//! loses nothing of it. About once a second somebody syncs it. What a power cut may then take is covered by a reserve: numbers of jobs
//! below `reserved` may have been given out, and the reserve is synced before they are.
//!
//! Two slots are written in turn, so that half a write destroys one of them at most.

use super::chain::{self, Hash};
use super::private;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Name of the mark in the state folder.
pub(crate) const MARK_FILE: &str = "journal.mark";

/// Bytes of a slot: one page, so that two slots never share a sector.
const SLOT: u64 = 4096;
/// Numbers of jobs that are set aside at a time.
const RESERVE: u64 = 10_000;

/// How far a journal goes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Id of the journal.
    pub(crate) journal: String,
    /// Number and hash of its last entry.
    pub(crate) seq: u64,
    pub(crate) chain: String,
    /// The number that the next job gets.
    pub(crate) next_job: u64,
    /// Numbers below may have been given out, for all that is known after a power cut.
    pub(crate) reserved: u64,
    /// Since when this machine runs: what it wrote before it stopped may not be on its disk.
    pub(crate) boot: String,
    /// Whether the daemon ended in peace.
    pub(crate) clean: bool,
    /// Grows with every write.
    turn: u64,
}

/// A mark and its seal, as a slot holds them.
#[derive(Serialize, Deserialize)]
struct Slot {
    mark: Mark,
    seal: String,
}

/// What was found in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FoundMark {
    pub(crate) mark: Option<Mark>,
    /// Whether a slot was there and could not be read.
    pub(crate) damaged: bool,
}

impl FoundMark {
    /// Reads the mark at a path; nothing if there is none.
    pub(crate) fn read(path: &Path) -> Self {
        let mut bytes = Vec::new();
        match File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => Self::parse(&bytes),
            Err(_) => Self::default(),
        }
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        for slot in bytes.chunks(SLOT as usize).take(2) {
            let text = slot.split(|&byte| byte == b'\n' || byte == 0).next().unwrap_or_default();
            if text.is_empty() && slot.iter().all(|&byte| byte == 0) {
                continue;
            }
            match serde_json::from_slice::<Slot>(text) {
                Ok(Slot { mark, seal }) if seal == sealed(&mark) => {
                    if found.mark.as_ref().is_none_or(|known| known.turn < mark.turn) {
                        found.mark = Some(mark);
                    }
                }
                _ => found.damaged = true,
            }
        }
        found
    }

    /// The least number that a job may get from now on, as far as the mark knows.
    pub(crate) fn next_job(&self) -> u64 {
        let Some(mark) = &self.mark else { return 0 };
        let exact = !self.damaged && (mark.clean || (!mark.boot.is_empty() && mark.boot == boot()));
        if exact { mark.next_job } else { mark.reserved.max(mark.next_job) }
    }
}

fn sealed(mark: &Mark) -> String {
    let text = serde_json::to_string(mark).unwrap_or_default();
    hex(&chain::seal(&[b"mark", text.as_bytes()]))
}

pub(crate) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tells this run of the machine from every other; empty where nobody can say.
fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// The file, open for writing.
pub(crate) struct MarkFile {
    file: File,
    mark: Mark,
    /// Whether the reserve of the file is synced.
    synced: bool,
    failing: bool,
}

impl MarkFile {
    /// Opens the mark, or makes one; what it said comes back too.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, FoundMark)> {
        let file = private::file(path)?;
        let found = FoundMark::read(path);
        let mark = Mark { boot: boot(), clean: false, ..found.mark.clone().unwrap_or_default() };
        Ok((Self { file, mark, synced: false, failing: false }, found))
    }

    /// Another handle, for whoever syncs it.
    pub(crate) fn handle(&self) -> Option<File> {
        self.file.try_clone().ok()
    }

    /// Before anything is written: which journal it is, how far it goes, and the number of the next job.
    pub(crate) fn start(&mut self, journal: &str, seq: u64, chain: &Hash, next_job: u64) {
        journal.clone_into(&mut self.mark.journal);
        (self.mark.seq, self.mark.chain) = (seq, hex(chain));
        self.mark.next_job = self.mark.next_job.max(next_job);
        self.reserve(self.mark.next_job);
    }

    /// Before jobs with numbers below `next_job` are committed: makes sure that they are in the reserve, and that is on disk.
    pub(crate) fn reserve(&mut self, next_job: u64) {
        if self.synced && next_job <= self.mark.reserved {
            return;
        }
        if self.mark.reserved < next_job.saturating_add(RESERVE / 2) {
            self.mark.reserved = next_job.saturating_add(RESERVE);
        }
        let done = self.write().and_then(|()| self.file.sync_data());
        self.synced = done.is_ok();
        self.note(&done);
    }

    /// After a commit.
    pub(crate) fn advance(&mut self, journal: &str, seq: u64, chain: &Hash, next_job: u64) {
        if self.mark.journal != journal {
            journal.clone_into(&mut self.mark.journal);
        }
        (self.mark.seq, self.mark.chain) = (seq, hex(chain));
        self.mark.next_job = self.mark.next_job.max(next_job);
        self.mark.clean = false;
        let done = self.write();
        self.note(&done);
    }

    /// At the end: nothing follows any more.
    pub(crate) fn finish(&mut self) {
        self.mark.clean = true;
        let done = self.write().and_then(|()| self.file.sync_data());
        self.note(&done);
    }

    fn write(&mut self) -> io::Result<()> {
        self.mark.turn += 1;
        let slot = Slot { mark: self.mark.clone(), seal: sealed(&self.mark) };
        let mut text = serde_json::to_vec(&slot)?;
        text.push(b'\n');
        self.file.write_all_at(&text, self.mark.turn % 2 * SLOT)
    }

    /// The journal does not depend on the mark: a failure is told once.
    fn note(&mut self, done: &io::Result<()>) {
        if let Err(error) = done
            && !std::mem::replace(&mut self.failing, true)
        {
            tracing::warn!("{MARK_FILE} cannot be written ({error}): a loss at the end of the journal would not show");
        }
        self.failing = done.is_err();
    }
}

/// Writes a mark for a journal that begins here, such as one that was restored.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn begin(path: &Path, journal: &str, seq: u64, chain: &Hash, next_job: u64) -> io::Result<()> {
    let (mut file, _) = MarkFile::open(path)?;
    file.mark.reserved = next_job;
    file.advance(journal, seq, chain, next_job);
    file.finish();
    if file.failing { Err(io::Error::other("the mark was not written")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("arles-mark-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_mark_says_what_was_written_last_and_a_damaged_slot_is_not_believed() {
        let path = path("slots");
        let (mut file, found) = MarkFile::open(&path).expect("a file");
        assert_eq!(found, FoundMark::default());
        file.reserve(8);
        file.advance("j", 5, &[1; 16], 8);
        file.advance("j", 6, &[2; 16], 9);
        let found = FoundMark::read(&path);
        let mark = found.mark.clone().expect("a mark");
        assert_eq!((mark.seq, mark.next_job, found.next_job(), found.damaged), (6, 9, 9, false));
        assert_eq!(mark.reserved, 8 + RESERVE);
        let mut bytes = std::fs::read(&path).expect("bytes");
        let newest = (mark.turn % 2 * SLOT) as usize;
        bytes[newest + 30] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        let found = FoundMark::read(&path);
        assert_eq!(found.mark.as_ref().expect("the other").seq, 5);
        assert_eq!(found.next_job(), 8 + RESERVE, "numbers may have been given out since");
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn after_a_power_cut_numbers_go_on_above_the_reserve_and_after_a_clean_end_where_they_were() {
        let path = path("power");
        let (mut file, _) = MarkFile::open(&path).expect("a file");
        file.reserve(1);
        file.advance("j", 1, &[1; 16], 2);
        let mut found = FoundMark::read(&path);
        found.mark.as_mut().expect("a mark").boot = "another".into();
        assert_eq!(found.next_job(), 1 + RESERVE);
        file.finish();
        let mut found = FoundMark::read(&path);
        found.mark.as_mut().expect("a mark").boot = "another".into();
        assert_eq!(found.next_job(), 2);
        std::fs::remove_file(&path).expect("removed");
    }
}
