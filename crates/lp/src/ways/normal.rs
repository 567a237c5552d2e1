//! The system of one Newton step: N of `ways/interior.rs`, added up user by user.

use super::interior::{Cell, User};

/// A way's vector over the goods: its resource, its limits, and the user's cap behind the last good.
#[derive(Clone, Copy)]
pub(super) struct Take<'a> {
    pub(super) resource: usize,
    pub(super) limits: &'a [usize],
    pub(super) p: f64,
}

impl Take<'_> {
    fn each(&self, mut with: impl FnMut(usize, f64)) {
        with(self.resource, 1.0);
        self.limits.iter().for_each(|&t| with(t, self.p));
    }

    /// `G·q`
    pub(super) fn at(&self, prices: &[f64]) -> f64 {
        prices[self.resource] + self.p * self.limits.iter().map(|&t| prices[t]).sum::<f64>()
    }
}

/// N as it is added up, user by user. Behind the goods comes the user's own, its cap.
pub(super) struct Normal {
    g: usize,
    /// The lower half, row by row.
    pub(super) n: Vec<f64>,
    /// The row of the user's own good, and its ψ'.
    pub(super) own: Vec<f64>,
    psi: Vec<f64>,
    /// Scratch: a vector that is 0 almost everywhere.
    entries: Vec<(usize, f64)>,
}

impl Normal {
    pub(super) fn new(g: usize) -> Self {
        Self { g, n: vec![0.0; g * g], own: vec![0.0; g + 1], psi: vec![0.0; g + 1], entries: Vec::with_capacity(8) }
    }

    /// `Σ_a θ h hᵀ − ψ'ψ'ᵀ/V` of a user.
    pub(super) fn add_ways<'a>(&mut self, user: &User, cells: &[Cell], take: impl Fn(usize) -> Take<'a>) {
        let Self { g, n, own, psi, entries } = self;
        let (g, b, capped) = (*g, user.pivot, user.cap.is_finite());
        own.fill(0.0);
        psi.fill(0.0);
        for (a, cell) in cells.iter().enumerate().filter(|(a, cell)| *a != b && cell.w > 0.0) {
            let part = cell.w / cells[b].w;
            entries.clear();
            let mut add = |good: usize, value: f64| match entries.iter_mut().find(|entry| entry.0 == good) {
                Some(entry) => entry.1 += value,
                None => entries.push((good, value)),
            };
            take(a).each(&mut add);
            take(b).each(|good, value| add(good, -part * value));
            if capped {
                add(g, 1.0 - part);
            }
            for &(i, h) in entries.iter() {
                psi[i] += cell.theta() * cell.w * h;
                for &(j, k) in entries.iter() {
                    match i {
                        _ if i == g => own[j] += cell.theta() * h * k,
                        _ if j <= i => n[i * g + j] += cell.theta() * h * k,
                        _ => {}
                    }
                }
            }
        }
        for i in 0..g {
            for j in 0..=i {
                n[i * g + j] -= psi[i] * psi[j] * user.inverse_big_v;
            }
        }
        (0..=g).for_each(|j| own[j] -= psi[g] * psi[j] * user.inverse_big_v);
    }

    /// As [`Self::add_ways`] for a user without a cap, where a way takes its resource and at most this one limit: the same sums, without looking for
    /// entries. Ways that are absent have `θ = 0`.
    pub(super) fn add_plain_ways(
        &mut self,
        user: &User,
        cells: &[Cell],
        resource: impl Fn(usize) -> usize,
        limit: Option<usize>,
    ) {
        let Self { g, n, psi, own: cross, .. } = self;
        let (g, b) = (*g, user.pivot);
        let (j_b, p_b, inverse_w) = (resource(b), cells[b].p, 1.0 / cells[b].w);
        psi.fill(0.0);
        // `cross` is N between the pivot's resource and the others, with the other sign; the limit's own sums come last.
        cross.fill(0.0);
        let (mut square, mut psi_b, mut of_limit) = (0.0, 0.0, [0.0; 3]);
        let limit_row = limit.unwrap_or(0) * g;
        for (a, cell) in cells.iter().enumerate() {
            if a == b {
                continue;
            }
            let j = resource(a);
            let (part, theta) = (cell.w * inverse_w, cell.theta());
            let (worth, of_b) = (theta * cell.w, if j == j_b { part - 1.0 } else { part });
            square += theta * of_b * of_b;
            psi_b += worth * of_b;
            if j != j_b {
                n[j * g + j] += theta;
                cross[j] += theta * part;
                psi[j] += worth;
            }
            if limit.is_some() {
                let h = cell.p - part * p_b;
                of_limit[0] += theta * h * h;
                of_limit[1] += theta * h * of_b;
                of_limit[2] += worth * h;
                if j != j_b {
                    n[limit_row + j] += theta * h;
                }
            }
        }
        n[j_b * g + j_b] += square;
        psi[j_b] = -psi_b;
        (0..j_b).for_each(|j| n[j_b * g + j] -= cross[j]);
        (j_b + 1..g).for_each(|j| n[j * g + j_b] -= cross[j]);
        if let Some(t) = limit {
            n[t * g + t] += of_limit[0];
            n[t * g + j_b] -= of_limit[1];
            psi[t] = of_limit[2];
        }
        for i in 0..g {
            let along = psi[i] * user.inverse_big_v;
            n[i * g..][..=i].iter_mut().zip(psi.iter()).for_each(|(n, psi)| *n -= along * psi);
        }
    }

    /// The terms with `G_b`.
    pub(super) fn add_pivot(&mut self, user: &User, s: f64, w_b: f64, take: Take<'_>) {
        let Self { g, n, own, psi, entries } = self;
        let g = *g;
        entries.clear();
        take.each(|good, value| entries.push((good, value)));
        if user.cap.is_finite() {
            entries.push((g, 1.0));
        }
        let slack = user.theta_v * user.inverse_big_v;
        let square = slack * s / (w_b * w_b);
        let mut add = |i: usize, j: usize, value: f64| match (i.max(j), i.min(j)) {
            (i, j) if i < g => n[i * g + j] += value,
            (_, j) => own[j] += value,
        };
        for &(i, x) in entries.iter() {
            for (j, &y) in psi.iter().enumerate().filter(|(_, y)| **y != 0.0) {
                // Both ψ'Gᵀ and Gψ'ᵀ: an entry off the diagonal is met once from either side.
                add(i, j, slack / w_b * x * y * if i == j { 2.0 } else { 1.0 });
            }
            for &(j, y) in entries.iter().filter(|entry| entry.0 <= i) {
                add(i, j, square * x * y);
            }
        }
    }

    /// Takes the user's own good out.
    pub(super) fn eliminate_cap(&mut self, user: &mut User) {
        let Self { g, n, own, .. } = self;
        user.n_cap = own[*g] + user.c / user.mu;
        for i in 0..*g {
            for j in 0..=i {
                n[i * *g + j] -= own[i] * own[j] / user.n_cap;
            }
        }
    }
}
