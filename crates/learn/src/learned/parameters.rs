//! The trained params, as one flat vector with names for its parts.
//!
//! What depends on a kind is a smooth function of its specification plus an offset of its own that training shrinks,
//! `base + slope·spec + offset`, so that a kind nobody has measured gets a value too.

use crate::features::{PSI, SPEC, Spec, spec};
use arles_core::Kind;
use serde::{Deserialize, Serialize};

/// Roles of a newcomer.
pub(super) const ROLES: usize = 2;
/// Parameters of a per-kind function that do not belong to one kind.
const SMOOTH: usize = 1 + SPEC;
/// Per-kind functions of each role: s, t, v, σ.
const FUNCTIONS: usize = 4;
/// Parameters of each role beside those.
const PLAIN: usize = 2 * PSI + 11;

/// Where a kind's share of a flat vector lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum PerKind {
    /// s: weight of similar workloads.
    Attention,
    /// t: how far their trend in batch is.
    Slope,
    /// v: how far the performance model is.
    Model,
    /// σ: ln of the standard error.
    StandardError,
}

/// A number of a role.
#[derive(Clone, Copy, Debug)]
pub(super) enum PerRole {
    /// ln θ_d.
    Theta(usize),
    /// ln η_d.
    Eta(usize),
    /// φ: what the same family adds to likeness.
    Family,
    /// ln λ: similarity at which attention reaches half its weight.
    Need,
    /// α, γ, ln h: ln of the gain on the same kind, its loss on another, and by distance of the two.
    Gain,
    Elsewhere,
    Apart,
    /// The same for the part of the gain that every partner shares.
    Shared,
    SharedElsewhere,
    SharedApart,
    /// c: what the other role's residual says.
    Cross,
    /// b: how standard error falls with likeness.
    Likeness,
    /// ln e: how standard error falls with what was observed.
    Observed,
}

/// All numbers, and the kinds that the offsets belong to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Parameters {
    /// Names of the kinds they were trained on.
    pub(super) kinds: Vec<String>,
    specs: Vec<Spec>,
    /// Whether anything was measured on them.
    pub(super) seen: Vec<bool>,
    pub(super) flat: Vec<f64>,
    /// What the standard error is multiplied by, so that intervals hold what they say: without and with a relative known.
    pub(super) conformal: [f64; 2],
}

impl PerRole {
    fn at(self) -> usize {
        match self {
            PerRole::Theta(d) => d,
            PerRole::Eta(d) => PSI + d,
            PerRole::Family => 2 * PSI,
            PerRole::Need => 2 * PSI + 1,
            PerRole::Gain => 2 * PSI + 2,
            PerRole::Elsewhere => 2 * PSI + 3,
            PerRole::Apart => 2 * PSI + 4,
            PerRole::Shared => 2 * PSI + 5,
            PerRole::SharedElsewhere => 2 * PSI + 6,
            PerRole::SharedApart => 2 * PSI + 7,
            PerRole::Cross => 2 * PSI + 8,
            PerRole::Likeness => 2 * PSI + 9,
            PerRole::Observed => 2 * PSI + 10,
        }
    }
}

impl Parameters {
    /// Initial values: similar workloads have full weight, gains are moderate, and the model has weight `model`.
    pub(super) fn start(kinds: &[Kind], model: f64) -> Self {
        let specs = kinds.iter().map(spec).collect();
        let names: Vec<String> = kinds.iter().map(|k| k.name.clone()).collect();
        let size = ROLES * (PLAIN + FUNCTIONS * (SMOOTH + names.len()));
        let seen = vec![false; names.len()];
        let mut params = Self { kinds: names, specs, seen, flat: vec![0.0; size], conformal: [1.0; 2] };
        for r in 0..ROLES {
            for d in 0..PSI {
                params.set(r, PerRole::Theta(d), 0.5f64.ln());
                params.set(r, PerRole::Eta(d), 0.3f64.ln());
            }
            for (plain, value) in [
                (PerRole::Family, 1.0),
                (PerRole::Need, 0.2f64.ln()),
                (PerRole::Gain, 0.0),
                (PerRole::Elsewhere, 1.5),
                (PerRole::Apart, -1.0),
                (PerRole::Shared, -1.0),
                (PerRole::SharedElsewhere, 1.0),
                (PerRole::SharedApart, -1.0),
                (PerRole::Cross, 0.0),
                (PerRole::Likeness, 0.3),
                (PerRole::Observed, -1.0),
            ] {
                params.set(r, plain, value);
            }
            for (function, base) in [
                (PerKind::Attention, 0.9),
                (PerKind::Slope, 0.5),
                (PerKind::Model, model),
                (PerKind::StandardError, 0.2f64.ln()),
            ] {
                let at = params.function_at(r, function);
                params.flat[at] = base;
            }
        }
        params
    }

    /// Whether there are as many numbers as the kinds say, all of them finite: what was read from a file may be anything, and numbers
    /// are looked up by position.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let finite = |numbers: &[f64]| numbers.iter().all(|x| x.is_finite());
        self.specs.len() == self.kinds.len()
            && self.seen.len() == self.kinds.len()
            && self.flat.len() == ROLES * self.width()
            && self.specs.iter().all(|spec| finite(spec))
            && finite(&self.flat)
            && self.conformal.iter().all(|x| x.is_finite() && *x >= 0.0)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flat.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flat.is_empty()
    }

    fn width(&self) -> usize {
        PLAIN + FUNCTIONS * (SMOOTH + self.kinds.len())
    }

    pub(super) fn index(&self, role: usize, plain: PerRole) -> usize {
        role * self.width() + plain.at()
    }

    pub(super) fn get(&self, role: usize, plain: PerRole) -> f64 {
        self.flat[self.index(role, plain)]
    }

    fn set(&mut self, role: usize, plain: PerRole, value: f64) {
        let at = self.index(role, plain);
        self.flat[at] = value;
    }

    fn function_at(&self, role: usize, function: PerKind) -> usize {
        role * self.width() + PLAIN + function as usize * (SMOOTH + self.kinds.len())
    }

    /// The value of a per-kind function for the `a`-th kind it was trained on.
    pub(super) fn of_kind(&self, role: usize, function: PerKind, a: usize) -> f64 {
        let at = self.function_at(role, function);
        self.smooth(at, &self.specs[a]) + self.flat[at + SMOOTH + a]
    }

    /// The same for any kind, and whether it was trained on it.
    pub(super) fn of_any(&self, role: usize, function: PerKind, kind: &Kind) -> (f64, bool) {
        match self.kinds.iter().position(|name| *name == kind.name) {
            Some(a) => (self.of_kind(role, function, a), self.seen[a]),
            None => (self.smooth(self.function_at(role, function), &spec(kind)), false),
        }
    }

    fn smooth(&self, at: usize, spec: &Spec) -> f64 {
        self.flat[at] + self.flat[at + 1..at + SMOOTH].iter().zip(spec).map(|(u, x)| u * x).sum::<f64>()
    }

    /// Adds the derivative with respect to a per-kind function's value to that of the numbers behind it.
    pub(super) fn push(&self, gradient: &mut [f64], role: usize, function: PerKind, a: usize, slope: f64) {
        let at = self.function_at(role, function);
        gradient[at] += slope;
        for (d, x) in self.specs[a].iter().enumerate() {
            gradient[at + 1 + d] += slope * x;
        }
        gradient[at + SMOOTH + a] += slope;
    }

    /// The numbers of v.
    pub(super) fn of_model(&self) -> impl Iterator<Item = usize> + '_ {
        (0..ROLES).flat_map(|r| {
            let at = self.function_at(r, PerKind::Model);
            at..at + SMOOTH + self.kinds.len()
        })
    }

    /// Parameters that are shrunk towards 0, with how strongly: what tells kinds apart.
    pub(super) fn shrunk(&self) -> Vec<(usize, f64)> {
        let mut shrunk = Vec::new();
        for r in 0..ROLES {
            for f in [PerKind::Attention, PerKind::Slope, PerKind::Model, PerKind::StandardError] {
                let at = self.function_at(r, f);
                shrunk.extend((at + 1..at + SMOOTH).map(|i| (i, 3e-2)));
                shrunk.extend((at + SMOOTH..at + SMOOTH + self.kinds.len()).map(|i| (i, 3e-3)));
            }
        }
        shrunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Library;

    #[test]
    fn numbers_of_another_length_are_not_sound() {
        let kinds = &Library::builtin().kinds()[..3];
        let whole = Parameters::start(kinds, 0.5);
        assert!(whole.is_sound());
        let wrong = |change: fn(&mut Parameters)| {
            let mut params = whole.clone();
            change(&mut params);
            assert!(!params.is_sound());
        };
        wrong(|params| params.flat.truncate(5));
        wrong(|params| params.flat.push(0.0));
        wrong(|params| params.flat.clear());
        wrong(|params| params.kinds.truncate(2));
        wrong(|params| params.specs.truncate(2));
        wrong(|params| params.seen.truncate(2));
        wrong(|params| params.flat[0] = f64::NAN);
        wrong(|params| params.conformal[1] = f64::INFINITY);
    }
}
