//! From a question to a policy's answer and its audit.
//!
//! A user of the question becomes one class of jobs; without a gang or a number of jobs, of as many single-GPU jobs as there
//! are GPUs for it. Its claim (its part of its tenant's weight) is the class's as a whole, however many jobs that makes, so
//! `gpus_max` caps what a user can hold and changes nothing else. Policies that order single jobs see every job by itself.
//!
//! A fractional `gpus_max` is made whole by counting everybody's GPUs in tenths, hundredths or thousandths; a part of a GPU works
//! at that part of the rate, so steps, floors and costs stay what they are. Policies that grant whole GPUs round it down
//! instead, since part of a GPU is nothing to them.

use super::question::{self, Question, STEPS_LEFT};
use crate::fault::Failed;
use anyhow::{Result, anyhow};
use arles_core::allocate::{
    Allocation, Certificate, ClassId, Entitlement, Grouping, Members, PolicyEntry, Power, Problem, ProblemError,
    Promise, User,
};
use arles_core::audit::Audit;
use arles_core::{JobId, Library, Round, TenantId, Time, WorkloadId};
use std::time::Instant;

/// A policy's answer, with GPUs counted whole.
pub(super) struct Solved {
    /// GPUs by user and kind.
    pub(super) shares: Vec<Vec<f64>>,
    /// Steps a second, by user.
    pub(super) utilities: Vec<f64>,
    /// Of the same, with GPUs counted in parts: only its ratios are of use.
    pub(super) audit: Audit,
    pub(super) objective: Option<f64>,
    pub(super) certificate: Option<Certificate>,
    /// By kind; empty where the policy has none.
    pub(super) prices: Vec<f64>,
    /// The objective counts GPUs in this many parts, since nobody can tell what it would be without; else 1.
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

/// Most jobs that are shown to a policy one by one.
const MOST_JOBS: u64 = 200_000;

/// Asks a policy and audits what it says.
pub(super) fn solve(policy: &'static PolicyEntry, question: &Question) -> Result<Solved> {
    let scale = if policy.promises.contains(&Promise::Whole) { 1.0 } else { question.parts() };
    let case = Case::new(policy, question, scale)?;
    let start = Instant::now();
    let allocation = case.allocate()?;
    let seconds = start.elapsed().as_secs_f64();
    let x = case.holdings(&allocation);
    let shares: Vec<Vec<f64>> =
        x.chunks(question.kinds.len()).map(|row| row.iter().map(|x| x / scale).collect()).collect();
    let worth = |(user, row): (&question::User, &Vec<f64>)| user.rates.iter().zip(row).map(|(r, x)| r * x).sum();
    let utilities = question.users.iter().zip(&shares).map(worth).collect();
    let audit = Audit::of_holdings(&case.problem, policy.entitlement, x)?;
    // A price is objective per part.
    let (unit, per_gpu, objective_parts) = match case.degree(&allocation)? {
        Some(Degree::PerGpu) => (scale, 1.0, 1.0),
        Some(Degree::Fixed) => (1.0, scale, 1.0),
        None => (1.0, scale, scale),
    };
    let bounds = |c: Certificate| Certificate { lower: c.lower / unit, upper: c.upper / unit };
    Ok(Solved {
        shares,
        utilities,
        audit,
        objective: allocation.objective().map(|value| value / unit),
        certificate: allocation.certificate().map(bounds),
        prices: allocation.prices().iter().map(|price| price * per_gpu).collect(),
        objective_parts,
        parts: scale,
        seconds,
    })
}

/// What becomes of an objective when GPUs are counted in smaller parts.
enum Degree {
    /// It counts GPUs.
    PerGpu,
    /// It does not.
    Fixed,
}

/// A question as a policy sees it.
struct Case<'q> {
    policy: &'static PolicyEntry,
    question: &'q Question,
    scale: f64,
    /// One user for each of the question.
    problem: Problem,
    /// What the policy is asked, where that is every job by itself, and whose job each user is.
    single: Option<(Problem, Vec<usize>)>,
}

impl<'q> Case<'q> {
    fn new(policy: &'static PolicyEntry, question: &'q Question, scale: f64) -> Result<Self> {
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
            if policy.energy_aware { with_power(problem, question) } else { Ok(problem) }
        };
        let single = match policy.grouping {
            Grouping::Alike => None,
            Grouping::Single => {
                let (jobs, of) = single(policy, &users)?;
                let rates = of.iter().flat_map(|&l| rows[l].iter().copied()).collect();
                Some((problem(jobs, rates)?, of))
            }
        };
        Ok(Self { policy, question, scale, problem: problem(users, rows.concat())?, single })
    }

    fn allocate(&self) -> Result<Allocation> {
        let asked = self.single.as_ref().map_or(&self.problem, |(problem, _)| problem);
        let answer = (self.policy.make)().allocate(asked);
        Ok(answer.map_err(|e| Failed(format!("{} found no answer: {e}", self.policy.name)))?)
    }

    /// Parts of GPUs by user and kind.
    fn holdings(&self, allocation: &Allocation) -> Vec<f64> {
        let k = self.problem.kinds();
        let mut x = vec![0.0; self.problem.users.len() * k];
        for grant in allocation.grants() {
            // The question has no pairs, so no policy can grant one.
            let (Members::One(user) | Members::Two(user, _)) = grant.members;
            let l = self.single.as_ref().map_or(user as usize, |(_, of)| of[user as usize]);
            x[l * k + grant.kind.index()] += grant.gangs * f64::from(self.problem.users[l].gang);
        }
        x
    }

    /// Whether the objective counts GPUs, found by counting them in parts half as large; `None` if it is neither doubled by
    /// that nor left alone.
    fn degree(&self, allocation: &Allocation) -> Result<Option<Degree>> {
        let Some(objective) = allocation.objective() else { return Ok(Some(Degree::Fixed)) };
        if self.scale == 1.0 {
            return Ok(Some(Degree::PerGpu));
        }
        let halves = Case::new(self.policy, self.question, self.scale * 2.0)?.allocate()?;
        let Some(other) = halves.objective() else { return Ok(None) };
        let is = |expect: f64| (other - expect).abs() <= 1e-4 * expect.abs().max(other.abs());
        Ok(match (is(2.0 * objective), is(objective)) {
            (true, _) => Some(Degree::PerGpu),
            (_, true) => Some(Degree::Fixed),
            _ => None,
        })
    }
}

/// The problem with power by the kinds' specifications: a GPU at work draws its most, and 1 W where the library does not
/// know the kind, so that fewest GPUs is least power.
fn with_power(problem: Problem, question: &Question) -> Result<Problem, ProblemError> {
    let mut power = Power::uniform(&problem);
    for (j, kind) in question.kinds.iter().enumerate() {
        if let Ok(known) = Library::builtin().kind(&kind.name) {
            power.idle_watts[j] = known.idle_watts;
            power.users.iter_mut().for_each(|user| user.watts[j] = known.max_watts);
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
