//! The rounding placer of OEF: quotas per class and kind, then turns among alike jobs, then GPUs.
//!
//! Inside a class jobs take turns: the job that has received least service (in seconds on its fastest kind) goes first
//! and gets the fastest kind. A running job is preferred to a waiting one by the service of one turn, which is long
//! enough that restarts cost no more than a twentieth of the time.

use super::kept::Kept;
use super::matching::Matching;
use super::packings::Packings;
use super::quota::{Claim, Quota, give_back, refund, renew};
use super::seating::Seating;
use super::thrift::Thrift;
use super::{Plan, Standing, View};
use crate::KindId;
use crate::allocate::{Allocation, ClassId, FreeGpus, Problem};
use crate::live::{Class, Gang, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rounds shares to whole GPUs, round after round, by keeping account of what every class is owed.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Placer {
    /// In order of class and kind. This and the next are all the state there is: the rest is scratch space of one round.
    claims: Vec<Claim>,
    /// In which modes GPUs are given away.
    #[serde(default, skip_serializing_if = "Thrift::is_empty")]
    thrift: Thrift,
    /// Which GPUs are not given away.
    #[serde(default, skip_serializing_if = "Kept::is_empty")]
    kept: Kept,
    /// Which gangs run beside each other.
    #[serde(default, skip_serializing_if = "Packings::is_empty")]
    packings: Packings,
    #[serde(skip)]
    seating: Seating,
    /// Jobs of the class at hand: (service received, slot).
    #[serde(skip)]
    turns: Vec<(f64, Slot)>,
    #[serde(skip)]
    chosen: Vec<(Slot, KindId)>,
    /// Pairs of jobs that are to share a GPU.
    #[serde(skip)]
    pairs: Vec<(Slot, Slot, KindId)>,
}

impl Placer {
    /// Takes over a new allocation; `problem` is the one that it answers, and `free_gpus` what its policy wants done with GPUs that it leaves free.
    pub(crate) fn set_shares(&mut self, problem: &Problem, allocation: &Allocation, free_gpus: FreeGpus) {
        self.claims = renew(&self.claims, problem, allocation);
        self.thrift = Thrift::new(problem, allocation);
        self.packings = Packings::new(problem, allocation);
        match free_gpus {
            FreeGpus::KeptOnAverage => self.kept.renew(problem, allocation),
            FreeGpus::GivenAway | FreeGpus::Kept => self.kept = Kept::default(),
        }
    }

    /// Plans one round.
    pub(crate) fn place(&mut self, view: &View<'_>) -> Plan {
        let quota = Quota::new(view, (&self.thrift, &mut self.kept, &self.packings), &mut self.claims);
        self.choose(view, &quota);
        let mut plan = self.seating.seat(view, &self.chosen, &self.pairs);
        if self.seating.host.counts() {
            let class = |slot: Slot| view.jobs.get(slot).class;
            let unseated = self.seating.unseated.iter();
            refund(&mut self.claims, unseated.map(|&(a, b, kind)| (class(a), b.map(class), kind)));
            if !self.seating.unseated.is_empty() {
                self.seating.fill(view, &self.thrift, &quota.withheld, &mut plan);
            }
        }
        plan
    }

    /// Gives back what classes were charged for gangs, each of a kind, that were planned and then could not run after all.
    pub(crate) fn refund_alone(&mut self, gangs: impl Iterator<Item = (ClassId, KindId)>) {
        for (class, kind) in gangs {
            give_back(&mut self.claims, (class, None, kind));
        }
    }

    /// For `class`, by kind: its gangs at once on average (its share of time), and its credit.
    pub(crate) fn standing(&self, class: ClassId) -> Vec<Standing> {
        let of_class = self.claims.iter().filter(|c| c.first == class || c.second == Some(class));
        of_class.map(|c| Standing { kind: c.kind, gangs: c.share, credit: c.credit }).collect()
    }

    /// Picks the jobs that share GPUs; returns, by slot, who does (empty if nobody).
    fn pair_up(&mut self, view: &View<'_>, quota: &Quota<'_>) -> Vec<bool> {
        if quota.pairs.is_empty() {
            return Vec::new();
        }
        let mut matching = Matching::new(view, quota);
        // Jobs that share a GPU already go on sharing it; only then are new pairs made.
        let mut apart = Vec::new();
        for &(first, second, kind) in &quota.pairs {
            match matching.running_pair(first, second, kind) {
                Some((a, b)) => self.pairs.push((a, b, kind)),
                None => apart.push((first, second, kind)),
            }
        }
        for (first, second, kind) in apart {
            self.pairs.extend(matching.next_pair(first, second, kind).map(|(a, b)| (a, b, kind)));
        }
        matching.into_paired()
    }

    /// Whether GPUs of a kind are kept free although somebody could use them.
    pub(crate) fn keeps_free(&self, kind: KindId) -> bool {
        self.kept.keeps(kind.index())
    }

    /// Gangs at once, on average, of every class that is owed any: what [`Placer::standing`] adds up to.
    pub(crate) fn gangs_by_class(&self) -> BTreeMap<ClassId, f64> {
        let mut gangs = BTreeMap::new();
        for claim in &self.claims {
            for class in std::iter::once(claim.first).chain(claim.second.filter(|&second| second != claim.first)) {
                *gangs.entry(class).or_insert(0.0) += claim.share;
            }
        }
        gangs
    }

    /// The kinds of every class that is owed any, in the order of its claims.
    pub(crate) fn kinds_by_class(&self) -> BTreeMap<ClassId, Vec<KindId>> {
        let mut kinds: BTreeMap<ClassId, Vec<KindId>> = BTreeMap::new();
        for claim in &self.claims {
            for class in std::iter::once(claim.first).chain(claim.second.filter(|&second| second != claim.first)) {
                kinds.entry(class).or_default().push(claim.kind);
            }
        }
        kinds
    }

    /// Checks a placer that was read from a snapshot against the number of kinds of the cluster.
    ///
    /// # Errors
    /// A sentence about the first claim that does not fit.
    pub(crate) fn check(&self, kinds: usize) -> Result<(), String> {
        match self.claims.iter().find(|claim| claim.kind.index() >= kinds) {
            Some(claim) => Err(format!("a share of {} is written down; the cluster has {kinds} kinds", claim.kind)),
            None => Ok(()),
        }
    }

    /// Picks the jobs that fill the quotas.
    fn choose(&mut self, view: &View<'_>, quota: &Quota<'_>) {
        self.chosen.clear();
        self.pairs.clear();
        let paired = self.pair_up(view, quota);
        for (index, class, gangs) in quota.classes() {
            let wanted: u32 = gangs.iter().sum();
            if wanted == 0 {
                continue;
            }
            if let Some(only) = only_kind(gangs)
                && wanted as usize == class.jobs.len()
                && paired.is_empty()
            {
                // Everybody runs, and there is nothing to choose.
                self.chosen.extend(class.jobs.iter().map(|slot| (slot, only)));
                continue;
            }
            self.turns.clear();
            let candidates = quota.next(view, index, wanted as usize, &paired);
            self.turns.extend(candidates.map(|slot| (service(view, slot, None), slot)));
            take_turns(view, class, gangs, wanted as usize, &mut self.turns, &mut self.chosen);
        }
    }
}

/// The only kind with a quota, if there is just one.
fn only_kind(gangs: &[u32]) -> Option<KindId> {
    let mut kinds = gangs.iter().zip(0..).filter(|(g, _)| **g > 0).map(|(_, j)| KindId(j));
    kinds.next().filter(|_| kinds.next().is_none())
}

/// Service received, less the advantage of a job that runs (on `kind`, if one is named).
pub(super) fn service(view: &View<'_>, slot: Slot, kind: Option<KindId>) -> f64 {
    let job = view.jobs.get(slot);
    let same = |gang: &Gang, kind| view.cluster.sold_as(gang.kind) == view.cluster.sold_as(kind);
    let stays = job.phase.held().is_some_and(|gang| kind.is_none_or(|kind| same(gang, kind)));
    let advantage = if stays { view.turn_seconds(job.spec.restart_seconds) } else { 0.0 };
    job.virtual_seconds - advantage
}

/// Fills a class's quota `gangs` (by kind) from `turns`: least service first, fastest kind first.
fn take_turns(
    view: &View<'_>,
    class: &Class,
    gangs: &[u32],
    wanted: usize,
    turns: &mut Vec<(f64, Slot)>,
    chosen: &mut Vec<(Slot, KindId)>,
) {
    let by_service = |a: &(f64, Slot), b: &(f64, Slot)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if wanted < turns.len() {
        turns.select_nth_unstable_by(wanted, by_service);
        turns.truncate(wanted);
    }
    if let Some(only) = only_kind(gangs) {
        return chosen.extend(turns.drain(..).map(|(_, slot)| (slot, only)));
    }
    for &kind in &class.fastest_first {
        let count = (gangs[kind.index()] as usize).min(turns.len());
        if count > 0 && count < turns.len() {
            for turn in turns.iter_mut() {
                turn.0 = service(view, turn.1, Some(kind));
            }
            turns.select_nth_unstable_by(count, by_service);
        }
        chosen.extend(turns.drain(..count).map(|(_, slot)| (slot, kind)));
    }
}
