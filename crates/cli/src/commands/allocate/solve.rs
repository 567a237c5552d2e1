//! From a question to a policy's answer and its audit.
//!
//! A user of the question becomes one class of jobs; without a gang or a number of jobs, of as many single-GPU jobs as there
//! are GPUs for it. Its claim (its part of its tenant's weight) is the class's as a whole, however many jobs that makes, so
//! `gpus_max` caps what a user can hold and changes nothing else. Policies that order single jobs see every job by itself.
//!
//! A fractional `gpus_max` is made whole by counting everybody's GPUs in tenths, hundredths or thousandths; a part of a GPU works
//! at that part of the rate, so steps, floors and costs stay what they are, and the policy's entry says what that does to its
//! objective and prices ([`PolicyEntry::objective_degree`]). Policies that grant whole GPUs round it down instead, since part
//! of a GPU is nothing to them.

use super::question::{self, Question, STEPS_LEFT};
use crate::fault::Failed;
use anyhow::{Result, anyhow};
use arles_core::allocate::{
    Allocation, Certificate, ClassId, Entitlement, Grouping, Members, PairRates, PolicyEntry, Power, Problem,
    ProblemError, Promise, User,
};
use arles_core::audit::Audit;
use arles_core::{JobId, KindId, Library, Round, TenantId, Time, WorkloadId};
use std::collections::BTreeMap;
use std::time::Instant;

/// A policy's answer, with GPUs counted whole.
pub(super) struct Solved {
    /// GPUs by user and kind; of a shared one, the part that is its rate there over its rate alone.
    pub(super) shares: Vec<Vec<f64>>,
    /// Shared GPUs: the two users, the kind, and how many.
    pub(super) shared: Vec<([usize; 2], usize, f64)>,
    /// GPUs in use by kind, shared ones once.
    pub(super) used: Vec<f64>,
    /// Steps a second, by user.
    pub(super) utilities: Vec<f64>,
    /// Of the same, with GPUs counted in parts: only its ratios are of use.
    pub(super) audit: Audit,
    pub(super) objective: Option<f64>,
    pub(super) certificate: Option<Certificate>,
    /// By kind; empty where the policy has none.
    pub(super) prices: Vec<f64>,
    /// The objective counts GPUs in this many parts, since it also counts jobs whose floor is missed; else 1.
    pub(super) objective_parts: f64,
    /// In how many parts a GPU was counted.
    pub(super) parts: f64,
    pub(super) seconds: f64,
}

impl Solved {
    /// Whether more of a kind is worth nothing to the objective, but for the solver's last digits.
    pub(super) fn is_free(&self, j: usize, kinds: &[question::Kind]) -> bool {
        let worth: f64 = self.prices.iter().zip(kinds).map(|(price, kind)| price * f64::from(kind.count)).sum();
        let size = worth.max(self.objective.unwrap_or(0.0).abs());
        self.prices.get(j).is_none_or(|price| price * f64::from(kinds[j].count) <= 1e-6 * size)
    }
}

/// A floor is missed by more than this part of it.
const KEPT: f64 = 1e-6;

/// Most jobs that are shown to a policy one by one.
const MOST_JOBS: u64 = 200_000;

/// Asks a policy and audits what it says.
pub(super) fn solve(policy: &'static PolicyEntry, question: &Question) -> Result<Solved> {
    let scale = scale(policy, question);
    let case = Case::new(policy, question, scale)?;
    let start = Instant::now();
    let allocation = case.allocate()?;
    let seconds = start.elapsed().as_secs_f64();
    let Holdings { x, used, shared } = case.holdings(&allocation);
    let shares: Vec<Vec<f64>> =
        x.chunks(question.kinds.len()).map(|row| row.iter().map(|x| x / scale).collect()).collect();
    let worth = |(user, row): (&question::User, &Vec<f64>)| user.rates.iter().zip(row).map(|(r, x)| r * x).sum();
    let utilities: Vec<f64> = question.users.iter().zip(&shares).map(worth).collect();
    let audit = match case.single {
        None => Audit::of(&case.problem, policy.entitlement, &allocation),
        Some(_) => Audit::of_holdings(&case.problem, policy.entitlement, x)?,
    };
    let units = Units::new(policy, question, scale, &utilities);
    let bounds = |c: Certificate| Certificate { lower: c.lower / units.objective, upper: c.upper / units.objective };
    Ok(Solved {
        shares,
        shared: shared.into_iter().map(|((users, kind), gpus)| (users, kind, gpus / scale)).collect(),
        used: used.iter().map(|gpus| gpus / scale).collect(),
        utilities,
        audit,
        objective: allocation.objective().map(|value| value / units.objective),
        certificate: allocation.certificate().map(bounds),
        prices: allocation.prices().iter().map(|price| price * units.price).collect(),
        objective_parts: units.parts,
        parts: scale,
        seconds,
    })
}

/// Audits any division of the GPUs, by the claims that a policy divides by.
pub(super) fn holdings_audit(policy: &'static PolicyEntry, question: &Question, shares: &[Vec<f64>]) -> Result<Audit> {
    let scale = scale(policy, question);
    let case = Case::new(policy, question, scale)?;
    let x = shares.iter().flatten().map(|gpus| gpus * scale).collect();
    Ok(Audit::of_holdings(&case.problem, policy.entitlement, x)?)
}

/// In how many parts a policy counts each GPU of a question.
fn scale(policy: &PolicyEntry, question: &Question) -> f64 {
    if policy.promises(Promise::Whole) { 1.0 } else { question.parts() }
}

/// How an answer in parts of GPUs becomes one in GPUs.
struct Units {
    /// What the objective is divided by.
    objective: f64,
    /// What prices are multiplied by: a price is objective per part.
    price: f64,
    /// In how many parts the objective counts GPUs all the same.
    parts: f64,
}

impl Units {
    fn new(policy: &PolicyEntry, question: &Question, scale: f64, utilities: &[f64]) -> Self {
        let missed =
            |(user, rate): (&question::User, &f64)| user.floor.is_some_and(|floor| *rate < floor * (1.0 - KEPT));
        let missed = question.users.iter().zip(utilities).any(missed);
        match policy.objective_degree {
            // What a missed floor costs is counted in jobs, and parts of GPUs make more jobs of some users and not of others.
            Some(_) if missed && policy.promises(Promise::FloorsKept) => {
                Self { objective: 1.0, price: scale, parts: scale }
            }
            Some(degree) => Self { objective: scale.powi(degree), price: scale.powi(1 - degree), parts: 1.0 },
            // Without an objective there is nothing to convert, and whole GPUs have no parts.
            None => Self { objective: 1.0, price: 1.0, parts: 1.0 },
        }
    }
}

/// Who holds what, in parts of GPUs.
struct Holdings {
    /// By user and kind.
    x: Vec<f64>,
    used: Vec<f64>,
    /// By the two users and the kind.
    shared: BTreeMap<([usize; 2], usize), f64>,
}

/// A question as a policy sees it.
struct Case {
    policy: &'static PolicyEntry,
    /// One user for each of the question.
    problem: Problem,
    /// What the policy is asked, where that is every job by itself, and whose job each user is.
    single: Option<(Problem, Vec<usize>)>,
}

impl Case {
    fn new(policy: &'static PolicyEntry, question: &Question, scale: f64) -> Result<Self> {
        let users: Vec<User> = (0..question.users.len()).map(|l| class(policy, question, scale, l)).collect();
        // A class without jobs can be granted nothing.
        let rates = |l: usize| {
            let (user, gpus) = (&question.users[l], f64::from(users[l].gang) / scale);
            user.rates.iter().map(move |rate| rate * gpus)
        };
        let rows: Vec<Vec<f64>> = users
            .iter()
            .enumerate()
            .map(|(l, user)| rates(l).map(|rate| if user.jobs > 0 { rate } else { 0.0 }).collect())
            .collect();
        let capacity: Vec<f64> = question.kinds.iter().map(|kind| f64::from(kind.count) * scale).collect();
        let costs: Vec<f64> = question.kinds.iter().map(|kind| kind.hourly_cost / scale).collect();
        let problem = |users: Vec<User>, rates: Vec<f64>| {
            let problem = Problem::new(Round(0), capacity.clone(), users, rates)?.with_costs(costs.clone())?;
            let problem = if policy.pairs { problem.with_pairs(pairs(question, scale))? } else { problem };
            if policy.energy_aware { with_power(problem, question, scale) } else { Ok(problem) }
        };
        let single = match policy.grouping {
            Grouping::Alike => None,
            Grouping::Single => {
                let (jobs, of) = single(policy, &users)?;
                let rates = of.iter().flat_map(|&l| rows[l].iter().copied()).collect();
                Some((problem(jobs, rates)?, of))
            }
        };
        Ok(Self { policy, problem: problem(users, rows.concat())?, single })
    }

    fn allocate(&self) -> Result<Allocation> {
        let asked = self.single.as_ref().map_or(&self.problem, |(problem, _)| problem);
        let answer = (self.policy.make)().allocate(asked);
        Ok(answer.map_err(|e| Failed(format!("{} found no answer: {e}", self.policy.name)))?)
    }

    /// Parts of GPUs by user and kind, and those that two users share.
    fn holdings(&self, allocation: &Allocation) -> Holdings {
        let k = self.problem.kinds();
        let (x, used) = (vec![0.0; self.problem.users.len() * k], vec![0.0; k]);
        let mut held = Holdings { x, used, shared: BTreeMap::new() };
        let whose = |user: u32| self.single.as_ref().map_or(user as usize, |(_, of)| of[user as usize]);
        for grant in allocation.grants() {
            let j = grant.kind.index();
            match grant.members {
                Members::One(user) => {
                    let l = whose(user);
                    let gpus = grant.gangs * f64::from(self.problem.users[l].gang);
                    held.x[l * k + j] += gpus;
                    held.used[j] += gpus;
                }
                Members::Two(a, b) => {
                    let users = [whose(a), whose(b)];
                    let [first, second] = users.map(|l| self.problem.users[l].workload);
                    let (one, two) = self.problem.together(first, second, grant.kind).unwrap_or_default();
                    for (l, rate) in users.into_iter().zip([one, two]) {
                        held.x[l * k + j] += grant.gangs * rate / self.problem.rates(l)[j];
                    }
                    held.used[j] += grant.gangs;
                    *held.shared.entry((users, j)).or_default() += grant.gangs;
                }
            }
        }
        held
    }
}

/// The pairs of a question, for policies that put two jobs on one GPU.
fn pairs(question: &Question, scale: f64) -> Vec<PairRates> {
    let pair = |pair: &question::Pair| {
        let ([a, b], [rate_a, rate_b]) = (pair.users, pair.rates);
        let ((a, rate_a), (b, rate_b)) = if a <= b { ((a, rate_a), (b, rate_b)) } else { ((b, rate_b), (a, rate_a)) };
        PairRates {
            a: WorkloadId(a as u32),
            b: WorkloadId(b as u32),
            kind: KindId(pair.kind as u16),
            rate_a: rate_a / scale,
            rate_b: rate_b / scale,
        }
    };
    question.pairs.iter().map(pair).collect()
}

/// The problem with power by the kinds' specifications: a GPU at work draws its most, and 1 W where the library does not
/// know the kind, so that fewest GPUs is least power. A part of a GPU draws its part.
fn with_power(problem: Problem, question: &Question, scale: f64) -> Result<Problem, ProblemError> {
    let mut power = Power::uniform(&problem);
    power.users.iter_mut().for_each(|user| user.watts.fill(1.0 / scale));
    power.pairs.iter_mut().for_each(|pair| pair.watts = 1.0 / scale);
    for (j, kind) in question.kinds.iter().enumerate() {
        if let Ok(known) = Library::builtin().kind(&kind.name) {
            power.idle_watts[j] = known.idle_watts / scale;
            power.users.iter_mut().for_each(|user| user.watts[j] = known.max_watts / scale);
        }
    }
    problem.with_power(power)
}

/// A user of the question as a class of jobs.
fn class(policy: &PolicyEntry, question: &Question, scale: f64, l: usize) -> User {
    let user = &question.users[l];
    let all: f64 = question.kinds.iter().map(|kind| f64::from(kind.count)).sum();
    let most = user.gpus_max.unwrap_or(f64::INFINITY);
    // One gang more than there are GPUs for, where that costs nothing: a cap that just binds would have a price.
    let all = match policy.grouping {
        Grouping::Alike => all + f64::from(user.gang),
        Grouping::Single => all,
    };
    let (gang, fit) = match (user.is_divisible(), user.jobs) {
        (true, _) => (1.0, most.min(all) * scale),
        (false, None) => (f64::from(user.gang) * scale, most.min(all) / f64::from(user.gang)),
        (false, Some(jobs)) => (f64::from(user.gang) * scale, f64::from(jobs).min(most / f64::from(user.gang))),
    };
    let jobs = (fit + 1e-9).floor();
    let job_weight = match policy.entitlement {
        Entitlement::Tenants => 1.0,
        Entitlement::Jobs => 1.0 / (f64::from(user.siblings) * jobs.max(1.0)),
    };
    let tenant = question.users.iter().position(|other| other.tenant == user.tenant).unwrap_or(l);
    User {
        class: ClassId(l as u32),
        tenant: TenantId(tenant as u32),
        tenant_weight: user.weight,
        workload: WorkloadId(l as u32),
        gang: gang as u32,
        jobs: jobs as u32,
        job_weight,
        parts: 1,
        floor: user.floor.filter(|_| jobs > 0.0).map(|floor| floor / jobs),
        job: None,
        arrived: Time::ZERO,
        attained_gpu_seconds: 0.0,
        steps_done: 0.0,
        steps_left: user.steps_left.unwrap_or(STEPS_LEFT),
        held: None,
    }
}

/// Every job by itself, in the order of the question, and whose it is.
fn single(policy: &PolicyEntry, users: &[User]) -> Result<(Vec<User>, Vec<usize>)> {
    let all: u64 = users.iter().map(|user| u64::from(user.jobs)).sum();
    if all > MOST_JOBS {
        let name = policy.name;
        return Err(anyhow!(
            "{name} orders jobs one by one, and these users could run {all} at once; give them gpus_max or jobs, at most {MOST_JOBS} in all"
        ));
    }
    let (mut jobs, mut of) = (Vec::new(), Vec::new());
    for (l, user) in users.iter().enumerate() {
        let job_weight = match policy.entitlement {
            Entitlement::Tenants => user.job_weight / f64::from(user.jobs.max(1)),
            Entitlement::Jobs => user.job_weight,
        };
        for _ in 0..user.jobs {
            let job = Some(JobId(jobs.len() as u64));
            let steps_left = user.steps_left / f64::from(user.jobs);
            jobs.push(User { job, jobs: 1, job_weight, steps_left, ..user.clone() });
            of.push(l);
        }
    }
    Ok((jobs, of))
}

#[cfg(test)]
mod tests;
