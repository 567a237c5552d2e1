//! Figures of one scene: rates and power, each with its standard error.
//!
//! The time of a scene is cut into blocks; the spread of the blocks' figures says how far their mean may be off. Blocks rather than single readings,
//! because what follows within a second is alike: checkpoints, data loading, clocks.

use arles_engine::GpuReading;
use serde::Serialize;
use std::time::Instant;

/// Blocks that a scene is cut into.
const BLOCKS: usize = 5;
/// Counts that a rate takes.
pub(super) const LEAST_COUNTS: usize = 3;

/// A mean and its relative standard error; the latter `None` where there are too few blocks to tell.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) mean: f64,
    pub(super) standard_error: Option<f64>,
}

impl Figure {
    /// Of increments over stretches of time, blocked: the mean is the whole increment by the whole time.
    fn of_stretches(stretches: &[(f64, f64)]) -> Option<Self> {
        let total = |part: &[(f64, f64)]| part.iter().fold((0.0, 0.0), |(s, a), (x, y)| (s + x, a + y));
        let (seconds, amount) = total(stretches);
        if seconds <= 0.0 {
            return None;
        }
        let mean = amount / seconds;
        // Cut by time, not by number: stretches may differ in length.
        let mut blocks: Vec<(f64, f64)> = vec![(0.0, 0.0); BLOCKS];
        let mut passed = 0.0;
        for (stretch, more) in stretches {
            let at = ((passed + stretch / 2.0) / seconds * BLOCKS as f64) as usize;
            let block = &mut blocks[at.min(BLOCKS - 1)];
            *block = (block.0 + stretch, block.1 + more);
            passed += stretch;
        }
        let rates: Vec<f64> = blocks.iter().filter(|block| block.0 > 0.0).map(|(s, a)| a / s).collect();
        let standard_error = (rates.len() >= 3 && mean > 0.0).then(|| {
            let n = rates.len() as f64;
            let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (n - 1.0);
            (variance / n).sqrt() / mean
        });
        Some(Self { mean, standard_error })
    }

    /// Steps per second, from counts and when they came.
    pub(super) fn rate(counts: &[(Instant, f64)]) -> Option<Self> {
        if counts.len() < LEAST_COUNTS {
            return None;
        }
        let stretch = |pair: &[(Instant, f64)]| ((pair[1].0 - pair[0].0).as_secs_f64(), pair[1].1 - pair[0].1);
        Self::of_stretches(&counts.windows(2).map(stretch).collect::<Vec<_>>())
    }

    /// Watts, from readings and when they were taken: by the card's counter where it has one, else by its present draw.
    pub(super) fn watts(readings: &[(Instant, GpuReading)]) -> Option<Self> {
        let stretch = |pair: &[(Instant, GpuReading)]| {
            let seconds = (pair[1].0 - pair[0].0).as_secs_f64();
            let counted = pair[1].1.joules.zip(pair[0].1.joules).map(|(after, before)| after - before);
            (seconds, counted.unwrap_or(pair[1].1.watts * seconds))
        };
        Self::of_stretches(&readings.windows(2).map(stretch).collect::<Vec<_>>())
    }
}

/// What the card's own counters say of a scene, on average; features for estimators.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Counters {
    pub(super) utilisation: Option<f64>,
    pub(super) memory_utilisation: Option<f64>,
    pub(super) memory_gib: Option<f64>,
    pub(super) clock_mhz: Option<f64>,
    /// Share of the readings at which the power limit held the clock back.
    pub(super) power_capped: Option<f64>,
}

impl Counters {
    pub(super) fn of(readings: &[(Instant, GpuReading)]) -> Self {
        let mean = |field: fn(&GpuReading) -> Option<f64>| {
            let all: Vec<f64> = readings.iter().filter_map(|(_, reading)| field(reading)).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        };
        Self {
            utilisation: mean(|reading| reading.utilisation),
            memory_utilisation: mean(|reading| reading.memory_utilisation),
            memory_gib: mean(|reading| reading.memory_gib),
            clock_mhz: mean(|reading| reading.clock_mhz),
            power_capped: mean(|reading| Some(f64::from(u8::from(reading.power_capped)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn a_steady_program_has_its_rate_and_no_error() {
        let start = Instant::now();
        let counts: Vec<(Instant, f64)> =
            (0..50).map(|i| (start + Duration::from_millis(100 * i), 10.0 * i as f64)).collect();
        let rate = Figure::rate(&counts).expect("enough counts");
        assert!(close(rate.mean, 100.0) && rate.standard_error.is_some_and(|e| e < 1e-9), "{rate:?}");
        assert_eq!(Figure::rate(&counts[..2]), None, "two counts are one stretch, and that says nothing of the spread");
    }

    #[test]
    fn a_program_that_stutters_has_an_error_that_says_so() {
        let start = Instant::now();
        let mut steps = 0.0;
        let counts: Vec<(Instant, f64)> = (0..100)
            .map(|i| {
                steps += if (i / 20) % 2 == 0 { 2.0 } else { 1.0 };
                (start + Duration::from_millis(100 * i), steps)
            })
            .collect();
        let rate = Figure::rate(&counts).expect("enough counts");
        assert!((14.0..17.0).contains(&rate.mean), "{rate:?}");
        assert!(rate.standard_error.is_some_and(|e| e > 0.1), "{rate:?}");
    }

    #[test]
    fn power_comes_from_the_counter_where_there_is_one() {
        let start = Instant::now();
        let readings = |counted: bool| -> Vec<(Instant, GpuReading)> {
            let reading = |i: u64| GpuReading {
                watts: 500.0,
                joules: counted.then_some(30.0 * i as f64),
                utilisation: Some(0.5),
                ..GpuReading::default()
            };
            (0..40).map(|i| (start + Duration::from_millis(100 * i), reading(i))).collect()
        };
        assert!(close(Figure::watts(&readings(true)).expect("readings").mean, 300.0));
        assert!(close(Figure::watts(&readings(false)).expect("readings").mean, 500.0));
        let counters = Counters::of(&readings(true));
        assert_eq!((counters.utilisation, counters.memory_gib), (Some(0.5), None));
        assert_eq!(Figure::watts(&[]), None);
    }
}
