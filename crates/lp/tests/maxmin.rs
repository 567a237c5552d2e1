//! The structured solver against closed forms, against the general solver, and against its own certificate.

mod common;

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::maxmin::{self, General, MaxMin, Solution, TOLERANCE, Workspace};
use arles_lp::{Budget, Clarabel, Domain, InputError};
use common::instances;
use proptest::prelude::*;

const FREE: f64 = f64::INFINITY;

fn solve(w: &[f64], beta: &[f64], caps: &[f64], capacity: &[f64]) -> Solution {
    let problem = MaxMin { w, beta, caps, capacity };
    let level = maxmin::solve(&problem, Budget::default()).unwrap();
    assert_certified(&problem, &level);
    level
}

/// Feasible, with a small gap, and with duals that prove the upper bound by the formula itself.
fn assert_certified(problem: &MaxMin<'_>, level: &Solution) {
    assert_feasible(problem, level);
    assert!(level.bound.gap() <= TOLERANCE, "gap {:e}", level.bound.gap());
    let k = problem.capacity.len();
    let weight: f64 = level.duals.iter().zip(problem.beta).map(|(lambda, beta)| lambda * beta).sum();
    let mut cost: f64 = level.prices.iter().zip(problem.capacity).map(|(p, m)| p * m).sum();
    for (l, w) in problem.w.chunks(k).enumerate() {
        let profit = w.iter().zip(&level.prices).map(|(w, p)| level.duals[l] * w - p).fold(0.0, f64::max);
        if problem.caps[l].is_finite() {
            cost += problem.caps[l] * profit;
        } else {
            let scale = level.prices.iter().fold(0.0, |a: f64, &b| a.max(b));
            assert!(profit <= 1e-12 * scale, "user {l} has no cap and still a profit of {profit:e}");
        }
    }
    assert!((cost / weight - level.bound.upper).abs() <= 1e-9 * level.bound.upper);
}

fn assert_feasible(problem: &MaxMin<'_>, level: &Solution) {
    let k = problem.capacity.len();
    let within = |value: f64, limit: f64| value <= limit * (1.0 + 1e-9);
    for (l, x) in level.x.chunks(k).enumerate() {
        let w = &problem.w[l * k..][..k];
        assert!(x.iter().zip(w).all(|(&x, &w)| x >= 0.0 && (w > 0.0 || x == 0.0)), "user {l} gets {x:?} at {w:?}");
        assert!(within(x.iter().sum(), problem.caps[l]), "user {l} exceeds its cap");
        let served: f64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
        assert!(served >= problem.beta[l] * level.t * (1.0 - 1e-12), "user {l} is below the level");
    }
    for j in 0..k {
        let used: f64 = level.x.chunks(k).map(|x| x[j]).sum();
        assert!(within(used, problem.capacity[j]), "resource {j} is oversold");
    }
}

fn assert_level(level: &Solution, expected: f64) {
    assert!((level.t - expected).abs() <= 2.0 * TOLERANCE * expected, "{} is not {expected}", level.t);
}

#[test]
fn one_user_takes_all() {
    assert_level(&solve(&[2.0, 3.0], &[0.5], &[FREE], &[4.0, 5.0]), 46.0);
    assert_level(&solve(&[2.0, 3.0], &[0.5], &[6.0], &[4.0, 5.0]), 34.0);
    assert_level(&solve(&[2.0], &[1.0], &[1e-6], &[1e6]), 2e-6);
}

#[test]
fn one_resource_is_divided_by_what_is_owed() {
    // t = m / Σ β/w
    assert_level(&solve(&[1.0, 2.0, 4.0], &[1.0, 1.0, 2.0], &[FREE; 3], &[10.0]), 5.0);
}

#[test]
fn a_small_cap_holds_everybody_down_but_the_rest_is_still_handed_out() {
    let level = solve(&[1.0, 1.0, 1.0], &[1.0; 3], &[0.1, FREE, FREE], &[10.0]);
    assert_level(&level, 0.1);
    assert!(level.x[1] > 1.0 && level.x[2] > 1.0, "surplus is spread: {:?}", level.x);
}

#[test]
fn the_bottleneck_does_not_withhold_what_only_others_can_use() {
    let level = solve(&[1.0, 0.0, 1.0, 1.0], &[1.0, 1.0], &[FREE, FREE], &[1.0, 100.0]);
    assert_level(&level, 1.0);
    assert!(level.x[3] > 10.0, "{:?}", level.x);
}

#[test]
fn a_resource_of_nothing_is_absent_and_priced_out() {
    let level = solve(&[1.0, 9.0, 1.0, 5.0], &[1.0, 1.0], &[FREE, FREE], &[4.0, 0.0]);
    assert_level(&level, 2.0);
    assert_eq!((level.x[1], level.x[3]), (0.0, 0.0));
    assert!(level.prices[1] >= 9.0 * level.duals[0] * (1.0 - 1e-12));
}

#[test]
fn prices_say_what_one_more_is_worth() {
    let at = |m: f64| solve(&[1.0, 2.0, 1.0, 3.0], &[1.0, 1.0], &[FREE, FREE], &[m, 1.0]);
    let (here, more) = (at(1.0), at(1.01));
    assert!(((more.t - here.t) / 0.01 - here.prices[0]).abs() < 1e-4);
}

#[test]
fn nonsense_is_refused_in_a_sentence() {
    let refuse = |w: &[f64], beta: &[f64], caps: &[f64], capacity: &[f64]| {
        maxmin::solve(&MaxMin { w, beta, caps, capacity }, Budget::default()).unwrap_err()
    };
    assert_eq!(refuse(&[], &[], &[], &[1.0]), InputError::Empty);
    assert_eq!(refuse(&[1.0], &[1.0], &[], &[1.0]), InputError::Shape { what: "caps", length: 0, expected: 1 });
    assert_eq!(
        refuse(&[-1.0], &[1.0], &[1.0], &[1.0]),
        InputError::Number { what: "w", index: 0, value: -1.0, domain: Domain::NonNegative }
    );
    assert_eq!(
        refuse(&[1.0], &[0.0], &[1.0], &[1.0]),
        InputError::Number { what: "beta", index: 0, value: 0.0, domain: Domain::Positive }
    );
    assert!(matches!(refuse(&[1.0], &[1.0], &[f64::NAN], &[1.0]), InputError::Number { what: "caps", .. }));
    assert!(matches!(refuse(&[1.0], &[1.0], &[1.0], &[FREE]), InputError::Number { what: "capacity", .. }));
    let unservable = refuse(&[1.0, 1.0, 0.0, 1.0], &[1.0; 2], &[1.0; 2], &[1.0, 0.0]);
    assert_eq!(unservable, InputError::Unservable { user: 1 });
    assert_eq!(
        unservable.to_string(),
        "user 1 has no positive rate on any resource with capacity; leave such users out"
    );
}

#[test]
fn more_resources_than_the_structured_method_takes_go_to_the_general_one() {
    let (k, caps) = (maxmin::MOST_RESOURCES + 1, [FREE]);
    let (w, capacity) = (vec![1.0; k], vec![1.0; k]);
    let problem = MaxMin { w: &w, beta: &[1.0], caps: &caps, capacity: &capacity };
    assert_eq!(
        maxmin::solve(&problem, Budget::default()),
        Err(InputError::TooMany { what: "resources", count: k as u64, most: 32 })
    );
    let level = maxmin::solve_or_general(&problem, Budget::default()).unwrap();
    assert!((level.t / k as f64 - 1.0).abs() < 1e-6);
}

#[test]
fn a_spent_budget_leaves_a_feasible_answer_with_an_honest_gap() {
    let recipe =
        Recipe { family: Family::Rand, users: 40, resources: 4, load: 0.1, uncapped: 0.2, spread: 0.0, seed: 1 };
    let instance = Instance::new(&recipe);
    let best = maxmin::solve(&instance.problem(), Budget::default()).unwrap();
    for iterations in 0..4 {
        let level = maxmin::solve(&instance.problem(), Budget::iterations(iterations)).unwrap();
        assert_eq!(level.iterations, iterations);
        assert_feasible(&instance.problem(), &level);
        assert!(level.bound.gap() > 1e-3);
        assert!(level.bound.lower <= best.bound.upper && best.bound.lower <= level.bound.upper);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_general_solver(instance in instances(1..40, 1..13)) {
        let problem = instance.problem();
        let level = maxmin::solve(&problem, Budget::default()).unwrap();
        assert_certified(&problem, &level);
        let general = General::new(&problem).unwrap().solve(&problem, &Clarabel, Budget::default());
        assert_feasible(&problem, &general);
        // Both bounds are proved, so they overlap whatever the solvers did.
        let slack = 1.0 + 1e-12;
        prop_assert!(level.bound.lower <= general.bound.upper * slack);
        prop_assert!(general.bound.lower <= level.bound.upper * slack);
        // Clarabel stops at 1e-8 of its own measure; where its certified gap is wider, the comparison is too.
        let allowed = 1e-6_f64.max(general.bound.gap());
        prop_assert!(general.bound.gap() < 1e-4, "the reference itself is {:e} off", general.bound.gap());
        prop_assert!((level.t - general.t).abs() <= allowed * general.t, "{} against {}", level.t, general.t);
    }

    #[test]
    fn twins_get_the_same(instance in instances(1..40, 1..13)) {
        let k = instance.capacity.len();
        let mut twins = instance.clone();
        twins.w.extend_from_slice(&instance.w[..k]);
        twins.beta.push(instance.beta[0]);
        twins.caps.push(instance.caps[0]);
        let level = maxmin::solve(&twins.problem(), Budget::default()).unwrap();
        let last = level.x.len() - k;
        prop_assert_eq!(&level.x[..k], &level.x[last..]);
    }

    #[test]
    fn nobody_gains_by_counting_in_other_units(instance in instances(1..40, 1..13), by in -30..30i32) {
        let k = instance.capacity.len();
        let mut renamed = instance.clone();
        let factor = 2f64.powi(by); // exact, so that not even rounding may tell
        renamed.w[..k].iter_mut().for_each(|w| *w *= factor);
        renamed.beta[0] *= factor;
        let (before, after) = (maxmin::solve(&instance.problem(), Budget::default()), maxmin::solve(&renamed.problem(), Budget::default()));
        prop_assert_eq!(before.unwrap().x, after.unwrap().x);
    }

    #[test]
    fn a_used_workspace_answers_as_a_fresh_one(first in instances(1..40, 1..13), second in instances(1..40, 1..13)) {
        let mut workspace = Workspace::new();
        workspace.solve(&first.problem(), Budget::default(), TOLERANCE).unwrap();
        let again = workspace.solve(&second.problem(), Budget::default(), TOLERANCE).unwrap().clone();
        prop_assert_eq!(again, maxmin::solve(&second.problem(), Budget::default()).unwrap());
    }
}
