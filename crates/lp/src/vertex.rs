//! The general solver for small programs: the dual [`Simplex`] behind [`Solver`].
//!
//! An interior point stops near the optimum, and *near* is measured against the largest number of the program. Where one coefficient
//! outweighs the others a hundred thousand times, as the price of a broken promise does, that may be too far away for those. A vertex is
//! exact up to the rounding of one small system of equations, and while programs are small it is found sooner, too.
//!
//! The model becomes `maximise c·v, G v ≤ h, v ≥ 0`: a column counts from its finite bound (a free one is the difference of two), a second
//! finite bound is a row, and so is each finite side of a row.

use crate::simplex::Simplex;
use crate::{Budget, Column, Model, Outcome, Sense, Solver, Status};

/// Pivots that count as one iteration of a budget, which is made for interior points.
const PIVOTS: u32 = 50;

/// The dual simplex, for programs of up to some hundred rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vertex;

/// How a column is written in terms of the `v ≥ 0` at a position: `x = from + sign · v`, less the next one where it is free.
#[derive(Clone, Copy)]
struct Place {
    at: u32,
    from: f64,
    sign: f64,
    free: bool,
}

impl Place {
    fn of(column: &Column, at: usize) -> Self {
        let at = u32::try_from(at).expect("a small program");
        match (column.lower.is_finite(), column.upper.is_finite()) {
            (true, _) => Self { at, from: column.lower, sign: 1.0, free: false },
            (false, true) => Self { at, from: column.upper, sign: -1.0, free: false },
            (false, false) => Self { at, from: 0.0, sign: 1.0, free: true },
        }
    }

    fn value(&self, v: &[f64]) -> f64 {
        let minus = if self.free { v[self.at as usize + 1] } else { 0.0 };
        self.from + self.sign * (v[self.at as usize] - minus)
    }
}

impl Solver for Vertex {
    fn solve(&self, model: &Model, budget: Budget) -> Outcome {
        let sign = if model.sense() == Sense::Maximise { 1.0 } else { -1.0 };
        let (mut places, mut costs) = (Vec::with_capacity(model.columns().len()), Vec::new());
        for column in model.columns() {
            let place = Place::of(column, costs.len());
            let cost = sign * column.objective * place.sign;
            costs.push(cost);
            if place.free {
                costs.push(-cost);
            }
            places.push(place);
        }
        let mut simplex = Simplex::new(&costs);
        let rows: Vec<[Option<usize>; 2]> = model.rows().map(|row| add_row(&mut simplex, &places, &row)).collect();
        for (column, place) in model.columns().iter().zip(&places) {
            if column.lower.is_finite() && column.upper.is_finite() {
                simplex.add_row(&[(place.at, 1.0)], column.upper - column.lower);
            }
        }
        let crossed = model.columns().iter().any(|column| column.lower > column.upper);
        let status = if crossed { Status::Infeasible } else { simplex.solve(budget.iterations.saturating_mul(PIVOTS)) };
        let dual = |row: Option<usize>| row.map_or(0.0, |row| simplex.dual(row));
        let row_duals: Vec<f64> = rows.iter().map(|&[upper, lower]| sign * (dual(upper) - dual(lower))).collect();
        let x: Vec<f64> = places.iter().map(|place| place.value(simplex.values())).collect();
        let reduced_costs = reduced_costs(model, &row_duals);
        let iterations = simplex.pivots().div_ceil(PIVOTS);
        Outcome { status, objective: model.objective(&x), x, row_duals, reduced_costs, iterations }
    }
}

/// The finite sides of a row, upper and lower.
fn add_row(simplex: &mut Simplex, places: &[Place], row: &crate::Row<'_>) -> [Option<usize>; 2] {
    let mut terms: Vec<(u32, f64)> = Vec::with_capacity(row.terms.len());
    let mut from = 0.0;
    for &(column, a) in row.terms {
        let place = places[column.index()];
        from += a * place.from;
        terms.push((place.at, a * place.sign));
        if place.free {
            terms.push((place.at + 1, -a * place.sign));
        }
    }
    terms.sort_by_key(|term| term.0);
    // A column named twice counts with the sum.
    terms.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    let upper = row.upper.is_finite().then(|| simplex.add_row(&terms, row.upper - from));
    let lower = row.lower.is_finite().then(|| {
        terms.iter_mut().for_each(|term| term.1 = -term.1);
        simplex.add_row(&terms, from - row.lower)
    });
    [upper, lower]
}

/// `c − Aᵀy`.
fn reduced_costs(model: &Model, y: &[f64]) -> Vec<f64> {
    let mut reduced: Vec<f64> = model.columns().iter().map(|column| column.objective).collect();
    for (row, y) in model.rows().zip(y) {
        row.terms.iter().for_each(|&(column, a)| reduced[column.index()] -= a * y);
    }
    reduced
}
