//! Markets: users who value resources at different rates, shared capacities, no caps.
//!
//! ```text
//! equal level    maximise t                       w_l·x_l ≥ π_l t,   Σ_l x_lj ≤ m_j,   x ≥ 0
//! equilibrium    maximise Σ_l π_l log(w_l·x_l)                       Σ_l x_lj ≤ m_j,   x ≥ 0
//! ```
//!
//! The first raises everybody to the same level; where some rates are 0 it goes on, rung by rung, for those who can
//! use what is left (lexicographic max-min). The second is the equilibrium of a market in which user l has π_l to
//! spend (Eisenberg and Gale): envy-free per unit of π, efficient, everything sold.
//!
//! Both have a dual in `k` prices, and an optimum at which all but `k − 1` users use a single resource. So the solver
//! works on prices (`market/engine.rs` has the mathematics), exactly, in a few passes over the users, and the answer
//! is compact: a resource per user and a few mixes. A million users cost a few bytes each; [`EqualLevel::x`] writes
//! the dense form out. Every answer is certified by other code, from the market as asked.
//!
//! Never here: caps per user ([`crate::maxmin`], [`crate::nash`]), approximation without saying so.

mod band;
mod bound;
mod engine;
mod forest;
mod ladder;
mod merge;
mod read;
mod rows;
mod search;

pub use bound::Welfare;
pub use engine::Effort;

use crate::Budget;
use crate::maxmin::Bound;
use engine::{Crowd, Goal};
use forest::MOST;
use ladder::Ladder;
use merge::Merged;
use std::fmt;

/// The most resources that a market may have.
pub const MOST_RESOURCES: usize = MOST;

/// Enough price steps for any market met so far, many times over.
pub const STEPS: Budget = Budget::iterations(20_000);

/// The least number that is not 0 to a market.
pub(crate) const LEAST: f64 = 1e-60;

/// Rates, weights and capacities lie between these: products of a few of them must not overflow.
const RANGE: std::ops::RangeInclusive<f64> = LEAST..=1e60;

/// How many users in a hundred are expected to think again after a warm start.
const WARM: f64 = 0.04;

/// A question. See the module for what the letters mean.
#[derive(Clone, Copy, Debug)]
pub struct Market<'a> {
    /// Rates, users × resources, row by row; 0 means "cannot use".
    pub w: &'a [f64],
    /// π: what each user is owed, or has to spend; positive.
    pub weight: &'a [f64],
    /// m: how much there is of each resource; a resource of 0 is as good as absent.
    pub capacity: &'a [f64],
}

/// Why a question has no answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Refusal {
    /// There are no users or no resources.
    Empty,
    /// The slices do not fit together.
    Shape {
        /// Which slice.
        what: &'static str,
        /// Its length.
        length: usize,
        /// The length that fits the weights and capacities.
        expected: usize,
    },
    /// A number that makes no sense where it is.
    Number {
        /// Which slice.
        what: &'static str,
        /// Where in it.
        index: usize,
        /// The number.
        value: f64,
    },
    /// A user who cannot use any resource that has capacity: nothing can be done for it.
    Unservable {
        /// Which user.
        user: usize,
    },
    /// More resources than [`MOST_RESOURCES`].
    TooWide {
        /// How many there are.
        resources: usize,
    },
    /// More users than can be numbered.
    TooMany {
        /// How many there are.
        users: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no users or no resources; ask only when there is something to divide"),
            Self::Shape { what, length, expected } => {
                write!(f, "{what} has {length} numbers where {expected} were expected; give one per user or resource")
            }
            Self::Number { what, index, value } => write!(
                f,
                "{what}[{index}] is {value}; weights must be between 1e-60 and 1e60, rates and capacities too or 0, caps too or infinite: use other units"
            ),
            Self::Unservable { user } => {
                write!(f, "user {user} has no positive rate on any resource with capacity; leave such users out")
            }
            Self::TooWide { resources } => {
                write!(f, "{resources} resources are more than {MOST_RESOURCES}; join some that are alike")
            }
            Self::TooMany { users } => {
                write!(f, "{users} users are more than {}; join some that are alike", u32::MAX - 1)
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// The same about a number `by` places further on.
    fn moved(self, by: usize) -> Self {
        match self {
            Self::Number { what, index, value } => Self::Number { what, index: index + by, value },
            other => other,
        }
    }
}

impl Market<'_> {
    /// Refuses nonsense; lists the resources that take part in `resources`.
    pub(crate) fn check(&self, resources: &mut Vec<usize>) -> Result<(), Refusal> {
        let (n, k) = (self.weight.len(), self.capacity.len());
        if n == 0 || k == 0 {
            return Err(Refusal::Empty);
        }
        if self.w.len() != n * k {
            return Err(Refusal::Shape { what: "w", length: self.w.len(), expected: n * k });
        }
        if k > MOST_RESOURCES {
            return Err(Refusal::TooWide { resources: k });
        }
        if n >= u32::MAX as usize {
            return Err(Refusal::TooMany { users: n });
        }
        let positive = |v: f64| RANGE.contains(&v);
        check_numbers("capacity", self.capacity, |v| v == 0.0 || positive(v))?;
        check_numbers("weight", self.weight, positive)?;
        let mut wanted = vec![false; k];
        // Blocks in which every rate is positive, that is most, need no second look.
        const BLOCK: usize = 64;
        for (block, w) in self.w.chunks(BLOCK * k).enumerate() {
            let positives = w.iter().map(|&w| usize::from(w >= *RANGE.start() && w <= *RANGE.end())).sum::<usize>();
            if positives == w.len() && self.capacity.iter().all(|&m| m > 0.0) {
                wanted.fill(true);
                continue;
            }
            check_numbers("w", w, |v| v == 0.0 || positive(v)).map_err(|refusal| refusal.moved(block * BLOCK * k))?;
            for (l, w) in w.chunks_exact(k).enumerate() {
                let usable = |j: usize| w[j] > 0.0 && self.capacity[j] > 0.0;
                if !(0..k).any(usable) {
                    return Err(Refusal::Unservable { user: block * BLOCK + l });
                }
                (0..k).for_each(|j| wanted[j] |= usable(j));
            }
        }
        resources.clear();
        resources.extend((0..k).filter(|&j| wanted[j]));
        Ok(())
    }
}

pub(crate) fn check_numbers(what: &'static str, values: &[f64], good: impl Fn(f64) -> bool) -> Result<(), Refusal> {
    match values.iter().position(|&value| !good(value)) {
        Some(index) => Err(Refusal::Number { what, index, value: values[index] }),
        None => Ok(()),
    }
}

/// Who gets value from what, in little memory: one resource per user, or one of a few mixes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Division {
    resources: usize,
    /// Per user: a resource, or the number of resources and that of a mix.
    bundle: Vec<u8>,
    /// Mixes × resources: the fraction of a user's value that comes from each.
    mixes: Vec<f64>,
    /// Per resource: what is left after scaling into capacity; 1 but for rounding.
    fit: Vec<f64>,
}

impl Division {
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

    /// Which part of its nominal value a bundle has left.
    fn kept(&self, bundle: usize) -> f64 {
        match bundle.checked_sub(self.resources) {
            None => self.fit[bundle],
            Some(mix) => {
                let mix = &self.mixes[mix * self.resources..][..self.resources];
                mix.iter().zip(&self.fit).map(|(fraction, fit)| fraction * fit).sum()
            }
        }
    }

    /// Takes over what the solver found for kinds of users (`kind` is empty where each is its own).
    fn read(&mut self, k: usize, resources: &[usize], ladder: &Ladder, kind: &[u32]) {
        let named = |bundle: u8| match (bundle as usize).checked_sub(resources.len()) {
            None => resources[bundle as usize] as u8,
            Some(mix) => (k + mix) as u8,
        };
        self.resources = k;
        self.mixes.clear();
        for mix in &ladder.mixes {
            let from = self.mixes.len();
            self.mixes.resize(from + k, 0.0);
            resources.iter().enumerate().for_each(|(j, &resource)| self.mixes[from + resource] = mix[j]);
        }
        self.bundle.clear();
        if kind.is_empty() {
            self.bundle.extend(ladder.bundle.iter().map(|&bundle| named(bundle)));
        } else {
            self.bundle.extend(kind.iter().map(|&kind| named(ladder.bundle[kind as usize])));
        }
    }
}

/// One level of an [`EqualLevel`]: the users on it, and the resources that they take in full.
#[derive(Clone, PartialEq, Debug)]
pub struct Rung {
    /// The level that its users attain.
    pub t: f64,
    /// Per resource: how much the level would rise with one more of it; 0 for what other rungs take.
    pub prices: Vec<f64>,
    /// Between which numbers the optimal level lies, given the rungs below.
    pub bound: Bound,
}

/// Everybody at the same level, as far as that goes.
#[derive(Clone, PartialEq, Debug)]
pub struct EqualLevel {
    /// The lowest level: what everybody attains at least.
    pub t: f64,
    /// Per resource: how much `t` would rise with one more of it.
    pub prices: Vec<f64>,
    /// Between which numbers the optimal `t` lies.
    pub bound: Bound,
    /// All levels, the lowest first; one, unless some rates are 0.
    pub rungs: Vec<Rung>,
    /// Per user: its rung.
    pub rung: Vec<u8>,
    /// Who uses what.
    pub division: Division,
    /// Work done.
    pub effort: Effort,
    /// Per rung: the level before scaling into capacity.
    nominal: Vec<f64>,
}

impl Default for EqualLevel {
    fn default() -> Self {
        Self {
            t: 0.0,
            prices: Vec::new(),
            bound: Bound { lower: 0.0, upper: f64::INFINITY },
            rungs: Vec::new(),
            rung: Vec::new(),
            division: Division::default(),
            effort: Effort::default(),
            nominal: Vec::new(),
        }
    }
}

impl EqualLevel {
    /// The level of one user's rung.
    #[must_use]
    pub fn level(&self, user: usize) -> f64 {
        self.rungs[self.rung[user] as usize].t
    }

    /// Adds one user's shares to `row`, one number per resource.
    pub fn add_share(&self, market: &Market<'_>, user: usize, row: &mut [f64]) {
        let k = market.capacity.len();
        let owed = market.weight[user] * self.nominal[self.rung[user] as usize];
        self.division.each(user, |j, fraction| {
            row[j] += fraction * owed / market.w[user * k + j] * self.division.fit[j];
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
    /// Per resource; everybody's money buys all of everything.
    pub prices: Vec<f64>,
    /// Mean log-utility, and between which numbers its optimum lies.
    pub welfare: Welfare,
    /// Who uses what.
    pub division: Division,
    /// Work done.
    pub effort: Effort,
}

impl Default for Equilibrium {
    fn default() -> Self {
        Self {
            prices: Vec::new(),
            welfare: Welfare { lower: f64::NEG_INFINITY, upper: f64::INFINITY },
            division: Division::default(),
            effort: Effort::default(),
        }
    }
}

impl Equilibrium {
    /// Adds one user's shares to `row`, one number per resource.
    pub fn add_share(&self, market: &Market<'_>, user: usize, row: &mut [f64]) {
        self.division.each(user, |j, fraction| {
            row[j] += fraction * market.weight[user] / self.prices[j] * self.division.fit[j];
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

/// Memory to solve in. Reused, it allocates little more than a question larger than all before needs.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    resources: Vec<usize>,
    capacity: Vec<f64>,
    merged: Merged,
    ladder: Ladder,
    level: EqualLevel,
    equilibrium: Equilibrium,
}

impl Workspace {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Everybody at the same level. `start` are the prices of a similar market's answer, if there is one: they make
    /// it quicker and change nothing else. `budget` counts price steps.
    pub fn equal_level(
        &mut self,
        market: &Market<'_>,
        start: Option<&[f64]>,
        budget: Budget,
    ) -> Result<&EqualLevel, Refusal> {
        let merged = self.solve(market, Goal::EqualLevel, start, budget)?;
        let Self { ladder, merged: Merged { kind, .. }, level, resources, .. } = self;
        let kind: &[u32] = if merged { kind } else { &[] };
        let k = market.capacity.len();
        level.division.read(k, resources, ladder, kind);
        level.rung.clear();
        if merged {
            level.rung.extend(kind.iter().map(|&kind| ladder.rung[kind as usize]));
        } else {
            level.rung.extend_from_slice(&ladder.rung);
        }
        level.nominal.clear();
        level.nominal.extend(ladder.rungs.iter().map(|rung| rung.t));
        level.rungs.clear();
        level.rungs.extend(ladder.rungs.iter().map(|rung| {
            let mut prices = vec![0.0; k];
            resources.iter().enumerate().for_each(|(j, &resource)| prices[resource] = rung.p[j]);
            Rung { t: rung.t, prices, bound: Bound { lower: 0.0, upper: f64::INFINITY } }
        }));
        level.effort = ladder.bander.effort;
        bound::certify_level(market, level);
        Ok(level)
    }

    /// The equilibrium; `start` and `budget` as for [`Self::equal_level`].
    pub fn equilibrium(
        &mut self,
        market: &Market<'_>,
        start: Option<&[f64]>,
        budget: Budget,
    ) -> Result<&Equilibrium, Refusal> {
        let merged = self.solve(market, Goal::Equilibrium, start, budget)?;
        let Self { ladder, merged: Merged { kind, .. }, equilibrium, resources, .. } = self;
        let k = market.capacity.len();
        equilibrium.division.read(k, resources, ladder, if merged { kind } else { &[] });
        equilibrium.prices.clear();
        equilibrium.prices.resize(k, 0.0);
        for (j, &resource) in resources.iter().enumerate() {
            equilibrium.prices[resource] = ladder.rungs[0].p[j];
        }
        equilibrium.effort = ladder.bander.effort;
        bound::certify_equilibrium(market, equilibrium);
        Ok(equilibrium)
    }

    /// Leaves the answer in `self.ladder`, about kinds of users if this returns true and about users if not.
    fn solve(
        &mut self,
        market: &Market<'_>,
        goal: Goal,
        start: Option<&[f64]>,
        budget: Budget,
    ) -> Result<bool, Refusal> {
        market.check(&mut self.resources)?;
        let k = market.capacity.len();
        if let Some(start) = start.filter(|start| start.len() != k) {
            return Err(Refusal::Shape { what: "start", length: start.len(), expected: k });
        }
        let whole = self.resources.len() == k;
        let merged = self.merged.merge(goal, (market.w, market.weight), (k, &self.resources), whole);
        self.capacity.clear();
        self.capacity.extend(self.resources.iter().map(|&j| market.capacity[j]));
        let (w, weight): (&[f64], &[f64]) =
            if merged { (&self.merged.w, &self.merged.weight) } else { (market.w, market.weight) };
        let crowd = Crowd { goal, w, weight, capacity: &self.capacity };
        let start = start.and_then(|start| usable_start(&crowd, &self.resources, start));
        self.ladder.climb(&crowd, start, budget.iterations);
        Ok(merged)
    }
}

/// Last time's prices, if they are prices at all.
fn usable_start(crowd: &Crowd<'_>, resources: &[usize], start: &[f64]) -> Option<([f64; MOST], f64)> {
    let mut p = [0.0; MOST];
    for (p, &resource) in p.iter_mut().zip(resources) {
        *p = start[resource];
        if !RANGE.contains(p) {
            return None;
        }
    }
    band::scale_prices(crowd, &mut p);
    Some((p, WARM))
}

/// Everybody at the same level, once.
pub fn equal_level(market: &Market<'_>, start: Option<&[f64]>, budget: Budget) -> Result<EqualLevel, Refusal> {
    let mut workspace = Workspace::new();
    workspace.equal_level(market, start, budget)?;
    Ok(workspace.level)
}

/// The equilibrium, once.
pub fn equilibrium(market: &Market<'_>, start: Option<&[f64]>, budget: Budget) -> Result<Equilibrium, Refusal> {
    let mut workspace = Workspace::new();
    workspace.equilibrium(market, start, budget)?;
    Ok(workspace.equilibrium)
}
