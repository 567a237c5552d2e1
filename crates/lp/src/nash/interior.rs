//! The interior point for Nash welfare with caps: `O(n k²)` per iteration.
//!
//! # The program, its pairs, its path
//!
//! With utilities `u`, cap slacks `c` and capacity slacks `g`:
//!
//! ```text
//! maximise Σ π_l log u_l     Σ_j w_lj x_lj = u_l        λ_l     pairs (x_lj, r_lj)   r_lj = p_j + μ_l − λ_l w_lj
//!                            Σ_j x_lj + c_l = d_l       μ_l           (c_l, μ_l), (g_j, p_j)  with product → 0
//!                            Σ_l x_lj + g_j = m_j       p_j           (u_l, λ_l)              with product = π_l
//! ```
//!
//! It is a linear program but for the last pair, whose product is to be π instead of 0. The gap is the sum of the
//! products of the other pairs. The path drives them to 0 in proportion to `π_l` for the pairs of user l and to `Σπ`
//! for those of resources, so that it looks the same to a user of any weight.
//!
//! # One Newton step
//!
//! A pair with target product ξ moves by `dx = η − θ dr`, `θ = x/r`, `η = ξ/r − x` (the corrector takes `dx·dr` of the
//! predictor off ξ). User by user, with `θ_s = u/λ`, `Θ = Σθ + θ_c`, `w̄ = Σθw/Θ`, `δ = w − w̄`, `z = θδ`, and residuals ρ:
//!
//! ```text
//! V = Σθδ² + θ_c w̄² + θ_s         a₁ = ρ_u + η_u − Σ w η         a₂ = ρ_c − Σ η − η_c        (no cap: 1/Θ = w̄ = 0)
//! dλ = e + Σ z dp / V,  e = (a₁ − w̄ a₂)/V            dμ = w̄ dλ − (a₂ + Σ θ dp)/Θ
//! ```
//!
//! and in the rows of the resources, `N dp = A`:
//!
//! ```text
//! N_ji = [i=j](Σ_l θ_j + θ_g) − Σ_l (z_j z_i/V + θ_j θ_i/Θ)      A_j = Σ_l (η_j + z_j e + θ_j a₂/Θ) + η_g − ρ_j
//! ```

use super::cholesky::Cholesky;
use super::{MOST_RESOURCES, Nash};

/// Numbers per resource.
pub(super) type PerResource = [f64; MOST_RESOURCES];

/// The largest fraction of the step to the boundary that is taken.
const SHARE: f64 = 0.995;
/// A shorter step is a stall.
const LEAST_STEP: f64 = 1e-7;

/// A corrector with a shorter step is computed again, without the second-order term...
const SHORT: f64 = 0.1;
/// ...aimed at this fraction of the gap: a centring step.
const HUMBLE: f64 = 0.5;
/// A product `u λ` stays within this factor of its π.
const NEAR: f64 = 4.0;

/// One user's numbers; see the module.
#[derive(Clone, Copy, Debug, Default)]
struct User {
    weight: f64,
    /// d, infinite for none.
    cap: f64,
    u: f64,
    lambda: f64,
    c: f64,
    mu: f64,
    inverse_v: f64,
    inverse_theta: f64,
    mean: f64,
    /// e and a₂
    e: f64,
    a2: f64,
    du: f64,
    d_lambda: f64,
    dc: f64,
    d_mu: f64,
}

/// One resource of one user. Absent where w = 0.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    w: f64,
    x: f64,
    r: f64,
    dx: f64,
    dr: f64,
    /// θ and 1/r, 0 where absent
    theta: f64,
    inverse_r: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Resource {
    m: f64,
    g: f64,
    p: f64,
    dg: f64,
    dp: f64,
}

/// What a step aims at: products of `tau` times their weights, and whether the predictor's bend is taken off.
#[derive(Clone, Copy)]
struct Aim {
    tau: f64,
    bend: f64,
}

/// An iterate, and memory for its steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Iterate {
    users: Vec<User>,
    /// Users × resources that take part.
    shares: Vec<Share>,
    resources: Vec<Resource>,
    /// Σπ
    total: f64,
}

impl Iterate {
    /// A strictly feasible start on both sides: half of everything is divided by weight (or by half of a cap), and
    /// then `λ w ≤ π/x` tells which prices and rents are high enough.
    pub(super) fn start(&mut self, problem: &Nash<'_>, resources: &[usize]) {
        let (k, total) = (problem.capacity.len(), problem.weight.iter().sum::<f64>());
        self.total = total;
        self.resources.clear();
        self.resources.extend(resources.iter().map(|&j| {
            let m = problem.capacity[j];
            Resource { m, g: m, p: 4.0 * total / m, ..Resource::default() }
        }));
        self.users.clear();
        self.shares.clear();
        for (l, (&weight, &cap)) in problem.weight.iter().zip(problem.caps).enumerate() {
            let w = &problem.w[l * k..][..k];
            let greatest = resources.iter().map(|&j| w[j]).fold(0.0, f64::max);
            let choices = resources.iter().filter(|&&j| w[j] > 0.0).count() as f64;
            let mut user = User { weight, cap, c: cap, ..User::default() };
            let from = self.shares.len();
            for (&j, resource) in resources.iter().zip(&mut self.resources) {
                let mut share = Share { w: w[j] / greatest, ..Share::default() };
                if share.w > 0.0 {
                    share.x = f64::min(0.5 * weight / total * resource.m, 0.5 * cap / choices);
                    resource.g -= share.x;
                    user.c -= share.x;
                    user.u += share.w * share.x;
                }
                self.shares.push(share);
            }
            user.lambda = weight / user.u;
            user.mu = if cap.is_finite() { weight / user.c } else { 0.0 };
            for (share, resource) in self.shares[from..].iter().zip(&self.resources) {
                if cap.is_finite() {
                    user.mu = user.mu.max(user.lambda * share.w - 0.5 * resource.p);
                }
            }
            for (share, resource) in self.shares[from..].iter_mut().zip(&self.resources) {
                share.r = resource.p + user.mu - user.lambda * share.w;
            }
            self.users.push(user);
        }
    }

    /// Iterates until the gap is at most `tolerance · Σπ`, nothing moves or the iterations are spent; returns how many
    /// were taken.
    pub(super) fn run(&mut self, iterations: u32, tolerance: f64) -> u32 {
        let k = self.resources.len();
        let pairs = self.pair_weight();
        for iteration in 0..iterations {
            let gap = self.gap();
            if gap <= tolerance * self.total {
                return iteration;
            }
            let Some(system) = Cholesky::new(k, self.weigh()) else { return iteration };
            let predictor = Aim { tau: 0.0, bend: 0.0 };
            let dp = system.solve(self.right(predictor));
            self.steps(&dp, predictor);
            let reach = self.reach();
            let shrink = (self.gap_after(reach) / gap).clamp(0.0, 1.0);
            // The corrector's bend is the predictor's: that of another corrector would not be of the same step.
            let mut step = self.correct(&system, Aim { tau: shrink.powi(3) * gap / pairs, bend: 1.0 });
            if step < SHORT {
                self.steps(&dp, predictor);
                step = self.correct(&system, Aim { tau: HUMBLE * gap / pairs, bend: 0.0 });
            }
            if step <= LEAST_STEP || dp.iter().any(|step| !step.is_finite()) {
                // The last iterate stands.
                return iteration;
            }
            self.advance(step);
        }
        iterations
    }

    /// Finds the steps towards an aim; returns how far they may be taken.
    fn correct(&mut self, system: &Cholesky, aim: Aim) -> f64 {
        let dp = system.solve(self.right(aim));
        self.steps(&dp, aim);
        let mut step = self.reach();
        while step > LEAST_STEP && self.strays(step) {
            step *= 0.8;
        }
        step
    }

    /// Whether a step takes somebody's `u λ` too far from its π: the walls do not keep it, as it does not go to 0.
    fn strays(&self, s: f64) -> bool {
        self.users.iter().any(|user| {
            let product = (user.u + s * user.du) * (user.lambda + s * user.d_lambda);
            product < user.weight / NEAR || product > user.weight * NEAR
        })
    }

    /// Prices, and everybody's shares in the order of users and resources.
    pub(super) fn read(&self) -> (impl Iterator<Item = f64>, impl Iterator<Item = f64>) {
        (self.resources.iter().map(|resource| resource.p), self.shares.iter().map(|share| share.x))
    }

    /// The sum of all weights of pairs.
    fn pair_weight(&self) -> f64 {
        let k = self.resources.len();
        let users = self.users.iter().zip(self.shares.chunks_exact(k));
        let of_users = users.map(|(user, shares)| {
            let pairs = shares.iter().filter(|share| share.w > 0.0).count() + usize::from(user.cap.is_finite());
            user.weight * pairs as f64
        });
        of_users.sum::<f64>() + self.total * k as f64
    }

    fn gap(&self) -> f64 {
        self.gap_after(0.0)
    }

    /// The gap after a step.
    fn gap_after(&self, s: f64) -> f64 {
        let shares = self.shares.iter().map(|share| (share.x + s * share.dx) * (share.r + s * share.dr));
        let caps = self.users.iter().filter(|user| user.cap.is_finite());
        let caps = caps.map(|user| (user.c + s * user.dc) * (user.mu + s * user.d_mu));
        let resources = self.resources.iter().map(|at| (at.g + s * at.dg) * (at.p + s * at.dp));
        shares.sum::<f64>() + caps.sum::<f64>() + resources.sum::<f64>()
    }

    /// Eliminates every user; returns N.
    fn weigh(&mut self) -> [PerResource; MOST_RESOURCES] {
        let k = self.resources.len();
        let mut n = [[0.0; MOST_RESOURCES]; MOST_RESOURCES];
        let (mut theta, mut z) = ([0.0; MOST_RESOURCES], [0.0; MOST_RESOURCES]);
        for (user, shares) in self.users.iter_mut().zip(self.shares.chunks_exact_mut(k)) {
            let capped = user.cap.is_finite();
            let theta_c = if capped { user.c / user.mu } else { 0.0 };
            let (mut sum, mut sum_w) = (theta_c, 0.0);
            for (j, share) in shares.iter_mut().enumerate() {
                share.inverse_r = if share.w > 0.0 { 1.0 / share.r } else { 0.0 };
                share.theta = share.x * share.inverse_r;
                theta[j] = share.theta;
                sum += theta[j];
                sum_w += theta[j] * share.w;
            }
            user.inverse_theta = if capped { 1.0 / sum } else { 0.0 };
            user.mean = sum_w * user.inverse_theta;
            let mut v = theta_c * user.mean * user.mean + user.u / user.lambda;
            for (j, share) in shares.iter().enumerate() {
                let delta = share.w - user.mean;
                z[j] = theta[j] * delta;
                v += z[j] * delta;
            }
            user.inverse_v = 1.0 / v;
            for j in 0..k {
                let (z_over, theta_over) = (z[j] * user.inverse_v, theta[j] * user.inverse_theta);
                for i in 0..j {
                    n[j][i] -= z_over * z[i] + theta_over * theta[i];
                }
                // θ − z²/V − θ²/Θ, with the two large terms first.
                n[j][j] += theta[j] * (1.0 - theta_over) - z_over * z[j];
            }
        }
        for (j, at) in self.resources.iter().enumerate() {
            n[j][j] += at.g / at.p;
        }
        n
    }

    /// A, for an aim; leaves every user's e and a₂.
    fn right(&mut self, aim: Aim) -> PerResource {
        let k = self.resources.len();
        let mut a = [0.0; MOST_RESOURCES];
        for (j, at) in self.resources.iter().enumerate() {
            a[j] = (aim.tau * self.total - aim.bend * at.dg * at.dp) / at.p - at.m;
        }
        for (user, shares) in self.users.iter_mut().zip(self.shares.chunks_exact(k)) {
            let target = aim.tau * user.weight;
            // With η the new value x + η, residuals need not be known: rows are asked of the new values.
            let mut a1 = (user.weight - aim.bend * user.du * user.d_lambda) / user.lambda;
            let mut a2 = 0.0;
            if user.cap.is_finite() {
                a2 = user.cap - (target - aim.bend * user.dc * user.d_mu) / user.mu;
            }
            for (j, share) in shares.iter().enumerate() {
                let value = (target - aim.bend * share.dx * share.dr) * share.inverse_r;
                a1 -= share.w * value;
                a2 -= value;
                a[j] += value;
            }
            user.e = (a1 - user.mean * a2) * user.inverse_v;
            user.a2 = a2;
            for (j, share) in shares.iter().enumerate() {
                a[j] += share.theta * ((share.w - user.mean) * user.e + a2 * user.inverse_theta);
            }
        }
        a
    }

    /// All steps, given those of the prices.
    fn steps(&mut self, dp: &PerResource, aim: Aim) {
        let k = self.resources.len();
        for (user, shares) in self.users.iter_mut().zip(self.shares.chunks_exact_mut(k)) {
            let target = aim.tau * user.weight;
            let (mut along_z, mut along_theta) = (0.0, 0.0);
            for (share, dp) in shares.iter().zip(dp) {
                let theta_dp = share.theta * dp;
                along_z += theta_dp * (share.w - user.mean);
                along_theta += theta_dp;
            }
            let d_lambda = user.e + along_z * user.inverse_v;
            let d_mu = user.mean * d_lambda - (user.a2 + along_theta) * user.inverse_theta;
            for (share, dp) in shares.iter_mut().zip(dp) {
                let dr = dp + d_mu - share.w * d_lambda;
                let value = (target - aim.bend * share.dx * share.dr) * share.inverse_r;
                // An absent share has x = θ = 0 and stays so; its r does not matter.
                share.dx = value - share.x - share.theta * dr;
                share.dr = if share.w > 0.0 { dr } else { 0.0 };
            }
            let value = (user.weight - aim.bend * user.du * user.d_lambda) / user.lambda;
            user.du = value - user.u - user.u / user.lambda * d_lambda;
            user.d_lambda = d_lambda;
            if user.cap.is_finite() {
                let value = (target - aim.bend * user.dc * user.d_mu) / user.mu;
                user.dc = value - user.c - user.c / user.mu * d_mu;
                user.d_mu = d_mu;
            }
        }
        for (at, &dp) in self.resources.iter_mut().zip(dp) {
            let value = (aim.tau * self.total - aim.bend * at.dg * at.dp) / at.p;
            at.dg = value - at.g - at.g / at.p * dp;
            at.dp = dp;
        }
    }

    /// The length of the step to take: all of it, or most of the way to the nearest wall.
    fn reach(&self) -> f64 {
        let mut wall = 0.0;
        // The greatest −dx/x is one over the distance of the nearest wall; few are the greatest so far, so few divide.
        let mut ask = |value: f64, step: f64| {
            if -step > wall * value {
                wall = -step / value;
            }
        };
        for share in self.shares.iter().filter(|share| share.w > 0.0) {
            ask(share.x, share.dx);
            ask(share.r, share.dr);
        }
        for user in &self.users {
            ask(user.u, user.du);
            ask(user.lambda, user.d_lambda);
            if user.cap.is_finite() {
                ask(user.c, user.dc);
                ask(user.mu, user.d_mu);
            }
        }
        for at in &self.resources {
            ask(at.g, at.dg);
            ask(at.p, at.dp);
        }
        f64::min(1.0, SHARE / wall)
    }

    fn advance(&mut self, s: f64) {
        for share in &mut self.shares {
            share.x += s * share.dx;
            share.r += s * share.dr;
        }
        for user in &mut self.users {
            user.u += s * user.du;
            user.lambda += s * user.d_lambda;
            if user.cap.is_finite() {
                user.c += s * user.dc;
                user.mu += s * user.d_mu;
            }
        }
        for at in &mut self.resources {
            at.g += s * at.dg;
            at.p += s * at.dp;
        }
    }
}
