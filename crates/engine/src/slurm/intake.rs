//! What Slurm's users want of arles: jobs that came, jobs that went, holds, and nodes that their operator drained.
//!
//! An engine has no say in which jobs there are. It writes down here what it saw at its last look, all of it, and whoever takes
//! requests compares that with what it knows. So nothing is lost when one of the two is restarted, and hearing something twice changes nothing.

use super::mark::Wishes;
use super::record::JobRecord;
use arles_core::JobId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A job that waits in Slurm's queue to be taken by arles.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrival {
    /// Its number in Slurm, or array and task as `6_1`.
    pub slurm: String,
    /// When it was submitted, in Unix seconds: a number alone may come to mean another job.
    pub submitted: u64,
    /// The job's name.
    pub name: String,
    /// Its account: the tenant. Its user's name, where Slurm has no accounts.
    pub account: String,
    /// GPUs in all.
    pub gang: u32,
    /// The type of GPU that it insists on.
    pub kind: Option<String>,
    /// CPUs for each of its GPUs.
    pub cpus_per_gpu: f64,
    /// Host memory for each of its GPUs.
    pub memory_gib_per_gpu: f64,
    /// What it says of itself.
    pub wishes: Wishes,
}

impl Arrival {
    /// The name by which the engine finds the job again.
    #[must_use]
    pub fn external(&self) -> String {
        format!("slurm:{}@{}", self.slurm, self.submitted)
    }

    pub(super) fn new(slurm: String, record: &JobRecord) -> Option<Self> {
        let wish = record.wanted()?;
        let gang = wish.per_node.checked_mul(wish.nodes).filter(|gang| *gang > 0)?;
        let mib = record.memory_per_node.map(|mib| mib * f64::from(wish.nodes));
        let mib = mib.or_else(|| record.memory_per_cpu.map(|mib| mib * record.cpus as f64)).unwrap_or(0.0);
        let account = if record.account.is_empty() { &record.user_name } else { &record.account };
        Some(Self {
            slurm,
            submitted: record.submit_time,
            name: record.name.clone(),
            account: account.clone(),
            gang,
            kind: wish.kind,
            cpus_per_gpu: record.cpus as f64 / f64::from(gang),
            memory_gib_per_gpu: mib / 1024.0 / f64::from(gang),
            wishes: Wishes::read(&record.comment, &record.admin_comment),
        })
    }
}

/// The number in Slurm and the time of submission in a name made by [`Arrival::external`].
pub(super) fn parse_external(name: &str) -> Option<(&str, u64)> {
    let (slurm, submitted) = name.strip_prefix("slurm:")?.split_once('@')?;
    Some((slurm, submitted.parse().ok()?))
}

/// What was seen at the last look.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    /// How many looks there have been: nothing below means anything before the first.
    pub looks: u64,
    /// Jobs that wait to be taken.
    pub arrivals: Vec<Arrival>,
    /// Jobs of arles' that are over in Slurm, or no longer arles', and why.
    pub over: BTreeMap<JobId, String>,
    /// Jobs of arles' that their user or an operator holds in Slurm.
    pub held: Vec<JobId>,
    /// Jobs that were not started where they were ordered, and why.
    pub put_off: BTreeMap<JobId, String>,
    /// Nodes that Slurm starts nothing on, and why.
    pub drained: BTreeMap<String, String>,
}

/// Shared between an engine and whoever takes requests. Cheap to clone.
#[derive(Clone, Default)]
pub struct Intake {
    board: Arc<Mutex<(Seen, BTreeMap<String, String>)>>,
}

impl Intake {
    fn lock(&self) -> MutexGuard<'_, (Seen, BTreeMap<String, String>)> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen at the last look.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.lock().0.clone()
    }

    /// Says that a job that arrived cannot be taken: its user will read why.
    pub fn refuse(&self, slurm: &str, why: &str) {
        self.lock().1.insert(slurm.to_owned(), why.to_owned());
    }

    pub(super) fn show(&self, seen: Seen) {
        let mut board = self.lock();
        let looks = board.0.looks + 1;
        board.0 = Seen { looks, ..seen };
    }

    pub(super) fn refused(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.lock().1)
    }
}
