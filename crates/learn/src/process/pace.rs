//! How a workload does beside what was expected of it, as something that is known of it like its features.
//!
//! Whoever is faster than expected on one kind does more arithmetic a second there, or waits less, and gains otherwise from the next kind. A process over levels and
//! profiles cannot say so: to it, what a level is says nothing of a profile. So a pace is a coordinate of profiles, once a workload was measured.
//!
//! ```text
//! pace = mean over kinds of (δ − mean δ of the kind),  over its spread among workloads
//! ```
//!
//! One kind's δ is that and the kind's own doing. By how much workloads that were measured on several kinds differ from one to the next is the *doubt* of a pace that one kind
//! has shown; it is large where kinds change workloads as much as workloads differ (0.6 on Gavel's table, and there a pace would do harm: 19 instead of 12 % after four observations),
//! small elsewhere (0.02 on timm, 0.15 of served language models).
//!
//! A pace stays what it was when a workload was first measured: if it moved with every further kind, measurements that were taken in would have to be taken in anew.

use crate::residual::moments;
use std::collections::BTreeMap;

/// ℓ² of paces.
const SQUARE: f64 = 1.0;
/// Least spread, lest all be alike.
const LEAST_SPREAD: f64 = 0.05;
/// With more doubt nothing is to be had from paces.
const MOST_DOUBT: f64 = 0.4;
/// Workloads that were measured on several kinds, from which on these say what pace does.
const LEAST_COMPARED: usize = 12;

/// How much faster a workload is than expected, in usual spreads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pace {
    spreads: f64,
    /// Its variance.
    doubt: f64,
}

impl Pace {
    /// Of whoever was never measured.
    pub(super) const UNKNOWN: Self = Self { spreads: 0.0, doubt: 1.0 };

    /// How alike two workloads are in it, averaged over what it may be.
    pub(super) fn alike(self, other: Self) -> f64 {
        let square = SQUARE + self.doubt + other.doubt;
        let gap = self.spreads - other.spreads;
        (-0.5 * gap * gap / square).exp() * f64::sqrt(SQUARE / square)
    }
}

/// Those of all workloads.
#[derive(Clone, Debug, Default)]
pub(super) struct Paces {
    /// By kind of the beginning: the mean δ there, if anything was measured.
    usual: Vec<Option<f64>>,
    spread: f64,
    /// Of a pace that one kind has shown.
    doubt: f64,
    /// Workloads that were measured on several kinds.
    compared: usize,
    known: BTreeMap<usize, Pace>,
}

impl Paces {
    /// Of a catalog: (kind, δ) by workload.
    pub(super) fn new(kinds: usize, measured: &BTreeMap<usize, Vec<(usize, f64)>>) -> Self {
        let on = |kind: usize| measured.values().flatten().filter(move |cell| cell.0 == kind).map(|cell| cell.1);
        let usual = (0..kinds).map(|kind| moments(on(kind)).map(|(mean, _)| mean)).collect();
        let mut paces = Self { usual, spread: 1.0, ..Self::default() };
        let (mut means, mut squares, mut more) = (Vec::new(), 0.0, 0.0);
        for cells in measured.values() {
            let Some((mean, sd)) = moments(paces.beyond_usual(cells)) else { continue };
            means.push(mean);
            if cells.len() > 1 {
                squares += sd * sd * cells.len() as f64;
                more += (cells.len() - 1) as f64;
                paces.compared += 1;
            }
        }
        paces.spread = moments(means.into_iter()).map_or(1.0, |(_, sd)| sd.max(LEAST_SPREAD));
        paces.doubt = if more > 0.0 { (squares / more / paces.spread.powi(2)).min(1.0) } else { 1.0 };
        measured.iter().for_each(|(&workload, cells)| paces.learn(workload, cells));
        paces
    }

    fn beyond_usual(&self, cells: &[(usize, f64)]) -> impl Iterator<Item = f64> {
        cells.iter().filter_map(|&(kind, delta)| Some(delta - (*self.usual.get(kind)?)?))
    }

    /// A workload was measured; what its first measurements say of its pace stays.
    pub(super) fn learn(&mut self, workload: usize, cells: &[(usize, f64)]) {
        if self.known.contains_key(&workload) || cells.is_empty() {
            return;
        }
        let kinds = self.beyond_usual(cells).count() as f64;
        let pace = moments(self.beyond_usual(cells))
            .map(|(mean, _)| Pace { spreads: mean / self.spread, doubt: self.doubt / kinds });
        self.known.insert(workload, pace.unwrap_or(Pace::UNKNOWN));
    }

    pub(super) fn of(&self, workload: usize) -> Pace {
        self.known.get(&workload).copied().unwrap_or(Pace::UNKNOWN)
    }

    /// Whether they say anything.
    pub(super) fn tell(&self) -> bool {
        self.doubt < MOST_DOUBT && self.compared >= LEAST_COMPARED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workloads far apart, and kinds that change each by so much.
    fn paces(changed: f64) -> Paces {
        let cells = |w: usize| {
            let of = w as f64 / 10.0;
            let up = if w.is_multiple_of(2) { changed } else { -changed };
            vec![(0, of + up), (1, of + 1.0 - up)]
        };
        Paces::new(3, &(0..20).map(|w| (w, cells(w))).collect())
    }

    #[test]
    fn they_tell_where_workloads_differ_more_than_kinds_change_them() {
        assert!(paces(0.05).tell());
        assert!(!paces(1.0).tell());
        let one_kind = (0..20).map(|w| (w, vec![(0, w as f64)])).collect();
        assert!(!Paces::new(1, &one_kind).tell(), "one kind says nothing of ratios");
    }

    #[test]
    fn a_pace_is_what_was_seen_first_whichever_kind_it_was() {
        let mut paces = paces(0.05);
        paces.learn(30, &[(0, 1.5)]);
        paces.learn(31, &[(1, 2.5)]);
        assert!((paces.of(30).spreads - paces.of(31).spreads).abs() < 0.2, "kinds have a usual rate of their own");
        let first = paces.of(30);
        paces.learn(30, &[(0, 1.5), (1, 9.0)]);
        assert_eq!(paces.of(30), first);
        paces.learn(32, &[(2, 1.0)]);
        assert_eq!(paces.of(32), Pace::UNKNOWN, "nobody knows what is usual on a kind that is new");
        assert!(first.alike(paces.of(31)) > first.alike(paces.of(19)));
        assert!(first.alike(Pace::UNKNOWN) < first.alike(first));
    }
}
