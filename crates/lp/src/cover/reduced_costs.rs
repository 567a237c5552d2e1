//! Reduced costs of columns and patterns: by how much a solution that uses them costs more.
//!
//! With prices `λ, V` a solution costs the bound, plus for each demand the cost of its pattern above the cheapest,
//! `V + h − S`, plus `λ` for each idle unit: none of these *regrets* is negative. Of a demand that may
//! still get a slot none is certain.

use super::Cover;
use super::bound::Prices;
use super::columns::Columns;
use super::pattern_cost::{GRID, PatternCost, cells};
use super::state::{State, Unit};

/// A column for one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// By how much a solution that uses it costs more, at least.
    pub(super) reduced_cost: f64,
    pub(super) column: u32,
    /// The class of the other side, or [`NONE`].
    pub(super) other: u32,
}

/// What the search needs of a column, compact: it reads millions per second, and memory is the bottleneck.
#[derive(Clone, Copy, Debug)]
struct PackedColumn {
    /// V and parts of both sides, in single precision.
    pay: [f32; 2],
    part: [f32; 2],
    resource: u32,
    cells: [u8; 2],
}

/// What a demand holds so far, and what it still lacks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DemandState {
    /// V of what it holds.
    paid: f64,
    /// The cells that it lacks; all of them where it holds nothing.
    lacking: usize,
}

/// The reduced costs at given prices.
#[derive(Clone, Debug)]
pub(super) struct ReducedCosts<'a> {
    pub(super) columns: &'a Columns,
    /// Per class.
    pub(super) candidates: Vec<Vec<Candidate>>,
    /// V of both sides, per column.
    pay: Vec<[f64; 2]>,
    tags: Vec<PackedColumn>,
    pattern_costs: Vec<PatternCost>,
    /// Per class.
    short_prices: Vec<f64>,
    /// The lower bound of the prices, with parts in cells.
    pub(super) bound: f64,
}

impl<'a> ReducedCosts<'a> {
    pub(super) fn new(cover: &Cover, columns: &'a Columns, prices: &Prices) -> Self {
        let (n, k) = (cover.classes.len(), cover.capacity.len());
        let lambda: Vec<f64> = (0..k).map(|j| prices.units.get(j).map_or(0.0, |price| price.max(0.0))).collect();
        let mut bound: f64 = lambda.iter().zip(&cover.capacity).map(|(price, &units)| -price * f64::from(units)).sum();
        let mut zeta = vec![0.0; n * k];
        for (at, stay) in cover.stays.iter().enumerate() {
            let price = prices.stays.get(at).map_or(0.0, |price| price.clamp(0.0, stay.saving));
            zeta[stay.class * k + stay.resource] = price;
            bound -= (stay.saving - price) * f64::from(stay.held);
        }
        let mut slots: Vec<Vec<(u8, f64)>> = vec![Vec::new(); n];
        let mut tags = Vec::with_capacity(columns.list.len());
        let mut pay = Vec::with_capacity(columns.list.len());
        for column in &columns.list {
            let j = column.resource as usize;
            let mut all = column.cost + lambda[j] * f64::from(column.units);
            column.sides().for_each(|(a, _)| all -= zeta[a * k + j]);
            let known = column.pair().map(|at| prices.firsts.get(at).copied().unwrap_or(0.5 * all));
            let paid = known.map_or([all, 0.0], |first| [first, all - first]);
            let counted = column.part.map(|part| if part > 0.0 { cells(part) } else { 0 });
            for (side, (a, _)) in column.sides().enumerate() {
                slots[a].push((counted[side], paid[side]));
            }
            pay.push(paid);
            tags.push(PackedColumn {
                pay: paid.map(|paid| paid as f32),
                part: column.part.map(|part| part as f32),
                resource: column.resource,
                cells: counted,
            });
        }
        let costs = |(a, slots): (usize, &Vec<(u8, f64)>)| PatternCost::new(cover, a, slots.iter().copied());
        let pattern_costs: Vec<PatternCost> = slots.iter().enumerate().map(costs).collect();
        for (class, costs) in cover.classes.iter().zip(&pattern_costs) {
            bound += f64::from(class.count) * costs.base;
        }
        let short_prices = cover.classes.iter().map(|class| class.short_price).collect();
        Self { columns, candidates: vec![Vec::new(); n], pay, tags, pattern_costs, short_prices, bound }
    }

    /// By how much a solution that uses a column costs more, at least.
    fn reduced_cost(&self, e: usize) -> f64 {
        let tag = &self.tags[e];
        let reduced_cost = |side: usize, a: usize| {
            let costs = &self.pattern_costs[a];
            f64::max(0.0, self.pay[e][side] + costs.short(GRID - usize::from(tag.cells[side])) - costs.base)
        };
        self.columns.list[e].sides().enumerate().map(|(side, (a, _))| reduced_cost(side, a)).sum()
    }

    /// Lists each class's candidates by reduced cost: those below `below`, and no more than `most` per class.
    pub(super) fn list_candidates(&mut self, cover: &Cover, most: usize, below: f64) {
        let columns = self.columns;
        let order =
            |x: &Candidate, y: &Candidate| x.reduced_cost.total_cmp(&y.reduced_cost).then(x.column.cmp(&y.column));
        let mut candidates: Vec<Vec<Candidate>> = vec![Vec::new(); cover.classes.len()];
        // Beyond this much there are enough already, by class.
        let mut limits = vec![below; candidates.len()];
        for (e, column) in columns.list.iter().enumerate() {
            let reduced_cost = self.reduced_cost(e);
            let sides = if column.is_alone() || column.class[0] == column.class[1] { 1 } else { 2 };
            for side in 0..sides {
                let (a, other) = (column.class[side] as usize, column.class[1 - side]);
                if reduced_cost < limits[a] {
                    let candidates = &mut candidates[a];
                    candidates.push(Candidate { reduced_cost, column: e as u32, other });
                    if candidates.len() >= most.saturating_mul(2).max(16) {
                        candidates.select_nth_unstable_by(most, order);
                        limits[a] = candidates[most].reduced_cost;
                        candidates.truncate(most);
                    }
                }
            }
        }
        for candidates in &mut candidates {
            candidates.sort_unstable_by(order);
            candidates.truncate(most);
        }
        self.candidates = candidates;
    }

    /// The state of a demand.
    pub(super) fn standing(&self, state: &State<'_>, demand: u32) -> DemandState {
        let (mut paid, mut lacking) = (0.0, GRID);
        for &unit in &state.holds[demand as usize] {
            let Unit { column, demands } = state.unit(unit);
            let side = usize::from(demands[0] != demand);
            paid += self.pay[column as usize][side];
            lacking -= usize::from(self.tags[column as usize].cells[side]);
        }
        DemandState { paid, lacking }
    }

    /// What its slot costs, and what it lacks, above the cheapest; exactly 0 for a demand without a slot.
    pub(super) fn regret(&self, class: u32, standing: DemandState) -> f64 {
        let DemandState { paid, lacking } = standing;
        let costs = &self.pattern_costs[class as usize];
        if lacking == GRID { 0.0 } else { f64::max(0.0, paid + costs.short(lacking) - costs.base) }
    }

    /// The same of a demand that is given a side of a column; without cells.
    pub(super) fn regret_with(&self, class: u32, column: usize, side: usize) -> f64 {
        let tag = &self.tags[column];
        let short = self.short_prices[class as usize] * f64::max(0.0, 1.0 - f64::from(tag.part[side]));
        f64::from(tag.pay[side]) + short - self.pattern_costs[class as usize].base
    }

    /// Where a column is.
    pub(super) fn resource(&self, column: usize) -> usize {
        self.tags[column].resource as usize
    }

    /// The same without any further slot.
    pub(super) fn closed(&self, state: &State<'_>, demand: u32) -> f64 {
        let class = state.class_of[demand as usize] as usize;
        let DemandState { paid, .. } = self.standing(state, demand);
        f64::max(0.0, paid + state.shortage(demand) - self.pattern_costs[class].base)
    }
}
