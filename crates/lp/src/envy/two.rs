//! One resource and two: closed forms.
//!
//! One: nobody envies anybody only if all bundles are the same, so everybody gets `m/Σπ`. The sum is the mean rate times
//! the capacity; neighbours in any order pay each other for the difference of what is before them to the mean.
//!
//! Two: let `s_l = w_l2/w_l1` rise with `l`. Along the users the first resource can only fall and the second only rise,
//! and where user `c` and the next part, they part at a rate `θ` between `s_c` and `s_{c+1}`. So an envy-free
//! allocation is a sum, with weights `λ`, of
//!
//! ```text
//! ray (c, θ):   (θ, 0) for the first c users,  (0, 1) for the others,      θ ∈ {s_c, s_{c+1}}
//! ```
//!
//! and of (1, 0) for all and (0, 1) for all, less what a user has no use for. With capacities scaled to 1, a ray takes
//! `A` of the first resource and `B` of the second, and is worth `v`. Drawn as points `(A, v)/(A + B)`, the best sum is
//! twice the height of the upper hull over ½, its ends the two rays to take, and the line through them at 1 and at 0 the
//! prices. The line is found by putting the highest point above it in the place of the end on its side.

use super::EnvyFree;
use super::bound::Allocation;
use super::scaled::Duals;

/// The optimum and its duals, if there are one or two resources.
pub(super) fn solve(problem: &EnvyFree<'_>) -> Option<(Allocation, Duals)> {
    match problem.capacity.len() {
        1 => Some(one(problem)),
        2 => Some(two(problem)),
        _ => None,
    }
}

fn one(problem: &EnvyFree<'_>) -> (Allocation, Duals) {
    let EnvyFree { w, weight, .. } = *problem;
    let total: f64 = weight.iter().sum();
    let mean = w.iter().zip(weight).map(|(w, weight)| w * weight).sum::<f64>() / total;
    let mut envy = Vec::with_capacity(w.len());
    let mut above = 0.0;
    for l in 0..w.len() - 1 {
        above += weight[l] * (w[l] - mean);
        let (here, next) = (l as u32, l as u32 + 1);
        envy.push(if above > 0.0 { (next, here, above / w[l + 1]) } else { (here, next, -above / w[l]) });
    }
    envy.retain(|row| row.2 > 0.0);
    let allocation = Allocation { bundles: vec![problem.capacity[0] / total], holds: vec![0; w.len()] };
    (allocation, Duals { prices: vec![mean], envy, ..Duals::default() })
}

/// A ray, and where it is drawn.
#[derive(Clone, Copy)]
struct Ray {
    c: usize,
    theta: f64,
    /// `A + B`.
    size: f64,
    /// `A/(A + B)`.
    at: f64,
    /// `v/(A + B)`.
    height: f64,
}

impl Ray {
    fn new(c: usize, theta: f64, a: f64, b: f64, v: f64) -> Self {
        let size = a + b;
        Self { c, theta, size, at: a / size, height: v / size }
    }
}

/// The rays, and who is in which order.
struct Rays {
    order: Vec<u32>,
    rays: Vec<Ray>,
}

impl Rays {
    fn new(problem: &EnvyFree<'_>) -> Self {
        let [m1, m2] = [problem.capacity[0], problem.capacity[1]];
        let scaled = |l: u32| {
            let l = l as usize;
            (problem.weight[l], problem.w[2 * l] * m1, problem.w[2 * l + 1] * m2)
        };
        let ratios = problem.w.chunks_exact(2).map(|w| w[1] * m2 / (w[0] * m1));
        let mut by_ratio: Vec<(f64, u32)> = ratios.zip(0..).collect();
        by_ratio.sort_unstable_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
        let (mut first, mut second, mut value1, mut value2) = (0.0, 0.0, 0.0, 0.0);
        for &(_, l) in &by_ratio {
            let (weight, w1, w2) = scaled(l);
            first += if w1 > 0.0 { weight } else { 0.0 };
            second += if w2 > 0.0 { weight } else { 0.0 };
            (value1, value2) = (value1 + weight * w1, value2 + weight * w2);
        }
        let n = by_ratio.len();
        let mut rays = vec![Ray::new(0, 0.0, 0.0, second, value2), Ray::new(n, 1.0, first, 0.0, value1)];
        let (mut before, mut gained) = (0.0, 0.0);
        for (c, pair) in by_ratio.windows(2).enumerate() {
            let (weight, w1, w2) = scaled(pair[0].1);
            (before, gained) = (before + weight, gained + weight * w1);
            second -= if w2 > 0.0 { weight } else { 0.0 };
            value2 -= weight * w2;
            for theta in [pair[0].0, pair[1].0] {
                if theta > 0.0 && theta < f64::INFINITY {
                    rays.push(Ray::new(c + 1, theta, theta * before, second, theta * gained + value2));
                }
            }
        }
        Self { order: by_ratio.into_iter().map(|t| t.1).collect(), rays }
    }

    /// The ends of the upper hull over ½. Both are corners of the hull at any time, so rays under the line between
    /// them are out for good.
    fn hull(&mut self) -> (Ray, Ray) {
        let (mut left, mut right) = (self.rays[0], self.rays[1]);
        loop {
            let slope = (right.height - left.height) / (right.at - left.at);
            let least = ROUNDING * left.height.max(right.height);
            let mut highest = (least, None);
            self.rays.retain(|ray| {
                let above = ray.height - left.height - slope * (ray.at - left.at);
                if above > highest.0 {
                    highest = (above, Some(*ray));
                }
                above > least
            });
            match highest.1 {
                Some(ray) if ray.at <= 0.5 => left = ray,
                Some(ray) => right = ray,
                None => return (left, right),
            }
        }
    }
}

/// A height that is nothing beside the largest.
const ROUNDING: f64 = 1e-15;

fn two(problem: &EnvyFree<'_>) -> (Allocation, Duals) {
    let mut rays = Rays::new(problem);
    let (left, right) = rays.hull();
    let width = right.at - left.at;
    let taken =
        [(left, (2.0 * right.at - 1.0) / width / left.size), (right, (1.0 - 2.0 * left.at) / width / right.size)];
    let (c1, c2) = (left.c.min(right.c), left.c.max(right.c));
    let mut holds = vec![0; rays.order.len()];
    for (place, &l) in rays.order.iter().enumerate() {
        holds[l as usize] = u32::from(place >= c1) + u32::from(place >= c2);
    }
    let mut bundles = Vec::with_capacity(6);
    // A bundle that nobody holds has no place on the menu: somebody would take it.
    for place in [0, c1, c2].into_iter().filter(|&place| place < rays.order.len()) {
        let mut bundle = [0.0; 2];
        for (ray, amount) in taken {
            if place < ray.c {
                bundle[0] += amount * ray.theta;
            } else {
                bundle[1] += amount;
            }
        }
        bundles.extend(bundle.iter().zip(problem.capacity).map(|(share, m)| share * m));
    }
    let slope = (right.height - left.height) / width;
    let at_zero = left.height - slope * left.at;
    let prices = vec![(at_zero + slope) / problem.capacity[0], at_zero / problem.capacity[1]];
    (Allocation { bundles, holds }, Duals { prices, ..Duals::default() })
}
