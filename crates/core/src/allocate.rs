//! Allocation: a policy turns what is known into shares of GPU time.
//!
//! Every policy sees one [`Problem`] and answers with one [`Allocation`]: *grants* of bundles. Time-share
//! programs grant fractions of a gang, packing and queueing policies grant whole ones; everything after the
//! policy (placer, ledger, tests) has one path. An `Allocation` exists only through [`Allocation::check`], so
//! a wrong solver answer becomes an error at one place.
//!
//! A policy is one file below, which has its entry too, and a line in [`POLICIES`].

use crate::{JobId, KindId, Round, TenantId, Time, WorkloadId};
use arles_lp::InputError;
use serde::{Deserialize, Serialize};
use std::fmt;

mod allox;
mod ceei;
mod cost;
mod energy_greedy;
mod entitle;
mod fair_energy;
mod fair_power;
mod fifo;
mod finish_time;
mod gandiva;
mod gogh;
mod las;
mod makespan;
mod max_min;
mod max_min_packed;
mod modal;
mod oef_coop;
mod oef_noncoop;
mod power;
mod program;
mod queue;
mod shares;
mod sia;
mod sum;
mod table;
mod tariff;
mod throughput;
mod whole;

pub use arles_lp::Certificate;
pub use entitle::Entitlement;
pub use power::{EPSILON, PairPower, Power, UserPower};
pub use queue::serve_in_order;
pub use table::{FreeGpus, Grouping, PolicyEntry, Promise, find_policy};
pub(crate) use whole::WholeGangs;

/// All policies: fairness among tenants, fairness among jobs, other aims, queues.
pub static POLICIES: &[PolicyEntry] = &[
    oef_coop::ENTRY,
    oef_noncoop::ENTRY,
    ceei::ENTRY,
    fair_energy::ENTRY,
    fair_power::ENTRY,
    gandiva::ENTRY,
    max_min::FAIRNESS,
    max_min_packed::ENTRY,
    max_min::AGNOSTIC,
    finish_time::ENTRY,
    makespan::ENTRY,
    throughput::ENTRY,
    cost::ENTRY,
    gogh::ENTRY,
    energy_greedy::ENTRY,
    allox::ENTRY,
    sia::ENTRY,
    las::ENTRY,
    fifo::ENTRY,
    fifo::PACKED,
];

/// Jobs that a policy may treat as one: same tenant, workload, gang and promises. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClassId(pub u32);

/// One class of jobs, as a policy sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct User {
    /// The class of jobs it stands for.
    pub class: ClassId,
    /// Whose jobs they are.
    pub tenant: TenantId,
    /// What its tenant is owed relative to other tenants.
    pub tenant_weight: f64,
    /// What they run.
    pub workload: WorkloadId,
    /// GPUs that each holds at once.
    pub gang: u32,
    /// How many jobs there are.
    pub jobs: u32,
    /// Weight of each job within the tenant.
    pub job_weight: f64,
    /// Users that are owed as one, this one included: elastic jobs that are alike but for their present size. 1 for all others.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub parts: u32,
    /// Promised rate of each job, if any.
    pub floor: Option<f64>,
    /// The only job, where the policy asked for [`Grouping::Single`]; the first of those who are told of as one ([`PolicyEntry::first_come`]), of whom
    /// nothing is said below but when it arrived.
    pub job: Option<JobId>,
    /// Arrival of the oldest job (of the first that was submitted, for policies that divide among classes and weigh no energy: they are not told what follows).
    pub arrived: Time,
    /// GPU seconds held so far, all jobs together.
    pub attained_gpu_seconds: f64,
    /// Steps done so far, as far as is known, all jobs together.
    pub steps_done: f64,
    /// Steps still to do, all jobs together.
    pub steps_left: f64,
    /// The kind the only job holds now, where the policy asked for [`Grouping::Single`].
    pub held: Option<KindId>,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_one(parts: &u32) -> bool {
    *parts == 1
}

/// Rates of two workloads on one GPU of a kind.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PairRates {
    /// The lesser workload.
    pub a: WorkloadId,
    /// The other (or the same).
    pub b: WorkloadId,
    /// One GPU of this kind holds both.
    pub kind: KindId,
    /// Steps per second of `a`.
    pub rate_a: f64,
    /// Steps per second of `b`.
    pub rate_b: f64,
}

/// What there is to divide, and among whom. Everything a policy may know. Made by [`Problem::new`], which checks it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// The decision this belongs to.
    pub round: Round,
    /// When it is made.
    pub now: Time,
    /// Usable GPUs of each kind.
    pub capacity: Vec<f64>,
    /// The kind whose GPUs each kind takes: itself, or for a mode (a kind under a power limit, of which there are no GPUs of its own)
    /// the kind as sold. Empty where there are no modes. Only policies that know modes see rates above 0 there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sold_as: Vec<KindId>,
    /// What an hour of one GPU of each kind costs, in any currency.
    pub hourly_cost: Vec<f64>,
    /// Who wants some.
    pub users: Vec<User>,
    /// Rate of one gang alone, in steps per second, by user and kind (row-major); 0 where it does not fit.
    pub rates: Vec<f64>,
    /// Rates together, sorted by (a, b, kind); empty unless the policy asked for pairs.
    pub pairs: Vec<PairRates>,
    /// What everything draws; `None` unless the policy is energy-aware.
    pub power: Option<Power>,
}

impl Problem {
    /// A problem of `users` with their `rates` (users × kinds) on `capacity`; no pairs yet.
    ///
    /// # Errors
    /// A sentence about the first number that makes no sense.
    pub fn new(round: Round, capacity: Vec<f64>, users: Vec<User>, rates: Vec<f64>) -> Result<Self, ProblemError> {
        let hourly_cost = vec![1.0; capacity.len()];
        Self { round, capacity, hourly_cost, users, rates, ..Self::default() }.checked()
    }

    /// The same with what an hour of one GPU of each kind costs; 1 everywhere otherwise.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn with_costs(mut self, hourly_cost: Vec<f64>) -> Result<Self, ProblemError> {
        self.hourly_cost = hourly_cost;
        self.checked()
    }

    /// The same where some kinds are modes of others: for each kind, the kind whose GPUs it takes.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn with_modes(mut self, sold_as: Vec<KindId>) -> Result<Self, ProblemError> {
        self.sold_as = sold_as;
        self.checked()
    }

    /// The kind whose GPUs a kind takes: its own unless it is a mode.
    #[must_use]
    pub fn sold_as(&self, kind: usize) -> usize {
        self.sold_as.get(kind).map_or(kind, |base| base.index())
    }

    /// GPUs that a kind can have: those of the kind as sold.
    #[must_use]
    pub fn gpus_of(&self, kind: usize) -> f64 {
        self.capacity[self.sold_as(kind)]
    }

    /// The same, decided at a moment; at time 0 otherwise.
    #[must_use]
    pub fn at(mut self, now: Time) -> Self {
        self.now = now;
        self
    }

    /// The same with what is known of two jobs on one GPU.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn with_pairs(mut self, mut pairs: Vec<PairRates>) -> Result<Self, ProblemError> {
        pairs.sort_by_key(|p| (p.a, p.b, p.kind));
        self.pairs = pairs;
        self.power = None;
        self.checked()
    }

    /// The same with what everything draws; its pairs stand in the order of [`Problem::pairs`].
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn with_power(mut self, power: Power) -> Result<Self, ProblemError> {
        power.check(&self).map_err(ProblemError)?;
        self.power = Some(power);
        Ok(self)
    }

    fn checked(self) -> Result<Self, ProblemError> {
        self.check()?;
        Ok(self)
    }

    /// Every number finite and of the right sign, every list of the right length.
    pub(crate) fn check(&self) -> Result<(), ProblemError> {
        let refuse = |what: String| Err(ProblemError(what));
        let amount = |x: f64| x.is_finite() && x >= 0.0;
        if let Some((j, m)) = self.capacity.iter().enumerate().find(|(_, m)| !amount(**m)) {
            return refuse(format!("kind {j} has {m} GPUs; expected 0 or more"));
        }
        if self.capacity.len() > MOST_KINDS || self.users.len() > MOST_USERS {
            let (kinds, users) = (self.capacity.len(), self.users.len());
            return refuse(format!(
                "there are {kinds} kinds and {users} users; expected at most {MOST_KINDS} and {MOST_USERS}"
            ));
        }
        self.check_modes()?;
        if self.hourly_cost.len() != self.capacity.len() {
            let (costs, kinds) = (self.hourly_cost.len(), self.capacity.len());
            return refuse(format!("there are {costs} hourly costs for {kinds} kinds; expected one for each"));
        }
        if let Some((j, c)) = self.hourly_cost.iter().enumerate().find(|(_, c)| !(c.is_finite() && **c > 0.0)) {
            return refuse(format!("an hour of kind {j} costs {c}; expected more than 0"));
        }
        let wanted = self.users.len() * self.capacity.len();
        if self.rates.len() != wanted {
            return refuse(format!(
                "there are {} rates; expected {wanted}, one for each user and kind",
                self.rates.len()
            ));
        }
        if let Some((i, r)) = self.rates.iter().enumerate().find(|(_, r)| !amount(**r)) {
            let (user, kind) = (i / self.capacity.len(), i % self.capacity.len());
            return refuse(format!("user {user} has rate {r} on kind {kind}; expected 0 or more"));
        }
        for (i, user) in self.users.iter().enumerate() {
            let weight = user.tenant_weight * user.job_weight;
            if !(weight.is_finite() && weight > 0.0) {
                return refuse(format!("user {i} has weight {weight}; expected more than 0"));
            }
            if user.gang == 0 {
                return refuse(format!("user {i} has a gang of 0 GPUs; expected at least 1"));
            }
            if !(amount(user.steps_done) && amount(user.steps_left)) {
                let (done, left) = (user.steps_done, user.steps_left);
                return refuse(format!("user {i} has {done} steps done and {left} left; expected 0 or more"));
            }
        }
        for pair in &self.pairs {
            let known = pair.a <= pair.b && pair.kind.index() < self.capacity.len();
            if !known || !amount(pair.rate_a) || !amount(pair.rate_b) {
                return refuse(format!("the pair of {} and {} on {} makes no sense", pair.a, pair.b, pair.kind));
            }
        }
        match &self.power {
            Some(power) => power.check(self).map_err(ProblemError),
            None => Ok(()),
        }
    }

    /// Every mode is one of a kind that is none, and has no GPUs of its own.
    fn check_modes(&self) -> Result<(), ProblemError> {
        if !self.sold_as.is_empty() && self.sold_as.len() != self.kinds() {
            let (said, kinds) = (self.sold_as.len(), self.kinds());
            return Err(ProblemError(format!(
                "{said} of {kinds} kinds say whose GPUs they take; expected all or none"
            )));
        }
        for (mode, base) in self.sold_as.iter().enumerate().filter(|(j, base)| base.index() != *j) {
            if self.sold_as.get(base.index()) != Some(base) {
                return Err(ProblemError(format!("kind {mode} takes GPUs of {base}, which has none of its own")));
            }
            if self.capacity[mode] > 0.0 {
                let gpus = self.capacity[mode];
                return Err(ProblemError(format!("kind {mode} is a mode and has {gpus} GPUs; expected 0")));
            }
        }
        Ok(())
    }

    /// The indices of [`Problem::users`], as grants name them.
    pub fn user_indices(&self) -> std::ops::Range<u32> {
        0..user_index(self.users.len())
    }

    /// Number of kinds.
    #[must_use]
    pub fn kinds(&self) -> usize {
        self.capacity.len()
    }

    /// Rates of one gang of a user, by kind.
    #[must_use]
    pub fn rates(&self, user: usize) -> &[f64] {
        &self.rates[user * self.kinds()..(user + 1) * self.kinds()]
    }

    /// Rate of a user per GPU it holds, by kind; 0 on kinds that have fewer GPUs than its gang.
    pub fn gpu_rates(&self, user: usize) -> impl Iterator<Item = f64> + Clone {
        let gang = f64::from(self.users[user].gang);
        let enough = move |(j, &rate): (usize, &f64)| if self.gpus_of(j) >= gang { rate / gang } else { 0.0 };
        self.rates(user).iter().enumerate().map(enough)
    }

    /// Most GPUs that a user can hold: all its gangs at once.
    #[must_use]
    pub fn most_gpus(&self, user: usize) -> f64 {
        f64::from(self.users[user].jobs) * f64::from(self.users[user].gang)
    }

    /// Speed-ups w, users × kinds: rate on one GPU of a kind over the rate on the slowest kind that the user fits on. 0
    /// where it does not fit or the kind has fewer GPUs than its gang. The slowest kind counts even while none of it
    /// is up, so that a failure elsewhere does not change what a user is worth. A GPU that has modes is worth what it is in the best of them.
    #[must_use]
    pub fn speedups(&self) -> Vec<f64> {
        let mut w = self.mode_speedups();
        if !self.sold_as.is_empty() {
            for row in w.chunks_exact_mut(self.kinds()) {
                for j in (0..row.len()).filter(|&j| self.sold_as(j) != j) {
                    let rate = std::mem::take(&mut row[j]);
                    row[self.sold_as(j)] = row[self.sold_as(j)].max(rate);
                }
            }
        }
        w
    }

    /// The same, each mode of a GPU by itself.
    pub(crate) fn mode_speedups(&self) -> Vec<f64> {
        let mut w = Vec::with_capacity(self.rates.len());
        for (u, user) in self.users.iter().enumerate() {
            let slowest = self.slowest_rate(u);
            w.extend(self.gpu_rates(u).map(|r| r * f64::from(user.gang) / slowest));
        }
        w
    }

    /// The rate of one gang on the slowest kind that a user fits on, that kind in its best mode; infinite if it fits on none.
    pub(crate) fn slowest_rate(&self, user: usize) -> f64 {
        let rates = self.rates(user);
        if self.sold_as.is_empty() {
            return rates.iter().copied().filter(|&r| r > 0.0).fold(f64::INFINITY, f64::min);
        }
        let best = self.best_by_kind(rates);
        best.into_iter().filter(|&r| r > 0.0).fold(f64::INFINITY, f64::min)
    }

    /// The best of every kind's modes in a row by kind, at the kind; 0 at modes.
    pub(crate) fn best_by_kind(&self, row: &[f64]) -> Vec<f64> {
        let mut best = vec![0.0; row.len()];
        row.iter().enumerate().for_each(|(j, rate)| best[self.sold_as(j)] = f64::max(best[self.sold_as(j)], *rate));
        best
    }

    /// The rates of two workloads on one GPU of a kind, in the order asked.
    #[must_use]
    pub fn together(&self, first: WorkloadId, second: WorkloadId, kind: KindId) -> Option<(f64, f64)> {
        let (a, b) = if first <= second { (first, second) } else { (second, first) };
        let at = self.pairs.binary_search_by(|p| (p.a, p.b, p.kind).cmp(&(a, b, kind))).ok()?;
        let pair = &self.pairs[at];
        Some(if first == a { (pair.rate_a, pair.rate_b) } else { (pair.rate_b, pair.rate_a) })
    }
}

/// As many as there are ids for. A problem is checked once, so that an index is never cut off on its way into a grant.
const MOST_KINDS: usize = u16::MAX as usize;
const MOST_USERS: usize = u32::MAX as usize;

/// The id of the kind at an index of a problem.
///
/// # Panics
/// Beyond [`MOST_KINDS`]: no problem has so many.
fn kind_id(index: usize) -> KindId {
    KindId(u16::try_from(index).expect("a problem's kinds have ids"))
}

/// The index of a user as grants name it.
///
/// # Panics
/// Beyond [`MOST_USERS`]: no problem has so many.
fn user_index(index: usize) -> u32 {
    u32::try_from(index).expect("a problem's users have indices")
}

/// A problem that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProblemError(String);

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProblemError {}

/// Who is in a bundle: one user's gang, or the jobs of two users on one GPU. Indices into [`Problem::users`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Members {
    /// A gang alone.
    One(u32),
    /// Two jobs of gang 1 side by side; the lesser index first.
    Two(u32, u32),
}

/// A bundle and how many of it run at once, on average over time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// On which kind.
    pub kind: KindId,
    /// Whose gang, or which two jobs on one GPU.
    pub members: Members,
    /// How many gangs at once; fractions are shares of time.
    pub gangs: f64,
}

/// What a policy proposes, not yet checked.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Proposal {
    /// Who gets what.
    pub grants: Vec<Grant>,
    /// What the policy maximises, where it maximises something.
    pub objective: Option<f64>,
    /// Bounds on the objective, where the solver gives them.
    pub certificate: Option<Certificate>,
    /// How much the objective would rise with one more GPU of each kind, everybody measured as it is, where the solver says; else
    /// empty. Where whole jobs are granted, one more GPU raises it by no more than this.
    pub prices: Vec<f64>,
    /// The same of one more watt, where power is limited and the solver says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watt_price: Option<f64>,
    /// Packings: whole gangs that can run beside each other, where somebody found out of which the grants are a mixture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packings: Vec<Vec<AtOnce>>,
}

/// A user's index, a kind, and how many gangs of this user run on this kind at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AtOnce(pub u32, pub KindId, pub u32);

/// Shares over bundles that keep every rule of the problem they were made for. Made by [`Allocation::check`] alone; one that is
/// read back from a journal is checked as far as that goes without its problem, and by [`Allocation::check_again`] against the problem
/// before anybody relies on it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Recorded")]
pub struct Allocation {
    round: Round,
    proposal: Proposal,
}

/// An allocation as a journal holds it, not yet checked.
#[derive(Deserialize)]
struct Recorded {
    round: Round,
    proposal: Proposal,
}

impl TryFrom<Recorded> for Allocation {
    type Error = AllocateError;

    fn try_from(recorded: Recorded) -> Result<Self, AllocateError> {
        let Recorded { round, proposal } = recorded;
        proposal.grants.iter().try_for_each(check_amount)?;
        check_prices(proposal.prices.iter().chain(&proposal.watt_price))?;
        Ok(Self { round, proposal })
    }
}

/// A rule that a proposal breaks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AllocateError {
    /// More GPUs granted than there are.
    OverCapacity {
        /// The kind that was promised more than once.
        kind: KindId,
        /// GPUs granted, all grants together.
        granted: f64,
        /// GPUs that the problem has.
        capacity: f64,
    },
    /// A user was granted more gangs than it has jobs.
    MoreThanJobs {
        /// Index of the user.
        user: u32,
        /// Gangs granted, all kinds together.
        granted: f64,
        /// Gangs that the user could have at most.
        jobs: u32,
    },
    /// A grant that is negative, not a number, or names something that is not there.
    Nonsense {
        /// What is wrong.
        what: String,
    },
    /// The solver ended without an answer.
    NoAnswer {
        /// How it ended.
        status: String,
    },
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverCapacity { kind, granted, capacity } => {
                write!(f, "{granted:.6} GPUs of {kind} were granted where {capacity} are usable")
            }
            Self::MoreThanJobs { user, granted, jobs } => {
                write!(f, "user {user} was granted {granted:.6} gangs for its {jobs} jobs")
            }
            Self::Nonsense { what } => write!(f, "the proposal makes no sense: {what}"),
            Self::NoAnswer { status } => write!(f, "the solver gave no answer: {status}"),
        }
    }
}

impl std::error::Error for AllocateError {}

impl From<InputError> for AllocateError {
    fn from(error: InputError) -> Self {
        Self::NoAnswer { status: error.to_string() }
    }
}

/// Slack for sums of rounded shares, relative to what they are compared with.
const TOLERANCE: f64 = 1e-6;

impl Allocation {
    /// Accepts a proposal that keeps the rules: capacity, no more gangs than jobs, only kinds that fit, pairs
    /// of single-GPU jobs whose joint rates are known, a pair's GPU counted once.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(problem: &Problem, proposal: Proposal) -> Result<Self, AllocateError> {
        let mut used = vec![0.0; problem.kinds()];
        let mut gangs = vec![0.0; problem.users.len()];
        for grant in &proposal.grants {
            check_grant(problem, grant)?;
            let (first, second) = match grant.members {
                Members::One(u) => (u, None),
                Members::Two(u, v) => (u, Some(v)),
            };
            used[problem.sold_as(grant.kind.index())] += grant.gangs * f64::from(problem.users[first as usize].gang);
            gangs[first as usize] += grant.gangs;
            if let Some(v) = second {
                gangs[v as usize] += grant.gangs;
            }
        }
        for (j, (&granted, &capacity)) in used.iter().zip(&problem.capacity).enumerate() {
            if granted > capacity + TOLERANCE * capacity.max(1.0) {
                return Err(AllocateError::OverCapacity { kind: kind_id(j), granted, capacity });
            }
        }
        for (u, (&granted, user)) in gangs.iter().zip(&problem.users).enumerate() {
            if granted > f64::from(user.jobs) * (1.0 + TOLERANCE) {
                return Err(AllocateError::MoreThanJobs { user: user_index(u), granted, jobs: user.jobs });
            }
        }
        check_prices(proposal.prices.iter().chain(&proposal.watt_price))?;
        if !proposal.prices.is_empty() && proposal.prices.len() != problem.kinds() {
            let (prices, kinds) = (proposal.prices.len(), problem.kinds());
            return nonsense(format!("{prices} prices for {kinds} kinds"));
        }
        proposal.packings.iter().try_for_each(|packing| check_packing(problem, packing))?;
        Ok(Self { round: problem.round, proposal })
    }

    /// The same, if it keeps the rules of `problem`: for whoever did not see it made.
    ///
    /// # Errors
    /// The first rule that is broken, which may be that it was made for another round.
    pub fn check_again(self, problem: &Problem) -> Result<Self, AllocateError> {
        if self.round != problem.round {
            return nonsense(format!("it was made for {}, not for {}", self.round, problem.round));
        }
        Self::check(problem, self.proposal)
    }

    /// The decision it was made for.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    /// Who gets what.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.proposal.grants
    }

    /// What the policy maximised, if anything.
    #[must_use]
    pub fn objective(&self) -> Option<f64> {
        self.proposal.objective
    }

    /// Price of each kind in the policy's objective; empty where the solver gave none.
    #[must_use]
    pub fn prices(&self) -> &[f64] {
        &self.proposal.prices
    }

    /// What one more watt is worth to the policy's objective, where power is limited.
    #[must_use]
    pub fn watt_price(&self) -> Option<f64> {
        self.proposal.watt_price
    }

    /// Whole gangs that can run beside each other and of which the grants are a mixture; empty where nobody looked.
    #[must_use]
    pub fn packings(&self) -> &[Vec<AtOnce>] {
        &self.proposal.packings
    }

    /// Bounds on the objective, where the solver gave them.
    #[must_use]
    pub fn certificate(&self) -> Option<Certificate> {
        self.proposal.certificate
    }
}

fn nonsense<T>(what: String) -> Result<T, AllocateError> {
    Err(AllocateError::Nonsense { what })
}

/// What must be true of a grant whatever the problem is.
fn check_amount(grant: &Grant) -> Result<(), AllocateError> {
    if !(grant.gangs.is_finite() && grant.gangs >= 0.0) {
        return nonsense(format!("a share of {}", grant.gangs));
    }
    match grant.members {
        Members::Two(u, v) if u > v => {
            nonsense(format!("users {u} and {v} cannot share a GPU: pairs are of single-GPU jobs, in order"))
        }
        _ => Ok(()),
    }
}

/// What must be true of prices whatever the problem is.
fn check_prices<'a>(prices: impl Iterator<Item = &'a f64>) -> Result<(), AllocateError> {
    match prices.enumerate().find(|(_, price)| !price.is_finite()) {
        Some((j, price)) => nonsense(format!("a price of {price} for kind {j}")),
        None => Ok(()),
    }
}

fn check_grant(problem: &Problem, grant: &Grant) -> Result<(), AllocateError> {
    check_amount(grant)?;
    if grant.kind.index() >= problem.kinds() {
        return nonsense(format!("a share of {}, which is not in the problem", grant.kind));
    }
    let rate = |u: u32| problem.users.get(u as usize).map(|_| problem.rates(u as usize)[grant.kind.index()]);
    let fits = |u: u32| rate(u).is_some_and(|r| r > 0.0);
    match grant.members {
        Members::One(u) if !fits(u) => nonsense(format!("user {u} was granted {}, where it does not fit", grant.kind)),
        Members::One(_) => Ok(()),
        Members::Two(u, v) => {
            let (Some(first), Some(second)) = (problem.users.get(u as usize), problem.users.get(v as usize)) else {
                return nonsense(format!("a pair of users {u} and {v}, one of which is not there"));
            };
            if first.gang != 1 || second.gang != 1 {
                return nonsense(format!(
                    "users {u} and {v} cannot share a GPU: pairs are of single-GPU jobs, in order"
                ));
            }
            match problem.together(first.workload, second.workload, grant.kind) {
                Some(_) => Ok(()),
                None => nonsense(format!("users {u} and {v} do not fit together on {}", grant.kind)),
            }
        }
    }
}

/// Gangs that run beside each other keep the rules that grants keep.
fn check_packing(problem: &Problem, packing: &[AtOnce]) -> Result<(), AllocateError> {
    let grant = |&AtOnce(user, kind, gangs): &AtOnce| Grant { kind, members: Members::One(user), gangs: gangs.into() };
    let grants = packing.iter().map(grant).collect();
    Allocation::check(problem, Proposal { grants, ..Proposal::default() }).map(|_| ())
}

/// Turns a problem into shares. A policy may keep its last answer to start the next from, but nothing else: the same
/// problem has the same answer to within its certificate, and the same problems in the same order to the bit.
pub trait Policy: Send + Sync {
    /// Divides the GPUs.
    ///
    /// # Errors
    /// When no answer was found, or the one that was found breaks a rule.
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError>;
}
