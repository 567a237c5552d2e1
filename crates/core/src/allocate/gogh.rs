//! GOGH's program (arXiv 2510.15652): least power with every promise kept.
//!
//! x[a,c] is how many GPUs of kind a run the combination c: a gang alone, or two single-GPU jobs side by side. With the costs c and
//! kept parts p of `tariff.rs`, n_l jobs of user l and m_a GPUs of kind a:
//!
//! ```text
//! minimise  Σ c[a,c]·x[a,c]  +  M Σ_jobs (1 − p)  +  U Σ_jobs [waits]  −  Σ_{l,a} saving_la · min(held_la, gangs of l on a)
//! s.t.      Σ_c size_c·x[a,c] ≤ m_a,      every job in one bundle or waiting,      x whole
//! ```
//!
//! M is far above what any bundle costs, so power is saved only where promises allow it; what is missing of a promise is the slack
//! that GOGH reports as violation. A job that waits breaks its whole promise, and its price U grows with the time it has
//! waited, so that nobody waits for good. Two jobs share a GPU only where the kind allows it, their memory fits (else
//! there is no such pair) and it pays. In GOGH a job may hold up to D_j GPUs of any mixture; in arles a gang is whole and of
//! one kind, so that D_j is the gang.
//!
//! **Exploring.** A cost that is only estimated is a random number C, log-normal with the estimate's standard error. Whoever tries that kind
//! for a time t finds out, and goes back to its next best, c₀, if that is less. Over the time T that the job lasts this costs
//!
//! ```text
//! t·E C + (T − t)·E min(C, c₀)  =  T·E C − (T − t)·E max(0, C − c₀)       and perhaps a second restart
//! ```
//!
//! so one gang of the user on a kind that it does not hold is credited with the last term, over T. The trial runs for real and
//! is charged like everything else.

use super::tariff::Tariff;
use super::{
    AllocateError, Allocation, Certificate, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal, kind_id,
    user_index,
};
use arles_lp::cover::{self, Alone, Class, Cover, Effort, Pair, Solution, Stay};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "gogh",
    summary: "GOGH's integer program: weighs power against missed floors and waiting jobs; two jobs may share a GPU; tries out unmeasured kinds",
    pairs: true,
    energy_aware: true,
    objective_degree: None,
    promises: &[Promise::Whole],
    make: || Box::<Gogh>::default(),
    ..PolicyEntry::DIVIDES
};

#[derive(Default)]
pub(super) struct Gogh;

/// M over the largest cost of a bundle.
const PROMISE: f64 = 100.0;
/// U over M, for a job that was promised something and for one that was not, when it arrives.
const WAITING: f64 = 0.5;
const WAITING_UNPROMISED: f64 = 0.1;
/// M for a job that was promised nothing, over M.
const SLOW_UNPROMISED: f64 = 0.05;
/// U doubles after this time.
const IMPATIENT_AFTER_SECONDS: f64 = 3600.0;
/// Standard error below which a rate is as good as measured.
const LEAST_STANDARD_ERROR: f64 = 0.05;
/// Time that a trial takes from a job.
const TRIAL_SECONDS: f64 = 600.0;
/// Work that an answer is worth.
const EFFORT: Effort = Effort { programs: 30, ruins: 20_000, nodes: 100_000, gap: 1e-3 };

impl Policy for Gogh {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        if problem.users.is_empty() || problem.kinds() == 0 {
            return Allocation::check(problem, Proposal::default());
        }
        let tariff = Tariff::new(problem);
        let question = question(problem, &tariff);
        let answer = cover::solve(&question, &EFFORT)?;
        // The program minimises; an objective here is maximised.
        let certificate = Certificate { lower: -answer.cost, upper: -answer.bound };
        let proposal = Proposal {
            grants: grants(problem, &question, &answer),
            objective: Some(-answer.cost),
            certificate: Some(certificate),
            prices: Vec::new(),
        };
        Allocation::check(problem, proposal)
    }
}

/// The program in the words of `lp`: users are classes, kinds are resources.
fn question(problem: &Problem, tariff: &Tariff<'_>) -> Cover {
    let k = problem.kinds();
    let promise = PROMISE * tariff.largest_cost();
    let mut question =
        Cover { capacity: problem.capacity.iter().map(|m| m.floor() as u32).collect(), ..Cover::default() };
    for (u, user) in problem.users.iter().enumerate() {
        let promised = user.floor.is_some_and(|floor| floor > 0.0);
        let waited = problem.now.since(user.arrived) / IMPATIENT_AFTER_SECONDS;
        question.classes.push(Class {
            count: user.jobs,
            size: user.gang,
            short_price: promise * if promised { 1.0 } else { SLOW_UNPROMISED },
            unserved_price: promise * (1.0 + waited) * if promised { WAITING } else { WAITING_UNPROMISED },
        });
        let alone = |j| tariff.alone(u, j).map(|offer| Alone { cost: offer.cost, part: offer.kept[0] });
        question.alone.extend((0..k).map(alone));
        question.stays.extend((0..k).filter_map(|j| stay(problem, tariff, u, j)));
    }
    question.pairs = pairs(problem, tariff);
    question
}

/// What user `u` saves by staying on kind `j`, and what finding out about it is worth, to one gang: also to one that is there
/// already and not measured yet.
fn stay(problem: &Problem, tariff: &Tariff<'_>, u: usize, j: usize) -> Option<Stay> {
    let held = tariff.held(u)[j];
    let stays = if held > 0 { tariff.saving(u, j) } else { 0.0 };
    let learns = curiosity(problem, tariff, u, j).map_or(0.0, |worth| worth.max(0.0));
    let saving = stays + learns / f64::from(held.max(1));
    (saving > 0.0).then_some(Stay { class: u, resource: j, held: held.max(1), saving })
}

/// What trying kind `j` is worth to user `u`, in watts at its pace.
fn curiosity(problem: &Problem, tariff: &Tariff<'_>, u: usize, j: usize) -> Option<f64> {
    let standard_error = tariff.standard_error(u, j);
    if standard_error < LEAST_STANDARD_ERROR {
        return None;
    }
    let here = tariff.alone(u, j)?.cost;
    let others = (0..problem.kinds()).filter(|&i| i != j);
    let best = others.filter_map(|i| tariff.alone(u, i)).map(|o| o.cost).fold(f64::INFINITY, f64::min);
    if !best.is_finite() {
        return None;
    }
    let lasts = tariff.lasts_seconds(u, problem.rates(u)[j]);
    let rest = (1.0 - TRIAL_SECONDS / lasts).max(0.0);
    Some(rest * avoided_loss(here, standard_error, best) - tariff.saving(u, j))
}

/// E max(0, C − best) for ln C ~ N(ln here, σ²).
fn avoided_loss(here: f64, standard_error: f64, best: f64) -> f64 {
    let d = (here / best).ln() / standard_error;
    here * (standard_error * standard_error / 2.0).exp() * normal_cdf(d + standard_error) - best * normal_cdf(d)
}

/// Φ, by the logistic curve that stays within a hundredth of it.
fn normal_cdf(x: f64) -> f64 {
    1.0 / (1.0 + (-1.5976 * x - 0.07056 * x * x * x).exp())
}

/// Pairs of users for whom it can pay.
fn pairs(problem: &Problem, tariff: &Tariff<'_>) -> Vec<Pair> {
    let singles: Vec<usize> = (0..problem.users.len()).filter(|&u| problem.users[u].gang == 1).collect();
    let mut pairs = Vec::new();
    for (i, &u) in singles.iter().enumerate() {
        for &v in &singles[i..] {
            if u == v && problem.users[u].jobs < 2 {
                continue;
            }
            pairs.extend((0..problem.kinds()).filter_map(|j| {
                let offer = tariff.together(u, v, j)?;
                let [part_a, part_b] = offer.kept;
                Some(Pair { a: u, b: v, resource: j, cost: offer.cost, part_a, part_b })
            }));
        }
    }
    pairs
}

fn grants(problem: &Problem, question: &Cover, answer: &Solution) -> Vec<Grant> {
    let k = problem.kinds();
    let alone = answer.alone.iter().enumerate().filter(|(_, gangs)| **gangs > 0).map(|(i, &gangs)| Grant {
        kind: kind_id(i % k),
        members: Members::One(user_index(i / k)),
        gangs: f64::from(gangs),
    });
    let pairs = question.pairs.iter().zip(&answer.pairs).filter(|(_, units)| **units > 0);
    let together = pairs.map(|(pair, &units)| Grant {
        kind: kind_id(pair.resource),
        members: Members::Two(user_index(pair.a), user_index(pair.b)),
        gangs: f64::from(units),
    });
    alone.chain(together).collect()
}
