//! How alike kinds are.

use crate::features::{Spec, spec};
use arles_core::{Fingerprint, Kind};

/// Distance of ln power limits at which two modes are unlike.
const LIMIT_LENGTH: f64 = 0.3;

/// What kinds have in common, two by two.
#[derive(Clone, Debug)]
pub(super) struct KindTable {
    kinds: Vec<KindMarks>,
}

#[derive(Clone, Copy, Debug)]
struct KindMarks {
    spec: Spec,
    maker: u64,
    sold_as: u64,
    ln_limit: f64,
}

/// Of two kinds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Likeness {
    /// One product, under whatever power limit.
    pub(super) same: bool,
    /// NVIDIA, AMD, ...: what specifications miss is shared by all of a maker.
    pub(super) maker: bool,
    /// How near specifications are, 0 to 1.
    pub(super) near: f64,
    /// The product of specifications.
    pub(super) product: f64,
    /// How near power limits are, 0 to 1.
    pub(super) limits: f64,
}

impl KindTable {
    pub(super) fn new(kinds: &[Kind]) -> Self {
        let mark = |text: &str| Fingerprint::of(text.as_bytes());
        let marks = |k: &Kind| KindMarks {
            spec: spec(k),
            maker: mark(k.product.split_whitespace().next().unwrap_or_default()),
            sold_as: mark(k.sold_as()),
            ln_limit: k.limit_watts().max(1.0).ln(),
        };
        Self { kinds: kinds.iter().map(marks).collect() }
    }

    pub(super) fn between(&self, one: usize, two: usize) -> Likeness {
        let (a, b) = (&self.kinds[one], &self.kinds[two]);
        let apart: f64 = a.spec.iter().zip(&b.spec).map(|(x, y)| (x - y) * (x - y)).sum();
        let product: f64 = a.spec.iter().zip(&b.spec).map(|(x, y)| x * y).sum();
        let limit = (a.ln_limit - b.ln_limit) / LIMIT_LENGTH;
        Likeness {
            same: a.sold_as == b.sold_as,
            maker: a.maker == b.maker,
            near: (-apart).exp(),
            product: product / a.spec.len() as f64,
            limits: (-0.5 * limit * limit).exp(),
        }
    }
}
