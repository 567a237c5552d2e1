//! A block's program restricted to a partition: everybody in a part gets the same bundle, so there are `k` columns per
//! part instead of per user, and of all the rows from one part to another only that of the most envious member binds.
//! Rows are added when they are violated.

use super::block::Block;
use super::scaled::{Scaled, dot};
use crate::Status;
use crate::simplex::Simplex;
use std::collections::HashSet;

/// Relative violation of a user's envy row before it is added.
const ENVY: f64 = 1e-10;
/// Absolute violation, as a fraction of the user's largest rate; matters where it holds nothing.
const NOTHING: f64 = 1e-13;
/// Rows of a part that are added at a time, the most violated first: most of the others would never bind, and every row is
/// looked at in every pivot.
const AT_A_TIME: usize = 2;

/// The best bundles for a partition, with duals. Users are named by their position in the block, parts by number.
#[derive(Debug)]
pub(super) struct Restricted {
    pub(super) parts: Vec<Vec<u32>>,
    /// Parts × resources.
    pub(super) bundles: Vec<f64>,
    pub(super) objective: f64,
    pub(super) prices: Vec<f64>,
    /// `(user, part, y)`.
    pub(super) envy: Vec<(u32, u32, f64)>,
    /// `(crowd, part, y)`: rows of a crowd's mean.
    pub(super) means: Vec<(u32, u32, f64)>,
    pub(super) crowds: Vec<Crowd>,
    /// `(outsider, part, y)`; outsiders by their place in [`Block::inflow`].
    pub(super) inflow: Vec<(u32, u32, f64)>,
    /// Whether this is the optimum. If not, the bundles are those of the last basis, and the objective is the upper
    /// bound of its duals, which the dual simplex keeps feasible.
    pub(super) exact: bool,
    pub(super) pivots: u32,
    /// Users whose rows are worth all that they may be, and are broken for it.
    pub(super) broken: Vec<u32>,
}

/// Members of a part with what each counts for in rows of their mean: whoever holds the same bundle envies nobody on average either.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    pub(super) part: u32,
    /// `(user, its part of the mean)`.
    pub(super) mean: Vec<(u32, f64)>,
    /// The most that the rows may be worth together: beyond it they may be broken.
    pub(super) most: f64,
}

/// What rows may be worth at most, so that large parts can be proved whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// `(user, the most that the duals of its rows may be together)`: beyond it the rows may be broken.
    pub(super) users: Vec<(u32, f64)>,
    pub(super) crowds: Vec<Crowd>,
}

impl Restricted {
    /// The parts, with those whose rows are broken by themselves.
    pub(super) fn unbroken(self) -> Vec<Vec<u32>> {
        let Self { mut parts, broken, .. } = self;
        parts.iter_mut().for_each(|part| part.retain(|at| broken.binary_search(at).is_err()));
        parts.retain(|part| !part.is_empty());
        parts.extend(broken.iter().map(|&at| vec![at]));
        parts
    }
}

/// What counts as broken, beside bundles of about 1.
const BROKEN: f64 = 1e-9;

struct Builder<'a> {
    scaled: &'a Scaled,
    block: &'a Block,
    parts: Vec<Vec<u32>>,
    part_of: Vec<u32>,
    /// Column of (part, resource), or none where a member has no use for it; the `t_i` follow.
    column: Vec<Option<u32>>,
    first_t: u32,
    /// Per user, the column by which its rows may be broken, if they may.
    slack: Vec<Option<u32>>,
    /// By how much rows of means may be broken: a column for each.
    first_mean: u32,
    simplex: Simplex,
    rows: Vec<RowKind>,
    known: HashSet<(u32, u32)>,
}

/// What a row of the simplex says.
#[derive(Clone, Copy, Debug)]
enum RowKind {
    Capacity,
    Envy(u32, u32),
    Inflow(u32, u32),
    Mean(u32, u32),
}

/// Solves for these parts; `hints` are rows (user against user) that are likely to bind.
pub(super) fn solve(
    scaled: &Scaled,
    block: &Block,
    parts: Vec<Vec<u32>>,
    limits: Limits,
    hints: &[(u32, u32)],
    pivots: u32,
) -> Restricted {
    let mut builder = Builder::new(scaled, block, parts, &limits);
    let Limits { crowds, .. } = limits;
    crowds.iter().enumerate().for_each(|(c, crowd)| builder.add_means(c as u32, crowd));
    for &(l, i) in hints {
        builder.add_envy(l, builder.part_of[i as usize]);
    }
    loop {
        let exact = builder.simplex.solve(pivots) == Status::Optimal;
        let bundles = builder.bundles();
        if !exact || !builder.separate(&bundles) {
            return builder.read(bundles, exact, crowds);
        }
    }
}

impl<'a> Builder<'a> {
    fn new(scaled: &'a Scaled, block: &'a Block, parts: Vec<Vec<u32>>, limits: &Limits) -> Self {
        let k = scaled.k;
        let mut part_of = vec![0; block.members.len()];
        let (mut column, mut costs) = (Vec::with_capacity(parts.len() * k), Vec::with_capacity(parts.len() * k));
        let mut capacity: Vec<Vec<(u32, f64)>> = vec![Vec::with_capacity(parts.len()); k];
        let (mut value, mut useful) = (vec![0.0; k], vec![true; k]);
        for (g, part) in parts.iter().enumerate() {
            let mut total = 0.0;
            value.fill(0.0);
            useful.fill(true);
            for &at in part {
                part_of[at as usize] = g as u32;
                let l = block.members[at as usize] as usize;
                let (weight, outflow) = (scaled.weight[l], block.outflow[at as usize]);
                total += weight;
                for (j, &w) in scaled.rates(l).iter().enumerate() {
                    value[j] += (weight + outflow) * w - weight * block.prices[j];
                    useful[j] &= w > 0.0;
                }
            }
            for j in 0..k {
                column.push(useful[j].then_some(costs.len() as u32));
                if useful[j] {
                    capacity[j].push((costs.len() as u32, total));
                    costs.push(value[j]);
                }
            }
        }
        let first_t = costs.len() as u32;
        // `t_i` is measured in `top_i`.
        costs.extend(block.inflow.iter().map(|&(i, y)| -y * scaled.top[i as usize]));
        let mut slack = vec![None; block.members.len()];
        for &(at, most) in &limits.users {
            slack[at as usize] = Some(costs.len() as u32);
            costs.push(-most * scaled.top[block.members[at as usize] as usize]);
        }
        let first_mean = costs.len() as u32;
        costs.extend(limits.crowds.iter().map(|crowd| -crowd.most));
        let mut simplex = Simplex::new(&costs);
        for terms in &capacity {
            simplex.add_row(terms, 1.0);
        }
        let rows = vec![RowKind::Capacity; k];
        Self { scaled, block, parts, part_of, column, first_t, slack, first_mean, simplex, rows, known: HashSet::new() }
    }

    fn rates(&self, at: u32) -> &'a [f64] {
        self.scaled.rates(self.block.members[at as usize] as usize)
    }

    fn top(&self, at: u32) -> f64 {
        self.scaled.top[self.block.members[at as usize] as usize]
    }

    /// Terms `factor · rates · z_part`.
    fn terms(&self, rates: &[f64], factor: f64, part: u32, out: &mut Vec<(u32, f64)>) {
        let columns = &self.column[part as usize * self.scaled.k..];
        for (&w, &column) in rates.iter().zip(columns) {
            if let (true, Some(column)) = (w > 0.0, column) {
                out.push((column, factor * w));
            }
        }
    }

    /// `w_l·(z_h − z_g) ≤ 0` for `g` the part of `l`.
    fn add_envy(&mut self, l: u32, h: u32) -> bool {
        let g = self.part_of[l as usize];
        if g == h || !self.known.insert((l, h)) {
            return false;
        }
        let mut terms = Vec::with_capacity(2 * self.scaled.k);
        self.terms(self.rates(l), -1.0, g, &mut terms);
        self.terms(self.rates(l), 1.0, h, &mut terms);
        terms.extend(self.slack[l as usize].map(|column| (column, -self.top(l))));
        self.simplex.add_row(&terms, 0.0);
        self.rows.push(RowKind::Envy(l, h));
        true
    }

    /// The rows of a crowd's mean towards all other parts.
    fn add_means(&mut self, c: u32, crowd: &Crowd) {
        let mut rates = vec![0.0; self.scaled.k];
        for &(at, part) in &crowd.mean {
            rates.iter_mut().zip(self.rates(at)).for_each(|(to, w)| *to += part * w);
        }
        for h in (0..self.parts.len() as u32).filter(|&h| h != crowd.part) {
            let mut terms = vec![(self.first_mean + c, -1.0)];
            self.terms(&rates, -1.0, crowd.part, &mut terms);
            self.terms(&rates, 1.0, h, &mut terms);
            self.simplex.add_row(&terms, 0.0);
            self.rows.push(RowKind::Mean(c, h));
        }
    }

    /// `w_i·z_h ≤ t_i` for outsider number `o`.
    fn add_inflow(&mut self, o: u32, h: u32) -> bool {
        if !self.known.insert((self.block.members.len() as u32 + o, h)) {
            return false;
        }
        let i = self.block.inflow[o as usize].0 as usize;
        let mut terms = vec![(self.first_t + o, -self.scaled.top[i])];
        self.terms(self.scaled.rates(i), 1.0, h, &mut terms);
        self.simplex.add_row(&terms, 0.0);
        self.rows.push(RowKind::Inflow(o, h));
        true
    }

    fn bundles(&self) -> Vec<f64> {
        let v = self.simplex.values();
        self.column.iter().map(|c| c.map_or(0.0, |c| v[c as usize].max(0.0))).collect()
    }

    /// Adds rows that the bundles violate; false if there are none.
    fn separate(&mut self, bundles: &[f64]) -> bool {
        let k = self.scaled.k;
        let mut added = false;
        for g in 0..self.parts.len() {
            for (l, h) in self.most_envious(g, bundles) {
                added |= self.add_envy(l, h);
            }
        }
        for o in 0..self.block.inflow.len() {
            let i = self.block.inflow[o].0 as usize;
            let t = self.simplex.values()[self.first_t as usize + o] * self.scaled.top[i];
            let worth = bundles.chunks_exact(k).map(|bundle| self.scaled.worth(i, bundle));
            if let Some((h, worth)) = worth.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
                && worth > t * (1.0 + ENVY) + NOTHING * self.scaled.top[i]
            {
                added |= self.add_inflow(o as u32, h as u32);
            }
        }
        added
    }

    /// By how much a user's rows are broken, in its largest rate.
    fn excused(&self, l: u32) -> f64 {
        self.slack[l as usize].map_or(0.0, |column| self.simplex.values()[column as usize].max(0.0))
    }

    /// Per bundle the most envious member of the part, and of those the worst.
    fn most_envious(&self, g: usize, bundles: &[f64]) -> Vec<(u32, u32)> {
        let k = self.scaled.k;
        let part = &self.parts[g];
        let mut worst: Vec<(f64, u32)> = vec![(0.0, 0); self.parts.len()];
        for &l in part {
            let (rates, top) = (self.rates(l), self.top(l));
            let own = dot(rates, &bundles[g * k..][..k]) + self.excused(l) * top;
            let limit = own * (1.0 + ENVY) + NOTHING * top;
            for (bundle, worst) in bundles.chunks_exact(k).zip(&mut worst) {
                let worth = dot(rates, bundle);
                if worth > limit && (worth - own) / top > worst.0 {
                    *worst = ((worth - own) / top, l);
                }
            }
        }
        let mut found: Vec<(f64, u32, u32)> =
            worst.iter().enumerate().filter(|t| t.1.0 > 0.0).map(|(h, t)| (t.0, t.1, h as u32)).collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().take(AT_A_TIME).map(|(_, l, h)| (l, h)).collect()
    }

    fn read(self, bundles: Vec<f64>, exact: bool, crowds: Vec<Crowd>) -> Restricted {
        let mut restricted = Restricted {
            bundles,
            objective: if exact { self.simplex.objective() } else { self.simplex.dual_objective() },
            exact,
            prices: Vec::with_capacity(self.scaled.k),
            envy: Vec::new(),
            means: Vec::new(),
            crowds,
            inflow: Vec::new(),
            pivots: self.simplex.pivots(),
            broken: (0..self.part_of.len() as u32).filter(|&l| self.excused(l) > BROKEN).collect(),
            parts: self.parts,
        };
        for (r, &kind) in self.rows.iter().enumerate() {
            let dual = self.simplex.dual(r);
            match kind {
                RowKind::Capacity => restricted.prices.push(dual),
                _ if dual <= 0.0 => {}
                RowKind::Envy(l, h) => restricted.envy.push((l, h, dual)),
                RowKind::Inflow(o, h) => restricted.inflow.push((o, h, dual)),
                RowKind::Mean(c, h) => restricted.means.push((c, h, dual)),
            }
        }
        restricted
    }
}
