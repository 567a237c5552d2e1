//! Rates alone on one GPU: the method shared by the estimators that only learn about pairs.
//!
//! 1. Two measured batch sizes of the same model: ln rate is a line in ln batch through the two nearest, bent no further
//!    than one doubling beyond them; one: a line of slope −½ through it, less than a larger batch costs on a GPU that was full.
//! 2. What was measured of the workload itself on other kinds shifts the line by ½ of the mean residual for one such kind,
//!    ⅔ for two: a batch size that is faster than its neighbours on one kind is only partly so on another.
//! 3. No relative known: the performance model's rate, and after a first measurement that rate carried over by the mean of the
//!    model's profile over kinds and that of the three nearest measured workloads.

use crate::evidence::{Evidence, KnownWorkload};
use crate::method::Prediction;
use crate::perf_model;

/// How far the line may be followed beyond the measured batch sizes, in ln batch.
const BEYOND: f64 = 0.7;
/// Slope of ln rate over ln batch where only one batch size is known.
const LONE_SLOPE: f64 = -0.5;
/// Profiles of so many nearest workloads are averaged.
const PROFILES: usize = 3;

/// ln steps/s alone where it was not measured.
pub(crate) fn alone(evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
    let seen: Vec<usize> = (0..evidence.kinds().len()).filter(|&a| evidence.alone(workload, a).is_finite()).collect();
    if let Some((line, standard_error)) = along_batch(evidence, workload, kind) {
        let residuals =
            seen.iter().filter_map(|&a| Some(evidence.alone(workload, a) - along_batch(evidence, workload, a)?.0));
        let (sum, count) = residuals.fold((0.0, 0.0), |(s, n), r| (s + r, n + 1.0));
        let shift = if count > 0.0 { sum / (count + 1.0) } else { 0.0 };
        return Prediction::new(line + shift, standard_error, count > 0.0);
    }
    let modelled = |a: usize| perf_model::alone(evidence, workload, a);
    if seen.is_empty() {
        return Prediction::new(modelled(kind).unwrap_or(0.0), perf_model::ALONE_STANDARD_ERROR * 2.0, false);
    }
    let carried = seen.iter().map(|&from| evidence.alone(workload, from) + profile(evidence, workload, from, kind));
    Prediction::new(carried.sum::<f64>() / seen.len() as f64, 0.45, true)
}

fn ln_batch(workload: &KnownWorkload) -> Option<f64> {
    workload.features.as_ref().map(|w| f64::from(w.batch.max(1)).ln())
}

/// Whether two workloads are the same model at two batch sizes.
pub(crate) fn related(evidence: &Evidence, one: usize, two: usize) -> bool {
    let features = |t: usize| evidence.workloads()[t].features.as_ref();
    let alike = features(one).zip(features(two));
    one != two && alike.is_some_and(|(a, b)| a.family == b.family && a.mode == b.mode && a.precision == b.precision)
}

/// The line in ln batch, and its standard error.
fn along_batch(evidence: &Evidence, workload: usize, kind: usize) -> Option<(f64, f64)> {
    let own = ln_batch(&evidence.workloads()[workload])?;
    let relatives = evidence.neighbours(workload).iter().map(|&(k, _)| k).filter(|&k| related(evidence, workload, k));
    let mut known: Vec<(f64, f64)> =
        relatives.filter_map(|k| Some((ln_batch(&evidence.workloads()[k])?, evidence.alone(k, kind)))).collect();
    known.retain(|(_, ln)| ln.is_finite());
    known.sort_by(|a, b| (a.0 - own).abs().total_cmp(&(b.0 - own).abs()).then(a.0.total_cmp(&b.0)));
    match *known.as_slice() {
        [] => None,
        [(x, y)] => Some((y + LONE_SLOPE * (own - x), 0.35)),
        [(x, y), (x2, y2), ..] => {
            // Two on one side are a line to follow with care; one on each side are better.
            let other_side = known.iter().skip(1).find(|(z, _)| (z - own) * (x - own) < 0.0);
            let (x2, y2) = other_side.copied().unwrap_or((x2, y2));
            let slope = if (x2 - x).abs() < 1e-9 { 0.0 } else { (y2 - y) / (x2 - x) };
            let inside = other_side.is_some();
            Some((y + slope * (own - x).clamp(-BEYOND, BEYOND), if inside { 0.15 } else { 0.25 }))
        }
    }
}

/// ln of the rate on `to` over that on `from`.
fn profile(evidence: &Evidence, workload: usize, from: usize, to: usize) -> f64 {
    let copied = evidence.neighbours(workload).iter().map(|&(k, _)| evidence.alone(k, to) - evidence.alone(k, from));
    let neighbours: Vec<f64> = copied.filter(|p| p.is_finite()).take(PROFILES).collect();
    let modelled =
        perf_model::alone(evidence, workload, to).zip(perf_model::alone(evidence, workload, from)).map(|(t, f)| t - f);
    match (neighbours.is_empty(), modelled) {
        (true, modelled) => modelled.unwrap_or(0.0),
        (false, None) => neighbours.iter().sum::<f64>() / neighbours.len() as f64,
        (false, Some(modelled)) => (neighbours.iter().sum::<f64>() / neighbours.len() as f64 + modelled) / 2.0,
    }
}
