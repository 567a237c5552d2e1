//! Fewer points that draw the same picture.
//!
//! A curve of 100,000 points on a plot 600 pixels wide wastes bytes, but leaving out every n-th point loses exactly what a
//! reader looks for: the peaks. [`thin`] keeps, of every pixel column, the first, lowest, highest and last point, so the
//! drawn stroke covers the same pixels. [`buckets`] summarises a step function where its mean is what matters.

/// The points that matter when the x axis is cut into columns of `width`: at most four of each column, in order. The
/// points must be in order of x. Keeps the ends and the extremes of the whole.
pub(super) fn thin(points: &[(f64, f64)], width: f64) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    let mut from = 0;
    while from < points.len() {
        let column = (points[from].0 / width).floor();
        let length = points[from..].iter().take_while(|p| (p.0 / width).floor() == column).count().max(1);
        kept.extend(landmarks(&points[from..from + length]));
        from += length;
    }
    kept
}

/// First, lowest, highest and last of a non-empty column, each once, in order.
fn landmarks(column: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let by_height = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1).then(b.cmp(a));
    let lowest = (0..column.len()).min_by(by_height).unwrap_or(0);
    let highest = (0..column.len()).max_by(by_height).unwrap_or(0);
    let mut marks = vec![0, lowest, highest, column.len() - 1];
    marks.sort_unstable();
    marks.dedup();
    marks.into_iter().map(|i| column[i])
}

/// A stretch of time with what a step function did in it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bucket {
    /// Start of the bucket.
    pub(super) from: f64,
    /// Mean, weighted by time.
    pub(super) mean: f64,
    /// Lowest value.
    pub(super) low: f64,
    /// Highest value.
    pub(super) high: f64,
}

/// The step function through `points` (each value holds until the next point's time; the last until `end`), in at most
/// `number` equal stretches between 0 and `end`. Stretches before the first point are left out.
pub(super) fn buckets(points: &[(f64, f64)], end: f64, number: usize) -> Vec<Bucket> {
    let width = end / number as f64;
    if points.is_empty() || !width.is_finite() || width <= 0.0 {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(number);
    let mut next = 0_usize;
    for b in 0..number {
        let (from, until) = (b as f64 * width, (b + 1) as f64 * width);
        // The value that still holds when the bucket begins.
        let mut clock = from;
        let mut held = next.checked_sub(1).map(|i| points[i].1);
        let (mut area, mut time, mut low, mut high) = (0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY);
        let mut hold = |value: Option<f64>, seconds: f64| {
            if let Some(value) = value.filter(|_| seconds > 0.0) {
                area += value * seconds;
                time += seconds;
                low = value.min(low);
                high = value.max(high);
            }
        };
        while next < points.len() && points[next].0 < until {
            hold(held, points[next].0 - clock);
            clock = points[next].0.max(clock);
            held = Some(points[next].1);
            next += 1;
        }
        hold(held, until - clock);
        if time > 0.0 {
            out.push(Bucket { from, mean: area / time, low, high });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walk() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((0.0..3.0f64, -50.0..50.0f64), 1..400).prop_map(|steps| {
            let mut x = 0.0;
            let advance = |(dx, y): (f64, f64)| {
                x += dx;
                (x, y)
            };
            steps.into_iter().map(advance).collect()
        })
    }

    fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
    }

    proptest! {
        #[test]
        fn thinning_keeps_ends_and_extremes(points in walk(), width in 0.1..80.0f64) {
            let kept = thin(&points, width);
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
            prop_assert_eq!(extremes(kept.iter().map(|p| p.1)), extremes(points.iter().map(|p| p.1)));
            prop_assert!(kept.windows(2).all(|w| w[0].0 <= w[1].0), "out of order");
            let columns = (points[points.len() - 1].0 / width).floor() as usize + 1;
            prop_assert!(kept.len() <= 4 * columns);
        }

        #[test]
        fn buckets_keep_area_and_extremes(points in walk(), number in 1..50usize) {
            let end = points[points.len() - 1].0 + 1.0;
            let kept = buckets(&points, end, number);
            prop_assert!(kept.iter().all(|b| b.low <= b.mean + 1e-9 && b.mean <= b.high + 1e-9));
            // Values that hold for no time are no part of a step function.
            let until = points.iter().skip(1).map(|p| p.0).chain([end]);
            let held: Vec<_> = points.iter().zip(until).filter(|(p, until)| *until - p.0 > 1e-9).collect();
            let (low, high) = extremes(held.iter().map(|(p, _)| p.1));
            let (kept_low, kept_high) = (extremes(kept.iter().map(|b| b.low)).0, extremes(kept.iter().map(|b| b.high)).1);
            prop_assert!(kept_low <= low && kept_high >= high);
            let width = end / number as f64;
            let area: f64 = held.iter().map(|(p, until)| p.1 * (until - p.0)).sum();
            // The first bucket may begin before the first point, where nothing is known.
            let first = &kept[0];
            let known = (first.from + width - points[0].0).min(width);
            let bucketed: f64 = kept.iter().skip(1).map(|b| b.mean * width).sum::<f64>() + first.mean * known;
            prop_assert!((area - bucketed).abs() <= 1e-6 * (1.0 + area.abs() + 50.0 * end));
        }
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert!(thin(&[], 1.0).is_empty());
        assert!(buckets(&[], 10.0, 4).is_empty());
        assert!(buckets(&[(0.0, 1.0)], 0.0, 4).is_empty());
        assert!(buckets(&[(0.0, 1.0)], f64::NAN, 4).is_empty());
    }
}
