//! A Gaussian process over everything measured: rates alone (`alone.rs`) and what partners leave (`pairs.rs`).
//!
//! Its estimate of a cell is the mean of what that cell may be, given all that was seen, however it was chosen to be seen: a policy that runs what
//! looks best takes nothing from it, because an estimate of which the truth is right on average stays so for whatever is picked by it. (A rule that carries residuals over
//! from what was picked does not have that property.) Everything that is known of a workload is optional (`traits.rs`), and its standard
//! error says how much there was.
//!
//! Measured cells are never changed, and what fits is not decided here.

mod alone;
mod calibrate;
mod expected;
mod gaussian;
mod kinds;
mod pace;
mod pairs;
#[cfg(test)]
mod tests;

use crate::evidence::{CellIndex, Evidence};
use crate::method::{Method, MethodEstimator, Prediction};
use crate::table::{EstimatorError, Setting};
use alone::Alone;
use arles_core::estimate::Estimator;
pub(crate) use pairs::Pairs;
pub(crate) use pairs::{LooksAt, Prior};

/// Makes one, its variances found on what the catalog holds.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    let evidence = Evidence::new(setting);
    let process = Process::new(&evidence, setting.seed);
    Ok(Box::new(MethodEstimator::new(evidence, process)))
}

#[derive(Clone)]
pub(crate) struct Process {
    alone: Alone,
    pairs: Pairs,
}

impl Process {
    /// The same without what catalogs say of pairs, where somebody else answers for these.
    pub(crate) fn of_rates_alone(evidence: &Evidence, seed: u64) -> Self {
        Self { alone: Alone::new(evidence, seed), pairs: Pairs::new(evidence, seed, NOBODY, LooksAt::Nothing) }
    }

    pub(crate) fn new(evidence: &Evidence, seed: u64) -> Self {
        Self { alone: Alone::new(evidence, seed), pairs: Pairs::new(evidence, seed, NOBODY, LooksAt::Everything) }
    }

    /// Something was measured. Of a workload that was measured beside others only, `alone` is ln of its rate alone and the variance of that, where somebody knows.
    pub(crate) fn learn_as(&mut self, evidence: &Evidence, seen: &CellIndex, alone: Option<(f64, f64)>) {
        match seen.partner {
            Some(other) => {
                self.pairs.learn(evidence, (seen.workload, other, seen.kind), NOBODY);
                if evidence.alone(seen.workload, seen.kind).is_nan() {
                    self.alone.learn_as(evidence, seen.workload, seen.kind, alone);
                }
            }
            None => {
                self.alone.learn(evidence, seen.workload, seen.kind);
                self.pairs.learn_row(evidence, seen.workload, seen.kind, NOBODY);
            }
        }
    }

    /// What rates alone of hidden workloads would have been wrong by.
    pub(crate) fn left_out(&self) -> &[crate::stacked::LeftOut] {
        self.alone.left_out()
    }
}

/// Nobody else says anything.
const NOBODY: Prior<'static> = &|_, _, _| None;

impl Method for Process {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        self.alone.row(evidence, workload)[kind]
    }

    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction {
        self.pairs.predict(evidence, (workload, other, kind))
    }

    fn population(&self) -> bool {
        false
    }

    fn trusts_features(&self) -> bool {
        false
    }

    fn learn(&mut self, evidence: &Evidence, seen: &CellIndex) {
        self.learn_as(evidence, seen, None);
    }

    fn add_kind(&mut self, evidence: &Evidence, measured: bool) {
        self.alone.add_kind(evidence, measured);
        self.pairs.add_kind(evidence, measured, NOBODY);
    }

    fn add_workload(&mut self, evidence: &Evidence, workload: usize, _: bool) {
        self.alone.add_workload(evidence, workload);
        for kind in 0..evidence.kinds().len() {
            self.pairs.learn_row(evidence, workload, kind, NOBODY);
            for other in evidence.partners(workload, kind) {
                self.pairs.learn(evidence, (other, workload, kind), NOBODY);
            }
        }
    }
}
