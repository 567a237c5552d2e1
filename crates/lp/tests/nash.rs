//! Nash welfare with caps against closed forms, the market's equilibrium, cutting planes on the general solver, and
//! its own certificate.

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::market::{self, Market, STEPS};
use arles_lp::nash::{self, Nash, Solution, TOLERANCE, Workspace};
use arles_lp::{Budget, Clarabel, Domain, InputError, Model, Solver};
use proptest::prelude::*;

const FREE: f64 = f64::INFINITY;

fn solve(w: &[f64], weight: &[f64], caps: &[f64], capacity: &[f64]) -> Solution {
    let problem = Nash { w, weight, caps, capacity };
    let division = nash::solve(&problem, Budget::default()).unwrap();
    assert_feasible(&problem, &division);
    assert!(division.welfare.width() <= TOLERANCE, "gap {:e}", division.welfare.width());
    division
}

/// Legal shares, and a welfare that is theirs.
fn assert_feasible(problem: &Nash<'_>, division: &Solution) {
    let k = problem.capacity.len();
    let total: f64 = problem.weight.iter().sum();
    let mut welfare = 0.0;
    for (l, x) in division.x.chunks(k).enumerate() {
        let w = &problem.w[l * k..][..k];
        assert!(x.iter().zip(w).all(|(&x, &w)| x >= 0.0 && (w > 0.0 || x == 0.0)), "user {l} gets {x:?} at {w:?}");
        assert!(x.iter().sum::<f64>() <= problem.caps[l] * (1.0 + 1e-9), "user {l} exceeds its cap");
        welfare += problem.weight[l] / total * x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>().ln();
    }
    assert!((welfare - division.welfare.lower).abs() <= 1e-9 * (1.0 + welfare.abs()));
    for j in 0..k {
        let used: f64 = division.x.chunks(k).map(|x| x[j]).sum();
        assert!(used <= problem.capacity[j] * (1.0 + 1e-9), "resource {j} is oversold");
    }
}

fn assert_share(share: f64, expected: f64) {
    assert!((share - expected).abs() <= 1e-4 * expected, "{share} is not {expected}");
}

#[test]
fn one_user_takes_what_its_cap_allows() {
    let division = solve(&[2.0, 3.0], &[0.5], &[6.0], &[4.0, 5.0]);
    assert_share(division.x[0], 1.0);
    assert_share(division.x[1], 5.0);
    // One more unit of cap goes to the first resource: 0.5 · 2/17. One more of the second replaces the first.
    assert_share(division.rents[0], 1.0 / 17.0);
    assert_share(division.prices[1], 0.5 / 17.0);
}

#[test]
fn whoever_is_capped_leaves_the_rest_to_others() {
    let division = solve(&[1.0, 1.0, 1.0], &[1.0; 3], &[0.1, FREE, FREE], &[10.0]);
    assert_share(division.x[0], 0.1);
    assert_share(division.x[1], 4.95);
    assert_share(division.prices[0], 1.0 / 4.95);
    assert_share(division.rents[0], 10.0 - 1.0 / 4.95);
}

#[test]
fn caps_that_everybody_meets_leave_capacity_over() {
    let division = solve(&[1.0, 2.0, 3.0, 1.0], &[1.0, 5.0], &[1.0, 2.0], &[100.0, 100.0]);
    assert_share(division.x[1], 1.0);
    assert_share(division.x[2], 2.0);
    assert!(division.prices.iter().all(|&p| p < 1e-6));
}

#[test]
fn a_resource_of_nothing_is_absent() {
    let division = solve(&[1.0, 9.0, 1.0, 5.0], &[1.0, 1.0], &[1.0, FREE], &[4.0, 0.0]);
    assert_share(division.x[0], 1.0);
    assert_share(division.x[2], 3.0);
    assert_eq!((division.x[1], division.x[3]), (0.0, 0.0));
}

/// More kinds than the solver has room for, nearly all of them away: a cluster of ten kinds with three modes each.
#[test]
fn absent_resources_take_no_room() {
    let k = 40;
    let w: Vec<f64> = (0..2 * k).map(|at| if at % k == 7 { 2.0 } else { 1.0 + (at / k) as f64 }).collect();
    let mut capacity = vec![0.0; k];
    (capacity[3], capacity[7]) = (1.0, 1.0);
    let all = solve(&w, &[1.0, 1.0], &[FREE, FREE], &capacity);
    let few = solve(&[1.0, 2.0, 2.0, 2.0], &[1.0, 1.0], &[FREE, FREE], &[1.0, 1.0]);
    assert_eq!([all.x[3], all.x[7], all.x[k + 3], all.x[k + 7]], [few.x[0], few.x[1], few.x[2], few.x[3]]);
    assert_eq!([all.prices[3], all.prices[7]], [few.prices[0], few.prices[1]]);
    assert_eq!(all.welfare, few.welfare);
}

#[test]
fn nonsense_is_refused_in_a_sentence() {
    let refuse = |w: &[f64], weight: &[f64], caps: &[f64], capacity: &[f64]| {
        nash::solve(&Nash { w, weight, caps, capacity }, Budget::default()).unwrap_err()
    };
    assert_eq!(refuse(&[], &[], &[], &[1.0]), InputError::Empty);
    assert_eq!(refuse(&[1.0], &[1.0], &[], &[1.0]), InputError::Shape { what: "caps", length: 0, expected: 1 });
    assert_eq!(
        refuse(&[1.0], &[1.0], &[0.0], &[1.0]),
        InputError::Number { what: "caps", index: 0, value: 0.0, domain: Domain::ModerateLimit }
    );
    assert!(matches!(refuse(&[1.0], &[1.0], &[f64::NAN], &[1.0]), InputError::Number { what: "caps", .. }));
    assert_eq!(refuse(&[0.0], &[1.0], &[1.0], &[1.0]), InputError::Unservable { user: 0 });
}

fn problem(instance: &Instance) -> Nash<'_> {
    Nash { w: &instance.w, weight: &instance.beta, caps: &instance.caps, capacity: &instance.capacity }
}

#[test]
fn a_spent_budget_leaves_a_feasible_answer_with_an_honest_gap() {
    let recipe =
        Recipe { family: Family::Rand, users: 40, resources: 4, load: 0.4, uncapped: 0.2, spread: 0.0, seed: 1 };
    let instance = Instance::new(&recipe);
    let best = nash::solve(&problem(&instance), Budget::default()).unwrap();
    assert!(best.iterations > 4);
    for iterations in 0..4 {
        let division = nash::solve(&problem(&instance), Budget::iterations(iterations)).unwrap();
        assert_eq!(division.iterations, iterations);
        assert_feasible(&problem(&instance), &division);
        assert!(division.welfare.width() > 1e-4);
        assert!(division.welfare.lower <= best.welfare.upper && best.welfare.lower <= division.welfare.upper);
    }
}

#[test]
fn large_problems_too() {
    for family in Family::ALL {
        for load in [0.1, 1.0, 10.0] {
            let recipe = Recipe { family, users: 3_000, resources: 8, load, uncapped: 0.1, spread: 0.0, seed: 5 };
            let instance = Instance::new(&recipe);
            let division = nash::solve(&problem(&instance), Budget::default()).unwrap();
            assert_feasible(&problem(&instance), &division);
            assert!(division.welfare.width() <= TOLERANCE, "{family:?} {load}: {:e}", division.welfare.width());
        }
    }
}

/// Where weights lie eighteen decades apart the gap may be wider than asked; it stays honest, and small.
#[test]
fn weights_far_apart_cost_some_digits() {
    for seed in 0..200 {
        let family = Family::ALL[seed as usize % 6];
        let recipe = Recipe { family, users: 20, resources: 5, load: 1.0, uncapped: 0.2, spread: 9.0, seed };
        let instance = Instance::new(&recipe);
        let division = nash::solve(&problem(&instance), Budget::default()).unwrap();
        assert_feasible(&problem(&instance), &division);
        assert!(division.welfare.width() <= 1e-3, "{:e}", division.welfare.width());
    }
}

/// Instances of every family and shape, some with ties, lost resources and numbers eighteen decades apart.
fn instances() -> impl Strategy<Value = Instance> {
    let shape = (0..6usize, 1..30usize, 1..9usize, 0..5usize, 0..3usize, 0..3usize, any::<u64>());
    (shape, any::<bool>(), any::<bool>()).prop_map(
        |((family, users, k, load, uncapped, extremes, seed), ties, lost)| {
            let mut instance = Instance::new(&Recipe {
                family: Family::ALL[family],
                users,
                resources: k,
                load: [0.01, 0.1, 0.4, 1.0, 10.0][load],
                uncapped: [0.0, 0.3, 1.0][uncapped],
                spread: if extremes == 1 { 9.0 } else { 0.0 },
                seed,
            });
            if ties && extremes == 0 {
                instance.w.iter_mut().for_each(|w| *w = w.ceil().min(4.0));
                instance.beta.iter_mut().for_each(|weight| *weight = weight.ceil());
            }
            if extremes == 1 {
                // Rates only: weights of eighteen decades are another matter.
                instance.beta.iter_mut().enumerate().for_each(|(l, weight)| *weight = 1.0 + (l % 4) as f64);
            }
            if extremes == 2 {
                // Some weights and caps are far larger or smaller than others.
                for (l, weight) in instance.beta.iter_mut().enumerate() {
                    *weight *= [1.0, 1e-4, 1.0, 1e4][l % 4];
                }
                for (l, cap) in instance.caps.iter_mut().enumerate() {
                    *cap *= [1.0, 1e-6, 1e6][l % 3];
                }
            }
            let servable = instance.w.chunks(k).all(|w| w[1..].iter().any(|&w| w > 0.0));
            if lost && servable {
                instance.capacity[0] = 0.0;
            }
            instance
        },
    )
}

/// The optimum by cutting planes: `log u ≤ log a + (u − a)/a` for every a, so tangents at what the last linear program
/// answered bring it down to the truth. Returns bounds on the mean log-utility.
fn by_cutting_planes(problem: &Nash<'_>) -> (f64, f64) {
    let k = problem.capacity.len();
    let total: f64 = problem.weight.iter().sum();
    let mut tangents: Vec<Vec<f64>> =
        problem.w.chunks(k).map(|w| vec![w.iter().zip(problem.capacity).map(|(w, m)| w * m).sum::<f64>()]).collect();
    let (mut lower, mut upper) = (f64::NEG_INFINITY, f64::INFINITY);
    for _ in 0..60 {
        let mut model = Model::maximise();
        let mut resources = vec![Vec::new(); k];
        let mut users = Vec::new();
        for (l, w) in problem.w.chunks(k).enumerate() {
            let z = model.add_column(f64::NEG_INFINITY, FREE, problem.weight[l] / total).unwrap();
            let x: Vec<_> = (0..k).map(|_| model.add_column(0.0, FREE, 0.0).unwrap()).collect();
            model
                .add_row(f64::NEG_INFINITY, problem.caps[l], &x.iter().map(|&x| (x, 1.0)).collect::<Vec<_>>())
                .unwrap();
            for a in &tangents[l] {
                let mut terms: Vec<_> = x.iter().zip(w).map(|(&x, w)| (x, -w / a)).collect();
                terms.push((z, 1.0));
                model.add_row(f64::NEG_INFINITY, a.ln() - 1.0, &terms).unwrap();
            }
            x.iter().zip(&mut resources).for_each(|(&x, row)| row.push((x, 1.0)));
            users.push(x);
        }
        for (terms, &m) in resources.iter().zip(problem.capacity) {
            model.add_row(f64::NEG_INFINITY, m, terms).unwrap();
        }
        let outcome = Clarabel.solve(&model, Budget::default());
        upper = f64::min(upper, outcome.objective + 1e-7);
        let mut attained = 0.0;
        for (l, w) in problem.w.chunks(k).enumerate() {
            let u: f64 = users[l].iter().zip(w).map(|(x, w)| outcome.x[x.index()].max(0.0) * w).sum();
            let floor = 1e-3 * tangents[l][0] * problem.weight[l] / total;
            attained += problem.weight[l] / total * u.ln();
            tangents[l].push(u.max(floor));
        }
        lower = f64::max(lower, attained - 1e-7);
        if upper - lower < 1e-5 {
            break;
        }
    }
    (lower, upper)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_certified(instance in instances()) {
        let problem = problem(&instance);
        let division = nash::solve(&problem, Budget::default()).unwrap();
        assert_feasible(&problem, &division);
        prop_assert!(division.welfare.width() <= TOLERANCE, "gap {:e} after {}", division.welfare.width(), division.iterations);
    }

    #[test]
    fn without_caps_it_is_the_equilibrium(mut instance in instances()) {
        instance.caps.fill(FREE);
        let division = nash::solve(&problem(&instance), Budget::default()).unwrap();
        let market = Market { w: &instance.w, weight: &instance.beta, capacity: &instance.capacity };
        let equilibrium = market::equilibrium(&market, None, STEPS).unwrap();
        prop_assert!((division.welfare.lower - equilibrium.welfare.lower).abs() <= 1e-9 * (1.0 + equilibrium.welfare.lower.abs()));
        prop_assert_eq!(division.iterations, 0);
    }

    #[test]
    fn a_used_workspace_answers_as_a_fresh_one(first in instances(), second in instances()) {
        let mut workspace = Workspace::new();
        workspace.solve(&problem(&first), Budget::default()).unwrap();
        let again = workspace.solve(&problem(&second), Budget::default()).unwrap().clone();
        prop_assert_eq!(again, nash::solve(&problem(&second), Budget::default()).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cutting_planes_agree(
        (family, users, resources, seed) in (0..6usize, 1..6usize, 1..4usize, any::<u64>()),
        (load, uncapped) in (0..3usize, 0..2usize),
    ) {
        let recipe = Recipe { family: Family::ALL[family], users, resources, load: [0.1, 1.0, 4.0][load], uncapped: [0.0, 0.3][uncapped], spread: 0.0, seed };
        let instance = Instance::new(&recipe);
        let problem = problem(&instance);
        let division = nash::solve(&problem, Budget::default()).unwrap();
        let (lower, upper) = by_cutting_planes(&problem);
        prop_assert!(upper - lower < 1e-3, "the reference itself is {:e} wide", upper - lower);
        prop_assert!(division.welfare.lower <= upper + 1e-6 && lower <= division.welfare.upper + 1e-6, "{:?} {lower} {upper}", division.welfare);
    }
}

/// What a user can make of a bundle within its cap: fastest first.
fn usable(w: &[f64], z: &[f64], cap: f64) -> f64 {
    let mut order: Vec<usize> = (0..w.len()).collect();
    order.sort_by(|&a, &b| w[b].total_cmp(&w[a]));
    let (mut value, mut left) = (0.0, cap);
    for j in order {
        let taken = z[j].min(left);
        value += w[j] * taken;
        left -= taken;
    }
    value
}

#[test]
fn equal_incomes_give_a_capped_user_the_fast_resource() {
    // Alone on one unit, the second user can pay for the fast one; Nash welfare lets it save its money.
    let (w, weight, caps, capacity) = ([1.0, 4.0, 1.0, 2.0], [1.0, 1.0], [FREE, 1.0], [4.0, 2.0]);
    let problem = Nash { w: &w, weight: &weight, caps: &caps, capacity: &capacity };
    let incomes = Workspace::new().equal_incomes(&problem, None, nash::TURNS, Budget::default()).unwrap();
    assert!(incomes.regret < 1e-6, "{incomes:?}");
    assert_share(incomes.x[3], 1.0);
    assert_share(incomes.x[1], 1.0);
    assert_share(incomes.x[0], 4.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// With equal incomes nobody would rather have what another bought, as far as it could use it, and nobody is below an
    /// equal division, to within the regret; which is small.
    #[test]
    fn equal_incomes_are_fair_under_caps(
        (users, resources, seed) in (1..14usize, 1..5usize, any::<u64>()),
        (family, load, uncapped) in (0..6usize, 0.05..3.0f64, 0.0..0.6f64),
    ) {
        let family = Family::ALL[family];
        let Instance { w, caps, capacity, .. } =
            Instance::new(&Recipe { family, users, resources, load, uncapped, spread: 0.0, seed });
        let weight: Vec<f64> = (0..users).map(|l| 1.0 + ((seed >> l) & 3) as f64).collect();
        let problem = Nash { w: &w, weight: &weight, caps: &caps, capacity: &capacity };
        let incomes = Workspace::new().equal_incomes(&problem, None, nash::TURNS, Budget::default()).unwrap();
        let k = resources;
        let total: f64 = weight.iter().sum();
        for l in 0..users {
            let own: f64 = (0..k).map(|j| w[l * k + j] * incomes.x[l * k + j]).sum();
            let value = |z: &[f64], scale: f64| {
                usable(&w[l * k..][..k], &z.iter().map(|z| z * scale).collect::<Vec<_>>(), caps[l])
            };
            for i in 0..users {
                let envied = value(&incomes.x[i * k..][..k], weight[l] / weight[i]);
                prop_assert!(envied <= own * (1.0 + incomes.regret + 1e-9), "{l} envies {i}: {envied} over {own}");
            }
            let equal = value(&capacity, weight[l] / total);
            prop_assert!(own >= equal * (1.0 - incomes.regret - 1e-6), "{l} has {own}, an equal part is {equal}");
        }
        prop_assert!(incomes.regret <= 0.05, "regret {} after {} turns", incomes.regret, incomes.turns);
    }
}

/// How near to equal incomes [`nash::TURNS`] turns come, over two thousand seeded questions: `-- --nocapture` prints it.
#[test]
fn equal_incomes_are_near_after_some_turns() {
    let mut regrets: Vec<f64> = (0..2000u64)
        .map(|seed| {
            let (users, resources) = (1 + (seed % 30) as usize, 1 + (seed / 7 % 4) as usize);
            let family = Family::ALL[(seed % 6) as usize];
            let load = 0.05 * (1.0 + (seed % 50) as f64);
            let recipe = Recipe { family, users, resources, load, uncapped: 0.2, spread: 0.0, seed };
            let Instance { w, caps, capacity, .. } = Instance::new(&recipe);
            let weight: Vec<f64> = (0..users).map(|l| 1.0 + ((seed >> l) & 3) as f64).collect();
            let problem = Nash { w: &w, weight: &weight, caps: &caps, capacity: &capacity };
            Workspace::new().equal_incomes(&problem, None, nash::TURNS, Budget::default()).unwrap().regret
        })
        .collect();
    regrets.sort_by(f64::total_cmp);
    let at = |part: f64| regrets[((regrets.len() - 1) as f64 * part) as usize];
    println!("regret: median {:.1e}, 90 % {:.1e}, 95 % {:.1e}, most {:.1e}", at(0.5), at(0.9), at(0.95), at(1.0));
    assert!(at(0.5) <= 1e-6 && at(0.95) <= 0.01 && at(1.0) <= 0.02);
}
