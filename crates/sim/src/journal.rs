//! The journal of a run: every input in order, with a digest of what the scheduler answered.
//!
//! One JSON object to a line. The first names the version, the policy, the cluster, the tenants and the settings: all that
//! a scheduler is made from. Each further line is a moment, an input and the digest of the outputs, so that
//! [`replay`] proves that the same inputs give the same decisions.

use arles_core::allocate::find_policy;
use arles_core::scheduler::{Event, Order, Settings};
use arles_core::{Cluster, Fingerprint, Input, Output, Scheduler, Tenant, Time};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// The format this code writes and reads.
const VERSION: u32 = 1;

/// What a scheduler is made from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Head {
    /// Version of the format.
    pub arles_journal: u32,
    /// Name of the policy.
    pub policy: String,
    /// Nodes, GPUs and their kinds.
    pub cluster: Cluster,
    /// Tenants with their weights.
    pub tenants: Vec<Tenant>,
    /// Patience and pace.
    pub settings: Settings,
}

#[derive(Serialize)]
struct LineOut<'a> {
    t: Time,
    i: &'a Input,
    d: u64,
}

#[derive(Deserialize)]
struct LineIn {
    t: Time,
    i: Input,
    d: u64,
}

/// Writes a journal.
pub struct Journal<W: Write> {
    out: W,
}

impl<W: Write> Journal<W> {
    /// Begins a journal.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(
        mut out: W,
        policy: &str,
        cluster: &Cluster,
        tenants: &[Tenant],
        settings: Settings,
    ) -> io::Result<Self> {
        let head = Head {
            arles_journal: VERSION,
            policy: policy.to_owned(),
            cluster: cluster.clone(),
            tenants: tenants.to_vec(),
            settings,
        };
        serde_json::to_writer(&mut out, &head)?;
        out.write_all(b"\n")?;
        Ok(Self { out })
    }

    /// Adds an input and what followed from it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(&mut self, now: Time, input: &Input, outputs: &[Output]) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, &LineOut { t: now, i: input, d: digest(outputs) })?;
        self.out.write_all(b"\n")
    }

    /// Makes sure that everything is written.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A short fingerprint of outputs, as JSON.
#[must_use]
pub fn digest(outputs: &[Output]) -> u64 {
    let mut print = Fingerprint::default();
    serde_json::to_writer(&mut print, outputs).expect("outputs are plain data");
    print.value()
}

/// Why a journal could not be replayed.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ReplayError {
    line: usize,
    what: String,
}

/// What a replay found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Replay {
    /// Policy of the journal.
    pub policy: String,
    /// Inputs read.
    pub inputs: u64,
    /// Scheduling rounds.
    pub rounds: u64,
    /// Start orders.
    pub starts: u64,
    /// Stop orders.
    pub stops: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Line of the first input whose outputs differ from the recorded ones.
    pub first_difference: Option<usize>,
}

/// Feeds a journal to a fresh scheduler and compares every answer; `watch` sees each of them. Ends before the first
/// input later than `until`, if that is given, and returns the scheduler as it then stands.
///
/// # Errors
/// A sentence when a line cannot be read.
pub fn replay(
    input: impl BufRead,
    until: Option<Time>,
    mut watch: impl FnMut(Time, &Input, &[Output]),
) -> Result<(Replay, Scheduler), ReplayError> {
    let fail = |line: usize, what: String| ReplayError { line, what };
    let mut lines = input.lines().enumerate().map(|(i, text)| (i + 1, text));
    let Some((_, first)) = lines.next() else {
        return Err(fail(1, "the journal is empty; a journal begins with a line that names policy and cluster".into()));
    };
    let first = first.map_err(|e| fail(1, e.to_string()))?;
    let head: Head = serde_json::from_str(&first).map_err(|e| {
        fail(1, format!("this is not the head of a journal ({e}); write one with 'arles simulate --journal FILE'"))
    })?;
    if head.arles_journal != VERSION {
        return Err(fail(
            1,
            format!("the journal has version {}, this arles reads version {VERSION}", head.arles_journal),
        ));
    }
    let policy = find_policy(&head.policy)
        .ok_or_else(|| fail(1, format!("policy '{}' is not known to this arles; see 'arles policies'", head.policy)))?;
    let mut scheduler = Scheduler::new(head.cluster, head.tenants, policy, head.settings);
    let mut found = Replay { policy: head.policy, ..Replay::default() };
    for (number, text) in lines {
        let text = text.map_err(|e| fail(number, e.to_string()))?;
        let line: LineIn = serde_json::from_str(&text).map_err(|e| {
            // The parser saw one line, so the line that it names is not the file's.
            let said = e.to_string();
            let what = said.split(" at line ").next().unwrap_or(&said);
            fail(
                number,
                format!(
                    "column {}: this is not an input ({what}); expected a line such as {{\"t\":…,\"i\":…}} of a journal that \
                     'arles simulate --journal FILE' wrote",
                    e.column()
                ),
            )
        })?;
        if until.is_some_and(|until| line.t > until) {
            break;
        }
        found.inputs += 1;
        found.rounds += u64::from(line.i == Input::Tick);
        let outputs = scheduler.step(line.t, &line.i);
        for output in &outputs {
            match output {
                Output::Order(Order::Start(_)) => found.starts += 1,
                Output::Order(Order::Stop { .. }) => found.stops += 1,
                Output::Note(Event::Completed { .. }) => found.completed += 1,
                _ => {}
            }
        }
        if digest(&outputs) != line.d && found.first_difference.is_none() {
            found.first_difference = Some(number);
        }
        watch(line.t, &line.i, &outputs);
    }
    Ok((found, scheduler))
}
