//! The market and the floors' program, solved and certified.

use super::interior::{Aim, Iterate};
use super::{Limit, Ways, bound};
use crate::input::{Domain, check_numbers, check_shape};
use crate::{Budget, Certificate, InputError};

/// The gap aimed at, relative to the sum of weights or to the draw: repairing the point for the certificate loses a little.
const TOLERANCE: f64 = 1e-10;

/// A larger gap of an answer over some of the ways only is not left at that.
const FOCUSED: f64 = 1e-8;

/// What everybody buys with its income, at prices that clear the market.
#[derive(Clone, PartialEq, Debug)]
pub struct Incomes {
    /// Use, users × ways, row by row. Feasible to rounding.
    pub x: Vec<f64>,
    /// Per resource: how much `Σ π log u` would rise with one more of it.
    pub prices: Vec<f64>,
    /// Per limit: how much it would rise with one more unit of draw.
    pub draw_prices: Vec<f64>,
    /// Per user: how much it would rise with one more unit of its cap.
    pub rents: Vec<f64>,
    /// Bounds of the optimal mean log-utility `Σ π log u / Σ π`.
    pub welfare: Certificate,
    /// Iterations spent.
    pub iterations: u32,
}

/// The least draw with which everybody has its floor.
#[derive(Clone, PartialEq, Debug)]
pub struct Floors {
    /// Use, users × ways, row by row. Feasible to rounding; where the floors cannot all be reached, all miss the same part.
    pub x: Vec<f64>,
    /// `Σ p x`.
    pub draw: f64,
    /// Per resource: how much draw one more of it would save.
    pub prices: Vec<f64>,
    /// Per limit: how much draw would be saved in all if it were one higher.
    pub draw_prices: Vec<f64>,
    /// Per user: how much draw one more unit of its cap would save.
    pub rents: Vec<f64>,
    /// Per user: what one more unit of its floor would draw.
    pub floor_prices: Vec<f64>,
    /// Bounds of the least draw; `upper` is infinite where no use that reaches all floors was found.
    pub bound: Certificate,
    /// Iterations spent.
    pub iterations: u32,
}

/// Memory to solve in.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    iterate: Iterate,
}

impl Workspace {
    /// See [`equal_incomes`].
    pub fn equal_incomes(
        &mut self,
        problem: &Ways<'_>,
        limits: &[Limit],
        budget: Budget,
    ) -> Result<Incomes, InputError> {
        problem.check(limits)?;
        let mut spent = 0;
        loop {
            self.iterate.start(problem, limits, Aim::Market);
            let iterations = spent + self.iterate.run(budget.iterations - spent, TOLERANCE, spent == 0);
            let (prices, draw_prices, rents) = self.iterate.prices(problem.capacity);
            let x = self.iterate.x(problem.ways());
            let mut incomes = Incomes { x, prices, draw_prices, rents, welfare: Certificate::NONE, iterations };
            bound::certify_incomes(problem, limits, &mut incomes);
            if self.is_settled(incomes.welfare.width(), iterations, budget) {
                return Ok(incomes);
            }
            spent = iterations;
        }
    }

    /// See [`least_draw`].
    pub fn least_draw(
        &mut self,
        problem: &Ways<'_>,
        limits: &[Limit],
        floors: &[f64],
        budget: Budget,
    ) -> Result<Floors, InputError> {
        self.least_draw_to(problem, limits, floors, budget, TOLERANCE)
    }

    /// As [`Self::least_draw`], to another gap.
    pub(super) fn least_draw_to(
        &mut self,
        problem: &Ways<'_>,
        limits: &[Limit],
        floors: &[f64],
        budget: Budget,
        tolerance: f64,
    ) -> Result<Floors, InputError> {
        problem.check(limits)?;
        check_shape("floors", floors.len(), problem.users())?;
        check_numbers("floor", floors.iter().copied(), Domain::Moderate)?;
        let mut spent = 0;
        loop {
            self.iterate.start(problem, limits, Aim::Floors(floors));
            let iterations = spent + self.iterate.run(budget.iterations - spent, tolerance, spent == 0);
            let (prices, draw_prices, rents) = self.iterate.prices(problem.capacity);
            let mut answer = Floors {
                x: self.iterate.x(problem.ways()),
                draw: 0.0,
                prices,
                draw_prices,
                rents,
                floor_prices: self.iterate.floor_prices(),
                bound: Certificate::NONE,
                iterations,
            };
            bound::certify_floors(problem, limits, floors, &mut answer);
            if self.is_settled(answer.bound.gap() * TOLERANCE / tolerance, iterations, budget) {
                return Ok(answer);
            }
            spent = iterations;
        }
    }

    /// Whether to leave it at this: an answer over some of the ways whose certificate, which looks at all, is not good enough is asked for again over all.
    fn is_settled(&self, gap: f64, iterations: u32, budget: Budget) -> bool {
        gap <= FOCUSED || !self.iterate.is_focused() || iterations == 0 || iterations >= budget.iterations
    }
}

/// The market in which user `l` has `π_l` to spend on units and on draw: the largest `Σ π_l log u_l` within capacities, caps and limits.
///
/// Without caps `r·m + ρ·B = Σπ` for the prices `r` of resources and `ρ` of limits, everybody spends `π_l`, and whoever looks at another's units and
/// draw could have bought them, per unit of income: nobody envies anybody, and nobody is below its part of everything.
///
/// # Errors
/// When the problem makes no sense.
pub fn equal_incomes(problem: &Ways<'_>, limits: &[Limit], budget: Budget) -> Result<Incomes, InputError> {
    Workspace::default().equal_incomes(problem, limits, budget)
}

/// The least draw with `u_l ≥ floors_l` for everybody, whose floors are positive.
///
/// Nobody has more than its floor then, and nobody could have more at this draw, or all the same with less: efficient in utilities and draw among *all*
/// divisions. It is not envy-free: what is guaranteed is what everybody gets, not how.
///
/// # Errors
/// When the problem makes no sense. Floors that cannot be reached are no error: the certificate says so.
pub fn least_draw(problem: &Ways<'_>, limits: &[Limit], floors: &[f64], budget: Budget) -> Result<Floors, InputError> {
    Workspace::default().least_draw(problem, limits, floors, budget)
}
