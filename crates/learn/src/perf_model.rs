//! The performance model alone: features in, rates out, nothing learned. Of two jobs that were seen at work, counters say more of a pair than features (`contention.rs`).

use crate::contention;
use crate::evidence::Evidence;
use crate::method::{Method, MethodEstimator, Prediction};
use crate::residual::UNKNOWN_RELATIVE_RATE;
use crate::table::{EstimatorError, Setting};
use arles_core::estimate::Estimator;
use arles_core::{Kind, Spread, model};

/// Makes the estimator for a setting.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    Ok(Box::new(MethodEstimator::new(Evidence::new(setting), Modelled)))
}

#[derive(Clone)]
struct Modelled;

/// Typical error of the model on rates alone.
pub(crate) const ALONE_STANDARD_ERROR: f64 = 0.6;
/// Typical error of the model beside a partner.
const PAIR_STANDARD_ERROR: f64 = 0.35;

impl Method for Modelled {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        Prediction::new(alone(evidence, workload, kind).unwrap_or(0.0), ALONE_STANDARD_ERROR, false)
    }

    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction {
        let ln = beside(evidence, workload, other, kind).unwrap_or(UNKNOWN_RELATIVE_RATE.ln());
        Prediction::new(ln, PAIR_STANDARD_ERROR, false)
    }
}

/// ln steps/s alone, by the model; `None` without features.
pub(crate) fn alone(evidence: &Evidence, workload: usize, kind: usize) -> Option<f64> {
    let w = evidence.workloads()[workload].features.as_ref()?;
    model::alone(w, evidence.without_memory_limit(kind), 1, Spread::Packed).map(|p| p.rate.ln())
}

/// The same of the kind as sold, whatever its power limit.
pub(crate) fn alone_as_sold(evidence: &Evidence, workload: usize, kind: usize) -> Option<f64> {
    let k = evidence.without_memory_limit(kind);
    if !k.is_mode() {
        return alone(evidence, workload, kind);
    }
    let w = evidence.workloads()[workload].features.as_ref()?;
    let sold = Kind { power_limit: None, ..k.clone() };
    model::alone(w, &sold, 1, Spread::Packed).map(|p| p.rate.ln())
}

/// ln of what a partner leaves, by the counters of both or else by the model; `None` without counters and without features of both.
pub(crate) fn beside(evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Option<f64> {
    if let Some(ln) = contention::beside(evidence, workload, other) {
        return Some(ln);
    }
    let features = |t: usize| evidence.workloads()[t].features.as_ref();
    let together = model::beside(features(workload)?, features(other)?, evidence.without_memory_limit(kind))?;
    Some((together.own.ln() - alone(evidence, workload, kind)?).min(0.0))
}
