//! What each promise means, checked on one problem and one answer.
//!
//! A check says whether it could have failed: nobody waits, nobody has a floor, the reference has no answer. The suite counts
//! those that could, so that no promise is kept by never being looked at.

use crate::attained;
use crate::reference::{self, Bracket};
use arles_core::WorkloadId;
use arles_core::allocate::{Allocation, EPSILON, Entitlement, Grant, Members, PolicyEntry, Problem, Promise};
use arles_core::audit::{Audit, Lie, utility_after};
use arles_lp::Budget;
use proptest::prelude::*;

/// Relative slack of what a solver with a gap of a millionth may leave.
const SLACK: f64 = 2e-6;
/// Relative gap that a certificate may have.
const GAP: f64 = 1e-6;

/// Whether a check that passed could have failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checked {
    Really,
    /// There was nothing to break on this problem.
    Vacuously,
}

impl Checked {
    fn if_true(could_fail: bool) -> Self {
        if could_fail { Self::Really } else { Self::Vacuously }
    }
}

pub(crate) type Verdict = Result<Checked, TestCaseError>;

/// Whether a promise is about any problem, or about those that the theorems are about: divisible, uncapped, every rate
/// above 0.
pub(crate) fn is_theorem(promise: Promise) -> bool {
    use Promise::{EnvyFree, InflationProof, NearlyEnvyFree, Optimal, ParetoEfficient, SharingIncentive};
    matches!(promise, EnvyFree | NearlyEnvyFree | InflationProof | Optimal | ParetoEfficient | SharingIncentive)
}

pub(crate) fn check(promise: Promise, entry: &PolicyEntry, problem: &Problem, answer: &Allocation) -> Verdict {
    let name = entry.name;
    let several = Checked::if_true(problem.users.len() > 1);
    match promise {
        Promise::Whole => {
            prop_assert!(answer.grants().iter().all(|g| g.gangs.fract() == 0.0), "{name}: a fraction");
            Ok(Checked::if_true(!answer.grants().is_empty()))
        }
        Promise::WorkConserving => work_conserving(name, problem, answer),
        Promise::ScaleFree => scale_free(entry, problem, answer),
        Promise::MaxMin | Promise::Optimal => optimal(entry, problem, answer),
        Promise::FloorsKept => floors_kept(entry, problem, answer),
        Promise::NonPreemptive => non_preemptive(name, problem, answer),
        Promise::SharingIncentive => {
            let audit = Audit::of(problem, entry.entitlement, answer);
            let (l, ratio) = audit.least_sharing().expect("there are users");
            prop_assert!(ratio >= 1.0 - SLACK, "{name}: user {l} has {ratio} of an equal division");
            Ok(several)
        }
        Promise::EnvyFree => {
            let audit = Audit::of(problem, entry.entitlement, answer);
            let envy = audit.worst_envy().filter(|envy| envy.ratio > 1.0 + SLACK);
            prop_assert!(envy.is_none(), "{name}: {envy:?}");
            Ok(several)
        }
        Promise::NearlyEnvyFree => {
            let (ratio, l, i) = worst_envy(problem, entry.entitlement, answer);
            let most = 1.0 / (1.0 - epsilon(problem));
            prop_assert!(
                ratio <= most * (1.0 + SLACK),
                "{name}: user {l} would have {ratio} as {i}, not {most} at most"
            );
            Ok(several)
        }
        Promise::ParetoEfficient => {
            let gap = Audit::of(problem, entry.entitlement, answer).pareto(Budget::default()).gap();
            prop_assert!(gap <= 1e-5, "{name}: all could gain {gap}");
            Ok(Checked::Really)
        }
        Promise::InflationProof => inflation_proof(entry, problem),
    }
}

/// ε of a problem.
pub(crate) fn epsilon(problem: &Problem) -> f64 {
    problem.power.as_ref().map_or(EPSILON, |power| power.epsilon)
}

/// Speed of a user in the best mode of one GPU of a kind as sold, over its slowest kind.
pub(crate) fn best_speed(problem: &Problem, user: usize, kind: usize) -> f64 {
    let best = |base: usize| {
        let modes = (0..problem.kinds()).filter(|&j| problem.sold_as(j) == base);
        modes.map(|j| problem.rates(user)[j]).fold(0.0, f64::max)
    };
    let slowest = (0..problem.kinds()).map(best).filter(|&rate| rate > 0.0).fold(f64::INFINITY, f64::min);
    best(kind) / slowest
}

/// The most that anybody would have in another's place over what it has, who and whose: another's GPUs in one's own best modes, of two on a GPU
/// each holds half.
pub(crate) fn worst_envy(problem: &Problem, entitlement: Entitlement, answer: &Allocation) -> (f64, usize, usize) {
    let (n, k, pi) = (problem.users.len(), problem.kinds(), entitlement.weights(problem));
    let mut held = vec![0.0; n * k];
    for grant in answer.grants() {
        let base = problem.sold_as(grant.kind.index());
        match grant.members {
            Members::One(u) => held[u as usize * k + base] += grant.gangs * f64::from(problem.users[u as usize].gang),
            Members::Two(u, v) => [u, v].iter().for_each(|&u| held[u as usize * k + base] += grant.gangs / 2.0),
        }
    }
    let mut worst = (1.0, 0, 0);
    for l in 0..n {
        let own = utility(problem, answer.grants(), l) / pi[l];
        for i in (0..n).filter(|&i| i != l) {
            let worth: f64 = (0..k).map(|j| best_speed(problem, l, j) * held[i * k + j]).sum::<f64>() / pi[i];
            if worth > worst.0 * own {
                worst = (worth / own, l, i);
            }
        }
    }
    worst
}

/// Speed-up of a user, all its GPUs together, by the modes that they are in.
pub(crate) fn utility(problem: &Problem, grants: &[Grant], user: usize) -> f64 {
    let fastest =
        (0..problem.kinds()).max_by(|&a, &b| best_speed(problem, user, a).total_cmp(&best_speed(problem, user, b)));
    let Some(kind) = fastest else { return 0.0 };
    let modes = (0..problem.kinds()).filter(|&j| problem.sold_as(j) == kind);
    let rate_there = modes.map(|j| problem.rates(user)[j]).fold(0.0, f64::max);
    // A gang's steps per second, as speed-ups of its GPUs.
    rate(problem, grants, user) * best_speed(problem, user, kind) / rate_there * f64::from(problem.users[user].gang)
}

/// Gangs by user and free GPUs by kind.
pub(crate) fn served(problem: &Problem, grants: &[Grant]) -> (Vec<f64>, Vec<f64>) {
    let (mut gangs, mut free) = (vec![0.0; problem.users.len()], problem.capacity.clone());
    for grant in grants {
        let (first, second) = match grant.members {
            Members::One(u) => (u, None),
            Members::Two(u, v) => (u, Some(v)),
        };
        gangs[first as usize] += grant.gangs;
        if let Some(v) = second {
            gangs[v as usize] += grant.gangs;
        }
        free[grant.kind.index()] -= grant.gangs * f64::from(problem.users[first as usize].gang);
    }
    (gangs, free)
}

/// Whether some job that fits somewhere has nothing: else whoever divides has no choice to make.
fn somebody_waits(problem: &Problem, answer: &Allocation) -> bool {
    let (gangs, _) = served(problem, answer.grants());
    let fits = |u: usize| problem.gpu_rates(u).any(|r| r > 0.0);
    problem.users.iter().enumerate().any(|(u, user)| fits(u) && gangs[u] < f64::from(user.jobs))
}

/// Steps per second of one user, all its jobs together.
pub(crate) fn rate(problem: &Problem, grants: &[Grant], user: usize) -> f64 {
    let of = |grant: &Grant| {
        let workload = |u: u32| problem.users[u as usize].workload;
        match grant.members {
            Members::One(u) if u as usize == user => grant.gangs * problem.rates(user)[grant.kind.index()],
            Members::Two(u, v) if u as usize == user || v as usize == user => {
                let (a, b) = problem.together(workload(u), workload(v), grant.kind).expect("a known pair");
                let mine = if u as usize == user { a } else { 0.0 } + if v as usize == user { b } else { 0.0 };
                grant.gangs * mine
            }
            _ => 0.0,
        }
    };
    // A sum of nothing is -0, and nothing over that is not what nothing is worth.
    grants.iter().map(of).sum::<f64>() + 0.0
}

fn work_conserving(name: &str, problem: &Problem, answer: &Allocation) -> Verdict {
    let (gangs, free) = served(problem, answer.grants());
    for (u, user) in problem.users.iter().enumerate() {
        let idle = gangs[u] < f64::from(user.jobs);
        let room = (0..problem.kinds()).any(|j| problem.rates(u)[j] > 0.0 && free[j] >= f64::from(user.gang));
        prop_assert!(!(idle && room), "{name}: user {u} waits beside free GPUs");
    }
    // With nobody to serve there is nothing to leave undone.
    Ok(Checked::if_true((0..problem.users.len()).any(|u| problem.gpu_rates(u).any(|r| r > 0.0))))
}

/// A workload's unit changes in all of its rates, alone and beside others, and in the steps that it has left.
fn scale_free(entry: &PolicyEntry, problem: &Problem, answer: &Allocation) -> Verdict {
    let factor = |w: WorkloadId| [1.0, 4.0, 0.125][w.index() % 3];
    let mut scaled = problem.clone();
    for (row, user) in scaled.rates.chunks_exact_mut(problem.kinds()).zip(&problem.users) {
        row.iter_mut().for_each(|r| *r *= factor(user.workload));
    }
    for user in &mut scaled.users {
        user.steps_left *= factor(user.workload);
        user.steps_done *= factor(user.workload);
        user.floor = user.floor.map(|floor| floor * factor(user.workload));
    }
    for pair in &mut scaled.pairs {
        pair.rate_a *= factor(pair.a);
        pair.rate_b *= factor(pair.b);
    }
    let again = (entry.make)().allocate(&scaled).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let (gangs, gangs_again) = (served(problem, answer.grants()).0, served(&scaled, again.grants()).0);
    for (a, b) in gangs.iter().zip(&gangs_again) {
        prop_assert!((a - b).abs() <= 1e-5 * a.max(1.0), "{}: {a} gangs became {b} when units changed", entry.name);
    }
    let factors = problem.users.iter().map(|user| factor(user.workload));
    Ok(Checked::if_true(somebody_waits(problem, answer) && factors.fold(0.0, f64::max) > 1.0))
}

/// The certificate is there and closed, the grants attain what it says, and the reference agrees.
fn optimal(entry: &PolicyEntry, problem: &Problem, answer: &Allocation) -> Verdict {
    let name = entry.name;
    if (0..problem.users.len()).all(|u| problem.gpu_rates(u).all(|r| r <= 0.0)) {
        return Ok(Checked::Vacuously);
    }
    let Some(value) = answer.objective() else { return Err(TestCaseError::fail(format!("{name}: no objective"))) };
    let Some(certificate) = answer.certificate() else {
        return Err(TestCaseError::fail(format!("{name}: no certificate")));
    };
    let near = |a: f64, b: f64| (a - b).abs() <= SLACK * a.abs().max(b.abs()).max(f64::MIN_POSITIVE);
    prop_assert!(certificate.gap() <= GAP, "{name}: a gap of {}", certificate.gap());
    prop_assert!(near(value, certificate.lower), "{name}: {value} is not what {certificate:?} is about");
    if let Some(attained) = attained::objective(entry, problem, answer.grants()) {
        let enough = attained >= value - SLACK * value.abs();
        prop_assert!(enough, "{name}: the grants attain {attained} where the objective is {value}");
    }
    match reference::objective(entry, problem, value) {
        Some(Bracket { lower, upper }) => {
            let inside = value >= lower - SLACK * lower.abs() && value <= upper + SLACK * upper.abs();
            prop_assert!(inside, "{name}: {value}, the reference lies between {lower} and {upper}");
            Ok(Checked::Really)
        }
        None => Ok(Checked::Vacuously),
    }
}

/// What is missing of all floors is as little as it can be: nothing, where nothing need be.
fn floors_kept(entry: &PolicyEntry, problem: &Problem, answer: &Allocation) -> Verdict {
    let Some(least) = reference::least_shortfall(entry, problem) else { return Ok(Checked::Vacuously) };
    let missing = shortfall(problem, answer);
    let name = entry.name;
    prop_assert!(
        missing <= least + 1e-4 * least.max(1.0),
        "{name}: floors of {missing} jobs are missing where {least} would do"
    );
    Ok(Checked::Really)
}

/// The part that is missing of each job's floor, summed over jobs.
pub(crate) fn shortfall(problem: &Problem, answer: &Allocation) -> f64 {
    let missing = |(u, user): (usize, &arles_core::allocate::User)| {
        let jobs = f64::from(user.jobs);
        let owed = user.floor.unwrap_or(0.0) * jobs;
        if owed > 0.0 { jobs * (1.0 - rate(problem, answer.grants(), u) / owed).max(0.0) } else { 0.0 }
    };
    problem.users.iter().enumerate().map(missing).sum()
}

/// Everybody who holds a kind has it again, where all that is held fits.
fn non_preemptive(name: &str, problem: &Problem, answer: &Allocation) -> Verdict {
    let mut held = vec![0.0; problem.kinds()];
    let holders = || problem.users.iter().zip(0u32..).filter_map(|(user, u)| Some((u, user, user.held?)));
    holders().for_each(|(_, user, kind)| held[kind.index()] += f64::from(user.gang * user.jobs));
    if held.iter().zip(&problem.capacity).any(|(held, m)| held > m) {
        return Ok(Checked::Vacuously);
    }
    let is_of = |grant: &Grant, u: u32| match grant.members {
        Members::One(v) => u == v,
        Members::Two(v, w) => u == v || u == w,
    };
    for (u, user, kind) in holders() {
        let rates = problem.rates(u as usize);
        let as_fast = |g: &&Grant| g.kind == kind || rates[g.kind.index()] > rates[kind.index()];
        let of_user = answer.grants().iter().filter(|g| is_of(g, u)).filter(as_fast);
        let gangs: f64 = of_user.map(|g| g.gangs).sum();
        prop_assert!(gangs >= f64::from(user.jobs), "{name}: user {u} held {kind} and was stopped");
    }
    Ok(Checked::if_true(holders().next().is_some() && somebody_waits(problem, answer)))
}

fn inflation_proof(entry: &PolicyEntry, problem: &Problem) -> Verdict {
    let fail = |e: arles_core::audit::AuditError| TestCaseError::fail(e.to_string());
    let k = problem.kinds();
    let mut lies = 0;
    for user in 0..problem.users.len().min(3) {
        let slowest = problem.rates(user).iter().copied().fold(f64::INFINITY, f64::min);
        let tell = |factors: Vec<f64>| utility_after(entry, problem, user, &Lie::new(factors)?);
        let honest = tell(vec![1.0; k]).map_err(fail)?;
        for factor in [1.1, 1.7, 4.0] {
            for j in (0..k).filter(|&j| problem.rates(user)[j] > slowest) {
                let factors = (0..k).map(|i| if i == j { factor } else { 1.0 }).collect();
                let lied = tell(factors).map_err(fail)?;
                prop_assert!(
                    lied <= honest * (1.0 + 1e-5),
                    "{}: user {user} tells kind {j} {factor} times as fast and has {lied} instead of {honest}",
                    entry.name
                );
                lies += 1;
            }
        }
    }
    Ok(Checked::if_true(lies > 0 && problem.users.len() > 1))
}
