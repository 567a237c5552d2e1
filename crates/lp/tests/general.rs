//! Models with known answers, through both general solvers and the certificate.

use arles_lp::{Budget, Clarabel, Model, ModelError, Outcome, Solver, Status, Vertex, certificate};
use proptest::prelude::*;

const FREE: f64 = f64::INFINITY;

/// maximise 3x + 5y: x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18. Optimum 36 at (2, 6), duals (0, 3/2, 1).
fn factory() -> Model {
    let mut model = Model::maximise();
    let x = model.add_column(0.0, FREE, 3.0).unwrap();
    let y = model.add_column(0.0, FREE, 5.0).unwrap();
    model.add_row(-FREE, 4.0, &[(x, 1.0)]).unwrap();
    model.add_row(-FREE, 12.0, &[(y, 2.0)]).unwrap();
    model.add_row(-FREE, 18.0, &[(x, 3.0), (y, 2.0)]).unwrap();
    model
}

fn solve(model: &Model) -> Outcome {
    Clarabel.solve(model, Budget::default())
}

/// What each solver says.
fn answers(model: &Model) -> [Outcome; 2] {
    [solve(model), Vertex.solve(model, Budget::default())]
}

fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }
}

#[test]
fn a_maximum_with_its_duals() {
    let model = factory();
    for outcome in answers(&model) {
        assert_eq!(outcome.status, Status::Optimal);
        assert_near(&[outcome.objective], &[36.0]);
        assert_near(&outcome.x, &[2.0, 6.0]);
        assert_near(&outcome.row_duals, &[0.0, 1.5, 1.0]);
        assert!(certificate::check(&model, &outcome).is_good(1e-7));
    }
}

#[test]
fn a_minimum_with_equality_range_and_bounds() {
    // minimise x + 2y − z: x + y + z = 10, 2 ≤ x − y ≤ 4, −1 ≤ x, 0 ≤ z ≤ 3, y free. The best z is 3, then x + y = 7 and
    // the cost is 7 + y − 3, least where y is: x − y = 4.
    let mut model = Model::minimise();
    let x = model.add_column(-1.0, FREE, 1.0).unwrap();
    let y = model.add_column(-FREE, FREE, 2.0).unwrap();
    let z = model.add_column(0.0, 3.0, -1.0).unwrap();
    model.add_row(10.0, 10.0, &[(x, 1.0), (y, 1.0), (z, 1.0)]).unwrap();
    model.add_row(2.0, 4.0, &[(x, 1.0), (y, -1.0)]).unwrap();
    for outcome in answers(&model) {
        assert_near(&outcome.x, &[5.5, 1.5, 3.0]);
        assert_near(&[outcome.objective], &[5.5]);
        assert!(outcome.row_duals[1] < -0.1, "the upper side of a range is active: more room lowers the cost");
        assert!(outcome.reduced_costs[2] < -0.1);
        assert!(certificate::check(&model, &outcome).is_good(1e-7));
    }
}

#[test]
fn a_column_named_twice_counts_with_the_sum() {
    let mut model = Model::maximise();
    let x = model.add_column(0.0, FREE, 1.0).unwrap();
    model.add_row(-FREE, 6.0, &[(x, 1.0), (x, 2.0)]).unwrap();
    for outcome in answers(&model) {
        assert_near(&outcome.x, &[2.0]);
        assert!(certificate::check(&model, &outcome).is_good(1e-7));
    }
}

#[test]
fn infeasible_and_unbounded_are_statuses() {
    let mut crossed_rows = Model::minimise();
    let x = crossed_rows.add_column(0.0, FREE, 1.0).unwrap();
    crossed_rows.add_row(3.0, FREE, &[(x, 1.0)]).unwrap();
    crossed_rows.add_row(-FREE, 1.0, &[(x, 1.0)]).unwrap();

    let mut crossed_bounds = Model::minimise();
    crossed_bounds.add_column(2.0, 1.0, 1.0).unwrap();

    let mut open = Model::maximise();
    let x = open.add_column(0.0, FREE, 1.0).unwrap();
    open.add_row(-5.0, FREE, &[(x, 1.0)]).unwrap();

    let mut without_any_bound = Model::minimise();
    without_any_bound.add_column(-FREE, FREE, 1.0).unwrap();

    let cases = [
        (crossed_rows, Status::Infeasible),
        (crossed_bounds, Status::Infeasible),
        (open, Status::Unbounded),
        (without_any_bound, Status::Unbounded),
    ];
    for (model, status) in cases {
        for outcome in answers(&model) {
            assert_eq!(outcome.status, status, "{model:?}");
            assert!(!certificate::check(&model, &outcome).is_good(1e-3), "it claims no solution, so none is certified");
        }
    }
}

#[test]
fn a_program_of_nothing_is_solved() {
    let model = Model::minimise();
    for outcome in answers(&model) {
        assert_eq!(outcome.status, Status::Optimal);
        assert!(certificate::check(&model, &outcome).is_good(0.0));
    }
}

#[test]
fn a_spent_budget_is_a_status() {
    let outcome = Clarabel.solve(&factory(), Budget::iterations(1));
    assert_eq!((outcome.status, outcome.iterations), (Status::BudgetSpent, 1));
}

#[test]
fn the_same_question_gets_the_same_bytes() {
    assert_eq!(solve(&factory()), solve(&factory()));
}

#[test]
fn a_wrong_answer_has_a_bad_certificate() {
    let model = factory();
    let right = solve(&model);
    let spoil = |f: &dyn Fn(&mut Outcome)| {
        let mut wrong = right.clone();
        f(&mut wrong);
        certificate::check(&model, &wrong)
    };
    let outside = spoil(&|o| o.x[0] = 3.0);
    assert!(outside.primal_infeasibility > 0.1);
    let short = spoil(&|o| o.x = vec![0.0, 6.0]);
    assert!(short.primal_infeasibility < 1e-6 && short.gap > 0.1, "feasible but not best: {short:?}");
    let mispriced = spoil(&|o| o.row_duals[2] = 0.5);
    assert!(mispriced.dual_infeasibility > 0.1);
    let wrong_sign = spoil(&|o| {
        o.row_duals[0] = -1.0;
        o.reduced_costs[0] += 1.0;
    });
    assert!(wrong_sign.dual_infeasibility > 0.1);
    for certificate in [outside, short, mispriced, wrong_sign, spoil(&|o| o.x[1] = f64::NAN), spoil(&|o| o.x.clear())] {
        assert!(!certificate.is_good(1e-3), "{certificate:?}");
    }
}

#[test]
fn nonsense_is_refused_in_a_sentence() {
    let mut other = factory();
    let stranger = other.add_column(0.0, 1.0, 0.0).unwrap();
    let mut model = Model::minimise();
    assert!(matches!(model.add_column(f64::NAN, 1.0, 0.0), Err(ModelError::Bound(_))));
    assert!(matches!(model.add_column(FREE, FREE, 0.0), Err(ModelError::Bound(_))));
    assert!(matches!(model.add_column(0.0, 1.0, FREE), Err(ModelError::Coefficient(_))));
    let refusal = model.add_row(0.0, 1.0, &[(stranger, 1.0)]).unwrap_err();
    assert_eq!(refusal.to_string(), "column 2 is not in this model; use ids that its add_column returned");
    assert_eq!(model, Model::minimise(), "a refusal leaves nothing behind");
}

/// Rows and columns with any bounds, through the origin so that there is a solution; boxes so that there is a best one.
fn boxed() -> impl Strategy<Value = Model> {
    let column = (-4.0..4.0f64, 0.0..3.0f64, 0.0..3.0f64);
    (prop::collection::vec(column, 1..7), any::<bool>()).prop_flat_map(|(columns, large)| {
        let coefficients = prop::collection::vec(prop_oneof![1 => Just(0.0), 2 => -3.0..3.0f64], columns.len());
        let row = (coefficients, prop_oneof![Just(FREE), 0.0..2.0f64], prop_oneof![Just(FREE), 0.0..2.0f64]);
        prop::collection::vec(row, 0..7).prop_map(move |rows| {
            let mut model = if large { Model::maximise() } else { Model::minimise() };
            let add = |&(cost, below, above): &(f64, f64, f64)| model.add_column(-below, above, cost).unwrap();
            let ids: Vec<_> = columns.iter().map(add).collect();
            for (coefficients, below, above) in &rows {
                let terms: Vec<_> = ids.iter().copied().zip(coefficients.iter().copied()).collect();
                model.add_row(-below, *above, &terms).unwrap();
            }
            model
        })
    })
}

proptest! {
    #[test]
    fn a_vertex_is_as_good_as_the_interior_points_answer(model in boxed()) {
        let [inside, vertex] = answers(&model);
        prop_assert_eq!(vertex.status, Status::Optimal);
        prop_assert!(certificate::check(&model, &vertex).is_good(1e-8));
        prop_assert!((inside.objective - vertex.objective).abs() <= 1e-6 * (1.0 + vertex.objective.abs()));
    }
}

/// The value of a game, with the mixture of either side: rows are what one side can do, columns what the other can.
fn game(payoffs: &[Vec<f64>]) -> Model {
    let mut model = Model::minimise();
    let most = model.add_column(0.0, FREE, 1.0).unwrap();
    let weights: Vec<_> = payoffs[0].iter().map(|_| model.add_column(0.0, FREE, 0.0).unwrap()).collect();
    let all: Vec<_> = weights.iter().map(|&y| (y, 1.0)).collect();
    model.add_row(1.0, FREE, &all).unwrap();
    for row in payoffs {
        let mut terms: Vec<_> = weights.iter().zip(row).map(|(&y, &payoff)| (y, -payoff)).collect();
        terms.push((most, 1.0));
        model.add_row(0.0, FREE, &terms).unwrap();
    }
    model
}

proptest! {
    #[test]
    fn both_solvers_play_as_well(
        payoffs in (1..14usize).prop_flat_map(|goals| {
            let payoff = prop_oneof![2 => Just(0.0), 3 => (1u32..5).prop_map(|x| f64::from(x) / 4.0), 1 => 0.1..3.0f64];
            prop::collection::vec(prop::collection::vec(payoff, goals), 1..20)
        })
    ) {
        let model = game(&payoffs);
        let [inside, vertex] = answers(&model);
        prop_assert_eq!(vertex.status, Status::Optimal);
        prop_assert!((inside.objective - vertex.objective).abs() <= 1e-6, "{} {}", inside.objective, vertex.objective);
        prop_assert!(certificate::check(&model, &vertex).is_good(1e-8), "{:?}", certificate::check(&model, &vertex));
    }
}
