//! Enumeration: finds a solution cheaper than the incumbent, or proves that there is none.
//!
//! A solution costs the bound plus regrets (`cover/reduced_costs.rs`), and none is negative. Demands are settled one after the other:
//! take columns, in their order, then be *closed*. A branch is pruned where its certain regrets reach the incumbent.

use super::columns::NONE;
use super::reduced_costs::{Candidate, ReducedCosts};
use super::state::State;

/// A depth-first search over all ways to settle the demands, in a fixed order.
struct Enumeration<'s, 'a> {
    state: &'s mut State<'a>,
    costs: &'s ReducedCosts<'a>,
    /// Demands in the order of settling, and the place of each.
    order: Vec<u32>,
    place: Vec<u32>,
    /// The least cost known, and the units that attain it.
    best: f64,
    units: Option<Vec<(u32, [u32; 2])>>,
    bound: f64,
    nodes: u32,
    most: u32,
    /// Differences in cost below this are rounding.
    grain: f64,
}

/// What an enumeration found.
pub(super) struct Found {
    /// Columns and the demands they serve, if that is better than what was known.
    pub(super) units: Option<Vec<(u32, [u32; 2])>>,
    /// Nodes looked at, and whether they were all.
    pub(super) nodes: u32,
    pub(super) complete: bool,
}

/// Enumerates from an empty state what costs less than `best`, in at most `most` nodes.
pub(super) fn enumerate<'a>(state: &mut State<'a>, costs: &ReducedCosts<'a>, best: f64, most: u32) -> Found {
    let mut order: Vec<u32> = (0..state.class_of.len() as u32).collect();
    // Those with few candidates first.
    order.sort_by_key(|&d| (costs.candidates[state.class_of[d as usize] as usize].len(), d));
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &d)| place[d as usize] = at as u32);
    let bound = costs.bound;
    let grain = 1e-10 * best.abs().max(bound.abs());
    let mut run = Enumeration { state, costs, order, place, best, units: None, bound, nodes: 0, most, grain };
    run.settle(0, 0, 0.0);
    let complete = run.nodes < run.most;
    Found { units: run.units, nodes: run.nodes, complete }
}

impl Enumeration<'_, '_> {
    /// The regret at which a branch is pruned.
    fn limit(&self) -> f64 {
        self.best - self.bound - self.grain
    }

    /// The regret that is certain of a demand.
    fn certain(&self, demand: u32) -> f64 {
        match self.state.class_of.get(demand as usize) {
            Some(&class) => self.costs.regret(class, self.costs.standing(self.state, demand)),
            None => 0.0,
        }
    }

    /// Settles the demand at a place of the order, whose next column is at least the `from`th of its candidates.
    fn settle(&mut self, at: usize, from: usize, regret: f64) {
        if self.nodes >= self.most {
            return;
        }
        self.nodes += 1;
        let Some(&demand) = self.order.get(at) else {
            if self.state.cost < self.best - self.grain {
                self.best = self.state.cost;
                let units = self.state.in_use();
                self.units = Some(units.iter().map(|unit| (unit.column, unit.demands)).collect());
            }
            return;
        };
        let class = self.state.class_of[demand as usize] as usize;
        let closed = regret - self.certain(demand) + self.costs.closed(self.state, demand);
        if closed < self.limit() {
            self.settle(at + 1, 0, closed);
        }
        if !self.state.has_room(demand) {
            return;
        }
        let costs = self.costs;
        for (candidate, &Candidate { column, reduced_cost, .. }) in
            costs.candidates[class].iter().enumerate().skip(from)
        {
            // Ways are in order.
            if reduced_cost >= self.limit() {
                break;
            }
            let more = &self.state.columns[column as usize];
            if self.state.free[more.resource as usize] < more.units {
                continue;
            }
            for demands in self.partners(column, demand) {
                if self.nodes >= self.most {
                    return;
                }
                self.nodes += 1;
                let before = self.state.cost;
                let others = regret - self.certain(demands[0]) - self.certain(demands[1]);
                let unit = self.state.add(column, demands);
                let regret = others + self.certain(demands[0]) + self.certain(demands[1]);
                if regret < self.limit() {
                    self.settle(at, candidate, regret);
                }
                self.state.remove(unit);
                // Exactly: rounding would add up over millions of nodes.
                self.state.cost = before;
            }
        }
    }

    /// Who may use a column with a demand; of partners that hold nothing yet, the first.
    fn partners(&self, column: u32, demand: u32) -> Vec<[u32; 2]> {
        let candidate = &self.state.columns[column as usize];
        if candidate.is_alone() {
            return vec![[demand, NONE]];
        }
        let own = self.state.class_of[demand as usize];
        let mut found = Vec::new();
        for side in 0..2 {
            if candidate.class[side] != own
                || (side == 1 && candidate.class[0] == own && candidate.part[0] == candidate.part[1])
            {
                continue;
            }
            let other = candidate.class[1 - side] as usize;
            let mut blank = false;
            for partner in self.state.starts[other]..self.state.starts[other + 1] {
                let open = self.place[partner as usize] > self.place[demand as usize];
                let empty = self.state.holds[partner as usize].is_empty();
                if open && self.state.has_room(partner) && !(empty && blank) {
                    blank |= empty;
                    found.push(if side == 0 { [demand, partner] } else { [partner, demand] });
                }
            }
        }
        found
    }
}
