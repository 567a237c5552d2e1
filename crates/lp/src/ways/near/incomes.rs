//! A division that keeps every row by way of prices.
//!
//! Let `b` be the prices of a market in which everybody spends `π_l` on units and values them in its best ways ([`crate::market`]), and `v_l = max_j a_lj/b_j` what
//! `l` could make of a unit of income. If nobody's units cost more than its income, `b·X_i ≤ π_i`, then `a_l·X_i/π_i ≤ v_l`, and
//!
//! ```text
//! u_l ≥ κ π_l v_l     and     b·X_l ≤ π_l        everybody                  imply                  u_l/π_l ≥ κ a_l·X_i/π_i        every two
//! ```
//!
//! `n` rows of one user each instead of `n²` of two, and at any scale of the prices: with `b/σ` everybody may hold more for its income where `σ > 1`, and has to be faster.
//! Both sides are linear in `σ`, so the least draw is convex in it, and its slope is known from the duals: the best `σ` is found from tangents. The least draw under them is the floors' program with caps, in units of income: `x' = b x`, rates and
//! draws over `b`, capacities times `b`, `d_l = π_l`. Bundles that are no budget's are lost; in large crowds few are worth anything.
//!
//! Its prices are those at which the search for a bound asks everybody: near the optimum of the whole program.

use super::super::{Floors, Ways, solve};
use super::Nearly;
use crate::market::{self, Market, STEPS};
use crate::{Budget, InputError};

/// The prices of the last market, which are the next one's where only floors and κ differ; and memory to solve in.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    incomes: Option<Incomes>,
    /// The best scale of them, when it was last looked for.
    scale: Option<f64>,
    workspace: solve::Workspace,
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
    fn prices(&mut self, problem: &Ways<'_>, best: &[f64]) -> Result<Vec<f64>, InputError> {
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
        self.scale = None;
        self.incomes = Some(Incomes { best: best.to_vec(), weight, capacity, prices: prices.clone() });
        Ok(prices)
    }
}

/// Iterations for the program with incomes, and the gap that will do: it is only a start.
const ITERATIONS: Budget = Budget::iterations(200);
const TOLERANCE: f64 = 1e-5;
/// A price is at least this part of the dearest.
const CHEAPEST: f64 = 1e-6;

/// Most scales that are tried, and the part of the draw that another is worth.
const SCALES: usize = 7;
const ENOUGH: f64 = 5e-4;

/// How far from the last best scale the next is tried first.
const STEP: f64 = 0.02;

/// Where everybody has this part of what is asked, it is worth mixing in the rest.
const REACHED: f64 = 0.97;
/// Where somebody has less, the draw says nothing of other scales.
const EXACT: f64 = 1.0 - 1e-4;

/// The least part of its floor that anybody reaches.
fn reached(problem: &Ways<'_>, x: &[f64], floors: &[f64]) -> f64 {
    let ways = problem.ways();
    let part =
        |(l, floor): (usize, &f64)| problem.useful(l).map(|(a, _, w, _)| w * x[l * ways + a]).sum::<f64>() / floor;
    floors.iter().enumerate().map(part).fold(f64::INFINITY, f64::min)
}

/// The program at prices: everything over what it costs.
struct Shop<'a> {
    problem: &'a Ways<'a>,
    asked: &'a Nearly<'a>,
    /// b.
    prices: Vec<f64>,
    w: Vec<f64>,
    draw: Vec<f64>,
    capacity: Vec<f64>,
    /// κ π_l v_l.
    speed: Vec<f64>,
}

/// An answer at one scale of prices, and where a better scale lies.
struct Sold {
    scale: f64,
    answer: Floors,
    /// The least part of what is asked that anybody has.
    reached: f64,
    /// How the draw changes with the scale.
    slope: f64,
}

impl<'a> Shop<'a> {
    fn new(problem: &'a Ways<'a>, asked: &'a Nearly<'a>, best: &[f64], prices: Vec<f64>) -> Self {
        let (ways, k) = (problem.ways(), problem.capacity.len());
        let of_way = |at: usize| prices[problem.resource[at % ways]];
        let over = |all: &[f64]| all.iter().enumerate().map(|(at, x)| x / of_way(at)).collect::<Vec<f64>>();
        let (w, draw) = (over(problem.w), over(problem.draw));
        let capacity = problem.capacity.iter().zip(&prices).map(|(m, b)| m * b).collect();
        let worth = |row: &[f64]| row.iter().zip(&prices).map(|(a, b)| a / b).fold(0.0, f64::max);
        let speed = best.chunks_exact(k).zip(problem.weight).map(|(row, p)| asked.part * p * worth(row)).collect();
        Self { problem, asked, prices, w, draw, capacity, speed }
    }

    fn sell(&self, scale: f64, memory: &mut Memory) -> Result<Sold, InputError> {
        let Self { problem, w, draw, capacity, speed, .. } = self;
        let floors: Vec<f64> = self.asked.floors.iter().zip(speed).map(|(f, u)| f.max(scale * u)).collect();
        let caps: Vec<f64> = problem.weight.iter().map(|p| scale * p).collect();
        let inner = Ways { w, draw, caps: &caps, capacity, ..**problem };
        let answer = memory.workspace.least_draw_to(&inner, &[], &floors, ITERATIONS, TOLERANCE)?;
        let reached = reached(&inner, &answer.x, &floors);
        let of = |l: usize| {
            let speeds = if floors[l] > self.asked.floors[l] { answer.floor_prices[l] * speed[l] } else { 0.0 };
            speeds - answer.rents[l] * problem.weight[l]
        };
        let slope = (0..floors.len()).map(of).sum();
        Ok(Sold { scale, answer, reached, slope })
    }

    /// What is sold at the best scale; none where nobody can have what is asked. The next scale to try is where the tangents on either side of the best meet, and they
    /// say what there is to gain.
    fn best_scale(&self, memory: &mut Memory) -> Result<Option<Sold>, InputError> {
        let mut ends = [2.0 - 1.0 / self.asked.part, 1.0 / self.asked.part];
        // Nothing is known yet at the ends.
        let mut known: [Option<Tangent>; 2] = [None, None];
        // What was best at another sacrifice is near the best.
        let mut step =
            memory.scale.take().filter(|scale| (ends[0]..ends[1]).contains(scale)).map(|scale| (scale, STEP));
        let (mut scale, mut best): (f64, Option<Sold>) = (step.map_or(1.0, |step| step.0), None);
        for _ in 0..SCALES {
            let sold = self.sell(scale, memory)?;
            let tangent = Tangent { scale, draw: sold.answer.draw, slope: sold.slope };
            if sold.reached < EXACT {
                let Some(near) = known[0].or(known[1]) else {
                    if step.take().is_some() {
                        scale = 1.0;
                        continue;
                    }
                    best = Some(sold).filter(|sold| sold.reached >= REACHED);
                    break;
                };
                ends[usize::from(scale > near.scale)] = scale;
                scale = 0.5 * (near.scale + scale);
                continue;
            }
            known[usize::from(sold.slope > 0.0)] = Some(tangent);
            if best.as_ref().is_none_or(|best| sold.answer.draw < best.answer.draw) {
                best = Some(sold);
            }
            let least = best.as_ref().map_or(f64::INFINITY, |best| best.answer.draw);
            let (next, draw) = match known {
                [Some(low), Some(high)] => low.meets(&high),
                [low, high] => {
                    let (from, end) = if low.is_some() { (low, ends[1]) } else { (high, ends[0]) };
                    let from = from.expect("one is known");
                    let mut next = 0.5 * (from.scale + end);
                    if let Some((_, step)) = &mut step {
                        let near = from.scale * if end > from.scale { 1.0 + *step } else { 1.0 - *step };
                        next = if end > from.scale { next.min(near) } else { next.max(near) };
                        *step *= 4.0;
                    }
                    (next, from.at(end))
                }
            };
            if least - draw <= ENOUGH * least {
                break;
            }
            scale = next;
        }
        memory.scale = best.as_ref().map(|best| best.scale);
        Ok(best)
    }
}

/// The least draw at a scale, and its slope there.
#[derive(Clone, Copy)]
struct Tangent {
    scale: f64,
    draw: f64,
    slope: f64,
}

impl Tangent {
    fn at(&self, scale: f64) -> f64 {
        self.draw + self.slope * (scale - self.scale)
    }

    /// Where two meet, well between them, and the draw there.
    fn meets(&self, other: &Self) -> (f64, f64) {
        let apart = other.scale - self.scale;
        let part = (other.at(self.scale) - self.draw) / ((self.slope - other.slope) * apart);
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.5 };
        let scale = self.scale + part * apart;
        (self.scale + part.clamp(0.1, 0.9) * apart, self.at(scale).max(other.at(scale)))
    }
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
    pub(super) fn new(
        problem: &Ways<'_>,
        asked: &Nearly<'_>,
        best: &[f64],
        memory: &mut Memory,
    ) -> Result<Self, InputError> {
        let shop = Shop::new(problem, asked, best, memory.prices(problem, best)?);
        if let Some(sold) = shop.best_scale(memory)? {
            let units = units(problem, &sold.answer.x, &shop.prices);
            let prices = sold.answer.prices.iter().zip(&shop.prices).map(|(r, b)| r * b).collect();
            return Ok(Self { units, least: 0.0, prices });
        }
        let without = Ways { caps: &vec![f64::INFINITY; problem.users()], ..*problem };
        let plain = memory.workspace.least_draw_to(&without, &[], asked.floors, Budget::default(), TOLERANCE)?;
        let least = plain.bound.lower;
        let units = units(problem, &plain.x, &vec![1.0; problem.capacity.len()]);
        Ok(Self { units, least, prices: plain.prices })
    }
}

/// Units by user and resource of a use in units of income.
fn units(problem: &Ways<'_>, x: &[f64], b: &[f64]) -> Vec<f64> {
    let (ways, k) = (problem.ways(), problem.capacity.len());
    let mut units = vec![0.0; problem.users() * k];
    for (at, x) in x.iter().enumerate() {
        let j = problem.resource[at % ways];
        units[at / ways * k + j] += x / b[j];
    }
    units
}
