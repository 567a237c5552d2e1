//! The market and the floors' program, solved and certified.

use super::bound::above;
use super::interior::{Aim, Iterate, Near};
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

/// Memory to solve in, and the prices of the last answer: where the next problem is like it, those say which ways are worth looking at.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    iterate: Iterate,
    last: Option<Prices>,
}

/// Prices of an answer, in the problem's units.
#[derive(Clone, Debug)]
struct Prices {
    /// Of resources, of limits, and of each user's cap.
    of: Vec<f64>,
    of_draw: Vec<f64>,
    rents: Vec<f64>,
    market: bool,
}

impl Prices {
    /// Whether they may be asked about a problem.
    fn fit(&self, problem: &Ways<'_>, limits: &[Limit], market: bool) -> bool {
        let sizes = (problem.capacity.len(), limits.len(), problem.users());
        self.market == market && (self.of.len(), self.of_draw.len(), self.rents.len()) == sizes
    }
}

/// Over which ways an answer is looked for, until its certificate, which looks at all, is good enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Breadth {
    /// The least dear at the prices of the last answer, twice at most.
    Known(u32),
    /// All, until it is plain which are worth it.
    Narrowing,
    All,
}

impl Breadth {
    fn wider(self) -> Self {
        match self {
            Self::Known(0) => Self::Known(1),
            Self::Known(_) => Self::Narrowing,
            Self::Narrowing | Self::All => Self::All,
        }
    }
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
        let (mut breadth, mut spent) = (self.first_breadth(problem, limits, true), 0);
        loop {
            let left = budget.iterations - spent;
            let iterations = spent + self.search(problem, limits, Aim::Market, breadth, left);
            let (prices, draw_prices, rents) = self.iterate.prices(problem.capacity);
            let x = self.iterate.x(problem.ways());
            let mut incomes = Incomes { x, prices, draw_prices, rents, welfare: Certificate::NONE, iterations };
            bound::certify_incomes(problem, limits, &mut incomes);
            self.remember(&incomes.prices, &incomes.draw_prices, &incomes.rents, true);
            if self.is_settled(incomes.welfare.width(), iterations - spent, iterations, budget) {
                return Ok(incomes);
            }
            (spent, breadth) = (iterations, breadth.wider());
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
        problem.check(limits)?;
        check_shape("floors", floors.len(), problem.users())?;
        check_numbers("floor", floors.iter().copied(), Domain::Moderate)?;
        let (mut breadth, mut spent) = (self.first_breadth(problem, limits, false), 0);
        loop {
            let left = budget.iterations - spent;
            let iterations = spent + self.search(problem, limits, Aim::Floors(floors), breadth, left);
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
            self.remember(&answer.prices, &answer.draw_prices, &answer.rents, false);
            if self.is_settled(answer.bound.gap(), iterations - spent, iterations, budget) {
                return Ok(answer);
            }
            (spent, breadth) = (iterations, breadth.wider());
        }
    }

    /// Starts anew; returns the iterations taken.
    fn search(&mut self, problem: &Ways<'_>, limits: &[Limit], aim: Aim<'_>, breadth: Breadth, iterations: u32) -> u32 {
        let known = self.last.as_ref().filter(|_| matches!(breadth, Breadth::Known(_)));
        let near = known.map(|known| Near {
            draw: if matches!(aim, Aim::Market) { 0.0 } else { 1.0 },
            prices: &known.of,
            draw_prices: (0..problem.capacity.len()).map(|j| above(limits, &known.of_draw, j)).collect(),
            rents: &known.rents,
        });
        self.iterate.start(problem, limits, aim, near.as_ref());
        self.iterate.run(iterations, TOLERANCE, breadth == Breadth::Narrowing)
    }

    fn first_breadth(&self, problem: &Ways<'_>, limits: &[Limit], market: bool) -> Breadth {
        let known = self.last.as_ref().is_some_and(|last| last.fit(problem, limits, market));
        if known { Breadth::Known(0) } else { Breadth::Narrowing }
    }

    fn remember(&mut self, prices: &[f64], draw_prices: &[f64], rents: &[f64], market: bool) {
        let (of, of_draw, rents) = (prices.to_vec(), draw_prices.to_vec(), rents.to_vec());
        self.last = Some(Prices { of, of_draw, rents, market });
    }

    /// Whether to leave it at this: an answer over some of the ways whose certificate is not good enough is asked for again over more.
    fn is_settled(&self, gap: f64, taken: u32, iterations: u32, budget: Budget) -> bool {
        gap <= FOCUSED || !self.iterate.is_focused() || taken == 0 || iterations >= budget.iterations
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
