//! Worlds that are not as the performance model says: every number is its own, and always the same.
//!
//! An estimator that is built on the model would be right by construction in a world that is made by it. So a world may deviate:
//!
//! ```text
//! solo rate of w on k        r(w,k)·exp(rate_sd·N)            one factor for all gang sizes
//! w's rate beside p on k     r'(w,k)·clamp(q·exp(pair_sd·N), 0.05, 1)     r' the solo rate above, q = model's r(w,k,p)/r(w,k)
//! watts                      idle + (model's − idle)·exp(watts_sd·N), no more than the kind's limit
//! ```
//!
//! Each N is a standard normal drawn by hashing the seed and the names it belongs to. So it does not depend on what was asked
//! before, on the order of workloads or on which others there are; and {w, p} is one pair, whoever is named first. Where a deviation
//! is 0 its numbers are the model's to the last bit.

use crate::rng::Rng;
use arles_core::Kind;

/// How far a world is from the model: standard deviations of natural logarithms.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Deviation {
    /// Decides every draw.
    pub seed: u64,
    /// Relative deviation of rates alone.
    pub rate_sd: f64,
    /// Of what a partner leaves of them.
    pub pair_sd: f64,
    /// Of the power above idle.
    pub watts_sd: f64,
}

/// More would be no world: e^2 is a factor of seven.
const MOST: f64 = 2.0;
/// What a partner leaves, at the least.
const LEAST_SHARE: f64 = 0.05;

impl Deviation {
    /// Why this is no deviation, if it is none.
    pub(super) fn fault(&self) -> Option<String> {
        let parts = [("rate_sd", self.rate_sd), ("pair_sd", self.pair_sd), ("watts_sd", self.watts_sd)];
        let (name, sd) = parts.into_iter().find(|(_, sd)| !(0.0..=MOST).contains(sd))?;
        Some(format!("the deviation {name} is {sd}; expected a number from 0 to {MOST}"))
    }

    /// The solo rate, where the model says `rate`.
    pub(super) fn rate(&self, rate: f64, workload: &str, kind: &Kind) -> f64 {
        rate * self.factor(self.rate_sd, ["rate", kind.sold_as(), workload, ""])
    }

    /// A rate beside a partner, where the model says `rate`, and `alone` for the same workload alone.
    pub(super) fn beside(
        &self,
        rate: f64,
        alone: impl FnOnce() -> f64,
        workload: &str,
        partner: &str,
        kind: &Kind,
    ) -> f64 {
        if self.pair_sd == 0.0 {
            return self.rate(rate, workload, kind);
        }
        let alone = alone();
        let share = rate / alone * self.factor(self.pair_sd, ["pair", kind.sold_as(), workload, partner]);
        self.rate(alone, workload, kind) * share.clamp(LEAST_SHARE, 1.0)
    }

    /// The draw of a GPU with these workloads on it (the second empty where there is one), where the model says `watts`.
    pub(super) fn watts(&self, watts: f64, one: &str, two: &str, kind: &Kind) -> f64 {
        if self.watts_sd == 0.0 {
            return watts;
        }
        let (first, second) = if one <= two { (one, two) } else { (two, one) };
        let active = (watts - kind.idle_watts) * self.factor(self.watts_sd, ["watts", kind.sold_as(), first, second]);
        (kind.idle_watts + active).min(kind.max_watts.max(watts))
    }

    /// exp(sd·N), N by these names; no name has a line break in it.
    fn factor(&self, sd: f64, names: [&str; 4]) -> f64 {
        if sd == 0.0 { 1.0 } else { (sd * Rng::new(self.seed).fork(&names.join("\n")).normal()).exp() }
    }
}
