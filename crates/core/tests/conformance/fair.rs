//! What `fair-energy` and `fair-power` promise, on problems with modes, two jobs on a GPU, weights, rates of 0 and more tenants than GPUs; and what power
//! they draw, beside `oef-coop` at full power.

use crate::draws::{Draft, build, plain_problem, with_pairs};
use crate::promises::{best_speed, utility, worst_envy};
use arles_core::allocate::{
    Allocation, Entitlement, Grant, Members, PairPower, Power, Problem, UserPower, find_policy,
};
use arles_core::{KindId, TenantId};
use proptest::prelude::*;

const SLACK: f64 = 3e-6;

/// Adds to every kind modes at these parts of its power. Rates fall by a power of the part that is another for every user and kind.
pub(crate) fn with_modes(plain: &Problem, parts: &[f64]) -> Problem {
    let (k, modes) = (plain.kinds(), parts.len());
    let kinds = k * (1 + modes);
    let bend = |u: usize, j: usize| 0.15 + 0.7 * ((u * 7 + j * 5) % 11) as f64 / 10.0;
    let (mut rates, mut watts) = (Vec::new(), Vec::new());
    for u in 0..plain.users.len() {
        rates.extend_from_slice(plain.rates(u));
        let full = |j: usize| 100.0 + 60.0 * j as f64 + 13.0 * ((u * 3 + j) % 5) as f64;
        watts.push((0..k).map(full).collect::<Vec<f64>>());
        for j in 0..k {
            for part in parts {
                rates.push(plain.rates(u)[j] * part.powf(bend(u, j)));
                watts[u].push(full(j) * part);
            }
        }
    }
    let base = |j: usize| if j < k { j } else { (j - k) / modes };
    let mut capacity = plain.capacity.clone();
    capacity.resize(kinds, 0.0);
    let mut problem = Problem::new(plain.round, capacity, plain.users.clone(), rates).expect("a sound problem");
    problem = problem.with_modes((0..kinds).map(|j| KindId(base(j) as u16)).collect()).expect("sound modes");
    problem = problem.at(plain.now);
    let user = |watts: Vec<f64>| UserPower {
        watts,
        standard_errors: vec![0.0; kinds],
        held: vec![0; kinds],
        needed: None,
        restart_seconds: 0.0,
        by_the_clock: false,
    };
    let power = Power {
        idle_watts: (0..kinds).map(|j| 20.0 + 5.0 * base(j) as f64).collect(),
        users: watts.into_iter().map(user).collect(),
        ..Power::uniform(&problem)
    };
    problem.with_power(power).expect("sound power")
}

/// Two on a GPU at full power draw half as much again as the first.
pub(crate) fn sharing(problem: Problem) -> Problem {
    let power = problem.power.clone().expect("power is known");
    let mut paired = with_pairs(problem);
    let draw = |pair: &arles_core::allocate::PairRates| {
        let user = paired.users.iter().position(|user| user.workload == pair.a).expect("it is there");
        PairPower { watts: 1.5 * power.users[user].watts[pair.kind.index()], standard_error: 0.0 }
    };
    let pairs = paired.pairs.iter().map(draw).collect();
    paired = paired.with_power(Power { pairs, ..power }).expect("sound power");
    paired
}

pub(crate) fn told(mut problem: Problem, epsilon: f64, unused_off: bool, budget_watts: Option<f64>) -> Problem {
    let power = problem.power.take().expect("power is known");
    problem.with_power(Power { epsilon, unused_off, budget_watts, ..power }).expect("sound power")
}

pub(crate) fn ask(policy: &str, problem: &Problem) -> Allocation {
    (find_policy(policy).expect("in the table").make)().allocate(problem).expect("an answer")
}

/// What an allocation draws; idle GPUs too where they stay on.
pub(crate) fn watts(problem: &Problem, grants: &[Grant]) -> f64 {
    let power = problem.power.as_ref().expect("power is known");
    let (mut watts, mut free) = (0.0, problem.capacity.clone());
    for grant in grants {
        let j = grant.kind.index();
        let (drawn, gpus) = match grant.members {
            Members::One(u) => (power.users[u as usize].watts[j], f64::from(problem.users[u as usize].gang)),
            Members::Two(u, v) => {
                let (a, b) = (problem.users[u as usize].workload, problem.users[v as usize].workload);
                let key = (a.min(b), a.max(b), grant.kind);
                let at = problem.pairs.iter().position(|p| (p.a, p.b, p.kind) == key).expect("a known pair");
                (power.pairs[at].watts, 1.0)
            }
        };
        watts += drawn * gpus * grant.gangs;
        free[problem.sold_as(j)] -= gpus * grant.gangs;
    }
    let idle: f64 = free.iter().zip(&power.idle_watts).map(|(gpus, idle)| gpus.max(0.0) * idle).sum();
    watts + if power.unused_off { 0.0 } else { idle }
}

/// What user `l` has of an equal division at full power.
pub(crate) fn equal_division(problem: &Problem, l: usize) -> f64 {
    let pi = Entitlement::Tenants.weights(problem);
    let useful = |u: usize| (0..problem.kinds()).any(|j| problem.capacity[j] > 0.0 && best_speed(problem, u, j) > 0.0);
    let all: f64 = (0..pi.len()).filter(|&u| useful(u)).map(|u| pi[u]).sum();
    (0..problem.kinds()).map(|j| best_speed(problem, l, j) * problem.capacity[j]).sum::<f64>() * pi[l] / all
}

/// The same problem with nobody in a mode: what `oef-coop` and `ceei` are told.
pub(crate) fn at_full_power(problem: &Problem, k: usize) -> Problem {
    let mut full = problem.clone();
    full.rates.chunks_exact_mut(problem.kinds()).for_each(|row| row[k..].fill(0.0));
    (full.pairs, full.power) = (Vec::new(), None);
    full
}

pub(crate) fn keeps_its_promises(problem: &Problem, k: usize, epsilon: f64) -> Result<(), TestCaseError> {
    keeps(problem, k, epsilon, &ask("fair-energy", problem))
}

pub(crate) fn keeps(problem: &Problem, k: usize, epsilon: f64, answer: &Allocation) -> Result<(), TestCaseError> {
    let full = at_full_power(problem, k);
    let mut fair = ask("oef-coop", &full);
    let lacks =
        |fair: &Allocation, l: usize| utility(&full, fair.grants(), l) < (1.0 - 1e-6) * equal_division(&full, l);
    if (0..problem.users.len()).any(|l| lacks(&fair, l)) {
        fair = ask("ceei", &full);
    }
    for l in 0..problem.users.len() {
        let (has, had) = (utility(problem, answer.grants(), l), utility(&full, fair.grants(), l));
        prop_assert!(has >= (1.0 - epsilon) * had * (1.0 - SLACK), "user {l} has {has} of {had} at epsilon {epsilon}");
        let equal = equal_division(problem, l);
        prop_assert!(has >= equal * (1.0 - SLACK), "user {l} has {has}, an equal division {equal}");
    }
    let (envy, l, i) = worst_envy(problem, Entitlement::Tenants, answer);
    prop_assert!(envy <= (1.0 + SLACK) / (1.0 - epsilon), "user {l} would have {envy} as {i} at epsilon {epsilon}");
    let (draws, drew) = (watts(problem, answer.grants()), watts(problem, fair.grants()));
    prop_assert!(draws <= drew * (1.0 + SLACK), "{draws} W, {drew} W at full power");
    let certificate = answer.certificate().expect("a bound");
    prop_assert!(certificate.lower <= certificate.upper && certificate.upper <= 0.0, "{certificate:?}");
    Ok(())
}

/// Some rates of the plain problem are 0.
pub(crate) fn with_zeros(mut problem: Problem) -> Problem {
    let k = problem.kinds();
    for (u, row) in problem.rates.chunks_exact_mut(k).enumerate() {
        let kept = u % k;
        (0..k).filter(|&j| j != kept && (u * 3 + j) % 4 == 0).for_each(|j| row[j] = 0.0);
    }
    problem
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fair_energy_with_modes(plain in plain_problem(), epsilon in 0.0..0.5f64, off: bool, zeros: bool) {
        let plain = if zeros { with_zeros(plain) } else { plain };
        let problem = told(with_modes(&plain, &[0.75, 0.5]), epsilon, off, None);
        keeps_its_promises(&problem, plain.kinds(), epsilon)?;
    }

    /// A budget is kept, at any size, and nobody is without its part of it.
    #[test]
    fn a_budget_is_kept(plain in plain_problem(), part in 0.3..1.0f64, off: bool) {
        let problem = with_modes(&plain, &[0.75, 0.5]);
        let most = watts(&problem, ask("oef-coop", &at_full_power(&problem, plain.kinds())).grants());
        let problem = told(problem, 0.05, off, Some(part * most));
        for policy in ["fair-power", "fair-energy"] {
            let answer = ask(policy, &problem);
            let draws = watts(&problem, answer.grants());
            let idle = watts(&problem, &[]);
            prop_assert!(draws <= (part * most).max(idle) * (1.0 + SLACK), "{policy}: {draws} W of {}", part * most);
            let served = (0..problem.users.len()).all(|l| utility(&problem, answer.grants(), l) > 0.0);
            prop_assert!(served || idle >= part * most, "{policy} leaves somebody without anything");
            let price = answer.watt_price();
            prop_assert!(policy != "fair-power" || idle >= part * most || price.is_some_and(|price| price >= 0.0));
        }
    }
}

proptest! {
    // A column for every two users and kind.
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fair_energy_with_two_to_a_gpu(plain in plain_problem(), epsilon in 0.0..0.5f64, off: bool) {
        let problem = told(sharing(with_modes(&plain, &[0.6])), epsilon, off, None);
        keeps_its_promises(&problem, plain.kinds(), epsilon)?;
    }
}

/// Twelve tenants on two GPUs.
#[test]
fn more_tenants_than_gpus() {
    let draft = |i: usize| Draft {
        gang: 1,
        jobs: 2,
        weight: 1.0 + (i % 3) as f64,
        attained_gpu_seconds: 0.0,
        steps_left: 1000.0,
        rates: vec![1.0, 1.2 + 0.3 * i as f64],
    };
    let mut plain = build(&[1, 1], &(0..12).map(draft).collect::<Vec<_>>(), false);
    plain.users.iter_mut().zip(0..).for_each(|(user, i)| user.tenant = TenantId(i));
    for epsilon in [0.0, 0.05, 0.2] {
        let problem = told(with_modes(&plain, &[0.75, 0.5]), epsilon, true, None);
        keeps_its_promises(&problem, 2, epsilon).expect("kept");
    }
}

/// At ε = 0 nothing is given up: the speeds are `oef-coop`'s, and only watts that cost no speed are saved.
#[test]
fn no_epsilon_is_oef_coop() {
    let draft = |rates: [f64; 2]| Draft {
        gang: 1,
        jobs: 40,
        weight: 1.0,
        attained_gpu_seconds: 0.0,
        steps_left: 1000.0,
        rates: rates.to_vec(),
    };
    let mut plain = build(&[4, 4], &[draft([1.0, 2.0]), draft([1.0, 5.0]), draft([1.0, 3.0])], false);
    plain.users.iter_mut().zip(0..).for_each(|(user, i)| user.tenant = TenantId(i));
    let problem = told(with_modes(&plain, &[0.7]), 0.0, true, None);
    let total = |problem: &Problem, answer: &Allocation| -> f64 {
        (0..problem.users.len()).map(|l| utility(problem, answer.grants(), l)).sum()
    };
    let full = at_full_power(&problem, 2);
    let (ours, theirs) = (total(&problem, &ask("fair-energy", &problem)), total(&full, &ask("oef-coop", &full)));
    assert!((ours - theirs).abs() <= 1e-6 * theirs, "{ours} against {theirs}");
}
