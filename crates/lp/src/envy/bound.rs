//! Certifies a solution from the problem as given; shares no code with the solvers. The bounds are valid for any
//! bundles and any duals.
//!
//! *Lower bound.* Whoever prefers another bundle of the menu takes it, then all bundles shrink by one factor until
//! capacities hold. Envy is a matter of ratios, so both steps leave a feasible, envy-free allocation.
//!
//! *Upper bound.* For any prices `p ≥ 0` and any `y_li ≥ 0` on the rows "l does not envy i" (`z = x/π`),
//!
//! ```text
//! Σ_l π_l w_l·z_l ≤ Σ_j m_j p_j + Σ_l g_l·z_l      g_l = (π_l + Y_l) w_l − π_l p − Σ_i y_il w_i,   Y_l = Σ_i y_li
//! ```
//!
//! Prices are raised until `g_l ≤ 0` wherever `w_l > 0`; then the bound is `Σ_j m_j p_j`. Some `y` come as products of what users
//! pay into a relay and the shares in which it is passed on.
//!
//! *Two resources.* Sorted by the ratio of their rates, users hold ever less of the first resource and more of
//! the second, and an envy-free allocation is a sum of allocations with two bundles, `(θ, 0)` up to a user and `(0, 1)`
//! from the next, who part at a ratio `θ` between theirs. Prices at which none of those is worth more than it costs
//! prove `Σ m_j p_j` without any `y`, which would have to grow without limit as neighbours become alike.
//!
//! Identical users are treated as one user with the sum of their weights: `y` spread over them in proportion to weight
//! gives every one of them the same `g_l/π_l`.

use super::{EnvyFree, Relay};

/// Raises `prices` until they, `envy` and what goes `through` relays are dual feasible; returns the upper bound.
pub(super) fn prove(problem: &EnvyFree<'_>, prices: &mut [f64], envy: &[(u32, u32, f64)], through: &[Relay]) -> f64 {
    let k = problem.capacity.len();
    let mut worth: Vec<f64> = problem.w.iter().enumerate().map(|(at, w)| problem.weight[at / k] * w).collect();
    for &(l, i, y) in envy {
        let (l, i) = (l as usize, i as usize);
        if l == i || !(y > 0.0 && y.is_finite()) {
            continue;
        }
        for j in 0..k {
            let paid = y * problem.w[l * k + j];
            worth[l * k + j] += paid;
            worth[i * k + j] -= paid;
        }
    }
    through.iter().for_each(|relay| pass_on(problem, relay, &mut worth));
    let useful = |l: usize, j: usize| problem.w[l * k + j] > 0.0 && problem.capacity[j] > 0.0;
    let mut demanded = vec![0.0; k];
    for (l, worth) in worth.chunks_exact(k).enumerate() {
        for j in (0..k).filter(|&j| useful(l, j)) {
            demanded[j] = f64::max(demanded[j], worth[j] / problem.weight[l]);
        }
    }
    for (p, demanded) in prices.iter_mut().zip(&demanded) {
        *p = if p.is_finite() { p.max(*demanded) } else { *demanded };
    }
    prices.iter().zip(problem.capacity).map(|(p, m)| p * m).sum()
}

/// Adds `y_li w_l` to `worth_l` and takes it from `worth_i` for all pairs of a relay, `y_li = y_l s_i` with shares `s`: the
/// sum over pairs is a product of sums. Who is on both sides pays itself, which changes nothing.
fn pass_on(problem: &EnvyFree<'_>, relay: &Relay, worth: &mut [f64]) {
    let k = problem.capacity.len();
    let sound = |value: f64| value > 0.0 && value.is_finite();
    let total: f64 = relay.share.iter().map(|t| t.1).filter(|&s| sound(s)).sum();
    if !sound(total) {
        return;
    }
    let mut passed = vec![0.0; k];
    for &(l, y) in relay.paid.iter().filter(|t| sound(t.1)) {
        for j in 0..k {
            let paid = y * problem.w[l as usize * k + j];
            worth[l as usize * k + j] += paid;
            passed[j] += paid;
        }
    }
    for &(i, share) in relay.share.iter().filter(|t| sound(t.1)) {
        for j in 0..k {
            worth[i as usize * k + j] -= share / total * passed[j];
        }
    }
}

/// As [`prove`] by prices alone; none unless there are two resources, both with a price.
pub(super) fn prove_two(problem: &EnvyFree<'_>, prices: &mut [f64]) -> Option<f64> {
    let there = problem.capacity.iter().all(|&m| m > 0.0) && prices.iter().all(|&p| p > 0.0 && p.is_finite());
    if problem.capacity.len() != 2 || !there {
        return None;
    }
    let ratio = |l: usize| problem.w[2 * l + 1] / problem.w[2 * l];
    let mut users: Vec<(f64, usize)> = (0..problem.weight.len()).map(|l| (ratio(l), l)).collect();
    users.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    // What the users from here on pay for (0, 1), and what it is worth to them.
    let (mut paid2, mut worth2) = (vec![0.0; users.len() + 1], vec![0.0; users.len() + 1]);
    for (at, &(_, l)) in users.iter().enumerate().rev() {
        let w = problem.w[2 * l + 1];
        paid2[at] = paid2[at + 1] + if w > 0.0 { problem.weight[l] * prices[1] } else { 0.0 };
        worth2[at] = worth2[at + 1] + problem.weight[l] * w;
    }
    let mut dearer = worth2[0] / paid2[0];
    let (mut paid1, mut worth1) = (0.0, 0.0);
    for (at, &(theta, l)) in users.iter().enumerate() {
        if problem.w[2 * l] > 0.0 {
            paid1 += problem.weight[l] * prices[0];
            worth1 += problem.weight[l] * problem.w[2 * l];
        }
        let next = users.get(at + 1).map_or(f64::INFINITY, |t| t.0);
        for theta in [theta, next].into_iter().filter(|&theta| theta > 0.0 && theta < f64::INFINITY) {
            dearer = dearer.max((theta * worth1 + worth2[at + 1]) / (theta * paid1 + paid2[at + 1]));
        }
    }
    dearer = dearer.max(worth1 / paid1);
    prices.iter_mut().for_each(|p| *p *= dearer);
    let upper = prices[0] * problem.capacity[0] + prices[1] * problem.capacity[1];
    upper.is_finite().then_some(upper)
}

/// An allocation as a menu of bundles per unit of weight, and who holds which.
#[derive(Clone, Debug, Default)]
pub(super) struct Allocation {
    pub(super) bundles: Vec<f64>,
    pub(super) holds: Vec<u32>,
}

/// How much more than its own a user must like another bundle before it takes it.
const SWITCH: f64 = 1e-9;

impl Allocation {
    fn bundle(&self, k: usize, b: u32) -> &[f64] {
        &self.bundles[b as usize * k..][..k]
    }

    /// Makes the allocation envy-free and feasible; returns its value.
    pub(super) fn settle(&mut self, problem: &EnvyFree<'_>) -> f64 {
        let k = problem.capacity.len();
        self.bundles.iter_mut().for_each(|b| *b = if *b > 0.0 && b.is_finite() { *b } else { 0.0 });
        for l in 0..self.holds.len() {
            let rates = &problem.w[l * k..][..k];
            self.switch(l as u32, rates);
            self.strip(l, rates);
        }
        let mut used = vec![0.0; k];
        let mut shrink = 1.0f64;
        for (l, &b) in self.holds.iter().enumerate() {
            used.iter_mut().zip(self.bundle(k, b)).for_each(|(u, z)| *u += problem.weight[l] * z);
        }
        for (used, m) in used.iter().zip(problem.capacity) {
            if used > m {
                shrink = shrink.min(m / used);
            }
        }
        self.bundles.iter_mut().for_each(|b| *b *= shrink);
        let value = |l: usize| problem.weight[l] * worth(&problem.w[l * k..][..k], self.bundle(k, self.holds[l]));
        (0..self.holds.len()).map(value).sum()
    }

    /// The user takes the bundle that it values most.
    fn switch(&mut self, l: u32, rates: &[f64]) {
        let k = rates.len();
        let mut best = worth(rates, self.bundle(k, self.holds[l as usize])) * (1.0 + SWITCH);
        for b in 0..(self.bundles.len() / k) as u32 {
            let value = worth(rates, self.bundle(k, b));
            if value > best {
                best = value;
                self.holds[l as usize] = b;
            }
        }
    }

    /// Removes from the user's bundle what it has no use for.
    fn strip(&mut self, l: usize, rates: &[f64]) {
        let k = rates.len();
        let bundle = self.bundle(k, self.holds[l]);
        if bundle.iter().zip(rates).all(|(z, w)| *z == 0.0 || *w > 0.0) {
            return;
        }
        let kept: Vec<f64> = bundle.iter().zip(rates).map(|(z, w)| if *w > 0.0 { *z } else { 0.0 }).collect();
        let known = self.bundles.chunks_exact(k).position(|b| b == kept);
        self.holds[l] = known.unwrap_or(self.bundles.len() / k) as u32;
        if known.is_none() {
            self.bundles.extend_from_slice(&kept);
        }
    }

    /// The largest relative envy, `w_l·z_b / w_l·z_l − 1` over users and bundles that are held.
    pub(super) fn envy(&self, problem: &EnvyFree<'_>) -> f64 {
        let k = problem.capacity.len();
        let mut held = vec![false; self.bundles.len() / k];
        self.holds.iter().for_each(|&b| held[b as usize] = true);
        let mut largest = 0.0f64;
        for (l, &b) in self.holds.iter().enumerate() {
            let rates = &problem.w[l * k..][..k];
            let own = worth(rates, self.bundle(k, b));
            for (bundle, _) in self.bundles.chunks_exact(k).zip(&held).filter(|t| *t.1) {
                let other = worth(rates, bundle);
                if other > own {
                    largest = largest.max(other / own - 1.0);
                }
            }
        }
        largest
    }
}

fn worth(rates: &[f64], bundle: &[f64]) -> f64 {
    rates.iter().zip(bundle).map(|(w, z)| w * z).sum()
}
