//! Envy-free optima against worked examples, against the general solver on the whole program, and against their own
//! certificate.

use arles_lp::envy::{self, EnvyFree, PIVOTS, Solution};
use arles_lp::{Budget, Clarabel, ColumnId, Domain, InputError, Model, Solver, Status};
use proptest::prelude::*;

const FREE: f64 = f64::INFINITY;

/// An instance that owns its numbers.
#[derive(Clone, Debug)]
struct Owned {
    w: Vec<f64>,
    weight: Vec<f64>,
    capacity: Vec<f64>,
}

impl Owned {
    fn new(w: &[f64], capacity: &[f64]) -> Self {
        let n = w.len() / capacity.len();
        Self { w: w.to_vec(), weight: vec![1.0; n], capacity: capacity.to_vec() }
    }

    fn question(&self) -> EnvyFree<'_> {
        EnvyFree { w: &self.w, weight: &self.weight, capacity: &self.capacity }
    }

    fn users(&self) -> usize {
        self.weight.len()
    }

    fn solve(&self) -> Solution {
        let division = envy::solve(&self.question(), PIVOTS).unwrap();
        self.assert_fair(&division);
        division
    }

    fn rates(&self, l: usize) -> &[f64] {
        &self.w[l * self.capacity.len()..][..self.capacity.len()]
    }

    fn utility(&self, l: usize, x: &[f64]) -> f64 {
        let k = self.capacity.len();
        self.rates(l).iter().zip(&x[l * k..]).map(|(w, x)| w * x).sum()
    }

    /// Feasible, envy-free, and worth what it says.
    fn assert_fair(&self, division: &Solution) {
        let (k, n) = (self.capacity.len(), self.users());
        let x = division.x(&self.question());
        for j in 0..k {
            let used: f64 = (0..n).map(|l| x[l * k + j]).sum();
            assert!(used <= self.capacity[j] * (1.0 + 1e-12), "resource {j}: {used} of {}", self.capacity[j]);
        }
        let mut sum = 0.0;
        for l in 0..n {
            let own = self.utility(l, &x);
            sum += own;
            let row = &x[l * k..][..k];
            assert!(row.iter().zip(self.rates(l)).all(|(x, w)| *x == 0.0 || *x > 0.0 && *w > 0.0));
            for i in 0..n {
                let other: f64 = self.rates(l).iter().zip(&x[i * k..]).map(|(w, x)| w * x).sum();
                let (own, other) = (own / self.weight[l], other / self.weight[i]);
                assert!(other <= own * (1.0 + 1e-8), "user {l} envies {i}: {own} < {other}");
            }
        }
        assert!((sum - division.objective).abs() <= 1e-9 * sum);
        assert!(division.largest_envy <= 1e-8);
        assert!(division.bound.lower <= division.bound.upper * (1.0 + 1e-12));
    }

    /// The whole program, for the general solver.
    fn model(&self) -> Model {
        let (k, n) = (self.capacity.len(), self.users());
        let mut model = Model::maximise();
        let mut columns: Vec<Option<ColumnId>> = Vec::new();
        for (at, &w) in self.w.iter().enumerate() {
            let useful = w > 0.0 && self.capacity[at % k] > 0.0;
            columns.push(useful.then(|| model.add_column(0.0, FREE, w).unwrap()));
        }
        for j in 0..k {
            let terms: Vec<_> = (0..n).filter_map(|l| columns[l * k + j].map(|c| (c, 1.0))).collect();
            model.add_row(-FREE, self.capacity[j], &terms).unwrap();
        }
        for l in 0..n {
            let own: Vec<_> = (0..k).filter_map(|j| columns[l * k + j].map(|c| (c, self.w[l * k + j]))).collect();
            let unit = self.rates(l).iter().fold(0.0, |a: f64, w| a.max(*w));
            for i in (0..n).filter(|&i| i != l) {
                let mut terms: Vec<_> = own.iter().map(|t| (t.0, t.1 / unit / self.weight[l])).collect();
                for j in 0..k {
                    terms.extend(columns[i * k + j].map(|c| (c, -self.w[l * k + j] / unit / self.weight[i])));
                }
                model.add_row(0.0, FREE, &terms).unwrap();
            }
        }
        model
    }

    fn general(&self) -> Option<f64> {
        let outcome = Clarabel.solve(&self.model(), Budget::default());
        (outcome.status == Status::Optimal).then_some(outcome.objective)
    }

    /// The upper bound again from the duals, pair by pair. Users with the same rates are one, named by the first of them, with
    /// the sum of their weights.
    fn assert_proved(&self, division: &Solution) {
        let (k, n) = (self.capacity.len(), self.users());
        let mut y = vec![0.0; n * n];
        for row in &division.envy {
            y[row.user as usize * n + row.other as usize] += row.dual;
        }
        for relay in &division.through {
            let shares: f64 = relay.share.iter().map(|t| t.1).sum();
            assert!(relay.paid.iter().chain(&relay.share).all(|t| t.1 >= 0.0) && shares <= 1.0 + 1e-9);
            for &(l, paid) in &relay.paid {
                relay.share.iter().for_each(|&(i, share)| y[l as usize * n + i as usize] += paid * share);
            }
        }
        let alike = |l: usize| (0..n).filter(move |&i| self.rates(i) == self.rates(l));
        for l in (0..n).filter(|&l| alike(l).next() == Some(l)) {
            let weight: f64 = alike(l).map(|i| self.weight[i]).sum();
            let out: f64 = y[l * n..][..n].iter().sum();
            for j in (0..k).filter(|&j| self.w[l * k + j] > 0.0 && self.capacity[j] > 0.0) {
                let paid: f64 = (0..n).map(|i| y[i * n + l] * self.w[i * k + j]).sum();
                let due = (weight + out) * self.w[l * k + j];
                let most = weight * division.prices[j] + paid;
                assert!(due <= most + 1e-9 * (due + most), "user {l}, resource {j}: {due} > {most}");
            }
        }
        let upper: f64 = division.prices.iter().zip(&self.capacity).map(|(p, m)| p * m).sum();
        assert!((upper / division.bound.upper - 1.0).abs() < 1e-9, "{upper} {}", division.bound.upper);
    }

    /// Exact by its own certificate, and by the general solver where that has an answer.
    fn assert_optimal(&self, division: &Solution, tolerance: f64) {
        assert!(division.bound.gap() <= 1e-8, "gap {:e} {division:?}", division.bound.gap());
        if let Some(objective) = self.general() {
            let off = division.objective / objective - 1.0;
            assert!(off.abs() <= tolerance, "{} instead of {objective}: {off:e}", division.objective);
        }
    }
}

fn assert_near(found: &[f64], expected: &[f64]) {
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-8), "{found:?} instead of {expected:?}");
}

#[test]
fn two_users_two_resources() {
    let owned = Owned::new(&[1.0, 2.0, 1.0, 3.0], &[1.0, 1.0]);
    let division = owned.solve();
    assert_near(&division.x(&owned.question()), &[1.0, 0.25, 0.0, 0.75]);
    assert!(division.bound.gap() < 1e-9);
}

#[test]
fn three_users_whose_optimum_is_not_pareto_efficient() {
    let owned = Owned::new(&[1.0, 1.0, 3.0, 1.0, 5.0, 5.0, 1.0, 5.0, 6.0], &[2.0, 2.0, 2.0]);
    let division = owned.solve();
    let x = division.x(&owned.question());
    let utilities: Vec<f64> = (0..3).map(|l| owned.utility(l, &x)).collect();
    // The optimum is not unique: utilities 10/3, 80/9, 29/3 have the same sum.
    assert_near(&[utilities.iter().sum()], &[10.0 / 3.0 + 80.0 / 9.0 + 29.0 / 3.0]);
    assert_near(&utilities[1..2], &[80.0 / 9.0]);
    assert!(division.bound.gap() < 1e-9);
}

#[test]
fn one_user_takes_all_and_one_resource_is_split_by_weight() {
    let owned = Owned::new(&[2.0, 0.0, 5.0], &[1.0, 4.0, 3.0]);
    assert_near(&owned.solve().x(&owned.question()), &[1.0, 0.0, 3.0]);
    let mut owned = Owned::new(&[2.0, 7.0, 1.0], &[6.0]);
    owned.weight = vec![1.0, 2.0, 3.0];
    assert_near(&owned.solve().x(&owned.question()), &[1.0, 2.0, 3.0]);
}

#[test]
fn resources_that_are_not_there_or_that_nobody_can_use_change_nothing() {
    let mut owned = Owned::new(&[0.0, 1.0], &[0.0, 1.0]);
    owned.weight[0] = 0.5;
    assert_near(&[owned.solve().objective], &[1.0]);
    owned.w = vec![1.0, 2.0];
    assert_near(&[owned.solve().objective], &[2.0]);
    let small = Owned::new(&[1.0, 2.0, 1.0, 3.0], &[1.0, 1.0]);
    let large = Owned::new(&[1.0, 9.0, 0.0, 2.0, 1.0, 1.0, 0.0, 3.0], &[1.0, 0.0, 5.0, 1.0]);
    let division = large.solve();
    assert!(division.bound.gap() < 1e-9);
    assert_near(&[division.objective], &[small.solve().objective]);
    let again = envy::solve_again(&large.question(), &division, PIVOTS).unwrap();
    assert_near(&[again.objective, again.bound.upper], &[division.objective; 2]);
}

#[test]
fn nonsense_is_refused_in_a_sentence() {
    let refuse = |owned: &Owned| envy::solve(&owned.question(), PIVOTS).unwrap_err();
    assert_eq!(refuse(&Owned::new(&[], &[1.0])), InputError::Empty);
    let mut short = Owned::new(&[1.0, 1.0], &[1.0]);
    short.weight.pop();
    assert_eq!(refuse(&short), InputError::Shape { what: "w", length: 2, expected: 1 });
    assert_eq!(
        refuse(&Owned::new(&[-1.0], &[1.0])),
        InputError::Number { what: "w", index: 0, value: -1.0, domain: Domain::NonNegative }
    );
    assert_eq!(refuse(&Owned::new(&[1.0, 0.0, 0.0, 1.0], &[1.0, 0.0])), InputError::Unservable { user: 1 });
    let wide = refuse(&Owned::new(&[1e-9, 1e9], &[1.0]));
    assert!(wide.to_string().contains("give speed-ups instead of raw rates"), "{wide}");
}

#[test]
fn a_spent_budget_leaves_a_fair_answer_with_an_honest_gap() {
    let owned = instance(1, 24, 4, 3, 0);
    let best = owned.solve();
    let market = envy::solve(&owned.question(), Budget::iterations(0)).unwrap();
    assert!(market.objective > 0.95 * best.objective, "{} of {}", market.objective, best.objective);
    for pivots in [0, 1, 5, 20, 50, 200] {
        let division = envy::solve(&owned.question(), Budget::iterations(pivots)).unwrap();
        owned.assert_fair(&division);
        assert!(division.bound.lower <= best.bound.upper * (1.0 + 1e-12));
        assert!(division.bound.upper >= best.bound.lower * (1.0 - 1e-12));
    }
}

#[test]
fn last_times_answer_is_a_start_and_nothing_more() {
    let mut owned = instance(7, 60, 4, 0, 0);
    let last = owned.solve();
    for l in [3, 40] {
        owned.w[4 * l + 2] *= 1.5;
    }
    let again = envy::solve_again(&owned.question(), &last, PIVOTS).unwrap();
    owned.assert_fair(&again);
    let fresh = owned.solve();
    assert!((again.objective / fresh.objective - 1.0).abs() < 1e-8 && again.bound.gap() < 1e-8);
    assert!(again.iterations < fresh.iterations);
    let stranger = instance(8, 5, 4, 1, 0).solve();
    let again = envy::solve_again(&owned.question(), &stranger, PIVOTS).unwrap();
    assert!((again.objective / fresh.objective - 1.0).abs() < 1e-8 && again.bound.gap() < 1e-8);
}

#[test]
fn many_users_of_few_kinds_are_few_users() {
    let kinds = instance(5, 26, 5, 0, 0);
    let n = 20_000;
    let pick = |l: usize| l * 7919 % 26;
    let owned = Owned {
        w: (0..n).flat_map(|l| kinds.rates(pick(l)).to_vec()).collect(),
        weight: (0..n).map(|l| 1.0 + (l % 4) as f64).collect(),
        capacity: kinds.capacity.clone(),
    };
    let division = envy::solve(&owned.question(), PIVOTS).unwrap();
    assert!(division.bound.gap() < 1e-9 && division.largest_envy < 1e-9);
    assert!(division.bundles.len() / 5 <= 26);
}

#[test]
fn large_crowds_are_asked_level_by_level_within_the_budget() {
    let owned = instance(3, 4_000, 4, 0, 0);
    let market = envy::solve(&owned.question(), Budget::iterations(0)).unwrap();
    let division = envy::solve(&owned.question(), Budget::iterations(8_000)).unwrap();
    assert!(division.largest_envy <= 1e-8 && division.objective > market.objective);
    assert!(division.bound.lower <= division.bound.upper);
    let again = envy::solve_again(&owned.question(), &division, Budget::iterations(8_000)).unwrap();
    assert!(again.largest_envy <= 1e-8 && again.objective >= division.objective * (1.0 - 1e-9));
}

#[test]
fn a_crowd_that_cannot_be_proved_pair_by_pair_has_a_bound_all_the_same() {
    for family in [0, 1, 3] {
        let owned = instance(11, 3_000, 4, family, 0);
        let division = envy::solve(&owned.question(), Budget::iterations(1)).unwrap();
        assert!(division.bound.gap() < 0.03, "family {family}: {:e}", division.bound.gap());
        assert!(!division.through.is_empty() && division.largest_envy <= 1e-8);
    }
}

/// Most users of a large block are proved together, by relays.
#[test]
fn crowds_at_home_are_proved_together() {
    let mut relayed = 0;
    for (seed, family) in (0..10).map(|case| (case, case as usize % 5)) {
        let owned = instance(seed, 220, 3, family, 0);
        let division = owned.solve();
        assert!(division.bound.gap() <= 1e-7, "seed {seed}: gap {:e}", division.bound.gap());
        owned.assert_proved(&division);
        relayed += usize::from(!division.through.is_empty());
    }
    assert!(relayed > 3, "{relayed}");
}

/// A small generator of instances: what proptest draws is only the recipe.
fn instance(seed: u64, n: usize, k: usize, family: usize, spread: i32) -> Owned {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut w = Vec::new();
    for _ in 0..n {
        let theta = 2.0 * uniform();
        let size = 10f64.powf(f64::from(spread) * (2.0 * uniform() - 1.0));
        let mut rising = 1.0;
        let mut row: Vec<f64> = (0..k)
            .map(|j| match family {
                0 => {
                    rising += if j == 0 { 0.0 } else { -0.6 * (1.0 - uniform()).ln() };
                    rising
                }
                1 => (1.2 * (uniform() + uniform() + uniform() - 1.5)).exp(),
                2 => {
                    if uniform() < 0.3 {
                        0.0
                    } else {
                        0.5 + uniform()
                    }
                }
                3 => (1.0 + j as f64).powf(theta),
                _ => (1.0 + 3.0 * uniform()).floor(),
            })
            .collect();
        if row.iter().all(|&w| w == 0.0) {
            row[0] = 1.0;
        }
        w.extend(row.into_iter().map(|w| w * size));
    }
    let weight = (0..n).map(|_| (1.0 + 4.0 * uniform()).floor()).collect();
    let capacity = (0..k).map(|_| (1.0 + 8.0 * uniform()).floor()).collect();
    Owned { w, weight, capacity }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_general_solver(seed in any::<u64>(), n in 1..25usize, k in 1..7usize, family in 0..5usize) {
        let owned = instance(seed, n, k, family, 0);
        owned.assert_optimal(&owned.solve(), 1e-6);
    }

    /// Whether proved pair by pair or by relays, with zero rates and weights: the duals are what they say, and the bound is no
    /// less than the general solver's optimum.
    #[test]
    fn a_bound_holds_however_early_the_search_ends(
        seed in any::<u64>(), n in 3..40usize, k in 3..6usize, family in 0..5usize, pivots in 1..60u32,
    ) {
        let owned = instance(seed, n, k, family, 0);
        let division = envy::solve(&owned.question(), Budget::iterations(pivots)).unwrap();
        owned.assert_fair(&division);
        owned.assert_proved(&division);
        if let Some(optimum) = owned.general() {
            prop_assert!(division.bound.upper >= optimum * (1.0 - 1e-6), "{} < {optimum}", division.bound.upper);
        }
    }

    #[test]
    fn users_of_unlike_size(seed in any::<u64>(), n in 1..16usize, k in 1..5usize, family in 0..5usize) {
        let owned = instance(seed, n, k, family, 3);
        let division = owned.solve();
        prop_assert!(division.bound.gap() <= 1e-8, "gap {:e}", division.bound.gap());
    }

    /// One resource and two have answers of their own; sizes and zeros included.
    #[test]
    fn one_and_two_resources(seed in any::<u64>(), n in 1..40usize, k in 1..3usize, family in 0..5usize, spread in 0..3i32) {
        let owned = instance(seed, n, k, family, spread);
        let division = owned.solve();
        prop_assert!(division.bundles.len() <= 5 * k && division.iterations == 0);
        owned.assert_optimal(&division, 1e-6);
    }

    /// Everybody has at least its share of everything, if everybody has a use for everything.
    #[test]
    fn sharing_is_worth_it(seed in any::<u64>(), n in 2..40usize, k in 1..6usize, family in prop_oneof![Just(0usize), Just(1), Just(3), Just(4)]) {
        let owned = instance(seed, n, k, family, 0);
        let x = owned.solve().x(&owned.question());
        let total: f64 = owned.weight.iter().sum();
        for l in 0..n {
            let share: f64 = owned.rates(l).iter().zip(&owned.capacity).map(|(w, m)| w * m).sum::<f64>() * owned.weight[l] / total;
            prop_assert!(owned.utility(l, &x) >= share * (1.0 - 1e-7));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_general_solver_on_larger_ones(seed in any::<u64>(), n in 25..61usize, k in 2..6usize, family in 0..5usize) {
        let owned = instance(seed, n, k, family, 0);
        owned.assert_optimal(&owned.solve(), 1e-6);
    }
}
