//! The mean: a newcomer is like the average of all that were measured, shifted by what was measured of it.
//!
//! Beside partner j: the mean over known k of what j leaves of k. Alone: the mean of ln steps/s on that kind. The yardstick
//! that anything cleverer has to beat.

use crate::contention;
use crate::evidence::Evidence;
use crate::method::{Method, MethodEstimator, Prediction};
use crate::residual::{self, Role, UNKNOWN_RELATIVE_RATE, moments};
use crate::table::{EstimatorError, Setting};
use arles_core::estimate::Estimator;

/// Makes the estimator for a setting.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    Ok(Box::new(MethodEstimator::new(Evidence::new(setting), Mean)))
}

#[derive(Clone)]
struct Mean;

/// Standard error of a rate alone before anything was measured of a workload: a factor of e².
const ABSOLUTE_STANDARD_ERROR: f64 = 2.0;
/// Standard error once something was measured of it.
const SHIFTED_STANDARD_ERROR: f64 = 0.6;
const LEAST_STANDARD_ERROR: f64 = 0.1;

impl Method for Mean {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        alone(evidence, workload, kind)
    }

    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction {
        let (role, newcomer, other) = residual::roles(evidence, workload, other);
        let (mean, sd) = partner_mean(evidence, role, newcomer, other, kind);
        let shift =
            residual::beside(evidence, role, newcomer, kind, |p, a| partner_mean(evidence, role, newcomer, p, a).0);
        Prediction::new(mean + shift.unwrap_or(0.0), sd.max(LEAST_STANDARD_ERROR), shift.is_some())
    }
}

/// Mean and spread, over everybody but the newcomer, of what is left beside `other` (or of `other`).
pub(crate) fn partner_mean(evidence: &Evidence, role: Role, newcomer: usize, other: usize, kind: usize) -> (f64, f64) {
    let beside = residual::of_partner(evidence, role, other, kind).filter(|&(k, _)| k != newcomer);
    let (one, two) = if role == Role::Own { (newcomer, other) } else { (other, newcomer) };
    let unmeasured = || contention::beside(evidence, one, two).unwrap_or(UNKNOWN_RELATIVE_RATE.ln());
    moments(beside.map(|(_, ln)| ln)).unwrap_or_else(|| (unmeasured(), 0.4))
}

/// The mean of ln steps/s on a kind, shifted by what was measured of this one.
pub(crate) fn alone(evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
    let mean = |a: usize| {
        let others = (0..evidence.workloads().len()).filter(|&k| k != workload).map(|k| evidence.alone(k, a));
        // On a kind that nobody was measured on: from the others, by the ratio of kinds.
        let elsewhere = || {
            let all = (0..evidence.workloads().len()).filter(|&k| k != workload);
            moments(all.filter_map(|k| evidence.alone_elsewhere(k, a)))
        };
        moments(others).or_else(elsewhere).map_or(0.0, |(mean, _)| mean)
    };
    let shift = residual::alone(evidence, workload, mean);
    let standard_error = if shift.is_some() { SHIFTED_STANDARD_ERROR } else { ABSOLUTE_STANDARD_ERROR };
    Prediction::new(mean(kind) + shift.unwrap_or(0.0), standard_error, shift.is_some())
}
