//! What all estimators share: measured cells are used as they are, what does not fit is refused, gangs are scaled, watts are
//! predicted, and a [`Method`] supplies the two parts that differ, the rate alone and the rate beside a partner.
//!
//! A [`Prediction`] is the logarithm of a rate with a standard error. With r the rate alone and t the fraction of it left beside a
//! partner, the rate together is r·t and its standard error √(σ_r² + σ_t²).
//!
//! **Gangs.** rate(g) = rate(g₀) · model(g)/model(g₀) · (g/g₀)^c, g₀ being the measured size that is nearest and c what gangs of this and of other workloads taught (`gang.rs`).
//!
//! **Power limits.** A limit slows two on one card, measured side by side under another limit, by the mean of what it does to each alone and to the hungrier
//! of them: it takes from the card's clock, which both have, but nothing from what a program does on its processor. Of twelve such cells on an H200 that is
//! 9 % off in the median (the hungrier's ratio alone 15 %, each one's own 11 % and up to 55 % too fast); chosen after looking at these.
//!
//! **Nothing known.** A workload without features is predicted by the population of what was measured (`evidence/population.rs`),
//! whatever the method. Features that were made up from a few that were stated add their own standard error, most of which is about
//! the level and goes with the first measurement.
//!
//! A rate is in steps per second, and a step is what the program calls one. Of a program that reports no steps, rates are in
//! a unit of its own: only ratios between its kinds and gangs mean anything, and only those are used.
//!
//! No method may decide what fits, or override a measurement.

use crate::evidence::{CellIndex, Evidence};
use crate::{power_limit, watts};
use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Kind, Profile, Spread, WorkloadId, model};

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
    /// Whether it leaves workloads without features to the population.
    fn population(&self) -> bool {
        true
    }
    /// Whether its standard error leaves out what made-up features may be wrong by.
    fn trusts_features(&self) -> bool {
        true
    }
    /// The evidence has just taken a measurement in.
    fn learn(&mut self, _: &Evidence, _: &CellIndex) {}
    /// The evidence has just got another kind; `measured` if it knows something about it.
    fn add_kind(&mut self, _: &Evidence, _measured: bool) {}
    /// A workload of the evidence can be asked about from now on; `new` if it was not there before.
    fn add_workload(&mut self, _: &Evidence, _workload: usize, _new: bool) {}
}

/// A method on its evidence: an estimator.
#[derive(Clone)]
pub(crate) struct MethodEstimator<M> {
    pub(crate) evidence: Evidence,
    pub(crate) method: M,
}

/// Standard error of a gang's scaling that nobody measured.
pub(crate) const GANG_STANDARD_ERROR: f64 = 0.15;
/// Standard error of what a power limit does to a pair, beyond that of what it does to the hungrier of the two.
const LIMIT_STANDARD_ERROR: f64 = 0.2;
/// The least that a partner leaves.
const LEAST_RELATIVE: f64 = 0.02;
/// The part of the standard error of made-up features that is left once the workload was measured somewhere, and that pairs have.
const FEATURES_LEFT: f64 = 0.3;
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
            return Prediction::new(ln, standard_error, true);
        }
        let known = &self.evidence.workloads()[workload];
        if known.features.is_none() && self.method.population() {
            return self.evidence.population_prediction(workload, kind);
        }
        let said = self.method.alone(&self.evidence, workload, kind);
        let made_up = known.feature_error * if said.refined { FEATURES_LEFT } else { 1.0 };
        if made_up > 0.0 && self.method.trusts_features() {
            return Prediction { standard_error: said.standard_error.hypot(made_up), ..said };
        }
        said
    }

    fn alone_cell(&self, workload: usize, kind: usize, gang: u32) -> Option<Estimate> {
        if gang == 0 || !self.evidence.fits(workload, None, kind) {
            return None;
        }
        let watts = watts::alone(&self.evidence, workload, kind, gang);
        let [spread, racks] = spread_factors(&self.evidence, workload, kind, gang);
        if let Some(cell) = self.evidence.measured(&CellIndex { workload, partner: None, kind, gang }) {
            let (rate, watts) = (cell.rate, cell.watts.unwrap_or(watts));
            let (spread_rate, racks_rate) = (rate * spread, rate * racks);
            let standard_error = cell.standard_error;
            return Some(Estimate {
                rate,
                spread_rate,
                racks_rate,
                partner_rate: 0.0,
                watts,
                standard_error,
                source: Source::Measured,
            });
        }
        let one = if gang > 1 { self.gang(workload, kind, gang) } else { self.alone(workload, kind) };
        let (rate, standard_error) = (bounded(one.ln).exp(), one.standard_error);
        Some(Estimate {
            rate,
            spread_rate: rate * spread,
            racks_rate: rate * racks,
            partner_rate: 0.0,
            watts,
            standard_error,
            source: if one.refined { Source::Refined } else { Source::Initial },
        })
    }

    /// Of a gang that was not measured.
    fn gang(&self, workload: usize, kind: usize, gang: u32) -> Prediction {
        let (measured, ln, standard_error) = self.evidence.scaling().carry(&self.evidence, workload, kind, gang);
        match measured {
            Some(base) => Prediction::new(base + ln, standard_error, true),
            None => {
                let one = self.alone(workload, kind);
                Prediction::new(one.ln + ln, one.standard_error.hypot(standard_error), one.refined)
            }
        }
    }

    /// The rate of `workload` beside `other`: (rate, standard error, source).
    fn together(&self, workload: usize, other: usize, kind: usize) -> (f64, f64, Source) {
        if let Some(cell) = self.evidence.measured(&CellIndex { workload, partner: Some(other), kind, gang: 1 }) {
            return (cell.rate, cell.standard_error, Source::Measured);
        }
        if let Some(known) = self.under_another_limit(workload, other, kind) {
            return (bounded(known.ln).exp(), known.standard_error, Source::Refined);
        }
        let (alone, part) = (self.alone(workload, kind), self.method.beside(&self.evidence, workload, other, kind));
        let ln = part.ln.clamp(LEAST_RELATIVE.ln(), 0.0);
        let source = if part.refined { Source::Refined } else { Source::Initial };
        let made_up = [workload, other].map(|t| FEATURES_LEFT * self.evidence.workloads()[t].feature_error);
        let standard_error = alone.standard_error.hypot(part.standard_error);
        let standard_error = if made_up == [0.0; 2] || !self.method.trusts_features() {
            standard_error
        } else {
            standard_error.hypot(made_up[0]).hypot(made_up[1])
        };
        (bounded(alone.ln + ln).exp(), standard_error, source)
    }

    /// ln of the rate of `workload` beside `other` where the two were measured on the same card under another power limit.
    fn under_another_limit(&self, workload: usize, other: usize, kind: usize) -> Option<Prediction> {
        let kinds = self.evidence.kinds();
        let own = &kinds[kind];
        let measured = |at: usize| {
            let index = CellIndex { workload, partner: Some(other), kind: at, gang: 1 };
            self.evidence.measured(&index).map(|cell| (at, cell))
        };
        let modes = (0..kinds.len()).filter(|&at| at != kind && kinds[at].sold_as() == own.sold_as());
        let distance = |at: usize| (kinds[at].limit_watts() / own.limit_watts()).ln().abs();
        let (at, cell) = modes.filter_map(measured).min_by(|(a, _), (b, _)| distance(*a).total_cmp(&distance(*b)))?;
        let draw = |who: usize| power_limit::unlimited_watts(&self.evidence, who, kind);
        let hungrier = if draw(other) > draw(workload) { other } else { workload };
        // Programs that wait for a processor seem faster or slower from run to run; a lower limit makes nobody faster.
        let lower = own.limit_watts() < kinds[at].limit_watts();
        let change = |who: usize| {
            let change = self.alone(who, kind).ln - self.alone(who, at).ln;
            if lower { change.min(0.0) } else { change.max(0.0) }
        };
        let change = (change(workload) + change(hungrier)) / 2.0;
        let limited = self.alone(hungrier, kind).standard_error;
        let standard_error = cell.standard_error.hypot(limited).hypot(LIMIT_STANDARD_ERROR);
        Some(Prediction::new(cell.rate.ln() + change, standard_error, true))
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
        let watts = seen.unwrap_or_else(|| {
            let kinds = self.evidence.kinds();
            let sold = kinds.iter().position(|sold| sold.name == kinds[kind].sold_as()).filter(|&sold| sold != kind);
            let index = |sold| CellIndex { workload, partner: Some(other), kind: sold, gang: 1 };
            match sold.and_then(|sold| self.evidence.measured(&index(sold))?.watts) {
                Some(watts) => power_limit::watts(&kinds[kind], watts),
                None => {
                    let kept = |t: usize, rate: f64| rate / bounded(self.alone(t, kind).ln).exp();
                    watts::beside(
                        &self.evidence,
                        workload,
                        other,
                        kind,
                        [kept(workload, rate), kept(other, partner_rate)],
                    )
                }
            }
        });
        Some(Estimate { rate, spread_rate: rate, racks_rate: 0.0, partner_rate, watts, standard_error, source })
    }
}

impl<M: Method> Estimator for MethodEstimator<M> {
    fn estimate(&self, ask: &RateQuery) -> RateRow {
        let index = |id: WorkloadId| self.evidence.index(id);
        let (workload, partner) = (index(ask.workload), ask.partner.map(index));
        let cell = |kind: usize| match (workload, partner) {
            (Some(workload), None) => self.alone_cell(workload, kind, ask.gang),
            (Some(workload), Some(Some(other))) if ask.gang == 1 => self.pair_cell(workload, other, kind),
            _ => None,
        };
        RateRow { ask: *ask, cells: (0..self.evidence.kinds().len()).map(cell).collect() }
    }

    fn observe(&mut self, observation: &Observation) -> Vec<RateQuery> {
        let before = self.evidence.population_size();
        let Some(seen) = self.evidence.observe(observation) else { return Vec::new() };
        self.method.learn(&self.evidence, &seen);
        let mut asks = changed(&self.evidence, &seen);
        // What is known of nobody in particular moves less and less.
        let after = self.evidence.population_size();
        if after > before && after.is_power_of_two() {
            asks.extend(self.evidence.unknown().map(|id| RateQuery { workload: id, gang: 1, partner: None }));
            asks.sort_unstable();
            asks.dedup();
        }
        asks
    }

    fn add_kind(&mut self, kind: &Kind) {
        let measured = self.evidence.add_kind(kind);
        self.method.add_kind(&self.evidence, measured);
    }

    fn add_workload(&mut self, name: &str, profile: &Profile) {
        let (workload, new) = self.evidence.add_workload(name, profile);
        self.method.add_workload(&self.evidence, workload, new);
    }

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(self.clone())
    }
}

/// Rows that a measurement changes: all of the measured workload, and the same row of those most like it.
fn changed(evidence: &Evidence, seen: &CellIndex) -> Vec<RateQuery> {
    let pair =
        |one: WorkloadId, two: WorkloadId| RateQuery { workload: one.min(two), gang: 1, partner: Some(one.max(two)) };
    let alone = |workload: WorkloadId, gang: u32| RateQuery { workload, gang, partner: None };
    let Some(own) = evidence.id(seen.workload) else { return Vec::new() };
    let partner = seen.partner.and_then(|partner| evidence.id(partner));
    let mut asks = vec![alone(own, 1), alone(own, seen.gang)];
    // Where nothing but rates is known, each of them moves all kinds.
    let everywhere = evidence.workloads()[seen.workload].features.is_none();
    for kind in (0..evidence.kinds().len()).filter(|&kind| everywhere || kind == seen.kind) {
        asks.extend(evidence.gangs(seen.workload, kind).iter().map(|&gang| alone(own, gang)));
    }
    asks.extend((0..evidence.subjects()).map(|other| pair(own, WorkloadId(other as u32))));
    let like = |workload: usize| evidence.hear_of(workload, ECHO).filter_map(|k| evidence.id(k));
    for k in like(seen.workload) {
        asks.push(partner.map_or(alone(k, 1), |p| pair(k, p)));
    }
    for k in seen.partner.into_iter().flat_map(like) {
        asks.push(pair(own, k));
    }
    asks.sort_unstable();
    asks.dedup();
    asks
}

/// ln of a gang's rate over that of one GPU, by the model; nearly in proportion where nothing is known.
pub(crate) fn modelled_scaling(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> f64 {
    let without_memory_limit = evidence.without_memory_limit(kind);
    let of = |g| {
        evidence.workloads()[workload]
            .features
            .as_ref()
            .and_then(|w| model::alone(w, without_memory_limit, g, Spread::Packed))
    };
    match (of(1), of(gang)) {
        (Some(one), Some(all)) => (all.rate / one.rate).ln(),
        _ => f64::from(gang).ln() * 0.95,
    }
}

/// What is left of a gang's rate when it is spread over nodes, and over racks. (One GPU is never spread, and a rate of 0 over racks says
/// that there is nothing to say.)
fn spread_factors(evidence: &Evidence, workload: usize, kind: usize, gang: u32) -> [f64; 2] {
    if gang < 2 {
        return [1.0, 0.0];
    }
    let without_memory_limit = evidence.without_memory_limit(kind);
    let of = |s| {
        evidence.workloads()[workload].features.as_ref().and_then(|w| model::alone(w, without_memory_limit, gang, s))
    };
    match Spread::ALL.map(of) {
        [Some(packed), Some(nodes), Some(racks)] => {
            [nodes, racks].map(|spread| (spread.rate / packed.rate).clamp(1e-3, 1.0))
        }
        _ => [0.8, 0.7],
    }
}

/// A logarithm whose exponential is a rate one can compute with.
fn bounded(ln: f64) -> f64 {
    if ln.is_nan() { 0.0 } else { ln.clamp(-30.0, 30.0) }
}
