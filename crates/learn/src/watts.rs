//! Power: what the model says, corrected by what was measured of that workload and of those like it.
//!
//! ```text
//! watts = idle + (model − idle)·e^c,    c = Σ w_o·ρ_o / (1 + Σ w_o),    ρ = ln (measured − idle)/(model − idle)
//! ```
//!
//! over measured single runs o: weight 8 for the workload itself on the same kind, 4 under another power limit, ½ on another kind, and e^(−2·distance²) times
//! ¼ for like ones on the same kind. The 1 below the line is the model's own weight. Clamped to what the kind can draw.
//!
//! *Two without features* draw above idle what each draws alone times the part of its rate that it keeps (a step takes the same energy), and no less than the hungrier alone. Of 132 such
//! cells on an H200 that is 1.4 % off in the median with the measured rates, and 1.7 with those that counters tell; what both draw alone added up is 1.7, but 5.2 instead of 3.7 in the mean.

use crate::evidence::Evidence;
use crate::power_limit;
use arles_core::{Spread, model};

/// Where nothing is known of a workload: this part of the power range.
const UNKNOWN_ACTIVITY: f64 = 0.7;
/// What was measured of the workload on this very kind is nearly all there is to know.
const SELF_HERE: f64 = 8.0;
/// The same product under another limit.
const SELF_LIMITED: f64 = 4.0;
/// The most that two draw, of the range between idle and limit.
const BUSY: f64 = 0.97;
const SELF_ELSEWHERE: f64 = 0.5;
const LIKE: f64 = 0.25;
const ALIKE: usize = 8;

/// Of one GPU of a gang.
pub(crate) fn alone(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> f64 {
    let active = modelled_alone(evidence, workload, kind, gang);
    scaled(evidence, kind, active, correction(evidence, workload, kind))
}

/// Of one GPU with two jobs on it that keep these parts of their rates.
pub(crate) fn beside(evidence: &Evidence, workload: usize, other: usize, kind: usize, kept: [f64; 2]) -> f64 {
    let features = |t: usize| evidence.workloads()[t].features.as_ref();
    let spec = evidence.without_memory_limit(kind);
    let active = match (features(workload), features(other)) {
        (Some(w), Some(partner)) => model::beside(w, partner, spec).map(|t| t.watts - spec.idle_watts),
        _ => None,
    };
    let active = active.unwrap_or_else(|| {
        let [one, two] = [workload, other].map(|t| unknown(evidence, t, kind));
        let both = (kept[0].min(1.0) * one + kept[1].min(1.0) * two).max(one).max(two);
        both.min(BUSY * (spec.limit_watts() - spec.idle_watts))
    });
    scaled(evidence, kind, active, (correction(evidence, workload, kind) + correction(evidence, other, kind)) / 2.0)
}

/// Of a workload of which nothing is known but what it was seen to draw, or what others drew on the kind.
fn unknown(evidence: &Evidence, workload: usize, kind: usize) -> f64 {
    let spec = &evidence.kinds()[kind];
    let seen = evidence.workloads()[workload].power_ratio.map(|part| part * spec.max_watts);
    let elsewhere = || {
        let sold = evidence.kinds().iter().position(|other| other.name == spec.sold_as())?;
        Some(evidence.alone_watts(workload, sold)).filter(|watts| watts.is_finite())
    };
    let usual = spec.idle_watts + UNKNOWN_ACTIVITY * (spec.max_watts - spec.idle_watts);
    let watts = elsewhere().or(seen).unwrap_or(usual);
    (power_limit::watts(spec, watts) - spec.idle_watts).max(1.0)
}

fn modelled_alone(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> f64 {
    let spec = evidence.without_memory_limit(kind);
    let modelled =
        evidence.workloads()[workload].features.as_ref().and_then(|w| model::alone(w, spec, gang, Spread::Packed));
    modelled.map_or_else(|| unknown(evidence, workload, kind), |p| p.watts - spec.idle_watts)
}

fn scaled(evidence: &Evidence, kind: usize, active: f64, c: f64) -> f64 {
    let spec = &evidence.kinds()[kind];
    (spec.idle_watts + active * c.exp()).clamp(spec.idle_watts, spec.limit_watts().max(spec.idle_watts))
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
        let same = evidence.kinds()[a].sold_as() == evidence.kinds()[kind].sold_as();
        let weight = if a == kind {
            SELF_HERE
        } else if same {
            SELF_LIMITED
        } else {
            SELF_ELSEWHERE
        };
        take(weight, residual(workload, a));
    }
    for &(k, d2) in evidence.neighbours(workload).iter().take(ALIKE) {
        take(LIKE * (-2.0 * d2).exp(), residual(k, kind));
    }
    sum / weights
}
