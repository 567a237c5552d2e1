//! Least draw with floors, where nobody would rather have another's units: a linear program with a row for every two users, of which
//! few bind.
//!
//! ```text
//! minimise Σ p x + Σ p y     u_l ≥ f_l         Σ_i x_ij + Σ y_j ≤ m_j           held_l ≤ d_l
//!                            u_l/π_l ≥ κ·(Σ_j (a_lj − μ_l)⁺ X_ij/π_i + μ_l d_l/π_l)             all l ≠ i
//! ```
//!
//! `y` are units on which two users work side by side: each has its rate there, draws are said per pair, and in `X`, for envy, each holds half of the unit.
//! `κ = 1 − ε` compares like with like: had `l` the units of `i`, the same part of it would be asked of it. `μ_l` is 0 without caps; with a cap,
//! `a_l·X_i` would count units that `l` could not use, and for any `μ_l ≥ 0` the right side is an upper bound of what it could do with them.
//!
//! The caller knows a point that keeps all rows ([`super::thrift`] within a division without envy): a row that this point breaks, by rounding, is asked no more of
//! anybody than of it. So there always is a solution.
//!
//! Users with the same rates, draws, floors, caps and weights are one user: their average is a solution whenever they are. Such a user has a row against
//! itself: its members look at each other, so what it holds may be worth `u_g/κ` to it at most. (Weights must be the same: of two with `κ < 1` the lighter one
//! may run its units at their best, and the heavier one hold more than `u/κ` is worth.) Rows are added when they are violated ([`crate::simplex`]); pairs too, by
//! their prices, in a few turns.

use super::Ways;
use crate::distinct::DistinctRows;
use crate::simplex::Simplex;
use crate::{Budget, Status};

/// Relative violation of an envy row before it is added.
const ENVY: f64 = 1e-9;
/// Turns of adding pairs that pay.
const TURNS: usize = 4;
/// A pair must pay by more than this part of what its unit costs.
const PAYS: f64 = 1e-7;

/// Two users on one unit of a way's resource.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Together {
    /// A user...
    pub first: usize,
    /// ...and another, or the same again.
    pub second: usize,
    /// How the unit is used: a way of its resource.
    pub way: usize,
    /// Rates of the two.
    pub rates: [f64; 2],
    /// What the unit draws with both.
    pub draw: f64,
}

/// What is asked besides the problem.
#[derive(Clone, Copy, Debug)]
pub struct Envious<'a> {
    /// f: everybody's floor; positive.
    pub floors: &'a [f64],
    /// κ: the part of another's units that counts.
    pub part: f64,
    /// μ: see the module; empty for all 0.
    pub rents: &'a [f64],
    /// Units for two.
    pub together: &'a [Together],
    /// A use, users × ways, that keeps the rows, at least up to rounding.
    pub known: &'a [f64],
}

/// A use without envy.
#[derive(Clone, PartialEq, Debug)]
pub struct Shared {
    /// Use, users × ways, row by row.
    pub x: Vec<f64>,
    /// Units of each of [`Envious::together`].
    pub together: Vec<f64>,
    /// What is drawn.
    pub draw: f64,
    /// No use of these columns that keeps the rows draws less.
    pub least: f64,
    /// Per user: what a unit of its floor adds to the draw, envy rows priced in.
    pub floor_prices: Vec<f64>,
    /// Per resource.
    pub prices: Vec<f64>,
    /// Pivots spent.
    pub pivots: u32,
}

/// Solves within `budget` pivots; `None` if that was not enough, or numbers were too far apart.
#[must_use]
pub fn least_draw_without_envy(problem: &Ways<'_>, asked: &Envious<'_>, budget: Budget) -> Option<Shared> {
    let merged = Merged::new(problem, asked);
    let mut offered: Vec<usize> = Vec::new();
    let mut pivots = 0;
    for turn in 0.. {
        let mut lines = Lines::new(problem, asked, &merged, &offered);
        let solved = lines.solve(budget.iterations.saturating_sub(pivots));
        pivots += lines.simplex.pivots();
        if !solved {
            return None;
        }
        let news = if turn < TURNS { lines.paying(&offered) } else { Vec::new() };
        if news.is_empty() {
            return Some(Shared { pivots, ..lines.read(&offered) });
        }
        offered.extend(news);
        offered.sort_unstable();
    }
    None
}

/// Users that are alike, as one.
struct Merged {
    /// Of each user, whom it belongs to; of each group, its first user, how many there are and the sum of weights.
    group: Vec<usize>,
    first: Vec<usize>,
    members: Vec<u32>,
    weight: Vec<f64>,
}

impl Merged {
    fn new(problem: &Ways<'_>, asked: &Envious<'_>) -> Self {
        let (n, ways) = (problem.users(), problem.ways());
        let mut merged =
            Self { group: Vec::with_capacity(n), first: Vec::new(), members: Vec::new(), weight: Vec::new() };
        // Who may share a unit is somebody of its own.
        let mut shares = vec![false; n];
        asked.together.iter().for_each(|pair| [pair.first, pair.second].iter().for_each(|&l| shares[l] = true));
        let (mut table, mut rows) = (DistinctRows::default(), Vec::new());
        table.reset(n);
        for l in 0..n {
            let weight = problem.weight[l];
            let mut row = problem.w[l * ways..][..ways].to_vec();
            row.extend_from_slice(&problem.draw[l * ways..][..ways]);
            row.extend([weight, asked.floors[l], problem.caps[l]]);
            row.push(asked.rents.get(l).copied().unwrap_or(0.0));
            row.push(if shares[l] { (l + 1) as f64 } else { 0.0 });
            let (group, new) = table.insert(&mut rows, &row);
            if new {
                merged.first.push(l);
                merged.members.push(0);
                merged.weight.push(0.0);
            }
            merged.group.push(group as usize);
            merged.members[group as usize] += 1;
            merged.weight[group as usize] += weight;
        }
        merged
    }

    /// Whether somebody of group `g` looks at somebody of group `h`: at its own only if it is not alone there.
    fn looks_at(&self, g: usize, h: usize) -> bool {
        g != h || self.members[g] > 1
    }
}

/// The program as columns and rows.
struct Lines<'a> {
    problem: &'a Ways<'a>,
    asked: &'a Envious<'a>,
    merged: &'a Merged,
    simplex: Simplex,
    /// Column of (group, way), and of every pair that is offered.
    alone: Vec<Option<u32>>,
    pairs: Vec<u32>,
    /// Rows of resources, and of floors by group.
    resource_rows: Vec<Option<usize>>,
    floor_rows: Vec<usize>,
    cap_rows: Vec<Option<usize>>,
    /// By group: terms of its utility, and its units by resource, in columns.
    utility: Vec<Vec<(u32, f64)>>,
    units: Vec<Vec<(u32, usize, f64)>>,
    envy: Vec<(usize, usize, usize)>,
}

impl<'a> Lines<'a> {
    fn new(problem: &'a Ways<'a>, asked: &'a Envious<'a>, merged: &'a Merged, offered: &[usize]) -> Self {
        let (groups, ways) = (merged.first.len(), problem.ways());
        let (mut costs, mut alone) = (Vec::new(), vec![None; groups * ways]);
        let (mut utility, mut units) = (vec![Vec::new(); groups], vec![Vec::new(); groups]);
        let mut resources = vec![Vec::new(); problem.capacity.len()];
        for (g, &l) in merged.first.iter().enumerate() {
            for (a, j, w, p) in problem.useful(l) {
                let column = costs.len() as u32;
                costs.push(-p);
                alone[g * ways + a] = Some(column);
                utility[g].push((column, w));
                units[g].push((column, j, 1.0));
                resources[j].push((column, 1.0));
            }
        }
        let mut pairs = Vec::with_capacity(offered.len());
        for pair in offered.iter().map(|&at| &asked.together[at]) {
            let (column, j) = (costs.len() as u32, problem.resource[pair.way]);
            costs.push(-pair.draw);
            pairs.push(column);
            resources[j].push((column, 1.0));
            for (l, rate) in [pair.first, pair.second].into_iter().zip(pair.rates) {
                add(&mut utility[merged.group[l]], column, rate);
                units[merged.group[l]].push((column, j, 0.5));
            }
        }
        let mut simplex = Simplex::new(&costs);
        let resource_rows = resources
            .iter()
            .zip(problem.capacity)
            .map(|(terms, &m)| (!terms.is_empty()).then(|| simplex.add_row(terms, m)))
            .collect();
        let (mut floor_rows, mut cap_rows) = (Vec::with_capacity(groups), Vec::with_capacity(groups));
        for (g, &l) in merged.first.iter().enumerate() {
            let times = merged.weight[g] / problem.weight[l];
            let terms: Vec<_> = utility[g].iter().map(|&(column, w)| (column, -w)).collect();
            floor_rows.push(simplex.add_row(&terms, -asked.floors[l] * times));
            let cap = problem.caps[l] * times;
            cap_rows.push(cap.is_finite().then(|| {
                let mut held: Vec<(u32, f64)> = Vec::with_capacity(units[g].len());
                // A pair is a place for each of its members, whatever part of the unit counts as held.
                units[g]
                    .iter()
                    .for_each(|&(column, _, part)| add(&mut held, column, if part < 1.0 { 1.0 } else { part }));
                simplex.add_row(&held, cap)
            }));
        }
        let envy = Vec::new();
        Self {
            problem,
            asked,
            merged,
            simplex,
            alone,
            pairs,
            resource_rows,
            floor_rows,
            cap_rows,
            utility,
            units,
            envy,
        }
    }

    /// Adds envy rows until none is violated.
    fn solve(&mut self, pivots: u32) -> bool {
        loop {
            if self.simplex.solve(pivots) != Status::Optimal {
                return false;
            }
            let news = self.violated();
            if news.is_empty() {
                return true;
            }
            for (g, h) in news {
                let (terms, right) = self.envy_row(g, h);
                let row = self.simplex.add_row(&terms, right);
                self.envy.push((g, h, row));
            }
        }
    }

    fn rent(&self, l: usize) -> f64 {
        self.asked.rents.get(l).copied().unwrap_or(0.0)
    }

    /// What group `g` makes of a unit of each resource, beyond its rent.
    fn values(&self, g: usize) -> Vec<f64> {
        let l = self.merged.first[g];
        let rent = self.rent(l);
        self.problem.best_rates(l).into_iter().map(|a| f64::max(a - rent, 0.0)).collect()
    }

    /// What every group values of its own and of another's, per weight: `(own, other)` without the rent's constant.
    fn violated(&self) -> Vec<(usize, usize)> {
        let v = self.simplex.values();
        let (groups, k) = (self.merged.first.len(), self.problem.capacity.len());
        let mut held = vec![0.0; groups * k];
        for (g, units) in self.units.iter().enumerate() {
            for &(column, j, part) in units {
                held[g * k + j] += part * v[column as usize].max(0.0) / self.merged.weight[g];
            }
        }
        let mut news = Vec::new();
        for g in 0..groups {
            let values = self.values(g);
            let own: f64 =
                self.utility[g].iter().map(|&(column, w)| w * v[column as usize]).sum::<f64>() / self.merged.weight[g];
            let mut worst: Vec<(f64, usize)> = Vec::new();
            for h in (0..groups).filter(|&h| self.merged.looks_at(g, h)) {
                let worth: f64 = values.iter().zip(&held[h * k..][..k]).map(|(a, x)| a * x).sum();
                let asked = self.asked.part * (worth + self.rent_of(g)) - self.allowance(g, h);
                if asked > own * (1.0 + ENVY) && !self.envy.iter().any(|row| (row.0, row.1) == (g, h)) {
                    worst.push((asked - own, h));
                }
            }
            worst.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            news.extend(worst.into_iter().take(3).map(|(_, h)| (g, h)));
        }
        news
    }

    /// `μ_l d_l/π_l`
    fn rent_of(&self, g: usize) -> f64 {
        let l = self.merged.first[g];
        let rent = self.rent(l);
        if rent > 0.0 { rent * self.problem.caps[l] / self.problem.weight[l] } else { 0.0 }
    }

    /// What the known use breaks a row by, per weight.
    fn allowance(&self, g: usize, h: usize) -> f64 {
        let ways = self.problem.ways();
        let (l, i) = (self.merged.first[g], self.merged.first[h]);
        let (mine, others) = (&self.asked.known[l * ways..][..ways], &self.asked.known[i * ways..][..ways]);
        let own: f64 = self.problem.useful(l).map(|(a, _, w, _)| w * mine[a]).sum();
        let values = self.values(g);
        let worth: f64 = others.iter().zip(self.problem.resource).map(|(x, &j)| values[j] * x).sum();
        let asked = self.asked.part * (worth / self.problem.weight[i] + self.rent_of(g));
        f64::max(asked - own / self.problem.weight[l], 0.0)
    }

    /// `κ Σ (a − μ)⁺ X_h/π_h − u_g/π_g ≤ allowance − κ μ d/π`
    fn envy_row(&self, g: usize, h: usize) -> (Vec<(u32, f64)>, f64) {
        let values = self.values(g);
        let mut terms: Vec<(u32, f64)> =
            self.utility[g].iter().map(|&(column, w)| (column, -w / self.merged.weight[g])).collect();
        for &(column, j, part) in &self.units[h] {
            add(&mut terms, column, self.asked.part * part * values[j] / self.merged.weight[h]);
        }
        (terms, self.allowance(g, h) - self.asked.part * self.rent_of(g))
    }

    /// Pairs not yet offered that would lower the draw at the present prices, those that pay most first.
    fn paying(&self, offered: &[usize]) -> Vec<usize> {
        let groups = self.merged.first.len();
        let k = self.problem.capacity.len();
        // Worth of a unit of utility, and cost of half a unit held, by group.
        let mut worth: Vec<f64> = self.floor_rows.iter().map(|&row| self.simplex.dual(row)).collect();
        let mut envied = vec![0.0; groups * k];
        for &(g, h, row) in &self.envy {
            let dual = self.simplex.dual(row);
            if dual > 0.0 {
                worth[g] += dual / self.merged.weight[g];
                for (j, value) in self.values(g).into_iter().enumerate() {
                    envied[h * k + j] += dual * self.asked.part * value / self.merged.weight[h];
                }
            }
        }
        let price = |row: &Option<usize>| row.map_or(0.0, |row| self.simplex.dual(row));
        let mut paying: Vec<(f64, usize)> = Vec::new();
        for (at, pair) in self.asked.together.iter().enumerate() {
            let j = self.problem.resource[pair.way];
            if self.problem.capacity[j] <= 0.0 || offered.binary_search(&at).is_ok() {
                continue;
            }
            let mut cost = pair.draw + price(&self.resource_rows[j]);
            for (l, rate) in [pair.first, pair.second].into_iter().zip(pair.rates) {
                let g = self.merged.group[l];
                cost += price(&self.cap_rows[g]) + 0.5 * envied[g * k + j] - worth[g] * rate;
            }
            if cost < -PAYS * pair.draw {
                paying.push((cost, at));
            }
        }
        paying.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        paying.into_iter().take(4 * groups).map(|(_, at)| at).collect()
    }

    fn read(&self, offered: &[usize]) -> Shared {
        let (v, ways) = (self.simplex.values(), self.problem.ways());
        let mut x = vec![0.0; self.problem.users() * ways];
        for (l, &g) in self.merged.group.iter().enumerate() {
            let part = self.problem.weight[l] / self.merged.weight[g];
            for a in 0..ways {
                x[l * ways + a] = self.alone[g * ways + a].map_or(0.0, |column| part * v[column as usize].max(0.0));
            }
        }
        let mut together = vec![0.0; self.asked.together.len()];
        offered.iter().zip(&self.pairs).for_each(|(&at, &column)| together[at] = v[column as usize].max(0.0));
        Shared {
            x,
            together,
            draw: -self.simplex.objective(),
            least: -self.simplex.dual_objective(),
            floor_prices: self.merged.group.iter().map(|&g| self.simplex.dual(self.floor_rows[g])).collect(),
            prices: self.resource_rows.iter().map(|row| row.map_or(0.0, |row| self.simplex.dual(row))).collect(),
            pivots: 0,
        }
    }
}

/// Adds to a column's term.
fn add(terms: &mut Vec<(u32, f64)>, column: u32, value: f64) {
    match terms.iter_mut().find(|term| term.0 == column) {
        Some(term) => term.1 += value,
        None => terms.push((column, value)),
    }
}
