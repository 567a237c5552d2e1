//! Training: P1, then P2 on P1's out-of-sample residuals, then the standard error on the remaining errors; each by Adam on the full batch.
//!
//! ```text
//! P1, P2:          Σ Huber_δ(ln T̂ − ln T) / cells + shrinkage          δ = 0.3
//! standard error:  Σ (|ln T̂ − ln T|/β + ln 2β) / cells                 Laplace, β = sd/√2
//!                  ln sd = σ_ar − ½ b_r·ln(λ + Σw) − ½ ln(1 + e_r·Σg)
//! ```
//!
//! then one conformal factor: 90 % of all training errors lie within 1.645 of it times sd. Gradients are written by hand;
//! the tests hold them against finite differences.

use super::attention::likeness;
use super::correction::{etas, nearness, transfers};
use super::episodes::{Episode, RoleExamples, TrainingSet};
use super::parameters::{Parameters, PerKind, PerRole, ROLES};
use crate::features::{PSI, Spec};
use crate::rng::Rng;

/// δ: errors beyond this count linearly.
const HUBER: f64 = 0.3;
/// A 90 % interval is so many standard errors wide, to either side.
const NINETY: f64 = 1.645;
/// The standard error of a relative rate never falls below this.
pub(super) const LEAST_SD: f64 = 0.02;
/// A family that training has seen hidden is still better known than one that is really new; a little more for that.
const STRANGER_LEVEL: f64 = 0.94;
/// θ and η are held this strongly to where they began: few families cannot say which dimension matters.
const HOLD: f64 = 1e-3;

/// What came of training.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct TrainingSummary {
    /// Episodes looked at in every step.
    pub episodes: usize,
    /// Steps of Adam, all stages together.
    pub steps: usize,
    /// Mean Huber loss of P1 at the end.
    pub loss: f64,
    /// Whether it was the model's world that they were trained on, for want of measurements.
    pub prior: bool,
}

/// What P1 leaves of an episode's scene, by target: ln T − ln T̂, and Σ w.
pub(super) struct Residuals {
    residual: Vec<f64>,
    likeness: Vec<f64>,
}

/// Observations of an episode: (kind, partner) with the residual in both roles.
type Draws = Vec<Vec<(usize, usize, [f64; ROLES])>>;

/// Trains all numbers, or all but those of v (`hold_model`); `progress` is told which part is done.
pub(super) fn train(
    mut params: Parameters,
    data: &TrainingSet,
    specs: &[Spec],
    seed: u64,
    hold_model: bool,
    progress: &dyn Fn(f64),
) -> (Parameters, TrainingSummary) {
    let steps = [STEPS_FIRST, STEPS_SECOND, STEPS_SD];
    if data.episodes.is_empty() {
        return (params, TrainingSummary::default());
    }
    for target in data.episodes.iter().flat_map(|e| &e.by_role).flat_map(|s| &s.targets) {
        params.seen[target.kind] = true;
    }
    let mut random = Rng::new(seed, "observations");
    let mut loss = 0.0;
    let mut adam = Adam::new(&params);
    for step in 0..steps[0] {
        let (value, mut gradient) = first(&params, data);
        loss = value;
        if hold_model {
            params.of_model().for_each(|i| gradient[i] = 0.0);
        }
        adam.step(&mut params, &gradient, step, steps[0]);
        progress(0.7 * step as f64 / steps[0] as f64);
    }
    let left = leave(&params, data);
    let mut adam = Adam::new(&params);
    for step in 0..steps[1] {
        let draws = observe(data, &left, &mut random);
        let (_, gradient) = second(&params, data, &left, &draws, specs);
        adam.step(&mut params, &gradient, step, steps[1]);
        progress(0.7 + 0.2 * step as f64 / steps[1] as f64);
    }
    // The standard error sees half of the episodes before anything was observed.
    let draws: Vec<Draws> =
        (0..4).map(|d| if d < 2 { none(data) } else { observe(data, &left, &mut random) }).collect();
    let errors: Vec<Vec<Error>> = draws.iter().map(|d| errors(&params, data, &left, d, specs)).collect();
    let errors: Vec<Error> = errors.concat();
    let mut adam = Adam::new(&params);
    for step in 0..steps[2] {
        let (_, gradient) = sd_loss(&params, &errors);
        adam.step(&mut params, &gradient, step, steps[2]);
    }
    params.conformal = conformal(&params, &errors);
    progress(1.0);
    let trained = TrainingSummary { episodes: data.episodes.len(), steps: steps.iter().sum(), loss, prior: false };
    (params, trained)
}

const STEPS_FIRST: usize = 200;
const STEPS_SECOND: usize = 120;
const STEPS_SD: usize = 150;

/// Adam with a rate that falls to nothing.
struct Adam {
    mean: Vec<f64>,
    square: Vec<f64>,
}

impl Adam {
    fn new(params: &Parameters) -> Self {
        Self { mean: vec![0.0; params.len()], square: vec![0.0; params.len()] }
    }

    fn step(&mut self, params: &mut Parameters, gradient: &[f64], step: usize, steps: usize) {
        const RATE: f64 = 0.05;
        let rate = RATE * 0.5 * (1.0 + (std::f64::consts::PI * step as f64 / steps as f64).cos());
        let (one, two) = (1.0 - 0.9f64.powi(step as i32 + 1), 1.0 - 0.99f64.powi(step as i32 + 1));
        for (i, g) in gradient.iter().enumerate() {
            self.mean[i] = 0.9 * self.mean[i] + 0.1 * g;
            self.square[i] = 0.99 * self.square[i] + 0.01 * g * g;
            params.flat[i] -= rate * (self.mean[i] / one) / ((self.square[i] / two).sqrt() + 1e-8);
        }
    }
}

/// Huber's loss and its slope.
fn huber(x: f64) -> (f64, f64) {
    if x.abs() <= HUBER { (0.5 * x * x, x) } else { (HUBER * (x.abs() - 0.5 * HUBER), HUBER * x.signum()) }
}

fn cells(data: &TrainingSet) -> f64 {
    data.episodes.iter().flat_map(|e| &e.by_role).map(|s| s.targets.len()).sum::<usize>() as f64
}

/// w_k of a scene: nothing of what is hidden is ever *there*, so it may have a weight.
fn weights(params: &Parameters, data: &TrainingSet, examples: &RoleExamples) -> Vec<f64> {
    let (n, i) = (data.psi.len(), examples.newcomer);
    let ln = |k: usize| likeness(params, examples.role, &data.psi[i], &data.psi[k], data.related[i * n + k]);
    (0..n).map(|k| ln(k).exp()).collect()
}

/// The parts of one prediction.
struct Parts {
    /// att of ln T − v·model, and of the model's alone.
    att: [f64; 2],
    likeness: f64,
    value: f64,
}

/// The numbers of a scene that do not change from target to target.
struct Frame {
    weights: Vec<f64>,
    need: f64,
    /// s, t, v by kind.
    per_kind: Vec<[f64; 3]>,
}

impl Frame {
    fn new(params: &Parameters, data: &TrainingSet, examples: &RoleExamples) -> Self {
        let of = |f: PerKind, a: usize| params.of_kind(examples.role, f, a);
        let per_kind = (0..params.kinds.len())
            .map(|a| [of(PerKind::Attention, a), of(PerKind::Slope, a), of(PerKind::Model, a)])
            .collect();
        let need = params.get(examples.role, PerRole::Need).exp();
        Self { weights: weights(params, data, examples), need, per_kind }
    }

    fn predict(&self, examples: &RoleExamples, c: usize) -> Parts {
        let n = self.weights.len();
        let target = &examples.targets[c];
        let [s, t, v] = self.per_kind[target.kind];
        let (mut truth, mut model, mut likeness) = (0.0, 0.0, 0.0);
        for k in 0..n {
            let w = self.weights[k];
            truth += w * f64::from(examples.deviations[c * n + k]);
            model += w * f64::from(examples.model_deviations[c * n + k]);
            likeness += w * f64::from(examples.there[c * n + k]);
        }
        let att_model = model / (self.need + likeness);
        let att = truth / (self.need + likeness) - v * att_model;
        let value = target.mean[0] - v * target.mean[1]
            + s * att
            + t * (target.slope[0] - v * target.slope[1])
            + v * target.model;
        Parts { att: [att, att_model], likeness, value }
    }
}

/// P1's loss and gradient.
pub(super) fn first(params: &Parameters, data: &TrainingSet) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; params.len()];
    let mut loss = 0.0;
    let scale = 1.0 / cells(data);
    for examples in data.episodes.iter().flat_map(|e| &e.by_role) {
        loss += first_role(params, data, examples, scale, &mut gradient);
    }
    loss += shrink(params, &mut gradient);
    (loss, gradient)
}

fn first_role(
    params: &Parameters,
    data: &TrainingSet,
    examples: &RoleExamples,
    scale: f64,
    gradient: &mut [f64],
) -> f64 {
    let (n, r) = (data.psi.len(), examples.role);
    let frame = Frame::new(params, data, examples);
    let (mut loss, mut by_weight, mut by_need) = (0.0, vec![0.0; n], 0.0);
    for (c, target) in examples.targets.iter().enumerate() {
        let parts = frame.predict(examples, c);
        let [s, t, v] = frame.per_kind[target.kind];
        // Beyond 1 a rate is cut, but the way back stays open.
        let (value, slope) = huber(parts.value.min(0.0) - target.truth);
        loss += scale * value;
        let g = scale * slope;
        let trend = target.slope[0] - v * target.slope[1];
        let model = target.model - target.mean[1] - s * parts.att[1] - t * target.slope[1];
        params.push(gradient, r, PerKind::Attention, target.kind, g * parts.att[0]);
        params.push(gradient, r, PerKind::Slope, target.kind, g * trend);
        params.push(gradient, r, PerKind::Model, target.kind, g * model);
        let per = g * s / (frame.need + parts.likeness);
        by_need -= per * parts.att[0];
        let row = c * n..(c + 1) * n;
        let cells = examples.deviations[row.clone()]
            .iter()
            .zip(&examples.model_deviations[row.clone()])
            .zip(&examples.there[row]);
        for (sum, ((y, m), there)) in by_weight.iter_mut().zip(cells) {
            *sum += per * (f64::from(*y) - v * f64::from(*m) - parts.att[0] * f64::from(*there));
        }
    }
    gradient[params.index(r, PerRole::Need)] += by_need * frame.need;
    for k in 0..n {
        let by_ln = by_weight[k] * frame.weights[k];
        if data.related[examples.newcomer * n + k] {
            gradient[params.index(r, PerRole::Family)] += by_ln;
        }
        for d in 0..PSI {
            let gap = data.psi[examples.newcomer][d] - data.psi[k][d];
            gradient[params.index(r, PerRole::Theta(d))] -= by_ln * params.get(r, PerRole::Theta(d)).exp() * gap * gap;
        }
    }
    loss
}

/// What tells kinds apart is shrunk; θ and η are held to their start.
fn shrink(params: &Parameters, gradient: &mut [f64]) -> f64 {
    let mut loss = 0.0;
    for (i, strength) in params.shrunk() {
        loss += strength * params.flat[i] * params.flat[i];
        gradient[i] += 2.0 * strength * params.flat[i];
    }
    for r in 0..ROLES {
        for d in 0..PSI {
            for (plain, start) in [(PerRole::Theta(d), 0.5f64.ln()), (PerRole::Eta(d), 0.3f64.ln())] {
                let away = params.get(r, plain) - start;
                loss += HOLD * away * away;
                gradient[params.index(r, plain)] += 2.0 * HOLD * away;
            }
        }
    }
    loss
}

/// P1's residuals: what P2 and the standard error are trained on.
pub(super) fn leave(params: &Parameters, data: &TrainingSet) -> Vec<[Residuals; ROLES]> {
    let of = |examples: &RoleExamples| {
        let frame = Frame::new(params, data, examples);
        let parts: Vec<Parts> = (0..examples.targets.len()).map(|c| frame.predict(examples, c)).collect();
        let residual = parts.iter().zip(&examples.targets).map(|(p, t)| t.truth - p.value.min(0.0)).collect();
        Residuals { residual, likeness: parts.iter().map(|p| p.likeness).collect() }
    };
    data.episodes.iter().map(|e| [of(&e.by_role[0]), of(&e.by_role[1])]).collect()
}

/// The residual of (kind, partner) in a role, if it is a target there.
fn residual(episode: &Episode, left: &[Residuals; ROLES], role: usize, kind: usize, partner: usize) -> Option<f64> {
    let at = episode.by_role[role].targets.iter().position(|t| t.kind == kind && t.partner == partner)?;
    Some(left[role].residual[at])
}

fn none(data: &TrainingSet) -> Draws {
    data.episodes.iter().map(|_| Vec::new()).collect()
}

/// One to four random pairs of every hidden workload, on one kind or two.
pub(super) fn observe(data: &TrainingSet, left: &[[Residuals; ROLES]], random: &mut Rng) -> Draws {
    let draw = |(episode, left): (&Episode, &[Residuals; ROLES])| {
        let targets = &episode.by_role[0].targets;
        let kinds = [targets[random.below(targets.len())].kind, targets[random.below(targets.len())].kind];
        let count = 1 + random.below(4);
        let mut seen: Vec<(usize, usize, [f64; ROLES])> = Vec::new();
        for o in 0..count {
            let kind = kinds[o % (1 + random.below(2))];
            let here: Vec<usize> = targets.iter().filter(|t| t.kind == kind).map(|t| t.partner).collect();
            let partner = here[random.below(here.len())];
            let own = residual(episode, left, 0, kind, partner);
            let other = residual(episode, left, 1, kind, partner);
            if let (Some(own), Some(other)) = (own, other)
                && !seen.iter().any(|s| (s.0, s.1) == (kind, partner))
            {
                seen.push((kind, partner, [own, other]));
            }
        }
        seen
    };
    data.episodes.iter().zip(left).map(draw).collect()
}

/// exp(−Σ η (Ψ_p − Ψ_j)²) of all known, by (p, j).
fn nearnesses(params: &Parameters, data: &TrainingSet, role: usize) -> Vec<f64> {
    let (eta, n) = (etas(params, role), data.psi.len());
    (0..n * n).map(|at| nearness(&eta, &data.psi[at / n], &data.psi[at % n])).collect()
}

/// P2's loss and gradient.
pub(super) fn second(
    params: &Parameters,
    data: &TrainingSet,
    left: &[[Residuals; ROLES]],
    draws: &Draws,
    specs: &[Spec],
) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; params.len()];
    let (mut loss, scale, n) = (0.0, 1.0 / cells(data), data.psi.len());
    for r in 0..ROLES {
        let neighbours = nearnesses(params, data, r);
        let mut by_near = vec![0.0; n * n];
        let cross = params.get(r, PerRole::Cross);
        for ((episode, left), seen) in data.episodes.iter().zip(left).zip(draws) {
            for (target, rho) in episode.by_role[r].targets.iter().zip(&left[r].residual) {
                if seen.iter().any(|s| (s.0, s.1) == (target.kind, target.partner)) {
                    continue;
                }
                let pass = |o: &(usize, usize, [f64; ROLES])| {
                    let same = o.0 == target.kind;
                    let [k, k0] = transfers(params, r, &specs[o.0], &specs[target.kind], same);
                    (k, k0, o.1 * n + target.partner, o.2[r] + cross * o.2[1 - r], o.2[1 - r])
                };
                let observed: Vec<_> = seen.iter().map(pass).collect();
                let gains: f64 = observed.iter().map(|h| h.0.value * neighbours[h.2] + h.1.value).sum();
                let sum: f64 = observed.iter().map(|h| (h.0.value * neighbours[h.2] + h.1.value) * h.3).sum();
                let moved = sum / (1.0 + gains);
                let (value, slope) = huber(moved - rho);
                loss += scale * value;
                for (k, k0, at, residual, other) in observed {
                    let by_gain = scale * slope * (residual - moved) / (1.0 + gains);
                    by_near[at] += by_gain * k.value;
                    let gain = k.value * neighbours[at] + k0.value;
                    gradient[params.index(r, PerRole::Cross)] += scale * slope * gain / (1.0 + gains) * other;
                    let shares = [
                        (PerRole::Gain, k.slopes[0] * neighbours[at]),
                        (PerRole::Elsewhere, k.slopes[1] * neighbours[at]),
                    ];
                    let more = [(PerRole::Apart, k.slopes[2] * neighbours[at]), (PerRole::Shared, k0.slopes[0])];
                    let rest = [(PerRole::SharedElsewhere, k0.slopes[1]), (PerRole::SharedApart, k0.slopes[2])];
                    for (plain, by) in shares.into_iter().chain(more).chain(rest) {
                        gradient[params.index(r, plain)] += by_gain * by;
                    }
                }
            }
        }
        for at in 0..n * n {
            let by_ln = by_near[at] * neighbours[at];
            for d in 0..PSI {
                let gap = data.psi[at / n][d] - data.psi[at % n][d];
                gradient[params.index(r, PerRole::Eta(d))] -= by_ln * params.get(r, PerRole::Eta(d)).exp() * gap * gap;
            }
        }
    }
    loss += shrink(params, &mut gradient);
    (loss, gradient)
}

/// What is left of a cell after both networks, and what its standard error may depend on.
#[derive(Clone, Copy)]
pub(super) struct Error {
    role: usize,
    kind: usize,
    size: f64,
    /// ½ ln(λ + Σw).
    likeness: f64,
    /// Σ g.
    gains: f64,
    /// Whether a relative was known.
    family_known: bool,
}

pub(super) fn errors(
    params: &Parameters,
    data: &TrainingSet,
    left: &[[Residuals; ROLES]],
    draws: &Draws,
    specs: &[Spec],
) -> Vec<Error> {
    let mut errors = Vec::new();
    let n = data.psi.len();
    for r in 0..ROLES {
        let neighbours = nearnesses(params, data, r);
        let (cross, need) = (params.get(r, PerRole::Cross), params.get(r, PerRole::Need).exp());
        for ((episode, left), seen) in data.episodes.iter().zip(left).zip(draws) {
            for (c, target) in episode.by_role[r].targets.iter().enumerate() {
                if seen.iter().any(|s| (s.0, s.1) == (target.kind, target.partner)) {
                    continue;
                }
                let observed = seen.iter().map(|o| {
                    let [k, k0] = transfers(params, r, &specs[o.0], &specs[target.kind], o.0 == target.kind);
                    let gain = k.value * neighbours[o.1 * n + target.partner] + k0.value;
                    super::correction::ObservedResidual { gain, residual: o.2[r] + cross * o.2[1 - r] }
                });
                let (moved, gains) = super::correction::correction(observed);
                let size = (left[r].residual[c] - moved).abs();
                let likeness = 0.5 * (need + left[r].likeness[c]).ln();
                errors.push(Error {
                    role: r,
                    kind: target.kind,
                    size,
                    likeness,
                    gains,
                    family_known: episode.family_known,
                });
            }
        }
    }
    errors
}

/// ln sd of a cell.
pub(super) fn ln_sd(sigma: f64, likeness_weight: f64, likeness: f64, observed: f64, gains: f64) -> f64 {
    sigma - likeness_weight * likeness - 0.5 * (1.0 + observed * gains).ln()
}

/// The standard error's loss (Laplace) and gradient.
pub(super) fn sd_loss(params: &Parameters, errors: &[Error]) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; params.len()];
    let (mut loss, scale) = (0.0, 1.0 / errors.len().max(1) as f64);
    for e in errors {
        let (b, observed) = (params.get(e.role, PerRole::Likeness), params.get(e.role, PerRole::Observed).exp());
        let sigma = params.of_kind(e.role, PerKind::StandardError, e.kind);
        let ln = ln_sd(sigma, b, e.likeness, observed, e.gains);
        let beta = ln.exp() / 2f64.sqrt();
        loss += scale * (e.size / beta + (2.0 * beta).ln());
        let by_ln = scale * (1.0 - e.size / beta);
        params.push(&mut gradient, e.role, PerKind::StandardError, e.kind, by_ln);
        gradient[params.index(e.role, PerRole::Likeness)] -= by_ln * e.likeness;
        gradient[params.index(e.role, PerRole::Observed)] -=
            by_ln * 0.5 * observed * e.gains / (1.0 + observed * e.gains);
    }
    loss += shrink(params, &mut gradient);
    (loss, gradient)
}

/// What sd must be multiplied by so that 90 % of the errors lie within 1.645 of it, without and with a relative known.
fn conformal(params: &Parameters, errors: &[Error]) -> [f64; 2] {
    [(false, STRANGER_LEVEL), (true, 0.9)].map(|(family_known, level)| {
        let group = errors.iter().filter(|e| e.family_known == family_known);
        let ratio = |e: &Error| {
            let (b, observed) = (params.get(e.role, PerRole::Likeness), params.get(e.role, PerRole::Observed).exp());
            let ln = ln_sd(params.of_kind(e.role, PerKind::StandardError, e.kind), b, e.likeness, observed, e.gains);
            e.size / (NINETY * ln.exp().max(LEAST_SD))
        };
        let mut ratios: Vec<f64> = group.map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let at = (ratios.len() as f64 * level).ceil() as usize;
        ratios.get(at.saturating_sub(1)).copied().unwrap_or(1.0).clamp(0.3, 3.0)
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::evaluate::tests_small;
    use super::*;
    use crate::evidence::Evidence;
    use crate::table::Setting;

    fn data() -> (TrainingSet, Parameters, Vec<Spec>) {
        let (catalog, kinds) = tests_small();
        let setting = Setting { kinds: &kinds, workloads: &[], catalog: &catalog, seed: 1, progress: &|_| {} };
        let evidence = Evidence::new(&setting);
        let specs = kinds.iter().map(crate::features::spec).collect();
        (TrainingSet::new(&evidence, 1), Parameters::start(&kinds, 0.2), specs)
    }

    fn close(name: &str, params: &Parameters, loss: impl Fn(&Parameters) -> (f64, Vec<f64>)) {
        let (_, gradient) = loss(params);
        for i in 0..params.len() {
            let at = |h: f64| {
                let mut moved = params.clone();
                moved.flat[i] += h;
                loss(&moved).0
            };
            let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
            let error = (difference - gradient[i]).abs();
            assert!(error < 1e-6 + 1e-3 * difference.abs(), "{name} {i}: {difference} against {}", gradient[i]);
        }
    }

    #[test]
    fn gradients_are_what_finite_differences_say() {
        let (data, mut params, specs) = data();
        assert!(!data.episodes.is_empty());
        for (i, x) in params.flat.iter_mut().enumerate() {
            *x += 0.05 * ((i * 7919 % 13) as f64 - 6.0) / 6.0;
        }
        close("first", &params, |n| first(n, &data));
        let left = leave(&params, &data);
        let draws = observe(&data, &left, &mut Rng::new(3, "test"));
        close("second", &params, |n| second(n, &data, &left, &draws, &specs));
        let errors = errors(&params, &data, &left, &draws, &specs);
        close("standard error", &params, |n| sd_loss(n, &errors));
    }
}
