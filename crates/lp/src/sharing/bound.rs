//! Proves how good an answer is, from the problem as it was asked, over all columns: any shares and duals may come in.
//!
//! *Lower.* Shares are scaled into units, then into jobs.
//!
//! *Upper.* For `λ, μ, p ≥ 0` such that no column is wanted, whatever can be had at once satisfies
//!
//! ```text
//! Σ_i λ_i rate_i ≤ R,      R = m·p + Σ_i d_i μ_i
//! ```
//!
//! A column that is still wanted by `v` raises `p_j` by `v` over the units it takes: then nobody wants it.

use super::master::Way;
use super::{Group, Sharing};

/// Duals, and what they prove.
#[derive(Clone, Debug)]
pub(super) struct Duals {
    pub(super) lambda: Vec<f64>,
    pub(super) mu: Vec<f64>,
    pub(super) p: Vec<f64>,
    /// R
    pub(super) right: f64,
}

/// Scales `x` into units and jobs; returns the least rate over `b`.
pub(super) fn attain(problem: &Sharing<'_>, groups: &[Group], ways: &[Way], x: &mut [f64], b: &[f64]) -> f64 {
    let mut units = vec![0.0; problem.capacity.len()];
    for (way, x) in ways.iter().zip(x.iter()) {
        units[way.resource] += x * need(groups, way);
    }
    let fit = |used: f64, limit: f64| if used > limit { limit / used } else { 1.0 };
    let mut jobs = vec![0.0; groups.len()];
    for (way, x) in ways.iter().zip(x.iter_mut()) {
        *x *= fit(units[way.resource], problem.capacity[way.resource]);
        each(way, |g, _| jobs[g] += *x);
    }
    let mut served = vec![0.0; groups.len()];
    for (way, x) in ways.iter().zip(x.iter_mut()) {
        let mut least = 1.0;
        each(way, |g, _| least = f64::min(least, fit(jobs[g], groups[g].jobs)));
        *x *= least;
        each(way, |g, rate| served[g] += rate * *x);
    }
    served.iter().zip(b).map(|(served, b)| served / b).fold(f64::INFINITY, f64::min)
}

/// What every group gets done.
pub(super) fn served(groups: &[Group], ways: &[Way], x: &[f64]) -> Vec<f64> {
    let mut served = vec![0.0; groups.len()];
    for (way, x) in ways.iter().zip(x) {
        each(way, |g, rate| served[g] += rate * x);
    }
    served
}

/// Calls for both sides of a column.
fn each(way: &Way, mut call: impl FnMut(usize, f64)) {
    call(way.first, way.rates.0);
    if let Some(second) = way.second {
        call(second, way.rates.1);
    }
}

fn need(groups: &[Group], way: &Way) -> f64 {
    if way.second.is_none() { groups[way.first].need } else { 1.0 }
}

/// Raises prices until no column of the problem is wanted, and computes `R`.
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
        // What there is nothing of costs nothing, however it is priced.
        p[j] += more[j];
        *right += problem.capacity[j] * p[j];
    }
}
