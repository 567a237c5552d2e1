//! What each promise means, checked on one problem and one answer.

use crate::reference;
use arles_core::WorkloadId;
use arles_core::allocate::{Allocation, Grant, Members, PolicyEntry, Problem, Promise};
use arles_core::audit::{Audit, Lie, utility_after};
use arles_lp::Budget;
use proptest::prelude::*;

/// Relative slack of what a solver with a gap of a millionth may leave.
const SLACK: f64 = 2e-6;

type Verdict = Result<(), TestCaseError>;

/// Whether a promise is about any problem, or about those that the theorems are about: divisible, uncapped, every rate
/// above 0.
pub(crate) fn is_theorem(promise: Promise) -> bool {
    use Promise::{EnvyFree, InflationProof, ParetoEfficient, SharingIncentive};
    matches!(promise, EnvyFree | InflationProof | ParetoEfficient | SharingIncentive)
}

pub(crate) fn check(promise: Promise, entry: &'static PolicyEntry, problem: &Problem, answer: &Allocation) -> Verdict {
    let name = entry.name;
    match promise {
        Promise::Whole => {
            prop_assert!(answer.grants().iter().all(|g| g.gangs.fract() == 0.0), "{name}: a fraction");
            Ok(())
        }
        Promise::WorkConserving => work_conserving(name, problem, answer),
        Promise::ScaleFree => scale_free(entry, problem, answer),
        Promise::MaxMin | Promise::Optimal => optimal(entry, problem, answer),
        Promise::FloorsKept => floors_kept(name, problem, answer),
        Promise::SharingIncentive => {
            let audit = Audit::of(problem, entry.entitlement, answer);
            let (l, ratio) = audit.least_sharing().expect("there are users");
            prop_assert!(ratio >= 1.0 - SLACK, "{name}: user {l} has {ratio} of an equal division");
            Ok(())
        }
        Promise::EnvyFree => {
            let audit = Audit::of(problem, entry.entitlement, answer);
            let envy = audit.worst_envy().filter(|envy| envy.ratio > 1.0 + SLACK);
            prop_assert!(envy.is_none(), "{name}: {envy:?}");
            Ok(())
        }
        Promise::ParetoEfficient => {
            let gap = Audit::of(problem, entry.entitlement, answer).pareto(Budget::default()).gap();
            prop_assert!(gap <= 1e-5, "{name}: all could gain {gap}");
            Ok(())
        }
        Promise::InflationProof => inflation_proof(entry, problem),
    }
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
    grants.iter().map(of).sum()
}

fn work_conserving(name: &str, problem: &Problem, answer: &Allocation) -> Verdict {
    let (gangs, free) = served(problem, answer.grants());
    for (u, user) in problem.users.iter().enumerate() {
        let idle = gangs[u] < f64::from(user.jobs);
        let room = (0..problem.kinds()).any(|j| problem.rates(u)[j] > 0.0 && free[j] >= f64::from(user.gang));
        prop_assert!(!(idle && room), "{name}: user {u} waits beside free GPUs");
    }
    Ok(())
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
    Ok(())
}

fn optimal(entry: &PolicyEntry, problem: &Problem, answer: &Allocation) -> Verdict {
    let name = entry.name;
    let gap = answer.certificate().map(|c| c.gap());
    prop_assert!(gap.is_none_or(|gap| gap <= 1e-6), "{name}: a gap of {gap:?}");
    if let (Some(value), Some(reference)) = (answer.objective(), reference::objective(entry, problem)) {
        prop_assert!(
            (value - reference).abs() <= SLACK * reference.abs().max(1e-3),
            "{name}: {value}, the general solver has {reference}"
        );
    }
    Ok(())
}

/// Floors cannot always be kept, but one that one user could have with everything is kept if the others' allow it.
fn floors_kept(name: &str, problem: &Problem, answer: &Allocation) -> Verdict {
    let Some(least) = reference::least_shortfall(problem) else { return Ok(()) };
    let missing = |(u, user): (usize, &arles_core::allocate::User)| {
        let owed = user.floor.unwrap_or(0.0) * f64::from(user.jobs);
        if owed > 0.0 { (1.0 - rate(problem, answer.grants(), u) / owed).max(0.0) } else { 0.0 }
    };
    let shortfall: f64 = problem.users.iter().enumerate().map(missing).sum();
    prop_assert!(shortfall <= least + 1e-4, "{name}: floors are {shortfall} short where {least} would do");
    Ok(())
}

fn inflation_proof(entry: &PolicyEntry, problem: &Problem) -> Verdict {
    let fail = |e: arles_core::audit::AuditError| TestCaseError::fail(e.to_string());
    let k = problem.kinds();
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
            }
        }
    }
    Ok(())
}
