//! The recommended estimator: attention over the catalog (P1), a bounded correction by observations (P2), and a calibrated standard error.
//!
//! `attention` predicts a newcomer's rate beside a partner from the rates of similar workloads beside it; `correction` adjusts that by
//! measurements of the newcomer itself; `train` fits the 166 params of both, and the standard error, on `episodes` in which every
//! known workload is hidden in turn; `alone` predicts rates alone. The newcomer of a pair is the workload with fewer measured pairs; there are two
//! roles: its own rate, and its partner's beside it. Measured cells are never changed, and what fits is not decided here.
//!
//! With little data it falls back in steps. No similar workload: the partner's mean. One or two workloads known beside that partner: mostly the
//! performance model. Nothing measured on a kind: half the model and half the prediction for other kinds, with twice the standard error. A
//! partner without measurements: the nearest one with measurements. With fewer than six workloads with measured pairs, similarity cannot be
//! learned: the params are then trained on [`synthetic`], the library as the performance model sees it.
//!
//! **What was tried** on Gavel's table (`arles learn eval`; mean error of pairs in per cent at 0 / 2 / 4 observations; held out:
//! one workload | a family):
//!
//! | | workload | family |
//! | --- | --- | --- |
//! | as it is | 9.7 / 9.1 / 8.7 | 22.3 / 20.1 / 17.7 |
//! | with the performance model as a mean of learned weight (v) | 9.8 / 9.2 / 8.7 | 22.5 / 20.5 / 18.1 |
//! | without the trend in batch (t = 0) and with v | 10.5 / 9.7 / 9.2 | 22.4 / 20.5 / 18.1 |
//! | without the other role's residual (c = 0) and with v | 9.8 / 9.2 / 8.7 | 22.5 / 20.5 / 18.1 |
//!
//! Therefore v is learned only on synthetic data, where the model is nearly right, and is 0 where there are measurements; c costs nothing and
//! has no effect here. Training steps, learning rates and shrinkage were set once and not searched. The level of the conformal
//! quantile for new families (0.94) and the halving of the variance in `alone` were chosen after looking at these folds.
//!
//! An observation updates the measured cell, the sums and residuals that depend on it, and ln standard error by at most 0.01; the other
//! params change with the next training only. So order does not matter, and the influence of a bad measurement is bounded.

mod alone;
mod attention;
mod correction;
mod episodes;
mod parameters;
mod train;

use crate::evidence::{CellIndex, Evidence, PairTable};
use crate::features::{PSI, Spec, spec};
use crate::method::{Method, MethodEstimator, Prediction};
use crate::residual::{self, Role, UNKNOWN_RELATIVE_RATE};
use crate::table::{EstimatorError, Setting};
use crate::{mean, perf_model, solo, synthetic};
use alone::Alone;
use arles_core::Library;
use arles_core::estimate::{Estimator, Source};
use attention::{WeightedValue, attend, likeness};
use correction::{ObservedResidual, correction, etas, nearness, transfers};
use episodes::TrainingSet;
pub use parameters::Parameters;
use parameters::{PerKind, PerRole, ROLES};
use std::sync::Arc;
pub use train::TrainingSummary;
use train::{LEAST_SD, ln_sd};

/// With fewer measured workloads than this, similarity is learned on synthetic data.
const LEAST_KNOWN: usize = 6;

/// What is done otherwise, so that it can be seen what it is worth (docs/learning.md, "What choosing does").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Variant {
    /// Corrections by the four measurements that say most, as in training, however many there are.
    few: bool,
    /// P1 knows the catalog only: what is measured later moves no mean.
    frozen: bool,
    /// Other kinds correct too, however often the newcomer was measured.
    all_kinds: bool,
    /// No correction at all.
    uncorrected: bool,
}

/// Measurements that correct a cell in training, at most.
const FEW: usize = 4;

fn make_variant(setting: &Setting<'_>, variant: Variant) -> Result<Box<dyn Estimator>, EstimatorError> {
    let (params, _) = train(setting);
    let evidence = Evidence::new(setting);
    let learned = Learned { variant, ..Learned::new(&evidence, params) };
    Ok(Box::new(MethodEstimator::new(evidence, learned)))
}

/// P1 alone.
pub(crate) fn uncorrected(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make_variant(setting, Variant { frozen: true, uncorrected: true, ..Variant::default() })
}

/// With few corrections, with a frozen P1, and with all kinds.
pub(crate) fn few(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make_variant(setting, Variant { few: true, ..Variant::default() })
}

pub(crate) fn frozen(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make_variant(setting, Variant { frozen: true, ..Variant::default() })
}

pub(crate) fn all_kinds(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make_variant(setting, Variant { all_kinds: true, ..Variant::default() })
}

/// Makes one, trained on what the catalog holds.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    let (params, _) = train(setting);
    Ok(with(setting, params))
}

/// Trains the numbers on the measured pairs of a setting's catalog; where these are too few, on the library as the performance
/// model sees it.
#[must_use]
pub fn train(setting: &Setting<'_>) -> (Parameters, TrainingSummary) {
    let evidence = Evidence::new(setting);
    let known = (0..evidence.workloads().len())
        .filter(|&t| evidence.measured_pairs(t) > 0 && evidence.workloads()[t].psi.is_some())
        .count();
    if known >= LEAST_KNOWN {
        return train_on(&evidence, setting, false);
    }
    let world = synthetic::catalog(setting.kinds, Library::builtin(), setting.seed);
    let evidence = Evidence::from(&Setting { workloads: &[], catalog: &world, ..*setting }, Source::Initial);
    train_on(&evidence, setting, true)
}

/// An estimator with numbers that were trained before, here or elsewhere.
#[must_use]
pub fn with(setting: &Setting<'_>, params: Parameters) -> Box<dyn Estimator> {
    let evidence = Evidence::new(setting);
    let learned = Learned::new(&evidence, params);
    Box::new(MethodEstimator::new(evidence, learned))
}

fn train_on(evidence: &Evidence, setting: &Setting<'_>, prior: bool) -> (Parameters, TrainingSummary) {
    let data = TrainingSet::new(evidence, setting.seed);
    let specs: Vec<Spec> = evidence.kinds().iter().map(spec).collect();
    let start = Parameters::start(evidence.kinds(), if prior { 0.5 } else { 0.0 });
    let (params, trained) = train::train(start, &data, &specs, setting.seed, !prior, setting.progress);
    (params, TrainingSummary { prior, ..trained })
}

/// A similar workload.
#[derive(Clone, Copy, Debug)]
struct Similar {
    workload: usize,
    /// By role.
    weights: [f64; ROLES],
    /// ln batch of it less that of the other, in one family.
    step: Option<f64>,
}

/// A measurement of a newcomer beside a partner, minus the prediction of P1.
#[derive(Clone, Copy, Debug)]
struct Residual {
    kind: usize,
    partner: usize,
    /// By role.
    ln: [f64; ROLES],
}

/// Parameters of a kind of this setting.
#[derive(Clone, Copy, Debug)]
struct KindParameters {
    attention: f64,
    slope: f64,
    model: f64,
    standard_error: f64,
    /// Unseen in training: twice the standard error.
    known: bool,
}

/// What follows from training and the kinds.
struct Fixed {
    params: Parameters,
    /// By role and kind.
    per_kind: Vec<KindParameters>,
    /// κ and κ0 by (role, from, to).
    transfers: Vec<[f64; 2]>,
    nearness: Arc<Nearness>,
}

/// exp(−Σ η (Ψ_p − Ψ_j)²) by (role, p, j); 0 without features. A table among the first workloads, worked out for the rest: it
/// would be n² numbers.
struct Nearness {
    etas: [[f64; PSI]; ROLES],
    /// How many workloads the table is for.
    tabled: usize,
    table: Vec<f32>,
}

/// The table is for so many workloads at most.
const MOST_TABLED: usize = 1024;

/// The trained estimator with what it has observed.
#[derive(Clone)]
pub(crate) struct Learned {
    fixed: Arc<Fixed>,
    /// Those most like a workload, by workload; others appear there once something was measured of them.
    similar: Vec<Arc<Vec<Similar>>>,
    /// Whether a workload appears there.
    listed: Vec<bool>,
    /// z by role and (partner, kind, newcomer); NaN where nothing was measured.
    values: [PairTable; ROLES],
    /// Σ z and how many, by (partner, role, kind).
    sums: Vec<(f64, f64)>,
    /// By workload.
    residuals: Vec<Arc<Vec<Residual>>>,
    /// By role: what is added to ln standard error for how surprising observations were.
    calibration: [f64; ROLES],
    variant: Variant,
    /// Pairs of each workload that were measured at the beginning.
    known_pairs: Arc<Vec<u32>>,
    alone: Alone,
}

/// Similar workloads used at most.
const MOST_SIMILAR: usize = 24;
/// Beyond so many measured pairs, a kind is corrected by its own alone.
const MOST_RESIDUALS: usize = 64;

/// The step of [`Learned::surprise`] after one observation, and how far it may go.
const CALIBRATION_STEP: f64 = 0.01;
const MOST_CALIBRATION: f64 = 0.5;

/// P1's prediction of a cell.
struct InitialPrediction {
    ln: f64,
    likeness: f64,
}

impl Learned {
    /// What rates alone of hidden workloads were wrong by.
    pub(crate) fn left_out(&self) -> &[crate::stacked::LeftOut] {
        self.alone.left_out()
    }

    /// With a P1 that knows what the catalog held at the beginning.
    pub(crate) fn frozen(evidence: &Evidence, params: Parameters) -> Self {
        Self { variant: Variant { frozen: true, ..Variant::default() }, ..Self::new(evidence, params) }
    }

    /// Pairs of a workload that were measured since, both sides counted.
    fn pairs_since(&self, evidence: &Evidence, workload: usize) -> u32 {
        evidence.measured_pairs(workload) - self.known_pairs.get(workload).copied().unwrap_or(0)
    }

    /// P2's correction of [`Self::first_estimate`], and how many cells of the newcomer were measured since the beginning.
    pub(crate) fn first_correction(
        &self,
        evidence: &Evidence,
        workload: usize,
        other: usize,
        kind: usize,
    ) -> (f64, u32) {
        let (role, newcomer, partner) = self.first_roles(workload, other);
        let stand_in = self.stand_in(evidence, newcomer, partner);
        (self.correct(evidence, role, newcomer, stand_in, kind).0, self.pairs_since(evidence, newcomer))
    }

    /// (role, newcomer, the other one), by what was measured at the beginning.
    fn first_roles(&self, workload: usize, other: usize) -> (usize, usize, usize) {
        let known = |t: usize| self.known_pairs.get(t).copied().unwrap_or(0);
        if known(workload) <= known(other) { (0, workload, other) } else { (1, other, workload) }
    }

    /// What P1 says of a cell from the catalog. Who is new in the pair is who was at the beginning, so that it says the same of a cell for good. Nothing of the newcomer's
    /// own cells goes in: of a cell of the catalog it says what it would have said had the newcomer been hidden.
    pub(crate) fn first_estimate(
        &self,
        evidence: &Evidence,
        workload: usize,
        other: usize,
        kind: usize,
    ) -> Option<Prediction> {
        let described = |t: usize| evidence.workloads()[t].psi.is_some();
        if !described(workload) || !described(other) {
            return None;
        }
        let (role, newcomer, partner) = self.first_roles(workload, other);
        self.first(evidence, role, newcomer, partner, kind)
    }

    /// P1 with its standard error.
    fn first(&self, evidence: &Evidence, r: usize, newcomer: usize, partner: usize, kind: usize) -> Option<Prediction> {
        let stand_in = self.stand_in(evidence, newcomer, partner);
        let said = self.initial(evidence, r, newcomer, stand_in, kind)?;
        let params = &self.fixed.params;
        let k = &self.fixed.per_kind[r * evidence.kinds().len() + kind];
        let likeness = 0.5 * (params.get(r, PerRole::Need).exp() + said.likeness).ln();
        let standard_error = ln_sd(k.standard_error, params.get(r, PerRole::Likeness), likeness, 0.0, 0.0).exp();
        let unsure = if k.known { 1.0 } else { 2.0 } * if stand_in == partner { 1.0 } else { 1.5 };
        let known = |t: usize| self.known_pairs.get(t).is_some_and(|pairs| *pairs > 0);
        let family_known = self.similar[newcomer].iter().any(|l| l.step.is_some() && known(l.workload));
        let standard_error = standard_error.max(LEAST_SD) * params.conformal[usize::from(family_known)] * unsure;
        Some(Prediction::new(said.ln.min(0.0), standard_error, false))
    }

    pub(crate) fn new(evidence: &Evidence, params: Parameters) -> Self {
        let (n, kinds) = (evidence.workloads().len(), evidence.kinds().len());
        let mut learned = Self {
            fixed: Arc::new(Fixed::new(evidence, params, None)),
            similar: Vec::new(),
            listed: vec![true; n],
            values: [PairTable::new(n, kinds), PairTable::new(n, kinds)],
            sums: vec![(0.0, 0.0); ROLES * kinds * n],
            residuals: vec![Arc::default(); n],
            calibration: [0.0; ROLES],
            variant: Variant::default(),
            known_pairs: Arc::new((0..n).map(|t| evidence.measured_pairs(t)).collect()),
            alone: Alone::new(evidence),
        };
        learned.similar = (0..n).map(|t| Arc::new(learned.most_similar(evidence, t))).collect();
        for a in 0..kinds {
            for one in 0..n {
                learned.put_row(evidence, one, a);
            }
        }
        for workload in 0..n {
            learned.update_residuals(evidence, workload);
        }
        learned
    }

    fn at(&self, evidence: &Evidence, role: usize, kind: usize, partner: usize) -> usize {
        (partner * ROLES + role) * evidence.kinds().len() + kind
    }

    /// Those most like a workload, the most alike first.
    fn most_similar(&self, evidence: &Evidence, workload: usize) -> Vec<Similar> {
        let params = &self.fixed.params;
        let ln_batch =
            |t: usize| evidence.workloads()[t].features.as_ref().map_or(0.0, |w| f64::from(w.batch.max(1)).ln());
        let neighbours = evidence.neighbours(workload).iter().filter_map(|&(k, _)| {
            let (one, two) = (evidence.workloads()[workload].psi.as_ref()?, evidence.workloads()[k].psi.as_ref()?);
            let related = solo::related(evidence, workload, k);
            let weights = [0, 1].map(|r| likeness(params, r, one, two, related).exp());
            Some(Similar { workload: k, weights, step: related.then(|| ln_batch(k) - ln_batch(workload)) })
        });
        let mut neighbours: Vec<Similar> = neighbours.collect();
        // The rest weighs nothing, and each costs a look into memory that is far away.
        neighbours.sort_by(|a, b| (b.weights[0] + b.weights[1]).total_cmp(&(a.weights[0] + a.weights[1])));
        neighbours.truncate(MOST_SIMILAR);
        neighbours
    }

    /// Whoever was measured for the first time is alike to others from now on.
    fn enter(&mut self, evidence: &Evidence, workload: usize) {
        if self.listed[workload] || !evidence.listed(workload) {
            return;
        }
        self.listed[workload] = true;
        for t in 0..evidence.workloads().len() {
            if evidence.neighbours(t).iter().any(|&(k, _)| k == workload) {
                self.similar[t] = Arc::new(self.most_similar(evidence, t));
            }
        }
    }

    /// Takes over all cells of a workload beside others on a kind.
    fn put_row(&mut self, evidence: &Evidence, workload: usize, kind: usize) {
        for (other, _) in evidence.beside_row(workload, kind).iter() {
            self.put(evidence, workload, other, kind);
        }
    }

    /// Takes the evidence's cell of `workload` beside `other` over, in both roles.
    fn put(&mut self, evidence: &Evidence, workload: usize, other: usize, kind: usize) {
        let ln = evidence.relative(workload, other, kind);
        for (role, newcomer, partner) in [(0, workload, other), (1, other, workload)] {
            let row = self.at(evidence, role, kind, partner);
            let before = f64::from(self.values[role].get(partner, kind, newcomer));
            if ln.is_nan() && before.is_nan() {
                continue;
            }
            let v = self.fixed.per_kind[role * evidence.kinds().len() + kind].model;
            let z = (ln - v * perf_model::beside(evidence, workload, other, kind).unwrap_or(0.0)) as f32;
            self.values[role].set(partner, kind, newcomer, z);
            let (sum, count) = &mut self.sums[row];
            for (value, sign) in [(before, -1.0), (f64::from(z), 1.0)] {
                if value.is_finite() {
                    *sum += sign * value;
                    *count += sign;
                }
            }
        }
    }

    /// P1.
    fn initial(
        &self,
        evidence: &Evidence,
        role: usize,
        newcomer: usize,
        other: usize,
        kind: usize,
    ) -> Option<InitialPrediction> {
        let values = self.values[role].row(other, kind);
        let own = f64::from(values.get(newcomer));
        let (mut sum, mut count) = self.sums[self.at(evidence, role, kind, other)];
        if own.is_finite() {
            sum -= own;
            count -= 1.0;
        }
        let (one, two) = if role == 0 { (newcomer, other) } else { (other, newcomer) };
        let model = perf_model::beside(evidence, one, two, kind);
        if count < 0.5 {
            return self.predict_from_other_kinds(evidence, role, newcomer, other, model);
        }
        let Some(model) = model else {
            let role = if role == 0 { Role::Own } else { Role::Partner };
            return Some(InitialPrediction {
                ln: mean::partner_mean(evidence, role, newcomer, other, kind).0,
                likeness: 0.0,
            });
        };
        let m = sum / count;
        let there = self.similar[newcomer].iter().map(|like| (like, f64::from(values.get(like.workload))));
        let weighted = there.filter(|(_, z)| z.is_finite()).map(|(like, value)| WeightedValue {
            weight: like.weights[role],
            value,
            step: like.step,
        });
        let params = &self.fixed.params;
        let said = attend(weighted, m, params.get(role, PerRole::Need).exp());
        let k = &self.fixed.per_kind[role * evidence.kinds().len() + kind];
        let ln = m + k.attention * said.att + k.slope * said.slope + k.model * model;
        // A mean of one or two is hardly evidence.
        let trust = count * count / (count * count + 4.0);
        Some(InitialPrediction { ln: (trust * ln + (1.0 - trust) * model).min(0.0), likeness: said.likeness })
    }

    /// Where nobody was measured beside `other` on a kind: half the model, half what other kinds initial.
    fn predict_from_other_kinds(
        &self,
        evidence: &Evidence,
        role: usize,
        newcomer: usize,
        other: usize,
        model: Option<f64>,
    ) -> Option<InitialPrediction> {
        let measured = |b: &usize| self.sums[self.at(evidence, role, *b, other)].1 > 1.5;
        let elsewhere = (0..evidence.kinds().len()).filter(measured);
        let said = elsewhere.filter_map(|b| Some(self.initial(evidence, role, newcomer, other, b)?.ln));
        let ln = match (residual::moments(said), model) {
            (Some((mean, _)), Some(model)) => (mean + model) / 2.0,
            (Some((mean, _)), None) => mean,
            (None, model) => model?,
        };
        Some(InitialPrediction { ln, likeness: 0.0 })
    }

    /// Works the residuals of a workload out anew.
    fn update_residuals(&mut self, evidence: &Evidence, workload: usize) {
        if self.variant.uncorrected {
            return;
        }
        let mut residuals = Vec::new();
        if evidence.measured_pairs(workload) > 0 {
            for kind in 0..evidence.kinds().len() {
                for partner in evidence.partners(workload, kind) {
                    let of = |role: usize| {
                        let measured =
                            residual::relative(evidence, [Role::Own, Role::Partner][role], workload, partner, kind);
                        if !measured.is_finite() {
                            return None;
                        }
                        Some(measured - self.initial(evidence, role, workload, partner, kind)?.ln)
                    };
                    let both = [of(0), of(1)];
                    if both[0].is_some() || both[1].is_some() {
                        let ln = both.map(|r| r.or(both[0]).or(both[1]).unwrap_or(0.0));
                        residuals.push(Residual { kind, partner, ln });
                    }
                }
            }
        }
        self.residuals[workload] = Arc::new(residuals);
    }

    /// One step of the standard error's own numbers, along the slope of Laplace's likelihood: |error|/β − 1, bounded.
    fn update_calibration(&mut self, evidence: &Evidence, workload: usize, other: usize, kind: usize) {
        let measured = evidence.relative(workload, other, kind);
        let (role, newcomer, partner) = residual::roles(evidence, workload, other);
        let r = role.index();
        let Some(said) = self.initial(evidence, r, newcomer, partner, kind) else { return };
        if measured.is_finite() {
            let params = &self.fixed.params;
            let likeness = 0.5 * (params.get(r, PerRole::Need).exp() + said.likeness).ln();
            let sigma = self.fixed.per_kind[r * evidence.kinds().len() + kind].standard_error;
            let sd = ln_sd(sigma, params.get(r, PerRole::Likeness), likeness, 0.0, 0.0).exp().max(LEAST_SD);
            let step = ((measured - said.ln).abs() / (sd / 2f64.sqrt()) - 1.0).clamp(-1.0, 1.0);
            self.calibration[r] += CALIBRATION_STEP * step;
        }
    }

    /// P2: the correction and Σ g.
    fn correct(&self, evidence: &Evidence, role: usize, newcomer: usize, other: usize, kind: usize) -> (f64, f64) {
        let kinds = evidence.kinds().len();
        let cross = self.fixed.params.get(role, PerRole::Cross);
        let all: &[Residual] = &self.residuals[newcomer];
        if self.variant.uncorrected {
            return (0.0, 0.0);
        }
        // Of somebody who was measured often, other kinds have nothing to add.
        let wide = self.variant.all_kinds || all.len() <= MOST_RESIDUALS;
        let observed = all.iter().filter(|o| wide || o.kind == kind);
        let observed = observed.map(|o| {
            let [k, k0] = self.fixed.transfers[(role * kinds + o.kind) * kinds + kind];
            let near = self.fixed.nearness.of(evidence, role, o.partner, other);
            ObservedResidual { gain: k * near + k0, residual: o.ln[role] + cross * o.ln[1 - role] }
        });
        if !self.variant.few {
            return correction(observed);
        }
        let mut most: Vec<ObservedResidual> = observed.collect();
        most.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        correction(most.into_iter().take(FEW))
    }

    /// The measured partner that stands in for one of which nothing was measured: the nearest.
    fn stand_in(&self, evidence: &Evidence, newcomer: usize, other: usize) -> usize {
        let kinds = 0..evidence.kinds().len();
        let heard = |k: usize| match self.variant.frozen {
            false => evidence.measured_pairs(k) > 0,
            true => kinds.clone().any(|a| self.sums[self.at(evidence, 0, a, k)].1 > 0.5),
        };
        if heard(other) {
            return other;
        }
        let mut near = evidence.neighbours(other).iter().map(|&(k, _)| k);
        near.find(|&k| k != newcomer && heard(k)).unwrap_or(other)
    }
}

impl Fixed {
    /// `nearness` where it is known already: it does not depend on kinds.
    fn new(evidence: &Evidence, params: Parameters, nearness: Option<Arc<Nearness>>) -> Self {
        let specs: Vec<Spec> = evidence.kinds().iter().map(spec).collect();
        let kinds = evidence.kinds();
        let mut per_kind = Vec::new();
        let mut passed = Vec::new();
        for role in 0..ROLES {
            for (a, kind) in kinds.iter().enumerate() {
                let of = |f: PerKind| params.of_any(role, f, kind);
                let (standard_error, known) = of(PerKind::StandardError);
                let (attention, slope) = (of(PerKind::Attention).0, of(PerKind::Slope).0);
                per_kind.push(KindParameters { attention, slope, model: of(PerKind::Model).0, standard_error, known });
                for b in 0..kinds.len() {
                    passed.push(transfers(&params, role, &specs[a], &specs[b], a == b).map(|t| t.value));
                }
            }
        }
        let nearness = nearness.unwrap_or_else(|| Arc::new(Nearness::new(evidence, &params)));
        Self { params, per_kind, transfers: passed, nearness }
    }
}

impl Nearness {
    fn new(evidence: &Evidence, params: &Parameters) -> Self {
        let etas = [0, 1].map(|role| etas(params, role));
        let tabled = evidence.workloads().len().min(MOST_TABLED);
        let mut nearness = Self { etas, tabled, table: Vec::with_capacity(ROLES * tabled * tabled) };
        for role in 0..ROLES {
            for p in 0..tabled {
                for j in 0..tabled {
                    nearness.table.push(nearness.worked_out(evidence, role, p, j));
                }
            }
        }
        nearness
    }

    fn of(&self, evidence: &Evidence, role: usize, p: usize, j: usize) -> f64 {
        if p < self.tabled && j < self.tabled {
            f64::from(self.table[(role * self.tabled + p) * self.tabled + j])
        } else {
            f64::from(self.worked_out(evidence, role, p, j))
        }
    }

    fn worked_out(&self, evidence: &Evidence, role: usize, p: usize, j: usize) -> f32 {
        match (&evidence.workloads()[p].psi, &evidence.workloads()[j].psi) {
            (Some(p), Some(j)) => nearness(&self.etas[role], p, j) as f32,
            _ => 0.0,
        }
    }
}

impl Method for Learned {
    fn alone(&self, _: &Evidence, workload: usize, kind: usize) -> Prediction {
        self.alone.prediction(workload, kind)
    }

    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction {
        let (role, newcomer, partner) = residual::roles(evidence, workload, other);
        let stand_in = self.stand_in(evidence, newcomer, partner);
        let r = role.index();
        let Some(said) = self.initial(evidence, r, newcomer, stand_in, kind) else {
            return Prediction::new(UNKNOWN_RELATIVE_RATE.ln(), 0.6, false);
        };
        let (moved, gains) = self.correct(evidence, r, newcomer, stand_in, kind);
        let params = &self.fixed.params;
        let k = &self.fixed.per_kind[r * evidence.kinds().len() + kind];
        let likeness = 0.5 * (params.get(r, PerRole::Need).exp() + said.likeness).ln();
        let observed = params.get(r, PerRole::Observed).exp();
        let standard_error = ln_sd(k.standard_error, params.get(r, PerRole::Likeness), likeness, observed, gains).exp();
        let standard_error = standard_error * self.calibration[r].clamp(-MOST_CALIBRATION, MOST_CALIBRATION).exp();
        let unsure = if k.known { 1.0 } else { 2.0 } * if stand_in == partner { 1.0 } else { 1.5 };
        let family_known =
            self.similar[newcomer].iter().any(|l| l.step.is_some() && evidence.measured_pairs(l.workload) > 0);
        let standard_error = standard_error.max(LEAST_SD) * params.conformal[usize::from(family_known)] * unsure;
        // What was trained on features is too sure of those that have none: these vary as all that was measured does.
        let described = |t: usize| evidence.workloads()[t].psi.is_some();
        let spread = if described(workload) && described(other) {
            0.0
        } else {
            mean::partner_mean(evidence, role, newcomer, stand_in, kind).1
        };
        Prediction::new((said.ln + moved).min(0.0), standard_error.max(spread), gains > 0.0)
    }

    fn learn(&mut self, evidence: &Evidence, seen: &CellIndex) {
        for workload in std::iter::once(seen.workload).chain(seen.partner) {
            self.enter(evidence, workload);
        }
        match seen.partner {
            Some(other) => {
                self.update_calibration(evidence, seen.workload, other, seen.kind);
                if !self.variant.frozen {
                    self.put(evidence, seen.workload, other, seen.kind);
                }
                if evidence.alone(seen.workload, seen.kind).is_nan() {
                    self.alone.refresh(evidence, seen.workload);
                }
            }
            None => {
                if !self.variant.frozen {
                    self.put_row(evidence, seen.workload, seen.kind);
                }
                self.alone.refresh(evidence, seen.workload);
            }
        }
        self.update_residuals(evidence, seen.workload);
        if let Some(other) = seen.partner {
            self.update_residuals(evidence, other);
        }
    }

    fn add_kind(&mut self, evidence: &Evidence, measured: bool) {
        let (n, kinds) = (evidence.workloads().len(), evidence.kinds().len());
        let (params, nearness) = (self.fixed.params.clone(), Arc::clone(&self.fixed.nearness));
        self.fixed = Arc::new(Fixed::new(evidence, params, Some(nearness)));
        self.values.iter_mut().for_each(|values| values.add_kind(n));
        let mut sums = vec![(0.0, 0.0); ROLES * kinds * n];
        for (at, known) in self.sums.iter().enumerate() {
            sums[at / (kinds - 1) * kinds + at % (kinds - 1)] = *known;
        }
        self.sums = sums;
        self.alone.add_kind(evidence, measured);
        if measured {
            for workload in 0..n {
                self.enter(evidence, workload);
                self.put_row(evidence, workload, kinds - 1);
            }
            for workload in 0..n {
                self.update_residuals(evidence, workload);
            }
        }
    }

    fn add_workload(&mut self, evidence: &Evidence, workload: usize, new: bool) {
        let kinds = evidence.kinds().len();
        if new {
            self.similar.push(Arc::default());
            self.listed.push(false);
            self.values.iter_mut().for_each(PairTable::add_workload);
            self.sums.extend(std::iter::repeat_n((0.0, 0.0), ROLES * kinds));
            self.residuals.push(Arc::default());
        }
        // One that the catalog knew may have been described only now: it is then like others, and they are like it.
        self.similar[workload] = Arc::new(self.most_similar(evidence, workload));
        self.listed[workload] = false;
        self.enter(evidence, workload);
        self.alone.add_workload(evidence, workload);
        if new && evidence.measured_pairs(workload) > 0 {
            for kind in 0..kinds {
                for other in evidence.partners(workload, kind) {
                    self.put(evidence, workload, other, kind);
                    self.put(evidence, other, workload, kind);
                    self.update_residuals(evidence, other);
                }
            }
        }
        if evidence.measured_pairs(workload) > 0 {
            self.update_residuals(evidence, workload);
        }
    }
}

#[cfg(test)]
mod tests;
