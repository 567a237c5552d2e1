//! A variable and its reduced cost, the two numbers whose product an interior point drives to zero.
//!
//! All four kinds of variable of the program move by the same formulas, so they are written once. For a pair
//! `(x, r)` and a step `dr` of the reduced cost, Newton's equation `r dx + x dr = ξ` gives `dx = ξ/r − θ dr` with
//! `θ = x/r`. Relative to the values themselves, with `γ = dr/r`:
//!
//! ```text
//! predictor  ξ = −x r                          dx/x = −1 − γ
//! corrector  ξ = σκ − x r − ω dx_a dr_a        dx/x = σκ/(x r) + ω γ_a (1 + γ_a) − γ − 1
//! ```
//!
//! (κ is the mean product; ω is how much of the predictor's curvature to believe) since the predictor's `dx_a dr_a` is `−x r γ_a (1 + γ_a)`. A pair that is not there (a rate of zero, a user
//! without a cap, a padded lane) has mask 0: then `1/(x r)` is stored as 0, every derived quantity vanishes, and
//! the pair stands still.

use super::lanes::Lanes;

/// One pair for each user of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// x
    pub(super) primal: Lanes,
    /// r
    pub(super) dual: Lanes,
    /// x/r
    pub(super) theta: Lanes,
    /// 1/(x r)
    inverse: Lanes,
    /// γ_a (1 + γ_a), what the corrector repairs
    bend: Lanes,
    /// dx/x
    primal_step: Lanes,
    /// dr/r
    dual_step: Lanes,
}

impl Pair {
    /// A pair at its starting point.
    pub(super) fn new(primal: Lanes, dual: Lanes) -> Self {
        let zero = Lanes::ZERO;
        Self { primal, dual, theta: zero, inverse: zero, bend: zero, primal_step: zero, dual_step: zero }
    }

    /// Takes the step that `correct` found, `stride` of the way.
    #[inline(always)]
    pub(super) fn advance(&mut self, stride: Stride) {
        self.primal += self.primal * self.primal_step * Lanes::all(stride.primal);
        self.dual += self.dual * self.dual_step * Lanes::all(stride.dual);
    }

    /// Computes θ; returns `x r`.
    #[inline(always)]
    pub(super) fn weigh(&mut self, mask: Lanes) -> Lanes {
        let product = self.primal * self.dual;
        self.inverse = mask / product;
        self.theta = self.primal * self.primal * self.inverse;
        product * mask
    }

    /// Takes note of the predictor's step `dr` in `reach` and for the corrector.
    #[inline(always)]
    pub(super) fn predict(&mut self, dr: Lanes, reach: &mut Reach) {
        let gamma = dr * self.primal * self.inverse;
        let weighed = self.primal * self.dual * gamma;
        reach.greatest = reach.greatest.max(gamma);
        reach.least = reach.least.min(gamma);
        reach.first += weighed;
        reach.second += weighed * gamma;
        self.bend = gamma * (Lanes::ONE + gamma);
    }

    /// `v = (ξ + x r)/r` of the corrector.
    #[inline(always)]
    pub(super) fn pull(&self) -> Split {
        Split { bend: self.primal * self.bend, centre: self.primal * self.inverse }
    }

    /// Settles the corrector's step, given `dr`.
    #[inline(always)]
    pub(super) fn correct(&mut self, dr: Lanes, aim: Aim, mask: Lanes, limits: &mut Limits) {
        let gamma = dr * self.primal * self.inverse;
        let relative = Lanes::all(aim.centre) * self.inverse + Lanes::all(aim.bend) * self.bend - gamma - mask;
        let product = self.primal * self.dual;
        limits.primal = limits.primal.min(relative);
        limits.dual = limits.dual.min(gamma);
        limits.by_primal += product * relative;
        limits.by_dual += product * gamma;
        limits.by_both += product * relative * gamma;
        self.primal_step = relative;
        self.dual_step = gamma;
    }
}

/// How far along a step to go: primal and dual variables have their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stride {
    pub(super) primal: f64,
    pub(super) dual: f64,
}

impl Stride {
    /// The same length for both.
    pub(super) fn common(self) -> Self {
        let least = self.primal.min(self.dual);
        Self { primal: least, dual: least }
    }
}

/// What the corrector aims at: its products should be σκ, and this much of the predictor's bend is to be repaired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// σκ
    pub(super) centre: f64,
    /// ω
    pub(super) bend: f64,
}

impl Aim {
    /// The value of a split quantity under this aim.
    #[inline(always)]
    pub(super) fn of(self, split: Split) -> Lanes {
        Lanes::all(self.bend) * split.bend + Lanes::all(self.centre) * split.centre
    }
}

/// A quantity of the form `ω bend + σκ centre`, while ω and σ are not yet chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) bend: Lanes,
    pub(super) centre: Lanes,
}

impl Split {
    pub(super) const ZERO: Self = Self { bend: Lanes::ZERO, centre: Lanes::ZERO };

    /// Both parts by the same rule.
    #[inline(always)]
    pub(super) fn zip(self, other: Self, rule: impl Fn(Lanes, Lanes) -> Lanes) -> Self {
        Self { bend: rule(self.bend, other.bend), centre: rule(self.centre, other.centre) }
    }
}

/// What the predictor's step would do to all pairs together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    greatest: Lanes,
    least: Lanes,
    first: Lanes,
    second: Lanes,
}

impl Reach {
    pub(super) const NONE: Self =
        Self { greatest: Lanes::ZERO, least: Lanes::ZERO, first: Lanes::ZERO, second: Lanes::ZERO };

    /// The sum of products after going as far as the predictor can: `Σ x (1 − α(1+γ)) r (1 + δγ)` with the greatest
    /// `α, δ ≤ 1` that keep everything non-negative.
    pub(super) fn gap_after(&self, gap: f64) -> f64 {
        let alpha = 1.0 / (1.0 + self.greatest.greatest());
        let delta = 1.0 / (-self.least.least()).max(1.0);
        let (first, second) = (self.first.sum(), self.second.sum());
        (1.0 - alpha) * gap + (delta * (1.0 - alpha) - alpha) * first - alpha * delta * second
    }
}

/// What the corrector's step would do to all pairs together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    primal: Lanes,
    dual: Lanes,
    by_primal: Lanes,
    by_dual: Lanes,
    by_both: Lanes,
}

impl Limits {
    pub(super) const NONE: Self = Self {
        primal: Lanes::ZERO,
        dual: Lanes::ZERO,
        by_primal: Lanes::ZERO,
        by_dual: Lanes::ZERO,
        by_both: Lanes::ZERO,
    };

    /// The longest stride, at most 1, that goes no more than `share` of the way to the boundary.
    pub(super) fn stride(&self, share: f64) -> Stride {
        let reach = |least: Lanes| (share / (-least.least()).max(f64::MIN_POSITIVE)).min(1.0);
        Stride { primal: reach(self.primal), dual: reach(self.dual) }
    }

    /// The sum of products after `stride`; NaN if any step is.
    pub(super) fn gap_after(&self, gap: f64, stride: Stride) -> f64 {
        let Stride { primal, dual } = stride;
        gap + primal * self.by_primal.sum() + dual * self.by_dual.sum() + primal * dual * self.by_both.sum()
    }
}
