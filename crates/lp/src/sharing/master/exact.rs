//! A level to the last digit, for the few users of whom the interior point cannot say whether they can rise.
//!
//! An interior point leaves the level short of its optimum by some parts in ten million. A user whose dual is small gains ten thousand times
//! as much as that by others' loss, so whether it can rise or only seems to cannot be told from such a solution. With `F` the users that keep the level
//! they have,
//!
//! ```text
//! maximise t      rates_i ≥ β_i t  (i ∉ F)      rates_i ≥ β_i f_i  (i ∈ F)      jobs and units as before
//! ```
//!
//! is solved at a vertex, with columns as they are wanted.

use super::{Master, Solution};
use crate::sharing::bound::{self, Duals};
use crate::{Budget, Certificate, ColumnId, Model, ModelError, Outcome, Solver, Status, Vertex};

/// Rounds of column generation.
const MOST_ROUNDS: u32 = 20;
/// The relative gap that makes it exact.
const EXACT: f64 = 1e-10;
/// Levels that are kept give way by this part, so that rounding leaves room for a solution.
const GIVE_WAY: f64 = 1e-12;

impl Master<'_> {
    /// The greatest common level of all groups without an entry in `kept`, where those with one keep their level. `None` if that
    /// cannot be had exactly.
    pub(in crate::sharing) fn exact_level(&mut self, kept: &[Option<f64>], budget: Budget) -> Option<(f64, Solution)> {
        for _ in 0..MOST_ROUNDS {
            let outcome = self.vertex(kept, budget).ok().filter(|outcome| outcome.status == Status::Optimal)?;
            self.rounds += 1;
            let t = outcome.x[0];
            let level = |g: usize| kept[g].unwrap_or(t);
            let b: Vec<f64> = self.groups.iter().enumerate().map(|(g, group)| group.beta * level(g)).collect();
            let (x, mut duals) = (outcome.x[1..].to_vec(), self.duals(&outcome.row_duals));
            let wanted = self.wanted(&duals);
            bound::repair(self.problem, self.groups, &mut duals);
            let bounds = Certificate { lower: t, upper: self.highest(kept, &duals) };
            if bounds.gap() <= EXACT {
                // As if it had been asked how many times this level can be had, like every other program here.
                duals.scale(t.recip());
                let mut x = x;
                let lower = bound::attain(self.problem, self.groups, &self.activities, &mut x, &b);
                let bound = Certificate { lower, upper: bounds.upper / t };
                return Some((t, Solution { activities: self.activities.clone(), x, bound, duals }));
            }
            if wanted.is_empty() {
                return None;
            }
            self.admit(&wanted);
        }
        None
    }

    /// The level that the duals allow.
    fn highest(&self, kept: &[Option<f64>], duals: &Duals) -> f64 {
        let (mut left, mut slope) = (duals.right, 0.0);
        for ((group, lambda), kept) in self.groups.iter().zip(&duals.lambda).zip(kept) {
            match kept {
                Some(level) => left -= lambda * group.beta * level,
                None => slope += lambda * group.beta,
            }
        }
        left / slope
    }

    /// Solves the program over the activities at hand; its columns are t and the activities, its rows rates, jobs, units.
    fn vertex(&self, kept: &[Option<f64>], budget: Budget) -> Result<Outcome, ModelError> {
        let (n, k) = (self.groups.len(), self.problem.capacity.len());
        let mut model = Model::maximise();
        let t = model.add_column(0.0, f64::INFINITY, 1.0)?;
        let mut rows: Vec<Vec<(ColumnId, f64)>> = vec![Vec::new(); 2 * n + k];
        for activity in &self.activities {
            let x = model.add_column(0.0, f64::INFINITY, 0.0)?;
            let mut add = |g: usize, rate: f64| {
                rows[g].push((x, rate / self.unit(g)));
                rows[n + g].push((x, 1.0 / self.groups[g].jobs));
            };
            add(activity.first, activity.rates.0);
            if let Some(second) = activity.second {
                add(second, activity.rates.1);
            }
            let need = if activity.second.is_none() { self.groups[activity.first].need } else { 1.0 };
            rows[2 * n + activity.resource].push((x, need / self.problem.capacity[activity.resource]));
        }
        for (g, mut terms) in rows.drain(..n).enumerate() {
            let beta = self.groups[g].beta / self.unit(g);
            let least = kept[g].map_or(0.0, |level| beta * level * (1.0 - GIVE_WAY));
            if kept[g].is_none() {
                terms.push((t, -beta));
            }
            model.add_row(least, f64::INFINITY, &terms)?;
        }
        for terms in &rows {
            model.add_row(f64::NEG_INFINITY, 1.0, terms)?;
        }
        Ok(Vertex.solve(&model, budget))
    }
}
