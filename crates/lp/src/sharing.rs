//! Max-min where a unit of a resource may also be shared by two jobs at once.
//!
//! A user `i` has `d_i` jobs; a job is in one place at a time. The activities on a resource `j`, each a column `x`:
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
//! There are `k n²/2` pairs, so this is column generation (`sharing/master.rs`): a restricted program is solved, its duals
//! price all other columns, those with the best reduced costs enter, until none is positive. The duals of every round also
//! bound the optimum (`sharing/bound.rs`), which ends it. Users of one class that need the same units and have the same
//! `β/d` are one *group*: dividing what it gets in proportion to jobs is optimal.
//!
//! A pair that is no better than time-sharing the unit, `a/r_ij + b/r_hj ≤ 1`, is never used.

mod bound;
mod fill;
mod interior;
mod master;
mod normal;

use crate::input::{Domain, check_known, check_numbers, check_pair_order, check_shape, check_some};
use crate::maxmin::Bottleneck;
use crate::{Budget, InputError};

/// The relative gap at which a program is solved.
pub const TOLERANCE: f64 = 2e-7;

/// Jobs of one class that count as one in the objective.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct User {
    /// Which row of the rates is its own.
    pub class: usize,
    /// β: its target; positive.
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
    /// One unit of this resource holds both.
    pub resource: usize,
    /// What the two jobs get done.
    pub rates: (f64, f64),
}

/// A problem.
#[derive(Clone, Copy, Debug)]
pub struct Sharing<'a> {
    /// Each belongs to a class, which has the rates.
    pub users: &'a [User],
    /// Rates of a job alone, classes × resources, row by row; 0 means "cannot use".
    pub rates: &'a [f64],
    /// Pairs, sorted by `(first, second, resource)` without repeats; a pair that is not listed is not possible.
    pub pairs: &'a [Pair],
    /// m: the capacity of each resource.
    pub capacity: &'a [f64],
}

/// An amount of one column: groups that share a unit, or one that has it alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// A group; its members take part in proportion to their jobs.
    pub first: usize,
    /// The other group, which may be the same.
    pub second: Option<usize>,
    /// The resource of these units.
    pub resource: usize,
    /// How many at once.
    pub amount: f64,
}

/// A leximin solution.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Filling {
    /// Users that are alike, as positions in the problem.
    pub groups: Vec<Vec<usize>>,
    /// What the groups get.
    pub shares: Vec<Share>,
    /// Each user's rate over `β`.
    pub levels: Vec<f64>,
    /// From the lowest level to the highest.
    pub bottlenecks: Vec<Bottleneck>,
    /// The largest relative gap of a bottleneck; for users that are full, or whom a spent budget stopped, between their
    /// level and what their jobs could do alone.
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
    fn check(&self) -> Result<(), InputError> {
        let k = self.capacity.len();
        check_some(self.users.len(), k)?;
        let classes = self.rates.len() / k;
        check_shape("rates", self.rates.len(), classes * k)?;
        let users = || self.users.iter();
        check_numbers("rate", self.rates.iter().copied(), Domain::NonNegative)?;
        check_numbers("capacity", self.capacity.iter().copied(), Domain::NonNegative)?;
        check_numbers("beta of user", users().map(|user| user.beta), Domain::Positive)?;
        check_numbers("jobs of user", users().map(|user| user.jobs), Domain::Positive)?;
        check_numbers("need of user", users().map(|user| user.need), Domain::AtLeastOne)?;
        check_numbers("first rate of pair", self.pairs.iter().map(|pair| pair.rates.0), Domain::NonNegative)?;
        check_numbers("second rate of pair", self.pairs.iter().map(|pair| pair.rates.1), Domain::NonNegative)?;
        users().enumerate().try_for_each(|(index, user)| check_known("user", index, user.class, classes))?;
        for (index, pair) in self.pairs.iter().enumerate() {
            check_known("pair", index, pair.second, classes)?;
            check_known("the resource of pair", index, pair.resource, k)?;
        }
        check_pair_order(self.pairs.iter().map(|pair| (pair.first, pair.second, pair.resource)))?;
        match users().position(|user| self.best(user.class) == 0.0) {
            Some(user) => Err(InputError::Unservable { user }),
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

/// Solves: see the module.
pub fn fill(problem: &Sharing<'_>, budget: Budget) -> Result<Filling, InputError> {
    problem.check()?;
    fill::run(problem, budget)
}
