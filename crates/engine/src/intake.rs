//! What users of another system's queue want of arles: jobs that came, jobs that went, holds, and nodes that their operator drained.
//!
//! An engine has no say in which jobs there are. It writes down here what it saw at its last look, all of it, and whoever takes
//! requests compares that with what it knows. So nothing is lost when one of the two is restarted, and hearing something twice changes nothing.

use arles_core::JobId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A job that waits in another system's queue to be taken by arles.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrival {
    /// The name by which the engine finds the job again; no other job ever has it.
    pub external: String,
    /// The name by which its user knows it, such as `6_1` in Slurm or `team/train` in Kubernetes.
    pub shown: String,
    /// What it is submitted with, such as `sbatch`.
    pub command: &'static str,
    /// The job's own name.
    pub name: String,
    /// Whose it is: an account, a user, a namespace.
    pub tenant: String,
    /// GPUs in all.
    pub gang: u32,
    /// The types of GPU that it insists on; none for any.
    pub kinds: Vec<String>,
    /// CPUs for each of its GPUs.
    pub cpus_per_gpu: f64,
    /// Host memory for each of its GPUs.
    pub memory_gib_per_gpu: f64,
    /// What it says of itself.
    pub wishes: Wishes,
}

/// What a job says of itself, as keys and values.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Wishes {
    /// What runs; the job's name, if it says nothing.
    pub workload: Option<String>,
    /// Training steps to run.
    pub steps: Option<f64>,
    /// Promised rate in steps per second.
    pub floor: Option<f64>,
    /// Importance among the tenant's jobs.
    pub weight: Option<f64>,
    /// Seconds lost at every start after the first.
    pub restart_seconds: Option<f64>,
    /// Kinds that it may run on.
    pub kinds: Vec<String>,
    /// Whether it must wait until it is released in arles.
    pub held: bool,
    /// What could not be understood: for the user.
    pub wrong: Vec<String>,
}

impl Wishes {
    /// Keys that users may write.
    pub(crate) const KEYS: &str = "workload, steps, floor, weight, restart, kinds, gang and held";

    /// Takes a key that users may write; `false` for one that is none.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> bool {
        let number = |wrong: &mut Vec<String>| {
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
            if number.is_none() {
                wrong.push(format!("{key}={value} is not a number"));
            }
            number
        };
        match key {
            "workload" => self.workload = Some(value.to_owned()),
            "steps" => self.steps = number(&mut self.wrong),
            "floor" => self.floor = number(&mut self.wrong),
            "weight" => self.weight = number(&mut self.wrong),
            "restart" => self.restart_seconds = number(&mut self.wrong),
            "kinds" => {
                self.kinds = value.split([',', '+']).filter(|kind| !kind.is_empty()).map(str::to_owned).collect();
            }
            "held" => self.held = value != "false",
            _ => return false,
        }
        true
    }
}

/// What the other system owes and allows one of its users.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Entitlement {
    /// Its weight among the others.
    pub weight: f64,
    /// GPUs that it may have at once; none for as many as there are.
    pub gpus: Option<u32>,
}

/// What was seen at the last look.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    /// How many looks there have been: nothing below means anything before the first.
    pub looks: u64,
    /// Jobs that wait to be taken.
    pub arrivals: Vec<Arrival>,
    /// Jobs of arles' that are over in the other system, or no longer arles', and why.
    pub over: BTreeMap<JobId, String>,
    /// Jobs of arles' that their user or an operator holds there.
    pub held: Vec<JobId>,
    /// Jobs that were not started where they were ordered, and why.
    pub put_off: BTreeMap<JobId, String>,
    /// Nodes that the other system starts nothing on, and why: `SYSTEM says: ...`.
    pub drained: BTreeMap<String, String>,
    /// What tenants are owed there, where the other system says so.
    pub entitlements: BTreeMap<String, Entitlement>,
}

/// Shared between an engine and whoever takes requests. Cheap to clone.
#[derive(Clone)]
pub struct Intake {
    system: &'static str,
    board: Arc<Mutex<(Seen, BTreeMap<String, String>)>>,
}

impl Intake {
    pub(crate) fn new(system: &'static str) -> Self {
        Self { system, board: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, (Seen, BTreeMap<String, String>)> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose queue it is, such as `Slurm`.
    #[must_use]
    pub fn system(&self) -> &'static str {
        self.system
    }

    /// What was seen at the last look.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.lock().0.clone()
    }

    /// Says that a job that arrived cannot be taken: its user will read why.
    pub fn refuse(&self, arrival: &Arrival, why: &str) {
        self.lock().1.insert(arrival.external.clone(), why.to_owned());
    }

    pub(crate) fn show(&self, seen: Seen) {
        let mut board = self.lock();
        let looks = board.0.looks + 1;
        board.0 = Seen { looks, ..seen };
    }

    /// Jobs that were refused since the last call, by their external names, and why.
    pub(crate) fn refused(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.lock().1)
    }
}
