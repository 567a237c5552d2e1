//! The market and the floors' program, solved and certified.
//!
//! *Starting from the last.* Where only floors, caps or the sizes of limits differ from what was last solved in a workspace, the search starts from an iterate of that
//! solve, well before its end and away from all walls: its duals are feasible here too, and what is missing is made up for like everything that is
//! missing. Whether that led anywhere is for the certificate to say, which knows nothing of it; if not, the search begins anew.

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

/// Memory to solve in, and to start from: see the module. The same problems one after the other have the same answers to the bit; what was solved before
/// changes an answer within its certificate.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    iterate: Iterate,
    start: Option<Start>,
}

/// An iterate to start from, and what it was of: all of this must be the same.
#[derive(Clone, Debug)]
struct Start {
    market: bool,
    w: Vec<f64>,
    draw: Vec<f64>,
    resource: Vec<usize>,
    weight: Vec<f64>,
    /// Who has a cap.
    capped: Vec<bool>,
    capacity: Vec<f64>,
    limited: Vec<Vec<usize>>,
    iterate: Iterate,
}

impl Start {
    fn new(asked: &Asked<'_>, iterate: Iterate) -> Self {
        let &Ways { w, draw, resource, weight, caps, capacity } = asked.problem;
        Self {
            market: asked.is_market(),
            w: w.to_vec(),
            draw: draw.to_vec(),
            resource: resource.to_vec(),
            weight: weight.to_vec(),
            capped: caps.iter().map(|cap| cap.is_finite()).collect(),
            capacity: capacity.to_vec(),
            limited: asked.limits.iter().map(|limit| limit.resources.clone()).collect(),
            iterate,
        }
    }

    fn is_of(&self, asked: &Asked<'_>) -> bool {
        let &Ways { w, draw, resource, weight, caps, capacity } = asked.problem;
        self.market == asked.is_market()
            && (&self.w[..], &self.draw[..], &self.resource[..]) == (w, draw, resource)
            && (&self.weight[..], &self.capacity[..]) == (weight, capacity)
            && self.capped.iter().copied().eq(caps.iter().map(|cap| cap.is_finite()))
            && self.limited.iter().eq(asked.limits.iter().map(|limit| &limit.resources))
    }
}

/// A question to the interior point.
#[derive(Clone, Copy)]
struct Asked<'a> {
    problem: &'a Ways<'a>,
    limits: &'a [Limit],
    aim: Aim<'a>,
    budget: Budget,
    tolerance: f64,
}

impl Asked<'_> {
    fn is_market(&self) -> bool {
        matches!(self.aim, Aim::Market)
    }
}

/// Where a search begins, and whether over all ways to the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Last,
    Anew,
    AnewOverAll,
}

impl Workspace {
    /// See [`equal_incomes`].
    ///
    /// # Errors
    /// When the problem makes no sense.
    pub fn equal_incomes(
        &mut self,
        problem: &Ways<'_>,
        limits: &[Limit],
        budget: Budget,
    ) -> Result<Incomes, InputError> {
        problem.check(limits)?;
        let asked = Asked { problem, limits, aim: Aim::Market, budget, tolerance: TOLERANCE };
        Ok(self.search(&asked, |iterate, iterations| {
            let (prices, draw_prices, rents) = iterate.prices(problem.capacity);
            let x = iterate.x(problem.ways());
            let mut incomes = Incomes { x, prices, draw_prices, rents, welfare: Certificate::NONE, iterations };
            bound::certify_incomes(problem, limits, &mut incomes);
            let width = incomes.welfare.width();
            (incomes, width)
        }))
    }

    /// See [`least_draw`].
    ///
    /// # Errors
    /// When the problem makes no sense.
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
        let asked = Asked { problem, limits, aim: Aim::Floors(floors), budget, tolerance };
        Ok(self.search(&asked, |iterate, iterations| {
            let (prices, draw_prices, rents) = iterate.prices(problem.capacity);
            let mut answer = Floors {
                x: iterate.x(problem.ways()),
                draw: 0.0,
                prices,
                draw_prices,
                rents,
                floor_prices: iterate.floor_prices(),
                bound: Certificate::NONE,
                iterations,
            };
            bound::certify_floors(problem, limits, floors, &mut answer);
            let gap = answer.bound.gap() * TOLERANCE / tolerance;
            (answer, gap)
        }))
    }

    /// Searches until the certificate is good enough: from the last iterate where there is one, then anew over some of the ways, then over all of them.
    fn search<T>(&mut self, asked: &Asked<'_>, read: impl Fn(&Iterate, u32) -> (T, f64)) -> T {
        let start = self.start.take().filter(|start| start.is_of(asked));
        let (mut spent, mut from) = (0, if start.is_some() { From::Last } else { From::Anew });
        let mut kept = start.as_ref().map(|start| start.iterate.clone());
        loop {
            match &start {
                Some(start) if from == From::Last => {
                    self.iterate.clone_from(&start.iterate);
                    self.iterate.ask_anew(asked.problem.caps, asked.limits, asked.aim);
                }
                _ => self.iterate.start(asked.problem, asked.limits, asked.aim),
            }
            // A start that leads nowhere must not cost all there is.
            let left = (asked.budget.iterations - spent) / if from == From::Last { 2 } else { 1 };
            let iterations = spent + self.iterate.run(left, asked.tolerance, from != From::AnewOverAll, &mut kept);
            let (answer, gap) = read(&self.iterate, iterations);
            let last = iterations == spent || iterations >= asked.budget.iterations;
            let narrowed = from == From::Last || self.iterate.is_focused();
            if gap <= FOCUSED || last || !narrowed {
                self.start = kept.map(|iterate| Start::new(asked, iterate));
                return answer;
            }
            (spent, kept) = (iterations, None);
            from = if from == From::Last { From::Anew } else { From::AnewOverAll };
        }
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
