//! What grants are worth by each policy's own measure, computed from who holds what and nothing else.

use crate::promises::rate;
use crate::reference::courses;
use arles_core::allocate::{Grant, PolicyEntry, Problem};

/// The objective that grants attain; `None` where grants do not say: AlloX's is about jobs that wait, too.
pub(crate) fn objective(entry: &PolicyEntry, problem: &Problem, grants: &[Grant]) -> Option<f64> {
    let takes_part = |u: &usize| problem.gpu_rates(*u).any(|r| r > 0.0) && problem.users[*u].jobs > 0;
    let users: Vec<usize> = (0..problem.users.len()).filter(takes_part).collect();
    let least = |measure: &dyn Fn(usize) -> f64| {
        users.iter().map(|&u| rate(problem, grants, u) / measure(u)).fold(f64::INFINITY, f64::min)
    };
    let weights = entry.entitlement.weights(problem);
    let speedup = |u: usize| rate(problem, grants, u) / slowest(problem, u);
    match entry.name {
        "oef-coop" | "max-throughput" => Some(users.iter().map(|&u| speedup(u)).sum()),
        "min-cost" => Some(grants.iter().map(|grant| worth_of_money(problem, grant)).sum()),
        "ceei" | "fair-power" => {
            let all: f64 = users.iter().map(|&u| weights[u]).sum();
            Some((users.iter().map(|&u| weights[u] * speedup(u).ln()).sum::<f64>() / all).exp())
        }
        "oef-noncoop" => Some(least(&|u| weights[u] * slowest(problem, u))),
        "max-min-fairness" => Some(least(&|u| equal_share(problem, u))),
        "min-makespan" => Some(least(&|u| problem.users[u].steps_left)),
        "finish-time-fairness" => {
            let courses = courses(problem);
            let ratio = |&u: &usize| courses[u].ratio(rate(problem, grants, u));
            Some(users.iter().map(ratio).fold(0.0, f64::max).recip())
        }
        "allox" => None,
        other => panic!("{other} promises an optimum; say here what its grants attain"),
    }
}

/// A gang's rate on the slowest kind it fits on, over its GPUs: what a speed-up of 1 is.
fn slowest(problem: &Problem, u: usize) -> f64 {
    let least = problem.rates(u).iter().copied().filter(|&r| r > 0.0).fold(f64::INFINITY, f64::min);
    least / f64::from(problem.users[u].gang)
}

/// A user's rate over Gavel's measure: its weight's worth of the mean GPU.
fn equal_share(problem: &Problem, u: usize) -> f64 {
    let user = &problem.users[u];
    let gpus: f64 = problem.capacity.iter().sum();
    let mean = problem.gpu_rates(u).zip(&problem.capacity).map(|(r, m)| r * m).sum::<f64>() / gpus;
    f64::from(user.jobs) * user.job_weight * user.tenant_weight * mean
}

fn worth_of_money(problem: &Problem, grant: &Grant) -> f64 {
    let arles_core::allocate::Members::One(u) = grant.members else { panic!("min-cost never pairs") };
    let j = grant.kind.index();
    grant.gangs * problem.rates(u as usize)[j] / slowest(problem, u as usize) / problem.hourly_cost[j]
}
