//! The two networks as an estimator.

use super::initial::{InitialNetwork, RECURRENT};
use super::neighbours::{Case, Likeness};
use super::net::Shape;
use super::refinement::{MeasuredPair, RefinementNetwork, most_informative};
use super::standard_error::StandardErrors;
use crate::evidence::Evidence;
use crate::method::{Method, MethodEstimator, Prediction};
use crate::perf_model;
use crate::residual::{self, UNKNOWN_RELATIVE_RATE};
use crate::rng::Rng;
use crate::solo;
use crate::table::{EstimatorError, Setting};
use arles_core::estimate::Estimator;
use std::sync::Arc;

/// Standard error of the performance model, used where a pair has no neighbours.
const MODEL_STANDARD_ERROR: f64 = 0.6;

/// What does not change once it is trained.
struct Networks {
    first: InitialNetwork,
    second: RefinementNetwork,
    standard_errors: StandardErrors,
}

#[derive(Clone)]
struct Pair {
    networks: Arc<Networks>,
    likeness: Arc<Likeness>,
}

pub(super) fn make(setting: &Setting<'_>, recurrent: bool) -> Result<Box<dyn Estimator>, EstimatorError> {
    let evidence = Evidence::new(setting);
    let likeness = Likeness::new(&evidence);
    let networks = train(&evidence, &likeness, setting, recurrent).map_err(|e| {
        EstimatorError(format!("the tensor library refused to train: {e}; use 'learned', which does without"))
    })?;
    let pair = Pair { networks: Arc::new(networks), likeness: Arc::new(likeness) };
    Ok(Box::new(MethodEstimator::new(evidence, pair)))
}

fn train(
    evidence: &Evidence,
    likeness: &Likeness,
    setting: &Setting<'_>,
    recurrent: bool,
) -> candle_core::Result<Networks> {
    let mut draw = Rng::new(setting.seed, "published");
    let shape = if recurrent { RECURRENT } else { Shape::Forward };
    let (first, held_out) =
        InitialNetwork::train(evidence, likeness, shape, &mut draw, &|done| (setting.progress)(0.8 * done))?;
    (setting.progress)(0.8);
    let (second, after) = RefinementNetwork::train(likeness, &held_out, &mut draw)?;
    let standard_errors = StandardErrors::new(evidence.kinds().len(), &held_out, &after);
    (setting.progress)(1.0);
    Ok(Networks { first, second, standard_errors })
}

impl Pair {
    /// P1: the prediction for both roles, and whether the new workload's family is known; `None` without neighbours.
    fn first(&self, evidence: &Evidence, case: Case) -> Option<([f64; 2], bool)> {
        let neighbours = self.likeness.neighbours(evidence, case, &|t| t != case.i);
        let kin = neighbours.first().is_some_and(|w| self.likeness.family[w.k] == self.likeness.family[case.i]);
        Some((self.networks.first.believe(&self.likeness, case, &neighbours)?, kin))
    }

    /// The pairs of a workload that were measured, with what P1 predicted for them.
    fn measured(&self, evidence: &Evidence, case: Case) -> Vec<MeasuredPair> {
        if evidence.measured_pairs(case.i) == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        for a in 0..evidence.kinds().len() {
            for j in evidence.partners(case.i, a) {
                let measured = [evidence.relative(case.i, j, a), evidence.relative(j, case.i, a)];
                if measured.iter().any(|m| m.is_finite()) {
                    found.push((Case { i: case.i, j, a }, measured));
                }
            }
        }
        let most_informative = most_informative(&self.likeness, case, found);
        let of = |(seen, measured): (Case, [f64; 2])| {
            let (believed, _) = self.first(evidence, seen)?;
            Some(MeasuredPair { case: seen, believed, measured })
        };
        most_informative.into_iter().filter_map(of).collect()
    }
}

impl Method for Pair {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        solo::alone(evidence, workload, kind)
    }

    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction {
        let nets = &self.networks;
        let (role, i, j) = residual::roles(evidence, workload, other);
        let case = Case { i, j, a: kind };
        let Some((believed, kin)) = self.first(evidence, case) else {
            let ln = perf_model::beside(evidence, workload, other, kind).unwrap_or(UNKNOWN_RELATIVE_RATE.ln());
            return Prediction::new(ln, MODEL_STANDARD_ERROR, false);
        };
        let seen = self.measured(evidence, case);
        let here = seen.iter().any(|s| s.case.a == kind);
        let belief = nets.second.refine(&self.likeness, case, believed, &seen);
        Prediction::new(belief[role.index()], nets.standard_errors.of(here, kin, kind), !seen.is_empty())
    }

    fn add_kind(&mut self, evidence: &Evidence, _: bool) {
        Arc::make_mut(&mut self.likeness).add_kind(evidence);
    }

    fn add_workload(&mut self, evidence: &Evidence, workload: usize, _: bool) {
        Arc::make_mut(&mut self.likeness).add_workload(evidence, workload);
    }
}
