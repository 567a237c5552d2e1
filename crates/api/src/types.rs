//! The words of the API: requests and answers under `/v1`, as JSON.
//!
//! Moments are seconds since 1970 on the scheduler's clock, spans are seconds, energies joules, powers watts, rates steps per
//! second. A field is `null` where nothing is known. Whoever may not see a thing gets an answer without it, never another's.

mod reading;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing went wrong.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// The error.
    pub error: FaultBody,
}

/// What, and what to do about it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FaultBody {
    /// For programs; stable.
    pub code: String,
    /// For people: what was given and what was expected.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// A job to be submitted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// A name for people.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub name: Option<String>,
    /// Whose job it is. A tenant's own token may leave it out.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub tenant: Option<String>,
    /// What runs: any name that `arles workloads` lists.
    #[schemars(length(min = 1, max = 200))]
    pub workload: String,
    /// GPUs held at once, all or nothing.
    #[serde(default = "one", deserialize_with = "reading::whole")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub gang: u32,
    /// Steps to do. Either this or `period_seconds`.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 1e15))]
    pub steps: Option<f64>,
    /// Seconds of service, for what serves at a rate.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 1e9))]
    pub period_seconds: Option<f64>,
    /// Promised rate of the whole gang, in steps per second.
    #[serde(default)]
    #[schemars(range(min = 1e-9, max = 1e12))]
    pub floor: Option<f64>,
    /// Importance relative to the tenant's other jobs.
    #[serde(default = "unit")]
    #[schemars(range(min = 1e-6, max = 1e6))]
    pub weight: f64,
    /// Seconds lost at every start after the first; the server's default if left out.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e6))]
    pub restart_seconds: Option<f64>,
    /// Kinds it may run on, by any of their names; empty means any.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub kinds: Vec<String>,
}

fn one() -> u32 {
    1
}

fn unit() -> f64 {
    1.0
}

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// It holds nothing.
    Waiting,
    /// Its gang is being started.
    Starting,
    /// It runs.
    Running,
    /// Its gang is being stopped.
    Stopping,
    /// It did all its work.
    Completed,
    /// It was given up.
    Failed,
    /// Somebody no longer wanted it.
    Cancelled,
}

impl JobState {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Waiting, Self::Starting, Self::Running, Self::Stopping, Self::Completed, Self::Failed, Self::Cancelled];

    /// Whether nothing more will happen to it.
    #[must_use]
    pub fn over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// As the API writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why something is as it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// For programs; stable.
    pub code: String,
    /// For people.
    pub text: String,
    /// About how long it will stay so, if that can be said.
    pub seconds: Option<f64>,
}

/// Where a gang sits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Name of the kind.
    pub kind: String,
    /// Numbers of the GPUs.
    pub gpus: Vec<u32>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Whether it spans more nodes than it needs to.
    pub spread: bool,
    /// Whether another job shares its GPU.
    pub shared: bool,
    /// The job that shares its GPU, where the caller may see it.
    pub partner: Option<u64>,
}

/// Energy, split by what it was spent on.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Energy {
    /// For computing.
    pub active_joules: f64,
    /// Idle power of GPUs while they were held.
    pub idle_joules: f64,
    /// For restarting.
    pub restart_joules: f64,
}

/// A job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// A name for people.
    pub name: Option<String>,
    /// Whose it is.
    pub tenant: String,
    /// What runs.
    pub workload: String,
    /// GPUs held at once.
    pub gang: u32,
    /// Steps to do, if it is a matter of steps.
    pub steps: Option<f64>,
    /// Seconds of service, if it is a matter of time.
    pub period_seconds: Option<f64>,
    /// Promised rate.
    pub floor: Option<f64>,
    /// Importance relative to the tenant's other jobs.
    pub weight: f64,
    /// Seconds lost at every start after the first.
    pub restart_seconds: f64,
    /// Kinds it may run on; empty means any.
    pub kinds: Vec<String>,
    /// Where it stands.
    pub state: JobState,
    /// Why it waits, or how it ended.
    pub reason: Option<Reason>,
    /// Where it runs.
    pub place: Option<Place>,
    /// When it was submitted.
    pub submitted_at: f64,
    /// When it first started.
    pub started_at: Option<f64>,
    /// When it was over.
    pub ended_at: Option<f64>,
    /// Steps done, safe or not, as of the last look.
    pub steps_done: f64,
    /// Part of its work that is done, 0 to 1.
    pub done_ratio: Option<f64>,
    /// Measured rate.
    pub rate: Option<f64>,
    /// Rate that the scheduler reckons with where it runs now.
    pub estimated_rate: Option<f64>,
    /// Starts after the first.
    pub restarts: u32,
    /// Failures in a row.
    pub failures: u32,
    /// GPU seconds held.
    pub gpu_seconds: f64,
    /// Energy so far.
    pub energy: Energy,
    /// What its own code last reported, if it does.
    pub reported: Option<Progress>,
}

/// Some of a long list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// In the order that was asked for.
    pub jobs: Vec<Job>,
    /// Give this as `cursor` to go on; `null` at the end.
    pub next: Option<String>,
    /// Live jobs by state, of those that the caller may see.
    pub live: Vec<StateCount>,
}

/// How many jobs are in a state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StateCount {
    /// Which.
    pub state: JobState,
    /// How many.
    pub jobs: u64,
}

/// Jobs that wait.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Oldest first.
    pub jobs: Vec<Job>,
    /// Give this as `cursor` to go on; `null` at the end.
    pub next: Option<String>,
    /// How many wait for which reason, of those that the caller may see.
    pub reasons: Vec<ReasonCount>,
}

/// How many jobs wait for a reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReasonCount {
    /// Which.
    pub code: String,
    /// How many.
    pub jobs: u64,
}

/// Why a job is where it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Its number.
    pub id: u64,
    /// Where it stands.
    pub state: JobState,
    /// The whole of it, as of now.
    pub reason: Reason,
    /// When the scheduler reckons that it starts, if it waits and that can be said.
    pub starts_at: Option<f64>,
    /// What its class is owed on each kind, if it was granted anything.
    pub standing: Vec<Standing>,
    /// How fast it would be on each kind, fastest first.
    pub rates: Vec<KindRate>,
}

/// What a class of jobs is owed on a kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// Name of the kind.
    pub kind: String,
    /// Gangs at once, on average.
    pub gangs: f64,
    /// Gang-rounds it is behind, or ahead where negative.
    pub owed: f64,
}

/// How fast something is on a kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KindRate {
    /// Name of the kind.
    pub kind: String,
    /// Steps per second of the gang.
    pub rate: f64,
    /// Watts of one GPU.
    pub watts: f64,
    /// Relative standard error; 0 for certainty.
    pub doubt: f64,
    /// `stated`, `initial`, `refined` or `measured`.
    pub source: String,
}

/// What training code says of itself.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Steps done since the job began.
    #[schemars(range(min = 0.0, max = 1e15))]
    pub steps: f64,
    /// Steps per second since the last report.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e12))]
    pub rate: Option<f64>,
    /// Whether all of these steps are saved.
    #[serde(default)]
    pub checkpointed: bool,
}

/// What training code should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Go on.
    Continue,
    /// Save everything and end.
    CheckpointAndStop,
}

/// The answer to a report of progress.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Instruction {
    /// What to do.
    pub action: Action,
    /// How long there is for it.
    pub grace_seconds: Option<f64>,
}

/// A host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Name of the kind of its GPUs.
    pub kind: String,
    /// Number of its first GPU.
    pub first_gpu: u32,
    /// How many it has.
    pub gpus: u32,
    /// GPUs that somebody holds.
    pub busy: u32,
    /// `up`, `down`, or `silent` when it has not been heard of for too long.
    pub state: String,
    /// Present draw of its GPUs.
    pub watts: f64,
}

/// Some of the hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Nodes {
    /// By number of their first GPU.
    pub nodes: Vec<Node>,
    /// Give this as `cursor` to go on; `null` at the end.
    pub next: Option<String>,
}

/// All GPUs at once, in columns: the n-th entry is GPU n.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gpus {
    /// Names that `kind` counts into.
    pub kinds: Vec<String>,
    /// Names that `tenant` counts into; a tenant's token sees its own only.
    pub tenants: Vec<String>,
    /// Kind of each GPU.
    pub kind: Vec<u16>,
    /// Who holds it: 0 nobody, 1 a job, 2 two jobs, 3 its node is away.
    pub state: Vec<u8>,
    /// The job, where there is one that the caller may see; 0 otherwise.
    pub job: Vec<u64>,
    /// The second job, as `job`.
    pub partner: Vec<u64>,
    /// Tenant of the job; −1 where there is none to see.
    pub tenant: Vec<i32>,
    /// Present draw.
    pub watts: Vec<f32>,
}

/// A GPU model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// GPUs of it.
    pub gpus: u32,
    /// Of these, held by jobs.
    pub busy: u32,
    /// Of these, shared by two.
    pub shared: u32,
    /// On nodes that are away.
    pub away: u32,
    /// Device memory.
    pub memory_gib: f64,
    /// Draw of an unused one.
    pub idle_watts: f64,
    /// Most that one may draw.
    pub peak_watts: f64,
    /// Present draw of all of them.
    pub watts: f64,
}

/// The kinds of this cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kinds {
    /// In the order of the cluster.
    pub kinds: Vec<Kind>,
}

/// What can be submitted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Workloads {
    /// Names.
    pub workloads: Vec<String>,
}

/// Who is owed a share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Entitlement relative to the others.
    pub weight: f64,
    /// The same as a part of all, 0 to 1.
    pub entitlement_ratio: f64,
    /// Part of the busy GPUs that it holds now.
    pub held_ratio: f64,
    /// GPUs that it holds now.
    pub gpus: f64,
    /// Jobs that wait.
    pub waiting: u64,
    /// Jobs that hold GPUs.
    pub running: u64,
    /// Jobs that were completed.
    pub completed: u64,
    /// GPU seconds held so far.
    pub gpu_seconds: f64,
    /// Energy so far.
    pub energy: Energy,
}

/// The tenants that the caller may see.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tenants {
    /// In the order they came.
    pub tenants: Vec<Tenant>,
}

/// A tenant's entitlement.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantRequest {
    /// Entitlement relative to the other tenants.
    #[schemars(range(min = 1e-6, max = 1e6))]
    pub weight: f64,
}

/// A way to divide GPUs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub summary: String,
    /// What it promises, in the words of `arles policies`.
    pub promises: Vec<String>,
    /// Whether it is in force.
    pub current: bool,
}

/// All of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Policies {
    /// In the order of `arles policies`.
    pub policies: Vec<Policy>,
}

/// Another policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// Its name.
    #[schemars(length(min = 1, max = 200))]
    pub policy: String,
}

/// Estimated and measured rates of one workload on one kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EstimateCell {
    /// What runs.
    pub workload: String,
    /// GPUs held at once.
    pub gang: u32,
    /// What runs beside it on the same GPU, if anything.
    pub partner: Option<String>,
    /// Name of the kind.
    pub kind: String,
    /// What the scheduler reckons with.
    pub rate: f64,
    /// Watts of one GPU, the same way.
    pub watts: f64,
    /// Relative standard error.
    pub doubt: f64,
    /// Where the estimate comes from.
    pub source: String,
    /// What the scheduler reckoned with before anything of this cell was measured.
    pub first_rate: Option<f64>,
    /// The last measured rate.
    pub measured_rate: Option<f64>,
    /// The last measured watts.
    pub measured_watts: Option<f64>,
    /// How often it was measured.
    pub measurements: u64,
}

/// Some of the estimates.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Estimates {
    /// By workload, gang, partner and kind.
    pub estimates: Vec<EstimateCell>,
    /// Give this as `cursor` to go on; `null` at the end.
    pub next: Option<String>,
}

/// A tenant's part of a decision.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Whose.
    pub tenant: String,
    /// Part of all that it is entitled to, 0 to 1.
    pub entitlement_ratio: f64,
    /// GPUs granted, by kind.
    pub gpus: Vec<f64>,
    /// Part of all usable GPUs.
    pub granted_ratio: f64,
    /// Its utility over that of an equal division; below 1 it would be better off alone. `null` where it wants nothing.
    pub sharing_ratio: Option<f64>,
    /// Its envy of each tenant in the order of `tenants`, 1 is indifference; `null` where there is none to tell.
    pub envy: Vec<Option<f64>>,
}

/// Something that a round changed for one job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Its number.
    pub job: u64,
    /// Whose it is.
    pub tenant: String,
    /// `start`, `stop` or `move`.
    pub what: String,
    /// Where it was: a kind and a number of GPUs.
    pub from: Option<String>,
    /// Where it goes.
    pub to: Option<String>,
}

/// The decision in force.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Allocation {
    /// Its round.
    pub round: u64,
    /// The round that is going on.
    pub current_round: u64,
    /// When it was made.
    pub decided_at: Option<f64>,
    /// The policy that made it.
    pub policy: String,
    /// Names of the kinds.
    pub kinds: Vec<String>,
    /// Names of the tenants.
    pub tenants: Vec<String>,
    /// Usable GPUs, by kind.
    pub capacity: Vec<f64>,
    /// By tenant.
    pub shares: Vec<Share>,
    /// How long the policy took.
    pub solve_seconds: Option<f64>,
    /// Why the policy gave no usable answer last time, if so.
    pub failure: Option<String>,
    /// What the last rounds that changed anything changed, newest first.
    pub changes: Vec<Change>,
}

/// Who got how much in a window, and whether that was fair.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Beginning of what is known of the window.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Seconds of it in which anything was divided.
    pub seconds: f64,
    /// Names of the kinds.
    pub kinds: Vec<String>,
    /// Names of the tenants.
    pub tenants: Vec<String>,
    /// By tenant; averages over the time in which it wanted anything.
    pub shares: Vec<Share>,
    /// The strongest envy among tenants; at most 1 is envy-free.
    pub worst_envy: Option<f64>,
    /// The least sharing ratio; at least 1 is sharing incentive.
    pub least_sharing: Option<f64>,
    /// Policies that were in force.
    pub policies: Vec<String>,
}

/// Energy of one job, tenant or kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EnergyRow {
    /// Number of the job, or name of the tenant or kind.
    pub name: String,
    /// While jobs held GPUs.
    pub energy: Energy,
    /// Of GPUs that nobody held; kinds only.
    pub unused_joules: f64,
    /// GPU seconds held.
    pub gpu_seconds: f64,
}

/// Energy accounts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EnergyAccount {
    /// `job`, `tenant` or `kind`.
    pub by: String,
    /// Beginning of the window, as near as is known.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// One line each; of jobs those that are live, and those that ended, newest first.
    pub rows: Vec<EnergyRow>,
    /// All that the cluster drew, unused GPUs included; tenants' tokens see their own.
    pub total_joules: f64,
    /// Give this as `cursor` to go on; `null` at the end.
    pub next: Option<String>,
}

/// When and where a job would run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Whether it would be taken in, and if not, why.
    pub refusal: Option<String>,
    /// When it would start, if that was seen.
    pub starts_at: Option<f64>,
    /// Where.
    pub kind: Option<String>,
    /// On how many nodes.
    pub nodes: Option<u32>,
    /// Whether it would share its GPU.
    pub shared: Option<bool>,
    /// At what rate.
    pub rate: Option<f64>,
    /// When it would end if left alone from then on.
    pub ends_at: Option<f64>,
    /// Why it would wait, where it would.
    pub reason: Option<Reason>,
    /// Rounds that were played ahead.
    pub rounds: u32,
}

/// What another policy would change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyForecast {
    /// The policy in force.
    pub from: String,
    /// The other.
    pub to: String,
    /// Names of the kinds.
    pub kinds: Vec<String>,
    /// By tenant: GPUs by kind under the policy in force and under the other.
    pub shares: Vec<ShareChange>,
    /// Jobs that would start, stop or move within the rounds played ahead (the first thousand).
    pub changes: Vec<Change>,
    /// How many.
    pub changed: u64,
    /// Estimated draw of everything under the policy in force.
    pub watts_before: Option<f64>,
    /// And under the other.
    pub watts_after: Option<f64>,
}

/// A tenant's GPUs before and after.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShareChange {
    /// Whose.
    pub tenant: String,
    /// GPUs by kind under the policy in force.
    pub before: Vec<f64>,
    /// And under the other.
    pub after: Vec<f64>,
}

/// The server, and who is asking.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Version of arles.
    pub version: String,
    /// `virtual`, or what else obeys.
    pub engine: String,
    /// Seconds of the scheduler's clock in one of the wall's.
    pub speed: f64,
    /// The scheduler's clock.
    pub now: f64,
    /// The round that is going on.
    pub round: u64,
    /// Time between two decisions.
    pub round_seconds: f64,
    /// The policy in force.
    pub policy: String,
    /// Who estimates.
    pub estimator: String,
    /// GPUs of the cluster.
    pub gpus: u32,
    /// Jobs that are not over.
    pub live_jobs: u64,
    /// The caller's scope: `admin`, `operator`, `read` or `tenant`.
    pub scope: String,
    /// The caller's tenant, if its token belongs to one.
    pub tenant: Option<String>,
    /// Number of the last event: where a listener may begin.
    pub last_event: u64,
    /// Present draw of everything.
    pub watts: f64,
}

/// A key to the API. The secret itself is told once, when it is made, and kept nowhere.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Unique.
    pub name: String,
    /// `admin`, `operator`, `read` or `tenant`.
    pub scope: String,
    /// Whose, for the scope `tenant`.
    pub tenant: Option<String>,
    /// When it was made, by the wall's clock.
    pub created_at: f64,
    /// The secret; only in the answer that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// All keys.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// By name.
    pub tokens: Vec<Token>,
}

/// A new key.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Unique.
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// What it is for.
    pub scope: crate::Scope,
    /// Whose, for the scope `tenant`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub tenant: Option<String>,
}

/// Something happened: the data of a server-sent event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Grows by one with each.
    pub id: u64,
    /// When.
    pub at: f64,
    /// `submitted`, `started`, `stopped`, `completed`, `failed`, `cancelled`, `requeued`, `round`, `policy`, `tenant`,
    /// `node`, `trouble`.
    pub what: String,
    /// Which job, if it is about one.
    pub job: Option<u64>,
    /// Whose.
    pub tenant: Option<String>,
    /// In words.
    pub text: String,
}

/// Whether the server is well.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Whether it is.
    pub ok: bool,
    /// What is the matter, if not.
    pub trouble: Vec<String>,
}
