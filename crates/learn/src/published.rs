//! The published pair of networks, on a tensor library: P1 predicts the rates of a new workload beside a partner from those of the most
//! similar workloads; P2 corrects the prediction by measurements. They are here for comparison; `learned` is the recommended estimator.
//!
//! ```text
//! P1   Ψ_new, Ψ_k, Ψ_partner, spec(a), T(a, k, {k, j}), T(a, j, {k, j})  →  T̂(a, new, {new, j}), T̂(a, j, {new, j})
//! P2   Ψ_i, Ψ_p, Ψ_j, spec(a₁), spec(a₂), predicted and measured on (a₁, p), predicted on (a₂, j)  →  corrected on (a₂, j)
//! ```
//!
//! All T are logarithms of rates together over rates alone, at most 0. `initial.rs` has P1, feed-forward or recurrent (a GRU over the four most
//! similar), `refinement.rs` P2; `neighbours.rs` selects similar workloads, `standard_error.rs` has the standard errors. Kinds enter by their
//! specifications, never by name. Rates alone come from `solo.rs`; what fits, what was measured, gangs and watts from `method.rs`.
//!
//! Nothing here may look at held-out cells twice: the predictions that P2 and the standard errors are trained on come from networks that did not see
//! the case's family. Where a pair has no neighbours the performance model is used, with a large standard error.
//!
//! The tensor library is candle; `docs/learning-networks.md` has the comparison behind that choice. It is behind the feature `networks`;
//! only training uses it, and tensors occur in `net.rs` alone.

#[cfg(feature = "networks")]
mod frozen;
#[cfg(feature = "networks")]
mod initial;
#[cfg(feature = "networks")]
mod neighbours;
#[cfg(feature = "networks")]
mod net;
#[cfg(feature = "networks")]
mod pair;
#[cfg(feature = "networks")]
mod refinement;
#[cfg(feature = "networks")]
mod standard_error;

#[cfg(all(test, feature = "networks"))]
mod tests;

use crate::table::{EstimatorError, Setting};
use arles_core::estimate::Estimator;

/// `learned-rnn-ff`: a recurrent first network, a feed-forward second.
pub(crate) fn recurrent(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make(setting, true)
}

/// `learned-ff-ff`: both feed-forward.
pub(crate) fn forward(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError> {
    make(setting, false)
}

#[cfg(feature = "networks")]
fn make(setting: &Setting<'_>, recurrent: bool) -> Result<Box<dyn Estimator>, EstimatorError> {
    pair::make(setting, recurrent)
}

#[cfg(not(feature = "networks"))]
fn make(_: &Setting<'_>, recurrent: bool) -> Result<Box<dyn Estimator>, EstimatorError> {
    let name = if recurrent { "learned-rnn-ff" } else { "learned-ff-ff" };
    Err(EstimatorError(format!(
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
            let Err(EstimatorError(why)) = make(&setting) else { panic!("{name} was made of nothing") };
            assert!(why.contains(name) && why.contains("--features networks"), "{why}");
        }
    }
}
