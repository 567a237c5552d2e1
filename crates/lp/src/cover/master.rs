//! The restricted master program over some columns, and its pricing.
//!
//! ```text
//! minimise  Σ (c_e − Σ_sides w_a(p)) x_e − Σ saving z        w_a(p) = short_price_a p + unserved_price_a
//! Σ_{e on j} u_e x_e ≤ m_j        (λ_j)      Σ slots of a ≤ n_a                        (ν_a)
//! Σ slots of a on j − z_aj ≥ 0,  z ≤ held    (ζ_aj)
//! ```
//!
//! beside the constant Σ n_a w_a(1). What a side pays is `V_a(p) = w_a(p) − ν_a`; with these `cover/bound.rs` says what is
//! proved, whatever columns are still missing. Interior-point duals lie in the middle of what is optimal, so few rounds are needed.

use super::bound::{self, Prices};
use super::columns::{Column, Columns};
use super::{Class, Cover, Effort};
use crate::{Budget, Clarabel, ColumnId, Model, ModelError, Outcome, Solver, Status};

/// Pairs per class and resource to begin with.
const SEEDS: usize = 2;
/// Columns that may come in for one class in one round.
const EACH: u32 = 5;
/// A column that was of no use for so many rounds leaves.
const PATIENCE: u32 = 4;
/// Iterations of the interior point.
const ITERATIONS: u32 = 60;
/// A bound that rises by less than this part has stalled.
const NOTICED: f64 = 2e-4;
/// Rounds in which the bound does not rise noticeably, after which it is left, where classes are large.
const STALLED: u32 = 4;

/// The program.
pub(super) struct Master<'a> {
    cover: &'a Cover,
    columns: &'a Columns,
    /// Columns in the program, and for how many rounds they were of no use.
    inside: Vec<(u32, u32)>,
    is_inside: Vec<bool>,
    pub(super) programs: u32,
    /// The best prices and what they prove.
    pub(super) prices: Prices,
    pub(super) bound: f64,
    /// What numbers of demands and units are divided by.
    unit: f64,
    /// The last solution: columns and amounts.
    pub(super) x: Vec<(u32, f64)>,
}

/// λ, ν and ζ.
struct Duals {
    units: Vec<f64>,
    slots: Vec<f64>,
    stays: Vec<f64>,
}

impl<'a> Master<'a> {
    /// With all slots alone in it.
    pub(super) fn new(cover: &'a Cover, columns: &'a Columns) -> Self {
        let mut master = Self {
            cover,
            columns,
            inside: Vec::new(),
            is_inside: vec![false; columns.list.len()],
            programs: 0,
            prices: Prices::default(),
            bound: f64::NEG_INFINITY,
            unit: f64::max(
                1.0,
                cover.classes.iter().map(|class| f64::from(class.count)).sum::<f64>() / cover.classes.len() as f64,
            ),
            x: Vec::new(),
        };
        (0..columns.alone).for_each(|e| master.admit(e));
        master
    }

    /// Lets a column in.
    pub(super) fn admit(&mut self, e: usize) {
        if !std::mem::replace(&mut self.is_inside[e], true) {
            self.inside.push((e as u32, 0));
        }
    }

    /// Pairs that cover most for what they cost, for each class on each resource.
    pub(super) fn seed(&mut self) {
        let (n, k) = (self.cover.classes.len(), self.cover.capacity.len());
        let mut best: Vec<Vec<(f64, usize)>> = vec![Vec::new(); n * k];
        for (e, column) in self.columns.list.iter().enumerate().skip(self.columns.alone) {
            let worth = column.cost / (column.part[0] + column.part[1]);
            for (a, _) in column.sides() {
                let best = &mut best[a * k + column.resource as usize];
                let at = best.partition_point(|other| other.0 <= worth);
                if at < SEEDS {
                    best.insert(at, (worth, e));
                    best.truncate(SEEDS);
                }
            }
        }
        best.into_iter().flatten().for_each(|(_, e)| self.admit(e));
    }

    /// Programs until nothing is missing, the bound stalls, or they are spent.
    pub(super) fn solve(&mut self, effort: &Effort, large: bool) {
        let mut stalled = 0;
        while self.programs < effort.programs {
            let Some((outcome, objective)) = self.program() else { break };
            let duals = self.read(&outcome.row_duals);
            let prices = self.prices(&duals);
            let bound = bound::bound(self.cover, &prices);
            let scale = objective.abs().max(f64::MIN_POSITIVE);
            stalled = if bound - self.bound > NOTICED * scale { 0 } else { stalled + 1 };
            if bound > self.bound {
                (self.bound, self.prices) = (bound, prices);
            }
            let columns = self.price(&duals, 1e-7 * scale);
            if columns == 0 || stalled > if large { STALLED } else { 0 } {
                break;
            }
        }
    }

    /// Writes and solves the program.
    fn program(&mut self) -> Option<(Outcome, f64)> {
        self.programs += 1;
        let model = self.write().ok()?;
        let outcome = Clarabel.solve(&model, Budget::iterations(ITERATIONS));
        if matches!(outcome.status, Status::Infeasible | Status::Unbounded) || !outcome.objective.is_finite() {
            return None;
        }
        self.x = self.inside.iter().map(|&(e, _)| e).zip(outcome.x.iter().map(|x| x.max(0.0) * self.unit)).collect();
        let unserved = |class: &Class| f64::from(class.count) * (class.short_price + class.unserved_price);
        let objective = outcome.objective * self.unit + self.cover.classes.iter().map(unserved).sum::<f64>();
        Some((outcome, objective))
    }

    fn write(&self) -> Result<Model, ModelError> {
        let (n, k) = (self.cover.classes.len(), self.cover.capacity.len());
        let mut model = Model::minimise();
        let mut capacity: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); k];
        let mut limits: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); n];
        let mut here: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); n * k];
        for &(e, _) in &self.inside {
            let column = &self.columns.list[e as usize];
            let worth: f64 = column.sides().map(|(a, part)| self.worth(a, part, 0.0)).sum();
            let id = model.add_column(0.0, f64::INFINITY, column.cost - worth)?;
            capacity[column.resource as usize].push((id, f64::from(column.units)));
            for (a, _) in column.sides() {
                limits[a].push((id, 1.0));
                here[a * k + column.resource as usize].push((id, 1.0));
            }
        }
        let mut stays = Vec::new();
        for stay in &self.cover.stays {
            stays.push(model.add_column(0.0, f64::from(stay.held) / self.unit, -stay.saving)?);
        }
        for (j, terms) in capacity.iter().enumerate() {
            model.add_row(f64::NEG_INFINITY, f64::from(self.cover.capacity[j]) / self.unit, terms)?;
        }
        for (class, terms) in self.cover.classes.iter().zip(&mut limits) {
            merge(terms);
            model.add_row(f64::NEG_INFINITY, f64::from(class.count) / self.unit, terms)?;
        }
        for (at, stay) in self.cover.stays.iter().enumerate() {
            let terms = &mut here[stay.class * k + stay.resource];
            terms.push((stays[at], -1.0));
            merge(terms);
            model.add_row(0.0, f64::INFINITY, terms)?;
        }
        Ok(model)
    }

    /// V: what a slot is worth to a class, at a price of room.
    fn worth(&self, a: usize, part: f64, room: f64) -> f64 {
        let Class { short_price, unserved_price, .. } = self.cover.classes[a];
        short_price * part + (unserved_price - room)
    }

    /// λ, ν and ζ from the duals of the rows.
    fn read(&self, duals: &[f64]) -> Duals {
        let (n, k) = (self.cover.classes.len(), self.cover.capacity.len());
        let above = |duals: &[f64]| duals.iter().map(|dual| f64::max(0.0, -dual)).collect();
        let stays = duals[k + n..].iter().map(|dual| dual.max(0.0)).collect();
        Duals { units: above(&duals[..k]), slots: above(&duals[k..k + n]), stays }
    }

    /// What a column costs beyond what its sides pay.
    fn reduced(&self, column: &Column, duals: &Duals, zeta: &[f64]) -> f64 {
        let (j, k) = (column.resource as usize, self.cover.capacity.len());
        let mut reduced = column.cost + duals.units[j] * f64::from(column.units);
        column.sides().for_each(|(a, part)| reduced -= self.worth(a, part, duals.slots[a]) + zeta[a * k + j]);
        reduced
    }

    /// ζ by class and resource.
    fn zeta(&self, duals: &Duals) -> Vec<f64> {
        let (n, k) = (self.cover.classes.len(), self.cover.capacity.len());
        let mut zeta = vec![0.0; n * k];
        for (stay, price) in self.cover.stays.iter().zip(&duals.stays) {
            zeta[stay.class * k + stay.resource] = price.min(stay.saving);
        }
        zeta
    }

    /// The duals as prices: what a pair costs beyond what its sides pay is divided between them.
    fn prices(&self, duals: &Duals) -> Prices {
        let zeta = self.zeta(duals);
        let mut firsts = vec![0.0; self.cover.pairs.len()];
        for column in &self.columns.list {
            if let Some(at) = column.pair() {
                let a = column.class[0] as usize;
                let own = self.worth(a, column.part[0], duals.slots[a]);
                firsts[at] = own + 0.5 * self.reduced(column, duals, &zeta);
            }
        }
        Prices { units: duals.units.clone(), firsts, stays: duals.stays.clone() }
    }

    /// Lets columns in that are too cheap, and those go that are of no use; returns how many came.
    fn price(&mut self, duals: &Duals, grain: f64) -> usize {
        let n = self.cover.classes.len();
        let zeta = self.zeta(duals);
        let mut tops: Vec<Vec<(f64, u32)>> = vec![Vec::new(); n];
        for (e, column) in self.columns.list.iter().enumerate().filter(|(e, _)| !self.is_inside[*e]) {
            let red = self.reduced(column, duals, &zeta);
            if red >= -grain / n as f64 {
                continue;
            }
            for (a, _) in column.sides() {
                let top = &mut tops[a];
                let at = top.partition_point(|other| other.0 <= red);
                if at < EACH as usize {
                    top.insert(at, (red, e as u32));
                    top.truncate(EACH as usize);
                }
            }
        }
        let mut found: Vec<(f64, u32)> = tops.into_iter().flatten().collect();
        found.sort_unstable_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
        found.dedup();
        for (at, (_, idle)) in self.inside.iter_mut().enumerate() {
            *idle = if self.x[at].1 > 1e-6 * self.unit { 0 } else { *idle + 1 };
        }
        let (alone, is_inside) = (self.columns.alone, &mut self.is_inside);
        self.inside.retain(|&(e, idle)| {
            let stays = idle < PATIENCE || (e as usize) < alone;
            is_inside[e as usize] = stays;
            stays
        });
        let mut taken = vec![0u32; n];
        let before = self.inside.len();
        for (_, e) in found {
            let column = self.columns.list[e as usize];
            if column.sides().all(|(a, _)| taken[a] < 2 * EACH) {
                column.sides().for_each(|(a, _)| taken[a] += 1);
                self.admit(e as usize);
            }
        }
        self.inside.len() - before
    }

    /// Columns in the program.
    pub(super) fn size(&self) -> usize {
        self.inside.len()
    }
}

/// A column may be in a row twice, once for each side.
fn merge(terms: &mut Vec<(ColumnId, f64)>) {
    terms.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}
