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
//! *Improved.* The same program of one user, with what the others have in the place of their floors, says what it would take if all others stayed: one round over all users after a
//! few turns keeps every row and draws less.
//!
//! *Again.* Any duals prove something of any problem of this size, so where floors and κ have changed the last ones are where the next search begins.
//!
//! `ways/near/proof.rs` makes a bound out of any duals, and a division that keeps every row out of any units. Neither asks where they come from.

mod groups;
mod incomes;
mod proof;
mod table;

use super::Ways;
use crate::simplex::Simplex;
use crate::{Budget, Certificate, InputError, Status};
use incomes::{Bought, Memory};
use proof::{Duals, Envy};
use table::Table;

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
/// The turn after which the division itself is improved, if that is not enough yet; by so many rounds at most, and by a round that improves it by less for the last time.
const IMPROVED: u32 = 3;
const ROUNDS: u32 = 4;
const ENOUGH: f64 = 1e-4;
/// Sweeps over groups of users, after that and once all turns are spent.
const SWEEPS: usize = 4;
/// Turns that what the last search has found is worth.
const WORTH: u32 = 4;
/// Where answers at other κ are known a search takes this part of the turns, and so many times the gap will do.
const AGAIN: u32 = 4;
const AGAIN_NEAR: f64 = 1.5;
/// A mean of two answers will do if its gap is at most so many times what was asked for, or so many times theirs.
const BETWEEN: f64 = 1.7;
const NO_WORSE: f64 = 1.1;
/// Another κ than this is too far away to go on from.
const FAR: f64 = 0.04;
/// Answers at other κ that are kept.
const MOST_KNOWN: usize = 16;
/// Pivots of one user's program.
const PIVOTS: u32 = 400;
/// A limit is broken if it is exceeded by this part.
const BROKEN: f64 = 1e-7;
/// Limits that are added at a time.
const AT_A_TIME: usize = 2;
/// g where load and room are the same, and the power of their ratio with which it grows.
const FULL: f64 = 0.05;
const STEEP: i32 = 6;

/// What a search leaves for the next: where only floors, κ and the gap differ, that one starts from its prices and its duals.
#[derive(Clone, Debug, Default)]
pub struct NearWorkspace {
    memory: Memory,
    last: Option<Found>,
    /// Answers that were searched for, in order of κ.
    known: Vec<Known>,
}

/// An answer to the same problem at another κ.
#[derive(Clone, Debug)]
struct Known {
    part: f64,
    /// Users × resources.
    units: Vec<f64>,
    duals: Duals,
    gap: f64,
}

/// What turns have found.
#[derive(Clone, Debug, Default)]
struct Found {
    /// κ of the search.
    part: f64,
    prices: Vec<f64>,
    /// Of everybody, those who limited it when it was last asked.
    limited_by: Vec<Vec<u32>>,
    /// `(i, δ_il)` of every `l`.
    limits: Vec<Vec<(u32, f64)>>,
    turns: u32,
}

/// Looks for a division near the least draw; stops when its gap will do, or after as many turns as `budget` has iterations.
///
/// # Errors
/// When the problem makes no sense.
pub fn nearly_least_draw_without_envy(
    problem: &Ways<'_>,
    asked: &Nearly<'_>,
    budget: Budget,
) -> Result<Near, InputError> {
    NearWorkspace::default().solve(problem, asked, budget)
}

impl NearWorkspace {
    /// See [`nearly_least_draw_without_envy`].
    ///
    /// # Errors
    /// When the problem makes no sense.
    pub fn solve(&mut self, problem: &Ways<'_>, asked: &Nearly<'_>, budget: Budget) -> Result<Near, InputError> {
        problem.check(&[])?;
        let k = problem.capacity.len();
        let here: Vec<usize> = (0..k).filter(|&j| problem.capacity[j] > 0.0).collect();
        if here.len() + 1 >= k {
            return self.search(problem, asked, budget);
        }
        // Everything is looked at by everybody for everybody: what is not there is left out first. Ways of what is not there keep one resource that is not there.
        let place = |j: usize| here.binary_search(&j).unwrap_or(here.len());
        let resource: Vec<usize> = problem.resource.iter().map(|&j| place(j)).collect();
        let capacity: Vec<f64> = here.iter().map(|&j| problem.capacity[j]).chain([0.0]).collect();
        let units = |row: &[f64]| here.iter().map(|&j| row[j]).chain([0.0]).collect::<Vec<f64>>();
        let units: Vec<f64> = asked.units.chunks_exact(k).flat_map(units).collect();
        let inner = Ways { resource: &resource, capacity: &capacity, ..*problem };
        self.search(&inner, &Nearly { units: &units, ..*asked }, budget)
    }

    fn search(&mut self, problem: &Ways<'_>, asked: &Nearly<'_>, budget: Budget) -> Result<Near, InputError> {
        let best: Vec<f64> = (0..problem.users()).flat_map(|l| problem.best_rates(l)).collect();
        let envy = Envy { problem, floors: asked.floors, part: asked.part, best: &best };
        let mut near = Near { x: Vec::new(), bound: Certificate { lower: 0.0, upper: f64::INFINITY }, turns: 0 };
        near.offer(&envy, asked.units, asked);
        let last = self.last.take().filter(|_| self.memory.knows(problem, &best));
        if last.is_none() {
            self.known.clear();
        }
        if let (Some(between), Some(_)) = (self.between(asked.part), &last) {
            let (units, mean) = between.means();
            near.offer(&envy, &units, asked);
            let all = [&mean, &between.low.duals, &between.high.duals];
            all.into_iter().for_each(|duals| _ = near.prove(&envy, duals));
            if near.bound.gap() <= between.gap(asked) {
                self.last = last;
                return Ok(near);
            }
        }
        let (most, enough) = match self.known.is_empty() {
            true => (budget.iterations, asked.gap),
            false => (budget.iterations / AGAIN, AGAIN_NEAR * asked.gap),
        };
        // Far away nobody is limited by the same others.
        let last = last.filter(|last| (last.part - asked.part).abs() <= FAR);
        let bought = Bought::new(problem, asked, &best, &mut self.memory)?;
        near.offer(&envy, &bought.units, asked);
        near.bound.lower = near.bound.lower.max(bought.least).min(near.bound.upper);
        let found = Found { prices: bought.prices, part: asked.part, ..last.unwrap_or_default() };
        let mut turns = Turns::new(problem, asked, &best, found);
        let mut duals = turns.duals();
        near.prove(&envy, &duals);
        while near.bound.gap() > enough && near.turns < most {
            let units = turns.turn();
            near.turns += 1;
            let now = turns.duals();
            if near.prove(&envy, &now) {
                duals = now;
            }
            near.offer(&envy, &units, asked);
            if near.turns == IMPROVED && near.bound.gap() > enough {
                near.improve(&envy, &turns);
                near.exchange(&envy, &turns, enough);
            }
        }
        near.exchange(&envy, &turns, enough);
        let units = units_of(problem, &near.x);
        let known = Known { part: asked.part, units, duals, gap: near.bound.gap() };
        self.last = Some(turns.found);
        self.keep(known);
        Ok(near)
    }

    /// The answers next to κ on either side.
    fn between(&self, part: f64) -> Option<Between<'_>> {
        let above = self.known.partition_point(|known| known.part < part);
        if let Some(same) = self.known.get(above).filter(|known| known.part == part) {
            return Some(Between { low: same, high: same, part: 0.0 });
        }
        let [low, high] = [self.known.get(above.checked_sub(1)?)?, self.known.get(above)?];
        Some(Between { low, high, part: (part - low.part) / (high.part - low.part) })
    }

    fn keep(&mut self, known: Known) {
        let at = self.known.partition_point(|other| other.part < known.part);
        if self.known.get(at).is_some_and(|other| other.part == known.part) {
            self.known[at] = known;
        } else if self.known.len() < MOST_KNOWN {
            self.known.insert(at, known);
        }
    }
}

/// A place between two answers.
#[derive(Clone, Copy)]
struct Between<'a> {
    low: &'a Known,
    high: &'a Known,
    /// How far from the first to the second.
    part: f64,
}

impl Between<'_> {
    /// The gap that will do: not much more than what was asked for, or than theirs where they came no nearer.
    fn gap(&self, asked: &Nearly<'_>) -> f64 {
        f64::max(BETWEEN * asked.gap, NO_WORSE * f64::max(self.low.gap, self.high.gap))
    }

    fn mean(&self, low: f64, high: f64) -> f64 {
        low + self.part * (high - low)
    }

    /// The mean of both, of units and of duals.
    fn means(&self) -> (Vec<f64>, Duals) {
        let Self { low, high, part } = *self;
        let mean = |low: &[f64], high: &[f64]| low.iter().zip(high).map(|(low, high)| self.mean(*low, *high)).collect();
        let scaled = |duals: &Duals, by: f64| {
            duals.envy.iter().map(|&(l, i, mu)| (l, i, by * mu)).collect::<Vec<(u32, u32, f64)>>()
        };
        let mut envy = scaled(&low.duals, 1.0 - part);
        envy.extend(scaled(&high.duals, part));
        (mean(&low.units, &high.units), Duals { prices: mean(&low.duals.prices, &high.duals.prices), envy })
    }
}

/// Where a use leaves everybody, and what is left over.
struct Standing<'a> {
    turns: &'a Turns<'a>,
    x: Vec<f64>,
    units: Vec<f64>,
    held: Table,
    free: Vec<f64>,
    /// Everybody's speed, in floors.
    has: Vec<f64>,
}

impl<'a> Standing<'a> {
    fn new(turns: &'a Turns<'a>, x: &[f64], envy: &Envy<'_>) -> Self {
        let (problem, k) = (turns.problem, turns.k);
        let units = units_of(problem, x);
        let mut free = problem.capacity.to_vec();
        units.iter().enumerate().for_each(|(at, units)| free[at % k] -= units);
        let held = envy.held(&units);
        let mut standing = Self { turns, x: x.to_vec(), units, held, free, has: Vec::new() };
        standing.has = (0..problem.users()).map(|l| standing.speed(l)).collect();
        standing
    }

    /// Of a user, in floors.
    fn speed(&self, l: usize) -> f64 {
        let (problem, ways) = (self.turns.problem, self.turns.problem.ways());
        problem.useful(l).map(|(a, _, w, _)| w * self.x[l * ways + a]).sum::<f64>() / self.turns.asked.floors[l]
    }

    fn draw_of(&self, l: usize, x: &[f64]) -> f64 {
        let problem = self.turns.problem;
        x.iter().zip(&problem.draw[l * problem.ways()..]).map(|(x, p)| x * p).sum()
    }

    /// What some users could have between them while all others have what they have.
    fn room(&self, of: &[usize]) -> Vec<f64> {
        let k = self.turns.k;
        (0..k).map(|j| (self.free[j] + of.iter().map(|l| self.units[l * k + j]).sum::<f64>()).max(0.0)).collect()
    }

    /// A user has this from now on, out of what is free.
    fn give(&mut self, l: usize, x: &[f64], units: &[f64]) {
        let (problem, k) = (self.turns.problem, self.turns.k);
        self.free.iter_mut().zip(units).for_each(|(free, units)| *free -= units);
        self.units[l * k..][..k].copy_from_slice(units);
        self.held.set(l, units, problem.weight[l].recip());
        self.x[l * problem.ways()..][..problem.ways()].copy_from_slice(x);
        self.has[l] = self.speed(l);
    }
}

/// Units by user and resource of a use.
fn units_of(problem: &Ways<'_>, x: &[f64]) -> Vec<f64> {
    let (ways, k) = (problem.ways(), problem.capacity.len());
    let mut units = vec![0.0; problem.users() * k];
    x.iter().enumerate().for_each(|(at, x)| units[at / ways * k + problem.resource[at % ways]] += x);
    units
}

impl Near {
    /// Takes the bound that duals prove, if it is higher; says whether it is.
    fn prove(&mut self, envy: &Envy<'_>, duals: &Duals) -> bool {
        let proved = envy.prove(duals.clone()).min(self.bound.upper);
        let better = proved > self.bound.lower;
        self.bound.lower = self.bound.lower.max(proved);
        better
    }

    /// One user after the other takes what draws least while the others have what they have: it needs what its rows ask, and nobody may come to envy it.
    fn improve(&mut self, envy: &Envy<'_>, turns: &Turns<'_>) {
        for _ in 0..ROUNDS {
            let x = turns.round(&self.x, envy);
            let draw = envy.draw(&x);
            let gain = 1.0 - draw / self.bound.upper;
            if gain <= 0.0 {
                return;
            }
            (self.x, self.bound.upper) = (x, draw);
            if gain < ENOUGH {
                return;
            }
        }
    }

    /// Group after group takes what draws least while the others have what they have, until that is near enough or gains no more.
    fn exchange(&mut self, envy: &Envy<'_>, turns: &Turns<'_>, enough: f64) {
        for sweep in 0..SWEEPS {
            if self.bound.gap() <= enough {
                return;
            }
            let x = turns.by_groups(&self.x, envy, sweep);
            let draw = envy.draw(&x);
            let gain = 1.0 - draw / self.bound.upper;
            if gain > 0.0 {
                (self.x, self.bound.upper) = (x, draw);
            }
            if gain < ENOUGH {
                return;
            }
        }
    }

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
    /// `κ π_i a_i/f_i`, users × resources: what a unit per weight is to `i`, in floors; and the same by resource.
    sight: Vec<f64>,
    sights: Table,
    /// g.
    above: Vec<f64>,
    load: Vec<f64>,
    room: Vec<f64>,
    found: Found,
}

/// What is asked of one user.
struct Alone<'a> {
    prices: &'a [f64],
    floor: f64,
    /// What others may see of its units, in their floors.
    most: &'a dyn Fn(usize) -> f64,
    /// What there is of each resource, where it is asked not to take more.
    room: Option<&'a [f64]>,
}

/// One user's answer.
struct Own {
    /// By way, and by resource.
    x: Vec<f64>,
    units: Vec<f64>,
    /// `(i, δ)`.
    limits: Vec<(u32, f64)>,
}

impl<'a> Turns<'a> {
    fn new(problem: &'a Ways<'a>, asked: &'a Nearly<'a>, best: &[f64], mut found: Found) -> Self {
        let (n, k) = (problem.users(), problem.capacity.len());
        let sight = |(at, a): (usize, &f64)| asked.part * problem.weight[at / k] * a / asked.floors[at / k];
        let sight: Vec<f64> = best.iter().enumerate().map(sight).collect();
        let sights = Table::new(&sight, k, |_| 1.0);
        found.limited_by.resize(n, Vec::new());
        found.limits.resize(n, Vec::new());
        // What others have found counts for as much as a few turns.
        found.turns = found.turns.min(WORTH);
        let (above, load) = (vec![0.0; n], vec![0.0; n]);
        let mut turns = Self { problem, asked, k, sight, sights, above, load, room: Vec::new(), found };
        turns.weigh();
        turns
    }

    /// Sets load, room and g from prices and limits.
    fn weigh(&mut self) {
        self.load.fill(0.0);
        for &(i, delta) in self.found.limits.iter().flatten() {
            self.load[i as usize] += delta;
        }
        self.room = (0..self.found.limits.len()).map(|l| self.room_of(l, &self.found.limits[l])).collect();
        for (above, (load, room)) in self.above.iter_mut().zip(self.load.iter().zip(&self.room)) {
            *above = FULL * (load / room).powi(STEEP);
        }
    }

    /// Asks everybody; returns the units that they would have, users × resources.
    fn turn(&mut self) -> Vec<f64> {
        let n = self.problem.users();
        let part = 2.0 / (f64::from(self.found.turns) + 2.0);
        let mut units = Vec::with_capacity(n * self.k);
        for l in 0..n {
            let mut limits = std::mem::take(&mut self.found.limits[l]);
            for (i, delta) in &mut limits {
                self.add_load(*i, -part * *delta);
                *delta *= 1.0 - part;
            }
            // Where somebody has no answer, by rounding, it has what it had.
            let own = self.own(l).unwrap_or_else(|| Own {
                x: Vec::new(),
                units: self.asked.units[l * self.k..][..self.k].to_vec(),
                limits: Vec::new(),
            });
            self.found.limited_by[l] = own.limits.iter().map(|t| t.0).collect();
            for (i, delta) in own.limits {
                self.add_load(i, part * delta);
                match limits.iter_mut().find(|t| t.0 == i) {
                    Some(known) => known.1 += part * delta,
                    None => limits.push((i, part * delta)),
                }
            }
            self.room[l] = self.room_of(l, &limits);
            self.found.limits[l] = limits;
            units.extend(own.units);
        }
        self.found.turns += 1;
        units
    }

    fn add_load(&mut self, i: u32, more: f64) {
        let i = i as usize;
        self.load[i] = f64::max(self.load[i] + more, 0.0);
        self.above[i] = FULL * (self.load[i] / self.room[i]).powi(STEEP);
    }

    fn duals(&self) -> Duals {
        let mut envy = Vec::new();
        for (l, limits) in self.found.limits.iter().enumerate() {
            let dual = |&(i, delta): &(u32, f64)| {
                (i, l as u32, delta * self.problem.weight[i as usize] / self.asked.floors[i as usize])
            };
            envy.extend(limits.iter().map(dual).filter(|t| t.2 > 0.0));
        }
        Duals { prices: self.found.prices.clone(), envy }
    }

    /// One user's program, at the present prices and `g`.
    fn own(&self, l: usize) -> Option<Own> {
        let most: &dyn Fn(usize) -> f64 = &|i| 1.0 + self.above[i];
        self.alone(l, &Alone { prices: &self.found.prices, floor: self.asked.floors[l], most, room: None })
    }

    /// A use that draws no more than `x`, which keeps every row: everybody in turn takes what draws least for it.
    fn round(&self, x: &[f64], envy: &Envy<'_>) -> Vec<f64> {
        let (problem, k, ways) = (self.problem, self.k, self.problem.ways());
        let mut now = Standing::new(self, x, envy);
        let (nothing, mut worth) = (vec![0.0; k], vec![0.0; problem.users()]);
        for l in 0..problem.users() {
            let room = now.room(&[l]);
            let floor = envy.asked_of(l, &now.held, &mut worth).min(now.has[l] * self.asked.floors[l]);
            let most: &dyn Fn(usize) -> f64 = &|i| now.has[i];
            let Some(own) = self.alone(l, &Alone { prices: &nothing, floor, most, room: Some(&room) }) else {
                continue;
            };
            if now.draw_of(l, &own.x) < now.draw_of(l, &now.x[l * ways..][..ways]) {
                now.free = room;
                now.give(l, &own.x, &own.units);
            }
        }
        now.x
    }

    /// The least draw of one user, and who keeps it from less.
    fn alone(&self, l: usize, asked: &Alone<'_>) -> Option<Own> {
        let weight = self.problem.weight[l];
        let ways: Vec<(usize, usize, f64, f64)> =
            self.problem.useful(l).map(|(a, j, w, p)| (a, j, w, p + asked.prices[j])).collect();
        let costs: Vec<f64> = ways.iter().map(|way| -way.3).collect();
        let mut simplex = Simplex::new(&costs);
        let column = |c: usize| c as u32;
        let floor: Vec<(u32, f64)> = ways.iter().enumerate().map(|(c, way)| (column(c), -way.2)).collect();
        simplex.add_row(&floor, -asked.floor);
        for (j, room) in asked.room.into_iter().flatten().enumerate() {
            let of: Vec<_> = (0..ways.len()).filter(|&c| ways[c].1 == j).map(|c| (column(c), 1.0)).collect();
            if !of.is_empty() {
                simplex.add_row(&of, *room);
            }
        }
        let first = simplex.rows();
        let mut known: Vec<u32> = Vec::new();
        let mut news = self.found.limited_by[l].clone();
        loop {
            for i in news {
                let sight = &self.sight[i as usize * self.k..][..self.k];
                let terms: Vec<(u32, f64)> =
                    ways.iter().enumerate().map(|(c, way)| (column(c), sight[way.1] / weight)).collect();
                simplex.add_row(&terms, (asked.most)(i as usize));
                known.push(i);
            }
            if simplex.solve(PIVOTS) != Status::Optimal {
                return None;
            }
            let (mut units, mut x) = (vec![0.0; self.k], vec![0.0; self.problem.ways()]);
            for (way, v) in ways.iter().zip(simplex.values()) {
                units[way.1] += v.max(0.0);
                x[way.0] = v.max(0.0);
            }
            news = self.broken(l, &units, asked.most, &known);
            if news.is_empty() {
                let limits = known.iter().enumerate().map(|(row, &i)| (i, simplex.dual(first + row)));
                let limits = limits.filter(|t| t.1 > 0.0).collect();
                return Some(Own { x, units, limits });
            }
        }
    }

    /// Who would envy `l` its units most.
    fn broken(&self, l: usize, units: &[f64], most: &dyn Fn(usize) -> f64, known: &[u32]) -> Vec<u32> {
        let held: Vec<f64> = units.iter().map(|x| x / self.problem.weight[l]).collect();
        let mut worst = [(BROKEN, u32::MAX); AT_A_TIME];
        let mut seen = vec![0.0; self.problem.users()];
        self.sights.worth(&held, &mut seen);
        for (i, seen) in seen.into_iter().enumerate() {
            let most = most(i);
            if seen <= (1.0 + worst[AT_A_TIME - 1].0) * most {
                continue;
            }
            let seen = seen / most - 1.0;
            if seen > worst[AT_A_TIME - 1].0 && i != l && !known.contains(&(i as u32)) {
                worst[AT_A_TIME - 1] = (seen, i as u32);
                worst.sort_by(|a, b| b.0.total_cmp(&a.0));
            }
        }
        worst.iter().map(|t| t.1).filter(|&i| i != u32::MAX).collect()
    }

    /// `f_l θ_l`: what its floor costs `l`, others' envy included.
    fn room_of(&self, l: usize, limits: &[(u32, f64)]) -> f64 {
        let mut cost = self.found.prices.clone();
        for &(i, delta) in limits {
            let sight = &self.sight[i as usize * self.k..][..self.k];
            cost.iter_mut().zip(sight).for_each(|(cost, a)| *cost += delta * a / self.problem.weight[l]);
        }
        let dear = self.problem.useful(l).map(|(_, j, w, p)| (p + cost[j]) / w).fold(f64::INFINITY, f64::min);
        f64::max(self.asked.floors[l] * dear, f64::MIN_POSITIVE)
    }
}
