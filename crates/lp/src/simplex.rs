//! A dual simplex for programs whose rows are added one by one.
//!
//! ```text
//! maximise c·v   subject to   G v ≤ h,   v ≥ 0
//! ```
//!
//! Made for programs with far more rows than will ever bind: solve with some, add the rows that `v` violates, solve again
//! from the last basis. It is *not* made for thousands of basic columns: the inverse is dense.
//!
//! # The mathematics
//!
//! The state is a set `A` of active rows and a set `B` of basic columns, `|A| = |B| = s`, with the *kernel*
//! `K = G[A,B]` invertible. Columns outside `B` are 0, rows in `A` hold with equality:
//!
//! ```text
//! v_B = K⁻¹ h_A,     y_A = c_B K⁻¹,     d_j = c_j − y·G_j        (y ≥ 0 and d ≤ 0 throughout: dual feasible)
//! ```
//!
//! What is violated is either a row `r ∉ A` (slack `h_r − G_r v < 0`) or a basic column (`v_b < 0`). Written over the
//! slacks `σ_A` and the columns outside `B`, the violated quantity is
//!
//! ```text
//! slack_r = … + ρ·σ_A + Σ_j α_j v_j     ρ = G_rB K⁻¹,    α_j = ρ·G_Aj − G_rj
//! v_b     = … + ρ·σ_A + Σ_j α_j v_j     ρ = −(K⁻¹)_b,    α_j = ρ·G_Aj
//! ```
//!
//! and whatever enters must have a positive coefficient; the least `y_a/ρ_a` or `−d_j/α_j` keeps the dual feasible.
//! With `θ` that least ratio, `y ← y − θρ`, `d ← d + θα`. No candidate: the rows exclude each other. Four kinds of
//! pivot follow (a row replaces a row, a column a column, both join, both leave), each a rank-one change of `K⁻¹`
//! (`simplex/kernel.rs`).
//!
//! The first basis: rows without negative coefficients that share no column (capacities) each take their best column
//! `max c_j/G_rj`. Columns with `c > 0` under no such row are bounded by an artificial row `Σ v_j ≤ M`; if it is still
//! active at the end, the program is unbounded.
//!
//! Costs are perturbed by parts in 10¹⁰ against degenerate pivots; the duals reported are those of the true costs.
//! Rows are scaled to a largest coefficient of 1.

mod kernel;

use crate::Status;
use kernel::Kernel;

/// The violation of a row that is accepted, relative to its largest term, unless rounding demands more.
const FEASIBLE: f64 = 1e-10;
/// How wrong the sign of a dual may become, relative to the largest cost.
const DUAL: f64 = 1e-12;
/// No pivot is smaller than this, unless there is no other; then none is smaller than the last.
const PIVOT: f64 = 1e-7;
const LAST_PIVOT: f64 = 1e-10;
/// The right-hand side of the artificial row.
const FAR: f64 = 1e9;
/// Pivots between two checks of the residuals.
const LOOK: u32 = 50;

/// How many violated rows and columns are compared by steepest edge.
const SHORTLIST: usize = 6;
/// Pivots between two scans of all rows.
const SCAN: u32 = 12;
/// A fall of the dual objective below this, relative to it, is none.
const STEP: f64 = 1e-13;
/// How often a stalled solve is perturbed.
const PERTURBATIONS: u32 = 8;
/// How often a solve with numerical trouble starts again.
const RESTARTS: u32 = 4;

/// Stands for "nowhere" among positions.
const NONE: u32 = u32::MAX;

/// A program and its current basis.
#[derive(Clone, Debug, Default)]
pub struct Simplex {
    true_costs: Vec<f64>,
    costs: Vec<f64>,
    cost_unit: f64,
    rows: Rows,
    /// Per column: the rows it is in, with coefficients.
    columns: Vec<Vec<(u32, f64)>>,
    /// Rows that hold with equality, and the columns that are not 0.
    active: Vec<u32>,
    basic: Vec<u32>,
    active_at: Vec<u32>,
    basic_at: Vec<u32>,
    kernel: Kernel,
    /// Duals of the active rows.
    y: Vec<f64>,
    /// Reduced costs.
    d: Vec<f64>,
    v: Vec<f64>,
    /// The artificial row, where one was needed.
    far: Option<usize>,
    started: bool,
    pivots: u32,
    since_look: u32,
    /// Rows that were violated at the last scan, and pivots since.
    violated: Vec<u32>,
    since_scan: u32,
    /// The least dual objective so far, pivots since it last fell, and how often those were too many.
    least: f64,
    still: u32,
    perturbations: u32,
    restarts: u32,
    /// How far a row may be violated, relative to its largest term.
    tolerance: f64,
    rho: Vec<f64>,
    alpha: Vec<f64>,
    /// Columns whose α may not be 0, each once.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

/// Rows, one after the other.
#[derive(Clone, Debug, Default)]
struct Rows {
    ends: Vec<u32>,
    terms: Vec<(u32, f64)>,
    right: Vec<f64>,
    /// What the row was divided by.
    scale: Vec<f64>,
}

impl Rows {
    fn terms(&self, r: usize) -> &[(u32, f64)] {
        let start = if r == 0 { 0 } else { self.ends[r - 1] as usize };
        &self.terms[start..self.ends[r] as usize]
    }

    fn len(&self) -> usize {
        self.right.len()
    }

    /// How much the row is violated beyond what is allowed; at most 0 when it holds.
    fn excess(&self, r: usize, v: &[f64], tolerance: f64, floor: f64) -> f64 {
        let (mut value, mut largest) = (0.0, floor);
        for &(j, a) in self.terms(r) {
            let term = a * v[j as usize];
            value += term;
            largest = f64::max(largest, term);
        }
        value - self.right[r] - tolerance * f64::max(largest, self.right[r].abs())
    }
}

/// What leaves the set of things that may be positive: a row's slack or a basic column.
#[derive(Clone, Copy)]
enum Violated {
    Row(usize),
    Basic(usize),
}

/// What takes its place: the slack of the active row at a position, or a column.
#[derive(Clone, Copy)]
enum Entering {
    Slack(usize),
    Column(usize),
}

impl Simplex {
    /// A program without rows.
    #[must_use]
    pub fn new(costs: &[f64]) -> Self {
        let n = costs.len();
        let unit = costs.iter().fold(0.0, |a: f64, c| a.max(c.abs()));
        let cost_unit = if unit > 0.0 && unit.is_finite() { unit } else { 1.0 };
        let true_costs: Vec<f64> = costs.iter().map(|c| c / cost_unit).collect();
        Self {
            costs: true_costs.iter().enumerate().map(|(j, &c)| nudge(j, c)).collect(),
            true_costs,
            cost_unit,
            columns: vec![Vec::new(); n],
            basic_at: vec![NONE; n],
            v: vec![0.0; n],
            d: vec![0.0; n],
            alpha: vec![0.0; n],
            is_touched: vec![false; n],
            least: f64::INFINITY,
            tolerance: FEASIBLE,
            ..Self::default()
        }
    }

    /// Adds `Σ a_j v_j ≤ right`; returns its number. Terms name different columns.
    pub fn add_row(&mut self, terms: &[(u32, f64)], right: f64) -> usize {
        let scale = terms.iter().fold(0.0, |a: f64, t| a.max(t.1.abs()));
        let scale = if scale > 0.0 { scale } else { 1.0 };
        let r = self.rows.len();
        for &(j, a) in terms.iter().filter(|t| t.1 != 0.0) {
            self.rows.terms.push((j, a / scale));
            self.columns[j as usize].push((r as u32, a / scale));
        }
        self.rows.ends.push(self.rows.terms.len() as u32);
        self.rows.right.push(right / scale);
        self.rows.scale.push(scale);
        self.active_at.push(NONE);
        r
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The values of the columns.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.v
    }

    /// How much the objective would rise per unit of the row's right-hand side.
    #[must_use]
    pub fn dual(&self, row: usize) -> f64 {
        match self.active_at[row] {
            NONE => 0.0,
            at => self.y[at as usize].max(0.0) * self.cost_unit / self.rows.scale[row],
        }
    }

    /// The objective at the values.
    #[must_use]
    pub fn objective(&self) -> f64 {
        self.true_costs.iter().zip(&self.v).map(|(c, v)| c * v).sum::<f64>() * self.cost_unit
    }

    /// What the duals prove: no values that satisfy the rows are worth more. The duals are feasible at any time, so
    /// this holds however a solve ended, [`Status::Infeasible`] and [`Status::Unbounded`] excepted.
    #[must_use]
    pub fn dual_objective(&self) -> f64 {
        let held = self.active.iter().zip(&self.y).map(|(&r, y)| self.rows.right[r as usize] * y.max(0.0));
        held.sum::<f64>() * self.cost_unit
    }

    /// Pivots so far, over all calls.
    #[must_use]
    pub fn pivots(&self) -> u32 {
        self.pivots
    }

    /// Pivots until the rows at hand hold, but no further than `most` pivots in all.
    pub fn solve(&mut self, most: u32) -> Status {
        loop {
            let end = self.run(most);
            if end != Status::Trouble || self.restarts == RESTARTS {
                return end;
            }
            self.restart();
        }
    }

    /// Drops the basis, and perturbs the costs differently: the last path went through kernels that are nearly
    /// singular.
    fn restart(&mut self) {
        self.restarts += 1;
        for list in [&mut self.active_at, &mut self.basic_at] {
            list.fill(NONE);
        }
        self.active.clear();
        self.basic.clear();
        self.v.fill(0.0);
        (self.started, self.perturbations, self.still, self.least) = (false, self.restarts, 0, f64::INFINITY);
        self.perturb_costs();
    }

    fn run(&mut self, most: u32) -> Status {
        if !self.started {
            self.start();
            self.started = true;
            if !self.refresh() {
                return Status::Trouble;
            }
        }
        let mut repaired = false;
        loop {
            if self.since_look >= LOOK && !self.look() {
                return Status::Trouble;
            }
            let Some(violated) = self.most_broken() else {
                // Only a fresh inverse may say that nothing is left to do.
                if self.since_look != 0 {
                    if !self.look() {
                        return Status::Trouble;
                    }
                    continue;
                }
                return self.finish();
            };
            if self.pivots >= most {
                return Status::BudgetSpent;
            }
            self.price(violated);
            match self.choose(PIVOT).or_else(|| self.choose(LAST_PIVOT)) {
                Some((entering, theta)) => {
                    if self.pivot(violated, entering, theta) {
                        repaired = false;
                        if self.is_stuck() && !self.perturb() {
                            return Status::Trouble;
                        }
                        continue;
                    }
                    if repaired {
                        return Status::Trouble;
                    }
                }
                None if repaired || self.since_look == 0 => return Status::Infeasible,
                None => {}
            }
            repaired = true;
            if !self.refresh() {
                return Status::Trouble;
            }
        }
    }

    fn finish(&mut self) -> Status {
        self.kernel.left(&self.basic, &self.true_costs, &mut self.y);
        match self.far {
            Some(row) if self.active_at[row] != NONE && self.dual(row) > 1e-9 * self.cost_unit => Status::Unbounded,
            _ => Status::Optimal,
        }
    }

    /// The first basis; see the module.
    fn start(&mut self) {
        let n = self.costs.len();
        let mut covered = vec![false; n];
        for r in 0..self.rows.len() {
            let terms = self.rows.terms(r);
            if self.far == Some(r) || terms.is_empty() || terms.iter().any(|&(j, a)| a < 0.0 || covered[j as usize]) {
                continue;
            }
            terms.iter().for_each(|&(j, _)| covered[j as usize] = true);
            let best = terms.iter().map(|&(j, a)| (self.costs[j as usize] / a, j)).max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((worth, j)) = best
                && worth > 0.0
            {
                self.join(r, j as usize);
            }
        }
        let loose: Vec<u32> = (0..n as u32).filter(|&j| !covered[j as usize] && self.costs[j as usize] > 0.0).collect();
        let best = loose.iter().max_by(|&&a, &&b| self.costs[a as usize].total_cmp(&self.costs[b as usize]));
        if let Some(&j) = best {
            let terms: Vec<(u32, f64)> = loose.iter().map(|&j| (j, 1.0)).collect();
            let row = self.far.unwrap_or_else(|| self.add_row(&terms, FAR));
            self.far = Some(row);
            self.join(row, j as usize);
        }
    }

    fn join(&mut self, row: usize, column: usize) {
        self.active_at[row] = self.active.len() as u32;
        self.basic_at[column] = self.basic.len() as u32;
        self.active.push(row as u32);
        self.basic.push(column as u32);
    }

    /// Inverts the kernel afresh and recomputes everything from it.
    fn refresh(&mut self) -> bool {
        let Self { kernel, active, basic_at, rows, .. } = self;
        let entries = |a: usize| {
            let basic = rows.terms(active[a] as usize).iter().map(|&(j, g)| (basic_at[j as usize], g));
            basic.filter(|entry| entry.0 != NONE)
        };
        if !kernel.invert(active.len(), entries) {
            return false;
        }
        self.since_look = 0;
        self.duals();
        self.primal();
        true
    }

    fn duals(&mut self) {
        self.kernel.left(&self.basic, &self.costs, &mut self.y);
        self.d.copy_from_slice(&self.costs);
        for (&r, &y) in self.active.iter().zip(&self.y) {
            if y != 0.0 {
                self.rows.terms(r as usize).iter().for_each(|&(j, a)| self.d[j as usize] -= y * a);
            }
        }
        self.basic.iter().for_each(|&j| self.d[j as usize] = 0.0);
    }

    /// `v_B = K⁻¹ h_A`: few right-hand sides are not 0, so this costs little.
    fn primal(&mut self) {
        for &b in &self.basic {
            self.v[b as usize] = 0.0;
        }
        for (a, &r) in self.active.iter().enumerate() {
            let h = self.rows.right[r as usize];
            if h != 0.0 {
                for (b, &j) in self.basic.iter().enumerate() {
                    self.v[j as usize] += h * self.kernel.at(b, a);
                }
            }
        }
    }

    /// Inverts afresh when the values no longer satisfy the active rows, or the duals the basic columns.
    fn look(&mut self) -> bool {
        let largest = self.v.iter().fold(1e-300, |a: f64, v| a.max(v.abs()));
        let mut worst = 0.0f64;
        for &r in &self.active {
            let r = r as usize;
            let value: f64 = self.rows.terms(r).iter().map(|&(j, a)| a * self.v[j as usize]).sum();
            worst = worst.max((value - self.rows.right[r]).abs() / largest.max(self.rows.right[r].abs()));
        }
        for &j in &self.basic {
            let worth: f64 = self.columns[j as usize]
                .iter()
                .filter(|t| self.active_at[t.0 as usize] != NONE)
                .map(|&(r, a)| a * self.y[self.active_at[r as usize] as usize])
                .sum();
            worst = worst.max((worth - self.costs[j as usize]).abs());
        }
        self.since_look = 0;
        if worst > 1e-12 { self.refresh() } else { true }
    }

    /// What to repair next: of the most violated things the one that lies furthest outside, measured along its own
    /// direction (`excess²/(1 + |ρ|²)`, steepest edge). Rows are looked at all together now and then; between, only
    /// those that were violated at the last look.
    fn most_broken(&mut self) -> Option<Violated> {
        let largest = self.v.iter().fold(1e-300, |a: f64, &v| a.max(v));
        let floor = 1e-3 * largest;
        let mut short = self.shortlist(floor);
        if short.is_empty() || self.since_scan >= SCAN {
            self.scan(floor);
            short = self.shortlist(floor);
        }
        self.since_scan += 1;
        if short.len() < 2 {
            return short.first().map(|t| t.1);
        }
        let mut best: Option<(f64, Violated)> = None;
        for (excess, violated) in short {
            self.direction(violated);
            let length = 1.0 + self.rho.iter().map(|x| x * x).sum::<f64>();
            let steep = excess * excess / length;
            if best.is_none_or(|b| steep > b.0) {
                best = Some((steep, violated));
            }
        }
        best.map(|b| b.1)
    }

    /// The rows that are violated now.
    fn scan(&mut self, floor: f64) {
        self.since_scan = 0;
        self.violated.clear();
        for r in 0..self.rows.len() {
            if self.active_at[r] == NONE && self.rows.excess(r, &self.v, self.tolerance, floor) > 0.0 {
                self.violated.push(r as u32);
            }
        }
    }

    /// The most violated columns and rows, of the rows that were violated at the last scan.
    fn shortlist(&self, floor: f64) -> Vec<(f64, Violated)> {
        let mut short: Vec<(f64, Violated)> = Vec::with_capacity(SHORTLIST + 1);
        let mut offer = |excess: f64, violated: Violated| {
            if excess > 0.0 && (short.len() < SHORTLIST || excess > short[SHORTLIST - 1].0) {
                let at = short.iter().position(|t| t.0 < excess).unwrap_or(short.len());
                short.insert(at, (excess, violated));
                short.truncate(SHORTLIST);
            }
        };
        for &r in &self.violated {
            if self.active_at[r as usize] == NONE {
                offer(self.rows.excess(r as usize, &self.v, self.tolerance, floor), Violated::Row(r as usize));
            }
        }
        for (b, &j) in self.basic.iter().enumerate() {
            offer(-self.v[j as usize] - self.tolerance * floor, Violated::Basic(b));
        }
        short
    }

    /// `ρ` of what is violated.
    fn direction(&mut self, violated: Violated) {
        self.rho.clear();
        self.rho.resize(self.active.len(), 0.0);
        match violated {
            Violated::Row(r) => {
                for &(j, a) in self.rows.terms(r) {
                    if self.basic_at[j as usize] != NONE {
                        self.kernel.add_row(self.basic_at[j as usize] as usize, a, &mut self.rho);
                    }
                }
            }
            Violated::Basic(b) => self.kernel.add_row(b, -1.0, &mut self.rho),
        }
    }

    /// Whether the dual objective has not fallen for long.
    fn is_stuck(&mut self) -> bool {
        let held = self.active.iter().zip(&self.y).map(|(&r, y)| self.rows.right[r as usize] * y).sum::<f64>();
        if held < self.least - STEP * self.least.abs().min(1.0) {
            self.least = held;
            self.still = 0;
        } else {
            self.still += 1;
        }
        self.still > 60 + self.active.len() as u32
    }

    /// Perturbs all costs, more and differently every time.
    fn perturb_costs(&mut self) {
        let strength = f64::from(1 << self.perturbations);
        let salt = (self.perturbations as usize).wrapping_mul(0x5bd1_e995);
        for (j, (cost, &c)) in self.costs.iter_mut().zip(&self.true_costs).enumerate() {
            *cost = c + strength * (nudge(j.wrapping_add(salt), c) - c);
        }
    }

    /// After many pivots without progress (degeneracy, or values that are rounding) costs are perturbed more, differently
    /// each time, and rows get a larger tolerance. False if that was done too often.
    fn perturb(&mut self) -> bool {
        self.perturbations += 1;
        self.still = 0;
        self.least = f64::INFINITY;
        self.tolerance = (self.tolerance * 4.0).min(1e-8);
        if self.perturbations > PERTURBATIONS || !self.refresh() {
            return false;
        }
        self.perturb_costs();
        self.duals();
        for (cost, d) in self.costs.iter_mut().zip(&mut self.d) {
            if *d > 0.0 {
                *cost -= *d;
                *d = 0.0;
            }
        }
        true
    }

    /// `ρ` and `α` of what is violated.
    fn price(&mut self, violated: Violated) {
        for &j in &self.touched {
            self.alpha[j as usize] = 0.0;
            self.is_touched[j as usize] = false;
        }
        self.touched.clear();
        self.direction(violated);
        if let Violated::Row(r) = violated {
            for &(j, a) in self.rows.terms(r) {
                if self.basic_at[j as usize] == NONE {
                    self.alpha[j as usize] -= a;
                    self.is_touched[j as usize] = true;
                    self.touched.push(j);
                }
            }
        }
        for (&r, &rho) in self.active.iter().zip(&self.rho) {
            if rho.abs() > 1e-14 {
                for &(j, a) in self.rows.terms(r as usize) {
                    if self.basic_at[j as usize] == NONE {
                        self.alpha[j as usize] += rho * a;
                        if !self.is_touched[j as usize] {
                            self.is_touched[j as usize] = true;
                            self.touched.push(j);
                        }
                    }
                }
            }
        }
    }

    /// The ratio test in two passes (Harris): how far with a little tolerance, then the largest pivot within it.
    fn choose(&self, pivot: f64) -> Option<(Entering, f64)> {
        let mut limit = f64::INFINITY;
        for (&rho, &y) in self.rho.iter().zip(&self.y) {
            if rho > pivot {
                limit = limit.min((y.max(0.0) + DUAL) / rho);
            }
        }
        for &j in &self.touched {
            let alpha = self.alpha[j as usize];
            if alpha > pivot {
                limit = limit.min(((-self.d[j as usize]).max(0.0) + DUAL) / alpha);
            }
        }
        let (mut largest, mut found) = (0.0, None);
        for (a, (&rho, &y)) in self.rho.iter().zip(&self.y).enumerate() {
            let y = y.max(0.0);
            if rho > pivot && rho > largest && y <= limit * rho {
                (largest, found) = (rho, Some((Entering::Slack(a), y / rho)));
            }
        }
        for &j in &self.touched {
            let (alpha, d) = (self.alpha[j as usize], (-self.d[j as usize]).max(0.0));
            if alpha > pivot && alpha > largest && d <= limit * alpha {
                (largest, found) = (alpha, Some((Entering::Column(j as usize), d / alpha)));
            }
        }
        found
    }

    /// Moves the duals by `theta`, the sets and the inverse. False, with nothing done, if the pivot is too small.
    fn pivot(&mut self, violated: Violated, entering: Entering, theta: f64) -> bool {
        let mut u = Vec::new();
        if let Entering::Column(j) = entering {
            self.kernel.right(&self.columns[j], &self.active_at, &mut u);
        }
        if let (Violated::Basic(b), Entering::Column(j)) = (violated, entering)
            && (u[b] + self.alpha[j]).abs() > 1e-6 * self.alpha[j].abs()
        {
            return false;
        }
        for (y, rho) in self.y.iter_mut().zip(&self.rho) {
            *y -= theta * rho;
        }
        for &j in &self.touched {
            self.d[j as usize] += theta * self.alpha[j as usize];
        }
        self.pivots += 1;
        self.since_look += 1;
        self.exchange(violated, entering, theta, &u);
        self.primal();
        true
    }

    fn exchange(&mut self, violated: Violated, entering: Entering, theta: f64, u: &[f64]) {
        match (violated, entering) {
            (Violated::Row(r), Entering::Slack(a)) => {
                self.kernel.replace_row(a, &self.rho);
                self.active_at[self.active[a] as usize] = NONE;
                self.active[a] = r as u32;
                self.active_at[r] = a as u32;
                self.y[a] = theta;
            }
            (Violated::Row(r), Entering::Column(j)) => {
                self.kernel.join(u, &self.rho, -self.alpha[j]);
                self.join(r, j);
                self.y.push(theta);
                self.d[j] = 0.0;
            }
            (Violated::Basic(b), Entering::Column(j)) => {
                self.kernel.replace_column(b, u);
                self.drop_basic(b, theta);
                self.basic[b] = j as u32;
                self.basic_at[j] = b as u32;
                self.d[j] = 0.0;
            }
            (Violated::Basic(b), Entering::Slack(a)) => {
                self.kernel.leave(b, a);
                self.drop_basic(b, theta);
                self.active_at[self.active[a] as usize] = NONE;
                self.basic.swap_remove(b);
                self.active.swap_remove(a);
                self.y.swap_remove(a);
                if let Some(&j) = self.basic.get(b) {
                    self.basic_at[j as usize] = b as u32;
                }
                if let Some(&r) = self.active.get(a) {
                    self.active_at[r as usize] = a as u32;
                }
            }
        }
    }

    fn drop_basic(&mut self, b: usize, theta: f64) {
        let j = self.basic[b] as usize;
        self.basic_at[j] = NONE;
        self.v[j] = 0.0;
        self.d[j] = -theta;
    }
}

/// The cost with its nudge: downwards by parts in 10¹⁰ that depend on the column's number alone.
fn nudge(j: usize, cost: f64) -> f64 {
    let mut z = (j as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^= z >> 31;
    let part = (z >> 11) as f64 / (1u64 << 53) as f64;
    cost - 1e-10 * (0.5 + part) * f64::max(cost.abs(), 0.03)
}
