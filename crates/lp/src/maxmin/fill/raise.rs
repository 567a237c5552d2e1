//! The greatest common level, from above. See [`super`] for the mathematics.

use super::{FillWorkspace, Raised, SAME, UserState, fastest, fastest_ones, resources};
use crate::maxmin::MaxMin;
use crate::{Budget, Certificate, InputError};

/// The tolerance of a program that only has to give prices for a lower `t`...
const COARSE: f64 = 1e-3;
/// ...and one whose `t` may be the last.
const FINE: f64 = 1e-10;
/// A step from `t` that is shorter, relatively, may be the last.
const NEAR: f64 = 1e-2;
/// `τ` this near to 1 is 1.
const REACHED: f64 = 1e-9;
/// `τ` this near to 1 is accepted if the solver cannot do better.
const WELL: f64 = 1e-6;
/// Programs per bottleneck; four are usual.
const MOST_STEPS: u32 = 60;

/// Where a program starts: from scratch, from the middle of the last one, or where that one ended.
#[derive(PartialEq)]
enum Start {
    Scratch,
    Near,
    Same,
}

impl FillWorkspace {
    /// Finds the greatest common level; returns it with its prices, and leaves everybody's shares in `x`.
    pub(super) fn raise(&mut self, problem: &MaxMin<'_>, number: usize, left: &mut u32) -> Result<Raised, InputError> {
        let mut p = self.guess(problem);
        let mut t = self.highest(problem, &p, f64::INFINITY);
        if let Some(known) = self.memory.get(number).filter(|known| known.len() == p.len()).cloned() {
            t = self.highest(problem, &known, t);
        }
        let (mut tolerance, mut whole, mut reached) = (COARSE, false, false);
        let mut start = Start::Scratch;
        // Whether the last program is feasible; where rates are too far apart none may be.
        let mut feasible = false;
        for step in 1..=MOST_STEPS {
            let oversold = self.pose(problem, t, whole);
            feasible = oversold == 0;
            if oversold != 0 {
                p.iter_mut().enumerate().for_each(|(j, p)| *p = if oversold & (1 << j) != 0 { 1.0 } else { 0.0 });
                t = self.highest(problem, &p, t);
                continue;
            }
            if self.members.is_empty() {
                p.fill(0.0);
                reached = true;
                break;
            }
            if start == Start::Near && self.members != self.before {
                start = Start::Scratch;
            }
            self.before.clone_from(&self.members);
            let program = MaxMin { w: &self.w, beta: &self.b, caps: &self.d, capacity: &self.spare };
            let budget = Budget::iterations(*left);
            let solution = match start {
                Start::Scratch => self.solver.solve(&program, budget, tolerance)?,
                Start::Near => self.solver.solve_near(&program, budget, tolerance)?,
                Start::Same => self.solver.resume(&program, budget, tolerance)?,
            };
            start = Start::Near;
            *left -= solution.iterations.min(*left);
            let Certificate { lower: tau, upper } = solution.bound;
            p.copy_from_slice(&solution.prices);
            // Prices of a spent budget may freeze the wrong users, however good the level is.
            reached = tau >= 1.0 - WELL && (*left > 0 || upper - tau <= REACHED);
            if tau >= 1.0 - REACHED || *left == 0 || step == MOST_STEPS {
                break;
            }
            let next = self.highest(problem, &p, t);
            let still = next >= t * (1.0 - SAME);
            if still && (tolerance == FINE || upper - tau > 10.0 * tolerance) {
                // The solver can do no more. With users at their limits in the program it may.
                if whole {
                    break;
                }
                (whole, start) = (true, Start::Scratch);
            } else if still {
                start = Start::Same;
            }
            if still || next >= t * (1.0 - NEAR) {
                tolerance = FINE;
            }
            t = next;
        }
        if feasible {
            self.take(problem, t);
        }
        reached &= feasible;
        self.memory.resize(self.memory.len().max(number + 1), Vec::new());
        self.memory[number].clone_from(&p);
        Ok(Raised { t, p, reached })
    }

    /// Starting prices: the mean relative rate of the rising users on a resource.
    fn guess(&self, problem: &MaxMin<'_>) -> Vec<f64> {
        let k = problem.capacity.len();
        let mut p = vec![0.0; k];
        for l in (0..self.state.len()).filter(|&l| self.state[l] == UserState::Rising) {
            let fastest = fastest(problem, l, self.open[l]);
            for j in resources(self.open[l]) {
                p[j] += problem.w[l * k + j] / fastest;
            }
        }
        p
    }

    /// `t(p)`, at most `ceiling`.
    fn highest(&mut self, problem: &MaxMin<'_>, p: &[f64], ceiling: f64) -> f64 {
        self.curves.draw(problem, &self.order, &self.open, p);
        let budget: f64 = p.iter().zip(&self.left).map(|(p, m)| p * m).sum();
        let paying = || (0..self.state.len()).filter(|&l| self.state[l] != UserState::Settled);
        let cost = |t: f64| {
            let (mut cost, mut slope) = (0.0, 0.0);
            for l in paying() {
                let f = self.limit[l];
                let (c, s) = self.curves.cost(l, self.caps[l], problem.beta[l] * t.min(f));
                cost += c;
                slope += if t < f { s * problem.beta[l] } else { 0.0 };
            }
            (cost, slope)
        };
        let limits = paying().filter(|&l| self.state[l] == UserState::Rising).map(|l| self.limit[l]);
        let mut top = limits.fold(0.0, f64::max).min(ceiling);
        if top.is_infinite() {
            top = 2.0 * budget / cost(0.0).1;
            while top.is_finite() && cost(top).0 <= budget {
                top *= 2.0;
            }
        }
        if !top.is_finite() || cost(top).0 <= budget {
            return top;
        }
        root(top, budget, cost)
    }

    /// Writes the program "by which factor can everybody have `b(t)`?". A user at its limit holds its fastest resource,
    /// all of its cap: it is subtracted, unless the program is to be `whole`. If several are equally fast it takes part
    /// with those alone, and its cap follows from its level. Returns resources, a bit each, that cannot serve the users
    /// who have no other way to reach `b(t)`.
    fn pose(&mut self, problem: &MaxMin<'_>, t: f64, whole: bool) -> u32 {
        self.members.clear();
        self.w.clear();
        self.b.clear();
        self.d.clear();
        self.spare.clone_from(&self.left);
        for l in 0..self.state.len() {
            let (open, f, cap) = (self.open[l], self.limit[l], self.caps[l]);
            if self.state[l] == UserState::Settled {
                continue;
            }
            if !self.is_full(l, t) {
                self.join(problem, l, open, t.min(f), cap);
                continue;
            }
            let fast = fastest_ones(problem, l, open);
            if fast.count_ones() == 1 && !whole {
                self.spare[fast.trailing_zeros() as usize] -= cap;
            } else {
                self.join(problem, l, fast, f, f64::INFINITY);
            }
        }
        let (mut oversold, mut gone) = (0, 0);
        for (j, (spare, m)) in self.spare.iter_mut().zip(problem.capacity).enumerate() {
            oversold |= if *spare < -SAME * m { 1 << j } else { 0 };
            gone |= if *spare <= SAME * m { 1 << j } else { 0 };
            *spare = if *spare > SAME * m { *spare } else { 0.0 };
        }
        if oversold != 0 || gone == 0 {
            return oversold;
        }
        let stranded = self.members.iter().find(|&&l| self.open[l] & !gone == 0);
        stranded.map_or(0, |&l| self.open[l])
    }

    /// Does user `l` reach its limit at `t`?
    fn is_full(&self, l: usize, t: f64) -> bool {
        self.state[l] == UserState::Rising && self.limit[l] <= t * (1.0 + SAME) && self.caps[l].is_finite()
    }

    fn join(&mut self, problem: &MaxMin<'_>, l: usize, open: u32, level: f64, cap: f64) {
        let k = problem.capacity.len();
        let w = &problem.w[l * k..][..k];
        self.members.push(l);
        self.w.extend((0..k).map(|j| if open & (1 << j) != 0 { w[j] } else { 0.0 }));
        self.b.push(problem.beta[l] * level);
        self.d.push(cap);
    }

    /// Copies the shares out, scaled down to `b(t)`.
    fn take(&mut self, problem: &MaxMin<'_>, t: f64) {
        let k = problem.capacity.len();
        for l in 0..self.state.len() {
            if self.is_full(l, t) {
                let fast = fastest_ones(problem, l, self.open[l]).trailing_zeros() as usize;
                self.x[l * k..][..k].fill(0.0);
                self.x[l * k + fast] = self.caps[l];
            }
        }
        for (at, &l) in self.members.iter().enumerate() {
            let x = &self.solver.solution.x[at * k..][..k];
            let served: f64 = x.iter().zip(&self.w[at * k..]).map(|(x, w)| x * w).sum();
            let fit = (self.b[at] / served).min(1.0);
            (0..k).for_each(|j| self.x[l * k + j] = x[j] * fit);
        }
    }
}

/// The least `t` up to `top` at which the rising `cost` exceeds `budget`, from above: Newton, kept inside a bracket.
fn root(top: f64, budget: f64, cost: impl Fn(f64) -> (f64, f64)) -> f64 {
    let (mut low, mut low_cost) = (0.0, 0.0);
    let (mut high, (mut high_cost, mut slope)) = (top, cost(top));
    for step in 0..200 {
        let mut t = high - (high_cost - budget) / slope;
        if !(t > low && t < high) || step % 4 == 3 {
            let part: f64 = (budget - low_cost) / (high_cost - low_cost);
            t = low + (high - low) * part.clamp(0.01, 0.99);
        }
        if !(t > low && t < high) {
            break;
        }
        let (c, s) = cost(t);
        if c > budget {
            (high, high_cost, slope) = (t, c, s);
        } else {
            (low, low_cost) = (t, c);
        }
        if high - low <= 1e-15 * high || high_cost - budget <= 1e-14 * budget {
            break;
        }
    }
    high
}
