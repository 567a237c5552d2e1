//! What a user gains by misreporting how fast its work is.
//!
//! A lie multiplies the rates that a policy is told, kind by kind. Policies only look at rates relative to the slowest
//! kind, so what counts is the reported speed-up row w': *inflated* is w' ≥ w on every kind, *deflated* w' ≤ w.
//! The policy divides again with the reported rates, and what comes of it is valued with the true ones:
//!
//!   gain = (w_l·x'_l) / (w_l·x_l)       above 1, the lie paid
//!
//! Rates of pairs are not misreported: they belong to workloads, not to a user.

use super::{AuditError, holdings, over, utilities};
use crate::allocate::{Grant, PolicyEntry, Problem};

/// Factors by kind on the rates that a user reports.
#[derive(Clone, PartialEq, Debug)]
pub struct Lie {
    factors: Vec<f64>,
}

/// Which way a lie leans, on the speed-ups over the slowest kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slant {
    /// Every speed-up as it is.
    None,
    /// w' ≥ w.
    Inflated,
    /// w' ≤ w.
    Deflated,
    /// Some more, some less.
    Mixed,
}

/// The lie that paid best.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BestLie {
    /// True utility after it over that of honesty; 1 when no lie paid.
    pub gain: f64,
    /// Which of the lies; `None` when no lie paid.
    pub lie: Option<usize>,
    /// True utility of honesty, in speed-ups.
    pub honest: f64,
}

impl Lie {
    /// A lie of one factor for each kind.
    ///
    /// # Errors
    /// When a factor is negative or no number. 0 pretends not to fit.
    pub fn new(factors: Vec<f64>) -> Result<Self, AuditError> {
        match factors.iter().position(|f| !(f.is_finite() && *f >= 0.0)) {
            Some(j) => {
                let what = format!("the lie's factor on kind {j} is {}; expected 0 or more", factors[j]);
                Err(AuditError::Lie { what })
            }
            None => Ok(Self { factors }),
        }
    }

    /// Factors by kind.
    #[must_use]
    pub fn factors(&self) -> &[f64] {
        &self.factors
    }

    /// Which way it leans in the mouth of a user.
    #[must_use]
    pub fn slant(&self, problem: &Problem, user: usize) -> Slant {
        let honest = row(problem.rates(user).iter().copied());
        let told = row(problem.rates(user).iter().zip(&self.factors).map(|(r, f)| r * f));
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.max(b);
        let more = honest.iter().zip(&told).any(|(h, t)| t > h && !near(*h, *t));
        let less = honest.iter().zip(&told).any(|(h, t)| t < h && !near(*h, *t));
        match (more, less) {
            (false, false) => Slant::None,
            (true, false) => Slant::Inflated,
            (false, true) => Slant::Deflated,
            (true, true) => Slant::Mixed,
        }
    }

    /// The problem as the policy hears it.
    fn told(&self, problem: &Problem, user: usize) -> Result<Problem, AuditError> {
        if user >= problem.users.len() {
            return Err(AuditError::NoSuchUser { user, users: problem.users.len() });
        }
        let (given, k) = (self.factors.len(), problem.kinds());
        if given != k {
            return Err(AuditError::Lie { what: format!("the lie has {given} factors for {k} kinds") });
        }
        let mut told = problem.clone();
        for (rate, factor) in told.rates[user * k..(user + 1) * k].iter_mut().zip(&self.factors) {
            *rate *= factor;
            if !rate.is_finite() {
                return Err(AuditError::Lie { what: format!("a lie of {factor} times makes a rate of {rate}") });
            }
        }
        Ok(told)
    }
}

/// Speed-ups over the slowest kind that is not 0.
fn row(rates: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let slowest = rates.clone().filter(|&r| r > 0.0).fold(f64::INFINITY, f64::min);
    rates.map(|r| r / slowest).collect()
}

/// Every factor on every single kind, the others told as they are.
#[must_use]
pub fn single_lies(kinds: usize, factors: &[f64]) -> Vec<Lie> {
    let lie = |j: usize, factor: f64| Lie { factors: (0..kinds).map(|i| if i == j { factor } else { 1.0 }).collect() };
    (0..kinds).flat_map(|j| factors.iter().map(move |&factor| lie(j, factor))).collect()
}

/// True utility, in speed-ups, of a user that tells a lie.
///
/// # Errors
/// When there is no such user, the lie has not one factor for each kind, or the policy has no answer.
pub fn utility_after(entry: &PolicyEntry, problem: &Problem, user: usize, lie: &Lie) -> Result<f64, AuditError> {
    let told = lie.told(problem, user)?;
    let answer = (entry.make)().allocate(&told)?;
    Ok(true_utility(problem, user, answer.grants()))
}

/// The best of several lies of one user under a policy, with everybody else honest.
///
/// # Errors
/// As [`utility_after`].
pub fn best_lie(entry: &PolicyEntry, problem: &Problem, user: usize, lies: &[Lie]) -> Result<BestLie, AuditError> {
    let honest = utility_after(entry, problem, user, &Lie { factors: vec![1.0; problem.kinds()] })?;
    let mut best = BestLie { gain: 1.0, lie: None, honest };
    for (i, lie) in lies.iter().enumerate() {
        let gain = over(utility_after(entry, problem, user, lie)?, honest);
        if gain > best.gain {
            best = BestLie { gain, lie: Some(i), honest };
        }
    }
    Ok(best)
}

/// w_l·x_l with the true rates.
fn true_utility(problem: &Problem, user: usize, grants: &[Grant]) -> f64 {
    let k = problem.kinds();
    if !problem.sold_as.is_empty() {
        return utilities(problem, grants)[user];
    }
    let (x, _) = holdings(problem, grants);
    let slowest = problem.rates(user).iter().copied().filter(|&r| r > 0.0).fold(f64::INFINITY, f64::min);
    let gang = f64::from(problem.users[user].gang);
    problem.gpu_rates(user).zip(&x[user * k..(user + 1) * k]).map(|(r, x)| r * gang / slowest * x).sum()
}
