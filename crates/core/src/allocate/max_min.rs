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
//! Jobs beyond the bottleneck get the centre of what is left. Agnostic means r = 1 wherever a job fits.

use super::{AllocateError, Allocation, Certificate, Grant, Members, Policy, Problem, Proposal};
use crate::KindId;
use arles_lp::{Budget, maxmin};

pub(super) struct MaxMin {
    pub(super) aware: bool,
}

impl Policy for MaxMin {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let (n, k) = (problem.users.len(), problem.kinds());
        let gpus: f64 = problem.capacity.iter().sum();
        let mut w = Vec::with_capacity(n * k);
        let (mut beta, mut caps, mut rows) = (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
        for (u, user) in problem.users.iter().enumerate() {
            let rate = |j: usize| match problem.rates(u)[j] {
                r if r > 0.0 && problem.capacity[j] >= f64::from(user.gang) => {
                    if self.aware {
                        r
                    } else {
                        1.0
                    }
                }
                _ => 0.0,
            };
            let equal_split = (0..k).map(|j| rate(j) * problem.capacity[j]).sum::<f64>() / gpus;
            if equal_split > 0.0 {
                rows.push(u);
                w.extend((0..k).map(rate));
                beta.push(f64::from(user.jobs) * user.job_weight * user.tenant_weight * equal_split);
                caps.push(f64::from(user.jobs) * f64::from(user.gang));
            }
        }
        if rows.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let question = maxmin::MaxMin { w: &w, beta: &beta, caps: &caps, capacity: &problem.capacity };
        let level = maxmin::solve_or_general(&question, Budget::default())
            .map_err(|refusal| AllocateError::NoAnswer { status: refusal.to_string() })?;
        let mut grants = Vec::with_capacity(rows.len() * k);
        for (&u, x) in rows.iter().zip(level.x.chunks_exact(k)) {
            let gang = f64::from(problem.users[u].gang);
            let held = x.iter().enumerate().filter(|&(_, &gpus)| gpus > 0.0);
            grants.extend(held.map(|(j, gpus)| Grant {
                kind: KindId(j as u16),
                members: Members::One(u as u32),
                gangs: gpus / gang,
            }));
        }
        let certificate = Some(Certificate { lower: level.bound.lower, upper: level.bound.upper });
        Allocation::check(problem, Proposal { grants, objective: Some(level.t), certificate })
    }
}
