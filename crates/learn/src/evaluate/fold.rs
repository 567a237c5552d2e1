//! One fold: hold out, make, observe, ask, compare.

use super::score::{Cells, Sample};
use super::{DRAWS, Evaluation, FoldTask, ObservationPlan};
use crate::catalog::Catalog;
use crate::rng::Rng;
use crate::table::{EstimatorError, Setting};
use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery};
use arles_core::{KindId, Spread, Time, WorkloadId};

/// A 90 % interval is so many standard errors wide, to either side.
const NINETY: f64 = 1.645;

/// One random order in which a newcomer could be observed; every plan takes its beginning.
struct ObservationOrder {
    kinds: Vec<usize>,
    /// By kind.
    partners: Vec<Vec<usize>>,
}

/// What was observed: cells that are no test any more.
#[derive(Default)]
struct Observed {
    alone: Vec<usize>,
    /// (kind, partner).
    pairs: Vec<(usize, usize)>,
}

impl Evaluation<'_> {
    /// The errors of one fold.
    pub(super) fn fold(&self, task: &FoldTask) -> Result<Vec<Sample>, EstimatorError> {
        let options = self.options;
        let catalog = self.without(&task.held);
        let setting = Setting {
            kinds: options.kinds,
            workloads: &self.subjects,
            catalog: &catalog,
            seed: options.seed,
            progress: &|_| {},
        };
        let made = (options.estimators[task.estimator].make)(&setting)?;
        let mut samples = Vec::new();
        for &newcomer in &task.held {
            let partners: Vec<usize> = (0..self.subjects.len()).filter(|j| !task.held.contains(j)).collect();
            for (p, plan) in options.plans.iter().enumerate() {
                let draws = if plan.kinds == 0 { 1 } else { DRAWS };
                for draw in 0..draws {
                    let mut fork = made.fork();
                    let observed = self.observe(fork.as_mut(), newcomer, &partners, plan, draw);
                    self.ask(fork.as_ref(), newcomer, &partners, &observed, p, &mut samples);
                }
            }
        }
        Ok(samples)
    }

    /// The catalog with everything that names one of these taken out.
    pub(super) fn without(&self, held: &[usize]) -> Catalog {
        let mut catalog = self.catalog.clone();
        for &i in held {
            catalog.forget(&self.subjects[i].name);
        }
        catalog
    }

    fn order(&self, newcomer: usize, partners: &[usize], draw: u64) -> ObservationOrder {
        let mut random = Rng::new(self.options.seed.wrapping_add(draw), &self.subjects[newcomer].name);
        let all = 0..self.options.kinds.len();
        let mut kinds: Vec<usize> = all.clone().filter(|&a| self.truth(newcomer, None, a).is_some()).collect();
        random.shuffle(&mut kinds);
        let partners = all.map(|a| {
            let fits = |j: &usize| self.pair_truth(newcomer, *j, a).is_some();
            let mut some: Vec<usize> = partners.iter().copied().filter(fits).collect();
            random.shuffle(&mut some);
            some
        });
        ObservationOrder { kinds, partners: partners.collect() }
    }

    fn observe(
        &self,
        estimator: &mut dyn Estimator,
        newcomer: usize,
        partners: &[usize],
        plan: &ObservationPlan,
        draw: u64,
    ) -> Observed {
        let order = self.order(newcomer, partners, draw);
        let mut observed = Observed::default();
        let mut seconds = 0.0;
        let mut tell = |subject: usize, partner: Option<usize>, kind: usize, rate: f64| {
            seconds += 360.0;
            estimator.observe(&Observation {
                ask: ask(subject, partner),
                kind: KindId(kind as u16),
                spread: Spread::Packed,
                rate,
                // There is no power in tables of rates.
                watts: 0.0,
                at: Time::from_seconds(seconds),
                job: None,
            });
        };
        for &a in order.kinds.iter().take(plan.kinds) {
            if let Some(rate) = self.truth(newcomer, None, a) {
                tell(newcomer, None, a, rate);
                observed.alone.push(a);
            }
            for &j in order.partners[a].iter().take(plan.pairs) {
                if let Some((own, partner)) = self.pair_truth(newcomer, j, a) {
                    tell(newcomer, Some(j), a, own);
                    tell(j, Some(newcomer), a, partner);
                    observed.pairs.push((a, j));
                }
            }
        }
        observed
    }

    /// The measured rates of both, if they fit together.
    fn pair_truth(&self, newcomer: usize, partner: usize, kind: usize) -> Option<(f64, f64)> {
        self.truth(newcomer, None, kind)?;
        self.truth(partner, None, kind)?;
        Some((self.truth(newcomer, Some(partner), kind)?, self.truth(partner, Some(newcomer), kind)?))
    }

    fn ask(
        &self,
        estimator: &dyn Estimator,
        newcomer: usize,
        partners: &[usize],
        observed: &Observed,
        plan: usize,
        samples: &mut Vec<Sample>,
    ) {
        let kinds = 0..self.options.kinds.len();
        let alone = estimator.estimate(&ask(newcomer, None)).cells;
        let best = kinds.clone().filter_map(|a| self.truth(newcomer, None, a)).fold(0.0, f64::max);
        let best_said = alone.iter().flatten().map(|e| e.rate).fold(0.0, f64::max);
        let blank = |cells: Cells, kind: usize| Sample { plan, cells, newcomer, kind, measured: None };
        for a in kinds.clone().filter(|a| !observed.alone.contains(a)) {
            let Some(truth) = self.truth(newcomer, None, a) else { continue };
            let measured = alone[a].map(|e| {
                let (error, _, covered) = compare(e.rate, truth, e.standard_error);
                (error, (e.rate / best_said - truth / best).abs(), covered)
            });
            samples.push(Sample { measured, ..blank(Cells::Solo, a) });
        }
        for &j in partners {
            let own = estimator.estimate(&ask(newcomer, Some(j))).cells;
            let mirrored = estimator.estimate(&ask(j, Some(newcomer))).cells;
            let partner_alone = estimator.estimate(&ask(j, None)).cells;
            for a in kinds.clone().filter(|&a| !observed.pairs.contains(&(a, j))) {
                let Some((own_truth, partner_truth)) = self.pair_truth(newcomer, j, a) else { continue };
                let (Some(own_alone), Some(other_alone)) = (self.truth(newcomer, None, a), self.truth(j, None, a))
                else {
                    continue;
                };
                let both = own[a].zip(alone[a]).zip(mirrored[a].zip(partner_alone[a]));
                let own = both.map(|((e, solo), _)| {
                    compare(e.rate / solo.rate, own_truth / own_alone, relative_standard_error(&e, &solo))
                });
                // The partner's standard error is that of the same options asked from its side.
                let partner = both.map(|((e, _), (mirror, solo))| {
                    compare(
                        e.partner_rate / other_alone,
                        partner_truth / other_alone,
                        relative_standard_error(&mirror, &solo),
                    )
                });
                samples.push(Sample { measured: own, ..blank(Cells::Own, a) });
                samples.push(Sample { measured: partner, ..blank(Cells::Partner, a) });
            }
        }
    }
}

fn ask(subject: usize, partner: Option<usize>) -> RateQuery {
    RateQuery { workload: WorkloadId(subject as u32), gang: 1, partner: partner.map(|p| WorkloadId(p as u32)) }
}

/// Standard error of the quotient: an estimator states the standard error of the rate itself, which holds that of the rate alone.
fn relative_standard_error(together: &Estimate, alone: &Estimate) -> f64 {
    (together.standard_error * together.standard_error - alone.standard_error * alone.standard_error).max(0.0).sqrt()
}

/// (relative error, absolute error, whether a 90 % interval holds the truth).
fn compare(estimate: f64, truth: f64, standard_error: f64) -> (f64, f64, bool) {
    let covered = (estimate / truth).ln().abs() <= NINETY * standard_error;
    ((estimate / truth - 1.0).abs(), (estimate - truth).abs(), covered)
}
