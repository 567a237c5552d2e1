//! Max-min where a unit of a resource may also be shared by two jobs at once.
//!
//! A user `i` has `d_i` jobs; a job is in one place at a time. Ways to use a resource `j`, each a column `x`:
//!
//! ```text
//! alone {i} on j        rate r_ij, one job of i,     need_i units of j
//! pair  {i, h} on j     rates a and b, one job each, one unit of j        only where both need one unit
//!
//! maximise t      Σ rate_i x ≥ β_i t      Σ (jobs of i in it) x ≤ d_i      Σ units x ≤ m_j      x ≥ 0
//! ```
//!
//! and then, as in [`crate::maxmin::fill`], on for everybody who can still rise. `i = h` is a pair of two jobs of one
//! user. Rates belong to *classes*: users of one class are alike on every resource and with every partner.
//!
//! There are `k n²/2` pairs, so they are not written down (`sharing/master.rs`): a program of some columns is solved, its duals
//! price all others, the most wanted come in, until no column is wanted. The duals of every round also bound the
//! optimum (`sharing/bound.rs`), which is what ends it. Users of one class that need the same units and have the same `β/d`
//! are one *group*: dividing what it gets in proportion to jobs is as good as any other answer.
//!
//! A pair that is no better than the two taking turns on the unit, `a/r_ij + b/r_hj ≤ 1`, is never used.

mod bound;
mod fill;
mod interior;
mod master;
mod normal;

use crate::maxmin::Bound;
use crate::{Budget, ModelError};
use std::fmt;

/// The relative gap at which a program is solved.
pub const TOLERANCE: f64 = 2e-7;

/// A user.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct User {
    /// Which row of the rates is its own.
    pub class: usize,
    /// What it is measured against; positive.
    pub beta: f64,
    /// d: how many jobs it has; positive.
    pub jobs: f64,
    /// Units of a resource that one job takes; at least 1. Only jobs that take one unit share it.
    pub need: f64,
}

/// Two jobs on one unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    /// The class of one job...
    pub first: usize,
    /// ...and of the other; no less than `first`.
    pub second: usize,
    /// Where.
    pub resource: usize,
    /// What the two jobs get done.
    pub rates: (f64, f64),
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Sharing<'a> {
    /// The users.
    pub users: &'a [User],
    /// Rates of a job alone, classes × resources, row by row; 0 means "cannot use".
    pub rates: &'a [f64],
    /// Pairs, sorted by `(first, second, resource)` without repeats; a pair that is not listed is not possible.
    pub pairs: &'a [Pair],
    /// How much there is of each resource.
    pub capacity: &'a [f64],
}

/// Why a question has no answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Refusal {
    /// There are no users or no resources.
    Empty,
    /// Rates do not fit the resources.
    Shape {
        /// How many rates there are.
        length: usize,
        /// A multiple of this was expected.
        resources: usize,
    },
    /// A number that makes no sense where it is.
    Number {
        /// Which.
        what: &'static str,
        /// The user, rate, pair or resource.
        index: usize,
        /// The number.
        value: f64,
    },
    /// A user's or a pair's class, or a pair's resource, that does not exist.
    Unknown {
        /// Which.
        what: &'static str,
        /// The user or pair.
        index: usize,
        /// What it names.
        value: usize,
    },
    /// Pairs are out of order or repeated.
    Order {
        /// The first pair that is not above the one before it.
        index: usize,
    },
    /// A user whose jobs get nothing done on any resource with capacity.
    Unservable {
        /// Which.
        user: usize,
    },
    /// The numbers are so far apart that scaling them overflows.
    Scale(ModelError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no users or no resources; ask only when there is something to divide"),
            Self::Shape { length, resources } => {
                write!(
                    f,
                    "{length} rates are not a multiple of {resources} resources; give each class one per resource"
                )
            }
            Self::Number { what, index, value } => write!(
                f,
                "{what} {index} is {value}; rates and capacities must be finite and at least 0, beta and jobs finite \
                 and above 0, needs finite and at least 1"
            ),
            Self::Unknown { what, index, value } => {
                write!(f, "{what} {index} names {value}, which does not exist; count classes and resources from 0")
            }
            Self::Order { index } => write!(
                f,
                "pair {index} is not above the pair before it, or its first class is above its second; sort pairs by \
                 first, second, resource and give each once"
            ),
            Self::Unservable { user } => {
                write!(f, "user {user} gets nothing done on any resource with capacity; leave such users out")
            }
            Self::Scale(_) => {
                write!(f, "rates, targets and capacities are too far apart to be scaled; use closer units")
            }
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Scale(source) => Some(source),
            _ => None,
        }
    }
}

/// An amount of one column: groups that share a unit, or one that has it alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// A group; its members take part in proportion to their jobs.
    pub first: usize,
    /// The other group, which may be the same.
    pub second: Option<usize>,
    /// Where.
    pub resource: usize,
    /// How many at once.
    pub amount: f64,
}

/// One level at which users stopped.
#[derive(Clone, PartialEq, Debug)]
pub struct Stage {
    /// What each resource costs at this level.
    pub prices: Vec<f64>,
    /// The users that froze here, because others need what they want.
    pub frozen: Vec<usize>,
    /// The users that stopped no higher than this stage because a job can do no more.
    pub full: Vec<usize>,
    /// The level, and what the duals prove that it cannot exceed while everybody below it keeps its own.
    pub bound: Bound,
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shared {
    /// Users that are alike, as positions in the question.
    pub groups: Vec<Vec<usize>>,
    /// What the groups get.
    pub shares: Vec<Share>,
    /// Each user's rate over `β`.
    pub levels: Vec<f64>,
    /// From the lowest level to the highest.
    pub stages: Vec<Stage>,
    /// The worst relative distance between what a stage attains and what was proved of it; for users that are full, or
    /// whom a spent budget stopped, between them and what their jobs could do alone.
    pub gap: f64,
    /// Iterations spent, over all programs.
    pub iterations: u32,
    /// Programs solved.
    pub rounds: u32,
    /// Columns in the last program.
    pub columns: usize,
}

/// Users that are alike, as one.
#[derive(Clone, Debug)]
struct Group {
    class: usize,
    beta: f64,
    jobs: f64,
    need: f64,
    members: Vec<usize>,
}

impl Sharing<'_> {
    fn check(&self) -> Result<(), Refusal> {
        let k = self.capacity.len();
        if self.users.is_empty() || k == 0 {
            return Err(Refusal::Empty);
        }
        if !self.rates.len().is_multiple_of(k) {
            return Err(Refusal::Shape { length: self.rates.len(), resources: k });
        }
        let sane = |value: f64| value.is_finite() && value >= 0.0;
        check("rate", self.rates.iter().copied(), sane)?;
        check("capacity", self.capacity.iter().copied(), sane)?;
        check("beta of user", self.users.iter().map(|user| user.beta), |v| v.is_finite() && v > 0.0)?;
        check("jobs of user", self.users.iter().map(|user| user.jobs), |v| v.is_finite() && v > 0.0)?;
        check("need of user", self.users.iter().map(|user| user.need), |v| v.is_finite() && v >= 1.0)?;
        check("first rate of pair", self.pairs.iter().map(|pair| pair.rates.0), sane)?;
        check("second rate of pair", self.pairs.iter().map(|pair| pair.rates.1), sane)?;
        let classes = self.rates.len() / k;
        if let Some(index) = self.users.iter().position(|user| user.class >= classes) {
            return Err(Refusal::Unknown { what: "user", index, value: self.users[index].class });
        }
        for (index, pair) in self.pairs.iter().enumerate() {
            for (what, value, end) in [("pair", pair.second, classes), ("the resource of pair", pair.resource, k)] {
                if value >= end {
                    return Err(Refusal::Unknown { what, index, value });
                }
            }
            let key = |pair: &Pair| (pair.first, pair.second, pair.resource);
            if pair.first > pair.second || (index > 0 && key(&self.pairs[index - 1]) >= key(pair)) {
                return Err(Refusal::Order { index });
            }
        }
        match self.users.iter().position(|user| self.best(user.class) == 0.0) {
            Some(user) => Err(Refusal::Unservable { user }),
            None => Ok(()),
        }
    }

    /// The best a job of a class can do alone.
    fn best(&self, class: usize) -> f64 {
        let k = self.capacity.len();
        let rates = self.rates[class * k..][..k].iter().zip(self.capacity);
        rates.filter(|&(_, &m)| m > 0.0).map(|(&rate, _)| rate).fold(0.0, f64::max)
    }

    /// Users that are alike, in the order of the first of each.
    fn groups(&self) -> Vec<Group> {
        let key = |user: &User| (user.class, user.need.to_bits(), (user.beta / user.jobs).to_bits());
        let mut order: Vec<usize> = (0..self.users.len()).collect();
        order.sort_by_key(|&i| (key(&self.users[i]), i));
        let mut groups: Vec<Group> = Vec::new();
        for alike in order.chunk_by(|&a, &b| key(&self.users[a]) == key(&self.users[b])) {
            let User { class, need, .. } = self.users[alike[0]];
            let beta = alike.iter().map(|&i| self.users[i].beta).sum();
            let jobs = alike.iter().map(|&i| self.users[i].jobs).sum();
            groups.push(Group { class, beta, jobs, need, members: alike.to_vec() });
        }
        groups.sort_by_key(|group| group.members[0]);
        groups
    }
}

fn check(
    what: &'static str,
    mut values: impl Iterator<Item = f64> + Clone,
    good: impl Fn(f64) -> bool,
) -> Result<(), Refusal> {
    let mut all = values.clone();
    match values.position(|value| !good(value)) {
        Some(index) => Err(Refusal::Number { what, index, value: all.nth(index).unwrap_or(f64::NAN) }),
        None => Ok(()),
    }
}

/// Fills: see the module.
pub fn fill(problem: &Sharing<'_>, budget: Budget) -> Result<Shared, Refusal> {
    problem.check()?;
    fill::run(problem, budget)
}
