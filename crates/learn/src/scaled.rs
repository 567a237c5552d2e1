//! Rules of thumb, to compare estimators with: rates in proportion to a figure of the data sheet, or to the mean ratio of what was measured.
//!
//! With s(i,a) the logarithm of the figure (peak arithmetic, bandwidth, or the slower of both for the workload's own arithmetic and traffic), the rate of a
//! workload that was measured somewhere is the mean over there of ln rate + s(i,a) − s(i,there); of one that was not, s(i,a) plus the mean of ln rate − s over all
//! that were. *constant-ratio* knows no figure: kinds differ by the mean over workloads that were measured on both.

use crate::evidence::Evidence;
use crate::method::{Method, MethodEstimator, Prediction};
use crate::residual::{UNKNOWN_RELATIVE_RATE, moments};
use crate::table::{EstimatorError, Setting};
use arles_core::estimate::Estimator;
use arles_core::{Kind, Precision};

/// Typical error of a ratio by rule of thumb, and of a level that nobody measured.
const RATIO: f64 = 0.35;
const LEVEL: f64 = 1.0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Figure {
    Flops,
    Bandwidth,
    Roofline,
    ConstantRatio,
}

#[derive(Clone)]
struct Scaled {
    figure: Figure,
    /// Mean of ln rate − s over all that was measured at the beginning.
    level: f64,
}

pub(crate) fn by_flops(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make(setting, Figure::Flops)
}

pub(crate) fn by_bandwidth(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make(setting, Figure::Bandwidth)
}

pub(crate) fn roofline(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make(setting, Figure::Roofline)
}

pub(crate) fn constant_ratio(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make(setting, Figure::ConstantRatio)
}

fn make(setting: &Setting<'_>, figure: Figure) -> Result<Box<dyn Estimator>, EstimatorError> {
    let evidence = Evidence::new(setting);
    let cells = (0..evidence.workloads().len()).flat_map(|t| (0..evidence.kinds().len()).map(move |a| (t, a)));
    let above = cells.map(|(t, a)| evidence.alone(t, a) - scale(&evidence, figure, t, a));
    let level = moments(above).map_or(0.0, |(mean, _)| mean);
    Ok(Box::new(MethodEstimator::new(evidence, Scaled { figure, level })))
}

impl Method for Scaled {
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction {
        let here = |a: usize| scale(evidence, self.figure, workload, a);
        let measured = (0..evidence.kinds().len()).filter(|&a| evidence.alone(workload, a).is_finite());
        let carried = measured.map(|a| {
            let ratio = match self.figure {
                Figure::ConstantRatio => evidence.ratio(a, kind),
                _ => here(kind) - here(a),
            };
            evidence.alone(workload, a) + ratio
        });
        match moments(carried) {
            Some((ln, _)) => Prediction::new(ln, RATIO, true),
            None => Prediction::new(self.level + here(kind), LEVEL, false),
        }
    }

    fn beside(&self, _: &Evidence, _: usize, _: usize, _: usize) -> Prediction {
        Prediction::new(UNKNOWN_RELATIVE_RATE.ln(), RATIO, false)
    }

    fn population(&self) -> bool {
        false
    }
}

/// s: ln of the figure.
fn scale(evidence: &Evidence, figure: Figure, workload: usize, kind: usize) -> f64 {
    let k = &evidence.kinds()[kind];
    let features = evidence.workloads()[workload].features.as_ref();
    let flops = peak(k, features.map_or(Precision::Fp16, |w| w.precision));
    match (figure, features) {
        (Figure::Flops, _) => flops.ln(),
        (Figure::Bandwidth, _) => k.bandwidth_gbps.max(1e-3).ln(),
        (Figure::Roofline, Some(w)) => {
            let seconds = (w.flops_per_step / (flops * 1e12)).max(w.bytes_per_step / (k.bandwidth_gbps * 1e9));
            -seconds.max(1e-12).ln()
        }
        (Figure::Roofline, None) => 0.5 * (flops.ln() + k.bandwidth_gbps.max(1e-3).ln()),
        (Figure::ConstantRatio, _) => evidence.modelled_median(kind),
    }
}

fn peak(kind: &Kind, precision: Precision) -> f64 {
    let peak = if precision == Precision::Fp32 { kind.fp32_tflops } else { kind.fp16_tflops };
    peak.max(1e-3)
}
