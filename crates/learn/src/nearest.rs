//! The nearest: a newcomer does what the most similar measured workload does, shifted by what was measured of it.
//!
//! "Similar" is the plain distance of Ψ. Where the nearest lacks a cell, the next one answers.

use crate::ground::Ground;
use crate::method::{Belief, Method, Shell};
use crate::shift::{self, Role, UNKNOWN_PART};
use crate::table::{Setting, Unfit};
use arles_core::estimate::Estimator;

/// Makes one.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, Unfit> {
    Ok(Box::new(Shell::new(Ground::new(setting), Nearest)))
}

#[derive(Clone)]
struct Nearest;

const PAIR_STANDARD_ERROR: f64 = 0.25;

impl Method for Nearest {
    fn alone(&self, ground: &Ground, thing: usize, kind: usize) -> Belief {
        let copy = |a: usize| {
            ground.near(thing).iter().map(|&(k, _)| ground.alone(k, a)).find(|ln| ln.is_finite()).unwrap_or(0.0)
        };
        let shift = shift::alone(ground, thing, copy);
        let standard_error = if shift.is_some() { 0.3 } else { 0.7 };
        Belief { ln: copy(kind) + shift.unwrap_or(0.0), standard_error, refined: shift.is_some() }
    }

    fn beside(&self, ground: &Ground, thing: usize, other: usize, kind: usize) -> Belief {
        let (role, newcomer, other) = shift::roles(ground, thing, other);
        let copied = copy(ground, role, newcomer, other, kind);
        let shift = shift::beside(ground, role, newcomer, kind, |p, a| copy(ground, role, newcomer, p, a));
        Belief { ln: copied + shift.unwrap_or(0.0), standard_error: PAIR_STANDARD_ERROR, refined: shift.is_some() }
    }
}

fn copy(ground: &Ground, role: Role, newcomer: usize, other: usize, kind: usize) -> f64 {
    let near = ground.near(newcomer).iter().map(|&(k, _)| shift::relative(ground, role, k, other, kind));
    near.into_iter().find(|ln| ln.is_finite()).unwrap_or(UNKNOWN_PART.ln())
}
