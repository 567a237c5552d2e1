//! The simplest refinement: the mean residual of a newcomer's measurements shifts all its other predictions.
//!
//! ```text
//! shift = Σ w_o·ρ_o / (1 + Σ w_o),     ρ_o = measured − predicted (logarithms),     w = 1 on the same kind, 0.3 on others
//! ```
//!
//! The *newcomer* of a pair is the workload with fewer measured pairs. It is predicted in one of two roles: its own rate
//! beside a partner, or the partner's rate beside it.

use crate::evidence::Evidence;

/// Weight of what was seen on another kind.
const ELSEWHERE: f64 = 0.3;
/// What a partner leaves where nothing at all is known.
pub(crate) const UNKNOWN_RELATIVE_RATE: f64 = 0.6;

/// Who is new in a pair, and whose rate is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The newcomer's own rate.
    Own,
    /// The partner's rate beside the newcomer.
    Partner,
}

impl Role {
    /// Index into arrays by role.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// (role, newcomer, the other one) of the question how fast `workload` is beside `other`.
pub(crate) fn roles(evidence: &Evidence, workload: usize, other: usize) -> (Role, usize, usize) {
    if evidence.measured_pairs(workload) <= evidence.measured_pairs(other) {
        (Role::Own, workload, other)
    } else {
        (Role::Partner, other, workload)
    }
}

/// ln of the relative rate in a role: the newcomer's beside `other`, or `other`'s beside the newcomer.
pub(crate) fn relative(evidence: &Evidence, role: Role, newcomer: usize, other: usize, kind: usize) -> f64 {
    match role {
        Role::Own => evidence.relative(newcomer, other, kind),
        Role::Partner => evidence.relative(other, newcomer, kind),
    }
}

/// What was measured of a newcomer in a role on a kind: (partner, ln of the relative rate), in order of partners.
pub(crate) fn of_newcomer(
    evidence: &Evidence,
    role: Role,
    newcomer: usize,
    kind: usize,
) -> impl Iterator<Item = (usize, f64)> + '_ {
    let row = match role {
        Role::Own => evidence.beside_row(newcomer, kind),
        Role::Partner => evidence.beside_column(newcomer, kind),
    };
    let measured = row.iter().map(move |(p, _)| (p, relative(evidence, role, newcomer, p, kind)));
    measured.filter(|(_, ln)| ln.is_finite())
}

/// What was measured beside `other` in a role on a kind: (newcomer, ln of the relative rate), in order of newcomers.
pub(crate) fn of_partner(
    evidence: &Evidence,
    role: Role,
    other: usize,
    kind: usize,
) -> impl Iterator<Item = (usize, f64)> + '_ {
    let row = match role {
        Role::Own => evidence.beside_column(other, kind),
        Role::Partner => evidence.beside_row(other, kind),
    };
    let measured = row.iter().map(move |(k, _)| (k, relative(evidence, role, k, other, kind)));
    measured.filter(|(_, ln)| ln.is_finite())
}

/// The shift of pairs of a newcomer in a role, and whether there was anything to shift by. `believed` is asked with
/// (partner, kind).
pub(crate) fn beside(
    evidence: &Evidence,
    role: Role,
    newcomer: usize,
    kind: usize,
    believed: impl Fn(usize, usize) -> f64,
) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 1.0);
    if evidence.measured_pairs(newcomer) == 0 {
        return None;
    }
    for a in 0..evidence.kinds().len() {
        let w = if a == kind { 1.0 } else { ELSEWHERE };
        for (p, measured) in of_newcomer(evidence, role, newcomer, a) {
            sum += w * (measured - believed(p, a));
            weights += w;
        }
    }
    (weights > 1.0).then(|| sum / weights)
}

/// The shift of a workload's rate alone: the mean residual of what was measured of it, all of it. `believed` is asked with a
/// kind.
pub(crate) fn alone(evidence: &Evidence, workload: usize, believed: impl Fn(usize) -> f64) -> Option<f64> {
    let residuals = (0..evidence.kinds().len()).map(|a| evidence.alone(workload, a) - believed(a));
    let (sum, count) = residuals.filter(|r| r.is_finite()).fold((0.0, 0), |(s, n), r| (s + r, n + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Mean and standard deviation, of what is finite.
pub(crate) fn moments(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in values.filter(|x| x.is_finite()) {
        n += 1.0;
        sum += x;
        squares += x * x;
    }
    (n > 0.0).then(|| (sum / n, (squares / n - (sum / n) * (sum / n)).max(0.0).sqrt()))
}
