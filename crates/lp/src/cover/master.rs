//! The restricted master program over some columns and cuts, its pricing and its separation.
//!
//! ```text
//! minimise  Σ c_e x_e + Σ_a θ_a − Σ saving z
//! Σ_{e on j} u_e x_e ≤ m_j                        (λ_j)      Σ slots of a ≤ D_a n_a     (ν_a)
//! θ_a + Σ w_i(p) x ≥ n_a σ_i   for each cut i of a  (μ_i)      Σ slots of a on j − z_aj ≥ 0,  z ≤ held  (ζ_aj)
//! ```
//!
//! The prices of a slot are `V_a(p) = Σ_i μ_i w_i(p) − ν_a`; with these `cover/bound.rs` says what is proved, whatever
//! columns and cuts are still missing. Where most demands differ, a row counts: each class begins with one cut, and gets
//! the others and its `ν` only once they are broken. Interior-point duals lie in the middle of what is optimal, so few rounds are needed.

use super::bound::{self, Prices};
use super::columns::{Column, Columns};
use super::cut::{self, Cut, Steps};
use super::{Cover, Effort};
use crate::{Budget, Clarabel, ColumnId, Model, ModelError, Outcome, Solver, Status};

/// Pairs per class and resource to begin with.
const SEEDS: usize = 2;
/// Columns that may come in for one class in one round.
const EACH: u32 = 5;
/// A column or cut that was of no use for so many rounds leaves.
const PATIENCE: u32 = 4;
/// Iterations of the interior point.
const ITERATIONS: u32 = 60;
/// Parts spread over all that a class may get, in each cut.
const SPREAD: usize = 8;
/// A bound that rises by less than this part has stalled; where prices climb on without the program, by less than that.
const NOTICED: f64 = 2e-4;
const NOTICED_BEFORE_CLIMB: f64 = 2e-3;
/// Rounds in which the bound does not rise noticeably, after which it is left.
const STALLED: u32 = 4;

/// The program.
pub(super) struct Master<'a> {
    cover: &'a Cover,
    columns: &'a Columns,
    /// Columns in the program, and for how many rounds they were of no use.
    inside: Vec<(u32, u32)>,
    is_inside: Vec<bool>,
    cuts: Vec<(Cut, u32)>,
    /// Cuts that wait until they are broken.
    waiting: Vec<Cut>,
    /// Classes whose number of slots has a row.
    limited: Vec<usize>,
    /// Whether nobody may have more than one slot: then `θ = n σ − Σ w x`, and neither has a place in the program.
    single: bool,
    /// Per class, some parts over the whole range.
    spread: Vec<Vec<f64>>,
    pub(super) programs: u32,
    /// The best prices and what they prove.
    pub(super) prices: Prices,
    pub(super) bound: f64,
    /// What numbers of demands and units are divided by.
    unit: f64,
    /// The last solution: columns and amounts.
    pub(super) x: Vec<(u32, f64)>,
}

/// λ, V and ζ.
struct Duals {
    units: Vec<f64>,
    slots: Vec<Cut>,
    stays: Vec<f64>,
}

impl<'a> Master<'a> {
    /// With all rows at once where classes are `large`.
    pub(super) fn new(cover: &'a Cover, columns: &'a Columns, large: bool) -> Self {
        let single = cover.classes.iter().all(|class| class.most == 1);
        let mut master = Self {
            cover,
            columns,
            inside: Vec::new(),
            is_inside: vec![false; columns.list.len()],
            cuts: Vec::new(),
            waiting: Vec::new(),
            single,
            limited: if large || single { (0..cover.classes.len()).collect() } else { Vec::new() },
            spread: spread(cover, columns),
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
        for (a, class) in cover.classes.iter().enumerate().filter(|(_, class)| class.count > 0) {
            let mut cuts = cut::first(cover, a);
            if class.most == 1 {
                // With one slot at most, the last says all.
                cuts.drain(..cuts.len().saturating_sub(1));
            }
            let now = if large { cuts.len() } else { 1.min(cuts.len()) };
            master.waiting.extend(cuts.drain(now..));
            master.cuts.extend(cuts.into_iter().map(|cut| (cut, 0)));
        }
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
    pub(super) fn solve(&mut self, effort: &Effort, cuts_too: bool) {
        let mut stalled = 0;
        while self.programs < effort.programs {
            let Some((outcome, objective)) = self.program() else { break };
            let duals = self.read(&outcome);
            let prices = self.prices(&duals);
            let bound = bound::bound(self.cover, &prices);
            let scale = objective.abs().max(f64::MIN_POSITIVE);
            let noticeable = if cuts_too || self.single { NOTICED } else { NOTICED_BEFORE_CLIMB };
            stalled = if bound - self.bound > noticeable * scale { 0 } else { stalled + 1 };
            if bound > self.bound {
                (self.bound, self.prices) = (bound, prices);
            }
            let columns = self.price(&duals, 1e-7 * scale);
            let cuts = if cuts_too && !self.single { self.separate(&outcome, 1e-6 * scale) } else { 0 };
            let rows = if self.single { 0 } else { self.enforce(&outcome, 1e-5) };
            if (columns == 0 && cuts == 0 && rows == 0) || stalled > if cuts_too { STALLED } else { 0 } {
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
        let known: f64 =
            self.cuts.iter().map(|(cut, _)| f64::from(self.cover.classes[cut.class].count) * cut.right).sum();
        let objective = outcome.objective * self.unit + if self.single { known } else { 0.0 };
        Some((outcome, objective))
    }

    fn write(&self) -> Result<Model, ModelError> {
        let (n, k) = (self.cover.classes.len(), self.cover.capacity.len());
        let mut model = Model::minimise();
        let mut capacity: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); k];
        let mut limits: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); n];
        let mut cuts: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); self.cuts.len()];
        let mut here: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); n * k];
        let of_class = self.cuts_of_classes();
        for &(e, _) in &self.inside {
            let column = &self.columns.list[e as usize];
            let mut cost = column.cost;
            if self.single {
                let worth = |(a, part): (usize, f64)| of_class[a].iter().map(|&i| self.cuts[i].0.at(part)).sum::<f64>();
                cost -= column.sides().map(worth).sum::<f64>();
            }
            let id = model.add_column(0.0, f64::INFINITY, cost)?;
            capacity[column.resource as usize].push((id, f64::from(column.units)));
            for (a, part) in column.sides() {
                limits[a].push((id, 1.0));
                here[a * k + column.resource as usize].push((id, 1.0));
                for &i in of_class[a].iter().filter(|_| !self.single) {
                    let cut = &self.cuts[i].0;
                    cuts[i].push((id, cut.at(part) / cut.right));
                }
            }
        }
        let mut stays = Vec::new();
        for stay in &self.cover.stays {
            stays.push(model.add_column(0.0, f64::from(stay.held) / self.unit, -stay.saving)?);
        }
        let mut shortages = Vec::new();
        for _ in 0..if self.single { 0 } else { n } {
            shortages.push(model.add_column(0.0, f64::INFINITY, 1.0)?);
        }
        for (j, terms) in capacity.iter().enumerate() {
            model.add_row(f64::NEG_INFINITY, f64::from(self.cover.capacity[j]) / self.unit, terms)?;
        }
        for &a in &self.limited {
            let (class, terms) = (&self.cover.classes[a], &mut limits[a]);
            merge(terms);
            model.add_row(f64::NEG_INFINITY, f64::from(class.most) * f64::from(class.count) / self.unit, terms)?;
        }
        for (i, terms) in cuts.iter_mut().enumerate().filter(|_| !self.single) {
            let cut = &self.cuts[i].0;
            terms.push((shortages[cut.class], 1.0 / cut.right));
            merge(terms);
            model.add_row(f64::from(self.cover.classes[cut.class].count) / self.unit, f64::INFINITY, terms)?;
        }
        for (at, stay) in self.cover.stays.iter().enumerate() {
            let terms = &mut here[stay.class * k + stay.resource];
            terms.push((stays[at], -1.0));
            merge(terms);
            model.add_row(0.0, f64::INFINITY, terms)?;
        }
        Ok(model)
    }

    fn cuts_of_classes(&self) -> Vec<Vec<usize>> {
        let mut of_class = vec![Vec::new(); self.cover.classes.len()];
        self.cuts.iter().enumerate().for_each(|(i, (cut, _))| of_class[cut.class].push(i));
        of_class
    }

    /// λ, V and ζ from the duals of the rows.
    fn read(&mut self, outcome: &Outcome) -> Duals {
        let (n, k, many) = (self.cover.classes.len(), self.cover.capacity.len(), self.limited.len());
        let duals = &outcome.row_duals;
        let mut rooms = vec![0.0; n];
        self.limited.iter().zip(&duals[k..]).for_each(|(&a, dual)| rooms[a] = f64::max(0.0, -dual));
        let units = duals[..k].iter().map(|dual| f64::max(0.0, -dual)).collect();
        let (mu, stays) = if self.single {
            (vec![1.0; self.cuts.len()], &duals[k + many..])
        } else {
            let dual = |((cut, _), dual): (&(Cut, u32), &f64)| f64::max(0.0, *dual) / cut.right;
            let mu: Vec<f64> = self.cuts.iter().zip(&duals[k + many..]).map(dual).collect();
            let stays = &duals[k + many + mu.len()..];
            (mu, stays)
        };
        let stays = stays.iter().map(|dual| dual.max(0.0)).collect();
        let mut slots = Vec::new();
        for (a, of_class) in self.cuts_of_classes().iter().enumerate() {
            let used: Vec<usize> = of_class.iter().copied().filter(|&i| mu[i] > 1e-9).collect();
            let mut ends: Vec<f64> = used.iter().flat_map(|&i| self.cuts[i].0.steps.ends.iter().copied()).collect();
            ends.sort_unstable_by(f64::total_cmp);
            ends.dedup();
            let paid = |&end: &f64| used.iter().map(|&i| mu[i] * self.cuts[i].0.steps.at(end)).sum::<f64>();
            let room = rooms[a];
            let values = ends.iter().map(|end| paid(end) - room).collect();
            let slope = used.iter().map(|&i| mu[i] * self.cuts[i].0.slope).sum();
            let steps =
                if ends.is_empty() { Steps { ends: vec![1.0], values: vec![-room] } } else { Steps { ends, values } };
            slots.push(Cut { class: a, slope, steps, right: 0.0 });
        }
        for ((_, idle), mu) in self.cuts.iter_mut().zip(&mu) {
            *idle = if *mu > 1e-7 { 0 } else { *idle + 1 };
        }
        Duals { units, slots, stays }
    }

    /// What a column costs beyond what its sides pay.
    fn reduced(&self, column: &Column, duals: &Duals, zeta: &[f64]) -> f64 {
        let (j, k) = (column.resource as usize, self.cover.capacity.len());
        let mut reduced = column.cost + duals.units[j] * f64::from(column.units);
        column.sides().for_each(|(a, part)| reduced -= duals.slots[a].at(part) + zeta[a * k + j]);
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
                let own = duals.slots[column.class[0] as usize].at(column.part[0]);
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

    /// Adds for each class the cut that its slots break; returns how many.
    fn separate(&mut self, outcome: &Outcome, grain: f64) -> usize {
        let n = self.cover.classes.len();
        let mut parts: Vec<Vec<(f64, f64)>> =
            self.spread.iter().map(|spread| spread.iter().map(|&part| (part, 0.0)).collect()).collect();
        for &(e, x) in self.x.iter().filter(|x| x.1 > 1e-7 * self.unit) {
            for (a, part) in self.columns.list[e as usize].sides() {
                parts[a].push((part, x / f64::from(self.cover.classes[a].count)));
            }
        }
        let theta = &outcome.x[outcome.x.len() - n..];
        self.cuts.retain(|&(_, idle)| idle < PATIENCE);
        let before = self.cuts.len();
        for a in (0..n).filter(|&a| self.cover.classes[a].count > 0) {
            let parts = &mut parts[a];
            parts.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
            parts.dedup_by(|next, kept| {
                let same = next.0 - kept.0 <= 1e-9;
                if same {
                    (kept.0, kept.1) = (next.0.max(kept.0), kept.1 + next.1);
                }
                same
            });
            let count = f64::from(self.cover.classes[a].count);
            if let Some((cut, by)) = cut::separate(self.cover, a, parts, theta[a] * self.unit / count)
                && by * count > grain / n as f64
                && cut.right > 0.0
            {
                self.cuts.push((cut, 0));
            }
        }
        self.cuts.len() - before
    }

    /// Gives rows to what the last solution breaks by more than `grain` of its right side; returns how many.
    fn enforce(&mut self, outcome: &Outcome, grain: f64) -> usize {
        let n = self.cover.classes.len();
        let mut slots = vec![0.0; n];
        let mut said: Vec<f64> = self.waiting.iter().map(|cut| outcome.x[outcome.x.len() - n + cut.class]).collect();
        let mut of_class: Vec<Vec<usize>> = vec![Vec::new(); n];
        self.waiting.iter().enumerate().for_each(|(i, cut)| of_class[cut.class].push(i));
        for &(e, x) in &self.x {
            for (a, part) in self.columns.list[e as usize].sides() {
                slots[a] += x;
                of_class[a].iter().for_each(|&i| said[i] += self.waiting[i].at(part) * x / self.unit);
            }
        }
        let count = |a: usize| f64::from(self.cover.classes[a].count);
        let broken = |a: &usize| slots[*a] > f64::from(self.cover.classes[*a].most) * count(*a) * (1.0 + grain);
        let mut limited: Vec<usize> = (0..n).filter(broken).filter(|a| !self.limited.contains(a)).collect();
        let mut rows = limited.len();
        self.limited.append(&mut limited);
        for (i, cut) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if said[i] < cut.right * count(cut.class) / self.unit * (1.0 - grain) {
                self.cuts.push((cut, 0));
                rows += 1;
            } else {
                self.waiting.push(cut);
            }
        }
        rows
    }

    /// Columns and cuts in the program.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.inside.len(), self.cuts.len())
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

/// Some of the parts of each class over the whole range, the largest among them.
fn spread(cover: &Cover, columns: &Columns) -> Vec<Vec<f64>> {
    let mut parts: Vec<Vec<f64>> = vec![Vec::new(); cover.classes.len()];
    for column in &columns.list {
        column.sides().for_each(|(a, part)| parts[a].push(part));
    }
    for parts in &mut parts {
        parts.sort_unstable_by(f64::total_cmp);
        let n = parts.len();
        if n > SPREAD {
            *parts = (1..=SPREAD).map(|i| parts[i * (n - 1) / SPREAD]).collect();
        }
        parts.dedup();
    }
    parts
}
