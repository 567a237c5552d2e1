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
//! finds the predictor's steps and at once what the corrector adds to the right-hand side, as `ω bend + σκ centre`
//! while σ is still unknown. *Correct* finds the steps to take; because of the split, aiming again after a bad first
//! aim costs this pass only. ω is 1 as in Mehrotra's method unless the step turns out short: among thousands of
//! users there are unlucky iterates from which the full bend leads nowhere.

use super::lanes::{LANES, Lanes};
use super::pair::{Aim, Limits, Pair, Reach, Split, Stride};
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
        let zero = Lanes::ZERO;
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
            e_lambda: Split::ZERO,
            e_cap: Split::ZERO,
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

/// Primal and dual variables at one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Iterate {
    /// Blocks × K.
    pub(super) columns: Vec<Column>,
    pub(super) users: Vec<Users>,
    pub(super) resources: Vec<Resources>,
    /// How many pairs there are.
    pub(super) pairs: f64,
    pub(super) t: f64,
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) iterations: u32,
    pub(super) tolerance: f64,
}

/// A gap that shrinks by less than this factor is a stall.
const STALL: f64 = 0.9;
/// Stalls in a row before giving up. Where hundreds of users are about to reach what their own caps allow, the path
/// bends for each of them, and a dozen short steps in a row are on the way and not the end of it.
const PATIENCE: u32 = 20;
/// A corrector that gets no further than this has bent too much for its neighbourhood...
const SHORT: f64 = 0.5;
/// ...and is aimed again at a third of the gap, with a third of the bend: a step back to the centre.
const HUMBLE: (f64, f64) = (0.3, 0.3);

/// The relative gap of the iterate that `keep` gets: one that still has room to go elsewhere.
const MIDDLE: f64 = 1e-2;

/// Iterates until the gap is at most `tolerance · t`, the iterations are spent or nothing moves any more; returns
/// the iterations taken. What is left in `at` is always the best iterate: gaps only shrink.
pub(super) fn run<const K: usize>(at: &mut Iterate, stop: Stop, mut keep: Option<&mut Iterate>) -> u32 {
    let mut stride = Stride { primal: 0.0, dual: 0.0 };
    let mut stalls = 0;
    for iteration in 1..=stop.iterations {
        let weighed = weigh::<K>(at, stride);
        let gap = weighed.gap;
        if gap <= MIDDLE * at.t
            && let Some(keep) = keep.take()
        {
            keep.clone_from(at);
        }
        let step = aim_and_correct(at, &weighed);
        // False for NaN as well: then the step is not taken and the last good iterate stands.
        if !(step.t.is_finite() && step.gap < gap) {
            return iteration;
        }
        stride = step.stride;
        at.t += stride.primal * (step.t - at.t);
        stalls = if step.gap > STALL * gap { stalls + 1 } else { 0 };
        if step.gap <= stop.tolerance * at.t || stalls == PATIENCE {
            advance(at, stride);
            return iteration;
        }
    }
    advance(at, stride);
    stop.iterations
}

/// A step that is ready to be taken: its length, and the level and gap it leads to.
struct Step {
    stride: Stride,
    t: f64,
    gap: f64,
}

/// Predictor, choice of aim, corrector.
#[inline(always)]
fn aim_and_correct<const K: usize>(at: &mut Iterate, weighed: &Weighed<K>) -> Step {
    let Weighed { schur, right, gap } = weighed;
    let pairs = at.pairs;
    let (dp, t) = schur.solve(right.a, right.b);
    let predicted = predict::<K>(at, &dp, t);
    let shrink = (predicted.reach.gap_after(*gap) / gap).clamp(0.0, 1.0);
    let share = (1.0 - gap / pairs).clamp(0.99, 0.9995);
    let mut try_aim = |sigma: f64, bend: f64| {
        let aim = Aim { centre: sigma * gap / pairs, bend };
        let Right { a, b } = right.towards(aim, &predicted);
        let (dp, t) = schur.solve(a, b);
        let limits = correct::<K>(at, &dp, t, aim);
        (limits.stride(share), t, limits)
    };
    let (mut stride, mut t, mut limits) = try_aim(shrink.powi(3), 1.0);
    if stride.common().primal < SHORT {
        (stride, t, limits) = try_aim(HUMBLE.0, HUMBLE.1);
    }
    let mut next = limits.gap_after(*gap, stride);
    if next >= *gap {
        // Two feasible strides can widen the gap between them; one common stride cannot, as dx·dr = 0.
        stride = stride.common();
        next = limits.gap_after(*gap, stride);
    }
    Step { stride, t, gap: next }
}

/// Takes a step.
fn advance(at: &mut Iterate, stride: Stride) {
    at.columns.iter_mut().for_each(|column| column.share.advance(stride));
    at.resources.iter_mut().for_each(|resource| resource.slack.advance(stride));
    for users in &mut at.users {
        users.surplus.advance(stride);
        users.slack.advance(stride);
    }
}

/// A right-hand side of the small system.
struct Right<const K: usize> {
    a: [f64; K],
    b: f64,
}

impl<const K: usize> Right<K> {
    /// The corrector's right-hand side, from the predictor's.
    #[inline(always)]
    fn towards(&self, aim: Aim, predicted: &Predicted<K>) -> Self {
        let Predicted { bend, centre, .. } = predicted;
        Self {
            a: std::array::from_fn(|j| self.a[j] + aim.bend * bend.a[j] + aim.centre * centre.a[j]),
            b: self.b + aim.bend * bend.b + aim.centre * centre.b,
        }
    }
}

/// The system, the predictor's right-hand side and the size of the gap.
struct Weighed<const K: usize> {
    schur: Schur<K>,
    right: Right<K>,
    gap: f64,
}

/// First pass: takes the last step and eliminates every user.
fn weigh<const K: usize>(at: &mut Iterate, stride: Stride) -> Weighed<K> {
    let zero = Lanes::ZERO;
    let (mut gap, mut hh, mut b, mut beta_lambda) = (zero, zero, zero, zero);
    let (mut normal, mut diagonal, mut h, mut a) = ([[zero; K]; K], [zero; K], [zero; K], [zero; K]);
    for (users, columns) in at.users.iter_mut().zip(at.columns.as_chunks_mut::<K>().0) {
        users.surplus.advance(stride);
        users.slack.advance(stride);
        gap += users.surplus.weigh(users.live) + users.slack.weigh(users.capped);
        let (mut theta, mut theta_w) = (users.slack.theta, zero);
        for column in columns.iter_mut() {
            column.share.advance(stride);
            gap += column.share.weigh(column.w.positive());
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
    let mut right = Right { a: a.map(Lanes::sum), b: 1.0 - beta_lambda.sum() - b.sum() };
    for (block, resources) in at.resources.iter_mut().enumerate() {
        resources.slack.advance(stride);
        gap += resources.slack.weigh(resources.live);
        for (j, q) in lanes_of::<K>(block) {
            let padding = 1.0 - resources.live.0[q];
            system[j][j] += diagonal[j].sum() + resources.slack.theta.0[q] + padding;
            right.a[j] -= resources.capacity.0[q];
        }
    }
    let schur = Schur::new(system, h.map(Lanes::sum), hh.sum());
    Weighed { schur, right, gap: gap.sum() }
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

/// The predictor's reach, and what ω and σκ each add to its right-hand side to make the corrector's.
struct Predicted<const K: usize> {
    reach: Reach,
    bend: Right<K>,
    centre: Right<K>,
}

/// Second pass: `dp` and `t` are the predictor's.
fn predict<const K: usize>(at: &mut Iterate, dp: &[f64; K], t: f64) -> Predicted<K> {
    let mut reach = Reach::NONE;
    let (mut a, mut b) = ([Split::ZERO; K], Split::ZERO);
    for (users, columns) in at.users.iter_mut().zip(at.columns.as_chunks_mut::<K>().0) {
        let (d_lambda, d_mu) = user_steps(users, columns, dp, t, (Lanes::ZERO, Lanes::ZERO));
        users.surplus.predict(d_lambda, &mut reach);
        users.slack.predict(d_mu, &mut reach);
        // v_s − Σ w v, and v_c + Σ v
        let (mut served, mut used) = (users.surplus.pull(), users.slack.pull());
        for j in 0..K {
            let column = &mut columns[j];
            column.share.predict(Lanes::all(dp[j]) + d_mu - column.w * d_lambda, &mut reach);
            let v = column.share.pull();
            served = served.zip(v, |sum, v| sum - column.w * v);
            used = used.zip(v, |sum, v| sum + v);
            a[j] = a[j].zip(v, |sum, v| sum + v);
        }
        let e_cap = used.zip(used, |used, _| -used);
        let e_lambda = served.zip(e_cap, |e1, e2| (e1 - users.mean * e2) * users.inverse_v);
        for j in 0..K {
            let theta = columns[j].share.theta;
            let (z, theta_over) = (theta * (columns[j].w - users.mean), theta * users.inverse_theta);
            a[j] = a[j].zip(e_cap, |sum, e2| sum + theta_over * e2).zip(e_lambda, |sum, e1| sum + z * e1);
        }
        b = b.zip(e_lambda, |sum, e1| sum - users.beta * e1);
        (users.e_lambda, users.e_cap) = (e_lambda, e_cap);
    }
    let mut bend = Right { a: a.map(|a| a.bend.sum()), b: b.bend.sum() };
    let mut centre = Right { a: a.map(|a| a.centre.sum()), b: b.centre.sum() };
    for (block, resources) in at.resources.iter_mut().enumerate() {
        resources.slack.predict(price_steps(block, dp), &mut reach);
        let v_g = resources.slack.pull();
        for (j, q) in lanes_of::<K>(block) {
            bend.a[j] += v_g.bend.0[q];
            centre.a[j] += v_g.centre.0[q];
        }
    }
    Predicted { reach, bend, centre }
}

/// `dλ` and `dμ`, given the price steps, the new level and what the aim adds to the user's right-hand sides.
#[inline(always)]
fn user_steps<const K: usize>(
    users: &Users,
    columns: &[Column; K],
    dp: &[f64; K],
    t: f64,
    (e_lambda, e_cap): (Lanes, Lanes),
) -> (Lanes, Lanes) {
    let e_lambda = e_lambda - users.mean * users.cap * users.inverse_v;
    let (mut along_z, mut along_theta) = (users.beta * Lanes::all(t), users.cap + e_cap);
    for j in 0..K {
        let theta_dp = columns[j].share.theta * Lanes::all(dp[j]);
        along_z += theta_dp * (columns[j].w - users.mean);
        along_theta += theta_dp;
    }
    let d_lambda = e_lambda + along_z * users.inverse_v;
    (d_lambda, users.mean * d_lambda - along_theta * users.inverse_theta)
}

/// Third pass: `dp` and `t` are the corrector's; leaves its steps in the pairs.
fn correct<const K: usize>(at: &mut Iterate, dp: &[f64; K], t: f64, aim: Aim) -> Limits {
    let mut limits = Limits::NONE;
    for (users, columns) in at.users.iter_mut().zip(at.columns.as_chunks_mut::<K>().0) {
        let (d_lambda, d_mu) = user_steps(users, columns, dp, t, (aim.of(users.e_lambda), aim.of(users.e_cap)));
        users.surplus.correct(d_lambda, aim, users.live, &mut limits);
        users.slack.correct(d_mu, aim, users.capped, &mut limits);
        for j in 0..K {
            let column = &mut columns[j];
            let dr = Lanes::all(dp[j]) + d_mu - column.w * d_lambda;
            column.share.correct(dr, aim, column.w.positive(), &mut limits);
        }
    }
    for (block, resources) in at.resources.iter_mut().enumerate() {
        resources.slack.correct(price_steps(block, dp), aim, resources.live, &mut limits);
    }
    limits
}
