//! After a stage: who is frozen, what is exhausted, whose shares are settled. See [`super`] for the mathematics.

use super::{Bound, Life, Reservoir, Stage, fastest_ones, limit, resources};
use crate::maxmin::MaxMin;

/// A user this near to its limit, relatively, is there.
const AT_LIMIT: f64 = 1e-9;
/// A resource whose price is a smaller part of all that is paid has none.
const NO_PRICE: f64 = 1e-6;
/// Ways whose prices differ by less, relatively, are a tie.
const TIE: f64 = 1e-6;

impl Reservoir {
    /// Settles what the level `t` and its prices settle; nothing if they settle nobody, which no bottleneck's prices do.
    pub(super) fn settle(&mut self, problem: &MaxMin<'_>, t: f64, mut p: Vec<f64>) -> Option<Stage> {
        let total: f64 = p.iter().zip(&self.left).map(|(p, m)| p * m).sum();
        for (p, m) in p.iter_mut().zip(&self.left) {
            *p = if total > 0.0 && *p * m >= NO_PRICE * total { *p / total } else { 0.0 };
        }
        let priced = (0..p.len()).filter(|&j| p[j] > 0.0).fold(0u32, |set, j| set | 1 << j);
        self.exhausted |= priced;
        self.curves.draw(problem, &self.order, &self.open, &p);
        let bound = Bound { lower: t, upper: f64::INFINITY };
        let mut stage = Stage { prices: p, frozen: Vec::new(), full: Vec::new(), bound };
        for l in 0..self.life.len() {
            match self.life[l] {
                Life::Settled => {}
                Life::Tied => self.tie(problem, l, &stage.prices),
                Life::Rising if self.limit[l] <= t * (1.0 + AT_LIMIT) => {
                    self.open[l] = fastest_ones(problem, l, self.open[l]);
                    self.caps[l] = f64::INFINITY;
                    self.tie(problem, l, &stage.prices);
                    stage.full.push(l);
                }
                Life::Rising => {
                    let b = problem.beta[l] * t * (1.0 + AT_LIMIT);
                    if self.curves.cost(l, self.caps[l], b).1 > 0.0 {
                        self.limit[l] = t;
                        self.tie(problem, l, &stage.prices);
                        stage.frozen.push(l);
                    } else {
                        self.open[l] &= !priced;
                        self.limit[l] = limit(problem, l, self.open[l]).max(t);
                    }
                }
            }
        }
        self.subtract(problem);
        (!stage.frozen.is_empty() || !stage.full.is_empty()).then_some(stage)
    }

    /// Ends it for everybody who still rises.
    pub(super) fn stop(&mut self, problem: &MaxMin<'_>) -> Stage {
        let prices = vec![0.0; problem.capacity.len()];
        let rising = (0..self.life.len()).filter(|&l| self.life[l] == Life::Rising).collect();
        self.life.fill(Life::Settled);
        Stage { prices, frozen: rising, full: Vec::new(), bound: Bound { lower: 0.0, upper: f64::INFINITY } }
    }

    /// Finds the ways that prices leave a user to its level: settled if there is one, else tied.
    fn tie(&mut self, problem: &MaxMin<'_>, l: usize, p: &[f64]) {
        let k = p.len();
        let w = &problem.w[l * k..][..k];
        let x = &self.x[l * k..][..k];
        let capped = self.caps[l].is_finite();
        let served: f64 = resources(self.open[l]).map(|j| w[j] * x[j]).sum();
        let (lambda, mu) = if capped {
            self.curves.line(l, served / self.caps[l])
        } else {
            (resources(self.open[l]).map(|j| p[j] / w[j]).fold(f64::INFINITY, f64::min), 0.0)
        };
        let mu = mu.max(0.0);
        let ways = resources(self.open[l])
            .filter(|&j| p[j] + mu - lambda * w[j] <= TIE * (p[j] + mu))
            .fold(0u32, |set, j| set | 1 << j);
        let idle = capped && mu <= TIE * lambda * served / self.caps[l];
        let choices = ways.count_ones() + u32::from(idle);
        self.life[l] = if choices <= 1 + u32::from(capped) { Life::Settled } else { Life::Tied };
        if self.life[l] == Life::Tied {
            self.open[l] = ways;
            let served: f64 = resources(ways).map(|j| w[j] * x[j]).sum();
            self.limit[l] = served / problem.beta[l];
        }
    }

    /// What settled users have left: of an exhausted resource, just what those who are tied hold.
    fn subtract(&mut self, problem: &MaxMin<'_>) {
        let k = problem.capacity.len();
        let mut settled = vec![0.0; k];
        let mut tied = vec![0.0; k];
        for (l, x) in self.x.chunks_exact(k).enumerate() {
            match self.life[l] {
                Life::Settled => (0..k).for_each(|j| settled[j] += x[j]),
                Life::Tied => resources(self.open[l]).for_each(|j| tied[j] += x[j]),
                Life::Rising => {}
            }
        }
        for j in 0..k {
            let kept = if self.exhausted & (1 << j) != 0 { tied[j] } else { problem.capacity[j] - settled[j] };
            self.left[j] = kept.max(0.0);
        }
    }
}
