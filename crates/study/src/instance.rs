//! Divisible instances: n users with speed-ups w on k kinds of m GPUs, and what a policy makes of them.
//!
//! ```text
//! utility of l   w_l·x_l = Σ_j w_l^j x_l^j            x_l^j GPUs of kind j that l holds on average
//! sharing        w_l·x_l ≥ w_l·m π_l/Σπ               nobody below its part of every kind
//! envy           w_l·x_l/π_l < w_l·x_i/π_i            l would rather have what i has, by weight
//! ```
//!
//! Sharing and envy are judged by [`arles_core::audit`]. Nothing here knows a policy: it is asked through the [`Problem`] that the scheduler would give it. Users have enough
//! single-GPU jobs to fill the whole cluster, so nothing but the capacity limits them.

use arles_core::allocate::{ClassId, Entitlement, Members, Policy, Problem, User};
use arles_core::audit::Audit;
use arles_core::{Round, TenantId, Time, WorkloadId};

/// Relative differences below this are the solvers', not the policies'.
pub(super) const SLACK: f64 = 1e-5;

/// Users, kinds and speed-ups.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Instance {
    /// Speed-ups, users × kinds; positive.
    pub(super) w: Vec<f64>,
    /// GPUs of each kind.
    pub(super) m: Vec<f64>,
    /// Weight of each user.
    pub(super) pi: Vec<f64>,
}

/// GPUs of each kind for each user, users × kinds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Shares(pub(super) Vec<f64>);

impl Instance {
    pub(super) fn users(&self) -> usize {
        self.pi.len()
    }

    pub(super) fn kinds(&self) -> usize {
        self.m.len()
    }

    /// Speed-ups of a user.
    pub(super) fn w(&self, l: usize) -> &[f64] {
        &self.w[l * self.kinds()..(l + 1) * self.kinds()]
    }

    /// What the policy gives to users who report the speed-ups `told`.
    pub(super) fn ask(&self, policy: &dyn Policy, told: &[f64]) -> Result<Shares, String> {
        let problem = self.problem(told)?;
        let answer = policy.allocate(&problem).map_err(|error| error.to_string())?;
        let mut x = vec![0.0; told.len()];
        for grant in answer.grants() {
            let held = match grant.members {
                Members::One(u) => [Some(u), None],
                Members::Two(u, v) => [Some(u), Some(v)],
            };
            for u in held.into_iter().flatten() {
                x[u as usize * self.kinds() + grant.kind.index()] += grant.gangs;
            }
        }
        Ok(Shares(x))
    }

    /// The same with everybody honest.
    pub(super) fn ask_honestly(&self, policy: &dyn Policy) -> Result<Shares, String> {
        self.ask(policy, &self.w)
    }

    /// The problem as a scheduler would put it.
    pub(super) fn problem(&self, told: &[f64]) -> Result<Problem, String> {
        let jobs = self.m.iter().sum::<f64>().ceil() as u32;
        let user = |(l, &weight): (usize, &f64)| User {
            class: ClassId(l as u32),
            tenant: TenantId(l as u32),
            tenant_weight: weight,
            workload: WorkloadId(l as u32),
            gang: 1,
            jobs,
            job_weight: 1.0,
            parts: 1,
            floor: None,
            job: None,
            arrived: Time::ZERO,
            attained_gpu_seconds: 0.0,
            steps_done: 0.0,
            steps_left: f64::from(jobs),
            held: None,
        };
        let users = self.pi.iter().enumerate().map(user).collect();
        Problem::new(Round(0), self.m.clone(), users, told.to_vec()).map_err(|error| error.to_string())
    }

    /// Everybody's part of every kind, by weight.
    pub(super) fn equal_split(&self) -> Shares {
        let all: f64 = self.pi.iter().sum();
        Shares(self.pi.iter().flat_map(|pi| self.m.iter().map(move |m| m * pi / all)).collect())
    }

    /// What user l makes of the shares that user i has.
    pub(super) fn worth(&self, l: usize, x: &Shares, i: usize) -> f64 {
        let k = self.kinds();
        self.w(l).iter().zip(&x.0[i * k..(i + 1) * k]).map(|(w, x)| w * x).sum()
    }

    /// Utilities of all users.
    pub(super) fn utilities(&self, x: &Shares) -> Vec<f64> {
        (0..self.users()).map(|l| self.worth(l, x, l)).collect()
    }

    /// Sum of the utilities: the total throughput, in GPUs of everybody's slowest kind.
    pub(super) fn total(&self, x: &Shares) -> f64 {
        self.utilities(x).iter().sum()
    }

    /// The audit of shares by the true speed-ups.
    pub(super) fn audit(&self, x: &Shares) -> Result<Audit, String> {
        let problem = self.problem(&self.w)?;
        Audit::of_holdings(&problem, Entitlement::Tenants, x.0.clone()).map_err(|error| error.to_string())
    }
}

/// For every user, by how much it falls short of its part of every kind, relative to that.
pub(super) fn shortfalls(audit: &Audit) -> Vec<f64> {
    (0..audit.utilities().len()).map(|l| 1.0 - audit.sharing(l)).collect()
}

/// For every user, by how much it would gain with the bundle it likes best, by weight, relative to its own.
pub(super) fn envies(audit: &Audit) -> Vec<f64> {
    let n = audit.utilities().len();
    let worst = |l: usize| (0..n).filter(|&i| i != l).map(|i| audit.envy(l, i) - 1.0).fold(0.0, f64::max);
    (0..n).map(worst).collect()
}

/// Those above the solvers' slack: how many, and the largest.
pub(super) fn violations(values: &[f64]) -> (usize, f64) {
    let beyond = || values.iter().copied().filter(|value| *value > SLACK);
    (beyond().count(), beyond().fold(0.0, f64::max))
}
