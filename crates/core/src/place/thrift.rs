//! In which mode a GPU runs that its class was not owed: the one that its class would have bought there.
//!
//! A policy that knows modes stops giving a class watts where another watt gives it too little speed. What is too little is in its answer: on kind j in mode
//! c, with rate w_c and watts p_c of one GPU, the last watts of c give
//!
//!   s_c = min (w_c − w_b) / (p_c − p_b)     over the modes b of j with p_b < p_c, and (0, 0)
//!
//! so the class is content with s, the least s_c of the modes in which it has a share. A GPU beyond its shares is worth w − s p to it, in the mode where that is most; and to
//! move up to a faster kind is worth it where that is more than before. A class without shares runs where a step takes least energy.
//!
//! Without this, GPUs that are free by rounding only would be given away at full power, and most of what a program saves with them.

use crate::allocate::{Allocation, ClassId, Members, Power, Problem};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// What a GPU of each kind, in each mode, is worth to classes: rate less watts at their price. Sorted by class; nobody is in it where the policy knows no modes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Thrift {
    classes: Vec<(ClassId, Vec<f64>)>,
}

/// Shares below this are a solver's rounding.
const LEAST_SHARE: f64 = 1e-4;

impl Thrift {
    /// What the answer to a problem says.
    pub(super) fn new(problem: &Problem, allocation: &Allocation) -> Self {
        let Some(power) = problem.power.as_ref().filter(|_| !problem.sold_as.is_empty()) else {
            return Self::default();
        };
        let mut price: Vec<Option<f64>> = vec![None; problem.users.len()];
        for grant in allocation.grants().iter().filter(|grant| grant.gangs > LEAST_SHARE) {
            if let Members::One(u) = grant.members
                && (u as usize) < price.len()
                && grant.kind.index() < problem.kinds()
            {
                let slope = slope(problem, power, u as usize, grant.kind.index());
                let known = &mut price[u as usize];
                *known = Some(known.map_or(slope, |known| known.min(slope)));
            }
        }
        let worth = |(u, price): (usize, Option<f64>)| (problem.users[u].class, worth(problem, power, u, price));
        let mut classes: Vec<_> = price.into_iter().enumerate().map(worth).collect();
        classes.sort_by_key(|(class, _)| *class);
        Self { classes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    fn of(&self, class: ClassId) -> Option<&[f64]> {
        self.classes.binary_search_by_key(&class, |(class, _)| *class).ok().map(|at| &self.classes[at].1[..])
    }

    /// The mode of the kind `base` in which a class runs on a GPU of it.
    pub(super) fn mode(&self, class: ClassId, base: usize, sold_as: &[usize], rates: &[f64]) -> usize {
        let Some(worth) = self.of(class).filter(|worth| worth.len() == sold_as.len()) else { return base };
        let modes = (0..sold_as.len()).filter(|&j| sold_as[j] == base && rates[j] > 0.0);
        modes.max_by(|&a, &b| worth[a].total_cmp(&worth[b]).then(b.cmp(&a))).unwrap_or(base)
    }

    /// Whether a class had better be on a GPU in mode `to` than in mode `from`; yes where nothing is known.
    pub(super) fn gains(&self, class: ClassId, from: usize, to: usize) -> bool {
        let worth = self.of(class).and_then(|worth| Some((worth.get(from)?, worth.get(to)?)));
        worth.is_none_or(|(from, to)| to.total_cmp(from) == Ordering::Greater)
    }
}

/// What one GPU of a user draws beyond what it would draw without it.
fn added(power: &Power, u: usize, j: usize) -> f64 {
    let idle = if power.unused_off { 0.0 } else { power.idle_watts[j] };
    (power.users[u].watts[j] - idle).max(0.0)
}

/// s of a mode: what its last watts give.
fn slope(problem: &Problem, power: &Power, u: usize, c: usize) -> f64 {
    let rates = problem.rates(u);
    let (w, p) = (rates[c], added(power, u, c));
    let same = (0..problem.kinds()).filter(|&b| problem.sold_as(b) == problem.sold_as(c) && rates[b] > 0.0);
    let lower = same.map(|b| (rates[b], added(power, u, b))).chain([(0.0, 0.0)]);
    let slopes = lower.filter(|(_, q)| *q < p).map(|(v, q)| (w - v) / (p - q));
    slopes.fold(f64::INFINITY, f64::min).clamp(0.0, f64::MAX)
}

/// What a GPU is worth to a user, by kind and mode.
fn worth(problem: &Problem, power: &Power, u: usize, price: Option<f64>) -> Vec<f64> {
    let rates = problem.rates(u);
    let one = |j: usize| {
        let (w, p) = (rates[j], added(power, u, j));
        match price {
            _ if w <= 0.0 => f64::MIN,
            Some(price) => w - price * p,
            None => w / p.max(f64::MIN_POSITIVE),
        }
    };
    (0..problem.kinds()).map(one).map(|worth| worth.clamp(f64::MIN, f64::MAX)).collect()
}
