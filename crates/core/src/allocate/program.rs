//! What the programs over users have in common: who can be served at all, rates over the best kind's, the max-min level
//! for given needs, GPUs that a program left over, and GPUs as grants.
//!
//! x_lj is how many GPUs of kind j user l holds, over time; r_lj is the rate of one gang of g_l GPUs, n_l the number of
//! gangs. With w_lj = r_lj / r_l*, r_l* the best of the kinds that have room for a gang, user l's rate in all is
//!
//!   thr_l = (r_l*/g_l) · Σ_j w_lj x_lj      and      Σ_j x_lj ≤ d_l = n_l g_l.
//!
//! Needs are therefore put to [`arles_lp::maxmin`] as β_l = need_l · g_l / r_l*: its level t is the largest for which
//! thr_l ≥ t · need_l for all l.

use super::{AllocateError, Grant, Members, Problem, kind_id, user_index};
use arles_lp::{Budget, maxmin};

/// Users that can be served, in the order of the problem; all lists are theirs.
#[derive(Clone)]
pub(super) struct Served {
    /// Index in the problem.
    pub(super) users: Vec<usize>,
    /// Rates over the best, users × kinds; 0 where a gang does not fit.
    pub(super) w: Vec<f64>,
    /// Most GPUs, d.
    pub(super) caps: Vec<f64>,
    /// r*/g: the best rate per GPU.
    pub(super) per_gpu: Vec<f64>,
}

/// Relative gap at which the structured solver's answer is taken; the general solver is asked otherwise.
const GAP: f64 = 1e-7;

/// A job is taken to have at least this part of its work left: what is known of its progress is an estimate, and a job
/// that is not over must not look as if it were.
const LEAST_LEFT: f64 = 0.01;

/// A job of which not even the whole length is known is taken to last this long on its best kind.
const UNKNOWN_SECONDS: f64 = 3600.0;

impl Served {
    pub(super) fn new(problem: &Problem) -> Self {
        let mut served = Self { users: Vec::new(), w: Vec::new(), caps: Vec::new(), per_gpu: Vec::new() };
        for u in 0..problem.users.len() {
            let best = problem.gpu_rates(u).fold(0.0, f64::max);
            if best > 0.0 && problem.users[u].jobs > 0 {
                served.users.push(u);
                served.w.extend(problem.gpu_rates(u).map(|r| r / best));
                served.caps.push(problem.most_gpus(u));
                served.per_gpu.push(best);
            }
        }
        served
    }

    /// Rate of the `i`th user in all, holding `x` (its own row).
    pub(super) fn rate(&self, i: usize, x: &[f64]) -> f64 {
        let w = &self.w[i * x.len()..(i + 1) * x.len()];
        self.per_gpu[i] * w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>()
    }

    /// Rate of the `i`th user with all its gangs on its best kind.
    pub(super) fn full_rate(&self, i: usize) -> f64 {
        self.per_gpu[i] * self.caps[i]
    }

    /// Steps that the `i`th user has left, as they should be reckoned with: never nothing.
    pub(super) fn steps_left(&self, problem: &Problem, i: usize) -> f64 {
        let user = &problem.users[self.users[i]];
        let known = user.steps_left.max(LEAST_LEFT * (user.steps_done + user.steps_left));
        if known > 0.0 { known } else { self.full_rate(i) * UNKNOWN_SECONDS }
    }

    /// The largest t with thr_l ≥ t · need_l for all, and who holds what.
    pub(super) fn level(
        &self,
        problem: &Problem,
        needs: &[f64],
        workspace: &mut maxmin::Workspace,
    ) -> Result<maxmin::Solution, AllocateError> {
        let beta: Vec<f64> = needs.iter().zip(&self.per_gpu).map(|(need, rate)| need / rate).collect();
        let question = maxmin::MaxMin { w: &self.w, beta: &beta, caps: &self.caps, capacity: &problem.capacity };
        match workspace.solve(&question, Budget::default(), GAP) {
            Ok(solution) if solution.bound.gap() <= GAP => Ok(solution.clone()),
            _ => Ok(maxmin::solve_or_general(&question, Budget::default())?),
        }
    }

    /// Who holds what when the least thr_l/need_l is as high as it can be, then the next, and so on; `None` where the numbers are too far apart.
    /// Nothing is proved: whoever asks checks the answer.
    pub(super) fn fill(
        &self,
        problem: &Problem,
        needs: &[f64],
        workspace: &mut maxmin::FillWorkspace,
    ) -> Option<Vec<f64>> {
        let beta: Vec<f64> = needs.iter().zip(&self.per_gpu).map(|(need, rate)| need / rate).collect();
        let question = maxmin::MaxMin { w: &self.w, beta: &beta, caps: &self.caps, capacity: &problem.capacity };
        workspace.shares(&question, Budget::default()).ok()
    }

    /// Gives away what `x` leaves over, kind by kind, to whoever can use it, in proportion to how much more it can hold.
    pub(super) fn top_up(&self, problem: &Problem, x: &mut [f64]) {
        self.top_up_beside(problem, x, &vec![0.0; problem.kinds()], &vec![0.0; self.users.len()]);
    }

    /// The same where `busy` GPUs of each kind are in other use and every user holds some GPUs `besides`.
    pub(super) fn top_up_beside(&self, problem: &Problem, x: &mut [f64], busy: &[f64], besides: &[f64]) {
        let k = problem.kinds();
        for j in 0..k {
            let spare = problem.capacity[j] - busy[j] - x.iter().skip(j).step_by(k).sum::<f64>();
            let room = |i: usize, x: &[f64]| match self.w[i * k + j] > 0.0 {
                true => (self.caps[i] - besides[i] - x[i * k..(i + 1) * k].iter().sum::<f64>()).max(0.0),
                false => 0.0,
            };
            let rooms: f64 = (0..self.users.len()).map(|i| room(i, x)).sum();
            if spare > 0.0 && rooms > 0.0 {
                let part = (spare / rooms).min(1.0);
                for i in 0..self.users.len() {
                    x[i * k + j] += part * room(i, x);
                }
            }
        }
    }

    /// GPUs as grants of gangs.
    pub(super) fn grants(&self, problem: &Problem, x: &[f64]) -> Vec<Grant> {
        grants(problem, &self.users, x)
    }
}

/// The grants that give each of `users` its row of x, in GPUs.
pub(super) fn grants(problem: &Problem, users: &[usize], x: &[f64]) -> Vec<Grant> {
    let mut grants = Vec::with_capacity(2 * users.len());
    for (row, &u) in x.chunks_exact(problem.kinds().max(1)).zip(users) {
        let gang = f64::from(problem.users[u].gang);
        let held = row.iter().enumerate().filter(|(_, gpus)| **gpus > 0.0);
        grants.extend(held.map(|(j, gpus)| Grant {
            kind: kind_id(j),
            members: Members::One(user_index(u)),
            gangs: gpus / gang,
        }));
    }
    grants
}

/// Every job of every served user, as an index among the served: for policies that order jobs and were not given them one
/// by one. Of a user's jobs no more than can run at once.
pub(super) fn units(problem: &Problem, served: &Served) -> Vec<usize> {
    let mut units = Vec::with_capacity(served.users.len());
    for (i, &u) in served.users.iter().enumerate() {
        let user = &problem.users[u];
        let rooms = problem.gpu_rates(u).zip(&problem.capacity).filter(|(r, _)| *r > 0.0);
        let most: f64 = rooms.map(|(_, m)| (m / f64::from(user.gang)).floor()).sum();
        units.extend(std::iter::repeat_n(i, f64::from(user.jobs).min(most) as usize));
    }
    units
}
