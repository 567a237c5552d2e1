//! Power: what the model says, corrected by what was measured of that workload and of those like it.
//!
//! ```text
//! watts = idle + (model − idle)·e^c,    c = Σ w_o·ρ_o / (1 + Σ w_o),    ρ = ln (measured − idle)/(model − idle)
//! ```
//!
//! over measured single runs o: weight 8 for the workload itself on the same kind, ½ on another, and e^(−2·distance²) times
//! ¼ for like ones on the same kind. The 1 below the line is the model's own weight. Clamped to what the kind can draw.

use crate::evidence::Evidence;
use arles_core::{Spread, model};

/// Where nothing is known of a workload: this part of the power range.
const UNKNOWN_ACTIVITY: f64 = 0.7;
/// What was measured of the workload on this very kind is nearly all there is to know.
const SELF_HERE: f64 = 8.0;
const SELF_ELSEWHERE: f64 = 0.5;
const LIKE: f64 = 0.25;
const ALIKE: usize = 8;

/// Of one GPU of a gang.
pub(crate) fn alone(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> f64 {
    let active = modelled_alone(evidence, workload, kind, gang);
    scaled(evidence, kind, active, correction(evidence, workload, kind))
}

/// Of one GPU with two jobs on it.
pub(crate) fn beside(evidence: &Evidence, workload: usize, other: usize, kind: usize) -> f64 {
    let features = |t: usize| evidence.workloads()[t].features.as_ref();
    let spec = evidence.without_memory_limit(kind);
    let active = match (features(workload), features(other)) {
        (Some(w), Some(partner)) => model::beside(w, partner, spec).map(|t| t.watts - spec.idle_watts),
        _ => None,
    };
    let active = active.unwrap_or_else(|| unknown(evidence, kind));
    scaled(evidence, kind, active, (correction(evidence, workload, kind) + correction(evidence, other, kind)) / 2.0)
}

fn unknown(evidence: &Evidence, kind: usize) -> f64 {
    let spec = &evidence.kinds()[kind];
    UNKNOWN_ACTIVITY * (spec.max_watts - spec.idle_watts)
}

fn modelled_alone(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> f64 {
    let spec = evidence.without_memory_limit(kind);
    let modelled =
        evidence.workloads()[workload].features.as_ref().and_then(|w| model::alone(w, spec, gang, Spread::Packed));
    modelled.map_or_else(|| unknown(evidence, kind), |p| p.watts - spec.idle_watts)
}

fn scaled(evidence: &Evidence, kind: usize, active: f64, c: f64) -> f64 {
    let spec = &evidence.kinds()[kind];
    (spec.idle_watts + active * c.exp()).clamp(spec.idle_watts, spec.max_watts)
}

fn correction(evidence: &Evidence, workload: usize, kind: usize) -> f64 {
    let residual = |t: usize, a: usize| {
        let active = evidence.alone_watts(t, a) - evidence.kinds()[a].idle_watts;
        if active.is_nan() || active <= 0.0 {
            return None;
        }
        let modelled = modelled_alone(evidence, t, a, 1);
        (modelled > 0.0).then(|| (active / modelled).ln().clamp(-1.5, 1.5))
    };
    let (mut sum, mut weights) = (0.0, 1.0);
    let mut take = |w: f64, rho: Option<f64>| {
        if let Some(rho) = rho {
            sum += w * rho;
            weights += w;
        }
    };
    for a in 0..evidence.kinds().len() {
        take(if a == kind { SELF_HERE } else { SELF_ELSEWHERE }, residual(workload, a));
    }
    for &(k, d2) in evidence.neighbours(workload).iter().take(ALIKE) {
        take(LIKE * (-2.0 * d2).exp(), residual(k, kind));
    }
    sum / weights
}
