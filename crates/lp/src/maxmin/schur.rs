//! The small system that is left when every user has been eliminated: the resources' price steps `dp` and the
//! new level `t`.
//!
//! ```text
//!   N dp − h t  = a            N symmetric positive definite, h a vector, H > 0
//! hᵀ dp + H t  = b
//! ```
//!
//! Eliminating `t = (b − h·dp)/H` leaves `(N + h hᵀ/H) dp = a + h b/H`, again positive definite, and `L D Lᵀ`
//! needs no pivoting. A pivot that rounding has eaten is replaced by an enormous one: that price stands still for
//! this iteration.

/// The system, factored.
pub(super) struct Schur<const K: usize> {
    /// Below the diagonal `L`, on it `1/D`.
    factor: [[f64; K]; K],
    h: [f64; K],
    inverse_hh: f64,
}

impl<const K: usize> Schur<K> {
    /// Factors the system. Only the lower half of `normal` is read.
    #[inline(always)]
    pub(super) fn new(mut normal: [[f64; K]; K], h: [f64; K], hh: f64) -> Self {
        let inverse_hh = 1.0 / hh;
        for j in 0..K {
            for i in 0..=j {
                normal[j][i] += h[j] * h[i] * inverse_hh;
            }
        }
        for j in 0..K {
            let diagonal = normal[j][j];
            let mut pivot = diagonal;
            for i in 0..j {
                // So far normal[j][i] holds L·D of this row; divide by D now that it is needed twice.
                let scaled = normal[j][i] * normal[i][i];
                pivot -= scaled * normal[j][i];
                for row in j + 1..K {
                    normal[row][j] -= normal[row][i] * scaled;
                }
                normal[j][i] = scaled;
            }
            normal[j][j] = if pivot > 1e-30 * diagonal { 1.0 / pivot } else { 0.0 };
        }
        Self { factor: normal, h, inverse_hh }
    }

    /// `(dp, t)` for the right-hand sides `a`, `b`.
    #[inline(always)]
    pub(super) fn solve(&self, mut a: [f64; K], b: f64) -> ([f64; K], f64) {
        let lift = b * self.inverse_hh;
        for j in 0..K {
            a[j] += self.h[j] * lift;
            for i in 0..j {
                a[j] -= self.factor[j][i] * a[i];
            }
        }
        for j in (0..K).rev() {
            a[j] *= self.factor[j][j];
            for row in j + 1..K {
                a[j] -= self.factor[row][j] * a[row];
            }
        }
        let along: f64 = (0..K).map(|j| self.h[j] * a[j]).sum();
        (a, lift - along * self.inverse_hh)
    }
}

#[cfg(test)]
mod tests {
    use super::Schur;

    #[test]
    fn solves_what_it_factored() {
        let normal = [[4.0, 0.0, 0.0], [1.0, 5.0, 0.0], [-2.0, 0.5, 6.0]];
        let (h, hh) = ([0.3, -0.7, 1.1], 2.0);
        let (a, b) = ([1.0, -2.0, 0.5], 0.25);
        let (dp, t) = Schur::new(normal, h, hh).solve(a, b);
        for j in 0..3 {
            let row: f64 = (0..3).map(|i| normal[j.max(i)][j.min(i)] * dp[i]).sum();
            assert!((row - h[j] * t - a[j]).abs() < 1e-14);
        }
        let last: f64 = (0..3).map(|i| h[i] * dp[i]).sum();
        assert!((last + hh * t - b).abs() < 1e-14);
    }
}
