//! Certifies answers from the problem as given. Shares no code with the interior point; the bounds hold for any `x` and any prices.
//!
//! *The market.* `x` is scaled into capacities, limits and caps; that attains a welfare. For any prices `q ≥ 0` of the goods no division has more than
//!
//! ```text
//! Σ π_l log u_l  ≤  q·m + Σ_l max { π_l log(w_l·x) − Σ_a (G_la·q) x_a :  x ≥ 0, Σ x ≤ d_l }
//! ```
//!
//! *Floors.* Everybody's use is scaled to exactly its floor; where that oversells something, all of it is scaled back and the floors miss as much. For any
//! `q ≥ 0` and `μ ≥ 0`, whoever reaches its floor draws
//!
//! ```text
//! Σ p x  ≥  Σ_l ( f_l min_a (p_la + G_la·q + μ_l)/w_la − μ_l d_l ) − q·m
//! ```

use super::{Floors, Incomes, Limit, Ways};
use crate::Certificate;
use crate::certificate::{fit, usable};
use crate::nash::best;

/// More than this part of what there is, is oversold.
const OVERSOLD: f64 = 1e-7;

/// Makes the incomes' `x` feasible, and sets their certificate.
pub(super) fn certify_incomes(problem: &Ways<'_>, limits: &[Limit], incomes: &mut Incomes) {
    let ways = problem.ways();
    clean(problem, &mut incomes.x);
    into_goods(problem, limits, &mut incomes.x);
    for (x, &cap) in incomes.x.chunks_exact_mut(ways).zip(problem.caps) {
        let fit = fit(x.iter().sum(), cap);
        x.iter_mut().for_each(|x| *x *= fit);
    }
    tidy_prices(problem, &mut incomes.prices, &mut incomes.draw_prices);
    let goods = sold(problem, limits, &incomes.prices, &incomes.draw_prices);
    let (mut total, mut welfare, mut excess) = (0.0, 0.0, goods);
    for (l, x) in incomes.x.chunks_exact(ways).enumerate() {
        let weight = problem.weight[l];
        let utility: f64 = problem.useful(l).map(|(a, _, w, _)| w * x[a]).sum();
        let offers =
            problem.useful(l).map(|(_, j, w, p)| (w, incomes.prices[j] + p * above(limits, &incomes.draw_prices, j)));
        let best = best(&offers, weight, problem.caps[l]);
        total += weight;
        welfare += weight * utility.ln();
        excess += weight * (best.utility / utility).ln() - best.cost;
        incomes.rents[l] = best.rent;
    }
    let (lower, gap) = (welfare / total, excess / total);
    incomes.welfare = Certificate::of_maximum(lower, lower + gap);
}

/// Makes `x` reach the floors, as far as that goes, and sets the certificate.
pub(super) fn certify_floors(problem: &Ways<'_>, limits: &[Limit], floors: &[f64], answer: &mut Floors) {
    let ways = problem.ways();
    clean(problem, &mut answer.x);
    for (l, x) in answer.x.chunks_exact_mut(ways).enumerate() {
        let utility: f64 = problem.useful(l).map(|(a, _, w, _)| w * x[a]).sum();
        let scale = if utility > 0.0 { floors[l] / utility } else { 0.0 };
        x.iter_mut().for_each(|x| *x *= scale);
    }
    let caps = answer.x.chunks_exact(ways).zip(problem.caps).map(|(x, cap)| x.iter().sum::<f64>() / cap);
    let caps = caps.fold(0.0, f64::max);
    let over = used(problem, limits, &answer.x).into_iter().map(|(used, most)| used / most).fold(caps, f64::max);
    if over > 1.0 {
        answer.x.iter_mut().for_each(|x| *x /= over);
    }
    let reaches = |(l, x): (usize, &[f64])| {
        let utility: f64 = problem.useful(l).map(|(a, _, w, _)| w * x[a]).sum();
        floors[l] <= 0.0 || utility >= floors[l] * (1.0 - OVERSOLD)
    };
    let feasible = answer.x.chunks_exact(ways).enumerate().all(reaches);
    answer.draw = answer.x.iter().zip(problem.draw).map(|(x, p)| x * p).sum();
    tidy_prices(problem, &mut answer.prices, &mut answer.draw_prices);
    let goods = sold(problem, limits, &answer.prices, &answer.draw_prices);
    let mut proved = -goods;
    for (l, &floor) in floors.iter().enumerate().filter(|(_, floor)| **floor > 0.0) {
        let unit = |rent: f64| {
            let ways = problem.useful(l);
            let paid = ways
                .map(|(_, j, w, p)| (p * (1.0 + above(limits, &answer.draw_prices, j)) + answer.prices[j] + rent) / w);
            paid.fold(f64::INFINITY, f64::min)
        };
        let rent = usable(answer.rents[l]);
        let free = floor * unit(0.0);
        let with_rent = if problem.caps[l].is_finite() { floor * unit(rent) - rent * problem.caps[l] } else { free };
        if with_rent <= free {
            answer.rents[l] = 0.0;
        }
        answer.floor_prices[l] = unit(answer.rents[l]);
        proved += f64::max(free, with_rent);
    }
    let upper = if feasible { answer.draw } else { f64::INFINITY };
    answer.bound = Certificate { lower: if proved.is_finite() { proved.clamp(0.0, upper) } else { 0.0 }, upper };
}

/// Only ways that give anything, and only amounts.
fn clean(problem: &Ways<'_>, x: &mut [f64]) {
    let ways = problem.ways();
    for (at, x) in x.iter_mut().enumerate() {
        let useful = problem.w[at] > 0.0 && problem.capacity[problem.resource[at % ways]] > 0.0;
        *x = if useful { usable(*x) } else { 0.0 };
    }
}

/// Prices that may be used in a proof; a resource of capacity 0 has none.
fn tidy_prices(problem: &Ways<'_>, prices: &mut [f64], draw_prices: &mut [f64]) {
    for (price, &m) in prices.iter_mut().zip(problem.capacity) {
        *price = if m > 0.0 { usable(*price) } else { 0.0 };
    }
    draw_prices.iter_mut().for_each(|price| *price = usable(*price));
}

/// `q·m`
fn sold(problem: &Ways<'_>, limits: &[Limit], prices: &[f64], draw_prices: &[f64]) -> f64 {
    let units = prices.iter().zip(problem.capacity).map(|(q, m)| q * m).sum::<f64>();
    units + draw_prices.iter().zip(limits).map(|(q, limit)| q * limit.most).sum::<f64>()
}

/// The price of a unit of draw on a resource: of all limits above it.
pub(super) fn above(limits: &[Limit], draw_prices: &[f64], j: usize) -> f64 {
    limits.iter().zip(draw_prices).filter(|(limit, _)| limit.resources.contains(&j)).map(|(_, price)| price).sum()
}

/// What is used of every good, and how much there is.
fn used(problem: &Ways<'_>, limits: &[Limit], x: &[f64]) -> Vec<(f64, f64)> {
    let (ways, k) = (problem.ways(), problem.capacity.len());
    let (mut units, mut draw) = (vec![0.0; k], vec![0.0; k]);
    for (at, &x) in x.iter().enumerate() {
        let j = problem.resource[at % ways];
        units[j] += x;
        draw[j] += problem.draw[at] * x;
    }
    let resources = units.into_iter().zip(problem.capacity.iter().copied()).filter(|(_, m)| *m > 0.0);
    let of_limit = |limit: &Limit| (limit.resources.iter().map(|&j| draw[j]).sum(), limit.most);
    resources.chain(limits.iter().map(of_limit)).collect()
}

/// Scales `x` into capacities, then into limits.
fn into_goods(problem: &Ways<'_>, limits: &[Limit], x: &mut [f64]) {
    let ways = problem.ways();
    let mut used = used(problem, &[], x).into_iter();
    let by_resource: Vec<f64> = problem
        .capacity
        .iter()
        .map(|&m| if m > 0.0 { used.next().map_or(1.0, |(used, most)| fit(used, most)) } else { 0.0 })
        .collect();
    x.iter_mut().enumerate().for_each(|(at, x)| *x *= by_resource[problem.resource[at % ways]]);
    let here = problem.capacity.iter().filter(|m| **m > 0.0).count();
    let fits: Vec<f64> =
        self::used(problem, limits, x).into_iter().skip(here).map(|(used, most)| fit(used, most)).collect();
    for (at, x) in x.iter_mut().enumerate() {
        let j = problem.resource[at % ways];
        let under = limits.iter().zip(&fits).filter(|(limit, _)| limit.resources.contains(&j));
        *x *= under.map(|(_, fit)| *fit).fold(1.0, f64::min);
    }
}
