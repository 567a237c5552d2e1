//! The nearest: a newcomer does what the most similar measured workload does, shifted by what was measured of it.
//!
//! "Similar" is the plain distance of Ψ. Where the nearest lacks a cell, the next one answers; on a kind
//! that nobody was measured on, the nearest's rate on another is carried over by the ratio of the two kinds.

use crate::evidence::Evidence;
use crate::method::{Method, MethodEstimator, Prediction};
use crate::residual::{self, Role, UNKNOWN_RELATIVE_RATE};
use crate::table::{EstimatorError, Setting};
use arles_core::estimate::Estimator;

/// Makes the estimator for a setting.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    Ok(Box::new(MethodEstimator::new(Evidence::new(setting), Nearest)))
}

#[derive(Clone)]
struct Nearest;

const PAIR_STANDARD_ERROR: f64 = 0.25;

impl Method for Nearest {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        let copy = |a: usize| {
            let others = || evidence.neighbours(workload).iter().map(|&(k, _)| k);
            let there = others().map(|k| evidence.alone(k, a)).find(|ln| ln.is_finite());
            // A kind that none of them was measured on: from another, by the ratio of the two.
            let carried = |k: usize| evidence.alone_elsewhere(k, a);
            there
                .or_else(|| others().find_map(carried))
                .unwrap_or_else(|| evidence.population_prediction(workload, a).ln)
        };
        let shift = residual::alone(evidence, workload, copy);
        let standard_error = if shift.is_some() { 0.3 } else { 0.7 };
        Prediction::new(copy(kind) + shift.unwrap_or(0.0), standard_error, shift.is_some())
    }

    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction {
        let (role, newcomer, other) = residual::roles(evidence, workload, other);
        let neighbours = evidence.neighbours(newcomer);
        let copied = copy(evidence, role, neighbours, other, kind);
        let shift = residual::beside(evidence, role, newcomer, kind, |p, a| copy(evidence, role, neighbours, p, a));
        Prediction::new(copied + shift.unwrap_or(0.0), PAIR_STANDARD_ERROR, shift.is_some())
    }
}

fn copy(evidence: &Evidence, role: Role, neighbours: &[(usize, f64)], other: usize, kind: usize) -> f64 {
    // Everybody beside `other` is one row, whichever of the two is asked about.
    let row = match role {
        Role::Own => evidence.beside_column(other, kind),
        Role::Partner => evidence.beside_row(other, kind),
    };
    let alone = |k: usize| evidence.alone(if role == Role::Own { k } else { other }, kind);
    let mut copies = neighbours.iter().map(|&(k, _)| f64::from(row.get(k)) - alone(k));
    copies.find(|ln| ln.is_finite()).unwrap_or(UNKNOWN_RELATIVE_RATE.ln())
}
