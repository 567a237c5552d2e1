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
//! What is told is not the median e^mean but e^(mean − ½ variance), the variance averaged over kinds: of a rate known to a factor only, too high a guess is worse
//! than too low a one (the least expected relative error is at a whole variance below).
//!
//! A pair that was measured where the workload was not measured alone counts too, with the noise of what partners leave.
//!
//! A workload without measured relatives is carried over once more from where it was measured by the mean profile of all
//! others, without model or features, and the two are averaged: seven families are too few to tell which is better.
//!
//! The variances are those under which what is known is most likely, found by a search along one after the other. Only
//! the nearest workloads answer for one, at most [`MOST_CELLS`] cells, so that an observation costs the same in a large
//! catalog. Without features a workload is related to itself only.

use crate::catalog::MEASUREMENT_ERROR;
use crate::features::{Spec, spec};
use crate::ground::Ground;
use crate::method::Belief;
use crate::shift::Role;
use crate::{mean, modelled, solo};

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

/// What is believed of every subject alone.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    variances: Variances,
    /// What standard errors are multiplied by, without and with a relative known.
    conformal: [f64; 2],
    specs: Vec<Spec>,
    /// By (subject, kind).
    beliefs: Vec<Belief>,
}

/// A cell that was measured.
#[derive(Clone, Copy)]
struct Known {
    thing: usize,
    kind: usize,
    /// δ.
    value: f64,
    /// μ.
    tilt: f64,
    /// Variance of the measurement itself, where it is not one of the rate alone.
    noise: f64,
}

impl Alone {
    pub(super) fn new(ground: &Ground) -> Self {
        let specs = ground.kinds().iter().map(spec).collect();
        let mut alone = Self { variances: START, conformal: [1.0; 2], specs, beliefs: Vec::new() };
        alone.tune(ground);
        alone.calibrate(ground);
        alone.beliefs = (0..ground.subjects()).flat_map(|t| alone.beliefs_of(ground, t)).collect();
        alone
    }

    pub(super) fn belief(&self, thing: usize, kind: usize) -> Belief {
        let at = thing * self.specs.len() + kind;
        self.beliefs.get(at).copied().unwrap_or(Belief { ln: 0.0, standard_error: UNKNOWN, refined: false })
    }

    /// Something was measured of `thing`: it and its nearest are thought over.
    pub(super) fn refresh(&mut self, ground: &Ground, thing: usize) {
        const ECHO: usize = 2;
        let near = ground.near(thing).iter().map(|&(k, _)| k).filter(|&k| k < ground.subjects()).take(ECHO);
        for t in std::iter::once(thing).chain(near) {
            let kinds = self.specs.len();
            let beliefs = self.beliefs_of(ground, t);
            self.beliefs[t * kinds..(t + 1) * kinds].copy_from_slice(&beliefs);
        }
    }

    fn beliefs_of(&self, ground: &Ground, thing: usize) -> Vec<Belief> {
        let known = around(ground, thing, MOST_CELLS);
        if known.is_empty() {
            let modelled = |kind: usize| modelled::alone(ground, thing, kind);
            let belief = |ln: Option<f64>| {
                let standard_error = if ln.is_some() { modelled::ALONE_STANDARD_ERROR } else { UNKNOWN };
                Belief { ln: ln.unwrap_or(0.0), standard_error, refined: false }
            };
            return (0..self.specs.len()).map(|kind| belief(modelled(kind))).collect();
        }
        let at_home = known.iter().any(|k| solo::related(ground, k.thing, thing));
        let factor = self.conformal[usize::from(at_home)];
        let mut beliefs = self.beliefs_from(ground, thing, &known);
        for belief in &mut beliefs {
            belief.standard_error *= factor;
        }
        beliefs
    }

    /// What these cells say about a thing on every kind.
    fn beliefs_from(&self, ground: &Ground, thing: usize, known: &[Known]) -> Vec<Belief> {
        let refined = known.iter().any(|k| k.thing == thing);
        let stranger = !known.iter().any(|k| solo::related(ground, k.thing, thing));
        let factor = Factor::new(&self.covariance(ground, known), known.len());
        let values: Vec<f64> = known.iter().map(|k| k.value).collect();
        let weights = factor.solve(&values);
        let belief = |kind: usize| {
            let here = Known { thing, kind, value: 0.0, tilt: tilt(ground, thing, kind), noise: 0.0 };
            let across: Vec<f64> = known.iter().map(|k| self.kernel(ground, &here, k)).collect();
            let mean: f64 = across.iter().zip(&weights).map(|(c, w)| c * w).sum();
            let explained: f64 = factor.forward(&across).iter().map(|x| x * x).sum();
            let own = self.kernel(ground, &here, &here);
            let variance = (own - explained).max(MEASUREMENT_ERROR * MEASUREMENT_ERROR);
            let process = modelled::alone(ground, thing, kind).unwrap_or(0.0) + mean;
            let plain = if stranger { carried(ground, thing, kind, known) } else { None };
            let ln = plain.map_or(process, |plain| (process + plain) / 2.0);
            Belief { ln, standard_error: variance.sqrt(), refined }
        };
        let mut beliefs: Vec<Belief> = (0..self.specs.len()).map(belief).collect();
        // One shade for all kinds that were not measured: it must not tilt the profile.
        let open = (0..self.specs.len()).filter(|&a| !known.iter().any(|k| k.thing == thing && k.kind == a));
        let variance = crate::shift::moments(open.map(|a| beliefs[a].standard_error * beliefs[a].standard_error));
        for belief in &mut beliefs {
            belief.ln -= SHADE * variance.map_or(0.0, |(mean, _)| mean);
        }
        beliefs
    }

    /// What standard errors must be multiplied by so that 90 % intervals hold 90 % of what is known, each workload hidden in turn:
    /// with its family, before and after a first measurement, and without.
    fn calibrate(&mut self, ground: &Ground) {
        let mut ratios: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let some = (0..ground.things().len()).filter(|&t| cells_of(ground, t).next().is_some()).take(MOST_CELLS / 2);
        for thing in some {
            let own: Vec<Known> = cells_of(ground, thing).collect();
            let around = around(ground, thing, MOST_CELLS);
            let related = |k: &Known| solo::related(ground, k.thing, thing);
            let others = || around.iter().filter(|k| k.thing != thing).copied();
            let strangers: Vec<Known> = others().filter(|k| !related(k)).collect();
            let met: Vec<Known> = strangers.iter().chain(own.first()).copied().collect();
            let home: Vec<Known> = others().collect();
            let mut score = |known: &[Known], group: usize| {
                let beliefs = self.beliefs_from(ground, thing, known);
                for cell in own.iter().filter(|c| !known.iter().any(|k| k.thing == thing && k.kind == c.kind)) {
                    let truth = ground.alone(thing, cell.kind);
                    ratios[group]
                        .push((truth - beliefs[cell.kind].ln).abs() / (NINETY * beliefs[cell.kind].standard_error));
                }
            };
            score(&strangers, 0);
            score(&met, 0);
            if home.len() > strangers.len() {
                score(&home, 1);
            }
        }
        for (group, mut ratios) in ratios.into_iter().enumerate() {
            ratios.sort_by(f64::total_cmp);
            // Few cells say little about a tail.
            if ratios.len() >= 20 {
                self.conformal[group] = ratios[(ratios.len() as f64 * LEVELS[group]) as usize].clamp(0.5, 3.0);
            }
        }
    }

    fn kernel(&self, ground: &Ground, one: &Known, two: &Known) -> f64 {
        let [c, c_kind, l_psi, p_psi, l_family, p_family, l_batch, p_batch, own, noise, tilt] = self.variances;
        let [psi, family, batch] = alike(ground, one.thing, two.thing);
        let apart: f64 = self.specs[one.kind].iter().zip(&self.specs[two.kind]).map(|(a, b)| (a - b) * (a - b)).sum();
        let rho = (-apart).exp();
        let level = c + l_psi * psi + l_family * family + l_batch * batch;
        let profile = c_kind + p_psi * psi + p_family * family + p_batch * batch;
        let cell = if one.kind == two.kind { noise + one.noise.max(two.noise) } else { 0.0 };
        let same = if one.thing == two.thing { own + cell } else { 0.0 };
        level + rho * profile + same + tilt * one.tilt * two.tilt
    }

    fn covariance(&self, ground: &Ground, known: &[Known]) -> Vec<f64> {
        let n = known.len();
        let mut all = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                all[i * n + j] = self.kernel(ground, &known[i], &known[j]);
            }
        }
        all
    }

    /// The variances under which what is known is most likely.
    fn tune(&mut self, ground: &Ground) {
        let blocks = blocks(ground);
        if blocks.iter().map(Vec::len).sum::<usize>() < 12 {
            return;
        }
        let mut best = self.surprise(ground, &blocks);
        for factor in [4.0, 4.0, 2.0, 1.5] {
            for v in 0..self.variances.len() {
                for by in [factor, 1.0 / factor] {
                    let before = self.variances[v];
                    self.variances[v] = (before * by).clamp(1e-4, 4.0);
                    let surprise = self.surprise(ground, &blocks);
                    if surprise < best {
                        best = surprise;
                        break;
                    }
                    self.variances[v] = before;
                }
            }
        }
    }

    /// −2 ln likelihood, and a prior that keeps variances near where they began.
    fn surprise(&self, ground: &Ground, blocks: &[Vec<Known>]) -> f64 {
        let prior: f64 = self.variances.iter().zip(&START).map(|(v, s)| (v / s).ln().powi(2) / 4.0).sum();
        let likelihood = blocks.iter().map(|known| {
            let factor = Factor::new(&self.covariance(ground, known), known.len());
            let values: Vec<f64> = known.iter().map(|k| k.value).collect();
            factor.forward(&values).iter().map(|x| x * x).sum::<f64>() + 2.0 * factor.ln_determinant_half()
        });
        prior + likelihood.sum::<f64>()
    }
}

/// A stranger's rate as the mean profile of everybody else carries it over from where it was measured.
fn carried(ground: &Ground, thing: usize, kind: usize, known: &[Known]) -> Option<f64> {
    let mean = |a: usize| {
        let others = known.iter().filter(|k| k.thing != thing && k.kind == a);
        crate::shift::moments(others.map(|k| ground.alone(k.thing, a))).map(|(mean, _)| mean)
    };
    let own = known.iter().filter(|k| k.thing == thing);
    let to = mean(kind)?;
    let rates = own.filter_map(|k| Some(ground.alone(thing, k.kind) + to - mean(k.kind)?));
    crate::shift::moments(rates).map(|(mean, _)| mean)
}

/// (nearness by Ψ, same family, nearness of batch in the family), each 0 to 1.
fn alike(ground: &Ground, one: usize, two: usize) -> [f64; 3] {
    if one == two {
        return [1.0; 3];
    }
    let (Some(a), Some(b)) = (&ground.things()[one].psi, &ground.things()[two].psi) else { return [0.0; 3] };
    let psi = (-0.5 * crate::features::distance2(a, b)).exp();
    if !solo::related(ground, one, two) {
        return [psi, 0.0, 0.0];
    }
    let ln_batch = |t: usize| ground.things()[t].features.as_ref().map_or(0.0, |w| f64::from(w.batch.max(1)).ln());
    let step = (ln_batch(one) - ln_batch(two)) / BATCH_LENGTH;
    [psi, 1.0, (-0.5 * step * step).exp()]
}

/// μ: how far above its mean over kinds the model sees a thing.
fn tilt(ground: &Ground, thing: usize, kind: usize) -> f64 {
    let of = |a: usize| modelled::alone(ground, thing, a).unwrap_or(0.0);
    let kinds = ground.kinds().len();
    of(kind) - (0..kinds).map(of).sum::<f64>() / kinds as f64
}

/// What measured pairs say of a rate alone that nobody measured: together over what such a partner leaves on average, and the
/// variance of that.
fn from_pairs(ground: &Ground, thing: usize, kind: usize) -> Option<(f64, f64)> {
    if ground.met(thing) == 0 {
        return None;
    }
    let partners = (0..ground.things().len()).filter(|&p| ground.beside(thing, p, kind).is_finite());
    let rate = |p: usize| ground.beside(thing, p, kind) - mean::partner_mean(ground, Role::Own, thing, p, kind).0;
    let (sum, count) = partners.map(rate).fold((0.0, 0.0), |(s, n), r| (s + r, n + 1.0));
    (count > 0.0).then(|| (sum / count, PAIR_SPREAD * PAIR_SPREAD * (0.5 + 0.5 / count)))
}

fn cells_of(ground: &Ground, thing: usize) -> impl Iterator<Item = Known> {
    (0..ground.kinds().len()).filter_map(move |kind| {
        let alone = ground.alone(thing, kind);
        let (ln, noise) = if alone.is_nan() { from_pairs(ground, thing, kind)? } else { (alone, 0.0) };
        let value = ln - modelled::alone(ground, thing, kind).unwrap_or(0.0);
        value.is_finite().then(|| Known { thing, kind, value, tilt: tilt(ground, thing, kind), noise })
    })
}

/// Measured cells of a thing and of those nearest to it.
fn around(ground: &Ground, thing: usize, most: usize) -> Vec<Known> {
    let near = ground.near(thing).iter().map(|&(k, _)| k);
    let mut known: Vec<Known> =
        std::iter::once(thing).chain(near).flat_map(|t| cells_of(ground, t)).take(most).collect();
    known.truncate(most);
    known
}

/// What the variances are tuned on: everything where that is little, else the surroundings of a few.
fn blocks(ground: &Ground) -> Vec<Vec<Known>> {
    let n = ground.things().len();
    let all: Vec<Known> = (0..n).flat_map(|t| cells_of(ground, t)).take(MOST_CELLS + 1).collect();
    if all.len() <= MOST_CELLS {
        return vec![all];
    }
    (0..4).map(|b| around(ground, b * n / 4, MOST_CELLS)).collect()
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
