//! Files that are there whole or not at all.
//!
//! What is written goes to a temporary file beside the target, made *before* the work begins, so that a folder that
//! cannot be written is known at once; only [`Draft::keep`] gives it its name. Dropped before that, it is removed, and so it is
//! when a signal ends the program.

use crate::fault::Failed;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, mpsc};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask a program to end, by their numbers.
const HANGUP: i32 = 1;
const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// Files that are to be removed when a signal ends the program.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Whether somebody else sees to it that the program ends.
static HANDLED: AtomicBool = AtomicBool::new(false);

/// Says that this command ends by itself when it is told to; unfinished files are removed all the same.
pub(crate) fn signals_are_handled() {
    HANDLED.store(true, Ordering::Relaxed);
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is removed if a signal ends the program before this value is dropped.
#[derive(Debug)]
pub(crate) struct Unfinished(PathBuf);

impl Unfinished {
    /// From now on; the file need not be there yet.
    pub(crate) fn new(path: &Path) -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            let (caught, is_caught) = mpsc::sync_channel::<()>(1);
            let watching = std::thread::Builder::new().name("signals".into()).spawn(move || watch_signals(caught));
            // Not before signals are caught: one that comes as soon as the file is there must find it in the list. Without the thread the
            // file may stay behind, which is no reason to do nothing.
            if watching.is_ok() {
                let _ = is_caught.recv();
            }
        });
        unfinished().push(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut all = unfinished();
        if let Some(at) = all.iter().position(|path| *path == self.0) {
            all.swap_remove(at);
        }
    }
}

/// Signals that whoever started this program wants ignored, a bit each: `nohup` does that.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Catches a signal from now on, unless it is ignored.
fn catch(number: i32, ignored: u64) -> Option<Signal> {
    let wanted = ignored >> (number - 1) & 1 == 0;
    wanted.then(|| signal(SignalKind::from_raw(number)).ok()).flatten()
}

/// Waits for a signal, or for ever where it is not caught.
async fn heard(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => {
            signals.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Removes what is unfinished when a signal comes, and ends the program as the signal would have. Drops `caught` once none is missed.
fn watch_signals(caught: mpsc::SyncSender<()>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let ignored = ignored();
    let number = runtime.block_on(async {
        let [mut hangup, mut interrupt, mut terminate] =
            [HANGUP, INTERRUPT, TERMINATE].map(|number| catch(number, ignored));
        drop(caught);
        tokio::select! {
            () = heard(&mut hangup) => HANGUP,
            () = heard(&mut interrupt) => INTERRUPT,
            () = heard(&mut terminate) => TERMINATE,
        }
    });
    // The lock is kept to the end: nothing is given its name any more.
    let all = unfinished();
    for path in all.iter() {
        let _ = fs::remove_file(path);
    }
    if !HANDLED.load(Ordering::Relaxed) {
        std::process::exit(128 + number);
    }
}

/// A file in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    target: PathBuf,
    temporary: PathBuf,
    _removed_by_signals: Unfinished,
    out: Option<BufWriter<File>>,
}

impl Draft {
    /// Begins a file that will be called `target`.
    pub(crate) fn create(target: &Path) -> Result<Self> {
        let name = target.file_name().map(|n| n.to_string_lossy().into_owned());
        let name = name
            .filter(|_| !target.is_dir())
            .ok_or_else(|| Failed(format!("cannot write '{}': it is not a file path; give one", target.display())))?;
        let temporary = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let removed = Unfinished::new(&temporary);
        let file = File::create(&temporary).map_err(|error| {
            Failed(format!("cannot write '{}' ({error}); give a path in a folder you can write", target.display()))
        })?;
        Ok(Self { target: target.to_owned(), temporary, _removed_by_signals: removed, out: Some(BufWriter::new(file)) })
    }

    /// Where to write.
    pub(crate) fn out(&mut self) -> &mut BufWriter<File> {
        self.out.as_mut().expect("only keep() takes it, and takes the draft with it")
    }

    /// Gives the file its name, replacing what had it before.
    pub(crate) fn keep(mut self) -> Result<()> {
        let what = || format!("cannot write '{}'", self.target.display());
        if let Some(mut out) = self.out.take() {
            out.flush().with_context(what)?;
        }
        fs::rename(&self.temporary, &self.target).with_context(what)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After keep() there is nothing under this name.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// The text of a file, or a sentence; `what` says what it should have been.
pub(crate) fn read(path: &Path, what: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|error| {
        anyhow::anyhow!("{}: cannot read this file ({error}); give the path of {what}", path.display())
    })
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let what = || format!("cannot write '{}'", path.display());
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).with_context(what)?;
    file.write_all(text.as_bytes()).with_context(what)?;
    file.sync_all().with_context(what)
}

/// A new file that only its owner may read, made before there is anything to put into it: what goes in cannot be had a second time. Dropped
/// before [`SecretFile::keep`], it is removed.
#[derive(Debug)]
pub(crate) struct SecretFile {
    path: PathBuf,
    file: Option<File>,
}

impl SecretFile {
    /// Makes the file; one that is there already is not touched.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
            Failed(match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    format!("'{}' already exists; give another path, or remove it first", path.display())
                }
                _ => format!("cannot write '{}' ({error}); give a path in a folder you can write", path.display()),
            })
        })?;
        Ok(Self { path: path.to_owned(), file: Some(file) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the text to disk and keeps the file.
    pub(crate) fn keep(mut self, text: &str) -> Result<()> {
        if let Some(mut file) = self.file.take() {
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            if written.is_err() {
                self.file = Some(file);
            }
            written.with_context(|| format!("cannot write '{}'", self.path.display()))?;
        }
        Ok(())
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
