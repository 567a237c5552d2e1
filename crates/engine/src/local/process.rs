//! One gang's program as processes of this machine.
//!
//! A program runs in a process group of its own, under a shell that writes its exit code into the gang's folder (`wrapper.sh`): a daemon
//! that is killed takes no job with it, and the next one adopts what runs by pid *and* start time, never another process that was given the
//! same number. What is in a gang's folder:
//!
//! - `record.json`: what was started, with pid and start time. Written before anything is told about it;
//! - `exit`: the exit code, once it ended by itself;
//! - `steps`: the number of steps that are safe, if the program writes any (`echo 1200 > "$ARLES_STEPS_FILE"`).
//!
//! A record is written before the program is started as well, without a pid: should this process die in between, the program is found by the
//! mark in its environment.

use arles_core::scheduler::Fence;
use arles_core::{GpuId, JobId, KindId, Program, Spread, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

const WRAPPER: &str = include_str!("wrapper.sh");

/// What was started, and where.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) job: JobId,
    pub(super) fence: Fence,
    pub(super) kind: KindId,
    pub(super) gpus: Vec<GpuId>,
    pub(super) spread: Spread,
    pub(super) started: Time,
    /// `None` until it is known to have been started.
    pub(super) process: Option<Identity>,
}

/// A process that cannot be mistaken for another: numbers are used again, but not within one tick of the kernel's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// Ticks since the machine was booted.
    pub(super) start_ticks: u64,
}

impl Identity {
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, start_ticks: stat(pid)?.1 })
    }

    /// Whether this very process is there and has not ended.
    pub(super) fn alive(self) -> bool {
        stat(self.pid).is_some_and(|(state, ticks)| ticks == self.start_ticks && !matches!(state, 'Z' | 'X'))
    }
}

/// State and start time of a process: what follows its name, which may contain anything, in `/proc/PID/stat`.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// With this code; 128 + N if signal N ended it.
    Code(i32),
    /// It is gone and left no code: the machine was restarted, or somebody killed all of it.
    Vanished,
}

/// A gang's program, running or ended.
pub(super) struct Process {
    folder: PathBuf,
    pub(super) record: Record,
    /// Only of those that this process started: to be waited for, so that no zombie is left.
    child: Option<Child>,
}

/// Where the program's output goes and what it is told.
pub(super) struct Launch<'a> {
    pub(super) program: &'a Program,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) stdout: PathBuf,
    pub(super) stderr: Option<PathBuf>,
}

impl Process {
    /// Starts a program. Nothing runs if this fails.
    pub(super) fn start(folder: PathBuf, record: Record, launch: &Launch<'_>) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        write_record(&folder, &record)?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(WRAPPER).arg("arles").arg(folder.join("exit"));
        command.args(arguments(&folder, launch.program)?);
        // What the service manager told the daemon is not meant for jobs.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INVOCATION_ID", "JOURNAL_STREAM"] {
            command.env_remove(name);
        }
        command.envs(&launch.program.environment).envs(&launch.environment);
        command.env("ARLES_STEPS_FILE", folder.join("steps")).env(MARK, mark(&folder));
        if let Some(directory) = &launch.program.directory {
            command.current_dir(directory);
        }
        let out = log_file(&launch.stdout)?;
        let err = match &launch.stderr {
            Some(path) => log_file(path)?,
            None => out.try_clone()?,
        };
        // A group of its own, so that everything it forks can be signalled with it, and nothing of ours.
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let child = command.spawn()?;
        let process = Identity::of(child.id());
        let started = Self { folder, record: Record { process, ..record }, child: Some(child) };
        if let Err(error) = write_record(&started.folder, &started.record) {
            started.signal("KILL");
            return Err(error);
        }
        Ok(started)
    }

    /// What an earlier life of this engine started, by its folder.
    pub(super) fn adopt(folder: PathBuf) -> Option<Self> {
        let text = fs::read_to_string(folder.join("record.json")).ok()?;
        let mut record: Record = serde_json::from_str(&text).ok()?;
        if record.process.is_none() {
            record.process = marked(&mark(&folder));
        }
        Some(Self { folder, record, child: None })
    }

    /// How it ended, if it has.
    pub(super) fn end(&mut self) -> Option<End> {
        if let Some(child) = &mut self.child {
            let _ = child.try_wait();
        }
        if self.record.process.is_some_and(Identity::alive) {
            return None;
        }
        let code = fs::read_to_string(self.folder.join("exit")).ok().and_then(|text| text.trim().parse().ok());
        Some(code.map_or(End::Vanished, End::Code))
    }

    /// Sends a signal to everything that it started, unless it is over.
    pub(super) fn signal(&self, name: &str) {
        let Some(process) = self.record.process.filter(|process| process.alive()) else { return };
        let group = format!("-{}", process.pid);
        let mut kill = Command::new("kill");
        let _ = kill.args(["-s", name, "--", &group]).stdout(Stdio::null()).stderr(Stdio::null()).status();
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
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The program's words: its command, or its script from a file of its own with its arguments.
fn arguments(folder: &Path, program: &Program) -> io::Result<Vec<String>> {
    let Some(script) = &program.script else {
        return match program.command.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::InvalidInput, "the program has neither a command nor a script")),
            false => Ok(program.command.clone()),
        };
    };
    use std::os::unix::fs::OpenOptionsExt;
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

fn log_file(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().append(true).create(true).open(path)
}

/// Whole or not at all: a record that is half written would be a job that nobody knows.
fn write_record(folder: &Path, record: &Record) -> io::Result<()> {
    let new = folder.join("record.new");
    let mut file = File::create(&new)?;
    serde_json::to_writer(&mut file, record)?;
    file.sync_all()?;
    fs::rename(new, folder.join("record.json"))
}

/// The variable that marks a gang's processes.
const MARK: &str = "ARLES_GANG";

fn mark(folder: &Path) -> String {
    folder.to_string_lossy().into_owned()
}

/// The wrapper with this mark in its environment: the process whose group it leads.
fn marked(mark: &str) -> Option<Identity> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let leads = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let group = text.rfind(')').and_then(|at| text[at + 1..].split_whitespace().nth(2)?.parse::<u32>().ok());
        group == Some(pid)
    };
    let pids = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|&pid| leads(pid) && has_mark(pid)).and_then(Identity::of)
}
