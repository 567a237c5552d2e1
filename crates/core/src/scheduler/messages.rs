//! Everything that goes into the scheduler and comes out of it. Plain data, so that a journal can hold it.

use crate::allocate::{AllocateError, Allocation, EPSILON, Problem};
use crate::estimate::{RateQuery, RateRow};
use crate::prices::Prices;
use crate::quota::Quota;
use crate::{Cluster, ClusterChange, GpuId, JobId, JobSpec, KindId, NodeId, Round, Spread, Tenant, TenantId, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Tells one gang of a job from the job's earlier ones. Grows with every start order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

/// Patience and pace.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Time between two decisions.
    pub round_seconds: f64,
    /// Time between two surveys, as the driver promises them.
    pub survey_seconds: f64,
    /// A node stops its gangs by itself when this long has passed since the last of its answers to a survey that it
    /// knows to have arrived. (The next question says so; an answer that was lost renews nothing.)
    pub lease_seconds: f64,
    /// An order that is not confirmed within this time is sent again.
    pub confirm_seconds: f64,
    /// A start that was sent this often without a confirmation is given up.
    pub most_tries: u32,
    /// A job that failed this often in a row is not tried again.
    pub most_failures: u32,
    /// Pause after the first failure; doubles with each further one.
    pub backoff_seconds: f64,
    /// Whether GPUs that nobody uses are switched off: energy-aware policies take it into account.
    #[serde(default)]
    pub unused_off: bool,
    /// The part of its fair speed that everybody may be asked to give up so that less is drawn: for policies that weigh the two.
    #[serde(default = "default_epsilon")]
    pub epsilon: f64,
    /// Past use counts half after this time; it does not count at all if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_life_seconds: Option<f64>,
    /// Whether GPUs of a job that ends go to the next job of its class at once. If not, they wait for the next round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refill: bool,
}

fn default_epsilon() -> f64 {
    EPSILON
}

impl Default for Settings {
    fn default() -> Self {
        Self::with_round(60.0)
    }
}

impl Settings {
    /// Defaults that go with a round of this length.
    #[must_use]
    pub fn with_round(round_seconds: f64) -> Self {
        Self {
            round_seconds,
            survey_seconds: round_seconds,
            lease_seconds: 4.0 * round_seconds,
            confirm_seconds: round_seconds,
            most_tries: 3,
            most_failures: 5,
            backoff_seconds: round_seconds / 2.0,
            unused_off: false,
            epsilon: EPSILON,
            half_life_seconds: None,
            refill: false,
        }
    }

    /// The same with the largest number there is for whatever is without end: a snapshot holds finite numbers only.
    pub(crate) fn finite(self) -> Self {
        let finite = |x: f64| if x.is_finite() { x } else { f64::MAX };
        Self {
            round_seconds: finite(self.round_seconds),
            survey_seconds: finite(self.survey_seconds),
            lease_seconds: finite(self.lease_seconds),
            confirm_seconds: finite(self.confirm_seconds),
            backoff_seconds: finite(self.backoff_seconds),
            ..self
        }
    }

    /// Silence after which a node gets no new gangs.
    pub(crate) fn silence_seconds(&self) -> f64 {
        2.5 * self.survey_seconds
    }

    /// Silence after which a node's gangs are given up: its own lease, and a margin of two surveys for what
    /// was on its way.
    pub(crate) fn loss_seconds(&self) -> f64 {
        self.lease_seconds + 2.0 * self.survey_seconds
    }
}

/// What the driver tells the scheduler.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// A new job.
    Submit(JobSpec),
    /// Somebody no longer wants a job.
    Cancel(JobId),
    /// Answers to [`Output::Estimate`], or better estimates of rows asked for earlier.
    Estimated(Vec<RateRow>),
    /// The answer to [`Output::Solve`].
    Allocated(Round, Result<Allocation, AllocateError>),
    /// A round begins.
    Tick,
    /// Something happened to one gang. A hint: it may be lost, late or repeated.
    Reported(GangReport),
    /// An engine cannot do what it was ordered.
    Refused(Order, String),
    /// What is really there.
    Surveyed(Survey),
    /// From now on, decide by the policy of this name. What runs goes on until that policy has answered.
    Policy(String),
    /// A new tenant, or a new weight of one that is known by its name. Nobody's id changes.
    Tenant(Tenant),
    /// What the tenant of this name may use from now on; replaces what was said before.
    Quota(String, Quota),
    /// A tenant leaves. Its number is never another's; one of the same name that comes later is the same again.
    RemoveTenant {
        /// Tenants are known by name.
        name: String,
        /// Whether its live jobs are cancelled; if not, a tenant with live jobs stays.
        cancel: bool,
    },
    /// Joules that tenants have used since the journal began, by the meters; for budgets.
    Energy(Vec<(TenantId, f64)>),
    /// The most that all GPUs together may draw from now on, in watts; none for no limit.
    #[serde(rename = "power-budget")]
    PowerBudget(Option<f64>),
    /// What the GPUs of a rack may draw together from now on, or those of all racks below a name (`row-1` is above `row-1/rack-3`).
    RackBudget {
        /// Name of the rack, or of what racks stand in.
        rack: String,
        /// None for no limit.
        watts: Option<f64>,
    },
    /// What electricity costs from when on; replaces what was said before.
    Prices(Prices),
    /// The cluster has changed, or should.
    Cluster(ClusterChange),
    /// A job must not run until it is released. Its gang, if it has one, is stopped with a checkpoint.
    Hold(JobId),
    /// A held job may run.
    Release(JobId),
    /// Steps that jobs say are safe.
    Checkpointed(Vec<(JobId, f64)>),
    /// The driver's clock was set: it is another time, and none has passed.
    ClockSet,
}

/// What the scheduler wants done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Solve this with the policy, and answer with [`Input::Allocated`]. Asked again if no answer comes for long.
    Solve(Arc<Problem>),
    /// Estimate this row, and answer with [`Input::Estimated`]. Asked again if no answer comes for long.
    Estimate(RateQuery),
    /// Make it so. Doing it twice is the same as doing it once.
    Order(Order),
    /// The cluster is this from now on: engine and estimator must hear of it before anything that follows.
    Cluster(Arc<Cluster>),
    /// For the record.
    Note(Event),
}

/// What should, or should not, be there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// This gang should run. A refusal is final: a copy of the order that arrives later must not be done either.
    Start(Start),
    /// This gang should not be there; if it has ended, its record may go. Always answered, also for a gang that is not
    /// there, and final: a start of it that arrives later must not be done.
    Stop {
        /// The job whose gang it is.
        job: JobId,
        /// The gang, by the fence of its start.
        fence: Fence,
    },
}

/// A gang that should run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Start {
    /// The job whose gang it is.
    pub job: JobId,
    /// Larger than that of any earlier gang, of any job: late orders and reports are told by it.
    pub fence: Fence,
    /// All GPUs of a gang are of one kind.
    pub kind: KindId,
    /// As many as the job's gang has.
    pub gpus: Vec<GpuId>,
    /// How far apart it is, beyond what it needs.
    pub spread: Spread,
    /// The gang must end itself when its node has not been asked after for this long.
    pub lease_seconds: f64,
}

/// What became of a gang.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GangEvent {
    /// It runs.
    Started,
    /// It was stopped with this many of the job's steps safe.
    Stopped(f64),
    /// It did all its work.
    Finished,
    /// It broke with this many of the job's steps safe.
    Failed(f64, String),
}

/// Something that happened to one gang.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GangReport {
    /// The job whose gang it is.
    pub job: JobId,
    /// The gang, by the fence of its start.
    pub fence: Fence,
    /// Written as `fate` in journals, as it always was.
    #[serde(rename = "fate")]
    pub event: GangEvent,
    /// What its program ended with, where it was a program that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

impl GangReport {
    /// A report without an exit code.
    #[must_use]
    pub fn new(job: JobId, fence: Fence, event: GangEvent) -> Self {
        Self { job, fence, event, exit_code: None }
    }
}

/// A node that answered a survey.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ObservedNode {
    /// By its place in the cluster.
    pub node: NodeId,
    /// Whether it can run anything.
    pub up: bool,
}

/// The state of a gang that was seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GangState {
    /// It runs.
    Running,
    /// It did all its work; kept until ordered to stop.
    Finished,
    /// It broke; kept until ordered to stop.
    Failed(String),
}

/// A gang that was seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ObservedGang {
    /// The job whose gang it is; perhaps one that the scheduler never heard of.
    pub job: JobId,
    /// The gang, by the fence of its start.
    pub fence: Fence,
    /// GPUs that it keeps from others.
    pub gpus: Vec<GpuId>,
    /// Steps of the job that are safe.
    pub steps_done: f64,
    /// Gangs that have ended are shown until ordered to stop.
    pub state: GangState,
}

/// What was really there at a moment, on the nodes that answered. Raw: it may show strangers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Survey {
    /// What [`Scheduler::now`](super::Scheduler::now) was when the question was asked: nothing that became known
    /// later can be expected in it.
    pub at: Time,
    /// Nodes that answered. Others are unknown.
    pub nodes: Vec<ObservedNode>,
    /// Every gang with a GPU on one of them.
    pub gangs: Vec<ObservedGang>,
}

/// For the record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A job was not taken in.
    Rejected {
        /// The id that it was submitted under.
        job: JobId,
        /// For its submitter: the value, what was expected, what to do.
        why: String,
    },
    /// A job did all its work.
    Completed {
        /// It is forgotten with this event.
        job: JobId,
    },
    /// A job is not tried again.
    GaveUp {
        /// It is forgotten with this event.
        job: JobId,
        /// The last failure.
        why: String,
    },
    /// A job was cancelled.
    Cancelled {
        /// It is forgotten with this event.
        job: JobId,
    },
    /// A job lost its gang and waits again.
    Requeued {
        /// It keeps its place in its class.
        job: JobId,
        /// What became of its gang.
        why: String,
    },
    /// A node has been silent for longer than its lease; its gangs are given up.
    NodeLost {
        /// By its place in the cluster.
        node: NodeId,
    },
    /// The policy gave no usable answer; the last one stays in force.
    NoAllocation {
        /// Which decision.
        round: Round,
        /// The policy's error, or what is wrong with its answer.
        why: String,
    },
    /// The placer broke a rule; nothing was changed this round.
    BadPlan {
        /// Which decision.
        round: Round,
        /// The rule, and who broke it.
        why: String,
    },
    /// Another policy decides from now on.
    PolicySwitched {
        /// Which did until now.
        from: String,
        /// Which does now.
        to: String,
    },
    /// A tenant is known with this weight from now on.
    TenantSet {
        /// Tenants are known by name.
        name: String,
        /// Its entitlement.
        weight: f64,
    },
    /// A tenant may use this much from now on.
    QuotaSet {
        /// Tenants are known by name.
        name: String,
        /// All its limits.
        quota: Quota,
    },
    /// A tenant has left; its history stays.
    TenantRemoved {
        /// Tenants are known by name.
        name: String,
    },
    /// A node joined, left, is drained or takes gangs again; GPUs were lost or are back; a kind was corrected.
    ClusterChanged {
        /// Its name.
        node: String,
        /// What happened, in words.
        what: String,
    },
    /// All GPUs together may draw this much from now on.
    PowerBudgetSet {
        /// None for no limit.
        watts: Option<f64>,
        /// The rack, or what racks stand in, that it is for; none for all GPUs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rack: Option<String>,
    },
    /// What electricity costs is known from now on.
    PricesSet {
        /// How often the price changes; 0 when nothing is known any more.
        bands: usize,
    },
    /// GPUs draw more than they may, and nothing that the scheduler can do now changes that.
    OverBudget {
        /// What they draw, by the estimates.
        watts: f64,
        /// What they may.
        budget: f64,
        /// What draws it, and what would help.
        why: String,
    },
    /// An elastic job is to hold another number of GPUs. A gang that it has is restarted with them.
    Resized {
        /// It stays live.
        job: JobId,
        /// GPUs until now.
        from: u32,
        /// GPUs from now on.
        to: u32,
    },
    /// A job does not run until it is released.
    Held {
        /// It stays live.
        job: JobId,
    },
    /// A held job may run.
    Released {
        /// It was held.
        job: JobId,
    },
    /// A policy, a tenant or a change of the cluster was asked for that makes no sense; nothing was changed.
    Refused {
        /// The value, what was expected, what to do.
        why: String,
    },
}

impl Input {
    /// Jobs that it is about.
    pub fn jobs(&self) -> Vec<JobId> {
        match self {
            Self::Submit(spec) => vec![spec.id],
            Self::Cancel(job) => vec![*job],
            Self::Reported(report) => vec![report.job],
            Self::Refused(order, _) => vec![order.job()],
            Self::Surveyed(survey) => survey.gangs.iter().map(|gang| gang.job).collect(),
            Self::Hold(job) | Self::Release(job) => vec![*job],
            Self::Checkpointed(jobs) => jobs.iter().map(|(job, _)| *job).collect(),
            _ => Vec::new(),
        }
    }
}

impl Output {
    /// The job that it is about, if it is about one.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Order(order) => Some(order.job()),
            Self::Note(event) => event.job(),
            Self::Solve(_) | Self::Estimate(_) | Self::Cluster(_) => None,
        }
    }
}

impl Order {
    /// The job whose gang is to start or stop.
    #[must_use]
    pub fn job(&self) -> JobId {
        match self {
            Self::Start(start) => start.job,
            Self::Stop { job, .. } => *job,
        }
    }

    /// The gang that is to start or stop.
    #[must_use]
    pub fn fence(&self) -> Fence {
        match self {
            Self::Start(start) => start.fence,
            Self::Stop { fence, .. } => *fence,
        }
    }
}

impl Event {
    /// The job that it is about, if it is about one.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Rejected { job, .. }
            | Self::Completed { job }
            | Self::GaveUp { job, .. }
            | Self::Cancelled { job }
            | Self::Requeued { job, .. }
            | Self::Resized { job, .. }
            | Self::Held { job }
            | Self::Released { job } => Some(*job),
            _ => None,
        }
    }

    /// Whether the job that it is about is live after it.
    fn goes_on(&self) -> bool {
        matches!(self, Self::Requeued { .. } | Self::Resized { .. } | Self::Held { .. } | Self::Released { .. })
    }

    /// The job that has left the scheduler with this event, if one has.
    #[must_use]
    pub fn ends(&self) -> Option<JobId> {
        self.job().filter(|_| !self.goes_on())
    }

    /// A short name that stays the same from release to release, for filters and counters.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "rejected",
            Self::Completed { .. } => "completed",
            Self::GaveUp { .. } => "gave-up",
            Self::Cancelled { .. } => "cancelled",
            Self::Requeued { .. } => "requeued",
            Self::NodeLost { .. } => "node-lost",
            Self::NoAllocation { .. } => "no-allocation",
            Self::BadPlan { .. } => "bad-plan",
            Self::PolicySwitched { .. } => "policy-switched",
            Self::TenantSet { .. } => "tenant-set",
            Self::QuotaSet { .. } => "quota-set",
            Self::TenantRemoved { .. } => "tenant-removed",
            Self::ClusterChanged { .. } => "cluster-changed",
            Self::PowerBudgetSet { .. } => "power-budget-set",
            Self::PricesSet { .. } => "prices-set",
            Self::OverBudget { .. } => "over-budget",
            Self::Resized { .. } => "resized",
            Self::Held { .. } => "held",
            Self::Released { .. } => "released",
            Self::Refused { .. } => "refused",
        }
    }
}
