//! What the linear solution settles where classes are large.
//!
//! Of thousands of demands that are alike nearly all are served as the linear program says, and only the fractions are open. So whole numbers of each
//! column's amount are settled, less a margin, and so are demands without a slot; what is left is a problem of some hundred
//! demands with the same classes, prices and columns, whatever the number of demands was.

use super::columns::Columns;
use super::{Cover, Pattern, Slot, Solution};
use std::collections::BTreeMap;

/// Units of each column, and demands of each class without a slot, that are left open.
const MARGIN: f64 = 3.0;

/// Columns in use for good, and what they leave.
pub(super) struct Settled {
    /// Times that each column is used.
    columns: Vec<(u32, u32)>,
    /// Per class, demands that get nothing.
    unserved: Vec<u32>,
    /// Per class and resource, slots.
    slots: Vec<u32>,
    /// What is left to decide.
    pub(super) rest: Cover,
    /// What is settled costs.
    pub(super) cost: f64,
}

/// The whole part of an amount that is settled.
fn whole(amount: f64) -> u32 {
    (amount - MARGIN).floor().max(0.0) as u32
}

impl Settled {
    /// Settles what `x`, amounts of columns, says. What does not fit because of rounding is left open.
    pub(super) fn new(cover: &Cover, columns: &Columns, x: &[(u32, f64)]) -> Self {
        let (n, k) = (cover.classes.len(), cover.capacity.len());
        let mut settled =
            Self { columns: Vec::new(), unserved: vec![0; n], slots: vec![0; n * k], rest: cover.clone(), cost: 0.0 };
        let mut served = vec![0.0; n];
        for &(e, amount) in x {
            let column = &columns.list[e as usize];
            column.sides().for_each(|(class, _)| served[class] += amount);
            let mut times = whole(amount).min(settled.rest.capacity[column.resource as usize] / column.units.max(1));
            for (class, _) in column.sides() {
                let twice = if column.class[0] == column.class[1] { 2 } else { 1 };
                times = times.min(settled.rest.classes[class].count / twice);
            }
            if times > 0 {
                settled.use_column(cover, columns, e, times);
            }
        }
        for (l, class) in settled.rest.classes.iter_mut().enumerate() {
            settled.unserved[l] = whole(f64::from(cover.classes[l].count) - served[l]).min(class.count);
            class.count -= settled.unserved[l];
            settled.cost += f64::from(settled.unserved[l]) * cover.shortage(l, 0.0, 0);
        }
        for stay in &mut settled.rest.stays {
            let here = settled.slots[stay.class * k + stay.resource].min(stay.held);
            settled.cost -= stay.saving * f64::from(here);
            stay.held -= here;
        }
        settled
    }

    /// What is left of the amounts.
    pub(super) fn open(&self, x: &[(u32, f64)]) -> Vec<(u32, f64)> {
        let times: BTreeMap<u32, u32> = self.columns.iter().copied().collect();
        x.iter().map(|&(e, amount)| (e, amount - f64::from(times.get(&e).copied().unwrap_or(0)))).collect()
    }

    fn use_column(&mut self, cover: &Cover, columns: &Columns, e: u32, times: u32) {
        let column = &columns.list[e as usize];
        let k = cover.capacity.len();
        self.columns.push((e, times));
        self.rest.capacity[column.resource as usize] -= times * column.units;
        self.cost += f64::from(times) * column.cost;
        for (class, part) in column.sides() {
            self.rest.classes[class].count -= times;
            self.slots[class * k + column.resource as usize] += times;
            self.cost += f64::from(times) * cover.shortage(class, part, 1);
        }
    }

    /// Adds what is settled to a solution of the rest.
    pub(super) fn complete(&self, columns: &Columns, solution: &mut Solution) {
        let k = self.rest.capacity.len();
        let mut groups: BTreeMap<(usize, Vec<Slot>), u32> = BTreeMap::new();
        for Pattern { class, slots, demands } in solution.patterns.drain(..) {
            groups.insert((class, slots), demands);
        }
        for &(e, times) in &self.columns {
            let column = &columns.list[e as usize];
            match column.slot(0) {
                Slot::Alone(j) => solution.alone[column.class[0] as usize * k + j] += times,
                Slot::First(at) | Slot::Second(at) => solution.pairs[at] += times,
            }
            for (side, (class, part)) in column.sides().enumerate() {
                *groups.entry((class, vec![column.slot(side)])).or_insert(0) += times;
                solution.short[class] += f64::from(times) * f64::max(0.0, 1.0 - part);
            }
        }
        for (class, &unserved) in self.unserved.iter().enumerate().filter(|(_, unserved)| **unserved > 0) {
            *groups.entry((class, Vec::new())).or_insert(0) += unserved;
            solution.short[class] += f64::from(unserved);
            solution.unserved[class] += unserved;
        }
        let pattern = |((class, slots), demands)| Pattern { class, slots, demands };
        solution.patterns = groups.into_iter().map(pattern).collect();
        solution.cost += self.cost;
    }
}
