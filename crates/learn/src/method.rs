//! What all estimators have in common, written once: measured cells stand as they are, what does not fit is refused,
//! gangs scale, watts follow, and a [`Method`] says the two things that differ, how fast alone and how fast beside.
//!
//! A [`Belief`] is the logarithm of a rate with a standard error. With r the rate alone and t the part of it left beside a
//! partner, the rate together is r·t and its standard error √(σ_r² + σ_t²).
//!
//! **Gangs.** rate(g) = rate(1) · model(g)/model(1) · e^c, c the correction that the measured gang nearest in size asks for.
//!
//! No method may tell what fits, or override a measurement.

use crate::catalog::MEASUREMENT_ERROR;
use crate::ground::{Ground, Seen};
use crate::watts;
use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{WorkloadId, model};

/// What is believed of a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Belief {
    /// Its logarithm.
    pub(crate) ln: f64,
    /// Standard error of the logarithm.
    pub(crate) standard_error: f64,
    /// Whether measurements of this very workload went in.
    pub(crate) refined: bool,
}

/// What an estimator has to say that others do not.
pub(crate) trait Method: Clone + Send + 'static {
    /// ln steps/s of a thing alone on one GPU of a kind where that was not measured.
    fn alone(&self, ground: &Ground, thing: usize, kind: usize) -> Belief;
    /// ln of the rate of `thing` beside `other` over its rate alone, where that was not measured; at most 0 is used.
    fn beside(&self, ground: &Ground, thing: usize, other: usize, kind: usize) -> Belief;
    /// Whether it says anything about pairs.
    fn pairs(&self) -> bool {
        true
    }
    /// The ground has just taken a measurement in.
    fn learn(&mut self, _: &Ground, _: &Seen) {}
}

/// A method on its ground: an estimator.
#[derive(Clone)]
pub(crate) struct Shell<M> {
    pub(crate) ground: Ground,
    pub(crate) method: M,
}

/// Standard error of a gang's scaling that nobody measured.
const GANG_STANDARD_ERROR: f64 = 0.15;
/// The least that a partner leaves.
const LEAST_RELATIVE: f64 = 0.02;
/// Rows of so many like workloads are called changed with a row that was measured.
const ECHO: usize = 8;

impl<M: Method> Shell<M> {
    pub(crate) fn new(ground: Ground, method: M) -> Self {
        Self { ground, method }
    }

    /// Alone on one GPU, measured or not.
    fn alone(&self, thing: usize, kind: usize) -> Belief {
        let (ln, standard_error) = (self.ground.alone(thing, kind), self.ground.alone_standard_error(thing, kind));
        if ln.is_finite() {
            Belief { ln, standard_error, refined: true }
        } else {
            self.method.alone(&self.ground, thing, kind)
        }
    }

    fn alone_cell(&self, thing: usize, kind: usize, gang: u32) -> Option<Estimate> {
        if gang == 0 || !self.ground.fits(thing, None, kind) {
            return None;
        }
        let watts = watts::alone(&self.ground, thing, kind, gang);
        let spread = spread_factor(&self.ground, thing, kind, gang);
        if let Some(cell) = self.ground.measured(&Seen { thing, partner: None, kind, gang }) {
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
        let one = self.alone(thing, kind);
        let gangs = if gang > 1 { scaling(&self.ground, thing, kind, gang) } else { (0.0, 0.0) };
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

    /// The rate of `thing` beside `other`: (rate, standard error, source).
    fn together(&self, thing: usize, other: usize, kind: usize) -> (f64, f64, Source) {
        if let Some(cell) = self.ground.measured(&Seen { thing, partner: Some(other), kind, gang: 1 }) {
            return (cell.rate, cell.standard_error, Source::Measured);
        }
        let (alone, part) = (self.alone(thing, kind), self.method.beside(&self.ground, thing, other, kind));
        let ln = part.ln.clamp(LEAST_RELATIVE.ln(), 0.0);
        let source = if part.refined { Source::Refined } else { Source::Initial };
        (bounded(alone.ln + ln).exp(), alone.standard_error.hypot(part.standard_error), source)
    }

    fn pair_cell(&self, thing: usize, other: usize, kind: usize) -> Option<Estimate> {
        if !self.method.pairs() || !self.ground.fits(thing, Some(other), kind) {
            return None;
        }
        let (rate, standard_error, source) = self.together(thing, other, kind);
        let (partner_rate, _, _) = self.together(other, thing, kind);
        let measured = |one, two| self.ground.measured(&Seen { thing: one, partner: Some(two), kind, gang: 1 });
        let seen = measured(thing, other).and_then(|c| c.watts).or(measured(other, thing).and_then(|c| c.watts));
        let watts = seen.unwrap_or_else(|| watts::beside(&self.ground, thing, other, kind));
        Some(Estimate { rate, spread_rate: rate, partner_rate, watts, standard_error, source })
    }
}

impl<M: Method> Estimator for Shell<M> {
    fn estimate(&self, ask: &RateQuery) -> RateRow {
        let thing = ask.workload.index();
        let known = |t: usize| t < self.ground.subjects();
        let cell = |kind: usize| match ask.partner.map(WorkloadId::index) {
            None if known(thing) => self.alone_cell(thing, kind, ask.gang),
            Some(other) if known(thing) && known(other) && ask.gang == 1 => self.pair_cell(thing, other, kind),
            _ => None,
        };
        RateRow { ask: *ask, cells: (0..self.ground.kinds().len()).map(cell).collect() }
    }

    fn observe(&mut self, observation: &Observation) -> Vec<RateQuery> {
        let Some(seen) = self.ground.observe(observation) else { return Vec::new() };
        self.method.learn(&self.ground, &seen);
        changed(&self.ground, &seen)
    }

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(self.clone())
    }
}

/// Rows that a measurement changes: all of the measured workload, and the same row of those most like it.
fn changed(ground: &Ground, seen: &Seen) -> Vec<RateQuery> {
    let id = |thing: usize| WorkloadId(thing as u32);
    let pair =
        |one: usize, two: usize| RateQuery { workload: id(one.min(two)), gang: 1, partner: Some(id(one.max(two))) };
    let alone = |thing: usize, gang: u32| RateQuery { workload: id(thing), gang, partner: None };
    let mut asks = vec![alone(seen.thing, 1), alone(seen.thing, seen.gang)];
    asks.extend(ground.gangs(seen.thing, seen.kind).iter().map(|&gang| alone(seen.thing, gang)));
    asks.extend((0..ground.subjects()).map(|other| pair(seen.thing, other)));
    let like = |thing: usize| ground.near(thing).iter().map(|&(k, _)| k).filter(|&k| k < ground.subjects()).take(ECHO);
    for k in like(seen.thing) {
        asks.push(seen.partner.map_or(alone(k, 1), |p| pair(k, p)));
    }
    for k in seen.partner.into_iter().flat_map(like) {
        asks.push(pair(seen.thing, k));
    }
    asks.sort_unstable();
    asks.dedup();
    asks
}

/// ln of a gang's rate over that of one GPU, and its standard error.
fn scaling(ground: &Ground, thing: usize, kind: usize, gang: u32) -> (f64, f64) {
    let modelled = |g: u32| modelled_scaling(ground, thing, kind, g);
    let one = ground.alone(thing, kind);
    let nearest = ground.gangs(thing, kind).iter().min_by_key(|&&g| (g.max(gang) / g.min(gang), g));
    let seen = nearest.filter(|_| one.is_finite()).and_then(|&g| {
        let cell = ground.measured(&Seen { thing, partner: None, kind, gang: g })?;
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

fn modelled_scaling(ground: &Ground, thing: usize, kind: usize, gang: u32) -> f64 {
    let roomy = ground.roomy(kind);
    let of = |g| ground.things()[thing].features.as_ref().and_then(|w| model::alone(w, roomy, g, false));
    match (of(1), of(gang)) {
        (Some(one), Some(all)) => (all.rate / one.rate).ln(),
        _ => f64::from(gang).ln() * 0.95,
    }
}

/// What is left of a gang's rate when it is spread.
fn spread_factor(ground: &Ground, thing: usize, kind: usize, gang: u32) -> f64 {
    if gang < 2 {
        return 1.0;
    }
    let roomy = ground.roomy(kind);
    let of = |s| ground.things()[thing].features.as_ref().and_then(|w| model::alone(w, roomy, gang, s));
    match (of(false), of(true)) {
        (Some(packed), Some(spread)) => (spread.rate / packed.rate).clamp(1e-3, 1.0),
        _ => 0.8,
    }
}

/// A logarithm whose exponential is a rate one can compute with.
fn bounded(ln: f64) -> f64 {
    if ln.is_nan() { 0.0 } else { ln.clamp(-30.0, 30.0) }
}
