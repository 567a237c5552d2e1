//! The programme over parts of a crowd: everybody in a part gets the same bundle, so there are `k` columns a part
//! instead of a user, and of all the rows from one part to another only that of the most envious member binds.
//! Rows arrive as they are broken.

use super::crowd::Crowd;
use super::stage::{Stage, dot};
use crate::simplex::{End, Simplex};
use std::collections::HashSet;

/// How much a user may envy, relative to what it has, before its row is added.
const ENVY: f64 = 1e-10;
/// The same for bundles of nothing, in parts of the user's largest rate.
const NOTHING: f64 = 1e-13;
/// Of a part of fewer users than this only the worst rows are added at a time.
const FEW: usize = 3;

/// The best bundles for a partition, with duals. Users are named by their place in the crowd, parts by number.
#[derive(Debug)]
pub(super) struct Grouped {
    pub(super) parts: Vec<Vec<u32>>,
    /// Parts × resources.
    pub(super) bundles: Vec<f64>,
    pub(super) objective: f64,
    pub(super) prices: Vec<f64>,
    /// `(user, part, y)`.
    pub(super) envy: Vec<(u32, u32, f64)>,
    /// `(outsider, part, y)`; outsiders by their place in [`Crowd::inflow`].
    pub(super) inflow: Vec<(u32, u32, f64)>,
    /// `(user, y)`.
    pub(super) floor: Vec<(u32, f64)>,
    /// Whether this is the optimum. If not, the bundles are what the simplex had when it ended, and the objective is
    /// what its duals, feasible all along, prove that it cannot exceed.
    pub(super) exact: bool,
    pub(super) pivots: u32,
}

struct Building<'a> {
    stage: &'a Stage,
    crowd: &'a Crowd,
    parts: Vec<Vec<u32>>,
    part_of: Vec<u32>,
    /// Column of (part, resource), or none where a member has no use for it or nothing is left; the `t_i` follow.
    column: Vec<Option<u32>>,
    first_t: u32,
    simplex: Simplex,
    rows: Vec<Kind>,
    known: HashSet<(u32, u32)>,
    capped: Vec<bool>,
}

/// What a row is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Capacity,
    Envy(u32, u32),
    Inflow(u32, u32),
    Floor(u32),
    Cap,
}

/// Solves for these parts; `hints` are rows (user against user) that are likely to bind.
pub(super) fn solve(stage: &Stage, crowd: &Crowd, parts: Vec<Vec<u32>>, hints: &[(u32, u32)], pivots: u32) -> Grouped {
    let mut building = Building::new(stage, crowd, parts);
    for &(l, i) in hints {
        building.add_envy(l, building.part_of[i as usize]);
    }
    loop {
        let exact = building.simplex.solve(pivots) == End::Optimal;
        let bundles = building.bundles();
        if !exact || !building.separate(&bundles) {
            return building.read(bundles, exact);
        }
    }
}

impl<'a> Building<'a> {
    fn new(stage: &'a Stage, crowd: &'a Crowd, parts: Vec<Vec<u32>>) -> Self {
        let k = stage.k;
        let mut part_of = vec![0; crowd.members.len()];
        let (mut column, mut costs) = (Vec::with_capacity(parts.len() * k), Vec::with_capacity(parts.len() * k));
        let mut capacity: Vec<Vec<(u32, f64)>> = vec![Vec::with_capacity(parts.len()); k];
        let (mut value, mut useful) = (vec![0.0; k], vec![true; k]);
        for (g, part) in parts.iter().enumerate() {
            let mut total = 0.0;
            value.fill(0.0);
            useful.iter_mut().zip(&stage.room).for_each(|(useful, &room)| *useful = room > 0.0);
            for &at in part {
                part_of[at as usize] = g as u32;
                let l = crowd.members[at as usize] as usize;
                let (weight, outflow) = (stage.weight[l], crowd.outflow[at as usize]);
                total += weight;
                for (j, &w) in stage.rates(l).iter().enumerate() {
                    value[j] += (weight + outflow) * w - weight * crowd.prices[j];
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
        costs.extend(crowd.inflow.iter().map(|&(i, y)| -y * stage.top[i as usize]));
        let mut simplex = Simplex::new(&costs);
        for (terms, &room) in capacity.iter().zip(&stage.room) {
            simplex.add_row(terms, room);
        }
        let (rows, capped) = (vec![Kind::Capacity; k], vec![false; parts.len()]);
        Self { stage, crowd, parts, part_of, column, first_t, simplex, rows, known: HashSet::new(), capped }
    }

    fn rates(&self, at: u32) -> &'a [f64] {
        self.stage.rates(self.crowd.members[at as usize] as usize)
    }

    fn top(&self, at: u32) -> f64 {
        self.stage.top[self.crowd.members[at as usize] as usize]
    }

    /// Terms `factor · rates · z_part`.
    fn terms(&self, rates: &[f64], factor: f64, part: u32, out: &mut Vec<(u32, f64)>) {
        let columns = &self.column[part as usize * self.stage.k..];
        for (&w, &column) in rates.iter().zip(columns) {
            if let (true, Some(column)) = (w > 0.0, column) {
                out.push((column, factor * w));
            }
        }
    }

    /// `w_l·(z_h − z_g) ≤ 0` for `g` the part of `l`.
    fn add_envy(&mut self, l: u32, h: u32) -> bool {
        let g = self.part_of[l as usize];
        if g == h || self.stage.content[self.crowd.members[l as usize] as usize] || !self.known.insert((l, h)) {
            return false;
        }
        let mut terms = Vec::with_capacity(2 * self.stage.k);
        self.terms(self.rates(l), -1.0, g, &mut terms);
        self.terms(self.rates(l), 1.0, h, &mut terms);
        self.simplex.add_row(&terms, 0.0);
        self.rows.push(Kind::Envy(l, h));
        true
    }

    /// `w_i·z_h ≤ t_i` for outsider number `o`.
    fn add_inflow(&mut self, o: u32, h: u32) -> bool {
        if !self.known.insert((self.crowd.members.len() as u32 + o, h)) {
            return false;
        }
        let i = self.crowd.inflow[o as usize].0 as usize;
        let mut terms = vec![(self.first_t + o, -self.stage.top[i])];
        self.terms(self.stage.rates(i), 1.0, h, &mut terms);
        self.simplex.add_row(&terms, 0.0);
        self.rows.push(Kind::Inflow(o, h));
        true
    }

    fn bundles(&self) -> Vec<f64> {
        let v = self.simplex.values();
        self.column.iter().map(|c| c.map_or(0.0, |c| v[c as usize].max(0.0))).collect()
    }

    /// Adds rows that the values break; false if there are none.
    fn separate(&mut self, bundles: &[f64]) -> bool {
        let k = self.stage.k;
        let mut added = false;
        for g in 0..self.parts.len() {
            let own = &bundles[g * k..][..k];
            added |= self.add_cap(g, own);
            if self.crowd.floors {
                added |= self.add_floor(g, own);
            }
            for (l, h) in self.most_envious(g, bundles) {
                added |= self.add_envy(l, h);
            }
        }
        for o in 0..self.crowd.inflow.len() {
            let i = self.crowd.inflow[o].0 as usize;
            let t = self.simplex.values()[self.first_t as usize + o] * self.stage.top[i];
            let worth = bundles.chunks_exact(k).map(|bundle| self.stage.worth(i, bundle));
            if let Some((h, worth)) = worth.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
                && worth > t * (1.0 + ENVY) + NOTHING * self.stage.top[i]
            {
                added |= self.add_inflow(o as u32, h as u32);
            }
        }
        added
    }

    /// Per bundle the most envious member of the part; of a part of few only the worst rows.
    fn most_envious(&self, g: usize, bundles: &[f64]) -> Vec<(u32, u32)> {
        let k = self.stage.k;
        let part = &self.parts[g];
        if self.stage.content[self.crowd.members[part[0] as usize] as usize] {
            return Vec::new();
        }
        let mut worst: Vec<(f64, u32)> = vec![(0.0, 0); self.parts.len()];
        for &l in part {
            let (rates, top) = (self.rates(l), self.top(l));
            let own = dot(rates, &bundles[g * k..][..k]);
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
        if part.len() < FEW {
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            found.truncate(2);
        }
        found.into_iter().map(|(_, l, h)| (l, h)).collect()
    }

    /// The cap of the most limited member.
    fn add_cap(&mut self, g: usize, bundle: &[f64]) -> bool {
        let caps = self.parts[g].iter().map(|&l| self.stage.cap[self.crowd.members[l as usize] as usize]);
        let cap = caps.fold(f64::INFINITY, f64::min);
        if self.capped[g] || dot(&self.stage.unit, bundle) <= cap * (1.0 + ENVY) {
            return false;
        }
        let mut terms = Vec::with_capacity(self.stage.k);
        self.terms(&self.stage.unit, 1.0, g as u32, &mut terms);
        self.simplex.add_row(&terms, cap);
        self.rows.push(Kind::Cap);
        self.capped[g] = true;
        true
    }

    /// The floor of the member that lacks most.
    fn add_floor(&mut self, g: usize, bundle: &[f64]) -> bool {
        let lacking = self.parts[g].iter().map(|&l| {
            let floor = self.stage.floor[self.crowd.members[l as usize] as usize];
            ((floor * (1.0 - ENVY) - dot(self.rates(l), bundle)) / self.top(l), l, floor)
        });
        match lacking.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((lacks, l, floor)) if lacks > 0.0 && self.known.insert((l, u32::MAX)) => {
                let mut terms = Vec::with_capacity(self.stage.k);
                self.terms(self.rates(l), -1.0, g as u32, &mut terms);
                self.simplex.add_row(&terms, -floor);
                self.rows.push(Kind::Floor(l));
                true
            }
            _ => false,
        }
    }

    fn read(self, bundles: Vec<f64>, exact: bool) -> Grouped {
        let mut grouped = Grouped {
            bundles,
            objective: if exact { self.simplex.objective() } else { self.simplex.dual_objective() },
            exact,
            prices: Vec::with_capacity(self.stage.k),
            envy: Vec::new(),
            inflow: Vec::new(),
            floor: Vec::new(),
            pivots: self.simplex.pivots(),
            parts: self.parts,
        };
        for (r, &kind) in self.rows.iter().enumerate() {
            let dual = self.simplex.dual(r);
            match kind {
                Kind::Capacity => grouped.prices.push(dual),
                _ if dual <= 0.0 => {}
                Kind::Envy(l, h) => grouped.envy.push((l, h, dual)),
                Kind::Inflow(o, h) => grouped.inflow.push((o, h, dual)),
                Kind::Floor(l) => grouped.floor.push((l, dual)),
                Kind::Cap => {}
            }
        }
        grouped
    }
}
