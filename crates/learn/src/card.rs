//! A card that is slower than its kind, found from what was measured on it against what was expected.
//!
//! Every rate on a card is e^κ of what its kind would give. With κ ~ N(0, 0.05²) and cells c of which the mean of n measurements lies r_c = κ + ε_c above
//! what was expected, ε_c ~ N(0, s_c² + 0.03²/n), s_c the standard error of the expectation:
//!
//! ```text
//! precision = 1/0.05² + Σ 1/(s_c² + 0.03²/n_c),     mean = Σ r_c/(s_c² + 0.03²/n_c) / precision
//! ```
//!
//! A job that stays brings the same error of its estimate with every round, so a cell counts once, however often it was measured. A card is called slow
//! when even mean + 2.6 standard errors is below −3 %.

use crate::catalog::MEASUREMENT_ERROR;
use std::collections::BTreeMap;

/// Spread of sound cards of a kind.
const CARDS: f64 = 0.05;
/// How sure one must be, in standard errors, and of how much.
const SURE: f64 = 2.6;
const SLOW: f64 = -0.03;

/// What one card does to rates.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CardEffect {
    /// By cell: sum of ln (measured over expected), how many, standard error of what was expected.
    cells: BTreeMap<String, (f64, f64, f64)>,
}

impl CardEffect {
    /// Takes a measurement in: `cell` names what ran, `expected` is the rate that the kind should give and `standard_error` its relative error (0 for one
    /// that was measured on other cards). What makes no sense changes nothing.
    pub fn observe(&mut self, cell: &str, measured: f64, expected: f64, standard_error: f64) {
        let ln = (measured / expected).ln();
        if ln.is_finite() && standard_error.is_finite() && standard_error >= 0.0 {
            let known = self.cells.entry(cell.to_owned()).or_insert((0.0, 0.0, standard_error));
            *known = (known.0 + ln, known.1 + 1.0, standard_error);
        }
    }

    /// κ and its standard error.
    #[must_use]
    pub fn ln_speed(&self) -> (f64, f64) {
        let (mut precision, mut sum) = (1.0 / (CARDS * CARDS), 0.0);
        for (ln, count, standard_error) in self.cells.values() {
            let variance = standard_error * standard_error + MEASUREMENT_ERROR * MEASUREMENT_ERROR / count;
            precision += 1.0 / variance;
            sum += ln / count / variance;
        }
        (sum / precision, 1.0 / precision.sqrt())
    }

    /// What estimates of its kind are multiplied by on this card.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.ln_speed().0.exp()
    }

    /// Whether it is slower than its kind beyond reasonable doubt.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        let (mean, standard_error) = self.ln_speed();
        mean + SURE * standard_error < SLOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// About N(0, 1).
    fn normal(random: &mut Rng) -> f64 {
        (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0
    }

    /// Rounds until a card of this speed is called slow, of 200; cells change every fourth round and are expected with this error.
    fn rounds(speed: f64, error: f64, seed: u64) -> Option<usize> {
        let mut random = Rng::new(seed, "card");
        let mut card = CardEffect::default();
        let mut expected = 1.0;
        for round in 0..200 {
            if round % 4 == 0 {
                expected = (error * normal(&mut random)).exp();
            }
            let measured = speed * (MEASUREMENT_ERROR * normal(&mut random)).exp();
            card.observe(&format!("cell {}", round / 4), measured, expected, error);
            if card.is_slow() {
                return Some(round + 1);
            }
        }
        None
    }

    #[test]
    fn a_slow_card_is_found_and_a_sound_one_is_not_accused() {
        for (error, most) in [(0.0, 8), (0.05, 100), (0.1, 200)] {
            let mut found: Vec<usize> = (0..60).map(|seed| rounds(0.9, error, seed).unwrap_or(200)).collect();
            found.sort_unstable();
            assert!(found[30] <= most, "{error}: {found:?}");
        }
        let accused = (0..400).filter(|&seed| rounds(1.0, 0.05, seed).is_some()).count();
        assert!(accused <= 2, "{accused} of 400");
    }

    #[test]
    fn estimates_follow_the_card_and_nonsense_changes_nothing() {
        let mut card = CardEffect::default();
        for _ in 0..50 {
            card.observe("a", 0.8, 1.0, 0.0);
        }
        assert!((card.factor() - 0.8).abs() < 0.01 && card.is_slow());
        let before = card.clone();
        for (measured, expected, error) in [(0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, f64::NAN), (-1.0, 1.0, 0.1)] {
            card.observe("a", measured, expected, error);
        }
        assert_eq!(card, before);
        assert_eq!(CardEffect::default().factor(), 1.0);
    }
}
