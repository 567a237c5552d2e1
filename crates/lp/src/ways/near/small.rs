//! A dual simplex for small programs: one user's, some tens of columns and a handful of rows, a thousand times in a few milliseconds; and the master's, some hundreds of
//! columns and some tens of rows.
//!
//! ```text
//! minimise c·y   subject to   G y ≤ h,   y ≥ 0        c ≥ 0
//! ```
//!
//! The dictionary is kept whole, `s = b − T ξ` and `z = d·ξ + const` for the basic `s` and the others `ξ`, which are 0: `d ≥ 0` throughout, and a row with
//! `b < 0` leaves for the column that keeps it so. Rows may be added at any time. [`crate::simplex`] is for programs of which a dictionary would be too large.

/// A row is broken if it is exceeded by this, everything being about 1.
const BROKEN: f64 = 1e-10;
/// No pivot is smaller than this.
const PIVOT: f64 = 1e-9;
/// A column may be dearer by this than it should be, costs being about 1.
const DEARER: f64 = 1e-10;
/// Pivots in one solve.
const PIVOTS: usize = 2_000;

/// A program and where it stands; one is used again and again.
#[derive(Clone, Debug, Default)]
pub(super) struct Small {
    columns: usize,
    /// Row by row, with `b` after the columns; then d.
    t: Vec<f64>,
    d: Vec<f64>,
    /// Which variable stands in a row, and which in a column: columns are numbered first, then the rows' slacks.
    basic: Vec<u32>,
    other: Vec<u32>,
    /// Where each variable stands.
    at: Vec<Place>,
    pivot_row: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Row(u32),
    Column(u32),
}

impl Small {
    /// A program without rows.
    pub(super) fn start(&mut self, costs: impl Iterator<Item = f64>) {
        self.d.clear();
        self.d.extend(costs);
        self.columns = self.d.len();
        self.t.clear();
        self.basic.clear();
        self.at.clear();
        self.other.clear();
        self.other.extend(0..self.columns as u32);
        self.at.extend((0..self.columns as u32).map(Place::Column));
    }

    /// Adds `Σ g_c y_c ≤ right`.
    pub(super) fn add_row(&mut self, terms: impl Iterator<Item = f64>, right: f64) {
        let (n, width) = (self.columns, self.columns + 1);
        let from = self.t.len();
        self.t.resize(from + width, 0.0);
        let (known, row) = self.t.split_at_mut(from);
        row[n] = right;
        for (c, g) in terms.enumerate() {
            match self.at[c] {
                Place::Column(at) => row[at as usize] += g,
                Place::Row(at) => {
                    let of = &known[at as usize * width..][..width];
                    row.iter_mut().zip(of).for_each(|(t, of)| *t -= g * of);
                }
            }
        }
        let name = (self.columns + self.basic.len()) as u32;
        self.at.push(Place::Row(self.basic.len() as u32));
        self.basic.push(name);
    }

    /// Pivots until no row is broken; false if none of that would do.
    pub(super) fn solve(&mut self) -> bool {
        let width = self.columns + 1;
        for _ in 0..PIVOTS {
            let mut worst = (-BROKEN, None);
            for (row, t) in self.t.chunks_exact(width).enumerate() {
                if t[self.columns] < worst.0 {
                    worst = (t[self.columns], Some(row));
                }
            }
            let Some(row) = worst.1 else { return true };
            let t = &self.t[row * width..][..self.columns];
            // Of all columns that are hardly dearer than the cheapest, the one with the largest pivot (Harris).
            let columns = || t.iter().zip(&self.d).enumerate().filter(|(_, (t, _))| **t < -PIVOT);
            let most = columns().map(|(_, (t, d))| (d + DEARER) / -t).fold(f64::INFINITY, f64::min);
            let mut least = (PIVOT, None);
            for (column, (t, d)) in columns() {
                if -t > least.0 && *d <= most * -t {
                    least = (-t, Some(column));
                }
            }
            let Some(column) = least.1 else { return false };
            self.pivot(row, column);
        }
        false
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let width = self.columns + 1;
        let Self { t, d, pivot_row, .. } = self;
        pivot_row.clear();
        pivot_row.extend_from_slice(&t[row * width..][..width]);
        let unit = 1.0 / pivot_row[column];
        pivot_row.iter_mut().for_each(|t| *t *= unit);
        pivot_row[column] = unit;
        for (other, t) in t.chunks_exact_mut(width).enumerate() {
            if other == row {
                t.copy_from_slice(pivot_row);
                continue;
            }
            let factor = std::mem::take(&mut t[column]);
            if factor != 0.0 {
                t.iter_mut().zip(pivot_row.iter()).for_each(|(t, p)| *t -= factor * p);
            }
        }
        let factor = std::mem::take(&mut d[column]);
        if factor != 0.0 {
            // What rounding leaves below 0 is 0.
            d.iter_mut().zip(pivot_row.iter()).for_each(|(d, p)| *d = f64::max(*d - factor * p, 0.0));
        }
        let (leaves, enters) = (self.basic[row], self.other[column]);
        (self.basic[row], self.other[column]) = (enters, leaves);
        self.at[enters as usize] = Place::Row(row as u32);
        self.at[leaves as usize] = Place::Column(column as u32);
    }

    /// The value of a column.
    pub(super) fn value(&self, column: usize) -> f64 {
        match self.at[column] {
            Place::Row(row) => self.t[row as usize * (self.columns + 1) + self.columns].max(0.0),
            Place::Column(_) => 0.0,
        }
    }

    /// By how much the objective would fall if the right side of a row were one higher.
    pub(super) fn dual(&self, row: usize) -> f64 {
        match self.at[self.columns + row] {
            Place::Row(_) => 0.0,
            Place::Column(column) => self.d[column as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Small;
    use crate::Status;
    use crate::simplex::Simplex;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Rows added in two parts, against the large simplex: the same least cost, no row broken, and duals that prove it.
        #[test]
        fn small_meets_the_large_simplex(
            costs in prop::collection::vec(0.0..3.0f64, 1..30),
            cells in prop::collection::vec(prop_oneof![1 => Just(0.0), 3 => 0.05..3.0f64], 300),
            rights in prop::collection::vec(0.0..2.0f64, 1..10),
        ) {
            let n = costs.len();
            let row = |r: usize| -> Vec<f64> {
                let sign = if r == 0 { -1.0 } else { 1.0 };
                (0..n).map(|c| sign * cells[(r * n + c) % cells.len()]).collect()
            };
            let rows: Vec<(Vec<f64>, f64)> =
                rights.iter().enumerate().map(|(r, h)| (row(r), if r == 0 { -1.0 } else { *h })).collect();
            let mut small = Small::default();
            small.start(costs.iter().copied());
            let half = rows.len().div_ceil(2);
            rows[..half].iter().for_each(|(g, h)| small.add_row(g.iter().copied(), *h));
            small.solve();
            rows[half..].iter().for_each(|(g, h)| small.add_row(g.iter().copied(), *h));
            let found = small.solve();
            let mut large = Simplex::new(&costs.iter().map(|c| -c).collect::<Vec<f64>>());
            for (g, h) in &rows {
                large.add_row(&g.iter().enumerate().map(|(c, g)| (c as u32, *g)).collect::<Vec<_>>(), *h);
            }
            match large.solve(10_000) {
                Status::Optimal => {
                    prop_assert!(found);
                    let cost: f64 = costs.iter().enumerate().map(|(c, cost)| cost * small.value(c)).sum();
                    prop_assert!((cost + large.objective()).abs() <= 1e-7 * (1.0 + cost), "{cost} against {}", -large.objective());
                    for (g, h) in &rows {
                        let used: f64 = g.iter().enumerate().map(|(c, g)| g * small.value(c)).sum();
                        prop_assert!(used <= h + 1e-8, "{used} where there is {h}");
                    }
                    let proved: f64 = rows.iter().enumerate().map(|(r, (_, h))| -h * small.dual(r)).sum();
                    prop_assert!((proved - cost).abs() <= 1e-7 * (1.0 + cost), "{proved} of {cost}");
                }
                Status::Infeasible => prop_assert!(!found),
                _ => {}
            }
        }
    }
}
