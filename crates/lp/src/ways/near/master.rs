//! The mean of answers that fits the capacities and draws least: a column for every part of the users in every answer, a row for every part and every resource.
//!
//! ```text
//! minimise Σ λ_tg draw_tg     Σ_t λ_tg ≥ 1  every part g     Σ_tg λ_tg used_tgj ≤ m_j     λ ≥ 0
//! ```
//!
//! Users are in a few parts, each with weights of its own: with one part for all it takes many more answers until the mean is near, with a part for each the program is large.

use super::level::Answers;
use super::small::Small;

/// Parts of users.
pub(super) const PARTS: usize = 24;
/// A mean that uses more than there is by more than this part is none, and the last one stays.
const FITS: f64 = 1e-5;

/// The program, and its last answer.
pub(super) struct Master {
    capacity: Vec<f64>,
    /// Resources that are there.
    here: Vec<usize>,
    /// What costs are counted in.
    unit: f64,
    /// By column: what it draws, in units; and what it uses, as a part of what is there.
    draw: Vec<f64>,
    used: Vec<f64>,
    /// λ, answer by answer, part by part.
    pub(super) weights: Vec<f64>,
    small: Small,
}

impl Master {
    /// Of answers that draw about as much as this in all.
    pub(super) fn new(capacity: &[f64], draw: f64) -> Self {
        Self {
            here: (0..capacity.len()).filter(|&j| capacity[j] > 0.0).collect(),
            capacity: capacity.to_vec(),
            unit: draw / PARTS as f64,
            draw: Vec::new(),
            used: Vec::new(),
            weights: Vec::new(),
            small: Small::default(),
        }
    }

    pub(super) fn add(&mut self, answers: &Answers) {
        self.draw.extend(answers.draw.iter().map(|draw| draw / self.unit));
        for used in answers.used.chunks_exact(self.capacity.len()) {
            self.used.extend(self.here.iter().map(|&j| used[j] / self.capacity[j]));
        }
        // The first fits.
        let first = if self.weights.is_empty() { 1.0 } else { 0.0 };
        self.weights.extend([first; PARTS]);
    }

    /// Finds the mean, and says what it draws.
    pub(super) fn mix(&mut self) -> f64 {
        let (columns, rows) = (self.draw.len(), self.here.len());
        self.small.start(self.draw.iter().copied());
        for part in 0..PARTS {
            self.small.add_row((0..columns).map(|c| if c % PARTS == part { -1.0 } else { 0.0 }), -1.0);
        }
        for at in 0..rows {
            self.small.add_row(self.used.iter().skip(at).step_by(rows).copied(), 1.0);
        }
        if self.small.solve() {
            let mut weights: Vec<f64> = (0..columns).map(|c| self.small.value(c)).collect();
            for part in 0..PARTS {
                let all: f64 = weights.iter().skip(part).step_by(PARTS).sum();
                weights.iter_mut().skip(part).step_by(PARTS).for_each(|weight| *weight /= all);
            }
            let used =
                |at: usize| self.used.iter().skip(at).step_by(rows).zip(&weights).map(|(u, w)| u * w).sum::<f64>();
            if (0..rows).all(|at| used(at) <= 1.0 + FITS) {
                self.weights = weights;
            }
        }
        self.unit * self.weights.iter().zip(&self.draw).map(|(weight, draw)| weight * draw).sum::<f64>()
    }

    /// What the last mean says that a unit of each resource is worth.
    pub(super) fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.capacity.len()];
        for (at, &j) in self.here.iter().enumerate() {
            prices[j] = self.small.dual(PARTS + at) * self.unit / self.capacity[j];
        }
        prices
    }
}
