//! Scales a problem and finds a point to start from that satisfies every row, on both sides.
//!
//! Scaling: a user's rates are divided by the greatest of them, `t` is counted in units of
//! `T = Σ m / Σ β/w_max` (everybody at full speed with all there is). Resources that have no capacity, or that
//! nobody can use, are left out.
//!
//! The analytic centre of a simplex has all its parts equal, the slack included. So with `n_j` users of resource `j`
//! and `k_l` resources of user `l`, near the centre a share is
//!
//! ```text
//! x_lj = min(m_j/(n_j + 1), d_l/(k_l + 1))
//! ```
//!
//! which leaves `g_j ≥ m_j/(n_j + 1)` and `c_l ≥ d_l/(k_l + 1)`. A level `t` below everybody's `w·x/β` leaves a surplus
//! `s > 0`. On the dual side `λ = κ/s`, with κ such that `Σ β λ = 1`, makes the products of the surplus equal. Since
//! `w_j x_j ≤ w·x`, `λ_l w_lj x_lj ≤ κ/(1 − LEVEL)`, so `r = p + μ − λ w` is positive once `p_j` or `μ_l`, whichever
//! belongs to the row that set `x_lj`, is `RENT κ/x_lj` with `RENT > 1/(1 − LEVEL)`.

use super::MaxMin;
use super::interior::{Column, Iterate, Resources, Users};
use super::lanes::{LANES, Lanes};
use super::pair::Pair;
use crate::InputError;

/// Where `t` starts, as a part of what the worst-off user has.
const LEVEL: f64 = 0.2;
/// What a binding row charges per share, in units of `κ/x`.
const RENT: f64 = 2.0;

/// How to read a scaled iterate.
#[derive(Clone, Debug, Default)]
pub(super) struct Scaling {
    /// The resources that take part.
    pub(super) resources: Vec<usize>,
    /// Each user's greatest rate among those.
    pub(super) rate: Vec<f64>,
    /// The unit of `t`.
    pub(super) level: f64,
    /// Users of each resource that takes part.
    sharers: Vec<f64>,
    /// Resources of each user.
    choices: Vec<f64>,
}

impl Scaling {
    /// Looks through the problem once.
    pub(super) fn measure(&mut self, problem: &MaxMin<'_>) -> Result<(), InputError> {
        let k = problem.capacity.len();
        self.rate.clear();
        self.choices.clear();
        self.sharers.clear();
        self.sharers.resize(k, 0.0);
        for (l, w) in problem.w.chunks_exact(k).enumerate() {
            let (mut greatest, mut choices) = (0.0, 0.0);
            for j in 0..k {
                if w[j] > 0.0 && problem.capacity[j] > 0.0 {
                    greatest = if w[j] > greatest { w[j] } else { greatest };
                    choices += 1.0;
                    self.sharers[j] += 1.0;
                }
            }
            if greatest == 0.0 {
                return Err(InputError::Unservable { user: l });
            }
            self.rate.push(greatest);
            self.choices.push(choices);
        }
        self.resources.clear();
        self.resources.extend((0..k).filter(|&j| self.sharers[j] > 0.0));
        self.sharers.retain(|&sharers| sharers > 0.0);
        let all: f64 = self.resources.iter().map(|&j| problem.capacity[j]).sum();
        let wanted: f64 = problem.beta.iter().zip(&self.rate).map(|(beta, rate)| beta / rate).sum();
        self.level = all / wanted;
        Ok(())
    }

    /// Fills `at` with the starting point, its columns `K` to a block.
    pub(super) fn start<const K: usize>(&self, problem: &MaxMin<'_>, at: &mut Iterate) {
        self.load::<K>(problem, at);
        let (mut left, mut scarce) = ([0.0; K], [false; K]);
        let share: [f64; K] = std::array::from_fn(|j| match self.resources.get(j) {
            Some(&resource) => problem.capacity[resource] / (self.sharers[j] + 1.0),
            None => 1.0,
        });
        for (j, &resource) in self.resources.iter().enumerate() {
            left[j] = problem.capacity[resource];
        }
        let mut worst = f64::INFINITY;
        for l in 0..self.rate.len() {
            let (users, columns, q) = user::<K>(at, l);
            let room = if users.capped.0[q] > 0.0 { problem.caps[l] / (self.choices[l] + 1.0) } else { f64::INFINITY };
            let (mut served, mut used) = (0.0, 0.0);
            for j in 0..K {
                let w = columns[j].w.0[q];
                if w > 0.0 {
                    scarce[j] |= share[j] <= room;
                    let x = share[j].min(room);
                    columns[j].share.primal.0[q] = x;
                    served += w * x;
                    used += x;
                    left[j] -= x;
                }
            }
            users.surplus.primal.0[q] = served;
            if users.capped.0[q] > 0.0 {
                users.slack.primal.0[q] = problem.caps[l] - used;
            }
            worst = f64::min(worst, served / users.beta.0[q]);
        }
        at.t = LEVEL * worst;
        let kappa = surplus(at);
        let price: [f64; K] = std::array::from_fn(|j| kappa * if scarce[j] { RENT / share[j] } else { 1.0 / left[j] });
        self.charge::<K>(problem, at, kappa, &share, &price);
        at.resources.clear();
        at.resources.extend((0..K.div_ceil(LANES)).map(|block| self.resource_block(problem, block, &left, &price)));
    }

    /// Puts other targets and capacities into an iterate for the same users. Its rows then do not quite hold, which the
    /// next steps repair.
    pub(super) fn restart<const K: usize>(&self, problem: &MaxMin<'_>, at: &mut Iterate) {
        for l in 0..self.rate.len() {
            let (users, _, q) = user::<K>(at, l);
            users.beta.0[q] = problem.beta[l] / self.rate[l] * self.level;
        }
        for (j, &resource) in self.resources.iter().enumerate() {
            at.resources[j / LANES].capacity.0[j % LANES] = problem.capacity[resource];
        }
    }

    /// Copies the scaled data; every pair is one until told otherwise.
    fn load<const K: usize>(&self, problem: &MaxMin<'_>, at: &mut Iterate) {
        let (n, k) = (self.rate.len(), problem.capacity.len());
        let blocks = n.div_ceil(LANES);
        let (zero, ones) = (Lanes::ZERO, Pair::new(Lanes::ONE, Lanes::ONE));
        at.columns.clear();
        at.columns.resize(blocks * K, Column { w: zero, share: ones });
        at.users.clear();
        at.users.resize(blocks, Users::new(zero, zero, zero, zero));
        let capped = problem.caps.iter().filter(|d| d.is_finite()).count();
        let shares: f64 = self.choices.iter().sum();
        at.pairs = shares + (n + capped + self.resources.len()) as f64;
        for l in 0..n {
            let (users, columns, q) = user::<K>(at, l);
            let scale = 1.0 / self.rate[l];
            users.beta.0[q] = problem.beta[l] * scale * self.level;
            users.live.0[q] = 1.0;
            if problem.caps[l].is_finite() {
                users.cap.0[q] = problem.caps[l];
                users.capped.0[q] = 1.0;
            }
            let w = &problem.w[l * k..][..k];
            for (column, &resource) in columns.iter_mut().zip(&self.resources) {
                column.w.0[q] = w[resource] * scale;
            }
        }
    }

    /// Sets μ and r.
    fn charge<const K: usize>(
        &self,
        problem: &MaxMin<'_>,
        at: &mut Iterate,
        kappa: f64,
        share: &[f64; K],
        price: &[f64; K],
    ) {
        for l in 0..self.rate.len() {
            let (users, columns, q) = user::<K>(at, l);
            let mut mu = 0.0;
            if users.capped.0[q] > 0.0 {
                let room = problem.caps[l] / (self.choices[l] + 1.0);
                let tight = (0..K).any(|j| columns[j].w.0[q] > 0.0 && room < share[j]);
                mu = kappa * if tight { RENT / room } else { 1.0 / users.slack.primal.0[q] };
                users.slack.dual.0[q] = mu;
            }
            let lambda = users.surplus.dual.0[q];
            for j in 0..K {
                let w = columns[j].w.0[q];
                if w > 0.0 {
                    columns[j].share.dual.0[q] = price[j] + mu - lambda * w;
                }
            }
        }
    }

    fn resource_block<const K: usize>(
        &self,
        problem: &MaxMin<'_>,
        block: usize,
        left: &[f64; K],
        price: &[f64; K],
    ) -> Resources {
        let mut resources =
            Resources { capacity: Lanes::ZERO, live: Lanes::ZERO, slack: Pair::new(Lanes::ONE, Lanes::ONE) };
        for (q, (j, &resource)) in self.resources.iter().enumerate().skip(block * LANES).take(LANES).enumerate() {
            resources.capacity.0[q] = problem.capacity[resource];
            resources.live.0[q] = 1.0;
            resources.slack.primal.0[q] = left[j];
            resources.slack.dual.0[q] = price[j];
        }
        resources
    }
}

/// One user's block, columns and lane.
#[inline(always)]
fn user<const K: usize>(at: &mut Iterate, l: usize) -> (&mut Users, &mut [Column; K], usize) {
    let block = l / LANES;
    (&mut at.users[block], &mut at.columns.as_chunks_mut::<K>().0[block], l % LANES)
}

/// Turns what everybody has into a surplus over `β t` and sets `λ = κ/s`; returns κ.
fn surplus(at: &mut Iterate) -> f64 {
    let mut weight = Lanes::ZERO;
    for users in &mut at.users {
        users.surplus.primal = users.surplus.primal - users.beta * Lanes::all(at.t);
        users.surplus.dual = Lanes::ONE / users.surplus.primal;
        weight += users.beta * users.surplus.dual;
    }
    let kappa = 1.0 / weight.sum();
    for users in &mut at.users {
        users.surplus.dual = users.surplus.dual * Lanes::all(kappa);
    }
    kappa
}
