//! Search: ruin a few units, build anew, keep what is better and sometimes what is not.
//!
//! With prices `λ, V` an answer costs the bound plus what each demand's pattern is dearer than the cheapest, `Σ V + h − S`, and
//! plus `λ` for each idle unit: none of these *regrets* is negative. A demand is given the column with which the best that
//! can still become of it and of its partner (`cover/ladder.rs`) is dearer by least.

use super::Cover;
use super::bound::Prices;
use super::columns::{Columns, NONE};
use super::ladder::{GRID, Ladder, cells};
use super::state::{State, Unit};

/// A column as one class sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// By how much an answer that uses it is dearer at least.
    pub(super) dearer: f64,
    pub(super) column: u32,
    /// The class of the other side, or [`NONE`].
    other: u32,
    resource: u32,
    /// Which side is the class's own.
    side: u32,
}

/// What prices say about columns and patterns.
#[derive(Clone, Debug)]
pub(super) struct Guide {
    /// Per class.
    pub(super) ways: Vec<Vec<Way>>,
    /// V and cells, per column and side.
    pay: Vec<[f64; 2]>,
    cells: Vec<[u8; 2]>,
    ladders: Vec<Ladder>,
    /// What the prices prove, by the count of cells.
    pub(super) bound: f64,
}

impl Guide {
    pub(super) fn new(cover: &Cover, columns: &Columns, prices: &Prices) -> Self {
        let (n, k) = (cover.classes.len(), cover.capacity.len());
        let lambda: Vec<f64> = (0..k).map(|j| prices.units.get(j).map_or(0.0, |price| price.max(0.0))).collect();
        let mut bound: f64 = lambda.iter().zip(&cover.capacity).map(|(price, &units)| -price * f64::from(units)).sum();
        let mut zeta = vec![0.0; n * k];
        for (at, stay) in cover.stays.iter().enumerate() {
            let price = prices.stays.get(at).map_or(0.0, |price| price.clamp(0.0, stay.saving));
            zeta[stay.class * k + stay.resource] = price;
            bound -= (stay.saving - price) * f64::from(stay.held);
        }
        let mut slots: Vec<Vec<(u8, f64, u32)>> = vec![Vec::new(); n];
        let (mut pay, mut cell) = (Vec::with_capacity(columns.list.len()), Vec::with_capacity(columns.list.len()));
        for (e, column) in columns.list.iter().enumerate() {
            let j = column.resource as usize;
            let mut all = column.cost + lambda[j] * f64::from(column.units);
            column.sides().for_each(|(a, _)| all -= zeta[a * k + j]);
            let known = column.couple().map(|at| prices.firsts.get(at).copied().unwrap_or(0.5 * all));
            let paid = known.map_or([all, 0.0], |first| [first, all - first]);
            let counted = column.part.map(|part| if part > 0.0 { cells(part) } else { 0 });
            for (side, (a, _)) in column.sides().enumerate() {
                slots[a].push((counted[side], paid[side], e as u32));
            }
            pay.push(paid);
            cell.push(counted);
        }
        let mut ladders = vec![Ladder::default(); n];
        for (a, class) in cover.classes.iter().enumerate() {
            ladders[a].rebuild(cover, a, slots[a].iter().copied());
            bound += f64::from(class.count) * ladders[a].base;
        }
        let mut guide = Self { ways: vec![Vec::new(); n], pay, cells: cell, ladders, bound };
        guide.order(cover, columns);
        guide
    }

    /// Each class's columns in order.
    fn order(&mut self, cover: &Cover, columns: &Columns) {
        for (e, column) in columns.list.iter().enumerate() {
            let dearer = |side: usize| {
                let a = column.class[side] as usize;
                let rest =
                    self.ladders[a].rest(cover.classes[a].most as usize - 1, GRID - usize::from(self.cells[e][side]));
                f64::max(0.0, self.pay[e][side] + rest - self.ladders[a].base)
            };
            let dearer = dearer(0) + if column.is_alone() { 0.0 } else { dearer(1) };
            let sides = if column.is_alone() || column.class[0] == column.class[1] { 1 } else { 2 };
            for side in 0..sides {
                let (other, resource) = (column.class[1 - side], column.resource);
                let way = Way { dearer, column: e as u32, other, resource, side: side as u32 };
                self.ways[column.class[side] as usize].push(way);
            }
        }
    }

    /// Sorts the ways by how much dearer they are: those below `below`, and no more than `most` per class.
    pub(super) fn keep(&mut self, most: usize, below: f64) {
        for ways in &mut self.ways {
            let order = |x: &Way, y: &Way| x.dearer.total_cmp(&y.dearer).then(x.column.cmp(&y.column));
            ways.retain(|way| way.dearer < below);
            if ways.len() > most {
                ways.select_nth_unstable_by(most, order);
                ways.truncate(most);
            }
            ways.sort_unstable_by(order);
        }
    }

    /// What a demand pays, the cells it lacks, and the slots it may still have.
    pub(super) fn standing(&self, state: &State<'_>, demand: u32) -> (f64, usize, usize) {
        let class = state.class_of[demand as usize] as usize;
        let holds = &state.holds[demand as usize];
        let (mut paid, mut lacking) = (0.0, GRID);
        for &unit in holds {
            let Unit { column, demands } = state.unit(unit);
            let side = usize::from(demands[0] != demand);
            paid += self.pay[column as usize][side];
            lacking = lacking.saturating_sub(usize::from(self.cells[column as usize][side]));
        }
        (paid, lacking, state.cover.classes[class].most as usize - holds.len())
    }

    /// How much dearer than the cheapest pattern any is that continues a standing; exactly 0 for a demand without slots.
    pub(super) fn regret(&self, class: u32, standing: (f64, usize, usize)) -> f64 {
        let (paid, lacking, room) = standing;
        let ladder = &self.ladders[class as usize];
        if lacking == GRID { 0.0 } else { f64::max(0.0, paid + ladder.rest(room, lacking) - ladder.base) }
    }

    /// The same once a side of a column is added.
    fn regret_with(&self, class: u32, standing: (f64, usize, usize), column: u32, side: usize) -> f64 {
        let (paid, lacking, room) = standing;
        let more = usize::from(self.cells[column as usize][side]);
        let ladder = &self.ladders[class as usize];
        let rest = ladder.rest(room - 1, lacking.saturating_sub(more));
        paid + self.pay[column as usize][side] + rest - ladder.base
    }

    /// The same once nothing is added any more.
    pub(super) fn closed(&self, state: &State<'_>, demand: u32) -> f64 {
        let class = state.class_of[demand as usize] as usize;
        let (paid, ..) = self.standing(state, demand);
        f64::max(0.0, paid + state.shortage(demand) - self.ladders[class].base)
    }
}

/// Numbers that look drawn (xorshift), from a fixed seed.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() & 0xFFFF_FFFF) as f64 / 4_294_967_296.0
    }
}

/// One way in so many is overlooked, so that the same ruin is not always built the same.
const BLINK: u64 = 16;
/// A demand that lacks less than this lacks nothing.
const COVERED: f64 = 1.0 - 1e-12;
/// Of how many best ways the related demands come.
const RELATED: usize = 24;
/// Temperature at the start and at the end, over the mean cost of a demand.
const WARM: f64 = 0.05;
const COLD: f64 = 0.001;

/// The search and where it stands.
pub(super) struct Search<'s, 'a> {
    pub(super) state: &'s mut State<'a>,
    guide: &'s Guide,
    draw: Draw,
    /// Demands that lost something, each once.
    open: Vec<u32>,
    is_open: Vec<bool>,
    open_of_class: Vec<u32>,
    /// What was taken and given since the last decision.
    removed: Vec<Unit>,
    added: Vec<u32>,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn new(state: &'s mut State<'a>, guide: &'s Guide) -> Self {
        let is_open = vec![false; state.class_of.len()];
        let open_of_class = vec![0; state.cover.classes.len()];
        let (open, removed, added) = (Vec::new(), Vec::new(), Vec::new());
        Self { state, guide, draw: Draw(0x9E37_79B9_7F4A_7C15), open, is_open, open_of_class, removed, added }
    }

    /// Builds for demands that lack something, without ruin.
    pub(super) fn build(&mut self, demands: &[u32]) {
        demands.iter().for_each(|&demand| self.touch(demand));
        self.recreate();
        self.settle();
    }

    /// Ruins `times` times around `active` demands. The state ends at the best that was seen.
    pub(super) fn run(&mut self, active: &[u32], times: u32, heat: f64, enough: f64) -> u32 {
        if active.is_empty() {
            return 0;
        }
        let mean = self.state.cost.abs() / self.state.class_of.len() as f64;
        let (warm, cold) = (WARM * heat * mean, COLD * mean);
        let (mut best, mut kept): (f64, Option<Vec<Unit>>) = (self.state.cost, None);
        let mut temperature = warm;
        for time in 0..times {
            if time % 64 == 0 {
                temperature = warm * (cold / warm).powf(f64::from(time) / f64::from(times));
            }
            let before = self.state.cost;
            self.ruin(active);
            self.recreate();
            self.trim();
            let worse = self.state.cost - before;
            let licence = if heat > 0.0 { -temperature * self.draw.unit().max(1e-12).ln() } else { 0.0 };
            if worse > licence {
                self.undo(before);
            } else if worse > 0.0 && before < best {
                // The best so far is about to be left.
                best = before;
                kept = Some(self.units_before());
            }
            self.settle();
            if self.state.cost.min(best) <= enough {
                break;
            }
        }
        if let Some(units) = kept
            && best < self.state.cost
        {
            self.restore(&units);
        }
        times
    }

    /// All units, as they were before the changes that are not settled.
    fn units_before(&self) -> Vec<Unit> {
        let mut units = self.state.in_use();
        for &unit in &self.added {
            let Unit { column, demands } = self.state.unit(unit);
            if let Some(at) = units.iter().position(|u| u.column == column && u.demands == demands) {
                units.swap_remove(at);
            }
        }
        units.extend(&self.removed);
        units
    }

    fn restore(&mut self, units: &[Unit]) {
        let mut now: Vec<u32> = self.state.holds.iter().flatten().copied().collect();
        now.sort_unstable();
        now.dedup();
        now.into_iter().for_each(|unit| {
            self.state.remove(unit);
        });
        units.iter().for_each(|unit| {
            self.state.add(unit.column, unit.demands);
        });
    }

    fn touch(&mut self, demand: u32) {
        if demand != NONE && !std::mem::replace(&mut self.is_open[demand as usize], true) {
            self.open.push(demand);
            self.open_of_class[self.state.class_of[demand as usize] as usize] += 1;
        }
    }

    fn take(&mut self, unit: u32) {
        let gone = self.state.remove(unit);
        match self.added.iter().position(|&added| added == unit) {
            Some(at) => {
                self.added.swap_remove(at);
            }
            None => self.removed.push(gone),
        }
        gone.demands.into_iter().for_each(|demand| self.touch(demand));
    }

    fn give(&mut self, column: u32, demands: [u32; 2]) {
        let unit = self.state.add(column, demands);
        self.added.push(unit);
    }

    fn undo(&mut self, cost: f64) {
        while let Some(unit) = self.added.pop() {
            self.state.remove(unit);
        }
        while let Some(unit) = self.removed.pop() {
            self.state.add(unit.column, unit.demands);
        }
        self.state.cost = cost;
    }

    fn settle(&mut self) {
        self.added.clear();
        self.removed.clear();
        for demand in self.open.drain(..) {
            self.is_open[demand as usize] = false;
            self.open_of_class[self.state.class_of[demand as usize] as usize] = 0;
        }
    }

    /// Takes units of one demand, and of some whose units it could use.
    fn ruin(&mut self, active: &[u32]) {
        let demand = active[self.draw.below(active.len())];
        self.strip(demand, true);
        let class = self.state.class_of[demand as usize] as usize;
        let others = 1 + self.draw.below(4);
        for _ in 0..others {
            let ways = &self.guide.ways[class];
            let related = RELATED.min(ways.len());
            if related == 0 {
                break;
            }
            // Good ways more often.
            let at = self.draw.below(related).min(self.draw.below(related));
            let other = ways[at].other;
            let other = if other == NONE {
                active[self.draw.below(active.len())]
            } else {
                let (start, end) = (self.state.starts[other as usize], self.state.starts[other as usize + 1]);
                start + self.draw.below((end - start) as usize) as u32
            };
            let all = self.draw.below(2) == 0;
            self.strip(other, all);
        }
    }

    fn strip(&mut self, demand: u32, all: bool) {
        self.touch(demand);
        while !self.state.holds[demand as usize].is_empty() {
            let at = self.draw.below(self.state.holds[demand as usize].len());
            self.take(self.state.holds[demand as usize][at]);
            if !all {
                break;
            }
        }
    }

    /// Gives open demands what they lack.
    fn recreate(&mut self) {
        for at in (1..self.open.len()).rev() {
            let other = self.draw.below(at + 1);
            self.open.swap(at, other);
        }
        for at in 0..self.open.len() {
            let demand = self.open[at];
            while self.state.has_room(demand) {
                match self.best_way(demand) {
                    Some((column, demands)) => self.give(column, demands),
                    None => break,
                }
            }
        }
    }

    /// The column that costs least beyond what is paid for it, if it costs less than what it covers.
    fn best_way(&mut self, demand: u32) -> Option<(u32, [u32; 2])> {
        if self.state.covered(demand) >= COVERED {
            return None;
        }
        let class = self.state.class_of[demand as usize];
        let mut best: Option<(f64, u32, [u32; 2])> = None;
        let guide = self.guide;
        let standing = guide.standing(self.state, demand);
        for way in &guide.ways[class as usize] {
            // From nothing, the order of the ways is that of the scores at best.
            if standing.1 == GRID && best.is_some_and(|best| best.0 <= way.dearer) {
                break;
            }
            let Way { column, other, resource, .. } = *way;
            if other != NONE && self.open_of_class[other as usize] == 0 {
                continue;
            }
            let units = if other == NONE { self.state.cover.classes[class as usize].size } else { 1 };
            if self.state.free[resource as usize] < units || self.draw.next().is_multiple_of(BLINK) {
                continue;
            }
            let side = way.side as usize;
            let mut demands = [demand, NONE];
            let mut score = guide.regret_with(class, standing, column, side);
            if other != NONE {
                let Some(partner) = self.partner(other, demand) else { continue };
                let theirs = guide.standing(self.state, partner);
                score += guide.regret_with(other, theirs, column, 1 - side) - guide.regret(other, theirs);
                demands = if side == 0 { [demand, partner] } else { [partner, demand] };
            }
            if best.is_none_or(|best| score < best.0) {
                best = Some((score, column, demands));
            }
        }
        let (_, column, demands) = best?;
        self.pays(column, demands).then_some((column, demands))
    }

    /// An open demand of a class that lacks something and has room.
    fn partner(&self, class: u32, demand: u32) -> Option<u32> {
        let lacks = |other: u32| other != demand && self.state.has_room(other) && self.state.covered(other) < COVERED;
        let first = self.state.starts[class as usize];
        if self.state.starts[class as usize + 1] == first + 1 {
            return (self.is_open[first as usize] && lacks(first)).then_some(first);
        }
        self.open.iter().copied().find(|&other| self.state.class_of[other as usize] == class && lacks(other))
    }

    /// Whether a column saves more than it costs.
    fn pays(&self, column: u32, demands: [u32; 2]) -> bool {
        let way = &self.state.columns[column as usize];
        let mut delta = way.cost - self.state.saves(way);
        for (side, demand) in demands.into_iter().enumerate().filter(|x| x.1 != NONE) {
            let class = way.class[side] as usize;
            let slots = self.state.holds[demand as usize].len() + 1;
            let covered = self.state.covered(demand) + way.part[side];
            delta += self.state.cover.shortage(class, covered, slots) - self.state.shortage(demand);
        }
        delta < 0.0
    }

    /// Takes units that are not needed any more from demands that were given some.
    fn trim(&mut self) {
        for at in 0..self.open.len() {
            let demand = self.open[at];
            if self.state.covered(demand) < COVERED {
                continue;
            }
            for unit in self.state.holds[demand as usize].clone() {
                let before = self.state.cost;
                let gone = self.state.unit(unit);
                self.take(unit);
                if self.state.cost >= before {
                    self.give(gone.column, gone.demands);
                } else {
                    break;
                }
            }
        }
    }
}
