//! The exact line search: how far do the prices of one side rise before it has no more demand than supply?
//!
//! The resources are parted into a side X, whose prices rise by a factor `s ≥ 1` against those of the other side Y.
//! A user on X leaves for Y when `s` passes its `ρ = (its best on Y) / (its best on X)`. In order of ρ, the demand
//! that stays falls and the demand that has gone grows, each by jumps; the search finds the user at whose departure
//! the balance turns. Quick-select instead of sorting makes it linear, and both sums are built by adding only, never
//! by taking away, so that a side may shrink by fifteen decades without losing a digit.

/// A user who may leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) rho: f64,
    /// Demand on X while it stays, and on Y when it has gone.
    pub(super) stay: f64,
    pub(super) go: f64,
    pub(super) user: u32,
}

/// When prices stop rising.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Values scale with prices, so only `X : Y` counts: on while `stay · supply_y > gone · supply_x`.
    Ratio {
        /// m·p of each side.
        x: f64,
        y: f64,
    },
    /// Money does not, and X's prices rise: on while `stay > s · supply`.
    Rise {
        /// m·p of X.
        supply: f64,
    },
    /// The same with Y's prices falling: on while `gone · s < supply`.
    Fall {
        /// m·p of Y.
        supply: f64,
    },
}

/// Where a search for the next price ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// At the candidate with this index; those before it have gone.
    At(usize),
    /// Between two departures, at this factor; so many candidates have gone.
    Between(usize, f64),
    /// Nowhere: Y's prices vanish.
    Never,
}

impl Rule {
    fn on(self, stay: f64, gone: f64, s: f64) -> bool {
        match self {
            Self::Ratio { x, y } => stay * y > gone * x,
            Self::Rise { supply } => stay > s * supply,
            Self::Fall { supply } => gone * s < supply,
        }
    }

    fn between(self, gone_count: usize, count: usize, stay: f64, gone: f64) -> Stop {
        let s = match self {
            // The same sums added in another order may disagree in the last digit: stop at the next departure.
            Self::Ratio { .. } if gone_count < count => return Stop::At(gone_count),
            Self::Ratio { .. } => return Stop::Never,
            Self::Rise { supply } => stay / supply,
            Self::Fall { supply } => supply / gone,
        };
        if s.is_finite() && s > 0.0 { Stop::Between(gone_count, s) } else { Stop::Never }
    }
}

/// Orders `candidates` as far as needed. `stay` is the demand that can never leave X, `gone` the demand on Y before
/// anybody leaves. `draw` gives a random number for the choice of pivots.
pub(super) fn search(
    candidates: &mut [Candidate],
    rule: Rule,
    (mut stay, mut gone): (f64, f64),
    mut draw: impl FnMut() -> u64,
) -> Stop {
    let (mut lo, mut hi) = (0, candidates.len());
    // Invariant: `gone` counts everybody before lo, `stay` everybody from hi on.
    while lo < hi {
        let pivot = candidates[lo + (draw() % (hi - lo) as u64) as usize].rho;
        let (below, equal) = part(&mut candidates[lo..hi], pivot);
        let (below, above) = (lo + below, lo + equal);
        let stays = |range: &[Candidate]| range.iter().map(|c| c.stay).sum::<f64>();
        let gone_before = gone + candidates[lo..below].iter().map(|c| c.go).sum::<f64>();
        let stay_above = stay + stays(&candidates[above..hi]);
        let equals = stays(&candidates[below..above]);
        if !rule.on(stay_above + equals, gone_before, pivot) {
            stay = stay_above + equals;
            hi = below;
            continue;
        }
        gone = gone_before;
        let mut waiting = equals;
        for q in below..above {
            waiting = if q + 1 == above { 0.0 } else { f64::max(waiting - candidates[q].stay, 0.0) };
            if !rule.on(stay_above + waiting, gone + candidates[q].go, pivot) {
                return Stop::At(q);
            }
            gone += candidates[q].go;
        }
        lo = above;
    }
    rule.between(lo, candidates.len(), stay, gone)
}

/// Parts into below, equal and above; returns where the last two begin.
fn part(range: &mut [Candidate], pivot: f64) -> (usize, usize) {
    let mut below = 0;
    for q in 0..range.len() {
        if range[q].rho < pivot {
            range.swap(q, below);
            below += 1;
        }
    }
    let mut equal = below;
    for q in below..range.len() {
        if range[q].rho <= pivot {
            range.swap(q, equal);
            equal += 1;
        }
    }
    (below, equal)
}
