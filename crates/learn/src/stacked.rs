//! The best of two: attention over the catalog (P1 of `learned.rs`) and Gaussian processes over cells (`process.rs`).
//!
//! *Pairs.* P1 is the prior mean, and a process is over what it leaves. P1 looks at other workloads' cells only, so of every cell of the catalog it says what it would have
//! said of a newcomer, and what it leaves there is what it would leave of one: the process's variances are those under which that is most likely. It is conditioned on
//! what is measured after the catalog alone, of which P1 knows nothing and learns nothing: its mean is that of a true posterior, whoever chose the cells, and it shrinks as one
//! does rather than by a rule that was trained on a few observations. What P1 leaves is taken over P1's standard error, which is wider for families that nobody has seen; with
//! u the part of the process's own that is left, the standard error is P1's times u. The trained correction (P2) stays for the first few cells of a newcomer, what it was trained
//! for: it weighs 8/(8 + n) against the process, n being the newcomer's cells that were measured since the catalog.
//! (A process that is conditioned on the catalog as well, with P1 as its prior mean or without, is worse at random cells of newcomers: 13.4 against 10.4 %.)
//!
//! *Rates alone.* Attention's own process and the other one are averaged: with w the weight of the first and ρ = 0.7 how far they err alike,
//!
//! ```text
//! ln T̂ = w·ln T̂_a + (1 − w)·ln T̂_p,      σ² = w²σ_a² + (1 − w)²σ_p² + 2·ρ·w(1 − w)·σ_a·σ_p
//! ```
//!
//! Both say what they would have got wrong of every workload had it been hidden (`LeftOut`), with and without its family, before and after one of its rates was seen.
//! Each of these four places has the weight under which the mean of both errs least, drawn towards a half; it is 0 where too few were hidden
//! from both, of workloads without features, and on kinds that nobody measured. Of a workload that was measured on a kind beside others only, P1 says what these left of its rate
//! alone.

use crate::evidence::{CellIndex, Evidence, KnownWorkload};
use crate::learned::{self, Learned, Parameters};
use crate::method::{Method, MethodEstimator, Prediction};
use crate::process::{LooksAt, Pairs, Process};
use crate::profile::LIKE;
use crate::table::{EstimatorError, Setting};
use crate::traits::COUNTERS;
use arles_core::estimate::Estimator;
use std::collections::BTreeMap;

/// A rate alone of a workload that was hidden: what was measured less what was said, in logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct LeftOut {
    pub(crate) workload: usize,
    pub(crate) kind: usize,
    /// Whether a relative of the workload was known.
    pub(crate) related: bool,
    /// Whether it had been measured on its first kind.
    pub(crate) seen: bool,
    pub(crate) error: f64,
}

/// Cells of a newcomer after which the trained correction and the process weigh alike.
const FADES: f64 = 8.0;
/// How far the two err alike.
const CORRELATION: f64 = 0.7;
/// Fewer cells hidden from both say nothing; so many at [`DRAWN_TO`] are added to those that were.
const LEAST: usize = 24;
const DRAWN_TO: f64 = 0.5;
const DRAWN: f64 = 12.0;
/// Errors beyond this count linearly.
const HUBER: f64 = 0.3;

/// Makes one, both parts trained on what the catalog holds.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    Ok(with(setting, learned::train(setting).0))
}

/// Makes one with parameters of attention that were trained elsewhere.
#[must_use]
pub fn with(setting: &Setting<'_>, params: Parameters) -> Box<dyn Estimator> {
    let evidence = Evidence::new(setting);
    let attention = Learned::frozen(&evidence, params);
    let left =
        Pairs::new(&evidence, setting.seed, &|i, j, a| first(&attention, &evidence, i, j, a), LooksAt::WhatComes);
    // Of pairs the process is asked only where somebody has no features that count.
    let described = evidence.workloads().iter().all(|w| by_features(w));
    let process = if described {
        Process::of_rates_alone(&evidence, setting.seed)
    } else {
        Process::new(&evidence, setting.seed)
    };
    let stacked = Stacked::new(&evidence, attention, left, process);
    Box::new(MethodEstimator::new(evidence, stacked))
}

/// Whether attention is asked about somebody's pairs: by features that were stated, or were made up of some that were where counters of a run do not say more.
fn by_features(w: &KnownWorkload) -> bool {
    w.psi.is_some() && (w.feature_error <= LIKE || w.point[COUNTERS].is_nan())
}

/// P1's estimate of a cell, as a prior.
fn first(attention: &Learned, evidence: &Evidence, i: usize, j: usize, kind: usize) -> Option<(f64, f64)> {
    if ![i, j].iter().all(|&t| by_features(&evidence.workloads()[t])) {
        return None;
    }
    attention.first_estimate(evidence, i, j, kind).map(|said| (said.ln, said.standard_error))
}

/// What rates beside others say of a rate alone, by what P1 says that each leaves: ln and its variance, half of which is about them all. P1 is as it was at the beginning,
/// so it does not matter what was measured first.
fn alone_by_pairs(attention: &Learned, evidence: &Evidence, seen: &CellIndex) -> Option<(f64, f64)> {
    // A gang says more, whenever it was measured.
    if !evidence.gangs(seen.workload, seen.kind).is_empty() {
        return None;
    }
    let (mut sum, mut squares, mut n) = (0.0, 0.0, 0.0);
    for (other, ln) in evidence.beside_row(seen.workload, seen.kind).iter().filter(|(_, ln)| ln.is_finite()) {
        let (left, standard_error) = first(attention, evidence, seen.workload, other, seen.kind)?;
        sum += f64::from(ln) - left;
        squares += standard_error * standard_error;
        n += 1.0;
    }
    (n > 0.0).then(|| (sum / n, squares / n * (0.5 + 0.5 / n)))
}

#[derive(Clone)]
struct Stacked {
    attention: Learned,
    /// Over what attention leaves of pairs.
    left: Pairs,
    process: Process,
    /// Of attention in rates alone, by whether a relative is known and whether the workload itself was measured.
    weights: [[f64; 2]; 2],
    /// Kinds that somebody was measured on.
    measured: Vec<bool>,
    /// Workloads measured alone, by family.
    families: BTreeMap<u64, Vec<usize>>,
}

impl Stacked {
    fn new(evidence: &Evidence, attention: Learned, left: Pairs, process: Process) -> Self {
        let weights = weights(attention.left_out(), process.left_out());
        let (measured, families) = (Vec::new(), BTreeMap::new());
        let mut stacked = Self { attention, left, process, weights, measured, families };
        for workload in 0..evidence.workloads().len() {
            stacked.enter(evidence, workload);
        }
        stacked
    }

    /// Takes note of where a workload was measured alone.
    fn enter(&mut self, evidence: &Evidence, workload: usize) {
        self.measured.resize(evidence.kinds().len(), false);
        let mut any = false;
        for kind in 0..evidence.kinds().len() {
            if evidence.alone(workload, kind).is_finite() {
                self.measured[kind] = true;
                any = true;
            }
        }
        let family = self.families.entry(evidence.workloads()[workload].marks.family).or_default();
        if any && !family.contains(&workload) {
            family.push(workload);
        }
    }

    fn weight_alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> f64 {
        let known = &evidence.workloads()[workload];
        if known.psi.is_none() || !self.measured.get(kind).copied().unwrap_or(false) {
            return 0.0;
        }
        let family = self.families.get(&known.marks.family).map_or(&[][..], Vec::as_slice);
        let related = family.iter().any(|&t| t != workload);
        self.weights[usize::from(related)][usize::from(family.contains(&workload))]
    }
}

impl Method for Stacked {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        let process = self.process.alone(evidence, workload, kind);
        match self.weight_alone(evidence, workload, kind) {
            0.0 => process,
            w => together(w, self.attention.alone(evidence, workload, kind), process),
        }
    }

    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction {
        let known = [workload, other].iter().all(|&t| by_features(&evidence.workloads()[t]));
        let first = self.attention.first_estimate(evidence, workload, other, kind).filter(|_| known);
        let Some(first) = first else { return self.process.beside(evidence, workload, other, kind) };
        let (moved, uncertain) = self.left.moved(evidence, (workload, other, kind));
        let (gain, since) = self.attention.first_correction(evidence, workload, other, kind);
        let w = FADES / (FADES + f64::from(since));
        let moved = w * gain + (1.0 - w) * first.standard_error * moved;
        Prediction::new((first.ln + moved).min(0.0), first.standard_error * uncertain, uncertain < 1.0)
    }

    fn population(&self) -> bool {
        false
    }

    fn trusts_features(&self) -> bool {
        false
    }

    fn learn(&mut self, evidence: &Evidence, seen: &CellIndex) {
        self.attention.learn(evidence, seen);
        let Self { attention, left, .. } = self;
        let prior = |i, j, a| first(attention, evidence, i, j, a);
        match seen.partner {
            Some(other) => left.learn(evidence, (seen.workload, other, seen.kind), &prior),
            None => left.learn_row(evidence, seen.workload, seen.kind, &prior),
        }
        let alone = alone_by_pairs(&self.attention, evidence, seen);
        self.process.learn_as(evidence, seen, alone);
        self.enter(evidence, seen.workload);
    }

    fn add_kind(&mut self, evidence: &Evidence, measured: bool) {
        self.attention.add_kind(evidence, measured);
        let Self { attention, left, .. } = self;
        left.add_kind(evidence, measured, &|i, j, a| first(attention, evidence, i, j, a));
        self.process.add_kind(evidence, measured);
        for workload in 0..if measured { evidence.workloads().len() } else { 0 } {
            self.enter(evidence, workload);
        }
    }

    fn add_workload(&mut self, evidence: &Evidence, workload: usize, new: bool) {
        self.attention.add_workload(evidence, workload, new);
        self.process.add_workload(evidence, workload, new);
        self.enter(evidence, workload);
    }
}

/// What two say, `w` being the weight of the first.
fn together(w: f64, one: Prediction, two: Prediction) -> Prediction {
    let (a, b) = (w * one.standard_error, (1.0 - w) * two.standard_error);
    let variance = a * a + b * b + 2.0 * CORRELATION * a * b;
    Prediction::new(w * one.ln + (1.0 - w) * two.ln, variance.sqrt(), one.refined || two.refined)
}

/// The weights under which the mean of both errs least about what was hidden from both.
fn weights(attention: &[LeftOut], process: &[LeftOut]) -> [[f64; 2]; 2] {
    let key = |l: &LeftOut| (l.related, l.seen, l.workload, l.kind);
    let known: BTreeMap<_, f64> = attention.iter().map(|l| (key(l), l.error)).collect();
    let mut errors: [[Vec<[f64; 2]>; 2]; 2] = Default::default();
    for left in process {
        if let Some(&other) = known.get(&key(left)) {
            errors[usize::from(left.related)][usize::from(left.seen)].push([other, left.error]);
        }
    }
    errors.map(|by_seen| by_seen.map(|errors| weight(&errors)))
}

fn weight(errors: &[[f64; 2]]) -> f64 {
    if errors.len() < LEAST {
        return 0.0;
    }
    let loss = |w: f64| {
        let one = |e: &[f64; 2]| {
            let error = (w * e[0] + (1.0 - w) * e[1]).abs();
            if error <= HUBER { 0.5 * error * error } else { HUBER * (error - 0.5 * HUBER) }
        };
        errors.iter().map(one).sum::<f64>()
    };
    let grid = (0..=20u32).map(|i| f64::from(i) / 20.0);
    let best = grid.min_by(|a, b| loss(*a).total_cmp(&loss(*b))).unwrap_or(DRAWN_TO);
    let n = errors.len() as f64;
    (n * best + DRAWN * DRAWN_TO) / (n + DRAWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_errs_less_weighs_more() {
        let errors = |one: f64, two: f64| -> Vec<[f64; 2]> {
            (0..100).map(|i| [one * f64::from(i % 7 - 3), two * f64::from(i % 5 - 2)]).collect()
        };
        assert!(weight(&errors(0.01, 0.1)) > 0.7 && weight(&errors(0.1, 0.01)) < 0.3);
        let both = weight(&errors(0.05, 0.05));
        assert!((0.25..0.75).contains(&both), "{both}");
        assert_eq!(weight(&errors(0.01, 0.1)[..10]), 0.0);
    }

    #[test]
    fn two_that_agree_are_as_sure_as_each_and_no_surer_than_independence_allows() {
        let one = Prediction::new(-0.5, 0.2, false);
        let both = together(0.5, one, one);
        assert!((both.ln + 0.5).abs() < 1e-12);
        assert!(both.standard_error < 0.2 && both.standard_error > 0.2 / 2f64.sqrt());
    }
}
