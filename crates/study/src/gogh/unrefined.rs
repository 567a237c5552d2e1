//! An estimator that is corrected by nothing: what was measured stands in its own cell, and says nothing about any other.
//! Beside the estimator that it holds, it shows what correcting other cells is worth.

use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Kind, KindId, Profile, Spread, WorkloadId};
use std::collections::BTreeMap;

/// Standard error of a cell that was measured.
const MEASURED_STANDARD_ERROR: f64 = 0.03;

/// Whose rate: workload, gang, partner, kind, spread.
type Cell = (WorkloadId, u32, Option<WorkloadId>, KindId, Spread);

/// The first estimates of an estimator, for good.
pub struct Unrefined {
    first: Box<dyn Estimator>,
    measured: BTreeMap<Cell, (f64, f64)>,
}

impl Unrefined {
    /// Keeps an estimator from learning.
    #[must_use]
    pub fn new(first: Box<dyn Estimator>) -> Self {
        Self { first, measured: BTreeMap::new() }
    }

    fn overwrite(&self, ask: &RateQuery, kind: KindId, cell: &mut Estimate) {
        let of = |workload, partner, spread| self.measured.get(&(workload, ask.gang, partner, kind, spread)).copied();
        let mut seen = |rate: f64, watts: f64, to: &mut f64| {
            *to = rate;
            (cell.watts, cell.standard_error, cell.source) = (watts, MEASURED_STANDARD_ERROR, Source::Measured);
        };
        let (mut rate, mut spread_rate, mut partner_rate) = (cell.rate, cell.spread_rate, cell.partner_rate);
        if let Some((r, watts)) = of(ask.workload, ask.partner, Spread::Packed) {
            seen(r, watts, &mut rate);
            spread_rate *= rate / cell.rate;
        }
        if let Some((r, watts)) = of(ask.workload, ask.partner, Spread::Nodes) {
            seen(r, watts, &mut spread_rate);
        }
        if let Some((r, watts)) = ask.partner.and_then(|partner| of(partner, Some(ask.workload), Spread::Packed)) {
            seen(r, watts, &mut partner_rate);
        }
        (cell.rate, cell.spread_rate, cell.partner_rate) = (rate, spread_rate, partner_rate);
    }
}

impl Estimator for Unrefined {
    fn estimate(&self, ask: &RateQuery) -> RateRow {
        let mut row = self.first.estimate(ask);
        for (cell, j) in row.cells.iter_mut().zip(0..) {
            if let Some(cell) = cell {
                self.overwrite(ask, KindId(j), cell);
            }
        }
        row
    }

    fn observe(&mut self, observation: &Observation) -> Vec<RateQuery> {
        let Observation { ask, kind, spread, rate, watts, .. } = *observation;
        self.measured.insert((ask.workload, ask.gang, ask.partner, kind, spread), (rate, watts));
        // The scheduler asks for a pair from either side.
        let mirrored = ask.partner.map(|partner| RateQuery { workload: partner, partner: Some(ask.workload), ..ask });
        std::iter::once(ask).chain(mirrored).collect()
    }

    fn add_kind(&mut self, kind: &Kind) {
        self.first.add_kind(kind);
    }

    fn add_workload(&mut self, name: &str, profile: &Profile) {
        self.first.add_workload(name, profile);
    }

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(Self { first: self.first.fork(), measured: self.measured.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::{Library, Time};
    use arles_sim::truth::{Oracle, Truth};
    use std::sync::Arc;

    #[test]
    fn a_measurement_changes_its_own_cell_and_no_other() {
        let kinds = ["v100", "k80"].map(|name| Library::builtin().kind(name).unwrap().clone());
        let names = ["resnet18-b64", "lm-b20"].map(str::to_owned);
        let truth = Arc::new(Truth::new(&kinds, &names, None).unwrap());
        let mut estimator = Unrefined::new(Box::new(Oracle(truth)));
        let pair = RateQuery { workload: WorkloadId(0), gang: 1, partner: Some(WorkloadId(1)) };
        let mirror = RateQuery { workload: WorkloadId(1), gang: 1, partner: Some(WorkloadId(0)) };
        let before = (estimator.estimate(&pair), estimator.estimate(&mirror));
        let kind = KindId(0);
        let changed = estimator.observe(&Observation {
            ask: mirror,
            kind,
            spread: Spread::Packed,
            rate: 7.0,
            watts: 99.0,
            at: Time::ZERO,
            job: None,
        });
        assert!(changed.contains(&pair) && changed.contains(&mirror));
        let (own, other) = (estimator.estimate(&mirror).cells, estimator.estimate(&pair).cells);
        assert_eq!((own[0].unwrap().rate, own[0].unwrap().watts), (7.0, 99.0));
        assert_eq!(own[0].unwrap().partner_rate, before.1.cells[0].unwrap().partner_rate);
        assert_eq!(other[0].unwrap().partner_rate, 7.0);
        assert_eq!(other[0].unwrap().rate, before.0.cells[0].unwrap().rate);
        assert_eq!((own[1], other[1]), (before.1.cells[1], before.0.cells[1]));
    }
}
