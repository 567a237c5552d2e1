//! The cluster over time.

use super::{View, window};
use crate::Refusal;
use crate::read::book::{Bucket, RESOLUTIONS};
use arles_api as api;
use arles_core::Time;

/// Points of an answer, unless the caller wants fewer or more.
const POINTS: u32 = 240;
/// Most points of an answer.
const MOST_POINTS: u32 = 2000;
/// Default length of the window.
const WINDOW_SECONDS: f64 = 6.0 * 3600.0;

impl View<'_> {
    /// Utilisation, queue, power, shares and fairness over a window, in at most about `points` points.
    ///
    /// # Errors
    /// When the window or the number of points is invalid.
    pub fn series(&self, from: Option<f64>, to: Option<f64>, points: Option<u32>) -> Result<api::Series, Refusal> {
        let points = points.unwrap_or(POINTS);
        if !(2..=MOST_POINTS).contains(&points) {
            return Err(Refusal::unprocessable(
                "points",
                format!("points is {points}"),
                format!("expected 2 to {MOST_POINTS}"),
            ));
        }
        let now = self.book(|book| book.now);
        let to = to.unwrap_or(now.seconds());
        let from = from.unwrap_or((to - WINDOW_SECONDS).max(0.0));
        let (from, to) = window(Some(from), Some(to))?;
        let seconds = to.since(from);
        // The finest resolution that still reaches back to the beginning and is not too fine.
        let reaches = |&&(length, keep): &&(u64, u64)| {
            now.since(from) <= keep as f64 && seconds / length as f64 <= f64::from(points)
        };
        let (length, _) = *RESOLUTIONS.iter().find(reaches).unwrap_or(&RESOLUTIONS[RESOLUTIONS.len() - 1]);
        let kept: Vec<(Time, Bucket)> = self.history(|store| store.points(length, from, to, MOST_POINTS as usize))?;
        let which = RESOLUTIONS.iter().position(|&(other, _)| other == length).unwrap_or(0);
        Ok(self.book(|book| {
            let open = &book.series.open[which];
            let last = kept.last().map(|(at, _)| *at);
            let fresh = open.seconds > 0.0 && open.from < to && last.is_none_or(|last| last < open.from);
            let buckets = kept.iter().map(|(_, bucket)| bucket).chain(fresh.then_some(open));
            let kinds = book.cluster().kinds();
            let tenants: Vec<(usize, String)> =
                self.visible_tenants(book).map(|(i, line)| (i, line.name.clone())).collect();
            let point = |bucket: &Bucket| {
                let mean = |sum: f64| sum / bucket.seconds;
                let by_kind =
                    |sums: &[f64]| (0..kinds.len()).map(|j| mean(sums.get(j).copied().unwrap_or(0.0))).collect();
                let of = |i: usize| bucket.tenants.get(&(i as u32)).copied().unwrap_or(0.0);
                let judged = |sum: f64| (bucket.judged > 0.0).then(|| sum / bucket.judged);
                api::SeriesPoint {
                    at: bucket.from.seconds(),
                    seconds: bucket.seconds,
                    busy: by_kind(&bucket.busy),
                    usable: by_kind(&bucket.usable),
                    watts: mean(bucket.watts),
                    waiting: mean(bucket.waiting),
                    running: mean(bucket.running),
                    tenants: tenants.iter().map(|(i, _)| mean(of(*i))).collect(),
                    worst_envy: judged(bucket.envy),
                    least_sharing: judged(bucket.sharing),
                }
            };
            api::Series {
                resolution_seconds: length as f64,
                kinds: kinds.iter().map(|kind| kind.name.clone()).collect(),
                points: buckets.filter(|bucket| bucket.seconds > 0.0).map(point).collect(),
                tenants: tenants.iter().map(|(_, name)| name.clone()).collect(),
            }
        }))
    }
}
