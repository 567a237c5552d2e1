//! What submitters said: stated rates as they are; where nobody said anything, every kind is alike. No pairs.
//!
//! This is what a scheduler without an estimator lives on.

use crate::evidence::{CellIndex, Evidence};
use crate::method::{Method, MethodEstimator, Prediction};
use crate::residual::UNKNOWN_RELATIVE_RATE;
use crate::table::{EstimatorError, Setting};
use arles_core::estimate::Estimator;

/// Makes the estimator for a setting.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    Ok(Box::new(MethodEstimator::new(Evidence::new(setting), Stated)))
}

#[derive(Clone)]
struct Stated;

impl Method for Stated {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        let stated = |a: usize| {
            let cell = evidence.cell(&CellIndex { workload, partner: None, kind: a, gang: 1 })?;
            (cell.rate > 0.0).then(|| cell.rate.ln())
        };
        let any = || (0..evidence.kinds().len()).find_map(stated);
        Prediction::new(stated(kind).or_else(any).unwrap_or(0.0), 1.0, false)
    }

    fn beside(&self, _: &Evidence, _: usize, _: usize, _: usize) -> Prediction {
        Prediction::new(UNKNOWN_RELATIVE_RATE.ln(), 0.6, false)
    }

    fn pairs(&self) -> bool {
        false
    }

    fn population(&self) -> bool {
        false
    }
}
