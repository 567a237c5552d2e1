//! Nash welfare with caps: the equilibrium of [`crate::market`] where users also have a limit of their own.
//!
//! ```text
//! maximise Σ_l π_l log(w_l·x_l)    subject to   Σ_j x_lj ≤ d_l             a user's own cap (may be infinite)
//!                                               Σ_l x_lj ≤ m_j             every resource j
//!                                               x ≥ 0,  x_lj = 0 where w_lj = 0
//! ```
//!
//! Where no cap stands in the way of the market's equilibrium, that is the answer, and exact. Otherwise an interior
//! point made for this program finds it (`nash/interior.rs` has the mathematics). Either way the answer carries a
//! bound that other code proved; an answer whose gap is wider than [`TOLERANCE`] is still feasible and says so.
//!
//! [`Workspace::equal_incomes`] is the other thing that one may want of a market with caps: that everybody has the same to
//! spend per weight (`nash/incomes.rs`).

mod bound;
mod cholesky;
mod incomes;
mod interior;

pub use incomes::{Incomes, TURNS};

use crate::Budget;
use crate::market::{self, Market, Refusal, Welfare};
use interior::Iterate;

/// The gap, in mean log-utility, at which [`solve`] is content.
pub const TOLERANCE: f64 = 1e-8;

/// The most resources that a problem may have.
pub const MOST_RESOURCES: usize = market::MOST_RESOURCES;

/// A question. See the module for what the letters mean.
#[derive(Clone, Copy, Debug)]
pub struct Nash<'a> {
    /// Rates, users × resources, row by row; 0 means "cannot use".
    pub w: &'a [f64],
    /// π: what each user counts; positive.
    pub weight: &'a [f64],
    /// d: the most each user can use in all; positive, infinite for no cap.
    pub caps: &'a [f64],
    /// m: how much there is of each resource; a resource of 0 is as good as absent.
    pub capacity: &'a [f64],
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Division {
    /// Shares, users × resources, row by row. Feasible to rounding.
    pub x: Vec<f64>,
    /// Per resource: how much `Σ π log(w·x)` would rise with one more of it.
    pub prices: Vec<f64>,
    /// Per user: how much it would rise with one more unit of the user's cap.
    pub rents: Vec<f64>,
    /// Mean log-utility, and between which numbers its optimum lies.
    pub welfare: Welfare,
    /// Iterations of the interior point; 0 where the market's equilibrium fits the caps.
    pub iterations: u32,
}

impl Default for Division {
    fn default() -> Self {
        Self {
            x: Vec::new(),
            prices: Vec::new(),
            rents: Vec::new(),
            welfare: Welfare { lower: f64::NEG_INFINITY, upper: f64::INFINITY },
            iterations: 0,
        }
    }
}

/// Memory to solve in.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    market: market::Workspace,
    resources: Vec<usize>,
    iterate: Iterate,
    division: Division,
}

impl Workspace {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Solves to a gap of [`TOLERANCE`], or as near as it gets: the answer's bound says. `budget` counts iterations
    /// of the interior point.
    pub fn solve(&mut self, problem: &Nash<'_>, budget: Budget) -> Result<&Division, Refusal> {
        let market = Market { w: problem.w, weight: problem.weight, capacity: problem.capacity };
        market.check(&mut self.resources)?;
        let n = problem.weight.len();
        if problem.caps.len() != n {
            return Err(Refusal::Shape { what: "caps", length: problem.caps.len(), expected: n });
        }
        market::check_numbers("caps", problem.caps, |v| v >= market::LEAST)?;
        let free = self.market.equilibrium(&market, None, market::STEPS)?;
        let division = &mut self.division;
        division.x = free.x(&market);
        division.prices.clone_from(&free.prices);
        division.iterations = 0;
        let rows = division.x.chunks_exact(problem.capacity.len());
        if rows.zip(problem.caps).any(|(x, cap)| x.iter().sum::<f64>() > cap * (1.0 + 1e-12)) {
            self.iterate.start(problem, &self.resources);
            // The certificate repairs a little and loses a little: aim beyond what is asked.
            self.division.iterations = self.iterate.run(budget.iterations, 0.01 * TOLERANCE);
            self.read(problem);
        }
        bound::certify(problem, &mut self.division);
        Ok(&self.division)
    }

    /// Copies the iterate out.
    fn read(&mut self, problem: &Nash<'_>) {
        let k = problem.capacity.len();
        let Self { resources, iterate, division, .. } = self;
        let (prices, mut shares) = iterate.read();
        division.prices.fill(0.0);
        resources.iter().zip(prices).for_each(|(&resource, p)| division.prices[resource] = p);
        division.x.fill(0.0);
        for x in division.x.chunks_exact_mut(k) {
            resources.iter().zip(&mut shares).for_each(|(&resource, share)| x[resource] = share);
        }
    }
}

/// Solves once.
pub fn solve(problem: &Nash<'_>, budget: Budget) -> Result<Division, Refusal> {
    let mut workspace = Workspace::new();
    workspace.solve(problem, budget)?;
    Ok(workspace.division)
}
