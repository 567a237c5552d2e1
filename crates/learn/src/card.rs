//! Cards that are slower than their kind, found from what is left over when every cell has its rate.
//!
//! Estimates are of kinds. A card that is throttled, badly cooled or used by somebody else as well is slower than they say, whatever
//! runs on it. So the logarithm of a measured rate is taken apart:
//!
//! ```text
//! ln rate = level of the cell + deviation of the card + error
//! ```
//!
//! Levels may be anything; deviations are about 0. A look is one step of Kalman's filter that moves both at once, each by its own
//! part of the variance (their covariance is left out, so that the state is a pair of numbers a cell and a card and not a
//! matrix). Only differences between cards can be seen: a card is judged by the [`norm`] of its kind, the upper median of all cards that
//! were looked at. With two cards that is the faster one; one card alone has nothing to be compared with.
//!
//! Looks at one run share what is peculiar to that run (its input, its host's other work). So a look counts with three times the error of a
//! measurement, a run with [`LOOKS_PER_RUN`] looks at most, and nobody is called slow before its second run.

use serde::{Deserialize, Serialize};

/// Looks at one run of one job that count.
pub const LOOKS_PER_RUN: u8 = 4;
/// Runs after which a card may be called slow.
const LEAST_RUNS: u32 = 2;
/// Relative error of one look.
const LOOK_ERROR: f64 = 3.0 * crate::catalog::MEASUREMENT_ERROR;
/// By how much cards of one kind differ, before anything is known of them.
const CARD_SPREAD: f64 = 0.05;
/// By how much a card or a level may have changed since the last look.
const DRIFT: f64 = 0.004;
/// A card is slow below this part of its kind's speed, and no longer above the other.
const SLOW_BELOW: f64 = 0.95;
const WELL_ABOVE: f64 = 0.97;
/// Standard errors that a slow card must be away from its kind.
const SURE: f64 = 3.0;

/// What is known of a cell: the logarithm of its rate on a card like most.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Level {
    mean: f64,
    variance: f64,
}

/// What is known of a card: by how much the logarithm of any rate on it differs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Card {
    deviation: f64,
    variance: f64,
    runs: u32,
    slow: bool,
}

impl Default for Card {
    fn default() -> Self {
        Self { deviation: 0.0, variance: CARD_SPREAD * CARD_SPREAD, runs: 0, slow: false }
    }
}

/// A card's speed by that of its kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RelativeSpeed {
    /// 1 for a card like most.
    pub ratio: f64,
    /// Relative standard error.
    pub standard_error: f64,
    /// Runs that it was judged by.
    pub runs: u32,
}

/// The card that others of its kind are judged by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Norm {
    deviation: f64,
    variance: f64,
}

/// Takes in a rate that was measured on a card. A rate that is no positive number says nothing.
pub fn look(level: &mut Option<Level>, card: &mut Card, rate: f64, first_of_its_run: bool) {
    let seen = rate.ln();
    if !seen.is_finite() {
        return;
    }
    card.runs = card.runs.saturating_add(u32::from(first_of_its_run));
    let error = LOOK_ERROR * LOOK_ERROR;
    let Some(level) = level else {
        // The first look at a cell says what its level is, and nothing of the card.
        *level = Some(Level { mean: seen - card.deviation, variance: card.variance + error });
        return;
    };
    level.variance += DRIFT * DRIFT;
    card.variance = (card.variance + DRIFT * DRIFT).min(CARD_SPREAD * CARD_SPREAD);
    let surprise = seen - level.mean - card.deviation;
    let whole = level.variance + card.variance + error;
    let (of_level, of_card) = (level.variance / whole, card.variance / whole);
    level.mean += of_level * surprise;
    level.variance *= 1.0 - of_level;
    card.deviation += of_card * surprise;
    card.variance *= 1.0 - of_card;
}

/// What cards of one kind are judged by; `None` while fewer than two were looked at.
#[must_use]
pub fn norm<'c>(cards: impl Iterator<Item = &'c Card>) -> Option<Norm> {
    let mut cards: Vec<(f64, f64)> = cards.filter(|card| card.runs > 0).map(|c| (c.deviation, c.variance)).collect();
    let (count, middle) = (cards.len(), cards.len() / 2);
    if count < 2 {
        return None;
    }
    let (_, &mut (deviation, _), _) = cards.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0));
    let variance = cards.iter().map(|(_, variance)| variance).sum::<f64>() / (count * (count - 1)) as f64;
    Some(Norm { deviation, variance })
}

impl Card {
    /// Its speed by its kind's.
    #[must_use]
    pub fn relative_to(&self, norm: &Norm) -> RelativeSpeed {
        RelativeSpeed {
            ratio: (self.deviation - norm.deviation).exp(),
            standard_error: (self.variance + norm.variance).sqrt(),
            runs: self.runs,
        }
    }

    /// Whether it is known to be slower than its kind, by the last judgement.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.slow
    }

    /// Judges it; `true` if it became slow by this, or is no longer.
    pub fn judge(&mut self, norm: &Norm) -> bool {
        let speed = self.relative_to(norm);
        let surely = speed.ratio.ln() + SURE * speed.standard_error < 0.0;
        let slow = match self.slow {
            true => speed.ratio < WELL_ABOVE,
            false => speed.ratio < SLOW_BELOW && surely && self.runs >= LEAST_RUNS,
        };
        std::mem::replace(&mut self.slow, slow) != slow
    }
}

#[cfg(test)]
mod tests;
