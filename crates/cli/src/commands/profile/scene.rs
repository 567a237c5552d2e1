//! Scenes: who runs, under which limit, and what was measured of them.

use super::figures::{Counters, Figure, LEAST_COUNTS};
use super::program::Program;
use super::{Ended, Failed};
use anyhow::Result;
use arles_engine::{Card, GpuReading, Nvidia, PowerLimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two readings of the card.
const EVERY: Duration = Duration::from_millis(100);
/// How many times longer than asked a scene may take until enough counts have come.
const LONGEST: u32 = 4;

/// Who runs, by number, and the power limit; `None` is the one that the card came with.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scene {
    pub(super) running: Vec<usize>,
    pub(super) limit: Option<f64>,
}

/// What a scene came to.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Measured {
    /// Programs by name, each with its rate in steps per second.
    pub(super) rates: Vec<(String, Figure)>,
    pub(super) limit: Option<f64>,
    pub(super) watts: Option<Figure>,
    pub(super) counters: Counters,
}

/// The programs and what is needed to measure them.
pub(super) struct Stage {
    pub(super) programs: Vec<Program>,
    pub(super) power: Option<PowerLimit>,
    pub(super) card: Option<(Nvidia, Card)>,
    pub(super) interrupted: Arc<AtomicBool>,
    pub(super) seconds: Duration,
    pub(super) settle: Duration,
}

impl Stage {
    /// Waits until every program has counted some steps and has run for a while after, then holds all still.
    pub(super) fn warm_up(&mut self, warmup: Duration, patience: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            let counted = |program: &Program| program.counts_since(began).get(LEAST_COUNTS - 1).map(|count| count.0);
            let first: Option<Vec<Instant>> = self.programs.iter().map(counted).collect();
            if first.is_some_and(|all| all.into_iter().all(|at| at.elapsed() >= warmup)) {
                break;
            }
            if began.elapsed() > patience + warmup {
                let silent = self.programs.iter().find(|program| counted(program).is_none());
                let name = silent.map_or("a program", |program| &program.name);
                return Err(Failed(format!(
                    "{name} has printed no counts of steps for {:.0} s; expected lines like 'step 100', or name their form with --pattern",
                    began.elapsed().as_secs_f64()
                ))
                .into());
            }
            self.pause(EVERY)?;
        }
        self.programs.iter().for_each(|program| program.run(false));
        Ok(())
    }

    pub(super) fn play(&mut self, scene: &Scene) -> Result<Measured> {
        if let Some(power) = &mut self.power {
            power.set(scene.limit.unwrap_or(power.before_watts())).map_err(Failed)?;
        }
        for (number, program) in self.programs.iter().enumerate() {
            program.run(scene.running.contains(&number));
        }
        self.pause(self.settle)?;
        let began = Instant::now();
        let mut readings: Vec<(Instant, GpuReading)> = Vec::new();
        let enough = |stage: &Self| {
            let counts = |&number: &usize| stage.programs[number].counts_since(began).len();
            scene.running.iter().map(counts).min().is_none_or(|least| least >= LEAST_COUNTS)
        };
        while began.elapsed() < self.seconds || (!enough(self) && began.elapsed() < self.seconds * LONGEST) {
            if let Some((nvidia, card)) = &self.card {
                readings
                    .push((Instant::now(), nvidia.look(&card.uuid).map_err(|trouble| Failed(trouble.to_string()))?));
            }
            self.pause(EVERY)?;
        }
        let mut rates = Vec::new();
        for &number in &scene.running {
            let program = &self.programs[number];
            let counts = program.counts_since(began);
            let rate = Figure::rate(&counts).ok_or_else(|| {
                Failed(format!(
                    "{} printed {} counts of steps in {:.0} s, and a rate takes {LEAST_COUNTS}; print them more often, or measure longer with --seconds",
                    program.name,
                    counts.len(),
                    began.elapsed().as_secs_f64()
                ))
            })?;
            rates.push((program.name.clone(), rate));
        }
        for &number in &scene.running {
            self.programs[number].run(false);
        }
        let (watts, mut counters) = (Figure::watts(&readings), Counters::of(&readings));
        // Those that are held still keep their memory; of several nobody can say whose it is.
        counters.memory_gib = counters.memory_gib.filter(|_| self.programs.len() == 1);
        Ok(Measured { rates, limit: scene.limit, watts, counters })
    }

    /// Waits, unless somebody wants it to end or a program has.
    fn pause(&mut self, length: Duration) -> Result<()> {
        let until = Instant::now() + length;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Ended(130).into());
            }
            self.programs.iter_mut().try_for_each(Program::must_run)?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(EVERY));
        }
    }
}
