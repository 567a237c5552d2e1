//! The structured interior point: Mehrotra's predictor and corrector, `O(n k²)` per iteration.
//!
//! # The program, its pairs, its dual
//!
//! With a surplus `s`, a cap slack `c` and a capacity slack `g`, each beside the dual that is its reduced cost:
//!
//! ```text
//! maximise t      Σ_j w_lj x_lj − s_l − β_l t = 0      λ_l      pairs (x_lj, r_lj)   r_lj = p_j + μ_l − λ_l w_lj
//!                 Σ_j x_lj + c_l = d_l                 μ_l            (s_l, λ_l), (c_l, μ_l), (g_j, p_j)
//!                 Σ_l x_lj + g_j = m_j                 p_j      dual  Σ_l β_l λ_l = 1,  everything ≥ 0
//! ```
//!
//! The gap between the two objectives is the sum of the products of all pairs. Iterates start feasible on both
//! sides ([`super::start`]) and stay so, hence the sum *is* the error in `t` and there is nothing else to watch.
//!
//! # One Newton step
//!
//! Every pair moves by `dx = ξ/r − θ dr`, `θ = x/r` ([`super::pair`]). Write `v = (ξ + x r)/r`, so that the new
//! value is `x + dx = v − θ dr`; demanding the rows of the *new* values repairs rounding on the way. With
//! `dr_j = dp_j + dμ − w_j dλ`, user by user (index l dropped, `t` the new level):
//!
//! ```text
//! (Σθw² + θ_s) dλ − Σθw dμ       = R1,   R1 = β t − Σ w v + v_s + Σ θ w dp
//!        Σθw dλ − (Σθ + θ_c) dμ  = R2,   R2 = d − Σ v − v_c + Σ θ dp
//! ```
//!
//! Let `Θ = Σθ + θ_c`, `w̄ = Σθw/Θ`, `δ_j = w_j − w̄`. The second row gives `dμ = w̄ dλ − R2/Θ`, and the first becomes
//! `V dλ = R1 − w̄ R2` with
//!
//! ```text
//! V = Σθ δ² + θ_c w̄² + θ_s
//! ```
//!
//! a sum of positive terms: the uncentred `Σθw² − (Σθw)²/Θ` cancels as soon as a cap binds. (No cap: `1/Θ = 0`,
//! `w̄ = 0`. The surplus merely adds `θ_s`.) With `z_j = θ_j δ_j` and `e_λ = (−Σwv + v_s − w̄ e₂)/V`, `e₂ = d − Σv − v_c`:
//!
//! ```text
//! dλ = e_λ + (Σ z dp + β t)/V,      dμ = w̄ dλ − (e₂ + Σ θ dp)/Θ
//! ```
//!
//! Put into the rows of the resources and of `t`, this is the system of [`super::schur`]:
//!
//! ```text
//! N_ji = [i=j](Σ_l θ_j + θ_g) − Σ_l (z_j z_i/V + θ_j θ_i/Θ)      a_j = Σ_l (v_j + θ_j e₂/Θ + z_j e_λ) + v_g − m_j
//! h_j  = Σ_l β z_j/V          H = Σ_l β²/V                       b   = 1 − Σ β (λ + e_λ)
//! ```
//!
//! # Three passes over the users
//!
//! *Weigh* takes the last step and builds the system with the predictor's right-hand side (`v = 0`). *Predict*
//! finds the predictor's steps and at once the corrector's right-hand side, kept affine in the still unknown
//! centring target σκ. *Correct* finds the steps to take.

use super::lanes::{LANES, Lanes};
use super::pair::{Limits, Pair, Reach, Split, Stride};
use super::schur::Schur;

/// One resource as seen by the users of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// w, scaled so that a user's greatest is 1; 0 means that the column is absent
    pub(super) w: Lanes,
    /// (x, r)
    pub(super) share: Pair,
}

/// The users of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Users {
    /// β, scaled
    pub(super) beta: Lanes,
    /// d, or 0 where there is no cap
    pub(super) cap: Lanes,
    /// 1 where there is a cap
    pub(super) capped: Lanes,
    /// 1 where there is a user
    pub(super) live: Lanes,
    /// (s, λ)
    pub(super) surplus: Pair,
    /// (c, μ)
    pub(super) slack: Pair,
    /// 1/V, 1/Θ and w̄
    inverse_v: Lanes,
    inverse_theta: Lanes,
    mean: Lanes,
    /// e_λ and e₂ of the corrector
    e_lambda: Split,
    e_cap: Split,
}

impl Users {
    pub(super) fn new(beta: Lanes, cap: Lanes, capped: Lanes, live: Lanes) -> Self {
        let (zero, none) = (Lanes::ZERO, Split { fixed: Lanes::ZERO, per_centre: Lanes::ZERO });
        let pair = Pair::new(Lanes::ONE, Lanes::ONE);
        Self {
            beta,
            cap,
            capped,
            live,
            surplus: pair,
            slack: pair,
            inverse_v: zero,
            inverse_theta: zero,
            mean: zero,
            e_lambda: none,
            e_cap: none,
        }
    }
}

/// The resources, side by side in lanes like users.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resources {
    /// m
    pub(super) capacity: Lanes,
    /// 1 where there is a resource
    pub(super) live: Lanes,
    /// (g, p)
    pub(super) slack: Pair,
}

/// An iterate.
#[derive(Clone, Debug, Default)]
pub(super) struct Iterate {
    /// Blocks × K.
    pub(super) columns: Vec<Column>,
    pub(super) users: Vec<Users>,
    pub(super) resources: Vec<Resources>,
    pub(super) t: f64,
}

/// When to stop, and when it did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) iterations: u32,
    pub(super) tolerance: f64,
}

/// A gap that shrinks by less than this factor is a stall.
const STALL: f64 = 0.9;
/// Stalls in a row before giving up.
const PATIENCE: u32 = 5;

/// Iterates until the gap is at most `tolerance · t`, the iterations are spent or nothing moves any more; returns
/// the iterations taken. What is left in `at` is always the best iterate: gaps only shrink.
pub(super) fn run<const K: usize>(at: &mut Iterate, stop: Stop) -> u32 {
    let mut stride = Stride { primal: 0.0, dual: 0.0 };
    let mut stalls = 0;
    for iteration in 1..=stop.iterations {
        let weighed = weigh::<K>(at, stride);
        let (schur, gap) = (weighed.schur, weighed.gap);
        let (dp, t) = schur.solve(weighed.a, weighed.b);
        let predicted = predict::<K>(at, &dp, t, weighed.beta_lambda);
        let shrink = (predicted.reach.gap_after(gap) / gap).clamp(0.0, 1.0);
        let centre = shrink.powi(3) * gap / weighed.pairs;
        let a = std::array::from_fn(|j| predicted.a_fixed[j] + centre * predicted.a_per_centre[j]);
        let (dp, t) = schur.solve(a, predicted.b_fixed + centre * predicted.b_per_centre);
        let limits = correct::<K>(at, &dp, t, centre);
        stride = limits.stride((1.0 - gap / weighed.pairs).clamp(0.99, 0.9995));
        let mut next = limits.gap_after(gap, stride);
        if next >= gap {
            // Two feasible strides can widen the gap between them; one common stride cannot, as dx·dr = 0.
            stride = stride.common();
            next = limits.gap_after(gap, stride);
        }
        // False for NaN as well: then the step is not taken and the last good iterate stands.
        if !(t.is_finite() && next < gap) {
            return iteration;
        }
        at.t += stride.primal * (t - at.t);
        stalls = if next > STALL * gap { stalls + 1 } else { 0 };
        if next <= stop.tolerance * at.t || stalls == PATIENCE {
            advance::<K>(at, stride);
            return iteration;
        }
    }
    advance::<K>(at, stride);
    stop.iterations
}

/// Takes a step.
fn advance<const K: usize>(at: &mut Iterate, stride: Stride) {
    at.columns.iter_mut().for_each(|column| column.share.advance(stride));
    at.resources.iter_mut().for_each(|resource| resource.slack.advance(stride));
    for users in &mut at.users {
        users.surplus.advance(stride);
        users.slack.advance(stride);
    }
}

/// The system, the predictor's right-hand side and the size of the gap.
struct Weighed<const K: usize> {
    schur: Schur<K>,
    a: [f64; K],
    b: f64,
    gap: f64,
    pairs: f64,
    /// Σ β λ
    beta_lambda: f64,
}

fn weigh<const K: usize>(at: &mut Iterate, stride: Stride) -> Weighed<K> {
    let zero = Lanes::ZERO;
    let (mut gap, mut pairs, mut hh, mut b, mut beta_lambda) = (zero, zero, zero, zero, zero);
    let (mut normal, mut diagonal, mut h, mut a) = ([[zero; K]; K], [zero; K], [zero; K], [zero; K]);
    for (users, columns) in at.users.iter_mut().zip(at.columns.as_chunks_mut::<K>().0) {
        users.surplus.advance(stride);
        users.slack.advance(stride);
        gap += users.surplus.weigh(users.live) + users.slack.weigh(users.capped);
        pairs += users.live + users.capped;
        let (mut theta, mut theta_w) = (users.slack.theta, zero);
        for column in columns.iter_mut() {
            let present = column.w.positive();
            column.share.advance(stride);
            gap += column.share.weigh(present);
            pairs += present;
            theta += column.share.theta;
            theta_w += column.share.theta * column.w;
        }
        let inverse_theta = users.capped / (theta + Lanes::ONE - users.capped);
        let mean = theta_w * inverse_theta;
        let mut v = users.slack.theta * mean * mean + users.surplus.theta + Lanes::ONE - users.live;
        let mut z = [zero; K];
        for j in 0..K {
            let delta = columns[j].w - mean;
            z[j] = columns[j].share.theta * delta;
            v += z[j] * delta;
        }
        let inverse_v = Lanes::ONE / v;
        let e_lambda = -(mean * users.cap * inverse_v);
        for j in 0..K {
            let theta = columns[j].share.theta;
            let (z_over_v, theta_over) = (z[j] * inverse_v, theta * inverse_theta);
            diagonal[j] += theta;
            h[j] += users.beta * z_over_v;
            a[j] += theta_over * users.cap + z[j] * e_lambda;
            for i in 0..=j {
                normal[j][i] += z_over_v * z[i] + theta_over * columns[i].share.theta;
            }
        }
        hh += users.beta * users.beta * inverse_v;
        b += users.beta * e_lambda;
        beta_lambda += users.beta * users.surplus.dual;
        (users.inverse_v, users.inverse_theta, users.mean) = (inverse_v, inverse_theta, mean);
    }
    let mut system: [[f64; K]; K] = normal.map(|row| row.map(|entry| -entry.sum()));
    let mut right = a.map(Lanes::sum);
    for (block, resources) in at.resources.iter_mut().enumerate() {
        resources.slack.advance(stride);
        gap += resources.slack.weigh(resources.live);
        pairs += resources.live;
        for (j, q) in lanes_of::<K>(block) {
            let padding = 1.0 - resources.live.0[q];
            system[j][j] += diagonal[j].sum() + resources.slack.theta.0[q] + padding;
            right[j] -= resources.capacity.0[q];
        }
    }
    let beta_lambda = beta_lambda.sum();
    let schur = Schur::new(system, h.map(Lanes::sum), hh.sum());
    Weighed { schur, a: right, b: 1.0 - beta_lambda - b.sum(), gap: gap.sum(), pairs: pairs.sum(), beta_lambda }
}

/// The resources of one block, as `(resource, lane)`.
#[inline(always)]
fn lanes_of<const K: usize>(block: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..LANES).map(move |q| (block * LANES + q, q)).take_while(|&(j, _)| j < K)
}

/// The price steps of one block of resources.
#[inline(always)]
fn price_steps<const K: usize>(block: usize, dp: &[f64; K]) -> Lanes {
    let mut steps = Lanes::ZERO;
    for (j, q) in lanes_of::<K>(block) {
        steps.0[q] = dp[j];
    }
    steps
}

/// The predictor's reach and the corrector's right-hand side, affine in σκ.
struct Predicted<const K: usize> {
    reach: Reach,
    a_fixed: [f64; K],
    a_per_centre: [f64; K],
    b_fixed: f64,
    b_per_centre: f64,
}

fn predict<const K: usize>(at: &mut Iterate, dp: &[f64; K], t: f64, beta_lambda: f64) -> Predicted<K> {
    let zero = Lanes::ZERO;
    let mut reach = Reach::NONE;
    let (mut a_fixed, mut a_per_centre, mut b_fixed, mut b_per_centre) = ([zero; K], [zero; K], zero, zero);
    for (users, columns) in at.users.iter_mut().zip(at.columns.as_chunks_mut::<K>().0) {
        let e_lambda = -(users.mean * users.cap * users.inverse_v);
        let (d_lambda, d_mu) = user_steps(users, columns, dp, t, e_lambda, users.cap);
        users.surplus.predict(d_lambda, &mut reach);
        users.slack.predict(d_mu, &mut reach);
        let (v_s, v_c) = (users.surplus.pull(), users.slack.pull());
        let mut e1 = v_s;
        let mut e2 = Split { fixed: users.cap - v_c.fixed, per_centre: -v_c.per_centre };
        for j in 0..K {
            let column = &mut columns[j];
            column.share.predict(Lanes::all(dp[j]) + d_mu - column.w * d_lambda, &mut reach);
            let v = column.share.pull();
            e1.fixed += -(column.w * v.fixed);
            e1.per_centre += -(column.w * v.per_centre);
            e2.fixed += -v.fixed;
            e2.per_centre += -v.per_centre;
            a_fixed[j] += v.fixed;
            a_per_centre[j] += v.per_centre;
        }
        let e_lambda = Split {
            fixed: (e1.fixed - users.mean * e2.fixed) * users.inverse_v,
            per_centre: (e1.per_centre - users.mean * e2.per_centre) * users.inverse_v,
        };
        for j in 0..K {
            let theta = columns[j].share.theta;
            let z = theta * (columns[j].w - users.mean);
            let theta_over = theta * users.inverse_theta;
            a_fixed[j] += theta_over * e2.fixed + z * e_lambda.fixed;
            a_per_centre[j] += theta_over * e2.per_centre + z * e_lambda.per_centre;
        }
        b_fixed += users.beta * e_lambda.fixed;
        b_per_centre += users.beta * e_lambda.per_centre;
        (users.e_lambda, users.e_cap) = (e_lambda, e2);
    }
    let (mut a_fixed, mut a_per_centre) = (a_fixed.map(Lanes::sum), a_per_centre.map(Lanes::sum));
    for (block, resources) in at.resources.iter_mut().enumerate() {
        resources.slack.predict(price_steps(block, dp), &mut reach);
        let v_g = resources.slack.pull();
        for (j, q) in lanes_of::<K>(block) {
            a_fixed[j] += v_g.fixed.0[q] - resources.capacity.0[q];
            a_per_centre[j] += v_g.per_centre.0[q];
        }
    }
    let b_fixed = 1.0 - beta_lambda - b_fixed.sum();
    Predicted { reach, a_fixed, a_per_centre, b_fixed, b_per_centre: -b_per_centre.sum() }
}

/// `dλ` and `dμ`, given the price steps, the new level and the user's own right-hand sides.
#[inline(always)]
fn user_steps<const K: usize>(
    users: &Users,
    columns: &[Column; K],
    dp: &[f64; K],
    t: f64,
    e_lambda: Lanes,
    e_cap: Lanes,
) -> (Lanes, Lanes) {
    let (mut along_z, mut along_theta) = (users.beta * Lanes::all(t), e_cap);
    for j in 0..K {
        let theta_dp = columns[j].share.theta * Lanes::all(dp[j]);
        along_z += theta_dp * (columns[j].w - users.mean);
        along_theta += theta_dp;
    }
    let d_lambda = e_lambda + along_z * users.inverse_v;
    (d_lambda, users.mean * d_lambda - along_theta * users.inverse_theta)
}

fn correct<const K: usize>(at: &mut Iterate, dp: &[f64; K], t: f64, centre: f64) -> Limits {
    let mut limits = Limits::NONE;
    let centre = Lanes::all(centre);
    let total = |split: Split| split.fixed + centre * split.per_centre;
    for (users, columns) in at.users.iter_mut().zip(at.columns.as_chunks_mut::<K>().0) {
        let (d_lambda, d_mu) = user_steps(users, columns, dp, t, total(users.e_lambda), total(users.e_cap));
        users.surplus.correct(d_lambda, centre, users.live, &mut limits);
        users.slack.correct(d_mu, centre, users.capped, &mut limits);
        for j in 0..K {
            let column = &mut columns[j];
            let dr = Lanes::all(dp[j]) + d_mu - column.w * d_lambda;
            column.share.correct(dr, centre, column.w.positive(), &mut limits);
        }
    }
    for (block, resources) in at.resources.iter_mut().enumerate() {
        resources.slack.correct(price_steps(block, dp), centre, resources.live, &mut limits);
    }
    limits
}
