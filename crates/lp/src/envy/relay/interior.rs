//! The relays' program by an interior point whose system has the size of the relays.
//!
//! With slacks `s_ρ` and duals `y_ρ` of the rows `σ a·(z_l − ζ_h) ≥ 0`, `s_j` and `p_j` of capacities, and `u` the reduced
//! costs of the amounts,
//!
//! ```text
//! u_l = π_l p − π_l w_l − Σ_ρ σ y a      u_h = Σ_ρ σ y a      s_ρ = σ a·(z_l − ζ_h)      s_j = 1 − Σ_l π_l z_lj
//! ```
//!
//! and all products `z u`, `s y`, `s_j p_j` on their way to 0. Newton's system (`ω = y/s`, `e = (r_c + y r_p)/s`), after slacks and
//! reduced costs are gone:
//!
//! ```text
//! (u/z + Σ ω a aᵀ) dz_l − Σ ω a aᵀ dζ_h + π_l dp = f_l        f_l = r_d + r_c/z + Σ σ a e
//! (u/ζ + Σ ω a aᵀ) dζ_h − Σ ω a aᵀ dz_l          = f_h        f_h = r_d + r_c/ζ − Σ σ a e
//! Σ_l π_l dz_l − (s/p) dp                        = g          g  = −(r_c/p + r_p)
//! ```
//!
//! Users are eliminated one by one, which leaves a system in `dζ` and one in `dp`. The bound does not need many digits: the
//! iteration ends when the products are small beside the objective, or no longer fall.

use super::super::Relay;
use super::super::scaled::{Duals, Scaled};
use super::{Relays, Row};
use crate::cholesky::Cholesky;

/// Iterations at most, and the relative gap that is enough.
const ITERATIONS: usize = 40;
const ENOUGH: f64 = 3e-3;
/// Rounding has won when the residuals are this much larger than they were.
const WORSE: f64 = 30.0;
/// How much of the way to the boundary is gone.
const STEP: f64 = 0.995;
const LEAST_STEP: f64 = 1e-3;

pub(super) struct Program<'a> {
    pub(super) scaled: &'a Scaled,
    pub(super) relays: &'a Relays,
    /// As many for every user, one after the other.
    pub(super) rows: Vec<Row>,
}

/// Values of all unknowns, or a step of them.
#[derive(Clone)]
struct Point {
    /// `z` and then `ζ`, by resource; `u` likewise.
    x: Vec<f64>,
    u: Vec<f64>,
    s: Vec<f64>,
    y: Vec<f64>,
    left: Vec<f64>,
    p: Vec<f64>,
}

/// What the equations lack.
struct Residuals {
    x: Vec<f64>,
    s: Vec<f64>,
    left: Vec<f64>,
}

/// Where the iteration ended.
pub(super) struct Solved {
    /// Of all points on the way, those with the least bound, and that bound.
    pub(super) duals: Duals,
    pub(super) bound: f64,
    /// Amounts of users and then of relays, slacks and duals of the rows, at the last point.
    pub(super) x: Vec<f64>,
    pub(super) s: Vec<f64>,
    pub(super) y: Vec<f64>,
}

/// Solves, from the incumbent on.
pub(super) fn solve(program: &Program<'_>, menu: &[f64], holds: &[u32], bound: impl Fn(&Duals) -> f64) -> Solved {
    let mut point = program.start(menu, holds);
    let mut best = program.read(&point);
    let (mut least, mut nearest) = (bound(&best), f64::INFINITY);
    for _ in 0..ITERATIONS {
        let residuals = program.residuals(&point);
        let merit = program.merit(&point, &residuals);
        nearest = nearest.min(merit);
        // False for NaN as well.
        let falling = merit <= WORSE * nearest;
        let Some(next) = program.next(&point, &residuals).filter(|_| falling && merit > ENOUGH) else { break };
        point = next;
        let duals = program.read(&point);
        let upper = bound(&duals);
        if upper < least {
            (least, best) = (upper, duals);
        }
    }
    let Point { x, s, y, .. } = point;
    Solved { duals: best, bound: least, x, s, y }
}

impl Point {
    fn advance(&mut self, step: &Self, primal: f64, dual: f64) {
        let add =
            |to: &mut Vec<f64>, by: &[f64], length: f64| to.iter_mut().zip(by).for_each(|(a, d)| *a += length * d);
        add(&mut self.x, &step.x, primal);
        add(&mut self.s, &step.s, primal);
        add(&mut self.left, &step.left, primal);
        add(&mut self.u, &step.u, dual);
        add(&mut self.y, &step.y, dual);
        add(&mut self.p, &step.p, dual);
    }

    /// Pairs of which both are positive and whose product goes to 0.
    fn pairs(&self) -> [(&[f64], &[f64]); 3] {
        [(&self.x, &self.u), (&self.s, &self.y), (&self.left, &self.p)]
    }
}

/// `(length to the boundary)`, 1 at most.
fn length(values: &[f64], step: &[f64]) -> f64 {
    values.iter().zip(step).filter(|t| *t.1 < 0.0).map(|(v, d)| -v / d).fold(1.0, f64::min)
}

impl Program<'_> {
    fn users(&self) -> usize {
        self.scaled.users()
    }

    fn per_user(&self) -> usize {
        self.rows.len() / self.users()
    }

    /// Where the amounts of a row's relay begin.
    fn relay_at(&self, row: &Row) -> usize {
        (self.users() + row.relay as usize) * self.scaled.k
    }

    /// Whether an amount may be positive: a user is given nothing that it has no use for.
    fn is_open(&self, at: usize) -> bool {
        at >= self.scaled.w.len() || self.scaled.w[at] > 0.0
    }

    fn products(&self) -> f64 {
        ((self.users() + self.relays.len() + 1) * self.scaled.k + self.rows.len()) as f64
    }

    fn mu(&self, point: &Point) -> f64 {
        let sum: f64 = point.pairs().iter().map(|(a, b)| a.iter().zip(*b).map(|(a, b)| a * b).sum::<f64>()).sum();
        sum / self.products()
    }

    /// About how far the duals are from a proof, the objective being about 1.
    fn merit(&self, point: &Point, residuals: &Residuals) -> f64 {
        let wrong = residuals.x.iter().fold(0.0, |a: f64, r| a.max(r.abs()));
        self.products() * self.mu(point) + self.users() as f64 * wrong
    }

    /// One step of Mehrotra's predictor and corrector; none where the numbers are bad.
    fn next(&self, point: &Point, residuals: &Residuals) -> Option<Point> {
        let system = System::new(self, point)?;
        let mu = self.mu(point);
        let predicted = system.step(self, point, residuals, &self.aims(point, 0.0, None));
        let (primal, dual) = self.lengths(point, &predicted);
        let mut ahead = point.clone();
        ahead.advance(&predicted, primal, dual);
        let reach = (self.mu(&ahead) / mu).clamp(0.0, 1.0);
        let step = system.step(self, point, residuals, &self.aims(point, mu * reach.powi(3), Some(&predicted)));
        let (primal, dual) = self.lengths(point, &step);
        let mut next = point.clone();
        next.advance(&step, STEP * primal, STEP * dual);
        (primal.max(dual) > LEAST_STEP && self.mu(&next).is_finite()).then_some(next)
    }

    /// The incumbent mixed with an equal division; duals about as large as they will be.
    fn start(&self, menu: &[f64], holds: &[u32]) -> Point {
        let (n, k) = (self.users(), self.scaled.k);
        let all = holds.iter().chain(&self.relays.holds);
        let mut x: Vec<f64> = all.flat_map(|&b| menu[b as usize * k..][..k].iter().map(|z| 0.5 + 0.5 * z)).collect();
        let mut u = vec![0.0; x.len()];
        for (at, (x, u)) in x.iter_mut().zip(&mut u).enumerate() {
            let weight = if at / k < n { self.scaled.weight[at / k] } else { 1.0 / self.relays.len() as f64 };
            if self.is_open(at) { *u = 0.3 * weight } else { *x = 0.0 }
        }
        let y = self.rows.iter().map(|row| 0.3 * self.scaled.weight[row.user as usize]).collect();
        let mut p = vec![0.0; k];
        for l in 0..n {
            let rates = self.scaled.rates(l).iter().zip(&mut p);
            rates.for_each(|(w, p)| *p += self.scaled.weight[l] * w);
        }
        Point { x, u, s: vec![0.3; self.rows.len()], y, left: vec![0.01; k], p }
    }

    /// `σ a·(z_l − ζ_h)`.
    fn across(&self, row: &Row, x: &[f64]) -> f64 {
        let k = self.scaled.k;
        let (own, other) = (&x[row.user as usize * k..][..k], &x[self.relay_at(row)..][..k]);
        let gap: f64 = self.relays.vector(row).iter().zip(own.iter().zip(other)).map(|(a, (z, t))| a * (z - t)).sum();
        if row.pays { gap } else { -gap }
    }

    /// `out_l −= Σ σ y a`, `out_h += Σ σ y a`.
    fn gather(&self, y: &[f64], out: &mut [f64]) {
        let k = self.scaled.k;
        for (row, y) in self.rows.iter().zip(y) {
            let (at, relay) = (row.user as usize * k, self.relay_at(row));
            let y = if row.pays { *y } else { -y };
            for (j, a) in self.relays.vector(row).iter().enumerate() {
                out[at + j] -= y * a;
                out[relay + j] += y * a;
            }
        }
    }

    /// `Σ_l π_l z_l`.
    fn used(&self, x: &[f64]) -> Vec<f64> {
        let k = self.scaled.k;
        let mut used = vec![0.0; k];
        for (z, weight) in x.chunks_exact(k).zip(&self.scaled.weight) {
            used.iter_mut().zip(z).for_each(|(used, z)| *used += weight * z);
        }
        used
    }

    fn residuals(&self, point: &Point) -> Residuals {
        let k = self.scaled.k;
        let mut due = vec![0.0; point.x.len()];
        for (at, w) in self.scaled.w.iter().enumerate() {
            due[at] = self.scaled.weight[at / k] * (point.p[at % k] - w);
        }
        self.gather(&point.y, &mut due);
        let open = |at: usize, r: f64| if self.is_open(at) { r } else { 0.0 };
        Residuals {
            x: point.u.iter().zip(&due).enumerate().map(|(at, (u, due))| open(at, u - due)).collect(),
            s: self.rows.iter().zip(&point.s).map(|(row, s)| s - self.across(row, &point.x)).collect(),
            left: point.left.iter().zip(self.used(&point.x)).map(|(s, used)| s - 1.0 + used).collect(),
        }
    }

    /// What the products are to become, less what they are; `second` are the steps whose product is left out by Newton.
    fn aims(&self, point: &Point, target: f64, second: Option<&Point>) -> [Vec<f64>; 3] {
        let steps = second.map(Point::pairs);
        std::array::from_fn(|kind| {
            let (a, b) = point.pairs()[kind];
            let product = |at: usize| steps.map_or(0.0, |s| s[kind].0[at] * s[kind].1[at]);
            (0..a.len()).map(|at| target - a[at] * b[at] - product(at)).collect()
        })
    }

    /// How far primal and dual may go.
    fn lengths(&self, point: &Point, step: &Point) -> (f64, f64) {
        let primal = length(&point.x, &step.x).min(length(&point.s, &step.s)).min(length(&point.left, &step.left));
        (primal, length(&point.u, &step.u).min(length(&point.y, &step.y)).min(length(&point.p, &step.p)))
    }

    /// Who pays how much into which relay, and what part of it goes to whom. Payments are in units of the user's rates.
    fn read(&self, point: &Point) -> Duals {
        let k = self.scaled.k;
        let mut through = vec![Relay::default(); self.relays.len()];
        for (row, &y) in self.rows.iter().zip(&point.y) {
            let relay = &mut through[row.relay as usize];
            if row.pays {
                let sum: f64 = self.scaled.w[row.user as usize * k..][..k].iter().sum();
                relay.paid.push((row.user, y / sum));
            } else {
                relay.share.push((row.user, y));
            }
        }
        for relay in &mut through {
            let total: f64 = relay.share.iter().map(|t| t.1).sum();
            relay.share.iter_mut().for_each(|t| t.1 /= total);
        }
        through.retain(|relay| !relay.paid.is_empty() && !relay.share.is_empty());
        Duals { prices: point.p.clone(), envy: Vec::new(), through }
    }
}

/// Newton's system at a point, factored.
struct System {
    /// Per user, the inverse of its block.
    inverse: Vec<f64>,
    relays: Cholesky,
    prices: Cholesky,
    /// Prices × relays' amounts: what is between them.
    between: Vec<f64>,
    /// The relays' inverse applied to that, price by price.
    carried: Vec<Vec<f64>>,
}

impl System {
    fn new(program: &Program<'_>, point: &Point) -> Option<Self> {
        let (n, k) = (program.users(), program.scaled.k);
        let size = program.relays.len() * k;
        let mut relays = vec![0.0; size * size];
        let mut prices = vec![0.0; k * k];
        let mut between = vec![0.0; k * size];
        let mut inverse = Vec::with_capacity(n * k * k);
        for (at, (x, u)) in point.x[n * k..].iter().zip(&point.u[n * k..]).enumerate() {
            relays[at * size + at] = u / x;
        }
        for l in 0..n {
            let block = UserBlock::new(program, point, l)?;
            block.eliminate(program, l, &mut relays, &mut between, &mut prices);
            inverse.extend(block.inverse);
        }
        for j in 0..k {
            prices[j * k + j] += point.left[j] / point.p[j];
        }
        let relays = Cholesky::new(size, &relays)?;
        let carried: Vec<Vec<f64>> = between.chunks_exact(size).map(|row| relays.solve(row.to_vec())).collect();
        for (j, row) in between.chunks_exact(size).enumerate() {
            for (i, carried) in carried.iter().enumerate() {
                prices[j * k + i] += row.iter().zip(carried).map(|(a, b)| a * b).sum::<f64>();
            }
        }
        Some(Self { inverse, relays, prices: Cholesky::new(k, &prices)?, between, carried })
    }

    /// The step for given aims of the products.
    fn step(&self, program: &Program<'_>, point: &Point, residuals: &Residuals, aims: &[Vec<f64>; 3]) -> Point {
        let (n, k) = (program.users(), program.scaled.k);
        let weight = &program.scaled.weight;
        let rows = residuals.s.iter().zip(&aims[1]).zip(point.s.iter().zip(&point.y));
        let e: Vec<f64> = rows.map(|((r, aim), (s, y))| (aim + y * r) / s).collect();
        let mut f = vec![0.0; point.x.len()];
        program.gather(&e, &mut f);
        for (at, f) in f.iter_mut().enumerate() {
            let own = if program.is_open(at) { residuals.x[at] + aims[0][at] / point.x[at] } else { 0.0 };
            *f = own - *f;
        }
        let mut g: Vec<f64> = (0..k).map(|j| -(aims[2][j] / point.p[j] + residuals.left[j])).collect();
        // Users out: what is left for the relays, and for the prices.
        let mut x = f.clone();
        self.by_users(program, &mut x);
        let used = program.used(&x);
        let mut relays = f[n * k..].to_vec();
        program.pull(point, &x, &mut relays);
        for (g, used) in g.iter_mut().zip(&used) {
            *g = used - *g;
        }
        for (j, row) in self.carried.iter().enumerate() {
            g[j] += row.iter().zip(&relays).map(|(a, b)| a * b).sum::<f64>();
        }
        let dp = self.prices.solve(g);
        for (row, dp) in self.between.chunks_exact(n_relays(program)).zip(&dp) {
            relays.iter_mut().zip(row).for_each(|(r, b)| *r -= b * dp);
        }
        let relays = self.relays.solve(relays);
        program.push(point, &relays, &mut f);
        for (at, f) in f[..n * k].iter_mut().enumerate() {
            *f -= weight[at / k] * dp[at % k];
        }
        self.by_users(program, &mut f);
        f[n * k..].copy_from_slice(&relays);
        program.complete(point, residuals, aims, f, dp)
    }

    /// Every user's part, times the inverse of its block.
    fn by_users(&self, program: &Program<'_>, x: &mut [f64]) {
        let k = program.scaled.k;
        let mut old = vec![0.0; k];
        for (x, inverse) in x.chunks_exact_mut(k).zip(self.inverse.chunks_exact(k * k)) {
            old.copy_from_slice(x);
            for (x, row) in x.iter_mut().zip(inverse.chunks_exact(k)) {
                *x = row.iter().zip(&old).map(|(a, b)| a * b).sum();
            }
        }
    }
}

fn n_relays(program: &Program<'_>) -> usize {
    program.relays.len() * program.scaled.k
}

impl Program<'_> {
    /// `relays += Σ ω a a·z_l`.
    fn pull(&self, point: &Point, x: &[f64], relays: &mut [f64]) {
        let k = self.scaled.k;
        for (at, row) in self.rows.iter().enumerate() {
            let a = self.relays.vector(row);
            let z = &x[row.user as usize * k..][..k];
            let factor = point.y[at] / point.s[at] * a.iter().zip(z).map(|(a, z)| a * z).sum::<f64>();
            let to = &mut relays[row.relay as usize * k..][..k];
            to.iter_mut().zip(a).for_each(|(to, a)| *to += factor * a);
        }
    }

    /// `f_l += Σ ω a a·ζ_h`.
    fn push(&self, point: &Point, relays: &[f64], f: &mut [f64]) {
        let k = self.scaled.k;
        for (at, row) in self.rows.iter().enumerate() {
            let a = self.relays.vector(row);
            let from = &relays[row.relay as usize * k..][..k];
            let factor = point.y[at] / point.s[at] * a.iter().zip(from).map(|(a, z)| a * z).sum::<f64>();
            let to = &mut f[row.user as usize * k..][..k];
            to.iter_mut().zip(a).for_each(|(to, a)| *to += factor * a);
        }
    }

    /// The steps of slacks and duals that follow from those of amounts and prices.
    fn complete(&self, point: &Point, residuals: &Residuals, aims: &[Vec<f64>; 3], x: Vec<f64>, p: Vec<f64>) -> Point {
        let rows = self.rows.iter().zip(&residuals.s);
        let s: Vec<f64> = rows.map(|(row, r)| self.across(row, &x) - r).collect();
        let left: Vec<f64> = residuals.left.iter().zip(self.used(&x)).map(|(r, used)| -r - used).collect();
        let other = |a: &[f64], b: &[f64], aim: &[f64], step: &[f64]| -> Vec<f64> {
            let product = |at: usize| if a[at] > 0.0 { (aim[at] - b[at] * step[at]) / a[at] } else { 0.0 };
            (0..a.len()).map(product).collect()
        };
        let u = other(&point.x, &point.u, &aims[0], &x);
        let y = other(&point.s, &point.y, &aims[1], &s);
        Point { x, u, s, y, left, p }
    }
}

/// A user's part of the system.
struct UserBlock {
    inverse: Vec<f64>,
    /// Per row `ω a`, with the block's inverse applied to `a` as far as the user has a use for it.
    weighted: Vec<f64>,
    carried: Vec<f64>,
}

impl UserBlock {
    fn new(program: &Program<'_>, point: &Point, l: usize) -> Option<Self> {
        let (k, per) = (program.scaled.k, program.per_user());
        let rows = &program.rows[l * per..][..per];
        let mut block = vec![0.0; k * k];
        for j in 0..k {
            let at = l * k + j;
            block[j * k + j] = if program.is_open(at) { point.u[at] / point.x[at] } else { 1.0 };
        }
        let open = |j: usize| program.is_open(l * k + j);
        let mut weighted = Vec::with_capacity(per * k);
        for (at, row) in rows.iter().enumerate() {
            let a = program.relays.vector(row);
            let omega = point.y[l * per + at] / point.s[l * per + at];
            weighted.extend(a.iter().map(|a| omega * a));
            for j in (0..k).filter(|&j| open(j)) {
                for i in (0..k).filter(|&i| open(i)) {
                    block[j * k + i] += omega * a[j] * a[i];
                }
            }
        }
        let mut inverse = Cholesky::new(k, &block)?.inverse();
        for j in (0..k).filter(|&j| !open(j)) {
            inverse[j * k + j] = 0.0;
        }
        let mut carried = Vec::with_capacity(per * k);
        for row in rows {
            let a = program.relays.vector(row);
            carried
                .extend(inverse.chunks_exact(k).map(|inverse| inverse.iter().zip(a).map(|(x, a)| x * a).sum::<f64>()));
        }
        Some(Self { inverse, weighted, carried })
    }

    /// Adds what is left of the user's equations to those of its relays and of the prices.
    fn eliminate(&self, program: &Program<'_>, l: usize, relays: &mut [f64], between: &mut [f64], prices: &mut [f64]) {
        let (k, per) = (program.scaled.k, program.per_user());
        let size = n_relays(program);
        let weight = program.scaled.weight[l];
        let rows = &program.rows[l * per..][..per];
        for (at, row) in rows.iter().enumerate() {
            let (a, weighted) = (program.relays.vector(row), &self.weighted[at * k..][..k]);
            let carried = &self.carried[at * k..][..k];
            let place = row.relay as usize * k;
            add(relays, size, 1.0, (place, weighted), (place, a));
            for (other, to) in rows.iter().enumerate().filter(|t| t.1.relay <= row.relay) {
                let through = &self.weighted[other * k..][..k];
                let passed: f64 = carried.iter().zip(program.relays.vector(to)).map(|(c, a)| c * a).sum();
                add(relays, size, -passed, (place, weighted), (to.relay as usize * k, through));
            }
            for (j, carried) in carried.iter().enumerate() {
                let to = &mut between[j * size + place..][..k];
                to.iter_mut().zip(weighted).for_each(|(to, w)| *to += weight * carried * w);
            }
        }
        prices.iter_mut().zip(&self.inverse).for_each(|(p, inverse)| *p += weight * weight * inverse);
    }
}

/// Adds the product of a column and a row, times a factor, at their places.
fn add(matrix: &mut [f64], size: usize, factor: f64, column: (usize, &[f64]), row: (usize, &[f64])) {
    for (i, c) in column.1.iter().enumerate() {
        let (c, to) = (factor * c, &mut matrix[(column.0 + i) * size + row.0..][..row.1.len()]);
        to.iter_mut().zip(row.1).for_each(|(to, r)| *to += c * r);
    }
}
