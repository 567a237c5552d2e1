//! Search: ruin a few units, build anew, keep what is better and sometimes what is not.
//!
//! Columns are tried in the order of what they cost beyond their price (`red`, see `cover/exact.rs`): an answer at the
//! bound would use only those at 0. A demand that lacks the part `q` pays `V(min(p, q))` for a column that covers `p`.

use super::Cover;
use super::bound::{self, Prices, Steps};
use super::columns::{Columns, NONE};
use super::state::{State, Unit};

/// What prices say about columns.
#[derive(Clone, Debug)]
pub(super) struct Guide {
    /// Per class, columns and their reduced costs, which ascend and are not negative.
    pub(super) ways: Vec<Vec<(u32, f64)>>,
    /// V.
    steps: Vec<Steps>,
    /// S: what the cheapest pattern costs.
    base: Vec<f64>,
}

impl Guide {
    /// Columns whose reduced cost is below `below`, and no more than `most` per class.
    pub(super) fn new(cover: &Cover, columns: &Columns, prices: &Prices, most: usize, below: f64) -> Self {
        let (n, k) = (cover.classes.len(), cover.capacity.len());
        let mut steps = prices.slots.clone();
        steps.resize(n, Steps::default());
        let mut zeta = vec![0.0; n * k];
        for (at, stay) in cover.stays.iter().enumerate() {
            let price = prices.stays.get(at).map_or(0.0, |price| price.clamp(0.0, stay.saving));
            zeta[stay.class * k + stay.resource] = price;
        }
        let mut points: Vec<Vec<(f64, f64)>> =
            steps.iter().map(|steps| steps.values.iter().map(|&value| (value, 0.0)).collect()).collect();
        points.iter_mut().filter(|points| points.is_empty()).for_each(|points| points.push((0.0, 0.0)));
        let mut least = vec![0.0f64; k];
        let mut reduced = Vec::with_capacity(columns.list.len());
        for column in &columns.list {
            let j = column.resource as usize;
            let units = f64::from(column.units);
            let mut red = column.cost + units * prices.units.get(j).map_or(0.0, |price| price.max(0.0));
            for (a, part) in column.sides() {
                let point = &mut points[a][steps[a].step(part)];
                red -= point.0 + zeta[a * k + j];
                point.1 = point.1.max(part);
            }
            least[j] = least[j].min(red / units);
            reduced.push(red);
        }
        let mut ways: Vec<Vec<(u32, f64)>> = vec![Vec::new(); n];
        for (at, column) in columns.list.iter().enumerate() {
            // As if units cost so much more that no column is too cheap: the bound is the same.
            let red = f64::max(0.0, reduced[at] - least[column.resource as usize] * f64::from(column.units));
            if red < below {
                column.sides().take(if column.class[0] == column.class[1] { 1 } else { 2 }).for_each(|(a, _)| {
                    ways[a].push((at as u32, red));
                });
            }
        }
        for ways in &mut ways {
            let order = |x: &(u32, f64), y: &(u32, f64)| x.1.total_cmp(&y.1).then(x.0.cmp(&y.0));
            if ways.len() > most {
                ways.select_nth_unstable_by(most, order);
                ways.truncate(most);
            }
            ways.sort_unstable_by(order);
        }
        points.iter_mut().for_each(|points| points.retain(|point| point.1 > 0.0));
        let base = (0..n).map(|a| bound::cheapest(cover, a, &points[a])).collect();
        Self { ways, steps, base }
    }

    /// What a demand's pattern costs beyond the cheapest.
    pub(super) fn regret(&self, state: &State<'_>, demand: u32) -> f64 {
        let class = state.class_of[demand as usize] as usize;
        let part = |unit: &u32| {
            let Unit { column, demands } = state.unit(*unit);
            state.columns[column as usize].part[usize::from(demands[0] != demand)]
        };
        let paid: f64 = state.holds[demand as usize].iter().map(|unit| self.steps[class].at(part(unit))).sum();
        f64::max(0.0, paid + state.shortage(demand) - self.base[class])
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
    /// What was taken and given since the last decision.
    removed: Vec<Unit>,
    added: Vec<u32>,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn new(state: &'s mut State<'a>, guide: &'s Guide) -> Self {
        let is_open = vec![false; state.class_of.len()];
        let (open, removed, added) = (Vec::new(), Vec::new(), Vec::new());
        Self { state, guide, draw: Draw(0x9E37_79B9_7F4A_7C15), open, is_open, removed, added }
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
            let column = self.state.columns[ways[at].0 as usize];
            let other = if column.class[0] as usize == class { column.class[1] } else { column.class[0] };
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
        let covered = self.state.covered(demand);
        if covered >= COVERED {
            return None;
        }
        let class = self.state.class_of[demand as usize];
        let mut best: Option<(f64, u32, [u32; 2])> = None;
        let guide = self.guide;
        for &(column, reduced) in &guide.ways[class as usize] {
            if best.is_some_and(|best| best.0 <= reduced) {
                break;
            }
            let way = &self.state.columns[column as usize];
            if self.state.free[way.resource as usize] < way.units || self.draw.next() % BLINK == 0 {
                continue;
            }
            let side = usize::from(way.class[0] != class);
            let mut demands = [demand, NONE];
            let mut score = reduced + self.overpaid(class, way.part[side], 1.0 - covered);
            if !way.is_alone() {
                let Some(partner) = self.partner(way.class[1 - side], demand) else { continue };
                score += self.overpaid(way.class[1 - side], way.part[1 - side], 1.0 - self.state.covered(partner));
                demands = if side == 0 { [demand, partner] } else { [partner, demand] };
            }
            if best.is_none_or(|best| score < best.0) {
                best = Some((score, column, demands));
            }
        }
        let (_, column, demands) = best?;
        self.pays(column, demands).then_some((column, demands))
    }

    /// What a class would pay for more than it lacks.
    fn overpaid(&self, class: u32, part: f64, lacks: f64) -> f64 {
        if part <= lacks {
            return 0.0;
        }
        let steps = &self.guide.steps[class as usize];
        steps.at(part) - steps.at(lacks.max(0.0))
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
