//! Max-min fairness with space sharing (Gavel's, OSDI '20): single-GPU jobs may also run two to a GPU.
//!
//! As `max_min.rs`, with pairs as further ways to run. For a user l of n_l jobs and gangs of g_l, its rate alone on kind j
//! is r_lj, beside a job of h it is r_ljh; X counts gangs, or shared GPUs, at once:
//!
//!   maximise  min_l  Σ r X over all ways that l takes part in / β_l      β_l = n_l π_l r̄_l/g_l
//!   s.t.      Σ (jobs of l in it) X ≤ n_l      Σ (GPUs of j in it) X ≤ m_j      X ≥ 0
//!
//! where r̄_l is l's rate on an average GPU, and then on for everybody who can still rise. Pairs that do no better than
//! taking turns are left out; the others come in as prices ask for them ([`arles_lp::sharing`]).

use super::max_min::MaxMin;
use super::{
    AllocateError, Allocation, Certificate, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal, kind_id,
    user_index,
};
use crate::WorkloadId;
use arles_lp::{Budget, sharing};
use std::collections::BTreeMap;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "max-min-packed",
    summary: "Gavel's max-min fairness with space sharing, to the gap that its certificate states: two single-GPU jobs may share a GPU",
    pairs: true,
    promises: &[Promise::ScaleFree, Promise::SharingIncentive],
    make: || Box::new(MaxMinPacked),
    ..PolicyEntry::DIVIDES
};

pub(super) struct MaxMinPacked;

/// Relative gap above which the answer without pairs is looked at, too.
const GAP: f64 = 1e-6;
/// A level this near to what a user can do at most, relatively, is that.
const LIMITED: f64 = 1e-9;

impl Policy for MaxMinPacked {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let question = Question::new(problem);
        if question.users.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let Question { users, rates, pairs, .. } = &question;
        let asked = sharing::Sharing { users, rates, pairs, capacity: &problem.capacity };
        let filling = sharing::fill(&asked, Budget::default())?;
        let (certificate, prices) = question.lowest(problem.kinds(), &filling);
        if certificate.gap() > GAP
            && let Some(apart) = better_apart(problem, certificate)?
        {
            return Ok(apart);
        }
        let proposal = Proposal {
            grants: question.grants(&filling),
            objective: Some(certificate.lower),
            certificate: Some(certificate),
            prices,
            ..Proposal::default()
        };
        Allocation::check(problem, proposal)
    }
}

/// The answer without pairs, if everybody is better off with that: the solver of pairs may stop far from its bound.
fn better_apart(problem: &Problem, certificate: Certificate) -> Result<Option<Allocation>, AllocateError> {
    let apart = MaxMin::new(true).allocate(problem)?;
    let Some(lower) = apart.objective().filter(|&level| level > certificate.lower) else { return Ok(None) };
    let certificate = Some(Certificate { lower, upper: certificate.upper.max(lower) });
    let grants = apart.grants().to_vec();
    // What a GPU is worth to pairs is not known then.
    Allocation::check(
        problem,
        Proposal { grants, objective: Some(lower), certificate, prices: Vec::new(), ..Proposal::default() },
    )
    .map(Some)
}

/// The problem as the solver asks it.
struct Question {
    /// Who takes part: index in the problem.
    members: Vec<u32>,
    users: Vec<sharing::User>,
    rates: Vec<f64>,
    pairs: Vec<sharing::Pair>,
}

impl Question {
    fn new(problem: &Problem) -> Self {
        let mut question = Self { members: Vec::new(), users: Vec::new(), rates: Vec::new(), pairs: Vec::new() };
        let gpus: f64 = problem.capacity.iter().sum();
        // Users of the same workload and gang have the same rates unless they may not use some kinds.
        let mut classes: BTreeMap<(WorkloadId, u32, Vec<u64>), usize> = BTreeMap::new();
        let mut sharers: BTreeMap<WorkloadId, Vec<usize>> = BTreeMap::new();
        for (u, user) in problem.users.iter().enumerate() {
            let gang = f64::from(user.gang);
            let row: Vec<f64> = problem.gpu_rates(u).map(|r| r * gang).collect();
            let mean = row.iter().zip(&problem.capacity).map(|(r, m)| r * m).sum::<f64>() / gpus;
            let servable = mean > 0.0 && user.jobs > 0;
            if !servable {
                continue;
            }
            let key = (user.workload, user.gang, row.iter().map(|r| r.to_bits()).collect());
            let class = *classes.entry(key).or_insert_with(|| {
                question.rates.extend_from_slice(&row);
                let class = question.rates.len() / problem.kinds() - 1;
                if user.gang == 1 {
                    sharers.entry(user.workload).or_default().push(class);
                }
                class
            });
            let jobs = f64::from(user.jobs);
            let beta = jobs * user.job_weight * user.tenant_weight * mean / gang;
            question.members.push(user_index(u));
            question.users.push(sharing::User { class, beta, jobs, need: gang });
        }
        question.pair_up(problem, &sharers);
        question
    }

    /// Every known pair of workloads, for all classes that run them where both fit.
    fn pair_up(&mut self, problem: &Problem, sharers: &BTreeMap<WorkloadId, Vec<usize>>) {
        let of = |workload: WorkloadId| sharers.get(&workload).map_or(&[][..], Vec::as_slice);
        for pair in &problem.pairs {
            let resource = pair.kind.index();
            for &a in of(pair.a) {
                for &b in of(pair.b).iter().filter(|&&b| pair.a != pair.b || a <= b) {
                    let alone = |class: usize| self.rates[class * problem.kinds() + resource];
                    if alone(a) > 0.0 && alone(b) > 0.0 {
                        let rates = (pair.rate_a.min(alone(a)), pair.rate_b.min(alone(b)));
                        let (first, second, rates) = if a <= b { (a, b, rates) } else { (b, a, (rates.1, rates.0)) };
                        self.pairs.push(sharing::Pair { first, second, resource, rates });
                    }
                }
            }
        }
        self.pairs.sort_by_key(|p| (p.first, p.second, p.resource));
    }

    /// The least level with its certificate, and the prices of the kinds in it.
    fn lowest(&self, k: usize, filling: &sharing::Filling) -> (Certificate, Vec<f64>) {
        let least = |levels: &mut dyn Iterator<Item = f64>| levels.fold(f64::INFINITY, f64::min);
        let lower = least(&mut filling.levels.iter().copied());
        // Nobody can do better than with all its jobs on their best kind.
        let alone = |user: &sharing::User| {
            let best = self.rates[user.class * k..(user.class + 1) * k].iter().copied().fold(0.0, f64::max);
            user.jobs * (best / user.beta)
        };
        let own_limit = least(&mut self.users.iter().map(alone));
        let Some(stage) = filling.bottlenecks.first() else {
            return (Certificate { lower, upper: own_limit.max(lower) }, Vec::new());
        };
        // Below its first stage only those stop who can do no more; then no kind has a price.
        let limited = own_limit <= stage.bound.lower * (1.0 + LIMITED);
        let upper = if limited { own_limit } else { stage.bound.upper };
        // The stage's prices are of how many times its level can be had.
        let unit = if limited { 0.0 } else { lower };
        (Certificate { lower, upper: upper.max(lower) }, stage.prices.iter().map(|p| p * unit).collect())
    }

    /// What groups got, as grants to their members. Which of a group's jobs meet is left to chance, so members take part in
    /// proportion to their jobs, and nobody meets itself.
    fn grants(&self, filling: &sharing::Filling) -> Vec<Grant> {
        let of = |group: usize| filling.groups[group].iter().map(|&i| (self.members[i], self.users[i].jobs));
        let all = |group: usize| of(group).map(|(_, jobs)| jobs).sum::<f64>();
        let mut grants = Vec::new();
        for share in filling.shares.iter().filter(|share| share.amount > 0.0) {
            let kind = kind_id(share.resource);
            for (u, jobs) in of(share.first) {
                let part = share.amount * jobs / all(share.first);
                let Some(second) = share.second else {
                    grants.push(Grant { kind, members: Members::One(u), gangs: part });
                    continue;
                };
                let itself = f64::from(u8::from(second == share.first));
                for (v, others) in of(second) {
                    let others = if u == v { others - 1.0 } else { others };
                    let members = Members::Two(u.min(v), u.max(v));
                    let gangs = part * others / (all(second) - itself);
                    grants.extend((gangs > 0.0).then_some(Grant { kind, members, gangs }));
                }
            }
        }
        grants
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::{ClassId, PairRates, User};
    use crate::{KindId, Round, TenantId, Time};

    /// A job that is as slow everywhere can do no more than its one GPU: the others rise beyond it, and what is certified is still the least.
    #[test]
    fn the_objective_is_the_least_level_and_not_that_of_the_first_stage() {
        let speeds = [[1.0, 1.0], [3.0, 1.0], [3.0, 1.0], [4.0, 1.0], [2.0, 1.0], [5.0, 1.0]];
        let user = |u: u32| User {
            class: ClassId(u),
            tenant: TenantId(u),
            tenant_weight: 1.0,
            workload: WorkloadId(u),
            gang: 1,
            jobs: 1,
            job_weight: 1.0,
            parts: 1,
            floor: None,
            job: None,
            arrived: Time::ZERO,
            attained_gpu_seconds: 0.0,
            steps_done: 0.0,
            steps_left: 1.0,
            held: None,
        };
        let users = (0..6).map(user).collect();
        let rates = speeds.concat();
        let problem = Problem::new(Round(1), vec![4.0, 4.0], users, rates).expect("a sound problem");
        // Two on one GPU do no better than by turns, except that the flat one loses nothing beside anybody.
        let beside = |u: u32, kind: u16| {
            let other = speeds[u as usize][usize::from(kind)];
            PairRates { a: WorkloadId(0), b: WorkloadId(u), kind: KindId(kind), rate_a: 1.0, rate_b: 0.5 * other }
        };
        let pairs = (1..6).flat_map(|u| (0..2).map(move |kind| (u, kind))).map(|(u, kind)| beside(u, kind)).collect();
        for problem in [problem.clone(), problem.with_pairs(pairs).expect("sound pairs")] {
            let answer = MaxMinPacked.allocate(&problem).expect("an answer");
            let certificate = answer.certificate().expect("a certificate");
            let objective = answer.objective().expect("an objective");
            assert!((objective - 1.0).abs() < 1e-6, "{objective}");
            assert!(
                (certificate.lower - 1.0).abs() < 1e-6 && (certificate.upper - 1.0).abs() < 1e-6,
                "{certificate:?}"
            );
        }
    }
}
