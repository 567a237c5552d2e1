//! The normal matrix `N = M Θ Mᵀ + Ω` of [`super::interior`], and its Cholesky factor `N = L Lᵀ`.
//!
//! A group has two rows, rate and jobs; two groups touch only where a pair of them is among the columns; units touch
//! all. Groups are taken in the order of least degree, as long as that leaves out much of what remains: their columns of
//! `L` are short lists. The rest, the *core*, is dense, and is factored in panels so that the work is products of small
//! blocks held in registers. Rows of units come last.
//!
//! Storage is dense, `(2n + k)²`: not for many thousands of groups.

use super::interior::Column;

/// Columns of `L` that are found before the rest of the matrix hears of them.
const PANEL: usize = 32;
/// The block of the product that stays in registers: rows and columns.
const TALL: usize = 4;
const WIDE: usize = 4;
/// A group is taken while its neighbours are less than this part of the remaining groups.
const SPARSE: f64 = 0.35;

/// The matrix, then its factor.
#[derive(Clone, Debug, Default)]
pub(super) struct Normal {
    size: usize,
    /// Where a row of the program is in the matrix.
    place: Vec<usize>,
    /// For every place before the core, the places below it where `L` is not zero.
    below: Vec<Vec<usize>>,
    /// Values at these places.
    low: Vec<Vec<f64>>,
    /// Row by row; only the lower triangle means anything.
    a: Vec<f64>,
    /// Its diagonal, as it was.
    diagonal: Vec<f64>,
    packed: Vec<f64>,
}

impl Normal {
    /// Finds the order for these columns over `n` groups and `k` resources.
    pub(super) fn analyse(&mut self, n: usize, k: usize, columns: &[Column]) {
        self.size = 2 * n + k;
        let words = n.div_ceil(64);
        let mut near = vec![0u64; n * words];
        for column in columns {
            let [g, h] = column.sides;
            near[g * words + h / 64] |= 1 << (h % 64);
            near[h * words + g / 64] |= 1 << (g % 64);
        }
        for g in 0..n {
            near[g * words + g / 64] &= !(1 << (g % 64));
        }
        let (order, lists) = eliminate(n, words, &mut near);
        self.place = vec![0; self.size];
        for (at, &g) in order.iter().enumerate() {
            (self.place[g], self.place[n + g]) = (2 * at, 2 * at + 1);
        }
        (0..k).for_each(|j| self.place[2 * n + j] = 2 * n + j);
        self.below.clear();
        for (at, list) in lists.iter().enumerate() {
            let mut rows: Vec<usize> = list.iter().flat_map(|&g| [self.place[g], self.place[n + g]]).collect();
            rows.sort_unstable();
            rows.extend(2 * n..self.size);
            self.below.push([&[2 * at + 1], &rows[..]].concat());
            self.below.push(rows);
        }
    }

    /// Writes the matrix for weights `theta` of the columns and `omega` of the rows, and factors it.
    pub(super) fn factor(&mut self, columns: &[Column], theta: &[f64], omega: &[f64]) {
        let size = self.size;
        self.a.clear();
        self.a.resize(size * size, 0.0);
        for (column, &theta) in columns.iter().zip(theta) {
            let terms = column.terms();
            for (e, &(row, m)) in terms.iter().enumerate() {
                let (at, weight) = (self.place[row], theta * m);
                for &(other, m) in &terms[..=e] {
                    let other = self.place[other];
                    self.a[at.max(other) * size + at.min(other)] += weight * m;
                }
            }
        }
        for (row, &omega) in omega.iter().enumerate() {
            self.a[self.place[row] * (size + 1)] += omega;
        }
        self.diagonal.clear();
        self.diagonal.extend((0..size).map(|at| self.a[at * (size + 1)]));
        self.sparse();
        self.core();
    }

    fn sparse(&mut self) {
        let Self { size, below, low, a, diagonal, .. } = self;
        low.resize(below.len(), Vec::new());
        for (v, rows) in below.iter().enumerate() {
            let pivot = root(a[v * *size + v], diagonal[v]);
            a[v * *size + v] = pivot;
            let column = &mut low[v];
            column.clear();
            column.extend(rows.iter().map(|&i| a[i * *size + v] / pivot));
            for (e, (&i, &l)) in rows.iter().zip(column.iter()).enumerate().filter(|(_, (_, l))| **l != 0.0) {
                let row = &mut a[i * *size..][..i + 1];
                for (&j, m) in rows[..=e].iter().zip(column.iter()) {
                    row[j] -= l * m;
                }
            }
        }
    }

    fn core(&mut self) {
        let size = self.size;
        let mut from = self.below.len();
        while from < size {
            let to = (from + PANEL).min(size);
            self.corner(from, to);
            let width = (size - to).next_multiple_of(WIDE);
            self.panel(from, to, width);
            for i in (to..size).step_by(TALL) {
                self.update(i, from, to, width);
            }
            from = to;
        }
    }

    /// The corner `from..to` of `L`, row by row.
    fn corner(&mut self, from: usize, to: usize) {
        let size = self.size;
        for i in from..to {
            let (above, row) = self.a.split_at_mut(i * size);
            for j in from..i {
                let other = &above[j * size..][..=j];
                row[j] = (row[j] - dot(&row[from..j], &other[from..j])) / other[j];
            }
            row[i] = root(row[i] - dot(&row[from..i], &row[from..i]), self.diagonal[i]);
        }
    }

    /// Columns `from..to` of `L` below the corner, all rows at once: column `p` is `packed[p − from]`.
    fn panel(&mut self, from: usize, to: usize, width: usize) {
        let Self { size, a, packed, .. } = self;
        let size = *size;
        packed.clear();
        packed.resize((to - from) * width, 0.0);
        for i in to..size {
            for p in from..to {
                packed[(p - from) * width + i - to] = a[i * size + p];
            }
        }
        for p in from..to {
            let (before, rest) = packed.split_at_mut((p - from) * width);
            let column = &mut rest[..width];
            for q in from..p {
                let l = a[p * size + q];
                let known = &before[(q - from) * width..][..width];
                column.iter_mut().zip(known).for_each(|(a, known)| *a -= l * known);
            }
            let pivot = 1.0 / a[p * size + p];
            column.iter_mut().for_each(|a| *a *= pivot);
        }
        for i in to..size {
            for p in from..to {
                a[i * size + p] = packed[(p - from) * width + i - to];
            }
        }
    }

    /// `a[i][j] −= Σ_p L[i][p] L[j][p]` for some rows from `i`, all `j ≤ i`.
    fn update(&mut self, i: usize, from: usize, to: usize, width: usize) {
        let size = self.size;
        let tall = TALL.min(size - i);
        let mut left = [[0.0; TALL]; PANEL];
        for p in from..to {
            for e in 0..tall {
                left[p - from][e] = self.a[(i + e) * size + p];
            }
        }
        let end = i + tall;
        for j in (to..end).step_by(WIDE) {
            let mut sum = [[0.0; WIDE]; TALL];
            for (p, left) in left[..to - from].iter().enumerate() {
                let right: &[f64] = &self.packed[p * width + (j - to)..][..WIDE];
                for e in 0..TALL {
                    for f in 0..WIDE {
                        sum[e][f] += left[e] * right[f];
                    }
                }
            }
            let wide = WIDE.min(end - j);
            for e in 0..tall {
                let row = &mut self.a[(i + e) * size + j..][..wide];
                row.iter_mut().zip(&sum[e]).for_each(|(a, sum)| *a -= sum);
            }
        }
    }

    /// Solves `N v = g`.
    pub(super) fn solve(&self, g: &[f64]) -> Vec<f64> {
        let (size, core) = (self.size, self.below.len());
        let mut v = vec![0.0; size];
        for (row, g) in g.iter().enumerate() {
            v[self.place[row]] = *g;
        }
        for (at, rows) in self.below.iter().enumerate() {
            v[at] /= self.a[at * (size + 1)];
            let known = v[at];
            rows.iter().zip(&self.low[at]).for_each(|(&i, l)| v[i] -= l * known);
        }
        for i in core..size {
            let row = &self.a[i * size..][..=i];
            v[i] = (v[i] - dot(&row[core..i], &v[core..i])) / row[i];
        }
        for i in (core..size).rev() {
            let row = &self.a[i * size..][..=i];
            v[i] /= row[i];
            let known = v[i];
            v[core..i].iter_mut().zip(&row[core..i]).for_each(|(v, l)| *v -= l * known);
        }
        for (at, rows) in self.below.iter().enumerate().rev() {
            let dot: f64 = rows.iter().zip(&self.low[at]).map(|(&i, l)| l * v[i]).sum();
            v[at] = (v[at] - dot) / self.a[at * (size + 1)];
        }
        self.place.iter().map(|&at| v[at]).collect()
    }
}

/// The root of a pivot. One that rounding has eaten is made so large that its row does not move.
fn root(pivot: f64, diagonal: f64) -> f64 {
    if pivot > 1e-14 * diagonal { pivot.sqrt() } else { 1e60 }
}

/// In lanes, so that one product need not wait for another.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for e in 0..8 {
            lanes[e] += a[e] * b[e];
        }
    }
    rest + lanes.iter().sum::<f64>()
}

/// The order of least degree, and for those before the core their neighbours at that time.
fn eliminate(n: usize, words: usize, near: &mut [u64]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let count = |near: &[u64], g: usize| near[g * words..][..words].iter().map(|w| w.count_ones() as usize).sum();
    let mut degree: Vec<usize> = (0..n).map(|g| count(near, g)).collect();
    let mut left: Vec<usize> = (0..n).collect();
    let (mut order, mut lists) = (Vec::with_capacity(n), Vec::new());
    while let Some((at, &g)) = left.iter().enumerate().min_by_key(|&(_, &g)| (degree[g], g)) {
        if degree[g] as f64 > SPARSE * left.len() as f64 {
            break;
        }
        left.swap_remove(at);
        order.push(g);
        let own = near[g * words..][..words].to_vec();
        let neighbours: Vec<usize> = (0..n).filter(|&h| own[h / 64] >> (h % 64) & 1 == 1).collect();
        for &h in &neighbours {
            let row = &mut near[h * words..][..words];
            row.iter_mut().zip(&own).for_each(|(a, b)| *a |= b);
            row[h / 64] &= !(1 << (h % 64));
            row[g / 64] &= !(1 << (g % 64));
        }
        for &h in &neighbours {
            degree[h] = count(near, h);
        }
        lists.push(neighbours);
    }
    left.sort_unstable();
    order.extend(left);
    (order, lists)
}
