//! Units in several ways: worked examples to six digits, the general solver on the same programs, and what the market promises.

use arles_lp::ways::{
    Envious, Limit, NearWorkspace, Nearly, Together, Ways, Workspace, equal_incomes, least_draw,
    least_draw_without_envy, nearly_least_draw_without_envy, thrift,
};
use arles_lp::{Budget, Clarabel, ColumnId, InputError, Model, Solver, Status};
use proptest::prelude::*;

const FREE: f64 = f64::INFINITY;
const PIVOTS: Budget = Budget::iterations(200_000);

/// A problem that owns its numbers.
#[derive(Clone, Debug)]
struct Owned {
    w: Vec<f64>,
    draw: Vec<f64>,
    resource: Vec<usize>,
    weight: Vec<f64>,
    caps: Vec<f64>,
    capacity: Vec<f64>,
}

impl Owned {
    fn new(w: &[&[f64]], draw: &[&[f64]], resource: &[usize], capacity: &[f64]) -> Self {
        Self {
            w: w.concat(),
            draw: draw.concat(),
            resource: resource.to_vec(),
            weight: vec![1.0; w.len()],
            caps: vec![FREE; w.len()],
            capacity: capacity.to_vec(),
        }
    }

    fn ways(&self) -> Ways<'_> {
        let Self { w, draw, resource, weight, caps, capacity } = self;
        Ways { w, draw, resource, weight, caps, capacity }
    }

    fn limit(&self, most: f64) -> Vec<Limit> {
        vec![Limit { most, resources: (0..self.capacity.len()).collect() }]
    }

    fn utilities(&self, x: &[f64]) -> Vec<f64> {
        let of = |(w, x): (&[f64], &[f64])| w.iter().zip(x).map(|(w, x)| w * x).sum();
        self.w.chunks(self.resource.len()).zip(x.chunks(self.resource.len())).map(of).collect()
    }

    fn drawn(&self, x: &[f64]) -> f64 {
        self.draw.iter().zip(x).map(|(p, x)| p * x).sum()
    }

    /// Everybody within its own units: `(use, draw)`.
    fn thrifty(&self, units: &[f64], floors: &[f64]) -> (Vec<f64>, f64) {
        let k = self.capacity.len();
        let own = |(l, floor): (usize, &f64)| thrift(&self.ways(), l, &units[l * k..][..k], *floor);
        let x: Vec<f64> = floors.iter().enumerate().flat_map(own).collect();
        let draw = self.drawn(&x);
        (x, draw)
    }
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 2e-6 * (1.0 + expected.abs()), "{value} is not {expected}");
}

#[track_caller]
fn all_near(values: &[f64], expected: &[f64]) {
    assert_eq!(values.len(), expected.len());
    values.iter().zip(expected).for_each(|(value, expected)| near(*value, *expected));
}

fn market(problem: &Owned, most: f64, utilities: &[f64], prices: &[f64], draw_price: f64) {
    let answer = equal_incomes(&problem.ways(), &problem.limit(most), Budget::default()).expect("a sound problem");
    assert!(answer.welfare.width() <= 1e-8, "gap {:e}", answer.welfare.width());
    all_near(&problem.utilities(&answer.x), utilities);
    all_near(&answer.prices, prices);
    near(answer.draw_prices[0], draw_price);
}

/// Three users, two kinds, a cap on each: rows that compare another's units in the other's ways would allow 1625 and leave an envy of 0.6.
fn example_1() -> Owned {
    let w: [&[f64]; 3] = [&[1.0, 0.5, 4.0, 2.0], &[1.0, 0.5, 1.0, 1.0], &[1.0, 0.6, 4.0, 3.2]];
    let p: [&[f64]; 3] = [&[200.0, 100.0, 400.0, 200.0], &[300.0, 150.0, 200.0, 100.0], &[300.0, 150.0, 400.0, 200.0]];
    Owned::new(&w, &p, &[0, 0, 1, 1], &[3.0, 3.0])
}

#[test]
fn example_1_floors_envy_and_thrift() {
    let problem = example_1();
    let floors = [5.4, 2.7, 5.4];
    let f = least_draw(&problem.ways(), &[], &floors, Budget::default()).expect("a sound problem");
    near(f.draw, 1702.5);
    near(f.bound.lower, 1702.5);
    // Nobody has less than was asked, and somebody would rather have another's units.
    near(worst_envy(&problem, &f.x) - 1.0, 0.25);
    let units = [0.0, 1.5, 3.0, 0.0, 0.0, 1.5];
    let (known, draw) = problem.thrifty(&units, &floors);
    near(draw, 1800.0);
    all_near(&problem.utilities(&known), &floors);
    let asked = Envious { floors: &floors, part: 0.9, rents: &[], together: &[], known: &known };
    let fe = least_draw_without_envy(&problem.ways(), &asked, PIVOTS).expect("an answer");
    near(fe.draw, 1770.0);
    near(fe.least, 1770.0);
}

#[test]
fn example_2_two_tenants_with_a_cap() {
    let w: [&[f64]; 2] = [&[1.0, 2.0, 1.6], &[1.0, 3.0, 2.4]];
    let p: [&[f64]; 2] = [&[100.0, 200.0, 120.0]; 2];
    let problem = Owned::new(&w, &p, &[0, 1, 1], &[1.0, 1.0]);
    let hard = [1.5, 2.025];
    let f = least_draw(&problem.ways(), &[], &hard, Budget::default()).expect("a sound problem");
    near(f.draw, 270.0);
    let (known, draw) = problem.thrifty(&[1.0, 0.25, 0.0, 0.75], &hard);
    near(draw, 270.0);
    let asked = Envious { floors: &hard, part: 0.9, rents: &[], together: &[], known: &known };
    near(least_draw_without_envy(&problem.ways(), &asked, PIVOTS).expect("an answer").draw, 270.0);
    let soft = least_draw(&problem.ways(), &[], &[1.35, 2.025], Budget::default()).expect("a sound problem");
    near(soft.draw, 240.0);
    all_near(&soft.prices, &[100.0, 200.0]);
    all_near(&soft.floor_prices, &[200.0, 400.0 / 3.0]);
}

/// Both allocations of the study are free of envy over units and draw, and their mean is not: such rows are not convex. The market has one answer.
#[test]
fn example_3_envy_over_draw_is_not_convex() {
    let problem = Owned::new(&[&[1.0, 0.0], &[2.0, 1.0]], &[&[1.0, 0.0], &[3.0, 0.0]], &[0, 0], &[4.0]);
    let worth = |units: f64, draw: f64| value(&problem, 0, &[units], draw);
    near(worth(3.0, 0.0), 0.0);
    near(worth(1.0, 3.0), 1.0);
    near(worth(2.0, 1.5) / 1.0 - 1.0, 0.5);
    market(&problem, 4.0, &[2.0, 8.0 / 3.0], &[0.375], 0.125);
}

#[test]
fn example_4_no_envy_and_yet_below_an_equal_division() {
    let problem =
        Owned::new(&[&[1.0, 0.0], &[0.0, 1.0], &[4.0, 1.0]], &[&[1.0, 0.0], &[0.0, 0.0], &[3.0, 0.0]], &[0, 0], &[5.0]);
    let equal = |l: usize| value(&problem, l, &[5.0 / 3.0], 4.0 / 3.0);
    all_near(&[equal(0), equal(1), equal(2)], &[4.0 / 3.0, 5.0 / 3.0, 3.0]);
    // Nobody would rather have another's units and draw here, and the first has three quarters of an equal division.
    let (bundles, has) = ([(1.0, 1.0), (3.0, 0.0), (1.0, 3.0)], [1.0, 3.0, 4.0]);
    for l in 0..3 {
        bundles.iter().for_each(|(units, draw)| assert!(value(&problem, l, &[*units], *draw) <= has[l] + 1e-6));
        near(value(&problem, l, &[bundles[l].0], bundles[l].1), has[l]);
    }
    near(has[0] / equal(0), 0.75);
    market(&problem, 4.0, &[1.525190, 2.649873, 3.299746], &[0.377377], 0.278279);
}

fn example_5() -> Owned {
    let w: [&[f64]; 2] = [&[1.0, 0.762, 0.565], &[1.0, 1.0, 0.914]];
    let p: [&[f64]; 2] = [&[693.0, 400.0, 299.0], &[402.0, 400.0, 299.0]];
    Owned::new(&w, &p, &[0, 0, 0], &[4.0])
}

#[test]
fn example_5_one_kind_under_a_budget() {
    let problem = example_5();
    market(&problem, 1200.0, &[1.143, 1.834114], &[0.0], 1.0 / 600.0);
    near(value(&problem, 0, &[2.0], 600.0), 1.143);
    near(value(&problem, 1, &[2.0], 600.0), 1.829703);
}

fn example_6() -> Owned {
    let w: [&[f64]; 2] = [&[1.0, 0.8, 2.0, 1.6], &[1.0, 0.6, 4.0, 2.4]];
    let p: [&[f64]; 2] = [&[100.0, 60.0, 300.0, 180.0]; 2];
    Owned::new(&w, &p, &[0, 0, 1, 1], &[2.0, 2.0])
}

#[test]
fn example_6_two_kinds_under_a_budget() {
    let problem = example_6();
    let has = [112.0 / 45.0, 56.0 / 15.0];
    market(&problem, 500.0, &has, &[3.0 / 28.0, 0.0], 1.0 / 280.0);
    let equal = [2.45, 10.0 / 3.0];
    (0..2).for_each(|l| near(value(&problem, l, &[1.0, 1.0], 250.0), equal[l]));
    // Envy over units and draw at the prices that each had in the market: linear, and no larger sum.
    let price = has.map(|u| u / 280.0);
    let (mut model, kinds) = (Model::maximise(), [0, 0, 1, 1]);
    let x: Vec<ColumnId> = problem.w.iter().map(|w| model.add_column(0.0, FREE, *w).expect("finite")).collect();
    for j in 0..2 {
        let of = (0..8).filter(|at| kinds[at % 4] == j).map(|at| (x[at], 1.0));
        model.add_row(-FREE, 2.0, &of.collect::<Vec<_>>()).expect("finite");
    }
    let drawn: Vec<_> = x.iter().zip(&problem.draw).map(|(x, p)| (*x, p / 500.0)).collect();
    model.add_row(-FREE, 1.0, &drawn).expect("finite");
    for (l, i) in [(0, 1), (1, 0)] {
        let net = |a: usize| f64::max(problem.w[4 * l + a] - price[l] * problem.draw[4 * l + a], 0.0);
        let unit = |j: usize| (0..4).filter(|a| kinds[*a] == j).map(net).fold(0.0, f64::max);
        let own = (0..4).map(|a| (x[4 * l + a], problem.w[4 * l + a]));
        let other = (0..4).map(|a| (x[4 * i + a], -unit(kinds[a]) - price[l] * problem.draw[4 * i + a]));
        model.add_row(0.0, FREE, &own.chain(other).collect::<Vec<_>>()).expect("finite");
        at_least(&problem, &mut model, &x, &[l], equal[l]);
    }
    near(Clarabel.solve(&model, Budget::default()).objective, 6.222222);
}

/// Hours are resources, what an hour's energy costs is the draw: a job that may wait is a user of both hours.
#[test]
fn example_8_a_tariff_by_the_hour() {
    let fast_slow = [300.0, 180.0];
    let bill: Vec<f64> = [3.0, 1.0].iter().flat_map(|tariff| fast_slow.map(|p| p * tariff)).collect();
    let w: [&[f64]; 3] = [&[1.0, 0.8, 0.0, 0.0], &[0.0, 0.0, 1.0, 0.8], &[1.0, 0.8, 1.0, 0.8]];
    let problem = Owned::new(&w, &[&bill, &bill, &bill], &[0, 0, 1, 1], &[1.0, 1.0]);
    let waits = least_draw(&problem.ways(), &[], &[0.3, 0.3, 0.6], Budget::default()).expect("a sound problem");
    near(waits.draw, 442.5);
    all_near(&waits.prices, &[0.0, 300.0]);
    near(waits.floor_prices[2], 600.0);
    let now: [&[f64]; 3] = [w[0], w[1], &[1.0, 0.8, 0.0, 0.0]];
    let problem = Owned::new(&now, &[&bill, &bill, &bill], &[0, 0, 1, 1], &[1.0, 1.0]);
    near(least_draw(&problem.ways(), &[], &[0.3, 0.3, 0.6], Budget::default()).expect("sound").draw, 787.5);
}

/// A gang of n is a way of the same GPUs, and its time is what it draws on: n GPUs for a part of the time.
#[test]
fn example_9_an_elastic_gang() {
    let sizes = [1.0f64, 2.0, 3.0, 4.0];
    let job = sizes.map(|n| n.powf(0.7) / n);
    let time = sizes.map(|n| 1.0 / n);
    let mut problem = Owned::new(&[&job, &[1.0, 0.0, 0.0, 0.0]], &[&time, &[0.0; 4]], &[0; 4], &[3.5]);
    problem.caps[1] = 3.0;
    let answer = equal_incomes(&problem.ways(), &problem.limit(1.0), Budget::default()).expect("a sound problem");
    all_near(&problem.utilities(&answer.x), &[1.280631, 2.050634]);
    near(answer.x[0], 0.550634);
    near(answer.x[1] / 2.0, 0.449366);
}

/// Two users who help each other by sharing: half of each unit counts as each one's.
#[test]
fn two_on_a_unit_save_draw() {
    let problem = Owned::new(&[&[1.0], &[1.0], &[1.0]], &[&[100.0], &[100.0], &[100.0]], &[0], &[3.0]);
    let floors = [1.0, 1.0, 1.0];
    let (known, draw) = problem.thrifty(&[1.0, 1.0, 1.0], &floors);
    near(draw, 300.0);
    let pair = Together { first: 0, second: 1, way: 0, rates: [0.8, 0.8], draw: 120.0 };
    let asked = Envious { floors: &floors, part: 1.0, rents: &[], together: &[pair], known: &known };
    let fe = least_draw_without_envy(&problem.ways(), &asked, PIVOTS).expect("an answer");
    // 1.25 units for two.
    near(fe.draw, 250.0);
    near(fe.together[0], 1.25);
}

/// Rows against envy, as a general program may have them.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// Another's units in the other's ways, instead of one's own best.
    attached: bool,
    /// The part of another's units that counts.
    part: f64,
    /// Who looks at whom.
    looks: &'a dyn Fn(usize, usize) -> bool,
}

/// A program over units in ways as the study words it, for the general solver: columns `x`, capacities and these rows against envy. What else is asked is up to the
/// caller.
fn worded(problem: &Owned, mut model: Model, cost: impl Fn(usize) -> f64, asked: Asked<'_>) -> (Model, Vec<ColumnId>) {
    let (n, ways) = (problem.weight.len(), problem.resource.len());
    let x: Vec<ColumnId> = (0..n * ways).map(|at| model.add_column(0.0, FREE, cost(at)).expect("finite")).collect();
    for (j, &m) in problem.capacity.iter().enumerate() {
        let of = (0..n * ways).filter(|at| problem.resource[at % ways] == j);
        model.add_row(-FREE, m, &of.map(|at| (x[at], 1.0)).collect::<Vec<_>>()).expect("finite");
    }
    for (l, i) in (0..n).flat_map(|l| (0..n).map(move |i| (l, i))).filter(|&(l, i)| l != i && (asked.looks)(l, i)) {
        let best = problem.ways().best_rates(l);
        let own = (0..ways).map(|a| (x[l * ways + a], problem.w[l * ways + a] / problem.weight[l]));
        let worth = |a: usize| if asked.attached { problem.w[l * ways + a] } else { best[problem.resource[a]] };
        let other = (0..ways).map(|a| (x[i * ways + a], -asked.part * worth(a) / problem.weight[i]));
        model.add_row(0.0, FREE, &own.chain(other).collect::<Vec<_>>()).expect("finite");
    }
    (model, x)
}

/// At least so much for these users together.
fn at_least(problem: &Owned, model: &mut Model, x: &[ColumnId], users: &[usize], least: f64) {
    let ways = problem.resource.len();
    let terms = users.iter().flat_map(|&l| (l * ways..(l + 1) * ways).map(|at| (x[at], problem.w[at])));
    model.add_row(least, FREE, &terms.collect::<Vec<_>>()).expect("finite");
}

/// The other programs of example 1: with another's ways attached to its units 1625 are enough, and user 0 has 5 where user 2's units would give it 8.
#[test]
fn example_1_as_others_would_word_it() {
    let problem = example_1();
    let drawn = |attached: bool, part: f64| {
        let asked = Asked { attached, part, looks: &|_, _| true };
        let (mut model, x) = worded(&problem, Model::minimise(), |at| problem.draw[at] / 100.0, asked);
        (0..3).zip([5.0, 2.0, 5.0]).for_each(|(l, equal)| at_least(&problem, &mut model, &x, &[l], equal));
        at_least(&problem, &mut model, &x, &[0, 1, 2], 0.9 * 15.0);
        Clarabel.solve(&model, Budget::default())
    };
    let naive = drawn(true, 1.0);
    near(100.0 * naive.objective, 1625.0);
    near(worst_envy(&problem, &naive.x) - 1.0, 0.6);
    all_near(&problem.utilities(&naive.x), &[5.0, 2.0, 6.5]);
    near(worst_attached_envy(&problem, &naive.x), 0.0);
    near(100.0 * drawn(false, 1.0).objective, 1725.0);
    near(100.0 * drawn(false, 0.9).objective, 14725.0 / 9.0);
}

/// Examples 5 and 6: the largest sum under a budget, with another's ways attached and without any rows.
#[test]
fn examples_5_and_6_without_a_market() {
    let most = |problem: &Owned, budget: f64, rows: bool| {
        let asked = Asked { attached: true, part: 1.0, looks: &|_, _| rows };
        let (mut model, x) = worded(problem, Model::maximise(), |at| problem.w[at], asked);
        let drawn: Vec<_> = x.iter().zip(&problem.draw).map(|(x, p)| (*x, p / budget)).collect();
        model.add_row(-FREE, 1.0, &drawn).expect("finite");
        Clarabel.solve(&model, Budget::default())
    };
    let problem = example_5();
    let attached = most(&problem, 1200.0, true);
    all_near(&problem.utilities(&attached.x), &[1.138371, 1.841542]);
    near(worst_envy(&problem, &attached.x) - 1.0, 0.769912);
    let has = problem.utilities(&attached.x);
    let envy = |l: usize, i: usize| {
        let other = &attached.x[3 * i..3 * i + 3];
        let drawn: f64 = other.iter().zip(&problem.draw[3 * i..]).map(|(x, p)| x * p).sum();
        value(&problem, l, &[other.iter().sum()], drawn) / has[l] - 1.0
    };
    near(f64::max(envy(0, 1), envy(1, 0)), 0.008133);
    near(has[0] / value(&problem, 0, &[2.0], 600.0), 0.995950);
    near(most(&example_6(), 500.0, false).objective, 20.0 / 3.0);
}

/// Example 7: where each of two on a unit holds half of it, two units for both of the first two leave the third its own. Asked what one would have in the
/// other's place, beside the other's partner, they may not share at all.
#[test]
fn example_7_two_on_a_unit() {
    // Alone, and the first beside the second: what users get, and what they hold.
    let columns: [([f64; 3], [f64; 3]); 4] = [
        ([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
        ([0.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
        ([0.8, 0.5, 0.0], [0.5, 0.5, 0.0]),
    ];
    let most = |in_place: bool| {
        let mut model = Model::maximise();
        let x: Vec<ColumnId> =
            columns.iter().map(|(u, _)| model.add_column(0.0, FREE, u.iter().sum()).expect("finite")).collect();
        model.add_row(-FREE, 3.0, &x.iter().map(|x| (*x, 1.0)).collect::<Vec<_>>()).expect("finite");
        for (l, i) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            // A second one of its own kind beside it: 0.9 for the first, 0.6 for the second.
            let beside = |held: f64| if in_place && held == 0.5 { [0.9, 0.6, held][l] } else { held };
            let terms: Vec<_> = x.iter().zip(&columns).map(|(x, (u, held))| (*x, u[l] - beside(held[i]))).collect();
            model.add_row(0.0, FREE, &terms).expect("finite");
        }
        Clarabel.solve(&model, Budget::default())
    };
    let found = most(false);
    near(found.objective, 3.6);
    let utility = |l: usize| found.x.iter().zip(&columns).map(|(x, (u, _))| x * u[l]).sum::<f64>();
    all_near(&[utility(0), utility(1), utility(2)], &[1.6, 1.0, 1.0]);
    near(most(true).objective, 3.0);
}

/// Example 10: without a row for an equal division somebody falls below it, and so does whoever is only compared with its siblings.
#[test]
fn example_10_rows_that_are_not_enough() {
    let problem = Owned::new(&[&[1.0, 1.2], &[1.0, 1.0]], &[&[100.0, 900.0][..]; 2], &[0, 1], &[1.0, 1.0]);
    let asked = Asked { attached: false, part: 1.0, looks: &|_, _| true };
    let (mut model, x) = worded(&problem, Model::minimise(), |at| problem.draw[at] / 100.0, asked);
    at_least(&problem, &mut model, &x, &[0, 1], 0.8 * 2.2);
    let thrifty = Clarabel.solve(&model, Budget::default());
    near(100.0 * thrifty.objective, 670.0);
    // Others have the same draw, (0.943333, 0.816667) among them.
    let has = problem.utilities(&thrifty.x);
    near(has[0] + has[1], 1.76);
    assert!(has[0] < 1.1 && has[1] < 1.0, "{has:?} where an equal division is (1.1, 1.0)");

    let mut problem = Owned::new(&[&[1.0, 6.0], &[1.0, 1.0], &[1.0, 6.0]], &[&[1.0, 1.0][..]; 3], &[0, 1], &[2.0, 2.0]);
    problem.weight = vec![0.25, 0.25, 0.5];
    let siblings = Asked { attached: false, part: 1.0, looks: &|l, i| l < 2 && i < 2 };
    // The least that the second may have where the sum is as large as it can be.
    let own = |at: usize| if at / 2 == 1 { problem.w[at] } else { 0.0 };
    let (mut model, x) = worded(&problem, Model::minimise(), own, siblings);
    at_least(&problem, &mut model, &x, &[0, 1, 2], 14.0);
    at_least(&problem, &mut model, &x, &[0, 1], 4.5);
    at_least(&problem, &mut model, &x, &[2], 7.0);
    near(Clarabel.solve(&model, Budget::default()).objective, 9.0 / 14.0);
}

#[test]
fn nonsense_is_refused_in_a_sentence() {
    let sound = Owned::new(&[&[1.0]], &[&[1.0]], &[0], &[1.0]);
    let refuse = |change: fn(&mut Owned)| {
        let mut problem = sound.clone();
        change(&mut problem);
        equal_incomes(&problem.ways(), &problem.limit(1.0), Budget::default()).expect_err("refused")
    };
    assert_eq!(refuse(|p| p.resource = vec![3]), InputError::Unknown { what: "way", index: 0, value: 3 });
    assert_eq!(refuse(|p| p.w = vec![0.0]), InputError::Unservable { user: 0 });
    assert!(matches!(refuse(|p| p.draw = vec![-1.0]), InputError::Number { what: "draw", .. }));
    assert!(matches!(refuse(|p| p.caps = vec![0.0]), InputError::Number { what: "caps", .. }));
    let limits = sound.limit(0.0);
    assert!(matches!(
        equal_incomes(&sound.ways(), &limits, Budget::default()),
        Err(InputError::Number { what: "limit", .. })
    ));
    assert!(matches!(
        least_draw(&sound.ways(), &[], &[0.0], Budget::default()),
        Err(InputError::Number { what: "floor", .. })
    ));
}

/// Floors beyond reach are said to be so.
#[test]
fn floors_that_cannot_be_reached_have_no_upper_bound() {
    let problem = Owned::new(&[&[1.0], &[1.0]], &[&[1.0], &[1.0]], &[0], &[1.0]);
    let answer = least_draw(&problem.ways(), &[], &[0.8, 0.8], Budget::default()).expect("a sound problem");
    assert_eq!(answer.bound.upper, FREE);
    assert!(answer.x.iter().sum::<f64>() <= 1.0 + 1e-9);
}

/// `V_l(X, W)`: the most that user `l` makes of units and draw, by the general solver.
fn value(problem: &Owned, l: usize, units: &[f64], draw: f64) -> f64 {
    let mut model = Model::maximise();
    let (mut of, mut drawn) = (vec![Vec::new(); units.len()], Vec::new());
    let ways = problem.resource.len();
    for (a, &j) in problem.resource.iter().enumerate() {
        let column = model.add_column(0.0, FREE, problem.w[l * ways + a]).expect("finite");
        of[j].push((column, 1.0));
        drawn.push((column, problem.draw[l * ways + a]));
    }
    for (terms, most) in of.iter().zip(units) {
        model.add_row(-FREE, *most, terms).expect("finite");
    }
    model.add_row(-FREE, draw, &drawn).expect("finite");
    Clarabel.solve(&model, Budget::default()).objective
}

/// Random problems: up to 10 users, 4 resources and 4 ways each; some with caps, zeros and ties.
fn problems() -> impl Strategy<Value = Owned> {
    (1..10usize, 1..4usize, 1..4usize, any::<u64>(), any::<bool>(), any::<bool>()).prop_map(
        |(n, k, c, seed, zeros, ties)| {
            let mut state = seed;
            let mut next = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let unit = (state >> 33) as f64 / (1u64 << 31) as f64;
                if ties { (unit * 4.0).floor() / 4.0 } else { unit }
            };
            let resource: Vec<usize> = (0..k * c).map(|a| a / c).collect();
            let (mut w, mut draw) = (Vec::new(), Vec::new());
            for _ in 0..n {
                for j in 0..k {
                    let (fast, hot) = (0.5 + 4.0 * next(), 100.0 + 200.0 * next());
                    let bend = 0.2 + 0.6 * next();
                    let absent = zeros && j > 0 && next() < 0.3;
                    for mode in 0..c {
                        let part = 1.0 - 0.25 * mode as f64;
                        w.push(if absent { 0.0 } else { fast * part.powf(bend) });
                        draw.push(hot * part);
                    }
                }
            }
            let weight = (0..n).map(|_| 1.0 + (3.0 * next()).floor()).collect();
            let capacity = (0..k).map(|_| 1.0 + (6.0 * next()).floor()).collect();
            Owned { w, draw, resource, weight, caps: vec![FREE; n], capacity }
        },
    )
}

/// As many users as there are places, each with the numbers of one of a few: alike users look at each other too.
fn crowds() -> impl Strategy<Value = Owned> {
    (problems(), 2..20usize, any::<u64>()).prop_map(|(few, n, seed)| {
        let (ways, profiles) = (few.resource.len(), few.weight.len());
        let chosen: Vec<usize> = (0..n).map(|l| (seed.rotate_left(7 * l as u32) % profiles as u64) as usize).collect();
        let rows = |all: &[f64]| chosen.iter().flat_map(|&l| all[l * ways..][..ways].to_vec()).collect();
        let weight = (0..n).map(|l| 1.0 + (seed.rotate_right(11 * l as u32) % 3) as f64).collect();
        Owned { w: rows(&few.w), draw: rows(&few.draw), weight, caps: vec![FREE; n], ..few }
    })
}

/// The most that somebody would gain by taking another's place, as a factor.
fn worst_envy(problem: &Owned, x: &[f64]) -> f64 {
    let (n, ways, u) = (problem.weight.len(), problem.resource.len(), problem.utilities(x));
    let mut worst = 0.0f64;
    for l in 0..n {
        let best = problem.ways().best_rates(l);
        for i in (0..n).filter(|&i| i != l) {
            let worth: f64 = (0..ways).map(|a| best[problem.resource[a]] * x[i * ways + a]).sum();
            worst = worst.max(worth / problem.weight[i] / (u[l] / problem.weight[l]));
        }
    }
    worst
}

/// The same where another's units are valued in the ways in which the other uses them, beyond 1.
fn worst_attached_envy(problem: &Owned, x: &[f64]) -> f64 {
    let (n, ways, u) = (problem.weight.len(), problem.resource.len(), problem.utilities(x));
    let ratio = |l: usize, i: usize| {
        let worth: f64 = (0..ways).map(|a| problem.w[l * ways + a] * x[i * ways + a]).sum();
        worth / problem.weight[i] / (u[l] / problem.weight[l]) - 1.0
    };
    let all = (0..n).flat_map(|l| (0..n).filter(move |i| *i != l).map(move |i| (l, i)));
    all.map(|(l, i)| ratio(l, i)).fold(0.0, f64::max)
}

/// Equal division in everybody's best ways, as floors.
fn equal_division(problem: &Owned) -> Vec<f64> {
    let all: f64 = problem.weight.iter().sum();
    let share = |l: usize| {
        let best = problem.ways().best_rates(l);
        best.iter().zip(&problem.capacity).map(|(a, m)| a * m).sum::<f64>() * problem.weight[l] / all
    };
    (0..problem.weight.len()).map(share).collect()
}

/// Units of an equal division, users × resources.
fn equal_units(problem: &Owned) -> Vec<f64> {
    let all: f64 = problem.weight.iter().sum();
    problem.weight.iter().flat_map(|p| problem.capacity.iter().map(move |m| m * p / all)).collect()
}

/// The whole program for the general solver, with all envy rows if a part is given.
fn by_clarabel(problem: &Owned, floors: &[f64], part: Option<f64>) -> Option<f64> {
    let (n, ways) = (problem.weight.len(), problem.resource.len());
    let mut model = Model::minimise();
    let unit: f64 = problem.draw.iter().copied().fold(0.0, f64::max);
    let x: Vec<ColumnId> =
        problem.draw.iter().map(|p| model.add_column(0.0, FREE, p / unit).expect("finite")).collect();
    for (j, &m) in problem.capacity.iter().enumerate() {
        let of = (0..n * ways).filter(|at| problem.resource[at % ways] == j);
        model.add_row(-FREE, m, &of.map(|at| (x[at], 1.0)).collect::<Vec<_>>()).expect("finite");
    }
    for l in 0..n {
        let own: Vec<_> = (0..ways).map(|a| (x[l * ways + a], problem.w[l * ways + a])).collect();
        model.add_row(floors[l], FREE, &own).expect("finite");
        model.add_row(-FREE, problem.caps[l], &own.iter().map(|t| (t.0, 1.0)).collect::<Vec<_>>()).expect("finite");
        let best = problem.ways().best_rates(l);
        for i in (0..n).filter(|&i| i != l && part.is_some()) {
            let own = own.iter().map(|&(x, w)| (x, w / problem.weight[l]));
            let other = |a: usize| -part.unwrap_or(0.0) * best[problem.resource[a]] / problem.weight[i];
            let row: Vec<_> = own.chain((0..ways).map(|a| (x[i * ways + a], other(a)))).collect();
            model.add_row(0.0, FREE, &row).expect("finite");
        }
    }
    let outcome = Clarabel.solve(&model, Budget::default());
    (outcome.status == Status::Optimal).then_some(outcome.objective * unit)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Floors and floors without envy, against the general solver; nested as they must be.
    #[test]
    fn floors_meet_the_general_solver(problem in problems(), epsilon in 0.0..0.4f64) {
        let fair = equal_division(&problem);
        let floors: Vec<f64> = fair.iter().map(|f| f * (1.0 - epsilon)).collect();
        let f = least_draw(&problem.ways(), &[], &floors, Budget::default()).expect("a sound problem");
        prop_assert!(f.bound.gap() <= 1e-6, "gap {:e} after {}", f.bound.gap(), f.iterations);
        if let Some(best) = by_clarabel(&problem, &floors, None) {
            prop_assert!((f.draw - best).abs() <= 1e-5 * best, "{} against {best}", f.draw);
        }
        let units = equal_units(&problem);
        let (known, thrifty) = problem.thrifty(&units, &floors);
        let asked = Envious { floors: &floors, part: 1.0 - epsilon, rents: &[], together: &[], known: &known };
        let fe = least_draw_without_envy(&problem.ways(), &asked, PIVOTS).expect("an answer");
        prop_assert!(f.bound.lower <= fe.draw * (1.0 + 1e-9) && fe.draw <= thrifty * (1.0 + 1e-7));
        prop_assert!((fe.draw - fe.least).abs() <= 1e-6 * fe.draw);
        if let Some(best) = by_clarabel(&problem, &floors, Some(1.0 - epsilon)) {
            prop_assert!((fe.draw - best).abs() <= 1e-5 * best, "{} against {best}", fe.draw);
        }
    }

    /// Near the least draw without envy: every row is kept, and what the simplex finds lies between the bounds.
    #[test]
    fn near_has_the_least_between_its_bounds(problem in problems(), epsilon in 0.02..0.4f64) {
        let floors: Vec<f64> = equal_division(&problem).iter().map(|f| f * (1.0 - epsilon)).collect();
        let units = equal_units(&problem);
        let (known, thrifty) = problem.thrifty(&units, &floors);
        let asked = Envious { floors: &floors, part: 1.0 - epsilon, rents: &[], together: &[], known: &known };
        let fe = least_draw_without_envy(&problem.ways(), &asked, PIVOTS).expect("an answer");
        let asked = Nearly { floors: &floors, part: 1.0 - epsilon, units: &units, gap: 0.0 };
        let near = nearly_least_draw_without_envy(&problem.ways(), &asked, Budget::iterations(6)).expect("sound");
        prop_assert!(near.bound.lower <= fe.draw * (1.0 + 1e-7), "{:?} against {}", near.bound, fe.draw);
        prop_assert!(near.bound.upper >= fe.draw * (1.0 - 1e-7), "{:?} against {}", near.bound, fe.draw);
        prop_assert!(near.bound.upper <= thrifty * (1.0 + 1e-7), "{:?} against {thrifty}", near.bound);
        prop_assert!((problem.drawn(&near.x) - near.bound.upper).abs() <= 1e-9 * near.bound.upper);
        let envy = worst_envy(&problem, &near.x);
        prop_assert!(envy * (1.0 - epsilon) <= 1.0 + 1e-7, "{envy} at epsilon {epsilon}");
        let mut used = vec![0.0; problem.capacity.len()];
        near.x.iter().enumerate().for_each(|(at, x)| used[problem.resource[at % problem.resource.len()]] += x);
        prop_assert!(used.iter().zip(&problem.capacity).all(|(used, m)| *used <= m * (1.0 + 1e-9)));
        prop_assert!(problem.utilities(&near.x).iter().zip(&floors).all(|(u, f)| *u >= f * (1.0 - 1e-9)));
    }

    /// Going on from the last search, at another sacrifice: bounds and rows hold all the same.
    #[test]
    fn near_again_has_the_least_between_its_bounds(problem in problems()) {
        let (equal, units) = (equal_division(&problem), equal_units(&problem));
        let mut workspace = NearWorkspace::default();
        for epsilon in [0.3, 0.1, 0.2] {
            let floors: Vec<f64> = equal.iter().map(|f| f * (1.0 - epsilon)).collect();
            let asked = Nearly { floors: &floors, part: 1.0 - epsilon, units: &units, gap: 0.0 };
            let near = workspace.solve(&problem.ways(), &asked, Budget::iterations(16)).expect("sound");
            let (known, _) = problem.thrifty(&units, &floors);
            let asked = Envious { floors: &floors, part: 1.0 - epsilon, rents: &[], together: &[], known: &known };
            let fe = least_draw_without_envy(&problem.ways(), &asked, PIVOTS).expect("an answer");
            prop_assert!(near.bound.lower <= fe.draw * (1.0 + 1e-7), "{:?} against {}", near.bound, fe.draw);
            prop_assert!(near.bound.upper >= fe.draw * (1.0 - 1e-7), "{:?} against {}", near.bound, fe.draw);
            prop_assert!(worst_envy(&problem, &near.x) * (1.0 - epsilon) <= 1.0 + 1e-7);
            prop_assert!(problem.utilities(&near.x).iter().zip(&floors).all(|(u, f)| *u >= f * (1.0 - 1e-9)));
            let mut used = vec![0.0; problem.capacity.len()];
            near.x.iter().enumerate().for_each(|(at, x)| used[problem.resource[at % problem.resource.len()]] += x);
            prop_assert!(used.iter().zip(&problem.capacity).all(|(used, m)| *used <= m * (1.0 + 1e-9)));
        }
    }

    /// What was answered when everything drew something else is no worse a place to go on from than none: bounds and rows hold.
    #[test]
    fn near_with_other_draws_has_the_least_between_its_bounds(mut problem in problems(), epsilon in 0.02..0.3f64) {
        let floors: Vec<f64> = equal_division(&problem).iter().map(|f| f * (1.0 - epsilon)).collect();
        let units = equal_units(&problem);
        let mut workspace = NearWorkspace::default();
        for turn in 0..3 {
            let asked = Nearly { floors: &floors, part: 1.0 - epsilon, units: &units, gap: 0.0 };
            let near = workspace.solve(&problem.ways(), &asked, Budget::iterations(8)).expect("sound");
            let (known, _) = problem.thrifty(&units, &floors);
            let asked = Envious { floors: &floors, part: 1.0 - epsilon, rents: &[], together: &[], known: &known };
            let fe = least_draw_without_envy(&problem.ways(), &asked, PIVOTS).expect("an answer");
            prop_assert!(near.bound.lower <= fe.draw * (1.0 + 1e-7), "{:?} against {}", near.bound, fe.draw);
            prop_assert!(near.bound.upper >= fe.draw * (1.0 - 1e-7), "{:?} against {}", near.bound, fe.draw);
            prop_assert!(worst_envy(&problem, &near.x) * (1.0 - epsilon) <= 1.0 + 1e-7);
            prop_assert!(problem.utilities(&near.x).iter().zip(&floors).all(|(u, f)| *u >= f * (1.0 - 1e-9)));
            problem.draw.iter_mut().enumerate().for_each(|(at, p)| *p *= 1.0 + ((at * 7 + turn) % 3) as f64);
        }
    }

    /// Alike users, some under weights of their own: no row is broken, and the general solver finds no less.
    #[test]
    fn nobody_envies_somebody_alike(problem in crowds(), epsilon in 0.0..0.3f64) {
        let floors: Vec<f64> = equal_division(&problem).iter().map(|f| f * (1.0 - epsilon)).collect();
        let units = equal_units(&problem);
        let (known, thrifty) = problem.thrifty(&units, &floors);
        let asked = Envious { floors: &floors, part: 1.0 - epsilon, rents: &[], together: &[], known: &known };
        let fe = least_draw_without_envy(&problem.ways(), &asked, PIVOTS).expect("an answer");
        let envy = worst_envy(&problem, &fe.x);
        prop_assert!(envy * (1.0 - epsilon) <= 1.0 + 1e-7, "{envy} at epsilon {epsilon}");
        prop_assert!(fe.draw <= thrifty * (1.0 + 1e-7));
        if let Some(best) = by_clarabel(&problem, &floors, Some(1.0 - epsilon)) {
            prop_assert!((fe.draw - best).abs() <= 1e-5 * best, "{} against {best}", fe.draw);
        }
    }

    /// The market: nobody envies another's units and draw, nobody is below its part of both, and the certificate closes.
    #[test]
    fn the_market_is_free_of_envy(problem in problems(), part in 0.2..1.2f64) {
        let ways = problem.resource.len();
        let k = problem.capacity.len();
        let largest: f64 = problem.draw.chunks(ways).map(|p| p.iter().copied().fold(0.0, f64::max)).fold(0.0, f64::max);
        let most = part * largest * problem.capacity.iter().sum::<f64>();
        let answer = equal_incomes(&problem.ways(), &problem.limit(most), Budget::default()).expect("a sound problem");
        prop_assert!(answer.welfare.width() <= 1e-7, "width {:e} after {}", answer.welfare.width(), answer.iterations);
        prop_assert!(problem.drawn(&answer.x) <= most * (1.0 + 1e-9));
        let u = problem.utilities(&answer.x);
        let all: f64 = problem.weight.iter().sum();
        for l in 0..u.len() {
            let share: Vec<f64> = problem.capacity.iter().map(|m| m * problem.weight[l] / all).collect();
            let equal = value(&problem, l, &share, most * problem.weight[l] / all);
            prop_assert!(u[l] >= equal * (1.0 - 1e-5), "user {l} has {} where its part is worth {equal}", u[l]);
            for i in (0..u.len()).filter(|&i| i != l) {
                let scale = problem.weight[l] / problem.weight[i];
                let x = &answer.x[i * ways..][..ways];
                let mut units = vec![0.0; k];
                (0..ways).for_each(|a| units[problem.resource[a]] += x[a] * scale);
                let draw: f64 = x.iter().zip(&problem.draw[i * ways..]).map(|(x, p)| x * p * scale).sum();
                let worth = value(&problem, l, &units, draw);
                prop_assert!(worth <= u[l] * (1.0 + 1e-4), "user {l} has {} and would have {worth} as {i}", u[l]);
            }
        }
    }

    /// Caps and a tree of limits: feasible, and the certificate closes.
    #[test]
    fn caps_and_trees(mut problem in problems(), part in 0.3..0.9f64, cap in 0.3..3.0f64) {
        problem.caps.iter_mut().step_by(2).for_each(|d| *d = cap);
        let ways = problem.resource.len();
        let largest: f64 = problem.draw.iter().copied().fold(0.0, f64::max);
        let mut limits = problem.limit(part * largest * problem.capacity.iter().sum::<f64>());
        limits.push(Limit { most: 0.7 * part * largest * problem.capacity[0], resources: vec![0] });
        let answer = equal_incomes(&problem.ways(), &limits, Budget::default()).expect("a sound problem");
        prop_assert!(answer.welfare.width() <= 1e-7, "width {:e} after {}", answer.welfare.width(), answer.iterations);
        for (x, cap) in answer.x.chunks(ways).zip(&problem.caps) {
            prop_assert!(x.iter().sum::<f64>() <= cap * (1.0 + 1e-9));
        }
        let floors: Vec<f64> = problem.utilities(&answer.x).iter().map(|u| 0.8 * u).collect();
        let f = least_draw(&problem.ways(), &[], &floors, Budget::default()).expect("a sound problem");
        prop_assert!(f.bound.gap() <= 1e-6, "gap {:e} after {}", f.bound.gap(), f.iterations);
        if let Some(best) = by_clarabel(&problem, &floors, None) {
            prop_assert!((f.draw - best).abs() <= 1e-5 * best, "{} against {best}", f.draw);
        }
    }
}

/// Twelve to twenty-four ways of two to four resources; some draws of some users are all the same, so that more ways tie than a
/// solver that looks at a few of them would keep.
fn wide() -> impl Strategy<Value = Owned> {
    (2usize..=4, 1usize..=40, 6usize..=8).prop_flat_map(|(k, n, modes)| {
        let rates = prop::collection::vec(0.2..4.0f64, n * k * modes);
        let draws = prop::collection::vec(50.0..400.0f64, n * k * modes);
        let capacity = prop::collection::vec(0.5..6.0f64, k);
        (rates, draws, capacity, prop::collection::vec(any::<bool>(), n)).prop_map(
            move |(mut w, mut draw, capacity, ties)| {
                let ways = k * modes;
                for (l, _) in ties.iter().enumerate().filter(|(_, tied)| **tied) {
                    w[l * ways..][..ways].fill(1.0);
                    draw[l * ways..][..ways].fill(100.0);
                }
                let resource = (0..ways).map(|a| a % k).collect();
                Owned { w, draw, resource, weight: vec![1.0; n], caps: vec![f64::INFINITY; n], capacity }
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Many ways of each resource, of which the solver drops most on its way: floors meet the general solver, and the market's certificate closes.
    #[test]
    fn many_ways_are_none_too_many(problem in wide(), part in 0.3..0.95f64) {
        let floors: Vec<f64> = equal_division(&problem).iter().map(|f| f * part).collect();
        let f = least_draw(&problem.ways(), &[], &floors, Budget::default()).expect("a sound problem");
        prop_assert!(f.bound.gap() <= 1e-6, "gap {:e} after {}", f.bound.gap(), f.iterations);
        if let Some(best) = by_clarabel(&problem, &floors, None) {
            prop_assert!((f.draw - best).abs() <= 1e-5 * best, "{} against {best}", f.draw);
        }
        let limits = problem.limit(part * f.draw / 0.5);
        let market = equal_incomes(&problem.ways(), &limits, Budget::default()).expect("a sound problem");
        prop_assert!(market.welfare.width() <= 1e-7, "width {:e} after {}", market.welfare.width(), market.iterations);
    }

    /// In the memory of other answers, far away too, and with somebody capped: what is found is what is found without it.
    #[test]
    fn what_was_answered_before_changes_no_answer(
        mut problem in wide(),
        parts in prop::collection::vec(0.2..1.0f64, 4),
        capped in any::<bool>(),
    ) {
        let all: f64 = problem.capacity.iter().sum();
        if capped {
            problem.caps[0] = 0.7 * all;
        }
        let mut workspace = Workspace::default();
        let free = equal_incomes(&problem.ways(), &[], Budget::default()).expect("a sound problem");
        let most = problem.drawn(&free.x);
        let equal = equal_division(&problem);
        for part in parts {
            let limits = problem.limit(part * most);
            let warm = workspace.equal_incomes(&problem.ways(), &limits, Budget::default()).expect("a sound problem");
            let cold = equal_incomes(&problem.ways(), &limits, Budget::default()).expect("a sound problem");
            prop_assert!(warm.welfare.width() <= 1e-7, "width {:e} after {}", warm.welfare.width(), warm.iterations);
            prop_assert!((warm.welfare.lower - cold.welfare.lower).abs() <= 2e-7 * (1.0 + cold.welfare.lower.abs()));
            prop_assert!(problem.drawn(&warm.x) <= part * most * (1.0 + 1e-9));
            let floors: Vec<f64> = equal.iter().map(|f| 0.5 * f * part).collect();
            for _ in 0..2 {
                let warm = workspace.least_draw(&problem.ways(), &[], &floors, Budget::default()).expect("sound");
                let cold = least_draw(&problem.ways(), &[], &floors, Budget::default()).expect("sound");
                prop_assert!(warm.bound.gap() <= 1e-6, "gap {:e} after {}", warm.bound.gap(), warm.iterations);
                prop_assert!((warm.draw - cold.draw).abs() <= 2e-6 * cold.draw, "{} against {}", warm.draw, cold.draw);
            }
        }
    }
}
