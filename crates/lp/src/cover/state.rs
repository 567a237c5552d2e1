//! A feasible solution under construction: units with the demands they serve. Its cost is kept up to date.

use super::columns::{Column, Columns, NONE};
use super::{Cover, Pattern, Slot, Solution};
use std::collections::BTreeMap;

/// A column in use, and by which demands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) column: u32,
    pub(super) demands: [u32; 2],
}

#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    pub(super) cover: &'a Cover,
    pub(super) columns: &'a [Column],
    /// Where the demands of each class begin, and where the last ends.
    pub(super) starts: Vec<u32>,
    pub(super) class_of: Vec<u32>,
    /// Per demand, the units it has a slot of.
    pub(super) holds: Vec<Vec<u32>>,
    units: Vec<Unit>,
    vacant: Vec<u32>,
    /// Units left of each resource.
    pub(super) free: Vec<u32>,
    /// Held and saving per class and resource, where there are stays; and how many slots are there.
    stays: Vec<(u32, f64)>,
    slots: Vec<u32>,
    pub(super) cost: f64,
}

impl<'a> State<'a> {
    /// Nobody has anything.
    pub(super) fn new(cover: &'a Cover, columns: &'a Columns) -> Self {
        let (n, k) = (cover.classes.len(), cover.capacity.len());
        let mut starts = vec![0u32];
        let mut class_of = Vec::new();
        for (l, class) in cover.classes.iter().enumerate() {
            class_of.extend(std::iter::repeat_n(l as u32, class.count as usize));
            starts.push(class_of.len() as u32);
        }
        let mut stays = Vec::new();
        if !cover.stays.is_empty() {
            stays = vec![(0, 0.0); n * k];
            cover.stays.iter().for_each(|stay| stays[stay.class * k + stay.resource] = (stay.held, stay.saving));
        }
        let cost = (cover.classes.iter().enumerate())
            .map(|(l, class)| f64::from(class.count) * cover.shortage(l, 0.0, 0))
            .sum();
        Self {
            cover,
            columns: &columns.list,
            starts,
            holds: vec![Vec::new(); class_of.len()],
            class_of,
            units: Vec::new(),
            vacant: Vec::new(),
            free: cover.capacity.clone(),
            slots: vec![0; stays.len()],
            stays,
            cost,
        }
    }

    pub(super) fn unit(&self, unit: u32) -> Unit {
        self.units[unit as usize]
    }

    /// The part of a demand that a unit covers.
    fn part(&self, demand: u32, unit: u32) -> f64 {
        let Unit { column, demands } = self.units[unit as usize];
        self.columns[column as usize].part[usize::from(demands[0] != demand)]
    }

    /// How much of a demand is covered.
    pub(super) fn covered(&self, demand: u32) -> f64 {
        self.holds[demand as usize].iter().map(|&unit| self.part(demand, unit)).sum()
    }

    /// h of a demand as it stands.
    pub(super) fn shortage(&self, demand: u32) -> f64 {
        let class = self.class_of[demand as usize] as usize;
        self.cover.shortage(class, self.covered(demand), self.holds[demand as usize].len())
    }

    /// Whether a demand may have a slot.
    pub(super) fn has_room(&self, demand: u32) -> bool {
        self.holds[demand as usize].is_empty()
    }

    /// What the next slot of a class on a resource saves, or the last one saved.
    fn saving(&self, class: usize, resource: u32, at: u32) -> f64 {
        match self.stays.get(class * self.cover.capacity.len() + resource as usize) {
            Some(&(held, saving)) if at < held => saving,
            _ => 0.0,
        }
    }

    /// Slots that have a stay count up or down.
    fn visit(&mut self, column: &Column, comes: bool) {
        if self.stays.is_empty() {
            return;
        }
        for (class, _) in column.sides() {
            let at = class * self.free.len() + column.resource as usize;
            if comes {
                self.cost -= self.saving(class, column.resource, self.slots[at]);
                self.slots[at] += 1;
            } else {
                self.slots[at] -= 1;
                self.cost += self.saving(class, column.resource, self.slots[at]);
            }
        }
    }

    /// What the stays save on a column if it is used once more.
    pub(super) fn saves(&self, column: &Column) -> f64 {
        if self.stays.is_empty() {
            return 0.0;
        }
        let k = self.free.len();
        let next = |class: usize, more| {
            self.saving(class, column.resource, self.slots[class * k + column.resource as usize] + more)
        };
        let mut saved = next(column.class[0] as usize, 0);
        if !column.is_alone() {
            saved += next(column.class[1] as usize, u32::from(column.class[0] == column.class[1]));
        }
        saved
    }

    /// Uses a column for demands that have room, where units are free.
    pub(super) fn add(&mut self, column: u32, demands: [u32; 2]) -> u32 {
        let activity = self.columns[column as usize];
        let unit = self.vacant.pop().unwrap_or(self.units.len() as u32);
        let made = Unit { column, demands };
        match self.units.get_mut(unit as usize) {
            Some(place) => *place = made,
            None => self.units.push(made),
        }
        self.free[activity.resource as usize] -= activity.units;
        self.cost += activity.cost;
        for demand in demands.into_iter().filter(|&d| d != NONE) {
            self.cost -= self.shortage(demand);
            self.holds[demand as usize].push(unit);
            self.cost += self.shortage(demand);
        }
        self.visit(&activity, true);
        unit
    }

    /// Takes a unit from everybody.
    pub(super) fn remove(&mut self, unit: u32) -> Unit {
        let gone = self.units[unit as usize];
        let activity = self.columns[gone.column as usize];
        self.free[activity.resource as usize] += activity.units;
        self.cost -= activity.cost;
        for demand in gone.demands.into_iter().filter(|&d| d != NONE) {
            self.cost -= self.shortage(demand);
            self.holds[demand as usize].retain(|&held| held != unit);
            self.cost += self.shortage(demand);
        }
        self.visit(&activity, false);
        self.vacant.push(unit);
        gone
    }

    /// All units in use.
    pub(super) fn in_use(&self) -> Vec<Unit> {
        let mut used: Vec<u32> = self.holds.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        used.into_iter().map(|unit| self.units[unit as usize]).collect()
    }

    /// Writes the solution, with its cost added up afresh.
    pub(super) fn solution(&self) -> Solution {
        let (n, k) = (self.cover.classes.len(), self.cover.capacity.len());
        let mut alone = vec![0u32; n * k];
        let mut pairs = vec![0u32; self.cover.pairs.len()];
        let mut cost = 0.0;
        let mut slots = vec![0u32; n * k];
        for Unit { column, .. } in self.in_use() {
            let column = &self.columns[column as usize];
            match column.slot(0) {
                Slot::Alone(j) => alone[column.class[0] as usize * k + j] += 1,
                Slot::First(at) | Slot::Second(at) => pairs[at] += 1,
            }
            cost += column.cost;
            column.sides().for_each(|(class, _)| slots[class * k + column.resource as usize] += 1);
        }
        for stay in &self.cover.stays {
            cost -= stay.saving * f64::from(stay.held.min(slots[stay.class * k + stay.resource]));
        }
        let mut groups: BTreeMap<(usize, Vec<Slot>), u32> = BTreeMap::new();
        let (mut short, mut unserved) = (vec![0.0; n], vec![0; n]);
        for (demand, units) in self.holds.iter().enumerate() {
            let class = self.class_of[demand] as usize;
            let mut held: Vec<Slot> = units.iter().map(|&unit| self.slot(demand as u32, unit)).collect();
            held.sort_unstable();
            *groups.entry((class, held)).or_insert(0) += 1;
            short[class] += f64::max(0.0, 1.0 - self.covered(demand as u32));
            unserved[class] += u32::from(units.is_empty());
            cost += self.shortage(demand as u32);
        }
        let patterns = groups.into_iter().map(|((class, slots), demands)| Pattern { class, slots, demands }).collect();
        Solution { alone, pairs, patterns, short, unserved, cost, ..Solution::default() }
    }

    fn slot(&self, demand: u32, unit: u32) -> Slot {
        let Unit { column, demands } = self.units[unit as usize];
        self.columns[column as usize].slot(usize::from(demands[0] != demand))
    }
}
