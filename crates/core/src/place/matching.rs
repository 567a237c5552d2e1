//! Which jobs share a GPU: for each pair of classes that was granted one, a job of either.
//!
//! Thousands of pairs may be of the same few classes, so no pair may look at a whole class again. Who can be chosen only ever
//! becomes fewer while a plan is made: a search goes on where the last one like it ended.

use super::View;
use super::quota::Quota;
use super::rounding::service;
use crate::KindId;
use crate::live::Slot;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// A job in the order of service; whoever has received least is the largest, then whoever has the lesser slot.
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

/// Couples in the making. Classes are named by their index in the quota.
pub(super) struct Matching<'p, 'a> {
    view: &'p View<'a>,
    quota: &'p Quota<'a>,
    /// By slot.
    coupled: Vec<bool>,
    /// Jobs of the first class on the kind beside one of the second, last one first.
    together: BTreeMap<(u32, u32, KindId), Vec<(Slot, Slot)>>,
    /// Jobs of a class, by what they have received if they go to the kind.
    turns: BTreeMap<(u32, KindId), BinaryHeap<Turn>>,
}

impl<'p, 'a> Matching<'p, 'a> {
    pub(super) fn new(view: &'p View<'a>, quota: &'p Quota<'a>) -> Self {
        let coupled = vec![false; view.jobs.slots()];
        Self { view, quota, coupled, together: BTreeMap::new(), turns: BTreeMap::new() }
    }

    /// Who is in a couple, by slot.
    pub(super) fn into_coupled(self) -> Vec<bool> {
        self.coupled
    }

    fn marry(&mut self, a: Slot, b: Slot) -> (Slot, Slot) {
        self.coupled[a as usize] = true;
        self.coupled[b as usize] = true;
        (a, b)
    }

    /// Two jobs, one of each class, that share a GPU of the kind already.
    pub(super) fn settled(&mut self, first: u32, second: u32, kind: KindId) -> Option<(Slot, Slot)> {
        let (view, quota) = (self.view, self.quota);
        let there =
            self.together.entry((first, second, kind)).or_insert_with(|| together(view, quota, first, second, kind));
        let coupled = &self.coupled;
        while let Some((a, b)) = there.pop() {
            if !coupled[a as usize] && !coupled[b as usize] {
                return Some(self.marry(a, b));
            }
        }
        None
    }

    /// One job of each class, whoever has received least.
    pub(super) fn due(&mut self, first: u32, second: u32, kind: KindId) -> Option<(Slot, Slot)> {
        let a = self.next(first, kind)?;
        // Nobody is its own partner.
        self.coupled[a as usize] = true;
        match self.next(second, kind) {
            Some(b) => Some(self.marry(a, b)),
            None => {
                self.coupled[a as usize] = false;
                if first == second {
                    // It was passed over as if it had one.
                    let service = service(self.view, a, Some(kind));
                    self.turns.entry((first, kind)).or_default().push(Turn { service, slot: a });
                }
                None
            }
        }
    }

    /// The job of a class that has received least and is in no couple. It stays where it is.
    fn next(&mut self, class: u32, kind: KindId) -> Option<Slot> {
        let (view, quota) = (self.view, self.quota);
        let turns = self.turns.entry((class, kind)).or_insert_with(|| {
            let free = quota.class(class).jobs.iter().filter(|&slot| view.plannable(slot));
            free.map(|slot| Turn { service: service(view, slot, Some(kind)), slot }).collect()
        });
        while let Some(&turn) = turns.peek() {
            if !self.coupled[turn.slot as usize] {
                return Some(turn.slot);
            }
            turns.pop();
        }
        None
    }
}

/// Jobs of the first class on the kind beside one of the second, last one first.
fn together(view: &View<'_>, quota: &Quota<'_>, first: u32, second: u32, kind: KindId) -> Vec<(Slot, Slot)> {
    let partners = view.jobs.get(quota.class(second).jobs.first()).class;
    let beside = |a: Slot| {
        let gang = view.jobs.get(a).phase.held().filter(|gang| gang.kind == kind)?;
        let fits = |&b: &Slot| b != a && view.jobs.get(b).class == partners && view.plannable(b);
        view.seats.on(gang.gpus[0]).find(fits).map(|b| (a, b))
    };
    let mut pairs: Vec<(Slot, Slot)> =
        quota.class(first).jobs.iter().filter(|&a| view.plannable(a)).filter_map(beside).collect();
    pairs.reverse();
    pairs
}
