//! A division that keeps every row by way of prices.
//!
//! Let `b` be the prices of a market in which everybody spends `π_l` on units and values them in its best ways ([`crate::market`]), and `v_l = max_j a_lj/b_j` what
//! `l` could make of a unit of income. If nobody's units cost more than its income, `b·X_i ≤ π_i`, then `a_l·X_i/π_i ≤ v_l`, and
//!
//! ```text
//! u_l ≥ κ π_l v_l     and     b·X_l ≤ π_l        everybody                  imply                  u_l/π_l ≥ κ a_l·X_i/π_i        every two
//! ```
//!
//! `n` rows of one user each instead of `n²` of two. The least draw under them is the floors' program with caps, in units of income: `x' = b x`, rates and
//! draws over `b`, capacities times `b`, `d_l = π_l`. Bundles that are no budget's are lost; in large crowds few are worth anything.
//!
//! Its prices are those at which the search for a bound asks everybody: near the optimum of the whole program.

use super::super::{Floors, Ways, solve};
use super::Nearly;
use crate::market::{self, Market, STEPS};
use crate::{Budget, InputError};

/// Iterations for the program with incomes, and the gap that will do: it is only a start.
const ITERATIONS: Budget = Budget::iterations(200);
const TOLERANCE: f64 = 1e-5;
/// A price is at least this part of the dearest.
const CHEAPEST: f64 = 1e-6;

/// Where everybody has this part of what is asked, it is worth mixing in the rest.
const REACHED: f64 = 0.97;

/// The least part of its floor that anybody reaches.
fn reached(problem: &Ways<'_>, x: &[f64], floors: &[f64]) -> f64 {
    let ways = problem.ways();
    let part =
        |(l, floor): (usize, &f64)| problem.useful(l).map(|(a, _, w, _)| w * x[l * ways + a]).sum::<f64>() / floor;
    floors.iter().enumerate().map(part).fold(f64::INFINITY, f64::min)
}

/// The division, and its prices in the problem's units.
pub(super) struct Bought {
    /// Users × resources.
    pub(super) units: Vec<f64>,
    /// A bound of the least draw, whatever the rows; 0 where it is not known.
    pub(super) least: f64,
    pub(super) prices: Vec<f64>,
}

impl Bought {
    pub(super) fn new(problem: &Ways<'_>, asked: &Nearly<'_>, best: &[f64]) -> Result<Self, InputError> {
        let (ways, k) = (problem.ways(), problem.capacity.len());
        let market = Market { w: best, weight: problem.weight, capacity: problem.capacity };
        let income = market::equilibrium(&market, None, STEPS)?.prices;
        let dearest = income.iter().copied().fold(0.0, f64::max);
        let income: Vec<f64> = income.into_iter().map(|b| b.max(CHEAPEST * dearest)).collect();
        let worth = |rates: &[f64]| rates.iter().zip(&income).map(|(a, b)| a / b).fold(0.0, f64::max);
        let worth: Vec<f64> = best.chunks_exact(k).map(worth).collect();
        let of_way = |at: usize| income[problem.resource[at % ways]];
        let over = |all: &[f64]| all.iter().enumerate().map(|(at, x)| x / of_way(at)).collect::<Vec<f64>>();
        let (w, draw) = (over(problem.w), over(problem.draw));
        let capacity: Vec<f64> = problem.capacity.iter().zip(&income).map(|(m, b)| m * b).collect();
        let inner = Ways { w: &w, draw: &draw, caps: problem.weight, capacity: &capacity, ..*problem };
        let least = |(l, floor): (usize, &f64)| floor.max(asked.part * problem.weight[l] * worth[l]);
        let floors: Vec<f64> = asked.floors.iter().enumerate().map(least).collect();
        let mut workspace = solve::Workspace::default();
        let answer = workspace.least_draw_to(&inner, &[], &floors, ITERATIONS, TOLERANCE)?;
        if reached(&inner, &answer.x, &floors) < REACHED {
            let without = Ways { caps: &vec![f64::INFINITY; problem.users()], ..*problem };
            let plain = workspace.least_draw_to(&without, &[], asked.floors, Budget::default(), TOLERANCE)?;
            let least = plain.bound.lower;
            return Ok(Self { least, ..Self::read(problem, &plain, &vec![1.0; k]) });
        }
        Ok(Self::read(problem, &answer, &income))
    }

    fn read(problem: &Ways<'_>, answer: &Floors, income: &[f64]) -> Self {
        let (ways, k) = (problem.ways(), problem.capacity.len());
        let mut units = vec![0.0; problem.users() * k];
        for (at, x) in answer.x.iter().enumerate() {
            let j = problem.resource[at % ways];
            units[at / ways * k + j] += x / income[j];
        }
        let prices = answer.prices.iter().zip(income).map(|(r, b)| r * b).collect();
        Self { units, least: 0.0, prices }
    }
}
