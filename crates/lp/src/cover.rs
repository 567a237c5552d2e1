//! Covering demands by whole units: which unit serves which demand, alone or two at a time, at the least cost.
//!
//! A class `l` has `n_l` demands that are alike. One unit of a resource `j` may serve one demand alone, or a *pair* of
//! two different demands; either way every demand served has one *slot*, which covers a part `p ∈ (0, 1]` of it. A class
//! of size `u_l > 1` takes `u_l` units for a slot, and is never in a pair. All numbers of units are whole:
//!
//! ```text
//! minimise  Σ_e c_e x_e + Σ_demands h − Σ saving_lj · min(held_lj, slots of l on j)
//! Σ_{e on j} u_e x_e ≤ m_j        a demand has at most one slot        x whole
//! h = short_price_l · (1 − p) with a slot,  short_price_l + unserved_price_l without
//! ```
//!
//! Every slot that is paid for is held by a demand. The two slots of one unit go to two demands, also where both are of one class.
//!
//! # How it is solved
//!
//! 1. *Dual prices.* A linear program over slots, by column generation (`cover/master.rs`). Where most demands differ, a dual ascent
//!    finds its first columns (`cover/ascent.rs`). The lower bound of the prices is computed from the problem (`cover/bound.rs`).
//! 2. *Primal heuristics.* Demands take the whole parts of the linear solution (`cover/round.rs`); where classes are large, most of them
//!    for good (`cover/settled.rs`). A large-neighbourhood
//!    search removes a few units and rebuilds them where reduced costs are least (`cover/reduced_costs.rs`, `cover/search.rs`).
//! 3. *Enumeration.* A solution costs the bound plus terms that are not negative: what slots cost beyond the cheapest, and
//!    units left idle. Branches end where these reach the incumbent (`cover/exact.rs`): small problems are solved to the end.
//!
//! What must never happen here: a cost or bound in a [`Solution`] that [`check`] and [`bound`] do not find again from the
//! problem, a clock, or randomness from outside (the search draws from a fixed seed).

mod ascent;
mod bound;
mod columns;

mod exact;
mod master;
mod pattern_cost;
mod reduced_costs;
mod round;
mod search;
mod settled;
mod state;
mod verify;

pub use bound::{Prices, bound};
pub use verify::{Violation, check};

use crate::input::{Domain, check_count, check_known, check_number, check_pair_order, check_shape, check_some};
use crate::{Certificate, InputError};
use ascent::Ascent;
use columns::Columns;
use master::Master;
use reduced_costs::ReducedCosts;
use settled::Settled;
use state::State;

/// Demands that are alike.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Class {
    /// n: how many there are.
    pub count: u32,
    /// u: units that one slot takes; at least 1. Only classes of size 1 are in pairs.
    pub size: u32,
    /// What a demand costs of which nothing is covered; in proportion if some of it is.
    pub short_price: f64,
    /// What a demand without any slot costs on top.
    pub unserved_price: f64,
}

/// One demand of a class on one resource.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Alone {
    /// What the slot costs.
    pub cost: f64,
    /// p: which part of the demand it covers; above 0, at most 1.
    pub part: f64,
}

/// Two demands on one unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    /// The class of one...
    pub a: usize,
    /// ...and of the other; no less than `a`.
    pub b: usize,
    /// The unit that holds both is of this resource.
    pub resource: usize,
    /// What the unit costs.
    pub cost: f64,
    /// The part of the first demand that is covered...
    pub part_a: f64,
    /// ...and of the second.
    pub part_b: f64,
}

/// Demands that are there already.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stay {
    /// The class of the demand that is there already.
    pub class: usize,
    /// The resource that it holds.
    pub resource: usize,
    /// How many slots of the class on the resource save something.
    pub held: u32,
    /// What each of them saves.
    pub saving: f64,
}

/// A problem. Costs, prices and savings are finite and not negative: where an idle unit costs something, subtract that
/// from every column on its resource.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cover {
    /// m: units of each resource.
    pub capacity: Vec<u32>,
    /// Demands that are alike.
    pub classes: Vec<Class>,
    /// Classes × resources, row by row; `None` where a class cannot be alone.
    pub alone: Vec<Option<Alone>>,
    /// Sorted by `(a, b, resource)`, each once.
    pub pairs: Vec<Pair>,
    /// In any order, each class and resource once.
    pub stays: Vec<Stay>,
}

/// How much work to spend. All of it is counted, none of it timed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// Linear programs.
    pub programs: u32,
    /// Iterations of the search: times that it removes and rebuilds a part of the solution.
    pub ruins: u32,
    /// Nodes of the enumeration.
    pub nodes: u32,
    /// The relative gap at which to stop.
    pub gap: f64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { programs: 30, ruins: 100_000, nodes: 200_000, gap: 1e-4 }
    }
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Slot {
    /// Alone on a resource.
    Alone(usize),
    /// The first of a pair, by its position in the problem.
    First(usize),
    /// The second of a pair, by its index.
    Second(usize),
}

/// Demands of one class that hold the same slots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pattern {
    /// The class whose demand is served this way.
    pub class: usize,
    /// One; none where the demands get nothing.
    pub slots: Vec<Slot>,
    /// How many demands hold these.
    pub demands: u32,
}

/// Who is served by what, and what it costs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Solution {
    /// Slots alone, classes × resources.
    pub alone: Vec<u32>,
    /// Units per pair.
    pub pairs: Vec<u32>,
    /// Who holds what; all demands of all classes.
    pub patterns: Vec<Pattern>,
    /// Per class, the sum of the parts that are not covered.
    pub short: Vec<f64>,
    /// Per class, how many demands have no slot.
    pub unserved: Vec<u32>,
    /// Of columns, of demands left unserved, less the savings of stays.
    pub cost: f64,
    /// No solution costs less.
    pub bound: f64,
    /// The prices behind the bound; [`bound()`] recomputes it, unless `complete`.
    pub prices: Prices,
    /// Whether the enumeration is complete: then the bound is the cost.
    pub complete: bool,
    /// Work done.
    pub spent: Spent,
}

/// Work done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Linear programs.
    pub programs: u32,
    /// Times that a part of the solution was torn down and rebuilt.
    pub ruins: u32,
    /// Nodes of the search tree.
    pub nodes: u32,
    /// Columns in the last program.
    pub columns: usize,
}

impl Solution {
    /// Bounds of the optimal cost.
    #[must_use]
    pub fn certificate(&self) -> Certificate {
        Certificate { lower: self.bound, upper: self.cost }
    }

    /// How far the cost may be above the optimum, relative to the cost.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.certificate().gap()
    }
}

/// Demands are numbered by 32 bits, and each has a place in memory.
const MOST_DEMANDS: u64 = 50_000_000;

impl Cover {
    fn check(&self) -> Result<(), InputError> {
        let (n, k) = (self.classes.len(), self.capacity.len());
        check_some(n, k)?;
        check_shape("alone", self.alone.len(), n.saturating_mul(k))?;
        for (index, class) in self.classes.iter().enumerate() {
            check_number("short price of class", index, class.short_price, Domain::NonNegative)?;
            check_number("unserved price of class", index, class.unserved_price, Domain::NonNegative)?;
            check_number("size of class", index, f64::from(class.size), Domain::AtLeastOne)?;
        }
        for (index, slot) in self.alone.iter().enumerate() {
            if let Some(slot) = slot {
                check_number("cost of slot", index, slot.cost, Domain::NonNegative)?;
                check_number("part of slot", index, slot.part, Domain::Fraction)?;
            }
        }
        check_count("demands", self.classes.iter().map(|class| u64::from(class.count)).sum(), MOST_DEMANDS)?;
        self.check_pairs()?;
        self.check_stays()
    }

    fn check_pairs(&self) -> Result<(), InputError> {
        let (n, k) = (self.classes.len(), self.capacity.len());
        for (index, pair) in self.pairs.iter().enumerate() {
            for (what, value) in [("the first class of pair", pair.a), ("the second class of pair", pair.b)] {
                check_known(what, index, value, n)?;
                if self.classes[value].size != 1 {
                    return Err(InputError::Unknown { what, index, value });
                }
            }
            check_known("the resource of pair", index, pair.resource, k)?;
            check_number("cost of pair", index, pair.cost, Domain::NonNegative)?;
            check_number("first part of pair", index, pair.part_a, Domain::Fraction)?;
            check_number("second part of pair", index, pair.part_b, Domain::Fraction)?;
        }
        check_pair_order(self.pairs.iter().map(|pair| (pair.a, pair.b, pair.resource)))
    }

    fn check_stays(&self) -> Result<(), InputError> {
        let (n, k) = (self.classes.len(), self.capacity.len());
        let mut seen = vec![false; n * k];
        for (index, stay) in self.stays.iter().enumerate() {
            check_known("the class of stay", index, stay.class, n)?;
            check_known("the resource of stay", index, stay.resource, k)?;
            check_number("saving of stay", index, stay.saving, Domain::NonNegative)?;
            if std::mem::replace(&mut seen[stay.class * k + stay.resource], true) {
                return Err(InputError::Repeated { what: "stay", index });
            }
        }
        Ok(())
    }

    /// h: what a demand of a class costs that is covered by `sum` in `slots` slots.
    fn shortage(&self, class: usize, sum: f64, slots: usize) -> f64 {
        let Class { short_price, unserved_price, .. } = self.classes[class];
        if slots == 0 { short_price + unserved_price } else { short_price * f64::max(0.0, 1.0 - sum) }
    }
}

/// Passes in which prices climb class by class before the first linear program, and how many of the best columns of each class it begins with.
const FIRST_CLIMBS: u32 = 8;
const SEEDS: usize = 8;
/// With more demands than this, the search looks only at those that rounding left short, and at a sample of others.
const MANY: usize = 3_000;
/// With more than this many demands per class, and more than [`FEW`], most of them are settled before the search.
const SETTLED: usize = 20;
/// With more than this many demands per class, the linear solution decides how most of them are served.
const LARGE: usize = 4;
/// How warm the search is at its start: what is good already must not be lost.
const HEAT: f64 = 0.1;
/// With more demands than this enumeration is not tried.
const FEW: usize = 150;

/// Solves: see the module.
pub fn solve(cover: &Cover, effort: &Effort) -> Result<Solution, InputError> {
    cover.check()?;
    let columns = Columns::new(cover);
    let demands: usize = cover.classes.iter().map(|class| class.count as usize).sum();
    let large = demands > LARGE * cover.classes.len();
    let mut spent = Spent::default();
    let (prices, x) = start(cover, &columns, effort, large, &mut spent);
    let proved = bound(cover, &prices);
    let enough = proved + effort.gap * proved.abs();
    let mut solution = if demands > FEW.max(SETTLED * cover.classes.len()) {
        let settled = Settled::new(cover, &columns, &x);
        let mut state = State::new(&settled.rest, &columns);
        round::nearest(&mut state, &settled.open(&x));
        improve(&mut state, &columns, &prices, effort.ruins, enough - settled.cost, &mut spent);
        let mut solution = state.solution();
        settled.complete(&columns, &mut solution);
        solution
    } else {
        let mut state = State::new(cover, &columns);
        round::nearest(&mut state, &x);
        improve(&mut state, &columns, &prices, effort.ruins, enough, &mut spent);
        let complete =
            demands <= FEW && state.cost > enough && finish(&mut state, &columns, &prices, effort, &mut spent);
        Solution { complete, ..state.solution() }
    };
    solution.bound = if solution.complete { solution.cost } else { proved.min(solution.cost) };
    solution.spent = spent;
    solution.prices = prices;
    Ok(solution)
}

/// Prices, and the solution of the linear program. Where most demands differ, which columns it begins with is found by an ascent, whose
/// prices may turn out to be the better ones.
fn start(
    cover: &Cover,
    columns: &Columns,
    effort: &Effort,
    large: bool,
    spent: &mut Spent,
) -> (Prices, Vec<(u32, f64)>) {
    let mut master = Master::new(cover, columns);
    let mut climbed = None;
    if large {
        master.seed();
    } else {
        let mut ascent = Ascent::new(cover, columns);
        ascent.climb(FIRST_CLIMBS);
        let prices = ascent.prices();
        let mut costs = ReducedCosts::new(cover, columns, &prices);
        costs.list_candidates(cover, SEEDS, f64::INFINITY);
        costs.candidates.iter().flatten().for_each(|candidate| master.admit(candidate.column as usize));
        climbed = Some((ascent.value, prices));
    }
    master.solve(effort, large);
    spent.programs = master.programs;
    spent.columns = master.size();
    match climbed {
        Some((value, prices)) if master.bound < value => (prices, master.x),
        _ => (master.prices, master.x),
    }
}

/// Searches from the current state.
fn improve<'a>(
    state: &mut State<'a>,
    columns: &'a Columns,
    prices: &Prices,
    ruins: u32,
    enough: f64,
    spent: &mut Spent,
) {
    let mut costs = ReducedCosts::new(state.cover, columns, prices);
    costs.list_candidates(state.cover, search::RELATED, f64::INFINITY);
    let demands = state.class_of.len();
    let lacking: Vec<u32> = (0..demands as u32).filter(|&d| state.shortage(d) > 0.0).collect();
    let mut search = search::Search::new(state, &costs);
    search.build(&lacking);
    search.wander = demands <= LARGE * search.state.cover.classes.len();
    if demands > MANY {
        let others = (2 * lacking.len()).clamp(200, MANY);
        let mut active = lacking;
        active.extend((0..demands as u32).step_by((demands / others).max(1)));
        spent.ruins = search.run(&active, ruins, 0.0, enough);
    } else {
        let active: Vec<u32> = (0..demands as u32).collect();
        spent.ruins = search.run(&active, ruins, HEAT, enough);
    }
}

/// Enumerates what may be better than the incumbent; returns whether that was complete.
fn finish<'a>(
    state: &mut State<'a>,
    columns: &'a Columns,
    prices: &Prices,
    effort: &Effort,
    spent: &mut Spent,
) -> bool {
    let mut costs = ReducedCosts::new(state.cover, columns, prices);
    costs.list_candidates(state.cover, usize::MAX, state.cost - costs.bound);
    let mut empty = State::new(state.cover, columns);
    let exact::Found { units, nodes, complete } = exact::enumerate(&mut empty, &costs, state.cost, effort.nodes);
    spent.nodes = nodes;
    if let Some(units) = units {
        units.iter().for_each(|&(column, demands)| {
            empty.add(column, demands);
        });
        std::mem::swap(state, &mut empty);
    }
    complete
}
