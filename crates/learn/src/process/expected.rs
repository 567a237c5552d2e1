//! What is expected of a rate alone before the process has its say: its prior mean.
//!
//! ```text
//! model's level of the workload + median profile over kinds + part of its own profile + power + power limit + usual gap
//! ```
//!
//! *Power*: a quarter of ln watts. Peaks of data sheets are for a moment; what a card keeps up goes with what it may draw, and no other line of the sheet says so: from an RTX 4090 (450 W) to
//! a PRO 6000 Max-Q (300 W) everything else on the sheet grows by 1.3 to 2.7, rates by 1.38. Of ten pairs of kinds that were measured the median ratio comes nearer in seven by it; the
//! three others are those with a K80 or a P100. Slices of a card share its power, so for them it says nothing.
//!
//! *Usual gap*: how far all that was measured lies from the model on the whole. It is no matter of kinds, and left to the process a part of it would be taken for one and be lost
//! on the next. (Trees in place of the model's level, grown on other families, left as much: 20.5 instead of 20.0 % of the rates of new families of timm, and 107 instead of 68 % of
//! new language models.)

use super::alone::AloneCell;
use super::pace::Paces;
use crate::catalog::MEASUREMENT_ERROR;
use crate::evidence::Evidence;
use crate::{perf_model, power_limit};
use arles_core::Kind;

/// Part of the model's own profile of a workload in the prior mean.
const OWN_PROFILE: f64 = 0.1;
/// Exponent of watts.
const OF_POWER: f64 = 0.25;
/// Watts of a usual card.
const USUAL_WATTS: f64 = 300.0;

/// What the power that a card may draw has to say.
fn power(kind: &Kind) -> f64 {
    match kind.product.contains("MIG") || kind.max_watts < 1.0 {
        true => 0.0,
        false => OF_POWER * (kind.max_watts / USUAL_WATTS).ln(),
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    /// Kinds over which levels are taken: those of the beginning, so that one more changes nothing.
    base: usize,
    gap: f64,
    pub(super) paces: Paces,
}

impl Expected {
    /// Of what a catalog holds.
    pub(super) fn new(evidence: &Evidence) -> Self {
        let mut expected = Self { base: evidence.kinds().len(), ..Self::default() };
        let all = (0..evidence.workloads().len()).flat_map(|t| expected.cells_of(evidence, t));
        expected.gap = crate::residual::moments(all.map(|(_, y)| y)).map_or(0.0, |(mean, _)| mean);
        let measured = |t| (t, expected.measured(evidence, t));
        let measured = (0..evidence.workloads().len()).map(measured).filter(|(_, cells)| !cells.is_empty()).collect();
        expected.paces = Paces::new(evidence.kinds().len(), &measured);
        expected
    }

    /// Kinds were added to none.
    pub(super) fn at_least_one_kind(&mut self) {
        self.base = self.base.max(1);
    }

    /// δ of a workload by kind.
    fn measured(&self, evidence: &Evidence, workload: usize) -> Vec<(usize, f64)> {
        self.cells_of(evidence, workload).map(|(cell, y)| (cell.kind, y)).collect()
    }

    /// Something was measured of a workload.
    pub(super) fn learn(&mut self, evidence: &Evidence, workload: usize) {
        let measured = self.measured(evidence, workload);
        self.paces.learn(workload, &measured);
    }

    /// ln steps/s. (Of a kind that nobody measured, the median's profile is nearer than the workload's own: 12
    /// against 26 % from an RTX 3090 to a 4090 and back.)
    pub(super) fn ln_rate(&self, evidence: &Evidence, workload: usize, kind: usize) -> f64 {
        let limit = power_limit::ln_speed(evidence, workload, kind);
        let profile = evidence.modelled_median(kind) + OWN_PROFILE * self.tilt(evidence, workload, kind);
        profile + self.level(evidence, workload) + power(&evidence.kinds()[kind]) + limit + self.gap
    }

    /// How far above the library's median the model sees a workload.
    fn level(&self, evidence: &Evidence, workload: usize) -> f64 {
        let above = |a: usize| Some(perf_model::alone_as_sold(evidence, workload, a)? - evidence.modelled_median(a));
        crate::residual::moments((0..self.base).filter_map(above)).map_or(0.0, |(mean, _)| mean)
    }

    /// μ: how far above the median's profile the model sees a workload on a kind.
    pub(super) fn tilt(&self, evidence: &Evidence, workload: usize, kind: usize) -> f64 {
        let own = perf_model::alone_as_sold(evidence, workload, kind);
        own.map_or(0.0, |own| own - evidence.modelled_median(kind) - self.level(evidence, workload))
    }

    /// What was measured of a workload, each with what that is above what was expected.
    pub(super) fn cells_of(&self, evidence: &Evidence, workload: usize) -> impl Iterator<Item = (AloneCell, f64)> {
        (0..evidence.kinds().len()).filter_map(move |kind| {
            let rate = evidence.own_rate(workload, kind)?;
            let y = rate.ln - self.ln_rate(evidence, workload, kind);
            let noise = (rate.variance - MEASUREMENT_ERROR * MEASUREMENT_ERROR).max(0.0);
            let cell = AloneCell {
                workload,
                kind,
                tilt: self.tilt(evidence, workload, kind),
                pace: self.paces.of(workload),
                noise,
            };
            y.is_finite().then_some((cell, y))
        })
    }
}
