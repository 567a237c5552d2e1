//! Traces from a seed.
//!
//! Jobs arrive by a Poisson process, at a constant rate λ or one that swings over the day,
//!
//! ```text
//! λ(t) = λ (1 + a sin(2π t / 24 h)),      0 ≤ a ≤ 1,
//! ```
//!
//! which is drawn by thinning: arrivals at the highest rate λ(1 + a), each kept with probability λ(t) / λ(1 + a).
//! Lengths are heavy-tailed as those of published traces are (see [`Durations`]). All else (tenant, gang,
//! workload, floor) is drawn from a [`Mix`], each from a stream of its own, so that changing one leaves the others
//! as they were. Same options, same seed: same jobs.
//!
//! The generator is an iterator and keeps nothing: a million jobs can be written as they are made.

mod durations;

pub use durations::Durations;

use super::mix::{form, number};
use super::{Floor, Length, Mix, OptionError, Trace, TraceJob};
use crate::rng::Rng;
use arles_core::Tenant;
use std::f64::consts::TAU;
use std::str::FromStr;

const DAY_SECONDS: f64 = 86_400.0;
const HOUR_SECONDS: f64 = 3_600.0;

/// When jobs arrive. As text: `at-once`, `poisson:PER_HOUR`, `diurnal:PER_HOUR:AMPLITUDE`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// All at the beginning.
    AtOnce,
    /// At a constant rate.
    Poisson {
        /// Mean number of jobs in an hour.
        per_hour: f64,
    },
    /// At a rate that swings over the day, highest six hours in and lowest at eighteen.
    Diurnal {
        /// Mean number of jobs in an hour, over whole days.
        per_hour: f64,
        /// Swing about the mean, between 0 (none) and 1 (down to nothing).
        amplitude: f64,
    },
}

impl Arrivals {
    /// The same pattern at another mean rate; jobs that arrive at once still do.
    #[must_use]
    pub fn at_rate(self, per_hour: f64) -> Self {
        match self {
            Self::AtOnce => self,
            Self::Poisson { .. } => Self::Poisson { per_hour },
            Self::Diurnal { amplitude, .. } => Self::Diurnal { per_hour, amplitude },
        }
    }

    fn check(self) -> Result<(), OptionError> {
        let (per_hour, amplitude) = match self {
            Self::AtOnce => return Ok(()),
            Self::Poisson { per_hour } => (per_hour, 0.0),
            Self::Diurnal { per_hour, amplitude } => (per_hour, amplitude),
        };
        if !(per_hour > 0.0 && per_hour.is_finite()) {
            return Err(OptionError::new(format!("{per_hour} jobs per hour never arrive; expected more than 0")));
        }
        if !(0.0..=1.0).contains(&amplitude) {
            let message = format!("amplitude {amplitude} of the day's swing cannot be used; expected 0 to 1");
            return Err(OptionError::new(message));
        }
        Ok(())
    }

    /// Seconds of the next arrival after `now`.
    fn next(self, now: f64, rng: &mut Rng) -> f64 {
        match self {
            Self::AtOnce => now,
            Self::Poisson { per_hour } => now + rng.exponential(HOUR_SECONDS / per_hour),
            Self::Diurnal { per_hour, amplitude } => {
                let highest = per_hour * (1.0 + amplitude);
                let mut t = now;
                loop {
                    t += rng.exponential(HOUR_SECONDS / highest);
                    let rate = per_hour * (1.0 + amplitude * (TAU * t / DAY_SECONDS).sin());
                    if rng.chance(rate / highest) {
                        return t;
                    }
                }
            }
        }
    }
}

impl FromStr for Arrivals {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let forms = [("at-once", ""), ("poisson", "PER_HOUR"), ("diurnal", "PER_HOUR:AMPLITUDE")];
        let (name, arguments) = form(text, &forms)?;
        let numbers: Vec<f64> = arguments
            .iter()
            .map(|a| number(a, &format!("a part of '{text}'"), "0 or more", 0.0))
            .collect::<Result<_, _>>()?;
        let arrivals = match (name, numbers.as_slice()) {
            ("poisson", &[per_hour]) => Self::Poisson { per_hour },
            ("diurnal", &[per_hour, amplitude]) => Self::Diurnal { per_hour, amplitude },
            _ => Self::AtOnce,
        };
        arrivals.check().map(|()| arrivals)
    }
}

/// A tenant that submits jobs. As text: `NAME`, `NAME:WEIGHT` or `NAME:WEIGHT:DEMAND`.
#[derive(Clone, PartialEq, Debug)]
pub struct Submitter {
    /// Unique name.
    pub name: String,
    /// What it is entitled to, relative to the others.
    pub weight: f64,
    /// How many jobs it submits, relative to the others; its weight unless given.
    pub demand: f64,
}

impl FromStr for Submitter {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let (name, weight, demand) = match parts[..] {
            [name] => (name, "1", "1"),
            [name, weight] => (name, weight, weight),
            [name, weight, demand] => (name, weight, demand),
            _ => {
                return Err(OptionError::new(format!(
                    "tenant '{text}' has too many parts; expected NAME:WEIGHT:DEMAND"
                )));
            }
        };
        if name.is_empty() {
            return Err(OptionError::new(format!("tenant '{text}' has no name; expected NAME:WEIGHT:DEMAND")));
        }
        let weight = number(weight, &format!("the weight of tenant '{name}'"), "more than 0", f64::MIN_POSITIVE)?;
        let demand = number(demand, &format!("the demand of tenant '{name}'"), "0 or more", 0.0)?;
        Ok(Self { name: name.to_owned(), weight, demand })
    }
}

/// Reads `a:1,b:2:5` into tenants.
///
/// # Errors
/// When a part is no tenant.
pub fn submitters(text: &str) -> Result<Vec<Submitter>, OptionError> {
    text.split(',').map(|part| part.trim().parse()).collect()
}

/// What a job may be promised. As text: `none` or a fraction of its rate alone on the reference kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Promise(pub Option<f64>);

impl FromStr for Promise {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "none" => Ok(Self(None)),
            _ => {
                number(text, "a floor", "more than 0, or none", f64::MIN_POSITIVE).map(|fraction| Self(Some(fraction)))
            }
        }
    }
}

/// What to generate. Every field has a default that can be run.
#[derive(Clone, PartialEq, Debug)]
pub struct GenerateOptions {
    /// How many jobs.
    pub jobs: u64,
    /// What decides every draw.
    pub seed: u64,
    /// When they arrive.
    pub arrivals: Arrivals,
    /// How long they would take alone on the reference kind (inference: how long they serve).
    pub durations: Durations,
    /// Who submits them.
    pub tenants: Vec<Submitter>,
    /// GPUs held at once.
    pub gangs: Mix<u32>,
    /// What training jobs run.
    pub workloads: Mix<String>,
    /// What training jobs are promised.
    pub floors: Mix<Promise>,
    /// Share of jobs that serve for a period instead of running steps, 0 to 1.
    pub inference: f64,
    /// What inference jobs run; `None` takes from `workloads`.
    pub inference_workloads: Option<Mix<String>>,
    /// What inference jobs are promised.
    pub inference_floors: Mix<Promise>,
}

/// One workload of each family that has been measured in public, by the names of the published tables.
pub(super) fn default_workloads() -> Mix<String> {
    let names = [
        "ResNet-18 (batch size 64)",
        "ResNet-50 (batch size 64)",
        "Transformer (batch size 64)",
        "LM (batch size 20)",
        "Recommendation (batch size 2048)",
        "CycleGAN",
        "A3C",
    ];
    Mix::of(names.map(|name| (name.to_owned(), 1.0)))
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            jobs: 1000,
            seed: 0,
            arrivals: Arrivals::Poisson { per_hour: 20.0 },
            durations: Durations::default(),
            tenants: vec![Submitter { name: "default".into(), weight: 1.0, demand: 1.0 }],
            gangs: Mix::of([(1, 70.0), (2, 15.0), (4, 10.0), (8, 5.0)]),
            workloads: default_workloads(),
            floors: Mix::only(Promise(None)),
            inference: 0.0,
            inference_workloads: None,
            inference_floors: Mix::only(Promise(Some(0.5))),
        }
    }
}

impl GenerateOptions {
    /// Mean GPU seconds of a job, on the reference kind.
    #[must_use]
    pub fn mean_gpu_seconds(&self) -> f64 {
        self.durations.mean_seconds * self.gangs.mean(|&gang| f64::from(gang))
    }

    /// The arrival rate that offers `load` times what `gpus` GPUs of the reference kind can do.
    ///
    /// Load = arrivals per second × mean GPU seconds of a job / GPUs.
    #[must_use]
    pub fn per_hour_for_load(&self, gpus: u32, load: f64) -> f64 {
        load * f64::from(gpus) * HOUR_SECONDS / self.mean_gpu_seconds()
    }

    /// These options at the arrival rate that offers `load` to `gpus` GPUs of the reference kind.
    #[must_use]
    pub fn with_load(mut self, gpus: u32, load: f64) -> Self {
        self.arrivals = self.arrivals.at_rate(self.per_hour_for_load(gpus, load));
        self
    }

    fn check(&self) -> Result<(), OptionError> {
        self.arrivals.check()?;
        self.durations.check()?;
        if self.gangs.values().contains(&0) {
            return Err(OptionError::new("a gang of 0 GPUs cannot run; expected 1 or more"));
        }
        if !(0.0..=1.0).contains(&self.inference) {
            let message = format!("{} of the jobs cannot be inference; expected a share of 0 to 1", self.inference);
            return Err(OptionError::new(message));
        }
        for (i, tenant) in self.tenants.iter().enumerate() {
            if self.tenants[..i].iter().any(|other| other.name == tenant.name) {
                return Err(OptionError::new(format!("tenant '{}' occurs twice; name it once", tenant.name)));
            }
        }
        Ok(())
    }
}

/// Makes the jobs of a trace one after another.
#[derive(Clone, Debug)]
pub struct Generator {
    options: GenerateOptions,
    names: Trace,
    demands: Mix<u32>,
    /// Indices of the workloads into `names`, training and inference.
    training: Mix<u32>,
    serving: Mix<u32>,
    durations: durations::Sampler,
    streams: Streams,
    made: u64,
    now_seconds: f64,
}

/// One stream of random numbers for each thing that is drawn.
#[derive(Clone, Debug)]
struct Streams {
    arrivals: Rng,
    durations: Rng,
    tenants: Rng,
    gangs: Rng,
    modes: Rng,
    workloads: Rng,
    floors: Rng,
}

impl Generator {
    /// Checks the options and stands before the first job.
    ///
    /// # Errors
    /// When an option has a value that cannot be drawn from.
    pub fn new(options: GenerateOptions) -> Result<Self, OptionError> {
        options.check()?;
        let mut workloads = Vec::new();
        let training = indexed(&options.workloads, &mut workloads);
        let serving = indexed(options.inference_workloads.as_ref().unwrap_or(&options.workloads), &mut workloads);
        let tenants = options.tenants.iter().map(|t| Tenant { name: t.name.clone(), weight: t.weight }).collect();
        let names = Trace { tenants, workloads, kinds: Vec::new(), jobs: Vec::new() };
        let demands = Mix::new((0..).zip(&options.tenants).map(|(i, tenant)| (i, tenant.demand)))
            .map_err(|_| OptionError::new("no tenant submits anything; give one a demand of more than 0"))?;
        let rng = Rng::new(options.seed);
        let streams = Streams {
            arrivals: rng.fork("arrivals"),
            durations: rng.fork("durations"),
            tenants: rng.fork("tenants"),
            gangs: rng.fork("gangs"),
            modes: rng.fork("modes"),
            workloads: rng.fork("workloads"),
            floors: rng.fork("floors"),
        };
        let durations = options.durations.sampler();
        Ok(Self { options, names, durations, demands, training, serving, streams, made: 0, now_seconds: 0.0 })
    }

    /// The tenants and workloads that jobs refer to, without any job: what [`csv::Writer`](super::csv::Writer) needs.
    #[must_use]
    pub fn names(&self) -> &Trace {
        &self.names
    }

    /// All jobs that are left, as a trace.
    #[must_use]
    pub fn into_trace(mut self) -> Trace {
        let mut trace = std::mem::take(&mut self.names);
        trace.jobs = self.collect();
        trace
    }
}

/// A mix of indices into `names`, which grows by what it does not have yet.
fn indexed(mix: &Mix<String>, names: &mut Vec<String>) -> Mix<u32> {
    mix.map(|name| {
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.clone());
            names.len() - 1
        });
        at as u32
    })
}

impl Iterator for Generator {
    type Item = TraceJob;

    fn next(&mut self) -> Option<TraceJob> {
        if self.made == self.options.jobs {
            return None;
        }
        let (options, draw) = (&self.options, &mut self.streams);
        self.now_seconds = options.arrivals.next(self.now_seconds, &mut draw.arrivals);
        let seconds = self.durations.draw(&mut draw.durations);
        let inference = draw.modes.chance(options.inference);
        let (length, workloads, floors) = if inference {
            (Length::Period(seconds), &self.serving, &options.inference_floors)
        } else {
            (Length::Duration(seconds), &self.training, &options.floors)
        };
        let job = TraceJob {
            id: self.made,
            tenant: *self.demands.draw(&mut draw.tenants),
            workload: *workloads.draw(&mut draw.workloads),
            gang: *options.gangs.draw(&mut draw.gangs),
            arrival_seconds: self.now_seconds,
            length,
            floor: floors.draw(&mut draw.floors).0.map(Floor::Fraction),
            weight: 1.0,
            restart_seconds: None,
            before_seconds: None,
            largest_gang: None,
            kinds: Vec::new(),
        };
        self.made += 1;
        Some(job)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.options.jobs - self.made).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests;
