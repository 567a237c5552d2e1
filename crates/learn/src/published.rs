//! The published pair of networks, on a tensor library: P1 guesses what a new workload does beside a partner from what those most like it
//! do; P2 corrects the guess by what is measured. They are here to be compared with: `learned` is what ships.
//!
//! ```text
//! P1   Ψ_new, Ψ_like, Ψ_partner, spec(a), T(a, like, {like, j}), T(a, j, {like, j})  →  T̂(a, new, {new, j}), T̂(a, j, {new, j})
//! P2   Ψ_i, Ψ_p, Ψ_j, spec(a₁), spec(a₂), believed and measured on (a₁, p), believed on (a₂, j)  →  corrected on (a₂, j)
//! ```
//!
//! All T are logarithms of rates together over rates alone, at most 0. `first.rs` has P1, feed-forward or recurrent (a GRU over the four most
//! similar), `second.rs` P2; `witness.rs` says who speaks for whom, `standard_error.rs` how far to trust it. Kinds enter by their specifications,
//! never by name. Rates alone are everybody's (`solo.rs`); what does not fit, what was measured, gangs and watts are the shell's (`method.rs`).
//!
//! Nothing here may look at held-out cells twice: the beliefs that P2 and the standard errors learn from come from networks that did not see the
//! case's family. Where nobody speaks for a pair the performance model does, with a large standard error.
//!
//! **Why candle.** Measured on two cores that other builds shared, hence CPU time; the table is in `docs/learning-networks.md`. Compiling from
//! nothing: candle 0.9.2 258 s, burn 0.18 (ndarray) 144 s. A training step on one core, six rounds of each in turn: 48-48 on 512 rows 2.0–2.5
//! against 2.4–3.0 ms, a GRU of 32 over 4 steps 10.7–11.7 against 9.8–13.5 ms. Packages in the lock file: 93 against 329. Both are
//! the newest that Rust 1.88 and cargo alone can build (candle 0.10 brings a C library, 0.11 needs 1.89 or later); candle is then two releases
//! behind, burn four, and burn's newest wants 1.95. So burn compiles faster,
//! candle brings a third of the packages, steps a little faster, and is nearer to its present. The library is behind
//! the feature `networks`; only training uses it, and tensors are met in `net.rs` alone.

#[cfg(feature = "networks")]
mod first;
#[cfg(feature = "networks")]
mod frozen;
#[cfg(feature = "networks")]
mod net;
#[cfg(feature = "networks")]
mod pair;
#[cfg(feature = "networks")]
mod second;
#[cfg(feature = "networks")]
mod standard_error;
#[cfg(feature = "networks")]
mod witness;

#[cfg(all(test, feature = "networks"))]
mod tests;

use crate::table::{Setting, Unfit};
use arles_core::estimate::Estimator;

/// `learned-rnn-ff`: a recurrent first network, a feed-forward second.
pub(crate) fn recurrent(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, Unfit> {
    make(setting, true)
}

/// `learned-ff-ff`: both feed-forward.
pub(crate) fn forward(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, Unfit> {
    make(setting, false)
}

#[cfg(feature = "networks")]
fn make(setting: &Setting<'_>, recurrent: bool) -> Result<Box<dyn Estimator>, Unfit> {
    pair::make(setting, recurrent)
}

#[cfg(not(feature = "networks"))]
fn make(_: &Setting<'_>, recurrent: bool) -> Result<Box<dyn Estimator>, Unfit> {
    let name = if recurrent { "learned-rnn-ff" } else { "learned-ff-ff" };
    Err(Unfit(format!(
        "'{name}' needs a tensor library that this arles was built without; build with '--features networks', or use 'learned'"
    )))
}

#[cfg(all(test, not(feature = "networks")))]
mod tests {
    use super::*;
    use crate::Catalog;

    #[test]
    fn without_the_library_a_sentence() {
        let catalog = Catalog::default();
        let setting = Setting { kinds: &[], workloads: &[], catalog: &catalog, seed: 1, progress: &|_| {} };
        for (make, name) in [(recurrent as fn(&Setting<'_>) -> _, "learned-rnn-ff"), (forward, "learned-ff-ff")] {
            let Err(Unfit(why)) = make(&setting) else { panic!("{name} was made of nothing") };
            assert!(why.contains(name) && why.contains("--features networks"), "{why}");
        }
    }
}
