//! What submitters said: stated rates as they are; where nobody said anything, every kind is alike. No pairs.
//!
//! This is what a scheduler without an estimator lives on.

use crate::ground::{Ground, Seen};
use crate::method::{Belief, Method, Shell};
use crate::shift::UNKNOWN_PART;
use crate::table::{Setting, Unfit};
use arles_core::estimate::Estimator;

/// Makes one.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, Unfit> {
    Ok(Box::new(Shell::new(Ground::new(setting), Stated)))
}

#[derive(Clone)]
struct Stated;

impl Method for Stated {
    fn alone(&self, ground: &Ground, thing: usize, kind: usize) -> Belief {
        let stated = |a: usize| {
            let cell = ground.cell(&Seen { thing, partner: None, kind: a, gang: 1 })?;
            (cell.rate > 0.0).then(|| cell.rate.ln())
        };
        let any = || (0..ground.kinds().len()).find_map(stated);
        Belief { ln: stated(kind).or_else(any).unwrap_or(0.0), standard_error: 1.0, refined: false }
    }

    fn beside(&self, _: &Ground, _: usize, _: usize, _: usize) -> Belief {
        Belief { ln: UNKNOWN_PART.ln(), standard_error: 0.6, refined: false }
    }

    fn pairs(&self) -> bool {
        false
    }
}
