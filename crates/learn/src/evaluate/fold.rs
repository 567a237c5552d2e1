//! One fold: hold out, make, observe, ask, compare.

use super::score::{Cells, Compared, Sample};
use super::{DRAWS, Evaluation, FoldTask, MOST_ASKED, ObservationPlan};
use crate::catalog::{Catalog, Cell};
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

/// Who is asked about, beside whom, and where.
struct Question<'q> {
    newcomer: usize,
    partners: &'q [usize],
    /// This kind alone, of a split by kinds.
    kind: Option<usize>,
    plan: usize,
}

impl Evaluation<'_> {
    /// The errors of one fold.
    pub(super) fn fold(&self, task: &FoldTask) -> Result<Vec<Sample>, EstimatorError> {
        let options = self.options;
        let catalog = self.without(task);
        let setting = Setting {
            kinds: options.kinds,
            workloads: &self.subjects,
            catalog: &catalog,
            seed: options.seed,
            progress: &|_| {},
        };
        let made = (options.estimators[task.estimator].make)(&setting)?;
        let mut asked = task.held.clone();
        if asked.len() > MOST_ASKED {
            Rng::new(options.seed, "asked").shuffle(&mut asked);
            asked.truncate(MOST_ASKED);
        }
        let mut samples = Vec::new();
        match task.kind {
            Some(kind) => self.ask_about_kind(made.as_ref(), &task.held, &asked, kind, &mut samples),
            None => self.ask_about_workloads(made.as_ref(), &task.held, &asked, &mut samples),
        }
        Ok(samples)
    }

    fn ask_about_workloads(&self, made: &dyn Estimator, held: &[usize], asked: &[usize], samples: &mut Vec<Sample>) {
        for &newcomer in asked {
            let partners: Vec<usize> = self.partners[newcomer].iter().copied().filter(|j| !held.contains(j)).collect();
            for (plan, said) in self.options.plans.iter().enumerate() {
                let draws = if said.kinds == 0 { 1 } else { DRAWS };
                for draw in 0..draws {
                    let mut fork = made.fork();
                    let observed = self.observe(fork.as_mut(), newcomer, &partners, said, draw);
                    let question = Question { newcomer, partners: &partners, kind: None, plan };
                    self.ask(fork.as_ref(), &question, &observed, samples);
                }
            }
        }
    }

    fn ask_about_kind(
        &self,
        made: &dyn Estimator,
        held: &[usize],
        asked: &[usize],
        kind: usize,
        samples: &mut Vec<Sample>,
    ) {
        for (plan, said) in self.options.plans.iter().enumerate() {
            let count = said.kinds * (1 + said.pairs);
            for draw in 0..if count == 0 { 1 } else { DRAWS } {
                let mut order = held.to_vec();
                Rng::new(self.options.seed.wrapping_add(draw), "measured there").shuffle(&mut order);
                order.truncate(count.min(held.len() / 2));
                let mut fork = made.fork();
                for (at, &subject) in order.iter().enumerate() {
                    self.tell(fork.as_mut(), ask(subject, None), kind, at);
                }
                for &newcomer in asked {
                    let seen = order.iter().any(|&o| self.model(o) == self.model(newcomer));
                    if !seen {
                        let partners = &self.partners[newcomer];
                        let question = Question { newcomer, partners, kind: Some(kind), plan };
                        self.ask(fork.as_ref(), &question, &Observed::default(), samples);
                    }
                }
            }
        }
    }

    /// The catalog with everything that names one of these, or the kind, taken out. What is known of them beside measurements stays.
    pub(super) fn without(&self, task: &FoldTask) -> Catalog {
        let mut catalog = self.catalog.clone();
        if let Some(kind) = task.kind {
            catalog.forget_kind(&self.options.kinds[kind].name);
            return catalog;
        }
        for &i in &task.held {
            let name = &self.subjects[i].name;
            let traits = catalog.traits(name).cloned();
            catalog.forget(name);
            if let Some(traits) = traits {
                catalog.set_traits(name, traits);
            }
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

    /// Tells an estimator what was measured.
    fn tell(&self, estimator: &mut dyn Estimator, ask: RateQuery, kind: usize, at: usize) {
        let partner = ask.partner.map(WorkloadId::index);
        let Some(cell) = self.cell(ask.workload.index(), partner, kind, ask.gang) else { return };
        estimator.observe(&Observation {
            ask,
            kind: KindId(kind as u16),
            spread: Spread::Packed,
            rate: cell.rate,
            watts: cell.watts.unwrap_or(0.0),
            at: Time::from_seconds(360.0 * (at + 1) as f64),
            job: None,
        });
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
        let mut told = 0;
        for &a in order.kinds.iter().take(plan.kinds) {
            if self.truth(newcomer, None, a).is_some() {
                self.tell(estimator, ask(newcomer, None), a, told);
                told += 1;
                observed.alone.push(a);
            }
            for &j in order.partners[a].iter().take(plan.pairs) {
                if self.pair_truth(newcomer, j, a).is_some() {
                    self.tell(estimator, ask(newcomer, Some(j)), a, told);
                    self.tell(estimator, ask(j, Some(newcomer)), a, told + 1);
                    told += 2;
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

    /// The measured cell, if it is there and fits.
    fn cell(&self, subject: usize, partner: Option<usize>, kind: usize, gang: u32) -> Option<Cell> {
        let key = self.key(subject, partner, kind, gang);
        self.catalog.get(&key).filter(|cell| cell.rate > 0.0).copied()
    }

    fn ask(&self, estimator: &dyn Estimator, question: &Question<'_>, observed: &Observed, samples: &mut Vec<Sample>) {
        let &Question { newcomer, kind, plan, .. } = question;
        let kinds: Vec<usize> = match kind {
            Some(kind) => vec![kind],
            None => (0..self.options.kinds.len()).collect(),
        };
        let alone = estimator.estimate(&ask(newcomer, None)).cells;
        let measured = |a: usize| self.truth(newcomer, None, a);
        let best = kinds.iter().filter_map(|&a| measured(a)).fold(0.0, f64::max);
        let best_said = alone.iter().flatten().map(|e| e.rate).fold(0.0, f64::max);
        let blank = |cells: Cells, kind: usize| Sample { plan, cells, newcomer, kind, compared: None };
        let first = observed.alone.first().copied().or_else(|| kinds.iter().copied().find(|&a| measured(a).is_some()));
        for &a in kinds.iter().filter(|a| !observed.alone.contains(a)) {
            let Some(cell) = self.cell(newcomer, None, a, 1) else { continue };
            let compared = alone[a].map(|e| Compared {
                absolute: (e.rate / best_said - cell.rate / best).abs(),
                ..compare(e.rate, cell.rate, e.standard_error)
            });
            samples.push(Sample { compared, ..blank(Cells::Solo, a) });
            if let (Some(watts), Some(e)) = (cell.watts, alone[a]) {
                let compared = Compared { covered: None, ..compare(e.watts, watts, 0.0) };
                samples.push(Sample { compared: Some(compared), ..blank(Cells::Watts, a) });
            }
            if let Some(first) = first.filter(|&first| first != a)
                && let (Some(e), Some(of), Some(base)) = (alone[a], alone[first], measured(first))
            {
                let compared = compare(e.rate / of.rate, cell.rate / base, 0.0);
                samples.push(Sample {
                    compared: Some(Compared { covered: None, ..compared }),
                    ..blank(Cells::Speedup, a)
                });
            }
        }
        self.ask_about_gangs(estimator, question, samples);
        self.ask_about_pairs(estimator, question, observed, &alone, samples);
    }

    fn ask_about_gangs(&self, estimator: &dyn Estimator, question: &Question<'_>, samples: &mut Vec<Sample>) {
        let &Question { newcomer, kind, plan, .. } = question;
        for &(a, gang) in self.gangs[newcomer].iter().filter(|(a, _)| kind.is_none_or(|kind| kind == *a)) {
            let Some(cell) = self.cell(newcomer, None, a, gang) else { continue };
            let said = estimator.estimate(&RateQuery { gang, ..ask(newcomer, None) }).cells[a];
            let compared = said.map(|e| compare(e.rate, cell.rate, e.standard_error));
            samples.push(Sample { plan, cells: Cells::Gang, newcomer, kind: a, compared });
        }
    }

    fn ask_about_pairs(
        &self,
        estimator: &dyn Estimator,
        question: &Question<'_>,
        observed: &Observed,
        alone: &[Option<Estimate>],
        samples: &mut Vec<Sample>,
    ) {
        let &Question { newcomer, partners, kind, plan } = question;
        let kinds = (0..self.options.kinds.len()).filter(|&a| kind.is_none_or(|kind| kind == a));
        let blank = |cells: Cells, kind: usize| Sample { plan, cells, newcomer, kind, compared: None };
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
                // The partner's standard error is that of the same options asked from its side. Where its rate alone is not measured
                // either, it is over the estimate of that.
                let base =
                    if kind.is_some() { both.map_or(other_alone, |(_, (_, solo))| solo.rate) } else { other_alone };
                let partner = both.map(|((e, _), (mirror, solo))| {
                    compare(e.partner_rate / base, partner_truth / other_alone, relative_standard_error(&mirror, &solo))
                });
                samples.push(Sample { compared: own, ..blank(Cells::Own, a) });
                samples.push(Sample { compared: partner, ..blank(Cells::Partner, a) });
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

fn compare(estimate: f64, truth: f64, standard_error: f64) -> Compared {
    let covered = (estimate / truth).ln().abs() <= NINETY * standard_error;
    Compared { relative: estimate / truth - 1.0, absolute: (estimate - truth).abs(), covered: Some(covered) }
}
