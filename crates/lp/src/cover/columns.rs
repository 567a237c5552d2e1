//! The columns of a question that can be used at all, in one list: slots alone first, then couples.

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
    /// The couple in the question.
    couple: u32,
}

impl Column {
    /// The classes it serves, with parts.
    pub(super) fn sides(&self) -> impl Iterator<Item = (usize, f64)> + use<> {
        let sides = if self.class[1] == NONE { 1 } else { 2 };
        let (class, part) = (self.class, self.part);
        (0..sides).map(move |side| (class[side] as usize, part[side]))
    }

    /// The couple in the question.
    pub(super) fn couple(&self) -> Option<usize> {
        (self.couple != NONE).then_some(self.couple as usize)
    }

    pub(super) fn is_alone(&self) -> bool {
        self.class[1] == NONE
    }

    /// The slot of the question that a side is.
    pub(super) fn slot(&self, side: usize) -> Slot {
        match (self.couple, side) {
            (NONE, _) => Slot::Alone(self.resource as usize),
            (couple, 0) => Slot::First(couple as usize),
            (couple, _) => Slot::Second(couple as usize),
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
    /// The same of couples, by pairs of classes `(0, 0), (0, 1), …, (1, 1), …`; empty where most pairs have none.
    of_pair: Vec<u32>,
}

impl Columns {
    pub(super) fn new(cover: &Cover) -> Self {
        let k = cover.capacity.len();
        let mut list = Vec::with_capacity(cover.alone.len() + cover.couples.len());
        for (at, slot) in cover.alone.iter().enumerate() {
            let (l, j) = (at / k, at % k);
            let class = &cover.classes[l];
            if let Some(slot) = slot
                && class.count > 0
                && class.size <= cover.capacity[j]
            {
                let (class, units, part) = ([l as u32, NONE], class.size, [slot.part, 0.0]);
                list.push(Column { cost: slot.cost, class, part, resource: j as u32, units, couple: NONE });
            }
        }
        let alone = list.len();
        for (at, couple) in cover.couples.iter().enumerate() {
            let least = if couple.a == couple.b { 2 } else { 1 };
            let there = cover.classes[couple.a].count.min(cover.classes[couple.b].count) >= least;
            if there && cover.capacity[couple.resource] > 0 {
                list.push(Column {
                    cost: couple.cost,
                    class: [couple.a as u32, couple.b as u32],
                    part: [couple.part_a, couple.part_b],
                    resource: couple.resource as u32,
                    units: 1,
                    couple: at as u32,
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
        let (alone, couples) = self.list.split_at(self.alone);
        let of_class = ends(&mut alone.iter().map(|column| column.class[0] as usize), n, 0);
        let pairs = n * (n + 1) / 2;
        let mut of_pair = Vec::new();
        if pairs <= 4 * couples.len() + 1_000 {
            let place = |column: &Column| self.pair(column.class[0] as usize, column.class[1] as usize);
            of_pair = ends(&mut couples.iter().map(place), pairs, self.alone);
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

    /// The couples of two classes, in whatever order.
    pub(super) fn of_pair(&self, a: usize, b: usize) -> Range<usize> {
        let (a, b) = (a.min(b), a.max(b));
        if self.of_pair.is_empty() {
            let couples = &self.list[self.alone..];
            let key = [a as u32, b as u32];
            let first = couples.partition_point(|column| column.class < key);
            let many = couples[first..].iter().take_while(|column| column.class == key).count();
            return self.alone + first..self.alone + first + many;
        }
        let pair = self.pair(a, b);
        self.of_pair[pair] as usize..self.of_pair[pair + 1] as usize
    }

    /// The column of a couple of the question.
    pub(super) fn of_couple(&self, couple: usize) -> Option<usize> {
        let couples = &self.list[self.alone..];
        couples.binary_search_by_key(&(couple as u32), |column| column.couple).ok().map(|at| self.alone + at)
    }

    /// The column of a slot alone.
    pub(super) fn of_alone(&self, class: usize, resource: usize) -> Option<usize> {
        let key = (class as u32, resource as u32);
        self.list[..self.alone].binary_search_by_key(&key, |column| (column.class[0], column.resource)).ok()
    }
}
