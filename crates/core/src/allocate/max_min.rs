//! Max-min fairness over jobs (Gavel's program, heterogeneity-aware or agnostic).
//!
//! For a job m with priority π_m and gang g_m, X_mj is the share of time it spends on kind j and r_mj its rate
//! there. Everybody is measured against its own rate under an equal split of the kinds:
//!
//!   maximise  min_m  (g_m/π_m) · Σ_j r_mj X_mj / r̄_m      with  r̄_m = Σ_j r_mj m_j / Σ_j m_j
//!   s.t.      Σ_j X_mj ≤ 1,   Σ_m g_m X_mj ≤ m_j,   X ≥ 0
//!
//! A class of n alike jobs may share one row (averaging their X changes nothing). With x_lj = n g X_j, the
//! GPUs of kind j that class l holds, this is the program of [`arles_lp::maxmin`] with
//!
//!   w_lj = r_lj,   β_l = n_l π_l r̄_l,   d_l = n_l g_l.
//!
//! Whoever can have more than that least without anybody having less goes on rising, level by level, until nobody can
//! (water-filling). Agnostic means r = 1 wherever a job fits.
//!
//! The price of a kind is how much the least level t would rise with one more GPU of it, everybody's measure β as it is. With
//! C_l(b, p) the least that b costs user l at prices p, t is what Σ_l C_l(β_l t, p) = m·p says at its prices, and so
//!
//!   dt/dm_j = p_j / Σ_l β_l C_l'(β_l t, p)
//!
//! which is in the same unit whatever multiple of the prices p is. A user that can hold no more has C' = ∞: where its own cap
//! is what keeps t down, no kind has a price.

use super::{
    AllocateError, Allocation, Certificate, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal, kind_id,
    user_index,
};
use arles_lp::Budget;
use arles_lp::maxmin::{self, FillWorkspace};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub(super) const FAIRNESS: PolicyEntry = PolicyEntry {
    name: "max-min-fairness",
    summary: "Gavel's heterogeneity-aware max-min fairness: the lowest normalised throughput of any job is as high as possible",
    promises: &[Promise::ScaleFree, Promise::MaxMin, Promise::SharingIncentive],
    make: || Box::new(MaxMin::new(true)),
    ..PolicyEntry::DIVIDES
};

pub(super) const AGNOSTIC: PolicyEntry = PolicyEntry {
    name: "max-min-agnostic",
    summary: "max-min-fairness that treats all GPU kinds as equally fast",
    ignores_speeds: true,
    promises: &[Promise::ScaleFree],
    make: || Box::new(MaxMin::new(false)),
    ..PolicyEntry::DIVIDES
};

pub(super) struct MaxMin {
    aware: bool,
    /// Memory of the solver; the answer does not depend on what was solved in it before.
    workspace: Mutex<FillWorkspace>,
}

impl MaxMin {
    pub(super) fn new(aware: bool) -> Self {
        Self { aware, workspace: Mutex::default() }
    }
}

/// Relative gap of the lowest level at which water-filling's answer is taken.
const GAP: f64 = 1e-6;

/// A mean rate this near to a kind's, relatively, is that kind's.
const CORNER: f64 = 1e-9;

impl Policy for MaxMin {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let rows = MergedUsers::new(problem, self.aware);
        if rows.beta.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let MergedUsers { w, beta, caps, .. } = &rows;
        let question = maxmin::MaxMin { w, beta, caps, capacity: &problem.capacity };
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let Climb { x, certificate, prices } = climb(&mut workspace, &question)?;
        let k = problem.kinds();
        let mut grants = Vec::with_capacity(rows.members.len() * k);
        for member in &rows.members {
            let x = &x[member.row * k..(member.row + 1) * k];
            let part = member.beta / beta[member.row] / f64::from(problem.users[member.user].gang);
            let held = x.iter().enumerate().filter(|&(_, &gpus)| gpus > 0.0);
            grants.extend(held.map(|(j, gpus)| Grant {
                kind: kind_id(j),
                members: Members::One(user_index(member.user)),
                gangs: gpus * part,
            }));
        }
        let objective = Some(certificate.lower);
        Allocation::check(
            problem,
            Proposal { grants, objective, certificate: Some(certificate), prices, ..Proposal::default() },
        )
    }
}

/// Everybody as high as it goes.
pub(super) struct Climb {
    /// Users × kinds, row by row.
    pub(super) x: Vec<f64>,
    /// Of the lowest level.
    pub(super) certificate: Certificate,
    /// Of the kinds, in the lowest level.
    pub(super) prices: Vec<f64>,
}

/// Water-filling; where numbers are too far apart for its levels to be proved, the lowest level alone.
pub(super) fn climb(workspace: &mut FillWorkspace, question: &maxmin::MaxMin<'_>) -> Result<Climb, AllocateError> {
    let least = |levels: &[f64]| levels.iter().copied().fold(f64::INFINITY, f64::min);
    if let Ok(filling) = workspace.fill(question, Budget::default()) {
        let certificate = Certificate { lower: least(&filling.levels), upper: least(&filling.ceilings) };
        if certificate.gap() <= GAP {
            let prices = filling.bottlenecks.first().map(|lowest| prices(question, &lowest.prices, certificate.lower));
            return Ok(Climb { x: filling.x, certificate, prices: prices.unwrap_or_default() });
        }
    }
    let solution = maxmin::solve_or_general(question, Budget::default())?;
    Ok(Climb { x: solution.x, certificate: solution.bound, prices: solution.prices })
}

/// How much the least level `t` would rise with one more of each resource, from any multiple `p` of these prices.
fn prices(question: &maxmin::MaxMin<'_>, p: &[f64], t: f64) -> Vec<f64> {
    let rows = question.w.chunks_exact(p.len()).zip(question.beta).zip(question.caps);
    let slope: f64 = rows.map(|((w, beta), cap)| beta * marginal_cost(w, question.capacity, p, beta * t / cap)).sum();
    let unit = if slope > 0.0 { slope.recip() } else { 0.0 };
    p.iter().map(|p| p * unit).collect()
}

/// What one unit of rate more costs a user that has `mean` of it for each unit of its cap: the slope there of the lower hull of
/// the points (w_j, p_j) and (0, 0). Infinite where there is no more to be had.
fn marginal_cost(w: &[f64], capacity: &[f64], p: &[f64], mean: f64) -> f64 {
    let (mut at_w, mut at_p) = (0.0, 0.0);
    loop {
        let faster = (0..w.len()).filter(|&j| capacity[j] > 0.0 && w[j] > at_w);
        let slope = |j: usize| (p[j] - at_p) / (w[j] - at_w);
        let Some(next) = faster.min_by(|&a, &b| slope(a).total_cmp(&slope(b)).then(w[b].total_cmp(&w[a]))) else {
            return f64::INFINITY;
        };
        if mean < w[next] * (1.0 - CORNER) {
            return slope(next).max(0.0);
        }
        (at_w, at_p) = (w[next], p[next]);
    }
}

/// A user and the row it shares.
struct Member {
    user: usize,
    row: usize,
    beta: f64,
}

/// The rows of the program. Users with the same speed-ups and the same cap for what they are measured against have one
/// row together and divide its GPUs in proportion to β: exact, since each could have the other's part scaled. For the
/// agnostic policy that is nearly everybody.
struct MergedUsers {
    w: Vec<f64>,
    beta: Vec<f64>,
    caps: Vec<f64>,
    /// Cap over β of each of the row's users.
    ratio: Vec<f64>,
    members: Vec<Member>,
}

impl MergedUsers {
    fn new(problem: &Problem, aware: bool) -> Self {
        let k = problem.kinds();
        let gpus: f64 = problem.capacity.iter().sum();
        let n = problem.users.len();
        let mut rows = Self {
            w: Vec::with_capacity((n + 1) * k),
            beta: Vec::with_capacity(n),
            caps: Vec::with_capacity(n),
            ratio: Vec::with_capacity(n),
            members: Vec::with_capacity(n),
        };
        // By a fingerprint of the row; a row that only looks like another one merely stays apart.
        let mut known: BTreeMap<u64, usize> = BTreeMap::new();
        for (u, user) in problem.users.iter().enumerate() {
            let usable = |j: usize| problem.rates(u)[j] > 0.0 && problem.capacity[j] >= f64::from(user.gang);
            let best = (0..k).filter(|&j| usable(j)).map(|j| problem.rates(u)[j]).fold(0.0, f64::max);
            // Speed-ups over the best kind: a user's own unit of work drops out.
            let speed = |j: usize| match usable(j) {
                true if aware => problem.rates(u)[j] / best,
                true => 1.0,
                false => 0.0,
            };
            let tail = rows.w.len();
            rows.w.extend((0..k).map(speed));
            let equal_split = rows.w[tail..].iter().zip(&problem.capacity).map(|(w, m)| w * m).sum::<f64>() / gpus;
            if best == 0.0 || equal_split <= 0.0 {
                rows.w.truncate(tail);
                continue;
            }
            let beta = f64::from(user.jobs) * user.job_weight * user.tenant_weight * equal_split;
            let cap = f64::from(user.jobs) * f64::from(user.gang);
            let print = rows.w[tail..]
                .iter()
                .chain([&(cap / beta)])
                .fold(0u64, |hash, x| (hash.rotate_left(5) ^ x.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let like = known
                .get(&print)
                .copied()
                .filter(|&row| rows.ratio[row] == cap / beta && rows.w[row * k..(row + 1) * k] == rows.w[tail..]);
            let row = match like {
                Some(row) => {
                    rows.w.truncate(tail);
                    row
                }
                None => {
                    known.insert(print, rows.beta.len());
                    rows.ratio.push(cap / beta);
                    rows.beta.push(0.0);
                    rows.caps.push(0.0);
                    rows.beta.len() - 1
                }
            };
            rows.beta[row] += beta;
            rows.caps[row] += cap;
            rows.members.push(Member { user: u, row, beta });
        }
        rows
    }
}
