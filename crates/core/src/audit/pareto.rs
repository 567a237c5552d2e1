//! How much everybody could gain at once.
//!
//! Among all divisions x' that make nobody worse off, the one of the largest total utility:
//!
//!   maximise  Σ_l w_l·x'_l
//!   s.t.      w_l·x'_l ≥ u_l          for every user           (s_l ≥ 0)
//!             Σ_l x'_lj ≤ m_j         for every kind           (p_j ≥ 0)
//!             Σ_j x'_lj ≤ d_l         for every user           (q_l ≥ 0)
//!             x' ≥ 0
//!
//! The gap is how far that total lies above Σ_l u_l, as a part of Σ_l u_l: utilities count as they are, in speed-ups over
//! each user's slowest kind. Shares of time are free to be fractions, so the gap of an allocation of whole gangs
//! includes what wholeness costs. GPUs that two users share may go on being shared as before, or less; no new pairs
//! are thought of, so with packing the gap is one over that set of divisions.
//!
//! Whatever the solver says, for any p, s ≥ 0 the total of every such x' is at most
//!
//!   Σ_j p_j m_j + Σ_l ( q_l d_l − s_l u_l ),      q_l = max(0, max_j (1 + s_l) w_lj − p_j)
//!
//! and that is what [`Pareto::bound`] is, computed here from w, m, d and u with the solver's p, and for s_l the better of
//! the solver's and the one that just makes q_l vanish. A shared GPU adds what its joint value exceeds p_j + q_a + q_b by.

use super::{Audit, Shared};
use arles_lp::{Budget, Clarabel, ColumnId, Model, ModelError, Outcome, Solver};

/// How far an allocation is from one that is better for all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pareto {
    /// Σ u of the allocation.
    pub total: f64,
    /// The largest Σ u' found with nobody worse off; at least `total`.
    pub attained: f64,
    /// No Σ u' with nobody worse off is larger.
    pub bound: f64,
}

impl Pareto {
    /// How much Σ u can rise, as a part of it: what was attained.
    #[must_use]
    pub fn gap(&self) -> f64 {
        part(self.attained - self.total, self.total)
    }

    /// How much Σ u can rise at most.
    #[must_use]
    pub fn most(&self) -> f64 {
        part(self.bound - self.total, self.total)
    }
}

fn part(rise: f64, total: f64) -> f64 {
    if rise <= 0.0 { 0.0 } else { rise / total }
}

/// Nobody is worse off by more than this part of what it had: the solver's answers end in their last digits somewhere.
const SLACK: f64 = 1e-7;
/// Floors are lowered by this part in the program, so that it has an inside even if nothing can be gained.
const INSIDE: f64 = 1e-8;

impl Audit {
    /// The Pareto gap, by the general solver. With no answer within the budget, `attained` is the total and the bound
    /// is wide.
    #[must_use]
    pub fn pareto(&self, budget: Budget) -> Pareto {
        let total: f64 = self.u.iter().sum();
        let program = Program::new(self);
        let mut pareto = Pareto { total, attained: total, bound: program.bound(&[], &[]).max(total) };
        let Ok(lines) = Lines::new(&program) else { return pareto };
        let outcome = Clarabel.solve(&lines.model, budget);
        let (p, s) = lines.prices(&program, &outcome);
        pareto.bound = pareto.bound.min(program.bound(&p, &s)).max(total);
        if let Some(attained) = program.attained(&lines, &outcome.x) {
            pareto.attained = attained.clamp(total, pareto.bound);
        }
        pareto
    }
}

/// The program in its own letters.
struct Program<'a> {
    audit: &'a Audit,
    n: usize,
    k: usize,
    /// m and d, raised to what is held where rounding made that a little more: the allocation itself is a solution.
    m: Vec<f64>,
    d: Vec<f64>,
    /// What the objective is counted in.
    unit: f64,
}

impl<'a> Program<'a> {
    fn new(audit: &'a Audit) -> Self {
        let (n, k) = (audit.claims.users(), audit.claims.kinds());
        let (mut used, mut held) = (vec![0.0; k], vec![0.0; n]);
        for (l, row) in audit.x.chunks_exact(k.max(1)).enumerate() {
            for (j, x) in row.iter().enumerate() {
                used[j] += x;
                held[l] += x;
            }
        }
        for Shared { members, kind, gpus, parts } in &audit.shared {
            used[*kind] += gpus * (1.0 - parts[0] - parts[1]);
            for (l, f) in members.iter().zip(parts) {
                held[*l] += gpus * (1.0 - f);
            }
        }
        let more = |most: &[f64], taken: &[f64]| most.iter().zip(taken).map(|(a, b)| a.max(*b)).collect();
        let total: f64 = audit.u.iter().sum();
        let everything = || (0..n).map(|l| audit.claims.value(l, &audit.claims.m, 1.0)).fold(0.0, f64::max);
        let unit = if total > 0.0 { total } else { everything() };
        Self { audit, n, k, m: more(&audit.claims.m, &used), d: more(&audit.claims.d, &held), unit }
    }

    fn w(&self, l: usize, j: usize) -> f64 {
        self.audit.claims.w[l * self.k + j]
    }

    /// The bound of prices p and s; of no prices at all where these are empty.
    fn bound(&self, p: &[f64], s: &[f64]) -> f64 {
        let price = |j: usize| p.get(j).copied().unwrap_or(0.0);
        let mut bound: f64 = self.m.iter().enumerate().map(|(j, m)| price(j) * m).sum();
        let (mut best_s, mut best_q) = (vec![0.0; self.n], vec![0.0; self.n]);
        for l in 0..self.n {
            let usable = (0..self.k).filter(|&j| self.w(l, j) > 0.0 && self.m[j] > 0.0);
            let q = |s: f64| usable.clone().map(|j| (1.0 + s) * self.w(l, j) - price(j)).fold(0.0, f64::max);
            let cost = |s: f64| q(s) * self.d[l] - s * self.audit.u[l];
            let free = usable.clone().map(|j| price(j) / self.w(l, j)).fold(f64::INFINITY, f64::min) - 1.0;
            let free = if free.is_finite() { free.max(0.0) } else { 0.0 };
            let given = s.get(l).copied().unwrap_or(0.0);
            let s = if cost(given) < cost(free) { given } else { free };
            (best_s[l], best_q[l]) = (s, q(s));
            bound += cost(s);
        }
        for Shared { members: [a, b], kind, gpus, parts } in &self.audit.shared {
            let worth = |l: usize, f: f64| (1.0 + best_s[l]) * self.w(l, *kind) * f;
            let value = worth(*a, parts[0]) + worth(*b, parts[1]);
            bound += gpus * (value - price(*kind) - best_q[*a] - best_q[*b]).max(0.0);
        }
        bound
    }

    /// Σ u' of what the solver found, brought within m and d; `None` if somebody is worse off then.
    fn attained(&self, lines: &Lines, solution: &[f64]) -> Option<f64> {
        let (mut used, mut held) = (vec![0.0; self.k], vec![0.0; self.n]);
        let amount = |at: &ColumnId, unit: f64| (solution[at.index()] * unit).max(0.0);
        for (l, j, at) in &lines.alone {
            let x = amount(at, self.m[*j]);
            used[*j] += x;
            held[*l] += x;
        }
        for (pair, at) in self.audit.shared.iter().zip(&lines.shared) {
            let y = amount(at, pair.gpus);
            used[pair.kind] += y;
            pair.members.iter().for_each(|&l| held[l] += y);
        }
        let fit = |most: f64, taken: f64| if taken > most { most / taken } else { 1.0 };
        let fit_user = |l: usize| fit(self.d[l], held[l]);
        let mut u = vec![0.0; self.n];
        for (l, j, at) in &lines.alone {
            u[*l] += self.w(*l, *j) * amount(at, self.m[*j]) * fit(self.m[*j], used[*j]) * fit_user(*l);
        }
        for (Shared { members, kind, gpus, parts }, at) in self.audit.shared.iter().zip(&lines.shared) {
            let smaller = members.iter().map(|&l| fit_user(l)).fold(fit(self.m[*kind], used[*kind]), f64::min);
            let y = amount(at, *gpus).min(*gpus) * smaller;
            members.iter().zip(parts).for_each(|(&l, f)| u[l] += self.w(l, *kind) * f * y);
        }
        let worse = u.iter().zip(&self.audit.u).any(|(new, old)| *new < old * (1.0 - SLACK) || !new.is_finite());
        (!worse).then(|| u.iter().sum())
    }
}

/// The program as columns and rows. Columns are parts of a kind's GPUs, rows are divided by what bounds them, so that all
/// numbers are near 1.
struct Lines {
    model: Model,
    /// User, kind and column.
    alone: Vec<(usize, usize, ColumnId)>,
    /// One for each shared GPU, as a part of what is shared now.
    shared: Vec<ColumnId>,
    /// Row of each user's floor, if it has one; and of each kind.
    floors: Vec<Option<usize>>,
    kinds: Vec<Option<usize>>,
}

impl Lines {
    fn new(program: &Program) -> Result<Self, ModelError> {
        let (n, k, shares) = (program.n, program.k, &program.audit.shared);
        let mut model = Model::maximise();
        let (mut alone, mut shared) = (Vec::with_capacity(n * k), Vec::with_capacity(shares.len()));
        let (mut of_user, mut of_kind) = (vec![Vec::new(); n], vec![Vec::new(); k]);
        // Value, GPUs and column of everything that a user can have.
        for l in 0..n {
            for j in (0..k).filter(|&j| program.w(l, j) > 0.0 && program.m[j] > 0.0) {
                let worth = program.w(l, j) * program.m[j];
                let at = model.add_column(0.0, f64::INFINITY, worth / program.unit)?;
                alone.push((l, j, at));
                of_user[l].push((at, worth, program.m[j]));
                of_kind[j].push((at, 1.0));
            }
        }
        for Shared { members, kind, gpus, parts } in shares {
            let worth = |i: usize| program.w(members[i], *kind) * parts[i] * gpus;
            let at = model.add_column(0.0, 1.0, (worth(0) + worth(1)) / program.unit)?;
            (0..2).for_each(|i| of_user[members[i]].push((at, worth(i), *gpus)));
            of_kind[*kind].push((at, gpus / program.m[*kind].max(f64::MIN_POSITIVE)));
            shared.push(at);
        }
        let mut rows = 0..;
        let (mut floors, mut kinds) = (vec![None; n], vec![None; k]);
        for (j, terms) in of_kind.iter().enumerate().filter(|(_, terms)| !terms.is_empty()) {
            model.add_row(f64::NEG_INFINITY, 1.0, terms)?;
            kinds[j] = rows.next();
        }
        for (l, columns) in of_user.iter().enumerate().filter(|(_, columns)| !columns.is_empty()) {
            let (u, d) = (program.audit.u[l], program.d[l]);
            if u > 0.0 {
                let terms: Vec<_> = columns.iter().map(|&(at, worth, _)| (at, worth / u)).collect();
                model.add_row(1.0 - INSIDE, f64::INFINITY, &terms)?;
                floors[l] = rows.next();
            }
            if columns.iter().map(|&(_, _, gpus)| gpus).sum::<f64>() > d {
                let terms: Vec<_> =
                    columns.iter().map(|&(at, _, gpus)| (at, gpus / d.max(f64::MIN_POSITIVE))).collect();
                model.add_row(f64::NEG_INFINITY, 1.0, &terms)?;
                rows.next();
            }
        }
        Ok(Self { model, alone, shared, floors, kinds })
    }

    /// p and s from the solver's duals, in the program's own units; what is no price counts as 0.
    fn prices(&self, program: &Program, outcome: &Outcome) -> (Vec<f64>, Vec<f64>) {
        let dual = |row: &Option<usize>| row.and_then(|i| outcome.row_duals.get(i)).copied().unwrap_or(0.0);
        let price = |price: f64| if price.is_finite() { price.max(0.0) } else { 0.0 };
        let p = self.kinds.iter().zip(&program.m).map(|(row, m)| price(dual(row) * program.unit / m));
        let s = self.floors.iter().zip(&program.audit.u).map(|(row, u)| price(-dual(row) * program.unit / u));
        (p.collect(), s.collect())
    }
}
