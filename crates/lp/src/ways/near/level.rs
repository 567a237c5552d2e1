//! A division in which nobody has more than its floor.
//!
//! Where `u_i = f_i` for everybody, a row against envy says something of one user's units only: `κ (π_i/π_l) a_i·X_l ≤ f_i`. All that is left between users are the
//! capacities, and the program is
//!
//! ```text
//! minimise Σ_l p_l·x_l     Σ_l X_l ≤ m     x_l ∈ P_l = { w_l·x ≥ f_l,   κ (π_i/π_l) a_i·X/f_i ≤ 1   every i ≠ l }
//! ```
//!
//! Nobody is above its floor so that others may hold more: that costs some tenths of a per cent, and leaves as many prices as resources. At prices `r` everybody takes what
//! is least dear in its `P_l` (`near/own.rs`), and any mean of answers at several prices is in `P_l` too. So a small program looks for the mean of all answers so far that
//! fits the capacities and draws least (`near/master.rs`; Dantzig and Wolfe's method). A division that fits is among them from the beginning. Its duals say at which
//! prices to ask next, between them and the best prices so far: it knows little of what it has not seen.

use super::master::{Master, PARTS};
use super::own::{Asked, Own};

/// The part of the best prices in the next, at first; by how much it changes, less where the last were better; and its limits.
const KEPT: f64 = 0.7;
const CHANGE: f64 = 0.1;
const LEAST_KEPT: f64 = 0.3;
const MOST_KEPT: f64 = 0.9;

/// What everybody would take, all users.
pub(super) struct Answers {
    /// `(way, use)`, user by user, and where each user's end.
    x: Vec<(u32, f64)>,
    ends: Vec<u32>,
    /// By part: units by resource, and the draw.
    pub(super) used: Vec<f64>,
    pub(super) draw: [f64; PARTS],
}

impl Answers {
    fn new(own: &Own<'_>) -> Self {
        Self { x: Vec::new(), ends: Vec::new(), used: vec![0.0; PARTS * own.k], draw: [0.0; PARTS] }
    }

    /// Adds the next user's.
    fn add(&mut self, own: &Own<'_>, uses: impl Iterator<Item = (u32, f64)>) {
        let (l, ways) = (self.ends.len(), own.problem.ways());
        let part = l % PARTS;
        for (a, x) in uses.filter(|(_, x)| *x > 0.0) {
            self.used[part * own.k + own.problem.resource[a as usize]] += x;
            self.draw[part] += x * own.problem.draw[l * ways + a as usize];
            self.x.push((a, x));
        }
        self.ends.push(self.x.len() as u32);
    }

    fn of_user(&self, l: usize) -> &[(u32, f64)] {
        let from = if l == 0 { 0 } else { self.ends[l - 1] };
        &self.x[from as usize..self.ends[l] as usize]
    }
}

/// A division, and the prices at which it was found.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Units, users × resources.
    pub(super) units: Vec<f64>,
    pub(super) prices: Vec<f64>,
    /// Who limited everybody when it was last asked.
    pub(super) limited_by: Vec<Vec<u32>>,
    pub(super) turns: u32,
}

/// All that was asked so far.
pub(super) struct Leveling<'s, 'a> {
    own: &'s mut Own<'a>,
    floors: &'s [f64],
    /// What others may see of anybody, in their floors.
    ones: Vec<f64>,
    all: Vec<Answers>,
    master: Master,
    limited_by: Vec<Vec<u32>>,
    prices: Vec<f64>,
    /// The best prices, and what they prove of this program.
    best: Vec<f64>,
    least: f64,
}

impl<'s, 'a> Leveling<'s, 'a> {
    /// From a use that fits, prices, and perhaps who is likely to limit whom.
    pub(super) fn new(
        own: &'s mut Own<'a>,
        floors: &'s [f64],
        known: &[f64],
        prices: &[f64],
        mut limited_by: Vec<Vec<u32>>,
    ) -> Self {
        let mut first = Answers::new(own);
        for row in known.chunks_exact(own.problem.ways()) {
            first.add(own, row.iter().enumerate().map(|(a, x)| (a as u32, *x)));
        }
        let mut master = Master::new(own.problem.capacity, first.draw.iter().sum());
        master.add(&first);
        limited_by.resize(floors.len(), Vec::new());
        Self {
            own,
            floors,
            ones: vec![1.0; floors.len()],
            all: vec![first],
            master,
            limited_by,
            prices: prices.to_vec(),
            best: prices.to_vec(),
            least: f64::NEG_INFINITY,
        }
    }

    /// Asks and mixes until what is drawn is within `gap` of the least, or `most` turns are over.
    pub(super) fn solve(mut self, gap: f64, most: u32) -> Level {
        let (mut kept, mut turns) = (KEPT, 0);
        while turns < most {
            turns += 1;
            let better = self.ask();
            let draw = self.master.mix();
            if draw - self.least <= gap * draw {
                break;
            }
            kept = if better { f64::max(kept - CHANGE, LEAST_KEPT) } else { f64::min(kept + CHANGE, MOST_KEPT) };
            let duals = self.master.prices();
            self.prices = self.best.iter().zip(&duals).map(|(best, dual)| kept * best + (1.0 - kept) * dual).collect();
        }
        let units = self.units();
        Level { units, prices: self.best, limited_by: self.limited_by, turns }
    }

    /// Everybody's answer at the prices; says whether they prove more than any before.
    fn ask(&mut self) -> bool {
        let mut now = Answers::new(self.own);
        for l in 0..self.floors.len() {
            let limited_by = &self.limited_by[l];
            let asked = Asked { prices: &self.prices, floor: self.floors[l], most: &self.ones, limited_by };
            if self.own.solve(l, &asked) {
                self.limited_by[l].clear();
                self.limited_by[l].extend(self.own.answer.limits.iter().map(|t| t.0));
                now.add(self.own, self.own.answer.x.iter().copied());
            } else {
                // By rounding there may be nothing that keeps all limits but what is known to.
                now.add(self.own, self.all[0].of_user(l).iter().copied());
            }
        }
        let bought: f64 = now.used.iter().enumerate().map(|(at, x)| x * self.prices[at % self.own.k]).sum();
        let sold: f64 = self.prices.iter().zip(self.own.problem.capacity).map(|(r, m)| r * m).sum();
        let value = now.draw.iter().sum::<f64>() + bought - sold;
        self.master.add(&now);
        self.all.push(now);
        let better = value > self.least;
        if better {
            self.least = value;
            self.best.clone_from(&self.prices);
        }
        better
    }

    /// The mean.
    fn units(&self) -> Vec<f64> {
        let k = self.own.k;
        let mut units = vec![0.0; self.floors.len() * k];
        for (answers, weights) in self.all.iter().zip(self.master.weights.chunks_exact(PARTS)) {
            for (l, units) in units.chunks_exact_mut(k).enumerate().filter(|(l, _)| weights[l % PARTS] > 0.0) {
                for &(a, x) in answers.of_user(l) {
                    units[self.own.problem.resource[a as usize]] += weights[l % PARTS] * x;
                }
            }
        }
        units
    }
}

#[cfg(test)]
mod tests {
    use super::{Leveling, Own};
    use crate::simplex::Simplex;
    use crate::ways::{Ways, thrift};
    use crate::{Status, families};
    use families::{Family, Instance, Recipe};

    /// The least draw with nobody above its floor, all of it one program for the large simplex.
    fn whole(problem: &Ways<'_>, floors: &[f64], own: &Own<'_>) -> f64 {
        let (n, ways) = (problem.users(), problem.ways());
        let mut simplex = Simplex::new(&problem.draw.iter().map(|p| -p).collect::<Vec<f64>>());
        for (j, m) in problem.capacity.iter().enumerate() {
            let of = (0..n * ways).filter(|at| problem.resource[at % ways] == j);
            simplex.add_row(&of.map(|at| (at as u32, 1.0)).collect::<Vec<_>>(), *m);
        }
        for l in 0..n {
            let row = |of: &dyn Fn(usize) -> f64| (0..ways).map(|a| ((l * ways + a) as u32, of(a))).collect::<Vec<_>>();
            simplex.add_row(&row(&|a| -problem.w[l * ways + a]), -floors[l]);
            for i in (0..n).filter(|i| *i != l) {
                let sight = own.sight_of(i as u32);
                simplex.add_row(&row(&|a| sight[problem.resource[a]] / problem.weight[l]), 1.0);
            }
        }
        assert_eq!(simplex.solve(100_000), Status::Optimal);
        -simplex.objective()
    }

    /// The mean of answers draws what the whole program draws, to the gap that was asked for, and fits.
    #[test]
    fn the_mean_meets_the_large_simplex() {
        for seed in 0..40u64 {
            let (n, k) = (4 + seed as usize % 9, 1 + seed as usize % 4);
            let recipe =
                Recipe { family: Family::Mixed, users: n, resources: k, load: 1.0, uncapped: 1.0, spread: 0.0, seed };
            let instance = Instance::new(&recipe);
            let both = |x: &f64, low: f64| [*x, low * x];
            let w: Vec<f64> = instance.w.iter().flat_map(|w| both(w, 0.8)).collect();
            let watts = |at: usize| 100.0 + ((at * 37) % 113) as f64;
            let draw: Vec<f64> = (0..n * k).flat_map(|at| both(&watts(at), 0.5)).collect();
            let resource: Vec<usize> = (0..2 * k).map(|a| a / 2).collect();
            let weight: Vec<f64> = (0..n).map(|l| 1.0 + (l % 3) as f64).collect();
            let caps = vec![f64::INFINITY; n];
            let problem = Ways {
                w: &w,
                draw: &draw,
                resource: &resource,
                weight: &weight,
                caps: &caps,
                capacity: &instance.capacity,
            };
            let all: f64 = weight.iter().sum();
            let units: Vec<f64> =
                weight.iter().flat_map(|p| instance.capacity.iter().map(move |m| m * p / all)).collect();
            let best: Vec<f64> = (0..n).flat_map(|l| problem.best_rates(l)).collect();
            let speed = |l: usize| (0..k).map(|j| best[l * k + j] * units[l * k + j]).sum::<f64>();
            let floors: Vec<f64> = (0..n).map(|l| 0.9 * speed(l)).collect();
            let known: Vec<f64> = (0..n).flat_map(|l| thrift(&problem, l, &units[l * k..][..k], floors[l])).collect();
            let mut own = Own::new(&problem, &floors, 0.9, &best);
            let least = whole(&problem, &floors, &own);
            let level = Leveling::new(&mut own, &floors, &known, &vec![0.0; k], Vec::new()).solve(1e-6, 200);
            let drawn = |l: usize| -> f64 {
                let x = thrift(&problem, l, &level.units[l * k..][..k], floors[l]);
                x.iter().zip(&draw[l * 2 * k..]).map(|(x, p)| x * p).sum()
            };
            let drawn: f64 = (0..n).map(drawn).sum();
            assert!(drawn >= least * (1.0 - 1e-4), "{drawn} below {least}");
            assert!(drawn <= least * (1.0 + 1e-4), "{drawn} above {least}, seed {seed}");
            for (j, m) in instance.capacity.iter().enumerate() {
                let used: f64 = level.units.iter().skip(j).step_by(k).sum();
                assert!(used <= m * (1.0 + 1e-4), "{used} of {m}");
            }
        }
    }
}
