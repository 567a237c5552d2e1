//! The columns of a problem that can be used at all, in one list: slots alone first, then pairs.

use super::{Cover, Slot};
use std::ops::Range;

/// Stands for "nobody" among classes and demands.
pub(super) const NONE: u32 = u32::MAX;

/// One way to use units of one resource.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Column {
    pub(super) cost: f64,
    /// Classes and the parts covered; the second is [`NONE`] where the first is alone.
    pub(super) class: [u32; 2],
    pub(super) part: [f64; 2],
    pub(super) resource: u32,
    pub(super) units: u32,
    /// The pair in the problem.
    pair: u32,
}

impl Column {
    /// The classes it serves, with parts.
    pub(super) fn sides(&self) -> impl Iterator<Item = (usize, f64)> + use<> {
        let sides = if self.class[1] == NONE { 1 } else { 2 };
        let (class, part) = (self.class, self.part);
        (0..sides).map(move |side| (class[side] as usize, part[side]))
    }

    /// The pair in the problem.
    pub(super) fn pair(&self) -> Option<usize> {
        (self.pair != NONE).then_some(self.pair as usize)
    }

    pub(super) fn is_alone(&self) -> bool {
        self.class[1] == NONE
    }

    /// The slot of the problem that a side is.
    pub(super) fn slot(&self, side: usize) -> Slot {
        match (self.pair, side) {
            (NONE, _) => Slot::Alone(self.resource as usize),
            (pair, 0) => Slot::First(pair as usize),
            (pair, _) => Slot::Second(pair as usize),
        }
    }
}

/// All usable columns: enough units and demands exist for one of each.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub(super) list: Vec<Column>,
    /// How many of them are slots alone.
    pub(super) alone: usize,
    classes: usize,
    /// Where the slots alone of each class begin, and where the last end.
    of_class: Vec<u32>,
    /// The same of pairs, by pairs of classes `(0, 0), (0, 1), …, (1, 1), …`; empty where most pairs have none.
    of_pair: Vec<u32>,
}

impl Columns {
    pub(super) fn new(cover: &Cover) -> Self {
        let k = cover.capacity.len();
        let mut list = Vec::with_capacity(cover.alone.len() + cover.pairs.len());
        for (at, slot) in cover.alone.iter().enumerate() {
            let (l, j) = (at / k, at % k);
            let class = &cover.classes[l];
            if let Some(slot) = slot
                && class.count > 0
                && class.size <= cover.capacity[j]
            {
                let (class, units, part) = ([l as u32, NONE], class.size, [slot.part, 0.0]);
                list.push(Column { cost: slot.cost, class, part, resource: j as u32, units, pair: NONE });
            }
        }
        let alone = list.len();
        for (at, pair) in cover.pairs.iter().enumerate() {
            let least = if pair.a == pair.b { 2 } else { 1 };
            let there = cover.classes[pair.a].count.min(cover.classes[pair.b].count) >= least;
            if there && cover.capacity[pair.resource] > 0 {
                list.push(Column {
                    cost: pair.cost,
                    class: [pair.a as u32, pair.b as u32],
                    part: [pair.part_a, pair.part_b],
                    resource: pair.resource as u32,
                    units: 1,
                    pair: at as u32,
                });
            }
        }
        let classes = cover.classes.len();
        let mut columns = Self { list, alone, classes, of_class: Vec::new(), of_pair: Vec::new() };
        columns.index();
        columns
    }

    fn index(&mut self) {
        let n = self.classes;
        let ends = |keys: &mut dyn Iterator<Item = usize>, all: usize, first: usize| {
            let mut ends = vec![0u32; all + 1];
            keys.for_each(|key| ends[key + 1] += 1);
            ends[0] = first as u32;
            (0..all).for_each(|key| ends[key + 1] += ends[key]);
            ends
        };
        let (alone, pairs) = self.list.split_at(self.alone);
        let of_class = ends(&mut alone.iter().map(|column| column.class[0] as usize), n, 0);
        let class_pairs = n * (n + 1) / 2;
        let mut of_pair = Vec::new();
        if class_pairs <= 4 * pairs.len() + 1_000 {
            let place = |column: &Column| self.pair(column.class[0] as usize, column.class[1] as usize);
            of_pair = ends(&mut pairs.iter().map(place), class_pairs, self.alone);
        }
        (self.of_class, self.of_pair) = (of_class, of_pair);
    }

    /// The place of a pair of classes, `a ≤ b`, among all.
    fn pair(&self, a: usize, b: usize) -> usize {
        a * (2 * self.classes - a + 1) / 2 + b - a
    }

    /// The slots alone of a class.
    pub(super) fn of_class(&self, class: usize) -> Range<usize> {
        self.of_class[class] as usize..self.of_class[class + 1] as usize
    }

    /// The pairs of two classes, in whatever order.
    pub(super) fn of_pair(&self, a: usize, b: usize) -> Range<usize> {
        let (a, b) = (a.min(b), a.max(b));
        if self.of_pair.is_empty() {
            let pairs = &self.list[self.alone..];
            let key = [a as u32, b as u32];
            let first = pairs.partition_point(|column| column.class < key);
            let many = pairs[first..].iter().take_while(|column| column.class == key).count();
            return self.alone + first..self.alone + first + many;
        }
        let pair = self.pair(a, b);
        self.of_pair[pair] as usize..self.of_pair[pair + 1] as usize
    }
}
