//! The inverse of the kernel: dense, row by row (a row per basic column, a column per active row), changed by one
//! rank at a time and computed afresh from the sparse kernel when rounding has eaten into it.
//!
//! Afresh means: eliminate with the sparsest column first and, in it, the shortest row whose entry is not small
//! (kernels here are nearly triangular, so this costs little more than their entries), then solve for every unit
//! vector, which is what fills the inverse.

/// `K⁻¹`.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    size: usize,
    stride: usize,
    inverse: Vec<f64>,
}

impl Kernel {
    /// The entry for a basic column and an active row.
    pub(super) fn at(&self, b: usize, a: usize) -> f64 {
        self.inverse[b * self.stride + a]
    }

    fn row(&self, b: usize) -> &[f64] {
        &self.inverse[b * self.stride..][..self.size]
    }

    fn row_mut(&mut self, b: usize) -> &mut [f64] {
        &mut self.inverse[b * self.stride..][..self.size]
    }

    /// `out += factor · (row b)`.
    pub(super) fn add_row(&self, b: usize, factor: f64, out: &mut [f64]) {
        add(out, factor, self.row(b));
    }

    /// `y = c_B K⁻¹`.
    pub(super) fn left(&self, basic: &[u32], costs: &[f64], y: &mut Vec<f64>) {
        y.clear();
        y.resize(self.size, 0.0);
        for (b, &j) in basic.iter().enumerate() {
            if costs[j as usize] != 0.0 {
                add(y, costs[j as usize], self.row(b));
            }
        }
    }

    /// `u = K⁻¹ g` for a column `g` given by its rows, of which only the active ones count.
    pub(super) fn right(&self, column: &[(u32, f64)], active_at: &[u32], u: &mut Vec<f64>) {
        u.clear();
        u.resize(self.size, 0.0);
        for &(r, g) in column {
            let a = active_at[r as usize];
            if a != super::NONE {
                for (b, u) in u.iter_mut().enumerate() {
                    *u += g * self.inverse[b * self.stride + a as usize];
                }
            }
        }
    }

    /// Active row `a` gives way to one with `ρ = G_rB K⁻¹`.
    pub(super) fn replace_row(&mut self, a: usize, rho: &[f64]) {
        let unit = 1.0 / rho[a];
        for b in 0..self.size {
            let row = self.row_mut(b);
            let x = row[a] * unit;
            if x != 0.0 {
                add(row, -x, rho);
            }
            row[a] = x;
        }
    }

    /// Basic column `b` gives way to one with `u = K⁻¹ g`.
    pub(super) fn replace_column(&mut self, b: usize, u: &[f64]) {
        let unit = 1.0 / u[b];
        self.row_mut(b).iter_mut().for_each(|x| *x *= unit);
        let pivot = self.row(b).to_vec();
        for (other, &u) in u.iter().enumerate() {
            if other != b && u != 0.0 {
                add(self.row_mut(other), -u, &pivot);
            }
        }
    }

    /// A row and a column join; `schur` is what is left of their common entry.
    pub(super) fn join(&mut self, u: &[f64], rho: &[f64], schur: f64) {
        let s = self.size;
        self.reserve(s + 1);
        let unit = 1.0 / schur;
        for (b, &u) in u.iter().enumerate() {
            if u != 0.0 {
                add(self.row_mut(b), u * unit, rho);
            }
            self.inverse[b * self.stride + s] = -u * unit;
        }
        self.size = s + 1;
        let last = self.row_mut(s);
        for (x, rho) in last.iter_mut().zip(rho) {
            *x = -rho * unit;
        }
        last[s] = unit;
    }

    /// Basic column `b` and active row `a` leave; the last of each takes the place.
    pub(super) fn leave(&mut self, b: usize, a: usize) {
        let last = self.size - 1;
        let pivot = self.row(b).to_vec();
        let unit = 1.0 / pivot[a];
        for other in 0..self.size {
            let row = self.row_mut(other);
            let x = row[a] * unit;
            if other != b && x != 0.0 {
                add(row, -x, &pivot);
            }
            row[a] = row[last];
        }
        if b != last {
            let (head, tail) = self.inverse.split_at_mut(last * self.stride);
            head[b * self.stride..][..last].copy_from_slice(&tail[..last]);
        }
        self.size = last;
    }

    fn reserve(&mut self, size: usize) {
        if size <= self.stride {
            return;
        }
        let stride = (size * 3 / 2 + 16).next_multiple_of(8);
        let mut inverse = vec![0.0; stride * stride];
        for b in 0..self.size {
            inverse[b * stride..][..self.size].copy_from_slice(self.row(b));
        }
        (self.inverse, self.stride) = (inverse, stride);
    }

    /// Inverts the kernel whose row `a` has `entries(a)`; false if it is singular.
    pub(super) fn invert<I: Iterator<Item = (u32, f64)>>(&mut self, size: usize, entries: impl Fn(usize) -> I) -> bool {
        let Some(factors) = Factors::of((0..size).map(|a| entries(a).collect()).collect()) else {
            return false;
        };
        self.size = 0;
        self.reserve(size);
        self.size = size;
        let (mut work, mut solution) = (vec![0.0; size], vec![0.0; size]);
        for a in 0..size {
            work.fill(0.0);
            work[a] = 1.0;
            factors.solve(&mut work, &mut solution);
            for (b, &x) in solution.iter().enumerate() {
                self.inverse[b * self.stride + a] = x;
            }
        }
        true
    }
}

fn add(out: &mut [f64], factor: f64, row: &[f64]) {
    for (out, x) in out.iter_mut().zip(row) {
        *out += factor * x;
    }
}

/// One step of the elimination.
struct Step {
    row: u32,
    column: u32,
    pivot: f64,
    /// Rows from which a multiple of the pivot row was taken.
    below: Vec<(u32, f64)>,
    /// The pivot row, without the pivot.
    rest: Vec<(u32, f64)>,
}

/// The sparse factors of a kernel.
struct Factors {
    steps: Vec<Step>,
}

impl Factors {
    fn of(mut rows: Vec<Vec<(u32, f64)>>) -> Option<Self> {
        let size = rows.len();
        // Which rows a column is in; rows that lost the entry or are done are skipped when met.
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); size];
        for (r, row) in rows.iter().enumerate() {
            row.iter().for_each(|&(c, _)| members[c as usize].push(r as u32));
        }
        let mut open: Vec<u32> = (0..size as u32).collect();
        let mut done = vec![false; size];
        let mut at: Vec<u32> = vec![super::NONE; size];
        let mut steps = Vec::with_capacity(size);
        while !open.is_empty() {
            let (place, &c) = open.iter().enumerate().min_by_key(|&(_, &c)| members[c as usize].len())?;
            open.swap_remove(place);
            let mut inside: Vec<(u32, f64)> = Vec::new();
            for &r in &members[c as usize] {
                if !done[r as usize]
                    && let Some(&(_, x)) = rows[r as usize].iter().find(|e| e.0 == c)
                {
                    inside.push((r, x));
                }
            }
            let largest = inside.iter().fold(0.0, |a: f64, e| a.max(e.1.abs()));
            if largest < 1e-14 {
                return None;
            }
            let good = inside.iter().filter(|e| e.1.abs() >= 0.1 * largest);
            let &(r, pivot) = good.min_by_key(|e| rows[e.0 as usize].len())?;
            done[r as usize] = true;
            let rest: Vec<(u32, f64)> = rows[r as usize].iter().copied().filter(|e| e.0 != c).collect();
            let mut below = Vec::new();
            for &(other, x) in inside.iter().filter(|e| e.0 != r) {
                let factor = x / pivot;
                subtract(&mut rows[other as usize], other, c, factor, &rest, &mut at, &mut members);
                below.push((other, factor));
            }
            for &(c, _) in &rest {
                members[c as usize].retain(|&m| m != r);
            }
            steps.push(Step { row: r, column: c, pivot, below, rest });
        }
        Some(Self { steps })
    }

    /// The solution (by column) for a right-hand side (by row), which is used up.
    fn solve(&self, work: &mut [f64], solution: &mut [f64]) {
        for step in &self.steps {
            let x = work[step.row as usize];
            if x != 0.0 {
                step.below.iter().for_each(|&(r, factor)| work[r as usize] -= factor * x);
            }
        }
        for step in self.steps.iter().rev() {
            let known: f64 = step.rest.iter().map(|&(c, x)| x * solution[c as usize]).sum();
            solution[step.column as usize] = (work[step.row as usize] - known) / step.pivot;
        }
    }
}

/// `row −= factor · (pivot row)`, dropping the entry in column `c`. `at` is scratch, all [`super::NONE`] between calls.
fn subtract(
    row: &mut Vec<(u32, f64)>,
    name: u32,
    c: u32,
    factor: f64,
    rest: &[(u32, f64)],
    at: &mut [u32],
    members: &mut [Vec<u32>],
) {
    row.retain(|e| e.0 != c);
    for (place, e) in row.iter().enumerate() {
        at[e.0 as usize] = place as u32;
    }
    let old = row.len();
    for &(column, x) in rest {
        match at[column as usize] {
            super::NONE => {
                row.push((column, -factor * x));
                members[column as usize].push(name);
            }
            place => row[place as usize].1 -= factor * x,
        }
    }
    for e in &row[..old] {
        at[e.0 as usize] = super::NONE;
    }
}
