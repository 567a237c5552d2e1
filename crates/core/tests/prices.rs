//! A price is what one more GPU of a kind is worth to the objective: solved again with a little more and a little less of it.
//!
//! The objective V of a linear program is concave in its capacities m, so for a price p of kind j and any δ > 0
//!
//!   (V(m + δ e_j) − V(m)) / δ   ≤   p   ≤   (V(m) − V(m − δ e_j)) / δ
//!
//! and where the two sides agree, p is that number. Max-min fairness measures everybody by its share of the GPUs that there
//! are; a price leaves the measure as it is, so weights make up for it here.

#[path = "conformance/draws.rs"]
#[expect(dead_code, reason = "the conformance suite draws more kinds of problems than prices are about")]
mod draws;

use arles_core::allocate::{Allocation, Entitlement, POLICIES, PolicyEntry, Power, Problem, Promise, find_policy};
use draws::{Draft, build, with_floors, with_pairs};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

/// Part of a kind that is added or taken away.
const STEP: f64 = 1e-2;
/// Error of a price, relative to what all GPUs are worth over their number.
const SLACK: f64 = 2e-3;

fn problem() -> impl Strategy<Value = Problem> {
    let rate = prop_oneof![1 => (1u32..4).prop_map(f64::from), 4 => 0.2..5.0f64];
    (1usize..4, 1usize..7, any::<bool>()).prop_flat_map(move |(kinds, users, capped)| {
        let jobs = if capped { 1u32..6 } else { 40..41 };
        let gang = prop_oneof![4 => Just(1u32), 1 => Just(2u32)];
        let user = (gang, jobs, 1u32..4, 100.0..1e4f64, prop::collection::vec(rate.clone(), kinds));
        let users = prop::collection::vec(user, users);
        (prop::collection::vec(3u32..9, kinds), users).prop_map(|(capacity, users)| {
            let draft = |(gang, jobs, weight, steps_left, rates): &(u32, u32, u32, f64, Vec<f64>)| Draft {
                gang: *gang,
                jobs: *jobs,
                weight: f64::from(*weight),
                attained_gpu_seconds: 0.0,
                steps_left: *steps_left,
                rates: rates.clone(),
            };
            let costs = (0..capacity.len()).map(|j| [1.0, 2.5, 0.4][j]).collect();
            let drafts: Vec<Draft> = users.iter().map(draft).collect();
            build(&capacity, &drafts, false).with_costs(costs).expect("sound costs")
        })
    })
}

fn ask(entry: &PolicyEntry, problem: &Problem) -> Allocation {
    (entry.make)().allocate(problem).expect(entry.name)
}

/// The objective, if it is proved to be the largest: only then can two of them be subtracted.
fn value(entry: &PolicyEntry, problem: &Problem) -> Option<f64> {
    proved(&ask(entry, problem))
}

fn proved(answer: &Allocation) -> Option<f64> {
    answer.certificate().filter(|certificate| certificate.gap() <= 1e-6)?;
    answer.objective()
}

/// The problem with `more` of kind `j`, and everybody's measure as it was.
fn with_more(entry: &PolicyEntry, problem: &Problem, j: usize, more: f64) -> Problem {
    let mut changed = problem.clone();
    changed.capacity[j] += more;
    if entry.name.starts_with("max-min") {
        let mean = |problem: &Problem, u: usize| {
            let speeds =
                problem.gpu_rates(u).map(|r| if entry.ignores_speeds { f64::from(u8::from(r > 0.0)) } else { r });
            let sum: f64 = speeds.zip(&problem.capacity).map(|(r, m)| r * m).sum();
            sum / problem.capacity.iter().sum::<f64>()
        };
        for u in 0..problem.users.len() {
            changed.users[u].job_weight *= mean(problem, u) / mean(&changed, u);
        }
    }
    changed
}

/// Checks all prices of an answer; returns how many were pinned down by the two sides.
fn check_prices(entry: &PolicyEntry, problem: &Problem) -> u32 {
    let answer = ask(entry, problem);
    let Some(now) = proved(&answer) else { return 0 };
    let mean = now.abs() / problem.capacity.iter().sum::<f64>();
    let mut pinned = 0;
    for (j, &price) in answer.prices().iter().enumerate() {
        let with = |more: f64| value(entry, &with_more(entry, problem, j, more));
        let (Some(then), Some(before)) = (with(STEP), with(-STEP)) else { continue };
        let (more, less) = ((then - now) / STEP, (now - before) / STEP);
        let slack = SLACK * mean.max(price.abs());
        let inside = price >= more - slack && price <= less + slack;
        assert!(
            inside,
            "{}: kind {j} has price {price}; one more is worth {more} to {less} ({now})\n{problem:#?}",
            entry.name
        );
        pinned += u32::from(less - more <= slack && price > slack);
    }
    pinned
}

/// Problems on which a policy may have prices.
fn variants(entry: &PolicyEntry, problem: &Problem) -> Vec<Problem> {
    let mut variants = vec![problem.clone()];
    if entry.pairs {
        variants.push(with_pairs(problem.clone()));
    }
    if entry.promises(Promise::FloorsKept) {
        variants.push(with_floors(problem.clone(), false));
        variants.push(with_floors(problem.clone(), true));
    }
    variants
}

#[test]
fn a_price_is_what_one_more_gpu_is_worth() {
    let mut runner = TestRunner::deterministic();
    let mut pinned: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..150 {
        let problem = problem().new_tree(&mut runner).expect("a problem").current();
        for entry in POLICIES.iter().filter(|entry| !entry.promises(Promise::Whole)) {
            for problem in variants(entry, &problem) {
                *pinned.entry(entry.name).or_default() += check_prices(entry, &problem);
            }
        }
    }
    let priced = [
        "oef-coop",
        "oef-noncoop",
        "ceei",
        "max-min-fairness",
        "max-min-packed",
        "max-min-agnostic",
        "min-makespan",
        "max-throughput",
        "min-cost",
    ];
    for name in priced {
        let pinned = pinned[name];
        assert!(pinned >= 50, "{name}: {pinned} prices were pinned down");
    }
    // These have an objective and no prices, or neither.
    for name in ["gandiva-fair", "finish-time-fairness"] {
        assert_eq!(pinned[name], 0, "{name} has prices; put it into the list above");
    }
}

/// Sia's prices are those of its bound: whole jobs have no derivative.
#[test]
fn whole_jobs_gain_no_more_than_the_price_of_a_gpu() {
    let mut runner = TestRunner::deterministic();
    let entry = find_policy("sia").expect("in the table");
    let mut checked = 0;
    for _ in 0..200 {
        let problem = draws::any_problem(true).new_tree(&mut runner).expect("a problem").current();
        let answer = ask(entry, &problem);
        let Some(certificate) = answer.certificate() else { continue };
        for (j, price) in answer.prices().iter().enumerate() {
            // Who did not fit on the kind was not asked what it would pay.
            let fits = |u: usize| problem.capacity[j] >= f64::from(problem.users[u].gang);
            if (0..problem.users.len()).all(fits) {
                let more = ask(entry, &with_more(entry, &problem, j, 1.0)).objective().expect("a sum");
                let most = certificate.upper + price;
                assert!(more <= most * (1.0 + 1e-9), "one more of kind {j} at {price}: {more}, not {most}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 100, "{checked} prices were looked at");
}

/// The unit in which GPUs are counted changes the objective and prices as the table says.
#[test]
fn the_table_says_how_an_objective_counts_gpus() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..60 {
        let problem = problem().new_tree(&mut runner).expect("a problem").current();
        let power = Power::uniform(&problem);
        let problem = problem.with_power(power).expect("sound");
        for entry in POLICIES.iter().filter(|entry| !entry.promises(Promise::Whole)) {
            let whole = ask(entry, &problem);
            for parts in [2u32, 10] {
                let answer = ask(entry, &in_parts(&problem, parts));
                let (Some(now), Some(then)) = (whole.objective(), answer.objective()) else {
                    assert_eq!(whole.objective(), None, "{}", entry.name);
                    continue;
                };
                let degree = entry.objective_degree.expect("an objective whose unit nobody knows");
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * a.abs().max(b.abs());
                let expect = now * f64::from(parts).powi(degree);
                assert!(near(then, expect), "{}: {now} became {then}, not {expect}", entry.name);
            }
        }
    }
}

/// Every GPU counted as some parts.
fn in_parts(problem: &Problem, parts: u32) -> Problem {
    let mut counted = problem.clone();
    counted.capacity.iter_mut().for_each(|m| *m *= f64::from(parts));
    counted.hourly_cost.iter_mut().for_each(|cost| *cost /= f64::from(parts));
    // A part draws a part.
    if let Some(power) = &mut counted.power {
        power.idle_watts.iter_mut().for_each(|watts| *watts /= f64::from(parts));
        power.users.iter_mut().flat_map(|user| &mut user.watts).for_each(|watts| *watts /= f64::from(parts));
        power.pairs.iter_mut().for_each(|pair| pair.watts /= f64::from(parts));
    }
    counted.users.iter_mut().for_each(|user| user.gang *= parts);
    counted
}

/// By hand: the second user is owed most and can hold one GPU, so no GPU would raise the least level.
#[test]
fn nothing_has_a_price_where_somebodys_own_cap_is_what_binds() {
    let drafts = [draft(40, 2.0, &[4.0, 1.0]), draft(1, 3.0, &[2.0, 1.0])];
    let mut problem = build(&[2, 2], &drafts, false);
    // What `arles allocate` makes of a claim: the class's as a whole.
    problem.users.iter_mut().for_each(|user| user.job_weight = 1.0 / f64::from(user.jobs));
    let answer = ask(find_policy("max-min-fairness").expect("in the table"), &problem);
    // Two steps a second at most, over three times its mean rate of 1.5.
    let expect = 2.0 / 4.5;
    assert!((answer.objective().expect("a level") - expect).abs() < 1e-6, "{:?}", answer.objective());
    assert!(answer.prices().iter().all(|p| p.abs() < 1e-9), "its own cap keeps it down: {:?}", answer.prices());
    assert_eq!(Entitlement::Jobs.weights(&problem), [2.0, 3.0]);
}

fn draft(jobs: u32, weight: f64, rates: &[f64]) -> Draft {
    let rates = rates.to_vec();
    Draft { gang: 1, jobs, weight, attained_gpu_seconds: 0.0, steps_left: 1000.0, rates }
}

/// The solver of pairs stopped at two fifths of what everybody could have; nobody may be below what max-min fairness without
/// pairs would give it.
#[test]
fn packing_never_lowers_the_least_level() {
    let mut runner = TestRunner::deterministic();
    let [packed, apart] = ["max-min-packed", "max-min-fairness"].map(|name| find_policy(name).expect("in the table"));
    for _ in 0..300 {
        let problem = problem().new_tree(&mut runner).expect("a problem").current();
        let level = |entry: &PolicyEntry, problem: &Problem| ask(entry, problem).objective().expect("a level");
        let (with, without) = (level(packed, &with_pairs(problem.clone())), level(apart, &problem));
        assert!(with >= without * (1.0 - 1e-6), "{with} with pairs, {without} without: {problem:#?}");
    }
}
