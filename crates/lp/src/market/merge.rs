//! Users whose rates are proportional are one user to a market: they agree on what is best at any prices, and
//! whatever they get together can be divided by what each is owed. Merging them is exact, makes small problems of
//! large ones when there are few kinds of users, and removes the ties that equal users are.
//!
//! Rates are divided by the user's greatest: correctly rounded, two rows in an exact proportion become the same bits.
//! A level of `t` for rates `c·w` and weight π is one for `w` and `π/c`; money is not measured in rates and stays.

use super::engine::Goal;

/// Rows looked at before it is decided whether to merge at all.
const LOOK: usize = 2048;
/// An empty place in the table.
const EMPTY: u32 = u32::MAX;

/// Users by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    /// Kinds × resources, the greatest of each row 1.
    pub(super) w: Vec<f64>,
    pub(super) weight: Vec<f64>,
    /// Per user: its kind.
    pub(super) kind: Vec<u32>,
    table: Vec<u32>,
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
        self.table.clear();
        self.table.resize((2 * users).next_power_of_two(), EMPTY);
    }

    /// One more user. The table is open: a taken place sends on to the next.
    fn add(&mut self, goal: Goal, w: &[f64], weight: f64, resources: &[usize]) {
        let k = resources.len();
        let greatest = resources.iter().map(|&j| w[j]).fold(0.0, f64::max);
        self.row.clear();
        self.row.extend(resources.iter().map(|&j| w[j] / greatest));
        let weight = if goal == Goal::EqualLevel { weight / greatest } else { weight };
        let mut hash = 0u64;
        for rate in &self.row {
            hash = (hash ^ rate.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            hash ^= hash >> 29;
        }
        let last = self.table.len() - 1;
        let mut place = hash as usize & last;
        loop {
            let kind = self.table[place];
            if kind == EMPTY {
                self.table[place] = self.weight.len() as u32;
                self.kind.push(self.weight.len() as u32);
                self.w.extend_from_slice(&self.row);
                self.weight.push(weight);
                return;
            }
            if self.w[kind as usize * k..][..k] == self.row {
                self.kind.push(kind);
                self.weight[kind as usize] += weight;
                return;
            }
            place = (place + 1) & last;
        }
    }
}
