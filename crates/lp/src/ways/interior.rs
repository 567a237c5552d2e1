//! The interior point behind both programs over ways: `O(n (A + g²))` per iteration for `n` users, `A` ways and `g` goods.
//!
//! # The programs, their pairs, their path
//!
//! Goods are the resources and the limits; `G_a` is what way `a` takes of each: one unit of its resource, and its draw of every limit above that. With
//! slacks `v` of the floors, `c` of the caps and `s` of the goods:
//!
//! ```text
//! minimise Σ κ x   (or maximise Σ π log v, with f = 0)      pairs, with products to become
//! w_l·x_l − v_l = f_l              λ_l                      (x, r)  0       r_la = κ_la + G_la·q + μ_l − λ_l w_la
//! Σ_a x_la + c_l = d_l             μ_l                      (c, μ)  0       (s, q)  0
//! Σ_la G_la x_la + s = m           q                        (v, λ)  0, or π_l
//! ```
//!
//! So the market is the floors' program without floors whose last pair is to have the product `π` instead of 0. Products of user `l` go to 0 in
//! proportion to its `weight`, those of goods in proportion to the sum of weights. The start is feasible on the dual side and stays so; the primal rows are
//! asked of the new values, so whatever is missing shrinks with every step.
//!
//! # One Newton step
//!
//! A pair with target ξ moves by `dx = ξ/r − x − θ dr`, `θ = x/r` (the corrector takes `dx·dr` of the predictor off ξ, and where its step is short a
//! second one moves the ξ of products that lie far from all others: Gondzio's). A user's cap is a good of its own,
//! of price `μ`; with it among the goods, `V = Σ θw² + θ_v`, `ψ = Σ θ w G`, `a = f + ξ_v/λ − Σ w ξ/r`:
//!
//! ```text
//! dλ = (a + ψ·dq)/V         N dq = A        N = Σ_l (Σ_a θ G Gᵀ − ψψᵀ/V) + diag(s/q)        A = Σ_l (Σ_a G ξ/r + ψ a/V) + ξ_s/q − m
//! ```
//!
//! Near the optimum most users use one way `b` only, `θ_b` is many decades above everything else, and what is left of that difference is lost. With
//! `h_a = G_a − (w_a/w_b) G_b`, which has a handful of entries and is 0 for `b`, and `ψ' = Σ θ w h`, `S = Σ θw²`, the same is
//!
//! ```text
//! Σ_a θ h hᵀ − ψ'ψ'ᵀ/V + (θ_v/V) ((ψ' G_bᵀ + G_b ψ'ᵀ)/w_b + G_b G_bᵀ S/w_b²)
//! ```
//!
//! in which nothing large is subtracted. For the same reason `b`'s own step comes from the user's row, not from `θ_b dr`.

use super::normal::{Normal, Take};
use super::{Limit, Ways};
use crate::cholesky::Cholesky;

/// The largest fraction of the step to the boundary that is taken, for the market and for floors.
const SHARES: [f64; 2] = [0.995, 0.9];
/// A corrector with a shorter step is corrected once more: products that would come to lie outside of this range around their aim, after a step that is longer by
/// this much, are brought back into it.
const LONG: f64 = 0.9;
const RANGE: [f64; 2] = [0.1, 10.0];
const FURTHER: f64 = 0.3;
/// A shorter step is a stall.
const LEAST_STEP: f64 = 1e-8;
/// A corrector with a shorter step, or one that goes the wrong way, is computed again, without the second-order term...
const SHORT: f64 = 0.1;
/// ...aimed at this fraction of the gap: a centring step.
const HUMBLE: f64 = 0.5;
/// In the market a product `v λ` stays within this factor of its π.
const NEAR: f64 = 4.0;
/// Ways of a user that are kept when the gap has come down to this part.
const KEPT: usize = 8;
const NARROW: f64 = 0.01;
/// Users per good from which on ways are dropped.
const CROWD: usize = 4;
/// Relative to what a row asks for: less may be missing at the end.
const MISSING: f64 = 1e-10;

/// What is asked of users.
#[derive(Clone, Copy)]
pub(super) enum Aim<'a> {
    /// Largest `Σ π log u`.
    Market,
    /// Least draw with these utilities.
    Floors(&'a [f64]),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct User {
    weight: f64,
    floor: f64,
    /// d, infinite for none.
    pub(super) cap: f64,
    /// What rates were divided by.
    unit: f64,
    v: f64,
    lambda: f64,
    pub(super) c: f64,
    pub(super) mu: f64,
    dv: f64,
    d_lambda: f64,
    dc: f64,
    d_mu: f64,
    bend_v: f64,
    bend_c: f64,
    /// θ_v, 1/V, and a.
    pub(super) theta_v: f64,
    pub(super) inverse_big_v: f64,
    a: f64,
    /// N and A of its own good, the cap.
    pub(super) n_cap: f64,
    a_cap: f64,
    /// The way with the largest θw².
    pub(super) pivot: usize,
}

/// One way of one user. Absent where w = 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) w: f64,
    pub(super) p: f64,
    x: f64,
    r: f64,
    dx: f64,
    dr: f64,
    /// 1/r, or 0 where the way is absent: divided once, asked for five times in an iteration.
    inverse_r: f64,
    /// What is added to the product that the pair is to have.
    bend: f64,
}

impl Cell {
    pub(super) fn theta(&self) -> f64 {
        self.x * self.inverse_r
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Good {
    most: f64,
    s: f64,
    q: f64,
    ds: f64,
    dq: f64,
    bend: f64,
}

/// Prices of goods that are near those of the optimum, in the problem's units.
pub(super) struct Near<'a> {
    /// What a unit of draw costs by itself.
    pub(super) draw: f64,
    /// By resource; a unit of draw on it, its limits together.
    pub(super) prices: &'a [f64],
    pub(super) draw_prices: Vec<f64>,
    /// By user: of its cap.
    pub(super) rents: &'a [f64],
}

impl Near<'_> {
    /// What a way costs a user for what it gives.
    fn dear(&self, problem: &Ways<'_>, l: usize, a: usize) -> f64 {
        let (at, j) = (l * problem.ways() + a, problem.resource[a]);
        let (w, p) = (problem.w[at], problem.draw[at]);
        if w > 0.0 {
            (self.prices[j] + p * (self.draw + self.draw_prices[j]) + self.rents[l]) / w
        } else {
            f64::INFINITY
        }
    }
}

/// Keeps the least dear ways, in their order.
fn keep(order: &mut Vec<u32>, dear: impl Fn(u32) -> f64) {
    order.select_nth_unstable_by(KEPT - 1, |&a, &b| dear(a).total_cmp(&dear(b)).then(a.cmp(&b)));
    order.truncate(KEPT);
    order.sort_unstable();
}

/// An iterate, and memory for its steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Iterate {
    market: bool,
    /// Ways that take part; the good of the resource of each, and the limits above it.
    ways: Vec<usize>,
    resource: Vec<usize>,
    above: Vec<Vec<usize>>,
    /// Cells of a user, and the way of each, by its place in `ways`: all of them at first.
    stride: usize,
    way_of: Vec<u32>,
    /// The limit above all ways, where there is no other, or none at all.
    plain: Option<Option<usize>>,
    users: Vec<User>,
    cells: Vec<Cell>,
    goods: Vec<Good>,
    /// Users × goods: N between a user's cap and the goods.
    cap_rows: Vec<f64>,
    /// Σ weight, and what costs were divided by.
    total: f64,
    cost_unit: f64,
    cost_per_draw: f64,
}

impl User {
    /// Sets every θ, `θ_v`, `1/V` and the pivot; returns S.
    fn weigh(&mut self, cells: &mut [Cell]) -> f64 {
        let (mut s, mut largest) = (0.0, -1.0);
        for (a, cell) in cells.iter_mut().enumerate() {
            cell.inverse_r = if cell.w > 0.0 { 1.0 / cell.r } else { 0.0 };
            let size = cell.theta() * cell.w * cell.w;
            s += size;
            if size > largest {
                (largest, self.pivot) = (size, a);
            }
        }
        self.theta_v = self.v / self.lambda;
        self.inverse_big_v = 1.0 / (s + self.theta_v);
        s
    }

    /// The step of the pivot: what the steps of the others leave for it of the user's row.
    fn pivot_step(&self, pivot: &mut Cell, rest: f64, aim: f64) {
        pivot.dx = rest / pivot.w - pivot.x;
        pivot.dr = ((aim + pivot.bend) * pivot.inverse_r - pivot.x - pivot.dx) / pivot.theta();
    }
}

impl Iterate {
    /// A start with every dual row kept; with prices of goods that are near the optimum's, only over the ways that cost least for what they give at those.
    pub(super) fn start(&mut self, problem: &Ways<'_>, limits: &[Limit], aim: Aim<'_>, near: Option<&Near<'_>>) {
        *self = Self { market: matches!(aim, Aim::Market), ..Self::default() };
        let here: Vec<usize> = (0..problem.capacity.len()).filter(|&j| problem.capacity[j] > 0.0).collect();
        let good_of = |j: usize| here.binary_search(&j).ok();
        self.goods.extend(here.iter().map(|&j| Good { most: problem.capacity[j], ..Good::default() }));
        self.goods.extend(limits.iter().map(|limit| Good { most: limit.most, ..Good::default() }));
        for (a, &j) in problem.resource.iter().enumerate() {
            let Some(good) = good_of(j) else { continue };
            let above = limits.iter().enumerate().filter(|(_, limit)| limit.resources.contains(&j));
            self.ways.push(a);
            self.resource.push(good);
            self.above.push(above.map(|(t, _)| here.len() + t).collect());
        }
        self.plain = match &self.above[..] {
            [first, rest @ ..] if first.len() < 2 && rest.iter().all(|t| t == first) => Some(first.first().copied()),
            _ => None,
        };
        let positive = problem.draw.iter().copied().filter(|p| *p > 0.0);
        let (sum, count) = positive.fold((0.0, 0.0), |(sum, count), p| (sum + p, count + 1.0));
        self.cost_unit = if self.market || count == 0.0 { 1.0 } else { sum / count };
        self.cost_per_draw = if self.market { 0.0 } else { 1.0 / self.cost_unit };
        self.stride = self.ways.len();
        let near = near.filter(|_| self.stride > KEPT && problem.users() >= CROWD * self.goods.len());
        if near.is_some() {
            self.stride = KEPT;
        }
        let mut order: Vec<u32> = Vec::with_capacity(self.ways.len());
        for l in 0..problem.users() {
            order.clear();
            order.extend(0..self.ways.len() as u32);
            if let Some(near) = near {
                let dear: Vec<f64> = self.ways.iter().map(|&a| near.dear(problem, l, a)).collect();
                keep(&mut order, |at| dear[at as usize]);
            }
            self.add_user(problem, l, aim, &order);
            self.way_of.extend(&order);
        }
        self.total = self.users.iter().map(|user| user.weight).sum();
        self.cap_rows = vec![0.0; self.users.len() * self.goods.len()];
        match aim {
            Aim::Market => {
                self.divide();
                self.price();
            }
            Aim::Floors(_) => self.centre(),
        }
    }

    /// For floors: duals of the size of the costs, and whatever makes every product the same part of its weight. The rows do not hold yet.
    fn centre(&mut self) {
        let (ways, resources) = (self.stride, self.resource.iter().max().map_or(0, |j| j + 1));
        for (j, good) in self.goods.iter_mut().enumerate() {
            good.q = if j < resources { 1.0 } else { 0.1 / self.cost_unit };
        }
        let prices: Vec<f64> = self.goods.iter().map(|good| good.q).collect();
        let mut per_floor = 0.0;
        let way_of = self.way_of.chunks_exact(ways);
        for ((user, cells), way_of) in self.users.iter_mut().zip(self.cells.chunks_exact_mut(ways)).zip(way_of) {
            user.mu = if user.cap.is_finite() { 0.1 } else { 0.0 };
            user.lambda = f64::INFINITY;
            for (cell, &a) in cells.iter_mut().zip(way_of).filter(|(cell, _)| cell.w > 0.0) {
                let take = Take { resource: self.resource[a as usize], limits: &self.above[a as usize], p: cell.p };
                cell.r = self.cost_per_draw * cell.p + take.at(&prices) + user.mu;
                user.lambda = user.lambda.min(0.5 * cell.r / cell.w);
            }
            for cell in cells.iter_mut().filter(|cell| cell.w > 0.0) {
                cell.r -= user.lambda * cell.w;
                per_floor += user.weight * cell.w / cell.r;
            }
        }
        let tau = self.total / per_floor;
        for (user, cells) in self.users.iter_mut().zip(self.cells.chunks_exact_mut(ways)) {
            cells.iter_mut().filter(|cell| cell.w > 0.0).for_each(|cell| cell.x = tau * user.weight / cell.r);
            user.v = tau * user.weight / user.lambda;
            user.c = if user.cap.is_finite() { tau * user.weight / user.mu } else { user.cap };
        }
        for good in &mut self.goods {
            good.s = tau * self.total / good.q;
        }
    }

    /// A user with these of the ways.
    fn add_user(&mut self, problem: &Ways<'_>, l: usize, aim: Aim<'_>, of: &[u32]) {
        let from = l * problem.ways();
        let unit = self.ways.iter().map(|&a| problem.w[from + a]).fold(0.0, f64::max);
        let floor = if let Aim::Floors(floors) = aim { floors[l] / unit } else { 0.0 };
        let weight = if self.market { problem.weight[l] } else { floor };
        self.users.push(User { weight, floor, cap: problem.caps[l], unit, ..User::default() });
        for a in of.iter().map(|&at| self.ways[at as usize]) {
            let (w, p) = (problem.w[from + a] / unit, problem.draw[from + a]);
            self.cells.push(if w > 0.0 { Cell { w, p, ..Cell::default() } } else { Cell::default() });
        }
    }

    /// For the market: half of every resource by weight, over its ways; less where a cap or a limit wants it.
    fn divide(&mut self) {
        let ways = self.stride;
        let mut used = vec![0.0; self.goods.len()];
        let mut choices = vec![0.0; self.goods.len()];
        let way_of = self.way_of.chunks_exact(ways);
        for ((user, cells), way_of) in self.users.iter_mut().zip(self.cells.chunks_exact_mut(ways)).zip(way_of) {
            let there = |(cell, a): (Cell, &u32)| (cell.w > 0.0).then_some(*a as usize);
            choices.fill(0.0);
            cells.iter().copied().zip(way_of).filter_map(there).for_each(|a| choices[self.resource[a]] += 1.0);
            let all: f64 = choices.iter().sum();
            for (cell, &a) in cells.iter_mut().zip(way_of).filter(|(cell, _)| cell.w > 0.0) {
                let a = a as usize;
                let good = self.resource[a];
                let part = 0.5 * user.weight / self.total * self.goods[good].most / choices[good];
                cell.x = part.min(0.5 * user.cap / all);
                used[good] += cell.x;
                self.above[a].iter().for_each(|&t| used[t] += cell.p * cell.x);
            }
        }
        let over = self.goods.iter().zip(&used).map(|(good, used)| used / (0.5 * good.most)).fold(1.0, f64::max);
        self.cells.iter_mut().for_each(|cell| cell.x /= over);
        for (good, used) in self.goods.iter_mut().zip(used) {
            good.s = good.most - used / over;
        }
        for (user, cells) in self.users.iter_mut().zip(self.cells.chunks_exact(ways)) {
            let reached: f64 = cells.iter().map(|cell| cell.w * cell.x).sum();
            user.v = reached;
            user.c = user.cap - cells.iter().map(|cell| cell.x).sum::<f64>();
        }
    }

    /// Duals for which every `r` is positive.
    fn price(&mut self) {
        let ways = self.stride;
        let goods = self.goods.len();
        for good in &mut self.goods {
            good.q = self.total / (good.most * goods as f64);
        }
        let way_of = self.way_of.chunks_exact(ways);
        for ((user, cells), way_of) in self.users.iter_mut().zip(self.cells.chunks_exact(ways)).zip(way_of) {
            user.lambda = user.weight / user.v;
            user.mu = if user.cap.is_finite() { user.weight / user.c } else { 0.0 };
            for (cell, &a) in cells.iter().zip(way_of).filter(|(cell, _)| cell.w > 0.0) {
                let asked = 1.5 * (user.lambda * cell.w - user.mu - self.cost_per_draw * cell.p);
                let q = &mut self.goods[self.resource[a as usize]].q;
                *q = q.max(asked);
            }
        }
        let prices: Vec<f64> = self.goods.iter().map(|good| good.q).collect();
        let way_of = self.way_of.chunks_exact(ways);
        for ((user, cells), way_of) in self.users.iter().zip(self.cells.chunks_exact_mut(ways)).zip(way_of) {
            for (cell, &a) in cells.iter_mut().zip(way_of).filter(|(cell, _)| cell.w > 0.0) {
                let take = Take { resource: self.resource[a as usize], limits: &self.above[a as usize], p: cell.p };
                cell.r = self.cost_per_draw * cell.p + take.at(&prices) + user.mu - user.lambda * cell.w;
            }
        }
    }

    /// Iterates until the gap is at most `tolerance`, relative to Σπ or to the draw, and no row misses anything; or nothing moves, or the iterations are
    /// spent. Returns how many were taken.
    ///
    /// With `focus`, most ways of a user are dropped once it is plain that it will not use them (see [`Self::focus`]).
    pub(super) fn run(&mut self, iterations: u32, tolerance: f64, focus: bool) -> u32 {
        let mut pairs = self.pair_weight();
        for iteration in 0..iterations {
            let mut gap = self.gap_after([0.0, 0.0]);
            if focus && self.may_focus() && gap <= NARROW * self.scale() {
                self.focus();
                (pairs, gap) = (self.pair_weight(), self.gap_after([0.0, 0.0]));
            }
            // Too much was dropped: the rest of the iterations is for all ways.
            if self.is_focused() && iteration > iterations / 2 {
                return iteration;
            }
            if gap <= tolerance * self.scale() && self.missing() <= MISSING {
                return iteration;
            }
            let Some(system) = Cholesky::new(self.goods.len(), &self.weigh()) else { return iteration };
            self.unbend();
            self.move_towards(&system, 0.0);
            let shrink = (self.gap_after(self.reach()) / gap).clamp(1e-3, 1.0);
            let tau = shrink.powi(3) * gap / pairs;
            self.bend();
            let mut step = self.move_towards(&system, tau);
            if !self.market && step[0].min(step[1]) < LONG {
                self.recentre(step, tau);
                step = self.move_towards(&system, tau);
            }
            // In the market the second-order term can overshoot, there and back, for ever: a step that widens the gap is none.
            if step[0].min(step[1]) < SHORT || (self.market && self.gap_after(step) > gap) {
                self.unbend();
                step = self.move_towards(&system, HUMBLE * gap / pairs);
            }
            let longest = step[0].max(step[1]);
            if longest.is_nan() || longest <= LEAST_STEP {
                return iteration;
            }
            self.advance(step);
        }
        iterations
    }

    /// Whether there are ways to drop, and so many users that few of them can be on many resources at once.
    fn may_focus(&self) -> bool {
        !self.is_focused() && self.stride > KEPT && self.users.len() >= CROWD * self.goods.len()
    }

    /// Whether ways were dropped.
    pub(super) fn is_focused(&self) -> bool {
        self.stride < self.ways.len()
    }

    /// Keeps of every user the few ways that cost it least for what they give, at the present prices. What the others gave is missing now,
    /// and is made up for like everything that is missing. A user ends with one way or two, so nearly all of an iteration went into ways that come to
    /// nothing; that it was the right ones that went is for the certificate to say, which looks at all.
    fn focus(&mut self) {
        let old = self.stride;
        let (mut cells, mut way_of) = (Vec::new(), Vec::new());
        let mut order: Vec<u32> = Vec::with_capacity(old);
        for (own, ways) in self.cells.chunks_exact(old).zip(self.way_of.chunks_exact(old)) {
            let dear = |at: u32| {
                let cell = &own[at as usize];
                if cell.w > 0.0 { cell.r / cell.w } else { f64::INFINITY }
            };
            order.clear();
            order.extend(0..old as u32);
            keep(&mut order, dear);
            cells.extend(order.iter().map(|&at| Cell { dx: 0.0, dr: 0.0, ..own[at as usize] }));
            way_of.extend(order.iter().map(|&at| ways[at as usize]));
        }
        (self.cells, self.way_of, self.stride) = (cells, way_of, KEPT);
    }

    /// What the gap is measured by.
    fn scale(&self) -> f64 {
        if self.market {
            self.total
        } else {
            self.cost_per_draw * self.cells.iter().map(|cell| cell.p * cell.x).sum::<f64>()
        }
    }

    /// Products go straight to what they are to be.
    fn unbend(&mut self) {
        self.cells.iter_mut().for_each(|cell| cell.bend = 0.0);
        self.users.iter_mut().for_each(|user| (user.bend_v, user.bend_c) = (0.0, 0.0));
        self.goods.iter_mut().for_each(|good| good.bend = 0.0);
    }

    /// Takes off what the last steps would add to products.
    fn bend(&mut self) {
        self.cells.iter_mut().for_each(|cell| cell.bend = -cell.dx * cell.dr);
        for user in &mut self.users {
            (user.bend_v, user.bend_c) = (-user.dv * user.d_lambda, -user.dc * user.d_mu);
        }
        self.goods.iter_mut().for_each(|good| good.bend = -good.ds * good.dq);
    }

    /// Brings products that would be far from all others after a somewhat longer step back among them.
    fn recentre(&mut self, step: [f64; 2], tau: f64) {
        let [s, z] = step.map(|step| (step + FURTHER).min(1.0));
        let towards = |x: f64, r: f64, weight: f64| {
            let (product, [least, most]) = (x * r, RANGE.map(|part| part * tau * weight));
            (product.clamp(least, most) - product).max(-most)
        };
        let (ways, market) = (self.stride, self.market);
        for (user, cells) in self.users.iter_mut().zip(self.cells.chunks_exact_mut(ways)) {
            for cell in cells.iter_mut().filter(|cell| cell.w > 0.0) {
                cell.bend += towards(cell.x + s * cell.dx, cell.r + z * cell.dr, user.weight);
            }
            if user.cap.is_finite() {
                user.bend_c += towards(user.c + s * user.dc, user.mu + z * user.d_mu, user.weight);
            }
            if !market {
                user.bend_v += towards(user.v + s * user.dv, user.lambda + z * user.d_lambda, user.weight);
            }
        }
        for good in &mut self.goods {
            good.bend += towards(good.s + s * good.ds, good.q + z * good.dq, self.total);
        }
    }

    /// Finds the steps towards a target; returns how far they may be taken, primal and dual.
    fn move_towards(&mut self, system: &Cholesky, tau: f64) -> [f64; 2] {
        let dq = system.solve(self.right(tau));
        self.steps(&dq, tau);
        let mut step = self.reach();
        while self.market && step[0] > LEAST_STEP && self.strays(step[0]) {
            step = step.map(|s| 0.8 * s);
        }
        step
    }

    /// Whether a step takes somebody's `v λ` too far from its π: the walls do not keep it, as it does not go to 0.
    fn strays(&self, s: f64) -> bool {
        self.users.iter().any(|user| {
            let product = (user.v + s * user.dv) * (user.lambda + s * user.d_lambda);
            product < user.weight / NEAR || product > user.weight * NEAR
        })
    }

    fn pair_weight(&self) -> f64 {
        let users = self.users.iter().zip(self.cells.chunks_exact(self.stride));
        let of_users = users.map(|(user, cells)| {
            let pairs = cells.iter().filter(|cell| cell.w > 0.0).count()
                + usize::from(user.cap.is_finite())
                + usize::from(!self.market);
            user.weight * pairs as f64
        });
        of_users.sum::<f64>() + self.total * self.goods.len() as f64
    }

    /// The gap after a primal and a dual step.
    fn gap_after(&self, [s, z]: [f64; 2]) -> f64 {
        let mut gap = 0.0;
        for cell in &self.cells {
            gap += (cell.x + s * cell.dx) * (cell.r + z * cell.dr);
        }
        for user in &self.users {
            if user.cap.is_finite() {
                gap += (user.c + s * user.dc) * (user.mu + z * user.d_mu);
            }
            if !self.market {
                gap += (user.v + s * user.dv) * (user.lambda + z * user.d_lambda);
            }
        }
        gap + self.goods.iter().map(|at| (at.s + s * at.ds) * (at.q + z * at.dq)).sum::<f64>()
    }

    /// The most that any row misses, relative to what it asks for.
    fn missing(&self) -> f64 {
        let ways = self.stride;
        let (mut used, mut missing) = (vec![0.0; self.goods.len()], 0.0);
        for ((user, cells), way_of) in
            self.users.iter().zip(self.cells.chunks_exact(ways)).zip(self.way_of.chunks_exact(ways))
        {
            let (mut reached, mut held) = (0.0, 0.0);
            for (cell, &a) in cells.iter().zip(way_of) {
                reached += cell.w * cell.x;
                held += cell.x;
                used[self.resource[a as usize]] += cell.x;
                self.above[a as usize].iter().for_each(|&t| used[t] += cell.p * cell.x);
            }
            missing = f64::max(missing, (reached - user.v - user.floor).abs() / user.floor.max(user.v));
            if user.cap.is_finite() {
                missing = f64::max(missing, (held + user.c - user.cap).abs() / user.cap);
            }
        }
        for (good, used) in self.goods.iter().zip(&used) {
            missing = f64::max(missing, (used + good.s - good.most).abs() / good.most);
        }
        missing
    }

    /// Eliminates every user; returns N.
    fn weigh(&mut self) -> Vec<f64> {
        let (ways, g) = (self.stride, self.goods.len());
        let mut normal = Normal::new(g);
        for (l, user) in self.users.iter_mut().enumerate() {
            let cells = &mut self.cells[l * ways..][..ways];
            let s = user.weigh(cells);
            let way_of = &self.way_of[l * ways..][..ways];
            let take = |at: usize| {
                let a = way_of[at] as usize;
                Take { resource: self.resource[a], limits: &self.above[a], p: cells[at].p }
            };
            match self.plain {
                Some(limit) if !user.cap.is_finite() => {
                    normal.add_plain_ways(user, cells, |at| self.resource[way_of[at] as usize], limit);
                }
                _ => normal.add_ways(user, cells, take),
            }
            normal.add_pivot(user, s, cells[user.pivot].w, take(user.pivot));
            if user.cap.is_finite() {
                normal.eliminate_cap(user);
                self.cap_rows[l * g..][..g].copy_from_slice(&normal.own[..g]);
            }
        }
        for (j, good) in self.goods.iter().enumerate() {
            normal.n[j * g + j] += good.s / good.q;
        }
        normal.n
    }

    /// A, for a target; leaves every user's own.
    fn right(&mut self, tau: f64) -> Vec<f64> {
        let (ways, g) = (self.stride, self.goods.len());
        let mut right: Vec<f64> = self.goods.iter().map(|at| (tau * self.total + at.bend) / at.q - at.most).collect();
        // What all users together take and draw, by way.
        let mut taken = vec![[0.0; 2]; self.ways.len()];
        for (l, user) in self.users.iter_mut().enumerate() {
            let cells = &self.cells[l * ways..][..ways];
            let aim = tau * user.weight;
            let value_v = (if self.market { user.weight } else { aim } + user.bend_v) / user.lambda;
            user.a = user.floor + value_v;
            for cell in cells {
                user.a -= cell.w * (aim + cell.bend) * cell.inverse_r;
            }
            let along = user.a * user.inverse_big_v;
            let mut cap = 0.0;
            for (cell, &a) in cells.iter().zip(&self.way_of[l * ways..]) {
                let [units, draw] = &mut taken[a as usize];
                let sum = (aim + cell.bend + cell.x * cell.w * along) * cell.inverse_r;
                *units += sum;
                *draw += cell.p * sum;
                cap += sum;
            }
            if user.cap.is_finite() {
                let value_c = (aim + user.bend_c) / user.mu;
                user.a_cap = cap + value_c - user.cap;
                let own = &self.cap_rows[l * g..][..g];
                right.iter_mut().zip(own).for_each(|(right, own)| *right -= own * user.a_cap / user.n_cap);
            }
        }
        for ((&j, above), [units, draw]) in self.resource.iter().zip(&self.above).zip(taken) {
            right[j] += units;
            above.iter().for_each(|&t| right[t] += draw);
        }
        right
    }

    /// All steps, given those of the prices.
    fn steps(&mut self, dq: &[f64], tau: f64) {
        let (ways, g) = (self.stride, self.goods.len());
        // By way: the step of the price of its unit, and of what is drawn with it.
        let per_draw = |above: &Vec<usize>| above.iter().map(|&t| dq[t]).sum::<f64>();
        let priced: Vec<[f64; 2]> =
            self.resource.iter().zip(&self.above).map(|(&j, above)| [dq[j], per_draw(above)]).collect();
        for (l, user) in self.users.iter_mut().enumerate() {
            let cells = &mut self.cells[l * ways..][..ways];
            let (aim, capped) = (tau * user.weight, user.cap.is_finite());
            let mut d_mu = 0.0;
            if capped {
                let own: f64 = self.cap_rows[l * g..][..g].iter().zip(dq).map(|(own, dq)| own * dq).sum();
                d_mu = (user.a_cap - own) / user.n_cap;
            }
            let mut psi_dq = 0.0;
            let way_of = &self.way_of[l * ways..];
            for (cell, &a) in cells.iter().zip(way_of) {
                let [unit, draw] = priced[a as usize];
                psi_dq += cell.theta() * cell.w * (unit + cell.p * draw + d_mu);
            }
            let d_lambda = (user.a + psi_dq) * user.inverse_big_v;
            let product = if self.market { user.weight } else { aim };
            let new_v = (product + user.bend_v) / user.lambda - user.theta_v * d_lambda;
            let mut rest = user.floor + new_v;
            for (at, (cell, &a)) in cells.iter_mut().zip(way_of).enumerate() {
                if at == user.pivot || cell.w == 0.0 {
                    continue;
                }
                let [unit, draw] = priced[a as usize];
                cell.dr = unit + cell.p * draw + d_mu - cell.w * d_lambda;
                cell.dx = (aim + cell.bend - cell.x * cell.dr) * cell.inverse_r - cell.x;
                rest -= cell.w * (cell.x + cell.dx);
            }
            user.pivot_step(&mut cells[user.pivot], rest, aim);
            (user.dv, user.d_lambda) = (new_v - user.v, d_lambda);
            if capped {
                let value = (aim + user.bend_c) / user.mu;
                user.dc = value - user.c - user.c / user.mu * d_mu;
                user.d_mu = d_mu;
            }
        }
        for (at, &dq) in self.goods.iter_mut().zip(dq) {
            let value = (tau * self.total + at.bend) / at.q;
            at.ds = value - at.s - at.s / at.q * dq;
            at.dq = dq;
        }
    }

    /// How long the primal and the dual step may be: all of it, or most of the way to the nearest wall. In the market they must be the same.
    fn reach(&self) -> [f64; 2] {
        let mut walls = [0.0, 0.0];
        // The greatest −dx/x is one over the distance of the nearest wall; few are the greatest so far, so few divide.
        let mut ask = |side: usize, value: f64, step: f64| {
            if -step > walls[side] * value {
                walls[side] = -step / value;
            }
        };
        for cell in self.cells.iter().filter(|cell| cell.w > 0.0) {
            ask(0, cell.x, cell.dx);
            ask(1, cell.r, cell.dr);
        }
        for user in &self.users {
            ask(0, user.v, user.dv);
            ask(1, user.lambda, user.d_lambda);
            if user.cap.is_finite() {
                ask(0, user.c, user.dc);
                ask(1, user.mu, user.d_mu);
            }
        }
        for at in &self.goods {
            ask(0, at.s, at.ds);
            ask(1, at.q, at.dq);
        }
        let share = SHARES[usize::from(!self.market)];
        let reach = walls.map(|wall| f64::min(1.0, share / wall));
        if self.market { [reach[0].min(reach[1]); 2] } else { reach }
    }

    fn advance(&mut self, [s, z]: [f64; 2]) {
        for cell in &mut self.cells {
            cell.x += s * cell.dx;
            cell.r += z * cell.dr;
        }
        for user in &mut self.users {
            user.v += s * user.dv;
            user.lambda += z * user.d_lambda;
            if user.cap.is_finite() {
                user.c += s * user.dc;
                user.mu += z * user.d_mu;
            }
        }
        for at in &mut self.goods {
            at.s += s * at.ds;
            at.q += z * at.dq;
        }
    }

    /// What everybody uses, users × all ways.
    pub(super) fn x(&self, all_ways: usize) -> Vec<f64> {
        let mut x = vec![0.0; self.users.len() * all_ways];
        let cells = self.cells.chunks_exact(self.stride).zip(self.way_of.chunks_exact(self.stride));
        for (row, (cells, way_of)) in x.chunks_exact_mut(all_ways).zip(cells) {
            way_of.iter().zip(cells).for_each(|(&a, cell)| row[self.ways[a as usize]] = cell.x);
        }
        x
    }

    /// Prices of resources (0 where there is none) and of limits, and the rents of caps, in the problem's units.
    pub(super) fn prices(&self, capacity: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let mut goods = self.goods.iter().map(|good| good.q * self.cost_unit);
        let resources = capacity.iter().map(|&m| if m > 0.0 { goods.next().unwrap_or(0.0) } else { 0.0 }).collect();
        let rents = self.users.iter().map(|user| user.mu * self.cost_unit).collect();
        (resources, goods.collect(), rents)
    }

    /// What one more unit of each user's floor costs.
    pub(super) fn floor_prices(&self) -> Vec<f64> {
        self.users.iter().map(|user| user.lambda * self.cost_unit / user.unit).collect()
    }
}
