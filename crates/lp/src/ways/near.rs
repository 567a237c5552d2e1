//! Floors without envy for more users than the simplex of `ways/envy.rs` can serve: near the least draw, with a bound that says how near.
//!
//! The program is that of `ways/envy.rs` without pairs and caps. Two steps: a division that keeps every row (`ways/near/incomes.rs`), which
//! comes within half a per cent of the least draw on the instances of the bench, and then duals that prove it.
//!
//! # Duals, user by user
//!
//! Nobody has much reason to be above its floor: `u_i = f_i (1 + g_i)` with `g_i` mostly 0. At given prices `r` and given `g`, all that is left
//! between users are limits of what each may hold,
//!
//! ```text
//! minimise Σ_a (p_la + r_j) x_la      w_l·x_l ≥ f_l (y_l)        κ (π_i/π_l) a_i·X_l/f_i ≤ 1 + g_i  (δ_il)       every i ≠ l
//! ```
//!
//! a program of one user, with as many rows as there are others, of which as many bind as it has resources: the dual simplex solves it in
//! microseconds ([`crate::simplex`]). Together the duals are feasible for the whole program if `load_i = Σ_l δ_il ≤ f_i θ_i = room_i` for everybody: what others would
//! save if `i` had more is no more than what that would cost. Those at the edge of many others' sight would be asked for far too much. So
//! `g_i` is a steep power of `load_i/room_i`, users are asked one after the other, each at the loads that the others have left, and what a user says moves its duals
//! by a part only, less from turn to turn (Frank and Wolfe's method, user by user). Any mean of duals of one user is as good as they are.
//! Prices are those of the first answer.
//!
//! `ways/near/proof.rs` makes a bound out of any duals, and a division that keeps every row out of any units. Neither asks where they come from.

mod incomes;
mod proof;

use super::Ways;
use crate::simplex::Simplex;
use crate::{Budget, Certificate, InputError, Status};
use incomes::Bought;
use proof::{Duals, Envy};

/// What is asked besides the problem, whose caps are not looked at.
#[derive(Clone, Copy, Debug)]
pub struct Nearly<'a> {
    /// f: everybody's floor; positive.
    pub floors: &'a [f64],
    /// κ: the part of another's units that counts; below 1.
    pub part: f64,
    /// Units, users × resources, of a division without envy in which everybody reaches its floor: whatever is found is mixed with it as far as rows need.
    pub units: &'a [f64],
    /// The relative gap that will do.
    pub gap: f64,
}

/// A use without envy, and a bound.
#[derive(Clone, PartialEq, Debug)]
pub struct Near {
    /// Use, users × ways, row by row; keeps every row to rounding.
    pub x: Vec<f64>,
    /// Bounds of the least draw; the upper one is what `x` draws.
    pub bound: Certificate,
    /// Turns over all users.
    pub turns: u32,
}

/// Turns until a gap that has not closed is left as it is.
pub const TURNS: Budget = Budget::iterations(24);
/// Pivots of one user's program.
const PIVOTS: u32 = 400;
/// A limit is broken if it is exceeded by this part.
const BROKEN: f64 = 1e-7;
/// Limits that are added at a time.
const AT_A_TIME: usize = 2;
/// g where load and room are the same, and the power of their ratio with which it grows.
const FULL: f64 = 0.05;
const STEEP: i32 = 6;

/// Looks for a division near the least draw; stops when its gap will do, or after as many turns as `budget` has iterations.
///
/// # Errors
/// When the problem makes no sense.
pub fn nearly_least_draw_without_envy(
    problem: &Ways<'_>,
    asked: &Nearly<'_>,
    budget: Budget,
) -> Result<Near, InputError> {
    problem.check(&[])?;
    let best: Vec<f64> = (0..problem.users()).flat_map(|l| problem.best_rates(l)).collect();
    let envy = Envy { problem, floors: asked.floors, part: asked.part, best: &best };
    let mut near = Near { x: Vec::new(), bound: Certificate { lower: 0.0, upper: f64::INFINITY }, turns: 0 };
    near.offer(&envy, asked.units, asked);
    let bought = Bought::new(problem, asked, &best)?;
    near.offer(&envy, &bought.units, asked);
    near.bound.lower = bought.least.min(near.bound.upper);
    let mut turns = Turns::new(problem, asked, &best, bought.prices);
    while near.bound.gap() > asked.gap && near.turns < budget.iterations {
        let units = turns.turn();
        near.turns += 1;
        near.bound.lower = near.bound.lower.max(envy.prove(turns.duals())).min(near.bound.upper);
        near.offer(&envy, &units, asked);
    }
    Ok(near)
}

impl Near {
    /// Takes what these units become when every row is kept, if that draws less.
    fn offer(&mut self, envy: &Envy<'_>, units: &[f64], asked: &Nearly<'_>) {
        let x = envy.settle(units, asked.units);
        let draw = envy.draw(&x);
        if draw < self.bound.upper {
            (self.x, self.bound.upper) = (x, draw);
        }
    }
}

/// The state of the search.
struct Turns<'a> {
    problem: &'a Ways<'a>,
    asked: &'a Nearly<'a>,
    k: usize,
    /// `κ π_i a_i/f_i`, users × resources: what a unit per weight is to `i`, in floors.
    sight: Vec<f64>,
    prices: Vec<f64>,
    /// g.
    above: Vec<f64>,
    /// Of everybody, those who limited it when it was last asked.
    limited_by: Vec<Vec<u32>>,
    /// `(i, δ_il)` of every `l`.
    limits: Vec<Vec<(u32, f64)>>,
    load: Vec<f64>,
    room: Vec<f64>,
    turns: u32,
}

/// One user's answer.
struct Own {
    units: Vec<f64>,
    /// `(i, δ)`.
    limits: Vec<(u32, f64)>,
}

impl<'a> Turns<'a> {
    fn new(problem: &'a Ways<'a>, asked: &'a Nearly<'a>, best: &[f64], prices: Vec<f64>) -> Self {
        let (n, k) = (problem.users(), problem.capacity.len());
        let sight = |(at, a): (usize, &f64)| asked.part * problem.weight[at / k] * a / asked.floors[at / k];
        let mut turns = Self {
            problem,
            asked,
            k,
            sight: best.iter().enumerate().map(sight).collect(),
            prices,
            above: vec![0.0; n],
            limited_by: vec![Vec::new(); n],
            limits: vec![Vec::new(); n],
            load: vec![0.0; n],
            room: Vec::new(),
            turns: 0,
        };
        turns.room = (0..n).map(|l| turns.room_of(l, &[])).collect();
        turns
    }

    /// Asks everybody; returns the units that they would have, users × resources.
    fn turn(&mut self) -> Vec<f64> {
        let n = self.problem.users();
        let part = 2.0 / (f64::from(self.turns) + 2.0);
        let mut units = Vec::with_capacity(n * self.k);
        for l in 0..n {
            let mut limits = std::mem::take(&mut self.limits[l]);
            for (i, delta) in &mut limits {
                self.add_load(*i, -part * *delta);
                *delta *= 1.0 - part;
            }
            // Where somebody has no answer, by rounding, it has what it had.
            let own = self.own(l).unwrap_or_else(|| Own {
                units: self.asked.units[l * self.k..][..self.k].to_vec(),
                limits: Vec::new(),
            });
            self.limited_by[l] = own.limits.iter().map(|t| t.0).collect();
            for (i, delta) in own.limits {
                self.add_load(i, part * delta);
                match limits.iter_mut().find(|t| t.0 == i) {
                    Some(known) => known.1 += part * delta,
                    None => limits.push((i, part * delta)),
                }
            }
            self.room[l] = self.room_of(l, &limits);
            self.limits[l] = limits;
            units.extend(own.units);
        }
        self.turns += 1;
        units
    }

    fn add_load(&mut self, i: u32, more: f64) {
        let i = i as usize;
        self.load[i] = f64::max(self.load[i] + more, 0.0);
        self.above[i] = FULL * (self.load[i] / self.room[i]).powi(STEEP);
    }

    fn duals(&self) -> Duals {
        let mut envy = Vec::new();
        for (l, limits) in self.limits.iter().enumerate() {
            let dual = |&(i, delta): &(u32, f64)| {
                (i, l as u32, delta * self.problem.weight[i as usize] / self.asked.floors[i as usize])
            };
            envy.extend(limits.iter().map(dual).filter(|t| t.2 > 0.0));
        }
        Duals { prices: self.prices.clone(), envy }
    }

    /// One user's program.
    fn own(&self, l: usize) -> Option<Own> {
        let weight = self.problem.weight[l];
        let ways: Vec<(usize, f64, f64)> =
            self.problem.useful(l).map(|(_, j, w, p)| (j, w, p + self.prices[j])).collect();
        let costs: Vec<f64> = ways.iter().map(|way| -way.2).collect();
        let mut simplex = Simplex::new(&costs);
        let floor: Vec<(u32, f64)> = ways.iter().enumerate().map(|(c, way)| (c as u32, -way.1)).collect();
        simplex.add_row(&floor, -self.asked.floors[l]);
        let mut known: Vec<u32> = Vec::new();
        let mut news = self.limited_by[l].clone();
        loop {
            for i in news {
                let sight = &self.sight[i as usize * self.k..][..self.k];
                let terms: Vec<(u32, f64)> =
                    ways.iter().enumerate().map(|(c, way)| (c as u32, sight[way.0] / weight)).collect();
                simplex.add_row(&terms, 1.0 + self.above[i as usize]);
                known.push(i);
            }
            if simplex.solve(PIVOTS) != Status::Optimal {
                return None;
            }
            let mut units = vec![0.0; self.k];
            ways.iter().zip(simplex.values()).for_each(|(way, x)| units[way.0] += x.max(0.0));
            news = self.broken(l, &units, &known);
            if news.is_empty() {
                let limits = known.iter().enumerate().map(|(row, &i)| (i, simplex.dual(row + 1)));
                let limits = limits.filter(|t| t.1 > 0.0).collect();
                return Some(Own { units, limits });
            }
        }
    }

    /// Who would envy `l` its units most.
    fn broken(&self, l: usize, units: &[f64], known: &[u32]) -> Vec<u32> {
        let held: Vec<f64> = units.iter().map(|x| x / self.problem.weight[l]).collect();
        let mut worst = [(BROKEN, u32::MAX); AT_A_TIME];
        for (i, (sight, above)) in self.sight.chunks_exact(self.k).zip(&self.above).enumerate() {
            let seen: f64 = sight.iter().zip(&held).map(|(a, x)| a * x).sum::<f64>() / (1.0 + above) - 1.0;
            if seen > worst[AT_A_TIME - 1].0 && i != l && !known.contains(&(i as u32)) {
                worst[AT_A_TIME - 1] = (seen, i as u32);
                worst.sort_by(|a, b| b.0.total_cmp(&a.0));
            }
        }
        worst.iter().map(|t| t.1).filter(|&i| i != u32::MAX).collect()
    }

    /// `f_l θ_l`: what its floor costs `l`, others' envy included.
    fn room_of(&self, l: usize, limits: &[(u32, f64)]) -> f64 {
        let mut cost = self.prices.clone();
        for &(i, delta) in limits {
            let sight = &self.sight[i as usize * self.k..][..self.k];
            cost.iter_mut().zip(sight).for_each(|(cost, a)| *cost += delta * a / self.problem.weight[l]);
        }
        let dear = self.problem.useful(l).map(|(_, j, w, p)| (p + cost[j]) / w).fold(f64::INFINITY, f64::min);
        f64::max(self.asked.floors[l] * dear, f64::MIN_POSITIVE)
    }
}
