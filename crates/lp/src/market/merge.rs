//! Presolve: users whose rates are proportional are one user to a market. They prefer the same resources at any prices, and
//! what they get together can be divided in proportion to their weights. Merging them is exact, makes large problems with
//! few kinds of users small, and removes the degeneracy of equal users.
//!
//! Rates are divided by the user's largest: correctly rounded, two rows in an exact proportion become the same bits.
//! A level of `t` for rates `c·w` and weight π is one for `w` and `π/c`; incomes are not measured in rates and stay.

use super::engine::Goal;
use crate::distinct::DistinctRows;

/// Rows looked at before it is decided whether to merge at all.
const LOOK: usize = 2048;

/// Users by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    /// Kinds × resources, the greatest of each row 1.
    pub(super) w: Vec<f64>,
    pub(super) weight: Vec<f64>,
    /// Per user: its kind.
    pub(super) kind: Vec<u32>,
    table: DistinctRows,
    row: Vec<f64>,
}

impl Merged {
    /// Merges the users, by their rates on `resources` only. If `only_if_worth`, gives up (and returns false) where a
    /// look at a few users finds most of them unlike.
    pub(super) fn merge(
        &mut self,
        goal: Goal,
        (w, weight): (&[f64], &[f64]),
        (k, resources): (usize, &[usize]),
        only_if_worth: bool,
    ) -> bool {
        let n = weight.len();
        if only_if_worth && n > LOOK {
            self.clear(LOOK);
            for l in (0..n).step_by(n / LOOK).take(LOOK) {
                self.add(goal, &w[l * k..][..k], weight[l], resources);
            }
            if self.weight.len() * 4 > self.kind.len() * 3 {
                return false;
            }
        }
        self.clear(n);
        for (w, &weight) in w.chunks_exact(k).zip(weight) {
            self.add(goal, w, weight, resources);
        }
        true
    }

    fn clear(&mut self, users: usize) {
        self.w.clear();
        self.weight.clear();
        self.kind.clear();
        self.table.reset(users);
    }

    /// One more user.
    fn add(&mut self, goal: Goal, w: &[f64], weight: f64, resources: &[usize]) {
        let greatest = resources.iter().map(|&j| w[j]).fold(0.0, f64::max);
        self.row.clear();
        self.row.extend(resources.iter().map(|&j| w[j] / greatest));
        let weight = if goal == Goal::EqualLevel { weight / greatest } else { weight };
        let (kind, new) = self.table.insert(&mut self.w, &self.row);
        if new {
            self.weight.push(0.0);
        }
        self.kind.push(kind);
        self.weight[kind as usize] += weight;
    }
}
