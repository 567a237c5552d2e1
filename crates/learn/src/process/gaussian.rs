//! Gaussian processes whose covariance is a sum of terms, each with a variance of its own.
//!
//! ```text
//! k(c,c') = g·g'·Σ_t v_t·T_t(c,c')  +  [c=c']·(ν² + n_c)
//! ```
//!
//! g and ν belong to the group of a cell (its kind), n_c to the measurement. [`fit`] finds v, g and ν under which the measurements are most likely, with
//! a prior that keeps them near where they began; [`Posterior`] is exact: L Lᵀ = K by rows, of which another is appended with each
//! measurement, and z = L⁻¹y. With v = L⁻¹k* of a question the answer is the mean v·z and the variance k** − v·v, and both go
//! on from where they were when measurements are appended. So the order of measurements does not matter, and no measurement makes anything less sure.
//!
//! Nothing here knows what a cell is.

use crate::evidence::Evidence;
use std::sync::Arc;

/// What two cells have in common.
pub(super) trait Covariance {
    type Cell: Copy + PartialEq;
    /// T_t by t: how far two cells are alike, 1 for a cell and itself unless a term says otherwise.
    fn terms(&self, evidence: &Evidence, one: &Self::Cell, two: &Self::Cell, out: &mut [f64]);
    /// Whose g and ν count.
    fn group(&self, cell: &Self::Cell) -> usize;
    /// n_c: variance of the measurement beyond what all have.
    fn noise(&self, cell: &Self::Cell) -> f64;
}

/// v, g and ν², as logarithms.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Variances {
    pub(super) terms: Vec<f64>,
    /// By group; groups beyond the end have 0.
    pub(super) scales: Vec<f64>,
    /// By group; groups beyond the end have the mean.
    pub(super) noises: Vec<f64>,
    /// Whether g is found, or 1.
    pub(super) scaled: bool,
}

/// Least and most of ln v; of ln g; of ln ν².
const TERM_BOUNDS: (f64, f64) = (-14.0, 1.5);
const SCALE_BOUNDS: (f64, f64) = (-1.0, 1.0);
const NOISE_BOUNDS: (f64, f64) = (-8.0, -1.0);
/// Weight of the prior on each logarithm.
const PRIOR: f64 = 0.05;
/// The same on those of which the measurements cannot tell.
const HELD: f64 = 5.0;
const STEPS: usize = 40;
/// What is added to K's diagonal so that a root exists.
const JITTER: f64 = 1e-6;

impl Variances {
    pub(super) fn new(terms: &[f64], noise: f64, groups: usize, scaled: bool) -> Self {
        let ln = |v: &f64| v.max(1e-9).ln();
        Self {
            terms: terms.iter().map(ln).collect(),
            scales: vec![0.0; groups],
            noises: vec![noise.ln(); groups],
            scaled,
        }
    }

    fn scale(&self, group: usize) -> f64 {
        self.scales.get(group).map_or(1.0, |ln| ln.exp())
    }

    /// ν² of a group.
    pub(super) fn noise(&self, group: usize) -> f64 {
        let mean = || self.noises.iter().sum::<f64>() / self.noises.len().max(1) as f64;
        self.noises.get(group).copied().unwrap_or_else(mean).exp()
    }
}

/// Variances with exponentials taken once, for many cells.
pub(super) struct Kernel<'a, C> {
    covariance: &'a C,
    evidence: &'a Evidence,
    variances: Vec<f64>,
    scales: Option<Vec<f64>>,
    noises: Vec<f64>,
    rest: f64,
    terms: Vec<f64>,
}

impl<'a, C: Covariance> Kernel<'a, C> {
    pub(super) fn new(covariance: &'a C, evidence: &'a Evidence, of: &Variances) -> Self {
        Self {
            covariance,
            evidence,
            variances: of.terms.iter().map(|v| v.exp()).collect(),
            scales: of.scaled.then(|| of.scales.iter().map(|v| v.exp()).collect()),
            noises: of.noises.iter().map(|v| v.exp()).collect(),
            rest: of.noise(usize::MAX),
            terms: vec![0.0; of.terms.len()],
        }
    }

    pub(super) fn between(&mut self, one: &C::Cell, two: &C::Cell) -> f64 {
        self.covariance.terms(self.evidence, one, two, &mut self.terms);
        let sum: f64 = self.variances.iter().zip(&self.terms).map(|(v, t)| v * t).sum();
        match &self.scales {
            None => sum,
            Some(scales) => {
                let of = |cell| scales.get(self.covariance.group(cell)).copied().unwrap_or(1.0);
                sum * of(one) * of(two)
            }
        }
    }

    /// ν² + n_c.
    pub(super) fn noise(&self, cell: &C::Cell) -> f64 {
        self.noises.get(self.covariance.group(cell)).copied().unwrap_or(self.rest) + self.covariance.noise(cell)
    }
}

/// What was measured, factored.
#[derive(Clone, Debug)]
pub(super) struct Posterior<Cell> {
    cells: Vec<Cell>,
    /// Measurements less the prior mean.
    y: Vec<f64>,
    /// L.
    rows: Vec<Arc<[f64]>>,
    z: Vec<f64>,
}

impl<Cell: Copy + PartialEq> Posterior<Cell> {
    pub(super) fn empty() -> Self {
        Self { cells: Vec::new(), y: Vec::new(), rows: Vec::new(), z: Vec::new() }
    }

    pub(super) fn new<C: Covariance<Cell = Cell>>(kernel: &mut Kernel<'_, C>, cells: &[Cell], y: &[f64]) -> Self {
        let mut posterior = Self::empty();
        for (cell, y) in cells.iter().zip(y) {
            posterior.append(kernel, *cell, *y);
        }
        posterior
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// One more measurement.
    pub(super) fn append<C: Covariance<Cell = Cell>>(&mut self, kernel: &mut Kernel<'_, C>, cell: Cell, y: f64) {
        let mut row = Vec::with_capacity(self.len() + 1);
        self.solve(kernel, &cell, &mut row);
        let explained: f64 = dot(&row, &row);
        let own = kernel.between(&cell, &cell) + kernel.noise(&cell) + JITTER;
        let root = (own - explained).max(JITTER).sqrt();
        self.z.push((y - dot(&row, &self.z)) / root);
        row.push(root);
        self.rows.push(row.into());
        self.cells.push(cell);
        self.y.push(y);
    }

    /// A measurement that is known better now.
    pub(super) fn correct(&mut self, at: usize, y: f64) {
        self.y[at] = y;
        for i in at..self.len() {
            let row = &self.rows[i];
            self.z[i] = (self.y[i] - dot(&row[..i], &self.z[..i])) / row[i];
        }
    }

    /// A measurement that says something else now, the variance of which has changed by `by`: L is turned row by row into the factor of K + by·e·eᵀ.
    pub(super) fn correct_noise(&mut self, at: usize, cell: Cell, y: f64, by: f64) {
        if by == 0.0 {
            return self.correct(at, y);
        }
        let sign = by.signum();
        let mut turns: Vec<(f64, f64)> = Vec::with_capacity(self.len() - at);
        for i in at..self.len() {
            let mut row = self.rows[i].to_vec();
            let mut rest = if i == at { by.abs().sqrt() } else { 0.0 };
            for (l, &(cosine, sine)) in row[at..].iter_mut().zip(&turns) {
                *l = (*l + sign * sine * rest) / cosine;
                rest = cosine * rest - sine * *l;
            }
            let before = row[i];
            let root = (before * before + sign * rest * rest).max(JITTER).sqrt();
            turns.push((root / before, rest / before));
            row[i] = root;
            self.rows[i] = row.into();
        }
        self.cells[at] = cell;
        self.correct(at, y);
    }

    /// Carries v = L⁻¹k* of a question on to all that is measured.
    pub(super) fn solve<C: Covariance<Cell = Cell>>(&self, kernel: &mut Kernel<'_, C>, asked: &Cell, v: &mut Vec<f64>) {
        for i in v.len()..self.len() {
            let row = &self.rows[i];
            let k = kernel.between(asked, &self.cells[i]);
            let next = (k - dot(&row[..i], v)) / row[i];
            v.push(next);
        }
    }

    /// (mean, what of the variance is explained) by v.
    pub(super) fn answer(&self, v: &[f64]) -> (f64, f64) {
        (dot(v, &self.z), dot(v, v))
    }
}

fn dot(one: &[f64], two: &[f64]) -> f64 {
    const LANES: usize = 8;
    let n = one.len().min(two.len());
    let (one, two) = (&one[..n], &two[..n]);
    let mut sums = [0.0; LANES];
    let (a, b) = (one.chunks_exact(LANES), two.chunks_exact(LANES));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// The inverse of K, by its factor; both symmetric.
pub(super) struct Inverse {
    pub(super) n: usize,
    /// K⁻¹ by (i, j).
    pub(super) all: Vec<f64>,
    /// K⁻¹y.
    pub(super) alpha: Vec<f64>,
    half_ln_determinant: f64,
    /// Whether the matrix was no covariance, as far as numbers of this length can tell.
    pub(super) broken: bool,
}

impl Inverse {
    /// Of a matrix by (i, j), its lower triangle given.
    pub(super) fn new(mut lower: Vec<f64>, y: &[f64]) -> Self {
        let n = y.len();
        let mut broken = false;
        for i in 0..n {
            for j in 0..=i {
                let (head, tail) = lower.split_at_mut(i * n);
                let own = if j == i { dot(&tail[..j], &tail[..j]) } else { dot(&tail[..j], &head[j * n..j * n + j]) };
                let rest = tail[j] - own;
                broken |= i == j && rest < JITTER;
                tail[j] = if i == j { rest.max(JITTER).sqrt() } else { rest / head[j * n + j] };
            }
        }
        let half_ln_determinant = (0..n).map(|i| lower[i * n + i].ln()).sum();
        // M = L⁻¹ by columns: column c holds M[c.., c]; stored transposed so that both loops run along memory.
        let mut inverse = vec![0.0; n * n];
        for c in 0..n {
            inverse[c * n + c] = 1.0 / lower[c * n + c];
            for i in c + 1..n {
                let sum = dot(&lower[i * n + c..i * n + i], &inverse[c * n + c..c * n + i]);
                inverse[c * n + i] = -sum / lower[i * n + i];
            }
        }
        let mut all = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                // K⁻¹ = MᵀM; M[k, i] is inverse[i·n + k], zero below k = i.
                let sum = dot(&inverse[i * n + i..(i + 1) * n], &inverse[j * n + i..(j + 1) * n]);
                all[i * n + j] = sum;
                all[j * n + i] = sum;
            }
        }
        let alpha = (0..n).map(|i| dot(&all[i * n..(i + 1) * n], y)).collect();
        Self { n, all, alpha, half_ln_determinant, broken }
    }
}

/// K of some cells with noise, its lower triangle, by (i, j).
pub(super) fn covariance_of<C: Covariance>(kernel: &mut Kernel<'_, C>, cells: &[C::Cell]) -> Vec<f64> {
    let n = cells.len();
    let mut all = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..i {
            all[i * n + j] = kernel.between(&cells[i], &cells[j]);
        }
        all[i * n + i] = kernel.between(&cells[i], &cells[i]) + kernel.noise(&cells[i]) + JITTER;
    }
    all
}

/// The variances under which these measurements are most likely: steps along the sign of the exact slope, longer while it stays the
/// same and shorter when it turns (resilient propagation), and the best point on the way. Terms in `held` stay near where they begin.
pub(super) fn fit<C: Covariance>(
    covariance: &C,
    evidence: &Evidence,
    cells: &[C::Cell],
    y: &[f64],
    start: &Variances,
    held: &[usize],
) -> Variances {
    let tables = Tables::new(covariance, evidence, cells, start);
    let begin = flat(start);
    let (mut at, mut best) = (begin.clone(), (f64::INFINITY, begin.clone()));
    let mut steps = vec![0.3; at.len()];
    let mut before = vec![0.0; at.len()];
    for _ in 0..STEPS {
        let (mut loss, mut slope) = tables.loss(&unflat(&at, start), y);
        for i in 0..at.len() {
            let away = at[i] - begin[i];
            let prior = if held.contains(&i) { HELD } else { PRIOR };
            loss += prior * away * away;
            slope[i] += 2.0 * prior * away;
        }
        if loss < best.0 {
            best = (loss, at.clone());
        }
        for i in 0..at.len() {
            let turned = slope[i] * before[i];
            steps[i] = f64::clamp(steps[i] * if turned < 0.0 { 0.5 } else { 1.2 }, 1e-3, 1.0);
            before[i] = if turned < 0.0 { 0.0 } else { slope[i] };
            let (least, most) = bounds(i, start);
            at[i] = (at[i] - steps[i] * before[i].signum() * f64::from(before[i] != 0.0)).clamp(least, most);
        }
    }
    unflat(&best.1, start)
}

fn flat(of: &Variances) -> Vec<f64> {
    of.terms.iter().chain(&of.scales).chain(&of.noises).copied().collect()
}

fn unflat(at: &[f64], like: &Variances) -> Variances {
    let (t, s) = (like.terms.len(), like.scales.len());
    Variances {
        terms: at[..t].to_vec(),
        scales: if like.scaled { at[t..t + s].to_vec() } else { like.scales.clone() },
        noises: at[t + s..].to_vec(),
        scaled: like.scaled,
    }
}

fn bounds(i: usize, like: &Variances) -> (f64, f64) {
    match i {
        _ if i < like.terms.len() => TERM_BOUNDS,
        _ if i < like.terms.len() + like.scales.len() => SCALE_BOUNDS,
        _ => NOISE_BOUNDS,
    }
}

/// All terms of all pairs of some cells.
struct Tables {
    n: usize,
    count: usize,
    /// By (pair i ≥ j, term).
    terms: Vec<f64>,
    groups: Vec<usize>,
    noises: Vec<f64>,
}

impl Tables {
    fn new<C: Covariance>(covariance: &C, evidence: &Evidence, cells: &[C::Cell], like: &Variances) -> Self {
        let (n, count) = (cells.len(), like.terms.len());
        let mut terms = Vec::with_capacity(n * (n + 1) / 2 * count);
        let mut out = vec![0.0; count];
        for i in 0..n {
            for j in 0..=i {
                covariance.terms(evidence, &cells[i], &cells[j], &mut out);
                terms.extend_from_slice(&out);
            }
        }
        Self {
            n,
            count,
            terms,
            groups: cells.iter().map(|c| covariance.group(c)).collect(),
            noises: cells.iter().map(|c| covariance.noise(c)).collect(),
        }
    }

    /// −ln likelihood and its slope by all logarithms.
    fn loss(&self, at: &Variances, y: &[f64]) -> (f64, Vec<f64>) {
        let (n, count) = (self.n, self.count);
        let variances: Vec<f64> = at.terms.iter().map(|v| v.exp()).collect();
        let scale = |i: usize| if at.scaled { at.scale(self.groups[i]) } else { 1.0 };
        let scales: Vec<f64> = (0..n).map(scale).collect();
        let mut lower = vec![0.0; n * n];
        let mut pairs = self.terms.chunks_exact(count);
        for i in 0..n {
            for j in 0..=i {
                let terms = pairs.next().expect("one for every pair");
                lower[i * n + j] = dot(terms, &variances) * scales[i] * scales[j];
            }
        }
        let plain = lower.clone();
        for i in 0..n {
            lower[i * n + i] += at.noise(self.groups[i]) + self.noises[i] + 1e-5;
        }
        let inverse = Inverse::new(lower, y);
        let fit: f64 = inverse.alpha.iter().zip(y).map(|(a, y)| a * y).sum();
        let loss = if inverse.broken { f64::INFINITY } else { 0.5 * fit + inverse.half_ln_determinant };
        let mut slope = vec![0.0; count + at.scales.len() + at.noises.len()];
        let (mut by_term, scales_at) = (vec![0.0f64; count], count);
        let noises_at = count + at.scales.len();
        let mut pairs = self.terms.chunks_exact(count);
        for i in 0..n {
            for j in 0..=i {
                let terms = pairs.next().expect("one for every pair");
                let q = inverse.all[i * n + j] - inverse.alpha[i] * inverse.alpha[j];
                let q = if i == j { 0.5 * q } else { q };
                let weight = q * scales[i] * scales[j];
                for (sum, term) in by_term.iter_mut().zip(terms) {
                    *sum += weight * term;
                }
                if at.scaled {
                    let whole = q * plain[i * n + j];
                    for group in [self.groups[i], self.groups[j]] {
                        if group < at.scales.len() {
                            slope[scales_at + group] += whole;
                        }
                    }
                }
                if i == j && self.groups[i] < at.noises.len() {
                    slope[noises_at + self.groups[i]] += q * at.noise(self.groups[i]);
                }
            }
        }
        for (t, sum) in by_term.iter().enumerate() {
            slope[t] = sum * at.terms[t].exp();
        }
        (loss, slope)
    }
}
