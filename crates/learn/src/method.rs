//! What all estimators share: measured cells are used as they are, what does not fit is refused, gangs are scaled, watts are
//! predicted, and a [`Method`] supplies the two parts that differ, the rate alone and the rate beside a partner.
//!
//! A [`Prediction`] is the logarithm of a rate with a standard error. With r the rate alone and t the fraction of it left beside a
//! partner, the rate together is r·t and its standard error √(σ_r² + σ_t²).
//!
//! **Gangs.** rate(g) = rate(1) · model(g)/model(1) · e^c, where c is the correction from the measured gang nearest in size.
//!
//! No method may decide what fits, or override a measurement.

use crate::catalog::MEASUREMENT_ERROR;
use crate::evidence::{CellIndex, Evidence};
use crate::watts;
use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Kind, Profile, WorkloadId, model};

/// A predicted rate with its standard error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Prediction {
    /// Logarithm of the rate.
    pub(crate) ln: f64,
    /// Standard error of the logarithm.
    pub(crate) standard_error: f64,
    /// Whether measurements of this very workload went in.
    pub(crate) refined: bool,
}

impl Prediction {
    pub(crate) fn new(ln: f64, standard_error: f64, refined: bool) -> Self {
        Self { ln, standard_error, refined }
    }
}

/// What an estimator has to say that others do not.
pub(crate) trait Method: Clone + Send + 'static {
    /// ln steps/s of a workload alone on one GPU of a kind where that was not measured.
    fn alone(&self, evidence: &Evidence, workload: usize, kind: usize) -> Prediction;
    /// ln of the rate of `workload` beside `other` over its rate alone, where that was not measured; at most 0 is used.
    fn beside(&self, evidence: &Evidence, workload: usize, other: usize, kind: usize) -> Prediction;
    /// Whether it says anything about pairs.
    fn pairs(&self) -> bool {
        true
    }
    /// The evidence has just taken a measurement in.
    fn learn(&mut self, _: &Evidence, _: &CellIndex) {}
}

/// A method on its evidence: an estimator.
#[derive(Clone)]
pub(crate) struct MethodEstimator<M> {
    pub(crate) evidence: Evidence,
    pub(crate) method: M,
}

/// Standard error of a gang's scaling that nobody measured.
const GANG_STANDARD_ERROR: f64 = 0.15;
/// The least that a partner leaves.
const LEAST_RELATIVE: f64 = 0.02;
/// Rows of so many like workloads are called changed with a row that was measured.
const ECHO: usize = 8;

impl<M: Method> MethodEstimator<M> {
    pub(crate) fn new(evidence: Evidence, method: M) -> Self {
        Self { evidence, method }
    }

    /// Alone on one GPU, measured or not.
    fn alone(&self, workload: usize, kind: usize) -> Prediction {
        let (ln, standard_error) =
            (self.evidence.alone(workload, kind), self.evidence.alone_standard_error(workload, kind));
        if ln.is_finite() {
            Prediction::new(ln, standard_error, true)
        } else {
            self.method.alone(&self.evidence, workload, kind)
        }
    }

    fn alone_cell(&self, workload: usize, kind: usize, gang: u32) -> Option<Estimate> {
        if gang == 0 || !self.evidence.fits(workload, None, kind) {
            return None;
        }
        let watts = watts::alone(&self.evidence, workload, kind, gang);
        let spread = spread_factor(&self.evidence, workload, kind, gang);
        if let Some(cell) = self.evidence.measured(&CellIndex { workload, partner: None, kind, gang }) {
            let (rate, watts) = (cell.rate, cell.watts.unwrap_or(watts));
            let spread_rate = rate * spread;
            let standard_error = cell.standard_error;
            return Some(Estimate {
                rate,
                spread_rate,
                partner_rate: 0.0,
                watts,
                standard_error,
                source: Source::Measured,
            });
        }
        let one = self.alone(workload, kind);
        let gangs = if gang > 1 { scaling(&self.evidence, workload, kind, gang) } else { (0.0, 0.0) };
        let rate = bounded(one.ln + gangs.0).exp();
        let standard_error = one.standard_error.hypot(gangs.1);
        Some(Estimate {
            rate,
            spread_rate: rate * spread,
            partner_rate: 0.0,
            watts,
            standard_error,
            source: if one.refined { Source::Refined } else { Source::Initial },
        })
    }

    /// The rate of `workload` beside `other`: (rate, standard error, source).
    fn together(&self, workload: usize, other: usize, kind: usize) -> (f64, f64, Source) {
        if let Some(cell) = self.evidence.measured(&CellIndex { workload, partner: Some(other), kind, gang: 1 }) {
            return (cell.rate, cell.standard_error, Source::Measured);
        }
        let (alone, part) = (self.alone(workload, kind), self.method.beside(&self.evidence, workload, other, kind));
        let ln = part.ln.clamp(LEAST_RELATIVE.ln(), 0.0);
        let source = if part.refined { Source::Refined } else { Source::Initial };
        (bounded(alone.ln + ln).exp(), alone.standard_error.hypot(part.standard_error), source)
    }

    fn pair_cell(&self, workload: usize, other: usize, kind: usize) -> Option<Estimate> {
        if !self.method.pairs() || !self.evidence.fits(workload, Some(other), kind) {
            return None;
        }
        let (rate, standard_error, source) = self.together(workload, other, kind);
        let (partner_rate, _, _) = self.together(other, workload, kind);
        let measured =
            |one, two| self.evidence.measured(&CellIndex { workload: one, partner: Some(two), kind, gang: 1 });
        let seen = measured(workload, other).and_then(|c| c.watts).or(measured(other, workload).and_then(|c| c.watts));
        let watts = seen.unwrap_or_else(|| watts::beside(&self.evidence, workload, other, kind));
        Some(Estimate { rate, spread_rate: rate, partner_rate, watts, standard_error, source })
    }
}

impl<M: Method> Estimator for MethodEstimator<M> {
    fn estimate(&self, ask: &RateQuery) -> RateRow {
        let workload = ask.workload.index();
        let known = |t: usize| t < self.evidence.subjects();
        let cell = |kind: usize| match ask.partner.map(WorkloadId::index) {
            None if known(workload) => self.alone_cell(workload, kind, ask.gang),
            Some(other) if known(workload) && known(other) && ask.gang == 1 => self.pair_cell(workload, other, kind),
            _ => None,
        };
        RateRow { ask: *ask, cells: (0..self.evidence.kinds().len()).map(cell).collect() }
    }

    fn observe(&mut self, observation: &Observation) -> Vec<RateQuery> {
        let Some(seen) = self.evidence.observe(observation) else { return Vec::new() };
        self.method.learn(&self.evidence, &seen);
        changed(&self.evidence, &seen)
    }

    fn add_kind(&mut self, _kind: &Kind) {}

    fn add_workload(&mut self, _name: &str, _profile: &Profile) {}

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(self.clone())
    }
}

/// Rows that a measurement changes: all of the measured workload, and the same row of those most like it.
fn changed(evidence: &Evidence, seen: &CellIndex) -> Vec<RateQuery> {
    let id = |workload: usize| WorkloadId(workload as u32);
    let pair =
        |one: usize, two: usize| RateQuery { workload: id(one.min(two)), gang: 1, partner: Some(id(one.max(two))) };
    let alone = |workload: usize, gang: u32| RateQuery { workload: id(workload), gang, partner: None };
    let mut asks = vec![alone(seen.workload, 1), alone(seen.workload, seen.gang)];
    asks.extend(evidence.gangs(seen.workload, seen.kind).iter().map(|&gang| alone(seen.workload, gang)));
    asks.extend((0..evidence.subjects()).map(|other| pair(seen.workload, other)));
    let like = |workload: usize| {
        evidence.neighbours(workload).iter().map(|&(k, _)| k).filter(|&k| k < evidence.subjects()).take(ECHO)
    };
    for k in like(seen.workload) {
        asks.push(seen.partner.map_or(alone(k, 1), |p| pair(k, p)));
    }
    for k in seen.partner.into_iter().flat_map(like) {
        asks.push(pair(seen.workload, k));
    }
    asks.sort_unstable();
    asks.dedup();
    asks
}

/// ln of a gang's rate over that of one GPU, and its standard error.
fn scaling(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> (f64, f64) {
    let modelled = |g: u32| modelled_scaling(evidence, workload, kind, g);
    let one = evidence.alone(workload, kind);
    let nearest = evidence.gangs(workload, kind).iter().min_by_key(|&&g| (g.max(gang) / g.min(gang), g));
    let seen = nearest.filter(|_| one.is_finite()).and_then(|&g| {
        let cell = evidence.measured(&CellIndex { workload, partner: None, kind, gang: g })?;
        Some((g, cell.rate.ln() - one - modelled(g)))
    });
    match seen {
        Some((g, correction)) => {
            let steps = (f64::from(gang) / f64::from(g)).log2().abs();
            (modelled(gang) + correction, MEASUREMENT_ERROR.hypot(GANG_STANDARD_ERROR * steps / (1.0 + steps)))
        }
        None => (modelled(gang), GANG_STANDARD_ERROR),
    }
}

fn modelled_scaling(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> f64 {
    let without_memory_limit = evidence.without_memory_limit(kind);
    let of = |g| {
        evidence.workloads()[workload].features.as_ref().and_then(|w| model::alone(w, without_memory_limit, g, false))
    };
    match (of(1), of(gang)) {
        (Some(one), Some(all)) => (all.rate / one.rate).ln(),
        _ => f64::from(gang).ln() * 0.95,
    }
}

/// What is left of a gang's rate when it is spread.
fn spread_factor(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> f64 {
    if gang < 2 {
        return 1.0;
    }
    let without_memory_limit = evidence.without_memory_limit(kind);
    let of = |s| {
        evidence.workloads()[workload].features.as_ref().and_then(|w| model::alone(w, without_memory_limit, gang, s))
    };
    match (of(false), of(true)) {
        (Some(packed), Some(spread)) => (spread.rate / packed.rate).clamp(1e-3, 1.0),
        _ => 0.8,
    }
}

/// A logarithm whose exponential is a rate one can compute with.
fn bounded(ln: f64) -> f64 {
    if ln.is_nan() { 0.0 } else { ln.clamp(-30.0, 30.0) }
}
