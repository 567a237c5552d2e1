//! Rates alone on one GPU: a process over δ = ln measured − ln model, by workload and kind.
//!
//! With F how alike two workloads are by what is known of both (`traits.rs`), f, m, s whether they share family, model and software, b how near their batches
//! are inside a family, ℓ the product of their coordinates, I whether they are one; and of kinds e whether they are one product, ρ how near their
//! specifications are, σ the product of these, V whether they share a maker, [`AloneTerms`] adds up
//!
//! ```text
//! level       1, F, f, b, m, s, s·F, I, ℓ, V, V·s
//! profile     e·(1, F, f, b, m, s, ℓ),  ρ·(1, F, f, b),  σ·(1, F, f, ℓ),  μ·μ'
//! limits      e·I·(how near the power limits are)
//! at hand     F⁴·(1, e): what is nearer still
//! fresh       F⁴·e, of kinds that the catalog does not know
//! pace        c·P·(1, F, F⁴), once it was measured
//! ```
//!
//! *Fresh*: what kinds do to workloads was found between the kinds of the catalog, of which there are mostly two or three; the next one does something else. Without the term one workload
//! that was measured on a new kind moved all others as far as itself, and those that were far from it further than if nothing had been measured.
//!
//! *Pace*: P is how alike two workloads are in their pace (`pace.rs`), c the product of two kinds less the mean of those that the catalog knows: who is faster than expected says something of
//! ratios between kinds and not of levels. Two beliefs are kept, because what kinds do to workloads of a known pace is another question than what they do to strangers: of timm's
//! new families seen on one kind ratios are missed by 5.1 instead of 6.0 % with it, of those never seen by 6.7 instead of 6.1.
//!
//! μ is what the model's profile of a workload has that the median workload's has not: its variance lets the process find how much of it is true. The prior of V and e is what specifications
//! miss: of seven pairs of NVIDIA's kinds, each predicted from the other six, ±0.24 in ln, so ±0.17 for each kind; another maker is ±1. Of a workload of which nothing is known the level is open by a factor of e².
//!
//! **Large catalogs.** At most [`MOST`] cells are factored: whole workloads, drawn by the seed. Whoever is asked about brings its own cells and
//! those of its nearest relatives with it.

use super::calibrate::{Hidden, factor, few};
use super::expected::Expected;
use super::gaussian::{Covariance, Inverse, Kernel, Posterior, Variances, covariance_of, fit};
use super::kinds::KindTable;
use super::pace::Pace;
use crate::catalog::MEASUREMENT_ERROR;
use crate::evidence::Evidence;
use crate::method::Prediction;
use crate::rng::Rng;
use crate::stacked::LeftOut;
use crate::traits::{Metric, alike_in_batch};
use std::collections::BTreeMap;
use std::iter;
use std::sync::{Arc, Mutex};

/// Cells that are factored at the beginning, and with what is measured later.
const MOST: usize = 1024;
const MOST_LATER: usize = 1536;
/// Cells that variances and intervals are found on.
const MOST_FITTED: usize = 320;
const MOST_CALIBRATED: usize = 600;
/// Fewer cells than this fit nothing.
const LEAST_FITTED: usize = 24;
/// Cells of relatives that are brought along.
const RELATIVES: usize = 16;
/// Variances of the level by which what is told lies below the median, and the most of it: too high a guess is worse than too low a one.
const SHADE: f64 = 0.5;
const MOST_SHADED: f64 = 1.0;
/// Quantile behind the factors of intervals; of strangers wider by how few families it comes from.
const LEVEL: f64 = 0.9;

/// 1, F, f, b, m, s, s·F, I, ℓ, V, V·s | e·(1, F, f, b, m, s, ℓ) | ρ·(1, F, f, b) | σ·(1, F, f, ℓ) | μμ' | limits | nothing known | F⁴·(1, e) | fresh | c·P·(1, F, F⁴).
const START: [f64; 35] = [
    1.0, 0.3, 0.3, 0.1, 0.2, 0.05, 0.02, 0.01, 0.1, 1.5, 0.05, //
    0.03, 0.008, 0.008, 0.008, 0.004, 0.004, 0.004, //
    0.01, 0.01, 0.01, 0.01, //
    0.01, 0.01, 0.005, 0.005, //
    0.03, 0.012, 4.0, 0.05, 0.005, 0.005, 0.005, 0.01, 0.01,
];
/// 1, V, V·s, e, ρ, σ: what all workloads, a maker or a kind have in common is one fact for each; variances are found on so many kinds or more.
const OF_KINDS: [usize; 6] = [0, 9, 10, 11, 18, 22];
const ENOUGH_KINDS: usize = 4;
/// σ·(…) and μμ': what goes with specifications. On one kind these are like levels, and on the next they would be carried over with another factor, or another
/// sign: 171 % from an RTX 4090 to a PRO 6000 and back. They are left out until a second kind was measured.
const OF_SPECIFICATIONS: std::ops::RangeInclusive<usize> = 22..=26;
/// e·(F, f, b, m, s, ℓ), ρ·(F, f, b), F⁴·e and fresh: what a kind does to some workloads and not to others. On one kind nobody can tell that from levels, and it grew
/// with these: one workload that was measured on a second kind then told next to nothing of all others there. Until a second kind was measured it stays at this part of where it
/// begins otherwise.
const OF_PROFILES: [usize; 11] = [12, 13, 14, 15, 16, 17, 19, 20, 21, 30, 31];
const PROFILES_OF_ONE: f64 = 0.2;
/// As good as 0.
const NONE: f64 = 1e-6;
/// ν².
const NOISE: f64 = 0.0015;

/// A cell: a workload on one GPU of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct AloneCell {
    pub(super) workload: usize,
    pub(super) kind: usize,
    /// μ.
    pub(super) tilt: f64,
    pub(super) pace: Pace,
    /// Variance of the measurement.
    pub(super) noise: f64,
}

impl PartialEq for AloneCell {
    fn eq(&self, other: &Self) -> bool {
        (self.workload, self.kind) == (other.workload, other.kind)
    }
}

/// The covariance of rates alone.
#[derive(Clone, Debug)]
pub(super) struct AloneTerms {
    kinds: KindTable,
    metric: Metric,
    /// Products that the catalog knows, by a kind of each.
    known: Vec<usize>,
    /// Whether pace counts.
    paced: bool,
}

impl AloneTerms {
    fn fresh(&self, kind: usize) -> bool {
        !self.known.iter().any(|&known| self.kinds.between(known, kind).same)
    }
}

impl AloneTerms {
    /// The product of two kinds, each less the mean of those that the catalog knows: what pace says is said of ratios between kinds alone.
    fn contrast(&self, one: usize, two: usize, same: bool) -> f64 {
        let part = 1.0 / self.known.len().max(1) as f64;
        let of = |kind| if self.fresh(kind) { 0.0 } else { part };
        f64::from(u8::from(same)) - of(one) - of(two) + part
    }
}

impl Covariance for AloneTerms {
    type Cell = AloneCell;

    fn terms(&self, evidence: &Evidence, one: &AloneCell, two: &AloneCell, out: &mut [f64]) {
        let (w, x) = (&evidence.workloads()[one.workload], &evidence.workloads()[two.workload]);
        let same = one.workload == two.workload;
        let is = |yes: bool| f64::from(u8::from(yes));
        let near = if same { 1.0 } else { self.metric.alike(&w.point, &x.point) };
        let family = is(same || w.marks.family == x.marks.family);
        let (model, stack) = (is(same || w.marks.model == x.marks.model), is(w.marks.stack == x.marks.stack));
        let batch = match family {
            0.0 => 0.0,
            _ if same => 1.0,
            _ => alike_in_batch(&w.point, &x.point),
        };
        let line = self.metric.product(&w.point, &x.point);
        let close = near * near * near * near;
        let kinds = self.kinds.between(one.kind, two.kind);
        let (e, rho, sigma, maker) = (is(kinds.same), kinds.near, kinds.product, is(kinds.maker));
        let unknown = is(same && w.features.is_none());
        let pace = match self.paced {
            true if same => self.contrast(one.kind, two.kind, kinds.same),
            true => self.contrast(one.kind, two.kind, kinds.same) * one.pace.alike(two.pace),
            false => 0.0,
        };
        let limits = e * is(same) * kinds.limits;
        let level = [1.0, near, family, batch, model, stack, stack * near, is(same), line, maker, maker * stack];
        let rest = [
            e,
            e * near,
            e * family,
            e * batch,
            e * model,
            e * stack,
            e * line,
            rho,
            rho * near,
            rho * family,
            rho * batch,
            sigma,
            sigma * near,
            sigma * family,
            sigma * line,
            one.tilt * two.tilt,
            limits,
            unknown,
            close,
            e * close,
            is(kinds.same && self.fresh(one.kind)) * close,
            pace,
            pace * near,
            pace * close,
        ];
        out[..level.len()].copy_from_slice(&level);
        out[level.len()..].copy_from_slice(&rest);
    }

    fn group(&self, _: &AloneCell) -> usize {
        0
    }

    fn noise(&self, cell: &AloneCell) -> f64 {
        cell.noise
    }
}

/// Products that some cells are of, by a kind of each.
fn products(kinds: &KindTable, cells: &[AloneCell]) -> Vec<usize> {
    let mut products: Vec<usize> = Vec::new();
    for cell in cells {
        if !products.iter().any(|&kind| kinds.between(cell.kind, kind).same) {
            products.push(cell.kind);
        }
    }
    products
}

/// Variances to begin with where so many products are known, and those that stay.
fn start(products: usize) -> (Variances, Vec<usize>) {
    let (mut start, mut held) = (START, Vec::new());
    if products < ENOUGH_KINDS {
        held.extend(OF_KINDS);
    }
    if products == 1 {
        start[OF_SPECIFICATIONS].fill(NONE);
        held.extend(OF_SPECIFICATIONS);
        OF_PROFILES.iter().for_each(|&t| start[t] *= PROFILES_OF_ONE);
        held.extend(OF_PROFILES);
    }
    (Variances::new(&start, NOISE, 1, false), held)
}

/// Measurements of rates alone under one covariance.
#[derive(Clone)]
struct Belief {
    terms: AloneTerms,
    variances: Arc<Variances>,
    /// By whether a relative and whether it itself was measured.
    factors: [[f64; 2]; 2],
    posterior: Posterior<AloneCell>,
}

impl Belief {
    /// Of cells of the catalog, and what it would have got wrong of workloads hidden from it.
    fn new(terms: AloneTerms, evidence: &Evidence, all: &[AloneCell], y: &[f64]) -> (Self, Vec<LeftOut>) {
        let some = |most: usize| all.len().min(most);
        let (start, held) = start(terms.known.len());
        let fitted = some(MOST_FITTED);
        let variances = if fitted >= LEAST_FITTED {
            fit(&terms, evidence, &all[..fitted], &y[..fitted], &start, &held)
        } else {
            start
        };
        let mut kernel = Kernel::new(&terms, evidence, &variances);
        let kept = some(MOST);
        let posterior = Posterior::new(&mut kernel, &all[..kept], &y[..kept]);
        let n = some(MOST_CALIBRATED);
        let (factors, left_out) = calibrated(evidence, &mut kernel, &all[..n], &y[..n]);
        (Self { terms, variances: Arc::new(variances), factors, posterior }, left_out)
    }

    /// The same with more measurements.
    fn with(&self, evidence: &Evidence, more: &[(AloneCell, f64)]) -> Self {
        let mut belief = self.clone();
        more.iter().for_each(|(cell, y)| belief.append(evidence, *cell, *y));
        belief
    }

    fn append(&mut self, evidence: &Evidence, cell: AloneCell, y: f64) {
        let mut kernel = Kernel::new(&self.terms, evidence, &self.variances);
        self.posterior.append(&mut kernel, cell, y);
    }

    /// (mean, variance) of what a cell is above what is expected.
    fn answer(&self, evidence: &Evidence, asked: &AloneCell) -> (f64, f64) {
        let mut kernel = Kernel::new(&self.terms, evidence, &self.variances);
        let mut v = Vec::new();
        self.posterior.solve(&mut kernel, asked, &mut v);
        let (mean, explained) = self.posterior.answer(&v);
        let variance = kernel.between(asked, asked) + kernel.noise(asked) - explained;
        (mean, variance.max(MEASUREMENT_ERROR.powi(2)))
    }
}

/// What is believed of rates alone.
pub(super) struct Alone {
    /// Of workloads that were not measured, and of kinds that the catalog does not know.
    strangers: Belief,
    /// Of workloads that were measured, where the catalog says what pace does to ratios of kinds.
    paced: Option<Belief>,
    /// Place in the posteriors by (workload, kind).
    places: BTreeMap<(usize, usize), usize>,
    /// Whether cells of the catalog were left out.
    thinned: bool,
    expected: Arc<Expected>,
    /// What it would have got wrong of workloads hidden from it.
    left_out: Arc<Vec<LeftOut>>,
    /// Measured workloads by family.
    families: BTreeMap<u64, Vec<usize>>,
    told: Mutex<BTreeMap<usize, Arc<[Prediction]>>>,
}

impl Clone for Alone {
    fn clone(&self) -> Self {
        let told = self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        Self {
            strangers: self.strangers.clone(),
            paced: self.paced.clone(),
            places: self.places.clone(),
            thinned: self.thinned,
            expected: Arc::clone(&self.expected),
            left_out: Arc::clone(&self.left_out),
            families: self.families.clone(),
            told: Mutex::new(told),
        }
    }
}

impl Alone {
    pub(super) fn new(evidence: &Evidence, seed: u64) -> Self {
        let metric = Metric::new(&evidence.workloads().iter().map(|w| &w.point).collect::<Vec<_>>());
        let mut drawn: Vec<usize> = (0..evidence.workloads().len()).collect();
        Rng::new(seed, "alone").shuffle(&mut drawn);
        let expected = Expected::new(evidence);
        let cells = drawn.iter().flat_map(|&t| expected.cells_of(evidence, t));
        let (all, y): (Vec<AloneCell>, Vec<f64>) = cells.unzip();
        let kinds = KindTable::new(evidence.kinds());
        let known = products(&kinds, &all);
        let terms = AloneTerms { kinds, metric, known, paced: false };
        let paced = expected.paces.tell();
        let paced = paced.then(|| Belief::new(AloneTerms { paced, ..terms.clone() }, evidence, &all, &y));
        let (strangers, mut left_out) = Belief::new(terms, evidence, &all, &y);
        let paced = paced.map(|(belief, seen)| {
            left_out.retain(|cell| !cell.seen);
            left_out.extend(seen.into_iter().filter(|cell| cell.seen));
            belief
        });
        let kept = strangers.posterior.len();
        let places = all[..kept].iter().enumerate().map(|(at, c)| ((c.workload, c.kind), at)).collect();
        let mut families: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for t in drawn.iter().copied().filter(|&t| expected.cells_of(evidence, t).next().is_some()) {
            families.entry(evidence.workloads()[t].marks.family).or_default().push(t);
        }
        let (thinned, left_out) = (kept < all.len(), Arc::new(left_out));
        let (expected, told) = (Arc::new(expected), Mutex::default());
        Self { strangers, paced, places, thinned, expected, left_out, families, told }
    }

    pub(super) fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// What is believed of a workload on every kind.
    pub(super) fn row(&self, evidence: &Evidence, workload: usize) -> Arc<[Prediction]> {
        let lock = || self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(row) = lock().get(&workload) {
            return Arc::clone(row);
        }
        let row: Arc<[Prediction]> = self.predict(evidence, workload).into();
        lock().insert(workload, Arc::clone(&row));
        row
    }

    fn predict(&self, evidence: &Evidence, workload: usize) -> Vec<Prediction> {
        let brought = self.brought(evidence, workload);
        let with = |belief: &Belief| (!brought.is_empty()).then(|| belief.with(evidence, &brought));
        let strangers = with(&self.strangers);
        let strangers = strangers.as_ref().unwrap_or(&self.strangers);
        let cells = || strangers.posterior.cells().iter();
        let own = cells().any(|c| c.workload == workload);
        let paced = self.paced.as_ref().filter(|_| own && self.expected.paces.of(workload) != Pace::UNKNOWN);
        let paced_with = paced.and_then(with);
        let paced = paced_with.as_ref().or(paced);
        let marks = evidence.workloads()[workload].marks;
        let kin =
            |c: &AloneCell| c.workload != workload && evidence.workloads()[c.workload].marks.family == marks.family;
        let related = cells().any(kin);
        let mut told: Vec<(f64, f64)> = Vec::new();
        let mut factors: Vec<f64> = Vec::new();
        for kind in 0..evidence.kinds().len() {
            let (tilt, pace) = (self.expected.tilt(evidence, workload, kind), self.expected.paces.of(workload));
            let asked = AloneCell { workload, kind, tilt, pace, noise: 0.0 };
            let belief = paced.filter(|belief| !belief.terms.fresh(kind)).unwrap_or(strangers);
            let (mean, variance) = belief.answer(evidence, &asked);
            told.push((self.expected.ln_rate(evidence, workload, kind) + mean, variance));
            // Intervals were measured on kinds that are known: they say nothing about one that is not.
            let known = cells().any(|c| belief.terms.kinds.between(c.kind, kind).same);
            let factor = belief.factors[usize::from(related)][usize::from(own)];
            factors.push(if known { factor } else { factor.max(1.0) });
        }
        let level = told.iter().map(|(_, v)| *v).fold(MOST_SHADED, f64::min);
        let shade = SHADE * level;
        let told = told.into_iter().zip(factors);
        told.map(|((ln, v), factor)| Prediction::new(ln - shade, v.sqrt() * factor, own)).collect()
    }

    /// Cells that the posterior lacks: those of a workload, and of its nearest relatives.
    fn brought(&self, evidence: &Evidence, workload: usize) -> Vec<(AloneCell, f64)> {
        if !self.thinned {
            return Vec::new();
        }
        let marks = &evidence.workloads()[workload].marks;
        let point = &evidence.workloads()[workload].point;
        let family = self.families.get(&marks.family).into_iter().flatten().copied().filter(|&t| t != workload);
        let closeness = |t: usize| {
            let other = &evidence.workloads()[t];
            let same = f64::from(u8::from(other.marks.model == marks.model));
            let stack = f64::from(u8::from(other.marks.stack == marks.stack));
            2.0 * same + stack + self.strangers.terms.metric.alike(point, &other.point)
        };
        let mut kin: Vec<(f64, usize)> = family.map(|t| (closeness(t), t)).collect();
        kin.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let open = |c: &(AloneCell, f64)| !self.places.contains_key(&(c.0.workload, c.0.kind));
        let own = self.expected.cells_of(evidence, workload).filter(open);
        let others = kin.iter().flat_map(|&(_, t)| self.expected.cells_of(evidence, t)).filter(open).take(RELATIVES);
        own.chain(others).collect()
    }

    fn beliefs(&mut self) -> impl Iterator<Item = &mut Belief> {
        iter::once(&mut self.strangers).chain(&mut self.paced)
    }

    /// Something was measured of a workload on a kind.
    pub(super) fn learn(&mut self, evidence: &Evidence, workload: usize, kind: usize) {
        self.learn_as(evidence, workload, kind, None);
    }

    /// The same where somebody knows better than [`Evidence::own_rate`] what rates beside others say of the rate alone: ln and its variance.
    pub(super) fn learn_as(&mut self, evidence: &Evidence, workload: usize, kind: usize, better: Option<(f64, f64)>) {
        Arc::make_mut(&mut self.expected).learn(evidence, workload);
        let seen = self.expected.cells_of(evidence, workload).find(|(c, _)| c.kind == kind);
        let Some((mut cell, mut y)) = seen else { return };
        if let Some((ln, variance)) = better {
            cell.noise = variance;
            y = ln - self.expected.ln_rate(evidence, workload, kind);
        }
        match self.places.get(&(workload, kind)) {
            Some(&at) => {
                // What was seen beside others first is seen alone now.
                let by = cell.noise - self.strangers.posterior.cells()[at].noise;
                for belief in self.beliefs() {
                    let known = AloneCell { noise: cell.noise, ..belief.posterior.cells()[at] };
                    belief.posterior.correct_noise(at, known, y, by);
                }
            }
            None if self.strangers.posterior.len() < MOST_LATER => {
                self.places.insert((workload, kind), self.strangers.posterior.len());
                self.beliefs().for_each(|belief| belief.append(evidence, cell, y));
            }
            None => self.thinned = true,
        }
        let family = self.families.entry(evidence.workloads()[workload].marks.family).or_default();
        if !family.contains(&workload) {
            family.push(workload);
        }
        self.told = Mutex::default();
    }

    pub(super) fn add_kind(&mut self, evidence: &Evidence, measured: bool) {
        let kinds = evidence.kinds().len();
        Arc::make_mut(&mut self.expected).at_least_one_kind();
        for belief in self.beliefs() {
            belief.terms.kinds = KindTable::new(evidence.kinds());
        }
        self.told = Mutex::default();
        if measured {
            for workload in 0..evidence.workloads().len() {
                self.learn(evidence, workload, kinds - 1);
            }
        }
    }

    /// A workload can be asked about from now on, or is known better.
    pub(super) fn add_workload(&mut self, evidence: &Evidence, workload: usize) {
        for kind in 0..evidence.kinds().len() {
            if !self.places.contains_key(&(workload, kind)) {
                self.learn(evidence, workload, kind);
            }
        }
        self.told.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&workload);
    }
}

/// Factors of intervals: each workload hidden in turn, with its family and without, before and after one of its cells was seen.
fn calibrated(
    evidence: &Evidence,
    kernel: &mut Kernel<'_, AloneTerms>,
    cells: &[AloneCell],
    y: &[f64],
) -> ([[f64; 2]; 2], Vec<LeftOut>) {
    let mut left_out = Vec::new();
    if cells.len() < LEAST_FITTED {
        return ([[1.0; 2]; 2], left_out);
    }
    let whole = Inverse::new(covariance_of(kernel, cells), y);
    let family = |c: &AloneCell| evidence.workloads()[c.workload].marks.family;
    let mut told: [[Vec<(f64, f64)>; 2]; 2] = Default::default();
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, cell) in cells.iter().enumerate() {
        groups.entry(family(cell)).or_default().push(at);
    }
    for block in groups.values() {
        let mut members: Vec<usize> = block.iter().map(|&at| cells[at].workload).collect();
        members.sort_unstable();
        members.dedup();
        let hidden = Hidden::new(&whole, block);
        let mut score = |hidden: &Hidden, block: &[usize], workload: usize, related: usize| {
            let own: Vec<usize> = (0..block.len()).filter(|&i| cells[block[i]].workload == workload).collect();
            let untold = hidden.given(&[], own.iter().copied());
            let level = untold.iter().map(|(_, sd)| sd * sd).fold(MOST_SHADED, f64::min);
            let untold: Vec<(f64, f64)> = untold.iter().map(|(error, sd)| (error + SHADE * level, *sd)).collect();
            let mut leave = |of: &mut dyn Iterator<Item = usize>, errors: &[(f64, f64)], seen: bool| {
                left_out.extend(of.zip(errors).map(|(i, (error, _))| {
                    let kind = cells[block[i]].kind;
                    LeftOut { workload, kind, related: related == 1, seen, error: *error }
                }));
            };
            leave(&mut own.iter().copied(), &untold, false);
            told[related][0].extend(untold);
            for (at, &seen) in own.iter().enumerate().take(2).filter(|_| own.len() > 1) {
                let rest: Vec<usize> = own.iter().copied().filter(|&i| i != seen).collect();
                let errors = hidden.given(&[seen], rest.iter().copied());
                if at == 0 {
                    leave(&mut rest.iter().copied(), &errors, true);
                }
                told[related][1].extend(errors);
            }
        };
        for &workload in &members {
            score(&hidden, block, workload, 0);
            if members.len() > 1 {
                let own: Vec<usize> = block.iter().copied().filter(|&at| cells[at].workload == workload).collect();
                score(&Hidden::new(&whole, &own), &own, workload, 1);
            }
        }
    }
    let wider = [few(groups.len()), 1.0];
    let factors = [0, 1].map(|related| [0, 1].map(|seen| wider[related] * factor(&told[related][seen], LEVEL)));
    (factors, left_out)
}
