//! The first prices: those of the least draw under budgets.
//!
//! Let `b` be the prices of a market in which everybody spends `π_l` on units and values them in its best ways ([`crate::market`]), and `v_l = max_j a_lj/b_j` what
//! `l` could make of a unit of income. If nobody's units cost more than its income, `b·X_i ≤ π_i`, then `a_l·X_i/π_i ≤ v_l`, and
//!
//! ```text
//! u_l ≥ κ π_l v_l     and     b·X_l ≤ π_l        everybody                  imply                  u_l/π_l ≥ κ a_l·X_i/π_i        every two
//! ```
//!
//! `n` rows of one user each instead of `n²` of two. The least draw under them is the floors' program with caps, in units of income: `x' = b x`, rates and
//! draws over `b`, capacities times `b`, `d_l = π_l`, at any scale of the prices: with `b/σ` everybody may hold more for its income where `σ > 1`, and has to be faster.
//! Both sides are linear in `σ`, so the least draw is convex in it, and its slope is known from the duals: the best `σ` is found from tangents. Its prices are near those
//! of the whole program, and turns find the rest of the way; its own division is where rounds begin, if those from another place come no nearer. Of a crowd only some are asked.

use super::super::{Floors, Ways, Workspace};
use super::Nearly;
use crate::market::{self, Market, STEPS};
use crate::{Budget, InputError};

/// The prices of the last market, which are the next one's where only floors and κ differ; and memory to solve in.
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

    /// Prices of resources, in draw, to begin with; and what everybody buys, users × resources, if all were asked.
    pub(super) fn first(
        &mut self,
        problem: &Ways<'_>,
        asked: &Nearly<'_>,
        best: &[f64],
    ) -> Result<(Vec<f64>, Option<Vec<f64>>), InputError> {
        let prices = self.prices(problem, best)?;
        let few = Sample::new(problem, asked.floors, best, FEW);
        // Few may have too little where all have enough.
        let scale = few.shop(problem, asked.part, &prices).best_scale()?.unwrap_or(1.0);
        let many = Sample::new(problem, asked.floors, best, MANY);
        let sold = many.shop(problem, asked.part, &prices).sell(scale, &mut Workspace::default())?;
        let all = many.floors.len() == problem.users();
        if sold.reached >= REACHED {
            let ways = problem.ways();
            let x = sold.answer.x.iter().enumerate().map(|(at, x)| x / prices[problem.resource[at % ways]]);
            let units = all.then(|| super::units_of(problem, &x.collect::<Vec<f64>>()));
            return Ok((sold.answer.prices.iter().zip(&prices).map(|(r, b)| r * b).collect(), units));
        }
        let without = Ways { caps: &vec![f64::INFINITY; many.floors.len()], ..many.ways(problem) };
        let plain = Workspace::default().least_draw_to(&without, &[], &many.floors, ITERATIONS, TOLERANCE)?;
        Ok((plain.prices, all.then(|| super::units_of(problem, &plain.x))))
    }
}

/// Users who are asked for the best scale, and for prices at it; times ways.
const FEW: usize = 8_000;
const MANY: usize = 80_000;
/// Iterations for the program with incomes, and the gap that will do: it is only a start.
const ITERATIONS: Budget = Budget::iterations(200);
const TOLERANCE: f64 = 1e-3;
/// A price is at least this part of the dearest.
const CHEAPEST: f64 = 1e-6;

/// Most scales that are tried, and the part of the draw that another is worth.
const SCALES: usize = 7;
const ENOUGH: f64 = 2e-3;
/// Where everybody has this part of what is asked, prices are worth having.
const REACHED: f64 = 0.97;
/// Where somebody has less, the draw says nothing of other scales.
const EXACT: f64 = 1.0 - 1e-3;

/// Some of the users, with their part of everything.
struct Sample {
    w: Vec<f64>,
    draw: Vec<f64>,
    weight: Vec<f64>,
    capacity: Vec<f64>,
    best: Vec<f64>,
    floors: Vec<f64>,
}

impl Sample {
    fn new(problem: &Ways<'_>, floors: &[f64], best: &[f64], most: usize) -> Self {
        let (n, ways, k) = (problem.users(), problem.ways(), problem.capacity.len());
        let mut of: Vec<usize> = (0..n).collect();
        if n * ways > most {
            // As if by lot: users may come in some order.
            of.sort_by_key(|l| ((l + 1).wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF, *l));
            of.truncate(most.div_ceil(ways));
        }
        let rows = |all: &[f64], each: usize| of.iter().flat_map(|&l| all[l * each..][..each].to_vec()).collect();
        let weight: Vec<f64> = rows(problem.weight, 1);
        let part = weight.iter().sum::<f64>() / problem.weight.iter().sum::<f64>();
        Self {
            w: rows(problem.w, ways),
            draw: rows(problem.draw, ways),
            capacity: problem.capacity.iter().map(|m| part * m).collect(),
            best: rows(best, k),
            floors: rows(floors, 1),
            weight,
        }
    }

    fn ways<'a>(&'a self, of: &Ways<'a>) -> Ways<'a> {
        let Self { w, draw, weight, capacity, .. } = self;
        Ways { w, draw, resource: of.resource, weight, caps: weight, capacity }
    }

    fn shop<'a>(&'a self, of: &Ways<'a>, part: f64, prices: &[f64]) -> Shop<'a> {
        Shop::new(self.ways(of), &self.floors, part, &self.best, prices)
    }
}

/// The least part of its floor that anybody reaches.
fn reached(problem: &Ways<'_>, x: &[f64], floors: &[f64]) -> f64 {
    let ways = problem.ways();
    let part =
        |(l, floor): (usize, &f64)| problem.useful(l).map(|(a, _, w, _)| w * x[l * ways + a]).sum::<f64>() / floor;
    floors.iter().enumerate().map(part).fold(f64::INFINITY, f64::min)
}

/// The program at prices: everything over what it costs.
struct Shop<'a> {
    problem: Ways<'a>,
    floors: &'a [f64],
    part: f64,
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
    fn new(problem: Ways<'a>, floors: &'a [f64], part: f64, best: &[f64], prices: &[f64]) -> Self {
        let (ways, k) = (problem.ways(), problem.capacity.len());
        let of_way = |at: usize| prices[problem.resource[at % ways]];
        let over = |all: &[f64]| all.iter().enumerate().map(|(at, x)| x / of_way(at)).collect::<Vec<f64>>();
        let (w, draw) = (over(problem.w), over(problem.draw));
        let capacity = problem.capacity.iter().zip(prices).map(|(m, b)| m * b).collect();
        let worth = |row: &[f64]| row.iter().zip(prices).map(|(a, b)| a / b).fold(0.0, f64::max);
        let speed = best.chunks_exact(k).zip(problem.weight).map(|(row, p)| part * p * worth(row)).collect();
        Self { problem, floors, part, w, draw, capacity, speed }
    }

    fn sell(&self, scale: f64, workspace: &mut Workspace) -> Result<Sold, InputError> {
        let Self { problem, w, draw, capacity, speed, .. } = self;
        let floors: Vec<f64> = self.floors.iter().zip(speed).map(|(f, u)| f.max(scale * u)).collect();
        let caps: Vec<f64> = problem.weight.iter().map(|p| scale * p).collect();
        let inner = Ways { w, draw, caps: &caps, capacity, ..*problem };
        let answer = workspace.least_draw_to(&inner, &[], &floors, ITERATIONS, TOLERANCE)?;
        let reached = reached(&inner, &answer.x, &floors);
        let of = |l: usize| {
            let speeds = if floors[l] > self.floors[l] { answer.floor_prices[l] * speed[l] } else { 0.0 };
            speeds - answer.rents[l] * problem.weight[l]
        };
        let slope = (0..floors.len()).map(of).sum();
        Ok(Sold { scale, answer, reached, slope })
    }

    /// What is sold at the best scale; none where nobody can have what is asked. The next scale to try is where the tangents on either side of the best meet, and they
    /// say what there is to gain.
    fn best_scale(&self) -> Result<Option<f64>, InputError> {
        let mut workspace = Workspace::default();
        let mut ends = [2.0 - 1.0 / self.part, 1.0 / self.part];
        // Nothing is known yet at the ends.
        let mut known: [Option<Tangent>; 2] = [None, None];
        let (mut scale, mut best): (f64, Option<Sold>) = (1.0, None);
        for _ in 0..SCALES {
            let sold = self.sell(scale, &mut workspace)?;
            let tangent = Tangent { scale, draw: sold.answer.draw, slope: sold.slope };
            if sold.reached < EXACT {
                let Some(near) = known[0].or(known[1]) else {
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
                    (0.5 * (from.scale + end), from.at(end))
                }
            };
            if least - draw <= ENOUGH * least {
                break;
            }
            scale = next;
        }
        Ok(best.map(|best| best.scale))
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
