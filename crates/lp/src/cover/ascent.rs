//! Dual ascent: prices for many classes without a linear program. Each class in turn shifts what it can pay to others.
//!
//! The sides of a pair pay `V_a + V_b = c + λ − ζ`. While class `a` is looked at, it is offered each slot for all that
//! the other side does not pay, `u = c + λ − ζ − V_b`; its cheapest pattern then costs `S_a`. A slot whose cheapest pattern costs
//! `m` more may be sold to `a` for `u − m` without lowering `S_a`. The other side pays that much more, and its `S_b` can only
//! rise. So `Σ n_a S_a` rises from class to class, until no single class can raise it.

use super::Cover;
use super::bound::Prices;
use super::columns::Columns;
use super::pattern_cost::{GRID, PatternCost, cells};

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
    /// V, per side.
    pay: Vec<f64>,
    zeta: Vec<f64>,
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
            pay: Vec::new(),
            zeta,
            value: f64::NEG_INFINITY,
        };
        ascent.pay = ascent.divide();
        ascent
    }

    /// What the sides pay at first: in proportion to parts.
    fn divide(&self) -> Vec<f64> {
        let mut pay = Vec::with_capacity(2 * self.net.len());
        for (&all, column) in self.net.iter().zip(&self.columns.list) {
            let first = all * column.part[0] / (column.part[0] + column.part[1]);
            pay.extend(if column.is_alone() { [all, 0.0] } else { [first, all - first] });
        }
        pay
    }

    /// All classes in turn, `passes` times: the value never falls, but may stall.
    pub(super) fn climb(&mut self, passes: u32) {
        for pass in 0..passes {
            self.value = self.pass(pass % 2 == 1);
        }
    }

    /// Each class once; returns the value.
    fn pass(&mut self, backwards: bool) -> f64 {
        let n = self.cover.classes.len();
        let mut value = 0.0;
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
        let Self { pay, cells, columns, .. } = self;
        let sides = &self.sides[self.starts[a]..self.starts[a + 1]];
        let slots = sides.iter().map(|&side| (cells[side as usize], pay[side as usize]));
        let costs = PatternCost::new(self.cover, a, slots);
        for &side in sides {
            let side = side as usize;
            let column = &columns.list[side / 2];
            if column.is_alone() || column.class[0] == column.class[1] {
                continue;
            }
            let dearer = pay[side] + costs.short(GRID - usize::from(cells[side])) - costs.base;
            pay[side] -= dearer;
            pay[side ^ 1] += dearer;
        }
        costs.base
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
        Prices { units: vec![0.0; k], firsts, stays }
    }
}
