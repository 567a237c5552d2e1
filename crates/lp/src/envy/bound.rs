//! Judges an answer, from the problem as asked; shares nothing with the solvers. Any bundles and any duals may come in,
//! and what comes out is true of them.
//!
//! *Lower bound.* Whoever prefers another bundle of the menu takes it, then all bundles shrink by one factor until
//! capacities hold. Envy is a matter of ratios, so both steps leave an envy-free allocation, and its value can be had.
//!
//! *Upper bound.* For any prices `p ≥ 0` and any `y_li ≥ 0` on the rows "l does not envy i" (`z = x/π`),
//!
//! ```text
//! Σ_l π_l w_l·z_l ≤ Σ_j m_j p_j + Σ_l g_l·z_l      g_l = (π_l + Y_l) w_l − π_l p − Σ_i y_il w_i,   Y_l = Σ_i y_li
//! ```
//!
//! A user without a cap must find nothing worth having (`g_l ≤ 0` wherever it has a use): prices are raised until that
//! holds. A capped one gets at most `c_l max_j g_lj` out of it (`c_l = d_l/π_l`). A filled user has no envy rows, and
//! its bundle is `c_l` units of resources that are best for it, so it gets `c_l max_{j best} g_lj`, also if that is
//! negative. With caps the bound is convex in each price, and what the solvers found need not be its least point (a
//! resource that filled users use up may cost anything), so each price in turn is put where the bound is least.
//!
//! *Two resources, no caps.* Sorted by the ratio of their rates, users hold ever less of the first resource and more of
//! the second, and an envy-free allocation is a sum of allocations with two bundles, `(θ, 0)` up to a user and `(0, 1)`
//! from the next, who part at a ratio `θ` between theirs. Prices at which none of those is worth more than it costs
//! prove `Σ m_j p_j`, without any `y`, which would have to be as large as neighbours are alike.
//!
//! Identical users are judged as one user with the sum of their weights: `y` spread over them in proportion to weight
//! gives every one of them the same `g_l/π_l`.

use super::EnvyFree;

/// Two numbers with the optimum between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bound {
    /// Attained by the answer itself.
    pub lower: f64,
    /// Proved by the answer's duals.
    pub upper: f64,
}

impl Bound {
    /// Distance of the two, relative to the upper one; infinite when nothing was proved.
    #[must_use]
    pub fn gap(&self) -> f64 {
        let gap = (self.upper - self.lower) / self.upper;
        if gap.is_finite() { gap.max(0.0) } else { f64::INFINITY }
    }
}

/// Raises `prices` until they and `envy` prove something; returns what. `filled` says who envies nobody by rule.
pub(super) fn prove(asked: &EnvyFree<'_>, filled: &[bool], prices: &mut [f64], envy: &[(u32, u32, f64)]) -> f64 {
    let k = asked.capacity.len();
    let mut worth: Vec<f64> = asked.w.iter().enumerate().map(|(at, w)| asked.weight[at / k] * w).collect();
    for &(l, i, y) in envy {
        let (l, i) = (l as usize, i as usize);
        if l == i || filled[l] || !(y > 0.0 && y.is_finite()) {
            continue;
        }
        for j in 0..k {
            let paid = y * asked.w[l * k + j];
            worth[l * k + j] += paid;
            worth[i * k + j] -= paid;
        }
    }
    let useful = |l: usize, j: usize| asked.w[l * k + j] > 0.0 && asked.capacity[j] > 0.0;
    let mut demanded = vec![0.0; k];
    for (l, worth) in worth.chunks_exact(k).enumerate().filter(|t| asked.caps[t.0] == f64::INFINITY) {
        for j in (0..k).filter(|&j| useful(l, j)) {
            demanded[j] = f64::max(demanded[j], worth[j] / asked.weight[l]);
        }
    }
    for (p, demanded) in prices.iter_mut().zip(&demanded) {
        *p = if p.is_finite() { p.max(*demanded) } else { *demanded };
    }
    let capped = Capped::all(asked, filled, &worth);
    let order = Capped::used_up_first(asked, &capped);
    for _ in 0..if capped.is_empty() { 0 } else { SWEEPS } {
        for &(j, used_up) in &order {
            let price = if used_up { prohibitive(&capped) } else { best_price(asked, &capped, prices, j) };
            prices[j] = price.max(demanded[j]);
        }
    }
    let spent: f64 = prices.iter().zip(asked.capacity).map(|(p, m)| p * m).sum();
    spent + capped.iter().map(|user| asked.caps[user.l] * user.profit(prices, None)).sum::<f64>()
}

/// Raises two prices until they prove something; none if there is a cap, or not two resources with users for both.
pub(super) fn prove_two(asked: &EnvyFree<'_>, prices: &mut [f64]) -> Option<f64> {
    let there = asked.capacity.iter().all(|&m| m > 0.0) && prices.iter().all(|&p| p > 0.0 && p.is_finite());
    if asked.capacity.len() != 2 || !there || asked.caps.iter().any(|&cap| cap < f64::INFINITY) {
        return None;
    }
    let ratio = |l: usize| asked.w[2 * l + 1] / asked.w[2 * l];
    let mut users: Vec<(f64, usize)> = (0..asked.weight.len()).map(|l| (ratio(l), l)).collect();
    users.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    // What the users from here on pay for (0, 1), and what it is worth to them.
    let (mut paid2, mut worth2) = (vec![0.0; users.len() + 1], vec![0.0; users.len() + 1]);
    for (at, &(_, l)) in users.iter().enumerate().rev() {
        let w = asked.w[2 * l + 1];
        paid2[at] = paid2[at + 1] + if w > 0.0 { asked.weight[l] * prices[1] } else { 0.0 };
        worth2[at] = worth2[at + 1] + asked.weight[l] * w;
    }
    let mut dearer = worth2[0] / paid2[0];
    let (mut paid1, mut worth1) = (0.0, 0.0);
    for (at, &(theta, l)) in users.iter().enumerate() {
        if asked.w[2 * l] > 0.0 {
            paid1 += asked.weight[l] * prices[0];
            worth1 += asked.weight[l] * asked.w[2 * l];
        }
        let next = users.get(at + 1).map_or(f64::INFINITY, |t| t.0);
        for theta in [theta, next].into_iter().filter(|&theta| theta > 0.0 && theta < f64::INFINITY) {
            dearer = dearer.max((theta * worth1 + worth2[at + 1]) / (theta * paid1 + paid2[at + 1]));
        }
    }
    dearer = dearer.max(worth1 / paid1);
    prices.iter_mut().for_each(|p| *p *= dearer);
    let upper = prices[0] * asked.capacity[0] + prices[1] * asked.capacity[1];
    upper.is_finite().then_some(upper)
}

/// How often each price is made the best beside the others.
const SWEEPS: u32 = 4;
/// The part of a capacity that is rounding.
const NOTHING: f64 = 1e-12;

/// A user with a cap.
struct Capped {
    l: usize,
    /// Resources it may hold, with its gain there before prices, per weight.
    choice: Vec<(usize, f64)>,
    /// What it gains by holding nothing: not possible for who is filled.
    nothing: f64,
}

impl Capped {
    fn all(asked: &EnvyFree<'_>, filled: &[bool], worth: &[f64]) -> Vec<Self> {
        let k = asked.capacity.len();
        let one = |l: usize| {
            let rates = &asked.w[l * k..][..k];
            let useful = |&j: &usize| rates[j] > 0.0 && asked.capacity[j] > 0.0;
            let best = (0..k).filter(useful).map(|j| rates[j]).fold(0.0, f64::max);
            let choice = (0..k).filter(useful).filter(|&j| !filled[l] || rates[j] == best);
            Self {
                l,
                choice: choice.map(|j| (j, worth[l * k + j] / asked.weight[l])).collect(),
                nothing: if filled[l] { f64::NEG_INFINITY } else { 0.0 },
            }
        };
        (0..filled.len()).filter(|&l| asked.caps[l] < f64::INFINITY).map(one).collect()
    }

    /// The resources, first those of which filled users without a choice leave nothing.
    fn used_up_first(asked: &EnvyFree<'_>, capped: &[Self]) -> Vec<(usize, bool)> {
        let mut left = asked.capacity.to_vec();
        for user in capped.iter().filter(|user| user.nothing == f64::NEG_INFINITY) {
            if let [(j, _)] = user.choice[..] {
                left[j] -= asked.caps[user.l];
            }
        }
        let mut order: Vec<(usize, bool)> =
            left.iter().zip(asked.capacity).enumerate().map(|(j, (left, m))| (j, *left <= NOTHING * m)).collect();
        order.sort_by_key(|&(j, used_up)| (!used_up, j));
        order
    }

    /// The most it gains per unit, at prices, leaving one resource out.
    fn profit(&self, prices: &[f64], without: Option<usize>) -> f64 {
        let choice = self.choice.iter().filter(|c| Some(c.0) != without);
        choice.map(|&(j, gain)| gain - prices[j]).fold(self.nothing, f64::max)
    }
}

/// A price at which nobody would be, whatever the others up to the largest gain: right for what is used up, where any
/// price costs nothing.
fn prohibitive(capped: &[Capped]) -> f64 {
    3.0 * capped.iter().flat_map(|user| &user.choice).fold(0.0, |most, c| f64::max(most, c.1.abs()))
}

/// The upper bound is convex in one price: it rises by the capacity, and falls by the cap of every user that gains most
/// there, until the price is so high that the user does as well elsewhere. Returns where it is least.
fn best_price(asked: &EnvyFree<'_>, capped: &[Capped], prices: &[f64], j: usize) -> f64 {
    let mut slope = asked.capacity[j];
    let mut leave: Vec<(f64, f64)> = Vec::new();
    for user in capped {
        if let Some(&(_, gain)) = user.choice.iter().find(|c| c.0 == j) {
            let elsewhere = user.profit(prices, Some(j));
            if elsewhere == f64::NEG_INFINITY {
                slope -= asked.caps[user.l];
            } else {
                leave.push((gain - elsewhere, asked.caps[user.l]));
            }
        }
    }
    leave.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (price, cap) in leave {
        slope -= cap;
        if slope < 0.0 {
            return price;
        }
    }
    0.0
}

/// An allocation as a menu of bundles per unit of weight, and who holds which.
#[derive(Clone, Debug, Default)]
pub(super) struct Holding {
    pub(super) bundles: Vec<f64>,
    pub(super) holds: Vec<u32>,
}

/// How much more than its own a user must like another bundle before it takes it.
const SWITCH: f64 = 1e-9;
/// A user this near its ceiling is filled.
pub(super) const FILLED: f64 = 1e-7;

impl Holding {
    fn bundle(&self, k: usize, b: u32) -> &[f64] {
        &self.bundles[b as usize * k..][..k]
    }

    /// Makes the allocation envy-free and feasible; returns its value.
    pub(super) fn settle(&mut self, asked: &EnvyFree<'_>, filled: &[bool]) -> f64 {
        let k = asked.capacity.len();
        self.bundles.iter_mut().for_each(|b| *b = if *b > 0.0 && b.is_finite() { *b } else { 0.0 });
        for l in 0..self.holds.len() {
            let rates = &asked.w[l * k..][..k];
            if !filled[l] {
                self.switch(l as u32, rates, asked.caps[l] / asked.weight[l]);
            }
            self.strip(l, rates);
        }
        let mut used = vec![0.0; k];
        let mut shrink = 1.0f64;
        for (l, &b) in self.holds.iter().enumerate() {
            let bundle = self.bundle(k, b);
            used.iter_mut().zip(bundle).for_each(|(u, z)| *u += asked.weight[l] * z);
            let cap = asked.caps[l] / asked.weight[l];
            shrink = shrink.min(cap / bundle.iter().sum::<f64>().max(1e-300));
        }
        for (used, m) in used.iter().zip(asked.capacity) {
            if used > m {
                shrink = shrink.min(m / used);
            }
        }
        self.bundles.iter_mut().for_each(|b| *b *= shrink);
        let value = |l: usize| asked.weight[l] * worth(&asked.w[l * k..][..k], self.bundle(k, self.holds[l]));
        (0..self.holds.len()).map(value).sum()
    }

    /// The user takes the bundle it likes best among those that its cap admits.
    fn switch(&mut self, l: u32, rates: &[f64], cap: f64) {
        let k = rates.len();
        let mut best = worth(rates, self.bundle(k, self.holds[l as usize])) * (1.0 + SWITCH);
        for b in 0..(self.bundles.len() / k) as u32 {
            let bundle = self.bundle(k, b);
            let value = worth(rates, bundle);
            if value > best && bundle.iter().sum::<f64>() <= cap {
                best = value;
                self.holds[l as usize] = b;
            }
        }
    }

    /// Nobody is given what it has no use for.
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

    /// The largest relative envy, `w_l·z_b / w_l·z_l − 1` over users who are not filled and bundles that are held.
    pub(super) fn envy(&self, asked: &EnvyFree<'_>) -> f64 {
        let k = asked.capacity.len();
        let mut held = vec![false; self.bundles.len() / k];
        self.holds.iter().for_each(|&b| held[b as usize] = true);
        let mut largest = 0.0f64;
        for (l, &b) in self.holds.iter().enumerate() {
            let rates = &asked.w[l * k..][..k];
            let own = worth(rates, self.bundle(k, b));
            if own >= ceiling(asked, l) / asked.weight[l] * (1.0 - FILLED) {
                continue;
            }
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

/// What a filled user has: its cap, all of it on what is best for it.
pub(super) fn ceiling(asked: &EnvyFree<'_>, l: usize) -> f64 {
    let k = asked.capacity.len();
    let rates = asked.w[l * k..][..k].iter().zip(asked.capacity);
    asked.caps[l] * rates.filter(|t| *t.1 > 0.0).fold(0.0, |a: f64, t| a.max(*t.0))
}

fn worth(rates: &[f64], bundle: &[f64]) -> f64 {
    rates.iter().zip(bundle).map(|(w, z)| w * z).sum()
}
