//! Prices of the market in which everybody spends its weight on units in its best ways ([`crate::market`]): at prices near to these it is soon found what is worth
//! most to whom (`near/crowd.rs`).

use super::super::Ways;
use crate::InputError;
use crate::market::{self, Market, STEPS};

/// A price is at least this part of the dearest.
const CHEAPEST: f64 = 1e-6;

/// The prices of the last market, which are the next one's where only floors and κ differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    incomes: Option<Incomes>,
}

/// Prices of the market, and what it was of.
#[derive(Clone, Debug)]
struct Incomes {
    best: Vec<f64>,
    weight: Vec<f64>,
    capacity: Vec<f64>,
    prices: Vec<f64>,
}

impl Memory {
    /// Whether the last market was this one's: same users, same weights, same resources.
    pub(super) fn knows(&self, problem: &Ways<'_>, best: &[f64]) -> bool {
        self.incomes.as_ref().is_some_and(|known| {
            (&known.best[..], &known.weight[..], &known.capacity[..]) == (best, problem.weight, problem.capacity)
        })
    }

    /// b: prices of the market in which everybody spends its weight on units in its best ways.
    pub(super) fn prices(&mut self, problem: &Ways<'_>, best: &[f64]) -> Result<Vec<f64>, InputError> {
        if let Some(known) = self.incomes.as_ref().filter(|_| self.knows(problem, best)) {
            return Ok(known.prices.clone());
        }
        // Only resources that are there are sold; the others' prices are never looked at.
        let here: Vec<usize> = (0..problem.capacity.len()).filter(|&j| problem.capacity[j] > 0.0).collect();
        let w: Vec<f64> =
            best.chunks_exact(problem.capacity.len()).flat_map(|row| here.iter().map(|&j| row[j])).collect();
        let sold: Vec<f64> = here.iter().map(|&j| problem.capacity[j]).collect();
        let market = Market { w: &w, weight: problem.weight, capacity: &sold };
        let mut prices = vec![0.0; problem.capacity.len()];
        here.iter().zip(market::equilibrium(&market, None, STEPS)?.prices).for_each(|(&j, b)| prices[j] = b);
        let dearest = prices.iter().copied().fold(0.0, f64::max);
        let prices: Vec<f64> = prices.into_iter().map(|b| b.max(CHEAPEST * dearest)).collect();
        let (weight, capacity) = (problem.weight.to_vec(), problem.capacity.to_vec());
        self.incomes = Some(Incomes { best: best.to_vec(), weight, capacity, prices: prices.clone() });
        Ok(prices)
    }
}
