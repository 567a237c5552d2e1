//! Duals, user by user, and prices.
//!
//! Nobody has much reason to be above its floor: `u_i = f_i (1 + g_i)` with `g_i` mostly 0. At given prices `r` and given `g`, all that is left
//! between users are limits of what each may hold,
//!
//! ```text
//! minimise Σ_a (p_la + r_j) x_la      w_l·x_l ≥ f_l (y_l)        κ (π_i/π_l) a_i·X_l/f_i ≤ 1 + g_i  (δ_il)       every i ≠ l
//! ```
//!
//! a program of one user, with as many rows as there are others, of which as many bind as it has resources (`near/own.rs`).
//! Together the duals are feasible for the whole program if `load_i = Σ_l δ_il ≤ f_i θ_i = room_i` for everybody: what others would
//! save if `i` had more is no more than what that would cost. Those at the edge of many others' sight would be asked for far too much. So
//! `g_i` is a steep power of `load_i/room_i`, users are asked one after the other, each at the loads that the others have left, and what a user says moves its duals
//! by a part only, less from turn to turn (Frank and Wolfe's method, user by user). Any mean of duals of one user is as good as they are.
//!
//! Prices stay as they are: those of the division in which nobody has more than its floor (`near/level.rs`) are so near to the best that the first two turns at them prove
//! more than ten at prices that follow what is asked for.

use super::Nearly;
use super::own::{Asked, Own};
use super::proof::Duals;

/// Turns that what the last search has found is worth.
const WORTH: u32 = 4;
/// g where load and room are the same, and the power of their ratio with which it grows.
const FULL: f64 = 0.05;
const STEEP: i32 = 6;

/// What turns have found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) prices: Vec<f64>,
    /// Of everybody, those who limited it when it was last asked.
    pub(super) limited_by: Vec<Vec<u32>>,
    /// `(i, δ_il)` of every `l`.
    limits: Vec<Vec<(u32, f64)>>,
    turns: u32,
}

impl Found {
    /// Prices, and who is likely to limit whom.
    pub(super) fn at(prices: Vec<f64>, limited_by: Vec<Vec<u32>>) -> Self {
        Self { prices, limited_by, ..Self::default() }
    }

    /// The mean of two, `part` of the way to the second.
    pub(super) fn mean(low: &Self, high: &Self, part: f64) -> Self {
        // Prices fall by about the same part for the same step of κ.
        let mean = |(low, high): (&f64, &f64)| {
            if low.min(*high) > 0.0 { low * (high / low).powf(part) } else { low + part * (high - low) }
        };
        let prices = low.prices.iter().zip(&high.prices).map(mean).collect();
        let limits = low.limits.iter().zip(&high.limits).map(|(low, high)| {
            let mut all: Vec<(u32, f64)> = low.iter().map(|&(i, delta)| (i, (1.0 - part) * delta)).collect();
            for &(i, delta) in high {
                match all.iter_mut().find(|t| t.0 == i) {
                    Some(known) => known.1 += part * delta,
                    None => all.push((i, part * delta)),
                }
            }
            all
        });
        let nearer = if part < 0.5 { low } else { high };
        Self {
            prices,
            limits: limits.collect(),
            limited_by: nearer.limited_by.clone(),
            turns: low.turns.min(high.turns),
        }
    }
}

/// The state of the search.
pub(super) struct Turns<'a> {
    asked: &'a Nearly<'a>,
    /// 1 + g.
    most: Vec<f64>,
    load: Vec<f64>,
    room: Vec<f64>,
    pub(super) found: Found,
}

impl<'a> Turns<'a> {
    pub(super) fn new(own: &Own<'_>, asked: &'a Nearly<'a>, mut found: Found) -> Self {
        let n = asked.floors.len();
        found.limited_by.resize(n, Vec::new());
        found.limits.resize(n, Vec::new());
        // What others have found counts for as much as a few turns.
        found.turns = found.turns.min(WORTH);
        let mut turns = Self { asked, most: vec![1.0; n], load: vec![0.0; n], room: Vec::new(), found };
        turns.weigh(own);
        turns
    }

    /// Sets load, room and g from prices and limits.
    fn weigh(&mut self, own: &Own<'_>) {
        self.load.fill(0.0);
        for &(i, delta) in self.found.limits.iter().flatten() {
            self.load[i as usize] += delta;
        }
        self.room = (0..self.found.limits.len()).map(|l| self.room_of(own, l, &self.found.limits[l])).collect();
        for (most, (load, room)) in self.most.iter_mut().zip(self.load.iter().zip(&self.room)) {
            *most = 1.0 + FULL * (load / room).powi(STEEP);
        }
    }

    /// Asks everybody.
    pub(super) fn turn(&mut self, own: &mut Own<'_>) {
        let part = 2.0 / (f64::from(self.found.turns) + 2.0);
        for l in 0..self.most.len() {
            let mut limits = std::mem::take(&mut self.found.limits[l]);
            for (i, delta) in &mut limits {
                self.add_load(*i, -part * *delta);
                *delta *= 1.0 - part;
            }
            let asked = Asked {
                prices: &self.found.prices,
                floor: self.asked.floors[l],
                most: &self.most,
                limited_by: &self.found.limited_by[l],
            };
            if own.solve(l, &asked) {
                self.found.limited_by[l].clear();
                for &(i, delta) in &own.answer.limits {
                    self.found.limited_by[l].push(i);
                    self.add_load(i, part * delta);
                    match limits.iter_mut().find(|t| t.0 == i) {
                        Some(known) => known.1 += part * delta,
                        None => limits.push((i, part * delta)),
                    }
                }
            }
            self.room[l] = self.room_of(own, l, &limits);
            self.found.limits[l] = limits;
        }
        self.found.turns += 1;
    }

    fn add_load(&mut self, i: u32, more: f64) {
        let i = i as usize;
        self.load[i] = f64::max(self.load[i] + more, 0.0);
        self.most[i] = 1.0 + FULL * (self.load[i] / self.room[i]).powi(STEEP);
    }

    pub(super) fn duals(&self, own: &Own<'_>) -> Duals {
        let mut envy = Vec::new();
        for (l, limits) in self.found.limits.iter().enumerate() {
            let dual = |&(i, delta): &(u32, f64)| {
                (i, l as u32, delta * own.problem.weight[i as usize] / self.asked.floors[i as usize])
            };
            envy.extend(limits.iter().map(dual).filter(|t| t.2 > 0.0));
        }
        Duals { prices: self.found.prices.clone(), envy }
    }

    /// `f_l θ_l`: what its floor costs `l`, others' envy included.
    fn room_of(&self, own: &Own<'_>, l: usize, limits: &[(u32, f64)]) -> f64 {
        let mut cost = self.found.prices.clone();
        for &(i, delta) in limits {
            let factor = delta / own.problem.weight[l];
            cost.iter_mut().zip(own.sight_of(i)).for_each(|(cost, a)| *cost += factor * a);
        }
        let dear =
            own.ways_of(l).iter().map(|way| (way.3 + cost[way.1 as usize]) / way.2).fold(f64::INFINITY, f64::min);
        f64::max(self.asked.floors[l] * dear, f64::MIN_POSITIVE)
    }
}
