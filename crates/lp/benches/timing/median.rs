//! Median times, and how they are printed.

use std::time::Instant;

/// The median time of one call, in seconds.
pub(crate) fn median(repetitions: usize, mut call: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..repetitions)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[repetitions / 2]
}

/// A time with its unit.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
