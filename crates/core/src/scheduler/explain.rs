//! Why a job waits: a reason with numbers, until about when, and what would help.

use super::*;
use crate::Work;
use crate::place::turn_seconds;
use serde::Serialize;
use std::fmt;

/// Where a job stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// There is no such live job: it is over, or never was.
    Unknown,
    /// It holds these GPUs.
    Runs {
        /// Name of the kind.
        kind: String,
        /// How many.
        gpus: usize,
        /// On how many nodes.
        nodes: usize,
    },
    /// Its gang is being started.
    Starts,
    /// Its gang is being stopped, to move or to leave.
    Stops,
    /// It waits.
    Waits(Reason),
}

/// Why a job waits.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Nobody has said yet how fast it is.
    NoEstimate,
    /// It fits no kind that it may use.
    FitsNoKind {
        /// Its gang.
        gang: u32,
        /// Names of the kinds it may use.
        kinds: Vec<String>,
    },
    /// No kind has as many GPUs as its gang.
    GangTooLarge {
        /// Its gang.
        gang: u32,
        /// The most GPUs of one kind that fits it.
        most: u32,
        /// That kind.
        kind: String,
    },
    /// Enough GPUs exist, but too few can be used now.
    NodesAway {
        /// Its gang.
        gang: u32,
        /// The most usable GPUs of one kind that fits it.
        usable: u32,
        /// That kind.
        kind: String,
    },
    /// It failed and is given a pause.
    Pauses {
        /// Failures in a row.
        failures: u32,
        /// Failures after which it is given up.
        most: u32,
        /// Time left.
        seconds: f64,
    },
    /// It came, or its place became free, after the last decision.
    NextRound {
        /// Time left.
        seconds: f64,
    },
    /// It is given a place and waits for others to leave it.
    PlaceNotVacated {
        /// Name of the kind.
        kind: String,
        /// GPUs still held by others.
        held: usize,
    },
    /// It takes turns with others.
    Turns {
        /// Gangs of its class that run at once, on average.
        gangs: f64,
        /// Jobs of its class.
        jobs: usize,
        /// Jobs of its class that go first.
        ahead: usize,
        /// About how long until its turn.
        seconds: f64,
    },
    /// All GPUs that fit are given to others.
    Queued {
        /// Waiting jobs that came earlier.
        ahead: usize,
        /// Its gang.
        gang: u32,
        /// GPUs free now of the kinds that fit.
        free: u32,
        /// About how long until enough running jobs have ended, if that can be said.
        seconds: Option<f64>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEstimate => write!(f, "its speed has not been estimated yet; it can start in the round after"),
            Self::FitsNoKind { gang, kinds } => write!(
                f,
                "a gang of {gang} fits none of {}; allow other kinds or use a smaller batch",
                kinds.join(", ")
            ),
            Self::GangTooLarge { gang, most, kind } => {
                write!(
                    f,
                    "a gang of {gang} is more than the {most} GPUs of {kind}, the most there are of a kind that fits; a gang of {most} could run"
                )
            }
            Self::NodesAway { gang, usable, kind } => {
                write!(
                    f,
                    "only {usable} GPUs of {kind} can be reached for its gang of {gang}; it starts when nodes return"
                )
            }
            Self::Pauses { failures, most, seconds } => {
                write!(f, "failed {failures} of {most} times in a row; tried again in {}", span(*seconds))
            }
            Self::NextRound { seconds } => write!(f, "the next decision is in {}", span(*seconds)),
            Self::PlaceNotVacated { kind, held } => {
                write!(f, "its place on {kind} is still held by others ({held} GPUs); it starts when they have stopped")
            }
            Self::Turns { gangs, jobs, ahead, seconds } => write!(
                f,
                "{} like it share {gangs:.2} gangs at a time, {ahead} before it; its turn is in about {}",
                count(*jobs, "job"),
                span(*seconds)
            ),
            Self::Queued { ahead, gang, free, seconds } => {
                let (jobs, gpus) = (count(*ahead, "job"), count(*gang as usize, "GPU"));
                write!(f, "{jobs} came earlier; its gang needs {gpus} and {free} that fit are free")?;
                match seconds {
                    Some(s) => write!(f, "; enough jobs end in about {}", span(*s))?,
                    None => write!(f, "; too few running jobs have a known end to say when")?,
                }
                if *free > 0 && *free < *gang {
                    write!(f, "; a gang of {free} could start now")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(f, "no such job is live: it is over, or never was"),
            Self::Runs { kind, gpus, nodes } => write!(f, "runs on {gpus} × {kind} on {}", count(*nodes, "node")),
            Self::Starts => write!(f, "is being started"),
            Self::Stops => write!(f, "is being stopped"),
            Self::Waits(reason) => write!(f, "waits: {reason}"),
        }
    }
}

/// A number of things: `1 job`, `2 jobs`.
fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A span of time for people.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86400.0),
    }
}

impl Scheduler {
    /// Where a job stands and, if it waits, why.
    #[must_use]
    pub fn explain(&self, job: JobId) -> Verdict {
        let Some(slot) = self.jobs.slot(job) else { return Verdict::Unknown };
        match &self.jobs.get(slot).phase {
            Phase::Running(gang) => {
                let mut nodes: Vec<NodeId> = gang.gpus.iter().map(|&g| self.cluster.node_of(g)).collect();
                nodes.dedup();
                let kind = self.cluster.kind(gang.kind).name.clone();
                Verdict::Runs { kind, gpus: gang.gpus.len(), nodes: nodes.len() }
            }
            Phase::Starting(..) => Verdict::Starts,
            Phase::Stopping(..) => Verdict::Stops,
            Phase::Waiting => Verdict::Waits(self.reason(slot)),
        }
    }

    fn reason(&self, slot: Slot) -> Reason {
        let job = self.jobs.get(slot);
        let class = &self.classes[&job.class];
        let name = |j: usize| self.cluster.kinds()[j].name.clone();
        let fitting: Vec<usize> = (0..class.rates.len()).filter(|&j| class.rates[j] > 0.0).collect();
        let ask = Ask { workload: job.spec.workload, gang: job.spec.gang, partner: None };
        if self.estimates.row(&ask).is_none() {
            return Reason::NoEstimate;
        }
        if fitting.is_empty() {
            let allowed = |j: &usize| job.spec.kinds.is_empty() || job.spec.kinds.contains(&KindId(*j as u16));
            let kinds = (0..class.rates.len()).filter(allowed).map(name).collect();
            return Reason::FitsNoKind { gang: job.spec.gang, kinds };
        }
        let most_of =
            |counts: &[u32]| fitting.iter().map(|&j| (counts[j], j)).max_by_key(|&(n, j)| (n, std::cmp::Reverse(j)));
        let gang = job.spec.gang;
        if let Some((most, j)) = most_of(&self.cluster.counts())
            && most < gang
        {
            return Reason::GangTooLarge { gang, most, kind: name(j) };
        }
        if job.not_before > self.now {
            let seconds = job.not_before.since(self.now);
            return Reason::Pauses { failures: job.failures, most: self.settings.most_failures, seconds };
        }
        let (usable, free) = self.usable_and_free();
        if let Some((usable, j)) = most_of(&usable)
            && usable < gang
        {
            return Reason::NodesAway { gang, usable, kind: name(j) };
        }
        if let Some(target) = &job.target {
            let held = target.gpus.iter().filter(|&&g| self.seats.on(g).next().is_some()).count();
            return Reason::PlaceNotVacated { kind: name(target.kind.index()), held };
        }
        self.queue_reason(slot, &fitting, &free)
    }

    /// A job that could run, if only it were given GPUs.
    fn queue_reason(&self, slot: Slot, fitting: &[usize], free: &[u32]) -> Reason {
        let job = self.jobs.get(slot);
        let gang = job.spec.gang;
        if self.changed || fitting.iter().any(|&j| free[j] >= gang) {
            let elapsed = self.now.since(self.last_tick);
            return Reason::NextRound { seconds: (self.settings.round_seconds - elapsed).max(0.0) };
        }
        let gangs: f64 = self.placer.standing(job.class).iter().map(|s| s.gangs).sum();
        let class = &self.classes[&job.class];
        if gangs > 0.0 && (class.jobs.len() > 1 || gangs < 1.0) {
            let sooner = |&s: &Slot| {
                let other = self.jobs.get(s);
                s != slot && (other.virtual_seconds, s) < (job.virtual_seconds, slot) && other.phase == Phase::Waiting
            };
            let ahead = class.jobs.iter().filter(sooner).count();
            // Each of the gangs at a time is passed on once in a turn.
            let turn = turn_seconds(job.spec.restart_seconds, self.settings.round_seconds);
            let seconds = (ahead as f64 + 1.0) / gangs * turn;
            return Reason::Turns { gangs, jobs: class.jobs.len(), ahead, seconds };
        }
        let earlier = |j: &Job| (j.spec.arrived, j.spec.id) < (job.spec.arrived, job.spec.id);
        let queue = self.jobs.iter().filter(|(_, j)| j.phase == Phase::Waiting && earlier(j));
        let (ahead, wanted) = queue.fold((0, gang), |(n, gpus), (_, j)| (n + 1, gpus + j.spec.gang));
        let free: u32 = fitting.iter().map(|&j| free[j]).sum();
        Reason::Queued { ahead, gang, free, seconds: self.forecast(fitting, wanted.saturating_sub(free)) }
    }

    /// When running jobs on the kinds `fitting` will have freed `wanted` GPUs, by their estimated rates.
    fn forecast(&self, fitting: &[usize], wanted: u32) -> Option<f64> {
        let mut ends: Vec<(f64, u32)> = Vec::new();
        for (_, job) in self.jobs.iter() {
            let Phase::Running(gang) = &job.phase else { continue };
            if !fitting.contains(&gang.kind.index()) {
                continue;
            }
            let rate = self.classes[&job.class].rates[gang.kind.index()];
            let seconds = match job.spec.work {
                Work::Steps(steps) if rate > 0.0 => (steps - job.steps_done).max(0.0) / rate,
                Work::Steps(_) => continue,
                Work::Period(period) => (period - job.attained_gpu_seconds / f64::from(job.spec.gang)).max(0.0),
            };
            ends.push((seconds, job.spec.gang));
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut freed = 0;
        ends.iter().find_map(|&(seconds, gpus)| {
            freed += gpus;
            (freed >= wanted).then_some(seconds)
        })
    }

    /// GPUs by kind that can be reached, and of these the free ones.
    fn usable_and_free(&self) -> (Vec<u32>, Vec<u32>) {
        let mask = self.usable();
        let kinds = self.cluster.kinds().len();
        let (mut usable, mut free) = (vec![0; kinds], vec![0; kinds]);
        for g in (0..self.cluster.gpus() as u32).map(GpuId).filter(|g| mask[g.index()]) {
            let j = self.cluster.kind_of(g).index();
            usable[j] += 1;
            free[j] += u32::from(self.seats.on(g).next().is_none());
        }
        (usable, free)
    }
}
