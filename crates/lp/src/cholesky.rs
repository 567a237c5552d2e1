//! A symmetric system of any size, scaled to a unit diagonal: prices may lie many decades apart.

/// A pivot below this has nothing but rounding in it.
const LEAST_PIVOT: f64 = 1e-15;

/// `N = D L Lᵀ D`.
pub(crate) struct Cholesky {
    size: usize,
    l: Vec<f64>,
    d: Vec<f64>,
}

impl Cholesky {
    /// Factors the lower half of `n`, row by row; nothing if it is not a number. Directions without curvature are left alone.
    pub(crate) fn new(size: usize, n: &[f64]) -> Option<Self> {
        let d: Vec<f64> = (0..size).map(|j| n[j * size + j].sqrt()).collect();
        if !d.iter().all(|d| *d > 0.0 && d.is_finite()) {
            return None;
        }
        let mut l = vec![0.0; size * size];
        for j in 0..size {
            for i in 0..=j {
                let (done, rest) = l.split_at_mut(j * size);
                let row_i = if i == j { &rest[..i] } else { &done[i * size..][..i] };
                let sum: f64 = n[j * size + i] / (d[j] * d[i]) - inner(&rest[..i], row_i);
                rest[i] = match i == j {
                    false => sum / done[i * size + i],
                    true if sum > LEAST_PIVOT => sum.sqrt(),
                    true => f64::INFINITY,
                };
            }
        }
        Some(Self { size, l, d })
    }

    /// `N⁻¹ a`
    pub(crate) fn solve(&self, mut a: Vec<f64>) -> Vec<f64> {
        let Self { size, l, d } = self;
        for j in 0..*size {
            let before: f64 = l[j * size..][..j].iter().zip(&a).map(|(l, a)| l * a).sum();
            a[j] = (a[j] / d[j] - before) / l[j * size + j];
        }
        for j in (0..*size).rev() {
            let after: f64 = (j + 1..*size).map(|i| l[i * size + j] * a[i]).sum();
            a[j] = (a[j] - after) / l[j * size + j];
        }
        a.iter_mut().zip(d).for_each(|(a, d)| *a /= d);
        a
    }
}

impl Cholesky {
    /// `N⁻¹`, row by row: for small systems that are multiplied by often.
    pub(crate) fn inverse(&self) -> Vec<f64> {
        let Self { size, l, d } = self;
        let n = *size;
        // L⁻¹ by rows, each of which follows from those above it.
        let mut below = vec![0.0; n * n];
        for i in 0..n {
            let (done, rest) = below.split_at_mut(i * n);
            let pivot = l[i * n + i];
            for (factor, row) in l[i * n..][..i].iter().zip(done.chunks_exact(n)) {
                rest[..i].iter_mut().zip(row).for_each(|(to, x)| *to -= factor * x);
            }
            rest[..i].iter_mut().for_each(|x| *x /= pivot);
            rest[i] = 1.0 / pivot;
        }
        let mut inverse = vec![0.0; n * n];
        for (k, row) in below.chunks_exact(n).enumerate() {
            for (to, x) in inverse.chunks_exact_mut(n).zip(&row[..=k]) {
                to[..=k].iter_mut().zip(row).for_each(|(to, y)| *to += x * y);
            }
        }
        for (row, di) in inverse.chunks_exact_mut(n).zip(d) {
            row.iter_mut().zip(d).for_each(|(x, dj)| *x /= di * dj);
        }
        inverse
    }
}

/// Products that are summed side by side.
const LANES: usize = 8;

/// `a·b`; long ones in lanes, which a processor adds up at once.
fn inner(a: &[f64], b: &[f64]) -> f64 {
    let plain = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    if a.len() < 8 * LANES {
        return plain(a, b);
    }
    let mut lanes = [0.0; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = plain(a.remainder(), b.remainder());
    for (a, b) in a.zip(b) {
        (0..LANES).for_each(|lane| lanes[lane] += a[lane] * b[lane]);
    }
    rest + lanes.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_is_what_solving_for_units_gives() {
        let rows = [[4.0, 1.0, -2.0], [1.0, 900.0, 3.0], [-2.0, 3.0, 7.0]];
        let factors = Cholesky::new(3, rows.as_flattened()).expect("positive definite");
        let inverse = factors.inverse();
        for (j, row) in inverse.chunks_exact(3).enumerate() {
            let unit = (0..3).map(|i| f64::from(u8::from(i == j))).collect();
            let solved = factors.solve(unit);
            assert!(row.iter().zip(&solved).all(|(a, b)| (a - b).abs() < 1e-12), "{row:?} {solved:?}");
        }
    }
}
