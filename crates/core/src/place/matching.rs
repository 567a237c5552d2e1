//! Which jobs share a GPU: for each pair of classes that was granted one, a job of each.
//!
//! Thousands of pairs may be of the same few classes, so a search must not scan a whole class again. The set of candidates only
//! shrinks while a plan is made, so each search goes on where the last one of its kind ended.

use super::View;
use super::quota::Quota;
use super::rounding::service;
use crate::KindId;
use crate::live::Slot;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// A job in the order of service: the job that has received least is the largest, then the one with the smaller slot.
#[derive(Clone, Copy, Debug)]
struct Turn {
    service: f64,
    slot: Slot,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        other.service.total_cmp(&self.service).then(other.slot.cmp(&self.slot))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Turn {}

/// Pairs of jobs being chosen. Classes are named by their index in the quota.
pub(super) struct Matching<'p, 'a> {
    view: &'p View<'a>,
    quota: &'p Quota<'a>,
    /// By slot.
    paired: Vec<bool>,
    /// Jobs of the first class that run on the kind beside one of the second, last one first.
    together: BTreeMap<(u32, u32, KindId), Vec<(Slot, Slot)>>,
    /// Jobs of a class, by what they have received if they go to the kind.
    turns: BTreeMap<(u32, KindId), BinaryHeap<Turn>>,
}

impl<'p, 'a> Matching<'p, 'a> {
    pub(super) fn new(view: &'p View<'a>, quota: &'p Quota<'a>) -> Self {
        let paired = vec![false; view.jobs.slots()];
        Self { view, quota, paired, together: BTreeMap::new(), turns: BTreeMap::new() }
    }

    /// Which jobs are in a pair, by slot.
    pub(super) fn into_paired(self) -> Vec<bool> {
        self.paired
    }

    fn pair(&mut self, a: Slot, b: Slot) -> (Slot, Slot) {
        self.paired[a as usize] = true;
        self.paired[b as usize] = true;
        (a, b)
    }

    /// Two jobs, one of each class, that share a GPU of the kind already.
    pub(super) fn running_pair(&mut self, first: u32, second: u32, kind: KindId) -> Option<(Slot, Slot)> {
        let (view, quota) = (self.view, self.quota);
        let there =
            self.together.entry((first, second, kind)).or_insert_with(|| together(view, quota, first, second, kind));
        let paired = &self.paired;
        while let Some((a, b)) = there.pop() {
            if !paired[a as usize] && !paired[b as usize] {
                return Some(self.pair(a, b));
            }
        }
        None
    }

    /// One job of each class: those that have received least.
    pub(super) fn next_pair(&mut self, first: u32, second: u32, kind: KindId) -> Option<(Slot, Slot)> {
        let a = self.next(first, kind)?;
        // A job is not its own partner.
        self.paired[a as usize] = true;
        match self.next(second, kind) {
            Some(b) => Some(self.pair(a, b)),
            None => {
                self.paired[a as usize] = false;
                if first == second {
                    // The search for the second job has passed it over: put it back.
                    let service = service(self.view, a, Some(kind));
                    self.turns.entry((first, kind)).or_default().push(Turn { service, slot: a });
                }
                None
            }
        }
    }

    /// The job of a class that has received least and is in no pair yet. It stays in the queue.
    fn next(&mut self, class: u32, kind: KindId) -> Option<Slot> {
        let (view, quota) = (self.view, self.quota);
        let turns = self.turns.entry((class, kind)).or_insert_with(|| {
            // Two jobs for each pair, and as many may be in pairs already.
            let free = quota.next(view, class, 4 * quota.pairs.len() + 2, &[]);
            free.map(|slot| Turn { service: service(view, slot, Some(kind)), slot }).collect()
        });
        while let Some(&turn) = turns.peek() {
            if !self.paired[turn.slot as usize] {
                return Some(turn.slot);
            }
            turns.pop();
        }
        None
    }
}

/// Jobs of the first class that run on the kind beside one of the second, last one first.
fn together(view: &View<'_>, quota: &Quota<'_>, first: u32, second: u32, kind: KindId) -> Vec<(Slot, Slot)> {
    let partners = quota.id(second);
    let beside = |a: Slot| {
        let same = |gang: &&crate::live::Gang| view.cluster.sold_as(gang.kind) == view.cluster.sold_as(kind);
        let gang = view.jobs.get(a).phase.held().filter(same)?;
        let fits = |&b: &Slot| b != a && view.jobs.get(b).class == partners && view.plannable(b);
        view.seats.on(gang.gpus[0]).find(fits).map(|b| (a, b))
    };
    let mut pairs: Vec<(Slot, Slot)> = quota.holders(first).filter_map(beside).collect();
    pairs.reverse();
    pairs
}
