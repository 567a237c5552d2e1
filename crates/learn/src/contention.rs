//! What two jobs on one GPU leave each other, by the counters of a run alone.
//!
//! **Who waits for whom.** A job uses the GPU for the part a of its time alone (its utilisation) and is elsewhere for the rest. Beside a job with the part b, with x and y the
//! rates of the two over their rates alone, the other one is on the GPU for the part 1 − y(1 − b) of the time. A job that comes to the GPU while the other is there is slowed
//! by κ for as long as both stay:
//!
//! ```text
//! 1/x = 1 + κ·a·(1 − y(1 − b)),      1/y = 1 + κ·b·(1 − x(1 − a))
//! ```
//!
//! a fixed point, found by turns. Two jobs that fill the GPU leave each other 1/(1 + κ); one that seldom needs it takes and loses little. κ would be 1 if a kernel filled the
//! GPU; "utilisation" counts the time in which any kernel ran, so it is less ([`OVERLAP`]). Where both want more of the memory than there is, c + d > 1, both are slower by
//! that factor besides.
//!
//! **How much of the GPU a kernel fills** is seen in what it draws. Where that was measured alone, let p and q be the draws of the two above idle, over the most that the GPU
//! draws above idle, at most a and b. Small kernels run beside large ones, so what one meets of the other is q, not b, and κ is 1:
//!
//! ```text
//! 1/x = 1 + a·q,      1/y = 1 + b·p
//! ```
//!
//! A program of small kernels that keeps the GPU "busy" for 61 % of the time at a quarter of its power slows large ones by a tenth, where its utilisation says a third.
//!
//! **The scale on which it is learned.** z = ln (1/r − 1 + ε), r being what is left and 1/r − 1 by how much a step takes longer. With 1/r − 1 = sensitivity of the one ×
//! pressure of the other, z is a *sum* of the two, and κ is an additive constant of it: a process over z learns all three as means, which it cannot do over ln r (what takes all
//! leaves everybody alike little, what takes little leaves all alike: neither is a factor of r). No z says more than r = 1. ε keeps the logarithm from making much of a few per cent
//! about r = 1; a measurement error τ of ln r is one of τ·(1/r)/(1/r − 1 + ε) in z.
//!
//! **Which scale.** On Gavel's table, without counters, ln r is the better one (12.8 against 15.1 % of pairs of new workloads, 23.9 against 25.4 of new families). [`Scale`] is
//! either; z is taken where most of those that were measured in pairs were seen at work. Asking pairs that are hidden in turn which scale tells them better chose wrong on both tables.
//!
//! On an H200, of twelve workloads each left out once, a process over z with this prior errs by 16 % in the median where one over ln r errs by 20, and without
//! any pair measured it errs by 21 % where 0.6 for all errs by 39; these are by utilisation alone. κ and ε were set with them in sight, and that draw tells more was seen on the same table.

use crate::evidence::Evidence;
use crate::traits::COUNTERS;

/// κ.
const OVERLAP: f64 = 0.7;
/// What an idle GPU draws, as a part of the most that it may, where only a part of the latter is known.
const IDLE: f64 = 0.15;
/// ε.
const SMALL: f64 = 0.1;
/// Turns of the fixed point: it halves its distance or better with each.
const TURNS: usize = 24;
/// Least of what is left.
const LEAST: f64 = 0.01;

/// What is left of a job that uses the GPU for the part `a` of its time beside one that uses it for `b`, `memory` being what both want of the memory.
fn left(a: f64, b: f64, memory: f64) -> f64 {
    let (mut x, mut y) = (1.0, 1.0);
    for _ in 0..TURNS {
        x = 1.0 / (1.0 + OVERLAP * a * (1.0 - y * (1.0 - b)));
        y = 1.0 / (1.0 + OVERLAP * b * (1.0 - x * (1.0 - a)));
    }
    (x / memory.max(1.0)).clamp(LEAST, 1.0)
}

/// What is left of a job that uses the GPU for the part `a` of its time beside one that fills the part `q` of it.
fn left_by_draw(a: f64, q: f64, memory: f64) -> f64 {
    (1.0 / (1.0 + a * q) / memory.max(1.0)).clamp(LEAST, 1.0)
}

/// The part of a GPU that a workload fills, by what it drew alone: of the kinds on which that was measured, the mean.
fn filled(evidence: &Evidence, workload: usize) -> Option<f64> {
    let kinds = evidence.kinds().iter().enumerate().filter(|(_, kind)| kind.power_limit.is_none());
    let parts = kinds
        .map(|(a, kind)| (evidence.alone_watts(workload, a) - kind.idle_watts) / (kind.max_watts - kind.idle_watts));
    let (sum, n) = parts.filter(|part| part.is_finite()).fold((0.0, 0.0), |(sum, n), part| (sum + part, n + 1.0));
    let stated = || Some((evidence.workloads()[workload].power_ratio? - IDLE) / (1.0 - IDLE));
    let part = if n > 0.0 { Some(sum / n) } else { stated() };
    part.map(|part| part.clamp(0.0, 1.0))
}

/// ln of what `other` leaves of `workload` by the counters of both; `None` where one of them was never seen at work.
pub(crate) fn beside(evidence: &Evidence, workload: usize, other: usize) -> Option<f64> {
    let of = |t: usize, counter: usize| {
        let part = evidence.workloads()[t].point[COUNTERS + counter] / 3.0 + 0.5;
        (!part.is_nan()).then(|| part.clamp(0.0, 1.0))
    };
    let memory = of(workload, 1).unwrap_or(0.0) + of(other, 1).unwrap_or(0.0);
    let (a, b) = (of(workload, 0)?, of(other, 0)?);
    let left = match filled(evidence, other) {
        Some(q) => left_by_draw(a, q.min(b), memory),
        None => left(a, b, memory),
    };
    Some(left.ln())
}

/// What is learned about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// z.
    Slowdown,
    /// ln r.
    Left,
}

impl Scale {
    /// On this scale, given ln r.
    pub(crate) fn of(self, ln: f64) -> f64 {
        match self {
            Scale::Slowdown => ((-ln.min(0.0)).exp() - 1.0 + SMALL).ln(),
            Scale::Left => ln.min(0.0),
        }
    }

    /// ln r, given what it is on this scale.
    pub(crate) fn ln(self, at: f64) -> f64 {
        match self {
            Scale::Slowdown => -(at.min(30.0).exp() - SMALL).max(0.0).ln_1p(),
            Scale::Left => at,
        }
    }

    /// Standard error on this scale where that of ln r is `error`.
    pub(crate) fn error_of(self, ln: f64, error: f64) -> f64 {
        let longer = (-ln.min(0.0)).exp();
        match self {
            Scale::Slowdown => error * longer / (longer - 1.0 + SMALL),
            Scale::Left => error,
        }
    }

    /// Standard error of ln r where it is `error` on this scale: the farther end of the 90 % interval, as if both were as far.
    pub(crate) fn error_of_ln(self, at: f64, error: f64) -> f64 {
        let (here, step) = (self.ln(at), NINETY * error);
        (self.ln(at + step) - here).abs().max((self.ln(at - step) - here).abs()) / NINETY
    }
}

/// A 90 % interval is so many standard errors wide, to either side.
const NINETY: f64 = 1.645;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_that_fill_the_gpu_share_it_and_one_that_seldom_needs_it_takes_little() {
        assert!((left(1.0, 1.0, 0.5) - 1.0 / (1.0 + OVERLAP)).abs() < 1e-9);
        assert!(left(1.0, 0.1, 0.5) > 0.85 && left(0.1, 1.0, 0.5) > 0.9);
        assert!(left(1.0, 1.0, 1.4) < 0.75 * left(1.0, 1.0, 0.9));
        assert_eq!(left(0.0, 1.0, 0.0), 1.0);
    }

    proptest! {
        #[test]
        fn more_that_a_partner_fills_never_leaves_more(a in 0.0..1.0f64, q in 0.0..1.0f64, more in 0.0..1.0f64, m in 0.0..2.0f64) {
            prop_assert!(left_by_draw(a, q.max(more), m) <= left_by_draw(a, q, m));
            prop_assert!(left_by_draw(a, q, m + more) <= left_by_draw(a, q, m));
            prop_assert!((LEAST..=1.0).contains(&left_by_draw(a, q, m)));
            // Whoever never uses the GPU loses nothing, and two that fill it have half each.
            prop_assert_eq!(left_by_draw(0.0, q, 1.0), 1.0);
            prop_assert_eq!(left_by_draw(1.0, 1.0, 1.0), 0.5);
        }

        #[test]
        fn more_of_a_partner_never_leaves_more(a in 0.0..1.0f64, b in 0.0..1.0f64, more in 0.0..1.0f64, m in 0.0..2.0f64) {
            let (less, most) = (left(a, b.min(more), m), left(a, b.max(more), m));
            prop_assert!(most <= less + 1e-9 && (LEAST..=1.0).contains(&less));
            prop_assert!(left(a, b, m + more) <= left(a, b, m));
        }

        #[test]
        fn scales_turn_back_and_are_always_finite(ln in -4.0..0.0f64, z in -60.0..60.0f64, error in 0.0..5.0f64) {
            for scale in [Scale::Slowdown, Scale::Left] {
                prop_assert!((scale.ln(scale.of(ln)) - ln).abs() < 1e-9);
                let told = scale.error_of_ln(z, error);
                prop_assert!(told.is_finite() && told >= 0.0 && told <= scale.error_of_ln(z, error + 0.1) + 1e-12);
                prop_assert!(scale.error_of(ln, error).is_finite());
            }
            let told = Scale::Slowdown.ln(z);
            prop_assert!(told.is_finite() && told <= 0.0 && Scale::Slowdown.ln(z + error) <= told);
        }
    }
}
