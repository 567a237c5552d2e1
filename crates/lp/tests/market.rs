//! Markets against closed forms, against the general solver, against slow and simple methods, and against their own
//! certificates.

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::market::{self, EqualLevel, Equilibrium, Market, STEPS, Workspace};
use arles_lp::maxmin::{General, MaxMin};
use arles_lp::{Budget, Clarabel, Domain, InputError};
use proptest::prelude::*;

/// The gap that every answer of these tests must be certified to.
const GAP: f64 = 1e-9;

fn equal_level(w: &[f64], weight: &[f64], capacity: &[f64]) -> EqualLevel {
    let market = Market { w, weight, capacity };
    let level = market::equal_level(&market, None, STEPS).unwrap();
    assert_level(&market, &level);
    level
}

fn equilibrium(w: &[f64], weight: &[f64], capacity: &[f64]) -> Equilibrium {
    let market = Market { w, weight, capacity };
    let equilibrium = market::equilibrium(&market, None, STEPS).unwrap();
    assert_equilibrium(&market, &equilibrium);
    equilibrium
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

/// Shares are legal; returns everybody's utility.
fn assert_feasible(market: &Market<'_>, x: &[f64]) -> Vec<f64> {
    let k = market.capacity.len();
    for (x, w) in x.iter().zip(market.w) {
        assert!(*x >= 0.0 && x.is_finite() && (*w > 0.0 || *x == 0.0), "share {x} at rate {w}");
    }
    for j in 0..k {
        let used: f64 = x.chunks(k).map(|x| x[j]).sum();
        assert!(used <= market.capacity[j] * (1.0 + 1e-12), "resource {j}: {used} of {}", market.capacity[j]);
    }
    x.chunks(k).zip(market.w.chunks(k)).map(|(x, w)| x.iter().zip(w).map(|(x, w)| x * w).sum()).collect()
}

/// Feasible, everybody at its rung's level, every rung certified, rungs in order, and few mixes.
fn assert_level(market: &Market<'_>, level: &EqualLevel) {
    let k = market.capacity.len();
    let utilities = assert_feasible(market, &level.x(market));
    for (l, u) in utilities.iter().enumerate() {
        assert!(*u >= market.weight[l] * level.level(l) * (1.0 - 1e-12), "user {l} is below its level");
        assert!(*u <= market.weight[l] * level.level(l) * (1.0 + 1e-9), "user {l} is above its level");
    }
    for rung in &level.levels {
        assert!(rung.bound.gap() <= GAP, "gap {:e} of {:?}", rung.bound.gap(), level.levels);
    }
    assert!(level.levels.is_sorted_by(|a, b| a.t <= b.t * (1.0 + 1e-9)), "{:?}", level.levels);
    assert!(level.levels.len() <= k && level.assignment.mixes() < k, "{} mixes", level.assignment.mixes());
    // The certificate's formula, once more, the slow way round.
    let worth = |l: usize| {
        let usable = (0..k).filter(|&j| market.w[l * k + j] > 0.0);
        usable.map(|j| level.prices[j] / market.w[l * k + j]).fold(f64::INFINITY, f64::min)
    };
    let spent: f64 = (0..market.weight.len()).map(|l| market.weight[l] * worth(l)).sum();
    let supply: f64 = level.prices.iter().zip(market.capacity).map(|(p, m)| p * m).sum();
    if market.capacity.iter().all(|&m| m > 0.0) || level.levels.len() == 1 {
        assert!(close(supply / spent, level.bound.upper, 1e-9), "{supply} / {spent} is not {}", level.bound.upper);
    }
}

/// Feasible, everybody spends its money on what is best for it, everything is sold, and few mixes.
fn assert_equilibrium(market: &Market<'_>, equilibrium: &Equilibrium) {
    let k = market.capacity.len();
    let (x, p) = (equilibrium.x(market), &equilibrium.prices);
    let utilities = assert_feasible(market, &x);
    for (l, u) in utilities.iter().enumerate() {
        let w = &market.w[l * k..][..k];
        let best = (0..k).filter(|&j| w[j] > 0.0).map(|j| w[j] / p[j]).fold(0.0, f64::max);
        assert!(
            close(*u, market.weight[l] * best, 1e-9),
            "user {l} has {u} and could have {}",
            market.weight[l] * best
        );
    }
    for j in 0..k {
        let used: f64 = x.chunks(k).map(|x| x[j]).sum();
        let wanted = market.w.chunks(k).any(|w| w[j] > 0.0);
        assert!(!wanted || used >= market.capacity[j] * (1.0 - 1e-9), "{used} of {}", market.capacity[j]);
    }
    assert!(equilibrium.welfare.width() <= GAP, "gap {:e}", equilibrium.welfare.width());
    assert!(equilibrium.assignment.mixes() < k);
    let money: f64 = market.weight.iter().sum();
    let mean: f64 = utilities.iter().zip(market.weight).map(|(u, weight)| weight / money * u.ln()).sum();
    assert!((mean - equilibrium.welfare.lower).abs() <= 1e-9 * (1.0 + mean.abs()));
}

#[test]
fn one_user_takes_all() {
    let level = equal_level(&[2.0, 3.0], &[0.5], &[4.0, 5.0]);
    assert!(close(level.t, 46.0, 1e-12));
    let equilibrium = equilibrium(&[2.0, 3.0], &[0.5], &[4.0, 5.0]);
    assert!(close(equilibrium.welfare.lower, 23f64.ln(), 1e-12));
}

#[test]
fn one_resource_is_divided_by_what_is_owed() {
    // t = m / Σ π/w
    assert!(close(equal_level(&[1.0, 2.0, 4.0], &[1.0, 1.0, 2.0], &[10.0]).t, 5.0, 1e-12));
    let equilibrium = equilibrium(&[1.0, 2.0, 4.0], &[1.0, 1.0, 2.0], &[10.0]);
    assert!(close(equilibrium.prices[0], 0.4, 1e-12));
}

#[test]
fn the_bottleneck_does_not_withhold_what_only_others_can_use() {
    let level = equal_level(&[1.0, 0.0, 1.0, 1.0], &[1.0, 1.0], &[1.0, 100.0]);
    assert!(close(level.level(0), 1.0, 1e-12) && close(level.level(1), 100.0, 1e-12), "{level:?}");
    assert_eq!((level.levels.len(), level.level_of.as_slice()), (2, &[0, 1][..]));
}

#[test]
fn rungs_that_come_out_of_order_are_pooled() {
    // Users confined to the first resource are well off; those on the second have little and may use the first.
    let level = equal_level(&[1.0, 0.0, 1.0, 1.0], &[1.0, 1.0], &[100.0, 1.0]);
    assert!(close(level.t, 50.5, 1e-12));
    assert_eq!(level.levels.len(), 1);
}

#[test]
fn a_resource_of_nothing_is_absent_and_priced_out() {
    let level = equal_level(&[1.0, 9.0, 1.0, 5.0], &[1.0, 1.0], &[4.0, 0.0]);
    assert!(close(level.t, 2.0, 1e-12) && level.prices[1] >= 9.0 * level.prices[0] * (1.0 - 1e-12));
    let equilibrium = equilibrium(&[1.0, 9.0, 1.0, 5.0], &[1.0, 1.0], &[4.0, 0.0]);
    assert!(equilibrium.prices[1] >= 9.0 * equilibrium.prices[0] * (1.0 - 1e-12));
}

#[test]
fn a_resource_nobody_can_use_is_free() {
    assert_eq!(equal_level(&[1.0, 0.0, 1.0, 0.0], &[1.0, 1.0], &[4.0, 3.0]).prices, [0.5, 0.0]);
    assert_eq!(equilibrium(&[1.0, 0.0, 1.0, 0.0], &[1.0, 1.0], &[4.0, 3.0]).prices, [0.5, 0.0]);
}

#[test]
fn prices_say_what_one_more_is_worth() {
    let at = |m: f64| equal_level(&[1.0, 2.0, 1.0, 3.0], &[1.0, 1.0], &[m, 1.0]);
    let (here, more) = (at(1.0), at(1.01));
    assert!(((more.t - here.t) / 0.01 - here.prices[0]).abs() < 1e-4);
}

#[test]
fn nonsense_is_refused_in_a_sentence() {
    let refuse = |w: &[f64], weight: &[f64], capacity: &[f64]| {
        let market = Market { w, weight, capacity };
        let refusal = market::equal_level(&market, None, STEPS).unwrap_err();
        assert_eq!(market::equilibrium(&market, None, STEPS).unwrap_err().to_string(), refusal.to_string());
        refusal
    };
    assert_eq!(refuse(&[], &[], &[1.0]), InputError::Empty);
    assert_eq!(refuse(&[1.0], &[1.0], &[]), InputError::Empty);
    assert_eq!(refuse(&[1.0], &[1.0, 1.0], &[1.0]), InputError::Shape { what: "w", length: 1, expected: 2 });
    assert_eq!(
        refuse(&[-1.0], &[1.0], &[1.0]),
        InputError::Number { what: "w", index: 0, value: -1.0, domain: Domain::ModerateOrZero }
    );
    assert_eq!(
        refuse(&[1e99], &[1.0], &[1.0]),
        InputError::Number { what: "w", index: 0, value: 1e99, domain: Domain::ModerateOrZero }
    );
    assert_eq!(
        refuse(&[1.0], &[0.0], &[1.0]),
        InputError::Number { what: "weight", index: 0, value: 0.0, domain: Domain::Moderate }
    );
    assert!(matches!(refuse(&[1.0], &[f64::NAN], &[1.0]), InputError::Number { what: "weight", .. }));
    assert!(matches!(refuse(&[1.0], &[1.0], &[f64::INFINITY]), InputError::Number { what: "capacity", .. }));
    assert_eq!(refuse(&[1.0; 33], &[1.0], &[1.0; 33]), InputError::TooMany { what: "resources", count: 33, most: 32 });
    let unservable = refuse(&[1.0, 1.0, 0.0, 1.0], &[1.0; 2], &[1.0, 0.0]);
    assert_eq!(unservable, InputError::Unservable { user: 1 });
    assert_eq!(
        unservable.to_string(),
        "user 1 has no positive rate on any resource with capacity; leave such users out"
    );
    let market = Market { w: &[1.0], weight: &[1.0], capacity: &[1.0] };
    let start = market::equal_level(&market, Some(&[1.0, 1.0]), STEPS);
    assert_eq!(start, Err(InputError::Shape { what: "start", length: 2, expected: 1 }));
}

fn instance(family: Family, users: usize, resources: usize, seed: u64) -> Instance {
    Instance::new(&Recipe { family, users, resources, load: 0.3, uncapped: 0.0, spread: 0.0, seed })
}

fn market(instance: &Instance) -> Market<'_> {
    Market { w: &instance.w, weight: &instance.caps, capacity: &instance.capacity }
}

#[test]
fn a_spent_budget_leaves_a_feasible_answer_with_an_honest_gap() {
    for users in [40, 4000] {
        let instance = instance(Family::Rand, users, 6, 1);
        let market = market(&instance);
        let best = market::equal_level(&market, None, STEPS).unwrap();
        let clearing = market::equilibrium(&market, None, STEPS).unwrap();
        for steps in 0..6 {
            let level = market::equal_level(&market, None, Budget::iterations(steps)).unwrap();
            assert_feasible(&market, &level.x(&market));
            assert!(
                level.bound.lower <= best.bound.upper * (1.0 + 1e-12) && best.t <= level.bound.upper * (1.0 + 1e-12)
            );
            assert!(level.effort.steps == steps && level.bound.gap() > 1e-6);
            let equilibrium = market::equilibrium(&market, None, Budget::iterations(steps)).unwrap();
            assert_feasible(&market, &equilibrium.x(&market));
            assert!(equilibrium.welfare.lower <= clearing.welfare.upper + 1e-12);
            assert!(clearing.welfare.lower <= equilibrium.welfare.upper + 1e-12);
            assert!(equilibrium.welfare.width() > 1e-6);
        }
    }
}

/// Sizes at which users are sampled and banded, every family.
#[test]
fn large_markets_are_exact_too() {
    for family in Family::ALL {
        for (users, resources) in [(1_000, 3), (1_000, 10), (20_000, 10), (50_000, 3)] {
            let instance = instance(family, users, resources, 7);
            let market = market(&instance);
            assert_level(&market, &market::equal_level(&market, None, STEPS).unwrap());
            assert_equilibrium(&market, &market::equilibrium(&market, None, STEPS).unwrap());
        }
    }
}

/// Several bottlenecks in a crowd that is sampled: some users can use the first resources only, which are scarce.
#[test]
fn large_markets_have_rungs_too() {
    for users in [1_000, 30_000] {
        let mut instance = instance(Family::Iid, users, 6, 11);
        for (l, w) in instance.w.chunks_mut(6).enumerate() {
            let confined = [1, 3, 6, 6][l % 4];
            w[confined..].fill(0.0);
        }
        for (m, scarce) in instance.capacity.iter_mut().zip([0.01, 0.1, 0.1, 1.0, 1.0, 1.0]) {
            *m *= scarce;
        }
        let market = market(&instance);
        let level = market::equal_level(&market, None, STEPS).unwrap();
        assert_level(&market, &level);
        assert_eq!(level.levels.len(), 3);
    }
}

/// One user in a hundred has changed: it now lies halfway between two others.
fn one_in_a_hundred_changed(before: &Instance) -> Instance {
    let (n, k) = (before.beta.len(), before.capacity.len());
    let mut after = before.clone();
    for l in (0..n).step_by(100) {
        for j in 0..k {
            after.w[l * k + j] = 0.5 * (before.w[(l + n / 3) % n * k + j] + before.w[(l + n / 2) % n * k + j]);
        }
    }
    after
}

#[test]
fn a_warm_start_halves_the_work_and_changes_nothing() {
    let (mut cold_visits, mut warm_visits) = ([0, 0], [0, 0]);
    for family in [Family::Rand, Family::Iid, Family::Ord, Family::Mixed] {
        for (users, resources) in [(200, 5), (1_000, 10), (30_000, 10)] {
            let before = instance(family, users, resources, 3);
            let after = one_in_a_hundred_changed(&before);
            let (before, after) = (market(&before), market(&after));
            let last = market::equal_level(&before, None, STEPS).unwrap();
            let cold = market::equal_level(&after, None, STEPS).unwrap();
            let warm = market::equal_level(&after, Some(&last.prices), STEPS).unwrap();
            assert_level(&after, &warm);
            assert_eq!((&cold.prices, cold.t, &cold.assignment), (&warm.prices, warm.t, &warm.assignment));
            cold_visits[0] += cold.effort.visits;
            warm_visits[0] += warm.effort.visits;
            let last = market::equilibrium(&before, None, STEPS).unwrap();
            let cold = market::equilibrium(&after, None, STEPS).unwrap();
            let warm = market::equilibrium(&after, Some(&last.prices), STEPS).unwrap();
            assert_equilibrium(&after, &warm);
            assert_eq!((&cold.prices, &cold.assignment), (&warm.prices, &warm.assignment));
            cold_visits[1] += cold.effort.visits;
            warm_visits[1] += warm.effort.visits;
        }
    }
    assert!(
        2 * warm_visits[0] <= cold_visits[0] && 2 * warm_visits[1] <= cold_visits[1],
        "{cold_visits:?} {warm_visits:?}"
    );
}

/// Markets of every family and shape, some with ties, lost resources and rates eighteen decades apart.
fn instances() -> impl Strategy<Value = Instance> {
    let shape = (0..6usize, prop_oneof![1..12usize, 1..60usize], 1..13usize, any::<u64>());
    let twists = (any::<bool>(), any::<bool>(), 0..4usize, 0..3usize);
    (shape, twists).prop_map(|((family, users, k, seed), (ties, lost, extremes, weights))| {
        let spread = if extremes == 1 { 9.0 } else { 0.0 };
        let family = Family::ALL[family];
        let mut instance =
            Instance::new(&Recipe { family, users, resources: k, load: 0.3, uncapped: 0.0, spread, seed });
        if ties && extremes != 1 {
            instance.w.iter_mut().for_each(|w| *w = w.ceil().min(4.0));
            instance.capacity.iter_mut().for_each(|m| *m = m.ceil());
        }
        if extremes == 2 {
            // Every rate, weight and capacity on its own scale.
            let mut at = seed | 1;
            let mut decade = || {
                at ^= at << 13;
                at ^= at >> 7;
                at ^= at << 17;
                10f64.powf(((at >> 11) % 1800) as f64 / 100.0 - 9.0)
            };
            for number in instance.w.iter_mut().chain(&mut instance.caps).chain(&mut instance.capacity) {
                *number *= decade();
                *number = if *number > 0.0 { number.clamp(1e-9, 1e9) } else { 0.0 };
            }
        }
        match weights {
            0 => instance.caps.fill(1.0),
            1 => instance.caps.clone_from(&instance.beta),
            _ => {}
        }
        let servable = instance.w.chunks(k).all(|w| w[1..].iter().any(|&w| w > 0.0));
        if lost && servable {
            instance.capacity[0] = 0.0;
        }
        instance
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_level_is_the_general_solvers(instance in instances()) {
        let market = market(&instance);
        let level = market::equal_level(&market, None, STEPS).unwrap();
        assert_level(&market, &level);
        let caps = vec![f64::INFINITY; market.weight.len()];
        let problem = MaxMin { w: market.w, beta: market.weight, caps: &caps, capacity: market.capacity };
        let general = General::new(&problem).unwrap().solve(&problem, &Clarabel, Budget::default()).bound;
        // Both bounds are proved, so they overlap whatever the solvers did.
        prop_assert!(level.bound.lower <= general.upper * (1.0 + 1e-12));
        prop_assert!(general.lower <= level.bound.upper * (1.0 + 1e-12));
        if general.gap() < 1e-6 {
            prop_assert!(close(level.t, general.lower, 1e-6), "{} against {}", level.t, general.lower);
        }
    }

    #[test]
    fn everybody_buys_what_is_best_and_everything_is_sold(instance in instances()) {
        let market = market(&instance);
        assert_equilibrium(&market, &market::equilibrium(&market, None, STEPS).unwrap());
    }

    #[test]
    fn any_start_leads_to_the_same_level(instance in instances(), decades in prop::collection::vec(-9.0..9.0, 13)) {
        let market = market(&instance);
        let start: Vec<f64> = decades[..market.capacity.len()].iter().map(|&d| 10f64.powf(d)).collect();
        let (cold, warm) =
            (market::equal_level(&market, None, STEPS).unwrap(), market::equal_level(&market, Some(&start), STEPS).unwrap());
        assert_level(&market, &warm);
        for l in 0..market.weight.len() {
            prop_assert!(close(cold.level(l), warm.level(l), 1e-8), "{} {}", cold.level(l), warm.level(l));
        }
        let (cold, warm) =
            (market::equilibrium(&market, None, STEPS).unwrap(), market::equilibrium(&market, Some(&start), STEPS).unwrap());
        assert_equilibrium(&market, &warm);
        for (cold, warm) in cold.prices.iter().zip(&warm.prices) {
            prop_assert!(close(*cold, *warm, 1e-8), "{cold} {warm}");
        }
    }

    #[test]
    fn any_budget_leaves_a_feasible_answer_with_an_honest_gap(instance in instances(), steps in 0..20u32) {
        let (market, budget) = (market(&instance), Budget::iterations(steps));
        let (level, best) =
            (market::equal_level(&market, None, budget).unwrap(), market::equal_level(&market, None, STEPS).unwrap());
        assert_feasible(&market, &level.x(&market));
        prop_assert!(level.bound.lower <= best.bound.upper * (1.0 + 1e-12), "{:?} above {:?}", level.bound, best.bound);
        prop_assert!(best.bound.lower <= level.bound.upper * (1.0 + 1e-12), "{:?} below {:?}", level.bound, best.bound);
        let (found, best) =
            (market::equilibrium(&market, None, budget).unwrap(), market::equilibrium(&market, None, STEPS).unwrap());
        assert_feasible(&market, &found.x(&market));
        prop_assert!(found.welfare.lower <= best.welfare.upper + 1e-9 && best.welfare.lower <= found.welfare.upper + 1e-9);
    }

    #[test]
    fn alike_users_get_alike(instance in instances(), weight in 0.1..10.0, factor in prop_oneof![Just(1.0), Just(8.0), Just(0.25)]) {
        let k = instance.capacity.len();
        let mut twins = instance.clone();
        let row: Vec<f64> = instance.w[..k].iter().map(|w| w * factor).collect();
        twins.w.extend_from_slice(&row);
        twins.caps.push(weight);
        let market = market(&twins);
        let level = market::equal_level(&market, None, STEPS).unwrap();
        let (x, last) = (level.x(&market), twins.w.len() - k);
        let per = market.weight[0] * factor / weight;
        for j in 0..k {
            prop_assert!(close(x[j], x[last + j] * per, 1e-12));
        }
    }

    #[test]
    fn a_used_workspace_answers_as_a_fresh_one(first in instances(), second in instances()) {
        let mut workspace = Workspace::new();
        workspace.equal_level(&market(&first), None, STEPS).unwrap();
        workspace.equilibrium(&market(&first), None, STEPS).unwrap();
        let again = workspace.equal_level(&market(&second), None, STEPS).unwrap().clone();
        prop_assert_eq!(again, market::equal_level(&market(&second), None, STEPS).unwrap());
        let again = workspace.equilibrium(&market(&second), None, STEPS).unwrap().clone();
        prop_assert_eq!(again, market::equilibrium(&market(&second), None, STEPS).unwrap());
    }
}
