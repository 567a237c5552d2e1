//! The programs again, written down as they stand in the papers and given to the general solver.

use arles_core::allocate::{Entitlement, PolicyEntry, Problem};
use arles_lp::{Budget, Clarabel, ColumnId, Model, ModelError, Outcome, Solver, Status, maxmin};

/// The objective that a policy should have, by the general solver; `None` where it has no certified answer, or the
/// program is not one of these.
pub(crate) fn objective(entry: &PolicyEntry, problem: &Problem) -> Option<f64> {
    match entry.name {
        "max-min-fairness" => max_min_level(problem),
        "oef-noncoop" => equal_level(problem, entry.entitlement),
        "oef-coop" if is_plain(problem) => envy_free_total(problem, entry.entitlement).ok().flatten(),
        _ => None,
    }
}

/// Nobody is capped, everybody can use everything.
fn is_plain(problem: &Problem) -> bool {
    let all: f64 = problem.capacity.iter().sum();
    (0..problem.users.len()).all(|u| problem.most_gpus(u) >= all && problem.gpu_rates(u).all(|r| r > 0.0))
}

/// Gavel's level: everybody in units of its own equal split, so that the reference need not add 1e9 and 1e-9.
fn max_min_level(problem: &Problem) -> Option<f64> {
    let gpus: f64 = problem.capacity.iter().sum();
    let owed = |u: usize| {
        let row: Vec<f64> = problem.gpu_rates(u).collect();
        let equal: f64 = row.iter().zip(&problem.capacity).map(|(r, m)| r * m).sum::<f64>() / gpus;
        (row.iter().map(|r| r / equal).collect(), equal > 0.0)
    };
    level(problem, Entitlement::Jobs.weights(problem), owed)
}

/// OEF's level: everybody in speed-ups over its slowest kind.
fn equal_level(problem: &Problem, entitlement: Entitlement) -> Option<f64> {
    let (w, k) = (problem.speedups(), problem.kinds());
    let row = |u: usize| (w[u * k..(u + 1) * k].to_vec(), w[u * k..(u + 1) * k].iter().any(|&w| w > 0.0));
    level(problem, entitlement.weights(problem), row)
}

/// The largest t with `row_u · x_u ≥ weight_u t` for all that take part.
fn level(problem: &Problem, weights: Vec<f64>, row: impl Fn(usize) -> (Vec<f64>, bool)) -> Option<f64> {
    let (mut w, mut beta, mut caps) = (Vec::new(), Vec::new(), Vec::new());
    for (u, weight) in weights.into_iter().enumerate() {
        let (row, takes_part) = row(u);
        if takes_part {
            w.extend(row);
            beta.push(weight);
            caps.push(problem.most_gpus(u));
        }
    }
    let question = maxmin::MaxMin { w: &w, beta: &beta, caps: &caps, capacity: &problem.capacity };
    let general = maxmin::General::new(&question).ok()?;
    let level = general.solve(&question, &Clarabel, Budget::default());
    (level.bound.gap() < 1e-6).then_some(level.t)
}

/// Most Σ w·x with nobody envying anybody, all n² rows.
fn envy_free_total(problem: &Problem, entitlement: Entitlement) -> Result<Option<f64>, ModelError> {
    let (n, k) = (problem.users.len(), problem.kinds());
    let (w, pi) = (problem.speedups(), entitlement.weights(problem));
    let mut model = Model::maximise();
    let x: Vec<ColumnId> = w.iter().map(|&w| model.add_column(0.0, f64::INFINITY, w)).collect::<Result<_, _>>()?;
    for (j, &m) in problem.capacity.iter().enumerate() {
        let held: Vec<_> = (0..n).map(|l| (x[l * k + j], 1.0)).collect();
        model.add_row(f64::NEG_INFINITY, m, &held)?;
    }
    for l in 0..n {
        for i in (0..n).filter(|&i| i != l) {
            let own = (0..k).map(|j| (x[l * k + j], w[l * k + j] / pi[l]));
            let other = (0..k).map(|j| (x[i * k + j], -w[l * k + j] / pi[i]));
            let row: Vec<_> = own.chain(other).collect();
            model.add_row(0.0, f64::INFINITY, &row)?;
        }
    }
    Ok(solved(&Clarabel.solve(&model, Budget::default())))
}

/// The least sum, over users with a floor, of the missing part of it; `None` where nobody has one.
pub(crate) fn least_shortfall(problem: &Problem) -> Option<f64> {
    let floors = problem.users.iter().any(|u| u.floor.is_some_and(|f| f > 0.0));
    if floors { shortfall(problem).ok().flatten() } else { None }
}

fn shortfall(problem: &Problem) -> Result<Option<f64>, ModelError> {
    let (n, k) = (problem.users.len(), problem.kinds());
    let mut model = Model::minimise();
    let mut x = Vec::with_capacity(n * k);
    for u in 0..n {
        for rate in problem.gpu_rates(u) {
            x.push(model.add_column(0.0, if rate > 0.0 { f64::INFINITY } else { 0.0 }, 0.0)?);
        }
    }
    for (j, &m) in problem.capacity.iter().enumerate() {
        let held: Vec<_> = (0..n).map(|u| (x[u * k + j], 1.0)).collect();
        model.add_row(f64::NEG_INFINITY, m, &held)?;
    }
    for (u, user) in problem.users.iter().enumerate() {
        let held: Vec<_> = (0..k).map(|j| (x[u * k + j], 1.0)).collect();
        model.add_row(f64::NEG_INFINITY, problem.most_gpus(u), &held)?;
        let owed = user.floor.unwrap_or(0.0) * f64::from(user.jobs);
        if owed > 0.0 {
            let missing = model.add_column(0.0, 1.0, 1.0)?;
            let rates = problem.gpu_rates(u).enumerate().map(|(j, r)| (x[u * k + j], r / owed));
            let row: Vec<_> = rates.chain([(missing, 1.0)]).collect();
            model.add_row(1.0, f64::INFINITY, &row)?;
        }
    }
    Ok(solved(&Clarabel.solve(&model, Budget::default())))
}

fn solved(outcome: &Outcome) -> Option<f64> {
    (outcome.status == Status::Optimal).then_some(outcome.objective)
}
