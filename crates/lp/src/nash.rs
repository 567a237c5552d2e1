//! Nash welfare with caps: the equilibrium of [`crate::market`] where users also have a limit of their own.
//!
//! ```text
//! maximise Σ_l π_l log(w_l·x_l)    subject to   Σ_j x_lj ≤ d_l             a user's own cap (may be infinite)
//!                                               Σ_l x_lj ≤ m_j             every resource j
//!                                               x ≥ 0,  x_lj = 0 where w_lj = 0
//! ```
//!
//! Where the market's equilibrium satisfies all caps, it is the solution, and exact. Otherwise an interior point made for
//! this program finds it (`nash/interior.rs` has the mathematics). Either way the solution carries a certificate that
//! other code proved; a solution whose gap is wider than [`TOLERANCE`] is still feasible.
//!
//! [`Workspace::equal_incomes`] solves the other problem of a market with caps: everybody has the same income per weight
//! (`nash/incomes.rs`).

mod bound;
mod cholesky;
mod incomes;
mod interior;

pub(crate) use bound::best;
pub use incomes::{Incomes, TURNS};

use crate::input::{Domain, check_numbers, check_shape};
use crate::market::{self, Market};
use crate::{Budget, Certificate, InputError};
use interior::Iterate;

/// The width of the certificate, in mean log-utility, at which [`solve`] stops.
pub const TOLERANCE: f64 = 1e-8;

/// The most resources that a problem may have.
pub const MOST_RESOURCES: usize = market::MOST_RESOURCES;

/// A problem. See the module for the notation.
#[derive(Clone, Copy, Debug)]
pub struct Nash<'a> {
    /// Rates, users × resources, row by row; 0 means "cannot use".
    pub w: &'a [f64],
    /// π: the weight of each user; positive.
    pub weight: &'a [f64],
    /// d: the most each user can use in all; positive, infinite for no cap.
    pub caps: &'a [f64],
    /// m: the capacity of each resource; a resource of capacity 0 is ignored.
    pub capacity: &'a [f64],
}

/// A division with its prices and a proven bound on the welfare.
#[derive(Clone, PartialEq, Debug)]
pub struct Solution {
    /// Shares, users × resources, row by row. Feasible to rounding.
    pub x: Vec<f64>,
    /// Per resource: how much `Σ π log(w·x)` would rise with one more of it.
    pub prices: Vec<f64>,
    /// Per user: how much it would rise with one more unit of the user's cap.
    pub rents: Vec<f64>,
    /// Bounds of the optimal mean log-utility `Σ π log(w·x) / Σ π`.
    pub welfare: Certificate,
    /// Iterations of the interior point; 0 where the market's equilibrium fits the caps.
    pub iterations: u32,
}

impl Default for Solution {
    fn default() -> Self {
        Self { x: Vec::new(), prices: Vec::new(), rents: Vec::new(), welfare: Certificate::NONE, iterations: 0 }
    }
}

/// Memory to solve in.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    market: market::Workspace,
    resources: Vec<usize>,
    iterate: Iterate,
    solution: Solution,
}

impl Workspace {
    /// An empty workspace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Solves to a width of [`TOLERANCE`], or as near as it gets: the certificate says. `budget` counts iterations of
    /// the interior point.
    pub fn solve(&mut self, problem: &Nash<'_>, budget: Budget) -> Result<&Solution, InputError> {
        let k = problem.capacity.len();
        let here: Vec<usize> = (0..k).filter(|&j| problem.capacity[j] != 0.0).collect();
        let fits = k <= MOST_RESOURCES || here.is_empty() || problem.w.len() != problem.weight.len().saturating_mul(k);
        if fits {
            self.solve_all(problem, budget)?;
            return Ok(&self.solution);
        }
        // Many resources of capacity 0 (kinds of GPUs that are away, or modes of others) are no reason to refuse.
        let w: Vec<f64> = problem.w.chunks_exact(k).flat_map(|row| here.iter().map(|&j| row[j])).collect();
        let capacity: Vec<f64> = here.iter().map(|&j| problem.capacity[j]).collect();
        self.solve_all(&Nash { w: &w, capacity: &capacity, ..*problem }, budget)?;
        let spread = |row: &[f64]| {
            let mut wide = vec![0.0; k];
            here.iter().zip(row).for_each(|(&j, &value)| wide[j] = value);
            wide
        };
        self.solution.x = self.solution.x.chunks_exact(here.len()).flat_map(spread).collect();
        self.solution.prices = spread(&self.solution.prices);
        Ok(&self.solution)
    }

    fn solve_all(&mut self, problem: &Nash<'_>, budget: Budget) -> Result<(), InputError> {
        let market = Market { w: problem.w, weight: problem.weight, capacity: problem.capacity };
        market.check(&mut self.resources)?;
        check_shape("caps", problem.caps.len(), problem.weight.len())?;
        check_numbers("caps", problem.caps.iter().copied(), Domain::ModerateLimit)?;
        let free = self.market.equilibrium(&market, None, market::STEPS)?;
        let solution = &mut self.solution;
        solution.x = free.x(&market);
        solution.prices.clone_from(&free.prices);
        solution.iterations = 0;
        let rows = solution.x.chunks_exact(problem.capacity.len());
        if rows.zip(problem.caps).any(|(x, cap)| x.iter().sum::<f64>() > cap * (1.0 + 1e-12)) {
            self.iterate.start(problem, &self.resources);
            // Repairing the point for the certificate loses a little: aim below the tolerance.
            self.solution.iterations = self.iterate.run(budget.iterations, 0.01 * TOLERANCE);
            self.read(problem);
        }
        bound::certify(problem, &mut self.solution);
        Ok(())
    }

    /// Copies the iterate out.
    fn read(&mut self, problem: &Nash<'_>) {
        let k = problem.capacity.len();
        let Self { resources, iterate, solution, .. } = self;
        let (prices, mut shares) = iterate.read();
        solution.prices.fill(0.0);
        resources.iter().zip(prices).for_each(|(&resource, p)| solution.prices[resource] = p);
        solution.x.fill(0.0);
        for x in solution.x.chunks_exact_mut(k) {
            resources.iter().zip(&mut shares).for_each(|(&resource, share)| x[resource] = share);
        }
    }
}

/// Solves once.
pub fn solve(problem: &Nash<'_>, budget: Budget) -> Result<Solution, InputError> {
    let mut workspace = Workspace::new();
    workspace.solve(problem, budget)?;
    Ok(workspace.solution)
}
