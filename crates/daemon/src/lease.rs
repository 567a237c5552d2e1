//! Who leads, where several daemons share a state folder. `docs/ha.md` has the argument; here is what it rests on.
//!
//! Leaders have numbered terms, and each a folder of its own below the state folder:
//!
//!   term-000007/   made by `mkdir`, which succeeds for one daemon alone
//!     seal         empty while the term lasts; the next leader writes into it before it reads anything else
//!     beat         who it is, and a count that grows as long as it lives
//!     journal.db   and whatever else belongs to it
//!
//! A leader does nothing and tells nobody before it has seen, after the entry was synced, that its seal is empty ([`Term::check`]). The next leader
//! seals, and then copies. So what was acknowledged was synced before the seal and is in the copy; what was synced later is not acknowledged.
//! No clock is part of this: the lease only decides when somebody else *tries*.
//!
//! Seals and beats are found by opening files that are there: over NFS that asks the server, while a look for a file that is not there may be answered
//! from a cache.
//!
//! Must never: write into another term's folder anything but a seal; take the place of a term that has not been sealed.

mod inherit;
#[cfg(test)]
mod tests;

use crate::store::StoreError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Beats and looks in the time of a lease.
const BEATS: u32 = 6;
/// A beat is always this long, so that it is written over the last one.
const BEAT_BYTES: usize = 1024;
/// Longest address that fits into it beside the rest.
const LONGEST_URL: usize = 512;
/// Terms whose folders are kept, the present one among them.
const KEPT: u64 = 3;
/// How often a seal is tried to be read, and the pause between.
const READ_ATTEMPTS: u32 = 40;
const READ_PAUSE: Duration = Duration::from_millis(25);

/// How far a term has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// It copies what the term before left.
    Preparing,
    /// The folder has everything, and may have more any time.
    Leading,
    /// It has ended by itself and will never write again.
    Released,
}

/// What a leader says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Beat {
    stage: Stage,
    count: u64,
    url: String,
    host: String,
    pid: u32,
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Refused(format!("cannot {what} {}: {error}; check the folder given with --state", path.display()))
}

fn folder_of(state: &Path, term: u64) -> PathBuf {
    state.join(format!("term-{term:06}"))
}

/// Numbers of the terms that there are, ascending.
fn terms(state: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(state)? {
        let name = entry?.file_name();
        found.extend(name.to_str().and_then(|name| name.strip_prefix("term-")?.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

fn beat_of(folder: &Path) -> (Vec<u8>, Option<Beat>) {
    let bytes = fs::read(folder.join("beat")).unwrap_or_default();
    let beat = serde_json::from_slice(&bytes).ok();
    (bytes, beat)
}

/// The folder with the newest journal of a state folder: of the newest term that has led, or the folder itself where there are no terms.
#[must_use]
pub fn newest_journal(state: &Path) -> PathBuf {
    let newest = terms(state).unwrap_or_default().into_iter().rev().map(|term| folder_of(state, term));
    let led = |folder: &PathBuf| beat_of(folder).1.is_some_and(|beat| beat.stage != Stage::Preparing);
    newest.into_iter().find(led).unwrap_or_else(|| state.to_owned())
}

/// Refuses a folder that daemons share, for a daemon that wants it for itself. Asked once it has the lock: whoever makes the first term asks for
/// the lock after that, so that one of the two sees the other.
///
/// # Errors
/// When there are terms in it.
pub fn refuse_shared(state: &Path) -> Result<(), StoreError> {
    let found = terms(state).map_err(|e| cannot("read the folder", state, &e))?;
    let Some(newest) = found.last() else { return Ok(()) };
    let (state, last) = (state.display(), folder_of(state, *newest));
    Err(StoreError::Refused(format!(
        "{state} is shared by daemons that run with --standby; use --standby here too, or stop all of them and use --state {}",
        last.display()
    )))
}

/// What a candidate sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outlook {
    /// Somebody leads, or is about to; where, if that is known.
    Wait(Option<String>),
    /// Nobody has led for the time of a lease, or ever.
    Vacant,
}

struct Seen {
    term: u64,
    bytes: Vec<u8>,
    since: Instant,
    looks: u32,
}

/// A daemon that would lead if nobody did.
pub struct Candidate {
    state: PathBuf,
    url: String,
    lease: Duration,
    seen: Option<Seen>,
}

impl Candidate {
    /// A daemon that can be reached at `url`, for a state folder that is made if it is not there.
    ///
    /// # Errors
    /// When the folder cannot be made, or the address is too long.
    pub fn new(state: &Path, url: &str, lease: Duration) -> Result<Self, StoreError> {
        if url.len() > LONGEST_URL {
            return Err(StoreError::Refused(format!(
                "the address of this daemon is {} characters long; give one of at most {LONGEST_URL} with --advertise",
                url.len()
            )));
        }
        fs::create_dir_all(state).map_err(|e| cannot("create the folder", state, &e))?;
        Ok(Self { state: state.to_owned(), url: url.to_owned(), lease, seen: None })
    }

    /// How long to wait between two looks.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.lease / BEATS
    }

    /// Looks whether somebody leads. A leader whose count has not changed for the time of a lease, in at least as many looks as it has beats in
    /// that time, is taken for gone: a candidate that was itself held up does not judge by the one look that it then has.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn look(&mut self) -> Result<Outlook, StoreError> {
        let found = terms(&self.state).map_err(|e| cannot("read the folder", &self.state, &e))?;
        let Some(&term) = found.last() else { return Ok(Outlook::Vacant) };
        let (bytes, beat) = beat_of(&folder_of(&self.state, term));
        let stage = beat.as_ref().map(|beat| beat.stage);
        let leader = beat.filter(|beat| beat.stage == Stage::Leading).map(|beat| beat.url);
        match &mut self.seen {
            Some(seen) if seen.term == term && seen.bytes == bytes => {
                seen.looks += 1;
                let over = seen.looks >= BEATS && seen.since.elapsed() >= self.lease;
                Ok(if over || stage == Some(Stage::Released) { Outlook::Vacant } else { Outlook::Wait(leader) })
            }
            _ => {
                self.seen = Some(Seen { term, bytes, since: Instant::now(), looks: 0 });
                Ok(if stage == Some(Stage::Released) { Outlook::Vacant } else { Outlook::Wait(leader) })
            }
        }
    }

    /// Takes the lead, with everything that the term before has left; `None` if another was faster.
    ///
    /// # Errors
    /// When the folder cannot be written, or what was left cannot be copied.
    pub fn take(&mut self) -> Result<Option<Arc<Term>>, StoreError> {
        let number = self.seen.take().map_or(0, |seen| seen.term) + 1;
        let folder = folder_of(&self.state, number);
        match fs::create_dir(&folder) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(cannot("create the folder", &folder, &e)),
        }
        // A candidate that was held up since it looked may have made a term that is long over.
        let found = terms(&self.state).map_err(|e| cannot("read the folder", &self.state, &e))?;
        if found.last().is_none_or(|&last| last > number) {
            let _ = fs::remove_dir(&folder);
            return Ok(None);
        }
        let Some(term) = Term::begin(number, folder, &self.url, self.lease)? else { return Ok(None) };
        inherit::inherit(&self.state, &term, &found)?;
        term.set_stage(Stage::Leading)?;
        prune(&self.state, number, &found);
        Ok(Some(term))
    }
}

/// Removes what was left by terms long over. A leader of such a term that wakes up finds its seal gone.
fn prune(state: &Path, number: u64, found: &[u64]) {
    for &old in found.iter().filter(|&&old| old + KEPT <= number) {
        let _ = fs::remove_dir_all(folder_of(state, old));
    }
}

/// A term of this process.
#[derive(Debug)]
pub struct Term {
    number: u64,
    folder: PathBuf,
    beat: Mutex<(File, Beat)>,
    lost: AtomicBool,
    silent: AtomicBool,
}

impl Term {
    /// Begins a term in a folder that this daemon has just made, and keeps its count growing until it is dropped.
    fn begin(number: u64, folder: PathBuf, url: &str, lease: Duration) -> Result<Option<Arc<Self>>, StoreError> {
        let private = |name: &str| {
            use std::os::unix::fs::OpenOptionsExt;
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name))
        };
        match private("seal").and_then(|seal| seal.sync_all()) {
            Ok(()) => {}
            // Somebody thought it dead before it had begun.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(cannot("write to", &folder, &e)),
        }
        let file = private("beat").map_err(|e| cannot("write to", &folder, &e))?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let beat = Beat { stage: Stage::Preparing, count: 0, url: url.to_owned(), host, pid: std::process::id() };
        let term = Arc::new(Self {
            number,
            folder,
            beat: Mutex::new((file, beat)),
            lost: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        });
        term.set_stage(Stage::Preparing)?;
        let watched = Arc::downgrade(&term);
        let run = move || {
            while let Some(term) = watched.upgrade() {
                term.go_on();
                drop(term);
                std::thread::sleep(lease / BEATS);
            }
        };
        std::thread::Builder::new()
            .name("lease".into())
            .spawn(run)
            .map_err(|e| cannot("start a thread for", &term.folder, &e))?;
        Ok(Some(term))
    }

    /// Its number, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where its journal is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is known to be over: another leads, or the cluster obeys another.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Notes that it is over.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Gives no more signs of life, so that another takes over: this daemon cannot lead any more, and is about to end.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::Release);
    }

    /// Whether this daemon may act on what it has synced before the call.
    ///
    /// # Errors
    /// When another daemon leads, or it cannot be known.
    pub fn check(&self) -> Result<(), StoreError> {
        let path = self.folder.join("seal");
        let mut last = None;
        for _ in 0..READ_ATTEMPTS {
            match fs::read(&path) {
                Ok(seal) if seal.is_empty() && !self.is_lost() => return Ok(()),
                Ok(seal) => return Err(self.deposed(String::from_utf8_lossy(&seal).trim())),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(self.deposed("its folder is gone")),
                // Descriptors may be used up, and a server may be away for a moment.
                Err(e) => last = Some(e),
            }
            std::thread::sleep(READ_PAUSE);
        }
        Err(self.deposed(&last.map_or_else(String::new, |e| format!("its seal cannot be read: {e}"))))
    }

    fn deposed(&self, why: &str) -> StoreError {
        self.lose();
        let why = if why.is_empty() { "the cluster obeys another" } else { why };
        StoreError::Deposed(format!("term {} of this daemon is over ({why}); another leads from now on", self.number))
    }

    /// Says that this daemon has ended and will write no more, so that nobody need wait for the lease to run out.
    pub fn release(&self) {
        if let Err(error) = self.set_stage(Stage::Released) {
            tracing::warn!("{error}; another daemon takes over when the lease is over");
        }
    }

    /// Another count, and a look at the seal.
    fn go_on(&self) {
        if self.is_lost() || self.silent.load(Ordering::Acquire) {
            return;
        }
        {
            let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
            beat.1.count += 1;
            if let Err(error) = write_beat(&beat.0, &beat.1) {
                tracing::warn!("the lease cannot be renewed in {}: {error}", self.folder.display());
            }
        }
        if fs::read(self.folder.join("seal")).is_ok_and(|seal| !seal.is_empty()) {
            self.lose();
        }
    }

    fn set_stage(&self, stage: Stage) -> Result<(), StoreError> {
        let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        beat.1.stage = stage;
        beat.1.count += 1;
        let written = write_beat(&beat.0, &beat.1).and_then(|()| beat.0.sync_all());
        written.map_err(|e| cannot("write to", &self.folder, &e))
    }
}

fn write_beat(file: &File, beat: &Beat) -> io::Result<()> {
    let mut text = serde_json::to_vec(beat)?;
    text.resize(BEAT_BYTES, b' ');
    file.write_all_at(&text, 0)
}

/// Ends a term: from here on whatever its leader syncs is not acknowledged.
fn seal(folder: &Path, by: u64) -> Result<(), StoreError> {
    let opened = OpenOptions::new().append(true).create(true).open(folder.join("seal"));
    let sealed = opened.and_then(|mut seal| {
        writeln!(seal, "term {by} began")?;
        seal.sync_all()
    });
    match sealed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(|e| cannot("end the term in", folder, &e)),
    }
}
