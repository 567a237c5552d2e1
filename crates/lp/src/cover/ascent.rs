//! Dual ascent: prices for many classes without a linear program. Each class in turn shifts what it can pay to others.
//!
//! The sides of a pair pay `V_a + V_b = c + λ − ζ`. While class `a` is looked at, it is offered each slot for all that
//! the other side does not pay, `u = c + λ − ζ − V_b`; its cheapest pattern then costs `S_a`. A slot whose cheapest pattern costs
//! `m` more may be sold to `a` for `u − m/D` without lowering `S_a`: no pattern has more than `D` slots, and none of them
//! has a larger `m` than the excess of the pattern. The other side pays that much more, and its `S_b` can only rise. So
//! `Σ n_a S_a` rises from class to class, until no single class can raise it.
//!
//! Prices of units follow what the cheapest patterns use, in steps that would reach the target if the value were linear:
//!
//! ```text
//! λ ← max(0, λ + ρ (target − value) g / |g|²)      g_j = units of j in the cheapest patterns − m_j
//! ```

use super::Cover;
use super::bound::Prices;
use super::columns::Columns;
use super::cost_to_go::{CostToGo, GRID, cells};

/// Steps without a better value after which they become shorter, from the best prices.
const PATIENCE: u32 = 4;
/// The first step.
const FIRST: f64 = 0.3;

/// The sides that a class has in columns, and what they pay.
pub(super) struct Ascent<'a> {
    cover: &'a Cover,
    columns: &'a Columns,
    /// Per class, where its sides begin; sides are `2 column + side`.
    starts: Vec<usize>,
    sides: Vec<u32>,
    /// Per side.
    cells: Vec<u8>,
    /// c − ζ, per column.
    net: Vec<f64>,
    lambda: Vec<f64>,
    /// V, per side.
    pay: Vec<f64>,
    zeta: Vec<f64>,
    cost_to_go: CostToGo,
    /// Units in the cheapest patterns beyond the capacity.
    gradient: Vec<f64>,
    /// The lower bound of the prices, with parts in cells.
    pub(super) value: f64,
}

impl<'a> Ascent<'a> {
    pub(super) fn new(cover: &'a Cover, columns: &'a Columns) -> Self {
        let (n, k) = (cover.classes.len(), cover.capacity.len());
        let mut zeta = vec![0.0; n * k];
        cover.stays.iter().for_each(|stay| zeta[stay.class * k + stay.resource] = stay.saving);
        let mut starts = vec![0; n + 1];
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut cell = Vec::with_capacity(2 * columns.list.len());
        let mut net = Vec::with_capacity(columns.list.len());
        for (e, column) in columns.list.iter().enumerate() {
            let mut cost = column.cost;
            for (side, (a, _)) in column.sides().enumerate() {
                lists[a].push((2 * e + side) as u32);
                cost -= zeta[a * k + column.resource as usize];
            }
            cell.extend(column.part.map(|part| if part > 0.0 { cells(part) } else { 0 }));
            net.push(cost);
        }
        (0..n).for_each(|a| starts[a + 1] = starts[a] + lists[a].len());
        let mut ascent = Self {
            cover,
            columns,
            starts,
            sides: lists.concat(),
            cells: cell,
            net,
            lambda: vec![0.0; k],
            pay: Vec::new(),
            zeta,
            cost_to_go: CostToGo::default(),
            gradient: Vec::new(),
            value: f64::NEG_INFINITY,
        };
        ascent.pay = ascent.divide(None);
        ascent
    }

    /// Continues from other prices.
    pub(super) fn restart(&mut self, prices: &Prices) {
        self.lambda.clone_from(&prices.units);
        self.pay = self.divide(Some(prices));
    }

    /// What the sides pay at first: by the given prices, or in proportion to parts.
    fn divide(&self, prices: Option<&Prices>) -> Vec<f64> {
        let mut pay = Vec::with_capacity(2 * self.net.len());
        for (e, column) in self.columns.list.iter().enumerate() {
            let all = self.price(e);
            let known = prices.and_then(|prices| prices.firsts.get(column.pair()?)).copied();
            let first = match known {
                Some(first) if first.is_finite() => first,
                _ => all * column.part[0] / (column.part[0] + column.part[1]),
            };
            pay.extend(if column.is_alone() { [all, 0.0] } else { [first, all - first] });
        }
        pay
    }

    /// What the sides of a column pay together.
    fn price(&self, e: usize) -> f64 {
        let column = &self.columns.list[e];
        self.net[e] + self.lambda[column.resource as usize] * f64::from(column.units)
    }

    /// All classes in turn, `passes` times: the value never falls, but may stall.
    pub(super) fn climb(&mut self, passes: u32) {
        for pass in 0..passes {
            self.value = self.pass(pass % 2 == 1);
        }
    }

    /// Moves the prices of units and climbs, `steps` times, where the optimum is supposed to be `target`; ends at the best.
    pub(super) fn follow(&mut self, steps: u32, target: f64) {
        let mut best = (self.value, self.lambda.clone(), self.pay.clone());
        let (mut rho, mut still) = (FIRST, 0);
        for step in 0..steps {
            let square: f64 = self.gradient.iter().map(|g| g * g).sum();
            if square <= 0.0 || target <= self.value {
                break;
            }
            self.step(rho * (target - self.value) / square);
            self.climb(1 + step % 2);
            if self.value > best.0 {
                still = if self.value > best.0 + 1e-5 * best.0.abs() { 0 } else { still + 1 };
                best = (self.value, self.lambda.clone(), self.pay.clone());
            } else {
                still += 1;
            }
            if still >= PATIENCE {
                (still, rho) = (0, 0.5 * rho);
                self.value = best.0;
                self.lambda.clone_from(&best.1);
                self.pay.clone_from(&best.2);
            }
        }
        (self.value, self.lambda, self.pay) = best;
    }

    /// Moves the prices of units along the gradient; pairs divide the difference.
    fn step(&mut self, length: f64) {
        let before = self.lambda.clone();
        for (lambda, g) in self.lambda.iter_mut().zip(&self.gradient) {
            *lambda = f64::max(0.0, *lambda + length * g);
        }
        for (e, column) in self.columns.list.iter().enumerate() {
            let j = column.resource as usize;
            let more = (self.lambda[j] - before[j]) * f64::from(column.units);
            if column.is_alone() {
                self.pay[2 * e] += more;
            } else {
                self.pay[2 * e] += 0.5 * more;
                self.pay[2 * e + 1] += 0.5 * more;
            }
        }
    }

    /// Each class once; returns the value.
    fn pass(&mut self, backwards: bool) -> f64 {
        let n = self.cover.classes.len();
        self.gradient = self.cover.capacity.iter().map(|&units| -f64::from(units)).collect();
        let mut value: f64 = self.lambda.iter().zip(&self.gradient).map(|(lambda, g)| lambda * g).sum();
        for stay in &self.cover.stays {
            let zeta = self.zeta[stay.class * self.cover.capacity.len() + stay.resource];
            value -= (stay.saving - zeta) * f64::from(stay.held);
        }
        for at in 0..n {
            let a = if backwards { n - 1 - at } else { at };
            if self.cover.classes[a].count > 0 {
                value += f64::from(self.cover.classes[a].count) * self.class(a);
            }
        }
        value
    }

    /// One class; returns its S.
    fn class(&mut self, a: usize) -> f64 {
        let Self { cost_to_go, pay, cells, columns, gradient, .. } = self;
        let sides = &self.sides[self.starts[a]..self.starts[a + 1]];
        let slots = sides.iter().map(|&side| (cells[side as usize], pay[side as usize], side));
        cost_to_go.rebuild(self.cover, a, slots);
        let class = &self.cover.classes[a];
        let count = f64::from(class.count);
        cost_to_go.cheapest(|side| {
            let column = &columns.list[side as usize / 2];
            gradient[column.resource as usize] += count * if column.is_alone() { f64::from(column.units) } else { 0.5 };
        });
        let part = 1.0 / f64::from(class.most);
        for &side in sides {
            let side = side as usize;
            let column = &columns.list[side / 2];
            if column.is_alone() || column.class[0] == column.class[1] {
                continue;
            }
            let rest = cost_to_go.rest(class.most as usize - 1, GRID - usize::from(cells[side]));
            let dearer = part * (pay[side] + rest - cost_to_go.base);
            pay[side] -= dearer;
            pay[side ^ 1] += dearer;
        }
        cost_to_go.base
    }

    /// The best prices so far.
    pub(super) fn prices(&self) -> Prices {
        let mut firsts = vec![0.0; self.cover.pairs.len()];
        for (e, column) in self.columns.list.iter().enumerate() {
            if let Some(at) = column.pair() {
                firsts[at] = self.pay[2 * e];
            }
        }
        let k = self.cover.capacity.len();
        let stays = self.cover.stays.iter().map(|stay| self.zeta[stay.class * k + stay.resource]).collect();
        Prices { units: self.lambda.clone(), firsts, stays }
    }
}
