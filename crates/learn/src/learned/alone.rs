//! Rates alone: a Gaussian process over what the performance model leaves, δ = ln measured − ln model.
//!
//! Two cells (i,a), (i',a') are related by what their workloads have in common, times 1, and once more times ρ(a,a') for what is
//! special to a kind:
//!
//! ```text
//! k = C + L_Ψ·e^(−½|Ψ−Ψ'|²) + [family]·(L_f + L_b·e^(−½(ln batch − ln batch')²/ℓ²)) + O·[i=i'] + N·[same cell]
//!   + ρ(a,a')·( C' + P_Ψ·e^(−½|Ψ−Ψ'|²) + [family]·(P_f + P_b·e^(…)) ) + M·μ·μ'
//! ```
//!
//! μ is the model's own profile over kinds, ln model(a) less its mean: M lets the process find that the model exaggerates.
//! What is told is not the median e^mean but e^(mean − ½ variance), the variance averaged over kinds that somebody measured: of a rate known to a factor only, too high a guess is worse
//! than too low a one (the least expected relative error is at a whole variance below).
//!
//! A pair that was measured where the workload was not measured alone counts too, with the noise of what partners leave.
//!
//! A workload without measured relatives is carried over once more from where it was measured by the mean profile of all
//! others, without model or features, and the two are averaged: seven families are too few to tell which is better.
//!
//! The variances are those under which what is known is most likely, found by a search along one after the other. Only
//! the nearest workloads answer for one, at most [`MOST_CELLS`] cells, so that an observation costs the same in a large
//! catalog. Workloads without features are none of its business: the population answers for them.

use crate::catalog::MEASUREMENT_ERROR;
use crate::evidence::Evidence;
use crate::features::{Spec, spec};
use crate::method::Prediction;
use crate::residual::Role;
use crate::stacked::LeftOut;
use crate::{mean, perf_model, solo};
use std::sync::Arc;

/// Cells that answer for one workload.
const MOST_CELLS: usize = 96;
/// ℓ in ln batch.
const BATCH_LENGTH: f64 = 1.5;
/// A 90 % interval is so many standard errors wide, to either side.
const NINETY: f64 = 1.645;
/// Quantiles behind the conformal factors, without and with a relative known: a family hidden in training is still better known
/// than one that is really new.
const LEVELS: [f64; 2] = [0.92, 0.9];
/// Variances by which what is told lies below the median.
const SHADE: f64 = 0.5;
/// Standard error of what a partner leaves, taken as the mean.
const PAIR_SPREAD: f64 = 0.3;
/// Standard error where nothing at all is known.
const UNKNOWN: f64 = 1.0;

/// C, C', L_Ψ, P_Ψ, L_f, P_f, L_b, P_b, O, N, M.
type Variances = [f64; 11];

/// A little of everything, found on the library's own rows.
const START: Variances = [0.1, 0.05, 0.1, 0.03, 0.3, 0.05, 0.1, 0.03, 0.01, 0.005, 0.1];

/// Predicted rates alone of all subjects.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    variances: Variances,
    /// What standard errors are multiplied by, without and with a relative known.
    conformal: [f64; 2],
    specs: Vec<Spec>,
    /// Kinds over which profiles are taken and variances averaged: those of the beginning, so that one more changes nothing.
    base: usize,
    /// What it got wrong of workloads that were hidden from it.
    left_out: Vec<LeftOut>,
    /// By workload and kind; nothing for those that cannot be asked about, and those without features.
    predictions: Vec<Option<Arc<[Prediction]>>>,
}

/// A cell that was measured.
#[derive(Clone, Copy)]
struct MeasuredCell {
    workload: usize,
    kind: usize,
    /// δ.
    value: f64,
    /// μ.
    tilt: f64,
    /// Variance of the measurement itself, where it is not one of the rate alone.
    noise: f64,
}

impl Alone {
    pub(super) fn new(evidence: &Evidence) -> Self {
        let specs: Vec<Spec> = evidence.kinds().iter().map(spec).collect();
        let base = specs.len();
        let mut alone =
            Self { variances: START, conformal: [1.0; 2], specs, base, left_out: Vec::new(), predictions: Vec::new() };
        alone.tune(evidence);
        alone.calibrate(evidence);
        alone.predictions = (0..evidence.workloads().len()).map(|t| alone.asked(evidence, t)).collect();
        alone
    }

    pub(super) fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    pub(super) fn prediction(&self, workload: usize, kind: usize) -> Prediction {
        let known = self.predictions[workload].as_ref().and_then(|row| row.get(kind));
        known.copied().unwrap_or(Prediction::new(0.0, UNKNOWN, false))
    }

    /// The predictions of a workload that may be asked for.
    fn asked(&self, evidence: &Evidence, workload: usize) -> Option<Arc<[Prediction]>> {
        let asked = evidence.id(workload).is_some() && evidence.workloads()[workload].psi.is_some();
        asked.then(|| self.beliefs_of(evidence, workload).into())
    }

    /// There is another kind. What was said of the others stays, to the bit, unless something is known of the new one.
    pub(super) fn add_kind(&mut self, evidence: &Evidence, measured: bool) {
        self.specs.extend(evidence.kinds().last().map(spec));
        self.base = self.base.max(1);
        for t in 0..self.predictions.len() {
            let (before, mut row) = (self.predictions[t].take(), self.asked(evidence, t));
            if let (Some(before), Some(row), false) = (before, &mut row, measured) {
                let last = row.last().copied();
                *row = before.iter().copied().chain(last).collect();
            }
            self.predictions[t] = row;
        }
    }

    /// A workload can be asked about from now on.
    pub(super) fn add_workload(&mut self, evidence: &Evidence, workload: usize) {
        let predictions = self.asked(evidence, workload);
        self.predictions.resize(evidence.workloads().len(), None);
        self.predictions[workload] = predictions;
    }

    /// Something was measured of `workload`: it and its nearest are thought over.
    pub(super) fn refresh(&mut self, evidence: &Evidence, workload: usize) {
        const ECHO: usize = 2;
        for t in std::iter::once(workload).chain(evidence.hear_of(workload, ECHO)) {
            self.predictions[t] = self.asked(evidence, t);
        }
    }

    fn beliefs_of(&self, evidence: &Evidence, workload: usize) -> Vec<Prediction> {
        let known = around(evidence, workload, self.base, MOST_CELLS);
        if known.is_empty() {
            let modelled = |kind: usize| perf_model::alone(evidence, workload, kind);
            let prediction = |ln: Option<f64>| {
                let standard_error = if ln.is_some() { perf_model::ALONE_STANDARD_ERROR } else { UNKNOWN };
                Prediction::new(ln.unwrap_or(0.0), standard_error, false)
            };
            return (0..self.specs.len()).map(|kind| prediction(modelled(kind))).collect();
        }
        let family_known = known.iter().any(|k| solo::related(evidence, k.workload, workload));
        let factor = self.conformal[usize::from(family_known)];
        let mut predictions = self.beliefs_from(evidence, workload, &known);
        for prediction in &mut predictions {
            prediction.standard_error *= factor;
        }
        predictions
    }

    /// What these cells say about a workload on every kind.
    fn beliefs_from(&self, evidence: &Evidence, workload: usize, known: &[MeasuredCell]) -> Vec<Prediction> {
        let refined = known.iter().any(|k| k.workload == workload);
        let stranger = !known.iter().any(|k| solo::related(evidence, k.workload, workload));
        let factor = Factor::new(&self.covariance(evidence, known), known.len());
        let values: Vec<f64> = known.iter().map(|k| k.value).collect();
        let weights = factor.solve(&values);
        let prediction = |kind: usize| {
            let tilt = tilt(evidence, workload, kind, self.base);
            let here = MeasuredCell { workload, kind, value: 0.0, tilt, noise: 0.0 };
            let across: Vec<f64> = known.iter().map(|k| self.kernel(evidence, &here, k)).collect();
            let mean: f64 = across.iter().zip(&weights).map(|(c, w)| c * w).sum();
            let explained: f64 = factor.forward(&across).iter().map(|x| x * x).sum();
            let own = self.kernel(evidence, &here, &here);
            let variance = (own - explained).max(MEASUREMENT_ERROR * MEASUREMENT_ERROR);
            let process = perf_model::alone(evidence, workload, kind).unwrap_or(0.0) + mean;
            let plain = if stranger { carried(evidence, workload, kind, known) } else { None };
            let ln = plain.map_or(process, |plain| (process + plain) / 2.0);
            Prediction::new(ln, variance.sqrt(), refined)
        };
        let mut predictions: Vec<Prediction> = (0..self.specs.len()).map(prediction).collect();
        // One shade for all kinds that were not measured: it must not tilt the profile.
        // A kind that nobody measured has no part in it: its doubt is about the kind, and must not lower its ratio to others.
        let measured = |a: &usize| known.iter().any(|k| k.kind == *a);
        let open = (0..self.base).filter(measured);
        let open = open.filter(|&a| !known.iter().any(|k| k.workload == workload && k.kind == a));
        let variance =
            crate::residual::moments(open.map(|a| predictions[a].standard_error * predictions[a].standard_error));
        for prediction in &mut predictions {
            prediction.ln -= SHADE * variance.map_or(0.0, |(mean, _)| mean);
        }
        predictions
    }

    /// What standard errors must be multiplied by so that 90 % intervals hold 90 % of what is known, each workload hidden in turn:
    /// with its family, before and after a first measurement, and without.
    fn calibrate(&mut self, evidence: &Evidence) {
        let mut ratios: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let mut left_out = Vec::new();
        let base = self.base;
        let some = described(evidence).into_iter().filter(|&t| cells_of(evidence, t, base).next().is_some());
        for workload in some.take(MOST_CELLS / 2) {
            let own: Vec<MeasuredCell> = cells_of(evidence, workload, base).collect();
            let around = around(evidence, workload, base, MOST_CELLS);
            let related = |k: &MeasuredCell| solo::related(evidence, k.workload, workload);
            let others = || around.iter().filter(|k| k.workload != workload).copied();
            let strangers: Vec<MeasuredCell> = others().filter(|k| !related(k)).collect();
            let measured_pairs: Vec<MeasuredCell> = strangers.iter().chain(own.first()).copied().collect();
            let home: Vec<MeasuredCell> = others().collect();
            let mut score = |known: &[MeasuredCell], group: usize| {
                let predictions = self.beliefs_from(evidence, workload, known);
                for cell in own.iter().filter(|c| !known.iter().any(|k| k.workload == workload && k.kind == c.kind)) {
                    let error = evidence.alone(workload, cell.kind) - predictions[cell.kind].ln;
                    let seen = known.iter().any(|k| k.workload == workload);
                    left_out.push(LeftOut { workload, kind: cell.kind, related: group == 1, seen, error });
                    if group == 0 || !seen {
                        ratios[group].push(error.abs() / (NINETY * predictions[cell.kind].standard_error));
                    }
                }
            };
            score(&strangers, 0);
            score(&measured_pairs, 0);
            if home.len() > strangers.len() {
                score(&home, 1);
                score(&home.iter().chain(own.first()).copied().collect::<Vec<_>>(), 1);
            }
        }
        self.left_out = left_out;
        for (group, mut ratios) in ratios.into_iter().enumerate() {
            ratios.sort_by(f64::total_cmp);
            // Few cells say little about a tail.
            if ratios.len() >= 20 {
                self.conformal[group] = ratios[(ratios.len() as f64 * LEVELS[group]) as usize].clamp(0.5, 3.0);
            }
        }
    }

    fn kernel(&self, evidence: &Evidence, one: &MeasuredCell, two: &MeasuredCell) -> f64 {
        let [c, c_kind, l_psi, p_psi, l_family, p_family, l_batch, p_batch, own, noise, tilt] = self.variances;
        let [psi, family, batch] = alike(evidence, one.workload, two.workload);
        let apart: f64 = self.specs[one.kind].iter().zip(&self.specs[two.kind]).map(|(a, b)| (a - b) * (a - b)).sum();
        let rho = (-apart).exp();
        let level = c + l_psi * psi + l_family * family + l_batch * batch;
        let profile = c_kind + p_psi * psi + p_family * family + p_batch * batch;
        let cell = if one.kind == two.kind { noise } else { 0.0 };
        let same = if one.workload == two.workload { own + cell } else { 0.0 };
        level + rho * profile + same + tilt * one.tilt * two.tilt
    }

    fn covariance(&self, evidence: &Evidence, known: &[MeasuredCell]) -> Vec<f64> {
        let n = known.len();
        let mut all = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                all[i * n + j] = self.kernel(evidence, &known[i], &known[j]);
            }
            // What a measurement may be wrong by is its own, and none of the cell's.
            all[i * n + i] += known[i].noise;
        }
        all
    }

    /// The variances under which what is known is most likely.
    fn tune(&mut self, evidence: &Evidence) {
        let blocks = blocks(evidence);
        if blocks.iter().map(Vec::len).sum::<usize>() < 12 {
            return;
        }
        let mut best = self.calibration(evidence, &blocks);
        for factor in [4.0, 4.0, 2.0, 1.5] {
            for v in 0..self.variances.len() {
                for by in [factor, 1.0 / factor] {
                    let before = self.variances[v];
                    self.variances[v] = (before * by).clamp(1e-4, 4.0);
                    let calibration = self.calibration(evidence, &blocks);
                    if calibration < best {
                        best = calibration;
                        break;
                    }
                    self.variances[v] = before;
                }
            }
        }
    }

    /// −2 ln likelihood, and a prior that keeps variances near where they began.
    fn calibration(&self, evidence: &Evidence, blocks: &[Vec<MeasuredCell>]) -> f64 {
        let prior: f64 = self.variances.iter().zip(&START).map(|(v, s)| (v / s).ln().powi(2) / 4.0).sum();
        let likelihood = blocks.iter().map(|known| {
            let factor = Factor::new(&self.covariance(evidence, known), known.len());
            let values: Vec<f64> = known.iter().map(|k| k.value).collect();
            factor.forward(&values).iter().map(|x| x * x).sum::<f64>() + 2.0 * factor.ln_determinant_half()
        });
        prior + likelihood.sum::<f64>()
    }
}

/// The rate of a workload without relatives, transferred between kinds by the mean profile of all others.
fn carried(evidence: &Evidence, workload: usize, kind: usize, known: &[MeasuredCell]) -> Option<f64> {
    let mean = |a: usize| {
        let others = known.iter().filter(|k| k.workload != workload && k.kind == a);
        crate::residual::moments(others.map(|k| evidence.alone(k.workload, a))).map(|(mean, _)| mean)
    };
    let own = known.iter().filter(|k| k.workload == workload);
    let to = mean(kind)?;
    let rates = own.filter_map(|k| Some(evidence.alone(workload, k.kind) + to - mean(k.kind)?));
    crate::residual::moments(rates).map(|(mean, _)| mean)
}

/// (nearness by Ψ, same family, nearness of batch in the family), each 0 to 1.
fn alike(evidence: &Evidence, one: usize, two: usize) -> [f64; 3] {
    if one == two {
        return [1.0; 3];
    }
    let (Some(a), Some(b)) = (&evidence.workloads()[one].psi, &evidence.workloads()[two].psi) else { return [0.0; 3] };
    let psi = (-0.5 * crate::features::distance2(a, b)).exp();
    if !solo::related(evidence, one, two) {
        return [psi, 0.0, 0.0];
    }
    let ln_batch = |t: usize| evidence.workloads()[t].features.as_ref().map_or(0.0, |w| f64::from(w.batch.max(1)).ln());
    let step = (ln_batch(one) - ln_batch(two)) / BATCH_LENGTH;
    [psi, 1.0, (-0.5 * step * step).exp()]
}

/// μ: how far above its mean over the first `kinds` the model sees a workload.
fn tilt(evidence: &Evidence, workload: usize, kind: usize, kinds: usize) -> f64 {
    let of = |a: usize| perf_model::alone(evidence, workload, a).unwrap_or(0.0);
    of(kind) - (0..kinds).map(of).sum::<f64>() / kinds as f64
}

/// What measured pairs say of a rate alone that nobody measured: together over what such a partner leaves on average, and the
/// variance of that.
fn from_pairs(evidence: &Evidence, workload: usize, kind: usize) -> Option<(f64, f64)> {
    if evidence.measured_pairs(workload) == 0 {
        return None;
    }
    let row = evidence.beside_row(workload, kind);
    let partners = row.iter().filter(|(_, ln)| ln.is_finite()).map(|(p, _)| p);
    let rate =
        |p: usize| evidence.beside(workload, p, kind) - mean::partner_mean(evidence, Role::Own, workload, p, kind).0;
    let (sum, count) = partners.map(rate).fold((0.0, 0.0), |(s, n), r| (s + r, n + 1.0));
    (count > 0.0).then(|| (sum / count, PAIR_SPREAD * PAIR_SPREAD * (0.5 + 0.5 / count)))
}

fn cells_of(evidence: &Evidence, workload: usize, base: usize) -> impl Iterator<Item = MeasuredCell> {
    (0..evidence.kinds().len()).filter_map(move |kind| {
        let alone = evidence.alone(workload, kind);
        let (ln, noise) = if alone.is_nan() { from_pairs(evidence, workload, kind)? } else { (alone, 0.0) };
        let value = ln - perf_model::alone(evidence, workload, kind).unwrap_or(0.0);
        let tilt = tilt(evidence, workload, kind, base);
        value.is_finite().then_some(MeasuredCell { workload, kind, value, tilt, noise })
    })
}

/// Measured cells of a workload and of those nearest to it.
fn around(evidence: &Evidence, workload: usize, base: usize, most: usize) -> Vec<MeasuredCell> {
    let neighbours = evidence.neighbours(workload).iter().map(|&(k, _)| k);
    let mut known: Vec<MeasuredCell> =
        std::iter::once(workload).chain(neighbours).flat_map(|t| cells_of(evidence, t, base)).take(most).collect();
    known.truncate(most);
    known
}

/// Workloads with features. Of others the model says nothing, so there is nothing to compare.
fn described(evidence: &Evidence) -> Vec<usize> {
    (0..evidence.workloads().len()).filter(|&t| evidence.workloads()[t].psi.is_some()).collect()
}

/// What the variances are tuned on: everything where that is little, else the surroundings of a few.
fn blocks(evidence: &Evidence) -> Vec<Vec<MeasuredCell>> {
    let described = described(evidence);
    let (n, base) = (described.len(), evidence.kinds().len());
    let cells = described.iter().flat_map(|&t| cells_of(evidence, t, base));
    let all: Vec<MeasuredCell> = cells.take(MOST_CELLS + 1).collect();
    if all.len() <= MOST_CELLS {
        return vec![all];
    }
    (0..4).map(|b| around(evidence, described[b * n / 4], base, MOST_CELLS)).collect()
}

/// Cholesky's factor of a covariance, its lower triangle given.
struct Factor {
    lower: Vec<f64>,
    n: usize,
}

impl Factor {
    fn new(covariance: &[f64], n: usize) -> Self {
        let mut lower = covariance.to_vec();
        for i in 0..n {
            for j in 0..=i {
                let (head, tail) = lower.split_at(i * n);
                let row_j = if j == i { &tail[..j] } else { &head[j * n..j * n + j] };
                let sum: f64 = tail[..j].iter().zip(row_j).map(|(a, b)| a * b).sum();
                let rest = tail[j] - sum;
                let value = if i == j { rest.max(1e-9).sqrt() } else { rest / head[j * n + j] };
                lower[i * n + j] = value;
            }
        }
        Self { lower, n }
    }

    /// L⁻¹ b.
    fn forward(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for i in 0..self.n {
            let row = &self.lower[i * self.n..i * self.n + i];
            let sum: f64 = row.iter().zip(&x).map(|(l, x)| l * x).sum();
            x[i] = (x[i] - sum) / self.lower[i * self.n + i];
        }
        x
    }

    /// (L Lᵀ)⁻¹ b.
    fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.forward(b);
        for i in (0..self.n).rev() {
            let sum: f64 = (i + 1..self.n).map(|k| self.lower[k * self.n + i] * x[k]).sum();
            x[i] = (x[i] - sum) / self.lower[i * self.n + i];
        }
        x
    }

    fn ln_determinant_half(&self) -> f64 {
        (0..self.n).map(|i| self.lower[i * self.n + i].ln()).sum()
    }
}
