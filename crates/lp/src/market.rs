//! Markets: users who value resources at different rates, shared capacities, no caps.
//!
//! ```text
//! equal level    maximise t                       w_l·x_l ≥ π_l t,   Σ_l x_lj ≤ m_j,   x ≥ 0
//! equilibrium    maximise Σ_l π_l log(w_l·x_l)                       Σ_l x_lj ≤ m_j,   x ≥ 0
//! ```
//!
//! The first raises everybody to the same level; where some rates are 0 it goes on, level by level, for those who can
//! use what is left (lexicographic max-min). The second is the equilibrium of a market in which user l has π_l to
//! spend (Eisenberg and Gale): envy-free per unit of π, efficient, everything sold.
//!
//! Both have a dual in `k` prices, and an optimum at which all but `k − 1` users use a single resource. So the solver
//! works on prices (`market/engine.rs` has the mathematics), exactly, in a few passes over the users, and the solution is
//! compact: a resource per user and a few mixes. A million users cost a few bytes each; [`EqualLevel::x`] writes the
//! dense form. Every solution is certified by other code, from the market as given.
//!
//! Never here: caps per user ([`crate::maxmin`], [`crate::nash`]), approximation without a certificate that says so.

mod bound;
mod engine;
mod forest;
mod leximin;
mod merge;
mod read;
mod rows;
mod sampled;
mod search;

pub use engine::Effort;

use crate::input::{Domain, check_count, check_number, check_numbers, check_shape, check_some};
use crate::{Budget, Certificate, InputError};
use engine::{Goal, Program};
use forest::MOST;
use leximin::Leximin;
use merge::Merged;

/// The most resources that a market may have.
pub const MOST_RESOURCES: usize = MOST;

/// Many times the price steps that any market has needed so far.
pub const STEPS: Budget = Budget::iterations(20_000);

/// The fraction of users that are expected to change their choice after a warm start.
const WARM: f64 = 0.04;

/// A problem. See the module for the notation.
#[derive(Clone, Copy, Debug)]
pub struct Market<'a> {
    /// Rates, users × resources, row by row; 0 means "cannot use".
    pub w: &'a [f64],
    /// π: the weight of each user, or its income; positive.
    pub weight: &'a [f64],
    /// m: the capacity of each resource; a resource of capacity 0 is ignored.
    pub capacity: &'a [f64],
}

impl Market<'_> {
    /// Checks the problem; lists the resources that somebody can use in `resources`.
    pub(crate) fn check(&self, resources: &mut Vec<usize>) -> Result<(), InputError> {
        let (n, k) = (self.weight.len(), self.capacity.len());
        check_some(n, k)?;
        check_shape("w", self.w.len(), n.saturating_mul(k))?;
        check_count("resources", k as u64, MOST_RESOURCES as u64)?;
        check_count("users", n as u64, u64::from(u32::MAX) - 1)?;
        check_numbers("capacity", self.capacity.iter().copied(), Domain::ModerateOrZero)?;
        check_numbers("weight", self.weight.iter().copied(), Domain::Moderate)?;
        let mut wanted = vec![false; k];
        // Blocks in which every rate is positive, that is most, need no second look.
        const BLOCK: usize = 64;
        for (block, w) in self.w.chunks(BLOCK * k).enumerate() {
            let positives = w.iter().map(|&w| usize::from(Domain::Moderate.contains(w))).sum::<usize>();
            if positives == w.len() && self.capacity.iter().all(|&m| m > 0.0) {
                wanted.fill(true);
                continue;
            }
            for (at, &value) in w.iter().enumerate() {
                check_number("w", block * BLOCK * k + at, value, Domain::ModerateOrZero)?;
            }
            for (l, w) in w.chunks_exact(k).enumerate() {
                let usable = |j: usize| w[j] > 0.0 && self.capacity[j] > 0.0;
                if !(0..k).any(usable) {
                    return Err(InputError::Unservable { user: block * BLOCK + l });
                }
                (0..k).for_each(|j| wanted[j] |= usable(j));
            }
        }
        resources.clear();
        resources.extend((0..k).filter(|&j| wanted[j]));
        Ok(())
    }
}

/// The resources that every user gets its value from, in little memory: one per user, or one of a few mixes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Assignment {
    resources: usize,
    /// Per user: a resource, or the number of resources and that of a mix.
    bundle: Vec<u8>,
    /// Mixes × resources: the fraction of a user's value that comes from each.
    mixes: Vec<f64>,
    /// Per resource: the factor that scales it into capacity; 1 but for rounding.
    fit: Vec<f64>,
}

impl Assignment {
    /// The single resource that a user uses, unless it uses several.
    #[must_use]
    pub fn resource(&self, user: usize) -> Option<usize> {
        Some(self.bundle[user] as usize).filter(|&bundle| bundle < self.resources)
    }

    /// Calls `f` with every resource that a user gets value from, and which fraction of its value that is.
    #[inline(always)]
    pub fn each(&self, user: usize, mut f: impl FnMut(usize, f64)) {
        let bundle = self.bundle[user] as usize;
        if bundle < self.resources {
            f(bundle, 1.0);
        } else {
            let mix = &self.mixes[(bundle - self.resources) * self.resources..][..self.resources];
            mix.iter().enumerate().filter(|(_, fraction)| **fraction > 0.0).for_each(|(j, &fraction)| f(j, fraction));
        }
    }

    /// How many different mixes there are.
    #[must_use]
    pub fn mixes(&self) -> usize {
        self.mixes.len() / self.resources.max(1)
    }

    /// The fraction of its nominal value that a bundle keeps after scaling.
    fn kept(&self, bundle: usize) -> f64 {
        match bundle.checked_sub(self.resources) {
            None => self.fit[bundle],
            Some(mix) => {
                let mix = &self.mixes[mix * self.resources..][..self.resources];
                mix.iter().zip(&self.fit).map(|(fraction, fit)| fraction * fit).sum()
            }
        }
    }

    /// Copies the solver's result for merged users (`kind` is empty where none were merged).
    fn read(&mut self, k: usize, resources: &[usize], leximin: &Leximin, kind: &[u32]) {
        let named = |bundle: u8| match (bundle as usize).checked_sub(resources.len()) {
            None => resources[bundle as usize] as u8,
            Some(mix) => (k + mix) as u8,
        };
        self.resources = k;
        self.mixes.clear();
        for mix in &leximin.mixes {
            let from = self.mixes.len();
            self.mixes.resize(from + k, 0.0);
            resources.iter().enumerate().for_each(|(j, &resource)| self.mixes[from + resource] = mix[j]);
        }
        self.bundle.clear();
        if kind.is_empty() {
            self.bundle.extend(leximin.bundle.iter().map(|&bundle| named(bundle)));
        } else {
            self.bundle.extend(kind.iter().map(|&kind| named(leximin.bundle[kind as usize])));
        }
    }
}

/// One of the levels of an [`EqualLevel`]: its users take some resources in full.
#[derive(Clone, PartialEq, Debug)]
pub struct Level {
    /// The level that its users attain.
    pub t: f64,
    /// Per resource: how much the level would rise with one more of it; 0 for resources of other levels.
    pub prices: Vec<f64>,
    /// Bounds of the optimal level, given the levels below.
    pub bound: Certificate,
}

/// Everybody at the same level, as far as possible.
#[derive(Clone, PartialEq, Debug)]
pub struct EqualLevel {
    /// The lowest level: what everybody attains at least.
    pub t: f64,
    /// Per resource: how much `t` would rise with one more of it.
    pub prices: Vec<f64>,
    /// Bounds of the optimal `t`.
    pub bound: Certificate,
    /// All levels, the lowest first; one, unless some rates are 0.
    pub levels: Vec<Level>,
    /// Per user: its level's position in `levels`.
    pub level_of: Vec<u8>,
    /// Who uses what.
    pub assignment: Assignment,
    /// Work done.
    pub effort: Effort,
    /// Per level: its value before scaling into capacity.
    nominal: Vec<f64>,
}

impl Default for EqualLevel {
    fn default() -> Self {
        Self {
            t: 0.0,
            prices: Vec::new(),
            bound: Certificate::NONE,
            levels: Vec::new(),
            level_of: Vec::new(),
            assignment: Assignment::default(),
            effort: Effort::default(),
            nominal: Vec::new(),
        }
    }
}

impl EqualLevel {
    /// The level of one user.
    #[must_use]
    pub fn level(&self, user: usize) -> f64 {
        self.levels[self.level_of[user] as usize].t
    }

    /// Adds one user's shares to `row`, one number per resource.
    pub fn add_share(&self, market: &Market<'_>, user: usize, row: &mut [f64]) {
        let k = market.capacity.len();
        let owed = market.weight[user] * self.nominal[self.level_of[user] as usize];
        self.assignment.each(user, |j, fraction| {
            row[j] += fraction * owed / market.w[user * k + j] * self.assignment.fit[j];
        });
    }

    /// All shares, users × resources. Feasible to rounding.
    #[must_use]
    pub fn x(&self, market: &Market<'_>) -> Vec<f64> {
        dense(market, |user, row| self.add_share(market, user, row))
    }
}

/// The equilibrium of a market.
#[derive(Clone, PartialEq, Debug)]
pub struct Equilibrium {
    /// Per resource; at these prices all incomes buy all capacities.
    pub prices: Vec<f64>,
    /// Bounds of the optimal mean log-utility `Σ π log(w·x) / Σ π`.
    pub welfare: Certificate,
    /// Who uses what.
    pub assignment: Assignment,
    /// Work done.
    pub effort: Effort,
}

impl Default for Equilibrium {
    fn default() -> Self {
        Self {
            prices: Vec::new(),
            welfare: Certificate::NONE,
            assignment: Assignment::default(),
            effort: Effort::default(),
        }
    }
}

impl Equilibrium {
    /// Adds one user's shares to `row`, one number per resource.
    pub fn add_share(&self, market: &Market<'_>, user: usize, row: &mut [f64]) {
        self.assignment.each(user, |j, fraction| {
            row[j] += fraction * market.weight[user] / self.prices[j] * self.assignment.fit[j];
        });
    }

    /// All shares, users × resources. Feasible to rounding.
    #[must_use]
    pub fn x(&self, market: &Market<'_>) -> Vec<f64> {
        dense(market, |user, row| self.add_share(market, user, row))
    }
}

fn dense(market: &Market<'_>, mut share: impl FnMut(usize, &mut [f64])) -> Vec<f64> {
    let mut x = vec![0.0; market.w.len()];
    x.chunks_exact_mut(market.capacity.len()).enumerate().for_each(|(user, row)| share(user, row));
    x
}

/// Memory to solve in. Reused, it allocates little unless a problem is larger than all before.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    resources: Vec<usize>,
    capacity: Vec<f64>,
    merged: Merged,
    leximin: Leximin,
    level: EqualLevel,
    equilibrium: Equilibrium,
}

impl Workspace {
    /// An empty workspace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Everybody at the same level. `start` are the prices of a similar market's solution, if there is one: they make
    /// it faster and change nothing else. `budget` counts price steps.
    pub fn equal_level(
        &mut self,
        market: &Market<'_>,
        start: Option<&[f64]>,
        budget: Budget,
    ) -> Result<&EqualLevel, InputError> {
        let merged = self.solve(market, Goal::EqualLevel, start, budget)?;
        let Self { leximin, merged: Merged { kind, .. }, level, resources, .. } = self;
        let kind: &[u32] = if merged { kind } else { &[] };
        let k = market.capacity.len();
        level.assignment.read(k, resources, leximin, kind);
        level.level_of.clear();
        if merged {
            level.level_of.extend(kind.iter().map(|&kind| leximin.level_of[kind as usize]));
        } else {
            level.level_of.extend_from_slice(&leximin.level_of);
        }
        level.nominal.clear();
        level.nominal.extend(leximin.bottlenecks.iter().map(|found| found.t));
        level.levels.clear();
        level.levels.extend(leximin.bottlenecks.iter().map(|found| {
            let mut prices = vec![0.0; k];
            resources.iter().enumerate().for_each(|(j, &resource)| prices[resource] = found.p[j]);
            Level { t: found.t, prices, bound: Certificate::NONE }
        }));
        level.effort = leximin.solver.effort;
        bound::certify_level(market, level);
        Ok(level)
    }

    /// The equilibrium; `start` and `budget` as for [`Self::equal_level`].
    pub fn equilibrium(
        &mut self,
        market: &Market<'_>,
        start: Option<&[f64]>,
        budget: Budget,
    ) -> Result<&Equilibrium, InputError> {
        let merged = self.solve(market, Goal::Equilibrium, start, budget)?;
        let Self { leximin, merged: Merged { kind, .. }, equilibrium, resources, .. } = self;
        let k = market.capacity.len();
        equilibrium.assignment.read(k, resources, leximin, if merged { kind } else { &[] });
        equilibrium.prices.clear();
        equilibrium.prices.resize(k, 0.0);
        for (j, &resource) in resources.iter().enumerate() {
            equilibrium.prices[resource] = leximin.bottlenecks[0].p[j];
        }
        equilibrium.effort = leximin.solver.effort;
        bound::certify_equilibrium(market, equilibrium);
        Ok(equilibrium)
    }

    /// Leaves the result in `self.leximin`, for merged users if this returns true and for users if not.
    fn solve(
        &mut self,
        market: &Market<'_>,
        goal: Goal,
        start: Option<&[f64]>,
        budget: Budget,
    ) -> Result<bool, InputError> {
        market.check(&mut self.resources)?;
        let k = market.capacity.len();
        start.map_or(Ok(()), |start| check_shape("start", start.len(), k))?;
        let whole = self.resources.len() == k;
        let merged = self.merged.merge(goal, (market.w, market.weight), (k, &self.resources), whole);
        self.capacity.clear();
        self.capacity.extend(self.resources.iter().map(|&j| market.capacity[j]));
        let (w, weight): (&[f64], &[f64]) =
            if merged { (&self.merged.w, &self.merged.weight) } else { (market.w, market.weight) };
        let program = Program { goal, w, weight, capacity: &self.capacity };
        let start = start.and_then(|start| usable_start(&program, &self.resources, start));
        self.leximin.solve(&program, start, budget.iterations);
        Ok(merged)
    }
}

/// The starting prices, if they are usable.
fn usable_start(program: &Program<'_>, resources: &[usize], start: &[f64]) -> Option<([f64; MOST], f64)> {
    let mut p = [0.0; MOST];
    for (p, &resource) in p.iter_mut().zip(resources) {
        *p = start[resource];
        if !Domain::Moderate.contains(*p) {
            return None;
        }
    }
    sampled::scale_prices(program, &mut p);
    Some((p, WARM))
}

/// Everybody at the same level, once.
pub fn equal_level(market: &Market<'_>, start: Option<&[f64]>, budget: Budget) -> Result<EqualLevel, InputError> {
    let mut workspace = Workspace::new();
    workspace.equal_level(market, start, budget)?;
    Ok(workspace.level)
}

/// The equilibrium, once.
pub fn equilibrium(market: &Market<'_>, start: Option<&[f64]>, budget: Budget) -> Result<Equilibrium, InputError> {
    let mut workspace = Workspace::new();
    workspace.equilibrium(market, start, budget)?;
    Ok(workspace.equilibrium)
}
