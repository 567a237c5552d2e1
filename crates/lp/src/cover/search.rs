//! Ruin-and-recreate search: remove a few units, rebuild, accept by simulated annealing.
//!
//! What is ruined is a *neighbourhood*: demands that good columns join. Their units are taken, and everybody who lost a slot
//! is *open*. Then each open demand in turn is given the column, alone or with another open one, by which the regrets
//! (`cover/reduced_costs.rs`) grow least. The solution that results is judged by what it costs, not by regrets.

use super::columns::NONE;
use super::reduced_costs::ReducedCosts;
use super::state::{State, Unit};

/// A pseudo-random generator (xorshift) with a fixed seed.
struct Random(u64);

impl Random {
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

/// One candidate in so many is overlooked, so that the same ruin is not always built the same.
const BLINK: u64 = 8;
/// A demand that lacks less than this lacks nothing.
const COVERED: f64 = 1.0 - 1e-12;
/// So many demands are built for at once, where there was no ruin.
const TOGETHER: usize = 1_000;
/// Of how many best candidates the related demands come.
pub(super) const RELATED: usize = 24;
/// Demands that are ruined beside the first, at most.
const MOST_OTHERS: usize = 4;
/// Temperature at the start and at the end, over the mean cost of a demand.
const WARM: f64 = 0.1;
const COLD: f64 = 0.001;

/// What an open demand lacks.
#[derive(Clone, Copy, Debug)]
struct Need {
    class: u32,
    /// The regret that is certain.
    regret: f64,
    /// Whether it should be given something, and has room.
    lacks: bool,
}

/// The search and where it stands.
pub(super) struct Search<'s, 'a> {
    pub(super) state: &'s mut State<'a>,
    costs: &'s ReducedCosts<'a>,
    random: Random,
    /// Whether a ruin continues from the demands it opened, rather than around the first: better where most demands differ.
    pub(super) wander: bool,
    /// Demands that lost something, each once.
    open: Vec<u32>,
    is_open: Vec<bool>,
    /// For each of them.
    needs: Vec<Need>,
    /// What was taken and given since the last decision.
    removed: Vec<Unit>,
    added: Vec<u32>,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn new(state: &'s mut State<'a>, costs: &'s ReducedCosts<'a>) -> Self {
        let is_open = vec![false; state.class_of.len()];
        let random = Random(0x9E37_79B9_7F4A_7C15);
        let (open, needs, removed, added) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { state, costs, random, wander: true, open, is_open, needs, removed, added }
    }

    /// Builds for demands that lack something, without ruin.
    pub(super) fn build(&mut self, demands: &[u32]) {
        for some in demands.chunks(TOGETHER) {
            some.iter().for_each(|&demand| self.touch(demand));
            self.recreate();
            self.settle();
        }
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
        let mut spent = 0;
        for time in 0..times {
            spent += 1;
            if time % 64 == 0 {
                temperature = warm * (cold / warm).powf(f64::from(time) / f64::from(times));
            }
            let before = self.state.cost;
            self.ruin(active);
            self.recreate();
            self.trim();
            let worse = self.state.cost - before;
            let licence = if heat > 0.0 { -temperature * self.random.unit().max(1e-12).ln() } else { 0.0 };
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
        spent
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

    /// Takes the units of one demand, then of others, each a good partner of the first, or of somebody who is open by then.
    fn ruin(&mut self, active: &[u32]) {
        let demand = active[self.random.below(active.len())];
        self.strip(demand, true);
        let others = 1 + self.random.below(MOST_OTHERS);
        for _ in 0..others {
            let from = if self.wander { self.open[self.random.below(self.open.len())] } else { demand };
            let class = self.state.class_of[from as usize] as usize;
            let candidates = &self.costs.candidates[class];
            let related = RELATED.min(candidates.len());
            if related == 0 {
                break;
            }
            // Good candidates more often.
            let at = self.random.below(related).min(self.random.below(related));
            let other = candidates[at].other;
            let other = if other == NONE {
                active[self.random.below(active.len())]
            } else {
                let (start, end) = (self.state.starts[other as usize], self.state.starts[other as usize + 1]);
                start + self.random.below((end - start) as usize) as u32
            };
            let all = self.random.below(2) == 0;
            self.strip(other, all);
        }
    }

    fn strip(&mut self, demand: u32, all: bool) {
        self.touch(demand);
        while !self.state.holds[demand as usize].is_empty() {
            let at = self.random.below(self.state.holds[demand as usize].len());
            self.take(self.state.holds[demand as usize][at]);
            if !all {
                break;
            }
        }
    }

    /// Gives open demands what they lack.
    fn recreate(&mut self) {
        for at in (1..self.open.len()).rev() {
            let other = self.random.below(at + 1);
            self.open.swap(at, other);
        }
        self.needs.clear();
        for at in 0..self.open.len() {
            let need = self.need(self.open[at]);
            self.needs.push(need);
        }
        for at in 0..self.open.len() {
            while self.needs[at].lacks {
                let Some((column, demands, other)) = self.best_way(at) else { break };
                self.give(column, demands);
                self.needs[at] = self.need(self.open[at]);
                if other != at {
                    self.needs[other] = self.need(self.open[other]);
                }
            }
        }
    }

    fn need(&self, demand: u32) -> Need {
        let class = self.state.class_of[demand as usize];
        let standing = self.costs.standing(self.state, demand);
        let lacks = self.state.has_room(demand) && self.state.covered(demand) < COVERED;
        Need { class, regret: self.costs.regret(class, standing), lacks }
    }

    /// The column by which regrets grow least for the open demand at a place, its sides, and the place of the other one
    /// (the same if there is none); nothing if it would cost more than it saves.
    fn best_way(&mut self, at: usize) -> Option<(u32, [u32; 2], usize)> {
        let class = self.needs[at].class;
        let (costs, columns) = (self.costs, self.costs.columns);
        let (mut best, mut found) = (f64::INFINITY, None);
        for e in columns.of_class(class as usize) {
            let column = &columns.list[e];
            if self.state.free[column.resource as usize] >= column.units && !self.random.next().is_multiple_of(BLINK) {
                let score = costs.regret_with(class, e, 0);
                if score < best {
                    (best, found) = (score, Some((e, 0, at)));
                }
            }
        }
        for other in (0..self.open.len()).filter(|&other| other != at) {
            let theirs = self.needs[other];
            if !theirs.lacks {
                continue;
            }
            let side = usize::from(theirs.class < class);
            for e in columns.of_pair(class as usize, theirs.class as usize) {
                if self.state.free[costs.resource(e)] == 0 || self.random.next().is_multiple_of(BLINK) {
                    continue;
                }
                let score =
                    costs.regret_with(class, e, side) + costs.regret_with(theirs.class, e, 1 - side) - theirs.regret;
                if score < best {
                    (best, found) = (score, Some((e, side, other)));
                }
            }
        }
        let (e, side, other) = found?;
        let mut demands = [self.open[at], if other == at { NONE } else { self.open[other] }];
        if side == 1 {
            demands.swap(0, 1);
        }
        self.pays(e as u32, demands).then_some((e as u32, demands, other))
    }

    /// Whether a column saves more than it costs.
    fn pays(&self, column: u32, demands: [u32; 2]) -> bool {
        let candidate = &self.state.columns[column as usize];
        let mut delta = candidate.cost - self.state.saves(candidate);
        for (side, demand) in demands.into_iter().enumerate().filter(|x| x.1 != NONE) {
            let class = candidate.class[side] as usize;
            let slots = self.state.holds[demand as usize].len() + 1;
            let covered = self.state.covered(demand) + candidate.part[side];
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
