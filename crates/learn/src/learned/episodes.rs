//! Training data: every known workload is hidden in turn, alone or with its whole family, as if it were new.
//!
//! P1 must predict the cells of a hidden workload beside the workloads that are not hidden. Nothing about the hidden ones is in an
//! episode's evidence, so the residuals are unbiased: P2 and the standard error are trained on errors as they occur for new workloads.

use super::attention::slope;
use super::parameters::ROLES;
use crate::evidence::Evidence;
use crate::features::Psi;
use crate::residual::{Role, relative};
use crate::rng::Rng;
use crate::{perf_model, solo};

/// One cell of an episode.
pub(super) struct Target {
    pub(super) kind: usize,
    /// Index among the known.
    pub(super) partner: usize,
    /// ln T, and the model's.
    pub(super) truth: f64,
    pub(super) model: f64,
    /// Mean over the known of ln T and of the model's.
    pub(super) mean: [f64; 2],
    /// Trend in batch of both.
    pub(super) slope: [f64; 2],
}

/// A workload that is hidden, in one role.
pub(super) struct RoleExamples {
    pub(super) role: usize,
    /// Index among the known.
    pub(super) newcomer: usize,
    pub(super) targets: Vec<Target>,
    /// By target and known k: ln T less the mean, the model's less its mean, and whether the cell is there.
    pub(super) deviations: Vec<f32>,
    pub(super) model_deviations: Vec<f32>,
    pub(super) there: Vec<f32>,
}

/// An episode: both roles of a hidden workload.
pub(super) struct Episode {
    /// Whether another batch size of the same model is left.
    pub(super) family_known: bool,
    pub(super) by_role: [RoleExamples; ROLES],
}

/// Everything that training looks at.
pub(super) struct TrainingSet {
    /// Ψ of the known.
    pub(super) psi: Vec<Psi>,
    /// Whether two of them are of one family, by (k, k').
    pub(super) related: Vec<bool>,
    pub(super) episodes: Vec<Episode>,
}

/// At most so many workloads take part: beyond, more of them teach little and cost much.
const MOST: usize = 40;
/// What an episode needs to teach anything.
const LEAST_TARGETS: usize = 3;

const BOTH: [Role; ROLES] = [Role::Own, Role::Partner];

impl TrainingSet {
    /// All episodes that the measured pairs of a evidence allow.
    pub(super) fn new(evidence: &Evidence, seed: u64) -> Self {
        let known = chosen(evidence, seed);
        let n = known.len();
        let psi: Vec<Psi> = known.iter().filter_map(|&k| evidence.workloads()[k].psi).collect();
        let family = |a: usize, b: usize| a == b || solo::related(evidence, known[a], known[b]);
        let related: Vec<bool> = (0..n * n).map(|at| family(at / n, at % n)).collect();
        let values = Values::new(evidence, &known);
        let mut episodes = Vec::new();
        for i in 0..n {
            let alone: Vec<bool> = (0..n).map(|k| k == i).collect();
            let family: Vec<bool> = (0..n).map(|k| related[i * n + k]).collect();
            for hidden in [alone, family] {
                let by_role = [0, 1].map(|r| values.examples(evidence, &known, i, r, &hidden, &related));
                if by_role.iter().all(|s| s.targets.len() >= LEAST_TARGETS) {
                    let family_known = (0..n).any(|k| related[i * n + k] && !hidden[k]);
                    episodes.push(Episode { family_known, by_role });
                }
            }
        }
        Self { psi, related, episodes }
    }
}

/// Workloads with features and measured pairs; whole families where there are too many.
fn chosen(evidence: &Evidence, seed: u64) -> Vec<usize> {
    let usable = |k: &usize| evidence.workloads()[*k].psi.is_some() && evidence.measured_pairs(*k) > 0;
    let all: Vec<usize> = (0..evidence.workloads().len()).filter(usable).collect();
    if all.len() <= MOST {
        return all;
    }
    let family = |k: usize| evidence.workloads()[k].features.as_ref().map_or("", |w| w.family.as_str());
    let mut families: Vec<&str> = all.iter().map(|&k| family(k)).collect();
    families.sort_unstable();
    families.dedup();
    Rng::new(seed, "school").shuffle(&mut families);
    let mut some: Vec<usize> = Vec::new();
    for name in families {
        some.extend(all.iter().copied().filter(|&k| family(k) == name));
        if some.len() >= MOST {
            break;
        }
    }
    some.truncate(MOST);
    some.sort_unstable();
    some
}

/// ln T and the model's of all known pairs, by (role, kind, partner, newcomer).
struct Values {
    n: usize,
    kinds: usize,
    truth: Vec<f64>,
    model: Vec<f64>,
}

impl Values {
    fn new(evidence: &Evidence, known: &[usize]) -> Self {
        let (n, kinds) = (known.len(), evidence.kinds().len());
        let mut values = Self { n, kinds, truth: Vec::new(), model: Vec::new() };
        for role in BOTH {
            for a in 0..kinds {
                for &j in known {
                    for &k in known {
                        values.truth.push(relative(evidence, role, k, j, a));
                        let (one, two) = if role == Role::Own { (k, j) } else { (j, k) };
                        values.model.push(perf_model::beside(evidence, one, two, a).unwrap_or(0.0));
                    }
                }
            }
        }
        values
    }

    fn examples(
        &self,
        evidence: &Evidence,
        known: &[usize],
        i: usize,
        role: usize,
        hidden: &[bool],
        related: &[bool],
    ) -> RoleExamples {
        let n = self.n;
        let mut examples = RoleExamples {
            role,
            newcomer: i,
            targets: Vec::new(),
            deviations: Vec::new(),
            model_deviations: Vec::new(),
            there: Vec::new(),
        };
        let ln_batch =
            |k: usize| evidence.workloads()[known[k]].features.as_ref().map_or(0.0, |w| f64::from(w.batch.max(1)).ln());
        for a in 0..self.kinds {
            for j in (0..n).filter(|&j| !hidden[j]) {
                let at = ((role * self.kinds + a) * n + j) * n;
                let (truths, models) = (&self.truth[at..at + n], &self.model[at..at + n]);
                let here: Vec<usize> = (0..n).filter(|&k| !hidden[k] && truths[k].is_finite()).collect();
                if !truths[i].is_finite() || here.len() < 2 {
                    continue;
                }
                let mean = [truths, models].map(|z| here.iter().map(|&k| z[k]).sum::<f64>() / here.len() as f64);
                let family = here.iter().copied().filter(|&k| related[i * n + k]);
                let slope = [truths, models].map(|z| slope(family.clone().map(|k| (ln_batch(k) - ln_batch(i), z[k]))));
                let (truth, model) = (truths[i], models[i]);
                examples.targets.push(Target { kind: a, partner: j, truth, model, mean, slope });
                let present = |k: usize| !hidden[k] && truths[k].is_finite();
                let of = |z: &[f64], mean: f64, k: usize| if present(k) { (z[k] - mean) as f32 } else { 0.0 };
                examples.deviations.extend((0..n).map(|k| of(truths, mean[0], k)));
                examples.model_deviations.extend((0..n).map(|k| of(models, mean[1], k)));
                examples.there.extend((0..n).map(|k| f32::from(present(k))));
            }
        }
        examples
    }
}
