//! The dual simplex against the general solver on random programmes, degenerate ones among them.

use arles_lp::simplex::Simplex;
use arles_lp::{Budget, Clarabel, Model, Solver, Status};
use proptest::prelude::*;

const PIVOTS: u32 = 100_000;

#[derive(Clone, Debug)]
struct Programme {
    costs: Vec<f64>,
    rows: Vec<(Vec<f64>, f64)>,
}

impl Programme {
    fn simplex(&self) -> (Status, Simplex) {
        let mut simplex = Simplex::new(&self.costs);
        self.rows.iter().for_each(|(row, right)| add(&mut simplex, row, *right));
        (simplex.solve(PIVOTS), simplex)
    }

    fn general(&self) -> (Status, f64) {
        let mut model = Model::maximise();
        let columns: Vec<_> = self.costs.iter().map(|&c| model.add_column(0.0, f64::INFINITY, c).unwrap()).collect();
        for (row, right) in &self.rows {
            let terms: Vec<_> = columns.iter().copied().zip(row.iter().copied()).collect();
            model.add_row(f64::NEG_INFINITY, *right, &terms).unwrap();
        }
        let outcome = Clarabel.solve(&model, Budget::default());
        (outcome.status, outcome.objective)
    }

    /// Feasible, and proved optimal by the duals: weak duality needs nothing of the solver.
    fn assert_optimal(&self, simplex: &Simplex) {
        let v = simplex.values();
        let scale = 1.0 + v.iter().fold(0.0, |a: f64, v| a.max(*v));
        assert!(v.iter().all(|&v| v >= -1e-8 * scale), "{v:?}");
        let mut bound = 0.0;
        let mut worth = self.costs.clone();
        for (r, (row, right)) in self.rows.iter().enumerate() {
            let value: f64 = row.iter().zip(v).map(|(a, v)| a * v).sum();
            assert!(value <= right + 1e-7 * scale, "row {r}: {value} > {right}");
            let y = simplex.dual(r);
            assert!(y >= 0.0);
            bound += y * right;
            worth.iter_mut().zip(row).for_each(|(d, a)| *d -= y * a);
        }
        assert!(worth.iter().all(|&d| d <= 1e-7), "{worth:?}");
        let objective = simplex.objective();
        assert!((bound - objective).abs() <= 1e-7 * (1.0 + bound.abs() + scale), "{bound} {objective}");
    }
}

fn add(simplex: &mut Simplex, row: &[f64], right: f64) {
    let terms: Vec<(u32, f64)> = row.iter().enumerate().filter(|t| *t.1 != 0.0).map(|(j, &a)| (j as u32, a)).collect();
    simplex.add_row(&terms, right);
}

#[test]
fn a_textbook_programme() {
    let programme = Programme {
        costs: vec![3.0, 5.0],
        rows: vec![(vec![1.0, 0.0], 4.0), (vec![0.0, 2.0], 12.0), (vec![3.0, 2.0], 18.0)],
    };
    let (end, simplex) = programme.simplex();
    assert_eq!(end, Status::Optimal);
    assert!((simplex.objective() - 36.0).abs() < 1e-7);
    programme.assert_optimal(&simplex);
}

#[test]
fn rows_that_exclude_each_other_and_objectives_without_end_are_said_to_be_so() {
    let infeasible = Programme { costs: vec![1.0], rows: vec![(vec![1.0], 1.0), (vec![-1.0], -2.0)] };
    assert_eq!(infeasible.simplex().0, Status::Infeasible);
    let unbounded = Programme { costs: vec![1.0, 1.0], rows: vec![(vec![1.0, -1.0], 1.0)] };
    assert_eq!(unbounded.simplex().0, Status::Unbounded);
    let nothing = Programme { costs: vec![-1.0], rows: vec![] };
    assert_eq!(nothing.simplex().0, Status::Optimal);
}

#[test]
fn a_spent_budget_says_so() {
    let rows = (0..6).map(|r| ((0..6).map(|j| if j == r { -1.0 } else { 0.3 }).collect(), -1.0)).collect();
    let programme = Programme { costs: vec![-1.0; 6], rows };
    let mut simplex = Simplex::new(&programme.costs);
    programme.rows.iter().for_each(|(row, right)| add(&mut simplex, row, *right));
    assert_eq!(simplex.solve(2), Status::BudgetSpent);
    assert_eq!(simplex.pivots(), 2);
}

/// Small integers make ties and degenerate vertices; reals make none.
fn programme() -> impl Strategy<Value = Programme> {
    let number = |whole: bool| move |x: f64| if whole { x.round() } else { x };
    (1..9usize, 0..14usize, any::<bool>(), any::<bool>()).prop_flat_map(move |(n, m, whole, homogeneous)| {
        let costs = prop::collection::vec((-3.0..4.0f64).prop_map(number(whole)), n);
        let coefficient = prop_oneof![2 => Just(0.0), 3 => -3.0..4.0f64];
        let right =
            if homogeneous { prop_oneof![Just(0.0), Just(0.0), 1.0..3.0f64].boxed() } else { (-2.0..6.0f64).boxed() };
        let row = (prop::collection::vec(coefficient.prop_map(number(whole)), n), right.prop_map(number(whole)));
        (costs, prop::collection::vec(row, m)).prop_map(|(costs, rows)| Programme { costs, rows })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_general_solver(programme in programme()) {
        let (end, simplex) = programme.simplex();
        let (status, objective) = programme.general();
        match end {
            Status::Optimal => {
                programme.assert_optimal(&simplex);
                if status == Status::Optimal {
                    prop_assert!((simplex.objective() - objective).abs() <= 1e-5 * (1.0 + objective.abs()));
                }
            }
            Status::Infeasible => prop_assert_ne!(status, Status::Optimal),
            Status::Unbounded => prop_assert_ne!(status, Status::Optimal),
            Status::BudgetSpent | Status::Trouble => prop_assert!(false, "{:?} where the general solver says {:?}", end, status),
        }
    }

    /// Rows one at a time lead to where all at once lead.
    #[test]
    fn lazily_is_as_good_as_at_once(programme in programme()) {
        let (end, at_once) = programme.simplex();
        let mut lazy = Simplex::new(&programme.costs);
        let mut last = lazy.solve(PIVOTS);
        for (row, right) in &programme.rows {
            add(&mut lazy, row, *right);
            if last != Status::Infeasible {
                last = lazy.solve(PIVOTS);
            }
        }
        if end == Status::Optimal {
            prop_assert_eq!(last, end);
            prop_assert!((lazy.objective() - at_once.objective()).abs() <= 1e-6 * (1.0 + at_once.objective().abs()));
        } else {
            prop_assert_ne!(last, Status::Optimal);
        }
    }
}
