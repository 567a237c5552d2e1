//! The shim: the small process between the daemon and a gang's program. It outlives the daemon, so that a program does.
//!
//! It leads a session of its own and adopts whatever the program leaves behind (it is their *subreaper*), so that a process that forks away is
//! still one of the gang's. It keeps the output, within its limits. When the program ends, what it left running is ended too, and only then
//! the exit code is written: a gang that is said to be over holds no GPU any more.
//!
//! Engines start it by running [`LocalOptions::shim`](super::LocalOptions) with the gang's folder in `ARLES_SHIM`; [`shim`] is all that it does.

use super::output::{OutputLimits, Stream, Writer};
use super::tree;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, setsid, wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The variable that tells the shim which folder is its gang's.
pub const SHIM_VARIABLE: &str = "ARLES_SHIM";
/// The variable that marks a gang's processes, with its folder.
pub(super) const MARK: &str = "ARLES_GANG";
/// How long what a program left running may take to end before it is killed.
const LEFTOVERS: Duration = Duration::from_secs(2);
/// How long output is waited for once nothing of the gang runs: somebody outside may hold the other end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Room for an exit code.
const BLANK: &[u8; 8] = b"       \n";

/// What the shim is to do, as the engine writes it into the gang's folder.
#[derive(Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) words: Vec<String>,
    pub(super) directory: Option<PathBuf>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) stdout: Stream,
    pub(super) stderr: Option<Stream>,
    pub(super) limits: OutputLimits,
    /// The control group to enter.
    pub(super) cgroup: Option<PathBuf>,
}

impl Task {
    pub(super) const FILE: &str = "task.json";
}

/// Runs the program of the gang whose folder this is until all of it is over. Returns the shim's own exit code.
#[must_use]
pub fn shim(folder: &Path) -> i32 {
    match run(folder) {
        Ok(()) => 0,
        // The engine reads it as the reason why nothing was started.
        Err(error) => {
            let _ = writeln!(io::stdout(), "{error}");
            1
        }
    }
}

fn run(folder: &Path) -> io::Result<()> {
    let task: Task = serde_json::from_slice(&fs::read(folder.join(Task::FILE))?)?;
    // Its environment may hold secrets.
    let _ = fs::remove_file(folder.join(Task::FILE));
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    if let Some(group) = &task.cgroup {
        fs::write(group.join("cgroup.procs"), std::process::id().to_string())?;
    }
    // The room for the exit code is taken now: a disk that is full later loses none.
    let ending = folder.join("exit.new");
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&ending)?;
    file.write_all_at(BLANK, 0)?;
    file.sync_all()?;
    let out = Writer::open(task.stdout.clone(), task.limits)?;
    let err = task.stderr.clone().map(|stream| Writer::open(stream, task.limits)).transpose()?;
    let code = match start(folder, &task, out, err) {
        Ok(started) => {
            // From here on the gang runs, whether or not anybody still listens.
            let _ = io::stdout().write_all(b"+");
            let _ = io::stdout().flush();
            let code = wait_for(started.pid);
            end_leftovers();
            let deadline = Instant::now() + LAST_WORDS;
            while started.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            code
        }
        Err(error) => {
            let _ = io::stdout().write_all(b"+");
            not_started(&error)
        }
    };
    file.write_all_at(format!("{code:<7}").as_bytes(), 0)?;
    file.sync_all()?;
    fs::rename(ending, folder.join("exit"))
}

/// As a shell says it: 127 for what is not there, 126 for what cannot be run.
fn not_started(error: &io::Error) -> i32 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

struct Started {
    pid: Pid,
    readers: Vec<std::thread::JoinHandle<()>>,
}

fn start(folder: &Path, task: &Task, mut out: Writer, mut err: Option<Writer>) -> io::Result<Started> {
    let Some((program, arguments)) = task.words.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the program has neither a command nor a script"));
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(&task.environment).env_remove(SHIM_VARIABLE).env(MARK, folder);
    if let Some(directory) = &task.directory {
        command.current_dir(directory);
    }
    command.stdin(Stdio::null());
    // One pipe for both where both go to one file, so that lines keep their order.
    let (reader, writer) = io::pipe()?;
    let err_pipe = match &err {
        Some(_) => Some(io::pipe()?),
        None => None,
    };
    command.stdout(writer.try_clone()?);
    match &err_pipe {
        Some((_, writer)) => command.stderr(writer.try_clone()?),
        None => command.stderr(writer.try_clone()?),
    };
    drop(writer);
    let spawned = command.spawn();
    // The command holds ends of the pipes: whoever reads would wait for ever.
    drop(command);
    let child = match spawned {
        Ok(child) => child,
        Err(error) => {
            err.as_mut().unwrap_or(&mut out).keep(format!("arles: {program}: {error}\n").as_bytes());
            return Err(error);
        }
    };
    let mut readers = vec![std::thread::spawn(move || out.drain(reader))];
    if let (Some(err), Some((reader, _))) = (err, err_pipe) {
        readers.push(std::thread::spawn(move || err.drain(reader)));
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Started { pid, readers })
}

/// Waits until the program has ended; whatever else of the gang ends meanwhile is buried.
fn wait_for(program: Pid) -> i32 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => return code_of(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return 126,
        }
    }
}

/// 128 + N if signal N ended it.
fn code_of(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(126)
}

/// Ends what the program left running: first kindly, then not.
fn end_leftovers() {
    let (mut told, began) = (false, Instant::now());
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => continue,
            // Nobody is left.
            Err(_) => return,
            Ok(None) => {}
        }
        let late = began.elapsed() > LEFTOVERS;
        if late || !told {
            let signal = if late { Signal::KILL } else { Signal::TERM };
            tree::descendants(std::process::id()).iter().for_each(|process| process.signal(signal));
            told = true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
