//! The programs again, written down as they stand in the papers and given to the general solver; the market by a method of
//! its own. A policy that promises an optimum has its program here.

use arles_core::allocate::{Entitlement, PolicyEntry, Problem};
use arles_lp::{Budget, Clarabel, ColumnId, Model, ModelError, Outcome, Solver, Status, maxmin};

/// The optimum lies between these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bracket {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Bracket {
    fn exact(value: f64) -> Self {
        Self { lower: value, upper: value }
    }
}

/// The objective that a policy should have; `None` where the general solver has no certified answer. `claim` is what the
/// policy says: where only "is this possible?" can be asked, it is asked on both sides of it.
pub(crate) fn objective(entry: &PolicyEntry, problem: &Problem, claim: f64) -> Option<Bracket> {
    let exact = |value: Option<f64>| value.map(Bracket::exact);
    match entry.name {
        "max-min-fairness" => exact(max_min_level(problem)),
        "oef-noncoop" => exact(equal_level(problem, entry.entitlement)),
        "oef-coop" => exact(envy_free_total(problem, entry.entitlement).ok().flatten()),
        "ceei" | "fair-power" => Some(nash_welfare(problem, entry.entitlement)),
        "min-makespan" => {
            let left: Vec<f64> = problem.users.iter().map(|user| user.steps_left).collect();
            level_of_needs(problem, &left).filter(|bracket| bracket.upper - bracket.lower <= 1e-6 * bracket.upper)
        }
        "finish-time-fairness" => finish_time(problem, claim),
        "max-throughput" => exact(largest_sum(entry, problem, |_| 1.0).ok().flatten()),
        "min-cost" => exact(largest_sum(entry, problem, |j| problem.hourly_cost[j]).ok().flatten()),
        "allox" => exact(least_completion_time(problem).ok().flatten()),
        other => panic!("{other} promises an optimum; write its program here"),
    }
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
    let bracket = level_bounds(problem, weights, row)?;
    (bracket.upper - bracket.lower < 1e-6 * bracket.upper).then_some(bracket.lower)
}

fn level_bounds(problem: &Problem, weights: Vec<f64>, row: impl Fn(usize) -> (Vec<f64>, bool)) -> Option<Bracket> {
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
    Some(Bracket { lower: level.bound.lower, upper: level.bound.upper })
}

/// The largest t with which everybody has t times the rate it needs.
fn level_of_needs(problem: &Problem, needs: &[f64]) -> Option<Bracket> {
    let best = |u: usize| problem.gpu_rates(u).fold(0.0, f64::max);
    let row = |u: usize| (problem.gpu_rates(u).map(|r| r / best(u)).collect(), best(u) > 0.0);
    level_bounds(problem, needs.iter().enumerate().map(|(u, need)| need / best(u)).collect(), row)
}

/// A user's way to its end, for finish-time fairness.
pub(crate) struct Course {
    waited: f64,
    left: f64,
    alone: f64,
}

impl Course {
    /// Time to the end at a rate, over that with a part of the cluster of its own.
    pub(crate) fn ratio(&self, rate: f64) -> f64 {
        (self.waited + self.left / rate) / self.alone
    }
}

/// Everybody's, where everybody can be served.
pub(crate) fn courses(problem: &Problem) -> Vec<Course> {
    let weights = Entitlement::Jobs.weights(problem);
    let all: f64 = weights.iter().sum();
    let course = |(u, user): (usize, &arles_core::allocate::User)| {
        let gpus: f64 = problem.capacity.iter().map(|m| m * weights[u] / all).sum();
        let part = (problem.most_gpus(u) / gpus).min(1.0) * weights[u] / all;
        let rate: f64 = problem.gpu_rates(u).zip(&problem.capacity).map(|(r, m)| r * m * part).sum();
        let (left, done) = (user.steps_left, user.steps_done);
        Course { waited: problem.now.since(user.arrived), left, alone: (left + done) / rate }
    };
    problem.users.iter().enumerate().map(course).collect()
}

/// Whether a little less than the worst ratio claimed can be had, and a little more cannot be missed.
fn finish_time(problem: &Problem, claim: f64) -> Option<Bracket> {
    const STEP: f64 = 3e-6;
    let courses = courses(problem);
    let level = |rho: f64| {
        let needs: Vec<f64> = courses.iter().map(|c| c.left / (rho * c.alone - c.waited)).collect();
        // A ratio that somebody has already exceeded by waiting is out of reach.
        if needs.iter().any(|need| *need <= 0.0) { None } else { level_of_needs(problem, &needs) }
    };
    let (worse, better) = (claim * (1.0 - STEP), claim * (1.0 + STEP));
    let (at_worse, at_better) = (level(worse.recip())?, level(better.recip()).unwrap_or(Bracket::exact(0.0)));
    match (at_worse, at_better) {
        (w, _) if w.upper < 1.0 => Some(Bracket { lower: 0.0, upper: worse }),
        (_, b) if b.lower >= 1.0 => Some(Bracket { lower: better, upper: f64::INFINITY }),
        (w, b) if w.lower >= 1.0 && b.upper < 1.0 => Some(Bracket { lower: worse, upper: better }),
        _ => None,
    }
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

/// The largest weighted geometric mean of speed-ups without caps, by proportional response: everybody bids for each kind in
/// proportion to what it got out of it, which converges to the market's equilibrium. Any bids attain a welfare, and any prices
/// with m·p = Σπ prove that none is above Σ π log(π / min_j p_j/w_j).
fn nash_welfare(problem: &Problem, entitlement: Entitlement) -> Bracket {
    let (n, k) = (problem.users.len(), problem.kinds());
    let (w, pi, m) = (problem.speedups(), entitlement.weights(problem), &problem.capacity);
    let all: f64 = pi.iter().sum();
    let mut bids: Vec<f64> = (0..n * k).map(|at| pi[at / k] / k as f64).collect();
    let mut bracket = Bracket { lower: f64::NEG_INFINITY, upper: f64::INFINITY };
    for _ in 0..20_000 {
        let p: Vec<f64> = (0..k).map(|j| bids.iter().skip(j).step_by(k).sum::<f64>() / m[j]).collect();
        let (mut welfare, mut bound) = (0.0, 0.0);
        for l in 0..n {
            let gains: Vec<f64> = (0..k).map(|j| w[l * k + j] * bids[l * k + j] / p[j]).collect();
            let utility: f64 = gains.iter().sum();
            let cheapest = (0..k).map(|j| p[j] / w[l * k + j]).fold(f64::INFINITY, f64::min);
            welfare += pi[l] * utility.ln();
            bound += pi[l] * (pi[l] / cheapest).ln();
            (0..k).for_each(|j| bids[l * k + j] = pi[l] * gains[j] / utility);
        }
        bracket = Bracket { lower: bracket.lower.max(welfare / all), upper: bracket.upper.min(bound / all) };
        if bracket.upper - bracket.lower < 1e-8 {
            break;
        }
    }
    Bracket { lower: bracket.lower.exp(), upper: bracket.upper.exp() }
}

/// AlloX's matching: least Σ p·τ over jobs and places p from the end of a kind's queues, negative.
fn least_completion_time(problem: &Problem) -> Result<Option<f64>, ModelError> {
    let n = problem.users.len();
    let mut model = Model::minimise();
    let (mut jobs, mut places) = (vec![Vec::new(); n], vec![Vec::new(); n * problem.kinds()]);
    for (u, user) in problem.users.iter().enumerate() {
        assert_eq!(user.jobs, 1, "one job to a user, or there are too many places");
        for (j, rate) in problem.gpu_rates(u).enumerate().filter(|(_, rate)| *rate > 0.0) {
            for p in 0..n {
                let column = model.add_column(0.0, 1.0, (p + 1) as f64 * user.steps_left / rate)?;
                jobs[u].push((column, 1.0));
                places[j * n + p].push((column, 1.0));
            }
        }
    }
    for terms in &jobs {
        model.add_row(1.0, 1.0, terms)?;
    }
    for (at, terms) in places.iter().enumerate().filter(|(_, terms)| !terms.is_empty()) {
        model.add_row(f64::NEG_INFINITY, problem.capacity[at / n].floor(), terms)?;
    }
    Ok(solved(&Clarabel.solve(&model, Budget::default())).map(|cost| -cost))
}

/// One way to run: a gang alone, or two jobs on a GPU. Members with their rates.
struct Way {
    kind: usize,
    gpus: f64,
    members: Vec<(usize, f64)>,
}

/// Every way there is, pairs too if the policy may use them.
fn ways(entry: &PolicyEntry, problem: &Problem) -> Vec<Way> {
    let mut ways = Vec::new();
    for (u, user) in problem.users.iter().enumerate() {
        let gpus = f64::from(user.gang);
        let fits = problem.gpu_rates(u).enumerate().filter(|(_, r)| *r > 0.0);
        ways.extend(fits.map(|(kind, r)| Way { kind, gpus, members: vec![(u, r * gpus)] }));
    }
    let of =
        |w| (0..problem.users.len()).filter(move |&u| problem.users[u].workload == w && problem.users[u].gang == 1);
    for pair in problem.pairs.iter().filter(|pair| entry.pairs && problem.capacity[pair.kind.index()] >= 1.0) {
        for u in of(pair.a) {
            for v in of(pair.b).filter(|&v| u != v || problem.users[u].jobs > 1) {
                // Company makes nobody faster.
                let alone = |u: usize| problem.rates(u)[pair.kind.index()];
                let members = vec![(u, pair.rate_a.min(alone(u))), (v, pair.rate_b.min(alone(v)))];
                ways.push(Way { kind: pair.kind.index(), gpus: 1.0, members });
            }
        }
    }
    ways
}

/// A program over ways: columns worth `value`, rows for capacities and for jobs. Returns each user's ways with its rates.
type Terms = Vec<Vec<(ColumnId, f64)>>;

fn program(
    model: &mut Model,
    problem: &Problem,
    ways: &[Way],
    value: impl Fn(&Way) -> f64,
) -> Result<Terms, ModelError> {
    let (n, k) = (problem.users.len(), problem.kinds());
    let (mut kinds, mut jobs, mut rates) = (vec![Vec::new(); k], vec![Vec::new(); n], vec![Vec::new(); n]);
    for way in ways {
        let column = model.add_column(0.0, f64::INFINITY, value(way))?;
        kinds[way.kind].push((column, way.gpus));
        for &(u, rate) in &way.members {
            jobs[u].push((column, 1.0));
            rates[u].push((column, rate));
        }
    }
    for (terms, m) in kinds.iter().zip(&problem.capacity) {
        model.add_row(f64::NEG_INFINITY, *m, &merged(terms))?;
    }
    for (terms, user) in jobs.iter().zip(&problem.users) {
        model.add_row(f64::NEG_INFINITY, f64::from(user.jobs), &merged(terms))?;
    }
    Ok(rates)
}

/// A user beside itself has two terms in one column.
fn merged(terms: &[(ColumnId, f64)]) -> Vec<(ColumnId, f64)> {
    let mut merged: Vec<(ColumnId, f64)> = Vec::with_capacity(terms.len());
    for &(column, value) in terms {
        match merged.last_mut() {
            Some(last) if last.0 == column => last.1 += value,
            _ => merged.push((column, value)),
        }
    }
    merged
}

/// Most Σ speed-up over what an hour costs; nobody has a floor.
fn largest_sum(entry: &PolicyEntry, problem: &Problem, cost: impl Fn(usize) -> f64) -> Result<Option<f64>, ModelError> {
    let slowest = |u: usize| problem.rates(u).iter().copied().filter(|&r| r > 0.0).fold(f64::INFINITY, f64::min);
    let speedup = |&(u, rate): &(usize, f64)| rate * f64::from(problem.users[u].gang) / slowest(u);
    let mut model = Model::maximise();
    let value = |way: &Way| way.members.iter().map(speedup).sum::<f64>() / cost(way.kind);
    program(&mut model, problem, &ways(entry, problem), value)?;
    Ok(solved(&Clarabel.solve(&model, Budget::default())))
}

/// The least sum, over jobs with a floor, of the missing part of it; `None` where nobody has one.
pub(crate) fn least_shortfall(entry: &PolicyEntry, problem: &Problem) -> Option<f64> {
    let floors = problem.users.iter().any(|u| u.floor.is_some_and(|f| f > 0.0));
    if floors { shortfall(entry, problem).ok().flatten() } else { None }
}

fn shortfall(entry: &PolicyEntry, problem: &Problem) -> Result<Option<f64>, ModelError> {
    let mut model = Model::minimise();
    let rates = program(&mut model, problem, &ways(entry, problem), |_| 0.0)?;
    for (user, terms) in problem.users.iter().zip(rates) {
        let jobs = f64::from(user.jobs);
        let owed = user.floor.unwrap_or(0.0) * jobs;
        if owed > 0.0 {
            let missing = model.add_column(0.0, 1.0, jobs)?;
            let kept: Vec<_> = terms.into_iter().map(|(column, rate)| (column, rate / owed)).collect();
            let row: Vec<_> = merged(&kept).into_iter().chain([(missing, 1.0)]).collect();
            model.add_row(1.0, f64::INFINITY, &row)?;
        }
    }
    Ok(solved(&Clarabel.solve(&model, Budget::default())))
}

fn solved(outcome: &Outcome) -> Option<f64> {
    (outcome.status == Status::Optimal).then_some(outcome.objective)
}
