//! Draws of clusters with and without a slow card.

use super::*;
use crate::rng::Rng;
use std::collections::BTreeMap;

/// Cards, workloads, and runs of the latter on the former with errors as they are measured.
struct Draw {
    random: Rng,
    cards: Vec<Card>,
    /// True speeds.
    speeds: Vec<f64>,
    levels: BTreeMap<usize, Option<Level>>,
}

/// About N(0, 1).
fn normal(random: &mut Rng) -> f64 {
    (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0
}

impl Draw {
    fn new(seed: u64, speeds: Vec<f64>) -> Self {
        Self {
            random: Rng::new(seed, "cards"),
            cards: vec![Card::default(); speeds.len()],
            speeds,
            levels: BTreeMap::new(),
        }
    }

    /// A run of any workload on any card, 3 % of its own and 3 % of each look's.
    fn run(&mut self) {
        let workload = self.random.below(5);
        let card = self.random.below(self.cards.len());
        let own = 0.03 * normal(&mut self.random);
        for n in 0..LOOKS_PER_RUN {
            let rate = (1.0 + workload as f64) * self.speeds[card] * (own + 0.03 * normal(&mut self.random)).exp();
            look(self.levels.entry(workload).or_default(), &mut self.cards[card], rate, n == 0);
            if let Some(norm) = norm(self.cards.iter()) {
                self.cards[card].judge(&norm);
            }
        }
    }

    fn slow(&self) -> Vec<usize> {
        (0..self.cards.len()).filter(|&card| self.cards[card].is_slow()).collect()
    }
}

#[test]
fn cards_that_are_alike_are_not_called_slow() {
    let mut called = 0;
    for seed in 0..100 {
        let mut draw = Draw::new(seed, vec![1.0; 16]);
        for _ in 0..160 {
            draw.run();
            called += usize::from(!draw.slow().is_empty());
        }
    }
    assert!(called < 16, "{called} times after one of 16,000 runs some card was called slow");
}

#[test]
fn a_card_at_85_hundredths_is_found_and_no_other() {
    for cards in [2, 4, 16] {
        let (mut found_after, slow) = (Vec::new(), cards / 2);
        for seed in 0..100 {
            let mut speeds = vec![1.0; cards];
            speeds[slow] = 0.85;
            let mut draw = Draw::new(seed, speeds);
            let mut found = None;
            for runs in 1..=40 * cards {
                draw.run();
                assert!(draw.slow().iter().all(|&card| card == slow), "seed {seed}: {:?} of {cards}", draw.slow());
                found = found.or((!draw.slow().is_empty()).then_some(runs));
            }
            found_after.push(found.unwrap_or_else(|| panic!("seed {seed}: not found among {cards}")));
            let speed = draw.cards[slow].relative_to(&norm(draw.cards.iter()).expect("cards"));
            assert!((speed.ratio / 0.85).ln().abs() < 0.05, "{speed:?}");
        }
        found_after.sort_unstable();
        assert!(found_after[50] <= 8 * cards, "among {cards}, half are found within {} runs", found_after[50]);
    }
}

#[test]
fn a_card_that_is_well_again_is_no_longer_slow() {
    let mut draw = Draw::new(1, vec![1.0, 1.0, 0.7, 1.0]);
    for _ in 0..40 {
        draw.run();
    }
    assert_eq!(draw.slow(), [2]);
    draw.speeds[2] = 1.0;
    for _ in 0..400 {
        draw.run();
    }
    assert_eq!(draw.slow(), [] as [usize; 0]);
}

#[test]
fn one_run_convicts_nobody_and_one_card_has_no_kin() {
    let (mut level, mut cards) = (None, [Card::default(); 2]);
    look(&mut level, &mut cards[0], 1.0, true);
    assert_eq!(norm(cards.iter()), None);
    for n in 0..LOOKS_PER_RUN {
        look(&mut level, &mut cards[1], 0.5, n == 0);
        let norm = norm(cards.iter()).expect("two");
        assert!(!cards[1].judge(&norm));
    }
    let before = cards;
    look(&mut level, &mut cards[1], f64::NAN, true);
    look(&mut level, &mut cards[1], 0.0, true);
    assert_eq!(cards, before);
}
