//! GPUs that stay free because the policy left them free on purpose.
//!
//! A frugal division in shares of time leaves GPUs free for two reasons that look alike in a round: it gave up their speed to save power, or whole gangs do not add up
//! to the shares this round. Giving all of them away hands back, at full power, what everybody gave up; keeping all of them free lets jobs wait for nothing. So nobody
//! is a class too: it has a claim of f GPUs on each kind,
//!
//!   f  =  min ( capacity − GPUs granted,   GPUs that those could use there who wait for more than they were granted )
//!
//! with a credit as other claims have one (`quota.rs`), in GPUs. It is served last, out of what no claim is due, so it never takes anybody's turn: in a round in which t = f + c,
//! ⌊t⌋ of the free GPUs stay free at most, and the rest is given away. What stays free is charged, whatever the reason. So over n rounds no more than n·f GPUs are kept
//! free while somebody could use them, and as many are where rounding leaves that many over. What is left free because nobody wants it is not kept.

use crate::allocate::{Allocation, Members, Problem};
use serde::{Deserialize, Serialize};

/// What nobody is owed, by kind; nothing for modes. Empty where the policy keeps no GPU free.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// f, GPUs at once on average.
    share: Vec<f64>,
    /// GPU rounds owed, never below zero.
    credit: Vec<f64>,
    /// What the last plan was charged.
    served: Vec<f64>,
}

/// Shares below this are a solver's rounding.
const MIN_SHARE: f64 = 1e-3;
/// No share or credit is larger: far more than any cluster has GPUs.
const MOST_GPUS: f64 = 1e12;

impl Kept {
    /// What a new answer leaves free, with the credits of the last.
    pub(super) fn renew(&mut self, problem: &Problem, allocation: &Allocation) {
        let k = problem.kinds();
        self.share = on_purpose(problem, allocation);
        self.credit.resize(k, 0.0);
        self.served.resize(k, 0.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.share.is_empty()
    }

    pub(super) fn keeps(&self, kind: usize) -> bool {
        self.share.get(kind).is_some_and(|share| *share > 0.0)
    }

    /// Whether it is about so many kinds, in numbers that can be reckoned with. What was restored or replayed may hold anything.
    fn is_sound(&self, kinds: usize) -> bool {
        let bounded = |values: &Vec<f64>| values.len() == kinds && values.iter().all(|x| (0.0..=MOST_GPUS).contains(x));
        bounded(&self.share) && bounded(&self.credit) && bounded(&self.served)
    }

    /// How many of these `free` GPUs are to stay free this round, by kind, after `skipped` rounds in which the last plan went on. Credits are kept within `limit` GPU
    /// rounds beyond the share: after a while in which claims took all GPUs nobody catches up in as many rounds as it takes for others to pass a place on.
    pub(super) fn due(&mut self, free: &[u32], skipped: u32, limit: f64) -> Vec<u32> {
        if !self.is_sound(free.len()) {
            *self = Self::default();
            return vec![0; free.len()];
        }
        let one = |j: usize| {
            let due = self.share[j] + self.credit[j] + f64::from(skipped) * (self.share[j] - self.served[j]);
            self.credit[j] = due.clamp(0.0, self.share[j] + limit);
            free[j].min(self.credit[j].floor() as u32)
        };
        (0..free.len()).map(one).collect()
    }

    /// Charges what stayed free after all.
    pub(super) fn charge(&mut self, free: &[u32]) {
        for ((credit, served), &free) in self.credit.iter_mut().zip(&mut self.served).zip(free) {
            *served = f64::from(free).min(*credit);
            *credit -= *served;
        }
    }
}

/// f of every kind.
fn on_purpose(problem: &Problem, allocation: &Allocation) -> Vec<f64> {
    let k = problem.kinds();
    let mut left = problem.capacity.clone();
    let mut waiting: Vec<f64> = problem.users.iter().map(|user| f64::from(user.jobs)).collect();
    for grant in allocation.grants() {
        let (first, second) = match grant.members {
            Members::One(u) => (u as usize, None),
            Members::Two(u, v) => (u as usize, Some(v as usize)),
        };
        let known = std::iter::once(first).chain(second).all(|u| u < waiting.len());
        if !known || grant.kind.index() >= k {
            continue;
        }
        let gang = if second.is_some() { 1 } else { problem.users[first].gang };
        left[problem.sold_as(grant.kind.index())] -= grant.gangs * f64::from(gang);
        std::iter::once(first).chain(second).for_each(|u| waiting[u] -= grant.gangs);
    }
    let mut wanted = vec![0.0; k];
    for (u, user) in problem.users.iter().enumerate() {
        let gpus = waiting[u].max(0.0) * f64::from(user.gang);
        (0..k).filter(|&j| problem.rates(u)[j] > 0.0).for_each(|j| wanted[j] += gpus);
    }
    let share = |j: usize| if problem.sold_as(j) == j { left[j].min(wanted[j]) } else { 0.0 };
    (0..k).map(share).map(|share| if share > MIN_SHARE { share.min(MOST_GPUS) } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(share: f64) -> Kept {
        Kept { share: vec![share], credit: vec![0.0], served: vec![0.0] }
    }

    /// Rounds with so many free GPUs each: how many are kept, all together.
    fn after(kept: &mut Kept, free: &[u32]) -> u32 {
        let round = |&free: &u32| {
            let due = kept.due(&[free], 0, 2.0)[0];
            kept.charge(&[due]);
            due
        };
        free.iter().map(round).sum()
    }

    #[test]
    fn as_many_stay_free_as_the_share_says_and_never_more() {
        assert_eq!(after(&mut kept(0.3), &[1; 100]), 30 - 1, "0.3 is a little less in binary");
        assert_eq!(after(&mut kept(2.5), &[8; 10]), 25);
        assert_eq!(after(&mut kept(0.0), &[8; 10]), 0);
    }

    #[test]
    fn what_was_taken_by_claims_is_made_up_for_within_a_limit() {
        let mut kept = kept(1.0);
        assert_eq!(after(&mut kept, &[0; 50]), 0);
        assert_eq!(after(&mut kept, &[9; 3]), 3 + 2, "its share, and what it may save up");
    }

    #[test]
    fn a_plan_that_went_on_counts_for_every_round() {
        let mut kept = kept(0.5);
        kept.due(&[4], 0, 2.0);
        kept.charge(&[0]);
        assert_eq!(kept.due(&[4], 3, 2.0)[0], 2, "four rounds of a half and the first");
    }

    #[test]
    fn nonsense_keeps_nothing() {
        for mut kept in [kept(f64::NAN), kept(-1.0), kept(1e300), Kept { credit: vec![f64::INFINITY], ..kept(1.0) }] {
            assert_eq!(kept.due(&[4], 0, 2.0), [0]);
            assert!(kept.is_empty());
        }
        assert_eq!(kept(1.0).due(&[4, 4], 0, 2.0), [0, 0], "another number of kinds");
    }
}
