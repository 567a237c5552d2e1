//! The performance model alone: features in, rates out, nothing learned.

use crate::ground::Ground;
use crate::method::{Belief, Method, Shell};
use crate::shift::UNKNOWN_PART;
use crate::table::{Setting, Unfit};
use arles_core::estimate::Estimator;
use arles_core::model;

/// Makes one.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, Unfit> {
    Ok(Box::new(Shell::new(Ground::new(setting), Modelled)))
}

#[derive(Clone)]
struct Modelled;

/// How far the model is from measured rates alone, as a rule.
pub(crate) const ALONE_STANDARD_ERROR: f64 = 0.6;
/// And beside a partner.
const PAIR_STANDARD_ERROR: f64 = 0.35;

impl Method for Modelled {
    fn alone(&self, ground: &Ground, thing: usize, kind: usize) -> Belief {
        Belief { ln: alone(ground, thing, kind).unwrap_or(0.0), standard_error: ALONE_STANDARD_ERROR, refined: false }
    }

    fn beside(&self, ground: &Ground, thing: usize, other: usize, kind: usize) -> Belief {
        let ln = beside(ground, thing, other, kind).unwrap_or(UNKNOWN_PART.ln());
        Belief { ln, standard_error: PAIR_STANDARD_ERROR, refined: false }
    }
}

/// ln steps/s alone, by the model; `None` without features.
pub(crate) fn alone(ground: &Ground, thing: usize, kind: usize) -> Option<f64> {
    let w = ground.things()[thing].features.as_ref()?;
    model::alone(w, ground.roomy(kind), 1, false).map(|p| p.rate.ln())
}

/// ln of what a partner leaves, by the model; `None` without features of both.
pub(crate) fn beside(ground: &Ground, thing: usize, other: usize, kind: usize) -> Option<f64> {
    let features = |t: usize| ground.things()[t].features.as_ref();
    let together = model::beside(features(thing)?, features(other)?, ground.roomy(kind))?;
    Some((together.own.ln() - alone(ground, thing, kind)?).min(0.0))
}
