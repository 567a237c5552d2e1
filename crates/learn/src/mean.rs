//! The mean: a newcomer is like the average of all that were measured, shifted by what was measured of it.
//!
//! Beside partner j: the mean over known k of what j leaves of k. Alone: the mean of ln steps/s on that kind. The yardstick
//! that anything cleverer has to beat.

use crate::ground::Ground;
use crate::method::{Belief, Method, Shell};
use crate::shift::{self, Role, UNKNOWN_PART, moments};
use crate::table::{Setting, Unfit};
use arles_core::estimate::Estimator;

/// Makes one.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, Unfit> {
    Ok(Box::new(Shell::new(Ground::new(setting), Mean)))
}

#[derive(Clone)]
struct Mean;

/// Standard error of a rate alone before anything was measured of a workload: a factor of e².
const ABSOLUTE_STANDARD_ERROR: f64 = 2.0;
/// And after.
const SHIFTED_STANDARD_ERROR: f64 = 0.6;
const LEAST_STANDARD_ERROR: f64 = 0.1;

impl Method for Mean {
    fn alone(&self, ground: &Ground, thing: usize, kind: usize) -> Belief {
        alone(ground, thing, kind)
    }

    fn beside(&self, ground: &Ground, thing: usize, other: usize, kind: usize) -> Belief {
        let (role, newcomer, other) = shift::roles(ground, thing, other);
        let (mean, sd) = partner_mean(ground, role, newcomer, other, kind);
        let shift = shift::beside(ground, role, newcomer, kind, |p, a| partner_mean(ground, role, newcomer, p, a).0);
        Belief {
            ln: mean + shift.unwrap_or(0.0),
            standard_error: sd.max(LEAST_STANDARD_ERROR),
            refined: shift.is_some(),
        }
    }
}

/// Mean and spread, over everybody but the newcomer, of what is left beside `other` (or of `other`).
pub(crate) fn partner_mean(ground: &Ground, role: Role, newcomer: usize, other: usize, kind: usize) -> (f64, f64) {
    let known = (0..ground.things().len()).filter(|&k| k != newcomer);
    let beside = known.map(|k| shift::relative(ground, role, k, other, kind));
    moments(beside).unwrap_or((UNKNOWN_PART.ln(), 0.4))
}

/// The mean of ln steps/s on a kind, shifted by what was measured of this one.
pub(crate) fn alone(ground: &Ground, thing: usize, kind: usize) -> Belief {
    let mean = |a: usize| {
        let others = (0..ground.things().len()).filter(|&k| k != thing).map(|k| ground.alone(k, a));
        moments(others).map_or(0.0, |(mean, _)| mean)
    };
    let shift = shift::alone(ground, thing, mean);
    let standard_error = if shift.is_some() { SHIFTED_STANDARD_ERROR } else { ABSOLUTE_STANDARD_ERROR };
    Belief { ln: mean(kind) + shift.unwrap_or(0.0), standard_error, refined: shift.is_some() }
}
