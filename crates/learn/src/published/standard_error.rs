//! Standard errors of P1 and P2, from their out-of-fold errors.
//!
//! A standard error is the ninth decile of the absolute errors over 1.645, so that ±1.645 standard errors cover nine in ten errors whatever
//! the shape of their distribution. There is one value for each kind, for whether the workload's family is known, and for whether a pair of the
//! workload was measured on that kind. A group with few errors gets 1.5 times the value of all; a kind that was never measured, twice
//! that value.

use super::initial::HeldOutCase;
use super::refinement::RefinedError;

/// Fewer errors than this say nothing of their own.
const FEW: usize = 20;
/// A ninth decile over this is a standard error.
const NORMAL_90: f64 = 1.645;
/// Where nothing was ever compared.
const UNKNOWN: f64 = 0.6;

/// Standard errors by [seen][kin][kind].
pub(super) struct StandardErrors([[Vec<f64>; 2]; 2]);

impl StandardErrors {
    pub(super) fn new(kinds: usize, held_out: &[HeldOutCase], after: &[RefinedError]) -> Self {
        let before = held_out
            .iter()
            .flat_map(|p| [0, 1].map(|o| RefinedError { kin: p.kin, kind: p.case.a, off: p.truth[o] - p.believed[o] }));
        let before: Vec<RefinedError> = before.filter(|b| b.off.is_finite()).collect();
        Self([&before[..], after].map(|errors| [false, true].map(|kin| by_kind(kinds, errors, kin))))
    }

    /// Of a prediction on a kind: by whether a pair was measured there, and whether its own family is known.
    pub(super) fn of(&self, seen: bool, kin: bool, kind: usize) -> f64 {
        self.0[usize::from(seen)][usize::from(kin)].get(kind).copied().unwrap_or(UNKNOWN)
    }
}

fn by_kind(kinds: usize, errors: &[RefinedError], kin: bool) -> Vec<f64> {
    let of = |kind: Option<usize>, kin: Option<bool>| {
        let same = |e: &&RefinedError| kind.is_none_or(|k| k == e.kind) && kin.is_none_or(|k| k == e.kin);
        ninth_decile(errors.iter().filter(same).map(|e| e.off.abs()).collect())
    };
    let all = of(None, Some(kin)).or_else(|| of(None, None).map(|d| 1.5 * d)).unwrap_or(UNKNOWN);
    let measured = |kind: usize| errors.iter().any(|e| e.kind == kind);
    (0..kinds).map(|k| of(Some(k), Some(kin)).unwrap_or(all * if measured(k) { 1.5 } else { 2.0 })).collect()
}

fn ninth_decile(mut errors: Vec<f64>) -> Option<f64> {
    if errors.len() < FEW {
        return None;
    }
    errors.sort_by(f64::total_cmp);
    Some(errors[errors.len() * 9 / 10] / NORMAL_90)
}
