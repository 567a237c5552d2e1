//! The two networks as an estimator.

use super::first::{First, RECURRENT};
use super::net::Shape;
use super::second::{Second, Seen as Measured, telling};
use super::standard_error::StandardErrors;
use super::witness::{Case, Likeness};
use crate::draw::Draw;
use crate::ground::Ground;
use crate::method::{Belief, Method, Shell};
use crate::modelled;
use crate::shift::{self, UNKNOWN_PART};
use crate::solo;
use crate::table::{Setting, Unfit};
use arles_core::estimate::Estimator;
use std::sync::Arc;

/// Standard error of the performance model, which speaks where nobody else can.
const MODEL_STANDARD_ERROR: f64 = 0.6;

/// What does not change once it is trained.
struct Networks {
    likeness: Likeness,
    first: First,
    second: Second,
    standard_errors: StandardErrors,
}

#[derive(Clone)]
struct Pair(Arc<Networks>);

pub(super) fn make(setting: &Setting<'_>, recurrent: bool) -> Result<Box<dyn Estimator>, Unfit> {
    let ground = Ground::new(setting);
    let networks = train(&ground, setting, recurrent)
        .map_err(|e| Unfit(format!("the tensor library refused to train: {e}; use 'learned', which does without")))?;
    Ok(Box::new(Shell::new(ground, Pair(Arc::new(networks)))))
}

fn train(ground: &Ground, setting: &Setting<'_>, recurrent: bool) -> candle_core::Result<Networks> {
    let likeness = Likeness::new(ground);
    let mut draw = Draw::new(setting.seed, "published");
    let shape = if recurrent { RECURRENT } else { Shape::Forward };
    let (first, pasts) = First::train(ground, &likeness, shape, &mut draw, &|done| (setting.progress)(0.8 * done))?;
    (setting.progress)(0.8);
    let (second, after) = Second::train(&likeness, &pasts, &mut draw)?;
    let standard_errors = StandardErrors::new(ground.kinds().len(), &pasts, &after);
    (setting.progress)(1.0);
    Ok(Networks { likeness, first, second, standard_errors })
}

impl Networks {
    /// P1: the belief of both roles, and whether the new workload's family was heard; `None` where nobody speaks for it.
    fn first(&self, ground: &Ground, case: Case) -> Option<([f64; 2], bool)> {
        let witnesses = self.likeness.witnesses(ground, case, &|t| t != case.i);
        let kin = witnesses.first().is_some_and(|w| self.likeness.family[w.k] == self.likeness.family[case.i]);
        Some((self.first.believe(&self.likeness, case, &witnesses)?, kin))
    }

    /// The pairs of a workload that were measured, with what P1 believed of them.
    fn measured(&self, ground: &Ground, case: Case) -> Vec<Measured> {
        if ground.met(case.i) == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        for a in 0..ground.kinds().len() {
            for j in 0..ground.things().len() {
                let measured = [ground.relative(case.i, j, a), ground.relative(j, case.i, a)];
                if measured.iter().any(|m| m.is_finite()) {
                    found.push((Case { i: case.i, j, a }, measured));
                }
            }
        }
        let telling = telling(&self.likeness, case, found);
        let of = |(seen, measured): (Case, [f64; 2])| {
            let (believed, _) = self.first(ground, seen)?;
            Some(Measured { case: seen, believed, measured })
        };
        telling.into_iter().filter_map(of).collect()
    }
}

impl Method for Pair {
    fn alone(&self, ground: &Ground, thing: usize, kind: usize) -> Belief {
        solo::alone(ground, thing, kind)
    }

    fn beside(&self, ground: &Ground, thing: usize, other: usize, kind: usize) -> Belief {
        let nets = &self.0;
        let (role, i, j) = shift::roles(ground, thing, other);
        let case = Case { i, j, a: kind };
        let Some((believed, kin)) = nets.first(ground, case) else {
            let ln = modelled::beside(ground, thing, other, kind).unwrap_or(UNKNOWN_PART.ln());
            return Belief { ln, standard_error: MODEL_STANDARD_ERROR, refined: false };
        };
        let seen = nets.measured(ground, case);
        let here = seen.iter().any(|s| s.case.a == kind);
        let belief = nets.second.refine(&nets.likeness, case, believed, &seen);
        Belief {
            ln: belief[role.index()],
            standard_error: nets.standard_errors.of(here, kin, kind),
            refined: !seen.is_empty(),
        }
    }
}
