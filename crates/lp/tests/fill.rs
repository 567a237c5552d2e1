//! Water-filling against closed forms, against a reference that solves one program per question, and against its own
//! certificate.

mod common;

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::maxmin::{self, FillWorkspace, Filling, MaxMin};
use arles_lp::{Budget, Clarabel, ColumnId, InputError, Model, Solver, certificate};
use common::instances;
use proptest::prelude::*;

const FREE: f64 = f64::INFINITY;
const BUDGET: Budget = Budget::iterations(5_000);

fn fill(w: &[f64], beta: &[f64], caps: &[f64], capacity: &[f64]) -> Filling {
    let problem = MaxMin { w, beta, caps, capacity };
    let filled = maxmin::fill(&problem, BUDGET).unwrap();
    assert_sound(&problem, &filled);
    filled
}

/// Feasible, proved to 1e-6, nothing left that anybody could use.
fn assert_sound(problem: &MaxMin<'_>, filled: &Filling) {
    assert_feasible(problem, filled);
    assert!(filled.gap <= 1e-6, "gap {:e}", filled.gap);
    assert_conserving(problem, filled);
    let mut settled: Vec<usize> =
        filled.bottlenecks.iter().flat_map(|s| s.frozen.iter().chain(&s.full)).copied().collect();
    settled.sort_unstable();
    assert_eq!(settled, (0..problem.beta.len()).collect::<Vec<_>>(), "everybody stops in one stage");
    let levels: Vec<f64> = filled.bottlenecks.iter().map(|stage| stage.bound.lower).collect();
    assert!(levels.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-6)), "stages rise: {levels:?}");
}

fn assert_feasible(problem: &MaxMin<'_>, filled: &Filling) {
    let k = problem.capacity.len();
    let within = |value: f64, limit: f64| value <= limit * (1.0 + 1e-9);
    for (l, x) in filled.x.chunks(k).enumerate() {
        let w = &problem.w[l * k..][..k];
        assert!(x.iter().zip(w).all(|(&x, &w)| x >= 0.0 && (w > 0.0 || x == 0.0)), "user {l} gets {x:?} at {w:?}");
        assert!(within(x.iter().sum(), problem.caps[l]), "user {l} exceeds its cap");
        let level = x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>() / problem.beta[l];
        assert!((level - filled.levels[l]).abs() <= 1e-12 * level);
        assert!(within(level, filled.ceilings[l]), "user {l} is above its ceiling");
    }
    for j in 0..k {
        let used: f64 = filled.x.chunks(k).map(|x| x[j]).sum();
        assert!(within(used, problem.capacity[j]), "resource {j} is oversold");
    }
}

/// No resource with capacity left is wanted by a user below its cap.
fn assert_conserving(problem: &MaxMin<'_>, filled: &Filling) {
    let k = problem.capacity.len();
    for j in 0..k {
        let used: f64 = filled.x.chunks(k).map(|x| x[j]).sum();
        if used < problem.capacity[j] * (1.0 - 1e-9) {
            for (l, x) in filled.x.chunks(k).enumerate().filter(|&(l, _)| problem.w[l * k + j] > 0.0) {
                let held: f64 = x.iter().sum();
                assert!(held >= problem.caps[l] * (1.0 - 1e-9), "user {l} could use more of resource {j}");
            }
        }
    }
}

fn assert_levels(filled: &Filling, expected: &[f64]) {
    let near = |(ours, theirs): (&f64, &f64)| (ours - theirs).abs() <= 1e-6 * theirs;
    assert!(filled.levels.iter().zip(expected).all(near), "{:?} is not {expected:?}", filled.levels);
}

#[test]
fn what_only_one_can_use_goes_to_that_one() {
    let filled = fill(&[1.0, 0.0, 1.0, 1.0], &[1.0; 2], &[FREE; 2], &[1.0, 100.0]);
    assert_levels(&filled, &[1.0, 100.0]);
    assert_eq!(filled.bottlenecks.len(), 2);
    assert!((filled.bottlenecks[0].prices[0] - 1.0).abs() < 1e-6 && filled.bottlenecks[0].prices[1] == 0.0);
}

#[test]
fn one_user_takes_all() {
    assert_levels(&fill(&[2.0, 3.0], &[0.5], &[FREE], &[4.0, 5.0]), &[46.0]);
    assert_levels(&fill(&[2.0, 3.0], &[0.5], &[6.0], &[4.0, 5.0]), &[34.0]);
    assert_levels(&fill(&[2.0], &[1.0], &[1e-6], &[1e6]), &[2e-6]);
}

#[test]
fn a_cap_stops_its_user_and_nobody_else() {
    assert_levels(&fill(&[1.0; 4], &[1.0; 4], &[0.1, 2.0, FREE, FREE], &[10.0]), &[0.1, 2.0, 3.95, 3.95]);
}

#[test]
fn plenty_fills_every_cap() {
    let filled = fill(&[1.0, 2.0, 3.0, 1.0], &[1.0, 2.0], &[2.0, 4.0], &[100.0, 100.0]);
    assert_levels(&filled, &[4.0, 6.0]);
    assert_eq!(filled.bottlenecks.len(), 1);
    assert_eq!(filled.bottlenecks[0].full, [0, 1]);
}

/// User l can use resources up to l only, and each resource is ten times the one before: as many stages as resources.
#[test]
fn a_staircase_has_a_stage_per_step() {
    let k = 8;
    let w: Vec<f64> = (0..k * k).map(|at| if at % k <= at / k { 1.0 } else { 0.0 }).collect();
    let capacity: Vec<f64> = (0..k).map(|j| 10f64.powi(j as i32)).collect();
    let filled = fill(&w, &vec![1.0; k], &vec![FREE; k], &capacity);
    assert_levels(&filled, &capacity);
    assert_eq!(filled.bottlenecks.len(), k);
}

/// A frozen user keeps its level and not its shares: it must give way on the resource that others need later.
#[test]
fn a_frozen_user_makes_room() {
    // Users 0 and 1 share resource 0 and freeze; user 1 could as well use resource 1, which user 2 needs.
    let filled = fill(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0], &[1.0; 3], &[1.0, 1.0, FREE], &[2.0, 3.0, 1.0]);
    assert_levels(&filled, &[1.0, 1.0, 4.0]);
}

#[test]
fn nonsense_is_refused() {
    let refuse = |w: &[f64], caps: &[f64], capacity: &[f64]| {
        maxmin::fill(&MaxMin { w, beta: &[1.0], caps, capacity }, BUDGET).unwrap_err()
    };
    assert_eq!(refuse(&[1.0], &[], &[1.0]), InputError::Shape { what: "caps", length: 0, expected: 1 });
    assert_eq!(refuse(&[1.0], &[1.0], &[0.0]), InputError::Unservable { user: 0 });
    let k = maxmin::MOST_RESOURCES + 1;
    assert_eq!(
        refuse(&vec![1.0; k], &[1.0], &vec![1.0; k]),
        InputError::TooMany { what: "resources", count: k as u64, most: k as u64 - 1 }
    );
}

#[test]
fn a_spent_budget_leaves_a_feasible_answer_with_an_honest_gap() {
    let recipe =
        Recipe { family: Family::Zeros, users: 40, resources: 4, load: 1.0, uncapped: 0.2, spread: 0.0, seed: 1 };
    let instance = Instance::new(&recipe);
    let problem = instance.problem();
    let best = maxmin::fill(&problem, BUDGET).unwrap();
    for iterations in 0..best.iterations {
        let filled = maxmin::fill(&problem, Budget::iterations(iterations)).unwrap();
        assert!(filled.iterations <= iterations);
        assert_feasible(&problem, &filled);
        assert_conserving(&problem, &filled);
        // Of a level that was not reached nothing may be proved; then its bound is infinite, not NaN.
        assert!(filled.bottlenecks.iter().all(|bottleneck| !bottleneck.bound.upper.is_nan()));
        for l in 0..40 {
            // The ceiling holds unless somebody who has no more loses.
            let loser =
                |i: usize| filled.levels[i] <= filled.levels[l] && best.levels[i] < filled.levels[i] * (1.0 - 1e-6);
            let holds = best.levels[l] <= filled.ceilings[l] * (1.0 + 1e-6);
            assert!(holds || (0..40).any(loser), "user {l} could exceed its ceiling");
        }
        let short = (0..40).any(|l| filled.levels[l] < best.levels[l] * (1.0 - 1e-4));
        assert!(!short || filled.gap > 1e-5, "the gap {:e} hides that somebody is short", filled.gap);
    }
}

/// Max of `u_target`, or of the common level of all `rising`, with everybody else at `floor`. Rates are divided by
/// each user's greatest and levels by `unit`.
fn most(problem: &MaxMin<'_>, unit: f64, floor: &[f64], rising: &[bool], target: Option<usize>) -> Option<f64> {
    let (n, k) = (problem.beta.len(), problem.capacity.len());
    let mut model = Model::maximise();
    let t = model.add_column(f64::NEG_INFINITY, f64::INFINITY, 1.0).unwrap();
    let mut on: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); k];
    for l in 0..n {
        let w = &problem.w[l * k..][..k];
        let fastest = (0..k).filter(|&j| problem.capacity[j] > 0.0).map(|j| w[j]).fold(0.0, f64::max);
        let (mut row, mut cap) = (Vec::new(), Vec::new());
        for j in (0..k).filter(|&j| w[j] > 0.0 && problem.capacity[j] > 0.0) {
            let x = model.add_column(0.0, f64::INFINITY, 0.0).unwrap();
            row.push((x, w[j] / fastest));
            cap.push((x, 1.0));
            on[j].push((x, 1.0));
        }
        let beta = problem.beta[l] / fastest * unit;
        let lifted = target.map_or(rising[l], |target| target == l);
        if lifted {
            row.push((t, -beta));
        }
        model.add_row(if lifted { 0.0 } else { beta * floor[l] / unit }, f64::INFINITY, &row).unwrap();
        model.add_row(f64::NEG_INFINITY, problem.caps[l], &cap).unwrap();
    }
    for j in 0..k {
        model.add_row(f64::NEG_INFINITY, problem.capacity[j], &on[j]).unwrap();
    }
    let outcome = Clarabel.solve(&model, Budget::default());
    certificate::check(&model, &outcome).is_good(1e-7).then_some(outcome.objective * unit)
}

/// The leximin vector, program by program; nothing where Clarabel itself is not sure.
fn reference(problem: &MaxMin<'_>, unit: f64) -> Option<Vec<f64>> {
    let n = problem.beta.len();
    let (mut u, mut rising) = (vec![0.0; n], vec![true; n]);
    while rising.contains(&true) {
        let t = most(problem, unit, &u, &rising, None)?;
        let mut floor = u.clone();
        (0..n).filter(|&l| rising[l]).for_each(|l| floor[l] = t * (1.0 - 1e-8));
        let mut room = Vec::new();
        for l in (0..n).filter(|&l| rising[l]) {
            room.push((most(problem, unit, &floor, &rising, Some(l))? / t, l));
        }
        room.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, &(room, l)) in room.iter().enumerate() {
            if at == 0 || room <= 1.0 + 1e-6 {
                rising[l] = false;
                u[l] = t * (1.0 - 1e-8);
            }
        }
    }
    Some(u)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 700, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_program_by_program(instance in instances(1..13, 1..11)) {
        let problem = instance.problem();
        let filled = maxmin::fill(&problem, BUDGET).unwrap();
        assert_sound(&problem, &filled);
        let Some(reference) = reference(&problem, filled.bottlenecks[0].bound.lower) else { return Ok(()) };
        for (l, theirs) in reference.into_iter().enumerate() {
            let ours = filled.levels[l];
            // A reference above what is proved impossible is wrong, and is not asked.
            let wrong = theirs > filled.ceilings[l] * (1.0 + 1e-5);
            prop_assert!(wrong || (ours - theirs).abs() <= 1e-5 * theirs, "user {} has {} and not {}", l, ours, theirs);
        }
    }

    #[test]
    fn twins_are_equal(instance in instances(1..13, 1..11)) {
        let k = instance.capacity.len();
        let mut twins = instance.clone();
        twins.w.extend_from_slice(&instance.w[..k]);
        twins.beta.push(instance.beta[0]);
        twins.caps.push(instance.caps[0]);
        let levels = maxmin::fill(&twins.problem(), BUDGET).unwrap().levels;
        prop_assert!((levels[0] - levels[levels.len() - 1]).abs() <= 1e-6 * levels[0]);
    }

    #[test]
    fn nobody_gains_by_counting_in_other_units(instance in instances(1..13, 1..11), by in -30..30i32) {
        let k = instance.capacity.len();
        let mut renamed = instance.clone();
        let factor = 2f64.powi(by);
        renamed.w[..k].iter_mut().for_each(|w| *w *= factor);
        renamed.beta[0] *= factor;
        let (before, after) = (maxmin::fill(&instance.problem(), BUDGET), maxmin::fill(&renamed.problem(), BUDGET));
        prop_assert_eq!(before.unwrap().x, after.unwrap().x);
    }

    #[test]
    fn a_used_reservoir_agrees_with_a_fresh_one(first in instances(1..13, 1..11), second in instances(1..13, 1..11)) {
        let mut reservoir = FillWorkspace::new();
        reservoir.fill(&first.problem(), BUDGET).unwrap();
        let warm = reservoir.fill(&second.problem(), BUDGET).unwrap();
        assert_sound(&second.problem(), &warm);
        let cold = maxmin::fill(&second.problem(), BUDGET).unwrap();
        for (warm, cold) in warm.levels.iter().zip(&cold.levels) {
            prop_assert!((warm - cold).abs() <= 1e-6 * cold, "{} and {}", warm, cold);
        }
    }

    #[test]
    fn the_same_question_gets_the_same_answer(instance in instances(1..13, 1..11)) {
        let problem = instance.problem();
        prop_assert_eq!(maxmin::fill(&problem, BUDGET), FillWorkspace::new().fill(&problem, BUDGET));
        // Without proofs, too, also where something was solved before.
        let (mut proving, mut sharing) = (FillWorkspace::new(), FillWorkspace::new());
        for _ in 0..2 {
            prop_assert_eq!(proving.fill(&problem, BUDGET).unwrap().x, sharing.shares(&problem, BUDGET).unwrap());
        }
    }
}
