//! Measuring in the virtual world, and how far an estimator is from the truth.
//!
//! A gang that has run undisturbed for half a round can be measured: its true rate and power, each times e^(sd·N). The first look at
//! a cell says most, so a cell is looked at after 1, 2, 4, 8, … rounds in which somebody ran in it; what is known for long is hardly
//! measured again, and the number of observations grows with the cells, not with time.

use crate::rng::Rng;
use crate::truth::Truth;
use crate::world::World;
use arles_core::drive::Refiner;
use arles_core::estimate::{Estimator, Observation, RateQuery, RateRow};
use arles_core::{Kind, KindId, Spread, Time};
use arles_report::record::LearningSample;
use std::collections::{BTreeMap, BTreeSet};

/// How badly measurements are off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Noise {
    /// Relative standard error of a rate.
    pub rate_sd: f64,
    /// Relative standard error of a power.
    pub watts_sd: f64,
    /// Decides every draw.
    pub seed: u64,
}

impl Default for Noise {
    fn default() -> Self {
        Self { rate_sd: 0.03, watts_sd: 0.03, seed: 1 }
    }
}

/// Takes measurements of the gangs that run.
pub struct Sampler {
    noise: Noise,
    rng: Rng,
    /// Rounds in which a cell could have been measured.
    rounds: BTreeMap<(RateQuery, KindId, Spread), u64>,
}

impl Sampler {
    /// One that has measured nothing yet.
    #[must_use]
    pub fn new(noise: Noise) -> Self {
        Self { noise, rng: Rng::new(noise.seed).fork("measurements"), rounds: BTreeMap::new() }
    }

    /// Measures what has run undisturbed since `since`, each cell once, and only after 1, 2, 4, 8, … rounds.
    pub fn look(&mut self, now: Time, since: Time, world: &World) -> Vec<Observation> {
        let mut seen: BTreeSet<(RateQuery, KindId, Spread)> = BTreeSet::new();
        let mut found = Vec::new();
        for gang in world.steady_gangs(since) {
            let cell = (gang.ask, gang.kind, gang.spread);
            if !seen.insert(cell) {
                continue;
            }
            let rounds = self.rounds.entry(cell).or_default();
            *rounds += 1;
            if !rounds.is_power_of_two() {
                continue;
            }
            found.push(Observation {
                ask: gang.ask,
                kind: gang.kind,
                spread: gang.spread,
                rate: gang.rate * (self.noise.rate_sd * self.rng.normal()).exp(),
                watts: gang.watts * (self.noise.watts_sd * self.rng.normal()).exp(),
                at: now,
                job: Some(gang.job),
            });
        }
        found
    }
}

/// Which estimator takes part in a run, and how well it is informed.
pub struct EstimatorSetup {
    /// As the record names it.
    pub name: String,
    /// Estimates and learns.
    pub estimator: Box<dyn Estimator>,
    /// How badly measurements are off.
    pub noise: Noise,
}

/// The estimator's side of a run: answers questions, measures what runs, and passes on what that changes.
pub(crate) struct Learner {
    name: String,
    refiner: Refiner,
    sampler: Sampler,
    observations: u64,
}

impl Learner {
    pub(crate) fn new(setup: EstimatorSetup) -> Self {
        let EstimatorSetup { name, estimator, noise } = setup;
        Self { name, refiner: Refiner::new(estimator), sampler: Sampler::new(noise), observations: 0 }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn observations(&self) -> u64 {
        self.observations
    }

    pub(crate) fn add_kind(&mut self, kind: &Kind) {
        self.refiner.add_kind(kind);
    }

    pub(crate) fn answer(&mut self, query: &RateQuery) -> RateRow {
        self.refiner.answer(query)
    }

    /// Measures what has run undisturbed since `since`; returns the rows that are different now.
    pub(crate) fn measure(&mut self, now: Time, since: Time, world: &World) -> Vec<RateRow> {
        for observation in self.sampler.look(now, since, world) {
            self.observations += 1;
            self.refiner.observe(&observation);
        }
        self.refiner.refresh()
    }

    /// How far everything that the scheduler was told is from the truth.
    pub(crate) fn sample(&self, now: Time, truth: &Truth) -> LearningSample {
        let (mut solo, mut pair) = (Errors::default(), Errors::default());
        for (ask, row) in self.refiner.told() {
            match ask.partner {
                None => {
                    let truth = truth.alone(ask.workload, ask.gang);
                    for (cell, pace) in row.cells.iter().zip(truth.iter()) {
                        if let (Some(cell), Some(pace)) = (cell, pace) {
                            solo.add(cell.rate, pace[0].rate);
                        }
                    }
                }
                Some(partner) => {
                    for (cell, j) in row.cells.iter().zip(0..) {
                        if let (Some(cell), Some(pace)) = (cell, truth.together(ask.workload, partner, KindId(j))) {
                            pair.add(cell.rate, pace.first_rate);
                            pair.add(cell.partner_rate, pace.second_rate);
                        }
                    }
                }
            }
        }
        LearningSample {
            at_seconds: now.seconds(),
            observations: self.observations,
            solo_error_ratio: solo.mean(),
            pair_error_ratio: pair.mean(),
        }
    }
}

#[derive(Default)]
struct Errors {
    sum: f64,
    cells: u64,
}

impl Errors {
    fn add(&mut self, guess: f64, truth: f64) {
        if guess.is_finite() && truth > 0.0 {
            self.sum += (guess / truth - 1.0).abs();
            self.cells += 1;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.cells > 0).then(|| self.sum / self.cells as f64)
    }
}
