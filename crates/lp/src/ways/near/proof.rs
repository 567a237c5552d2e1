//! From any units a division that keeps every row, and from any duals a bound. Shares no code with the method that finds them.
//!
//! *A division.* Units `X` are scaled into capacities and mixed with a division `X°` without envy, `X ← (1−t)X + tX°`, with the least `t` for which everybody could
//! reach what its rows ask of it with its own units in its best ways:
//!
//! ```text
//! a_l·X_l ≥ f_l      a_l·X_l/π_l ≥ κ a_l·X_i/π_i         all l ≠ i
//! ```
//!
//! Both are linear in `t`, and at `t = 1` they hold with room to spare where `κ < 1`. Then everybody is thrifty within its own units ([`super::super::thrift`]),
//! down to the larger of its floor and what it sees in another's hands. Units that fall idle on the way are seen by nobody.
//!
//! *A bound.* For any prices `r ≥ 0` and any `μ_li ≥ 0`, with `η_ij = Σ_l μ_li κ a_lj/π_i` and `Y_l = Σ_i μ_li/π_l`, whoever keeps all rows draws
//!
//! ```text
//! Σ p x  ≥  Σ_l f_l (θ_l − Y_l) − r·m          θ_l = min_a (p_la + r_j + η_lj)/w_la,       if Y_l ≤ θ_l for all
//! ```
//!
//! Where `Y_l` is larger, the `μ` of that user are scaled down, over and over as that lowers others' `η`.

use super::super::{Ways, thrift};
use super::crowd::Crowd;

/// Prices, and `μ` as `(l, i, μ)`.
#[derive(Clone, Debug)]
pub(super) struct Duals {
    pub(super) prices: Vec<f64>,
    pub(super) envy: Vec<(u32, u32, f64)>,
}

/// The rows.
pub(super) struct Envy<'a> {
    pub(super) problem: &'a Ways<'a>,
    pub(super) floors: &'a [f64],
    pub(super) part: f64,
    /// `a_l`, users × resources.
    pub(super) best: &'a [f64],
    /// Any positive numbers by resource; the nearer to prices in a market, the sooner it is found what is worth most to whom.
    pub(super) prices: &'a [f64],
}

/// Turns of scaling duals down, by more each time, before there is no bound.
const TURNS: usize = 30;
/// Turns of asking anew what everybody sees, after others have let units go.
const THRIFT: usize = 2;

impl Envy<'_> {
    fn k(&self) -> usize {
        self.problem.capacity.len()
    }

    fn worth(&self, l: usize, units: &[f64]) -> f64 {
        self.best[l * self.k()..][..self.k()].iter().zip(units).map(|(a, x)| a * x).sum()
    }

    /// What is drawn.
    pub(super) fn draw(&self, x: &[f64]) -> f64 {
        x.iter().zip(self.problem.draw).map(|(x, p)| x * p).sum()
    }

    /// Everybody's units, to be looked at by everybody.
    pub(super) fn crowd(&self, units: &[f64]) -> Crowd {
        Crowd::new(units, self.problem.weight, self.prices)
    }

    /// What everybody's rows ask of it when these are the units in use.
    fn asked(&self, units: &[f64]) -> Vec<f64> {
        let crowd = self.crowd(units);
        (0..self.floors.len()).map(|l| self.asked_of(l, &crowd)).collect()
    }

    /// What one user's rows ask of it.
    pub(super) fn asked_of(&self, l: usize, crowd: &Crowd) -> f64 {
        let most = crowd.most(l, &self.best[l * self.k()..][..self.k()]);
        f64::max(self.floors[l], self.part * self.problem.weight[l] * most)
    }

    /// A use that keeps every row, near to `units`.
    pub(super) fn settle(&self, units: &[f64], fair: &[f64]) -> Vec<f64> {
        let (k, ways) = (self.k(), self.problem.ways());
        let mut units = self.mixed(units, fair);
        let mut x = Vec::new();
        for _ in 0..THRIFT {
            let asked = self.asked(&units);
            x = (0..asked.len()).flat_map(|l| thrift(self.problem, l, &units[l * k..][..k], asked[l])).collect();
            units.fill(0.0);
            for (at, x) in x.iter().enumerate() {
                units[at / ways * k + self.problem.resource[at % ways]] += x;
            }
        }
        x
    }

    /// Units within capacities that let everybody reach what it is asked, by as little of `fair` as needed.
    fn mixed(&self, units: &[f64], fair: &[f64]) -> Vec<f64> {
        let (k, n) = (self.k(), self.floors.len());
        let mut used = vec![0.0; k];
        units.iter().enumerate().for_each(|(at, x)| used[at % k] += x);
        let fit: Vec<f64> =
            used.iter().zip(self.problem.capacity).map(|(used, m)| if used > m { m / used } else { 1.0 }).collect();
        let mut units: Vec<f64> = units.iter().enumerate().map(|(at, x)| x * fit[at % k]).collect();
        let mut part = 0.0f64;
        let crowd = self.crowd(&units);
        for l in 0..n {
            let own = [&units, fair].map(|units| self.worth(l, &units[l * k..][..k]));
            let mut need = |here: f64, there: f64| {
                if here < 0.0 {
                    part = part.max(if there > 0.0 { here / (here - there) } else { 1.0 });
                }
            };
            need(own[0] - self.floors[l], own[1] - self.floors[l]);
            let factor = self.part * self.problem.weight[l];
            crowd.above(l, &self.best[l * k..][..k], own[0] / factor, |i, worth| {
                let there = self.worth(l, &fair[i * k..][..k]) / self.problem.weight[i];
                need(own[0] - factor * worth, own[1] - factor * there);
            });
        }
        units.iter_mut().zip(fair).for_each(|(x, fair)| *x += part * (fair - *x));
        units
    }

    /// The bound that duals prove; 0 at least.
    pub(super) fn prove(&self, mut duals: Duals) -> f64 {
        let sound = |value: f64| if value > 0.0 && value.is_finite() { value } else { 0.0 };
        duals.prices.iter_mut().for_each(|r| *r = sound(*r));
        duals.envy.iter_mut().for_each(|t| t.2 = sound(t.2));
        for turn in 0.. {
            let (theta, paid) = self.weighed(&duals);
            let over: Vec<f64> = theta.iter().zip(&paid).map(|(t, y)| if y > t { t / y } else { 1.0 }).collect();
            if over.iter().all(|part| *part >= 1.0) {
                let users = theta.iter().zip(&paid).zip(self.floors).map(|((t, y), f)| f * (t - y));
                let sold: f64 = duals.prices.iter().zip(self.problem.capacity).map(|(r, m)| r * m).sum();
                return f64::max(users.sum::<f64>() - sold, 0.0);
            }
            if turn == TURNS {
                break;
            }
            // A little more than needed, so that it ends.
            duals.envy.iter_mut().for_each(|t| {
                let part = over[t.0 as usize];
                t.2 *=
                    if part < 1.0 { part * (1.0 - 1e-6 * f64::from(1 << turn.min(20) as u32)).max(0.0) } else { 1.0 };
            });
        }
        0.0
    }

    /// Everybody's θ and Y.
    fn weighed(&self, duals: &Duals) -> (Vec<f64>, Vec<f64>) {
        let (k, weight) = (self.k(), self.problem.weight);
        let (mut envied, mut paid) = (vec![0.0; self.best.len()], vec![0.0; weight.len()]);
        for &(l, i, mu) in duals.envy.iter().filter(|t| t.0 != t.1) {
            let (l, i) = (l as usize, i as usize);
            paid[l] += mu / weight[l];
            let factor = mu * self.part / weight[i];
            let values = &self.best[l * k..][..k];
            envied[i * k..][..k].iter_mut().zip(values).for_each(|(eta, a)| *eta += factor * a);
        }
        let theta = |l: usize| {
            let ways = self.problem.useful(l);
            ways.map(|(_, j, w, p)| (p + duals.prices[j] + envied[l * k + j]) / w).fold(f64::INFINITY, f64::min)
        };
        ((0..weight.len()).map(theta).collect(), paid)
    }
}
