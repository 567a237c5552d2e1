//! Several users at once: a handful of numbers that move in step, so that a formula written once for a user
//! compiles to vector instructions.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// Users per block.
pub(super) const LANES: usize = 4;

/// One number for each user of a block.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(align(32))]
pub(super) struct Lanes(pub(super) [f64; LANES]);

impl Lanes {
    pub(super) const ZERO: Self = Self::all(0.0);
    pub(super) const ONE: Self = Self::all(1.0);

    #[inline(always)]
    pub(super) const fn all(value: f64) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut out = self.0;
        for q in 0..LANES {
            out[q] = f(self.0[q], other.0[q]);
        }
        Self(out)
    }

    /// Lane by lane. A NaN in `self` is lost: callers find NaN in their sums.
    #[inline(always)]
    pub(super) fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    /// Lane by lane. A NaN in `self` is lost: callers find NaN in their sums.
    #[inline(always)]
    pub(super) fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    /// One where positive, zero elsewhere.
    #[inline(always)]
    pub(super) fn positive(self) -> Self {
        self.zip(self, |a, _| if a > 0.0 { 1.0 } else { 0.0 })
    }

    #[inline(always)]
    pub(super) fn sum(self) -> f64 {
        self.0.iter().sum()
    }

    pub(super) fn greatest(self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    pub(super) fn least(self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

macro_rules! lanewise {
    ($operation:ident, $name:ident, $sign:tt) => {
        impl $operation for Lanes {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                self.zip(other, |a, b| a $sign b)
            }
        }
    };
}

lanewise!(Add, add, +);
lanewise!(Sub, sub, -);
lanewise!(Mul, mul, *);
lanewise!(Div, div, /);

impl Neg for Lanes {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.zip(self, |a, _| -a)
    }
}

impl AddAssign for Lanes {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
