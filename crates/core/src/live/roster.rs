//! The jobs of one class, in the order of their submission, and the service level at which the next one joins.
//!
//! Jobs come and go by the thousand while a class is large, so neither may look at all of its members:
//!
//! - *leaving* marks the member's entry, found by bisection; marks are swept once they are half of the entries;
//! - the *level*, the least virtual time of a member, is the head of a heap that is put right only when it is asked for. A
//!   member's virtual time only grows, so its entry is never too large, and the head is the least of all once it is true.
//!
//! Both are caches of what the jobs themselves say: they must never change a decision.

use super::{Jobs, NOBODY, Slot};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Members of a class. Never empty while the class lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    /// (number of the submission, slot) in order; [`NOBODY`] where one has left.
    entries: Vec<(u64, Slot)>,
    /// Entries before this one have all left.
    head: usize,
    members: usize,
    /// (virtual time as bits, slot): at least one entry for every member, not above its present virtual time. Numbers that are
    /// not negative have the order of their bits.
    levels: BinaryHeap<Reverse<(u64, Slot)>>,
}

impl Roster {
    /// Takes in a job: at the end where it was submitted after all others, at its place where it comes from another class.
    pub(crate) fn join(&mut self, joined: u64, slot: Slot, jobs: &Jobs) {
        let at = self.entries[self.head..].partition_point(|entry| entry.0 < joined);
        match self.entries.get_mut(self.head + at) {
            // It was here before.
            Some(entry) if entry.0 == joined => entry.1 = slot,
            _ => self.entries.insert(self.head + at, (joined, slot)),
        }
        self.members += 1;
        if self.levels.len() > 2 * self.members + 16 {
            let entry = |slot: Slot| Reverse((jobs.get(slot).virtual_seconds.to_bits(), slot));
            self.levels = self.iter().map(entry).collect();
        } else {
            self.levels.push(Reverse((jobs.get(slot).virtual_seconds.to_bits(), slot)));
        }
    }

    pub(crate) fn leave(&mut self, joined: u64) {
        let Ok(at) = self.entries[self.head..].binary_search_by_key(&joined, |entry| entry.0) else { return };
        self.entries[self.head + at].1 = NOBODY;
        self.members -= 1;
        while self.entries.get(self.head).is_some_and(|entry| entry.1 == NOBODY) {
            self.head += 1;
        }
        if self.entries.len() > 2 * self.members {
            self.entries.retain(|entry| entry.1 != NOBODY);
            self.head = 0;
        }
    }

    /// In order of submission.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + Clone + '_ {
        self.entries[self.head..].iter().map(|entry| entry.1).filter(|&slot| slot != NOBODY)
    }

    /// The oldest member.
    pub(crate) fn first(&self) -> Slot {
        self.entries[self.head].1
    }

    pub(crate) fn len(&self) -> usize {
        self.members
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// The least virtual time of a member; 0 if there is none.
    pub(crate) fn level(&mut self, jobs: &Jobs) -> f64 {
        let class = self.iter().next().map(|slot| jobs.get(slot).class);
        while let Some(mut head) = self.levels.peek_mut() {
            let Reverse((bits, slot)) = *head;
            match jobs.try_get(slot).filter(|job| Some(job.class) == class) {
                Some(job) if job.virtual_seconds.to_bits() == bits => return job.virtual_seconds,
                Some(job) => *head = Reverse((job.virtual_seconds.to_bits(), slot)),
                None => drop(std::collections::binary_heap::PeekMut::pop(head)),
            }
        }
        0.0
    }
}
