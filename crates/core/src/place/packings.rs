//! Which gangs run beside each other.
//!
//! Shares of whole gangs can often be had only if the right gangs run at the same time: a gang of eight on one kind just while the single jobs that
//! share its GPUs run on another. Whoever found that shares are a mixture of *packings* (`allocate/whole.rs`) says which. The placer then serves
//! one of them first, or nobody where serving whoever is owed most is worth more: with t_c what is due to claim c, x_c its share and g_c its gangs that are
//! served, what is worth most is what makes most of
//!
//! ```text
//! Σ_c (1/x_c) Σ_{i < g_c} (t_c − i − ½)  =  ½ Σ_c (1/x_c) (t_c² − (t_c − g_c)²)
//! ```
//!
//! so what is owed, in rounds of everybody's share, falls most. Where shares are a mixture of the packings the weights of that mixture bring
//! Σ t²/x down on average whenever it is large, and the best packing does no worse than the average: what is owed stays bounded. So nobody has to remember
//! the weights, and an account that was disturbed (a job ended, a node was away) is put right by the same rule. As everywhere, a gang that runs
//! counts for a turn more.
//!
//! Nothing here serves anybody or knows GPUs: a packing that does not fit any more is served as far as it fits.

use super::quota::Claim;
use crate::KindId;
use crate::allocate::{Allocation, AtOnce, ClassId, Problem};
use serde::{Deserialize, Serialize};

/// Shares below this count as this much: who is owed a round in a hundred need not have it at once.
const LEAST_SHARE: f64 = 0.01;

/// Sets of gangs: of a class, on a kind, how many.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Packings(Vec<Vec<(ClassId, KindId, u32)>>);

impl Packings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of a new allocation, without whoever is not in `problem`: an allocation that was replayed has not come through its checker.
    pub(super) fn new(problem: &Problem, allocation: &Allocation) -> Self {
        let of_class =
            |&AtOnce(user, kind, gangs): &AtOnce| Some((problem.users.get(user as usize)?.class, kind, gangs));
        let packings = allocation.packings().iter();
        Self(packings.map(|packing| packing.iter().filter_map(of_class).collect()).collect())
    }

    /// The packing that is worth most: how much, and for every claim its gangs in it. `due` says what is due to a claim when so many of its gangs
    /// have been served, and nothing if it has no more. Claims are sorted by key.
    pub(super) fn best(&self, claims: &[Claim], due: impl Fn(&Claim, u32) -> Option<f64>) -> Option<(f64, Vec<u32>)> {
        let mut best: Option<(f64, Vec<u32>)> = None;
        for packing in &self.0 {
            let mut gangs = vec![0; claims.len()];
            for &(class, kind, most) in packing {
                if let Ok(at) = claims.binary_search_by_key(&(class, None, kind), Claim::key) {
                    gangs[at] = most;
                }
            }
            let worth = worth(claims, &gangs, &due);
            if best.as_ref().is_none_or(|(most, _)| worth > *most) {
                best = Some((worth, gangs));
            }
        }
        best
    }
}

/// By how much less is owed when so many gangs of every claim are served, see the module's head.
pub(super) fn worth(claims: &[Claim], gangs: &[u32], due: impl Fn(&Claim, u32) -> Option<f64>) -> f64 {
    let of_claim = |(claim, &gangs): (&Claim, &u32)| {
        let dues = (0..gangs).map_while(|gang| due(claim, gang));
        dues.map(|due| due - 0.5).sum::<f64>() / claim.share.max(LEAST_SHARE)
    };
    claims.iter().zip(gangs).map(of_claim).sum()
}
