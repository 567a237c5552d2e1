//! A mean and how sure it is: Student's interval, mean ± t·s/√n at 95 %.

use serde::Serialize;

/// A mean and the half width of its 95 % interval; the latter is missing where there is one value.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct MeanInterval {
    /// Mean of all values.
    pub mean: f64,
    /// Half the width of the interval that holds the true mean with 95 %.
    pub half_width: Option<f64>,
}

impl MeanInterval {
    /// The mean of values; not a number where there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half_width = (values.len() > 1).then(|| student(values.len() - 1) * (squares / (n - 1.0) / n).sqrt());
        Self { mean, half_width }
    }
}

/// The 97.5 % quantile of Student's distribution; above 30 degrees of freedom by Cornish and Fisher's expansion.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    const Z: f64 = 1.959_964;
    let n = freedom as f64;
    let first = (Z.powi(3) + Z) / (4.0 * n);
    let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * n * n);
    TABLE.get(freedom - 1).copied().unwrap_or(Z + first + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let spread = MeanInterval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(spread.mean, 3.0);
        // s = √2.5, n = 5: 2.776 · √(2.5/5)
        assert!((spread.half_width.unwrap() - 2.776 * 0.5f64.sqrt()).abs() < 1e-12);
        assert!(MeanInterval::of(&[7.0]).half_width.is_none());
        assert!((student(31) - 2.0395).abs() < 1e-3 && (student(120) - 1.9799).abs() < 1e-3);
    }
}
