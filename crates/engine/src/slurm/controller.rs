//! The way to slurmctld.
//!
//! What is there is read through slurmrestd where it is configured and answers, and through `squeue --json` and `sinfo --json` where not: the same
//! records, a little slower. slurmrestd also says "nothing has changed" for almost nothing, so a look costs the controller
//! next to nothing while nothing happens. What arles wants is done with `scontrol`: REST can neither requeue a job nor write an admin comment (22.05), and
//! a command either was done or says why not. Every call is for any number of jobs or one that changes, never one for every job in the queue.

use super::record::{JobRecord, NodeRecord};
use super::rest::{Answer, Rest};
use arles_core::engine::EngineError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that a command may take. Slurm's own give up after a few seconds when the controller does not answer.
const COMMAND_SECONDS: u64 = 60;

/// What has been asked of Slurm so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Looks at the queue or the nodes.
    pub looks: u64,
    /// Looks that were answered with "nothing has changed".
    pub unchanged: u64,
    /// Commands that change something.
    pub commands: u64,
}

pub(crate) struct Controller {
    rest: Option<Rest>,
    /// Where Slurm's commands read their configuration, if not in the usual place.
    conf: Option<PathBuf>,
    /// When slurmrestd may be asked again, after it did not answer.
    rest_after: Option<Instant>,
    pub(crate) calls: Calls,
    /// How long the last look at the queue took.
    pub(crate) look_took: Duration,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobList {
    jobs: Vec<JobRecord>,
    errors: Vec<serde_json::Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeList {
    nodes: Vec<NodeRecord>,
    errors: Vec<serde_json::Value>,
}

/// Why a command was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CommandError {
    /// The controller could not be talked to; it may have been done.
    Unreachable(String),
    /// Slurm does not want to.
    Refused(String),
}

impl From<CommandError> for EngineError {
    fn from(error: CommandError) -> Self {
        let (CommandError::Unreachable(text) | CommandError::Refused(text)) = error;
        Self(text)
    }
}

impl Controller {
    pub(crate) fn new(rest: Option<Rest>, conf: Option<PathBuf>) -> Self {
        Self { rest, conf, rest_after: None, calls: Calls::default(), look_took: Duration::ZERO }
    }

    /// All jobs; nothing if none has changed since a moment in Unix seconds.
    pub(crate) fn jobs(&mut self, changed_since: Option<u64>) -> Result<Option<Vec<JobRecord>>, EngineError> {
        let began = Instant::now();
        let query = changed_since.map_or(String::new(), |since| format!("?update_time={since}"));
        let list = self.look::<JobList>(&format!("jobs{query}"), &["squeue", "--json", "--all"])?;
        self.look_took = began.elapsed();
        let Some(JobList { jobs, errors }) = list else { return Ok(None) };
        check(&errors)?;
        Ok(Some(jobs))
    }

    /// Nodes with their states: the whole list, since Slurm says "nothing has changed" of jobs only.
    pub(crate) fn nodes(&mut self) -> Result<Vec<NodeRecord>, EngineError> {
        let list = self.look::<NodeList>("nodes", &["sinfo", "--json"])?.unwrap_or_default();
        check(&list.errors)?;
        Ok(list.nodes)
    }

    fn look<T: for<'de> Deserialize<'de>>(&mut self, path: &str, command: &[&str]) -> Result<Option<T>, EngineError> {
        self.calls.looks += 1;
        let may_ask = self.rest_after.is_none_or(|after| Instant::now() >= after);
        let text = match self.rest.as_mut().filter(|_| may_ask).map(|rest| rest.get(path)) {
            Some(Ok(Answer::Unchanged)) => {
                self.calls.unchanged += 1;
                return Ok(None);
            }
            Some(Ok(Answer::Text(text))) => text,
            // The commands say the same, so nothing is lost but a little time.
            Some(Err(_)) => {
                self.rest_after = Some(Instant::now() + Duration::from_secs(10));
                self.run(command)?
            }
            None => self.run(command)?,
        };
        let cannot = |error| EngineError(format!("Slurm's answer to '{}' cannot be read: {error}", command.join(" ")));
        serde_json::from_slice(&text).map(Some).map_err(cannot)
    }

    /// Changes what a waiting job asks for.
    pub(crate) fn update(&mut self, job: &str, changes: &[String]) -> Result<(), CommandError> {
        let target = format!("jobid={job}");
        let mut words = vec!["scontrol", "update", &target];
        words.extend(changes.iter().map(String::as_str));
        self.command(&words).map(|_| ())
    }

    pub(crate) fn release(&mut self, job: &str) -> Result<(), CommandError> {
        self.command(&["scontrol", "release", job]).map(|_| ())
    }

    /// Holds jobs as the operator: their users cannot release them.
    pub(crate) fn hold(&mut self, jobs: &str) -> Result<(), CommandError> {
        self.command(&["scontrol", "hold", jobs]).map(|_| ())
    }

    /// SIGTERM, SIGKILL after Slurm's KillWait, then back into the queue, held.
    pub(crate) fn requeue_held(&mut self, job: &str) -> Result<(), CommandError> {
        self.command(&["scontrol", "requeuehold", job]).map(|_| ())
    }

    pub(crate) fn cancel(&mut self, job: &str) -> Result<(), CommandError> {
        self.command(&["scancel", job]).map(|_| ())
    }

    /// Submits a script held; the new job's number.
    pub(crate) fn submit(&mut self, options: &[String], script: &str) -> Result<String, CommandError> {
        self.calls.commands += 1;
        let mut words = vec!["sbatch", "--parsable", "--hold"];
        words.extend(options.iter().map(String::as_str));
        let text = execute(self.conf.as_deref(), &words, Some(script))?;
        let text = String::from_utf8_lossy(&text);
        let number = text.trim().split(';').next().unwrap_or("").to_owned();
        match number.parse::<u64>() {
            Ok(_) => Ok(number),
            Err(_) => Err(CommandError::Refused(format!("sbatch answered '{}' instead of a number", text.trim()))),
        }
    }

    fn command(&mut self, words: &[&str]) -> Result<Vec<u8>, CommandError> {
        self.calls.commands += 1;
        execute(self.conf.as_deref(), words, None)
    }

    /// Runs a command for what it prints.
    pub(crate) fn run(&self, words: &[&str]) -> Result<Vec<u8>, EngineError> {
        execute(self.conf.as_deref(), words, None).map_err(Into::into)
    }
}

fn check(errors: &[serde_json::Value]) -> Result<(), EngineError> {
    let Some(first) = errors.first() else { return Ok(()) };
    let text = |key: &str| first.get(key).and_then(serde_json::Value::as_str).unwrap_or("").to_owned();
    Err(EngineError(format!("Slurm answers with an error: {} {}", text("error"), text("description"))))
}

fn execute(conf: Option<&Path>, words: &[&str], input: Option<&str>) -> Result<Vec<u8>, CommandError> {
    let (program, arguments) = words.split_first().expect("a command has a first word");
    let unreachable = |error: std::io::Error| CommandError::Unreachable(format!("'{program}' cannot be run: {error}"));
    let mut command = Command::new("timeout");
    command.arg(COMMAND_SECONDS.to_string()).arg(program).args(arguments);
    command.envs(conf.map(|path| ("SLURM_CONF", path)));
    if *program == "sacctmgr" {
        // slurmdbd takes tokens only if it is told to; the controller and slurmrestd are asked with one where there is one.
        command.env_remove("SLURM_JWT");
    }
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(unreachable)?;
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), input) {
        // A command that ends without reading says why on its own.
        let _ = std::io::Write::write_all(&mut pipe, text.as_bytes());
    }
    let output = child.wait_with_output().map_err(unreachable)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing").trim().to_owned();
    let text = format!("'{}' failed: {said}", words[..words.len().min(3)].join(" "));
    let away = [
        "Unable to contact",
        "Connection refused",
        "Socket timed out",
        "Communication connection failure",
        "Zero Bytes",
    ];
    // 124: it took too long. 127: it is not there at all.
    let unreached = matches!(output.status.code(), Some(124 | 127)) || away.iter().any(|sign| said.contains(sign));
    Err(if unreached { CommandError::Unreachable(text) } else { CommandError::Refused(text) })
}
