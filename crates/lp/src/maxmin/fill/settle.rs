//! After a bottleneck: who is frozen, what is exhausted, whose shares are settled. See [`super`] for the mathematics.

use super::{Bottleneck, FillWorkspace, UserState, fastest_ones, limit, resources};
use crate::Certificate;
use crate::maxmin::MaxMin;

/// Relative distance at which a user is at its limit.
const AT_LIMIT: f64 = 1e-9;
/// A resource whose share of the total cost is smaller has price 0.
const NO_PRICE: f64 = 1e-6;
/// Options whose reduced costs differ by less, relatively, are tied.
const TIE: f64 = 1e-6;

impl FillWorkspace {
    /// Settles the users that the level `t` and its prices determine; none if there are none, which is not so for the
    /// prices of a bottleneck.
    pub(super) fn settle(&mut self, problem: &MaxMin<'_>, t: f64, mut p: Vec<f64>) -> Option<Bottleneck> {
        let total: f64 = p.iter().zip(&self.left).map(|(p, m)| p * m).sum();
        for (p, m) in p.iter_mut().zip(&self.left) {
            *p = if total > 0.0 && *p * m >= NO_PRICE * total { *p / total } else { 0.0 };
        }
        let priced = (0..p.len()).filter(|&j| p[j] > 0.0).fold(0u32, |set, j| set | 1 << j);
        self.exhausted |= priced;
        self.curves.draw(problem, &self.order, &self.open, &p);
        let bound = Certificate { lower: t, ..Certificate::NONE };
        let mut found = Bottleneck { prices: p, frozen: Vec::new(), full: Vec::new(), bound };
        for l in 0..self.state.len() {
            match self.state[l] {
                UserState::Settled => {}
                UserState::Tied => self.tie(problem, l, &found.prices),
                UserState::Rising if self.limit[l] <= t * (1.0 + AT_LIMIT) => {
                    self.open[l] = fastest_ones(problem, l, self.open[l]);
                    self.caps[l] = f64::INFINITY;
                    self.tie(problem, l, &found.prices);
                    found.full.push(l);
                }
                UserState::Rising => {
                    let b = problem.beta[l] * t * (1.0 + AT_LIMIT);
                    if self.curves.cost(l, self.caps[l], b).1 > 0.0 {
                        self.limit[l] = t;
                        self.tie(problem, l, &found.prices);
                        found.frozen.push(l);
                    } else {
                        self.open[l] &= !priced;
                        self.limit[l] = limit(problem, l, self.open[l]).max(t);
                    }
                }
            }
        }
        self.subtract(problem);
        (!found.frozen.is_empty() || !found.full.is_empty()).then_some(found)
    }

    /// Stops everybody who still rises.
    pub(super) fn stop(&mut self, problem: &MaxMin<'_>) -> Bottleneck {
        let prices = vec![0.0; problem.capacity.len()];
        let rising = (0..self.state.len()).filter(|&l| self.state[l] == UserState::Rising).collect();
        self.state.fill(UserState::Settled);
        Bottleneck { prices, frozen: rising, full: Vec::new(), bound: Certificate::NONE }
    }

    /// Finds the options that prices leave a user to reach its level: settled if there is one, else tied.
    fn tie(&mut self, problem: &MaxMin<'_>, l: usize, p: &[f64]) {
        let k = p.len();
        let w = &problem.w[l * k..][..k];
        let x = &self.x[l * k..][..k];
        let capped = self.caps[l].is_finite();
        let served: f64 = resources(self.open[l]).map(|j| w[j] * x[j]).sum();
        let (lambda, mu) = if capped {
            self.curves.segment(l, served / self.caps[l])
        } else {
            (resources(self.open[l]).map(|j| p[j] / w[j]).fold(f64::INFINITY, f64::min), 0.0)
        };
        let mu = mu.max(0.0);
        let options = resources(self.open[l])
            .filter(|&j| p[j] + mu - lambda * w[j] <= TIE * (p[j] + mu))
            .fold(0u32, |set, j| set | 1 << j);
        let idle = capped && mu <= TIE * lambda * served / self.caps[l];
        let choices = options.count_ones() + u32::from(idle);
        self.state[l] = if choices <= 1 + u32::from(capped) { UserState::Settled } else { UserState::Tied };
        if self.state[l] == UserState::Tied {
            self.open[l] = options;
            let served: f64 = resources(options).map(|j| w[j] * x[j]).sum();
            self.limit[l] = served / problem.beta[l];
        }
    }

    /// What settled users leave: of an exhausted resource, just what tied users hold.
    fn subtract(&mut self, problem: &MaxMin<'_>) {
        let k = problem.capacity.len();
        let mut settled = vec![0.0; k];
        let mut tied = vec![0.0; k];
        for (l, x) in self.x.chunks_exact(k).enumerate() {
            match self.state[l] {
                UserState::Settled => (0..k).for_each(|j| settled[j] += x[j]),
                UserState::Tied => resources(self.open[l]).for_each(|j| tied[j] += x[j]),
                UserState::Rising => {}
            }
        }
        for j in 0..k {
            let kept = if self.exhausted & (1 << j) != 0 { tied[j] } else { problem.capacity[j] - settled[j] };
            self.left[j] = kept.max(0.0);
        }
    }
}
