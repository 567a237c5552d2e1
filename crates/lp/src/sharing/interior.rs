//! An interior point for the program over some of the columns, into which columns may come between iterations.
//!
//! Rows are counted in shares of what a group can do, of its jobs and of the units there are: `h = (0, 1, 1)`.
//!
//! ```text
//! maximise τ     M x + B τ + w = h     x, w ≥ 0          M = (−rates, jobs, units),  B = (b, 0, 0)
//! minimise h·y   Mᵀ y − r = 0          y, r ≥ 0          B·y = 1,  y = (λ, μ, p)
//! ```
//!
//! A step aims at `x r = w y = σ`. With `θ = 1/(r/x + δ)`, `ω = w/y`, the residuals `e_p = h − M x − B τ − w`,
//! `e_d = Mᵀ y − r`, `e_τ = 1 − B·y` and the aims `ξ = σ − x r`, `ζ = σ − w y`,
//!
//! ```text
//! dr = Mᵀ dy + e_d      dx = θ (ξ/x − dr)    dw = ζ/y − ω dy
//! N dy = q + B dτ       N = M Θ Mᵀ + Ω       q = M θ (ξ/x − e_d) + ζ/y − e_p
//! dτ = (e_τ − B·N⁻¹q) / (B·N⁻¹B)
//! ```
//!
//! (a small `δ` keeps `θ` from growing until rounding eats the pivots of `N`; the rows hold all the same), once for the
//! direction with `σ = 0` and once more with what that taught (Mehrotra).
//!
//! A column that comes in with reduced cost `c` gets `r = max(c, σ/amount)`, `x = σ/r`: it is central from the first, and
//! so small that the rows hardly notice; what they do notice is one more residual.

use super::normal::Normal;

/// The fraction of the step to the boundary that is taken.
const STRIDE: f64 = 0.995;
/// δ, relative to what the column costs for a job.
const DAMPING: f64 = 1e-7;
/// The least gap that is aimed at: below it the normal matrix is rounding.
const FAR: f64 = 1e-8;
/// Iterative refinements of a solve.
const REFINEMENTS: u32 = 1;
/// A row may be missed by this many gaps before complementarity waits.
const AHEAD: f64 = 10.0;

/// A column of `M`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// The groups in it, twice the same for one alone.
    pub(super) sides: [usize; 2],
    terms: [(usize, f64); 5],
    count: usize,
}

impl Column {
    /// Of rows and coefficients, in which a row is not repeated; at most five.
    pub(super) fn new(sides: [usize; 2], of: &[(usize, f64)]) -> Self {
        let mut terms = [(0, 0.0); 5];
        terms[..of.len()].copy_from_slice(of);
        Self { sides, terms, count: of.len() }
    }

    pub(super) fn terms(&self) -> &[(usize, f64)] {
        &self.terms[..self.count]
    }

    /// `Mᵀ y` of this column.
    fn dot(&self, y: &[f64]) -> f64 {
        self.terms().iter().map(|&(row, m)| m * y[row]).sum()
    }
}

/// An iterate.
#[derive(Clone, Debug)]
pub(super) struct Interior {
    n: usize,
    columns: Vec<Column>,
    /// Right-hand sides of the rows.
    b: Vec<f64>,
    pub(super) x: Vec<f64>,
    r: Vec<f64>,
    w: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) tau: f64,
    /// The order that was found is for other columns.
    pub(super) stale: bool,
}

/// A Newton step in primal and dual variables.
struct Direction {
    dx: Vec<f64>,
    dr: Vec<f64>,
    dw: Vec<f64>,
    dy: Vec<f64>,
    dtau: f64,
}

/// What an iteration solves with.
struct System<'a> {
    normal: &'a Normal,
    theta: Vec<f64>,
    omega: Vec<f64>,
    errors: Errors,
    /// N⁻¹ B
    toward: Vec<f64>,
}

/// Residuals.
struct Errors {
    p: Vec<f64>,
    d: Vec<f64>,
    tau: f64,
}

impl Interior {
    /// Begins inside: half of what fits is used, prices are such that nobody wants anything.
    pub(super) fn new(n: usize, k: usize, columns: Vec<Column>, b: &[f64]) -> Self {
        let size = 2 * n + k;
        let mut used = vec![0.0; size];
        for column in &columns {
            column.terms().iter().filter(|term| term.1 > 0.0).for_each(|&(row, m)| used[row] += m);
        }
        let most = |column: &Column| {
            let rows = column.terms().iter().filter(|term| term.1 > 0.0);
            rows.map(|&(row, _)| 1.0 / used[row]).fold(f64::INFINITY, f64::min)
        };
        let x: Vec<f64> = columns.iter().map(|column| 0.5 * most(column)).collect();
        let y = vec![0.0; size];
        let (r, w) = (vec![0.0; columns.len()], vec![0.0; size]);
        let mut at = Self { n, columns, b: Vec::new(), x, r, w, y, tau: 0.0, stale: true };
        at.aim(b);
        // κ = 1 / Σ b, λ = κ: a column is worth at most Σ of its rates.
        let kappa = 1.0 / b.iter().sum::<f64>();
        at.y[..n].fill(kappa);
        at.y[n..2 * n].fill(kappa);
        at.y[2 * n..].fill(kappa);
        for column in &at.columns {
            let worth: f64 = column.terms().iter().filter(|term| term.1 < 0.0).map(|term| -term.1 * kappa).sum();
            let unit = column.terms().last().copied().unwrap_or((2 * n, 1.0));
            at.y[unit.0] = at.y[unit.0].max(1.5 * worth / unit.1);
        }
        at.r = at.columns.iter().map(|column| column.dot(&at.y)).collect();
        at
    }

    /// Takes other targets. Duals are scaled, and τ with them: where all targets change alike nothing else does. Slacks
    /// are read anew, or left with a residual where that would take them near 0.
    pub(super) fn aim(&mut self, b: &[f64]) {
        let n = self.n;
        let mut load = vec![0.0; self.w.len()];
        for (column, x) in self.columns.iter().zip(&self.x) {
            column.terms().iter().for_each(|&(row, m)| load[row] += m * x);
        }
        let scale: f64 = b.iter().zip(&self.y).map(|(b, y)| b * y).sum();
        if scale > 0.0 {
            self.tau /= scale;
            self.y.iter_mut().chain(&mut self.r).for_each(|dual| *dual /= scale);
        } else {
            self.tau = 0.9 * (0..n).map(|g| -load[g] / b[g]).fold(f64::INFINITY, f64::min);
        }
        for row in 0..self.w.len() {
            let slack = if row < n { -load[row] - b[row] * self.tau } else { 1.0 - load[row] };
            self.w[row] = slack.max(0.5 * self.w[row]).max(1e-12);
        }
        self.b = b.to_vec();
    }

    /// Lets a column in, central at `sigma`, with no more than `amount`.
    pub(super) fn enter(&mut self, column: Column, sigma: f64, amount: f64) {
        let r = column.dot(&self.y).max(sigma / amount);
        self.x.push(sigma / r);
        self.r.push(r);
        self.columns.push(column);
        self.stale = true;
    }

    /// Lets columns go.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        fn sift<T>(list: &mut Vec<T>, keep: &[bool]) {
            let mut keep = keep.iter();
            list.retain(|_| *keep.next().unwrap_or(&true));
        }
        sift(&mut self.columns, keep);
        sift(&mut self.x, keep);
        sift(&mut self.r, keep);
        self.stale = true;
    }

    /// The mean of all `x r` and `w y`.
    pub(super) fn complementarity(&self) -> f64 {
        self.product() / (self.x.len() + self.w.len()) as f64
    }

    fn product(&self) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        dot(&self.x, &self.r) + dot(&self.w, &self.y)
    }

    /// How far the two objectives are apart, over τ.
    pub(super) fn gap(&self) -> f64 {
        self.product() / self.tau.abs().max(1e-300)
    }

    fn errors(&self) -> Errors {
        let n = self.n;
        let mut p: Vec<f64> = self.w.iter().enumerate().map(|(row, w)| if row < n { -w } else { 1.0 - w }).collect();
        for (column, x) in self.columns.iter().zip(&self.x) {
            column.terms().iter().for_each(|&(row, m)| p[row] -= m * x);
        }
        (0..n).for_each(|g| p[g] -= self.b[g] * self.tau);
        let d = self.columns.iter().zip(&self.r).map(|(column, r)| column.dot(&self.y) - r).collect();
        Errors { p, d, tau: 1.0 - self.b.iter().zip(&self.y).map(|(b, y)| b * y).sum::<f64>() }
    }

    /// One iteration; says whether anything moved.
    pub(super) fn step(&mut self, normal: &mut Normal) -> bool {
        let k = self.w.len() - 2 * self.n;
        if self.stale {
            normal.analyse(self.n, k, &self.columns);
            self.stale = false;
        }
        let theta = self.theta();
        let omega: Vec<f64> = self.w.iter().zip(&self.y).map(|(w, y)| w / y).collect();
        normal.factor(&self.columns, &theta, &omega);
        let mut system = System { normal, theta, omega, errors: self.errors(), toward: Vec::new() };
        let mut wide = self.b.clone();
        wide.resize(self.w.len(), 0.0);
        system.toward = self.solve(&system, &wide);
        let (mu, count) = (self.complementarity(), (self.x.len() + self.w.len()) as f64);
        let xi: Vec<f64> = self.x.iter().zip(&self.r).map(|(x, r)| -x * r).collect();
        let zeta: Vec<f64> = self.w.iter().zip(&self.y).map(|(w, y)| -w * y).collect();
        let guess = self.direction(&system, &xi, &zeta);
        let (primal, dual) = self.strides(&guess);
        let (primal, dual) = (primal.min(1.0), dual.min(1.0));
        let after = |v: &[f64], dv: &[f64], s: &[f64], ds: &[f64]| -> f64 {
            (0..v.len()).map(|e| (v[e] + primal * dv[e]) * (s[e] + dual * ds[e])).sum()
        };
        let left =
            (after(&self.x, &guess.dx, &self.r, &guess.dr) + after(&self.w, &guess.dw, &self.y, &guess.dy)) / count;
        // Complementarity must not run ahead of the rows.
        let missed = system.errors.p.iter().fold(0.0, |most: f64, e| most.max(e.abs()));
        let slowest = if missed > AHEAD * self.gap() { 0.5 } else { 1e-8 };
        let sigma = (mu * (left / mu).powi(3).clamp(slowest, 1.0)).max(FAR * self.tau.abs() / count);
        let xi: Vec<f64> = (0..xi.len()).map(|e| xi[e] + sigma - guess.dx[e] * guess.dr[e]).collect();
        let zeta: Vec<f64> = (0..zeta.len()).map(|e| zeta[e] + sigma - guess.dw[e] * guess.dy[e]).collect();
        let activity = self.direction(&system, &xi, &zeta);
        let (primal, dual) = self.strides(&activity);
        let (primal, dual) = ((STRIDE * primal).min(1.0), (STRIDE * dual).min(1.0));
        if !(primal.max(dual) > 1e-6 && activity.dtau.is_finite()) {
            return false;
        }
        let go = |v: &mut [f64], dv: &[f64], s: f64| v.iter_mut().zip(dv).for_each(|(v, dv)| *v += s * dv);
        go(&mut self.x, &activity.dx, primal);
        go(&mut self.w, &activity.dw, primal);
        go(&mut self.r, &activity.dr, dual);
        go(&mut self.y, &activity.dy, dual);
        self.tau += primal * activity.dtau;
        true
    }

    fn direction(&self, system: &System<'_>, xi: &[f64], zeta: &[f64]) -> Direction {
        let System { theta, omega, errors, toward, .. } = system;
        let mut q: Vec<f64> = (0..zeta.len()).map(|row| zeta[row] / self.y[row] - errors.p[row]).collect();
        for (c, column) in self.columns.iter().enumerate() {
            let part = theta[c] * (xi[c] / self.x[c] - errors.d[c]);
            column.terms().iter().for_each(|&(row, m)| q[row] += m * part);
        }
        let mut dy = self.solve(system, &q);
        let along = |v: &[f64]| self.b.iter().zip(v).map(|(b, v)| b * v).sum::<f64>();
        let dtau = (errors.tau - along(&dy)) / along(toward);
        dy.iter_mut().zip(toward).for_each(|(dy, toward)| *dy += dtau * toward);
        let dr: Vec<f64> = self.columns.iter().zip(&errors.d).map(|(column, d)| column.dot(&dy) + d).collect();
        let dx = (0..dr.len()).map(|c| theta[c] * (xi[c] / self.x[c] - dr[c])).collect();
        let dw = (0..dy.len()).map(|row| zeta[row] / self.y[row] - omega[row] * dy[row]).collect();
        Direction { dx, dr, dw, dy, dtau }
    }

    fn theta(&self) -> Vec<f64> {
        let damped = |(c, column): (usize, &Column)| {
            let cost: f64 = column.terms().iter().map(|&(row, m)| m.max(0.0) * self.y[row]).sum();
            1.0 / (self.r[c] / self.x[c] + DAMPING * cost * column.terms()[1].1)
        };
        self.columns.iter().enumerate().map(damped).collect()
    }

    /// `N⁻¹ q`, and again with what rounding left of `q`.
    fn solve(&self, system: &System<'_>, q: &[f64]) -> Vec<f64> {
        let System { normal, theta, omega, .. } = system;
        let mut v = normal.solve(q);
        for _ in 0..REFINEMENTS {
            let mut left: Vec<f64> = (0..q.len()).map(|row| q[row] - omega[row] * v[row]).collect();
            for (column, theta) in self.columns.iter().zip(theta) {
                let part = theta * column.dot(&v);
                column.terms().iter().for_each(|&(row, m)| left[row] -= m * part);
            }
            v.iter_mut().zip(normal.solve(&left)).for_each(|(v, more)| *v += more);
        }
        v
    }

    /// How far the direction goes before something is 0, at most 1/[`STRIDE`].
    fn strides(&self, activity: &Direction) -> (f64, f64) {
        let reach = |v: &[f64], dv: &[f64]| {
            let least = v.iter().zip(dv).map(|(v, dv)| if *dv < 0.0 { -v / dv } else { f64::INFINITY });
            least.fold(1.0 / STRIDE, f64::min)
        };
        (
            reach(&self.x, &activity.dx).min(reach(&self.w, &activity.dw)),
            reach(&self.r, &activity.dr).min(reach(&self.y, &activity.dy)),
        )
    }
}
