//! One gang's program as processes of this machine.
//!
//! A program runs under a shim ([`super::shim`]) that keeps its output, adopts what it forks and writes down how it ended: a daemon that is
//! killed takes no job with it, and the next one adopts what runs by pid *and* start time, never another process that was given the same
//! number. What is in a gang's folder:
//!
//! - `record.json`: what was started, with pid and start time of the shim. Written before anything is told about it;
//! - `task.json`: what the shim is to do, until it has read it;
//! - `exit`: the exit code, once all of it is over;
//! - `steps`: the number of steps that are safe, if the program writes any (`echo 1200 > "$ARLES_STEPS_FILE"`).
//!
//! A record is written before the shim is started as well, without a pid: should this process die in between, the shim is found by the
//! variable that it was started with.

use super::cgroup;
use super::shim::{MARK, SHIM_VARIABLE, Task};
use super::tree::{self, Identity};
use arles_core::scheduler::Fence;
use arles_core::{GpuId, JobId, KindId, Program, Spread, Time};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

/// What was started, and where.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) job: JobId,
    pub(super) fence: Fence,
    pub(super) kind: KindId,
    pub(super) gpus: Vec<GpuId>,
    pub(super) spread: Spread,
    pub(super) started: Time,
    /// The shim; `None` until it is known to have been started.
    pub(super) process: Option<Identity>,
    /// The boot of the machine that it was started in.
    #[serde(default)]
    pub(super) boot: String,
    /// Its control group, where it has one.
    #[serde(default)]
    pub(super) cgroup: Option<PathBuf>,
}

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// With this code; 128 + N if signal N ended it.
    Code(i32),
    /// The kernel ended it: it used more memory than it asked for.
    OutOfMemory,
    /// It is gone and left no code: somebody killed all of it.
    Vanished,
    /// Through no fault of its own: the machine was restarted, or the engine ended before it had started it.
    Interrupted,
}

/// A gang's program, running or ended.
pub(super) struct Process {
    folder: PathBuf,
    pub(super) record: Record,
    /// Only of those that this process started: to be waited for, so that no zombie is left.
    child: Option<Child>,
}

impl Process {
    /// Starts a program by the words that run a shim. Nothing runs, and nothing is left on disk, if this fails.
    pub(super) fn start(folder: PathBuf, record: Record, shim: &[String], task: &Task) -> io::Result<Self> {
        let mut started = Self { folder, record, child: None };
        match started.launch(shim, task) {
            Ok(()) => Ok(started),
            Err(error) => {
                started.kill();
                if let Some(mut child) = started.child.take() {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                started.forget();
                Err(error)
            }
        }
    }

    fn launch(&mut self, shim: &[String], task: &Task) -> io::Result<()> {
        if let Some(directory) = task.directory.as_ref().filter(|directory| !directory.is_dir()) {
            let missing = format!("there is no folder {}", directory.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, missing));
        }
        fs::create_dir_all(&self.folder)?;
        write_record(&self.folder, &self.record)?;
        // It may hold secrets in its environment.
        let path = self.folder.join(Task::FILE);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        serde_json::to_writer(file, task)?;
        let (program, arguments) = shim.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).env(SHIM_VARIABLE, &self.folder);
        // What the service manager told the daemon is not meant for jobs.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INVOCATION_ID", "JOURNAL_STREAM"] {
            command.env_remove(name);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let said = child.stdout.take();
        self.record.process = Identity::of(child.id());
        self.child = Some(child);
        // A plus when the program runs, or why it does not.
        let mut first = [0];
        let mut said = said.ok_or(io::ErrorKind::BrokenPipe)?;
        if said.read(&mut first)? == 0 || first[0] != b'+' {
            let mut why = String::from_utf8_lossy(&first).trim_end_matches('\0').to_owned();
            said.read_to_string(&mut why)?;
            let why = if why.trim().is_empty() { "the shim ended at once" } else { why.trim() };
            return Err(io::Error::other(why.to_owned()));
        }
        write_record(&self.folder, &self.record)
    }

    /// Notes that it runs as another kind from now on: in another mode of its own.
    pub(super) fn runs_as(&mut self, kind: KindId) -> io::Result<()> {
        let record = Record { kind, ..self.record.clone() };
        write_record(&self.folder, &record)?;
        self.record = record;
        Ok(())
    }

    /// What an earlier life of this engine started, by its folder.
    pub(super) fn adopt(folder: PathBuf) -> Option<Self> {
        let text = fs::read_to_string(folder.join("record.json")).ok()?;
        let mut record: Record = serde_json::from_str(&text).ok()?;
        if record.boot != tree::boot() {
            record.process = None;
        } else if record.process.is_none() {
            let shims = tree::with_variable(SHIM_VARIABLE, &folder.to_string_lossy());
            record.process = shims.first().copied();
        }
        Some(Self { folder, record, child: None })
    }

    /// How it ended, if all of it has.
    pub(super) fn end(&mut self) -> Option<End> {
        if let Some(child) = &mut self.child {
            let _ = child.try_wait();
        }
        if self.record.process.is_some_and(Identity::alive) {
            return None;
        }
        let code = fs::read_to_string(self.folder.join("exit")).ok().and_then(|text| text.trim().parse().ok());
        let short = self.record.cgroup.as_deref().is_some_and(cgroup::out_of_memory);
        match code {
            Some(137) if short => return Some(End::OutOfMemory),
            Some(code) => return Some(End::Code(code)),
            None if self.record.process.is_none() => return Some(End::Interrupted),
            None => {}
        }
        // Somebody killed the shim: nobody has looked after the rest.
        if self.end_leftovers() {
            return None;
        }
        Some(if short { End::OutOfMemory } else { End::Vanished })
    }

    /// Kills what runs without its shim; whether there was anything.
    fn end_leftovers(&self) -> bool {
        if let Some(group) = self.record.cgroup.as_deref().filter(|group| cgroup::populated(group)) {
            cgroup::kill(group);
            return true;
        }
        let left = tree::with_variable(MARK, &self.folder.to_string_lossy());
        left.iter().for_each(|process| process.signal(Signal::KILL));
        !left.is_empty()
    }

    /// Asks everything that it started to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends everything that it started, at once. The shim sees to whatever was forked meanwhile.
    pub(super) fn kill(&self) {
        match &self.record.cgroup {
            Some(group) if self.record.process.is_some_and(Identity::alive) => cgroup::kill(group),
            _ => self.signal(Signal::KILL),
        }
    }

    fn signal(&self, signal: Signal) {
        let Some(shim) = self.record.process.filter(|process| process.alive()) else { return };
        tree::descendants(shim.pid).iter().for_each(|process| process.signal(signal));
    }

    /// Steps that the program says are safe, and when it said so.
    pub(super) fn steps(&self) -> Option<(f64, SystemTime)> {
        let path = self.folder.join("steps");
        let steps: f64 = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
        let at = fs::metadata(&path).and_then(|meta| meta.modified()).ok()?;
        (steps.is_finite() && steps >= 0.0).then_some((steps, at))
    }

    /// Removes what is on disk of it.
    pub(super) fn forget(&self) {
        if let Some(group) = &self.record.cgroup {
            cgroup::remove(group);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The file in a gang's folder that the program writes its steps to.
pub(super) fn steps_file(folder: &Path) -> PathBuf {
    folder.join("steps")
}

/// The program's words: its command, or its script from a file of its own with its arguments.
pub(super) fn words(folder: &Path, program: &Program) -> io::Result<Vec<String>> {
    let Some(script) = &program.script else {
        return match program.command.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::InvalidInput, "the program has neither a command nor a script")),
            false => Ok(program.command.clone()),
        };
    };
    fs::create_dir_all(folder)?;
    let path = folder.join("script");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(&path)?;
    file.write_all(script.text.as_bytes())?;
    drop(file);
    let mut words = vec![path.to_string_lossy().into_owned()];
    if !script.text.starts_with("#!") {
        words.insert(0, "/bin/sh".into());
    }
    words.extend(program.command.iter().cloned());
    Ok(words)
}

/// Whole or not at all: a record that is half written would be a job that nobody knows.
fn write_record(folder: &Path, record: &Record) -> io::Result<()> {
    let new = folder.join("record.new");
    let mut file = File::create(&new)?;
    serde_json::to_writer(&mut file, record)?;
    file.sync_all()?;
    fs::rename(new, folder.join("record.json"))
}
