//! Why a job waits: a reason with numbers, until about when, and what would help.
//!
//! One job or all that wait: the same questions, answered from what is counted once for all of them (`outlook`).

use super::*;
use crate::Needs;
use outlook::Outlook;
use std::fmt;
use std::sync::Arc;

mod displacement;
mod outlook;

pub use displacement::Displacement;

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
        /// What ends its stay there, if its node is drained.
        #[serde(skip_serializing_if = "Option::is_none")]
        drain: Option<String>,
    },
    /// Its gang is being started.
    Starts,
    /// Its gang is being stopped, to move or to leave.
    Stops,
    /// It holds no GPU, for this reason.
    Waits(Reason),
}

/// Why a job waits.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Somebody holds it.
    Held,
    /// Other jobs must end first.
    After {
        /// Those that have not.
        jobs: Vec<JobId>,
    },
    /// Its array has as many tasks at work as it may.
    ArrayLimit {
        /// How many that is.
        at_most: u32,
    },
    /// Its tenant holds as many GPUs as it may, or too many to let this job start beside them.
    TenantGpus {
        /// Name of the tenant.
        tenant: String,
        /// GPUs that the tenant holds.
        held: u32,
        /// GPUs that it may hold at once.
        most: u32,
        /// GPUs that this job needs at once.
        gang: u32,
    },
    /// It needs more GPUs than its tenant may hold at once.
    TenantGang {
        /// Name of the tenant.
        tenant: String,
        /// GPUs that this job needs at once.
        gang: u32,
        /// GPUs that the tenant may hold at once.
        most: u32,
    },
    /// Its tenant's budget of this month is used up.
    TenantBudget {
        /// Name of the tenant.
        tenant: String,
        /// What is counted: GPU-hours or kWh.
        unit: &'static str,
        /// How much of it was used this month.
        used: f64,
        /// How much may be used in a month.
        most: f64,
        /// The day on which the next month begins.
        resets: String,
        /// Time left until then.
        seconds: f64,
    },
    /// Electricity will be cheaper, and there is time until its deadline.
    CheaperHour {
        /// What a kilowatt-hour costs now.
        now_per_kwh: f64,
        /// What it costs when the job is to start.
        then_per_kwh: f64,
        /// Time until then.
        seconds: f64,
        /// Time until it must have ended.
        deadline_seconds: f64,
    },
    /// Nobody has said yet how fast it is.
    NoEstimate,
    /// It fits no kind that it may use.
    FitsNoKind {
        /// GPUs that it needs at once.
        gang: u32,
        /// Names of the kinds it may use.
        kinds: Vec<String>,
    },
    /// No node has what it needs besides GPUs.
    NeedsTooMuch {
        /// What it asks for.
        needs: Needs,
        /// Names of the kinds it may use.
        kinds: Vec<String>,
    },
    /// GPUs are free, but the CPUs or the memory of their nodes are in use.
    HostsFull {
        /// What it asks for.
        needs: Needs,
        /// GPUs that it needs at once.
        gang: u32,
    },
    /// No kind has as many GPUs as its gang.
    GangTooLarge {
        /// GPUs that it needs at once.
        gang: u32,
        /// The most GPUs of one kind that fits it.
        most: u32,
        /// The kind with most GPUs that it may use.
        kind: String,
    },
    /// Enough GPUs exist, but too few can be used now.
    NodesAway {
        /// GPUs that it needs at once.
        gang: u32,
        /// The most usable GPUs of one kind that fits it.
        usable: u32,
        /// The kind with most usable GPUs.
        kind: String,
        /// GPUs of kinds that fit it on drained nodes.
        #[serde(skip_serializing_if = "is_zero")]
        drained: u32,
        /// GPUs of kinds that fit it that are lost.
        #[serde(skip_serializing_if = "is_zero")]
        lost: u32,
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
        /// The kinds that its class is granted, separated by commas.
        kinds: Arc<str>,
        /// About how long until its turn.
        seconds: f64,
    },
    /// GPUs that fit are free and stay so, since the policy saves power with them.
    KeptFree {
        /// GPUs that it needs at once.
        gang: u32,
        /// GPUs free now of the kinds that fit.
        free: u32,
        /// About how long until its turn, if that can be said.
        seconds: Option<f64>,
    },
    /// All GPUs that fit are given to others.
    Queued {
        /// Waiting jobs that came earlier.
        ahead: usize,
        /// GPUs that it needs at once.
        gang: u32,
        /// GPUs free now of the kinds that fit.
        free: u32,
        /// About how long until enough running jobs have ended, if that can be said.
        seconds: Option<f64>,
    },
}

/// So many jobs that another waits for are named; the others are counted.
const NAMED_JOBS: usize = 5;

/// For serde, which asks by reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Reason {
    /// A short name that stays the same from release to release, for filters and counters.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::After { .. } => "after",
            Self::ArrayLimit { .. } => "array-limit",
            Self::TenantGpus { .. } => "tenant-gpus",
            Self::TenantGang { .. } => "tenant-gang",
            Self::TenantBudget { .. } => "tenant-budget",
            Self::CheaperHour { .. } => "cheaper-hour",
            Self::NoEstimate => "no-estimate",
            Self::FitsNoKind { .. } => "fits-no-kind",
            Self::NeedsTooMuch { .. } => "needs-too-much",
            Self::HostsFull { .. } => "hosts-full",
            Self::GangTooLarge { .. } => "gang-too-large",
            Self::NodesAway { .. } => "nodes-away",
            Self::Pauses { .. } => "pauses",
            Self::NextRound { .. } => "next-round",
            Self::PlaceNotVacated { .. } => "place-not-vacated",
            Self::Turns { .. } => "turns",
            Self::KeptFree { .. } => "kept-free",
            Self::Queued { .. } => "queued",
        }
    }

    /// About how long it will wait, where that can be said.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        match *self {
            Self::Pauses { seconds, .. }
            | Self::NextRound { seconds }
            | Self::Turns { seconds, .. }
            | Self::CheaperHour { seconds, .. }
            | Self::TenantBudget { seconds, .. } => Some(seconds),
            Self::Queued { seconds, .. } | Self::KeptFree { seconds, .. } => seconds,
            _ => None,
        }
    }
}

impl Reason {
    /// It may not run yet, whatever is free.
    fn say_admission(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => write!(f, "held; starts after it is released"),
            Self::After { jobs } => {
                let named: Vec<String> = jobs.iter().take(NAMED_JOBS).map(|job| job.0.to_string()).collect();
                let more = jobs.len().saturating_sub(NAMED_JOBS);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let noun = if jobs.len() == 1 { "job" } else { "jobs" };
                write!(f, "starts after {noun} {}{more}", named.join(", "))
            }
            Self::ArrayLimit { at_most } => {
                write!(f, "its array runs at most {} at once", count(*at_most as usize, "task"))
            }
            Self::CheaperHour { now_per_kwh, then_per_kwh, seconds, deadline_seconds } => write!(
                f,
                "waits for cheaper electricity ({then_per_kwh} a kWh instead of {now_per_kwh}), starts in ~{}; has {} to its deadline, \
                 and its tenant's share is enough for that",
                span(*seconds),
                span(*deadline_seconds)
            ),
            _ => Ok(()),
        }
    }

    /// Its tenant's quota is in its way.
    fn say_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TenantGpus { tenant, held, most, gang } if held + gang > *most => {
                write!(f, "tenant {tenant} holds {held} of its {}; this job needs {gang}", gpus(*most))
            }
            Self::TenantGpus { tenant, held, most, .. } => {
                write!(f, "tenant {tenant} holds {held} of its {}; the rest is kept for its earlier jobs", gpus(*most))
            }
            Self::TenantGang { tenant, gang, most } => write!(
                f,
                "needs {}, and tenant {tenant} may hold {most} at once; resubmit with a smaller gang, or have an admin \
                 raise the quota",
                gpus(*gang)
            ),
            Self::TenantBudget { tenant, unit, used, most, resets, .. } => {
                write!(f, "tenant {tenant} has used {used:.1} of {most} {unit} this month; resets on {resets}")
            }
            _ => Ok(()),
        }
    }

    /// Nothing that is there, or in reach, has room for it.
    fn say_room(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FitsNoKind { gang, kinds } => write!(
                f,
                "a gang of {gang} does not fit on {}; allow other GPU kinds or use a smaller batch",
                kinds.join(", ")
            ),
            Self::NeedsTooMuch { needs, kinds } => {
                let (what, kinds) = (needs_words(needs), kinds.join(", "));
                write!(
                    f,
                    "needs {what} for each GPU, which no node with {kinds} has; ask for less or allow other GPU kinds"
                )
            }
            Self::HostsFull { needs, gang } => {
                let what = needs_words(&Needs { gpu_memory_gib: 0.0, ..*needs });
                write!(f, "needs {} with {what} for each; GPUs are free, but on nodes without that", gpus(*gang))
            }
            Self::GangTooLarge { gang, most: 0, kind } => {
                write!(f, "needs {}, and the cluster has none that fit ({kind}); starts when nodes join", gpus(*gang))
            }
            Self::GangTooLarge { gang, most, kind } => write!(
                f,
                "needs {gang} GPUs of one kind, and the cluster has at most {most} that fit ({kind}); \
                 resubmit with a gang of {most} or fewer"
            ),
            Self::NodesAway { gang, usable, kind, drained: 0, lost: 0 } => {
                write!(f, "needs {}, only {usable} × {kind} reachable; starts when nodes return", gpus(*gang))
            }
            Self::NodesAway { gang, usable, kind, drained, lost } => {
                let drained = (*drained > 0).then(|| format!("{} on nodes that drain", gpus(*drained)));
                let lost = (*lost > 0).then(|| format!("{} lost", gpus(*lost)));
                let away: Vec<String> = drained.into_iter().chain(lost).collect();
                write!(f, "needs {}, only {usable} × {kind} usable ({}); ", gpus(*gang), away.join(", "))?;
                write!(f, "starts when nodes return")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held | Self::After { .. } | Self::ArrayLimit { .. } | Self::CheaperHour { .. } => {
                self.say_admission(f)
            }
            Self::TenantGpus { .. } | Self::TenantGang { .. } | Self::TenantBudget { .. } => self.say_quota(f),
            Self::NoEstimate => write!(f, "throughput not estimated yet; eligible in the round after"),
            Self::FitsNoKind { .. }
            | Self::NeedsTooMuch { .. }
            | Self::HostsFull { .. }
            | Self::GangTooLarge { .. }
            | Self::NodesAway { .. } => self.say_room(f),
            Self::Pauses { failures, most, seconds } => {
                write!(f, "failed {failures} of {most} times in a row; retry in {}", span(*seconds))
            }
            Self::NextRound { seconds } => {
                write!(f, "waiting for the next scheduling round, in {}", span(*seconds))
            }
            Self::PlaceNotVacated { kind, held: 0 } => {
                write!(f, "assigned to {kind}; waiting for other jobs to release CPUs or memory")
            }
            Self::PlaceNotVacated { kind, held } => {
                write!(f, "assigned to {kind}; waiting for other jobs to release {}", gpus(*held as u32))
            }
            Self::Turns { gangs, jobs: 1, seconds, .. } => {
                write!(f, "scheduled {:.0} % of the time; next turn in ~{}", 100.0 * gangs, span(*seconds))
            }
            Self::Turns { jobs, ahead, kinds, seconds, .. } => {
                let others = count(jobs.saturating_sub(1), "similar job");
                match ahead {
                    0 => write!(f, "time-sharing {kinds} with {others}; next in line, starts in ~{}", span(*seconds)),
                    n => write!(f, "time-sharing {kinds} with {others}; {n} ahead, starts in ~{}", span(*seconds)),
                }
            }
            Self::KeptFree { gang, free, seconds } => {
                write!(f, "needs {}; {free} free, kept so to save power (epsilon)", gpus(*gang))?;
                seconds.map_or(Ok(()), |seconds| write!(f, "; starts in ~{}", span(seconds)))
            }
            Self::Queued { ahead, gang, free, seconds } => {
                match ahead {
                    0 => write!(f, "next in the queue")?,
                    n => write!(f, "{} ahead in the queue", count(*n, "job"))?,
                }
                write!(f, "; needs {}, {free} free", gpus(*gang))?;
                match seconds {
                    Some(s) => write!(f, "; starts in ~{}", span(*s))?,
                    None => write!(f, "; start time unknown, too few running jobs have a known end")?,
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
            Self::Unknown => write!(f, "not a live job: it has ended or was never submitted"),
            Self::Runs { kind, gpus, nodes, drain } => {
                write!(f, "runs on {gpus} × {kind} on {}", count(*nodes, "node"))?;
                drain.as_ref().map_or(Ok(()), |drain| write!(f, "; {drain}"))
            }
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

/// What a job needs, in words.
fn needs_words(needs: &Needs) -> String {
    let amounts = [
        (needs.cpus_per_gpu, "CPUs"),
        (needs.memory_gib_per_gpu, "GiB of memory"),
        (needs.gpu_memory_gib, "GiB of GPU memory"),
    ];
    let words: Vec<String> = amounts.iter().filter(|(x, _)| *x > 0.0).map(|(x, what)| format!("{x} {what}")).collect();
    words.join(", ")
}

fn gpus(number: u32) -> String {
    count(number as usize, "GPU")
}

/// A span of time for people.
pub(super) fn span(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86400.0),
    }
}

impl Scheduler {
    /// Where a job stands and, if it waits, why. For many jobs, [`Scheduler::explain_all`] is far quicker.
    #[must_use]
    pub fn explain(&self, job: JobId) -> Verdict {
        let Some(slot) = self.jobs.slot(job) else { return Verdict::Unknown };
        match &self.jobs.get(slot).phase {
            Phase::Running(gang) => {
                let mut nodes: Vec<NodeId> = gang.gpus.iter().map(|&g| self.cluster.node_of(g)).collect();
                nodes.dedup();
                let kind = self.cluster.kind(gang.kind).name.clone();
                Verdict::Runs { kind, gpus: gang.gpus.len(), nodes: nodes.len(), drain: self.drain_words(gang) }
            }
            Phase::Starting(..) => Verdict::Starts,
            Phase::Stopping(..) => Verdict::Stops,
            Phase::Waiting => Verdict::Waits(Outlook::of_one(self).reason(slot)),
        }
    }

    /// What a drain means for a gang.
    fn drain_words(&self, gang: &Gang) -> Option<String> {
        let (node, drain) = self.drain_of(gang)?;
        let name = &self.cluster.node(node).name;
        let why = if drain.why.is_empty() { String::new() } else { format!(" ({})", drain.why) };
        Some(match drain.deadline {
            Some(at) => {
                format!("its node '{name}' drains{why}: moved with a checkpoint within {}", span(at.since(self.now)))
            }
            None => format!("its node '{name}' drains{why}: may run to its end there"),
        })
    }

    /// Every job that waits, with what [`Scheduler::explain`] says of it.
    pub fn explain_all(&self) -> impl Iterator<Item = (JobId, Verdict)> + '_ {
        let mut outlook = Outlook::of_all(self);
        let waiting = self.jobs.iter().filter(|(_, job)| job.phase == Phase::Waiting);
        waiting.map(move |(slot, job)| (job.spec.id, Verdict::Waits(outlook.reason(slot))))
    }
}
