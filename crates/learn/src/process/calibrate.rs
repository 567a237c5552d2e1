//! What standard errors must be multiplied by so that 90 % intervals hold 90 %.
//!
//! What a process would have said of a block B of its measurements, had it not seen them, follows from the inverse of its covariance without another
//! factor: with P = (K⁻¹)_BB the errors are P⁻¹α_B and their covariance is P⁻¹. What it would have said after a few of the block were
//! seen follows from these two. So every workload, and every family, is hidden in turn at little cost.

use super::gaussian::Inverse;

/// A 90 % interval is so many standard errors wide, to either side.
const NINETY: f64 = 1.645;
/// Fewer errors say little about a tail.
const LEAST: usize = 20;

/// Errors of a hidden block, measured less predicted, and their covariance.
pub(super) struct Hidden {
    n: usize,
    errors: Vec<f64>,
    covariance: Vec<f64>,
}

impl Hidden {
    pub(super) fn new(whole: &Inverse, block: &[usize]) -> Self {
        let n = block.len();
        let mut precision = vec![0.0; n * n];
        for (i, &a) in block.iter().enumerate() {
            for (j, &b) in block.iter().enumerate() {
                precision[i * n + j] = whole.all[a * whole.n + b];
            }
        }
        let alpha: Vec<f64> = block.iter().map(|&a| whole.alpha[a]).collect();
        let inverse = Inverse::new(precision, &alpha);
        Self { n, errors: inverse.alpha, covariance: inverse.all }
    }

    /// (error, standard error) of some of the block, by place in it, once others of it were seen.
    pub(super) fn given(&self, seen: &[usize], asked: impl Iterator<Item = usize>) -> Vec<(f64, f64)> {
        let m = seen.len();
        let at = |i: usize, j: usize| self.covariance[i * self.n + j];
        let mut inner = vec![0.0; m * m];
        for (i, &a) in seen.iter().enumerate() {
            for (j, &b) in seen.iter().enumerate() {
                inner[i * m + j] = at(a, b);
            }
        }
        let errors: Vec<f64> = seen.iter().map(|&a| self.errors[a]).collect();
        let inner = Inverse::new(inner, &errors);
        let one = |u: usize| {
            let across: Vec<f64> = seen.iter().map(|&a| at(u, a)).collect();
            let moved: f64 = across.iter().zip(&inner.alpha).map(|(c, a)| c * a).sum();
            let row = |i: usize| across.iter().enumerate().map(|(j, c)| inner.all[i * m + j] * c).sum::<f64>();
            let explained: f64 = across.iter().enumerate().map(|(i, c)| c * row(i)).sum();
            (self.errors[u] - moved, (at(u, u) - explained).max(1e-9).sqrt())
        };
        asked.map(one).collect()
    }
}

/// The factor for errors told with these standard errors: the quantile of `level`, shrunk towards 1 where there are few.
pub(super) fn factor(told: &[(f64, f64)], level: f64) -> f64 {
    if told.len() < LEAST {
        return 1.0;
    }
    let mut ratios: Vec<f64> = told.iter().map(|(error, sd)| error.abs() / (NINETY * sd)).collect();
    ratios.sort_by(f64::total_cmp);
    let quantile = ratios[((ratios.len() as f64 * level) as usize).min(ratios.len() - 1)];
    let weight = told.len() as f64 / (told.len() as f64 + LEAST as f64);
    (weight * quantile.max(1e-3).ln()).exp().clamp(0.5, 3.0)
}

/// By how much wider an interval for a stranger must be where so many families were hidden: each family is one fact, however many cells it has. The 95 % quantile of Student's t,
/// one degree of freedom for each family but the first, over that of the normal distribution.
pub(super) fn few(families: usize) -> f64 {
    let nu = families.saturating_sub(1).max(2) as f64;
    1.0 + (1.524 / nu + 1.42 / (nu * nu)) / NINETY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_families_widen_as_students_t_does() {
        for (families, t) in [(4, 2.353), (6, 2.015), (11, 1.812), (31, 1.697)] {
            assert!((few(families) * NINETY / t - 1.0).abs() < 0.02, "{families}: {}", few(families) * NINETY);
        }
        assert!(few(0) >= few(3) && few(10_000) < 1.001);
    }
}
