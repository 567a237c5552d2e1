//! Equal incomes where users have caps: an equilibrium, not a maximum.
//!
//! Without caps the largest Nash welfare is the equilibrium of a market in which user l spends π_l. With caps it is not:
//! the conditions of the program say that at the optimum
//!
//! ```text
//! p·x_l + μ_l d_l = π_l            μ_l the rent of l's cap
//! ```
//!
//! so a capped user spends only part of its income while others spend all of theirs, and it may well envy them. With
//! equal incomes everybody *spends* up to π_l, within its cap, on its best bundle:
//!
//! ```text
//! x_l maximises w_l·x   subject to   p·x ≤ π_l,   1·x ≤ d_l,   x ≥ 0        and     Σ_l x_lj ≤ m_j, = where p_j > 0
//! ```
//!
//! At such prices nobody envies anybody: what another bought per unit of weight, as far as l can use it, was affordable to
//! l. And nobody is below an equal division: an equal part of everything costs p·m π_l/Σπ ≤ π_l.
//!
//! It is found by a fixed-point iteration that gives capped users the rent back: with weights `π'_l = π_l + μ_l d_l` the
//! program's user spends π_l. As long as a user mixes the same two resources its μ does not depend on its weight, so one or
//! two iterations settle it; prices may take longer, and the number of iterations is limited. Users who have all of their
//! cap on their best resource cannot use more income. How near the result is, is measured independently:
//! [`Incomes::regret`].

use super::{Nash, Workspace};
use crate::{Budget, InputError};

/// Enough programs for most problems; `tests/nash.rs` prints how near they come.
pub const TURNS: u32 = 60;
/// The regret at which the iteration stops.
const ENOUGH: f64 = 1e-6;

/// An approximate equilibrium.
#[derive(Clone, PartialEq, Debug)]
pub struct Incomes {
    /// Shares, users × resources, row by row. Feasible to rounding.
    pub x: Vec<f64>,
    /// Per resource, in units of weight.
    pub prices: Vec<f64>,
    /// π': the weights at which the program gives this; a start for a similar problem.
    pub money: Vec<f64>,
    /// The largest relative gain of any user that may spend as much per weight as the user who overspends most: no
    /// envy, and no shortfall from an equal division, is larger.
    pub regret: f64,
    /// Whether a cap binds.
    pub capped: bool,
    /// Programs solved.
    pub turns: u32,
}

impl Workspace {
    /// The equilibrium of equal incomes under caps, as near as `turns` programs come; [`TURNS`] is a good number. `start`
    /// is [`Incomes::money`] of a similar problem: for a slowly changing one, a few programs each time are enough.
    /// `budget` counts iterations of each program.
    pub fn equal_incomes(
        &mut self,
        problem: &Nash<'_>,
        start: Option<&[f64]>,
        turns: u32,
        budget: Budget,
    ) -> Result<Incomes, InputError> {
        let known = start.filter(|start| start.len() == problem.weight.len());
        let mut money = known.unwrap_or(problem.weight).to_vec();
        let mut best: Option<Incomes> = None;
        for turn in 1..=turns.max(1) {
            let solution = self.solve(&Nash { weight: &money, ..*problem }, budget)?;
            let regret = regret(problem, &solution.x, &solution.prices);
            if best.as_ref().is_none_or(|best| regret < best.regret) {
                let (x, prices, money) = (solution.x.clone(), solution.prices.clone(), money.clone());
                best = Some(Incomes { x, prices, money, regret, capped: solution.iterations > 0, turns: turn });
            }
            if regret <= ENOUGH {
                break;
            }
            let (x, prices, rents) = (solution.x.clone(), solution.prices.clone(), solution.rents.clone());
            for (l, money) in money.iter_mut().enumerate() {
                if let Some(rent) = returned(problem, &x, &prices, rents[l], l) {
                    *money = problem.weight[l] + rent;
                }
            }
        }
        Ok(best.expect("there is at least one turn"))
    }
}

/// The rent that a user gets back; `None` where it cannot use more income.
fn returned(problem: &Nash<'_>, x: &[f64], prices: &[f64], rent: f64, l: usize) -> Option<f64> {
    let k = problem.capacity.len();
    let cap = problem.caps[l];
    if cap.is_infinite() || rent <= 0.0 {
        return Some(0.0);
    }
    let (x, w) = (&x[l * k..][..k], &problem.w[l * k..][..k]);
    let spent: f64 = x.iter().zip(prices).map(|(x, p)| x * p).sum();
    let utility: f64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
    let most = w.iter().zip(problem.capacity).filter(|(_, m)| **m > 0.0).map(|(w, _)| *w).fold(0.0, f64::max);
    let filled = utility >= cap * most * (1.0 - 1e-6) && spent <= problem.weight[l];
    (!filled).then_some(rent * cap)
}

/// See [`Incomes::regret`].
fn regret(problem: &Nash<'_>, x: &[f64], prices: &[f64]) -> f64 {
    let k = problem.capacity.len();
    let spent = |x: &[f64]| x.iter().zip(prices).map(|(x, p)| x * p).sum::<f64>();
    let over = x.chunks_exact(k).zip(problem.weight).map(|(x, weight)| spent(x) / weight).fold(1.0, f64::max);
    let regret = |(l, x): (usize, &[f64])| {
        let rates = problem.w[l * k..][..k].iter().zip(problem.capacity);
        let w: Vec<f64> = rates.map(|(w, m)| if *m > 0.0 { *w } else { 0.0 }).collect();
        let utility: f64 = x.iter().zip(&w).map(|(x, w)| x * w).sum();
        affordable(&w, prices, problem.weight[l] * over, problem.caps[l]) / utility - 1.0
    };
    x.chunks_exact(k).enumerate().map(regret).fold(0.0, f64::max)
}

/// max { w·x : p·x ≤ income, 1·x ≤ cap, x ≥ 0 }, by its dual: the least of `income λ + cap max(0, max_j w_j − λ p_j)` over
/// λ ≥ 0, attained where two of these lines meet.
fn affordable(w: &[f64], prices: &[f64], income: f64, cap: f64) -> f64 {
    let lines: Vec<(f64, f64)> = w.iter().copied().zip(prices.iter().copied()).filter(|(w, _)| *w > 0.0).collect();
    if cap.is_infinite() {
        return income * lines.iter().map(|(w, p)| w / p).fold(0.0, f64::max);
    }
    let at = |lambda: f64| {
        let most = lines.iter().map(|(w, p)| w - lambda * p).fold(0.0, f64::max);
        income * lambda + cap * most
    };
    let corners = lines.iter().enumerate().flat_map(|(i, a)| {
        let others = lines[i + 1..].iter().map(move |b| (a.0 - b.0) / (a.1 - b.1));
        others.chain([a.0 / a.1])
    });
    corners.filter(|lambda| lambda.is_finite() && *lambda > 0.0).map(at).fold(at(0.0), f64::min)
}
