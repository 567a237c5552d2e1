//! Certifies a solution from the problem as given, over all columns; the bounds hold for any shares and duals.
//!
//! *Lower bound.* Shares are scaled into the capacities, then into the jobs.
//!
//! *Upper bound.* For `λ, μ, p ≥ 0` such that no column has a positive reduced cost, every feasible point satisfies
//!
//! ```text
//! Σ_i λ_i rate_i ≤ R,      R = m·p + Σ_i d_i μ_i
//! ```
//!
//! A column with a reduced cost `v > 0` raises `p_j` by `v` over the units it takes, which makes it 0.

use super::master::Activity;
use super::{Group, Sharing};
use crate::certificate::fit;

/// Duals, and what they prove.
#[derive(Clone, Debug)]
pub(super) struct Duals {
    pub(super) lambda: Vec<f64>,
    pub(super) mu: Vec<f64>,
    pub(super) p: Vec<f64>,
    /// R
    pub(super) right: f64,
}

impl Duals {
    /// The same proof in another unit.
    pub(super) fn scale(&mut self, factor: f64) {
        let all = self.lambda.iter_mut().chain(&mut self.mu).chain(&mut self.p);
        all.for_each(|dual| *dual *= factor);
        self.right *= factor;
    }
}

/// Scales `x` into units and jobs; returns the least rate over `b`.
pub(super) fn attain(
    problem: &Sharing<'_>,
    groups: &[Group],
    activities: &[Activity],
    x: &mut [f64],
    b: &[f64],
) -> f64 {
    let mut units = vec![0.0; problem.capacity.len()];
    for (activity, x) in activities.iter().zip(x.iter()) {
        units[activity.resource] += x * need(groups, activity);
    }
    let mut jobs = vec![0.0; groups.len()];
    for (activity, x) in activities.iter().zip(x.iter_mut()) {
        *x *= fit(units[activity.resource], problem.capacity[activity.resource]);
        each(activity, |g, _| jobs[g] += *x);
    }
    let mut served = vec![0.0; groups.len()];
    for (activity, x) in activities.iter().zip(x.iter_mut()) {
        let mut least = 1.0;
        each(activity, |g, _| least = f64::min(least, fit(jobs[g], groups[g].jobs)));
        *x *= least;
        each(activity, |g, rate| served[g] += rate * *x);
    }
    served.iter().zip(b).map(|(served, b)| served / b).fold(f64::INFINITY, f64::min)
}

/// What every group gets done.
pub(super) fn served(groups: &[Group], activities: &[Activity], x: &[f64]) -> Vec<f64> {
    let mut served = vec![0.0; groups.len()];
    for (activity, x) in activities.iter().zip(x) {
        each(activity, |g, rate| served[g] += rate * x);
    }
    served
}

/// Calls for both sides of a column.
fn each(activity: &Activity, mut call: impl FnMut(usize, f64)) {
    call(activity.first, activity.rates.0);
    if let Some(second) = activity.second {
        call(second, activity.rates.1);
    }
}

fn need(groups: &[Group], activity: &Activity) -> f64 {
    if activity.second.is_none() { groups[activity.first].need } else { 1.0 }
}

/// Raises prices until no column of the problem has a positive reduced cost, and computes `R`.
pub(super) fn repair(problem: &Sharing<'_>, groups: &[Group], duals: &mut Duals) {
    let k = problem.capacity.len();
    let Duals { lambda, mu, p, right } = duals;
    let mut more = vec![0.0; k];
    let mut of_class = vec![Vec::new(); problem.rates.len() / k];
    for (g, group) in groups.iter().enumerate() {
        for j in 0..k {
            let wanted = lambda[g] * problem.rates[group.class * k + j] - mu[g] - group.need * p[j];
            more[j] = f64::max(more[j], wanted / group.need);
        }
        if group.need == 1.0 {
            of_class[group.class].push(g);
        }
    }
    for pair in problem.pairs {
        for &g in &of_class[pair.first] {
            for &h in &of_class[pair.second] {
                // A pair of one group with itself takes two of its jobs, which a single job is not.
                if g != h || groups[g].jobs >= 2.0 {
                    let gain = lambda[g] * pair.rates.0 + lambda[h] * pair.rates.1;
                    let wanted = gain - mu[g] - mu[h] - p[pair.resource];
                    let place = &mut more[pair.resource];
                    *place = if wanted > *place { wanted } else { *place };
                }
            }
        }
    }
    *right = groups.iter().zip(mu.iter()).map(|(group, mu)| group.jobs * mu).sum();
    for j in 0..k {
        // A resource of capacity 0 adds nothing, whatever its price.
        p[j] += more[j];
        *right += problem.capacity[j] * p[j];
    }
}
