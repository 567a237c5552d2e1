//! A small symmetric system, scaled to a unit diagonal: prices may lie many decades apart.

use super::MOST_RESOURCES;
use super::interior::PerResource;

/// A pivot below this has nothing but rounding in it.
const LEAST_PIVOT: f64 = 1e-14;

/// `N = D L Lᵀ D`.
pub(super) struct Cholesky {
    k: usize,
    l: [PerResource; MOST_RESOURCES],
    d: PerResource,
}

impl Cholesky {
    /// Factors the lower half of `n`; nothing if it is not a number. Directions without curvature are left alone.
    pub(super) fn new(k: usize, n: [PerResource; MOST_RESOURCES]) -> Option<Self> {
        let mut d = [0.0; MOST_RESOURCES];
        for j in 0..k {
            d[j] = n[j][j].sqrt();
            // False for NaN as well.
            if !(d[j] > 0.0 && d[j].is_finite()) {
                return None;
            }
        }
        let mut l = [[0.0; MOST_RESOURCES]; MOST_RESOURCES];
        for j in 0..k {
            for i in 0..=j {
                let mut sum = n[j][i] / (d[j] * d[i]);
                for q in 0..i {
                    sum -= l[j][q] * l[i][q];
                }
                l[j][i] = match i == j {
                    false => sum / l[i][i],
                    true if sum > LEAST_PIVOT => sum.sqrt(),
                    true => f64::INFINITY,
                };
            }
        }
        Some(Self { k, l, d })
    }

    /// `N⁻¹ a`
    pub(super) fn solve(&self, mut a: PerResource) -> PerResource {
        let Self { k, l, d } = self;
        for j in 0..*k {
            a[j] /= d[j];
            for i in 0..j {
                a[j] -= l[j][i] * a[i];
            }
            a[j] /= l[j][j];
        }
        for j in (0..*k).rev() {
            for i in j + 1..*k {
                a[j] -= l[i][j] * a[i];
            }
            a[j] /= l[j][j];
        }
        (0..*k).for_each(|j| a[j] /= d[j]);
        a
    }
}
