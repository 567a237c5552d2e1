//! Models with known answers, through the general solver and its certificate.

use arles_lp::{Budget, Clarabel, Model, ModelError, Outcome, Solver, Status, certificate};

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

fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }
}

#[test]
fn a_maximum_with_its_duals() {
    let model = factory();
    let outcome = solve(&model);
    assert_eq!(outcome.status, Status::Optimal);
    assert_near(&[outcome.objective], &[36.0]);
    assert_near(&outcome.x, &[2.0, 6.0]);
    assert_near(&outcome.row_duals, &[0.0, 1.5, 1.0]);
    assert!(certificate::check(&model, &outcome).is_good(1e-7));
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
    let outcome = solve(&model);
    assert_near(&outcome.x, &[5.5, 1.5, 3.0]);
    assert_near(&[outcome.objective], &[5.5]);
    assert!(outcome.row_duals[1] < -0.1, "the upper side of a range is active: more room lowers the cost");
    assert!(outcome.reduced_costs[2] < -0.1);
    assert!(certificate::check(&model, &outcome).is_good(1e-7));
}

#[test]
fn a_column_named_twice_counts_with_the_sum() {
    let mut model = Model::maximise();
    let x = model.add_column(0.0, FREE, 1.0).unwrap();
    model.add_row(-FREE, 6.0, &[(x, 1.0), (x, 2.0)]).unwrap();
    let outcome = solve(&model);
    assert_near(&outcome.x, &[2.0]);
    assert!(certificate::check(&model, &outcome).is_good(1e-7));
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
        let outcome = solve(&model);
        assert_eq!(outcome.status, status, "{model:?}");
        assert!(!certificate::check(&model, &outcome).is_good(1e-3), "it claims no solution, so none is certified");
    }
}

#[test]
fn a_program_of_nothing_is_solved() {
    let model = Model::minimise();
    let outcome = solve(&model);
    assert_eq!(outcome.status, Status::Optimal);
    assert!(certificate::check(&model, &outcome).is_good(0.0));
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
