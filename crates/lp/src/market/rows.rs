//! The inner loop of every pass over a large program: what is a user's best resource, and which others come near?

use super::forest::{MOST, Mask};

/// For every row of `k` rates calls `f` with `best = max_j w_j / p_j` and the set of resources with at least
/// `near · best`. `inverse` is 1/p.
#[inline(always)]
pub(super) fn each_best<'a>(
    k: usize,
    rows: impl Iterator<Item = &'a [f64]>,
    inverse: &[f64; MOST],
    near: f64,
    f: impl FnMut(f64, Mask),
) {
    // The usual widths get code of their own, which the compiler unrolls and vectorises.
    match k {
        2 => unrolled::<2>(rows, inverse, near, f),
        3 => unrolled::<3>(rows, inverse, near, f),
        4 => unrolled::<4>(rows, inverse, near, f),
        5 => unrolled::<5>(rows, inverse, near, f),
        6 => unrolled::<6>(rows, inverse, near, f),
        8 => unrolled::<8>(rows, inverse, near, f),
        10 => unrolled::<10>(rows, inverse, near, f),
        12 => unrolled::<12>(rows, inverse, near, f),
        _ => looped(rows, inverse, near, f),
    }
}

fn unrolled<'a, const K: usize>(
    rows: impl Iterator<Item = &'a [f64]>,
    inverse: &[f64; MOST],
    near: f64,
    mut f: impl FnMut(f64, Mask),
) {
    let inverse: [f64; K] = std::array::from_fn(|j| inverse[j]);
    for row in rows.filter_map(<[f64]>::first_chunk::<K>) {
        let worth: [f64; K] = std::array::from_fn(|j| row[j] * inverse[j]);
        // Two maxima side by side, as the registers are.
        let mut best = [0.0; 2];
        for j in 0..K {
            best[j % 2] = if worth[j] > best[j % 2] { worth[j] } else { best[j % 2] };
        }
        let best = if best[0] > best[1] { best[0] } else { best[1] };
        let threshold = near * best;
        let mut close: Mask = 0;
        for j in 0..K {
            close |= Mask::from(worth[j] >= threshold) << j;
        }
        f(best, close);
    }
}

fn looped<'a>(rows: impl Iterator<Item = &'a [f64]>, inverse: &[f64; MOST], near: f64, mut f: impl FnMut(f64, Mask)) {
    for row in rows {
        let mut best = 0.0;
        for (w, inverse) in row.iter().zip(inverse) {
            best = if w * inverse > best { w * inverse } else { best };
        }
        let mut close: Mask = 0;
        for (j, (w, inverse)) in row.iter().zip(inverse).enumerate() {
            close |= Mask::from(w * inverse >= near * best) << j;
        }
        f(best, close);
    }
}
